//! The handle of a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::layout::Env;
use annals::service::Service;
use annals::store::{Root, Store};
use annals::view::TrashedJson;
use jiff::tz::TimeZone;
use napi::bindgen_prelude::{AsyncTask, Function};
use napi_derive::napi;
use serde::{Deserialize, Serialize};

use crate::error::{Failure, Result};
use crate::follower::FollowerHandle;
use crate::maintain;
use crate::mirror::MirrorHandle;
use crate::reply::{Job, Reply, json, rows, run};
use crate::request::{
    BeginArguments, CostArguments, FollowArguments, RootArgument, SearchArguments,
    SessionsArguments, StoreOptions, WriteArguments, parse, unknown,
};
use crate::session::SessionHandle;
use crate::writer::WriterHandle;

/// Stops a search from another thread.
#[napi]
#[derive(Default)]
pub struct StopFlag(Arc<AtomicBool>);

#[napi]
impl StopFlag {
    #[napi(constructor)]
    pub fn new() -> Self {
        StopFlag(Arc::default())
    }

    #[napi]
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[napi]
pub struct StoreHandle(Arc<Service>);

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    id: String,
    write: WriteArguments,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    id: String,
    tail: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fork {
    id: String,
    at: Option<String>,
    title: Option<String>,
    to: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    project: String,
    #[serde(default)]
    plan: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Convert {
    into: RootArgument,
    sessions: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MirrorArguments {
    project: String,
    session: String,
    sub: Option<String>,
    write: WriteArguments,
}

#[derive(Serialize)]
struct RootRow<'a> {
    layout: &'a str,
    path: String,
}

#[napi]
impl StoreHandle {
    /// Opens a store. Reads at most a price list and the names of default roots.
    #[napi(constructor)]
    pub fn new(options: String) -> napi::Result<Self> {
        let service = run(|| open_service(parse(&options)?))?;
        Ok(StoreHandle(Arc::new(service)))
    }

    #[napi]
    pub fn roots(&self) -> napi::Result<String> {
        let roots = self.0.store().roots().iter();
        let roots = roots.map(|root| RootRow {
            layout: root.layout.name(),
            path: root.path.display().to_string(),
        });
        let text = serde_json::to_string(&roots.collect::<Vec<_>>());
        text.map_err(|error| Failure::from(error).into())
    }

    /// Returns what could not be read since the last call.
    #[napi]
    pub fn take_failures(&self) -> Vec<String> {
        let failures = self.0.store().failures();
        let errors = failures.take().into_iter().map(|error| error.to_string());
        errors.chain(failures.take_notices()).collect()
    }

    #[napi]
    pub fn call(&self, name: String, request: String, stop: Option<&StopFlag>) -> AsyncTask<Job> {
        let service = Arc::clone(&self.0);
        let stop = stop.map(|stop| Arc::clone(&stop.0));
        Job::spawn(move || answer(&service, &name, &request, stop.as_deref()))
    }

    #[napi]
    pub fn call_sync(&self, name: String, request: String) -> napi::Result<Reply> {
        Ok(run(|| answer(&self.0, &name, &request, None))?)
    }

    #[napi]
    pub fn mirror(&self, request: String) -> napi::Result<MirrorHandle> {
        let mirror = run(|| {
            let it: MirrorArguments = parse(&request)?;
            let options = it.write.options()?;
            let store = self.0.store();
            Ok(store.mirror(&it.project, &it.session, it.sub.as_deref(), options)?)
        })?;
        Ok(MirrorHandle::new(Arc::clone(&self.0), mirror))
    }

    /// Follows logs. `ready` is called when events can be taken.
    #[napi]
    pub fn follow(
        &self,
        request: String,
        ready: Function<'_, (), ()>,
    ) -> napi::Result<FollowerHandle> {
        let request: FollowArguments = parse(&request)?;
        FollowerHandle::start(Arc::clone(&self.0), request.request(), ready)
    }
}

fn open_service(options: StoreOptions) -> Result<Service> {
    let zone = options.zone.as_deref().map(TimeZone::get).transpose();
    let zone = zone.map_err(|error| Failure::bad_input(format!("unknown time zone: {error}")))?;
    let mut service = match options.discover {
        true => {
            let env = Env {
                home: options.home.map(PathBuf::from),
                cwd: options.cwd.map(PathBuf::from),
                vars: options.vars,
            };
            Service::discover(&env, options.state.map(PathBuf::from), options.index)?
        }
        false => {
            let roots = options.roots.iter().map(RootArgument::roots);
            let mut store = Store::new(roots.collect::<Result<Vec<_>>>()?.concat());
            if let Some(zone) = &zone {
                store = store.with_zone(zone.clone());
            }
            if let Some(state) = &options.state {
                store = store.with_state(state).with_trash_of_roots(true);
            }
            match options.state.filter(|_| options.index) {
                Some(state) => Service::new(store).with_index(state),
                None => Service::new(store),
            }
        }
    };
    if let Some(zone) = zone {
        service = service.with_zone(zone);
    }
    match options.prices {
        Some(path) => Ok(service.with_price_list(path.into())?),
        None => Ok(service),
    }
}

fn answer(
    service: &Arc<Service>,
    name: &str,
    request: &str,
    stop: Option<&AtomicBool>,
) -> Result<Reply> {
    match name {
        "sessions" => {
            let it: SessionsArguments = parse(request)?;
            rows(&service.sessions(&it.request(service)?)?.rows)
        }
        "projects" => rows(&service.projects()),
        "conversations" => {
            let it: Id = parse(request)?;
            rows(&service.conversations(&it.id)?)
        }
        "search" => {
            let it: SearchArguments = parse(request)?;
            let is_stopped = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            json(&service.search(&it.request(service)?, &is_stopped)?)
        }
        "updateIndex" => {
            let is_stopped = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            service.update_text_index(&is_stopped);
            Ok(Reply::A(()))
        }
        "cost" => {
            let it: CostArguments = parse(request)?;
            json(&service.cost(&it.request(service)?)?)
        }
        "check" => {
            let it: Check = parse(request)?;
            rows(&service.check(it.id.as_deref())?.files())
        }
        "begin" => {
            let it: BeginArguments = parse(request)?;
            Ok(Reply::D(WriterHandle::new(service.begin(&it.request()?)?)))
        }
        "resume" => {
            let it: Resume = parse(request)?;
            let writer = service.resume(&it.id, it.write.options()?)?;
            Ok(Reply::D(WriterHandle::new(writer)))
        }
        "fork" => {
            let it: Fork = parse(request)?;
            let (at, title) = (it.at.as_deref(), it.title.as_deref());
            let id = service.fork(&it.id, at, title, it.to.as_deref())?;
            json(&id.as_str())
        }
        "delete" => {
            let it: Id = parse(request)?;
            json(&TrashedJson::new(&service.delete(&it.id)?))
        }
        "undelete" => {
            let it: Id = parse(request)?;
            service.undelete(&it.id)?;
            Ok(Reply::A(()))
        }
        "reset" => {
            let it: Reset = parse(request)?;
            let moved = service.reset(&it.project, it.plan)?;
            rows(&moved.iter().map(TrashedJson::new).collect::<Vec<_>>())
        }
        "convert" => convert(service, &parse(request)?),
        "clean" => maintain::clean(service, &parse(request)?),
        "repair" => maintain::repair(service, &parse(request)?),
        "document" => maintain::document(service, &parse(request)?),
        "writeRunLog" => maintain::write_run_log(service, &parse(request)?),
        "setMembers" => maintain::set_members(service, parse(request)?),
        "open" => {
            let it: Open = parse(request)?;
            let open = match it.tail {
                Some(messages) => service.open_tail(&it.id, messages)?,
                None => service.open(&it.id)?,
            };
            Ok(Reply::E(SessionHandle::new(Arc::clone(service), open)))
        }
        other => Err(unknown("call", other, "those of the class Store")),
    }
}

fn convert(service: &Service, it: &Convert) -> Result<Reply> {
    let into = match <[Root; 1]>::try_from(it.into.roots()?) {
        Ok([root]) => root,
        Err(_) => return Err(Failure::bad_input("name the layout of the target")),
    };
    json(&service.convert(&into, it.sessions.as_deref())?)
}
