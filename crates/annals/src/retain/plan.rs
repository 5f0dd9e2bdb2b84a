//! Plans: which sessions are old, and which old ones are kept all the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::model::SessionId;

use crate::store::{Inventory, RootFile, SessionFiles, SessionInfo};
use crate::time_input::Now;

use super::{Pins, Policy, Rule};

/// What is to be cleaned up.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CleanupPlan {
    /// Old sessions, the oldest first; those that share files stand together, and go together.
    pub groups: Vec<Vec<Expired>>,
    /// Sessions that are as old and stay.
    pub retained: Vec<Retained>,
}

/// A session that nobody has worked on for longer than it is to be kept.
#[derive(Debug)]
#[non_exhaustive]
pub struct Expired {
    /// What lists say about it.
    pub info: SessionInfo,
    /// When it was last at work.
    pub last: Timestamp,
    /// That is the time of its log's file, and not of a record.
    pub from_file_time: bool,
    /// What was last at work before this is old.
    pub cutoff: Timestamp,
    /// The term that says so.
    pub term: String,
    /// Whose term that is.
    pub rule: Rule,
    /// How many files it has, those that it shares with others included.
    pub files: usize,
    pub(super) session_files: SessionFiles,
}

/// A session that is old and stays.
#[derive(Debug)]
#[non_exhaustive]
pub struct Retained {
    /// What lists say about it.
    pub info: SessionInfo,
    /// Why it stays.
    pub reason: RetainReason,
}

/// Why an old session stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetainReason {
    /// It is pinned.
    Pinned,
    /// It is among the newest of its project.
    Newest,
    /// Its log is also that of a session that stays, and logs are never rewritten.
    SharesLog {
        /// The log.
        file: PathBuf,
        /// The session that stays.
        with: SessionId,
    },
}

/// What becomes of one session.
enum Verdict {
    /// It is too young, kept for ever, or not asked for.
    Stays,
    Retained(RetainReason),
    Expired {
        last: Timestamp,
        cutoff: Timestamp,
        term: String,
        rule: Rule,
    },
}

impl CleanupPlan {
    /// Finds out which of the sessions that are `wanted` are old.
    ///
    /// `rows` are those of the inventory; a session without one could not be read, and stays.
    pub fn new(
        inventory: &Inventory,
        rows: Vec<SessionInfo>,
        policy: &Policy,
        pins: &Pins,
        now: &Now,
        wanted: &dyn Fn(&SessionInfo) -> bool,
    ) -> Self {
        let newest = newest(&rows, policy.keep_last);
        let mut judged: HashMap<(PathBuf, SessionId, PathBuf), (SessionInfo, Verdict)> = rows
            .into_iter()
            .enumerate()
            .map(|(at, info)| {
                let verdict = match wanted(&info) {
                    false => Verdict::Stays,
                    true => decide(&info, policy, pins, now, newest.contains(&at)),
                };
                let key = (info.root.clone(), info.id.clone(), info.file.clone());
                (key, (info, verdict))
            })
            .collect();
        let mut plan = CleanupPlan::default();
        for group in groups(&inventory.sessions) {
            let members = group.into_iter().map(|files| {
                let key = (
                    files.root.path.clone(),
                    files.id.clone(),
                    files.main_path().to_owned(),
                );
                (files, judged.remove(&key))
            });
            plan.add_group(members.collect());
        }
        plan.groups.sort_by_key(|group| {
            let last = group.iter().map(|old| old.last).max();
            (last, group.first().map(|old| old.info.id.clone()))
        });
        plan.retained
            .sort_by_key(|kept| (kept.info.updated, kept.info.id.clone()));
        plan
    }

    /// All sessions that are old and go.
    pub fn expired(&self) -> impl Iterator<Item = &Expired> {
        self.groups.iter().flatten()
    }

    /// How many files go, each counted once.
    pub fn files(&self) -> usize {
        let files = self.expired().flat_map(|old| old.session_files.files());
        let paths = files.flat_map(RootFile::volumes).map(|file| &file.path);
        paths.collect::<HashSet<_>>().len()
    }

