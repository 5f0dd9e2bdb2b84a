//! Decodes derived lines, and the documents next to them.

use std::borrow::Cow;

use crate::json::{Flag, Pairs, Raw, Text, object};
use crate::layout::extension::Extension;
use crate::layout::usage_fields::{decode_count, decode_time};
use crate::layout::{Decoded, Decoder, PROGRAM, Record, annotations, entry_outline};
use crate::model::{
    AgentId, Artifact, ArtifactKind, Block, Body, Entry, EntryId, EntryKey, Fact, FlawKind,
    Framing, ListRow, ListSubject, Message, Outline, Role, TitleSource, Usage,
};

use super::fold;

object! {
    struct Line<'a> {
        "session" => session: Text<'a>,
        "metadata" => metadata: Raw<'a>,
        "messages" => messages: Raw<'a>,
        "resumes" => resumes: Raw<'a>,
        "leaf" => leaf: Text<'a>,
        "note" => note: Raw<'a>,
        "own" => is_own: Flag,
        "expires" => expires: Flag,
        "document" => is_document: Flag,
    }
}

object! {
    struct Metadata<'a> {
        "sessionId" => session: Text<'a>,
        "startTime" => started: Raw<'a>,
        "directories" => directories: Raw<'a>,
        "summary" => summary: Text<'a>,
        "forkedFrom" => forked_from: Fork<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct Fork<'a> { "sessionId" => session: Text<'a>, }
}

object! {
    struct Note<'a> {
        "note" => note: Raw<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct Slot<'a> {
        "id" => id: Text<'a>,
        "parent" => parent: Text<'a>,
        "message" => message: Raw<'a>,
        "first" => first: Raw<'a>,
        "results" => results: Text<'a>,
        "spawned" => spawned: Text<'a>,
    }
}

object! {
    struct GeminiMessage<'a> {
        "timestamp" => timestamp: Raw<'a>,
        "type" => kind: Text<'a>,
        "content" => content: Raw<'a>,
        "thoughts" => thoughts: Raw<'a>,
        "tokens" => tokens: Raw<'a>,
        "model" => model: Text<'a>,
        "toolCalls" => calls: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct Part<'a> {
        "text" => text: Text<'a>,
        "thought" => thought: Raw<'a>,
        "functionCall" => call: FunctionCall<'a>,
        "functionResponse" => response: FunctionResponse<'a>,
        "inlineData" => data: InlineData<'a>,
    }
}

object! {
    struct FunctionCall<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "args" => args: Raw<'a>,
    }
}

object! {
    struct FunctionResponse<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "response" => response: Raw<'a>,
    }
}

object! {
    struct Response<'a> {
        "output" => output: Raw<'a>,
        "error" => error: Raw<'a>,
    }
}

object! {
    struct InlineData<'a> {
        "mimeType" => media_type: Text<'a>,
        "data" => data: Text<'a>,
    }
}

object! {
    struct Thought<'a> {
        "subject" => subject: Text<'a>,
        "description" => description: Text<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "input" => input: Raw<'a>,
        "output" => output: Raw<'a>,
        "cached" => cached: Raw<'a>,
        "thoughts" => thoughts: Raw<'a>,
        "tool" => tool: Raw<'a>,
    }
}

object! {
    struct ToolCall<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "args" => args: Raw<'a>,
        "result" => result: Raw<'a>,
        "status" => status: Text<'a>,
        "agentId" => agent: Text<'a>,
    }
}

/// Beginning of the message in which the program describes its environment.
const SESSION_CONTEXT: &str = "<session_context>";

/// Beginning of the summary that replaces the conversation.
const STATE_SNAPSHOT: &str = "<state_snapshot>";

/// Line of that message before the list of directories.
const DIRECTORIES: &str = "**Workspace Directories:**";

/// Kind of the entry at which the program resumes after a rewind.
const REWIND: &str = "rewind";

/// Keys among the values that the writer needs: the log says when it was last changed; the file is one
/// document.
pub(super) const EXPIRES: &str = "expires";
pub(super) const DOCUMENT: &str = "document";

/// Types of lines that only annals reads: a message of a program, and any other entry of the conversation.
pub(super) const SYSTEM: &str = "annals_system";
pub(super) const ENTRY: &str = "annals_entry";

/// Type of a reply that the program must not send.
pub(super) const HIDDEN_REPLY: &str = "annals_gemini";

