//! Message content: a string, or blocks in the format of the model API.
//!
//! Outlines, decodes and encodes it for several layouts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::scanner::{FromScanner, JsonScanner};
use crate::json::{self, Flag, Pairs, Raw, Text, describe_json_error, object};
use crate::model::{Block, BlockMembers, Delegation, Draft, EntryKey, RawBlocks, Role};
use crate::text::truncate_chars;

object! {
    struct Part<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Text<'a>,
        "thinking" => thinking: Text<'a>,
        "signature" => signature: Text<'a>,
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "input" => input: Raw<'a>,
        "tool_use_id" => answers: Text<'a>,
        "content" => content: Raw<'a>,
        "is_error" => is_error: Flag,
        "source" => source: Source<'a>,
    }
}

object! {
    struct Source<'a> {
        "media_type" => media_type: Text<'a>,
        "data" => data: Text<'a>,
        "url" => url: Text<'a>,
    }
}

object! {
    struct PartSummary<'a> {
        "type" => kind: Text<'a>,
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "input" => input: Raw<'a>,
        "tool_use_id" => answers: Text<'a>,
        "text" => text: Raw<'a>,
    }
}

object! {
    struct Task<'a> {
        "prompt" => prompt: Text<'a>,
        "subagent_type" => kind: Text<'a>,
        "description" => description: Text<'a>,
    }
}

/// Upper bound for the prompt of a sub-agent, in bytes.
const MAX_TASK_LEN: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// There is a string or a list of blocks, whatever their content.
    pub(crate) present: bool,
    /// Beginning of a person's text, if there is any.
    pub(crate) prompt: Option<Box<str>>,
    /// Keys of the tool calls made.
    pub(crate) calls: Vec<EntryKey>,
    /// Keys of the tool calls answered.
    pub(crate) answers: Vec<EntryKey>,
    /// There are tool results.
    pub(crate) results: bool,
    /// The whole text, to match a sub-agent's first message with the call that spawned it.
    pub(crate) full_text: Option<Box<str>>,
    /// Calls that delegate a prompt to a sub-agent.
    pub(crate) delegations: Vec<Delegation>,
    /// Calls without an id, which are not in `calls`.
    pub(crate) unnamed_calls: Vec<CallWithoutId>,
    /// Results without an id, which are not in `answers`.
    pub(crate) unnamed_answers: Vec<CallWithoutId>,
    /// There are results with an empty id, which are not in `answers`.
    pub(crate) has_empty_answers: bool,
}

/// A call or a result without an id.
#[derive(Clone, Debug)]
pub(crate) struct CallWithoutId {
    /// Position among all calls, or all results, of the message.
    pub(crate) position: usize,
    /// The tool, if it is named.
    pub(crate) tool: Box<str>,
    /// The work that the call delegates to a sub-agent.
    pub(crate) delegation: Option<Delegation>,
}

impl CallWithoutId {
    /// Inserts the keys made for calls without an id at their positions among the others.
    pub(crate) fn merge(
        named: &[EntryKey],
        unnamed: impl Iterator<Item = (usize, EntryKey)>,
    ) -> Vec<EntryKey> {
        let mut all = Vec::new();
        let mut named = named.iter().copied();
        for (at, key) in unnamed {
            all.extend(named.by_ref().take(at.saturating_sub(all.len())));
            all.push(key);
        }
        all.extend(named);
        all
    }
}

/// Prefix, before the tool's name, of the id of a call that has none and is not identified
/// otherwise.
pub const UNNAMED_CALL_PREFIX: &str = "call:";

/// Returns the call id for a result without one: a call of its tool, or of any tool if it names
/// none. Reading the log in order resolves it to the actual call.
pub(crate) fn unnamed_answer(tool: &str) -> String {
    format!("{UNNAMED_CALL_PREFIX}{tool}")
}

/// Returns an id for a call without one: the record's id and the call's position in the record.
pub fn unnamed_call_id(record: &str, at: usize) -> String {
    match at {
        0 => record.to_owned(),
        _ => format!("{record}-{}", at + 1),
    }
}

impl Content {
    fn from_text(text: &str) -> Self {
        let prompt = (!is_client_text(text)).then(|| title_prefix(text));
        let asked = (text.len() < MAX_TASK_LEN).then(|| text.into());
        Content {
            present: true,
            prompt,
            full_text: asked,
            ..Content::default()
        }
    }

