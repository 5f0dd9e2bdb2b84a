//! Resolves an id prefix, a name or a path to a session.

mod by_name;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId};
use annals_layouts::Subject;
use annals_layouts::layout::{LAYOUTS, NewSession};
use annals_layouts::model::{AgentId, Artifact, ArtifactKind, Fact, Framing, SessionId};

use super::inventory::{Inventory, RootFile, SESSION_ID_LINES, SessionFiles};
use super::log_reader;
use super::shared_log::{self, SessionSlice};
use super::{ReadFailures, Root, Store, WriteOptions};

/// A log that a text names directly and that does not exist.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MissingLog {
    /// The root that the log would be in.
    pub root: Root,
    /// The session that [`Store::create`] begins for the log.
    pub new: NewSession,
    /// Whether this is the log that its program would write to now.
    pub today: bool,
}

/// Maximum number of `@` tried as the separator of session and message.
const MAX_SPLITS: usize = 16;

/// A resolved session, with one of its logs and one of its messages if the text named them.
#[derive(Clone, Debug)]
pub struct Target {
    /// The session.
    pub files: SessionFiles,
    /// The log, if the text was its path.
    pub log: Option<RootFile>,
    /// The text after the `@`, unresolved.
    pub message: Option<String>,
}

impl Target {
    /// Returns the sub-agent's log, if the text named one.
    pub fn agent_log(&self) -> Option<&RootFile> {
        let agents = |file: &&RootFile| file.artifact.is_agent_log();
        self.log.as_ref().filter(agents)
    }

    /// Fails if the text named a sub-agent's log: operations on a session do not apply to a single
    /// sub-agent.
    pub fn refuse_agent(&self) -> Result<()> {
        match self.agent_log() {
            None => Ok(()),
            Some(file) => Err(Error::refused(format!(
                "{} is a sub-agent's log of session {}; name the session",
                file.path.display(),
                self.files.id
            ))),
        }
    }
}

impl Store {
    /// Resolves `SESSION[@MESSAGE]`. SESSION is a unique prefix of the id of a session, of its
    /// thread or of its conversation, the name at the end of a session's id, or the path of a log.
    ///
    /// If the text has several `@`, the message begins after the last one that follows a session.
    ///
    /// A file in the current directory is tried only if no session matches, unless the text is
    /// clearly a path.
    pub fn find(&self, inventory: &Inventory, text: &str) -> Result<Target> {
        let is_path = |text: &str| text.contains('/') || text.ends_with(".jsonl");
        let is_file = |text: &str| Path::new(text).is_file();
        // Ids of sessions and messages may contain `@`, so each one may be the separator.
        let mut splits: Vec<(&str, Option<&str>)> = text
            .rmatch_indices('@')
            .filter_map(|(at, _)| Some((text.get(..at)?, Some(text.get(at + 1..)?))))
            .take(MAX_SPLITS)
            .collect();
        if splits.is_empty() {
            splits.push((text, None));
        }
        let has_message = text.contains('@');
        let by_id = |session: &str, message: Option<&str>| {
            by_prefix(inventory, session).map(|files| Target {
                files,
                log: None,
                message: message.map(ToOwned::to_owned),
            })
        };
        let at_path = |path: &str, message: Option<&str>| {
            let (files, log) = self.session_at_path(inventory, Path::new(path))?;
            Ok(Target {
                files,
                log: Some(log),
                message: message.map(ToOwned::to_owned),
            })
        };
        if is_path(text) && is_file(text) {
            return at_path(text, None);
        }
        let names = || std::iter::once((text, None)).chain(splits.iter().copied());
        for (name, message) in names() {
            if let Some(id) = self.log_named(name).filter(|_| is_path(name)) {
                return by_id(id.as_str(), message);
            }
        }
        // An id may look like a path, or like `SESSION@MESSAGE`.
        let ids = || inventory.sessions.iter().map(|files| files.id.as_str());
        let is_id = |text: &str| ids().any(|id| id == text);
        if is_id(text) || has_message && ids().any(|id| id.starts_with(text)) {
            return by_id(text, None);
        }
        // A name recorded in a log may be any text.
        for (name, message) in names() {
            let odd = SessionId::new(name).is_err() || name.contains('@');
            let odd = odd && !is_file(name);
            if odd && !by_name::by_exact_name(inventory, name).is_empty() {
                return by_id(name, message);
            }
        }
        let mut missing = None;
        for (session, message) in splits {
            // An existing id takes precedence over a missing path.
            let is_path = |text: &str| is_path(text) && (is_file(text) || !is_id(text));
            let found = match is_path(session) {
                true => at_path(session, message),
                false => by_id(session, message),
            };
            let error = match found {
                Err(error) if is_not_found(&error) => error,
                found => return found,
            };
            if !is_path(session) {
                if is_file(text) {
                    return at_path(text, None);
                }
                if is_file(session) {
                    return at_path(session, message);
                }
            }
            missing.get_or_insert(error);
        }
        Err(missing.unwrap_or_else(|| Error::NotFound {
            what: Subject::Session,
            id: text.to_owned(),
        }))
    }

