//! A session that is held open: pages of its messages, and what was appended since.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZone;
use serde::Serialize;

use super::list::{ConversationRow, SessionRow};
use super::{Pricing, Service};
use crate::cost::{Charge, ContextFill};
use crate::error::{Error, Result};
use crate::store::{
    Agent, FolderHints, Inventory, MessageFilter, SavedFile, Session, SessionFiles, Stats,
};
use crate::view::{EntryJson, FlawJson, PageRequest, SessionPage};
use annals_layouts::Subject;
use annals_layouts::model::{Entry, EntryId, EntryKey, Money, Outline, OutlineKind, Span, Todo};

/// Question for messages of a session.
#[derive(Clone, Debug, Default)]
pub struct MessagesRequest {
    /// Conditions on the messages. Its `agent` selects a log, as [`Session::find_agent`] does;
    /// without one, the main agent's messages are meant.
    pub filter: MessageFilter,
    /// The conversation that ends at or leads through this message; without one, the conversation
    /// that the agent would resume.
    pub leaf: Option<String>,
    /// Every message of the log in file order, not only those of one conversation.
    pub all_branches: bool,
    /// Part of the messages; all, if unset.
    pub page: PageRequest,
}

/// Messages of a session.
#[derive(Debug)]
#[non_exhaustive]
pub struct SessionMessages {
    /// The messages, as rows of `annals show --json`.
    pub entries: Vec<EntryJson>,
    /// The page, if a part was asked for.
    pub page: Option<SessionPage>,
}

/// A sub-agent as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct AgentRow {
    /// Its id.
    pub id: Option<String>,
    /// Its kind, such as `Explore`.
    pub kind: Option<String>,
    /// Its task.
    pub description: Option<String>,
    /// The message with the tool call that spawned it.
    pub call: Option<String>,
    /// Number of its messages.
    pub messages: usize,
    /// Cost of its responses.
    pub cost_usd: Option<Money>,
}

/// A session as it was when it was read; [`grow`](Self::grow) reads what was appended since.
#[derive(Debug)]
pub struct OpenSession {
    /// The session.
    pub session: Session,
    pricing: Arc<Pricing>,
    /// Whether only the end of the log was read.
    tail: Option<usize>,
    /// Derived from all records, and the same until the session grows.
    row: OnceLock<SessionRow>,
    conversations: OnceLock<Vec<ConversationRow>>,
}

impl Service {
    /// Opens a session, given by a unique beginning of its id or the path of its log.
    pub fn open(&self, id: &str) -> Result<OpenSession> {
        let inventory = self.inventory();
        let files = self.find_session(&inventory, id)?;
        self.open_files(&inventory, files)
    }

    /// Opens a session of an inventory.
    pub fn open_files(&self, inventory: &Inventory, files: SessionFiles) -> Result<OpenSession> {
        let mut session = Session::read(files)?;
        session.apply_folder_hints(&FolderHints::new(&inventory.sessions));
        Ok(OpenSession {
            session,
            pricing: Arc::clone(&self.pricing),
            tail: None,
            row: OnceLock::new(),
            conversations: OnceLock::new(),
        })
    }

    /// Opens only the end of a session: enough for its last `messages` messages.
    pub fn open_tail(&self, id: &str, messages: usize) -> Result<OpenSession> {
        Ok(OpenSession {
            session: self.store.tail(id, messages)?,
            pricing: Arc::clone(&self.pricing),
            tail: Some(messages),
            row: OnceLock::new(),
            conversations: OnceLock::new(),
        })
    }

    /// Returns the row of an open session.
    pub fn session_row(&self, open: &OpenSession) -> SessionRow {
        let pins = self.pins();
        let read = || SessionRow::new(open.session.info(None), self, &pins);
        open.row.get_or_init(read).refreshed(self, &pins)
    }

    /// Returns the conversations of an open session.
    pub fn conversations_of(&self, open: &OpenSession) -> Vec<ConversationRow> {
        let read = || self.conversation_rows(&open.session);
        open.conversations.get_or_init(read).clone()
    }
}

impl OpenSession {
    /// Returns messages of one conversation, or of a sub-agent.
    pub fn messages(&self, request: &MessagesRequest) -> Result<SessionMessages> {
        let (log, mut entries) = self.select(request)?;
        let whole = entries.clone();
        self.retain_matching(log, &mut entries, &request.filter)?;
        let page = request.page.apply(&self.session, log, &mut entries)?;
        Ok(SessionMessages {
            entries: self.rows(log, &entries, &whole)?,
            page,
        })
    }

