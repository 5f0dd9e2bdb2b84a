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
    /// Expired sessions, oldest first. Those that share files form a group and are moved together, and
    /// so do forks by reference and the sessions that they continue.
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
    /// It shares a log with a session that stays, and logs are never rewritten; or that session is a
    /// fork that continues its log by reference.
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

/// A session with the decision about it; `None` if it could not be read.
type Judged<'a> = (&'a SessionFiles, Option<(SessionInfo, Verdict)>);

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
        crate::sort::by_key(&mut plan.groups, |group| {
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
        let paths = self.expired().flat_map(|old| old.session_files.own_paths());
        paths.collect::<HashSet<_>>().len()
    }

    /// Adds the sessions of a group. If one of them stays, so do those that can only be moved
    /// together with it.
    fn add_group(&mut self, members: Vec<Judged<'_>>) {
        let expired =
            |(_, judged): &Judged<'_>| matches!(judged, Some((_, Verdict::Expired { .. })));
        let (mut going, mut staying): (Vec<_>, Vec<_>) = members.into_iter().partition(expired);
        let stays = staying.first().map(|(files, _)| (*files).clone());
        let logs = staying.iter().flat_map(|(files, _)| files.shared_logs());
        let mut held: HashSet<&Path> = logs.collect();
        let is_held = |files: &SessionFiles, held: &HashSet<&Path>| {
            files.own_shared_logs().any(|log| held.contains(log))
        };
        loop {
            let judged = going.into_iter();
            let (more, rest): (Vec<_>, Vec<_>) =
                judged.partition(|(files, _)| is_held(files, &held));
            going = rest;
            if more.is_empty() {
                break;
            }
            held.extend(more.iter().flat_map(|(files, _)| files.shared_logs()));
            staying.extend(more);
        }
        for (files, judged) in staying {
            let Some((info, verdict)) = judged else {
                continue;
            };
            match (verdict, &stays) {
                (Verdict::Retained(why), _) => self.retained.push(Retained { info, reason: why }),
                (Verdict::Expired { .. }, Some(other)) => {
                    let why = RetainReason::SharesLog {
                        file: shared_log(files, other).to_owned(),
                        with: other.id.clone(),
                    };
                    self.retained.push(Retained { info, reason: why });
                }
                (Verdict::Stays | Verdict::Expired { .. }, _) => {}
            }
        }
        let files: Vec<&SessionFiles> = going.iter().map(|(files, _)| *files).collect();
        let key = |files: &SessionFiles| std::ptr::from_ref(files);
        let going = going.into_iter();
        let mut judged: HashMap<_, _> = going.map(|(files, judged)| (key(files), judged)).collect();
        for group in SessionFiles::group_by_shared_files(&files) {
            let expired = group.into_iter().filter_map(|files| {
                let (info, verdict) = judged.remove(&key(files)).flatten()?;
                expired_session(files, info, verdict)
            });
            let moved = expired.collect();
            self.groups.push(moved);
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
        crate::sort::by_key(&mut sessions, |(_, info)| (Reverse(info.updated), &info.id));
        newest.extend(sessions.into_iter().take(keep).map(|(at, _)| at));
    }
    newest
}

/// Returns an expired session; `None` if the verdict is another.
fn expired_session(files: &SessionFiles, info: SessionInfo, verdict: Verdict) -> Option<Expired> {
    let Verdict::Expired {
        last,
        cutoff,
        term,
        rule,
    } = verdict
    else {
        return None;
    };
    Some(Expired {
        from_file_time: info.last_activity_by_file,
        info,
        last,
        cutoff,
        term,
        rule,
        files: files.own_paths().count(),
        session_files: files.clone(),
    })
}

/// Groups sessions by shared files and by forks.
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
