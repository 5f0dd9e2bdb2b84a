//! Following logs under stress: no entry is lost or reported twice, whatever happens to the files.

mod branches;
mod crowd;
mod derived;
mod layouts;
mod places;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use annals::model::{Block, Body, Entry};
use annals::store::{Root, Store};
use annals::watch::{
    Event, FollowOptions, FollowedEntry, Follower, ResetReason, Selection, Stopper,
};
use tempfile::TempDir;

/// Only a failing test waits this long.
const DEADLINE: Duration = Duration::from_secs(60);

const SESSION: &str = "00000000-0000-4000-8000-0000000000aa";

/// A root in a temporary directory.
pub(crate) struct Scene {
    dir: TempDir,
    pub(crate) root: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("claude");
        fs::create_dir_all(root.join("projects/-app")).unwrap();
        Scene { dir, root }
    }

    fn store(&self) -> Store {
        Store::new(vec![Root::claude_code(&self.root)])
    }

    fn log(&self, session: &str) -> PathBuf {
        self.root.join(format!("projects/-app/{session}.jsonl"))
    }

    fn follow(&self, options: FollowOptions) -> Feed {
        Feed::new(Follower::new(&self.store(), Selection::all(), options).unwrap())
    }
}

/// A follower in its own thread.
pub(crate) struct Feed {
    events: Receiver<Event>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Waits until only new entries are reported.
    fn new(follower: Follower) -> Self {
        let feed = Feed::at_once(follower);
        feed.wait_for(|event| matches!(event, Event::CaughtUp).then_some(()));
        feed
    }

    fn at_once(mut follower: Follower) -> Self {
        let stopper = follower.stopper();
        let (tell, events) = channel();
        let thread = std::thread::spawn(move || {
            for event in &mut follower {
                if tell.send(event).is_err() {
                    return;
                }
            }
        });
        Feed {
            events,
            stopper,
            thread: Some(thread),
        }
    }

    fn next(&self) -> Event {
        match self.events.recv_timeout(DEADLINE) {
            Ok(event) => event,
            Err(error) => panic!("nothing was reported: {error}"),
        }
    }

    /// Skips events until `wanted` returns a value.
    fn wait_for<T>(&self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let since = Instant::now();
        loop {
            if let Some(found) = wanted(self.next()) {
                return found;
            }
            assert!(since.elapsed() < DEADLINE, "it never came");
        }
    }

    fn fresh(&self) -> Box<FollowedEntry> {
        self.wait_for(|event| match event {
            Event::Entry(fresh) => Some(fresh),
            Event::Error(error) => panic!("{error}"),
            _ => None,
        })
    }

    /// Returns the texts of the next entries.
    fn texts(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| text(&self.fresh().entry)).collect()
    }

    /// Returns the texts of all entries before `marker`, which is written last.
    fn texts_until(&self, marker: &str) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            let next = text(&self.fresh().entry);
            if next == marker {
                return texts;
            }
            texts.push(next);
        }
    }

    fn reset(&self) -> ResetReason {
        self.wait_for(|event| match event {
            Event::Reset { reason: why, .. } => Some(why),
            _ => None,
        })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

pub(crate) fn text(entry: &Entry) -> String {
    let Body::Message(message) = &entry.body else {
        return entry.body.kind().to_owned();
    };
    let mut text = String::new();
    for block in &message.blocks {
        if let Block::Text(part) = block {
            text.push_str(part);
        }
    }
    text
}

/// Returns the uuid of the message with that number.
pub(crate) fn uuid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// Returns a prompt, without its line end.
pub(crate) fn line(number: u32, text: &str) -> String {
    format!(
        r#"{{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/app","sessionId":"{SESSION}","version":"2.1.0","gitBranch":"","type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"{}","timestamp":"2026-11-15T10:00:{:02}.000Z"}}"#,
        uuid(number),
        number % 60
    )
}

pub(crate) fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers
        .map(|n| line(n, &format!("text {n}")) + "\n")
        .collect()
}

/// Notification and polling must report the same.
fn ways() -> [FollowOptions; 2] {
    [FollowOptions::default(), FollowOptions::default().polling()]
}

#[test]
fn partial_line_is_reported_once_complete() {
    for way in ways() {
        let scene = Scene::new();
        let log = scene.log(SESSION);
        // Half of a line exists when following begins.
        let whole = line(1, "first") + "\n";
        let (a, b) = whole.split_at(40);
        append(&log, &(lines(90..92) + a));
        let feed = scene.follow(way);
        append(&log, b);
        assert_eq!(feed.texts(1), ["first"]);
        let whole = line(2, "second") + "\n";
        for piece in whole.as_bytes().chunks(7) {
            append(&log, std::str::from_utf8(piece).unwrap());
        }
        append(&log, &line(3, "third"));
        assert_eq!(feed.texts(1), ["second"]);
        append(&log, "\n");
        assert_eq!(feed.texts(1), ["third"]);
    }
}

