//! The server: a service, and what its answers leave out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use annals::export::Redactor;
use annals::service::{OpenSession, Service};
use annals::store::{Inventory, Session};
use annals::text::{LineBreaks, strip_ansi, visible};
use jiff::SignedDuration;

use crate::answer::cut;

/// Sessions of the caller's project that were written to within this time are at work.
const LIVE: SignedDuration = SignedDuration::from_mins(10);

/// Most problems of an answer, and most bytes of each: they come on top of the budget.
const MAX_PROBLEMS: usize = 3;
const MAX_PROBLEM: usize = 400;

/// Shortest time between two updates of the index.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The project that `here` names: the directory that the server runs in.
    pub here: String,
    /// The caller's own session, if known.
    pub session: Option<String>,
    /// Whether the tools that write are offered.
    pub write: bool,
    /// Whether secrets are masked.
    pub mask: bool,
}

/// Longest time of a search. One that the index cannot narrow, such as a query of only negations, may have to
/// read all logs.
const SEARCH_TIME: Duration = Duration::from_secs(1);

/// Answers the tools. Can be shared between threads.
#[derive(Debug)]
pub struct Server {
    pub(crate) service: Service,
    pub(crate) options: Options,
    search_time: Duration,
    redactor: Mutex<Redactor>,
    failures: Failures,
    /// When text was last indexed. Locked while it is.
    indexed: Mutex<Option<Instant>>,
}

/// The last failed reads of all calls.
#[derive(Debug, Default)]
struct Failures(Mutex<LastFailures>);

#[derive(Debug, Default)]
struct LastFailures {
    /// Number of failures before those in the list.
    dropped: usize,
    texts: VecDeque<String>,
}

impl Failures {
    /// Maximum number in the list.
    const LIMIT: usize = 1_000;

    /// Returns the number of failures so far.
    fn len(&self) -> usize {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.dropped + last.texts.len()
    }

    /// Adds failures, and returns all but the first `before`.
    fn add(&self, new: &[annals::Error], before: usize) -> Vec<String> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.texts.extend(new.iter().map(ToString::to_string));
        let excess = last.texts.len().saturating_sub(Self::LIMIT);
        last.texts.drain(..excess);
        last.dropped += excess;
        let skipped = before.saturating_sub(last.dropped);
        last.texts.iter().skip(skipped).cloned().collect()
    }
}

/// When a search ends before it is complete: if the call is cancelled, or it takes too long.
pub(crate) struct SearchEnd<'a> {
    latest: Instant,
    is_late: AtomicBool,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl SearchEnd<'_> {
    pub(crate) fn is_reached(&self) -> bool {
        if Instant::now() >= self.latest {
            self.is_late.store(true, Ordering::Relaxed);
            return true;
        }
        (self.stop)()
    }

    /// Returns what the answer says about a search that took too long.
    pub(crate) fn incomplete(&self) -> Option<&'static str> {
        let is_late = self.is_late.load(Ordering::Relaxed);
        is_late.then_some(
            "not all logs were searched, because it took too long; give longer words, or `project`",
        )
    }
}

