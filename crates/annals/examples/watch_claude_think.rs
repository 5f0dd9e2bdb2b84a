//! The storage of watch-claude-think: list projects and conversations, read the end of a log, and
//! follow the thinking of one conversation while it is written.
//!
//! `cargo run -p annals --example watch_claude_think`

use std::{fs, io::Write as _};

use annals::model::{Block, Body};
use annals::store::{ProjectInfo, Root, Store};
use annals::watch::{Event, Follower, Options, Selection};

/// Entries as the document shows them.
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

    // 1. Projects; 2. conversations of the one that was selected.
    let inventory = store.inventory();
    let rows = store.sessions(&inventory, &|_, _| ());
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    assert_eq!(ProjectInfo::of(rows.iter()).len(), 1);
    let row = rows
        .iter()
        .find(|row| row.in_project("/Users/john/my-project"))
        .ok_or("a session")?;
    let session = store.session(row.id.as_str())?;
    let conversations = session.conversations();
    let conversation = conversations.first().ok_or("a conversation")?;
    assert_eq!(
        (conversation.leaf.as_str(), conversation.id.as_str()),
        ("msg2", "abc123-uuid@msg2")
    );
    assert_eq!(
        conversation.title.as_ref().map(|title| title.text.as_str()),
        Some("Greeting")
    );

    // 3. Its file is watched; 4. messages are parsed as they arrive, after the end of what is there.
    assert_eq!(store.tail("abc123-uuid", 1)?.last_messages(1)?.len(), 1);
    let mut follower = Follower::new(&store, Selection::all(), Options::default())?;
    let mut log = fs::OpenOptions::new().append(true).open(&row.file)?;
    writeln!(log, "{THOUGHT}")?;
    let thought = follower.find_map(|event| match event {
        Event::Entry(fresh) => match &fresh.entry.body {
            Body::Message(message) => message.blocks.first().cloned(),
            _ => None,
        },
        _ => None,
    });
    assert!(matches!(thought, Some(Block::Thinking { text, .. }) if text == "Hm."));
    Ok(())
}
