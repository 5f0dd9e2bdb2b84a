//! Lines that are JSON but that the layout does not read.

use super::*;
use annals_layouts::layout::ClaudeCode;
use annals_layouts::model::{ArtifactKind, Entry, SessionId};

const SESSION: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn uuid(number: u64) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn line(number: u64, parent: u64, text: &str) -> String {
    let parent = match parent {
        0 => "null".to_owned(),
        parent => format!("\"{}\"", uuid(parent)),
    };
    let own = uuid(number);
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"sessionId":"{SESSION}","type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"{own}","timestamp":"2026-11-10T05:{number:02}:00.000Z"}}"#
    )
}

/// A decoder that does not read lines that contain "odd".
struct Strict(Box<dyn Decoder>);

impl Decoder for Strict {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        match memchr::memmem::find(record.bytes, b"odd") {
            Some(_) => out.add_flaw(FlawKind::BadJson, record.span, "odd"),
            None => self.0.outline(record, out),
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        self.0.decode(record, out);
    }

    fn is_record(&self, object: &str) -> bool {
        self.0.is_record(object)
    }
}

fn repaired(lines: &[String]) -> (LineEdits, String) {
    let artifact = Artifact {
        session: Some(SessionId::new(SESSION).unwrap()),
        ..Artifact::new(ArtifactKind::SessionLog)
    };
    let bytes: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut reading = RepairReader::new(&ClaudeCode, &artifact);
    reading.decoder = Box::new(Strict(reading.decoder));
    let mut scanner = Scanner::new(bytes.as_bytes());
    while let Ok(Some(line)) = scanner.next() {
        reading.line(&record_from_line(&line));
    }
    let mut read =
        |span: Span| Ok(bytes.as_bytes()[span.offset as usize..][..span.len as usize].to_vec());
    let edits = reading
        .finish(&mut read, &mut || Ok(HashSet::new()))
        .unwrap();
    let result = String::from_utf8(edits.apply(bytes.as_bytes())).unwrap();
    (edits, result)
}

#[test]
fn undecodable_json_stays_and_its_children_are_not_orphans() {
    let lines = [
        line(1, 0, "one"),
        line(2, 1, "two"),
        line(3, 2, "odd"),
        line(4, 3, "four"),
        line(5, 99, "five"),
    ];
    let (edits, result) = repaired(&lines);
    let left: Vec<(u64, FlawKind)> = edits
        .unrepaired
        .iter()
        .map(|it| (it.line, it.kind))
        .collect();
    assert_eq!(left, [(3, FlawKind::BadJson)]);
    assert!(
        edits.unrepaired[0]
            .detail
            .contains("other programs may read")
    );
    let steps: Vec<(u64, Action)> = edits.steps.iter().map(|it| (it.line, it.action)).collect();
    assert_eq!(steps, [(5, Action::Relink)]);
    let mut wanted = lines.clone();
    wanted[4] = line(5, 4, "five");
    assert_eq!(result, wanted.join("\n") + "\n");
    assert!(edits.removed.is_empty());
}

#[test]
fn undecodable_line_without_id_disables_relinking() {
    let lines = [
        line(1, 0, "one"),
        "{\"odd\":true}".to_owned(),
        line(5, 99, "five"),
    ];
    let (edits, result) = repaired(&lines);
    assert_eq!(edits.steps, []);
    let left: Vec<(u64, FlawKind)> = edits
        .unrepaired
        .iter()
        .map(|it| (it.line, it.kind))
        .collect();
    assert_eq!(left, [(2, FlawKind::BadJson), (3, FlawKind::Orphan)]);
    assert_eq!(result, lines.join("\n") + "\n");
}

#[test]
fn line_that_is_not_json_is_removed() {
    let lines = [line(1, 0, "one"), "{\"odd\":".to_owned(), line(2, 1, "two")];
    let (edits, result) = repaired(&lines);
    assert_eq!(edits.unrepaired, []);
    assert_eq!(
        result,
        [&lines[0], &lines[2]].map(|it| format!("{it}\n")).concat()
    );
}
