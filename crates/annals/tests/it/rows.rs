//! Lists from the index: the same answer as without it, whatever happens to the files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use annals::cost::{Charge, PriceMode, Prices};
use annals::index::PartStatus;
use annals::model::ArtifactKind;
use annals::store::{Inventory, Root, Store};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{cases, copy_tree, index_warnings, indexed};

/// Formats everything that lists return, including errors.
fn reported(
    rows: Vec<annals::Result<annals::store::SessionInfo>>,
    talks: Vec<annals::Result<Vec<(annals::store::ConversationInfo, annals::cost::Tally)>>>,
) -> Vec<String> {
    let rows = rows.into_iter().map(|row| match row {
        Ok(row) => format!("{row:#?}"),
        Err(error) => error.to_string(),
    });
    let talks = talks.into_iter().map(|talks| match talks {
        Ok(talks) => format!("{talks:#?}"),
        Err(error) => error.to_string(),
    });
    rows.chain(talks).collect()
}

fn listed(store: &Store, inventory: &Inventory) -> Vec<String> {
    let prices = Prices::built_in();
    let price = |charge: &Charge| prices.cost(charge, PriceMode::Auto);
    let all: Vec<usize> = (0..inventory.sessions.len()).collect();
    reported(
        store.sessions(inventory).read(&|_, _| {}),
        store
            .sessions(inventory)
            .conversations(&all, &price, &|_, _| {}),
    )
}

/// Asserts that lists are the same with and without the index; returns the status of its session
/// rows.
fn same(store: &Store, state: &Path, what: &str) -> PartStatus {
    let inventory = store.inventory();
    let wanted = listed(store, &inventory);
    let index = indexed(store, state);
    for turn in ["first", "second"] {
        let found = listed(&index, &inventory);
        assert_eq!(found.len(), wanted.len(), "{what}, {turn} time");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted, "{what}, {turn} time");
        }
    }
    newest_are_the_first(&index, store, &inventory, what);
    let notices = index_warnings(&index);
    assert!(notices.is_empty(), "{what}: {notices:?}");
    known(&index)
}

/// Asserts that the newest sessions are the first rows of the whole list.
fn newest_are_the_first(index: &Store, store: &Store, inventory: &Inventory, what: &str) {
    let rows = store.sessions(inventory).read(&|_, _| {});
    let (rows, failed): (Vec<_>, Vec<_>) = rows.into_iter().partition(Result::is_ok);
    let mut rows: Vec<_> = rows.into_iter().flatten().collect();
    rows.sort_by_key(|row| (Reverse(row.updated), row.id.clone()));
    for limit in [0, 1, 3, rows.len() + 1] {
        let first = rows.iter().take(limit).map(|row| format!("{row:?}"));
        let failed = failed.iter().flat_map(|row| row.as_ref().err());
        let wanted: Vec<String> = first.chain(failed.map(ToString::to_string)).collect();
        for found in [
            index.sessions(inventory).newest(limit, &|_, _| {}),
            store.sessions(inventory).newest(limit, &|_, _| {}),
        ] {
            let found = found.into_iter().map(|row| match row {
                Ok(row) => format!("{row:?}"),
                Err(error) => error.to_string(),
            });
            let found: Vec<String> = found.collect();
            assert_eq!(found, wanted, "{what}, the first {limit}");
        }
    }
}

/// Returns the status of the session rows of a store with one root.
fn known(store: &Store) -> PartStatus {
    let status = store.index().unwrap().status(&store.inventory());
    let status = status.unwrap().unwrap();
    let mut parts = status.roots[0].parts.iter();
    *parts.find(|part| part.name == "sessions").unwrap()
}

/// Waits until changes give files new times: rows of files changed within the same tick are not
/// saved.
fn next_tick() {
    let begin = SystemTime::now();
    while begin.elapsed().unwrap_or_default() < Duration::from_millis(25) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn index_changes_no_row() {
    let state = tempfile::tempdir().unwrap();
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let name = format!("{} {}", case.layout.name(), case.name);
        let part = same(&store, state.path(), &name);
        assert_eq!((part.current, part.stale), (part.total, 0), "{name}");
    }
}

