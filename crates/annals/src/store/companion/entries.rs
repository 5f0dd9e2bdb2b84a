//! Entries of a companion, and their binding to lines of the log.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use annals_jsonl::{FileId, OpenLog};
use annals_jsonl::{RangeReader, ReadAt as _, Scanner};
use annals_layouts::layout::BLANK_LINE;
use annals_layouts::model::Span;

use super::{Line, Sum, line_sum, parse_sum};

/// Entries of a companion, by the log offset that they are for.
#[derive(Debug, Default)]
pub(super) struct CompanionEntries {
    /// Records that come before all lines.
    pub(super) begin: Vec<String>,
    /// Members of the line at an offset, in the order in which they were written.
    pub(super) members: BTreeMap<u64, Vec<Member>>,
    /// Log offset of the last entry with a sum.
    pub(super) places: HashMap<Sum, u64>,
    /// Standalone records, by the offset of their blank line; the last one counts.
    pub(super) standalone: BTreeMap<u64, Vec<StandaloneRecord>>,
    /// Standalone records without a blank line, by the line that they follow.
    pub(super) moved: BTreeMap<u64, Vec<StandaloneRecord>>,
    /// Byte offset in the companion at which reading started.
    start: u64,
    /// Byte offset up to which the companion was read.
    pub(super) read: u64,
    /// Number of lines read.
    lines: u64,
    /// Log offset of the last entry.
    newest: u64,
    /// Whether an entry is for a smaller offset than the entry before it.
    unordered: bool,
}

/// Members of a line.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) sum: Sum,
    pub(super) record: String,
    origin: Origin,
}

/// A record that is only in the companion.
#[derive(Debug)]
pub(super) struct StandaloneRecord {
    /// Sum of the last non-blank line before it.
    after: Option<Sum>,
    pub(super) record: String,
    origin: Origin,
}

/// Position of an entry in the companion, and the inode of the log that it was written for.
#[derive(Clone, Copy, Debug)]
struct Origin {
    span: Span,
    inode: Option<u64>,
}

impl Origin {
    /// Returns whether an entry past the end of the log was left by an interrupted append. If the log
    /// was replaced since, the line may be at another offset.
    fn is_leftover(&self, offset: u64, log: &FileId) -> bool {
        offset >= log.len && self.inode.is_none_or(|inode| inode == log.ino)
    }
}

/// Entries whose lines are not at their offsets.
#[derive(Debug, Default)]
pub(super) struct BindReport {
    /// Standalone records without a blank line, which keep their position between the other lines.
    pub(super) moved: Vec<Span>,
    /// Entries that match no line.
    pub(super) unmatched: Vec<Span>,
    /// Entries for lines past the end of the log.
    pub(super) past_end: Vec<Span>,
}

/// The lines of a log.
#[derive(Default)]
struct Lines {
    at: BTreeMap<u64, Sum>,
    by_sum: HashMap<Sum, BTreeSet<u64>>,
    /// Blank lines, by the previous non-blank line; `None` if there is none.
    blanks: BTreeMap<Option<u64>, BTreeSet<u64>>,
}

impl Lines {
    fn new(log: &OpenLog) -> io::Result<Self> {
        let mut lines = Lines::default();
        let mut last = None;
        let mut scanner = Scanner::new(RangeReader::from_offset(log, 0));
        while let Some(line) = scanner.next()? {
            if line.bytes == BLANK_LINE {
                lines.blanks.entry(last).or_default().insert(line.offset);
            } else if !line.bytes.iter().all(u8::is_ascii_whitespace) {
                let sum = line_sum(line.bytes);
                lines.at.insert(line.offset, sum);
                lines.by_sum.entry(sum).or_default().insert(line.offset);
                last = Some(line.offset);
            }
        }
        Ok(lines)
    }

    fn has_blank(&self, offset: u64) -> bool {
        let blanks = self.blanks.get(&self.line_before(offset));
        blanks.is_some_and(|blanks| blanks.contains(&offset))
    }

