//! `sessions`

use std::collections::BTreeSet;

use annals::service::{SessionRow, SessionsRequest};
use annals::store::SessionQuery;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{MAX_TITLE, counted, files, minute, period};
use crate::answer::{Answer, ListAnswer, Row};
use crate::arguments::{budget_bytes, offset, parse, within};
use crate::server::{Server, describe};

/// Most tool calls by which the sessions of a file are found.
const MAX_CALLS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    project: Option<String>,
    since: Option<String>,
    until: Option<String>,
    query: Option<String>,
    file: Option<String>,
    state: Option<String>,
    limit: Option<u64>,
    budget: Option<u64>,
    next: Option<String>,
}

pub(super) fn call(server: &Server, arguments: Value) -> Result<Answer, String> {
    let arguments: Arguments = parse(arguments)?;
    let budget = budget_bytes(arguments.budget)?;
    let limit = within("limit", arguments.limit, &(1..=100), 20)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let start = offset(arguments.next.as_deref())?;
    let (since, until) = period(
        server,
        arguments.since.as_deref(),
        arguments.until.as_deref(),
    )?;
    let state = arguments.state;
    if let Some(state) = state.as_deref()
        && !["active", "expired", "deleted", "archived"].contains(&state)
    {
        return Err(format!("there is no state `{state}`"));
    }
    let end = server.search_end(&|| false);
    let with_file = match &arguments.file {
        None => None,
        Some(path) => {
            let inventory = server.service.inventory();
            let hits = files::calls(server, &inventory, path, MAX_CALLS, &|| end.is_reached());
            let hits = hits?.hits;
            let ids = hits.into_iter().map(|hit| hit.hit.session.to_string());
            Some(ids.collect::<BTreeSet<String>>())
        }
    };
    let request = SessionsRequest {
        project: server.project(arguments.project),
        query: SessionQuery {
            since,
            until,
            text: arguments.query,
            state,
            ..SessionQuery::default()
        },
        // The rows of a file are selected below.
        offset: if with_file.is_some() { 0 } else { start },
        limit: with_file.is_none().then_some(limit),
    };
    let listed = server.service.sessions(&request);
    let listed = listed.map_err(|error| describe(&error))?;
    let (mut sessions, mut total) = (listed.rows, listed.total);
    if let Some(ids) = with_file {
        sessions.retain(|row| ids.contains(row.info.id.as_str()));
        total = sessions.len();
        sessions.drain(..start.min(total));
        sessions.truncate(limit);
    }
    let rows: Vec<Row> = sessions
        .iter()
        .map(|session| row(server, session))
        .collect();
    let mut members = Map::new();
    members.insert("total".to_owned(), total.into());
    let mut heading = format!("{}. `outline` shows one.", counted(total as u64, "session"));
    if let Some(why) = end.incomplete() {
        members.insert("incomplete".to_owned(), why.into());
        heading.push_str(&format!(" Incomplete: {why}."));
    }
    let answer = ListAnswer {
        budget,
        name: "sessions",
        members,
        heading,
        is_reversed: false,
    };
    answer.fit(rows, |shown| {
        let end = start + shown;
        (shown > 0 && end < total).then(|| end.to_string())
    })
}

fn row(server: &Server, session: &SessionRow) -> Row {
    let info = &session.info;
    let title = info.title.as_ref();
    let title = title.map(|title| server.line(&title.text, MAX_TITLE));
    let project = server.line(&info.project.path, MAX_TITLE);
    let cost = session.cost.known_cost();
    let line = format!(
        "{} {} {project}: {} ({}{})",
        info.id,
        minute(info.updated),
        title.as_deref().unwrap_or("(no title)"),
        counted(info.messages, "message"),
        cost.map(|cost| format!(", ${}", short_cost(&cost.to_string())))
            .unwrap_or_default(),
    );
    let value = json!({
        "id": info.id.as_str(),
        "title": title,
        "project": project,
        "updated": info.updated,
        "messages": info.messages,
        "branches": info.conversations,
        "agents": info.agents,
        "cost_usd": cost,
    });
    Row {
        value: value.as_object().cloned().unwrap_or_default(),
        line,
    }
}

/// Cuts a decimal after cents, for text.
pub(super) fn short_cost(cost: &str) -> &str {
    match cost.find('.') {
        Some(point) => cost.get(..point + 3).unwrap_or(cost),
        None => cost,
    }
}
