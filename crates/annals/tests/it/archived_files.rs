//! Files that the agent program deleted from an existing session are read from the archive, once,
//! and marked.

mod moved;

use std::fs;
use std::path::{Path, PathBuf};

use annals::archive::{Archive, ArchiveAllOptions, ROOT_ID, RestoreOutcome};
use annals::convert::{self, ConvertSelection};
use annals::cost::Ledger;
use annals::layout::NewSession;
use annals::model::{ArtifactKind, Draft, FlawKind, SessionId, Todo};
use annals::search::Query;
use annals::store::{Inventory, Root, Session, SessionFiles, Store, WriteOptions};
use jiff::Timestamp;
use tempfile::TempDir;

const SESSION: &str = "8c549c46-16ca-47dd-b731-f4c264becc53";
const OTHER: &str = "11111111-16ca-47dd-b731-f4c264becc53";

/// A root with a session of two sub-agents, and another session without any.
struct Desk {
    dir: TempDir,
    store: Store,
}

fn line(session: &str, id: &str, parent: &str, text: &str) -> String {
    let parent = match parent {
        "" => "null".to_owned(),
        parent => format!("\"{parent}\""),
    };
    format!(
        r#"{{"type":"assistant","uuid":"{id}","parentUuid":{parent},"sessionId":"{session}","cwd":"/app","timestamp":"2026-03-01T12:00:00Z","message":{{"role":"assistant","id":"msg_{id}","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":10,"output_tokens":5}}}}}}
"#
    )
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::claude_code(dir.path().join("root"));
        let store = Store::new(vec![root]).with_state(dir.path().join("state"));
        let desk = Desk { dir, store };
        desk.put(log(SESSION), &line(SESSION, "a1", "", "main"));
        desk.put(log(OTHER), &line(OTHER, "b1", "", "other"));
        desk.put(agent("one"), &line(SESSION, "c1", "", "zebra one"));
        desk.put(agent("two"), &line(SESSION, "d1", "", "zebra two"));
        desk.put(format!("projects/-app/{SESSION}/tool-results/r.txt"), "out");
        desk.put(format!("file-history/{SESSION}/0a1b@v1"), "saved");
        desk.put(format!("todos/{SESSION}-agent-{SESSION}.json"), "[]");
        desk
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join("root").join(path)
    }

    fn put(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn keep(&self) {
        let inventory = self.store.inventory_without_archive();
        let options = ArchiveAllOptions::default();
        let kept = self
            .store
            .archive_all(&inventory, options, Timestamp::now(), &|_, _| {});
        assert!(kept.unwrap().is_ok());
    }

    fn manifest(&self) -> PathBuf {
        let archive = self.store.archive().unwrap();
        let root = &self.store.roots()[0];
        archive.root_dir(root).join("manifest.jsonl")
    }

    fn session(&self) -> SessionFiles {
        let inventory = self.store.inventory();
        assert!(inventory.errors.is_empty(), "{:?}", inventory.errors);
        assert_eq!(inventory.sessions.len(), 2);
        let mut sessions = inventory.sessions.into_iter();
        sessions.find(|files| files.id.as_str() == SESSION).unwrap()
    }

    fn kept(&self) -> Vec<String> {
        let files = self.session();
        let kept = files.files().filter(|file| file.is_archived());
        kept.map(|file| {
            let path = file.path.strip_prefix(self.dir.path().join("root"));
            path.unwrap().display().to_string()
        })
        .collect()
    }
}

fn log(session: &str) -> String {
    format!("projects/-app/{session}.jsonl")
}

fn agent(id: &str) -> String {
    format!("projects/-app/{SESSION}/subagents/agent-{id}.jsonl")
}

fn charges(ledger: &Ledger) -> usize {
    ledger.charges.len()
}