    /// Returns an entry by its id or a unique beginning of it.
    pub fn message(&self, id: &str) -> Result<EntryJson> {
        let spot = self.session.find_records(id)?.into_iter().next();
        let spot = spot.ok_or_else(|| not_found(id))?;
        let costs = &[spot.entry];
        let rows = self.rows(spot.log, costs, costs)?;
        rows.into_iter().next().ok_or_else(|| not_found(id))
    }

    /// Returns the entries on the path to an entry, oldest first, including it.
    pub fn ancestry(&self, id: &str) -> Result<Vec<EntryJson>> {
        let spot = self.session.find_records(id)?.into_iter().next();
        let spot = spot.ok_or_else(|| not_found(id))?;
        let path = self.session.entries_to(spot.log, spot.entry, false);
        let path = path.map_or_else(|| vec![spot.entry], |(path, _)| path);
        self.rows(spot.log, &path, &path)
    }

    /// Returns the exact bytes of an entry's record, without the line ending.
    pub fn raw(&self, id: &str) -> Result<Vec<u8>> {
        let spot = self.session.find_records(id)?.into_iter().next();
        let spot = spot.ok_or_else(|| not_found(id))?;
        Ok(self.session.read_record(spot)?.0)
    }

    /// Counts messages and tokens.
    pub fn stats(&self, zone: &TimeZone) -> Stats {
        self.session.stats(zone)
    }

    /// Returns the todos of each agent, by agent id, the main agent's first.
    pub fn todos(&self) -> Result<Vec<(String, Vec<Todo>)>> {
        self.session.todos()
    }

    /// Returns the files of which versions were saved.
    pub fn files(&self) -> Result<Vec<SavedFile>> {
        self.session.saved_files()
    }

    /// Returns the content of a saved version of a file, given by its path.
    pub fn file(&self, path: &str, version: u64) -> Result<Vec<u8>> {
        let files = self.session.saved_files()?;
        let file = files.iter().find(|file| file.path == path);
        let versions = file.into_iter().flat_map(|file| &file.versions);
        let mut versions = versions.filter(|known| known.version == version);
        let version = versions.next().ok_or_else(|| Error::NotFound {
            what: Subject::SavedFile,
            id: format!("{path}, version {version}"),
        })?;
        version.read()
    }

    /// Returns the cost of the session; `None` if it has no price.
    pub fn cost(&self) -> Option<Money> {
        let info = self.session.info(None);
        self.pricing.tally(&info.charges).known_cost()
    }

    /// Returns the costs of entries of a log, given by index, as
    /// [`Session::entry_costs`] does.
    pub fn entry_costs(&self, log: usize, entries: &[usize]) -> HashMap<usize, Money> {
        let price = |charge: &Charge| self.pricing.price(charge);
        self.session.entry_costs(log, entries, &price)
    }

    /// Returns the sub-agents.
    pub fn agents(&self) -> Vec<AgentRow> {
        let price = |charge: &Charge| self.pricing.price(charge);
        let row = |agent: &Agent| AgentRow {
            id: agent.id.as_ref().map(ToString::to_string),
            kind: agent.kind.clone(),
            description: agent.description.clone(),
            call: agent.call.and_then(|call| {
                let (_, scan, _) = self.session.log(call.log)?;
                Some(scan.outlines.get(call.entry)?.id()?.to_string())
            }),
            messages: agent.messages,
            cost_usd: self.session.agent_cost(agent, &price).known_cost(),
        };
        self.session.agents.iter().map(row).collect()
    }

