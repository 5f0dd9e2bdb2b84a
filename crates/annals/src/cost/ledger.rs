//! The ledger: each response counted once.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use crate::layout::is_folder_of;
use crate::model::{BillingTerms, EntryKey, Money, Project, ResponseKey, SessionId, Usage};

use super::first_seen::FirstSeen;

/// One response of a model, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charge {
    /// Which response; one without a name is counted for itself.
    pub response: Option<ResponseKey>,
    /// When it came.
    pub time: Option<Timestamp>,
    /// Its tokens; none where the log told only a price.
    pub usage: Usage,
    /// Who answered whom, and how.
    pub source: Arc<ChargeSource>,
    /// What the log itself says it cost; few logs do.
    pub recorded: Option<Box<Money>>,
    /// The log says that it is a copy from another session.
    pub copied: bool,
    /// The session that pays: an index into [`Ledger::accounts`].
    pub account: usize,
}

/// What most responses of a log have in common: one source serves them all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChargeSource {
    /// The model as the log names it.
    pub model: Option<Arc<str>>,
    /// On which terms it answered.
    pub terms: BillingTerms,
    /// The sub-agent that it answered; `None` is the main agent.
    pub agent: Option<Arc<str>>,
    /// The git branch that was checked out.
    pub git_branch: Option<Arc<str>>,
}

impl Charge {
    /// A charge of which nothing is known but who pays.
    pub fn new(account: usize) -> Self {
        static UNKNOWN: LazyLock<Arc<ChargeSource>> = LazyLock::new(Arc::default);
        Charge::with_source(&UNKNOWN, account)
    }

    /// A charge of which nothing else is known.
    pub(crate) fn with_source(source: &Arc<ChargeSource>, account: usize) -> Self {
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

    /// Its source, to be changed for this charge alone.
    pub fn source_mut(&mut self) -> &mut ChargeSource {
        Arc::make_mut(&mut self.source)
    }

    /// Takes in another record of the same response from the same log.
    pub(crate) fn merge(&mut self, other: &Charge) {
        let before = self.usage;
        self.usage.keep_larger(&other.usage);
        if self.usage != before {
            let terms = other.source.terms;
            if self.source.terms != terms {
                self.source_mut().terms = terms;
            }
        }
        // A record that leaves out the request does not know the response's whole name.
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
    /// Other directories in which it got answers.
    pub other_directories: Vec<String>,
    /// Other names of its project, such as that of a workspace.
    pub aliases: Vec<String>,
    /// The time of its first response.
    pub started: Option<Timestamp>,
}

impl Account {
    /// The account of a session of which no more is known.
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
    /// Whether a person who types `wanted` may mean the session's project, under its present directory
    /// or an earlier one.
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

/// Every response once, with the session that pays for it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// The sessions.
    pub accounts: Vec<Account>,
    /// The responses, in no order.
    pub charges: Vec<Charge>,
    /// How many records of models are damaged, or told counts that cannot be: what they spent is in no sum.
    pub uncounted: u64,
}

impl Ledger {
    /// A ledger of responses that were already counted once each.
    pub fn new(accounts: Vec<Account>, charges: Vec<Charge>) -> Self {
        Ledger {
            accounts,
            charges,
            uncounted: 0,
        }
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
    pub fn dedupe(accounts: Vec<Account>, mut charges: Vec<Charge>) -> Self {
        let copies = copies(&charges);
        if copies.is_empty() {
            return Ledger::new(accounts, charges);
        }
        let own = first_unique_response(accounts.len(), &charges, &copies);
        // Who pays is settled before anything is put together: that changes what they are ranked by.
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
        // In the order in which they would pay: what a record lacks comes from the next of them, in
        // whichever order logs were read.
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
        // From the end, so that those which take their places are none of them.
        for &(at, _) in copies.iter().rev() {
            charges.swap_remove(at);
        }
        Ledger::new(accounts, charges)
    }
}

/// The charges of responses that another charge before them tells of, and where that one is; in order.
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
    // A record that names no request joins a response to that message which does.
    // Of several, to the one with the lowest number, so that the order of logs does not matter.
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

/// When each session had a response that no other has.
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

/// Who pays for a response that several tell of: the lowest.
fn rank<'a>(
    charge: &'a Charge,
    accounts: &'a [Account],
    own: &[Option<Timestamp>],
) -> impl Ord + use<'a> {
    let account = accounts.get(charge.account);
    let began = own.get(charge.account).copied().flatten();
    let started = account.and_then(|account| account.started);
    // A sub-agent's log may repeat what the main agent said before it.
    let aside = charge.source.agent.as_deref();
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
