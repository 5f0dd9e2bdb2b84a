//! The service, and verbatim lines: what every surface relies on.

use std::fs;

use annals::cost::{Dimension, ReportRow};
use annals::jsonl::Durability;
use annals::model::{Block, Draft};
use annals::search::Order;
use annals::service::{
    CostRequest, FollowRequest, MessagesRequest, OpenSession, SearchRequest, Service,
    SessionsRequest,
};
use annals::store::{MessageFilter, Root, Store, WriteOptions};
use annals::view::PageRequest;
use serde_json::Value;

use crate::support::{case, cases};

fn is_shared<T: Send + Sync>(_: &T) {}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn answers_are_the_same_with_and_without_an_index() {
    let mut sessions = 0;
    for case in cases() {
        let state = tempfile::tempdir().unwrap();
        let now = "2026-11-18T12:00:00Z".parse().unwrap();
        let plain = Service::new(Store::new(vec![case.root()])).with_now(now);
        let indexed = Service::new(Store::new(vec![case.root()])).with_now(now);
        let indexed = indexed.with_index(state.path());
        is_shared(&plain);
        indexed.update_text_index(&|| false);
        let ask = |service: &Service| {
            let found = service.search(&SearchRequest::new("question"), &|| false);
            let listed = service.sessions(&SessionsRequest::default()).unwrap();
            let cost = service.cost(&CostRequest::default()).unwrap();
            let rows = json(&listed.rows);
            (
                rows,
                json(&service.projects()),
                json(&found.unwrap()),
                json(&cost),
            )
        };
        let answer = ask(&plain);
        sessions += answer.0.as_array().unwrap().len();
        assert_eq!(answer, ask(&indexed), "{}", case.name);
    }
    assert!(sessions > 100, "{sessions}");
}

/// Returns a service with one session of six messages.
fn six_messages(dir: &std::path::Path) -> (Service, String) {
    let store = Store::new(vec![Root::claude_code(dir)]);
    let session = store.begin("/home/me/app").unwrap();
    for turn in 1..=3 {
        session
            .append(Draft::user(format!("question {turn}")))
            .unwrap();
        let reply = [Block::Text(format!("answer {turn}"))];
        session.append(Draft::assistant(reply).model("m")).unwrap();
    }
    let id = session.session().to_string();
    (Service::new(store), id)
}

fn texts(entries: &impl serde::Serialize) -> Vec<String> {
    let rows = json(entries);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["blocks"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_open_session_pages_and_grows() {
    let dir = tempfile::tempdir().unwrap();
    let (service, id) = six_messages(dir.path());
    let mut open = service.open(&id).unwrap();
    let page = |offset, limit| MessagesRequest {
        page: PageRequest {
            offset,
            limit,
            budget: None,
        },
        ..MessagesRequest::default()
    };
    let found = open.messages(&page(Some(2), Some(2))).unwrap();
    assert_eq!(texts(&found.entries), ["question 2", "answer 2"]);
    assert_eq!(found.page.unwrap().next_offset(), Some(4));
    let asked = MessagesRequest {
        filter: MessageFilter::default().text("ANSWER"),
        ..MessagesRequest::default()
    };
    assert_eq!(open.messages(&asked).unwrap().entries.len(), 3);
    assert!(!open.grow(&service).unwrap());
    let counts = |open: &OpenSession| {
        let conversations = service.conversations_of(open);
        (
            service.session_row(open).info.messages,
            conversations[0].info.messages,
        )
    };
    assert_eq!(counts(&open), (6, 6));
    let writer = service.resume(&id, WriteOptions::default()).unwrap();
    let written = writer.append(Draft::user("question 4")).unwrap();
    assert!(open.grow(&service).unwrap());
    let all = open.messages(&MessagesRequest::default()).unwrap();
    assert_eq!(texts(&all.entries).len(), 7);
    assert_eq!(counts(&open), (7, 7));
    let last = written.id.unwrap();
    assert_eq!(open.ancestry(last.as_str()).unwrap().len(), 7);
    let raw = open.raw(last.as_str()).unwrap();
    assert!(String::from_utf8(raw).unwrap().contains("question 4"));
}

#[test]
fn a_search_may_end_early() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    for _ in 0..5 {
        let session = store.begin("/home/me/app").unwrap();
        session.append(Draft::user("the word")).unwrap();
    }
    let service = Service::new(store);
    let mut request = SearchRequest::new("word");
    request.order = Some(Order::Newest);
    let all = service.search(&request, &|| false).unwrap();
    assert_eq!((all.total, all.at_least), (5, false));
    request.limit = 2;
    for first in [2, 3] {
        request.first = Some(first);
        let some = service.search(&request, &|| false).unwrap();
        let found = (some.hits.len(), some.total, some.at_least);
        assert_eq!(found, (2, first as u64, true));
    }
    request.first = Some(6);
    let all = service.search(&request, &|| false).unwrap();
    assert_eq!((all.hits.len(), all.total, all.at_least), (2, 5, false));
    let none = service
        .search(&SearchRequest::new("word"), &|| true)
        .unwrap();
    assert_eq!((none.total, none.at_least), (0, true));
}

#[test]
fn echoes_are_left_out_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("find the zebra")).unwrap();
    let names = [
        "mcp__annals__search",
        "mcp_annals_search",
        "annals_search",
        "annals-search",
        "annals___search",
        "Bash",
        "annalist",
    ];
    for (number, name) in names.into_iter().enumerate() {
        let id = format!("toolu_{number}");
        let id = id.as_str();
        let call = Block::ToolUse {
            id: id.into(),
            name: name.into(),
            input: r#"{"query":"zebra"}"#.into(),
        };
        session.append(Draft::assistant([call]).model("m")).unwrap();
        session.append(Draft::tool_result(id, "a zebra")).unwrap();
    }
    let service = Service::new(store);
    let total = |without_echoes| {
        let mut request = SearchRequest::new("zebra");
        request.without_echoes = without_echoes;
        service.search(&request, &|| false).unwrap().total
    };
    assert_eq!((total(false), total(true)), (15, 5));
}

