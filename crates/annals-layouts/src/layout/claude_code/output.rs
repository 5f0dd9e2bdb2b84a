//! Serialized lines: members in the client's order, blocks in the API's format. Also validates
//! caller-supplied records.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::json;
use crate::layout::member_type::{MemberType, check_optional, check_required};
use crate::layout::usage_fields::UsageOut;
use crate::model::AgentId;
use crate::text::{LineBreaks, visible};

/// The members of a line, in the client's order.
#[derive(Serialize)]
pub(super) struct LineOut<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<&'a str>,
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
    pub(super) message: Option<MessageOut<'a>>,
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
    pub(super) result: Option<ToolOutcomeOut<'a>>,
    #[serde(rename = "isApiErrorMessage", skip_serializing_if = "Option::is_none")]
    pub(super) api_error: Option<bool>,
    pub(super) uuid: &'a str,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annals: Option<RequestedTime>,
}

/// A requested time that the client's own members could not hold.
#[derive(Serialize)]
pub(super) struct RequestedTime {
    pub(super) time: String,
}

#[derive(Serialize)]
pub(super) struct MessageOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'a str>,
    pub(super) role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    pub(super) content: &'a RawValue,
    #[serde(flatten)]
    pub(super) stop: Option<StopOut<'a>>,
}

#[derive(Serialize)]
pub(super) struct StopOut<'a> {
    pub(super) stop_reason: Option<&'a str>,
    pub(super) stop_sequence: (),
    pub(super) usage: UsageOut,
}

#[derive(Serialize)]
pub(super) struct Compaction<'a> {
    pub(super) trigger: &'a str,
    #[serde(rename = "preTokens")]
    pub(super) tokens: u64,
}

#[derive(Serialize)]
pub(super) struct ToolOutcomeOut<'a> {
    #[serde(rename = "agentId")]
    pub(super) agent: &'a str,
}

#[derive(Serialize)]
pub(super) struct Meta<'a> {
    #[serde(rename = "agentType")]
    pub(super) kind: &'a str,
    pub(super) description: &'a str,
    #[serde(rename = "toolUseId", skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<&'a str>,
}

/// A line of the client's prompt history.
#[derive(Serialize)]
pub(super) struct TypedLine<'a> {
    pub(super) display: &'a str,
    #[serde(rename = "pastedContents")]
    pub(super) pasted: BTreeMap<&'a str, &'a str>,
    pub(super) timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<&'a str>,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<&'a str>,
}

/// File versions that belong to a message.
#[derive(Serialize)]
pub(super) struct SnapshotLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(rename = "messageId")]
    pub(super) message: &'a str,
    pub(super) snapshot: Snapshot<'a>,
    #[serde(rename = "isSnapshotUpdate")]
    pub(super) update: bool,
}

#[derive(Serialize)]
pub(super) struct Snapshot<'a> {
    #[serde(rename = "messageId")]
    pub(super) message: &'a str,
    #[serde(rename = "trackedFileBackups")]
    pub(super) backups: BTreeMap<&'a str, BackupLine<'a>>,
    pub(super) timestamp: String,
}

#[derive(Serialize)]
pub(super) struct BackupLine<'a> {
    #[serde(rename = "backupFileName")]
    pub(super) stored: Option<&'a str>,
    pub(super) version: u64,
    #[serde(rename = "backupTime")]
    pub(super) time: String,
    #[serde(rename = "realParentDir", skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<&'a str>,
}

/// First line of a session. It is outside the tree; the client skips types that it does not know.
#[derive(Serialize)]
pub(super) struct SessionStartLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
    pub(super) cwd: Option<&'a str>,
    #[serde(rename = "gitBranch", skip_serializing_if = "Option::is_none")]
    pub(super) git_branch: Option<&'a str>,
    pub(super) version: &'a str,
    pub(super) entrypoint: &'a str,
    #[serde(rename = "formatVersion")]
    pub(super) format_version: u32,
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

/// An operation on the client's prompt queue, outside the tree.
#[derive(Serialize)]
pub(super) struct QueueOperation<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) operation: &'a str,
    pub(super) timestamp: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) content: &'a str,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
}