#[test]
fn deleted_sub_agent_is_read_from_archive_once_and_marked() {
    let desk = Desk::new();
    desk.keep();
    assert_eq!(desk.kept(), [""; 0]);
    let quiet = |_: u64, _: u64| {};
    let whole = charges(&desk.store.costs().ledger(&quiet).0);
    let state = desk.dir.path().join("state");
    let index = crate::support::indexed(&desk.store, &state);
    let learn = || -> (usize, usize, usize) {
        let inventory = index.inventory();
        let rows = index.sessions(&inventory).read(&quiet);
        let agents = rows.into_iter().map(|row| row.unwrap().agents).sum();
        let handle = index.index().unwrap();
        let errors = handle.update_text(&inventory, &quiet, &|| false);
        assert!(errors.unwrap().is_empty());
        let found = index.search(&inventory, &zebras()).unwrap();
        assert!(found.errors.is_empty());
        let spent = charges(&index.costs().ledger(&quiet).0);
        (agents, found.hits.len(), spent)
    };
    assert_eq!(learn(), (2, 2, whole));
    fs::remove_file(desk.at(agent("one"))).unwrap();
    assert_eq!(desk.kept(), [agent("one")]);
    assert!(!desk.session().is_archived());
    let session = Session::read(desk.session()).unwrap();
    let marks: Vec<bool> = session.agents.iter().map(|it| it.archived).collect();
    assert_eq!(marks, [true, false]);
    // With and without the index.
    assert_eq!(learn(), (2, 2, whole));
    let inventory = desk.store.inventory();
    assert_eq!(
        desk.store.search(&inventory, &zebras()).unwrap().hits.len(),
        2
    );
    assert_eq!(charges(&desk.store.costs().ledger(&quiet).0), whole);
    // A file that exists again is read from the root.
    desk.put(agent("one"), &line(SESSION, "c1", "", "zebra one"));
    assert_eq!(desk.kept(), [""; 0]);
    assert_eq!(learn(), (2, 2, whole));
}

fn zebras() -> Query {
    Query::parse("zebra", &Default::default())
        .unwrap()
        .limit(10)
}

#[test]
fn outputs_file_versions_and_todos_are_read_from_the_archive() {
    let desk = Desk::new();
    desk.keep();
    fs::remove_dir_all(desk.at("file-history")).unwrap();
    fs::remove_dir_all(desk.at("todos")).unwrap();
    fs::remove_dir_all(desk.at(format!("projects/-app/{SESSION}"))).unwrap();
    let mut kept = desk.kept();
    kept.sort();
    let mut wanted = [
        format!("file-history/{SESSION}/0a1b@v1"),
        agent("one"),
        agent("two"),
        format!("projects/-app/{SESSION}/tool-results/r.txt"),
        format!("todos/{SESSION}-agent-{SESSION}.json"),
    ];
    wanted.sort();
    assert_eq!(kept, wanted);
}

/// A damaged manifest is reported, and no file is lost.
#[test]
fn damaged_manifest_loses_no_file_and_is_reported() {
    let desk = Desk::new();
    desk.keep();
    fs::remove_file(desk.at(agent("two"))).unwrap();
    let manifest = desk.manifest();
    let text = fs::read(&manifest).unwrap();
    let kept = || {
        let inventory = desk.store.inventory();
        let sessions = inventory.sessions.iter();
        let files = sessions.flat_map(SessionFiles::files);
        let kept = files.filter(|file| file.is_archived());
        let kept: Vec<_> = kept
            .map(|file| (file.path.clone(), file.read().unwrap()))
            .collect();
        (kept, inventory.errors.len())
    };
    let (whole, errors) = kept();
    assert_eq!((whole.len(), errors), (1, 0));
    for at in (0..text.len()).step_by(41) {
        let mut damaged = text.clone();
        damaged[at] ^= 4;
        fs::write(&manifest, &damaged).unwrap();
        let (found, errors) = kept();
        assert!(found == whole, "byte {at}");
        // A line about a file in the root does not matter to a listing.
        assert!(errors <= 1, "byte {at}");
    }
    // Cut anywhere, or missing.
    for at in (0..text.len()).step_by(97) {
        fs::write(&manifest, &text[..at]).unwrap();
        let is_whole_line = at == 0 || text[at - 1] == b'\n';
        assert!(is_whole_line || kept().0 == whole, "cut at {at}");
    }
    fs::remove_file(&manifest).unwrap();
    assert_eq!(kept(), (whole.clone(), 1));
    // The next run lists everything again, and says so.
    let options = ArchiveAllOptions::default();
    let inventory = desk.store.inventory_without_archive();
    let run = desk
        .store
        .archive_all(&inventory, options, Timestamp::now(), &|_, _| {});
    let damaged = run.unwrap().verified.damaged;
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert!(damaged[0].detail.contains("is missing"), "{damaged:?}");
    assert_eq!(kept(), (whole, 0));
    desk.keep();
}