/// An update of the index has a connection of its own, and says when it is of use.
#[test]
fn the_text_index_is_updated_beside_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("find the zebra")).unwrap();
    let service = Service::new(store).with_index(state.path());
    assert!(!service.needs_text_index());
    let search = || {
        let found = service.search(&SearchRequest::new("zebra"), &|| false);
        (found.unwrap().total, service.needs_text_index())
    };
    assert_eq!(search(), (1, true));
    service.update_text_index(&|| false);
    assert_eq!(search(), (1, false));
    session.append(Draft::user("another zebra")).unwrap();
    assert_eq!(search(), (2, true));
    service.update_text_index(&|| false);
    assert_eq!(search(), (2, false));
}

#[test]
fn mirrored_lines_are_stored_as_they_are_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]).with_state(state.path());
    let id = "5f0c9f62-1111-4000-8000-000000000001";
    let options = WriteOptions {
        durability: Durability::Os,
        ..WriteOptions::default()
    };
    let main = store.mirror("-home-me-app", id, None, options).unwrap();
    assert_eq!(main.load().unwrap(), None);
    let line = |n: u32| {
        format!(r#"{{"uuid":"5f0c9f62-0000-4000-8000-00000000000{n}","n":1e5, "x":"\u00e9"}}"#)
    };
    let unnamed = r#"{"type":"x"}"#.to_owned();
    assert_eq!(main.append(&[line(1), line(2), line(1)]).unwrap(), 2);
    assert_eq!(
        main.append(&[line(2), line(3), unnamed.clone()]).unwrap(),
        2
    );
    // Another handle reads the file.
    let again = store.mirror("-home-me-app", id, None, options).unwrap();
    assert_eq!(again.append(&[line(3), unnamed.clone()]).unwrap(), 1);
    let lines = [line(1), line(2), line(3), unnamed.clone(), unnamed];
    let lines: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
    assert_eq!(main.load().unwrap(), Some(lines.clone()));
    // A torn line is ended, and does not count.
    let mut torn = fs::read(main.path()).unwrap();
    torn.extend(b"{\"uuid\":\"5f0c");
    fs::write(main.path(), torn).unwrap();
    assert_eq!(main.load().unwrap(), Some(lines));
    assert_eq!(main.append(&[line(4)]).unwrap(), 1);
    assert!(
        main.load()
            .unwrap()
            .unwrap()
            .contains(&line(4).into_bytes())
    );
    // A batch with a bad line is refused as a whole.
    let bad = [line(5), "no object".to_owned()];
    assert!(main.append(&bad).is_err());
    assert_eq!(main.append(&[line(5)]).unwrap(), 1);

    let sub = store.mirror("-home-me-app", id, Some("subagents/agent-a1"), options);
    let sub = sub.unwrap();
    sub.append(&[line(6)]).unwrap();
    assert_eq!(main.subs().unwrap(), ["subagents/agent-a1"]);
    sub.delete(&store).unwrap();
    assert_eq!(sub.load().unwrap(), None);
    assert!(main.load().unwrap().is_some());
    main.delete(&store).unwrap();
    assert_eq!(main.load().unwrap(), None);
    assert!(!store.trash().items().unwrap().is_empty());
}

