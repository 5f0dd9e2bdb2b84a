//! Derived lines of one shape, for layouts whose records are folded before they are decoded.
//!
//! A fold turns each record of a program into a [`DerivedLine`], and [`LineDecoder`] decodes it. All
//! members are optional:
//!
//! | member | meaning |
//! |---|---|
//! | `session` | the session, or `SESSION--agent-AGENT` |
//! | `id`, `parent` | ids of the entry and of the one before it |
//! | `resumes` | the program would resume here if nothing followed |
//! | `time`, `cwd`, `branch`, `version` | as in the record |
//! | `kind` | `message`, `compaction`, `notice`, `title`, `agent`, `typed` (a prompt in a file of its own), or the record's type |
//! | `role`, `blocks` | role, and blocks in the format of Anthropic's API |
//! | `human`, `meta`, `summary`, `error` | flags of a message |
//! | `model`, `response`, `stop` | of a reply |
//! | `usage` | `[input, cache reads, cache writes, output]`; input excludes the cache, output includes reasoning |
//! | `recorded` | cost in dollars that the program recorded |
//! | `fault` | why tokens could not be read |
//! | `spawned` | sub-agent that did the work of the call that the message answers |
//! | `text`, `label` | text of a notice, title, agent or typed prompt; its kind |
//! | `custom` | a person gave the title |
//! | `call` | call that started the agent |
//! | `forked_from` | session that this one was forked from |
//! | `note` | an annotation, in an entry of the kind `note`: see `annotations.rs` |
//! | `annals` | the member `annals` of the record: see `extension.rs`. Its id and parent do not count |
//! | `more` | further entries of the record, in the same form |
//! | `record` | the record itself |
//!
//! A line that a fold could not parse is kept as it is, and the decoder reports it.

use std::collections::HashMap;

use crate::json::{Flag, Raw, Text, object, quote};
use crate::model::{
    AgentId, Block, Body, Entry, EntryId, Fact, FlawKind, Message, Money, Outline, Role, Span,
    TitleSource, Usage,
};

use super::extension::Extension;
use super::usage_fields::{decode_count, decode_time};
use super::{Decoded, Decoder, Record, annotations, content, entry_outline};

object! {
    struct Line<'a> {
        "session" => session: Text<'a>,
        "id" => id: Text<'a>,
        "parent" => parent: Text<'a>,
        "resumes" => resumes: Flag,
        "time" => time: Raw<'a>,
        "cwd" => cwd: Text<'a>,
        "branch" => branch: Text<'a>,
        "version" => version: Text<'a>,
        "kind" => kind: Text<'a>,
        "role" => role: Text<'a>,
        "blocks" => blocks: Raw<'a>,
        "human" => human: Flag,
        "meta" => meta: Flag,
        "summary" => summary: Flag,
        "error" => error: Flag,
        "model" => model: Text<'a>,
        "response" => response: Text<'a>,
        "stop" => stop: Text<'a>,
        "usage" => usage: Raw<'a>,
        "recorded" => recorded: Raw<'a>,
        "fault" => fault: Text<'a>,
        "spawned" => spawned: Text<'a>,
        "text" => text: Text<'a>,
        "label" => label: Text<'a>,
        "custom" => custom: Flag,
        "call" => call: Text<'a>,
        "forked_from" => forked_from: Text<'a>,
        "note" => note: Raw<'a>,
        "annals" => annex: Raw<'a>,
        "more" => more: Raw<'a>,
    }
}

/// Uncached input, cache reads, cache writes and output.
pub(super) type Counts = [u64; 4];

/// A line that a fold makes of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct DerivedLine<'a> {
    pub(super) session: Option<String>,
    pub(super) id: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) resumes: bool,
    /// JSON of the time.
    pub(super) time: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) version: Option<String>,
    pub(super) kind: String,
    pub(super) role: &'static str,
    /// JSON texts of the blocks.
    pub(super) blocks: Vec<String>,
    pub(super) human: bool,
    pub(super) meta: bool,
    pub(super) summary: bool,
    pub(super) error: bool,
    pub(super) model: Option<String>,
    pub(super) response: Option<String>,
    pub(super) stop: Option<String>,
    pub(super) usage: Option<Counts>,
    /// JSON of the cost.
    pub(super) recorded: Option<String>,
    pub(super) fault: Option<String>,
    pub(super) spawned: Option<String>,
    pub(super) text: Option<String>,
    pub(super) label: Option<String>,
    pub(super) custom: bool,
    pub(super) call: Option<String>,
    pub(super) forked_from: Option<String>,
    pub(super) note: Raw<'a>,
    pub(super) annex: Raw<'a>,
    pub(super) more: Vec<DerivedLine<'a>>,
    pub(super) record: Raw<'a>,
}

