//! Drafts as JSON lines: one message a line, in the shape of the Messages API.
//!
//! Everything is read and checked before anything is written. What the model has no word for is kept as
//! the JSON text it came in; tool arguments keep their exact spelling.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use annals::model::{Block, Body, Draft, EntryId, Message, Role, Usage};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// What a line must look like, for messages.
const SHAPE: &str = r#"{"role": "user" or "assistant", "content": "text" or [blocks]} on one line"#;

/// The role of what went wrong, which is nobody's message.
pub(crate) const ERROR: &str = "error";

/// The members that a draft may have.
const MEMBERS: [&str; 12] = [
    "role",
    "content",
    "model",
    "usage",
    "stop_reason",
    "id",
    "parent",
    "timestamp",
    "message_id",
    "request_id",
    "type",
    "stop_sequence",
];

/// Longest id of an entry that we write.
const MAX_ID: usize = 128;

/// Where a line is wrong, and why.
#[derive(Debug, PartialEq)]
pub(crate) struct BadDraft {
    line: usize,
    column: usize,
    why: String,
}

impl fmt::Display for BadDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadDraft { line, column, why } = self;
        write!(
            f,
            "standard input, line {line}, column {column}: {why}; nothing was written"
        )
    }
}

impl std::error::Error for BadDraft {}

/// Something that went wrong.
pub(crate) fn error(text: String) -> Draft {
    Draft::new(Body::System {
        subtype: ERROR.to_owned(),
        text,
    })
}

/// Reads every line of `text`, and gives each draft with its line. Blank lines are skipped.
pub(crate) fn parse(text: &str) -> Result<Vec<(usize, Draft)>, BadDraft> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut drafts = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        if !line.trim().is_empty() {
            let number = at + 1;
            let found = Line { text: line, number }.drafts()?;
            drafts.extend(found.into_iter().map(|draft| (number, draft)));
        }
    }
    Ok(drafts)
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    parent: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    message_id: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextBlock {
    text: String,
}

#[derive(Deserialize)]
struct ThinkingBlock {
    thinking: String,
    signature: Option<String>,
}

#[derive(Deserialize)]
struct CallBlock<'a> {
    id: String,
    name: String,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
struct ResultBlock<'a> {
    tool_use_id: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct ImageBlock<'a> {
    #[serde(borrow)]
    source: &'a RawValue,
}

#[derive(Deserialize)]
struct Picture {
    #[serde(rename = "type")]
    kind: Option<String>,
    media_type: Option<String>,
    data: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation: Option<Writes>,
    server_tool_use: Option<Server>,
}

#[derive(Deserialize)]
struct Writes {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Server {
    web_search_requests: Option<u64>,
}

/// One line, for messages that say where in it something is wrong.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    number: usize,
}

