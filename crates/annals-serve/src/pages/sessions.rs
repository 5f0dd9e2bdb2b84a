//! The list of sessions: filters, order, windows.

use std::cmp::Reverse;
use std::sync::Arc;

use annals::service::{SessionRow, SessionsRequest};
use annals::store::SessionQuery;
use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::{Frame, ListedSession, Parameters, html};
use crate::app::{App, blocking};
use crate::problem::Problem;
use crate::text::address;

/// Number of rows of a window.
const WINDOW: usize = 100;

/// Orders of the list, with their names.
const ORDERS: [(&str, &str); 4] = [
    ("", "Most recent"),
    ("cost", "Most expensive"),
    ("messages", "Longest"),
    ("size", "Largest"),
];

/// States of sessions, with their names.
const STATES: [(&str, &str); 5] = [
    ("", "Any state"),
    ("active", "Active"),
    ("expired", "Expired"),
    ("archived", "Archived"),
    ("deleted", "In the trash"),
];

/// Parameters that select sessions.
const FILTERS: [&str; 9] = [
    "text", "project", "model", "agent", "tag", "state", "since", "until", "sort",
];

#[derive(Template)]
#[template(path = "sessions.html")]
struct Sessions {
    frame: Frame,
    sessions: Vec<ListedSession>,
    total: String,
    given: Vec<(&'static str, String)>,
    states: Vec<Choice>,
    orders: Vec<Choice>,
    newer: Option<String>,
    older: Option<String>,
    range: String,
    is_narrowed: bool,
}

struct Choice {
    value: &'static str,
    name: &'static str,
    is_chosen: bool,
}

impl Sessions {
    /// Returns what is given for a filter.
    fn value(&self, name: &str) -> &str {
        let given = self.given.iter().find(|(known, _)| *known == name);
        given.map_or("", |(_, value)| value)
    }
}

/// Returns the question for the sessions that an address selects.
pub(crate) fn sessions_request(app: &App, given: &Parameters) -> Result<SessionsRequest, Problem> {
    let since = given.given("since");
    let until = given.given("until");
    Ok(SessionsRequest {
        project: given.given("project"),
        query: SessionQuery {
            since: since
                .map(|text| app.service.parse_since(&text))
                .transpose()?,
            until: until
                .map(|text| app.service.parse_until(&text))
                .transpose()?,
            state: given.given("state"),
            model: given.given("model"),
            agent: given.given("agent"),
            tag: given.given("tag"),
            text: given.given("text"),
            ..SessionQuery::default()
        },
        ..SessionsRequest::default()
    })
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let clock = app.clock();
        let mut request = sessions_request(app, &given)?;
        let offset: usize = given.number("offset")?.unwrap_or(0);
        let sort = given.get("sort");
        if sort.is_empty() {
            (request.offset, request.limit) = (offset, Some(WINDOW));
        }
        let inventory = app.service.inventory();
        let mut found = app.service.sessions_in(&inventory, &request)?;
        if !sort.is_empty() {
            sort_rows(&mut found.rows, sort);
            found.rows.drain(..offset.min(found.total));
            found.rows.truncate(WINDOW);
        }
        let places = app.places(&inventory);
        let rows = found.rows.iter();
        let rows = rows.map(|row| ListedSession::new(app, row, places.address(&row.info), &clock));
        let sessions: Vec<ListedSession> = rows.collect();
        let given_filters = FILTERS.map(|name| (name, given.get(name).to_owned()));
        let window = |offset: usize| {
            let offset = offset.to_string();
            let mut parameters: Vec<(&str, &str)> = given_filters
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            if offset != "0" {
                parameters.push(("offset", &offset));
            }
            address("/sessions", &parameters)
        };
        let end = offset.saturating_add(sessions.len());
        let choices = |of: &[(&'static str, &'static str)], chosen: &str| {
            let choice = |&(value, name): &(&'static str, &'static str)| Choice {
                value,
                name,
                is_chosen: value == chosen,
            };
            of.iter().map(choice).collect()
        };
        html(&Sessions {
            frame: Frame::new(app, "sessions", "Sessions"),
            total: size::pluralize(found.total as u64, "session"),
            states: choices(&STATES, given.get("state")),
            orders: choices(&ORDERS, sort),
            newer: (offset > 0).then(|| window(offset.saturating_sub(WINDOW))),
            older: (end < found.total).then(|| window(end)),
            range: match sessions.is_empty() {
                true => String::new(),
                false => format!(
                    "{} to {}",
                    size::count(offset as u64 + 1),
                    size::count(end as u64)
                ),
            },
            is_narrowed: given_filters
                .iter()
                .any(|(name, value)| *name != "sort" && !value.is_empty()),
            given: given_filters.into(),
            sessions,
        })
    })
    .await
}

fn sort_rows(rows: &mut [SessionRow], sort: &str) {
    match sort {
        "cost" => rows.sort_by_cached_key(|row| Reverse(row.cost.known_cost())),
        "messages" => rows.sort_by_key(|row| Reverse(row.info.messages)),
        "size" => rows.sort_by_key(|row| Reverse(row.info.bytes)),
        _ => {}
    }
}
