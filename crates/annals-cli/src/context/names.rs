//! Names of sessions: ids, prefixes, paths of logs, `latest`, and parts of titles.

use std::borrow::Cow;
use std::fmt;

use annals::Error;
use annals::Subject;
use annals::archive::ROOT_ID;
use annals::jsonl::Error as FileError;
use annals::store::{Inventory, SessionFiles, SessionInfo, Target, TrashItem};
use anyhow::{Result, bail};

use super::Context;
use super::spellings::session_spellings;
use crate::command_errors::CandidateDetails;
use annals_render::command::quoted_command;
use annals_render::size::pluralize;
use annals_render::width::truncate_end;

/// The names for the most recently written session.
const LATEST: [&str; 2] = ["latest", "last"];

/// Minimum number of characters in a part of a title that names a session.
const MIN_TITLE_CHARS: usize = 3;

/// Width of a title in a list of candidates.
const MAX_TITLE_WIDTH: usize = 60;

/// Whether a text is a name for the most recently written session.
pub(crate) fn is_latest(text: &str) -> bool {
    LATEST.contains(&text)
}

/// Use of a session that a command resolves: reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it: `latest` may be a session of another directory if this one has none.
    Read,
    /// Changes it: `latest` is a session of the current directory, and a thread is named exactly.
    Write,
}

/// The error for a session that is in the trash.
#[derive(Debug)]
pub(crate) struct DeletedSession {
    id: String,
    ago: String,
}

impl fmt::Display for DeletedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let undo = quoted_command("annals delete --undo=", &self.id, "");
        write!(
            f,
            "session {} was deleted {} and is in the trash; {undo} restores it",
            self.id, self.ago
        )
    }
}

impl std::error::Error for DeletedSession {}

impl Context {
    /// Finds `SESSION[@MESSAGE]`: by a prefix of the id, the path of a log, `latest`, or a part of
    /// the title. `latest` is the most recently written session of the current directory, or of all
    /// directories if this one has none.
    pub(crate) fn find(&mut self, name: &str) -> Result<Target> {
        let inventory = self.inventory();
        self.find_in(&inventory, name)
    }

    /// Like [`Self::find`], with an inventory.
    pub(crate) fn find_in(&mut self, inventory: &Inventory, name: &str) -> Result<Target> {
        self.resolve_name(inventory, name, Access::Read)
    }

    /// Like [`Self::find`], for commands that change the session: `latest` is only searched in the
    /// current directory.
    pub(crate) fn find_to_write(&mut self, name: &str) -> Result<Target> {
        let inventory = self.inventory();
        self.find_to_write_in(&inventory, name)
    }

    /// Like [`Self::find_to_write`], with an inventory.
    pub(crate) fn find_to_write_in(&mut self, inventory: &Inventory, name: &str) -> Result<Target> {
        self.resolve_name(inventory, name, Access::Write)
    }

    /// Finds a session, for commands that change it and do not take a message.
    pub(crate) fn find_session(&mut self, name: &str) -> Result<SessionFiles> {
        whole_session(self.find_to_write(name)?, name)
    }

    /// Like [`Self::find_session`], for commands that only read the session.
    pub(crate) fn find_session_to_read(&mut self, name: &str) -> Result<SessionFiles> {
        whole_session(self.find(name)?, name)
    }

    /// Finds a session by its id, or else by its title.
    pub(crate) fn resolve_name(
        &mut self,
        inventory: &Inventory,
        name: &str,
        access: Access,
    ) -> Result<Target> {
        match self.find_by_id(inventory, name, access) {
            Err(error) if is_unknown_session(&error) => self.find_by_title(inventory, name, error),
            found => found,
        }
    }

