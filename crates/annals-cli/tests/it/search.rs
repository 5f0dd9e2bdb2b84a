//! `search`, and pages of a long conversation.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::Stage;

#[test]
fn search_prints_matches() {
    let stage = Stage::with_fixture("branch-nested");
    assert_snapshot!("search", stage.annals(&["search", "QUESTION"]));
    assert_snapshot!(
        "search_json",
        stage.annals(&["search", "question", "--limit", "1", "--json"])
    );
    assert_snapshot!(
        "search_limit",
        stage.annals(&["search", "question", "-n", "2"])
    );
    assert_snapshot!("search_none", stage.annals(&["search", "nowhere"]));
    assert_snapshot!(
        "search_none_json",
        stage.annals(&["search", "nowhere", "--json"])
    );
    assert_snapshot!("search_empty", stage.refused(&["search", ""], ""));
    let run = stage.annals(&["search", "question", "--since", "1d"]);
    assert_eq!(run.code, 1, "{run}");
    let run = stage.annals(&["search", "question", "--project", "elsewhere"]);
    assert_eq!(run.code, 1, "{run}");
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
    assert_snapshot!("search_clog", stage.annals(&["search", "*a*"]));
    assert_snapshot!(
        "search_clog_colour",
        stage.annals(&["search", "tomorrow", "--color", "always"])
    );
}

#[test]
fn search_session_accepts_a_thread() {
    let stage = Stage::with_fixture_of("clog", "same-thread-twice");
    let hits = |session: &str| {
        let run = stage.annals(&["search", "question", "--session", session, "--json"]);
        run.json()["total"].as_u64()
    };
    assert_eq!(hits("Thread_X"), Some(3));
    assert_eq!(hits("2026-03-26"), Some(2));
    assert_eq!(hits("2026-03-27T01-32-20-418Z-thread_x"), Some(1));
    assert_snapshot!(
        "search_session_unknown",
        stage.refused(&["search", "x", "--session", "nobody"], "")
    );
}

/// Two sessions of one project with calls, thinking, a title, and hostile text.
fn work() -> Stage {
    let stage = Stage::empty();
    let folder = stage.root.join("projects/-w-app");
    std::fs::create_dir_all(&folder).unwrap();
    let record = |session: &str, n: u32, role: &str, content: Value| {
        let id = |n: u32| format!("{n:08x}-0000-4000-8000-000000000000");
        json!({
            "type": role, "uuid": id(n), "parentUuid": (n % 16 > 1).then(|| id(n - 1)),
            "sessionId": session, "cwd": "/w/app", "gitBranch": "main",
            "timestamp": format!("2026-11-15T10:00:{:02}.000Z", n % 16),
            "message": {"role": role, "content": content, "model": (role == "assistant").then_some("claude-opus-4-1")},
        })
        .to_string()
    };
    let (one, two) = (
        "00000000-1111-4111-8111-111111111111",
        "00000000-2222-4222-8222-222222222222",
    );
    let said = |text: &str| json!([{"type": "text", "text": text}]);
    let first = [
        record(one, 0x11, "user", json!("Why does the connection reset?\nIt began with \u{1b}[31mthe deploy\u{202e} of\u{7} v2.")),
        record(one, 0x12, "assistant", json!([{"type": "thinking", "thinking": "A connection reset comes from the peer, perhaps the proxy in front of it."}])),
        record(one, 0x13, "assistant", json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "grep -rn 'connection reset' /var/log\ntail proxy.log"}}])),
        record(one, 0x14, "user", json!([{"type": "tool_result", "tool_use_id": "t1", "content": "proxy.log:12: connection reset by peer\n".repeat(20)}])),
        record(one, 0x15, "assistant", said("The proxy closes idle connections after 60 seconds, so the connection is reset.")),
        json!({"type": "custom-title", "customTitle": "Connection reset after deploy", "sessionId": one}).to_string(),
    ];
    let second = [
        record(
            two,
            0x21,
            "user",
            json!("Write down what we know about 日本語の接続 and café ☕ in docs/proxy.md"),
        ),
        record(
            two,
            0x22,
            "assistant",
            json!([{"type": "tool_use", "id": "t2", "name": "Write", "input": {"file_path": "/w/app/docs/proxy.md", "content": "# Proxy\n\nThe connection pool…"}}]),
        ),
    ];
    for (session, lines) in [(one, &first[..]), (two, &second[..])] {
        std::fs::write(
            folder.join(format!("{session}.jsonl")),
            lines.join("\n") + "\n",
        )
        .unwrap();
    }
    stage.settle();
    stage
}