    /// Removes a blank line. Returns whether there was one.
    fn take_blank(&mut self, offset: u64) -> bool {
        let before = self.line_before(offset);
        let blanks = self.blanks.get_mut(&before);
        blanks.is_some_and(|blanks| blanks.remove(&offset))
    }

    /// Returns the last non-blank line before an offset.
    fn line_before(&self, offset: u64) -> Option<u64> {
        self.at.range(..offset).next_back().map(|(at, _)| *at)
    }

    /// Returns whether the line before an offset is the one that a standalone record follows.
    fn follows(&self, offset: u64, alone: &StandaloneRecord) -> bool {
        let before = self.at.range(..offset).next_back();
        alone.after.is_none() || before.map(|(_, sum)| *sum) == alone.after
    }
}

impl CompanionEntries {
    /// Creates it without entries, for a companion that is read from an offset.
    pub(super) fn from_offset(offset: u64) -> Self {
        CompanionEntries {
            start: offset,
            read: offset,
            ..CompanionEntries::default()
        }
    }

    /// Returns the offset in the companion at which reading started.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the log offset of the last entry.
    pub(super) fn last_place(&self) -> u64 {
        self.newest
    }

    /// Returns the smallest log offset of an entry.
    pub(super) fn first_place(&self) -> Option<u64> {
        let members = self.members.keys().next();
        let alone = self.standalone.keys().next();
        members.into_iter().chain(alone).copied().min()
    }

