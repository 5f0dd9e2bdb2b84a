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
use crate::layout::{Change, Enrolled, Head, Row, Writer};
use crate::model::{
    About, Artifact, ArtifactKind, Body, Entry, Fact, FlawKind, Kind, Members, Outline, Role,
    SessionId, Subject,
};
use crate::{json, jsonl};

use super::inventory::{FoundFile, Inventory, SessionFiles};
use super::log::{self, LogScan};
use super::writer::{self, SessionWriter};
use super::{Root, Store};

/// The attribute that names the session of the program behind a conversation.
const SESSION_ID: &str = "session_id";

/// The member of a row that does.
const ROW_SESSION_ID: &str = "sessionId";

/// What an open log and its register have to say to each other.
#[derive(Debug)]
pub(super) struct Listing {
    register: Artifact,
    state: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    /// How many messages the log has, if it is known without counting.
    messages: Option<u64>,
    /// The register has a title for it.
    titled: bool,
    /// The log says something that the register has not heard.
    unheard: bool,
    /// The session of another program that the register tells.
    session_id: Option<String>,
}

impl Listing {
    /// Of a log that is there.
    pub(super) fn of(writer: &dyn Writer, files: &SessionFiles, head: &Head) -> Option<Self> {
        let register = writer.register(&head.log)?;
        let mut rows = files.about.iter();
        let row = rows.find(|about| matches!(about.subject, Subject::Session(_)));
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
        let state = Listed {
            messages: messages.filter(|_| known && titled),
            titled,
            unheard: !known,
            session_id: own.and_then(|row| row.attributes.get(SESSION_ID).cloned()),
        };
        Some(Listing {
            register,
            state: Mutex::new(state),
        })
    }

    /// Of a log that is being made.
    pub(super) fn of_new(writer: &dyn Writer, head: &Head) -> Option<Self> {
        Some(Listing {
            register: writer.register(&head.log)?,
            state: Mutex::default(),
        })
    }

