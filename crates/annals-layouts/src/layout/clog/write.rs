//! Writing: a header first, then one line per message. No line is rewritten.
//!
//! Everything that the layout's format can express uses that format, so that its program shows the
//! whole conversation: texts, reasoning, and tool calls with their results as thoughts. The rest is
//! in `annals`, including blocks if they could not be decoded from the format.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, is_blank};
use crate::layout::extension::{ExtensionOut, sub_millisecond_time};
use crate::layout::member_type::{MemberType, check_required};
use crate::layout::usage_fields::{USAGE_MEMBER, draft_usage_members, usage_json};
use crate::layout::write::{encode, message_of_line};
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, NewSession, PROGRAM, PlanContext, Spawn, Writer,
    WriterSpec, annotations, content,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, FlawKind, Members, Message, Role,
    SessionId, TitleSource, Todo,
};

use super::line::{HEADER, LineDecoder, SCHEMA};
use super::{Clog, fork, path, steps};

/// Text of a compaction record.
const COMPACTED: &str = "Conversation compacted";

/// Members of a header in the design document.
const HEADER_MEMBERS: &[(&str, MemberType)] = &[
    ("conversationId", MemberType::Name),
    ("threadId", MemberType::Name),
    ("channel", MemberType::Name),
    ("title", MemberType::Text),
    ("createdAt", MemberType::Milliseconds),
    ("updatedAt", MemberType::Milliseconds),
];

/// Members of a message in the design document.
const MESSAGE_MEMBERS: &[(&str, MemberType)] = &[
    ("conversationId", MemberType::Name),
    ("threadId", MemberType::Name),
    ("messageId", MemberType::Name),
    ("role", MemberType::Name),
    ("channel", MemberType::Name),
    ("content", MemberType::Text),
    ("createdAt", MemberType::Milliseconds),
];

/// Default channel of a thread.
pub(super) const CHANNEL: &str = "tui";

static SPEC: WriterSpec = WriterSpec {
    draft_members: &["channel", USAGE_MEMBER],
    session_members: &["channel"],
    fork_members: &["channel"],
    title_in_header: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Clog {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        // Reject these before the folder is created.
        new.title.as_deref().map(non_empty_title).transpose()?;
        channel_of(&new.members)?;
        let thread = new.id.name();
        let session = match thread == new.id.as_str() || path::sanitise(thread) != thread {
            true => path::new_session_id(thread, stamp.now)?,
            // Already in the layout's form: start time and thread.
            false => new.id.clone(),
        };
        Ok(Artifact {
            session: Some(session),
            ..Artifact::new(ArtifactKind::SessionLog)
        })
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if agent.as_str() == head.session.as_str() {
            return Err(Error::refused("a sub-agent cannot have its session's id"));
        }
        Ok(Artifact {
            session: Some(head.session.clone()),
            agent: Some(agent.clone()),
            ..Artifact::new(ArtifactKind::AgentLog)
        })
    }

    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        check_record(head, record)
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        check_schema(head)?;
        let mut pen = RecordBuilder::new(head, stamp);
        match change {
            Change::Begin | Change::Fork { .. } => pen.begin()?,
            Change::Append(drafts) => {
                for draft in drafts {
                    pen.draft(draft)?;
                }
            }
            Change::Compact { summary, tokens: _ } => pen.compact(summary)?,
            Change::SetTodos(todos) => pen.todos(todos)?,
            Change::Spawn(spawn) => pen.spawn(spawn)?,
        }
        Ok(pen.finish())
    }

    fn path_name(&self, id: &str) -> Option<String> {
        Some(path::sanitise(id))
    }

    fn conversation_id(&self, session: &SessionId) -> Option<String> {
        Some(path::conversation_id(session, None))
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        fork::copy_record(record, graft)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

/// The first line of a file.
#[derive(Serialize)]
pub(super) struct Header<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(rename = "schemaVersion")]
    pub(super) schema: u64,
    #[serde(rename = "fileKind")]
    pub(super) file: &'a str,
    #[serde(rename = "conversationId")]
    pub(super) conversation: &'a str,
    #[serde(rename = "threadId")]
    pub(super) thread: &'a str,
    pub(super) channel: &'a str,
    pub(super) title: &'a str,
    #[serde(rename = "createdAt")]
    pub(super) created: i64,
    #[serde(rename = "updatedAt")]
    pub(super) updated: i64,
    pub(super) annals: ExtensionOut<'a>,
}

