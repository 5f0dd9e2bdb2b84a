//! How a sheet is spelled in the catalogue: what is rare first, then a row of numbers for each charge.
//!
//! All rows of a history are read whenever a ledger is made, so they must cost next to nothing.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Charge, Opening, Owner, Sheet};
use crate::model::{Key, Money, Pace, ResponseKey, SessionId, Terms, Usage};
use crate::store::books::Told;

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
    // Rows mostly repeat what stands above.
    let mut lasts = [None; 4];
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
        let names = [&charge.model, &charge.agent, &charge.git_branch, session];
        for (name, last) in names.into_iter().zip(&mut lasts) {
            // Texts are counted from 1 here.
            let number = texts
                .number_after(last, name.as_ref())
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

/// A sheet as it is spelled, of which rows are read when they are wanted.
pub(super) struct Spelled<'a> {
    head: Head<'a>,
    rows: &'a [u8],
}

impl<'a> Spelled<'a> {
    /// `None` if it is no such spelling.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (head, rows) = postcard::take_from_bytes(bytes).ok()?;
        Some(Spelled { head, rows })
    }

    /// The sheet with all that is in it.
    pub(super) fn sheet(&self) -> Option<Sheet> {
        let head = &self.head;
        let mut names = Names::of(head);
        let mut sheet = Sheet::default();
        sheet.first = names.get(head.first)?;
        sheet.session = names.get(head.session)?;
        sheet.git_branch = names.get(head.git_branch)?;
        sheet.latest = whole(head.latest)?;
        if let Some((answers, began)) = head.opening {
            let time = whole(began)?;
            sheet.opening = Some(Opening { answers, time });
        }
        sheet.shared = head.shared;
        sheet.uncounted = head.uncounted;
        for &(owner, path) in &head.directories {
            sheet.go_to(names.get(owner)?, names.get(Some(path))??);
        }
        for &(owner, path) in &head.cwd {
            let owner = names.get(owner)?;
            sheet.cwd.insert(owner, names.get(Some(path))??);
        }
        // A guess that saves most of the growing.
        sheet.charges.reserve(self.rows.len() / SHORTEST);
        let mut rows = Fields(self.rows);
        while !rows.0.is_empty() {
            let mut charge = Charge::to(0);
            let session = rows.read(&mut charge, &mut names)?;
            sheet.charges.push((charge, names.get(session)?));
        }
        if sheet.charges.len() != head.rows {
            return None;
        }
        for &(number, pico) in &head.recorded {
            let (charge, _) = sheet.charges.get_mut(number as usize)?;
            charge.recorded = Some(Money::from_pico(pico));
        }
        Some(sheet)
    }

    /// A text of the head; a number without one would be damage.
    fn text(&self, number: u32) -> Option<&'a str> {
        self.head.texts.get(number as usize).copied()
    }
}

impl Told for Spelled<'_> {
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
        let mut names = Names::of(&self.head);
        let foreign: Vec<bool> = {
            let texts = self.head.texts.iter();
            texts.map(|text| *text != only.as_str()).collect()
        };
        let before = to.len();
        let mut rows = Fields(self.rows);
        while !rows.0.is_empty() {
            // Where it stays: a charge is long, and there are many.
            to.push(Charge::to(account));
            let charge = to.last_mut()?;
            if let Some(session) = rows.read(charge, &mut names)? {
                charge.copied |= *foreign.get(session as usize)?;
            }
        }
        let new = to.get_mut(before..)?;
        if new.len() != self.head.rows {
            return None;
        }
        for &(number, pico) in &self.head.recorded {
            new.get_mut(number as usize)?.recorded = Some(Money::from_pico(pico));
        }
        Some(())
    }
}

/// A row has at least about so many bytes.
const SHORTEST: usize = 48;

/// The texts of a head, each made when it is first asked for.
struct Names<'a> {
    texts: &'a [&'a str],
    made: Vec<Option<Arc<str>>>,
}

