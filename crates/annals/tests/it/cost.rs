//! Attribution of costs to conversations.

use annals::cost::{Charge, LogCharges, PriceMode, Prices, Tally};
use annals::model::Money;
use annals::store::{ConversationInfo, Root, Session, Store};
use serde_json::json;

use crate::support::{case, cases};

#[test]
fn every_charge_belongs_to_one_conversation() {
    let mut paid = 0;
    for case in cases() {
        for files in case.sessions() {
            let session = Session::read(files).unwrap();
            let known: Vec<String> = session
                .conversations()
                .into_iter()
                .map(|conversation| conversation.id)
                .collect();
            let branches = session.branch_attribution();
            for charge in &session.info(None).charges {
                let payer = branches.branch(charge).map(|name| name.key.to_string());
                let sound = match &payer {
                    Some(key) => known.contains(key),
                    None => known.is_empty(),
                };
                assert!(sound, "{}: {payer:?} of {known:?}", case.name);
                paid += usize::from(payer.is_some());
            }
        }
    }
    assert!(paid > 100, "{paid}");
}

/// Returns the conversations of a fixture's only session, with the tokens charged to each.
fn bills(name: &str) -> Vec<(String, u64, u64)> {
    let session = case(name).only();
    let branches = session.branch_attribution();
    let charges = session.info(None).charges;
    let rows = session.conversations();
    let bill = |row: ConversationInfo| {
        let pays = |charge: &&Charge| {
            branches
                .branch(charge)
                .is_some_and(|name| *name.key == *row.id)
        };
        let paid = charges.iter().filter(pays).map(|one| one.usage.total());
        let label = row.branch.or(row.title.map(|title| title.text));
        (label.unwrap_or_default(), paid.sum(), row.usage.total())
    };
    rows.into_iter().map(bill).collect()
}

#[test]
fn what_branches_share_is_paid_by_the_one_that_would_be_resumed() {
    insta::assert_debug_snapshot!((
        bills("branch-three-way"),
        bills("branch-nested"),
        bills("last-prompt-older-branch"),
    ));
}

#[test]
fn charges_of_sub_agents_without_id_are_not_the_main_agents() {
    let charges = case("sidechain-own-root").only().info(None).charges;
    let aside = charges
        .iter()
        .filter(|charge| charge.source.agent.is_some());
    assert_eq!((aside.count(), charges.len()), (3, 5));
}

/// Returns the cost of each conversation, compared with the charges on its path.
fn held(session: &Session, name: &str) -> Vec<Tally> {
    let prices = Prices::built_in();
    let price = |charge: &Charge| prices.cost(charge, PriceMode::Auto);
    let costs = session.conversation_costs(&price);
    let Some((_, scan, tree)) = session.main_log() else {
        return costs;
    };
    assert_eq!(costs.len(), tree.conversations.len());
    let whole = crate::support::whole_names(&scan.outlines);
    for (conversation, cost) in tree.conversations.iter().zip(&costs) {
        let path = tree.path(conversation);
        let mut sheet = LogCharges::default();
        for &at in &path {
            let mut outline = scan.outlines[at].clone();
            if let Some(reply) = &mut outline.reply {
                reply.response = reply.response.map(&whole);
            }
            sheet.add(&outline);
        }
        let charges: Vec<Charge> = sheet.charges(0, None).collect();
        assert_eq!(*cost, Tally::from_charges(&charges, &price), "{name}");
        let entries = session.entry_costs(0, &path, &price);
        assert_eq!(cost.cost, entries.into_values().sum(), "{name}");
    }
    costs
}

#[test]
fn conversation_costs_equal_the_sum_of_their_responses() {
    let mut spent = Money::ZERO;
    for case in cases() {
        for files in case.sessions() {
            let costs = held(&Session::read(files).unwrap(), &case.name);
            spent += costs.iter().map(|cost| cost.cost).sum();
        }
    }
    assert!(spent > Money::ZERO);
}

/// A session with a prompt whose parent is an inner line of a reply, a last reply whose largest
/// usage is in an inner line, then an error and a sub-agent.
fn parted() -> (tempfile::TempDir, Session) {
    let line = |id: u32, parent: Option<u32>, said: Option<(&str, u64)>| {
        let name = |id: u32| format!("{id:08x}-0000-4000-8000-000000000000");
        let mut line = json!({
            "uuid": name(id), "parentUuid": parent.map(name), "isSidechain": id == 9, "cwd": "/home/dev/app",
            "sessionId": name(0), "version": "2.1.50", "timestamp": format!("2026-03-02T09:00:{id:02}Z"),
        });
        let model = if id == 8 {
            "<synthetic>"
        } else {
            "claude-sonnet-4-5"
        };
        match said {
            None => {
                line["type"] = "user".into();
                line["message"] = json!({ "role": "user", "content": format!("question {id}") });
            }
            Some((message, output)) => {
                line["type"] = "assistant".into();
                line["requestId"] = format!("req_{message}").into();
                line["message"] = json!({
                    "id": message, "type": "message", "role": "assistant", "model": model,
                    "content": [{ "type": "text", "text": format!("answer {id}") }],
                    "usage": { "input_tokens": 100, "output_tokens": output },
                });
            }
        }
        format!("{line}\n")
    };
    let log: String = [
        line(1, None, None),
        line(2, Some(1), Some(("msg_1", 5))),
        line(3, Some(2), Some(("msg_1", 9))),
        line(4, Some(2), None),
        line(5, Some(4), Some(("msg_2", 50))),
        line(6, Some(5), Some(("msg_2", 70))),
        line(7, Some(6), Some(("msg_2", 3))),
        line(8, Some(7), Some(("msg_3", 1_000))),
        line(9, None, Some(("msg_4", 2_000))),
    ]
    .concat();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/-home-dev-app");
    std::fs::create_dir_all(&folder).unwrap();
    let name = "00000000-0000-4000-8000-000000000000.jsonl";
    std::fs::write(folder.join(name), log).unwrap();
    let root = Root::parse(&format!("claude-code:{}", dir.path().display())).unwrap();
    let files = Store::new(root).inventory().sessions.remove(0);
    (dir, Session::read(files).unwrap())
}

#[test]
fn partly_shared_reply_costs_each_conversation_its_own_part() {
    let (_dir, session) = parted();
    let costs = held(&session, "parted");
    let output: Vec<(u64, u64)> = costs
        .iter()
        .map(|cost| (cost.requests, cost.usage.output))
        .collect();
    assert_eq!(output, [(1, 9), (2, 75)]);
}

#[test]
fn last_response_is_the_main_agents_with_its_largest_usage() {
    let (_dir, session) = parted();
    let tree = session.tree().unwrap();
    let at = tree.resume.unwrap();
    let last = session.last_response(&tree.conversations[at]).unwrap();
    assert_eq!((last.usage.input, last.usage.output), (100, 70));
    assert_eq!(last.source.model.as_deref(), Some("claude-sonnet-4-5"));
}

#[test]
fn response_cost_is_charged_once_at_its_last_entry() {
    let session = case("parallel-tools-dag").only();
    let (_, scan, tree) = session.main_log().unwrap();
    let path = tree.path(&tree.conversations[0]);
    let price = |_: &Charge| Some(Money::from_pico(1));
    let costs = session.entry_costs(0, &path, &price);
    let response = |at: usize| scan.outlines[at].reply.as_ref().and_then(|it| it.response);
    for &at in path.iter().filter(|&&at| response(at).is_some()) {
        let later = path
            .iter()
            .any(|&other| other > at && response(other) == response(at));
        assert_eq!(costs.contains_key(&at), !later, "{at}");
    }
}