/// Files added to a session are listed like those archived before.
#[test]
fn later_sub_agent_is_read_from_the_archive() {
    let desk = Desk::new();
    desk.keep();
    desk.put(agent("late"), &line(SESSION, "e1", "", "zebra late"));
    desk.keep();
    fs::remove_file(desk.at(agent("late"))).unwrap();
    assert_eq!(desk.kept(), [agent("late")]);
}

/// Other versions of the program store sub-agents elsewhere in the folder.
#[test]
fn moved_sub_agent_is_listed_once() {
    let desk = Desk::new();
    desk.put(
        "projects/-app/agent-flat.jsonl",
        &line(SESSION, "f1", "", "zebra flat"),
    );
    desk.keep();
    fs::rename(
        desk.at("projects/-app/agent-flat.jsonl"),
        desk.at(agent("flat")),
    )
    .unwrap();
    assert_eq!(desk.kept(), [""; 0]);
    assert_eq!(desk.session().agents.len(), 3);
}

/// A copied session has sub-agents with the same ids.
#[test]
fn sub_agents_of_a_copied_session_are_separate() {
    let desk = Desk::new();
    for id in ["one", "two"] {
        let copy = agent(id).replace(SESSION, OTHER);
        desk.put(copy, &line(OTHER, "g1", "", "zebra copied"));
    }
    desk.keep();
    fs::remove_dir_all(desk.at(format!("projects/-app/{SESSION}/subagents"))).unwrap();
    assert_eq!(desk.kept(), [agent("one"), agent("two")]);
}

/// Files changed since in an existing session do not block the restore.
#[test]
fn restore_leaves_todos_changed_since() {
    let desk = Desk::new();
    desk.keep();
    let todos = format!("todos/{SESSION}-agent-{SESSION}.json");
    fs::remove_dir_all(desk.at(format!("projects/-app/{SESSION}"))).unwrap();
    desk.put(&todos, "[ ]");
    let pack = desk.store.archive().unwrap().find(SESSION).unwrap();
    let plan = pack.plan_restore(None).unwrap();
    let fates = plan.files.iter().map(|file| (&file.path, file.fate));
    let left = fates.filter(|(_, fate)| *fate == RestoreOutcome::Left);
    let left: Vec<_> = left.map(|(path, _)| path.clone()).collect();
    assert_eq!(left, [PathBuf::from(&todos)]);
    pack.restore(None).unwrap();
    assert!(desk.at(agent("one")).is_file());
    assert_eq!(fs::read(desk.at(&todos)).unwrap(), b"[ ]");
    // Whether the log exists or not.
    fs::remove_file(desk.at(agent("one"))).unwrap();
    fs::remove_file(desk.at(log(SESSION))).unwrap();
    pack.restore(None).unwrap();
    assert!(desk.at(agent("one")).is_file() && desk.at(log(SESSION)).is_file());
    assert_eq!(fs::read(desk.at(&todos)).unwrap(), b"[ ]");
    // With another log, the files would be taken for that log's.
    fs::remove_file(desk.at(agent("one"))).unwrap();
    desk.put(log(SESSION), "{}\n");
    pack.restore(None).unwrap_err();
    assert!(!desk.at(agent("one")).exists());
}

/// A pipe in its place must not block readers.
#[test]
fn manifest_that_is_a_pipe_is_refused() {
    let desk = Desk::new();
    desk.keep();
    fs::remove_file(desk.at(agent("two"))).unwrap();
    fs::remove_file(desk.manifest()).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(desk.manifest())
        .status();
    assert!(made.unwrap().success());
    assert_eq!(desk.store.inventory().errors.len(), 1);
}