/// Decodes the derived lines of a session or sub-agent, or the lines of a log itself for a repair.
#[derive(Debug)]
pub(super) struct MessageDecoder {
    agent: Option<AgentId>,
    /// Whether the lines are those of the log.
    is_raw: bool,
    /// Whether the lines are those of a document under the name of a log.
    is_document: bool,
}

/// The entries of a line, with what only outlines have.
#[derive(Default)]
struct Decoding {
    entries: Vec<Entry>,
    facts: Vec<Fact>,
}

impl MessageDecoder {
    pub(super) fn new(artifact: &Artifact) -> Self {
        MessageDecoder {
            agent: artifact.agent.clone().filter(|_| artifact.is_agent_log()),
            is_raw: artifact.framing == Framing::Lines,
            is_document: false,
        }
    }

    /// Decodes a line. Blank and damaged lines give nothing.
    fn entries<T>(&mut self, record: &Record<'_>, out: &mut Decoded<T>) -> Decoding {
        let mut faults = Vec::new();
        if self.is_raw {
            self.is_document |= record.span.offset == 0 && record.bytes.trim_ascii() == b"{";
            if self.is_document {
                // Its lines are no records of their own.
                let body = Body::Opaque {
                    kind: None,
                    flaw: None,
                };
                let line = (!record.is_blank()).then(|| Entry::new(record.span, body));
                return Decoding {
                    entries: line.into_iter().collect(),
                    ..Decoding::default()
                };
            }
            let read = record.object_or_pieces(out, fold::is_record, |text| {
                serde_json::from_str::<Raw<'_>>(text)?;
                let derived = (fold::PATCHES.to_lines)(text.as_bytes());
                let derived = String::from_utf8_lossy(&derived);
                Ok(self.line(&Raw(Some(&derived)).parse(), record, &mut faults))
            });
            return match read {
                Ok(found) => found,
                Err(pieces) => {
                    let mut found = Decoding::default();
                    for piece in &pieces {
                        found.entries.extend(self.entries(piece, out).entries);
                    }
                    found
                }
            };
        }
        let entries = record.object(out, |text| {
            let line: Line<'_> = serde_json::from_str(text)?;
            faults.clear();
            Ok(self.line(&line, record, &mut faults))
        });
        for fault in faults {
            out.add_flaw(FlawKind::BadUsage, record.span, fault);
        }
        entries.unwrap_or_default()
    }

    fn line(&self, line: &Line<'_>, record: &Record<'_>, faults: &mut Vec<String>) -> Decoding {
        let mut facts = Vec::new();
        let mut entries = Vec::new();
        let is_entry = line.messages.is_some() || line.resumes.is_some() || line.note.is_some();
        if line.metadata.is_some() {
            let metadata: Metadata<'_> = line.metadata.parse();
            let mut entry = Entry::new(
                record.span,
                Body::Opaque {
                    kind: Some("metadata".to_owned()),
                    flaw: None,
                },
            );
            entry.time = decode_time(metadata.started);
            let directories = metadata.directories.list();
            let directory = directories.first().and_then(|first| first.text());
            entry.context.cwd = directory.map(Into::into);
            metadata.annex.apply_to_entry(&mut entry);
            let fork = metadata.forked_from.session.non_empty();
            facts.extend(fork.map(|id| Fact::Attribute("forked_from", id.into())));
            let flags = [(EXPIRES, line.expires.0), (DOCUMENT, line.is_document.0)];
            let flags = flags.into_iter().filter(|(_, is)| *is);
            facts.extend(flags.map(|(name, _)| Fact::WriterState(name.into(), "true".into())));
            // A line that only sets the title is no other entry.
            if metadata.session.get().is_some() || metadata.summary.get().is_none() {
                entries.push(entry);
            }
            entries.extend(metadata.summary.non_empty().map(|summary| {
                let source = match line.is_own.0 {
                    true => TitleSource::Custom,
                    false => TitleSource::Ai,
                };
                let text = summary.to_owned();
                Entry::new(record.span, Body::Title { text, source })
            }));
        } else if !is_entry {
            // A record that the program added later.
            let body = Body::Opaque {
                kind: None,
                flaw: None,
            };
            entries.push(Entry::new(record.span, body));
        }
        if line.note.is_some() {
            let note: Note<'_> = line.note.parse();
            let mut entry = Entry::new(record.span, annotations::body(note.note));
            entry.time = decode_time(note.timestamp);
            note.annex.apply_to_entry(&mut entry);
            entries.push(entry);
        }
        let mut resumed = None;
        if line.resumes.is_some() {
            let slot: Slot<'_> = line.resumes.parse();
            let body = Body::System {
                subtype: REWIND.to_owned(),
                text: String::new(),
            };
            let mut entry = Entry::new(record.span, body);
            entry.id = slot.id.non_empty().map(EntryId::new);
            entry.parent = slot.parent.non_empty().map(EntryId::new);
            resumed = Some(entry);
        }
        let slots = line.messages.list().into_iter();
        let slots: Vec<Slot<'_>> = slots.map(Raw::parse).collect();
        let parent = slots.first().and_then(|slot| slot.parent.non_empty());
        let parent = parent.map(EntryId::new);
        // What annals wrote after a rewind continues there.
        let is_continued = |entry: &mut Entry| entry.id.is_some() && entry.id == parent;
        entries.extend(resumed.take_if(is_continued));
        for slot in &slots {
            self.message(slot, record, &mut entries, faults);
        }
        entries.extend(resumed);
        for entry in &mut entries {
            entry.session = line.session.owned().filter(|_| self.agent.is_none());
            entry.agent.clone_from(&self.agent);
        }
        facts.extend(
            line.leaf
                .non_empty()
                .map(|id| Fact::Resume(EntryKey::from_text(id))),
        );
        Decoding { entries, facts }
    }

