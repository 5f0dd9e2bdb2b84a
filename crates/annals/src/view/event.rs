//! Events of followed logs as JSON.

use serde::Serialize;

use super::EntryJson;
use crate::watch::{Event, FollowedEntry, FollowedLog};

/// An event of a follower as JSON.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventJson {
    kind: &'static str,
    session: Option<String>,
    agent: Option<String>,
    file: Option<String>,
    entry: Option<EntryJson>,
    earlier: bool,
    cursor: Option<String>,
    why: Option<String>,
}

impl EventJson {
    /// Converts an event.
    pub(crate) fn new(event: Event) -> Self {
        match event {
            Event::Entry(entry) => EventJson::entry(*entry),
            Event::CaughtUp => EventJson::of_kind("caught_up", None),
            Event::Began { log } => EventJson::log("began", &log),
            Event::Reset { log, reason } => EventJson {
                why: Some(reason.as_str().to_owned()),
                ..EventJson::log("reset", &log)
            },
            Event::Gone { log } => EventJson::log("gone", &log),
            Event::Polling { reason } => EventJson::of_kind("polling", Some(reason)),
            Event::Error(error) => EventJson::of_kind("trouble", Some(error.to_string())),
        }
    }

    /// Sets the position from which a follower continues after the event.
    pub fn with_cursor(self, cursor: Option<String>) -> Self {
        EventJson { cursor, ..self }
    }

    fn of_kind(kind: &'static str, why: Option<String>) -> Self {
        EventJson {
            kind,
            why,
            ..EventJson::default()
        }
    }

    fn log(kind: &'static str, log: &FollowedLog) -> Self {
        EventJson {
            session: log.artifact.session.as_ref().map(ToString::to_string),
            agent: log.artifact.agent.as_ref().map(ToString::to_string),
            file: Some(log.path.display().to_string()),
            ..EventJson::of_kind(kind, None)
        }
    }

    fn entry(fresh: FollowedEntry) -> Self {
        let mut entry = fresh.entry;
        entry.agent.clone_from(&fresh.agent);
        EventJson {
            session: Some(fresh.session.to_string()),
            agent: fresh.agent.map(|agent| agent.to_string()),
            earlier: fresh.earlier,
            entry: Some(EntryJson::for_session(entry, &fresh.session)),
            ..EventJson::log("entry", &fresh.log)
        }
    }
}