    /// Returns the flaws of the session.
    pub fn flaws(&self) -> Vec<FlawJson<'_>> {
        let flaws = self.session.flaws();
        flaws.map(|(_, flaw)| FlawJson::new(flaw)).collect()
    }

    /// Returns the fill of the context window at the last turn of the conversation that the agent
    /// would resume.
    pub fn context_fill(&self) -> Option<ContextFill> {
        let tree = self.session.tree()?;
        let last = self
            .session
            .last_response(tree.conversations.get(tree.resume?)?)?;
        self.pricing.prices.context_fill(&last)
    }

    /// Reads what was appended since. Returns whether anything changed.
    pub fn grow(&mut self, service: &Service) -> Result<bool> {
        let id = self.session.files.main_path().display().to_string();
        let files = match self.session.files.refreshed() {
            // New sub-agents have files elsewhere.
            Some(files) if files.agents.is_empty() => files,
            _ => service.find_session(&service.inventory(), &id)?,
        };
        if is_unchanged(&self.session.files, &files) {
            return Ok(false);
        }
        (self.row, self.conversations) = Default::default();
        self.session = match self.tail {
            Some(messages) => Session::read_tail(files, messages)?,
            None => {
                let mut session = Session::read(files)?;
                session.external_summaries = Arc::clone(&self.session.external_summaries);
                session
                    .folder_directory
                    .clone_from(&self.session.folder_directory);
                session
            }
        };
        Ok(true)
    }

    /// Selects the log and the entries that a request is about.
    fn select(&self, request: &MessagesRequest) -> Result<(usize, Vec<usize>)> {
        let session = &self.session;
        let (log, mut entries) = match (request.filter.agent.as_deref(), &request.leaf) {
            (Some(agent), None) if agent != "main" => {
                let agent = session.find_agent(agent)?;
                (agent.log, session.agent_entries(agent))
            }
            (_, Some(leaf)) => {
                let spot = session.find_records(leaf)?.into_iter().next();
                let spot = spot.ok_or_else(|| not_found(leaf))?;
                let path = session.entries_to(spot.log, spot.entry, false);
                (spot.log, path.map(|(path, _)| path).unwrap_or_default())
            }
            _ if request.all_branches => {
                let outlines = session
                    .main_log()
                    .map_or(0, |(_, scan, _)| scan.outlines.len());
                (0, (0..outlines).collect())
            }
            _ => (0, session.resumed_entries().0),
        };
        let Some((_, scan, _)) = session.log(log) else {
            return Ok((log, Vec::new()));
        };
        entries.retain(|at| {
            let outline = scan.outlines.get(*at);
            outline.is_some_and(|it| it.kind.is_message() || it.kind == OutlineKind::Compaction)
        });
        Ok((log, entries))
    }

    /// Keeps the entries that a filter accepts. Reads them only if the filter has conditions.
    fn retain_matching(
        &self,
        log: usize,
        entries: &mut Vec<usize>,
        filter: &MessageFilter,
    ) -> Result<()> {
        // The log was selected by the agent.
        let filter = MessageFilter {
            agent: None,
            ..filter.clone()
        };
        if filter.is_empty() {
            return Ok(());
        }
        let mut kept = Vec::new();
        self.each_at(log, entries, |at, entry| {
            if filter.accepts(&entry) {
                kept.push(at);
            }
        })?;
        *entries = kept;
        Ok(())
    }

    /// Returns the rows of entries. `whole` is the whole conversation: the cost of a response
    /// belongs to its last entry, which may be on another page.
    fn rows(&self, log: usize, entries: &[usize], whole: &[usize]) -> Result<Vec<EntryJson>> {
        let costs = self.entry_costs(log, whole);
        let mut rows = Vec::with_capacity(entries.len());
        self.each_at(log, entries, |at, entry| {
            let row = EntryJson::for_session(entry, &self.session.files.id);
            rows.push(row.with_cost(costs.get(&at).copied()));
        })?;
        Ok(rows)
    }

    /// Visits entries of a log with their indexes. Entries that changed meanwhile are left out.
    pub fn each_at(
        &self,
        log: usize,
        entries: &[usize],
        mut visit: impl FnMut(usize, Entry),
    ) -> Result<()> {
        let Some((_, scan, _)) = self.session.log(log) else {
            return Ok(());
        };
        let place = |it: &Outline| (it.span, it.key);
        let mut places = entries.iter();
        self.session.each_entry_of_log(log, entries, |entry| {
            let found: (Span, Option<EntryKey>) = (entry.span, entry.id.as_ref().map(EntryId::key));
            let at = places.find(|at| scan.outlines.get(**at).is_some_and(|it| place(it) == found));
            if let Some(at) = at {
                visit(*at, entry);
            }
            Ok(true)
        })
    }
}

fn not_found(id: &str) -> Error {
    Error::NotFound {
        what: Subject::Message,
        id: id.to_owned(),
    }
}

/// Returns whether the files of a session are as they were.
fn is_unchanged(before: &SessionFiles, after: &SessionFiles) -> bool {
    let ids = |files: &SessionFiles| {
        let files = files.files().map(|file| (file.path.clone(), file.id));
        files.collect::<Vec<_>>()
    };
    ids(before) == ids(after)
}
