//! The ledger: each response counted once.

use std::collections::HashMap;
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
    pub(crate) fn settle(&mut self, other: Charge) {
        let before = self.usage;
        self.usage.settle(&other.usage);
        if self.usage != before {
            self.terms = other.terms;
        }
        self.recorded = self.recorded.max(other.recorded);
        self.time = earlier(self.time, other.time);
        self.model = self.model.take().or(other.model);
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
    pub fn settle(accounts: Vec<Account>, charges: Vec<Charge>) -> Self {
        let places = places(&charges);
        let own = began_alone(accounts.len(), &charges, &places);
        let mut settled: Vec<Option<Charge>> = Vec::new();
        for (charge, place) in charges.into_iter().zip(places) {
            if place >= settled.len() {
                settled.resize(place + 1, None);
            }
            let Some(slot) = settled.get_mut(place) else {
                continue;
            };
            *slot = Some(match slot.take() {
                None => charge,
                Some(known) => {
                    let rank = |charge: &Charge| rank(charge, &accounts, &own);
                    let (mut payer, copy) = match rank(&charge) < rank(&known) {
                        true => (charge, known),
                        false => (known, charge),
                    };
                    payer.settle(copy);
                    payer
                }
            });
        }
        Ledger {
            accounts,
            charges: settled.into_iter().flatten().collect(),
        }
    }
}

/// Numbers the responses: charges of one have the same number.
fn places(charges: &[Charge]) -> Vec<usize> {
    let mut known: HashMap<ResponseKey, usize> = HashMap::with_capacity(charges.len());
    let mut messages: HashMap<Key, usize> = HashMap::new();
    // A record that names no request joins a response to that message which does.
    let vague = |key: &ResponseKey| key.request == 0;
    if charges
        .iter()
        .filter_map(|charge| charge.response.as_ref())
        .any(vague)
    {
        for (at, charge) in charges.iter().enumerate() {
            if let Some(key) = charge.response.filter(|key| !vague(key)) {
                let at = *known.entry(key).or_insert(at);
                messages.entry(key.message).or_insert(at);
            }
        }
    }
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let place = |(at, charge): (usize, &Charge)| match charge.response {
        None => at,
        Some(key) if vague(&key) => *messages.entry(key.message).or_insert(at),
        Some(key) => *known.entry(key).or_insert(at),
    };
    let places: Vec<usize> = charges.iter().enumerate().map(place).collect();
    places
        .into_iter()
        .map(|place| {
            let next = numbers.len();
            *numbers.entry(place).or_insert(next)
        })
        .collect()
}

/// When each session had a response that no other has.
fn began_alone(accounts: usize, charges: &[Charge], places: &[usize]) -> Vec<Option<Timestamp>> {
    let mut payers: Vec<Option<usize>> = vec![None; places.len()];
    let mut shared = vec![false; places.len()];
    for (charge, &place) in charges.iter().zip(places) {
        let (Some(payer), Some(shared)) = (payers.get_mut(place), shared.get_mut(place)) else {
            continue;
        };
        *shared |= payer.is_some_and(|known| known != charge.account);
        *payer = Some(charge.account);
    }
    let mut began = vec![None; accounts];
    for (charge, &place) in charges.iter().zip(places) {
        if let Some(began) = began.get_mut(charge.account)
            && shared.get(place) == Some(&false)
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