    fn message(
        &self,
        slot: &Slot<'_>,
        record: &Record<'_>,
        entries: &mut Vec<Entry>,
        faults: &mut Vec<String>,
    ) {
        let last: GeminiMessage<'_> = slot.message.parse();
        let first = match slot.first.is_some() {
            true => slot.first.parse(),
            false => last.clone(),
        };
        let parts = Parts::new(&last);
        let mut body = match last.kind.or_empty() {
            "user" => Body::Message(parts.user()),
            "gemini" | HIDDEN_REPLY => {
                let mut message = Message::new(Role::Assistant, parts.assistant());
                message.model = first.model.owned().or_else(|| last.model.owned());
                message.response = slot.id.owned();
                message.usage = usage(first.tokens, faults);
                Body::Message(message)
            }
            SYSTEM => Body::Message(Message::new(Role::System, Vec::new())),
            kind @ ("info" | "warning" | "error") => Body::System {
                subtype: kind.to_owned(),
                text: parts.text(),
            },
            kind => Body::Opaque {
                kind: Some(kind.to_owned()),
                flaw: None,
            },
        };
        if let Body::Message(message) = &mut body {
            message.spawned = slot
                .spawned
                .non_empty()
                .and_then(|id| AgentId::new(id).ok());
        }
        let mut entry = Entry::new(record.span, body);
        entry.context.cwd = parts.directory();
        if first.annex.program.get() == Some(PROGRAM) {
            first.annex.apply_to_entry(&mut entry);
        }
        entry.id = slot.id.non_empty().map(EntryId::new);
        entry.parent = slot.parent.non_empty().map(EntryId::new);
        entry.time = decode_time(first.timestamp).or_else(|| decode_time(last.timestamp));
        let answers = slot.results.non_empty().map(|id| {
            let mut message = Message::new(Role::User, parts.results());
            message.spawned = parts.agent();
            let mut answers = Entry::new(record.span, Body::Message(message));
            answers.id = Some(EntryId::new(id));
            answers.parent.clone_from(&entry.id);
            answers.time = entry.time;
            answers
        });
        entries.push(entry);
        entries.extend(answers);
    }
}

impl Decoder for MessageDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let mut found = self.entries(record, out);
        let outlines = found.entries.iter().map(|entry| {
            let mut outline = entry_outline::outline(entry, None);
            if matches!(&entry.body, Body::System { subtype, .. } if subtype == REWIND) {
                outline.facts.push(Fact::ResumesHere);
            }
            outline.facts.append(&mut found.facts);
            outline
        });
        out.items.extend(outlines);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let entries = self.entries(record, out).entries;
        entry_outline::push_entries(record, before, entries, out);
    }

    fn is_record(&self, object: &str) -> bool {
        fold::is_record(object)
    }
}

/// Returns whether the program would not resume a log: nobody wrote a message in it. A resume leaves such
/// a log beside the one that it continues.
pub(super) fn is_idle(entries: &[Entry]) -> bool {
    !entries.iter().any(|entry| match &entry.body {
        Body::Message(message) => !message.meta && !message.blocks.is_empty(),
        _ => false,
    })
}

