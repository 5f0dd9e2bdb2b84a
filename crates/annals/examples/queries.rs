//! Queries the messages of a session: filters, counts, tokens, ancestry; forks it at a message, and
//! resets a project.
//!
//! `cargo run -p annals --example queries`

use annals::model::{Block, Draft, EntryId, Role, Usage};
use annals::store::{MessageFilter, Root, Store, TrashItem};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = Store::new(vec![Root::claude_code(dir.path().join("root"))])
        .with_state(dir.path().join("state"));
    let noon: Timestamp = "2026-05-01T12:00:00Z".parse()?;
    let (id, middle) = two_days_of_work(&store, noon)?;
    let session = store.session(&id)?;

    // Messages by role, kind of block, time and text; an unset filter matches everything.
    let any = MessageFilter::default;
    let count = |filter: MessageFilter| session.messages(&filter).map(|found| found.len());
    assert_eq!(count(any().role(Role::Assistant))?, 4);
    assert_eq!(count(any().kind("tool_result"))?, 1);
    assert_eq!(count(any().since(noon + 12.hours()))?, 4);
    // Written times increase, so a message of noon may be a few milliseconds later.
    assert_eq!(count(any().text("FLAKY").until(noon + 1.second()))?, 2);

    // Counts and tokens; a response logged in several entries counts once.
    let stats = session.stats(&TimeZone::UTC);
    let by_model = stats
        .by_model
        .iter()
        .map(|(model, counted)| (model.clone(), counted));
    let by_day = stats
        .by_day
        .iter()
        .map(|(day, counted)| (day.to_string(), counted));
    for (key, counted) in by_model.chain(by_day) {
        println!(
            "{key}: {} messages, {} tokens out",
            counted.messages, counted.usage.output
        );
    }
    assert_eq!(stats.total.messages, 9);
    assert_eq!(stats.total.usage.output, 400);
    assert_eq!(
        stats.by_agent.get("main").map(|main| main.responses),
        Some(4)
    );
    assert_eq!(stats.by_hour.get(&12).map(|hour| hour.messages), Some(9));
    assert_eq!(stats.by_day.len(), 2);

    // One message and its ancestry, oldest first.
    let message = session.message(middle.as_str())?;
    let ancestry = session.ancestry(middle.as_str())?;
    println!("{middle} has {} ancestors", ancestry.len() - 1);
    assert_eq!(ancestry.first().and_then(|root| root.parent.clone()), None);
    assert_eq!(ancestry.last(), Some(&message));
    assert_eq!(ancestry.len(), 5);

    // A fork copies the messages up to that one into a new session; the source does not change.
    let fork = store.fork_at(&session, middle.as_str())?;
    let forked = store.session(fork.as_str())?;
    println!(
        "fork {fork} has {} messages",
        forked.messages(&any())?.len()
    );
    assert_eq!(forked.messages(&any())?.len(), 5);
    assert_eq!(store.session(&id)?.messages(&any())?.len(), 9);

    // A reset moves the sessions of one project to the trash; they can be restored.
    let other = store.begin("/home/me/other")?;
    let trash = store.trash();
    let trashed = trash.move_project_in("/home/me/app", Timestamp::now());
    let trashed: Vec<TrashItem> = trashed.into_iter().collect::<annals::Result<_>>()?;
    println!("reset moved {} sessions to the trash", trashed.len());
    assert_eq!(trashed.len(), 2);
    assert!(store.session(&id).is_err());
    assert!(other.path().exists(), "other projects are not touched");
    trash.restore(&id)?;
    assert_eq!(store.session(&id)?.messages(&any())?.len(), 9);
    Ok(())
}

/// Writes nine messages, at noon of two days; returns the session id and the id of the fifth
/// message.
fn two_days_of_work(store: &Store, noon: Timestamp) -> annals::Result<(String, EntryId)> {
    let usage = Usage {
        output: 100,
        ..Usage::default()
    };
    let says = |block| {
        Draft::assistant([block])
            .model("claude-sonnet-4-5")
            .usage(usage)
    };
    let text = |text: &str| Block::Text(text.to_owned());
    let call = Block::ToolUse {
        id: "toolu_1".into(),
        name: "Bash".into(),
        input: r#"{"command":"cargo test"}"#.into(),
    };
    let first_day = [
        Draft::user("Is the test flaky?"),
        says(call).model("claude-opus-4-5"),
        Draft::tool_result("toolu_1", "1 passed"),
        says(text("It is flaky.")),
        Draft::user("Why?"),
    ];
    let second_day = [
        says(text("It sleeps.")),
        Draft::user("Fix it."),
        says(text("Done.")),
        Draft::user("Thanks."),
    ];
    let session = store.begin("/home/me/app")?;
    let entries = session.append_all(first_day.map(|draft| draft.with_time(noon)).into())?;
    session.append_all(
        second_day
            .map(|draft| draft.with_time(noon + 24.hours()))
            .into(),
    )?;
    let middle = entries.last().and_then(|entry| entry.id.clone());
    let middle = middle.ok_or_else(|| annals::Error::refused("an entry without an id"))?;
    Ok((session.session().to_string(), middle))
}
