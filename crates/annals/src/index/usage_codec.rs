//! Encoding of the charges of a log: rare fields first, then a row of numbers per charge.
//!
//! All rows of a history are read whenever a ledger is built, so decoding must be fast.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Charge, ChargeSource, DirectoryOwner, LogCharges, LogStart};
use crate::store::usage_collector::StoredUsage;
use annals_layouts::model::{
    BillingTerms, EntryKey, Money, ResponseKey, ServiceTier, SessionId, Usage,
};

/// Header before the rows.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    texts: Vec<&'a str>,
    directories: Vec<(Option<u32>, u32)>,
    cwd: Vec<(Option<u32>, u32)>,
    shared: bool,
    uncounted: u64,
    first: Option<u32>,
    session: Option<u32>,
    git_branch: Option<u32>,
    opening: Option<(bool, Option<(i64, i32)>)>,
    latest: Option<(i64, i32)>,
    origins: Vec<Origin>,
    /// Number of rows that follow.
    rows: usize,
    /// Costs recorded in the log, by row number.
    recorded: Vec<(u32, i128)>,
}

/// Source of rows, and the session that they name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Origin {
    model: Option<u32>,
    agent: Option<u32>,
    git_branch: Option<u32>,
    session: Option<u32>,
    pace: u8,
    us_only: bool,
}

/// Bits of a row's first byte.
const NAMED: u8 = 1;
const COPIED: u8 = 2;
const TIMED: u8 = 4;
/// The time is stored in full; otherwise as milliseconds since the previous row.
const FINE: u8 = 8;

const MILLISECOND: i32 = 1_000_000;

/// Encodes the charges of a log.
pub(super) fn encode(sheet: &LogCharges) -> Option<Vec<u8>> {
    let mut texts = Texts::default();
    let mut rows = Rows(Vec::with_capacity(sheet.charges.len() * SHORTEST * 5 / 4));
    let mut recorded = Vec::new();
    let mut origins = Origins::default();
    let mut before = 0;
    for (number, (charge, session)) in sheet.charges.iter().enumerate() {
        if let Some(cost) = &charge.recorded {
            recorded.push((u32::try_from(number).ok()?, cost.pico()));
        }
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let fine = |time: Timestamp| time.subsec_nanosecond() % MILLISECOND != 0;
        rows.0.push(
            flag(charge.response.is_some(), NAMED)
                | flag(charge.copied, COPIED)
                | flag(charge.time.is_some(), TIMED)
                | flag(charge.time.is_some_and(fine), FINE),
        );
        rows.put(origins.number(&charge.source, session.as_ref(), &mut texts)?);
        if let Some(key) = charge.response {
            rows.0.extend_from_slice(&key.message.to_bytes());
            rows.0.extend_from_slice(&key.request.to_le_bytes());
        }
        match charge.time {
            Some(time) if fine(time) => {
                let (second, nanosecond) = parts(time);
                rows.0.extend_from_slice(&second.to_le_bytes());
                rows.0.extend_from_slice(&nanosecond.to_le_bytes());
            }
            Some(time) => {
                let now = time.as_millisecond();
                rows.put(zigzag(now.wrapping_sub(before)));
                before = now;
            }
            None => {}
        }
        for count in charge.usage.counters() {
            rows.put(count);
        }
    }
    let directories = sheet.directories().into_iter();
    let directories = directories.map(|(owner, path)| texts.pair(owner, path));
    let directories = directories.collect::<Option<_>>()?;
    let cwd = sheet
        .cwd
        .iter()
        .map(|(owner, path)| texts.pair(owner, path));
    let cwd = cwd.collect::<Option<_>>()?;
    let head = Head {
        directories,
        cwd,
        shared: sheet.shared,
        uncounted: sheet.uncounted,
        first: texts.number(sheet.first.as_ref()),
        session: texts.number(sheet.session.as_ref()),
        git_branch: texts.number(sheet.git_branch.as_ref()),
        opening: sheet
            .start
            .map(|opening| (opening.continues_other_log, opening.time.map(parts))),
        latest: sheet.latest.map(parts),
        texts: texts.list,
        origins: origins.list,
        rows: sheet.charges.len(),
        recorded,
    };
    let mut bytes = postcard::to_stdvec(&head).ok()?;
    bytes.append(&mut rows.0);
    Some(bytes)
}

