//! Running totals of followed sessions.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use annals::cost::{Charge, Ledger, Tally};
use annals::model::SessionId;
use annals::store::{Session, Store};
use annals::watch::FollowedEntry;

use crate::commands::pricing::Pricer;

/// Running totals of all sessions seen so far.
pub(super) struct Totals {
    pricer: Pricer,
    sessions: HashMap<SessionKey, Vec<Charge>>,
    changed: BTreeSet<SessionKey>,
}

type SessionKey = (PathBuf, SessionId);

/// Total of one session.
pub(super) struct Total {
    pub(super) session: SessionId,
    pub(super) tally: Tally,
}

impl Totals {
    pub(super) fn new(pricer: Pricer) -> Self {
        Totals {
            pricer,
            sessions: HashMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Adds the charge of an entry. For a new session, its charges so far are read.
    pub(super) fn add_entry(&mut self, fresh: &FollowedEntry) {
        let Some(charge) = &fresh.charge else { return };
        let name = (fresh.log.root.path.clone(), fresh.session.clone());
        match self.sessions.get_mut(&name) {
            Some(charges) => charges.push(charge.clone()),
            None => {
                let mut charges = charges_so_far(fresh);
                // The charge may be included already; `take_changed` removes duplicates.
                charges.push(charge.clone());
                self.sessions.insert(name.clone(), charges);
            }
        }
        self.changed.insert(name);
    }

    /// Returns the totals that changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<Total> {
        let mut totals = Vec::new();
        for name in std::mem::take(&mut self.changed) {
            let charges = self.sessions.remove(&name).unwrap_or_default();
            let settled = Ledger::dedupe(Vec::new(), charges).charges;
            totals.push(Total {
                session: name.1.clone(),
                tally: self.pricer.tally(&settled),
            });
            self.sessions.insert(name, settled);
        }
        totals
    }
}

/// Reads the charges of a session so far; empty if they cannot be read.
fn charges_so_far(fresh: &FollowedEntry) -> Vec<Charge> {
    let root = &fresh.log.root;
    let inventory = Store::new(vec![root.clone()])
        .reporting_to(root.failures())
        .inventory();
    let mut sessions = inventory.sessions.into_iter();
    let files = sessions.find(|files| files.id == fresh.session);
    let session = files.and_then(|files| match Session::read(files) {
        Ok(session) => Some(session),
        Err(error) => {
            root.failures().report(error);
            None
        }
    });
    session.map_or_else(Vec::new, |session| session.info(None).charges)
}
