//! Extracts the searchable texts of a record.

use std::borrow::Cow;

use serde_json::Value;

use super::query::TextPart;
use annals_layouts::layout::{Decoder, Record};
use annals_layouts::model::{Block, Body, Entry, Message, Role};

/// Searchable text of a record.
#[derive(Debug)]
pub(crate) struct TextPiece<'a> {
    /// Kind of text.
    pub(crate) part: TextPart,
    /// Tool of the call or result.
    pub(crate) tool: Tool<'a>,
    /// Unescaped text.
    pub(crate) text: Cow<'a, str>,
    /// Weight of a match in this text.
    pub(crate) weight: f32,
}

/// Tool that a text belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool<'a> {
    None,
    /// Name of the called tool.
    Named(&'a str),
    /// Id of the call that the result answers.
    Called(&'a str),
}

/// Match weights: text that people write and read counts more than the rest.
const TITLE: f32 = 4.0;
const PROMPT: f32 = 3.0;
const REPLY: f32 = 2.0;
const THOUGHT: f32 = 1.5;
const CALL: f32 = 1.0;
const RESULT: f32 = 0.7;
const SYSTEM: f32 = 0.5;
/// Mostly repeated in the result.
const EXTRA: f32 = 0.1;

/// Emits every text of an entry, and the extra texts of its record.
pub(crate) fn text_pieces<'a>(
    entry: &'a Entry,
    beside: &'a [String],
    give: &mut dyn FnMut(TextPiece<'a>),
) {
    body_pieces(entry, give);
    let results = match &entry.body {
        Body::Message(message) => message.blocks.as_slice(),
        _ => &[],
    };
    let tool = results.iter().find_map(|block| match block {
        Block::ToolResult { call, .. } => Some(Tool::Called(call)),
        _ => None,
    });
    for json in beside {
        strings(json, &mut |text| {
            if is_encoded(&text) {
                return;
            }
            give(TextPiece {
                part: TextPart::Result,
                tool: tool.unwrap_or(Tool::None),
                text,
                weight: EXTRA,
            });
        });
    }
}

/// Returns true if a text is encoded bytes, such as an image, which nobody searches for.
fn is_encoded(text: &str) -> bool {
    const SHORTEST: usize = 64;
    let alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte);
    text.len() >= SHORTEST && text.as_bytes().iter().all(alphabet)
}

/// Returns the extra texts of a record that are not in its entries, as JSON.
pub(crate) fn extra_text(decoder: &mut dyn Decoder, record: &Record<'_>) -> Vec<String> {
    let mut found = Vec::new();
    decoder.extra_text(record, &mut |json| found.push(json.to_owned()));
    found
}

fn body_pieces<'a>(entry: &'a Entry, give: &mut dyn FnMut(TextPiece<'a>)) {
    let mut plain = |part: TextPart, text: &'a str, weight: f32| {
        give(TextPiece {
            part,
            tool: Tool::None,
            text: Cow::Borrowed(text),
            weight,
        });
    };
    match &entry.body {
        Body::Message(message) => {
            for block in &message.blocks {
                block_pieces(message, block, Tool::None, give);
            }
        }
        Body::Summary { text, .. } | Body::Title { text, .. } | Body::Tag { text } => {
            plain(TextPart::Title, text, TITLE);
        }
        Body::Note { text, .. } => plain(TextPart::Note, text, PROMPT),
        Body::Compaction { text } | Body::System { text, .. } | Body::Attachment { text, .. } => {
            plain(TextPart::System, text, SYSTEM);
        }
        Body::Queue { text, .. } => plain(TextPart::System, text, SYSTEM),
        Body::Files(change) => {
            let snippets = change
                .backups
                .iter()
                .filter_map(|file| file.snippet.as_ref());
            snippets.for_each(|text| plain(TextPart::System, text, SYSTEM));
        }
        Body::Resume { .. }
        | Body::Todos(_)
        | Body::TypedPrompt { .. }
        | Body::Settings { .. }
        | Body::Agent { .. }
        | Body::SessionList(_)
        | Body::Opaque { .. } => {}
    }
}

