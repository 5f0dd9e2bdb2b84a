//! Page of running agents: new messages and tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals::model::ToolCall;
use annals::service::{FollowRequest, SessionsRequest};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use super::{Frame, ListedSession, Parameters, html};
use crate::app::{App, SessionPlace, blocking};
use crate::problem::Problem;
use crate::text::address;

/// Number of entries that are shown at first.
const LAST: usize = 30;

/// Maximum length of a shown text.
const MAX_TEXT: usize = 600;

/// Number of sessions whose titles the script knows.
const TITLES: usize = 100;

#[derive(Template)]
#[template(path = "watch.html")]
struct Watch {
    frame: Frame,
    entries: Vec<Entry>,
    /// The address of the events that follow.
    follow: String,
    /// Paths of the roots, by number: the script makes addresses of them.
    roots: String,
    /// Titles of sessions by id, for the script.
    titles: String,
    /// Sessions that agents write to.
    live: Vec<Followed>,
    /// What is followed, if not everything.
    scope: String,
}

/// A session that can be followed alone.
struct Followed {
    session: ListedSession,
    href: String,
    is_chosen: bool,
}

struct Entry {
    href: String,
    session: String,
    time: String,
    full_time: String,
    role: String,
    parts: Vec<(String, String)>,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let project = given.given("project");
        let place = given.get("session").to_owned();
        let inventory = app.service.inventory();
        let session = match place.split_once('/') {
            Some((root, id)) => {
                let files = app.files(&inventory, &SessionPlace::parse(root, id)?)?;
                Some(files.main_path().display().to_string())
            }
            None => None,
        };
        let clock = app.clock();
        let places = app.places(&inventory);
        let newest = SessionsRequest {
            limit: Some(TITLES),
            ..SessionsRequest::default()
        };
        let rows = app.service.sessions_in(&inventory, &newest)?.rows;
        let listed = rows
            .iter()
            .map(|row| ListedSession::new(app, row, places.address(&row.info), &clock));
        let listed: Vec<ListedSession> = listed.collect();
        let titled = listed.iter().filter(|session| session.has_title);
        let titles: BTreeMap<String, String> = titled
            .map(|session| (session.id.clone(), session.title.clone()))
            .collect();
        let events = app.service.follow(&FollowRequest {
            project: project.clone(),
            session,
            last: LAST,
            ..FollowRequest::default()
        })?;
        let stopper = events.stopper();
        let mut entries = Vec::new();
        for event in events {
            let Ok(event) = serde_json::to_string(&event) else {
                continue;
            };
            let Ok(event) = serde_json::from_str::<Value>(&app.masked_json(event)) else {
                continue;
            };
            match event.get("kind").and_then(Value::as_str) {
                Some("caught_up") => stopper.stop(),
                Some("entry") => entries.extend(entry(app, &event, &titles)),
                _ => {}
            }
        }
        let live = listed.into_iter().filter(|session| session.is_live);
        let live = live.map(|session| {
            let own = session.href.trim_start_matches("/s/").to_owned();
            Followed {
                is_chosen: own == place,
                href: address("/watch", &[("session", &own)]),
                session,
            }
        });
        let roots = app.service.store().roots().iter();
        let roots: Vec<String> = roots.map(|root| root.path.display().to_string()).collect();
        html(&Watch {
            frame: Frame::new(app, "watch", "Watch"),
            entries,
            live: live.collect(),
            scope: match (&project, place.split_once('/')) {
                (Some(project), _) => app.line(project),
                (None, Some((_, id))) => {
                    let title = titles.get(id).map_or(id, String::as_str);
                    app.line(title)
                }
                (None, None) => String::new(),
            },
            follow: address(
                "/events",
                &[
                    ("project", project.as_deref().unwrap_or_default()),
                    ("session", &place),
                ],
            ),
            roots: serde_json::to_string(&roots).unwrap_or_default(),
            titles: serde_json::to_string(&titles).unwrap_or_default(),
        })
    })
    .await
}

/// Returns what is shown of an event; `None` if it is no message or has no text.
fn entry(app: &App, event: &Value, titles: &BTreeMap<String, String>) -> Option<Entry> {
    let text = |value: &Value, name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let entry = event.get("entry")?;
    let kind = text(entry, "kind");
    if kind != "message" && kind != "compaction" {
        return None;
    }
    let blocks = entry.get("blocks").and_then(Value::as_array);
    let parts = blocks.into_iter().flatten().filter_map(|block| {
        let kind = text(block, "kind");
        let shown = match kind.as_str() {
            "tool_use" => {
                let (name, input) = (text(block, "name"), block.get("input"));
                format!("{name} {}", call_subject(&name, input))
            }
            "tool_result" => {
                let output = block.get("output").and_then(Value::as_array);
                let texts = output.into_iter().flatten().map(|one| text(one, "text"));
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => text(block, "text"),
        };
        let shown: String = app.block(shown.trim()).chars().take(MAX_TEXT).collect();
        (!shown.is_empty()).then_some((kind, shown))
    });
    let parts: Vec<(String, String)> = parts.collect();
    if parts.is_empty() {
        return None;
    }
    let session = text(event, "session");
    let file = text(event, "file");
    let roots = app.service.store().roots().iter();
    let root = roots
        .enumerate()
        .find(|(_, root)| std::path::Path::new(&file).starts_with(&root.path));
    let path =
        root.map(|(number, _)| format!("/s/{number}/{}", crate::text::percent_encode(&session)));
    let time = text(entry, "time").parse::<jiff::Timestamp>().ok();
    Some(Entry {
        href: path
            .map(|path| address(&path, &[("at", &text(entry, "id"))]))
            .unwrap_or_default(),
        session: match titles.get(&session) {
            Some(title) => title.clone(),
            None => session.chars().take(8).collect(),
        },
        time: time.map(|time| app.clock().ago(time)).unwrap_or_default(),
        full_time: time.map(|time| app.clock().full(time)).unwrap_or_default(),
        role: match (text(entry, "role"), parts.first()) {
            // Results of tools are recorded as messages of the user.
            (_, Some((kind, _))) if kind == "tool_result" => "tool".to_owned(),
            (role, _) if role.is_empty() => kind,
            (role, _) => role,
        },
        parts,
    })
}

/// Returns what a call is about: its main argument, or all of them.
fn call_subject(name: &str, input: Option<&Value>) -> String {
    let input = input.map(Value::to_string).unwrap_or_default();
    let call = ToolCall::parse(name, &input);
    let subject = call.and_then(|call| call.subject());
    subject.map(Into::into).unwrap_or_else(|| input.clone())
}
