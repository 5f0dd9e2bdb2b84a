//! Up to a million entries in memory: linear time, no recursion.

use std::time::Duration;

use annals::model::{EntryKey, Fact, Link, Outline, OutlineKind, Reply, ResponseKey, Span, Usage};
use annals::tree::{Scope, Titles, Tree};

use crate::support::processor_time;

fn key(n: usize) -> EntryKey {
    EntryKey::from_text(&format!("{n:08x}-0000-4000-8000-000000000000"))
}

fn message(n: usize, parent: Option<usize>) -> Outline {
    let mut outline = Outline::new(Span {
        offset: n as u64 * 100,
        len: 100,
        line: n as u64 + 1,
    });
    outline.key = Some(key(n));
    outline.link = parent.map_or(Link::None, |parent| Link::Parent(key(parent)));
    if n.is_multiple_of(2) {
        outline.kind = OutlineKind::User;
        outline.human = true;
        outline.facts.push(Fact::Prompt("a prompt".into()));
    } else {
        outline.kind = OutlineKind::Assistant;
        let usage = Usage {
            output: 1,
            ..Usage::default()
        };
        let reply = Reply {
            response: Some(ResponseKey::new("msg", &n.to_string())),
            usage: Some(usage),
            ..Reply::default()
        };
        outline.reply = Some(Box::new(reply));
    }
    outline
}

/// Builds the tree and calls everything that walks all of it.
fn everything(outlines: &[Outline]) -> (Tree, Duration) {
    let begin = processor_time();
    let tree = Tree::build(outlines, Scope::Main);
    let elsewhere = std::collections::HashMap::new();
    let titles = Titles::new(outlines, &tree, &elsewhere, &[]);
    for conversation in &tree.conversations {
        titles.title(conversation);
    }
    titles.session();
    tree.segments();
    tree.conversation_at(0);
    tree.path_to(outlines.len() - 1);
    let took = processor_time() - begin;
    (tree, took)
}

/// Checks that four times the input takes less than 12 times as long, which allows for a busy
/// machine; quadratic time would take 16 times as long.
fn linear(
    what: &str,
    n: usize,
    make: impl Fn(usize) -> Vec<Outline>,
    check: impl Fn(&Tree, usize),
) {
    let time = |n: usize| {
        let outlines = make(n);
        let (tree, took) = everything(&outlines);
        check(&tree, n);
        took
    };
    // The best of two runs: noise only adds time.
    let best = |n: usize| (0..2).map(|_| time(n)).min().unwrap();
    let (small, large) = (best(n / 4), best(n));
    assert!(
        large < small * 12 + Duration::from_millis(300),
        "{what}: {n} took {large:?}, a quarter {small:?}"
    );
    assert!(large < Duration::from_secs(20), "{what}: {large:?}");
}

