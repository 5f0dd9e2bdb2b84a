//! One entry of a conversation as lines.

use std::collections::HashMap;

use annals::model::{Block, Body, Entry, Message, Role};
use annals::text::strip_ansi;
use annals_render::style::{ASSISTANT, DIM, FAILED, SYSTEM, TIME, TOOL, USER};
use annals_render::time::Clock;
use annals_render::{markdown, message, money, size, tool};
use ratatui::text::{Line, Span};

use crate::protocol::{AgentLine, Item, ItemKind};
use crate::text::{fit, lines, plain, styled};

/// Detail of tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Tools {
    /// Nothing.
    None,
    /// One line for each call, and the first line of a failure.
    #[default]
    Line,
    /// The call, and the beginning of its result.
    Cut,
    /// Everything.
    Whole,
}

impl Tools {
    /// Returns the next level.
    pub(crate) fn next(self) -> Self {
        match self {
            Tools::None => Tools::Line,
            Tools::Line => Tools::Cut,
            Tools::Cut => Tools::Whole,
            Tools::Whole => Tools::None,
        }
    }

    /// The name of the level.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tools::None => "none",
            Tools::Line => "line",
            Tools::Cut => "cut",
            Tools::Whole => "whole",
        }
    }
}

/// Settings that the lines of an entry depend on.
#[derive(Clone, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) width: usize,
    pub(crate) tools: Tools,
    pub(crate) thinking: bool,
    pub(crate) costs: bool,
    pub(crate) clock: &'a Clock,
    /// Sub-agents of the session.
    pub(crate) agents: &'a [AgentLine],
    /// Names of the calls of the entries before, by id.
    pub(crate) calls: &'a HashMap<String, String>,
}

/// Maximum number of lines of a result that is cut.
const RESULT_LINES: usize = 12;
/// Maximum number of lines of one entry: more are not read on a screen, but in the pager.
const MAX_LINES: usize = 5_000;

/// Returns the lines of an entry; none if it is hidden.
pub(crate) fn entry_lines(entry: &Entry, item: &Item, manner: &Manner<'_>) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    match &entry.body {
        Body::Message(message) => message_lines(entry, message, item, manner, &mut out),
        Body::Compaction { text } => {
            out.push(Line::default());
            out.push(heading("◆ compacted", SYSTEM, entry, item, None, manner));
            if !text.is_empty() {
                out.extend(lines(&message::thinking(text, Some(manner.width))));
            }
        }
        body => {
            if let Some(text) = annals::view::body_text(body.clone()) {
                out.extend(lines(&message::thinking(&text, Some(manner.width))));
            }
        }
    }
    let left = out.len().saturating_sub(MAX_LINES);
    if left > 0 {
        out.truncate(MAX_LINES);
        let text = format!(
            "… {} more lines: o opens the pager",
            size::count(left as u64)
        );
        out.push(Line::from(styled(DIM, &text)));
    }
    out
}

fn message_lines(
    entry: &Entry,
    message: &Message,
    item: &Item,
    manner: &Manner<'_>,
    out: &mut Vec<Line<'static>>,
) {
    let mut body = Vec::new();
    for block in &message.blocks {
        block_lines(block, message, item, manner, &mut body);
    }
    if item.starts {
        let (role, style) = role(entry, message, item);
        // A message of which nothing is shown has no heading either, unless it is empty.
        let hides = body.is_empty() && !message.blocks.is_empty();
        if hides && item.kind != ItemKind::Prompt {
            return;
        }
        out.push(Line::default());
        out.push(heading(
            role,
            style,
            entry,
            item,
            message.model.as_deref(),
            manner,
        ));
    }
    out.extend(body);
}

/// Returns the name and the style of the speaker.
fn role(entry: &Entry, message: &Message, item: &Item) -> (&'static str, anstyle::Style) {
    match message.role {
        Role::User if message.compact_summary => ("summary", SYSTEM),
        Role::User if item.kind == ItemKind::Result => ("tool", TOOL),
        Role::User if entry.sidechain && !message.meta && !message.human => ("task", USER),
        Role::User if !message.human => ("client", SYSTEM),
        Role::User => ("user", USER),
        Role::Assistant => ("assistant", ASSISTANT),
        role => (role.as_str(), SYSTEM),
    }
}

fn heading(
    role: &str,
    style: anstyle::Style,
    entry: &Entry,
    item: &Item,
    model: Option<&str>,
    manner: &Manner<'_>,
) -> Line<'static> {
    let mut spans = vec![styled(style, role)];
    let mut add = |style, text: &str| {
        spans.push(Span::raw("  "));
        spans.push(styled(style, text));
    };
    if let Some(time) = entry.time {
        let clock = manner.clock;
        let is_today = clock.date(time) == clock.date(clock.now);
        let form = if is_today { "%H:%M" } else { "%-d %b %H:%M" };
        add(TIME, &clock.format(time, form));
    }
    if let Some(model) = model {
        add(DIM, short_model(model));
    }
    if let Some(channel) = &entry.context.channel {
        add(DIM, channel);
    }
    if let Some(cost) = item.cost.filter(|_| manner.costs) {
        add(DIM, &money::cents(cost));
    }
    Line::from(crate::text::cut(spans, manner.width))
}