    /// Like [`find`](Self::find), for a change of the session: its thread must be named as its log
    /// records it. [`find`](Self::find) also accepts another case and the shortened form in the path,
    /// which a different thread may share. If the session may continue in a log that could not be
    /// listed, it is refused.
    pub fn find_to_write(&self, inventory: &Inventory, text: &str) -> Result<Target> {
        let target = self.find(inventory, text)?;
        let mut unlisted = inventory
            .errors
            .iter()
            .find_map(|error| unlisted_log(&target.files, error));
        self.failures().each(|error| {
            unlisted = unlisted
                .take()
                .or_else(|| unlisted_log(&target.files, error));
        });
        if let Some(refusal) = unlisted {
            return Err(refusal);
        }
        let message = target.message.as_ref().map_or(0, |it| it.len() + 1);
        let name = text.get(..text.len() - message).unwrap_or(text);
        match by_name::differing_name(&target.files, name).filter(|_| target.log.is_none()) {
            None => Ok(target),
            Some(thread) => Err(Error::refused(format!(
                "no thread has the id `{}`; session {} has the similar id `{}`: name that to change it",
                name.escape_debug(),
                target.files.id,
                thread.escape_debug()
            ))),
        }
    }

    /// Returns the session of the log that a text names directly, if the log exists.
    fn log_named(&self, text: &str) -> Option<SessionId> {
        let (_, file) = self.files_named(text).next()?;
        file.artifact.session
    }

    /// Returns the existing logs that a text names directly, at most one in each root.
    fn files_named(&self, text: &str) -> impl Iterator<Item = (&Root, RootFile)> {
        let text = absolute_name(text).into_owned();
        self.roots().iter().filter_map(move |root| {
            let artifact = root.layout.log_from_name(&text)?;
            let path = root.locate(&artifact).ok()?;
            let metadata = root.failures.metadata(&path);
            let metadata = metadata.filter(std::fs::Metadata::is_file)?;
            let file = RootFile::new(path, artifact, FileId::from(&metadata));
            Some((root, file))
        })
    }
}

impl MissingLog {
    /// Returns the missing log that a text such as `/path/to/project/2025-11-16` names; `None` if
    /// the text is no such name, or the log exists.
    pub fn find(store: &Store, text: &str, options: WriteOptions) -> Result<Option<MissingLog>> {
        let text = absolute_name(text);
        let text = &*text;
        if !text.starts_with('/')
            || Path::new(text).is_file()
            || store.files_named(text).next().is_some()
        {
            return Ok(None);
        }
        let Some((directory, _)) = text.rsplit_once('/') else {
            return Ok(None);
        };
        for root in store.roots() {
            let named = root.layout.log_from_name(text);
            let Some(session) = named.and_then(|log| log.session) else {
                continue;
            };
            let today =
                store.current_log_session(root, &NewSession::unnamed(directory)?, options.now)?;
            return Ok(Some(MissingLog {
                root: root.clone(),
                today: today.as_ref() == Some(&session),
                new: NewSession::new(session, directory),
            }));
        }
        Ok(None)
    }
}