    /// Returns whether there are tool calls.
    pub(crate) fn makes_calls(&self) -> bool {
        !self.calls.is_empty() || !self.unnamed_calls.is_empty()
    }

    fn add(&mut self, part: &PartSummary<'_>) {
        match part.kind.get() {
            Some("text") if self.prompt.is_none() => {
                self.prompt = prompt(part.text);
            }
            Some("tool_use") => {
                let Some(call) = part.id.non_empty().map(EntryKey::from_text) else {
                    if part.id.get().is_some() {
                        return;
                    }
                    let name = part.name.or_empty();
                    // The caller sets the key.
                    let delegation = delegation(EntryKey::from_text(""), name, part.input);
                    self.unnamed_calls.push(CallWithoutId {
                        position: self.calls.len() + self.unnamed_calls.len(),
                        tool: name.into(),
                        delegation,
                    });
                    return;
                };
                self.calls.push(call);
                let delegation = delegation(call, part.name.or_empty(), part.input);
                self.delegations.extend(delegation);
            }
            Some("tool_result") => {
                self.results = true;
                match part.answers.get() {
                    Some("") => self.has_empty_answers = true,
                    Some(call) => self.answers.push(EntryKey::from_text(call)),
                    None => self.unnamed_answers.push(CallWithoutId {
                        position: self.answers.len() + self.unnamed_answers.len(),
                        tool: part.name.or_empty().into(),
                        delegation: None,
                    }),
                }
            }
            _ => {}
        }
    }
}

/// Returns the work that a call delegates to a sub-agent, if it is such a call.
pub(crate) fn delegation(call: EntryKey, name: &str, input: Raw<'_>) -> Option<Delegation> {
    if !matches!(name, "Task" | "Agent") {
        return None;
    }
    let task: Task<'_> = input.parse();
    Some(Delegation {
        call,
        prompt: task.prompt.non_empty().map(EntryKey::from_text),
        kind: task.kind.non_empty().map(title_prefix),
        description: task.description.non_empty().map(title_prefix),
    })
}

impl<'a> FromScanner<'a> for Content {
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self> {
        let mut content = Content::default();
        match walk.peek()? {
            b'"' => return Text::from_scanner(walk)?.get().map(Content::from_text),
            b'[' => {
                content.present = true;
                walk.array(|walk| {
                    content.add(&PartSummary::from_scanner(walk)?);
                    Some(())
                })?;
            }
            _ => walk.skip_other()?,
        }
        Some(content)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or blocks")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Content, E> {
        Ok(Content::from_text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> std::result::Result<Content, A::Error> {
        let mut content = Content {
            present: true,
            ..Content::default()
        };
        while let Some(part) = parts.next_element::<PartSummary<'de>>()? {
            content.add(&part);
        }
        Ok(content)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Content, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::default())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> std::result::Result<Content, E> {
        Ok(Content::default())
    }
    fn visit_i64<E: serde::de::Error>(self, _: i64) -> std::result::Result<Content, E> {
        Ok(Content::default())
    }
    fn visit_u64<E: serde::de::Error>(self, _: u64) -> std::result::Result<Content, E> {
        Ok(Content::default())
    }
    fn visit_f64<E: serde::de::Error>(self, _: f64) -> std::result::Result<Content, E> {
        Ok(Content::default())
    }
    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<Content, E> {
        Ok(Content::default())
    }
}

/// Returns whether a user message is text inserted by the client itself.
pub(crate) fn is_client_text(text: &str) -> bool {
    const OPENINGS: [&str; 9] = [
        "<command-name>",
        "<command-message>",
        "<command-args>",
        "<local-command-",
        "Caveat:",
        "<system-reminder>",
        "<ide_opened_file>",
        "<ide_selection>",
        "[Request interrupted by user",
    ];
    let text = text.trim_start();
    text.is_empty() || OPENINGS.iter().any(|opening| text.starts_with(opening))
}

/// Returns the beginning of a person's text; `None` if the client wrote it.
fn prompt(text: Raw<'_>) -> Option<Box<str>> {
    let start = text.prefix(MAX_TITLE_CHARS)?;
    // After much leading white space the prefix is too short to decide.
    let start = match start.trim_start().len() < DECISIVE_LEN {
        true => text.text()?,
        false => start,
    };
    (!is_client_text(&start)).then(|| title_prefix(&start))
}

/// Maximum length of a title, in characters.
pub const MAX_TITLE_CHARS: usize = 1000;

/// Number of bytes that show whether a client wrote a text.
const DECISIVE_LEN: usize = 100;

/// Returns a text, or its leading characters with `…` if it is too long for a title.
pub fn title_prefix(text: &str) -> Box<str> {
    match text.len() <= MAX_TITLE_CHARS {
        true => text.into(),
        false => truncate_chars(text.trim_start(), MAX_TITLE_CHARS).into(),
    }
}

/// Decodes a message's content. A string is one text block.
pub(crate) fn blocks(content: Raw<'_>) -> Vec<Block> {
    match content.text() {
        Some(text) => vec![Block::Text(text.into_owned())],
        None if content.is_list() => content.list().into_iter().map(block).collect(),
        // Neither a string nor a list: kept as opaque JSON.
        None => {
            let json = content.0.filter(|json| *json != "null");
            let block = |json: &str| Block::Opaque {
                kind: String::new(),
                json: json.to_owned(),
            };
            json.map(block).into_iter().collect()
        }
    }
}

/// Blocks and the members that a [`Block`] has no field for, decoded in one pass by the scanner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) blocks: Vec<Block>,
    pub(crate) members: BlockMembers,
}

