//! The end of a log: the parent of the next entry, for every content, and while others write.

use super::*;

/// Lines without messages at the end, longer than the first tail read.
#[test]
fn long_tail_without_messages_does_not_start_a_conversation() {
    let noise = [
        format!(
            "{{\"type\":\"file-history-snapshot\",\"blob\":\"{}\"}}\n",
            "x".repeat(1_300_000)
        ),
        (0..9_000)
            .map(|n| format!("{{\"type\":\"progress\",\"n\":{n},\"pad\":\"{}\"}}\n", "y".repeat(150)))
            .collect(),
        (0..5_000)
            .map(|n| {
                format!(
                    "{{\"type\":\"user\",\"isSidechain\":true,\"uuid\":\"side-{n}\",\"parentUuid\":null,\"timestamp\":\"2020-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{}\"}}}}\n",
                    "z".repeat(200)
                )
            })
            .collect(),
    ];
    for noise in noise {
        let fresh = fresh();
        let leaf = id(&fresh.writer.append(Draft::user("before")).unwrap());
        write_raw(&fresh.writer.path(), noise.as_bytes());
        let next = fresh.second().append(Draft::user("after")).unwrap();
        assert_eq!(next.parent, Some(leaf));
        assert!(next.context.cwd.is_some());
        let (_, resumed) = paths(&fresh.read());
        assert_eq!(
            conversations(&fresh.read())[resumed.unwrap()],
            ["before", "after"]
        );
    }
}

#[test]
fn existing_id_is_refused() {
    let fresh = fresh();
    let draft = Draft::user("once").with_id(annals::model::EntryId::new("my-id"));
    fresh.writer.append(draft.clone()).unwrap();
    let before = std::fs::read(fresh.writer.path()).unwrap();
    for writer in [&fresh.writer, &fresh.second()] {
        let again = writer.append(draft.clone());
        assert!(matches!(again, Err(Error::Exists(_))), "{again:?}");
    }
    let twice = fresh.writer.append_all(vec![
        Draft::user("a").with_id(annals::model::EntryId::new("new")),
        Draft::user("b").with_id(annals::model::EntryId::new("new")),
    ]);
    assert!(matches!(twice, Err(Error::Exists(_))), "{twice:?}");
    assert_eq!(std::fs::read(fresh.writer.path()).unwrap(), before);
}

#[test]
fn tail_rewritten_at_the_same_length_is_noticed() {
    let fresh = fresh();
    let first = id(&fresh.writer.append(Draft::user("first")).unwrap());
    let second = id(&fresh.writer.append(Draft::user("second")).unwrap());
    let log = std::fs::read_to_string(fresh.writer.path()).unwrap();
    let other = second
        .as_str()
        .replace(|c: char| c.is_ascii_hexdigit(), "0");
    std::fs::write(fresh.writer.path(), log.replace(second.as_str(), &other)).unwrap();
    let third = fresh.writer.append(Draft::user("third")).unwrap();
    assert_eq!(
        third.parent.as_ref().map(|id| id.as_str()),
        Some(other.as_str())
    );
    assert_ne!(third.parent, Some(first));
}

#[test]
fn record_above_the_line_limit_is_refused() {
    let fresh = fresh();
    let before = std::fs::read(fresh.writer.path()).unwrap();
    let huge = Draft::user("x".repeat(annals::jsonl::MAX_LINE));
    let refused = fresh.writer.append(huge);
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(std::fs::read(fresh.writer.path()).unwrap(), before);
}

#[test]
fn program_that_starts_writing_is_noticed_by_an_open_writer() {
    let fresh = fresh();
    let leaf = id(&fresh.writer.append(Draft::user("ours")).unwrap());
    let now = Timestamp::now().to_string();
    write_raw(
        &fresh.writer.path(),
        foreign(1, Some(&leaf), &now).as_bytes(),
    );
    let refused = fresh.writer.append(Draft::user("more"));
    assert!(matches!(refused, Err(Error::Live { .. })), "{refused:?}");
}

