//! Writing lines that the real client reads back.
//!
//! A message is one line per block, each the parent of the next; those of a reply have the same
//! `message.id`. Every client version reads such a chain whole and goes on from its end. Each line is
//! later than the one before by a millisecond at least, because the older client goes on at the newest;
//! a given time that had to move stands in the line's member `annals`. A branch, and a compaction, are
//! followed by a `last-prompt` line that names the new leaf, because a client that finds an older one
//! would go on elsewhere.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{self, Pairs, Raw};
use crate::layout::content::{self, GivenBlocks, content};
use crate::layout::field::{Spent, milliseconds, spell_time};
use crate::layout::{
    Change, Edit, Graft, Head, NewSession, PROGRAM, Parent, Plan, Spawn, Stamp, Writer, is_model,
};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Draft, EntryId, FileChange, Key, Members,
    Message, Role, SYNTHETIC, TitleSource, Todo,
};

use super::form::{
    Aside, BackupLine, Compaction, Given, Meta, Note, Opening, Outcome, QueueOperation, Said,
    Snapshot, SnapshotLine, Stop, TypedLine, Written,
};
use super::line::{Line, MESSAGE_COUNT, OPENING, is_error_summary};
use super::{ClaudeCode, encode_path, form, path};

/// The client version whose lines we write like.
const VERSION: &str = "2.1.325";

/// The version of the format of the lines that only annals writes (`annals-session`, `annals-note`).
const FORMAT: u32 = 1;

impl Writer for ClaudeCode {
    fn reply_id(&self, fresh: &mut dyn FnMut() -> String) -> Option<String> {
        Some(format!("msg_{}", fresh().replace('-', "")))
    }

    fn session(&self, new: &NewSession, _: &mut Stamp<'_>) -> Result<Artifact> {
        if new.beside.is_none() && !new.cwd.starts_with('/') && !new.cwd.contains(":\\") {
            return Err(Error::refused(format!(
                "`{}` is not an absolute path",
                new.cwd
            )));
        }
        if let Some(why) = path::session_fault(&new.id) {
            return Err(Error::refused(format!(
                "`{}` is no session id: {why}",
                new.id
            )));
        }
        Ok(Artifact {
            folder: match &new.beside {
                Some(beside) => beside.folder.clone(),
                None => Some(encode_path(&new.cwd)),
            },
            session: Some(new.id.clone()),
            ..Artifact::of(ArtifactKind::SessionLog)
        })
    }

    fn agent(&self, head: &Head, agent: &AgentId) -> Result<Artifact> {
        if let Some(why) = path::agent_fault(agent) {
            return Err(Error::refused(format!("`{agent}` is no agent id: {why}")));
        }
        Ok(Artifact {
            kind: ArtifactKind::AgentLog,
            folder: head.log.folder.clone(),
            session: Some(head.session.clone()),
            agent: Some(agent.clone()),
            name: None,
        })
    }

    fn fits(&self, head: &Head, record: &str) -> std::result::Result<(), String> {
        form::fits(record)?;
        let owner = head.agent.as_ref();
        owner.map_or(Ok(()), |owner| form::fits_agent(record, owner))
    }

