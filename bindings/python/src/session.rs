//! The class `Session`: a session that is held open.

use std::sync::{Arc, PoisonError, RwLock};

use annals::service::{MessagesRequest, OpenSession, Service};
use annals::store::MessageFilter;
use annals::view::{FileVersionJson, PageRequest, TodosJson};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::Result;
use crate::request::{role, since, until, zone};
use crate::store::Shared;
use crate::value::{Time, parse, to_json};

/// A session as it was when it was read; `grow` reads what was appended since.
#[pyclass(module = "annals_store", frozen)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    open: RwLock<OpenSession>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, open: OpenSession) -> Self {
        Session {
            shared,
            open: RwLock::new(open),
        }
    }

    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Service, &OpenSession) -> Result<T> + Send,
    ) -> Result<T> {
        self.shared.ask(py, |service| {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            work(service, &open)
        })
    }

    /// Asks for JSON, and parses it.
    fn json(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Service, &OpenSession) -> Result<String> + Send,
    ) -> Result<Py<PyAny>> {
        let json = self.ask(py, work)?;
        parse(py, &json)
    }
}

#[pymethods]
impl Session {
    #[getter]
    fn info(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.json(py, |service, open| to_json(&service.session_row(open)))
    }

    #[getter]
    fn conversations(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.json(py, |service, open| to_json(&service.conversations_of(open)))
    }

    #[getter]
    fn agents(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&open.agents()))
    }

    #[getter]
    fn flaws(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&open.flaws()))
    }

    fn grow(&self, py: Python<'_>) -> Result<bool> {
        self.shared.ask(py, |service| {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            Ok(open.grow(service)?)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (*, role=None, kind=None, since=None, until=None, text=None, agent=None, leaf=None, all_branches=false, offset=None, limit=None, budget=None))]
    fn messages(
        &self,
        py: Python<'_>,
        role: Option<&str>,
        kind: Option<String>,
        since: Option<Time>,
        until: Option<Time>,
        text: Option<String>,
        agent: Option<String>,
        leaf: Option<String>,
        all_branches: bool,
        offset: Option<usize>,
        limit: Option<usize>,
        budget: Option<u64>,
    ) -> Result<Py<PyAny>> {
        self.json(py, |service, open| {
            let filter = MessageFilter {
                role: role.map(self::role).transpose()?,
                kind,
                since: self::since(service, since)?,
                until: self::until(service, until)?,
                text,
                agent,
            };
            let request = MessagesRequest {
                filter,
                leaf,
                all_branches,
                page: PageRequest {
                    offset,
                    limit,
                    budget,
                },
            };
            to_json(&open.messages(&request)?.entries)
        })
    }

    fn message(&self, py: Python<'_>, id: &str) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&open.message(id)?))
    }

    fn ancestry(&self, py: Python<'_>, id: &str) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&open.ancestry(id)?))
    }

    #[pyo3(signature = (leaf=None))]
    fn context(&self, py: Python<'_>, leaf: Option<&str>) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&open.session.context(leaf)?))
    }

    fn raw(&self, py: Python<'_>, id: &str) -> Result<Vec<u8>> {
        self.ask(py, |_, open| Ok(open.raw(id)?))
    }

    #[pyo3(signature = (zone="UTC"))]
    fn stats(&self, py: Python<'_>, zone: &str) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&open.stats(&self::zone(zone)?)))
    }

    fn todos(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.json(py, |_, open| to_json(&TodosJson(&open.todos()?)))
    }

    fn files(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.json(py, |_, open| {
            to_json(&FileVersionJson::list(&open.files()?))
        })
    }

    fn file(&self, py: Python<'_>, path: &str, version: u64) -> Result<Vec<u8>> {
        self.ask(py, |_, open| Ok(open.file(path, version)?))
    }

    fn cost(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>> {
        static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let cost = self.ask(py, |_, open| Ok(open.cost().map(|cost| cost.to_string())))?;
        let decimal = DECIMAL.import(py, "decimal", "Decimal")?;
        let cost = cost.map(|cost| decimal.call1((cost,)));
        Ok(cost.transpose()?.map(Bound::unbind))
    }
}
