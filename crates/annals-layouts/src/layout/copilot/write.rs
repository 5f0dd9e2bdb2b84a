//! Writing: events as the program writes them, and events that it skips.
//!
//! | event | for |
//! |---|---|
//! | `session.start` | the beginning of a session; `forkedFrom` is the session that it was forked from |
//! | `user.message`, `system.message`, `assistant.message` | a message without its results |
//! | `tool.execution_complete` | a result; each one of a message is an event |
//! | `session.compaction_complete` | a summary: the program sends it instead of everything before, with the prompts that it summarises |
//! | `annals.` and one of these types | the same, not sent: errors, and branches that are not resumed |
//! | `annals.compaction`, `annals.system` | entries that the program has no events for |
//! | `annals.note`, `annals.agent` | a note, a tag, a summary (`data` is that of `annotations.rs`); the purpose of a sub-agent |
//!
//! The program sends events in file order, whatever their `parentId`. So a conversation has one branch,
//! and a converted one has its other branches in events that the program skips. If a converted reply has
//! several entries, the event of the first has the blocks of all, and the others are skipped: the program
//! would send each as a reply of its own. The member `annals` of an
//! event has id, parent, tokens and what the format cannot express.
//!
//! The title is `name` in `workspace.yaml`, and a note. If a person has renamed the session in the program
//! since, the note does not count. Todos, and sub-agents that annals writes, are in files of
//! annals (`own_files.rs`).

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{self, Raw, Text, object};
use crate::layout::content::{self, GivenBlocks, one_line, raw};
use crate::layout::derived::{call_block, text_block, thinking_block};
use crate::layout::extension::{Extension, ExtensionOut, summary_words};
use crate::layout::usage_fields::{USAGE_MEMBER, draft_usage_members, format_time, usage_json};
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, Layout as _, NewSession, PROGRAM,
    PlanContext, Spawn, Writer, WriterSpec, annotations, own_files,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, EntryKey, Message, Role,
    SessionId, TitleSource,
};

use super::fold::{self, HIDDEN};
use super::{Copilot, WORKSPACE};

/// Text of a compaction record.
const COMPACTED: &str = "Conversation compacted";

/// Type of the event of a reply.
const REPLY: &str = "assistant.message";

static SPEC: WriterSpec = WriterSpec {
    draft_members: &[USAGE_MEMBER],
    is_linear: true,
    has_whole_replies: true,
    ..WriterSpec::DEFAULT
};

