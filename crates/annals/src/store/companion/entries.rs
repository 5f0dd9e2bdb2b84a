//! The entries of a companion, and the lines of the log that they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use annals_jsonl::{FileId, OpenLog};
use annals_jsonl::{RangeReader, ReadAt as _, Scanner};
use annals_layouts::layout::BLANK_LINE;
use annals_layouts::model::Span;

use super::{Line, Sum, line_sum, parse_sum};

/// The entries of a companion, by the places in the log that they belong to.
#[derive(Debug, Default)]
pub(super) struct CompanionEntries {
    /// Records that come before all lines.
    pub(super) begin: Vec<String>,
    /// Members of the line at an offset, in the order in which they were written.
    pub(super) members: BTreeMap<u64, Vec<Member>>,
    /// The last place of members of the line with a sum.
    pub(super) places: HashMap<Sum, u64>,
    /// Records that stand in the place of the blank line at an offset, of which the last counts.
    pub(super) standalone: BTreeMap<u64, Vec<StandaloneRecord>>,
    /// Records whose blank line is gone, by the line that they come after.
    pub(super) moved: BTreeMap<u64, Vec<StandaloneRecord>>,
    /// The companion was read from here on,
    start: u64,
    /// and up to here.
    pub(super) read: u64,
    /// So many lines of it were read.
    lines: u64,
    /// The place that the last entry is for.
    newest: u64,
    /// Some entry is for a place before that of the entry before it.
    unordered: bool,
}

/// Members of a line.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) sum: Sum,
    pub(super) record: String,
    origin: Origin,
}

/// A record of its own.
#[derive(Debug)]
pub(super) struct StandaloneRecord {
    /// The sum of the last line before it that is not blank.
    after: Option<Sum>,
    pub(super) record: String,
    origin: Origin,
}

/// Where an entry stands in the companion, and the inode of the log that it was written for.
#[derive(Clone, Copy, Debug)]
struct Origin {
    span: Span,
    inode: Option<u64>,
}

impl Origin {
    /// Whether an entry for a line from the end of the log on was left by an append that was cut
    /// off. In a log that was replaced since, the line lies elsewhere.
    fn is_leftover(&self, offset: u64, log: &FileId) -> bool {
        offset >= log.len && self.inode.is_none_or(|inode| inode == log.ino)
    }
}

/// What became of entries whose lines are not where they were.
#[derive(Debug, Default)]
pub(super) struct BindReport {
    /// Records whose blank line is gone, in the place that they had among the other lines.
    pub(super) moved: Vec<Span>,
    /// Entries that belong to no line.
    pub(super) unmatched: Vec<Span>,
    /// Entries for lines behind the end of the log.
    pub(super) past_end: Vec<Span>,
}

/// The lines of a log.
#[derive(Default)]
struct Lines {
    at: BTreeMap<u64, Sum>,
    by_sum: HashMap<Sum, BTreeSet<u64>>,
    /// Blank lines, by the line before them that is not blank; `None` stands before all.
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

    /// Takes a blank line out.
    fn take_blank(&mut self, offset: u64) -> bool {
        let before = self.line_before(offset);
        let blanks = self.blanks.get_mut(&before);
        blanks.is_some_and(|blanks| blanks.remove(&offset))
    }

    /// The last line before an offset that is not blank.
    fn line_before(&self, offset: u64) -> Option<u64> {
        self.at.range(..offset).next_back().map(|(at, _)| *at)
    }

    /// Whether a record of its own at an offset is behind the line that it came after.
    fn follows(&self, offset: u64, alone: &StandaloneRecord) -> bool {
        let before = self.at.range(..offset).next_back();
        alone.after.is_none() || before.map(|(_, sum)| *sum) == alone.after
    }
}

impl CompanionEntries {
    /// No entries yet, of a companion that is read from an offset on.
    pub(super) fn from_offset(offset: u64) -> Self {
        CompanionEntries {
            start: offset,
            read: offset,
            ..CompanionEntries::default()
        }
    }

    /// Where in the companion the entries begin.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The place in the log that the last entry is for.
    pub(super) fn last_place(&self) -> u64 {
        self.newest
    }

    /// The first place in the log that an entry is for.
    pub(super) fn first_place(&self) -> Option<u64> {
        let members = self.members.keys().next();
        let alone = self.standalone.keys().next();
        members.into_iter().chain(alone).copied().min()
    }