#[test]
fn a_mirror_never_leaves_its_root() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let id = "5f0c9f62-1111-4000-8000-000000000001";
    let refused = |project: &str, id: &str, sub: Option<&str>| {
        store
            .mirror(project, id, sub, WriteOptions::default())
            .is_err()
    };
    for project in ["..", "a/b", "../x", "", ".", ".hidden"] {
        assert!(refused(project, id, None), "{project}");
    }
    for sub in ["..", "../x", "a/../../x", "/etc/x", "", "a//b", "./a"] {
        assert!(refused("-p", id, Some(sub)), "{sub}");
    }
    assert!(refused("-p", "../x", None));
    assert!(!refused("/home/me/app", id, None));
}

/// Clients 1.0 write sub-agents into the main log, without ids or kinds: only the calls have kinds.
#[test]
fn costs_of_sub_agents_without_ids_have_the_kind_that_their_calls_ask_for() {
    let rows = |edit: &dyn Fn(String) -> String| {
        let copy = case("1.0.128-s04-agent").copy();
        let log = copy.files("0c43").main_path().to_owned();
        fs::write(&log, edit(fs::read_to_string(&log).unwrap())).unwrap();
        let by_agent = CostRequest {
            by: vec![Dimension::Agent],
            ..CostRequest::default()
        };
        let plain = Service::new(copy.store());
        let indexed = Service::new(copy.store()).with_index(copy.state());
        let [first, second, without] = [&indexed, &indexed, &plain].map(|service| {
            let answer = service.cost(&by_agent).unwrap();
            let row = |row: &ReportRow| (row.key(), row.tally.requests);
            let mut rows: Vec<(String, u64)> = answer.report.rows.iter().map(row).collect();
            rows.sort();
            rows
        });
        assert_eq!(first, without);
        assert_eq!(second, without);
        without
    };
    let expect = |rows: &[(String, u64)], wanted: &[(&str, u64)]| {
        let rows: Vec<(&str, u64)> = rows.iter().map(|(key, n)| (key.as_str(), *n)).collect();
        assert_eq!(rows, wanted);
    };
    let kind = r#""subagent_type":"general-purpose""#;
    expect(&rows(&|log| log), &[("general-purpose", 4), ("main", 4)]);
    expect(
        &rows(&|log| log.replacen(kind, r#""subagent_type":"reviewer""#, 1)),
        &[("general-purpose", 2), ("main", 4), ("reviewer", 2)],
    );
    // The call of one of them is lost.
    expect(
        &rows(&|log| log.replacen(r#""prompt":"[[sub]] first""#, r#""prompt":"another""#, 1)),
        &[("general-purpose", 2), ("main", 4), ("sub-agent", 2)],
    );
}

/// Follows until everything that exists is reported, at most so many messages. Returns their texts
/// and the cursor of the last event.
fn followed(service: &Service, since: Option<String>, most: usize) -> (Vec<String>, String) {
    let request = FollowRequest {
        since,
        ..FollowRequest::default()
    };
    let (mut texts, mut cursor) = (Vec::new(), String::new());
    for event in service.follow(&request).unwrap() {
        let event = json(&event);
        cursor = event["cursor"].as_str().unwrap().to_owned();
        if event["kind"] == "entry" && event["entry"]["kind"] == "message" {
            assert_eq!(event["earlier"], false);
            let text = event["entry"]["blocks"][0]["text"].as_str().unwrap();
            texts.push(text.to_owned());
        }
        if event["kind"] == "caught_up" || texts.len() == most {
            break;
        }
    }
    (texts, cursor)
}

#[test]
fn following_continues_after_a_cursor_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let one = store.begin("/home/me/app").unwrap();
    one.append(Draft::user("before")).unwrap();
    let service = Service::new(store);
    let (texts, start) = followed(&service, None, 9);
    assert!(texts.is_empty());
    one.append_all(vec![Draft::user("1"), Draft::user("2")])
        .unwrap();
    // A session that begins while nobody follows.
    let two = service.store().begin("/home/me/app").unwrap();
    two.append(Draft::user("3")).unwrap();
    one.append(Draft::user("4")).unwrap();

    let mut all = Vec::new();
    let mut cursor = start.clone();
    for _ in 0..4 {
        let (texts, next) = followed(&service, Some(cursor), 1);
        all.extend(texts);
        cursor = next;
    }
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4"]);
    assert!(followed(&service, Some(cursor.clone()), 9).0.is_empty());
    assert_eq!(followed(&service, Some(start), 9).0.len(), 4);

    // Another file in place of the log is reported from its start.
    let path = two.path().to_owned();
    let bytes = fs::read(&path).unwrap();
    drop(two);
    // The old file stays, so that the new one cannot get its inode.
    fs::rename(&path, dir.path().join("other")).unwrap();
    fs::write(&path, bytes).unwrap();
    assert_eq!(followed(&service, Some(cursor), 9).0, ["3"]);

    let request = FollowRequest {
        since: Some("nonsense".to_owned()),
        ..FollowRequest::default()
    };
    let error = service.follow(&request).unwrap_err();
    assert_eq!(error.kind().as_str(), "bad_input");
}
