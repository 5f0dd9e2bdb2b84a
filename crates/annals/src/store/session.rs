//! A session in memory: outlines and trees of its logs, and its agents.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use annals_layouts::Subject;
use annals_layouts::model::{
    ArtifactKind, Body, Entry, EntryId, EntryKey, Fact, Flaw, FlawKind, Outline, OutlineKind,
    TitleSource, Todo,
};
use annals_layouts::tree::{Conversation, Title, Titles, Tree};

use super::inventory::{RootFile, SessionFiles};
use super::log_reader::{self, LogScan};
use super::project_hints::FolderHints;
use super::{Agent, Root};

/// A session that was read.
#[derive(Debug)]
pub struct Session {
    /// Files of the session.
    pub files: SessionFiles,
    /// Outlines of its logs, in the order of [`SessionFiles::logs`].
    pub logs: Vec<LogScan>,
    /// Trees of its logs, in the same order.
    pub trees: Vec<Tree>,
    /// Sub-agents.
    pub agents: Vec<Agent>,
    /// Summaries of conversations found in other files, by leaf.
    pub(crate) external_summaries: Arc<HashMap<EntryKey, Box<str>>>,
    /// Directory of the folder's other sessions, if this session has none.
    pub(crate) folder_directory: Option<String>,
    /// Outlines of the logs that contain only notes.
    pub(crate) note_logs: Vec<LogScan>,
    /// Facts about the session from notes and the session list.
    pub(super) external_facts: Vec<Fact>,
    /// Whether the session was read without read failures.
    pub(crate) complete: bool,
}

impl Session {
    /// Reads the outlines of all logs.
    ///
    /// An unreadable sub-agent or note does not make the session unreadable: it becomes a flaw and
    /// is reported to [`Store::failures`](super::Store::failures).
    pub fn read(files: SessionFiles) -> Result<Self> {
        let failures = files.root.failures.clone();
        let before = failures.report_count();
        let read = |file: &RootFile| log_reader::outline(&files.root, file);
        let mut logs: Vec<LogScan> = files.log.iter().map(read).collect::<Result<_>>()?;
        let agents = files.agents.iter().map(read);
        logs.extend(agents.map(|scan| scan.unwrap_or_else(|error| unreadable(&files, error))));
        let mut session = Session::assemble(files, logs);
        session.complete = failures.report_count() == before;
        Ok(session)
    }

    /// Fails if a log could not be read, for callers that need the complete session.
    pub(crate) fn refuse_unreadable(&self) -> Result<()> {
        let mut flaws = self.flaws().map(|(_, flaw)| flaw);
        match flaws.find(|flaw| flaw.kind == FlawKind::Unreadable) {
            Some(flaw) => Err(Error::refused(flaw.detail.clone())),
            None => Ok(()),
        }
    }

    /// Reads only the end of the main log: enough for its last `messages` messages.
    pub fn read_tail(mut files: SessionFiles, messages: usize) -> Result<Self> {
        files.agents.clear();
        let plain = |file: &&RootFile| file.earlier.is_empty();
        let Some(file) = files.log.as_ref().filter(plain) else {
            return Session::read(files);
        };
        let window = log_reader::read_tail_window(&files.root, file, |window| {
            let tree = &window.tree;
            let resumed = tree.resume.and_then(|at| tree.conversations.get(at));
            resumed.is_some_and(|conversation| {
                tree.messages_after_first_turn(conversation) >= messages
            })
        })?;
        Ok(Session::assemble(files, vec![window.scan]))
    }

    fn assemble(files: SessionFiles, logs: Vec<LogScan>) -> Self {
        let trees: Vec<Tree> = files
            .logs()
            .zip(&logs)
            .map(|(file, scan)| Tree::build(&scan.outlines, log_reader::scope(&file.artifact)))
            .collect();
        let agents = super::agent::find_agents(&files, &logs, &trees);
        let remarks: Vec<LogScan> = files.notes().map(|file| read_notes(&files, file)).collect();
        let listed = files.listed_title();
        let listed = listed.map(|title| Fact::Title(title.into(), TitleSource::Custom));
        let said = remarks.iter().flat_map(|scan| &scan.outlines);
        let said = said.flat_map(|outline| outline.facts.iter().cloned());
        let asides: Vec<Fact> = listed.into_iter().chain(said).collect();
        Session {
            files,
            logs,
            trees,
            agents,
            external_summaries: Arc::default(),
            folder_directory: None,
            note_logs: remarks,
            external_facts: asides,
            complete: true,
        }
    }

    /// Returns the title, if only the session list has it.
    pub(crate) fn listed_title(&self) -> Option<String> {
        self.files.listed_title()
    }

