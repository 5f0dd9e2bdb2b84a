//! Derives lines from the events of a session, and from the title in a file next to them.

use std::collections::{HashMap, HashSet};

use crate::json::{Pairs, Raw, Text, object};
use crate::layout::AGENT_SEPARATOR;
use crate::layout::derived::{
    Counts, DerivedLine, DerivedLog, LineOrder, call_block, count, log_lines, owned, result_block,
    split_mark, text_block, thinking_block,
};
use crate::model::{FilePart, FileSetFormat};

/// A session: its events and its `workspace.yaml`.
pub(super) static SESSION: FileSetFormat = FileSetFormat {
    name: "copilot-session",
    is_whole: true,
    parts: |path| match path.file_name().is_some_and(|name| name == "events.jsonl") {
        true => vec![path.with_file_name("workspace.yaml")],
        false => Vec::new(),
    },
    to_lines,
};

object! {
    struct Event<'a> {
        "type" => kind: Text<'a>,
        "data" => data: Raw<'a>,
        "id" => id: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "agentId" => agent: Text<'a>,
    }
}

object! {
    struct Data<'a> {
        "sessionId" => session: Text<'a>,
        "copilotVersion" => version: Text<'a>,
        "context" => context: Context<'a>,
        "content" => content: Raw<'a>,
        "source" => source: Text<'a>,
        "message" => message: Text<'a>,
        "reason" => reason: Text<'a>,
        "messageId" => message_id: Text<'a>,
        "model" => model: Text<'a>,
        "apiCallId" => response: Text<'a>,
        "reasoningText" => reasoning: Text<'a>,
        "toolRequests" => calls: Raw<'a>,
        "toolCallId" => call: Text<'a>,
        "success" => success: Raw<'a>,
        "result" => result: ToolResult<'a>,
        "error" => error: Failure<'a>,
        "usage" => usage: Raw<'a>,
        "agentType" => agent_type: Text<'a>,
        "agentName" => agent_name: Text<'a>,
        "agentDescription" => description: Text<'a>,
        "summaryContent" => summary: Text<'a>,
        "modelMetrics" => metrics: Raw<'a>,
    }
}

object! {
    struct Context<'a> {
        "cwd" => cwd: Text<'a>,
        "branch" => branch: Text<'a>,
    }
}

object! {
    struct ToolRequest<'a> {
        "toolCallId" => id: Text<'a>,
        "name" => name: Text<'a>,
        "arguments" => arguments: Raw<'a>,
    }
}

object! {
    struct ToolResult<'a> { "content" => content: Raw<'a>, }
}

object! {
    struct Failure<'a> { "message" => message: Raw<'a>, }
}

object! {
    struct Usage<'a> {
        "model" => model: Text<'a>,
        "apiCallId" => response: Text<'a>,
        "inputTokens" => input: Raw<'a>,
        "outputTokens" => output: Raw<'a>,
        "cacheReadTokens" => read: Raw<'a>,
        "cacheWriteTokens" => written: Raw<'a>,
    }
}

object! {
    struct ModelMetrics<'a> { "usage" => usage: Usage<'a>, }
}

