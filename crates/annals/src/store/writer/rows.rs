//! Writes sessions of a database.
//!
//! A change is planned from the state of the session and written only if the session still has it, in
//! one transaction. If another program was faster, the change is planned again.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use annals_layouts::layout::{AppendState, Change, Edit, NewSession, Spawn, Writer};
use annals_layouts::model::{
    Artifact, Block, Body, Draft, Entry, EntryId, EntryKey, Fact, Framing, Outline, OutlineKind,
    RowFormat, SessionId, Todo,
};

use crate::error::{Error, Result};
use crate::store::append_point::AppendPoint;
use crate::store::fork::{ForkedSession, retitle};
use crate::store::inventory::{RootFile, SessionFiles};
use crate::store::lifecycle::SessionState;
use crate::store::log_reader::TailWindow;
use crate::store::record_source::{self, RowOutcome};
use crate::store::session::Session;
use crate::store::{Root, Store};

use super::{SessionWriter, WriteOptions, header_fields, with_plan_context};

/// Number of attempts to write to a session that other programs write to.
const ATTEMPTS: usize = 5;

/// Returns the writer of the sessions in a layout's database.
pub(super) fn row_writer(root: &Root) -> Result<&'static dyn Writer> {
    let writer = root.layout.row_writer();
    writer.ok_or_else(|| Error::read_only(root.layout.name()))
}

/// Returns the database that holds a session.
fn existing_database(path: &Path, framing: Framing) -> Result<&Path> {
    let database = record_source::disk_path(path, framing);
    match annals_jsonl::exists(database)? {
        true => Ok(database),
        false => Err(Error::refused(format!(
            "{} does not exist, and only its program can create it: start the program once",
            database.display()
        ))),
    }
}

impl Store {
    /// Begins a session in a database with these messages, like [`Store::create`].
    pub(crate) fn create_in_rows(
        &self,
        root: &Root,
        new: &NewSession,
        drafts: Vec<Draft>,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = row_writer(root)?;
        let zone = self.zone();
        let log = with_plan_context(options.now, &zone, |stamp| {
            writer.new_session_log(new, stamp)
        })?;
        self.create_rows(root, new, log, drafts, options)
    }

    /// Begins a session in a database with these messages, in one transaction. The database must exist.
    pub(super) fn create_rows(
        &self,
        root: &Root,
        new: &NewSession,
        log: Artifact,
        drafts: Vec<Draft>,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let path = root.locate(&log)?;
        existing_database(&path, log.framing)?;
        let session = log.session.clone().unwrap_or_else(|| new.id.clone());
        let head = AppendState {
            cwd: Some(new.cwd.clone()),
            git_branch: new.git_branch.clone(),
            writer_state: header_fields(new),
            ..AppendState::new(session, log.clone())
        };
        let file = RootFile::new(path, log, annals_jsonl::FileId::default());
        let mut writer = self.rows_writer(root, head, file, options);
        let Framing::Rows(format) = writer.append_point().file.artifact.framing else {
            return Err(Error::read_only(root.layout.name()));
        };
        // No message is older than its session, which would make it a copy, and none is later than now.
        let span = SignedDuration::from_millis(i64::try_from(drafts.len()).unwrap_or(0));
        let now = options.now.unwrap_or_else(Timestamp::now);
        writer.options.now = options.now.or_else(|| now.checked_sub(span).ok());
        let append = (!drafts.is_empty()).then_some(Change::Append(drafts));
        let changes: Vec<Change> = std::iter::once(Change::Begin).chain(append).collect();
        writer.apply_rows(format, &changes)?;
        writer.options.now = options.now;
        Ok(writer)
    }

