//! The conversation service of Chorus: create, append, load, list, update, delete.
//!
//! `cargo run -p annals --example chorus`

use annals::layout::NewSession;
use annals::layout::chorus::ConfigEdit;
use annals::model::{Draft, SessionId};
use annals::store::{MessageFilter, Store, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = Store::open("chorus", dir.path().join("root"), dir.path().join("state"))?;
    let root = store.roots().first().ok_or("a root")?;

    // A workspace with an agent; the configuration file is created if it is missing.
    let chorus = store.chorus();
    chorus.edit(root, &ConfigEdit::add_workspace("ws-1", "/home/me/app"))?;
    chorus.edit(root, &ConfigEdit::add_agent("ws-1", "agent-a", "Reviewer"))?;

    // createConversation and appendMessage. Messages may name the Claude Code session behind them.
    let new = NewSession::new(SessionId::new("conv-1")?, "/home/me/app").folder("ws-1/agent-a");
    let conversation = store.create(root, &new, WriteOptions::default())?;
    let in_session = |draft: Draft| draft.member("sessionId", r#""e8d973c7""#);
    conversation.append(in_session(Draft::user("Why does the parser fail?")))?;
    conversation.append(in_session(Draft::reply("It has no body.")))?;
    conversation.close()?;

    // loadMessages, by the id of the conversation or of the session behind it.
    let loaded = store.session("e8d973c7")?;
    assert_eq!(loaded.messages(&MessageFilter::default())?.len(), 2);

    // listConversations of a workspace or of one of its agents, newest first.
    let rows = chorus.list_folder(root, "ws-1/agent-a")?;
    let row = rows.first().ok_or("the conversation is listed")?;
    assert_eq!((row.id.as_str(), row.messages), ("conv-1", 2));
    assert_eq!(row.attributes["session_id"], "e8d973c7");
    assert_eq!(chorus.list_folder(root, "ws-1")?.len(), 1);

    // updateConversation: the title, and members of its row in conversations.json.
    let conversation = store.resume("conv-1", WriteOptions::default())?;
    conversation.retitle("Fix the parser")?;
    let settings = ("settings".into(), r#"{"permissionMode":"plan"}"#.into());
    loaded.files.set_list_members(&vec![settings])?;

    // deleteConversation: moves it to the trash; restore brings it back with its row.
    store.trash().move_in_by_id("conv-1")?;
    assert!(chorus.list_folder(root, "ws-1")?.is_empty());
    store.trash().restore("conv-1")?;
    let title = store.session("conv-1")?.title().ok_or("a title")?;
    assert_eq!(title.text, "Fix the parser");
    Ok(())
}