impl<'a> Line<'a> {
    /// A message becomes several drafts where tool results and other parts stand side by side: each result is
    /// an entry of its own.
    fn drafts(self) -> Result<Vec<Draft>, BadDraft> {
        let members: Members<'_> = self.object(self.text, "a message")?;
        let whole = self.string(members.kind, "type")?;
        self.check_members(whole.as_deref())?;
        let role = match self.string(members.role, "role")?.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            Some(ERROR) => return self.error(&members).map(|draft| vec![draft]),
            Some(other) => {
                let why = format!(
                    "the role `{}` is none of `user`, `assistant`, `system` and `error`",
                    cut(other)
                );
                return Err(self.bad(members.role, why));
            }
            None => return Err(self.bad(None, format!("`role` is missing; expected {SHAPE}"))),
        };
        let Some(content) = members.content else {
            return Err(self.bad(None, format!("`content` is missing; expected {SHAPE}")));
        };
        let mut message = Message::new(role, self.content(content, role)?);
        message.model = self.string(members.model, "model")?;
        message.stop_reason = self.string(members.stop_reason, "stop_reason")?;
        message.request = self.string(members.request_id, "request_id")?;
        message.response = self.string(members.message_id, "message_id")?;
        message.usage = members
            .usage
            .map(|usage| self.usage(usage))
            .transpose()?
            .flatten();
        let mut id = self.string(members.id, "id")?;
        // In the API's own messages `id` names the response.
        let foreign = whole.as_deref() == Some("message")
            || id.as_deref().is_some_and(|id| id.starts_with("msg_"));
        if foreign && message.response.is_none() {
            message.response = id.take();
        }
        if let Some(id) = &id {
            self.check_id(id, members.id)?;
        }
        let parent = self.string(members.parent, "parent")?;
        let time = self.time(members.timestamp)?;
        if role == Role::Assistant
            && message.stop_reason.is_none()
            && message
                .blocks
                .iter()
                .any(|block| kind_of(block) == "tool_use")
        {
            message.stop_reason = Some("tool_use".to_owned());
        }
        Ok(split(message, id, parent, time))
    }

    fn error(self, members: &Members<'a>) -> Result<Draft, BadDraft> {
        let Some(text) = self.string(members.content, "content")? else {
            let why = "`content` is missing; expected the text of the error";
            return Err(self.bad(None, why));
        };
        if text.trim().is_empty() {
            return Err(self.bad(members.content, "`content` is empty"));
        }
        let replies = [
            ("model", members.model),
            ("usage", members.usage),
            ("stop_reason", members.stop_reason),
            ("message_id", members.message_id),
            ("request_id", members.request_id),
        ];
        let lost = |(_, raw): &&(_, Option<&RawValue>)| raw.is_some_and(|raw| raw.get() != "null");
        if let Some((name, raw)) = replies.iter().find(lost) {
            return Err(self.bad(*raw, format!("an error has no `{name}`")));
        }
        let mut draft = error(text);
        if let Some(id) = self.string(members.id, "id")? {
            self.check_id(&id, members.id)?;
            draft.id = Some(EntryId::new(&id));
        }
        let parent = self.string(members.parent, "parent")?;
        draft.parent = parent.as_deref().map(EntryId::new);
        draft.time = self.time(members.timestamp)?;
        Ok(draft)
    }

    fn time(self, raw: Option<&'a RawValue>) -> Result<Option<Timestamp>, BadDraft> {
        let Some(text) = self.string(raw, "timestamp")? else {
            return Ok(None);
        };
        let time = text.parse::<Timestamp>().map_err(|_| {
            let why = format!(
                "`{}` is no time; expected one like 2026-03-01T12:00:00Z",
                cut(&text)
            );
            self.bad(raw, why)
        })?;
        Ok(Some(time))
    }

    fn content(self, content: &'a RawValue, role: Role) -> Result<Vec<Block>, BadDraft> {
        let raw = content.get();
        if raw.starts_with('"') {
            let text: String = self.read(raw, "a text")?;
            if text.trim().is_empty() {
                return Err(self.bad(Some(content), "`content` is empty"));
            }
            return Ok(vec![Block::Text(text)]);
        }
        let blocks = self.list(content, "`content` must be a text or a list of blocks")?;
        if blocks.is_empty() {
            return Err(self.bad(Some(content), "`content` has no blocks"));
        }
        blocks
            .into_iter()
            .map(|block| self.block(block, Some(role)))
            .collect()
    }

    /// Reads a block of a message, or of a tool's result, where there is no role.
    fn block(self, raw: &'a RawValue, role: Option<Role>) -> Result<Block, BadDraft> {
        let json = raw.get();
        let head: Kind<'_> = self.object(json, "a block")?;
        let Some(kind) = self.string(head.kind, "type")? else {
            return Err(self.bad(Some(raw), "this block has no `type`; known are text, thinking, tool_use, tool_result and image, and others are kept"));
        };
        let misplaced = match (kind.as_str(), role) {
            ("tool_use" | "thinking" | "redacted_thinking", Some(Role::User)) => Some("assistant"),
            ("tool_use" | "thinking" | "redacted_thinking", Some(Role::System)) => {
                Some("assistant")
            }
            ("tool_result", Some(Role::Assistant | Role::System)) => Some("user"),
            _ => None,
        };
        if let Some(other) = misplaced {
            return Err(self.bad(
                Some(raw),
                format!("a {kind} block belongs into a message of the {other}"),
            ));
        }
        if role.is_none() && kind == "tool_result" {
            return Err(self.bad(Some(raw), "a tool result cannot hold a tool result"));
        }
        // Checked first, so that what is kept as it came is sound too.
        let (block, known): (Option<Block>, &[&str]) = match kind.as_str() {
            "text" => {
                let TextBlock { text } = self.read(json, "a text block {\"type\",\"text\"}")?;
                (Some(Block::Text(text)), &["type", "text"])
            }
            "thinking" => {
                let block: ThinkingBlock = self.read(
                    json,
                    "a thinking block {\"type\",\"thinking\",\"signature\"}",
                )?;
                let block = Block::Thinking {
                    text: block.thinking,
                    signature: block.signature,
                };
                (Some(block), &["type", "thinking", "signature"])
            }
            "tool_use" => {
                let block: CallBlock<'_> =
                    self.read(json, "a call {\"type\",\"id\",\"name\",\"input\"}")?;
                if !block.input.get().starts_with('{') {
                    return Err(self.bad(Some(block.input), "`input` must be an object"));
                }
                let input = block.input.get().to_owned();
                (
                    Some(Block::ToolUse {
                        id: block.id,
                        name: block.name,
                        input,
                    }),
                    &["type", "id", "name", "input"],
                )
            }
            "tool_result" => {
                let block: ResultBlock<'_> =
                    self.read(json, "a result {\"type\",\"tool_use_id\",\"content\"}")?;
                let output = match block.content {
                    None => Vec::new(),
                    Some(content) => self.output(content)?,
                };
                let is_error = block.is_error.unwrap_or(false);
                let known: &[&str] = &["type", "tool_use_id", "content", "is_error"];
                (
                    Some(Block::ToolResult {
                        call: block.tool_use_id,
                        output,
                        is_error,
                    }),
                    known,
                )
            }
            "image" => {
                let block: ImageBlock<'_> = self.read(
                    json,
                    "an image {\"type\",\"source\":{\"media_type\",\"data\"}}",
                )?;
                let picture: Picture = self.object(block.source.get(), "an image's `source`")?;
                let embedded = picture.kind.as_deref().is_none_or(|kind| kind == "base64")
                    && self.has_only(block.source.get(), &["type", "media_type", "data"])?;
                let block = match (picture.media_type, picture.data) {
                    (Some(media_type), Some(data)) if embedded => {
                        Some(Block::Image { media_type, data })
                    }
                    _ => None,
                };
                (block, &["type", "source"])
            }
            _ => (None, &[]),
        };
        match block {
            Some(block) if self.has_only(json, known)? => Ok(block),
            _ => Ok(Block::Opaque {
                kind,
                json: json.to_owned(),
            }),
        }
    }

    fn output(self, content: &'a RawValue) -> Result<Vec<Block>, BadDraft> {
        if content.get().starts_with('"') {
            return Ok(vec![Block::Text(self.read(content.get(), "a text")?)]);
        }
        let blocks = self.list(
            content,
            "a result's `content` must be a text or a list of blocks",
        )?;
        blocks
            .into_iter()
            .map(|block| self.block(block, None))
            .collect()
    }

    fn usage(self, raw: &'a RawValue) -> Result<Option<Usage>, BadDraft> {
        if raw.get() == "null" {
            return Ok(None);
        }
        let tokens: Tokens = self.object(raw.get(), "counts of tokens in `usage`")?;
        let all = tokens.cache_creation_input_tokens.unwrap_or(0);
        let (short, long) = match &tokens.cache_creation {
            Some(writes) => (
                writes.ephemeral_5m_input_tokens.unwrap_or(0),
                writes.ephemeral_1h_input_tokens.unwrap_or(0),
            ),
            None => (all, 0),
        };
        let usage = Usage {
            input: tokens.input_tokens.unwrap_or(0),
            output: tokens.output_tokens.unwrap_or(0),
            cache_write_5m: short,
            cache_write_1h: long,
            cache_read: tokens.cache_read_input_tokens.unwrap_or(0),
            web_searches: tokens
                .server_tool_use
                .and_then(|server| server.web_search_requests)
                .unwrap_or(0),
        };
        let counts = [
            usage.input,
            usage.output,
            all,
            short,
            long,
            usage.cache_read,
            usage.web_searches,
        ];
        if counts.into_iter().any(|count| count > Usage::ABSURD) {
            return Err(self.bad(Some(raw), "no response has that many tokens"));
        }
        Ok(Some(usage))
    }

    /// Refuses members that would be lost, unless the whole is a message of the API, which gains members.
    fn check_members(self, kind: Option<&str>) -> Result<(), BadDraft> {
        let keys = self.keys(self.text)?;
        if keys.contains_key("message") && !keys.contains_key("role") {
            let why = "this looks like a whole line of a log; give its `message` alone";
            return Err(self.bad(None, why));
        }
        match keys.keys().find(|key| !MEMBERS.contains(&&***key)) {
            Some(key) if kind != Some("message") => {
                let known = MEMBERS.get(..10).unwrap_or_default().join(", ");
                Err(self.bad(
                    None,
                    format!(
                        "`{}` is not a member of a draft; known are {known}",
                        cut(key)
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_id(self, id: &str, at: Option<&'a RawValue>) -> Result<(), BadDraft> {
        let why = if id.is_empty() {
            "the id is empty"
        } else if id.len() > MAX_ID {
            "the id is longer than 128 characters"
        } else if id.chars().any(|c| c.is_control() || c.is_whitespace()) {
            "the id holds white space or control characters"
        } else {
            return Ok(());
        };
        Err(self.bad(at, why))
    }

    fn has_only(self, json: &'a str, known: &[&str]) -> Result<bool, BadDraft> {
        Ok(self.keys(json)?.keys().all(|key| known.contains(&&**key)))
    }

    fn keys(self, json: &'a str) -> Result<BTreeMap<Cow<'a, str>, IgnoredAny>, BadDraft> {
        self.object(json, "an object")
    }

    /// A string; `null` and absence are the same.
    fn string(self, raw: Option<&'a RawValue>, what: &str) -> Result<Option<String>, BadDraft> {
        match raw {
            Some(raw) if raw.get() != "null" => self
                .read(raw.get(), &format!("a text as `{what}`"))
                .map(Some),
            _ => Ok(None),
        }
    }

    fn list(self, raw: &'a RawValue, otherwise: &str) -> Result<Vec<&'a RawValue>, BadDraft> {
        if !raw.get().starts_with('[') {
            return Err(self.bad(Some(raw), otherwise));
        }
        self.read(raw.get(), "a list")
    }

    fn object<T: Deserialize<'a>>(self, json: &'a str, what: &str) -> Result<T, BadDraft> {
        let start = json.trim_start();
        if !start.starts_with('{') {
            // Broken JSON is told as such, anything else as what it should have been.
            self.read::<IgnoredAny>(json, what)?;
            let shape = match self.offset(json) {
                0 => format!("; expected {SHAPE}"),
                _ => String::new(),
            };
            return Err(self.bad_at(
                self.offset(start),
                format!("{what} must be a JSON object{shape}"),
            ));
        }
        self.read(json, what)
    }

    fn read<T: Deserialize<'a>>(self, json: &'a str, what: &str) -> Result<T, BadDraft> {
        serde_json::from_str(json).map_err(|error| {
            let text = error.to_string();
            let why = text.split(" at line ").next().unwrap_or_default();
            let why = match error.classify() {
                serde_json::error::Category::Data => format!("{why}; expected {what}"),
                serde_json::error::Category::Eof => {
                    format!("the JSON ends too early ({why}); each message must stand on one line (`jq -c .` does that)")
                }
                _ => format!("not JSON ({why}); expected {SHAPE}"),
            };
            self.bad_at(self.offset(json) + error.column().saturating_sub(1), why)
        })
    }

    /// Where a part of the line stands in it.
    fn offset(self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    fn bad(self, at: Option<&'a RawValue>, why: impl Into<String>) -> BadDraft {
        self.bad_at(at.map_or(0, |raw| self.offset(raw.get())), why)
    }

    fn bad_at(self, offset: usize, why: impl Into<String>) -> BadDraft {
        let before = self
            .text
            .char_indices()
            .take_while(|(at, _)| *at < offset)
            .count();
        BadDraft {
            line: self.number,
            column: before + 1,
            why: why.into(),
        }
    }
}

fn split(
    message: Message,
    id: Option<String>,
    parent: Option<String>,
    time: Option<Timestamp>,
) -> Vec<Draft> {
    let results = message
        .blocks
        .iter()
        .any(|block| kind_of(block) == "tool_result");
    let mut parts: Vec<Vec<Block>> = Vec::new();
    let mut after_result = false;
    for block in message.blocks {
        let result = kind_of(&block) == "tool_result";
        match parts.last_mut().filter(|_| !result && !after_result) {
            Some(part) => part.push(block),
            None => parts.push(vec![block]),
        }
        after_result = result;
    }
    let count = parts.len();
    let drafts = parts.into_iter().enumerate().map(|(at, blocks)| {
        let mut part = Message::new(message.role, blocks);
        part.model.clone_from(&message.model);
        part.response.clone_from(&message.response);
        part.request.clone_from(&message.request);
        part.stop_reason.clone_from(&message.stop_reason);
        part.usage = message.usage;
        part.human = message.role == Role::User && !results;
        let mut draft = Draft::new(Body::Message(part));
        draft.id = id.as_deref().filter(|_| at + 1 == count).map(EntryId::new);
        draft.parent = parent.as_deref().filter(|_| at == 0).map(EntryId::new);
        draft.time = time.and_then(|time| {
            time.checked_add(jiff::SignedDuration::from_millis(at as i64))
                .ok()
        });
        draft
    });
    drafts.collect()
}

/// A block's type, also where it is kept as it came.
fn kind_of(block: &Block) -> &str {
    match block {
        Block::Opaque { kind, .. } => kind,
        block => block.kind(),
    }
}

fn cut(text: &str) -> String {
    let mut head: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        head.push('…');
    }
    head
}
