//! Repeating an import: it completes what an interrupted one began, and changes no other session.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use annals::convert::{ExportSource, ImportOptions, Imported, Importer};
use annals::export::{ExportOptions, ExportPart, Exporter, Format};
use annals::layout::{Layout, NewSession};
use annals::model::{Block, Body, Draft, Message, Role, SessionId, TitleSource, Todo};
use annals::store::{Root, Session, Store, WriteOptions};
use tempfile::TempDir;

use crate::support::{QUICK, writable_layouts};

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
    /// Length of the first two sessions in it.
    two: usize,
}

impl Desk {
    /// Creates three exported sessions with the same entries on one day, and an empty root.
    fn new(layout: &str) -> Self {
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
            for draft in long() {
                writer.append(draft).unwrap();
            }
            writer.set_todos(&[Todo::pending("ship")]).unwrap();
            drop(writer);
            let session = from.session(id).unwrap();
            exporter.session(&session, &ExportPart::Whole).unwrap();
        }
        exporter.finish().unwrap();
        let text = String::from_utf8(exported.clone()).unwrap();
        let heads = text.match_indices("{\"type\":\"session\"");
        let two = heads.map(|(at, _)| at).nth(2).unwrap();
        let root = Root::new(layout, dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
        Desk {
            dir,
            store,
            root,
            exported,
            two,
        }
    }

    fn import(&self) -> annals::Result<Vec<Imported>> {
        self.import_with(ImportOptions::default())
    }

    fn import_with(&self, options: ImportOptions) -> annals::Result<Vec<Imported>> {
        let importer = Importer::new(&self.store, self.root.clone(), options)?;
        let source = ExportSource::read(self.exported.as_slice(), "test")?;
        importer.run(&source, &source.read_contents()?)
    }

    /// Every file of the root with its content.
    fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut tree = BTreeMap::new();
        let mut pending = vec![self.root.path.clone()];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => pending.push(path),
                    false => _ = tree.insert(path.clone(), fs::read(path).unwrap()),
                }
            }
        }
        tree
    }

    fn session(&self, at: usize) -> Session {
        let id = self.root.layout.writer().unwrap().valid_id(IDS[at]);
        self.store.session(&id).unwrap()
    }

    fn messages(&self, at: usize) -> usize {
        self.session(at)
            .messages(&Default::default())
            .unwrap()
            .len()
    }
}

/// Returns a conversation with calls, whose results are one entry but several records; and a title.
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

/// Layouts whose sessions have logs of their own.
fn own_logs() -> impl Iterator<Item = &'static dyn Layout> {
    writable_layouts().filter(|layout| layout.name() != "orchestrator")
}

#[test]
fn second_import_changes_nothing() {
    for layout in writable_layouts() {
        let name = layout.name();
        let desk = Desk::new(name);
        let first = desk.import().unwrap();
        assert!(
            first
                .iter()
                .all(|it| !it.already_imported && it.entries > 0),
            "{name}"
        );
        let before = desk.tree();
        let messages: Vec<usize> = (0..3).map(|at| desk.messages(at)).collect();
        assert!(
            messages.iter().all(|count| *count >= 4),
            "{name} {messages:?}"
        );
        for at in 0..3 {
            let session = desk.session(at);
            assert_eq!(session.title().unwrap().text, "Looking", "{name}");
            let todos = session.todos().unwrap();
            assert_eq!(todos[0].1, [Todo::pending("ship")], "{name}");
        }
        let second = desk.import().unwrap();
        assert!(second.iter().all(|it| it.already_imported), "{name}");
        assert!(desk.tree() == before, "{name}");
    }
}

