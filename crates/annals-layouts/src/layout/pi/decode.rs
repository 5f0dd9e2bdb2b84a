//! Decodes the lines of a log.

use crate::json::{Flag, Pairs, Raw, Text, object};
use crate::layout::extension::Extension;
use crate::layout::usage_fields::{decode_count, decode_time, recorded_cost};
use crate::layout::{Decoded, Decoder, PROGRAM, Record, annotations, entry_outline};
use crate::model::{
    Block, Body, Entry, EntryId, EntryKey, Fact, FlawKind, Link, Message, Money, Outline, Role,
    Span, TitleSource, Usage,
};

object! {
    struct Line<'a> {
        "type" => kind: Text<'a>,
        "version" => version: Raw<'a>,
        "id" => id: Text<'a>,
        "parentId" => parent: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "cwd" => cwd: Text<'a>,
        "parentSession" => forked_from: Text<'a>,
        "message" => message: Raw<'a>,
        "summary" => summary: Text<'a>,
        "firstKeptEntryId" => first_kept: Text<'a>,
        "usage" => usage: Raw<'a>,
        "name" => name: Text<'a>,
        "label" => label: Text<'a>,
        "content" => content: Raw<'a>,
        "customType" => custom_type: Text<'a>,
        "data" => data: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct PiMessage<'a> {
        "role" => role: Text<'a>,
        "content" => content: Raw<'a>,
        "sections" => sections: Raw<'a>,
        "api" => api: Text<'a>,
        "model" => model: Text<'a>,
        "usage" => usage: Raw<'a>,
        "stopReason" => stop_reason: Text<'a>,
        "errorMessage" => error: Text<'a>,
        "toolCallId" => call: Text<'a>,
        "isError" => is_error: Flag,
        "command" => command: Text<'a>,
        "output" => output: Text<'a>,
        "summary" => summary: Text<'a>,
    }
}

object! {
    struct Part<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Text<'a>,
        "thinking" => thinking: Text<'a>,
        "thinkingSignature" => signature: Text<'a>,
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "arguments" => arguments: Raw<'a>,
        "mimeType" => media_type: Text<'a>,
        "data" => data: Text<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "input" => input: Raw<'a>,
        "output" => output: Raw<'a>,
        "cacheRead" => cache_read: Raw<'a>,
        "cacheWrite" => cache_write: Raw<'a>,
        "cacheWrite1h" => one_hour: Raw<'a>,
    }
}

object! {
    struct Billed<'a> { "cost" => cost: Cost<'a>, }
}

object! {
    struct Cost<'a> { "total" => total: Raw<'a>, }
}

/// API whose signatures of thinking are those of the model's vendor.
pub(super) const ANTHROPIC: &str = "anthropic-messages";

/// Type of the header.
pub(super) const HEADER: &str = "session";

/// Key of the version of the format among the values that the writer needs.
pub(super) const VERSION: &str = "version";

/// Type of a message.
pub(super) const MESSAGE: &str = "message";

/// `customType` of lines that only annals reads.
pub(super) const CUSTOM_TYPE: &str = "annals";

/// Model of a reply by annals whose model is not known.
pub(super) const UNKNOWN_MODEL: &str = "unknown";

/// Beginning of the id of an entry that has none in the log. Its position follows.
const AT: &str = "at-";

/// Decodes the lines of a log.
#[derive(Debug)]
pub(super) struct LineDecoder;

/// A decoded entry, with what only its outline has.
struct PiEntry {
    entry: Entry,
    /// Cost that the program recorded.
    recorded: Option<Money>,
    /// Log that this one was forked from.
    forked_from: Option<String>,
    /// First entry that the program sends after the summary of this compaction.
    kept_from: Option<EntryKey>,
    /// Version of the format, in a header.
    version: Option<u64>,
}

impl From<Entry> for PiEntry {
    fn from(entry: Entry) -> Self {
        PiEntry {
            entry,
            recorded: None,
            forked_from: None,
            kept_from: None,
            version: None,
        }
    }
}

