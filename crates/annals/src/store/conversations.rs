//! Summaries of the conversations of a session, without their messages.
//!
//! Conversations share prefixes, so each segment without branches is stored once, with its
//! responses. Costs are not stored, because prices may change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Charge, ChargeSource, LogCharges, PriceFn, Tally};
use annals_layouts::model::{EntryKey, Money, Outline, ResponseKey, TitleSource};
use annals_layouts::tree::{Title, Titles, one_line};

use super::info::ConversationInfo;
use super::inventory::SessionFiles;
use super::log_reader::summary_key;
use super::session::Session;
use super::session_cost::RequestNames;
use super::session_summary::last_active;

/// The conversations of a session's main log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conversations {
    /// In file order of their leaves.
    pub(crate) list: Vec<ConversationSummary>,
    /// Segments without branches; each follows its parent.
    pub(crate) segments: Vec<ConversationSegment>,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConversationSummary {
    /// The id of its last message.
    pub(crate) leaf: String,
    /// Its title from the session's own files.
    pub(crate) title: Option<Title>,
    /// Whether a summary in another log may give it a title.
    pub(crate) untitled: bool,
    pub(crate) branch: Option<String>,
    pub(crate) messages: usize,
    #[serde(with = "jiff::fmt::serde::timestamp::nanosecond::optional")]
    pub(crate) started: Option<Timestamp>,
    #[serde(with = "jiff::fmt::serde::timestamp::nanosecond::optional")]
    pub(crate) updated: Option<Timestamp>,
    pub(crate) resumes: bool,
    /// Its last segment.
    pub(crate) segment: usize,
}

/// A run of entries without branches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConversationSegment {
    /// The segment that it branches from.
    pub(crate) parent: Option<usize>,
    /// Its entries, if a summary that names one of them would be a title.
    #[serde(with = "super::key_bytes")]
    pub(crate) keys: Vec<EntryKey>,
    /// Its responses, each once. The index stores them separately.
    #[serde(skip)]
    pub(crate) charges: Vec<Charge>,
}

impl Conversations {
    /// Summarizes the conversations of a session.
    pub(crate) fn from_session(session: &Session) -> Self {
        let Some((_, scan, tree)) = session.main_log() else {
            return Conversations::default();
        };
        let nothing = HashMap::new();
        let titles = Titles::new(&scan.outlines, tree, &nothing, &session.external_facts);
        // A session with a title needs no summary from another log.
        let titled = titles
            .session()
            .is_some_and(|title| title.source > TitleSource::Prompt);
        let id_of = |at: usize| scan.outlines.get(at).and_then(Outline::id);
        let rows = tree.conversations.iter().enumerate();
        let mut list: Vec<ConversationSummary> = rows
            .map(|(at, conversation)| ConversationSummary {
                leaf: id_of(conversation.leaf)
                    .map(|id| id.to_string())
                    .unwrap_or_default(),
                title: titles.title(conversation),
                untitled: !titled && titles.is_untitled(conversation),
                branch: conversation
                    .branch
                    .and_then(|at| scan.outlines.get(at)?.prompt().map(one_line)),
                messages: conversation.messages,
                started: conversation.started,
                updated: conversation.updated,
                resumes: tree.resume == Some(at),
                segment: 0,
            })
            .collect();
        let open = list.iter().any(|row| row.untitled);
        let requests = RequestNames::from_outlines(&scan.outlines);
        let grown = tree.segments().into_iter().enumerate();
        let segments = grown.map(|(at, segment)| {
            if let Some(row) = segment.conversation.and_then(|row| list.get_mut(row)) {
                row.segment = at;
            }
            let outlines = || {
                segment
                    .entries
                    .iter()
                    .filter_map(|&at| scan.outlines.get(at))
            };
            let keys = outlines().filter_map(|outline| outline.key);
            ConversationSegment {
                parent: segment.parent,
                keys: keys.filter(|_| open).collect(),
                charges: charges(outlines(), &requests),
            }
        });
        let segments = segments.collect();
        Conversations { list, segments }
    }

    /// Returns the keys of the entries of untitled conversations.
    pub(crate) fn keys(&self) -> impl Iterator<Item = EntryKey> {
        self.segments
            .iter()
            .flat_map(|segment| segment.keys.iter().copied())
    }

