//! Titles and projects of sessions and kinds of sub-agents, read only for the sessions of a report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use annals_layouts::model::SessionId;

use crate::cost::{
    Account, Charge, CostReport, Ledger, ReportOptions, RowPart, SIDECHAIN, sidechain_of,
};
use crate::store::{Inventory, SessionFiles, SessionLabel};

/// Labels of the sessions of a report, by account number.
#[derive(Debug, Default)]
pub struct CostLabels(HashMap<usize, CostLabel>);

/// Label of a session in a report.
#[derive(Debug)]
#[non_exhaustive]
pub struct CostLabel {
    /// Its title.
    pub title: Option<String>,
    /// Path of its project.
    pub project: String,
    /// Kinds of its sub-agents by id.
    agent_kinds: BTreeMap<String, Arc<str>>,
}

impl CostLabels {
    /// Returns true if the labels of all these accounts are known.
    pub fn has_all(&self, accounts: &BTreeSet<usize>) -> bool {
        accounts.iter().all(|at| self.0.contains_key(at))
    }

    /// Adds the labels of accounts, unless they are known. `read` returns the labels of sessions,
    /// given by inventory index.
    pub fn read(
        &mut self,
        accounts: BTreeSet<usize>,
        ledger: &Ledger,
        inventory: &Inventory,
        read: &mut dyn FnMut(&[usize]) -> Vec<Option<SessionLabel>>,
    ) {
        let accounts = accounts.into_iter().filter(|at| !self.0.contains_key(at));
        let accounts: Vec<usize> = accounts.collect();
        let sessions = sessions_by_account(inventory, ledger, &accounts);
        let wanted: BTreeSet<usize> = sessions.values().copied().collect();
        let wanted: Vec<usize> = wanted.into_iter().collect();
        let labels = read(&wanted);
        let labels: HashMap<usize, _> = wanted.into_iter().zip(labels).collect();
        for number in accounts {
            let Some(account) = ledger.accounts.get(number) else {
                continue;
            };
            let label = sessions.get(&number).and_then(|at| labels.get(at));
            let label = label.cloned().flatten().unwrap_or_default();
            let kinds = label.agent_kinds.into_iter();
            self.0.insert(
                number,
                CostLabel {
                    title: label.title,
                    project: account.project.path.clone(),
                    agent_kinds: kinds.map(|(id, kind)| (id, kind.into())).collect(),
                },
            );
        }
    }

    /// Returns the label of a row's session.
    pub fn get(&self, part: &RowPart) -> Option<&CostLabel> {
        self.0.get(&part.account?)
    }

    /// Returns the kind of the sub-agent that received a response.
    pub fn agent_kind(&self, charge: &Charge) -> Option<Arc<str>> {
        let agent = charge.source.agent.as_deref()?;
        let kinds = &self.0.get(&charge.account)?.agent_kinds;
        let of_response = || match (agent, charge.response) {
            (SIDECHAIN, Some(response)) => kinds.get(&sidechain_of(response)),
            _ => None,
        };
        kinds.get(agent).or_else(of_response).cloned()
    }
}

/// Returns the accounts whose sub-agents received responses of a report.
pub fn accounts_with_agents(ledger: &Ledger, options: &ReportOptions<'_>) -> BTreeSet<usize> {
    let charges = ledger.charges.iter();
    charges
        .filter(|charge| charge.source.agent.is_some() && options.includes(charge))
        .map(|charge| charge.account)
        .collect()
}

/// Returns the accounts that are rows of a report.
pub fn accounts_of_rows(report: &CostReport) -> BTreeSet<usize> {
    let parts = report.rows.iter().flat_map(|row| &row.parts);
    parts.filter_map(|part| part.account).collect()
}

/// Returns the sessions of accounts, as indexes into the inventory.
fn sessions_by_account(
    inventory: &Inventory,
    ledger: &Ledger,
    accounts: &[usize],
) -> HashMap<usize, usize> {
    let mut named: HashMap<(&Path, &SessionId), Vec<usize>> = HashMap::new();
    for (at, files) in inventory.sessions.iter().enumerate() {
        let name = (files.root.path.as_path(), &files.id);
        named.entry(name).or_default().push(at);
    }
    let session = |account: &Account| {
        let named = named.get(&(account.root.as_path(), &account.session))?;
        let is = |fits: &dyn Fn(&SessionFiles) -> bool| {
            let mut named = named.iter();
            named.find(|&&at| inventory.sessions.get(at).is_some_and(fits))
        };
        let of_layout = |files: &SessionFiles| files.root.layout.name() == account.layout;
        // Two folders may have sessions with the same id.
        let same = is(&|files| of_layout(files) && files.main_path() == account.file);
        same.or_else(|| is(&of_layout)).copied()
    };
    let found = accounts.iter().filter_map(|&number| {
        let account = ledger.accounts.get(number)?;
        Some((number, session(account)?))
    });
    found.collect()
}