    /// Copies a conversation of a session in a database into a new session of it, in one transaction.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(in crate::store) fn fork_rows(
        &self,
        session: &Session,
        format: &'static RowFormat,
        outlines: &[Outline],
        path: &[usize],
        to: &SessionId,
        title: Option<&str>,
        now: Timestamp,
    ) -> Result<ForkedSession> {
        let root = session.root();
        let writer = row_writer(root)?;
        let mut path = path.iter().rev().filter_map(|&at| outlines.get(at));
        let last = path.find(|it| it.kind.is_message() || it.kind == OutlineKind::Compaction);
        let id = SessionId::new(&writer.valid_id(to.as_str()))?;
        let new = NewSession::new(id, "/");
        let zone = self.zone();
        let log = with_plan_context(Some(now), &zone, |stamp| {
            writer.new_session_log(&new, stamp)
        })?;
        let file = root.locate(&log)?;
        let head = AppendState {
            leaf: last.and_then(Outline::id),
            ..AppendState::new(new.id.clone(), log.clone())
        };
        let options = WriteOptions {
            now: Some(now),
            ..WriteOptions::default()
        };
        let file = RootFile::new(file, log, annals_jsonl::FileId::default());
        let path = file.path.clone();
        let from = session.files.id.clone();
        let mut changes = vec![Change::Fork { from }];
        changes.extend(title.map(retitle));
        self.rows_writer(root, head, file, options)
            .apply_rows(format, &changes)?;
        Ok(ForkedSession {
            session: new.id,
            path,
        })
    }

    /// Writes the rows that records were made from, in one transaction. Returns `false` if the session
    /// exists.
    pub(crate) fn restore_rows(
        &self,
        root: &Root,
        id: &SessionId,
        records: &[Vec<u8>],
    ) -> Result<bool> {
        let writer = row_writer(root)?;
        let (path, framing) = self.row_log(root, id)?;
        let Framing::Rows(format) = framing else {
            return Err(Error::read_only(root.layout.name()));
        };
        let database = existing_database(&path, framing)?;
        let records = records.iter();
        let records: Vec<_> = records
            .map(|record| String::from_utf8_lossy(record))
            .collect();
        let records: Vec<&str> = records.iter().map(AsRef::as_ref).collect();
        let rows = writer.rows_of_records(id, &records)?;
        let durability = WriteOptions::default().durability;
        let outcome = record_source::write_rows(&path, format, None, &rows, durability);
        match outcome.map_err(|error| Error::io("write to", database, error))? {
            RowOutcome::Written => Ok(true),
            RowOutcome::Changed => Ok(false),
            RowOutcome::Refused(why) => Err(Error::refused(format!(
                "nothing was written to {}: {why}",
                database.display()
            ))),
        }
    }

    /// Returns whether a database, which must exist, has a session.
    pub(crate) fn has_rows(&self, root: &Root, id: &SessionId) -> Result<bool> {
        let (path, framing) = self.row_log(root, id)?;
        match record_source::stat(&path, framing) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    /// Returns the log of a session in a database, which must exist.
    fn row_log(&self, root: &Root, id: &SessionId) -> Result<(PathBuf, Framing)> {
        let writer = row_writer(root)?;
        let zone = self.zone();
        let new = NewSession::new(id.clone(), "/");
        let log = with_plan_context(None, &zone, |stamp| writer.new_session_log(&new, stamp))?;
        let path = root.locate(&log)?;
        root.ensure_inside(existing_database(&path, log.framing)?)?;
        Ok((path, log.framing))
    }

    /// Opens a session of a database.
    pub(super) fn open_rows(
        &self,
        files: &SessionFiles,
        file: &RootFile,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        row_writer(&files.root)?;
        let head = AppendState::new(files.id.clone(), file.artifact.clone());
        let writer = self.rows_writer(&files.root, head, file.clone(), options);
        writer.append_point().locate_rows(&files.root)?;
        Ok(writer)
    }

    fn rows_writer(
        &self,
        root: &Root,
        head: AppendState,
        file: RootFile,
        options: WriteOptions,
    ) -> SessionWriter {
        rows_writer(root, self.zone(), head, file, options)
    }
}

fn rows_writer(
    root: &Root,
    zone: TimeZone,
    head: AppendState,
    file: RootFile,
    options: WriteOptions,
) -> SessionWriter {
    SessionWriter {
        root: root.clone(),
        options,
        zone,
        log: Mutex::new(None),
        append_point: Mutex::new(AppendPoint::new(head, file, options.live)),
        log_totals: Mutex::default(),
        lone: false,
        archived_todos: Vec::new(),
        list_updater: None,
        state: Mutex::new(SessionState::Resumed),
        unwritten: false,
    }
}

