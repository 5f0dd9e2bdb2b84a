//! Many logs at once.

use std::collections::BTreeMap;

use super::*;

const WRITERS: u32 = 4;
const LOGS: u32 = 300;
const ENTRIES: u32 = 20;

fn session(number: u32) -> String {
    format!("00000000-0000-4000-8000-00000001{number:04x}")
}

/// Writes to all logs in turn from several threads, some lines in pieces.
fn write_all(scene: &Scene) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for entry in 0..ENTRIES {
                    for log in (0..LOGS).filter(|log| log % WRITERS == writer) {
                        let number = log * ENTRIES + entry;
                        let line = line(number, &format!("{log} {entry}")) + "\n";
                        let at = if number.is_multiple_of(5) {
                            30
                        } else {
                            line.len()
                        };
                        let (a, b) = line.split_at(at);
                        append(&scene.log(&session(log)), a);
                        if !b.is_empty() {
                            append(&scene.log(&session(log)), b);
                        }
                    }
                }
            });
        }
    });
}

fn collect(feed: &Feed) -> BTreeMap<u32, Vec<u32>> {
    let mut reported: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for _ in 0..LOGS * ENTRIES {
        let fresh = feed.fresh();
        let text = text(&fresh.entry);
        let (log, entry) = text.split_once(' ').unwrap();
        assert_eq!(fresh.session.as_str(), session(log.parse().unwrap()));
        reported
            .entry(log.parse().unwrap())
            .or_default()
            .push(entry.parse().unwrap());
    }
    reported
}

#[test]
fn entries_of_many_logs_are_reported_once_in_order() {
    for way in ways() {
        let scene = Scene::new();
        // Half of the logs exist already.
        for log in 0..LOGS / 2 {
            append(
                &scene.log(&session(log)),
                &(line(1_000_000 + log, "old") + "\n"),
            );
        }
        let feed = scene.follow(way);
        write_all(&scene);
        let reported = collect(&feed);
        let wanted: Vec<u32> = (0..ENTRIES).collect();
        assert!(
            reported.values().all(|entries| *entries == wanted),
            "{reported:?}"
        );
        // Nothing else is reported.
        append(&scene.log(&session(0)), &(line(2_000_000, "end") + "\n"));
        assert_eq!(feed.texts_until("end"), [""; 0]);
    }
}

#[test]
fn directories_without_a_watch_are_polled_and_reported_once() {
    let scene = Scene::new();
    for project in 0..20 {
        fs::create_dir_all(scene.root.join(format!("projects/-p{project}"))).unwrap();
    }
    let mut options = FollowOptions::default();
    options.max_watches = 5;
    let feed = Feed::at_once(Follower::new(&scene.store(), Selection::all(), options).unwrap());
    let mut polling = 0;
    for project in 0..20 {
        let log = scene
            .root
            .join(format!("projects/-p{project}/{SESSION}.jsonl"));
        append(&log, &lines(project..project + 1));
    }
    let mut reported = Vec::new();
    while reported.len() < 20 {
        match feed.next() {
            Event::Polling { .. } => polling += 1,
            Event::Entry(fresh) => reported.push(text(&fresh.entry)),
            _ => {}
        }
    }
    reported.sort();
    let mut wanted: Vec<String> = (0..20).map(|n| format!("text {n}")).collect();
    wanted.sort();
    assert_eq!((reported, polling), (wanted, 1));
}

#[test]
#[cfg(target_os = "linux")]
fn inotify_overflow_rescans_everything() {
    let most: u32 = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let scene = Scene::new();
    let logs = [scene.log(&session(1)), scene.log(&session(2))];
    logs.iter().for_each(|log| append(log, &lines(1..2)));
    let follower =
        Follower::new(&scene.store(), Selection::all(), FollowOptions::default()).unwrap();
    // Nobody reads events meanwhile. The kernel merges equal events in a row, so the writes
    // alternate.
    let mut files: Vec<File> = logs
        .iter()
        .map(|log| OpenOptions::new().append(true).open(log).unwrap())
        .collect();
    for _ in 0..=most / 2 {
        files
            .iter_mut()
            .for_each(|file| file.write_all(b"\n").unwrap());
    }
    // These events are lost.
    append(&scene.log(&session(3)), &lines(5..6));
    append(&logs[0], &lines(6..7));
    let feed = Feed::new(follower);
    let mut reported = feed.texts(2);
    reported.sort();
    assert_eq!(reported, ["text 5", "text 6"]);
    append(&logs[1], &lines(7..8));
    assert_eq!(feed.texts(1), ["text 7"]);
}
