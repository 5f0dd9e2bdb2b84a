//! The members of a log line that we read, and what both depths of decoding share.

use std::sync::Arc;

use jiff::Timestamp;

use crate::json::{self, Flag, Raw, Text, object};
use crate::model::{AgentId, Artifact, EntryId, Key, Usage};

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
        "agentId" => agent: Text<'a>,
        "sessionId" => session: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "gitBranch" => git_branch: Text<'a>,
        "version" => version: Text<'a>,
        "entrypoint" => entrypoint: Text<'a>,
        "forkedFrom" => forked_from: Raw<'a>,
        "requestId" => request: Text<'a>,
        "message" => message: Said<'a>,
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
    }
}

object! {
    struct Said<'a> {
        "id" => id: Text<'a>,
        "role" => role: Text<'a>,
        "model" => model: Text<'a>,
        "stop_reason" => stop_reason: Text<'a>,
        "usage" => usage: Raw<'a>,
        "content" => content: Content,
    }
}

object! {
    struct ToolOutcome<'a> {
        "agentId" => agent: Text<'a>,
        "persistedOutputPath" => stored: Text<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "input_tokens" => input: Raw<'a>,
        "output_tokens" => output: Raw<'a>,
        "cache_read_input_tokens" => cache_read: Raw<'a>,
        "cache_creation_input_tokens" => cache_write: Raw<'a>,
        "cache_creation" => split: Split<'a>,
        "server_tool_use" => server: Server<'a>,
    }
}

object! {
    struct Split<'a> {
        "ephemeral_5m_input_tokens" => five_minutes: Raw<'a>,
        "ephemeral_1h_input_tokens" => one_hour: Raw<'a>,
    }
}

object! {
    struct Server<'a> {
        "web_search_requests" => web_searches: Raw<'a>,
    }
}

pub(crate) use content::Content;

/// Reads log lines. Remembers what most lines repeat, so that an outline tells it only when it changes.
#[derive(Debug)]
pub(super) struct Lines {
    /// The agent whose log this is.
    pub(super) owner: Option<AgentId>,
    pub(super) cwd: Repeated,
    pub(super) git_branch: Repeated,
    pub(super) version: Repeated,
    pub(super) session: Repeated,
    pub(super) model: Option<Arc<str>>,
    /// The response of the line before: its message's id, its request's, and both as a key.
    reply: Option<(Box<str>, Box<str>, Key)>,
}

/// A text that most lines repeat.
#[derive(Debug, Default)]
pub(super) struct Repeated(Option<Box<str>>);

impl Repeated {
    /// The text, if it is not the one before.
    pub(super) fn changed(&mut self, text: &Text<'_>) -> Option<Box<str>> {
        let text = text.filled()?;
        if self.0.as_deref() == Some(text) {
            return None;
        }
        self.0 = Some(text.into());
        self.0.clone()
    }
}

impl Lines {
    pub(super) fn of(artifact: &Artifact) -> Self {
        Lines {
            owner: artifact.agent.clone(),
            cwd: Repeated::default(),
            git_branch: Repeated::default(),
            version: Repeated::default(),
            session: Repeated::default(),
            model: None,
            reply: None,
        }
    }

    /// The response that an answer is part of. The request's id tells apart responses of clients
    /// that reuse message ids; a line without one belongs to the line before.
    pub(super) fn response(&mut self, line: &Line<'_>) -> Option<Key> {
        let id = line.message.id.filled()?;
        let request = line.request.or_empty();
        if let Some((last, of, key)) = &mut self.reply
            && **last == *id
            && (request.is_empty() || of.is_empty() || **of == *request)
        {
            if of.is_empty() {
                *of = request.into();
            }
            return Some(*key);
        }
        let key = Key::of_pair(id, request);
        self.reply = Some((id.into(), request.into(), key));
        Some(key)
    }

    /// One model name serves thousands of lines.
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
    /// The entry's id. A content replacement has one too, but takes no part in the tree.
    pub(super) fn id(&self) -> Option<EntryId> {
        // A note's id is kept apart, so that no reader takes it for part of the tree.
        self.uuid
            .filled()
            .or_else(|| self.note.filled())
            .map(EntryId::new)
    }

