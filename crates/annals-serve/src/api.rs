//! The JSON interface: the rows of `annals … --json`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use annals::model::SessionId;
use annals::service::{CostRequest, MessagesRequest, OpenSession, SearchRequest};
use annals::store::MessageFilter;
use annals::view::{ArchiveList, FileVersionJson, PageRequest, TodosJson, TrashRow};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::app::{App, SessionPlace, blocking, lock};
use crate::pages::{Parameters, cost_request, sessions_request};
use crate::problem::Problem;

/// Maximum number of hits of a search.
const MAX_HITS: usize = 1000;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/", get(index))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/projects", get(projects))
        .route("/api/v1/search", get(search))
        .route("/api/v1/cost", get(cost))
        .route("/api/v1/check", get(check))
        .route("/api/v1/archive", get(archive))
        .route("/api/v1/trash", get(trash))
        .route("/api/v1/s/{root}/{id}", get(session))
        .route("/api/v1/s/{root}/{id}/messages", get(messages))
}

/// Answers with a value as JSON.
async fn answer<T: Serialize>(
    app: Arc<App>,
    ask: impl FnOnce(&App, &(dyn Fn() -> bool + Sync)) -> Result<T, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let text = blocking(&app, move |app, stop| {
        let value = ask(app, &|| stop.load(Ordering::Relaxed))?;
        let json = with_problems(app, &value);
        let json = json.map_err(|error| Problem::bad_value(error.to_string()))?;
        Ok(app.masked_json(json))
    });
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((kind, text.await?).into_response())
}

/// Returns a value as JSON. An object gets what could not be read as `problems`, as the commands print it.
fn with_problems(app: &App, value: &impl Serialize) -> serde_json::Result<String> {
    let failures = app.failures();
    if failures.is_empty() {
        return serde_json::to_string(value);
    }
    let mut value = serde_json::to_value(value)?;
    if let Some(members) = value.as_object_mut() {
        let problems = failures.iter().map(|error| json!({ "error": error }));
        members.insert("problems".to_owned(), problems.collect());
    }
    serde_json::to_string(&value)
}

async fn index(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    answer(app, |app, _| {
        let roots = app.service.store().roots().iter().enumerate();
        let root = |(number, root): (usize, &annals::store::Root)| {
            json!({ "number": number, "layout": root.layout.name(), "path": root.path })
        };
        Ok(json!({
            "annals": env!("CARGO_PKG_VERSION"),
            "roots": roots.map(root).collect::<Vec<_>>(),
            "write": app.options.write,
        }))
    })
    .await
}

#[derive(Serialize)]
struct SessionsJson<T> {
    sessions: Vec<T>,
    total: usize,
    /// The address of each session.
    addresses: Vec<Option<String>>,
}

async fn sessions(State(app): State<Arc<App>>, given: Parameters) -> Result<Response, Problem> {
    answer(app, move |app, _| {
        let mut request = sessions_request(app, &given)?;
        request.offset = given.number("offset")?.unwrap_or(0);
        request.limit = given.number("limit")?;
        let inventory = app.service.inventory();
        let found = app.service.sessions_in(&inventory, &request)?;
        let places = app.places(&inventory);
        let rows = found.rows.iter();
        let address = |row: &annals::service::SessionRow| {
            let path = places.address(&row.info);
            (!path.is_empty()).then(|| format!("/api/v1{path}"))
        };
        Ok(SessionsJson {
            addresses: rows.map(address).collect(),
            sessions: found.rows,
            total: found.total,
        })
    })
    .await
}

async fn projects(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct ProjectsJson<T> {
        projects: Vec<T>,
    }
    answer(app, |app, _| {
        let projects = app.service.projects();
        Ok(ProjectsJson { projects })
    })
    .await
}

