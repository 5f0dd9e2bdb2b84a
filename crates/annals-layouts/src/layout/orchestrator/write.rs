//! Writing records in the format of the design document.
//!
//! The text of a message is one record, each call and each result another. The tokens of a reply
//! are on its first `assistant` record. A reply with tokens but only calls begins with an
//! `assistant` record without content. If a response continues in another message, which repeats
//! its tokens, `usage` has only the new ones and `annals.usage` all of them. So adding up all
//! `assistant` records counts every response once.
//!
//! The design document requires a model on every reply, and its cost calculation fails for a model
//! without a price. A reply of an unknown model is written with `null`, and
//! [`output::split_record`] puts a stand-in into the log. [`Writer::complete_drafts`] sets the
//! model of the previous reply on a reply with tokens.
//!
//! A record is encoded as one object. [`output::split_record`] decides what goes into the log and
//! what into the log's companion file.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, UNNAMED_CALL_PREFIX, is_client_text, one_line, raw};
use crate::layout::extension::ExtensionOut;
use crate::layout::fork_origin;
use crate::layout::usage_fields::{USAGE_MEMBER, format_time, usage_json};
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, NewSession, PlanContext, Spawn,
    Writer, WriterSpec, annotations,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, EntryKey, Message, Role,
    SessionId, Todo, Usage,
};

use super::decode::{DURATION, METADATA, SOURCE};
use super::line::Line;
use super::members::{MemberValues, result_duration};
use super::output::{self, MetadataOut, RecordOut, STOP_REASONS, TokensOut};
use super::split::{parts_json, record_time, split_message, texts, tool_of_call};
use super::{Orchestrator, path};
use crate::layout::write::encode;

