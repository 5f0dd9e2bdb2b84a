//! Writing next to other programs, on damaged logs, under refusals; deletion and undelete.

mod agents;
mod client;
mod end;
pub(crate) mod held;
mod new_id;
mod no_id;
mod totals;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use annals::Error;
use annals::jsonl::Error as FileError;
use annals::layout::{ForkEdit, ForkParent, NewSession};
use annals::model::{Block, Body, Draft, Entry, EntryId, SessionId, Todo};
use annals::store::{Root, RootFile, Session, SessionFiles, SessionWriter, Store, WriteOptions};
use jiff::Timestamp;

use crate::support::{
    QUICK, case, cases, conversations, paths, picture, underived, writable_cases,
};

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

struct Fresh {
    dir: tempfile::TempDir,
    store: Store,
    writer: SessionWriter,
}

fn fresh() -> Fresh {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("claude-code", dir.path().join("root")).unwrap();
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
    let new = NewSession::new(SessionId::new(ID).unwrap(), "/home/dev/w");
    let writer = store.create(&root, &new, QUICK).unwrap();
    Fresh { dir, store, writer }
}

impl Fresh {
    fn files(&self) -> SessionFiles {
        self.store.inventory().sessions.remove(0)
    }

    fn read(&self) -> Session {
        Session::read(self.files()).unwrap()
    }

    fn second(&self) -> SessionWriter {
        self.store.open_writer(&self.files(), QUICK).unwrap()
    }
}

fn id(entry: &Entry) -> EntryId {
    entry.id.clone().unwrap()
}

/// Returns a line as the real client writes it.
fn foreign(n: usize, parent: Option<&EntryId>, time: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"type":"user","uuid":"{n:08x}-ffff-4000-8000-000000000000","timestamp":"{time}","sessionId":"{ID}","cwd":"/home/dev/w","version":"2.1.325","entrypoint":"cli","message":{{"role":"user","content":"foreign {n}"}}}}"#
    ) + "\n"
}

fn foreign_id(n: usize) -> EntryId {
    EntryId::new(&format!("{n:08x}-ffff-4000-8000-000000000000"))
}

fn write_raw(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn concurrent_appends_form_one_chain() {
    const EACH: usize = 25;
    let fresh = fresh();
    let other = fresh.second();
    let start = Barrier::new(10);
    thread::scope(|scope| {
        for worker in 0..10 {
            let (start, writer) = (&start, if worker < 8 { &fresh.writer } else { &other });
            scope.spawn(move || {
                start.wait();
                for n in 0..EACH {
                    let drafts = vec![
                        Draft::user(format!("{worker}-{n}")),
                        Draft::assistant(vec![
                            Block::Text("a".to_owned()),
                            Block::Text(format!("{worker}-{n} answered")),
                        ]),
                    ];
                    assert_eq!(writer.append_all(drafts).unwrap().len(), 3);
                }
            });
        }
    });
    let session = fresh.read();
    assert_eq!(session.flaws().count(), 0);
    let said = conversations(&session);
    assert_eq!(said.len(), 1, "each append hangs from the one before it");
    assert_eq!(said[0].len(), 10 * EACH * 3);
    let unique: BTreeSet<&String> = said[0].iter().filter(|text| *text != "a").collect();
    assert_eq!(unique.len(), 10 * EACH * 2, "each is there once");
    // A prompt and its answer are one write, so nothing comes between them.
    for three in said[0].chunks(3) {
        assert_eq!(three[2], format!("{} answered", three[0]));
    }
    assert_strictly_later(&session);
}

/// Older clients resume at the newest line and take the first of equals.
fn assert_strictly_later(session: &Session) {
    let (_, scan, _) = session.main_log().unwrap();
    let times: Vec<Timestamp> = scan
        .outlines
        .iter()
        .filter(|outline| outline.key.is_some())
        .map(|outline| outline.time.unwrap())
        .collect();
    for pair in times.windows(2) {
        assert!(
            pair[1].as_millisecond() > pair[0].as_millisecond(),
            "{pair:?}"
        );
    }
}

#[test]
fn appended_time_is_later_than_any_before() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("now")).unwrap();
    let leaf = fresh.writer.leaf().unwrap();
    write_raw(
        &fresh.writer.path(),
        foreign(1, Some(&leaf), "2090-01-01T00:00:00.000Z").as_bytes(),
    );
    fresh
        .writer
        .append(Draft::user("after the future"))
        .unwrap();
    fresh
        .writer
        .append(Draft::assistant(vec![
            Block::Text("a".to_owned()),
            Block::Text("b".to_owned()),
        ]))
        .unwrap();
    fresh.second().append(Draft::user("and again")).unwrap();
    assert_strictly_later(&fresh.read());
}

