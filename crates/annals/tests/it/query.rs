//! Queries for messages, compared with manual counts.

use annals::model::{Body, Role, Usage};
use annals::store::{MessageFilter, ProjectInfo, Session, SessionInfo, Store, Totals, TrashItem};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::support::{case, cases, picture, says, underived, writable_cases};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn filter_selects_messages() {
    let session = case("parallel-tools-dag").only();
    let all = session.messages(&MessageFilter::default()).unwrap();
    assert_eq!(all.len(), 8);
    let count = |filter: MessageFilter| session.messages(&filter).unwrap().len();
    let filter = MessageFilter::default;
    assert_eq!(
        count(MessageFilter {
            role: Some(Role::User),
            ..filter()
        }),
        3
    );
    assert_eq!(
        count(MessageFilter {
            role: Some(Role::Assistant),
            ..filter()
        }),
        5
    );
    for (kind, wanted) in [
        ("text", 3),
        ("thinking", 1),
        ("tool_use", 2),
        ("tool_result", 2),
        ("image", 0),
    ] {
        assert_eq!(
            count(MessageFilter {
                kind: Some(kind.to_owned()),
                ..filter()
            }),
            wanted,
            "{kind}"
        );
    }
    // Text is found in replies, calls and results, ignoring case.
    for (text, wanted) in [("BOTH", 3), ("running", 1), ("nowhere", 0), ("bash", 2)] {
        assert_eq!(
            count(MessageFilter {
                text: Some(text.to_owned()),
                ..filter()
            }),
            wanted,
            "{text}"
        );
    }
    let times: Vec<Timestamp> = all.iter().map(|entry| entry.time.unwrap()).collect();
    for (at, moment) in times.iter().enumerate() {
        let since = count(MessageFilter {
            since: Some(*moment),
            ..filter()
        });
        let until = count(MessageFilter {
            until: Some(*moment),
            ..filter()
        });
        assert_eq!(
            since,
            times.iter().filter(|time| *time >= moment).count(),
            "{at}"
        );
        assert_eq!(
            until,
            times.iter().filter(|time| *time <= moment).count(),
            "{at}"
        );
    }
    assert_eq!(
        count(MessageFilter {
            agent: Some("main".to_owned()),
            ..filter()
        }),
        8
    );
    assert_eq!(
        count(MessageFilter {
            agent: Some("a1".to_owned()),
            ..filter()
        }),
        0
    );
}

#[test]
fn role_filter_selects_instructions() {
    let session = case("agentpool-session").only();
    let filter = MessageFilter::default().role(Role::System);
    let found = session.messages(&filter).unwrap();
    let said: Vec<String> = found.iter().map(says).collect();
    assert_eq!(said, ["System message text"]);
    assert_eq!(session.stats(&TimeZone::UTC).by_role["system"], 1);
}

#[test]
fn agent_filter_selects_one_agent() {
    let session = case("subagents-every-placement").only();
    let of = |agent: &str| {
        let filter = MessageFilter {
            agent: Some(agent.to_owned()),
            ..MessageFilter::default()
        };
        session.messages(&filter).unwrap().len()
    };
    assert_eq!(of("main"), 12);
    assert_eq!(of("a1b2c3d"), 5);
    assert_eq!(of("a0123456789abcdef"), 5);
    assert_eq!(of("a9999999"), 1);
    // A visitor can stop early.
    let mut seen = 0;
    session
        .each_message(&MessageFilter::default(), |_| {
            seen += 1;
            Ok(seen < 3)
        })
        .unwrap();
    assert_eq!(seen, 3);
}

#[test]
fn stats_count_each_response_once() {
    let utc = TimeZone::UTC;
    let total = |name: &str| case(name).only().stats(&utc).total;
    let usage = |input, output| Usage {
        input,
        output,
        ..Usage::default()
    };
    assert_eq!(
        (
            total("usage-growing").responses,
            total("usage-growing").usage
        ),
        (1, usage(1_000, 250))
    );
    let total_of = total("usage-no-request-id");
    assert_eq!((total_of.responses, total_of.usage), (2, usage(300, 140)));
    let split = total("usage-cache-split");
    assert_eq!(split.responses, 1, "a synthetic reply is no request");
    assert_eq!(
        split.usage,
        Usage {
            input: 10,
            output: 5,
            cache_write_5m: 300,
            cache_write_1h: 700,
            cache_read: 5_000,
            web_searches: 2
        }
    );
    let stats = case("usage-cache-split").only().stats(&utc);
    assert_eq!(
        stats.by_model.len(),
        1,
        "and no model: {:?}",
        stats.by_model.keys()
    );
    assert_eq!(total("usage-absurd").usage, usage(60, 0));
    assert_eq!(total("number-spellings").usage, usage(100_010, 6));
    let old = total("usage-cost-usd");
    assert_eq!(
        (old.responses, old.usage.input, old.usage.output),
        (2, 4_000, 1_200)
    );
    assert_eq!(
        old.usage.cache_write_1h, 0,
        "without a split all cache writes are short-lived"
    );
    let unknown = case("usage-unknown-model").only().stats(&utc);
    assert_eq!(
        (unknown.total.responses, unknown.total.usage),
        (3, usage(30, 15))
    );
    assert_eq!(
        unknown
            .by_model
            .values()
            .map(|counted| counted.responses)
            .sum::<u64>(),
        2
    );
}