static SPEC: WriterSpec = WriterSpec {
    draft_members: &[SOURCE, DURATION, METADATA, USAGE_MEMBER],
    results_name_tools: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Orchestrator {
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact> {
        // The name of a log's own session determines the log.
        if let Some(log) = path::log_from_name(new.id.as_str()) {
            return Ok(log);
        }
        let absolute = new.cwd.starts_with('/') || new.cwd.contains(":\\");
        let folder = match new.copied_from.as_ref().and_then(|log| log.folder.clone()) {
            Some(folder) => folder,
            None if absolute => path::folder_hash(&new.cwd),
            None => {
                let why = format!("`{}` is not an absolute path", new.cwd);
                return Err(Error::refused(why));
            }
        };
        if path::owner(new.id.as_str()).1.is_some() {
            return Err(Error::refused(
                "a session id must not have the form of a sub-agent id",
            ));
        }
        Ok(today_log(&folder, stamp))
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        let session = head.session.as_str();
        if agent.as_str() == session {
            return Err(Error::refused("a sub-agent cannot have its session's id"));
        }
        // The combined name must be a valid session id.
        SessionId::new(&path::agent_session_name(session, agent.as_str()))?;
        Ok(Artifact {
            agent: Some(agent.clone()),
            ..head.log.clone()
        })
    }

    fn complete_drafts<'d>(
        &self,
        head: &AppendState,
        drafts: &'d [Draft],
    ) -> Result<Cow<'d, [Draft]>> {
        let mut drafts = Cow::Borrowed(drafts);
        let named = |model: &String| output::can_have_price(model);
        let mut known = head.model.clone().filter(named);
        for at in 0..drafts.len() {
            let Some(Body::Message(message)) = drafts.get(at).map(|draft| &draft.body) else {
                continue;
            };
            if message.role == Role::Assistant {
                known = message.model.clone().filter(named).or(known);
            }
            if !needs_model(message) {
                continue;
            }
            if known.is_none() {
                return Err(Error::refused(
                    "a reply with `usage` needs a `model` to price its tokens, \
                     and no reply near the end of the session has one; add `model` to the message",
                ));
            }
            if let Some(draft) = drafts.to_mut().get_mut(at)
                && let Body::Message(message) = &mut draft.body
            {
                message.model.clone_from(&known);
            }
        }
        Ok(drafts)
    }

    fn check_record(&self, _: &AppendState, record: &str) -> std::result::Result<(), String> {
        output::check_record(record)
    }

    fn split_record(&self, record: &[u8]) -> Result<(Vec<u8>, Option<String>)> {
        let no_object = || Error::refused("a record must be a JSON object");
        if let Ok(text) = std::str::from_utf8(record) {
            return output::split_record(text).ok_or_else(no_object);
        }
        // Invalid UTF-8 is preserved: each byte is mapped to one character and back.
        let text: String = record.iter().copied().map(char::from).collect();
        let bytes = |text: &str| -> Vec<u8> {
            let bytes = text.chars().filter_map(|c| u8::try_from(c).ok());
            bytes.collect()
        };
        let (line, beside) = output::split_record(&text).ok_or_else(no_object)?;
        let line = bytes(&String::from_utf8_lossy(&line));
        let beside = beside.map(|text| String::from_utf8_lossy(&bytes(&text)).into_owned());
        Ok((line, beside))
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        let session = head.session.as_str();
        let name = match &head.agent {
            Some(agent) => path::agent_session_name(session, agent.as_str()),
            None => session.to_owned(),
        };
        let mut pen = RecordBuilder {
            head,
            name,
            stamp,
            lines: Vec::new(),
            end: head.end,
            last_record_is_own: head.last_record_is_own,
            plan: EditPlan::default(),
            last_message: head.last_message.clone(),
            time: head.time,
            recent_responses: head.recent_responses.clone(),
        };
        match change {
            Change::Begin => pen.begin()?,
            // Only the directory may be missing from copied records.
            Change::Fork { .. } if head.cwd.is_none() => {}
            Change::Fork { .. } => pen.begin()?,
            Change::Append(drafts) => {
                for (at, draft) in drafts.iter().enumerate() {
                    pen.draft(draft, drafts.get(..at).unwrap_or_default())?;
                }
            }
            Change::Compact { summary, .. } => pen.compact(summary)?,
            Change::SetTodos(todos) => pen.todos(todos)?,
            Change::Spawn(spawn) => pen.spawn(spawn)?,
        }
        Ok(pen.finish())
    }

    fn valid_id(&self, id: &str) -> String {
        match path::owner(id) {
            (_, None) => id.to_owned(),
            // It would be taken for a sub-agent's.
            (_, Some(_)) => EntryKey::from_text(id).derived_uuid(),
        }
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        let unreadable = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let text = String::from_utf8_lossy(record);
        let mended = json::sanitize(&text);
        let line: Line<'_> = serde_json::from_str(&mended).map_err(|_| unreadable())?;
        let origin = format!(
            r#"{{"sessionId":{},"id":{}{}}}"#,
            json::quote(graft.from.as_str()),
            json::quote(graft.id.as_str()),
            fork_origin::origin_time_member(
                "timestamp",
                line.timestamp,
                line.metadata.forked_from,
                graft.time.is_some()
            )
        );
        let session = json::quote(graft.to.as_str());
        let metadata = [("sessionId", session.as_str()), ("forkedFrom", &origin)];
        // The copy must store the id, because an id made from the position would change.
        let id = json::quote(graft.id.as_str());
        let mut words = vec![("id", id.as_str())];
        let parent = match graft.parent {
            ForkParent::Entry(parent) => json::quote(parent.as_str()),
            ForkParent::None | ForkParent::Keep => "null".to_owned(),
        };
        // Without a named parent it is the previous record, which is correct in a copy.
        if line.annex.parent.0.is_some() && graft.parent != ForkParent::Keep {
            words.push(("parent", &parent));
        }
        if line.annex.sidechain.0 {
            words.extend([("sidechain", "false"), ("agent", "null")]);
        }
        let copy = json::set_nested_members(record, "metadata", &metadata);
        let copy = copy.and_then(|copy| json::set_nested_members(&copy, "annals", &words));
        let copy = copy.ok_or_else(unreadable)?;
        let Some(time) = graft.time.map(|time| json::quote(&format_time(time))) else {
            return Ok(copy);
        };
        json::set_members(&copy, &[("timestamp", &time)]).ok_or_else(unreadable)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

/// Returns the log of the current day in the writer's time zone.
fn today_log(folder: &str, stamp: &PlanContext<'_>) -> Artifact {
    path::day_log(folder, stamp.now.to_zoned(stamp.zone.clone()).date())
}

/// Encodes the records of one change.
struct RecordBuilder<'a, 'b> {
    head: &'a AppendState,
    /// The name under which the agent logs.
    name: String,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    /// Offset of the next record.
    end: u64,
    /// The previous record belongs to the same session.
    last_record_is_own: bool,
    plan: EditPlan,
    /// The last message so far, which is the parent of the next unless that names another.
    last_message: Option<EntryId>,
    /// Time of the newest record so far.
    time: Option<Timestamp>,
    /// Ids and usage of the newest responses so far.
    recent_responses: Vec<(String, Usage)>,
}

/// Returns whether a message has tokens but no model to price them.
fn needs_model(message: &Message) -> bool {
    message.role == Role::Assistant
        && message.model.is_none()
        && message.usage.is_some_and(|usage| !usage.is_zero())
}

/// Returns the extension unless it is empty.
fn non_empty_extension(words: ExtensionOut<'_>) -> Option<ExtensionOut<'_>> {
    let says = serde_json::to_string(&words).is_ok_and(|json| json != "{}");
    says.then_some(words)
}

fn text(line: Vec<u8>) -> Result<String> {
    String::from_utf8(line).map_err(|error| Error::refused(error.to_string()))
}

/// Usage of a message.
#[derive(Clone, Copy)]
struct ResponseUsage {
    /// Tokens not recorded before.
    added: Usage,
    /// All tokens of the response, if some were recorded before.
    total: Option<Usage>,
}

impl RecordBuilder<'_, '_> {
    fn finish(mut self) -> EditPlan {
        if !self.lines.is_empty() {
            let lines = std::mem::take(&mut self.lines);
            let path = path::path_for(&self.head.log);
            self.plan.edits.insert(0, Edit::Append { path, lines });
        }
        self.plan
    }

    fn begin(&mut self) -> Result<()> {
        let head = self.head;
        let time = self.next_time(None);
        let mut line = self.common("session", time);
        line.metadata.session = Some(&self.name);
        line.metadata.cwd = head.cwd.as_deref();
        line.metadata.git_branch = head.git_branch.as_deref();
        let line = encode(&line)?;
        // A log's own session begins with the log, which stays empty until the first message.
        if head.log.session.as_ref() == Some(&head.session) && head.end == 0 {
            self.plan.companion.push(text(line)?);
            return Ok(());
        }
        self.push(line)
    }

    /// Adds a record.
    fn push(&mut self, record: Vec<u8>) -> Result<()> {
        let (line, _) = Orchestrator.split_record(&record)?;
        self.end += line.len() as u64 + 1;
        self.last_record_is_own = true;
        self.lines.push(record);
        Ok(())
    }

    /// Returns the id of the next record, if it has none of its own.
    fn next_id(&self) -> EntryId {
        EntryId::new(&path::id_at(&self.head.log, self.end))
    }

    fn draft(&mut self, draft: &Draft, before: &[Draft]) -> Result<()> {
        if let (false, Some((name, _))) = (
            matches!(draft.body, Body::Message(_)),
            draft.members.first(),
        ) {
            return Err(Error::refused(format!("only messages have a `{name}`")));
        }
        match &draft.body {
            Body::Message(message) => self.message(message, draft, before),
            Body::Compaction { text } => {
                let words = ExtensionOut {
                    kind: Some("compaction"),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.system(text, words, draft, true)
            }
            Body::System { subtype, text } => {
                let words = ExtensionOut {
                    kind: Some("system"),
                    subtype: Some(subtype),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.system(text, words, draft, true)
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
                let text = description.as_deref().unwrap_or_default();
                self.system(text, words, draft, false)
            }
            Body::Title { .. } | Body::Tag { .. } | Body::Note { .. } | Body::Summary { .. } => {
                self.note(draft)
            }
            _ => Err(Error::refused(
                "this kind of entry cannot be written to an orchestrator session",
            )),
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft, before: &[Draft]) -> Result<()> {
        let usage_part = self.response_usage(message);
        let members = MemberValues::new(draft, message, &self.name)?;
        let parts = split_message(
            message,
            !usage_part.added.is_zero() || members.terms.is_some(),
        );
        let last = parts.len().saturating_sub(1);
        let response = message.response.as_deref();
        let mut parent = draft.parent.clone().or_else(|| self.leaf());
        let mut first = 0;
        for (at, part) in parts.iter().enumerate() {
            let given_blocks = GivenBlocks::new(draft, part.blocks, first);
            first += part.blocks.len();
            // A given id names the last record of the message, which is the parent of the next.
            let given = draft.id.clone().filter(|_| at == last);
            // A record without a line in the log has no offset to derive an id from.
            let given = match message.role {
                Role::System => Some(given.unwrap_or_else(|| self.fresh_id())),
                _ => given,
            };
            let id = given.clone().unwrap_or_else(|| self.next_id());
            let time = self.next_time(draft.time.and_then(|time| record_time(time, at)));
            let words = ExtensionOut {
                id: given.as_ref().map(EntryId::as_str),
                response,
                request: message.request.as_deref(),
                spawned: message.spawned.as_ref().map(AgentId::as_str),
                stored: message.stored.as_deref(),
                meta: message.meta,
                compact: message.compact_summary,
                api_error: message.api_error,
                ..self.parent_extension(draft, parent.as_ref())
            };
            let line = match part.blocks {
                [Block::ToolUse { id, name, input }] => {
                    let mut line = self.common("tool_call", time);
                    line.tool = Some(name);
                    line.arguments = Some(raw(one_line(input)?)?);
                    line.call = Some(id);
                    line.annals = non_empty_extension(ExtensionOut {
                        model: message.model.as_deref(),
                        stop: message.stop_reason.as_deref(),
                        blocks: given_blocks.raw_json()?,
                        ..words
                    });
                    encode(&line)?
                }
                [Block::ToolResult { .. }] => {
                    self.result_record(given_blocks, &members, words, time, before)?
                }
                _ => {
                    let usage_part = part.tokens.then_some(usage_part);
                    self.message_record(message, given_blocks, usage_part, &members, words, time)?
                }
            };
            self.push(line)?;
            parent = Some(id.clone());
            self.record_added(id, draft.sidechain);
        }
        if let Some(response) = response {
            let usage = usage_part.total.unwrap_or(usage_part.added);
            self.recent_responses.retain(|(known, _)| known != response);
            self.recent_responses.push((response.to_owned(), usage));
        }
        Ok(())
    }

    /// Returns the usage that a message adds to its response.
    fn response_usage(&self, message: &Message) -> ResponseUsage {
        let mut all = message.usage.unwrap_or_default();
        let mut known = self.recent_responses.iter();
        match known.find(|(known, _)| message.response.as_ref() == Some(known)) {
            Some((_, so_far)) => {
                all.max_each(so_far);
                ResponseUsage {
                    added: all.excess_over(so_far),
                    total: Some(all),
                }
            }
            None => ResponseUsage {
                added: all,
                total: None,
            },
        }
    }

    /// Encodes the text of a message, as opposed to its calls and results.
    fn message_record<'m>(
        &self,
        message: &'m Message,
        given: GivenBlocks<'_>,
        usage_part: Option<ResponseUsage>,
        members: &MemberValues<'_>,
        mut words: ExtensionOut<'m>,
        time: Timestamp,
    ) -> Result<Vec<u8>> {
        let blocks = given.blocks;
        let texts = texts(blocks);
        let text = texts.join("\n\n");
        let mut line = self.common(message.role.as_str(), time);
        line.content = Some(&text);
        line.metadata.source = members.source.as_deref();
        let plain = match blocks {
            [] => true,
            [Block::Text(text)] => !text.is_empty() && !given.has_raw(),
            _ => false,
        };
        if message.role == Role::Assistant {
            let fresh = usage_part
                .map(|usage_part| usage_part.added)
                .unwrap_or_default();
            line.usage = Some(TokensOut::new(&fresh));
            let terms = members.terms.filter(|_| usage_part.is_some());
            let all = usage_part.and_then(|usage_part| usage_part.total);
            let all = all.or(terms.map(|_| fresh));
            words.usage = all.map(|all| usage_json(&all, terms)).transpose()?;
            line.model = Some(message.model.as_deref());
            // The design document has four stop reasons.
            let stop = message.stop_reason.as_deref();
            line.stop = stop.filter(|stop| STOP_REASONS.contains(stop));
            words.stop = stop.filter(|stop| !STOP_REASONS.contains(stop));
            let once = texts.len() == 1 && !text.is_empty();
            words.blocks = (!plain).then(|| parts_json(given, once)).transpose()?;
        } else {
            words.blocks = (!plain).then(|| parts_json(given, false)).transpose()?;
        }
        if message.role == Role::User {
            let prompt = texts.iter().any(|text| !is_client_text(text));
            let seems = prompt && !message.meta && !message.compact_summary && !words.sidechain;
            // Blank text does not count as written by a person.
            let blank = texts.iter().all(|text| text.trim().is_empty());
            let differs = message.human != seems && !(message.human && blank);
            words.human = differs.then_some(message.human);
        }
        line.annals = non_empty_extension(words);
        encode(&line)
    }

    fn result_record(
        &self,
        given: GivenBlocks<'_>,
        members: &MemberValues<'_>,
        mut words: ExtensionOut<'_>,
        time: Timestamp,
        before: &[Draft],
    ) -> Result<Vec<u8>> {
        let [
            Block::ToolResult {
                call,
                output,
                is_error,
            },
        ] = given.blocks
        else {
            return Err(Error::refused("not a tool result"));
        };
        let text = texts(output).join("\n\n");
        let mut line = self.common("tool_result", time);
        let mut open = self.head.open_calls.iter().rev();
        let named = given.tool();
        let tool = named
            .as_deref()
            .or_else(|| tool_of_call(call, before))
            .or_else(|| open.find_map(|(id, tool)| (id == call).then_some(tool.as_str())))
            .or_else(|| call.strip_prefix(UNNAMED_CALL_PREFIX))
            .filter(|tool| !tool.is_empty());
        line.tool = Some(tool.unwrap_or("unknown"));
        line.call = Some(call);
        line.duration_ms = result_duration(given, members)?;
        let plain = match output.as_slice() {
            [] => !is_error,
            [Block::Text(_)] => true,
            _ => false,
        };
        let said = (!output.is_empty() || *is_error).then_some(text.as_str());
        if *is_error {
            line.error = said;
        } else {
            line.result = said;
        }
        if !plain || given.has_raw() {
            words.blocks = Some(raw(given.json()?)?);
        }
        line.annals = non_empty_extension(words);
        encode(&line)
    }

    /// Adds a record of a type that the design document does not have.
    fn system(
        &mut self,
        text: &str,
        words: ExtensionOut<'_>,
        draft: &Draft,
        in_chain: bool,
    ) -> Result<()> {
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.leaf());
        let time = self.next_time(draft.time);
        let hung = self.parent_extension(draft, parent.as_ref());
        let mut line = self.common("system", time);
        line.content = Some(text);
        line.annals = Some(ExtensionOut {
            id: Some(id.as_str()),
            parent: hung.parent.filter(|_| in_chain),
            agent: hung.agent,
            sidechain: hung.sidechain,
            ..words
        });
        let line = encode(&line)?;
        self.push(line)?;
        self.record_added(id, !in_chain || draft.sidechain);
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
        let text = "Conversation compacted".to_owned();
        self.draft(&Draft::new(Body::Compaction { text }), &[])?;
        let mut message = Message::new(Role::User, vec![Block::Text(summary.to_owned())]);
        message.compact_summary = true;
        self.draft(&Draft::new(Body::Message(message)), &[])
    }

    fn note(&mut self, draft: &Draft) -> Result<()> {
        if let Some((line, id)) = annotations::encode(draft, self.stamp)? {
            let path =
                path::path_for(&self.attachment(ArtifactKind::Notes, self.head.agent.clone()));
            let lines = vec![line];
            self.plan.edits.push(Edit::Append { path, lines });
            self.plan.added.push(id);
        }
        Ok(())
    }

    fn todos(&mut self, todos: &[Todo]) -> Result<()> {
        let agent = match &self.head.agent {
            Some(agent) => agent.clone(),
            None => AgentId::new(self.head.session.as_str())?,
        };
        let file = self.attachment(ArtifactKind::Todos, Some(agent));
        let bytes = encode(&todos)?;
        let path = path::path_for(&file);
        self.plan.edits.push(Edit::Replace { path, bytes });
        Ok(())
    }

    /// Writes a sub-agent's first record, which has its purpose.
    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        self.name = path::agent_session_name(self.head.session.as_str(), spawn.agent.as_str());
        self.last_record_is_own = false;
        let draft = Draft::new(Body::Agent {
            kind: Some(spawn.kind.clone()),
            description: Some(spawn.description.clone()),
            call: spawn.call.clone(),
        });
        self.draft(&draft, &[])
    }

    /// Returns another file of the session.
    fn attachment(&self, kind: ArtifactKind, agent: Option<AgentId>) -> Artifact {
        Artifact {
            folder: self.head.log.folder.clone(),
            session: Some(self.head.session.clone()),
            agent,
            ..Artifact::new(kind)
        }
    }

    fn id(&mut self, draft: &Draft) -> EntryId {
        let given = draft.id.clone();
        given.unwrap_or_else(|| self.fresh_id())
    }

    fn fresh_id(&mut self) -> EntryId {
        EntryId::new(&(self.stamp.new_id)())
    }

    /// Records an added entry. One outside the conversation (`beside`) does not become the leaf.
    fn record_added(&mut self, id: EntryId, beside: bool) {
        if !beside {
            self.plan.leaf = Some(id.clone());
            self.last_message = Some(id.clone());
        }
        self.plan.added.push(id);
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    /// Returns the parent and the agent of a draft, if they must be stored.
    fn parent_extension<'d>(
        &self,
        draft: &'d Draft,
        parent: Option<&'d EntryId>,
    ) -> ExtensionOut<'d> {
        // A sub-agent within the log has another previous record.
        let said = draft.sidechain || parent != self.last_message.as_ref();
        ExtensionOut {
            parent: said.then(|| parent.map(EntryId::as_str)),
            agent: draft.agent.as_ref().map(AgentId::as_str),
            sidechain: draft.sidechain,
            ..ExtensionOut::default()
        }
    }

    /// Returns the time of the next record: as given, or else now, but later than the previous
    /// record.
    fn next_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.stamp.next_time(&mut self.time, given)
    }

    fn common<'l>(&'l self, kind: &'l str, time: Timestamp) -> RecordOut<'l> {
        let own = self.head.log.session.as_ref().map(SessionId::as_str);
        // A prompt that names no session belongs to the log's own; any other record to that of the
        // previous one.
        let named = match kind {
            "user" => own != Some(&*self.name),
            _ => !self.last_record_is_own,
        };
        RecordOut {
            kind,
            tool: None,
            arguments: None,
            result: None,
            error: None,
            content: None,
            timestamp: format_time(time),
            usage: None,
            model: None,
            stop: None,
            duration_ms: None,
            call: None,
            metadata: MetadataOut {
                session: named.then_some(&*self.name),
                ..MetadataOut::default()
            },
            annals: None,
        }
    }
}
