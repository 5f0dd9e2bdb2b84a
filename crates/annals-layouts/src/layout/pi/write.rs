//! Writing: one line per entry, each with an id, so that the program follows the chain to its end.
//!
//! A message becomes one line, and each tool result of a message a line of its own. If a converted
//! reply has several entries, the line of the first has the blocks of all, and the others are lines
//! that the program skips. What the format
//! cannot express is in the member `annals` of the line, which the program ignores. Entries that the
//! program does not send to the model are `custom` lines with the `customType` `annals`: notes, the
//! messages of programs, compactions (their summary is a `compaction` line) and the purpose of a
//! sub-agent. The program has no sub-agents and no todos: annals stores them in files of their own
//! (`own_files.rs`).
//!
//! The program resumes at the last line, whatever its type. So the parent of a line is the line
//! before, if that is part of the current branch, and a line of a side branch is followed by one
//! that names the current leaf.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, is_blank, one_line, raw};
use crate::layout::extension::{ExtensionOut, summary_words};
use crate::layout::usage_fields::{USAGE_MEMBER, draft_usage_members, format_time, usage_json};
use crate::layout::write::{encode, message_of_line};
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, NewSession, PROGRAM, PlanContext,
    Spawn, Writer, WriterSpec, annotations, is_model, own_files,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, EntryKey, Message, Role,
    SessionId, TitleSource, Usage,
};

use super::decode::{ANTHROPIC, HEADER, LineDecoder, MESSAGE, UNKNOWN_MODEL};
use super::line_out::{ContentOut, HeaderOut, LineOut};
use super::{Pi, decode, path};

/// Text of a compaction record.
const COMPACTED: &str = "Conversation compacted";

/// Version of the format.
const VERSION: u64 = 3;

static SPEC: WriterSpec = WriterSpec {
    draft_members: &[USAGE_MEMBER],
    resumes_at_last_line: true,
    has_whole_replies: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Pi {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        let copied = new.copied_from.as_ref();
        if copied.is_none() && !new.cwd.starts_with('/') && !new.cwd.contains(":\\") {
            let why = format!("`{}` is not an absolute path", new.cwd);
            return Err(Error::refused(why));
        }
        if self.valid_id(new.id.as_str()) != new.id.as_str() {
            return Err(Error::refused(format!(
                "pi does not accept the session id `{}`; its ids have letters, digits, `.`, `_` and `-`",
                new.id
            )));
        }
        let folder = match copied {
            Some(log) if log.folder.is_some() => log.folder.clone(),
            _ => Some(path::folder(&new.cwd)),
        };
        Ok(Artifact {
            folder,
            session: Some(new.id.clone()),
            name: Some(path::time_prefix(stamp.now)),
            ..Artifact::new(ArtifactKind::SessionLog)
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
            ..Artifact::new(ArtifactKind::AgentLog)
        })
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        if head.writer_state.get(decode::VERSION).map(String::as_str) == Some("1") {
            return Err(Error::refused(format!(
                "{} has the first version of pi's format, without ids; pi rewrites it when it opens the session",
                head.session
            )));
        }
        let mut builder = LineBuilder::new(head, stamp);
        match change {
            Change::Begin => builder.header(None)?,
            Change::Fork { from } => builder.header(Some(from))?,
            Change::Append(drafts) => {
                for draft in drafts {
                    builder.draft(draft)?;
                }
                builder.return_to_leaf()?;
            }
            Change::Compact { summary, tokens } => builder.compact(summary, *tokens)?,
            Change::SetTodos(todos) => {
                let folder = head.log.folder.as_deref();
                let edit = own_files::todos_edit(head, folder, todos)?;
                builder.plan.edits.push(edit);
            }
            Change::Spawn(spawn) => builder.spawn(spawn)?,
        }
        Ok(builder.finish())
    }

    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        let text = |name: &str| json::member(record, name).and_then(json::decode_string);
        let kind = text("type").unwrap_or_default();
        match &*kind {
            HEADER if head.end > 0 => return Err("the log already has a header".to_owned()),
            HEADER => return Ok(()),
            _ => {}
        }
        if text("id").is_none_or(|id| id.is_empty()) {
            return Err(
                "it has no `id`, and pi drops the whole history before such a line".to_owned(),
            );
        }
        if kind == MESSAGE && json::member(record, MESSAGE).is_none() {
            return Err("it has no `message`".to_owned());
        }
        Ok(())
    }

    fn valid_id(&self, id: &str) -> String {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_agent = id.contains(crate::layout::AGENT_SEPARATOR);
        match !is_agent && !id.is_empty() && id.bytes().all(fits) {
            true => id.to_owned(),
            false => EntryKey::from_text(id).derived_uuid(),
        }
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        let failed = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let id = json::quote(graft.id.as_str());
        let parent = match graft.parent {
            ForkParent::None => Some("null".to_owned()),
            ForkParent::Entry(parent) => Some(json::quote(parent.as_str())),
            ForkParent::Keep => None,
        };
        let text = String::from_utf8_lossy(record);
        let mut members: Vec<(&str, &str)> = Vec::new();
        // The id of an entry without one is made from its position.
        if json::member(&text, "id").is_none() {
            members.push(("id", &id));
        }
        members.extend(parent.as_deref().map(|parent| ("parentId", parent)));
        let copy = json::set_members(record, &members).ok_or_else(failed)?;
        let annex = json::member(&text, "annals").unwrap_or_default();
        let aside = ["sidechain", "agent"].map(|name| json::member(annex, name).is_some());
        if aside == [false, false] {
            return Ok(copy);
        }
        // In the fork this is the main conversation.
        let words = [("sidechain", "false"), ("agent", "null")];
        json::set_nested_members(&copy, "annals", &words).ok_or_else(failed)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

/// Encodes the lines of one change.
struct LineBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    plan: EditPlan,
    /// The line at which the program would resume.
    last_line: Option<EntryId>,
    /// Whether the last line belongs to a side branch.
    is_aside: bool,
    /// Time of the newest line so far.
    time: Option<Timestamp>,
    /// Calls without a result, and their tools.
    open_calls: Vec<(String, String)>,
    /// Ids and usage of the newest responses so far.
    recent_responses: Vec<(String, Usage)>,
}

