//! Examples of each kind of flaw.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};

use annals::model::{Block, Body, Draft, EntryId, FlawKind as F, Message, Role};
use annals::store::{Session, SessionFiles, Store, WriteOptions};

use super::{Made, SESSION, call, kinds, reply, reports, result, user};
use crate::support::{Case, case, cases};

/// Kind, fixture with the flaw, number of flaws, and a similar fixture without it.
const FIXTURES: &[(F, &str, usize, &str)] = &[
    (
        F::TornTail,
        "claude-code/torn-tail",
        1,
        "claude-code/final-newline-missing",
    ),
    (
        F::BadJson,
        "claude-code/only-noise",
        3,
        "claude-code/lone-surrogates",
    ),
    (
        F::NotAnObject,
        "claude-code/not-objects",
        5,
        "claude-code/blank-lines",
    ),
    (
        F::Glued,
        "claude-code/glued-records",
        1,
        "claude-code/deep-nesting",
    ),
    (
        F::NulRun,
        "claude-code/nul-runs",
        2,
        "claude-code/hostile-text",
    ),
    (
        F::BadUtf8,
        "claude-code/invalid-utf8",
        1,
        "claude-code/lone-surrogates",
    ),
    (
        F::Orphan,
        "claude-code/orphan",
        1,
        "claude-code/compaction-logical-parent-missing",
    ),
    (
        F::Cycle,
        "claude-code/cycle-of-three",
        1,
        "claude-code/parallel-tools-dag",
    ),
    (
        F::BadUsage,
        "claude-code/usage-absurd",
        7,
        "claude-code/usage-growing",
    ),
    (
        F::BadDocument,
        "claude-code/todos",
        2,
        "claude-code/2.1.325-s03-todos",
    ),
    (
        F::StaleIndex,
        "chorus/chorus-index-behind",
        1,
        "chorus/chorus-plain",
    ),
    (
        F::BadHeader,
        "clog/header-missing",
        2,
        "clog/every-role-and-channel",
    ),
    (
        F::NoType,
        "claude-code/unknown-types",
        2,
        "orchestrator/role-for-type",
    ),
    (
        F::NoId,
        "claude-code/agentpool-entry-types",
        1,
        "claude-code/unknown-types",
    ),
    (
        F::UnknownType,
        "orchestrator/unknown-types",
        3,
        "orchestrator/one-day",
    ),
    (
        F::UnknownFile,
        "claude-code/unknown-files",
        2,
        "claude-code/empty-project",
    ),
    (
        F::ForeignFile,
        "clog/names-by-hand",
        1,
        "clog/every-role-and-channel",
    ),
    (
        F::UnfitRecord,
        "clog/no-ids-no-times",
        4,
        "clog/every-role-and-channel",
    ),
    (
        F::MismatchedId,
        "clog/names-by-hand",
        1,
        "clog/every-role-and-channel",
    ),
    (F::Bom, "claude-code/bom", 1, "claude-code/crlf"),
    (F::Crlf, "claude-code/crlf", 1, "claude-code/bom"),
    (
        F::CollidingId,
        "claude-code/duplicate-uuid",
        1,
        "chorus/chorus-ids-twice",
    ),
    (
        F::RepeatedId,
        "clog/one-id-twice",
        4,
        "claude-code/duplicate-uuid",
    ),
    (
        F::CutHistory,
        "claude-code/compaction-logical-parent-missing",
        1,
        "claude-code/compaction",
    ),
    (
        F::DanglingCall,
        "chorus/chorus-every-type",
        1,
        "claude-code/dangling-tool-use",
    ),
    (
        F::LoneResult,
        "claude-code/result-without-call",
        1,
        "claude-code/parallel-tools-dag-swapped",
    ),
    (
        F::ForeignLines,
        "claude-code/foreign-lines",
        1,
        "orchestrator/two-sessions-one-log",
    ),
    (
        F::EmptyFile,
        "claude-code/empty-file",
        1,
        "orchestrator/empty-file",
    ),
    (
        F::OutOfOrder,
        "clog/times-out-of-order",
        1,
        "claude-code/out-of-order",
    ),
    (
        F::SeveralRoots,
        "claude-code/two-roots",
        1,
        "claude-code/branch-edited-prompt",
    ),
    (
        F::Dropped,
        "claude-code/orphan",
        1,
        "claude-code/glued-asides",
    ),
    (
        F::Unresumable,
        "claude-code/unknown-type-parent",
        1,
        "claude-code/unknown-types",
    ),
    (
        F::OlderClient,
        "claude-code/parallel-tools-dag",
        1,
        "claude-code/parallel-tools-linear",
    ),
    (
        F::Stray,
        "claude-code/subagents-without-session",
        1,
        "claude-code/subagents-every-placement",
    ),
    (
        F::MissingFile,
        "claude-code/file-history",
        1,
        "claude-code/2.1.325-s07-big",
    ),
    (
        F::IndexDrift,
        "claude-code/sessions-index-stale",
        1,
        "chorus/chorus-index-behind",
    ),
    (
        F::LostLeaf,
        "claude-code/title-summary-same-file",
        1,
        "claude-code/title-summary-other-file",
    ),
    (
        F::SharedId,
        "claude-code/same-session-two-projects",
        1,
        "claude-code/moved-project",
    ),
    (
        F::SharedFolder,
        "claude-code/two-projects-one-folder",
        1,
        "claude-code/moved-project",
    ),
];

