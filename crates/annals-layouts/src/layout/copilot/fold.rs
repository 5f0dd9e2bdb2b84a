//! Derives lines from the events of a session, and from the title beside them: one line from each
//! event.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::json::{Pairs, Raw, Text, object};
use crate::layout::derived::{
    Counts, DerivedLine, DerivedLog, LineDecoder, LineOrder, call_block, count, log_lines, owned,
    result_block, split_mark, text_block, thinking_block,
};
use crate::layout::extension::Extension;
use crate::layout::scalars::scalar;
use crate::layout::{AGENT_SEPARATOR, Decoded, Decoder, PROGRAM, Record, entry_outline};
use crate::model::{DocumentFormat, Entry, FilePart, FileSetFormat, Framing, Outline};

/// Beginning of the types of events that the program skips.
pub(super) const HIDDEN: &str = "annals.";

/// A session: its events and its `workspace.yaml`.
pub(super) static SESSION: FileSetFormat = FileSetFormat {
    name: "copilot-session",
    is_whole: true,
    keeps_lines: true,
    parts: |path| match path.file_name().is_some_and(|name| name == "events.jsonl") {
        true => vec![path.with_file_name("workspace.yaml")],
        false => Vec::new(),
    },
    to_lines: |parts| to_lines(parts, false),
};

/// The log of a sub-agent that annals wrote.
pub(super) static AGENT: DocumentFormat = DocumentFormat {
    name: "copilot-agent",
    keeps_lines: true,
    base_session: None,
    to_lines: |bytes| {
        to_lines(
            &[FilePart {
                path: Path::new(""),
                bytes,
            }],
            true,
        )
    },
};

pub(super) const AGENT_FRAMING: Framing = Framing::Document(&AGENT);

object! {
    struct Event<'a> {
        "type" => kind: Text<'a>,
        "data" => data: Raw<'a>,
        "id" => id: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "agentId" => agent: Text<'a>,
        "annals" => annex: Extension<'a>,
    }
}

object! {
    struct OwnEvent<'a> { "annals" => annex: Raw<'a>, }
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
        "forkedFrom" => forked_from: Text<'a>,
    }
}

