//! Calls of the adapters: cleaning up, repairing, members of rows in session lists.

use std::collections::BTreeMap;

use annals::repair::{RepairPlan, RepairTarget};
use annals::retain::{CleanupPlan, Policy, Term};
use annals::service::{Service, SessionsRequest};
use annals::store::{Root, RunLog, WriteOptions};
use annals::time_input::Now;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Failure, Result};
use crate::reply::{Reply, json, rows};
use crate::request::members;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Clean {
    older_than_days: u32,
    project: Option<String>,
    #[serde(default)]
    apply: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repair {
    sessions: Vec<String>,
    #[serde(default)]
    apply: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetMembers {
    id: String,
    members: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Document {
    name: String,
    #[serde(default)]
    root: usize,
    /// The new content; unset to read it.
    value: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunLine {
    started: String,
    #[serde(default)]
    root: usize,
    text: String,
}

#[derive(Serialize)]
struct Cleaned {
    session: String,
    files: usize,
    updated: String,
}

#[derive(Serialize)]
struct Repaired {
    path: String,
    /// Number of bytes before and after.
    bytes: u64,
    bytes_after: u64,
}

/// Moves sessions to the trash that were last active before a time, or with `apply` unset returns
/// what would be moved. Pinned sessions stay.
pub(crate) fn clean(service: &Service, it: &Clean) -> Result<Reply> {
    let store = service.store();
    let term = Term::parse(&format!("{}d", it.older_than_days));
    let policy = Policy::new(term.ok_or_else(|| Failure::bad_input("invalid number of days"))?);
    let request = SessionsRequest {
        project: it.project.clone(),
        ..SessionsRequest::default()
    };
    let listed = service.sessions(&request)?.rows.into_iter();
    let inventory = store.inventory_without_archive();
    let now = Now {
        time: service.now(),
        zone: service.zone().clone(),
    };
    let pins = store.retention().pins()?;
    let infos = listed
        .map(|row| std::sync::Arc::unwrap_or_clone(row.info))
        .collect();
    let plan = CleanupPlan::new(&inventory, infos, &policy, &pins, &now, &|_| true);
    let mut cleaned = Vec::new();
    for group in &plan.groups {
        if it.apply {
            store.retention().clean(group, false, now.time)?;
        }
        cleaned.extend(group.iter().map(|old| Cleaned {
            session: old.info.id.to_string(),
            files: old.files,
            updated: old.last.to_string(),
        }));
    }
    rows(&cleaned)
}

/// Repairs damaged files of sessions, or with `apply` unset returns what would be changed. The
/// original bytes go to the quarantine.
pub(crate) fn repair(service: &Service, it: &Repair) -> Result<Reply> {
    let store = service.store();
    let inventory = store.inventory_without_archive();
    let mut files = Vec::new();
    for id in &it.sessions {
        files.push(store.find(&inventory, id)?.files);
    }
    let targets = RepairTarget::from_sessions(files.iter());
    let mut repaired = Vec::new();
    for plan in RepairPlan::all(&targets, service.now(), &|_, _| ()) {
        let plan = plan?;
        if plan.edits.is_empty() {
            continue;
        }
        let bytes = plan.file.id.len;
        if it.apply {
            plan.ensure_not_in_use()?;
            store.repairs().apply(&plan, false, service.now())?;
        }
        repaired.push(Repaired {
            path: plan.file.path.display().to_string(),
            bytes,
            bytes_after: plan.edits.result_len(bytes),
        });
    }
    rows(&repaired)
}

/// Sets members of a session's row in the session list of its layout.
pub(crate) fn set_members(service: &Service, it: SetMembers) -> Result<Reply> {
    let target = service.find(&it.id)?;
    target.files.set_list_members(&members(it.members))?;
    Ok(Reply::A(()))
}

/// Reads a state document of a program, or replaces it.
pub(crate) fn document(service: &Service, it: &Document) -> Result<Reply> {
    let documents = service.store().documents();
    let root = root(service, it.root)?;
    if let Some(value) = &it.value {
        documents.set_state(root, &it.name, value.get())?;
        return Ok(Reply::A(()));
    }
    let text = documents.state(root, &it.name)?;
    let value: Option<&RawValue> = text.as_deref().map(serde_json::from_str).transpose()?;
    json(&value)
}

/// Appends text to the log of a run of a program, and returns the path of the log.
pub(crate) fn write_run_log(service: &Service, it: &RunLine) -> Result<Reply> {
    let started = RunLog::parse_start(&it.started)
        .ok_or_else(|| Failure::bad_input(format!("invalid start time `{}`", it.started)))?;
    let options = WriteOptions::default();
    let documents = service.store().documents();
    let log = documents.run_log(root(service, it.root)?, started, options)?;
    log.write(&it.text)?;
    json(&log.path().display().to_string())
}

fn root(service: &Service, number: usize) -> Result<&Root> {
    let root = service.store().roots().get(number);
    root.ok_or_else(|| Failure::bad_input(format!("there is no root {number}")))
}
