//! Copies of the lines that an agent program writes, appended as they are.
//!
//! A program that runs an agent gets each line of its log and sends it here. Lines are neither
//! parsed into entries nor checked against the session: the log contains the bytes that arrive. A
//! line whose `uuid` is in it already is skipped, so a batch may be sent again.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Deserialize;

use crate::error::{Error, Result};
use annals_jsonl::{LineEnding, Log, OpenLog, RangeReader, Scanner, is_absence};
use annals_layouts::model::{Artifact, ArtifactKind, EntryKey, SessionId};

use super::writer::{WriteOptions, check_line, create_parent_dirs, open_or_create};
use super::{Inventory, Root, SessionFiles, Store};

/// The log of a session or sub-agent, as verbatim lines. Can be shared between threads.
#[derive(Debug)]
pub struct Mirror {
    root: Root,
    session: SessionId,
    path: PathBuf,
    is_sub: bool,
    options: WriteOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: Option<Log>,
    known: KnownIds,
}

/// The ids in the part of a log that was read.
#[derive(Debug, Default)]
struct KnownIds {
    ids: HashSet<EntryKey>,
    /// Everything before this offset was read.
    end: u64,
}

/// The member by which lines are recognised.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
}

impl Store {
    /// Returns the log of a session in the first root, or with `sub` that of a sub-agent, by its path
    /// in the directory of the session, without the extension. Nothing is created until the first
    /// append.
    ///
    /// `project` is a directory, or the name of a project's folder.
    pub fn mirror(
        &self,
        project: &str,
        session: &str,
        sub: Option<&str>,
        options: WriteOptions,
    ) -> Result<Mirror> {
        let Some(root) = self.roots().first() else {
            return Err(Error::refused("there is no root to write to"));
        };
        let layout = root.layout;
        let Some(folder) = layout.folder(project) else {
            let layout = layout.name();
            let why = format!("the layout {layout} has no folders of projects to copy lines to");
            return Err(Error::refused(why));
        };
        let is_directory = project.starts_with('/');
        let folder = if is_directory {
            folder
        } else {
            project.to_owned()
        };
        let session = SessionId::new(session)?;
        let mut artifact = Artifact::new(ArtifactKind::SessionLog);
        artifact.folder = Some(folder.clone());
        artifact.session = Some(session.clone());
        let main = layout.path_for(&artifact);
        if !is_plain(&folder) || layout.classify(&main).as_ref() != Some(&artifact) {
            return Err(Error::refused(format!(
                "`{project}` is not the name of a project's folder"
            )));
        }
        let path = match sub {
            None => main,
            Some(sub) if sub.split('/').all(is_plain) => {
                main.with_extension("").join(format!("{sub}.jsonl"))
            }
            Some(sub) => return Err(Error::refused(format!("`{sub}` is not the name of a log"))),
        };
        Ok(Mirror {
            path: root.path.join(path),
            root: root.clone(),
            session,
            is_sub: sub.is_some(),
            options,
            state: Mutex::default(),
        })
    }
}

/// Returns whether a text is one component of a path, which does not lead elsewhere.
fn is_plain(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    let first = matches!(parts.next(), Some(Component::Normal(part)) if part == text);
    first && parts.next().is_none() && !text.starts_with('.') && !text.contains('\0')
}

