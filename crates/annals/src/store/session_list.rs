//! Session lists: documents that list logs and are derived from them.
//!
//! A log is written before its session list, so after a crash the list may be stale. The list is
//! updated when the log is next opened for writing, but not by every append: changing one of ten
//! thousand rows would rewrite all of them. A list that cannot be parsed is saved under another
//! name and rebuilt from the logs and its readable parts.
//!
//! A writer updates the list when a log is created, when it gets its first reply or a title, and
//! when the writer closes. Rows are edited in place, so members unknown to annals stay.

mod stale;
mod updater;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;
use annals_jsonl::{FileId, Removal};
use annals_layouts::layout::{AppendState, ListUpdate, RowUpdate, Writer};
use annals_layouts::model::{
    Artifact, ArtifactKind, Body, Entry, Fact, ListRow, Members, Outline, OutlineKind,
};

pub use stale::StaleSessionList;
pub(super) use updater::ListUpdater;

use super::Root;
use super::inventory::{Inventory, RootFile, SessionFiles};
use super::log_reader::{self, LogScan};
use super::writer;

/// Attribute with the session id of the underlying program.
const SESSION_ID: &str = "session_id";

/// Member of a row with the same id.
const ROW_SESSION_ID: &str = "sessionId";

/// Fails if the program cannot parse the root's configuration: it would not show a new session.
pub(crate) fn refuse_damaged(root: &Root, writer: &dyn Writer) -> Result<()> {
    let Ok(path) = root.locate(&Artifact::new(ArtifactKind::SessionList)) else {
        return Ok(());
    };
    let damage = read_optional(&path)?.and_then(|bytes| writer.config_fault(&bytes));
    match damage {
        None => Ok(()),
        Some(why) => Err(super::chorus::damaged(&path, &why)),
    }
}

/// Returns the folder for new sessions of a directory, according to the root's configuration.
pub(crate) fn folder_for_directory(
    root: &Root,
    writer: &dyn Writer,
    directory: &str,
) -> Option<String> {
    let session_list = Artifact::new(ArtifactKind::SessionList);
    let bytes = root
        .failures
        .ok(read_optional(&root.locate(&session_list).ok()?))??;
    let rows = log_reader::decode_document(root, &session_list, &bytes)
        .items
        .into_iter();
    let rows: Vec<ListRow> = rows
        .filter_map(|entry| match entry.body {
            Body::SessionList(rows) => Some(rows),
            _ => None,
        })
        .flatten()
        .collect();
    writer.default_folder(&rows, directory)
}

/// Adds a completely written log to its session list.
pub(super) fn add_to_list(
    root: &Root,
    writer: &dyn Writer,
    head: &AppendState,
    title: Option<String>,
) -> Result<()> {
    let Some(session_list) = writer.session_list(&head.log) else {
        return Ok(());
    };
    let Some(mut row) = list_row_from_log(root, &head.log)? else {
        return Ok(());
    };
    row.cwd.clone_from(&head.cwd);
    row.title = title;
    let rows = [row];
    update_session_list(root, writer, &session_list, &rows)?;
    register_folders(root, writer, &rows)
}

/// Adds the folders of new logs to the root's configuration. A configuration that cannot be parsed
/// is left unchanged: it contains more than folders, so it cannot be rebuilt from the logs.
fn register_folders(root: &Root, writer: &dyn Writer, rows: &[RowUpdate]) -> Result<()> {
    let path = root.locate(&Artifact::new(ArtifactKind::SessionList))?;
    loop {
        let Some(old) = root.failures.ok(read_optional(&path)) else {
            return Ok(());
        };
        let Some(new) = writer.register_folders(old.as_deref(), rows) else {
            return Ok(());
        };
        if replace_list(&path, old.as_deref(), &new, false)? {
            return Ok(());
        }
    }
}

/// Builds the row update of a log from the log itself; `None` if the log does not exist.
pub(crate) fn list_row_from_log(root: &Root, log: &Artifact) -> Result<Option<RowUpdate>> {
    let path = root.locate(log)?;
    let Some(metadata) = root.failures.metadata(&path) else {
        return Ok(None);
    };
    let file = RootFile::new(path, log.clone(), (&metadata).into());
    let mut row = read_row(root, &file)?;
    row.log = Some(log.clone());
    Ok(Some(row))
}

