//! Writing: messages as the program writes them, and lines that it skips.
//!
//! | line | for |
//! |---|---|
//! | metadata | the beginning of a session, a fork or a sub-agent |
//! | `{id, type: "user" or "gemini", …}` | a message that the program sends; results of calls are parts of a user message |
//! | `{"$set": {"messages": [summary]}}` | the summary after a compaction: the program sends it instead of everything before |
//! | `{"$set": {"summary": title}}` | a title given by a person |
//! | `{"$set": {"lastUpdated": time}}` | after other lines, if the log has such a time: the program deletes logs whose time is 30 days old |
//! | `{type, annals, …}` without `id` | not sent: branches that are not resumed (`user`, `gemini`), errors and further parts of a reply (`annals_gemini`), messages of programs (`annals_system`), other entries (`annals_entry`) |
//! | `{type: "annals_note", note, annals}` | a note, a tag, a summary, a title by a model: see `annotations.rs` |
//!
//! The program sends all messages in file order. So a conversation has one branch. The member `annals`
//! of a line has the parent and what the format cannot express. New logs say no `lastUpdated`, which
//! the program takes for now: a conversation converted with its true dates would be deleted at once.
//!
//! `.project_root` in a new folder names its directory; the program adds the folder to `projects.json`
//! itself. Todos are in files of annals (`own_files.rs`). A document of an older version is not
//! appended to.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::json::{self, Raw};
use crate::layout::content::{GivenBlocks, one_line, raw};
use crate::layout::extension::{ExtensionOut, summary_words};
use crate::layout::usage_fields::{
    USAGE_MEMBER, draft_usage_members, format_time, truncate_to_millis, usage_json,
};
use crate::layout::{
    AppendState, Change, Decoded, Decoder as _, Edit, EditPlan, ForkEdit, ForkParent, NewSession,
    PROGRAM, PlanContext, Record, SessionListWriter, Spawn, Writer, WriterSpec, annotations,
    is_model, own_files,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, EntryKey, Framing, Message, Role,
    SessionId, Span, TitleSource, Usage,
};

use super::decode::{DOCUMENT, ENTRY, EXPIRES, HIDDEN_REPLY, MessageDecoder, SYSTEM};
use super::{Gemini, fold, path};

/// Text of a compaction record.
const COMPACTED: &str = "Conversation compacted";

/// Type of a line with an annotation.
const NOTE: &str = "annals_note";

