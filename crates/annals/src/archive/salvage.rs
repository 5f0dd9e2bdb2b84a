//! Recovers packs whose header or index is damaged.
//!
//! The index is stored twice, so it is lost only if both copies are damaged, or the header, whose
//! nonce both footers depend on. Three things remain: an index at the very end of the file that
//! passes its own zstd checksum, where no content can be; the footer's SHA-256, with which a single
//! flipped bit of the header, the index or the footer can be found and corrected; and the checksum
//! of every frame.
//!
//! If a frame of a file is damaged, an earlier state of the file is restored from a replaced index,
//! whose frames are still in the pack.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::Archive;
use super::pack::{self, END, FOOTER, HEADER, MOST_INDEX, Pack};
use super::pack_index::{Member, PackIndex};
use super::verify::verify;
use crate::error::{Error, Result};
use crate::store::Root;
use annals_jsonl::ReadAt as _;
use annals_layouts::Subject;

/// Maximum index length for which a flipped bit is searched; longer ones would take too long.
const MAX_BIT_SEARCH_LEN: usize = 16 << 10;

/// A pack opened in spite of damage.
#[derive(Debug)]
pub struct Salvaged {
    /// The pack.
    pub pack: Pack,
    /// Description of the damage; `None` if the pack opened normally.
    pub damage: Option<String>,
}

impl Pack {
    /// Opens a pack, also if its header or end is damaged, as long as its index can be recovered.
    pub fn salvage(path: &Path) -> Result<Salvaged> {
        let opened = match Pack::open_or_lost(path) {
            Ok(pack) if !pack.index.checkpoint => return Ok(Salvaged { pack, damage: None }),
            opened => opened,
        };
        let file = pack::open(path)?;
        let metadata = file.metadata().map_err(|e| Error::io("stat", path, e))?;
        let len = metadata.len();
        let found = match metadata.is_file() {
            true => look(path, &file, len)?,
            false => None,
        };
        let (pack, wrong) = match (found, opened) {
            (Some(found), opened) if opened.is_err() || !found.index.checkpoint => {
                let pack = Pack::from_index(path, file, len, found.index, found.place)?;
                (pack, Some(found.wrong.to_owned()))
            }
            (_, Ok(pack)) => (pack, None),
            (_, Err(error)) => return Err(error.into_salvage_error()),
        };
        let wrong: Vec<String> = wrong.into_iter().chain(pack.describe_lost_end()).collect();
        Ok(Salvaged {
            pack,
            damage: Some(wrong.join("; ")),
        })
    }

    /// Salvages the pack if its end is lost.
    fn salvaged(self) -> Result<Salvaged> {
        match self.index.checkpoint {
            true => Pack::salvage(&self.path),
            false => Ok(Salvaged {
                pack: self,
                damage: None,
            }),
        }
    }

    /// Returns the ranges of a file that cannot be read.
    pub fn lost_ranges(&self, member: &Member) -> Vec<Range<u64>> {
        let mut lost: Vec<Range<u64>> = Vec::new();
        let mut at = 0;
        for part in &member.parts {
            let end = at + u64::from(part.len);
            if self.with_part(part, |_| ()).is_err() {
                match lost.last_mut() {
                    Some(before) if before.end == at => before.end = end,
                    _ => lost.push(at..end),
                }
            }
            at = end;
        }
        lost
    }
}

/// A version of an archived file, and its unreadable ranges.
#[derive(Clone, Debug)]
pub(super) struct MemberVersion {
    /// The pack with the index that lists this version.
    pub(super) pack: Pack,
    pub(super) member: Member,
    pub(super) lost: Vec<Range<u64>>,
    /// For an earlier version: when it was archived, or found to be replaced.
    pub(super) earlier: Option<Timestamp>,
}

/// Maximum number of replaced indexes searched for a readable version.
const MAX_REPLACED_INDEXES: usize = 256;

