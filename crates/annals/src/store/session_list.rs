//! Registers: documents that list logs, derived from them.
//!
//! A log is written first and its register after it, so a crash leaves the register behind. It is
//! brought up to date when the log is next opened for writing, and not by every append: one entry
//! among ten thousand must not cost a rewrite of all of them. A register that cannot be read is set
//! aside under a name of its own, and made anew from the logs and from what can be saved of it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{FileId, Removal};
use crate::layout::{AppendState, Change, ListUpdate, RowUpdate, Writer};
use crate::model::{
    Artifact, ArtifactKind, Body, Entry, Fact, FlawKind, ListRow, ListSubject, Members, Outline,
    OutlineKind, Role, SessionId,
};
use crate::{json, jsonl};

use super::inventory::{Inventory, RootFile, SessionFiles};
use super::log_reader::{self, LogScan};
use super::writer::{self, SessionWriter};
use super::{Root, Store};

/// The attribute that names the session of the program behind a conversation.
const SESSION_ID: &str = "session_id";

/// The member of a row that does.
const ROW_SESSION_ID: &str = "sessionId";

/// What an open log and its register have to say to each other.
#[derive(Debug)]
pub(super) struct ListUpdater {
    list: Artifact,
    state: Mutex<ListState>,
}

#[derive(Debug, Default)]
struct ListState {
    /// How many messages the log has, if it is known without counting.
    messages: Option<u64>,
    /// The register has a title for it.
    titled: bool,
    /// The log says something that the register has not heard.
    outdated: bool,
    /// The session of another program that the register tells.
    session_id: Option<String>,
}

impl ListUpdater {
    /// Of a log that is there.
    pub(super) fn for_log(
        writer: &dyn Writer,
        files: &SessionFiles,
        head: &AppendState,
    ) -> Option<Self> {
        let register = writer.session_list(&head.log)?;
        let mut rows = files.list_rows.iter();
        let row = rows.find(|about| matches!(about.subject, ListSubject::Session(_)));
        let own = row.filter(|_| head.agent.is_none());
        // To the millisecond: that is how finely registers tell the time.
        let same = |a: Timestamp, b: Timestamp| a.as_millisecond() == b.as_millisecond();
        let known = own.is_some_and(|row| match (row.updated, head.time) {
            (Some(listed), Some(newest)) => same(listed, newest),
            (_, None) => true,
            (None, Some(_)) => false,
        });
        let titled = own.is_some_and(|row| row.title.is_some());
        let messages = match files.is_unwritten() {
            true => Some(0),
            false => own.and_then(|row| row.messages),
        };
        let state = ListState {
            messages: messages.filter(|_| known && titled),
            titled,
            outdated: !known,
            session_id: own.and_then(|row| row.attributes.get(SESSION_ID).cloned()),
        };
        Some(ListUpdater {
            list: register,
            state: Mutex::new(state),
        })
    }

    /// Of a log that is being made.
    pub(super) fn for_new_log(writer: &dyn Writer, head: &AppendState) -> Option<Self> {
        Some(ListUpdater {
            list: writer.session_list(&head.log)?,
            state: Mutex::default(),
        })
    }