impl<'a> Names<'a> {
    fn of(head: &'a Head<'a>) -> Self {
        Names {
            texts: &head.texts,
            made: vec![None; head.texts.len()],
        }
    }

    /// A number without a text would be damage.
    fn get(&mut self, number: Option<u32>) -> Option<Option<Arc<str>>> {
        let Some(number) = number else {
            return Some(None);
        };
        let made = self.made.get_mut(number as usize)?;
        if made.is_none() {
            *made = self.texts.get(number as usize).map(|text| (*text).into());
        }
        Some(made.clone())
    }
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

    /// Reads the next row into a charge; gives the number of the session that it names.
    fn read(&mut self, charge: &mut Charge, names: &mut Names<'_>) -> Option<Option<u32>> {
        let [flags] = self.take()?;
        if flags & NAMED != 0 {
            charge.response = Some(ResponseKey {
                message: Key::from_bytes(self.take()?),
                request: u64::from_le_bytes(self.take()?),
            });
        }
        if flags & TIMED != 0 {
            let second = i64::from_le_bytes(self.take()?);
            let nanosecond = i32::from_le_bytes(self.take()?);
            charge.time = Some(time((second, nanosecond))?);
        }
        let mut counters = [0; 6];
        for counter in &mut counters {
            *counter = self.number()?;
        }
        charge.usage = Usage::from_counters(counters);
        // Texts are counted from 1 here.
        let mut number = || Some(u32::try_from(self.number()?).ok()?.checked_sub(1));
        charge.model = names.get(number()?)?;
        charge.agent = names.get(number()?)?;
        charge.git_branch = names.get(number()?)?;
        let session = number()?;
        charge.terms = Terms {
            pace: *Pace::ALL.get(usize::from(flags / PACE))?,
            us_only: flags & US_ONLY != 0,
        };
        charge.copied = flags & COPIED != 0;
        Some(session)
    }

    fn number(&mut self) -> Option<u64> {
        // Most have one byte.
        if let Some((first @ ..0x80, rest)) = self.0.split_first() {
            self.0 = rest;
            return Some(u64::from(*first));
        }
        let mut number = 0u64;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.0 = self.0.get(at + 1..)?;
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
}

impl<'a> Texts<'a> {
    fn pair(&mut self, owner: &'a Owner, path: &'a Arc<str>) -> Option<(Option<u32>, u32)> {
        let owner = self.number(owner.as_ref());
        Some((owner, self.number(Some(path))?))
    }

    /// The number of a text that may be the one of the row before.
    fn number_after(
        &mut self,
        last: &mut Option<(&'a Arc<str>, u32)>,
        text: Option<&'a Arc<str>>,
    ) -> Option<u32> {
        let text = text?;
        if let Some((last, number)) = *last
            && Arc::ptr_eq(last, text)
        {
            return Some(number);
        }
        let number = self.number(Some(text))?;
        *last = Some((text, number));
        Some(number)
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

    fn read(spelled: &[u8]) -> Option<Sheet> {
        Spelled::of(spelled)?.sheet()
    }

    #[test]
    fn rows_that_become_charges_at_once_are_those_of_the_sheet() {
        let spelled = spell(&sheet()).unwrap();
        let told = Spelled::of(&spelled).unwrap();
        for only in ["session", "other"].map(|id| SessionId::new(id).unwrap()) {
            let mut charges = vec![Charge::to(1)];
            told.charges(7, &only, &mut charges).unwrap();
            let expected = sheet().charges(7, Some(&only));
            let expected: Vec<Charge> = [Charge::to(1)].into_iter().chain(expected).collect();
            assert_eq!(charges, expected);
        }
        assert_eq!(told.directories(), ["/w".into(), "/x".into()]);
        assert_eq!((told.first(), told.uncounted()), (Some("session"), 3));
        for cut in 0..spelled.len() {
            let told = spelled.get(..cut).and_then(Spelled::of);
            let only = SessionId::new("session").unwrap();
            let whole = told.and_then(|told| told.charges(0, &only, &mut Vec::new()));
            assert_eq!(whole, None, "cut at {cut}");
        }
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