#[test]
fn stats_by_role_agent_day_and_hour_add_up() {
    let session = case("sidechain-own-root").only();
    let stats = session.stats(&TimeZone::UTC);
    assert_eq!(stats.total.messages, 16);
    let agents: Vec<(&str, u64)> = stats
        .by_agent
        .iter()
        .map(|(agent, counted)| (agent.as_str(), counted.messages))
        .collect();
    assert_eq!(
        agents,
        [("main", 6), ("sidechain-1", 5), ("sidechain-2", 5)]
    );
    for case in cases() {
        for files in case.sessions() {
            let session = annals::store::Session::read(files).unwrap();
            let info = session.info(None);
            let stats = session.stats(&TimeZone::UTC);
            // The row of a session does not count the messages of warm-ups.
            let warm_ups = session.agents.iter().filter(|agent| agent.warm_up);
            let warm_ups: usize = warm_ups.map(|agent| agent.messages).sum();
            let messages = info.messages + warm_ups as u64;
            assert_eq!(stats.total.messages, messages, "{}", case.name);
            assert_eq!(stats.total.usage, info.usage, "{}", case.name);
            assert_eq!(stats.by_role.values().sum::<u64>(), messages);
            assert_eq!(
                stats
                    .by_agent
                    .values()
                    .map(|counted| counted.messages)
                    .sum::<u64>(),
                messages
            );
            let timed = stats
                .by_day
                .values()
                .map(|counted| counted.messages)
                .sum::<u64>();
            assert_eq!(
                timed,
                stats
                    .by_hour
                    .values()
                    .map(|counted| counted.messages)
                    .sum::<u64>()
            );
            let responses = stats
                .by_agent
                .values()
                .map(|counted| counted.responses)
                .sum::<u64>();
            assert_eq!(responses, stats.total.responses);
        }
    }
    // The time zone determines the day.
    let day = |zone: &str| {
        let zone = TimeZone::get(zone).unwrap();
        case("usage-growing")
            .only()
            .stats(&zone)
            .by_hour
            .keys()
            .next()
            .copied()
    };
    assert_ne!(day("UTC"), day("Asia/Tokyo"));
}

#[test]
fn ancestry_is_the_path_from_the_root() {
    let session = case("branch-nested").only();
    let leaf = session.tree().unwrap().conversations[1].leaf;
    let id = session.entry_id(leaf).unwrap();
    let way = session.ancestry(id.as_str()).unwrap();
    let said: Vec<String> = way.iter().map(says).collect();
    assert_eq!(
        said,
        [
            "question 1",
            "answer 1",
            "question 2, edited",
            "answer to the edited question",
            "go left",
            "deep left"
        ]
    );
    for pair in way.windows(2) {
        assert_eq!(pair[1].parent, pair[0].id);
    }
    // Links determine the ancestry, not line order.
    let session = case("out-of-order").only();
    let last = session.last_messages(1).unwrap().remove(0);
    let said: Vec<String> = session
        .ancestry(last.id.unwrap().as_str())
        .unwrap()
        .iter()
        .map(says)
        .collect();
    assert_eq!(
        said,
        [
            "question 1",
            "answer 1",
            "question 2",
            "answer 2",
            "question 3",
            "answer 3"
        ]
    );
    // An empty or unknown id is an error.
    let session = case("unknown-types").only();
    for entry in ["", "nope"] {
        assert!(session.ancestry(entry).is_err());
    }
}

#[test]
fn last_messages_belong_to_the_conversation_to_resume() {
    let said = |name: &str, n| -> Vec<String> {
        let session = case(name).only();
        session.last_messages(n).unwrap().iter().map(says).collect()
    };
    assert_eq!(
        said("last-prompt-older-branch", 2),
        ["question 2", "answer 2"]
    );
    assert_eq!(
        said("last-prompt-ancestor", 3),
        ["answer 2", "question 3", "answer 3"]
    );
    assert_eq!(said("torn-tail", 1), ["question 2"]);
    assert_eq!(
        said("two-roots", 10),
        ["another beginning", "another answer"]
    );
    assert_eq!(said("only-noise", 3), Vec::<String>::new());
    assert_eq!(said("compaction", 0), Vec::<String>::new());
}

#[test]
fn message_is_found_by_id_prefix() {
    let session = case("branch-nested").only();
    assert!(matches!(
        session.message("00000001").unwrap().body,
        Body::Message(_)
    ));
    assert!(matches!(
        session.message("0000000"),
        Err(annals::Error::Ambiguous { .. })
    ));
    assert!(matches!(
        session.message("ffff"),
        Err(annals::Error::NotFound { .. })
    ));
}

