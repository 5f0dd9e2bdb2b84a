//! Writing sessions of OpenCode's database: rows of known tables, in one transaction, or nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use annals::convert;
use annals::layout::{NewSession, Spawn};
use annals::model::{
    AgentId, ArtifactKind, Block, Body, Draft, Message, Role, SessionId, Todo, TodoStatus,
};
use annals::store::{Root, RootFile, Session, SessionFiles, WriteOptions};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::support::{Case, Copy, QUICK, case, cases, conversations, says};

const SESSION: &str = "ses_e1b6f176dffeIIVriAZiTcNYbc";

fn copy() -> Copy {
    let is_it = |case: &Case| case.layout.name() == "opencode" && case.name == "1.18-s02-tools";
    cases().into_iter().find(is_it).unwrap().copy()
}

fn database(copy: &Copy) -> PathBuf {
    copy.root.path.join("opencode.db")
}

fn said(role: Role, text: &str) -> Draft {
    let mut message = Message::new(role, vec![Block::Text(text.to_owned())]);
    message.human = role == Role::User;
    Draft::new(Body::Message(message))
}

fn message(role: Role, blocks: Vec<Block>) -> Draft {
    Draft::new(Body::Message(Message::new(role, blocks)))
}

/// Returns the rows of all tables, and the schema.
fn tables(path: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let database = Connection::open(path).unwrap();
    let rows = |sql: &str| {
        let mut rows = database.prepare(sql).unwrap();
        let columns = rows.column_count();
        let rows = rows.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
        rows.unwrap()
            .collect::<Result<Vec<Vec<Value>>, _>>()
            .unwrap()
    };
    let schema = rows("SELECT name, type, sql FROM sqlite_schema ORDER BY name");
    let mut found = BTreeMap::new();
    for row in &schema {
        if let [Value::Text(name), Value::Text(kind), _] = row.as_slice()
            && kind == "table"
        {
            found.insert(
                name.clone(),
                rows(&format!("SELECT * FROM \"{name}\" ORDER BY 1, 2")),
            );
        }
    }
    found.insert("schema".to_owned(), schema);
    found
}

fn results() -> Vec<Draft> {
    let call = Block::ToolUse {
        id: "call_1".to_owned(),
        name: "bash".to_owned(),
        input: "{\"command\":\"ls\"}".to_owned(),
    };
    let result = Block::ToolResult {
        call: "call_1".to_owned(),
        output: vec![Block::Text("notes.txt".to_owned())],
        is_error: false,
    };
    vec![
        said(Role::User, "list the files"),
        message(
            Role::Assistant,
            vec![Block::Text("One moment.".to_owned()), call],
        ),
        message(Role::User, vec![result]),
        said(Role::Assistant, "One file: \"notes.txt\" ☂"),
    ]
}