/// Encoded charges whose rows are decoded on demand.
pub(super) struct EncodedCharges<'a> {
    head: Head<'a>,
    rows: &'a [u8],
}

impl<'a> EncodedCharges<'a> {
    /// Decodes the header; `None` if it is damaged.
    pub(super) fn decode_header(bytes: &'a [u8]) -> Option<Self> {
        let (head, rows) = postcard::take_from_bytes(bytes).ok()?;
        Some(EncodedCharges { head, rows })
    }

    /// Decodes everything.
    pub(super) fn log_charges(&self) -> Option<LogCharges> {
        let head = &self.head;
        let mut names = Names::new(head);
        let mut sheet = LogCharges::default();
        sheet.first = names.get(head.first)?;
        sheet.session = names.get(head.session)?;
        sheet.git_branch = names.get(head.git_branch)?;
        sheet.latest = whole(head.latest)?;
        if let Some((answers, began)) = head.opening {
            let time = whole(began)?;
            sheet.start = Some(LogStart {
                continues_other_log: answers,
                time,
            });
        }
        sheet.shared = head.shared;
        sheet.uncounted = head.uncounted;
        for &(owner, path) in &head.directories {
            sheet.add_directory(names.get(owner)?, names.get(Some(path))??);
        }
        for &(owner, path) in &head.cwd {
            let owner = names.get(owner)?;
            sheet.cwd.insert(owner, names.get(Some(path))??);
        }
        // An estimate that avoids most reallocations.
        sheet.charges.reserve(self.rows.len() / SHORTEST);
        let origins = self.origins(&mut names, &ChargeSource::default(), |session, names| {
            names.get(session)
        })?;
        let mut rows = Fields::new(self.rows);
        while !rows.rest.is_empty() {
            let (flags, (source, session)) = rows.begin(&origins)?;
            let mut charge = Charge::with_source(source, 0);
            rows.read(flags, &mut charge)?;
            sheet.charges.push((charge, session.clone()));
        }
        if sheet.charges.len() != head.rows {
            return None;
        }
        for &(number, pico) in &head.recorded {
            let (charge, _) = sheet.charges.get_mut(number as usize)?;
            charge.recorded = Some(Box::new(Money::from_pico(pico)));
        }
        Some(sheet)
    }

    /// Returns the sources of rows, each with a value that `of` derives from their session. Texts
    /// are shared with `other` where equal, because consecutive logs have much in common.
    fn origins<T>(
        &self,
        names: &mut Names<'_>,
        other: &ChargeSource,
        of: impl Fn(Option<u32>, &mut Names<'_>) -> Option<T>,
    ) -> Option<Vec<(Arc<ChargeSource>, T)>> {
        let made = self.head.origins.iter().map(|origin| {
            let source = ChargeSource {
                model: names.get_or(origin.model, &other.model)?,
                terms: BillingTerms {
                    tier: *ServiceTier::ALL.get(usize::from(origin.pace))?,
                    us_only: origin.us_only,
                },
                agent: names.get(origin.agent)?,
                git_branch: names.get_or(origin.git_branch, &other.git_branch)?,
            };
            Some((Arc::new(source), of(origin.session, names)?))
        });
        made.collect()
    }

    /// Returns a text of the header; `None` (damage) if there is none with this number.
    fn text(&self, number: u32) -> Option<&'a str> {
        self.head.texts.get(number as usize).copied()
    }
}

