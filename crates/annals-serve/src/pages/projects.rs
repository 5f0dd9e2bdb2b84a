//! The directories that sessions ran in.

use std::sync::Arc;

use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::{Frame, cost_text, html};
use crate::app::{App, blocking};
use crate::problem::Problem;
use crate::text::address;

#[derive(Template)]
#[template(path = "projects.html")]
struct Projects {
    frame: Frame,
    projects: Vec<Project>,
}

struct Project {
    href: String,
    name: String,
    path: String,
    sessions: String,
    bytes: String,
    ago: String,
    cost: String,
}

pub(super) async fn page(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    blocking(&app, |app, _| {
        let clock = app.clock();
        let rows = app.service.projects();
        let rows = rows.iter().map(|row| Project {
            href: address("/sessions", &[("project", &row.info.path)]),
            name: app.line(&row.info.name),
            path: app.line(&row.info.path),
            sessions: size::pluralize(row.info.sessions as u64, "session"),
            bytes: size::bytes(row.info.bytes),
            ago: row
                .info
                .updated
                .map(|time| clock.ago(time))
                .unwrap_or_default(),
            cost: cost_text(&row.cost),
        });
        html(&Projects {
            frame: Frame::new(app, "projects", "Projects"),
            projects: rows.collect(),
        })
    })
    .await
}
