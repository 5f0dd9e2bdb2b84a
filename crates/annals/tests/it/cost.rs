//! Who pays for what.

use annals::cost::Charge;
use annals::store::{ConversationInfo, Session};

use crate::support::{case, cases};

#[test]
fn every_response_of_a_session_with_conversations_is_paid_by_one() {
    let mut paid = 0;
    for case in cases() {
        for files in case.sessions() {
            let session = Session::read(files).unwrap();
            let known: Vec<String> = session
                .conversations()
                .into_iter()
                .map(|conversation| conversation.id)
                .collect();
            let branches = session.branches();
            for charge in &session.info(None).charges {
                let payer = branches.of(charge).map(|name| name.key.to_string());
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

/// The conversations of a fixture's only session, with the tokens that each pays for.
fn bills(name: &str) -> Vec<(String, u64, u64)> {
    let session = case(name).only();
    let branches = session.branches();
    let charges = session.info(None).charges;
    let rows = session.conversations();
    let bill = |row: ConversationInfo| {
        let pays = |charge: &&Charge| branches.of(charge).is_some_and(|name| *name.key == *row.id);
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
fn sub_agents_without_ids_are_not_the_main_agent() {
    let charges = case("sidechain-own-root").only().info(None).charges;
    let aside = charges.iter().filter(|charge| charge.agent.is_some());
    assert_eq!((aside.count(), charges.len()), (3, 5));
}
