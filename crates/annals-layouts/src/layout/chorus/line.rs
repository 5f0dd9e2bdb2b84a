//! The members of a message line that are read, shared by outline and full decoding.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::json::{self, Flag, Raw, Text, object};
use crate::layout::content::{Content, unnamed_answer};
use crate::layout::extension::Extension;
use crate::layout::usage_fields::{self, USAGE_MEMBER, decode_time};
use crate::model::{AgentId, Artifact, Money, Role, Span, Usage};

object! {
    struct Line<'a> {
        "uuid" => uuid: Text<'a>,
        "type" => kind: Text<'a>,
        "content" => content: Content,
        "timestamp" => timestamp: Raw<'a>,
        "sessionId" => session: Text<'a>,
        "toolName" => tool: Text<'a>,
        "toolInput" => input: Raw<'a>,
        "toolUseId" => call: Text<'a>,
        "isToolError" => failed: Flag,
        "claudeMessage" => claude: Claude<'a>,
        "inputTokens" => input_tokens: Raw<'a>,
        "outputTokens" => output_tokens: Raw<'a>,
        "cacheReadTokens" => cache_read: Raw<'a>,
        "cacheCreationTokens" => cache_write: Raw<'a>,
        "costUsd" => cost: Raw<'a>,
        "durationMs" => duration: Raw<'a>,
        "contextWindow" => context_window: Raw<'a>,
        "numTurns" => turns: Raw<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct Claude<'a> {
        "message" => message: ClaudeMessage<'a>,
        "id" => id: Text<'a>,
        "model" => model: Text<'a>,
        "stop_reason" => stop_reason: Text<'a>,
        "cwd" => cwd: Text<'a>,
    }
}

object! {
    struct ClaudeMessage<'a> {
        "id" => id: Text<'a>,
        "model" => model: Text<'a>,
        "usage" => usage: Raw<'a>,
        "stop_reason" => stop_reason: Text<'a>,
    }
}

/// Decoder of message lines.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// The sub-agent whose log this is.
    pub(super) owner: Option<AgentId>,
    /// The workspace and the agent of its folder.
    pub(super) folder: Option<(String, String)>,
}

impl LineDecoder {
    pub(super) fn new(artifact: &Artifact) -> Self {
        let folder = artifact.folder.as_deref();
        let folder = folder.and_then(|folder| folder.split_once('/'));
        LineDecoder {
            owner: artifact.agent.clone(),
            folder: folder.map(|(workspace, agent)| (workspace.to_owned(), agent.to_owned())),
        }
    }
}

/// Members of a line that only this layout has. A draft may set them, and an entry has them in this
/// order.
pub(super) const MEMBERS: &[&str] = &[
    "claudeMessage",
    "contextWindow",
    "costUsd",
    "durationMs",
    "numTurns",
    SESSION_ID,
    USAGE_MEMBER,
];

/// Returns whether a value is an object that any JSON parser accepts.
pub(super) fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && serde_json::from_str::<serde_json::Value>(json).is_ok()
}

/// Returns whether a value is a finite, non-negative number.
pub(super) fn is_number(json: &str) -> bool {
    serde_json::from_str::<f64>(json).is_ok_and(|number| number.is_finite() && number >= 0.0)
}

/// Prefix, before the tool's name, of the text that the program writes for a call.
pub(super) const TOOL_CALL_PREFIX: &str = "Using tool: ";

/// The Claude Code session behind a conversation.
pub(super) const SESSION_ID: &str = "sessionId";

/// Kind of a line, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A message with its content.
    ClaudeMessage(Role),
    /// A tool call.
    Call,
    /// A tool result.
    Result,
    /// A notice of the program.
    Note,
    /// Not a message: no type, or an unknown type without an id.
    Unknown,
}

impl LineKind {
    pub(super) fn role(self) -> Option<Role> {
        match self {
            LineKind::ClaudeMessage(role) => Some(role),
            LineKind::Call => Some(Role::Assistant),
            LineKind::Result => Some(Role::User),
            LineKind::Note | LineKind::Unknown => None,
        }
    }
}

/// Returns whether the program writes lines of this type.
pub(super) fn is_known(kind: &str) -> bool {
    const MESSAGES: [&str; 5] = ["user", "assistant", "system", "tool_use", "tool_result"];
    MESSAGES.contains(&kind) || is_note(kind)
}

/// Returns whether lines of this type have text but are not messages.
pub(super) fn is_note(kind: &str) -> bool {
    matches!(kind, "error" | "research_progress" | "research_result")
}

