//! The shapes of what is written: members in the client's order, blocks in the API's form.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json;
use crate::model::{Block, Role, Usage};

/// The members of a line, in the client's order.
#[derive(Serialize)]
pub(super) struct Written<'a> {
    #[serde(rename = "parentUuid")]
    pub(super) parent: Option<&'a str>,
    #[serde(rename = "logicalParentUuid", skip_serializing_if = "Option::is_none")]
    pub(super) logical_parent: Option<&'a str>,
    #[serde(rename = "isSidechain")]
    pub(super) sidechain: bool,
    #[serde(rename = "agentId", skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<&'a str>,
    #[serde(rename = "userType")]
    pub(super) user_type: &'a str,
    pub(super) entrypoint: &'a str,
    pub(super) cwd: &'a str,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
    pub(super) version: &'a str,
    #[serde(rename = "gitBranch")]
    pub(super) git_branch: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subtype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Said<'a>>,
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<&'a str>,
    #[serde(rename = "isMeta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<bool>,
    #[serde(
        rename = "isVisibleInTranscriptOnly",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) transcript_only: Option<bool>,
    #[serde(rename = "isCompactSummary", skip_serializing_if = "Option::is_none")]
    pub(super) compact_summary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<&'a str>,
    #[serde(rename = "compactMetadata", skip_serializing_if = "Option::is_none")]
    pub(super) compaction: Option<Compaction<'a>>,
    #[serde(rename = "toolUseResult", skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Outcome<'a>>,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
}

#[derive(Serialize)]
pub(super) struct Said<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'a str>,
    pub(super) role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    pub(super) content: &'a RawValue,
    #[serde(flatten)]
    pub(super) stop: Option<Stop<'a>>,
}

#[derive(Serialize)]
pub(super) struct Stop<'a> {
    pub(super) stop_reason: Option<&'a str>,
    pub(super) stop_sequence: (),
    pub(super) usage: Tokens,
}

#[derive(Serialize)]
pub(super) struct Tokens {
    pub(super) input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation: CacheWrites,
    pub(super) output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server_tool_use: Option<Server>,
    pub(super) service_tier: &'static str,
}

#[derive(Serialize)]
pub(super) struct CacheWrites {
    pub(super) ephemeral_5m_input_tokens: u64,
    pub(super) ephemeral_1h_input_tokens: u64,
}

#[derive(Serialize)]
pub(super) struct Server {
    pub(super) web_search_requests: u64,
}

impl Tokens {
    pub(super) fn of(usage: &Usage) -> Self {
        let searches = usage.web_searches;
        Tokens {
            input_tokens: usage.input,
            cache_creation_input_tokens: usage.cache_write_5m.saturating_add(usage.cache_write_1h),
            cache_read_input_tokens: usage.cache_read,
            cache_creation: CacheWrites {
                ephemeral_5m_input_tokens: usage.cache_write_5m,
                ephemeral_1h_input_tokens: usage.cache_write_1h,
            },
            output_tokens: usage.output,
            server_tool_use: (searches > 0).then_some(Server {
                web_search_requests: searches,
            }),
            service_tier: "standard",
        }
    }
}

#[derive(Serialize)]
pub(super) struct Compaction<'a> {
    pub(super) trigger: &'a str,
    #[serde(rename = "preTokens")]
    pub(super) tokens: u64,
}

#[derive(Serialize)]
pub(super) struct Outcome<'a> {
    #[serde(rename = "agentId")]
    pub(super) agent: &'a str,
}

#[derive(Serialize)]
pub(super) struct TitleFile<'a> {
    #[serde(rename = "customTitle")]
    pub(super) title: &'a str,
}

#[derive(Serialize)]
pub(super) struct Meta<'a> {
    #[serde(rename = "agentType")]
    pub(super) kind: &'a str,
    pub(super) description: &'a str,
    #[serde(rename = "toolUseId", skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<&'a str>,
}

/// Stands beside the tree; the client skips types that it does not know.
#[derive(Serialize)]
pub(super) struct Opening<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
    pub(super) cwd: Option<&'a str>,
    #[serde(rename = "gitBranch", skip_serializing_if = "Option::is_none")]
    pub(super) git_branch: Option<&'a str>,
    pub(super) version: &'a str,
    pub(super) entrypoint: &'a str,
    pub(super) timestamp: String,
}

#[derive(Serialize)]
pub(super) struct Note<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(rename = "noteId")]
    pub(super) id: &'a str,
    pub(super) timestamp: Timestamp,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
    pub(super) entrypoint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<&'a str>,
    pub(super) text: &'a str,
}

/// A line beside the tree. The type comes first: readers of the last kilobytes look for it there.
#[derive(Serialize, Default)]
pub(super) struct Aside<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(rename = "customTitle", skip_serializing_if = "Option::is_none")]
    pub(super) custom_title: Option<&'a str>,
    #[serde(rename = "aiTitle", skip_serializing_if = "Option::is_none")]
    pub(super) ai_title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<&'a str>,
    #[serde(rename = "lastPrompt", skip_serializing_if = "Option::is_none")]
    pub(super) last_prompt: Option<&'a str>,
    #[serde(rename = "leafUuid", skip_serializing_if = "Option::is_none")]
    pub(super) leaf: Option<&'a str>,
    #[serde(rename = "sessionId", skip_serializing_if = "str::is_empty")]
    pub(super) session: &'a str,
}

impl<'a> Aside<'a> {
    pub(super) fn of(kind: &'a str) -> Self {
        Aside {
            kind,
            ..Aside::default()
        }
    }

    pub(super) fn tag(mut self, text: &'a str) -> Self {
        self.tag = Some(text);
        self
    }
}

/// A prompt is written as a string, anything else as blocks.
pub(super) fn content(role: Role, blocks: &[Block]) -> Result<Box<RawValue>> {
    let json = match blocks {
        [Block::Text(text)] if role == Role::User => json::quote(text),
        blocks => blocks_json(blocks)?,
    };
    raw(json)
}

fn blocks_json(blocks: &[Block]) -> Result<String> {
    let parts: Vec<String> = blocks.iter().map(block_json).collect::<Result<_>>()?;
    Ok(format!("[{}]", parts.join(",")))
}

fn block_json(block: &Block) -> Result<String> {
    let quote = |text: &str| json::quote(text);
    Ok(match block {
        Block::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
        Block::Thinking { text, signature } => format!(
            r#"{{"type":"thinking","thinking":{},"signature":{}}}"#,
            quote(text),
            quote(signature.as_deref().unwrap_or_default())
        ),
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
            let output = match output.as_slice() {
                [Block::Text(text)] => quote(text),
                blocks => {
                    let mut parts = Vec::new();
                    for block in blocks {
                        if matches!(block, Block::ToolResult { .. }) {
                            return Err(Error::refused("a tool result cannot hold a tool result"));
                        }
                        parts.push(block_json(block)?);
                    }
                    format!("[{}]", parts.join(","))
                }
            };
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

/// Given JSON on one line. White space between tokens is all that a line break can be in it.
fn one_line(json: &str) -> Result<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(json)
        .map_err(|error| Error::refused(format!("a block's JSON is broken: {error}")))?;
    Ok(json.trim().replace(['\n', '\r'], " "))
}

fn raw(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|error| Error::refused(error.to_string()))
}