    /// Notes that the register has heard what a row says.
    fn told(&self, row: &RowUpdate) {
        let mut state = self.state();
        state.titled |= row.title.is_some() || row.first_title.is_some() || row.answered;
        state.outdated = false;
        if state.titled {
            state.messages = Some(row.messages);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionWriter {
    /// Tells the register what a change has made of the log, if it must know at once: that there is
    /// a new log, that it has got an answer or a title. The rest it hears when the writer closes.
    pub(super) fn update_list(
        &self,
        change: &Change,
        entries: &[Entry],
        title: Option<String>,
    ) -> Result<()> {
        let Some(listing) = &self.list_updater else {
            return Ok(());
        };
        let said = entries.iter().filter(|entry| is_counted(entry)).count() as u64;
        let answered = entries.iter().any(|entry| {
            matches!(&entry.body, Body::Message(message) if message.role == Role::Assistant)
        });
        let begins = matches!(change, Change::Begin);
        let mut members = Members::new();
        let now = {
            let mut state = listing.state();
            state.messages = state.messages.map(|messages| messages + said);
            state.outdated |= said > 0;
            // The session of the program behind it is what it can be resumed by.
            let named = entries.iter().rev().find_map(|entry| entry.session.clone());
            if named.is_some() && named != state.session_id {
                let session = named.as_deref().map_or("null".to_owned(), json::quote);
                members.push((ROW_SESSION_ID.to_owned(), session));
                state.session_id = named;
            }
            begins || title.is_some() || !members.is_empty() || (answered && !state.titled)
        };
        if begins {
            members = self.given_members()?;
        }
        if now {
            self.write_list(title, begins, members)?;
        }
        if begins {
            let head = self.append_point().state.clone();
            let row = RowUpdate {
                log: Some(head.log),
                cwd: head.cwd,
                git_branch: head.git_branch,
                ..RowUpdate::default()
            };
            register_folders(&self.root, writer::layout_writer(&self.root)?, &[row])?;
        }
        Ok(())
    }

    /// What the log holds must be counted again: not all of it was written here.
    pub(super) fn invalidate_message_count(&self) {
        if let Some(listing) = &self.list_updater {
            listing.state().messages = None;
        }
    }

    /// Brings the register up to date, if it is behind.
    pub(super) fn refresh_list(&self) -> Result<()> {
        let behind = self
            .list_updater
            .as_ref()
            .is_some_and(|listing| listing.state().outdated);
        match behind {
            true => self.write_list(None, false, Members::new()),
            false => Ok(()),
        }
    }

    /// The members of its row that a new session was given.
    fn given_members(&self) -> Result<Members> {
        let writer = writer::layout_writer(&self.root)?;
        let words = self.append_point().state.writer_state.clone();
        let spell = |name: &&str| {
            let text = words.get(*name)?;
            let quoted = json::quote(text);
            let fits = |json: &str| writer.check_session_member(name, json).is_ok();
            let json = match fits(&quoted) && text != "null" {
                true => quoted,
                false => text.clone(),
            };
            Some(((*name).to_owned(), json))
        };
        Ok(writer.session_members().iter().filter_map(spell).collect())
    }

    /// Closes the session. What is derived from its log is brought up to date; without this, that is
    /// tried when the writer is dropped, and only a failed read is reported, to [`Store::failures`].
    ///
    /// [`Store::failures`]: super::Store::failures
    pub fn close(self) -> Result<()> {
        self.refresh_list()
    }

    /// Closes several sessions. Each session list is read and written once for all sessions in it, so
    /// closing many costs little more than closing one. Returns what could not be brought up to date.
    pub fn close_all(writers: Vec<SessionWriter>) -> Vec<(SessionId, Error)> {
        let mut lists: HashMap<(PathBuf, Artifact), Vec<&SessionWriter>> = HashMap::new();
        for session in &writers {
            if let Some(listing) = session
                .list_updater
                .as_ref()
                .filter(|it| it.state().outdated)
            {
                let key = (session.root.path.clone(), listing.list.clone());
                lists.entry(key).or_default().push(session);
            }
        }
        let mut failed = Vec::new();
        for ((_, register), sessions) in lists {
            if tell_together(&register, &sessions).is_err() {
                // One by one, so that a log that cannot be read keeps no other from the list.
                for session in sessions {
                    let healed = session.refresh_list();
                    failed.extend(healed.err().map(|error| (session.session(), error)));
                }
            }
        }
        failed
    }

    /// What the log says to its register. `listed` means that the register has a row for it: a row
    /// that is gone is made anew, and says more than what has changed.
    fn row(&self, listing: &ListUpdater, listed: bool) -> Result<RowUpdate> {
        let head = self.append_point().state.clone();
        let counted = listing.state().messages.filter(|_| listed);
        let mut row = match counted {
            Some(messages) => RowUpdate {
                messages,
                updated: head.time,
                ..RowUpdate::default()
            },
            None => list_row_from_log(&self.root, &head.log)?.unwrap_or_default(),
        };
        row.log = Some(head.log.clone());
        row.cwd = head.cwd;
        row.git_branch = head.git_branch;
        Ok(row)
    }

    fn write_list(&self, title: Option<String>, begins: bool, members: Members) -> Result<()> {
        let Some(listing) = &self.list_updater else {
            return Ok(());
        };
        let head = self.append_point().state.clone();
        let writer = writer::layout_writer(&self.root)?;
        let listed = !rows_for_log(&self.root, writer, &head.log)?.is_empty();
        let mut row = self.row(listing, listed)?;
        row.members = members;
        row.title = title;
        if begins && writer.title_in_session_list() {
            let title = head
                .writer_state
                .get(AppendState::TITLE)
                .map(|title| title.trim());
            row.first_title = title.map(str::to_owned);
        }
        update_session_list(
            &self.root,
            writer,
            &listing.list,
            std::slice::from_ref(&row),
        )?;
        listing.told(&row);
        Ok(())
    }
}

/// Brings a register up to date for several logs that it lists.
fn tell_together(register: &Artifact, sessions: &[&SessionWriter]) -> Result<()> {
    let Some(first) = sessions.first() else {
        return Ok(());
    };
    let writer = writer::layout_writer(&first.root)?;
    let logs = sessions
        .iter()
        .map(|session| session.append_point().state.log.clone());
    let logs: Vec<RowUpdate> = logs.map(|log| removed_row(&log)).collect();
    let old = read_optional(&first.root.locate(register)?)?;
    let listed = match writer.update_session_list(register, old.as_deref(), &logs, false)? {
        ListUpdate::Changed { removed, .. } => removed.len() >= sessions.len(),
        ListUpdate::Unchanged | ListUpdate::NeedsAllRows => false,
    };
    let mut rows = Vec::new();
    for session in sessions {
        let listing = session.list_updater.as_ref();
        rows.extend(
            listing
                .map(|listing| session.row(listing, listed))
                .transpose()?,
        );
    }
    update_session_list(&first.root, writer, register, &rows)?;
    for (session, row) in sessions.iter().zip(&rows) {
        session
            .list_updater
            .iter()
            .for_each(|listing| listing.told(row));
    }
    Ok(())
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        // The register is behind, and heals when next opened. What could not be read is reported; another error
        // has no one to go to.
        if let Err(error @ Error::Io { .. }) = self.refresh_list() {
            self.root.failures.report(error);
        }
    }
}

/// Refuses a root whose own register its program cannot read: it would not show a new session.
pub(super) fn refuse_damaged(root: &Root, writer: &dyn Writer) -> Result<()> {
    let Ok(path) = root.locate(&Artifact::new(ArtifactKind::Register)) else {
        return Ok(());
    };
    let damage = read_optional(&path)?.and_then(|bytes| writer.register_damage(&bytes));
    match damage {
        None => Ok(()),
        Some(why) => Err(super::config::damaged(&path, &why)),
    }
}

/// The folder that new sessions of a directory go to, where the root's own register tells.
pub(super) fn folder_for_directory(
    root: &Root,
    writer: &dyn Writer,
    directory: &str,
) -> Option<String> {
    let register = Artifact::new(ArtifactKind::Register);
    let bytes = root
        .failures
        .ok(read_optional(&root.locate(&register).ok()?))??;
    let told = log_reader::decode_document(root, &register, &bytes)
        .items
        .into_iter();
    let told: Vec<ListRow> = told
        .filter_map(|entry| match entry.body {
            Body::SessionList(told) => Some(told),
            _ => None,
        })
        .flatten()
        .collect();
    writer.default_folder(&told, directory)
}

/// Lists a log that was made whole.
pub(super) fn add_to_list(
    root: &Root,
    writer: &dyn Writer,
    head: &AppendState,
    title: Option<String>,
) -> Result<()> {
    let Some(register) = writer.session_list(&head.log) else {
        return Ok(());
    };
    let Some(mut row) = list_row_from_log(root, &head.log)? else {
        return Ok(());
    };
    row.cwd.clone_from(&head.cwd);
    row.title = title;
    let rows = [row];
    update_session_list(root, writer, &register, &rows)?;
    register_folders(root, writer, &rows)
}

/// Tells the root's own register of the folders that new logs lie in. One that cannot be read is left
/// alone: it tells of more than logs, so it is not made anew, and the logs are there all the same.
fn register_folders(root: &Root, writer: &dyn Writer, rows: &[RowUpdate]) -> Result<()> {
    let path = root.locate(&Artifact::new(ArtifactKind::Register))?;
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

/// What a log says to its register; nothing if it is not there.
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

/// Lists all logs of a root, each register once.
pub(crate) fn update_session_lists(
    root: &Root,
    writer: &dyn Writer,
    mut rows: Vec<RowUpdate>,
) -> Result<()> {
    let register_of = |row: &RowUpdate| row.log.as_ref().and_then(|log| writer.session_list(log));
    rows.retain(|row| register_of(row).is_some());
    if !rows.is_empty() {
        register_folders(root, writer, &rows)?;
    }
    let mut registers: HashMap<Artifact, Vec<RowUpdate>> = HashMap::new();
    for row in rows {
        if let Some(register) = register_of(&row) {
            registers.entry(register).or_default().push(row);
        }
    }
    for (register, rows) in registers {
        let path = root.locate(&register)?;
        if read_optional(&path)?.is_none() {
            writer::create_parent_dirs(root, &path)?;
            if let ListUpdate::Changed { bytes, .. } =
                writer.update_session_list(&register, None, &rows, true)?
                && replace_list(&path, None, &bytes, false)?
            {
                continue;
            }
        }
        update_session_list(root, writer, &register, &rows)?;
    }
    Ok(())
}

/// What a register says about a log.
pub(super) fn rows_for_log(
    root: &Root,
    writer: &dyn Writer,
    log: &Artifact,
) -> Result<Vec<String>> {
    let Some(register) = writer.session_list(log) else {
        return Ok(Vec::new());
    };
    let old = read_optional(&root.locate(&register)?)?;
    match writer.update_session_list(&register, old.as_deref(), &[removed_row(log)], false)? {
        ListUpdate::Changed { removed, .. } => Ok(removed),
        ListUpdate::Unchanged | ListUpdate::NeedsAllRows => Ok(Vec::new()),
    }
}

/// Takes a log that is gone out of its register, and the register away with the last one. `save` gets
/// the rows that go, before they do: they are what the register says at that moment.
pub(super) fn remove_from_list(
    root: &Root,
    writer: &dyn Writer,
    log: &Artifact,
    save: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let Some(register) = writer.session_list(log) else {
        return Ok(());
    };
    let path = root.locate(&register)?;
    if read_optional(&path)?.is_none() {
        return Ok(());
    }
    update_session_list_saving(root, writer, &register, &[removed_row(log)], save)?;
    remove_if_empty(root, writer, &register, &path)
}

/// A register without rows goes, and so does its folder if nothing else is left in it.
fn remove_if_empty(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    path: &Path,
) -> Result<()> {
    let Some(old) = read_optional(path)? else {
        return Ok(());
    };
    if !writer.is_session_list_empty(register, &old) {
        return Ok(());
    }
    let inventory = Inventory::scan(std::slice::from_ref(root));
    if !rows_in_inventory(root, writer, &inventory, register)?.is_empty() {
        return Ok(());
    }
    let removed = jsonl::with_document_lock(path, || {
        let changed = || Error::Changed {
            path: path.to_owned(),
        };
        let metadata = path.symlink_metadata().map_err(|_| changed())?;
        let removal = Removal::open(path, &FileId::from(&metadata))?;
        if read_optional(path)?.is_some_and(|now| now == old) {
            removal.unlink()?;
        }
        Ok(())
    });
    match removed {
        // What another program wrote meanwhile stays.
        Err(Error::Changed { .. }) => {}
        removed => removed?,
    }
    super::trash::remove_empty_dirs(path.parent(), &root.path);
    Ok(())
}

/// Lists logs that are there again, with what was said about them before. All at once: a register
/// that went with them is made anew from that, and not from what the other logs say.
pub(super) fn relist(
    root: &Root,
    writer: &dyn Writer,
    logs: impl Iterator<Item = (Artifact, Option<String>)>,
) -> Result<()> {
    let mut registers: HashMap<Artifact, Vec<RowUpdate>> = HashMap::new();
    for (log, text) in logs {
        let Some(register) = writer.session_list(&log) else {
            continue;
        };
        let unwritten = || RowUpdate {
            log: Some(log.clone()),
            ..RowUpdate::default()
        };
        let row = list_row_from_log(root, &log)?;
        if let Some(mut row) = row.or_else(|| text.is_some().then(unwritten)) {
            row.restored_text = text;
            registers.entry(register).or_default().push(row);
        }
    }
    for (register, rows) in registers {
        update_session_list(root, writer, &register, &rows)?;
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

/// What a log says to its register.
fn read_row(root: &Root, file: &RootFile) -> Result<RowUpdate> {
    let scan = log_reader::outline(root, file)?;
    let mut row = row_from_scan(&scan);
    if row.started.is_none() {
        // A log that says nothing yet began when its file was made.
        let written = Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok();
        row.started = written.filter(|_| file.id.mtime_ns > 0);
    }
    Ok(row)
}

fn row_from_scan(scan: &LogScan) -> RowUpdate {
    // Whatever has an id, but for the line that says what a sub-agent is for.
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

/// What a line says the agent whose log it is in is for.
fn purpose(outline: &Outline) -> Option<String> {
    outline.facts.iter().find_map(|fact| match fact {
        Fact::Purpose(purpose) => {
            let said = purpose.description.as_ref().or(purpose.kind.as_ref());
            Some(said.map(|said| said.to_string()).unwrap_or_default())
        }
        _ => None,
    })
}

/// Brings a register up to date with some rows.
pub(super) fn update_session_list(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    rows: &[RowUpdate],
) -> Result<()> {
    update_session_list_saving(root, writer, register, rows, &mut |_| Ok(()))
}

/// The same; `save` gets what is taken out of the register. The register is only replaced if it still
/// says what it said then.
fn update_session_list_saving(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    rows: &[RowUpdate],
    save: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let path = root.locate(register)?;
    writer::create_parent_dirs(root, &path)?;
    loop {
        let old = read_optional(&path)?;
        let mut outcome = writer.update_session_list(register, old.as_deref(), rows, false)?;
        if outcome == ListUpdate::NeedsAllRows {
            let all = all_rows(root, writer, register, rows)?;
            outcome = writer.update_session_list(register, old.as_deref(), &all, true)?;
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
            return Ok(());
        }
    }
}

fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match jsonl::read_document(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) if path.is_dir() => Err(Error::refused(format!(
            "{} is a directory where an index should be; move it away and try again",
            path.display()
        ))),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Fails with [`Error::Held`] if another program has a register open for writing; one that is not there
/// is nobody's.
fn refuse_held(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(metadata) => jsonl::ensure_not_open([(path, &(&metadata).into())]),
        Err(_) => Ok(()),
    }
}

/// The same of the registers that list a session's logs.
pub(super) fn refuse_held_lists(files: &SessionFiles) -> Result<()> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(());
    };
    let there = files.listed_logs().filter(|file| !file.is_archived());
    let registers: HashSet<Artifact> = there
        .filter_map(|file| writer.session_list(&file.artifact))
        .collect();
    registers
        .iter()
        .try_for_each(|register| refuse_held(&files.root.locate(register)?))
}

/// Puts new content in the place of old. `false` if someone else was faster.
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
    match put {
        Err(Error::Changed { .. }) => Ok(false),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        done => done.map(|()| true),
    }
}

/// Keeps a copy of a damaged register beside it. The name is that of its content, so a second try
/// finds it done.
fn save_damaged_copy(path: &Path, old: &[u8], digest: &jsonl::Digest) -> Result<()> {
    let short: String = digest
        .0
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".damaged-{short}"));
    match jsonl::create_new(&path.with_file_name(name), old) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// The rows of all logs that a register lists; those given are newer than what can be read.
fn all_rows(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    given: &[RowUpdate],
) -> Result<Vec<RowUpdate>> {
    let mut rows = rows_in_inventory(
        root,
        writer,
        &Inventory::scan(std::slice::from_ref(root)),
        register,
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
    register: &Artifact,
) -> Result<Vec<RowUpdate>> {
    let mut rows = Vec::new();
    for files in inventory
        .sessions
        .iter()
        .filter(|files| files.root.path == root.path)
    {
        for file in files.logs() {
            if writer.session_list(&file.artifact).as_ref() == Some(register) {
                let mut row = read_row(root, file)?;
                row.log = Some(file.artifact.clone());
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// What is wrong with a register that cannot be read as what it is.
const DAMAGED: &str = "damaged";

/// A register that does not say what its logs say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StaleSessionList {
    /// Its root.
    pub root: Root,
    /// The document.
    pub path: PathBuf,
    /// What is wrong with it, in a few words.
    pub detail: &'static str,
    list: Artifact,
}

/// What a register is, and what it should be.
pub(crate) struct RebuiltList {
    pub(crate) old: Option<Vec<u8>>,
    pub(crate) new: Vec<u8>,
    /// It cannot be read as what it is.
    damaged: bool,
}

impl StaleSessionList {
    /// What it should be now; `None` if it is that already.
    pub(crate) fn rebuild(&self) -> Result<Option<RebuiltList>> {
        let writer = writer::layout_writer(&self.root)?;
        let inventory = Inventory::scan(std::slice::from_ref(&self.root));
        let old = read_optional(&self.path)?;
        let rows = rows_in_inventory(&self.root, writer, &inventory, &self.list)?;
        Ok(
            match writer.update_session_list(&self.list, old.as_deref(), &rows, true)? {
                ListUpdate::Changed { bytes, damaged, .. } => Some(RebuiltList {
                    old,
                    new: bytes,
                    damaged,
                }),
                ListUpdate::Unchanged | ListUpdate::NeedsAllRows => None,
            },
        )
    }

    /// Puts what it should be in its place; what it was is safe. `false` if someone else was faster.
    /// Refused, unless `live`, if another program has it open for writing.
    pub(crate) fn apply(&self, rebuilt: &RebuiltList, live: bool) -> Result<bool> {
        writer::create_parent_dirs(&self.root, &self.path)?;
        if !live {
            self.refuse_held()?;
        }
        replace_list(&self.path, rebuilt.old.as_deref(), &rebuilt.new, false)
    }

    /// Fails with [`Error::Held`] if another program has it open for writing.
    pub fn refuse_held(&self) -> Result<()> {
        refuse_held(&self.path)
    }

    /// It cannot be read as what it is.
    pub fn is_damaged(&self) -> bool {
        self.detail == DAMAGED
    }

    /// The kind of damage, as checks tell it.
    pub fn flaw_kind(&self) -> FlawKind {
        FlawKind::StaleIndex
    }
}

impl Store {
    /// Sets members of a session's row in its layout's session list, such as the session of the program
    /// behind a conversation: names and JSON texts. [`Writer::session_members`] lists the names.
    pub fn set_list_members(&self, files: &SessionFiles, members: &Members) -> Result<()> {
        files.refuse_archived()?;
        let writer = writer::layout_writer(&files.root)?;
        let layout = files.root.layout.name();
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
        let mut logs = files
            .listed_logs()
            .filter(|log| !log.artifact.is_agent_log());
        let log = logs.next().map(|log| &log.artifact);
        let Some((log, register)) = log.and_then(|log| Some((log, writer.session_list(log)?)))
        else {
            return Err(Error::refused(format!(
                "session {} stands in no session list",
                files.id
            )));
        };
        let mut row = list_row_from_log(&files.root, log)?.unwrap_or_default();
        row.log = Some(log.clone());
        row.members.clone_from(members);
        update_session_list(&files.root, writer, &register, &[row])
    }

    /// The registers that are missing, damaged, or behind their logs.
    pub fn stale_session_lists(&self, inventory: &Inventory) -> Vec<Result<StaleSessionList>> {
        let mut found = Vec::new();
        for root in &self.roots {
            let Some(writer) = root.layout.writer() else {
                continue;
            };
            let logs = inventory
                .sessions
                .iter()
                .filter(|files| files.root.path == root.path)
                .filter(|files| files.root.layout.name() == root.layout.name())
                .flat_map(SessionFiles::logs);
            let wanted = logs.filter_map(|file| writer.session_list(&file.artifact));
            let others = inventory.others_of_kind(ArtifactKind::Register);
            let there = others
                .filter(|(other, _)| other.path == root.path)
                .filter(|(other, _)| other.layout.name() == root.layout.name())
                .filter(|(_, file)| file.artifact.folder.is_some())
                .map(|(_, file)| file.artifact.clone());
            let mut registers: Vec<Artifact> = wanted.chain(there).collect();
            registers.sort_by(|a, b| a.folder.cmp(&b.folder));
            registers.dedup();
            for register in registers {
                found.extend(check_list(root, writer, inventory, register).transpose());
            }
        }
        found
    }

    /// Makes a register say what its logs say. A damaged one is kept beside it.
    pub fn rebuild_session_list(&self, stale: &StaleSessionList) -> Result<()> {
        while let Some(RebuiltList { old, new, damaged }) = stale.rebuild()? {
            writer::create_parent_dirs(&stale.root, &stale.path)?;
            if replace_list(&stale.path, old.as_deref(), &new, damaged)? {
                break;
            }
        }
        Ok(())
    }
}

fn check_list(
    root: &Root,
    writer: &dyn Writer,
    inventory: &Inventory,
    register: Artifact,
) -> Result<Option<StaleSessionList>> {
    let path = root.locate(&register)?;
    let old = read_optional(&path)?;
    let rows = rows_in_inventory(root, writer, inventory, &register)?;
    let detail = match writer.update_session_list(&register, old.as_deref(), &rows, true)? {
        ListUpdate::Unchanged | ListUpdate::NeedsAllRows => return Ok(None),
        ListUpdate::Changed { .. } if old.is_none() => "missing",
        ListUpdate::Changed { damaged: true, .. } => DAMAGED,
        ListUpdate::Changed { .. } => "does not say what its logs say",
    };
    Ok(Some(StaleSessionList {
        root: root.clone(),
        path,
        detail,
        list: register,
    }))
}

#[cfg(test)]
mod tests;
