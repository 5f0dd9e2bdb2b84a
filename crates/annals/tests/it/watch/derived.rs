//! Following documents and databases, whose records are derived.

use rusqlite::Connection;

use super::*;
use crate::support;

fn follow(store: &Store) -> Feed {
    Feed::new(Follower::new(store, Selection::all(), FollowOptions::default()).unwrap())
}

fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

#[test]
fn patch_log_reports_a_message_again_only_if_it_changes() {
    let copy = support::case("patches-killed").copy();
    let folder = copy.root.path.join("tmp/work/chats");
    let log = folder.join("session-2026-11-16T13-44-07d693d4.jsonl");
    let feed = follow(&copy.store());
    let said = |id: &str, more: &str| {
        format!(
            "{{\"id\":\"{id}\",\"timestamp\":\"2030-01-01T00:00:00.000Z\",\"type\":\"gemini\",\"content\":\"{id}\"{more}}}\n"
        )
    };
    append(&log, &said("one", ""));
    let fresh = feed.fresh();
    assert_eq!(text(&fresh.entry), "one");
    assert_eq!(
        fresh.session.as_str(),
        "07d693d4-a82e-4130-bb94-77e9aca2d962"
    );
    append(
        &log,
        "{\"$set\":{\"lastUpdated\":\"2030-01-01T00:00:00.000Z\"}}\n",
    );
    append(&log, &said("one", ",\"toolCalls\":[]"));
    let later = feed.fresh();
    assert_eq!(text(&later.entry), "one");
    assert!(later.updated && !fresh.updated);
    append(&log, &said("two", ""));
    assert_eq!(feed.texts(1), ["two"]);
}

/// Messages are recognized by their ids, not by their times.
#[test]
fn new_patch_log_reports_every_message_once() {
    let copy = support::case("patches-tools").copy();
    let folder = copy.root.path.join("tmp/work/chats");
    let feed = follow(&copy.store());
    let log = folder.join("session-2026-11-16T15-00-12345678.jsonl");
    let said = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"timestamp\":\"2020-01-01T00:00:00.000Z\",\"type\":\"user\",\"content\":\"{id}\"}}\n"
        )
    };
    fs::write(
        &log,
        format!("{{\"sessionId\":\"12345678-a\"}}\n{}", said("one")),
    )
    .unwrap();
    let first = feed.wait_for(|event| match event {
        Event::Entry(fresh) if text(&fresh.entry) == "one" => Some(fresh),
        _ => None,
    });
    assert_eq!(first.session.as_str(), "12345678-a");
    append(&log, &said("two"));
    assert_eq!(feed.texts(1), ["two"]);
    append(&log, &said("three"));
    assert_eq!(feed.texts(1), ["three"]);
}

#[test]
fn replaced_document_reports_only_new_messages() {
    let copy = support::case("document-qa").copy();
    let folder = copy.root.path.join("tmp/work/chats");
    let path = folder.join("session-2026-11-16T13-45-59a18abe.json");
    let document = fs::read_to_string(&path).unwrap();
    let feed = follow(&copy.store());
    let with = |ids: &[&str]| {
        let said = |id: &&str| {
            format!(
                ",{{\"id\":\"{id}\",\"timestamp\":\"2030-01-01T00:00:00.000Z\",\"type\":\"user\",\"content\":\"{id}\"}}"
            )
        };
        let more: String = ids.iter().map(said).collect();
        document.replace("\n  ],\n  \"kind\"", &format!("{more}\n  ],\n  \"kind\""))
    };
    fs::write(&path, with(&["one"])).unwrap();
    assert_eq!(feed.texts(1), ["one"]);
    fs::write(&path, with(&["one", "two", "three"])).unwrap();
    assert_eq!(feed.texts(2), ["two", "three"]);
}

#[test]
fn rows_written_to_the_wal_are_reported() {
    let copy = support::case("1.18-s05-compact").copy();
    let program = Connection::open(copy.root.path.join("opencode.db")).unwrap();
    program.pragma_update(None, "journal_mode", "WAL").unwrap();
    let session: String = program
        .query_row("SELECT id FROM session", [], |row| row.get(0))
        .unwrap();
    let feed = follow(&copy.store());
    let add = |id: &str, text: &str| {
        let time = 1_900_000_000_000_i64;
        let sql = "INSERT INTO message VALUES (?1, ?2, ?3, ?3, '{\"role\":\"user\"}')";
        program.execute(sql, (id, &session, time)).unwrap();
        let sql =
            "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?4, json_object('type', 'text', 'text', ?5))";
        let part = format!("prt_{id}");
        program
            .execute(sql, (&part, id, &session, time, text))
            .unwrap();
    };
    program.execute_batch("BEGIN").unwrap();
    add("msg_x", "one");
    program.execute_batch("COMMIT").unwrap();
    let fresh = feed.fresh();
    assert_eq!(text(&fresh.entry), "one");
    assert_eq!(fresh.session.as_str(), session);
    program.execute_batch("BEGIN").unwrap();
    add("msg_y", "two");
    program.execute_batch("COMMIT").unwrap();
    assert_eq!(feed.texts(1), ["two"]);
    // A reply that is streamed: its row is updated.
    let stream = "UPDATE part SET data = json_object('type', 'text', 'text', 'two, and more'), time_updated = time_updated + 1 WHERE id = 'prt_msg_y'";
    program.execute_batch(stream).unwrap();
    let later = feed.fresh();
    assert_eq!(text(&later.entry), "two, and more");
    assert!(later.updated);
}

/// The text of a reply may be in another file than the one that the program touches last.
#[test]
fn session_in_several_files_reports_new_messages() {
    let copy = support::case("1.0-s08-errors").copy();
    let session = "d9fcec52-e511-4afd-9e26-63bc5b6cd7bb";
    let log = copy.root.path.join("session-state").join(session);
    let feed = follow(&copy.store());
    append(
        &log.join("events.jsonl"),
        "{\"type\":\"user.message\",\"data\":{\"content\":\"one\"},\"id\":\"e1\",\"timestamp\":\"2030-01-01T00:00:00.000Z\"}\n",
    );
    let fresh = feed.fresh();
    assert_eq!(text(&fresh.entry), "one");
    assert_eq!(fresh.session.as_str(), session);

    let copy = support::case("1.1-s01-qa").copy();
    let storage = copy.root.path.join("storage");
    let session = "ses_e1b62bad0ffeWuLee7D6YOr4nm";
    let feed = follow(&copy.store());
    let write = |path: &str, text: &str| {
        let path = storage.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let message = "{\"id\":\"msg_zz\",\"role\":\"user\",\"time\":{\"created\":1900000000000}}";
    write(&format!("message/{session}/msg_zz.json"), message);
    write(
        "part/msg_zz/prt_zz.json",
        "{\"type\":\"text\",\"text\":\"new\"}",
    );
    // The program writes the file of the session after each change.
    let file = format!("session/global/{session}.json");
    let text_of_session = fs::read_to_string(storage.join(&file)).unwrap();
    write(
        &file,
        &text_of_session.replace("\"updated\": ", "\"updated\": 1"),
    );
    assert_eq!(text(&feed.fresh().entry), "new");
}
