//! Recovers records from a damaged line.
//!
//! The rules, in this order:
//!
//! 1. NUL bytes are removed: file systems leave them for blocks that were never written.
//! 2. If the rest is one object, it is the record.
//! 3. Otherwise every whole object that the layout accepts as a record is one, earliest first and
//!    none nested in another: two glued together, or one after a torn record.
//! 4. Everything else goes into quarantine.
//!
//! Pure, and bounded: a line is scanned a fixed number of times whatever its content.

use std::ops::Range;

use serde::de::IgnoredAny;

/// A range of a damaged line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Byte range in the line.
    pub range: Range<usize>,
    /// The record it contains, without NULs; `None` for the rest.
    pub record: Option<Vec<u8>>,
}

/// Splits a damaged line into consecutive pieces that cover it.
///
/// `is_record` distinguishes a record of the layout from any other object.
pub fn salvage(line: &[u8], is_record: impl Fn(&[u8]) -> bool) -> Vec<Piece> {
    let stripped = Stripped::new(line);
    let bytes = stripped.bytes.as_slice();
    let mut pieces = Vec::new();
    let mut done = 0;
    for within in records(bytes, is_record) {
        let Some(record) = bytes.get(within.clone()) else {
            continue;
        };
        let range = stripped.source_range(&within);
        if range.start > done {
            pieces.push(Piece {
                range: done..range.start,
                record: None,
            });
        }
        done = range.end;
        pieces.push(Piece {
            range,
            record: Some(record.to_vec()),
        });
    }
    if done < line.len() {
        pieces.push(Piece {
            range: done..line.len(),
            record: None,
        });
    }
    pieces
}

/// Returns the ranges of the records in a line without NULs.
fn records(bytes: &[u8], is_record: impl Fn(&[u8]) -> bool) -> Vec<Range<usize>> {
    let solid = |byte: &u8| !byte.is_ascii_whitespace();
    let start = bytes.iter().position(solid).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(solid).map_or(start, |at| at + 1);
    let all = bytes.get(start..end).unwrap_or_default();
    if all.first() == Some(&b'{') && serde_json::from_slice::<IgnoredAny>(all).is_ok() {
        return std::iter::once(start..end).collect();
    }
    let mut found = whole_objects(bytes);
    found.retain(|within| {
        !is_nested_value(bytes, within) && bytes.get(within.clone()).is_some_and(&is_record)
    });
    found
}

/// A line without its NULs, and the original offsets of the rest.
struct Stripped {
    bytes: Vec<u8>,
    /// Runs of kept bytes: the start of each in `bytes`, and in the line.
    runs: Vec<(usize, usize)>,
}

impl Stripped {
    fn new(line: &[u8]) -> Self {
        let mut stripped = Stripped {
            bytes: Vec::with_capacity(line.len()),
            runs: Vec::new(),
        };
        let mut at = 0;
        for run in line.split(|byte| *byte == 0) {
            if !run.is_empty() {
                stripped.runs.push((stripped.bytes.len(), at));
                stripped.bytes.extend_from_slice(run);
            }
            at += run.len() + 1;
        }
        stripped
    }

    /// Maps a range of `bytes` to the line, including NULs within it.
    fn source_range(&self, within: &Range<usize>) -> Range<usize> {
        let back = |at: usize| {
            let run = self.runs.partition_point(|(start, _)| *start <= at);
            let run = run.checked_sub(1).and_then(|run| self.runs.get(run));
            run.map_or(at, |(start, in_line)| in_line + (at - start))
        };
        match within.end.checked_sub(1).filter(|_| !within.is_empty()) {
            Some(last) => back(within.start)..back(last) + 1,
            None => back(within.start)..back(within.start),
        }
    }
}

/// Returns the ranges of whole objects in bytes that are not JSON, earliest first and none nested.
///
/// The bytes need not be UTF-8: a record may be torn within a character.
pub(crate) fn whole_objects(bytes: &[u8]) -> Vec<Range<usize>> {
    /// Maximum number of passes over the bytes. Every object left open by a torn record costs one
    /// pass; only a maliciously crafted line has more.
    const PASSES: usize = 16;
    /// Minimum budget in bytes: short lines are cheap to scan more often.
    const CHEAP: usize = 1 << 20;
    /// Fixed cost of an attempt, in bytes.
    const ATTEMPT: usize = 32;
    let mut left = bytes.len().saturating_mul(PASSES).max(CHEAP);
    let mut found = Vec::new();
    let mut at = 0;
    while left > 0
        && let Some(start) = next_object(bytes, at)
        && let Some(rest) = bytes.get(start..)
    {
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        let parsed = match values.next() {
            Some(Ok(_)) => {
                let len = values.byte_offset();
                found.push(start..start + len);
                at = start + len;
                len
            }
            Some(Err(error)) => {
                at = start + 1;
                // Columns count from the last line ending, and only documents contain any.
                if error.line() > 1 {
                    rest.len()
                } else {
                    error.column()
                }
            }
            None => break,
        };
        left = left.saturating_sub(parsed + ATTEMPT);
    }
    found
}

