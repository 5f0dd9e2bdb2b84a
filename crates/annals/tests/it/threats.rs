//! Attacks on the library, one for each line of docs/THREATS.md that concerns it.
//! `law_8_nothing_outside` covers ids and links in roots.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use annals::export::{ExportOptions, ExportPart, Exporter, Format};
use annals::layout::NewSession;
use annals::model::{Draft, SessionId, Todo};
use annals::store::{Root, Session, SessionFiles, Store};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{QUICK, picture, writable_layouts};

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

struct Place {
    dir: tempfile::TempDir,
    root: Root,
    store: Store,
}

impl Place {
    fn new(layout: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout, dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
        let new = NewSession::new(SessionId::new(ID).unwrap(), "/home/dev/w");
        let writer = store.create(&root, &new, QUICK).unwrap();
        writer.append(Draft::user("a question")).unwrap();
        writer.set_todos(&[Todo::pending("x")]).unwrap();
        Place { dir, root, store }
    }

    fn files(&self) -> SessionFiles {
        self.store.inventory().sessions.remove(0)
    }

    fn trash(&self) -> PathBuf {
        self.dir.path().join("state/undo")
    }

    /// Returns everything except the root and the state.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut all = picture(self.dir.path());
        all.retain(|path, _| !path.starts_with("root") && !path.starts_with("state"));
        all
    }
}

/// Paths that a manifest must not lead to, in any member.
const PATHS: [&str; 12] = [
    "../outside/keep.jsonl",
    "../../outside/keep.jsonl",
    "/etc/passwd",
    "projects/../../outside/keep.jsonl",
    "./../outside",
    "..",
    ".",
    "",
    "projects/-w/\0.jsonl",
    "..%2f..%2foutside",
    "CON",
    "projects\\..\\..\\outside",
];

#[test]
fn manifest_members_cannot_leave_the_root() {
    for layout in writable_layouts() {
        let place = Place::new(layout.name());
        fs::create_dir(place.dir.path().join("outside")).unwrap();
        fs::write(place.dir.path().join("outside/keep.jsonl"), "{}\n").unwrap();
        let gone = place
            .store
            .trash()
            .move_in(&place.files(), Timestamp::UNIX_EPOCH)
            .unwrap();
        let manifest = place.trash().join(&gone.id).join("manifest.json");
        let good: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        let before = place.outside();
        let trash = picture(&place.trash());
        // The rules are the same for all layouts, only classification differs; a few paths suffice.
        let paths = match layout.name() {
            "claude-code" => &PATHS[..],
            _ => &PATHS[..3],
        };
        for path in paths {
            for (member, value) in [
                ("files", json!([{"path": path, "bytes": 1}])),
                ("dirs", json!([{"path": path, "mode": 0o777}])),
                (
                    "dirs",
                    json!([{"path": format!("projects/{path}/x"), "mode": 0o777}]),
                ),
                ("rows", json!([{"path": path, "text": "{}"}])),
                ("id", (*path).into()),
                ("sessions", json!([path, path])),
                ("layout", (*path).into()),
            ] {
                let mut bad = good.clone();
                bad[member] = value;
                // An invalid file path, so that undelete fails and the files stay in the trash.
                bad["files"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"path": "../x", "bytes": 1}));
                fs::write(&manifest, bad.to_string()).unwrap();
                let _ = place.store.trash().items();
                let _ = place.store.trash().sessions();
                let _ = place.store.trash().contents();
                let _ = place.store.retention().finish();
                let back = place.store.trash().restore(&gone.id);
                assert!(back.is_err(), "{bad}");
                assert_eq!(place.outside(), before, "{bad}");
                // Files that were restored anyway are deleted again.
                fs::write(&manifest, good.to_string()).unwrap();
                if picture(&place.trash()).len() != trash.len() {
                    place.store.trash().restore(&gone.id).unwrap();
                    let again = place
                        .store
                        .trash()
                        .move_in(&place.files(), Timestamp::UNIX_EPOCH)
                        .unwrap();
                    assert_eq!(again.id, gone.id);
                }
            }
        }
        fs::write(&manifest, good.to_string()).unwrap();
        place.store.trash().restore(&gone.id).unwrap();
        assert_eq!(place.store.inventory().sessions.len(), 1);
    }
}

#[test]
fn files_behind_links_in_the_trash_stay() {
    type Link = fn(&Path) -> PathBuf;
    let kinds: [(&str, Link); 4] = [
        ("the trash", |folder| folder.parent().unwrap().to_owned()),
        ("a folder", Path::to_owned),
        ("its files", |folder| folder.join("files")),
        ("a directory of them", |folder| {
            let inner = fs::read_dir(folder.join("files")).unwrap();
            inner.flatten().next().unwrap().path()
        }),
    ];
    for layout in writable_layouts() {
        for (what, link) in &kinds {
            let place = Place::new(layout.name());
            let gone = place
                .store
                .trash()
                .move_in(&place.files(), Timestamp::UNIX_EPOCH)
                .unwrap();
            let link = link(&place.trash().join(&gone.id));
            let outside = place.dir.path().join("outside");
            let look = place.store.trash().contents().unwrap();
            fs::rename(&link, &outside).unwrap();
            symlink(&outside, &link).unwrap();
            let before = place.outside();
            assert!(place.store.trash().restore(ID).is_err(), "{what}");
            assert_eq!(place.outside(), before, "{what}");
            let _ = place.store.retention().finish();
            let _ = place.store.trash().contents();
            // The purge may remove the link, not its target.
            let _ = place.store.trash().purge(&look.purgeable[0]);
            assert_eq!(place.outside(), before, "{what}");
            // Parts of the previous session may be restored.
            let other = SessionId::new(&ID.replace('a', "b")).unwrap();
            let new = NewSession::new(other, "/home/dev/w");
            place.store.create(&place.root, &new, QUICK).unwrap();
            let _ = place
                .store
                .trash()
                .move_in(&place.files(), Timestamp::UNIX_EPOCH);
            assert_eq!(place.outside(), before, "{what}");
        }
    }
}

