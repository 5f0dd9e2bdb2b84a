//! Pins: sessions that are never cleaned up.
//!
//! Stored in `pins.json` in the state directory; docs/STATE.md specifies the format. A pin names a
//! session by layout, root and id, so it does not depend on the files, and still applies after a
//! restore from the trash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::store::{SessionFiles, SessionInfo};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, Digest};
use annals_layouts::json::describe_json_error;

use super::Retention;

const FILE: &str = "pins.json";
const VERSION: u32 = 1;

/// A session that is never cleaned up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The layout's name.
    pub layout: String,
    /// Its root.
    pub root: PathBuf,
    /// The session.
    pub session: String,
    /// When it was pinned.
    pub pinned: Timestamp,
}

/// All pins.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    list: Vec<Pin>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    pins: Vec<Pin>,
}

impl Pins {
    /// Returns the pins, in order of creation.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.list.iter()
    }

    /// Returns whether a session is pinned.
    pub fn contains(&self, layout: &str, root: &Path, session: &str) -> bool {
        self.list
            .iter()
            .any(|pin| pin.matches(layout, root, session))
    }

    /// Returns whether a listed session is pinned.
    pub fn contains_session(&self, info: &SessionInfo) -> bool {
        self.contains(info.layout, &info.root, info.id.as_str())
    }

    /// Returns whether a session is pinned.
    pub fn contains_files(&self, files: &SessionFiles) -> bool {
        self.list.iter().any(|pin| pin.matches_files(files))
    }

    /// Reads the pins and the digest of their file, if it exists.
    fn read(path: &Path) -> Result<(Self, Option<Digest>)> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let bytes = match jsonl::read_document(path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => return Ok((Pins::default(), None)),
            Err(error) => return Err(Error::io("read", path, error)),
        };
        let name = path.display();
        let damaged = |error: serde_json::Error| {
            let fault = describe_json_error(&error);
            Error::refused(format!(
                "{name} cannot be read: {fault}; fix it, or remove it if no session should be pinned"
            ))
        };
        // A newer version may have entirely different members.
        let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version != VERSION {
            return Err(Error::refused(format!(
                "{name} has version {version}, but this annals reads only version {VERSION}; use the annals that wrote it"
            )));
        }
        let Document { pins, .. } = serde_json::from_slice(&bytes).map_err(damaged)?;
        Ok((Pins { list: pins }, Some(Digest::compute(&bytes))))
    }
}

impl Pin {
    fn matches(&self, layout: &str, root: &Path, session: &str) -> bool {
        self.session == session && self.layout == layout && is_same_path(&self.root, root)
    }

    /// Returns whether the pin is for this session.
    pub fn matches_files(&self, files: &SessionFiles) -> bool {
        let root = &files.root;
        self.matches(root.layout.name(), &root.path, files.id.as_str())
    }
}

impl Retention<'_> {
    /// Returns the pinned sessions.
    pub fn pins(&self) -> Result<Pins> {
        match self.store.state_dir() {
            Some(state) => Ok(Pins::read(&state.join(FILE))?.0),
            None => Ok(Pins::default()),
        }
    }

    /// Pins sessions; returns those that were not pinned before.
    pub fn pin(&self, sessions: &[&SessionFiles], now: Timestamp) -> Result<Vec<Pin>> {
        let pin = |files: &&SessionFiles| Pin {
            layout: files.root.layout.name().to_owned(),
            root: files.root.path.clone(),
            session: files.id.to_string(),
            pinned: now,
        };
        let wanted: Vec<Pin> = sessions.iter().map(pin).collect();
        self.change_pins(|list| {
            let mut new: Vec<Pin> = Vec::new();
            for pin in &wanted {
                let mut known = list.iter().chain(&new);
                if !known.any(|known| known.matches(&pin.layout, &pin.root, &pin.session)) {
                    new.push(pin.clone());
                }
            }
            list.extend(new.iter().cloned());
            new
        })
    }

    /// Removes pins; returns those that existed.
    pub fn unpin(&self, pins: &[Pin]) -> Result<Vec<Pin>> {
        self.change_pins(|list| {
            let gone = list.iter().filter(|pin| pins.contains(pin)).cloned();
            let gone = gone.collect();
            list.retain(|pin| !pins.contains(pin));
            gone
        })
    }

    /// Changes the pins, and retries if another process changed them meanwhile. `change` returns
    /// what it changed; if that is empty, nothing is written.
    fn change_pins(&self, change: impl Fn(&mut Vec<Pin>) -> Vec<Pin>) -> Result<Vec<Pin>> {
        const ATTEMPTS: usize = 8;
        let Some(state) = self.store.state_dir() else {
            return Err(Error::refused("no state directory to store pins in"));
        };
        let path = state.join(FILE);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (mut pins, digest) = Pins::read(&path)?;
            let changed = change(&mut pins.list);
            if changed.is_empty() {
                return Ok(changed);
            }
            let document = Document {
                version: VERSION,
                pins: pins.list,
            };
            let mut bytes = serde_json::to_vec_pretty(&document)
                .map_err(|error| Error::refused(error.to_string()))?;
            bytes.push(b'\n');
            jsonl::ensure_dir(state)?;
            let written = match &digest {
                Some(digest) => jsonl::replace(&path, &bytes, Some(digest)),
                None => jsonl::create_new(&path, &bytes),
            };
            match written.map_err(Error::from) {
                Ok(()) => return Ok(changed),
                Err(error @ Error::File(FileError::Changed { .. })) => last = Some(error),
                Err(Error::File(FileError::Io { source, .. }))
                    if source.kind() == io::ErrorKind::AlreadyExists && digest.is_none() =>
                {
                    last = Some(Error::File(FileError::Changed { path: path.clone() }));
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(Error::File(FileError::Changed { path })))
    }
}

/// Compares real paths, because a root may have several names.
fn is_same_path(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).zip(real(other)).is_some_and(|(a, b)| a == b)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests;