/// Lists all logs of a root. Each session list is written once.
pub(crate) fn update_session_lists(
    root: &Root,
    writer: &dyn Writer,
    mut rows: Vec<RowUpdate>,
) -> Result<()> {
    let session_list_of =
        |row: &RowUpdate| row.log.as_ref().and_then(|log| writer.session_list(log));
    rows.retain(|row| session_list_of(row).is_some());
    if !rows.is_empty() {
        register_folders(root, writer, &rows)?;
    }
    let mut session_lists: HashMap<Artifact, Vec<RowUpdate>> = HashMap::new();
    for row in rows {
        if let Some(session_list) = session_list_of(&row) {
            session_lists.entry(session_list).or_default().push(row);
        }
    }
    for (session_list, rows) in session_lists {
        let path = root.locate(&session_list)?;
        if read_optional(&path)?.is_none() {
            writer::create_parent_dirs(root, &path)?;
            if let ListUpdate::Changed { bytes, .. } =
                writer.update_session_list(&session_list, None, &rows, true)?
                && replace_list(&path, None, &bytes, false)?
            {
                continue;
            }
        }
        update_session_list(root, writer, &session_list, &rows)?;
    }
    Ok(())
}

/// Returns the exact text of a log's rows in its session list.
pub(super) fn rows_for_log(
    root: &Root,
    writer: &dyn Writer,
    log: &Artifact,
) -> Result<Vec<String>> {
    let Some(session_list) = writer.session_list(log) else {
        return Ok(Vec::new());
    };
    let old = read_optional(&root.locate(&session_list)?)?;
    match writer.update_session_list(&session_list, old.as_deref(), &[removed_row(log)], false)? {
        ListUpdate::Changed { removed, .. } => Ok(removed),
        ListUpdate::Unchanged | ListUpdate::NeedsAllRows => Ok(Vec::new()),
    }
}

/// Removes a deleted log from its session list, and the list if it becomes empty. Passes the
/// current text of the removed rows to `save` before the list is replaced.
pub(super) fn remove_from_list(
    root: &Root,
    writer: &dyn Writer,
    log: &Artifact,
    save: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let Some(session_list) = writer.session_list(log) else {
        return Ok(());
    };
    let path = root.locate(&session_list)?;
    if read_optional(&path)?.is_none() {
        return Ok(());
    }
    update_session_list_saving(root, writer, &session_list, &[removed_row(log)], save)?;
    remove_if_empty(root, writer, &session_list, &path)
}

/// Removes a session list without rows, and its folder if that is empty.
fn remove_if_empty(
    root: &Root,
    writer: &dyn Writer,
    session_list: &Artifact,
    path: &Path,
) -> Result<()> {
    let Some(old) = read_optional(path)? else {
        return Ok(());
    };
    if !writer.is_session_list_empty(session_list, &old) {
        return Ok(());
    }
    let inventory = Inventory::scan(std::slice::from_ref(root));
    if !rows_in_inventory(root, writer, &inventory, session_list)?.is_empty() {
        return Ok(());
    }
    let removed = jsonl::with_document_lock(path, || {
        let changed = || {
            Error::File(FileError::Changed {
                path: path.to_owned(),
            })
        };
        let metadata = path.symlink_metadata().map_err(|_| changed())?;
        let id = FileId::from(&metadata);
        let removal = Removal::open(path, &id)?;
        if read_optional(path)?.is_some_and(|now| now == old) {
            removal.remove()?;
        }
        Ok(())
    });
    match removed {
        // Keep a list that another program changed meanwhile or has open for writing.
        Err(Error::File(FileError::Changed { .. }) | Error::File(FileError::Held { .. })) => {}
        removed => removed?,
    }
    super::trash::remove_empty_dirs(path.parent(), &root.path);
    Ok(())
}

/// Lists restored logs again, with their previous rows. All at once: a list that was removed with
/// them is rebuilt from these rows, not from the other logs.
pub(super) fn relist(
    root: &Root,
    writer: &dyn Writer,
    logs: impl Iterator<Item = (Artifact, Option<String>)>,
) -> Result<()> {
    let mut session_lists: HashMap<Artifact, Vec<RowUpdate>> = HashMap::new();
    for (log, text) in logs {
        let Some(session_list) = writer.session_list(&log) else {
            continue;
        };
        let unwritten = || RowUpdate {
            log: Some(log.clone()),
            ..RowUpdate::default()
        };
        let row = list_row_from_log(root, &log)?;
        if let Some(mut row) = row.or_else(|| text.is_some().then(unwritten)) {
            row.restored_text = text;
            session_lists.entry(session_list).or_default().push(row);
        }
    }
    for (session_list, rows) in session_lists {
        update_session_list(root, writer, &session_list, &rows)?;
    }
    Ok(())
}

