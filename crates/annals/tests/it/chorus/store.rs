//! The session list and the logs together, on disk.

use annals::model::ArtifactKind;
use annals::store::{Root, Session, SessionWriter, Store, WriteOptions};

use super::*;
use crate::support::{Copy, QUICK, case, picture};

const FOLDER: &str = "sessions/w-app/a-main";

fn index(root: &Path, folder: &str) -> serde_json::Value {
    let bytes = fs::read(root.join(folder).join("conversations.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn row(root: &Path, folder: &str, id: &str) -> serde_json::Value {
    let index = index(root, folder);
    let rows = index["conversations"].as_array().unwrap();
    let found: Vec<_> = rows.iter().filter(|row| row["id"] == id).collect();
    assert_eq!(found.len(), 1, "{id} in {index:#}");
    found[0].clone()
}

fn stale(copy: &Copy) -> Vec<&'static str> {
    let store = copy.store();
    let found = store.repairs().stale_session_lists(&store.inventory());
    found
        .into_iter()
        .map(|stale| stale.unwrap().detail)
        .collect()
}

#[test]
fn new_session_is_listed_and_titled_after_its_first_answer() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let id = SessionId::new("mine").unwrap();
    let new = NewSession::new(id, "/home/dev/app").git_branch("main");
    let writer = store.create(&copy.root, &new, QUICK).unwrap();
    // The configuration has a workspace for this directory, so the program shows its agents.
    assert!(
        writer
            .path()
            .ends_with(format!("{FOLDER}/mine-messages.jsonl"))
    );
    let root = &copy.root.path;
    let listed = row(root, FOLDER, "mine");
    assert_eq!(listed["title"], "New Conversation");
    assert_eq!(listed["sessionId"], serde_json::Value::Null);
    assert_eq!(listed["workspaceId"], "w-app");
    assert_eq!(listed["annals"]["cwd"], "/home/dev/app");
    assert_ne!(listed["createdAt"], "1970-01-01T00:00:00.000Z");
    writer.append(Draft::user("Why\nis it slow?")).unwrap();
    assert_eq!(row(root, FOLDER, "mine")["title"], "New Conversation");
    writer
        .append(draft(Role::Assistant, vec![text("because")]))
        .unwrap();
    assert_eq!(row(root, FOLDER, "mine")["title"], "Why is it slow?");
    writer.retitle("By hand").unwrap();
    writer.append(Draft::user("and now?")).unwrap();
    writer.close().unwrap();
    let listed = row(root, FOLDER, "mine");
    assert_eq!(
        (&listed["title"], &listed["messageCount"]),
        (&"By hand".into(), &3.into())
    );
    // The bytes written by the program are unchanged.
    let old = fs::read(
        fixtures()
            .join("chorus/chorus-plain")
            .join(FOLDER)
            .join("conversations.json"),
    )
    .unwrap();
    let new = fs::read(root.join(FOLDER).join("conversations.json")).unwrap();
    let kept = old.len() - "\n  ]\n}".len();
    assert_eq!(new[..kept], old[..kept]);
    assert_eq!(stale(&copy), [""; 0]);
    let session = copy.read("mine");
    assert_eq!(session.title().unwrap().text, "By hand");
    assert_eq!(session.directories(), ["/home/dev/app"]);
}

#[test]
fn directory_without_workspace_gets_its_own_folder() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::new(SessionId::new("c1").unwrap(), "/home/dev/other");
    let writer = store.create(&root, &new, QUICK).unwrap();
    let folder = format!("sessions/{}", Chorus.folder("/home/dev/other").unwrap());
    assert!(writer.path().starts_with(root.path.join(&folder)));
    assert_eq!(row(&root.path, &folder, "c1")["agentId"], "annals");
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    assert_eq!(
        session.files.list_rows[0].cwd.as_deref(),
        Some("/home/dev/other")
    );
}

fn config(root: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(root.join("config.json")).unwrap()).unwrap()
}

