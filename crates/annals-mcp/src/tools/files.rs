//! `files`

use annals::model::{Block, Body, Entry, TextEdit, ToolCall, ToolKind};
use annals::search::Order;
use annals::service::{Found, SearchRequest};
use annals::store::Inventory;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::{MAX_TITLE, counted, minute};
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
    /// Replaced texts and their replacements; a file that was written has no replaced text.
    edits: Vec<(Option<String>, String)>,
}

/// Position in a list of changes: a call, and a change of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    call: usize,
    change: usize,
}

impl Place {
    /// Parses a cursor: `CALL`, or `CALL.CHANGE`.
    fn parse(next: Option<&str>) -> Result<Self, String> {
        let (call, change) = match next.and_then(|next| next.split_once('.')) {
            Some((call, change)) => (Some(call), Some(change)),
            None => (next, None),
        };
        Ok(Place {
            call: offset(call)?,
            change: offset(change)?,
        })
    }

    fn cursor(self) -> String {
        match self.change {
            0 => self.call.to_string(),
            change => format!("{}.{change}", self.call),
        }
    }
}

/// Changes to show.
#[derive(Default)]
struct Changes {
    rows: Vec<(Place, Row)>,
    /// Where the list goes on after these rows.
    end: Option<Place>,
    /// Number of changes, or of calls that make some.
    total: usize,
    /// Why some may be missing.
    incomplete: Option<&'static str>,
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
    let start = Place::parse(arguments.next.as_deref())?;
    let with_diff = arguments.diff.unwrap_or(true);
    let path = arguments.path.as_deref();
    let (found, noun) = match (path, &arguments.session) {
        (_, Some(session)) => (
            changes_of_session(server, session, path, start, limit, with_diff)?,
            "change",
        ),
        (Some(path), None) => (
            changes_of_file(server, path, start, limit, with_diff, stop)?,
            "changing message",
        ),
        (None, None) => {
            return Err("give `path`, the end of a file's path, or `session`".to_owned());
        }
    };
    let (places, rows): (Vec<Place>, Vec<Row>) = found.rows.into_iter().unzip();
    let mut members = Map::new();
    let mut heading = format!("{}:", counted(found.total as u64, noun));
    if let Some(why) = found.incomplete {
        members.insert("incomplete".to_owned(), why.into());
        heading.push_str(&format!(" (incomplete: {why})"));
    }
    let answer = ListAnswer {
        budget,
        name: "changes",
        members,
        heading,
        is_reversed: false,
    };
    answer.fit(rows, |shown| {
        let rest = places.get(shown).copied().or(found.end);
        rest.map(Place::cursor)
    })
}

/// Returns the changes of a file in all sessions, newest first.
fn changes_of_file(
    server: &Server,
    path: &str,
    start: Place,
    limit: usize,
    with_diff: bool,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Changes, String> {
    let inventory = server.service.inventory();
    let end = server.search_end(stop);
    let most = start.call.saturating_add(limit);
    let calls = calls(server, &inventory, path, most, &|| end.is_reached())?;
    let mut found = Changes {
        total: usize::try_from(calls.total).unwrap_or(usize::MAX),
        incomplete: end.incomplete(),
        ..Changes::default()
    };
    for (call, hit) in calls.hits.iter().enumerate().skip(start.call) {
        let entry = server.service.entry_of(&inventory, &hit.hit);
        let entry = entry.map_err(|error| describe(&error))?;
        let changes = entry.as_ref().map(changes).unwrap_or_default();
        let changes = changes.into_iter().filter(|it| ends_with(&it.path, path));
        let session = hit.hit.session.as_str();
        for (change, it) in changes.enumerate() {
            let place = Place { call, change };
            if call > start.call || change >= start.change {
                let row = row(server, session, &hit.id, hit.hit.time, it, with_diff);
                found.rows.push((place, row));
            }
        }
    }
    found.end = (calls.hits.len() < found.total).then_some(Place {
        call: calls.hits.len(),
        change: 0,
    });
    Ok(found)
}

/// Returns the changes of a session, in the order of its logs.
fn changes_of_session(
    server: &Server,
    session: &str,
    path: Option<&str>,
    start: Place,
    limit: usize,
    with_diff: bool,
) -> Result<Changes, String> {
    let open = server.open(session)?;
    let id = open.session.files.id.to_string();
    let mut found = Changes::default();
    let shown = start.call..start.call.saturating_add(limit);
    for log in 0..open.session.logs.len() {
        let count = open.session.log(log);
        let count = count.map_or(0, |(_, scan, _)| scan.outlines.len());
        let all: Vec<usize> = (0..count).collect();
        open.each_at(log, &all, |_, entry| {
            let changes = changes(&entry).into_iter();
            for it in changes.filter(|it| path.is_none_or(|path| ends_with(&it.path, path))) {
                let place = Place {
                    call: found.total,
                    change: 0,
                };
                found.total += 1;
                if shown.contains(&place.call) {
                    let at = entry.id.as_ref().map(|at| format!("{id}@{at}"));
                    let row = row(
                        server,
                        &id,
                        &at.unwrap_or_default(),
                        entry.time,
                        it,
                        with_diff,
                    );
                    found.rows.push((place, row));
                }
            }
        })
        .map_err(|error| describe(&error))?;
    }
    found.end = (shown.end < found.total).then_some(Place {
        call: shown.end,
        change: 0,
    });
    Ok(found)
}

/// Finds the tool calls that change a file, newest first.
pub(super) fn calls(
    server: &Server,
    inventory: &Inventory,
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
        "\"{}\" file:\"{}\" kind:call (tool:Edit OR tool:Write OR tool:MultiEdit OR tool:create OR tool:replace OR tool:write_file OR tool:str_replace*)",
        quoted(name),
        quoted(path)
    );
    let mut request = SearchRequest::new(query);
    request.limit = limit;
    request.order = Some(Order::Newest);
    let found = server.service.search_in(inventory, &request, stop);
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
        let edits = match call.kind() {
            Some(ToolKind::Edit) => match call.edits() {
                Some(edits) => {
                    let edits = edits.into_iter();
                    let texts = |it: TextEdit<'_>| (Some(it.old.into_owned()), it.new.into_owned());
                    edits.map(texts).collect()
                }
                None => continue,
            },
            Some(ToolKind::Write) => {
                let content = call.text(&["content", "file_text", "contents"]);
                vec![(None, content.unwrap_or_default().into_owned())]
            }
            _ => continue,
        };
        found.push(Change {
            path: path.into_owned(),
            edits,
        });
    }
    found
}

/// Returns a diff whose texts are masked as a whole: a secret of several lines is not recognised between
/// the marks of a diff.
fn unified(server: &Server, edits: &[(Option<String>, String)]) -> String {
    let mut diff = String::new();
    for (old, new) in edits {
        let new = server.clean(new);
        match old {
            Some(old) => {
                let old = server.clean(old);
                let lines = TextDiff::from_lines(&old, &new);
                diff.push_str(&lines.unified_diff().context_radius(1).to_string());
            }
            None => new.lines().for_each(|line| {
                diff.push('+');
                diff.push_str(line);
                diff.push('\n');
            }),
        }
    }
    diff
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
        let diff = cut(&unified(server, &change.edits), MAX_DIFF);
        // Only lines of the answer begin at the margin, so recorded text cannot pass for one.
        let indented = diff.trim_end().replace('\n', "\n ");
        line.push_str(&format!("\n {indented}"));
        value.insert("diff".to_owned(), diff.into());
    }
    Row {
        value: value.as_object().cloned().unwrap_or_default(),
        line,
    }
}
