//! The storage of watch-claude-think: list projects and conversations, read the end of a log, and
//! follow the thinking of one conversation while it is written.
//!
//! `cargo run -p annals --example watch_claude_think`

use std::{fs, io::Write as _};

use annals::model::{Block, Body};
use annals::store::{ProjectInfo, Root, Store};
use annals::watch::{Event, FollowOptions, Follower, Selection};

/// Entries as the design document shows them.
const LOG: &str = r#"{"type":"user","uuid":"msg1","parentUuid":null,"content":"Hello"}
{"type":"assistant","uuid":"msg2","parentUuid":"msg1","content":"Hi"}
{"type":"summary","summary":"Greeting","leafUuid":"msg2"}
"#;
const THOUGHT: &str = r#"{"type":"assistant","uuid":"msg3","parentUuid":"msg2","content":[{"type":"thinking","thinking":"Hm."}]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let project = home.path().join("projects/-Users-john-my-project");
    fs::create_dir_all(&project)?;
    fs::write(project.join("abc123-uuid.jsonl"), LOG)?;
    let store = Store::new(vec![Root::claude_code(home.path())]);

    // 1. Projects; 2. conversations of the selected project.
    assert_eq!(ProjectInfo::from_sessions(store.list(None).iter()).len(), 1);
    let rows = store.list(Some("/Users/john/my-project"));
    let row = rows.first().ok_or("a session")?;
    let conversations = store.session(row.id.as_str())?.conversations();
    let conversation = conversations.first().ok_or("a conversation")?;
    assert_eq!(conversation.leaf.as_str(), "msg2");
    assert_eq!(conversation.id.as_str(), "abc123-uuid@msg2");
    let title = conversation.title.as_ref().ok_or("a title")?;
    assert_eq!(title.text, "Greeting");

    // 3. The file is watched; 4. messages appended to it are parsed as they arrive.
    assert_eq!(store.tail("abc123-uuid", 1)?.last_messages(1)?.len(), 1);
    let mut follower = Follower::new(&store, Selection::all(), FollowOptions::default())?;
    let mut log = fs::OpenOptions::new().append(true).open(&row.file)?;
    writeln!(log, "{THOUGHT}")?;
    let thought = follower.find_map(|event| match event {
        Event::Entry(fresh) => Some(fresh.entry.body.clone()),
        _ => None,
    });
    let Some(Body::Message(message)) = thought else {
        return Err("the new entry is a message".into());
    };
    assert!(matches!(message.blocks.first(), Some(Block::Thinking { text, .. }) if text == "Hm."));
    Ok(())
}
