//! Decoder for the notes log: annotations after a header.

use crate::layout::annotations::AnnotationDecoder;
use crate::layout::{Decoded, Decoder, Record};
use crate::model::{Entry, FlawKind, Outline};

use super::line::Line;

/// Decodes annotations. The header's title is ignored: it dates from when the file was created.
#[derive(Debug)]
pub(super) struct NotesDecoder;

impl Decoder for NotesDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        AnnotationDecoder.outline(record, out);
        check(record, out);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        AnnotationDecoder.decode(record, out);
        check(record, out);
    }

    fn is_record(&self, object: &str) -> bool {
        AnnotationDecoder.is_record(object)
    }
}

fn check<S>(record: &Record<'_>, out: &mut Decoded<S>) {
    // Damage is already reported, so these flaws are dropped.
    let mut ignored = Decoded::<()>::default();
    let read = record.object(&mut ignored, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        Ok(line.header_fault("notes", record.span))
    });
    if let Some(Some(fault)) = read {
        out.add_flaw(FlawKind::BadHeader, record.span, fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::clog::line;
    use crate::model::{Body, Span};

    fn read(bytes: &str, offset: u64) -> (Vec<Entry>, Vec<FlawKind>) {
        let record = Record {
            span: Span {
                offset,
                len: bytes.len() as u64,
                line: 1,
            },
            bytes: bytes.as_bytes(),
            terminated: true,
            oversize: false,
        };
        let mut sink = Decoded::default();
        NotesDecoder.decode(&record, &mut sink);
        let kinds = sink.flaws.iter().map(|flaw| flaw.kind).collect();
        (sink.items, kinds)
    }

    #[test]
    fn notes_need_header_first_and_ignore_its_title() {
        let header = format!(
            r#"{{"type":"{}","schemaVersion":1,"fileKind":"notes","title":"T"}}"#,
            line::HEADER
        );
        let (found, flaws) = read(&header, 0);
        assert!(
            matches!(&found[0].body, Body::Opaque { kind: Some(kind), .. } if kind == line::HEADER)
        );
        assert_eq!(flaws, []);
        let note =
            r#"{"type":"note","createdAt":1774488740418,"author":"operator","content":"hm"}"#;
        assert_eq!(read(note, 0).1, [FlawKind::BadHeader]);
        let (found, flaws) = read(note, 200);
        let body = Body::Note {
            author: Some("operator".to_owned()),
            text: "hm".to_owned(),
        };
        assert_eq!((&found[0].body, flaws), (&body, vec![]));
        assert_eq!(read("{\"type\":", 0).1, [FlawKind::BadJson]);
        assert_eq!(
            read(&header.replace("notes", "chat"), 0).1,
            [FlawKind::BadHeader]
        );
    }
}