impl StoredUsage for EncodedCharges<'_> {
    fn is_empty(&self) -> bool {
        self.head.rows == 0
    }

    fn uncounted(&self) -> u64 {
        self.head.uncounted
    }

    fn first(&self) -> Option<&str> {
        self.text(self.head.first?)
    }

    fn directories(&self) -> Vec<Arc<str>> {
        let paths = self.head.directories.iter();
        let paths = paths.filter_map(|(_, path)| self.text(*path));
        paths.map(Arc::from).collect()
    }

    fn charges(&self, account: usize, only: &SessionId, to: &mut Vec<Charge>) -> Option<()> {
        let is_foreign = |session: Option<u32>, _: &mut Names<'_>| match session {
            None => Some(false),
            Some(session) => Some(self.text(session)? != only.as_str()),
        };
        let before = to.len();
        let unknown = ChargeSource::default();
        let other = to.last().map_or(&unknown, |charge| &charge.source);
        let origins = self.origins(&mut Names::new(&self.head), other, is_foreign)?;
        let mut rows = Fields::new(self.rows);
        while !rows.rest.is_empty() {
            let (flags, (source, foreign)) = rows.begin(&origins)?;
            // Built in place, because a charge is large and there are many.
            to.push(Charge::with_source(source, account));
            let charge = to.last_mut()?;
            rows.read(flags, charge)?;
            charge.copied |= foreign;
        }
        let new = to.get_mut(before..)?;
        if new.len() != self.head.rows {
            return None;
        }
        for &(number, pico) in &self.head.recorded {
            new.get_mut(number as usize)?.recorded = Some(Box::new(Money::from_pico(pico)));
        }
        Some(())
    }
}

/// Approximate minimum size of a row in bytes.
const SHORTEST: usize = 36;

/// Texts of a header, each allocated at first use.
struct Names<'a> {
    texts: &'a [&'a str],
    made: Vec<Option<Arc<str>>>,
}

impl<'a> Names<'a> {
    fn new(head: &'a Head<'a>) -> Self {
        Names {
            texts: &head.texts,
            made: vec![None; head.texts.len()],
        }
    }

    /// Returns a text; the outer `None` means that the number is invalid (damage).
    fn get(&mut self, number: Option<u32>) -> Option<Option<Arc<str>>> {
        self.get_or(number, &None)
    }

    /// Like `get`, but shares `other` if it is the same text.
    fn get_or(
        &mut self,
        number: Option<u32>,
        other: &Option<Arc<str>>,
    ) -> Option<Option<Arc<str>>> {
        let Some(number) = number else {
            return Some(None);
        };
        let made = self.made.get_mut(number as usize)?;
        if made.is_none() {
            let text = *self.texts.get(number as usize)?;
            let other = other.as_ref().filter(|other| ***other == *text);
            *made = Some(other.map_or_else(|| text.into(), Arc::clone));
        }
        Some(made.clone())
    }
}

/// Rows being encoded.
struct Rows(Vec<u8>);

impl Rows {
    /// Appends a varint: seven bits per byte, lowest first; the high bit means that more follow.
    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

/// Rows being decoded.
struct Fields<'a> {
    rest: &'a [u8],
    /// Time of the previous row, in milliseconds since 1970.
    before: i64,
}

