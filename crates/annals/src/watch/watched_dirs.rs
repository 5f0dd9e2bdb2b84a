//! The directories that can contain logs: which are watched, which are polled, what they contain.
//!
//! Owns the watches. A directory is watched first and scanned after, so that nothing created in
//! between is missed. A missing root is awaited in the directories above it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::io::Errno;

use crate::error::Error;
use crate::store::content_cache::NoCache;
use crate::store::{Root, RootFile, record_source};
use annals_jsonl::FileId;
use annals_layouts::model::{Artifact, Framing};

use super::events::{EventSource, Hint, HintKind, WatchId};
use super::log_cursor::{UNSETTLED_NS, is_missing, is_recent};

/// A root, or the directory of a single log outside of any root.
#[derive(Debug)]
pub(super) struct WatchedRoot {
    pub(super) root: Root,
    /// The only log to follow, by its name.
    pub(super) single_log: Option<(PathBuf, Artifact)>,
}

impl WatchedRoot {
    fn leads_to_logs(&self, dir: &Path) -> bool {
        self.single_log.is_none() && self.root.layout.may_hold_logs(dir)
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        match &self.single_log {
            Some((name, artifact)) => (name == path).then(|| artifact.clone()),
            None => {
                let artifact = self.root.layout.classify(path)?;
                artifact.kind.is_conversation().then_some(artifact)
            }
        }
    }
}

/// Result of a scan.
#[derive(Debug)]
pub(super) enum ScanEvent {
    /// A log exists.
    Log {
        place: usize,
        path: PathBuf,
        artifact: Artifact,
        id: FileId,
    },
    /// Nothing exists at this path any more, nor below it.
    Gone(PathBuf),
    /// The scan of this directory and everything below is complete: logs that it did not find are
    /// gone.
    DirScanned(PathBuf),
    /// Something could not be read.
    Error(Error),
    /// Directories are polled from now on.
    Polling(String),
}

/// Purpose of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchUse {
    /// A directory of a root, by its path in the root.
    Dir(usize, PathBuf),
    /// A directory above a root, and the name in it that leads to the root. A directory that is
    /// removed while a file in it is open does not report this itself.
    Above(usize, OsString),
}

impl WatchUse {
    fn place(&self) -> usize {
        match self {
            WatchUse::Dir(place, _) | WatchUse::Above(place, _) => *place,
        }
    }
}

/// The directories of all roots.
pub(super) struct WatchedDirs {
    pub(super) roots: Vec<WatchedRoot>,
    pub(super) source: EventSource,
    uses: HashMap<WatchId, Vec<WatchUse>>,
    watched: HashMap<(usize, PathBuf), WatchId>,
    /// Directories without a watch.
    polled: BTreeSet<(usize, PathBuf)>,
    /// The path under which each directory of a root was entered: links may lead to a directory
    /// twice.
    entered: HashMap<(usize, u64, u64), PathBuf>,
    /// Maximum number of watches.
    max_watches: usize,
    polling_reported: bool,
    /// Links that were reported.
    reported_links: HashSet<(usize, PathBuf)>,
}

impl WatchedDirs {
    pub(super) fn new(places: Vec<WatchedRoot>, source: EventSource, most: usize) -> Self {
        WatchedDirs {
            roots: places,
            source,
            uses: HashMap::new(),
            watched: HashMap::new(),
            polled: BTreeSet::new(),
            entered: HashMap::new(),
            max_watches: most,
            polling_reported: false,
            reported_links: HashSet::new(),
        }
    }