object! {
    struct Event<'a> {
        "type" => kind: Text<'a>,
        "data" => data: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

impl Writer for Copilot {
    fn new_session_log(&self, new: &NewSession, _: &mut PlanContext<'_>) -> Result<Artifact> {
        if !EntryKey::is_canonical_uuid(new.id.as_str()) {
            return Err(Error::refused(format!(
                "Copilot resumes only sessions whose id is a UUID; `{}` is none",
                new.id
            )));
        }
        Ok(super::session_log(new.id.clone()))
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if agent.as_str() == head.session.as_str() {
            return Err(Error::refused("a sub-agent cannot have its session's id"));
        }
        Ok(Artifact {
            session: Some(head.session.clone()),
            agent: Some(agent.clone()),
            framing: fold::AGENT_FRAMING,
            ..Artifact::new(ArtifactKind::AgentLog)
        })
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        if head.log.kind == ArtifactKind::SharedLog && head.agent.is_some() {
            return Err(Error::refused(
                "Copilot writes this sub-agent into the log of its session; `annals append` can add \
                 to the session, or `annals fork` copies the sub-agent",
            ));
        }
        let mut builder = EventBuilder::new(head, stamp);
        match change {
            Change::Begin => builder.begin(None, None)?,
            Change::Fork { from } => builder.begin(Some(from), None)?,
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
        let event: Event<'_> = Raw(Some(record)).parse();
        if event.kind.non_empty().is_none() || event.data.0.is_none() {
            return Err("it has no `type` or no `data`".to_owned());
        }
        match (event.kind.or_empty() == "session.start", head.end > 0) {
            (true, true) => Err("the log already has a `session.start`".to_owned()),
            (false, false) => {
                Err("the first event must be a `session.start`, or Copilot refuses the log".into())
            }
            _ => Ok(()),
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
        let text = std::str::from_utf8(record).map_err(|_| failed())?;
        let record = json::member(text, "record").ok_or_else(failed)?;
        let event: Event<'_> = Raw(Some(record)).parse();
        let id = json::quote(graft.id.as_str());
        let mut words = vec![("id", id.as_str())];
        let parent = match graft.parent {
            ForkParent::Entry(parent) => Some(json::quote(parent.as_str())),
            ForkParent::None => Some("null".to_owned()),
            ForkParent::Keep => None,
        };
        words.extend(parent.as_deref().map(|parent| ("parent", parent)));
        let was_aside = event.annex.aside.0 || event.annex.sidechain.0;
        if was_aside {
            // In the fork this is the main conversation.
            words.extend([
                ("aside", "false"),
                ("sidechain", "false"),
                ("agent", "null"),
            ]);
        }
        let copy = json::set_nested_members(record.as_bytes(), "annals", &words);
        let mut copy = copy.ok_or_else(failed)?;
        let kind = event.kind.or_empty();
        let shown = kind.strip_prefix(HIDDEN).filter(|kind| {
            was_aside && !event.annex.api_error.0 && !matches!(*kind, "compaction" | "system")
        });
        let time = graft.time.map(|time| json::quote(&format_time(time)));
        let shown = shown.map(json::quote);
        let mut members: Vec<(&str, &str)> = Vec::new();
        members.extend(shown.as_deref().map(|kind| ("type", kind)));
        members.extend(time.as_deref().map(|time| ("timestamp", time)));
        if json::member(record, "agentId").is_some() {
            members.push(("agentId", "null"));
        }
        copy = json::set_members(&copy, &members).ok_or_else(failed)?;
        Ok(copy)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

/// An event.
#[derive(Serialize)]
struct EventOut<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    data: Box<RawValue>,
    id: String,
    timestamp: String,
    #[serde(rename = "parentId")]
    parent: Option<String>,
    annals: ExtensionOut<'a>,
}

/// A part of a message that is an event of its own.
struct Part<'a> {
    blocks: &'a [Block],
    kind: &'static str,
    /// JSON of its data.
    data: String,
    /// Whether the event alone gives these blocks.
    is_exact: bool,
}

/// Encodes the events of one change.
struct EventBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    plan: EditPlan,
    /// Id of the event before, as far as known.
    before: Option<String>,
    /// Time of the newest event so far.
    time: Option<Timestamp>,
}

impl<'a, 'b> EventBuilder<'a, 'b> {
    fn new(head: &'a AppendState, stamp: &'a mut PlanContext<'b>) -> Self {
        EventBuilder {
            head,
            stamp,
            lines: Vec::new(),
            plan: EditPlan::default(),
            before: head.leaf.as_ref().map(event_id),
            time: head.time,
        }
    }

    fn finish(mut self) -> EditPlan {
        if !self.lines.is_empty() {
            let lines = std::mem::take(&mut self.lines);
            let path = Copilot.path_for(&self.head.log);
            self.plan.edits.insert(0, Edit::Append { path, lines });
        }
        self.plan
    }

