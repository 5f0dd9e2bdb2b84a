//! Sub-agents: lookup by id, and the data they take from their session.

use annals::layout::Spawn;
use annals::model::AgentId;

use super::*;

fn spawn(writer: &SessionWriter, agent: &str) -> SessionWriter {
    let agent = AgentId::new(agent).unwrap();
    writer
        .spawn(&Spawn::new(agent, "Explore", "looks"))
        .unwrap()
}

#[test]
fn agent_is_found_only_by_its_full_id() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("Go!")).unwrap();
    for agent in ["a1", "a12", "b1"] {
        spawn(&fresh.writer, agent)
            .append(Draft::user("Look!"))
            .unwrap();
    }
    let files = fresh.files();
    let open = |agent: &str| SessionWriter::open_agent(&fresh.store, &files, agent, QUICK);
    for meant in ["a1", "a12", "b1"] {
        let writer = open(meant).unwrap();
        assert_eq!(writer.agent().unwrap().as_str(), meant);
        assert!(
            writer
                .path()
                .to_string_lossy()
                .contains(&format!("agent-{meant}."))
        );
    }
    for none in ["", "a", "b", "c", "a123"] {
        assert!(matches!(open(none), Err(Error::NotFound { .. })), "{none}");
    }
    assert_eq!(fresh.writer.agent(), None);
}

#[test]
fn sub_agent_cannot_spawn_another() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("Go!")).unwrap();
    let agent = spawn(&fresh.writer, "a1");
    agent.append(Draft::user("Look!")).unwrap();
    let other = Spawn::new(AgentId::new("a2").unwrap(), "Explore", "looks");
    let refused = agent.spawn(&other).unwrap_err().to_string();
    assert!(
        refused.contains("must belong to a session in a root"),
        "{refused}"
    );
    // Nor can a log outside of any root.
    let lone = fresh.dir.path().join("lone.jsonl");
    fs::copy(fresh.writer.path(), &lone).unwrap();
    let inventory = fresh.store.inventory();
    let found = fresh.store.find(&inventory, lone.to_str().unwrap());
    let files = found.unwrap().files;
    let writer = fresh.store.open_writer(&files, QUICK).unwrap();
    let refused = writer.spawn(&other).unwrap_err().to_string();
    assert!(
        refused.contains("must belong to a session in a root"),
        "{refused}"
    );
}

#[test]
fn first_line_of_a_sub_agent_does_not_depend_on_its_session() {
    let begun = |said: &dyn Fn(&SessionWriter)| {
        let fresh = fresh();
        said(&fresh.writer);
        let agent = spawn(&fresh.writer, "a1");
        agent.append(Draft::user("Look!")).unwrap();
        let log = fs::read_to_string(agent.path()).unwrap();
        let line: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        let line = line.as_object().unwrap().clone();
        assert!(line["parentUuid"].is_null());
        assert_eq!(line["cwd"], "/home/dev/w");
        let time: Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
        assert!(time <= Timestamp::now());
        line.keys().cloned().collect::<Vec<String>>()
    };
    let bare = begun(&|_| {});
    let after = begun(&|writer| {
        writer.append(Draft::user("Go!")).unwrap();
        let mut late = Draft::assistant([Block::Text("Later.".into())]);
        late.time = Some("2199-01-01T00:00:00Z".parse().unwrap());
        writer.append(late).unwrap();
    });
    assert_eq!(after, bare);
}

#[test]
fn new_session_resolves_a_linked_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let root = Root::new("claude-code", dir.path().join("root")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::new(SessionId::new(ID).unwrap(), link.to_str().unwrap());
    let writer = store.create(&root, &new, QUICK).unwrap();
    let entry = writer.append(Draft::user("Why?")).unwrap();
    let real = real.canonicalize().unwrap();
    assert_eq!(entry.context.cwd.as_deref(), real.to_str());
    let folder = writer
        .path()
        .parent()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    assert!(folder.ends_with("-real"), "{folder}");
}

