//! Decodes the derived lines of rollouts, and the other documents of the root.

use serde_json::value::RawValue;

use crate::json::{Flag, Raw, Text, object, scanner};
use crate::layout::entry_outline;
use crate::layout::usage_fields::decode_time;
use crate::layout::{Decoded, Decoder, Record, annotations};
use crate::model::{
    AgentId, ArtifactKind, Block, Body, Entry, EntryContext, EntryId, EntryKey, Fact, FlawKind,
    HistoryBase, Link, ListRow, ListSubject, Message, Outline, Role, SessionId, Span, Usage,
};

use super::items::{self, Event, HIDDEN, Item, Line, Meta};

object! {
    struct Derived<'a> {
        "session" => session: Text<'a>,
        "thread" => thread: Flag,
        "id" => id: Text<'a>,
        "parent" => parent: Text<'a>,
        "continues" => continues: Flag,
        "human" => human: Flag,
        "model" => model: Text<'a>,
        "response" => response: Text<'a>,
        "usage" => usage: Raw<'a>,
        "fault" => fault: Text<'a>,
        "spawned" => spawned: Text<'a>,
        "resumes" => resumes: Flag,
        "leaf" => leaf: Text<'a>,
        "ordinal" => ordinal: Raw<'a>,
        "record" => record: Raw<'a>,
    }
}

object! {
    struct Context<'a> { "cwd" => cwd: Text<'a>, }
}

object! {
    struct Compacted<'a> {
        "message" => message: Text<'a>,
        "replacement_history" => history: Raw<'a>,
    }
}

/// Key of the number of a thread's last line among the values that the writer needs.
pub(super) const ORDINAL: &str = "ordinal";

/// Decodes derived lines, or the lines of a rollout itself for a repair.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// Whether the lines are those of the rollout.
    pub(super) is_raw: bool,
}

/// The entries of a line, with what only outlines have.
#[derive(Default)]
struct Decoding {
    entries: Vec<Entry>,
    /// Thread that this one was forked from.
    forked_from: Option<String>,
    /// Part of another thread that comes before this one.
    base: Option<HistoryBase>,
    /// Whether the first entry continues that part.
    continues: bool,
    /// Whether the program would resume at the first entry if nothing followed.
    resumes: bool,
    /// The entry at which the program would resume although other lines follow it.
    leaf: Option<EntryKey>,
    /// Number of the line in its thread.
    ordinal: Option<String>,
}

impl LineDecoder {
    fn read<T>(&self, record: &Record<'_>, out: &mut Decoded<T>) -> Decoding {
        let mut fault = None;
        if self.is_raw {
            let read = record.object_or_pieces(out, is_record, |text| {
                let derived = Derived {
                    record: Raw(Some(serde_json::from_str::<&RawValue>(text)?.get())),
                    ..Derived::default()
                };
                Ok(decoding(&derived, record.span))
            });
            return match read {
                Ok(found) => found,
                Err(pieces) => {
                    let mut found = Decoding::default();
                    for piece in &pieces {
                        found.entries.extend(self.read(piece, out).entries);
                    }
                    found
                }
            };
        }
        let read = record.object(out, |text| {
            let derived: Derived<'_> = match scanner::parse(text) {
                Some(derived) => derived,
                None => serde_json::from_str(text)?,
            };
            fault = derived.fault.owned();
            Ok(decoding(&derived, record.span))
        });
        if let Some(fault) = fault {
            out.add_flaw(FlawKind::BadUsage, record.span, fault);
        }
        read.unwrap_or_default()
    }
}

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let found = self.read(record, out);
        for (at, entry) in found.entries.iter().enumerate() {
            let mut outline = entry_outline::outline(entry, None);
            if at == 0 {
                let forked_from = found.forked_from.as_deref();
                let fork = forked_from.map(|id| Fact::Attribute("forked_from", id.into()));
                outline.facts.extend(fork);
                let base = found.base.clone().map(Box::new);
                outline.facts.extend(base.map(Fact::HistoryBase));
                if found.continues {
                    outline.link = Link::Previous;
                }
                outline
                    .facts
                    .extend(found.resumes.then_some(Fact::ResumesHere));
                outline.facts.extend(found.leaf.map(Fact::Resume));
                let ordinal = found.ordinal.as_deref();
                let ordinal = ordinal.map(|last| Fact::WriterState(ORDINAL.into(), last.into()));
                outline.facts.extend(ordinal);
            }
            out.items.push(outline);
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let found = self.read(record, out);
        entry_outline::push_entries(record, before, found.entries, out);
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }
}