fn removed_row(log: &Artifact) -> RowUpdate {
    RowUpdate {
        log: Some(log.clone()),
        removed: true,
        ..RowUpdate::default()
    }
}

fn is_counted(entry: &Entry) -> bool {
    entry.id.is_some()
        && matches!(
            entry.body,
            Body::Message(_) | Body::Compaction { .. } | Body::System { .. }
        )
}

/// Builds the row update of a log file.
fn read_row(root: &Root, file: &RootFile) -> Result<RowUpdate> {
    let scan = log_reader::outline(root, file)?;
    let mut row = row_from_scan(&scan);
    if row.started.is_none() {
        // A log without messages began when its file was written.
        let written = Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok();
        row.started = written.filter(|_| file.id.mtime_ns > 0);
    }
    Ok(row)
}

fn row_from_scan(scan: &LogScan) -> RowUpdate {
    // Counts all records with an id, except the one with a sub-agent's purpose.
    let said = |outline: &&Outline| outline.key.is_some() && purpose(outline).is_none();
    let mut row = RowUpdate::default();
    for outline in scan.outlines.iter().filter(said) {
        row.messages += 1;
        row.started = row.started.or(outline.time);
        row.updated = row.updated.max(outline.time);
        row.answered |= outline.kind == OutlineKind::Assistant;
        if row.prompt.is_none() {
            row.prompt = outline.prompt().map(str::to_owned);
        }
        for fact in &outline.facts {
            if let Fact::Attribute(SESSION_ID, session) = fact {
                row.session_id = Some(session.to_string());
            }
        }
    }
    row.purpose = scan.outlines.iter().find_map(purpose);
    row
}

/// Returns the sub-agent's purpose, if the record contains it.
fn purpose(outline: &Outline) -> Option<String> {
    outline.facts.iter().find_map(|fact| match fact {
        Fact::Purpose(purpose) => {
            let said = purpose.description.as_ref().or(purpose.kind.as_ref());
            Some(said.map(|said| said.to_string()).unwrap_or_default())
        }
        _ => None,
    })
}

/// Updates rows of a session list.
pub(super) fn update_session_list(
    root: &Root,
    writer: &dyn Writer,
    session_list: &Artifact,
    rows: &[RowUpdate],
) -> Result<()> {
    update_session_list_saving(root, writer, session_list, rows, &mut |_| Ok(()))
}

/// Like `update_session_list`, and passes the text of removed rows to `save`. The list is replaced
/// only if it still has the content that the rows were taken from.
fn update_session_list_saving(
    root: &Root,
    writer: &dyn Writer,
    session_list: &Artifact,
    rows: &[RowUpdate],
    save: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let path = root.locate(session_list)?;
    writer::create_parent_dirs(root, &path)?;
    loop {
        let old = read_optional(&path)?;
        let mut outcome = writer.update_session_list(session_list, old.as_deref(), rows, false)?;
        if outcome == ListUpdate::NeedsAllRows {
            let all = all_rows(root, writer, session_list, rows)?;
            outcome = writer.update_session_list(session_list, old.as_deref(), &all, true)?;
        }
        let ListUpdate::Changed {
            bytes,
            damaged,
            removed,
        } = outcome
        else {
            return Ok(());
        };
        save(&removed)?;
        if replace_list(&path, old.as_deref(), &bytes, damaged)? {
            if let Some(old) = old.filter(|_| damaged) {
                add_rebuilt_notice(root, &path, &old);
            }
            return Ok(());
        }
    }
}

/// Reports that a damaged session list was replaced: only its logs and its whole rows are in the new
/// one.
fn add_rebuilt_notice(root: &Root, path: &Path, old: &[u8]) {
    root.failures.add_notice(format!(
        "{} was damaged and has been rebuilt from its logs; the original is {}: if a conversation \
         without messages is missing, add its row from there, then remove the file",
        path.display(),
        damaged_copy_path(path, &jsonl::Digest::compute(old)).display()
    ));
}

fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match jsonl::read_document(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) if path.is_dir() => Err(Error::refused(format!(
            "{} is a directory, but should be a session list; move it away and try again",
            path.display()
        ))),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Fails with [`Held`](annals_jsonl::Error::Held) if another program has a session list open for writing. A missing
/// list is fine.
fn refuse_held(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(jsonl::ensure_not_open([(path, &(&metadata).into())])?),
        Err(_) => Ok(()),
    }
}