/// The program shows only conversations of agents in its configuration.
#[test]
fn new_session_adds_its_workspace_to_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let create = |id: &str, cwd: &str| {
        let new = NewSession::new(SessionId::new(id).unwrap(), cwd).git_branch("main");
        drop(store.create(&root, &new, QUICK).unwrap());
    };
    create("c1", "/home/dev/other");
    let folder = Chorus.folder("/home/dev/other").unwrap();
    let id = folder.strip_suffix("/annals").unwrap();
    assert_eq!(
        config(&root.path)["workspaces"],
        serde_json::json!([{
            "id": id, "name": "other", "path": "/home/dev/other", "isExpanded": true,
            "gitBranch": "main", "isDirty": false, "hasSystemPrompt": false,
            "agents": [{"id": "annals", "name": "annals", "filePath": "", "workspaceId": id}],
        }])
    );
    // The configuration already has the second one.
    let before = fs::read(root.path.join("config.json")).unwrap();
    create("c2", "/home/dev/other");
    assert_eq!(fs::read(root.path.join("config.json")).unwrap(), before);
    create("c3", "/home/dev/third");
    assert_eq!(
        config(&root.path)["workspaces"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_workspace_without_agents_gets_one_with_its_first_session() {
    let copy = case("chorus-plain").copy();
    let path = copy.root.path.join("config.json");
    let bare = r#"{"x":1e5,"workspaces":[{"id":"w","path":"/home/dev/bare"}]}"#;
    fs::write(&path, bare).unwrap();
    let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/bare");
    drop(copy.store().create(&copy.root, &new, QUICK).unwrap());
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        r#"{"x":1e5,"workspaces":[{"id":"w","path":"/home/dev/bare","agents":[{"id":"annals","name":"annals","filePath":"","workspaceId":"w"}]}]}"#
    );
}

#[test]
fn unreadable_configuration_is_left_unchanged() {
    for damaged in ["{\"workspaces\":[", "[]", "{\"workspaces\":7}", "\u{0}"] {
        let copy = case("chorus-plain").copy();
        let path = copy.root.path.join("config.json");
        fs::write(&path, damaged).unwrap();
        let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/unknown");
        let refused = copy.store().create(&copy.root, &new, QUICK).unwrap_err();
        assert!(refused.to_string().contains("config.json"), "{refused}");
        // An existing session can still be written to.
        let files = copy.sessions()[0].clone();
        let before = copy.read(files.id.as_str()).info(None).messages;
        let writer = copy.store().open_writer(&files, QUICK).unwrap();
        writer.append(Draft::user("all the same")).unwrap();
        drop(writer);
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        let after = copy.read(files.id.as_str()).info(None).messages;
        assert_eq!(after, before + 1, "{damaged}");
    }
}

/// A crash between log and session list leaves the list outdated; the next writer repairs it.
#[test]
fn opening_a_log_repairs_its_outdated_session_list() {
    for (name, detail) in [
        ("chorus-index-behind", "does not match its logs"),
        ("chorus-index-missing", "missing"),
        ("chorus-index-torn", "damaged"),
    ] {
        let copy = case(name).copy();
        assert_eq!(stale(&copy), [detail], "{name}");
        let damaged = fs::read(copy.root.path.join(FOLDER).join("conversations.json")).ok();
        let logs = copy.sessions();
        drop(copy.store().open_writer(&logs[0], QUICK).unwrap());
        assert_eq!(stale(&copy), [""; 0], "{name}");
        let rows = index(&copy.root.path, FOLDER)["conversations"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(rows, logs.len(), "{name}");
        // The bytes of a damaged list are saved in a `.damaged-` file.
        let kept: Vec<Vec<u8>> = fs::read_dir(copy.root.path.join(FOLDER))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains(".damaged-"))
            .map(|path| fs::read(path).unwrap())
            .collect();
        let wanted = damaged.filter(|_| detail == "damaged");
        assert_eq!(kept, Vec::from_iter(wanted), "{name}");
    }
}

#[test]
fn stale_session_lists_are_repaired_without_an_append() {
    for name in [
        "chorus-index-behind",
        "chorus-index-missing",
        "chorus-index-torn",
        "chorus-index-wrong-shape",
        "chorus-damage",
    ] {
        let copy = case(name).copy();
        let store = copy.store();
        let found = store.repairs().stale_session_lists(&store.inventory());
        assert!(!found.is_empty(), "{name}");
        for stale in found {
            store
                .repairs()
                .rebuild_session_list(&stale.unwrap())
                .unwrap();
        }
        assert_eq!(stale(&copy), [""; 0], "{name}");
    }
}

#[test]
fn deleted_session_is_unlisted_and_relisted_by_undelete() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let before = picture(&copy.root.path);
    let only = copy.files("794a5c36");
    let trashed = store.trash().move_in(&only, now()).unwrap();
    // It was the last session of its folder: the list and the folder are removed with it.
    assert!(!copy.root.path.join("sessions/w-app/a-review").exists());
    store.trash().restore(&trashed.id).unwrap();
    assert_eq!(picture(&copy.root.path), before);
    let first = copy.files("2a489c69");
    let old = row(&copy.root.path, FOLDER, first.id.as_str());
    let trashed = store.trash().move_in(&first, now()).unwrap();
    assert_eq!(
        index(&copy.root.path, FOLDER)["conversations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    store.trash().restore(&trashed.id).unwrap();
    assert_eq!(row(&copy.root.path, FOLDER, first.id.as_str()), old);
}

/// Rows without a log are conversations that were never begun: they stay, and so does the list.
#[test]
fn session_list_with_rows_without_logs_is_kept() {
    for name in ["chorus-only-errors", "chorus-index-odd"] {
        let copy = case(name).copy();
        let files = copy.sessions().remove(0);
        copy.store().trash().move_in(&files, now()).unwrap();
        assert!(
            copy.root
                .path
                .join(FOLDER)
                .join("conversations.json")
                .exists(),
            "{name}"
        );
    }
}

#[test]
fn directory_in_place_of_the_session_list_allows_reading() {
    let copy = case("chorus-index-missing").copy();
    let path = copy.root.path.join(FOLDER).join("conversations.json");
    fs::create_dir(&path).unwrap();
    let sessions = copy.sessions();
    assert_eq!(sessions.len(), 2);
    assert_eq!(
        Session::read(sessions[0].clone())
            .unwrap()
            .title()
            .unwrap()
            .text,
        "question 1"
    );
    let before = picture(&copy.root.path);
    let refused = copy.store().open_writer(&sessions[0], QUICK).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("is a directory, but should be a session list"),
        "{refused}"
    );
    assert_eq!(picture(&copy.root.path), before);
}

#[test]
fn sub_agent_is_listed_by_its_purpose() {
    let copy = case("chorus-plain").copy();
    let files = copy.files("2a489c69");
    let writer = copy.store().open_writer(&files, QUICK).unwrap();
    let spawn = Spawn::new(AgentId::new("x1").unwrap(), "Explore", "Finds it");
    let agent = writer.spawn(&spawn).unwrap();
    agent.append(Draft::user("find it")).unwrap();
    agent.close().unwrap();
    let id = format!("{}--agent-x1", files.id);
    let listed = row(&copy.root.path, FOLDER, &id);
    assert_eq!(listed["title"], "Finds it");
    assert_eq!(listed["messageCount"], 1);
    assert_eq!(stale(&copy), [""; 0]);
    let session = copy.read("2a489c69");
    assert_eq!(session.agents.len(), 1);
    assert_eq!(copy.sessions().len(), 3, "it is no session");
}

#[test]
fn fork_is_written_and_listed_in_the_same_folder() {
    let copy = case("chorus-plain").copy();
    let session = copy.read("2a489c69");
    let (_, _, tree) = session.main_log().unwrap();
    let path = tree.path(&tree.conversations[0]);
    let to = SessionId::new("forked").unwrap();
    let made = copy
        .store()
        .fork(
            &session,
            &path[..2],
            to,
            Some("Half of it"),
            jiff::Timestamp::now(),
        )
        .unwrap();
    assert!(
        made.path
            .ends_with(format!("{FOLDER}/forked-messages.jsonl"))
    );
    let listed = row(&copy.root.path, FOLDER, "forked");
    assert_eq!(
        (&listed["title"], &listed["messageCount"]),
        (&"Half of it".into(), &2.into())
    );
    let fork = copy.read("forked");
    assert_eq!(
        crate::support::conversations(&fork),
        [["question 1", "answer 1"]]
    );
    assert_eq!(stale(&copy), [""; 0]);
}

#[test]
fn notes_and_todos_are_attachments_of_their_log() {
    let copy = case("chorus-plain").copy();
    let files = copy.files("2a489c69");
    let options = WriteOptions { ..QUICK };
    let writer = copy.store().open_writer(&files, options).unwrap();
    writer.append(Draft::note("remember")).unwrap();
    writer.set_todos(&[Todo::pending("do")]).unwrap();
    let kinds: Vec<ArtifactKind> = copy
        .files("2a489c69")
        .attachments
        .iter()
        .map(|file| file.artifact.kind)
        .collect();
    assert_eq!(kinds, [ArtifactKind::Notes, ArtifactKind::Todos]);
}

/// Sessions are deleted before the configuration is edited; if the edit fails, they are restored.
#[test]
fn failed_workspace_removal_keeps_its_sessions() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let before = picture(&copy.root.path);
    let inventory = store.inventory();
    let sessions = store
        .chorus()
        .sessions_in_folder(&inventory, &copy.root, "w-app");
    assert_eq!(sessions.len(), 3);
    assert_eq!(
        store
            .chorus()
            .sessions_in_folder(&inventory, &copy.root, "w-app/a-review")
            .len(),
        1
    );
    assert_eq!(
        store
            .chorus()
            .sessions_in_folder(&inventory, &copy.root, "w-ap")
            .len(),
        0
    );
    let unknown = ConfigEdit::RemoveWorkspace {
        id: "w-other".to_owned(),
    };
    let refused = store
        .chorus()
        .clear(&copy.root, &sessions, Some(&unknown), now());
    assert!(refused.is_err());
    assert_eq!(copy.sessions().len(), 3);
    assert!(store.trash().items().unwrap().is_empty());
    let after = picture(&copy.root.path);
    let names = |picture: &std::collections::BTreeMap<PathBuf, String>| -> Vec<PathBuf> {
        picture.keys().cloned().collect()
    };
    assert_eq!(names(&after), names(&before));
    assert_eq!(
        after.get(Path::new("config.json")),
        before.get(Path::new("config.json"))
    );
    let known = ConfigEdit::RemoveWorkspace {
        id: "w-app".to_owned(),
    };
    let gone = store
        .chorus()
        .clear(&copy.root, &sessions, Some(&known), now())
        .unwrap();
    assert_eq!(gone.len(), 3);
    assert!(
        store
            .chorus()
            .config(&copy.root)
            .unwrap()
            .workspaces
            .is_empty()
    );
    assert!(!copy.root.path.join("sessions/w-app").exists());
}