/// Returns whether an object is a line of a rollout and not part of one.
fn is_record(object: &str) -> bool {
    let line: Line<'_> = Raw(Some(object)).parse_fast();
    line.kind.non_empty().is_some() && line.payload.is_some() && line.timestamp.is_some()
}

fn decoding(derived: &Derived<'_>, span: Span) -> Decoding {
    let line: Line<'_> = derived.record.parse_fast();
    let mut found = Decoding {
        continues: derived.continues.0,
        resumes: derived.resumes.0,
        leaf: derived.leaf.non_empty().map(EntryKey::from_text),
        ordinal: derived.ordinal.0.map(str::to_owned),
        ..Decoding::default()
    };
    let opaque = || Body::Opaque {
        kind: line.kind.owned(),
        flaw: None,
    };
    let mut context = EntryContext::default();
    let mut summary = None;
    let kind = line.kind.or_empty();
    let body = match kind.strip_prefix(HIDDEN).unwrap_or(kind) {
        "note" if kind != "note" => annotations::body(line.payload),
        "session_meta" if derived.thread.0 => {
            let meta: Meta<'_> = line.payload.parse_fast();
            context.cwd = meta.cwd.owned();
            context.version = meta.version.owned();
            context.git_branch = meta.git.branch.owned();
            found.forked_from = meta.forked_from.owned();
            found.base = meta.history_base();
            match meta.parent() {
                Some(_) => Body::Agent {
                    kind: meta.agent_role(),
                    description: meta.agent_nickname(),
                    call: None,
                },
                None => opaque(),
            }
        }
        "turn_context" => {
            let turn: Context<'_> = line.payload.parse_fast();
            context.cwd = turn.cwd.owned();
            opaque()
        }
        // The compaction before it has a line of its own.
        "compacted" if line.annex.compact.0 => {
            Body::Message(summary_message(&line.payload.parse_fast()))
        }
        "compacted" => {
            let compacted: Compacted<'_> = line.payload.parse_fast();
            summary = Some(summary_message(&compacted));
            Body::Compaction {
                text: String::new(),
            }
        }
        "response_item" => item_body(&line.payload.parse_fast(), derived).unwrap_or_else(opaque),
        "event_msg" => {
            let event: Event<'_> = line.payload.parse_fast();
            match event.notice() {
                Some((kind, text)) => Body::System {
                    subtype: kind.to_owned(),
                    text: text.to_owned(),
                },
                None => Body::Opaque {
                    kind: event.kind.owned(),
                    flaw: None,
                },
            }
        }
        _ => opaque(),
    };
    let time = decode_time(line.timestamp);
    let mut entry = Entry::new(span, body);
    entry.context = context;
    line.annex.apply_to_entry(&mut entry);
    entry.id = derived.id.non_empty().map(EntryId::new);
    entry.parent = derived.parent.non_empty().map(EntryId::new);
    let after = entry.id.clone();
    found.entries.push(entry);
    if let Some((message, id)) = summary.zip(after.as_ref()) {
        let mut entry = Entry::new(span, Body::Message(message));
        entry.id = Some(EntryId::new(&items::summary_id(id.as_str())));
        entry.parent = after;
        found.entries.push(entry);
    }
    if derived.id.get().is_none() && derived.usage.is_some() {
        // Tokens that belong to no message.
        let message = reply(derived, Vec::new());
        found.entries.push(Entry::new(span, Body::Message(message)));
    }
    for entry in &mut found.entries {
        entry.session = derived.session.owned();
        entry.time = time;
    }
    found
}

fn item_body(item: &Item<'_>, derived: &Derived<'_>) -> Option<Body> {
    Some(Body::Message(match item.kind.or_empty() {
        "message" => {
            let blocks = Item::blocks(item.content);
            match item.role.or_empty() {
                "assistant" => reply(derived, blocks),
                "user" => {
                    let mut message = Message::new(Role::User, blocks);
                    message.human = derived.human.0;
                    message.meta = !message.human;
                    message
                }
                _ => Message::new(Role::System, blocks),
            }
        }
        "reasoning" => {
            let thinking = Block::Thinking {
                text: item.reasoning(),
                signature: None,
            };
            reply(derived, vec![thinking])
        }
        "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" => {
            let call = Block::ToolUse {
                id: item.call_id().to_owned(),
                name: item.tool(),
                input: item.call_input(),
            };
            reply(derived, vec![call])
        }
        "function_call_output" | "custom_tool_call_output" => {
            let output = Item::blocks(item.output);
            let result = Block::ToolResult {
                call: item.call_id().to_owned(),
                is_error: items::is_failure(&output),
                output,
            };
            let mut message = Message::new(Role::User, vec![result]);
            let spawned = derived.spawned.non_empty();
            message.spawned = spawned.and_then(|id| AgentId::new(id).ok());
            message
        }
        _ => return None,
    }))
}