    /// Returns whether some directories must be polled.
    pub(super) fn must_poll(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Scans all roots.
    pub(super) fn scan_all(&mut self, scan_events: &mut Vec<ScanEvent>) {
        for place in 0..self.roots.len() {
            self.attach(place, scan_events);
        }
    }

    /// Scans the directories without a watch.
    pub(super) fn scan_polled(&mut self, scan_events: &mut Vec<ScanEvent>) {
        let polled: Vec<(usize, PathBuf)> = self.polled.iter().cloned().collect();
        let covered = |place: usize, within: &Path| {
            let mut above = within.ancestors().skip(1);
            above.any(|above| self.polled.contains(&(place, above.to_owned())))
        };
        let mut tops = polled;
        tops.retain(|(place, within)| !covered(*place, within));
        for (place, within) in tops {
            if within.as_os_str().is_empty() {
                self.attach(place, scan_events);
            } else {
                self.scan_name(place, &within, scan_events);
            }
        }
    }

    /// Scans the place that a hint names.
    pub(super) fn scan_hint(&mut self, hint: &Hint, scan_events: &mut Vec<ScanEvent>) {
        if hint.kind == HintKind::Overflow {
            self.scan_all(scan_events);
            return;
        }
        let spots = match hint.kind {
            HintKind::WatchEnded => self.uses.remove(&hint.watch),
            _ => self.uses.get(&hint.watch).cloned(),
        };
        for spot in spots.unwrap_or_default() {
            match (&spot, hint.kind) {
                (WatchUse::Dir(place, within), HintKind::WatchEnded) => {
                    let key = (*place, within.clone());
                    if self.watched.get(&key) == Some(&hint.watch) {
                        self.watched.remove(&key);
                    }
                    // The directory may have been created again under the same name.
                    self.recheck(*place, within, scan_events);
                }
                (WatchUse::Dir(place, within), HintKind::DirGone) => {
                    self.recheck(*place, within, scan_events);
                }
                (WatchUse::Above(place, name), what) => {
                    if what != HintKind::Changed && what != HintKind::Gone
                        || hint.name.as_ref() == Some(name)
                    {
                        self.attach(*place, scan_events);
                    }
                }
                (WatchUse::Dir(place, within), what) => {
                    let Some(name) = &hint.name else { continue };
                    let within = within.join(name);
                    match what {
                        HintKind::Gone => self.remove(*place, &within, scan_events),
                        _ => self.scan_name(*place, &within, scan_events),
                    }
                }
            }
        }
    }

    /// Scans a root, or waits for it.
    fn attach(&mut self, place: usize, scan_events: &mut Vec<ScanEvent>) {
        let Some(path) = self.roots.get(place).map(|place| place.root.path.clone()) else {
            return;
        };
        loop {
            let above = dirs_above(&path);
            self.watch_above(place, &above);
            if path.is_dir() {
                self.scan_dir(place, Path::new(""), true, scan_events);
            } else {
                self.remove(place, Path::new(""), scan_events);
                // Without a watch above, its creation is not reported.
                if !self.is_watched_above(place) {
                    self.polled.insert((place, PathBuf::new()));
                }
            }
            // Changes before the watches were set are not reported, so check again.
            let there = path.is_dir();
            let seen = self.entered.keys().any(|(of, _, _)| *of == place);
            if there == seen && self::dirs_above(&path) == above {
                return;
            }
        }
    }

    /// Watches the directories in which a root, or a directory that leads to it, is created or
    /// removed.
    fn watch_above(&mut self, place: usize, above: &[(PathBuf, OsString)]) {
        let watched = above.iter().filter_map(|(dir, name)| {
            let id = self.source.watch_names(dir).ok()?;
            Some((id, WatchUse::Above(place, name.clone())))
        });
        let watched: Vec<(WatchId, WatchUse)> = watched.collect();
        let stale = |other: &WatchUse| matches!(other, WatchUse::Above(of, _) if *of == place);
        let used = |id: &WatchId| watched.iter().any(|(other, _)| other == id);
        let unused = |(id, spots): (&WatchId, &Vec<WatchUse>)| {
            (!used(id) && spots.iter().any(stale)).then_some(*id)
        };
        let ids: Vec<WatchId> = self.uses.iter().filter_map(unused).collect();
        for id in ids {
            self.release(id, stale);
        }
        for (id, spot) in watched {
            self.add_use(id, spot);
        }
    }

    fn is_watched_above(&self, place: usize) -> bool {
        let is_above = |spot: &WatchUse| matches!(spot, WatchUse::Above(of, _) if *of == place);
        self.uses.values().flatten().any(is_above)
    }

    /// Removes uses from a watch, and the watch itself if none are left. Another root may be in the
    /// same directory.
    fn release(&mut self, id: WatchId, unused: impl Fn(&WatchUse) -> bool) {
        let Some(spots) = self.uses.get_mut(&id) else {
            return;
        };
        spots.retain(|spot| !unused(spot));
        if spots.is_empty() {
            self.uses.remove(&id);
            self.source.unwatch(id);
        }
    }

    /// Checks whether a path still exists.
    fn recheck(&mut self, place: usize, within: &Path, scan_events: &mut Vec<ScanEvent>) {
        if within.as_os_str().is_empty() {
            self.forget(place, within);
            return self.attach(place, scan_events);
        }
        self.scan_name(place, within, scan_events);
    }

    /// Scans one name.
    fn scan_name(&mut self, place: usize, within: &Path, scan_events: &mut Vec<ScanEvent>) {
        let Some(at) = self.roots.get(place) else {
            return;
        };
        // A program that writes to a database changes its write-ahead log.
        let database = record_source::database_of_wal(within);
        let database = database.filter(|path| at.classify(path).is_some());
        let within = database.as_deref().unwrap_or(within);
        let path = at.root.path.join(within);
        let artifact = at.classify(within);
        let leads = at.leads_to_logs(within);
        if artifact.is_none() && !leads {
            return;
        }
        let follows = at.root.follows(within);
        let failures = at.root.failures().clone();
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() || metadata.is_symlink() && follows => {
                if leads {
                    self.scan_dir(place, within, false, scan_events);
                }
            }
            Ok(metadata) if metadata.is_symlink() => {
                // A file or directory that had this name is gone.
                self.remove(place, within, scan_events);
                let target = failures.target_metadata(&path);
                if let Some(target) = target {
                    let links = [(within.to_owned(), FileId::from(&target))];
                    self.report_links(place, links.into(), &HashSet::new(), scan_events);
                }
            }
            Ok(metadata) if metadata.is_file() => {
                if let Some(artifact) = artifact {
                    self.scan_log(
                        place,
                        within,
                        artifact,
                        FileId::from(&metadata),
                        scan_events,
                    );
                }
            }
            Ok(_) => {}
            Err(error) if is_missing(&error) => self.remove(place, within, scan_events),
            Err(error) => scan_events.push(ScanEvent::Error(Error::io("read", &path, error))),
        }
    }

