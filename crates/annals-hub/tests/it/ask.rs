//! Readers get the library's own answers about what they may read.

use std::collections::BTreeSet;

use annals::model::{Draft, Usage};
use annals::service::{CostRequest, MessagesRequest, SearchRequest, Service, SessionsRequest};
use annals::store::{Root, Store};
use annals_hub::access::Owner;
use annals_hub::audit::AUDIT;
use annals_hub::delta::Table;
use annals_segments::SourceId;
use serde_json::{Value, json};

use crate::harness::{Machine, TestHub, now};

/// Asks a hub. Returns the status and the document.
fn ask(hub: &TestHub, token: &str, question: &str) -> (u16, Value) {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build();
    let request = config.new_agent().get(format!("{}/v1/{question}", hub.url));
    let mut answer = request
        .header("authorization", format!("Bearer {token}"))
        .call()
        .unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (
        answer.status().as_u16(),
        serde_json::from_str(&text).unwrap(),
    )
}

fn sources(numbers: impl IntoIterator<Item = u8>) -> BTreeSet<SourceId> {
    numbers
        .into_iter()
        .map(|number| SourceId::from_bytes([number; 16]))
        .collect()
}

fn auditor(hub: &TestHub) -> String {
    hub.reader(&Owner::Auditor {
        name: "Ada".into(),
        machines: BTreeSet::new(),
    })
}

/// Writes sessions with usage on a machine. Some words are in all of them.
fn write_history(machine: &Machine, number: u8) -> Vec<String> {
    let mut ids = Vec::new();
    for part in 0..4_u64 {
        let project = format!("/work/project-{}", (u64::from(number) + part) % 3);
        let session = machine.sessions().begin(&project).unwrap();
        session
            .append(Draft::user(format!(
                "question {part} of {number}: why does the build fail?"
            )))
            .unwrap();
        let usage = Usage::new(1000 * part + u64::from(number), 50);
        let reply = Draft::reply("It needs a feature.");
        session
            .append(reply.model("claude-sonnet-4-5").usage(usage))
            .unwrap();
        session.append(Draft::user("And then?")).unwrap();
        if part == 1 {
            session.append(Draft::user("on this branch only")).unwrap();
        }
        ids.push(session.session().to_string());
    }
    ids
}

/// The machines' own answers, as if all roots were on one machine.
fn local(machines: &[Machine]) -> Service {
    let mut roots: Vec<Root> = machines
        .iter()
        .map(|machine| Root::claude_code(machine.home.path()))
        .collect();
    roots.sort_by(|a, b| a.path.cmp(&b.path));
    Service::new(Store::new(roots)).with_now(now())
}

#[test]
fn hub_and_machines_give_equal_answers() {
    let hub = TestHub::start();
    let machines: Vec<Machine> = (1..=6).map(|number| hub.machine(number)).collect();
    let mut ids = Vec::new();
    for (number, machine) in (1..).zip(&machines) {
        ids.extend(write_history(machine, number));
        machine.push(&hub.url);
    }
    // A session that was copied to another machine, with its responses.
    let copied = machines[0].log(&ids[2]);
    let within = copied.strip_prefix(machines[0].home.path()).unwrap();
    let copy = machines[1].home.path().join(within);
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::copy(&copied, &copy).unwrap();
    let time = std::fs::metadata(&copied).unwrap().modified().unwrap();
    std::fs::File::options()
        .append(true)
        .open(&copy)
        .unwrap()
        .set_modified(time)
        .unwrap();
    machines[1].push(&hub.url);
    hub.commit();
    let (token, service) = (auditor(&hub), local(&machines));
    let hub_answer = |question: &str| {
        let (status, answer) = ask(&hub, &token, question);
        assert_eq!(status, 200, "{question}: {answer}");
        answer
    };

    let found = service.sessions(&SessionsRequest::default()).unwrap();
    assert!(found.total >= 24);
    let expected = json!({"sessions": found.rows, "total": found.total});
    assert_eq!(hub_answer("sessions"), expected);
    let request = SessionsRequest {
        project: Some("project-1".into()),
        limit: Some(3),
        ..SessionsRequest::default()
    };
    let found = service.sessions(&request).unwrap();
    let expected = json!({"sessions": found.rows, "total": found.total});
    assert_eq!(hub_answer("sessions?project=project-1&limit=3"), expected);

    for (by, dimensions) in [
        ("day", vec![annals::cost::Dimension::Day]),
        ("session", vec![annals::cost::Dimension::Session]),
        (
            "project,model",
            vec![
                annals::cost::Dimension::Project,
                annals::cost::Dimension::Model,
            ],
        ),
    ] {
        let request = CostRequest {
            by: dimensions,
            ..CostRequest::default()
        };
        let expected = serde_json::to_value(service.cost(&request).unwrap()).unwrap();
        assert!(
            expected["rows"]
                .as_array()
                .is_some_and(|rows| !rows.is_empty()),
            "{expected}"
        );
        assert_eq!(hub_answer(&format!("cost?by={by}")), expected);
    }

    for query in ["build", "feature", "branch", "nothing-has-this-word"] {
        let found = service
            .search(&SearchRequest::new(query), &|| false)
            .unwrap();
        let expected = serde_json::to_value(found).unwrap();
        assert_eq!(hub_answer(&format!("search?q={query}")), expected);
    }

    for id in [&ids[0], &ids[5], &ids[23]] {
        let open = service.open(id).unwrap();
        let expected = json!({"conversations": service.conversations_of(&open)});
        assert_eq!(hub_answer(&format!("conversations?session={id}")), expected);
        let found = open.messages(&MessagesRequest::default()).unwrap();
        let expected = json!({"session": id, "entries": found.entries});
        assert_eq!(hub_answer(&format!("show?session={id}")), expected);
    }

    // What grows is in the next answer.
    machines[3].append(&ids[12], "one more thing");
    machines[3].push(&hub.url);
    hub.commit();
    let found = service
        .search(&SearchRequest::new("\"one more thing\""), &|| false)
        .unwrap();
    assert_eq!(found.total, 1);
    let expected = serde_json::to_value(found).unwrap();
    assert_eq!(hub_answer("search?q=%22one+more+thing%22"), expected);
}

