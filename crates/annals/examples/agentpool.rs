//! The storage of agentpool: log messages under an id chosen by the caller, list and read sessions,
//! start a sub-agent, save todos, trace ancestry, fork, count tokens, and reset a project.
//!
//! `cargo run -p annals --example agentpool`

use annals::layout::{NewSession, Spawn};
use annals::model::{AgentId, Draft, SessionId, Todo, Usage};
use annals::store::{MessageFilter, Store, WriteOptions};
use jiff::{Timestamp, tz::TimeZone};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let (root, state) = (home.path().join(".claude"), home.path().join("state"));
    let store = Store::open("claude-code", root, state)?;

    // Starts a new session. The caller chooses the id; any text is valid.
    let project = "/path/to/project";
    let new = NewSession::new(SessionId::new("my session 1")?, project);
    let root = store.roots().first().ok_or("a root")?;
    let session = store.create(root, &new, WriteOptions::default())?;
    session.append(Draft::user("Hello"))?;
    let reply = Draft::reply("Hi").model("claude-sonnet-4-5");
    let reply = session.append(reply.usage(Usage::new(10, 5)))?;
    let reply = reply.id.ok_or("an entry has an id")?;
    session.append(Draft::user("And now?"))?;
    session.set_todos(&[Todo::pending("Answer")])?;

    // A sub-agent has its own short id and shares the session id.
    let spawn = Spawn::new(AgentId::new("a753668")?, "Explore", "Look around");
    let helper = session.spawn(&spawn)?;
    helper.append(Draft::user("Look around"))?;
    helper.set_todos(&[Todo::pending("Look")])?;

    // Resume: list the sessions of a project and read the last 50 messages of the newest.
    let rows = store.list(Some(project));
    let latest = rows.first().ok_or("a session")?.id.as_str();
    assert_eq!(store.tail(latest, 50)?.last_messages(50)?.len(), 3);

    // Queries: ancestry, counts, a fork at the reply, todos of both agents.
    let read = store.session(latest)?;
    assert_eq!(read.ancestry(reply.as_str())?.len(), 2);
    assert_eq!(read.stats(&TimeZone::UTC).total.usage.output, 5);
    assert_eq!(read.todos()?.len(), 2);
    let fork = store.session(store.fork_at(&read, reply.as_str())?.as_str())?;
    assert_eq!(fork.messages(&MessageFilter::default())?.len(), 2);

    // A reset moves the project's history to the trash.
    let moved = store.trash().move_project_in(project, Timestamp::now());
    assert_eq!(moved.len(), 2);
    assert!(store.inventory().sessions.is_empty());
    Ok(())
}
