//! What of a store is followed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::model::Project;
use crate::store::{LocatedEntry, Root, RootFile, SessionFiles, Target, working_directories};

use super::FollowedLog;
use super::conversation::FollowedConversation;
use super::watched_dirs::WatchedRoot;

/// What is followed: everything, or what fits one of several wishes.
#[derive(Debug, Default)]
pub struct Selection {
    picks: Vec<Pick>,
    layouts: Vec<String>,
    /// Which folders are of the projects asked for, as far as that is known.
    folders: HashMap<(PathBuf, &'static str, Option<String>), bool>,
    /// The projects of which something was found.
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

/// Whether a log is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogMatch {
    No,
    Yes,
    /// Its entries tell.
    CheckEntries,
}

impl Selection {
    /// Everything.
    pub fn all() -> Self {
        Selection::default()
    }

    /// Also the sessions of a project: its path, its name, or its id.
    pub fn project(mut self, wanted: impl Into<String>) -> Self {
        self.picks.push(Pick::Project(wanted.into()));
        self
    }

    /// Also a session with its sub-agents, one sub-agent's log, or one conversation: what
    /// [`Store::find`](crate::store::Store::find) found.
    ///
    /// Of a conversation the session is read to see which entries are its; then what is written in
    /// answer to its last message belongs to it, and so do the sub-agents that it calls.
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

    /// Only what lies in roots of these layouts; may be said several times.
    pub fn layout(mut self, name: impl Into<String>) -> Self {
        self.layouts.push(name.into());
        self
    }

    pub(super) fn accepts_layout(&self, name: &str) -> bool {
        self.layouts.is_empty() || self.layouts.iter().any(|layout| layout == name)
    }

    /// The places of sessions that were named and may lie outside of the store's roots.
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

    /// Whether only some projects' folders are wanted, so that it must be known whose they are.
    pub(super) fn needs_projects(&self) -> bool {
        self.picks
            .iter()
            .any(|pick| matches!(pick, Pick::Project(_)))
    }

    /// The projects of which nothing was found.
    pub(super) fn unknown_projects(&self) -> impl Iterator<Item = &str> {
        self.picks.iter().filter_map(|pick| match pick {
            Pick::Project(wanted) if !self.found.contains(wanted) => Some(wanted.as_str()),
            _ => None,
        })
    }

    /// Looks whose folder it is; `logs` are some of its logs, the newest first.
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
        let homes = working_directories(&log.root, folder, logs);
        let mut named = false;
        for pick in &self.picks {
            let Pick::Project(wanted) = pick else {
                continue;
            };
            let fits = folder == Some(wanted)
                || (folder.is_some() && log.root.layout.folder(wanted).as_deref() == folder)
                || homes.iter().any(|home| is_project(home, wanted));
            if fits {
                self.found.insert(wanted.clone());
            }
            named |= fits;
        }
        // A folder of which nothing is known yet is asked about again.
        if named || !homes.is_empty() {
            self.folders.insert(key, named);
        }
    }

    /// Whether a log is followed, as far as its path tells.
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

    /// Whether an entry of a log that must be looked at is followed. Entries come in file order.
    pub(super) fn accepts(&mut self, log: &FollowedLog, told: &LocatedEntry) -> bool {
        let cwd = told.entry.context.cwd.as_deref();
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
                    files.id == told.session && match_session(files, log) != LogMatch::No
                }
                Pick::Log(_, path) => *path == log.path,
                // Each branch must see every entry of its session.
                Pick::FollowedConversation(branch) => {
                    let of_session = branch.files.id == told.session;
                    of_session && same_root(&branch.files, log) && branch.accepts(log, told)
                }
            };
        }
        taken
    }
}

/// What a project's folder is known by.
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
    // Two folders may hold a log of one name.
    if files.shared && files.folder() != log.artifact.folder.as_deref() {
        return LogMatch::No;
    }
    match &log.artifact.session {
        _ if log.artifact.kind == crate::model::ArtifactKind::SharedLog => LogMatch::CheckEntries,
        Some(id) if *id == files.id => LogMatch::Yes,
        Some(_) => LogMatch::No,
        None => LogMatch::CheckEntries,
    }
}