#[test]
fn reset_of_a_project_leaves_others_unchanged() {
    for case in writable_cases() {
        let copy = case.copy();
        let store = copy.store();
        let before = underived(case.layout, &copy.root.path);
        let inventory = store.inventory();
        let rows: Vec<SessionInfo> = store
            .sessions(&inventory)
            .read(&|_, _| {})
            .into_iter()
            .map(Result::unwrap)
            .collect();
        for project in ProjectInfo::from_sessions(rows.iter()) {
            let now = time("2026-01-01T00:00:00Z");
            let plan = store.trash().plan_project(&project.path, now).unwrap();
            if project.guessed {
                assert!(plan.is_empty(), "a folder's name is not enough");
                continue;
            }
            let planned = plan.iter().flat_map(|trashed| trashed.sessions());
            assert_eq!(planned.count(), project.sessions, "{}", case.name);
            assert_eq!(
                underived(case.layout, &copy.root.path),
                before,
                "a plan changes nothing"
            );
            let gone = store.trash().move_project_in(&project.path, now);
            let gone: Vec<TrashItem> = gone.into_iter().map(Result::unwrap).collect();
            let planned: Vec<usize> = plan.iter().map(|trashed| trashed.files.len()).collect();
            assert_eq!(
                gone.iter()
                    .map(|trashed| trashed.files.len())
                    .collect::<Vec<_>>(),
                planned
            );
            let after = underived(case.layout, &copy.root.path);
            let moved: Vec<_> = gone
                .iter()
                .flat_map(|trashed| trashed.files.iter().map(|file| file.path.clone()))
                .collect();
            for (path, what) in before.iter().filter(|(_, what)| !what.is_empty()) {
                assert_eq!(
                    after.get(path),
                    (!moved.contains(path)).then_some(what),
                    "{} {}",
                    case.name,
                    path.display()
                );
            }
            // The other projects are unchanged.
            let left = Store::new(vec![copy.root.clone()]).inventory();
            assert_eq!(
                left.sessions.len(),
                inventory.sessions.len() - project.sessions,
                "{}",
                case.name
            );
            for trashed in gone {
                store.trash().restore(&trashed.id).unwrap();
            }
            assert_eq!(
                underived(case.layout, &copy.root.path),
                before,
                "{}",
                case.name
            );
        }
    }
}

#[test]
fn session_is_found_by_id_prefix_path_or_message() {
    let case = case("same-session-two-projects");
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    let id = inventory.sessions[0].id.to_string();
    // One id, two logs: the error lists both paths.
    match store.find(&inventory, &id) {
        Err(annals::Error::Ambiguous { candidates, .. }) => {
            assert_eq!(candidates.len(), 2);
            for path in candidates {
                let target = store.find(&inventory, &path).unwrap();
                assert_eq!(target.files.main_path().display().to_string(), path);
                let target = store.find(&inventory, &format!("{path}@00000001")).unwrap();
                assert_eq!(target.message.as_deref(), Some("00000001"));
            }
        }
        other => panic!("{other:?}"),
    }
    let case = crate::support::case("todos");
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    assert_eq!(
        store.find(&inventory, "5e63").unwrap().files.id.as_str(),
        "5e634e57-d60d-43ba-829e-692d6938947f"
    );
    assert_eq!(
        store
            .find(&inventory, "5e63@abc")
            .unwrap()
            .message
            .as_deref(),
        Some("abc")
    );
    assert!(matches!(
        store.find(&inventory, "ffff"),
        Err(annals::Error::NotFound { .. })
    ));
    // A log in a root that was not named, and one outside any root.
    let path = case.sessions()[0].main_path().to_owned();
    let nothing = Store::new(Vec::new());
    let found = nothing
        .find(&nothing.inventory(), path.to_str().unwrap())
        .unwrap();
    assert_eq!(
        found.files.root.path.canonicalize().unwrap(),
        case.path.canonicalize().unwrap()
    );
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("some-log.jsonl");
    std::fs::copy(&path, &alone).unwrap();
    let found = nothing
        .find(&nothing.inventory(), alone.to_str().unwrap())
        .unwrap();
    assert_eq!(found.files.id.as_str(), "some-log");
    let before = picture(dir.path());
    let writer = nothing
        .open_writer(&found.files, crate::support::QUICK)
        .unwrap();
    writer.append(annals::model::Draft::user("on")).unwrap();
    assert!(
        writer.set_todos(&[]).is_err(),
        "nothing can be kept beside it"
    );
    let after = picture(dir.path());
    assert_eq!(after.len(), before.len());
    assert_ne!(after, before);
}

/// Totals added one outline at a time equal the stats of the whole session, wherever the lines of a
/// response are.
#[test]
fn running_totals_equal_session_stats() {
    let mut counted = 0;
    for case in cases() {
        for files in case.sessions() {
            let session = Session::read(files).unwrap();
            let mut totals = Totals::default();
            for scan in &session.logs {
                scan.outlines.iter().for_each(|outline| totals.add(outline));
            }
            let stats = session.stats(&TimeZone::UTC);
            assert_eq!(totals.sum(), stats.total, "{}", case.name);
            counted += totals.sum().responses;
        }
    }
    assert!(counted > 200, "{counted}");
}
