//! The storage of agentpool: log messages under an id of one's own, list and read sessions, delegate
//! to a sub-agent, keep todos, trace ancestry, fork, count tokens, and reset a project.
//!
//! `cargo run -p annals --example agentpool`

use annals::layout::{NewSession, Spawn};
use annals::model::{AgentId, Block, Draft, SessionId, Todo, Usage};
use annals::store::{MessageFilter, Root, Store, WriteOptions};
use jiff::{Timestamp, tz::TimeZone};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let project = "/path/to/project";
    let root = Root::claude_code(home.path().join(".claude"));
    let store = Store::new(vec![root.clone()]).with_state(home.path().join("state"));

    // Starting a new session: the id is the caller's, and any text will do.
    let new = NewSession::new(SessionId::new("my session 1")?, project);
    let session = store.create(&root, &new, WriteOptions::default())?;
    session.append(Draft::user("Hello"))?;
    let usage = Usage {
        input: 10,
        output: 5,
        ..Usage::default()
    };
    let reply = Draft::assistant([Block::Text("Hi".into())])
        .model("claude-sonnet-4-5")
        .usage(usage);
    let reply = session.append(reply)?.id.ok_or("an entry has an id")?;
    session.append(Draft::user("And now?"))?;
    session.set_todos(&[Todo::pending("Answer")])?;

    // A sub-agent has a short id of its own and shares the session's.
    let helper = session.spawn(&Spawn::new(
        AgentId::new("a753668")?,
        "Explore",
        "Look around",
    ))?;
    helper.append(Draft::user("Look around"))?;
    helper.set_todos(&[Todo::pending("Look")])?;

    // Resuming: the sessions of a project, and the last 50 messages of the latest.
    let rows = store.sessions(&store.inventory(), &|_, _| ());
    let rows: Vec<_> = rows
        .into_iter()
        .flatten()
        .filter(|row| row.in_project(project))
        .collect();
    let latest = rows
        .iter()
        .max_by_key(|row| row.updated)
        .ok_or("a session")?;
    let read = store.tail(latest.id.as_str(), 50)?;
    assert_eq!(read.last_messages(50)?.len(), 3);

    // Queries: ancestry, counts, a fork at the reply, todos of both agents.
    let read = store.session(latest.id.as_str())?;
    assert_eq!(read.ancestry(reply.as_str())?.len(), 2);
    assert_eq!(read.stats(&TimeZone::UTC).total.usage.output, 5);
    assert_eq!(read.todos()?.len(), 2);
    let fork = store.session(store.fork_at(&read, reply.as_str())?.as_str())?;
    assert_eq!(fork.messages(&MessageFilter::default())?.len(), 2);

    // A reset moves the project's history to the trash.
    assert_eq!(store.reset(project, Timestamp::now()).len(), 2);
    assert!(store.inventory().sessions.is_empty());
    Ok(())
}