    /// Notes that the register has heard what a row says.
    fn told(&self, row: &Row) {
        let mut state = self.state();
        state.titled |= row.title.is_some() || row.first_title.is_some() || row.answered;
        state.unheard = false;
        if state.titled {
            state.messages = Some(row.messages);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Listed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionWriter {
    /// Tells the register what a change has made of the log, if it must know at once: that there is
    /// a new log, that it has got an answer or a title. The rest it hears when the writer closes.
    pub(super) fn list(
        &self,
        change: &Change,
        entries: &[Entry],
        title: Option<String>,
    ) -> Result<()> {
        let Some(listing) = &self.listing else {
            return Ok(());
        };
        let said = entries.iter().filter(|entry| counts(entry)).count() as u64;
        let answered = entries.iter().any(|entry| {
            matches!(&entry.body, Body::Message(message) if message.role == Role::Assistant)
        });
        let begins = matches!(change, Change::Begin);
        let mut members = Members::new();
        let now = {
            let mut state = listing.state();
            state.messages = state.messages.map(|messages| messages + said);
            state.unheard |= said > 0;
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
            self.tell(title, begins, members)?;
        }
        if begins {
            let head = self.tail().head.clone();
            let row = Row {
                log: Some(head.log),
                cwd: head.cwd,
                git_branch: head.git_branch,
                ..Row::default()
            };
            introduce(&self.root, writer::writer_of(&self.root)?, &[row])?;
        }
        Ok(())
    }

    /// What the log holds must be counted again: not all of it was written here.
    pub(super) fn others_wrote(&self) {
        if let Some(listing) = &self.listing {
            listing.state().messages = None;
        }
    }

    /// Brings the register up to date, if it is behind.
    pub(super) fn heal(&self) -> Result<()> {
        let behind = self
            .listing
            .as_ref()
            .is_some_and(|listing| listing.state().unheard);
        match behind {
            true => self.tell(None, false, Members::new()),
            false => Ok(()),
        }
    }

    /// The members of its row that a new session was given.
    fn given_members(&self) -> Result<Members> {
        let writer = writer::writer_of(&self.root)?;
        let words = self.tail().head.words.clone();
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
        self.heal()
    }

    /// Closes several sessions. Each session list is read and written once for all sessions in it, so
    /// closing many costs little more than closing one. Returns what could not be brought up to date.
    pub fn close_all(writers: Vec<SessionWriter>) -> Vec<(SessionId, Error)> {
        let mut lists: HashMap<(PathBuf, Artifact), Vec<&SessionWriter>> = HashMap::new();
        for session in &writers {
            if let Some(listing) = session.listing.as_ref().filter(|it| it.state().unheard) {
                let key = (session.root.path.clone(), listing.register.clone());
                lists.entry(key).or_default().push(session);
            }
        }
        let mut failed = Vec::new();
        for ((_, register), sessions) in lists {
            if tell_together(&register, &sessions).is_err() {
                // One by one, so that a log that cannot be read keeps no other from the list.
                for session in sessions {
                    let healed = session.heal();
                    failed.extend(healed.err().map(|error| (session.session(), error)));
                }
            }
        }
        failed
    }

    /// What the log says to its register. `listed` means that the register has a row for it: a row
    /// that is gone is made anew, and says more than what has changed.
    fn row(&self, listing: &Listing, listed: bool) -> Result<Row> {
        let head = self.tail().head.clone();
        let counted = listing.state().messages.filter(|_| listed);
        let mut row = match counted {
            Some(messages) => Row {
                messages,
                updated: head.time,
                ..Row::default()
            },
            None => row_of_log(&self.root, &head.log)?.unwrap_or_default(),
        };
        row.log = Some(head.log.clone());
        row.cwd = head.cwd;
        row.git_branch = head.git_branch;
        Ok(row)
    }

    fn tell(&self, title: Option<String>, begins: bool, members: Members) -> Result<()> {
        let Some(listing) = &self.listing else {
            return Ok(());
        };
        let head = self.tail().head.clone();
        let writer = writer::writer_of(&self.root)?;
        let listed = !rows_of(&self.root, writer, &head.log)?.is_empty();
        let mut row = self.row(listing, listed)?;
        row.members = members;
        row.title = title;
        if begins && writer.lists_title() {
            let title = head.words.get(Head::TITLE).map(|title| title.trim());
            row.first_title = title.map(str::to_owned);
        }
        enrol(
            &self.root,
            writer,
            &listing.register,
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
    let writer = writer::writer_of(&first.root)?;
    let logs = sessions
        .iter()
        .map(|session| session.tail().head.log.clone());
    let logs: Vec<Row> = logs.map(|log| gone(&log)).collect();
    let old = read(&first.root.locate(register)?)?;
    let listed = match writer.enrol(register, old.as_deref(), &logs, false)? {
        Enrolled::Changed { removed, .. } => removed.len() >= sessions.len(),
        Enrolled::Same | Enrolled::NeedsAll => false,
    };
    let mut rows = Vec::new();
    for session in sessions {
        let listing = session.listing.as_ref();
        rows.extend(
            listing
                .map(|listing| session.row(listing, listed))
                .transpose()?,
        );
    }
    enrol(&first.root, writer, register, &rows)?;
    for (session, row) in sessions.iter().zip(&rows) {
        session.listing.iter().for_each(|listing| listing.told(row));
    }
    Ok(())
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        // The register is behind, and heals when next opened. What could not be read is reported; another error
        // has no one to go to.
        if let Err(error @ Error::Io { .. }) = self.heal() {
            self.root.failures.report(error);
        }
    }
}

/// Refuses a root whose own register its program cannot read: it would not show a new session.
pub(super) fn refuse_damaged(root: &Root, writer: &dyn Writer) -> Result<()> {
    let Ok(path) = root.locate(&Artifact::of(ArtifactKind::Register)) else {
        return Ok(());
    };
    let damage = read(&path)?.and_then(|bytes| writer.register_damage(&bytes));
    match damage {
        None => Ok(()),
        Some(why) => Err(super::config::damaged(&path, &why)),
    }
}

/// The folder that new sessions of a directory go to, where the root's own register tells.
pub(super) fn home(root: &Root, writer: &dyn Writer, directory: &str) -> Option<String> {
    let register = Artifact::of(ArtifactKind::Register);
    let bytes = root.failures.ok(read(&root.locate(&register).ok()?))??;
    let told = log::document_of(root, &register, &bytes).found.into_iter();
    let told: Vec<About> = told
        .filter_map(|entry| match entry.body {
            Body::Register(told) => Some(told),
            _ => None,
        })
        .flatten()
        .collect();
    writer.home(&told, directory)
}

/// Lists a log that was made whole.
pub(super) fn list_new(
    root: &Root,
    writer: &dyn Writer,
    head: &Head,
    title: Option<String>,
) -> Result<()> {
    let Some(register) = writer.register(&head.log) else {
        return Ok(());
    };
    let Some(mut row) = row_of_log(root, &head.log)? else {
        return Ok(());
    };
    row.cwd.clone_from(&head.cwd);
    row.title = title;
    let rows = [row];
    enrol(root, writer, &register, &rows)?;
    introduce(root, writer, &rows)
}

/// Tells the root's own register of the folders that new logs lie in. One that cannot be read is left
/// alone: it tells of more than logs, so it is not made anew, and the logs are there all the same.
fn introduce(root: &Root, writer: &dyn Writer, rows: &[Row]) -> Result<()> {
    let path = root.locate(&Artifact::of(ArtifactKind::Register))?;
    loop {
        let Some(old) = root.failures.ok(read(&path)) else {
            return Ok(());
        };
        let Some(new) = writer.introduce(old.as_deref(), rows) else {
            return Ok(());
        };
        if put(&path, old.as_deref(), &new, false)? {
            return Ok(());
        }
    }
}

/// What a log says to its register; nothing if it is not there.
pub(crate) fn row_of_log(root: &Root, log: &Artifact) -> Result<Option<Row>> {
    let path = root.locate(log)?;
    let Some(metadata) = root.failures.metadata(&path) else {
        return Ok(None);
    };
    let file = FoundFile::new(path, log.clone(), (&metadata).into());
    let mut row = row(root, &file)?;
    row.log = Some(log.clone());
    Ok(Some(row))
}

/// Lists all logs of a root, each register once.
pub(crate) fn enrol_all(root: &Root, writer: &dyn Writer, mut rows: Vec<Row>) -> Result<()> {
    let register_of = |row: &Row| row.log.as_ref().and_then(|log| writer.register(log));
    rows.retain(|row| register_of(row).is_some());
    if !rows.is_empty() {
        introduce(root, writer, &rows)?;
    }
    let mut registers: HashMap<Artifact, Vec<Row>> = HashMap::new();
    for row in rows {
        if let Some(register) = register_of(&row) {
            registers.entry(register).or_default().push(row);
        }
    }
    for (register, rows) in registers {
        let path = root.locate(&register)?;
        if read(&path)?.is_none() {
            writer::make_parent(root, &path)?;
            if let Enrolled::Changed { bytes, .. } = writer.enrol(&register, None, &rows, true)?
                && put(&path, None, &bytes, false)?
            {
                continue;
            }
        }
        enrol(root, writer, &register, &rows)?;
    }
    Ok(())
}

/// What a register says about a log.
pub(super) fn rows_of(root: &Root, writer: &dyn Writer, log: &Artifact) -> Result<Vec<String>> {
    let Some(register) = writer.register(log) else {
        return Ok(Vec::new());
    };
    let old = read(&root.locate(&register)?)?;
    match writer.enrol(&register, old.as_deref(), &[gone(log)], false)? {
        Enrolled::Changed { removed, .. } => Ok(removed),
        Enrolled::Same | Enrolled::NeedsAll => Ok(Vec::new()),
    }
}

/// Takes a log that is gone out of its register, and the register away with the last one. `save` gets
/// the rows that go, before they do: they are what the register says at that moment.
pub(super) fn strike(
    root: &Root,
    writer: &dyn Writer,
    log: &Artifact,
    save: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let Some(register) = writer.register(log) else {
        return Ok(());
    };
    let path = root.locate(&register)?;
    if read(&path)?.is_none() {
        return Ok(());
    }
    enrol_saving(root, writer, &register, &[gone(log)], save)?;
    remove_if_empty(root, writer, &register, &path)
}

/// A register without rows goes, and so does its folder if nothing else is left in it.
fn remove_if_empty(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    path: &Path,
) -> Result<()> {
    let Some(old) = read(path)? else {
        return Ok(());
    };
    if !writer.lists_nothing(register, &old) {
        return Ok(());
    }
    let inventory = Inventory::of(std::slice::from_ref(root));
    if !listed(root, writer, &inventory, register)?.is_empty() {
        return Ok(());
    }
    let removed = jsonl::held(path, || {
        let changed = || Error::Changed {
            path: path.to_owned(),
        };
        let metadata = path.symlink_metadata().map_err(|_| changed())?;
        let removal = Removal::open(path, &FileId::from(&metadata))?;
        if read(path)?.is_some_and(|now| now == old) {
            removal.unlink()?;
        }
        Ok(())
    });
    match removed {
        // What another program wrote meanwhile stays.
        Err(Error::Changed { .. }) => {}
        removed => removed?,
    }
    super::trash::remove_empty(path.parent(), &root.path);
    Ok(())
}

/// Lists logs that are there again, with what was said about them before. All at once: a register
/// that went with them is made anew from that, and not from what the other logs say.
pub(super) fn relist(
    root: &Root,
    writer: &dyn Writer,
    logs: impl Iterator<Item = (Artifact, Option<String>)>,
) -> Result<()> {
    let mut registers: HashMap<Artifact, Vec<Row>> = HashMap::new();
    for (log, text) in logs {
        let Some(register) = writer.register(&log) else {
            continue;
        };
        let unwritten = || Row {
            log: Some(log.clone()),
            ..Row::default()
        };
        let row = row_of_log(root, &log)?;
        if let Some(mut row) = row.or_else(|| text.is_some().then(unwritten)) {
            row.text = text;
            registers.entry(register).or_default().push(row);
        }
    }
    for (register, rows) in registers {
        enrol(root, writer, &register, &rows)?;
    }
    Ok(())
}

fn gone(log: &Artifact) -> Row {
    Row {
        log: Some(log.clone()),
        gone: true,
        ..Row::default()
    }
}

fn counts(entry: &Entry) -> bool {
    entry.id.is_some()
        && matches!(
            entry.body,
            Body::Message(_) | Body::Compaction { .. } | Body::System { .. }
        )
}

/// What a log says to its register.
fn row(root: &Root, file: &FoundFile) -> Result<Row> {
    let scan = log::outline(root, file)?;
    let mut row = row_of(&scan);
    if row.started.is_none() {
        // A log that says nothing yet began when its file was made.
        let written = Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok();
        row.started = written.filter(|_| file.id.mtime_ns > 0);
    }
    Ok(row)
}

fn row_of(scan: &LogScan) -> Row {
    // Whatever has an id, but for the line that says what a sub-agent is for.
    let said = |outline: &&Outline| outline.key.is_some() && purpose(outline).is_none();
    let mut row = Row::default();
    for outline in scan.outlines.iter().filter(said) {
        row.messages += 1;
        row.started = row.started.or(outline.time);
        row.updated = row.updated.max(outline.time);
        row.answered |= outline.kind == Kind::Assistant;
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
pub(super) fn enrol(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    rows: &[Row],
) -> Result<()> {
    enrol_saving(root, writer, register, rows, &mut |_| Ok(()))
}

/// The same; `save` gets what is taken out of the register. The register is only replaced if it still
/// says what it said then.
fn enrol_saving(
    root: &Root,
    writer: &dyn Writer,
    register: &Artifact,
    rows: &[Row],
    save: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let path = root.locate(register)?;
    writer::make_parent(root, &path)?;
    loop {
        let old = read(&path)?;
        let mut outcome = writer.enrol(register, old.as_deref(), rows, false)?;
        if outcome == Enrolled::NeedsAll {
            let all = every(root, writer, register, rows)?;
            outcome = writer.enrol(register, old.as_deref(), &all, true)?;
        }
        let Enrolled::Changed {
            bytes,
            damaged,
            removed,
        } = outcome
        else {
            return Ok(());
        };
        save(&removed)?;
        if put(&path, old.as_deref(), &bytes, damaged)? {
            return Ok(());
        }
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
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
        Ok(metadata) => jsonl::refuse_held([(path, &(&metadata).into())]),
        Err(_) => Ok(()),
    }
}

/// The same of the registers that list a session's logs.
pub(super) fn refuse_held_of(files: &SessionFiles) -> Result<()> {
    let Some(writer) = files.root.layout.writer().filter(|_| !files.is_lone()) else {
        return Ok(());
    };
    let there = files.listed_logs().filter(|file| !file.is_kept());
    let registers: HashSet<Artifact> = there
        .filter_map(|file| writer.register(&file.artifact))
        .collect();
    registers
        .iter()
        .try_for_each(|register| refuse_held(&files.root.locate(register)?))
}

/// Puts new content in the place of old. `false` if someone else was faster.
fn put(path: &Path, old: Option<&[u8]>, bytes: &[u8], damaged: bool) -> Result<bool> {
    let put = match old {
        None => jsonl::create_new(path, bytes),
        Some(old) => {
            let digest = jsonl::Digest::of(old);
            if damaged {
                set_aside(path, old, &digest)?;
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
fn set_aside(path: &Path, old: &[u8], digest: &jsonl::Digest) -> Result<()> {
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
fn every(root: &Root, writer: &dyn Writer, register: &Artifact, given: &[Row]) -> Result<Vec<Row>> {
    let mut rows = listed(
        root,
        writer,
        &Inventory::of(std::slice::from_ref(root)),
        register,
    )?;
    for row in given {
        rows.retain(|known| known.log != row.log);
        rows.push(row.clone());
    }
    Ok(rows)
}

fn listed(
    root: &Root,
    writer: &dyn Writer,
    inventory: &Inventory,
    register: &Artifact,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for files in inventory
        .sessions
        .iter()
        .filter(|files| files.root.path == root.path)
    {
        for file in files.logs() {
            if writer.register(&file.artifact).as_ref() == Some(register) {
                let mut row = row(root, file)?;
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
pub struct StaleRegister {
    /// Its root.
    pub root: Root,
    /// The document.
    pub path: PathBuf,
    /// What is wrong with it, in a few words.
    pub detail: &'static str,
    register: Artifact,
}

/// What a register is, and what it should be.
pub(crate) struct Rebuilt {
    pub(crate) old: Option<Vec<u8>>,
    pub(crate) new: Vec<u8>,
    /// It cannot be read as what it is.
    damaged: bool,
}

impl StaleRegister {
    /// What it should be now; `None` if it is that already.
    pub(crate) fn rebuilt(&self) -> Result<Option<Rebuilt>> {
        let writer = writer::writer_of(&self.root)?;
        let inventory = Inventory::of(std::slice::from_ref(&self.root));
        let old = read(&self.path)?;
        let rows = listed(&self.root, writer, &inventory, &self.register)?;
        Ok(
            match writer.enrol(&self.register, old.as_deref(), &rows, true)? {
                Enrolled::Changed { bytes, damaged, .. } => Some(Rebuilt {
                    old,
                    new: bytes,
                    damaged,
                }),
                Enrolled::Same | Enrolled::NeedsAll => None,
            },
        )
    }

    /// Puts what it should be in its place; what it was is safe. `false` if someone else was faster.
    /// Refused, unless `live`, if another program has it open for writing.
    pub(crate) fn put(&self, rebuilt: &Rebuilt, live: bool) -> Result<bool> {
        writer::make_parent(&self.root, &self.path)?;
        if !live {
            self.refuse_held()?;
        }
        put(&self.path, rebuilt.old.as_deref(), &rebuilt.new, false)
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
    pub fn kind(&self) -> FlawKind {
        FlawKind::StaleIndex
    }
}

impl Store {
    /// Sets members of a session's row in its layout's session list, such as the session of the program
    /// behind a conversation: names and JSON texts. [`Writer::session_members`] lists the names.
    pub fn set_members(&self, files: &SessionFiles, members: &Members) -> Result<()> {
        files.refuse_archived()?;
        let writer = writer::writer_of(&files.root)?;
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
        let Some((log, register)) = log.and_then(|log| Some((log, writer.register(log)?))) else {
            return Err(Error::refused(format!(
                "session {} stands in no session list",
                files.id
            )));
        };
        let mut row = row_of_log(&files.root, log)?.unwrap_or_default();
        row.log = Some(log.clone());
        row.members.clone_from(members);
        enrol(&files.root, writer, &register, &[row])
    }

    /// The registers that are missing, damaged, or behind their logs.
    pub fn stale_registers(&self, inventory: &Inventory) -> Vec<Result<StaleRegister>> {
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
            let wanted = logs.filter_map(|file| writer.register(&file.artifact));
            let others = inventory.others_of(ArtifactKind::Register);
            let there = others
                .filter(|(other, _)| other.path == root.path)
                .filter(|(other, _)| other.layout.name() == root.layout.name())
                .filter(|(_, file)| file.artifact.folder.is_some())
                .map(|(_, file)| file.artifact.clone());
            let mut registers: Vec<Artifact> = wanted.chain(there).collect();
            registers.sort_by(|a, b| a.folder.cmp(&b.folder));
            registers.dedup();
            for register in registers {
                found.extend(stale(root, writer, inventory, register).transpose());
            }
        }
        found
    }

    /// Makes a register say what its logs say. A damaged one is kept beside it.
    pub fn heal_register(&self, stale: &StaleRegister) -> Result<()> {
        while let Some(Rebuilt { old, new, damaged }) = stale.rebuilt()? {
            writer::make_parent(&stale.root, &stale.path)?;
            if put(&stale.path, old.as_deref(), &new, damaged)? {
                break;
            }
        }
        Ok(())
    }
}

fn stale(
    root: &Root,
    writer: &dyn Writer,
    inventory: &Inventory,
    register: Artifact,
) -> Result<Option<StaleRegister>> {
    let path = root.locate(&register)?;
    let old = read(&path)?;
    let rows = listed(root, writer, inventory, &register)?;
    let detail = match writer.enrol(&register, old.as_deref(), &rows, true)? {
        Enrolled::Same | Enrolled::NeedsAll => return Ok(None),
        Enrolled::Changed { .. } if old.is_none() => "missing",
        Enrolled::Changed { damaged: true, .. } => DAMAGED,
        Enrolled::Changed { .. } => "does not say what its logs say",
    };
    Ok(Some(StaleRegister {
        root: root.clone(),
        path,
        detail,
        register,
    }))
}

#[cfg(test)]
mod tests;
