//! Derives lines from the records of a chat: resolves links, joins records with the same id, and finds
//! the tokens of each response.

use std::collections::{HashMap, HashSet};

use crate::json::{Raw, Text, object, quote};
use crate::layout::PROGRAM;
use crate::layout::derived::{
    Counts, DerivedLine, DerivedLog, call_block, count, log_lines, owned, result_block, split_mark,
    text_block, thinking_block,
};
use crate::layout::extension::Extension;
use crate::model::DocumentFormat;

/// The log of a session or sub-agent.
pub(super) static CHAT: DocumentFormat = DocumentFormat {
    name: "qwen-chat",
    keeps_lines: true,
    base_session: None,
    to_lines,
};

/// Type of lines with annotations, and subtype of records in the chain that only annals reads.
pub(super) const OWN: &str = "annals";

/// Kinds of such records that are messages: a message of a program, and a part of a reply.
pub(super) const MESSAGE: &str = "message";
pub(super) const REPLY: &str = "assistant";

object! {
    struct Line<'a> {
        "uuid" => id: Text<'a>,
        "parentUuid" => parent: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "type" => kind: Text<'a>,
        "provenance" => provenance: Text<'a>,
        "cwd" => cwd: Text<'a>,
        "version" => version: Text<'a>,
        "gitBranch" => branch: Text<'a>,
        "model" => model: Text<'a>,
        "message" => message: QwenMessage<'a>,
        "usageMetadata" => usage: Raw<'a>,
        "toolCallResult" => result: CallResult<'a>,
        "subtype" => subtype: Text<'a>,
        "systemPayload" => payload: Payload<'a>,
        "note" => note: Raw<'a>,
        "annals" => annex: Raw<'a>,
    }
}

object! {
    struct QwenMessage<'a> { "parts" => parts: Raw<'a>, }
}

object! {
    struct CallResult<'a> {
        "callId" => call: Text<'a>,
        "status" => status: Text<'a>,
    }
}

object! {
    struct Payload<'a> {
        "uiEvent" => event: Telemetry<'a>,
        "rawCommand" => command: Text<'a>,
        "customTitle" => title: Text<'a>,
        "compressedHistory" => history: Raw<'a>,
    }
}

object! {
    struct Telemetry<'a> {
        "event.name" => name: Text<'a>,
        "response_id" => response: Text<'a>,
        "model" => model: Text<'a>,
        "subagent_name" => agent: Text<'a>,
        "input_token_count" => input: Raw<'a>,
        "output_token_count" => output: Raw<'a>,
        "cached_content_token_count" => cached: Raw<'a>,
        "thoughts_token_count" => thoughts: Raw<'a>,
        "total_token_count" => total: Raw<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "promptTokenCount" => input: Raw<'a>,
        "candidatesTokenCount" => output: Raw<'a>,
        "cachedContentTokenCount" => cached: Raw<'a>,
        "thoughtsTokenCount" => thoughts: Raw<'a>,
        "totalTokenCount" => total: Raw<'a>,
    }
}

object! {
    struct Part<'a> {
        "text" => text: Text<'a>,
        "thought" => thought: Raw<'a>,
        "functionCall" => call: FunctionCall<'a>,
        "functionResponse" => response: FunctionResponse<'a>,
        "inlineData" => data: InlineData<'a>,
    }
}

object! {
    struct FunctionCall<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "args" => args: Raw<'a>,
    }
}

object! {
    struct FunctionResponse<'a> {
        "id" => id: Text<'a>,
        "response" => response: Raw<'a>,
    }
}

object! {
    struct Response<'a> {
        "output" => output: Raw<'a>,
        "error" => error: Raw<'a>,
    }
}

object! {
    struct InlineData<'a> {
        "mimeType" => media_type: Text<'a>,
        "data" => data: Text<'a>,
    }
}

/// Types of records through which the program follows links.
pub(super) const IN_CHAIN: [&str; 4] = ["user", "assistant", "tool_result", "system"];

/// Name of the telemetry with the tokens of a response.
const RESPONSE: &str = "qwen-code.api_response";

/// Beginning of the names of the program's own sub-agents, which have no logs.
const OWN_AGENT: &str = "managed-";

/// Returns whether an object is a record of a chat and not part of one.
pub(super) fn is_record(object: &str) -> bool {
    let line: Line<'_> = Raw(Some(object)).parse();
    let is_own = line.kind.get() == Some(OWN) && line.annex.is_some();
    line.kind.non_empty().is_some() && (is_own || line.id.non_empty().is_some())
}

/// Returns whether the program follows links through a record.
pub(super) fn is_in_chain(record: &str) -> bool {
    let line: Line<'_> = Raw(Some(record)).parse();
    line.id.non_empty().is_some() && IN_CHAIN.contains(&line.kind.or_empty())
}