impl Inventory {
    /// Returns an inventory of only the sessions whose log `text` names directly: one, or one in each
    /// of several roots. Reads only the logs' directories, so the cost does not depend on the size of
    /// the roots. Of their sub-agents it has only `agent`.
    ///
    /// `None` if the text is no such name, no such log exists, or the sub-agent may be in another log.
    pub fn for_log(store: &Store, text: &str, agent: Option<&AgentId>) -> Option<Inventory> {
        let mut sessions = Vec::new();
        for (root, mut file) in store.files_named(text) {
            let id = file.artifact.session.clone()?;
            file.slice = Some(SessionSlice::unread(id.clone()).into());
            let mut files = SessionFiles::new(Arc::new(root.clone()), id.clone());
            files.attachments = files_next_to_log(root, &id, &file.path)?;
            if let Some(agent) = agent {
                let log = shared_log::agent_in_log(root, &file, &id, agent).ok()?;
                files.agents.extend(log);
            }
            files.log = Some(file);
            sessions.push(files);
        }
        (!sessions.is_empty()).then(|| Inventory {
            sessions,
            ..Inventory::default()
        })
    }
}

impl Store {
    fn session_at_path(
        &self,
        inventory: &Inventory,
        path: &Path,
    ) -> Result<(SessionFiles, RootFile)> {
        let absolute = std::path::absolute(path).map_err(|error| Error::io("read", path, error))?;
        if let Some(found) = session_in_database(inventory, &absolute)? {
            return Ok(found);
        }
        if self.is_confined {
            // A missing file and one outside the roots give the same answer.
            let id = std::fs::metadata(&absolute).ok();
            let id = id.map(|metadata| FileId::from(&metadata));
            let found = id.and_then(|id| session_of_file(inventory, &absolute, &id).transpose());
            return found.unwrap_or_else(|| {
                Err(Error::NotFound {
                    what: Subject::Session,
                    id: path.to_string_lossy().into_owned(),
                })
            });
        }
        let metadata = match std::fs::metadata(&absolute) {
            // The path of a session in a database that is in no open root.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                let found = self.root_at(&absolute).map(|root| {
                    let inventory = Inventory::scan(std::slice::from_ref(&root));
                    session_in_database(&inventory, &absolute)
                });
                return match found.transpose()?.flatten() {
                    Some(found) => Ok(found),
                    None => Err(Error::io("read", path, error)),
                };
            }
            // The text may be a log name of some root's layout.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let id = path.to_string_lossy().into_owned();
                let mut roots = self.roots().iter();
                let fault = roots
                    .clone()
                    .find_map(|root| root.layout.log_name_fault(&id));
                if let Some(why) = fault {
                    return Err(Error::refused(format!("there is no log `{id}`: {why}")));
                }
                let name = absolute_name(&id).into_owned();
                return Err(
                    match roots.any(|root| root.layout.log_from_name(&name).is_some()) {
                        true => Error::NotFound {
                            what: Subject::Log,
                            id,
                        },
                        false => Error::io("read", path, error),
                    },
                );
            }
            metadata => metadata.map_err(|error| Error::io("read", path, error))?,
        };
        if metadata.is_dir() {
            return Err(Error::refused(format!(
                "{} is a directory; name a log file or a session",
                path.display()
            )));
        }
        let id = FileId::from(&metadata);
        if let Some(found) = session_of_file(inventory, &absolute, &id)? {
            return Ok(found);
        }
        // The log may be in a root that is not open. Scan that root for the files of the session.
        if let Some(root) = self.root_at(&absolute) {
            let inventory = Inventory::scan(std::slice::from_ref(&root));
            if let Some(found) = session_in_database(&inventory, &absolute)? {
                return Ok(found);
            }
            if let Some(found) = session_of_file(&inventory, &absolute, &id)? {
                return Ok(found);
            }
            if let Some(link) = root.first_link(&absolute) {
                return Err(root.unfollowed_link_error(&link));
            }
        }
        // The user named the path, so a link is followed.
        let real = absolute.canonicalize();
        let real = real.map_err(|error| Error::io("read", path, error))?;
        lone_log(real, id, self.failures())
    }

    /// Finds the root that contains a file, or is that file, whether or not it is open.
    fn root_at(&self, path: &Path) -> Option<Root> {
        let root = root_above(path).or_else(|| crate::root::export_root(path));
        root.map(|root| root.reporting_to(self.failures()))
    }
}

