//! The handle of a follower: a thread of its own, and a queue from which JavaScript takes events.
//!
//! The thread waits when the queue is full, so a slow reader costs no memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use annals::service::{FollowRequest, Service};
use annals::watch::Stopper;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;

use crate::error::Failure;
use crate::reply::run;

/// Events that wait to be taken.
const MAX_WAITING: usize = 256;

#[napi]
pub struct FollowerHandle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    taken: Condvar,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<String>,
    stopper: Option<Stopper>,
    is_closed: bool,
    /// Why following did not begin.
    failure: Option<Failure>,
    /// Whether the thread has ended.
    is_ended: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        if let Some(stopper) = &queue.stopper {
            stopper.stop();
        }
        self.taken.notify_all();
    }

    /// Follows until it is closed. Calls `ready` after each change of the queue.
    fn run(&self, service: &Service, request: &FollowRequest, ready: &dyn Fn()) {
        let followed = run(|| Ok(service.follow(request)?));
        let events = match followed {
            Err(failure) => {
                self.queue().failure = Some(failure);
                return;
            }
            Ok(events) => events,
        };
        {
            let mut queue = self.queue();
            if queue.is_closed {
                return;
            }
            queue.stopper = Some(events.stopper());
        }
        for event in events {
            let Ok(text) = serde_json::to_string(&event) else {
                continue;
            };
            let mut queue = self.queue();
            while queue.events.len() >= MAX_WAITING && !queue.is_closed {
                queue = self
                    .taken
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if queue.is_closed {
                return;
            }
            queue.events.push_back(text);
            drop(queue);
            ready();
        }
    }
}

impl FollowerHandle {
    pub(crate) fn start(
        service: Arc<Service>,
        request: FollowRequest,
        ready: Function<'_, (), ()>,
    ) -> napi::Result<Self> {
        let ready = ready.build_threadsafe_function::<()>().build()?;
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("annals-follow".to_owned());
        let spawned = thread.spawn(move || {
            let call = || {
                ready.call((), ThreadsafeFunctionCallMode::NonBlocking);
            };
            own.run(&service, &request, &call);
            own.queue().is_ended = true;
            call();
        });
        spawned.map_err(|error| Failure::refused(format!("cannot start a thread: {error}")))?;
        Ok(FollowerHandle(shared))
    }
}

#[napi]
impl FollowerHandle {
    /// Takes the waiting events, each as JSON. Returns null after the last one.
    #[napi]
    pub fn take(&self) -> napi::Result<Option<Vec<String>>> {
        let mut queue = self.0.queue();
        if let Some(failure) = queue.failure.take() {
            return Err(failure.into());
        }
        let events: Vec<String> = queue.events.drain(..).collect();
        self.0.taken.notify_all();
        Ok((!events.is_empty() || !queue.is_ended).then_some(events))
    }

    #[napi]
    pub fn close(&self) {
        self.0.close();
    }
}

impl Drop for FollowerHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}
