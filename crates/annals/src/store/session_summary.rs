//! Rows of session listings: facts from each session's files, and facts that need all sessions.
//!
//! The former require reading logs and can be cached. The latter are computed for every listing,
//! because any session may change them: summaries in other logs, the owner of a response that
//! several sessions repeat, the day when the agent program deletes a session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cost::{Account, Charge, Ledger, LogCharges, SIDECHAIN, sidechain_of};
use crate::error::Result;
use annals_layouts::layout::Layout;
use annals_layouts::model::{
    EntryKey, Fact, FlawKind, Project, SYNTHETIC, SessionId, TitleSource, Usage,
};
use annals_layouts::tree::Title;

use super::agent::Agent;
use super::info::{SessionInfo, infer_project};
use super::inventory::{RootFile, SessionFiles};
use super::lifecycle::{SessionState, keep_duration};
use super::log_reader::{LeafSummary, LogOpening, summary_key};
use super::session::Session;

/// Facts from a session's own files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionSummary {
    pub(crate) project: Project,
    pub(crate) other_directories: Vec<String>,
    pub(crate) title: Option<Title>,
    pub(crate) tag: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) state: SessionState,
    #[serde(with = "jiff::fmt::serde::timestamp::nanosecond::optional")]
    pub(crate) started: Option<Timestamp>,
    /// Time of the newest entry.
    #[serde(with = "jiff::fmt::serde::timestamp::nanosecond::optional")]
    pub(crate) updated: Option<Timestamp>,
    pub(crate) entries: u64,
    pub(crate) messages: u64,
    pub(crate) conversations: usize,
    pub(crate) agents: usize,
    /// Number of bytes of its records, if they are in a database.
    pub(crate) row_bytes: u64,
    pub(crate) agent_names: BTreeSet<String>,
    /// Kinds of sub-agents by id, with those of warm-ups.
    pub(crate) agent_kinds: BTreeMap<String, String>,
    pub(crate) flaw_kinds: BTreeMap<FlawKind, usize>,
    pub(crate) models: BTreeSet<String>,
    /// Charges of its logs; a response may have several. The index stores them separately.
    #[serde(skip)]
    pub(crate) charges: Vec<Charge>,
    pub(crate) messages_by_day: BTreeMap<jiff::civil::Date, u64>,
    /// Entry keys on the path of the resumed conversation, if the session still needs a title.
    #[serde(with = "super::key_bytes")]
    pub(crate) untitled_keys: Vec<EntryKey>,
    /// Summaries of other sessions' conversations, by the leaf they name. The index stores them
    /// separately.
    #[serde(skip)]
    pub(crate) summaries: Vec<(EntryKey, Box<str>)>,
    /// Whether the project is the only directory at the log's beginning that its folder can be
    /// named after.
    pub(crate) is_folder_directory: bool,
    /// Otherwise, the distinct directories that the folder can be named after.
    pub(crate) folder_directories: Vec<Box<str>>,
}

impl SessionSummary {
    /// Summarizes a session.
    pub(crate) fn from_session(session: &Session) -> Self {
        let files = &session.files;
        let mut counts = OutlineCounts::default();
        let warm_ups = WarmUps::by_log(session);
        for (log, scan) in session.logs.iter().enumerate() {
            let warm_ups = warm_ups.get(&log);
            for (at, outline) in scan.outlines.iter().enumerate() {
                counts.add(outline, warm_ups.is_some_and(|it| it.contain(at)));
            }
        }
        let mut flaw_kinds = BTreeMap::new();
        for (_, flaw) in session.flaws() {
            *flaw_kinds.entry(flaw.kind).or_insert(0) += 1;
        }
        if files.is_unwritten() {
            // Without messages, the times are in the session list.
            counts.started = counts.started.or(files.listed(|about| about.started));
            counts.updated = counts.updated.or(files.listed(|about| about.updated));
        }
        let title = session.title();
        let untitled = title
            .as_ref()
            .is_none_or(|title| title.source == TitleSource::Prompt);
        let opening = session
            .main_log()
            .map(|(_, scan, _)| LogOpening::from_outlines(&scan.outlines))
            .unwrap_or_default();
        let mut directories = FolderDirectories::default();
        directories.add(files.root.layout, files.folder(), &opening.directories);
        let mut directories: Vec<Box<str>> = directories.0.into_iter().collect();
        let (project, other_directories) = project(session);
        let attributes = attributes(session);
        let at_home = matches!(directories.as_slice(), [only] if **only == *project.path);
        if at_home {
            directories.clear();
        }
        SessionSummary {
            project,
            other_directories,
            title,
            tag: session.tag(),
            attributes,
            state: match session.main_log() {
                Some(_) if counts.messages == 0 => SessionState::Created,
                Some((_, scan, _)) => SessionState::from_outlines(&scan.outlines),
                None if counts.messages > 0 => SessionState::Active,
                None => SessionState::Created,
            },
            started: counts.started,
            updated: counts.updated,
            entries: counts.entries,
            messages: counts.messages,
            conversations: session.tree().map_or(0, |tree| tree.conversations.len()),
            agents: spawned_agents(session).count(),
            row_bytes: match files.is_in_database() {
                true => session.logs.iter().map(|scan| scan.bytes).sum(),
                false => 0,
            },
            agent_names: agent_names(session),
            agent_kinds: agent_kinds(session),
            flaw_kinds,
            models: counts.models,
            charges: charges(session),
            messages_by_day: counts.messages_by_day,
            untitled_keys: if untitled {
                resumed_keys(session)
            } else {
                Vec::new()
            },
            summaries: summaries_for_others(session, opening.summaries),
            is_folder_directory: at_home,
            folder_directories: directories,
        }
    }

