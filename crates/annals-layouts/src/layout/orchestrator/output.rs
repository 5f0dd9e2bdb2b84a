//! Serialized records: members in the design document's order, then `annals`. Also decides which
//! members go into the log.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::json::{self, Pairs};
use crate::layout::BLANK_LINE;
use crate::layout::extension::ExtensionOut;
use crate::layout::member_type::{MemberType, check_optional, check_required};
use crate::layout::usage_fields::{CacheWritesOut, ServerToolsOut};
use crate::model::Usage;

/// Members of a record.
#[derive(Serialize)]
pub(super) struct RecordOut<'a> {
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
    pub(super) usage: Option<TokensOut>,
    /// `Some(None)` for a reply of an unknown model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<Option<&'a str>>,
    #[serde(rename = "stopReason", skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<Box<RawValue>>,
    #[serde(rename = "toolCallId", skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<&'a str>,
    #[serde(skip_serializing_if = "MetadataOut::is_empty")]
    pub(super) metadata: MetadataOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annals: Option<ExtensionOut<'a>>,
}

#[derive(Default, PartialEq, Serialize)]
pub(super) struct MetadataOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<&'a str>,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<&'a str>,
    #[serde(rename = "gitBranch", skip_serializing_if = "Option::is_none")]
    pub(super) git_branch: Option<&'a str>,
}

impl MetadataOut<'_> {
    fn is_empty(&self) -> bool {
        *self == MetadataOut::default()
    }
}

/// Token counts with the design document's names, and the model API's names for what it lacks.
#[derive(Default, Serialize)]
pub(super) struct TokensOut {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_tokens: u64,
    cache_read_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheWritesOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_tool_use: Option<ServerToolsOut>,
}

impl TokensOut {
    pub(super) fn new(usage: &Usage) -> Self {
        TokensOut {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_creation_tokens: usage.cache_write_5m.saturating_add(usage.cache_write_1h),
            cache_read_tokens: usage.cache_read,
            cache_creation: (usage.cache_write_1h > 0).then_some(CacheWritesOut {
                ephemeral_5m_input_tokens: usage.cache_write_5m,
                ephemeral_1h_input_tokens: usage.cache_write_1h,
            }),
            server_tool_use: (usage.web_searches > 0).then_some(ServerToolsOut {
                web_search_requests: usage.web_searches,
            }),
        }
    }
}

/// Members of log records in the design document, by type.
const MEMBERS: &[(&str, &[&str])] = &[
    ("user", &["type", "content", "timestamp", "metadata"]),
    (
        "assistant",
        &[
            "type",
            "content",
            "timestamp",
            "usage",
            "model",
            "stopReason",
        ],
    ),
    (
        "tool_call",
        &["type", "tool", "arguments", "timestamp", "toolCallId"],
    ),
    (
        "tool_result",
        &[
            "type",
            "tool",
            "result",
            "error",
            "timestamp",
            "duration_ms",
            "toolCallId",
        ],
    ),
];

/// Members of nested objects.
const NESTED_MEMBERS: &[(&str, &[&str])] = &[
    ("metadata", &["source", "sessionId"]),
    (
        "usage",
        &[
            "input_tokens",
            "output_tokens",
            "cache_creation_tokens",
            "cache_read_tokens",
        ],
    ),
];

/// Usage of a record without tokens.
const ZERO_USAGE: &str =
    r#"{"input_tokens":0,"output_tokens":0,"cache_creation_tokens":0,"cache_read_tokens":0}"#;

/// Stand-in model in the log line of a reply without one, which the design document's cost
/// calculation would reject. It is in the document's own price list, and the line has no tokens, so
/// the reply costs nothing there. The companion file has the true value.
const STAND_IN_MODEL: &str = r#""claude-sonnet-4-5-20250929""#;

/// Returns whether a model can have a price: not placeholders such as `<synthetic>`.
pub(super) fn can_have_price(model: &str) -> bool {
    !model.is_empty() && !model.starts_with('<')
}

/// Stop reasons in the design document.
pub(super) const STOP_REASONS: &[&str] = &["end_turn", "max_tokens", "stop_sequence", "tool_use"];

/// Message sources in the design document.
pub(super) const SOURCES: &[&str] = &["cli", "api", "agent"];

type Shapes = &'static [(&'static str, MemberType)];