/// Rows depend on every file of a session.
#[test]
fn change_of_any_file_is_noticed() {
    // A few files per kind and layout: every change lists everything several times.
    const FEW: usize = 3;
    let mut used = 0;
    let mut seen: BTreeMap<(&str, ArtifactKind), usize> = BTreeMap::new();
    for case in cases() {
        let mut files = case.files();
        files.retain(|file| {
            let seen = seen
                .entry((case.layout.name(), file.artifact.kind))
                .or_default();
            // A session of a database is no file of its own.
            let is_small_file = file.id.len < 1 << 16 && file.path.is_file();
            *seen += usize::from(*seen < FEW && is_small_file);
            *seen < FEW && file.path.is_file()
        });
        if files.is_empty() {
            continue;
        }
        let copy = case.copy();
        let (store, state) = (copy.store(), copy.state());
        next_tick();
        same(&store, &state, &case.name);
        for file in files {
            let relative = file.path.strip_prefix(&case.path).unwrap();
            let path = match relative.as_os_str().is_empty() {
                true => copy.root.path.clone(),
                false => copy.root.path.join(relative),
            };
            let what = format!("{} {}", case.layout.name(), path.display());
            let bytes = fs::read(&path).unwrap();
            let aside = path.with_extension("aside");
            // Longer, shorter, replaced with the same length, removed, recreated under the same
            // name.
            let mut other = bytes.clone();
            other
                .iter_mut()
                .filter(|byte| **byte == b'e')
                .for_each(|byte| *byte = b'a');
            fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .unwrap()
                .write_all(
                    bytes
                        .split_inclusive(|byte| *byte == b'\n')
                        .next()
                        .unwrap_or(b"{}"),
                )
                .unwrap();
            used += same(&store, &state, &format!("{what} grew")).current;
            fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            used += same(&store, &state, &format!("{what} was cut")).current;
            fs::write(&aside, &other).unwrap();
            fs::rename(&aside, &path).unwrap();
            used += same(&store, &state, &format!("{what} was replaced")).current;
            fs::remove_file(&path).unwrap();
            used += same(&store, &state, &format!("{what} is gone")).current;
            fs::write(&path, &bytes).unwrap();
            used += same(&store, &state, &format!("{what} is back")).current;
        }
    }
    assert!(used > 100, "{used}");
}

/// The files of a random history: logs in two folders, sub-agents' logs, and other files.
const FILES: [&str; 9] = [
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "projects/-w/bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb.jsonl",
    "projects/-v/cccccccc-cccc-4ccc-8ccc-cccccccccccc.jsonl",
    "projects/-v/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.jsonl",
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/subagents/agent-a1.jsonl",
    "projects/-w/agent-a2.jsonl",
    "projects/-w/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa/subagents/agent-a1.meta.json",
    "todos/bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb-agent-bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb.json",
    "settings.json",
];

#[derive(Clone, Debug)]
enum Step {
    /// Appends a record to a log.
    Say(usize, Record),
    /// Truncates a file.
    Cut(usize, u8),
    /// Replaces one file by another.
    Replace(usize, usize),
    Rename(usize, usize),
    Remove(usize),
    /// Rewrites a document.
    Document(usize, u8),
    /// Changes bytes in place, with the same length.
    Alter(usize),
    /// Waits and lists.
    List,
}

#[derive(Clone, Debug)]
struct Record {
    kind: u8,
    id: u8,
    parent: u8,
    message: u8,
    whole: bool,
}