#[test]
fn only_a_chorus_root_has_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let other = Root::new("claude-code", dir.path()).unwrap();
    let store = Store::new(vec![other.clone()]);
    assert!(store.chorus().config(&other).is_err());
    // A new configuration starts with the program's defaults.
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    assert_eq!(store.chorus().config(&root).unwrap(), Config::default());
    let edit = ConfigEdit::Set {
        key: "theme".to_owned(),
        value: "light".to_owned(),
    };
    store.chorus().edit(&root, &edit).unwrap();
    assert_eq!(
        store.chorus().config(&root).unwrap().settings.theme,
        "light"
    );
}

/// Writers alternate: the session list counts the messages of all of them.
#[test]
fn session_list_counts_messages_of_all_writers() {
    use annals::layout::NewSession;
    use annals::model::{Draft, SessionId};
    use annals::store::{Root, Store};
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let id = SessionId::new("aaaaaaaa-0000-4000-8000-000000000000").unwrap();
    let new = NewSession::new(id, "/home/dev/shared");
    let quick = crate::support::QUICK;
    let first = store.create(&root, &new, quick).unwrap();
    first.append(Draft::user("one")).unwrap();
    first
        .append(Draft::assistant([annals::model::Block::Text("two".into())]))
        .unwrap();
    first.close().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for turn in 0..5 {
                    let files = store.inventory().sessions.remove(0);
                    let options = annals::store::WriteOptions {
                        live: true,
                        ..quick
                    };
                    let writer = store.open_writer(&files, options).unwrap();
                    writer
                        .append(Draft::user(format!("{thread} {turn}")))
                        .unwrap();
                    writer.close().unwrap();
                }
            });
        }
    });
    let files = store.inventory().sessions.remove(0);
    store.open_writer(&files, quick).unwrap().close().unwrap();
    let files = store.inventory().sessions.remove(0);
    assert_eq!(files.list_rows[0].messages, Some(22));
    assert!(
        store
            .repairs()
            .stale_session_lists(&store.inventory())
            .is_empty()
    );
}

