//! Writing: lines as the program writes them, and lines that it skips.
//!
//! | line | for |
//! |---|---|
//! | `response_item` | what the program sends: texts, calls, results. Each part of a message is a line |
//! | `event_msg` | the text of a prompt or of a reply again, which older versions show; not in logs with ordinals |
//! | `compacted` | a summary: the program sends it instead of everything before |
//! | `annals_response_item`, `annals_compacted` | the same, not sent: reasoning, errors, and branches that are not resumed |
//! | `annals_compaction`, `annals_system` | entries that the program has no lines for |
//! | `annals_note` | a note, a tag, a summary, a title: `payload` is that of `annotations.rs` |
//!
//! The program sends all lines in file order. So a conversation has one branch, and a converted one
//! has its other branches in lines that the program skips. The member `annals` of a line has id,
//! parent, tokens and what the format cannot express. Unknown types and members do no harm. Lines
//! have an `ordinal` if those of the log have one.
//!
//! Names of sessions are appended to `session_index.jsonl`. Todos are in files of annals
//! (`own_files.rs`).

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{self, Raw};
use crate::layout::content::{GivenBlocks, is_blank, one_line, raw};
use crate::layout::extension::{ExtensionOut, summary_words};
use crate::layout::usage_fields::{USAGE_MEMBER, draft_usage_members, format_time, usage_json};
use crate::layout::write::encode;
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, ListUpdate, NewSession, PROGRAM,
    PlanContext, RowUpdate, SessionListWriter, Spawn, Writer, WriterSpec, annotations, own_files,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, EntryKey, Framing, ListRow,
    Message, Role, SessionId, TitleSource,
};

use super::decode::{DocumentDecoder, ORDINAL};
use super::items::{self, HIDDEN, Line};
use super::{Codex, fold, path};

/// Text of a compaction record.
const COMPACTED: &str = "Conversation compacted";

/// Program name in the first line of a log.
const ORIGINATOR: &str = "annals";

