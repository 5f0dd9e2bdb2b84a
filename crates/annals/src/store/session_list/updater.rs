//! Updates of session lists by writers of sessions.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_layouts::json;
use annals_layouts::layout::{AppendState, Change, ListUpdate, RowUpdate, Writer};
use annals_layouts::model::{Artifact, Body, Entry, ListSubject, Members, Role, SessionId};

use super::super::SessionFiles;
use super::super::writer::{self, SessionWriter};
use super::{
    ROW_SESSION_ID, SESSION_ID, is_counted, list_row_from_log, read_optional, register_folders,
    removed_row, rows_for_log, update_session_list,
};

/// Decides when an open log's session list must be updated.
#[derive(Debug)]
pub(in crate::store) struct ListUpdater {
    list: Artifact,
    state: Mutex<ListState>,
}

#[derive(Debug, Default)]
struct ListState {
    /// Number of messages in the log, if known without counting.
    messages: Option<u64>,
    /// Whether the session list has a title for the log.
    titled: bool,
    /// Whether the session list is behind the log.
    outdated: bool,
    /// Session id of the underlying program, as in the session list.
    session_id: Option<String>,
}

impl ListUpdater {
    /// Creates the updater of an existing log.
    pub(in crate::store) fn for_log(
        writer: &dyn Writer,
        files: &SessionFiles,
        head: &AppendState,
    ) -> Option<Self> {
        let session_list = writer.session_list(&head.log)?;
        let mut rows = files.list_rows.iter();
        let row = rows.find(|about| matches!(about.subject, ListSubject::Session(_)));
        let own = row.filter(|_| head.agent.is_none());
        // Session lists store times in milliseconds.
        let same = |a: Timestamp, b: Timestamp| a.as_millisecond() == b.as_millisecond();
        // If two messages have the newest time, the row may have been written between them.
        let known = own.is_some_and(|row| match (row.updated, head.time) {
            (Some(listed), Some(newest)) => same(listed, newest) && !head.is_time_shared,
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
            list: session_list,
            state: Mutex::new(state),
        })
    }

    /// Creates the updater of a new log.
    pub(in crate::store) fn for_new_log(writer: &dyn Writer, head: &AppendState) -> Option<Self> {
        Some(ListUpdater {
            list: writer.session_list(&head.log)?,
            state: Mutex::default(),
        })
    }

    /// Records that the session list contains a row.
    fn mark_listed(&self, row: &RowUpdate) {
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
    /// Updates the session list if a change requires it at once: a new log, the first answer, a
    /// title, another session id. Other changes are written when the writer closes.
    pub(in crate::store) fn update_list(
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
            // The session can be resumed by the session id of the underlying program.
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

    /// Marks the message count as unknown, because another writer appended to the log.
    pub(in crate::store) fn invalidate_message_count(&self) {
        if let Some(listing) = &self.list_updater {
            listing.state().messages = None;
        }
    }

    /// Updates the session list if it is stale.
    pub(in crate::store) fn refresh_list(&self) -> Result<()> {
        let behind = self
            .list_updater
            .as_ref()
            .is_some_and(|listing| listing.state().outdated);
        match behind {
            true => self.write_list(None, false, Members::new()),
            false => Ok(()),
        }
    }

    /// Returns the row members that were given for a new session.
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

    /// Closes the session and updates its session list. A dropped writer tries this too, but
    /// reports only a failed read, to [`Store::failures`].
    ///
    /// [`Store::failures`]: crate::store::Store::failures
    pub fn close(self) -> Result<()> {
        self.refresh_list()
    }

    /// Closes several sessions. Each session list is read and written once for all of its sessions.
    /// Returns the sessions whose list could not be updated.
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
        for ((_, session_list), sessions) in lists {
            if update_together(&session_list, &sessions).is_err() {
                // One by one, so that an unreadable log does not block the others.
                for session in sessions {
                    let healed = session.refresh_list();
                    failed.extend(healed.err().map(|error| (session.session(), error)));
                }
            }
        }
        failed
    }

    /// Returns the row update of the log. `listed` means that the session list has a row for it; a
    /// missing row is rebuilt from the log.
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
        listing.mark_listed(&row);
        Ok(())
    }
}

/// Updates a session list for several of its logs.
fn update_together(session_list: &Artifact, sessions: &[&SessionWriter]) -> Result<()> {
    let Some(first) = sessions.first() else {
        return Ok(());
    };
    let writer = writer::layout_writer(&first.root)?;
    let logs = sessions
        .iter()
        .map(|session| session.append_point().state.log.clone());
    let logs: Vec<RowUpdate> = logs.map(|log| removed_row(&log)).collect();
    let old = read_optional(&first.root.locate(session_list)?)?;
    let listed = match writer.update_session_list(session_list, old.as_deref(), &logs, false)? {
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
    update_session_list(&first.root, writer, session_list, &rows)?;
    for (session, row) in sessions.iter().zip(&rows) {
        session
            .list_updater
            .iter()
            .for_each(|listing| listing.mark_listed(row));
    }
    Ok(())
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        // The list is stale and is updated when the log is next opened. Only read failures can be
        // reported here.
        if let Err(error @ Error::File(FileError::Io { .. })) = self.refresh_list() {
            self.root.failures.report(error);
        }
    }
}
