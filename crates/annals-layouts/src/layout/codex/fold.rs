//! Derives lines from a rollout: finds the parent, the model and the tokens of each record.
//!
//! Each line becomes one with the same number:
//!
//! | member | meaning |
//! |---|---|
//! | `session` | the session, or `SESSION--agent-THREAD` in a sub-agent's rollout; in all lines from its first `session_meta` on |
//! | `thread` | the record describes the thread of this rollout |
//! | `id` | id of the entry; made from the line number if the record has none, or that of an earlier one |
//! | `parent` | id of the entry before it when it was added |
//! | `continues` | it is the first entry of a fork by reference |
//! | `human` | it is a prompt that a person typed |
//! | `model`, `response` | model and response of a reply |
//! | `usage` | `[input, cached input, cache writes, output]` of the response that ends here |
//! | `fault` | why tokens could not be read |
//! | `spawned` | thread of the sub-agent that a call started |
//! | `resumes` | the program would resume here if nothing followed |
//! | `leaf` | the entry at which the program would resume, in a line that it does not send |
//! | `ordinal` | number of the line in its thread |
//! | `record` | the line itself |
//!
//! A line that cannot be parsed is kept as it is, and the decoder reports it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::json::{Raw, Text, object, quote, scanner};
use crate::layout::usage_fields::decode_count;
use crate::layout::{AGENT_SEPARATOR, PROGRAM};
use crate::model::DocumentFormat;

use super::items::{self, Event, HIDDEN, Item, Line, Meta};

/// A rollout.
pub(super) static ROLLOUT: DocumentFormat = DocumentFormat {
    name: "codex-rollout",
    keeps_lines: true,
    base_session: Some(items::base_session),
    to_lines: |bytes| {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let mut fold = Fold::default();
        let text = bytes.strip_prefix(MARK).unwrap_or(bytes);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            fold.add(line);
        }
        let mark = bytes.get(..bytes.len() - text.len()).unwrap_or_default();
        fold.write(mark.to_vec())
    },
};

object! {
    struct Context<'a> { "model" => model: Text<'a>, }
}

object! {
    struct UsageRecord<'a> {
        "response_id" => response: Text<'a>,
        "usage" => usage: Raw<'a>,
        "thread_token_usage" => thread: Raw<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "input_tokens" => input: Raw<'a>,
        "cached_input_tokens" => cached: Raw<'a>,
        "cache_write_input_tokens" => written: Raw<'a>,
        "output_tokens" => output: Raw<'a>,
    }
}

object! {
    struct SpawnResult<'a> { "agent_id" => agent: Text<'a>, }
}

/// Input, cached input, cache writes and output.
type Counts = [u64; 4];

/// Data derived from one line of a rollout.
#[derive(Default)]
struct Slot {
    named: bool,
    thread: bool,
    id: Option<String>,
    parent: Option<String>,
    continues: bool,
    human: bool,
    model: Option<String>,
    response: Option<String>,
    usage: Option<Counts>,
    fault: Option<String>,
    spawned: Option<String>,
    resumes: bool,
    leaf: Option<String>,
    ordinal: Option<u64>,
}

