//! Which records a text stands in.

use std::fs;

use annals::model::Role;
use annals::store::{Hit, Query, Root, Store};

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

fn told(hit: &Hit) -> (String, u64, Option<Role>, &str) {
    let session = hit.session.as_str().chars().take(1).collect();
    (session, hit.line, hit.role, hit.snippet.as_str())
}

#[test]
fn newest_sessions_first_then_in_file_order() {
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
    let inventory = store.inventory();
    let found = store.search(&inventory, &Query::new("panic"));
    let hits: Vec<_> = found.hits.iter().map(told).collect();
    let b = || "b".to_owned();
    assert_eq!(
        hits,
        [
            (b(), 1, Some(Role::User), "a panic"),
            (b(), 2, Some(Role::Assistant), "panic panic"),
            (b(), 3, None, "why panic?"),
            ("a".to_owned(), 1, Some(Role::User), "Find the PANIC"),
        ]
    );
    assert_eq!((found.total, found.truncated), (4, false));
    assert_eq!(&found.hits[3].snippet[found.hits[3].at.clone()], "PANIC");
    // The cap keeps the first ones and says so.
    for limit in 0..4 {
        let found = store.search(&inventory, &Query::new("panic").limit(limit));
        let kept: Vec<_> = found.hits.iter().map(told).collect();
        assert_eq!(kept, hits[..limit]);
        assert_eq!((found.total, found.truncated), (4, true));
    }
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
    let inventory = store.inventory();
    let time = |second: u32| format!("2026-03-01T10:00:{second}Z").parse().ok();
    let count = |query: Query| store.search(&inventory, &query).total;
    let query = || Query::new("needle");
    assert_eq!(count(query().within(time(20), None)), 2);
    assert_eq!(count(query().within(None, time(20))), 2);
    assert_eq!(count(query().within(time(11), time(29))), 1);
    assert_eq!(count(query().project("app")), 3);
    assert_eq!(count(query().project("/w/app")), 3);
    assert_eq!(count(query().project("other")), 0);
    assert_eq!(count(Query::new("")), 0);
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
    let inventory = store.inventory();
    for (text, lines) in [
        ("CAFÉ", vec![1]),
        ("é found", vec![1]),
        ("say \"hi\"\tthere", vec![2]),
        ("8080", vec![2]),
        ("write", vec![2]),
        ("deep thought", vec![2]),
        ("große", vec![]),
        ("grosse STRASSE", vec![]),
        ("grosse STRAßE", vec![3]),
        ("tool_use_id", vec![]),
    ] {
        let found = store.search(&inventory, &Query::new(text));
        let at: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
        assert_eq!(at, lines, "{text}");
    }
}

#[test]
fn sub_agents_are_searched_with_their_session() {
    let case = case("subagents-every-placement");
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    let found = store.search(&inventory, &Query::new("a").limit(1_000));
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
