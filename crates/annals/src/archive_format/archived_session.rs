//! What is archived together: a session with all its files, sessions that share logs, or the files
//! of a root that belong to no session.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::ROOT_ID;
use super::attributes::ArchivedDir;
use super::compressed_file::CompressedFile;
use super::manifest::{Manifest, Member, SessionKey, file_path};
use super::restore_filter::RestoreFilter;
use super::root_archive::RootArchive;
use super::tag;
use crate::error::{Error, Result};
use annals_layouts::model::{ArtifactKind, SessionId};

/// An archived session, or several that share log files, or the files of a root that belong to no
/// session.
#[derive(Clone, Debug)]
pub struct ArchivedSession {
    /// The compressed main log, or the directory of the root's archive for files that belong to no
    /// session.
    pub path: PathBuf,
    /// The layout's name.
    pub layout: &'static str,
    /// The root of the files.
    pub root: PathBuf,
    /// It is a log outside any tree; `root` is its directory.
    pub(crate) lone: bool,
    /// The sessions; empty for files that belong to no session.
    pub sessions: Vec<SessionKey>,
    /// The files, session logs first.
    pub members: Vec<Member>,
    /// Earlier versions of files that were replaced or cut, the oldest first.
    pub earlier: Vec<Member>,
    /// The directories of the files, outer ones first.
    pub(crate) dirs: Vec<ArchivedDir>,
    pub(crate) archive: Arc<RootArchive>,
    pub(crate) filter: RestoreFilter,
    /// Former paths of files that are restored to a renamed folder, by new path.
    pub(crate) moved: HashMap<PathBuf, PathBuf>,
    /// Open compressed files, which can be read even if the archive is removed.
    held: HashMap<PathBuf, Arc<CompressedFile>>,
}

/// Maximum number of files that are held open. Systems limit a process to as few as 256.
const MAX_HELD: usize = 128;

impl ArchivedSession {
    /// Returns when it was archived last.
    pub fn archived(&self) -> Timestamp {
        let members = self.members.iter().chain(&self.earlier);
        members.map(|it| it.archived).max().unwrap_or_default()
    }

    /// Returns the number of times that it was archived.
    pub fn generation(&self) -> u64 {
        let members = self.members.iter();
        members.map(|it| it.generation).max().unwrap_or_default()
    }

    /// Returns the length of the compressed files.
    pub fn packed(&self) -> u64 {
        self.all().map(|member| member.packed).sum()
    }