impl Server {
    /// Returns the end of a search that begins now.
    pub(crate) fn search_end<'a>(&self, stop: &'a (dyn Fn() -> bool + Sync)) -> SearchEnd<'a> {
        SearchEnd {
            latest: Instant::now() + self.search_time,
            is_late: AtomicBool::new(false),
            stop,
        }
    }

    /// Creates a server. Its tools read and change no file outside the roots of the service.
    pub fn new(service: Service, options: Options) -> annals::Result<Self> {
        Ok(Server {
            service: service.confined_to_roots(),
            options,
            search_time: SEARCH_TIME,
            redactor: Mutex::new(Redactor::new()?),
            failures: Failures::default(),
            indexed: Mutex::new(None),
        })
    }

    /// Sets the longest time of a search, which is a second otherwise.
    #[must_use]
    pub fn with_search_time(mut self, most: Duration) -> Self {
        self.search_time = most;
        self
    }

    /// Returns what could not be read since a call began, with this number of failures before. Calls run
    /// at the same time, and none takes the failures of another.
    pub(crate) fn problems_since(&self, before: usize) -> Vec<String> {
        let new = self.service.store().failures().take();
        let failures = self.failures.add(&new, before);
        let shown = failures.iter().take(MAX_PROBLEMS);
        let shown = shown.map(|text| self.line(text, MAX_PROBLEM));
        let more = failures.len().saturating_sub(MAX_PROBLEMS);
        let more = (more > 0).then(|| format!("and {more} more; `annals check` lists them"));
        shown.chain(more).collect()
    }

    /// Returns the number of failed reads so far.
    pub(crate) fn failure_count(&self) -> usize {
        self.failures.len()
    }

    /// Indexes what was written since, so that the next search reads less. Returns at once if the last search
    /// read nothing that is not indexed, if another call does so already, or did so a moment ago: the log of
    /// the caller grows with each of its calls.
    pub fn update_index(&self) {
        if !self.service.needs_text_index() {
            return;
        }
        let Ok(mut indexed) = self.indexed.try_lock() else {
            return;
        };
        if indexed.is_none_or(|at| at.elapsed() >= INDEX_INTERVAL) {
            self.service.update_text_index(&|| false);
            *indexed = Some(Instant::now());
        }
    }

    /// Makes recorded text safe to show: secrets masked, control sequences removed, hidden
    /// characters visible.
    pub(crate) fn clean(&self, text: &str) -> String {
        let masked = match self.options.mask {
            true => {
                let redactor = self.redactor.lock();
                let mut redactor = redactor.unwrap_or_else(PoisonError::into_inner);
                redactor.mask_text(text).into_owned()
            }
            false => text.to_owned(),
        };
        visible(&strip_ansi(&masked), LineBreaks::Preserved).into_owned()
    }

    /// Cleans recorded text, puts it on one line and cuts it after `max` bytes.
    pub(crate) fn line(&self, text: &str, max: usize) -> String {
        let clean = self.clean(text);
        let words: Vec<&str> = clean.split_whitespace().collect();
        cut(&words.join(" "), max)
    }

    /// Returns the project that an argument names.
    pub(crate) fn project(&self, name: Option<String>) -> Option<String> {
        match name.as_deref() {
            Some("here") => Some(self.options.here.clone()),
            _ => name,
        }
    }

    /// Opens a session.
    pub(crate) fn open(&self, id: &str) -> Result<OpenSession, String> {
        self.service.open(id).map_err(|error| describe(&error))
    }

    /// Returns the ids of sessions that the caller may be part of: its own, and those of its project
    /// that were written to just now.
    pub(crate) fn live_sessions(&self, inventory: &Inventory) -> Vec<String> {
        let mut live: Vec<String> = self.options.session.clone().into_iter().collect();
        let cutoff = self.service.now().checked_sub(LIVE).unwrap_or_default();
        for files in &inventory.sessions {
            let mut logs = files.logs();
            let is_recent = logs.any(|log| i128::from(log.id.mtime_ns) >= cutoff.as_nanosecond());
            if !is_recent || files.is_archived() {
                continue;
            }
            let end = Session::read_tail(files.clone(), 1);
            let is_here = end.is_ok_and(|session| {
                let project = session.info(None);
                project.matches_project_or_earlier(&self.options.here)
            });
            if is_here {
                live.push(files.id.to_string());
            }
        }
        live
    }
}

/// Describes an error with the candidates of an ambiguous id.
pub(crate) fn describe(error: &annals::Error) -> String {
    match error {
        annals::Error::Ambiguous { candidates, .. } => {
            let shown: Vec<&str> = candidates.iter().take(10).map(String::as_str).collect();
            format!("{error}; give more of one of them: {}", shown.join(", "))
        }
        annals::Error::NotFound { .. } => {
            format!("{error}; `sessions` and `search` give ids")
        }
        error => error.to_string(),
    }
}