    /// Builds the row of this session, before other sessions are considered.
    pub(crate) fn into_info(self, files: &SessionFiles, keep_days: Option<u64>) -> SessionInfo {
        let layout = files.root.layout;
        let archived = files.is_archived();
        let modified = modified(files);
        let updated = last_active(files, self.updated);
        // The agent program cannot delete archived sessions.
        let keep_days = keep_days.or_else(|| layout.retention_days());
        let keep_days = keep_days.filter(|_| !archived);
        let by_file = layout.ages_by_file() || self.updated.is_none();
        let last_activity = match by_file {
            true => logs_modified(files).or(modified),
            false => updated,
        };
        let touched = match layout.expires_by_mtime() {
            true => modified,
            false => updated,
        };
        SessionInfo {
            layout: layout.name(),
            root: files.root.path.clone(),
            id: files.id.clone(),
            file: files.main_path().to_owned(),
            project: self.project,
            other_directories: self.other_directories,
            title: self.title,
            tag: self.tag,
            attributes: self.attributes,
            state: self.state,
            expires: touched
                .zip(keep_days.map(keep_duration))
                .and_then(|(touched, keep)| touched.checked_add(keep).ok()),
            keep_days,
            last_activity,
            last_activity_by_file: by_file,
            archived,
            started: self.started,
            updated,
            entries: self.entries,
            messages: self.messages,
            conversations: self.conversations,
            agents: self.agents,
            agent_names: self.agent_names,
            bytes: match files.is_in_database() {
                true => self.row_bytes,
                false => files.bytes(),
            },
            flaws: self.flaw_kinds.values().sum(),
            flaw_kinds: self.flaw_kinds,
            models: self.models,
            // Computed once responses are assigned to sessions.
            usage: Usage::default(),
            charges: self.charges,
            messages_by_day: self.messages_by_day,
        }
    }
}

/// Builds the rows of a listing from session summaries, in the same order.
pub(crate) fn make_infos(
    sessions: &[&SessionFiles],
    mut facts: Vec<Result<SessionSummary>>,
    keep_days: &HashMap<PathBuf, Option<u64>>,
) -> Vec<Result<SessionInfo>> {
    fill_from_folders(sessions, &mut facts);
    // Sessions of one root are adjacent.
    let mut root: Option<(&SessionFiles, Option<u64>)> = None;
    let mut rows: Vec<Result<SessionInfo>> = Vec::with_capacity(facts.len());
    for (files, facts) in sessions.iter().zip(facts) {
        let keep = match root {
            Some((known, keep)) if same_root(known, files) => keep,
            _ => keep_days.get(&files.root.path).copied().flatten(),
        };
        root = Some((files, keep));
        rows.push(facts.map(|facts| facts.into_info(files, keep)));
    }
    assign_responses(rows.iter_mut().flatten());
    rows
}

/// Returns the modification time of a session's first file.
fn modified(files: &SessionFiles) -> Option<Timestamp> {
    let file = files.files().next()?;
    Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok()
}

/// Returns the newest modification time of a session's logs.
fn logs_modified(files: &SessionFiles) -> Option<Timestamp> {
    let volumes = files.logs().flat_map(RootFile::volumes);
    let newest = volumes.map(|file| file.id.mtime_ns).max()?;
    Timestamp::from_nanosecond(newest.into()).ok()
}

