//! Drafts as JSON lines: one message a line, in the shape of the Messages API.
//!
//! All lines are parsed and checked before anything is written. Blocks of other types, and blocks
//! with other members, keep their JSON text; tool arguments keep their exact spelling. Other
//! members of a message become [`Draft::members`], which the session's layout takes or refuses.

mod members;
mod split;
mod usage;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use crate::model::{Block, Body, Draft, EntryId, Members, Message, RawBlocks, Role};
use crate::text::{LineBreaks, visible};
use jiff::Timestamp;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use members::UnreadMembers;
use split::split_tool_results;

/// Expected shape of a line, for error messages.
const EXPECTED_LINE: &str =
    r#"{"role": "user" or "assistant", "content": "text" or [blocks]} on one line"#;

/// Role of an error entry, which has no author.
pub const ERROR_ROLE: &str = "error";

/// Members of a message that every layout supports.
pub const KNOWN_MEMBERS: &str = "role, content, model, usage, stop_reason (or stopReason), id, parent, timestamp, message_id, request_id";

/// Spellings of the stop reason: of the API, and of other programs.
const STOP_REASON: [&str; 2] = ["stop_reason", "stopReason"];

/// Members of a reply that only an assistant's message has.
const REPLY_MEMBERS: [&str; 7] = [
    "model",
    "usage",
    STOP_REASON[0],
    STOP_REASON[1],
    "stop_sequence",
    "message_id",
    "request_id",
];

/// An invalid line: position and reason.
#[derive(Debug, PartialEq)]
pub struct BadDraft {
    line: usize,
    column: usize,
    reason: String,
}

impl BadDraft {
    /// Returns the error without the line number, for callers that add it.
    pub fn text_without_line(&self) -> String {
        let BadDraft {
            column,
            reason: why,
            ..
        } = self;
        format!("column {column}: {why}")
    }
}

impl fmt::Display for BadDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadDraft {
            line,
            column,
            reason: why,
        } = self;
        write!(f, "line {line}, column {column}: {why}")
    }
}

impl std::error::Error for BadDraft {}

/// Returns the draft of an error entry.
pub fn error_draft(text: String) -> Draft {
    Draft::new(Body::System {
        subtype: ERROR_ROLE.to_owned(),
        text,
    })
}

/// A line of `append --follow`: a message and its target.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Target session, if the line names one.
    pub session: Option<String>,
    /// Target sub-agent.
    pub agent: Option<AgentSpec>,
    /// Session to create.
    pub new: Option<NewSessionSpec>,
    /// A whole record of the session's layout, instead of a message.
    pub raw: Option<&'a RawValue>,
    /// The remaining members: the message.
    pub message: UnreadMembers<'a>,
}

/// A sub-agent, and its purpose if it must be created.
#[derive(Debug, Default, PartialEq)]
pub struct AgentSpec {
    /// Its id.
    pub id: String,
    /// Its type, such as `Explore`.
    pub kind: Option<String>,
    /// Its task, in a few words.
    pub description: Option<String>,
    /// Id of the tool call that starts it.
    pub call: Option<String>,
}

/// Properties of a new session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NewSessionSpec {
    /// Its id; a new one if `None`.
    pub id: Option<String>,
    /// Working directory of the agent.
    pub cwd: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Name of the agent, in layouts that record one.
    pub agent: Option<String>,
    /// The branch that is checked out.
    pub git_branch: Option<String>,
    /// Members that only the layout interprets.
    pub members: Members,
}

impl<'a> Envelope<'a> {
    /// Parses a line; the message itself is parsed by [`UnreadMembers::drafts`].
    pub fn parse(text: &'a str, number: usize) -> Result<Self, BadDraft> {
        let line = Line { text, number };
        let mut message = UnreadMembers {
            line,
            members: line.parse_members(text, "a message")?,
        };
        let session = message.take_string("session")?;
        let agent = match message.take("agent") {
            Some(raw) if raw.get().starts_with('{') => {
                let mut agent = UnreadMembers {
                    line,
                    members: line.parse_members(raw.get(), "a sub-agent")?,
                };
                let found = AgentSpec {
                    id: agent.take_string("id")?.unwrap_or_default(),
                    kind: agent.take_string("kind")?,
                    description: agent.take_string("description")?,
                    call: agent.take_string("call")?,
                };
                agent.refuse_rest("agent", "id, kind, description, call")?;
                if found.id.is_empty() {
                    return Err(line.error_at_value(Some(raw), "`agent` has no `id`"));
                }
                Some(found)
            }
            raw => line.parse_string(raw, "agent")?.map(|id| AgentSpec {
                id,
                ..AgentSpec::default()
            }),
        };
        let new = match message.take("new").filter(|raw| raw.get() != "null") {
            None => None,
            Some(raw) => {
                let mut new = UnreadMembers {
                    line,
                    members: line.parse_members(raw.get(), "a new session")?,
                };
                Some(NewSessionSpec {
                    id: new.take_string("id")?,
                    cwd: new.take_string("cwd")?,
                    title: new.take_string("title")?,
                    agent: new.take_string("agent")?,
                    git_branch: new.take_string("git_branch")?,
                    members: new.into_rest(),
                })
            }
        };
        if let Some(session) = session.as_deref().filter(|_| new.is_some()) {
            let why = format!(
                "`session` ({}) and `new` cannot be used together",
                truncate(session)
            );
            return Err(line.error_at_value(None, why));
        }
        let raw = message.take("raw").filter(|raw| raw.get() != "null");
        if raw.is_some() {
            message.refuse_rest("a line with `raw`", "session, agent, new")?;
        }
        Ok(Envelope {
            session,
            agent,
            new,
            raw,
            message,
        })
    }
}

