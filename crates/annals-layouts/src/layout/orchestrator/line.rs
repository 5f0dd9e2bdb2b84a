//! The members of a record that are read, shared by outline and full decoding.

use std::sync::Arc;

use jiff::Timestamp;

use crate::json::{self, Raw, Text, object};
use crate::layout::content::{Content, unnamed_answer, unnamed_call_id};
use crate::layout::extension::Extension;
use crate::layout::usage_fields::{
    self, CacheWriteFields, RawCounts, ServerToolFields, decode_time,
};
use crate::model::{AgentId, Artifact, SessionId, Span, Usage};

use super::path;

object! {
    struct Line<'a> {
        "type" => kind: Text<'a>,
        "role" => role: Text<'a>,
        "content" => content: Content,
        "timestamp" => timestamp: Raw<'a>,
        "metadata" => metadata: Metadata<'a>,
        "usage" => usage: Raw<'a>,
        "model" => model: Text<'a>,
        "stopReason" => stop: Text<'a>,
        "stop_reason" => stop_snake: Text<'a>,
        "tool" => tool: Text<'a>,
        "arguments" => arguments: Raw<'a>,
        "result" => result: Raw<'a>,
        "error" => error: Raw<'a>,
        "toolCallId" => call: Text<'a>,
        "duration_ms" => duration: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct Metadata<'a> {
        "source" => source: Text<'a>,
        "sessionId" => session: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "gitBranch" => git_branch: Text<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "input_tokens" => input: Raw<'a>,
        "inputTokens" => input_camel: Raw<'a>,
        "output_tokens" => output: Raw<'a>,
        "outputTokens" => output_camel: Raw<'a>,
        "cache_creation_tokens" => write: Raw<'a>,
        "cacheCreationTokens" => write_camel: Raw<'a>,
        "cache_creation_input_tokens" => write_model: Raw<'a>,
        "cacheCreationInputTokens" => write_model_camel: Raw<'a>,
        "cache_read_tokens" => read: Raw<'a>,
        "cacheReadTokens" => read_camel: Raw<'a>,
        "cache_read_input_tokens" => read_model: Raw<'a>,
        "cacheReadInputTokens" => read_model_camel: Raw<'a>,
        "cache_creation" => split: CacheWriteFields<'a>,
        "server_tool_use" => server: ServerToolFields<'a>,
    }
}

/// Type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordType {
    User,
    Assistant,
    Call,
    Result,
    /// System prompts and other records that only annals writes; the design document has no such
    /// type.
    System,
    Unknown,
}

/// Decoder of records. Its output depends only on the record and the file's day.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// Folder of the file.
    pub(super) folder: String,
    /// The file.
    artifact: Artifact,
    /// The sub-agent that owns the records.
    owner: Option<AgentId>,
    model: Option<Arc<str>>,
}

impl LineDecoder {
    pub(super) fn new(artifact: &Artifact) -> Self {
        LineDecoder {
            folder: artifact.folder.clone().unwrap_or_default(),
            artifact: artifact.clone(),
            owner: artifact.agent.clone(),
            model: None,
        }
    }

    /// Returns the id of a record without one, made from its position.
    pub(super) fn id_at(&self, span: Span) -> String {
        path::id_at(&self.artifact, span.offset)
    }

    /// Returns the id of the call that a record makes, or one derived from the record's id.
    pub(super) fn call_id(&self, line: &Line<'_>, span: Span) -> String {
        match (line.call.get(), line.annex.id.non_empty()) {
            (Some(call), _) => call.to_owned(),
            (None, Some(id)) => unnamed_call_id(id, 0),
            (None, None) => unnamed_call_id(&self.id_at(span), 0),
        }
    }

    /// Returns the session that a record determines without the records before it: the one it
    /// names, or the file's own for a prompt.
    pub(super) fn session<'l>(&'l self, line: &'l Line<'_>) -> Option<&'l str> {
        let own = self.artifact.session.as_ref().map(SessionId::as_str);
        let own = own.filter(|_| line.record_type() == RecordType::User);
        line.metadata.session.non_empty().or(own)
    }

    /// Returns the agent of a record, according to the name under which it was logged.
    pub(super) fn agent(&self, line: &Line<'_>) -> Option<AgentId> {
        let Some(name) = self.session(line) else {
            return self.owner.clone();
        };
        path::owner(name)
            .1
            .and_then(|agent| AgentId::new(agent).ok())
    }

    /// Returns a shared copy of the model name, which thousands of records repeat.
    pub(super) fn shared_model(&mut self, name: &str) -> Arc<str> {
        match &self.model {
            Some(model) if **model == *name => Arc::clone(model),
            _ => {
                let model: Arc<str> = name.into();
                self.model = Some(Arc::clone(&model));
                model
            }
        }
    }
}

impl Line<'_> {
    pub(super) fn record_type(&self) -> RecordType {
        match self.kind.non_empty().unwrap_or(self.role.or_empty()) {
            "user" => RecordType::User,
            "assistant" => RecordType::Assistant,
            "tool_call" => RecordType::Call,
            "tool_result" => RecordType::Result,
            "system" => RecordType::System,
            _ => RecordType::Unknown,
        }
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        decode_time(self.timestamp)
    }

    pub(super) fn stop_reason(&self) -> Option<String> {
        self.stop.owned().or_else(|| self.stop_snake.owned())
    }

    /// Returns the id of the call that a record answers. Without an id, tool and position identify
    /// the call.
    pub(super) fn answered(&self) -> String {
        match self.call.get() {
            Some(call) => call.to_owned(),
            None => unnamed_answer(self.tool.or_empty()),
        }
    }

    /// Returns the usage of a reply under any of its member names, and describes invalid counts.
    pub(super) fn tokens(&self) -> (Option<Usage>, Option<String>) {
        usage_fields::decode_counts(self.usage, |tokens: Tokens<'_>| RawCounts {
            input: first_present(&[
                ("input_tokens", tokens.input),
                ("inputTokens", tokens.input_camel),
            ]),
            output: first_present(&[
                ("output_tokens", tokens.output),
                ("outputTokens", tokens.output_camel),
            ]),
            cache_read: first_present(&[
                ("cache_read_tokens", tokens.read),
                ("cacheReadTokens", tokens.read_camel),
                ("cache_read_input_tokens", tokens.read_model),
                ("cacheReadInputTokens", tokens.read_model_camel),
            ]),
            cache_write: first_present(&[
                ("cache_creation_tokens", tokens.write),
                ("cacheCreationTokens", tokens.write_camel),
                ("cache_creation_input_tokens", tokens.write_model),
                ("cacheCreationInputTokens", tokens.write_model_camel),
            ]),
            split: tokens.split,
            server: tokens.server,
        })
    }
}

/// Returns the first member that is present.
fn first_present<'a>(members: &[(&'a str, Raw<'a>)]) -> (&'a str, Raw<'a>) {
    let mut there = members.iter().filter(|(_, raw)| raw.is_some());
    there.next().copied().unwrap_or_default()
}

/// Returns whether an object is a record and not part of one.
pub(super) fn is_record(object: &str) -> bool {
    let is = |line: Line<'_>| match line.record_type() {
        RecordType::Unknown => line
            .kind
            .non_empty()
            .and(line.metadata.session.non_empty())
            .is_some(),
        _ => line.timestamp.is_some(),
    };
    match serde_json::from_str(object) {
        Ok(line) => is(line),
        Err(_) => serde_json::from_str(&json::sanitize(object)).is_ok_and(is),
    }
}
