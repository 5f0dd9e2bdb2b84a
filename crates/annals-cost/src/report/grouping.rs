//! Grouping of charges by one dimension: maps each value to a number, so that rows are compared by
//! numbers.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{ABSENT, AgentKindFn, BranchFn, ReportOptions, RowPart, Texts};
use crate::block;
use crate::calendar::{Calendar, Unit};
use crate::{Charge, Dimension, Ledger};

/// Name of the main agent in reports.
const MAIN_AGENT: &str = "main";

pub(super) struct Grouping<'a> {
    dimension: Dimension,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Calendar(Calendar),
    /// Start times of the blocks.
    Blocks(Vec<Timestamp>),
    /// Sessions; the number is the index of the account.
    Accounts(&'a Ledger),
    /// Values of the session's account (project or layout), by session.
    Shared {
        texts: Texts,
        of: Vec<u32>,
        labels: Vec<Arc<str>>,
    },
    Texts(Texts, fn(&Charge) -> Option<&Arc<str>>),
    /// Agents by id, and the name of the main agent.
    Agents(Texts, Arc<str>),
    /// Agents by kind, and the names of the main agent and of sub-agents without a kind.
    AgentKinds {
        kind: Option<AgentKindFn<'a>>,
        texts: Texts,
        main: Arc<str>,
        other: Arc<str>,
    },
    Branches {
        branch: Option<BranchFn<'a>>,
        texts: Texts,
        labels: HashMap<u32, Arc<str>>,
    },
}

impl<'a> Grouping<'a> {
    pub(super) fn new(
        dimension: Dimension,
        ledger: &'a Ledger,
        options: &ReportOptions<'a>,
    ) -> Self {
        let calendar = |unit| Kind::Calendar(Calendar::new(unit, options.zone.clone()));
        let texts = |of| Kind::Texts(Texts::default(), of);
        let kind = match dimension {
            Dimension::Hour => calendar(Unit::Hour),
            Dimension::Day => calendar(Unit::Day),
            Dimension::Week => calendar(Unit::Week),
            Dimension::Month => calendar(Unit::Month),
            // Blocks depend on all responses of the ledger, even those that the report filters out.
            Dimension::Block => {
                let times = ledger.charges.iter().filter_map(|charge| charge.time);
                Kind::Blocks(block::block_starts(times))
            }
            Dimension::Session => Kind::Accounts(ledger),
            Dimension::Project => {
                let names = ledger.accounts.iter().map(|account| {
                    let project = &account.project;
                    (project.path.as_str(), Some(project.name()))
                });
                shared_by_session(names)
            }
            Dimension::Layout => {
                let names = ledger.accounts.iter();
                shared_by_session(names.map(|account| (account.layout, None)))
            }
            Dimension::Model => texts(|charge| charge.source.model.as_ref()),
            Dimension::GitBranch => texts(|charge| charge.source.git_branch.as_ref()),
            Dimension::Agent => Kind::AgentKinds {
                kind: options.agent_kind,
                texts: Texts::default(),
                main: MAIN_AGENT.into(),
                other: "sub-agent".into(),
            },
            Dimension::AgentId => Kind::Agents(Texts::default(), MAIN_AGENT.into()),
            Dimension::Branch => Kind::Branches {
                branch: options.branch,
                texts: Texts::default(),
                labels: HashMap::new(),
            },
        };
        Grouping { dimension, kind }
    }

    pub(super) fn dimension(&self) -> Dimension {
        self.dimension
    }

    pub(super) fn number(&mut self, charge: &Charge) -> u32 {
        match &mut self.kind {
            Kind::Calendar(calendar) => charge.time.map_or(ABSENT, |time| calendar.number(time)),
            Kind::Blocks(starts) => {
                let after = charge
                    .time
                    .map(|time| starts.partition_point(|start| *start <= time));
                let at = after.and_then(|after| after.checked_sub(1));
                at.and_then(|at| u32::try_from(at).ok()).unwrap_or(ABSENT)
            }
            Kind::Accounts(_) => u32::try_from(charge.account).unwrap_or(ABSENT),
            Kind::Shared { of, .. } => of.get(charge.account).copied().unwrap_or(ABSENT),
            Kind::Texts(texts, of) => texts.number(of(charge)),
            Kind::Agents(texts, main) => {
                texts.number(Some(charge.source.agent.as_ref().unwrap_or(main)))
            }
            Kind::AgentKinds {
                kind,
                texts,
                main,
                other,
            } => {
                if charge.source.agent.is_none() {
                    return texts.number(Some(main));
                }
                let kind = kind.and_then(|kind| kind(charge));
                texts.number(Some(kind.as_ref().unwrap_or(other)))
            }
            Kind::Branches {
                branch,
                texts,
                labels,
            } => {
                let Some(name) = branch.and_then(|branch| branch(charge)) else {
                    return ABSENT;
                };
                let number = texts.number(Some(&name.key));
                if let Some(label) = name.label {
                    labels.entry(number).or_insert(label);
                }
                number
            }
        }
    }

    pub(super) fn part(&self, number: u32) -> RowPart {
        let mut part = RowPart {
            dimension: self.dimension,
            value: None,
            label: None,
            period: None,
            account: None,
        };
        match &self.kind {
            Kind::Calendar(calendar) => {
                if let Some(period) = calendar.period(number) {
                    part.value = Some(period.key.as_str().into());
                    part.period = Some((period.start, period.end));
                }
            }
            Kind::Blocks(starts) => {
                if let Some(&start) = starts.get(number as usize) {
                    part.value = Some(start.to_string().into());
                    part.period = Some((start, block::block_end(start)));
                }
            }
            Kind::Accounts(ledger) => {
                let account = ledger.accounts.get(number as usize);
                part.value = account.map(|account| account.session.as_str().into());
                part.label = account.map(|account| account.project.name().into());
                part.account = account.map(|_| number as usize);
            }
            Kind::Shared { texts, labels, .. } => {
                part.value = texts.get(number).cloned();
                part.label = labels.get(number as usize).cloned();
            }
            Kind::Texts(texts, _) | Kind::Agents(texts, _) | Kind::AgentKinds { texts, .. } => {
                part.value = texts.get(number).cloned();
            }
            Kind::Branches { texts, labels, .. } => {
                part.value = texts.get(number).cloned();
                part.label = labels.get(&number).cloned();
            }
        }
        part
    }
}

fn shared_by_session<'n>(names: impl Iterator<Item = (&'n str, Option<&'n str>)>) -> Kind<'static> {
    let mut texts = Texts::default();
    let mut labels = Vec::new();
    let mut of = Vec::new();
    for (name, label) in names {
        let number = texts.number(Some(&name.into()));
        if number as usize == labels.len()
            && let Some(label) = label
        {
            labels.push(label.into());
        }
        of.push(number);
    }
    Kind::Shared { texts, of, labels }
}
