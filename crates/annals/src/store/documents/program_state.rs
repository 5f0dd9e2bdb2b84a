//! Files of a root that belong to no session: state documents of the layout's program, and logs of
//! its runs.
//!
//! A state document is replaced atomically. A run log is plain text; its lines are appended with
//! the same guarantees as records.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use annals_jsonl::{self as jsonl, Log, MAX_LINE};
use annals_layouts::json::describe_json_error;
use annals_layouts::model::{Artifact, ArtifactKind};

use super::Documents;
use crate::store::writer::{create_parent_dirs, open_or_create};
use crate::store::{Root, WriteOptions};

/// Largest state document that is written, in bytes.
const MAX_STATE: usize = 16 << 20;

/// Longest name of a state document, in bytes.
const MAX_NAME: usize = 200;

impl Documents<'_> {
    /// Creates or replaces a state document of a root, and returns its path.
    ///
    /// `name` is `status`, `status.json` or `state/status.json`. `json` must be one JSON value and
    /// is written unchanged.
    pub fn set_state(&self, root: &Root, name: &str, json: &str) -> Result<PathBuf> {
        let path = state_path(root, name)?;
        let json = json.trim();
        if json.len() > MAX_STATE {
            return Err(Error::refused(format!(
                "the document is too large: {} MB (limit {} MB)",
                json.len() >> 20,
                MAX_STATE >> 20
            )));
        }
        if let Err(error) = serde_json::from_str::<IgnoredAny>(json) {
            return Err(Error::refused(format!(
                "the document is {}; nothing was written",
                describe_json_error(&error)
            )));
        }
        create_parent_dirs(root, &path)?;
        jsonl::replace(&path, format!("{json}\n").as_bytes(), None)?;
        Ok(path)
    }

    /// Reads a state document of a root; `None` if it does not exist.
    pub fn state(&self, root: &Root, name: &str) -> Result<Option<String>> {
        let path = state_path(root, name)?;
        match jsonl::read_document(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path, error)),
        }
    }

    /// Opens or creates the log of the run that started at a time.
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
        // The directory of an existing run may spell the same time differently.
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

/// Log of one run of the layout's program, open for appending. Can be shared between threads.
#[derive(Debug)]
pub struct RunLog {
    log: Log,
}

impl RunLog {
    /// Path of the log file.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// Name of the run: its start time in UTC, as spelled in the directory name.
    pub fn run_name(&self) -> &str {
        let directory = self.path().parent().and_then(Path::file_name);
        directory.and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Appends text in one write, and returns the number of lines once they are durable. Logs have
    /// no empty lines, so an empty line becomes a space.
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
                "a line is too long: {} MB (limit {} MB)",
                long.len() >> 20,
                MAX_LINE >> 20
            )));
        }
        Ok(self.log.append_all(&lines)?.len())
    }

    /// Parses a start time in RFC 3339 form (`2026-03-26T01:32:20Z`) or as spelled in directory
    /// names (`2026-03-26T01-32-20-418Z`).
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

/// Returns the path of a state document, given any of its names.
fn state_path(root: &Root, name: &str) -> Result<PathBuf> {
    let short = name.strip_prefix("state/").unwrap_or(name);
    let short = short.strip_suffix(".json").unwrap_or(short);
    let why = match short {
        "" => Some("it is empty"),
        short if short.len() > MAX_NAME => Some("it is longer than 200 bytes"),
        short if short.starts_with('.') => Some("it begins with a dot"),
        short if short.contains(['/', '\\']) => Some("it contains a path separator"),
        short if short.chars().any(char::is_control) => Some("it contains control characters"),
        _ => None,
    };
    if let Some(why) = why {
        let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
        return Err(Error::refused(format!(
            "invalid state document name `{shown}`: {why}; use a name like state/status.json"
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
