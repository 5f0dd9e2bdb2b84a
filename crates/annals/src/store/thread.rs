//! Threads of layouts that name logs by time and thread. Each thread has one conversation.
//!
//! The file system cannot reject a second conversation, because its path has a different time. So
//! existing logs of the thread are searched first. If the log of a conversation does not exist yet,
//! a required file in its folder starts with the same header.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{FileId, is_absence};
use annals_layouts::layout::{AppendState, NewSession, Writer};
use annals_layouts::model::{Artifact, ArtifactKind, Fact, ListRow, ListSubject, SessionId};

use super::inventory::{RootFile, SessionFiles};
use super::writer::existing_file;
use super::{Root, log_reader};

/// Fails if the thread already has a conversation. `log` is the log of the new one. The caller must
/// hold the lock of `with_id_lock`, so that no other annals process begins one at the same time.
///
/// A full id, which includes the time, is only rejected if the user requested it: an archive may
/// contain several conversations of a thread.
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
        // Skip other folders by name alone, because many sessions may begin in sequence.
        if !folder.file_name().to_string_lossy().contains(&short) {
            continue;
        }
        let path = folder.path().join(name);
        if recorded_thread(root, &path, &short)?.is_some_and(|said| said == thread) {
            return Err(Error::Exists(format!(
                "the thread `{}` already has a conversation: {}; nothing was written; {} continues it",
                thread.escape_debug(),
                path.display(),
                annals_layouts::text::quoted_command("annals append", &thread, "")
            )));
        }
    }
    Ok(())
}

/// Returns the thread recorded in a conversation, if its path has the path form of the thread's id.
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

/// Key of the exact thread id in the first record of a log.
pub(super) const THREAD: &str = "threadId";

/// Returns a stand-in for a missing or empty log: a file that the program always keeps next to the
/// log and that starts with the same header. It is read as the log.
pub(super) fn stand_in(root: &Root, log: &Artifact) -> Result<Option<RootFile>> {
    for required in root.layout.required_files(log) {
        let path = root.locate(&required)?;
        let file = if_exists(existing_file(path, log.clone()))?;
        if let Some(file) = file.filter(|file| file.id.len > 0) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Returns the conversation that a stand-in describes. It has no messages yet.
pub(super) fn session_without_log(root: &Arc<Root>, file: &RootFile) -> Option<SessionFiles> {
    let session = file.artifact.session.clone()?;
    let log = Artifact {
        kind: ArtifactKind::SessionLog,
        ..file.artifact.clone()
    };
    let is_empty = file.id.len == 0 || file.is_archived();
    if is_empty || !root.layout.required_files(&log).contains(&file.artifact) {
        return None;
    }
    let file = RootFile::new(file.path.clone(), log.clone(), file.id);
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

/// Returns the fields that the log of such a conversation must begin with: see
/// [`AppendState::writer_state`].
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

/// Returns the facts of a log's first record.
pub(super) fn facts(root: &Root, log: &RootFile) -> Result<Vec<Fact>> {
    let outlines = log_reader::first_outlines(root, log)?.into_iter();
    Ok(outlines.flat_map(|outline| outline.facts).collect())
}

/// Returns the value of a writer state fact.
pub(super) fn word(facts: &[Fact], wanted: &str) -> Option<String> {
    facts.iter().find_map(|fact| match fact {
        Fact::WriterState(word, value) if &**word == wanted => Some(value.to_string()),
        _ => None,
    })
}

fn if_exists(file: Result<RootFile>) -> Result<Option<RootFile>> {
    match file {
        Err(Error::File(FileError::Io { source, .. })) if is_absence(&source) => Ok(None),
        file => file.map(Some),
    }
}
