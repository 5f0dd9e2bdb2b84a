//! The state of the end of a log, from which a writer plans the next records.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::write::is_model;
use crate::model::{
    AgentId, Artifact, Block, Body, Entry, EntryContext, EntryId, Fact, Outline, Role, SessionId,
    Usage,
};

/// State of the end of a log, as needed by a writer.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendState {
    /// The session.
    pub session: SessionId,
    /// The sub-agent whose log this is.
    pub agent: Option<AgentId>,
    /// The log.
    pub log: Artifact,
    /// Parent of the next entry.
    pub leaf: Option<EntryId>,
    /// The entry that the compaction at `leaf` continues, until a summary follows the compaction.
    pub continues: Option<EntryId>,
    /// The last message of the log, which is the implicit parent of the next in layouts without
    /// links.
    pub last_message: Option<EntryId>,
    /// The last record after `leaf` in its branch that is not a message, in layouts whose program
    /// continues there; `None` if there is none.
    pub last_line: Option<EntryId>,
    /// Time of the newest entry; the next one must not be older.
    pub time: Option<Timestamp>,
    /// Whether several of the last entries have that time.
    pub is_time_shared: bool,
    /// Time of the newest note; the next one must not be older.
    pub note_time: Option<Timestamp>,
    /// Model of the last reply, for replies that name none.
    pub model: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// Version of the agent program that wrote the last record.
    pub version: Option<String>,
    /// The last prompt of a person.
    pub prompt: Option<String>,
    /// The next entries are in a branch that is not resumed, in layouts whose program has no branches.
    pub is_aside: bool,
    /// Blocks of the next reply that are in later entries, in layouts with one record for a reply.
    pub reply_rest: Vec<Block>,
    /// Whether the next entry continues a reply whose record has its blocks already.
    pub continues_reply: bool,
    /// All readers resume at this leaf. If false, a change must write that to the log.
    pub resumes_at_leaf: bool,
    /// Offset of the next record in the log file.
    pub end: u64,
    /// In a log shared by several sessions, the last record is this session's.
    pub last_record_is_own: bool,
    /// Values from the log's records that the layout's writer needs, by name.
    pub writer_state: BTreeMap<String, String>,
    /// Ids and tools of the unanswered tool calls near the end of the log.
    pub open_calls: Vec<(String, String)>,
    /// Ids and usage of the newest responses, as far as known; further records may continue them.
    pub recent_responses: Vec<(String, Usage)>,
    /// Other files of the session that exist.
    pub attachments: Vec<Artifact>,
}

impl AppendState {
    /// Key of the requested id when a session begins. The layout may derive another id from it.
    pub const REQUESTED_ID: &'static str = "id";

    /// Key of a new session's title.
    pub const TITLE: &'static str = "title";

    /// Key of a session that a conversion writes: its records are marked as converted.
    pub const CONVERTED: &'static str = "converted";

    /// State of a log about which nothing is known yet.
    pub fn new(session: SessionId, log: Artifact) -> Self {
        AppendState {
            session,
            agent: log.agent.clone(),
            log,
            leaf: None,
            continues: None,
            last_message: None,
            last_line: None,
            time: None,
            is_time_shared: false,
            note_time: None,
            model: None,
            cwd: None,
            git_branch: None,
            version: None,
            prompt: None,
            is_aside: false,
            reply_rest: Vec::new(),
            continues_reply: false,
            resumes_at_leaf: true,
            end: 0,
            last_record_is_own: false,
            writer_state: BTreeMap::new(),
            open_calls: Vec::new(),
            recent_responses: Vec::new(),
            attachments: Vec::new(),
        }
    }

    /// Updates directory, branch and version from an entry's context.
    pub fn set_context(&mut self, place: EntryContext) {
        self.cwd = place.cwd.or(self.cwd.take());
        self.git_branch = place.git_branch.or(self.git_branch.take());
        self.version = place.version.or(self.version.take());
    }

    /// Updates what later messages refer to: open calls, and the response that may continue.
    pub fn add_message(&mut self, body: &Body) {
        const MOST: usize = 64;
        let Body::Message(message) = body else {
            return;
        };
        if let Some(model) = &message.model
            && message.role == Role::Assistant
        {
            self.set_model(model);
        }
        for block in &message.blocks {
            match block {
                Block::ToolUse { id, name, .. } => self.open_calls.push((id.clone(), name.clone())),
                Block::ToolResult { call, .. } => self.open_calls.retain(|(id, _)| id != call),
                _ => {}
            }
        }
        let surplus = self.open_calls.len().saturating_sub(MOST);
        self.open_calls.drain(..surplus);
        if let Some(response) = &message.response {
            self.add_response(response, message.usage.unwrap_or_default());
        }
    }