impl Blocks {
    pub(crate) fn from_raw(content: Raw<'_>) -> Self {
        Blocks {
            blocks: blocks(content),
            members: block_members(content),
        }
    }
}

impl<'a> FromScanner<'a> for Blocks {
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self> {
        if walk.peek()? != b'[' {
            return Raw::from_scanner(walk).map(Blocks::from_raw);
        }
        let mut found = Blocks::default();
        walk.array(|walk| {
            let (raw, part) = walk.with_text(Part::from_scanner)?;
            let raw = Raw(Some(raw));
            let members = further_members(raw, part.kind.or_empty());
            if !members.is_empty() {
                found.members.insert(found.blocks.len(), members);
            }
            found.blocks.push(decode_block(raw, &part));
            Some(())
        })?;
        Some(found)
    }
}

impl<'de> Deserialize<'de> for Blocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(Blocks::from_raw)
    }
}

/// Returns the members of content blocks that a [`Block`] has no field for.
pub(crate) fn block_members(content: Raw<'_>) -> BlockMembers {
    if !content.is_list() {
        return BlockMembers::new();
    }
    let blocks = content.list().into_iter().map(|raw| {
        let part: PartSummary<'_> = raw.parse_fast();
        further_members(raw, part.kind.or_empty())
    });
    let blocks = blocks.enumerate();
    blocks.filter(|(_, members)| !members.is_empty()).collect()
}

/// Returns the members of a block that a [`Block`] has no field for. They include the whole
/// `content` of a tool result if any part has such members, and the `source` of an image that is
/// not embedded.
fn further_members(raw: Raw<'_>, kind: &str) -> BTreeMap<String, String> {
    let known: &[&str] = match kind {
        "text" => &["type", "text"],
        "thinking" => &["type", "thinking", "signature"],
        "tool_use" => &["type", "id", "name", "input"],
        "tool_result" => &["type", "tool_use_id", "is_error"],
        "image" => &["type"],
        // Opaque blocks are kept as JSON.
        _ => return BTreeMap::new(),
    };
    let is_further = |(name, value): &(Cow<'_, str>, Raw<'_>)| match (kind, &**name) {
        ("tool_result", "content") => has_further_parts(*value),
        ("image", "source") => !is_embedded(*value),
        (_, name) => !known.contains(&name),
    };
    let pairs: Pairs<'_> = raw.parse();
    let further = pairs.0.into_iter();
    let further = further.filter(|pair| pair.1.is_some() && is_further(pair));
    let owned = further.filter_map(|(name, value)| Some((name.into_owned(), value.0?.to_owned())));
    owned.collect()
}

/// Returns whether a part of a tool result has members that a [`Block`] has no field for. A result
/// nested in a result is opaque.
fn has_further_parts(content: Raw<'_>) -> bool {
    content.is_list()
        && content.list().into_iter().any(|raw| {
            let part: PartSummary<'_> = raw.parse_fast();
            let kind = part.kind.or_empty();
            kind != "tool_result" && !further_members(raw, kind).is_empty()
        })
}

