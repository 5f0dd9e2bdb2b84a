//! Tests of rules and pages, over the router without a socket, and once over TCP.

mod pages;
mod rules;
mod tcp;

use std::path::Path;
use std::sync::Arc;

use annals::model::{Block, Draft};
use annals::service::Service;
use annals::store::{Root, Store};
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use tempfile::TempDir;

use crate::access::{Access, Names};
use crate::app::{App, Options};
use crate::guard::{Rule, Rules};
use crate::site::Site;

/// A server over a directory, without connections.
pub(super) struct Served {
    pub(super) site: Site,
    /// The root; its parent has the state directory.
    pub(super) dir: TempDir,
}

/// Port in the names of servers without a socket.
const PORT: u16 = 4711;

impl Served {
    /// A server over a root with one session.
    pub(super) fn new(options: Options) -> Self {
        Served::without(options, None)
    }

    /// A server on which one rule does not hold.
    pub(super) fn without(options: Options, without: Option<Rule>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let writer = store.begin("/home/me/app").unwrap();
        let secret = format!("Use the key {SECRET} to upload.");
        writer
            .append(Draft::user(format!("{HOSTILE} {secret}")))
            .unwrap();
        writer.append(said("It closes the *socket*.")).unwrap();
        writer.retitle(&format!("Fix {HOSTILE} {SECRET}")).unwrap();
        drop(writer);
        Served::over(store, dir, options, without)
    }

    pub(super) fn over(
        store: Store,
        dir: TempDir,
        options: Options,
        without: Option<Rule>,
    ) -> Self {
        let access = Access::new(PORT, &Names::default()).unwrap();
        let mut app = App::new(Service::new(store), options, access);
        app.rules = Rules { without };
        Served {
            site: Site::new(app),
            dir,
        }
    }

    pub(super) fn app(&self) -> &Arc<App> {
        &self.site.app
    }

    /// A request as a browser that is signed in sends it.
    pub(super) fn get(&self, path: &str) -> axum::http::request::Builder {
        let access = &self.app().access;
        Request::get(path)
            .header(header::HOST, access.host())
            .header(header::COOKIE, access.cookie_header())
    }

    /// A form as a browser sends it.
    pub(super) fn post(&self, path: &str) -> axum::http::request::Builder {
        let access = &self.app().access;
        Request::post(path)
            .header(header::HOST, access.host())
            .header(header::COOKIE, access.cookie_header())
            .header(header::ORIGIN, format!("http://{}", access.host()))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
    }

    pub(super) fn answer(&self, request: Request<Body>) -> Response<Body> {
        runtime().block_on(self.site.answer(request))
    }

    /// Returns the status of a request without a body.
    pub(super) fn status(&self, request: axum::http::request::Builder) -> StatusCode {
        self.answer(request.body(Body::empty()).unwrap()).status()
    }

    /// Returns the status and the text of a page.
    pub(super) fn page(&self, path: &str) -> (StatusCode, String) {
        let answer = self.answer(self.get(path).body(Body::empty()).unwrap());
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 64 << 20);
        let body = runtime().block_on(body).unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Returns the address of the only session.
    pub(super) fn session(&self) -> String {
        let inventory = self.app().service.inventory();
        let files = &inventory.sessions[0];
        let places = self.app().places(&inventory);
        places.address_of_file(&files.id, files.main_path())
    }
}

/// Text that would be markup if it were not escaped.
pub(super) const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'</title><script>alert(2)</script>";

/// A secret of which the rules know the shape.
pub(super) const SECRET: &str = "ghp_x9Kq2mVb7TzRw4LpYc8NsD3fGh6JaU1eQo5i";

pub(super) fn store(dir: &Path) -> Store {
    std::fs::create_dir_all(dir.join("root")).unwrap();
    let root = Root::claude_code(dir.join("root"));
    Store::new(vec![root]).with_state(dir.join("state"))
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// A message of the model.
pub(super) fn said(text: &str) -> Draft {
    Draft::assistant(vec![Block::Text(text.to_owned())])
}