async fn search(State(app): State<Arc<App>>, given: Parameters) -> Result<Response, Problem> {
    answer(app, move |app, stop| {
        let request = SearchRequest {
            limit: given.number("limit")?.unwrap_or(50).min(MAX_HITS),
            offset: given.number("offset")?.unwrap_or(0).min(MAX_HITS),
            context: given.number("context")?.unwrap_or(0).min(20),
            ..SearchRequest::new(given.get("q"))
        };
        Ok(app.service.search(&request, stop)?)
    })
    .await
}

async fn cost(State(app): State<Arc<App>>, given: Parameters) -> Result<Response, Problem> {
    answer(app, move |app, _| {
        let request: CostRequest = cost_request(app, &given)?;
        Ok(app.service.cost(&request)?)
    })
    .await
}

async fn check(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    answer(app, |app, _| Ok(app.service.check(None)?)).await
}

async fn archive(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    answer(app, |app, _| {
        Ok(ArchiveList::new(app.service.store(), None)?)
    })
    .await
}

async fn trash(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct TrashJson {
        trashed: Vec<TrashRow>,
    }
    answer(app, |app, _| {
        let trashed = TrashRow::list(app.service.store())?;
        Ok(TrashJson { trashed })
    })
    .await
}

/// Opens a session of an address.
fn open(app: &App, root: &str, id: &str) -> Result<crate::app::HeldSession, Problem> {
    app.open(&SessionPlace::parse(root, id)?)
}

async fn session(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    answer(app, move |app, _| {
        let open = open(app, &root, &id)?;
        session_document(app, &lock(&open))
    })
    .await
}

/// Members of a document.
type Document = BTreeMap<&'static str, Box<RawValue>>;

/// Everything about a session, as the library's example `rows` shows it.
fn session_document(app: &App, open: &OpenSession) -> Result<Document, Problem> {
    let messages = open.messages(&MessagesRequest::default())?.entries;
    let context = open.session.context(None)?;
    let (todos, files) = (open.todos()?, open.files()?);
    let mut document = BTreeMap::new();
    let mut add = |name: &'static str, value: serde_json::Result<Box<RawValue>>| {
        let value = value.map_err(|error| Problem::bad_value(error.to_string()))?;
        document.insert(name, value);
        Ok::<_, Problem>(())
    };
    add("info", to_raw_value(&app.service.session_row(open)))?;
    let conversations = app.service.conversations_of(open);
    add("conversations", to_raw_value(&conversations))?;
    add("flaws", to_raw_value(&open.flaws()))?;
    add("messages", to_raw_value(&messages))?;
    add("agents", to_raw_value(&open.agents()))?;
    add("stats", to_raw_value(&open.stats(app.service.zone())))?;
    add("todos", to_raw_value(&TodosJson(&todos)))?;
    add("files", to_raw_value(&FileVersionJson::list(&files)))?;
    add("cost", to_raw_value(&open.cost()))?;
    add("context", to_raw_value(&context))?;
    Ok(document)
}

async fn messages(
    State(app): State<Arc<App>>,
    Path((root, id)): Path<(String, String)>,
    given: Parameters,
) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct MessagesJson<E> {
        session: SessionId,
        entries: Vec<E>,
        #[serde(flatten)]
        page: Option<annals::view::PageJson>,
    }
    answer(app, move |app, _| {
        let open = open(app, &root, &id)?;
        let open = lock(&open);
        let request = MessagesRequest {
            filter: match given.given("agent") {
                Some(agent) => MessageFilter::default().agent(agent),
                None => MessageFilter::default(),
            },
            leaf: given.given("leaf"),
            all_branches: given.get("all") == "1",
            page: PageRequest {
                offset: given.number("offset")?,
                limit: given.number("limit")?,
                budget: given.number("budget")?,
            },
        };
        let found = open.messages(&request)?;
        Ok(MessagesJson {
            session: open.session.files.id.clone(),
            entries: found.entries,
            page: found.page.map(|page| page.json()),
        })
    })
    .await
}
