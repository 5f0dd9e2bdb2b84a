//! Costs of a store's sessions: the ledger, and the attribution of responses to conversations.
//!
//! [`Store::costs`] returns the handle, [`Costs`]. usage_collector.rs reads the ledger,
//! branch_attribution.rs the attribution.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::{SessionFiles, Store};
use crate::cost::{Account, Ledger};

/// The costs of a store's sessions.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a> {
    pub(super) store: &'a Store,
}

impl Store {
    /// Returns the costs of the sessions.
    pub fn costs(&self) -> Costs<'_> {
        Costs { store: self }
    }
}

/// Query for [`Costs::recent`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecentQuery<'a> {
    /// Current time.
    pub(crate) now: Timestamp,
    /// Start of the wanted period; older charges may be returned too.
    pub(crate) since: Timestamp,
    /// Log of a session whose charges are all wanted.
    pub(crate) session: Option<&'a Path>,
    /// Age of the last full check after which all logs are checked again.
    pub(crate) max_age: Duration,
}

impl<'a> RecentQuery<'a> {
    /// Returns a query for the charges since `since`.
    pub fn new(now: Timestamp, since: Timestamp) -> Self {
        RecentQuery {
            now,
            since,
            session: None,
            max_age: Duration::from_secs(5 * 60),
        }
    }

    /// Adds all charges of the session with this log.
    pub fn session(mut self, log: Option<&'a Path>) -> Self {
        self.session = log;
        self
    }
}

impl SessionFiles {
    /// Returns the accounts of the session in a ledger. Two folders may have a session of the same
    /// id; then the file decides.
    pub fn accounts(&self, ledger: &Ledger) -> BTreeSet<usize> {
        let is_session = |account: &Account| {
            account.session == self.id
                && account.root == self.root.path
                && account.layout == self.root.layout.name()
        };
        let numbered = ledger.accounts.iter().enumerate();
        let same: Vec<(usize, &Account)> = numbered.filter(|(_, one)| is_session(one)).collect();
        let has_file = |account: &Account| account.file == self.main_path();
        let by_file = same.iter().any(|(_, account)| has_file(account));
        let own = same.into_iter();
        let own = own.filter(|(_, account)| !by_file || has_file(account));
        own.map(|(number, _)| number).collect()
    }
}
