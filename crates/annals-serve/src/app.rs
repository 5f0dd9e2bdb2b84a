//! State that all handlers share: the service, the sessions that are held open, and the secrets.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use annals::export::Redactor;
use annals::model::SessionId;
use annals::service::{OpenSession, Service};
use annals::store::{Inventory, SessionFiles, SessionInfo};
use annals::text::{LineBreaks, visible};
use annals_render::time::Clock;
use axum::http::StatusCode;

use crate::access::Access;
use crate::guard::{Guard, Rule, Rules};
use crate::problem::Problem;
use crate::text::percent_encode;

/// Number of sessions that are held open.
const HELD: usize = 8;

/// Maximum number of failures that an answer shows.
const MAX_FAILURES: usize = 20;

/// How long answers show a failure: one that recurs is shown on, and others may share what was read.
const FAILURE_AGE: Duration = Duration::from_secs(600);

/// Options of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Offer forms that write titles, tags, notes, pins, todos, forks, and that move sessions to the
    /// trash and back.
    pub write: bool,
    /// Mask secrets.
    pub mask: bool,
}

/// State of the server.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) service: Service,
    pub(crate) options: Options,
    pub(crate) access: Access,
    pub(crate) rules: Rules,
    /// Number of open event streams.
    pub(crate) streams: AtomicUsize,
    held: Mutex<Vec<(SessionPlace, HeldSession)>>,
    /// What could not be read, and when.
    failures: Mutex<Vec<(Instant, String)>>,
}

/// A session that several requests may use.
pub(crate) type HeldSession = Arc<Mutex<OpenSession>>;

/// The place of a session in addresses: a number of a root, and an id in it. Roots may have several
/// sessions with one id, which are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionPlace {
    root: usize,
    copy: usize,
    id: SessionId,
}

impl SessionPlace {
    /// Parses the parts of an address: `2` or `2.1`, and an id.
    pub(crate) fn parse(root: &str, id: &str) -> Result<Self, Problem> {
        let (root, copy) = root.split_once('.').unwrap_or((root, "0"));
        let number = |text: &str| text.parse().ok();
        let place = number(root).zip(number(copy)).zip(SessionId::new(id).ok());
        let place = place.map(|((root, copy), id)| SessionPlace { root, copy, id });
        place.ok_or_else(Problem::no_page)
    }

    /// Returns the place of another session of the root.
    pub(crate) fn other(&self, id: SessionId) -> Self {
        SessionPlace {
            root: self.root,
            copy: 0,
            id,
        }
    }

    /// Returns the address of its page.
    pub(crate) fn path(&self) -> String {
        let id = percent_encode(self.id.as_str());
        match self.copy {
            0 => format!("/s/{}/{id}", self.root),
            copy => format!("/s/{}.{copy}/{id}", self.root),
        }
    }
}

/// The places of all sessions: looking for one does not go through all.
pub(crate) struct SessionPlaces<'a> {
    by_id: HashMap<&'a str, Vec<(SessionPlace, &'a SessionFiles)>>,
}

impl SessionPlaces<'_> {
    /// Returns the address of the page of a listed session; empty if it has none.
    pub(crate) fn address(&self, info: &SessionInfo) -> String {
        let same = self.by_id.get(info.id.as_str());
        let mut same = same.into_iter().flatten();
        let own = same.find(|(_, files)| files.main_path() == info.file);
        own.map(|(place, _)| place.path()).unwrap_or_default()
    }

    /// Returns the address of the page of a session that a file belongs to; empty if it has none.
    pub(crate) fn address_of_file(&self, id: &SessionId, file: &Path) -> String {
        let same = self.by_id.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        let has_file = |files: &SessionFiles| files.files().any(|own| own.path == file);
        let own = same.iter().find(|(_, files)| has_file(files));
        let own = own.or_else(|| same.first());
        own.map(|(place, _)| place.path()).unwrap_or_default()
    }
}

