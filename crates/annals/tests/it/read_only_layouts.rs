//! Layouts of programs whose logs are not logs of lines, or that are read but not written.

use std::collections::BTreeMap;
use std::fs;

use annals::cost::{PriceMode, Prices};
use annals::layout::{LAYOUTS, NewSession};
use annals::model::{Artifact, ArtifactKind, Body, SessionId, Usage};
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

/// `fixtures/make_agent_ledgers.py` adds up the tokens of the recordings without annals.
#[test]
fn tokens_of_recordings_match_the_independent_ledgers() {
    let ledgers = std::fs::read(fixtures().join("agent-ledgers.json")).unwrap();
    let ledgers: serde_json::Value = serde_json::from_slice(&ledgers).unwrap();
    let mut compared = 0;
    for (layout, roots) in ledgers.as_object().unwrap() {
        for (name, expected) in roots.as_object().unwrap() {
            let is_it = |case: &Case| case.layout.name() == layout && case.name == *name;
            let case = cases().into_iter().find(is_it).unwrap();
            let ledger = Store::new(vec![case.root()]).costs().ledger(&|_, _| {}).0;
            let mut found: BTreeMap<String, ([u64; 5], f64)> = BTreeMap::new();
            for charge in &ledger.charges {
                let model = charge.source.model.as_deref().unwrap_or_default();
                let (counts, recorded) = found.entry(model.to_owned()).or_default();
                let usage = &charge.usage;
                let written = usage.cache_write_5m + usage.cache_write_1h;
                let added = [1, usage.input, usage.cache_read, written, usage.output];
                counts
                    .iter_mut()
                    .zip(added)
                    .for_each(|(sum, new)| *sum += new);
                *recorded += charge.recorded.as_ref().map_or(0.0, |cost| cost.dollars());
            }
            let place = format!("{layout} {name}: {found:?}, not {expected}");
            assert_eq!(found.len(), expected.as_object().unwrap().len(), "{place}");
            for (model, (counts, recorded)) in &found {
                let row: ([u64; 5], f64) = {
                    let row = expected[model].as_array().expect(&place);
                    let counts = [0, 1, 2, 3, 4].map(|at| row[at].as_u64().unwrap());
                    (counts, row[5].as_f64().unwrap())
                };
                assert_eq!(*counts, row.0, "{place}");
                assert!((recorded - row.1).abs() < 1e-9, "{place}");
            }
            compared += 1;
        }
    }
    assert!(compared >= 37, "{compared}");
}

/// Damaged counts are 0 and reported. The sums were added up by hand from the scripts that make them.
#[test]
fn each_response_of_made_roots_is_charged_once() {
    for (layout, name, expected) in [
        // Repeated, without a message, of a sub-agent, of its sub-agent, damaged.
        (
            "copilot",
            "made-odd",
            [5, 50 + 50 + 20 + 70, 40, 5 + 6 + 7 + 8 + 9],
        ),
        ("copilot", "made-totals", [1, 100, 100, 20]),
        // The sub-agent's log counts, its telemetry does not; a side call has only telemetry.
        (
            "qwen",
            "made-sub-agent",
            [4, 60 + 30 + 20 + 30, 40 + 100, 15 + 5 + 3 + 6],
        ),
        ("qwen", "made-odd", [3, 7 + 20 + 30, 3, 2 + 4]),
        ("droid", "made-odd", [1, 1000, 0, 50]),
        // A message of two sessions is a copy.
        ("cline", "made-odd", [2, 50, 40, 5 + 6]),
        ("aider", "made-runs", [2, 2600 + 1_100_000, 1024, 18 + 2]),
        ("opencode", "made-files", [2, 10, 3, 3 + 2]),
    ] {
        assert_eq!(charged(layout, name), expected, "{layout} {name}");
    }
}

