//! Writing lines that the program reads back.
//!
//! A call of a tool and a tool's result are records of their own; what else a message says is one
//! record, its content a string where it is one text. Records of one reply name the same response, and
//! one of them says its tokens, so that whoever adds up all records counts them once. What the program
//! has no words for goes into `annals`.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::annex::Words;
use crate::layout::content::{CALL_OF, GivenBlocks, is_client_text, one_line, output_json, raw};
use crate::layout::field::{USAGE, given_terms, milliseconds, spell_time, usage_json};
use crate::layout::shape::{Shape, check_given, check_needed};
use crate::layout::{
    Change, Edit, Enrolled, Graft, Head, NewSession, PROGRAM, Parent, Plan, Row, Spawn, Stamp,
    Writer,
};
use crate::layout::{copied, remark};
use crate::model::{
    About, AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, Members, Message, Role,
    Subject, TitleSource, Todo, Usage,
};

use super::line::{Line, MEMBERS, SESSION_ID, USING, is_known, is_noted, is_number, is_object};
use super::{AGENT, Chorus, Config, enrol, path};

/// The members that every message has in the document.
const NEEDED: &[(&str, Shape)] = &[
    ("uuid", Shape::Name),
    ("content", Shape::Content),
    ("timestamp", Shape::Time),
];

/// The members that a message may have.
const GIVEN: &[(&str, Shape)] = &[
    (SESSION_ID, Shape::Text),
    ("toolName", Shape::Text),
    ("toolInput", Shape::Object),
    ("toolUseId", Shape::Text),
];

/// Refuses a message whose members the program would not take.
fn check_members(record: &str) -> std::result::Result<(), String> {
    check_needed(record, NEEDED)?;
    check_given(record, GIVEN)
}

/// Why the program would not read a message; `None` if it would, or if it is of an unknown type.
pub(super) fn fault(record: &str) -> Option<String> {
    let kind = json::member(record, "type").and_then(json::string)?;
    is_known(&kind)
        .then(|| check_members(record).err())
        .flatten()
}

impl Writer for Chorus {
    fn session(&self, new: &NewSession, stamp: &mut Stamp<'_>) -> Result<Artifact> {
        let beside = new.beside.as_ref().and_then(|log| log.folder.clone());
        let folder = match beside.or_else(|| new.folder.clone()) {
            Some(folder) => folder,
            None if new.cwd.starts_with('/') || new.cwd.contains(":\\") => {
                format!("{}/{AGENT}", path::workspace_id(&new.cwd))
            }
            None => {
                let cwd = &new.cwd;
                return Err(Error::refused(format!("`{cwd}` is not an absolute path")));
            }
        };
        new.members
            .iter()
            .try_for_each(|(name, value)| enrol::check_member(name, value))?;
        placed(Artifact {
            folder: Some(folder),
            session: Some(path::own_name(&new.id, stamp)?),
            ..Artifact::of(ArtifactKind::SessionLog)
        })
    }

    fn agent(&self, head: &Head, agent: &AgentId) -> Result<Artifact> {
        placed(Artifact {
            kind: ArtifactKind::AgentLog,
            agent: Some(agent.clone()),
            ..of_head(head)
        })
    }

    fn fits(&self, _: &Head, record: &str) -> std::result::Result<(), String> {
        let kind = json::member(record, "type").and_then(json::string);
        let kind = kind.unwrap_or_default();
        if !is_known(&kind) {
            return Err(format!(
                "the layout chorus knows no record of the type `{}`",
                kind.escape_debug()
            ));
        }
        check_members(record)
    }

    fn plan(&self, head: &Head, change: &Change, stamp: &mut Stamp<'_>) -> Result<Plan> {
        let mut pen = Pen {
            head,
            stamp,
            lines: Vec::new(),
            remarks: Vec::new(),
            plan: Plan::default(),
            last: head.last.clone(),
            others: HashMap::new(),
            time: head.time,
            calls: head.calls.clone(),
            replies: head.replies.clone(),
        };
        match change {
            // A log without lines is a session all the same: its row in the index says the rest.
            Change::Begin | Change::Fork { .. } => {}
            Change::Append(drafts) => drafts.iter().try_for_each(|draft| pen.draft(draft))?,
            Change::Compact { summary, .. } => pen.compaction(summary)?,
            Change::SetTodos(todos) => pen.todos(todos)?,
            Change::Spawn(spawn) => pen.spawn(spawn)?,
        }
        Ok(pen.finish())
    }