    fn scan_log(
        &mut self,
        place: usize,
        within: &Path,
        artifact: Artifact,
        id: FileId,
        scan_events: &mut Vec<ScanEvent>,
    ) {
        let Some(path) = self.path(place, within) else {
            return;
        };
        let Some(root) = self.roots.get(place).map(|at| at.root.clone()) else {
            return;
        };
        let failed =
            &mut |error| scan_events.push(ScanEvent::Error(Error::io("read", &path, error)));
        let mut id = record_source::identity(&path, artifact.framing, id, failed);
        if matches!(artifact.framing, Framing::Rows(_)) && is_recent(&id, Timestamp::now()) {
            // SQLite makes a transaction visible after it has written the file, and nothing would
            // report that.
            std::thread::sleep(Duration::from_nanos(UNSETTLED_NS));
            id = record_source::stat(&path, artifact.framing).unwrap_or(id);
        }
        let mut files = vec![RootFile::new(path, artifact, id)];
        let mut errors = Vec::new();
        record_source::split_databases(&root, &mut files, &mut NoCache, &mut errors);
        scan_events.extend(errors.into_iter().map(ScanEvent::Error));
        scan_events.extend(files.into_iter().map(|file| ScanEvent::Log {
            place,
            path: file.path,
            artifact: file.artifact,
            id: file.id,
        }));
    }

    fn path(&self, place: usize, within: &Path) -> Option<PathBuf> {
        Some(self.roots.get(place)?.root.path.join(within))
    }

    /// Removes a path and everything below it, and reports it as gone.
    fn remove(&mut self, place: usize, within: &Path, scan_events: &mut Vec<ScanEvent>) {
        self.forget(place, within);
        if let Some(path) = self.path(place, within) {
            scan_events.push(ScanEvent::Gone(path));
        }
    }