/// A line outside the tree. The type comes first: readers of the last kilobytes expect it there.
#[derive(Serialize, Default)]
pub(super) struct MetadataLine<'a> {
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
    #[serde(rename = "messageCount", skip_serializing_if = "Option::is_none")]
    pub(super) message_count: Option<&'a RawValue>,
    #[serde(rename = "sessionId", skip_serializing_if = "str::is_empty")]
    pub(super) session: &'a str,
}

impl<'a> MetadataLine<'a> {
    pub(super) fn new(kind: &'a str) -> Self {
        MetadataLine {
            kind,
            ..MetadataLine::default()
        }
    }

    pub(super) fn tag(mut self, text: &'a str) -> Self {
        self.tag = Some(text);
        self
    }
}

/// Required members by record type.
const REQUIRED_MEMBERS: &[(&str, &[(&str, MemberType)])] = &[
    ("user", &[("uuid", MemberType::Name)]),
    ("assistant", &[("uuid", MemberType::Name)]),
    ("queue-operation", &[("operation", MemberType::Name)]),
    (
        "file-history",
        &[("path", MemberType::Name), ("operation", MemberType::Name)],
    ),
    (
        "file-history-snapshot",
        &[
            ("messageId", MemberType::Name),
            ("snapshot", MemberType::Object),
        ],
    ),
    ("custom-title", &[("customTitle", MemberType::Name)]),
    ("ai-title", &[("aiTitle", MemberType::Name)]),
    ("tag", &[("tag", MemberType::Text)]),
];

/// Members that any record may have.
const OPTIONAL_MEMBERS: &[(&str, MemberType)] = &[
    ("uuid", MemberType::Name),
    ("parentUuid", MemberType::Name),
    ("sessionId", MemberType::Name),
    ("timestamp", MemberType::Time),
];

/// Rejects a record that the client, or a reader of the documented format, would drop or misread.
pub(super) fn check_record(record: &str) -> std::result::Result<(), String> {
    let text = |object: &str, name: &str| {
        let text = json::member(object, name).and_then(json::decode_string);
        text.map(std::borrow::Cow::into_owned)
    };
    let kind = text(record, "type").unwrap_or_default();
    let needed = REQUIRED_MEMBERS.iter().find(|(name, _)| *name == kind);
    check_required(record, needed.map_or(&[], |(_, members)| members))?;
    check_optional(record, OPTIONAL_MEMBERS)?;
    let filled = |text: Option<String>| text.is_some_and(|text| !text.trim().is_empty());
    match kind.as_str() {
        "user" | "assistant" => {
            let message = json::member(record, "message").filter(|raw| *raw != "null");
            // Some programs write the content at the top level.
            let Some(message) = message else {
                return check_required(record, &[("content", MemberType::Content)])
                    .map_err(|_| "it has no `message` with a `content`".to_owned());
            };
            check_required(message, &[("content", MemberType::Content)])
                .map_err(|why| format!("invalid `message`: {why}"))?;
            match text(message, "role") {
                Some(role) if role != kind => Err(format!(
                    "its type is {kind}, but the `role` of its message is `{}`",
                    role.escape_debug()
                )),
                _ => Ok(()),
            }
        }
        "summary" => {
            let content = json::member(record, "content").unwrap_or("{}");
            match filled(text(record, "summary")) || filled(text(content, "summary")) {
                true => Ok(()),
                false => Err("it has no `summary`".to_owned()),
            }
        }
        _ => Ok(()),
    }
}

/// Rejects a record of another agent in a sub-agent's log. Records of the tree must name their
/// agent: the client distinguishes sub-agents by `agentId` and `isSidechain`.
pub(super) fn check_agent(record: &str, owner: &AgentId) -> std::result::Result<(), String> {
    let given = |name: &str| json::member(record, name).filter(|raw| *raw != "null");
    let in_tree = given("uuid").is_some();
    let whose = format!("but this is the log of sub-agent {owner}");
    match given("agentId") {
        Some(raw) if json::decode_string(raw).as_deref() == Some(owner.as_str()) => {}
        Some(raw) => {
            let shown: String = raw.chars().take(40).collect();
            let shown = visible(&shown, LineBreaks::Spaces);
            return Err(format!("its `agentId` is {shown}, {whose}"));
        }
        None if in_tree => return Err(format!("it has no `agentId`, {whose}")),
        None => {}
    }
    match given("isSidechain") {
        Some("true") => Ok(()),
        None if !in_tree => Ok(()),
        _ => Err(format!("its `isSidechain` is not true, {whose}")),
    }
}
