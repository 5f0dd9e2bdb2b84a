//! Entries and flaws as JSON.

use std::collections::BTreeMap;

use annals_layouts::model::{
    Block, Body, Entry, FileBackup, Flaw, Money, SessionId, TitleSource, Todo, Usage,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

/// An entry as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryJson {
    id: Option<String>,
    parent: Option<String>,
    time: Option<Timestamp>,
    agent: Option<String>,
    /// Session id in the record, if it differs from the session shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    kind: &'static str,
    role: Option<&'static str>,
    model: Option<String>,
    blocks: Vec<MessageBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    human: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
    #[serde(flatten)]
    other: OtherBodyJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, RawOrText>,
    cost_usd: Option<Money>,
    line: Option<u64>,
    offset: u64,
}

/// Members of entries that are not messages, named as exports name them.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OtherBodyJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    /// Type of the record or of its content, as the layout spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    subtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<TitleSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    todos: Option<Vec<Todo>>,
    /// The message before which the files were saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backups: Option<Vec<FileBackup>>,
}

impl OtherBodyJson {
    fn new(body: &Body) -> Self {
        let mut row = OtherBodyJson::default();
        let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        match body {
            Body::Queue { operation, .. } => row.operation = Some(operation.clone()),
            Body::System { subtype, .. } => row.subtype = filled(subtype),
            Body::Attachment { kind, .. } => row.subtype = filled(kind),
            Body::Opaque { kind, .. } => row.subtype.clone_from(kind),
            Body::Summary { leaf, .. } => row.leaf = leaf.as_ref().map(ToString::to_string),
            Body::Resume { leaf } => row.leaf = Some(leaf.to_string()),
            Body::Title { source, .. } => row.source = Some(*source),
            Body::Note { author, .. } => row.author.clone_from(author),
            Body::Todos(todos) => row.todos = Some(todos.clone()),
            Body::Files(change) => {
                row.message = change.message.as_ref().map(ToString::to_string);
                row.backups = Some(change.backups.clone());
            }
            _ => {}
        }
        row
    }
}

/// A block of a message, with the members that annals does not interpret.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct MessageBlock {
    #[serde(flatten)]
    block: BlockJson,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, RawOrText>,
}

impl From<BlockJson> for MessageBlock {
    fn from(block: BlockJson) -> Self {
        MessageBlock {
            block,
            members: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
enum BlockJson {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        input: RawOrText,
    },
    ToolResult {
        call: String,
        output: Vec<BlockJson>,
        is_error: bool,
    },
    Image {
        media_type: String,
        bytes: usize,
    },
    Opaque {
        name: String,
        json: RawOrText,
    },
}

/// JSON text that is passed on unchanged; text that is not JSON becomes a string.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RawOrText {
    Raw(Box<RawValue>),
    Text(String),
}

/// Any value.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for RawOrText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Value".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

impl RawOrText {
    fn new(text: String) -> Self {
        RawValue::from_string(text.clone()).map_or(RawOrText::Text(text), RawOrText::Raw)
    }
}

/// A flaw as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlawJson<'a> {
    kind: &'static str,
    line: u64,
    offset: u64,
    length: u64,
    detail: &'a str,
}

impl<'a> FlawJson<'a> {
    /// Converts a flaw.
    pub fn new(flaw: &'a Flaw) -> Self {
        FlawJson {
            kind: flaw.kind.as_str(),
            line: flaw.span.line,
            offset: flaw.span.offset,
            length: flaw.span.len,
            detail: &flaw.detail,
        }
    }
}

impl EntryJson {
    /// Converts an entry.
    pub fn new(entry: Entry) -> Self {
        let mut row = EntryJson {
            id: entry.id.map(|id| id.to_string()),
            parent: entry.parent.map(|id| id.to_string()),
            time: entry.time,
            agent: entry.agent.map(|agent| agent.to_string()),
            session_id: None,
            channel: entry.context.channel,
            kind: entry.body.kind(),
            role: None,
            model: None,
            blocks: Vec::new(),
            human: None,
            response: None,
            other: OtherBodyJson::new(&entry.body),
            request: None,
            stop_reason: None,
            usage: None,
            members: entry
                .members
                .into_iter()
                .map(|(name, json)| (name, RawOrText::new(json)))
                .collect(),
            cost_usd: None,
            line: Some(entry.span.line).filter(|line| *line > 0),
            offset: entry.span.offset,
        };
        match entry.body {
            Body::Message(message) => {
                row.role = Some(message.role.as_str());
                row.model = message.model;
                row.human = message.human.then_some(true);
                row.response = message.response;
                row.request = message.request;
                row.stop_reason = message.stop_reason;
                row.usage = message.usage;
                let mut members = entry.block_members;
                let blocks = message.blocks.into_iter().enumerate();
                let blocks = blocks.map(|(at, it)| {
                    let members = members.remove(&at).unwrap_or_default().into_iter();
                    MessageBlock {
                        block: block_json(it),
                        members: members
                            .map(|(name, json)| (name, RawOrText::new(json)))
                            .collect(),
                    }
                });
                row.blocks = blocks.collect();
            }
            body => {
                row.blocks = body_text(body)
                    .map(|text| BlockJson::Text { text }.into())
                    .into_iter()
                    .collect()
            }
        }
        row
    }

    /// Converts an entry that is shown as part of `session`.
    pub fn for_session(mut entry: Entry, session: &SessionId) -> Self {
        let named = entry.session.take();
        EntryJson {
            session_id: named.filter(|named| named != session.as_str()),
            ..EntryJson::new(entry)
        }
    }

    /// Sets the cost.
    pub fn with_cost(self, cost: Option<Money>) -> Self {
        EntryJson {
            cost_usd: cost,
            ..self
        }
    }
}

/// Returns the text of an entry that is not a message.
pub fn body_text(body: Body) -> Option<String> {
    let text = match body {
        Body::Summary { text, .. }
        | Body::Compaction { text }
        | Body::Title { text, .. }
        | Body::Tag { text }
        | Body::Note { text, .. }
        | Body::TypedPrompt { text, .. } => text,
        Body::System { subtype, text } if text.is_empty() => subtype,
        Body::System { text, .. } => text,
        Body::Queue { operation, text } if text.is_empty() => operation,
        Body::Queue { text, .. } => text,
        Body::Files(change) => {
            let snippets = change.backups.into_iter().filter_map(|file| file.snippet);
            let text = snippets.collect::<Vec<_>>().join("\n");
            Some(text).filter(|text| !text.is_empty())?
        }
        Body::Attachment { kind, text } if text.is_empty() => kind,
        Body::Attachment { text, .. } => text,
        Body::Opaque { kind, .. } => kind?,
        _ => return None,
    };
    Some(text)
}

fn block_json(block: Block) -> BlockJson {
    match block {
        Block::Text(text) => BlockJson::Text { text },
        Block::Thinking { text, signature } => BlockJson::Thinking { text, signature },
        Block::ToolUse { id, name, input } => BlockJson::ToolUse {
            id,
            name,
            input: RawOrText::new(input),
        },
        Block::ToolResult {
            call,
            output,
            is_error,
        } => BlockJson::ToolResult {
            call,
            // Decoders keep results flat.
            output: output.into_iter().map(self::block_json).collect(),
            is_error,
        },
        Block::Image { media_type, data } => BlockJson::Image {
            media_type,
            bytes: decoded_len(&data),
        },
        Block::Opaque { kind, json } => BlockJson::Opaque {
            name: kind,
            json: RawOrText::new(json),
        },
    }
}

/// Returns the number of bytes that a base64 text encodes.
pub fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}