pub(super) fn to_lines(bytes: &[u8]) -> Vec<u8> {
    let (mark, bytes) = split_mark(bytes);
    let mut log = DerivedLog::new(mark);
    let lines: Vec<(&[u8], Option<&str>, Option<Line<'_>>)> = log_lines(bytes)
        .map(|(line, text)| {
            let parsed = text.and_then(|text| serde_json::from_str(text).ok());
            (line, text, parsed)
        })
        .collect();
    let mut fold = Fold::default();
    let parsed = lines.iter().filter_map(|(_, _, line)| line.as_ref());
    parsed.for_each(|line| fold.prepare(line));
    for (number, (line, text, parsed)) in lines.iter().enumerate() {
        let Some(parsed) = parsed else {
            log.add(line, None);
            continue;
        };
        let derived = fold.line(number, parsed);
        let derived = DerivedLine {
            time: owned(parsed.timestamp),
            cwd: parsed.cwd.owned(),
            branch: parsed.branch.owned(),
            version: parsed.version.owned(),
            annex: parsed.annex,
            more: fold.more.take().into_iter().collect(),
            record: Raw(*text),
            ..derived
        };
        log.add(line, Some(&derived));
    }
    log.into_bytes()
}

/// State of a chat while its lines are read.
#[derive(Default)]
struct Fold<'a> {
    /// Responses by the telemetry that replies follow.
    telemetry: HashMap<String, Telemetry<'a>>,
    /// Telemetry that a reply follows.
    answered: HashSet<String>,
    /// Blocks of each message so far, by id.
    blocks: HashMap<String, Vec<String>>,
    /// The summary that replaces what is before a compaction, by the compaction's id.
    summaries: HashMap<String, String>,
    /// Responses that were counted.
    counted: HashSet<String>,
    /// A further entry of the current record.
    more: Option<DerivedLine<'a>>,
}

impl<'a> Fold<'a> {
    fn prepare(&mut self, line: &Line<'a>) {
        let event = &line.payload.event;
        if event.name.get() == Some(RESPONSE)
            && let Some(id) = line.id.owned()
        {
            self.telemetry.insert(id, event.clone());
        }
        if line.kind.get() == Some("assistant")
            && let Some(parent) = line.parent.non_empty()
            && let Some(event) = self.telemetry.get(parent)
            && event.agent.non_empty().is_none()
        {
            self.answered.insert(parent.to_owned());
        }
    }