impl App {
    pub(crate) fn new(service: Service, options: Options, access: Access) -> Self {
        App {
            service,
            options,
            access,
            rules: Rules::default(),
            streams: AtomicUsize::new(0),
            held: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard {
            access: &self.access,
            rules: self.rules,
            write: self.options.write,
        }
    }

    /// Returns the clock for times that people read.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            now: self.service.now(),
            zone: self.service.zone().clone(),
        }
    }

    /// Returns whether secrets are masked.
    pub(crate) fn masks(&self) -> bool {
        self.options.mask && self.rules.holds(Rule::Mask)
    }

    /// Returns text of a log on one line: masked, and without characters that hide.
    pub(crate) fn line(&self, text: &str) -> String {
        visible(self.masked(text).trim(), LineBreaks::Spaces).into_owned()
    }

    /// Like [`line`](Self::line), with line breaks.
    pub(crate) fn block(&self, text: &str) -> String {
        visible(&self.masked(text), LineBreaks::Preserved).into_owned()
    }

    /// Masks the secrets of a text.
    pub(crate) fn masked(&self, text: &str) -> String {
        match self.masks().then(Redactor::new) {
            Some(Ok(mut redactor)) => redactor.mask_text(text).into_owned(),
            // Rules that do not compile mask everything.
            Some(Err(_)) => String::new(),
            None => text.to_owned(),
        }
    }

    /// Masks the secrets in the strings of a JSON text.
    pub(crate) fn masked_json(&self, json: String) -> String {
        match self.masks().then(Redactor::new) {
            Some(Ok(mut redactor)) => redactor.mask_json(&json).into_owned(),
            Some(Err(_)) => "null".to_owned(),
            None => json,
        }
    }

    /// Returns the places of the sessions of an inventory.
    pub(crate) fn places<'a>(&self, inventory: &'a Inventory) -> SessionPlaces<'a> {
        let roots = self.service.store().roots();
        let mut by_id: HashMap<&str, Vec<(SessionPlace, &SessionFiles)>> = HashMap::new();
        for files in &inventory.sessions {
            let root = roots.iter().position(|root| root.path == files.root.path);
            let Some(root) = root else { continue };
            let same = by_id.entry(files.id.as_str()).or_default();
            let copy = same.iter().filter(|(place, _)| place.root == root).count();
            let id = files.id.clone();
            same.push((SessionPlace { root, copy, id }, files));
        }
        SessionPlaces { by_id }
    }

    /// Returns the sessions of a root with an id.
    fn sessions_in<'a>(
        &self,
        inventory: &'a Inventory,
        root: usize,
        id: &'a SessionId,
    ) -> impl Iterator<Item = &'a SessionFiles> {
        let path = self.service.store().roots().get(root);
        let path = path.map(|root| root.path.clone());
        let is_in = move |files: &&SessionFiles| {
            files.id == *id && path.as_ref().is_some_and(|path| files.root.path == *path)
        };
        inventory.sessions.iter().filter(is_in)
    }

    /// Returns the files of a session.
    pub(crate) fn files(
        &self,
        inventory: &Inventory,
        place: &SessionPlace,
    ) -> Result<SessionFiles, Problem> {
        let mut found = self.sessions_in(inventory, place.root, &place.id);
        let files = found.nth(place.copy).cloned();
        files.ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                format!("There is no session {} any more.", self.line(place.id.as_str())),
                "It may have been deleted or moved since: look in the trash and the archive, or search for its words.",
            )
        })
    }

    /// Returns a session as it is now. The last ones are held open, and read only what was appended.
    pub(crate) fn open(&self, place: &SessionPlace) -> Result<HeldSession, Problem> {
        let inventory = self.service.inventory();
        let files = self.files(&inventory, place)?;
        if let Some(open) = self.held(place) {
            // Only a new list of files shows new ones, such as a first list of todos.
            let has_all = lock(&open).session.files.files().count() == files.files().count();
            if has_all && lock(&open).grow(&self.service).is_ok() {
                return Ok(open);
            }
        }
        self.read(&inventory, place, files)
    }

    /// Like [`open`](Self::open), but new files of a session that is held open are not looked for.
    pub(crate) fn open_held(&self, place: &SessionPlace) -> Result<HeldSession, Problem> {
        match self.held(place) {
            Some(open) if lock(&open).grow(&self.service).is_ok() => Ok(open),
            _ => self.open(place),
        }
    }

    /// Returns a session that is held open; it becomes the last that is given up.
    fn held(&self, place: &SessionPlace) -> Option<HeldSession> {
        let mut held = lock(&self.held);
        let at = held.iter().position(|(known, _)| known == place)?;
        let found = held.remove(at);
        held.push(found.clone());
        Some(found.1)
    }

    fn read(
        &self,
        inventory: &Inventory,
        place: &SessionPlace,
        files: SessionFiles,
    ) -> Result<HeldSession, Problem> {
        let open = Arc::new(Mutex::new(self.service.open_files(inventory, files)?));
        let mut held = lock(&self.held);
        held.retain(|(known, _)| known != place);
        held.push((place.clone(), Arc::clone(&open)));
        if held.len() > HELD {
            held.remove(0);
        }
        Ok(open)
    }

    /// Returns what could not be read, the newest failures first. Ask after everything that an answer
    /// reads.
    pub(crate) fn failures(&self) -> Vec<String> {
        let store = self.service.store().failures();
        let new = store.take().into_iter().map(|error| error.to_string());
        let new: Vec<String> = new.chain(store.take_notices()).collect();
        let now = Instant::now();
        let mut known = lock(&self.failures);
        known.retain(|(time, text)| now.duration_since(*time) < FAILURE_AGE && !new.contains(text));
        known.splice(0..0, new.into_iter().map(|text| (now, text)));
        let more = known.len().saturating_sub(MAX_FAILURES);
        let shown = known.iter().take(MAX_FAILURES);
        let shown = shown.map(|(_, text)| self.line(text));
        let more = (more > 0).then(|| format!("{more} more; `annals check` lists them"));
        shown.chain(more).collect()
    }
}

/// Locks a mutex; a handler that panicked does not prevent others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a question on a blocking thread. `stop` becomes true if the client is gone.
pub(crate) async fn blocking<T: Send + 'static>(
    app: &Arc<App>,
    ask: impl FnOnce(&App, &AtomicBool) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    struct StopOnDrop(Arc<AtomicBool>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let app = Arc::clone(app);
    let stop = StopOnDrop(Arc::default());
    let asked = Arc::clone(&stop.0);
    let answer = tokio::task::spawn_blocking(move || ask(&app, &asked)).await;
    answer.unwrap_or_else(|_| Err(Problem::panicked()))
}