impl<'a> Fields<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Fields { rest, before: 0 }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    /// Starts the next row; returns its flags and its origin.
    fn begin<'o, T>(&mut self, origins: &'o [T]) -> Option<(u8, &'o T)> {
        let [flags] = self.take()?;
        let origin = usize::try_from(self.number()?).ok()?;
        Some((flags, origins.get(origin)?))
    }

    /// Decodes the rest of a row into a charge.
    fn read(&mut self, flags: u8, charge: &mut Charge) -> Option<()> {
        if flags & NAMED != 0 {
            charge.response = Some(ResponseKey {
                message: EntryKey::from_bytes(self.take()?),
                request: u64::from_le_bytes(self.take()?),
            });
        }
        if flags & FINE != 0 {
            let second = i64::from_le_bytes(self.take()?);
            let nanosecond = i32::from_le_bytes(self.take()?);
            charge.time = Some(time((second, nanosecond))?);
        } else if flags & TIMED != 0 {
            self.before = self.before.wrapping_add(unzigzag(self.number()?));
            charge.time = Some(Timestamp::from_millisecond(self.before).ok()?);
        }
        let mut counters = [0; 6];
        for counter in &mut counters {
            *counter = self.number()?;
        }
        charge.usage = Usage::from_counters(counters);
        charge.copied = flags & COPIED != 0;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        // Most numbers take one byte.
        if let Some((first @ ..0x80, rest)) = self.rest.split_first() {
            self.rest = rest;
            return Some(u64::from(*first));
        }
        let mut number = 0u64;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = self.rest.get(at + 1..)?;
                return Some(number);
            }
        }
        None
    }
}

/// Zigzag encoding: maps numbers near zero to small unsigned numbers.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Decodes an optional time; the outer `None` means an invalid time.
fn whole(parts: Option<(i64, i32)>) -> Option<Option<Timestamp>> {
    match parts {
        None => Some(None),
        Some(parts) => time(parts).map(Some),
    }
}

fn parts(time: Timestamp) -> (i64, i32) {
    (time.as_second(), time.subsec_nanosecond())
}

fn time((second, nanosecond): (i64, i32)) -> Option<Timestamp> {
    Timestamp::new(second, nanosecond).ok()
}

/// Text table being built, without duplicates.
#[derive(Default)]
struct Texts<'a> {
    list: Vec<&'a str>,
    numbers: HashMap<&'a str, u32>,
}

impl<'a> Texts<'a> {
    fn pair(
        &mut self,
        owner: &'a DirectoryOwner,
        path: &'a Arc<str>,
    ) -> Option<(Option<u32>, u32)> {
        let owner = self.number(owner.as_ref());
        Some((owner, self.number(Some(path))?))
    }

    fn number(&mut self, text: Option<&'a Arc<str>>) -> Option<u32> {
        let text = text?;
        let next = u32::try_from(self.list.len()).ok()?;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.list.push(text);
        }
        Some(number)
    }
}

/// Origin table being built, without duplicates.
#[derive(Default)]
struct Origins<'a> {
    list: Vec<Origin>,
    numbers: HashMap<Origin, u64>,
    /// Origin of the previous row, which most rows share.
    last: Option<Known<'a>>,
}

#[derive(Clone, Copy)]
struct Known<'a> {
    source: &'a Arc<ChargeSource>,
    session: Option<&'a Arc<str>>,
    number: u64,
}