#[test]
fn given_time_is_written() {
    let fresh = fresh();
    let time: Timestamp = "2020-02-03T04:05:06.789Z".parse().unwrap();
    let blocks = vec![Block::Text("a".to_owned()), Block::Text("b".to_owned())];
    let written = fresh
        .writer
        .append_all(vec![
            Draft::user("then").with_time(time),
            Draft::assistant(blocks).with_time("2020-02-03T04:05:07Z".parse().unwrap()),
        ])
        .unwrap();
    let times: Vec<String> = written
        .iter()
        .map(|entry| entry.time.unwrap().to_string())
        .collect();
    assert_eq!(
        times,
        [
            "2020-02-03T04:05:06.789Z",
            "2020-02-03T04:05:07Z",
            "2020-02-03T04:05:07.001Z"
        ]
    );
}

#[test]
fn torn_tail_is_sealed_and_the_last_whole_entry_is_the_parent() {
    let copy = case("torn-tail").copy();
    let files = copy.files("");
    let path = files.main_path().to_owned();
    let before = fs::read(&path).unwrap();
    let written = copy
        .store()
        .open_writer(&files, QUICK)
        .unwrap()
        .append(Draft::user("on"))
        .unwrap();
    let after = fs::read(&path).unwrap();
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()], b'\n');
    assert_eq!(written.span.offset as usize, before.len() + 1);
    assert!(written.parent.unwrap().as_str().starts_with("00000003"));
    assert_eq!(
        conversations(&copy.read("")),
        [["question 1", "answer 1", "question 2", "on"]]
    );
}

#[test]
fn tail_torn_by_another_program_is_sealed() {
    let fresh = fresh();
    let mut last = fresh.writer.append(Draft::user("0")).unwrap();
    for n in 1..20 {
        write_raw(
            &fresh.writer.path(),
            &foreign(n, None, "2026-01-01T00:00:00.000Z").as_bytes()[..n * 7],
        );
        let next = fresh.writer.append(Draft::user(n.to_string())).unwrap();
        assert_eq!(next.parent, last.id);
        last = next;
    }
    assert_eq!(conversations(&fresh.read())[0].len(), 20);
}