impl<'a> DerivedLine<'a> {
    /// Creates a line of a kind.
    pub(super) fn new(kind: &str) -> Self {
        DerivedLine {
            kind: kind.to_owned(),
            ..DerivedLine::default()
        }
    }

    /// Creates the line of a message.
    pub(super) fn message(role: &'static str, blocks: Vec<String>) -> Self {
        DerivedLine {
            role,
            blocks,
            ..DerivedLine::new("message")
        }
    }

    /// Creates the line of a response without a message.
    pub(super) fn response(id: String, model: Option<String>, usage: Counts) -> Self {
        DerivedLine {
            model,
            response: Some(id),
            usage: Some(usage),
            ..DerivedLine::message("assistant", Vec::new())
        }
    }

    /// Creates the line of a title.
    pub(super) fn title(text: &str, custom: bool) -> Self {
        DerivedLine {
            text: Some(text.to_owned()),
            custom,
            ..DerivedLine::new("title")
        }
    }

    /// Adds the line to `out`, without a line end.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut members = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            members.extend(value.map(|value| format!("\"{name}\":{value}")));
        };
        let quoted = |text: &Option<String>| text.as_deref().map(quote);
        let raw = |raw: Raw<'_>| raw.0.map(one_line);
        let flag = |is: bool| is.then(|| "true".to_owned());
        add("session", quoted(&self.session));
        add("id", quoted(&self.id));
        add("parent", quoted(&self.parent));
        add("resumes", flag(self.resumes));
        add("time", self.time.as_deref().map(one_line));
        add("cwd", quoted(&self.cwd));
        add("branch", quoted(&self.branch));
        add("version", quoted(&self.version));
        add("kind", Some(quote(&self.kind)));
        add("role", (!self.role.is_empty()).then(|| quote(self.role)));
        let blocks = !self.blocks.is_empty();
        add(
            "blocks",
            blocks.then(|| format!("[{}]", one_line(&self.blocks.join(",")))),
        );
        add("human", flag(self.human));
        add("meta", flag(self.meta));
        add("summary", flag(self.summary));
        add("error", flag(self.error));
        add("model", quoted(&self.model));
        add("response", quoted(&self.response));
        add("stop", quoted(&self.stop));
        add("usage", self.usage.map(|counts| format!("{counts:?}")));
        add("recorded", self.recorded.as_deref().map(one_line));
        add("fault", quoted(&self.fault));
        add("spawned", quoted(&self.spawned));
        add("text", quoted(&self.text));
        add("label", quoted(&self.label));
        add("custom", flag(self.custom));
        add("call", quoted(&self.call));
        add("forked_from", quoted(&self.forked_from));
        add("note", raw(self.note));
        add("annals", raw(self.annex));
        let more = self.more.iter().map(|line| {
            let mut out = Vec::new();
            line.write(&mut out);
            String::from_utf8_lossy(&out).into_owned()
        });
        let more: Vec<String> = more.collect();
        add(
            "more",
            (!more.is_empty()).then(|| format!("[{}]", more.join(","))),
        );
        add("record", raw(self.record));
        out.extend_from_slice(format!("{{{}}}", members.join(",")).as_bytes());
    }
}

/// JSON of a time or number of a record.
pub(super) fn owned(raw: Raw<'_>) -> Option<String> {
    raw.0.map(str::to_owned)
}

/// Returns JSON without line breaks. In JSON they occur only between values.
fn one_line(json: &str) -> String {
    json.trim().replace(['\n', '\r'], " ")
}

/// JSON text of a block of text.
pub(super) fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", quote(text))
}

/// JSON text of a block of reasoning.
pub(super) fn thinking_block(text: &str) -> String {
    format!("{{\"type\":\"thinking\",\"thinking\":{}}}", quote(text))
}

/// JSON text of a call. `input` is its JSON, or JSON in a string.
pub(super) fn call_block(id: &str, name: &str, input: Raw<'_>) -> String {
    let inner = input.text();
    let inner = inner
        .as_deref()
        .filter(|text| text.starts_with('{') && serde_json::from_str::<Raw<'_>>(text).is_ok());
    let input = inner.or(input.0).unwrap_or("{}");
    let (id, name) = (quote(id), quote(name));
    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}")
}

/// JSON text of a result of a call. `output` is a string, or any other JSON.
pub(super) fn result_block(call: &str, output: Raw<'_>, is_error: bool) -> String {
    let text = match output.text() {
        Some(text) => text.into_owned(),
        None => output.0.unwrap_or_default().to_owned(),
    };
    let (call, text) = (quote(call), text_block(&text));
    format!(
        "{{\"type\":\"tool_result\",\"tool_use_id\":{call},\"content\":[{text}],\"is_error\":{is_error}}}"
    )
}