    fn plan(&self, head: &Head, change: &Change, stamp: &mut Stamp<'_>) -> Result<Plan> {
        let mut pen = Pen {
            head,
            stamp,
            lines: Vec::new(),
            plan: Plan::default(),
            time: head.time,
            noted: head.noted,
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
                if moved && (branches || !head.anchored) {
                    pen.resume_here(last_prompt(drafts))?;
                }
            }
            Change::Compact { summary, tokens } => pen.compaction(summary, *tokens)?,
            Change::SetTodos(todos) => pen.todos(todos)?,
            Change::Spawn(spawn) => pen.agent_meta(spawn)?,
        }
        Ok(pen.finish())
    }

    /// One is of a summary; all others are members of the reply's `message`, those of `usage` are added
    /// to its counts.
    fn members(&self) -> &'static [&'static str] {
        &super::decode::MEMBERS
    }

    fn has_place_for(&self, body: &Body, member: &str) -> bool {
        match body {
            Body::Message(message) => message.role == Role::Assistant && member != MESSAGE_COUNT,
            Body::Summary { .. } => member == MESSAGE_COUNT,
            _ => false,
        }
    }

    fn typed(&self, typed: &Draft, stamp: &mut Stamp<'_>) -> Result<Option<(Artifact, Vec<u8>)>> {
        let Body::Typed {
            text,
            project,
            session,
            pasted,
        } = &typed.body
        else {
            return Err(Error::refused("only what was typed goes to that list"));
        };
        if *pasted {
            return Err(Error::refused(
                "what was pasted cannot be kept in that list",
            ));
        }
        let line = encode(&TypedLine {
            display: text,
            pasted: BTreeMap::new(),
            timestamp: typed.time.unwrap_or(stamp.now).as_millisecond(),
            project: project.as_deref(),
            session: session.as_deref(),
        })?;
        Ok(Some((Artifact::of(ArtifactKind::History), line)))
    }

    fn fitting(&self, id: &str) -> String {
        match Key::spells(id) {
            true => id.to_owned(),
            false => Key::of(id).made_uuid(),
        }
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
        let session = json::quote(graft.to.as_str());
        let origin = format!(
            r#"{{"sessionId":{},"messageUuid":{}}}"#,
            json::quote(graft.from.as_str()),
            json::quote(graft.id.as_str())
        );
        let parent = match graft.parent {
            Parent::Entry(parent) => Some(json::quote(parent.as_str())),
            Parent::None if line.parent.filled().is_some() => Some("null".to_owned()),
            Parent::None | Parent::Keep => None,
        };
        let mut members = vec![
            ("sessionId", session.as_str()),
            ("forkedFrom", origin.as_str()),
        ];
        members.extend(parent.as_deref().map(|parent| ("parentUuid", parent)));
        if graft.parent == Parent::None && line.logical_parent.filled().is_some() {
            members.push(("logicalParentUuid", "null"));
        }
        let time = graft.time.map(|time| json::quote(&spell_time(time)));
        members.extend(time.as_deref().map(|time| ("timestamp", time)));
        // The client skips side chains, and here it is the main chain.
        members.extend(line.sidechain.0.then_some(("isSidechain", "false")));
        json::set_members(record, &members).ok_or_else(unreadable)
    }
}

/// Writes the lines of one change.
struct Pen<'a, 'b> {
    head: &'a Head,
    stamp: &'a mut Stamp<'b>,
    lines: Vec<Vec<u8>>,
    plan: Plan,
    /// The time of the newest line of the chain so far.
    time: Option<Timestamp>,
    /// The time of the newest line beside the chain.
    noted: Option<Timestamp>,
    /// The model that answered last.
    model: Option<String>,
    /// The entry that the compaction at the leaf continues, as long as no summary follows that.
    continues: Option<EntryId>,
}

