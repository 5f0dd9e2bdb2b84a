//! The conversations of a session, without what was said: enough for lists of them.
//!
//! Conversations share their beginnings, so each stretch without branches is held once, with the
//! responses in it: prices may change, and with them what a conversation cost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::cost::{Charge, Pricing, Sheet, Source, Tally};
use crate::model::{Key, Money, Outline, ResponseKey, TitleSource};
use crate::tree::{Title, Titles, one_line, shorten};

use super::inventory::SessionFiles;
use super::listing::last_at_work;
use super::log::summary_key;
use super::session::Session;
use super::spent::Requests;
use super::summary::ConversationInfo;

/// The conversations of a session's main log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Talks {
    /// In file order of their leaves.
    pub(crate) list: Vec<Talk>,
    /// Stretches without branches; each comes after the one that it grows from.
    pub(crate) limbs: Vec<Limb>,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Talk {
    /// The id of its last message.
    pub(crate) leaf: String,
    /// Its title, as far as the session's own files tell.
    pub(crate) title: Option<Title>,
    /// Summaries in other logs may give it another one.
    pub(crate) open: bool,
    pub(crate) branch: Option<String>,
    pub(crate) messages: usize,
    pub(crate) started: Option<Timestamp>,
    pub(crate) updated: Option<Timestamp>,
    pub(crate) resumes: bool,
    /// The last of its limbs.
    pub(crate) limb: usize,
}

/// A stretch without branches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Limb {
    /// The limb that it grows from.
    pub(crate) parent: Option<usize>,
    /// Its entries, where a summary that names one of them would be a title.
    pub(crate) keys: Vec<Key>,
    /// Its responses, each once.
    pub(crate) charges: Vec<Charge>,
}

impl Talks {
    /// Takes the conversations out of a session that was read.
    pub(crate) fn of(session: &Session) -> Self {
        let Some((_, scan, tree)) = session.main() else {
            return Talks::default();
        };
        let nothing = HashMap::new();
        let titles = Titles::of(&scan.outlines, tree, &nothing, &session.asides);
        // A session that has a title asks no other log for one.
        let titled = titles
            .session()
            .is_some_and(|title| title.source > TitleSource::Prompt);
        let id_of = |at: usize| scan.outlines.get(at).and_then(Outline::id);
        let rows = tree.conversations.iter().enumerate();
        let mut list: Vec<Talk> = rows
            .map(|(at, conversation)| Talk {
                leaf: id_of(conversation.leaf)
                    .map(|id| id.to_string())
                    .unwrap_or_default(),
                title: titles.title(conversation),
                open: !titled && titles.is_open(conversation),
                branch: conversation
                    .branch
                    .and_then(|at| scan.outlines.get(at)?.prompt().map(shorten)),
                messages: conversation.messages,
                started: conversation.started,
                updated: conversation.updated,
                resumes: tree.resume == Some(at),
                limb: 0,
            })
            .collect();
        let open = list.iter().any(|talk| talk.open);
        let requests = Requests::of(&scan.outlines);
        let grown = tree.limbs().into_iter().enumerate();
        let limbs = grown.map(|(at, limb)| {
            if let Some(talk) = limb.conversation.and_then(|talk| list.get_mut(talk)) {
                talk.limb = at;
            }
            let outlines = || limb.entries.iter().filter_map(|&at| scan.outlines.get(at));
            let keys = outlines().filter_map(|outline| outline.key);
            Limb {
                parent: limb.parent,
                keys: keys.filter(|_| open).collect(),
                charges: charges(outlines(), &requests),
            }
        });
        let limbs = limbs.collect();
        Talks { list, limbs }
    }