/// Required and optional members by record type.
const SHAPES: &[(&str, Shapes, Shapes)] = &[
    (
        "user",
        &[
            ("content", MemberType::Text),
            ("timestamp", MemberType::Time),
        ],
        &[("metadata", MemberType::Object)],
    ),
    (
        "assistant",
        &[
            ("content", MemberType::Text),
            ("timestamp", MemberType::Time),
            ("usage", MemberType::Object),
            ("model", MemberType::Name),
        ],
        &[("stopReason", MemberType::OneOf(STOP_REASONS))],
    ),
    (
        "tool_call",
        &[
            ("tool", MemberType::Name),
            ("arguments", MemberType::Object),
            ("timestamp", MemberType::Time),
        ],
        &[("toolCallId", MemberType::Text)],
    ),
    (
        "tool_result",
        &[("tool", MemberType::Name), ("timestamp", MemberType::Time)],
        &[
            ("error", MemberType::Text),
            ("duration_ms", MemberType::Number),
            ("toolCallId", MemberType::Text),
        ],
    ),
];

const USAGE_SHAPES: Shapes = &[
    ("input_tokens", MemberType::Count),
    ("output_tokens", MemberType::Count),
    ("cache_creation_tokens", MemberType::Count),
    ("cache_read_tokens", MemberType::Count),
];

const METADATA_SHAPES: Shapes = &[
    ("source", MemberType::OneOf(SOURCES)),
    ("sessionId", MemberType::Name),
];

/// Returns whether a record has a type of the design document, or no type.
pub(super) fn is_known(record: &str) -> bool {
    let kind = json::member(record, "type").and_then(json::decode_string);
    kind.is_none_or(|kind| SHAPES.iter().any(|(name, ..)| *name == kind))
}

/// Rejects a record that does not match the interfaces of the design document.
pub(super) fn check_record(record: &str) -> Result<(), String> {
    let kind = json::member(record, "type").and_then(json::decode_string);
    let mut shapes = SHAPES.iter();
    let Some((kind, needed, given)) = shapes.find(|(name, ..)| kind.as_deref() == Some(name))
    else {
        return Err("its type must be user, assistant, tool_call or tool_result".to_owned());
    };
    check_required(record, needed)?;
    check_optional(record, given)?;
    let inner = |name: &str| json::member(record, name).filter(|raw| *raw != "null");
    if let Some(usage) = inner("usage").filter(|_| *kind == "assistant") {
        check_required(usage, USAGE_SHAPES).map_err(|why| format!("`usage`: {why}"))?;
    }
    if let Some(metadata) = inner("metadata").filter(|_| *kind == "user") {
        check_optional(metadata, METADATA_SHAPES).map_err(|why| format!("`metadata`: {why}"))?;
    }
    match split_record(record) {
        Some((_, None)) => Ok(()),
        Some((_, Some(beside))) => Err(format!(
            "the log format cannot store {}",
            short_text(&beside)
        )),
        None => Err("it is not a JSON object".to_owned()),
    }
}

fn short_text(json: &str) -> String {
    const SHOWN: usize = 60;
    match json.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", json.get(..end).unwrap_or_default()),
        None => json.to_owned(),
    }
}

/// Splits a record into a line that the design document's parser accepts and the other members. A
/// record of another type has a blank line.
pub(super) fn split_record(record: &str) -> Option<(Vec<u8>, Option<String>)> {
    let pairs: Pairs<'_> = serde_json::from_str(record).ok()?;
    let kind = json::member(record, "type").and_then(json::decode_string);
    let known = MEMBERS
        .iter()
        .find(|(name, _)| kind.as_deref() == Some(name));
    let Some((_, known)) = known else {
        return Some((BLANK_LINE.to_vec(), Some(record.to_owned())));
    };
    let metadata = json::member(record, "metadata").unwrap_or("{}");
    let copied = json::member(metadata, "forkedFrom").is_some();
    let model = json::member(record, "model");
    let priced = model
        .and_then(json::decode_string)
        .is_some_and(|model| can_have_price(&model));
    // A record without the member is another program's and stays unchanged.
    let unpriced = kind.as_deref() == Some("assistant") && model.is_some() && !priced;
    let (mut line, mut beside) = (Object::default(), Object::default());
    for (name, value) in &pairs.0 {
        let value = value.0?;
        if unpriced && name == "model" {
            line.add(name, STAND_IN_MODEL);
            beside.add(name, value);
            continue;
        }
        if name == "usage" && (copied || (unpriced && value != ZERO_USAGE)) {
            // A program that adds up the log must neither count a copy again nor price these
            // tokens.
            line.add(name, ZERO_USAGE);
            beside.add(name, value);
            continue;
        }
        let inner = NESTED_MEMBERS.iter().find(|(member, _)| member == name);
        match inner {
            _ if !known.contains(&&**name) => beside.add(name, value),
            None => line.add(name, value),
            Some((_, inner)) => {
                let members: Pairs<'_> = serde_json::from_str(value).unwrap_or_default();
                let (fits, odd): (Vec<_>, Vec<_>) = members
                    .0
                    .iter()
                    .partition(|(name, _)| inner.contains(&&**name));
                if odd.is_empty() {
                    line.add(name, value);
                    continue;
                }
                let mut kept = Object::default();
                fits.iter()
                    .for_each(|(name, value)| kept.add(name, value.0.unwrap_or("null")));
                if !fits.is_empty() {
                    line.add(name, &kept.finish());
                }
                beside.add(name, value);
            }
        }
    }
    let beside = (!beside.0.is_empty()).then(|| beside.finish());
    Some((line.finish().into_bytes(), beside))
}

