//! The members of a log line that are read, shared by outline and full decoding.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use memchr::memmem::Finder;

use crate::json::{self, Flag, Raw, Text, object};
use crate::layout::content::Content;
use crate::layout::usage_fields::{TimeParser, decode_time};
use crate::model::{AgentId, Artifact, EntryId, Members, ResponseKey, Span};

use super::path;
use super::usage::ReplyTemplate;

/// Number of messages that a summary covers.
pub(super) const MESSAGE_COUNT: &str = "messageCount";

/// Type of the line with which annals begins a session.
pub(super) const SESSION_START: &str = "annals-session";

object! {
    struct Line<'a> {
        "type" => kind: Text<'a>,
        "subtype" => subtype: Text<'a>,
        "uuid" => uuid: Text<'a>,
        "parentUuid" => parent: Text<'a>,
        "logicalParentUuid" => logical_parent: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "isSidechain" => sidechain: Flag,
        "isMeta" => meta: Flag,
        "isCompactSummary" => compact_summary: Flag,
        "isApiErrorMessage" => api_error: Flag,
        "agentId" => agent: Text<'a>,
        "sessionId" => session: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "gitBranch" => git_branch: Text<'a>,
        "version" => version: Text<'a>,
        "entrypoint" => entrypoint: Text<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
        "requestId" => request: Text<'a>,
        "model" => model: Text<'a>,
        "costUSD" => cost: Raw<'a>,
        "message" => message: MessageFields<'a>,
        "toolUseResult" => result: Raw<'a>,
        "leafUuid" => leaf: Text<'a>,
        "summary" => summary: Text<'a>,
        "customTitle" => custom_title: Text<'a>,
        "aiTitle" => ai_title: Text<'a>,
        "tag" => tag: Text<'a>,
        "content" => content: Raw<'a>,
        "text" => text: Text<'a>,
        "author" => author: Text<'a>,
        "noteId" => note: Text<'a>,
        "attachment" => attachment: Raw<'a>,
        "messageId" => message_id: Text<'a>,
        "snapshot" => snapshot: Raw<'a>,
        "trackingPath" => tracking_path: Text<'a>,
        "backup" => backup: Raw<'a>,
        "path" => path: Text<'a>,
        "operation" => operation: Text<'a>,
        "snippet" => snippet: Text<'a>,
        "messageCount" => message_count: Raw<'a>,
        "formatVersion" => format_version: Raw<'a>,
    }
}

object! {
    struct MessageFields<'a> {
        "id" => id: Text<'a>,
        "role" => role: Text<'a>,
        "model" => model: Text<'a>,
        "stop_reason" => stop_reason: Text<'a>,
        "usage" => usage: Raw<'a>,
        "content" => content: Content,
    }
}

object! {
    struct SummaryBody<'a> {
        "summary" => summary: Text<'a>,
        "summarizedUntil" => until: Text<'a>,
        "messageCount" => messages: Raw<'a>,
    }
}

object! {
    struct ToolOutcome<'a> {
        "agentId" => agent: Text<'a>,
        "persistedOutputPath" => stored: Text<'a>,
    }
}

/// Decoder of log lines. Caches values that most lines repeat, so that outlines contain them only
/// when they change.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// The agent whose log this is.
    pub(super) owner: Option<AgentId>,
    /// The session whose own log this may be, if the path does not name the agent's session.
    own_session: Option<Box<str>>,
    pub(super) cwd: LastText,
    pub(super) git_branch: LastText,
    pub(super) version: LastText,
    pub(super) session: LastText,
    pub(super) model: Option<Arc<str>>,
    /// Response of the previous line: message id, request id, and the key of both.
    reply: Option<(Box<str>, Box<str>, ResponseKey)>,
    /// Template of replies.
    pub(super) replies: ReplyTemplate,
    pub(super) time_parser: TimeParser,
}

/// Last value of a text that most lines repeat.
#[derive(Debug, Default)]
pub(super) struct LastText(Option<Box<str>>);

