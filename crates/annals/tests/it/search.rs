//! Which records a text stands in.

use std::fs;

use annals::model::Role;
use annals::search::{Dialect, Filter, Found, Hit, Order, Query};
use annals::store::{Root, Store};

use crate::support::case;

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

fn search(store: &Store, query: &Query) -> Found {
    store.search(&store.inventory(), query).unwrap()
}

fn told(hit: &Hit) -> (String, u64, Option<Role>, &str) {
    let session = hit.session.as_str().chars().take(1).collect();
    (session, hit.line, hit.role, hit.snippet.as_str())
}

#[test]
fn the_newest_or_the_oldest_first() {
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
    let hits: Vec<_> = found.hits.iter().map(told).collect();
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
    assert_eq!(found.hits[3].at.len(), 1);
    assert_eq!(&found.hits[3].snippet[found.hits[3].at[0].clone()], "PANIC");
    // The cap keeps the first ones and says so.
    for limit in 0..5 {
        let found = search(&store, &query.clone().limit(limit));
        let kept: Vec<_> = found.hits.iter().map(told).collect();
        assert_eq!(kept, hits[..limit]);
        assert_eq!((found.total, found.truncated), (5, true));
    }
    let oldest = search(&store, &query.order(Order::Oldest));
    let lines: Vec<u64> = oldest.hits.iter().map(|hit| hit.line).collect();
    assert_eq!(lines, [1, 2, 3, 1, 4]);
}

#[test]
fn only_in_a_period_or_a_project() {
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
    let query = parse("needle").and(Filter::Layout("clog".into()));
    assert_eq!(search(&store, &query).total, 0);
    assert_eq!(count(""), 3);
}

#[test]
fn what_escapes_hide_is_found() {
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
fn sub_agents_are_searched_with_their_session() {
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
    assert_eq!(found.troubles.len(), 0);
}