/// Returns the name of a model without its maker and date.
fn short_model(model: &str) -> &str {
    let model = model.strip_prefix("claude-").unwrap_or(model);
    match model.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => model,
    }
}

fn block_lines(
    block: &Block,
    whole: &Message,
    item: &Item,
    manner: &Manner<'_>,
    out: &mut Vec<Line<'static>>,
) {
    let max = Some(manner.width);
    match block {
        Block::Text(text) if text.trim().is_empty() => {}
        Block::Text(text) => {
            let text = strip_ansi(text);
            let shown = match whole.role {
                Role::Assistant => markdown::render(&text, max),
                _ => message::plain_text(&text, max),
            };
            out.extend(lines(&shown));
        }
        Block::Thinking { text, .. } if text.trim().is_empty() => {}
        Block::Thinking { text, .. } if manner.thinking => {
            out.extend(lines(&message::thinking(text, max)));
        }
        Block::Thinking { text, .. } => {
            let count = size::compact(text.len() as u64 / 4);
            out.push(Line::from(styled(
                DIM,
                &format!("┆ thinking ({count} tokens)"),
            )));
        }
        Block::ToolUse { name, input, .. } => call_lines(name, input, item, manner, out),
        Block::ToolResult {
            call,
            output,
            is_error,
        } => result_lines(call, output, *is_error, manner, out),
        Block::Image { media_type, data } => {
            let size = annals::view::decoded_len(data) as u64;
            out.extend(lines(&message::image(media_type, size)));
        }
        Block::Opaque { kind, json } => {
            let kind = if kind.is_empty() { "content" } else { kind };
            call_lines(kind, json, item, manner, out);
        }
    }
}

fn call_lines(
    name: &str,
    input: &str,
    item: &Item,
    manner: &Manner<'_>,
    out: &mut Vec<Line<'static>>,
) {
    let max = Some(manner.width);
    match manner.tools {
        Tools::None => return,
        Tools::Line => out.extend(lines(&tool::call(name, input, max)).into_iter().take(1)),
        Tools::Cut => out.extend(lines(&tool::call(name, input, max))),
        Tools::Whole => out.extend(lines(&tool::full_call(name, input, max))),
    }
    let agent = item.agent.and_then(|at| manner.agents.get(at as usize));
    if let Some(agent) = agent {
        let about = agent.description.as_deref().unwrap_or("sub-agent");
        let count = size::pluralize(agent.messages as u64, "message");
        let text = format!("  ⚙ {about} · {count}");
        let hint = "  s opens it";
        let room = manner.width.saturating_sub(hint.len());
        out.push(Line::from(vec![
            styled(TOOL, &fit(&text, room)),
            styled(DIM, hint),
        ]));
    }
}

fn result_lines(
    call: &str,
    output: &[Block],
    is_error: bool,
    manner: &Manner<'_>,
    out: &mut Vec<Line<'static>>,
) {
    let max = Some(manner.width);
    let first = || {
        let mut texts = output.iter().filter_map(|block| match block {
            Block::Text(text) => text.lines().map(str::trim).find(|line| !line.is_empty()),
            _ => None,
        });
        texts.next().unwrap_or("failed without output")
    };
    match manner.tools {
        Tools::None => {}
        Tools::Line if is_error => {
            let name = manner.calls.get(call).map_or("", String::as_str);
            let text = format!("✗ {name} failed: {}", strip_ansi(first()));
            let text = text.replace("  ", " ");
            let text = fit(&text, manner.width.saturating_sub(2));
            out.push(Line::from(vec![plain("  "), styled(FAILED, &text)]));
        }
        Tools::Line => {}
        level => {
            let most = match level {
                Tools::Whole => usize::MAX,
                _ => RESULT_LINES,
            };
            if is_error {
                out.extend(lines(&message::failure_line(output.is_empty())));
            }
            for block in output {
                match block {
                    Block::Text(text) => {
                        out.extend(lines(&message::tool_result(text, is_error, max, most)));
                    }
                    Block::Image { media_type, data } => {
                        let size = annals::view::decoded_len(data) as u64;
                        out.extend(lines(&message::image(media_type, size)));
                    }
                    other => {
                        if let Block::Opaque { kind, json } = other {
                            out.extend(lines(&tool::call(kind, json, max)));
                        }
                    }
                }
            }
        }
    }
}

/// Returns the text of an entry, for the clipboard.
pub(crate) fn entry_text(entry: &Entry) -> String {
    let mut text = String::new();
    match &entry.body {
        Body::Message(message) => {
            for block in &message.blocks {
                if let Block::Text(part) = block {
                    text.push_str(part);
                    text.push('\n');
                }
            }
            if text.is_empty() {
                for block in &message.blocks {
                    block.visit_texts(&mut |part| {
                        text.push_str(part);
                        text.push('\n');
                    });
                }
            }
        }
        body => text = annals::view::body_text(body.clone()).unwrap_or_default(),
    }
    text.trim_end().to_owned()
}
