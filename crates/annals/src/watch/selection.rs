//! The part of a store that is followed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::store::{LocatedEntry, Root, RootFile, SessionFiles, Target, working_directories};
use annals_layouts::model::Project;

use super::FollowedLog;
use super::conversation::FollowedConversation;
use super::watched_dirs::WatchedRoot;

/// Logs to follow: all, or those that match one of several criteria.
#[derive(Debug, Default)]
pub struct Selection {
    picks: Vec<Pick>,
    layouts: Vec<String>,
    /// Whether a folder belongs to a requested project, as far as known.
    folders: HashMap<(PathBuf, &'static str, Option<String>), bool>,
    /// The requested projects that were found.
    found: HashSet<String>,
}

#[derive(Debug)]
enum Pick {
    Project(String),
    Session(Box<SessionFiles>),
    /// The log of a sub-agent.
    Log(Box<SessionFiles>, PathBuf),
    FollowedConversation(Box<FollowedConversation>),
}

/// Result of matching a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogMatch {
    No,
    Yes,
    /// Its entries must be checked.
    CheckEntries,
}

impl Selection {
    /// Selects everything.
    pub fn all() -> Self {
        Selection::default()
    }

    /// Adds the sessions of a project, given by its path, name or id.
    pub fn project(mut self, wanted: impl Into<String>) -> Self {
        self.picks.push(Pick::Project(wanted.into()));
        self
    }

    /// Adds a session with its sub-agents, one sub-agent's log, or one conversation, as found by
    /// [`Store::find`](crate::store::Store::find).
    ///
    /// For a conversation, the session is read to determine its entries. Replies to its last
    /// message belong to it, and so do the sub-agents that it calls.
    pub fn target(mut self, target: Target) -> Result<Self> {
        let agent = target.agent_log().map(|log| log.path.clone());
        let files = Box::new(target.files);
        self.picks.push(match (agent, target.message) {
            (Some(path), _) => Pick::Log(files, path),
            (None, Some(message)) => {
                Pick::FollowedConversation(Box::new(FollowedConversation::read(*files, &message)?))
            }
            (None, None) => Pick::Session(files),
        });
        Ok(self)
    }

    /// Restricts the selection to roots of a layout; may be called several times.
    pub fn layout(mut self, name: impl Into<String>) -> Self {
        self.layouts.push(name.into());
        self
    }

    pub(super) fn accepts_layout(&self, name: &str) -> bool {
        self.layouts.is_empty() || self.layouts.iter().any(|layout| layout == name)
    }

    /// Returns the roots of requested sessions, which may be outside of the store's roots.
    pub(super) fn extra_roots(&self) -> impl Iterator<Item = WatchedRoot> {
        let files = self.picks.iter().filter_map(|pick| match pick {
            Pick::Project(_) => None,
            Pick::Session(files) | Pick::Log(files, _) => Some(&**files),
            Pick::FollowedConversation(branch) => Some(&branch.files),
        });
        files.map(|files| {
            let lone = files.log.as_ref().filter(|_| files.is_lone());
            let name = |log: &RootFile| Some(PathBuf::from(log.path.file_name()?));
            WatchedRoot {
                root: Root::clone(&files.root),
                single_log: lone.and_then(|log| Some((name(log)?, log.artifact.clone()))),
            }
        })
    }

    /// Returns whether projects are requested, so that the project of each folder must be known.
    pub(super) fn needs_projects(&self) -> bool {
        self.picks
            .iter()
            .any(|pick| matches!(pick, Pick::Project(_)))
    }

    /// Returns the requested projects that were not found.
    pub(super) fn unknown_projects(&self) -> impl Iterator<Item = &str> {
        self.picks.iter().filter_map(|pick| match pick {
            Pick::Project(wanted) if !self.found.contains(wanted) => Some(wanted.as_str()),
            _ => None,
        })
    }