    /// Returns the notes of the session from all of its logs, oldest first.
    pub fn notes(&self) -> Result<Vec<Entry>> {
        let is_note = |outline: &Outline| {
            let mut facts = outline.facts.iter();
            facts.any(|fact| matches!(fact, Fact::Note(_)))
        };
        let main = self.main_log().map(|(file, scan, _)| (file, scan));
        let beside = self.files.notes().zip(&self.note_logs);
        let mut notes = Vec::new();
        for (file, scan) in main.into_iter().chain(beside) {
            let root = &self.files.root;
            let marked = scan.indexes(is_note);
            log_reader::entries_at(root, file, &scan.outlines, &marked, |entry| {
                notes.push(entry);
                Ok(true)
            })?;
        }
        crate::sort::by_key(&mut notes, |note| note.time);
        Ok(notes)
    }

    /// Adds what this session lacks from other logs of its folder: summaries of its conversations,
    /// and its directory.
    pub fn apply_folder_hints(&mut self, neighbours: &FolderHints<'_>) {
        let titled = self
            .title()
            .is_some_and(|title| title.source > annals_layouts::model::TitleSource::Prompt);
        let placed = !self.directories().is_empty();
        if titled && placed {
            return;
        }
        if !titled && let Some((_, scan, _)) = self.main_log() {
            let keys = scan.outlines.iter().filter_map(|outline| outline.key);
            self.external_summaries = Arc::new(neighbours.summaries(&self.files, keys));
        }
        if !placed {
            self.folder_directory = neighbours.directory(&self.files);
        }
    }

    /// Root of the session.
    pub fn root(&self) -> &Root {
        &self.files.root
    }

    /// Tree of the main agent.
    pub fn tree(&self) -> Option<&Tree> {
        self.main_log().map(|(_, _, tree)| tree)
    }

    /// Log of the main agent.
    pub fn main_log(&self) -> Option<(&RootFile, &LogScan, &Tree)> {
        // Logs of sub-agents may remain after the main log was deleted.
        let file = self.files.log.as_ref()?;
        Some((file, self.logs.first()?, self.trees.first()?))
    }

    /// Returns a log by its index in [`SessionFiles::logs`].
    pub fn log(&self, at: usize) -> Option<(&RootFile, &LogScan, &Tree)> {
        Some((
            self.files.logs().nth(at)?,
            self.logs.get(at)?,
            self.trees.get(at)?,
        ))
    }

    /// Returns the session's title.
    pub fn title(&self) -> Option<Title> {
        let Some((_, scan, tree)) = self.main_log() else {
            // Titles from notes follow the title from the session list. The last one wins.
            let mut title = self.external_facts.iter().rev();
            let title = title.find_map(|fact| match fact {
                Fact::Title(text, _) => Some(text),
                _ => None,
            });
            let title = title.filter(|_| self.files.is_unwritten());
            return title.map(|text| Title {
                text: annals_layouts::tree::one_line(text),
                source: TitleSource::Custom,
            });
        };
        Titles::new(
            &scan.outlines,
            tree,
            &self.external_summaries,
            &self.external_facts,
        )
        .session()
    }

    /// Returns the last tag of the session.
    pub fn tag(&self) -> Option<String> {
        let mut tags = self.facts().filter_map(|fact| match fact {
            Fact::Tag(text) => Some(text.to_string()),
            _ => None,
        });
        tags.next_back().filter(|text| !text.is_empty())
    }

    /// Returns all flaws of the session, with the files that contain them.
    pub fn flaws(&self) -> impl Iterator<Item = (&RootFile, &Flaw)> {
        let scans = self
            .files
            .logs()
            .zip(&self.logs)
            .chain(self.files.notes().zip(&self.note_logs))
            .map(|(file, scan)| (file, &scan.flaws));
        let trees = self.files.logs().zip(&self.trees).zip(&self.logs);
        // In a partial scan of the end of a log, links to earlier records look broken.
        let trees = trees
            .filter(|(_, scan)| scan.whole)
            .map(|((file, tree), _)| (file, &tree.flaws));
        scans.chain(trees).flat_map(|(file, flaws)| {
            let place = |flaw: &'_ Flaw| file.volume(flaw.volume);
            flaws.iter().map(move |flaw| (place(flaw), flaw))
        })
    }

    /// Visits the entries of a conversation of the main log, oldest first.
    pub fn each_entry(
        &self,
        conversation: &Conversation,
        visit: impl FnMut(Entry) -> Result<bool>,
    ) -> Result<()> {
        let Some((_, _, tree)) = self.main_log() else {
            return Ok(());
        };
        self.each_entry_of_log(0, &tree.path(conversation), visit)
    }

