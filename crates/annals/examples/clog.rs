//! The storage of an operator such as clog: threads with channels and titles, their messages and
//! notes, the state of the program, and the logs of its runs.
//!
//! `cargo run -p annals --example clog`

use annals::layout::NewSession;
use annals::model::{Draft, EntryId, SessionId};
use annals::store::{Store, WriteOptions};
use jiff::Timestamp;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = Store::open("clog", dir.path().join("storage"), dir.path().join("state"))?;
    let root = store.roots().first().ok_or("a root")?;
    let options = WriteOptions::default();

    // A new thread has its own folder with both files, each with a header.
    let new = NewSession::new(SessionId::new("thread_abc123")?, "/srv");
    let new = new.title("Operator Conversation");
    let chat = store.create(root, &new.member("channel", r#""telegram""#), options)?;

    // The caller chooses message ids; a retry with the same id is refused instead of written twice.
    chat.append(Draft::system(" is online.").with_id(EntryId::new("msg_01")))?;
    let question = Draft::user("what errors happened today?").with_id(EntryId::new("msg_02"));
    chat.append(question.clone().member("channel", r#""tui""#))?;
    assert!(chat.append(question).is_err());
    chat.append(Draft::note("The user wants a daily report."))?;
    chat.retitle("Errors of today")?;

    // Resumes the conversation by its thread id or its conversationId.
    let conversation = format!("conversation-{}", chat.session());
    let resumed = store.resume(&conversation, options)?;
    resumed.append(Draft::reply("None."))?;
    let session = store.session("thread_abc123")?;
    assert_eq!(session.title().ok_or("a title")?.text, "Errors of today");
    assert_eq!(session.notes()?.len(), 1);
    let fork = store.fork_at(&session, "msg_02")?;
    for row in store.list(None) {
        println!("{}: {} messages", row.id, row.messages);
        assert_eq!(row.attributes["channel"], "telegram");
    }

    // The program's own state, and the output of one run.
    store.documents().set_state(root, "idle", "true")?;
    let run = store.documents().run_log(root, Timestamp::now(), options)?;
    run.write("[info] online")?;

    // Deleted sessions are moved to the trash.
    store.trash().move_in_by_id(fork.as_str())?;
    assert_eq!(store.inventory().sessions.len(), 1);
    Ok(())
}