/// Returns the time of the last activity: the file's modification time if no entry has a time.
pub(crate) fn last_active(
    files: &SessionFiles,
    newest_entry: Option<Timestamp>,
) -> Option<Timestamp> {
    newest_entry.or_else(|| modified(files))
}

/// Returns the indexes of the newest sessions, newest first.
pub(crate) fn newest<'a>(
    sessions: impl Iterator<Item = (usize, Option<Timestamp>, &'a SessionId)>,
    limit: usize,
) -> Vec<usize> {
    let mut newest: BinaryHeap<(Reverse<Option<Timestamp>>, &SessionId, usize)> = BinaryHeap::new();
    for (at, updated, id) in sessions {
        let session = (Reverse(updated), id, at);
        if newest.len() < limit {
            newest.push(session);
        } else if let Some(mut last) = newest.peek_mut()
            && session < *last
        {
            *last = session;
        }
    }
    let newest = newest.into_sorted_vec();
    newest.into_iter().map(|(_, _, at)| at).collect()
}

fn same_root(one: &SessionFiles, other: &SessionFiles) -> bool {
    // Comparing bytes is faster than comparing path components.
    one.root.path.as_os_str() == other.root.path.as_os_str()
}

/// Counts over outlines.
#[derive(Default)]
struct OutlineCounts {
    started: Option<Timestamp>,
    updated: Option<Timestamp>,
    entries: u64,
    messages: u64,
    models: BTreeSet<String>,
    messages_by_day: BTreeMap<jiff::civil::Date, u64>,
    day_of: DayOf,
}

impl OutlineCounts {
    /// Counts an entry. One of a warm-up is no message, and does not begin the session.
    fn add(&mut self, outline: &annals_layouts::model::Outline, warm_up: bool) {
        self.entries += 1;
        if let Some(time) = outline.time {
            if !warm_up {
                self.started = Some(self.started.map_or(time, |oldest| oldest.min(time)));
            }
            self.updated = Some(self.updated.map_or(time, |newest| newest.max(time)));
        }
        if outline.kind.is_message() && !warm_up {
            self.messages += 1;
            if let Some(day) = outline.time.map(|time| self.day_of.day(time)) {
                *self.messages_by_day.entry(day).or_insert(0) += 1;
            }
        }
        let reply = outline.reply.as_ref();
        let model = reply.and_then(|reply| reply.model.as_deref());
        let new = |model: &&str| *model != SYNTHETIC && !self.models.contains(*model);
        if let Some(model) = model.filter(new) {
            self.models.insert(model.to_owned());
        }
    }
}

/// Entries of a log that belong to warm-ups.
#[derive(Default)]
struct WarmUps {
    /// Whether all do.
    whole: bool,
    entries: HashSet<usize>,
}

impl WarmUps {
    fn by_log(session: &Session) -> HashMap<usize, Self> {
        let mut logs: HashMap<usize, Self> = HashMap::new();
        for agent in session.agents.iter().filter(|agent| agent.warm_up) {
            let found = logs.entry(agent.log).or_default();
            let Some(number) = agent.sidechain else {
                found.whole = true;
                continue;
            };
            let tree = session.trees.get(agent.log);
            let strand = tree.and_then(|tree| tree.sidechains.get(number));
            let entries = strand.into_iter().flat_map(|strand| &strand.entries);
            found.entries.extend(entries);
        }
        logs
    }

    fn contain(&self, entry: usize) -> bool {
        self.whole || self.entries.contains(&entry)
    }
}

/// Attribute with the last git branch.
const GIT_BRANCH: &str = "git_branch";

/// Collects the attributes of a session from its session list and its main log. The log takes
/// precedence, because the list is derived from it.
fn attributes(session: &Session) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    for about in session.files.list_rows.iter().rev() {
        let listed = about.attributes.iter();
        attributes.extend(listed.map(|(name, value)| (name.clone(), value.clone())));
        let branch = about.git_branch.iter();
        attributes.extend(branch.map(|branch| (GIT_BRANCH.to_owned(), branch.clone())));
    }
    let outlines = session.main_log().into_iter();
    let facts = outlines.flat_map(|(_, scan, _)| scan.outlines.iter().flat_map(|it| &it.facts));
    for fact in facts {
        let (name, value) = match fact {
            Fact::Attribute(name, value) => (*name, value),
            Fact::GitBranch(branch) => (GIT_BRANCH, branch),
            _ => continue,
        };
        match value.is_empty() {
            true => attributes.remove(name),
            false => attributes.insert(name.to_owned(), value.to_string()),
        };
    }
    attributes
}