/// Sums of the ledgers, with the list prices of a million tokens: input, cache reads, output.
#[test]
fn recordings_of_other_vendors_are_priced() {
    let prices = Prices::built_in();
    for (name, tokens, list) in [
        (
            "0.166-s02-tools",
            [10159.0, 30471.0, 127.0],
            [2.5, 0.25, 15.0],
        ),
        (
            "patches-tools",
            [12191.0, 36567.0, 175.0],
            [1.25, 0.125, 10.0],
        ),
    ] {
        let ledger = Store::new(vec![case(name).root()])
            .costs()
            .ledger(&|_, _| {})
            .0;
        let costs = ledger.charges.iter();
        let costs = costs.map(|charge| prices.cost(charge, PriceMode::Tokens).unwrap().dollars());
        let expected: f64 = tokens
            .iter()
            .zip(list)
            .map(|(count, price)| count * price / 1e6)
            .sum();
        let sum: f64 = costs.sum();
        assert!(
            (sum - expected).abs() < 1e-9,
            "{name}: {sum}, not {expected}"
        );
    }
    for model in [
        "openai/gpt-5.4",
        "gpt-5-codex",
        "gemini-2.5-pro",
        "qwen3-coder-plus",
    ] {
        assert!(prices.find(model).is_some(), "{model}");
    }
}

/// Replies of these programs record their costs.
#[test]
fn recorded_costs_are_those_of_the_programs() {
    for (layout, name, expected) in [
        ("cline", "made-odd", 0.25),
        ("aider", "made-runs", 0.0125),
        ("opencode", "made-files", 1.0),
        ("copilot", "made-odd", 0.0),
    ] {
        let is_it = |case: &Case| case.layout.name() == layout && case.name == name;
        let case = cases().into_iter().find(is_it).unwrap();
        let ledger = Store::new(vec![case.root()]).costs().ledger(&|_, _| {}).0;
        let recorded = ledger
            .charges
            .iter()
            .filter_map(|it| it.recorded.as_deref());
        let sum: f64 = recorded.map(|cost| cost.dollars()).sum();
        assert!((sum - expected).abs() < 1e-9, "{layout} {name}: {sum}");
    }
}

/// A database replaces the files of an older version, which are left next to it.
#[test]
fn session_of_a_database_hides_its_older_files() {
    let copy = case("1.18-s03-fork").copy();
    let rows = copy.sessions();
    let place = copy.root.path.join("storage/session/global");
    std::fs::create_dir_all(&place).unwrap();
    for (id, title) in [(rows[0].id.as_str(), "older"), ("ses_only", "only here")] {
        let text = format!("{{\"id\":\"{id}\",\"title\":\"{title}\"}}");
        std::fs::write(place.join(format!("{id}.json")), text).unwrap();
    }
    let both = copy.sessions();
    assert_eq!(both.len(), rows.len() + 1);
    let store = indexed(&copy.store(), &copy.dir.path().join("state"));
    for _ in 0..2 {
        let listed = store.sessions(&store.inventory()).read(&|_, _| {});
        let titles = listed
            .into_iter()
            .map(|row| row.unwrap().title.map(|it| it.text.to_string()));
        let titles: Vec<Option<String>> = titles.collect();
        assert!(titles.contains(&Some("only here".to_owned())), "{titles:?}");
        assert!(!titles.contains(&Some("older".to_owned())), "{titles:?}");
    }
}

/// All files of a set belong to its session: a change of any of them changes what is read.
#[test]
fn change_of_a_part_is_seen_through_the_index() {
    let copy = case("1.1-s01-qa").copy();
    assert_eq!(hits(&copy, "zebra"), [""; 0]);
    let part = "storage/part/msg_1e49d80d3001CeNkqs5VujJy91/prt_1e49d80d4001EqiWc3UcALTFTI.json";
    let part = copy.root.path.join(part);
    let text = std::fs::read_to_string(&part).unwrap();
    let changed = text.replace("And of Spain?", "And a zebra??");
    assert_ne!(changed, text);
    std::fs::write(&part, changed).unwrap();
    assert_eq!(hits(&copy, "zebra"), ["msg_1e49d80d3001CeNkqs5VujJy91"]);
    std::fs::write(&part, text).unwrap();
    assert_eq!(hits(&copy, "zebra"), [""; 0]);
}

