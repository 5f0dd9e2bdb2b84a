//! Search results as text: by session, with highlighted matches.

use std::collections::HashMap;

use annals::model::{Block, Body, Entry, Role};
use annals::search::{Hit, TextPart};
use anstyle::Style;
use anyhow::Result;

use super::Searched;
use super::json::sum;
use crate::commands::fit::fit_title;
use crate::context::Context;
use annals_render::style::{
    ASSISTANT, DIM, ID, MATCH, PATH, PLAIN, SYSTEM, TIME, TITLE, TOOL, USER,
};
use annals_render::text::safe;
use annals_render::width::{Span, push_spans, truncate_end, truncate_middle, width, wrap};

/// Maximum length of a message around a hit, if the output has no width.
const MAX_CONTEXT_LEN: usize = 160;

/// Prints hits by their sessions. The session of the first hit comes first.
pub(super) fn print(searched: &Searched, context: &mut Context) -> Result<()> {
    let found = &searched.found;
    let names = searched.names();
    let titles = searched.titles(&names, context);
    let short = names.short_session_ids();
    let mut order: Vec<Vec<&Hit>> = Vec::new();
    let mut known: HashMap<(Option<usize>, &str), usize> = HashMap::new();
    for hit in &found.hits {
        let session = (names.session_index(hit), hit.session.as_str());
        let at = *known.entry(session).or_insert_with(|| {
            order.push(Vec::new());
            order.len() - 1
        });
        if let Some(hits) = order.get_mut(at) {
            hits.push(hit);
        }
    }
    for hits in &order {
        let Some(first) = hits.first() else { continue };
        let session = short.get(first.session.as_str());
        let title = names.session_index(first).and_then(|at| titles.get(&at));
        print_header(session, title.map(String::as_str), hits, context)?;
        for hit in hits {
            let id = names.short_name(hit, session);
            print_hit(hit, &id, names.is_archived(hit), context)?;
        }
        context.out.blank()?;
    }
    let shown = found.hits.len() as u64;
    let mut text = sum(found);
    if found.total > shown {
        text += &format!("; showing {shown}: --limit {} shows all", found.total);
    }
    print_note(&text, context)
}

/// Prints a note that is not part of the results.
pub(super) fn print_note(text: &str, context: &mut Context) -> Result<()> {
    print_wrapped(&[Span::new(text, DIM)], 0, context)
}

/// Prints the session and its title, then its directory and the newest time.
fn print_header(
    session: &str,
    title: Option<&str>,
    hits: &[&Hit],
    context: &mut Context,
) -> Result<()> {
    let gap = || Span::new("  ", PLAIN);
    let mut spans = vec![Span::new(session, ID)];
    if let Some(title) = title {
        let title = fit_title(title, width(session) + 2, context);
        spans.extend([gap(), Span::new(&title, TITLE)]);
        print_wrapped(&spans, 0, context)?;
        spans.clear();
    }
    let (indent, before) = match title {
        Some(_) => (2, 2),
        None => (0, width(session) + 2),
    };
    let newest = hits.iter().filter_map(|hit| hit.time).max();
    let newest = newest.map(|time| context.clock.ago(time));
    if let Some(cwd) = hits.iter().find_map(|hit| hit.cwd.as_deref()) {
        let cwd = safe(cwd);
        let others = before + newest.as_deref().map_or(0, |time| width(time) + 3);
        let room = context
            .out
            .width()
            .map(|width| width.saturating_sub(others).max(12));
        let cwd = room.map_or_else(|| cwd.to_string(), |room| truncate_middle(&cwd, room));
        spans.extend((!spans.is_empty()).then(gap));
        spans.push(Span::new(&cwd, PATH));
    }
    if let Some(newest) = &newest {
        let between = if spans.is_empty() { "" } else { " · " };
        spans.push(Span::new(&format!("{between}{newest}"), DIM));
    }
    match spans.is_empty() {
        true => Ok(()),
        false => print_wrapped(&spans, indent, context),
    }
}

fn print_hit(hit: &Hit, id: &str, archived: bool, context: &mut Context) -> Result<()> {
    let time = hit.time.map(|time| context.clock.full(time));
    let (who, style) = speaker(hit);
    let gap = || Span::new("  ", PLAIN);
    let mut about = Vec::new();
    if let Some(time) = time {
        about.extend([Span::new(&time, TIME), gap()]);
    }
    about.extend([
        Span::new(&who, style),
        gap(),
        Span::new(id, ID),
        Span::new(if archived { " · archived" } else { "" }, DIM),
    ]);
    print_wrapped(&about, 2, context)?;
    for entry in &hit.before {
        print_context_message(entry, context)?;
    }
    print_wrapped(&snippet(hit), 4, context)?;
    for entry in &hit.after {
        print_context_message(entry, context)?;
    }
    Ok(())
}

