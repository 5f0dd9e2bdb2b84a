//! The ledger: each response counted once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{Key, Money, Project, ResponseKey, SessionId, Terms, Usage};

/// One response of a model, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charge {
    /// Which response; one without a name is counted for itself.
    pub response: Option<ResponseKey>,
    /// When it came.
    pub time: Option<Timestamp>,
    /// The model as the log names it.
    pub model: Option<Arc<str>>,
    /// Its tokens; none where the log told only a price.
    pub usage: Usage,
    /// On which terms.
    pub terms: Terms,
    /// What the log itself says it cost.
    pub recorded: Option<Money>,
    /// The sub-agent that it answered; `None` is the main agent.
    pub agent: Option<Arc<str>>,
    /// The git branch that was checked out.
    pub git_branch: Option<Arc<str>>,
    /// The log says that it is a copy from another session.
    pub copied: bool,
    /// The session that pays: an index into [`Ledger::accounts`].
    pub account: usize,
}

impl Charge {
    /// A charge of which nothing is known but who pays.
    pub fn to(account: usize) -> Self {
        Charge {
            response: None,
            time: None,
            model: None,
            usage: Usage::default(),
            terms: Terms::default(),
            recorded: None,
            agent: None,
            git_branch: None,
            copied: false,
            account,
        }
    }

    /// Takes in another record of the same response from the same log.
    pub(crate) fn settle(&mut self, other: &Charge) {
        let before = self.usage;
        self.usage.settle(&other.usage);
        if self.usage != before {
            self.terms = other.terms;
        }
        self.recorded = self.recorded.max(other.recorded);
        self.time = earlier(self.time, other.time);
        if self.model.is_none() {
            self.model.clone_from(&other.model);
        }
        self.copied &= other.copied;
    }
}

/// A session that pays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The layout's name.
    pub layout: &'static str,
    /// The root it lies in.
    pub root: PathBuf,
    /// The session.
    pub session: SessionId,
    /// The file that stands for it.
    pub file: PathBuf,
    /// The directory it is about.
    pub project: Project,
    /// The time of its first response.
    pub started: Option<Timestamp>,
}

/// Every response once, with the session that pays for it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// The sessions.
    pub accounts: Vec<Account>,
    /// The responses.
    pub charges: Vec<Charge>,
}

impl Ledger {
    /// A ledger of responses that were already counted once each.
    pub fn new(accounts: Vec<Account>, charges: Vec<Charge>) -> Self {
        Ledger { accounts, charges }
    }

    /// When the first and the last response came.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let times = || self.charges.iter().filter_map(|charge| charge.time);
        Some((times().min()?, times().max()?))
    }

    /// Counts each response once: at its largest, and to the session that had it first.
    ///
    /// Forks and resumed sessions repeat what went before them. A record that says that it is a copy
    /// never pays if another does not say so; else the session pays that was the first to go on by
    /// itself, or that never did because the other is all of it and more.
    pub fn settle(accounts: Vec<Account>, mut charges: Vec<Charge>) -> Self {
        let copies = copies(&charges);
        if !copies.is_empty() {
            let own = began_alone(accounts.len(), &charges, &copies);
            let rank = |charge: &Charge| rank(charge, &accounts, &own);
            for (&at, &first) in &copies {
                let Ok([charge, known]) = charges.get_disjoint_mut([at, first]) else {
                    continue;
                };
                if rank(charge) < rank(known) {
                    std::mem::swap(charge, known);
                }
                known.settle(charge);
            }
            let mut at = 0;
            charges.retain(|_| {
                at += 1;
                !copies.contains_key(&(at - 1))
            });
        }
        Ledger { accounts, charges }
    }
}

/// The charges of responses that another charge before them tells of, and where that one is.
fn copies(charges: &[Charge]) -> BTreeMap<usize, usize> {
    let mut copies = BTreeMap::new();
    let mut known: HashMap<ResponseKey, usize> = HashMap::with_capacity(charges.len());
    let mut vague = Vec::new();
    for (at, charge) in charges.iter().enumerate() {
        let Some(key) = charge.response else { continue };
        if key.request == 0 {
            vague.push((at, key));
            continue;
        }
        let first = *known.entry(key).or_insert(at);
        if first != at {
            copies.insert(at, first);
        }
    }
    if vague.is_empty() {
        return copies;
    }
    // A record that names no request joins a response to that message which does.
    let mut messages: HashMap<Key, usize> = HashMap::with_capacity(known.len());
    for (key, at) in known {
        let first = messages.entry(key.message).or_insert(at);
        *first = at.min(*first);
    }
    for (at, key) in vague {
        let first = *messages.entry(key.message).or_insert(at);
        if first != at {
            copies.insert(at, first);
        }
    }
    copies
}

/// When each session had a response that no other has.
fn began_alone(
    accounts: usize,
    charges: &[Charge],
    copies: &BTreeMap<usize, usize>,
) -> Vec<Option<Timestamp>> {
    let mut shared = HashSet::new();
    for (&at, &first) in copies {
        let payer = |at: usize| charges.get(at).map(|charge| charge.account);
        if payer(at) != payer(first) {
            shared.insert(first);
        }
    }
    let mut began = vec![None; accounts];
    for (at, charge) in charges.iter().enumerate() {
        let place = copies.get(&at).copied().unwrap_or(at);
        if let Some(began) = began.get_mut(charge.account)
            && !shared.contains(&place)
        {
            *began = earlier(*began, charge.time);
        }
    }
    began
}

/// Who pays for a response that several tell of: the lowest.
fn rank<'a>(
    charge: &Charge,
    accounts: &'a [Account],
    own: &[Option<Timestamp>],
) -> impl Ord + use<'a> {
    let account = accounts.get(charge.account);
    let began = own.get(charge.account).copied().flatten();
    let started = account.and_then(|account| account.started);
    // A sub-agent's log may repeat what the main agent said before it.
    let aside = charge.agent.is_some();
    let name = account.map(|account| (&account.session, &account.file));
    (
        charge.copied,
        late(charge.time),
        began,
        late(started),
        name,
        aside,
    )
}

/// For comparisons in which an unknown time is the latest.
fn late(time: Option<Timestamp>) -> Timestamp {
    time.unwrap_or(Timestamp::MAX)
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
