//! How a sheet is spelled in the catalogue: what is rare first, then a row of the same width for each charge.
//!
//! All rows of a history are read whenever a ledger is made, so they must cost next to nothing.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Charge, Opening, Sheet};
use crate::model::{Key, Money, Pace, ResponseKey, Terms, Usage};

/// What stands before the rows.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    texts: Vec<&'a str>,
    directories: Vec<u32>,
    first: Option<u32>,
    session: Option<u32>,
    git_branch: Option<u32>,
    opening: Option<(bool, Option<(i64, i32)>)>,
    latest: Option<(i64, i32)>,
    /// What logs say that single responses cost, by the number of the row.
    recorded: Vec<(u32, i128)>,
}

const ROW: usize = 16 + 8 + 8 + 4 + 6 * 8 + 4 * 4 + 1;
/// In the place of the number of a text: there is none.
const NO_TEXT: u32 = u32::MAX;
/// In the place of nanoseconds: the time is not known.
const NO_TIME: i32 = i32::MIN;

const NAMED: u8 = 1;
const COPIED: u8 = 2;
const US_ONLY: u8 = 4;
/// The pace stands in the bits above.
const PACE: u8 = 8;

/// Spells a sheet.
pub(super) fn spell(sheet: &Sheet) -> Option<Vec<u8>> {
    let mut texts = Texts::default();
    let mut rows = Vec::with_capacity(sheet.charges.len() * ROW);
    let mut recorded = Vec::new();
    for (number, (charge, session)) in sheet.charges.iter().enumerate() {
        if let Some(cost) = charge.recorded {
            recorded.push((u32::try_from(number).ok()?, cost.pico()));
        }
        let key = charge.response;
        let message = key.map_or([0; 16], |key| key.message.to_bytes());
        rows.extend_from_slice(&message);
        rows.extend_from_slice(&key.map_or(0, |key| key.request).to_le_bytes());
        let (second, nanosecond) = charge.time.map_or((0, NO_TIME), parts);
        rows.extend_from_slice(&second.to_le_bytes());
        rows.extend_from_slice(&nanosecond.to_le_bytes());
        for count in charge.usage.counters() {
            rows.extend_from_slice(&count.to_le_bytes());
        }
        let names = [&charge.model, &charge.agent, &charge.git_branch, session];
        for name in names {
            let number = texts.number(name.as_ref()).unwrap_or(NO_TEXT);
            rows.extend_from_slice(&number.to_le_bytes());
        }
        let pace = Pace::ALL
            .iter()
            .position(|pace| *pace == charge.terms.pace)?;
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let flags = flag(key.is_some(), NAMED)
            | flag(charge.copied, COPIED)
            | flag(charge.terms.us_only, US_ONLY)
            | u8::try_from(pace).ok()? * PACE;
        rows.push(flags);
    }
    let directories = sheet.directories();
    let directories = directories.into_iter().map(|path| texts.number(Some(path)));
    let head = Head {
        directories: directories.collect::<Option<_>>()?,
        first: texts.number(sheet.first.as_ref()),
        session: texts.number(sheet.session.as_ref()),
        git_branch: texts.number(sheet.git_branch.as_ref()),
        opening: sheet
            .opening
            .map(|opening| (opening.answers, opening.time.map(parts))),
        latest: sheet.latest.map(parts),
        texts: texts.list,
        recorded,
    };
    postcard::to_extend(&head, Vec::with_capacity(rows.len() + 256))
        .ok()
        .map(|mut bytes| {
            bytes.append(&mut rows);
            bytes
        })
}

/// Reads a sheet back; `None` if it is no such spelling.
pub(super) fn read(bytes: &[u8]) -> Option<Sheet> {
    let (head, rows): (Head<'_>, &[u8]) = postcard::take_from_bytes(bytes).ok()?;
    let texts: Vec<Arc<str>> = head.texts.iter().map(|text| (*text).into()).collect();
    // A number without a text would be damage.
    let text = |number: Option<u32>| match number {
        None | Some(NO_TEXT) => Some(None),
        Some(number) => texts.get(number as usize).cloned().map(Some),
    };
    let mut sheet = Sheet::default();
    sheet.first = text(head.first)?;
    sheet.session = text(head.session)?;
    sheet.git_branch = text(head.git_branch)?;
    sheet.latest = whole(head.latest)?;
    if let Some((answers, began)) = head.opening {
        let time = whole(began)?;
        sheet.opening = Some(Opening { answers, time });
    }
    for path in head.directories {
        sheet.go_to(text(Some(path))??);
    }
    let (rows, rest) = rows.as_chunks::<ROW>();
    if !rest.is_empty() {
        return None;
    }
    sheet.charges.reserve_exact(rows.len());
    for row in rows {
        let mut row = Fields(row);
        let key = ResponseKey {
            message: Key::from_bytes(row.next()?),
            request: u64::from_le_bytes(row.next()?),
        };
        let second = i64::from_le_bytes(row.next()?);
        let nanosecond = i32::from_le_bytes(row.next()?);
        let mut counters = [0; 6];
        for counter in &mut counters {
            *counter = u64::from_le_bytes(row.next()?);
        }
        let mut name = || text(Some(u32::from_le_bytes(row.next()?)));
        let mut charge = Charge::to(0);
        charge.model = name()?;
        charge.agent = name()?;
        charge.git_branch = name()?;
        let session = name()?;
        let [flags] = row.next()?;
        charge.response = (flags & NAMED != 0).then_some(key);
        if nanosecond != NO_TIME {
            charge.time = Some(time((second, nanosecond))?);
        }
        charge.usage = Usage::from_counters(counters);
        charge.terms = Terms {
            pace: *Pace::ALL.get(usize::from(flags / PACE))?,
            us_only: flags & US_ONLY != 0,
        };
        charge.copied = flags & COPIED != 0;
        sheet.charges.push((charge, session));
    }
    for (number, pico) in head.recorded {
        let (charge, _) = sheet.charges.get_mut(number as usize)?;
        charge.recorded = Some(Money::from_pico(pico));
    }
    Some(sheet)
}

/// The fields of a row, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

/// A time that may be missing but not wrong.
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

/// Texts by number, each once.
#[derive(Default)]
struct Texts<'a> {
    list: Vec<&'a str>,
    numbers: HashMap<&'a str, u32>,
    last: Option<(&'a Arc<str>, u32)>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: Option<&'a Arc<str>>) -> Option<u32> {
        let text = text?;
        if let Some((last, number)) = self.last
            && Arc::ptr_eq(last, text)
        {
            return Some(number);
        }
        let next = u32::try_from(self.list.len()).ok()?;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.list.push(text);
        }
        self.last = Some((text, number));
        Some(number)
    }
}
