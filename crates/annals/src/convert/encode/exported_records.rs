//! Records in an export, for an import into the layout that they come from.
//!
//! The entries of an export are authoritative. A record is written as it is only if the target's
//! layout decodes it to exactly the exported entries.

use std::collections::VecDeque;

use crate::store::Session;
use annals_layouts::layout::export_file::{ExportLine, ExportedRecord, parse_line};
use annals_layouts::layout::{AppendState, Decoded, Decoder, Record};
use annals_layouts::model::{Entry, Fact, Framing, Span};

use super::Target;

/// Returns whether a session was exported from the target's layout.
pub(super) fn is_from_layout(target: &Target<'_>, session: &Session) -> bool {
    let outlines = session.main_log().map(|(_, scan, _)| &scan.outlines);
    let outlines = outlines.into_iter().flatten();
    let mut facts = outlines.flat_map(|outline| &outline.facts);
    let layout = target.root.layout.name();
    target.merge
        && facts
            .any(|fact| matches!(fact, Fact::Attribute("exported_from", from) if **from == *layout))
}

/// Reads the records of an exported log.
pub(super) struct ExportedRecords {
    /// Decoder of the log in the target.
    decoder: Box<dyn Decoder>,
    /// Whether records name their parents. If not, the order of the log implies them.
    has_links: bool,
    /// Further entries of the last record.
    rest: VecDeque<Entry>,
}

impl ExportedRecords {
    /// Returns `None` if the session is not exported from the target's layout, gets another id, or has
    /// derived records.
    pub(super) fn new(
        target: &Target<'_>,
        session: &Session,
        head: &AppendState,
    ) -> Option<ExportedRecords> {
        let has_same_id = head.session == session.files.id;
        // An export of a document has records that are derived from its lines, not the lines. What was derived
        // depends on lines without entries (in Codex those with models and tokens), which an export lacks: the
        // lines alone would not have the exported entries.
        let has_lines = matches!(head.log.framing, Framing::Lines);
        (has_same_id && has_lines && is_from_layout(target, session)).then(|| ExportedRecords {
            decoder: target.root.layout.decoder(&head.log),
            has_links: target.root.layout.follows_parent_links(),
            rest: VecDeque::new(),
        })
    }

    /// Returns the record of an exported entry; an empty one if it is the record of the entry before;
    /// `None` if there is none, or if it has other entries.
    pub(super) fn read(&mut self, line: &Record<'_>, entries: &[Entry]) -> Option<Vec<u8>> {
        let [entry] = entries else { return None };
        let text = std::str::from_utf8(line.bytes).ok()?;
        let Ok(ExportLine::Entry(mut row)) = parse_line(text) else {
            return None;
        };
        match row.take_record() {
            ExportedRecord::None => None,
            ExportedRecord::Continued => {
                let next = self.rest.pop_front()?;
                self.is_same(next, entry).then(Vec::new)
            }
            ExportedRecord::Text(record, offset) => {
                let mut decoded = Decoded::default();
                let whole = Record {
                    span: Span {
                        offset,
                        len: record.len() as u64 + 1,
                        line: 0,
                    },
                    bytes: record.as_bytes(),
                    terminated: true,
                    oversize: false,
                };
                self.decoder.decode(&whole, &mut decoded);
                self.rest = decoded.items.into();
                let first = self.rest.pop_front()?;
                let is_line = !record.is_empty() && !record.contains(['\n', '\r']);
                (is_line && self.is_same(first, entry)).then(|| record.into_bytes())
            }
        }
    }

    /// Returns whether two entries differ only in what depends on their place.
    fn is_same(&self, mut decoded: Entry, exported: &Entry) -> bool {
        decoded.span = exported.span;
        decoded.session = None;
        if decoded.derived_id {
            decoded.derived_id = false;
            decoded.id.clone_from(&exported.id);
        }
        if !self.has_links && decoded.parent.is_none() {
            decoded.parent.clone_from(&exported.parent);
        }
        decoded == *exported
    }
}