    fn results_name_tools(&self) -> bool {
        true
    }

    fn transplant(&self, record: &[u8], graft: &Graft<'_>) -> Result<Vec<u8>> {
        let unreadable = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let text = String::from_utf8_lossy(record);
        let mended;
        let line: Line<'_> = match serde_json::from_str(&text) {
            Ok(line) => line,
            Err(_) => {
                mended = json::mend(&text);
                serde_json::from_str(&mended).map_err(|_| unreadable())?
            }
        };
        let origin = format!(
            r#"{{"sessionId":{},"messageUuid":{}{}}}"#,
            json::quote(graft.from.as_str()),
            json::quote(graft.id.as_str()),
            copied::time_of_origin(
                "timestamp",
                line.timestamp,
                line.forked_from,
                graft.time.is_some()
            )
        );
        let mut members = vec![("forkedFrom", origin)];
        if line.uuid.filled().is_none() && line.annex.id.filled().is_none() {
            // Its id was that of its place, which is another now.
            members.push(("uuid", json::quote(graft.id.as_str())));
        }
        let time = graft.time.map(|time| json::quote(&spell_time(time)));
        members.extend(time.map(|time| ("timestamp", time)));
        let mut annex = Vec::new();
        // A fork is one chain, in which each record hangs from the one before it. Only a record that
        // names another parent must be told.
        if line.annex.parent.0.is_some() {
            match graft.parent {
                Parent::Entry(parent) => annex.push(("parent", json::quote(parent.as_str()))),
                Parent::None => annex.push(("parent", "null".to_owned())),
                Parent::Keep => {}
            }
        }
        if line.annex.sidechain.0 {
            annex.push(("sidechain", "false".to_owned()));
        }
        if !annex.is_empty() {
            let old = json::member(&text, "annals").ok_or_else(unreadable)?;
            let new = set(old.as_bytes(), &annex).ok_or_else(unreadable)?;
            members.push(("annals", String::from_utf8(new).map_err(|_| unreadable())?));
        }
        set(record, &members).ok_or_else(unreadable)
    }

    fn members(&self) -> &'static [&'static str] {
        MEMBERS
    }

    fn lists_title(&self) -> bool {
        true
    }

    fn session_members(&self) -> &'static [&'static str] {
        enrol::MEMBERS
    }

    fn check_session_member(&self, name: &str, json: &str) -> Result<()> {
        enrol::check_member(name, json)
    }

    fn register(&self, log: &Artifact) -> Option<Artifact> {
        enrol::register(log)
    }

    fn home(&self, told: &[About], directory: &str) -> Option<String> {
        let folder = |about: &'_ About| match &about.subject {
            Subject::Folder(name) => Some(name.clone()),
            Subject::Session(_) => None,
        };
        let mut at = told
            .iter()
            .filter(|about| about.cwd.as_deref() == Some(directory));
        let workspace = at.find_map(folder)?;
        // The program shows the conversations of the agents it knows.
        let below = |name: &String| {
            let agent = name.strip_prefix(&workspace);
            agent.is_some_and(|agent| agent.starts_with('/'))
        };
        let agent = told.iter().filter_map(folder).find(below);
        Some(agent.unwrap_or_else(|| format!("{workspace}/{AGENT}")))
    }

    fn enrol(
        &self,
        register: &Artifact,
        old: Option<&[u8]>,
        rows: &[Row],
        whole: bool,
    ) -> Result<Enrolled> {
        enrol::enrol(register, old, rows, whole)
    }

    fn register_damage(&self, bytes: &[u8]) -> Option<String> {
        Config::damage(bytes)
    }

    fn introduce(&self, old: Option<&[u8]>, rows: &[Row]) -> Option<Vec<u8>> {
        Config::introduce(old, rows)
    }

    fn lists_nothing(&self, register: &Artifact, bytes: &[u8]) -> bool {
        register.folder.is_some() && enrol::lists_nothing(bytes)
    }
}

fn set(object: &[u8], members: &[(&str, String)]) -> Option<Vec<u8>> {
    let members: Vec<(&str, &str)> = members
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    json::set_members(object, &members)
}