impl Pen<'_, '_> {
    fn finish(mut self) -> Plan {
        if !self.lines.is_empty() {
            // The log goes first: what is derived from it may be behind, never ahead.
            let path = path::place(&self.head.log);
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
        let timestamp = spell_time(self.time_beside(None));
        let head = self.head;
        self.line(&Opening {
            kind: OPENING,
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
                _ => "the message of an assistant",
            };
            return Err(Error::refused(format!("only {place} has `{name}`")));
        }
        match &draft.body {
            Body::Message(message) => self.message(message, draft),
            Body::Title { text, source } => self.title(text, *source),
            Body::Tag { text } => self.line(
                &Aside {
                    session,
                    ..Aside::of("tag")
                }
                .tag(text),
            ),
            Body::Note { author, text } => {
                let time = self.time_beside(draft.time);
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
            Body::Summary { text, .. } if is_error_summary(text) => Err(Error::refused(
                "a summary that is an error message says nothing and is not kept",
            )),
            Body::Summary { text, leaf } => {
                let mut count = draft.members.iter().map(|(_, json)| message_count(json));
                let count = count.next_back().transpose()?;
                self.line(&Aside {
                    summary: Some(text),
                    leaf: leaf.as_ref().map(EntryId::as_str),
                    message_count: count.as_deref(),
                    ..Aside::of("summary")
                })
            }
            Body::Queue { operation, .. } if operation.trim().is_empty() => Err(Error::refused(
                "a queue operation needs a name, such as enqueue",
            )),
            Body::Queue { operation, text } => {
                let timestamp = spell_time(self.time_beside(draft.time));
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
            let content = content(Role::User, GivenBlocks::of(draft, &message.blocks, 0))?;
            let mut text = String::new();
            for block in &message.blocks {
                block.texts(&mut |part| text.push_str(part));
            }
            return self.system("informational", &text, Some(&content), draft);
        }
        let response = match (message.role, &message.response) {
            (Role::Assistant, None) => ClaudeCode.reply_id(self.stamp.fresh),
            (_, given) => given.clone(),
        };
        let last = message.blocks.len().saturating_sub(1);
        let mut parent = self.parent_of(draft, message.compact_summary);
        let model = self.model_of(message);
        for (at, part) in message.blocks.chunks(1).enumerate() {
            // A given id names the end of the message: that is what the next one hangs from.
            let id = match &draft.id {
                Some(id) if at == last => id.clone(),
                _ => EntryId::new(&(self.stamp.fresh)()),
            };
            let time = self.tick(draft.time.and_then(|time| later(time, at)));
            let line = part_of(
                message,
                GivenBlocks::of(draft, part, at),
                response.as_deref(),
                model.as_deref(),
                Written {
                    parent: parent.as_ref().map(EntryId::as_str),
                    ..self.common(message.role.as_str(), draft, &id, time)
                },
            )?;
            self.lines
                .push(with_members(line, message.role, &draft.members)?);
            parent = Some(id.clone());
            self.added(id, draft);
        }
        Ok(())
    }

    /// The versions of all files that are tracked, as they belong to a message.
    fn snapshot(&mut self, change: &FileChange, draft: &Draft) -> Result<()> {
        let Some(message) = change.message.clone().or_else(|| self.leaf()) else {
            return Err(Error::refused("versions of files belong to a message"));
        };
        if change
            .backups
            .iter()
            .any(|backup| backup.operation.is_some())
        {
            return Err(Error::refused(
                "what was done to a file is not kept without a copy of it",
            ));
        }
        let time = draft.time.unwrap_or(milliseconds(self.stamp.now));
        let backups = change.backups.iter().map(|backup| {
            let kept = BackupLine {
                stored: backup.stored.as_deref(),
                version: backup.version,
                time: spell_time(backup.time.unwrap_or(time)),
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
                timestamp: spell_time(time),
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

    /// The line from which on the client sees a summary.
    fn boundary(&mut self, text: &str, tokens: Option<u64>, draft: &Draft) -> Result<()> {
        let leaf = self.parent_of(draft, false);
        let id = self.id(draft);
        let time = self.tick(draft.time);
        let line = encode(&Written {
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
        self.added(id, draft);
        self.continues = leaf.filter(|_| !draft.sidechain);
        Ok(())
    }

    /// Something that the agent program noted; with `said`, instructions, which readers that know
    /// them take for a message.
    fn system(
        &mut self,
        subtype: &str,
        text: &str,
        said: Option<&RawValue>,
        draft: &Draft,
    ) -> Result<()> {
        let parent = self.parent_of(draft, false);
        let id = self.id(draft);
        let time = self.tick(draft.time);
        let line = encode(&Written {
            parent: parent.as_ref().map(EntryId::as_str),
            subtype: Some(subtype),
            content: Some(text),
            message: said.map(|content| Said {
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
        self.added(id, draft);
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
                let aside = Aside {
                    session,
                    custom_title: Some(text),
                    ..Aside::of("custom-title")
                };
                self.line(&aside)?;
                let mut beside = self.head.beside.iter();
                if let Some(file) = beside.find(|file| file.kind == ArtifactKind::TitleFile) {
                    self.plan.edits.push(Edit::SetMembers {
                        path: path::place(file),
                        members: vec![("customTitle".to_owned(), json::quote(text))],
                    });
                }
                Ok(())
            }
            TitleSource::Ai => self.line(&Aside {
                session,
                ai_title: Some(text),
                ..Aside::of("ai-title")
            }),
            TitleSource::Summary | TitleSource::Prompt => {
                Err(Error::refused("only a person or a model gives titles"))
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
            ..Artifact::of(ArtifactKind::Todos)
        };
        let bytes = encode(&todos)?;
        self.plan.edits.push(Edit::Replace {
            path: path::place(&file),
            bytes,
        });
        Ok(())
    }

    fn agent_meta(&mut self, spawn: &Spawn) -> Result<()> {
        let file = Artifact {
            kind: ArtifactKind::AgentMeta,
            folder: self.head.log.folder.clone(),
            session: Some(self.head.session.clone()),
            agent: Some(spawn.agent.clone()),
            name: None,
        };
        let bytes = encode(&Meta {
            kind: &spawn.kind,
            description: &spawn.description,
            call: spawn.call.as_deref(),
        })?;
        self.plan.edits.push(Edit::Create {
            path: path::place(&file),
            bytes,
        });
        Ok(())
    }

    /// Tells the client where to go on.
    fn resume_here(&mut self, prompt: Option<String>) -> Result<()> {
        // A sub-agent's log is never resumed by name.
        let Some(leaf) = self.leaf().filter(|_| self.head.agent.is_none()) else {
            return Ok(());
        };
        let prompt = prompt.or_else(|| self.head.prompt.clone());
        let session = self.head.session.as_str();
        self.line(&Aside {
            session,
            last_prompt: Some(prompt.as_deref().unwrap_or_default()),
            leaf: Some(leaf.as_str()),
            ..Aside::of("last-prompt")
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
            .unwrap_or_else(|| EntryId::new(&(self.stamp.fresh)()))
    }

    fn added(&mut self, id: EntryId, draft: &Draft) {
        if !draft.sidechain {
            self.plan.leaf = Some(id.clone());
            self.continues = None;
        }
        self.plan.added.push(id);
    }

    /// What a line hangs from. Clients send nothing of what comes before a compaction, so only its
    /// summary hangs from it; as long as there is none, the conversation goes on from before.
    fn parent_of(&self, draft: &Draft, summary: bool) -> Option<EntryId> {
        let continues = self.continues.clone().filter(|_| !summary);
        draft.parent.clone().or(continues).or_else(|| self.leaf())
    }

    /// The model of a reply: as it says, else the session's own. Client 2.1.325 leaves out what other
    /// models thought, and a made-up name is another model.
    fn model_of(&mut self, message: &Message) -> Option<String> {
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

    /// The time of the next line of the chain: as given, else now, but later than the line before by a
    /// millisecond at least, because client 2.0.77 goes on from the newest line.
    fn tick(&mut self, given: Option<Timestamp>) -> Moment {
        let after = self.time.and_then(|time| later(time, 1));
        let time = given.map(|given| after.map_or(given, |after| after.max(given)));
        let time = self.stamp.tick(&mut self.time, time);
        self.plan.time = self.time;
        Moment {
            time,
            given: given.filter(|given| *given != time),
        }
    }

    /// The time of a line beside the chain, from which no client goes on.
    fn time_beside(&mut self, given: Option<Timestamp>) -> Timestamp {
        self.noted = self.noted.max(self.time);
        self.stamp.tick(&mut self.noted, given)
    }

    fn common<'l>(
        &'l self,
        kind: &'l str,
        draft: &'l Draft,
        id: &'l EntryId,
        moment: Moment,
    ) -> Written<'l> {
        let head = self.head;
        let agent = head.agent.as_ref().or(draft.agent.as_ref());
        Written {
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
            timestamp: spell_time(moment.time),
            annals: moment.given.map(|time| Given {
                time: spell_time(time),
            }),
        }
    }
}

/// The line of a part of a message, of which `common` has what all lines have.
fn part_of(
    message: &Message,
    blocks: GivenBlocks<'_>,
    response: Option<&str>,
    model: Option<&str>,
    common: Written<'_>,
) -> Result<Vec<u8>> {
    let content = content(message.role, blocks)?;
    let answers = message.role == Role::Assistant;
    encode(&Written {
        message: Some(Said {
            id: response,
            kind: answers.then_some("message"),
            role: message.role.as_str(),
            model,
            content: &content,
            stop: answers.then(|| Stop {
                stop_reason: message
                    .stop_reason
                    .as_deref()
                    .or_else(|| stop_reason(message)),
                stop_sequence: (),
                usage: Spent::of(&message.usage.unwrap_or_default()),
            }),
        }),
        request: message.request.as_deref(),
        api_error: message.api_error.then_some(true),
        meta: message.meta.then_some(true),
        compact_summary: message.compact_summary.then_some(true),
        transcript_only: message.compact_summary.then_some(true),
        result: message.spawned.as_ref().map(|agent| Outcome {
            agent: agent.as_str(),
        }),
        ..common
    })
}

/// The line with the members that the model's own message has beyond those of the model of annals.
fn with_members(line: Vec<u8>, role: Role, members: &Members) -> Result<Vec<u8>> {
    if members.is_empty() || role != Role::Assistant {
        return Ok(line);
    }
    let bad = |name: &str| Error::refused(format!("`{name}` cannot be written"));
    let text = String::from_utf8_lossy(&line);
    let mut values: Vec<(&str, String)> = Vec::new();
    for (name, value) in members {
        if name != "usage" {
            values.push((name, value.clone()));
            continue;
        }
        let known = json::member(&text, "message").and_then(|it| json::member(it, "usage"));
        let more: Pairs<'_> = Raw(Some(value)).read();
        let more: Vec<(&str, &str)> = more
            .0
            .iter()
            .filter_map(|(name, raw)| Some((&**name, raw.0?)))
            .collect();
        let usage = json::set_members(known.unwrap_or("{}").as_bytes(), &more);
        let usage = usage.and_then(|usage| String::from_utf8(usage).ok());
        values.push((name, usage.ok_or_else(|| bad(name))?));
    }
    let values: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    json::set_within(&line, "message", &values).ok_or_else(|| bad("message"))
}

/// The number of messages that a summary covers.
fn message_count(json: &str) -> Result<Box<RawValue>> {
    if !matches!(Raw(Some(json)).count(), Ok(Some(_))) {
        return Err(Error::refused(format!(
            "`{MESSAGE_COUNT}` must be a whole number, not {json}"
        )));
    }
    content::raw(json.to_owned())
}

/// When a line was written.
#[derive(Clone, Copy)]
struct Moment {
    time: Timestamp,
    /// The time that was asked for, where it is another.
    given: Option<Timestamp>,
}

/// The first model that replies of a change name.
fn first_model(change: &Change) -> Option<String> {
    let Change::Append(drafts) = change else {
        return None;
    };
    drafts.iter().find_map(|draft| match &draft.body {
        Body::Message(message) => message.model.clone().filter(|model| is_model(model)),
        _ => None,
    })
}

fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::refused(error.to_string()))
}

fn stop_reason(message: &Message) -> Option<&'static str> {
    let calls = message
        .blocks
        .iter()
        .any(|block| matches!(block, Block::ToolUse { .. }));
    Some(if calls { "tool_use" } else { "end_turn" })
}

/// The time of the line that many lines after one with this time.
fn later(time: Timestamp, lines: usize) -> Option<Timestamp> {
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
