//! Moves all sessions of a project to the trash.

use jiff::Timestamp;

use crate::error::Result;
use crate::store::inventory::SessionFiles;

use super::{Trash, TrashItem};

impl Trash<'_> {
    /// Moves every session of one project to the trash.
    ///
    /// The project is the exact directory that its sessions record, not a part of a path or a
    /// folder name. Unreadable sessions are skipped. A session that cannot be moved is an error in
    /// the result.
    pub fn move_project_in(&self, project: &str, now: Timestamp) -> Vec<Result<TrashItem>> {
        let sessions = self.project_sessions(project);
        for_each_group(&sessions, |files, others| {
            self.move_group_in(files, others, now)
        })
    }

    /// Returns what [`Trash::move_project_in`] would move.
    pub fn plan_project(&self, project: &str, now: Timestamp) -> Result<Vec<TrashItem>> {
        let sessions = self.project_sessions(project);
        let plans = for_each_group(&sessions, |files, others| {
            self.plan_group(files, others, now)
        });
        plans.into_iter().collect()
    }

    fn project_sessions(&self, project: &str) -> Vec<SessionFiles> {
        let inventory = self.store.inventory_without_archive();
        let rows = self.store.sessions(&inventory).read(&|_, _| ());
        let sessions = inventory.sessions.into_iter().zip(rows);
        sessions
            .filter_map(|(files, row)| Some((files, self.store.failures.ok(row)?)))
            .filter(|(_, row)| row.matches_directory(project))
            .map(|(files, _)| files)
            .collect()
    }
}

/// Applies `work` to sessions, grouped by shared logs.
fn for_each_group<T>(
    sessions: &[SessionFiles],
    mut work: impl FnMut(&SessionFiles, &[&SessionFiles]) -> T,
) -> Vec<T> {
    let all: Vec<&SessionFiles> = sessions.iter().collect();
    let groups = SessionFiles::group_by_shared_files(&all).into_iter();
    let groups = groups.filter_map(|group| {
        let (first, others) = group.split_first()?;
        Some(work(first, others))
    });
    groups.collect()
}
