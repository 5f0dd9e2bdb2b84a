//! The shapes of what is written: the design's members in its order, then `metadata` and `annals`.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::layout::annex::Words;
use crate::layout::field::{CacheWrites, Searches};
use crate::model::Usage;

/// The members of a record.
#[derive(Serialize)]
pub(super) struct Written<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Spent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(rename = "stopReason", skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<&'a str>,
    #[serde(rename = "toolCallId", skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<&'a str>,
    pub(super) metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annals: Option<Words<'a>>,
}

#[derive(Serialize)]
pub(super) struct Metadata<'a> {
    pub(super) source: &'a str,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<&'a str>,
    #[serde(rename = "gitBranch", skip_serializing_if = "Option::is_none")]
    pub(super) git_branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resumed: Option<bool>,
}

/// Tokens in the design's words, and in the model's where the design has none.
#[derive(Default, Serialize)]
pub(super) struct Spent {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_tokens: u64,
    cache_read_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheWrites>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_tool_use: Option<Searches>,
}

impl Spent {
    pub(super) fn of(usage: &Usage) -> Self {
        Spent {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_creation_tokens: usage.cache_write_5m.saturating_add(usage.cache_write_1h),
            cache_read_tokens: usage.cache_read,
            cache_creation: (usage.cache_write_1h > 0).then_some(CacheWrites {
                ephemeral_5m_input_tokens: usage.cache_write_5m,
                ephemeral_1h_input_tokens: usage.cache_write_1h,
            }),
            server_tool_use: (usage.web_searches > 0).then_some(Searches {
                web_search_requests: usage.web_searches,
            }),
        }
    }
}
