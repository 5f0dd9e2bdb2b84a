//! How a sheet is spelled in the catalogue: what is rare first, then a row of numbers for each charge.
//!
//! All rows of a history are read whenever a ledger is made, so they must cost next to nothing.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Charge, Opening, Owner, Sheet};
use crate::model::{Key, Money, Pace, ResponseKey, Terms, Usage};

/// What stands before the rows.
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
    /// How many rows follow.
    rows: usize,
    /// What logs say that single responses cost, by the number of the row.
    recorded: Vec<(u32, i128)>,
}

const NAMED: u8 = 1;
const COPIED: u8 = 2;
const US_ONLY: u8 = 4;
const TIMED: u8 = 8;
/// The pace stands in the bits above.
const PACE: u8 = 16;

/// Spells a sheet.
pub(super) fn spell(sheet: &Sheet) -> Option<Vec<u8>> {
    let mut texts = Texts::default();
    let mut rows = Rows::default();
    let mut recorded = Vec::new();
    for (number, (charge, session)) in sheet.charges.iter().enumerate() {
        if let Some(cost) = charge.recorded {
            recorded.push((u32::try_from(number).ok()?, cost.pico()));
        }
        let pace = Pace::ALL
            .iter()
            .position(|pace| *pace == charge.terms.pace)?;
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        rows.0.push(
            flag(charge.response.is_some(), NAMED)
                | flag(charge.copied, COPIED)
                | flag(charge.terms.us_only, US_ONLY)
                | flag(charge.time.is_some(), TIMED)
                | (u8::try_from(pace).ok()? * PACE),
        );
        if let Some(key) = charge.response {
            rows.0.extend_from_slice(&key.message.to_bytes());
            rows.0.extend_from_slice(&key.request.to_le_bytes());
        }
        if let Some((second, nanosecond)) = charge.time.map(parts) {
            rows.0.extend_from_slice(&second.to_le_bytes());
            rows.0.extend_from_slice(&nanosecond.to_le_bytes());
        }
        charge
            .usage
            .counters()
            .into_iter()
            .for_each(|count| rows.put(count));
        for name in [&charge.model, &charge.agent, &charge.git_branch, session] {
            // Texts are counted from 1 here.
            let number = texts
                .number(name.as_ref())
                .map_or(0, |number| u64::from(number) + 1);
            rows.put(number);
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
            .opening
            .map(|opening| (opening.answers, opening.time.map(parts))),
        latest: sheet.latest.map(parts),
        texts: texts.list,
        rows: sheet.charges.len(),
        recorded,
    };
    let mut bytes = postcard::to_stdvec(&head).ok()?;
    bytes.append(&mut rows.0);
    Some(bytes)
}

/// Reads a sheet back; `None` if it is no such spelling.
pub(super) fn read(bytes: &[u8]) -> Option<Sheet> {
    let (head, rows): (Head<'_>, &[u8]) = postcard::take_from_bytes(bytes).ok()?;
    let mut rows = Fields(rows);
    let texts: Vec<Arc<str>> = head.texts.iter().map(|text| (*text).into()).collect();
    // A number without a text would be damage.
    let text = |number: Option<u32>| match number {
        None => Some(None),
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
    sheet.shared = head.shared;
    sheet.uncounted = head.uncounted;
    for (owner, path) in head.directories {
        sheet.go_to(text(owner)?, text(Some(path))??);
    }
    for (owner, path) in head.cwd {
        sheet.cwd.insert(text(owner)?, text(Some(path))??);
    }
    // A guess that saves most of the growing.
    sheet.charges.reserve(rows.0.len() / 48);
    while let Some([flags]) = rows.take() {
        let mut charge = Charge::to(0);
        if flags & NAMED != 0 {
            charge.response = Some(ResponseKey {
                message: Key::from_bytes(rows.take()?),
                request: u64::from_le_bytes(rows.take()?),
            });
        }
        if flags & TIMED != 0 {
            let second = i64::from_le_bytes(rows.take()?);
            let nanosecond = i32::from_le_bytes(rows.take()?);
            charge.time = Some(time((second, nanosecond))?);
        }
        let mut counters = [0; 6];
        for counter in &mut counters {
            *counter = rows.number()?;
        }
        let mut name = || text(u32::try_from(rows.number()?).ok()?.checked_sub(1));
        charge.model = name()?;
        charge.agent = name()?;
        charge.git_branch = name()?;
        let session = name()?;
        charge.usage = Usage::from_counters(counters);
        charge.terms = Terms {
            pace: *Pace::ALL.get(usize::from(flags / PACE))?,
            us_only: flags & US_ONLY != 0,
        };
        charge.copied = flags & COPIED != 0;
        sheet.charges.push((charge, session));
    }
    if sheet.charges.len() != head.rows {
        return None;
    }
    for (number, pico) in head.recorded {
        let (charge, _) = sheet.charges.get_mut(number as usize)?;
        charge.recorded = Some(Money::from_pico(pico));
    }
    Some(sheet)
}

/// Rows that are being spelled.
#[derive(Default)]
struct Rows(Vec<u8>);

impl Rows {
    /// Seven bits to a byte, the lowest first; the highest bit says that more follow.
    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

/// Rows that are being read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
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
    fn pair(&mut self, owner: &'a Owner, path: &'a Arc<str>) -> Option<(Option<u32>, u32)> {
        let owner = self.number(owner.as_ref());
        Some((owner, self.number(Some(path))?))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::default();
        for number in 0..40u64 {
            let mut charge = Charge::to(0);
            charge.response = (number % 3 > 0).then(|| ResponseKey::of(&number.to_string(), "r"));
            charge.time = Timestamp::from_millisecond(number as i64 * 1_000_001 - 7).ok();
            charge.time = charge.time.filter(|_| number % 5 > 0);
            charge.model = Some(format!("model-{}", number % 4).into());
            charge.usage = Usage::from_counters([number, 127, 128, u64::MAX, 1 << 35, 0]);
            charge.terms.pace = *Pace::ALL.get(number as usize % 5).unwrap();
            charge.terms.us_only = number % 2 > 0;
            charge.recorded = (number % 7 == 0).then(|| Money::from_pico(i128::MAX / 3));
            charge.agent = (number % 2 > 0).then(|| "agent".into());
            charge.copied = number % 6 == 0;
            let session = (number % 4 > 0).then(|| "session".into());
            sheet.charges.push((charge, session));
        }
        sheet.go_to(None, "/w".into());
        sheet.go_to(Some("session".into()), "/x".into());
        sheet.cwd.insert(None, "/w".into());
        sheet.uncounted = 3;
        sheet.first = Some("session".into());
        sheet.latest = Timestamp::from_second(9).ok();
        sheet
    }

    #[test]
    fn a_sheet_that_is_spelled_is_read_back() {
        let spelled = spell(&sheet()).unwrap();
        let read = read(&spelled).unwrap();
        assert_eq!(read.charges, sheet().charges);
        assert_eq!(read.directories(), sheet().directories());
        assert_eq!((read.cwd, read.uncounted), (sheet().cwd, 3));
        assert_eq!((read.first, read.latest), (sheet().first, sheet().latest));
    }

    /// Whatever stands in the database, nothing panics, and no row is made up of half of one.
    #[test]
    fn a_spelling_that_is_cut_or_changed_is_no_sheet_or_another() {
        let spelled = spell(&sheet()).unwrap();
        for at in 0..spelled.len() {
            assert!(read(spelled.get(..at).unwrap()).is_none(), "cut at {at}");
            let mut changed = spelled.clone();
            *changed.get_mut(at).unwrap() ^= 0xff;
            read(&changed);
        }
    }
}
