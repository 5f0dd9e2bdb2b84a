//! Gate 8: random histories of a session, with writes of annals and of a foreign program, against a
//! model.
//!
//! The model is the bytes that the log must have. A foreign program appends lines, leaves some
//! torn, truncates the log, renames it or replaces it; the clock jumps; writers are closed and
//! opened. After each append by annals the log is its old bytes, sealed, plus the new lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use annals::jsonl::Durability;
use annals::model::{Block, Body, Draft};
use annals::store::{Root, Session, SessionWriter, Store, WriteOptions};
use jiff::Timestamp;

use crate::gates::Dice;
use crate::gates::{self, Counts};
use crate::support::{says, writable_layouts};

/// Writer of a history; `Plain` is the faulty control.
#[derive(Clone, Copy, PartialEq)]
enum Hand {
    Ours,
    /// Appends without a check of the last byte.
    Plain,
}

struct History {
    store: Store,
    writer: Option<SessionWriter>,
    session: String,
    log: PathBuf,
    /// Expected bytes of each volume of the log; most layouts have one.
    models: BTreeMap<PathBuf, Vec<u8>>,
    dice: Dice,
    now: i64,
    said: usize,
}

const STEPS: usize = 14;

impl History {
    fn begin(layout: &str, dir: &Path, seed: u64) -> History {
        let root = Root::new(layout, dir.join("root")).unwrap();
        let store = Store::new(vec![root]).with_state(dir.join("state"));
        let writer = store.begin("/w/app").unwrap();
        writer.append(Draft::user("word-0")).unwrap();
        let log = writer.path();
        History {
            session: writer.session().to_string(),
            models: BTreeMap::from([(log.clone(), fs::read(&log).unwrap())]),
            writer: Some(writer),
            store,
            log,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            now: 1_794_000_000,
            said: 0,
        }
    }

    /// Returns an open writer; the clock may have jumped since the last one.
    fn writer(&mut self) -> annals::Result<&SessionWriter> {
        if self.writer.is_none() {
            let options = WriteOptions {
                durability: Durability::Os,
                live: true,
                network: false,
                now: Timestamp::from_second(self.now).ok(),
            };
            self.writer = Some(self.store.resume(&self.session, options)?);
        }
        Ok(self.writer.as_ref().unwrap())
    }

    /// Returns the expected bytes of the current volume.
    fn model(&mut self) -> &mut Vec<u8> {
        self.models.entry(self.log.clone()).or_default()
    }

    /// Performs one random step; the error describes what is wrong.
    fn step(&mut self, hand: Hand) -> Result<(), String> {
        match self.dice.roll(12) {
            0..=4 => self.append(hand),
            5 => {
                self.foreign(b"{\"foreign\":true}\n");
                Ok(())
            }
            6 => {
                let whole = b"{\"foreign\":\"torn here\"}\n";
                let cut = 1 + self.dice.roll(whole.len() - 2);
                self.foreign(&whole[..cut]);
                Ok(())
            }
            7 => {
                self.cut();
                Ok(())
            }
            8 => self.renamed_away(),
            9 => {
                self.put_in_place();
                Ok(())
            }
            10 => {
                self.now += [-400_000_000, -3_600, 1, 86_400][self.dice.roll(4)];
                self.writer = None;
                Ok(())
            }
            _ => {
                self.writer = None;
                Ok(())
            }
        }
    }