    /// Finds a session without looking at titles, for input of programs, and for commands in which
    /// other names come before titles.
    pub(crate) fn find_by_id(
        &mut self,
        inventory: &Inventory,
        name: &str,
        access: Access,
    ) -> Result<Target> {
        let name = self.resolve_latest(inventory, name, access)?;
        let found = match access {
            Access::Read => self.store.find(inventory, &name),
            Access::Write => self.store.find_to_write(inventory, &name),
        };
        match found {
            Err(Error::Ambiguous {
                what: Subject::Session,
                id,
                candidates,
            }) => {
                let titles = self.titles(inventory, &candidates);
                let error = Error::Ambiguous {
                    what: Subject::Session,
                    id,
                    candidates,
                };
                Err(anyhow::Error::from(error).context(CandidateDetails(titles)))
            }
            found => Ok(found?),
        }
    }

    /// Finds a session by its title or a part of it. If no title matches, fails with `missing`, or
    /// with the reason: the session was deleted, or there are no sessions.
    pub(crate) fn find_by_title(
        &mut self,
        inventory: &Inventory,
        name: &str,
        missing: anyhow::Error,
    ) -> Result<Target> {
        if let Some(target) = self.target_by_title(inventory, name)? {
            return Ok(target);
        }
        Err(match self.deleted_session(name) {
            Some(deleted) => deleted.into(),
            None => self.explain_empty_home(inventory, missing),
        })
    }

    /// Finds a session in an inventory without the archive. A session that is only in the archive is
    /// found too, so that the caller can report it.
    pub(crate) fn find_without_archive(
        &mut self,
        inventory: &Inventory,
        name: &str,
        access: Access,
    ) -> Result<Target> {
        match self.find_by_id(inventory, name, access) {
            Err(error) if is_unknown_session(&error) => {
                let all = self.inventory();
                let mut target = self.resolve_name(&all, name, access)?;
                // Without the parts of it that are only in the archive.
                let found = &target.files;
                let is_it = |files: &&SessionFiles| {
                    files.id == found.id && files.main_path() == found.main_path()
                };
                if let Some(files) = inventory.sessions.iter().find(is_it) {
                    target.files = files.clone();
                }
                Ok(target)
            }
            found => found,
        }
    }

    /// Replaces `latest` with a session's id, without an inventory.
    pub(crate) fn resolve_latest_id(&mut self, name: &str, access: Access) -> Result<String> {
        if !is_latest(name) {
            return Ok(name.to_owned());
        }
        let inventory = self.inventory();
        let id = self.resolve_latest(&inventory, name, access)?;
        Ok(id.into_owned())
    }

    /// Returns the id of the newest session that is only in the archive for `latest`, or else of the
    /// newest one; any other name unchanged.
    pub(crate) fn latest_archived_id(&mut self, name: &str) -> Result<String> {
        if !is_latest(name) {
            return Ok(name.to_owned());
        }
        let inventory = self.inventory();
        let sessions = self.sessions(&inventory);
        match sessions.iter().find(|session| session.archived) {
            Some(newest) => Ok(newest.id.to_string()),
            None => self.resolve_latest_id(name, Access::Read),
        }
    }

    /// Returns the id of the session with this title, for names that the archive does not have; any
    /// other name unchanged.
    pub(crate) fn archived_by_title(&mut self, name: &str) -> Result<String> {
        if name == ROOT_ID {
            return Ok(name.to_owned());
        }
        let inventory = self.inventory();
        match self.target_by_title(&inventory, name)? {
            Some(target) => Ok(whole_session(target, name)?.id.to_string()),
            None => Ok(name.to_owned()),
        }
    }

    /// Returns the name of a deleted session for [`Trash::restore`](annals::store::Trash::restore):
    /// that of the newest deletion for `latest`, the id for a part of a title, and any other name
    /// unchanged.
    pub(crate) fn resolve_deleted(&self, name: &str) -> Result<String> {
        let mut items = self.store.trash().items()?.into_iter();
        if items.any(|item| item.matches(name)) {
            return Ok(name.to_owned());
        }
        if is_latest(name) {
            let newest = self.trash_items()?.into_iter().next();
            return Ok(newest.map_or_else(|| name.to_owned(), |item| item.id));
        }
        let sessions = self.store.trash().sessions()?;
        match with_title(&sessions, name).as_slice() {
            [] => Ok(name.to_owned()),
            [only] => Ok(only.id.to_string()),
            many => Err(ambiguous_title(Subject::DeletedSession, name, many)),
        }
    }

