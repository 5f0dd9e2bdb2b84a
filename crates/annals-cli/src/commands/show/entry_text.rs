//! Text of one entry.

use std::collections::HashMap;
use std::path::Path;

use annals::model::{ArtifactKind, Block, Body, Entry, FileBackup, Members, Role, TodoStatus};
use annals::store::Session;
use annals::text::strip_ansi;

use super::{ShowArgs, is_kind};
use crate::context::Context;
use annals_render::style::{DIM, MATCH, WARNING, paint};
use annals_render::{message, tool};

/// A rendered entry.
pub(super) struct RenderedEntry {
    pub(super) text: String,
    /// True if it has a heading of its own.
    pub(super) has_heading: bool,
}

/// Options for rendering an entry.
#[derive(Clone, Copy)]
pub(super) struct EntryOptions {
    /// True for the first entry shown.
    pub(super) is_first: bool,
    /// True for the named entry, which has a heading and is shown in full.
    pub(super) is_marked: bool,
}

/// State of the entries before that the next one depends on.
#[derive(Default)]
pub(super) struct PrecedingEntries {
    /// Last speaker: a reply in several entries has one heading.
    speaker: Option<(Role, Option<String>)>,
    /// Calls without a result yet: by id, the line that names each.
    calls: HashMap<String, String>,
    /// The call that a result without a line of its own seems to answer.
    call_above: Option<String>,
}

impl PrecedingEntries {
    /// Records a call that was shown.
    fn add_call(&mut self, id: &str, name: &str, input: &str, width: Option<usize>) {
        let line = tool::answer_line(name, input, width);
        self.calls.insert(id.to_owned(), line);
        self.call_above = Some(id.to_owned());
    }

    /// Returns the line that names the call of a result; empty if the call is right above.
    fn call_line(&mut self, call: &str) -> String {
        let line = self.calls.remove(call);
        if call.is_empty() || self.call_above.as_deref() == Some(call) {
            return String::new();
        }
        let above = self.call_above.replace(call.to_owned());
        match (line, above) {
            (Some(line), _) => line,
            // Its call is not shown, but another one is.
            (None, Some(_)) => tool::answer_line_by_id(call),
            (None, None) => String::new(),
        }
    }
}

/// Renders one entry.
pub(super) fn page(
    entry: Entry,
    args: &ShowArgs,
    session: &Session,
    context: &Context,
    before: &mut PrecedingEntries,
    manner: EntryOptions,
) -> RenderedEntry {
    let EntryOptions {
        is_first: first,
        is_marked: marked,
    } = manner;
    let full = args.full || marked;
    let width = context.out.width();
    let time = entry
        .time
        .map(|time| context.clock.full(time))
        .unwrap_or_default();
    let id = entry
        .id
        .as_ref()
        .map(|id| annals::view::short_message_id(id.as_str()).to_owned())
        .unwrap_or_default();
    let message = match entry.body {
        Body::Message(message) => message,
        body => {
            before.speaker = None;
            return RenderedEntry {
                text: format!(
                    "{}{}",
                    heading_mark(marked),
                    render_non_message(body, &entry.members, &time, &id, marked, width)
                ),
                has_heading: true,
            };
        }
    };
    let mut page = String::new();
    let results_only = message
        .blocks
        .iter()
        .all(|block| matches!(block, Block::ToolResult { .. }));
    // Unreadable content does not show whether a human typed it.
    let unread = !message.meta
        && message
            .blocks
            .iter()
            .all(|block| matches!(block, Block::Opaque { kind, .. } if kind.is_empty()));
    let same = (message.role, message.response.clone());
    let result = results_only && !message.blocks.is_empty();
    let goes_on = !first
        && !marked
        && (result
            || message.role == Role::Assistant
                && before.speaker.as_ref() == Some(&same)
                && message.response.is_some());
    if !goes_on {
        before.call_above = None;
        let role = match message.role {
            Role::User if message.compact_summary => "summary",
            Role::User if result => "tool",
            Role::User if entry.sidechain && !message.meta && !message.human => "task",
            Role::User if !message.human && !unread => "client",
            role => role.as_str(),
        };
        let model = message.model.clone().unwrap_or_default();
        let channel = entry.context.channel.as_deref().unwrap_or_default();
        let extras = [model.as_str(), channel, id.as_str()];
        page.push_str(&heading_mark(marked));
        page.push_str(&message::heading(role, &time, &extras));
    }
    for block in &message.blocks {
        if args.kind.is_none_or(|kind| is_kind(&message, block, kind)) {
            match block {
                Block::ToolUse { id, name, input } => before.add_call(id, name, input, width),
                Block::ToolResult { call, .. } => page.push_str(&before.call_line(call)),
                _ => {}
            }
            page.push_str(&match block {
                Block::ToolUse { name, input, .. } if marked => tool::full_call(name, input, width),
                block => render_block(block, full, width),
            });
        }
    }
    if message.blocks.is_empty() && message.role == Role::User && args.kind.is_none() {
        page.push_str(&format!("{}\n", paint(DIM, "(no content)")));
    }
    if let Some(path) = &message.stored {
        page.push_str(&stored_output(session, path, args, width));
    }
    if !results_only {
        before.speaker = Some(same);
    }
    RenderedEntry {
        text: page,
        has_heading: !goes_on,
    }
}