impl Pack {
    /// Returns the versions of its files to restore: the newest or, with `salvage`, an earlier one
    /// if more of it can be read.
    pub(super) fn states(
        &self,
        salvage: bool,
        is_log: &dyn Fn(&Member) -> bool,
    ) -> Vec<MemberVersion> {
        let newest = |member: &Member| MemberVersion {
            pack: self.clone(),
            member: member.clone(),
            lost: match salvage {
                true => self.lost_ranges(member),
                false => Vec::new(),
            },
            earlier: None,
        };
        let mut states: Vec<MemberVersion> = self.members().iter().map(newest).collect();
        if states.iter().all(|state| state.lost.is_empty()) {
            return states;
        }
        let before = self.before();
        for state in states.iter_mut().filter(|state| !state.lost.is_empty()) {
            let is_log = is_log(&state.member);
            let path = state.member.path.clone();
            let versions = self.earlier_versions().iter().rev();
            let versions = versions.filter(|it| it.path == path);
            let versions = versions.map(|it| (self, it, it.until.unwrap_or(self.index.archived)));
            let older = before.iter().filter_map(|pack| {
                let member = pack.member(&path)?;
                Some((pack, member, pack.index.archived))
            });
            for (pack, member, when) in versions.chain(older) {
                let other = MemberVersion {
                    pack: pack.clone(),
                    member: member.clone(),
                    lost: pack.lost_ranges(member),
                    earlier: Some(when),
                };
                // The newer one, where they are worth the same.
                if other.worth(is_log) > state.worth(is_log) {
                    *state = other;
                }
            }
        }
        states
    }

    /// Returns the pack as of each replaced index, newest first. Replaced indexes and their frames
    /// remain in the file.
    fn before(&self) -> Vec<Pack> {
        let mut found: Vec<Pack> = Vec::new();
        let Ok(file) = pack::open(&self.path) else {
            return found;
        };
        let mut header = [0; HEADER];
        if file.read_exact_at(&mut header, 0).is_err() {
            return found;
        }
        let nonce: [u8; 16] = header.last_chunk().copied().unwrap_or_default();
        let mut end = self.index_offset();
        for _ in 0..MAX_REPLACED_INDEXES {
            let Ok(Some(index)) = pack::last_index(&file, end, &nonce) else {
                break;
            };
            end = index.at;
            let (place, read) = (
                index.at..index.end,
                pack::read_index(&self.path, &index.index),
            );
            let older = read.ok().zip(file.try_clone().ok());
            let older = older.and_then(|(read, file)| {
                Pack::from_index(&self.path, file, self.bytes, read, place).ok()
            });
            // Each index is stored twice.
            let last = found.last().unwrap_or(self).index.generation;
            found.extend(older.filter(|older| older.index.generation != last));
        }
        found
    }
}

impl MemberVersion {
    /// Returns how much of it is useful: the readable bytes of a log, all or nothing of a document.
    fn worth(&self, is_log: bool) -> u64 {
        let gone: u64 = self.lost.iter().map(|it| it.end - it.start).sum();
        match (is_log, gone) {
            (true, gone) => self.member.len.saturating_sub(gone),
            (false, 0) => 1,
            (false, _) => 0,
        }
    }
}

impl Archive {
    /// Like [`Archive::find_in`], but also finds damaged packs, by their names.
    pub fn find_salvageable(&self, id: &str, roots: Option<&[Root]>) -> Result<Salvaged> {
        if id.contains('/') {
            return match self.find_by_log(Path::new(id))? {
                Some(pack) => pack.salvaged(),
                None => Pack::salvage(Path::new(id)).map(|found| Salvaged {
                    pack: self.mark_foreign(found.pack),
                    damage: found.damage,
                }),
            };
        }
        let mut damaged = self.pack_paths_in(roots)?;
        damaged.retain(|path| super::is_of(path, id) && Pack::open(path).is_err());
        let mut aside = self.set_aside_in(roots)?;
        aside.retain(|path| super::is_set_aside_pack_of(path, id));
        let found = self.find_in(id, roots);
        if let Ok(pack) = &found {
            // Nothing needs to be salvaged from an intact pack, so a salvageable pack that was set
            // aside is meant.
            aside.retain(|path| Pack::salvage(path).is_ok());
            if let [only] = aside.as_slice()
                && verify(pack).is_empty()
            {
                return Pack::salvage(only);
            }
            if !aside.is_empty() {
                damaged.push(pack.path.clone());
            }
        }
        damaged.extend(aside);
        match (found, damaged.as_slice()) {
            (Ok(pack), [] | [_]) => pack.salvaged(),
            (
                Err(Error::Ambiguous {
                    what,
                    id,
                    candidates,
                }),
                _,
            ) => Err(Error::Ambiguous {
                what,
                id,
                candidates,
            }),
            (Err(_), [only]) => Pack::salvage(only),
            (Err(error), []) => Err(error),
            (_, several) => Err(Error::Ambiguous {
                what: Subject::ArchivedSession,
                id: id.to_owned(),
                candidates: several.iter().map(|it| it.display().to_string()).collect(),
            }),
        }
    }
}