/// An artifact that means itself where it lies; any other would be somebody else's file.
fn placed(artifact: Artifact) -> Result<Artifact> {
    let place = path::place(&artifact);
    if path::classify(&place).as_ref() == Some(&artifact) {
        return Ok(artifact);
    }
    Err(Error::refused(format!(
        "a Chorus conversation cannot be kept at `{}`",
        place.display()
    )))
}

/// A file of the session whose log a head is of.
fn of_head(head: &Head) -> Artifact {
    Artifact {
        folder: head.log.folder.clone(),
        session: Some(head.session.clone()),
        agent: head.agent.clone(),
        ..Artifact::of(ArtifactKind::SessionLog)
    }
}

/// A line, members in the program's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    uuid: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    content: Box<RawValue>,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_tool_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claude_message: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_turns: Option<Box<RawValue>>,
    annals: Words<'a>,
}

impl<'a> Written<'a> {
    fn of(kind: &'a str, content: Box<RawValue>) -> Self {
        Written {
            uuid: "",
            kind,
            content,
            timestamp: String::new(),
            session_id: None,
            claude_message: None,
            cost_usd: None,
            duration_ms: None,
            context_window: None,
            num_turns: None,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
            is_tool_error: None,
            input_tokens: None,
            output_tokens: None,
            cache_read_tokens: None,
            cache_creation_tokens: None,
            annals: Words {
                program: Some(PROGRAM),
                ..Words::default()
            },
        }
    }

    /// Sets members that only this layout knows, and refuses values that it could not read back.
    fn set(&mut self, members: &Members) -> Result<()> {
        for (name, json) in members {
            let value = raw(one_line(json)?)?;
            let (slot, sound, wanted) = match name.as_str() {
                SESSION_ID => {
                    let text = json::string(json.trim()).is_some();
                    (&mut self.session_id, text, "a text")
                }
                "claudeMessage" => (&mut self.claude_message, is_object(json), "an object"),
                name => {
                    let slot = match name {
                        "costUsd" => &mut self.cost_usd,
                        "durationMs" => &mut self.duration_ms,
                        "contextWindow" => &mut self.context_window,
                        "numTurns" => &mut self.num_turns,
                        _ => {
                            return Err(Error::refused(format!(
                                "`{name}` has no place in a Chorus message"
                            )));
                        }
                    };
                    (slot, is_number(json), "a number that is not negative")
                }
            };
            if !sound {
                return Err(Error::refused(format!("`{name}` must be {wanted}")));
            }
            if slot.replace(value).is_some() {
                return Err(Error::refused(format!("`{name}` is given twice")));
            }
        }
        Ok(())
    }
}

/// Writes the lines of one change.
struct Pen<'a, 'b> {
    head: &'a Head,
    stamp: &'a mut Stamp<'b>,
    lines: Vec<Vec<u8>>,
    /// Lines for the log of notes.
    remarks: Vec<Vec<u8>>,
    plan: Plan,
    /// The last message so far, which is the next one's parent unless it says otherwise.
    last: Option<EntryId>,
    /// The same for sub-agents whose traffic stands in a log that is not theirs.
    others: HashMap<AgentId, EntryId>,
    /// The time of the newest line so far.
    time: Option<Timestamp>,
    /// The ids and tools of calls that a result may be of.
    calls: Vec<(String, String)>,
    /// The newest responses and their tokens so far.
    replies: Vec<(String, Usage)>,
}

