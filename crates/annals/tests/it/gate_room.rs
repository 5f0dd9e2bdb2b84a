//! Gate 4 beyond single logs: no space for a document, for a session of any layout, on a full disk.
//!
//! The limit is the process's own (`RLIMIT_FSIZE`), so a child process runs the part.
//! `ANNALS_GATE_SMALL` names a really full file system; `./test --gates` mounts some.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use annals::Error;
use annals::jsonl::Error as FileError;
use annals::jsonl::{AppendOptions, Create, Durability, Log, replace};
use annals::layout::LAYOUTS;
use annals::model::Draft;
use annals::store::{Root, Session, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::gates::Dice;
use crate::gates::{self, Counts};
use crate::support::says;

/// Runs `work` with a file size limit of `bytes`.
fn within<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    let unlimited = getrlimit(Resource::Fsize);
    let limit = Rlimit {
        current: Some(bytes),
        maximum: unlimited.maximum,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
    let done = work();
    setrlimit(Resource::Fsize, unlimited).unwrap();
    done
}

#[test]
#[ignore = "a part that other tests give to a child process"]
fn role() {
    let Some(dir) = std::env::var_os("ANNALS_TEST_DIR") else {
        return;
    };
    let dir = PathBuf::from(dir);
    match std::env::var("ANNALS_TEST_PART").unwrap().as_str() {
        "documents" => documents(&dir),
        layout => sessions(layout, &dir),
    }
}

/// Runs this binary in a process that ignores SIGXFSZ.
fn play(part: &str) -> usize {
    let dir = gates::dir();
    let mut shell = Command::new("bash");
    shell.args(["-c", r#"trap "" XFSZ; exec "$@""#, "bash"]);
    shell.arg(std::env::current_exe().unwrap());
    shell.args([
        "--exact",
        "gate_room::role",
        "--include-ignored",
        "--nocapture",
    ]);
    shell.env("ANNALS_TEST_DIR", dir.path());
    shell.env("ANNALS_TEST_PART", part).stdout(Stdio::null());
    assert!(shell.status().unwrap().success(), "{part}");
    let points = fs::read_to_string(dir.path().join("points")).unwrap();
    points.parse().unwrap()
}

/// A document that does not fit leaves the old one intact and no temporary file.
fn documents(dir: &Path) {
    let path = dir.join("document");
    let old = "o".repeat(300);
    let new = "n".repeat(8_192);
    replace(&path, old.as_bytes(), None).unwrap();
    let step = if gates::full() { 1 } else { 41 };
    let mut points = 0;
    for room in (0..8_192).step_by(step) {
        let full = within(room, || replace(&path, new.as_bytes(), None));
        assert!(full.is_err(), "{room} bytes of room were enough");
        assert_eq!(fs::read_to_string(&path).unwrap(), old);
        assert_eq!(
            fs::read_dir(dir).unwrap().count(),
            1,
            "something was left behind"
        );
        points += 1;
    }
    within(8_192, || replace(&path, new.as_bytes(), None)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), new);
    fs::write(dir.join("points"), points.to_string()).unwrap();
}

/// An entry that does not fit is refused; the next one is written on its own lines.
fn sessions(layout: &str, dir: &Path) {
    let store = Store::new(vec![Root::new(layout, dir.join("root")).unwrap()]);
    let writer = store.begin("/w/app").unwrap();
    let mut said = vec!["the first".to_owned()];
    writer.append(Draft::user("the first")).unwrap();
    let step = if gates::full() { 13 } else { 509 };
    for room in (0..8_192).step_by(step) {
        let len = fs::metadata(writer.path()).unwrap().len();
        let long = Draft::user("y".repeat(9_000));
        let full = within(len + room, || writer.append(long));
        assert!(
            matches!(full, Err(Error::File(FileError::Full { .. }))),
            "{layout} {room}: {full:?}"
        );
        let text = format!("after {room}");
        writer.append(Draft::user(text.as_str())).unwrap();
        said.push(text);
    }
    let session = store.session(writer.session().as_str()).unwrap();
    assert_eq!(texts(&session), said, "{layout}");
    fs::write(dir.join("points"), said.len().to_string()).unwrap();
}

fn texts(session: &Session) -> Vec<String> {
    let (_, scan, _) = session.main_log().unwrap();
    let all: Vec<usize> = (0..scan.outlines.len()).collect();
    let mut found = Vec::new();
    session
        .each_entry_of_log(0, &all, |entry| {
            let text = says(&entry);
            if text.starts_with("after") || text.starts_with("the first") {
                found.push(text);
            }
            Ok(true)
        })
        .unwrap();
    found
}

#[test]
fn a_document_that_does_not_fit_leaves_the_old_one() {
    let points = play("documents");
    let counts = Counts {
        points,
        ..Counts::default()
    };
    gates::print_counts(4, "no room after any byte of a document", counts);
}

#[test]
fn a_session_without_room_loses_no_acknowledged_entry() {
    let writable = LAYOUTS.iter().filter(|layout| layout.writer().is_some());
    let points: usize = writable.map(|layout| play(layout.name())).sum();
    let counts = Counts {
        points,
        acks: points,
        ..Counts::default()
    };
    gates::print_counts(4, "no room for an entry of any layout", counts);
}

/// On a full file system, with varying amounts of free space.
#[test]
fn a_full_disk_loses_no_acknowledged_record() {
    let Some(place) = std::env::var_os("ANNALS_GATE_SMALL") else {
        println!("no small file system is named in ANNALS_GATE_SMALL: not checked");
        return;
    };
    let dir = tempfile::tempdir_in(place).unwrap();
    let options = AppendOptions {
        durability: Durability::Os,
        create: Create::New,
        ..AppendOptions::default()
    };
    let log = Log::open(dir.path().join("log"), options).unwrap();
    let ballast = dir.path().join("ballast");
    let mut dice = Dice(4);
    let (mut counts, mut acknowledged) = (Counts::default(), Vec::new());
    for turn in 0..400 {
        fill(&ballast);
        // A little free space, or none.
        let len = fs::metadata(&ballast).unwrap().len();
        let file = OpenOptions::new().write(true).open(&ballast).unwrap();
        // A copy-on-write file system with a quota may refuse; then there is no space at all.
        let _ = file.set_len(len.saturating_sub(4_096 * dice.roll(4) as u64));
        drop(file);
        let record = format!("{turn} {}", "z".repeat(dice.roll(20_000)));
        counts.points += 1;
        match log.append(record.as_bytes()) {
            Ok(_) => acknowledged.push(record),
            Err(FileError::Full { .. }) => counts.kills += 1,
            Err(error) => panic!("{error}"),
        }
        if turn % 8 == 7 {
            fs::remove_file(&ballast).unwrap();
            // Some file systems free space only after a sync.
            rustix::fs::syncfs(File::open(dir.path()).unwrap()).unwrap();
            let record = format!("room again {turn}");
            match log.append(record.as_bytes()) {
                Ok(_) => acknowledged.push(record),
                // The log itself fills the disk by now.
                Err(FileError::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let text = fs::read_to_string(dir.path().join("log")).unwrap();
    let lines: std::collections::HashSet<&str> = text.lines().collect();
    counts.acks = acknowledged.len();
    counts.lost = acknowledged
        .iter()
        .filter(|record| !lines.contains(record.as_str()))
        .count();
    assert!(counts.kills > 10, "it was never full");
    assert_eq!(counts.lost, 0);
    counts.kills = 0;
    gates::print_counts(4, "a full disk", counts);
}

/// Uses all free space.
fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(ballast)
        .unwrap();
    for size in [65_536, 4_096, 512] {
        while file.write_all(&vec![b'b'; size]).is_ok() {}
    }
}
