//! The class `Store`: sessions are found, searched, begun and deleted.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use annals::layout::Env;
use annals::service::{
    BeginRequest, CostRequest, FollowRequest, SearchRequest, Service, SessionsRequest, state_dir,
    system_zone,
};
use annals::store::SessionQuery;
use annals::view::TrashedJson;
use annals::{Error, store};
use jiff::tz::TimeZone;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyTuple};
use serde::Serialize;

use crate::error::Result;
use crate::follower::Follower;
use crate::mirror::Mirror;
use crate::process::{Owner, detached, interruptible};
use crate::request::{Names, order, since, until, write_options, zone};
use crate::session::Session;
use crate::value::{Time, from_python, parse, to_json};
use crate::writer::Writer;

/// A directory that holds the logs of one program.
#[pyclass(module = "annals_store", frozen)]
pub(crate) struct Root(pub(crate) store::Root);

#[pymethods]
impl Root {
    #[new]
    fn new(layout: &str, path: PathBuf) -> Result<Self> {
        Ok(Root(absolute(store::Root::new(layout, path)?)))
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.0.layout.name()
    }

    #[getter]
    fn path(&self) -> String {
        self.0.path.display().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Root({:?}, {:?})", self.layout(), self.path())
    }
}

/// The trash stores absolute paths.
fn absolute(mut root: store::Root) -> store::Root {
    if let Ok(path) = std::path::absolute(&root.path) {
        root.path = path;
    }
    root
}

/// The service of a process. A child process after `fork()` makes its own.
pub(crate) struct Shared {
    open: Box<dyn Fn() -> annals::Result<Service> + Send + Sync>,
    service: Mutex<(Owner, Arc<Service>)>,
}

impl Shared {
    fn new(open: Box<dyn Fn() -> annals::Result<Service> + Send + Sync>) -> Result<Arc<Self>> {
        let service = Mutex::new((Owner::current(), Arc::new(open()?)));
        Ok(Arc::new(Shared { open, service }))
    }

    pub(crate) fn service(&self) -> Result<Arc<Service>> {
        let mut held = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0 != Owner::current() {
            let own = (Owner::current(), Arc::new((self.open)()?));
            // The database connections in it belong to the parent.
            std::mem::forget(std::mem::replace(&mut *held, own));
        }
        Ok(Arc::clone(&held.1))
    }

    /// Calls `work` without the interpreter lock. What could not be read becomes warnings.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Service) -> Result<T> + Send,
    ) -> Result<T> {
        let answer = detached(py, || self.answer(work));
        warn(py, answer?)
    }

    /// Like [`Self::ask`], but a signal handler that raises ends the work: its second argument returns true then.
    fn ask_until_signal<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Service, &(dyn Fn() -> bool + Sync)) -> Result<T> + Send,
    ) -> Result<T> {
        let answer = interruptible(py, |stop| {
            self.answer(|service| work(service, &|| stop.load(Ordering::Relaxed)))
        })?;
        warn(py, answer?)
    }

    /// Calls `work`, and returns with its answer what could not be read.
    fn answer<T>(
        &self,
        work: impl FnOnce(&Service) -> Result<T>,
    ) -> Result<(Result<T>, Vec<String>)> {
        let service = self.service()?;
        let answer = work(&service);
        let failures = service.store().failures();
        let errors = failures.take().into_iter().map(|error| error.to_string());
        let failures = errors.chain(failures.take_notices()).collect();
        Ok((answer, failures))
    }

    /// Asks for rows, and converts them to Python.
    pub(crate) fn rows<T: Serialize>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Service) -> Result<T> + Send,
    ) -> Result<Py<PyAny>> {
        let json = self.ask(py, |service| to_json(&work(service)?))?;
        parse(py, &json)
    }
}

/// Warns of what could not be read.
fn warn<T>(py: Python<'_>, (answer, failures): (Result<T>, Vec<String>)) -> Result<T> {
    if !failures.is_empty() {
        let warning = py.import("annals_store.types")?.getattr("AnnalsWarning")?;
        let warn = py.import("warnings")?.getattr("warn")?;
        for failure in failures {
            warn.call1((failure, &warning))?;
        }
    }
    answer
}

