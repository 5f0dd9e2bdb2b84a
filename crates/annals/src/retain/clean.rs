//! Moves expired sessions to the trash.

use std::collections::HashSet;
use std::path::Path;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::{RootFile, SessionFiles, TrashItem, ensure_file_untouched};
use annals_jsonl::Error as FileError;

use crate::time_input::Now;

use super::{CleanupPlan, Expired, Policy, Retention, Term};

impl Retention<'_> {
    /// Moves a group of sessions of a plan to the trash together.
    ///
    /// Nothing is moved if any of them has changed since the plan: while the logs are locked, all
    /// files must be untouched, and there must be no new file and no pin. A session that continued
    /// meanwhile stays. So does one that another program writes to ([`Error::Live`]) or has open
    /// for writing ([`Held`](annals_jsonl::Error::Held)), unless `live`.
    pub fn clean(&self, group: &[Expired], live: bool, now: Timestamp) -> Result<TrashItem> {
        if !live {
            group
                .iter()
                .try_for_each(|old| old.session_files.ensure_not_in_use())?;
        }
        let sessions: Vec<&SessionFiles> = group.iter().map(|old| &old.session_files).collect();
        self.store.trash().clean_in(&sessions, now, || {
            group
                .iter()
                .try_for_each(|old| self.ensure_still_expired(old))?;
            match live {
                true => Ok(()),
                false => group
                    .iter()
                    .try_for_each(|old| old.session_files.refuse_held()),
            }
        })
    }

    /// Moves all sessions to the trash that were last active more than `days` days ago, except
    /// pinned ones, and files left over from deleted logs. An error for one does not stop the
    /// others.
    pub fn clean_older_than(&self, days: u32, now: Timestamp) -> Result<Vec<Result<TrashItem>>> {
        let term = Term::parse(&format!("{days}d"));
        let policy = Policy::new(term.ok_or_else(|| Error::refused("invalid number of days"))?);
        let zone = self.store.zone();
        let inventory = self.store.inventory_without_archive();
        let rows = self.store.sessions(&inventory).read(&|_, _| ());
        let rows = rows.into_iter().flatten().collect();
        let at = Now { time: now, zone };
        let plan = CleanupPlan::new(&inventory, rows, &policy, &self.pins()?, &at, &|_| true);
        let groups = plan.groups.iter();
        let mut done: Vec<Result<TrashItem>> =
            groups.map(|group| self.clean(group, false, now)).collect();
        let leftovers = self.leftovers(&policy, &at);
        let leftovers = leftovers.iter();
        done.extend(leftovers.map(|leftover| self.clean_leftover(leftover, now)));
        Ok(done)
    }

    /// Removes empty directories that interrupted clean-ups left.
    pub fn finish(&self) -> Result<()> {
        self.store.trash().finish_interrupted()
    }

    fn ensure_still_expired(&self, old: &Expired) -> Result<()> {
        let files = &old.session_files;
        if old.last >= old.cutoff {
            return Err(Error::refused(format!("{} has not expired", files.id)));
        }
        // The same bytes have the same age, so nothing needs to be read again.
        for file in files.files().flat_map(RootFile::volumes) {
            ensure_file_untouched(file)?;
        }
        let known: HashSet<&Path> = files.files().map(|file| file.path.as_path()).collect();
        let below = self.store.files_in_own_dirs(files);
        let is_new = |file: &&RootFile| {
            let own = file.artifact.session.as_ref() == Some(&files.id);
            own && !known.contains(file.path.as_path())
        };
        if let Some(new) = below.iter().find(is_new) {
            return Err(Error::File(FileError::Changed {
                path: new.path.clone(),
            }));
        }
        match self.pins()?.contains_files(files) {
            true => Err(Error::refused(format!(
                "session {} was pinned meanwhile",
                files.id
            ))),
            false => Ok(()),
        }
    }
}