#[test]
fn session_list_is_recounted_if_messages_share_the_newest_time() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/app");
    let time = "2026-03-02T09:00:00Z".parse().unwrap();
    let writer = store.create(&root, &new, QUICK).unwrap();
    for number in 0..3 {
        let draft = Draft::user(format!("{number}")).with_time(time);
        writer.append(draft).unwrap();
    }
    writer.append(Draft::reply("done").with_time(time)).unwrap();
    writer.close().unwrap();
    let listed = || store.inventory().sessions.remove(0);
    assert_eq!(listed().list_rows[0].messages, Some(4));
    // A writer that counted one message less was the last to write the list.
    let log = listed().log.unwrap().path;
    let list = log.with_file_name("conversations.json");
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.contains("\"messageCount\": 4"), "{text}");
    fs::write(
        &list,
        text.replace("\"messageCount\": 4", "\"messageCount\": 3"),
    )
    .unwrap();
    store
        .open_writer(&listed(), QUICK)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(listed().list_rows[0].messages, Some(4));
}

/// One message must not cost a rewrite of a list of ten thousand rows.
#[test]
fn session_list_is_updated_when_the_writer_closes() {
    let copy = case("chorus-plain").copy();
    let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/app");
    let writer = copy.store().create(&copy.root, &new, QUICK).unwrap();
    let path = copy.root.path.join(FOLDER).join("conversations.json");
    let answer = || draft(Role::Assistant, vec![text("because")]);
    let begun = fs::read(&path).unwrap();
    writer.append(Draft::user("Why?")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), begun);
    writer.append(answer()).unwrap();
    let titled = fs::read(&path).unwrap();
    assert_ne!(titled, begun);
    writer.append(Draft::user("And then?")).unwrap();
    writer.append(answer()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), titled);
    writer.close().unwrap();
    let listed = row(&copy.root.path, FOLDER, "mine");
    assert_eq!(listed["messageCount"], 4);
}