    /// What the client kept of a tool's result beside the result itself.
    pub(super) fn outcome(&self) -> ToolOutcome<'_> {
        // Most are long and say nothing that we look for.
        let says = |name: &str| {
            let raw = self.result.0.unwrap_or_default();
            memchr::memmem::find(raw.as_bytes(), name.as_bytes()).is_some()
        };
        if says("agentId") || says("persistedOutputPath") {
            self.result.read()
        } else {
            ToolOutcome::default()
        }
    }

    pub(super) fn is_compaction(&self) -> bool {
        self.kind.get() == Some("system") && self.subtype.get() == Some("compact_boundary")
    }

    /// The design document wraps a system prompt in a message.
    pub(super) fn is_instructions(&self) -> bool {
        self.kind.get() == Some("system") && self.message.role.get().is_some()
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        timestamp(self.timestamp)
    }

    /// A prompt that a person typed, and its first words.
    pub(super) fn prompt(&self) -> Option<&str> {
        let content = &self.message.content;
        let other = self.kind.get() != Some("user")
            || self.meta.0
            || self.sidechain.0
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

/// The tokens of a reply, and what is wrong with its counts. A count that cannot be is left out.
pub(super) fn usage(raw: Raw<'_>) -> (Option<Usage>, Option<String>) {
    if raw.is_some() && !raw.0.is_some_and(|raw| raw.starts_with('{')) {
        return (None, Some(format!("usage is {}", shown(raw))));
    }
    let tokens: Tokens<'_> = raw.read();
    let mut faults: Vec<String> = Vec::new();
    let mut count = |name: &str, raw: Raw<'_>| match raw.count() {
        Ok(count) if count.is_none_or(|count| count < Usage::ABSURD) => count,
        _ => {
            faults.push(format!("{name} is {}", shown(raw)));
            None
        }
    };
    let input = count("input_tokens", tokens.input);
    let output = count("output_tokens", tokens.output);
    let read = count("cache_read_input_tokens", tokens.cache_read);
    let write = count("cache_creation_input_tokens", tokens.cache_write);
    let short = count("ephemeral_5m_input_tokens", tokens.split.five_minutes);
    let long = count("ephemeral_1h_input_tokens", tokens.split.one_hour);
    let searches = count("web_search_requests", tokens.server.web_searches);
    let fault = (!faults.is_empty()).then(|| faults.join("; "));
    let counts = [input, output, read, write, short, long, searches];
    if counts.iter().all(Option::is_none) {
        return (None, fault);
    }
    let (short, long) = match (short.unwrap_or_default(), long.unwrap_or_default()) {
        // Old lines do not split: all cache writes lived for five minutes then.
        (0, 0) => (write.unwrap_or_default(), 0),
        split => split,
    };
    let usage = Usage {
        input: input.unwrap_or_default(),
        output: output.unwrap_or_default(),
        cache_write_5m: short,
        cache_write_1h: long,
        cache_read: read.unwrap_or_default(),
        web_searches: searches.unwrap_or_default(),
    };
    (Some(usage), fault)
}

fn shown(raw: Raw<'_>) -> String {
    raw.0.unwrap_or_default().chars().take(40).collect()
}

/// A time as RFC 3339 text or as milliseconds since 1970.
pub(super) fn timestamp(raw: Raw<'_>) -> Option<Timestamp> {
    match raw.text() {
        Some(text) => text.parse().ok(),
        None => Timestamp::from_millisecond(raw.count().ok()??.try_into().ok()?).ok(),
    }
}

/// Tells a line of a log from an object that is only a part of one.
pub(super) fn is_record(object: &str) -> bool {
    let named = |line: Line<'_>| {
        let names = [&line.uuid, &line.session, &line.leaf, &line.message_id];
        line.kind.filled().is_some() && names.iter().any(|name| name.filled().is_some())
    };
    match serde_json::from_str(object) {
        Ok(line) => named(line),
        Err(_) => serde_json::from_str(&json::mend(object)).is_ok_and(named),
    }
}

/// Texts that the client itself puts in the user's place.
pub(super) fn is_client_text(text: &str) -> bool {
    const OPENINGS: [&str; 9] = [
        "<command-name>",
        "<command-message>",
        "<command-args>",
        "<local-command-",
        "Caveat:",
        "<system-reminder>",
        "<ide_opened_file>",
        "<ide_selection>",
        "[Request interrupted by user",
    ];
    let text = text.trim_start();
    text.is_empty() || OPENINGS.iter().any(|opening| text.starts_with(opening))
}