#[test]
fn search_groups_hits_by_session_with_context() {
    let stage = work();
    let search = |args: &[&str]| stage.annals(&[&["search"], args].concat());
    assert_snapshot!("search_sessions", search(&["connection"]));
    assert_snapshot!("search_around", search(&["reset", "kind:call", "-C", "1"]));
    assert_snapshot!(
        "search_around_json",
        search(&["reset", "kind:call", "-C", "1", "--json"])
    );
    assert_snapshot!(
        "search_hostile",
        search(&["deploy", "--role", "user", "--color", "always"])
    );
    assert_snapshot!(
        "search_conditions",
        search(&["--tool", "Bash", "--tool", "Write", "--sort", "oldest"])
    );
    assert_snapshot!("search_count", search(&["connection", "--count"]));
    assert_snapshot!(
        "search_count_json",
        search(&["connection", "--count", "--json"])
    );
    assert_snapshot!("search_count_none", search(&["nowhere", "--count"]));
    let matches = search(&["接続 OR ☕", "--json"]).json();
    let hit = &matches["hits"][0];
    let snippet: Vec<char> = hit["snippet"].as_str().unwrap().chars().collect();
    let marked = hit["matches"].as_array().unwrap().iter().map(|at| {
        let at = |end: usize| usize::try_from(at[end].as_u64().unwrap()).unwrap();
        snippet[at(0)..at(1)].iter().collect::<String>()
    });
    assert_eq!(marked.collect::<Vec<_>>(), ["接続", "☕"], "{hit}");
}

#[test]
fn search_options_equal_query_conditions() {
    let stage = work();
    let count = |args: &[&str]| {
        let run = stage.annals(&[&["search", "--count", "--json"], args].concat());
        let count: Value = serde_json::from_str(&run.out)
            .unwrap_or_else(|error| panic!("{args:?} {error}: {run}"));
        count["total"].as_u64().unwrap()
    };
    for (option, condition, total) in [
        (&["connection", "reset"][..], "connection reset", 6),
        (&["connection", "--tool", "Bash"], "connection tool:Bash", 2),
        (
            &["connection", "--tool", "Bash", "--tool", "Write"],
            "connection (tool:Bash OR tool:Write)",
            3,
        ),
        (
            &["connection", "--kind", "thinking"],
            "connection kind:thinking",
            1,
        ),
        (
            &["connection", "--role", "assistant"],
            "connection role:assistant",
            4,
        ),
        (
            &["connection", "--model", "opus"],
            "connection model:opus",
            4,
        ),
        (
            &["connection", "--agent", "main", "--kind", "text"],
            "connection agent:main kind:text",
            2,
        ),
        (&["--file", "docs/proxy.md"], "file:docs/proxy.md", 1),
        (
            &["--branch", "main", "--role", "human"],
            "branch:main role:human",
            2,
        ),
        (
            &["connection", "--layout", "claude-code"],
            "connection layout:claude-code",
            7,
        ),
        (
            &["connection", "--layout", "clog"],
            "connection layout:clog",
            0,
        ),
        (&["connection", "-p", "app"], "connection project:app", 7),
        (
            &["connection", "--session", "00000000-2"],
            "connection session:00000000-2",
            1,
        ),
        (
            &[
                "connection",
                "--session",
                "00000000-2",
                "--session",
                "00000000-1",
            ],
            "connection session:00000000",
            7,
        ),
        (
            &["connection", "--since", "2026-11-15T10:00:04Z"],
            "connection after:2026-11-15T10:00:04Z",
            2,
        ),
        (
            &["connection", "--until", "2026-11-15T10:00:01Z"],
            "connection before:2026-11-15T10:00:01Z",
            1,
        ),
        (&["--since", "1d"], "after:1d", 7),
        (
            &["-e", "connections? (is )?reset"],
            r#"re:"connections? (is )?reset""#,
            6,
        ),
    ] {
        assert_eq!(count(option), total, "{option:?}");
        assert_eq!(count(&[condition]), total, "{condition}");
    }
    assert_eq!(count(&["Connection", "--case"]), 1);
    assert_eq!(count(&["--session", "00000000-1", "proxy", "-s"]), 4);
    // `--project .` means the directory, not a project name.
    let mut here = stage.command();
    let root = format!("claude-code:{}", stage.root.display());
    here.args(["--root", &root, "search", "connection", "--project", "."]);
    assert_eq!(here.output().unwrap().status.code(), Some(1));
}

