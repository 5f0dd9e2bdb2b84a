//! Rows: what lists say about sessions, conversations and projects.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::cost::{Account, Charge};
use crate::layout::{by_name, is_folder_of};
use crate::model::{FlawKind, Project, SessionId, Usage};
use crate::tree::Title;

use super::conversations::Conversations;
use super::lifecycle::SessionState;
use super::session::Session;
use super::session_summary::{SessionSummary, assign_responses};

/// What lists say about a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The layout's name.
    pub layout: &'static str,
    /// The root it lies in.
    pub root: PathBuf,
    /// The session.
    pub id: SessionId,
    /// The file that stands for it.
    pub file: PathBuf,
    /// The directory it is about.
    pub project: Project,
    /// Other directories that its entries name.
    pub other_directories: Vec<String>,
    /// Its title.
    pub title: Option<Title>,
    /// Its label.
    pub tag: Option<String>,
    /// What its log or its layout's session list says beyond these members, by name: `session_id`,
    /// `workspace`, `workspace_name`, `agent`, `agent_name` (chorus), `thread`, `conversation`,
    /// `channel` (clog), `source` (orchestrator).
    pub attributes: BTreeMap<String, String>,
    /// Where it is in its life.
    pub state: SessionState,
    /// When its own program will delete it, if it goes on untouched.
    pub expires: Option<Timestamp>,
    /// How many days after its last activity it is expired; never, if its own program keeps sessions
    /// for ever or it is in the archive.
    pub keep_days: Option<u64>,
    /// The time that its age counts from: that of its newest entry, or of its log's file where no entry
    /// has a time or [`Layout::ages_by_file`](crate::layout::Layout::ages_by_file).
    pub last_activity: Option<Timestamp>,
    /// That is the time of a file.
    pub last_activity_by_file: bool,
    /// It is in the archive, and no more where it was.
    pub archived: bool,
    /// The time of its oldest entry.
    pub started: Option<Timestamp>,
    /// The time of its newest entry; of its file, where no entry tells.
    pub updated: Option<Timestamp>,
    /// Entries of all its logs.
    pub entries: u64,
    /// Those of them that are messages.
    pub messages: u64,
    /// Root-to-leaf paths of its main log.
    pub conversations: usize,
    /// Sub-agents.
    pub agents: usize,
    /// What they can be asked for by: their ids and kinds.
    pub agent_names: BTreeSet<String>,
    /// Bytes of all its files.
    pub bytes: u64,
    /// How many things are wrong with it.
    pub flaws: usize,
    /// The kinds of what is wrong, with counts.
    pub flaw_kinds: BTreeMap<FlawKind, usize>,
    /// The models that answered.
    pub models: BTreeSet<String>,
    /// Tokens, sub-agents included. In a list of sessions, each response is counted with the session
    /// that had it first; of a session by itself, all that stand in its logs.
    pub usage: Usage,
    /// The responses that those tokens are of.
    pub charges: Vec<Charge>,
    /// Messages by day (UTC).
    pub messages_by_day: BTreeMap<jiff::civil::Date, u64>,
}

impl SessionInfo {
    /// The session as a ledger knows it.
    pub fn account(&self) -> Account {
        Account {
            layout: self.layout,
            root: self.root.clone(),
            session: self.id.clone(),
            file: self.file.clone(),
            project: self.project.clone(),
            other_directories: self.other_directories.clone(),
            aliases: aliases(&self.attributes),
            started: self.charges.iter().filter_map(|charge| charge.time).min(),
        }
    }

    /// Whether a person who types `wanted` may mean a sub-agent of this session, or the agent whose
    /// session it is: a beginning of an id, of a name or of a kind.
    pub fn has_agent(&self, wanted: &str) -> bool {
        let own = ["agent", "agent_name"].iter();
        let own = own.filter_map(|name| self.attributes.get(*name));
        let mut names = self.agent_names.iter().chain(own);
        names.any(|name| name.starts_with(wanted))
    }

    /// Whether a person who types `wanted` may mean this session's project as it is now: its
    /// directory, its folder where no record names a directory, or its workspace.
    pub fn matches_project(&self, wanted: &str) -> bool {
        self.project.matches(wanted)
            || self.project.id() == wanted
            || is_folder_of(self.layout, &self.project, wanted)
            || self.is_in_folder(wanted)
            || aliases(&self.attributes)
                .iter()
                .any(|alias| alias == wanted)
    }

    /// Whether its project is exactly this directory. Where no record names one, the session's folder
    /// decides, which other directories may share.
    pub fn matches_directory(&self, directory: &str) -> bool {
        let trimmed = match directory.trim_end_matches('/') {
            "" => directory,
            trimmed => trimmed,
        };
        match self.project.guessed {
            false => self.project.path == trimmed,
            true => is_folder_of(self.layout, &self.project, directory),
        }
    }

    /// Whether its log lies in the folder of that name, where the layout names folders after
    /// directories.
    fn is_in_folder(&self, name: &str) -> bool {
        let layout = by_name(self.layout);
        let layout = layout.filter(|layout| layout.folder(&self.project.path).is_some());
        let artifact = layout.and_then(|layout| {
            let relative = self.file.strip_prefix(&self.root).ok()?;
            layout.classify(relative)
        });
        artifact.is_some_and(|artifact| artifact.folder.as_deref() == Some(name))
    }