    /// Removes the watches on a directory and on everything below it.
    fn forget(&mut self, place: usize, within: &Path) {
        let below = |key: &(usize, PathBuf)| key.0 == place && key.1.starts_with(within);
        let mut ids = Vec::new();
        self.watched.retain(|key, id| {
            let goes = below(key);
            if goes {
                ids.push(*id);
            }
            !goes
        });
        self.polled.retain(|key| !below(key));
        self.entered
            .retain(|(of, _, _), path| *of != place || !path.starts_with(within));
        for id in ids {
            self.release(id, |spot| match spot {
                WatchUse::Dir(of, path) => *of == place && path.starts_with(within),
                WatchUse::Above(..) => false,
            });
        }
    }

    /// Watches a directory and everything below that may contain logs, and reports its content.
    ///
    /// Each directory is entered once, under its own name if it has one in the root: links that are
    /// followed come after all real directories. Other links are reported, as in a walk.
    fn scan_dir(
        &mut self,
        place: usize,
        from: &Path,
        whole: bool,
        scan_events: &mut Vec<ScanEvent>,
    ) {
        if whole {
            self.entered.retain(|(of, _, _), _| *of != place);
        }
        let mut visited = HashSet::new();
        let mut pending = vec![from.to_owned()];
        let mut links = BTreeSet::new();
        let mut unfollowed = Vec::new();
        while let Some(within) = pending.pop().or_else(|| links.pop_first()) {
            let Some(dir) = self.path(place, &within) else {
                return;
            };
            let read = self.enter(place, &dir, &within, &mut visited, scan_events);
            let entries = match read {
                Ok(Some(entries)) => entries,
                Ok(None) => continue,
                Err(error) => {
                    // A directory removed in the meantime is reported by the watch on its parent.
                    if !is_missing(&error) {
                        scan_events.push(ScanEvent::Error(Error::io("read", &dir, error)));
                    }
                    continue;
                }
            };
            for entry in entries {
                let Some(at) = self.roots.get(place) else {
                    return;
                };
                let failures = at.root.failures();
                let entry = failures.ok_io(&dir, entry);
                let kind = entry.and_then(|entry| {
                    let kind = failures.ok_io(&entry.path(), entry.file_type())?;
                    Some((entry, kind))
                });
                let Some((entry, kind)) = kind else {
                    continue;
                };
                let within = within.join(entry.file_name());
                let leads = at.leads_to_logs(&within);
                let artifact = at.classify(&within);
                if !leads && artifact.is_none() {
                    continue;
                }
                if kind.is_dir() {
                    pending.extend(Some(within).filter(|_| leads));
                    continue;
                }
                if kind.is_symlink() {
                    match failures.target_metadata(&entry.path()) {
                        Some(target) if target.is_dir() && leads && at.root.follows(&within) => {
                            links.insert(within);
                        }
                        Some(target) if target.is_dir() && leads || target.is_file() => {
                            unfollowed.push((within, FileId::from(&target)));
                        }
                        _ => {}
                    }
                    continue;
                }
                let metadata = failures.metadata(&entry.path());
                let metadata = metadata.filter(fs::Metadata::is_file);
                if let (Some(artifact), Some(metadata)) = (artifact, metadata) {
                    let id = FileId::from(&metadata);
                    self.scan_log(place, &within, artifact, id, scan_events);
                }
            }
        }
        self.report_links(place, unfollowed, &visited, scan_events);
        if let Some(path) = self.path(place, from) {
            scan_events.push(ScanEvent::DirScanned(path));
        }
    }

