//! Starts a session and logs a whole turn: a prompt, a reply with a tool call, its result, the
//! final reply.
//!
//! `cargo run -p annals --example log_session`

use annals::model::{Block, Body, Draft, Usage};
use annals::store::{MessageFilter, Root, Store};

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;

    // A root is a directory such as `~/.claude`. It need not exist: the first session creates it.
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let session = store.begin("/home/me/app")?;
    println!(
        "session {} in {}",
        session.session(),
        session.path().display()
    );

    // When `append` returns, the entry is on disk and its parent is the entry before it.
    session.append(Draft::user("Why does the build fail?"))?;
    let answer = [
        Block::Text("Let me look.".into()),
        Block::ToolUse {
            id: "toolu_01".into(),
            name: "Bash".into(),
            input: r#"{"command":"cargo build"}"#.into(),
        },
    ];
    let usage = Usage {
        input: 1_200,
        output: 85,
        ..Usage::default()
    };
    let call = session.append(
        Draft::assistant(answer)
            .model("claude-sonnet-4-5")
            .usage(usage),
    )?;
    println!("the call is {:?} at byte {}", call.id, call.span.offset);

    // Several entries can be written at once: after a crash, all of them are present or none.
    session.append_all(vec![
        Draft::tool_result("toolu_01", "error[E0432]: unresolved import `foo`"),
        Draft::assistant([Block::Text("The feature `foo` is off.".into())])
            .model("claude-sonnet-4-5"),
    ])?;
    session.retitle("The failing build")?;

    // Reads what any reader of the layout would see. Claude Code logs each block of a reply as an
    // entry of its own, so the reply above became two.
    let read = store.session(session.session().as_str())?;
    let messages = read.messages(&MessageFilter::default())?;
    for entry in &messages {
        if let Body::Message(message) = &entry.body {
            let kinds: Vec<&str> = message.blocks.iter().map(Block::kind).collect();
            println!("{:>9}  {}", message.role.as_str(), kinds.join(", "));
        }
    }
    assert_eq!(messages.len(), 5);
    assert!(messages.windows(2).all(|pair| match pair {
        [above, below] => below.parent == above.id,
        _ => false,
    }));
    let title = read.title().map(|title| title.text);
    assert_eq!(title.as_deref(), Some("The failing build"));
    assert_eq!(read.flaws().count(), 0);
    Ok(())
}
