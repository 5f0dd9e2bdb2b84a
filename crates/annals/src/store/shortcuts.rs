//! Convenience methods for embedders.
//!
//! Each combines an inventory, a search or a new id into one call. The other methods can do the
//! same.

use std::path::PathBuf;

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};
use annals_layouts::Subject;
use annals_layouts::layout::{Layout, NewSession, Spawn};
use annals_layouts::model::{AgentId, Entry, SessionId};

use super::inventory::{Inventory, SessionFiles};
use super::{
    RecordRef, Root, Session, SessionInfo, SessionWriter, Store, Target, WriteOptions, agent,
};

impl Store {
    /// Opens a root of a layout given by name. `state` is the directory for annals' own state: the
    /// trash, pins, the archive.
    pub fn open(layout: &str, root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Result<Self> {
        Ok(Store::new(vec![Root::new(layout, root)?]).with_state(state))
    }

    /// Begins a session for a working directory in the first root, with a new id.
    pub fn begin(&self, cwd: &str) -> Result<SessionWriter> {
        self.begin_with(&NewSession::unnamed(cwd)?)
    }

    /// Begins a session in the first root.
    pub fn begin_with(&self, new: &NewSession) -> Result<SessionWriter> {
        let Some(root) = self.roots().first() else {
            return Err(Error::refused("there is no root to begin a session in"));
        };
        self.create(root, new, WriteOptions::default())
    }

    /// Returns the sessions of a project, given by directory or name, or of all projects, newest
    /// first. Reports unreadable sessions to [`Store::failures`].
    pub fn list(&self, project: Option<&str>) -> Vec<SessionInfo> {
        let rows = self
            .sessions(&self.inventory())
            .read(&|_, _| ())
            .into_iter();
        let rows = rows.filter_map(|row| self.failures.ok(row));
        let is_wanted =
            |row: &SessionInfo| project.is_none_or(|wanted| row.matches_project_or_earlier(wanted));
        let mut rows: Vec<SessionInfo> = rows.filter(is_wanted).collect();
        crate::sort::by(&mut rows, |a, b| {
            (b.updated, &a.id).cmp(&(a.updated, &b.id))
        });
        rows
    }

    /// Opens a session for appending, given by a unique id prefix or the path of its log.
    pub fn resume(&self, id: &str, options: WriteOptions) -> Result<SessionWriter> {
        self.open_writer(&self.files_for_tail(id, Store::find_to_write)?, options)
    }

    /// Reads a complete session, given by a unique id prefix or the path of its log.
    pub fn session(&self, id: &str) -> Result<Session> {
        Session::read(self.find_files(id, Store::find)?)
    }

    /// Reads only the end of a session: enough for its last `messages` messages.
    pub fn tail(&self, id: &str, messages: usize) -> Result<Session> {
        Session::read_tail(self.files_for_tail(id, Store::find)?, messages)
    }

    /// Returns the most recently updated session of a project, given by directory or name, or of
    /// all projects.
    pub fn latest(&self, project: Option<&str>) -> Result<SessionFiles> {
        let inventory = self.inventory();
        let rows = self.sessions(&inventory).read(&|_, _| ());
        let rows = inventory.sessions.into_iter().zip(rows);
        let rows = rows.filter_map(|(files, row)| Some((self.failures.ok(row)?, files)));
        let rows = rows
            .filter(|(row, _)| project.is_none_or(|wanted| row.matches_project_or_earlier(wanted)));
        let newest = rows.max_by(|(a, _), (b, _)| (a.updated, &b.id).cmp(&(b.updated, &a.id)));
        let newest = newest.map(|(_, files)| files);
        newest.ok_or_else(|| Error::NotFound {
            what: Subject::Session,
            id: project.unwrap_or("latest").to_owned(),
        })
    }

    /// Returns a message of any session, by its id or a unique prefix of it.
    pub fn message(&self, id: &str) -> Result<Entry> {
        let (session, spot) = self.find_record(id)?;
        let found = session.read_record(spot)?.1;
        found.ok_or_else(|| Error::NotFound {
            what: Subject::Message,
            id: id.to_owned(),
        })
    }

    /// Returns the entries on the path to a message of any session, oldest first, including the
    /// message.
    pub fn ancestry(&self, id: &str) -> Result<Vec<Entry>> {
        let (session, spot) = self.find_record(id)?;
        let path = session
            .log(spot.log)
            .and_then(|(_, _, tree)| tree.path_to(spot.entry))
            .unwrap_or_else(|| vec![spot.entry]);
        let mut found = Vec::with_capacity(path.len());
        session.each_entry_of_log(spot.log, &path, |entry| {
            found.push(entry);
            Ok(true)
        })?;
        Ok(found)
    }

    fn find_record(&self, id: &str) -> Result<(Session, RecordRef)> {
        let (files, id) = self.inventory().find_message(id)?;
        let session = Session::read(files)?;
        let spots = session.find_records(id.as_str())?;
        let first = spots.first().copied();
        let first = first.ok_or_else(|| Error::NotFound {
            what: Subject::Message,
            id: id.to_string(),
        })?;
        Ok((session, first))
    }

    /// Copies a message and all entries on the path to it into a new session.
    pub fn fork_at(&self, session: &Session, message: &str) -> Result<SessionId> {
        let at = session.find_entry(message)?;
        let path = session.tree().and_then(|tree| tree.path_to(at));
        let path = path
            .ok_or_else(|| Error::refused(format!("`{message}` is not part of a conversation")))?;
        let to = SessionId::new(&Uuid::new_v4().to_string())?;
        Ok(self
            .fork(session, &path, to, None, Timestamp::now())?
            .session)
    }

    /// Finds a session of which only the end is read.
    fn files_for_tail(&self, id: &str, find: Find) -> Result<SessionFiles> {
        let inventory = Inventory::for_log(self, id, None);
        let inventory = inventory.unwrap_or_else(|| self.inventory());
        whole_session(find(self, &inventory, id)?, id)
    }

    pub(super) fn find_files(&self, id: &str, find: Find) -> Result<SessionFiles> {
        whole_session(find(self, &self.inventory(), id)?, id)
    }
}

/// [`Store::find`] or [`Store::find_to_write`].
type Find = fn(&Store, &Inventory, &str) -> Result<Target>;

/// Returns the files of a target; fails if it is a sub-agent's log or a message.
fn whole_session(target: Target, id: &str) -> Result<SessionFiles> {
    target.refuse_agent()?;
    match target.message {
        None => Ok(target.files),
        Some(_) => Err(Error::refused(format!(
            "`{id}` is a message; name a session"
        ))),
    }
}

impl SessionWriter {
    /// Layout of the session's root.
    pub fn layout(&self) -> &'static dyn Layout {
        self.root.layout
    }

