//! The handle of a log of verbatim lines.

use std::sync::Arc;

use annals::service::Service;
use annals::store::Mirror;
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi_derive::napi;

use crate::error::Result;
use crate::reply::{Job, Reply, json};
use crate::request::unknown;

#[napi]
pub struct MirrorHandle(Arc<Held>);

struct Held {
    service: Arc<Service>,
    mirror: Mirror,
}

impl MirrorHandle {
    pub(crate) fn new(service: Arc<Service>, mirror: Mirror) -> Self {
        MirrorHandle(Arc::new(Held { service, mirror }))
    }
}

#[napi]
impl MirrorHandle {
    #[napi(getter)]
    pub fn path(&self) -> String {
        self.0.mirror.path().display().to_string()
    }

    #[napi]
    pub fn append(&self, lines: Vec<Buffer>) -> AsyncTask<Job> {
        let held = Arc::clone(&self.0);
        let lines: Vec<Vec<u8>> = lines.into_iter().map(Vec::from).collect();
        Job::spawn(move || json(&held.mirror.append(&lines)?))
    }

    #[napi]
    pub fn call(&self, name: String) -> AsyncTask<Job> {
        let held = Arc::clone(&self.0);
        Job::spawn(move || held.answer(&name))
    }
}

impl Held {
    fn answer(&self, name: &str) -> Result<Reply> {
        match name {
            "load" => Ok(match self.mirror.load()? {
                Some(lines) => Reply::F(lines.into_iter().map(Buffer::from).collect()),
                None => Reply::A(()),
            }),
            "subs" => json(&self.mirror.subs()?),
            "delete" => {
                self.mirror.delete(self.service.store())?;
                Ok(Reply::A(()))
            }
            other => Err(unknown("call", other, "those of the class Mirror")),
        }
    }
}