    /// Returns the deletion of the session with this name, if it is in the trash.
    pub(crate) fn deleted_session(&self, name: &str) -> Option<DeletedSession> {
        let items = self.trash_items().ok()?;
        let is_named = |item: &&TrashItem| splits(name).any(|(name, _)| item.matches(name));
        let mut by_id = items.iter().filter(is_named);
        let item = by_id.next().or_else(|| {
            let sessions = self.store.trash().sessions().ok()?;
            let mut titled = splits(name).flat_map(|(name, _)| with_title(&sessions, name));
            let id = titled.next()?.id.as_str();
            let mut items = items.iter();
            items.find(|item| item.sessions().any(|session| session == id))
        })?;
        Some(DeletedSession {
            id: item.session.clone(),
            ago: self.clock.ago(item.deleted),
        })
    }

    /// Returns the deleted sessions of the roots, newest first.
    fn trash_items(&self) -> annals::Result<Vec<TrashItem>> {
        let mut items = self.store.trash().items()?;
        items.retain(|item| !item.is_folder());
        Ok(items)
    }

    /// Adds to an error that there are no sessions at all, if that is the case.
    pub(crate) fn explain_empty_home(
        &self,
        inventory: &Inventory,
        error: anyhow::Error,
    ) -> anyhow::Error {
        match inventory.sessions.is_empty() {
            true => error.context(self.no_sessions_text()),
            false => error,
        }
    }

    /// Describes where no session was found.
    pub(crate) fn no_sessions_text(&self) -> String {
        let roots = self.store.roots().iter();
        let roots: Vec<String> = roots.map(|root| root.path.display().to_string()).collect();
        match roots.is_empty() {
            true => match self.default_root_names().as_slice() {
                [] => "no agent history was found".to_owned(),
                [one] => format!("no agent history was found in {one}"),
                [first, others @ ..] => format!(
                    "no agent history was found in {first} and {} (`annals` lists them)",
                    pluralize(others.len() as u64, "other place")
                ),
            },
            false => format!("no sessions in {}", roots.join(", ")),
        }
    }

    /// Replaces `latest` with a session's id.
    pub(crate) fn resolve_latest<'a>(
        &mut self,
        inventory: &Inventory,
        name: &'a str,
        access: Access,
    ) -> Result<Cow<'a, str>> {
        let (word, message) = match name.split_once('@') {
            Some((word, message)) => (word, Some(message)),
            None => (name, None),
        };
        if !is_latest(word) {
            return Ok(Cow::Borrowed(name));
        }
        // A session may have this name.
        let is_called =
            |files: &SessionFiles| files.id.as_str() == word || files.id.matches_name(word);
        if inventory.sessions.iter().any(is_called) {
            return Ok(Cow::Borrowed(name));
        }
        let cwd = std::env::current_dir().and_then(std::fs::canonicalize);
        let cwd = cwd.unwrap_or_default();
        let cwd = cwd.to_string_lossy();
        let sessions = self.sessions(inventory);
        let dirs = session_spellings(".", &sessions);
        let mut newest_first = sessions.iter();
        let here = newest_first.find(|session| {
            dirs.iter()
                .any(|dir| session.matches_project_or_earlier(dir))
        });
        let found = match (here, sessions.first()) {
            (Some(here), _) => here,
            (None, Some(newest)) => {
                let about = format!("{} in {}", newest.id, newest.project.path);
                match access {
                    Access::Read => self.print_note_once(&format!(
                        "no session ran in {cwd}; using the latest of all, {about}"
                    )),
                    Access::Write => bail!(
                        "no session ran in {cwd}; name the session to change (the latest of all is {about})"
                    ),
                }
                newest
            }
            (None, None) => {
                return Err(Error::NotFound {
                    what: Subject::Session,
                    id: name.to_owned(),
                }
                .into());
            }
        };
        Ok(Cow::Owned(match message {
            None => found.id.to_string(),
            Some(message) => format!("{}@{message}", found.id),
        }))
    }

    /// Finds the only session whose title has this text; several are an error.
    fn target_by_title(&mut self, inventory: &Inventory, name: &str) -> Result<Option<Target>> {
        if name.chars().count() < MIN_TITLE_CHARS {
            return Ok(None);
        }
        let sessions = self.sessions(inventory);
        for (title, message) in splits(name) {
            let found = with_title(&sessions, title);
            let only = match found.as_slice() {
                [] => continue,
                [only] => only,
                many => return Err(ambiguous_title(Subject::Session, name, many)),
            };
            let is_it = |files: &&SessionFiles| {
                files.id == only.id
                    && files.root.path == only.root
                    && files.main_path() == only.file
            };
            let files = inventory.sessions.iter().find(is_it).cloned();
            return Ok(files.map(|files| Target {
                files,
                log: None,
                message: message.map(str::to_owned),
            }));
        }
        Ok(None)
    }

    /// Returns the titles of sessions, which are named by id or path.
    fn titles(&mut self, inventory: &Inventory, names: &[String]) -> Vec<String> {
        let sessions = self.unsorted_sessions(inventory);
        let title = |name: &String| {
            let mut sessions = sessions.iter();
            let session = sessions.find(|session| {
                session.id.as_str() == name || session.file.as_os_str() == name.as_str()
            });
            session.and_then(shown_title).unwrap_or_default()
        };
        names.iter().map(title).collect()
    }
}