#[test]
fn parent_follows_entries_appended_by_others() {
    let fresh = fresh();
    let first = fresh.writer.append(Draft::user("first")).unwrap();
    // The other program continues at our leaf; the next entry follows it.
    write_raw(
        &fresh.writer.path(),
        foreign(1, first.id.as_ref(), "2026-01-01T00:00:00.000Z").as_bytes(),
    );
    let second = fresh.writer.append(Draft::user("second")).unwrap();
    assert_eq!(second.parent, Some(foreign_id(1)));
    // It branches from an inner entry and is last: the program would resume there.
    write_raw(
        &fresh.writer.path(),
        foreign(2, first.id.as_ref(), "2026-01-01T00:00:01.000Z").as_bytes(),
    );
    let third = fresh.writer.append(Draft::user("third")).unwrap();
    assert_eq!(third.parent, Some(foreign_id(2)));
    // The log names a leaf: its descendants count as long as the log ends there.
    write_raw(
        &fresh.writer.path(),
        format!(
            "{{\"type\":\"last-prompt\",\"leafUuid\":\"{}\"}}\n",
            id(&second)
        )
        .as_bytes(),
    );
    let fourth = fresh.writer.append(Draft::user("fourth")).unwrap();
    assert_eq!(fourth.parent, second.id);
    write_raw(
        &fresh.writer.path(),
        foreign(3, third.id.as_ref(), "2026-01-01T00:00:02.000Z").as_bytes(),
    );
    // The log ends elsewhere, so the program would resume from the named leaf itself.
    let fifth = fresh.writer.append(Draft::user("fifth")).unwrap();
    assert_eq!(fifth.parent, second.id);
    // A reader and a new writer see the same.
    let session = fresh.read();
    let (_, resumed) = paths(&session);
    assert_eq!(
        conversations(&session)[resumed.unwrap()],
        ["first", "foreign 1", "second", "fifth"]
    );
    assert_eq!(fresh.second().leaf(), fifth.id);
}

#[test]
fn write_refuses_a_session_another_program_is_writing() {
    let fresh = fresh();
    let leaf = id(&fresh.writer.append(Draft::user("ours")).unwrap());
    // Our own recent entries do not make the log live.
    drop(fresh.second());
    let now = Timestamp::now();
    write_raw(
        &fresh.writer.path(),
        foreign(1, Some(&leaf), &now.to_string()).as_bytes(),
    );
    let refused = fresh.store.open_writer(&fresh.files(), QUICK);
    assert!(matches!(refused, Err(Error::Live { .. })), "{refused:?}");
    let live = WriteOptions {
        live: true,
        ..QUICK
    };
    let written = fresh
        .store
        .open_writer(&fresh.files(), live)
        .unwrap()
        .append(Draft::user("live"))
        .unwrap();
    assert_eq!(written.parent, Some(foreign_id(1)));
    // Later lines without a time do not hide it.
    let hidden = self::fresh();
    let leaf = id(&hidden.writer.append(Draft::user("ours")).unwrap());
    hidden
        .writer
        .append(Draft::note("a note is ours too"))
        .unwrap();
    drop(hidden.second());
    write_raw(
        &hidden.writer.path(),
        foreign(1, Some(&leaf), &now.to_string()).as_bytes(),
    );
    write_raw(&hidden.writer.path(), b"{\"type\":\"tag\",\"tag\":\"x\"}\n");
    assert!(hidden.store.open_writer(&hidden.files(), QUICK).is_err());
    // An old entry is not live, however new the file is.
    let old = self::fresh();
    let leaf = id(&old.writer.append(Draft::user("ours")).unwrap());
    write_raw(
        &old.writer.path(),
        foreign(1, Some(&leaf), "2026-01-01T00:00:00.000Z").as_bytes(),
    );
    old.store.open_writer(&old.files(), QUICK).unwrap();
}

#[test]
fn removed_log_is_not_recreated() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("one")).unwrap();
    let path = &fresh.writer.path().to_owned();
    let away = fresh.dir.path().join("away.jsonl");
    fs::rename(path, &away).unwrap();
    let bytes = fs::read(&away).unwrap();
    assert!(fresh.writer.append(Draft::user("lost?")).is_err());
    assert!(!path.exists());
    assert_eq!(
        fs::read(&away).unwrap(),
        bytes,
        "nor is the moved one written to"
    );
    // After it is renamed back, it is written again.
    fs::rename(&away, path).unwrap();
    fresh.writer.append(Draft::user("two")).unwrap();
    assert_eq!(conversations(&fresh.read()), [["one", "two"]]);
}

