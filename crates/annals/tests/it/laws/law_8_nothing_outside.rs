//! No id, path or link makes annals change anything outside of the root and its state.

use super::*;
use annals::layout::{NewSession, Spawn};
use annals::model::{Draft, Todo};
use std::os::unix::fs::symlink;

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

/// Hostile ids that are valid file names.
const NAMES: &[&str] = &["%2e%2e%2f", "CON", "~", "$(id)", "*"];

fn hostile() -> Vec<String> {
    let mut ids: Vec<String> = [
        "..",
        "../x",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a\0b",
        "%2e%2e%2f",
        "",
        ".",
        "-rf",
        "CON",
        "a\nb",
        "\u{202e}x",
        "~",
        "$(id)",
        "*",
    ]
    .map(str::to_owned)
    .to_vec();
    ids.push("x".repeat(10_000));
    ids.push("../".repeat(3_000));
    ids
}

#[test]
fn hostile_ids_change_nothing() {
    for case in cases()
        .into_iter()
        .filter(|case| case.name == "subagents-every-placement" || case.name == "todos")
    {
        let copy = case.copy();
        let store = copy.store();
        let inventory = store.inventory();
        let files = inventory.sessions[0].clone();
        let session = Session::read(files.clone()).unwrap();
        let before = picture(copy.dir.path());
        for id in hostile() {
            assert!(
                store.find(&inventory, &id).is_err() || id.is_empty() || Path::new(&id).is_file(),
                "{id:?}"
            );
            let _ = store.find(&inventory, &format!("{}@{id}", files.id));
            assert!(
                SessionWriter::open_agent(&store, &files, &id, QUICK).is_err(),
                "{id:?}"
            );
            assert!(store.trash().restore(&id).is_err(), "{id:?}");
            assert!(session.message(&id).is_err(), "{id:?}");
            assert!(session.ancestry(&id).is_err(), "{id:?}");
            assert!(session.find_entry(&id).is_err(), "{id:?}");
            let is_name = NAMES.contains(&id.as_str());
            assert_eq!(AgentId::new(&id).is_ok(), is_name, "{id:?}");
            if let Ok(to) = SessionId::new(&id) {
                // A valid file name stays in the folder of its project.
                assert!(is_name, "{id:?}");
                let new = NewSession::new(to.clone(), "/w");
                let made = store.create(&copy.root, &new, QUICK).unwrap().path();
                let file = format!("projects/-w/{id}.jsonl");
                assert_eq!(made, copy.root.path.join(file), "{id:?}");
                let taken = store.fork(&session, &[0], to, None, jiff::Timestamp::now());
                std::fs::remove_file(&made).unwrap();
                std::fs::remove_dir(made.parent().unwrap()).unwrap();
                if let Ok(fork) = taken {
                    let log = fork.path;
                    assert_eq!(log.parent(), files.main_path().parent(), "{id:?}");
                    std::fs::remove_file(log).unwrap();
                }
            }
        }
        assert_eq!(picture(copy.dir.path()), before);
    }
}

#[test]
fn hostile_directories_stay_in_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("claude-code", dir.path().join("root")).unwrap();
    let store = Store::new(vec![root.clone()]);
    for (at, id) in hostile().into_iter().enumerate() {
        let session = SessionId::new(&format!("{at:08x}-0000-4000-8000-000000000000")).unwrap();
        for cwd in [id.clone(), format!("/{id}"), format!("C:\\{id}")] {
            let new = NewSession::new(session.clone(), cwd);
            let _ = store.create(&root, &new, QUICK);
        }
    }
    let made = picture(dir.path());
    assert!(
        made.keys().all(|path| path.starts_with("root")),
        "{made:#?}"
    );
    assert!(made.keys().any(|path| path.starts_with("root/projects")));
    for path in made
        .keys()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
    {
        let relative = path.strip_prefix("root").unwrap();
        assert!(
            root.layout.classify(relative).is_some(),
            "{}",
            path.display()
        );
    }
}

/// A root in which a project folder, a log and `todos` are links to the outside.
struct Sandbox {
    dir: tempfile::TempDir,
    root: Root,
}

fn sandbox() -> Sandbox {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let line = |n: u32| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{n:08x}-0000-4000-8000-000000000000\",\"parentUuid\":null,\"sessionId\":\"s\",\"cwd\":\"/w\",\"timestamp\":\"2026-03-01T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n"
        )
    };
    for folder in [
        "root/projects/-plain",
        "outside/project",
        "outside/todos",
        "outside/session/subagents",
        "decoy",
    ] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    let log = |name: &str| format!("{name}-0000-4000-8000-000000000000.jsonl");
    fs::write(
        path.join("root/projects/-plain").join(log("aaaaaaaa")),
        line(1),
    )
    .unwrap();
    fs::write(path.join("outside/project").join(log("bbbbbbbb")), line(2)).unwrap();
    fs::write(path.join("outside/log.jsonl"), line(3)).unwrap();
    fs::write(path.join("outside/todos/secret.json"), "[]").unwrap();
    fs::write(
        path.join("outside/session/subagents/agent-a1.jsonl"),
        line(4),
    )
    .unwrap();
    fs::write(path.join("decoy/keep.txt"), "keep").unwrap();
    symlink(
        path.join("outside/project"),
        path.join("root/projects/-linked"),
    )
    .unwrap();
    symlink(
        path.join("outside/log.jsonl"),
        path.join("root/projects/-plain").join(log("cccccccc")),
    )
    .unwrap();
    symlink(path.join("outside/todos"), path.join("root/todos")).unwrap();
    symlink(
        path.join("outside/session"),
        path.join("root/projects/-plain").join(ID),
    )
    .unwrap();
    let root = Root::new("claude-code", path.join("root")).unwrap();
    Sandbox { dir, root }
}

