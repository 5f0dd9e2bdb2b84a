//! The storage part of an orchestrator: a log for each project and day, with token accounting,
//! resuming, validation and clean-up.
//!
//! `cargo run -p annals --example orchestrator`

use annals::cost::Prices;
use annals::layout::NewSession;
use annals::model::{Draft, Usage};
use annals::store::{SessionState, Store, WriteOptions};
use jiff::{SignedDuration, Timestamp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let (root, state) = (dir.path().join("claude"), dir.path().join("state"));
    let store = Store::open("orchestrator", root, state)?;
    let root = store.roots().first().ok_or("a root")?;
    let (project, day) = ("/Users/nick/projects/my-app", "2025-11-16");

    // The session of a project on a day: an empty file until the first message.
    let options = WriteOptions::at(format!("{day}T10:30:00Z").parse()?);
    let session = store.create(root, &NewSession::unnamed(project)?, options)?;
    assert_eq!(session.state(), SessionState::Created);
    session.append(Draft::user("Is the authentication safe?").member("source", r#""cli""#))?;
    let reply = Draft::reply("Let me look.").call("call_abc123", "Read", "{}");
    let reply = reply.model("claude-sonnet-4-5-20250929");
    session.append(reply.usage(Usage::new(15_000, 2_150).cache_write(8_000)))?;
    session.append(Draft::tool_result("call_abc123", "…").member("duration_ms", "543"))?;
    assert_eq!(session.state(), SessionState::Active);
    drop(session);

    // Another process resumes it, next to programs that follow the same lock protocol.
    let session = store.resume(&format!("{project}/{day}"), options)?;
    assert_eq!(session.state(), SessionState::Resumed);
    session.append(Draft::user("Go on.").member("source", r#""agent""#))?;
    println!("{} tokens", session.totals()?.usage.total());

    // The exact cost; validation; removal of sessions not used for 30 days.
    let info = store.session(session.session().as_str())?.info(None);
    let cost = Prices::built_in().total(&info.charges);
    assert_eq!(
        (cost.to_string().as_str(), cost.rounded(2).as_str()),
        ("0.10725", "0.11")
    );
    assert_eq!(info.flaws, 0);
    let later = Timestamp::now() + SignedDuration::from_hours(31 * 24);
    let removed = store.retention().clean_older_than(30, later)?;
    assert!(removed.len() == 1 && removed.iter().all(Result::is_ok));
    Ok(())
}
