//! The ledger: each response counted once.
//!
//! A response is counted at its largest line and charged to the session that had it first. If a
//! fork copies a response without marking it, the session that continued first after the copy
//! counts as the original. So a session that continues later than its fork may lose the responses
//! that they share.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use annals_layouts::layout::is_folder_of;
use annals_layouts::model::{
    BillingTerms, EntryKey, Money, Project, ResponseKey, SessionId, Usage,
};

use super::first_seen::FirstSeen;

/// One response of a model, and the session that pays for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charge {
    /// Key of the response; without a key, each charge counts separately.
    pub response: Option<ResponseKey>,
    /// Time of the response.
    pub time: Option<Timestamp>,
    /// Tokens; zero if the log records only a cost.
    pub usage: Usage,
    /// Model, agent and terms of the response.
    pub source: Arc<ChargeSource>,
    /// Cost recorded in the log; few logs have it.
    pub recorded: Option<Box<Money>>,
    /// True if the log marks the response as a copy from another session.
    pub copied: bool,
    /// Index of the paying session in [`Ledger::accounts`].
    pub account: usize,
}

/// Properties that most responses of a log have in common, shared by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChargeSource {
    /// Model name as in the log.
    pub model: Option<Arc<str>>,
    /// Billing terms.
    pub terms: BillingTerms,
    /// Sub-agent that received the response; `None` is the main agent.
    pub agent: Option<Arc<str>>,
    /// Git branch that was checked out.
    pub git_branch: Option<Arc<str>>,
}

impl Charge {
    /// Creates an empty charge of an account.
    pub fn new(account: usize) -> Self {
        static UNKNOWN: LazyLock<Arc<ChargeSource>> = LazyLock::new(Arc::default);
        Charge::with_source(&UNKNOWN, account)
    }

    /// Creates an empty charge of an account and a source.
    pub fn with_source(source: &Arc<ChargeSource>, account: usize) -> Self {
        Charge {
            response: None,
            time: None,
            usage: Usage::default(),
            source: Arc::clone(source),
            recorded: None,
            copied: false,
            account,
        }
    }

    /// Returns the source for changes that affect only this charge.
    pub fn source_mut(&mut self) -> &mut ChargeSource {
        Arc::make_mut(&mut self.source)
    }

    /// Merges another record of the same response.
    pub fn merge(&mut self, other: &Charge) {
        let before = self.usage;
        self.usage.keep_larger(&other.usage);
        if self.usage != before {
            let terms = other.source.terms;
            if self.source.terms != terms {
                self.source_mut().terms = terms;
            }
        }
        // A key without a request is incomplete.
        let vague = |key: ResponseKey| key.request == 0;
        if self.response.is_none_or(vague) && !other.response.is_none_or(vague) {
            self.response = other.response;
        }
        if self.recorded < other.recorded {
            self.recorded.clone_from(&other.recorded);
        }
        self.time = earlier(self.time, other.time);
        if self.source.model.is_none() && other.source.model.is_some() {
            self.source_mut().model.clone_from(&other.source.model);
        }
        self.copied &= other.copied;
    }
}

/// Session that pays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// Name of the layout.
    pub layout: &'static str,
    /// Root of the session.
    pub root: PathBuf,
    /// Session id.
    pub session: SessionId,
    /// Main file of the session.
    pub file: PathBuf,
    /// Project directory.
    pub project: Project,
    /// Other directories in which it received responses.
    pub other_directories: Vec<String>,
    /// Other names of its project, such as that of a workspace.
    pub aliases: Vec<String>,
    /// Time of its first response.
    pub started: Option<Timestamp>,
}

impl Account {
    /// Creates an account with only these fields set.
    pub fn new(layout: &'static str, root: impl Into<PathBuf>, session: SessionId) -> Self {
        Account {
            layout,
            root: root.into(),
            session,
            file: PathBuf::new(),
            project: Project {
                path: String::new(),
                guessed: true,
            },
            other_directories: Vec::new(),
            aliases: Vec::new(),
            started: None,
        }
    }
}

impl Account {
    /// Returns true if `wanted` may name the session's project, by its current directory or an
    /// earlier one.
    pub fn matches_project(&self, wanted: &str) -> bool {
        let earlier = self.other_directories.iter().map(|path| Project {
            path: path.clone(),
            guessed: false,
        });
        self.project.matches(wanted)
            || self.project.id() == wanted
            || is_folder_of(self.layout, &self.project, wanted)
            || self.aliases.iter().any(|alias| alias == wanted)
            || earlier.into_iter().any(|project| project.matches(wanted))
    }
}

/// All responses, each once, with the sessions that pay for them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// Paying sessions.
    pub accounts: Vec<Account>,
    /// Charges, in no particular order.
    pub charges: Vec<Charge>,
    /// Number of records that are damaged or have impossible token counts; their usage is in no
    /// sum.
    pub uncounted: u64,
}

impl Ledger {
    /// Creates a ledger from charges without duplicates.
    pub fn new(accounts: Vec<Account>, charges: Vec<Charge>) -> Self {
        Ledger {
            accounts,
            charges,
            uncounted: 0,
        }
    }

