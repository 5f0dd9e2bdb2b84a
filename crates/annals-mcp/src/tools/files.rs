//! `files`

use annals::model::{Block, Body, Entry, TextEdit, ToolCall, ToolKind};
use annals::search::Order;
use annals::service::{Found, SearchRequest};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::{MAX_TITLE, minute};
use crate::answer::{Answer, ListAnswer, Row, cut};
use crate::arguments::{budget_bytes, offset, parse, within};
use crate::server::{Server, describe};

/// Most bytes of a diff.
const MAX_DIFF: usize = 3_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: Option<String>,
    session: Option<String>,
    diff: Option<bool>,
    limit: Option<u64>,
    budget: Option<u64>,
    next: Option<String>,
}

/// A change that a tool call made.
struct Change {
    path: String,
    diff: String,
}

pub(super) fn call(
    server: &Server,
    arguments: Value,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Answer, String> {
    let arguments: Arguments = parse(arguments)?;
    let budget = budget_bytes(arguments.budget)?;
    let limit = within("limit", arguments.limit, &(1..=50), 10)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let start = offset(arguments.next.as_deref())?;
    let with_diff = arguments.diff.unwrap_or(true);
    let mut rows = Vec::new();
    let total = match (&arguments.path, &arguments.session) {
        (Some(path), None) => {
            let found = calls(server, path, start + limit, stop)?;
            for hit in found.hits.iter().skip(start) {
                let open = server.open(&hit.hit.file.display().to_string())?;
                let Some(id) = &hit.hit.entry else { continue };
                let spots = open.session.find_records(id.as_str());
                let spots = spots.map_err(|error| describe(&error))?;
                let Some(spot) = spots.first() else { continue };
                let read = open
                    .session
                    .read_record(*spot)
                    .map_err(|error| describe(&error))?;
                let changes = read.1.as_ref().map(changes).unwrap_or_default();
                let changes = changes.into_iter().filter(|it| ends_with(&it.path, path));
                let session = hit.hit.session.as_str();
                let time = hit.hit.time;
                rows.extend(changes.map(|it| row(server, session, &hit.id, time, it, with_diff)));
            }
            usize::try_from(found.total).unwrap_or(usize::MAX)
        }
        (path, Some(session)) => {
            let open = server.open(session)?;
            let id = open.session.files.id.to_string();
            for log in 0..open.session.logs.len() {
                let count = open
                    .session
                    .log(log)
                    .map_or(0, |(_, scan, _)| scan.outlines.len());
                let all: Vec<usize> = (0..count).collect();
                open.each_at(log, &all, |_, entry| {
                    for change in changes(&entry) {
                        if path
                            .as_ref()
                            .is_none_or(|path| ends_with(&change.path, path))
                        {
                            let at = entry.id.as_ref().map(|at| format!("{id}@{at}"));
                            let at = at.unwrap_or_default();
                            rows.push(row(server, &id, &at, entry.time, change, with_diff));
                        }
                    }
                })
                .map_err(|error| describe(&error))?;
            }
            let total = rows.len();
            rows.drain(..start.min(total));
            rows.truncate(limit);
            total
        }
        (None, None) => {
            return Err("give `path`, the end of a file's path, or `session`".to_owned());
        }
    };
    let answer = ListAnswer {
        budget,
        name: "changes",
        members: Map::new(),
        heading: format!("{total} changes:"),
    };
    answer.fit(rows, |shown| {
        let end = start + shown;
        (shown > 0 && end < total).then(|| end.to_string())
    })
}

/// Finds the tool calls that change a file, newest first.
pub(super) fn calls(
    server: &Server,
    path: &str,
    limit: usize,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    if name.trim().is_empty() {
        return Err("the path is empty".to_owned());
    }
    // The name as a phrase, so that the index selects the records.
    let query = format!(
        "\"{}\" file:\"{}\" kind:call (tool:Edit OR tool:Write OR tool:MultiEdit OR tool:NotebookEdit OR tool:replace OR tool:write_file OR tool:str_replace*)",
        quoted(name),
        quoted(path)
    );
    let mut request = SearchRequest::new(query);
    request.limit = limit;
    request.order = Some(Order::Newest);
    let found = server.service.search(&request, stop);
    found.map_err(|error| describe(&error))
}

/// Returns the changes to files that an entry's tool calls make.
fn changes(entry: &Entry) -> Vec<Change> {
    let Body::Message(message) = &entry.body else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for block in &message.blocks {
        let Block::ToolUse { name, input, .. } = block else {
            continue;
        };
        let Some(call) = ToolCall::parse(name, input) else {
            continue;
        };
        let Some(path) = call.main_argument() else {
            continue;
        };
        let diff = match call.kind() {
            Some(ToolKind::Edit) => match call.edits() {
                Some(edits) => edits.iter().map(unified).collect::<Vec<_>>().concat(),
                None => continue,
            },
            Some(ToolKind::Write) => {
                let content = call.text(&["content", "file_text", "contents"]);
                let content = content.unwrap_or_default();
                content.lines().map(|line| format!("+{line}\n")).collect()
            }
            _ => continue,
        };
        found.push(Change {
            path: path.into_owned(),
            diff,
        });
    }
    found
}

fn unified(edit: &TextEdit<'_>) -> String {
    let diff = TextDiff::from_lines(edit.old.as_ref(), edit.new.as_ref());
    diff.unified_diff().context_radius(1).to_string()
}

fn ends_with(path: &str, wanted: &str) -> bool {
    std::path::Path::new(path).ends_with(wanted)
}

fn row(
    server: &Server,
    session: &str,
    id: &str,
    time: Option<jiff::Timestamp>,
    change: Change,
    with_diff: bool,
) -> Row {
    let path = server.line(&change.path, 2 * MAX_TITLE);
    let mut value = json!({
        "session": session,
        "id": id,
        "time": time,
        "path": path,
    });
    let mut line = format!("{id} {} {path}", minute(time));
    if with_diff && let Some(value) = value.as_object_mut() {
        let diff = cut(&server.clean(&change.diff), MAX_DIFF);
        line.push_str(&format!("\n{}", diff.trim_end()));
        value.insert("diff".to_owned(), diff.into());
    }
    Row {
        value: value.as_object().cloned().unwrap_or_default(),
        line,
    }
}