/// Summaries that the client made of an error message say nothing about the conversation.
pub(super) fn is_error_summary(text: &str) -> bool {
    text.starts_with("API Error:")
}

/// The leading characters that titles are made of.
pub(super) fn opening(text: &str) -> Box<str> {
    const LONGEST: usize = 200;
    let end = text
        .char_indices()
        .nth(LONGEST)
        .map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text).into()
}

mod content {
    //! A message's content as outlines need it: which calls, which results, how a prompt begins.

    use std::fmt;

    use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

    use super::{is_client_text, opening};
    use crate::json::fast::{Fast, Walk};
    use crate::json::{Raw, Text, object};
    use crate::model::{Delegation, Key};

    object! {
        struct Part<'a> {
            "type" => kind: Text<'a>,
            "id" => id: Text<'a>,
            "name" => name: Text<'a>,
            "input" => input: Raw<'a>,
            "tool_use_id" => answers: Text<'a>,
            "text" => text: Raw<'a>,
        }
    }

    object! {
        struct Task<'a> {
            "prompt" => prompt: Text<'a>,
            "subagent_type" => kind: Text<'a>,
            "description" => description: Text<'a>,
        }
    }

    /// No one hands a sub-agent more text than this.
    const LONGEST_TASK: usize = 100_000;

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Content {
        /// How a person's text begins, if there is any.
        pub(crate) prompt: Option<Box<str>>,
        /// The tool calls made.
        pub(crate) calls: Vec<Key>,
        /// The tool calls answered.
        pub(crate) answers: Vec<Key>,
        /// There are tool results.
        pub(crate) results: bool,
        /// The whole text, by which a sub-agent's first message finds the call it came from.
        pub(crate) asked: Option<Box<str>>,
        /// Calls that hand a prompt to a sub-agent.
        pub(crate) delegations: Vec<Delegation>,
    }

    impl Content {
        fn of_text(text: &str) -> Self {
            let prompt = (!is_client_text(text)).then(|| opening(text));
            let asked = (text.len() < LONGEST_TASK).then(|| text.into());
            Content {
                prompt,
                asked,
                ..Content::default()
            }
        }

        fn add(&mut self, part: &Part<'_>) {
            match part.kind.get() {
                Some("text") if self.prompt.is_none() => {
                    let text = part.text.text().filter(|text| !is_client_text(text));
                    self.prompt = text.as_deref().map(opening);
                }
                Some("tool_use") => {
                    let Some(call) = part.id.filled().map(Key::of) else {
                        return;
                    };
                    self.calls.push(call);
                    if matches!(part.name.get(), Some("Task" | "Agent")) {
                        let task: Task<'_> = part.input.read();
                        self.delegations.push(Delegation {
                            call,
                            prompt: task.prompt.filled().map(Key::of),
                            kind: task.kind.filled().map(opening),
                            description: task.description.filled().map(opening),
                        });
                    }
                }
                Some("tool_result") => {
                    self.results = true;
                    self.answers.extend(part.answers.filled().map(Key::of));
                }
                _ => {}
            }
        }
    }

    impl<'a> Fast<'a> for Content {
        fn fast(walk: &mut Walk<'a>) -> Option<Self> {
            let mut content = Content::default();
            match walk.peek()? {
                b'"' => return Text::fast(walk)?.get().map(Content::of_text),
                b'[' => walk.array(|walk| {
                    content.add(&Part::fast(walk)?);
                    Some(())
                })?,
                _ => walk.skip_other()?,
            }
            Some(content)
        }
    }

    impl<'de> Deserialize<'de> for Content {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Parts)
        }
    }

    struct Parts;

    impl<'de> Visitor<'de> for Parts {
        type Value = Content;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text or blocks")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
            Ok(Content::of_text(text))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
            let mut content = Content::default();
            while let Some(part) = parts.next_element::<Part<'de>>()? {
                content.add(&part);
            }
            Ok(content)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Content::default())
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<Content, E> {
            Ok(Content::default())
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Content, E> {
            Ok(Content::default())
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<Content, E> {
            Ok(Content::default())
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Content, E> {
            Ok(Content::default())
        }
        fn visit_unit<E: Error>(self) -> Result<Content, E> {
            Ok(Content::default())
        }
    }
}