    fn line(&mut self, number: usize, line: &Line<'a>) -> DerivedLine<'a> {
        let kind = line.kind.or_empty();
        let mut derived = match kind {
            "user" => {
                let typed = matches!(line.provenance.get(), None | Some("real_user"));
                DerivedLine {
                    human: typed,
                    meta: !typed,
                    ..DerivedLine::message("user", blocks(line))
                }
            }
            "tool_result" => DerivedLine::message("user", blocks(line)),
            "assistant" => self.reply(number, line),
            "system" => self.system(line),
            OWN if line.note.is_some() => {
                let annex: Extension<'_> = line.annex.parse();
                return DerivedLine {
                    id: annex.id.owned(),
                    note: line.note,
                    ..DerivedLine::new("note")
                };
            }
            // The program does not follow links through records of other types.
            _ => return DerivedLine::new(kind),
        };
        let Some(id) = line.id.non_empty() else {
            derived.id = (derived.kind == "message").then(|| format!("line-{}", number + 1));
            return derived;
        };
        derived.id = Some(id.to_owned());
        let parent = line.parent.non_empty();
        derived.parent = parent.map(|id| self.summaries.get(id).cloned().unwrap_or(id.to_owned()));
        derived.resumes = true;
        let known = self.blocks.entry(id.to_owned()).or_default();
        known.append(&mut derived.blocks);
        derived.blocks.clone_from(known);
        derived
    }

    fn reply(&mut self, number: usize, line: &Line<'a>) -> DerivedLine<'a> {
        let mut reply = DerivedLine::message("assistant", blocks(line));
        reply.model = line.model.owned();
        let parent = line.parent.non_empty();
        let event = parent.filter(|id| self.answered.contains(*id));
        let event = event.and_then(|id| self.telemetry.get(id));
        let annex: Extension<'_> = line.annex.parse();
        let response = annex.response.owned();
        let response = response.or_else(|| event.and_then(|event| event.response.owned()));
        let response = response.or_else(|| line.id.owned());
        let response = response.unwrap_or_else(|| format!("line-{}", number + 1));
        // Each record that annals wrote has what it adds to its response.
        let is_own = annex.program.get() == Some(PROGRAM);
        if line.usage.is_some() && (self.counted.insert(response.clone()) || is_own) {
            reply.usage = Some(counts(&line.usage.parse(), &mut reply.fault));
        }
        reply.response = Some(response);
        reply
    }

    fn system(&mut self, line: &Line<'a>) -> DerivedLine<'a> {
        let subtype = line.subtype.or_empty();
        let payload = &line.payload;
        let annex: Extension<'_> = line.annex.parse();
        match subtype {
            "chat_compression" if payload.history.is_list() => {
                let id = line.id.or_empty();
                let summary = format!("{id}-summary");
                let history = payload.history.list().into_iter();
                let parts = history.map(Raw::parse::<QwenMessage<'_>>);
                let parts = parts.flat_map(|message| message.parts.list());
                let texts = parts.filter_map(|part| part.parse::<Part<'_>>().text.owned());
                let blocks = texts.map(|text| text_block(&text)).collect();
                let message = DerivedLine {
                    meta: true,
                    summary: true,
                    ..DerivedLine::message("user", blocks)
                };
                if annex.compact.0 {
                    // The compaction before it has a record of its own.
                    return message;
                }
                self.more = Some(DerivedLine {
                    id: Some(summary.clone()),
                    parent: Some(id.to_owned()),
                    time: owned(line.timestamp),
                    resumes: true,
                    ..message
                });
                self.summaries.insert(id.to_owned(), summary);
                DerivedLine::new("compaction")
            }
            OWN => match annex.kind.or_empty() {
                MESSAGE => DerivedLine::message("system", Vec::new()),
                REPLY => DerivedLine {
                    response: annex.response.owned().or_else(|| line.id.owned()),
                    ..DerivedLine::message("assistant", Vec::new())
                },
                _ => DerivedLine::new(subtype),
            },
            "slash_command" if payload.command.non_empty().is_some() => DerivedLine {
                label: Some(subtype.to_owned()),
                text: payload.command.owned(),
                ..DerivedLine::new("notice")
            },
            "custom_title" => DerivedLine::title(payload.title.or_empty(), true),
            "ui_telemetry" => {
                self.telemetry(line);
                DerivedLine::new(subtype)
            }
            _ => DerivedLine::new(subtype),
        }
    }

    /// Adds a response without a message, such as that of a side call.
    fn telemetry(&mut self, line: &Line<'a>) {
        let event = &line.payload.event;
        let has_log = |agent: &str| !agent.starts_with(OWN_AGENT);
        if event.name.get() != Some(RESPONSE)
            || self.answered.contains(line.id.or_empty())
            || event.agent.non_empty().is_some_and(has_log)
        {
            return;
        }
        let response = event.response.owned().or_else(|| line.id.owned());
        let response = response.unwrap_or_default();
        if self.counted.insert(response.clone()) {
            let mut fault = None;
            let tokens = Tokens {
                input: event.input,
                output: event.output,
                cached: event.cached,
                thoughts: event.thoughts,
                total: event.total,
                ..Tokens::default()
            };
            let counts = counts(&tokens, &mut fault);
            self.more = Some(DerivedLine {
                fault,
                time: owned(line.timestamp),
                ..DerivedLine::response(response, event.model.owned(), counts)
            });
        }
    }
}

fn blocks(line: &Line<'_>) -> Vec<String> {
    let parts = line.message.parts.list().into_iter();
    let parts = parts.map(Raw::parse::<Part<'_>>);
    let blocks = parts.filter_map(|part| {
        if part.response.response.is_some() {
            let id = part.response.id.non_empty();
            let id = id.unwrap_or(line.result.call.or_empty());
            let response: Response<'_> = part.response.response.parse();
            let failed = response.error.is_some() || line.result.status.get() == Some("error");
            let output = match (response.output.is_some(), response.error.is_some()) {
                (true, _) => response.output,
                (_, true) => response.error,
                _ => part.response.response,
            };
            return Some(result_block(id, output, failed));
        }
        if let Some(name) = part.call.name.get() {
            return Some(call_block(part.call.id.or_empty(), name, part.call.args));
        }
        if let Some(data) = part.data.data.get() {
            let media_type = quote(part.data.media_type.or_empty());
            let data = quote(data);
            return Some(format!(
                "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":{media_type},\"data\":{data}}}}}"
            ));
        }
        let text = part.text.get()?;
        Some(match part.thought.0 {
            Some("true") => thinking_block(text),
            _ => text_block(text),
        })
    });
    blocks.collect()
}

fn counts(tokens: &Tokens<'_>, fault: &mut Option<String>) -> Counts {
    let input = count("promptTokenCount", tokens.input, fault);
    let read = count("cachedContentTokenCount", tokens.cached, fault);
    let output = count("candidatesTokenCount", tokens.output, fault);
    let thoughts = count("thoughtsTokenCount", tokens.thoughts, fault);
    let total = count("totalTokenCount", tokens.total, fault);
    // Only some providers count thoughts among the candidates.
    let is_apart = total == input.saturating_add(output).saturating_add(thoughts);
    let output = output.saturating_add(if is_apart { thoughts } else { 0 });
    [input.saturating_sub(read), read, 0, output]
}
