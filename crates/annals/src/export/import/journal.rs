//! What an import has begun and done, so that one that was cut off can be run again.
//!
//! A session that is there is never touched, unless the journal of the same import tells that it began it:
//! then what there is of it goes to the trash, and it comes in anew, or the rest goes behind it. A journal is of one export, by its
//! digest, and one root. It is removed when all is done. docs/STATE.md tells of its form.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::jsonl;
use crate::store::Root;

const VERSION: u64 = 1;

/// How far a session got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionProgress {
    /// It was about to begin under this id.
    Begun(String),
    /// This is its log.
    CreatedLog(CreatedLog),
    /// It is all there.
    Done(CreatedLog),
}

/// A session's log, as it was when it was made.
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

/// A line about the session of that number in the export, from 0.
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

/// The journal of an import that is at work.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    header: Header,
    /// Locked until it is dropped; `None` until something begins.
    file: Option<File>,
    got: HashMap<usize, SessionProgress>,
}

impl Journal {
    /// Opens the journal of an import into a root. One that is not there is made when something begins.
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

    /// Locks the file, and reads what there is in it.
    fn take_up(&mut self) -> Result<()> {
        let path = &self.path;
        let mut file = locked(path)?;
        let failed = |error| Error::io("write", path, error);
        let mut text = String::new();
        let read = file.read_to_string(&mut text);
        read.map_err(|error| Error::io("read", path, error))?;
        // What a killed process left of a line counts for nothing.
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

    /// How far the session of that number got before.
    pub(super) fn progress(&self, number: usize) -> Option<&SessionProgress> {
        self.got.get(&number)
    }

    /// Tells, durably, that a session is about to begin.
    pub(super) fn record_begin(&mut self, number: usize, session: &str) -> Result<()> {
        self.put(&Line {
            n: number,
            begin: Some(session.to_owned()),
            made: None,
            done: false,
        })
    }

    /// Tells, durably, which log is its own.
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

    /// A place where a session can be written once more, for as long as the journal is held.
    pub(super) fn scratch_dir(&self) -> Result<ScratchDir> {
        let desk = ScratchDir(self.path.with_extension("again"));
        // A run that was cut off may have left something on it.
        desk.clear()?;
        jsonl::ensure_dir(&desk.0)?;
        Ok(desk)
    }

    /// Tells that it is all there. Who does not hear of it only does it again.
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

    /// The import is done, and nothing is left to go on with.
    pub(super) fn close(self) -> Result<()> {
        if self.file.is_some() {
            let removed = fs::remove_file(&self.path);
            removed.map_err(|error| Error::io("remove", &self.path, error))?;
            // It fails when there is another one, which is the condition.
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

/// A directory of annals' own that goes when it is dropped.
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
        // What is left is cleared away by whoever needs the place next.
        let _ = self.clear();
    }
}

fn write(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    file.write_all(&line)
}

impl CreatedLog {
    /// The file at its path is still the one that was made.
    pub(super) fn still_exists(&self) -> bool {
        let there = self.path.symlink_metadata();
        there.is_ok_and(|there| (there.dev(), there.ino()) == (self.dev, self.ino))
    }
}

/// A file that nobody else writes to.
fn locked(path: &Path) -> Result<File> {
    loop {
        let file = jsonl::try_lock_path(path)?.ok_or_else(|| {
            Error::refused("the same import is at work already; wait until it is done")
        })?;
        // Whoever held it may be done, and have removed it.
        let held = file.metadata();
        if jsonl::is_at_path(path, &held.map_err(|e| Error::io("stat", path, e))?)? {
            return Ok(file);
        }
    }
}

fn read_lines(path: &Path, text: &str) -> Result<HashMap<usize, SessionProgress>> {
    let refused = |why: &str| {
        Error::refused(format!(
            "{} {why}; move it away to import without knowing what was begun before",
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
                "is of version {}, and this program knows {VERSION}",
                header.version
            )));
        }
        _ => return Err(refused("is no journal of an import")),
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