#[test]
fn lines_may_end_in_crlf() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    append(&log, &(line(1, "old") + "\r\n"));
    let feed = scene.follow(FollowOptions::default().last(5));
    append(&log, &(line(2, "new") + "\r"));
    append(&log, &("\n".to_owned() + &line(3, "newer") + "\r\n"));
    assert_eq!(feed.texts(2), ["new", "newer"]);
}

#[test]
fn truncated_log_is_reread() {
    for way in ways() {
        let scene = Scene::new();
        let log = scene.log(SESSION);
        append(&log, &lines(1..4));
        let feed = scene.follow(way);
        append(&log, &lines(4..6));
        assert_eq!(feed.texts(2), ["text 4", "text 5"]);
        File::create(&log).unwrap();
        assert_eq!(feed.reset(), ResetReason::Truncated);
        // Entries already reported are not reported again.
        append(&log, &(lines(5..6) + &lines(20..22)));
        assert_eq!(feed.texts(2), ["text 20", "text 21"]);
        append(&log, &lines(22..23));
        assert_eq!(feed.texts(1), ["text 22"]);
    }
}

#[test]
fn log_rewritten_in_place_reports_only_new_entries() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    append(&log, &lines(1..4));
    let feed = scene.follow(FollowOptions::default());
    append(&log, &lines(4..6));
    assert_eq!(feed.texts(2), ["text 4", "text 5"]);
    // Same inode, longer, and different bytes.
    let other = lines(1..2) + &lines(40..60);
    let mut file = OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all(other.as_bytes()).unwrap();
    assert_eq!(feed.reset(), ResetReason::Rewritten);
    append(&log, &lines(70..71));
    let reported = feed.texts_until("text 70");
    let wanted: Vec<String> = (40..60).map(|n| format!("text {n}")).collect();
    // Old entries that were never reported may be reported; none is reported twice.
    let reported: Vec<&String> = reported.iter().filter(|text| *text != "text 1").collect();
    assert_eq!(reported, wanted.iter().collect::<Vec<_>>());
}

#[test]
fn longer_copy_of_a_log_continues_where_it_ended() {
    for way in ways() {
        for touched in [false, true] {
            let scene = Scene::new();
            let log = scene.log(SESSION);
            append(&log, &lines(1..100));
            let feed = scene.follow(way.clone());
            let mut last = 100;
            if touched {
                append(&log, &lines(100..101));
                assert_eq!(feed.texts(1), ["text 100"]);
                last = 101;
            }
            let copy = scene.dir.path().join("copy");
            append(&copy, &(lines(1..last) + &lines(200..202)));
            fs::rename(&copy, &log).unwrap();
            assert_eq!(feed.texts(2), ["text 200", "text 201"]);
            append(&log, &lines(202..203));
            assert_eq!(feed.texts(1), ["text 202"]);
        }
    }
}

#[test]
fn replaced_log_is_read_from_its_start() {
    for way in ways() {
        let scene = Scene::new();
        let log = scene.log(SESSION);
        append(&log, &lines(1..3));
        let feed = scene.follow(way);
        append(&log, &lines(3..4));
        assert_eq!(feed.texts(1), ["text 3"]);
        let other = scene.dir.path().join("other");
        append(&other, &lines(30..40));
        fs::rename(&other, &log).unwrap();
        assert_eq!(feed.reset(), ResetReason::Replaced);
        let wanted: Vec<String> = (30..40).map(|n| format!("text {n}")).collect();
        assert_eq!(feed.texts(10), wanted);
    }
}

#[test]
fn deleted_log_may_be_recreated() {
    for way in ways() {
        let scene = Scene::new();
        let log = scene.log(SESSION);
        append(&log, &lines(1..3));
        let feed = scene.follow(way);
        append(&log, &lines(3..5));
        assert_eq!(feed.texts(2), ["text 3", "text 4"]);
        let bytes = fs::read(&log).unwrap();
        fs::remove_file(&log).unwrap();
        feed.wait_for(|event| matches!(event, Event::Gone { .. }).then_some(()));
        // The old bytes, and one more line.
        fs::write(&log, &bytes).unwrap();
        append(&log, &lines(5..6));
        assert_eq!(feed.texts(1), ["text 5"]);
        // Another file, with one line already reported.
        fs::remove_file(&log).unwrap();
        feed.wait_for(|event| matches!(event, Event::Gone { .. }).then_some(()));
        append(&log, &(lines(4..5) + &lines(50..51)));
        assert_eq!(feed.texts(1), ["text 50"]);
    }
}

