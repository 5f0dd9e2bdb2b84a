//! Decodes records made from rows.

use crate::json::{Flag, Raw, Text, object};
use crate::layout::todos::decode_todo;
use crate::layout::usage_fields::{decode_count, decode_time};
use crate::layout::{
    AGENT_SEPARATOR, Decoded, Decoder, PROGRAM, Record, annotations, entry_outline,
};
use crate::model::{
    AgentId, Artifact, Block, Body, Entry, EntryId, Fact, FlawKind, Link, Message, Money, Outline,
    Role, SessionId, Span, TitleSource, Usage,
};

use super::artifact;

object! {
    struct Row<'a> {
        "type" => kind: Text<'a>,
        "session" => session: Text<'a>,
        "id" => id: Text<'a>,
        "directory" => directory: Text<'a>,
        "title" => title: Text<'a>,
        "version" => version: Text<'a>,
        "agent" => agent: Text<'a>,
        "slug" => slug: Text<'a>,
        "created" => created: Raw<'a>,
        "started" => started: Raw<'a>,
        "data" => data: Raw<'a>,
        "parts" => parts: Raw<'a>,
        "parent" => parent: Text<'a>,
        "results" => results: Raw<'a>,
        "todos" => todos: Raw<'a>,
    }
}

object! {
    struct MessageData<'a> {
        "role" => role: Text<'a>,
        "path" => path: Directory<'a>,
        "modelID" => model: Text<'a>,
        "cost" => cost: Raw<'a>,
        "tokens" => tokens: Raw<'a>,
        "finish" => finish: Text<'a>,
        "error" => error: Failure<'a>,
        "summary" => summary: Raw<'a>,
        "annals" => own: OwnMembers<'a>,
    }
}

object! {
    struct OwnMembers<'a> {
        "program" => program: Text<'a>,
        "origin" => origin: Raw<'a>,
    }
}

object! {
    struct Directory<'a> { "cwd" => cwd: Text<'a>, }
}

object! {
    struct Failure<'a> {
        "name" => name: Text<'a>,
        "data" => data: FailureData<'a>,
    }
}

object! {
    struct FailureData<'a> { "message" => message: Text<'a>, }
}

object! {
    struct Tokens<'a> {
        "input" => input: Raw<'a>,
        "output" => output: Raw<'a>,
        "reasoning" => reasoning: Raw<'a>,
        "cache" => cache: CacheTokens<'a>,
    }
}

object! {
    struct CacheTokens<'a> {
        "read" => read: Raw<'a>,
        "write" => write: Raw<'a>,
    }
}

object! {
    struct PartRow<'a> { "data" => data: Raw<'a>, }
}

object! {
    struct PartData<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Text<'a>,
        "synthetic" => synthetic: Flag,
        "tool" => tool: Text<'a>,
        "callID" => call: Text<'a>,
        "state" => state: State<'a>,
        "mime" => mime: Text<'a>,
        "url" => url: Text<'a>,
        "note" => note: Raw<'a>,
    }
}

object! {
    struct Note<'a> {
        "id" => id: Text<'a>,
        "createdAt" => created: Raw<'a>,
    }
}

object! {
    struct State<'a> {
        "status" => status: Text<'a>,
        "input" => input: Raw<'a>,
        "output" => output: Raw<'a>,
        "error" => error: Text<'a>,
        "metadata" => metadata: ToolMetadata<'a>,
    }
}

object! {
    struct ToolMetadata<'a> { "sessionId" => session: Text<'a>, }
}

/// Beginnings of titles that the program gives to sessions without one.
const PLACEHOLDERS: [&str; 2] = ["New session - ", "Child session - "];

/// Type of a part with reasoning that the program skips.
pub(super) const REASONING: &str = "annals-reasoning";

/// Ending of the id of the entry with the results of a message.
pub(super) const RESULTS: &str = "-results";

/// Origin of a message that a conversion wrote.
pub(super) const GENERATED: &str = "{}";

/// Type of a part with an annotation, which the program skips.
pub(super) const NOTE: &str = "annals-note";

