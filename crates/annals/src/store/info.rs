//! Rows of lists of sessions, conversations and projects.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::cost::{Account, Charge};
use annals_layouts::layout::{by_name, is_folder_of};
use annals_layouts::model::{FlawCounts, FlawKind, Project, SessionId, Usage};
use annals_layouts::tree::Title;

use super::conversations::Conversations;
use super::lifecycle::SessionState;
use super::session::Session;
use super::session_summary::{SessionSummary, assign_responses};

/// A row of a session list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The layout's name.
    pub layout: &'static str,
    /// The root that contains it.
    pub root: PathBuf,
    /// The session.
    pub id: SessionId,
    /// The path of its main file.
    pub file: PathBuf,
    /// Its working directory.
    pub project: Project,
    /// Other directories that its entries name.
    pub other_directories: Vec<String>,
    /// Its title.
    pub title: Option<Title>,
    /// Its label.
    pub tag: Option<String>,
    /// Further attributes from its log or its layout's session list, by name: `session_id`,
    /// `workspace`, `workspace_name`, `agent`, `agent_name` (chorus), `thread`, `conversation`,
    /// `channel` (clog), `source` (orchestrator).
    pub attributes: BTreeMap<String, String>,
    /// Its state.
    pub state: SessionState,
    /// When its own program will delete it if it stays inactive.
    pub expires: Option<Timestamp>,
    /// Number of days after its last activity at which it expires; `None` if its program never
    /// deletes sessions or it is in the archive.
    pub keep_days: Option<u64>,
    /// The time that its age counts from: that of its newest entry, or of its log file if no entry
    /// has a time or [`LayoutSpec::ages_by_file`](annals_layouts::layout::LayoutSpec::ages_by_file).
    pub(crate) last_activity: Option<Timestamp>,
    /// Whether `last_activity` is the time of a file.
    pub(crate) last_activity_by_file: bool,
    /// Whether it exists only in the archive.
    pub archived: bool,
    /// The time of its oldest entry.
    pub started: Option<Timestamp>,
    /// The time of its newest entry; of its file if no entry has a time.
    pub updated: Option<Timestamp>,
    /// Number of entries in all its logs.
    pub entries: u64,
    /// Number of messages in all its logs, without those of warm-ups.
    pub messages: u64,
    /// Number of root-to-leaf paths of its main log.
    pub conversations: usize,
    /// Number of sub-agents, without [warm-ups](super::Agent::warm_up).
    pub agents: usize,
    /// Ids and kinds of its sub-agents, without those of warm-ups.
    pub(crate) agent_names: BTreeSet<String>,
    /// Total size of its files in bytes.
    pub bytes: u64,
    /// Number of flaws.
    pub flaws: usize,
    /// Number of flaws by kind.
    pub flaw_kinds: BTreeMap<FlawKind, usize>,
    /// The models that answered.
    pub models: BTreeSet<String>,
    /// Tokens, sub-agents included. In a list of sessions, each response counts for the first
    /// session that had it; for a single session, all responses in its logs count.
    pub usage: Usage,
    /// The responses of `usage`.
    pub charges: Vec<Charge>,
    /// Number of messages by day (UTC).
    pub messages_by_day: BTreeMap<jiff::civil::Date, u64>,
}

impl SessionInfo {
    /// Returns the session's account in a ledger.
    pub fn account(&self) -> Account {
        let mut account = Account::new(self.layout, &self.root, self.id.clone());
        account.file.clone_from(&self.file);
        account.project.clone_from(&self.project);
        account
            .other_directories
            .clone_from(&self.other_directories);
        account.aliases = aliases(&self.attributes);
        account.started = self.charges.iter().filter_map(|charge| charge.time).min();
        account
    }

    /// Returns the number of its errors and warnings.
    pub fn flaw_counts(&self) -> FlawCounts {
        let kinds = self.flaw_kinds.iter();
        kinds.map(|(kind, count)| (*kind, *count)).collect()
    }

