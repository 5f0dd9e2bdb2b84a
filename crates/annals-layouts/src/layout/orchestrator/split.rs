//! Splitting messages into records.

use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::layout::content::{GivenBlocks, raw};
use crate::model::{Block, Body, Draft, Message, Role};

use super::decode::SAME_TEXT_BLOCK;

/// A record of a message: some of its blocks, and whether it carries the tokens of a reply.
pub(super) struct MessagePart<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) tokens: bool,
}

/// Splits a message into records: each call and each result alone, the blocks between them
/// together.
pub(super) fn split_message(message: &Message, spent: bool) -> Vec<MessagePart<'_>> {
    let alone = |block: &Block| match block {
        Block::ToolUse { .. } => message.role == Role::Assistant,
        Block::ToolResult { .. } => message.role == Role::User,
        _ => false,
    };
    let runs = message.blocks.chunk_by(|a, b| !alone(a) && !alone(b));
    let mut parts: Vec<MessagePart<'_>> = runs
        .map(|blocks| MessagePart {
            blocks,
            tokens: false,
        })
        .collect();
    let says = |part: &MessagePart<'_>| !part.blocks.iter().any(alone);
    if parts.is_empty() || (spent && !parts.iter().any(says)) {
        let blocks = &[];
        parts.insert(
            0,
            MessagePart {
                blocks,
                tokens: false,
            },
        );
    }
    if let Some(first) = parts.iter_mut().find(|part| says(part)) {
        first.tokens = true;
    }
    parts
}

/// Encodes blocks in the format of the model API. With `once`, the text that is the record's
/// content is not repeated.
pub(super) fn parts_json(given: GivenBlocks<'_>, once: bool) -> Result<Box<RawValue>> {
    if !once || given.has_raw() {
        return raw(given.json()?);
    }
    let parts = given.blocks.iter().zip(given.each_json()?);
    let parts = parts.map(|(block, json)| match block {
        Block::Text(_) => SAME_TEXT_BLOCK.to_owned(),
        _ => json,
    });
    raw(format!("[{}]", parts.collect::<Vec<_>>().join(",")))
}

pub(super) fn texts(blocks: &[Block]) -> Vec<&str> {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Returns the tool of a call that is among the drafts.
pub(super) fn tool_of_call<'d>(call: &str, drafts: &'d [Draft]) -> Option<&'d str> {
    let messages = drafts.iter().rev().filter_map(|draft| match &draft.body {
        Body::Message(message) => Some(message),
        _ => None,
    });
    let mut blocks = messages.flat_map(|message| message.blocks.iter().rev());
    blocks.find_map(|block| match block {
        Block::ToolUse { id, name, .. } if id == call => Some(name.as_str()),
        _ => None,
    })
}

/// Returns the time of the record `records` records after one with this time.
pub(super) fn record_time(time: Timestamp, records: usize) -> Option<Timestamp> {
    let after = jiff::SignedDuration::from_millis(records.try_into().ok()?);
    time.checked_add(after).ok()
}