    /// Writes the first event, and the state of a session.
    fn begin(&mut self, forked_from: Option<&SessionId>, spawn: Option<&Spawn>) -> Result<()> {
        let head = self.head;
        let time = self.next_time(None);
        let session = head.log.session.as_ref().unwrap_or(&head.session);
        let session = json::quote(session.as_str());
        let cwd = json::quote(head.cwd.as_deref().unwrap_or("/"));
        let now = json::quote(&format_time(time));
        let branch = head.git_branch.as_deref();
        let branch = branch.map(|branch| format!(r#","branch":{}"#, json::quote(branch)));
        let from =
            forked_from.map(|from| format!(r#","forkedFrom":{}"#, json::quote(from.as_str())));
        let data = format!(
            r#"{{"sessionId":{session},"version":1,"producer":"{PROGRAM}","copilotVersion":"{}","startTime":{now},"context":{{"cwd":{cwd}{}}}{}}}"#,
            env!("CARGO_PKG_VERSION"),
            branch.unwrap_or_default(),
            from.unwrap_or_default(),
        );
        let words = ExtensionOut {
            kind: spawn.map(|_| "agent"),
            subtype: spawn.map(|spawn| spawn.kind.as_str()),
            description: spawn.map(|spawn| spawn.description.as_str()),
            call: spawn.and_then(|spawn| spawn.call.as_deref()),
            version: head.version.as_deref(),
            ..ExtensionOut::default()
        };
        self.event(time, "session.start", data, words)?;
        if spawn.is_none() {
            self.set_workspace(Vec::new(), time);
        }
        Ok(())
    }

    /// Sets members of `workspace.yaml`.
    fn set_workspace(&mut self, members: Vec<(String, String)>, time: Timestamp) {
        let head = self.head;
        let session = head.log.session.as_ref().unwrap_or(&head.session);
        let text = |text: &str| json::quote(text);
        let defaults = [
            ("id", text(session.as_str())),
            ("cwd", text(head.cwd.as_deref().unwrap_or("/"))),
            ("user_named", "false".to_owned()),
            ("summary_count", "0".to_owned()),
            ("fork_count", "0".to_owned()),
            ("created_at", format_time(time)),
            ("updated_at", format_time(time)),
        ];
        let defaults = defaults.into_iter();
        self.plan.edits.push(Edit::SetScalars {
            path: Copilot.path_for(&Artifact {
                session: Some(session.clone()),
                ..Artifact::new(WORKSPACE)
            }),
            members,
            defaults: defaults
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        });
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
                self.entry(draft, "annals.compaction", "{}".to_owned(), words)
            }
            Body::System { subtype, text } => {
                let words = ExtensionOut {
                    kind: Some("system"),
                    subtype: Some(subtype),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, "annals.system", "{}".to_owned(), words)
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
                self.event(time, "annals.agent", "{}".to_owned(), words)
            }
            Body::Title { text, source }
                if *source == TitleSource::Custom && self.head.agent.is_none() =>
            {
                let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if name.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                let time = draft.time.unwrap_or(self.stamp.now);
                let members = [("name", json::quote(&name)), ("user_named", "true".into())];
                let members = members.into_iter();
                let members = members.map(|(name, value)| (name.to_owned(), value));
                self.set_workspace(members.collect(), time);
                let source = *source;
                let mut own = draft.clone();
                own.body = Body::Title { text: name, source };
                self.note(&own)
            }
            _ => self.note(draft),
        }
    }

    /// Writes a note, a tag, a title or a summary.
    fn note(&mut self, draft: &Draft) -> Result<()> {
        let Some((note, id)) = annotations::encode(draft, self.stamp)? else {
            return Err(Error::refused(
                "this kind of entry cannot be written to a Copilot session",
            ));
        };
        let note = String::from_utf8(note);
        let note = note.map_err(|error| Error::refused(error.to_string()))?;
        let time = self.next_time(draft.time);
        let words = ExtensionOut {
            id: Some(id.as_str()),
            ..ExtensionOut::default()
        };
        self.event(time, "annals.note", note, words)?;
        self.plan.added.push(id);
        Ok(())
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let parts = parts(message, &self.head.reply_rest)?;
        let last = parts.len().saturating_sub(1);
        let terms = draft_usage_members(&draft.members);
        let usage = message.usage.as_ref();
        let usage = usage.map(|usage| usage_json(usage, terms)).transpose()?;
        let mut usage = usage.filter(|_| message.role == Role::Assistant);
        let mut first = 0;
        for (at, part) in parts.into_iter().enumerate() {
            let given = GivenBlocks::new(draft, part.blocks, first);
            first += part.blocks.len();
            // A given id names the last event of the message, which is the parent of the next.
            let mut own = draft.clone();
            own.id = draft.id.clone().filter(|_| at == last);
            if at > 0 {
                own.parent = None;
            }
            let blocks = match given.has_raw() || !part.is_exact {
                true => Some(raw(given.json()?)?),
                false => None,
            };
            // A result is read as a user's.
            let is_result = matches!(part.blocks, [Block::ToolResult { .. }]);
            let is_reply = message.role == Role::Assistant && is_result;
            let words = ExtensionOut {
                kind: is_reply.then_some(Role::Assistant.as_str()),
                blocks,
                usage: usage.take(),
                model: message.model.as_deref(),
                response: message.response.as_deref(),
                request: message.request.as_deref(),
                stop: message.stop_reason.as_deref(),
                human: (message.role == Role::User)
                    .then_some(message.human && !is_result && !is_blank(part.blocks)),
                meta: message.meta,
                api_error: message.api_error,
                spawned: message.spawned.as_ref().map(AgentId::as_str),
                stored: message.stored.as_deref(),
                ..ExtensionOut::default()
            };
            let hidden = format!("{HIDDEN}{}", part.kind);
            // The event of the first part has its blocks already.
            let is_sent = self.head.continues_reply && part.kind == REPLY;
            let kind = match message.api_error || is_sent {
                true => &hidden,
                false => part.kind,
            };
            self.entry(&own, kind, part.data, words)?;
        }
        Ok(())
    }

    /// Writes the summary that follows a compaction: the program sends it instead of all before.
    fn summary(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let text = json::quote(&texts(&message.blocks));
        let data = format!(r#"{{"success":true,"summaryContent":{text}}}"#);
        let blocks = match &*message.blocks {
            [Block::Text(text)] if draft.raw_blocks.is_empty() && !text.is_empty() => None,
            blocks => Some(raw(GivenBlocks::new(draft, blocks, 0).json()?)?),
        };
        let words = ExtensionOut {
            compact: true,
            blocks,
            ..summary_words(message, draft)?
        };
        self.entry(draft, "session.compaction_complete", data, words)
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
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            log: Copilot.new_agent_log(self.head, &spawn.agent)?,
            leaf: None,
            last_message: None,
            ..self.head.clone()
        };
        let mut builder = EventBuilder::new(&head, self.stamp);
        builder.begin(None, Some(spawn))?;
        self.plan = builder.finish();
        Ok(())
    }

    /// Writes an event that is part of the conversation.
    fn entry(
        &mut self,
        draft: &Draft,
        kind: &str,
        data: String,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        let leaf = self.leaf();
        if let Some(parent) = &draft.parent
            && leaf.as_ref() != Some(parent)
        {
            return Err(Error::refused(format!(
                "a Copilot session has no branches, and `{parent}` is not its last message; \
                 `annals fork` makes a session of the messages up to there"
            )));
        }
        let id = draft.id.clone();
        let id = id.unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()));
        let is_aside = self.head.is_aside || draft.sidechain;
        let hidden = format!("{HIDDEN}{kind}");
        let kind = match is_aside && !kind.starts_with(HIDDEN) {
            true => &hidden,
            false => kind,
        };
        let words = ExtensionOut {
            id: Some(id.as_str()),
            parent: Some(leaf.as_ref().map(EntryId::as_str)),
            agent: draft.agent.as_ref().map(AgentId::as_str),
            sidechain: draft.sidechain,
            aside: is_aside,
            ..words
        };
        let time = self.next_time(draft.time);
        self.event(time, kind, data, words)?;
        self.plan.leaf = Some(id.clone());
        self.plan.added.push(id);
        Ok(())
    }