#[test]
fn invalid_queries_are_reported_with_their_position() {
    let stage = work();
    let refused = |args: &[&str]| stage.refused(&[&["search"], args].concat(), "").err;
    let long = format!("{} ( {}", "before ".repeat(4_000), "after ".repeat(4_000));
    let faults = [
        &["reset \"by peer"][..],
        &["(connection OR reset"],
        &["connection", "OR"],
        &["AND"],
        &["role:boss", "reset"],
        &["--role", "boss"],
        &["--kind", "thougt"],
        &["--layout", "emacs"],
        &["--tool", ""],
        &["after:someday"],
        &["--since", "someday"],
        &["-e", "connection (reset|closed"],
        &["re:\"[z-a]\" x"],
        &["-e", "x{100000}{100000}"],
        &["\u{1b}[31m (\u{202e}"],
        &["接続 \"日本"],
        &[long.as_str()],
        &[],
        &["", "  "],
        &["-e", ""],
    ];
    let reported = faults.map(|args| {
        let shown = args.join(" ").chars().take(40).collect::<String>();
        format!("{:?}\n{}", shown, refused(args))
    });
    assert_snapshot!("search_faults", reported.join("\n"));
    // A query longer than a single argument may be.
    let part = "word ".repeat(20_000);
    let reported = refused(&[
        &part, &part, &part, &part, &part, &part, &part, &part, &part, &part, &part,
    ]);
    assert!(reported.contains("1100010 bytes"), "{reported}");
    assert!(reported.len() < 500, "{reported}");
}

#[test]
fn search_without_matches_suggests_alternatives() {
    let stage = work();
    let tried = [
        &["connect"][..],
        &["rol:user", "connection"],
        &["REset", "--case"],
        &["\"reset connection\""],
        &["proxy", "banana"],
        &["banana OR apple"],
        &["connection", "--model", "gpt"],
        &["-e", "bananas?"],
        &["--tool", "Fetch"],
        &["http://nowhere"],
    ];
    let reported = tried.map(|args| {
        let run = stage.annals(&[&["search"], args].concat());
        assert_eq!((run.code, run.err.as_str()), (1, ""), "{args:?}: {run}");
        format!("{}\n{}", args.join(" "), run.out)
    });
    assert_snapshot!("search_nothing", reported.join("\n"));
}

