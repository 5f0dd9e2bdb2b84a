//! The context of a session: the messages that an agent sends to its model when it resumes.
//!
//! The rule is that of Claude Code, found by experiment with its client 2.1.325 (tools/resume-oracle,
//! tools/verify). For other layouts the same rule is applied to the model. In order:
//!
//! 1. The path to the entry at which the session would be resumed; after a compaction, only what
//!    follows its boundary, and after its summary the messages that the compaction keeps (pi).
//! 2. Without API errors that the client wrote in place of a reply, and without thinking of other
//!    models than the last one.
//! 3. The entries of one response become one message, and so do adjacent messages of the user.
//! 4. A call without a result is removed, unless it is the last one: then it gets a result that says
//!    so. A result without a call is removed.
//! 5. A conversation that ends with the user gets a reply, so that the next prompt can follow.
//!
//! In a damaged log the client guesses missing parents by time and skips records that annals reads, and
//! it sends the messages that the boundary of a partial compaction names. The context differs there.

use std::collections::HashSet;

use serde::ser::{SerializeSeq as _, SerializeStruct as _};
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::error::Result;
use annals_layouts::model::{Block, Body, Entry, Message, OutlineKind, Role, SYNTHETIC};

use super::session::Session;

/// Text of a message without content.
const NO_CONTENT: &str = "(no content)";

/// Text of the reply that is inserted after a message of the user.
const NO_RESPONSE: &str = "No response requested.";

/// Text of the result that is inserted for a last call without one.
const INTERRUPTED: &str = "[Tool call interrupted before a result was received]";

/// Kind of thinking that the vendor encrypted.
const REDACTED_THINKING: &str = "redacted_thinking";

/// A message as a model gets it. Serialises as the Messages API spells it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ContextMessage {
    /// The role: user or assistant.
    pub role: Role,
    /// The content.
    pub blocks: Vec<Block>,
    /// The response that it is.
    response: Option<String>,
    /// Whether the client adds it.
    pub inserted: bool,
}

impl Session {
    /// Returns the messages that an agent would send to its model before the next prompt, if it
    /// resumed the session; or with `leaf` if it continued at that message.
    pub fn context(&self, leaf: Option<&str>) -> Result<Vec<ContextMessage>> {
        let Some((_, scan, tree)) = self.main_log() else {
            return Ok(Vec::new());
        };
        let path = match leaf {
            Some(leaf) => tree.path_to(self.find_entry(leaf)?),
            None => tree.resumed_path(),
        };
        let mut path: Vec<usize> = path.unwrap_or_default();
        path.retain(|at| *at < scan.outlines.len());
        let is_compaction = |at: &usize| {
            let outline = scan.outlines.get(*at);
            outline.is_some_and(|outline| outline.kind == OutlineKind::Compaction)
        };
        let mut kept: Vec<usize> = Vec::new();
        if let Some(last) = path.iter().rposition(is_compaction) {
            path.drain(..last);
            if let Some(&compaction) = path.first() {
                kept = tree.kept_messages(&scan.outlines, compaction);
            }
        }
        let read = |path: &[usize]| -> Result<Vec<Entry>> {
            let mut entries = Vec::new();
            self.each_entry_of_log(0, path, |entry| {
                entries.push(entry);
                Ok(true)
            })?;
            Ok(entries)
        };
        let mut entries = read(&path)?;
        if !kept.is_empty() {
            let mut kept = read(&kept)?;
            kept.retain(|entry| !is_summary(entry));
            let summary = entries.iter().position(is_summary);
            let after = summary.map_or(0, |summary| summary + 1);
            entries.splice(after..after, kept);
        }
        let messages = entries.into_iter().filter_map(|entry| match entry.body {
            Body::Message(message) => Some(message),
            _ => None,
        });
        Ok(messages_for_model(messages.collect()))
    }
}

/// Returns whether an entry is the summary that follows a compaction.
pub(crate) fn is_summary(entry: &Entry) -> bool {
    matches!(&entry.body, Body::Message(message) if message.compact_summary)
}

/// Returns whether the client wrote a message in place of a reply, and does not send it.
fn is_client_error(message: &Message) -> bool {
    message.api_error && message.model.as_deref() == Some(SYNTHETIC)
}

fn messages_for_model(mut messages: Vec<Message>) -> Vec<ContextMessage> {
    let ends_with_user = messages
        .last()
        .is_some_and(|last| last.role != Role::Assistant);
    messages.retain(|message| !is_client_error(message));
    let replies = messages.iter().rev();
    let mut models = replies.filter_map(|message| message.model.clone());
    let model = models.find(|model| model != SYNTHETIC);
    let mut merged: Vec<ContextMessage> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::Assistant => Role::Assistant,
            _ => Role::User,
        };
        let foreign = message.model != model;
        let had_blocks = !message.blocks.is_empty();
        let mut blocks = message.blocks;
        blocks.retain(|block| match block {
            Block::Thinking { .. } => !foreign,
            Block::Opaque { kind, .. } if kind == REDACTED_THINKING => !foreign,
            Block::Text(text) => !text.is_empty(),
            _ => true,
        });
        if blocks.is_empty() {
            // An empty reply is sent as one; one of which nothing is left is not.
            if role == Role::User || had_blocks {
                continue;
            }
            blocks.push(Block::Text(NO_CONTENT.to_owned()));
        }
        let response = message.response.as_deref();
        // Results may stand between the calls of one response.
        let between = merged.last().is_some_and(ContextMessage::has_only_results);
        let before = merged.len().checked_sub(1 + usize::from(between));
        let continued = match role {
            Role::Assistant => before.and_then(|at| merged.get_mut(at)),
            _ => merged.last_mut(),
        };
        match continued {
            Some(known) if known.is_continued_by(role, response) => {
                known.blocks.append(&mut blocks);
            }
            _ => merged.push(ContextMessage {
                role,
                blocks,
                response: message.response,
                inserted: false,
            }),
        }
    }
    merged.retain(|message| !message.is_only_thinking());
    pair_calls(&mut merged);
    let has_open_calls = merged.last().is_some_and(|last| last.inserted);
    if (ends_with_user || has_open_calls) && !merged.is_empty() {
        merged.push(ContextMessage::inserted(
            Role::Assistant,
            vec![Block::Text(NO_RESPONSE.to_owned())],
        ));
    }
    merged
}