impl Record {
    fn line(&self, session: usize) -> String {
        let id = |n: u8| format!("{n:08x}-0000-4000-8000-000000000000");
        let session = ["a", "b", "c"][session % 3].repeat(8);
        let session = format!("{session}-0000-4000-8000-000000000000");
        let time = format!(
            "2026-03-{:02}T09:00:{:02}.000Z",
            1 + self.id % 9,
            self.id % 60
        );
        let cwd = ["/w", "/v", "/w/inner"][usize::from(self.message % 3)];
        let record = match self.kind {
            0 => {
                json!({"type": "summary", "summary": format!("about {}", self.message), "leafUuid": id(self.parent)})
            }
            1 => {
                json!({"type": "custom-title", "customTitle": format!("title {}", self.message), "sessionId": session})
            }
            2 | 3 => json!({
                "type": "user", "uuid": id(self.id), "parentUuid": id(self.parent), "sessionId": session,
                "timestamp": time, "cwd": cwd, "message": {"role": "user", "content": format!("do {}", self.message)},
            }),
            _ => json!({
                "type": "assistant", "uuid": id(self.id), "parentUuid": id(self.parent), "sessionId": session,
                "timestamp": time, "requestId": format!("r{}", self.message), "cwd": cwd,
                "message": {
                    "id": format!("m{}", self.message), "role": "assistant", "model": "claude-sonnet-4-5",
                    "content": [], "usage": {"input_tokens": 1, "output_tokens": self.id},
                },
            }),
        };
        format!("{record}{}", if self.whole { "\n" } else { "" })
    }
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..FILES.len();
    let record = (
        0..8u8,
        0..12u8,
        0..12u8,
        0..5u8,
        proptest::bool::weighted(0.9),
    )
        .prop_map(|(kind, id, parent, message, whole)| Record {
            kind,
            id,
            parent,
            message,
            whole,
        });
    prop_oneof![
        8 => (0..6usize, record).prop_map(|(file, record)| Step::Say(file, record)),
        1 => (file.clone(), any::<u8>()).prop_map(|(file, at)| Step::Cut(file, at)),
        1 => (0..6usize, 0..6usize).prop_map(|(from, to)| Step::Replace(from, to)),
        1 => (0..6usize, 0..6usize).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => file.clone().prop_map(Step::Remove),
        1 => (6..FILES.len(), 0..4u8).prop_map(|(file, what)| Step::Document(file, what)),
        1 => file.prop_map(Step::Alter),
        5 => Just(Step::List),
    ]
}

struct History {
    root: PathBuf,
    state: PathBuf,
}

impl History {
    fn at(dir: &Path) -> Self {
        let history = History {
            root: dir.join("root"),
            state: dir.join("state"),
        };
        for file in FILES {
            fs::create_dir_all(history.root.join(file).parent().unwrap()).unwrap();
        }
        history
    }

    fn store(&self) -> Store {
        Store::new(vec![Root::claude_code(&self.root)])
    }

    /// Performs a step; `None` if the file does not exist.
    fn take(&self, step: &Step) -> Option<()> {
        let path = |file: usize| self.root.join(FILES[file]);
        match step {
            Step::Say(file, record) => {
                let mut options = fs::OpenOptions::new();
                let mut log = options.append(true).create(true).open(path(*file)).ok()?;
                log.write_all(record.line(*file).as_bytes()).ok()
            }
            Step::Cut(file, at) => {
                let log = fs::OpenOptions::new().write(true).open(path(*file)).ok()?;
                let len = log.metadata().ok()?.len();
                log.set_len(len * u64::from(*at) / 256).ok()
            }
            Step::Replace(from, to) => {
                let copy = self.root.join("copy");
                fs::copy(path(*from), &copy).ok()?;
                fs::rename(copy, path(*to)).ok()
            }
            Step::Rename(from, to) => fs::rename(path(*from), path(*to)).ok(),
            Step::Remove(file) => fs::remove_file(path(*file)).ok(),
            Step::Document(file, what) => {
                let text = match file {
                    6 => json!({"agentType": format!("kind {what}"), "description": "d"}),
                    7 => json!([{"content": "c".repeat(usize::from(*what)), "status": "pending"}]),
                    _ => json!({"cleanupPeriodDays": what}),
                };
                fs::write(path(*file), text.to_string()).ok()
            }
            Step::Alter(file) => {
                let mut bytes = fs::read(path(*file)).ok()?;
                bytes
                    .iter_mut()
                    .filter(|byte| **byte == b'0')
                    .for_each(|byte| *byte = b'1');
                fs::write(path(*file), bytes).ok()
            }
            Step::List => {
                next_tick();
                same(&self.store(), &self.state, "a history");
                Some(())
            }
        }
    }
}