#[test]
fn readers_get_only_what_their_role_allows() {
    let hub = TestHub::start();
    let machines: Vec<Machine> = (1..=3).map(|number| hub.machine(number)).collect();
    let mut ids = Vec::new();
    for (number, machine) in (1..).zip(&machines) {
        ids.push(write_history(machine, number));
        machine.push(&hub.url);
    }
    hub.commit();
    let count = |token: &str| {
        let (status, answer) = ask(&hub, token, "sessions");
        assert_eq!(status, 200);
        answer["total"].as_u64().unwrap()
    };
    let cost = |token: &str, by: &str| {
        let (status, answer) = ask(&hub, token, &format!("cost?by={by}"));
        assert_eq!(status, 200);
        answer["total"]["requests"].as_u64().unwrap()
    };
    let person = hub.reader(&Owner::Person {
        name: "Bo".into(),
        machines: sources([1]),
    });
    let lead = |content| {
        hub.reader(&Owner::Lead {
            name: "Cy".into(),
            machines: sources([1]),
            team: sources([2]),
            content,
        })
    };
    let (costs_only, with_content) = (lead(false), lead(true));
    assert_eq!(
        [&person, &costs_only, &with_content, &auditor(&hub)].map(|token| count(token)),
        [4, 4, 8, 12]
    );
    assert_eq!(cost(&person, "day"), 4);
    assert_eq!(cost(&costs_only, "day"), 8, "sums of the team");
    for by in ["session", "project", "agent", "branch"] {
        assert_eq!(
            cost(&costs_only, by),
            4,
            "rows by {by} have names of sessions"
        );
    }
    assert_eq!(cost(&with_content, "session"), 8);
    // Nothing of others is found, by whatever verb and id.
    let secret = &ids[2][0];
    for question in [
        format!("show?session={secret}"),
        format!("conversations?session={secret}"),
        format!("cost?session={secret}"),
    ] {
        let (status, answer) = ask(&hub, &with_content, &question);
        assert!(
            status == 400 || answer["rows"] == json!([]),
            "{question}: {status} {answer}"
        );
        assert!(!answer.to_string().contains("question"), "{answer}");
    }
    let path = machines[2].log(secret);
    let (status, _) = ask(
        &hub,
        &with_content,
        &format!("show?session={}", path.display()),
    );
    assert_eq!(
        status, 400,
        "a path outside of what may be read names no session"
    );
    let (_, answer) = ask(&hub, &person, "search?q=question");
    assert_eq!(answer["total"], 4);
    // Machines read nothing, readers write nothing.
    let (status, _) = ask(&hub, &machines[0].token, "sessions");
    assert_eq!(status, 403);
    let (status, _) = ask(&hub, &person, "machine");
    assert_eq!(status, 403);
    let (status, _) = ask(&hub, "annals_wrong", "sessions");
    assert_eq!(status, 401);
    for (question, why) in [
        ("sessions?root=/", "unknown parameter"),
        ("search", "query"),
        ("cost?by=x", "dimension"),
        ("sessions?since=never", "time"),
    ] {
        let (status, answer) = ask(&hub, &person, question);
        assert_eq!(status, 400, "{question}");
        assert!(answer["error"].as_str().unwrap().contains(why), "{answer}");
    }
}

#[test]
fn reads_of_other_peoples_sessions_are_in_the_audit_table() {
    let hub = TestHub::start();
    let machines: Vec<Machine> = (1..=2).map(|number| hub.machine(number)).collect();
    let mut ids = Vec::new();
    for (number, machine) in (1..).zip(&machines) {
        ids.push(write_history(machine, number));
        machine.push(&hub.url);
    }
    hub.commit();
    let audited = || {
        hub.runtime.block_on(async {
            let table = Table::open(&hub.store, AUDIT).await.unwrap();
            let rows = table.files().map(|add| {
                let stats: Value = serde_json::from_str(add.stats.as_deref().unwrap()).unwrap();
                stats["numRecords"].as_u64().unwrap()
            });
            rows.sum::<u64>()
        })
    };
    let token = hub.reader(&Owner::Auditor {
        name: "Ada".into(),
        machines: sources([1]),
    });
    ask(&hub, &token, &format!("show?session={}", ids[0][0]));
    ask(&hub, &token, "cost?by=day");
    assert_eq!(audited(), 0, "her own session, and sums");
    ask(&hub, &token, &format!("show?session={}", ids[1][0]));
    assert_eq!(audited(), 1);
    ask(&hub, &token, "sessions");
    assert_eq!(
        audited(),
        5,
        "the list has four sessions of the other machine"
    );
    ask(&hub, &token, "search?q=nothing-has-this-word");
    assert_eq!(audited(), 5);
    ask(&hub, &token, "search?q=question");
    assert_eq!(audited(), 9);
}