/// Removes results without a call and calls without a result. Calls of the last message get
/// results.
fn pair_calls(messages: &mut Vec<ContextMessage>) {
    let results: HashSet<String> = messages
        .iter()
        .flat_map(|message| &message.blocks)
        .filter_map(|block| match block {
            Block::ToolResult { call, .. } => Some(call.clone()),
            _ => None,
        })
        .collect();
    let last = messages.len().saturating_sub(1);
    let mut open: Vec<String> = Vec::new();
    let mut calls: HashSet<String> = HashSet::new();
    for (at, message) in messages.iter_mut().enumerate() {
        let before = message.blocks.len();
        message.blocks.retain(|block| match block {
            Block::ToolUse { id, .. } => {
                calls.insert(id.clone());
                let answered = results.contains(id);
                if !answered && at == last {
                    open.push(id.clone());
                }
                answered || at == last
            }
            Block::ToolResult { call, .. } => calls.contains(call),
            _ => true,
        });
        if before > 0 && message.blocks.is_empty() {
            message.blocks.push(Block::Text(NO_CONTENT.to_owned()));
        }
    }
    if !open.is_empty() {
        let result = |call| Block::ToolResult {
            call,
            output: vec![Block::Text(INTERRUPTED.to_owned())],
            is_error: true,
        };
        let results = open.into_iter().map(result).collect();
        messages.push(ContextMessage::inserted(Role::User, results));
    }
}

impl ContextMessage {
    fn inserted(role: Role, blocks: Vec<Block>) -> Self {
        ContextMessage {
            role,
            blocks,
            response: None,
            inserted: true,
        }
    }

    /// Returns whether a message belongs to this one.
    fn is_continued_by(&self, role: Role, response: Option<&str>) -> bool {
        let same_response = response.is_some() && self.response.as_deref() == response;
        self.role == role && (role == Role::User || same_response)
    }

    fn has_only_results(&self) -> bool {
        let mut blocks = self.blocks.iter();
        blocks.all(|block| matches!(block, Block::ToolResult { .. }))
    }

    fn is_only_thinking(&self) -> bool {
        self.role == Role::Assistant
            && self.blocks.iter().all(|block| match block {
                Block::Thinking { .. } => true,
                Block::Opaque { kind, .. } => kind == REDACTED_THINKING,
                _ => false,
            })
    }
}

impl Serialize for ContextMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_struct("ContextMessage", 2)?;
        message.serialize_field("role", self.role.as_str())?;
        message.serialize_field("content", &ApiBlocks(&self.blocks))?;
        message.end()
    }
}

/// Blocks as the Messages API spells them.
struct ApiBlocks<'a>(&'a [Block]);

struct ApiBlock<'a>(&'a Block);

impl Serialize for ApiBlocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut blocks = serializer.serialize_seq(Some(self.0.len()))?;
        for block in self.0 {
            blocks.serialize_element(&ApiBlock(block))?;
        }
        blocks.end()
    }
}

impl Serialize for ApiBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            Block::Text(text) => json!({ "type": "text", "text": text }).serialize(serializer),
            Block::Thinking { text, signature } => {
                let signature = signature.as_deref().unwrap_or_default();
                json!({ "type": "thinking", "thinking": text, "signature": signature })
                    .serialize(serializer)
            }
            Block::ToolUse { id, name, input } => {
                // Exact arguments, however their numbers are spelled.
                let mut block = serializer.serialize_struct("ToolUse", 4)?;
                block.serialize_field("type", "tool_use")?;
                block.serialize_field("id", id)?;
                block.serialize_field("name", name)?;
                match RawValue::from_string(input.clone()) {
                    Ok(input) => block.serialize_field("input", &input)?,
                    Err(_) => block.serialize_field("input", input)?,
                }
                block.end()
            }
            Block::ToolResult {
                call,
                output,
                is_error,
            } => {
                let mut block = serializer.serialize_struct("ToolResult", 4)?;
                block.serialize_field("type", "tool_result")?;
                block.serialize_field("tool_use_id", call)?;
                block.serialize_field("content", &ApiBlocks(output))?;
                block.serialize_field("is_error", is_error)?;
                block.end()
            }
            Block::Image { media_type, data } => {
                let source = match data.starts_with("http") {
                    true => json!({ "type": "url", "url": data }),
                    false => json!({ "type": "base64", "media_type": media_type, "data": data }),
                };
                json!({ "type": "image", "source": source }).serialize(serializer)
            }
            Block::Opaque { kind, json } => match RawValue::from_string(json.clone()) {
                Ok(json) => json.serialize(serializer),
                Err(_) => json!({ "type": kind }).serialize(serializer),
            },
        }
    }
}