/// Returns the charges of the session's logs; a response may have several.
fn charges(session: &Session) -> Vec<Charge> {
    let mut charges = Vec::new();
    for (file, scan) in session.files.logs().zip(&session.logs) {
        let mut sheet = LogCharges::default();
        for outline in &scan.outlines {
            sheet.add(outline);
        }
        let only = file.slice.is_none().then_some(&session.files.id);
        let mut own: Vec<Charge> = sheet.charges(0, only).collect();
        if let (true, Some(agent)) = (file.slice.is_some(), &file.artifact.agent) {
            for charge in &mut own {
                charge.source_mut().agent = Some(agent.as_str().into());
            }
        }
        charges.extend(own);
    }
    charges
}

fn total(charges: &[Charge]) -> Usage {
    let mut sum = Usage::default();
    for charge in charges {
        // Sums of valid counts do not overflow.
        let _ = sum.add(&charge.usage);
    }
    sum
}

/// Assigns each response to the session that had it first.
pub(super) fn assign_responses<'a>(sessions: impl Iterator<Item = &'a mut SessionInfo>) {
    let mut sessions: Vec<&mut SessionInfo> = sessions.collect();
    let copies = have_copies(&sessions);
    let mut number = 0;
    let mut charges = Vec::new();
    let mut accounts = Vec::new();
    let mut copies = copies.iter();
    sessions.retain_mut(|info| {
        if copies.next() != Some(&true) {
            info.usage = total(&info.charges);
            return false;
        }
        // Only the fields that decide which session pays.
        let mut account = Account::new(info.layout, PathBuf::new(), info.id.clone());
        account.file.clone_from(&info.file);
        account.started = info.charges.iter().filter_map(|charge| charge.time).min();
        accounts.push(account);
        charges.extend(info.charges.drain(..).map(|mut charge| {
            charge.account = number;
            charge
        }));
        number += 1;
        true
    });
    for mut charge in Ledger::dedupe(accounts, charges).charges {
        if let Some(info) = sessions.get_mut(std::mem::take(&mut charge.account)) {
            info.charges.push(charge);
        }
    }
    for info in sessions {
        info.usage = total(&info.charges);
    }
}

/// Returns which sessions have a response that occurs more than once, in them or elsewhere. All
/// others need no deduplication.
fn have_copies(sessions: &[&mut SessionInfo]) -> Vec<bool> {
    let count = sessions.iter().map(|info| info.charges.len()).sum();
    let mut copies = RepeatedResponses::new(sessions.len(), count);
    for (number, info) in sessions.iter().enumerate() {
        let keys = info.charges.iter().filter_map(|charge| charge.response);
        keys.for_each(|key| copies.add(number, key.message));
    }
    copies.found
}

/// Finds sessions with responses that occur more than once.
pub(crate) struct RepeatedResponses {
    first: HashTable<(EntryKey, u32)>,
    seed: [u64; 2],
    /// Indexed by session number.
    pub(crate) found: Vec<bool>,
}

impl RepeatedResponses {
    /// Creates an empty set for a number of sessions and an approximate number of responses.
    pub(crate) fn new(sessions: usize, responses: usize) -> Self {
        RepeatedResponses {
            first: HashTable::with_capacity(responses),
            seed: [0u64, 1].map(|number| RandomState::new().hash_one(number)),
            found: vec![false; sessions],
        }
    }

    /// Adds the message of a response. Requests are not compared, because a record may lack one.
    pub(crate) fn add(&mut self, number: usize, message: EntryKey) {
        let seed = self.seed;
        let place = (message, u32::try_from(number).unwrap_or(u32::MAX));
        let entry = self.first.entry(
            hash_key(message, seed),
            |(known, _)| *known == message,
            |(known, _)| hash_key(*known, seed),
        );
        match entry {
            Entry::Vacant(slot) => _ = slot.insert(place),
            Entry::Occupied(known) => {
                for at in [number, known.get().1 as usize] {
                    self.found.get_mut(at).into_iter().for_each(|is| *is = true);
                }
            }
        }
    }
}

/// Hashes a key, which usually is a digest already. The seed prevents hash collisions by chosen
/// ids.
fn hash_key(key: EntryKey, [one, other]: [u64; 2]) -> u64 {
    let [high, low] = key.halves();
    let product = u128::from(high ^ one) * u128::from(low ^ other | 1);
    (product >> 64) as u64 ^ product as u64
}