/// The process was killed while it renamed the files: the main log is the last file of a session.
#[test]
fn second_run_completes_an_interrupted_import() {
    for layout in own_logs() {
        let name = layout.name();
        let desk = Desk::new(name);
        let whole = desk.import().unwrap();
        let before = desk.tree();
        for gone in &whole[1..] {
            fs::remove_file(&gone.path).unwrap();
        }
        let stage = desk.root.path.join(".annals-convert");
        fs::create_dir(&stage).unwrap();
        fs::write(stage.join("0"), "left").unwrap();
        let second = desk.import().unwrap();
        let already: Vec<bool> = second.iter().map(|it| it.already_imported).collect();
        assert_eq!(already, [true, false, false], "{name}");
        let lists = |path: &Path| path.extension().is_none_or(|ending| ending != "jsonl");
        let logs = |mut tree: BTreeMap<PathBuf, Vec<u8>>| {
            tree.retain(|path, _| !lists(path));
            tree
        };
        assert!(logs(desk.tree()) == logs(before), "{name}");
        assert!(!stage.exists(), "{name}");
    }
}

#[test]
fn session_that_went_on_since_is_left_as_it_is() {
    for layout in writable_layouts() {
        let name = layout.name();
        let desk = Desk::new(name);
        let id = desk.import().unwrap()[1].session.clone();
        let files = desk.session(1).files;
        assert_eq!(files.id, id, "{name}");
        let writer = desk.store.open_writer(&files, QUICK).unwrap();
        writer.append(Draft::user("went on")).unwrap();
        writer.retitle("Another").unwrap();
        drop(writer);
        let before = desk.tree();
        let second = desk.import().unwrap();
        assert!(second.iter().all(|it| it.already_imported), "{name}");
        assert_eq!(desk.session(1).title().unwrap().text, "Another", "{name}");
        assert!(desk.tree() == before, "{name}");
    }
}

/// Nothing is imported if one of the sessions is another one.
#[test]
fn other_session_with_the_same_id_refuses_the_import() {
    for layout in writable_layouts() {
        let name = layout.name();
        for cwd in ["/app", "/elsewhere"] {
            let desk = Desk::new(name);
            let id = layout.writer().unwrap().valid_id(IDS[1]);
            let new = NewSession::new(SessionId::new(&id).unwrap(), cwd);
            let write = WriteOptions {
                now: Some("2026-11-15T12:00:00Z".parse().unwrap()),
                ..QUICK
            };
            let writer = desk.store.create(&desk.root, &new, write).unwrap();
            writer.append(Draft::user("of another process")).unwrap();
            drop(writer);
            let before = desk.tree();
            let refused = desk.import().unwrap_err().to_string();
            assert!(refused.contains("already exists"), "{name}: {refused}");
            assert!(desk.tree() == before, "{name}");
        }
    }
}

#[test]
fn session_of_another_root_refuses_the_import() {
    let mut desk = Desk::new("claude-code");
    let source = Root::claude_code(desk.dir.path().join("source"));
    desk.store = Store::new(vec![source, desk.root.clone()]);
    let refused = desk.import().unwrap_err().to_string();
    assert!(refused.contains("already exists"), "{refused}");
    assert!(!desk.root.path.exists());
}

#[test]
fn interrupted_import_with_fresh_ids_keeps_the_ids() {
    let fresh = || ImportOptions {
        fresh_ids: true,
        ..ImportOptions::default()
    };
    for layout in own_logs() {
        let name = layout.name();
        let desk = Desk::new(name);
        let ids = |imported: &[Imported]| -> Vec<SessionId> {
            imported.iter().map(|it| it.session.clone()).collect()
        };
        let first = desk.import_with(fresh()).unwrap();
        fs::remove_file(&first[2].path).unwrap();
        let second = desk.import_with(fresh()).unwrap();
        assert_eq!(ids(&second), ids(&first), "{name}");
        let already: Vec<bool> = second.iter().map(|it| it.already_imported).collect();
        assert_eq!(already, [true, true, false], "{name}");
        // A new import is another copy.
        let third = desk.import_with(fresh()).unwrap();
        assert!(
            third.iter().all(|it| !ids(&first).contains(&it.session)),
            "{name}"
        );
        assert_eq!(desk.store.inventory().sessions.len(), 6, "{name}");
    }
}

