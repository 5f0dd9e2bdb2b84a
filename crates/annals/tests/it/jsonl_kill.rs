//! Writers killed at random: what they acknowledged stands in the log.
//!
//! `ANNALS_GATE_KILLS` sets how many; the long form of the gate asks for 100,000.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use annals::jsonl::{Durability, Log, Options};

fn record(name: &str) -> String {
    format!(
        r#"{{"id":"{name}","pad":"{}"}}"#,
        "x".repeat(name.len() * 997 % 9_000)
    )
}

fn spawn(part: &str, writer: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "jsonl_kill::role",
            "--include-ignored",
            "--nocapture",
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
    let log = Log::open(
        &path,
        Options {
            durability,
            ..Options::default()
        },
    )
    .unwrap();
    // One write, or the kill may cut the name short.
    let acknowledge = |name: &str| {
        io::stderr()
            .write_all(format!("ack {name}\n").as_bytes())
            .unwrap()
    };
    for n in 0.. {
        let name = format!("{writer}-{n}");
        if part == "early" {
            acknowledge(&name);
            log.append(record(&name).as_bytes()).unwrap();
        } else {
            log.append(record(&name).as_bytes()).unwrap();
            acknowledge(&name);
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

/// The acknowledged records that do not stand in the log as lines of their own.
fn lost<'a>(path: &Path, acknowledged: &'a [String]) -> Vec<&'a String> {
    let bytes = fs::read(path).unwrap();
    let lines: HashSet<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    acknowledged
        .iter()
        .filter(|name| !lines.contains(record(name).as_bytes()))
        .collect()
}

#[test]
fn killed_writers_have_lost_nothing_they_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    File::create(&path).unwrap();
    let kills = std::env::var("ANNALS_GATE_KILLS").map_or(50, |kills| kills.parse().unwrap());
    let mut acknowledged = Vec::new();
    for round in 0..kills / 2 {
        let part = if round % 2 == 0 { "disk" } else { "os" };
        let mut pair = [0, 1].map(|n| spawn(part, &format!("{round}.{n}"), &path));
        for (n, child) in pair.iter_mut().enumerate() {
            let acks = kill_after(child, 1 + (round * 7 + n * 3) % 23);
            assert!(!acks.is_empty());
            acknowledged.extend(acks);
        }
    }
    let lost = lost(&path, &acknowledged);
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
}

#[test]
fn control_a_writer_that_acknowledges_before_it_writes_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    File::create(&path).unwrap();
    let caught = (0..400).any(|round| {
        let acknowledged = kill_after(
            &mut spawn("early", &round.to_string(), &path),
            1 + round % 5,
        );
        !lost(&path, &acknowledged).is_empty()
    });
    assert!(caught);
}
