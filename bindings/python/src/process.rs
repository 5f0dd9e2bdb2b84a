//! Processes: what a child after `fork()` may do.
//!
//! A child has only the thread that forked. Its copies of locks and database connections belong to the
//! parent, and the threads of rayon are gone. So writers refuse, and questions use a service and a thread
//! pool of the child.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Result, refused};

/// Longest time until a signal is noticed.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// The process that loaded the module.
static HOME: OnceLock<u32> = OnceLock::new();

/// The thread pool of a child process.
static CHILD_POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Calls `work` without the interpreter lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| match child_pool() {
        None => work(),
        Some(pool) => pool.install(work),
    })
}

/// Calls `work` in another thread, without the interpreter lock. A signal handler that raises, such as that
/// of Ctrl-C, sets the flag that `work` is given, and the call fails with the exception.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let pool = child_pool();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(1);
            let stop = &stop;
            scope.spawn(move || {
                let answer = match pool {
                    None => work(stop),
                    Some(pool) => pool.install(|| work(stop)),
                };
                // The receiver is gone after a signal.
                let _ = sender.send(answer);
            });
            loop {
                match receiver.recv_timeout(SIGNAL_INTERVAL) {
                    Ok(answer) => return Ok(answer),
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(raised) = Python::attach(|py| py.check_signals()) {
                            stop.store(true, Ordering::Relaxed);
                            return Err(raised);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(PyRuntimeError::new_err("internal error of annals"));
                    }
                }
            }
        })
    })
}

fn child_pool() -> Option<Arc<ThreadPool>> {
    let process = std::process::id();
    if *HOME.get_or_init(|| process) == process {
        return None;
    }
    let mut pool = CHILD_POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((owner, pool)) = &*pool
        && *owner == process
    {
        return Some(Arc::clone(pool));
    }
    let made = Arc::new(ThreadPoolBuilder::new().build().ok()?);
    // The threads of a parent's pool do not exist here: its end would wait for them.
    std::mem::forget(pool.replace((process, Arc::clone(&made))));
    Some(made)
}

/// The process that opened something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn current() -> Self {
        let process = std::process::id();
        HOME.get_or_init(|| process);
        Owner(process)
    }

    /// Refuses in a child process.
    pub(crate) fn check(self, what: &str) -> Result<()> {
        match self == Owner(std::process::id()) {
            true => Ok(()),
            false => Err(refused(&format!(
                "this {what} was opened before fork(); open another one in the child process"
            ))),
        }
    }
}
