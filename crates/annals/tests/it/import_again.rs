//! Repeating an interrupted import: it continues, and changes only sessions that it began.

use std::fs;
use std::path::{Path, PathBuf};

use annals::export::{
    ExportFile, ExportOptions, ExportPart, Exporter, Format, ImportOptions, Imported, Importer,
};
use annals::layout::NewSession;
use annals::model::{Block, Body, Draft, Message, Role, SessionId, TitleSource};
use annals::store::{Root, Session, Store, WriteOptions};
use tempfile::TempDir;

use crate::support::QUICK;

const IDS: [&str; 3] = [
    "11111111-16ca-47dd-b731-f4c264becc53",
    "22222222-16ca-47dd-b731-f4c264becc53",
    "33333333-16ca-47dd-b731-f4c264becc53",
];

struct Desk {
    dir: TempDir,
    store: Store,
    root: Root,
    exported: Vec<u8>,
}

impl Desk {
    /// Creates three exported sessions of two messages, and an empty root.
    fn new(layout: &str) -> Self {
        Desk::with_messages(layout, &[Draft::user("question"), Draft::user("and more")])
    }

    /// Creates three exported sessions with the same entries on one day, and an empty root.
    fn with_messages(layout: &str, said: &[Draft]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = Root::claude_code(dir.path().join("source"));
        let from = Store::new(vec![source.clone()]);
        let options = ExportOptions::new(Format::Jsonl);
        let mut exported = Vec::new();
        let mut exporter = Exporter::begin(options, None, &mut exported).unwrap();
        for id in IDS {
            let new = NewSession::new(SessionId::new(id).unwrap(), "/app");
            let write = WriteOptions {
                now: Some("2026-11-15T12:00:00Z".parse().unwrap()),
                ..QUICK
            };
            let writer = from.create(&source, &new, write).unwrap();
            for draft in said {
                writer.append(draft.clone()).unwrap();
            }
            drop(writer);
            let session = from.session(id).unwrap();
            exporter.session(&session, &ExportPart::Whole).unwrap();
        }
        exporter.finish().unwrap();
        let root = Root::new(layout, dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
        Desk {
            dir,
            store,
            root,
            exported,
        }
    }

    fn import(&self, most: usize) -> annals::Result<Vec<Imported>> {
        self.import_after_check(most, || {})
    }

    /// Imports, and runs `between` after the check and before the first session is written.
    fn import_after_check(
        &self,
        most: usize,
        between: impl FnOnce(),
    ) -> annals::Result<Vec<Imported>> {
        let options = ImportOptions {
            write: QUICK,
            ..ImportOptions::default()
        };
        let mut importer = Importer::new(&self.store, self.root.clone(), options)?;
        let archive = ExportFile::read(self.exported.as_slice(), "test")?;
        importer.check(&archive.read_contents()?)?;
        between();
        let mut imported = Vec::new();
        archive.each_session(|kept| {
            if imported.len() < most {
                imported.push(importer.session(kept)?);
            }
            Ok(())
        })?;
        if most >= IDS.len() {
            importer.finish()?;
        }
        Ok(imported)
    }

    fn journal(&self) -> Option<PathBuf> {
        let mut names = fs::read_dir(self.dir.path().join("state/imports")).ok()?;
        Some(names.next()?.unwrap().path())
    }

    /// Tears the last line of the journal: the import was killed while it wrote the line.
    fn tear_journal(&self) {
        let path = self.journal().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, &text[..text.len() - 3]).unwrap();
    }

    fn session(&self, at: usize) -> Session {
        let fitting = self.root.layout.writer().unwrap().valid_id(IDS[at]);
        self.store.session(&fitting).unwrap()
    }

    fn messages(&self, at: usize) -> usize {
        let all = self.session(at).messages(&Default::default());
        all.unwrap().len()
    }
}

/// Removes the last line of a log, as a kill would.
fn cut(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let last = lines.last().unwrap().len() as u64;
    file.set_len(text.len() as u64 - last).unwrap();
}

#[test]
fn second_run_resumes_an_interrupted_import() {
    for layout in ["claude-code", "chorus", "clog"] {
        let desk = Desk::new(layout);
        let first = desk.import(2).unwrap();
        cut(&first[1].path);
        assert!(desk.messages(1) < 2, "{layout}");
        desk.tear_journal();
        let whole = fs::read(&first[0].path).unwrap();
        let second = desk.import(3).unwrap();
        let reported: Vec<(bool, bool)> = second
            .iter()
            .map(|it| (it.already_imported, it.replaced))
            .collect();
        let wanted = [(true, false), (false, true), (false, false)];
        assert_eq!(reported, wanted, "{layout}");
        assert_eq!(fs::read(&first[0].path).unwrap(), whole, "{layout}");
        for at in 0..3 {
            assert_eq!(desk.messages(at), 2, "{layout} {at}");
        }
        // The incomplete session is in the trash, and no journal is left.
        assert_eq!(desk.store.trash().items().unwrap().len(), 1, "{layout}");
        assert_eq!(desk.journal(), None, "{layout}");
        let refused = desk.import(3).unwrap_err().to_string();
        assert!(refused.contains("already"), "{refused}");
        assert_eq!(desk.journal(), None, "{layout}");
    }
}