#[test]
fn rows_that_are_appended_are_read() {
    let copy = copy();
    let before = tables(&database(&copy));
    let old = conversations(&copy.read(SESSION));
    let writer = copy.writer(SESSION);
    let written = writer.append_all(results()).unwrap();
    assert_eq!(written.len(), 4);
    let session = copy.read(SESSION);
    let mut wanted = old;
    wanted[0].extend(written.iter().map(says));
    assert_eq!(conversations(&session), wanted);
    writer.retitle("Another  title").unwrap();
    assert_eq!(copy.read(SESSION).title().unwrap().text, "Another title");
    writer.compact("what was said", None).unwrap();
    writer.append(said(Role::User, "go on")).unwrap();
    drop(writer);
    let after = tables(&database(&copy));
    // Rows of three tables and nothing else.
    for (table, rows) in &before {
        let new = &after[table];
        match table.as_str() {
            "session" => assert_eq!(new.len(), rows.len()),
            "message" | "part" => {
                assert!(rows.iter().all(|row| new.contains(row)), "{table}");
                assert!(new.len() > rows.len());
            }
            _ => assert_eq!(new, rows, "{table}"),
        }
    }
    let check = Connection::open(database(&copy)).unwrap();
    let check: String = check
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn session_begins_in_a_database() {
    let copy = copy();
    let store = copy.store();
    let new = NewSession::unnamed("/home/dev/work").unwrap().title("made");
    let writer = store
        .create(&copy.root, &new, WriteOptions::default())
        .unwrap();
    let id = writer.session();
    assert!(id.as_str().starts_with("ses_"), "{id}");
    writer.append_all(results()).unwrap();
    let session = copy.read(id.as_str());
    assert_eq!(session.title().unwrap().text, "made");
    assert_eq!(session.directories(), ["/home/dev/work"]);
    assert_eq!(conversations(&session)[0].len(), 4);
    // Its project is that of its directory.
    let database = Connection::open(database(&copy)).unwrap();
    let project: String = database
        .query_row(
            "SELECT p.worktree FROM session s JOIN project p ON p.id = s.project_id WHERE s.id = ?1",
            [id.as_str()],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(project, "/home/dev/work");
    let again = NewSession::new(id, "/home/dev/work");
    let refused = store.create(&copy.root, &again, QUICK).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
}

/// A change is written as a whole or not at all.
#[test]
fn result_without_its_call_writes_nothing() {
    let copy = copy();
    let before = tables(&database(&copy));
    let result = Block::ToolResult {
        call: "call_unknown".to_owned(),
        output: Vec::new(),
        is_error: true,
    };
    let drafts = vec![said(Role::User, "go on"), message(Role::User, vec![result])];
    let refused = copy.writer(SESSION).append_all(drafts).unwrap_err();
    assert!(refused.to_string().contains("no call"), "{refused}");
    assert_eq!(tables(&database(&copy)), before);
}

/// A database that is not exactly the known one is not written.
#[test]
fn foreign_and_newer_databases_are_refused() {
    let changes = [
        (
            "INSERT INTO migration VALUES ('20990101000000_next', 1)",
            "20990101000000_next",
        ),
        (
            "ALTER TABLE message ADD COLUMN seal TEXT NOT NULL DEFAULT 'x'",
            "",
        ),
        ("ALTER TABLE part RENAME COLUMN data TO body", "data"),
        ("DELETE FROM migration", "migrations"),
        (
            "CREATE TRIGGER spy AFTER INSERT ON message BEGIN DELETE FROM part; END",
            "triggers",
        ),
        ("PRAGMA journal_mode = DELETE", "journal mode"),
    ];
    for (change, why) in changes {
        let copy = copy();
        let writer = copy.writer(SESSION);
        let path = database(&copy);
        Connection::open(&path)
            .unwrap()
            .execute_batch(change)
            .unwrap();
        let before = tables(&path);
        let written = writer.append(said(Role::User, "go on"));
        if why.is_empty() {
            // A new column with a default does no harm.
            written.unwrap();
            continue;
        }
        let refused = written.unwrap_err().to_string();
        assert!(refused.contains(why), "{change}: {refused}");
        assert_eq!(tables(&path), before, "{change}");
    }
    // A new column without a default.
    let copy = copy();
    let path = database(&copy);
    let writer = copy.writer(SESSION);
    let edit = "PRAGMA writable_schema = ON;\
        UPDATE sqlite_schema SET sql = replace(sql, '`data` text NOT NULL,', '`data` text NOT NULL, seal text NOT NULL,') WHERE name = 'part'";
    let connection = Connection::open(&path).unwrap();
    if connection.execute_batch(edit).is_ok() {
        drop(connection);
        let refused = writer.append(said(Role::User, "go on")).unwrap_err();
        assert!(refused.to_string().contains("seal"), "{refused}");
    }
}

/// A writer that was opened before others wrote continues after them.
#[test]
fn writers_of_one_database_take_turns() {
    let copy = copy();
    let (one, other) = (copy.writer(SESSION), copy.writer(SESSION));
    let old = conversations(&copy.read(SESSION))[0].len();
    for number in 0..4 {
        one.append(said(Role::User, &format!("one {number}")))
            .unwrap();
        other
            .append(said(Role::Assistant, &format!("other {number}")))
            .unwrap();
    }
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let writer = copy.writer(SESSION);
            std::thread::spawn(move || {
                writer
                    .append(said(Role::User, &format!("thread {thread}")))
                    .unwrap();
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let all = conversations(&copy.read(SESSION));
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].len(), old + 12, "{all:?}");
}

#[test]
fn missing_database_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let root = annals::store::Root::new("opencode", dir.path()).unwrap();
    let store = annals::store::Store::new(vec![root.clone()]);
    let new = NewSession::unnamed("/w").unwrap();
    let refused = store.create(&root, &new, QUICK).unwrap_err();
    assert!(
        refused.to_string().contains("start the program"),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A session of another program goes on in the database, with the messages that its agent would send.
#[test]
fn session_of_another_layout_continues_in_the_database() {
    let copy = copy();
    let source: Session = case("2.1.325-s02-tools").only();
    let continued = convert::continue_in_rows(&copy.store(), &source, &copy.root, QUICK).unwrap();
    assert!(continued.is_new);
    let id = continued.id;
    let session = copy.read(id.as_str());
    let texts = |session: &Session| -> Vec<String> {
        let context = session.context(None).unwrap().into_iter();
        let blocks = context.flat_map(|message| message.blocks);
        blocks
            .filter_map(|block| match block {
                Block::Text(text) => Some(text),
                Block::ToolUse { id, input, .. } => Some(format!("{id} {input}")),
                Block::ToolResult { call, .. } => Some(call),
                _ => None,
            })
            .collect()
    };
    assert_eq!(texts(&session), texts(&source));
    let log = session.files.log.as_ref().unwrap();
    let entries = copy.root.entries(log).unwrap();
    assert!(entries.iter().all(|entry| !entry.copied), "{entries:?}");
    let before = tables(&database(&copy));
    let again = convert::continue_in_rows(&copy.store(), &source, &copy.root, QUICK).unwrap();
    assert_eq!(
        (again.id, again.is_new, again.difference),
        (id, false, None)
    );
    assert_eq!(tables(&database(&copy)), before);
    assert!(!copy.root.path.join(".annals-convert").exists());
}

fn sessions_with_origin(copy: &Copy) -> Vec<SessionFiles> {
    let is_origin = |file: &RootFile| file.artifact.kind == ArtifactKind::Origin;
    let mut sessions = copy.sessions();
    sessions.retain(|files| files.attachments.iter().any(is_origin));
    sessions
}

fn convert_sessions(sessions: Vec<SessionFiles>, to: &Root) -> convert::ConvertReport {
    let selection = convert::ConvertSelection::Sessions(sessions);
    let mut plan = convert::plan_into_root(selection, to.clone()).unwrap();
    let held = plan.withheld.clone();
    plan.restore_also(&held).unwrap();
    let mut options = convert::ConvertOptions::default();
    options.zone = jiff::tz::TimeZone::UTC;
    convert::run(&plan, &options, &|_, _| ()).unwrap()
}

/// Converted to the database and back, the files of a session have the same bytes.
#[test]
fn files_of_other_layouts_come_back_from_the_database() {
    let mut compared = 0;
    for case in crate::support::writable_cases() {
        let mut sessions = case.sessions();
        sessions.retain(|files| !files.is_unwritten());
        if sessions.is_empty() {
            continue;
        }
        let copy = copy();
        let there = convert_sessions(sessions.clone(), &copy.root);
        let dir = tempfile::tempdir().unwrap();
        let back = Root::new(case.layout.name(), dir.path().join("back")).unwrap();
        let converted = sessions_with_origin(&copy);
        assert_eq!(converted.len(), there.sessions, "{}", case.name);
        for (_, why) in &there.failed {
            let known = ["no messages", "a result belongs to no call"];
            assert!(
                known.iter().any(|known| why.contains(known)),
                "{}: {why}",
                case.name
            );
        }
        let report = convert_sessions(converted, &back);
        assert!(report.failed.is_empty(), "{}: {report:?}", case.name);
        assert_eq!(
            (report.added, report.damaged.len()),
            (0, 0),
            "{}",
            case.name
        );
        // A log of several sessions lacks those that were not converted.
        if !there.failed.is_empty() {
            continue;
        }
        for file in sessions.iter().flat_map(|files| files.files()) {
            for volume in file.volumes() {
                let within = volume.path.strip_prefix(&case.path).unwrap();
                let read = |root: &Path| std::fs::read(root.join(within)).unwrap_or_default();
                assert!(
                    read(&back.path) == read(&case.path),
                    "{}: {}",
                    case.name,
                    within.display()
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

/// Codex records instructions before the first prompt, from which the database would take a title.
#[test]
fn converted_session_keeps_a_title_from_its_prompt() {
    let copy = copy();
    let case = cases()
        .into_iter()
        .find(|case| case.name == "0.166-s02-tools");
    convert_sessions(case.unwrap().sessions(), &copy.root);
    let converted = sessions_with_origin(&copy).remove(0);
    let title = Session::read(converted).unwrap().title().unwrap();
    assert_eq!(title.text, "Read notes.txt and change beta");
}

/// What was added in the database is appended once to the session that it was converted from.
#[test]
fn messages_of_the_database_are_added_to_their_source() {
    let copy = copy();
    let is_it = |case: &Case| case.name == "2.1.325-s02-tools";
    let source = cases().into_iter().find(is_it).unwrap().copy();
    let files = source.sessions().remove(0);
    let log = files.log.clone().unwrap().path;
    let before = std::fs::read(&log).unwrap();
    let session = Session::read(files.clone()).unwrap();
    let continued = convert::continue_in_rows(&copy.store(), &session, &copy.root, QUICK).unwrap();
    let writer = copy.writer(continued.id.as_str());
    writer.append_all(results()).unwrap();
    let note = Body::Note {
        author: None,
        text: "ask again".to_owned(),
    };
    writer.append(Draft::new(note)).unwrap();
    writer
        .set_todos(&[Todo::pending("write the changelog")])
        .unwrap();
    drop(writer);
    for added in [6, 1] {
        let report = convert_sessions(sessions_with_origin(&copy), &source.root);
        assert!(report.failed.is_empty(), "{report:?}");
        assert_eq!(report.added, added, "{report:?}");
    }
    let after = std::fs::read_to_string(&log).unwrap();
    assert!(after.as_bytes().starts_with(&before));
    assert_eq!(after.matches("list the files").count(), 1);
    assert_eq!(after.matches("ask again").count(), 1);
    let session = source.read(files.id.as_str());
    let said: Vec<String> = conversations(&session).concat();
    let last = said.last().unwrap();
    assert!(last.contains("One file: "), "{last}");
    let todos = session.todos().unwrap();
    assert!(todos.iter().any(|(_, list)| list.len() == 1), "{todos:?}");
    // The database does not have what the source has now.
    let again = convert::continue_in_rows(&copy.store(), &session, &copy.root, QUICK).unwrap();
    assert_eq!(again.difference, Some("the source has changed since"));
}

/// A fork is a copy of the rows under other ids, up to a message.
#[test]
fn session_of_a_database_is_forked() {
    let copy = copy();
    let before = tables(&database(&copy));
    let session = copy.read(SESSION);
    let path = session.resumed_entries().0;
    let to = SessionId::new("ses_fork").unwrap();
    let now = "2026-11-20T10:00:00Z".parse().unwrap();
    let store = copy.store();
    let forked = store.fork(&session, &path, to, Some("Another way"), now);
    let forked = forked.unwrap().session;
    let fork = copy.read(forked.as_str());
    let said = |session: &Session| conversations(session)[0].clone();
    assert_eq!(said(&fork), said(&session));
    assert_eq!(fork.title().unwrap().text, "Another way");
    // A prompt in the middle.
    let prompts: Vec<usize> = (path.iter().copied())
        .filter(|&at| session.logs[0].outlines[at].human)
        .collect();
    let end = path
        .iter()
        .position(|at| at == prompts.last().unwrap())
        .unwrap();
    let to = SessionId::new("ses_part").unwrap();
    store.fork(&session, &path[..=end], to, None, now).unwrap();
    let part = copy.read("ses_part");
    assert_eq!(said(&part), said(&session)[..said(&part).len()]);
    assert!(said(&part).len() < said(&session).len());
    let after = tables(&database(&copy));
    for (table, rows) in &before {
        let is_copied = ["session", "message", "part"].contains(&table.as_str());
        assert!(rows.iter().all(|row| after[table].contains(row)), "{table}");
        assert_eq!(after[table].len() > rows.len(), is_copied, "{table}");
    }
    // Replies name prompts of their own session.
    let check = Connection::open(database(&copy)).unwrap();
    let lost: i64 = check
        .query_row(
            "SELECT count(*) FROM message m WHERE json_extract(m.data, '$.parentID') IS NOT NULL AND NOT EXISTS (\
             SELECT 1 FROM message p WHERE p.id = json_extract(m.data, '$.parentID') AND p.session_id = m.session_id)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(lost, 0);
    // What was copied is charged once.
    let charges = |copy: &Copy| {
        let ledger = copy.store().costs().ledger(&|_, _| ()).0;
        let mut tokens = annals::model::Usage::default();
        ledger
            .charges
            .iter()
            .for_each(|charge| tokens.add(&charge.usage).unwrap());
        tokens
    };
    assert_eq!(charges(&copy), charges(&self::copy()));
}

#[test]
fn notes_and_tags_are_parts_that_the_program_skips() {
    let copy = copy();
    let old = conversations(&copy.read(SESSION));
    let writer = copy.writer(SESSION);
    let note = Body::Note {
        author: None,
        text: "look at \"this\"".to_owned(),
    };
    let tag = Body::Tag {
        text: "important".to_owned(),
    };
    let written = writer.append_all(vec![Draft::new(note.clone()), Draft::new(tag)]);
    let written = written.unwrap();
    assert_eq!(written.len(), 2);
    assert_eq!(written[0].body, note);
    let session = copy.read(SESSION);
    assert_eq!(conversations(&session), old);
    assert_eq!(session.tag().as_deref(), Some("important"));
    writer.append(said(Role::User, "go on")).unwrap();
    assert_eq!(
        conversations(&copy.read(SESSION))[0].len(),
        old[0].len() + 1
    );
    let new = NewSession::unnamed("/home/dev/work").unwrap();
    let empty = copy.store().create(&copy.root, &new, QUICK).unwrap();
    let refused = empty.append(Draft::new(note)).unwrap_err().to_string();
    assert!(refused.contains("without messages"), "{refused}");
}

#[test]
fn todos_of_a_database_are_read() {
    let todos = copy().read(SESSION).todos().unwrap();
    let [(agent, list)] = todos.as_slice() else {
        panic!("{todos:?}");
    };
    assert_eq!(agent, SESSION);
    let texts: Vec<&str> = list.iter().map(|todo| todo.content.as_str()).collect();
    assert!(!texts.is_empty());
}

/// The list is replaced in one transaction, and only the rows of its session change.
#[test]
fn todos_of_a_database_are_written() {
    let copy = copy();
    let before = tables(&database(&copy));
    let writer = copy.writer(SESSION);
    let edited = writer
        .edit_todos(|_, _, mut list| {
            assert!(!list.is_empty());
            list.truncate(1);
            list.push(Todo::pending("second"));
            let mut last = Todo::pending("third \"quoted\"");
            last.status = TodoStatus::Completed;
            last.priority = Some("high".to_owned());
            list.push(last);
            Ok::<_, annals::Error>(list)
        })
        .unwrap();
    let mut lists = copy.read(SESSION).todos().unwrap();
    assert_eq!(lists.len(), 1);
    let (_, list) = lists.remove(0);
    assert_eq!(list.len(), 3);
    assert_eq!(list[2], edited[2]);
    assert_eq!(list[1].priority.as_deref(), Some("medium"));
    let after = tables(&database(&copy));
    for (table, rows) in &before {
        match table.as_str() {
            "todo" => assert_eq!(after[table].len(), 3),
            // The time of the last change.
            "session" => assert_eq!(after[table].len(), rows.len()),
            _ => assert_eq!(&after[table], rows, "{table}"),
        }
    }
    writer.set_todos(&[]).unwrap();
    assert!(copy.read(SESSION).todos().unwrap().is_empty());
}

/// Converted and converted back, the database has the same rows.
#[test]
fn rows_of_a_database_come_back() {
    let is_recorded =
        |case: &Case| case.layout.name() == "opencode" && case.name.starts_with("1.18");
    for case in cases().into_iter().filter(is_recorded) {
        for layout in ["claude-code", "codex", "clog"] {
            let name = format!("{} {layout}", case.name);
            let copy = case.copy();
            let wanted = tables(&database(&copy));
            let dir = tempfile::tempdir().unwrap();
            let there = annals::store::Root::new(layout, dir.path().join("there")).unwrap();
            let options = annals::convert::ConvertOptions::default();
            let convert = |from: &annals::store::Root, to: &annals::store::Root| {
                let selection = convert::ConvertSelection::Root(from.clone());
                let plan = convert::plan(selection, to.clone(), None).unwrap();
                let report = convert::run(&plan, &options, &|_, _| ()).unwrap();
                assert!(report.failed.is_empty(), "{name}: {:?}", report.failed);
                report
            };
            convert(&copy.root, &there);
            let connection = Connection::open(database(&copy)).unwrap();
            connection
                .execute_batch(
                    "PRAGMA foreign_keys = ON; DELETE FROM session; DELETE FROM message; DELETE FROM part; DELETE FROM todo;",
                )
                .unwrap();
            drop(connection);
            assert_ne!(tables(&database(&copy))["message"], wanted["message"]);
            convert(&there, &copy.root);
            let found = tables(&database(&copy));
            for table in ["session", "message", "part", "todo", "project"] {
                assert_eq!(found[table], wanted[table], "{name}: {table}");
            }
            // Again: nothing changes.
            let again = convert(&there, &copy.root);
            assert_eq!(again.sessions, 0, "{name}");
            assert_eq!(tables(&database(&copy)), found, "{name}");
        }
    }
}

/// A sub-agent is a session that names the one it works for, and hangs from its call.
#[test]
fn sub_agent_is_written_to_a_database() {
    let copy = copy();
    let writer = copy.writer(SESSION);
    let call = Block::ToolUse {
        id: "call_task".to_owned(),
        name: "task".to_owned(),
        input: "{}".to_owned(),
    };
    writer.append(message(Role::Assistant, vec![call])).unwrap();
    let id = AgentId::new("ses_child").unwrap();
    let mut spawn = Spawn::new(id.clone(), "general", "count  the files");
    spawn.call = Some("call_task".to_owned());
    let agent = writer.spawn(&spawn).unwrap();
    agent.append_all(results()).unwrap();
    let result = Block::ToolResult {
        call: "call_task".to_owned(),
        output: vec![Block::Text("three".to_owned())],
        is_error: false,
    };
    writer.append(message(Role::User, vec![result])).unwrap();
    let session = copy.read(SESSION);
    let [found] = session.agents.as_slice() else {
        panic!("{:?}", session.agents);
    };
    assert_eq!(found.id.as_ref(), Some(&id));
    assert_eq!(found.kind.as_deref(), Some("general"));
    assert_eq!(found.description.as_deref(), Some("count the files"));
    assert_eq!(found.messages, 4);
    assert!(found.call.is_some());
    let again = writer.spawn(&spawn).unwrap_err();
    assert!(again.to_string().contains("already exists"), "{again}");
    let named = AgentId::new("reviewer").unwrap();
    let refused = writer.spawn(&Spawn::new(named, "general", "")).unwrap_err();
    assert!(refused.to_string().contains("ses_"), "{refused}");
}

/// What annals does not do in a database changes nothing and names what does it.
#[test]
fn other_changes_of_a_database_are_refused() {
    let copy = copy();
    let before = tables(&database(&copy));
    let store = copy.store();
    let files = store.inventory().sessions.remove(0);
    let now = "2026-11-20T10:00:00Z".parse().unwrap();
    let refused = store.trash().move_in(&files, now).unwrap_err();
    assert!(
        refused.to_string().contains("opencode session delete"),
        "{refused}"
    );
    assert_eq!(tables(&database(&copy)), before);
}

/// Records of a conversion that somebody changed write nothing, or rows that can be read.
#[test]
fn changed_records_are_refused_or_written_as_a_whole() {
    let copy = copy();
    let dir = tempfile::tempdir().unwrap();
    let there = annals::store::Root::new("clog", dir.path().join("there")).unwrap();
    let convert = |from: &annals::store::Root, to: &annals::store::Root| {
        let selection = convert::ConvertSelection::Root(from.clone());
        let plan = convert::plan(selection, to.clone(), None).unwrap();
        convert::run(&plan, &Default::default(), &|_, _| ()).unwrap()
    };
    convert(&copy.root, &there);
    let empty = || {
        let connection = Connection::open(database(&copy)).unwrap();
        let all =
            "PRAGMA foreign_keys = ON; DELETE FROM session; DELETE FROM message; DELETE FROM part";
        connection.execute_batch(all).unwrap();
    };
    let mut logs = Vec::new();
    let mut pending = vec![there.path.clone()];
    while let Some(path) = pending.pop() {
        match path.is_dir() {
            true => pending.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|it| it.unwrap().path()),
            ),
            false => logs.push(path),
        }
    }
    for (old, new) in [
        (r#""id":"ses_"#, r#""id":"../ses_"#),
        (r#""session":"ses_"#, r#""session":"ses_x"#),
        (r#""created":"#, r#""created":"never","was":"#),
        (r#""project_id":"#, r#""project_id":"nowhere","was":"#),
        (r#""title":"#, r#""was":"#),
        (r#""parts":["#, r#""parts":[1,null,"#),
        (r#""data":{"#, r#""data":[{"#),
    ] {
        empty();
        let before = tables(&database(&copy));
        let mut kept = Vec::new();
        for log in &logs {
            let text = std::fs::read_to_string(log).unwrap();
            std::fs::write(log, text.replace(old, new)).unwrap();
            kept.push((log, text));
        }
        let report = convert(&there, &copy.root);
        let after = tables(&database(&copy));
        match report.failed.is_empty() {
            true => drop(copy.read(SESSION)),
            false => assert_eq!(after, before, "{old}: {:?}", report.failed),
        }
        let is_other = new.contains("ses_x") || new.contains("../ses_");
        assert!(!is_other || !report.failed.is_empty(), "{old}");
        kept.into_iter()
            .for_each(|(log, text)| std::fs::write(log, text).unwrap());
    }
}
