//! Rows: what lists say about sessions, conversations and projects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::cost::{Account, Charge, Ledger, Sheet};
use crate::error::Result;
use crate::layout::Layout;
use crate::model::{FlawKind, Key, Project, SYNTHETIC, SessionId, TitleSource, Usage};
use crate::tree::{Title, Titles};

use super::life::State;
use super::log::Opening;
use super::session::Session;
use super::spent;

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
    /// Where it is in its life.
    pub state: State,
    /// When its own program will delete it, if it goes on untouched.
    pub expires: Option<Timestamp>,
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
            started: self.charges.iter().filter_map(|charge| charge.time).min(),
        }
    }

    /// Whether a person who types `wanted` may mean this session's project, under its present
    /// directory or an earlier one.
    pub fn in_project(&self, wanted: &str) -> bool {
        self.project.matches(wanted)
            || self.project.id() == wanted
            || self.other_directories.iter().any(|path| {
                Project {
                    path: path.clone(),
                    guessed: false,
                }
                .matches(wanted)
            })
    }
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
    pub fn of<'a>(sessions: impl Iterator<Item = &'a SessionInfo>) -> Vec<Self> {
        let mut projects: BTreeMap<(&Path, &str), ProjectInfo> = BTreeMap::new();
        for session in sessions {
            let key = (session.root.as_path(), session.project.path.as_str());
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
        let mut info = draft(self).finish(keep_days);
        credit(&mut [&mut info]);
        info
    }

    /// What lists say about its conversations, in file order of their leaves.
    pub fn conversations(&self) -> Vec<ConversationInfo> {
        let Some((_, scan, tree)) = self.main() else {
            return Vec::new();
        };
        let titles = Titles::of(&scan.outlines, tree, &self.elsewhere, &self.asides);
        let id_of = |at: usize| scan.outlines.get(at).and_then(|outline| outline.id());
        let sums = spent::along_paths(&scan.outlines, tree, &|_| None);
        let rows = tree.conversations.iter().enumerate();
        rows.map(|(at, conversation)| {
            let leaf = id_of(conversation.leaf)
                .map(|id| id.to_string())
                .unwrap_or_default();
            let branch = conversation.branch.and_then(|at| {
                let outline = scan.outlines.get(at)?;
                outline.prompt().map(crate::tree::shorten)
            });
            ConversationInfo {
                id: format!("{}@{leaf}", self.files.id),
                session: self.files.id.clone(),
                title: titles.title(conversation),
                branch,
                messages: conversation.messages,
                started: conversation.started,
                updated: conversation.updated,
                resumes: tree.resume == Some(at),
                usage: sums.get(at).map(|sum| sum.usage).unwrap_or_default(),
                leaf,
            }
        })
        .collect()
    }
}

/// A row whose title may still come from another file.
pub(super) struct Draft {
    info: SessionInfo,
    /// The file's own time, for sessions whose entries have none.
    modified: Option<Timestamp>,
    layout: &'static dyn Layout,
    folder: Option<String>,
    /// The ids on the path of the conversation that would be resumed, if a title is still wanted.
    wants: Vec<Key>,
    /// What its log tells about others of its folder.
    gives: Opening,
}

impl Draft {
    pub(super) fn root(&self) -> PathBuf {
        self.info.root.clone()
    }

    pub(super) fn finish(&self, keep_days: Option<u64>) -> SessionInfo {
        let mut info = self.info.clone();
        let keep = keep_days.or_else(|| self.layout.keep_days());
        let keep = keep.map(|days| SignedDuration::from_hours(days.min(36_500) as i64 * 24));
        let touched = match self.layout.expires_by_file() {
            true => self.modified,
            false => info.updated,
        };
        info.expires = touched
            .zip(keep)
            .and_then(|(touched, keep)| touched.checked_add(keep).ok());
        info
    }
}