/// Kinds that have their own tests, here and in `machine`.
const MADE: &[F] = &[
    F::Oversize,
    F::DuplicateId,
    F::Unreadable,
    F::UnreadLink,
    F::UnfinishedRemoval,
    F::BlockedLock,
    F::RowWithoutLog,
    F::RowMismatch,
    F::UnmatchedEntry,
    F::MovedEntry,
    F::OnlyArchived,
    F::OpenMode,
    F::Network,
    F::Expiring,
];

#[test]
fn each_kind_has_a_positive_and_a_negative_fixture() {
    let find = |name: &str| {
        let mut all = cases().into_iter();
        all.find(|case| format!("{}/{}", case.layout.name(), case.name) == name)
            .unwrap_or_else(|| panic!("no fixture {name}"))
    };
    for (kind, shows, times, comes_close) in FIXTURES {
        let found = kinds(&find(shows).root());
        assert_eq!(found.get(kind), Some(times), "{shows}: {found:?}");
        let found = kinds(&find(comes_close).root());
        assert_eq!(found.get(kind), None, "{comes_close}: {found:?}");
    }
    let shown = |kind: &F| FIXTURES.iter().any(|row| row.0 == *kind) || MADE.contains(kind);
    let untested: Vec<&F> = F::ALL.iter().filter(|kind| !shown(kind)).collect();
    assert!(untested.is_empty(), "{untested:?}");
}

#[test]
fn identical_copies_are_duplicate_and_not_colliding_ids() {
    let healthy = [user(1, None), reply(2, Some(1))];
    assert_eq!(kinds(&Made::from_lines(&healthy).root()), [].into());
    let copied = [user(1, None), reply(2, Some(1)), reply(2, Some(1))];
    assert_eq!(
        kinds(&Made::from_lines(&copied).root()),
        [(F::DuplicateId, 1)].into()
    );
    let later = reply(2, Some(1)).replace(":02:00.000Z", ":02:01.000Z");
    let touched = [user(1, None), reply(2, Some(1)), later];
    assert_eq!(
        kinds(&Made::from_lines(&touched).root()),
        [(F::DuplicateId, 1)].into()
    );
    let other = reply(2, Some(1)).replace("answer", "something else than answer");
    let collides = [user(1, None), reply(2, Some(1)), other];
    assert_eq!(
        kinds(&Made::from_lines(&collides).root()),
        [(F::CollidingId, 1)].into()
    );
}

