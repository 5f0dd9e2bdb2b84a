//! Writing lines that the program reads back.
//!
//! Each tool call and tool result is a separate record. The rest of a message is one record, whose
//! content is a string if it is a single text. Records of one reply name the same response and one
//! of them has its tokens, so that adding up all records counts them once. What the program's
//! format cannot express goes into `annals`.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, UNNAMED_CALL_PREFIX, is_client_text, raw};
use crate::layout::member_type::{MemberType, check_optional, check_required};
use crate::layout::usage_fields::{
    USAGE_MEMBER, draft_usage_members, format_time, truncate_to_millis, usage_json,
};
use crate::layout::write::encode;
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, ListUpdate, NewSession, PlanContext,
    RowUpdate, SessionListWriter, Spawn, Writer, WriterSpec,
};
use crate::layout::{annotations, fork_origin};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, ListRow, ListSubject, Message,
    Role, TitleSource, Todo, Usage,
};

use super::line::{Line, MEMBERS, SESSION_ID, is_known, is_note};
use super::output::LineOut;
use super::{Chorus, Config, OWN_AGENT, path, session_list};

/// Required members of messages in the design document.
const REQUIRED_MEMBERS: &[(&str, MemberType)] = &[
    ("uuid", MemberType::Name),
    ("content", MemberType::Content),
    ("timestamp", MemberType::Time),
];

/// Optional members of messages.
const OPTIONAL_MEMBERS: &[(&str, MemberType)] = &[
    (SESSION_ID, MemberType::Text),
    ("toolName", MemberType::Text),
    ("toolInput", MemberType::Object),
    ("toolUseId", MemberType::Text),
];

/// Rejects a message whose members the program would not accept.
fn check_members(record: &str) -> std::result::Result<(), String> {
    check_required(record, REQUIRED_MEMBERS)?;
    check_optional(record, OPTIONAL_MEMBERS)
}

/// Describes why the program would reject a message; `None` if it would not, or if the type is
/// unknown.
pub(super) fn fault(record: &str) -> Option<String> {
    let kind = json::member(record, "type").and_then(json::decode_string)?;
    is_known(&kind)
        .then(|| check_members(record).err())
        .flatten()
}

