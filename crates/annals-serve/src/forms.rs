//! Forms that write, if the server was started with `--write`: titles, tags, notes, pins, todos,
//! forks, and sessions to the trash and back.
//!
//! Each form has the token of this start. There is no form that repairs, restores over a file,
//! removes for good or runs a command.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use annals::Error;
use annals::model::{Body, Draft, Todo};
use annals::retain::Pin;
use annals::store::{SessionFiles, SessionWriter, WriteOptions};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Form, RequestExt as _, Router};

use crate::app::{App, SessionPlace, blocking};
use crate::guard::Rule;
use crate::problem::Problem;

/// Time in which a body must arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

type Fields = HashMap<String, String>;

/// Writes something into a session and returns the address of the page to show then.
type Action = fn(&App, &SessionPlace, &SessionFiles, &Fields) -> Result<String, Problem>;

/// The forms of a session.
const ACTIONS: [(&str, Action); 7] = [
    ("title", title),
    ("tag", tag),
    ("note", note),
    ("pin", pin),
    ("todo", todo),
    ("fork", fork),
    ("trash", trash),
];

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/s/{root}/{id}/{action}", post(session))
        .route("/trash", post(undelete))
}

async fn session(
    State(app): State<Arc<App>>,
    Path((root, id, action)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = fields(&app, request).await?;
    blocking(&app, move |app, _| {
        let mut actions = ACTIONS.iter();
        let action = actions.find(|(name, _)| *name == action);
        let (_, action) = action.ok_or_else(Problem::no_page)?;
        let place = SessionPlace::parse(&root, &id)?;
        let files = app.files(&app.service.inventory(), &place)?;
        Ok(see(&action(app, &place, &files, &fields)?))
    })
    .await
}

async fn undelete(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let fields = fields(&app, request).await?;
    blocking(&app, move |app, _| {
        app.service.undelete(required(&fields, "id")?)?;
        Ok(see("/trash"))
    })
    .await
}

/// Reads a form and checks its token.
async fn fields(app: &Arc<App>, request: Request) -> Result<Fields, Problem> {
    let read = tokio::time::timeout(BODY_TIME, request.extract::<Form<Fields>, _>()).await;
    let read = read.map_err(|_| {
        let message = "The form did not arrive in time.";
        Problem::new(StatusCode::REQUEST_TIMEOUT, message, "Send it again.")
    })?;
    let Form(fields) = read.map_err(|error| {
        Problem::new(
            error.status(),
            error.body_text(),
            "Shorten the text and send it again.",
        )
    })?;
    let token = fields.get("token").map_or("", String::as_str);
    match app.access.has_form_token(token) || !app.rules.holds(Rule::FormToken) {
        true => Ok(fields),
        false => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "The form is from an earlier start of the server.",
            "Load its page again, then send it again.",
        )),
    }
}

/// Sends the browser to a page.
fn see(path: &str) -> Response {
    let to = [(header::LOCATION, path.to_owned())];
    (StatusCode::SEE_OTHER, to).into_response()
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).map_or("", |value| value.trim())
}

fn required<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, Problem> {
    match field(fields, name) {
        "" => Err(Problem::bad_value(format!("`{name}` is empty."))),
        value => Ok(value),
    }
}

fn one_line<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, Problem> {
    match field(fields, name) {
        value if value.contains(['\n', '\r']) => Err(Problem::bad_value(format!(
            "`{name}` must be a single line."
        ))),
        value => Ok(value),
    }
}

/// Opens a session for remarks, which do not disturb an agent that writes to it.
fn writer(app: &App, files: &SessionFiles) -> Result<SessionWriter, Problem> {
    let options = WriteOptions {
        live: true,
        ..WriteOptions::default()
    };
    Ok(app.service.store().open_writer(files, options)?)
}

fn title(
    app: &App,
    place: &SessionPlace,
    files: &SessionFiles,
    fields: &Fields,
) -> Result<String, Problem> {
    one_line(fields, "title")?;
    writer(app, files)?.retitle(required(fields, "title")?)?;
    Ok(place.path())
}

fn tag(
    app: &App,
    place: &SessionPlace,
    files: &SessionFiles,
    fields: &Fields,
) -> Result<String, Problem> {
    writer(app, files)?.tag(one_line(fields, "tag")?)?;
    Ok(place.path())
}

fn note(
    app: &App,
    place: &SessionPlace,
    files: &SessionFiles,
    fields: &Fields,
) -> Result<String, Problem> {
    let text = required(fields, "text")?.to_owned();
    let note = Body::Note { author: None, text };
    writer(app, files)?.append(Draft::new(note))?;
    Ok(place.path())
}

fn pin(
    app: &App,
    place: &SessionPlace,
    files: &SessionFiles,
    fields: &Fields,
) -> Result<String, Problem> {
    let retention = app.service.store().retention();
    match field(fields, "remove") {
        "" => _ = retention.pin(&[files], app.service.now())?,
        _ => {
            let pins = retention.pins()?;
            let pins = pins.iter().filter(|pin| pin.matches_files(files));
            let pins: Vec<Pin> = pins.cloned().collect();
            retention.unpin(&pins)?;
        }
    }
    Ok(place.path())
}

fn todo(
    app: &App,
    place: &SessionPlace,
    files: &SessionFiles,
    fields: &Fields,
) -> Result<String, Problem> {
    one_line(fields, "text")?;
    let text = required(fields, "text")?;
    let todo = Todo::pending(text);
    writer(app, files)?.edit_todos(|_, _, mut list| {
        list.push(todo.clone());
        Ok::<_, Error>(list)
    })?;
    Ok(place.path())
}

fn fork(
    app: &App,
    place: &SessionPlace,
    files: &SessionFiles,
    fields: &Fields,
) -> Result<String, Problem> {
    let at = Some(field(fields, "at")).filter(|at| !at.is_empty());
    let title = Some(one_line(fields, "title")?).filter(|title| !title.is_empty());
    let id = files.main_path().display().to_string();
    let forked = app.service.fork(&id, at, title, None)?;
    Ok(place.other(forked).path())
}

fn trash(app: &App, _: &SessionPlace, files: &SessionFiles, _: &Fields) -> Result<String, Problem> {
    app.service
        .delete(&files.main_path().display().to_string())?;
    Ok("/trash".to_owned())
}
