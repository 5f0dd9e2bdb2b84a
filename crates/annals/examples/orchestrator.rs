//! The storage part of an orchestrator: a log for each project and day, with token accounting,
//! resuming, validation and clean-up.
//!
//! `cargo run -p annals --example orchestrator`

use annals::cost::{Mode, Prices};
use annals::layout::NewSession;
use annals::model::{Block, Draft, Money, Usage};
use annals::store::{Root, State, Store, WriteOptions};

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;
    let root = Root::new("orchestrator", dir.path().join("claude"))?;
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
    let (project, day) = ("/Users/nick/projects/my-app", "2025-11-16");

    // The session of a project on a day: an empty file, until something is said.
    let now = format!("{day}T10:30:00Z").parse().ok();
    let options = WriteOptions {
        now,
        ..WriteOptions::default()
    };
    let session = store.create(&root, &NewSession::unnamed(project)?, options)?;
    assert_eq!(session.state(), State::Created);
    session.append(Draft::user("Is the authentication safe?").member("source", r#""cli""#))?;
    let usage = Usage {
        input: 15_000,
        output: 2_150,
        cache_write_5m: 8_000,
        ..Usage::default()
    };
    let blocks = [
        Block::Text("Let me look.".into()),
        Block::ToolUse {
            id: "call_abc123".into(),
            name: "Read".into(),
            input: "{}".into(),
        },
    ];
    session.append(
        Draft::assistant(blocks)
            .model("claude-sonnet-4-5-20250929")
            .usage(usage),
    )?;
    session.append(Draft::tool_result("call_abc123", "…").member("duration_ms", "543"))?;
    assert_eq!(session.state(), State::Active);
    drop(session);

    // Another process goes on with it, beside programs that keep the same lock protocol.
    let session = store.resume(&format!("{project}/{day}"), options)?;
    assert_eq!(session.state(), State::Resumed);
    session.append(Draft::user("Go on.").member("source", r#""agent""#))?;
    println!(
        "{:?}: {} tokens",
        session.path(),
        session.totals()?.usage.total()
    );

    // What it cost, exactly; validation; and what was not used for 30 days.
    let info = store.session(session.session().as_str())?.info(None);
    let prices = Prices::built_in();
    let cost: Money = info
        .charges
        .iter()
        .filter_map(|it| prices.cost(it, Mode::Auto))
        .sum();
    assert_eq!(
        (cost.to_string(), cost.rounded(2)),
        ("0.10725".into(), "0.11".into())
    );
    assert_eq!(info.flaws, 0);
    let removed = store.clean_older_than(30, jiff::Timestamp::now())?;
    assert_eq!(removed.len(), 1);
    Ok(())
}