#[test]
fn call_is_dangling_only_if_the_conversation_continued() {
    let begins = [user(1, None), call(2, Some(1), "a")];
    let with = |more: &[String]| kinds(&Made::from_lines(&[&begins, more].concat()).root());
    assert_eq!(with(&[]), [].into(), "it may still be running");
    assert_eq!(with(&[user(3, Some(2))]), [(F::DanglingCall, 1)].into());
    let answered = [result(3, Some(2), "a"), user(4, Some(3))];
    assert_eq!(with(&answered), [].into());
    let twice = [
        result(3, Some(2), "a"),
        call(2, Some(1), "a"),
        result(4, Some(3), "a"),
    ];
    assert_eq!(with(&twice), [(F::DuplicateId, 1)].into());
    // The prompt was edited while the tool ran: the call is the leaf of its own branch.
    assert_eq!(with(&[user(3, Some(1)), reply(4, Some(3))]), [].into());
    assert_eq!(
        with(&[result(3, Some(2), "b")]),
        [(F::LoneResult, 1)].into()
    );
}

#[test]
fn result_before_its_call_is_not_a_flaw() {
    let lines = [
        user(1, None),
        result(3, Some(2), "a"),
        call(2, Some(1), "a"),
        reply(4, Some(3)),
    ];
    assert_eq!(kinds(&Made::from_lines(&lines).root()), [].into());
}

#[test]
fn check_counts_messages_a_client_would_leave_out() {
    let detail = |lines: &[String]| {
        let made = Made::from_lines(lines);
        let flaws = reports(&made.root()).remove(0).flaws.into_iter();
        let mut dropped = flaws.filter(|flaw| matches!(flaw.kind, F::Dropped | F::Unresumable));
        let found = dropped
            .next()
            .map(|flaw| (flaw.kind, flaw.span.line, flaw.detail));
        assert!(dropped.next().is_none(), "reported once");
        found
    };
    let whole = [
        user(1, None),
        reply(2, Some(1)),
        user(3, Some(2)),
        reply(4, Some(3)),
    ];
    assert_eq!(detail(&whole), None);
    // The second line is damaged, so the third has no parent.
    let mut damaged = whole.clone();
    damaged[1] = damaged[1].replace("uuid", "uu\u{1}id");
    let (kind, line, said) = detail(&damaged).unwrap();
    assert_eq!((kind, line), (F::Dropped, 3));
    assert!(
        said.contains("reads 2 messages and may omit 1 before"),
        "{said}"
    );
    // Damage without children hides only itself.
    let mut last = whole.clone();
    last[3] = last[3].replace("uuid", "uu\u{1}id");
    assert_eq!(detail(&last), None);
    // The client does not follow links through unknown types.
    let mut strange = whole.clone();
    strange[1] = strange[1].replacen("\"type\":\"assistant\"", "\"type\":\"new\"", 1);
    let (kind, line, said) = detail(&strange).unwrap();
    assert_eq!((kind, line), (F::Unresumable, 3));
    assert!(
        said.contains("reads 2 messages and may omit 1 before"),
        "{said}"
    );
    // Outside the chain they do no harm.
    let aside = user(9, Some(1)).replacen("\"type\":\"user\"", "\"type\":\"new\"", 1);
    assert_eq!(detail(&[&whole[..3], &[aside], &whole[3..]].concat()), None);
    // If the last message has no time, the client finds no conversation.
    let timeless = whole.clone().map(|line| line.replace("timestamp", "when"));
    assert!(
        detail(&timeless)
            .unwrap()
            .2
            .contains("no record has a time")
    );
    let mut once = timeless;
    once[2] = whole[2].clone();
    let (kind, line, said) = detail(&once).unwrap();
    assert_eq!((kind, line), (F::Unresumable, 4));
    assert!(said.contains("the last message has no time"), "{said}");
    once[3] = whole[3].clone();
    assert_eq!(detail(&once), None);
}