impl LastText {
    /// Returns the text if it changed. An empty text is ignored.
    pub(super) fn changed(&mut self, text: &Text<'_>) -> Option<Box<str>> {
        text.non_empty()?;
        self.changed_to(text)
    }

    /// Returns the text if it changed, where an empty text means none from here on.
    pub(super) fn changed_to(&mut self, text: &Text<'_>) -> Option<Box<str>> {
        let text = text.get()?;
        if self.0.as_deref() == Some(text) {
            return None;
        }
        self.0 = Some(text.into());
        self.0.clone()
    }
}

impl LineDecoder {
    pub(super) fn new(artifact: &Artifact) -> Self {
        LineDecoder {
            owner: artifact.agent.clone(),
            own_session: path::own_session(artifact).map(Into::into),
            cwd: LastText::default(),
            git_branch: LastText::default(),
            version: LastText::default(),
            session: LastText::default(),
            model: None,
            reply: None,
            replies: ReplyTemplate::default(),
            time_parser: TimeParser::default(),
        }
    }

    /// Returns the response that a reply is part of. The request id distinguishes responses of
    /// clients that reuse message ids.
    pub(super) fn response(&mut self, id: &Text<'_>, request: &Text<'_>) -> Option<ResponseKey> {
        let (id, request) = (id.non_empty()?, request.or_empty());
        // The lines of a response are consecutive, and computing its key takes a digest.
        if let Some((last, of, key)) = &self.reply
            && **last == *id
            && **of == *request
        {
            return Some(*key);
        }
        let key = ResponseKey::new(id, request);
        self.reply = Some((id.into(), request.into(), key));
        Some(key)
    }

    /// Returns whether a line that names this session belongs to the sub-agent that owns the log. A
    /// log named `agent-<id>` may be the own log of a session with that name; then its lines name
    /// that session.
    pub(super) fn is_owners(&self, session: &Text<'_>, sidechain: Flag) -> bool {
        let own = self.own_session.as_deref().filter(|_| !sidechain.0);
        self.owner.is_some() && (own.is_none() || own != session.get())
    }

    /// Returns the agent of a line: the log's owner, or the agent that a line of the main log
    /// names.
    pub(super) fn agent(
        &self,
        session: &Text<'_>,
        named: &Text<'_>,
        sidechain: Flag,
    ) -> Option<AgentId> {
        let owner = self.owner.clone();
        owner
            .filter(|_| self.is_owners(session, sidechain))
            .or_else(|| {
                let named = named.non_empty().filter(|_| sidechain.0)?;
                AgentId::new(named).ok()
            })
    }

    /// Returns a shared copy of the model name, which thousands of lines repeat.
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
    /// Returns the entry's id. A content replacement has one too, but is not part of the tree. A
    /// message without an id is named after its offset.
    pub(super) fn id(&self, span: Span) -> Option<EntryId> {
        if self.lacks_id() {
            return Some(id_at(span));
        }
        // A note's id is a separate member, so that no reader takes it for part of the tree.
        self.uuid
            .non_empty()
            .or_else(|| self.note.non_empty())
            .map(EntryId::new)
    }

    /// Returns whether this is a message without an id. The client skips such lines.
    pub(super) fn lacks_id(&self) -> bool {
        self.uuid.non_empty().is_none() && matches!(self.kind.get(), Some("user" | "assistant"))
    }

    /// Returns what the client stored of a tool result in addition to the result itself.
    pub(super) fn outcome(&self) -> ToolOutcome<'_> {
        // Most are long and have neither member, so search before parsing.
        static NAMES: LazyLock<[Finder<'_>; 2]> =
            LazyLock::new(|| ["agentId", "persistedOutputPath"].map(Finder::new));
        let raw = self.result.0.unwrap_or_default();
        let says = |name: &Finder<'_>| name.find(raw.as_bytes()).is_some();
        if NAMES.iter().any(says) {
            self.result.parse()
        } else {
            ToolOutcome::default()
        }
    }

    pub(super) fn is_compaction(&self) -> bool {
        self.kind.get() == Some("system") && self.subtype.get() == Some("compact_boundary")
    }

