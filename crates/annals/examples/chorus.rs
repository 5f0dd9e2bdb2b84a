//! The conversation service of Chorus: create, append, load, list, update, delete.
//!
//! `cargo run -p annals --example chorus`

use annals::layout::NewSession;
use annals::layout::chorus::ConfigEdit;
use annals::model::{Block, Draft, SessionId};
use annals::store::{MessageFilter, Root, Store, WriteOptions};
use jiff::Timestamp;

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;
    let root = Root::new("chorus", dir.path().join(".chorus"))?;
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));

    // A workspace with an agent; the configuration is made if there is none.
    let (id, path) = (Some("ws-1".to_owned()), "/home/me/app".to_owned());
    let name = None;
    store.edit_config(&root, &ConfigEdit::AddWorkspace { id, name, path })?;
    let (id, workspace) = (Some("agent-a".to_owned()), "ws-1".to_owned());
    let (name, file) = ("Reviewer".to_owned(), None);
    let agent = ConfigEdit::AddAgent {
        workspace,
        id,
        name,
        file,
    };
    store.edit_config(&root, &agent)?;

    // createConversation and appendMessage. Messages may name the session of Claude Code behind them.
    let new = NewSession::new(SessionId::new("conv-1")?, "/home/me/app").folder("ws-1/agent-a");
    let conversation = store.create(&root, &new, WriteOptions::default())?;
    let answer = [Block::Text("It has no body.".to_owned())];
    let session = |draft: Draft| draft.member("sessionId", r#""e8d973c7""#);
    conversation.append(session(Draft::user("Why does the parser fail?")))?;
    conversation.append(session(Draft::assistant(answer)))?;
    conversation.close()?;

    // loadMessages, by the conversation's id or by that of the session behind it.
    let messages = store
        .session("e8d973c7")?
        .messages(&MessageFilter::default())?;
    assert_eq!(messages.len(), 2);

    // listConversations of a workspace or of one of its agents, the newest first.
    let rows = store.list_in(&root, "ws-1/agent-a")?;
    let row = rows.first().expect("the conversation is listed");
    assert_eq!((row.id.as_str(), row.messages), ("conv-1", 2));
    assert_eq!(row.attributes["session_id"], "e8d973c7");
    assert_eq!(store.list_in(&root, "ws-1")?.len(), 1);

    // updateConversation: the title, and members of its row in conversations.json.
    store
        .resume("conv-1", WriteOptions::default())?
        .retitle("Fix the parser")?;
    let settings = (
        "settings".to_owned(),
        r#"{"permissionMode":"plan"}"#.to_owned(),
    );
    store.set_members(&store.session("conv-1")?.files, &vec![settings])?;

    // deleteConversation: to the trash, from where it comes back with its row.
    store.delete(&store.session("conv-1")?.files, Timestamp::now())?;
    assert!(store.list_in(&root, "ws-1")?.is_empty());
    store.undelete("conv-1")?;
    let title = store.session("conv-1")?.title();
    assert_eq!(
        title.map(|title| title.text).as_deref(),
        Some("Fix the parser")
    );
    Ok(())
}