    /// Adds the next lines. Skips damaged ones: their records are read without companion data.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let lines = bytes.get(..whole).unwrap_or_default();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            let span = Span {
                offset: self.read,
                len: line.len() as u64,
                line: self.lines,
            };
            self.read += line.len() as u64;
            let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
                continue;
            };
            let record = line.record.get().to_owned();
            let origin = Origin {
                span,
                inode: line.inode,
            };
            if !line.begin {
                self.unordered |= line.offset < self.newest;
                self.newest = line.offset;
            }
            match line.sum {
                _ if line.begin => self.begin.push(record),
                None => {
                    let after = line.after.and_then(parse_sum);
                    self.standalone
                        .entry(line.offset)
                        .or_default()
                        .push(StandaloneRecord {
                            after,
                            record,
                            origin,
                        });
                }
                Some(sum) => {
                    let Some(sum) = parse_sum(sum) else { continue };
                    self.places.insert(sum, line.offset);
                    self.members.entry(line.offset).or_default().push(Member {
                        sum,
                        record,
                        origin,
                    });
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let lines = self.members.is_empty() && self.standalone.is_empty() && self.moved.is_empty();
        lines && self.begin.is_empty()
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        let alone = self.standalone.values().map(Vec::len);
        let members = self.members.values().map(Vec::len);
        self.begin.len() + alone.chain(members).sum::<usize>()
    }

    /// Binds the entries to the lines of the log, if it was rewritten. Returns the length of the log if
    /// all entries were bound again, otherwise 0.
    pub(super) fn bind(&mut self, log: &OpenLog) -> io::Result<u64> {
        let id = log.id()?;
        if self.seem_in_place(log, &id)? {
            return Ok(0);
        }
        self.bind_all(log, &id)?;
        Ok(id.len)
    }

    /// Returns whether these entries are in the order of the log and match its lines. Then all entries
    /// before them are for earlier lines, and all after them for later lines.
    pub(super) fn are_in_place(&self, log: &OpenLog) -> io::Result<bool> {
        let id = log.id()?;
        // Standalone records have no sum to compare.
        let has_sums = self.members.range(..id.len).next().is_some();
        Ok(!self.unordered && has_sums && self.seem_in_place(log, &id)?)
    }

    /// Binds each entry to its line.
    pub(super) fn bind_all(&mut self, log: &OpenLog, id: &FileId) -> io::Result<BindReport> {
        let mut lines = Lines::new(log)?;
        let rewritten = self.is_rewritten(&lines, id);
        let is_behind = |origin: &Origin, offset: u64| !rewritten && origin.is_leftover(offset, id);
        let mut free = lines.by_sum.clone();
        let mut bound = BindReport::default();
        let mut found = CompanionEntries {
            start: self.start,
            read: self.read,
            lines: self.lines,
            places: std::mem::take(&mut self.places),
            ..CompanionEntries::default()
        };
        let mut behind = CompanionEntries::default();
        let mut displaced = Vec::new();
        for (offset, entries) in std::mem::take(&mut self.members) {
            for member in entries {
                let at = lines.at.get(&offset);
                if at == Some(&member.sum) {
                    free.entry(member.sum).or_default().remove(&offset);
                    found.members.entry(offset).or_default().push(member);
                } else if is_behind(&member.origin, offset) {
                    bound.past_end.push(member.origin.span);
                    behind.members.entry(offset).or_default().push(member);
                } else {
                    displaced.push((offset, member));
                }
            }
        }
        for (offset, member) in displaced {
            let left = free.get_mut(&member.sum);
            // Each of several equal lines belongs to at most one entry.
            let nearest = left.and_then(|left| {
                let at = nearest(left, offset)?;
                left.take(&at)
            });
            match nearest {
                Some(at) => found.members.entry(at).or_default().push(member),
                // It was written again with the offset of its line.
                None if found.has_members(lines.by_sum.get(&member.sum), &member) => {}
                None => bound.unmatched.push(member.origin.span),
            }
        }
        let standalone = std::mem::take(&mut self.standalone);
        let newest = newest_copies(standalone.values().flatten());
        let is_newest = |alone: &StandaloneRecord| newest.contains(&alone.origin.span.offset);
        let mut displaced = Vec::new();
        for (offset, entries) in standalone {
            // The last one was written for the current position of the line.
            for alone in entries.into_iter().rev().filter(is_newest) {
                if is_behind(&alone.origin, offset) {
                    bound.past_end.push(alone.origin.span);
                    behind
                        .standalone
                        .entry(offset)
                        .or_default()
                        .insert(0, alone);
                } else if lines.follows(offset, &alone) && lines.take_blank(offset) {
                    found.standalone.entry(offset).or_default().push(alone);
                } else {
                    displaced.push((offset, alone));
                }
            }
        }
        crate::sort::by_key(&mut displaced, |(_, alone)| alone.origin.span.offset);
        let mut first = Vec::new();
        for (offset, alone) in displaced {
            let line = alone.after.map(|sum| {
                let lines = lines.by_sum.get(&sum);
                lines.and_then(|lines| nearest(lines, offset))
            });
            let Some(line) = line.unwrap_or(Some(0)) else {
                match lines.take_blank(offset) {
                    // The line before it was changed.
                    true => found.standalone.entry(offset).or_default().push(alone),
                    false => bound.unmatched.push(alone.origin.span),
                }
                continue;
            };
            let after = alone.after.map(|_| line);
            let blank = lines.blanks.get_mut(&after).and_then(BTreeSet::pop_first);
            match (blank, after) {
                (Some(blank), _) => found.standalone.entry(blank).or_default().push(alone),
                (None, None) => first.push(alone),
                (None, Some(line)) => {
                    bound.moved.push(alone.origin.span);
                    found.moved.entry(line).or_default().push(alone);
                }
            }
        }
        // If nothing matches, the companion belongs to another log.
        if found.is_empty() {
            bound
                .unmatched
                .extend(first.iter().map(|alone| alone.origin.span));
        } else {
            bound
                .moved
                .extend(first.iter().map(|alone| alone.origin.span));
            found.begin = std::mem::take(&mut self.begin);
            found
                .begin
                .extend(first.into_iter().map(|alone| alone.record));
        }
        found.members.extend(behind.members);
        found.standalone.extend(behind.standalone);
        *self = found;
        Ok(bound)
    }

    /// Returns whether one of the lines has the same members.
    fn has_members(&self, lines: Option<&BTreeSet<u64>>, member: &Member) -> bool {
        let mut members = lines
            .into_iter()
            .flatten()
            .filter_map(|line| self.members.get(line))
            .flatten();
        members.any(|other| other.record == member.record)
    }

    /// Returns whether the newest entry for a line before the end of the log does not match. Then no
    /// entry past the end is from an interrupted append.
    fn is_rewritten(&self, lines: &Lines, id: &FileId) -> bool {
        let members = self.members.range(..id.len).flat_map(|(offset, entries)| {
            let entries = entries.iter();
            entries.map(|it| (&it.origin, lines.at.get(offset) == Some(&it.sum)))
        });
        let alone = self
            .standalone
            .range(..id.len)
            .flat_map(|(offset, entries)| {
                let entries = entries.iter();
                entries.map(|it| (&it.origin, lines.has_blank(*offset)))
            });
        let newest = members.chain(alone).max_by_key(|(it, _)| it.span.offset);
        newest.is_some_and(|(_, in_place)| !in_place)
    }

    /// Returns whether a line begins at the offset of each entry, and the sum of one of the newest
    /// entries matches. A rewritten log has its lines at other offsets.
    fn seem_in_place(&self, log: &OpenLog, id: &FileId) -> io::Result<bool> {
        const ASKED: usize = 16;
        for (offset, entries) in &self.standalone {
            let [alone] = entries.as_slice() else {
                return Ok(false);
            };
            if !alone.origin.is_leftover(*offset, id) && !is_blank_at(log, *offset)? {
                return Ok(false);
            }
        }
        for (offset, entries) in &self.members {
            let mut entries = entries.iter();
            let left_behind = entries.all(|member| member.origin.is_leftover(*offset, id));
            if !left_behind && !begins_line(log, *offset)? {
                return Ok(false);
            }
        }
        let mut asked = 0;
        for (offset, entries) in self.members.range(..id.len).rev().take(ASKED) {
            asked += 1;
            let sum = line_at(log, *offset)?.map(|line| line_sum(&line));
            if entries.iter().any(|member| Some(member.sum) == sum) {
                return Ok(true);
            }
        }
        Ok(asked == 0)
    }
}

