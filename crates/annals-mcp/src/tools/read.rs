//! `read`

use annals::model::{Block, Body, Entry, OutlineKind};
use annals::service::OpenSession;
use serde::Deserialize;
use serde_json::{Value, json};

use super::minute;
use crate::answer::{Answer, ListAnswer, Row, cut};
use crate::arguments::{budget_bytes, parse, within};
use crate::server::{Server, describe};

/// Parts of messages.
const PARTS: [&str; 5] = ["prompt", "text", "thinking", "call", "result"];

/// Parts that are shown unless others are asked for.
const DEFAULT_PARTS: [&str; 3] = ["prompt", "text", "call"];

/// Most bytes of one part; `cut` names what is left out.
const MAX_PART: usize = 4_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    id: String,
    agent: Option<String>,
    before: Option<u64>,
    after: Option<u64>,
    parts: Option<Vec<String>>,
    budget: Option<u64>,
    next: Option<String>,
}

/// Messages to read: positions in a list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: usize,
    end: usize,
    /// The newest are shown first if not all fit, and older ones follow.
    is_backward: bool,
}

pub(super) fn call(server: &Server, arguments: Value) -> Result<Answer, String> {
    let arguments: Arguments = parse(arguments)?;
    let budget = budget_bytes(arguments.budget)?;
    let before = within("before", arguments.before, &(0..=50), 2)?;
    let after = within("after", arguments.after, &(0..=50), 4)?;
    let (before, after) = (before as usize, after as usize);
    let parts = arguments.parts.as_deref();
    let parts: Vec<&str> = match parts {
        None => DEFAULT_PARTS.to_vec(),
        Some(parts) => parts.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        return Err(format!(
            "there is no part `{unknown}`; give some of {}",
            PARTS.join(", ")
        ));
    }
    let (session, messages) = match arguments.id.split_once('@') {
        Some((session, messages)) => (session, Some(messages)),
        None => (arguments.id.as_str(), None),
    };
    let open = server.open(session)?;
    let (first, last) = match messages.map(|it| it.split_once("..").unwrap_or((it, it))) {
        Some((first, last)) => (Some(first), Some(last)),
        None => (None, None),
    };
    let (log, entries) = select(&open, arguments.agent.as_deref(), last)?;
    let place = |id: &str| -> Result<usize, String> {
        let spots = open
            .session
            .find_records(id)
            .map_err(|error| describe(&error))?;
        let spot = spots.into_iter().find(|spot| spot.log == log);
        let spot = spot.ok_or_else(|| format!("`{id}` is not in this log"))?;
        let at = entries.iter().position(|at| *at == spot.entry);
        at.ok_or_else(|| format!("`{id}` is not a message of this branch"))
    };
    let page = before + after + 1;
    let whole = match (first, last) {
        (Some(first), Some(last)) if first != last => Window {
            start: place(first)?,
            end: place(last)? + 1,
            is_backward: false,
        },
        (Some(first), _) => {
            let at = place(first)?;
            Window {
                start: at.saturating_sub(before),
                end: entries.len().min(at + after + 1),
                is_backward: false,
            }
        }
        _ => Window {
            start: entries.len().saturating_sub(page),
            end: entries.len(),
            is_backward: true,
        },
    };
    let window = match &arguments.next {
        None => whole,
        Some(next) => {
            let next = Window::parse(next, whole.is_backward, page, entries.len())?;
            match first == last {
                true => next,
                // The rest of a range.
                false => Window {
                    end: whole.end.max(next.start),
                    ..next
                },
            }
        }
    };
    let wanted = entries.get(window.start..window.end).unwrap_or_default();
    let mut rows = Vec::new();
    open.each_at(log, wanted, |_, entry| {
        rows.push(row(server, &open, &entry, &parts))
    })
    .map_err(|error| describe(&error))?;
    let answer = ListAnswer {
        budget,
        name: "entries",
        members: json!({ "session": open.session.files.id.as_str() })
            .as_object()
            .cloned()
            .unwrap_or_default(),
        heading: format!(
            "Messages {} to {} of {} of {}:",
            window.start + 1,
            window.end,
            entries.len(),
            open.session.files.id
        ),
        is_reversed: window.is_backward,
    };
    if rows.is_empty() {
        return answer.fit(rows, |_| None);
    }
    if !window.is_backward {
        let total = entries.len();
        let asked_end = if first == last { total } else { whole.end };
        return answer.fit(rows, |shown| {
            let end = window.start + shown;
            (end < asked_end).then(|| end.to_string())
        });
    }
    rows.reverse();
    answer.fit(rows, |shown| {
        let start = window.end.saturating_sub(shown);
        (start > 0).then(|| start.to_string())
    })
}

