//! Writing lines that the real client reads back.
//!
//! A message is one line per block, each the parent of the next; those of a reply share a
//! `message.id`. Every client version reads such a chain whole and resumes at its end. Each line is
//! at least a millisecond later than the one before, because the older client resumes at the newest
//! line. A requested time that had to change is kept in the line's member `annals`. After a branch
//! or a compaction, a `last-prompt` line names the new leaf, because a client that finds an older
//! one would resume elsewhere.
//!
//! tools/verify/README.md lists everything that a file needs so that every client version resumes
//! it at the right entry.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{GivenBlocks, content_json};
use crate::layout::usage_fields::{format_time, truncate_to_millis};
use crate::layout::write::encode;
use crate::layout::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, NewSession, PROGRAM, PlanContext,
    Spawn, Writer, WriterSpec, is_model,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, EntryKey, FileChange, Message,
    Role, SYNTHETIC, TitleSource, Todo,
};

use super::line::{Line, MESSAGE_COUNT, SESSION_START, is_error_summary};
use super::message_line::{message_count, message_line, with_members};
use super::output::{
    BackupLine, Compaction, LineOut, MessageOut, Meta, MetadataLine, Note, QueueOperation,
    RequestedTime, SessionStartLine, Snapshot, SnapshotLine, TypedLine,
};
use super::{ClaudeCode, encode_path, output, path};

/// Client version whose line format is written.
const VERSION: &str = "2.1.325";

/// Format version of the lines that only annals writes (`annals-session`, `annals-note`).
const FORMAT: u32 = 1;

static SPEC: WriterSpec = WriterSpec {
    // One belongs to summaries. The others are members of the reply's `message`; `usage` is merged
    // with its counts.
    draft_members: &super::decode::MEMBERS,
    cost_member: Some("costUSD"),
    // Client 2.0.77 resumes at the newest line.
    needs_rising_times: true,
    ..WriterSpec::DEFAULT
};

impl Writer for ClaudeCode {
    fn reply_id(&self, fresh: &mut dyn FnMut() -> String) -> Option<String> {
        Some(format!("msg_{}", fresh().replace('-', "")))
    }