/// A message line.
#[derive(Serialize)]
struct LineOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(rename = "conversationId")]
    conversation: &'a str,
    #[serde(rename = "threadId")]
    thread: &'a str,
    #[serde(rename = "messageId")]
    id: &'a str,
    role: &'a str,
    channel: &'a str,
    content: &'a str,
    #[serde(rename = "createdAt")]
    created: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    thoughts: &'a [steps::StepOut],
    annals: ExtensionOut<'a>,
}

/// Encodes the lines of one change.
struct RecordBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    conversation: String,
    thread: String,
    lines: Vec<Vec<u8>>,
    notes: Vec<Vec<u8>>,
    plan: EditPlan,
    /// Channel of the current draft, if it differs from the thread's.
    draft_channel: Option<String>,
    /// The last message so far, which is the parent of the next unless that names another.
    last_message: Option<EntryId>,
    /// Time of the newest line so far.
    time: Option<Timestamp>,
}

impl<'a, 'b> RecordBuilder<'a, 'b> {
    fn new(head: &'a AppendState, stamp: &'a mut PlanContext<'b>) -> Self {
        let session = head.log.session.as_ref().unwrap_or(&head.session);
        let word = |name: &str| head.writer_state.get(name).map(String::as_str);
        // The requested id may be a complete session id, of which the thread is only a part.
        let wanted = word(AppendState::REQUESTED_ID).map(|wanted| match SessionId::new(wanted) {
            Ok(id) => id.name().to_owned(),
            Err(_) => wanted.to_owned(),
        });
        let thread = word("threadId").map(str::to_owned).or(wanted);
        RecordBuilder {
            head,
            stamp,
            conversation: conversation_id(head),
            thread: thread.unwrap_or_else(|| session.name().to_owned()),
            lines: Vec::new(),
            notes: Vec::new(),
            plan: EditPlan::default(),
            draft_channel: None,
            last_message: head.last_message.clone(),
            time: head.time,
        }
    }

    fn finish(mut self) -> EditPlan {
        let log = &self.head.log;
        let (session, agent) = (self.session().clone(), self.head.agent.clone());
        let files = [
            (path::path_for(log), self.lines),
            (path::path_for(&notes(session, agent)), self.notes),
        ];
        let files = files.into_iter().filter(|(_, lines)| !lines.is_empty());
        // The log goes first: files derived from it may be behind, never ahead.
        let edits = files.map(|(path, lines)| Edit::Append { path, lines });
        self.plan.edits.splice(0..0, edits);
        self.plan
    }

    /// Returns the session that the folder is named after.
    fn session(&self) -> &SessionId {
        self.head.log.session.as_ref().unwrap_or(&self.head.session)
    }

    /// Returns the thread's channel.
    fn channel(&self) -> &str {
        self.head
            .writer_state
            .get("channel")
            .map_or(CHANNEL, String::as_str)
    }

    /// Returns the channel of the current draft's line.
    fn line_channel(&self) -> &str {
        self.draft_channel.as_deref().unwrap_or(self.channel())
    }

    fn begin(&mut self) -> Result<()> {
        let title = self.head.writer_state.get(AppendState::TITLE);
        let title = title.map(|title| non_empty_title(title)).transpose()?;
        let chat = self.header("chat", title.unwrap_or_default(), true)?;
        let notes = self.header("notes", title.unwrap_or_default(), false)?;
        self.lines.push(chat);
        self.notes.push(notes);
        self.plan.writer_state = self.writer_state();
        Ok(())
    }

