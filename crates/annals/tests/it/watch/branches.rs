//! Selection of what to follow.

use annals::model::{Draft, EntryId};

use super::*;

fn selected(scene: &Scene, what: &str) -> Feed {
    let store = scene.store();
    let target = store.find(&store.inventory(), what).unwrap();
    let selection = Selection::all().target(target).unwrap();
    Feed::new(Follower::new(&store, selection, FollowOptions::default()).unwrap())
}

fn said(number: u32, parent: u32, role: &str, content: &str) -> String {
    let parent = uuid(parent);
    let response = match role {
        "assistant" => format!(r#","id":"msg_{number}","model":"m""#),
        _ => String::new(),
    };
    format!(
        r#"{{"parentUuid":"{parent}","isSidechain":false,"cwd":"/app","sessionId":"{SESSION}","type":"{role}","message":{{"role":"{role}","content":{content}{response}}},"uuid":"{}","timestamp":"2026-11-15T10:00:{:02}.000Z"}}{}"#,
        uuid(number),
        number % 60,
        "\n"
    )
}

fn words(text: &str) -> String {
    format!(r#"[{{"type":"text","text":"{text}"}}]"#)
}

fn call(id: &str, prompt: &str) -> String {
    format!(
        r#"[{{"type":"tool_use","id":"{id}","name":"Task","input":{{"description":"d","prompt":"{prompt}"}}}}]"#
    )
}

#[test]
fn session_is_followed_with_its_sub_agents_only() {
    let scene = Scene::new();
    let other = "00000000-0000-4000-8000-0000000000bb";
    append(&scene.log(SESSION), &lines(1..2));
    append(&scene.log(other), &lines(2..3));
    let feed = selected(&scene, SESSION);
    append(&scene.log(other), &lines(3..4));
    let agents = scene
        .root
        .join(format!("projects/-app/{SESSION}/subagents"));
    fs::create_dir_all(&agents).unwrap();
    append(&agents.join("agent-a1.jsonl"), &lines(4..5));
    assert_eq!(feed.texts(1), ["text 4"]);
    append(&scene.log(SESSION), &lines(5..6));
    assert_eq!(feed.texts(1), ["text 5"]);
}

#[test]
fn branch_is_followed_without_other_branches() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    append(&log, &lines(1..2));
    append(&log, &said(2, 1, "assistant", &words("a")));
    append(&log, &said(3, 2, "user", &words("left")));
    append(&log, &said(4, 3, "assistant", &words("left answer")));
    append(&log, &said(5, 2, "user", &words("right")));
    append(&log, &said(6, 5, "assistant", &words("right answer")));
    let feed = selected(&scene, &format!("{SESSION}@{}", uuid(4)));
    append(&log, &said(7, 6, "user", &words("right again")));
    append(&log, &said(8, 2, "user", &words("a third")));
    append(&log, &said(9, 4, "user", &words("left again")));
    append(&log, &said(10, 8, "assistant", &words("third answer")));
    append(&log, &said(11, 9, "assistant", &words("left answer again")));
    assert_eq!(feed.texts(2), ["left again", "left answer again"]);
    append(&log, &said(12, 7, "assistant", &words("no")));
    append(&log, &said(13, 11, "user", &words("yes")));
    assert_eq!(feed.texts(1), ["yes"]);
}

#[test]
fn results_of_parallel_calls_belong_to_the_branch() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    let result =
        |id: &str| format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"done"}}]"#);
    append(&log, &lines(1..2));
    let first = said(2, 1, "assistant", &call("t1", "x"));
    let second = said(3, 2, "assistant", &call("t2", "y")).replace("msg_3", "msg_2");
    append(&log, &(first + &second));
    let feed = selected(&scene, &format!("{SESSION}@{}", uuid(3)));
    append(&log, &said(4, 2, "user", &result("t1")));
    append(&log, &said(5, 3, "user", &result("t2")));
    append(&log, &said(6, 5, "assistant", &words("both")));
    assert_eq!(feed.fresh().entry.id, Some(EntryId::new(&uuid(4))));
    assert_eq!(feed.fresh().entry.id, Some(EntryId::new(&uuid(5))));
    assert_eq!(feed.texts(1), ["both"]);
}