pub(super) fn draft(session: &Session) -> Draft {
    let files = &session.files;
    let outlines = || session.logs.iter().flat_map(|scan| &scan.outlines);
    let mut started: Option<Timestamp> = None;
    let mut updated: Option<Timestamp> = None;
    let (mut entries, mut messages) = (0, 0);
    let mut models = BTreeSet::new();
    let mut messages_by_day = BTreeMap::new();
    let mut day_of = DayOf::default();
    for outline in outlines() {
        entries += 1;
        if let Some(time) = outline.time {
            started = Some(started.map_or(time, |oldest| oldest.min(time)));
            updated = Some(updated.map_or(time, |newest| newest.max(time)));
        }
        if outline.kind.is_message() {
            messages += 1;
            if let Some(day) = outline.time.map(|time| day_of.day(time)) {
                *messages_by_day.entry(day).or_insert(0) += 1;
            }
        }
        let model = outline
            .reply
            .as_ref()
            .and_then(|reply| reply.model.as_deref());
        if let Some(model) = model.filter(|model| *model != SYNTHETIC && !models.contains(*model)) {
            models.insert(model.to_owned());
        }
    }
    let charges = charges(session);
    let mut flaw_kinds = BTreeMap::new();
    for (_, flaw) in session.flaws() {
        *flaw_kinds.entry(flaw.kind).or_insert(0) += 1;
    }
    let modified = files
        .logs()
        .chain(&files.beside)
        .next()
        .and_then(|file| Timestamp::from_nanosecond(file.id.mtime_ns).ok());
    let (project, other_directories) = project(session);
    let title = session.title();
    let untitled = title
        .as_ref()
        .is_none_or(|title| title.source == TitleSource::Prompt);
    Draft {
        wants: if untitled {
            resumed_keys(session)
        } else {
            Vec::new()
        },
        gives: session
            .main()
            .map(|(_, scan, _)| Opening::of(&scan.outlines))
            .unwrap_or_default(),
        layout: files.root.layout,
        folder: files.folder().map(str::to_owned),
        modified,
        info: SessionInfo {
            layout: files.root.layout.name(),
            root: files.root.path.clone(),
            id: files.id.clone(),
            file: files.main_path().to_owned(),
            project,
            other_directories,
            title,
            tag: session.tag(),
            state: match session.main() {
                Some((_, scan, _)) => State::of(&scan.outlines),
                None if messages > 0 => State::Active,
                None => State::Created,
            },
            expires: None,
            started,
            updated: updated.or(modified),
            entries,
            messages,
            conversations: session.tree().map_or(0, |tree| tree.conversations.len()),
            agents: session.agents.len(),
            agent_names: agent_names(session),
            bytes: files.bytes(),
            flaws: flaw_kinds.values().sum(),
            flaw_kinds,
            models,
            // Added up once it is settled who pays for what.
            usage: Usage::default(),
            charges,
            messages_by_day,
        },
    }
}

/// What the session's logs tell of responses; several may tell of one.
fn charges(session: &Session) -> Vec<Charge> {
    let mut charges = Vec::new();
    for (file, scan) in session.files.logs().zip(&session.logs) {
        let mut sheet = Sheet::default();
        for outline in &scan.outlines {
            sheet.add(outline);
        }
        let only = file.share.is_none().then_some(&session.files.id);
        charges.extend(sheet.charges(0, only));
    }
    charges
}

fn total(charges: &[Charge]) -> Usage {
    let mut sum = Usage::default();
    for charge in charges {
        // Totals of sane counts stay sane.
        let _ = sum.add(&charge.usage);
    }
    sum
}

/// Leaves each response to the session that had it first.
pub(super) fn credit(sessions: &mut [&mut SessionInfo]) {
    let accounts = sessions.iter().map(|info| info.account()).collect();
    let mut charges = Vec::new();
    for (number, info) in sessions.iter_mut().enumerate() {
        let own = info.charges.drain(..);
        charges.extend(own.map(|charge| Charge {
            account: number,
            ..charge
        }));
    }
    for mut charge in Ledger::settle(accounts, charges).charges {
        if let Some(info) = sessions.get_mut(std::mem::take(&mut charge.account)) {
            info.charges.push(charge);
        }
    }
    for info in sessions {
        info.usage = total(&info.charges);
    }
}

fn agent_names(session: &Session) -> BTreeSet<String> {
    let ids = session.agents.iter().filter_map(|agent| agent.id.as_ref());
    let kinds = session.agents.iter().filter_map(|agent| agent.kind.clone());
    ids.map(ToString::to_string).chain(kinds).collect()
}

