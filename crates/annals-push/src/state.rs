//! How far files were pushed: `push/SOURCE.json` in the state directory, one file per store.
//!
//! Hubs on one store give the machine the same id, so they share the file.
//!
//! The generation of a file is saved before its first segment is sent. So a process that is killed
//! continues the generation, instead of beginning another one with the same bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use annals_jsonl::{self as jsonl, Cursor, FileId, FileIdParts};
use annals_segments::protocol::{KnownEnd, KnownEnds};
use annals_segments::{Digest, FileKey, SourceId};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const VERSION: u32 = 1;

/// What was pushed to a hub.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    /// Address of the hub that was used last.
    pub(crate) hub: String,
    /// The id of this machine.
    pub(crate) source: SourceId,
    /// The pushed files.
    pub(crate) files: BTreeMap<FileKey, Pushed>,
    /// Files that the hub knew when this state was created, and that were not found yet.
    pub(crate) unclaimed: BTreeMap<FileKey, KnownEnd>,
}

/// How far a file was pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pushed {
    #[serde(rename = "gen")]
    pub(crate) generation: u32,
    /// The file when it was pushed last.
    pub(crate) id: FileIdParts,
    pub(crate) part: Part,
}

/// The part of a file that the hub has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The lines of a log before an offset, and a digest of the bytes before it.
    Lines { offset: u64, guard: Digest },
    /// A document with this digest; all of it, or perhaps only some.
    Document { digest: Digest, complete: bool },
}

impl Pushed {
    /// Returns whether nothing happened to the file since all of it was pushed. A log may have the
    /// beginning of a line that is not pushed.
    pub(crate) fn is_current(&self, id: &FileId) -> bool {
        let complete = !matches!(
            self.part,
            Part::Document {
                complete: false,
                ..
            }
        );
        complete && FileId::from_parts(self.id).untouched(id)
    }
}

impl Part {
    pub(crate) fn lines(cursor: &Cursor) -> Self {
        Part::Lines {
            offset: cursor.offset,
            guard: Digest::from_bytes(cursor.guard),
        }
    }
}

/// The state file of a store.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Held while a process pushes.
    _lock: File,
}

impl StateFile {
    /// Locks the state of a machine's id.
    pub(crate) fn lock(state_dir: &Path, source: SourceId) -> Result<Self> {
        let dir = state_dir.join("push");
        jsonl::ensure_dir(&dir)?;
        let path = dir.join(format!("{source}.json"));
        let lock = jsonl::try_lock_path(&path.with_extension("lock"))?;
        Ok(StateFile {
            path,
            _lock: lock.ok_or(Error::Busy)?,
        })
    }

    /// Reads the state. Returns `None` if there is none.
    pub(crate) fn read(&self) -> Result<Option<State>> {
        read(&self.path)
    }

    /// Saves the state.
    pub(crate) fn save(&self, state: &State) -> Result<()> {
        let failed = |error: serde_json::Error| Error::State {
            path: self.path.clone(),
            why: error.to_string(),
        };
        let text = serde_json::to_vec(state).map_err(failed)?;
        Ok(jsonl::replace(&self.path, &text, None)?)
    }
}

/// Returns the state of the hub that was used last at an address.
pub(crate) fn find(state_dir: &Path, hub: &str) -> Result<Option<State>> {
    let dir = state_dir.join("push");
    let Ok(entries) = std::fs::read_dir(&dir) else {
        return Ok(None);
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
            && let Some(state) = read(&path)?.filter(|state| state.hub == hub)
        {
            return Ok(Some(state));
        }
    }
    Ok(None)
}

/// Reads a state. Returns `None` if there is none.
fn read(path: &Path) -> Result<Option<State>> {
    let failed = |why: String| Error::State {
        path: path.to_owned(),
        why,
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let damaged = |error: serde_json::Error| {
        failed(format!(
            "{error}; if you remove the file, the hub is asked what it has"
        ))
    };
    let Versioned { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
    if version != VERSION {
        return Err(failed(format!(
            "version {version}; this program reads version {VERSION}"
        )));
    }
    Ok(Some(serde_json::from_slice(&bytes).map_err(damaged)?))
}

impl State {
    /// Creates a state from what the hub knows.
    pub(crate) fn new(hub: &str, known: KnownEnds) -> Self {
        let unclaimed = known.files.into_iter().map(|end| (end.file, end));
        State {
            version: VERSION,
            hub: hub.to_owned(),
            source: known.source,
            files: BTreeMap::new(),
            unclaimed: unclaimed.collect(),
        }
    }
}
