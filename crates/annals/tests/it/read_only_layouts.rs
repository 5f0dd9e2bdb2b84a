//! Layouts that are read but not written: Gemini CLI, OpenCode, Codex and pi.

use std::fs;

use annals::layout::{LAYOUTS, NewSession};
use annals::model::{Artifact, ArtifactKind, Block, Body, Role, SessionId, Usage};
use annals::repair::LineEdits;
use annals::search::{Dialect, Query};
use annals::store::{Root, Session, Store};
use rusqlite::Connection;

use crate::support::{Case, Copy, QUICK, case, cases, fixtures, indexed, picture};

/// Returns the texts of the hits of a query, without the index and with it, which must agree.
fn hits(copy: &Copy, query: &str) -> Vec<String> {
    let store = copy.store();
    let inventory = store.inventory();
    let query = Query::parse(query, &Dialect::default()).unwrap();
    let plain = store.search(&inventory, &query).unwrap();
    assert!(plain.errors.is_empty(), "{:?}", plain.errors);
    let index = indexed(&store, &copy.dir.path().join("state"));
    for _ in 0..2 {
        let found = index.search(&inventory, &query).unwrap();
        assert_eq!(format!("{:?}", found.hits), format!("{:?}", plain.hits));
        let handle = index.index().unwrap();
        let errors = handle.update_text(&inventory, &|_, _| {}, &|| false);
        let errors = errors.unwrap();
        assert!(errors.is_empty(), "{errors:?}");
    }
    let hits = plain.hits.iter();
    hits.map(|hit| {
        hit.entry
            .as_ref()
            .map_or(String::new(), ToString::to_string)
    })
    .collect()
}

#[test]
fn search_finds_rows_that_were_added_updated_and_removed_since_the_last_one() {
    let copy = case("1.18-s03-fork").copy();
    let program = Connection::open(copy.root.path.join("opencode.db")).unwrap();
    program.pragma_update(None, "journal_mode", "WAL").unwrap();
    assert_eq!(hits(&copy, "zebra"), [""; 0]);
    let part = "SELECT id FROM part WHERE data LIKE '%Hello after revert%'";
    let part: String = program.query_row(part, [], |row| row.get(0)).unwrap();
    // The program sets the time with every change.
    let set = |text: &str| {
        let sql = "UPDATE part SET data = json_object('type', 'text', 'text', ?2), time_updated = time_updated + 1 WHERE id = ?1";
        program.execute(sql, (&part, text)).unwrap();
    };
    set("a zebra");
    assert_eq!(hits(&copy, "zebra"), ["msg_1e493502a0019S9l4Oh10DN0W4"]);
    // The same length.
    set("a camel");
    assert_eq!(hits(&copy, "zebra"), [""; 0]);
    assert_eq!(hits(&copy, "camel"), ["msg_1e493502a0019S9l4Oh10DN0W4"]);
    program
        .execute("DELETE FROM part WHERE id = ?1", [&part])
        .unwrap();
    assert_eq!(hits(&copy, "camel"), [""; 0]);
    drop(program);
    assert_eq!(hits(&copy, "camel"), [""; 0]);
}

