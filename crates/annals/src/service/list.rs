//! Lists of sessions, projects and conversations, and checks.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::Service;
use crate::check::{self, CheckResult};
use crate::cost::{Charge, Tally};
use crate::error::{Error, Result};
use crate::retain::Pins;
use crate::store::{
    ConversationInfo, FolderHints, Inventory, ProjectInfo, ReadFailures, Session, SessionInfo,
    SessionQuery, project_spellings,
};
use crate::view::{
    CheckJson, ConversationJson, FileReportJson, ProjectCosts, ProjectJson, SessionJson,
};

/// What [`SessionQuery::state`] may be.
const STATES: [&str; 6] = [
    "created", "active", "resumed", "expired", "deleted", "archived",
];

/// Rows of a list, and the length of the whole list.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listed<T> {
    /// The rows of the page.
    pub rows: Vec<T>,
    /// Number of rows before limit and offset.
    pub total: usize,
}

impl<T> Listed<T> {
    fn page(mut rows: Vec<T>, offset: usize, limit: Option<usize>) -> Self {
        let total = rows.len();
        rows.drain(..offset.min(total));
        rows.truncate(limit.unwrap_or(usize::MAX));
        Listed { rows, total }
    }
}

/// Question for sessions. Without conditions, all of them.
#[derive(Clone, Debug, Default)]
pub struct SessionsRequest {
    /// Project: a path, a name or an id. `.` is the current directory.
    pub project: Option<String>,
    /// Further conditions; its `project` is ignored. The state may be `deleted`, too.
    pub query: SessionQuery,
    /// Number of rows to skip, newest first.
    pub offset: usize,
    /// Maximum number of rows.
    pub limit: Option<usize>,
}

/// A session with its cost. Serialises as [`SessionJson`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionRow {
    /// The session.
    pub info: Arc<SessionInfo>,
    /// Cost of its responses.
    pub cost: Tally,
    /// Whether it is pinned.
    pub pinned: bool,
    now: Timestamp,
}

impl SessionRow {
    pub(super) fn new(info: SessionInfo, service: &Service, pins: &Pins) -> Self {
        SessionRow {
            cost: service.pricing.tally(&info.charges),
            pinned: pins.contains_session(&info),
            now: service.now(),
            info: Arc::new(info),
        }
    }

    /// Returns the row as it is now: pins and the clock do not belong to the session.
    pub(super) fn refreshed(&self, service: &Service, pins: &Pins) -> Self {
        SessionRow {
            pinned: pins.contains_session(&self.info),
            now: service.now(),
            ..self.clone()
        }
    }
}

impl Serialize for SessionRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let row = SessionJson::new(&self.info, self.now, &self.cost);
        row.with_pinned(self.pinned).serialize(serializer)
    }
}

/// A project with its cost. Serialises as [`ProjectJson`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProjectRow {
    /// The project.
    pub info: ProjectInfo,
    /// Cost of its sessions.
    pub cost: Tally,
}

impl Serialize for ProjectRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        ProjectJson::new(&self.info, &self.cost).serialize(serializer)
    }
}

/// A conversation with its cost. Serialises as [`ConversationJson`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConversationRow {
    /// The conversation.
    pub info: ConversationInfo,
    /// Cost of its responses.
    pub cost: Tally,
}

impl Serialize for ConversationRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        ConversationJson::new(&self.info, None, &self.cost).serialize(serializer)
    }
}

/// Findings of a check. Serialises as [`CheckJson`].
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckAnswer {
    /// The findings.
    pub result: CheckResult,
    failures: ReadFailures,
}

impl CheckAnswer {
    /// Returns the findings by file.
    pub fn files(&self) -> Vec<FileReportJson<'_>> {
        let reports = self.result.reports.iter();
        reports
            .map(|report| FileReportJson::new(report, &self.failures))
            .collect()
    }
}

impl Serialize for CheckAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        CheckJson::new(&self.result, &self.failures).serialize(serializer)
    }
}

impl Service {
    /// Lists sessions, newest first.
    pub fn sessions(&self, request: &SessionsRequest) -> Result<Listed<SessionRow>> {
        self.sessions_in(&self.inventory(), request)
    }

