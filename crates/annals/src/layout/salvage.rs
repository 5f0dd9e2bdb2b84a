//! What can be saved of a line that is not one record.
//!
//! The rule, in this order:
//!
//! 1. NUL bytes are taken out: they are what a file system leaves of blocks that were never written.
//! 2. If the rest is one object, it is the record.
//! 3. Otherwise every whole object in it that the layout takes for a record is one, the earliest
//!    first and none within another: two that were glued together, one behind a torn one.
//! 4. Everything else is nobody's, and goes into quarantine.
//!
//! Pure, and bounded: a line is gone over a fixed number of times whatever stands in it.

use std::ops::Range;

use serde::de::IgnoredAny;

/// A stretch of a damaged line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the line it lies.
    pub range: Range<usize>,
    /// The record that it holds, without NULs; `None` for what is nobody's.
    pub record: Option<Vec<u8>>,
}

/// Takes a damaged line apart. The pieces follow each other and cover the line.
///
/// `is_record` tells a record of the layout from any other object.
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

/// Where the records lie in a line without NULs.
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

/// A line without its NULs, and where the rest of it stood.
struct Stripped {
    bytes: Vec<u8>,
    /// The stretches that were kept: where each begins here, and where in the line.
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

    /// Where a stretch of the rest lies in the line, NULs within it included.
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

/// Where whole objects lie in bytes that are not JSON, none within another; earliest first.
///
/// The bytes need not be text: a record may be torn within a character.
pub(crate) fn whole_objects(bytes: &[u8]) -> Vec<Range<usize>> {
    /// How often the bytes may be gone over. Every object that a torn record left open costs one
    /// pass, and only a line made to be slow leaves more of them open than this.
    const PASSES: usize = 16;
    /// Short lines may be gone over more often, since that costs nothing.
    const CHEAP: usize = 1 << 20;
    /// What a beginning costs in itself, as bytes.
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
                // A column counts from the last line ending, and only documents have any.
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

/// The next `{` that a key follows.
fn next_object(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    memchr::memchr_iter(b'{', rest)
        .find(|at| {
            let mut after = rest.iter().skip(at + 1);
            after.find(|byte| !byte.is_ascii_whitespace()) == Some(&b'"')
        })
        .map(|at| from + at)
}

/// Whether an object stands where a value must and goes on as after a value: what holds it was
/// torn elsewhere, and nobody wrote it as a record.
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
            let told = stretch.iter().copied().filter(|byte| *byte != 0);
            if let Some(record) = &piece.record {
                assert!(
                    told.eq(record.iter().copied()),
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