/// Returns whether an image's source embeds the data and has no members that a [`Block`] lacks.
fn is_embedded(source: Raw<'_>) -> bool {
    let pairs: Pairs<'_> = source.parse();
    pairs.0.iter().all(|(name, value)| match &**name {
        "type" => value.text().as_deref() == Some("base64"),
        "media_type" | "data" => true,
        _ => !value.is_some(),
    })
}

/// Returns the JSON of the blocks that have additional members, for a [`Draft`].
pub fn raw_blocks(blocks: &[Block], members: &BlockMembers) -> Result<RawBlocks> {
    let mut found = RawBlocks::new();
    for (at, members) in members {
        let Some(block) = blocks.get(*at) else {
            continue;
        };
        let members = members.iter();
        let members: Vec<(&str, &str)> = members.map(|(name, json)| (&**name, &**json)).collect();
        let json = block_json(block)?;
        let json = json::set_members(json.as_bytes(), &members);
        let json = json.and_then(|json| String::from_utf8(json).ok());
        found.extend(json.map(|json| (*at, json)));
    }
    Ok(found)
}

fn block(raw: Raw<'_>) -> Block {
    decode_block(raw, &raw.parse_fast())
}

fn decode_block(raw: Raw<'_>, part: &Part<'_>) -> Block {
    let owned = |text: &Text<'_>| text.or_empty().to_owned();
    match part.kind.or_empty() {
        "text" => Block::Text(owned(&part.text)),
        "thinking" => Block::Thinking {
            text: owned(&part.thinking),
            signature: part.signature.owned(),
        },
        "tool_use" => Block::ToolUse {
            id: owned(&part.id),
            name: owned(&part.name),
            input: part.input.0.unwrap_or("null").to_owned(),
        },
        "tool_result" => Block::ToolResult {
            call: owned(&part.answers),
            output: result_output(part),
            is_error: part.is_error.0,
        },
        "image" => Block::Image {
            media_type: owned(&part.source.media_type),
            data: part
                .source
                .data
                .owned()
                .or(part.source.url.owned())
                .unwrap_or_default(),
        },
        kind => Block::Opaque {
            kind: kind.to_owned(),
            json: raw.0.unwrap_or("null").to_owned(),
        },
    }
}

/// Decodes the parts of a tool result. Some programs write them as one `text` member of the block.
fn result_output(part: &Part<'_>) -> Vec<Block> {
    match (part.content.is_some(), part.text.get()) {
        (false, Some(text)) => vec![Block::Text(text.to_owned())],
        _ => outputs(part.content),
    }
}

/// Decodes the parts of a tool result whose record names the call. Nested result blocks are
/// replaced by their parts.
pub(crate) fn flatten_outputs(content: Raw<'_>) -> Vec<Block> {
    if !content.is_list() {
        return outputs(content);
    }
    let parts = content.list().into_iter().flat_map(|raw| {
        let part: Part<'_> = raw.parse_fast();
        match part.kind.or_empty() {
            "tool_result" => result_output(&part),
            _ => vec![decode_block(raw, &part)],
        }
    });
    parts.collect()
}

/// Decodes the parts of a tool result. A nested result stays opaque, so the depth is bounded.
pub(crate) fn outputs(content: Raw<'_>) -> Vec<Block> {
    if let Some(text) = content.text() {
        return vec![Block::Text(text.into_owned())];
    }
    let flat = |raw: Raw<'_>| {
        let part: Part<'_> = raw.parse_fast();
        match part.kind.or_empty() {
            "tool_result" => Block::Opaque {
                kind: "tool_result".to_owned(),
                json: raw.0.unwrap_or("null").to_owned(),
            },
            _ => decode_block(raw, &part),
        }
    };
    content.list().into_iter().map(flat).collect()
}

/// Encodes content: a prompt as a string, anything else as blocks.
pub(crate) fn content_json(role: Role, part: GivenBlocks<'_>) -> Result<Box<RawValue>> {
    let json = match part.blocks {
        [Block::Text(text)] if role == Role::User && !part.has_raw() => json::quote(text),
        _ => part.json()?,
    };
    raw(json)
}

pub(crate) fn blocks_json(blocks: &[Block]) -> Result<String> {
    let parts: Vec<String> = blocks.iter().map(block_json).collect::<Result<_>>()?;
    Ok(format!("[{}]", parts.join(",")))
}