    /// Like [`Self::sessions`], with an inventory of all sessions.
    pub fn sessions_in(
        &self,
        inventory: &Inventory,
        request: &SessionsRequest,
    ) -> Result<Listed<SessionRow>> {
        let newest = request.newest();
        if let Some(state) = &request.query.state
            && !STATES.contains(&state.as_str())
        {
            return Err(Error::BadId {
                what: "a state",
                id: state.clone(),
                why: "it must be created, active, resumed, expired, deleted or archived",
            });
        }
        let all = match request.query.state.as_deref() {
            Some("deleted") => self.store.trash().sessions()?,
            _ => self.session_infos(inventory, newest),
        };
        let project = request.project.as_deref();
        let query = SessionQuery {
            project: project.map(|wanted| self.spellings(wanted, &all)),
            ..request.query.clone()
        };
        let now = self.now();
        let mut found = all;
        found.retain(|session| query.matches(session, now));
        found.sort_by_cached_key(|session| (Reverse(session.updated), session.id.clone()));
        let page = Listed::page(found, request.offset, request.limit);
        let pins = self.pins();
        let rows = page.rows.into_iter();
        Ok(Listed {
            rows: rows
                .map(|info| SessionRow::new(info, self, &pins))
                .collect(),
            total: newest.map_or(page.total, |_| inventory.sessions.len()),
        })
    }

    /// Lists projects, the most recent first.
    pub fn projects(&self) -> Vec<ProjectRow> {
        let sessions = self.session_infos(&self.inventory(), None);
        let price = |charge: &Charge| self.pricing.price(charge);
        let costs = ProjectCosts::new(&sessions, &price);
        let projects = ProjectInfo::from_sessions(sessions.iter()).into_iter();
        let row = |info: ProjectInfo| ProjectRow {
            cost: costs.get(&info),
            info,
        };
        projects.map(row).collect()
    }

    /// Lists the conversations of a session, in file order of their leaves.
    pub fn conversations(&self, id: &str) -> Result<Vec<ConversationRow>> {
        let inventory = self.inventory();
        let mut session = Session::read(self.find_session(&inventory, id)?)?;
        session.apply_folder_hints(&FolderHints::new(&inventory.sessions));
        Ok(self.conversation_rows(&session))
    }

    pub(super) fn conversation_rows(&self, session: &Session) -> Vec<ConversationRow> {
        let costs = session.conversation_costs(&|charge: &Charge| self.pricing.price(charge));
        let rows = session.conversations().into_iter().zip(costs);
        rows.map(|(info, cost)| ConversationRow { info, cost })
            .collect()
    }

    /// Looks for damage: in one session, or everywhere.
    pub fn check(&self, id: Option<&str>) -> Result<CheckAnswer> {
        let inventory = self.store.inventory_without_archive();
        let result = match id {
            None => check::everything(&self.store, &inventory, self.now(), &|_, _| ()),
            Some(id) => {
                let files = self.find_session(&inventory, id)?;
                let archive = self.store.archive().ok();
                let results = check::session(&inventory, &files, archive.as_ref());
                CheckResult::new(results, &inventory)
            }
        };
        Ok(CheckAnswer {
            result,
            failures: self.store.failures().clone(),
        })
    }

    /// Summarises the sessions of an inventory in any order, or only the `newest`.
    pub(super) fn session_infos(
        &self,
        inventory: &Inventory,
        newest: Option<usize>,
    ) -> Vec<SessionInfo> {
        let sessions = self.store.sessions(inventory);
        let rows = match newest {
            Some(limit) => sessions.newest(limit, &|_, _| ()),
            None => sessions.read(&|_, _| ()),
        };
        self.report_index_warnings();
        let failures = self.store.failures();
        rows.into_iter()
            .filter_map(|row| failures.ok(row))
            .collect()
    }

    pub(super) fn pins(&self) -> Pins {
        let pins = self.store.retention().pins();
        self.store.failures().ok(pins).unwrap_or_default()
    }

    /// Returns the spellings of a project among those of `sessions`.
    pub(super) fn spellings(&self, project: &str, sessions: &[SessionInfo]) -> Vec<String> {
        let recorded = sessions.iter().map(|session| &session.project);
        project_spellings(project, self.shell_dir.as_deref(), recorded)
    }
}

impl SessionsRequest {
    /// Returns the number of sessions that are enough: if there are no conditions.
    fn newest(&self) -> Option<usize> {
        let unconditional = self.project.is_none() && self.query == SessionQuery::default();
        let end = self.limit?.saturating_add(self.offset);
        unconditional.then_some(end)
    }
}
