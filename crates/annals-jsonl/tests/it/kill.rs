//! Gate 3: sixteen writers killed at random; acknowledged records are in the log.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use annals_jsonl::{AppendOptions, Durability, Log};

use crate::gates::{self, Counts, Dice};

const WRITERS: usize = 16;

/// First character of the names of long records.
const LONG: char = 'u';

/// Number of kills per log.
const AT_A_TIME: usize = 800;

/// Returns the record of this name: from less than a page to many pages.
fn record(name: &str) -> String {
    let number = name.bytes().fold(7, |sum: usize, byte| {
        sum.wrapping_mul(31) + usize::from(byte)
    });
    // Long records are torn more often: the writers of the control use them, to be caught soon.
    let sizes = match name.starts_with(LONG) {
        true => [60_000; 5],
        false => [9, 200, 400, 900, 9_000],
    };
    let pad = sizes[number % 5] + number % 97;
    format!(r#"{{"id":"{name}","pad":"{}"}}"#, "x".repeat(pad))
}

fn spawn(part: &str, writer: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::role",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("ANNALS_TEST_PART", part)
        .env("ANNALS_TEST_WRITER", writer)
        .env("ANNALS_TEST_LOG", path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "a part that other tests give to a child process"]
fn role() {
    let Ok(part) = std::env::var("ANNALS_TEST_PART") else {
        return;
    };
    let path = PathBuf::from(std::env::var_os("ANNALS_TEST_LOG").unwrap());
    let writer = std::env::var("ANNALS_TEST_WRITER").unwrap();
    let durability = if part == "disk" {
        Durability::Disk
    } else {
        Durability::Os
    };
    let options = AppendOptions {
        durability,
        lock_wait: std::time::Duration::from_secs(60),
        ..AppendOptions::default()
    };
    let log = Log::open(&path, options).unwrap();
    let mut plain = File::options().append(true).open(&path).unwrap();
    // One write, or the kill could truncate the name.
    let acknowledge = |name: &str| {
        io::stderr()
            .write_all(format!("ack {name}\n").as_bytes())
            .unwrap()
    };
    for n in 0.. {
        let name = format!("{writer}-{n}");
        let record = record(&name);
        match part.as_str() {
            "early" => {
                acknowledge(&name);
                log.append(record.as_bytes()).unwrap();
            }
            // One write without a check of the last byte.
            "unsealed" => {
                plain.write_all(format!("{record}\n").as_bytes()).unwrap();
                acknowledge(&name);
            }
            _ => {
                log.append(record.as_bytes()).unwrap();
                acknowledge(&name);
            }
        }
    }
}

/// Lets the child acknowledge some records, kills it, and lists all it has acknowledged.
fn kill_after(child: &mut Child, acks: usize) -> Vec<String> {
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut seen: Vec<String> = lines.by_ref().take(acks).collect();
    child.kill().unwrap();
    seen.extend(lines);
    child.wait().unwrap();
    seen.into_iter()
        .filter_map(|line| line.strip_prefix("ack ").map(str::to_owned))
        .collect()
}

/// Returns the acknowledged records that are not in the log exactly once, on their own lines.
fn lost<'a>(path: &Path, acknowledged: &'a [String]) -> Vec<&'a String> {
    let bytes = fs::read(path).unwrap();
    let mut lines: HashSet<&[u8]> = HashSet::new();
    let mut twice: HashSet<&[u8]> = HashSet::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if !lines.insert(line) {
            twice.insert(line);
        }
    }
    acknowledged
        .iter()
        .filter(|name| {
            let record = record(name);
            !lines.contains(record.as_bytes()) || twice.contains(record.as_bytes())
        })
        .collect()
}

/// Runs sixteen concurrent writers on one log, each killed after a random number of records and
/// replaced by another.
fn storm(part: &str, kills: usize, seed: u64) -> Counts {
    let dir = gates::dir();
    let path = dir.path().join("log.jsonl");
    File::create(&path).unwrap();
    let (next, acknowledged) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= kills {
                        break;
                    }
                    let acks = Dice(seed << 32 ^ number as u64).roll(4);
                    let name = match part {
                        "unsealed" => format!("{LONG}{seed}.{number}"),
                        _ => format!("{seed}.{number}"),
                    };
                    let mut child = spawn(part, &name, &path);
                    let acks = kill_after(&mut child, acks);
                    acknowledged.lock().unwrap().extend(acks);
                }
            });
        }
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    Counts {
        points: 0,
        kills,
        acks: acknowledged.len(),
        lost: lost(&path, &acknowledged).len(),
    }
}

#[test]
fn killed_writers_lose_no_acknowledged_record() {
    let kills = gates::size("ANNALS_GATE_KILLS", 160, 100_000);
    let mut sum = Counts::default();
    for turn in 0.. {
        let left = (kills - sum.kills).min(AT_A_TIME.min(kills / 2));
        if left == 0 {
            break;
        }
        let part = if turn % 2 == 0 { "disk" } else { "os" };
        let counts = storm(part, left, turn);
        assert_eq!(counts.lost, 0, "of {}", counts.acks);
        sum.kills += counts.kills;
        sum.acks += counts.acks;
    }
    assert!(sum.acks > sum.kills, "{} records", sum.acks);
    gates::print_counts(3, "16 writers killed at random", sum);
}

#[test]
fn control_writers_without_sealing_are_caught() {
    let caught = (0..20).any(|turn| storm("unsealed", 100, turn).lost > 0);
    assert!(caught);
    gates::print_control(3, "no sealing");
}

#[test]
fn control_early_acknowledgement_is_caught() {
    let caught = (0..20).any(|turn| storm("early", 40, turn).lost > 0);
    assert!(caught);
    gates::print_control(3, "acknowledges early");
}
