//! Encoding of charges: the sources that they have in common, then one row per charge.
//!
//! All charges of a history are read whenever a ledger is built, so decoding allocates little.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Charge, ChargeSource};
use annals_layouts::model::{BillingTerms, EntryKey, Money, ResponseKey, ServiceTier, Usage};

/// Head of encoded charges.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    sources: Vec<Source<'a>>,
    rows: usize,
}

/// Source of charges, and the session that their records name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Source<'a> {
    model: Option<&'a str>,
    agent: Option<&'a str>,
    git_branch: Option<&'a str>,
    session: Option<&'a str>,
    tier: u8,
    us_only: bool,
}

/// A charge. `source` is an index into the sources.
#[derive(Serialize, Deserialize)]
struct Row {
    source: usize,
    response: Option<([u8; 16], [u8; 8])>,
    time: Option<Time>,
    counters: [u64; 6],
    copied: bool,
    recorded: Option<i128>,
}

/// Seconds and nanoseconds.
pub(super) type Time = (i64, i32);

/// Encodes charges, each with the session that its record names.
pub(super) fn encode<'a>(
    charges: impl ExactSizeIterator<Item = (&'a Charge, Option<&'a str>)>,
) -> Option<Vec<u8>> {
    let count = charges.len();
    let mut sources = Vec::new();
    let mut numbers: HashMap<Source<'a>, usize> = HashMap::new();
    let mut rows = Vec::with_capacity(count * 48);
    for (charge, session) in charges {
        let source = &charge.source;
        let tier = ServiceTier::ALL
            .iter()
            .position(|tier| *tier == source.terms.tier)?;
        let source = Source {
            model: source.model.as_deref(),
            agent: source.agent.as_deref(),
            git_branch: source.git_branch.as_deref(),
            session,
            tier: u8::try_from(tier).ok()?,
            us_only: source.terms.us_only,
        };
        // Most charges have the source of the previous one.
        let number = match sources.last() == Some(&source) {
            true => sources.len() - 1,
            false => *numbers.entry(source).or_insert_with(|| {
                sources.push(source);
                sources.len() - 1
            }),
        };
        let row = Row {
            source: number,
            response: charge
                .response
                .map(|key| (key.message.to_bytes(), key.request.to_le_bytes())),
            time: charge.time.map(time_parts),
            counters: charge.usage.counters(),
            copied: charge.copied,
            recorded: charge.recorded.as_ref().map(|cost| cost.pico()),
        };
        rows = postcard::to_extend(&row, rows).ok()?;
    }
    let head = Head {
        sources,
        rows: count,
    };
    let mut bytes = postcard::to_stdvec(&head).ok()?;
    bytes.append(&mut rows);
    Some(bytes)
}

/// Encoded charges.
pub(super) struct EncodedCharges<'a> {
    head: Head<'a>,
    rows: &'a [u8],
}

impl<'a> EncodedCharges<'a> {
    /// Decodes the head; `None` if it is damaged.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let (head, rows) = postcard::take_from_bytes(bytes).ok()?;
        Some(EncodedCharges { head, rows })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.rows == 0
    }

    /// Passes the message of each response to `take`; `None` if a row is damaged.
    pub(super) fn messages(&self, mut take: impl FnMut(EntryKey)) -> Option<()> {
        let rest = self.each_row(|row| {
            if let Some((message, _)) = row.response {
                take(EntryKey::from_bytes(message));
            }
            Some(())
        })?;
        rest.is_empty().then_some(())
    }

    /// Appends the charges to `to`, each with the session that its record names as `session` maps
    /// it. Returns the bytes after the charges; `None` if they are damaged.
    pub(super) fn decode<S: Clone, T>(
        &self,
        account: usize,
        names: &mut Names,
        mut session: impl FnMut(Option<&'a str>, &mut Names) -> S,
        to: &mut Vec<T>,
        item: impl Fn(Charge, S) -> T,
    ) -> Option<&'a [u8]> {
        let sources = self.head.sources.iter().map(|source| {
            let mut made = ChargeSource::default();
            made.model = names.get(source.model);
            made.terms = BillingTerms {
                tier: *ServiceTier::ALL.get(usize::from(source.tier))?,
                us_only: source.us_only,
            };
            made.agent = names.get(source.agent);
            made.git_branch = names.get(source.git_branch);
            Some((Arc::new(made), session(source.session, names)))
        });
        let sources: Vec<(Arc<ChargeSource>, S)> = sources.collect::<Option<_>>()?;
        // A damaged count must not allocate more than the rows can fill.
        to.reserve(self.head.rows.min(self.rows.len() / SHORTEST));
        self.each_row(|row| {
            let (source, session) = sources.get(row.source)?;
            let mut charge = Charge::with_source(source, account);
            charge.response = row.response.map(|(message, request)| ResponseKey {
                message: EntryKey::from_bytes(message),
                request: u64::from_le_bytes(request),
            });
            charge.time = timestamp(row.time)?;
            charge.usage = Usage::from_counters(row.counters);
            charge.copied = row.copied;
            charge.recorded = row.recorded.map(|pico| Box::new(Money::from_pico(pico)));
            to.push(item(charge, session.clone()));
            Some(())
        })
    }

    fn each_row(&self, mut take: impl FnMut(Row) -> Option<()>) -> Option<&'a [u8]> {
        let mut rest = self.rows;
        for _ in 0..self.head.rows {
            let (row, after) = postcard::take_from_bytes(rest).ok()?;
            take(row)?;
            rest = after;
        }
        Some(rest)
    }
}

/// Size of the shortest row in bytes.
const SHORTEST: usize = 11;

/// Names that many rows share, each allocated once.
#[derive(Default)]
pub(super) struct Names(Vec<Arc<str>>);

impl Names {
    pub(super) fn get(&mut self, name: Option<&str>) -> Option<Arc<str>> {
        // Models and branches are few; beyond this limit names are not shared.
        const MOST: usize = 32;
        let name = name?;
        if let Some(known) = self.0.iter().find(|known| ***known == *name) {
            return Some(Arc::clone(known));
        }
        let name: Arc<str> = name.into();
        if self.0.len() < MOST {
            self.0.push(Arc::clone(&name));
        }
        Some(name)
    }
}

pub(super) fn time_parts(time: Timestamp) -> Time {
    (time.as_second(), time.subsec_nanosecond())
}

/// Decodes an optional time; the outer `None` means an invalid time.
pub(super) fn timestamp(parts: Option<Time>) -> Option<Option<Timestamp>> {
    match parts {
        None => Some(None),
        Some((second, nanosecond)) => Timestamp::new(second, nanosecond).ok().map(Some),
    }
}