    /// The ids of the entries whose conversations have no title yet.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.limbs.iter().flat_map(|limb| limb.keys.iter().copied())
    }

    /// What lists say about the conversations of that session; `sums` tells what each comes to. One whose
    /// entries have no times has that of its file, as a session has.
    pub(crate) fn rows(
        self,
        files: &SessionFiles,
        elsewhere: &HashMap<Key, Box<str>>,
        sums: &[Tally],
    ) -> Vec<ConversationInfo> {
        let session = &files.id;
        // The summary nearest to the leaf wins.
        let mut found: Vec<Option<&str>> = Vec::with_capacity(self.limbs.len());
        for limb in self.limbs.iter().filter(|_| !elsewhere.is_empty()) {
            let mut keys = limb.keys.iter().rev();
            let own = keys.find_map(|key| {
                let named = elsewhere.get(&summary_key(session.as_str(), *key));
                named.or_else(|| elsewhere.get(key)).map(|text| &**text)
            });
            let above = || found.get(limb.parent?).copied().flatten();
            found.push(own.or_else(above));
        }
        let rows = self.list.into_iter().enumerate();
        rows.map(|(at, talk)| {
            let told = found.get(talk.limb).copied().flatten();
            let told = told.filter(|text| talk.open && !text.trim().is_empty());
            ConversationInfo {
                id: format!("{session}@{}", talk.leaf),
                session: session.clone(),
                title: told.map_or(talk.title, |text| {
                    Some(Title {
                        text: one_line(text),
                        source: TitleSource::Summary,
                    })
                }),
                branch: talk.branch,
                messages: talk.messages,
                started: talk.started,
                updated: last_at_work(files, talk.updated),
                resumes: talk.resumes,
                usage: sums.get(at).map(|sum| sum.usage).unwrap_or_default(),
                leaf: talk.leaf,
            }
        })
        .collect()
    }

    /// What each conversation comes to, each response counted once, at its largest.
    pub(crate) fn sums(&self, price: Pricing<'_>) -> Vec<Tally> {
        let mut path = Path {
            spread: self.spread(),
            known: HashMap::new(),
            changed: Vec::new(),
            price,
        };
        let mut totals = vec![Tally::default(); self.limbs.len()];
        self.walk(|step| match step {
            Step::Enter(at) => {
                let Some(limb) = self.limbs.get(at) else {
                    return;
                };
                let above = limb.parent.and_then(|parent| totals.get(parent));
                let sum = path.enter(above.copied().unwrap_or_default(), limb);
                if let Some(total) = totals.get_mut(at) {
                    *total = sum;
                }
            }
            Step::Leave => path.leave(),
        });
        let sum = |talk: &Talk| totals.get(talk.limb).copied().unwrap_or_default();
        self.list.iter().map(sum).collect()
    }

    /// The responses that stand in more than one limb: few, and only these must be remembered on the
    /// way.
    fn spread(&self) -> HashSet<ResponseKey> {
        let mut spread = HashSet::new();
        // Most sessions have no branches.
        if self.limbs.len() < 2 {
            return spread;
        }
        let mut seen = HashSet::new();
        for charge in self.limbs.iter().flat_map(|limb| &limb.charges) {
            // Within a limb, each is there once.
            spread.extend(charge.response.filter(|key| !seen.insert(*key)));
        }
        spread
    }

    /// Walks through all limbs, each after the one that it grows from, and tells when one and all
    /// that grow from it are done.
    fn walk(&self, mut visit: impl FnMut(Step)) {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.limbs.len()];
        let mut pending = Vec::new();
        for (at, limb) in self.limbs.iter().enumerate().rev() {
            match limb.parent.and_then(|parent| children.get_mut(parent)) {
                Some(children) => children.push(at),
                None => pending.push(Step::Enter(at)),
            }
        }
        while let Some(step) = pending.pop() {
            visit(step);
            if let Step::Enter(at) = step {
                pending.push(Step::Leave);
                let below = children.get(at).into_iter().flatten();
                pending.extend(below.map(|at| Step::Enter(*at)));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Enter(usize),
    Leave,
}

/// The path that is being walked.
struct Path<'a> {
    spread: HashSet<ResponseKey>,
    /// What those responses amount to so far.
    known: HashMap<ResponseKey, Known>,
    /// What they were before each limb that changed them.
    changed: Vec<Vec<(ResponseKey, Option<Known>)>>,
    price: Pricing<'a>,
}

type Known = (Charge, Option<Money>);

impl Path<'_> {
    fn enter(&mut self, mut sum: Tally, limb: &Limb) -> Tally {
        let mut before = Vec::new();
        for charge in &limb.charges {
            let key = charge.response.filter(|key| self.spread.contains(key));
            let Some(key) = key else {
                sum.add(&charge.usage, (self.price)(charge));
                continue;
            };
            let old = self.known.remove(&key);
            let settled = match &old {
                None => charge.clone(),
                Some((old, cost)) => {
                    sum.take(&old.usage, *cost);
                    let mut settled = old.clone();
                    settled.settle(charge);
                    settled
                }
            };
            let cost = (self.price)(&settled);
            sum.add(&settled.usage, cost);
            self.known.insert(key, (settled, cost));
            before.push((key, old));
        }
        self.changed.push(before);
        sum
    }

    fn leave(&mut self) {
        for (key, old) in self.changed.pop().into_iter().flatten().rev() {
            match old {
                Some(old) => self.known.insert(key, old),
                None => self.known.remove(&key),
            };
        }
    }
}

/// Leaves of what is known of responses only what their prices depend on.
#[derive(Default)]
pub(crate) struct ForPricing {
    /// The source before, and what is left of it.
    last: Option<(Arc<Source>, Arc<Source>)>,
}

impl ForPricing {
    pub(crate) fn of(&mut self, mut charge: Charge) -> Charge {
        let known = self.last.take();
        let known = known.filter(|(of, _)| Arc::ptr_eq(of, &charge.source));
        let (of, left) = known.unwrap_or_else(|| {
            let mut left = (*charge.source).clone();
            left.agent = None;
            left.git_branch = None;
            (Arc::clone(&charge.source), Arc::new(left))
        });
        charge.source = Arc::clone(&left);
        charge.copied = false;
        self.last = Some((of, left));
        charge
    }
}

/// Whether nothing is known of one response that would make its price another than the other's.
pub(crate) fn are_priced_alike(one: &Charge, other: &Charge) -> bool {
    let known = |charge: &Charge| {
        let same = (charge.response, charge.time, charge.usage);
        (same, charge.account, charge.source.terms)
    };
    known(one) == known(other)
        && one.recorded == other.recorded
        && one.source.model == other.source.model
}

/// What some records say that responses cost, each response once.
fn charges<'a>(outlines: impl Iterator<Item = &'a Outline>, requests: &Requests) -> Vec<Charge> {
    let mut pricing = ForPricing::default();
    if requests.are_told() {
        let mut sheet = Sheet::default();
        outlines.for_each(|outline| sheet.add(outline));
        let charges = sheet.charges(0, None);
        return charges.map(|charge| pricing.of(charge)).collect();
    }
    let mut charges: Vec<Charge> = Vec::new();
    let mut known: HashMap<ResponseKey, usize> = HashMap::new();
    for charge in outlines.filter_map(|outline| requests.charge(outline)) {
        let place = charge
            .response
            .map(|key| *known.entry(key).or_insert(charges.len()));
        match place.and_then(|at| charges.get_mut(at)) {
            Some(first) => first.settle(&charge),
            None => charges.push(pricing.of(charge)),
        }
    }
    charges
}
