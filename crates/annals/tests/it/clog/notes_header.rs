//! The notes log of a conversation has one header, whoever creates it.

use super::*;

#[test]
fn notes_log_has_exactly_one_header() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("clog", dir.path()).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::new(SessionId::new("thread").unwrap(), "/w");
    let writer = store.create(&root, &new, QUICK).unwrap();
    writer.append(Draft::user("hi")).unwrap();
    let notes = writer.path().parent().unwrap().join("notes.jsonl");
    drop(writer);
    let note = |text: &str| {
        let files = store.inventory().sessions.remove(0);
        let writer = store.open_writer(&files, QUICK).unwrap();
        writer.append(Draft::note(text)).unwrap();
    };
    let headers = || {
        let text = std::fs::read_to_string(&notes).unwrap();
        let header = |line: &&str| line.contains(r#""fileKind":"notes""#);
        (text.lines().filter(header).count(), text.lines().count())
    };
    note("first");
    let (_, first) = headers();
    note("second");
    assert_eq!(headers(), (1, first + 1));
    // The creating process was killed before it wrote anything.
    std::fs::write(&notes, "").unwrap();
    note("third");
    assert_eq!(headers(), (1, 2));
    std::fs::remove_file(&notes).unwrap();
    note("fourth");
    assert_eq!(headers(), (1, 2));
}

#[test]
fn span_of_a_note_is_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("clog", dir.path()).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::new(SessionId::new("thread").unwrap(), "/w");
    let writer = store.create(&root, &new, QUICK).unwrap();
    writer.append(Draft::user("hi")).unwrap();
    let notes = writer.path().parent().unwrap().join("notes.jsonl");
    for text in ["first", "second"] {
        let entry = writer.append(Draft::note(text)).unwrap();
        let bytes = std::fs::read(&notes).unwrap();
        let span = entry.span.offset as usize..entry.span.end() as usize;
        let line = std::str::from_utf8(&bytes[span]).unwrap();
        assert!(line.starts_with('{') && line.ends_with("}\n"), "{line}");
        assert!(line.contains(text));
    }
}

#[test]
fn sub_agent_uses_the_channel_of_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("clog", dir.path()).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::new(SessionId::new("thread").unwrap(), "/w");
    let writer = store.create(&root, &new, QUICK).unwrap();
    writer.append(Draft::user("hi")).unwrap();
    let log = writer.path();
    drop(writer);
    let text = std::fs::read_to_string(&log).unwrap();
    let elsewhere = text.replace(r#""channel":"tui""#, r#""channel":"telegram""#);
    assert_ne!(elsewhere, text);
    std::fs::write(&log, elsewhere).unwrap();
    let files = store.inventory().sessions.remove(0);
    let writer = store.open_writer(&files, QUICK).unwrap();
    let agent = annals::model::AgentId::new("a1").unwrap();
    let spawn = annals::layout::Spawn::new(agent, "Explore", "looks");
    let agent = writer.spawn(&spawn).unwrap();
    agent.append(Draft::user("Look!")).unwrap();
    agent.append(Draft::note("first")).unwrap();
    let text = std::fs::read_to_string(agent.path()).unwrap();
    let said = text.lines().last().unwrap();
    assert!(
        said.contains("Look!") && said.contains("telegram"),
        "{said}"
    );
    let notes = agent.path().with_file_name("notes.jsonl");
    let text = std::fs::read_to_string(notes).unwrap();
    assert!(text.contains("first"));
    assert_eq!(text.matches(r#""fileKind":"notes""#).count(), 1, "{text}");
}