/// Returns whether a record has no id although the header `first` is of a version with ids.
pub(super) fn lacks_id(first: &str, record: &str) -> bool {
    let header: Line<'_> = Raw(Some(first)).parse();
    let line: Line<'_> = Raw(Some(record)).parse();
    let version = header.version.count().ok().flatten();
    version > Some(1) && line.kind.get() != Some(HEADER) && line.id.non_empty().is_none()
}

fn is_record(object: &str) -> bool {
    let line: Line<'_> = Raw(Some(object)).parse();
    line.kind.non_empty().is_some() && line.timestamp.is_some()
}

/// Returns the entries of a record, and of the records that a damaged line contains.
fn entries<T>(record: &Record<'_>, out: &mut Decoded<T>) -> Vec<PiEntry> {
    let before = out.flaws.len();
    let mut fault = None;
    let read = record.object_or_pieces(out, is_record, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        fault = None;
        Ok(line_entries(&line, record.span, &mut fault))
    });
    match read {
        Ok(entries) => {
            if let Some(fault) = fault {
                out.add_flaw(FlawKind::BadUsage, record.span, fault);
            }
            entries
        }
        Err(_) if record.is_blank() => Vec::new(),
        Err(pieces) => {
            let flaw = out.flaws.get(before).map(|flaw| flaw.kind);
            let damaged = Entry::new(record.span, Body::Opaque { kind: None, flaw });
            let mut found = vec![PiEntry::from(damaged)];
            found.extend(pieces.iter().flat_map(|piece| entries(piece, out)));
            found
        }
    }
}

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let found = entries(record, out).into_iter();
        let readable =
            |found: &PiEntry| !matches!(found.entry.body, Body::Opaque { flaw: Some(_), .. });
        for found in found.filter(readable) {
            let mut outline = entry_outline::outline(&found.entry, found.recorded);
            if found.entry.derived_id {
                // Logs of the first version have neither ids nor parents.
                if found.entry.parent.is_none() {
                    outline.link = Link::Previous;
                }
            } else if found.entry.id.is_some() {
                outline.facts.push(Fact::ResumesHere);
            }
            let fork = found.forked_from.as_deref();
            let fork = fork.map(|id| Fact::Attribute("forked_from", id.into()));
            outline.facts.extend(fork);
            outline.facts.extend(found.kept_from.map(Fact::KeptFrom));
            let version = found.version.map(|version| version.to_string());
            let version = version.map(|it| Fact::WriterState(VERSION.into(), it.into()));
            outline.facts.extend(version);
            out.items.push(outline);
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let found = entries(record, out).into_iter();
        out.items.extend(found.map(|found| found.entry));
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }
}