#[test]
fn delete_and_restore_act_on_files_in_the_root() {
    let desk = Desk::new();
    desk.keep();
    fs::remove_file(desk.at(agent("one"))).unwrap();
    let files = desk.session();
    let trashed = desk
        .store
        .trash()
        .move_in(&files, Timestamp::now())
        .unwrap();
    assert!(
        trashed
            .files
            .iter()
            .all(|file| !file.path.ends_with("agent-one.jsonl"))
    );
    desk.store.trash().restore(&trashed.id).unwrap();
    assert_eq!(desk.kept(), [agent("one")]);
    // The file is restored into a session that has grown since it was archived.
    let more = line(SESSION, "a2", "a1", "went on");
    let whole = [fs::read_to_string(desk.at(log(SESSION))).unwrap(), more].concat();
    fs::write(desk.at(log(SESSION)), whole).unwrap();
    let archive = desk.store.archive().unwrap();
    archive.find(SESSION).unwrap().restore(None).unwrap();
    assert!(desk.at(agent("one")).is_file());
    assert_eq!(desk.kept(), [""; 0]);
}

/// A file damaged since it was read is read again.
#[test]
fn archive_damage_is_reported_although_the_index_is_current() {
    let desk = Desk::new();
    desk.keep();
    let files = desk.session();
    let state = desk.dir.path().join("state");
    let away = desk
        .store
        .move_to_archive(&[&files], true, Timestamp::now());
    let pack = away.unwrap().pack;
    let quiet = |_: u64, _: u64| {};
    let index = crate::support::indexed(&desk.store, &state);
    let rows = |inventory: &Inventory| {
        let rows = index.sessions(inventory).read(&quiet);
        rows.iter().filter(|row| row.is_err()).count()
    };
    // Files changed a moment ago are not cached.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(rows(&index.inventory()), 0);
    let mut bytes = fs::read(&pack).unwrap();
    for byte in &mut bytes[40..80] {
        *byte ^= 0x55;
    }
    fs::write(&pack, bytes).unwrap();
    assert_eq!(rows(&index.inventory()), 1);
}

/// The list that is shown is the one that is edited, even if it is archived.
#[test]
fn edit_todos_continues_from_the_archived_list() {
    for layout in crate::support::writable_layouts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout.name(), dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
        let id = layout.writer().unwrap().valid_id("s1");
        let new = NewSession::new(SessionId::new(&id).unwrap(), "/home/dev/new");
        let writer = store.create(&root, &new, WriteOptions::default()).unwrap();
        writer.append(Draft::user("hello")).unwrap();
        let list = ["one", "two"].map(Todo::pending);
        writer.set_todos(&list).unwrap();
        drop(writer);
        let inventory = store.inventory_without_archive();
        let options = ArchiveAllOptions::default();
        let kept = store.archive_all(&inventory, options, Timestamp::now(), &|_, _| {});
        assert!(kept.unwrap().is_ok());
        let beside = inventory.sessions[0].attachments.iter();
        let mut todos = beside.filter(|file| file.artifact.kind == ArtifactKind::Todos);
        let todos = todos.next().unwrap().path.clone();
        fs::remove_file(&todos).unwrap();

        let contents = |list: &[Todo]| {
            let contents = list.iter().map(|todo| todo.content.clone());
            contents.collect::<Vec<_>>()
        };
        let add = |text: &str| {
            let files = store.inventory().sessions.remove(0);
            let writer = store.open_writer(&files, WriteOptions::default()).unwrap();
            let list = writer.edit_todos(|_, _, mut list| {
                list.push(Todo::pending(text));
                Ok::<_, annals::Error>(list)
            });
            contents(&list.unwrap())
        };
        assert_eq!(add("three"), ["one", "two", "three"], "{}", layout.name());
        // The list exists again, so the archived one is no longer used.
        assert!(todos.exists());
        fs::write(&todos, "").unwrap();
        assert_eq!(add("four"), ["four"], "{}", layout.name());
    }
}