static SPEC: WriterSpec = WriterSpec {
    draft_members: &[USAGE_MEMBER],
    has_whole_replies: true,
    is_linear: true,
    copies_entries: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Gemini {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        let copied = new.copied_from.as_ref();
        if copied.is_none() && !new.cwd.starts_with('/') && !new.cwd.contains(":\\") {
            let why = format!("`{}` is not an absolute path", new.cwd);
            return Err(Error::refused(why));
        }
        if !EntryKey::is_canonical_uuid(new.id.as_str()) {
            return Err(Error::refused(format!(
                "ids of Gemini CLI's sessions are UUIDs; `{}` is none",
                new.id
            )));
        }
        let folder = copied.and_then(|log| log.folder.clone());
        let folder = folder.or_else(|| new.folder.clone());
        Ok(Artifact {
            folder: Some(folder.unwrap_or_else(|| path::new_folder(&new.cwd))),
            session: Some(new.id.clone()),
            name: Some(path::new_name(&new.id, stamp.now.to_zoned(TimeZone::UTC))),
            framing: Framing::Document(&fold::PATCHES),
            ..Artifact::new(ArtifactKind::SharedLog)
        })
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if agent.as_str() == head.session.as_str() {
            return Err(Error::refused("a sub-agent cannot have its session's id"));
        }
        Ok(Artifact {
            folder: head.log.folder.clone(),
            session: Some(head.session.clone()),
            agent: Some(agent.clone()),
            framing: Framing::Document(&fold::PATCHES),
            ..Artifact::new(ArtifactKind::AgentLog)
        })
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        let is_document = head.log.framing == Framing::Document(&fold::DOCUMENT)
            || head.writer_state.contains_key(DOCUMENT);
        if is_document && !matches!(change, Change::SetTodos(_)) {
            return Err(Error::refused(format!(
                "session {0} is one JSON document of an older Gemini CLI, which annals does not append to; \
                 `gemini --resume {0}` continues it in a log, or `annals fork {0}` makes a session that can be continued",
                head.session
            )));
        }
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
                let folder = head.log.folder.as_deref();
                let edit = own_files::todos_edit(head, folder, todos)?;
                builder.plan.edits.push(edit);
            }
            Change::Spawn(spawn) => builder.spawn(spawn)?,
        }
        builder.finish()
    }

    fn check_record(&self, _: &AppendState, record: &str) -> std::result::Result<(), String> {
        let text = |name: &str| json::member(record, name).and_then(json::decode_string);
        if text("id").is_none_or(|id| id.is_empty()) {
            return Err("it has no `id`, and Gemini CLI skips such a line".to_owned());
        }
        const TYPES: [&str; 5] = ["user", "gemini", "info", "warning", "error"];
        match text("type") {
            Some(kind) if TYPES.contains(&&*kind) => Ok(()),
            _ => Err(format!("its `type` is none of {}", TYPES.join(", "))),
        }
    }

    fn valid_id(&self, id: &str) -> String {
        match EntryKey::is_canonical_uuid(id) {
            true => id.to_owned(),
            false => EntryKey::from_text(id).derived_uuid(),
        }
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        let failed = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let line = std::str::from_utf8(record).map_err(|_| failed())?;
        let parent = match (graft.parent, graft.previous) {
            (ForkParent::Entry(parent), _) | (ForkParent::Keep, Some(parent)) => {
                json::quote(parent.as_str())
            }
            _ => "null".to_owned(),
        };
        let id = json::quote(graft.id.as_str());
        let is_it = |object: &str| {
            let found = json::member(object, "id").and_then(json::decode_string);
            found.is_some_and(|found| *found == *graft.id.as_str())
        };
        let slots = Raw(json::member(line, "messages")).list().into_iter();
        let mut slots = slots.filter_map(|slot| slot.0);
        let Some(slot) = slots.find(|slot| is_it(slot)) else {
            let is_rewind = json::member(line, "resumes").is_some_and(is_it);
            // Results are stored with their calls.
            return Ok(match is_rewind {
                false => Vec::new(),
                true => format!(
                    r#"{{"type":"{ENTRY}","annals":{{"program":"{PROGRAM}","id":{id},"parent":{parent},"kind":"system","subtype":"rewind"}}}}"#
                )
                .into_bytes(),
            });
        };
        let message = json::member(slot, "message").ok_or_else(failed)?;
        let first = json::member(slot, "first").unwrap_or(message);
        // A resume writes the history again without what belongs to the first record.
        let mut members: Vec<(&str, &str)> = Vec::new();
        for name in ["timestamp", "tokens", "model", "annals"] {
            let value = json::member(first, name);
            members.extend(
                value
                    .filter(|_| json::member(message, name) != value)
                    .map(|value| (name, value)),
            );
        }
        let time = graft.time.map(|time| json::quote(&format_time(time)));
        members.extend(time.as_deref().map(|time| ("timestamp", time)));
        let kind = json::member(message, "type").and_then(json::decode_string);
        let is_sent = kind.is_some_and(|kind| matches!(&*kind, "user" | "gemini"));
        let annex = json::member(first, "annals").unwrap_or_default();
        let is_named = json::member(annex, "id").is_some() && !is_sent;
        // The id of a message without one is made from its position.
        if !is_named && json::member(message, "id").is_none() {
            members.push(("id", &id));
        }
        let copy = json::set_members(message.as_bytes(), &members).ok_or_else(failed)?;
        let mut words = vec![("parent", parent.as_str())];
        if ["aside", "sidechain", "agent"]
            .iter()
            .any(|name| json::member(annex, name).is_some())
        {
            // In the fork this is the main conversation.
            words.extend([
                ("aside", "false"),
                ("sidechain", "false"),
                ("agent", "null"),
            ]);
        }
        let copy = json::set_nested_members(&copy, "annals", &words).ok_or_else(failed)?;
        match json::member(annex, "compact") {
            Some("true") => Ok([br#"{"$set":{"messages":["#, copy.as_slice(), b"]}}"].concat()),
            _ => Ok(copy),
        }
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }

    fn session_lists(&self) -> Option<&dyn SessionListWriter> {
        Some(self)
    }
}

/// Metadata of a session or sub-agent.
#[derive(Serialize)]
struct MetadataOut<'a> {
    #[serde(rename = "sessionId")]
    session: &'a str,
    #[serde(rename = "projectHash")]
    project: String,
    #[serde(rename = "startTime")]
    started: String,
    kind: &'a str,
    #[serde(rename = "forkedFrom", skip_serializing_if = "Option::is_none")]
    forked_from: Option<Box<RawValue>>,
    annals: ExtensionOut<'a>,
}

