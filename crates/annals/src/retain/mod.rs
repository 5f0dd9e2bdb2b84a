//! Retention of sessions: policies, pins, and plans to clean up.
//!
//! Decides whether a session has expired. Its age is that of its newest entry, including
//! sub-agents. File times are unreliable, because copied and touched files have new ones; they
//! count only if no record has a time, or if the layout's own program uses them
//! (`LayoutSpec::ages_by_file`). The state `expired` in lists uses the same time. Expired sessions move
//! to the trash of the [`store`](crate::store); only purging the trash deletes anything.
//!
//! ```
//! use annals::retain::{CleanupPlan, Policy, Term};
//! use annals::store::{Root, Store};
//! use annals::time_input::Now;
//! # let dir = tempfile::tempdir()?;
//! # let store = Store::new(vec![Root::claude_code(dir.path().join("root"))]).with_state(dir.path());
//! let now = Now { time: jiff::Timestamp::now(), zone: jiff::tz::TimeZone::UTC };
//! let policy = Policy::new(Term::parse("30d").ok_or("no term")?);
//! let inventory = store.inventory_without_archive();
//! let rows = store.sessions(&inventory).read(&|_, _| ()).into_iter().flatten().collect();
//!
//! let plan = CleanupPlan::new(&inventory, rows, &policy, &store.retention().pins()?, &now, &|_| true);
//! for group in &plan.groups {
//!     store.retention().clean(group, false, now.time)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clean;
mod leftover;
mod pins;
mod plan;
mod policy;
mod term;

pub use leftover::Leftover;
pub use pins::{Pin, Pins};
pub use plan::{CleanupPlan, Expired, RetainReason, Retained};
pub use policy::{Policy, Rule};
pub use term::Term;

use crate::store::Store;

/// The retention of a store's sessions: pins, and cleaning up what has expired.
#[derive(Clone, Copy, Debug)]
pub struct Retention<'a> {
    store: &'a Store,
}

impl Store {
    /// Returns the retention of sessions.
    pub fn retention(&self) -> Retention<'_> {
        Retention { store: self }
    }
}