impl Pen<'_, '_> {
    fn finish(mut self) -> Plan {
        // The log goes first: what is derived from it may be behind, never ahead.
        let notes = Artifact {
            kind: ArtifactKind::Notes,
            ..of_head(self.head)
        };
        let mut first = Vec::new();
        for (file, lines) in [(&self.head.log, self.lines), (&notes, self.remarks)] {
            if !lines.is_empty() {
                let path = path::place(file);
                first.push(Edit::Append { path, lines });
            }
        }
        first.append(&mut self.plan.edits);
        self.plan.edits = first;
        self.plan
    }

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Compaction { text } => {
                let mut line = Written::of("system", raw(json::quote(text))?);
                line.annals.kind = Some("compaction");
                line.annals.text = Some(text);
                self.entry(line, draft)
            }
            Body::System { subtype, text } if is_noted(subtype) => {
                self.entry(Written::of(subtype, raw(json::quote(text))?), draft)
            }
            Body::System { subtype, text } => {
                let mut line = Written::of("system", raw(json::quote(text))?);
                line.annals.kind = Some("system");
                line.annals.subtype = Some(subtype);
                line.annals.text = Some(text);
                self.entry(line, draft)
            }
            Body::Agent {
                kind,
                description,
                call,
            } => {
                let shown = description
                    .as_deref()
                    .or(kind.as_deref())
                    .unwrap_or_default();
                let mut line = Written::of("system", raw(json::quote(shown))?);
                line.annals.kind = Some("agent");
                line.annals.subtype = kind.as_deref();
                line.annals.description = description.as_deref();
                line.annals.call = call.as_deref();
                self.entry(line, draft)
            }
            // The index has one title, and a person's is the one to keep.
            Body::Title {
                text,
                source: TitleSource::Custom,
            } => {
                refuse_members(draft)?;
                let text = text.trim();
                if text.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                self.plan.title = Some(text.to_owned());
                Ok(())
            }
            _ => match remark::write(draft, self.stamp)? {
                Some((line, id)) => {
                    refuse_members(draft)?;
                    self.remarks.push(line);
                    self.plan.added.push(id);
                    Ok(())
                }
                None => Err(Error::refused(
                    "this kind of entry cannot be written to a Chorus conversation",
                )),
            },
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        let parts = parts(message);
        let shared = match &message.response {
            // What tells the records of one reply from another's.
            None if parts.len() > 1 && message.role == Role::Assistant => {
                Some(format!("msg_{}", (self.stamp.fresh)().replace('-', "")))
            }
            given => given.clone(),
        };
        let last = parts.len().saturating_sub(1);
        let is_call = |blocks: &&[Block]| matches!(blocks, [Block::ToolUse { .. }]);
        // The program keeps a turn's tokens with what was said, not with its calls.
        let teller = parts
            .iter()
            .position(|blocks| !is_call(blocks))
            .unwrap_or(0);
        let mut first = 0;
        for (at, blocks) in parts.into_iter().enumerate() {
            let given = GivenBlocks::of(draft, blocks, first);
            first += blocks.len();
            let tool = self.tool_answered(given);
            let mut line = line_of(message.role, given)?;
            line.tool_name = line.tool_name.or(tool.as_deref());
            self.describe(message, blocks, draft, &mut line);
            if at == teller {
                self.spent(message, given_terms(&draft.members), &mut line)?;
            }
            line.annals.response = shared.as_deref();
            self.calls
                .extend(blocks.iter().filter_map(|block| match block {
                    Block::ToolUse { id, name, .. } => Some((id.clone(), name.clone())),
                    _ => None,
                }));
            let part = Draft {
                // A given id names the end of the message: that is what the next one hangs from.
                id: draft.id.clone().filter(|_| at == last),
                parent: draft.parent.clone().filter(|_| at == 0),
                time: draft.time.and_then(|time| later(time, at)),
                sidechain: draft.sidechain,
                agent: draft.agent.clone(),
                // What belongs to the reply as a whole stands where its tokens do.
                members: draft
                    .members
                    .iter()
                    .filter(|(name, _)| at == teller && name != USAGE || name == SESSION_ID)
                    .cloned()
                    .collect(),
                ..Draft::new(Body::Opaque {
                    kind: None,
                    flaw: None,
                })
            };
            let parent = match at {
                0 => part.parent.clone().or_else(|| self.leaf()),
                _ => self.plan.added.last().cloned(),
            };
            self.put(line, &part, parent)?;
        }
        if let (Some(response), Some(usage)) = (&message.response, message.usage) {
            let mut all = usage;
            self.replies.retain(|(known, so_far)| {
                let same = known == response;
                if same {
                    all.grow(so_far);
                }
                !same
            });
            self.replies.push((response.clone(), all));
        }
        Ok(())
    }

    /// The tool whose result a record is, if the result names it or its call is known.
    fn tool_answered(&self, given: GivenBlocks<'_>) -> Option<String> {
        let [Block::ToolResult { call, .. }] = given.blocks else {
            return None;
        };
        if let Some(tool) = given.tool() {
            return Some(tool);
        }
        let mut calls = self.calls.iter().rev();
        let made = calls.find(|(id, _)| id == call);
        let tool = made.map(|(_, tool)| tool.as_str());
        let tool = tool.or_else(|| call.strip_prefix(CALL_OF));
        tool.filter(|tool| !tool.is_empty()).map(str::to_owned)
    }

    /// Says the tokens of a message: those that no earlier record of its response has said. What the
    /// response came to so far stands in `annals` where that is more.
    fn spent(&self, message: &Message, terms: Option<&str>, line: &mut Written<'_>) -> Result<()> {
        let Some(usage) = &message.usage else {
            return Ok(());
        };
        let mut known = self.replies.iter();
        let known = known.find(|(known, _)| message.response.as_ref() == Some(known));
        let mut all = *usage;
        if let Some((_, so_far)) = known {
            all.grow(so_far);
        }
        let more = usage.cache_write_1h > 0 || usage.web_searches > 0 || known.is_some();
        let answers = message.role == Role::Assistant;
        let more = more || !answers || terms.is_some();
        line.annals.usage = more.then(|| usage_json(&all, terms)).transpose()?;
        if answers {
            let fresh = known.map_or(all, |(_, so_far)| all.beyond(so_far));
            let written = fresh.cache_write_5m.saturating_add(fresh.cache_write_1h);
            line.input_tokens = Some(fresh.input);
            line.output_tokens = Some(fresh.output);
            line.cache_read_tokens = Some(fresh.cache_read);
            line.cache_creation_tokens = Some(written);
        }
        Ok(())
    }

    /// Says of a message what its blocks do not.
    fn describe<'m>(
        &self,
        message: &'m Message,
        blocks: &[Block],
        draft: &Draft,
        line: &mut Written<'m>,
    ) {
        let words = &mut line.annals;
        words.model = message.model.as_deref();
        words.request = message.request.as_deref();
        words.stop = message.stop_reason.as_deref();
        words.meta = message.meta;
        words.compact = message.compact_summary;
        words.api_error = message.api_error;
        words.spawned = message.spawned.as_ref().map(AgentId::as_str);
        words.stored = message.stored.as_deref();
        let aside =
            draft.sidechain || self.head.agent.is_some() || message.meta || message.compact_summary;
        if line.kind == "user" && !aside {
            let typed = blocks
                .iter()
                .any(|block| matches!(block, Block::Text(text) if !is_client_text(text)));
            let blank = blocks
                .iter()
                .all(|block| matches!(block, Block::Text(text) if text.trim().is_empty()));
            line.annals.human = (typed != message.human && !blank).then_some(message.human);
        }
    }

    fn compaction(&mut self, summary: &str) -> Result<()> {
        if self.leaf().is_none() {
            return Err(Error::refused(
                "there is nothing to compact: the session has no messages",
            ));
        }
        if summary.trim().is_empty() {
            return Err(Error::refused("the summary is empty"));
        }
        let text = "Conversation compacted".to_owned();
        self.draft(&Draft::new(Body::Compaction { text }))?;
        let mut message = Message::new(Role::User, vec![Block::Text(summary.to_owned())]);
        message.compact_summary = true;
        self.draft(&Draft::new(Body::Message(message)))
    }

    fn todos(&mut self, todos: &[Todo]) -> Result<()> {
        let session = &self.head.session;
        let agent = match &self.head.agent {
            Some(agent) => agent.clone(),
            None => AgentId::new(session.as_str())?,
        };
        let file = placed(Artifact {
            kind: ArtifactKind::Todos,
            agent: Some(agent),
            ..of_head(self.head)
        })?;
        let bytes = encode(&todos)?;
        self.plan.edits.push(Edit::Replace {
            path: path::place(&file),
            bytes,
        });
        Ok(())
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        let log = placed(Artifact {
            kind: ArtifactKind::AgentLog,
            agent: Some(spawn.agent.clone()),
            ..of_head(self.head)
        })?;
        let id = (self.stamp.fresh)();
        let mut line = Written::of("system", raw(json::quote(&spawn.description))?);
        line.uuid = &id;
        line.timestamp = spell_time(milliseconds(self.stamp.now));
        line.annals.kind = Some("agent");
        line.annals.subtype = Some(&spawn.kind);
        line.annals.description = Some(&spawn.description);
        line.annals.call = spawn.call.as_deref();
        let lines = vec![encode(&line)?];
        let path = path::place(&log);
        self.plan.edits.push(Edit::Append { path, lines });
        Ok(())
    }

    /// Puts down a line that hangs from the draft's parent or else from the leaf.
    fn entry(&mut self, line: Written<'_>, draft: &Draft) -> Result<()> {
        let parent = draft.parent.clone().or_else(|| self.leaf());
        self.put(line, draft, parent)
    }

    fn put(&mut self, line: Written<'_>, draft: &Draft, parent: Option<EntryId>) -> Result<()> {
        let id = draft
            .id
            .clone()
            .unwrap_or_else(|| EntryId::new(&(self.stamp.fresh)()));
        let head = self.head;
        let opens = head.leaf.is_none() && self.last.is_none() && self.lines.is_empty();
        // What a sub-agent says in the main log hangs from what it said before.
        let other = draft
            .agent
            .as_ref()
            .filter(|agent| draft.sidechain && Some(*agent) != head.agent.as_ref());
        let previous = match other {
            None => self.last.as_ref(),
            Some(agent) => self.others.get(agent),
        };
        let hangs = parent.as_ref() == previous && (other.is_none() || parent.is_some());
        // Its texts may be gone sooner from here on.
        let mut line: Written<'_> = line;
        let words = &mut line.annals;
        let said = words.kind != Some("agent");
        if said && !hangs {
            words.parent = Some(parent.as_ref().map(EntryId::as_str));
        }
        words.sidechain = draft.sidechain && head.agent.is_none();
        words.agent = other.map(AgentId::as_str);
        if opens {
            words.cwd = head.cwd.as_deref();
            words.branch = head.git_branch.as_deref();
            words.version = head.version.as_deref();
        }
        line.set(&draft.members)?;
        line.timestamp = spell_time(self.tick(draft.time));
        line.uuid = id.as_str();
        self.lines.push(encode(&line)?);
        if said {
            match other {
                None => self.last = Some(id.clone()),
                Some(agent) => {
                    self.others.insert(agent.clone(), id.clone());
                }
            }
            if !draft.sidechain || head.agent.is_some() {
                self.plan.leaf = Some(id.clone());
            }
        }
        self.plan.added.push(id);
        Ok(())
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    /// The next line's time: as given, else now, but later than the line before.
    fn tick(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.tick(&mut self.time, given)
    }
}