impl Window {
    /// Parses a cursor: the position after the messages shown, or of the first one shown.
    fn parse(next: &str, is_backward: bool, page: usize, total: usize) -> Result<Self, String> {
        let at: Result<usize, _> = next.parse();
        let at = at.map_err(|_| "`next` is not from an answer of this tool".to_owned())?;
        let at = at.min(total);
        Ok(match is_backward {
            true => Window {
                start: at.saturating_sub(page),
                end: at,
                is_backward,
            },
            false => Window {
                start: at,
                end: total.min(at + page),
                is_backward,
            },
        })
    }
}

/// Returns the log and the messages of the branch that leads through a message, or that the agent
/// would resume.
fn select(
    open: &OpenSession,
    agent: Option<&str>,
    message: Option<&str>,
) -> Result<(usize, Vec<usize>), String> {
    let session = &open.session;
    let failed = |error: annals::Error| describe(&error);
    let (log, mut entries) = match (agent, message) {
        (Some(agent), _) if agent != "main" => {
            let agent = session.find_agent(agent).map_err(failed)?;
            (agent.log, session.agent_entries(agent))
        }
        (_, Some(message)) => {
            let spots = session.find_records(message).map_err(failed)?;
            let spot = spots.first().ok_or("there is no such message")?;
            let path = session.entries_to(spot.log, spot.entry, true);
            (spot.log, path.map(|(path, _)| path).unwrap_or_default())
        }
        _ => (0, session.resumed_entries().0),
    };
    let outlines = session.log(log).map(|(_, scan, _)| &scan.outlines);
    entries.retain(|at| {
        let outline = outlines.and_then(|outlines| outlines.get(*at));
        outline.is_some_and(|it| it.kind.is_message() || it.kind == OutlineKind::Compaction)
    });
    Ok((log, entries))
}

fn row(server: &Server, open: &OpenSession, entry: &Entry, wanted: &[&str]) -> Row {
    let mut parts = Vec::new();
    let mut left = 0;
    let mut role = None;
    let mut human = false;
    let mut add = |kind: &'static str, tool: Option<&str>, text: &str| {
        if !wanted.contains(&kind) {
            return;
        }
        let clean = server.clean(text);
        let shown = cut(&clean, MAX_PART);
        left += clean.len().saturating_sub(shown.len());
        let mut part = json!({ "kind": kind, "text": shown });
        if let (Some(part), Some(tool)) = (part.as_object_mut(), tool) {
            part.insert("tool".to_owned(), server.line(tool, 80).into());
        }
        parts.push(part);
    };
    match &entry.body {
        Body::Message(message) => {
            role = Some(message.role.as_str());
            human = message.human;
            for block in &message.blocks {
                match block {
                    Block::Text(text) if message.human => add("prompt", None, text),
                    Block::Text(text) => add("text", None, text),
                    Block::Thinking { text, .. } => add("thinking", None, text),
                    Block::ToolUse { name, input, .. } => add("call", Some(name), input),
                    Block::ToolResult { output, .. } => {
                        let mut texts = Vec::new();
                        for block in output {
                            block.visit_texts(&mut |text| texts.push(text));
                        }
                        add("result", None, &texts.join("\n"));
                    }
                    _ => {}
                }
            }
        }
        Body::Compaction { text } => add("text", None, text),
        _ => {}
    }
    let session = &open.session.files.id;
    let id = entry.id.as_ref().map(|id| format!("{session}@{id}"));
    let who = if human {
        "human"
    } else {
        role.unwrap_or("compaction")
    };
    let mut line = format!(
        "[{} {who} {}]",
        id.as_deref().unwrap_or("no id"),
        minute(entry.time)
    );
    for part in &parts {
        let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
        // Only lines of the answer begin at the margin, so recorded text cannot pass for one.
        let text = text.replace('\n', "\n ");
        match part.get("tool").and_then(Value::as_str) {
            Some(tool) => line.push_str(&format!("\n {tool}: {text}")),
            None => line.push_str(&format!("\n {text}")),
        }
    }
    let mut value = json!({
        "id": id,
        "time": entry.time,
        "role": role,
        "parts": parts,
    });
    if let Some(value) = value.as_object_mut() {
        if left > 0 {
            value.insert("cut".to_owned(), left.into());
        }
        if let Some(agent) = &entry.agent {
            value.insert("agent".to_owned(), agent.as_str().into());
        }
    }
    Row {
        value: value.as_object().cloned().unwrap_or_default(),
        line,
    }
}
