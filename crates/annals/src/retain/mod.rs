//! How long sessions are kept: policies, pins, and plans of what is old.
//!
//! Owns what decides whether a session is old. How old it is, its records tell: when its newest entry
//! was written, sub-agents included. The time of a file says little, because copies have new ones and
//! so has what was touched; it counts only where no record has a time, or where the layout's own
//! program goes by it (`Layout::ages_by_file`). The state `expired` of a list goes by the same time. What is old moves to the trash
//! of the [`store`](crate::store), whose purge alone removes anything.
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
//! let rows = store.sessions(&inventory, &|_, _| ()).into_iter().flatten().collect();
//!
//! let plan = CleanupPlan::new(&inventory, rows, &policy, &store.pins()?, &now, &|_| true);
//! for group in &plan.groups {
//!     store.clean(group, false, now.time)?;
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