fn line_entries(line: &Line<'_>, span: Span, fault: &mut Option<String>) -> Vec<PiEntry> {
    let kind = line.kind.or_empty();
    let mut recorded = None;
    let mut spent = None;
    let body = match kind {
        MESSAGE => {
            let message: PiMessage<'_> = line.message.parse();
            let (mut message, cost) = message_body(&message, fault);
            recorded = cost;
            message.response = message.usage.map(|_| response_key(line));
            if line.annex.program.get() == Some(PROGRAM) {
                // Placeholders: the format requires a value that annals does not have.
                message.stop_reason = None;
                message.model = message.model.filter(|model| model != UNKNOWN_MODEL);
            }
            Body::Message(message)
        }
        "custom" if line.custom_type.get() == Some(CUSTOM_TYPE) => {
            match (line.annex.kind.get(), line.data.is_some()) {
                (Some(MESSAGE), _) => Body::Message(Message::new(Role::System, Vec::new())),
                (Some("assistant"), _) => {
                    let mut message = Message::new(Role::Assistant, Vec::new());
                    let has_usage = line.annex.usage.is_some();
                    message.response = has_usage.then(|| response_key(line));
                    Body::Message(message)
                }
                (_, true) => annotations::body(line.data),
                _ => Body::Opaque {
                    kind: line.kind.owned(),
                    flaw: None,
                },
            }
        }
        // The compaction before it has a line of its own.
        "compaction" if line.annex.compact.0 => Body::Message(sent(vec![text(&line.summary)])),
        "compaction" => {
            spent = usage(line.usage, fault);
            Body::Compaction {
                text: String::new(),
            }
        }
        "branch_summary" => Body::Message(sent(vec![text(&line.summary)])),
        "custom_message" => Body::Message(sent(blocks(line.content, false))),
        "session_info" => Body::Title {
            text: line.name.or_empty().to_owned(),
            source: TitleSource::Custom,
        },
        "label" => Body::Tag {
            text: line.label.or_empty().to_owned(),
        },
        _ => Body::Opaque {
            kind: line.kind.owned(),
            flaw: None,
        },
    };
    let is_message = matches!(body, Body::Message(_) | Body::Compaction { .. });
    let time = decode_time(line.timestamp);
    let entry = |body: Body| {
        let mut entry = Entry::new(span, body);
        entry.time = time;
        entry
    };
    let mut first = PiEntry::from(entry(body));
    first.recorded = recorded;
    if kind == HEADER {
        first.entry.context.cwd = line.cwd.owned();
        line.annex.apply_to_entry(&mut first.entry);
        first.version = Some(line.version.count().ok().flatten().unwrap_or(1));
        first.forked_from = line.forked_from.get().and_then(session_of_log);
        return vec![first];
    }
    first.entry.id = line.id.non_empty().map(EntryId::new);
    first.entry.parent = line.parent.non_empty().map(EntryId::new);
    if first.entry.id.is_none() && is_message {
        first.entry.id = Some(EntryId::new(&format!("{AT}{}", span.offset)));
        first.entry.derived_id = true;
    }
    line.annex.apply_to_entry(&mut first.entry);
    let id = first.entry.id.clone();
    if kind == "compaction" && !line.annex.compact.0 {
        let kept = line.first_kept.non_empty();
        first.kept_from = kept.map(EntryKey::from_text);
    }
    let mut found = vec![first];
    if let Some(id) = id.filter(|_| kind == "compaction" && !line.annex.compact.0) {
        let mut message = sent(vec![text(&line.summary)]);
        message.compact_summary = true;
        let mut summary = entry(Body::Message(message));
        summary.id = Some(EntryId::new(&format!("{id}-summary")));
        summary.parent = Some(id);
        found.push(PiEntry::from(summary));
    }
    if let Some((usage, recorded)) = spent {
        // Recorded cost of the summary's response. The record does not name the model.
        let mut message = Message::new(Role::Assistant, Vec::new());
        message.usage = Some(usage);
        message.response = Some(response_key(line));
        found.push(PiEntry {
            recorded,
            ..PiEntry::from(entry(Body::Message(message)))
        });
    }
    found
}

/// Returns what identifies a response in the log and in its forks. A fork by annals names the entries
/// that have no id in the log, so such a name does not identify the response.
fn response_key(line: &Line<'_>) -> String {
    let time = line.timestamp.0.unwrap_or_default();
    let id = line.id.get().filter(|id| !is_from_position(id));
    format!("{}-{time}", id.unwrap_or_default())
}