fn outside(dir: &Path) -> Vec<(std::path::PathBuf, String)> {
    let all = picture(dir).into_iter();
    all.filter(|(path, _)| !path.starts_with("root") && !path.starts_with("state"))
        .collect()
}

#[test]
fn links_lead_no_writer_outside() {
    let sandbox = sandbox();
    let dir = sandbox.dir.path();
    let inventory = Store::new(vec![sandbox.root.clone()]).inventory();
    assert_eq!(inventory.sessions.len(), 1, "links are not followed");
    assert_eq!(inventory.errors.len(), 4, "and reported");
    // A link that readers follow does not lead a writer outside either.
    let links = ["projects/-linked", "todos"].map(|link| sandbox.root.path.join(link));
    let root = sandbox.root.clone().follow_links(&links);
    let store = Store::new(vec![root]).with_state(dir.join("state"));
    let before = outside(dir);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let inventory = store.inventory();
    assert_eq!(inventory.sessions.len(), 2);
    let new = |cwd: &str, id: &str| NewSession::new(SessionId::new(id).unwrap(), cwd);
    let other = "dddddddd-0000-4000-8000-000000000000";
    // `-linked` is the folder of the directory `/linked`.
    let created = store.create(&sandbox.root, &new("/linked", other), QUICK);
    assert!(created.is_err());
    assert_eq!(outside(dir), before, "creating");
    for files in &inventory.sessions {
        let linked = files.id.as_str() != ID;
        let opened = store.open_writer(files, QUICK);
        assert_eq!(opened.is_err(), linked, "{}", files.id);
        if let Ok(writer) = opened {
            writer.append(Draft::user("more")).unwrap();
            assert!(
                writer.set_todos(&[Todo::pending("x")]).is_err(),
                "todos is a link"
            );
            let spawn = Spawn::new(AgentId::new("a2").unwrap(), "k", "d");
            assert!(
                writer.spawn(&spawn).is_err(),
                "the session's folder is a link"
            );
            assert!(SessionWriter::open_agent(&store, files, "a1", QUICK).is_err());
        }
        assert_eq!(outside(dir), before, "writing {}", files.id);
        let session = Session::read(files.clone()).unwrap();
        let to = SessionId::new(&other.replace('d', "e")).unwrap();
        let _ = store.fork(&session, &[0], to, Some("t"), jiff::Timestamp::now());
        assert_eq!(outside(dir), before, "forking {}", files.id);
        let _ = store.trash().move_in(files, now);
        assert_eq!(outside(dir), before, "deleting {}", files.id);
    }
    for trashed in store.trash().items().unwrap() {
        let _ = store.trash().restore(&trashed.id);
    }
    assert_eq!(outside(dir), before, "undeleting");
}

/// A deleted file is restored to its place, not through a link created since.
#[test]
fn undelete_does_not_write_outside() {
    let sandbox = sandbox();
    let dir = sandbox.dir.path();
    let store = Store::new(vec![sandbox.root.clone()]).with_state(dir.join("state"));
    fs::remove_file(dir.join("root/projects/-plain").join(ID)).unwrap();
    let files = store
        .inventory()
        .sessions
        .into_iter()
        .find(|files| files.id.as_str() == ID)
        .unwrap();
    store
        .trash()
        .move_in(&files, jiff::Timestamp::UNIX_EPOCH)
        .unwrap();
    fs::remove_dir_all(dir.join("root/projects/-plain")).unwrap();
    symlink(
        dir.join("outside/project"),
        dir.join("root/projects/-plain"),
    )
    .unwrap();
    let before = outside(dir);
    assert!(store.trash().restore(ID).is_err());
    assert_eq!(outside(dir), before);
    assert_eq!(store.trash().items().unwrap().len(), 1, "it is still there");
    // A manipulated manifest does not lead outside either.
    let trash = dir.join("state/undo");
    let name = store.trash().items().unwrap().remove(0).id;
    let manifest = trash.join(&name).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let evil = text.replace(
        &format!("projects/-plain/{ID}.jsonl"),
        "projects/-x/../../../evil.jsonl",
    );
    assert_ne!(text, evil);
    fs::write(&manifest, evil).unwrap();
    assert!(store.trash().restore(&name).is_err());
    assert_eq!(outside(dir), before);
}

/// The test detects a write outside.
#[test]
fn control_write_outside_is_caught() {
    let sandbox = sandbox();
    let before = outside(sandbox.dir.path());
    let through = sandbox.root.path.join("todos/new.json");
    fs::write(through, "[]").unwrap();
    assert_ne!(outside(sandbox.dir.path()), before);
}