/// Returns a line that names the leaf to resume from.
fn named(leaf: u32) -> String {
    let leaf = format!("00000000-0000-4000-8000-{leaf:012}");
    format!(r#"{{"type":"last-prompt","leafUuid":"{leaf}","sessionId":"{SESSION}"}}"#)
}

#[test]
fn check_counts_messages_after_the_resume_entry() {
    let lines = |lines: &[String]| {
        let flaws = reports(&Made::from_lines(lines).root())
            .remove(0)
            .flaws
            .into_iter();
        let left_out = flaws.filter(|flaw| matches!(flaw.kind, F::Unresumable | F::OlderClient));
        let reported: Vec<(F, u64, String)> = left_out
            .map(|flaw| (flaw.kind, flaw.span.line, flaw.detail))
            .collect();
        reported
    };
    let base = [
        user(1, None),
        reply(2, Some(1)),
        user(3, Some(2)),
        reply(4, Some(3)),
    ];
    let branch = [user(5, Some(2)), reply(6, Some(5))];
    // An inner entry is named, and the file ends with another branch.
    let inner = [&base[..], &[named(3)], &branch].concat();
    let reported = lines(&inner);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!((reported[0].0, reported[0].1), (F::Unresumable, 3));
    assert!(reported[0].2.contains("omits 1 message after it"));
    // The file continues below the named entry.
    assert_eq!(lines(&[&base[..], &[named(3)]].concat()), []);
    // A reply before its prompt is read, unless its time is also earlier.
    let swapped = [
        base[0].clone(),
        base[1].clone(),
        base[3].clone(),
        base[2].clone(),
    ];
    assert_eq!(lines(&swapped), []);
    let newer = base[2].replace(":03:00.000Z", ":05:00.000Z");
    let older = [base[0].clone(), base[1].clone(), base[3].clone(), newer];
    let reported = lines(&older);
    assert_eq!(
        (reported[0].0, reported[0].1),
        (F::Unresumable, 4),
        "{reported:?}"
    );
}

#[test]
fn messages_left_out_by_older_clients_are_a_note() {
    let reported = |lines: &[String]| {
        let flaws = reports(&Made::from_lines(lines).root())
            .remove(0)
            .flaws
            .into_iter();
        let mut flaws = flaws.filter(|flaw| flaw.kind == F::OlderClient);
        let reported = flaws.next().map(|flaw| (flaw.span.line, flaw.detail));
        assert!(flaws.next().is_none(), "reported once");
        reported
    };
    let base = [
        user(1, None),
        reply(2, Some(1)),
        user(3, Some(2)),
        reply(4, Some(3)),
    ];
    let branch = [user(5, Some(2)), reply(6, Some(5))];
    assert_eq!(reported(&base), None);
    assert_eq!(reported(&[&base[..], &branch].concat()), None);
    let (line, said) = reported(&[&base[..], &branch, &[named(4)]].concat()).unwrap();
    assert_eq!(line, 6);
    assert!(said.contains("omits 2 messages"), "{said}");
    assert!(said.contains("continues from the newest entry"), "{said}");
    let progress = user(3, Some(2)).replacen("\"type\":\"user\"", "\"type\":\"progress\"", 1);
    let chain = [
        base[0].clone(),
        base[1].clone(),
        progress,
        reply(4, Some(3)),
    ];
    let (line, said) = reported(&chain).unwrap();
    assert_eq!(line, 4);
    assert!(
        said.contains("does not read the parent of this entry"),
        "{said}"
    );
    let equal = base.clone().map(|line| {
        let at = line.find("T0").unwrap();
        format!("{}T00:00:00.000Z{}", &line[..at], &line[at + 14..])
    });
    let (line, said) = reported(&equal).unwrap();
    assert_eq!(line, 1);
    assert!(said.contains("omits 3 messages"), "{said}");
}

#[test]
fn only_lines_above_the_limit_are_oversize() {
    let made = Made::from_lines(&[user(1, None), reply(2, Some(1))]);
    let path = made.path().join(format!("projects/-w/{SESSION}.jsonl"));
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let end = file.seek(SeekFrom::End(0)).unwrap();
    let cap = annals::jsonl::MAX_LINE as u64;
    // A sparse run of zeros; the cap includes the line ending.
    for (length, kind) in [(cap + 1, F::Oversize), (cap, F::NulRun)] {
        file.set_len(end).unwrap();
        file.set_len(end + length).unwrap();
        file.seek(SeekFrom::Start(end + length - 1)).unwrap();
        file.write_all(b"\n").unwrap();
        assert_eq!(kinds(&made.root()), [(kind, 1)].into(), "{length}");
    }
}

#[test]
fn removed_log_is_unreadable() {
    let made = Made::from_lines(&[user(1, None)]);
    let files: SessionFiles = made.inventory().sessions.remove(0);
    let path = made.path().join(format!("projects/-w/{SESSION}.jsonl"));
    let unreadable = |session: annals::Result<Session>| match session {
        Ok(session) => {
            let mut flaws = session.logs.iter().flat_map(|log| &log.flaws);
            flaws.any(|flaw| flaw.kind == F::Unreadable)
        }
        Err(_) => true,
    };
    assert!(!unreadable(Session::read(files.clone())));
    fs::remove_file(&path).unwrap();
    assert!(unreadable(Session::read(files.clone())));
    let root = made.root();
    let found = annals::check::file(&root, files.log.as_ref().unwrap());
    assert!(found.is_err(), "a check says that it could not look");
}

#[test]
fn companion_entry_without_a_matching_line_is_a_flaw() {
    let copy = case("one-day").copy();
    let files = copy.sessions().remove(0);
    let log = files.log.as_ref().unwrap().path.clone();
    let writer = copy
        .store()
        .open_writer(&files, WriteOptions::default())
        .unwrap();
    let system = Message::new(Role::System, vec![Block::Text("Be brief.".to_owned())]);
    writer.append(Draft::new(Body::Message(system))).unwrap();
    writer
        .append(Draft::user("Otherwise").with_id(EntryId::new("given")))
        .unwrap();
    drop(writer);
    assert_eq!(kinds(&copy.root).get(&F::UnmatchedEntry), None);
    let text = fs::read_to_string(&log).unwrap();
    // A moved line is found again; a changed line is not.
    let moved = text.lines().skip(1).collect::<Vec<_>>().join("\n") + "\n";
    fs::write(&log, moved).unwrap();
    assert_eq!(kinds(&copy.root).get(&F::UnmatchedEntry), None);
    fs::write(&log, text.replace("Otherwise", "Other")).unwrap();
    assert_eq!(kinds(&copy.root).get(&F::UnmatchedEntry), Some(&1));
}

#[test]
fn row_without_log_is_a_flaw_if_it_counts_messages() {
    let copy = case("chorus-plain").copy();
    assert_eq!(kinds(&copy.root).get(&F::RowWithoutLog), None);
    let log = copy.sessions().remove(0).log.unwrap().path;
    fs::remove_file(log).unwrap();
    assert_eq!(kinds(&copy.root).get(&F::RowWithoutLog), Some(&1));
}

#[test]
fn row_whose_log_is_archived_suggests_restore() {
    let copy = case("chorus-plain").copy();
    let state = tempfile::tempdir().unwrap();
    let store = Store::new(vec![copy.root.clone()]).with_state(state.path());
    let files = copy.sessions().remove(0);
    let (id, log) = (files.id.clone(), files.log.as_ref().unwrap().path.clone());
    store
        .copy_to_archive(&[&files], jiff::Timestamp::now())
        .unwrap();
    fs::remove_file(log).unwrap();
    let inventory = store.inventory_without_archive();
    let archive = store.archive().unwrap();
    let reported = |archive| {
        let reports = annals::check::all(&inventory, archive, &|_, _| {});
        let flaws = reports.into_iter().flat_map(|report| report.unwrap().flaws);
        let rows = flaws.filter(|flaw| matches!(flaw.kind, F::RowWithoutLog | F::OnlyArchived));
        rows.map(|flaw| (flaw.kind, flaw.detail))
            .collect::<Vec<_>>()
    };
    let without = reported(None);
    assert_eq!(without.len(), 1, "{without:?}");
    assert_eq!(without[0].0, F::RowWithoutLog);
    let with = reported(Some(&archive));
    assert_eq!(with.len(), 1, "{with:?}");
    assert_eq!(with[0].0, F::OnlyArchived);
    let way = format!("`annals restore {id} --apply`");
    assert!(with[0].1.contains(&way), "{with:?}");
    assert!(with[0].1.contains("listed with"), "{with:?}");
}

#[test]
fn sessions_index_drifts_only_if_it_lists_a_missing_session() {
    let made = Made::from_lines(&[user(1, None)]);
    for (id, drifts) in [
        (SESSION, None),
        ("22222222-2222-4333-8444-555555555555", Some(&1)),
    ] {
        let index = format!(r#"{{"version":1,"entries":[{{"sessionId":"{id}"}}]}}"#);
        made.put("projects/-w/sessions-index.json", index.as_bytes());
        assert_eq!(kinds(&made.root()).get(&F::IndexDrift), drifts, "{id}");
    }
}

/// Databases that programs derive from their logs are only compared.
#[test]
fn derived_databases_drift_from_their_logs() {
    let bases = [
        ("codex", "0.166-s02-tools", "state_5.sqlite", "threads"),
        ("copilot", "1.0-s01-qa", "session-store.db", "sessions"),
    ];
    for (layout, name, file, table) in bases {
        let is_it = |case: &Case| case.layout.name() == layout && case.name == name;
        let copy = cases().into_iter().find(is_it).unwrap().copy();
        let path = copy.root.path.join(file);
        let drift = || kinds(&copy.root).get(&F::IndexDrift).copied();
        assert_eq!(drift(), None, "{layout}");
        let database = rusqlite::Connection::open(&path).unwrap();
        let run = |sql: &str| {
            database
                .execute_batch(&sql.replace("TABLE_NAME", table))
                .unwrap()
        };
        run("CREATE TABLE TABLE_NAME (id TEXT PRIMARY KEY, title TEXT)");
        assert_eq!(drift(), Some(1), "{layout}: lacks a session");
        for session in copy.store().inventory().sessions {
            database
                .execute(
                    &format!("INSERT INTO {table} (id) VALUES (?1)"),
                    [session.id.as_str()],
                )
                .unwrap();
        }
        assert_eq!(drift(), None, "{layout}");
        run("INSERT INTO TABLE_NAME (id) VALUES ('gone')");
        assert_eq!(drift(), Some(1), "{layout}: lists a session without a log");
        drop(database);
        std::fs::write(&path, "torn").unwrap();
        assert_eq!(drift(), Some(1), "{layout}: cannot be read");
    }
}

#[test]
fn file_named_by_a_copied_record_is_searched_in_all_sessions() {
    let stub = result(3, Some(2), "a").replacen(
        "{",
        r#"{"toolUseResult":{"persistedOutputPath":"/home/x/.claude/projects/-w/s/tool-results/long.txt"},"#,
        1,
    );
    let made = Made::from_lines(&[user(1, None), call(2, Some(1), "a"), stub]);
    assert_eq!(kinds(&made.root()), [(F::MissingFile, 1)].into());
    let other = "33333333-2222-4333-8444-555555555555";
    made.put(
        &format!("projects/-w/{other}.jsonl"),
        user(1, None).replace(SESSION, other).as_bytes(),
    );
    made.put(
        &format!("projects/-w/{other}/tool-results/long.txt"),
        b"long",
    );
    assert_eq!(kinds(&made.root()), [].into());
}

#[test]
fn empty_todo_list_without_session_is_not_a_stray() {
    let made = Made::from_lines(&[user(1, None)]);
    let gone = "22222222-2222-4333-8444-555555555555";
    let todos = format!("todos/{gone}-agent-{gone}.json");
    made.put(&todos, b"[]");
    assert_eq!(kinds(&made.root()), [].into());
    made.put(&todos, br#"[{"content":"x","status":"pending"}]"#);
    assert_eq!(kinds(&made.root()), [(F::Stray, 1)].into());
}

#[test]
fn links_that_hide_files_are_reported() {
    let made = Made::from_lines(&[user(1, None)]);
    let root = made.root();
    std::os::unix::fs::symlink("-w", root.path.join("projects/-same")).unwrap();
    assert_eq!(kinds(&root).get(&F::UnreadLink), None);
    std::os::unix::fs::symlink("/", root.path.join("projects/-all")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", root.path.join("settings.json")).unwrap();
    assert_eq!(kinds(&root).get(&F::UnreadLink), Some(&2));
}

/// A killed process leaves this state.
#[test]
fn a_file_that_was_being_removed_is_reported_and_put_back() {
    let made = Made::from_lines(&[user(1, None)]);
    let root = made.root();
    let name = format!("{SESSION}-agent-{SESSION}.json");
    let removed = format!("todos/.annals-{name}.removed");
    made.put(&removed, b"[]");
    assert_eq!(kinds(&root), [(F::UnfinishedRemoval, 1)].into());
    let found = reports(&root).into_iter();
    let mut found = found.filter(|report| !report.flaws.is_empty());
    let report = found.next().unwrap();
    assert!(report.fixable(F::UnfinishedRemoval));
    assert!(report.flaws[0].detail.contains(&name), "{report:?}");
    let todos = root.path.join("todos").join(name);
    let store = Store::new(vec![root.clone()]);
    assert_eq!(
        store.repairs().put_back_removed().unwrap(),
        [todos.as_path()]
    );
    assert_eq!(fs::read(&todos).unwrap(), b"[]");
    assert_eq!(kinds(&root), [].into());
    assert!(store.repairs().put_back_removed().unwrap().is_empty());
}

/// Nobody but the user knows which of two files has the history.
#[test]
fn saved_file_is_reported_and_left_alone() {
    let made = Made::from_lines(&[user(1, None)]);
    let root = made.root();
    for saved in [
        format!("projects/-w/{SESSION}.jsonl.annals-saved"),
        format!("projects/-w/{SESSION}/subagents/agent-a.jsonl.annals-saved-2"),
        format!("projects/-w/{SESSION}/tool-results/.annals-0123456789abcdef.removed"),
    ] {
        made.put(&saved, user(1, None).as_bytes());
        let flaws = kinds(&root);
        assert_eq!(flaws, [(F::UnfinishedRemoval, 1)].into(), "{saved}");
        let mut found = reports(&root).into_iter();
        let report = found.find(|report| report.path.ends_with(&saved)).unwrap();
        let kind = F::UnfinishedRemoval;
        assert_eq!(kind.severity(), annals::model::Severity::Error);
        assert!(!report.fixable(kind), "{saved}");
        assert!(report.advice(kind).contains("rename it"), "{saved}");
        let store = Store::new(vec![root.clone()]);
        assert!(store.repairs().put_back_removed().unwrap().is_empty());
        assert!(root.path.join(&saved).exists());
        fs::remove_file(root.path.join(&saved)).unwrap();
    }
}