    /// Returns the times of the first and the last response.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let times = || self.charges.iter().filter_map(|charge| charge.time);
        Some((times().min()?, times().max()?))
    }

    /// Counts each response once, with its largest usage, for the session that had it first.
    ///
    /// Forks and resumed sessions repeat earlier responses. A record marked as a copy pays only if
    /// all records of the response are. Otherwise the earliest record pays. On a tie, the session
    /// pays that has no response of its own (the other one contains all of it), or whose first own
    /// response is earliest.
    pub fn dedupe(accounts: Vec<Account>, mut charges: Vec<Charge>) -> Self {
        let copies = copies(&charges);
        if copies.is_empty() {
            return Ledger::new(accounts, charges);
        }
        let own = first_unique_response(accounts.len(), &charges, &copies);
        // Choose payers before merging, because merging changes the fields that `rank` compares.
        let mut payers: BTreeMap<usize, usize> = BTreeMap::new();
        for &(at, first) in &copies {
            let payer = payers.entry(first).or_insert(first);
            let rank = |at: usize| charges.get(at).map(|charge| rank(charge, &accounts, &own));
            if rank(at) < rank(*payer) {
                *payer = at;
            }
        }
        for (first, payer) in payers {
            charges.swap(first, payer);
        }
        // Merge in rank order, so that the result does not depend on the order in which logs were
        // read: a missing field comes from the next record in rank.
        let mut order = copies.clone();
        order.sort_by_key(|(_, first)| *first);
        for several in order.chunk_by_mut(|(_, one), (_, other)| one == other) {
            if several.len() > 1 {
                let rank = |at: usize| charges.get(at).map(|charge| rank(charge, &accounts, &own));
                several.sort_by(|(one, _), (other, _)| rank(*one).cmp(&rank(*other)));
            }
        }
        for (at, first) in order {
            if let Ok([copy, charge]) = charges.get_disjoint_mut([at, first]) {
                charge.merge(copy);
            }
        }
        // From the end, so that `swap_remove` never moves another copy.
        for &(at, _) in copies.iter().rev() {
            charges.swap_remove(at);
        }
        Ledger::new(accounts, charges)
    }
}

/// Returns the charges that repeat an earlier one, as pairs (charge, first charge of the response),
/// in order.
fn copies(charges: &[Charge]) -> Vec<(usize, usize)> {
    let mut copies = Vec::new();
    let mut known = FirstSeen::with_capacity(charges.len());
    let name = |at: usize| charges.get(at)?.response;
    let mut vague = Vec::new();
    for (at, charge) in charges.iter().enumerate() {
        match charge.response {
            None => {}
            Some(key) if key.request == 0 => vague.push((at, key.message)),
            Some(key) => {
                copies.extend(known.find_or_insert(at, key, name).map(|first| (at, first)))
            }
        }
    }
    if vague.is_empty() {
        return copies;
    }
    // A record without a request id belongs to a response of the same message that has one. If
    // there are several, take the lowest request, so that the order of logs does not matter.
    let mut messages: HashMap<EntryKey, (u64, usize)> = HashMap::new();
    for (at, charge) in charges.iter().enumerate() {
        if let Some(key) = charge.response.filter(|key| key.request != 0) {
            let found = messages.entry(key.message).or_insert((key.request, at));
            *found = (*found).min((key.request, at));
        }
    }
    for (at, message) in vague {
        let (_, first) = *messages.entry(message).or_insert((0, at));
        if first != at {
            copies.push((at, first));
        }
    }
    copies.sort_unstable();
    copies
}

/// Returns the time of the first response that no other session has, for each session.
fn first_unique_response(
    accounts: usize,
    charges: &[Charge],
    copies: &[(usize, usize)],
) -> Vec<Option<Timestamp>> {
    let mut shared = vec![false; charges.len()];
    for &(at, first) in copies {
        let payer = |at: usize| charges.get(at).map(|charge| charge.account);
        if payer(at) != payer(first)
            && let Some(shared) = shared.get_mut(first)
        {
            *shared = true;
        }
    }
    for &(at, first) in copies {
        let of_first = shared.get(first).copied();
        if let (Some(shared), Some(of_first)) = (shared.get_mut(at), of_first) {
            *shared = of_first;
        }
    }
    let mut began = vec![None; accounts];
    for (charge, shared) in charges.iter().zip(shared) {
        if let Some(began) = began.get_mut(charge.account)
            && !shared
        {
            *began = earlier(*began, charge.time);
        }
    }
    began
}

/// Returns the rank of a charge among the records of a response; the lowest pays.
fn rank<'a>(
    charge: &'a Charge,
    accounts: &'a [Account],
    own: &[Option<Timestamp>],
) -> impl Ord + use<'a> {
    let account = accounts.get(charge.account);
    let began = own.get(charge.account).copied().flatten();
    let started = account.and_then(|account| account.started);
    // A sub-agent's log may repeat what the main agent received before it.
    let aside = charge.source.agent.as_deref();
    let name = account.map(|account| (&account.session, &account.file));
    (
        charge.copied,
        time_or_latest(charge.time),
        began,
        time_or_latest(started),
        name,
        aside,
    )
}

/// Treats an unknown time as the latest.
fn time_or_latest(time: Option<Timestamp>) -> Timestamp {
    time.unwrap_or(Timestamp::MAX)
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