    /// Opens a sub-agent's log for writing. Begins the sub-agent if the session has none with
    /// exactly this id. Returns whether it began.
    ///
    /// A sub-agent that was begun earlier and has no entries keeps its kind, description and call
    /// where `spawn` has none.
    pub fn open_or_spawn_agent(
        store: &Store,
        files: &SessionFiles,
        spawn: &Spawn,
        options: WriteOptions,
    ) -> Result<(SessionWriter, bool)> {
        match SessionWriter::open_agent(store, files, spawn.agent.as_str(), options) {
            Err(Error::NotFound { .. }) => {}
            opened => return Ok((opened?, false)),
        }
        let mut spawn = spawn.clone();
        let begun = agent::purpose_from_document(files, &spawn.agent);
        if let Some((kind, description, call)) = &begun {
            let keep = |slot: &mut String, known: &Option<String>| {
                if slot.is_empty() {
                    *slot = known.clone().unwrap_or_default();
                }
            };
            keep(&mut spawn.kind, kind);
            keep(&mut spawn.description, description);
            spawn.call = spawn.call.or_else(|| call.clone());
        }
        let main = store.open_writer(files, options)?;
        Ok((main.spawn(&spawn)?, begun.is_none()))
    }

    /// Begins a sub-agent with a new id for a tool call of this session.
    ///
    /// The caller must also write the entry of the call: readers link the sub-agent to it.
    pub fn delegate(&self, call: &str, kind: &str, description: &str) -> Result<SessionWriter> {
        let unique = Uuid::new_v4().simple().to_string();
        let agent = format!("a{}", unique.get(..16).unwrap_or(&unique));
        self.spawn(&Spawn::new(AgentId::new(&agent)?, kind, description).call(call))
    }
}