    /// Takes in sessions that can only go together.
    fn add_group(&mut self, members: Vec<(&SessionFiles, Option<(SessionInfo, Verdict)>)>) {
        let goes = |judged: &Option<(SessionInfo, Verdict)>| {
            matches!(judged, Some((_, Verdict::Expired { .. })))
        };
        let stays = members.iter().find(|(_, judged)| !goes(judged));
        let stays = stays.map(|(files, _)| (*files).clone());
        let mut group = Vec::new();
        for (files, judged) in members {
            let Some((info, verdict)) = judged else {
                continue;
            };
            match (verdict, &stays) {
                (Verdict::Stays, _) => {}
                (Verdict::Retained(why), _) => self.retained.push(Retained { info, reason: why }),
                (Verdict::Expired { .. }, Some(other)) => {
                    let why = RetainReason::SharesLog {
                        file: shared_log(files, other).to_owned(),
                        with: other.id.clone(),
                    };
                    self.retained.push(Retained { info, reason: why });
                }
                (
                    Verdict::Expired {
                        last,
                        cutoff,
                        term,
                        rule,
                    },
                    None,
                ) => group.push(Expired {
                    from_file_time: info.last_activity_by_file,
                    info,
                    last,
                    cutoff,
                    term,
                    rule,
                    files: files.files().flat_map(RootFile::volumes).count(),
                    session_files: files.clone(),
                }),
            }
        }
        if !group.is_empty() {
            self.groups.push(group);
        }
    }
}

fn decide(info: &SessionInfo, policy: &Policy, pins: &Pins, now: &Now, newest: bool) -> Verdict {
    let term = policy.cutoff(info.layout, &info.project.path, info.keep_days, now);
    let Some((last, (cutoff, term, rule))) = info.last_activity.zip(term) else {
        return Verdict::Stays;
    };
    if last >= cutoff {
        return Verdict::Stays;
    }
    if pins.contains_session(info) {
        return Verdict::Retained(RetainReason::Pinned);
    }
    if newest {
        return Verdict::Retained(RetainReason::Newest);
    }
    Verdict::Expired {
        last,
        cutoff,
        term,
        rule,
    }
}

/// The places of the newest sessions of each project.
fn newest(rows: &[SessionInfo], keep: usize) -> HashSet<usize> {
    if keep == 0 {
        return HashSet::new();
    }
    let mut projects: BTreeMap<(&Path, &str), Vec<(usize, &SessionInfo)>> = BTreeMap::new();
    for (at, info) in rows.iter().enumerate() {
        let key = (info.root.as_path(), info.project.path.as_str());
        projects.entry(key).or_default().push((at, info));
    }
    let mut newest = HashSet::new();
    for mut sessions in projects.into_values() {
        sessions.sort_by_key(|(_, info)| (Reverse(info.updated), &info.id));
        newest.extend(sessions.into_iter().take(keep).map(|(at, _)| at));
    }
    newest
}

/// The sessions, those that share files together.
fn groups(sessions: &[SessionFiles]) -> Vec<Vec<&SessionFiles>> {
    let shares = |files: &&SessionFiles| {
        let mut volumes = files.logs().flat_map(RootFile::volumes);
        volumes.any(|file| file.slice.is_some())
    };
    let (sharing, alone): (Vec<_>, Vec<_>) = sessions.iter().partition(shares);
    let mut groups = SessionFiles::group_by_shared_files(&sharing);
    groups.extend(alone.into_iter().map(|files| vec![files]));
    groups
}

/// A log in which two sessions lie, or the first one's own where others lie in between.
fn shared_log<'a>(one: &'a SessionFiles, other: &SessionFiles) -> &'a Path {
    let volumes = |files: &'a SessionFiles| files.logs().flat_map(RootFile::volumes);
    let theirs: Vec<&Path> = other
        .logs()
        .flat_map(RootFile::volumes)
        .map(|file| file.path.as_path())
        .collect();
    let mut both = volumes(one).filter(|file| theirs.contains(&file.path.as_path()));
    both.next().map_or(one.main_path(), |file| &file.path)
}