    /// The same, or an earlier directory of it.
    pub fn matches_project_or_earlier(&self, wanted: &str) -> bool {
        self.matches_project(wanted)
            || self.other_directories.iter().any(|path| {
                Project {
                    path: path.clone(),
                    guessed: false,
                }
                .matches(wanted)
            })
            || ["workspace", "workspace_name"]
                .iter()
                .any(|name| self.attributes.get(*name).is_some_and(|it| it == wanted))
    }
}

/// Returns the other names of a session's project: the id and the name of its workspace.
pub(super) fn aliases(attributes: &BTreeMap<String, String>) -> Vec<String> {
    let named = ["workspace", "workspace_name"].iter();
    named
        .filter_map(|name| attributes.get(*name).cloned())
        .collect()
}

/// What lists say about a conversation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConversationInfo {
    /// `SESSION@LEAF`.
    pub id: String,
    /// The session.
    pub session: SessionId,
    /// The id of its last message.
    pub leaf: String,
    /// Its title.
    pub title: Option<Title>,
    /// The prompt with which it parts from another conversation.
    pub branch: Option<String>,
    /// How many messages it has.
    pub messages: usize,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When its last turn was written.
    pub updated: Option<Timestamp>,
    /// The agent program would go on here.
    pub resumes: bool,
    /// Tokens of its responses, each counted once.
    pub usage: Usage,
}

/// What lists say about a project.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProjectInfo {
    /// The layout's name.
    pub layout: &'static str,
    /// The root it lies in.
    pub root: PathBuf,
    /// A short name for scripts that no two projects of a root share.
    pub id: String,
    /// The directory.
    pub path: String,
    /// The last part of it.
    pub name: String,
    /// No entry told the directory; `path` is a folder's name.
    pub guessed: bool,
    /// How many sessions it has.
    pub sessions: usize,
    /// Bytes of all their files.
    pub bytes: u64,
    /// The newest entry's time.
    pub updated: Option<Timestamp>,
}

impl ProjectInfo {
    /// Sums up sessions by project, the most recent first.
    pub fn from_sessions<'a>(sessions: impl Iterator<Item = &'a SessionInfo>) -> Vec<Self> {
        // Paths as they are spelled: to take them apart would take longer.
        let mut projects: BTreeMap<(&OsStr, &str), ProjectInfo> = BTreeMap::new();
        for session in sessions {
            let key = (session.root.as_os_str(), session.project.path.as_str());
            let project = projects.entry(key).or_insert_with(|| ProjectInfo {
                layout: session.layout,
                root: session.root.clone(),
                id: session.project.id(),
                path: session.project.path.clone(),
                name: session.project.name().to_owned(),
                guessed: session.project.guessed,
                sessions: 0,
                bytes: 0,
                updated: None,
            });
            project.sessions += 1;
            project.bytes += session.bytes;
            project.updated = project.updated.max(session.updated);
        }
        let mut projects: Vec<ProjectInfo> = projects.into_values().collect();
        projects.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.path.cmp(&b.path)));
        projects
    }
}

impl Session {
    /// What lists say about it.
    pub fn info(&self, keep_days: Option<u64>) -> SessionInfo {
        let mut info = SessionSummary::from_session(self).into_info(&self.files, keep_days);
        assign_responses(std::iter::once(&mut info));
        info
    }

    /// What lists say about its conversations, in file order of their leaves.
    pub fn conversations(&self) -> Vec<ConversationInfo> {
        let talks = Conversations::from_session(self);
        let sums = talks.totals(&|_| None);
        talks.into_infos(&self.files, &self.external_summaries, &sums)
    }
}

/// A session's directory, and others that it names: the newest that its entries name. Going into a
/// directory below the one that the folder is named after is no move.
pub(super) fn infer_project(
    root: &super::Root,
    folder: Option<&str>,
    directories: &[&str],
    told: Option<String>,
) -> (Project, Vec<String>) {
    let Some(newest) = directories.last().copied() else {
        let known = told.or_else(|| enclosing_project(root));
        let guessed = known.is_none();
        let path = known.unwrap_or_else(|| folder.unwrap_or("(unknown)").to_owned());
        return (Project { path, guessed }, Vec::new());
    };
    let home = directories.iter().copied().find(|path| {
        root.layout.folder(path).as_deref() == folder && Path::new(newest).starts_with(path)
    });
    let path = home.unwrap_or(newest);
    let others = directories.iter().filter(|other| **other != path);
    (
        Project {
            path: path.to_owned(),
            guessed: false,
        },
        others.map(|other| (*other).to_owned()).collect(),
    )
}

/// The project that a root lies in, if its layout lies in projects.
pub(super) fn enclosing_project(root: &super::Root) -> Option<String> {
    let name = root.layout.project_dir()?;
    let dir = std::path::absolute(&root.path).ok()?;
    let inside = dir.file_name().is_some_and(|last| last == name);
    let project = dir.parent().filter(|_| inside)?;
    Some(project.to_str()?.to_owned())
}