    /// Converts the conversations into rows; `sums` has the totals of each. A conversation without
    /// times gets the time of its file, as a session does.
    pub(crate) fn into_infos(
        self,
        files: &SessionFiles,
        elsewhere: &HashMap<EntryKey, Box<str>>,
        sums: &[Tally],
    ) -> Vec<ConversationInfo> {
        let session = &files.id;
        // The summary nearest to the leaf wins.
        let mut found: Vec<Option<&str>> = Vec::with_capacity(self.segments.len());
        for segment in self.segments.iter().filter(|_| !elsewhere.is_empty()) {
            let mut keys = segment.keys.iter().rev();
            let own = keys.find_map(|key| {
                let named = elsewhere.get(&summary_key(session.as_str(), *key));
                named.or_else(|| elsewhere.get(key)).map(|text| &**text)
            });
            let above = || found.get(segment.parent?).copied().flatten();
            found.push(own.or_else(above));
        }
        let rows = self.list.into_iter().enumerate();
        rows.map(|(at, row)| {
            let summary = found.get(row.segment).copied().flatten();
            let summary = summary.filter(|text| row.untitled && !text.trim().is_empty());
            ConversationInfo {
                id: format!("{session}@{}", row.leaf),
                session: session.clone(),
                title: summary.map_or(row.title, |text| {
                    Some(Title {
                        text: one_line(text),
                        source: TitleSource::Summary,
                    })
                }),
                branch: row.branch,
                messages: row.messages,
                started: row.started,
                updated: last_active(files, row.updated),
                resumes: row.resumes,
                usage: sums.get(at).map(|sum| sum.usage).unwrap_or_default(),
                leaf: row.leaf,
            }
        })
        .collect()
    }

    /// Returns the total of each conversation, with each response counted once, at its largest.
    pub(crate) fn totals(&self, price: PriceFn<'_>) -> Vec<Tally> {
        let mut path = PathTotals {
            repeated: self.repeated_responses(),
            known: HashMap::new(),
            changed: Vec::new(),
            price,
        };
        let mut totals = vec![Tally::default(); self.segments.len()];
        self.walk(|step| match step {
            Step::Enter(at) => {
                let Some(segment) = self.segments.get(at) else {
                    return;
                };
                let above = segment.parent.and_then(|parent| totals.get(parent));
                let sum = path.enter(above.copied().unwrap_or_default(), segment);
                if let Some(total) = totals.get_mut(at) {
                    *total = sum;
                }
            }
            Step::Leave => path.leave(),
        });
        let sum = |row: &ConversationSummary| totals.get(row.segment).copied().unwrap_or_default();
        self.list.iter().map(sum).collect()
    }

    /// Returns the responses that occur in more than one segment. They are few, and only they must
    /// be tracked during the walk.
    fn repeated_responses(&self) -> HashSet<ResponseKey> {
        let mut spread = HashSet::new();
        // Most sessions have no branches.
        if self.segments.len() < 2 {
            return spread;
        }
        let mut seen = HashSet::new();
        for charge in self.segments.iter().flat_map(|segment| &segment.charges) {
            // A segment has each response once.
            spread.extend(charge.response.filter(|key| !seen.insert(*key)));
        }
        spread
    }

    /// Visits all segments in depth-first order, and reports when a segment and all below it are
    /// done.
    fn walk(&self, mut visit: impl FnMut(Step)) {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.segments.len()];
        let mut pending = Vec::new();
        for (at, segment) in self.segments.iter().enumerate().rev() {
            match segment.parent.and_then(|parent| children.get_mut(parent)) {
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

/// Totals along the path of the walk.
struct PathTotals<'a> {
    repeated: HashSet<ResponseKey>,
    /// The repeated responses on the path, with their cost.
    known: HashMap<ResponseKey, Known>,
    /// Their previous values, for each segment that changed them.
    changed: Vec<Vec<(ResponseKey, Option<Known>)>>,
    price: PriceFn<'a>,
}

type Known = (Charge, Option<Money>);

impl PathTotals<'_> {
    fn enter(&mut self, mut sum: Tally, segment: &ConversationSegment) -> Tally {
        let mut before = Vec::new();
        for charge in &segment.charges {
            let key = charge.response.filter(|key| self.repeated.contains(key));
            let Some(key) = key else {
                sum.add(&charge.usage, (self.price)(charge));
                continue;
            };
            let old = self.known.remove(&key);
            let settled = match &old {
                None => charge.clone(),
                Some((old, cost)) => {
                    sum.subtract(&old.usage, *cost);
                    let mut settled = old.clone();
                    settled.merge(charge);
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

/// Strips charges down to the fields that determine their prices.
#[derive(Default)]
struct PriceInputs {
    /// The last source and its stripped copy.
    last: Option<(Arc<ChargeSource>, Arc<ChargeSource>)>,
}

impl PriceInputs {
    fn strip(&mut self, mut charge: Charge) -> Charge {
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

/// Returns the charges of some records, each response once.
fn charges<'a>(
    outlines: impl Iterator<Item = &'a Outline>,
    requests: &RequestNames,
) -> Vec<Charge> {
    let mut pricing = PriceInputs::default();
    if requests.are_complete() {
        let mut sheet = LogCharges::default();
        outlines.for_each(|outline| sheet.add(outline));
        let charges = sheet.charges(0, None);
        return charges.map(|charge| pricing.strip(charge)).collect();
    }
    let mut charges: Vec<Charge> = Vec::new();
    let mut known: HashMap<ResponseKey, usize> = HashMap::new();
    for charge in outlines.filter_map(|outline| requests.charge(outline)) {
        let place = charge
            .response
            .map(|key| *known.entry(key).or_insert(charges.len()));
        match place.and_then(|at| charges.get_mut(at)) {
            Some(first) => first.merge(&charge),
            None => charges.push(pricing.strip(charge)),
        }
    }
    charges
}