/// Another program replaced the log of the session that was being written.
#[test]
fn log_that_is_not_a_part_of_the_import_is_left_unchanged() {
    for layout in ["claude-code", "chorus", "clog"] {
        let desk = Desk::new(layout);
        let first = desk.import(2).unwrap();
        let path = &first[1].path;
        desk.tear_journal();
        let whole = fs::read_to_string(path).unwrap();
        let other = whole.replace("and more", "something else");
        assert_ne!(other, whole);
        fs::write(path, &other).unwrap();
        let refused = desk.import(3).unwrap_err().to_string();
        assert!(refused.contains("differs from the import"), "{refused}");
        assert_eq!(fs::read_to_string(path).unwrap(), other);
        assert!(desk.store.trash().items().unwrap().is_empty());
        // Once it is a part again, the import continues.
        fs::write(path, &whole[..whole.len() - 9]).unwrap();
        assert!(desk.import(3).unwrap()[1].replaced, "{layout}");
        assert_eq!(desk.messages(1), 2, "{layout}");
    }
}

/// The process was killed after it created the log.
#[test]
fn empty_log_of_the_interrupted_session_is_replaced() {
    let desk = Desk::new("claude-code");
    let first = desk.import(2).unwrap();
    desk.tear_journal();
    fs::write(&first[1].path, "").unwrap();
    let second = desk.import(3).unwrap();
    assert!(second[1].replaced);
    assert_eq!(desk.messages(1), 2);
}

/// The process was killed before it created the log.
#[test]
fn interrupted_session_without_a_log_is_imported() {
    let desk = Desk::new("claude-code");
    let first = desk.import(2).unwrap();
    fs::remove_file(&first[1].path).unwrap();
    let second = desk.import(3).unwrap();
    let reported: Vec<bool> = second.iter().map(|it| it.already_imported).collect();
    assert_eq!(reported, [true, false, false]);
    assert!(!second[1].replaced);
}

#[test]
fn interrupted_import_with_fresh_ids_keeps_the_ids() {
    let desk = Desk::new("claude-code");
    let import = |most: usize| {
        let options = ImportOptions {
            write: QUICK,
            fresh_ids: true,
        };
        let mut importer = Importer::new(&desk.store, desk.root.clone(), options).unwrap();
        let archive = ExportFile::read(desk.exported.as_slice(), "test").unwrap();
        importer.check(&archive.read_contents().unwrap()).unwrap();
        let mut ids = Vec::new();
        archive
            .each_session(|kept| {
                if ids.len() < most {
                    ids.push(importer.session(kept)?.session);
                }
                Ok(())
            })
            .unwrap();
        if most >= IDS.len() {
            importer.finish().unwrap();
        }
        ids
    };
    let first = import(2);
    let second = import(3);
    assert_eq!(second[..2], first);
    // A new import is another copy.
    let third = import(3);
    assert!(third.iter().all(|id| !second.contains(id)), "{third:?}");
    assert_eq!(desk.store.inventory().sessions.len(), 6);
}

/// The logs are in different folders, so the file system does not refuse the second one.
#[test]
fn a_session_that_began_after_the_check_is_not_imported_twice() {
    for layout in crate::support::writable_layouts() {
        let desk = Desk::new(layout.name());
        let begin_first = || {
            let id = layout.writer().unwrap().valid_id(IDS[0]);
            let new = NewSession::new(SessionId::new(&id).unwrap(), "/elsewhere");
            let writer = desk.store.create(&desk.root, &new, QUICK).unwrap();
            writer.append(Draft::user("of another process")).unwrap();
        };
        let refused = desk.import_after_check(3, begin_first).unwrap_err();
        assert!(refused.to_string().contains("already"), "{refused}");
        let sessions = desk.store.inventory().sessions;
        assert_eq!(sessions.len(), 1, "{}", layout.name());
    }
}

/// The user deleted an imported session and imports it again.
#[test]
fn session_deleted_since_is_imported_again() {
    let desk = Desk::new("claude-code");
    let first = desk.import(2).unwrap();
    fs::remove_file(&first[0].path).unwrap();
    let second = desk.import(3).unwrap();
    let reported: Vec<bool> = second.iter().map(|it| it.already_imported).collect();
    assert_eq!(reported, [false, true, false]);
    assert_eq!(desk.messages(0), 2);
}

