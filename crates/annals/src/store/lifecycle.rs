//! The state of a session: created, active, resumed, expired, deleted.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use annals_layouts::model::{ListSubject, Outline, Project, SessionId, TitleSource, Usage};
use annals_layouts::tree::{Title, one_line};

use super::Root;
use super::info::SessionInfo;
use super::inventory::{Inventory, SessionLists};
use super::session::Session;
use super::trash::{Trash, TrashItem};

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionState {
    /// Without messages yet.
    Created,
    /// In use.
    Active,
    /// Opened again, without new messages since: see
    /// [`SessionWriter::state`](super::SessionWriter::state).
    Resumed,
    /// Inactive for longer than its program keeps sessions; a clean-up would move it.
    Expired,
    /// In the trash.
    Deleted,
}

impl SessionState {
    /// The name of the state in JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::Created => "created",
            SessionState::Active => "active",
            SessionState::Resumed => "resumed",
            SessionState::Expired => "expired",
            SessionState::Deleted => "deleted",
        }
    }

    /// Returns the state of a session with these records in its main log, regardless of the time.
    pub(super) fn from_outlines(outlines: &[Outline]) -> Self {
        match outlines.iter().any(|outline| outline.kind.is_message()) {
            true => SessionState::Active,
            false => SessionState::Created,
        }
    }
}

impl SessionInfo {
    /// Returns its state at a given time.
    pub fn state_at(&self, now: Timestamp) -> SessionState {
        match self.state {
            SessionState::Deleted => SessionState::Deleted,
            _ if self.is_expired(now) => SessionState::Expired,
            state => state,
        }
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        let cutoff = self.keep_days.and_then(|days| keep_cutoff(days, now));
        let both = self.last_activity.zip(cutoff);
        both.is_some_and(|(last, cutoff)| last < cutoff)
    }
}

/// Returns the time before which inactive sessions expire, if a program keeps sessions for `days`.
pub(crate) fn keep_cutoff(days: u64, now: Timestamp) -> Option<Timestamp> {
    now.checked_sub(keep_duration(days)).ok()
}

/// Converts days to a duration, at most a hundred years.
pub(super) fn keep_duration(days: u64) -> SignedDuration {
    SignedDuration::from_hours(days.min(36_500) as i64 * 24)
}

impl Trash<'_> {
    /// Lists the sessions in the trash, the newest deletion first. Root and file are the original
    /// ones.
    pub fn sessions(&self) -> Result<Vec<SessionInfo>> {
        let mut rows = Vec::new();
        for trashed in self.items()? {
            for session in trashed.sessions() {
                let row = self.read_trashed(&trashed, session);
                rows.extend(row.or_else(|| info_from_trash_item(&trashed, session)));
            }
        }
        Ok(rows)
    }

    /// Reads a deleted session from the trash, which keeps paths relative to the root.
    fn read_trashed(&self, trashed: &TrashItem, session: &str) -> Option<SessionInfo> {
        let place = self.store.failures.ok(self.files_dir(trashed))?;
        let root = Root::new(&trashed.layout, place).ok()?;
        let root = root.reporting_to(&self.store.failures);
        let mut there = Inventory::scan(std::slice::from_ref(&root)).sessions;
        there.retain(|files| files.id.as_str() == session);
        let mut files = there.into_iter().next()?;
        let mut lists = SessionLists::default();
        lists.add_stored(trashed.list_rows(&root));
        files.list_rows = lists.rows(files.folder(), &files.id);
        let file = files.main_path().strip_prefix(&root.path).ok()?;
        let file = trashed.root.join(file);
        let info = self.store.failures.ok(Session::read(files))?.info(None);
        Some(SessionInfo {
            root: trashed.root.clone(),
            file,
            state: SessionState::Deleted,
            expires: None,
            keep_days: None,
            ..info
        })
    }
}

/// Builds the row of a session that cannot be read in the trash.
fn info_from_trash_item(trashed: &TrashItem, session: &str) -> Option<SessionInfo> {
    let file = trashed.files.first().map(|file| &file.path);
    // A session that was never written to has only a row in the session list.
    let file = file.or(trashed.rows.first().map(|row| &row.path))?;
    let root = Root::new(&trashed.layout, &trashed.root).ok()?;
    let id = SessionId::new(session).ok()?;
    let mut rows = trashed.list_rows(&root).into_iter();
    let row = rows.find(|(_, row)| row.subject == ListSubject::Session(id.clone()));
    Some(SessionInfo {
        layout: root.layout.name(),
        root: trashed.root.clone(),
        id,
        file: trashed.root.join(file),
        project: Project {
            path: trashed.root.display().to_string(),
            guessed: true,
        },
        other_directories: Vec::new(),
        title: row.and_then(|(_, row)| row.title).map(|text| Title {
            text: one_line(&text),
            source: TitleSource::Custom,
        }),
        tag: None,
        attributes: Default::default(),
        state: SessionState::Deleted,
        expires: None,
        keep_days: None,
        last_activity: Some(trashed.deleted),
        last_activity_by_file: false,
        archived: false,
        started: None,
        updated: Some(trashed.deleted),
        entries: 0,
        messages: 0,
        conversations: 0,
        agents: 0,
        agent_names: Default::default(),
        bytes: trashed.files.iter().map(|file| file.bytes).sum(),
        flaws: 0,
        flaw_kinds: Default::default(),
        models: Default::default(),
        usage: Usage::default(),
        charges: Vec::new(),
        messages_by_day: Default::default(),
    })
}