/// Kind of a warm-up in reports.
pub(crate) const WARM_UP: &str = "warm-up";

/// Returns the sub-agents without warm-ups.
fn spawned_agents(session: &Session) -> impl Iterator<Item = &Agent> {
    session.agents.iter().filter(|agent| !agent.warm_up)
}

fn agent_names(session: &Session) -> BTreeSet<String> {
    let ids = spawned_agents(session).filter_map(|agent| agent.id.as_ref());
    let kinds = spawned_agents(session).filter_map(|agent| agent.kind.clone());
    ids.map(ToString::to_string).chain(kinds).collect()
}

fn agent_kinds(session: &Session) -> BTreeMap<String, String> {
    let agents = session.agents.iter().filter_map(|agent| {
        let kind = match agent.warm_up {
            true => Some(WARM_UP.to_owned()),
            false => agent.kind.clone(),
        };
        Some((agent.id.as_ref()?.to_string(), kind?))
    });
    agents.chain(sidechain_kinds(session)).collect()
}

/// Returns the kind of the sub-agents without ids: one for all, or one for each of their responses.
fn sidechain_kinds(session: &Session) -> Vec<(String, String)> {
    let agents = session.agents.iter();
    let agents: Vec<(&Agent, usize)> = agents
        .filter(|agent| agent.id.is_none())
        .filter_map(|agent| Some((agent, agent.sidechain?)))
        .collect();
    let kinds: BTreeSet<Option<&str>> = agents
        .iter()
        .map(|(agent, _)| agent.kind.as_deref())
        .collect();
    if kinds.len() == 1 {
        let kind = kinds.into_iter().flatten();
        return kind
            .map(|kind| (SIDECHAIN.to_owned(), kind.to_owned()))
            .collect();
    }
    let mut found = Vec::new();
    for (agent, number) in agents {
        let (Some(kind), Some((_, scan, tree))) = (&agent.kind, session.log(agent.log)) else {
            continue;
        };
        let entries = tree.sidechains.get(number).map(|chain| &chain.entries);
        let entries = entries.into_iter().flatten();
        let replies = entries.filter_map(|&at| scan.outlines.get(at)?.reply.as_ref());
        let responses = replies.filter_map(|reply| reply.response);
        found.extend(responses.map(|response| (sidechain_of(response), kind.clone())));
    }
    found
}

/// Directories that a folder may be named after.
#[derive(Default)]
pub(super) struct FolderDirectories(BTreeSet<Box<str>>);

impl FolderDirectories {
    /// Adds the directories that the folder can be named after.
    pub(super) fn add(
        &mut self,
        layout: &dyn Layout,
        folder: Option<&str>,
        directories: &[Box<str>],
    ) {
        // Without project folders, adjacent sessions are unrelated.
        let Some(folder) = folder else { return };
        for path in directories {
            // Most lines repeat the directory of the previous line.
            if !self.0.contains(path) && layout.folder(path).as_deref() == Some(folder) {
                self.0.insert(path.clone());
            }
        }
    }

    /// Returns the directory if unambiguous: different directories may share a folder.
    pub(super) fn unique(&self) -> Option<String> {
        let mut directories = self.0.iter();
        match (directories.next(), directories.next()) {
            (Some(only), None) => Some(only.to_string()),
            _ => None,
        }
    }
}

/// Adds facts from other sessions of the folder: summaries of the conversation, and the directory.
fn fill_from_folders(sessions: &[&SessionFiles], facts: &mut [Result<SessionSummary>]) {
    let mut folders = FolderSummaries::default();
    let mut places = Vec::with_capacity(facts.len());
    for (files, facts) in sessions.iter().zip(facts.iter_mut()) {
        let place = folders.folder_index(files);
        places.push(place);
        if let (Ok(facts), Some(folder)) = (facts, folders.list.get_mut(place)) {
            folder.summaries.append(&mut facts.summaries);
            folder
                .directories
                .0
                .extend(facts.folder_directories.drain(..));
            let home = facts.project.path.as_str();
            if facts.is_folder_directory && !folder.directories.0.contains(home) {
                folder.directories.0.insert(home.into());
            }
        }
    }
    for folder in &mut folders.list {
        folder.sort();
    }
    for ((files, facts), place) in sessions.iter().zip(facts.iter_mut()).zip(places) {
        let (Ok(facts), Some(folder)) = (facts, folders.list.get(place)) else {
            continue;
        };
        let wants = std::mem::take(&mut facts.untitled_keys);
        if let Some(title) = folder.title(&files.id, &wants) {
            facts.title = Some(title);
        }
        if facts.project.guessed
            && let Some(path) = folder.directories.unique()
        {
            facts.project = Project {
                path,
                guessed: false,
            };
        }
    }
}