static SPEC: WriterSpec = WriterSpec {
    draft_members: MEMBERS,
    cost_member: Some("costUsd"),
    session_members: session_list::MEMBERS,
    title_in_session_list: true,
    results_name_tools: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Chorus {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        let beside = new.copied_from.as_ref().and_then(|log| log.folder.clone());
        let folder = match beside.or_else(|| new.folder.clone()) {
            Some(folder) => folder,
            None if new.cwd.starts_with('/') || new.cwd.contains(":\\") => {
                format!("{}/{OWN_AGENT}", path::workspace_id(&new.cwd))
            }
            None => {
                let cwd = &new.cwd;
                return Err(Error::refused(format!("`{cwd}` is not an absolute path")));
            }
        };
        new.members
            .iter()
            .try_for_each(|(name, value)| session_list::check_member(name, value))?;
        check_path(Artifact {
            folder: Some(folder),
            session: Some(path::new_session_id(&new.id, stamp)?),
            ..Artifact::new(ArtifactKind::SessionLog)
        })
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        check_path(Artifact {
            kind: ArtifactKind::AgentLog,
            agent: Some(agent.clone()),
            ..session_artifact(head)
        })
    }

    fn check_record(&self, _: &AppendState, record: &str) -> std::result::Result<(), String> {
        let kind = json::member(record, "type").and_then(json::decode_string);
        let kind = kind.unwrap_or_default();
        if !is_known(&kind) {
            return Err(format!(
                "the chorus layout has no record type `{}`",
                kind.escape_debug()
            ));
        }
        check_members(record)
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        let mut pen = RecordBuilder {
            head,
            stamp,
            lines: Vec::new(),
            notes: Vec::new(),
            plan: EditPlan::default(),
            last_message: head.last_message.clone(),
            last_by_agent: HashMap::new(),
            time: head.time,
            calls: head.open_calls.clone(),
            recent_responses: head.recent_responses.clone(),
        };
        match change {
            // A log without lines is a session nonetheless: its row in the session list has the
            // rest.
            Change::Begin | Change::Fork { .. } => {}
            Change::Append(drafts) => drafts.iter().try_for_each(|draft| pen.draft(draft))?,
            Change::Compact { summary, .. } => pen.compaction(summary)?,
            Change::SetTodos(todos) => pen.todos(todos)?,
            Change::Spawn(spawn) => pen.spawn(spawn)?,
        }
        Ok(pen.finish())
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        let unreadable = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let text = String::from_utf8_lossy(record);
        let mended;
        let line: Line<'_> = match serde_json::from_str(&text) {
            Ok(line) => line,
            Err(_) => {
                mended = json::sanitize(&text);
                serde_json::from_str(&mended).map_err(|_| unreadable())?
            }
        };
        let origin = format!(
            r#"{{"sessionId":{},"messageUuid":{}{}}}"#,
            json::quote(graft.from.as_str()),
            json::quote(graft.id.as_str()),
            fork_origin::origin_time_member(
                "timestamp",
                line.timestamp,
                line.forked_from,
                graft.time.is_some()
            )
        );
        let mut members = vec![("forkedFrom", origin)];
        if line.uuid.non_empty().is_none() && line.annex.id.non_empty().is_none() {
            // Its id was its offset, which changes in the copy.
            members.push(("uuid", json::quote(graft.id.as_str())));
        }
        let time = graft.time.map(|time| json::quote(&format_time(time)));
        members.extend(time.map(|time| ("timestamp", time)));
        let mut annex = Vec::new();
        // A fork is one chain, in which the parent of each record is the one before it. Only a
        // record that names its parent must be changed.
        if line.annex.parent.0.is_some() {
            match graft.parent {
                ForkParent::Entry(parent) => annex.push(("parent", json::quote(parent.as_str()))),
                ForkParent::None => annex.push(("parent", "null".to_owned())),
                ForkParent::Keep => {}
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

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }

    fn session_lists(&self) -> Option<&dyn SessionListWriter> {
        Some(self)
    }
}

impl SessionListWriter for Chorus {
    fn check_session_member(&self, name: &str, json: &str) -> Result<()> {
        session_list::check_member(name, json)
    }

    fn session_list(&self, log: &Artifact) -> Option<Artifact> {
        session_list::session_list(log)
    }

    fn default_folder(&self, rows: &[ListRow], directory: &str) -> Option<String> {
        let folder = |about: &'_ ListRow| match &about.subject {
            ListSubject::Folder(name) => Some(name.clone()),
            ListSubject::Session(_) => None,
        };
        let mut at = rows
            .iter()
            .filter(|about| about.cwd.as_deref() == Some(directory));
        let workspace = at.find_map(folder)?;
        // The program shows only conversations of agents in its configuration.
        let below = |name: &String| {
            let agent = name.strip_prefix(&workspace);
            agent.is_some_and(|agent| agent.starts_with('/'))
        };
        let agent = rows.iter().filter_map(folder).find(below);
        Some(agent.unwrap_or_else(|| format!("{workspace}/{OWN_AGENT}")))
    }

    fn update_session_list(
        &self,
        session_list: &Artifact,
        old: Option<&[u8]>,
        rows: &[RowUpdate],
        whole: bool,
    ) -> Result<ListUpdate> {
        session_list::update(session_list, old, rows, whole)
    }

    fn config_fault(&self, bytes: &[u8]) -> Option<String> {
        Config::damage(bytes)
    }

    fn register_folders(&self, old: Option<&[u8]>, rows: &[RowUpdate]) -> Option<Vec<u8>> {
        Config::register_folders(old, rows)
    }

    fn is_session_list_empty(&self, session_list: &Artifact, bytes: &[u8]) -> bool {
        session_list.folder.is_some() && session_list::is_empty(bytes)
    }
}

fn set(object: &[u8], members: &[(&str, String)]) -> Option<Vec<u8>> {
    let members: Vec<(&str, &str)> = members
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    json::set_members(object, &members)
}

/// Returns the artifact if its path classifies as the same artifact. Otherwise the path would be
/// another file's.
fn check_path(artifact: Artifact) -> Result<Artifact> {
    let place = path::path_for(&artifact);
    if path::classify(&place).as_ref() == Some(&artifact) {
        return Ok(artifact);
    }
    Err(Error::refused(format!(
        "a Chorus conversation cannot be stored at `{}`",
        place.display()
    )))
}

/// Returns an artifact of the session that owns the log of `head`.
fn session_artifact(head: &AppendState) -> Artifact {
    Artifact {
        folder: head.log.folder.clone(),
        session: Some(head.session.clone()),
        agent: head.agent.clone(),
        ..Artifact::new(ArtifactKind::SessionLog)
    }
}

/// Encodes the lines of one change.
struct RecordBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    /// Lines for the notes log.
    notes: Vec<Vec<u8>>,
    plan: EditPlan,
    /// The last message so far, which is the parent of the next unless that names another.
    last_message: Option<EntryId>,
    /// The same per sub-agent, for sidechain messages in another agent's log.
    last_by_agent: HashMap<AgentId, EntryId>,
    /// Time of the newest line so far.
    time: Option<Timestamp>,
    /// Ids and tools of calls that a result may answer.
    calls: Vec<(String, String)>,
    /// Ids and usage of the newest responses so far.
    recent_responses: Vec<(String, Usage)>,
}