    /// Returns whether `wanted` is a prefix of an id, name or kind of a sub-agent of this session,
    /// or of the agent that owns it.
    pub(crate) fn has_agent(&self, wanted: &str) -> bool {
        let own = ["agent", "agent_name"].iter();
        let own = own.filter_map(|name| self.attributes.get(*name));
        let mut names = self.agent_names.iter().chain(own);
        names.any(|name| name.starts_with(wanted))
    }

    /// Returns whether `wanted` names this session's current project: its directory, its folder
    /// where no record names a directory, or its workspace.
    pub fn matches_project(&self, wanted: &str) -> bool {
        self.project.matches(wanted)
            || self.project.id() == wanted
            || is_folder_of(self.layout, &self.project, wanted)
            || self.is_in_folder(wanted)
            || aliases(&self.attributes)
                .iter()
                .any(|alias| alias == wanted)
    }

    /// Returns whether its project is exactly this directory. If no record names one, compares the
    /// session's folder, which other directories may share.
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

    /// Returns whether its log is in the folder `name`, where the layout names folders after
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

    /// Like [`Self::matches_project`], but earlier directories match too.
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

/// A row of a conversation list.
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
    /// The prompt at which it branches off from another conversation.
    pub branch: Option<String>,
    /// Number of messages.
    pub messages: usize,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When its last turn was written.
    pub updated: Option<Timestamp>,
    /// Whether the agent program would resume here.
    pub resumes: bool,
    /// Tokens of its responses, each counted once.
    pub usage: Usage,
}

/// A row of a project list.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProjectInfo {
    /// The layout's name.
    pub(crate) layout: &'static str,
    /// The root that contains it.
    pub root: PathBuf,
    /// A short name for scripts, unique within a root.
    pub id: String,
    /// The directory.
    pub path: String,
    /// The last component of the path.
    pub name: String,
    /// Whether `path` is a folder's name because no entry names the directory.
    pub guessed: bool,
    /// Number of sessions.
    pub sessions: usize,
    /// Total size of their files in bytes.
    pub bytes: u64,
    /// The time of the newest entry.
    pub updated: Option<Timestamp>,
}

impl ProjectInfo {
    /// Groups sessions by project, the most recent first.
    pub fn from_sessions<'a>(sessions: impl Iterator<Item = &'a SessionInfo>) -> Vec<Self> {
        // Comparing paths by component would be slower.
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
        crate::sort::by(&mut projects, |a, b| {
            b.updated.cmp(&a.updated).then_with(|| a.path.cmp(&b.path))
        });
        projects
    }
}

impl Session {
    /// Returns its row for lists.
    pub fn info(&self, keep_days: Option<u64>) -> SessionInfo {
        let mut info = SessionSummary::from_session(self).into_info(&self.files, keep_days);
        assign_responses(std::iter::once(&mut info));
        info
    }

    /// Returns the rows of its conversations, in file order of their leaves.
    pub fn conversations(&self) -> Vec<ConversationInfo> {
        let conversations = Conversations::from_session(self);
        let sums = conversations.totals(&|_| None);
        conversations.into_infos(&self.files, &self.external_summaries, &sums)
    }
}

/// Infers a session's directory and the other directories it names: the newest named by its entries
/// wins. A subdirectory of the one that the folder is named after does not count as a move.
pub(super) fn infer_project(
    root: &super::Root,
    folder: Option<&str>,
    directories: &[&str],
    listed: Option<String>,
) -> (Project, Vec<String>) {
    let Some(newest) = directories.last().copied() else {
        let known = listed.or_else(|| enclosing_project(root));
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

/// Returns the project directory that is a root or contains it, for layouts with roots inside
/// projects.
pub(super) fn enclosing_project(root: &super::Root) -> Option<String> {
    let name = root.layout.project_dir()?;
    let dir = std::path::absolute(&root.path).ok()?;
    if name.is_empty() {
        return Some(dir.to_str()?.trim_end_matches('/').to_owned());
    }
    let inside = dir.file_name().is_some_and(|last| last == name);
    let project = dir.parent().filter(|_| inside)?;
    Some(project.to_str()?.to_owned())
}