/// Only the session list has the working directory and the branch.
#[test]
fn sub_agent_takes_directory_and_branch_from_the_session_list() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let mut sessions = store.inventory().sessions.into_iter();
    for (id, reported) in [
        ("2a489c69", r#""cwd":"/home/dev/app""#),
        ("fd7a4cec", r#""branch":"topic""#),
    ] {
        let files = sessions.find(|files| files.id.as_str().starts_with(id));
        let writer = store.open_writer(&files.unwrap(), QUICK).unwrap();
        let agent = spawn(&writer, id);
        agent.append(Draft::user("Look!")).unwrap();
        let log = fs::read_to_string(agent.path()).unwrap();
        assert!(log.contains(reported), "{log}");
    }
}

#[test]
fn sub_agent_title_does_not_change_the_session_title() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("Go!")).unwrap();
    let title = fresh
        .writer
        .path()
        .with_extension("")
        .join("custom-title.json");
    fs::create_dir_all(title.parent().unwrap()).unwrap();
    let text = r#"{"customTitle":"mine"}"#;
    fs::write(&title, text).unwrap();
    let agent = spawn(&fresh.second(), "a1");
    agent.append(Draft::user("Look!")).unwrap();
    agent.retitle("its").unwrap();
    assert_eq!(fs::read_to_string(&title).unwrap(), text);
}

#[test]
fn sub_agent_takes_the_version_of_its_session() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("Go!")).unwrap();
    let log = fresh.writer.path();
    let text = fs::read_to_string(&log).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let own = line["version"].as_str().unwrap();
    fs::write(&log, text.replace(&format!("\"{own}\""), "\"9.8.7\"")).unwrap();
    let agent = spawn(&fresh.second(), "a1");
    let entry = agent.append(Draft::user("Look!")).unwrap();
    assert_eq!(entry.context.version.as_deref(), Some("9.8.7"));
}

#[test]
fn a_raw_record_of_another_agent_is_refused() {
    let fresh = fresh();
    fresh.writer.append(Draft::user("Go!")).unwrap();
    let agent = spawn(&fresh.writer, "a1");
    let first = id(&agent.append(Draft::user("Look!")).unwrap());
    let before = fs::read(agent.path()).unwrap();
    let record = |whose: &str| {
        format!(
            r#"{{"type":"user","uuid":"sa2","parentUuid":"{first}","sessionId":"{ID}",{whose}"message":{{"role":"user","content":"x"}}}}"#
        )
    };
    for (whose, why) in [
        (r#""isSidechain":true,"agentId":"zzz","#, "`agentId` is"),
        (r#""isSidechain":true,"agentId":7,"#, "`agentId` is"),
        (r#""isSidechain":true,"#, "no `agentId`"),
        (r#""agentId":"a1","#, "`isSidechain` is not true"),
        (
            r#""isSidechain":false,"agentId":"a1","#,
            "`isSidechain` is not true",
        ),
        ("", "no `agentId`"),
    ] {
        let refused = agent.append_raw(vec![record(whose).into_bytes()]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{whose}: {refused}");
        assert!(refused.contains("sub-agent a1"), "{whose}: {refused}");
    }
    assert_eq!(fs::read(agent.path()).unwrap(), before);
    let own = record(r#""isSidechain":true,"agentId":"a1","#);
    assert_eq!(agent.append_raw(vec![own.into_bytes()]).unwrap().len(), 1);
}

#[test]
fn the_refusal_of_a_member_lists_those_that_the_message_may_have() {
    let fresh = fresh();
    let refused = |mut draft: Draft| {
        draft.members = vec![("colour".to_owned(), "1".to_owned())];
        fresh.writer.append(draft).unwrap_err().to_string()
    };
    let reply = refused(Draft::assistant([Block::Text("So.".to_owned())]));
    assert!(reply.contains("; known members: usage, "), "{reply}");
    assert!(!reply.contains("messageCount"), "{reply}");
    let prompt = refused(Draft::user("Ask."));
    assert!(prompt.contains("`colour` is not a member"), "{prompt}");
    assert!(!prompt.contains("known members"), "{prompt}");
}
