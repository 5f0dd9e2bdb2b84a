//! The questions that every surface asks: a program, a server, a binding for another language.
//!
//! A [`Service`] is a [`Store`] with an index, prices, a clock and a time zone. Its rows serialise
//! as `--json` prints them ([`view`](crate::view)). It can be shared between threads.
//!
//! What could not be read is not an error: it is reported to [`Store::failures`], and the caller
//! takes it from there after each question. Progress is not reported.
//!
//! ```
//! use annals::service::{Service, SessionsRequest};
//! use annals::store::{Root, Store};
//! # let dir = tempfile::tempdir()?;
//! # let store = Store::new(vec![Root::claude_code(dir.path())]);
//! # store.begin("/home/me/app")?.append(annals::model::Draft::user("Why?"))?;
//!
//! let service = Service::new(store);
//! let sessions = service.sessions(&SessionsRequest::default())?;
//! println!("{}", serde_json::to_string(&sessions.rows)?);
//! let session = service.open(sessions.rows[0].info.id.as_str())?;
//! assert_eq!(session.messages(&Default::default())?.entries.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod convert;
mod cost;
mod environment;
mod follow;
mod fork_points;
mod list;
mod open_session;
mod search;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cost::{Charge, PriceMode, Prices, Tally};
use crate::error::{Error, Result};
use crate::store::{Inventory, SessionFiles, SessionLabel, Store, Target};
use crate::time_input::{Now, TIME_FORMS};
use annals_layouts::model::Money;

pub use convert::Converted;
pub use cost::{CostAnswer, CostRequest};
pub use environment::{config_dir, state_dir, system_zone};
pub use follow::{FollowRequest, FollowedEvents};
pub use fork_points::ForkPoint;
pub use list::{CheckAnswer, ConversationRow, Listed, ProjectRow, SessionRow, SessionsRequest};
pub use open_session::{AgentRow, MessagesRequest, OpenSession, SessionMessages};
pub use search::{Found, HitRow, SearchRequest};
pub use write::BeginRequest;

/// A store, and what its answers depend on besides the logs.
#[derive(Debug)]
pub struct Service {
    store: Store,
    pricing: Arc<Pricing>,
    now: Option<Timestamp>,
    zone: TimeZone,
    shell_dir: Option<String>,
}

/// Prices, and how they are used.
#[derive(Debug)]
struct Pricing {
    prices: Prices,
    mode: PriceMode,
}

impl Pricing {
    fn price(&self, charge: &Charge) -> Option<Money> {
        self.prices.cost(charge, self.mode)
    }

    fn tally<'a>(&self, charges: impl IntoIterator<Item = &'a Charge>) -> Tally {
        Tally::from_charges(charges, &|charge: &Charge| self.price(charge))
    }
}

impl Service {
    /// Creates a service without an index, with the built-in prices, the system's clock and UTC.
    pub fn new(store: Store) -> Self {
        Service {
            store,
            pricing: Arc::new(Pricing {
                prices: Prices::built_in(),
                mode: PriceMode::default(),
            }),
            now: None,
            zone: TimeZone::UTC,
            shell_dir: None,
        }
    }

    /// Uses the index in a state directory. It is created if missing.
    #[must_use]
    pub fn with_index(mut self, state: impl Into<PathBuf>) -> Self {
        self.store = self.store.with_state(state).with_index();
        self
    }

    /// Sets the prices.
    #[must_use]
    pub fn with_prices(mut self, prices: Prices, mode: PriceMode) -> Self {
        self.pricing = Arc::new(Pricing { prices, mode });
        self
    }

    /// Sets the time zone of days and of times as people type them.
    #[must_use]
    pub fn with_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Sets a fixed time instead of the system's clock.
    #[must_use]
    pub fn with_now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets the current directory with the links through which the user entered it (`PWD`).
    #[must_use]
    pub fn with_shell_dir(mut self, dir: Option<String>) -> Self {
        self.shell_dir = dir;
        self
    }

    /// Refuses the paths of logs outside the roots; see [`Store::confined_to_roots`].
    #[must_use]
    pub fn confined_to_roots(mut self) -> Self {
        self.store = self.store.confined_to_roots();
        self
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The time zone.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// Lists all files of the roots. Reports those that could not be read to the store.
    pub fn inventory(&self) -> Inventory {
        let mut inventory = self.store.inventory();
        for error in inventory.errors.drain(..) {
            self.store.failures().report(error);
        }
        inventory
    }

    /// Parses the start of a period as people type it: RFC 3339, a day, or a span such as `7d`.
    pub fn parse_since(&self, text: &str) -> Result<Timestamp> {
        self.typed_now()
            .parse_since(text)
            .ok_or_else(|| bad_time(text))
    }

    /// Parses the end of a period. A bare day counts to its end.
    pub fn parse_until(&self, text: &str) -> Result<Timestamp> {
        self.typed_now()
            .parse_until(text)
            .ok_or_else(|| bad_time(text))
    }

    /// Reports problems of the index to the store. Answers are complete without it.
    fn report_index_warnings(&self) {
        if let Ok(index) = self.store.index() {
            for warning in index.take_warnings() {
                self.store.failures().add_notice(warning.to_string());
            }
        }
    }

    /// Returns the labels of sessions, given by inventory index.
    fn labels(&self, inventory: &Inventory, wanted: &[usize]) -> Vec<Option<SessionLabel>> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let labels = self.store.sessions(inventory).labels(wanted, &|_, _| ());
        let failures = self.store.failures();
        labels.into_iter().map(|label| failures.ok(label)).collect()
    }

    fn typed_now(&self) -> Now {
        Now {
            time: self.now(),
            zone: self.zone.clone(),
        }
    }

    /// Finds a session by a unique beginning of its id, or by the path of its log. `SESSION@MESSAGE`
    /// names a message.
    pub fn find(&self, id: &str) -> Result<Target> {
        self.store.find(&self.inventory(), id)
    }

    /// Finds a whole session.
    fn find_session(&self, inventory: &Inventory, id: &str) -> Result<SessionFiles> {
        let target = self.store.find(inventory, id)?;
        target.refuse_agent()?;
        match target.message {
            None => Ok(target.files),
            Some(_) => Err(Error::refused(format!(
                "`{id}` is a message; name a session"
            ))),
        }
    }
}

fn bad_time(text: &str) -> Error {
    Error::refused(format!("invalid time `{text}`; expected {TIME_FORMS}"))
}