/// The content of a message.
struct Parts<'a> {
    /// Text content.
    text: Option<String>,
    parts: Vec<Part<'a>>,
    thoughts: Vec<Thought<'a>>,
    calls: Vec<ToolCall<'a>>,
}

impl<'a> Parts<'a> {
    fn new(message: &GeminiMessage<'a>) -> Self {
        let parts = message.content.list().into_iter();
        let thoughts = message.thoughts.list().into_iter();
        let calls = message.calls.list().into_iter();
        Parts {
            text: message.content.text().map(Into::into),
            parts: parts.map(Raw::parse).collect(),
            thoughts: thoughts.map(Raw::parse).collect(),
            calls: calls.map(Raw::parse).collect(),
        }
    }

    /// Returns the texts, one per line.
    fn text(&self) -> String {
        let parts = self.parts.iter().filter_map(|part| part.text.get());
        let texts: Vec<&str> = self.text.as_deref().into_iter().chain(parts).collect();
        texts.join("\n")
    }

    fn blocks(&self) -> Vec<Block> {
        let text = self.text.iter().filter(|text| !text.is_empty());
        let mut blocks: Vec<Block> = text.cloned().map(Block::Text).collect();
        for part in &self.parts {
            blocks.extend(match part {
                part if part.response.response.is_some() => Some(result(&part.response, false)),
                part if part.call.name.get().is_some() => Some(Block::ToolUse {
                    id: part.call.id.or_empty().to_owned(),
                    name: part.call.name.or_empty().to_owned(),
                    input: part.call.args.0.unwrap_or("{}").to_owned(),
                }),
                part if part.data.data.get().is_some() => Some(Block::Image {
                    media_type: part.data.media_type.or_empty().to_owned(),
                    data: part.data.data.or_empty().to_owned(),
                }),
                part => part.text.owned().map(|text| match part.thought.0 {
                    Some("true") => Block::Thinking {
                        text,
                        signature: None,
                    },
                    _ => Block::Text(text),
                }),
            });
        }
        blocks
    }

    fn user(&self) -> Message {
        let mut message = Message::new(Role::User, self.blocks());
        let is_text = |block: &Block| matches!(block, Block::Text(_) | Block::Image { .. });
        let text = self.text();
        message.compact_summary = text.starts_with(STATE_SNAPSHOT);
        message.meta = message.compact_summary || text.starts_with(SESSION_CONTEXT);
        message.human = !message.meta && message.blocks.iter().any(is_text);
        message
    }

    fn assistant(&self) -> Vec<Block> {
        let thoughts = self.thoughts.iter().map(|thought| {
            let texts = [thought.subject.or_empty(), thought.description.or_empty()];
            let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            Block::Thinking {
                text: texts.join("\n"),
                signature: None,
            }
        });
        let calls = self.calls.iter().map(|call| Block::ToolUse {
            id: call.id.or_empty().to_owned(),
            name: call.name.or_empty().to_owned(),
            input: call.args.0.unwrap_or("{}").to_owned(),
        });
        thoughts.chain(self.blocks()).chain(calls).collect()
    }

    /// Returns the results stored with the calls.
    fn results(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        for call in &self.calls {
            let failed = matches!(call.status.or_empty(), "error" | "cancelled");
            let parts = call.result.list().into_iter().map(Raw::parse::<Part<'_>>);
            blocks.extend(parts.map(|part| {
                let mut response = part.response;
                if response.id.get().is_none() {
                    response.id = call.id.clone();
                }
                result(&response, failed)
            }));
        }
        blocks
    }

    /// Returns the sub-agent that a call started.
    fn agent(&self) -> Option<AgentId> {
        let mut agents = self.calls.iter().filter_map(|call| call.agent.non_empty());
        agents.next().and_then(|id| AgentId::new(id).ok())
    }

    /// Returns the working directory that the program describes.
    fn directory(&self) -> Option<String> {
        let text = self.text();
        let (_, list) = text
            .strip_prefix(SESSION_CONTEXT)?
            .split_once(DIRECTORIES)?;
        let first = list
            .trim_start()
            .lines()
            .next()?
            .trim()
            .strip_prefix("- ")?;
        first.starts_with('/').then(|| first.to_owned())
    }
}

fn result(answer: &FunctionResponse<'_>, failed: bool) -> Block {
    let response: Response<'_> = answer.response.parse();
    let value = match response.output.is_some() {
        true => response.output,
        false if response.error.is_some() => response.error,
        false => answer.response,
    };
    let text = match value.text() {
        Some(text) => text.into_owned(),
        None => value.0.unwrap_or_default().to_owned(),
    };
    Block::ToolResult {
        call: answer.id.or_empty().to_owned(),
        output: vec![Block::Text(text)],
        is_error: failed || response.error.is_some(),
    }
}

/// Returns the tokens of a reply, and describes invalid counts.
fn usage(raw: Raw<'_>, faults: &mut Vec<String>) -> Option<Usage> {
    if matches!(raw.0, None | Some("null")) {
        return None;
    }
    let tokens: Tokens<'_> = raw.parse();
    let mut count = |name: &str, raw: Raw<'_>| match decode_count(raw) {
        Some(count) => count.unwrap_or(0),
        None => {
            faults.push(format!("tokens.{name} is not a token count"));
            0
        }
    };
    let cached = count("cached", tokens.cached);
    let input = count("input", tokens.input);
    let output = count("output", tokens.output) + count("thoughts", tokens.thoughts);
    let mut usage = Usage::new(
        input.saturating_sub(cached) + count("tool", tokens.tool),
        output,
    );
    usage.cache_read = cached;
    Some(usage)
}

