//! Follows logs as they are written.

use crate::error::{Error, Result};
use crate::view::EventJson;
use crate::watch::{Event, FollowOptions, FollowPosition, Follower, Selection, Stopper};

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
    /// The cursor of an event: continue after it, with what was written since.
    pub since: Option<String>,
}

/// Blocking iterator over events. It ends only when it is [stopped](Self::stopper).
#[derive(Debug)]
pub struct FollowedEvents(Follower);

impl FollowedEvents {
    /// Returns a handle that stops it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.0.stopper()
    }

    /// Waits for the next event, with its entry instead of a row.
    pub fn next_event(&mut self) -> Option<Event> {
        self.0.next()
    }
}

impl Iterator for FollowedEvents {
    type Item = EventJson;

    fn next(&mut self) -> Option<EventJson> {
        let event = self.0.next()?;
        Some(self.row(event))
    }
}

impl FollowedEvents {
    fn row(&self, event: Event) -> EventJson {
        let position = self.0.position();
        EventJson::new(event).with_cursor(position.map(|position| position.to_string()))
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
        let mut options = FollowOptions::default().last(request.last);
        if let Some(cursor) = &request.since {
            let position = FollowPosition::parse(cursor);
            options = options.since(position.ok_or_else(|| Error::BadId {
                what: "cursor",
                id: cursor.clone(),
                why: "it is not the cursor of an event",
            })?);
        }
        let follower = Follower::new(&self.store, selection, options)?;
        Ok(FollowedEvents(follower))
    }
}