#[test]
fn a_journal_of_another_version_is_refused_and_left() {
    let desk = Desk::new("claude-code");
    desk.import(1).unwrap();
    let path = desk.journal().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    fs::write(&path, &newer).unwrap();
    let refused = desk.import(3).unwrap_err().to_string();
    assert!(refused.contains("version 2"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

/// Returns a conversation with calls, whose results are one entry but several records with
/// generated ids; and a title.
fn long() -> Vec<Draft> {
    let call = |id: &str| Block::ToolUse {
        id: id.to_owned(),
        name: "Bash".to_owned(),
        input: r#"{"command":"ls"}"#.to_owned(),
    };
    let text = Block::Text("I look".to_owned());
    let reply = Message::new(
        Role::Assistant,
        vec![text, call("toolu_1"), call("toolu_2")],
    );
    let result = |call: &str| Block::ToolResult {
        call: call.to_owned(),
        output: vec![Block::Text("a.txt".to_owned())],
        is_error: false,
    };
    let results = Message::new(Role::User, vec![result("toolu_1"), result("toolu_2")]);
    let title = Body::Title {
        text: "Looking".to_owned(),
        source: TitleSource::Custom,
    };
    vec![
        Draft::user("question"),
        Draft::new(Body::Message(reply)),
        Draft::new(Body::Message(results)),
        Draft::new(title),
        Draft::user("and more"),
    ]
}

/// Replaces ids by their order of appearance: generated ids differ between runs.
fn in_turn(text: &str) -> String {
    let mut seen: Vec<String> = Vec::new();
    let parts = text.split('"').map(|part| {
        let digits = part.strip_prefix("msg_").unwrap_or(part);
        if digits.len() < 32 || !digits.chars().all(|it| it.is_ascii_hexdigit() || it == '-') {
            return part.to_owned();
        }
        let at = seen.iter().position(|known| known == part);
        let at = at.unwrap_or_else(|| {
            seen.push(part.to_owned());
            seen.len() - 1
        });
        format!("id {at}")
    });
    parts.collect::<Vec<_>>().join("\"")
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// A shared log holds other sessions' records, so it cannot be moved to the trash.
#[test]
fn shared_log_import_appends_the_missing_records() {
    let whole = Desk::with_messages("orchestrator", &long());
    let path = whole.import(3).unwrap()[0].path.clone();
    let whole = fs::read_to_string(path).unwrap();
    let each = lines(&whole).len() / 3;
    assert_eq!(each, 8, "{whole}");
    for gone in 0..each {
        let desk = Desk::with_messages("orchestrator", &long());
        let first = desk.import(2).unwrap();
        let path = &first[1].path;
        assert_eq!(*path, first[0].path);
        let before = fs::read_to_string(path).unwrap();
        let kept = lines(&before)[..2 * each - gone].concat();
        fs::write(path, &kept).unwrap();
        desk.tear_journal();
        let second = desk.import(3).unwrap();
        let reported = (
            second[1].already_imported,
            second[1].continued,
            second[1].replaced,
        );
        assert_eq!(reported, (gone == 0, gone > 0, false), "{gone}");
        let after = fs::read_to_string(path).unwrap();
        assert!(after.starts_with(&kept), "{gone}");
        assert_eq!(in_turn(&after).len(), in_turn(&whole).len(), "{gone}");
        let own = |at: usize| in_turn(&lines(&after)[at * each..(at + 1) * each].concat());
        for (at, id) in IDS.iter().enumerate().skip(1) {
            let wanted = own(0).replace(IDS[0], id);
            assert_eq!(own(at), wanted, "{gone}");
            assert_eq!(desk.session(at).title().unwrap().text, "Looking", "{gone}");
        }
        assert!(desk.store.trash().items().unwrap().is_empty());
        assert_eq!(desk.journal(), None, "{gone}");
    }
}

#[test]
fn shared_log_import_ignores_a_partial_line() {
    let desk = Desk::new("orchestrator");
    let first = desk.import(2).unwrap();
    let path = &first[1].path;
    let before = fs::read(path).unwrap();
    fs::write(path, &before[..before.len() - 9]).unwrap();
    desk.tear_journal();
    let second = desk.import(3).unwrap();
    assert!(second[1].continued);
    for at in 0..3 {
        assert_eq!(desk.messages(at), 2, "{at}");
    }
}

#[test]
fn shared_log_import_refuses_changed_records() {
    let desk = Desk::new("orchestrator");
    let first = desk.import(2).unwrap();
    let path = &first[1].path;
    // Someone appended to it or changed it.
    let before = fs::read_to_string(path).unwrap();
    let last = *lines(&before).last().unwrap();
    desk.tear_journal();
    let more = last.replace("and more", "something else");
    let changed = before.strip_suffix(last).unwrap().to_owned() + &more;
    for other in [before.clone() + &more, changed] {
        fs::write(path, &other).unwrap();
        let refused = desk.import(3).unwrap_err().to_string();
        assert!(refused.contains("differs from the import"), "{refused}");
        assert!(refused.contains(IDS[1]), "{refused}");
        assert_eq!(fs::read_to_string(path).unwrap(), other);
    }
    fs::write(path, &before).unwrap();
    assert!(desk.import(3).unwrap()[1].already_imported);
}