/// Only prompts have a source in records that annals writes, but the orchestrator's own replies have one.
#[test]
fn messages_with_a_member_that_is_refused_are_imported_without_it() {
    let mut cases = crate::support::cases().into_iter();
    let case = cases
        .find(|case| case.layout.name() == "orchestrator" && case.name == "sub-agent")
        .unwrap();
    let session = Session::read(case.sessions().remove(0)).unwrap();
    let mut desk = Desk::new("orchestrator");
    desk.exported.clear();
    let options = ExportOptions::new(Format::Jsonl);
    let mut exporter = Exporter::begin(options, None, &mut desk.exported).unwrap();
    exporter.session(&session, &ExportPart::Whole).unwrap();
    exporter.finish().unwrap();
    let options = ImportOptions {
        fresh_ids: true,
        ..ImportOptions::default()
    };
    let imported = desk.import_with(options).unwrap().remove(0);
    let copy = desk.store.session(imported.session.as_str()).unwrap();
    let count = |session: &Session| session.messages(&Default::default()).unwrap().len();
    assert_eq!(count(&session), 6);
    assert_eq!(count(&copy), 6);
    let left_out = &imported.left_out;
    assert!(!left_out.contains_key("message"), "{left_out:?}");
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The process was killed between or within the lines of a session.
#[test]
fn shared_log_import_appends_the_missing_records() {
    let whole = Desk::new("orchestrator");
    let path = whole.import().unwrap()[0].path.clone();
    let whole = fs::read_to_string(path).unwrap();
    let each = lines(&whole).len() / 3;
    for gone in 0..=each {
        for torn in ["", "{\"type\":\"us"] {
            let mut desk = Desk::new("orchestrator");
            let all = desk.exported.clone();
            desk.exported.truncate(desk.two);
            let path = desk.import().unwrap()[1].path.clone();
            desk.exported = all;
            let kept = lines(&whole)[..2 * each - gone].concat();
            fs::write(&path, kept.clone() + torn).unwrap();
            let second = desk.import();
            if gone == each && !torn.is_empty() {
                // The companion has a record of the session without its place in the log.
                let refused = second.unwrap_err().to_string();
                assert!(refused.contains("already exists"), "{refused}");
                continue;
            }
            let second = second.unwrap();
            let done = (second[1].already_imported, second[1].continued);
            assert_eq!(done, (gone == 0, gone > 0 && gone < each), "{gone}");
            let after = fs::read_to_string(&path).unwrap();
            assert!(after.starts_with(&kept), "{gone}");
            let is_whole = |line: &&str| torn.is_empty() || line.trim_end_matches('\n') != torn;
            let count = lines(&after).into_iter().filter(is_whole).count();
            assert_eq!(count, lines(&whole).len(), "{gone} {torn}");
            for at in 0..3 {
                assert_eq!(desk.session(at).title().unwrap().text, "Looking", "{gone}");
            }
        }
    }
}

/// A log with one session whose lines are appended.
#[test]
fn interrupted_import_of_codex_appends_the_missing_lines() {
    let desk = Desk::new("codex");
    let path = desk.import().unwrap()[1].path.clone();
    let whole = fs::read_to_string(&path).unwrap();
    let all = lines(&whole);
    assert!(all.len() > 5, "{}", all.len());
    for kept in 0..=all.len() {
        fs::write(&path, all[..kept].concat()).unwrap();
        let second = desk.import().unwrap();
        let done = (second[1].already_imported, second[1].continued);
        assert_eq!(
            done,
            (kept == all.len(), kept > 0 && kept < all.len()),
            "{kept}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{kept}");
    }
    let other = whole.replacen("and more", "something else", 1);
    fs::write(&path, &other).unwrap();
    let refused = desk.import().unwrap_err().to_string();
    assert!(refused.contains("already exists"), "{refused}");
    assert_eq!(fs::read_to_string(path).unwrap(), other);
}

#[test]
fn shared_log_import_refuses_changed_records() {
    let desk = Desk::new("orchestrator");
    let path = desk.import().unwrap()[1].path.clone();
    let before = fs::read_to_string(&path).unwrap();
    let other = before.replacen("and more", "something else", 2);
    fs::write(&path, &other).unwrap();
    let refused = desk.import().unwrap_err().to_string();
    assert!(refused.contains("already exists"), "{refused}");
    assert_eq!(fs::read_to_string(path).unwrap(), other);
}