    fn event(
        &mut self,
        time: Timestamp,
        kind: &str,
        mut data: String,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        let id = match words.id {
            Some(id) => event_id(&EntryId::new(id)),
            None => (self.stamp.new_id)(),
        };
        if kind.ends_with(REPLY) {
            data.insert_str(1, &format!(r#""messageId":"{id}","#));
        }
        let event = EventOut {
            kind,
            data: raw(data)?,
            id: id.clone(),
            timestamp: format_time(time),
            parent: self.before.replace(id),
            annals: ExtensionOut {
                program: Some(PROGRAM),
                ..words
            },
        };
        let bytes =
            serde_json::to_vec(&event).map_err(|error| Error::refused(error.to_string()))?;
        self.lines.push(bytes);
        Ok(())
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.next_time(&mut self.time, given)
    }
}

/// Returns the id of the event of an entry: the program's are UUIDs.
fn event_id(id: &EntryId) -> String {
    Copilot.valid_id(id.as_str())
}

/// Splits a message into the events that the program has for it.
fn parts<'a>(message: &'a Message, rest: &[Block]) -> Result<Vec<Part<'a>>> {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    let joined = |one: &Block, next: &Block| !is_result(one) && !is_result(next);
    let mut parts = Vec::new();
    for blocks in message.blocks.chunk_by(joined) {
        parts.push(match blocks {
            [
                Block::ToolResult {
                    call,
                    output,
                    is_error,
                },
            ] => result(blocks, call, output, *is_error),
            _ => speech(message, blocks, rest)?,
        });
    }
    if parts.is_empty() {
        parts.push(speech(message, &message.blocks, rest)?);
    }
    Ok(parts)
}

fn result<'a>(blocks: &'a [Block], call: &str, output: &[Block], is_error: bool) -> Part<'a> {
    let (call, text) = (json::quote(call), json::quote(&texts(output)));
    let outcome = match is_error {
        true => format!(r#""success":false,"error":{{"message":{text},"code":"failure"}}"#),
        false => format!(r#""success":true,"result":{{"content":{text}}}"#),
    };
    Part {
        blocks,
        kind: "tool.execution_complete",
        data: format!(r#"{{"toolCallId":{call},{outcome}}}"#),
        is_exact: matches!(output, [Block::Text(_)]),
    }
}

/// Encodes texts, reasoning and calls. `rest` is that of a reply in later entries.
fn speech<'a>(message: &Message, blocks: &'a [Block], rest: &[Block]) -> Result<Part<'a>> {
    let rest = rest.iter().filter(|_| message.role == Role::Assistant);
    let sent: Vec<Block> = blocks.iter().chain(rest).cloned().collect();
    let text = texts(&sent);
    let content = json::quote(&text);
    let mut read: Vec<String> = Vec::new();
    let (kind, data) = match message.role {
        Role::User => {
            let source = match message.human {
                true => "",
                false => r#","source":"system""#,
            };
            (
                "user.message",
                format!(r#"{{"content":{content}{source}}}"#),
            )
        }
        Role::System => (
            "system.message",
            format!(r#"{{"role":"system","content":{content}}}"#),
        ),
        Role::Assistant => {
            let thoughts = sent.iter().filter_map(|block| match block {
                Block::Thinking { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let thoughts = thoughts.collect::<Vec<_>>().join("\n\n");
            let mut calls = Vec::new();
            if !thoughts.is_empty() {
                read.push(thinking_block(&thoughts));
            }
            read.extend((!text.is_empty()).then(|| text_block(&text)));
            for block in &sent {
                if let Block::ToolUse { id, name, input } = block {
                    let input = Some(one_line(input)?).filter(|input| input.starts_with('{'));
                    let input = input.unwrap_or_else(|| "{}".to_owned());
                    read.push(call_block(id, name, Raw(Some(&input))));
                    calls.push(format!(
                        r#"{{"toolCallId":{},"name":{},"arguments":{input},"type":"function"}}"#,
                        json::quote(id),
                        json::quote(name)
                    ));
                }
            }
            let mut data = format!(
                r#"{{"content":{content},"toolRequests":[{}]"#,
                calls.join(",")
            );
            if let Some(model) = &message.model {
                data.push_str(&format!(r#","model":{}"#, json::quote(model)));
            }
            if !thoughts.is_empty() {
                data.push_str(&format!(r#","reasoningText":{}"#, json::quote(&thoughts)));
            }
            data.push('}');
            let read = format!("[{}]", read.join(","));
            return Ok(Part {
                blocks,
                kind: REPLY,
                data,
                is_exact: *blocks == *content::blocks(Raw(Some(&read))),
            });
        }
    };
    let is_text = matches!(blocks, [Block::Text(text)] if !text.is_empty());
    Ok(Part {
        blocks,
        kind,
        data,
        is_exact: is_text || blocks.is_empty(),
    })
}

fn is_blank(blocks: &[Block]) -> bool {
    let blank = |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
    blocks.iter().all(blank)
}

/// Returns the texts of blocks, one paragraph each.
fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}