/// Returns the name of a log with an absolute path. A path in it may be relative to the current
/// directory.
fn absolute_name(text: &str) -> Cow<'_, str> {
    if text.starts_with('/') || !text.contains('/') {
        return Cow::Borrowed(text);
    }
    let absolute = std::path::absolute(text).ok();
    let absolute = absolute.and_then(|path| path.into_os_string().into_string().ok());
    absolute.map_or(Cow::Borrowed(text), Cow::Owned)
}

impl SessionFiles {
    /// Returns the session with its current files, for callers that resolved it earlier. Reads only
    /// the folder of its log; the list of sub-agents is not updated.
    ///
    /// `None` if the log is no longer the same file, or if the folder is not enough because the
    /// session has a session list or a shared log. The caller must resolve the session again.
    pub fn refreshed(&self) -> Option<SessionFiles> {
        let log = self.log.as_ref()?;
        let listed = self.root.layout.writer()?.session_list(&log.artifact);
        if listed.is_some() || log.slice.is_some() || log.is_archived() || self.is_lone() {
            return None;
        }
        let now = |path: &Path| {
            let metadata = path.symlink_metadata().ok();
            Some(FileId::from(&metadata.filter(std::fs::Metadata::is_file)?))
        };
        let id = now(&log.path).filter(|id| id.same_file(&log.id))?;
        if self.has_new_volume(log)? {
            return None;
        }
        let mut files = self.clone();
        files.log = Some(RootFile { id, ..log.clone() });
        files
            .attachments
            .retain(|file| file.is_archived() || !matches!(jsonl::exists(&file.path), Ok(false)));
        for file in files_next_to_log(&self.root, &self.id, &log.path)? {
            files.attachments.retain(|known| known.path != file.path);
            files.attachments.push(file);
        }
        Some(files)
    }

    /// Returns the session with the current state of its log; `None` if the log is no longer the
    /// same file, or is shared, archived or not written yet. Checks no other file.
    pub fn with_current_log(&self) -> Option<SessionFiles> {
        let log = self.log.as_ref()?;
        if log.slice.is_some() || log.is_archived() || self.is_lone() {
            return None;
        }
        let metadata = log.path.symlink_metadata().ok();
        let id = FileId::from(&metadata.filter(std::fs::Metadata::is_file)?);
        let mut files = self.clone();
        files.log = Some(RootFile { id, ..log.clone() });
        id.same_file(&log.id).then_some(files)
    }

    /// Returns whether the log's folder has a new volume of the session's log.
    fn has_new_volume(&self, log: &RootFile) -> Option<bool> {
        let mut entries = std::fs::read_dir(log.path.parent()?).ok()?.flatten();
        Some(entries.any(|entry| {
            let path = entry.path();
            let within = path.strip_prefix(&self.root.path).ok();
            let meaning = within.and_then(|path| self.root.layout.classify(path));
            meaning.is_some_and(|it| {
                it.session.as_ref() == Some(&self.id)
                    && it.kind.is_conversation()
                    && !it.is_agent_log()
                    && log.volumes().all(|volume| volume.path != path)
            })
        }))
    }
}

/// Lists the files of a session, except logs, in the folder of its log.
fn files_next_to_log(root: &Root, id: &SessionId, log: &Path) -> Option<Vec<RootFile>> {
    let mut files = Vec::new();
    for entry in root.failures.read_dir(log.parent()?) {
        let path = entry.path();
        let within = path.strip_prefix(&root.path).ok();
        let meaning = within.and_then(|path| root.layout.classify(path));
        let meaning =
            meaning.filter(|it| it.session.as_ref() == Some(id) && !it.kind.is_conversation());
        let Some(meaning) = meaning else { continue };
        let metadata = root.failures.metadata(&path);
        if let Some(metadata) = metadata.filter(std::fs::Metadata::is_file) {
            files.push(RootFile::new(path, meaning, FileId::from(&metadata)));
        }
    }
    Some(files)
}

/// Returns whether an error means that there is no such session or file.
fn is_not_found(error: &Error) -> bool {
    match error {
        Error::NotFound { .. } | Error::BadId { .. } => true,
        Error::File(FileError::Io { source, .. }) => matches!(
            source.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
        ),
        _ => false,
    }
}