    /// Returns the header's values that later lines repeat.
    fn writer_state(&self) -> BTreeMap<String, String> {
        let words = [
            ("conversationId", self.conversation.clone()),
            ("threadId", self.thread.clone()),
            ("channel", self.channel().to_owned()),
            ("createdAt", self.start_millis().to_string()),
        ];
        words.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn now(&self) -> Timestamp {
        let now = self.stamp.limit.unwrap_or(self.stamp.now);
        self.time.map_or(now, |time| time.max(now))
    }

    /// Returns the start of the conversation in milliseconds.
    fn start_millis(&self) -> i64 {
        let began = self.head.writer_state.get("createdAt");
        let began = began.and_then(|time| time.parse().ok());
        // The folder name has it too; a sub-agent's has the time of its session.
        let session = Some(self.session()).filter(|_| self.head.agent.is_none());
        let began = began.or_else(|| Some(path::start_time(session?)?.as_millisecond()));
        began.unwrap_or(self.now().as_millisecond())
    }

    /// Encodes a header. The first of a log also has the working directory, branch and version.
    fn header(&self, file: &str, title: &str, first: bool) -> Result<Vec<u8>> {
        let head = self.head;
        let place = |text: &'a Option<String>| text.as_deref().filter(|_| first);
        encode(&Header {
            kind: HEADER,
            schema: SCHEMA,
            file,
            conversation: &self.conversation,
            thread: &self.thread,
            channel: self.channel(),
            title,
            created: self.start_millis(),
            updated: self.now().as_millisecond(),
            annals: ExtensionOut {
                program: Some(PROGRAM),
                cwd: place(&head.cwd),
                branch: place(&head.git_branch),
                version: place(&head.version),
                ..ExtensionOut::default()
            },
        })
    }

    fn has_header(&self) -> bool {
        self.head.writer_state.contains_key("threadId")
    }

    /// Writes the header that a log lacks, and that of the notes log, which always exists with it.
    fn ensure_header(&mut self) -> Result<()> {
        if !self.has_header() && self.last_message.is_none() && self.lines.is_empty() {
            let title = self.head.writer_state.get(AppendState::TITLE);
            let title = title.map_or("", |title| title.trim());
            let header = self.header("chat", title, true)?;
            self.lines.push(header);
            self.ensure_notes(title)?;
            self.plan.writer_state = self.writer_state();
        }
        Ok(())
    }

    /// Writes the header of the notes log, if that does not exist yet.
    fn ensure_notes(&mut self, title: &str) -> Result<()> {
        let owner = &self.head.agent;
        let is_there = |file: &Artifact| file.kind == ArtifactKind::Notes && file.agent == *owner;
        if self.notes.is_empty() && !self.head.attachments.iter().any(is_there) {
            let header = self.header("notes", title, false)?;
            self.notes.push(header);
        }
        Ok(())
    }

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        self.draft_channel = channel_of(&draft.members)?;
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Compaction { text } => self.system_line(draft, "compaction", "", text),
            Body::System { subtype, text } => self.system_line(draft, "system", subtype, text),
            Body::Agent {
                kind,
                description,
                call,
            } => {
                let words = ExtensionOut {
                    kind: Some("agent"),
                    subtype: kind.as_deref(),
                    description: description.as_deref(),
                    call: call.as_deref(),
                    ..ExtensionOut::default()
                };
                let id = self.id(draft);
                let text = description.as_deref().unwrap_or_default();
                let line = self.purpose_line(text, words, &id, draft.time)?;
                self.lines.push(line);
                self.plan.added.push(id);
                Ok(())
            }
            // A chat contains a header and messages only, so its new title is an annotation. The
            // design document of clog has no sub-agents: their logs are annals' own.
            Body::Title { text, source }
                if *source == TitleSource::Custom && self.head.agent.is_some() =>
            {
                let header = self.header("chat", non_empty_title(text)?, !self.has_header())?;
                self.lines.push(header);
                Ok(())
            }
            _ => self.note(draft),
        }
    }

    fn note(&mut self, draft: &Draft) -> Result<()> {
        let Some((line, id)) = annotations::encode(draft, self.stamp)? else {
            return Err(Error::refused(
                "this kind of entry cannot be written to a clog session",
            ));
        };
        if self.draft_channel.is_some() {
            return Err(Error::refused(
                "a note has no channel; only messages have one",
            ));
        }
        self.ensure_notes("")?;
        self.notes.push(line);
        self.plan.added.push(id);
        Ok(())
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        self.ensure_header()?;
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.leaf());
        let time = self.next_time(draft.time);
        let terms = draft_usage_members(&draft.members);
        let usage = message.usage.as_ref();
        let usage = usage.map(|usage| usage_json(usage, terms));
        let said = steps::encode_blocks(&message.blocks)?;
        let results = |block: &Block| matches!(block, Block::ToolResult { .. });
        let only_results = !message.blocks.is_empty() && message.blocks.iter().all(results);
        let mut line = LineOut {
            kind: "message",
            conversation: &self.conversation,
            thread: &self.thread,
            id: id.as_str(),
            role: match message.role {
                // The program stores tool results as the agent's.
                Role::User if only_results => "agent",
                Role::User => "user",
                Role::Assistant => "agent",
                Role::System => "system",
            },
            channel: self.line_channel(),
            content: &said.content,
            created: time.as_millisecond(),
            reasoning: said.reasoning.as_deref(),
            thoughts: &said.thoughts,
            annals: ExtensionOut {
                parent: self.parent(parent.as_ref(), draft.sidechain),
                agent: draft.agent.as_ref().map(AgentId::as_str),
                sidechain: draft.sidechain,
                program: Some(PROGRAM),
                model: message.model.as_deref(),
                usage: usage.transpose()?,
                response: message.response.as_deref(),
                request: message.request.as_deref(),
                stop: message.stop_reason.as_deref(),
                meta: message.meta,
                compact: message.compact_summary,
                api_error: message.api_error,
                spawned: message.spawned.as_ref().map(AgentId::as_str),
                stored: message.stored.as_deref(),
                time: sub_millisecond_time(time),
                ..ExtensionOut::default()
            },
        };
        let mut decoder = LineDecoder::new(&Artifact::new(ArtifactKind::SessionLog));
        let mut bytes = encode(&line)?;
        let mut read = message_of_line(&mut decoder, &bytes);
        let given = GivenBlocks::new(draft, &message.blocks, 0);
        if given.has_raw()
            || read.as_ref().map(|read| (read.role, &read.blocks))
                != Some((message.role, &message.blocks))
        {
            line.annals.blocks = Some(content::raw(given.json()?)?);
            if message.role == Role::Assistant && only_results {
                // Without a text it would be decoded with the user's role.
                line.content = " ";
            }
            bytes = encode(&line)?;
            read = message_of_line(&mut decoder, &bytes);
        }
        // Blank text does not count as written by a person.
        let human = message.human && !is_blank(&message.blocks);
        if read.is_some_and(|read| read.human != human) {
            line.annals.human = Some(human);
            bytes = encode(&line)?;
        }
        self.lines.push(bytes);
        self.record_added(id, !draft.sidechain);
        Ok(())
    }

    /// Writes a line of the program itself, as part of the conversation.
    fn system_line(&mut self, draft: &Draft, kind: &str, subtype: &str, text: &str) -> Result<()> {
        self.ensure_header()?;
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.leaf());
        let time = self.next_time(draft.time);
        let line = encode(&LineOut {
            annals: ExtensionOut {
                parent: self.parent(parent.as_ref(), draft.sidechain),
                agent: draft.agent.as_ref().map(AgentId::as_str),
                sidechain: draft.sidechain,
                program: Some(PROGRAM),
                kind: Some(kind),
                subtype: Some(subtype).filter(|text| !text.is_empty()),
                text: Some(text),
                time: sub_millisecond_time(time),
                ..ExtensionOut::default()
            },
            ..self.system(&id, text, time.as_millisecond())
        })?;
        self.lines.push(line);
        self.record_added(id, !draft.sidechain);
        Ok(())
    }

    fn compact(&mut self, summary: &str) -> Result<()> {
        if self.leaf().is_none() {
            return Err(Error::refused(
                "there is nothing to compact: the session has no messages",
            ));
        }
        if summary.trim().is_empty() {
            return Err(Error::refused("the summary is empty"));
        }
        let text = COMPACTED.to_owned();
        self.draft(&Draft::new(Body::Compaction { text }))?;
        let mut message = Message::new(Role::User, vec![Block::Text(summary.to_owned())]);
        message.compact_summary = true;
        self.draft(&Draft::new(Body::Message(message)))
    }

    fn todos(&mut self, todos: &[Todo]) -> Result<()> {
        let session = self.session();
        let agent = match &self.head.agent {
            Some(agent) => agent.clone(),
            None => AgentId::new(session.as_str())?,
        };
        let file = Artifact {
            session: Some(session.clone()),
            agent: Some(agent),
            ..Artifact::new(ArtifactKind::Todos)
        };
        self.plan.edits.push(Edit::Replace {
            path: path::path_for(&file),
            bytes: encode(&todos)?,
        });
        Ok(())
    }

    /// Creates the conversation of a sub-agent: both files, and its purpose.
    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            log: Clog.new_agent_log(self.head, &spawn.agent)?,
            leaf: None,
            last_message: None,
            writer_state: {
                let mut words = self.head.writer_state.clone();
                words.remove("createdAt");
                words
            },
            ..self.head.clone()
        };
        let mut pen = RecordBuilder::new(&head, self.stamp);
        let chat = pen.header("chat", &spawn.description, true)?;
        let notes = pen.header("notes", &spawn.description, false)?;
        let words = ExtensionOut {
            kind: Some("agent"),
            subtype: Some(&spawn.kind),
            description: Some(&spawn.description),
            call: spawn.call.as_deref(),
            ..ExtensionOut::default()
        };
        let id = EntryId::new(&(pen.stamp.new_id)());
        let purpose = pen.purpose_line(&spawn.description, words, &id, None)?;
        pen.lines.extend([chat, purpose]);
        pen.notes.push(notes);
        self.plan = pen.finish();
        Ok(())
    }

    /// Encodes the purpose of a sub-agent, which the program shows as a system message.
    fn purpose_line(
        &mut self,
        text: &str,
        words: ExtensionOut<'_>,
        id: &EntryId,
        given: Option<Timestamp>,
    ) -> Result<Vec<u8>> {
        let time = self.next_time(given);
        encode(&LineOut {
            annals: ExtensionOut {
                program: Some(PROGRAM),
                time: sub_millisecond_time(time),
                ..words
            },
            ..self.system(id, text, time.as_millisecond())
        })
    }

    fn system<'l>(&'l self, id: &'l EntryId, text: &'l str, created: i64) -> LineOut<'l> {
        LineOut {
            kind: "message",
            conversation: &self.conversation,
            thread: &self.thread,
            id: id.as_str(),
            role: Role::System.as_str(),
            channel: self.line_channel(),
            content: text,
            created,
            reasoning: None,
            thoughts: &[],
            annals: ExtensionOut::default(),
        }
    }

    /// Returns the `parent` member: absent if the parent is the previous message. A sidechain has
    /// no previous message.
    fn parent<'l>(&self, parent: Option<&'l EntryId>, aside: bool) -> Option<Option<&'l str>> {
        (aside || parent != self.last_message.as_ref()).then(|| parent.map(EntryId::as_str))
    }

    fn id(&mut self, draft: &Draft) -> EntryId {
        let given = draft.id.clone();
        given.unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()))
    }

    fn record_added(&mut self, id: EntryId, moves: bool) {
        if moves {
            self.last_message = Some(id.clone());
            self.plan.leaf = Some(id.clone());
        }
        self.plan.added.push(id);
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    /// Returns the time of the next line: as given, or else now, but later than the previous line.
    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.next_time(&mut self.time, given)
    }
}

