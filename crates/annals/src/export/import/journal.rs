//! Journal of an import, so that an interrupted import can be run again.
//!
//! An existing session is never changed, unless the journal of the same import records that it
//! began the session. Then the session is moved to the trash and written again, or the rest is
//! appended. A journal belongs to one export, by its digest, and one root. It is removed when the
//! import is complete. docs/STATE.md specifies the format.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::store::Root;
use annals_jsonl as jsonl;

const VERSION: u64 = 1;

/// Progress of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionProgress {
    /// About to be created under this id.
    Begun(String),
    /// The log was created.
    CreatedLog(CreatedLog),
    /// The session is complete.
    Done(CreatedLog),
}

/// A session's log, with its identity at creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CreatedLog {
    pub session: String,
    pub path: PathBuf,
    pub dev: u64,
    pub ino: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    annals: String,
    version: u64,
    layout: String,
    root: PathBuf,
    sha256: String,
    fresh_ids: bool,
}

/// A line about session `n` of the export, from 0.
#[derive(Serialize, Deserialize)]
struct Line {
    n: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<CreatedLog>,
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
    got: HashMap<usize, SessionProgress>,
}

impl Journal {
    /// Opens the journal of an import into a root. A missing one is created when a session begins.
    pub(super) fn open(state: &Path, root: &Root, sha256: &str, fresh_ids: bool) -> Result<Self> {
        let dir = state.join("imports");
        let real = root.path.canonicalize();
        let real = real.unwrap_or_else(|_| root.path.clone());
        let header = Header {
            annals: "import".to_owned(),
            version: VERSION,
            layout: root.layout.name().to_owned(),
            root: real,
            sha256: sha256.to_owned(),
            fresh_ids,
        };
        let path = dir.join(format!("{}.jsonl", name(&header)));
        let mut journal = Journal {
            path,
            header,
            file: None,
            got: HashMap::new(),
        };
        match journal.path.symlink_metadata() {
            Ok(_) => journal.take_up()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("stat", &journal.path, error)),
        }
        Ok(journal)
    }

    /// Locks the file and reads it.
    fn take_up(&mut self) -> Result<()> {
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
        if text.is_empty() {
            write(&mut file, &self.header).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            let dir = path.parent().unwrap_or(path);
            let synced = File::open(dir).and_then(|dir| dir.sync_all());
            synced.map_err(|error| Error::io("sync", dir, error))?;
        }
        self.got = read_lines(path, &text)?;
        self.file = Some(file);
        Ok(())
    }

    /// Returns the progress of a session in an earlier run.
    pub(super) fn progress(&self, number: usize) -> Option<&SessionProgress> {
        self.got.get(&number)
    }

    /// Records, durably, that a session is about to be created.
    pub(super) fn record_begin(&mut self, number: usize, session: &str) -> Result<()> {
        self.put(&Line {
            n: number,
            begin: Some(session.to_owned()),
            made: None,
            done: false,
        })
    }

    /// Records, durably, which log was created for the session.
    pub(super) fn record_created(
        &mut self,
        number: usize,
        session: &str,
        path: &Path,
    ) -> Result<()> {
        let metadata = path.symlink_metadata();
        let metadata = metadata.map_err(|error| Error::io("stat", path, error))?;
        let made = CreatedLog {
            session: session.to_owned(),
            path: path.to_owned(),
            dev: metadata.dev(),
            ino: metadata.ino(),
        };
        self.put(&Line {
            n: number,
            begin: None,
            made: Some(made),
            done: false,
        })
    }

    /// Returns a directory for writing a session again, while the journal is locked.
    pub(super) fn scratch_dir(&self) -> Result<ScratchDir> {
        let desk = ScratchDir(self.path.with_extension("again"));
        // An interrupted run may have left files in it.
        desk.clear()?;
        jsonl::ensure_dir(&desk.0)?;
        Ok(desk)
    }

    /// Records that a session is complete. The line is not synced: if it is lost, the session is
    /// written again.
    pub(super) fn record_done(&mut self, number: usize) -> Result<()> {
        let failed = |error| Error::io("write", &self.path, error);
        let line = Line {
            n: number,
            begin: None,
            made: None,
            done: true,
        };
        let file = self.file.as_mut();
        file.map_or(Ok(()), |file| write(file, &line).map_err(failed))
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

    fn put(&mut self, line: &Line) -> Result<()> {
        if self.file.is_none() {
            jsonl::ensure_dir(self.path.parent().unwrap_or(&self.path))?;
            self.take_up()?;
        }
        let failed = |error| Error::io("write", &self.path, error);
        if let Some(file) = &mut self.file {
            write(file, line).map_err(failed)?;
            file.sync_all().map_err(failed)?;
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

fn write(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    file.write_all(&line)
}

impl CreatedLog {
    /// Returns whether the file at the path is still the one that was created.
    pub(super) fn still_exists(&self) -> bool {
        let there = self.path.symlink_metadata();
        there.is_ok_and(|there| (there.dev(), there.ino()) == (self.dev, self.ino))
    }
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

fn read_lines(path: &Path, text: &str) -> Result<HashMap<usize, SessionProgress>> {
    let refused = |why: &str| {
        Error::refused(format!(
            "{} {why}; move it away to start the import over",
            path.display()
        ))
    };
    let mut lines = text.lines();
    let header = lines.next().map(serde_json::from_str::<Header>);
    match header {
        None => return Ok(HashMap::new()),
        Some(Ok(header)) if header.version == VERSION && header.annals == "import" => {}
        Some(Ok(header)) => {
            return Err(refused(&format!(
                "has version {}, but this annals reads version {VERSION}",
                header.version
            )));
        }
        _ => return Err(refused("is not an import journal")),
    }
    let mut got = HashMap::new();
    for line in lines {
        let line: Line = serde_json::from_str(line).map_err(|_| refused("is damaged"))?;
        let now = match (line.begin, line.made, line.done) {
            (Some(session), None, false) => SessionProgress::Begun(session),
            (None, Some(made), false) => SessionProgress::CreatedLog(made),
            (None, None, true) => match got.remove(&line.n) {
                Some(SessionProgress::CreatedLog(made) | SessionProgress::Done(made)) => {
                    SessionProgress::Done(made)
                }
                _ => return Err(refused("is damaged")),
            },
            _ => return Err(refused("is damaged")),
        };
        got.insert(line.n, now);
    }
    Ok(got)
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