/// Returns the offset of the next `{` followed by a key.
fn next_object(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    memchr::memchr_iter(b'{', rest)
        .find(|at| {
            let mut after = rest.iter().skip(at + 1);
            after.find(|byte| !byte.is_ascii_whitespace()) == Some(&b'"')
        })
        .map(|at| from + at)
}

/// Returns whether an object is in the position of a JSON value and followed by what may follow
/// one. Then it is part of a torn object and was not written as a record.
pub(super) fn is_nested_value(bytes: &[u8], within: &Range<usize>) -> bool {
    let solid = |byte: &&u8| !byte.is_ascii_whitespace();
    let before = bytes.get(..within.start).unwrap_or_default();
    let after = bytes.get(within.end..).unwrap_or_default();
    let held = matches!(before.iter().rfind(solid), Some(b':' | b',' | b'['));
    held && matches!(after.iter().find(solid), Some(b',' | b'}' | b']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"type":"user","uuid":"1"}"#;
    const TWO: &str =
        r#"{"type":"user","uuid":"2","message":{"content":[{"type":"text","text":"}{"}]}}"#;

    fn is_record(object: &[u8]) -> bool {
        let value: Result<serde_json::Value, _> = serde_json::from_slice(object);
        value.is_ok_and(|value| value.get("uuid").is_some() && value.get("type").is_some())
    }

    fn records(line: &[u8]) -> Vec<String> {
        let pieces = salvage(line, is_record);
        let mut at = 0;
        for piece in &pieces {
            assert_eq!(piece.range.start, at, "pieces follow each other");
            at = piece.range.end;
            let stretch: Vec<u8> = line[piece.range.clone()].to_vec();
            let without_nuls = stretch.iter().copied().filter(|byte| *byte != 0);
            if let Some(record) = &piece.record {
                assert!(
                    without_nuls.eq(record.iter().copied()),
                    "a record stands where it is said to"
                );
            }
        }
        assert_eq!(at, line.len(), "and cover the line");
        let records = pieces.into_iter().filter_map(|piece| piece.record);
        records
            .map(|record| String::from_utf8(record).unwrap())
            .collect()
    }

    #[test]
    fn salvage_splits_glued_records() {
        assert_eq!(records(format!("{ONE}{TWO}").as_bytes()), [ONE, TWO]);
        assert_eq!(records(format!("{ONE} , {TWO} ").as_bytes()), [ONE, TWO]);
    }

    #[test]
    fn salvage_finds_record_after_torn_one() {
        for cut in 1..TWO.len() {
            let Some(torn) = TWO.get(..cut) else { continue };
            assert_eq!(records(format!("{torn}{ONE}").as_bytes()), [ONE], "{torn}");
        }
    }

    #[test]
    fn salvage_strips_nuls_at_any_offset() {
        for at in 0..=TWO.len() {
            let (before, after) = TWO.split_at(at);
            assert_eq!(records(format!("{before}\0\0\0{after}").as_bytes()), [TWO]);
        }
        assert_eq!(records(b"\0\0\0\0"), [""; 0]);
        assert_eq!(
            records(format!("\0{ONE}\0\0{TWO}\0").as_bytes()),
            [ONE, TWO]
        );
    }

    #[test]
    fn salvage_ignores_objects_nested_in_a_record() {
        let part = format!(r#"{{"type":"user","nested":{ONE},"torn"#);
        assert_eq!(records(part.as_bytes()), [""; 0]);
        assert_eq!(records(br#"{"type":"text"}{"type":"text"}"#), [""; 0]);
    }

    #[test]
    fn salvage_handles_adversarial_lines_quickly() {
        for unit in [
            "{",
            "{\"",
            "{\"a\":",
            "{\"a\":[",
            "{\"a\":1}",
            "\0{\"",
            "[{\"a\":{",
        ] {
            let line = unit.repeat((4 << 20) / unit.len());
            let pieces = salvage(line.as_bytes(), is_record);
            assert!(pieces.iter().all(|piece| piece.record.is_none()));
        }
    }
}