struct Found {
    index: PackIndex,
    /// Range of the index and its footer in the file.
    place: Range<u64>,
    wrong: &'static str,
}

/// A decoded footer.
#[derive(Clone, Copy)]
struct Footer {
    start: u64,
    numbers: [u8; 24],
    sum: [u8; 32],
    /// Number of wrong bits in the end marker.
    off: u32,
}

impl Footer {
    fn read(file: &File, end: u64) -> std::io::Result<Option<Footer>> {
        let Some(start) = end.checked_sub(FOOTER as u64) else {
            return Ok(None);
        };
        let mut bytes = [0; FOOTER];
        file.read_exact_at(&mut bytes, start)?;
        let (numbers, rest) = bytes.split_first_chunk().unwrap_or((&[0; 24], &[]));
        let (sum, last) = rest.split_first_chunk().unwrap_or((&[0; 32], &[]));
        Ok(Some(Footer {
            start,
            numbers: *numbers,
            sum: *sum,
            off: distance(last, END),
        }))
    }

    /// Returns the offset, compressed length and decompressed length of the index, if they are
    /// plausible.
    fn place(&self) -> Option<(u64, u64, u64)> {
        let mut numbers = self.numbers.chunks_exact(8).map(|number| {
            let number = number.try_into().unwrap_or_default();
            u64::from_le_bytes(number)
        });
        let (at, packed, len) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let fits = at >= HEADER as u64 && at.checked_add(packed) == Some(self.start);
        (fits && packed <= MOST_INDEX && len <= MOST_INDEX).then_some((at, packed, len))
    }

    fn sum_of(&self, nonce: &[u8], index: &[u8]) -> [u8; 32] {
        let mut sum = Sha256::new();
        sum.update(nonce);
        sum.update(self.numbers);
        sum.update(index);
        sum.finalize().into()
    }
}

fn look(path: &Path, file: &File, len: u64) -> Result<Option<Found>> {
    let failed = |error| Error::io("read", path, error);
    let mut header = [0; HEADER];
    if len < (HEADER + FOOTER) as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0).map_err(failed)?;
    let nonce: [u8; 16] = header.last_chunk().copied().unwrap_or_default();
    // The header may have the wrong magic or version.
    let mut checkpoint = None;
    if let Some(found) = pack::last_index(file, len, &nonce).map_err(failed)? {
        let found = Found {
            index: pack::read_index(path, &found.index)?,
            place: found.at..found.end,
            wrong: "its header is damaged",
        };
        if !found.index.checkpoint {
            return Ok(Some(found));
        }
        checkpoint = Some(found);
    }
    let flipped = look_for_flipped(path, file, len, nonce)?;
    Ok(match checkpoint {
        None => flipped,
        // A complete index with a flipped bit may follow it.
        Some(_) => flipped.filter(|it| !it.index.checkpoint).or(checkpoint),
    })
}

