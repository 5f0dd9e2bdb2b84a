//! Threads of layouts that name a log by time and thread: each has one conversation.
//!
//! The file system cannot refuse a second one, because its path has another time in it. So the logs of
//! that thread are looked for first.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::layout::{NewSession, Writer};
use crate::model::{Artifact, Fact, SessionId};

use super::writer::found;
use super::{Root, log};

/// Refuses a thread that has a conversation. `log` is where the new conversation would lie. No other
/// annals process begins one meanwhile: see `begin_alone`.
///
/// A whole id, with the time in it, is only refused if a person gave it: an archive may hold several
/// conversations of a thread.
pub(super) fn refuse_known(
    root: &Root,
    writer: &dyn Writer,
    new: &NewSession,
    log: &Artifact,
) -> Result<()> {
    let wanted = new.wanted.as_deref().unwrap_or(new.id.as_str());
    let thread = match SessionId::new(wanted) {
        Ok(id) => id.name().to_owned(),
        Err(_) => wanted.to_owned(),
    };
    let is_whole = new.wanted.is_none() && thread != wanted;
    let Some(short) = writer.thread(&thread).filter(|_| !is_whole && !new.unnamed) else {
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
        if said_thread(root, &path, &short)?.is_some_and(|said| said == thread) {
            return Err(Error::refused(format!(
                "the thread `{}` has a conversation already: {}; nothing was written; {} goes on with it",
                thread.escape_debug(),
                path.display(),
                crate::text::hint("annals append", &thread, "")
            )));
        }
    }
    Ok(())
}

/// The thread that a log says it is of, if its path has what would be left of the thread's id.
fn said_thread(root: &Root, path: &Path, short: &str) -> Result<Option<String>> {
    let within = path.strip_prefix(&root.path).ok();
    let artifact = within.and_then(|path| root.layout.classify(path));
    let Some(artifact) = artifact.filter(|it| it.agent.is_none()) else {
        return Ok(None);
    };
    let name = artifact.session.as_ref().map(|id| id.name().to_owned());
    let Some(name) = name.filter(|name| name == short) else {
        return Ok(None);
    };
    let file = match found(path.to_owned(), artifact) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        file => file?,
    };
    let outlines = log::first_outlines(root, &file)?;
    let mut facts = outlines.into_iter().flat_map(|outline| outline.facts);
    let said = facts.find_map(|fact| match fact {
        Fact::Word(word, value) if &*word == "threadId" => Some(value.to_string()),
        _ => None,
    });
    Ok(Some(said.unwrap_or(name)))
}