/// The directories after which a folder may be named.
#[derive(Default)]
pub(super) struct Homes(BTreeSet<Box<str>>);

impl Homes {
    /// Takes those of some directories that the folder can be named after.
    pub(super) fn add(
        &mut self,
        layout: &dyn Layout,
        folder: Option<&str>,
        directories: &[Box<str>],
    ) {
        for path in directories {
            if layout.folder(path).as_deref() == folder {
                self.0.insert(path.clone());
            }
        }
    }

    /// The directory, if there is no doubt: different ones may share a folder.
    pub(super) fn only(&self) -> Option<String> {
        let mut homes = self.0.iter();
        match (homes.next(), homes.next()) {
            (Some(only), None) => Some(only.to_string()),
            _ => None,
        }
    }
}

/// Gives each session what others of its folder know: summaries of its conversation, its directory.
pub(super) fn settle(rows: &mut [Result<Draft>]) {
    #[derive(Default)]
    struct Folder {
        summaries: HashMap<Key, Box<str>>,
        homes: Homes,
    }
    let mut folders: HashMap<(PathBuf, Option<String>), Folder> = HashMap::new();
    for draft in rows.iter_mut().flatten() {
        let given = std::mem::take(&mut draft.gives);
        let key = (draft.root(), draft.folder.clone());
        let folder = folders.entry(key).or_default();
        folder.summaries.extend(given.summaries);
        folder
            .homes
            .add(draft.layout, draft.folder.as_deref(), &given.directories);
    }
    for draft in rows.iter_mut().flatten() {
        let Some(folder) = folders.get(&(draft.root(), draft.folder.clone())) else {
            continue;
        };
        let wants = std::mem::take(&mut draft.wants);
        // The summary nearest to the leaf wins.
        let mut found = wants
            .iter()
            .rev()
            .filter_map(|key| folder.summaries.get(key));
        if let Some(text) = found.find(|text| !text.trim().is_empty()) {
            draft.info.title = Some(Title {
                text: crate::tree::one_line(text),
                source: TitleSource::Summary,
            });
        }
        if draft.info.project.guessed
            && let Some(path) = folder.homes.only()
        {
            draft.info.project = Project {
                path,
                guessed: false,
            };
        }
    }
}

fn resumed_keys(session: &Session) -> Vec<Key> {
    let Some((_, scan, tree)) = session.main() else {
        return Vec::new();
    };
    let resumed = tree.resume.and_then(|at| tree.conversations.get(at));
    let path = resumed
        .map(|conversation| tree.path(conversation))
        .unwrap_or_default();
    path.into_iter()
        .filter_map(|at| scan.outlines.get(at)?.key)
        .collect()
}

fn project(session: &Session) -> (Project, Vec<String>) {
    let told = session.files.told(|about| about.cwd.clone());
    let told = told.or_else(|| session.neighbourhood.clone());
    let directories = session.directories();
    project_of(session.root(), session.files.folder(), &directories, told)
}

/// A session's directory, and others that it names: the newest that its entries name. Going into a
/// directory below the one that the folder is named after is no move.
pub(super) fn project_of(
    root: &super::Root,
    folder: Option<&str>,
    directories: &[&str],
    told: Option<String>,
) -> (Project, Vec<String>) {
    let Some(newest) = directories.last().copied() else {
        let known = told.or_else(|| around(root));
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
pub(super) fn around(root: &super::Root) -> Option<String> {
    let name = root.layout.project_dir()?;
    let dir = std::path::absolute(&root.path).ok()?;
    let inside = dir.file_name().is_some_and(|last| last == name);
    let project = dir.parent().filter(|_| inside)?;
    Some(project.to_str()?.to_owned())
}

/// Days of times that mostly fall on the same day as the time before.
#[derive(Default)]
struct DayOf(Option<(i64, jiff::civil::Date)>);

impl DayOf {
    fn day(&mut self, time: Timestamp) -> jiff::civil::Date {
        let number = time.as_second().div_euclid(86_400);
        match self.0 {
            Some((known, day)) if known == number => day,
            _ => {
                let day = time.to_zoned(jiff::tz::TimeZone::UTC).date();
                self.0 = Some((number, day));
                day
            }
        }
    }
}
