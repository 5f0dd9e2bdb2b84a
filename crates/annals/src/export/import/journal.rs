//! Journal of an import, so that an interrupted import can be run again.
//!
//! It records which sessions were begun and which are complete. A journal belongs to one export, by
//! its digest, and one root. It is removed when the import is complete. docs/STATE.md specifies the
//! format.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::store::Root;
use annals_jsonl as jsonl;

const VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    annals: String,
    version: u64,
    layout: String,
    root: PathBuf,
    sha256: String,
    fresh_ids: bool,
    /// New ids derive from it.
    seed: u64,
    /// When the import began: the time of sessions that record none.
    time: Timestamp,
}

/// Session `n` of the export, from 0, is about to be created, or is complete.
#[derive(Serialize, Deserialize)]
struct Line {
    n: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

/// The journal of a running import.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    header: Header,
    /// Locked until dropped; `None` until a session begins.
    file: Option<File>,
    /// The sessions that earlier runs began, and whether they are complete.
    begun: HashMap<usize, bool>,
}

impl Journal {
    /// Opens the journal of an import into a root. A missing one is created when a session begins.
    pub(super) fn open(
        state: &Path,
        root: &Root,
        sha256: &str,
        fresh_ids: bool,
        seed: u64,
    ) -> Result<Self> {
        let real = root.path.canonicalize();
        let header = Header {
            annals: "import".to_owned(),
            version: VERSION,
            layout: root.layout.name().to_owned(),
            root: real.unwrap_or_else(|_| root.path.clone()),
            sha256: sha256.to_owned(),
            fresh_ids,
            seed,
            time: Timestamp::now(),
        };
        let mut journal = Journal {
            path: state
                .join("imports")
                .join(format!("{}.jsonl", name(&header))),
            header,
            file: None,
            begun: HashMap::new(),
        };
        if jsonl::exists(&journal.path)? {
            journal.resume()?;
        }
        Ok(journal)
    }

    /// Returns the sessions that earlier runs began, and whether they are complete.
    pub(super) fn begun(&self) -> &HashMap<usize, bool> {
        &self.begun
    }

    pub(super) fn seed(&self) -> u64 {
        self.header.seed
    }

    pub(super) fn time(&self) -> Timestamp {
        self.header.time
    }

    /// Locks the file and reads it.
    fn resume(&mut self) -> Result<()> {
        let path = &self.path;
        let mut file = locked(path)?;
        let failed = |error| Error::io("write", path, error);
        let mut text = String::new();
        let read = file.read_to_string(&mut text);
        read.map_err(|error| Error::io("read", path, error))?;
        // A torn last line is discarded.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        text.truncate(whole);
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(io::SeekFrom::End(0)).map_err(failed)?;
        match text.is_empty() {
            true => {
                write(&mut file, &self.header).map_err(failed)?;
                let dir = path.parent().unwrap_or(path);
                let synced = File::open(dir).and_then(|dir| dir.sync_all());
                synced.map_err(|error| Error::io("sync", dir, error))?;
            }
            false => (self.header, self.begun) = read_lines(path, &text)?,
        }
        self.file = Some(file);
        Ok(())
    }

    /// Records, durably, that a session is about to be created, or that it is complete.
    pub(super) fn record(&mut self, number: usize, done: bool) -> Result<()> {
        if self.file.is_none() {
            jsonl::ensure_dir(self.path.parent().unwrap_or(&self.path))?;
            self.resume()?;
        }
        let failed = |error| Error::io("write", &self.path, error);
        let line = Line { n: number, done };
        let file = self.file.as_mut();
        file.map_or(Ok(()), |file| write(file, &line).map_err(failed))
    }

    /// Returns a directory for writing a session again, while the journal is locked.
    pub(super) fn scratch_dir(&self) -> Result<ScratchDir> {
        let scratch = ScratchDir(self.path.with_extension("again"));
        // An interrupted run may have left files in it.
        scratch.clear()?;
        jsonl::ensure_dir(&scratch.0)?;
        Ok(scratch)
    }

    /// Removes the journal of a complete import.
    pub(super) fn close(self) -> Result<()> {
        if self.file.is_some() {
            let removed = fs::remove_file(&self.path);
            removed.map_err(|error| Error::io("remove", &self.path, error))?;
            // Fails if the directory has another journal, as intended.
            let _ = self.path.parent().map(fs::remove_dir);
        }
        Ok(())
    }
}

/// A directory of annals that is removed on drop.
pub(super) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn clear(&self) -> Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &self.0, error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Remaining files are removed when the directory is next used.
        let _ = self.clear();
    }
}

/// Appends a line, durably.
fn write(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_all()
}

/// Opens and locks a file.
fn locked(path: &Path) -> Result<File> {
    loop {
        let file = jsonl::try_lock_path(path)?.ok_or_else(|| {
            Error::refused("the same import is already running; wait until it finishes")
        })?;
        // The previous holder may have finished and unlinked the file.
        let held = file.metadata();
        if jsonl::is_at_path(path, &held.map_err(|e| Error::io("stat", path, e))?)? {
            return Ok(file);
        }
    }
}

/// Returns the header and the sessions that were begun.
fn read_lines(path: &Path, text: &str) -> Result<(Header, HashMap<usize, bool>)> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let refused = |why: &str| {
        Error::refused(format!(
            "{} {why}; move it away to start the import over",
            path.display()
        ))
    };
    let (first, lines) = text.split_once('\n').unwrap_or((text, ""));
    match serde_json::from_str(first) {
        Ok(Version { version: VERSION }) => {}
        Ok(Version { version }) => {
            return Err(refused(&format!(
                "has version {version}, but this annals reads version {VERSION}"
            )));
        }
        Err(_) => return Err(refused("is not an import journal")),
    }
    let header = serde_json::from_str(first).map_err(|_| refused("is damaged"))?;
    let lines = lines.lines().map(|line| {
        let line: Line = serde_json::from_str(line).map_err(|_| refused("is damaged"))?;
        Ok((line.n, line.done))
    });
    Ok((header, lines.collect::<Result<_>>()?))
}

fn name(header: &Header) -> String {
    let mut sum = Sha256::new();
    let parts = [
        header.layout.as_bytes(),
        header.root.as_os_str().as_encoded_bytes(),
        header.sha256.as_bytes(),
        &[u8::from(header.fresh_ids)],
    ];
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    let digits = sum.finalize();
    let digits = digits.iter().take(16);
    digits.map(|byte| format!("{byte:02x}")).collect()
}
