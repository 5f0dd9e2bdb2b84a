//! Follows logs as they are written.

use crate::error::Result;
use crate::view::EventJson;
use crate::watch::{FollowOptions, Follower, Selection, Stopper};

use super::Service;

/// Question for what is written from now on. Without conditions, to all logs.
#[derive(Clone, Debug, Default)]
pub struct FollowRequest {
    /// Project: a path, a name or an id.
    pub project: Option<String>,
    /// Session, or `SESSION@MESSAGE` for the conversation that ends there.
    pub session: Option<String>,
    /// Number of existing entries to report first.
    pub last: usize,
}

/// Blocking iterator over events. It ends only when it is [stopped](Self::stopper).
#[derive(Debug)]
pub struct FollowedEvents(Follower);

impl FollowedEvents {
    /// Returns a handle that stops it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.0.stopper()
    }
}

impl Iterator for FollowedEvents {
    type Item = EventJson;

    fn next(&mut self) -> Option<EventJson> {
        self.0.next().map(EventJson::new)
    }
}

impl Service {
    /// Begins to follow. Everything written from now on is reported.
    pub fn follow(&self, request: &FollowRequest) -> Result<FollowedEvents> {
        let mut selection = Selection::all();
        if let Some(project) = &request.project {
            selection = selection.project(crate::store::resolve_directory(project));
        }
        if let Some(session) = &request.session {
            selection = selection.target(self.find(session)?)?;
        }
        let options = FollowOptions::default().last(request.last);
        let follower = Follower::new(&self.store, selection, options)?;
        Ok(FollowedEvents(follower))
    }
}
