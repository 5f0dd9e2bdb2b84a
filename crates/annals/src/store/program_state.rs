//! Documents and logs of a root that belong to no session: the state of the layout's own program, and
//! what it printed in each of its runs.
//!
//! A state document is replaced whole, so a reader sees the old one or the new one. A run log is
//! plain text; its lines are appended with the promises of any other log.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::jsonl::{self, Log, MAX_LINE};
use crate::model::{Artifact, ArtifactKind};

use super::writer::{create_parent_dirs, open_or_create};
use super::{Root, Store, WriteOptions};

/// Largest state document that is written, in bytes.
const MAX_STATE: usize = 16 << 20;

/// Longest name of a state document, in bytes.
const MAX_NAME: usize = 200;

impl Store {
    /// Replaces a state document of a root, or makes it, and returns its path.
    ///
    /// `name` is `status`, `status.json` or `state/status.json`. `json` is written as it is given,
    /// after it was checked to be one JSON value.
    pub fn set_state_document(&self, root: &Root, name: &str, json: &str) -> Result<PathBuf> {
        let path = state_path(root, name)?;
        let json = json.trim();
        if json.len() > MAX_STATE {
            return Err(Error::refused(format!(
                "{} MB are more than the {} MB of a state document",
                json.len() >> 20,
                MAX_STATE >> 20
            )));
        }
        if let Err(error) = serde_json::from_str::<IgnoredAny>(json) {
            return Err(Error::refused(format!(
                "the document is not JSON: {error}; nothing was written"
            )));
        }
        create_parent_dirs(root, &path)?;
        jsonl::replace(&path, format!("{json}\n").as_bytes(), None)?;
        Ok(path)
    }

    /// Reads a state document of a root; `None` if it is not there.
    pub fn state_document(&self, root: &Root, name: &str) -> Result<Option<String>> {
        let path = state_path(root, name)?;
        match jsonl::read_document(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path, error)),
        }
    }

    /// Opens the log of the run that started at a time, or makes it.
    pub fn run_log(
        &self,
        root: &Root,
        started: Timestamp,
        options: WriteOptions,
    ) -> Result<RunLog> {
        let names = root.layout.run_logs(started);
        let mut places = Vec::new();
        for artifact in &names {
            places.push(root.locate(artifact)?);
        }
        // A run that is there may be named by another spelling of its time.
        let mut there = None;
        for path in &places {
            let found = jsonl::metadata_if_exists(path)?;
            if there.is_none() && found.is_some_and(|it| it.is_file()) {
                there = Some(path);
            }
        }
        let Some(path) = there.or(places.first()).cloned() else {
            return Err(not_supported(root, "run logs"));
        };
        create_parent_dirs(root, &path)?;
        let log = open_or_create(root, &path, options)?;
        Ok(RunLog { log })
    }
}

/// The log of one run of a layout's own program, open for appending. Threads may share it.
#[derive(Debug)]
pub struct RunLog {
    log: Log,
}

impl RunLog {
    /// Its file.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// The run's name: its start in UTC, as its directory spells it.
    pub fn run_name(&self) -> &str {
        let directory = self.path().parent().and_then(Path::file_name);
        directory.and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Appends text, line by line in one write, and returns how many lines that were once they are
    /// durable. Logs hold no empty lines, so one becomes a blank.
    pub fn write(&self, text: impl AsRef<[u8]>) -> Result<usize> {
        let text = text.as_ref();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let lines = text.split(|byte| *byte == b'\n').map(|line| match line {
            b"" | b"\r" => &b" "[..],
            line => line,
        });
        let lines: Vec<&[u8]> = lines.collect();
        if let Some(long) = lines.iter().find(|line| line.len() >= MAX_LINE) {
            return Err(Error::refused(format!(
                "a line of {} MB is longer than the {} MB that readers take",
                long.len() >> 20,
                MAX_LINE >> 20
            )));
        }
        self.log.append_all(&lines).map(|appended| appended.len())
    }

    /// Reads a start as people write it (`2026-03-26T01:32:20Z`) or as directories of runs spell it
    /// (`2026-03-26T01-32-20-418Z`).
    pub fn parse_start(text: &str) -> Option<Timestamp> {
        if let Ok(time) = text.parse() {
            return Some(time);
        }
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let mut parts = time.splitn(4, '-');
        let clock = [parts.next()?, parts.next()?, parts.next()?].join(":");
        let fraction = parts.next().map(|part| format!(".{part}"));
        let fraction = fraction.unwrap_or_default();
        format!("{date}T{clock}{fraction}Z").parse().ok()
    }
}

/// Where a state document lies, by any of its names.
fn state_path(root: &Root, name: &str) -> Result<PathBuf> {
    let short = name.strip_prefix("state/").unwrap_or(name);
    let short = short.strip_suffix(".json").unwrap_or(short);
    let why = match short {
        "" => Some("it is empty"),
        short if short.len() > MAX_NAME => Some("it is longer than 200 bytes"),
        short if short.starts_with('.') => Some("it begins with a dot"),
        short if short.contains(['/', '\\']) => Some("it leads to another directory"),
        short if short.chars().any(char::is_control) => Some("it has control characters"),
        _ => None,
    };
    if let Some(why) = why {
        let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
        return Err(Error::refused(format!(
            "`{shown}` cannot be the name of a state document: {why}; name it like state/status.json"
        )));
    }
    let artifact = Artifact {
        name: Some(short.to_owned()),
        ..Artifact::new(ArtifactKind::State)
    };
    let place = root.locate(&artifact);
    place.map_err(|_| not_supported(root, "state documents"))
}

fn not_supported(root: &Root, what: &str) -> Error {
    Error::refused(format!(
        "{} is a root of the layout {}, which has no {what}",
        root.path.display(),
        root.layout.name()
    ))
}
