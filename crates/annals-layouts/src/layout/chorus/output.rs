//! Lines in the program's format.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::PROGRAM;
use crate::layout::content::{GivenBlocks, one_line, output_json, raw};
use crate::layout::extension::ExtensionOut;
use crate::model::{Block, Members, Role};

use super::line::{SESSION_ID, TOOL_CALL_PREFIX, is_number, is_object};

/// A line, with members in the program's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineOut<'a> {
    pub(super) uuid: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) content: Box<RawValue>,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_tool_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claude_message: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost_usd: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_creation_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context_window: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) num_turns: Option<Box<RawValue>>,
    pub(super) annals: ExtensionOut<'a>,
}

impl<'a> LineOut<'a> {
    pub(super) fn new(kind: &'a str, content: Box<RawValue>) -> Self {
        LineOut {
            uuid: "",
            kind,
            content,
            timestamp: String::new(),
            session_id: None,
            claude_message: None,
            cost_usd: None,
            duration_ms: None,
            context_window: None,
            num_turns: None,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
            is_tool_error: None,
            input_tokens: None,
            output_tokens: None,
            cache_read_tokens: None,
            cache_creation_tokens: None,
            annals: ExtensionOut {
                program: Some(PROGRAM),
                ..ExtensionOut::default()
            },
        }
    }

    /// Sets members that only this layout has, and rejects values that it could not read back.
    pub(super) fn set(&mut self, members: &Members) -> Result<()> {
        for (name, json) in members {
            let value = raw(one_line(json)?)?;
            let (slot, sound, wanted) = match name.as_str() {
                SESSION_ID => {
                    let text = json::decode_string(json.trim()).is_some();
                    (&mut self.session_id, text, "a string")
                }
                "claudeMessage" => (&mut self.claude_message, is_object(json), "an object"),
                name => {
                    let slot = match name {
                        "costUsd" => &mut self.cost_usd,
                        "durationMs" => &mut self.duration_ms,
                        "contextWindow" => &mut self.context_window,
                        "numTurns" => &mut self.num_turns,
                        _ => {
                            return Err(Error::refused(format!(
                                "a Chorus message has no member `{name}`"
                            )));
                        }
                    };
                    (slot, is_number(json), "a non-negative number")
                }
            };
            if !sound {
                return Err(Error::refused(format!("`{name}` must be {wanted}")));
            }
            if slot.replace(value).is_some() {
                return Err(Error::refused(format!("`{name}` is given twice")));
            }
        }
        Ok(())
    }

    /// Creates the line of a part of a message.
    pub(super) fn for_blocks(role: Role, given: GivenBlocks<'a>) -> Result<Self> {
        let mut line = match (role, given.blocks) {
            (Role::Assistant, [Block::ToolUse { id, name, input }]) => {
                let shown = json::quote(&format!("{TOOL_CALL_PREFIX}{name}"));
                let mut line = LineOut::new("tool_use", raw(shown)?);
                line.tool_name = Some(name);
                line.tool_input = Some(raw(one_line(input)?)?);
                line.tool_use_id = Some(id);
                line
            }
            (
                Role::User,
                [
                    Block::ToolResult {
                        call,
                        output,
                        is_error,
                    },
                ],
            ) => {
                let mut line = LineOut::new("tool_result", raw(output_json(output)?)?);
                line.tool_use_id = Some(call);
                line.is_tool_error = Some(*is_error);
                line
            }
            (role, [Block::Text(text)]) => LineOut::new(role.as_str(), raw(json::quote(text))?),
            (role, _) => return Ok(LineOut::new(role.as_str(), raw(given.json()?)?)),
        };
        line.annals.blocks = given.raw_json()?;
        Ok(line)
    }
}
