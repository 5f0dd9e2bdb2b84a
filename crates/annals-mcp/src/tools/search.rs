//! `search`

use annals::model::{Block, Body, Entry};
use annals::service::{HitRow, SearchRequest};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{MAX_TITLE, counted, minute, period};
use crate::answer::{Answer, ListAnswer, Row};
use crate::arguments::{budget_bytes, offset, parse, within};
use crate::server::{Server, describe};

/// Most bytes of a snippet, and of a message around a hit.
const MAX_SNIPPET: usize = 400;
const MAX_CONTEXT: usize = 200;

/// Most hits on all pages.
const MAX_OFFSET: usize = 1_000;

/// Number of the newest hits among which the best are shown. All hits of a frequent word would take
/// seconds.
const RANKED: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: String,
    project: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<u64>,
    context: Option<u64>,
    #[serde(default)]
    include_live: bool,
    budget: Option<u64>,
    next: Option<String>,
}

pub(super) fn call(
    server: &Server,
    arguments: Value,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Answer, String> {
    let arguments: Arguments = parse(arguments)?;
    let budget = budget_bytes(arguments.budget)?;
    let limit = within("limit", arguments.limit, &(1..=30), 8)?;
    let context = within("context", arguments.context, &(0..=3), 0)?;
    let start = offset(arguments.next.as_deref())?.min(MAX_OFFSET);
    if arguments.query.trim().is_empty() {
        return Err("the query is empty: give words, or conditions such as tool:Bash".to_owned());
    }
    let (since, until) = period(
        server,
        arguments.since.as_deref(),
        arguments.until.as_deref(),
    )?;
    let inventory = server.service.inventory();
    let mut request = SearchRequest::new(&arguments.query);
    request.project = server.project(arguments.project);
    request.since = since;
    request.until = until;
    request.offset = start;
    request.limit = usize::try_from(limit).unwrap_or(usize::MAX);
    request.context = usize::try_from(context).unwrap_or(0);
    request.first = Some(RANKED.max(start.saturating_add(request.limit)));
    request.without_echoes = true;
    if !arguments.include_live {
        request.excluded_sessions = server.live_sessions(&inventory);
    }
    let end = server.search_end(stop);
    let found = server
        .service
        .search_in(&inventory, &request, &|| end.is_reached());
    let found = found.map_err(|error| describe(&error))?;
    let at_least = if found.at_least { "at least " } else { "" };
    let counts = format!(
        "{at_least}{} in {}",
        counted(found.total, "hit"),
        counted(found.sessions, "session")
    );
    let mut members = Map::new();
    members.insert("total".to_owned(), found.total.into());
    members.insert("at_least".to_owned(), found.at_least.into());
    members.insert("sessions".to_owned(), found.sessions.into());
    let mut heading = format!("{counts}. `read` an id for more.");
    if let Some(why) = end.incomplete() {
        members.insert("incomplete".to_owned(), why.into());
        heading.push_str(&format!(" Incomplete: {why}."));
    }
    let rows: Vec<Row> = found.hits.iter().map(|hit| row(server, hit)).collect();
    let (shown, total) = (rows.len(), found.total);
    let answer = ListAnswer {
        budget,
        name: "hits",
        members,
        heading,
        is_reversed: false,
    };
    if rows.is_empty() {
        return answer.fit(rows, |_| None);
    }
    answer.fit(rows, |rows| {
        let end = start + rows;
        let more = rows < shown || (end as u64) < total || found.at_least;
        (more && end < MAX_OFFSET).then(|| end.to_string())
    })
}

fn row(server: &Server, row: &HitRow) -> Row {
    let hit = &row.hit;
    let snippet = without_cut_words(&hit.snippet);
    let snippet = server.line(&snippet, MAX_SNIPPET);
    let title = row
        .title
        .as_deref()
        .map(|title| server.line(title, MAX_TITLE));
    let role = hit.role.map(|role| role.as_str());
    let part = hit.part.map(|part| part.as_str());
    let mut value = json!({
        "id": row.id,
        "session": hit.session.as_str(),
        "title": title,
        "project": hit.cwd.as_deref().map(|cwd| server.line(cwd, MAX_TITLE)),
        "time": hit.time,
        "role": role,
        "part": part,
        "snippet": snippet,
    });
    let mut line = format!(
        "{} {} {} {}: {snippet}",
        row.id,
        minute(hit.time),
        title.as_deref().unwrap_or_default(),
        part.or(role).unwrap_or_default(),
    );
    let object = value.as_object_mut();
    if let Some(object) = object {
        if let Some(tool) = &hit.tool {
            object.insert("tool".to_owned(), server.line(tool, MAX_TITLE).into());
        }
        for (name, entries) in [("before", &hit.before), ("after", &hit.after)] {
            if entries.is_empty() {
                continue;
            }
            let entries: Vec<Value> = entries.iter().map(|it| context_row(server, it)).collect();
            for entry in &entries {
                let text = entry
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                line.push_str(&format!("\n  {name}: {text}"));
            }
            object.insert(name.to_owned(), entries.into());
        }
    }
    Row {
        value: value.as_object().cloned().unwrap_or_default(),
        line,
    }
}

/// Returns a message around a hit, in short.
fn context_row(server: &Server, entry: &Entry) -> Value {
    let mut text = String::new();
    let mut role = None;
    if let Body::Message(message) = &entry.body {
        role = Some(message.role.as_str());
        for block in &message.blocks {
            match block {
                Block::Text(part) => text.push_str(part),
                Block::ToolUse { name, .. } => text.push_str(&format!("[{name}]")),
                Block::ToolResult { .. } => text.push_str("[result]"),
                _ => {}
            }
            text.push(' ');
        }
    }
    json!({
        "id": entry.id.as_ref().map(|id| id.as_str()),
        "role": role,
        "text": server.line(&text, MAX_CONTEXT),
    })
}

/// Removes the first and the last word of a snippet where it is cut: a part of a secret is not
/// recognised as one.
fn without_cut_words(snippet: &str) -> String {
    const MARK: char = '…';
    let mut text = snippet.trim();
    let (head, tail) = (text.starts_with(MARK), text.ends_with(MARK));
    if head {
        let rest = text.split_once(char::is_whitespace);
        text = rest.map_or("", |(_, rest)| rest);
    }
    if tail {
        let rest = text.rsplit_once(char::is_whitespace);
        text = rest.map_or("", |(rest, _)| rest);
    }
    let before = if head { "… " } else { "" };
    let after = if tail { " …" } else { "" };
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use super::without_cut_words;

    #[test]
    fn words_at_the_ends_of_a_snippet_are_removed_only_where_it_is_cut() {
        assert_eq!(without_cut_words("a token b"), "a token b");
        assert_eq!(without_cut_words("…c123 the token b"), "… the token b");
        assert_eq!(without_cut_words("the key is sk-a…"), "the key is …");
        assert_eq!(without_cut_words("…abc…"), "…  …");
    }
}