/// A whole root is refused like one session; the error counts what is missing.
#[test]
fn root_conversion_is_refused_if_files_are_only_archived() {
    let desk = Desk::new();
    desk.put("plans/one.md", "# One");
    desk.keep();
    let archive = desk.store.archive().unwrap();
    let plan = |archive: Option<&Archive>| {
        let into = Root::new("chorus", desk.dir.path().join("into")).unwrap();
        convert::plan(
            ConvertSelection::Root(desk.store.roots()[0].clone()),
            into,
            archive,
        )
    };
    assert_eq!(plan(Some(&archive)).unwrap().sessions.len(), 2);
    fs::remove_file(desk.at(log(OTHER))).unwrap();
    fs::remove_file(desk.at(agent("one"))).unwrap();
    fs::remove_file(desk.at("plans/one.md")).unwrap();
    assert_eq!(plan(None).unwrap().sessions.len(), 1);
    let refused = plan(Some(&archive)).unwrap_err().to_string();
    assert!(refused.contains("1 session and 2 files"), "{refused}");
    assert!(
        refused.contains(&format!("annals restore {OTHER} --apply")),
        "{refused}"
    );
    // The caller can continue without the archived files; the plan reports them.
    let whole = convert::plan_without_archived(
        ConvertSelection::Root(desk.store.roots()[0].clone()),
        Root::new("chorus", desk.dir.path().join("into")).unwrap(),
        Some(&archive),
    );
    let whole = whole.unwrap();
    assert_eq!(whole.sessions.len(), 1);
    let reported = "1 session and 2 files only in the archive";
    assert!(
        whole.left_out.iter().any(|left| left == reported),
        "{:?}",
        whole.left_out
    );
    assert!(whole.sessions[0].files().all(|file| !file.is_archived()));
    let named = |without: bool| {
        let into = Root::new("chorus", desk.dir.path().join("into")).unwrap();
        let selection = ConvertSelection::Sessions(desk.store.inventory().sessions);
        match without {
            true => convert::plan_without_archived(selection, into, Some(&archive)),
            false => convert::plan(selection, into, Some(&archive)),
        }
    };
    named(false).unwrap_err();
    let some = named(true).unwrap();
    assert_eq!(some.sessions.len(), 1);
    assert!(
        some.left_out[0].starts_with("1 session and 1 file "),
        "{:?}",
        some.left_out
    );
    for id in [OTHER, SESSION] {
        archive.find(id).unwrap().restore(None).unwrap();
    }
    let refused = plan(Some(&archive)).unwrap_err().to_string();
    assert!(refused.contains("annals restore root --apply"), "{refused}");
    archive.find(ROOT_ID).unwrap().restore(None).unwrap();
    assert_eq!(plan(Some(&archive)).unwrap().sessions.len(), 2);
}

#[test]
fn session_conversion_is_refused_if_files_are_only_archived() {
    let desk = Desk::new();
    desk.keep();
    let plan = || {
        let into = Root::new("chorus", desk.dir.path().join("into")).unwrap();
        convert::plan(ConvertSelection::Sessions(vec![desk.session()]), into, None)
    };
    assert_eq!(plan().unwrap().sessions.len(), 1);
    fs::remove_file(desk.at(agent("one"))).unwrap();
    let refused = plan().unwrap_err().to_string();
    assert!(refused.contains("is only in the archive"), "{refused}");
}

