//! The rows that are written member by member, as types for their schema.

use annals_layouts::model::Money;
use jiff::Timestamp;
use schemars::JsonSchema;

use super::{BurnRateJson, ProjectionJson};

/// Sums of responses.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct TallySchema {
    requests: u64,
    input: u64,
    output: u64,
    cache_write_5m: u64,
    cache_write_1h: u64,
    cache_read: u64,
    web_searches: u64,
    cost_usd: Option<Money>,
    unpriced: u64,
}

/// The sums of one model.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ModelSchema {
    model: Option<String>,
    #[serde(flatten)]
    sums: TallySchema,
}

/// Names of models, or with a breakdown their sums.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ModelsSchema {
    Names(Vec<Option<String>>),
    Sums(Vec<ModelSchema>),
}

/// A row: its key, one member for each dimension, the sums, and the time of its first and last
/// response. Rows of blocks have the bounds and the rate of the block, too.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RowSchema {
    key: Option<String>,
    #[serde(flatten)]
    sums: TallySchema,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    #[serde(flatten)]
    dimensions: DimensionsSchema,
    #[serde(flatten)]
    block: BlockSchema,
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<ModelsSchema>,
}

/// The dimensions that were asked for, and the labels of a session.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DimensionsSchema {
    #[serde(skip_serializing_if = "Option::is_none")]
    hour: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    week: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    month: Option<Option<String>>,
    #[serde(rename = "block", skip_serializing_if = "Option::is_none")]
    of_block: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<Option<String>>,
}

/// What a five-hour block has.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct BlockSchema {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burn_rate: Option<BurnRateJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projection: Option<Option<ProjectionJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_minutes: Option<Option<i64>>,
}