#[test]
fn replaced_or_truncated_log_is_reread() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("old")).unwrap();
    let path = &fresh.writer.path().to_owned();
    // Longer than the known log, and another file.
    let other: String = (1..200)
        .map(|n| {
            foreign(
                n,
                (n > 1).then(|| foreign_id(n - 1)).as_ref(),
                "2026-01-01T00:00:00.000Z",
            )
        })
        .collect();
    let temp = fresh.dir.path().join("other");
    fs::write(&temp, &other).unwrap();
    fs::rename(&temp, path).unwrap();
    let written = fresh.writer.append(Draft::user("new")).unwrap();
    assert_eq!(written.parent, Some(foreign_id(199)));
    // Truncated in place, as some programs rewrite their tails.
    let cut = foreign(1, None, "2026-01-01T00:00:00.000Z");
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(cut.len() as u64)
        .unwrap();
    let written = fresh.writer.append(Draft::user("newer")).unwrap();
    assert_eq!(written.parent, Some(foreign_id(1)));
    assert_eq!(fresh.read().flaws().count(), 0);
}

#[test]
fn append_under_an_inner_entry_makes_a_resumed_branch() {
    let fresh = fresh();
    let first = fresh.writer.append(Draft::user("one")).unwrap();
    fresh
        .writer
        .append(Draft::assistant(vec![Block::Text("two".to_owned())]))
        .unwrap();
    let branch = fresh
        .writer
        .append(Draft::user("two again").with_parent(id(&first)))
        .unwrap();
    let session = fresh.read();
    let (_, resumed) = paths(&session);
    assert_eq!(
        conversations(&session),
        [["one", "two"], ["one", "two again"]]
    );
    assert_eq!(resumed, Some(1));
    let log = fs::read_to_string(fresh.writer.path()).unwrap();
    let last = log.lines().last().unwrap();
    assert!(
        last.contains("last-prompt") && last.contains(id(&branch).as_str()),
        "{last}"
    );
    // The next entry continues the branch, and the log need not name the leaf again.
    let next = fresh.writer.append(Draft::user("three")).unwrap();
    assert_eq!(next.parent, branch.id);
    let log = fs::read_to_string(fresh.writer.path()).unwrap();
    assert_eq!(log.matches("last-prompt").count(), 1);
    // A missing parent is an error, and nothing is written.
    let refused = fresh
        .writer
        .append(Draft::user("lost").with_parent(EntryId::new("nowhere")));
    assert!(
        matches!(refused, Err(Error::NotFound { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(fresh.writer.path()).unwrap(), log);
    // Within one batch, a parent may be an earlier entry of the batch.
    let mut ahead = Draft::user("ahead");
    ahead.id = Some(EntryId::new("mine"));
    fresh
        .writer
        .append_all(vec![
            ahead,
            Draft::user("behind").with_parent(EntryId::new("mine")),
        ])
        .unwrap();
    assert_eq!(fresh.read().flaws().count(), 0);
}

#[test]
fn refused_draft_writes_nothing() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("one")).unwrap();
    let before = picture(fresh.dir.path());
    let broken = Block::ToolUse {
        id: "t".to_owned(),
        name: "n".to_owned(),
        input: "{\"a\":".to_owned(),
    };
    let newline = Block::Opaque {
        kind: "x".to_owned(),
        json: "{\"a\":1}\n{\"b\":2}".to_owned(),
    };
    let nested = Block::ToolResult {
        call: "t".to_owned(),
        output: vec![Block::ToolResult {
            call: "u".to_owned(),
            output: vec![],
            is_error: false,
        }],
        is_error: false,
    };
    for draft in [
        Draft::assistant(vec![broken]),
        Draft::assistant(vec![newline]),
        Draft::assistant(vec![nested]),
        Draft::assistant(vec![]),
        Draft::new(Body::Settings { keep_days: None }),
    ] {
        assert!(fresh.writer.append(draft.clone()).is_err(), "{draft:?}");
        // A valid draft in the same batch is not written either.
        assert!(
            fresh
                .writer
                .append_all(vec![Draft::user("good"), draft])
                .is_err()
        );
    }
    assert_eq!(picture(fresh.dir.path()), before);
    fresh.writer.append(Draft::user("two")).unwrap();
    assert_eq!(conversations(&fresh.read()), [["one", "two"]]);
}

#[test]
fn written_files_are_private() {
    let fresh = fresh();
    fresh.writer.set_todos(&[Todo::pending("x")]).unwrap();
    let root = fresh.dir.path().join("root");
    for (path, what) in picture(&root) {
        let mode = fs::metadata(root.join(&path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            mode,
            if what.is_empty() { 0o700 } else { 0o600 },
            "{}",
            path.display()
        );
    }
}

#[test]
fn read_only_directory_is_an_error_without_loss() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("one")).unwrap();
    let folder = &fresh.writer.path().parent().unwrap().to_owned();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(fresh.writer.path(), fs::Permissions::from_mode(0o400)).unwrap();
    // The superuser may write anywhere, so nothing can be tested then.
    let enforced = fs::File::create(folder.join("probe")).is_err();
    if enforced {
        assert!(fresh.store.open_writer(&fresh.files(), QUICK).is_err());
        let session = fresh.read();
        assert!(
            fresh
                .store
                .fork(
                    &session,
                    &[1],
                    SessionId::new(&ID.replace('a', "b")).unwrap(),
                    None,
                    jiff::Timestamp::now()
                )
                .is_err()
        );
        assert!(
            fresh
                .store
                .trash()
                .move_in(&fresh.files(), Timestamp::now())
                .is_err()
        );
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(conversations(&fresh.read()), [["one"]]);
}

#[test]
fn set_todos_is_atomic() {
    let fresh = fresh();
    fresh.writer.set_todos(&[Todo::pending("0")]).unwrap();
    let path = fresh
        .dir
        .path()
        .join(format!("root/todos/{ID}-agent-{ID}.json"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..60 {
                let todos: Vec<Todo> = (0..n * 20)
                    .map(|at| Todo::pending(at.to_string()))
                    .collect();
                fresh.writer.set_todos(&todos).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let todos: Vec<Todo> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            assert!(!todos.is_empty());
        }
    });
    let beside: Vec<PathBuf> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(beside, [path], "nothing is left over");
}

/// Returns the slice of a session that shares its log.
fn shared(files: &SessionFiles) -> Option<&annals::store::SessionSlice> {
    files.logs().find_map(|file| file.slice.as_deref())
}

/// Every session of every fixture, one by one: all of its own files are deleted and restored.
#[test]
fn deleted_session_is_undeleted_byte_for_byte() {
    let mut moved = BTreeMap::new();
    let mut refused_forks = 0;
    for case in writable_cases() {
        let copy = case.copy();
        let store = copy.store();
        let before = underived(case.layout, &copy.root.path);
        for files in copy.sessions() {
            let planned = store.trash().plan(&files, Timestamp::UNIX_EPOCH);
            if let (Some(_), Err(Error::Refused(_))) = (shared(&files), &planned) {
                // The log is shared, and logs are never rewritten; or a fork continues it.
                let why = planned.unwrap_err().to_string();
                refused_forks += usize::from(why.contains("by reference"));
                assert!(
                    store
                        .trash()
                        .move_in(&files, Timestamp::UNIX_EPOCH)
                        .is_err()
                );
                let now = underived(case.layout, &copy.root.path);
                assert_eq!(now, before, "{}", case.name);
                continue;
            }
            // A fork by reference continues the log of another session, which is not its own.
            let is_codex = case.layout.name() == "codex";
            let is_own = |file: &RootFile, volume: &RootFile| !is_codex || volume.path == file.path;
            let own: BTreeSet<PathBuf> = files
                .files()
                .flat_map(|file| file.volumes().filter(move |volume| is_own(file, volume)))
                .map(|file| file.path.strip_prefix(&copy.root.path).unwrap().to_owned())
                .collect();
            for file in files.files() {
                *moved.entry(file.artifact.kind).or_insert(0) += 1;
            }
            let planned = store.trash().plan(&files, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(
                underived(case.layout, &copy.root.path),
                before,
                "a plan changes nothing"
            );
            let trashed = store
                .trash()
                .move_in(&files, Timestamp::UNIX_EPOCH)
                .unwrap();
            assert_eq!(planned.files.len(), trashed.files.len());
            let after = underived(case.layout, &copy.root.path);
            let all = picture(&copy.root.path);
            for (path, what) in &before {
                // Empty folders are removed, except those at the top.
                let folder = what.is_empty();
                let kept = if folder {
                    path.components().count() == 1
                        || all
                            .keys()
                            .any(|other| other != path && other.starts_with(path))
                } else {
                    !own.contains(path)
                };
                assert_eq!(
                    after.contains_key(path),
                    kept,
                    "{} {}",
                    case.name,
                    path.display()
                );
            }
            assert!(
                after
                    .iter()
                    .all(|(path, what)| before.get(path) == Some(what))
            );
            assert_eq!(store.trash().items().unwrap().len(), 1);
            store.trash().restore(&trashed.id).unwrap();
            assert_eq!(
                underived(case.layout, &copy.root.path),
                before,
                "{}",
                case.name
            );
            assert!(store.trash().items().unwrap().is_empty());
            assert_eq!(picture(&copy.state().join("undo")), BTreeMap::new());
        }
    }
    assert_eq!(refused_forks, 1, "the session that a fork continues");
    use annals::model::ArtifactKind as K;
    for kind in [
        K::SessionLog,
        K::AgentLog,
        K::AgentMeta,
        K::Todos,
        K::Task,
        K::FileVersion,
        K::ToolResult,
        K::TitleFile,
        K::SessionState,
    ] {
        assert!(moved.contains_key(&kind), "{kind:?}");
    }
}

#[test]
fn session_changed_since_read_is_not_deleted() {
    let fresh = fresh();
    let files = fresh.files();
    fresh.writer.append(Draft::user("wait")).unwrap();
    let refused = fresh.store.trash().move_in(&files, Timestamp::now());
    assert!(
        matches!(refused, Err(Error::File(FileError::Changed { .. }))),
        "{refused:?}"
    );
    assert_eq!(conversations(&fresh.read()), [["wait"]]);
    assert!(fresh.store.trash().items().unwrap().is_empty());
}

#[test]
fn two_deletions_within_a_second_do_not_collide() {
    let copy = case("same-session-two-projects").copy();
    let store = copy.store();
    let before = picture(&copy.root.path);
    let ids: BTreeSet<String> = copy
        .sessions()
        .iter()
        .map(|files| {
            store
                .trash()
                .move_in(files, Timestamp::UNIX_EPOCH)
                .unwrap()
                .id
        })
        .collect();
    assert_eq!(ids.len(), 2);
    let session = copy_session_id();
    assert!(matches!(
        store.trash().restore(&session),
        Err(Error::Ambiguous { .. })
    ));
    for id in ids {
        store.trash().restore(&id).unwrap();
    }
    assert_eq!(picture(&copy.root.path), before);
}

fn copy_session_id() -> String {
    case("same-session-two-projects").sessions()[0]
        .id
        .to_string()
}

#[test]
fn undelete_never_overwrites() {
    let copy = case("todos").copy();
    let store = copy.store();
    let files = copy.files("5e634e57");
    let path = files.main_path().to_owned();
    store
        .trash()
        .move_in(&files, Timestamp::UNIX_EPOCH)
        .unwrap();
    fs::write(&path, "new\n").unwrap();
    assert!(matches!(
        store.trash().restore("5e634e57"),
        Err(Error::Refused(_))
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    let kept = store.trash().items().unwrap();
    assert_eq!(kept.len(), 1, "the deleted one is still in the trash");
    // After the blocking file is removed, the rest is restored.
    fs::remove_file(&path).unwrap();
    store.trash().restore("5e634e57").unwrap();
    assert!(fs::read(&path).unwrap().starts_with(b"{"));
}

/// A fork is an independent session.
#[test]
fn fork_can_be_titled_and_appended() {
    let copy = case("branch-nested").copy();
    let session = copy.read("");
    let tree = session.tree().unwrap();
    let path = tree.path(&tree.conversations[1]);
    let to = SessionId::new(&ID.replace('a', "c")).unwrap();
    copy.store()
        .fork(
            &session,
            &path,
            to.clone(),
            Some("The left way"),
            jiff::Timestamp::now(),
        )
        .unwrap();
    let again = copy
        .store()
        .fork(&session, &path, to.clone(), None, jiff::Timestamp::now());
    assert!(again.is_err(), "a session is never forked over another");
    let written = copy
        .writer("cccccccc")
        .append(Draft::user("further"))
        .unwrap();
    let fork = copy.read("cccccccc");
    assert_eq!(fork.title().unwrap().text, "The left way");
    assert_eq!(conversations(&fork)[0].last().unwrap(), "further");
    assert_eq!(written.parent, session.entry_id(*path.last().unwrap()));
    let ids: HashMap<String, usize> = copy
        .sessions()
        .iter()
        .map(|files| (files.id.to_string(), 1))
        .collect();
    assert_eq!(ids.len(), 2);
}

/// Regression: a lone surrogate made the line unreadable to the fork, which left old links in it.
#[test]
fn fork_copies_a_line_with_a_lone_surrogate() {
    let writer = annals::layout::by_name("claude-code").unwrap().writer();
    let from = SessionId::new(ID).unwrap();
    let to = SessionId::new(&ID.replace('a', "c")).unwrap();
    let id = EntryId::new("u");
    let graft = ForkEdit {
        from: &from,
        to: &to,
        requested_id: &to,
        previous: None,
        id: &id,
        parent: ForkParent::None,
        time: None,
    };
    let transplant = |record: &[u8]| writer.unwrap().copy_record(record, &graft);
    let record = br#"{"parentUuid":"gone","logicalParentUuid":"gone too","isSidechain":true,"type":"user","uuid":"u","message":{"content":"\ud83d"},"n":1e999}"#;
    let fork = String::from_utf8(transplant(record).unwrap()).unwrap();
    for wanted in [
        r#""parentUuid":null"#,
        r#""logicalParentUuid":null"#,
        r#""isSidechain":false"#,
        r#""message":{"content":"\ud83d"},"n":1e999"#,
        &format!(r#""sessionId":"{to}""#),
    ] {
        assert!(fork.contains(wanted), "{wanted}: {fork}");
    }
    // Bytes that are not a record are not copied.
    for not in [&b"{\"uuid\":"[..], b"[]", b""] {
        assert!(transplant(not).is_err());
    }
}

/// The real client drops a glued line, so a child of it would lose its parent.
#[test]
fn glued_record_is_never_a_parent() {
    let copy = case("glued-records").copy();
    let files = copy.files("");
    let path = files.main_path().to_owned();
    let log = fs::read_to_string(&path).unwrap();
    let two: String = log.split_inclusive('\n').take(2).collect();
    fs::write(&path, two).unwrap();
    let writer = copy.store().open_writer(&files, QUICK).unwrap();
    let written = writer.append(Draft::user("on")).unwrap();
    assert!(written.parent.unwrap().as_str().starts_with("00000001"));
    // The same for lines appended while the writer is open.
    let fresh = fresh();
    let first = fresh.writer.append(Draft::user("first")).unwrap();
    let time = "2026-01-01T00:00:00.000Z";
    let glued = foreign(1, first.id.as_ref(), time).trim_end().to_owned()
        + &foreign(2, Some(&foreign_id(1)), time);
    write_raw(&fresh.writer.path(), glued.as_bytes());
    let second = fresh.writer.append(Draft::user("second")).unwrap();
    assert_eq!(second.parent, first.id);
}