    /// Returns all files, including earlier versions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.earlier)
    }

    /// Returns the file with this path within the root.
    pub fn member(&self, path: &Path) -> Option<&Member> {
        self.members.iter().find(|member| member.path == path)
    }

    /// Returns the log of the first session, or the first file if there is none.
    pub fn main_log(&self) -> Option<&Member> {
        let mut logs = self.members.iter();
        let main = logs.find(|member| self.is_session_log(&member.path));
        main.or(self.members.first())
    }

    /// Returns whether a path is that of a session log. A log that may hold records of other sessions
    /// is one if it is named after a session.
    pub(crate) fn is_session_log(&self, path: &Path) -> bool {
        let Some(artifact) = self.archive.layout.classify(path).filter(|_| !self.lone) else {
            return false;
        };
        let is_named = |id: &SessionId| self.sessions.iter().any(|it| it.id == id.as_str());
        match artifact.kind {
            ArtifactKind::SessionLog => true,
            ArtifactKind::SharedLog => artifact.session.as_ref().is_some_and(is_named),
            _ => false,
        }
    }

    /// Returns whether it consists of files that belong to no session.
    pub(crate) fn has_no_session(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns whether one of its sessions has this id.
    pub(crate) fn has_session(&self, id: &str) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|session| session.id == id) || (id == ROOT_ID && self.has_no_session())
    }

    /// Returns whether the id of one of its sessions starts with `id` or matches it as a name.
    pub(crate) fn matches_id(&self, id: &str) -> bool {
        let fits = |session: &SessionKey| {
            let named = SessionId::new(&session.id).is_ok_and(|session| session.matches_name(id));
            named || session.id.starts_with(id)
        };
        self.sessions.iter().any(fits) || self.has_session(id)
    }

    /// Returns the tag of its folder, which distinguishes sessions with the same id.
    pub fn tag(&self) -> Option<String> {
        let folder = self.sessions.first()?.folder.as_deref();
        Some(tag(&[folder.unwrap_or_default().as_bytes()]))
    }

    /// Returns whether `text` is a prefix of the session's id, a dot and a prefix of the tag.
    pub(crate) fn is_tagged(&self, text: &str) -> bool {
        let parts = text.rsplit_once('.').zip(self.tag());
        parts.is_some_and(|((id, tag), own)| {
            !tag.is_empty() && own.starts_with(tag) && !id.is_empty() && self.matches_id(id)
        })
    }

    /// Returns it with an earlier version of a file in place of the newest. `number` counts
    /// `earlier` from 1; `None` if it is out of range.
    pub fn with_earlier_version(&self, number: usize) -> Option<Self> {
        let earlier = self.earlier.get(number.checked_sub(1)?)?.clone();
        let mut session = self.clone();
        let members = &mut session.members;
        match members.iter_mut().find(|it| it.path == earlier.path) {
            Some(newest) => *newest = earlier,
            None => members.push(earlier),
        }
        Some(session)
    }

    /// Returns the path of the compressed file of a member.
    pub fn location(&self, member: &Member) -> PathBuf {
        match self.moved.get(&member.path) {
            None => member.location(&self.archive.dir),
            Some(was) => Member {
                path: was.clone(),
                ..member.clone()
            }
            .location(&self.archive.dir),
        }
    }

    /// Opens one of its files.
    pub fn file(&self, member: &Member) -> Result<Arc<CompressedFile>> {
        let path = self.location(member);
        if let Some(held) = self.held.get(&path) {
            return Ok(Arc::clone(held));
        }
        let opened = CompressedFile::open(&path, member.packed, member.id());
        let opened = opened.map_err(|error| Error::io("read", &path, error));
        opened.map(Arc::new)
    }

    /// Returns it with some of its files open, as far as they can be opened and are not too many.
    pub(crate) fn holding<'a>(&self, members: impl Iterator<Item = &'a Member>) -> Self {
        let mut session = self.clone();
        for member in members.take(MAX_HELD) {
            // A file that cannot be opened is reported when it is read.
            if let Ok(opened) = self.file(member) {
                session.held.insert(self.location(member), opened);
            }
        }
        session
    }

    /// Returns the archived rows of session lists, with the paths of their logs.
    pub(crate) fn rows(&self) -> Vec<(PathBuf, String)> {
        let rows = self.members.iter().flat_map(|member| {
            let path = &member.path;
            member
                .list_rows
                .iter()
                .map(|row| (path.clone(), row.clone()))
        });
        rows.collect()
    }
}

/// Groups the files of a manifest.
pub(crate) fn group(archive: &Arc<RootArchive>, manifest: &Manifest) -> Vec<ArchivedSession> {
    let mut groups = Groups::new(archive, manifest);
    let mut found: BTreeMap<Option<usize>, Vec<&Member>> = BTreeMap::new();
    for member in manifest.files.values() {
        for number in groups.of(archive, member) {
            found.entry(number).or_default().push(member);
        }
    }
    let mut earlier: HashMap<&Path, Vec<&Member>> = HashMap::new();
    for version in manifest.versions.values() {
        earlier.entry(&version.path).or_default().push(version);
    }
    let make = |(number, members): (Option<usize>, Vec<&Member>)| {
        let sessions = number.and_then(|number| groups.sessions.remove(&number));
        make(
            archive,
            manifest,
            sessions.unwrap_or_default(),
            &members,
            &earlier,
        )
    };
    found.into_iter().map(make).collect()
}