/// Returns the companion offsets of standalone records; of equal ones only the last, which was
/// written again for another log offset.
fn newest_copies<'a>(records: impl Iterator<Item = &'a StandaloneRecord>) -> HashSet<u64> {
    let mut newest: HashMap<&str, u64> = HashMap::new();
    for alone in records {
        let place = newest.entry(&alone.record).or_default();
        *place = alone.origin.span.offset.max(*place);
    }
    newest.into_values().collect()
}

/// Returns the line that is nearest to an offset.
fn nearest(lines: &BTreeSet<u64>, offset: u64) -> Option<u64> {
    let before = lines.range(..=offset).next_back();
    let after = lines.range(offset..).next();
    let both = before.into_iter().chain(after);
    both.copied().min_by_key(|at| at.abs_diff(offset))
}

/// Returns the line that begins at an offset of a log.
pub(super) fn line_at(log: &OpenLog, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut scanner = Scanner::from_offset(RangeReader::from_offset(log, offset), offset, 1);
    Ok(scanner.next()?.map(|line| line.bytes.to_vec()))
}

/// Returns whether a non-blank line begins at an offset of a log.
fn begins_line(log: &OpenLog, offset: u64) -> io::Result<bool> {
    line_start_is(log, offset, |[first, _]| !first.is_ascii_whitespace())
}

/// Returns whether a blank line is at an offset of a log.
fn is_blank_at(log: &OpenLog, offset: u64) -> io::Result<bool> {
    line_start_is(log, offset, |line| {
        line.strip_suffix(b"\n") == Some(BLANK_LINE)
    })
}

/// Returns whether a line begins at an offset and its first two bytes satisfy `fits`. The second byte
/// is 0 at the end of the log.
///
/// Uses one read for these bytes and the line end before them, because a companion may have an entry
/// for each line.
fn line_start_is(
    log: &OpenLog,
    offset: u64,
    fits: impl FnOnce([u8; 2]) -> bool,
) -> io::Result<bool> {
    let mut bytes = [b'\n', 0, 0];
    let filled = match offset.checked_sub(1) {
        Some(before) => log.fill_at(&mut bytes, before)?,
        None => {
            let [_, start @ ..] = &mut bytes;
            1 + log.fill_at(start, 0)?
        }
    };
    let [before, start @ ..] = bytes;
    Ok(before == b'\n' && filled > 1 && fits(start))
}