    fn append(&mut self, hand: Hand) -> Result<(), String> {
        self.said += 1;
        let word = format!("word-{}", self.said);
        if hand == Hand::Plain {
            // A record of the layout, appended without a check of the last byte.
            let record = String::from_utf8_lossy(self.model()).into_owned();
            let record = record.lines().find(|line| line.contains("word-0"));
            let line = record.unwrap_or("{}").replace("word-0", &word) + "\n";
            let mut log = OpenOptions::new().append(true).open(&self.log).unwrap();
            log.write_all(line.as_bytes()).unwrap();
        } else {
            let draft = Draft::user(word.as_str());
            let writer = self.writer().map_err(|error| error.to_string())?;
            writer.append(draft).map_err(|error| error.to_string())?;
            // On another day it may continue in another file.
            self.log = writer.path();
        }
        let now = fs::read(&self.log).unwrap();
        let Some(added) = now.strip_prefix(self.model().as_slice()) else {
            return Err("bytes that stood there were changed".to_owned());
        };
        let torn = self.model().last().is_some_and(|last| *last != b'\n');
        let lines = match added.strip_prefix(b"\n") {
            Some(lines) if torn => lines,
            _ if torn => return Err("a torn line was not sealed".to_owned()),
            _ => added,
        };
        let own = lines.split_inclusive(|byte| *byte == b'\n');
        let holds = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            line.contains(&word) && !shows_again(&line)
        };
        if own.filter(|line| holds(line)).count() != 1 || !lines.ends_with(b"\n") {
            return Err(format!("{word} is not one line of its own"));
        }
        *self.model() = now;
        Ok(())
    }

    /// Another program writes without a lock.
    fn foreign(&mut self, bytes: &[u8]) {
        let mut log = OpenOptions::new().append(true).open(&self.log).unwrap();
        log.write_all(bytes).unwrap();
        self.model().extend(bytes);
    }

    /// Another program truncates the log.
    fn cut(&mut self) {
        // The first record stays: without it there is no session.
        let first = self.model().iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let beyond = self.model().len() - first;
        let left = first + self.dice.roll(beyond + 1);
        let log = OpenOptions::new().write(true).open(&self.log).unwrap();
        log.set_len(left as u64).unwrap();
        self.model().truncate(left);
    }

    /// Renames the log away: an append must fail or write elsewhere. Then renames it back.
    fn renamed_away(&mut self) -> Result<(), String> {
        let aside = self.log.with_extension("aside");
        fs::rename(&self.log, &aside).unwrap();
        if let Some(writer) = &self.writer {
            let _ = writer.append(Draft::user("into nothing"));
        }
        if fs::read(&aside).unwrap() != *self.model() {
            return Err("a log that was renamed away was written to".to_owned());
        }
        // The append may have created another file at this path or at another day's path.
        fs::rename(&aside, &self.log).unwrap();
        self.writer = None;
        Ok(())
    }

    /// Another program replaces the log by a copy.
    fn put_in_place(&mut self) {
        let copy = self.log.with_extension("copy");
        File::create(&copy)
            .unwrap()
            .write_all(self.model())
            .unwrap();
        fs::rename(&copy, &self.log).unwrap();
    }

    /// Checks that every record of annals in the model is read once and, within a file, in order.
    fn judge(&self) -> Result<usize, String> {
        let session = self.store.session(&self.session);
        let session = session.map_err(|error| error.to_string())?;
        let texts = self
            .models
            .values()
            .map(|model| String::from_utf8_lossy(model));
        let text: String = texts.collect();
        // A record glued to another one may be recovered, but need not be.
        let whole = |line: &&str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        let lines = || text.lines().filter(|line| !shows_again(line));
        let wanted: BTreeSet<String> = lines().filter(whole).flat_map(words_of).collect();
        let mut there: Vec<String> = lines().flat_map(words_of).collect();
        let mut read = words(&session);
        there.retain(|word| wanted.contains(word) || read.contains(word));
        if self.models.len() > 1 {
            // Days are read in the order of their dates, whatever the clock did.
            read.sort();
            there.sort();
        }
        if read != there {
            return Err(format!("{read:?} was read of {there:?}"));
        }
        Ok(read.len())
    }
}

/// Returns whether a line is an event of Codex: it shows the text of the message before it again.
fn shows_again(line: &str) -> bool {
    line.contains(r#""type":"event_msg""#)
}

/// Returns the words of a line: several if records are glued together.
fn words_of(line: &str) -> Vec<String> {
    let after = line.split("word-").skip(1);
    let number = |rest: &str| -> String { rest.chars().take_while(char::is_ascii_digit).collect() };
    after.map(|rest| format!("word-{}", number(rest))).collect()
}

fn words(session: &Session) -> Vec<String> {
    let mut found = Vec::new();
    let (_, scan, _) = session.main_log().unwrap();
    let all: Vec<usize> = (0..scan.outlines.len()).collect();
    session
        .each_entry_of_log(0, &all, |entry| {
            if let Body::Message(message) = &entry.body
                && matches!(message.blocks.first(), Some(Block::Text(_)))
                && says(&entry).starts_with("word-")
            {
                found.push(says(&entry));
            }
            Ok(true)
        })
        .unwrap();
    found
}

/// Runs a history; the error names the step that failed.
fn live(layout: &str, seed: u64, hand: Hand) -> Result<usize, String> {
    let dir = gates::dir();
    let mut history = History::begin(layout, dir.path(), seed);
    for step in 0..STEPS {
        let done = history.step(hand);
        done.map_err(|what| format!("{layout}, history {seed}, step {step}: {what}"))?;
    }
    let read = history.judge();
    read.map_err(|what| format!("{layout}, history {seed}: {what}"))
}

#[test]
fn random_histories_match_the_model() {
    let count = gates::size("ANNALS_GATE_HISTORIES", 120, 10_000) as u64;
    let run = |from: u64| {
        let mut acks = 0;
        for seed in (from..count).step_by(2) {
            let mut layouts = writable_layouts().cycle().skip(seed as usize / 2);
            let layout = layouts.next().unwrap().name();
            acks += live(layout, seed, Hand::Ours).unwrap_or_else(|what| panic!("{what}"));
        }
        acks
    };
    let acks = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        run(0) + other.join().unwrap()
    });
    let counts = Counts {
        points: count as usize,
        acks,
        ..Counts::default()
    };
    gates::print_counts(8, "random histories", counts);
}

#[test]
fn control_writer_without_sealing_is_caught() {
    let caught = (0..60).filter(|seed| live("claude-code", *seed, Hand::Plain).is_err());
    assert!(caught.count() > 5);
    gates::print_control(8, "planted bug: no sealing");
}
