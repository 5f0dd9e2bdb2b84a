//! Repair rules so that the real client reads the whole history again.
//!
//! The client follows `parentUuid` from the last line back and stops at a missing parent, so an
//! unreadable line hides everything before it. Of several lines with the same `uuid` it reads the
//! last.

use crate::json::{self, Flag, Text, object};
use crate::layout::{PartialLinks, RepairRules};

use super::ClaudeCode;

object! {
    struct Links<'a> {
        "type" => kind: Text<'a>,
        "parentUuid" => parent: Text<'a>,
        "logicalParentUuid" => logical: Text<'a>,
        "isCompactSummary" => summary: Flag,
    }
}

impl RepairRules for ClaudeCode {
    fn can_have_children(&self, record: &[u8]) -> bool {
        let text = String::from_utf8_lossy(record);
        let links: Links<'_> = serde_json::from_str(&text).unwrap_or_default();
        // At a parent of any other type the client's chain breaks.
        let known = ["user", "assistant", "attachment", "system"];
        links.kind.get().is_some_and(|kind| known.contains(&kind))
    }

    /// Returns whether this is the summary after a compaction boundary. If its parent were a
    /// summarized message, the client would send both.
    fn starts_conversation(&self, record: &[u8]) -> bool {
        let text = String::from_utf8_lossy(record);
        let links: Links<'_> = serde_json::from_str(&text).unwrap_or_default();
        links.summary.0
    }

    fn set_parent(&self, record: &[u8], parent: Option<&str>) -> Option<Vec<u8>> {
        let text = String::from_utf8_lossy(record);
        let links: Links<'_> = serde_json::from_str(&text).ok()?;
        let logical = links.parent.non_empty().is_none() && links.logical.non_empty().is_some();
        let member = match logical && parent.is_none() {
            true => "logicalParentUuid",
            false => "parentUuid",
        };
        let parent = parent.map_or("null".to_owned(), json::quote);
        json::set_members(record, &[(member, &parent)])
    }

    fn set_id(&self, record: &[u8], id: &str) -> Option<Vec<u8>> {
        json::set_members(record, &[("uuid", &json::quote(id))])
    }

    fn last_duplicate_wins(&self) -> bool {
        true
    }

    /// The client writes `parentUuid` first and `uuid` after the message. So a truncated line
    /// mostly still has its parent, and one that lost its beginning has its id.
    fn partial_links(&self, line: &[u8]) -> PartialLinks {
        let text = |at: usize| {
            let rest = line.get(at..)?;
            let end = memchr::memchr(b'"', rest)?;
            let text = str::from_utf8(rest.get(..end)?).ok()?;
            is_uuid(text).then(|| text.to_owned())
        };
        let first = memchr::memmem::find(line, PARENT).filter(|at| *at < 2 * PARENT.len());
        let last = memchr::memmem::rfind(line, ID);
        PartialLinks {
            id: last.and_then(|at| text(at + ID.len())),
            parent: first.and_then(|at| text(at + PARENT.len())),
        }
    }
}

const PARENT: &[u8] = br#""parentUuid":""#;
const ID: &[u8] = br#","uuid":""#;

/// Returns whether a text is a UUID. Anything else may be part of the message text.
fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dash(at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
    const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

    #[test]
    fn set_parent_preserves_all_other_bytes() {
        let line = format!(r#"{{ "parentUuid" : "{A}","x":1e5,"uuid":"{B}","u":"\ud83d" }}"#);
        let mended = ClaudeCode.set_parent(line.as_bytes(), Some(B)).unwrap();
        assert_eq!(String::from_utf8(mended).unwrap(), line.replace(A, B));
        let mended = ClaudeCode.set_parent(line.as_bytes(), None).unwrap();
        let alone = line.replace(&format!("\"{A}\""), "null");
        assert_eq!(String::from_utf8(mended).unwrap(), alone);
    }

    #[test]
    fn partial_links_are_read_from_damaged_lines() {
        let whole =
            format!(r#"{{"parentUuid":"{A}","message":{{"content":"hm"}},"uuid":"{B}","v":1}}"#);
        let remains = |line: &str| ClaudeCode.partial_links(line.as_bytes());
        let (id, parent) = (Some(B.to_owned()), Some(A.to_owned()));
        let torn = &whole[..whole.len() - 60];
        assert_eq!(
            remains(torn),
            PartialLinks {
                id: None,
                parent: parent.clone()
            }
        );
        let headless = &whole[20..];
        assert_eq!(
            remains(headless),
            PartialLinks {
                id: id.clone(),
                parent: None
            }
        );
        let spoiled = whole.replace("\"hm\"", "hm");
        assert_eq!(remains(&spoiled), PartialLinks { id, parent });
        // Text about links is not a link.
        let quoted = format!(
            r#"{{"message":{{"content":"{}"parentUuid":"{A}""#,
            "x".repeat(40)
        );
        assert_eq!(remains(&quoted), PartialLinks::default());
    }
}
