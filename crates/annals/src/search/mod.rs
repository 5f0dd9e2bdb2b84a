//! Full-text search: queries, matching, and ranking of hits.
//!
//! A query is a condition on records. [`Store::search`](crate::store::Store::search) scans the logs.
//! An index only selects candidates, which are checked against the same records. So the hits are the
//! same with and without it.
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

mod ascii_matcher;
mod matcher;
mod newest;
mod prefilter;
mod query;
mod results;
mod scan;
mod searchable_text;
mod session_filter;
mod snippet;
mod term_matcher;
pub(crate) mod tokenizer;

use crate::error::Result;
use crate::store::{Inventory, Store};

pub(crate) use matcher::Matcher;
pub(crate) use newest::Selection;
pub use query::{Dialect, Order, Query, Term, TextPart};
pub(crate) use query::{Filter, TermKind};
pub(crate) use results::read_entry;
pub use results::{Hit, SearchResults};
pub(crate) use scan::{ScanPlan, SearchRun, SearchSource};
pub(crate) use searchable_text::{extra_text, text_pieces};

/// Returns true to end a search early.
pub(crate) type StopFn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Receives hits as they are found.
pub(crate) type HitsFn<'a> = &'a mut dyn FnMut(&[Hit]);

/// Searches all sessions of an inventory by scanning their logs. Ends early when `stop` returns true.
///
/// With `give`, or if the query has a bound, the newest logs are scanned first.
pub(crate) fn search_logs(
    inventory: &Inventory,
    query: &Query,
    stop: StopFn<'_>,
    give: Option<HitsFn<'_>>,
) -> Result<SearchResults> {
    let mut run = SearchRun::new(inventory, query)?;
    if give.is_some() || query.first.is_some() {
        return Ok(run.run_newest(&mut |_, sources| Selection::all(sources), stop, give));
    }
    let plans = run.sources.iter().map(|_| ScanPlan::ALL).collect();
    Ok(run.run(plans, stop))
}

impl Store {
    /// Searches all sessions of an inventory.
    ///
    /// With an index, only records that may match are read, and text that is not indexed yet.
    /// `Index::update_text` indexes it.
    pub fn search(&self, inventory: &Inventory, query: &Query) -> Result<SearchResults> {
        self.search_until(inventory, query, &|| false)
    }

    /// Like [`Self::search`], but ends early when `stop` returns true.
    pub(crate) fn search_until(
        &self,
        inventory: &Inventory,
        query: &Query,
        stop: StopFn<'_>,
    ) -> Result<SearchResults> {
        self.search_with(inventory, query, stop, None)
    }

    /// Like [`Self::search`], but searches the logs that were written to last first, passes hits to
    /// `on_hits` as they are found, and ends early when `stop` returns true. The results have them too, ranked. Without
    /// [`Query::first`], all hits are found.
    pub fn search_each(
        &self,
        inventory: &Inventory,
        query: &Query,
        stop: StopFn<'_>,
        on_hits: HitsFn<'_>,
    ) -> Result<SearchResults> {
        self.search_with(inventory, query, stop, Some(on_hits))
    }

    #[cfg(not(feature = "index"))]
    fn search_with(
        &self,
        inventory: &Inventory,
        query: &Query,
        stop: StopFn<'_>,
        give: Option<HitsFn<'_>>,
    ) -> Result<SearchResults> {
        search_logs(inventory, query, stop, give)
    }
}