/// Finds an index at the end of a pack by correcting one bit, or one that passes its own checksum.
fn look_for_flipped(path: &Path, file: &File, len: u64, nonce: [u8; 16]) -> Result<Option<Found>> {
    let failed = |error| Error::io("read", path, error);
    let Some(footer) = Footer::read(file, len).map_err(failed)? else {
        return Ok(None);
    };
    let mut ends = vec![footer];
    // The first copy of the index is directly before the second and has the same content.
    if let Some((at, ..)) = footer.place()
        && let Some(first) = Footer::read(file, at).map_err(failed)?
    {
        ends.push(first);
    }
    for footer in ends {
        if let Some(found) = turned_numbers(path, file, &nonce, footer)? {
            return Ok(Some(found));
        }
        let Some((at, packed, len)) = footer.place() else {
            continue;
        };
        let mut index = vec![0; packed as usize];
        file.read_exact_at(&mut index, at).map_err(failed)?;
        let place = at..footer.start + FOOTER as u64;
        let found = |index: Vec<u8>, wrong| {
            // An index that cannot be read, or has another version, is useless.
            let index = pack::read_index(path, &(len, index)).ok()?;
            Some(Found {
                index,
                place: place.clone(),
                wrong,
            })
        };
        if footer.off <= 1 && distance(&footer.sum_of(&nonce, &index), &footer.sum) <= 1 {
            return Ok(found(index, "a bit of its end is flipped"));
        }
        if footer.off > 0 {
            continue;
        }
        if turned_nonce(&footer, nonce, &index) {
            return Ok(found(index, "a bit of its header is flipped"));
        }
        if let Some(turned) = turned_index(&footer, &nonce, &index) {
            return Ok(found(turned, "a bit of its index is flipped"));
        }
        // Accept it if it passes its own zstd checksum.
        if let Some(found) = found(index, "its header is damaged") {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Finds the index by correcting one bit of the numbers in its footer.
fn turned_numbers(
    path: &Path,
    file: &File,
    nonce: &[u8; 16],
    footer: Footer,
) -> Result<Option<Found>> {
    for bit in 0..footer.numbers.len() * 8 {
        let mut turned = footer;
        turn(&mut turned.numbers, bit);
        let Some((at, packed, len)) = turned.place() else {
            continue;
        };
        let mut index = vec![0; packed as usize];
        let read = file.read_exact_at(&mut index, at);
        read.map_err(|error| Error::io("read", path, error))?;
        if turned.sum_of(nonce, &index) == turned.sum {
            return Ok(Some(Found {
                index: pack::read_index(path, &(len, index))?,
                place: at..footer.start + FOOTER as u64,
                wrong: "a bit of its end is flipped",
            }));
        }
    }
    Ok(None)
}

/// Returns whether correcting one bit of the nonce makes the checksum match.
fn turned_nonce(footer: &Footer, nonce: [u8; 16], index: &[u8]) -> bool {
    (0..nonce.len() * 8).any(|bit| {
        let mut turned = nonce;
        turn(&mut turned, bit);
        footer.sum_of(&turned, index) == footer.sum
    })
}

/// Returns the index with one bit corrected, if that makes the checksum match.
fn turned_index(footer: &Footer, nonce: &[u8; 16], index: &[u8]) -> Option<Vec<u8>> {
    if index.len() > MAX_BIT_SEARCH_LEN {
        return None;
    }
    // The hash of the bytes before the flipped bit is shared by all candidates after it.
    let mut before = Sha256::new();
    before.update(nonce);
    before.update(footer.numbers);
    for (at, byte) in index.iter().enumerate() {
        let rest = index.get(at + 1..).unwrap_or_default();
        for bit in 0..8 {
            let turned = byte ^ (1 << bit);
            let mut sum = before.clone();
            sum.update([turned]);
            sum.update(rest);
            if <[u8; 32]>::from(sum.finalize()) == footer.sum {
                let mut index = index.to_vec();
                turn(&mut index, at * 8 + bit);
                return Some(index);
            }
        }
        before.update([*byte]);
    }
    None
}

fn turn(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// Returns the number of differing bits.
fn distance(one: &[u8], other: &[u8]) -> u32 {
    let bits = one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones());
    bits.sum()
}