/// Beginning of the slug of a session that annals began.
const SLUG: &str = "annals-";

/// Kind of the entry at which the program resumes a reverted session.
const REVERT: &str = "revert";

/// Decodes records made from rows.
#[derive(Debug)]
pub(super) struct RowDecoder;

/// A decoded entry, with what only an outline has.
struct RowEntry {
    entry: Entry,
    /// Cost that the program recorded.
    recorded: Option<Money>,
    /// Whether it follows the entry before it.
    follows: bool,
}

impl From<Entry> for RowEntry {
    fn from(entry: Entry) -> Self {
        RowEntry {
            entry,
            recorded: None,
            follows: false,
        }
    }
}

impl Decoder for RowDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        for found in entries(record, out) {
            let mut outline = entry_outline::outline(&found.entry, found.recorded);
            if found.follows {
                outline.link = Link::Previous;
            }
            match &found.entry.body {
                Body::System { subtype, .. } if subtype == REVERT => {
                    outline.facts.push(Fact::ResumesHere);
                }
                Body::Todos(_) => outline.facts.push(Fact::Todos),
                _ => {}
            }
            out.items.push(outline);
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let entries = entries(record, out).into_iter().map(|found| found.entry);
        let entries: Vec<Entry> = entries.collect();
        entry_outline::push_entries(record, before, entries, out);
    }

    /// The rows of a conversion name its origin in a column, and other records in a member.
    fn full_record(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(record.bytes).ok()?;
        let row: Row<'_> = serde_json::from_str(text).ok()?;
        let data: MessageData<'_> = row.data.parse();
        let origin = data.own.origin.0.filter(|origin| *origin == GENERATED)?;
        let rest = record.bytes.strip_suffix(b"}")?;
        Some([rest, b",\"origin\":", origin.as_bytes(), b"}"].concat())
    }
}

fn entries<T>(record: &Record<'_>, out: &mut Decoded<T>) -> Vec<RowEntry> {
    let mut flaws = Vec::new();
    let entries = record.object(out, |text| {
        let row: Row<'_> = serde_json::from_str(text)?;
        flaws.clear();
        let mut found = match row.kind.or_empty() {
            "session" => session(&row, record.span),
            "revert" => vec![revert(&row, record.span)],
            "todos" => {
                let todos = row.todos.list().into_iter();
                let todos = todos.map(|todo| decode_todo(&todo.parse()));
                let body = Body::Todos(todos.collect());
                vec![RowEntry::from(Entry::new(record.span, body))]
            }
            _ => message(&row, record.span, &mut flaws),
        };
        let Artifact { session, agent, .. } = artifact(row.session.or_empty());
        for RowEntry { entry, .. } in &mut found {
            entry.session = session.as_ref().map(SessionId::to_string);
            entry.agent.clone_from(&agent);
            entry.time = entry.time.or_else(|| decode_time(row.created));
            // Only a fork has messages that are older than their session.
            let started = decode_time(row.started);
            entry.copied = started
                .zip(entry.time)
                .is_some_and(|(started, time)| time < started);
        }
        Ok(found)
    });
    for (kind, detail) in flaws {
        out.add_flaw(kind, record.span, detail);
    }
    entries.unwrap_or_default()
}

fn session(row: &Row<'_>, span: Span) -> Vec<RowEntry> {
    let title = row.title.non_empty();
    let title = title.filter(|title| !PLACEHOLDERS.iter().any(|it| title.starts_with(it)));
    let is_agent = row.session.or_empty().contains(AGENT_SEPARATOR);
    let mut entry = Entry::new(
        span,
        match is_agent {
            true => Body::Agent {
                kind: row.agent.owned(),
                description: title.map(str::to_owned),
                call: None,
            },
            false => Body::Opaque {
                kind: Some("session".to_owned()),
                flaw: None,
            },
        },
    );
    entry.context.cwd = row.directory.owned();
    entry.context.version = row.version.owned();
    let is_ours = row.slug.or_empty().starts_with(SLUG);
    entry.program = is_ours.then(|| PROGRAM.to_owned());
    let title = title.filter(|_| !is_agent).map(|title| {
        let (text, source) = (title.to_owned(), TitleSource::Ai);
        let mut entry = Entry::new(span, Body::Title { text, source });
        entry.program = is_ours.then(|| PROGRAM.to_owned());
        entry
    });
    let entries = std::iter::once(entry).chain(title);
    entries.map(RowEntry::from).collect()
}