static SPEC: WriterSpec = WriterSpec {
    draft_members: &[USAGE_MEMBER],
    title_in_session_list: true,
    is_linear: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Codex {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        if !path::is_thread(new.id.as_str()) {
            return Err(Error::refused(format!(
                "Codex finds only sessions whose id is a UUID; `{}` is none",
                new.id
            )));
        }
        Ok(log(path::new_name(stamp.now, &stamp.zone), new.id.clone()))
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if agent.as_str() == head.session.as_str() {
            return Err(Error::refused("a sub-agent cannot have its session's id"));
        }
        let thread = agent_thread(&head.session, agent);
        let name = head.log.name.clone().unwrap_or_default();
        Ok(Artifact {
            agent: Some(agent.clone()),
            ..log(name, SessionId::new(&thread)?)
        })
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        let mut builder = LineBuilder::new(head, stamp);
        match change {
            Change::Begin => builder.header(None, None)?,
            Change::Fork { from } => builder.header(Some(from), None)?,
            Change::Append(drafts) => {
                for draft in drafts {
                    builder.draft(draft)?;
                }
            }
            Change::Compact { summary, tokens: _ } => builder.compact(summary)?,
            Change::SetTodos(todos) => {
                let edit = own_files::todos_edit(head, None, todos)?;
                builder.plan.edits.push(edit);
            }
            Change::Spawn(spawn) => builder.spawn(spawn)?,
        }
        Ok(builder.finish())
    }

    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        let line: Line<'_> = Raw(Some(record)).parse();
        if line.payload.0.is_none() {
            return Err("it has no `payload`".to_owned());
        }
        if line.kind.get() == Some("session_meta") && head.end > 0 {
            return Err("the log already has a `session_meta`".to_owned());
        }
        if head.writer_state.contains_key(ORDINAL) && !line.ordinal.is_some() {
            return Err(
                "it has no `ordinal`, and Codex refuses a log that ends with such a line"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn valid_id(&self, id: &str) -> String {
        match path::is_thread(id) {
            true => id.to_owned(),
            false => EntryKey::from_text(id).derived_uuid(),
        }
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        let failed = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let text = std::str::from_utf8(record).map_err(|_| failed())?;
        let model = json::member(text, "model");
        let record = json::member(text, "record").ok_or_else(failed)?;
        let line: Line<'_> = Raw(Some(record)).parse();
        let id = json::quote(graft.id.as_str());
        let mut words = vec![("id", id.as_str())];
        let parent = match graft.parent {
            ForkParent::Entry(parent) => Some(json::quote(parent.as_str())),
            ForkParent::None => Some("null".to_owned()),
            ForkParent::Keep => None,
        };
        words.extend(parent.as_deref().map(|parent| ("parent", parent)));
        // The lines that name the model are not copied.
        let annex = json::member(record, "annals").unwrap_or_default();
        let model = model.filter(|_| json::member(annex, "model").is_none());
        words.extend(model.map(|model| ("model", model)));
        if line.annex.aside.0 || line.annex.sidechain.0 {
            // In the fork this is the main conversation.
            words.extend([
                ("aside", "false"),
                ("sidechain", "false"),
                ("agent", "null"),
            ]);
        }
        let copy = json::set_nested_members(record.as_bytes(), "annals", &words);
        let mut copy = copy.ok_or_else(failed)?;
        let kind = line.kind.or_empty();
        let shown = kind.strip_prefix(HIDDEN).filter(|kind| {
            let is_sent = matches!(*kind, "response_item" | "compacted");
            is_sent && line.annex.aside.0 && items::is_sendable(line.payload, &line.annex)
        });
        let kind = match (shown, kind) {
            (Some(kind), _) => Some(kind.to_owned()),
            // An event may cut off prompts, which the fork does not have.
            (None, "event_msg") => Some(format!("{HIDDEN}event_msg")),
            (None, _) => None,
        };
        if let Some(kind) = kind.map(|kind| json::quote(&kind)) {
            copy = json::set_members(&copy, &[("type", &kind)]).ok_or_else(failed)?;
        }
        let time = graft.time.map(|time| json::quote(&format_time(time)));
        let mut members: Vec<(&str, &str)> = Vec::new();
        members.extend(time.as_deref().map(|time| ("timestamp", time)));
        if line.ordinal.is_some() {
            members.push(("ordinal", "null"));
        }
        json::set_members(&copy, &members).ok_or_else(failed)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }

    fn session_lists(&self) -> Option<&dyn SessionListWriter> {
        Some(self)
    }
}

impl SessionListWriter for Codex {
    fn session_list(&self, log: &Artifact) -> Option<Artifact> {
        let is_main = log.kind == ArtifactKind::SharedLog && log.agent.is_none();
        is_main.then(|| Artifact::new(ArtifactKind::SessionList))
    }

    fn default_folder(&self, _: &[ListRow], _: &str) -> Option<String> {
        None
    }

    fn config_fault(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn register_folders(&self, _: Option<&[u8]>, _: &[RowUpdate]) -> Option<Vec<u8>> {
        None
    }

    /// Appends the names that differ from the last ones.
    fn update_session_list(
        &self,
        _: &Artifact,
        old: Option<&[u8]>,
        rows: &[RowUpdate],
        _: bool,
    ) -> Result<ListUpdate> {
        let old = old.unwrap_or_default();
        let known = DocumentDecoder::rows(old);
        let mut bytes = old.to_vec();
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        for row in rows.iter().filter(|row| !row.removed) {
            let session = row.log.as_ref().and_then(|log| log.session.as_ref());
            let Some(session) = session else {
                continue;
            };
            let last = known.iter().rev().find(|(id, _)| id == session.as_str());
            let first = row.first_title.as_deref().filter(|_| last.is_none());
            let Some(title) = row.title.as_deref().or(first) else {
                continue;
            };
            if last.is_some_and(|(_, name)| name == title) {
                continue;
            }
            let time = row.updated.unwrap_or_default();
            let line = format!(
                r#"{{"id":{},"thread_name":{},"updated_at":{}}}"#,
                json::quote(session.as_str()),
                json::quote(title),
                json::quote(&format_time(time))
            );
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        Ok(match bytes == old {
            true => ListUpdate::Unchanged,
            false => ListUpdate::Changed {
                bytes,
                damaged: false,
                removed: Vec::new(),
            },
        })
    }

    fn check_session_member(&self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn is_session_list_empty(&self, _: &Artifact, bytes: &[u8]) -> bool {
        bytes.is_empty()
    }
}

/// Returns the log of a thread.
fn log(name: String, thread: SessionId) -> Artifact {
    Artifact {
        session: Some(thread),
        name: Some(name),
        framing: Framing::Document(&fold::ROLLOUT),
        ..Artifact::new(ArtifactKind::SharedLog)
    }
}

/// Returns the thread of a sub-agent.
fn agent_thread(session: &SessionId, agent: &AgentId) -> String {
    match path::is_thread(agent.as_str()) {
        true => agent.to_string(),
        false => EntryKey::from_pair(session.as_str(), agent.as_str()).derived_uuid(),
    }
}

/// A line.
#[derive(Serialize)]
struct LineOut<'a> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordinal: Option<u64>,
    #[serde(rename = "type")]
    kind: &'a str,
    payload: Box<RawValue>,
    annals: ExtensionOut<'a>,
}

/// A part of a message that is a line of its own.
struct Part<'a> {
    blocks: &'a [Block],
    /// The item in the program's format; `None` if the program has none for these blocks.
    item: Option<String>,
}

/// Encodes the lines of one change.
struct LineBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    plan: EditPlan,
    /// Number of the next line, in logs that number them.
    ordinal: Option<u64>,
    /// Time of the newest line so far.
    time: Option<Timestamp>,
}

impl<'a, 'b> LineBuilder<'a, 'b> {
    fn new(head: &'a AppendState, stamp: &'a mut PlanContext<'b>) -> Self {
        let ordinal = head.writer_state.get(ORDINAL);
        LineBuilder {
            head,
            stamp,
            lines: Vec::new(),
            plan: EditPlan::default(),
            ordinal: ordinal.and_then(|last| last.parse::<u64>().ok()?.checked_add(1)),
            time: head.time,
        }
    }

    fn finish(mut self) -> EditPlan {
        if !self.lines.is_empty() {
            let lines = std::mem::take(&mut self.lines);
            let path = path::path_for(&self.head.log);
            self.plan.edits.insert(0, Edit::Append { path, lines });
        }
        if let Some(last) = self.ordinal.and_then(|next| next.checked_sub(1)) {
            let state = &mut self.plan.writer_state;
            state.insert(ORDINAL.to_owned(), last.to_string());
        }
        self.plan
    }

    fn header(&mut self, forked_from: Option<&SessionId>, spawn: Option<&Spawn>) -> Result<()> {
        let head = self.head;
        let time = self.next_time(None);
        let thread = head.log.session.as_ref().unwrap_or(&head.session);
        let mut members = vec![format!(r#""id":{}"#, json::quote(thread.as_str()))];
        let mut add = |name: &str, json: Option<String>| {
            members.extend(json.map(|json| format!(r#""{name}":{json}"#)));
        };
        let quoted = |text: &str| Some(json::quote(text));
        if spawn.is_some() {
            add("session_id", quoted(head.session.as_str()));
            add("parent_thread_id", quoted(head.session.as_str()));
        }
        add(
            "forked_from_id",
            forked_from.map(|id| json::quote(id.as_str())),
        );
        add("timestamp", quoted(&format_time(time)));
        add("cwd", quoted(head.cwd.as_deref().unwrap_or("/")));
        add("originator", quoted(ORIGINATOR));
        add("cli_version", quoted(env!("CARGO_PKG_VERSION")));
        add("instructions", Some("null".to_owned()));
        let role = spawn.map(|spawn| json::quote(&spawn.kind));
        add(
            "source",
            match &role {
                Some(role) => Some(format!(
                    r#"{{"subagent":{{"thread_spawn":{{"parent_thread_id":{},"depth":1,"agent_path":null,"agent_nickname":null,"agent_role":{role}}}}}}}"#,
                    json::quote(head.session.as_str())
                )),
                None => quoted("cli"),
            },
        );
        add(
            "thread_source",
            quoted(if role.is_some() { "subagent" } else { "user" }),
        );
        add("agent_role", role);
        // Without a `model_provider`, the program takes its current one; it refuses a session of another.
        let branch = head.git_branch.as_deref();
        add(
            "git",
            branch.map(|branch| format!(r#"{{"branch":{}}}"#, json::quote(branch))),
        );
        let words = ExtensionOut {
            id: head.agent.as_ref().map(AgentId::as_str),
            kind: spawn.map(|_| "agent"),
            subtype: spawn.map(|spawn| spawn.kind.as_str()),
            description: spawn.map(|spawn| spawn.description.as_str()),
            call: spawn.and_then(|spawn| spawn.call.as_deref()),
            version: head.version.as_deref(),
            ..ExtensionOut::default()
        };
        self.line(
            time,
            "session_meta",
            format!("{{{}}}", members.join(",")),
            words,
        )
    }

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        match &draft.body {
            Body::Message(message) if message.compact_summary => self.summary(message, draft),
            Body::Message(message) => self.message(message, draft),
            Body::Compaction { text } => {
                let words = ExtensionOut {
                    kind: Some("compaction"),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, "annals_compaction", "{}".to_owned(), words)
            }
            Body::System { subtype, text } => {
                let words = ExtensionOut {
                    kind: Some("system"),
                    subtype: Some(subtype),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, "annals_system", "{}".to_owned(), words)
            }
            Body::Agent {
                kind,
                description,
                call,
            } => {
                let time = self.next_time(draft.time);
                let words = ExtensionOut {
                    kind: Some("agent"),
                    subtype: kind.as_deref(),
                    description: description.as_deref(),
                    call: call.as_deref(),
                    ..ExtensionOut::default()
                };
                self.line(time, "annals_note", "{}".to_owned(), words)
            }
            Body::Title { text, source }
                if *source == TitleSource::Custom && self.head.agent.is_none() =>
            {
                let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if name.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                self.plan.title = Some(name);
                Ok(())
            }
            _ => {
                let Some((note, id)) = annotations::encode(draft, self.stamp)? else {
                    return Err(Error::refused(
                        "this kind of entry cannot be written to a Codex session",
                    ));
                };
                let note = String::from_utf8(note);
                let note = note.map_err(|error| Error::refused(error.to_string()))?;
                let time = self.next_time(draft.time);
                let words = ExtensionOut {
                    id: Some(id.as_str()),
                    ..ExtensionOut::default()
                };
                self.line(time, "annals_note", note, words)?;
                self.plan.added.push(id);
                Ok(())
            }
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let parts = parts(message)?;
        let last = parts.len().saturating_sub(1);
        let terms = draft_usage_members(&draft.members);
        let usage = message.usage.as_ref();
        let usage = usage.map(|usage| usage_json(usage, terms)).transpose()?;
        let mut usage = usage.filter(|_| message.role == Role::Assistant);
        let mut first = 0;
        for (at, part) in parts.iter().enumerate() {
            let given = GivenBlocks::new(draft, part.blocks, first);
            first += part.blocks.len();
            // A given id names the last line of the message, which is the parent of the next.
            let mut own = draft.clone();
            own.id = draft.id.clone().filter(|_| at == last);
            if at > 0 {
                own.parent = None;
            }
            let is_hidden = part.item.is_none() || message.api_error;
            let payload = part.item.clone().unwrap_or_else(|| {
                let role = json::quote(message.role.as_str());
                format!(r#"{{"type":"message","role":{role},"content":[]}}"#)
            });
            let (read, is_error) = items::decode(Raw(Some(&payload)));
            let is_same = match part.blocks {
                [
                    Block::ToolResult {
                        output,
                        is_error: given,
                        ..
                    },
                ] => *output == read && *given == is_error,
                blocks => *blocks == *read,
            };
            let blocks = match given.has_raw() || !is_same {
                true => Some(raw(given.json()?)?),
                false => None,
            };
            let human = message.human && !is_blank(part.blocks);
            // A result is read as a user's.
            let is_reply = message.role == Role::Assistant
                && matches!(part.blocks, [Block::ToolResult { .. }]);
            let words = ExtensionOut {
                kind: is_reply.then_some(Role::Assistant.as_str()),
                blocks,
                usage: usage.take(),
                model: message.model.as_deref(),
                response: message.response.as_deref(),
                request: message.request.as_deref(),
                stop: message.stop_reason.as_deref(),
                human: (message.role == Role::User).then_some(human),
                meta: message.meta,
                api_error: message.api_error,
                spawned: message.spawned.as_ref().map(AgentId::as_str),
                stored: message.stored.as_deref(),
                ..ExtensionOut::default()
            };
            let kind = match is_hidden {
                true => "annals_response_item",
                false => "response_item",
            };
            self.entry(&own, kind, payload, words)?;
            let shows = !is_hidden && !self.is_aside(draft) && self.ordinal.is_none();
            let shown = Some(part.blocks).filter(|_| shows);
            if let Some(event) = shown.and_then(|blocks| event(message.role, human, blocks)) {
                let time = self.time.unwrap_or(self.stamp.now);
                self.line(time, "event_msg", event, ExtensionOut::default())?;
            }
        }
        Ok(())
    }

    /// Writes the summary that follows a compaction: the program sends it instead of all before.
    fn summary(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let text = json::quote(&texts(&message.blocks));
        let payload = format!(
            r#"{{"message":{text},"replacement_history":[{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}]}}"#
        );
        let blocks = match &*message.blocks {
            [Block::Text(_)] if draft.raw_blocks.is_empty() => None,
            blocks => Some(raw(GivenBlocks::new(draft, blocks, 0).json()?)?),
        };
        let words = ExtensionOut {
            compact: true,
            blocks,
            ..summary_words(message, draft)?
        };
        self.entry(draft, "compacted", payload, words)
    }

    fn compact(&mut self, summary: &str) -> Result<()> {
        if self.head.leaf.is_none() {
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

    /// Creates the log of a sub-agent.
    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        let mut writer_state = self.head.writer_state.clone();
        writer_state.remove(ORDINAL);
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            log: Codex.new_agent_log(self.head, &spawn.agent)?,
            leaf: None,
            last_message: None,
            writer_state,
            ..self.head.clone()
        };
        let mut builder = LineBuilder::new(&head, self.stamp);
        builder.header(None, Some(spawn))?;
        self.plan = builder.finish();
        Ok(())
    }

    /// Writes a line that is part of the conversation.
    fn entry(
        &mut self,
        draft: &Draft,
        kind: &str,
        payload: String,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        let leaf = self.leaf();
        if let Some(parent) = &draft.parent
            && leaf.as_ref() != Some(parent)
        {
            return Err(Error::refused(format!(
                "a Codex session has no branches, and `{parent}` is not its last message; \
                 `annals fork` makes a session of the messages up to there"
            )));
        }
        let id = draft.id.clone();
        let id = id.unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()));
        let is_aside = self.is_aside(draft);
        let hidden = format!("{HIDDEN}{kind}");
        let kind = match is_aside && !kind.starts_with(HIDDEN) {
            true => &hidden,
            false => kind,
        };
        let parent = match (&leaf, &self.head.last_message) {
            (Some(leaf), _) => Some(Some(leaf.as_str())),
            // The first entry may continue another log.
            (None, None) if !is_aside => None,
            (None, _) => Some(None),
        };
        let words = ExtensionOut {
            id: Some(id.as_str()),
            parent,
            agent: draft.agent.as_ref().map(AgentId::as_str),
            sidechain: draft.sidechain,
            aside: is_aside,
            ..words
        };
        let time = self.next_time(draft.time);
        self.line(time, kind, payload, words)?;
        self.plan.leaf = Some(id.clone());
        self.plan.added.push(id);
        Ok(())
    }

    fn line(
        &mut self,
        time: Timestamp,
        kind: &str,
        payload: String,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        let line = LineOut {
            timestamp: format_time(time),
            ordinal: self.ordinal,
            kind,
            payload: raw(payload)?,
            annals: ExtensionOut {
                program: Some(PROGRAM),
                ..words
            },
        };
        let bytes = encode(&line)?;
        self.lines.push(bytes);
        self.ordinal = self.ordinal.and_then(|ordinal| ordinal.checked_add(1));
        Ok(())
    }

    /// Returns whether the program must not send an entry.
    fn is_aside(&self, draft: &Draft) -> bool {
        self.head.is_aside || draft.sidechain
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.next_time(&mut self.time, given)
    }
}

/// Splits a message into the items that the program has for it.
fn parts(message: &Message) -> Result<Vec<Part<'_>>> {
    let role = message.role;
    let mut parts = Vec::new();
    let is_text = |block: &Block| match block {
        Block::Text(_) => true,
        Block::Image { .. } => role == Role::User,
        _ => false,
    };
    let joined = |one: &Block, next: &Block| is_text(one) && is_text(next);
    for blocks in message.blocks.chunk_by(joined) {
        let item = match blocks {
            [Block::ToolUse { id, name, input }] if role == Role::Assistant => Some(format!(
                r#"{{"type":"function_call","name":{},"arguments":{},"call_id":{}}}"#,
                json::quote(name),
                json::quote(&one_line(input)?),
                json::quote(id)
            )),
            [Block::ToolResult { call, output, .. }] if role != Role::System => Some(format!(
                r#"{{"type":"function_call_output","call_id":{},"output":{}}}"#,
                json::quote(call),
                json::quote(&texts(output))
            )),
            blocks if blocks.iter().all(is_text) => Some(message_item(role, blocks)),
            _ => None,
        };
        parts.push(Part { blocks, item });
    }
    if parts.is_empty() {
        let blocks = &message.blocks;
        parts.push(Part { blocks, item: None });
    }
    Ok(parts)
}

/// Encodes texts and images.
fn message_item(role: Role, blocks: &[Block]) -> String {
    let (role, kind) = match role {
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
        Role::System => ("developer", "input_text"),
    };
    let parts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(format!(
            r#"{{"type":"{kind}","text":{}}}"#,
            json::quote(text)
        )),
        Block::Image { media_type, data } => {
            let url = match media_type.is_empty() {
                true => data.clone(),
                false => format!("data:{media_type};base64,{data}"),
            };
            let url = json::quote(&url);
            Some(format!(r#"{{"type":"input_image","image_url":{url}}}"#))
        }
        _ => None,
    });
    let parts: Vec<String> = parts.collect();
    format!(
        r#"{{"type":"message","role":"{role}","content":[{}]}}"#,
        parts.join(",")
    )
}

/// Returns the event that shows a text in older versions of the program.
fn event(role: Role, human: bool, blocks: &[Block]) -> Option<String> {
    let is_text = blocks.iter().all(|block| matches!(block, Block::Text(_)));
    let text = json::quote(&texts(blocks));
    match role {
        Role::User if human => Some(format!(
            r#"{{"type":"user_message","message":{text},"images":[]}}"#
        )),
        Role::Assistant if is_text => {
            Some(format!(r#"{{"type":"agent_message","message":{text}}}"#))
        }
        _ => None,
    }
}

/// Returns the texts of blocks, one paragraph each.
fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}