fn make(
    archive: &Arc<RootArchive>,
    manifest: &Manifest,
    mut sessions: Vec<SessionKey>,
    members: &[&Member],
    earlier: &HashMap<&Path, Vec<&Member>>,
) -> ArchivedSession {
    let kind = |member: &Member| archive.layout.classify(&member.path).map(|it| it.kind);
    let mut ordered: Vec<(bool, bool, &Member)> = members
        .iter()
        .map(|member| {
            let kind = kind(member);
            let is_log = kind.is_some_and(|kind| kind.is_log());
            // The main log names all sessions.
            let is_main = kind == Some(ArtifactKind::SessionLog) || archive.lone;
            (!is_main, !is_log, *member)
        })
        .collect();
    ordered.sort_by(|one, other| {
        let key = |it: &(bool, bool, &Member)| (it.0, it.1, std::cmp::Reverse(it.2.sessions.len()));
        key(one).cmp(&key(other))
    });
    let members: Vec<Member> = ordered.into_iter().map(|(.., it)| it.clone()).collect();
    if let Some(main) = members.first() {
        let order = |key: &SessionKey| main.sessions.iter().position(|it| it == key);
        sessions.sort_by_key(|key| order(key).unwrap_or(usize::MAX));
    }
    let versions = members.iter().filter_map(|it| earlier.get(&*it.path));
    let mut versions: Vec<Member> = versions.flatten().copied().cloned().collect();
    versions.sort_by_key(|it| (it.until, it.version));
    let mut dirs: BTreeMap<&Path, &ArchivedDir> = BTreeMap::new();
    for above in members.iter().flat_map(|it| it.path.ancestors().skip(1)) {
        dirs.extend(manifest.dirs.get(above).map(|dir| (&*dir.path, dir)));
    }
    let path = match (sessions.first(), members.first()) {
        (Some(_), Some(main)) => file_path(&archive.dir, &main.path),
        _ => archive.dir.clone(),
    };
    ArchivedSession {
        path,
        layout: archive.layout.name(),
        root: archive.root.clone(),
        lone: archive.lone,
        sessions,
        dirs: dirs.into_values().cloned().collect(),
        members,
        earlier: versions,
        archive: Arc::clone(archive),
        filter: RestoreFilter::default(),
        moved: HashMap::new(),
        held: HashMap::new(),
    }
}

/// Sessions that share files, by number.
#[derive(Default)]
struct Groups {
    numbers: HashMap<SessionKey, usize>,
    /// The number that replaces each number.
    replaced: Vec<usize>,
    /// The sessions of each group, and the groups with each id.
    sessions: HashMap<usize, Vec<SessionKey>>,
    by_id: HashMap<String, Vec<usize>>,
}

impl Groups {
    fn new(archive: &RootArchive, manifest: &Manifest) -> Self {
        let mut groups = Groups::default();
        let (others, own): (Vec<&Member>, Vec<&Member>) = manifest
            .files
            .values()
            .partition(|it| is_outside_folders(archive, it));
        for member in own {
            groups.join(&member.sessions);
        }
        let known: HashSet<String> = groups.numbers.keys().map(|key| key.id.clone()).collect();
        for member in others {
            let first = member.sessions.first();
            if first.is_some_and(|first| !known.contains(&first.id)) {
                groups.join(&member.sessions);
            }
        }
        let mut all: Vec<(&SessionKey, usize)> = groups
            .numbers
            .iter()
            .map(|(key, number)| (key, groups.representative(*number)))
            .collect();
        all.sort();
        let (mut sessions, mut by_id): (HashMap<_, Vec<_>>, HashMap<_, Vec<_>>) =
            Default::default();
        for (key, number) in all {
            sessions.entry(number).or_default().push(key.clone());
            by_id.entry(key.id.clone()).or_default().push(number);
        }
        Groups {
            sessions,
            by_id,
            ..groups
        }
    }

    /// Puts sessions into one group.
    fn join(&mut self, sessions: &[SessionKey]) {
        let mut first = None;
        for key in sessions {
            let next = self.replaced.len();
            let number = *self.numbers.entry(key.clone()).or_insert(next);
            if number == next {
                self.replaced.push(next);
            }
            let number = self.representative(number);
            let first = *first.get_or_insert(number);
            if let Some(replaced) = self.replaced.get_mut(number) {
                *replaced = first;
            }
        }
    }

    fn representative(&self, mut number: usize) -> usize {
        while let Some(&next) = self.replaced.get(number).filter(|next| **next != number) {
            number = next;
        }
        number
    }

    /// Returns the groups of a file.
    fn of(&self, archive: &RootArchive, member: &Member) -> Vec<Option<usize>> {
        let Some(first) = member.sessions.first() else {
            return vec![None];
        };
        let mut found: Vec<Option<usize>> = match self.by_id.get(&first.id) {
            Some(same) if is_outside_folders(archive, member) => {
                same.iter().copied().map(Some).collect()
            }
            _ => {
                let number = self.numbers.get(first);
                vec![number.map(|number| self.representative(*number))]
            }
        };
        found.dedup();
        found
    }
}

/// Returns whether a file, such as todos, is outside of folders, so that it belongs to every session
/// with its id.
fn is_outside_folders(archive: &RootArchive, member: &Member) -> bool {
    let artifact = archive
        .layout
        .classify(&member.path)
        .filter(|_| !archive.lone);
    artifact.is_some_and(|it| it.folder.is_none() && !it.kind.is_log())
}