/// For an existing session, only files that programs delete themselves are read from the archive.
#[test]
fn files_removed_by_a_person_are_not_read_from_the_archive() {
    let desk = Desk::new();
    let title = format!("projects/-app/{SESSION}/custom-title.json");
    desk.put(&title, r#"{"customTitle":"mine"}"#);
    desk.put("plans/one.md", "# One");
    desk.put("settings.json", "{}");
    desk.keep();
    for path in [
        title.as_str(),
        &agent("one"),
        "plans/one.md",
        "settings.json",
    ] {
        fs::remove_file(desk.at(path)).unwrap();
    }
    assert_eq!(desk.kept(), [agent("one")]);
    let inventory = desk.store.inventory();
    let others = inventory
        .others
        .iter()
        .filter(|(_, file)| file.is_archived());
    let others: Vec<ArtifactKind> = others.map(|(_, file)| file.artifact.kind).collect();
    assert_eq!(others, [ArtifactKind::Plan]);
}

#[test]
fn todo_list_removed_while_open_starts_empty() {
    let desk = Desk::new();
    let writer = desk
        .store
        .open_writer(&desk.session(), WriteOptions::default());
    let todos = format!("todos/{SESSION}-agent-{SESSION}.json");
    fs::remove_file(desk.at(todos)).unwrap();
    let list = writer.unwrap().edit_todos(|_, old, mut list| {
        assert_eq!((old.len(), list.len()), (0, 0));
        list.push(Todo::pending("one"));
        Ok::<_, annals::Error>(list)
    });
    assert_eq!(list.unwrap().len(), 1);
}

/// For files that the archive has, the advice must not mention a backup.
#[test]
fn check_distinguishes_lost_from_archived_files() {
    let snapshot = |name: &str| {
        format!(
            r#"{{"type":"file-history-snapshot","messageId":"a1","snapshot":{{"messageId":"a1","trackedFileBackups":{{"{name}":{{"backupFileName":"{name}","version":1,"backupTime":"2026-03-01T12:00:00Z"}}}},"timestamp":"2026-03-01T12:00:00Z"}},"isSnapshotUpdate":false}}
"#
        )
    };
    let desk = Desk::new();
    let (kept, lost) = ("0a1b0a1b0a1b0a1b@v1", "0c1d0c1d0c1d0c1d@v1");
    let text = line(SESSION, "a1", "", "main") + &snapshot(kept) + &snapshot(lost);
    desk.put(log(SESSION), &text);
    desk.put(format!("file-history/{SESSION}/{kept}"), "saved");
    desk.put(format!("todos/{OTHER}-agent-{OTHER}.json"), TODOS);
    desk.keep();
    fs::remove_file(desk.at(format!("file-history/{SESSION}/{kept}"))).unwrap();
    fs::remove_file(desk.at(log(OTHER))).unwrap();
    let archive = desk.store.archive().unwrap();
    let reported = |archive: Option<&Archive>| {
        let inventory = desk.store.inventory_without_archive();
        let reports = annals::check::all(&inventory, archive, &|_, _| {});
        let flaws = reports.into_iter().flat_map(|report| report.unwrap().flaws);
        let mut flaws: Vec<_> = flaws.map(|flaw| (flaw.kind, flaw.detail)).collect();
        flaws.retain(|(kind, _)| TOLD.contains(kind));
        flaws.sort();
        flaws
    };
    let kinds =
        |reported: &[(FlawKind, String)]| reported.iter().map(|it| it.0).collect::<Vec<_>>();
    let without = reported(None);
    assert_eq!(
        kinds(&without),
        [FlawKind::Stray, FlawKind::MissingFile],
        "{without:?}"
    );
    assert!(without[1].1.starts_with("2 saved files"), "{without:?}");
    let with = reported(Some(&archive));
    let [
        (FlawKind::MissingFile, missing),
        (FlawKind::OnlyArchived, one),
        (FlawKind::OnlyArchived, two),
    ] = with.as_slice()
    else {
        panic!("{with:?}");
    };
    assert!(missing.contains(lost), "{missing}");
    let mut ids = [one, two].map(|detail| {
        [SESSION, OTHER].map(|id| detail.contains(&format!("`annals restore {id} --apply`")))
    });
    ids.sort();
    assert_eq!(ids, [[false, true], [true, false]], "{with:?}");
    // The check of one session reports the same.
    let inventory = desk.store.inventory_without_archive();
    let files = inventory
        .sessions
        .iter()
        .find(|files| files.id.as_str() == SESSION);
    let reports = annals::check::session(&inventory, files.unwrap(), Some(&archive));
    let mut flaws = reports
        .iter()
        .flat_map(|report| &report.as_ref().unwrap().flaws);
    assert!(flaws.any(|flaw| flaw.kind == FlawKind::OnlyArchived));
}

const TOLD: [FlawKind; 3] = [
    FlawKind::Stray,
    FlawKind::MissingFile,
    FlawKind::OnlyArchived,
];
const TODOS: &str = r#"[{"content":"a","status":"pending","activeForm":"a"}]"#;
