//! Creates a sub-agent that shares the session of the agent that called it.
//!
//! `cargo run -p annals --example sub_agent`

use annals::model::{Block, Draft};
use annals::store::{MessageFilter, Root, Store};

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let main_agent = store.begin("/home/me/app")?;
    let task = "List the modules that read files.";

    // The main agent gives a task to a sub-agent by a tool call.
    main_agent.append(Draft::user("Where do we read files?"))?;
    let call = Block::ToolUse {
        id: "toolu_task".into(),
        name: "Task".into(),
        input: format!(r#"{{"subagent_type":"Explore","prompt":"{task}"}}"#),
    };
    main_agent.append(Draft::assistant([call]).model("claude-sonnet-4-5"))?;

    // The sub-agent's log is stored next to the session's log and names the call it works for. Both
    // can be written at the same time, from several threads.
    let helper = main_agent.delegate("toolu_task", "Explore", "Find the readers")?;
    let agent = helper.agent();
    let name = agent.as_ref().map_or("", |agent| agent.as_str());
    println!("session {}, sub-agent {name}", helper.session());
    assert_eq!(helper.session(), main_agent.session());
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| -> annals::Result<()> {
            helper.append(Draft::user(task))?;
            let found = Block::Text("store/log.rs and jsonl/scan.rs".into());
            helper.append(Draft::assistant([found]).model("claude-haiku-4-5"))?;
            Ok(())
        });
        main_agent.append(Draft::note("the helper is at work"))?;
        worker
            .join()
            .unwrap_or_else(|_| Err(annals::Error::refused("the helper panicked")))
    })?;
    main_agent.append(Draft::tool_result(
        "toolu_task",
        "store/log.rs and jsonl/scan.rs",
    ))?;

    // One session, two agents, and the link between them.
    let session = store.session(main_agent.session().as_str())?;
    assert_eq!(session.agents.len(), 1);
    for helper in &session.agents {
        let call = helper.call.as_ref();
        let made_by = call.and_then(|call| session.entry_id(call.entry));
        println!(
            "{:?} ({}): {} messages, called by entry {made_by:?}",
            helper.description.as_deref().unwrap_or_default(),
            helper.kind.as_deref().unwrap_or_default(),
            helper.messages
        );
        assert_eq!(helper.id, agent);
        assert_eq!(helper.messages, 2);
        assert!(made_by.is_some(), "the sub-agent is tied to its call");
    }
    let of = |agent: &str| MessageFilter::default().agent(agent);
    assert_eq!(session.messages(&of("main"))?.len(), 3);
    assert_eq!(session.messages(&of(name))?.len(), 2);
    Ok(())
}