#[test]
fn rewritten_tail_is_reported_again() {
    for way in ways() {
        let scene = Scene::new();
        let log = scene.log(SESSION);
        append(&log, &lines(1..3));
        let feed = scene.follow(way);
        append(&log, &lines(3..5));
        assert_eq!(feed.texts(2), ["text 3", "text 4"]);
        fs::write(&log, lines(1..4) + &line(4, "text 4 and more") + "\n").unwrap();
        assert_eq!(feed.texts(1), ["text 4 and more"]);
        append(&log, &lines(5..6));
        assert_eq!(feed.texts(1), ["text 5"]);
    }
}

#[test]
fn line_of_many_megabytes_arrives_in_pieces() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    append(&log, &lines(1..2));
    let feed = scene.follow(FollowOptions::default());
    let long = "x".repeat(12 << 20);
    let whole = line(2, &long);
    for piece in whole.as_bytes().chunks(300_000) {
        append(&log, std::str::from_utf8(piece).unwrap());
    }
    append(&log, &("\n".to_owned() + &lines(3..4)));
    assert_eq!(feed.texts(1)[0].len(), long.len());
    assert_eq!(feed.texts(1), ["text 3"]);
}

#[test]
fn repeated_line_is_reported_once() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    let feed = scene.follow(FollowOptions::default());
    append(&log, &(lines(1..3) + &lines(2..3) + &lines(4..5)));
    assert_eq!(feed.texts_until("text 4"), ["text 1", "text 2"]);
    // Different content under the same id is a new entry.
    append(&log, &(line(2, "more") + "\n"));
    assert_eq!(feed.texts(1), ["more"]);
}

#[test]
fn damaged_line_hides_no_other() {
    let scene = Scene::new();
    let log = scene.log(SESSION);
    let feed = scene.follow(FollowOptions::default());
    append(
        &log,
        &(lines(1..2) + "{\"type\":\"user\",\n\n\0\0\0\n" + &lines(2..3)),
    );
    let reported = feed.texts_until("text 2");
    assert_eq!(reported.first().map(String::as_str), Some("text 1"));
}

#[test]
fn stop_ends_a_waiting_follower() {
    let scene = Scene::new();
    let mut follower =
        Follower::new(&scene.store(), Selection::all(), FollowOptions::default()).unwrap();
    assert!(matches!(follower.next(), Some(Event::CaughtUp)));
    let stopper = follower.stopper();
    let waiting = std::thread::spawn(move || follower.next().is_none());
    stopper.clone().stop();
    assert!(waiting.join().unwrap());
}

#[test]
fn last_entries_come_first_ordered_by_time() {
    let scene = Scene::new();
    let other = "00000000-0000-4000-8000-0000000000bb";
    for n in 1..40 {
        let session = if n % 3 == 0 { other } else { SESSION };
        append(&scene.log(session), &lines(n..n + 1));
    }
    // An unterminated line is not reported.
    append(&scene.log(SESSION), &line(45, "unfinished"));
    let follower = Follower::new(
        &scene.store(),
        Selection::all(),
        FollowOptions::default().last(7),
    )
    .unwrap();
    let feed = Feed::at_once(follower);
    let wanted: Vec<String> = (33..40).map(|n| format!("text {n}")).collect();
    assert_eq!(feed.texts(7), wanted);
    assert!(matches!(feed.next(), Event::CaughtUp));
    append(&scene.log(SESSION), "\n");
    let fresh = feed.fresh();
    assert!(!fresh.earlier);
    assert_eq!(text(&fresh.entry), "unfinished");
}

#[test]
fn last_entries_are_counted_by_the_filter() {
    let scene = Scene::new();
    append(&scene.log(SESSION), &lines(1..30));
    let even = |entry: &Entry| text(entry).ends_with(['0', '2', '4', '6', '8']);
    let options = FollowOptions::default().last(3).filter(even);
    let feed = Feed::at_once(Follower::new(&scene.store(), Selection::all(), options).unwrap());
    assert_eq!(feed.texts(3), ["text 24", "text 26", "text 28"]);
    // Later entries are not limited by the count.
    append(&scene.log(SESSION), &lines(31..32));
    assert_eq!(feed.texts(1), ["text 31"]);
}
