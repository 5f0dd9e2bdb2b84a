//! Begins, resumes, forks, deletes and restores sessions.

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::{Session, SessionWriter, TrashItem, WriteOptions};
use annals_layouts::layout::NewSession;
use annals_layouts::model::{Members, SessionId};

use super::Service;

/// Question for a new session.
#[derive(Clone, Debug, Default)]
pub struct BeginRequest {
    /// Its working directory.
    pub cwd: String,
    /// Number of the root.
    pub root: usize,
    /// Its id; generated if unset.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its folder, such as `WORKSPACE/AGENT`, in layouts that have folders besides those of projects.
    pub folder: Option<String>,
    /// Members that only its layout has, as JSON texts.
    pub members: Members,
    /// Options for writing.
    pub options: WriteOptions,
}

impl Service {
    /// Begins a session and opens it for writing.
    pub fn begin(&self, request: &BeginRequest) -> Result<SessionWriter> {
        let root = self.store.roots().get(request.root);
        let root =
            root.ok_or_else(|| Error::refused(format!("there is no root {}", request.root)))?;
        let mut new = match &request.id {
            Some(id) => {
                let writer = root.layout.writer();
                let writer = writer.ok_or_else(|| {
                    let layout = root.layout.name();
                    Error::refused(format!("annals does not write the layout {layout}"))
                })?;
                NewSession::named(writer, id, &request.cwd)?
            }
            None => NewSession::unnamed(&request.cwd)?,
        };
        new.title.clone_from(&request.title);
        new.folder.clone_from(&request.folder);
        new.members.clone_from(&request.members);
        self.store
            .create(root, &new, self.write_options(request.options))
    }

    /// Opens a session for appending.
    pub fn resume(&self, id: &str, options: WriteOptions) -> Result<SessionWriter> {
        self.store.resume(id, self.write_options(options))
    }

    /// Copies the entries up to a message, or of the conversation that would be resumed, into a new
    /// session. Its id is `to`, or else generated.
    pub fn fork(
        &self,
        id: &str,
        at: Option<&str>,
        title: Option<&str>,
        to: Option<&str>,
    ) -> Result<SessionId> {
        let session = Session::read(self.find_session(&self.inventory(), id)?)?;
        let path = match at {
            Some(message) => {
                let at = session.find_entry(message)?;
                let path = session.tree().and_then(|tree| tree.path_to(at));
                path.ok_or_else(|| {
                    Error::refused(format!("`{message}` is not part of a conversation"))
                })?
            }
            None => session.resumed_entries().0,
        };
        let to = match to {
            None => SessionId::new(&Uuid::new_v4().to_string())?,
            // UUIDs that differ only in case would be one file on some systems.
            Some(to) if Uuid::try_parse(to).is_ok() => SessionId::new(&to.to_ascii_lowercase())?,
            Some(to) => SessionId::new(to)?,
        };
        let forked = self.store.fork(&session, &path, to, title, self.now())?;
        Ok(forked.session)
    }

    /// Moves a session to the trash.
    pub fn delete(&self, id: &str) -> Result<TrashItem> {
        let files = self.find_session(&self.store.inventory_without_archive(), id)?;
        self.store.trash().move_in(&files, self.now())
    }

    /// Restores a session from the trash.
    pub fn undelete(&self, id: &str) -> Result<TrashItem> {
        self.store.trash().restore(id)
    }

    /// Moves all sessions of a project to the trash, or with `plan` returns what would be moved.
    pub fn reset(&self, project: &str, plan: bool) -> Result<Vec<TrashItem>> {
        match plan {
            true => self.store.trash().plan_project(project, self.now()),
            false => {
                let moved = self.store.trash().move_project_in(project, self.now());
                moved.into_iter().collect()
            }
        }
    }

    fn write_options(&self, options: WriteOptions) -> WriteOptions {
        WriteOptions {
            now: options.now.or(self.now),
            ..options
        }
    }
}