/// The list reads only sessions whose state has changed.
#[test]
fn change_of_one_session_of_a_database_does_not_read_the_others_again() {
    let copy = case("1.18-s03-fork").copy();
    let program = Connection::open(copy.root.path.join("opencode.db")).unwrap();
    program.pragma_update(None, "journal_mode", "WAL").unwrap();
    let store = indexed(&copy.store(), &copy.dir.path().join("state"));
    let entries = || {
        let inventory = store.inventory();
        let rows = store.sessions(&inventory).read(&|_, _| {});
        let rows = rows.into_iter().map(|row| row.unwrap());
        rows.map(|row| (row.id.to_string(), row.entries))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = entries();
    let [other, changed, ..] = before.keys().collect::<Vec<_>>()[..] else {
        panic!("{before:?}")
    };
    // Not a change that the program makes: it shows whether the session is read.
    let first = "UPDATE message SET data = '{}' WHERE id = (SELECT id FROM message WHERE session_id = ?1 ORDER BY time_created, id LIMIT 1)";
    for session in [other, changed] {
        let messages: i64 = program
            .query_row(
                "SELECT count(*) FROM message WHERE session_id = ?1",
                [session],
                |row| row.get(0),
            )
            .unwrap();
        let filled = "INSERT INTO message SELECT 'msg_zz' || value || session_id, session_id, time_created + value, time_updated, data FROM message, generate WHERE session_id = ?1 GROUP BY value";
        let filled = filled.replace(
            "FROM message, generate",
            "FROM message, (SELECT 1 AS value UNION SELECT 2 UNION SELECT 3 UNION SELECT 4)",
        );
        assert_eq!(
            program.execute(&filled, [session]).unwrap(),
            4,
            "{messages}"
        );
    }
    let filled = entries();
    assert_eq!(entries(), filled);
    program.execute(first, [other]).unwrap();
    program.execute(first, [changed]).unwrap();
    let touch = "UPDATE session SET time_updated = time_updated + 1 WHERE id = ?1";
    program.execute(touch, [changed]).unwrap();
    let after = entries();
    assert_eq!(after[other], filled[other]);
    let store = copy.store();
    let plain = store.sessions(&store.inventory()).read(&|_, _| {});
    let mut plain = plain.into_iter().map(|row| row.unwrap());
    let plain = plain.find(|row| row.id.as_str() == changed).unwrap();
    assert_eq!(after[changed], plain.entries);
}

#[test]
fn session_of_a_database_is_found_by_its_path() {
    let copy = case("1.18-s03-fork").copy();
    let store = copy.store();
    let inventory = store.inventory();
    let database = copy.root.path.join("opencode.db");
    let id = "ses_e1b6cf6e0ffeSWGM6gvj038gbZ";
    let found = |path: &std::path::Path| store.find(&inventory, path.to_str().unwrap());
    assert_eq!(found(&database.join(id)).unwrap().files.id.as_str(), id);
    match found(&database).unwrap_err() {
        annals::Error::Ambiguous { candidates, .. } => assert_eq!(candidates.len(), 3),
        other => panic!("{other}"),
    }
    assert!(found(&database.join("ses_x")).is_err());
    let only = case("1.18-s02-tools");
    let store = Store::new(vec![only.root()]);
    let path = only.root().path.join("opencode.db");
    assert!(
        store
            .find(&store.inventory(), path.to_str().unwrap())
            .is_ok()
    );
}

#[test]
fn search_finds_each_message_of_a_resumed_patch_log_once() {
    let copy = case("patches-resume").copy();
    // The history is written again by both resumes.
    assert_eq!(hits(&copy, "capital").len(), 2);
}

/// A resume writes the history without tokens, a call writes its message twice.
#[test]
fn each_gemini_response_is_charged_once() {
    for (name, requests, output) in [
        ("patches-resume", 3, 8 + 7 + 2 + 6),
        ("patches-tools", 4, 33 + 5 + 41 + 85 + 11),
        ("document-qa", 3, 8 + 7 + 2 + 6),
        ("made-sub-agent", 3, 5 + 1 + 3 + 4),
    ] {
        let store = Store::new(vec![case(name).root()]);
        let ledger = store.costs().ledger(&|_, _| {}).0;
        let charges = ledger.charges;
        assert_eq!(charges.len(), requests, "{name}");
        let sum: u64 = charges.iter().map(|charge| charge.usage.output).sum();
        assert_eq!(sum, output, "{name}");
    }
}

/// Returns the number of responses of a fixture and their tokens: input, cached input, output.
fn charged(layout: &str, name: &str) -> [u64; 4] {
    let is_it = |case: &Case| case.layout.name() == layout && case.name == name;
    let case = cases().into_iter().find(is_it).unwrap();
    let charges = Store::new(vec![case.root()])
        .costs()
        .ledger(&|_, _| {})
        .0
        .charges;
    let sum = |count: fn(&Usage) -> u64| charges.iter().map(|it| count(&it.usage)).sum();
    [
        charges.len() as u64,
        sum(|usage| usage.input),
        sum(|usage| usage.cache_read),
        sum(|usage| usage.output),
    ]
}

/// The expected sums were added up by hand from the files. Forks repeat responses and sums of their
/// parents, resumes repeat sums, and a compaction is a response without a message.
#[test]
fn each_codex_response_is_charged_once() {
    for (name, expected) in [
        ("0.80-s01-qa", [3, 6675, 20022, 19]),
        ("0.80-s06-interrupt", [2, 4450, 13347, 17]),
        ("0.80-s09-unicode", [2, 4463, 13385, 47]),
        ("0.166-s02-tools", [4, 10159, 30471, 127]),
        ("0.166-s03-fork", [4, 9968, 29898, 25]),
        ("0.166-s05-compact", [5, 10390, 31161, 53]),
        ("0.166-s08-errors", [1, 2466, 7397, 6]),
        ("0.166-s12-tui", [4, 10701, 32094, 40]),
        // One response of the parent is in both rollouts.
        (
            "made-copied-fork",
            [3, 80 + 10 + 20, 20 + 100 + 110, 5 + 4 + 3],
        ),
        ("made-sub-agent", [3, 60 + 20 + 20, 40 + 100, 6 + 4 + 3]),
        (
            "made-rollback",
            [
                5,
                80 + 10 + 80 + 10 + 40,
                20 + 100 + 20 + 100 + 80,
                5 + 4 + 5 + 4 + 3,
            ],
        ),
    ] {
        assert_eq!(charged("codex", name), expected, "{name}");
    }
}

/// A fork copies entries with their ids, and a compaction is a response without a message.
#[test]
fn each_pi_response_is_charged_once() {
    for (name, expected) in [
        ("0.73-s01-qa", [3, 4369, 0, 19]),
        ("0.73-s06-interrupt", [7, 11018, 0, 126]),
        ("0.87-s02-tools", [4, 6559, 0, 107]),
        ("0.87-s03-tree", [5, 7628, 0, 31]),
        ("0.87-s05-compact", [10, 15729, 0, 162]),
        ("0.87-s11-forkcli", [5, 7585, 0, 31]),
    ] {
        assert_eq!(charged("pi", name), expected, "{name}");
    }
}

#[test]
fn fork_by_reference_continues_its_parent() {
    let case = case("0.166-s03-fork");
    let fork = case.session("01a1e488-cca5");
    let prompts = |session: &Session| -> Vec<String> {
        let (_, scan, _) = session.main_log().unwrap();
        let prompts = scan.outlines.iter().filter_map(|it| it.prompt());
        prompts.map(str::to_owned).collect()
    };
    let asked = [
        "What is the capital of France?",
        "And of Spain?",
        "A third question",
    ];
    assert_eq!(prompts(&fork), asked);
    let tree = fork.tree().unwrap();
    assert_eq!(tree.conversations.len(), 1);
    assert_eq!(tree.flaws, []);
    // The parent is charged for its part.
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    let rows = store.sessions(&inventory).read(&|_, _| {}).into_iter();
    let mut counts: Vec<(String, usize)> = rows
        .map(|row| row.unwrap())
        .map(|row| (row.id.to_string(), row.charges.len()))
        .collect();
    counts.sort();
    let counts: Vec<usize> = counts.into_iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [3, 1]);
    let parent = case.session("01a1e488-9f87");
    let asked = [
        "What is the capital of France?",
        "And of Spain?",
        "Hello again on the parent",
    ];
    assert_eq!(prompts(&parent), asked);
}

