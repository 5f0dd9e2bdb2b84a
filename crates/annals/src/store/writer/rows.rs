//! Writes sessions of a database.
//!
//! A change is planned from the state of the session and written only if the session still has it, in
//! one transaction. If another program was faster, the change is planned again.

use std::sync::Mutex;

use annals_layouts::layout::{AppendState, Change, Edit, NewSession, Writer};
use annals_layouts::model::{
    Artifact, Block, Body, Draft, Entry, EntryId, EntryKey, Framing, RowFormat,
};

use crate::error::{Error, Result};
use crate::store::append_point::AppendPoint;
use crate::store::inventory::{RootFile, SessionFiles};
use crate::store::lifecycle::SessionState;
use crate::store::log_reader::TailWindow;
use crate::store::record_source::{self, RowOutcome};
use crate::store::{Root, Store};

use super::{SessionWriter, WriteOptions, header_fields, with_plan_context};

/// Number of attempts to write to a session that other programs write to.
const ATTEMPTS: usize = 5;

/// Returns the writer of the sessions in a layout's database.
pub(super) fn row_writer(root: &Root) -> Result<&'static dyn Writer> {
    let writer = root.layout.row_writer();
    writer.ok_or_else(|| Error::read_only(root.layout.name()))
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
        let database = record_source::disk_path(&path, log.framing);
        if !annals_jsonl::exists(database)? {
            return Err(Error::refused(format!(
                "{} does not exist, and only its program can create it: start the program once",
                database.display()
            )));
        }
        let session = log.session.clone().unwrap_or_else(|| new.id.clone());
        let head = AppendState {
            cwd: Some(new.cwd.clone()),
            git_branch: new.git_branch.clone(),
            writer_state: header_fields(new),
            ..AppendState::new(session, log.clone())
        };
        let file = RootFile::new(path, log, annals_jsonl::FileId::default());
        let writer = self.rows_writer(root, head, file, options);
        let Framing::Rows(format) = writer.append_point().file.artifact.framing else {
            return Err(Error::read_only(root.layout.name()));
        };
        let append = (!drafts.is_empty()).then_some(Change::Append(drafts));
        let changes: Vec<Change> = std::iter::once(Change::Begin).chain(append).collect();
        writer.apply_rows(format, &changes)?;
        Ok(writer)
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
        SessionWriter {
            root: root.clone(),
            options,
            zone: self.zone(),
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
}

impl SessionWriter {
    /// Plans changes, writes their rows, and reads back the new entries.
    pub(super) fn apply_rows(
        &self,
        format: &'static RowFormat,
        changes: &[Change],
    ) -> Result<Vec<Entry>> {
        let writer = row_writer(&self.root)?;
        let begins = matches!(changes.first(), Some(Change::Begin));
        for _ in 0..ATTEMPTS {
            let mut tail = self.append_point();
            let expected = match begins {
                true => None,
                false => Some(tail.locate_rows(&self.root)?),
            };
            let path = tail.file.path.clone();
            let database = record_source::disk_path(&path, tail.file.artifact.framing);
            self.root.ensure_inside(database)?;
            let mut rows = Vec::new();
            let mut added = Vec::new();
            for change in changes {
                self.check_links(&mut tail, change)?;
                let plan = self.plan(writer, &tail.state, change)?;
                for edit in plan.edits {
                    let Edit::Rows { rows: more, .. } = edit else {
                        let why = "a change of a database cannot write other files";
                        return Err(Error::refused(why));
                    };
                    rows.extend(more);
                }
                added.extend(plan.added);
            }
            let durability = self.options.durability;
            let outcome = record_source::write_rows(&path, format, expected, &rows, durability);
            match outcome.map_err(|error| Error::io("write to", database, error))? {
                RowOutcome::Written => {
                    let file = tail.file.clone();
                    drop(tail);
                    return match begins {
                        true => Ok(Vec::new()),
                        false => self.written_entries(&file, &added, changes),
                    };
                }
                RowOutcome::Changed if begins => {
                    let session = &tail.state.session;
                    return Err(Error::Exists(format!(
                        "the session {session} already exists in {}",
                        database.display()
                    )));
                }
                RowOutcome::Changed => {}
                RowOutcome::Refused(why) => {
                    return Err(Error::refused(format!(
                        "nothing was written to {}: {why}",
                        database.display()
                    )));
                }
            }
        }
        Err(Error::refused(
            "nothing was written: the session changes too often; try again when its program is idle",
        ))
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