/// Returns the mark before the heading of the named entry.
fn heading_mark(marked: bool) -> String {
    match marked {
        true => paint(MATCH, "▶ ").to_string(),
        false => String::new(),
    }
}

/// Renders output that was too long for the log: its path, or with `--full` its text.
fn stored_output(session: &Session, path: &str, args: &ShowArgs, width: Option<usize>) -> String {
    let name = Path::new(path).file_name();
    let here = session.files.attachments.iter().find(|file| {
        file.artifact.kind == ArtifactKind::ToolResult && file.path.file_name() == name
    });
    let shown = here.map_or(Path::new(path), |file| &file.path);
    match (here, args.full) {
        (Some(file), true) => match file.read() {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                message::tool_result(&text, false, width, usize::MAX)
            }
            Err(error) => {
                let text = format!("  {error}");
                format!("{}\n", paint(WARNING, &text))
            }
        },
        (Some(_), false) => {
            let text = format!("  whole output (--full): {}", shown.display());
            format!("{}\n", paint(DIM, &text))
        }
        (None, _) => {
            let text = format!(
                "  the whole output was stored in {}, which no longer exists",
                shown.display()
            );
            format!("{}\n", paint(DIM, &text))
        }
    }
}

fn render_block(block: &Block, full: bool, width: Option<usize>) -> String {
    const RESULT_LINES: usize = 12;
    match block {
        Block::Text(text) => message::plain_text(&strip_ansi(text), width),
        Block::Thinking { text, .. } if text.is_empty() => String::new(),
        Block::Thinking { text, .. } => message::thinking(text, width),
        Block::ToolUse { name, input, .. } => tool::call(name, input, width),
        Block::ToolResult {
            output, is_error, ..
        } => {
            let lines = if full { usize::MAX } else { RESULT_LINES };
            let mut parts = String::new();
            let blank =
                |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
            if *is_error {
                // Do not rely on colour alone.
                parts.push_str(&message::failure_line(output.iter().all(blank)));
            }
            for block in output.iter().filter(|block| !*is_error || !blank(block)) {
                parts.push_str(&match block {
                    Block::Text(text) => message::tool_result(text, *is_error, width, lines),
                    other => render_block(other, full, width),
                });
            }
            parts
        }
        Block::Image { media_type, data } => {
            message::image(media_type, annals::view::decoded_len(data) as u64)
        }
        Block::Opaque { kind, json } if kind.is_empty() => tool::call("content", json, width),
        Block::Opaque { kind, json } => tool::call(kind, json, width),
        // A kind that the library added later.
    }
}

/// Renders an entry that is not a message.
fn render_non_message(
    body: Body,
    members: &Members,
    time: &str,
    id: &str,
    marked: bool,
    width: Option<usize>,
) -> String {
    let kind = body.kind();
    let label = match &body {
        Body::System { subtype, .. } if !subtype.is_empty() => subtype.clone(),
        Body::Attachment { kind, .. } if !kind.is_empty() => kind.clone(),
        Body::Queue { operation, .. } if !operation.is_empty() => operation.clone(),
        Body::Opaque {
            kind: Some(kind), ..
        } if !kind.is_empty() => kind.clone(),
        Body::Compaction { .. } => {
            "compacted: from here on the agent sees the summary below".to_owned()
        }
        _ => kind.to_owned(),
    };
    let listed = list_items(&body);
    let text = listed.or_else(|| annals::view::body_text(body));
    // The label replaces the program's text, unless the entry was named.
    let text = text.filter(|text| *text != label && (marked || kind != "compaction"));
    // The session id is not part of the content.
    let members = members.iter().filter(|(name, _)| name != "sessionId");
    let members = members.map(|(name, json)| format!("{name}: {json}"));
    let lines: Vec<String> = text.into_iter().chain(members).collect();
    let mut page = message::heading("system", time, &[label.as_str(), id]);
    if !lines.is_empty() {
        page.push_str(&message::thinking(&lines.join("\n"), width));
    }
    page
}

/// Lists the content of an entry without text, one item per line.
fn list_items(body: &Body) -> Option<String> {
    let lines: Vec<String> = match body {
        Body::Resume { leaf } => vec![leaf.to_string()],
        Body::Files(change) => change.backups.iter().map(saved_file).collect(),
        Body::Todos(todos) => todos
            .iter()
            .map(|todo| {
                let mark = match todo.status {
                    TodoStatus::Pending => "☐",
                    TodoStatus::InProgress => "◐",
                    TodoStatus::Completed => "☑",
                    _ => "?",
                };
                format!("{mark} {}", todo.content)
            })
            .collect(),
        _ => return None,
    };
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn saved_file(file: &FileBackup) -> String {
    let what = match (&file.operation, &file.stored) {
        (Some(operation), _) => operation.clone(),
        (None, Some(_)) => format!("version {}", file.version),
        (None, None) => "did not exist yet".to_owned(),
    };
    let snippet = file.snippet.iter();
    let snippet: String = snippet.map(|text| format!("\n{text}")).collect();
    format!("{} ({what}){snippet}", file.path)
}