/// Returns the texts that a session would be resumed with, as in the recordings: `role kind: text`.
fn resumed(session: &Session) -> Vec<String> {
    let path = session.tree().unwrap().resumed_path().unwrap_or_default();
    let mut texts = Vec::new();
    let mut add = |role: &str, kind: &str, text: &str| {
        let text: String = text.chars().take(80).collect();
        texts.push(format!("{role} {kind}: {text}"));
    };
    let visit = |entry: annals::model::Entry| {
        if let Body::Message(message) = &entry.body {
            let role = message.role.as_str();
            let is_sent = message.role == Role::Assistant || message.human;
            for block in message.blocks.iter().filter(|_| is_sent) {
                match block {
                    Block::Text(text) => add(role, "text", text),
                    Block::Thinking { text, .. } => add(role, "think", text),
                    Block::ToolUse { name, input, .. } => {
                        add(role, "call", &format!("{name} {input}"))
                    }
                    _ => {}
                }
            }
        }
        Ok(true)
    };
    session.each_entry_of_log(0, &path, visit).unwrap();
    texts
}

/// The messages that the real programs sent when they resumed stores with one peculiarity each.
#[test]
fn resumed_messages_match_the_real_programs() {
    let recorded = std::fs::read(fixtures().join("agent-leaves.json")).unwrap();
    let recorded: serde_json::Value = serde_json::from_slice(&recorded).unwrap();
    let mut compared = 0;
    for (layout, cases) in recorded.as_object().unwrap() {
        for (name, case) in cases.as_object().unwrap() {
            let dir = tempfile::tempdir().unwrap();
            for (path, text) in case["files"].as_object().unwrap() {
                let path = dir.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text.as_str().unwrap()).unwrap();
            }
            let root = Root::new(layout, dir.path()).unwrap();
            let mut sessions = Store::new(vec![root]).inventory().sessions;
            if let Some(id) = case["session"].as_str().filter(|_| sessions.len() > 1) {
                sessions.retain(|files| files.id.as_str() == id);
            }
            assert_eq!(sessions.len(), 1, "{layout} {name}");
            let session = Session::read(sessions.remove(0)).unwrap();
            let found = resumed(&session);
            if case["outcome"] != "reconstructed" {
                continue;
            }
            compared += 1;
            // Results of calls, summaries, and results that a program makes up are not compared; a
            // compaction hides what is before it.
            let sent = case["messages"].as_array().unwrap().iter();
            let sent = sent.map(|text| text.as_str().unwrap().replace("\": \"", "\":\""));
            let made_up = |text: &String| {
                text.starts_with("tool result")
                    || text.starts_with("user text: The conversation history before")
                    || text == "user text: SUM"
            };
            let sent: Vec<String> = sent.filter(|text| !made_up(text)).collect();
            match name.starts_with("compact") {
                true => assert!(
                    found.ends_with(&sent) || sent.len() == 2,
                    "{name}: {found:?}"
                ),
                false => assert_eq!(found, sent, "{layout} {name}"),
            }
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn copied_messages_of_an_opencode_fork_are_charged_to_their_first_session() {
    let store = Store::new(vec![case("1.18-s03-fork").root()]);
    let ledger = store.costs().ledger(&|_, _| {}).0;
    assert_eq!(ledger.charges.len(), 5);
    let inventory = store.inventory();
    let rows = store.sessions(&inventory).read(&|_, _| {});
    let rows = rows.into_iter().map(|row| row.unwrap());
    let mut counts: Vec<(String, usize)> = rows
        .map(|row| (row.id.to_string(), row.charges.len()))
        .collect();
    counts.sort();
    assert_eq!(
        counts,
        [
            ("ses_e1b6cf6e0ffeSWGM6gvj038gbZ".to_owned(), 1),
            ("ses_e1b6d8785ffemyzN0S1pBViJMm".to_owned(), 2),
            ("ses_e1b6e4eb7ffem5p8bpZWkQUVnz".to_owned(), 2),
        ]
    );
}

#[test]
fn sub_agents_belong_to_the_session_that_started_them() {
    for (name, agent) in [
        ("gemini", "a9a9a9a9-0000-4000-8000-000000000002"),
        ("opencode", "ses_child"),
        ("codex", "01a1e487-0000-7000-8000-000000000002"),
    ] {
        let case = cases()
            .into_iter()
            .find(|case| case.layout.name() == name && case.name == "made-sub-agent")
            .unwrap();
        let session = case.only();
        assert_eq!(session.agents.len(), 1, "{name}");
        assert_eq!(
            session.agents[0].id.as_ref().unwrap().as_str(),
            agent,
            "{name}"
        );
        assert!(session.agents[0].call.is_some(), "{name}");
    }
}

#[test]
fn every_change_is_refused_and_changes_nothing() {
    let read_only = LAYOUTS.iter().filter(|layout| layout.writer().is_none());
    assert!(read_only.count() >= 2);
    for case in cases()
        .into_iter()
        .filter(|case| case.layout.writer().is_none())
    {
        let copy = case.copy();
        let store = copy.store();
        let before = picture(&copy.root.path);
        let now = jiff::Timestamp::now();
        let refused = |result: annals::Result<()>| {
            let error = result.unwrap_err().to_string();
            assert!(
                error.contains("does not write it"),
                "{}: {error}",
                case.name
            );
        };
        for files in copy.sessions() {
            refused(store.open_writer(&files, QUICK).map(drop));
            refused(store.trash().plan(&files, now).map(drop));
            refused(store.trash().move_in(&files, now).map(drop));
            refused(store.move_to_archive(&[&files], true, now).map(drop));
            let session = Session::read(files).unwrap();
            let to = SessionId::new("new").unwrap();
            refused(store.fork(&session, &[0], to, None, now).map(drop));
        }
        let new = NewSession::new(SessionId::new("new").unwrap(), "/w");
        refused(store.create(&copy.root, &new, QUICK).map(drop));
        let inventory = store.inventory();
        let targets = annals::repair::RepairTarget::all(&inventory);
        assert!(targets.is_empty(), "{}", case.name);
        assert_eq!(picture(&copy.root.path), before, "{}", case.name);
    }
}

#[test]
fn session_of_a_database_is_converted_without_its_secrets() {
    let copy = case("made-odd").copy();
    let into = Root::new("claude-code", copy.dir.path().join("there")).unwrap();
    let selection = annals::convert::ConvertSelection::Root(copy.root.clone());
    let plan = annals::convert::plan(selection, into.clone(), None).unwrap();
    annals::convert::run(&plan, &Default::default(), &|_, _| ()).unwrap();
    let files = picture(&into.path);
    assert!(files.len() > 3, "{files:?}");
    for path in files
        .keys()
        .map(|path| into.path.join(path))
        .filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&path).unwrap();
        let found = memchr::memmem::find(&bytes, b"a secret that must never be copied");
        assert_eq!(found, None, "{}", path.display());
    }
    let store = Store::new(vec![into]);
    let said = store.inventory().sessions.into_iter().flat_map(|files| {
        let session = Session::read(files).unwrap();
        let messages = session.last_messages(10).unwrap().into_iter();
        messages.filter(|entry| matches!(entry.body, Body::Message(_)))
    });
    assert!(said.count() >= 5);
}