/// Returns whether an id was made from the position of an entry.
fn is_from_position(id: &str) -> bool {
    let digits = id.strip_prefix(AT);
    digits.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the session whose log has this path.
fn session_of_log(path: &str) -> Option<String> {
    let file = path.rsplit(['/', '\\']).next()?;
    let stem = file.strip_suffix(".jsonl").unwrap_or(file);
    let id = stem.split_once('_').map_or(stem, |(_, id)| id);
    Some(id.to_owned())
}

fn message_body(given: &PiMessage<'_>, fault: &mut Option<String>) -> (Message, Option<Money>) {
    let own_thinking = given.api.get() == Some(ANTHROPIC);
    let content = || blocks(given.content, own_thinking);
    let mut recorded = None;
    let message = match given.role.or_empty() {
        "user" => {
            let mut message = Message::new(Role::User, content());
            message.human = true;
            message
        }
        "assistant" => {
            let mut message = Message::new(Role::Assistant, content());
            message.model = given.model.owned();
            message.stop_reason = given.stop_reason.owned();
            let spent = usage(given.usage, fault);
            message.usage = spent.map(|(usage, _)| usage);
            recorded = spent.and_then(|(_, cost)| cost);
            if given.stop_reason.get() == Some("error") {
                message.api_error = true;
                message.blocks.extend(given.error.owned().map(Block::Text));
            }
            message
        }
        "toolResult" => {
            let result = Block::ToolResult {
                call: given.call.or_empty().to_owned(),
                output: content(),
                is_error: given.is_error.0,
            };
            Message::new(Role::User, vec![result])
        }
        "system" => {
            let sections: Pairs<'_> = given.sections.parse();
            let sections = sections.0.iter().filter_map(|(_, text)| text.text());
            let sections = sections.map(|text| Block::Text(text.into_owned()));
            let own = content().into_iter();
            let own = own.filter(|block| *block != Block::Text(String::new()));
            Message::new(Role::System, own.chain(sections).collect())
        }
        "bashExecution" => {
            let ran = format!(
                "$ {}\n{}",
                given.command.or_empty(),
                given.output.or_empty()
            );
            sent(vec![Block::Text(ran)])
        }
        _ if given.summary.get().is_some() => sent(vec![text(&given.summary)]),
        _ => sent(content()),
    };
    (message, recorded)
}

/// Returns a message that the program sends in the user's name.
fn sent(blocks: Vec<Block>) -> Message {
    let mut message = Message::new(Role::User, blocks);
    message.meta = true;
    message
}

fn text(text: &Text<'_>) -> Block {
    Block::Text(text.or_empty().to_owned())
}

fn blocks(content: Raw<'_>, own_thinking: bool) -> Vec<Block> {
    if let Some(text) = content.text() {
        return vec![Block::Text(text.into_owned())];
    }
    let parts = content.list().into_iter().map(Raw::parse::<Part<'_>>);
    let blocks = parts.filter_map(|part| match part.kind.or_empty() {
        "text" => part.text.owned().map(Block::Text),
        "thinking" => part.thinking.owned().map(|text| Block::Thinking {
            text,
            signature: part.signature.owned().filter(|_| own_thinking),
        }),
        "toolCall" => Some(Block::ToolUse {
            id: part.id.or_empty().to_owned(),
            name: part.name.or_empty().to_owned(),
            input: part.arguments.0.unwrap_or("{}").to_owned(),
        }),
        "image" => Some(Block::Image {
            media_type: part.media_type.or_empty().to_owned(),
            data: part.data.or_empty().to_owned(),
        }),
        _ => None,
    });
    blocks.collect()
}

/// Returns the tokens of a response and their recorded cost; `None` if there are no tokens. Invalid
/// values are described.
fn usage(raw: Raw<'_>, fault: &mut Option<String>) -> Option<(Usage, Option<Money>)> {
    let tokens: Tokens<'_> = raw.parse();
    let mut count = |name: &str, raw: Raw<'_>| {
        let count = decode_count(raw);
        if count.is_none() {
            *fault = Some(format!("usage.{name} is not a token count"));
        }
        count.flatten().unwrap_or(0)
    };
    let written = count("cacheWrite", tokens.cache_write);
    let one_hour = count("cacheWrite1h", tokens.one_hour);
    let mut usage = Usage::new(count("input", tokens.input), count("output", tokens.output));
    usage.cache_read = count("cacheRead", tokens.cache_read);
    usage.cache_write_1h = one_hour;
    usage.cache_write_5m = written.saturating_sub(one_hour);
    let billed: Billed<'_> = raw.parse();
    let (cost, bad_cost) = recorded_cost("usage.cost.total", billed.cost.total);
    if bad_cost.is_some() {
        *fault = bad_cost;
    }
    let cost = cost.filter(|cost| *cost != Money::default());
    (!usage.is_zero()).then_some((usage, cost))
}
