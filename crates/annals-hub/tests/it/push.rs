//! What grew is sent once, and stored as it is.

use std::io::Write as _;

use annals_push::MaskPolicy;

use crate::harness::TestHub;

#[test]
fn what_grew_is_sent_once_and_stored_byte_for_byte() {
    let hub = TestHub::start();
    let machines = [hub.machine(1), hub.machine(2), hub.machine(3)];
    let sessions: Vec<_> = machines
        .iter()
        .map(|machine| machine.begin("/app", &["one", "two"]))
        .collect();
    for machine in &machines {
        assert!(machine.push(&hub.url).segments > 0);
        assert_eq!(machine.push(&hub.url).segments, 0, "nothing grew");
    }
    machines
        .iter()
        .for_each(|machine| machine.assert_stored(&hub.files()));
    machines[0].append(&sessions[0], "three");
    let report = machines[0].push(&hub.url);
    assert_eq!((report.files, report.segments), (1, 1));
    machines
        .iter()
        .for_each(|machine| machine.assert_stored(&hub.files()));
}

#[test]
fn incomplete_line_waits_for_its_end() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one"]);
    machine.push(&hub.url);
    let whole = std::fs::read(machine.log(&session)).unwrap();
    let mut log = std::fs::File::options()
        .append(true)
        .open(machine.log(&session))
        .unwrap();
    log.write_all(b"{\"type\":\"us").unwrap();
    assert_eq!(machine.push(&hub.url).segments, 0);
    assert!(hub.files().iter().any(|file| file.content == whole));
    log.write_all(b"er\"}\n").unwrap();
    assert_eq!(machine.push(&hub.url).segments, 1);
    machine.assert_stored(&hub.files());
}

#[test]
fn lost_state_sends_nothing_again() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one", "two"]);
    machine.push(&hub.url);
    machine.lose_state();
    assert_eq!(
        machine.push(&hub.url).segments,
        0,
        "the hub has it, in its inbox"
    );
    machine.append(&session, "three");
    machine.lose_state();
    let report = machine.push(&hub.url);
    assert_eq!(report.segments, 1);
    let len = std::fs::metadata(machine.log(&session)).unwrap().len();
    assert!(report.bytes < len, "{} of {len}", report.bytes);
    machine.assert_stored(&hub.files());
}

#[test]
fn state_from_an_old_backup_changes_nothing() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one"]);
    machine.push(&hub.url);
    let push = machine.state.path().join("push");
    let state = push.join(format!("{}.json", machine.source));
    let old = std::fs::read(&state).unwrap();
    for message in ["two", "three"] {
        machine.append(&session, message);
        machine.push(&hub.url);
    }
    machine.append(&session, "four");
    std::fs::write(&state, old).unwrap();
    machine.push(&hub.url);
    machine.assert_stored(&hub.files());
    assert_eq!(hub.committed_files().len(), hub.files().len());
}

#[test]
fn replaced_and_cut_logs_begin_a_generation() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one", "two", "three"]);
    machine.push(&hub.url);
    let first = hub.files();
    let log = machine.log(&session);
    let lines = std::fs::read_to_string(&log).unwrap();
    // Cut in place.
    let kept = lines.split_inclusive('\n').next().unwrap().len() as u64;
    std::fs::File::options()
        .write(true)
        .open(&log)
        .unwrap()
        .set_len(kept)
        .unwrap();
    machine.push(&hub.url);
    machine.assert_stored(&hub.files());
    // Replaced by a longer file with the same beginning.
    let other = log.with_extension("tmp");
    std::fs::write(&other, lines.replace("two", "2")).unwrap();
    std::fs::rename(&other, &log).unwrap();
    machine.push(&hub.url);
    let last = hub.files();
    machine.assert_stored(&last);
    let generation =
        |files: &[annals_hub::files::StoredFile]| files.iter().map(|file| file.generation).max();
    assert_eq!(generation(&last).unwrap(), generation(&first).unwrap() + 2);
}

#[test]
fn secrets_do_not_leave_the_machine() {
    const KEY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let hub = TestHub::start();
    let mut machine = hub.machine(1);
    machine.mask = MaskPolicy::Secrets;
    let session = machine.begin("/app", &["before", &format!("the token is {KEY}"), "after"]);
    let report = machine.push(&hub.url);
    assert!(report.masked > 0);
    machine.append(&session, "more");
    machine.push(&hub.url);
    machine.lose_state();
    assert_eq!(
        machine.push(&hub.url).segments,
        0,
        "masked lines are recognised"
    );
    let files = hub.files();
    let log = std::fs::read_to_string(machine.log(&session)).unwrap();
    let stored = files
        .iter()
        .find(|file| file.path.ends_with(".jsonl"))
        .unwrap();
    let stored = String::from_utf8(stored.content.clone()).unwrap();
    assert!(!stored.contains(KEY) && log.contains(KEY));
    let differs = stored
        .lines()
        .zip(log.lines())
        .filter(|(stored, log)| stored != log);
    assert_eq!(
        (differs.count(), stored.lines().count()),
        (1, log.lines().count())
    );
}

#[test]
fn documents_are_stored_in_their_last_version() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one"]);
    for text in ["first", "second"] {
        let todos = [annals::model::Todo::pending(text)];
        machine
            .sessions()
            .resume(&session, Default::default())
            .unwrap()
            .set_todos(&todos)
            .unwrap();
        machine.push(&hub.url);
        assert_eq!(machine.push(&hub.url).segments, 0);
        machine.lose_state();
        assert_eq!(
            machine.push(&hub.url).segments,
            0,
            "the hub has this version"
        );
    }
    machine.assert_stored(&hub.files());
}

#[test]
fn two_hubs_on_one_store_continue_each_other() {
    let hub = TestHub::start();
    let (_other, other_url) = hub.start_another();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one"]);
    machine.push(&hub.url);
    assert_eq!(machine.push(&other_url).segments, 0);
    for (number, url) in [&other_url, &hub.url, &other_url].into_iter().enumerate() {
        machine.append(&session, &format!("message {number}"));
        assert_eq!(machine.push(url).segments, 1);
    }
    machine.assert_stored(&hub.files());
    // What was sent again and again is stored once.
    machine.lose_state();
    assert_eq!(machine.push(&other_url).segments, 0);
}

#[test]
fn two_pushes_at_once_are_refused() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    machine.begin("/app", &["one"]);
    machine.push(&hub.url);
    let lock = machine
        .state
        .path()
        .join("push")
        .join(format!("{}.lock", machine.source));
    let lock = std::fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    assert!(matches!(
        machine.try_push(&hub.url),
        Err(annals_push::Error::Busy)
    ));
    drop(lock);
    machine.push(&hub.url);
}

#[test]
fn exported_files_are_those_of_the_machine() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    let session = machine.begin("/app", &["one", "two"]);
    machine.push(&hub.url);
    let dir = tempfile::tempdir().unwrap();
    let log = machine.log(&session);
    for mut file in hub.files() {
        let path = file.write_below(dir.path()).unwrap();
        let on_machine = std::path::Path::new("/").join(path.strip_prefix(dir.path()).unwrap());
        assert_eq!(
            std::fs::read(&path).unwrap(),
            std::fs::read(&on_machine).unwrap()
        );
        let modified = |path| std::fs::metadata(path).unwrap().modified().unwrap();
        assert!(on_machine != log || modified(&path) == modified(&on_machine));
        assert!(file.write_below(dir.path()).is_err(), "nothing is replaced");
        file.path = "../outside".into();
        assert!(file.write_below(dir.path()).is_err());
    }
}