object! {
    struct Typed<'a> {
        "sessionId" => session: Text<'a>,
        "message" => message: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
    }
}

object! {
    struct Projects<'a> { "projects" => projects: Raw<'a>, }
}

object! {
    struct Settings<'a> { "general" => general: General<'a>, }
}

object! {
    struct General<'a> { "sessionRetention" => retention: Retention<'a>, }
}

object! {
    struct Retention<'a> { "maxAge" => max_age: Text<'a>, }
}

/// Decodes typed prompts, settings and the directories of projects.
#[derive(Debug)]
pub(super) struct DocumentDecoder(pub(super) Artifact);

impl DocumentDecoder {
    fn entry<T>(&self, record: &Record<'_>, out: &mut Decoded<T>) -> Option<Entry> {
        if let (ArtifactKind::SessionList, Some(folder)) = (self.0.kind, &self.0.folder) {
            // A file with nothing but a path.
            let directory = String::from_utf8_lossy(record.bytes);
            let directory = directory.trim();
            let is_path = directory.starts_with('/') || directory.contains(":\\");
            let rows = is_path.then(|| project(folder, directory));
            let rows = rows.into_iter().collect();
            return Some(Entry::new(record.span, Body::SessionList(rows)));
        }
        record.object(out, |text| {
            let mut time = None;
            let body = match self.0.kind {
                ArtifactKind::SessionList => {
                    let document: Projects<'_> = serde_json::from_str(text)?;
                    let projects = document.projects.0.unwrap_or("{}");
                    let Pairs(projects) = serde_json::from_str(projects).unwrap_or_default();
                    let rows = projects.iter();
                    let row = |(directory, slug): &(Cow<'_, str>, Raw<'_>)| {
                        Some(project(&slug.text()?, directory))
                    };
                    Body::SessionList(rows.filter_map(row).collect())
                }
                ArtifactKind::Settings => {
                    let settings: Settings<'_> = serde_json::from_str(text)?;
                    let age = settings.general.retention.max_age;
                    let keep_days = age.get().and_then(days);
                    Body::Settings { keep_days }
                }
                _ => {
                    let typed: Typed<'_> = serde_json::from_str(text)?;
                    time = decode_time(typed.timestamp);
                    Body::TypedPrompt {
                        text: typed.message.or_empty().to_owned(),
                        project: None,
                        session: typed.session.owned(),
                        pasted: false,
                    }
                }
            };
            let mut entry = Entry::new(record.span, body);
            entry.time = time;
            Ok(entry)
        })
    }
}

impl Decoder for DocumentDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let entry = self.entry(record, out);
        let outline = entry.map(|entry| entry_outline::outline(&entry, None));
        out.items.extend(outline);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let entry = self.entry(record, out);
        entry_outline::push_entries(record, before, entry, out);
    }
}

fn project(folder: &str, directory: &str) -> ListRow {
    ListRow {
        cwd: Some(directory.to_owned()),
        ..ListRow::new(ListSubject::Folder(folder.to_owned()))
    }
}

/// Parses an age such as `30d`, `4w` or `12h`.
fn days(age: &str) -> Option<u64> {
    let (number, unit) = age.split_at_checked(age.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "h" => Some(number / 24),
        "d" => Some(number),
        "w" => number.checked_mul(7),
        "m" => number.checked_mul(30),
        _ => None,
    }
}
