//! Threads of layouts that name a log by time and thread: each has one conversation.
//!
//! The file system cannot refuse a second one, because its path has another time in it. So the logs of
//! that thread are looked for first. A conversation whose log is not there yet is told of by a file that
//! is always beside the log and begins with the same header.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{FileId, is_absence};
use crate::layout::{AppendState, NewSession, Writer};
use crate::model::{Artifact, ArtifactKind, Fact, ListRow, ListSubject, SessionId};

use super::inventory::{RootFile, SessionFiles};
use super::writer::existing_file;
use super::{Root, log_reader};

/// Refuses a thread that has a conversation. `log` is where the new conversation would lie. No other
/// annals process begins one meanwhile: see `begin_alone`.
///
/// A whole id, with the time in it, is only refused if a person gave it: an archive may hold several
/// conversations of a thread.
pub(super) fn refuse_known_thread(
    root: &Root,
    writer: &dyn Writer,
    new: &NewSession,
    log: &Artifact,
) -> Result<()> {
    let wanted = new.requested_id.as_deref().unwrap_or(new.id.as_str());
    let thread = match SessionId::new(wanted) {
        Ok(id) => id.name().to_owned(),
        Err(_) => wanted.to_owned(),
    };
    let is_whole = new.requested_id.is_none() && thread != wanted;
    let Some(short) = writer
        .path_name(&thread)
        .filter(|_| !is_whole && !new.unnamed)
    else {
        return Ok(());
    };
    let path = root.locate(log)?;
    let Some((folder, name)) = path.parent().zip(path.file_name()) else {
        return Ok(());
    };
    let Some(folders) = folder.parent() else {
        return Ok(());
    };
    let failed = |error| Error::io("read", folders, error);
    for entry in std::fs::read_dir(folders).map_err(failed)? {
        let folder = entry.map_err(failed)?;
        // The names of all others are not read any further: many sessions may begin one after the other.
        if !folder.file_name().to_string_lossy().contains(&short) {
            continue;
        }
        let path = folder.path().join(name);
        if recorded_thread(root, &path, &short)?.is_some_and(|said| said == thread) {
            return Err(Error::refused(format!(
                "the thread `{}` has a conversation already: {}; nothing was written; {} goes on with it",
                thread.escape_debug(),
                path.display(),
                crate::text::quoted_command("annals append", &thread, "")
            )));
        }
    }
    Ok(())
}

/// The thread that a conversation says it is of, if its path has what would be left of the thread's id.
fn recorded_thread(root: &Root, path: &Path, short: &str) -> Result<Option<String>> {
    let within = path.strip_prefix(&root.path).ok();
    let artifact = within.and_then(|path| root.layout.classify(path));
    let Some(artifact) = artifact.filter(|it| it.agent.is_none()) else {
        return Ok(None);
    };
    let name = artifact.session.as_ref().map(|id| id.name().to_owned());
    let Some(name) = name.filter(|name| name == short) else {
        return Ok(None);
    };
    let log = if_exists(existing_file(path.to_owned(), artifact.clone()))?;
    let is_there = log.is_some();
    let file = match log.filter(|log| log.id.len > 0) {
        Some(log) => Some(log),
        None => stand_in(root, &artifact)?,
    };
    let Some(file) = file else {
        return Ok(Some(name).filter(|_| is_there));
    };
    let facts = facts(root, &file)?;
    Ok(Some(word(&facts, THREAD).unwrap_or(name)))
}

/// The word of a log's first record for the exact id of its thread.
pub(super) const THREAD: &str = "threadId";

/// A file that tells of a conversation whose log is not there or empty: one that its program always keeps
/// beside the log and that begins like it. It is to be read as the log.
pub(super) fn stand_in(root: &Root, log: &Artifact) -> Result<Option<RootFile>> {
    for beside in root.layout.required_files(log) {
        let path = root.locate(&beside)?;
        let file = if_exists(existing_file(path, log.clone()))?;
        if let Some(file) = file.filter(|file| file.id.len > 0) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The conversation that such a file tells of. Nobody has written to it yet.
pub(super) fn begun_beside(root: &Arc<Root>, beside: &RootFile) -> Option<SessionFiles> {
    let session = beside.artifact.session.clone()?;
    let log = Artifact {
        kind: ArtifactKind::SessionLog,
        ..beside.artifact.clone()
    };
    let is_empty = beside.id.len == 0 || beside.is_archived();
    if is_empty || !root.layout.required_files(&log).contains(&beside.artifact) {
        return None;
    }
    let file = RootFile::new(beside.path.clone(), log.clone(), beside.id);
    let mut about = ListRow::new(ListSubject::Session(session.clone()));
    for fact in root.failures.ok(facts(root, &file)).unwrap_or_default() {
        match fact {
            Fact::Title(title, _) => about.title = Some(title.to_string()),
            Fact::Attribute(name, value) => {
                about.attributes.insert(name.to_owned(), value.to_string());
            }
            Fact::Cwd(cwd) => about.cwd = Some(cwd.to_string()),
            Fact::WriterState(name, value) if &*name == "createdAt" => {
                let time: Option<i64> = value.parse().ok();
                about.started = time.and_then(|time| Timestamp::from_millisecond(time).ok());
            }
            _ => {}
        }
    }
    about.updated = about.started;
    let path = root.locate(&log).ok()?;
    let mut files = SessionFiles::new(Arc::clone(root), session);
    files.unwritten = Some(RootFile::new(path, log, FileId::default()).into());
    files.list_rows = vec![about.into()];
    Some(files)
}

/// What the log of such a conversation must begin with: see [`Head::words`].
pub(super) fn words_of_stand_in(root: &Root, log: &Artifact) -> Result<BTreeMap<String, String>> {
    let mut words = BTreeMap::new();
    let Some(file) = stand_in(root, log)? else {
        return Ok(words);
    };
    for fact in facts(root, &file)? {
        let (name, value) = match fact {
            Fact::WriterState(name, value) if &*name == THREAD => {
                (AppendState::REQUESTED_ID.to_owned(), value.to_string())
            }
            Fact::WriterState(name, value) => (name.to_string(), value.to_string()),
            Fact::Title(title, _) => (AppendState::TITLE.to_owned(), title.to_string()),
            _ => continue,
        };
        words.insert(name, value);
    }
    Ok(words)
}

/// The facts of a log's first record.
pub(super) fn facts(root: &Root, log: &RootFile) -> Result<Vec<Fact>> {
    let outlines = log_reader::first_outlines(root, log)?.into_iter();
    Ok(outlines.flat_map(|outline| outline.facts).collect())
}

/// A word among some facts.
pub(super) fn word(facts: &[Fact], wanted: &str) -> Option<String> {
    facts.iter().find_map(|fact| match fact {
        Fact::WriterState(word, value) if &**word == wanted => Some(value.to_string()),
        _ => None,
    })
}

fn if_exists(file: Result<RootFile>) -> Result<Option<RootFile>> {
    match file {
        Err(Error::Io { source, .. }) if is_absence(&source) => Ok(None),
        file => file.map(Some),
    }
}