    /// Takes in the next lines. A damaged one is passed over; the record that it was for is there.
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

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        let alone = self.standalone.values().map(Vec::len);
        let members = self.members.values().map(Vec::len);
        self.begin.len() + alone.chain(members).sum::<usize>()
    }

    /// Binds the entries to the lines of a log that was rewritten; of any other, they are bound as
    /// they are. Returns the length of the log if the line of each entry was looked for, or else 0.
    pub(super) fn bind(&mut self, log: &OpenLog) -> io::Result<u64> {
        let id = log.id()?;
        if self.seem_in_place(log, &id)? {
            return Ok(0);
        }
        self.bind_all(log, &id)?;
        Ok(id.len)
    }

    /// Whether these entries of a companion are in the order of the log's lines and in their places. Then
    /// all entries before them are for lines before theirs, and all after them for lines after theirs.
    pub(super) fn are_in_place(&self, log: &OpenLog) -> io::Result<bool> {
        let id = log.id()?;
        // A record of its own has no sum to compare.
        let has_sums = self.members.range(..id.len).next().is_some();
        Ok(!self.unordered && has_sums && self.seem_in_place(log, &id)?)
    }

    /// Looks for the line of each entry.
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
            // Of equal lines each belongs to one entry at most.
            let nearest = left.and_then(|left| {
                let at = nearest(left, offset)?;
                left.take(&at)
            });
            match nearest {
                Some(at) => found.members.entry(at).or_default().push(member),
                // It was written again for the place where its line is.
                None if found.has_members(lines.by_sum.get(&member.sum), &member) => {}
                None => bound.unmatched.push(member.origin.span),
            }
        }
        let standalone = std::mem::take(&mut self.standalone);
        let newest = newest_copies(standalone.values().flatten());
        let is_newest = |alone: &StandaloneRecord| newest.contains(&alone.origin.span.offset);
        let mut displaced = Vec::new();
        for (offset, entries) in standalone {
            // The last one was written where the line is now.
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
        displaced.sort_by_key(|(_, alone)| alone.origin.span.offset);
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
        // If nothing fits, it is the companion of another log.
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

    /// Whether one of some lines has the same members.
    fn has_members(&self, lines: Option<&BTreeSet<u64>>, member: &Member) -> bool {
        let mut members = lines
            .into_iter()
            .flatten()
            .filter_map(|line| self.members.get(line))
            .flatten();
        members.any(|other| other.record == member.record)
    }

    /// Whether the newest entry for a line before the end of the log is not in its place: then no entry
    /// for a line behind the end was left by an append that was cut off.
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

    /// Whether a line begins at the place of each entry, and one of the newest is the line that the
    /// entry was made for. A log that was rewritten has its lines elsewhere.
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

/// The places in the companion of records of their own, of equal ones only the last: it was written
/// again for another place in the log.
fn newest_copies<'a>(records: impl Iterator<Item = &'a StandaloneRecord>) -> HashSet<u64> {
    let mut newest: HashMap<&str, u64> = HashMap::new();
    for alone in records {
        let place = newest.entry(&alone.record).or_default();
        *place = alone.origin.span.offset.max(*place);
    }
    newest.into_values().collect()
}

/// The line of some that is nearest to where an entry was.
fn nearest(lines: &BTreeSet<u64>, offset: u64) -> Option<u64> {
    let before = lines.range(..=offset).next_back();
    let after = lines.range(offset..).next();
    let both = before.into_iter().chain(after);
    both.copied().min_by_key(|at| at.abs_diff(offset))
}

/// The line of a log at an offset, if it begins there.
pub(super) fn line_at(log: &OpenLog, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut scanner = Scanner::from_offset(RangeReader::from_offset(log, offset), offset, 1);
    Ok(scanner.next()?.map(|line| line.bytes.to_vec()))
}

/// Whether a line that is not blank begins at an offset of a log.
fn begins_line(log: &OpenLog, offset: u64) -> io::Result<bool> {
    line_start_is(log, offset, |[first, _]| !first.is_ascii_whitespace())
}

/// Whether there is a blank line at an offset of a log.
fn is_blank_at(log: &OpenLog, offset: u64) -> io::Result<bool> {
    line_start_is(log, offset, |line| {
        line.strip_suffix(b"\n") == Some(BLANK_LINE)
    })
}

/// Whether a line begins at an offset, with two bytes that fit. The last one is 0 if the log has only one.
///
/// One read takes both and the line end before them: a companion may have an entry for each line.
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