impl SessionWriter {
    /// Begins the session of a sub-agent, in one transaction.
    pub(super) fn spawn_in_rows(
        &self,
        format: &'static RowFormat,
        head: &AppendState,
        spawn: &Spawn,
    ) -> Result<SessionWriter> {
        let log = row_writer(&self.root)?.new_agent_log(head, &spawn.agent)?;
        let path = self.root.locate(&log)?;
        let file = RootFile::new(path, log.clone(), annals_jsonl::FileId::default());
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            cwd: head.cwd.clone(),
            ..AppendState::new(head.session.clone(), log)
        };
        let zone = self.zone.clone();
        let writer = rows_writer(&self.root, zone, head, file, self.options);
        writer.apply_rows(format, &[Change::Spawn(spawn.clone())])?;
        Ok(writer)
    }

    /// Plans changes, writes their rows, and reads back the new entries.
    pub(super) fn apply_rows(
        &self,
        format: &'static RowFormat,
        changes: &[Change],
    ) -> Result<Vec<Entry>> {
        let begins = matches!(
            changes.first(),
            Some(Change::Begin | Change::Fork { .. } | Change::Spawn(_))
        );
        let (file, added) =
            self.write_changes(format, begins, |_| Ok::<_, Error>(Cow::Borrowed(changes)))?;
        match begins {
            true => Ok(Vec::new()),
            false => self.written_entries(&file, &added, changes),
        }
    }

    /// Reads the todos of a session, applies `edit` and writes the list, unless the session changes
    /// meanwhile; then `edit` is called again.
    pub(in crate::store) fn edit_todos_in_rows<E: From<Error>>(
        &self,
        format: &'static RowFormat,
        mut edit: impl FnMut(&Path, Vec<Todo>) -> Result<Vec<Todo>, E>,
    ) -> Result<Vec<Todo>, E> {
        let mut list = Vec::new();
        self.write_changes(format, false, |file| {
            list = edit(&file.path, self.todos_in_rows(file)?)?;
            Ok::<_, E>(Cow::Owned(vec![Change::SetTodos(list.clone())]))
        })?;
        Ok(list)
    }

    /// Reads the todos, which are in the last record.
    fn todos_in_rows(&self, file: &RootFile) -> Result<Vec<Todo>> {
        let handle = file.open()?;
        let window = TailWindow::read(&self.root, file, &handle, |_| true)?;
        let mut marked = window.scan.outlines.iter().enumerate().rev();
        let at = marked.find(|(_, outline)| outline.facts.contains(&Fact::Todos));
        let entry = at.and_then(|(at, _)| window.entry(&self.root, file, &handle, at));
        Ok(match entry.map(|entry| entry.body) {
            Some(Body::Todos(todos)) => todos,
            _ => Vec::new(),
        })
    }

    /// Plans changes and writes their rows. `changes` is called once the state of the session is known,
    /// again for each attempt. Returns the log, and the ids of the new entries.
    fn write_changes<'c, E: From<Error>>(
        &self,
        format: &'static RowFormat,
        begins: bool,
        mut changes: impl FnMut(&RootFile) -> Result<Cow<'c, [Change]>, E>,
    ) -> Result<(RootFile, Vec<EntryId>), E> {
        let writer = row_writer(&self.root)?;
        for _ in 0..ATTEMPTS {
            let mut tail = self.append_point();
            let expected = match begins {
                true => None,
                false => Some(tail.locate_rows(&self.root)?),
            };
            let changes = changes(&tail.file)?;
            let path = tail.file.path.clone();
            let database = record_source::disk_path(&path, tail.file.artifact.framing);
            self.root.ensure_inside(database)?;
            let mut rows = Vec::new();
            let mut added = Vec::new();
            for change in changes.iter() {
                self.check_links(&mut tail, change)?;
                let plan = self.plan(writer, &tail.state, change)?;
                for edit in plan.edits {
                    let Edit::Rows { rows: more, .. } = edit else {
                        let why = "a change of a database cannot write other files";
                        return Err(Error::refused(why).into());
                    };
                    rows.extend(more);
                }
                added.extend(plan.added);
            }
            let durability = self.options.durability;
            let outcome = record_source::write_rows(&path, format, expected, &rows, durability);
            match outcome.map_err(|error| Error::io("write to", database, error))? {
                RowOutcome::Written => return Ok((tail.file.clone(), added)),
                RowOutcome::Changed if begins => {
                    let session = &tail.state.session;
                    return Err(Error::Exists(format!(
                        "the session {session} already exists in {}",
                        database.display()
                    ))
                    .into());
                }
                RowOutcome::Changed => {}
                RowOutcome::Refused(why) => {
                    return Err(Error::refused(format!(
                        "nothing was written to {}: {why}",
                        database.display()
                    ))
                    .into());
                }
            }
        }
        Err(Error::refused(
            "nothing was written: the session changes too often; try again when its program is idle",
        )
        .into())
    }

    /// Returns the entries of the session that a change has added or completed.
    fn written_entries(
        &self,
        file: &RootFile,
        added: &[EntryId],
        changes: &[Change],
    ) -> Result<Vec<Entry>> {
        let handle = file.open()?;
        let window = TailWindow::read(&self.root, file, &handle, |_| true)?;
        let keys: Vec<EntryKey> = added.iter().map(|id| id.key()).collect();
        let drafts = changes.iter().filter_map(|change| match change {
            Change::Append(drafts) => Some(drafts),
            _ => None,
        });
        let blocks = drafts.flatten().filter_map(|draft| match &draft.body {
            Body::Message(message) => Some(&message.blocks),
            _ => None,
        });
        let calls = blocks.flatten().filter_map(|block| match block {
            Block::ToolResult { call, .. } => Some(EntryKey::from_text(call)),
            _ => None,
        });
        let calls: Vec<EntryKey> = calls.collect();
        let mut found = Vec::new();
        for (at, outline) in window.scan.outlines.iter().enumerate() {
            let is_new = outline.key.is_some_and(|key| keys.contains(&key))
                || outline.results.iter().any(|call| calls.contains(call));
            if is_new {
                found.extend(window.entry(&self.root, file, &handle, at));
            }
        }
        Ok(found)
    }
}