/// A file replaced by a link after it was inspected is not deleted.
#[test]
fn log_replaced_by_a_link_is_not_deleted() {
    for layout in writable_layouts() {
        let place = Place::new(layout.name());
        let files = place.files();
        let outside = place.dir.path().join("outside.jsonl");
        let log = files.main_path().to_owned();
        fs::rename(&log, &outside).unwrap();
        symlink(&outside, &log).unwrap();
        let before = place.outside();
        assert!(
            place
                .store
                .trash()
                .move_in(&files, Timestamp::UNIX_EPOCH)
                .is_err()
        );
        assert_eq!(place.outside(), before, "{}", layout.name());
        assert!(log.is_symlink());
        // Nor is a file with another inode.
        fs::remove_file(&log).unwrap();
        fs::hard_link(&outside, &log).unwrap();
        fs::write(&outside, "changed\n").unwrap();
        assert!(
            place
                .store
                .trash()
                .move_in(&files, Timestamp::UNIX_EPOCH)
                .is_err()
        );
        assert!(log.exists());
    }
}

#[test]
fn all_created_files_are_private() {
    for layout in writable_layouts() {
        let place = Place::new(layout.name());
        let files = place.files();
        place
            .store
            .retention()
            .pin(&[&files], Timestamp::UNIX_EPOCH)
            .unwrap();
        let check = || {
            for path in picture(place.dir.path()).into_keys() {
                let path = place.dir.path().join(path);
                let mode = path.metadata().unwrap().mode() & 0o777;
                let wanted = if path.is_dir() { 0o700 } else { 0o600 };
                assert_eq!(mode, wanted, "{}", path.display());
            }
        };
        check();
        let gone = place
            .store
            .trash()
            .move_in(&files, Timestamp::UNIX_EPOCH)
            .unwrap();
        check();
        place.store.trash().restore(&gone.id).unwrap();
        check();
    }
}

/// Returns deeply nested, long or malformed lines for the log of every layout.
fn bombs() -> Vec<String> {
    let deep = 200_000;
    let mut bombs = vec![
        "[".repeat(deep),
        "{\"a\":".repeat(deep),
        format!("{}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("{}1{}", "{\"message\":".repeat(deep), "}".repeat(deep)),
        "\"".repeat(deep),
        "\\".repeat(deep),
        format!("{{\"type\":\"{}\"}}", "t".repeat(1 << 20)),
        format!("{{\"{}\":1}}", "k".repeat(1 << 20)),
        "-1e99999999".to_owned(),
        format!("{{\"type\":\"user\",\"timestamp\":{}}}", "9".repeat(400)),
        format!(
            "{{\"type\":\"user\",\"timestamp\":\"{}\"}}",
            "9".repeat(1 << 16)
        ),
        "{\"type\":\"user\",\"message\":{\"usage\":{\"input_tokens\":-1}}}".to_owned(),
    ];
    let wrap = |inner: &str| {
        format!(
            "{{\"type\":\"assistant\",\"role\":\"assistant\",\"id\":\"x\",\"uuid\":\"x\",\"sessionId\":\"{ID}\",\"content\":{inner},\"message\":{{\"role\":\"assistant\",\"content\":{inner},\"usage\":{{\"input_tokens\":18446744073709551615,\"output_tokens\":-3}}}}}}"
        )
    };
    bombs.push(wrap(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))));
    bombs.push(wrap(&format!("\"{}\"", "\\u0000".repeat(10_000))));
    bombs.push(wrap(&format!("[{}0]", "{},".repeat(20_000))));
    bombs
}

/// Runs in a thread with a small stack, so that recursion overflows it.
#[test]
fn hostile_lines_overflow_no_layout() {
    for layout in writable_layouts() {
        let look = move || {
            let place = Place::new(layout.name());
            let log = place.files().main_path().to_owned();
            let mut bytes = fs::read(&log).unwrap();
            for bomb in bombs() {
                bytes.extend_from_slice(bomb.as_bytes());
                bytes.push(b'\n');
            }
            fs::write(&log, bytes).unwrap();
            let files = place.files();
            let session = Session::read(files.clone()).unwrap();
            let info = session.info(None);
            assert!(info.messages >= 1, "{}", layout.name());
            // Lines that name no session may belong to another session of the same log.
            let all = place.store.inventory().sessions.into_iter();
            let flaws = all.map(|files| Session::read(files).unwrap().info(None).flaws);
            assert!(flaws.sum::<usize>() > 0, "{}", layout.name());
            session.conversations();
            let _ = session.todos();
            for at in 0..session.logs[0].outlines.len() {
                let _ = session.entry_id(at);
            }
            for format in [Format::Markdown, Format::Html, Format::Json] {
                let mut out = Vec::new();
                let options = ExportOptions::new(format).redact(false);
                let mut exporter = Exporter::begin(options, None, &mut out).unwrap();
                exporter.session(&session, &ExportPart::Whole).unwrap();
                exporter.finish().unwrap();
            }
            let all = place.store.inventory().sessions;
            let others: Vec<&SessionFiles> = all.iter().filter(|it| it.id != files.id).collect();
            let gone = place
                .store
                .trash()
                .move_group_in(&files, &others, Timestamp::UNIX_EPOCH);
            let gone = gone.unwrap();
            place.store.trash().restore(&gone.id).unwrap();
        };
        let thread = thread::Builder::new().stack_size(512 << 10).spawn(look);
        thread.unwrap().join().unwrap();
    }
}
