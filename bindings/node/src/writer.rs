//! The handle of a session that is open for writing.

use std::sync::{Arc, PoisonError, RwLock};

use annals::model::{Draft, Entry, Todo};
use annals::store::SessionWriter;
use annals::view::EntryJson;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Failure, Result};
use crate::reply::{Job, Reply, json, rows, run};
use crate::request::{parse, unknown};

/// A writer until it is closed.
type Slot = RwLock<Option<SessionWriter>>;

#[napi]
pub struct WriterHandle(Arc<Slot>);

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct Compact {
    summary: String,
    tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Delegate {
    call: String,
    kind: String,
    description: String,
}

impl WriterHandle {
    pub(crate) fn new(writer: SessionWriter) -> Self {
        WriterHandle(Arc::new(RwLock::new(Some(writer))))
    }
}

#[napi]
impl WriterHandle {
    #[napi]
    pub fn call(&self, name: String, request: String) -> AsyncTask<Job> {
        let slot = Arc::clone(&self.0);
        Job::spawn(move || answer(&slot, &name, &request))
    }

    #[napi]
    pub fn call_sync(&self, name: String, request: String) -> napi::Result<Reply> {
        Ok(run(|| answer(&self.0, &name, &request))?)
    }

    /// Returns the session's id, the sub-agent, the path of the log and the parent of the next
    /// entry, as an array. Returns null if the writer is closed or being closed: never waits for a
    /// disk.
    #[napi]
    pub fn state(&self) -> Option<Vec<Option<String>>> {
        let slot = self.0.try_read().ok()?;
        let writer = slot.as_ref()?;
        Some(vec![
            Some(writer.session().to_string()),
            writer.agent().map(|agent| agent.to_string()),
            Some(writer.path().display().to_string()),
            writer.leaf().map(|leaf| leaf.to_string()),
        ])
    }
}

fn with_writer<T>(slot: &Slot, use_it: impl FnOnce(&SessionWriter) -> Result<T>) -> Result<T> {
    let writer = slot.read().unwrap_or_else(PoisonError::into_inner);
    use_it(writer.as_ref().ok_or_else(closed)?)
}

fn closed() -> Failure {
    Failure::refused("the writer is closed")
}

fn answer(slot: &Slot, name: &str, request: &str) -> Result<Reply> {
    if name == "close" {
        let writer = slot.write().unwrap_or_else(PoisonError::into_inner).take();
        writer.map_or(Ok(()), SessionWriter::close)?;
        return Ok(Reply::A(()));
    }
    with_writer(slot, |writer| {
        let entries = |entries: Vec<Entry>| {
            let session = writer.session();
            let row = |entry| EntryJson::for_session(entry, &session);
            rows(&entries.into_iter().map(row).collect::<Vec<_>>())
        };
        let done = |()| Ok(Reply::A(()));
        match name {
            "append" => entries(writer.append_all(drafts(request)?)?),
            "appendRaw" => {
                let records: Vec<&RawValue> = serde_json::from_str(request)?;
                let records = records.iter().map(|json| json.get().as_bytes().to_vec());
                entries(writer.append_raw(records.collect())?)
            }
            "note" => entries(vec![
                writer.append(Draft::note(parse::<Text>(request)?.text))?,
            ]),
            "setTodos" => done(writer.set_todos(&parse::<Vec<Todo>>(request)?)?),
            "retitle" => done(writer.retitle(&parse::<Text>(request)?.text)?),
            "tag" => done(writer.tag(&parse::<Text>(request)?.text)?),
            "compact" => {
                let it: Compact = parse(request)?;
                entries(writer.compact(&it.summary, it.tokens)?)
            }
            "delegate" => {
                let it: Delegate = parse(request)?;
                let helper = writer.delegate(&it.call, &it.kind, &it.description)?;
                Ok(Reply::D(WriterHandle::new(helper)))
            }
            "totals" => json(&writer.totals()?),
            other => Err(unknown("call", other, "those of the class Writer")),
        }
    })
}

/// Parses drafts: objects as `annals append` reads them, or texts of prompts.
fn drafts(request: &str) -> Result<Vec<Draft>> {
    let given: Vec<&RawValue> = serde_json::from_str(request)?;
    let mut drafts = Vec::with_capacity(given.len());
    for (at, json) in given.into_iter().enumerate() {
        match serde_json::from_str::<String>(json.get()) {
            Ok(text) => drafts.push(Draft::user(text)),
            Err(_) => {
                let found = Draft::from_json(json.get());
                drafts.extend(found.map_err(|error| {
                    Failure::bad_input(format!("draft {}: {}", at + 1, error.text_without_line()))
                })?);
            }
        }
    }
    Ok(drafts)
}