    /// Reports links that may lead to logs not found under their own names; each once.
    fn report_links(
        &mut self,
        place: usize,
        links: Vec<(PathBuf, FileId)>,
        visited: &HashSet<(u64, u64)>,
        scan_events: &mut Vec<ScanEvent>,
    ) {
        let Some(root) = self.roots.get(place).map(|at| at.root.clone()) else {
            return;
        };
        for (within, target) in links {
            let is_seen = |scan_event: &ScanEvent| matches!(scan_event, ScanEvent::Log { id, .. } if id.same_file(&target));
            let known = (place, target.dev, target.ino);
            let seen = self.entered.contains_key(&known)
                || visited.contains(&(target.dev, target.ino))
                || scan_events.iter().any(is_seen);
            if !seen && self.reported_links.insert((place, within.clone())) {
                scan_events.push(ScanEvent::Error(root.unfollowed_link_error(&within)));
            }
        }
    }

    /// Watches a directory, then lists it; `None` if it was entered under another name.
    fn enter(
        &mut self,
        place: usize,
        dir: &Path,
        within: &Path,
        visited: &mut HashSet<(u64, u64)>,
        scan_events: &mut Vec<ScanEvent>,
    ) -> io::Result<Option<fs::ReadDir>> {
        let id = FileId::from(&fs::metadata(dir)?);
        let known = self.entered.get(&(place, id.dev, id.ino));
        let elsewhere = known.filter(|known| *known != within);
        let elsewhere = elsewhere.and_then(|known| self.path(place, known));
        let still = elsewhere.is_some_and(|path| {
            let there = fs::metadata(path).map(|metadata| FileId::from(&metadata));
            there.is_ok_and(|there| there.same_file(&id))
        });
        if still || !visited.insert((id.dev, id.ino)) {
            return Ok(None);
        }
        self.entered
            .insert((place, id.dev, id.ino), within.to_owned());
        self.watch_dir(place, dir, within, scan_events)?;
        fs::read_dir(dir).map(Some)
    }

    fn watch_dir(
        &mut self,
        place: usize,
        dir: &Path,
        within: &Path,
        scan_events: &mut Vec<ScanEvent>,
    ) -> io::Result<()> {
        let key = (place, within.to_owned());
        let full = self.watched.len() >= self.max_watches && !self.watched.contains_key(&key);
        let watched = match full {
            true => Err(Errno::NOSPC.into()),
            // Returns the same watch if the directory is already watched.
            false => self.source.watch(dir),
        };
        match watched {
            Ok(id) => {
                self.polled.remove(&key);
                self.add_use(id, WatchUse::Dir(place, within.to_owned()));
                let before = self.watched.insert(key, id);
                // Another directory had this name before.
                if let Some(before) = before.filter(|before| *before != id) {
                    let stale = WatchUse::Dir(place, within.to_owned());
                    self.release(before, |spot| *spot == stale);
                }
                Ok(())
            }
            Err(error) if is_missing(&error) => Err(error),
            Err(error) => {
                self.polled.insert(key);
                self.report_polling(&error, scan_events);
                Ok(())
            }
        }
    }

    fn report_polling(&mut self, error: &io::Error, scan_events: &mut Vec<ScanEvent>) {
        // Polling that was requested is not reported.
        if self.polling_reported || !self.source.has_kernel() {
            return;
        }
        self.polling_reported = true;
        let why = match error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) {
            true => "the inotify watch limit is reached (fs.inotify.max_user_watches)".to_owned(),
            false => error.to_string(),
        };
        scan_events.push(ScanEvent::Polling(why));
    }

    fn add_use(&mut self, id: WatchId, spot: WatchUse) {
        let spots = self.uses.entry(id).or_default();
        if !spots.contains(&spot) {
            spots.push(spot);
            crate::sort::by_key(spots, WatchUse::place);
        }
    }
}

/// Returns the directories above a path to watch, each with the name that leads to the path. If the
/// path exists, only the nearest; else all that exist, because they may be removed one by one
/// without reporting it.
fn dirs_above(path: &Path) -> Vec<(PathBuf, OsString)> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let most = if path.is_dir() { 1 } else { usize::MAX };
    let steps = path.ancestors().skip(1).zip(path.ancestors());
    let there = steps.filter(|(dir, _)| dir.is_dir());
    let named =
        there.filter_map(|(dir, below)| Some((dir.to_owned(), below.file_name()?.to_owned())));
    named.take(most).collect()
}
