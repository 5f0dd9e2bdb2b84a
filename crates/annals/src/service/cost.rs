//! Reports token usage and cost.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::Service;
use crate::cost::{
    Account, BranchName, Charge, CostReport, Dimension, Ledger, ReportOptions, Sort, Tally,
};
use crate::error::Result;
use crate::store::{BranchAttribution, project_spellings};
use crate::view::{CostDetails, CostJson, CostLabels, accounts_of_rows, accounts_with_agents};

/// Question for costs. By default, of all responses by day.
#[derive(Clone, Debug)]
pub struct CostRequest {
    /// Dimensions of the rows.
    pub by: Vec<Dimension>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Latest time.
    pub until: Option<Timestamp>,
    /// Project: a path, a name or an id. `.` is the current directory.
    pub project: Option<String>,
    /// Session.
    pub session: Option<String>,
    /// Part of a model's name.
    pub model: Option<String>,
    /// Row order; by default by time if the first dimension is a period, else by cost.
    pub sort: Option<Sort>,
    /// Maximum number of rows: the largest.
    pub top: Option<usize>,
}

impl Default for CostRequest {
    fn default() -> Self {
        CostRequest {
            by: vec![Dimension::Day],
            since: None,
            until: None,
            project: None,
            session: None,
            model: None,
            sort: None,
            top: None,
        }
    }
}

/// A cost report. Serialises as [`CostJson`].
#[derive(Debug)]
#[non_exhaustive]
pub struct CostAnswer {
    /// The report.
    pub report: CostReport,
    /// Labels of its sessions.
    pub labels: CostLabels,
    /// Number of records that could not be read completely.
    pub uncounted: u64,
    zone: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    now: Timestamp,
}

impl Serialize for CostAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let details = CostDetails {
            zone: self.zone.clone(),
            since: self.since,
            until: self.until,
            now: self.now,
            labels: &self.labels,
            breakdown: false,
            uncounted: self.uncounted,
            budgets: Vec::new(),
        };
        CostJson::new(&self.report, details).serialize(serializer)
    }
}

impl Service {
    /// Reports token usage and cost. Each response counts once, for the session that had it first.
    pub fn cost(&self, request: &CostRequest) -> Result<CostAnswer> {
        let ledger = self.ledger();
        let accounts = self.wanted_accounts(request, &ledger)?;
        let keep = |charge: &Charge| {
            let model = charge.source.model.as_deref();
            accounts.get(charge.account) != Some(&false)
                && request
                    .model
                    .as_deref()
                    .is_none_or(|wanted| model.is_some_and(|model| model.contains(wanted)))
        };
        let price = |charge: &Charge| self.pricing.price(charge);
        let mut options = ReportOptions::new(self.zone.clone(), &price);
        options.since = request.since;
        options.until = request.until;
        options.filter = Some(&keep);
        options.sort = request.sort;
        options.top = request.top;
        let branches = match request.by.contains(&Dimension::Branch) {
            true => self.branches(&ledger, &options),
            false => HashMap::new(),
        };
        let branch = |charge: &Charge| {
            let known = branches.get(&charge.account);
            let known = known.and_then(|branches| branches.branch(charge)).cloned();
            known.or_else(|| {
                let account = ledger.accounts.get(charge.account)?;
                Some(BranchName::new(account.session.as_str()))
            })
        };
        options.branch = Some(&branch);
        let mut labels = CostLabels::default();
        let read = |labels: &mut CostLabels, accounts| {
            let inventory = self.inventory();
            let mut read = |wanted: &[usize]| self.labels(&inventory, wanted);
            labels.read(accounts, &ledger, &inventory, &mut read);
        };
        if request.by.contains(&Dimension::Agent) {
            read(&mut labels, accounts_with_agents(&ledger, &options));
        }
        let agent_kind = |charge: &Charge| labels.agent_kind(charge);
        options.agent_kind = Some(&agent_kind);
        let report = CostReport::new(&ledger, &request.by, &options);
        if request.by.contains(&Dimension::Session) {
            read(&mut labels, accounts_of_rows(&report));
        }
        Ok(CostAnswer {
            report,
            labels,
            uncounted: ledger.uncounted,
            zone: self.typed_now().zone_name(),
            since: request.since,
            until: request.until,
            now: self.now(),
        })
    }

    /// Returns the usage and cost of everything since each of several times.
    pub fn totals_since(&self, times: &[Timestamp]) -> Vec<Tally> {
        let ledger = self.ledger();
        let price = |charge: &Charge| self.pricing.price(charge);
        let total = |since: &Timestamp| {
            let mut options = ReportOptions::new(self.zone.clone(), &price);
            options.since = Some(*since);
            CostReport::new(&ledger, &[Dimension::Layout], &options).total
        };
        times.iter().map(total).collect()
    }

    fn ledger(&self) -> Ledger {
        let (ledger, errors) = self.store.costs().ledger(&|_, _| ());
        for error in errors {
            self.store.failures().report(error);
        }
        self.report_index_warnings();
        ledger
    }

    /// Returns which accounts are included; an empty list means all.
    fn wanted_accounts(&self, request: &CostRequest, ledger: &Ledger) -> Result<Vec<bool>> {
        if request.project.is_none() && request.session.is_none() {
            return Ok(Vec::new());
        }
        let recorded = || ledger.accounts.iter().map(|account| &account.project);
        let project = request.project.as_deref();
        let shell_dir = self.shell_dir.as_deref();
        let project = project.map(|wanted| project_spellings(wanted, shell_dir, recorded()));
        let session = match &request.session {
            Some(id) => Some(self.find_session(&self.inventory(), id)?),
            None => None,
        };
        let wanted = ledger.accounts.iter().map(|account| {
            let is_in = |dirs: &Vec<String>| dirs.iter().any(|dir| account.matches_project(dir));
            project.as_ref().is_none_or(is_in)
        });
        let mut wanted: Vec<bool> = wanted.collect();
        if let Some(files) = &session {
            let of_session = files.accounts(ledger);
            for (number, wanted) in wanted.iter_mut().enumerate() {
                *wanted &= of_session.contains(&number);
            }
        }
        Ok(wanted)
    }

    /// Reads the conversations of the sessions of a report, by account number.
    fn branches(
        &self,
        ledger: &Ledger,
        options: &ReportOptions<'_>,
    ) -> HashMap<usize, BranchAttribution> {
        let charges = ledger
            .charges
            .iter()
            .filter(|charge| options.includes(charge));
        let wanted: BTreeSet<usize> = charges.map(|charge| charge.account).collect();
        let accounts = wanted.into_iter();
        let accounts: Vec<(usize, &Account)> = accounts
            .filter_map(|number| Some((number, ledger.accounts.get(number)?)))
            .collect();
        let named: Vec<&Account> = accounts.iter().map(|(_, account)| *account).collect();
        let read = self
            .store
            .costs()
            .branch_attributions(&self.inventory(), &named);
        let read = accounts.into_iter().zip(read);
        let failures = self.store.failures();
        read.filter_map(|((number, _), branches)| Some((number, failures.ok(branches)?)))
            .collect()
    }
}