#[test]
fn show_at_a_record_prints_its_context() {
    let stage = work();
    let show = |args: &[&str]| stage.annals(&[&["show"], args].concat());
    assert_snapshot!("show_at", show(&["00000000-1@00000014", "-C", "1"]));
    assert_snapshot!("show_at_call", show(&["00000000-2@00000022", "-C", "0"]));
    assert_snapshot!("show_at_line", show(&["00000000-1@:6"]));
    let log = stage.log_path("00000000-2222-4222-8222-222222222222");
    let place = format!("{}:1", log.display());
    assert_snapshot!("show_at_file_line", show(&[&place]));
    let shown = show(&["00000000-1@00000013", "--json"]).json();
    assert_eq!(
        (&shown["at"], shown["entries"].as_array().unwrap().len()),
        (&json!(2), 3)
    );
    let shown = show(&["00000000-1@00000013", "-C", "1", "--json"]).json();
    assert_eq!(
        (&shown["at"], shown["entries"].as_array().unwrap().len()),
        (&json!(1), 3)
    );
    let raw = show(&["00000000-1@:6", "--raw"]).fine();
    assert!(
        raw.out.starts_with("{\"") && raw.out.contains("custom-title"),
        "{raw}"
    );
    let past = format!("{}:99", log.display());
    let refused = [
        &["show", "00000000-1", "-C", "1"][..],
        &["show", "00000000-1@00000013", "--agent", "x"],
        &["show", "00000000-1@:99"],
        &["show", "00000000-1@:x"],
        &["show", &past],
    ];
    let reported = refused.map(|args| stage.refused(args, "").err);
    assert_snapshot!("show_at_refused", reported.join("\n"));
}

