//! The line of a part of a message.

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{self, Pairs, Raw};
use crate::layout::content::{self, GivenBlocks, content_json};
use crate::layout::usage_fields::UsageOut;
use crate::model::{Block, Members, Message, Role};

use super::line::MESSAGE_COUNT;
use super::output::{LineOut, MessageOut, StopOut, ToolOutcomeOut};
use crate::layout::write::encode;

/// Encodes the line of a part of a message. `common` has the members shared by all lines.
pub(super) fn message_line(
    message: &Message,
    blocks: GivenBlocks<'_>,
    response: Option<&str>,
    model: Option<&str>,
    common: LineOut<'_>,
) -> Result<Vec<u8>> {
    let content = content_json(message.role, blocks)?;
    let answers = message.role == Role::Assistant;
    encode(&LineOut {
        message: Some(MessageOut {
            id: response,
            kind: answers.then_some("message"),
            role: message.role.as_str(),
            model,
            content: &content,
            stop: answers.then(|| StopOut {
                stop_reason: message
                    .stop_reason
                    .as_deref()
                    .or_else(|| stop_reason(message)),
                stop_sequence: (),
                usage: UsageOut::new(&message.usage.unwrap_or_default()),
            }),
        }),
        request: message.request.as_deref(),
        api_error: message.api_error.then_some(true),
        meta: message.meta.then_some(true),
        compact_summary: message.compact_summary.then_some(true),
        transcript_only: message.compact_summary.then_some(true),
        result: message.spawned.as_ref().map(|agent| ToolOutcomeOut {
            agent: agent.as_str(),
        }),
        ..common
    })
}

/// Adds the members of the API message that the model of annals has no field for.
pub(super) fn with_members(line: Vec<u8>, role: Role, members: &Members) -> Result<Vec<u8>> {
    if members.is_empty() || role != Role::Assistant {
        return Ok(line);
    }
    let bad = |name: &str| Error::refused(format!("`{name}` cannot be written"));
    let text = String::from_utf8_lossy(&line);
    let mut values: Vec<(&str, String)> = Vec::new();
    for (name, value) in members {
        if name != "usage" {
            values.push((name, value.clone()));
            continue;
        }
        let known = json::member(&text, "message").and_then(|it| json::member(it, "usage"));
        let more: Pairs<'_> = Raw(Some(value)).parse();
        let more: Vec<(&str, &str)> = more
            .0
            .iter()
            .filter_map(|(name, raw)| Some((&**name, raw.0?)))
            .collect();
        let usage = json::set_members(known.unwrap_or("{}").as_bytes(), &more);
        let usage = usage.and_then(|usage| String::from_utf8(usage).ok());
        values.push((name, usage.ok_or_else(|| bad(name))?));
    }
    let values: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    json::set_nested_members(&line, "message", &values).ok_or_else(|| bad("message"))
}

/// Checks the number of messages that a summary covers.
pub(super) fn message_count(json: &str) -> Result<Box<RawValue>> {
    if !matches!(Raw(Some(json)).count(), Ok(Some(_))) {
        return Err(Error::refused(format!(
            "`{MESSAGE_COUNT}` must be a whole number, not {json}"
        )));
    }
    content::raw(json.to_owned())
}

fn stop_reason(message: &Message) -> Option<&'static str> {
    let calls = message
        .blocks
        .iter()
        .any(|block| matches!(block, Block::ToolUse { .. }));
    Some(if calls { "tool_use" } else { "end_turn" })
}