#[test]
fn chain_of_a_million_messages() {
    let make = |n: usize| {
        (0..n)
            .map(|at| message(at, at.checked_sub(1)))
            .collect::<Vec<_>>()
    };
    let outlines = make(1_000_000);
    let (tree, took) = everything(&outlines);
    assert_eq!(tree.conversations.len(), 1);
    assert_eq!(tree.conversations[0].messages, 1_000_000);
    assert_eq!(tree.path(&tree.conversations[0]).len(), 1_000_000);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn a_hundred_thousand_leaves_under_one_parent() {
    linear(
        "leaves",
        100_000,
        |n| {
            (0..=n)
                .map(|at| message(at * 2, (at > 0).then_some(0)))
                .collect()
        },
        |tree, n| assert_eq!(tree.conversations.len(), n),
    );
}

#[test]
fn many_leaves_below_a_long_chain_without_times() {
    // Each leaf has a long path, so walking one path per leaf would take 10¹⁰ steps.
    let make = |n: usize| {
        let chain = (0..n).map(|at| message(at, at.checked_sub(1)));
        chain
            .chain((0..n).map(|at| message(n * 2 + at * 2, Some(n - 1))))
            .collect()
    };
    linear("broom", 50_000, make, |tree, n| {
        assert_eq!(tree.conversations.len(), n)
    });
}

#[test]
fn cycles_of_any_length_are_cut() {
    for n in [10, 100_000] {
        let ring: Vec<Outline> = (0..n)
            .map(|at| message(at, Some((at + n - 1) % n)))
            .collect();
        let (tree, took) = everything(&ring);
        assert_eq!(tree.flaws.len(), 1);
        assert_eq!(tree.conversations.len(), 1);
        assert_eq!(tree.conversations[0].messages, n);
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}

#[test]
fn many_small_cycles_and_orphans() {
    let make = |n: usize| {
        let mut outlines: Vec<Outline> = Vec::new();
        for at in (0..n).step_by(4) {
            outlines.push(message(at, Some(at + 2)));
            outlines.push(message(at + 2, Some(at)));
            outlines.push(message(at + 1, Some(usize::MAX >> 40)));
        }
        outlines
    };
    linear("cycles", 100_000, make, |tree, n| {
        assert_eq!(tree.flaws.len(), n / 2)
    });
}

#[test]
fn many_turns_that_merge_into_one() {
    // A chain of user lines that nobody typed: each is a turn, none is a branch.
    let make = |n: usize| {
        let mut outlines: Vec<Outline> = (0..n)
            .map(|at| message(at * 2, at.checked_sub(1).map(|above| above * 2)))
            .collect();
        outlines
            .iter_mut()
            .skip(1)
            .for_each(|outline| outline.human = false);
        outlines
    };
    linear("folds", 100_000, make, |tree, n| {
        assert_eq!(tree.conversations.len(), 1);
        assert_eq!(tree.conversations[0].messages, n);
    });
}

#[test]
fn many_parallel_calls_are_one_turn() {
    let make = |n: usize| {
        let mut outlines = vec![message(0, None)];
        for at in 0..n {
            let mut call = message(at * 4 + 1, Some(if at == 0 { 0 } else { at * 4 - 3 }));
            let reply = call.reply.as_mut().unwrap();
            reply.response = Some(ResponseKey::new("one response", ""));
            reply.calls = vec![EntryKey::from_pair("call", &at.to_string())];
            let mut result = message(at * 4 + 2, Some(at * 4 + 1));
            result.human = false;
            result.results = vec![EntryKey::from_pair("call", &at.to_string())];
            outlines.extend([call, result]);
        }
        outlines
    };
    linear("graph", 30_000, make, |tree, n| {
        assert_eq!(tree.conversations.len(), 1);
        assert_eq!(tree.conversations[0].messages, 2 * n + 1);
    });
}

/// The same through a session on disk: rows, totals and lookup by prefix.
#[test]
fn session_of_many_branches_is_listed_quickly() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/-w");
    std::fs::create_dir_all(&folder).unwrap();
    let mut log = String::new();
    let n: usize = 20_000;
    for at in 0..n {
        let kind = if at % 2 == 0 { "user" } else { "assistant" };
        let parent = if at < n / 2 {
            at.checked_sub(1)
        } else {
            Some(n / 2 - 1)
        };
        let parent = parent.map_or("null".to_owned(), |at| {
            format!("\"{at:08x}-0000-4000-8000-000000000000\"")
        });
        log += &format!(
            r#"{{"type":"{kind}","uuid":"{at:08x}-0000-4000-8000-000000000000","parentUuid":{parent},"cwd":"/d/{at}","message":{{"id":"m{at}","role":"{kind}","content":"x","usage":{{"output_tokens":1}}}}}}"#
        );
        log.push('\n');
    }
    std::fs::write(
        folder.join("aaaaaaaa-0000-4000-8000-000000000000.jsonl"),
        log,
    )
    .unwrap();
    let root = annals::store::Root::new("claude-code", dir.path()).unwrap();
    let begin = processor_time();
    let store = annals::store::Store::new(vec![root]);
    let session = annals::store::Session::read(store.inventory().sessions.remove(0)).unwrap();
    let infos = session.conversations();
    assert_eq!(infos.len(), n / 2);
    // The shared half has n / 4 answers; every second branch has one more.
    assert_eq!(infos.last().unwrap().usage.output as usize, n / 4 + 1);
    assert_eq!(session.info(None).conversations, n / 2);
    assert!(session.find_entry("0000").is_err());
    let took = processor_time() - begin;
    assert!(took < Duration::from_secs(10), "{took:?}");
}