fn reply(derived: &Derived<'_>, blocks: Vec<Block>) -> Message {
    let mut message = Message::new(Role::Assistant, blocks);
    message.model = derived.model.owned();
    message.response = derived.response.owned();
    let counts: Option<[u64; 4]> = derived
        .usage
        .0
        .and_then(|raw| serde_json::from_str(raw).ok());
    message.usage = counts.map(|[input, cached, written, output]| {
        let uncached = input.saturating_sub(cached).saturating_sub(written);
        let mut usage = Usage::new(uncached, output).cache_write(written);
        usage.cache_read = cached;
        usage
    });
    message
}

/// Returns what a compaction leaves: the prompts that the program repeats, and the summary.
fn summary_message(compacted: &Compacted<'_>) -> Message {
    let history = compacted.history.list();
    let items: Vec<Item<'_>> = history.into_iter().map(Raw::parse).collect();
    let (last, repeated) = match items.split_last() {
        Some((last, repeated)) => (Some(last), repeated),
        None => (None, &[][..]),
    };
    let is_prompt = |item: &&Item<'_>| item.role.get() == Some("user") && !item.is_injected();
    let prompts = repeated.iter().filter(is_prompt);
    let mut blocks: Vec<Block> = prompts.flat_map(|it| Item::blocks(it.content)).collect();
    match (compacted.message.non_empty(), last) {
        (Some(text), _) => blocks.push(Block::Text(text.to_owned())),
        (None, Some(last)) => blocks.extend(Item::blocks(last.content)),
        (None, None) => {}
    }
    let mut message = Message::new(Role::User, blocks);
    message.meta = true;
    message.compact_summary = true;
    message
}

object! {
    struct Typed<'a> {
        "session_id" => session: Text<'a>,
        "ts" => time: Raw<'a>,
        "text" => text: Text<'a>,
    }
}

object! {
    struct Named<'a> {
        "id" => id: Text<'a>,
        "thread_name" => name: Text<'a>,
        "updated_at" => updated: Raw<'a>,
    }
}

/// Decodes typed prompts and the names of threads.
#[derive(Debug)]
pub(super) struct DocumentDecoder(pub(super) ArtifactKind);

impl DocumentDecoder {
    /// Returns the threads in a list of names, with their names.
    pub(super) fn rows(list: &[u8]) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(list);
        let rows = text.lines().filter_map(|line| named_row(line.trim()));
        let row = |row: ListRow| match row.subject {
            ListSubject::Session(id) => Some((id.to_string(), row.title?)),
            ListSubject::Folder(_) => None,
        };
        rows.filter_map(row).collect()
    }

    fn entry<T>(&self, record: &Record<'_>, out: &mut Decoded<T>) -> Option<Entry> {
        if self.0 == ArtifactKind::SessionList {
            let text = String::from_utf8_lossy(record.bytes);
            // The last row of a thread wins. A row that cannot be read only loses a name.
            let rows = text.lines().filter_map(|line| named_row(line.trim()));
            return Some(Entry::new(record.span, Body::SessionList(rows.collect())));
        }
        record.object(out, |text| {
            let typed: Typed<'_> = serde_json::from_str(text)?;
            let mut entry = Entry::new(
                record.span,
                Body::TypedPrompt {
                    text: typed.text.or_empty().to_owned(),
                    project: None,
                    session: typed.session.owned(),
                    pasted: false,
                },
            );
            let seconds = typed.time.count().ok().flatten();
            let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
            entry.time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
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

fn named_row(line: &str) -> Option<ListRow> {
    let named: Named<'_> = serde_json::from_str(line).ok()?;
    let session = SessionId::new(named.id.non_empty()?).ok()?;
    Some(ListRow {
        title: named.name.non_empty().map(str::to_owned),
        updated: decode_time(named.updated),
        ..ListRow::new(ListSubject::Session(session))
    })
}
