//! Page of running agents: new messages and tool calls.

use std::sync::Arc;

use annals::service::FollowRequest;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use super::{Frame, Parameters, html};
use crate::app::{App, blocking};
use crate::problem::Problem;
use crate::text::address;

/// Number of entries that are shown at first.
const LAST: usize = 30;

/// Maximum length of a shown text.
const MAX_TEXT: usize = 600;

#[derive(Template)]
#[template(path = "watch.html")]
struct Watch {
    frame: Frame,
    entries: Vec<Entry>,
    /// The address of the events that follow.
    follow: String,
    /// Paths of the roots, by number: the script makes addresses of them.
    roots: String,
}

struct Entry {
    href: String,
    session: String,
    time: String,
    role: String,
    parts: Vec<(String, String)>,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let project = given.given("project");
        let events = app.service.follow(&FollowRequest {
            project: project.clone(),
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
                Some("entry") => entries.extend(entry(app, &event)),
                _ => {}
            }
        }
        let roots = app.service.store().roots().iter();
        let roots: Vec<String> = roots.map(|root| root.path.display().to_string()).collect();
        html(&Watch {
            frame: Frame::new(app, "watch", "Watch"),
            entries,
            follow: address(
                "/events",
                &[("project", project.as_deref().unwrap_or_default())],
            ),
            roots: serde_json::to_string(&roots).unwrap_or_default(),
        })
    })
    .await
}

/// Returns what is shown of an event; `None` if it has no text.
fn entry(app: &App, event: &Value) -> Option<Entry> {
    let text = |value: &Value, name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let entry = event.get("entry")?;
    let blocks = entry.get("blocks").and_then(Value::as_array);
    let parts = blocks.into_iter().flatten().filter_map(|block| {
        let kind = text(block, "kind");
        let shown = match kind.as_str() {
            "tool_use" => {
                let input = block.get("input").map(Value::to_string);
                format!("{} {}", text(block, "name"), input.unwrap_or_default())
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
        session: session.chars().take(8).collect(),
        time: time.map(|time| app.clock().ago(time)).unwrap_or_default(),
        role: match text(entry, "role") {
            role if role.is_empty() => text(entry, "kind"),
            role => role,
        },
        parts,
    })
}