impl RecordBuilder<'_, '_> {
    fn finish(mut self) -> EditPlan {
        // The log goes first: files derived from it may be behind, never ahead.
        let notes = Artifact {
            kind: ArtifactKind::Notes,
            ..session_artifact(self.head)
        };
        let mut first = Vec::new();
        for (file, lines) in [(&self.head.log, self.lines), (&notes, self.notes)] {
            if !lines.is_empty() {
                let path = path::path_for(file);
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
                let mut line = LineOut::new("system", raw(json::quote(text))?);
                line.annals.kind = Some("compaction");
                line.annals.text = Some(text);
                self.push_entry(line, draft)
            }
            Body::System { subtype, text } if is_note(subtype) => {
                self.push_entry(LineOut::new(subtype, raw(json::quote(text))?), draft)
            }
            Body::System { subtype, text } => {
                let mut line = LineOut::new("system", raw(json::quote(text))?);
                line.annals.kind = Some("system");
                line.annals.subtype = Some(subtype);
                line.annals.text = Some(text);
                self.push_entry(line, draft)
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
                let mut line = LineOut::new("system", raw(json::quote(shown))?);
                line.annals.kind = Some("agent");
                line.annals.subtype = kind.as_deref();
                line.annals.description = description.as_deref();
                line.annals.call = call.as_deref();
                self.push_entry(line, draft)
            }
            // The session list has one title, and a person's takes precedence.
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
            _ => match annotations::encode(draft, self.stamp)? {
                Some((line, id)) => {
                    refuse_members(draft)?;
                    self.notes.push(line);
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
        let parts = split_blocks(message);
        let shared = match &message.response {
            // An id that the records of this reply share.
            None if parts.len() > 1 && message.role == Role::Assistant => {
                Some(format!("msg_{}", (self.stamp.new_id)().replace('-', "")))
            }
            given => given.clone(),
        };
        let last = parts.len().saturating_sub(1);
        let is_call = |blocks: &&[Block]| matches!(blocks, [Block::ToolUse { .. }]);
        // The program stores a turn's tokens with its text, not with its calls.
        let teller = parts
            .iter()
            .position(|blocks| !is_call(blocks))
            .unwrap_or(0);
        let mut first = 0;
        for (at, blocks) in parts.into_iter().enumerate() {
            let given = GivenBlocks::new(draft, blocks, first);
            first += blocks.len();
            let tool = self.answered_tool(given);
            let mut line = LineOut::for_blocks(message.role, given)?;
            line.tool_name = line.tool_name.or(tool.as_deref());
            self.describe(message, blocks, draft, &mut line);
            if at == teller {
                self.set_usage(message, draft_usage_members(&draft.members), &mut line)?;
            }
            line.annals.response = shared.as_deref();
            self.calls
                .extend(blocks.iter().filter_map(|block| match block {
                    Block::ToolUse { id, name, .. } => Some((id.clone(), name.clone())),
                    _ => None,
                }));
            let part = Draft {
                // A given id names the last record of the message, which is the parent of the next.
                id: draft.id.clone().filter(|_| at == last),
                parent: draft.parent.clone().filter(|_| at == 0),
                time: draft.time.and_then(|time| record_time(time, at)),
                sidechain: draft.sidechain,
                agent: draft.agent.clone(),
                // Members of the whole reply go to the record with its tokens.
                members: draft
                    .members
                    .iter()
                    .filter(|(name, _)| at == teller && name != USAGE_MEMBER || name == SESSION_ID)
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
            self.push_line(line, &part, parent)?;
        }
        if let (Some(response), Some(usage)) = (&message.response, message.usage) {
            let mut all = usage;
            self.recent_responses.retain(|(known, so_far)| {
                let same = known == response;
                if same {
                    all.max_each(so_far);
                }
                !same
            });
            self.recent_responses.push((response.clone(), all));
        }
        Ok(())
    }

    /// Returns the tool of a result record, if the result names it or its call is known.
    fn answered_tool(&self, given: GivenBlocks<'_>) -> Option<String> {
        let [Block::ToolResult { call, .. }] = given.blocks else {
            return None;
        };
        if let Some(tool) = given.tool() {
            return Some(tool);
        }
        let mut calls = self.calls.iter().rev();
        let made = calls.find(|(id, _)| id == call);
        let tool = made.map(|(_, tool)| tool.as_str());
        let tool = tool.or_else(|| call.strip_prefix(UNNAMED_CALL_PREFIX));
        tool.filter(|tool| !tool.is_empty()).map(str::to_owned)
    }

    /// Sets the usage of a message, minus what earlier records of its response already have. If
    /// that differs from the response's total so far, `annals` has the total.
    fn set_usage(
        &self,
        message: &Message,
        terms: Option<&str>,
        line: &mut LineOut<'_>,
    ) -> Result<()> {
        let Some(usage) = &message.usage else {
            return Ok(());
        };
        let mut known = self.recent_responses.iter();
        let known = known.find(|(known, _)| message.response.as_ref() == Some(known));
        let mut all = *usage;
        if let Some((_, so_far)) = known {
            all.max_each(so_far);
        }
        let more = usage.cache_write_1h > 0 || usage.web_searches > 0 || known.is_some();
        let answers = message.role == Role::Assistant;
        let more = more || !answers || terms.is_some();
        line.annals.usage = more.then(|| usage_json(&all, terms)).transpose()?;
        if answers {
            let fresh = known.map_or(all, |(_, so_far)| all.excess_over(so_far));
            let written = fresh.cache_write_5m.saturating_add(fresh.cache_write_1h);
            line.input_tokens = Some(fresh.input);
            line.output_tokens = Some(fresh.output);
            line.cache_read_tokens = Some(fresh.cache_read);
            line.cache_creation_tokens = Some(written);
        }
        Ok(())
    }

    /// Sets the attributes of a message that its blocks do not contain.
    fn describe<'m>(
        &self,
        message: &'m Message,
        blocks: &[Block],
        draft: &Draft,
        line: &mut LineOut<'m>,
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
        let file = check_path(Artifact {
            kind: ArtifactKind::Todos,
            agent: Some(agent),
            ..session_artifact(self.head)
        })?;
        let bytes = encode(&todos)?;
        self.plan.edits.push(Edit::Replace {
            path: path::path_for(&file),
            bytes,
        });
        Ok(())
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        let log = check_path(Artifact {
            kind: ArtifactKind::AgentLog,
            agent: Some(spawn.agent.clone()),
            ..session_artifact(self.head)
        })?;
        let id = (self.stamp.new_id)();
        let mut line = LineOut::new("system", raw(json::quote(&spawn.description))?);
        line.uuid = &id;
        line.timestamp = format_time(truncate_to_millis(self.stamp.now));
        line.annals.kind = Some("agent");
        line.annals.subtype = Some(&spawn.kind);
        line.annals.description = Some(&spawn.description);
        line.annals.call = spawn.call.as_deref();
        let lines = vec![encode(&line)?];
        let path = path::path_for(&log);
        self.plan.edits.push(Edit::Append { path, lines });
        Ok(())
    }

    /// Adds a line whose parent is that of the draft, or else the leaf.
    fn push_entry(&mut self, line: LineOut<'_>, draft: &Draft) -> Result<()> {
        let parent = draft.parent.clone().or_else(|| self.leaf());
        self.push_line(line, draft, parent)
    }

    fn push_line(
        &mut self,
        line: LineOut<'_>,
        draft: &Draft,
        parent: Option<EntryId>,
    ) -> Result<()> {
        let id = draft
            .id
            .clone()
            .unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()));
        let head = self.head;
        let opens = head.leaf.is_none() && self.last_message.is_none() && self.lines.is_empty();
        // The implicit parent of a sub-agent's message in the main log is that sub-agent's last
        // message.
        let other = draft
            .agent
            .as_ref()
            .filter(|agent| draft.sidechain && Some(*agent) != head.agent.as_ref());
        let previous = match other {
            None => self.last_message.as_ref(),
            Some(agent) => self.last_by_agent.get(agent),
        };
        let is_implied = parent.as_ref() == previous && (other.is_none() || parent.is_some());
        // Shortens the lifetime, so that the line can borrow locals.
        let mut line: LineOut<'_> = line;
        let words = &mut line.annals;
        let said = words.kind != Some("agent");
        if said && !is_implied {
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
        line.timestamp = format_time(self.next_time(draft.time));
        line.uuid = id.as_str();
        self.lines.push(encode(&line)?);
        if said {
            match other {
                None => self.last_message = Some(id.clone()),
                Some(agent) => {
                    self.last_by_agent.insert(agent.clone(), id.clone());
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

    /// Returns the time of the next line: as given, or else now, but later than the previous line.
    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.next_time(&mut self.time, given)
    }
}

/// Rejects members of an entry that is not a message line and cannot store them.
fn refuse_members(draft: &Draft) -> Result<()> {
    match draft.members.first() {
        None => Ok(()),
        Some((name, _)) => Err(Error::refused(format!(
            "this kind of entry has no member `{name}`"
        ))),
    }
}

/// Returns the blocks of each record: calls and results are alone, the others stay together.
fn split_blocks(message: &Message) -> Vec<&[Block]> {
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

/// Returns the time of the line `lines` lines after one with this time.
fn record_time(time: Timestamp, lines: usize) -> Option<Timestamp> {
    let after = jiff::SignedDuration::from_millis(lines.try_into().ok()?);
    time.checked_add(after).ok()
}
