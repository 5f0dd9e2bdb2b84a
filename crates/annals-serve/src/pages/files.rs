//! The files that a session changed: their versions, and what changed between two.

use std::sync::Arc;

use annals::store::{SavedFile, SavedVersion};
use annals_render::size;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::diff::{Hunk, hunks};
use super::{Frame, ListedSession, Parameters, html};
use crate::app::{App, SessionPlace, blocking, lock};
use crate::problem::Problem;
use crate::text::address;

/// Maximum length of a version that is compared.
const MAX_BYTES: usize = 1 << 20;

#[derive(Template)]
#[template(path = "files.html")]
struct Files {
    frame: Frame,
    session: ListedSession,
    path: String,
    files: Vec<File>,
}

struct File {
    href: String,
    name: String,
    versions: Vec<Version>,
}

struct Version {
    number: u64,
    state: &'static str,
    time: String,
    bytes: String,
    operation: String,
    message: String,
    short_message: String,
    href: String,
    is_from: bool,
    is_to: bool,
}

#[derive(Template)]
#[template(path = "diff.html")]
struct Diff {
    frame: Frame,
    session: ListedSession,
    path: String,
    here: String,
    name: String,
    versions: Vec<Version>,
    hunks: Vec<Hunk>,
    is_split: bool,
    unified: String,
    split: String,
    remark: String,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let place = SessionPlace::parse(&root, &id)?;
        let open = app.open(&place)?;
        let open = lock(&open);
        let path = place.path();
        let files = open.files()?;
        let files = files.iter().enumerate().map(|(number, file)| File {
            href: format!("{path}/files/{number}"),
            name: app.line(&file.path),
            versions: versions(app, file, &path, None, None),
        });
        let files = files.collect();
        let row = app.service.session_row(&open);
        let session = ListedSession::new(app, &row, path.clone(), &app.clock());
        html(&Files {
            frame: Frame::new(app, "sessions", format!("Files of {}", session.title)),
            session,
            files,
            path,
        })
    })
    .await
}

fn versions(
    app: &App,
    file: &SavedFile,
    path: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Vec<Version> {
    let clock = app.clock();
    let version = |version: &SavedVersion| Version {
        number: version.version,
        state: version.state(),
        time: version
            .time
            .map(|time| clock.full(time))
            .unwrap_or_default(),
        bytes: version.bytes.map(size::bytes).unwrap_or_default(),
        operation: version
            .operation
            .as_deref()
            .map(|it| app.line(it))
            .unwrap_or_default(),
        href: match &version.message {
            Some(message) => address(path, &[("at", message)]),
            None => String::new(),
        },
        message: version
            .message
            .as_deref()
            .map(|it| app.line(it))
            .unwrap_or_default(),
        short_message: version
            .message
            .as_deref()
            .map(|it| app.line(annals::view::short_id(it)))
            .unwrap_or_default(),
        is_from: from == Some(version.version),
        is_to: to == Some(version.version),
    };
    file.versions.iter().map(version).collect()
}

/// Page of the changes between two versions; the last two by default.
pub(super) async fn diff(
    State(app): State<Arc<App>>,
    Path((root, id, number)): Path<(String, String, usize)>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let place = SessionPlace::parse(&root, &id)?;
        let open = app.open(&place)?;
        let open = lock(&open);
        let path = place.path();
        let files = open.files()?;
        let file = files.get(number).ok_or_else(Problem::no_page)?;
        let readable = file.versions.iter().filter(|it| it.stored.is_some() || it.absent);
        let readable: Vec<u64> = readable.map(|version| version.version).collect();
        let before_last = readable.len().checked_sub(2).and_then(|at| readable.get(at));
        let from: Option<u64> = given.number("from")?.or(before_last.copied());
        let to: Option<u64> = given.number("to")?.or(readable.last().copied());
        let text = |version: Option<u64>| -> Result<String, String> {
            let Some(version) = version else {
                return Ok(String::new());
            };
            let bytes = open.file(&file.path, version).map_err(|error| error.to_string())?;
            if bytes.len() > MAX_BYTES || bytes.contains(&0) {
                let size = size::bytes(bytes.len() as u64);
                return Err(format!("Version {version} has {size} and is not compared; `annals files` writes it to a file."));
            }
            Ok(app.block(&String::from_utf8_lossy(&bytes)))
        };
        let (hunks, remark) = match text(from).and_then(|old| Ok((old, text(to)?))) {
            Ok((old, new)) if old == new => (Vec::new(), "The versions are equal.".to_owned()),
            Ok((old, new)) => (hunks(&old, &new), String::new()),
            Err(why) => (Vec::new(), why),
        };
        let here = format!("{path}/files/{number}");
        let view = |view: &str| {
            let [from, to] = [from, to].map(|it| it.map(|it| it.to_string()).unwrap_or_default());
            address(&here, &[("from", &from), ("to", &to), ("view", view)])
        };
        let row = app.service.session_row(&open);
        let name = app.line(&file.path);
        html(&Diff {
            frame: Frame::new(app, "sessions", name.clone()),
            session: ListedSession::new(app, &row, path.clone(), &app.clock()),
            versions: versions(app, file, &path, from, to),
            is_split: given.get("view") == "split",
            unified: view(""),
            split: view("split"),
            name,
            here,
            path,
            hunks,
            remark,
        })
    })
    .await
}
