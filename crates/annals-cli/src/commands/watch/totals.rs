//! What sessions come to while they are followed.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use annals::cost::{Charge, Ledger, Tally};
use annals::model::SessionId;
use annals::store::{Session, Store};
use annals::watch::FollowedEntry;

use crate::commands::pricing::Pricer;

/// Running totals of all sessions that were heard of.
pub(super) struct Totals {
    pricer: Pricer,
    sessions: HashMap<SessionKey, Vec<Charge>>,
    changed: BTreeSet<SessionKey>,
}

type SessionKey = (PathBuf, SessionId);

/// What one session comes to.
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

    /// Takes in what an entry says that its response spent. Of a session that was not heard of
    /// before, what it spent so far is read.
    pub(super) fn add_entry(&mut self, fresh: &FollowedEntry) {
        let Some(charge) = &fresh.charge else { return };
        let name = (fresh.log.root.path.clone(), fresh.session.clone());
        match self.sessions.get_mut(&name) {
            Some(charges) => charges.push(charge.clone()),
            None => {
                let mut charges = charges_so_far(fresh);
                // It may be in there already: then it counts once.
                charges.push(charge.clone());
                self.sessions.insert(name.clone(), charges);
            }
        }
        self.changed.insert(name);
    }

    /// The totals that changed since they were asked for last.
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

/// What a session spent up to now. Where that cannot be read the totals begin with what follows.
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
