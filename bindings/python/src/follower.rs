//! The class `Follower`: events of logs as they are written.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use annals::service::FollowedEvents;
use annals::watch::Stopper;
use pyo3::prelude::*;

use crate::error::Result;
use crate::process::{Owner, SIGNAL_INTERVAL};
use crate::value::{parse, to_json};

/// Number of events that wait for the reader.
const WAITING: usize = 256;

/// Blocking iterator over events; `async for` works too.
#[pyclass(module = "annals_store", frozen)]
pub(crate) struct Follower {
    events: Mutex<Option<Receiver<String>>>,
    stopper: Stopper,
    owner: Owner,
}

impl Follower {
    pub(crate) fn new(events: FollowedEvents) -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let stopper = events.stopper();
        std::thread::spawn(move || send_all(events, &sender));
        Follower {
            events: Mutex::new(Some(receiver)),
            stopper,
            owner: Owner::current(),
        }
    }

    /// Waits for the next event for a short time. Returns `None` at the end.
    fn wait(&self) -> Result<Option<String>, RecvTimeoutError> {
        // A reader in another thread holds the lock only for one interval.
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        match events.as_ref().map(|it| it.recv_timeout(SIGNAL_INTERVAL)) {
            None | Some(Err(RecvTimeoutError::Disconnected)) => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(RecvTimeoutError::Timeout)) => Err(RecvTimeoutError::Timeout),
        }
    }
}

fn send_all(events: FollowedEvents, sender: &SyncSender<String>) {
    for event in events {
        let Ok(json) = to_json(&event) else { continue };
        if sender.send(json).is_err() {
            return;
        }
    }
}

#[pymethods]
impl Follower {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>> {
        self.owner.check("follower")?;
        loop {
            match py.detach(|| self.wait()) {
                Ok(Some(event)) => return parse(py, &event).map(Some),
                Ok(None) => return Ok(None),
                Err(_) => py.check_signals()?,
            }
        }
    }

    fn __aiter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let aio = this.py().import("annals_store.aio")?;
        aio.call_method1("_events", (this,))
    }

    fn close(&self, py: Python<'_>) {
        if self.owner.check("follower").is_ok() {
            self.stopper.stop();
            let close = || *self.events.lock().unwrap_or_else(PoisonError::into_inner) = None;
            py.detach(close);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.owner.check("follower").is_ok() {
            self.stopper.stop();
        }
    }
}