/// Returns the files of a target; fails if it is a sub-agent's log or a message.
pub(crate) fn whole_session(target: Target, name: &str) -> Result<SessionFiles> {
    target.refuse_agent()?;
    refuse_message(&target, name)?;
    Ok(target.files)
}

/// Fails if a target is a message, for commands that take whole sessions.
pub(crate) fn refuse_message(target: &Target, name: &str) -> Result<()> {
    match target.message {
        Some(_) => bail!("`{name}` names a message; expected a whole session"),
        None => Ok(()),
    }
}

/// Whether an error means that no session and no file has the name, so that it may be another name.
pub(crate) fn is_unknown_session(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(Error::NotFound { what, .. }) => *what == Subject::Session,
        Some(Error::BadId { .. }) => true,
        Some(Error::File(FileError::Io { source, .. })) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        _ => false,
    }
}

/// Whether an error means that the archive has no session with the name.
pub(crate) fn is_unknown_archived(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(Error::NotFound {
            what: Subject::ArchivedSession,
            ..
        })
    )
}

/// Returns a name as a whole, and split into session and message.
fn splits(name: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let split = name.rsplit_once('@');
    let split = split.map(|(session, message)| (session, Some(message)));
    std::iter::once((name, None)).chain(split)
}

/// Returns the sessions with this title, or else those whose title contains the text, ignoring case.
fn with_title<'a>(sessions: &'a [SessionInfo], text: &str) -> Vec<&'a SessionInfo> {
    let text = text.trim().to_lowercase();
    if text.chars().count() < MIN_TITLE_CHARS {
        return Vec::new();
    }
    let matching = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a SessionInfo> {
        let has_it = |session: &&SessionInfo| {
            let title = session.title.as_ref();
            title.is_some_and(|title| fits(title.text.to_lowercase().trim()))
        };
        sessions.iter().filter(has_it).collect()
    };
    let exact = matching(&|title| title == text);
    match exact.is_empty() {
        true => matching(&|title| title.contains(&text)),
        false => exact,
    }
}

fn ambiguous_title(what: Subject, name: &str, sessions: &[&SessionInfo]) -> anyhow::Error {
    let titles = sessions.iter();
    let titles = titles.map(|session| shown_title(session).unwrap_or_default());
    let details = CandidateDetails(titles.collect());
    let error = Error::Ambiguous {
        what,
        id: name.to_owned(),
        candidates: sessions.iter().map(|it| it.id.to_string()).collect(),
    };
    anyhow::Error::from(error).context(details)
}

fn shown_title(session: &SessionInfo) -> Option<String> {
    let title = session.title.as_ref()?;
    Some(truncate_end(&title.text, MAX_TITLE_WIDTH))
}