/// Returns the `conversationId` of a log's records: from its header, or else from its folder name.
fn conversation_id(head: &AppendState) -> String {
    let session = head.log.session.as_ref().unwrap_or(&head.session);
    match head.writer_state.get("conversationId") {
        Some(conversation) => path::agent_conversation_id(conversation, head.agent.as_ref()),
        None => path::conversation_id(session, head.agent.as_ref()),
    }
}

/// Rejects a record that clog would not accept as part of the conversation.
fn check_record(head: &AppendState, record: &str) -> std::result::Result<(), String> {
    let text = |name: &str| json::member(record, name).and_then(json::decode_string);
    let text = |name: &str| text(name).unwrap_or_default();
    match &*text("type") {
        HEADER if head.writer_state.contains_key("threadId") => {
            return Err("the chat already has a header".to_owned());
        }
        HEADER => check_required(record, HEADER_MEMBERS)?,
        "message" => check_required(record, MESSAGE_MEMBERS)?,
        // Unknown types are rejected for every layout elsewhere.
        _ => return Ok(()),
    }
    let conversation = conversation_id(head);
    if text("conversationId") != conversation {
        return Err(format!(
            "its `conversationId` is {}; expected {conversation}",
            text("conversationId").escape_debug()
        ));
    }
    let thread = head.writer_state.get("threadId");
    if let Some(thread) = thread.filter(|thread| text("threadId") != thread.as_str()) {
        return Err(format!(
            "its `threadId` is {}; expected {}",
            text("threadId").escape_debug(),
            thread.escape_debug()
        ));
    }
    check_role(&text("type"), &text("role"))
}