    /// Records the model of a reply, if it is a real model name.
    pub fn set_model(&mut self, model: &str) {
        if is_model(model) {
            self.model = Some(model.to_owned());
        }
    }

    /// Records the total usage of a response.
    pub(crate) fn add_response(&mut self, response: &str, mut usage: Usage) {
        const MOST: usize = 16;
        let known = self
            .recent_responses
            .iter()
            .position(|(id, _)| id == response);
        if let Some(known) = known {
            usage.keep_larger(&self.recent_responses.remove(known).1);
        }
        self.recent_responses.push((response.to_owned(), usage));
        let surplus = self.recent_responses.len().saturating_sub(MOST);
        self.recent_responses.drain(..surplus);
    }

    fn advance_time(&mut self, time: Option<Timestamp>) {
        if time.is_some() && time >= self.time {
            self.is_time_shared = time == self.time;
            self.time = time;
        }
    }

    /// Updates the state with an outline.
    pub fn apply_outline(&mut self, outline: &Outline) {
        self.advance_time(outline.time.filter(|_| outline.key.is_some()));
        if let Some(model) = outline
            .reply
            .as_ref()
            .and_then(|reply| reply.model.as_ref())
        {
            self.set_model(model);
        }
        if outline
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::Note(_)))
        {
            self.note_time = self.note_time.max(outline.time);
        }
        self.add_layout_facts(outline);
        for fact in &outline.facts {
            let (slot, text) = match fact {
                Fact::Cwd(text) => (&mut self.cwd, text),
                Fact::GitBranch(text) => (&mut self.git_branch, text),
                Fact::Version(text) => (&mut self.version, text),
                Fact::Prompt(text) => (&mut self.prompt, text),
                _ => continue,
            };
            *slot = (!text.is_empty()).then(|| text.to_string());
        }
    }

    /// Stores the facts that the layout's writer needs again.
    pub fn add_layout_facts(&mut self, outline: &Outline) {
        for fact in &outline.facts {
            if let Fact::WriterState(name, value) = fact {
                self.writer_state
                    .insert(name.to_string(), value.to_string());
            }
        }
    }

    /// Updates the state with an entry that continues the log.
    pub fn observe(&mut self, entry: &Entry) {
        self.advance_time(entry.time.filter(|_| in_tree(entry)));
        if let Body::Note { .. } = &entry.body {
            self.note_time = self.note_time.max(entry.time);
        }
        if let Body::Resume { .. } = &entry.body {
            self.resumes_at_leaf = true;
        }
        if let Some(prompt) = prompt(entry) {
            self.prompt = Some(prompt);
        }
        self.add_message(&entry.body);
        let tip = self.last_line.as_ref().or(self.leaf.as_ref());
        if tip.is_some() && entry.parent.as_ref() == tip && !entry.sidechain && !in_tree(entry) {
            self.last_line.clone_from(&entry.id);
        }
        if self.can_be_parent(entry) {
            self.last_line = None;
            let before = self.continues.take().or(self.leaf.take());
            let compacts = matches!(entry.body, Body::Compaction { .. });
            self.continues = before.filter(|_| compacts);
            self.leaf.clone_from(&entry.id);
            self.last_message.clone_from(&entry.id);
        }
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        self.cwd = filled(&entry.context.cwd).or(self.cwd.take());
        self.git_branch = filled(&entry.context.git_branch).or(self.git_branch.take());
        self.version = filled(&entry.context.version).or(self.version.take());
    }

    /// Returns whether the next entry may have this entry as its parent.
    pub fn can_be_parent(&self, entry: &Entry) -> bool {
        let has_id = entry.id.is_some() && !entry.derived_id;
        has_id && (self.agent.is_some() || !entry.sidechain) && in_tree(entry)
    }
}

/// Returns whether an entry is part of the tree of messages.
pub fn in_tree(entry: &Entry) -> bool {
    matches!(
        entry.body,
        Body::Message(_) | Body::Compaction { .. } | Body::System { .. } | Body::Attachment { .. }
    )
}

/// Returns the text of a person's prompt.
fn prompt(entry: &Entry) -> Option<String> {
    let Body::Message(message) = &entry.body else {
        return None;
    };
    message
        .blocks
        .iter()
        .filter(|_| message.human)
        .find_map(|block| match block {
            Block::Text(text) => Some(text.clone()),
            _ => None,
        })
}