/// State of a thread while its lines are read.
#[derive(Default)]
struct Fold<'a> {
    lines: Vec<(&'a [u8], Option<Slot>)>,
    /// Name of the session in records.
    session: Option<String>,
    /// The thread that first had the lines of this one.
    origin: String,
    /// Whether the next entry is the first one of a fork by reference.
    continues: bool,
    model: Option<String>,
    ids: HashMap<String, usize>,
    /// The last entry that the program would send.
    last: Option<String>,
    /// The entry before each prompt that the program would send.
    prompts: Vec<Option<String>>,
    /// User messages since the last reply or typed prompt, with their content.
    untyped: Vec<(usize, &'a str)>,
    /// Lines of the newest response.
    reply: Vec<usize>,
    /// Whether the newest response has got its tokens.
    counted: bool,
    /// Whether the next item of the model begins a response.
    ended: bool,
    /// Tokens of the thread so far.
    total: Counts,
    /// Calls that start a sub-agent.
    spawns: HashSet<String>,
}

impl<'a> Fold<'a> {
    fn add(&mut self, line: &'a [u8]) {
        let number = self.lines.len();
        let text = std::str::from_utf8(line).ok().map(str::trim);
        let text = text.filter(|text| text.starts_with('{'));
        let parsed: Option<Line<'a>> =
            text.and_then(|text| scanner::parse(text).or_else(|| serde_json::from_str(text).ok()));
        let slot = parsed.map(|line| self.slot(number, &line));
        self.lines.push((line, slot));
    }

    fn slot(&mut self, number: usize, line: &Line<'a>) -> Slot {
        let mut slot = Slot {
            ordinal: line.ordinal.count().ok().flatten(),
            ..Slot::default()
        };
        let is_ours = line.annex.program.get() == Some(PROGRAM);
        match line.kind.or_empty() {
            "session_meta" => {
                let agent = line.annex.id.owned().filter(|_| is_ours);
                self.thread(line.payload.parse_fast(), agent, &mut slot);
            }
            _ if is_ours || line.annex.id.non_empty().is_some() => {
                self.own_line(number, line, &mut slot);
            }
            "turn_context" => {
                let context: Context<'a> = line.payload.parse_fast();
                self.model = context.model.owned().or(self.model.take());
            }
            "response_item" => self.item(number, &line.payload.parse_fast(), &mut slot),
            "event_msg" => self.event(number, line, &line.payload.parse_fast(), &mut slot),
            "compacted" => {
                self.chain(number, None, &mut slot);
                self.last = slot.id.as_deref().map(items::summary_id);
                self.end_reply();
            }
            "token_usage_record" => {
                let record: UsageRecord<'a> = line.payload.parse_fast();
                let spent = counts(record.usage.parse_fast(), &mut slot);
                if record.thread.is_some() {
                    self.total = counts(record.thread.parse_fast(), &mut slot);
                } else {
                    for (total, new) in self.total.iter_mut().zip(spent) {
                        *total = total.saturating_add(new);
                    }
                }
                let response = record.response.owned();
                let response = response.unwrap_or_else(|| self.sum_key());
                self.spend(spent, response, &mut slot);
            }
            _ => {}
        }
        slot.named = self.session.is_some();
        slot
    }

    /// Adds a line that annals wrote or copied: it names its id and its parent.
    fn own_line(&mut self, number: usize, line: &Line<'a>, slot: &mut Slot) {
        let annex = &line.annex;
        let kind = line.kind.or_empty();
        let item: Item<'a> = line.payload.parse_fast();
        match kind.strip_prefix(HIDDEN).unwrap_or(kind) {
            "response_item" | "compacted" | "compaction" | "system" => {}
            "event_msg" if annex.id.non_empty().is_some() => {}
            "note" => {
                slot.id = annex.id.non_empty().map(str::to_owned);
                return;
            }
            _ => return,
        }
        let last = self.last.clone();
        self.chain(number, annex.id.non_empty(), slot);
        if annex.parent.0.is_some() {
            slot.continues = false;
            slot.parent = annex.parent.text().map(Cow::into_owned);
        }
        let is_user = item.role.get() == Some("user");
        slot.human = match annex.human.0 {
            Some(human) => human == "true",
            None => is_user && !item.is_injected(),
        };
        if annex.aside.0 || annex.sidechain.0 {
            self.last = last;
            slot.leaf.clone_from(&self.last);
            return;
        }
        if kind == "compacted" && !annex.compact.0 {
            // The line of the program, with the compaction and its summary.
            self.last = slot.id.as_deref().map(items::summary_id);
        }
        if slot.human {
            self.prompts.push(slot.parent.clone());
        }
        self.untyped.clear();
        self.end_reply();
        if annex.usage.is_some() && annex.response.non_empty().is_none() {
            slot.response.clone_from(&slot.id);
        }
        if item.name.get() == Some("spawn_agent") {
            self.spawns.extend(item.call.owned());
        }
        slot.spawned = self.spawned(&item);
    }

    /// Returns the sub-agent that the result of a call names.
    fn spawned(&self, item: &Item<'a>) -> Option<String> {
        let is_result = item.output.is_some() && self.spawns.contains(item.call.or_empty());
        let result = item.output.text().filter(|_| is_result)?;
        let result: SpawnResult<'_> = Raw(Some(&result)).parse_fast();
        result.agent.owned()
    }

    fn thread(&mut self, meta: Meta<'a>, agent: Option<String>, slot: &mut Slot) {
        let id = meta.id.or_empty();
        self.origin = id.to_owned();
        if self.session.is_some() || id.is_empty() {
            return;
        }
        slot.thread = true;
        self.continues = meta.history_base().is_some();
        self.session = Some(match meta.parent() {
            Some(parent) => {
                let top = meta.session.non_empty().filter(|top| *top != id);
                let agent = agent.as_deref().unwrap_or(id);
                format!("{}{AGENT_SEPARATOR}{agent}", top.unwrap_or(&parent))
            }
            None => id.to_owned(),
        });
    }

    fn item(&mut self, number: usize, item: &Item<'a>, slot: &mut Slot) {
        let id = item.id.non_empty();
        match item.kind.or_empty() {
            "message" if item.role.get() == Some("user") => {
                slot.human = !item.is_injected();
                if slot.human {
                    self.prompts.push(self.last.clone());
                }
                self.untyped
                    .push((number, item.content.0.unwrap_or_default()));
                self.chain(number, id, slot);
                self.end_reply();
            }
            "message" if item.role.get() != Some("assistant") => self.chain(number, id, slot),
            "message" | "reasoning" => self.reply(number, id, slot),
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" => {
                if item.name.get() == Some("spawn_agent") {
                    self.spawns.extend(item.call.owned());
                }
                self.reply(number, id, slot);
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.chain(number, id, slot);
                self.ended = true;
                slot.spawned = self.spawned(item);
            }
            _ => {}
        }
    }

    fn event(&mut self, number: usize, line: &Line<'a>, event: &Event<'a>, slot: &mut Slot) {
        match event.kind.or_empty() {
            "user_message" => self.typed(),
            "item_completed" if event.item.kind.get() == Some("UserMessage") => self.typed(),
            "thread_rolled_back" => {
                let turns = event.turns.count().ok().flatten().unwrap_or_default();
                for _ in 0..turns.min(self.prompts.len() as u64) {
                    self.last = self.prompts.pop().flatten();
                }
                self.chain(number, None, slot);
                slot.resumes = true;
                self.end_reply();
            }
            "token_count" if !line.ordinal.is_some() && event.info.total.is_some() => {
                let total = counts(event.info.total.parse_fast(), slot);
                let mut spent = total;
                for (new, before) in spent.iter_mut().zip(self.total) {
                    *new = new.saturating_sub(before);
                }
                self.total = total;
                if spent != Counts::default() {
                    self.spend(spent, self.sum_key(), slot);
                }
            }
            _ if event.notice().is_some() => self.chain(number, None, slot),
            _ => {}
        }
    }

    /// Adds an entry after the last one.
    fn chain(&mut self, number: usize, id: Option<&str>, slot: &mut Slot) {
        let line = number + 1;
        let id = match id {
            None => format!("line-{line}"),
            Some(id) if self.ids.contains_key(id) => format!("{id}-{line}"),
            Some(id) => id.to_owned(),
        };
        self.ids.insert(id.clone(), number);
        slot.parent = self.last.replace(id.clone());
        slot.continues = std::mem::take(&mut self.continues) && slot.parent.is_none();
        slot.id = Some(id);
    }

    /// Adds a part of a response.
    fn reply(&mut self, number: usize, id: Option<&str>, slot: &mut Slot) {
        if self.ended || self.counted {
            self.end_reply();
        }
        self.untyped.clear();
        self.reply.push(number);
        self.chain(number, id, slot);
        slot.model.clone_from(&self.model);
        let first = self.reply.first().unwrap_or(&number);
        slot.response = Some(format!("line-{}", first + 1));
    }

    fn end_reply(&mut self) {
        self.reply.clear();
        self.counted = false;
        self.ended = false;
    }

    /// The user message before was typed, so other ones directly before it were not.
    fn typed(&mut self) {
        let untyped = std::mem::take(&mut self.untyped);
        let Some((last, typed)) = untyped.last() else {
            return;
        };
        for (number, content) in &untyped {
            let is_typed = number == last || content == typed;
            if let Some((_, Some(slot))) = self.lines.get_mut(*number)
                && slot.human
                && !is_typed
            {
                slot.human = false;
                let parent = slot.parent.clone();
                self.prompts.retain(|before| *before != parent);
            }
        }
    }

    /// Assigns tokens to the newest response, or to the line itself if that has its tokens: no item
    /// shows what was spent on a summary.
    fn spend(&mut self, spent: Counts, response: String, slot: &mut Slot) {
        if self.counted || self.reply.is_empty() {
            slot.usage = Some(spent);
            slot.response = Some(response);
            slot.model.clone_from(&self.model);
            return;
        }
        self.counted = true;
        for number in &self.reply {
            if let Some((_, Some(part))) = self.lines.get_mut(*number) {
                part.response = Some(response.clone());
                part.usage = (Some(number) == self.reply.last()).then_some(spent);
                if part.usage.is_some() {
                    part.fault = slot.fault.take();
                }
            }
        }
    }

    /// Returns the id of a response that has none: the sums of its thread after it.
    fn sum_key(&self) -> String {
        let sums = self.total.map(|count| count.to_string());
        format!("{}-{}", self.origin, sums.join("-"))
    }

    fn write(&self, mut out: Vec<u8>) -> Vec<u8> {
        let bytes: usize = self.lines.iter().map(|(line, _)| line.len()).sum();
        // Most lines get their session, id, parent and response.
        out.reserve(bytes + self.lines.len() * 256);
        let session = self.session.as_deref().map(quote);
        for (line, slot) in &self.lines {
            let (Some(slot), Ok(text)) = (slot, std::str::from_utf8(line)) else {
                out.extend_from_slice(line);
                continue;
            };
            out.push(b'{');
            let mut add = |name: &str, value: Option<&str>| {
                let Some(value) = value else { return };
                for part in ["\"", name, "\":", value, ","] {
                    out.extend_from_slice(part.as_bytes());
                }
            };
            let quoted = |text: &Option<String>| text.as_deref().map(quote);
            let flag = |is: bool| is.then_some("true");
            add("session", session.as_deref().filter(|_| slot.named));
            add("thread", flag(slot.thread));
            add("id", quoted(&slot.id).as_deref());
            add("parent", quoted(&slot.parent).as_deref());
            add("continues", flag(slot.continues));
            add("human", flag(slot.human));
            add("model", quoted(&slot.model).as_deref());
            add("response", quoted(&slot.response).as_deref());
            let usage = slot.usage.map(|counts| format!("{counts:?}"));
            add("usage", usage.as_deref());
            add("fault", quoted(&slot.fault).as_deref());
            add("spawned", quoted(&slot.spawned).as_deref());
            add("resumes", flag(slot.resumes));
            add("leaf", quoted(&slot.leaf).as_deref());
            let ordinal = slot.ordinal.map(|ordinal| ordinal.to_string());
            add("ordinal", ordinal.as_deref());
            for part in ["\"record\":", text.trim(), "}"] {
                out.extend_from_slice(part.as_bytes());
            }
            out.extend(text.ends_with('\n').then_some(b'\n'));
        }
        out
    }
}

/// Decodes token counts. Invalid ones are described and count as 0.
fn counts(tokens: Tokens<'_>, slot: &mut Slot) -> Counts {
    let mut count = |name: &str, raw: Raw<'_>| {
        let count = decode_count(raw);
        if count.is_none() {
            slot.fault = Some(format!("{name} is not a token count"));
        }
        count.flatten().unwrap_or(0)
    };
    [
        count("input_tokens", tokens.input),
        count("cached_input_tokens", tokens.cached),
        count("cache_write_input_tokens", tokens.written),
        count("output_tokens", tokens.output),
    ]
}