fn check_role(kind: &str, role: &str) -> std::result::Result<(), String> {
    match role {
        "user" | "agent" | "assistant" | "system" => Ok(()),
        _ if kind == HEADER => Ok(()),
        role => Err(format!(
            "its `role` is {}; expected user, agent, assistant or system",
            role.escape_debug()
        )),
    }
}

/// Returns why clog would reject a record, or not accept it as part of the chat; `None` if it
/// would.
pub(super) fn record_fault(
    log: &Artifact,
    first: &str,
    record: &str,
) -> Option<(FlawKind, String)> {
    let text = |record: &str, name: &str| {
        let text = json::member(record, name).and_then(json::decode_string);
        text.unwrap_or_default().into_owned()
    };
    let kind = text(record, "type");
    let needed = match kind.as_str() {
        HEADER => HEADER_MEMBERS,
        "message" => MESSAGE_MEMBERS,
        _ => return None,
    };
    let unfit =
        check_required(record, needed).and_then(|()| check_role(&kind, &text(record, "role")));
    if let Err(why) = unfit {
        return Some((FlawKind::UnfitRecord, why));
    }
    let mismatch = |why: String| Some((FlawKind::MismatchedId, why));
    if record == first {
        let (name, given) = path::foreign_id(log, |name| text(record, name))?;
        return mismatch(format!(
            "its `{name}` is {}, which does not match the folder name",
            given.escape_debug()
        ));
    }
    ["conversationId", "threadId"].into_iter().find_map(|name| {
        let (given, own) = (text(record, name), text(first, name));
        let differs = given != own && !own.is_empty();
        let why = || {
            let (given, own) = (given.escape_debug(), own.escape_debug());
            format!("its `{name}` is {given}, but line 1 has {own}")
        };
        differs.then(why).and_then(mismatch)
    })
}