fn block_pieces<'a>(
    message: &Message,
    block: &'a Block,
    within: Tool<'a>,
    give: &mut dyn FnMut(TextPiece<'a>),
) {
    let said = match message.role {
        Role::User if message.human => PROMPT,
        Role::Assistant => REPLY,
        Role::User | Role::System => SYSTEM,
    };
    let (part, weight) = match within {
        Tool::None => (TextPart::Text, said),
        _ => (TextPart::Result, RESULT),
    };
    let mut one = |part: TextPart, tool: Tool<'a>, text: Cow<'a, str>, weight: f32| {
        give(TextPiece {
            part,
            tool,
            text,
            weight,
        });
    };
    match block {
        Block::Text(text) => one(part, within, Cow::Borrowed(text), weight),
        Block::Thinking { text, .. } => {
            one(TextPart::Thinking, within, Cow::Borrowed(text), THOUGHT);
        }
        Block::ToolUse { name, input, .. } => {
            let tool = Tool::Named(name);
            one(TextPart::Call, tool, Cow::Borrowed(name), CALL);
            strings(input, &mut |text| one(TextPart::Call, tool, text, CALL));
        }
        Block::ToolResult { call, output, .. } => {
            // Results contain only flat blocks, so the recursion is one level deep.
            let flat = output
                .iter()
                .filter(|block| !matches!(block, Block::ToolResult { .. }));
            let mut any = false;
            for block in flat {
                block_pieces(message, block, Tool::Called(call), &mut |piece| {
                    any = true;
                    give(piece);
                });
            }
            if !any {
                // An empty result or an image is still a result.
                give(TextPiece {
                    part: TextPart::Result,
                    tool: Tool::Called(call),
                    text: Cow::Borrowed(""),
                    weight: RESULT,
                });
            }
        }
        Block::Image { .. } => {}
        Block::Opaque { json, .. } => strings(json, &mut |text| one(part, within, text, weight)),
    }
}

/// Emits the strings and numbers in a JSON text, unescaped.
fn strings<'a>(json: &'a str, give: &mut dyn FnMut(Cow<'a, str>)) {
    let value: Value = match serde_json::from_str(json) {
        Ok(value) => value,
        // Too deeply nested or otherwise not parsable: emit it unparsed.
        Err(_) => return give(Cow::Borrowed(json)),
    };
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => give(Cow::Owned(text)),
            Value::Number(number) => give(Cow::Owned(number.to_string())),
            Value::Array(items) => pending.extend(items.into_iter().rev()),
            Value::Object(members) => {
                let members: Vec<Value> = members.into_iter().map(|(_, value)| value).collect();
                pending.extend(members.into_iter().rev());
            }
            Value::Bool(_) | Value::Null => {}
        }
    }
}

/// Members of a tool's input that name a file.
const FILES: [&str; 7] = [
    "file_path",
    "path",
    "notebook_path",
    "filePath",
    "filename",
    "file",
    "paths",
];

/// Emits the files that an entry passes to a tool or backed up.
pub(super) fn files(entry: &Entry, give: &mut dyn FnMut(&str)) {
    let blocks = match &entry.body {
        Body::Message(message) => &message.blocks,
        Body::Files(change) => {
            return change.backups.iter().for_each(|file| give(&file.path));
        }
        _ => return,
    };
    for block in blocks {
        let Block::ToolUse { input, .. } = block else {
            continue;
        };
        let Ok(Value::Object(members)) = serde_json::from_str(input) else {
            continue;
        };
        for value in FILES.iter().filter_map(|name| members.get(*name)) {
            match value {
                Value::String(path) => give(path),
                Value::Array(paths) => paths.iter().filter_map(Value::as_str).for_each(&mut *give),
                _ => {}
            }
        }
    }
}