impl Draft {
    /// Parses a message in the shape of the Messages API; tool results among its blocks become
    /// drafts of their own.
    pub fn from_json(json: &str) -> Result<Vec<Draft>, BadDraft> {
        let line = Line {
            text: json,
            number: 1,
        };
        line.drafts()
    }
}

/// Parses every line of `text`, and returns each draft with its line. Blank lines are skipped.
pub fn parse_lines(text: &str) -> Result<Vec<(usize, Draft)>, BadDraft> {
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

/// Members of an object in order, duplicates included.
struct MemberList<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for MemberList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = MemberList<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(MemberName(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(MemberList(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// A member's name, borrowed if it has no escapes.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

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
struct ImageSource {
    #[serde(rename = "type")]
    kind: Option<String>,
    media_type: Option<String>,
    data: Option<String>,
}

/// One line, with its number for error messages.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    text: &'a str,
    number: usize,
}

impl<'a> Line<'a> {
    /// Parses a message. It becomes several drafts if it mixes tool results with other blocks: each
    /// result is an entry of its own.
    fn drafts(self) -> Result<Vec<Draft>, BadDraft> {
        let members = self.parse_members(self.text, "a message")?;
        self.drafts_from_members(UnreadMembers {
            line: self,
            members,
        })
    }

    fn drafts_from_members(self, mut members: UnreadMembers<'a>) -> Result<Vec<Draft>, BadDraft> {
        members.refuse_whole_records()?;
        let kind = members.take_string("type")?;
        let role_at = members.get("role");
        let role = match members.take_string("role")?.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            Some(ERROR_ROLE) => return self.parse_error(members).map(|draft| vec![draft]),
            Some(other) => {
                let why = format!(
                    "unknown role `{}`; expected `user`, `assistant`, `system` or `error`",
                    truncate(other)
                );
                return Err(self.error_at_value(role_at, why));
            }
            None => {
                return Err(self
                    .error_at_value(None, format!("`role` is missing; expected {EXPECTED_LINE}")));
            }
        };
        let Some(content) = members.take("content") else {
            return Err(self.error_at_value(
                None,
                format!("`content` is missing; expected {EXPECTED_LINE}"),
            ));
        };
        let (blocks, raw_blocks) = self.parse_content(content, role)?;
        let mut message = Message::new(role, blocks);
        if role != Role::Assistant {
            let of = match role {
                Role::System => "a system message",
                _ => "a user's message",
            };
            members.refuse_reply(of)?;
        }
        message.model = members.take_string("model")?;
        message.stop_reason = members.take_either(STOP_REASON)?;
        message.request = members.take_string("request_id")?;
        message.response = members.take_string("message_id")?;
        let mut extra: Vec<(String, String)> = Vec::new();
        let tokens = members
            .take("usage")
            .map(|raw| usage::parse_usage(self, raw));
        if let Some(tokens) = tokens.transpose()?.flatten() {
            message.usage = Some(tokens.usage);
            extra.extend(tokens.extra.map(|terms| ("usage".to_owned(), terms)));
        }
        let mut id = members.take_id("id")?;
        // In the API's own messages `id` names the response.
        if kind.is_some() && message.response.is_none() {
            message.response = id.take();
        }
        let parent = members.take_string("parent")?;
        let time = self.parse_time(members.take("timestamp"))?;
        if role == Role::Assistant
            && message.stop_reason.is_none()
            && message
                .blocks
                .iter()
                .any(|block| matches!(block, Block::ToolUse { .. }))
        {
            message.stop_reason = Some("tool_use".to_owned());
        }
        extra.extend(members.into_rest());
        let mut drafts = split_tool_results(message, raw_blocks, id, parent, time);
        match (drafts.as_mut_slice(), extra.first()) {
            (_, None) => {}
            ([only], _) => only.members = extra,
            (_, Some((name, _))) => {
                let why = format!(
                    "`{}` belongs to one record, but this message becomes several; put each tool result into its own message",
                    truncate(name)
                );
                return Err(self.error_at_value(None, why));
            }
        }
        Ok(drafts)
    }

    fn parse_error(self, mut members: UnreadMembers<'a>) -> Result<Draft, BadDraft> {
        let content = members.get("content");
        let Some(text) = members.take_string("content")? else {
            let why = "`content` is missing; expected the text of the error";
            return Err(self.error_at_value(None, why));
        };
        if text.trim().is_empty() {
            return Err(self.error_at_value(content, "`content` is empty"));
        }
        members.refuse_reply("an error")?;
        let mut draft = error_draft(text);
        draft.id = members.take_id("id")?.as_deref().map(EntryId::new);
        let parent = members.take_string("parent")?;
        draft.parent = parent.as_deref().map(EntryId::new);
        draft.time = self.parse_time(members.take("timestamp"))?;
        draft.members = members.into_rest();
        Ok(draft)
    }

    fn parse_time(self, raw: Option<&'a RawValue>) -> Result<Option<Timestamp>, BadDraft> {
        let Some(text) = self.parse_string(raw, "timestamp")? else {
            return Ok(None);
        };
        let time = text.parse::<Timestamp>().map_err(|_| {
            let why = format!(
                "`{}` is not a time; expected one like 2026-03-01T12:00:00Z",
                truncate(&text)
            );
            self.error_at_value(raw, why)
        })?;
        Ok(Some(time))
    }

    /// Parses the blocks, and returns the JSON of those with members that a [`Block`] lacks.
    fn parse_content(
        self,
        content: &'a RawValue,
        role: Role,
    ) -> Result<(Vec<Block>, RawBlocks), BadDraft> {
        let raw = content.get();
        if raw.starts_with('"') {
            let text: String = self.parse_json(raw, "a text")?;
            if text.trim().is_empty() {
                return Err(self.error_at_value(Some(content), "`content` is empty"));
            }
            return Ok((vec![Block::Text(text)], RawBlocks::new()));
        }
        let blocks = self.parse_list(content, "`content` must be a text or a list of blocks")?;
        if blocks.is_empty() {
            return Err(self.error_at_value(Some(content), "`content` has no blocks"));
        }
        let mut found = Vec::new();
        let mut raw_blocks = RawBlocks::new();
        for raw in blocks {
            let (block, more) = self.parse_block(raw, Some(role))?;
            if more {
                raw_blocks.insert(found.len(), raw.get().to_owned());
            }
            found.push(block);
        }
        Ok((found, raw_blocks))
    }

    /// Parses a block of a message, or of a tool result if `role` is `None`. Returns true if it has
    /// members that a [`Block`] of its type lacks.
    fn parse_block(self, raw: &'a RawValue, role: Option<Role>) -> Result<(Block, bool), BadDraft> {
        let json = raw.get();
        let head: Kind<'_> = self.parse_object(json, "a block")?;
        let Some(kind) = self.parse_string(head.kind, "type")? else {
            return Err(self.error_at_value(
                Some(raw),
                "this block has no `type`, such as text, thinking, tool_use, tool_result or image",
            ));
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
            return Err(self.error_at_value(
                Some(raw),
                format!("a {kind} block belongs in a message of the {other}"),
            ));
        }
        if role.is_none() && kind == "tool_result" {
            return Err(self.error_at_value(Some(raw), "a tool result cannot hold a tool result"));
        }
        let mut inner_more = false;
        let (block, known): (Option<Block>, &[&str]) = match kind.as_str() {
            "text" => {
                let TextBlock { text } =
                    self.parse_json(json, "a text block {\"type\",\"text\"}")?;
                (Some(Block::Text(text)), &["type", "text"])
            }
            "thinking" => {
                let block: ThinkingBlock = self.parse_json(
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
                    self.parse_json(json, "a call {\"type\",\"id\",\"name\",\"input\"}")?;
                if !block.input.get().starts_with('{') {
                    return Err(self.error_at_value(Some(block.input), "`input` must be an object"));
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
                    self.parse_json(json, "a result {\"type\",\"tool_use_id\",\"content\"}")?;
                let output = match block.content {
                    None => Vec::new(),
                    Some(content) => {
                        let (output, more) = self.parse_output(content)?;
                        inner_more = more;
                        output
                    }
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
                let block: ImageBlock<'_> = self.parse_json(
                    json,
                    "an image {\"type\",\"source\":{\"media_type\",\"data\"}}",
                )?;
                let picture: ImageSource =
                    self.parse_object(block.source.get(), "an image's `source`")?;
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
            Some(block) => Ok((block, inner_more || !self.has_only(json, known)?)),
            None => {
                let json = json.to_owned();
                Ok((Block::Opaque { kind, json }, false))
            }
        }
    }

    fn parse_output(self, content: &'a RawValue) -> Result<(Vec<Block>, bool), BadDraft> {
        if content.get().starts_with('"') {
            let text = self.parse_json(content.get(), "a text")?;
            return Ok((vec![Block::Text(text)], false));
        }
        let blocks = self.parse_list(
            content,
            "a result's `content` must be a text or a list of blocks",
        )?;
        let mut output = Vec::new();
        let mut any_more = false;
        for block in blocks {
            let (block, more) = self.parse_block(block, None)?;
            any_more |= more;
            output.push(block);
        }
        Ok((output, any_more))
    }

    fn check_id(self, id: &str, at: Option<&'a RawValue>) -> Result<(), BadDraft> {
        let checked = EntryId::new(id).check();
        checked.map_err(|error| self.error_at_value(at, error.to_string()))
    }

    /// Returns true if an object has no other members; `null` counts as absent.
    fn has_only(self, json: &'a str, known: &[&str]) -> Result<bool, BadDraft> {
        let members = self.parse_members(json, "an object")?;
        let is_known = |(name, raw): &(Cow<'_, str>, &RawValue)| {
            known.contains(&&**name) || raw.get() == "null"
        };
        Ok(members.iter().all(is_known))
    }

    /// Parses the members of an object. A duplicate is an error, because only one could count.
    fn parse_members(
        self,
        json: &'a str,
        what: &str,
    ) -> Result<Vec<(Cow<'a, str>, &'a RawValue)>, BadDraft> {
        let MemberList(members) = self.parse_object(json, what)?;
        let mut seen = HashSet::new();
        match members.iter().find(|(name, _)| !seen.insert(&**name)) {
            Some((name, raw)) => {
                let why = format!("duplicate member `{}`", truncate(name));
                Err(self.error_at_value(Some(raw), why))
            }
            None => Ok(members),
        }
    }

    /// Parses a string; `null` counts as absent.
    fn parse_string(
        self,
        raw: Option<&'a RawValue>,
        what: &str,
    ) -> Result<Option<String>, BadDraft> {
        match raw {
            Some(raw) if raw.get() != "null" => self
                .parse_json(raw.get(), &format!("a text as `{what}`"))
                .map(Some),
            _ => Ok(None),
        }
    }

    fn parse_list(self, raw: &'a RawValue, otherwise: &str) -> Result<Vec<&'a RawValue>, BadDraft> {
        if !raw.get().starts_with('[') {
            return Err(self.error_at_value(Some(raw), otherwise));
        }
        self.parse_json(raw.get(), "a list")
    }

    fn parse_object<T: Deserialize<'a>>(self, json: &'a str, what: &str) -> Result<T, BadDraft> {
        let start = json.trim_start();
        if !start.starts_with('{') {
            // Invalid JSON is reported as such, other values with the expected shape.
            self.parse_json::<IgnoredAny>(json, what)?;
            let shape = match self.offset(json) {
                0 => format!("; expected {EXPECTED_LINE}"),
                _ => String::new(),
            };
            return Err(self.error_at_offset(
                self.offset(start),
                format!("{what} must be a JSON object{shape}"),
            ));
        }
        self.parse_json(json, what)
    }

    fn parse_json<T: Deserialize<'a>>(self, json: &'a str, what: &str) -> Result<T, BadDraft> {
        serde_json::from_str(json).map_err(|error| {
            let why = crate::json::json_error_reason(&error);
            let why = match error.classify() {
                serde_json::error::Category::Data => match why.split_once(" where ") {
                    Some((found, _)) => format!("expected {what}, found {found}"),
                    None => format!("{why}; expected {what}"),
                },
                serde_json::error::Category::Eof => {
                    format!("{why}; each message must be on one line (`jq -c .` does that)")
                }
                _ => format!("{why}; expected {EXPECTED_LINE}"),
            };
            self.error_at_offset(self.offset(json) + error.column().saturating_sub(1), why)
        })
    }

    /// Returns the byte offset of a part of the line.
    fn offset(self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    fn error_at_value(self, at: Option<&'a RawValue>, why: impl Into<String>) -> BadDraft {
        self.error_at_offset(at.map_or(0, |raw| self.offset(raw.get())), why)
    }

    fn error_at_offset(self, offset: usize, why: impl Into<String>) -> BadDraft {
        let before = self
            .text
            .char_indices()
            .take_while(|(at, _)| *at < offset)
            .count();
        BadDraft {
            line: self.number,
            column: before + 1,
            reason: why.into(),
        }
    }
}

fn truncate(text: &str) -> String {
    let head: String = text.chars().take(40).collect();
    let mut head = visible(&head, LineBreaks::Spaces).into_owned();
    if text.chars().nth(40).is_some() {
        head.push('…');
    }
    head
}