/// Trims a title and rejects an empty one.
fn non_empty_title(title: &str) -> Result<&str> {
    match title.trim() {
        "" => Err(Error::refused("a title must not be empty")),
        title => Ok(title),
    }
}

/// Decodes the channel among JSON members.
fn channel_of(members: &Members) -> Result<Option<String>> {
    let Some((_, json)) = members.iter().find(|(name, _)| name == "channel") else {
        return Ok(None);
    };
    match json::decode_string(json).filter(|text| !text.is_empty()) {
        Some(channel) => Ok(Some(channel.into_owned())),
        None => Err(Error::refused(format!(
            "a channel is a name such as \"tui\", \"web\" or \"telegram\", not {}",
            json.escape_debug().take(40).collect::<String>()
        ))),
    }
}

/// Rejects a conversation with another schema version, where lines by annals could have another
/// meaning.
fn check_schema(head: &AppendState) -> Result<()> {
    let Some(version) = head.writer_state.get("schemaVersion") else {
        return Ok(());
    };
    let newer = version.parse::<u64>().is_ok_and(|number| number > SCHEMA);
    let program = if newer {
        "a newer version of clog"
    } else {
        "another version of clog"
    };
    Err(Error::refused(format!(
        "{} was written by {program} (schemaVersion {}); annals writes version {SCHEMA}",
        head.session,
        version.escape_debug()
    )))
}

fn notes(session: SessionId, agent: Option<AgentId>) -> Artifact {
    Artifact {
        session: Some(session),
        agent,
        ..Artifact::new(ArtifactKind::Notes)
    }
}
