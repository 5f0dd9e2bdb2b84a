//! Writing: records as the program writes them, in one chain.
//!
//! A message becomes one record, and each tool result of a message a record of its own. If a
//! converted reply has several entries, the record of the first has the blocks of all. What the
//! format cannot express is in the member `annals` of the record, which the program ignores.
//!
//! | record | for |
//! |---|---|
//! | `user`, `assistant`, `tool_result` | messages that the program sends |
//! | `system`, `custom_title` | a title given by a person |
//! | `system`, `chat_compression` | a summary: the program sends it instead of everything before |
//! | `system`, `annals` | entries that are not sent: messages of programs, compactions, further parts of a reply; the directory of a new session |
//! | `annals`, with `note` | a note, a tag, a summary, a title by a model: see `annotations.rs`. Not in the chain |
//!
//! The program resumes at the last record of a type that it knows, and loses what is before a record
//! of another type in the chain. So the parent of a record is the record before, if that is part of
//! the current branch, and a record of a side branch is followed by one that names the current leaf.
//! All records of a log have one `sessionId`, and the first one has the directory of the project.
//!
//! A sub-agent has a log and a description. Todos of the main agent are in the program's place, those
//! of sub-agents in files of annals (`own_files.rs`).

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, raw};
use crate::layout::derived::RecordDecoder;
use crate::layout::extension::{ExtensionOut, summary_words};
use crate::layout::usage_fields::{USAGE_MEMBER, draft_usage_members, format_time, usage_json};
use crate::layout::{
    AppendState, Change, Decoded, Decoder, Edit, EditPlan, ForkEdit, ForkParent, NewSession,
    PROGRAM, PlanContext, Record, Spawn, Writer, WriterSpec, annotations, is_model, own_files,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, Framing, Message, Role, Span,
    TitleSource, Usage,
};
use jiff::Timestamp;

use super::fold::{self, MESSAGE, OWN, REPLY};
use super::output::{
    AgentMetaOut, ContentOut, NoteOut, RecordOut, encode, parts_json, texts, todos_edit,
    usage_metadata,
};
use super::{Qwen, path};

/// Text of a compaction record.
const COMPACTED: &str = "Conversation compacted";

static SPEC: WriterSpec = WriterSpec {
    draft_members: &[USAGE_MEMBER],
    resumes_at_last_line: true,
    has_whole_replies: true,
    ..WriterSpec::DEFAULT
};