/// Returns the agent, role and part of a hit, with a style.
fn speaker(hit: &Hit) -> (String, Style) {
    let part = match (hit.part, &hit.tool) {
        (Some(TextPart::Call), Some(tool)) => format!("call {}", tool.trim()).trim().to_owned(),
        // The role of a result already names it.
        (Some(TextPart::Text | TextPart::Result) | None, _) => String::new(),
        (Some(part), _) => part.as_str().to_owned(),
    };
    let (role, style) = match (hit.role, hit.part) {
        (_, Some(TextPart::Result)) => ("tool result", TOOL),
        (Some(Role::User), _) => ("user", USER),
        (Some(Role::Assistant), _) => ("assistant", ASSISTANT),
        (Some(Role::System), _) => ("system", SYSTEM),
        (None, Some(_)) => ("", SYSTEM),
        (None, None) => ("record", SYSTEM),
    };
    let agent = hit.agent.as_ref().map(|agent| format!("sub-agent {agent}"));
    let words = [agent.as_deref().unwrap_or_default(), role, &part];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    (words.join(" · "), style)
}

/// Returns the snippet with highlighted matches.
fn snippet(hit: &Hit) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut from = 0;
    for at in &hit.highlights {
        let before = hit.snippet.get(from..at.start).unwrap_or_default();
        let found = hit.snippet.get(at.clone()).unwrap_or_default();
        spans.extend([Span::new(before, PLAIN), Span::new(found, MATCH)]);
        from = at.end;
    }
    let rest = hit.snippet.get(from..).unwrap_or_default();
    spans.push(Span::new(rest, PLAIN));
    spans
}

/// Prints a message before or after a hit, on one line after a bar.
fn print_context_message(entry: &Entry, context: &mut Context) -> Result<()> {
    let (who, text) = speaker_and_text(entry);
    let text = text
        .split_whitespace()
        .take(MAX_CONTEXT_LEN)
        .collect::<Vec<_>>()
        .join(" ");
    let line = format!("{who}: {text}");
    let line = safe(&line);
    let room = context
        .out
        .width()
        .map_or(MAX_CONTEXT_LEN, |width| width.saturating_sub(6));
    let line = truncate_end(&line, room);
    let mut out = "    ".to_owned();
    push_spans(&mut out, &[Span::new("│ ", DIM), Span::new(&line, DIM)]);
    Ok(context.out.line(out)?)
}

/// Returns the role of an entry, and its first text.
fn speaker_and_text(entry: &Entry) -> (&'static str, String) {
    let Body::Message(message) = &entry.body else {
        return (
            "system",
            annals::view::body_text(entry.body.clone()).unwrap_or_default(),
        );
    };
    let said = |block: &Block| match block {
        Block::Text(text) if !text.trim().is_empty() => Some(text.clone()),
        Block::Thinking { text, .. } if !text.trim().is_empty() => Some(format!("(thinks) {text}")),
        Block::ToolUse { name, input, .. } => Some(format!("→ {name} {input}")),
        Block::ToolResult { .. } => {
            let mut text = String::new();
            block.visit_texts(&mut |part| {
                if text.is_empty() {
                    text = part.trim().to_owned();
                }
            });
            Some(if text.is_empty() {
                "(no output)".to_owned()
            } else {
                text
            })
        }
        Block::Image { .. } => Some("(image)".to_owned()),
        _ => None,
    };
    let text = message.blocks.iter().find_map(said);
    let mut blocks = message.blocks.iter();
    let result = blocks.any(|block| matches!(block, Block::ToolResult { .. }));
    let who = if result {
        "tool"
    } else {
        message.role.as_str()
    };
    (who, text.unwrap_or_default())
}

/// Prints spans, wrapped and indented.
fn print_wrapped(spans: &[Span], indent: usize, context: &mut Context) -> Result<()> {
    let room = context
        .out
        .width()
        .map(|width| width.saturating_sub(indent).max(1));
    for line in wrap(spans, room) {
        let mut out = " ".repeat(indent);
        push_spans(&mut out, &line);
        context.out.line(out)?;
    }
    Ok(())
}