impl Mirror {
    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines in one write: locked, a torn line before them ended, synced as the options
    /// say. Lines whose `uuid` is in the log already are skipped. Returns how many were written.
    ///
    /// Each line is one JSON object without line breaks; if one is not, none is written.
    pub fn append<L: AsRef<[u8]>>(&self, lines: &[L]) -> Result<usize> {
        for (at, line) in lines.iter().enumerate() {
            check_line(line.as_ref()).map_err(|why| {
                Error::refused(format!("line {}: {why}; nothing was written", at + 1))
            })?;
        }
        if lines.is_empty() {
            return Ok(0);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { log, known } = &mut *state;
        let log = match log {
            Some(log) => log,
            None => {
                create_parent_dirs(&self.root, &self.path)?;
                log.insert(open_or_create(&self.root, &self.path, self.options)?)
            }
        };
        let written = log.append_all_with(|end, file| {
            known
                .catch_up(file, end)
                .map_err(|error| Error::io("read", &self.path, error))?;
            let mut added = HashSet::new();
            let is_new = |line: &&L| {
                let id = id_of(line.as_ref());
                id.is_none_or(|id| !known.ids.contains(&id) && added.insert(id))
            };
            let new = lines.iter().filter(is_new);
            Ok::<_, Error>(new.map(|line| line.as_ref().to_vec()).collect())
        })?;
        Ok(written.len())
    }

    /// Returns the lines of the log, without line endings; `None` if it does not exist. A torn last
    /// line is left out.
    pub fn load(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let failed = |error| Error::io("read", &self.path, error);
        let file = match OpenLog::open(&self.path) {
            Err(error) if is_absence(&error) => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let mut lines = Vec::new();
        let mut scanner = Scanner::new(RangeReader::from_offset(file, 0));
        while let Some(line) = scanner.next().map_err(failed)? {
            let is_whole = line.ending != LineEnding::None && !line.oversize;
            if is_whole && !line.bytes.trim_ascii().is_empty() {
                lines.push(line.bytes.to_vec());
            }
        }
        Ok(Some(lines))
    }

    /// Returns the names of the logs in the directory of the session, in order.
    pub fn subs(&self) -> Result<Vec<String>> {
        let dir = self.main_path().with_extension("");
        let mut names = Vec::new();
        let mut dirs = vec![dir.clone()];
        while let Some(next) = dirs.pop() {
            for entry in self.root.failures().read_dir(&next) {
                let path = entry.path();
                let Some(kind) = self.root.failures().metadata(&path) else {
                    continue;
                };
                if kind.is_dir() {
                    dirs.push(path);
                } else if kind.is_file() && path.extension().is_some_and(|it| it == "jsonl") {
                    let name = path.with_extension("");
                    let name = name.strip_prefix(&dir).ok().and_then(Path::to_str);
                    names.extend(name.map(str::to_owned));
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// Moves the session to the trash of a store; for a sub-agent, only its log. Does nothing if the
    /// log does not exist.
    pub fn delete(&self, store: &Store) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::default();
        let inventory = Inventory::scan(std::slice::from_ref(&self.root));
        let main = self.main_path();
        let mut sessions = inventory.sessions.into_iter();
        let is_it = |files: &SessionFiles| {
            let in_dir = || files.main_path().starts_with(main.with_extension(""));
            files.id == self.session && (files.main_path() == main || in_dir())
        };
        let Some(mut files) = sessions.find(is_it) else {
            return Ok(());
        };
        if self.is_sub {
            files.log = None;
            files.agents.retain(|file| file.path == self.path);
            files.attachments.retain(|file| file.path == self.path);
            if files.files().next().is_none() {
                return Ok(());
            }
        }
        store.trash().move_in(&files, Timestamp::now())?;
        Ok(())
    }

    fn main_path(&self) -> PathBuf {
        let mut folder = self.path.as_path();
        let name = format!("{}.jsonl", self.session);
        while let Some(parent) = folder.parent() {
            if self.is_sub
                && folder
                    .file_name()
                    .is_some_and(|it| it == self.session.as_str())
            {
                return parent.join(name);
            }
            folder = parent;
        }
        self.path.clone()
    }
}

impl KnownIds {
    /// Reads the ids of the lines that were written since. If the log became shorter, all of them.
    fn catch_up(&mut self, file: &File, end: u64) -> std::io::Result<()> {
        if end < self.end {
            *self = KnownIds::default();
        }
        let reader = RangeReader::between(file, self.end, end);
        let mut lines = Scanner::from_offset(reader, self.end, 1);
        while let Some(line) = lines.next()? {
            if line.ending == LineEnding::None {
                // It may grow: the next append ends it.
                break;
            }
            self.ids.extend(id_of(line.bytes));
            self.end = line.offset + line.len;
        }
        Ok(())
    }
}

/// Returns the id of a line.
fn id_of(line: &[u8]) -> Option<EntryKey> {
    let named: Named<'_> = serde_json::from_slice(line).ok()?;
    Some(EntryKey::from_text(&named.uuid?))
}