    fn new_session_log(&self, new: &NewSession, _: &mut PlanContext<'_>) -> Result<Artifact> {
        if new.copied_from.is_none() && !new.cwd.starts_with('/') && !new.cwd.contains(":\\") {
            return Err(Error::refused(format!(
                "`{}` is not an absolute path",
                new.cwd
            )));
        }
        if let Some(why) = path::session_fault(&new.id) {
            return Err(Error::refused(format!(
                "`{}` is not a valid session id: {why}",
                new.id
            )));
        }
        Ok(Artifact {
            folder: match &new.copied_from {
                Some(beside) => beside.folder.clone(),
                None => Some(encode_path(&new.cwd)),
            },
            session: Some(new.id.clone()),
            ..Artifact::new(ArtifactKind::SessionLog)
        })
    }

    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact> {
        if let Some(why) = path::agent_fault(agent) {
            return Err(Error::refused(format!(
                "`{agent}` is not a valid agent id: {why}"
            )));
        }
        Ok(Artifact {
            folder: head.log.folder.clone(),
            session: Some(head.session.clone()),
            agent: Some(agent.clone()),
            ..Artifact::new(ArtifactKind::AgentLog)
        })
    }

    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        output::check_record(record)?;
        let owner = head.agent.as_ref();
        owner.map_or(Ok(()), |owner| output::check_agent(record, owner))
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
            plan: EditPlan::default(),
            time: head.time,
            note_time: head.note_time,
            model: head.model.clone().or_else(|| first_model(change)),
            continues: head.continues.clone(),
        };
        match change {
            Change::Begin => pen.begin()?,
            Change::Fork { .. } => {}
            Change::Append(drafts) => {
                for draft in drafts {
                    pen.draft(draft)?;
                }
                let moved = pen.plan.leaf.is_some();
                let branches = drafts.iter().any(|draft| draft.parent.is_some());
                if moved && (branches || !head.resumes_at_leaf) {
                    pen.resume_here(last_prompt(drafts))?;
                }
            }
            Change::Compact { summary, tokens } => pen.compaction(summary, *tokens)?,
            Change::SetTodos(todos) => pen.todos(todos)?,
            Change::Spawn(spawn) => pen.agent_meta(spawn)?,
        }
        Ok(pen.finish())
    }

    fn has_place_for(&self, body: &Body, member: &str) -> bool {
        match body {
            Body::Message(message) => message.role == Role::Assistant && member != MESSAGE_COUNT,
            Body::Summary { .. } => member == MESSAGE_COUNT,
            _ => false,
        }
    }

    fn prompt_history_line(
        &self,
        typed: &Draft,
        stamp: &mut PlanContext<'_>,
    ) -> Result<Option<(Artifact, Vec<u8>)>> {
        let Body::TypedPrompt {
            text,
            project,
            session,
            pasted,
        } = &typed.body
        else {
            return Err(Error::refused(
                "only typed prompts can be added to the prompt history",
            ));
        };
        if *pasted {
            return Err(Error::refused(
                "pasted contents cannot be stored in the prompt history",
            ));
        }
        let line = encode(&TypedLine {
            display: text,
            pasted: BTreeMap::new(),
            timestamp: typed.time.unwrap_or(stamp.now).as_millisecond(),
            project: project.as_deref(),
            session: session.as_deref(),
        })?;
        Ok(Some((Artifact::new(ArtifactKind::History), line)))
    }

    fn valid_id(&self, id: &str) -> String {
        match EntryKey::is_canonical_uuid(id) {
            true => id.to_owned(),
            false => EntryKey::from_text(id).derived_uuid(),
        }
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
        let session = json::quote(graft.to.as_str());
        let origin = format!(
            r#"{{"sessionId":{},"messageUuid":{}}}"#,
            json::quote(graft.from.as_str()),
            json::quote(graft.id.as_str())
        );
        let parent = match graft.parent {
            ForkParent::Entry(parent) => Some(json::quote(parent.as_str())),
            ForkParent::None if line.parent.non_empty().is_some() => Some("null".to_owned()),
            ForkParent::None | ForkParent::Keep => None,
        };
        let mut members = vec![
            ("sessionId", session.as_str()),
            ("forkedFrom", origin.as_str()),
        ];
        members.extend(parent.as_deref().map(|parent| ("parentUuid", parent)));
        if graft.parent == ForkParent::None && line.logical_parent.non_empty().is_some() {
            members.push(("logicalParentUuid", "null"));
        }
        let time = graft.time.map(|time| json::quote(&format_time(time)));
        members.extend(time.as_deref().map(|time| ("timestamp", time)));
        // The client skips sidechains, and in the fork this is the main chain.
        members.extend(line.sidechain.0.then_some(("isSidechain", "false")));
        json::set_members(record, &members).ok_or_else(unreadable)
    }

    fn writer_spec(&self) -> &'static WriterSpec {
        &SPEC
    }
}

/// Encodes the lines of one change.
struct RecordBuilder<'a, 'b> {
    head: &'a AppendState,
    stamp: &'a mut PlanContext<'b>,
    lines: Vec<Vec<u8>>,
    plan: EditPlan,
    /// Time of the newest line of the chain so far.
    time: Option<Timestamp>,
    /// Time of the newest line outside the chain.
    note_time: Option<Timestamp>,
    /// Model of the last reply.
    model: Option<String>,
    /// The entry that the compaction at the leaf continues, until a summary follows the compaction.
    continues: Option<EntryId>,
}

