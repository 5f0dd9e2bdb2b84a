//! Finding what was said: queries, what they match, and in which order it comes.
//!
//! A query is a condition on records. [`Store::search`] looks at the logs themselves; a
//! [`Catalogue`](crate::index::Catalogue) only says where looking is worthwhile, and what it says is
//! confirmed by the same records. So both give the same answer.
//!
//! ```
//! use annals::search::{Dialect, Query};
//! # use annals::store::{Root, Store};
//! # let dir = tempfile::tempdir()?;
//! # let store = Store::new(vec![Root::claude_code(dir.path())]);
//!
//! let query = Query::parse("\"connection reset\" role:user after:30d", &Dialect::default())?;
//! let found = store.search(&store.inventory(), &query)?;
//! for hit in &found.hits {
//!     println!("{} line {}: {}", hit.file.display(), hit.line, hit.snippet);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod facts;
mod finder;
mod hit;
mod hunt;
mod matcher;
mod plain;
mod prefilter;
mod query;
mod snippet;
mod subject;
pub(crate) mod word;

use crate::error::Result;
use crate::store::{Inventory, Store};

pub use hit::{Found, Hit};
pub(crate) use hunt::{Hunt, Plan};
pub(crate) use matcher::Matcher;
pub use query::{Dialect, Filter, Order, Part, Query, Speaker, Term, TermKind, Wanted};
pub(crate) use subject::{beside, pieces};

impl Store {
    /// Looks for something in all sessions of an inventory.
    pub fn search(&self, inventory: &Inventory, query: &Query) -> Result<Found> {
        let hunt = Hunt::new(inventory, query)?;
        let plans = hunt.sources.iter().map(|_| Plan::ALL).collect();
        Ok(hunt.run(plans))
    }
}