/// Decodes the token counts of a fold. Invalid ones are described and count as 0.
pub(super) fn count(name: &str, raw: Raw<'_>, fault: &mut Option<String>) -> u64 {
    let count = decode_count(raw);
    if count.is_none() {
        *fault = Some(format!("{name} is not a token count"));
    }
    count.flatten().unwrap_or(0)
}

/// Ids of the entries of a log whose order is that of its lines.
#[derive(Debug, Default)]
pub(super) struct LineOrder {
    ids: HashMap<String, usize>,
    /// The last entry of each session or sub-agent.
    last: HashMap<String, String>,
}

impl LineOrder {
    /// Puts an entry after the last one of its session. An id that is missing, or that an earlier
    /// entry has, is replaced.
    pub(super) fn add(&mut self, number: usize, id: Option<&str>, line: &mut DerivedLine<'_>) {
        let number = number + 1;
        let id = match id {
            None => format!("line-{number}"),
            Some(id) if self.ids.contains_key(id) => format!("{id}-{number}"),
            Some(id) => id.to_owned(),
        };
        self.ids.insert(id.clone(), number);
        let session = line.session.clone().unwrap_or_default();
        line.parent = self.last.insert(session, id.clone());
        line.id = Some(id);
    }

    /// Like [`add`](Self::add), but the next entry follows the one before.
    pub(super) fn add_aside(
        &mut self,
        number: usize,
        id: Option<&str>,
        line: &mut DerivedLine<'_>,
    ) {
        self.add(number, id, line);
        let session = line.session.clone().unwrap_or_default();
        match line.parent.clone() {
            Some(before) => self.last.insert(session, before),
            None => self.last.remove(&session),
        };
    }
}

/// The derived lines of a log: one for each line, and then those that other files add.
#[derive(Debug, Default)]
pub(super) struct DerivedLog {
    out: Vec<u8>,
    /// A torn record at the end of the log, which stays the last one.
    torn: Vec<u8>,
}

impl DerivedLog {
    /// Creates the lines of a log that begins with a byte order mark, or with none.
    pub(super) fn new(mark: &[u8]) -> Self {
        DerivedLog {
            out: mark.to_vec(),
            torn: Vec::new(),
        }
    }

    /// Adds what was derived from a line; `None` for a line that could not be parsed.
    pub(super) fn add(&mut self, line: &[u8], derived: Option<&DerivedLine<'_>>) {
        match derived {
            Some(derived) => {
                derived.write(&mut self.out);
                self.out.push(b'\n');
            }
            None if line.ends_with(b"\n") => self.out.extend_from_slice(line),
            None => self.torn.extend_from_slice(line),
        }
    }

    /// Returns the bytes of all lines.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.out.append(&mut self.torn);
        self.out
    }
}

/// Returns the lines of a log with their texts; `None` for those that are not objects.
pub(super) fn log_lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], Option<&str>)> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| {
        let text = std::str::from_utf8(line).ok().map(str::trim);
        (line, text.filter(|text| text.starts_with('{')))
    })
}

/// Returns content without a byte order mark, and the mark.
pub(super) fn split_mark(bytes: &[u8]) -> (&[u8], &[u8]) {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    match bytes.strip_prefix(MARK) {
        Some(rest) => (MARK, rest),
        None => (b"", bytes),
    }
}

/// Adds a damaged document as one line, so that the decoder reports it.
pub(super) fn push_damaged(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.extend_from_slice(bytes);
    let damaged = out.iter_mut().skip(start);
    damaged
        .filter(|byte| matches!(byte, b'\n' | b'\r'))
        .for_each(|byte| *byte = b' ');
    out.push(b'\n');
}

/// Decodes derived lines.
#[derive(Debug)]
pub(super) struct LineDecoder;

/// An entry, with what only its outline has.
struct DerivedEntry {
    entry: Entry,
    recorded: Option<Money>,
    forked_from: Option<String>,
    resumes: bool,
}

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let found = derived_entries(record, out);
        out.items.extend(found.iter().map(DerivedEntry::outline));
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let found = derived_entries(record, out);
        let found = found.into_iter().map(|found| found.entry);
        entry_outline::push_entries(record, before, found, out);
    }
}

/// Decodes the records themselves, one by one, for a repair.
#[derive(Debug)]
pub(super) struct RecordDecoder {
    /// Derives the line of a record.
    pub(super) to_lines: fn(&[u8]) -> Vec<u8>,
    /// Returns whether an object is a record and not part of one.
    pub(super) is_record: fn(&str) -> bool,
}

impl RecordDecoder {
    fn entries<T>(&self, record: &Record<'_>, out: &mut Decoded<T>) -> Vec<DerivedEntry> {
        let read = record.object_or_pieces(out, self.is_record, |text| {
            serde_json::from_str::<Raw<'_>>(text)?;
            let derived = (self.to_lines)(text.as_bytes());
            let derived = String::from_utf8_lossy(&derived);
            Ok(entries(&Raw(Some(derived.trim())).parse(), record.span))
        });
        match read {
            Ok(found) => found,
            Err(pieces) => {
                let found = pieces.iter().map(|piece| self.entries(piece, out));
                found.collect::<Vec<_>>().into_iter().flatten().collect()
            }
        }
    }
}