/// A writer that appended nothing must not update the list: its counts may be outdated.
#[test]
fn writer_that_only_set_todos_leaves_the_session_list() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/app");
    let first = store.create(&copy.root, &new, QUICK).unwrap();
    first.append(Draft::user("Why?")).unwrap();
    first
        .append(draft(Role::Assistant, vec![text("because")]))
        .unwrap();
    let files = store.inventory().sessions;
    let files = files.iter().find(|it| it.id.as_str() == "mine").unwrap();
    let live = WriteOptions {
        live: true,
        ..QUICK
    };
    let second = store.open_writer(files, live).unwrap();
    second.append(Draft::user("And then?")).unwrap();
    second.close().unwrap();
    let path = copy.root.path.join(FOLDER).join("conversations.json");
    let reported = fs::read(&path).unwrap();
    first
        .set_todos(&[annals::model::Todo::pending("Answer")])
        .unwrap();
    first.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), reported);
    assert_eq!(row(&copy.root.path, FOLDER, "mine")["messageCount"], 3);
}

/// Creates a session with a question and an answer, in its own root.
fn answered() -> (Copy, annals::store::SessionWriter, PathBuf) {
    let copy = case("chorus-plain").copy();
    let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/app");
    let writer = copy.store().create(&copy.root, &new, QUICK).unwrap();
    writer.append(Draft::user("Why?")).unwrap();
    let answer = draft(Role::Assistant, vec![text("because")]);
    writer.append(answer).unwrap();
    let index = copy.root.path.join(FOLDER).join("conversations.json");
    (copy, writer, index)
}

#[test]
fn session_list_lost_during_writing_is_rebuilt_on_close() {
    let (copy, writer, index) = answered();
    let before = row(&copy.root.path, FOLDER, "mine");
    fs::remove_file(&index).unwrap();
    writer.append(Draft::user("And then?")).unwrap();
    writer.close().unwrap();
    let after = row(&copy.root.path, FOLDER, "mine");
    assert_eq!(after["title"], "Why?");
    assert_eq!(after["messageCount"], 3);
    assert_ne!(after["createdAt"], after["updatedAt"]);
    assert_eq!(after["annals"], before["annals"]);
    assert_eq!(stale(&copy), [""; 0]);
}