/// Like `refuse_held`, for the session lists of a session's logs.
pub(super) fn refuse_held_lists(files: &SessionFiles) -> Result<()> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(());
    };
    let there = files.listed_logs().filter(|file| !file.is_archived());
    let session_lists: HashSet<Artifact> = there
        .filter_map(|file| writer.session_list(&file.artifact))
        .collect();
    session_lists
        .iter()
        .try_for_each(|session_list| refuse_held(&files.root.locate(session_list)?))
}

/// Replaces `old` content. Returns `false` if another program changed it first.
fn replace_list(path: &Path, old: Option<&[u8]>, bytes: &[u8], damaged: bool) -> Result<bool> {
    let put = match old {
        None => jsonl::create_new(path, bytes),
        Some(old) => {
            let digest = jsonl::Digest::compute(old);
            if damaged {
                save_damaged_copy(path, old, &digest)?;
            }
            jsonl::replace(path, bytes, Some(&digest))
        }
    };
    match put.map_err(Error::from) {
        Err(Error::File(FileError::Changed { .. })) => Ok(false),
        Err(Error::File(FileError::Io { source, .. }))
            if source.kind() == io::ErrorKind::AlreadyExists =>
        {
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// Infix of the name of a copy of a damaged session list.
const COPY_INFIX: &str = ".damaged-";

/// Returns the session list whose damaged content was saved to this path; see [`save_damaged_copy`].
pub(crate) fn list_of_damaged_copy(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (list, digest) = name.rsplit_once(COPY_INFIX)?;
    let is_digest = digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| path.with_file_name(list))
}

/// Saves a copy of a damaged session list next to it.
fn save_damaged_copy(path: &Path, old: &[u8], digest: &jsonl::Digest) -> Result<()> {
    match jsonl::create_new(&damaged_copy_path(path, digest), old) {
        Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Returns the path of a copy of a damaged session list. It is named by digest, so a retry finds it.
fn damaged_copy_path(path: &Path, digest: &jsonl::Digest) -> PathBuf {
    let short: String = digest
        .0
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{COPY_INFIX}{short}"));
    path.with_file_name(name)
}

/// Returns the rows of all logs in a session list. The given rows are newer than what can be read.
fn all_rows(
    root: &Root,
    writer: &dyn Writer,
    session_list: &Artifact,
    given: &[RowUpdate],
) -> Result<Vec<RowUpdate>> {
    let mut rows = rows_in_inventory(
        root,
        writer,
        &Inventory::scan(std::slice::from_ref(root)),
        session_list,
    )?;
    for row in given {
        rows.retain(|known| known.log != row.log);
        rows.push(row.clone());
    }
    Ok(rows)
}

fn rows_in_inventory(
    root: &Root,
    writer: &dyn Writer,
    inventory: &Inventory,
    session_list: &Artifact,
) -> Result<Vec<RowUpdate>> {
    let mut rows = Vec::new();
    for files in inventory
        .sessions
        .iter()
        .filter(|files| files.root.path == root.path)
    {
        for file in files.logs() {
            if writer.session_list(&file.artifact).as_ref() == Some(session_list) {
                let mut row = read_row(root, file)?;
                row.log = Some(file.artifact.clone());
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

impl SessionFiles {
    /// Sets members of a session's row in the session list, such as the session id of the
    /// underlying program. Values are JSON texts. [`session_members`](annals_layouts::layout::WriterSpec::session_members)
    /// lists the names.
    pub fn set_list_members(&self, members: &Members) -> Result<()> {
        self.refuse_archived()?;
        let writer = writer::layout_writer(&self.root)?;
        let layout = self.root.layout.name();
        let known = writer.session_members();
        for (name, json) in members {
            if !known.contains(&name.as_str()) {
                return Err(Error::refused(match known {
                    [] => format!("sessions of the layout {layout} have no members to set"),
                    known => format!(
                        "a session of the layout {layout} has no `{name}`; it has {}",
                        known.join(", ")
                    ),
                }));
            }
            writer.check_session_member(name, json)?;
        }
        let mut logs = self
            .listed_logs()
            .filter(|log| !log.artifact.is_agent_log());
        let log = logs.next().map(|log| &log.artifact);
        let Some((log, session_list)) = log.and_then(|log| Some((log, writer.session_list(log)?)))
        else {
            return Err(Error::refused(format!(
                "session {} is not in a session list",
                self.id
            )));
        };
        let mut row = list_row_from_log(&self.root, log)?.unwrap_or_default();
        row.log = Some(log.clone());
        row.members.clone_from(members);
        update_session_list(&self.root, writer, &session_list, &[row])
    }
}

#[cfg(test)]
mod tests;
