//! Messages without an id in Claude Code logs: shown at their position, and never a parent.

use super::*;

/// Returns a line of the session; `uuid` and `parent` are JSON, and omitted if empty.
fn line(role: &str, uuid: &str, parent: &str, text: &str) -> String {
    let uuid = match uuid {
        "" => String::new(),
        uuid => format!(r#""uuid":{uuid},"#),
    };
    let parent = match parent {
        "" => String::new(),
        parent => format!(r#""parentUuid":{parent},"#),
    };
    format!(
        r#"{{"type":"{role}",{uuid}{parent}"sessionId":"{ID}","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"{role}","content":"{text}"}}}}"#
    ) + "\n"
}

/// Creates a root with one session of these lines.
fn stored(lines: &[String]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("projects/-w");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{ID}.jsonl")), lines.concat()).unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    (dir, store)
}

fn parent_of_last(dir: &tempfile::TempDir) -> serde_json::Value {
    let log = fs::read_to_string(dir.path().join(format!("projects/-w/{ID}.jsonl"))).unwrap();
    let is_message = |line: &&str| line.contains(r#""type":"user""#);
    let last = log.lines().rfind(is_message).unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    last["parentUuid"].clone()
}

#[test]
fn they_are_shown_where_they_stand_and_followed_by_what_comes_next() {
    for (lines, said, parent) in [
        // Between two messages with ids.
        (
            vec![
                line("user", "\"u1\"", "null", "one"),
                line("assistant", "", "", "two"),
                line("user", "7", "\"u1\"", "three"),
                line("assistant", "\"a1\"", "\"u1\"", "four"),
            ],
            vec!["one", "two", "three", "four"],
            Some("a1"),
        ),
        // Before the first and after the last.
        (
            vec![
                line("user", "", "null", "one"),
                line("assistant", "\"a1\"", "null", "two"),
                line("user", "null", "", "three"),
            ],
            vec!["one", "two", "three"],
            Some("a1"),
        ),
        // All messages.
        (
            vec![
                line("user", "", "", "one"),
                line("assistant", "", "", "two"),
            ],
            vec!["one", "two"],
            None,
        ),
    ] {
        let (dir, store) = stored(&lines);
        let read = || Session::read(store.inventory().sessions.remove(0)).unwrap();
        assert_eq!(
            conversations(&read()),
            std::slice::from_ref(&said),
            "{lines:?}"
        );
        let files = store.inventory().sessions.remove(0);
        let writer = store.open_writer(&files, QUICK).unwrap();
        writer.append(Draft::user("next")).unwrap();
        assert_eq!(parent_of_last(&dir).as_str(), parent, "{lines:?}");
        let all = [said.as_slice(), &["next"]].concat();
        assert_eq!(conversations(&read()), [all], "{lines:?}");
    }
}

/// The first tail read holds no message with an id.
#[test]
fn the_nearest_message_with_an_id_may_be_far_from_the_end() {
    let long = "x".repeat(1000);
    let mut lines = vec![line("user", "\"u1\"", "null", "one")];
    lines.extend((0..200).map(|_| line("assistant", "", "", &long)));
    let (dir, store) = stored(&lines);
    let files = store.inventory().sessions.remove(0);
    let writer = store.open_writer(&files, QUICK).unwrap();
    writer.append(Draft::user("next")).unwrap();
    assert_eq!(parent_of_last(&dir), "u1");
}

#[test]
fn none_is_a_parent_that_a_caller_may_name() {
    let lines = [
        line("user", "\"u1\"", "null", "one"),
        line("assistant", "", "", "two"),
    ];
    let (_dir, store) = stored(&lines);
    let files = store.inventory().sessions.remove(0);
    let id = EntryId::new(&format!("at-{}", lines[0].len()));
    let session = Session::read(files.clone()).unwrap();
    assert_eq!(paths(&session).0, [["u1".to_owned(), id.to_string()]]);
    let writer = store.open_writer(&files, QUICK).unwrap();
    let mut draft = Draft::user("three");
    draft.parent = Some(id);
    let refused = writer.append(draft).unwrap_err().to_string();
    assert!(
        refused.contains("is not a message that the agent program can continue from"),
        "{refused}"
    );
}

/// Two records with the same id are one entry: the later one counts.
#[test]
fn records_with_the_same_id_are_one_entry_and_the_later_counts() {
    let (_dir, store) = stored(&[
        line("user", "\"u1\"", "null", "one"),
        line("assistant", "", "", "two"),
        line("assistant", "\"a1\"", "\"u1\"", "three"),
        line("assistant", "\"a1\"", "\"u1\"", "three again"),
    ]);
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    let said = conversations(&session);
    assert!(
        said.iter().all(|said| !said.contains(&"three".to_owned())),
        "{said:?}"
    );
}
