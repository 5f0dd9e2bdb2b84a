//! The pages, one module each.

mod archive_and_trash;
mod check;
mod cost;
mod diff;
mod files;
mod overview;
mod projects;
mod search;
mod session;
mod sessions;
mod side;
mod tree;
mod watch;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use annals::cost::Tally;
use annals::service::SessionRow;
use annals_render::time::Clock;
use annals_render::{money, size};
use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use crate::app::App;
use crate::assets::AssetPaths;
use crate::problem::Problem;

pub(crate) use cost::cost_request;
pub(crate) use sessions::sessions_request;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(overview::page))
        .route("/projects", get(projects::page))
        .route("/sessions", get(sessions::page))
        .route("/s/{root}/{id}", get(session::page))
        .route("/s/{root}/{id}/part", get(session::part))
        .route("/s/{root}/{id}/raw", get(session::raw))
        .route("/s/{root}/{id}/tree", get(tree::page))
        .route("/s/{root}/{id}/files", get(files::page))
        .route("/s/{root}/{id}/files/{number}", get(files::diff))
        .route("/search", get(search::page))
        .route("/cost", get(cost::page))
        .route("/watch", get(watch::page))
        .route("/check", get(check::page))
        .route("/archive", get(archive_and_trash::archive))
        .route("/trash", get(archive_and_trash::trash))
}

/// The parts that every page has.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) title: String,
    /// The part of the navigation that the page belongs to.
    here: &'static str,
    /// The text of the search field.
    query: String,
    /// Forms are offered.
    write: bool,
    token: String,
    assets: AssetPaths,
    /// What could not be read.
    failures: Vec<String>,
}

impl Frame {
    /// Creates the frame of a page, after everything that the page shows was read.
    pub(crate) fn new(app: &App, here: &'static str, title: impl Into<String>) -> Self {
        Frame {
            title: title.into(),
            here,
            query: String::new(),
            write: app.options.write,
            token: app.access.form_token().to_owned(),
            assets: AssetPaths::new(),
            failures: app.failures(),
        }
    }

    /// Returns the value of `aria-current` of a link of the navigation.
    fn current(&self, name: &str) -> &'static str {
        match self.here == name {
            true => "page",
            false => "false",
        }
    }
}

/// Renders a template.
pub(crate) fn html(template: &impl Template) -> Result<Response, Problem> {
    let text = template.render();
    let text = text.map_err(|error| {
        let message = format!("The page could not be made: {error}");
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            message,
            "This is a bug in annals.",
        )
    })?;
    Ok(Html(text).into_response())
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    problem: &'a Problem,
}

/// Returns the page of a problem.
pub(crate) fn problem_page(app: &App, problem: &Problem) -> Response {
    let is_inside = problem.status != StatusCode::UNAUTHORIZED
        && problem.status != StatusCode::MISDIRECTED_REQUEST
        && problem.status != StatusCode::FORBIDDEN;
    if !is_inside {
        // Without a session cookie there is no page, only the error.
        let text = format!("{}\n{}\n", problem.message, problem.hint);
        let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        return (problem.status, plain, text).into_response();
    }
    let frame = Frame::new(app, "", problem.message.trim_end_matches('.'));
    let page = ProblemPage { frame, problem };
    match html(&page) {
        Ok(mut response) => {
            *response.status_mut() = problem.status;
            response
        }
        Err(_) => (problem.status, problem.message.clone()).into_response(),
    }
}

/// The answer to the key. It is a page that goes on, not a redirect: a browser that was sent here by
/// another program would not send a strict cookie to the target of a redirect.
pub(crate) fn signed_in() -> Response {
    Html(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>annals</title>\
         <link rel=\"icon\" href=\"data:,\"><meta http-equiv=\"refresh\" content=\"0; url=/\"><p><a href=\"/\">Go on</a></p></html>",
    )
    .into_response()
}

/// Parameters of an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let found = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(found) = found.map_err(|error| Problem::bad_value(error.to_string()))?;
        Ok(Parameters(found.into_iter().collect()))
    }
}

impl Parameters {
    /// Returns a value; empty if it is not given.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.trim())
    }

    /// Returns a value that is not empty.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        Some(self.get(name).to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns a number.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.given(name) else {
            return Ok(None);
        };
        let number = text.parse();
        let number =
            number.map_err(|_| Problem::bad_value(format!("`{name}` must be a number.")))?;
        Ok(Some(number))
    }
}

/// A session in a list.
#[derive(Clone, Debug)]
pub(crate) struct ListedSession {
    /// The address of its page; empty if it has none.
    pub(crate) href: String,
    pub(crate) title: String,
    pub(crate) has_title: bool,
    pub(crate) id: String,
    pub(crate) project: String,
    pub(crate) project_name: String,
    pub(crate) ago: String,
    pub(crate) time: String,
    pub(crate) messages: String,
    pub(crate) branches: usize,
    pub(crate) agents: usize,
    pub(crate) cost: String,
    pub(crate) models: String,
    pub(crate) layout: &'static str,
    pub(crate) tag: String,
    pub(crate) pinned: bool,
    pub(crate) state: &'static str,
    pub(crate) is_live: bool,
    pub(crate) errors: usize,
}

/// Age of the last entry up to which a session counts as live.
const LIVE_MINUTES: i64 = 10;

impl ListedSession {
    /// Creates the row of a session whose page has the address `href`.
    pub(crate) fn new(app: &App, row: &SessionRow, href: String, clock: &Clock) -> Self {
        let info = &row.info;
        let title = info.title.as_ref().map(|title| app.line(&title.text));
        let models: Vec<String> = info.models.iter().map(|model| short_model(model)).collect();
        ListedSession {
            href,
            has_title: title.is_some(),
            title: title.unwrap_or_else(|| "no title".to_owned()),
            id: app.line(info.id.as_str()),
            project: app.line(&info.project.path),
            project_name: app.line(info.project.name()),
            ago: info.updated.map(|time| clock.ago(time)).unwrap_or_default(),
            time: info
                .updated
                .map(|time| clock.full(time))
                .unwrap_or_default(),
            messages: size::compact(info.messages),
            branches: info.conversations,
            agents: info.agents,
            cost: cost_text(&row.cost),
            models: app.line(&models.join(", ")),
            layout: info.layout,
            tag: info
                .tag
                .as_deref()
                .map(|tag| app.line(tag))
                .unwrap_or_default(),
            pinned: row.pinned,
            state: match info.archived {
                true => "archived",
                false => info.state_at(clock.now).as_str(),
            },
            is_live: !info.archived && is_live(info.updated, clock),
            errors: info.flaw_counts().errors,
        }
    }
}

/// Returns whether something was written just now.
fn is_live(updated: Option<jiff::Timestamp>, clock: &Clock) -> bool {
    let age = updated.map(|time| clock.now.duration_since(time).as_mins());
    age.is_some_and(|minutes| (-1..LIVE_MINUTES).contains(&minutes))
}

/// Formats a cost; a sum with responses that have no price is a lower bound.
pub(crate) fn cost_text(cost: &Tally) -> String {
    match cost.known_cost() {
        None => String::new(),
        Some(known) if cost.unpriced > 0 => money::at_least(&money::cents(known)),
        Some(known) => money::cents(known),
    }
}

/// Returns a model's name without its vendor and date: `sonnet-4-5`.
pub(crate) fn short_model(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("claude-").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
    .to_owned()
}