/// Refuses members of an entry that is no message line: it has no place for them.
fn refuse_members(draft: &Draft) -> Result<()> {
    match draft.members.first() {
        None => Ok(()),
        Some((name, _)) => Err(Error::refused(format!(
            "`{name}` has no place in this kind of entry"
        ))),
    }
}

/// The blocks of each record: a call or a result is one of its own, the rest stays together.
fn parts(message: &Message) -> Vec<&[Block]> {
    let alone = |block: &Block| match message.role {
        Role::Assistant => matches!(block, Block::ToolUse { .. }),
        Role::User => matches!(block, Block::ToolResult { .. }),
        Role::System => false,
    };
    let parts: Vec<&[Block]> = message
        .blocks
        .chunk_by(|a, b| !alone(a) && !alone(b))
        .collect();
    if parts.is_empty() { vec![&[]] } else { parts }
}

fn line_of(role: Role, given: GivenBlocks<'_>) -> Result<Written<'_>> {
    let mut line = match (role, given.blocks) {
        (Role::Assistant, [Block::ToolUse { id, name, input }]) => {
            let shown = json::quote(&format!("{USING}{name}"));
            let mut line = Written::of("tool_use", raw(shown)?);
            line.tool_name = Some(name);
            line.tool_input = Some(raw(one_line(input)?)?);
            line.tool_use_id = Some(id);
            line
        }
        (
            Role::User,
            [
                Block::ToolResult {
                    call,
                    output,
                    is_error,
                },
            ],
        ) => {
            let mut line = Written::of("tool_result", raw(output_json(output)?)?);
            line.tool_use_id = Some(call);
            line.is_tool_error = Some(*is_error);
            line
        }
        (role, [Block::Text(text)]) => Written::of(role.as_str(), raw(json::quote(text))?),
        (role, _) => return Ok(Written::of(role.as_str(), raw(given.json()?)?)),
    };
    line.annals.blocks = given.raw_json()?;
    Ok(line)
}

fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::refused(error.to_string()))
}

/// The time of the line that many lines after one with this time.
fn later(time: Timestamp, lines: usize) -> Option<Timestamp> {
    let after = jiff::SignedDuration::from_millis(lines.try_into().ok()?);
    time.checked_add(after).ok()
}