    /// Visits entries of one log, given by index.
    pub fn each_entry_of_log(
        &self,
        log: usize,
        entries: &[usize],
        visit: impl FnMut(Entry) -> Result<bool>,
    ) -> Result<()> {
        let Some((file, scan, _)) = self.log(log) else {
            return Ok(());
        };
        log_reader::entries_at(&self.files.root, file, &scan.outlines, entries, visit)
    }

    /// Visits entries of one log, given by index, each with its outline and the bytes of its record;
    /// `None` if the record has companion data too.
    pub(crate) fn each_record_of_log(
        &self,
        log: usize,
        entries: &[usize],
        visit: impl FnMut(Entry, &Outline, Option<&[u8]>) -> Result<bool>,
    ) -> Result<()> {
        let Some((file, scan, _)) = self.log(log) else {
            return Ok(());
        };
        log_reader::records_at(&self.files.root, file, &scan.outlines, entries, visit)
    }

    /// Visits entries of a log or a notes file, given by index.
    pub(crate) fn each_entry_of_file(
        &self,
        file: &RootFile,
        scan: &LogScan,
        entries: &[usize],
        visit: impl FnMut(Entry) -> Result<bool>,
    ) -> Result<()> {
        log_reader::entries_at(&self.files.root, file, &scan.outlines, entries, visit)
    }

