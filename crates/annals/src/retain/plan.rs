//! Plans: which sessions have expired, and which of them are retained.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use annals_layouts::model::SessionId;

use crate::store::{Inventory, RootFile, SessionFiles, SessionInfo};
use crate::time_input::Now;

use super::{Pins, Policy, Rule};

/// A plan to clean up sessions.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CleanupPlan {
    /// Expired sessions, oldest first. Those that share files form a group and are moved together.
    pub groups: Vec<Vec<Expired>>,
    /// Sessions that are as old but are retained.
    pub retained: Vec<Retained>,
}

/// A session that was last active before its cutoff.
#[derive(Debug)]
#[non_exhaustive]
pub struct Expired {
    /// Its row in the session list.
    pub info: SessionInfo,
    /// Time of its last activity.
    pub last: Timestamp,
    /// Whether `last` is the modification time of its log instead of the time of a record.
    pub from_file_time: bool,
    /// Sessions last active before this time have expired.
    pub(crate) cutoff: Timestamp,
    /// The term that applies.
    pub term: String,
    /// The rule that sets the term.
    pub rule: Rule,
    /// Number of files, including those that it shares with others.
    pub files: usize,
    pub(super) session_files: SessionFiles,
}

/// An expired session that is retained.
#[derive(Debug)]
#[non_exhaustive]
pub struct Retained {
    /// Its row in the session list.
    pub info: SessionInfo,
    /// Why it is retained.
    pub reason: RetainReason,
}

/// Why an expired session is retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetainReason {
    /// It is pinned.
    Pinned,
    /// It is among the newest of its project.
    Newest,
    /// It shares a log with a session that stays, and logs are never rewritten.
    SharesLog {
        /// The log.
        file: PathBuf,
        /// The session that stays.
        with: SessionId,
    },
}

/// Decision about one session.
enum Verdict {
    /// It has not expired, never expires, or was not asked for.
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
    /// Finds the `wanted` sessions that have expired.
    ///
    /// `rows` are those of the inventory; a session without a row could not be read, and stays.
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
        // Sessions of read-only layouts stay.
        let groups = groups(&inventory.sessions).into_iter();
        for group in
            groups.filter(|group| group.iter().all(|files| files.refuse_read_only().is_ok()))
        {
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

    /// Returns all sessions to be moved.
    pub fn expired(&self) -> impl Iterator<Item = &Expired> {
        self.groups.iter().flatten()
    }

    /// Returns the number of files to be moved, each counted once.
    pub fn files(&self) -> usize {
        let files = self.expired().flat_map(|old| old.session_files.files());
        let paths = files.flat_map(RootFile::volumes).map(|file| &file.path);
        paths.collect::<HashSet<_>>().len()
    }

    /// Adds sessions that can only be moved together.
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

/// Returns the positions in `rows` of the newest sessions of each project.
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

/// Groups sessions by shared files.
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

/// Returns a log shared by two sessions, or the first one's own if they are connected only through
/// others.
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