object! {
    struct TitleNote<'a> {
        "type" => kind: Text<'a>,
        "title" => title: Text<'a>,
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

fn to_lines(parts: &[FilePart<'_>], is_agent: bool) -> Vec<u8> {
    let Some((main, others)) = parts.split_first() else {
        return Vec::new();
    };
    let (mark, bytes) = split_mark(main.bytes);
    let mut fold = Fold {
        is_agent,
        ..Fold::default()
    };
    let titles: Vec<DerivedLine<'_>> = others.iter().filter_map(|part| title(part.bytes)).collect();
    let custom = titles.iter().find(|title| title.custom);
    fold.title = custom.and_then(|title| title.text.clone());
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
    let lines = events.iter().enumerate();
    let lines = lines.map(|(number, (line, text, event))| {
        let derived = event.as_ref().map(|event| DerivedLine {
            time: owned(event.timestamp),
            record: Raw(*text),
            annex: own_members(*text),
            ..fold.event(number, event)
        });
        (*line, derived)
    });
    let mut lines: Vec<(&[u8], Option<DerivedLine<'_>>)> = lines.collect();
    let mut parsed = lines.iter_mut().filter_map(|(_, line)| line.as_mut());
    if let Some(first) = parsed.next() {
        let session = fold.session.clone();
        first.more.extend(
            titles
                .into_iter()
                .chain(fold.totals())
                .map(|line| DerivedLine {
                    session: session.clone().filter(|_| !is_agent),
                    ..line
                }),
        );
    }
    let mut log = DerivedLog::new(mark);
    for (line, derived) in &lines {
        log.add(line, derived.as_ref());
    }
    log.into_bytes()
}

/// Returns the member `annals` of an event.
fn own_members(event: Option<&str>) -> Raw<'_> {
    Raw(event).parse::<OwnEvent<'_>>().annex
}

/// State of a session while its events are read.
#[derive(Default)]
struct Fold<'a> {
    /// Whether the log is only that of a sub-agent.
    is_agent: bool,
    /// The title that a person gave.
    title: Option<String>,
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
            _ if event.annex.usage.is_some() => self.has_usage = true,
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
        let agent = event.agent.non_empty().filter(|_| !self.is_agent);
        let hidden = kind.strip_prefix(HIDDEN);
        let kind = hidden.unwrap_or(kind);
        let mut line = match kind {
            "session.start" | "session.resume" => DerivedLine {
                cwd: data.context.cwd.owned(),
                branch: data.context.branch.owned(),
                version: data.version.owned(),
                forked_from: data.forked_from.owned(),
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
            "note" if hidden.is_some() && !self.is_old_title(event.data) => DerivedLine {
                note: event.data,
                ..DerivedLine::new(kind)
            },
            kind => DerivedLine::new(kind),
        };
        let session = self.session.as_ref().filter(|_| !self.is_agent);
        line.session = session.map(|session| match agent {
            Some(agent) => format!("{session}{AGENT_SEPARATOR}{agent}"),
            None => session.clone(),
        });
        if line.branch.is_some() {
            self.branch.clone_from(&line.branch);
        } else if agent.is_some() {
            // The lines of a sub-agent are read as a log of their own, which has no start.
            line.branch.clone_from(&self.branch);
        }
        let is_own_entry = hidden.is_some() && matches!(kind, "compaction" | "system");
        let is_shown = is_own_entry || matches!(kind, "session.error" | "abort");
        if is_shown || (line.kind == "message" && kind != "session.usage_record") {
            let annex = &event.annex;
            let is_aside = annex.aside.0 || annex.sidechain.0;
            let id = annex.id.non_empty().or_else(|| event.id.non_empty());
            match is_aside {
                true => self.order.add_aside(number, id, &mut line),
                false => self.order.add(number, id, &mut line),
            }
            if annex.program.get() == Some(PROGRAM) {
                // The id of the message is that of the entry.
                line.response = line.id.clone().filter(|_| annex.usage.is_some());
            }
            if annex.parent.0.is_some() {
                line.parent = annex.parent.text().map(Cow::into_owned);
            }
            let is_resumed = is_own_entry || line.kind == "message";
            line.resumes = is_resumed && agent.is_none() && !is_aside;
        } else if kind == "note" {
            line.id = event.annex.id.owned();
        }
        line
    }

    /// Returns whether a note is a title that differs from the one that a person gave since.
    fn is_old_title(&self, note: Raw<'_>) -> bool {
        let note: TitleNote<'_> = note.parse();
        let title = note
            .title
            .get()
            .filter(|_| note.kind.get() == Some("title"));
        title.is_some_and(|title| self.title.as_deref().is_some_and(|now| now != title))
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
    let name = scalar(yaml, "name")?;
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
        scalar(yaml, "user_named") == Some("true"),
    ))
}

/// Decodes the events of a log themselves, for a repair.
#[derive(Debug)]
pub(super) struct EventDecoder;

impl EventDecoder {
    /// Passes the derived line of each event in a record to `give`.
    fn each_line<T>(
        record: &Record<'_>,
        out: &mut Decoded<T>,
        give: &mut dyn FnMut(&Record<'_>, &mut Decoded<T>),
    ) {
        let read = record.object_or_pieces(out, is_event, |text| {
            let event: Event<'_> = serde_json::from_str(text)?;
            let mut line = Fold::default().event(0, &event);
            let has_id = event.id.non_empty().is_some() || event.annex.id.non_empty().is_some();
            line.id = line.id.filter(|_| has_id);
            line.time = owned(event.timestamp);
            line.record = Raw(Some(text));
            line.annex = own_members(Some(text));
            let mut bytes = Vec::new();
            line.write(&mut bytes);
            Ok(bytes)
        });
        match read {
            Ok(bytes) => {
                let bytes = bytes.as_slice();
                give(&Record { bytes, ..*record }, out);
            }
            Err(pieces) => {
                let pieces = pieces.iter();
                pieces.for_each(|piece| EventDecoder::each_line(piece, out, give));
            }
        }
    }
}

impl Decoder for EventDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        EventDecoder::each_line(record, out, &mut |line, out| LineDecoder.outline(line, out));
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = (out.items.len(), out.flaws.len());
        EventDecoder::each_line(record, out, &mut |line, out| LineDecoder.decode(line, out));
        if out.items.len() == before.0 {
            entry_outline::push_entries(record, before.1, None, out);
        }
    }

    fn is_record(&self, object: &str) -> bool {
        is_event(object)
    }
}

/// Returns whether an object is an event and not part of one.
fn is_event(object: &str) -> bool {
    let event: Event<'_> = Raw(Some(object)).parse();
    event.kind.non_empty().is_some() && event.data.is_some() && event.timestamp.is_some()
}
