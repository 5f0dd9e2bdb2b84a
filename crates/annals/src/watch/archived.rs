//! Sessions that are only in the archive, and so cannot be followed.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Result;
use crate::store::{LocatedEntry, Root, Session, Target};

use super::conversation::FollowedConversation;
use super::recent::NewestEntries;
use super::{FollowOptions, FollowedEntry, FollowedLog};

/// Returns the last entries of an [archived](crate::store::SessionFiles::is_archived) session, as a
/// [`Follower`](super::Follower) would begin with them. They have no charges.
pub fn last_archived(target: &Target, options: &FollowOptions) -> Result<Vec<FollowedEntry>> {
    let files = &target.files;
    let only = target.agent_log().map(|log| &log.path);
    let mut branch = match &target.message {
        Some(message) => Some(FollowedConversation::read(files.clone(), message)?),
        None => None,
    };
    let session = Session::read(files.clone())?;
    let mut logs: Vec<Arc<FollowedLog>> = Vec::new();
    let mut newest = NewestEntries::new(options.last);
    while let Some((file, scan, _)) = session.log(logs.len()) {
        let log = Arc::new(FollowedLog {
            root: Root::clone(&files.root),
            path: file.path.clone(),
            artifact: file.artifact.clone(),
        });
        let mut last = VecDeque::new();
        let all: Vec<usize> = (0..scan.outlines.len()).collect();
        let wanted = only.is_none_or(|only| *only == file.path);
        let all = if wanted { all } else { Vec::new() };
        session.each_entry_of_log(logs.len(), &all, |entry| {
            let located = LocatedEntry {
                session: files.id.clone(),
                agent: file.artifact.agent.clone().or_else(|| entry.agent.clone()),
                entry,
                charge: None,
                updated: false,
            };
            // A conversation must see every entry of its session.
            let takes = branch
                .as_mut()
                .is_none_or(|branch| branch.accepts(&log, &located));
            if takes && (options.filter)(&located.entry) {
                last.push_back(located);
            }
            if last.len() > options.last {
                last.pop_front();
            }
            Ok(true)
        })?;
        newest.add(logs.len(), last.into());
        logs.push(log);
    }
    let held = newest.into_held().into_iter();
    let fresh = held.filter_map(|held| {
        Some(FollowedEntry {
            log: Arc::clone(logs.get(held.track)?),
            session: held.located.session,
            agent: held.located.agent,
            entry: held.located.entry,
            charge: held.located.charge,
            updated: false,
            earlier: true,
        })
    });
    Ok(fresh.collect())
}