impl RecordBuilder<'_, '_> {
    fn finish(mut self) -> EditPlan {
        if !self.lines.is_empty() {
            // The log goes first: files derived from it may be behind, never ahead.
            let path = path::path_for(&self.head.log);
            self.plan.edits.insert(
                0,
                Edit::Append {
                    path,
                    lines: self.lines,
                },
            );
        }
        self.plan
    }

    fn begin(&mut self) -> Result<()> {
        let timestamp = format_time(self.note_time(None));
        let head = self.head;
        self.line(&SessionStartLine {
            kind: SESSION_START,
            session: head.session.as_str(),
            cwd: head.cwd.as_deref(),
            git_branch: head.git_branch.as_deref(),
            version: VERSION,
            entrypoint: PROGRAM,
            format_version: FORMAT,
            timestamp,
        })
    }

    fn draft(&mut self, draft: &Draft) -> Result<()> {
        let session = self.head.session.as_str();
        let has_place = |name: &str| ClaudeCode.has_place_for(&draft.body, name);
        if let Some((name, _)) = draft.members.iter().find(|(name, _)| !has_place(name)) {
            let place = match name.as_str() {
                MESSAGE_COUNT => "a summary",
                _ => "an assistant message",
            };
            return Err(Error::refused(format!("only {place} has `{name}`")));
        }
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Title { text, source } => self.title(text, *source),
            Body::Tag { text } => self.line(
                &MetadataLine {
                    session,
                    ..MetadataLine::new("tag")
                }
                .tag(text),
            ),
            Body::Note { author, text } => {
                let time = self.note_time(draft.time);
                let id = self.id(draft);
                self.line(&Note {
                    kind: "annals-note",
                    id: id.as_str(),
                    timestamp: time,
                    session,
                    entrypoint: PROGRAM,
                    author: author.as_deref(),
                    text,
                })?;
                self.plan.added.push(id);
                Ok(())
            }
            Body::Summary { text, .. } if is_error_summary(text) => {
                Err(Error::refused("a summary must not be an error message"))
            }
            Body::Summary { text, leaf } => {
                let mut count = draft.members.iter().map(|(_, json)| message_count(json));
                let count = count.next_back().transpose()?;
                self.line(&MetadataLine {
                    summary: Some(text),
                    leaf: leaf.as_ref().map(EntryId::as_str),
                    message_count: count.as_deref(),
                    ..MetadataLine::new("summary")
                })
            }
            Body::Queue { operation, .. } if operation.trim().is_empty() => Err(Error::refused(
                "a queue operation needs a name, such as enqueue",
            )),
            Body::Queue { operation, text } => {
                let timestamp = format_time(self.note_time(draft.time));
                self.line(&QueueOperation {
                    kind: "queue-operation",
                    operation,
                    timestamp,
                    content: text,
                    session,
                })
            }
            Body::Compaction { text } => self.boundary(text, None, draft),
            Body::Files(change) => self.snapshot(change, draft),
            Body::System { subtype, text } => self.system(subtype, text, None, draft),
            _ => Err(Error::refused(
                "this kind of entry cannot be written to a Claude Code session",
            )),
        }
    }

    fn message(&mut self, message: &Message, draft: &Draft) -> Result<()> {
        if message.blocks.is_empty() {
            return Err(Error::refused("a message needs at least one block"));
        }
        if message.role == Role::System {
            let content = content_json(Role::User, GivenBlocks::new(draft, &message.blocks, 0))?;
            let mut text = String::new();
            for block in &message.blocks {
                block.visit_texts(&mut |part| text.push_str(part));
            }
            return self.system("informational", &text, Some(&content), draft);
        }
        let response = match (message.role, &message.response) {
            (Role::Assistant, None) => ClaudeCode.reply_id(self.stamp.new_id),
            (_, given) => given.clone(),
        };
        let last = message.blocks.len().saturating_sub(1);
        let mut parent = self.parent_for(draft, message.compact_summary);
        let model = self.model_for(message);
        for (at, part) in message.blocks.chunks(1).enumerate() {
            // A given id names the last line of the message, which is the parent of the next.
            let id = match &draft.id {
                Some(id) if at == last => id.clone(),
                _ => EntryId::new(&(self.stamp.new_id)()),
            };
            let time = self.next_time(draft.time.and_then(|time| record_time(time, at)));
            let line = message_line(
                message,
                GivenBlocks::new(draft, part, at),
                response.as_deref(),
                model.as_deref(),
                LineOut {
                    parent: parent.as_ref().map(EntryId::as_str),
                    ..self.common(message.role.as_str(), draft, &id, time)
                },
            )?;
            self.lines
                .push(with_members(line, message.role, &draft.members)?);
            parent = Some(id.clone());
            self.record_added(id, draft);
        }
        Ok(())
    }

    /// Writes the versions of all tracked files that belong to a message.
    fn snapshot(&mut self, change: &FileChange, draft: &Draft) -> Result<()> {
        let Some(message) = change.message.clone().or_else(|| self.leaf()) else {
            return Err(Error::refused("file versions must belong to a message"));
        };
        if change
            .backups
            .iter()
            .any(|backup| backup.operation.is_some())
        {
            return Err(Error::refused(
                "a file change without a copy of the file cannot be stored",
            ));
        }
        let time = draft.time.unwrap_or(truncate_to_millis(self.stamp.now));
        let backups = change.backups.iter().map(|backup| {
            let kept = BackupLine {
                stored: backup.stored.as_deref(),
                version: backup.version,
                time: format_time(backup.time.unwrap_or(time)),
                base: backup.base.as_deref(),
            };
            (backup.path.as_str(), kept)
        });
        self.line(&SnapshotLine {
            kind: "file-history-snapshot",
            message: message.as_str(),
            snapshot: Snapshot {
                message: message.as_str(),
                backups: backups.collect(),
                timestamp: format_time(time),
            },
            update: true,
        })
    }

    fn compaction(&mut self, summary: &str, tokens: Option<u64>) -> Result<()> {
        if self.leaf().is_none() {
            return Err(Error::refused(
                "there is nothing to compact: the session has no messages",
            ));
        }
        if summary.trim().is_empty() {
            return Err(Error::refused("the summary is empty"));
        }
        let draft = Draft::new(Body::Compaction {
            text: String::new(),
        });
        self.boundary("Conversation compacted", tokens, &draft)?;
        let mut message = Message::new(Role::User, vec![Block::Text(summary.to_owned())]);
        message.compact_summary = true;
        self.message(&message, &Draft::new(Body::Message(message.clone())))?;
        self.resume_here(None)
    }

    /// Writes the boundary after which the client sees a summary.
    fn boundary(&mut self, text: &str, tokens: Option<u64>, draft: &Draft) -> Result<()> {
        let leaf = self.parent_for(draft, false);
        let id = self.id(draft);
        let time = self.next_time(draft.time);
        let line = encode(&LineOut {
            logical_parent: leaf.as_ref().map(EntryId::as_str),
            subtype: Some("compact_boundary"),
            content: Some(text),
            meta: Some(false),
            level: Some("info"),
            compaction: Some(Compaction {
                trigger: "manual",
                tokens: tokens.unwrap_or(0),
            }),
            ..self.common("system", draft, &id, time)
        })?;
        self.lines.push(line);
        self.record_added(id, draft);
        self.continues = leaf.filter(|_| !draft.sidechain);
        Ok(())
    }

    /// Writes a notice of the agent program. With `said` it is a system prompt, which readers that
    /// know them decode as a message.
    fn system(
        &mut self,
        subtype: &str,
        text: &str,
        said: Option<&RawValue>,
        draft: &Draft,
    ) -> Result<()> {
        let parent = self.parent_for(draft, false);
        let id = self.id(draft);
        let time = self.next_time(draft.time);
        let line = encode(&LineOut {
            parent: parent.as_ref().map(EntryId::as_str),
            subtype: Some(subtype),
            content: Some(text),
            message: said.map(|content| MessageOut {
                id: None,
                kind: None,
                role: Role::System.as_str(),
                model: None,
                content,
                stop: None,
            }),
            meta: Some(false),
            level: Some("info"),
            ..self.common("system", draft, &id, time)
        })?;
        self.lines.push(line);
        self.record_added(id, draft);
        Ok(())
    }

    fn title(&mut self, text: &str, source: TitleSource) -> Result<()> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::refused("a title must not be empty"));
        }
        let session = self.head.session.as_str();
        match source {
            TitleSource::Custom => {
                let aside = MetadataLine {
                    session,
                    custom_title: Some(text),
                    ..MetadataLine::new("custom-title")
                };
                self.line(&aside)?;
                let mut beside = self.head.attachments.iter();
                if let Some(file) = beside.find(|file| file.kind == ArtifactKind::TitleFile) {
                    self.plan.edits.push(Edit::SetMembers {
                        path: path::path_for(file),
                        members: vec![("customTitle".to_owned(), json::quote(text))],
                    });
                }
                Ok(())
            }
            TitleSource::Ai => self.line(&MetadataLine {
                session,
                ai_title: Some(text),
                ..MetadataLine::new("ai-title")
            }),
            TitleSource::Summary | TitleSource::Prompt => {
                Err(Error::refused("a title must come from a person or a model"))
            }
        }
    }

    fn todos(&mut self, todos: &[Todo]) -> Result<()> {
        let session = &self.head.session;
        let agent = match &self.head.agent {
            Some(agent) => agent.clone(),
            None => AgentId::new(session.as_str())?,
        };
        let file = Artifact {
            session: Some(session.clone()),
            agent: Some(agent),
            ..Artifact::new(ArtifactKind::Todos)
        };
        let bytes = encode(&todos)?;
        self.plan.edits.push(Edit::Replace {
            path: path::path_for(&file),
            bytes,
        });
        Ok(())
    }

    fn agent_meta(&mut self, spawn: &Spawn) -> Result<()> {
        let file = Artifact {
            folder: self.head.log.folder.clone(),
            session: Some(self.head.session.clone()),
            agent: Some(spawn.agent.clone()),
            ..Artifact::new(ArtifactKind::AgentMeta)
        };
        let bytes = encode(&Meta {
            kind: &spawn.kind,
            description: &spawn.description,
            call: spawn.call.as_deref(),
        })?;
        self.plan.edits.push(Edit::Create {
            path: path::path_for(&file),
            bytes,
        });
        Ok(())
    }

    /// Writes the leaf at which the client resumes.
    fn resume_here(&mut self, prompt: Option<String>) -> Result<()> {
        // A sub-agent's log is never resumed by name.
        let Some(leaf) = self.leaf().filter(|_| self.head.agent.is_none()) else {
            return Ok(());
        };
        let prompt = prompt.or_else(|| self.head.prompt.clone());
        let session = self.head.session.as_str();
        self.line(&MetadataLine {
            session,
            last_prompt: Some(prompt.as_deref().unwrap_or_default()),
            leaf: Some(leaf.as_str()),
            ..MetadataLine::new("last-prompt")
        })
    }

    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        self.lines.push(encode(line)?);
        Ok(())
    }

    fn id(&mut self, draft: &Draft) -> EntryId {
        draft
            .id
            .clone()
            .unwrap_or_else(|| EntryId::new(&(self.stamp.new_id)()))
    }

    fn record_added(&mut self, id: EntryId, draft: &Draft) {
        if !draft.sidechain {
            self.plan.leaf = Some(id.clone());
            self.continues = None;
        }
        self.plan.added.push(id);
    }

    /// Returns the parent of a line. Clients send nothing from before a compaction, so only its
    /// summary has it as parent; until there is one, the conversation continues from before.
    fn parent_for(&self, draft: &Draft, summary: bool) -> Option<EntryId> {
        let continues = self.continues.clone().filter(|_| !summary);
        draft.parent.clone().or(continues).or_else(|| self.leaf())
    }

    /// Returns the model of a reply: its own, or else the session's. Client 2.1.325 omits thinking
    /// of other models, and a made-up name counts as another model.
    fn model_for(&mut self, message: &Message) -> Option<String> {
        if message.role != Role::Assistant {
            return None;
        }
        if message.api_error {
            return Some(SYNTHETIC.to_owned());
        }
        if let Some(model) = message.model.as_ref().filter(|model| is_model(model)) {
            self.model = Some(model.clone());
        }
        let named = message.model.clone();
        match &named {
            Some(model) if is_model(model) || model == SYNTHETIC => named,
            _ => self.model.clone().or(named),
        }
    }

    fn leaf(&self) -> Option<EntryId> {
        self.plan.leaf.clone().or_else(|| self.head.leaf.clone())
    }

    /// Returns the time of the next line of the chain: as given, or else now, but at least a
    /// millisecond after the previous line, because client 2.0.77 resumes at the newest line.
    fn next_time(&mut self, given: Option<Timestamp>) -> LineTime {
        let after = self.time.and_then(|time| record_time(time, 1));
        let time = given.map(|given| after.map_or(given, |after| after.max(given)));
        let time = self.stamp.next_time(&mut self.time, time);
        self.plan.time = self.time;
        LineTime {
            time,
            requested: given.filter(|given| *given != time),
        }
    }

    /// Returns the time of a line outside the chain, at which no client resumes.
    fn note_time(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.note_time = self.note_time.max(self.time);
        self.stamp.next_time(&mut self.note_time, given)
    }

    fn common<'l>(
        &'l self,
        kind: &'l str,
        draft: &'l Draft,
        id: &'l EntryId,
        moment: LineTime,
    ) -> LineOut<'l> {
        let head = self.head;
        let agent = head.agent.as_ref().or(draft.agent.as_ref());
        LineOut {
            parent: None,
            logical_parent: None,
            sidechain: head.agent.is_some() || draft.sidechain,
            agent: agent.map(AgentId::as_str),
            user_type: "external",
            entrypoint: PROGRAM,
            cwd: head.cwd.as_deref(),
            session: head.session.as_str(),
            version: head.version.as_deref().unwrap_or(VERSION),
            git_branch: head.git_branch.as_deref().unwrap_or_default(),
            kind,
            subtype: None,
            content: None,
            message: None,
            request: None,
            meta: None,
            transcript_only: None,
            compact_summary: None,
            level: None,
            compaction: None,
            result: None,
            api_error: None,
            uuid: id.as_str(),
            timestamp: format_time(moment.time),
            annals: moment.requested.map(|time| RequestedTime {
                time: format_time(time),
            }),
        }
    }
}

/// Time of a line.
#[derive(Clone, Copy)]
struct LineTime {
    time: Timestamp,
    /// The requested time, if it differs.
    requested: Option<Timestamp>,
}

/// Returns the first model named by the replies of a change.
fn first_model(change: &Change) -> Option<String> {
    let Change::Append(drafts) = change else {
        return None;
    };
    drafts.iter().find_map(|draft| match &draft.body {
        Body::Message(message) => message.model.clone().filter(|model| is_model(model)),
        _ => None,
    })
}

/// Returns the time of the line `lines` lines after one with this time.
fn record_time(time: Timestamp, lines: usize) -> Option<Timestamp> {
    let after = jiff::SignedDuration::from_millis(lines.try_into().ok()?);
    time.checked_add(after).ok()
}

fn last_prompt(drafts: &[Draft]) -> Option<String> {
    drafts.iter().rev().find_map(|draft| match &draft.body {
        Body::Message(message) if message.human => match message.blocks.first() {
            Some(Block::Text(text)) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    })
}