impl Writer for Qwen {
    fn new_session_log(&self, new: &NewSession, _: &mut PlanContext<'_>) -> Result<Artifact> {
        let copied = new.copied_from.as_ref();
        if copied.is_none() && !new.cwd.starts_with('/') && !new.cwd.contains(":\\") {
            let why = format!("`{}` is not an absolute path", new.cwd);
            return Err(Error::refused(why));
        }
        if !path::is_session(new.id.as_str()) {
            return Err(Error::refused(format!(
                "Qwen Code resumes only sessions whose id is a UUID of versions 1 to 5; `{}` is none",
                new.id
            )));
        }
        let copied = copied.and_then(|log| log.folder.clone());
        Ok(Artifact {
            folder: Some(copied.unwrap_or_else(|| path::folder(&new.cwd))),
            session: Some(new.id.clone()),
            framing: Framing::Document(&fold::CHAT),
            ..Artifact::new(ArtifactKind::SessionLog)
        })
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if agent.as_str() == head.session.as_str() {
            return Err(Error::refused("a sub-agent cannot have its session's id"));
        }
        Ok(Artifact {
            framing: Framing::Document(&fold::CHAT),
            ..agent_file(head, agent, ArtifactKind::AgentLog)
        })
    }

    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan> {
        let mut builder = RecordBuilder::new(head, stamp);
        match change {
            Change::Begin => builder.own_record()?,
            // The copied records have all that the program needs.
            Change::Fork { .. } => {}
            Change::Append(drafts) => {
                for draft in drafts {
                    builder.draft(draft)?;
                }
                builder.return_to_leaf()?;
            }
            Change::Compact { summary, tokens } => builder.compact(summary, *tokens)?,
            Change::SetTodos(todos) => {
                let edit = match &head.agent {
                    Some(_) => own_files::todos_edit(head, head.log.folder.as_deref(), todos)?,
                    None => todos_edit(head, todos)?,
                };
                builder.plan.edits.push(edit);
            }
            Change::Spawn(spawn) => builder.spawn(spawn)?,
        }
        Ok(builder.finish())
    }

    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        let text = |name: &str| json::member(record, name).and_then(json::decode_string);
        let kind = text("type").unwrap_or_default();
        if !fold::IN_CHAIN.contains(&&*kind) {
            return Err(format!(
                "Qwen Code does not know the type `{kind}`, and drops the history before such a record"
            ));
        }
        if text("uuid").is_none_or(|id| id.is_empty()) {
            return Err("it has no `uuid`".to_owned());
        }
        if text("parentUuid").is_none() && json::member(record, "parentUuid") != Some("null") {
            return Err("it has no `parentUuid`".to_owned());
        }
        match text("sessionId") {
            Some(session) if *session == *head.session.as_str() => Ok(()),
            _ => Err(format!(
                "its `sessionId` is not {}, and Qwen Code refuses a log with several",
                head.session
            )),
        }
    }

    fn valid_id(&self, id: &str) -> String {
        match path::is_session(id) {
            true => id.to_owned(),
            false => path::derived_id(id),
        }
    }

    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>> {
        let failed = || Error::refused(format!("`{}` cannot be copied: not JSON", graft.id));
        let derived = std::str::from_utf8(record).map_err(|_| failed())?;
        let record = json::member(derived, "record").ok_or_else(failed)?;
        let id = json::quote(graft.id.as_str());
        let session = json::quote(graft.to.as_str());
        let parent = match (graft.parent, graft.previous) {
            (ForkParent::Entry(parent), _) | (ForkParent::Keep, Some(parent)) => {
                json::quote(parent.as_str())
            }
            _ => "null".to_owned(),
        };
        let from = json::quote(graft.from.as_str());
        let origin = format!(r#"{{"sessionId":{from},"messageUuid":{id}}}"#);
        let mut members = vec![
            ("parentUuid", parent.as_str()),
            ("sessionId", session.as_str()),
            ("forkedFrom", origin.as_str()),
        ];
        // The id of a record without one is made from its position.
        if json::member(record, "uuid").is_none() {
            members.push(("uuid", &id));
        }
        let copy = json::set_members(record.as_bytes(), &members).ok_or_else(failed)?;
        let annex = json::member(record, "annals").unwrap_or_default();
        let mut words = Vec::new();
        // The telemetry that names the response is not copied.
        let response = json::member(derived, "response");
        let has_usage = json::member(record, "usageMetadata").is_some();
        let response = response.filter(|_| has_usage && json::member(annex, "response").is_none());
        words.extend(response.map(|response| ("response", response)));
        if ["sidechain", "agent"].map(|name| json::member(annex, name).is_some()) != [false, false]
        {
            // In the fork this is the main conversation.
            words.extend([("sidechain", "false"), ("agent", "null")]);
        }
        match words.is_empty() {
            true => Ok(copy),
            false => json::set_nested_members(&copy, "annals", &words).ok_or_else(failed),
        }
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

fn agent_file(head: &AppendState, agent: &AgentId, kind: ArtifactKind) -> Artifact {
    Artifact {
        folder: head.log.folder.clone(),
        session: Some(head.session.clone()),
        agent: Some(agent.clone()),
        ..Artifact::new(kind)
    }
}

/// Encodes the records of one change.
struct RecordBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    plan: EditPlan,
    /// The record at which the program would resume.
    last_line: Option<EntryId>,
    /// Whether the last record belongs to a side branch.
    is_aside: bool,
    /// Time of the newest record so far.
    time: Option<Timestamp>,
    /// Calls without a result, and their tools.
    open_calls: Vec<(String, String)>,
    /// Ids and usage of the newest responses so far.
    recent_responses: Vec<(String, Usage)>,
}

impl<'a, 'b> RecordBuilder<'a, 'b> {
    fn new(head: &'a AppendState, stamp: &'a mut PlanContext<'b>) -> Self {
        RecordBuilder {
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

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Compaction { text } => {
                let words = ExtensionOut {
                    kind: Some("compaction"),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, ContentOut::own(), words)
            }
            Body::System { subtype, text } => {
                let words = ExtensionOut {
                    kind: Some("system"),
                    subtype: Some(subtype),
                    text: Some(text),
                    ..ExtensionOut::default()
                };
                self.entry(draft, ContentOut::own(), words)
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
                self.remark(draft, ContentOut::own(), words)
            }
            Body::Resume { leaf } => {
                let mut to_leaf = draft.clone();
                to_leaf.parent = Some(leaf.clone());
                self.remark(&to_leaf, ContentOut::own(), ExtensionOut::default())
            }
            Body::Title { text, source }
                if *source == TitleSource::Custom && self.head.agent.is_none() =>
            {
                let title = text.trim();
                if title.is_empty() {
                    return Err(Error::refused("a title must not be empty"));
                }
                let payload = format!(
                    r#"{{"customTitle":{},"titleSource":"manual"}}"#,
                    json::quote(title)
                );
                let content = ContentOut::system("custom_title", payload)?;
                self.remark(draft, content, ExtensionOut::default())
            }
            _ => self.note(draft),
        }
    }

    /// Writes an annotation.
    fn note(&mut self, draft: &Draft) -> Result<()> {
        let Some((note, id)) = annotations::encode(draft, self.stamp)? else {
            return Err(Error::refused(
                "this kind of entry cannot be written to a Qwen Code session",
            ));
        };
        let note = String::from_utf8(note);
        let note = note.map_err(|error| Error::refused(error.to_string()))?;
        let time = self.next_time(draft.time);
        self.lines.push(encode(&NoteOut {
            kind: OWN,
            timestamp: format_time(time),
            note: raw(note)?,
            annals: ExtensionOut {
                id: Some(id.as_str()),
                program: Some(PROGRAM),
                ..ExtensionOut::default()
            },
        })?);
        // Nothing continues there, so it is not one of the added entries.
        Ok(())
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        if message.compact_summary {
            return self.summary(message, draft, None);
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
            // A given id names the last record of the message, which is the parent of the next.
            let mut own = draft.clone();
            own.id = draft.id.clone().filter(|_| at == last);
            if at > 0 {
                own.parent.clone_from(&self.last_line);
            }
            self.message_record(message, &part, &own, given)?;
        }
        if let Some(response) = &message.response {
            let usage = message.usage.unwrap_or_default();
            self.recent_responses.push((response.clone(), usage));
        }
        Ok(())
    }

    /// Writes one record of a message.
    fn message_record(
        &mut self,
        message: &Message,
        part: &Message,
        draft: &Draft,
        given: GivenBlocks<'_>,
    ) -> Result<()> {
        let terms = draft_usage_members(&draft.members);
        let all = part.usage.unwrap_or_default();
        let known = self.recent_responses.iter().rev();
        let mut known = known.filter(|(id, _)| message.response.as_ref() == Some(id));
        let added = known
            .next()
            .map_or(all, |(_, known)| all.excess_over(known));
        // Blank text does not count as written by a person.
        let human = message.human && !is_blank(&part.blocks);
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
        let known = self.head.model.as_deref();
        let model = message.model.as_deref().filter(|model| is_model(model));
        let (kind, provenance, content) = match (message.role, &*part.blocks) {
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
                words.kind = is_reply.then_some(REPLY);
                words.model = message.model.as_deref();
                let tool = given.tool().or_else(|| self.tool_of(call));
                let (name, status) = match is_error {
                    true => ("error", "error"),
                    false => ("output", "success"),
                };
                let call = json::quote(call);
                let content = ContentOut {
                    message: Some(raw(format!(
                        r#"{{"role":"user","parts":[{{"functionResponse":{{"id":{call},"name":{},"response":{{"{name}":{}}}}}}}]}}"#,
                        json::quote(tool.as_deref().unwrap_or("unknown")),
                        json::quote(&texts(output)),
                    ))?),
                    result: Some(raw(format!(r#"{{"callId":{call},"status":"{status}"}}"#))?),
                    ..ContentOut::default()
                };
                ("tool_result", Some("tool_result"), content)
            }
            // The record of the first part has its blocks already, and an error is not sent.
            (Role::Assistant, _) if self.head.continues_reply || message.api_error => {
                self.own_reply(message, &mut words)
            }
            (Role::Assistant, blocks) => {
                let blocks = [blocks, &self.head.reply_rest].concat();
                match parts_json(&blocks)? {
                    None => self.own_reply(message, &mut words),
                    Some(parts) => {
                        let content = ContentOut {
                            model: model.or(known),
                            message: Some(raw(format!(r#"{{"role":"model","parts":{parts}}}"#))?),
                            usage: part.usage.map(|_| usage_metadata(&added)).transpose()?,
                            ..ContentOut::default()
                        };
                        ("assistant", Some("assistant_output"), content)
                    }
                }
            }
            (Role::User, blocks) => {
                // Without a part there is nothing to send.
                let parts = parts_json(blocks)?;
                let parts = parts.unwrap_or_else(|| r#"[{"text":""}]"#.to_owned());
                let content = ContentOut {
                    message: Some(raw(format!(r#"{{"role":"user","parts":{parts}}}"#))?),
                    ..ContentOut::default()
                };
                ("user", human.then_some("real_user"), content)
            }
            // The program makes these messages itself.
            (Role::System, _) => {
                words.kind = Some(MESSAGE);
                ("system", Some("system"), ContentOut::own())
            }
        };
        let time = self.next_time(draft.time);
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.last_line.clone());
        let mut record = self.record(draft, &id, parent.as_ref(), time, kind, content, words);
        record.provenance = provenance;
        let mut read = decode_record(&encode(&record)?);
        let is_same = |read: &Option<Message>, given: &Message| {
            read.as_ref()
                .is_some_and(|read| read.role == given.role && read.blocks == given.blocks)
        };
        if given.has_raw() || !is_same(&read, part) {
            record.annals.blocks = Some(raw(given.json()?)?);
            read = decode_record(&encode(&record)?);
        }
        let spent = part.usage.filter(|usage| !usage.is_zero());
        let is_reply = message.role == Role::Assistant;
        if is_reply && (read.as_ref().is_some_and(|read| read.usage != spent) || terms.is_some()) {
            record.annals.usage = Some(usage_json(&all, terms)?);
        }
        if read.is_some_and(|read| read.human != human) {
            record.annals.human = Some(human);
        }
        let bytes = encode(&record)?;
        self.push(bytes, id, draft.sidechain, true);
        for block in &part.blocks {
            if let Block::ToolUse { id, name, .. } = block {
                self.open_calls.push((id.clone(), name.clone()));
            }
        }
        Ok(())
    }

    /// Returns a reply that the program does not send.
    fn own_reply<'m>(
        &self,
        message: &'m Message,
        words: &mut ExtensionOut<'m>,
    ) -> (&'static str, Option<&'static str>, ContentOut<'m>) {
        words.kind = Some(REPLY);
        words.model = message.model.as_deref();
        ("system", Some("system"), ContentOut::own())
    }

    /// Writes the summary that follows a compaction: the program sends it instead of all before.
    fn summary(&mut self, message: &Message, draft: &Draft, tokens: Option<u64>) -> Result<()> {
        let text = json::quote(&texts(&message.blocks));
        let info = tokens.map(|tokens| format!(r#""info":{{"originalTokenCount":{tokens}}},"#));
        let payload = format!(
            r#"{{{}"compressedHistory":[{{"role":"user","parts":[{{"text":{text}}}]}}]}}"#,
            info.unwrap_or_default()
        );
        let content = ContentOut::system("chat_compression", payload)?;
        let blocks = match &*message.blocks {
            [Block::Text(_)] if draft.raw_blocks.is_empty() => None,
            blocks => Some(raw(GivenBlocks::new(draft, blocks, 0).json()?)?),
        };
        let words = ExtensionOut {
            compact: true,
            blocks,
            ..summary_words(message, draft)?
        };
        self.entry(draft, content, words)
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
        self.summary(&message, &draft, tokens)
    }

    /// Describes a sub-agent. Its first message creates its log.
    fn spawn(&mut self, spawn: &Spawn) -> Result<()> {
        let file = agent_file(self.head, &spawn.agent, ArtifactKind::AgentMeta);
        let bytes = encode(&AgentMetaOut {
            agent: spawn.agent.as_str(),
            kind: &spawn.kind,
            description: &spawn.description,
            session: self.head.session.as_str(),
            call: spawn.call.as_deref(),
            status: "completed",
        })?;
        let path = path::path_for(&file);
        self.plan.edits.push(Edit::Create { path, bytes });
        Ok(())
    }

    /// Writes a record that is part of the conversation.
    fn entry(
        &mut self,
        draft: &Draft,
        content: ContentOut<'_>,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        self.system(draft, content, words, true)
    }

    /// Writes a record about the conversation.
    fn remark(
        &mut self,
        draft: &Draft,
        content: ContentOut<'_>,
        words: ExtensionOut<'_>,
    ) -> Result<()> {
        self.system(draft, content, words, false)
    }

    fn system(
        &mut self,
        draft: &Draft,
        content: ContentOut<'_>,
        words: ExtensionOut<'_>,
        is_entry: bool,
    ) -> Result<()> {
        let time = self.next_time(draft.time);
        let id = self.id(draft);
        let parent = draft.parent.clone().or_else(|| self.last_line.clone());
        let mut record = self.record(draft, &id, parent.as_ref(), time, "system", content, words);
        record.provenance = Some("system");
        let bytes = encode(&record)?;
        self.push(bytes, id, draft.sidechain, is_entry);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the members of a record")]
    fn record<'w>(
        &self,
        draft: &'w Draft,
        id: &'w EntryId,
        parent: Option<&'w EntryId>,
        time: Timestamp,
        kind: &'w str,
        content: ContentOut<'w>,
        words: ExtensionOut<'w>,
    ) -> RecordOut<'w>
    where
        'a: 'w,
    {
        let head = self.head;
        let agent = head.agent.as_ref().map(AgentId::as_str);
        RecordOut {
            uuid: id.as_str(),
            parent: parent.map(EntryId::as_str),
            session: head.session.as_str(),
            timestamp: format_time(time),
            kind,
            provenance: None,
            cwd: head.cwd.as_deref().unwrap_or("/"),
            version: head.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION")),
            branch: head.git_branch.as_deref(),
            agent,
            sidechain: agent.map(|_| true),
            content,
            annals: ExtensionOut {
                program: Some(PROGRAM),
                agent: draft.agent.as_ref().map(AgentId::as_str),
                sidechain: draft.sidechain,
                ..words
            },
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

    /// Ends a side branch with a record of the current one: the program resumes at the last record.
    fn return_to_leaf(&mut self) -> Result<()> {
        if !self.is_aside || self.last_line.is_none() {
            return Ok(());
        }
        self.own_record()
    }

    /// Writes a record without an entry: at the beginning of a log it has the directory.
    fn own_record(&mut self) -> Result<()> {
        let draft = Draft::new(Body::Opaque {
            kind: None,
            flaw: None,
        });
        self.remark(&draft, ContentOut::own(), ExtensionOut::default())?;
        self.plan.added.pop();
        Ok(())
    }

    fn id(&mut self, draft: &Draft) -> EntryId {
        let given = draft.id.clone();
        given.unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()))
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

/// Returns the parts of a message that are records of their own: each tool result, and what is
/// between them.
fn parts(blocks: &[Block], role: Role) -> Vec<&[Block]> {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    if role == Role::System || !blocks.iter().any(is_result) {
        return vec![blocks];
    }
    let alone = |one: &Block, next: &Block| !is_result(one) && !is_result(next);
    blocks.chunk_by(alone).collect()
}

/// Decodes a record as a reader would.
fn decode_record(line: &[u8]) -> Option<Message> {
    let record = Record {
        span: Span {
            offset: 0,
            len: line.len() as u64,
            line: 1,
        },
        bytes: line,
        terminated: true,
        oversize: false,
    };
    let mut sink = Decoded::default();
    let mut decoder = RecordDecoder {
        to_lines: fold::to_lines,
        is_record: fold::is_record,
    };
    decoder.decode(&record, &mut sink);
    match sink.items.into_iter().next()?.body {
        Body::Message(message) => Some(message),
        _ => None,
    }
}

fn is_blank(blocks: &[Block]) -> bool {
    let blank = |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
    blocks.iter().all(blank)
}