/// Searches every fixture of a layout and opens the hits by the ids that the search prints.
fn open_all(layout: &'static str) -> usize {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut names: Vec<String> = std::fs::read_dir(fixtures.join(layout))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let mut opened = 0;
    for name in names {
        let stage = Stage::with_fixture_of(layout, &name);
        let root = format!("{layout}:{}", stage.root.display());
        let run = |args: &[&str]| {
            let mut command = stage.command();
            let output = command.args(["--root", &root]).args(args).output().unwrap();
            let code = output.status.code();
            (code, String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let everything = ["search", "-e", "(?s)\\S", "-n", "100000"];
        let (_, found) = run(&[&everything[..], &["--json"]].concat());
        let found: Value = serde_json::from_str(&found).unwrap();
        let hits = found["hits"].as_array().unwrap();
        // JSON has whole ids, which the library tests cover; one per fixture is enough here.
        for hit in hits.iter().rev().take(1) {
            let id = hit["id"].as_str().unwrap();
            let (code, shown) = run(&["show", id, "--json"]);
            assert_eq!(code, Some(0), "{layout} {name} {id}");
            // Tool inputs are printed verbatim, including lone surrogates.
            let shown = shown.replace("\\ud", "\\\\ud");
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let entries = shown["entries"].as_array().unwrap();
            let place = |entry: &Value| {
                let at = |key: &str| entry[key].as_u64();
                (at("line"), at("offset"))
            };
            let is_it = |entry: &&Value| place(entry) == place(hit);
            assert!(
                entries.iter().any(|entry| is_it(&entry)),
                "{layout} {name} {id}: {hit}"
            );
            let at = shown["at"].as_u64().unwrap();
            let marked = &entries[usize::try_from(at).unwrap()];
            let same = hit["entry"].is_string() && marked["id"] == hit["entry"];
            assert!(same || is_it(&marked), "{layout} {name} {id}: {marked}");
        }
        // In the text output, `show` opens every printed id.
        let (_, listed) = run(&everything);
        let ids = listed
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            // The line below a session has its project and newest time, and no id. A record without
            // an id is named by its file and line.
            .filter(|line| {
                ["@", ".jsonl:", ".annals:"]
                    .iter()
                    .any(|it| line.contains(it))
            });
        let ids: Vec<&str> = ids.filter_map(|line| line.split("  ").last()).collect();
        assert_eq!(ids.len(), hits.len(), "{layout} {name}: {listed}");
        let sessions = listed
            .lines()
            .filter(|line| line.starts_with(|c: char| c != ' '));
        let sessions = sessions.count().saturating_sub(1);
        let total = listed.lines().last().unwrap_or_default();
        assert!(
            hits.is_empty() || total.contains(&format!(" in {sessions} session")),
            "{layout} {name}: {sessions}, {listed}"
        );
        let mut snippets = listed.lines().filter(|line| line.starts_with("    "));
        for id in ids {
            opened += 1;
            let snippet = snippets.next().unwrap();
            let (code, shown) = run(&["show", id, "-C", "0"]);
            assert_eq!(code, Some(0), "{layout} {name} {id}");
            let words = snippet.split(|c: char| !c.is_ascii_alphanumeric());
            let word = words.max_by_key(|word| word.len()).unwrap();
            assert!(
                shown.contains(word),
                "{layout} {name} {id}: no {word} in {shown}"
            );
            assert!(shown.contains("▶ "), "{layout} {name} {id}: {shown}");
        }
    }
    opened
}

#[test]
fn show_opens_every_search_hit_of_claude_code() {
    assert!(open_all("claude-code") > 400);
}

#[test]
fn show_opens_every_search_hit_of_chorus() {
    assert!(open_all("chorus") > 50);
}

#[test]
fn show_opens_every_search_hit_of_clog() {
    assert!(open_all("clog") > 50);
}

#[test]
fn show_opens_every_search_hit_of_orchestrator() {
    assert!(open_all("orchestrator") > 50);
}

#[test]
fn show_pages_long_conversations() {
    let stage = Stage::with_fixture_of("clog", "every-role-and-channel");
    let show = |args: &[&str]| {
        let mut all = vec!["show", "thread_abc123"];
        all.extend(args);
        stage.annals(&all)
    };
    assert_snapshot!("page", show(&["--offset", "2", "--limit", "2"]));
    assert_snapshot!("page_newest", show(&["--budget", "8"]));
    let page = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let run = show(&args);
        let page: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let texts: Vec<String> = page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let blocks = entry["blocks"].as_array().unwrap();
                blocks.last().unwrap()["text"].as_str().unwrap().to_owned()
            })
            .collect();
        let at = |key: &str| page[key].as_u64();
        let more = page["has_more"].as_bool();
        (
            texts,
            at("offset"),
            at("total"),
            more,
            at("next_offset"),
            run.code,
        )
    };
    let all = [
        "You are an operator.",
        "What is the load?",
        "The load is 0.5.",
        "And from the web?",
        "Still 0.5.",
        "Danke, café 😀",
    ];
    let texts = |range: std::ops::Range<usize>| -> Vec<String> {
        all[range].iter().map(|text| (*text).to_owned()).collect()
    };
    for (args, range, next) in [
        (&["--limit", "2"][..], 0..2, Some(2)),
        (&["--limit", "2", "--offset", "4"], 4..6, None),
        (&["--offset", "5"], 5..6, None),
        (&["--limit", "99"], 0..6, None),
        // 20, 17, 40 (with reasoning), 17, 10 and 17 bytes; 4 bytes per token, rounded up.
        (&["--budget", "8"], 4..6, Some(2)),
        (&["--budget", "7"], 5..6, Some(4)),
        (&["--budget", "0"], 5..6, Some(4)),
        (&["--budget", "10000"], 0..6, None),
        (&["--budget", "10000", "--limit", "1"], 5..6, Some(4)),
        (&["--budget", "10", "--offset", "0"], 0..2, Some(2)),
        (&["--budget", "9", "--offset", "0"], 0..1, Some(1)),
    ] {
        let offset = Some(range.start as u64);
        let wanted = (texts(range), offset, Some(6), Some(next.is_some()), next, 0);
        assert_eq!(page(args), wanted, "{args:?}");
    }
    let beyond = page(&["--offset", "6"]);
    assert_eq!(beyond, (vec![], Some(6), Some(6), Some(false), None, 1));
    let whole = show(&["--json"]).json();
    assert!(whole.get("has_more").is_none(), "{whole}");
    let run = show(&["--last", "1", "--limit", "1"]);
    assert_eq!(run.code, 2, "{run}");
}