    /// Determines whether a folder belongs to a requested project; `logs` are some of its logs,
    /// newest first.
    pub(super) fn check_folder<'a>(
        &mut self,
        log: &FollowedLog,
        logs: impl Iterator<Item = &'a FollowedLog>,
    ) {
        let key = folder_key(log);
        if self.folders.contains_key(&key) {
            return;
        }
        let folder = log.artifact.folder.as_deref();
        let logs = logs.map(|log| (log.path.as_path(), &log.artifact));
        let directories = working_directories(&log.root, folder, logs);
        let mut named = false;
        for pick in &self.picks {
            let Pick::Project(wanted) = pick else {
                continue;
            };
            let fits = folder == Some(wanted)
                || (folder.is_some() && log.root.layout.folder(wanted).as_deref() == folder)
                || directories
                    .iter()
                    .any(|directory| is_project(directory, wanted));
            if fits {
                self.found.insert(wanted.clone());
            }
            named |= fits;
        }
        // A folder whose directory is not known yet is checked again.
        if named || !directories.is_empty() {
            self.folders.insert(key, named);
        }
    }

    /// Returns whether a log is followed, judged by its path.
    pub(super) fn match_log(&self, log: &FollowedLog) -> LogMatch {
        if self.picks.is_empty() {
            return LogMatch::Yes;
        }
        let verdicts = self.picks.iter().map(|pick| match pick {
            Pick::Project(_) => match self.folders.get(&folder_key(log)) {
                Some(true) => LogMatch::Yes,
                Some(false) => LogMatch::No,
                None => LogMatch::CheckEntries,
            },
            Pick::Session(files) => match_session(files, log),
            Pick::Log(_, path) if *path == log.path => LogMatch::Yes,
            Pick::Log(..) => LogMatch::No,
            Pick::FollowedConversation(branch) => match match_session(&branch.files, log) {
                LogMatch::No => LogMatch::No,
                _ => LogMatch::CheckEntries,
            },
        });
        verdicts.fold(LogMatch::No, |so_far, next| match (so_far, next) {
            (LogMatch::Yes, _) | (_, LogMatch::Yes) => LogMatch::Yes,
            (LogMatch::CheckEntries, _) | (_, LogMatch::CheckEntries) => LogMatch::CheckEntries,
            _ => LogMatch::No,
        })
    }

    /// Returns whether an entry is followed, in a log whose entries must be checked. Entries must
    /// be passed in file order.
    pub(super) fn accepts(&mut self, log: &FollowedLog, located: &LocatedEntry) -> bool {
        let cwd = located.entry.context.cwd.as_deref();
        if let Some(cwd) = cwd.filter(|_| self.needs_projects()) {
            let wanted = |pick: &Pick| matches!(pick, Pick::Project(name) if is_project(cwd, name));
            let named = self.picks.iter().any(wanted);
            self.folders.entry(folder_key(log)).or_insert(named);
        }
        let Selection { picks, folders, .. } = self;
        let mut taken = false;
        for pick in picks {
            taken |= match pick {
                Pick::Project(_) => folders.get(&folder_key(log)) == Some(&true),
                Pick::Session(files) => {
                    files.id == located.session && match_session(files, log) != LogMatch::No
                }
                Pick::Log(_, path) => *path == log.path,
                // Each conversation must see every entry of its session.
                Pick::FollowedConversation(branch) => {
                    let of_session = branch.files.id == located.session;
                    of_session && same_root(&branch.files, log) && branch.accepts(log, located)
                }
            };
        }
        taken
    }
}

/// Returns the key of a project's folder.
fn folder_key(log: &FollowedLog) -> (PathBuf, &'static str, Option<String>) {
    let folder = log.artifact.folder.clone();
    (log.root.path.clone(), log.root.layout.name(), folder)
}

fn is_project(path: &str, wanted: &str) -> bool {
    let project = Project {
        path: path.to_owned(),
        guessed: false,
    };
    project.matches(wanted) || project.id() == wanted
}

fn same_root(files: &SessionFiles, log: &FollowedLog) -> bool {
    let same = |a: &Path, b: &Path| a == b;
    same(&files.root.path, &log.root.path) && files.root.layout.name() == log.root.layout.name()
}

fn match_session(files: &SessionFiles, log: &FollowedLog) -> LogMatch {
    if !same_root(files, log) {
        return LogMatch::No;
    }
    // Two folders may contain logs with the same name.
    if files.shared && files.folder() != log.artifact.folder.as_deref() {
        return LogMatch::No;
    }
    match &log.artifact.session {
        _ if log.artifact.kind == annals_layouts::model::ArtifactKind::SharedLog => {
            LogMatch::CheckEntries
        }
        Some(id) if *id == files.id => LogMatch::Yes,
        Some(_) => LogMatch::No,
        None => LogMatch::CheckEntries,
    }
}