/// Builder of a JSON object.
#[derive(Default)]
struct Object(String);

impl Object {
    fn add(&mut self, name: &str, value: &str) {
        self.0.push_str(if self.0.is_empty() { "" } else { "," });
        self.0.push_str(&json::quote(name));
        self.0.push(':');
        self.0.push_str(value);
    }

    fn finish(self) -> String {
        format!("{{{}}}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(record: &str) -> (String, Option<String>) {
        let (line, beside) = split_record(record).unwrap();
        (String::from_utf8(line).unwrap(), beside)
    }

    #[test]
    fn split_keeps_documented_members_in_log() {
        for record in [
            r#"{"type":"user","content":"x","timestamp":"t","metadata":{"source":"cli","sessionId":"s"}}"#,
            r#"{"type":"assistant","content":"x","timestamp":"t","usage":{"input_tokens":1},"model":"m","stopReason":"end_turn"}"#,
            r#"{"type":"tool_call","tool":"Read","arguments":{"a":1e5},"timestamp":"t","toolCallId":"c"}"#,
            r#"{"type":"tool_result","tool":"Read","error":"e","timestamp":"t","duration_ms":5}"#,
        ] {
            assert_eq!(split(record), (record.to_owned(), None));
        }
    }

    #[test]
    fn split_moves_undocumented_members_to_companion() {
        assert_eq!(
            split(
                r#"{"type":"tool_call","tool":"T","metadata":{"sessionId":"s"},"annals":{"id":"1"}}"#
            ),
            (
                r#"{"type":"tool_call","tool":"T"}"#.to_owned(),
                Some(r#"{"metadata":{"sessionId":"s"},"annals":{"id":"1"}}"#.to_owned())
            )
        );
        assert_eq!(
            split(r#"{"type":"user","content":"x","metadata":{"cwd":"/w","source":"cli"}}"#),
            (
                r#"{"type":"user","content":"x","metadata":{"source":"cli"}}"#.to_owned(),
                Some(r#"{"metadata":{"cwd":"/w","source":"cli"}}"#.to_owned())
            )
        );
        assert_eq!(
            split(r#"{"type":"user","content":"x","metadata":{"cwd":"/w"}}"#).0,
            r#"{"type":"user","content":"x"}"#
        );
    }

    #[test]
    fn reply_without_model_gets_stand_in_model_and_zero_usage_in_log() {
        let stand_in = |text: &str| {
            let used = r#"{"input_tokens":5}"#;
            let said = format!(r#"{{"type":"assistant","content":"x","usage":{used}{text}}}"#);
            split(&said)
        };
        let line = format!(
            r#"{{"type":"assistant","content":"x","usage":{ZERO_USAGE},"model":{STAND_IN_MODEL}}}"#
        );
        let beside = r#"{"usage":{"input_tokens":5},"model":null}"#.to_owned();
        assert_eq!(stand_in(r#","model":null"#), (line.clone(), Some(beside)));
        let (synthetic, beside) = stand_in(r#","model":"<synthetic>""#);
        assert_eq!(synthetic, line);
        assert!(beside.unwrap().contains(r#""model":"<synthetic>""#));
        // A reply with a model, and other records, stay unchanged.
        assert_eq!(stand_in(r#","model":"m""#).1, None);
        assert_eq!(stand_in("").1, None);
        assert_eq!(split(r#"{"type":"user","content":"x"}"#).1, None);
    }

    #[test]
    fn record_of_unknown_type_leaves_blank_line() {
        let record = r#"{"type":"system","content":"x"}"#;
        assert_eq!(split(record), (" ".to_owned(), Some(record.to_owned())));
        assert_eq!(split_record("not JSON"), None);
    }
}