/// A message, or a line that the program skips.
#[derive(Serialize)]
struct MessageOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    timestamp: String,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    content: ContentOut<'a>,
    annals: ExtensionOut<'a>,
}

#[derive(Default, Serialize)]
struct ContentOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thoughts: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(rename = "toolCalls", skip_serializing_if = "Option::is_none")]
    calls: Option<Box<RawValue>>,
}

/// A line with an annotation.
#[derive(Serialize)]
struct NoteOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: String,
    note: Box<RawValue>,
    annals: ExtensionOut<'a>,
}

/// Encodes the lines of one change.
struct LineBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    plan: EditPlan,
    /// Time of the newest line so far.
    time: Option<Timestamp>,
    /// Calls without a result, and their tools.
    open_calls: Vec<(String, String)>,
}

impl<'a, 'b> LineBuilder<'a, 'b> {
    fn new(head: &'a AppendState, stamp: &'a mut PlanContext<'b>) -> Self {
        LineBuilder {
            head,
            stamp,
            lines: Vec::new(),
            plan: EditPlan::default(),
            time: head.time,
            open_calls: head.open_calls.clone(),
        }
    }

    fn finish(mut self) -> Result<EditPlan> {
        if !self.lines.is_empty() {
            if self.head.writer_state.contains_key(EXPIRES) {
                let time = self.time.unwrap_or(self.stamp.now).max(self.stamp.now);
                let time = json::quote(&format_time(truncate_to_millis(time)));
                let line = format!(r#"{{"$set":{{"lastUpdated":{time}}}}}"#);
                self.lines.push(line.into_bytes());
            }
            let lines = std::mem::take(&mut self.lines);
            let path = path::path_for(&self.head.log);
            self.plan.edits.insert(0, Edit::Append { path, lines });
        }
        Ok(self.plan)
    }

    fn header(&mut self, forked_from: Option<&SessionId>, spawn: Option<&Spawn>) -> Result<()> {
        let head = self.head;
        let time = self.next_time(None);
        let cwd = head.cwd.as_deref().filter(|cwd| !cwd.is_empty());
        let agent = head.agent.as_ref().map(AgentId::as_str);
        let from = forked_from.map(|id| format!(r#"{{"sessionId":{}}}"#, json::quote(id.as_str())));
        let line = encode(&MetadataOut {
            session: agent.unwrap_or(head.session.as_str()),
            project: format!("{:x}", Sha256::digest(cwd.unwrap_or_default().as_bytes())),
            started: format_time(time),
            kind: agent.map_or("main", |_| "subagent"),
            forked_from: from.map(raw).transpose()?,
            annals: ExtensionOut {
                program: Some(PROGRAM),
                cwd,
                branch: head.git_branch.as_deref(),
                version: head.version.as_deref(),
                kind: spawn.map(|_| "agent"),
                subtype: spawn.map(|spawn| spawn.kind.as_str()),
                description: spawn.map(|spawn| spawn.description.as_str()),
                call: spawn.and_then(|spawn| spawn.call.as_deref()),
                ..ExtensionOut::default()
            },
        })?;
        self.lines.push(line);
        Ok(())
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
                self.own_entry(draft, words)
            }
            Body::System { subtype, text } => {
                let words = ExtensionOut {
                    kind: Some("system"),
                    subtype: Some(subtype),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.own_entry(draft, words)
            }
            Body::Title { text, source }
                if *source == TitleSource::Custom && self.head.agent.is_none() =>
            {
                let title = text.trim();
                if title.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                let title = json::quote(title);
                let line = format!(
                    r#"{{"$set":{{"summary":{title}}},"annals":{{"program":"{PROGRAM}"}}}}"#
                );
                self.lines.push(line.into_bytes());
                Ok(())
            }
            _ => self.note(draft),
        }
    }

    /// Writes an annotation.
    fn note(&mut self, draft: &Draft) -> Result<()> {
        let Some((note, id)) = annotations::encode(draft, self.stamp)? else {
            return Err(Error::refused(
                "this kind of entry cannot be written to a Gemini CLI session",
            ));
        };
        let note = String::from_utf8(note);
        let note = note.map_err(|error| Error::refused(error.to_string()))?;
        let time = self.next_time(draft.time);
        self.lines.push(encode(&NoteOut {
            kind: NOTE,
            timestamp: format_time(time),
            note: raw(note)?,
            annals: ExtensionOut {
                id: Some(id.as_str()),
                program: Some(PROGRAM),
                ..ExtensionOut::default()
            },
        })?);
        self.plan.added.push(id);
        Ok(())
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let given = GivenBlocks::new(draft, &message.blocks, 0);
        let terms = draft_usage_members(&draft.members);
        let all = message.usage.unwrap_or_default();
        let known = self.head.recent_responses.iter().rev();
        let mut known = known.filter(|(id, _)| message.response.as_ref() == Some(id));
        let added = known
            .next()
            .map_or(all, |(_, known)| all.excess_over(known));
        let mut words = ExtensionOut {
            response: message.response.as_deref(),
            request: message.request.as_deref(),
            stop: message.stop_reason.as_deref(),
            meta: message.meta,
            api_error: message.api_error,
            spawned: message.spawned.as_ref().map(AgentId::as_str),
            stored: message.stored.as_deref(),
            ..ExtensionOut::default()
        };
        let is_reply = message.role == Role::Assistant;
        let has_result = |block: &Block| matches!(block, Block::ToolResult { .. });
        let (kind, content) = match message.role {
            Role::System => (SYSTEM, ContentOut::default()),
            Role::Assistant if message.blocks.iter().any(has_result) => {
                // A result is read as a user's.
                words.kind = Some(Role::Assistant.as_str());
                words.model = message.model.as_deref();
                ("user", self.user_content(&message.blocks, given)?)
            }
            Role::User => ("user", self.user_content(&message.blocks, given)?),
            Role::Assistant => {
                let blocks = [&message.blocks[..], &self.head.reply_rest].concat();
                let known = self.head.model.as_deref();
                let model = message.model.as_deref().filter(|model| is_model(model));
                let is_hidden = self.head.continues_reply || message.api_error;
                let kind = if is_hidden { HIDDEN_REPLY } else { "gemini" };
                let mut content = reply_content(&blocks)?;
                content.model = model.or(known);
                content.tokens = message.usage.map(|_| tokens(&added)).transpose()?;
                (kind, content)
            }
        };
        let time = self.next_time(draft.time);
        let id = self.id(draft);
        let leaf = self.leaf();
        let mut line = self.line(draft, &id, leaf.as_ref(), kind, time, content, words)?;
        let mut read = decode_line(&encode(&line)?);
        let is_same = read
            .as_ref()
            .is_some_and(|read| read.role == message.role && read.blocks == message.blocks);
        if given.has_raw() || !is_same {
            line.annals.blocks = Some(raw(given.json()?)?);
            read = decode_line(&encode(&line)?);
        }
        let spent = message.usage.filter(|usage| !usage.is_zero());
        if is_reply && (read.as_ref().is_some_and(|read| read.usage != spent) || terms.is_some()) {
            line.annals.usage = Some(usage_json(&all, terms)?);
        }
        // Blank text does not count as written by a person.
        let human = message.human && !is_blank(&message.blocks);
        if read.is_some_and(|read| read.human != human) {
            line.annals.human = Some(human);
        }
        let bytes = encode(&line)?;
        self.push(bytes, id);
        for block in &message.blocks {
            if let Block::ToolUse { id, name, .. } = block {
                self.open_calls.push((id.clone(), name.clone()));
            }
        }
        Ok(())
    }

    /// Encodes a user message.
    fn user_content(
        &self,
        blocks: &[Block],
        given: GivenBlocks<'_>,
    ) -> Result<ContentOut<'static>> {
        let mut parts = Vec::new();
        for block in blocks {
            parts.extend(match block {
                Block::ToolResult {
                    call,
                    output,
                    is_error,
                } => {
                    let tool = given.tool().filter(|_| blocks.len() == 1);
                    let tool = tool.or_else(|| self.tool_of(call));
                    Some(format!(
                        r#"{{"functionResponse":{{"id":{},"name":{},"response":{{"{}":{}}}}}}}"#,
                        json::quote(call),
                        json::quote(tool.as_deref().unwrap_or("unknown")),
                        if *is_error { "error" } else { "output" },
                        json::quote(&texts(output)),
                    ))
                }
                block => part(block),
            });
        }
        Ok(ContentOut {
            content: Some(raw(format!("[{}]", parts.join(",")))?),
            ..ContentOut::default()
        })
    }

    /// Writes the summary that follows a compaction: the program sends it instead of all before.
    fn summary(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let text = json::quote(&texts(&message.blocks));
        let content = ContentOut {
            content: Some(raw(format!(r#"[{{"text":{text}}}]"#))?),
            ..ContentOut::default()
        };
        let blocks = match &*message.blocks {
            [Block::Text(_)] if draft.raw_blocks.is_empty() => None,
            blocks => Some(raw(GivenBlocks::new(draft, blocks, 0).json()?)?),
        };
        let words = ExtensionOut {
            compact: true,
            meta: true,
            blocks,
            ..summary_words(message, draft)?
        };
        let time = self.next_time(draft.time);
        let id = self.id(draft);
        let leaf = self.leaf();
        let line = self.line(draft, &id, leaf.as_ref(), "user", time, content, words)?;
        let is_sent = line.id.is_some();
        let line = encode(&line)?;
        let line = match is_sent {
            true => [br#"{"$set":{"messages":["#, line.as_slice(), b"]}}"].concat(),
            false => line,
        };
        self.push(line, id);
        Ok(())
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
        writer_state.remove(EXPIRES);
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            log: Gemini.new_agent_log(self.head, &spawn.agent)?,
            leaf: None,
            last_message: None,
            writer_state,
            ..self.head.clone()
        };
        let mut builder = LineBuilder::new(&head, self.stamp);
        builder.header(None, Some(spawn))?;
        self.plan = builder.finish()?;
        Ok(())
    }

    /// Writes an entry of the conversation that the program has no line for.
    fn own_entry(&mut self, draft: &Draft, words: ExtensionOut<'_>) -> Result<()> {
        let time = self.next_time(draft.time);
        let id = self.id(draft);
        let leaf = self.leaf();
        let line = self.line(
            draft,
            &id,
            leaf.as_ref(),
            ENTRY,
            time,
            ContentOut::default(),
            words,
        )?;
        let line = encode(&line)?;
        self.push(line, id);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the members of a line")]
    fn line<'w>(
        &self,
        draft: &'w Draft,
        id: &'w EntryId,
        leaf: Option<&'w EntryId>,
        kind: &'w str,
        time: Timestamp,
        content: ContentOut<'w>,
        words: ExtensionOut<'w>,
    ) -> Result<MessageOut<'w>>
    where
        'a: 'w,
    {
        if let Some(parent) = &draft.parent
            && leaf != Some(parent)
        {
            return Err(Error::refused(format!(
                "a Gemini CLI session has no branches, and `{parent}` is not its last message; \
                 `annals fork` makes a session of the messages up to there"
            )));
        }
        let is_aside = self.head.is_aside || draft.sidechain;
        let is_sent = !is_aside && matches!(kind, "user" | "gemini");
        let parent = match (leaf, &self.head.last_message) {
            (Some(leaf), _) => Some(Some(leaf.as_str())),
            (None, None) if !is_aside => None,
            (None, _) => Some(None),
        };
        Ok(MessageOut {
            id: is_sent.then(|| id.as_str()),
            timestamp: format_time(time),
            kind,
            content,
            annals: ExtensionOut {
                id: (!is_sent).then(|| id.as_str()),
                parent,
                program: Some(PROGRAM),
                agent: draft.agent.as_ref().map(AgentId::as_str),
                sidechain: draft.sidechain,
                aside: is_aside,
                ..words
            },
        })
    }

    fn push(&mut self, line: Vec<u8>, id: EntryId) {
        self.lines.push(line);
        self.plan.leaf = Some(id.clone());
        self.plan.added.push(id);
    }

    fn id(&mut self, draft: &Draft) -> EntryId {
        let given = draft.id.clone();
        given.unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()))
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    fn tool_of(&self, call: &str) -> Option<String> {
        let calls = self.open_calls.iter().rev();
        let mut found = calls.filter(|(id, _)| id == call).map(|(_, tool)| tool);
        found.next().cloned()
    }

    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.next_time(&mut self.time, given)
    }
}

/// Encodes a reply: thoughts, text, and calls, in the order in which the program sends them.
fn reply_content<'a>(blocks: &[Block]) -> Result<ContentOut<'a>> {
    let mut thoughts = Vec::new();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block {
            Block::Thinking { text, .. } => thoughts.push(format!(
                r#"{{"subject":"","description":{}}}"#,
                json::quote(text)
            )),
            Block::ToolUse { id, name, input } => calls.push(format!(
                r#"{{"id":{},"name":{},"args":{},"status":"success"}}"#,
                json::quote(id),
                json::quote(name),
                match one_line(input)? {
                    object if object.starts_with('{') => object,
                    other => format!(r#"{{"input":{other}}}"#),
                }
            )),
            block => parts.extend(part(block)),
        }
    }
    let list = |parts: &[String]| raw(format!("[{}]", parts.join(",")));
    let content = match blocks.iter().find(|block| matches!(block, Block::Text(_))) {
        _ if parts.is_empty() => raw("\"\"".to_owned())?,
        Some(Block::Text(text)) if parts.len() == 1 => raw(json::quote(text))?,
        _ => list(&parts)?,
    };
    Ok(ContentOut {
        content: Some(content),
        thoughts: (!thoughts.is_empty())
            .then(|| list(&thoughts))
            .transpose()?,
        calls: (!calls.is_empty()).then(|| list(&calls)).transpose()?,
        ..ContentOut::default()
    })
}

/// Encodes a part of a message; `None` if the program has none for the block.
fn part(block: &Block) -> Option<String> {
    match block {
        Block::Text(text) => Some(format!(r#"{{"text":{}}}"#, json::quote(text))),
        Block::Image { media_type, data } => Some(format!(
            r#"{{"inlineData":{{"mimeType":{},"data":{}}}}}"#,
            json::quote(media_type),
            json::quote(data)
        )),
        _ => None,
    }
}

/// Encodes the tokens of a response.
fn tokens(usage: &Usage) -> Result<Box<RawValue>> {
    let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
    let input = [usage.input, usage.cache_read, written];
    let input = input.into_iter().fold(0, u64::saturating_add);
    raw(format!(
        r#"{{"input":{input},"output":{},"cached":{},"thoughts":0,"tool":0,"total":{}}}"#,
        usage.output,
        usage.cache_read,
        input.saturating_add(usage.output)
    ))
}

/// Decodes a line as a reader would.
fn decode_line(line: &[u8]) -> Option<Message> {
    let derived = (fold::PATCHES.to_lines)(line);
    let record = Record {
        span: Span {
            offset: 1,
            len: derived.len() as u64,
            line: 2,
        },
        bytes: &derived,
        terminated: true,
        oversize: false,
    };
    let log = Artifact {
        framing: Framing::Document(&fold::PATCHES),
        ..Artifact::new(ArtifactKind::SharedLog)
    };
    let mut sink = Decoded::default();
    MessageDecoder::new(&log).decode(&record, &mut sink);
    match sink.items.into_iter().next()?.body {
        Body::Message(message) => Some(message),
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

fn is_blank(blocks: &[Block]) -> bool {
    let blank = |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
    blocks.iter().all(blank)
}

fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::refused(error.to_string()))
}