impl Decoder for RecordDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let found = self.entries(record, out);
        out.items.extend(found.iter().map(DerivedEntry::outline));
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let found = self.entries(record, out);
        let found = found.into_iter().map(|found| found.entry);
        entry_outline::push_entries(record, before, found, out);
    }

    fn is_record(&self, object: &str) -> bool {
        (self.is_record)(object)
    }
}

impl DerivedEntry {
    fn outline(&self) -> Outline {
        let mut outline = entry_outline::outline(&self.entry, self.recorded);
        let fork = self.forked_from.as_deref();
        let fork = fork.map(|id| Fact::Attribute("forked_from", id.into()));
        outline.facts.extend(fork);
        let resumes = self.resumes.then_some(Fact::ResumesHere);
        outline.facts.extend(resumes);
        outline
    }
}

fn derived_entries<T>(record: &Record<'_>, out: &mut Decoded<T>) -> Vec<DerivedEntry> {
    let mut faults = Vec::new();
    let found = record.object(out, |text| {
        let line: Line<'_> = serde_json::from_str(text)?;
        faults.clear();
        faults.extend(line.fault.owned());
        let more = line.more.list().into_iter();
        faults.extend(more.filter_map(|line| line.parse::<Line<'_>>().fault.owned()));
        Ok(entries(&line, record.span))
    });
    for fault in faults {
        out.add_flaw(FlawKind::BadUsage, record.span, fault);
    }
    found.unwrap_or_default()
}

/// Decodes the entries of a derived line.
fn entries(line: &Line<'_>, span: Span) -> Vec<DerivedEntry> {
    let decoded = |line: &Line<'_>| {
        let recorded = line.recorded.0.and_then(Money::parse);
        DerivedEntry {
            entry: entry(line, span),
            recorded: recorded.filter(|cost| *cost != Money::default()),
            forked_from: line.forked_from.owned(),
            resumes: line.resumes.0,
        }
    };
    let more = line.more.list().into_iter();
    let more = more.map(|line| decoded(&line.parse()));
    std::iter::once(decoded(line)).chain(more).collect()
}

fn entry(line: &Line<'_>, span: Span) -> Entry {
    let text = || line.text.or_empty().to_owned();
    let body = match line.kind.or_empty() {
        "message" => Body::Message(message(line)),
        "compaction" => Body::Compaction { text: text() },
        "notice" => Body::System {
            subtype: line.label.or_empty().to_owned(),
            text: text(),
        },
        "title" => Body::Title {
            text: text(),
            source: match line.custom.0 {
                true => TitleSource::Custom,
                false => TitleSource::Ai,
            },
        },
        "agent" => Body::Agent {
            kind: line.label.owned(),
            description: line.text.owned(),
            call: line.call.owned(),
        },
        "note" if line.note.is_some() => annotations::body(line.note),
        "typed" => Body::TypedPrompt {
            text: text(),
            project: None,
            session: None,
            pasted: false,
        },
        _ => Body::Opaque {
            kind: line.kind.owned(),
            flaw: None,
        },
    };
    let mut entry = Entry::new(span, body);
    entry.session = line.session.owned();
    entry.time = decode_time(line.time);
    entry.context.cwd = line.cwd.owned();
    entry.context.git_branch = line.branch.owned();
    entry.context.version = line.version.owned();
    if line.annex.is_some() {
        line.annex
            .parse::<Extension<'_>>()
            .apply_to_entry(&mut entry);
    }
    entry.id = line.id.non_empty().map(EntryId::new);
    entry.parent = line.parent.non_empty().map(EntryId::new);
    entry
}

fn message(line: &Line<'_>) -> Message {
    let role = match line.role.or_empty() {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::User,
    };
    let blocks: Vec<Block> = content::blocks(line.blocks);
    let mut message = Message::new(role, blocks);
    message.human = line.human.0;
    message.meta = line.meta.0;
    message.compact_summary = line.summary.0;
    message.api_error = line.error.0;
    message.model = line.model.owned();
    message.response = line.response.owned();
    message.stop_reason = line.stop.owned();
    let spawned = line.spawned.non_empty();
    message.spawned = spawned.and_then(|id| AgentId::new(id).ok());
    let counts: Option<Counts> = line.usage.0.and_then(|raw| serde_json::from_str(raw).ok());
    message.usage = counts.map(|[input, read, written, output]| {
        let mut usage = Usage::new(input, output).cache_write(written);
        usage.cache_read = read;
        usage
    });
    message
}
