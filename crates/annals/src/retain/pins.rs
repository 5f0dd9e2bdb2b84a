//! Pins: sessions that are never cleaned up.
//!
//! They stand in `pins.json` of the state directory, which is versioned and documented field by field
//! in docs/STATE.md. A pin names a session by its layout, its root and its id, so it holds whatever
//! becomes of the files, and still holds for one that comes back from the trash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::jsonl::{self, Digest};
use crate::store::{SessionFiles, SessionInfo, Store};

const FILE: &str = "pins.json";
const VERSION: u32 = 1;

/// A session that is never cleaned up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The layout's name.
    pub layout: String,
    /// The root it lies in.
    pub root: PathBuf,
    /// The session.
    pub session: String,
    /// Since when.
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
    /// The pins, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.list.iter()
    }

    /// Whether a session is pinned.
    pub fn contains(&self, layout: &str, root: &Path, session: &str) -> bool {
        self.list
            .iter()
            .any(|pin| pin.matches(layout, root, session))
    }

    /// Whether a session of a list is pinned.
    pub fn contains_session(&self, info: &SessionInfo) -> bool {
        self.contains(info.layout, &info.root, info.id.as_str())
    }

    /// Whether a session is pinned.
    pub fn contains_files(&self, files: &SessionFiles) -> bool {
        self.list.iter().any(|pin| pin.matches_files(files))
    }

    /// The pins and the digest of the file that they stand in, if there is one.
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
        let damaged = |error| {
            Error::refused(format!(
                "{name} cannot be read: {error}; mend it, or remove it if no session is to be pinned"
            ))
        };
        // A newer one may have other members altogether.
        let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version != VERSION {
            return Err(Error::refused(format!(
                "{name} has version {version}, and this annals knows version {VERSION} only; use the annals that wrote it"
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

    /// Whether it is a session's.
    pub fn matches_files(&self, files: &SessionFiles) -> bool {
        let root = &files.root;
        self.matches(root.layout.name(), &root.path, files.id.as_str())
    }
}

impl Store {
    /// The pinned sessions.
    pub fn pins(&self) -> Result<Pins> {
        match self.state_dir() {
            Some(state) => Ok(Pins::read(&state.join(FILE))?.0),
            None => Ok(Pins::default()),
        }
    }

    /// Pins sessions; tells which were not pinned yet.
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

    /// Removes pins; tells which there were.
    pub fn unpin(&self, pins: &[Pin]) -> Result<Vec<Pin>> {
        self.change_pins(|list| {
            let gone = list.iter().filter(|pin| pins.contains(pin)).cloned();
            let gone = gone.collect();
            list.retain(|pin| !pins.contains(pin));
            gone
        })
    }

    /// Changes the pins, on top of what others changed meanwhile. `change` tells what it did; if that
    /// is nothing, nothing is written.
    fn change_pins(&self, change: impl Fn(&mut Vec<Pin>) -> Vec<Pin>) -> Result<Vec<Pin>> {
        const ATTEMPTS: usize = 8;
        let Some(state) = self.state_dir() else {
            return Err(Error::refused(
                "there is no state directory to keep pins in",
            ));
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
            match written {
                Ok(()) => return Ok(changed),
                Err(error @ Error::Changed { .. }) => last = Some(error),
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists && digest.is_none() =>
                {
                    last = Some(Error::Changed { path: path.clone() });
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(Error::Changed { path }))
    }
}

/// Roots may be reached by several names.
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