#[test]
fn dropped_writer_updates_the_session_list_and_close_returns_errors() {
    let (copy, writer, _) = answered();
    writer.append(Draft::user("And then?")).unwrap();
    drop(writer);
    assert_eq!(row(&copy.root.path, FOLDER, "mine")["messageCount"], 3);
    let (_copy, writer, index) = answered();
    writer.append(Draft::user("And then?")).unwrap();
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    let error = writer.close().unwrap_err().to_string();
    assert!(
        error.contains("is a directory, but should be a session list"),
        "{error}"
    );
}

#[test]
fn rebuilt_session_list_has_no_title_without_an_answer() {
    let copy = case("chorus-plain").copy();
    let new = NewSession::new(SessionId::new("mine").unwrap(), "/home/dev/app");
    let writer = copy.store().create(&copy.root, &new, QUICK).unwrap();
    writer.append(Draft::user("Why?")).unwrap();
    writer.close().unwrap();
    let index = copy.root.path.join(FOLDER).join("conversations.json");
    fs::remove_file(&index).unwrap();
    let store = copy.store();
    for stale in store.repairs().stale_session_lists(&store.inventory()) {
        store
            .repairs()
            .rebuild_session_list(&stale.unwrap())
            .unwrap();
    }
    let listed = row(&copy.root.path, FOLDER, "mine");
    assert_eq!(listed["title"], "New Conversation");
    assert_eq!(listed["messageCount"], 1);
}

#[test]
fn unreadable_session_list_error_names_the_reason() {
    let copy = case("chorus-plain").copy();
    let index = copy.root.path.join(FOLDER).join("conversations.json");
    fs::remove_file(&index).unwrap();
    std::os::unix::fs::symlink("conversations.json", &index).unwrap();
    let store = copy.store();
    let reported = store.repairs().stale_session_lists(&store.inventory());
    let reported: Vec<String> = reported
        .into_iter()
        .filter_map(|stale| Some(stale.err()?.to_string()))
        .collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("symbolic link"), "{reported:?}");
}

#[test]
fn writer_counts_messages_that_others_appended() {
    let (copy, first, _) = answered();
    let store = copy.store();
    let files = store.inventory().sessions;
    let files = files.iter().find(|it| it.id.as_str() == "mine").unwrap();
    let live = WriteOptions {
        live: true,
        ..QUICK
    };
    let second = store.open_writer(files, live).unwrap();
    second.append(Draft::user("And then?")).unwrap();
    second.append(Draft::user("Well?")).unwrap();
    second.close().unwrap();
    assert_eq!(row(&copy.root.path, FOLDER, "mine")["messageCount"], 4);
    first.append(Draft::user("Enough.")).unwrap();
    first.close().unwrap();
    assert_eq!(row(&copy.root.path, FOLDER, "mine")["messageCount"], 5);
}

/// Closing many sessions replaces the session list once.
#[cfg(target_os = "linux")]
#[test]
fn sessions_that_close_together_are_listed_in_one_go() {
    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let writers: Vec<SessionWriter> = (0..20)
        .map(|number| {
            let id = SessionId::new(&format!("c{number:02}")).unwrap();
            let new = NewSession::new(id, "/home/dev/app");
            let writer = store.create(&copy.root, &new, QUICK).unwrap();
            writer.append(Draft::user("one")).unwrap();
            writer.append(Draft::user("two")).unwrap();
            writer
        })
        .collect();
    let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
    let watch = inotify::init(flags).unwrap();
    let folder = copy.root.path.join(FOLDER);
    inotify::add_watch(&watch, &folder, WatchFlags::MOVED_TO).unwrap();
    assert!(SessionWriter::close_all(writers).is_empty());
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(&watch, &mut buffer);
    let mut replaced = 0;
    while let Ok(event) = events.next() {
        let name = event.file_name().map(|name| name.to_string_lossy());
        replaced += usize::from(name.as_deref() == Some("conversations.json"));
    }
    assert_eq!(replaced, 1);
    for number in 0..20 {
        let row = row(&copy.root.path, FOLDER, &format!("c{number:02}"));
        assert_eq!(row["messageCount"], 2, "{row}");
    }
    assert!(stale(&copy).is_empty());
}
