//! The handle of a session that is held open.

use std::sync::{Arc, PoisonError, RwLock};

use annals::service::{AgentRow, ConversationRow, OpenSession, Service, SessionRow};
use annals::view::{FileVersionJson, FlawJson, TodosJson};
use jiff::tz::TimeZone;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;
use serde::{Deserialize, Serialize};

use crate::error::{Failure, Result};
use crate::reply::{Job, Reply, json, rows, run};
use crate::request::{MessagesArguments, parse, unknown};

#[napi]
pub struct SessionHandle(Arc<Held>);

struct Held {
    service: Arc<Service>,
    session: RwLock<OpenSession>,
}

/// Data members of the class.
#[derive(Serialize)]
struct Head<'a> {
    info: SessionRow,
    conversations: Vec<ConversationRow>,
    agents: Vec<AgentRow>,
    flaws: Vec<FlawJson<'a>>,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct Leaf {
    leaf: Option<String>,
}

#[derive(Deserialize)]
struct Zone {
    zone: Option<String>,
}

#[derive(Deserialize)]
struct Version {
    path: String,
    version: u64,
}

impl SessionHandle {
    pub(crate) fn new(service: Arc<Service>, session: OpenSession) -> Self {
        SessionHandle(Arc::new(Held {
            service,
            session: RwLock::new(session),
        }))
    }
}

#[napi]
impl SessionHandle {
    #[napi]
    pub fn call(&self, name: String, request: String) -> AsyncTask<Job> {
        let held = Arc::clone(&self.0);
        Job::spawn(move || held.answer(&name, &request))
    }

    #[napi]
    pub fn call_sync(&self, name: String, request: String) -> napi::Result<Reply> {
        Ok(run(|| self.0.answer(&name, &request))?)
    }
}

impl Held {
    fn answer(&self, name: &str, request: &str) -> Result<Reply> {
        if name == "grow" {
            let mut session = self.session.write().unwrap_or_else(PoisonError::into_inner);
            return json(&session.grow(&self.service)?);
        }
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        match name {
            "head" => json(&Head {
                info: self.service.session_row(&session),
                conversations: self.service.conversations_of(&session),
                agents: session.agents(),
                flaws: session.flaws(),
            }),
            "messages" => {
                let it: MessagesArguments = parse(request)?;
                rows(&session.messages(&it.request(&self.service)?)?.entries)
            }
            "message" => json(&session.message(&parse::<Id>(request)?.id)?),
            "ancestry" => rows(&session.ancestry(&parse::<Id>(request)?.id)?),
            "raw" => Ok(Reply::C(session.raw(&parse::<Id>(request)?.id)?.into())),
            "stats" => json(&session.stats(&zone(&self.service, &parse(request)?)?)),
            "context" => {
                let it: Leaf = parse(request)?;
                rows(&session.session.context(it.leaf.as_deref())?)
            }
            "todos" => json(&TodosJson(&session.todos()?)),
            "files" => rows(&FileVersionJson::list(&session.files()?)),
            "file" => {
                let it: Version = parse(request)?;
                Ok(Reply::C(session.file(&it.path, it.version)?.into()))
            }
            "cost" => json(&session.cost()),
            other => Err(unknown("call", other, "those of the class Session")),
        }
    }
}

fn zone(service: &Service, it: &Zone) -> Result<TimeZone> {
    match &it.zone {
        None => Ok(service.zone().clone()),
        Some(name) => TimeZone::get(name)
            .map_err(|error| Failure::bad_input(format!("unknown time zone `{name}`: {error}"))),
    }
}
