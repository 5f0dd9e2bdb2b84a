//! Opens a session by its id, reads its last 50 messages from the end of the log, and appends.
//!
//! `cargo run -p annals --example resume`

use annals::model::{Block, Body, Draft, Entry};
use annals::store::{Root, Store, WriteOptions};

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let id = a_long_session(&store)?;

    // A unique prefix of the id is enough, and so is the path of the log.
    let short = id.get(..8).unwrap_or(&id);
    let tail = store.tail(short, 50)?;
    let last = tail.last_messages(50)?;
    let read: u64 = tail.logs.iter().map(|log| log.bytes).sum();
    let whole = tail.files.log_bytes();
    println!(
        "{short}: {} messages out of the last {read} of {whole} bytes",
        last.len()
    );
    assert_eq!(last.len(), 50);
    assert!(read < whole / 2, "the tail must not read the whole log");
    assert_eq!(last.last().map(text).as_deref(), Some("answer 999"));

    // The messages to send to the model; `entry.body` has every block as it was logged.
    for entry in last.iter().skip(48) {
        println!("  {}", text(entry).chars().take(40).collect::<String>());
    }

    // The writer finds the leaf itself. It refuses a log that another program is writing to;
    // `WriteOptions { live: true, .. }` overrides that.
    let session = store.resume(short, WriteOptions::default())?;
    let added = session.append(Draft::user("And one more question"))?;
    println!("appended {:?} under {:?}", added.id, added.parent);
    assert_eq!(added.parent, last.last().and_then(|entry| entry.id.clone()));

    let last = store.tail(&id, 1)?.last_messages(1)?;
    assert_eq!(
        last.last().map(text).as_deref(),
        Some("And one more question")
    );
    Ok(())
}

fn a_long_session(store: &Store) -> annals::Result<String> {
    let session = store.begin("/home/me/app")?;
    let turns = (0..1_000).flat_map(|n| {
        let answer = Block::Text(format!("answer {n}"));
        [
            Draft::user(format!("question {n}: {}", "why? ".repeat(400))),
            Draft::assistant([answer]).model("claude-sonnet-4-5"),
        ]
    });
    session.append_all(turns.collect())?;
    Ok(session.session().to_string())
}

fn text(entry: &Entry) -> String {
    let mut whole = String::new();
    if let Body::Message(message) = &entry.body {
        for block in &message.blocks {
            block.visit_texts(&mut |text| whole.push_str(text));
        }
    }
    whole
}
