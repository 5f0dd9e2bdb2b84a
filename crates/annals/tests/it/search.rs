//! Search results: the records that match a query.

use std::collections::BTreeSet;
use std::fs;

use annals::model::{Block, Body, Entry, Role};
use annals::search::{Dialect, Hit, Order, Query, SearchResults, TextPart};
use annals::store::{Root, Session, Store, Target};
use serde_json::{Value, json};

use crate::support::{case, cases};

fn line(n: u32, second: u32, role: &str, content: &str) -> String {
    format!(
        r#"{{"type":"{role}","uuid":"{n:08x}-0000-4000-8000-000000000000","parentUuid":null,"cwd":"/w/app","timestamp":"2026-03-01T10:00:{second:02}.000Z","message":{{"role":"{role}","content":{content}}}}}"#
    )
}

fn store(logs: &[(&str, Vec<String>)]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/-w-app");
    fs::create_dir_all(&folder).unwrap();
    for (name, lines) in logs {
        let name = format!("{}-0000-4000-8000-000000000000.jsonl", name.repeat(8));
        fs::write(folder.join(name), lines.join("\n") + "\n").unwrap();
    }
    let root = Root::new("claude-code", dir.path()).unwrap();
    (dir, Store::new(vec![root]))
}

fn parse(text: &str) -> Query {
    Query::parse(text, &Dialect::default()).unwrap()
}

fn search(store: &Store, query: &Query) -> SearchResults {
    store.search(&store.inventory(), query).unwrap()
}

fn reported(hit: &Hit) -> (String, u64, Option<Role>, &str) {
    let session = hit.session.as_str().chars().take(1).collect();
    (session, hit.line, hit.role, hit.snippet.as_str())
}