impl Line<'_> {
    pub(super) fn line_kind(&self) -> LineKind {
        match self.kind.or_empty() {
            "user" => LineKind::ClaudeMessage(Role::User),
            "assistant" => LineKind::ClaudeMessage(Role::Assistant),
            "system" => LineKind::ClaudeMessage(Role::System),
            // Without the members of a call, its blocks may contain it.
            "tool_use" if self.is_bare() && self.content.makes_calls() => {
                LineKind::ClaudeMessage(Role::Assistant)
            }
            "tool_use" => LineKind::Call,
            "tool_result" if self.is_bare() && self.content.results => {
                LineKind::ClaudeMessage(Role::User)
            }
            "tool_result" => LineKind::Result,
            kind if is_note(kind) => LineKind::Note,
            // A newer program may have more message types.
            kind if !kind.is_empty() && self.uuid.non_empty().is_some() => LineKind::Note,
            _ => LineKind::Unknown,
        }
    }

    /// Returns whether the content may be a list: `full_text` is set for all but very long strings.
    pub(super) fn may_list(&self) -> bool {
        self.content.present && self.content.full_text.is_none()
    }

    fn is_bare(&self) -> bool {
        self.tool.get().is_none() && self.call.get().is_none() && !self.input.is_some()
    }

    /// Returns the line's id, or one made from its offset: the next line needs a parent.
    pub(super) fn id(&self, span: Span) -> Cow<'_, str> {
        match self.uuid.non_empty() {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(format!("at-{}", span.offset)),
        }
    }

    /// Returns the id of the call that a line makes.
    pub(super) fn call_id(&self, span: Span) -> Cow<'_, str> {
        match self.call.get() {
            Some(id) => Cow::Borrowed(id),
            None => self.id(span),
        }
    }

    /// Returns the id of the call that a line answers. Without an id, tool and position identify
    /// the call.
    pub(super) fn answered_call(&self) -> Cow<'_, str> {
        match self.call.get() {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(self.answered_call_by_tool("")),
        }
    }

    /// Returns the id for the call of a result block that names only a tool, or not even that.
    pub(super) fn answered_call_by_tool(&self, tool: &str) -> String {
        let tool = match tool {
            "" => self.tool.or_empty(),
            tool => tool,
        };
        unnamed_answer(tool)
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        decode_time(self.timestamp)
    }

    /// Returns the beginning of a prompt that a person typed.
    pub(super) fn prompt(&self, owner: Option<&AgentId>) -> Option<&str> {
        let annex = &self.annex;
        let other = self.line_kind() != LineKind::ClaudeMessage(Role::User)
            || self.content.results
            || owner.is_some()
            || annex.sidechain.0
            || annex.meta.0
            || annex.compact.0;
        self.content.prompt.as_deref().filter(|_| !other)
    }

    pub(super) fn model(&self) -> Option<&str> {
        let claude = &self.claude;
        claude
            .message
            .model
            .non_empty()
            .or(claude.model.non_empty())
    }

    /// Returns the response that a reply is part of.
    pub(super) fn response(&self) -> Option<&str> {
        let claude = &self.claude;
        claude.message.id.non_empty().or(claude.id.non_empty())
    }

    pub(super) fn stop_reason(&self) -> Option<&str> {
        let claude = &self.claude;
        let said = claude.message.stop_reason.non_empty();
        said.or(claude.stop_reason.non_empty())
    }

    /// Returns the usage of a reply, and describes invalid counts, which are omitted.
    pub(super) fn usage(&self) -> (Option<Usage>, Option<String>) {
        let mut faults: Vec<String> = Vec::new();
        let mut count = |name: &str, raw: Raw<'_>| match raw.count() {
            Ok(count) if count.is_none_or(|count| count < Usage::MAX_PLAUSIBLE) => count,
            _ => {
                let shown: String = raw.0.unwrap_or_default().chars().take(40).collect();
                faults.push(format!("{name} is {shown}"));
                None
            }
        };
        let input = count("inputTokens", self.input_tokens);
        let output = count("outputTokens", self.output_tokens);
        let read = count("cacheReadTokens", self.cache_read);
        let write = count("cacheCreationTokens", self.cache_write);
        let fault = (!faults.is_empty()).then(|| faults.join("; "));
        if [input, output, read, write].iter().all(Option::is_none) {
            // The API message may have the usage that the line omits.
            let (claude_usage, wrong) = usage_fields::decode_usage(self.claude.message.usage);
            return (claude_usage, fault.or(wrong));
        }
        let usage = Usage {
            input: input.unwrap_or_default(),
            output: output.unwrap_or_default(),
            cache_read: read.unwrap_or_default(),
            cache_write_5m: write.unwrap_or_default(),
            ..Usage::default()
        };
        (Some(usage), fault)
    }

    /// Returns the cost that the program recorded for the reply, and describes an invalid value.
    pub(super) fn recorded_cost(&self) -> (Option<Money>, Option<String>) {
        usage_fields::recorded_cost("costUsd", self.cost)
    }
}

/// Returns whether an object is a message line and not part of one.
pub(super) fn is_record(object: &str) -> bool {
    let whole = |line: Line<'_>| {
        let named = line.uuid.non_empty().is_some() || line.timestamp.is_some();
        line.kind.non_empty().is_some() && named
    };
    match serde_json::from_str(object) {
        Ok(line) => whole(line),
        Err(_) => serde_json::from_str(&json::sanitize(object)).is_ok_and(whole),
    }
}