    /// Returns whether this is a system prompt wrapped in a message, as in the design document.
    pub(super) fn is_instructions(&self) -> bool {
        self.kind.get() == Some("system") && self.message.role.get().is_some()
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        decode_time(self.timestamp)
    }

    /// Returns whether the content of a message is at the top level instead of in `message`, as in
    /// the entries of watch-claude-think. If there are both, `message` takes precedence.
    pub(super) fn has_top_level_content(&self) -> bool {
        let is_message = matches!(self.kind.get(), Some("user" | "assistant"));
        is_message && !self.message.content.present && self.content.is_some()
    }

    /// Uses top-level content as the content of `message`.
    pub(super) fn use_top_level_content(&mut self) {
        if self.has_top_level_content() {
            self.message.content = self.content.parse_fast();
        }
    }

    /// Returns the model of a reply: from its message, or else from the top level.
    pub(super) fn model(&self) -> Option<&str> {
        self.message.model.non_empty().or(self.model.non_empty())
    }

    /// Returns the text of `content`, which is a string or a list of blocks.
    pub(super) fn content_text(&self) -> String {
        let mut texts = Vec::new();
        let blocks = crate::layout::content::blocks(self.content);
        for block in &blocks {
            block.visit_texts(&mut |text| texts.push(text));
        }
        texts.join("\n")
    }

    /// Returns the last message that a summary covers.
    pub(super) fn summarized_until(&self) -> Option<EntryId> {
        let nested = || self.summary_body().until.non_empty().map(EntryId::new);
        self.leaf.non_empty().map(EntryId::new).or_else(nested)
    }

    /// Parses the member `content` of a summary.
    pub(super) fn summary_body(&self) -> SummaryBody<'_> {
        self.content.parse()
    }

    /// Returns the members that only this layout has.
    pub(super) fn members(&self) -> Members {
        if self.kind.get() != Some("summary") {
            return Members::new();
        }
        let own = Some(self.message_count).filter(|count| count.is_some());
        let count = own.unwrap_or(self.summary_body().messages);
        let is_count = matches!(count.count(), Ok(Some(_)));
        let given = count.0.filter(|_| is_count).into_iter();
        let named = |json: &str| (MESSAGE_COUNT.to_owned(), json.to_owned());
        given.map(named).collect()
    }

    /// Returns the text of a summary.
    pub(super) fn summary_text(&self) -> Option<String> {
        let nested = || self.summary_body().summary.owned();
        self.summary.owned().or_else(nested)
    }

    /// Returns whether the line belongs to a sub-agent, and not to a branch of the main
    /// conversation.
    fn is_agent_line(&self, owner: bool) -> bool {
        let own_root = self.parent.non_empty().is_none();
        owner || self.sidechain.0 && (self.agent.non_empty().is_some() || own_root)
    }

    /// Returns the beginning of a prompt that a person typed. `owner`: the log is a sub-agent's.
    pub(super) fn prompt(&self, owner: bool) -> Option<&str> {
        let content = &self.message.content;
        let other = self.kind.get() != Some("user")
            || self.meta.0
            || self.is_agent_line(owner)
            || self.compact_summary.0
            || content.results
            || self.result.is_some();
        if other {
            None
        } else {
            content.prompt.as_deref()
        }
    }
}

/// Returns the id of a message whose line has none.
pub(super) fn id_at(span: Span) -> EntryId {
    EntryId::new(&format!("at-{}", span.offset))
}

/// Returns whether an object is a line of a log and not part of one.
pub(super) fn is_record(object: &str) -> bool {
    let named = |line: Line<'_>| {
        let names = [&line.uuid, &line.session, &line.leaf, &line.message_id];
        line.kind.non_empty().is_some() && names.iter().any(|name| name.non_empty().is_some())
    };
    match serde_json::from_str(object) {
        Ok(line) => named(line),
        Err(_) => serde_json::from_str(&json::sanitize(object)).is_ok_and(named),
    }
}

/// Returns whether a summary was made by the client from an error message, so that it is no summary
/// of the conversation.
pub(super) fn is_error_summary(text: &str) -> bool {
    text.starts_with("API Error:")
}
