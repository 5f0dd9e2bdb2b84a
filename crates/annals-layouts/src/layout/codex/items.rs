//! Members of a rollout's records.

use std::borrow::Cow;

use crate::json::{self, Raw, Text, object};
use crate::layout::extension::Extension;
use crate::model::{Block, HistoryBase};

object! {
    struct Line<'a> {
        "timestamp" => timestamp: Raw<'a>,
        "ordinal" => ordinal: Raw<'a>,
        "type" => kind: Text<'a>,
        "payload" => payload: Raw<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct Meta<'a> {
        "id" => id: Text<'a>,
        "session_id" => session: Text<'a>,
        "parent_thread_id" => parent_thread: Text<'a>,
        "forked_from_id" => forked_from: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "cli_version" => version: Text<'a>,
        "agent_role" => role: Text<'a>,
        "agent_nickname" => nickname: Text<'a>,
        "source" => source: Source<'a>,
        "git" => git: Git<'a>,
        "history_base" => base: Base<'a>,
    }
}

object! {
    struct Base<'a> {
        "thread_id" => thread: Text<'a>,
        "end_byte_offset" => end: Raw<'a>,
    }
}

object! {
    struct Source<'a> { "subagent" => agent: SubAgent<'a>, }
}

object! {
    struct SubAgent<'a> { "thread_spawn" => spawn: Spawn<'a>, }
}

object! {
    struct Spawn<'a> {
        "parent_thread_id" => parent: Text<'a>,
        "agent_role" => role: Text<'a>,
        "agent_nickname" => nickname: Text<'a>,
    }
}

object! {
    struct Git<'a> { "branch" => branch: Text<'a>, }
}

object! {
    struct Item<'a> {
        "type" => kind: Text<'a>,
        "id" => id: Text<'a>,
        "role" => role: Text<'a>,
        "content" => content: Raw<'a>,
        "summary" => summary: Raw<'a>,
        "name" => name: Text<'a>,
        "call_id" => call: Text<'a>,
        "arguments" => arguments: Raw<'a>,
        "input" => input: Raw<'a>,
        "action" => action: Raw<'a>,
        "output" => output: Raw<'a>,
        "internal_chat_message_metadata_passthrough" => passed: Passed<'a>,
    }
}

object! {
    struct Passed<'a> { "content_item_kinds" => kinds: Raw<'a>, }
}

object! {
    struct Part<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Text<'a>,
        "image_url" => image: Text<'a>,
    }
}

object! {
    struct Event<'a> {
        "type" => kind: Text<'a>,
        "item" => item: EventItem<'a>,
        "info" => info: Info<'a>,
        "num_turns" => turns: Raw<'a>,
        "reason" => reason: Text<'a>,
        "message" => message: Text<'a>,
        "error" => error: EventError<'a>,
    }
}

object! {
    struct EventItem<'a> { "type" => kind: Text<'a>, }
}

object! {
    struct EventError<'a> { "message" => message: Text<'a>, }
}

object! {
    struct Info<'a> { "total_token_usage" => total: Raw<'a>, }
}

/// Beginning of the types of lines that only annals reads.
pub(super) const HIDDEN: &str = "annals_";

/// Beginnings of user messages that the program writes.
const INJECTED: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions for",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill",
    "<user_shell_command>",
];

/// Returns the thread that a rollout with this first line continues by reference.
pub(super) fn base_session(header: &str) -> Option<String> {
    let base = json::member(json::member(header, "payload")?, "history_base")?;
    let thread = json::decode_string(json::member(base, "thread_id")?)?;
    Some(thread.into_owned())
}

/// Returns the id of the entry with a compaction's summary.
pub(super) fn summary_id(compaction: &str) -> String {
    format!("{compaction}-summary")
}

impl Meta<'_> {
    /// Returns the thread that started this one as a sub-agent.
    pub(super) fn parent(&self) -> Option<String> {
        let spawned_by = self.source.agent.spawn.parent.non_empty();
        let parent = self.parent_thread.non_empty().or(spawned_by);
        parent.map(str::to_owned)
    }

    /// Returns the part of another thread that comes before this one.
    pub(super) fn history_base(&self) -> Option<HistoryBase> {
        Some(HistoryBase {
            session: self.base.thread.non_empty()?.into(),
            end: self.base.end.count().ok()??,
        })
    }

    /// Returns the role of a sub-agent.
    pub(super) fn agent_role(&self) -> Option<String> {
        let role = self.role.owned();
        role.or_else(|| self.source.agent.spawn.role.owned())
    }

    /// Returns the name of a sub-agent.
    pub(super) fn agent_nickname(&self) -> Option<String> {
        let nickname = self.nickname.owned();
        nickname.or_else(|| self.source.agent.spawn.nickname.owned())
    }
}