impl<'a> Origins<'a> {
    fn number(
        &mut self,
        source: &'a Arc<ChargeSource>,
        session: Option<&'a Arc<str>>,
        texts: &mut Texts<'a>,
    ) -> Option<u64> {
        if let Some(last) = self.last
            && Arc::ptr_eq(last.source, source)
            && last.session.map(Arc::as_ptr) == session.map(Arc::as_ptr)
        {
            return Some(last.number);
        }
        let pace = ServiceTier::ALL
            .iter()
            .position(|pace| *pace == source.terms.tier)?;
        let origin = Origin {
            model: texts.number(source.model.as_ref()),
            agent: texts.number(source.agent.as_ref()),
            git_branch: texts.number(source.git_branch.as_ref()),
            session: texts.number(session),
            pace: u8::try_from(pace).ok()?,
            us_only: source.terms.us_only,
        };
        let next = self.list.len() as u64;
        let number = *self.numbers.entry(origin).or_insert(next);
        if number == next {
            self.list.push(origin);
        }
        self.last = Some(Known {
            source,
            session,
            number,
        });
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> LogCharges {
        let mut sheet = LogCharges::default();
        for number in 0..40u64 {
            let mut charge = Charge::new(0);
            charge.response = (number % 3 > 0).then(|| ResponseKey::new(&number.to_string(), "r"));
            charge.time = match number % 9 {
                0 => Timestamp::from_nanosecond(i128::from(number) * 1_000_001 - 7).ok(),
                1 => Some(Timestamp::MAX),
                2 => Timestamp::from_millisecond(Timestamp::MIN.as_millisecond()).ok(),
                _ => Timestamp::from_millisecond(number as i64 * 1_000_001 - 7).ok(),
            };
            charge.time = charge.time.filter(|_| number % 5 > 0);
            charge.source_mut().model = Some(format!("model-{}", number % 4).into());
            charge.usage = Usage::from_counters([number, 127, 128, u64::MAX, 1 << 35, 0]);
            charge.source_mut().terms.tier = *ServiceTier::ALL.get(number as usize % 5).unwrap();
            charge.source_mut().terms.us_only = number % 2 > 0;
            charge.recorded = (number % 7 == 0).then(|| Box::new(Money::from_pico(i128::MAX / 3)));
            charge.source_mut().agent = (number % 2 > 0).then(|| "agent".into());
            charge.copied = number % 6 == 0;
            let session = (number % 4 > 0).then(|| "session".into());
            sheet.charges.push((charge, session));
        }
        sheet.add_directory(None, "/w".into());
        sheet.add_directory(Some("session".into()), "/x".into());
        sheet.cwd.insert(None, "/w".into());
        sheet.uncounted = 3;
        sheet.first = Some("session".into());
        sheet.latest = Timestamp::from_second(9).ok();
        sheet
    }

    fn read(spelled: &[u8]) -> Option<LogCharges> {
        EncodedCharges::decode_header(spelled)?.log_charges()
    }

    #[test]
    fn direct_charges_agree_with_decoded_log_charges() {
        let spelled = encode(&sheet()).unwrap();
        let decoded = EncodedCharges::decode_header(&spelled).unwrap();
        for only in ["session", "other"].map(|id| SessionId::new(id).unwrap()) {
            let mut charges = vec![Charge::new(1)];
            decoded.charges(7, &only, &mut charges).unwrap();
            let expected = sheet().charges(7, Some(&only));
            let expected: Vec<Charge> = [Charge::new(1)].into_iter().chain(expected).collect();
            assert_eq!(charges, expected);
        }
        assert_eq!(decoded.directories(), ["/w".into(), "/x".into()]);
        assert_eq!((decoded.first(), decoded.uncounted()), (Some("session"), 3));
        for cut in 0..spelled.len() {
            let decoded = spelled.get(..cut).and_then(EncodedCharges::decode_header);
            let only = SessionId::new("session").unwrap();
            let whole = decoded.and_then(|decoded| decoded.charges(0, &only, &mut Vec::new()));
            assert_eq!(whole, None, "cut at {cut}");
        }
    }

    #[test]
    fn log_charges_round_trip() {
        let spelled = encode(&sheet()).unwrap();
        let read = read(&spelled).unwrap();
        assert_eq!(read.charges, sheet().charges);
        assert_eq!(read.directories(), sheet().directories());
        assert_eq!((read.cwd, read.uncounted), (sheet().cwd, 3));
        assert_eq!((read.first, read.latest), (sheet().first, sheet().latest));
    }

    /// Damaged bytes never cause a panic, and a truncated row is not decoded.
    #[test]
    fn damaged_log_charges_never_panic() {
        let spelled = encode(&sheet()).unwrap();
        for at in 0..spelled.len() {
            assert!(read(spelled.get(..at).unwrap()).is_none(), "cut at {at}");
            let mut changed = spelled.clone();
            *changed.get_mut(at).unwrap() ^= 0xff;
            read(&changed);
        }
    }
}