#[test]
fn session_read_before_a_rewrite_is_not_forked() {
    let fresh = fresh();
    let last = id(&fresh.writer.append(Draft::user("one")).unwrap());
    let session = fresh.read();
    let log = std::fs::read(fresh.writer.path()).unwrap();
    let mut moved = format!("{{\"type\":\"mode\",\"pad\":\"{}\"}}\n", "p".repeat(80)).into_bytes();
    moved.extend(log);
    std::fs::write(fresh.writer.path(), moved).unwrap();
    let forked = fresh.store.fork_at(&session, last.as_str());
    assert!(
        matches!(forked, Err(Error::File(FileError::Changed { .. }))),
        "{forked:?}"
    );
}

#[test]
fn concurrent_todo_edits_are_all_stored() {
    let fresh = fresh();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let writer = fresh.second();
            scope.spawn(move || {
                writer
                    .edit_todos::<Error>(|_, _, mut list| {
                        list.push(annals::model::Todo::pending(format!("t{n}")));
                        Ok(list)
                    })
                    .unwrap();
            });
        }
    });
    let lists = annals::store::Session::read(fresh.files())
        .unwrap()
        .todos()
        .unwrap();
    assert_eq!(lists[0].1.len(), 8, "{lists:?}");
}

#[test]
fn removed_sub_agent_log_is_a_flaw_of_its_session() {
    let case = crate::support::case("2.1.325-s04-agent");
    let copy = tempfile::tempdir().unwrap();
    crate::support::copy_tree(&case.path, copy.path());
    let store = annals::store::Store::new(vec![annals::store::Root::claude_code(copy.path())]);
    let inventory = store.inventory();
    let files = inventory.sessions[0].clone();
    std::fs::remove_file(&files.agents[0].path).unwrap();
    let session = annals::store::Session::read(files).unwrap();
    let flaws: Vec<_> = session.flaws().map(|(_, flaw)| flaw.kind).collect();
    assert_eq!(flaws, [annals::model::FlawKind::Unreadable]);
    assert!(session.info(None).messages > 0);
}

#[test]
fn the_last_entry_of_a_fork_is_its_newest() {
    let fresh = fresh();
    let time = |second: i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
    fresh
        .writer
        .append(Draft::user("late").with_time(time(90)))
        .unwrap();
    let last = fresh
        .writer
        .append(Draft::user("early").with_time(time(10)))
        .unwrap();
    let fork = fresh
        .store
        .fork_at(&fresh.read(), last.id.unwrap().as_str())
        .unwrap();
    let forked = fresh.store.session(fork.as_str()).unwrap();
    let times: Vec<_> = forked
        .last_messages(2)
        .unwrap()
        .into_iter()
        .map(|entry| entry.time.unwrap())
        .collect();
    assert!(times[1] > times[0], "{times:?}");
    assert_eq!(times[0], time(90));
}

#[test]
fn session_being_written_is_not_free() {
    let long_ago = || foreign(1, None, "2020-01-01T00:00:00Z");
    for (tail, free) in [
        (String::new(), true),
        (long_ago(), true),
        (long_ago()[..60].to_owned(), false),
        ("{\"type\":\"mode\",\"mode\":\"plan\"}\n".to_owned(), false),
        // annals writes such records too.
        (
            "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"1\"}\n".to_owned(),
            true,
        ),
        (foreign(1, None, &Timestamp::now().to_string()), false),
    ] {
        let fresh = fresh();
        fresh.writer.append(Draft::user("ours")).unwrap();
        let path = fresh.writer.path();
        write_raw(&path, tail.as_bytes());
        let reported = fresh.files().ensure_not_in_use();
        assert_eq!(reported.is_ok(), free, "{tail}: {reported:?}");
        assert!(
            free || matches!(reported, Err(Error::Live { .. })),
            "{reported:?}"
        );
        let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        file.set_times(times).unwrap();
        assert!(fresh.files().ensure_not_in_use().is_ok(), "{tail}");
    }
}