impl<'a> Item<'a> {
    /// Whether the program wrote this user message.
    pub(super) fn is_injected(&self) -> bool {
        let kinds = self.passed.kinds.list();
        let kinds: Vec<Cow<'_, str>> = kinds.iter().filter_map(|kind| kind.text()).collect();
        let by_person = |kind: &Cow<'_, str>| kind.starts_with("user") || kind == "unknown";
        if !kinds.is_empty() {
            return !kinds.iter().any(by_person);
        }
        let first = self.content.list().into_iter().next();
        let first = first.map(Raw::parse_fast::<Part<'_>>).unwrap_or_default();
        let text = first.text.or_empty().trim_start();
        INJECTED.iter().any(|beginning| text.starts_with(beginning))
    }

    /// Returns the parts of a message or of an output.
    pub(super) fn blocks(content: Raw<'a>) -> Vec<Block> {
        if let Some(text) = content.text() {
            return vec![Block::Text(text.into_owned())];
        }
        let parts = content.list().into_iter().map(Raw::parse_fast::<Part<'_>>);
        let blocks = parts.filter_map(|part| match part.image.owned() {
            Some(url) => Some(Block::Image {
                media_type: String::new(),
                data: url,
            }),
            None => part.text.owned().map(Block::Text),
        });
        blocks.collect()
    }

    /// Returns the summary of reasoning, or the reasoning itself.
    pub(super) fn reasoning(&self) -> String {
        let texts = |list: Raw<'a>| {
            let parts = list.list().into_iter().map(Raw::parse_fast::<Part<'_>>);
            let texts = parts.filter_map(|part| part.text.owned());
            texts.collect::<Vec<_>>().join("\n\n")
        };
        let summary = texts(self.summary);
        match summary.is_empty() {
            true => texts(self.content),
            false => summary,
        }
    }

    /// Returns the name of a call's tool.
    pub(super) fn tool(&self) -> String {
        let own = match self.kind.or_empty() {
            "local_shell_call" => Some("local_shell"),
            "web_search_call" => Some("web_search"),
            _ => None,
        };
        own.unwrap_or(self.name.or_empty()).to_owned()
    }

    /// Returns the id of a call.
    pub(super) fn call_id(&self) -> &str {
        self.call.non_empty().unwrap_or(self.id.or_empty())
    }

    /// Returns the input of a call as JSON.
    pub(super) fn call_input(&self) -> String {
        if self.action.is_some() {
            return self.action.0.unwrap_or("{}").to_owned();
        }
        let arguments = self.arguments.text();
        let is_object = |text: &Cow<'_, str>| {
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
            text.trim_start().starts_with('{') && parsed.is_ok()
        };
        match (arguments, self.input.0, self.arguments.0) {
            (Some(arguments), _, _) if is_object(&arguments) => arguments.into_owned(),
            (_, Some(input), _) => format!("{{\"input\":{input}}}"),
            (_, _, Some(arguments)) => format!("{{\"arguments\":{arguments}}}"),
            _ => "{}".to_owned(),
        }
    }
}

impl Event<'_> {
    /// Returns kind and text of an event that belongs to the conversation.
    pub(super) fn notice(&self) -> Option<(&str, &str)> {
        match self.kind.or_empty() {
            "turn_aborted" => Some(("turn_aborted", self.reason.or_empty())),
            "error" => Some(("error", self.message.or_empty())),
            "task_complete" => Some(("error", self.error.message.get()?)),
            "thread_rolled_back" => Some(("thread_rolled_back", "")),
            _ => None,
        }
    }
}

/// Returns whether the output of a tool says that it failed.
pub(super) fn is_failure(output: &[Block]) -> bool {
    let Some(Block::Text(text)) = output.first() else {
        return false;
    };
    let head = text.lines().take_while(|line| !line.starts_with("Output:"));
    let code = head.take(8).find_map(|line| {
        let code = line.strip_prefix("Exit code: ");
        code.or_else(|| line.strip_prefix("Process exited with code "))
    });
    code.is_some_and(|code| code.trim() != "0")
}

/// Returns the blocks of an item, and whether it is the result of a tool that failed. A result has the
/// blocks of its output.
pub(super) fn decode(payload: Raw<'_>) -> (Vec<Block>, bool) {
    let item: Item<'_> = payload.parse_fast();
    match item.kind.or_empty() {
        "function_call" => {
            let call = Block::ToolUse {
                id: item.call_id().to_owned(),
                name: item.tool(),
                input: item.call_input(),
            };
            (vec![call], false)
        }
        "function_call_output" => {
            let output = Item::blocks(item.output);
            let is_failure = is_failure(&output);
            (output, is_failure)
        }
        _ => (Item::blocks(item.content), false),
    }
}

/// Returns whether the program would send an item if its line were not hidden.
pub(super) fn is_sendable(payload: Raw<'_>, annex: &Extension<'_>) -> bool {
    let item: Item<'_> = payload.parse_fast();
    let is_empty = item.kind.get() == Some("message") && item.content.list().is_empty();
    !is_empty && !annex.api_error.0
}