/// Few cases by default; `PROPTEST_CASES` sets the number.
fn few() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(24),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn random_history_lists_the_same_with_index(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let history = History::at(dir.path());
        for step in &steps {
            history.take(step);
        }
        same(&history.store(), &history.state, "in the end");
    }
}

/// Creates a history of some sessions with one reply each, and a state directory.
fn small(sessions: usize) -> (tempfile::TempDir, History) {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path());
    for number in 0..sessions {
        let name = format!("{number:08x}-0000-4000-8000-000000000000.jsonl");
        let log = history.root.join("projects/-w").join(name);
        let line = |kind: u8| {
            Record {
                kind,
                id: 2,
                parent: 1,
                message: 3,
                whole: true,
            }
            .line(0)
        };
        fs::write(log, line(2) + &line(7)).unwrap();
    }
    next_tick();
    (dir, history)
}

#[test]
fn removed_sessions_are_dropped_and_changed_ones_reread() {
    let (_dir, history) = small(9);
    let store = history.store();
    let part = same(&store, &history.state, "at first");
    assert_eq!((part.current, part.stale, part.total), (9, 0, 9));
    let log = |n: usize| {
        let name = format!("{n:08x}-0000-4000-8000-000000000000.jsonl");
        history.root.join("projects/-w").join(name)
    };
    fs::remove_file(log(4)).unwrap();
    let mut grown = fs::OpenOptions::new().append(true).open(log(5)).unwrap();
    grown.write_all(b"{}\n").unwrap();
    let part = known(&indexed(&store, &history.state));
    assert_eq!((part.current, part.stale, part.total), (7, 1, 8));
    next_tick();
    let part = same(&store, &history.state, "after that");
    assert_eq!((part.current, part.stale, part.total), (8, 0, 8));
    // The same directory in another layout, and another root, have separate rows.
    let other = tempfile::tempdir().unwrap();
    copy_tree(&history.root, other.path());
    let both = Store::new(vec![
        Root::claude_code(&history.root),
        Root::new("clog", &history.root).unwrap(),
        Root::claude_code(other.path()),
    ]);
    same(&both, &history.state, "several roots");
    let part = same(&store, &history.state, "one again");
    assert_eq!(part.current, 8);
}

/// Details from settings, other logs or attribution are not saved in a session's row.
#[test]
fn details_from_other_files_are_not_stored_in_rows() {
    let (_dir, history) = small(2);
    let store = history.store();
    same(&store, &history.state, "at first");
    for days in [1, 3000] {
        let settings = json!({"cleanupPeriodDays": days}).to_string();
        fs::write(history.root.join("settings.json"), settings).unwrap();
        let part = same(&store, &history.state, "settings");
        assert_eq!(part.current, 2);
    }
    let summary = Record {
        kind: 0,
        id: 0,
        parent: 2,
        message: 1,
        whole: true,
    };
    fs::write(history.root.join(FILES[0]), summary.line(0)).unwrap();
    same(&store, &history.state, "a summary elsewhere");
    let inventory = store.inventory();
    let index = indexed(&store, &history.state);
    let rows = index.sessions(&inventory).read(&|_, _| {});
    let titled = rows.iter().flatten().filter(|row| {
        let title = row.title.as_ref();
        title.is_some_and(|title| title.text == "about 1")
    });
    assert_eq!(titled.count(), 2);
}

/// Whichever byte of the database is wrong, the lists are correct.
#[test]
fn damaged_index_gives_the_same_lists() {
    let (_dir, history) = small(40);
    let store = history.store();
    same(&store, &history.state, "at first");
    let inventory = store.inventory();
    let wanted = listed(&store, &inventory);
    let path = database(&history.state);
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 97 + 1) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(&path, &damaged).unwrap();
        let found = listed(&indexed(&store, &history.state), &inventory);
        assert!(found == wanted, "byte {at}");
    }
}