/// Finds the session at a path that begins with that of a database. The path of the database itself
/// is that of its only session.
pub(super) fn session_in_database(
    inventory: &Inventory,
    path: &Path,
) -> Result<Option<(SessionFiles, RootFile)>> {
    let is_it = |file: &&RootFile| {
        matches!(file.artifact.framing, Framing::Rows(_)) && file.path.starts_with(path)
    };
    let sessions = inventory.sessions.iter();
    let found = sessions.filter_map(|files| Some((files, files.logs().find(is_it)?)));
    match found.collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [(files, file)] => Ok(Some(((*files).clone(), (*file).clone()))),
        several => Err(Error::Ambiguous {
            what: Subject::SessionOfFile,
            id: path.display().to_string(),
            candidates: several
                .iter()
                .map(|(files, _)| files.id.to_string())
                .collect(),
        }),
    }
}

/// Finds the session of a log file. Fails for other files of a session.
fn session_of_file(
    inventory: &Inventory,
    path: &Path,
    id: &FileId,
) -> Result<Option<(SessionFiles, RootFile)>> {
    // The inode of a file that is only in the archive may have been reused.
    let is_it = |file: &&RootFile| !file.is_archived() && file.id.same_file(id);
    let lies_in = |file: &&RootFile| file.volumes().any(|volume| is_it(&volume));
    let holding = inventory
        .sessions
        .iter()
        .filter(|files| files.logs().any(|file| lies_in(&file)));
    let mut holding: Vec<&SessionFiles> = holding.collect();
    if let [_, _, ..] = holding.as_slice() {
        return Err(Error::Ambiguous {
            what: Subject::SessionOfFile,
            id: path.display().to_string(),
            candidates: holding.iter().map(|files| files.id.to_string()).collect(),
        });
    }
    if let Some(files) = holding.pop()
        && let Some(file) = files.logs().find(lies_in)
    {
        return Ok(Some((files.clone(), file.clone())));
    }
    for files in &inventory.sessions {
        if files.attachments.iter().any(|file| is_it(&file)) {
            return Err(Error::refused(format!(
                "{} is not a log but another file of session {}; name the session",
                path.display(),
                files.id
            )));
        }
    }
    let mut others = inventory.others.iter().map(|(_, file)| file);
    match others.find(is_it) {
        Some(file) if !file.artifact.kind.is_conversation() => Err(Error::refused(format!(
            "{} is not the log of a session",
            path.display()
        ))),
        _ => Ok(None),
    }
}

/// Returns a refusal if, because of a read error, a session may have another log of the same name, which
/// its program would continue.
fn unlisted_log(files: &SessionFiles, error: &Error) -> Option<Error> {
    let Error::File(FileError::Io { path, source, .. }) = error else {
        return None;
    };
    let layout = files.root.layout;
    // Only these layouts move logs between directories.
    let log = files.log.as_ref();
    let log = log.filter(|log| log.artifact.kind == ArtifactKind::SharedLog)?;
    let inner = path.join(log.path.file_name()?);
    let is_log = |path: &Path| {
        let within = path.strip_prefix(&files.root.path).ok();
        let artifact = within.and_then(|within| layout.classify(within));
        artifact
            .is_some_and(|it| it.session.as_ref() == Some(&files.id) && it.kind.is_conversation())
    };
    let has_directories = || {
        let within = inner.strip_prefix(&files.root.path);
        within.is_ok_and(|within| layout.may_hold_files(within))
    };
    let may_be_inside =
        || is_log(&inner) && (has_directories() || !matches!(jsonl::exists(&inner), Ok(false)));
    (is_log(path) || may_be_inside()).then(|| {
        Error::refused(format!(
            "session {} may continue in another log, which cannot be read: {}: {source}",
            files.id,
            path.display(),
        ))
    })
}

