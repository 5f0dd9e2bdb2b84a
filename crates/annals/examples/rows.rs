//! Prints what the library knows of roots, one JSON object for each, in the rows that every surface
//! shows: sessions, projects, hits, costs, findings, and each session in full.
//!
//! `cargo run -p annals --example rows -- STATE_DIR claude-code:$HOME/.claude`

use annals::cost::Dimension;
use annals::service::{CostRequest, MessagesRequest, SearchRequest, Service, SessionsRequest};
use annals::store::{Root, Store};
use annals::view::{FileVersionJson, TodosJson};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// Members as JSON texts: a parsed number could lose digits.
#[derive(Default, Serialize)]
struct Members(BTreeMap<String, Box<RawValue>>);

impl Members {
    fn with(mut self, name: &str, value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        self.0.insert(name.to_owned(), to_raw_value(value)?);
        Ok(self)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let state = arguments.next().unwrap_or_default();
    for root in arguments {
        let store = Store::new(Root::parse(&root)?).with_state(&state);
        let service = Service::new(store.with_trash_of_roots(true)).with_zone(TimeZone::UTC);
        let rows = rows(&service)?.with("root", &root)?;
        println!("{}", serde_json::to_string(&rows)?);
    }
    Ok(())
}

fn rows(service: &Service) -> Result<Members, Box<dyn std::error::Error>> {
    let sessions = service.sessions(&SessionsRequest::default())?.rows;
    let mut search = SearchRequest::new("the");
    search.context = 1;
    let cost = CostRequest {
        by: vec![Dimension::Model, Dimension::Day],
        ..CostRequest::default()
    };
    let mut opened = Members::default();
    for row in &sessions {
        let path = row.info.file.display().to_string();
        opened = match session(service, &path)? {
            Ok(session) => opened.with(&path, &session)?,
            Err(error) => opened.with(&path, &json!({ "error": error.kind().as_str() }))?,
        };
    }
    let rows = Members::default()
        .with("projects", &service.projects())?
        .with("search", &service.search(&search, &|| false)?)?
        .with("cost", &service.cost(&cost)?)?
        .with("check", &service.check(None)?.files())?
        .with("sessions", &sessions)?
        .with("opened", &opened)?;
    Ok(rows)
}

/// Returns all rows of a session, or why it cannot be read.
fn session(service: &Service, path: &str) -> serde_json::Result<annals::Result<Members>> {
    let open = match service.open(path) {
        Ok(open) => open,
        Err(error) => return Ok(Err(error)),
    };
    let read = || -> annals::Result<_> {
        let messages = open.messages(&MessagesRequest::default())?.entries;
        let context = open.session.context(None)?;
        Ok((messages, context, open.todos()?, open.files()?))
    };
    let (messages, context, todos, files) = match read() {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    let rows = Members::default()
        .with("info", &service.session_row(&open))?
        .with("conversations", &service.conversations_of(&open))?
        .with("flaws", &open.flaws())?
        .with("messages", &messages)?
        .with("agents", &open.agents())?
        .with("stats", &open.stats(&TimeZone::UTC))?
        .with("todos", &TodosJson(&todos))?
        .with("files", &FileVersionJson::list(&files))?
        .with("cost", &open.cost())?
        .with("context", &context)?;
    Ok(Ok(rows))
}