/// Facts that sessions of each folder contain about each other.
#[derive(Default)]
struct FolderSummaries<'a> {
    list: Vec<FolderSummary>,
    indexes: HashMap<(usize, Option<&'a str>), usize>,
    roots: Vec<&'a SessionFiles>,
    last: Option<(usize, Option<&'a str>, usize)>,
}

/// Facts in the logs of a folder about its sessions.
#[derive(Default)]
pub(crate) struct FolderSummary {
    /// Summaries by leaf, sorted by `sort`.
    summaries: Vec<(EntryKey, Box<str>)>,
    directories: FolderDirectories,
}

impl FolderSummary {
    /// Creates it from the summaries in the logs of a folder.
    pub(crate) fn new(summaries: Vec<(EntryKey, Box<str>)>) -> Self {
        let mut folder = FolderSummary {
            summaries,
            ..FolderSummary::default()
        };
        folder.sort();
        folder
    }

    /// Returns the title that a summary gives to a session with these entries on the path of its
    /// resumed conversation. The summary nearest to the leaf wins.
    pub(crate) fn title(&self, session: &SessionId, keys: &[EntryKey]) -> Option<Title> {
        let found = keys.iter().rev();
        let mut found = found.filter_map(|key| self.summary(session, *key));
        let text = found.find(|text| !text.trim().is_empty())?;
        Some(Title {
            text: annals_layouts::tree::one_line(text),
            source: TitleSource::Summary,
        })
    }

    fn sort(&mut self) {
        // If a leaf has several summaries, the last one is used.
        self.summaries.reverse();
        crate::sort::by_key(&mut self.summaries, |(leaf, _)| *leaf);
        self.summaries.dedup_by_key(|(leaf, _)| *leaf);
    }

    fn summary(&self, session: &SessionId, leaf: EntryKey) -> Option<&str> {
        if self.summaries.is_empty() {
            return None;
        }
        let named = self.by_key(summary_key(session.as_str(), leaf));
        named.or_else(|| self.by_key(leaf))
    }

    fn by_key(&self, leaf: EntryKey) -> Option<&str> {
        let at = self
            .summaries
            .binary_search_by_key(&leaf, |(leaf, _)| *leaf);
        let (_, text) = self.summaries.get(at.ok()?)?;
        Some(text)
    }
}

impl<'a> FolderSummaries<'a> {
    /// Returns the index of a session's folder in the list.
    fn folder_index(&mut self, files: &'a SessionFiles) -> usize {
        let mut roots = self.roots.iter();
        let root = match roots.rposition(|known| same_root(known, files)) {
            Some(root) => root,
            None => {
                self.roots.push(files);
                self.roots.len() - 1
            }
        };
        let folder = files.folder();
        if let Some((known, name, place)) = self.last
            && (known, name) == (root, folder)
        {
            return place;
        }
        let place = *self.indexes.entry((root, folder)).or_insert_with(|| {
            self.list.push(FolderSummary::default());
            self.list.len() - 1
        });
        self.last = Some((root, folder, place));
        place
    }
}

/// Drops the summaries whose leaf is in their own log: they apply only there.
fn summaries_for_others(
    session: &Session,
    mut summaries: Vec<LeafSummary>,
) -> Vec<(EntryKey, Box<str>)> {
    if let Some((_, scan, _)) = session.main_log().filter(|_| !summaries.is_empty()) {
        let keys = scan.outlines.iter().filter_map(|outline| outline.key);
        let keys: HashSet<EntryKey> = keys.collect();
        summaries.retain(|summary| !keys.contains(&summary.leaf));
    }
    let summaries = summaries.into_iter();
    summaries
        .map(|summary| (summary.key, summary.text))
        .collect()
}

fn resumed_keys(session: &Session) -> Vec<EntryKey> {
    let Some((_, scan, tree)) = session.main_log() else {
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
    let directory = session.files.listed(|about| about.cwd.clone());
    let directory = directory.or_else(|| session.folder_directory.clone());
    let directories = session.directories();
    infer_project(
        session.root(),
        session.files.folder(),
        &directories,
        directory,
    )
}

/// Converts times to days. Caches the last day, because most times fall on the day of the previous
/// one.
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