/// Roots that are read and written together.
#[pyclass(module = "annals_store", frozen)]
pub(crate) struct Store(Arc<Shared>);

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (*roots, state=None, index=true, zone=None, prices=None))]
    fn new(
        roots: &Bound<'_, PyTuple>,
        state: Option<PathBuf>,
        index: bool,
        zone: Option<&str>,
        prices: Option<PathBuf>,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for root in roots {
            match root.cast::<Root>() {
                Ok(root) => found.push(root.get().0.clone()),
                Err(_) => {
                    let path: PathBuf = root.extract()?;
                    let roots = store::Root::parse(&path.to_string_lossy())?;
                    found.extend(roots.into_iter().map(absolute));
                }
            }
        }
        let env = environment(roots.py(), None, None)?;
        let zone = match zone {
            Some(name) => self::zone(name)?,
            None => system_zone(&env).unwrap_or(TimeZone::UTC),
        };
        let state = state.unwrap_or_else(|| state_dir(&env));
        let shared = Shared::new(Box::new(move || {
            let store = annals::store::Store::new(found.clone())
                .with_zone(zone.clone())
                .with_state(&state)
                .with_trash_of_roots(true);
            let mut service = Service::new(store).with_zone(zone.clone());
            if index {
                service = service.with_index(&state);
            }
            match &prices {
                Some(path) => service.with_price_list(path.clone()),
                None => Ok(service),
            }
        }))?;
        Ok(Store(shared))
    }

    #[staticmethod]
    #[pyo3(signature = (env=None, cwd=None, *, state=None, index=true))]
    fn discover(
        py: Python<'_>,
        env: Option<&Bound<'_, PyMapping>>,
        cwd: Option<PathBuf>,
        state: Option<PathBuf>,
        index: bool,
    ) -> Result<Self> {
        let env = environment(py, env, cwd)?;
        let open = move || Service::discover(&env, state.clone(), index);
        Ok(Store(Shared::new(Box::new(open))?))
    }

    #[getter]
    fn roots(&self) -> Result<Vec<Root>> {
        let service = self.0.service()?;
        let roots = service.store().roots().iter();
        Ok(roots.map(|root| Root(root.clone())).collect())
    }

    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (cwd, *, root=0, id=None, title=None, folder=None, members=None, durability="disk"))]
    fn begin(
        &self,
        py: Python<'_>,
        cwd: PathBuf,
        root: usize,
        id: Option<String>,
        title: Option<String>,
        folder: Option<String>,
        members: Option<&Bound<'_, PyMapping>>,
        durability: &str,
    ) -> Result<Writer> {
        let options = write_options(durability, false)?;
        let cwd = std::path::absolute(&cwd).map_err(|error| Error::io("resolve", &cwd, error))?;
        let mut pairs = Vec::new();
        if let Some(members) = members {
            for member in members.items()?.iter() {
                let (name, value) = member.extract::<(String, Bound<'_, PyAny>)>()?;
                pairs.push((name, from_python(&value)?));
            }
        }
        let request = BeginRequest {
            cwd: cwd.display().to_string(),
            root,
            id,
            title,
            folder,
            members: pairs,
            options,
        };
        let writer = self.0.ask(py, |service| Ok(service.begin(&request)?))?;
        Ok(Writer::new(writer, options.durability))
    }

    #[pyo3(signature = (id, *, live=false, durability="disk"))]
    fn resume(&self, py: Python<'_>, id: &str, live: bool, durability: &str) -> Result<Writer> {
        let options = write_options(durability, live)?;
        let writer = self.0.ask(py, |service| Ok(service.resume(id, options)?))?;
        Ok(Writer::new(writer, options.durability))
    }

    #[pyo3(signature = (id, at=None, *, title=None, to=None))]
    fn fork(
        &self,
        py: Python<'_>,
        id: &str,
        at: Option<&str>,
        title: Option<&str>,
        to: Option<&str>,
    ) -> Result<String> {
        let fork = |service: &Service| Ok(service.fork(id, at, title, to)?.to_string());
        self.0.ask(py, fork)
    }

    fn delete(&self, py: Python<'_>, id: &str) -> Result<Py<PyAny>> {
        let delete = |service: &Service| to_json(&TrashedJson::new(&service.delete(id)?));
        parse(py, &self.0.ask(py, delete)?)
    }

    fn undelete(&self, py: Python<'_>, id: &str) -> Result<()> {
        self.0.ask(py, |service| {
            service.undelete(id)?;
            Ok(())
        })
    }

    #[pyo3(signature = (project, *, plan=false))]
    fn reset(&self, py: Python<'_>, project: PathBuf, plan: bool) -> Result<Py<PyAny>> {
        let project = project.to_string_lossy();
        let json = self.0.ask(py, |service| {
            let moved = service.reset(&project, plan)?;
            to_json(&moved.iter().map(TrashedJson::new).collect::<Vec<_>>())
        })?;
        parse(py, &json)
    }

    #[pyo3(signature = (project, session, sub=None))]
    fn mirror(&self, project: &str, session: &str, sub: Option<&str>) -> Result<Mirror> {
        Mirror::new(Arc::clone(&self.0), project, session, sub)
    }

    #[pyo3(signature = (into, *, sessions=None))]
    fn convert(
        &self,
        py: Python<'_>,
        into: &Root,
        sessions: Option<Vec<String>>,
    ) -> Result<Py<PyAny>> {
        let sessions = sessions.as_deref();
        self.0
            .rows(py, |service| Ok(service.convert(&into.0, sessions)?))
    }

    fn session(&self, py: Python<'_>, id: &str) -> Result<Session> {
        let open = self.0.ask(py, |service| Ok(service.open(id)?))?;
        Ok(Session::new(Arc::clone(&self.0), open))
    }

    fn tail(&self, py: Python<'_>, id: &str, messages: usize) -> Result<Session> {
        let open = self
            .0
            .ask(py, |service| Ok(service.open_tail(id, messages)?))?;
        Ok(Session::new(Arc::clone(&self.0), open))
    }

    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (*, project=None, since=None, until=None, state=None, text=None, model=None, limit=None))]
    fn sessions(
        &self,
        py: Python<'_>,
        project: Option<String>,
        since: Option<Time>,
        until: Option<Time>,
        state: Option<String>,
        text: Option<String>,
        model: Option<String>,
        limit: Option<usize>,
    ) -> Result<Py<PyAny>> {
        self.0.rows(py, |service| {
            let query = SessionQuery {
                since: self::since(service, since)?,
                until: self::until(service, until)?,
                state,
                text,
                model,
                ..SessionQuery::default()
            };
            let request = SessionsRequest {
                project,
                query,
                limit,
                ..SessionsRequest::default()
            };
            Ok(service.sessions(&request)?.rows)
        })
    }

    fn projects(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.0.rows(py, |service| Ok(service.projects()))
    }

    fn conversations(&self, py: Python<'_>, id: &str) -> Result<Py<PyAny>> {
        self.0.rows(py, |service| Ok(service.conversations(id)?))
    }

    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (query, *, limit=50, offset=0, context=0, order=None, regex=false, project=None, since=None, until=None, first=false))]
    fn search(
        &self,
        py: Python<'_>,
        query: &str,
        limit: usize,
        offset: usize,
        context: usize,
        order: Option<&str>,
        regex: bool,
        project: Option<String>,
        since: Option<Time>,
        until: Option<Time>,
        first: bool,
    ) -> Result<Py<PyAny>> {
        let mut request = SearchRequest::new(query);
        request.limit = limit;
        request.offset = offset;
        request.context = context;
        request.order = order.map(self::order).transpose()?;
        request.regex = regex;
        request.project = project;
        request.first = first.then_some(offset.saturating_add(limit));
        let json = self.0.ask_until_signal(py, |service, stop| {
            request.since = self::since(service, since)?;
            request.until = self::until(service, until)?;
            to_json(&service.search(&request, stop)?)
        })?;
        parse(py, &json)
    }

    fn update_index(&self, py: Python<'_>) -> Result<()> {
        self.0.ask_until_signal(py, |service, stop| {
            service.update_text_index(stop);
            Ok(())
        })
    }

    #[pyo3(signature = (by=Names::One("day".to_owned()), *, since=None, until=None, project=None, session=None), text_signature = "(self, by='day', *, since=None, until=None, project=None, session=None)")]
    fn cost(
        &self,
        py: Python<'_>,
        by: Names,
        since: Option<Time>,
        until: Option<Time>,
        project: Option<String>,
        session: Option<String>,
    ) -> Result<Py<PyAny>> {
        self.0.rows(py, |service| {
            let request = CostRequest {
                by: by.dimensions()?,
                since: self::since(service, since)?,
                until: self::until(service, until)?,
                project,
                session,
                ..CostRequest::default()
            };
            Ok(service.cost(&request)?)
        })
    }

    #[pyo3(signature = (*, project=None, session=None, last=0, since=None))]
    fn follow(
        &self,
        py: Python<'_>,
        project: Option<String>,
        session: Option<String>,
        last: usize,
        since: Option<String>,
    ) -> Result<Follower> {
        let request = FollowRequest {
            project,
            session,
            last,
            since,
        };
        let events = self.0.ask(py, |service| Ok(service.follow(&request)?))?;
        Ok(Follower::new(events))
    }

    #[pyo3(signature = (id=None))]
    fn check(&self, py: Python<'_>, id: Option<&str>) -> Result<Py<PyAny>> {
        let check = |service: &Service| to_json(&service.check(id)?.files());
        parse(py, &self.0.ask(py, check)?)
    }
}

/// The environment that was given, or else that of the interpreter.
fn environment(
    py: Python<'_>,
    vars: Option<&Bound<'_, PyMapping>>,
    cwd: Option<PathBuf>,
) -> Result<Env> {
    let own = py.import("os")?.getattr("environ")?;
    let is_given = vars.is_some();
    let vars = vars.unwrap_or(own.cast::<PyMapping>().map_err(PyErr::from)?);
    let mut found = std::collections::BTreeMap::new();
    for item in vars.items()?.iter() {
        // Names and values that are not UTF-8 name no root.
        if let Ok((name, value)) = item.extract::<(String, String)>() {
            found.insert(name, value);
        }
    }
    let home = found.get("HOME").filter(|home| !home.is_empty());
    let home = home.map(PathBuf::from);
    Ok(Env {
        home: home.or_else(|| std::env::home_dir().filter(|_| !is_given)),
        cwd: cwd.or_else(|| std::env::current_dir().ok()),
        vars: found,
    })
}