/// Returns the path of the index database.
fn database(state: &Path) -> PathBuf {
    let store = Store::new(Vec::new()).with_state(state);
    let files = store.index().unwrap().files().unwrap().into_iter();
    let mut paths = files.map(|file| file.path);
    paths
        .find(|path| path.extension().is_some_and(|ending| ending == "db"))
        .unwrap()
}

/// Concurrent readers on growing logs: every answer is a consistent state, and the last is
/// complete.
#[test]
fn concurrent_lists_are_correct() {
    let (_dir, history) = small(30);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let history = &history;
            scope.spawn(move || {
                for turn in 0..12u8 {
                    let step = Record {
                        kind: 7,
                        id: turn,
                        parent: 1,
                        message: thread,
                        whole: true,
                    };
                    history.take(&Step::Say(usize::from(thread), step)).unwrap();
                    let store = history.store();
                    let inventory = store.inventory();
                    let index = indexed(&store, &history.state);
                    let rows = index.sessions(&inventory).read(&|_, _| {});
                    let rows: BTreeMap<_, _> = inventory
                        .sessions
                        .iter()
                        .zip(rows)
                        .map(|(files, row)| (files.main_path().to_owned(), row.unwrap()))
                        .collect();
                    let own = &rows[&history.root.join(FILES[usize::from(thread)])];
                    assert_eq!(own.entries, u64::from(turn) + 1);
                }
            });
        }
    });
    same(&history.store(), &history.state, "in the end");
}

#[test]
fn deleted_index_leaves_no_files() {
    let (_dir, history) = small(3);
    same(&history.store(), &history.state, "at first");
    let set_aside = database(&history.state).with_extension("db.unusable");
    fs::write(&set_aside, b"old").unwrap();
    fs::write(history.state.join("index-999.db"), b"newer").unwrap();
    fs::write(history.state.join("other"), b"not ours").unwrap();
    let store = indexed(&history.store(), &history.state);
    let dropped = store.index().unwrap().delete().unwrap();
    assert!(dropped.len() >= 3, "{dropped:?}");
    let left = fs::read_dir(&history.state).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["other"]);
    assert!(!store.index().unwrap().exists().unwrap());
    same(&history.store(), &history.state, "anew");
}

/// Returns why the index in a state directory is not used.
fn refusal(state: &Path) -> String {
    let store = Store::new(Vec::new()).with_state(state).with_index();
    let updated = store
        .index()
        .unwrap()
        .update(&store.inventory(), &|_, _, _| {});
    updated.unwrap_err().to_string()
}

/// Files that another user may have planted are not written through.
#[test]
fn index_refuses_links_and_directories_of_other_users() {
    use std::os::unix::fs::symlink;
    let (dir, history) = small(1);
    // A user's own link to an own directory is accepted.
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, &history.state).unwrap();
    same(&history.store(), &history.state, "behind a link");
    let path = database(&real);
    let name = path.file_name().unwrap();
    for ending in ["", "-wal", "-shm"] {
        let state = dir.path().join(format!("planted{ending}"));
        let precious = dir.path().join("precious");
        fs::write(&precious, b"").unwrap();
        fs::create_dir(&state).unwrap();
        let planted = state.join(format!("{}{ending}", name.to_str().unwrap()));
        symlink(&precious, &planted).unwrap();
        let error = refusal(&state);
        assert!(error.contains("is a symbolic link"), "{error}");
        assert_eq!(fs::read(&precious).unwrap(), b"");
    }
    // Only the superuser can create a directory of another user.
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    if std::os::unix::fs::chown(&foreign, Some(12_345), None).is_ok() {
        let error = refusal(&foreign);
        assert!(error.contains("belongs to another user"), "{error}");
        let link = dir.path().join("link");
        symlink(&real, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
        let error = refusal(&link);
        assert!(error.contains("symbolic link of another user"), "{error}");
        assert!(fs::read_dir(&foreign).unwrap().next().is_none());
    }
}