impl<'a, 'b> LineBuilder<'a, 'b> {
    fn new(head: &'a AppendState, stamp: &'a mut PlanContext<'b>) -> Self {
        LineBuilder {
            head,
            stamp,
            lines: Vec::new(),
            plan: EditPlan::default(),
            last_line: head.last_line.clone().or_else(|| head.leaf.clone()),
            is_aside: false,
            time: head.time,
            open_calls: head.open_calls.clone(),
            recent_responses: head.recent_responses.clone(),
        }
    }

    fn finish(mut self) -> EditPlan {
        if !self.lines.is_empty() {
            let lines = std::mem::take(&mut self.lines);
            let path = path::path_for(&self.head.log);
            self.plan.edits.insert(0, Edit::Append { path, lines });
        }
        self.plan
    }

    fn header(&mut self, forked_from: Option<&SessionId>) -> Result<()> {
        let head = self.head;
        let time = self.next_time(None);
        let id = head.log.session.as_ref().unwrap_or(&head.session);
        let id = match &head.agent {
            Some(agent) => format!("{id}{}{agent}", crate::layout::AGENT_SEPARATOR),
            None => id.to_string(),
        };
        let line = encode(&HeaderOut {
            kind: HEADER,
            version: VERSION,
            id: &id,
            timestamp: format_time(time),
            cwd: head.cwd.as_deref().unwrap_or_default(),
            forked_from: forked_from.map(|from| format!("{from}.jsonl")),
            annals: ExtensionOut {
                program: Some(PROGRAM),
                branch: head.git_branch.as_deref(),
                version: head.version.as_deref(),
                ..ExtensionOut::default()
            },
        })?;
        self.lines.push(line);
        Ok(())
    }

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Compaction { text } => {
                let words = ExtensionOut {
                    kind: Some("compaction"),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, "custom", ContentOut::custom(), words)
            }
            Body::System { subtype, text } => {
                let words = ExtensionOut {
                    kind: Some("system"),
                    subtype: Some(subtype),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, "custom", ContentOut::custom(), words)
            }
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
                self.remark(draft, "custom", ContentOut::custom(), words)
            }
            Body::Resume { leaf } => {
                let mut to_leaf = draft.clone();
                to_leaf.parent = Some(leaf.clone());
                let words = ExtensionOut::default();
                self.remark(&to_leaf, "custom", ContentOut::custom(), words)
            }
            Body::Title { text, source } if *source == TitleSource::Custom => {
                let name = text.trim();
                if name.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                let content = ContentOut {
                    name: Some(name),
                    ..ContentOut::default()
                };
                self.remark(draft, "session_info", content, ExtensionOut::default())
            }
            Body::Tag { text } if self.head.leaf.is_some() => {
                let leaf = self.leaf();
                let content = ContentOut {
                    target: leaf.as_ref().map(EntryId::as_str),
                    label: Some(text),
                    ..ContentOut::default()
                };
                self.remark(draft, "label", content, ExtensionOut::default())
            }
            _ => {
                let Some((note, id)) = annotations::encode(draft, self.stamp)? else {
                    return Err(Error::refused(
                        "this kind of entry cannot be written to a pi session",
                    ));
                };
                let note = String::from_utf8(note);
                let note = note.map_err(|error| Error::refused(error.to_string()))?;
                let content = ContentOut {
                    data: Some(raw(note)?),
                    ..ContentOut::custom()
                };
                let mut draft = draft.clone();
                draft.id = Some(id);
                self.remark(&draft, "custom", content, ExtensionOut::default())
            }
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        if message.compact_summary {
            return self.summary(message, draft, 0);
        }
        let parts = parts(&message.blocks, message.role);
        let last = parts.len().saturating_sub(1);
        let mut first = 0;
        for (at, blocks) in parts.iter().enumerate() {
            let given = GivenBlocks::new(draft, blocks, first);
            first += blocks.len();
            let mut part = Message::new(message.role, blocks.to_vec());
            part.usage = message.usage.filter(|_| at == 0);
            part.model.clone_from(&message.model);
            // A given id names the last line of the message, which is the parent of the next.
            let mut own = draft.clone();
            own.id = draft.id.clone().filter(|_| at == last);
            if at > 0 {
                own.parent.clone_from(&self.last_line);
            }
            self.message_line(message, &part, &own, given)?;
        }
        if let Some(response) = &message.response {
            let usage = message.usage.unwrap_or_default();
            self.recent_responses.push((response.clone(), usage));
        }
        Ok(())
    }

    /// Writes one line of a message.
    fn message_line(
        &mut self,
        message: &Message,
        part: &Message,
        draft: &Draft,
        given: GivenBlocks<'_>,
    ) -> Result<()> {
        let time = self.next_time(draft.time);
        let terms = draft_usage_members(&draft.members);
        let all = part.usage.unwrap_or_default();
        let known = self.recent_responses.iter().rev();
        let known = known
            .filter(|(id, _)| message.response.as_ref() == Some(id))
            .map(|(_, usage)| *usage)
            .next();
        let added = known.map_or(all, |known| all.excess_over(&known));
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
        let json = match (message.role, &*part.blocks) {
            (
                Role::User | Role::Assistant,
                [
                    Block::ToolResult {
                        call,
                        output,
                        is_error,
                    },
                ],
            ) => {
                // A result is read as a user's.
                let is_reply = message.role == Role::Assistant;
                words.kind = is_reply.then_some(Role::Assistant.as_str());
                let tool = given.tool().or_else(|| self.tool_of(call));
                Some(format!(
                    r#"{{"role":"toolResult","toolCallId":{},"toolName":{},"content":{},"isError":{is_error},"timestamp":{}}}"#,
                    json::quote(call),
                    json::quote(tool.as_deref().unwrap_or("unknown")),
                    content_json(output)?,
                    time.as_millisecond()
                ))
            }
            // The line of the first part has its blocks already.
            (Role::Assistant, _) if self.head.continues_reply => {
                words.kind = Some(Role::Assistant.as_str());
                words.model = message.model.as_deref();
                None
            }
            (Role::Assistant, _) => Some(self.reply_json(message, part, &added, time)?),
            (Role::User, blocks) => Some(format!(
                r#"{{"role":"user","content":{},"timestamp":{}}}"#,
                content_json(blocks)?,
                time.as_millisecond()
            )),
            // The program makes these messages itself.
            (Role::System, _) => {
                words.kind = Some(MESSAGE);
                None
            }
        };
        let (kind, content) = match json {
            Some(json) => (
                MESSAGE,
                ContentOut {
                    message: Some(raw(json)?),
                    ..ContentOut::default()
                },
            ),
            None => ("custom", ContentOut::custom()),
        };
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.last_line.clone());
        let mut line = LineOut {
            kind,
            id: id.as_str(),
            parent: parent.as_ref().map(EntryId::as_str),
            timestamp: format_time(time),
            content,
            annals: self.extension(draft, words),
        };
        let mut read = message_of_line(&mut LineDecoder, &encode(&line)?);
        let is_same = |read: &Option<Message>, given: &Message| {
            read.as_ref()
                .is_some_and(|read| read.role == given.role && read.blocks == given.blocks)
        };
        if given.has_raw() || !is_same(&read, part) {
            line.annals.blocks = Some(raw(given.json()?)?);
            read = message_of_line(&mut LineDecoder, &encode(&line)?);
        }
        if read
            .as_ref()
            .is_some_and(|read| read.usage != part.usage.filter(|usage| !usage.is_zero()))
            || terms.is_some()
        {
            line.annals.usage = Some(usage_json(&all, terms)?);
        }
        // Blank text does not count as written by a person.
        let human = message.human && !is_blank(&part.blocks);
        if read.is_some_and(|read| read.human != human) {
            line.annals.human = Some(human);
        }
        let bytes = encode(&line)?;
        self.push(bytes, id, draft.sidechain, true);
        for block in &part.blocks {
            if let Block::ToolUse { id, name, .. } = block {
                self.open_calls.push((id.clone(), name.clone()));
            }
        }
        Ok(())
    }

    /// Encodes a reply.
    fn reply_json(
        &self,
        message: &Message,
        part: &Message,
        added: &Usage,
        time: Timestamp,
    ) -> Result<String> {
        let known = self.head.model.as_deref();
        let model = message.model.as_deref().or(known);
        let model = model
            .filter(|model| is_model(model))
            .unwrap_or(UNKNOWN_MODEL);
        let (api, provider) = api_of(model);
        let blocks = [&part.blocks[..], &self.head.reply_rest].concat();
        let calls = blocks
            .iter()
            .any(|block| matches!(block, Block::ToolUse { .. }));
        let (stop, error) = match message.stop_reason.as_deref() {
            // The program does not send such a reply again.
            _ if message.api_error => ("error", r#","errorMessage":"""#),
            Some("length" | "max_tokens") => ("length", ""),
            _ if calls => ("toolUse", ""),
            _ => ("stop", ""),
        };
        let written = added.cache_write_5m.saturating_add(added.cache_write_1h);
        let hour = match added.cache_write_1h {
            0 => String::new(),
            tokens => format!(r#""cacheWrite1h":{tokens},"#),
        };
        let total = [added.input, added.output, added.cache_read, written];
        let total = total.into_iter().fold(0, u64::saturating_add);
        Ok(format!(
            r#"{{"role":"assistant","content":{},"api":"{api}","provider":"{provider}","model":{},"usage":{{"input":{},"output":{},"cacheRead":{},"cacheWrite":{written},{hour}"totalTokens":{total},"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}},"stopReason":"{stop}"{error},"timestamp":{}}}"#,
            content_json(&blocks)?,
            json::quote(model),
            added.input,
            added.output,
            added.cache_read,
            time.as_millisecond()
        ))
    }

    /// Writes the summary that follows a compaction: the program sends it instead of all before.
    fn summary(&mut self, message: &Message, draft: &Draft, tokens: u64) -> Result<()> {
        let texts = message.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n\n");
        let id = self.id(draft);
        let mut draft = draft.clone();
        draft.id = Some(id.clone());
        let content = ContentOut {
            summary: Some(&text),
            // Only what follows the summary is sent.
            first_kept: Some(id.as_str()),
            tokens_before: Some(tokens),
            ..ContentOut::default()
        };
        let blocks = match &*message.blocks {
            [Block::Text(_)] if draft.raw_blocks.is_empty() => None,
            blocks => Some(raw(GivenBlocks::new(&draft, blocks, 0).json()?)?),
        };
        let words = ExtensionOut {
            compact: true,
            blocks,
            ..summary_words(message, &draft)?
        };
        self.entry(&draft, "compaction", content, words)
    }

    fn compact(&mut self, summary: &str, tokens: Option<u64>) -> Result<()> {
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
        let message = Message::new(Role::User, vec![Block::Text(summary.to_owned())]);
        let draft = Draft::new(Body::Message(message.clone()));
        self.summary(&message, &draft, tokens.unwrap_or_default())
    }

    /// Creates the log of a sub-agent.
    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            log: Pi.new_agent_log(self.head, &spawn.agent)?,
            leaf: None,
            last_message: None,
            last_line: None,
            writer_state: BTreeMap::new(),
            ..self.head.clone()
        };
        let mut builder = LineBuilder::new(&head, self.stamp);
        builder.header(None)?;
        builder.draft(&Draft::new(Body::Agent {
            kind: Some(spawn.kind.clone()),
            description: Some(spawn.description.clone()),
            call: spawn.call.clone(),
        }))?;
        self.plan = builder.finish();
        Ok(())
    }

    /// Writes a line that is part of the conversation.
    fn entry(
        &mut self,
        draft: &Draft,
        kind: &str,
        content: ContentOut<'_>,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        self.line(draft, kind, content, words, true)
    }

    /// Writes a line about the conversation.
    fn remark(
        &mut self,
        draft: &Draft,
        kind: &str,
        content: ContentOut<'_>,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        self.line(draft, kind, content, words, false)
    }

    fn line(
        &mut self,
        draft: &Draft,
        kind: &str,
        content: ContentOut<'_>,
        words: ExtensionOut<'_>,
        is_entry: bool,
    ) -> Result<()> {
        let time = self.next_time(draft.time);
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.last_line.clone());
        let bytes = encode(&LineOut {
            kind,
            id: id.as_str(),
            parent: parent.as_ref().map(EntryId::as_str),
            timestamp: format_time(time),
            content,
            annals: self.extension(draft, words),
        })?;
        self.push(bytes, id, draft.sidechain, is_entry);
        Ok(())
    }

    fn extension<'w>(&self, draft: &'w Draft, words: ExtensionOut<'w>) -> ExtensionOut<'w> {
        ExtensionOut {
            program: Some(PROGRAM),
            agent: draft.agent.as_ref().map(AgentId::as_str),
            sidechain: draft.sidechain,
            ..words
        }
    }

    fn push(&mut self, line: Vec<u8>, id: EntryId, aside: bool, is_entry: bool) {
        self.lines.push(line);
        self.is_aside = aside;
        if !aside {
            self.last_line = Some(id.clone());
            if is_entry {
                self.plan.leaf = Some(id.clone());
            }
        }
        self.plan.added.push(id);
    }

    /// Ends a side branch with a line of the current one: the program resumes at the last line.
    fn return_to_leaf(&mut self) -> Result<()> {
        if !self.is_aside || self.last_line.is_none() {
            return Ok(());
        }
        let draft = Draft::new(Body::Opaque {
            kind: None,
            flaw: None,
        });
        let content = ContentOut::custom();
        self.remark(&draft, "custom", content, ExtensionOut::default())?;
        self.plan.added.pop();
        Ok(())
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

/// Returns the parts of a message that are lines of their own: each tool result, and what is
/// between them.
fn parts(blocks: &[Block], role: Role) -> Vec<&[Block]> {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    if role == Role::System || !blocks.iter().any(is_result) {
        return vec![blocks];
    }
    let alone = |one: &Block, next: &Block| !is_result(one) && !is_result(next);
    blocks.chunk_by(alone).collect()
}

/// Encodes content. What the program cannot read is left out, and so is reasoning: the program sends
/// that of another model as text.
fn content_json(blocks: &[Block]) -> Result<String> {
    let mut parts = Vec::new();
    for block in blocks {
        let quote = |text: &str| json::quote(text);
        parts.push(match block {
            Block::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
            Block::ToolUse { id, name, input } => format!(
                r#"{{"type":"toolCall","id":{},"name":{},"arguments":{}}}"#,
                quote(id),
                quote(name),
                match one_line(input)? {
                    object if object.starts_with('{') => object,
                    other => format!(r#"{{"input":{other}}}"#),
                }
            ),
            Block::Image { media_type, data } => format!(
                r#"{{"type":"image","data":{},"mimeType":{}}}"#,
                quote(data),
                quote(media_type)
            ),
            Block::Thinking { .. } | Block::ToolResult { .. } | Block::Opaque { .. } => continue,
        });
    }
    Ok(format!("[{}]", parts.join(",")))
}

/// Returns API and provider of a model, as the program names them.
fn api_of(model: &str) -> (&'static str, &'static str) {
    const OPENAI: [&str; 5] = ["gpt-", "o1", "o3", "o4", "codex"];
    if OPENAI.iter().any(|name| model.starts_with(name)) {
        return ("openai-responses", "openai");
    }
    match model.starts_with("gemini") {
        true => ("google-generative-ai", "google"),
        false => (ANTHROPIC, "anthropic"),
    }
}
