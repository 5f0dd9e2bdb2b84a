//! Attribution of charges to conversations. Reads only the sessions of the report.

use std::collections::{BTreeSet, HashMap};

use annals::cost::{Account, BranchName, Charge, Ledger, ReportOptions};
use annals::store::BranchAttribution;

use crate::context::Context;

/// Attributions by account number.
#[derive(Default)]
pub(super) struct BranchAttributions(HashMap<usize, BranchAttribution>);

impl BranchAttributions {
    /// Returns the conversation of a charge, or its session if that is unknown.
    pub(super) fn branch(&self, charge: &Charge, ledger: &Ledger) -> Option<BranchName> {
        let branches = self.0.get(&charge.account);
        let known = branches.and_then(|branches| branches.branch(charge));
        known.cloned().or_else(|| {
            let account = ledger.accounts.get(charge.account)?;
            Some(BranchName::new(account.session.as_str()))
        })
    }
}

pub(super) fn read(
    context: &mut Context,
    ledger: &Ledger,
    options: &ReportOptions<'_>,
) -> BranchAttributions {
    let charges = ledger.charges.iter();
    let wanted: BTreeSet<usize> = charges
        .filter(|charge| options.includes(charge))
        .map(|charge| charge.account)
        .collect();
    let wanted: Vec<(usize, &Account)> = wanted
        .into_iter()
        .filter_map(|number| Some((number, ledger.accounts.get(number)?)))
        .collect();
    let accounts: Vec<&Account> = wanted.iter().map(|(_, account)| *account).collect();
    // Errors of the inventory were reported when the ledger was built.
    let inventory = context.store.inventory();
    context.warn_read_failures();
    let read = context
        .store
        .costs()
        .branch_attributions(&inventory, &accounts);
    let mut payers = BranchAttributions::default();
    for ((number, _), branches) in wanted.into_iter().zip(read) {
        match branches {
            Ok(branches) => _ = payers.0.insert(number, branches),
            Err(error) => context.warn(&error),
        }
    }
    payers
}