/// Blocks of a draft's message, and the JSON of those with additional members.
#[derive(Clone, Copy)]
pub(crate) struct GivenBlocks<'a> {
    pub(crate) blocks: &'a [Block],
    raw: &'a RawBlocks,
    /// Position of the first block in the message.
    first: usize,
}

impl<'a> GivenBlocks<'a> {
    /// `blocks` start at index `first` in the draft's message.
    pub(crate) fn new(draft: &'a Draft, blocks: &'a [Block], first: usize) -> Self {
        GivenBlocks {
            blocks,
            raw: &draft.raw_blocks,
            first,
        }
    }

    /// Returns the tool name given with the first block, a tool result.
    pub(crate) fn tool(self) -> Option<String> {
        let part: PartSummary<'_> = serde_json::from_str(self.raw.get(&self.first)?).ok()?;
        part.name.non_empty().map(str::to_owned)
    }

    /// Returns a member of the first block that a [`Block`] has no field for.
    pub(crate) fn member(self, name: &str) -> Option<&'a str> {
        json::member(self.raw.get(&self.first)?, name)
    }

    /// Returns whether any block has members that a [`Block`] has no field for.
    pub(crate) fn has_raw(self) -> bool {
        let end = self.first.saturating_add(self.blocks.len());
        self.raw.range(self.first..end).next().is_some()
    }

    /// Returns the blocks as a JSON list, if any has such members.
    pub(crate) fn raw_json(self) -> Result<Option<Box<RawValue>>> {
        let json = self.has_raw().then(|| self.json()).transpose()?;
        json.map(raw).transpose()
    }

    /// Returns the blocks as a JSON list.
    pub(crate) fn json(self) -> Result<String> {
        Ok(format!("[{}]", self.each_json()?.join(",")))
    }

    /// Returns the JSON of each block.
    pub(crate) fn each_json(self) -> Result<Vec<String>> {
        let blocks = self.blocks.iter().enumerate();
        let json = |(at, block)| match self.raw.get(&self.first.saturating_add(at)) {
            Some(json) => one_line(json),
            None => block_json(block),
        };
        blocks.map(json).collect()
    }
}

fn block_json(block: &Block) -> Result<String> {
    let quote = |text: &str| json::quote(text);
    Ok(match block {
        Block::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
        Block::Thinking { text, signature } => {
            let text = quote(text);
            let seal = match signature {
                Some(seal) => format!(r#","signature":{}"#, quote(seal)),
                None => String::new(),
            };
            format!(r#"{{"type":"thinking","thinking":{text}{seal}}}"#)
        }
        Block::ToolUse { id, name, input } => format!(
            r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
            quote(id),
            quote(name),
            one_line(input)?
        ),
        Block::ToolResult {
            call,
            output,
            is_error,
        } => {
            let output = output_json(output)?;
            let error = if *is_error { r#","is_error":true"# } else { "" };
            format!(
                r#"{{"tool_use_id":{},"type":"tool_result","content":{output}{error}}}"#,
                quote(call)
            )
        }
        Block::Image { media_type, data } => format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":{},"data":{}}}}}"#,
            quote(media_type),
            quote(data)
        ),
        Block::Opaque { json, .. } => one_line(json)?,
    })
}

/// Encodes the parts of a tool result. A single text becomes a string.
pub(crate) fn output_json(output: &[Block]) -> Result<String> {
    if let [Block::Text(text)] = output {
        return Ok(json::quote(text));
    }
    if output
        .iter()
        .any(|block| matches!(block, Block::ToolResult { .. }))
    {
        return Err(Error::refused("a tool result cannot contain a tool result"));
    }
    blocks_json(output)
}

/// Returns whether a message has nothing but blank texts.
pub(crate) fn is_blank(blocks: &[Block]) -> bool {
    let blank = |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
    blocks.iter().all(blank)
}

/// Returns JSON on one line. Line breaks in valid JSON are only white space between tokens.
pub(crate) fn one_line(json: &str) -> Result<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(json)
        .map_err(|error| Error::refused(format!("a block is {}", describe_json_error(&error))))?;
    Ok(json.trim().replace(['\n', '\r'], " "))
}

pub(crate) fn raw(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|error| Error::refused(describe_json_error(&error)))
}