#[test]
fn search_orders_hits_by_time() {
    let (_dir, store) = store(&[
        ("a", vec![line(1, 10, "user", r#""Find the PANIC""#), line(2, 11, "user", r#""no""#)]),
        (
            "b",
            vec![
                line(3, 30, "user", r#""a panic\nin line 2""#),
                line(4, 20, "assistant", r#"[{"type":"text","text":"panic panic"}]"#),
                r#"{"type":"annals-note","noteId":"n1","timestamp":"2026-03-01T10:00:21Z","text":"why panic?"}"#.to_owned(),
                r#"{"type":"custom-title","customTitle":"panic"}"#.to_owned(),
            ],
        ),
    ]);
    let query = parse("panic").order(Order::Newest);
    let found = search(&store, &query);
    let hits: Vec<_> = found.hits.iter().map(reported).collect();
    let b = || "b".to_owned();
    assert_eq!(
        hits,
        [
            (b(), 1, Some(Role::User), "a panic in line 2"),
            (b(), 3, None, "why panic?"),
            (b(), 2, Some(Role::Assistant), "panic panic"),
            ("a".to_owned(), 1, Some(Role::User), "Find the PANIC"),
            (b(), 4, None, "panic"),
        ]
    );
    assert_eq!(
        (found.total, found.sessions, found.truncated),
        (5, 2, false)
    );
    assert_eq!(found.hits[3].highlights.len(), 1);
    assert_eq!(
        &found.hits[3].snippet[found.hits[3].highlights[0].clone()],
        "PANIC"
    );
    // The limit keeps the first hits and sets `truncated`.
    for limit in 0..5 {
        let found = search(&store, &query.clone().limit(limit));
        let kept: Vec<_> = found.hits.iter().map(reported).collect();
        assert_eq!(kept, hits[..limit]);
        assert_eq!((found.total, found.truncated), (5, true));
    }
    let oldest = search(&store, &query.order(Order::Oldest));
    let lines: Vec<u64> = oldest.hits.iter().map(|hit| hit.line).collect();
    assert_eq!(lines, [1, 2, 3, 1, 4]);
}

#[test]
fn search_filters_by_time_project_and_layout() {
    let (_dir, store) = store(&[(
        "a",
        vec![
            line(1, 10, "user", r#""needle 1""#),
            line(2, 20, "user", r#""needle 2""#),
            line(3, 30, "user", r#""needle 3""#),
        ],
    )]);
    let count = |text: &str| search(&store, &parse(text)).total;
    assert_eq!(count("needle after:2026-03-01T10:00:20Z"), 2);
    assert_eq!(count("needle before:2026-03-01T10:00:20Z"), 2);
    assert_eq!(
        count("needle after:2026-03-01T10:00:11Z before:2026-03-01T10:00:29Z"),
        1
    );
    assert_eq!(count("needle project:app"), 3);
    assert_eq!(count("needle project:/w/app"), 3);
    assert_eq!(count("needle project:other"), 0);
    assert_eq!(count("needle -project:other"), 3);
    let query = parse("needle").filter("layout", ["clog"], &Dialect::default());
    let query = query.unwrap();
    assert_eq!(search(&store, &query).total, 0);
    assert_eq!(count(""), 3);
}

#[test]
fn search_finds_escaped_text() {
    let (_dir, store) = store(&[(
        "a",
        vec![
            line(1, 1, "user", r#""caf\u00e9 \u0066ound""#),
            line(
                2,
                2,
                "assistant",
                r#"[{"type":"tool_use","id":"t","name":"Write","input":{"deep":[{"text":"say \"hi\"\tthere"}],"port":8080}},{"type":"thinking","thinking":"deep thought"}]"#,
            ),
            line(
                3,
                3,
                "user",
                r#"[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"GROSSE Straße"}]}]"#,
            ),
        ],
    )]);
    for (text, lines) in [
        ("CAFÉ", vec![1]),
        ("\"café found\"", vec![1]),
        ("\"é found\"", vec![]),
        (r"re:say\s.hi.\tthere", vec![2]),
        ("8080", vec![2]),
        ("write", vec![2]),
        ("deep thought", vec![2]),
        ("große", vec![]),
        ("grosse STRASSE", vec![]),
        ("grosse STRAßE", vec![3]),
        ("tool_use_id", vec![]),
    ] {
        let found = search(&store, &parse(text));
        let at: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
        assert_eq!(at, lines, "{text}");
    }
}

#[test]
fn search_includes_sub_agents() {
    let case = case("subagents-every-placement");
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    let found = search(&store, &parse("*a*").limit(1_000));
    let agents = inventory.sessions.iter().flat_map(|files| &files.agents);
    for agent in agents {
        assert!(
            found.hits.iter().any(|hit| hit.file == agent.path),
            "{}",
            agent.path.display()
        );
    }
    assert_eq!(found.errors.len(), 0);
}

/// Returns a record of the session `s`, with additional members.
fn record(n: u32, role: &str, content: Value, more: Value) -> String {
    let mut record = json!({
        "type": role,
        "uuid": format!("{n:08x}-0000-4000-8000-000000000000"),
        "parentUuid": (n > 1).then(|| format!("{:08x}-0000-4000-8000-000000000000", n - 1)),
        "cwd": "/w/app",
        "gitBranch": "main",
        "timestamp": format!("2026-03-01T10:00:{n:02}.000Z"),
        "message": { "role": role, "content": content },
    });
    let (all, more) = (record.as_object_mut().unwrap(), more.as_object().unwrap());
    for (name, value) in more {
        match name.as_str() {
            "model" => all["message"]["model"] = value.clone(),
            name => {
                all.insert(name.to_owned(), value.clone());
            }
        }
    }
    record.to_string()
}

/// Returns a conversation with all kinds of content; line numbers equal message numbers.
fn conversation() -> Vec<String> {
    let tool = |id: &str, name: &str, input: Value| json!([{"type": "tool_use", "id": id, "name": name, "input": input}]);
    let result =
        |id: &str, text: &str| json!([{"type": "tool_result", "tool_use_id": id, "content": text}]);
    let none = || json!({});
    let opus = || json!({"model": "claude-opus-4-1"});
    vec![
        record(1, "user", json!("café 🎉 déjà vu, said the Needle"), none()),
        record(2, "user", json!("今日本屋に行く"), none()),
        record(
            3,
            "assistant",
            json!([{"type": "text", "text": "call snake_case_name() then camelCaseName in path/to/file.rs:12"}]),
            opus(),
        ),
        record(
            4,
            "assistant",
            json!([{"type": "thinking", "thinking": "needle in thought"}, {"type": "text", "text": "plain answer"}]),
            json!({"model": "claude-sonnet-4-5"}),
        ),
        record(
            5,
            "assistant",
            tool("t1", "Bash", json!({"command": "cargo needle"})),
            opus(),
        ),
        record(6, "user", result("t1", "needle output"), none()),
        record(
            7,
            "assistant",
            tool(
                "t2",
                "Edit",
                json!({"file_path": "/w/app/src/x.rs", "old_string": "needle"}),
            ),
            opus(),
        ),
        record(8, "user", result("t2", "done"), none()),
        record(
            9,
            "user",
            json!("two\n\t lines of a phrase"),
            json!({"gitBranch": "feature/search"}),
        ),
        record(
            10,
            "user",
            json!("a \"quoted\" back\\slash and a tab\there"),
            json!({"isSidechain": false}),
        ),
    ]
}

#[test]
fn queries_match_the_expected_lines() {
    let (_dir, store) = store(&[("5", conversation())]);
    let dialect = Dialect::default();
    let lines = |query: &Query| -> Vec<u64> {
        let found = search(&store, query);
        let mut lines: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
        lines.sort_unstable();
        lines
    };
    for (query, wanted) in [
        // Words.
        ("needle", &[1, 4, 5, 6, 7][..]),
        ("NEEDLE", &[1, 4, 5, 6, 7]),
        ("needles", &[]),
        ("need*", &[1, 4, 5, 6, 7]),
        ("*eedl*", &[1, 4, 5, 6, 7]),
        ("*dle", &[1, 4, 5, 6, 7]),
        ("eedle", &[]),
        ("café", &[1]),
        ("cafe", &[]),
        ("🎉", &[1]),
        ("\"déjà vu\"", &[1]),
        ("日本", &[2]),
        ("本屋", &[2]),
        ("本日", &[]),
        ("case", &[3]),
        ("snake_case_name", &[3]),
        ("snake_case", &[3]),
        ("camelCaseName", &[3]),
        ("name", &[3]),
        ("file.rs", &[3]),
        ("path/to/file.rs", &[3]),
        ("to/file", &[3]),
        ("o/file", &[]),
        // Phrases span line breaks; quotes and backslashes are literal.
        ("\"two lines\"", &[9]),
        ("\"lines two\"", &[]),
        ("two phrase", &[9]),
        ("back\\slash", &[10]),
        ("\"a quoted\"", &[10]),
        (r#"re:"a .quoted. back""#, &[10]),
        (r"re:tab\there", &[10]),
        (r"re:^two$", &[9]),
        (r"re:n.{4}e\b", &[1, 4, 5, 6, 7]),
        // AND, OR, NOT.
        ("needle thought", &[4]),
        ("output OR thought", &[4, 6]),
        ("needle -thought", &[1, 5, 6, 7]),
        ("needle NOT (thought OR output)", &[1, 5, 7]),
        ("(output OR thought) needle -cargo", &[4, 6]),
        ("-needle", &[2, 3, 8, 9, 10]),
        // Conditions.
        ("role:user", &[1, 2, 6, 8, 9, 10]),
        ("role:human", &[1, 2, 9, 10]),
        ("role:assistant needle", &[4, 5, 7]),
        ("role:tool", &[6, 8]),
        ("role:system", &[]),
        ("kind:thinking", &[4]),
        ("kind:text needle", &[1]),
        ("kind:thinking answer", &[]),
        ("kind:tool needle", &[5, 6, 7]),
        ("kind:call", &[5, 7]),
        ("kind:result needle", &[6]),
        ("(kind:thinking OR kind:call) needle", &[4, 5, 7]),
        ("(kind:thinking OR kind:call) answer", &[]),
        ("tool:Bash", &[5, 6]),
        ("tool:bash needle", &[5, 6]),
        ("tool:Ba*", &[5, 6]),
        ("(tool:Bash OR tool:Edit) needle", &[5, 6, 7]),
        ("tool:Edit done", &[8]),
        ("-tool:Bash needle", &[1, 4, 7]),
        ("model:opus", &[3, 5, 7]),
        ("model:SONNET needle", &[4]),
        ("agent:main needle", &[1, 4, 5, 6, 7]),
        ("agent:sub", &[]),
        ("branch:feature/search", &[9]),
        ("branch:feature/*", &[9]),
        ("branch:main needle", &[1, 4, 5, 6, 7]),
        ("file:src/x.rs", &[7]),
        ("file:x.rs needle", &[7]),
        ("file:y.rs", &[]),
        ("session:5555 needle", &[1, 4, 5, 6, 7]),
        ("session:6666 needle", &[]),
        ("layout:claude-code needle", &[1, 4, 5, 6, 7]),
        ("layout:clog needle", &[]),
        ("project:app needle", &[1, 4, 5, 6, 7]),
        ("project:/w/app -needle", &[2, 3, 8, 9, 10]),
        ("needle after:2026-03-01T10:00:06Z", &[6, 7]),
        ("needle before:2026-03-01T10:00:05Z", &[1, 4, 5]),
        (
            "needle since:2026-03-01T10:00:02Z until:2026-03-01T10:00:05Z",
            &[4, 5],
        ),
        // Syntax of other query languages is text.
        ("'; DROP TABLE word; --", &[]),
        ("needle*' OR '1'='1", &[]),
        ("NEAR(needle, thought)", &[]),
        ("^needle", &[]),
        ("c:d", &[]),
    ] {
        let parsed = Query::parse(query, &dialect).unwrap();
        assert_eq!(lines(&parsed), wanted, "{query}");
    }
    let cased = |text: &str| Query::parse(text, &Dialect::default().case(true)).unwrap();
    assert_eq!(lines(&cased("Needle")), [1]);
    assert_eq!(lines(&cased("needle")), [4, 5, 6, 7]);
    assert_eq!(lines(&cased("re:[N]eedle")), [1]);
    let pattern = |text: &str| Query::parse(text, &Dialect::default().regex(true)).unwrap();
    assert_eq!(lines(&pattern("needle (in|out)")), [4, 6]);
    assert_eq!(lines(&pattern("-needle \"")), [0; 0]);
    // Options are equivalent to conditions in the query.
    for (text, name, value) in [
        ("needle", "tool", "Bash"),
        ("needle OR done", "role", "user"),
        ("-needle", "kind", "text"),
        ("needle", "branch", "main"),
    ] {
        let outside = parse(text).filter(name, [value], &dialect).unwrap();
        let inside = parse(&format!("({text}) {name}:{value}"));
        assert_eq!(lines(&outside), lines(&inside), "{text} {name}");
    }
    let tools = parse("needle").filter("tool", ["Bash", "Edit"], &dialect);
    assert_eq!(lines(&tools.unwrap()), [5, 6, 7]);
    let no_tools = parse("needle").filter("tool", [""; 0], &dialect);
    assert_eq!(lines(&no_tools.unwrap()), lines(&parse("needle")));
}

#[test]
fn branch_filter_accepts_a_conversation() {
    // A question that was asked twice, with different answers.
    let again = json!({"parentUuid": "00000001-0000-4000-8000-000000000000"});
    let lines = vec![
        record(1, "user", json!("shared words"), json!({})),
        record(
            2,
            "assistant",
            json!([{"type": "text", "text": "first words"}]),
            json!({}),
        ),
        record(
            3,
            "assistant",
            json!([{"type": "text", "text": "second words"}]),
            again,
        ),
    ];
    let (_dir, store) = store(&[("5", lines)]);
    let lines = |text: &str| -> BTreeSet<u64> {
        let found = search(&store, &parse(text));
        found.hits.iter().map(|hit| hit.line).collect()
    };
    assert_eq!(lines("words branch:00000002"), [1, 2].into());
    assert_eq!(lines("words branch:5555@00000003"), [1, 3].into());
    assert_eq!(lines("words branch:6666@00000003"), [].into());
    assert_eq!(lines("words branch:0000"), [1, 2, 3].into());
    assert_eq!(lines("words branch:main"), [1, 2, 3].into());
}

#[test]
fn snippets_come_from_the_matching_part() {
    let both = json!([
        {"type": "text", "text": "the word, and once more the word"},
        {"type": "thinking", "thinking": "a word in mind"},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "echo word"}},
    ]);
    let (_dir, store) = store(&[("5", vec![record(1, "assistant", both, json!({}))])]);
    let hit = |text: &str| {
        let mut hits = search(&store, &parse(text)).hits;
        assert_eq!(hits.len(), 1, "{text}");
        let hit = hits.remove(0);
        let marked: Vec<String> = hit
            .highlights
            .iter()
            .map(|at| hit.snippet[at.clone()].to_owned())
            .collect();
        (hit.part, hit.tool, hit.snippet, marked.join("|"))
    };
    let of = |part, snippet: &str, marked: &str| {
        (Some(part), None, snippet.to_owned(), marked.to_owned())
    };
    let bash = |marked: &str| {
        let tool = Some("Bash".to_owned());
        (
            Some(TextPart::Call),
            tool,
            "echo word".to_owned(),
            marked.to_owned(),
        )
    };
    assert_eq!(
        hit("word"),
        of(
            TextPart::Text,
            "the word, and once more the word",
            "word|word"
        )
    );
    assert_eq!(
        hit("kind:thinking word"),
        of(TextPart::Thinking, "a word in mind", "word")
    );
    assert_eq!(
        hit("kind:thinking"),
        of(TextPart::Thinking, "a word in mind", "")
    );
    assert_eq!(hit("tool:Bash word"), bash("word"));
    assert_eq!(hit("tool:Bash"), bash(""));
    assert_eq!(hit("(kind:call OR kind:result) word"), bash("word"));
}

#[test]
fn line_of_five_megabytes_is_searched() {
    let filler = "lorem \\\"ipsum\\\" ".repeat(160_000);
    let long = format!("{filler} haystack\nneedle {filler}");
    let (_dir, store) = store(&[(
        "5",
        vec![
            record(1, "user", json!("needle before"), json!({})),
            record(2, "user", json!(long), json!({})),
            record(3, "user", json!("needle after"), json!({})),
        ],
    )]);
    let found = search(&store, &parse("needle").order(Order::Oldest));
    let lines: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
    assert_eq!(lines, [1, 2, 3]);
    let hit = &found.hits[1];
    assert!(
        hit.snippet.contains("haystack needle lorem"),
        "{}",
        hit.snippet
    );
    assert!(hit.snippet.len() < 1_000, "{}", hit.snippet.len());
    let around = search(&store, &parse("\"haystack needle\"").context(1));
    let said = |entries: &[Entry]| {
        entries
            .iter()
            .map(|entry| entry.span.offset)
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&around.hits[0].before), [0]);
    assert_eq!(around.hits[0].after.len(), 1);
}

/// Location of an entry, in terms that hits have too.
type Place = (String, u64, Option<String>);

fn place(entry: &Entry, session: &Session) -> Place {
    let id = entry.id.as_ref().map(ToString::to_string);
    (session.files.id.to_string(), entry.span.offset, id)
}

/// Conditions over the fixtures of all layouts find the entries that satisfy them.
#[test]
fn filters_match_entries_in_every_layout() {
    let mut seen: BTreeSet<(&str, String)> = BTreeSet::new();
    for case in cases() {
        let layout = case.layout.name();
        let store = Store::new(vec![case.root()]);
        let inventory = store.inventory();
        let mut expected: Vec<(String, Place)> = Vec::new();
        for files in &inventory.sessions {
            let session = Session::read(files.clone()).unwrap();
            for (log, scan) in session.logs.iter().enumerate() {
                let all: Vec<usize> = (0..scan.outlines.len()).collect();
                let visit = |entry: Entry| {
                    let Body::Message(message) = &entry.body else {
                        return Ok(true);
                    };
                    let place = place(&entry, &session);
                    let mut expect = |query: String| expected.push((query, place.clone()));
                    for block in &message.blocks {
                        let said = |text: &str| !text.trim().is_empty();
                        match block {
                            Block::Text(text) if said(text) => {
                                expect(format!("role:{}", message.role.as_str()));
                                expect("kind:text".to_owned());
                                if let Some(model) = &message.model {
                                    expect(format!("model:\"{model}\""));
                                }
                            }
                            Block::Thinking { text, .. } if said(text) => {
                                expect("kind:thinking".to_owned())
                            }
                            Block::ToolUse { name, .. } if said(name) => {
                                expect("kind:call".to_owned());
                                expect(format!("tool:\"{name}\""));
                            }
                            Block::ToolResult { .. } => expect("kind:result".to_owned()),
                            _ => {}
                        }
                    }
                    Ok(true)
                };
                session.each_entry_of_log(log, &all, visit).unwrap();
            }
        }
        let queries: BTreeSet<String> = expected.iter().map(|(query, _)| query.clone()).collect();
        for query in queries {
            // A query cannot contain names with quotes.
            let Ok(parsed) = Query::parse(&query, &Dialect::default()) else {
                continue;
            };
            let found = store.search(&inventory, &parsed.limit(usize::MAX)).unwrap();
            let hits: BTreeSet<Place> = found
                .hits
                .iter()
                .map(|hit| {
                    let id = hit.entry.as_ref().map(ToString::to_string);
                    (hit.session.to_string(), hit.offset, id)
                })
                .collect();
            for (_, place) in expected.iter().filter(|(other, _)| *other == query) {
                // What a fork by reference continues is found in its parent.
                let in_parent = layout == "codex"
                    && hits
                        .iter()
                        .any(|hit| (hit.1, &hit.2) == (place.1, &place.2));
                assert!(
                    hits.contains(place) || in_parent,
                    "{layout} {} {query}: {place:?}",
                    case.name
                );
            }
            let (name, value) = query.split_once(':').unwrap();
            for hit in &found.hits {
                let reported = match name {
                    // A notice of the agent program is not a message, but has the system role.
                    "role" if hit.role.is_none() => {
                        (value, hit.part) == ("system", Some(TextPart::System))
                    }
                    "role" => hit.role.map(|role| role.as_str()) == Some(value),
                    "kind" => hit.part.map(TextPart::as_str) == Some(value),
                    "model" => hit.model.is_some(),
                    _ => matches!(hit.part, Some(TextPart::Call | TextPart::Result)),
                };
                assert!(reported, "{layout} {} {query}: {hit:?}", case.name);
            }
            seen.insert((layout, name.to_owned()));
        }
    }
    for layout in ["claude-code", "chorus", "clog", "orchestrator"] {
        for name in ["role", "kind", "model"] {
            assert!(seen.contains(&(layout, name.to_owned())), "{layout} {name}");
        }
    }
}

/// A hit can be located by its file and line, and by its id if it has one.
#[test]
fn every_hit_can_be_located_by_line_and_id() {
    let mut shared = 0;
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let inventory = store.inventory();
        let query = Query::parse(r"\S", &Dialect::default().regex(true)).unwrap();
        let found = store.search(&inventory, &query.limit(usize::MAX)).unwrap();
        let mut session: Option<Session> = None;
        for hit in &found.hits {
            let (files, path) = Target::find_line(&store, &inventory, &hit.file, hit.line).unwrap();
            let reported = format!("{} {}:{}", case.name, hit.file.display(), hit.line);
            assert_eq!(files.id, hit.session, "{reported}");
            shared += usize::from(files.log.as_ref().is_some_and(|log| log.slice.is_some()));
            let known = session.filter(|known| {
                known.files.main_path() == files.main_path() && known.files.id == files.id
            });
            let read = known.unwrap_or_else(|| Session::read(files).unwrap());
            let is_it =
                |entry: Option<Entry>| entry.is_some_and(|entry| entry.span.offset == hit.offset);
            let has_it = |spots: Vec<annals::store::RecordRef>| {
                let mut spots = spots.into_iter();
                spots.any(|spot| is_it(read.read_record(spot).unwrap().1))
            };
            assert!(
                has_it(read.records_at_line(&path, hit.line).unwrap()),
                "{reported}"
            );
            if let Some(id) = &hit.entry {
                assert!(
                    has_it(read.find_records(id.as_str()).unwrap()),
                    "{reported} {id}"
                );
            }
            session = Some(read);
        }
    }
    assert!(shared > 20, "{shared} hits in files that sessions share");
}
