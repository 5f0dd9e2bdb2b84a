//! What an operator such as clog keeps: threads with channels and titles, their messages and notes, the
//! state of the program, and the logs of its runs.
//!
//! `cargo run -p annals --example clog`

use annals::layout::NewSession;
use annals::model::{Block, Draft, EntryId, SessionId};
use annals::store::{Root, Store, WriteOptions};
use jiff::Timestamp;

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;
    let root = Root::new("clog", dir.path().join("storage"))?;
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
    let options = WriteOptions::default();

    // A thread begins with a folder of its own: both files, each with a header.
    let thread = SessionId::new("thread_abc123")?;
    let new = NewSession::new(thread, "/srv").title("Operator Conversation");
    let chat = store.create(&root, &new.member("channel", r#""telegram""#), options)?;

    // Messages have the ids of the caller; a second try is refused instead of written twice.
    chat.append(Draft::system(" is online.").named(EntryId::new("msg_01")))?;
    let question = Draft::user("what errors happened today?").named(EntryId::new("msg_02"));
    chat.append(question.clone().member("channel", r#""tui""#))?;
    assert!(chat.append(question).is_err());
    chat.append(Draft::note("The user wants a daily report."))?;
    chat.retitle("Errors of today")?;

    // It is found again by its thread or by its conversationId, and goes on.
    let conversation = format!("conversation-{}", chat.session());
    store
        .resume(&conversation, options)?
        .append(Draft::assistant([Block::Text("None.".into())]))?;
    let session = store.session("thread_abc123")?;
    assert_eq!(
        session.title().map(|title| title.text).as_deref(),
        Some("Errors of today")
    );
    assert_eq!(session.notes()?.len(), 1);
    let fork = store.fork_at(&session, "msg_02")?;
    let rows = store.sessions(&store.inventory(), &|_, _| ());
    for row in rows.into_iter().collect::<annals::Result<Vec<_>>>()? {
        println!(
            "{} on {}: {} messages",
            row.id, row.attributes["channel"], row.messages
        );
        assert_eq!(row.attributes["channel"], "telegram");
    }

    // The program's own state, and what it prints in one run.
    store.set_state(&root, "status", r#"{"status":"idle"}"#)?;
    store
        .run_log(&root, Timestamp::now(), options)?
        .write("[info] online")?;

    // What is deleted goes to the trash.
    store.delete(&store.session(fork.as_str())?.files, Timestamp::now())?;
    assert_eq!(store.inventory().sessions.len(), 1);
    Ok(())
}