fn to_lines(parts: &[FilePart<'_>]) -> Vec<u8> {
    let Some((main, others)) = parts.split_first() else {
        return Vec::new();
    };
    let (mark, bytes) = split_mark(main.bytes);
    let mut log = DerivedLog::new(mark);
    let mut fold = Fold::default();
    let folder = main.path.parent().and_then(|dir| dir.file_name());
    fold.session = folder.and_then(|name| name.to_str()).map(str::to_owned);
    let events: Vec<(&[u8], Option<&str>, Option<Event<'_>>)> = log_lines(bytes)
        .map(|(line, text)| {
            let event = text.and_then(|text| serde_json::from_str(text).ok());
            (line, text, event)
        })
        .collect();
    let parsed = events.iter().filter_map(|(_, _, event)| event.as_ref());
    parsed.for_each(|event| fold.prepare(event));
    for (number, (line, text, event)) in events.iter().enumerate() {
        let derived = event.as_ref().map(|event| DerivedLine {
            time: owned(event.timestamp),
            record: Raw(*text),
            ..fold.event(number, event)
        });
        log.add(line, derived.as_ref());
    }
    let titles = others.iter().filter_map(|part| title(part.bytes));
    for mut line in fold.totals().into_iter().chain(titles) {
        line.session.clone_from(&fold.session);
        log.add(b"", Some(&line));
    }
    log.into_bytes()
}

/// State of a session while its events are read.
#[derive(Default)]
struct Fold<'a> {
    session: Option<String>,
    /// Git branch since the last start or resume.
    branch: Option<String>,
    /// Usage of each response that has a message.
    usage: HashMap<String, Usage<'a>>,
    /// Responses that have a message, and those that have got their tokens.
    replies: HashSet<String>,
    counted: HashSet<String>,
    /// Sub-agents by the calls that started them.
    agents: HashMap<String, String>,
    /// Totals of the last shutdown, if no response has tokens of its own.
    metrics: Raw<'a>,
    has_usage: bool,
    order: LineOrder,
}

impl<'a> Fold<'a> {
    /// Finds what events refer to: usage comes before its message, and a sub-agent's start before the
    /// result of its call.
    fn prepare(&mut self, event: &Event<'a>) {
        let data = || event.data.parse::<Data<'a>>();
        match event.kind.or_empty() {
            "session.start" if self.session.is_none() => self.session = data().session.owned(),
            "assistant.message" => self.replies.extend(data().response.owned()),
            "session.usage_record" => {
                self.has_usage = true;
                let usage: Usage<'a> = data().usage.parse();
                if let Some(response) = usage.response.owned() {
                    self.usage.entry(response).or_insert(usage);
                }
            }
            "subagent.started" => {
                let call = data().call.owned().zip(event.agent.owned());
                self.agents.extend(call);
            }
            "session.shutdown" => {
                let metrics = data().metrics;
                if metrics.is_some() {
                    self.metrics = metrics;
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, number: usize, event: &Event<'a>) -> DerivedLine<'a> {
        let data: Data<'a> = event.data.parse();
        let kind = event.kind.or_empty();
        let agent = event.agent.non_empty();
        let mut line = match kind {
            "session.start" | "session.resume" => DerivedLine {
                cwd: data.context.cwd.owned(),
                branch: data.context.branch.owned(),
                version: data.version.owned(),
                ..DerivedLine::new(kind)
            },
            "user.message" => {
                let typed = matches!(data.source.get(), None | Some("user"));
                DerivedLine {
                    human: typed && agent.is_none(),
                    meta: !typed,
                    ..DerivedLine::message("user", texts(data.content))
                }
            }
            "system.message" => DerivedLine::message("system", texts(data.content)),
            "assistant.message" => self.reply(&data),
            "session.usage_record" => self.usage_record(event, &data),
            "tool.execution_complete" => {
                let failed = data.success.0 == Some("false");
                let content = match data.result.content.is_some() {
                    true => data.result.content,
                    false => data.error.message,
                };
                let call = data.call.or_empty();
                DerivedLine {
                    spawned: self
                        .agents
                        .get(call)
                        .cloned()
                        .filter(|id| agent != Some(id)),
                    ..DerivedLine::message("user", vec![result_block(call, content, failed)])
                }
            }
            "subagent.started" => DerivedLine {
                label: data.agent_type.owned().or_else(|| data.agent_name.owned()),
                text: data.description.owned(),
                call: data.call.owned(),
                ..DerivedLine::new("agent")
            },
            "session.compaction_complete" if data.summary.non_empty().is_some() => {
                let summary = vec![text_block(data.summary.or_empty())];
                DerivedLine {
                    meta: true,
                    summary: true,
                    ..DerivedLine::message("user", summary)
                }
            }
            "session.error" | "abort" => DerivedLine {
                label: Some(kind.rsplit('.').next().unwrap_or(kind).to_owned()),
                text: data.message.owned().or_else(|| data.reason.owned()),
                ..DerivedLine::new("notice")
            },
            kind => DerivedLine::new(kind),
        };
        line.session = self.session.as_ref().map(|session| match agent {
            Some(agent) => format!("{session}{AGENT_SEPARATOR}{agent}"),
            None => session.clone(),
        });
        if line.branch.is_some() {
            self.branch.clone_from(&line.branch);
        } else if agent.is_some() {
            // The lines of a sub-agent are read as a log of their own, which has no start.
            line.branch.clone_from(&self.branch);
        }
        let is_shown = matches!(kind, "session.error" | "abort");
        if is_shown || (line.kind == "message" && kind != "session.usage_record") {
            self.order.add(number, event.id.non_empty(), &mut line);
            line.resumes = line.kind == "message" && agent.is_none();
        }
        line
    }

    fn reply(&mut self, data: &Data<'a>) -> DerivedLine<'a> {
        let mut blocks: Vec<String> = Vec::new();
        blocks.extend(data.reasoning.non_empty().map(thinking_block));
        blocks.extend(texts(data.content));
        let calls = data.calls.list().into_iter();
        let calls = calls.map(Raw::parse::<ToolRequest<'_>>);
        blocks.extend(
            calls.map(|call| call_block(call.id.or_empty(), call.name.or_empty(), call.arguments)),
        );
        let response = data.response.owned();
        let mut line = DerivedLine {
            model: data.model.owned(),
            ..DerivedLine::message("assistant", blocks)
        };
        if let Some(usage) = response.as_ref().and_then(|id| self.usage.get(id))
            && self.counted.insert(usage.response.or_empty().to_owned())
        {
            line.usage = Some(counts(usage, &mut line.fault));
        }
        line.response = response.or_else(|| data.message_id.owned());
        line
    }

    /// Tokens of a response without a message, such as one that was interrupted.
    fn usage_record(&mut self, event: &Event<'a>, data: &Data<'a>) -> DerivedLine<'a> {
        let usage: Usage<'a> = data.usage.parse();
        let response = usage.response.owned().or_else(|| event.id.owned());
        let response = response.unwrap_or_default();
        if self.replies.contains(&response) || !self.counted.insert(response.clone()) {
            return DerivedLine::new("session.usage_record");
        }
        let mut fault = None;
        let counts = counts(&usage, &mut fault);
        DerivedLine {
            fault,
            ..DerivedLine::response(response, usage.model.owned(), counts)
        }
    }

    /// Totals of a log without tokens of single responses.
    fn totals(&self) -> Vec<DerivedLine<'a>> {
        if self.has_usage {
            return Vec::new();
        }
        let models: Pairs<'a> = self.metrics.parse();
        let session = self.session.clone().unwrap_or_default();
        let lines = models.0.into_iter().map(|(model, metrics)| {
            let metrics: ModelMetrics<'a> = metrics.parse();
            let mut fault = None;
            let counts = counts(&metrics.usage, &mut fault);
            DerivedLine {
                fault,
                ..DerivedLine::response(format!("{session}-{model}"), Some(model.into()), counts)
            }
        });
        lines
            .filter(|line| line.usage != Some(Counts::default()))
            .collect()
    }
}

fn texts(content: Raw<'_>) -> Vec<String> {
    let text = content.text().filter(|text| !text.is_empty());
    text.iter().map(|text| text_block(text)).collect()
}

fn counts(usage: &Usage<'_>, fault: &mut Option<String>) -> Counts {
    let read = count("cacheReadTokens", usage.read, fault);
    let written = count("cacheWriteTokens", usage.written, fault);
    let input = count("inputTokens", usage.input, fault);
    let uncached = input.saturating_sub(read).saturating_sub(written);
    [
        uncached,
        read,
        written,
        count("outputTokens", usage.output, fault),
    ]
}

/// Returns the title in `workspace.yaml`, which has one scalar per line.
fn title(yaml: &[u8]) -> Option<DerivedLine<'static>> {
    let yaml = std::str::from_utf8(yaml).ok()?;
    let value = |name: &str| {
        let mut lines = yaml.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let name = value("name")?.trim();
    let quoted = |mark: char| name.strip_prefix(mark)?.strip_suffix(mark);
    let name = match (quoted('"'), quoted('\'')) {
        (Some(_), _) => Raw(Some(name)).text()?.into_owned(),
        (_, Some(inner)) => inner.replace("''", "'"),
        // The beginning of a text of several lines.
        _ if matches!(
            name.as_bytes().first(),
            None | Some(b'|' | b'>' | b'&' | b'*' | b'!')
        ) =>
        {
            return None;
        }
        _ => name.to_owned(),
    };
    Some(DerivedLine::title(
        &name,
        value("user_named") == Some("true"),
    ))
}