fn by_prefix(inventory: &Inventory, prefix: &str) -> Result<SessionFiles> {
    let found_by = |fits: &dyn Fn(&SessionFiles) -> bool| -> Vec<&SessionFiles> {
        let sessions = inventory.sessions.iter();
        sessions.filter(|files| fits(files)).collect()
    };
    // Some layouts put a time before the name that the user knows.
    let mut found = by_name::by_exact_name(inventory, prefix);
    if found.is_empty() {
        found = found_by(&|files| conversation_id(files).is_some_and(|id| id == prefix));
    }
    if SessionId::new(prefix).is_ok() {
        let by_id = found_by(&|files| files.id.as_str().starts_with(prefix));
        let whole = by_id.iter().any(|files| files.id.as_str() == prefix);
        if found.is_empty() || whole {
            found = by_id;
        }
        if found.is_empty() {
            found = found_by(&|files| files.id.matches_name(prefix));
        }
    }
    if found.is_empty() {
        found = by_name::by_name_prefix(inventory, prefix);
    }
    if found.is_empty() && !prefix.is_empty() {
        found = found_by(&|files| conversation_id(files).is_some_and(|id| id.starts_with(prefix)));
    }
    if found.is_empty() {
        found = by_name::by_conversation_id(inventory, prefix);
    }
    if found.is_empty() && !prefix.is_empty() {
        // The session id of the underlying program, which uses it to resume.
        found =
            found_by(&|files| program_session_id(files).is_some_and(|id| id.starts_with(prefix)));
    }
    if found.is_empty() {
        // Report a text that is not a valid id as such.
        SessionId::new(prefix)?;
    }
    let exact: Vec<&&SessionFiles> = found
        .iter()
        .filter(|files| files.id.as_str() == prefix)
        .collect();
    match (found.as_slice(), exact.as_slice()) {
        ([], _) => Err(Error::NotFound {
            what: Subject::Session,
            id: prefix.to_owned(),
        }),
        ([only], _) => Ok((*only).clone()),
        (_, [only]) => Ok((**only).clone()),
        (many, _) => {
            let same = many.iter().all(|files| {
                files.id
                    == many
                        .first()
                        .map_or_else(|| files.id.clone(), |first| first.id.clone())
            });
            let candidates = many.iter().map(|files| {
                if same {
                    files.main_path().display().to_string()
                } else {
                    files.id.to_string()
                }
            });
            Err(Error::Ambiguous {
                what: Subject::Session,
                id: prefix.to_owned(),
                candidates: candidates.collect(),
            })
        }
    }
}

/// Returns the name by which records of the layout refer to the session.
fn conversation_id(files: &SessionFiles) -> Option<String> {
    files.root.layout.writer()?.conversation_id(&files.id)
}

/// Returns the session id of the underlying program, from the session list or the first messages.
fn program_session_id(files: &SessionFiles) -> Option<String> {
    const NAME: &str = "session_id";
    let listed = files.listed(|about| about.attributes.get(NAME).cloned());
    listed.or_else(|| {
        let log = files.log.as_ref()?;
        files.root.layout.writer()?.session_list(&log.artifact)?;
        let said = |fact: &Fact| match fact {
            Fact::Attribute(NAME, id) => Some(id.to_string()),
            _ => None,
        };
        let found = log_reader::first_fact(&files.root, log, SESSION_ID_LINES, said);
        files.root.failures.ok(found)?
    })
}

/// Finds the root that contains a file, from the names of the directories above it.
fn root_above(path: &Path) -> Option<Root> {
    for dir in path.ancestors().skip(1) {
        let relative = path.strip_prefix(dir).ok()?;
        for layout in LAYOUTS {
            // A session log, or another log of a session.
            let of_session = |artifact: Artifact| {
                artifact.kind.is_conversation()
                    || (artifact.kind.is_log() && artifact.session.is_some())
            };
            if layout.classify(relative).is_some_and(of_session) {
                return Some(Root::with_layout(*layout, dir));
            }
        }
    }
    None
}

/// Opens a log outside of any root. It can be read and appended to, and has no other files.
fn lone_log(
    path: PathBuf,
    id: FileId,
    failures: &ReadFailures,
) -> Result<(SessionFiles, RootFile)> {
    if path.extension().is_none_or(|ending| ending != "jsonl") {
        return Err(Error::refused(format!(
            "{} is not a log: logs end in .jsonl",
            path.display()
        )));
    }
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let session = SessionId::new(stem)?;
    let layout = *LAYOUTS
        .first()
        .ok_or_else(|| Error::refused("there are no layouts"))?;
    let root = Root::with_layout(layout, path.parent().unwrap_or(Path::new("/")));
    let root = root.reporting_to(failures);
    let artifact = Artifact {
        session: Some(session.clone()),
        ..Artifact::new(ArtifactKind::SessionLog)
    };
    let log = RootFile::new(path, artifact, id);
    let mut files = SessionFiles::new(Arc::new(root), session);
    files.log = Some(log.clone());
    Ok((files, log))
}