#[test]
fn only_sub_agents_of_the_branch_are_followed() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    append(&log, &lines(1..2));
    append(&log, &said(2, 1, "assistant", &words("a")));
    append(&log, &said(3, 2, "user", &words("left")));
    append(&log, &said(4, 2, "user", &words("right")));
    let feed = selected(&scene, &format!("{SESSION}@{}", uuid(3)));
    append(&log, &said(5, 4, "assistant", &call("t1", "for the right")));
    append(&log, &said(6, 3, "assistant", &call("t2", "for the left")));
    let agents = scene
        .root
        .join(format!("projects/-app/{SESSION}/subagents"));
    fs::create_dir_all(&agents).unwrap();
    let asked = |number, text: &str| {
        line(number, text).replace("isSidechain\":false", "isSidechain\":true") + "\n"
    };
    append(&agents.join("agent-a1.jsonl"), &asked(7, "for the right"));
    append(&agents.join("agent-a2.jsonl"), &asked(8, "for the left"));
    assert_eq!(feed.fresh().entry.id, Some(EntryId::new(&uuid(6))));
    assert_eq!(feed.texts(1), ["for the left"]);
    append(&agents.join("agent-a1.jsonl"), &asked(9, "still the right"));
    append(&agents.join("agent-a2.jsonl"), &asked(10, "still the left"));
    assert_eq!(feed.texts(1), ["still the left"]);
}

#[test]
fn project_is_followed_with_later_sessions() {
    let scene = Scene::new();
    let store = scene.store();
    let ours = store.begin("/home/me/app").unwrap();
    ours.append(Draft::user("ours")).unwrap();
    let other = store.begin("/home/me/other").unwrap();
    other.append(Draft::user("theirs")).unwrap();
    let message = |entry: &Entry| matches!(entry.body, Body::Message(_));
    for (wanted, path) in [
        ("app", "/home/me/app"),
        ("/home/me/app", "/home/me/app"),
        ("later", "/home/me/later"),
        ("/home/me/much-later", "/home/me/much-later"),
    ] {
        let selection = Selection::all().project(wanted);
        let options = FollowOptions::default().last(1).filter(message);
        let feed = Feed::at_once(Follower::new(&store, selection, options).unwrap());
        if wanted == "app" {
            assert_eq!(feed.texts(1), ["ours"]);
        }
        other.append(Draft::user("theirs again")).unwrap();
        let later = store.begin(path).unwrap();
        later.append(Draft::user(wanted)).unwrap();
        let reported = feed.texts_until(wanted);
        assert!(
            !reported.iter().any(|text| text.starts_with("theirs")),
            "{reported:?}"
        );
    }
}

#[test]
fn layout_filter_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let claude = Root::claude_code(dir.path().join("claude"));
    let clog = Root::new("clog", dir.path().join("clog")).unwrap();
    let in_claude = Store::new(vec![claude.clone()]).begin("/a").unwrap();
    let in_clog = Store::new(vec![clog.clone()]).begin("/a").unwrap();
    let store = Store::new(vec![claude, clog]);
    let selection = Selection::all().layout("clog");
    let feed = Feed::new(Follower::new(&store, selection, FollowOptions::default()).unwrap());
    in_claude.append(Draft::user("no")).unwrap();
    in_clog.append(Draft::user("yes")).unwrap();
    assert!(feed.texts_until("yes").iter().all(|text| text != "no"));
}

#[test]
fn log_outside_any_root_is_followed_alone() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("a-log.jsonl");
    append(&log, &lines(1..2));
    append(&dir.path().join("another.jsonl"), &lines(2..3));
    let store = Store::new(Vec::new());
    let target = store
        .find(&store.inventory(), log.to_str().unwrap())
        .unwrap();
    let selection = Selection::all().target(target).unwrap();
    let follower = Follower::new(&store, selection, FollowOptions::default().last(5)).unwrap();
    let feed = Feed::at_once(follower);
    assert_eq!(feed.texts(1), ["text 1"]);
    append(&dir.path().join("another.jsonl"), &lines(3..4));
    append(&log, &lines(4..5));
    assert_eq!(feed.texts(1), ["text 4"]);
}