/// Returns the entry at which the program resumes a reverted session.
fn revert(row: &Row<'_>, span: Span) -> RowEntry {
    let body = Body::System {
        subtype: REVERT.to_owned(),
        text: String::new(),
    };
    let mut entry = Entry::new(span, body);
    let id = format!("{}-{REVERT}", row.id.or_empty());
    entry.id = Some(EntryId::new(&id));
    let has_results = !matches!(row.results.0, None | Some("null" | "0"));
    entry.parent = row.parent.non_empty().map(|parent| match has_results {
        true => EntryId::new(&format!("{parent}{RESULTS}")),
        false => EntryId::new(parent),
    });
    RowEntry::from(entry)
}

fn message(row: &Row<'_>, span: Span, flaws: &mut Vec<(FlawKind, String)>) -> Vec<RowEntry> {
    let data: MessageData<'_> = row.data.parse();
    let mut damaged = usize::from(!is_object(row.data));
    let parts = row.parts.list().into_iter().map(Raw::parse::<PartRow<'_>>);
    let parts: Vec<PartData<'_>> = parts
        .map(|part| {
            damaged += usize::from(!is_object(part.data));
            part.data.parse()
        })
        .collect();
    if damaged > 0 {
        let detail = "a column of the message or of its parts is not a JSON object";
        flaws.push((FlawKind::BadDocument, detail.to_owned()));
    }
    let is_compaction = |part: &PartData<'_>| part.kind.get() == Some("compaction");
    let mut results = None;
    let mut recorded = None;
    let body = match data.role.or_empty() {
        "user" if parts.iter().any(is_compaction) => Body::Compaction {
            text: String::new(),
        },
        "user" => Body::Message(prompt(&parts)),
        "assistant" => {
            let mut message = Message::new(Role::Assistant, reply_blocks(&parts));
            message.model = data.model.owned();
            message.stop_reason = data.finish.owned();
            message.compact_summary = data.summary.0 == Some("true");
            if let Some(name) = data.error.name.get() {
                message.api_error = true;
                let text = data.error.data.message.get().unwrap_or(name);
                message.blocks.push(Block::Text(text.to_owned()));
            }
            let mut faults = Vec::new();
            message.usage = usage(&data, &mut faults);
            flaws.extend(faults.into_iter().map(|fault| (FlawKind::BadUsage, fault)));
            message.response = message.usage.map(|usage| {
                let counts = usage.counters().map(|count| count.to_string());
                let (created, model) = (row.created.0.unwrap_or_default(), data.model.or_empty());
                format!("{created}-{model}-{}", counts.join("-"))
            });
            recorded = data.cost.0.and_then(Money::parse);
            recorded = recorded.filter(|cost| *cost != Money::default());
            results = tool_results(&parts);
            Body::Message(message)
        }
        role => Body::Opaque {
            kind: Some(role.to_owned()),
            flaw: None,
        },
    };
    let mut entry = Entry::new(span, body);
    entry.id = row.id.non_empty().map(EntryId::new);
    entry.context.cwd = data.path.cwd.owned();
    entry.program = data.own.program.owned();
    let results = results.map(|message| {
        let mut results = Entry::new(span, Body::Message(message));
        results.program.clone_from(&entry.program);
        results.id = entry
            .id
            .as_ref()
            .map(|id| EntryId::new(&format!("{id}{RESULTS}")));
        results
    });
    let notes = parts.iter().filter(|part| part.kind.get() == Some(NOTE));
    let notes: Vec<Entry> = notes.map(|part| note(part, span)).collect();
    let entries = std::iter::once(entry).chain(results).chain(notes);
    let follow = |entry: Entry| RowEntry {
        follows: entry.id.is_some()
            && matches!(entry.body, Body::Message(_) | Body::Compaction { .. }),
        recorded: recorded
            .filter(|_| matches!(&entry.body, Body::Message(it) if it.role == Role::Assistant)),
        entry,
    };
    entries.map(follow).collect()
}

/// Returns the annotation in a part.
fn note(part: &PartData<'_>, span: Span) -> Entry {
    let note: Note<'_> = part.note.parse();
    let mut entry = Entry::new(span, annotations::body(part.note));
    entry.id = note.id.non_empty().map(EntryId::new);
    entry.time = decode_time(note.created);
    entry.program = Some(PROGRAM.to_owned());
    entry
}

fn is_object(raw: Raw<'_>) -> bool {
    raw.0.is_some_and(|raw| raw.starts_with('{'))
}

fn prompt(parts: &[PartData<'_>]) -> Message {
    let blocks = parts.iter().filter_map(|part| match part.kind.or_empty() {
        "text" => part.text.owned().map(Block::Text),
        "file" => Some(Block::Image {
            media_type: part.mime.or_empty().to_owned(),
            data: part.url.or_empty().to_owned(),
        }),
        _ => None,
    });
    let mut message = Message::new(Role::User, blocks.collect());
    let typed = |part: &PartData<'_>| part.kind.get() == Some("text") && !part.synthetic.0;
    message.human = parts.iter().any(typed);
    message.meta = !message.human;
    message
}

fn reply_blocks(parts: &[PartData<'_>]) -> Vec<Block> {
    let blocks = parts.iter().filter_map(|part| match part.kind.or_empty() {
        "text" => part.text.owned().map(Block::Text),
        "reasoning" | REASONING => part.text.owned().map(|text| Block::Thinking {
            text,
            signature: None,
        }),
        "tool" => Some(Block::ToolUse {
            id: part.call.or_empty().to_owned(),
            name: part.tool.or_empty().to_owned(),
            input: part.state.input.0.unwrap_or("{}").to_owned(),
        }),
        _ => None,
    });
    blocks.collect()
}

/// Returns the results of a message's calls; `None` if no call has ended.
fn tool_results(parts: &[PartData<'_>]) -> Option<Message> {
    let ended = |part: &&PartData<'_>| {
        part.kind.get() == Some("tool")
            && matches!(part.state.status.or_empty(), "completed" | "error")
    };
    let ended = parts.iter().filter(ended);
    let results = ended.clone().map(|part| {
        let is_error = part.state.status.get() == Some("error");
        let text = match part.state.output.text() {
            Some(text) => text.into_owned(),
            None if is_error => part.state.error.or_empty().to_owned(),
            None => part.state.output.0.unwrap_or_default().to_owned(),
        };
        Block::ToolResult {
            call: part.call.or_empty().to_owned(),
            output: vec![Block::Text(text)],
            is_error,
        }
    });
    let mut message = Message::new(Role::User, results.collect());
    let mut agents = ended.filter_map(|part| part.state.metadata.session.non_empty());
    message.spawned = agents.find_map(|id| AgentId::new(id).ok());
    (!message.blocks.is_empty()).then_some(message)
}

/// Returns the tokens of a reply; `None` if there are none. Invalid counts are described.
fn usage(data: &MessageData<'_>, faults: &mut Vec<String>) -> Option<Usage> {
    let tokens: Tokens<'_> = data.tokens.parse();
    let mut count = |name: &str, raw: Raw<'_>| match decode_count(raw) {
        Some(count) => count.unwrap_or(0),
        None => {
            faults.push(format!("tokens.{name} is not a token count"));
            0
        }
    };
    let output = count("output", tokens.output) + count("reasoning", tokens.reasoning);
    let mut usage = Usage::new(count("input", tokens.input), output);
    usage.cache_write_5m = count("cache.write", tokens.cache.write);
    usage.cache_read = count("cache.read", tokens.cache.read);
    (!usage.is_zero()).then_some(usage)
}