/// An id in a database is text of any kind.
#[test]
fn session_id_that_is_a_path_is_replaced() {
    let sessions = case("made-odd").sessions();
    let ids: Vec<&str> = sessions.iter().map(|files| files.id.as_str()).collect();
    assert!(ids.iter().all(|id| !id.contains('/')), "{ids:?}");
    assert_eq!(ids.len(), 5, "{ids:?}");
}

#[test]
fn no_log_of_a_layout_that_is_only_read_is_repaired() {
    let artifact = Artifact::new(ArtifactKind::SessionLog);
    for layout in LAYOUTS {
        let edits = LineEdits::new(*layout, &artifact, b"{\"id\":1}{\n");
        let is_refused = edits.is_err();
        assert_eq!(is_refused, layout.writer().is_none(), "{}", layout.name());
    }
}

/// Forks by reference whose parents are absent, too short, or forks of themselves.
#[test]
fn forks_without_their_beginning_are_read_once_and_reported() {
    const PARENT: &str = "01a1e488-9f87-7b32-8d6f-6301f7a367b7";
    const FORK: &str = "01a1e488-cca5-7263-a998-82938dd9b632";
    /// Length of the beginning that the fork continues.
    const END: &str = "15632";
    let read = |id: &str| {
        let case = case("0.166-s03-fork");
        let files = case.files().into_iter();
        let mut logs = files.filter(|file| file.path.to_string_lossy().contains(id));
        fs::read_to_string(logs.next().unwrap().path).unwrap()
    };
    let (parent, fork) = (read(PARENT), read(FORK));
    let crossed = fork
        .replace(FORK, "@")
        .replace(PARENT, FORK)
        .replace('@', PARENT);
    let own = fork.replace(PARENT, FORK);
    let far = fork.replace(END, "999999999");
    /// Name, ids and texts of the logs, messages of the fork, part of the finding.
    type Forked<'a> = (&'a str, &'a [(&'a str, &'a str)], usize, &'a str);
    let cases: [Forked<'_>; 5] = [
        ("whole", &[(PARENT, &parent), (FORK, &fork)], 9, ""),
        ("missing", &[(FORK, &fork)], 2, "whose log is missing"),
        (
            "short",
            &[(PARENT, &parent), (FORK, &far)],
            11,
            "whose log has",
        ),
        ("itself", &[(FORK, &own)], 2, "which continues this one"),
        (
            "each other",
            &[(PARENT, &crossed), (FORK, &fork)],
            4,
            "which continues this one",
        ),
    ];
    for (name, files, messages, detail) in cases {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sessions/2026/11/16");
        fs::create_dir_all(&folder).unwrap();
        for (id, text) in files {
            let file = format!("rollout-2026-11-16T13-25-21-{id}.jsonl");
            fs::write(folder.join(file), text).unwrap();
        }
        let store = Store::new(vec![Root::new("codex", dir.path()).unwrap()]);
        let inventory = store.inventory();
        let files = inventory.sessions.iter().find(|it| it.id.as_str() == FORK);
        let session = Session::read(files.unwrap().clone()).unwrap();
        let read = session.info(None).messages;
        assert_eq!(read as usize, messages, "{name}");
        let reports = annals::check::all(&inventory, None, &|_, _| ());
        let flaws = reports.into_iter().flat_map(|report| report.unwrap().flaws);
        let found: Vec<String> = flaws.map(|flaw| flaw.detail).collect();
        let is_found = found
            .iter()
            .any(|it| it.contains("it continues") && it.contains(detail));
        assert_eq!(is_found, !detail.is_empty(), "{name}: {found:?}");
    }
}