#[test]
fn todos_of_other_programs_are_read() {
    for (layout, name, expected) in [
        ("qwen", "made-sub-agent", &["Count", "Report"][..]),
        ("opencode", "made-files", &["Ask"]),
    ] {
        let is_it = |case: &Case| case.layout.name() == layout && case.name == name;
        let case = cases().into_iter().find(is_it).unwrap();
        let todos = case.sessions().into_iter().flat_map(|files| {
            let session = Session::read(files).unwrap();
            let lists = session.todos().unwrap().into_iter();
            lists.flat_map(|(_, todos)| todos).collect::<Vec<_>>()
        });
        let todos: Vec<String> = todos.map(|todo| todo.content).collect();
        assert_eq!(todos, expected, "{layout}");
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
        ("qwen", "explorer-c-task"),
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
fn recorded_sub_agents_belong_to_their_calls() {
    for (name, agents) in [
        (
            "1.0-s04-subagent",
            &["e5bdd2aa-f11e-4d7d-bcba-d3c5eb53ac2a"][..],
        ),
        ("1.1-s04-subagent", &["ses_e1b61c35bffeB4AHhfxDjqVlGW"]),
    ] {
        let session = case(name).only();
        let found = session.agents.iter().map(|agent| {
            assert!(agent.call.is_some() && agent.messages > 0, "{agent:?}");
            agent.id.as_ref().unwrap().as_str()
        });
        assert_eq!(found.collect::<Vec<_>>(), agents, "{name}");
    }
    // A sub-agent of a sub-agent hangs from the call in the latter's log.
    let is_it = |case: &Case| case.layout.name() == "copilot" && case.name == "made-odd";
    let session = cases().into_iter().find(is_it).unwrap().only();
    let calls = session.agents.iter().map(|agent| {
        let id = agent.id.as_ref().unwrap().to_string();
        (id, agent.call.unwrap().log)
    });
    let calls: Vec<(String, usize)> = calls.collect();
    assert_eq!(calls, [("a-1".to_owned(), 0), ("a-2".to_owned(), 1)]);
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
        // See `database_writer`.
        let has_rows = case.layout.row_writer().is_some();
        let refused = |result: annals::Result<()>| {
            let error = result.unwrap_err().to_string();
            let wanted = match has_rows {
                true => "`opencode session delete ID`",
                false => "does not write it",
            };
            assert!(error.contains(wanted), "{}: {error}", case.name);
        };
        for files in copy.sessions() {
            if !has_rows {
                refused(store.open_writer(&files, QUICK).map(drop));
            }
            refused(store.trash().plan(&files, now).map(drop));
            refused(store.trash().move_in(&files, now).map(drop));
            refused(store.move_to_archive(&[&files], true, now).map(drop));
            let session = Session::read(files).unwrap();
            let to = SessionId::new("new").unwrap();
            let forked = store.fork(&session, &[0], to, None, now).map(drop);
            match has_rows {
                true => drop(forked.unwrap_err()),
                false => refused(forked),
            }
        }
        let new = NewSession::new(SessionId::new("new").unwrap(), "/w");
        if !has_rows {
            refused(store.create(&copy.root, &new, QUICK).map(drop));
        }
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
    let inside = fork.replace(END, "15631");
    /// Name, ids and texts of the logs, messages of the fork, part of the finding.
    type Forked<'a> = (&'a str, &'a [(&'a str, &'a str)], usize, &'a str);
    let cases: [Forked<'_>; 6] = [
        ("whole", &[(PARENT, &parent), (FORK, &fork)], 9, ""),
        (
            "inside a line",
            &[(PARENT, &parent), (FORK, &inside)],
            9,
            "which end inside a line",
        ),
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
