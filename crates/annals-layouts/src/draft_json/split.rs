//! Splits messages into drafts, each of which becomes one entry or several of one kind.

use crate::model::{Block, Body, Draft, EntryId, Message, RawBlocks, Role};
use jiff::Timestamp;

/// Puts each tool result of a message into a draft of its own, and the blocks between into others.
pub(super) fn split_tool_results(
    message: Message,
    mut raw_blocks: RawBlocks,
    id: Option<String>,
    parent: Option<String>,
    time: Option<Timestamp>,
) -> Vec<Draft> {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    let results = message.blocks.iter().any(is_result);
    let mut parts: Vec<(Vec<Block>, RawBlocks)> = Vec::new();
    let mut after_result = false;
    for (at, block) in message.blocks.into_iter().enumerate() {
        let result = is_result(&block);
        if result || after_result || parts.is_empty() {
            parts.push(Default::default());
        }
        if let Some((blocks, raw)) = parts.last_mut() {
            raw.extend(raw_blocks.remove(&at).map(|json| (blocks.len(), json)));
            blocks.push(block);
        }
        after_result = result;
    }
    let count = parts.len();
    let drafts = parts.into_iter().enumerate().map(|(at, (blocks, raw))| {
        let mut part = Message::new(message.role, blocks);
        part.model.clone_from(&message.model);
        part.response.clone_from(&message.response);
        part.request.clone_from(&message.request);
        part.stop_reason.clone_from(&message.stop_reason);
        part.usage = message.usage;
        part.human = message.role == Role::User && !results;
        let mut draft = Draft::new(Body::Message(part));
        draft.raw_blocks = raw;
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