    /// Returns the exact bytes of records of one log, without line endings.
    pub fn raw_records<'a>(
        &'a self,
        log: usize,
        entries: &'a [usize],
    ) -> Result<impl Iterator<Item = Result<Vec<u8>>> + 'a> {
        let missing = || Error::NotFound {
            what: Subject::Log,
            id: log.to_string(),
        };
        let (file, scan, _) = self.log(log).ok_or_else(missing)?;
        let mut reader = log_reader::RecordReader::new(&self.files.root, file, &scan.outlines);
        let known = |at: &&usize| **at < scan.outlines.len();
        let wanted = entries.iter().filter(known);
        Ok(wanted.map(move |&at| reader.record(at).map(|(bytes, _)| bytes)))
    }

    /// Returns the index of an entry of the main log, by its id or a unique prefix of it. An
    /// ambiguous UUID prefix of at least 8 characters selects the only match that is a leaf.
    pub fn find_entry(&self, id: &str) -> Result<usize> {
        let missing = || Error::NotFound {
            what: Subject::Message,
            id: id.to_owned(),
        };
        let (_, scan, tree) = self.main_log().ok_or_else(missing)?;
        let key = EntryKey::from_text(id);
        if let Some(at) = scan
            .outlines
            .iter()
            .rposition(|outline| outline.key == Some(key))
        {
            return Ok(at);
        }
        let fits = |at: &usize| {
            let id_of = scan.outlines.get(*at).and_then(|outline| outline.id());
            id_of.is_some_and(|other| other.as_str().starts_with(id))
        };
        let mut found: Vec<usize> = (0..scan.outlines.len()).filter(fits).collect();
        // Leaves identify conversations, so a leaf takes precedence if several entries match. Ids
        // of other forms may be sequential, so a shared prefix means nothing.
        let random = |at: &usize| {
            let id_of = scan.outlines.get(*at).and_then(|outline| outline.id());
            id_of.is_some_and(|id| EntryKey::is_canonical_uuid(id.as_str()))
        };
        if found.len() > 1 && id.len() >= 8 && found.iter().all(random) {
            let ends: HashSet<usize> = tree
                .conversations
                .iter()
                .map(|conversation| conversation.leaf)
                .collect();
            let mut leaves = found.clone();
            leaves.retain(|at| ends.contains(at));
            if leaves.len() == 1 {
                found = leaves;
            }
        }
        match found.as_slice() {
            _ if id.is_empty() => Err(missing()),
            [] => Err(missing()),
            [only] => Ok(*only),
            many => Err(Error::Ambiguous {
                what: Subject::Message,
                id: id.to_owned(),
                candidates: many
                    .iter()
                    .filter_map(|&at| Some(scan.outlines.get(at)?.id()?.to_string()))
                    .collect(),
            }),
        }
    }

    /// Returns the id of an entry of the main log.
    pub fn entry_id(&self, at: usize) -> Option<EntryId> {
        self.main_log()?.1.outlines.get(at)?.id()
    }

    /// Returns the todos of each agent, by agent id, the main agent's first.
    pub fn todos(&self) -> Result<Vec<(String, Vec<Todo>)>> {
        let mut lists: Vec<(String, Vec<Todo>)> = Vec::new();
        let mut tasks: Vec<(u64, Todo)> = Vec::new();
        for file in &self.files.attachments {
            let kind = file.artifact.kind;
            if !matches!(kind, ArtifactKind::Todos | ArtifactKind::Task) {
                continue;
            }
            for entry in log_reader::read_document(&self.files.root, file)?.items {
                let Body::Todos(todos) = entry.body else {
                    continue;
                };
                if kind == ArtifactKind::Task {
                    let number = file
                        .artifact
                        .name
                        .as_deref()
                        .and_then(|name| name.parse().ok());
                    tasks.extend(
                        todos
                            .into_iter()
                            .map(|todo| (number.unwrap_or(u64::MAX), todo)),
                    );
                } else if !todos.is_empty() {
                    let agent = file
                        .artifact
                        .agent
                        .as_ref()
                        .map_or("", |agent| agent.as_str());
                    lists.push((agent.to_owned(), todos));
                }
            }
        }
        for (log, scan) in self.logs.iter().enumerate() {
            let marked = scan.indexes(is_todos);
            self.each_entry_of_log(log, &marked, |entry| {
                if let Body::Todos(todos) = entry.body {
                    let agent = entry.agent.as_ref().map(|agent| agent.as_str());
                    lists.push((agent.unwrap_or(self.files.id.as_str()).to_owned(), todos));
                }
                Ok(true)
            })?;
        }
        crate::sort::by_key(&mut tasks, |(number, _)| *number);
        if !tasks.is_empty() {
            let tasks = tasks.into_iter().map(|(_, todo)| todo).collect();
            lists.insert(0, (self.files.id.to_string(), tasks));
        }
        crate::sort::by_key(&mut lists, |(agent, _)| agent != self.files.id.as_str());
        Ok(lists)
    }

    /// Returns whether the session has todos.
    pub(crate) fn has_todos(&self) -> bool {
        let is_list = |file: &RootFile| {
            matches!(file.artifact.kind, ArtifactKind::Todos | ArtifactKind::Task)
        };
        let mut outlines = self.logs.iter().flat_map(|scan| &scan.outlines);
        self.files.attachments.iter().any(is_list) || outlines.any(is_todos)
    }

    fn facts(&self) -> impl DoubleEndedIterator<Item = &Fact> {
        let main = self.main_log().map(|(_, scan, _)| scan).into_iter();
        main.flat_map(|scan| &scan.outlines)
            .flat_map(|outline| &outline.facts)
            .chain(&self.external_facts)
    }

    /// Returns the distinct working directories in which a model answered, the newest last. If no
    /// model answered, returns all directories in the logs.
    pub fn directories(&self) -> Vec<&str> {
        let mut named: Vec<(&str, usize)> = Vec::new();
        let mut answered: Vec<(&str, usize)> = Vec::new();
        let mut at = 0;
        for scan in &self.logs {
            // The current directory, and its index in `answered`.
            let mut cwd: Option<(&str, Option<usize>)> = None;
            for outline in &scan.outlines {
                at += 1;
                for fact in &outline.facts {
                    if let Fact::Cwd(path) = fact {
                        named.push((path, at));
                        cwd = Some((path, None));
                    }
                }
                let Some((path, place)) = cwd
                    .as_mut()
                    .filter(|_| outline.kind == OutlineKind::Assistant)
                else {
                    continue;
                };
                match place.and_then(|place| answered.get_mut(place)) {
                    Some(known) => known.1 = at,
                    None => {
                        *place = Some(answered.len());
                        answered.push((path, at));
                    }
                }
            }
        }
        let mut seen = if answered.is_empty() { named } else { answered };
        // Keep the newest mention of each directory.
        seen.sort_unstable_by_key(|(path, at)| (*path, Reverse(*at)));
        seen.dedup_by_key(|(path, _)| *path);
        seen.sort_unstable_by_key(|(_, at)| *at);
        seen.into_iter().map(|(path, _)| path).collect()
    }

    /// Returns the directory in which the session would go on: the last one that its records name, or
    /// else that of its project.
    pub fn working_directory(&self) -> Option<String> {
        if let Some(cwd) = self.directories().last() {
            return Some((*cwd).to_owned());
        }
        let project = self.info(None).project;
        (!project.guessed && project.path.starts_with('/')).then_some(project.path)
    }
}

fn is_todos(outline: &Outline) -> bool {
    outline.facts.contains(&Fact::Todos)
}

/// Outlines a notes file. A failure does not make the session unreadable.
fn read_notes(files: &SessionFiles, file: &RootFile) -> LogScan {
    log_reader::outline(&files.root, file).unwrap_or_else(|error| unreadable(files, error))
}

/// Reports the failure to read a log, and returns an empty scan with a flaw.
fn unreadable(files: &SessionFiles, error: Error) -> LogScan {
    let scan = LogScan::unreadable(&error);
    files.root.failures.report(error);
    scan
}
