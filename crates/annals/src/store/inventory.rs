//! Files of the roots, grouped by session.

mod walk;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive_format::Archive;
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId, OpenLog, RangeReader};
use annals_layouts::model::{
    AgentId, Artifact, ArtifactKind, Body, Fact, Framing, ListRow, ListSubject, SessionId,
};

use super::Root;
use super::archive_overlay::{self, ArchivedFile};
use super::companion;
use super::content_cache::{self, ContentCache, NoCache};
use super::log_reader;
use super::record_source::{self, SharedSource};
use super::shared_log::{self, SessionSlice};
use super::thread;

pub(super) use walk::{walk, walk_with_dirs};

/// A file of a root and its classification.
#[derive(Clone, Debug)]
pub struct RootFile {
    /// Its path.
    pub path: PathBuf,
    /// Its classification.
    pub artifact: Artifact,
    /// Its identity when it was found.
    pub id: FileId,
    /// The part that belongs to its session, if several sessions share the file.
    pub slice: Option<Box<SessionSlice>>,
    /// Earlier volumes of the log, the oldest first.
    pub earlier: Vec<RootFile>,
    /// The companion of a shared log. It may be in the archive.
    pub(crate) companion: Option<Box<RootFile>>,
    /// Its location in the archive, if it is not on disk.
    pub(crate) archived: Option<Box<ArchivedFile>>,
    /// What the sessions in the file share, if its records are rows, or derived from the whole file.
    pub(crate) source: Option<SharedSource>,
}

impl RootFile {
    /// Creates a file without slice, earlier volumes or companion.
    pub(crate) fn new(path: PathBuf, artifact: Artifact, id: FileId) -> Self {
        let is_database = matches!(artifact.framing, Framing::Rows(_));
        RootFile {
            source: is_database.then(SharedSource::default),
            path,
            artifact,
            id,
            slice: None,
            earlier: Vec::new(),
            companion: None,
            archived: None,
        }
    }

    /// Returns whether it exists only in the archive.
    pub fn is_archived(&self) -> bool {
        self.archived.is_some()
    }

    /// Reads all its bytes.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = RangeReader::from_offset(self.open_bytes()?, 0).read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        Ok(bytes)
    }

    /// Reads all its records, one per line. They are its bytes, unless it is a document or a
    /// database.
    pub fn read_records(&self) -> Result<Vec<u8>> {
        let mut lines = Vec::new();
        let read = RangeReader::from_offset(self.open()?, 0).read_to_end(&mut lines);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        Ok(lines)
    }

    /// Opens its bytes for reading.
    pub(crate) fn open_bytes(&self) -> Result<OpenLog> {
        if let Some(kept) = &self.archived {
            return kept.open();
        }
        OpenLog::open(&self.path).map_err(|error| Error::io("read", &self.path, error))
    }

    /// Opens its records for reading, one per line.
    pub(crate) fn open(&self) -> Result<OpenLog> {
        let framing = self.artifact.framing;
        let open = || {
            let opened = match (&self.archived, &self.source) {
                (Some(kept), _) => {
                    let parts = kept.open_parts()?;
                    record_source::open_stored(&self.path, kept.open()?, parts, framing)
                }
                (None, Some(source)) => source.open(&self.path, framing),
                (None, None) => record_source::open(&self.path, framing),
            };
            opened.map_err(|error| Error::io("read", &self.path, error))
        };
        match (framing, &self.source) {
            (Framing::Document(_) | Framing::Files(_), Some(source)) => {
                let is_current = |known: FileId| {
                    let now = record_source::stat(&self.path, framing);
                    // What is in the archive does not change while it is listed.
                    self.is_archived() || now.is_ok_and(|now| known.untouched(&now))
                };
                source.open_derived(&self.path, is_current, open)
            }
            _ => open(),
        }
    }

    /// Returns a reader of the open file that starts at `offset`.
    pub(super) fn reader(&self, handle: OpenLog, offset: u64) -> RangeReader<OpenLog> {
        let reader = RangeReader::from_offset(handle, offset);
        match self.id.len {
            known if known > 0 && self.artifact.framing == Framing::Lines => {
                reader.with_known_len(known)
            }
            // The number of bytes is unknown.
            _ => reader,
        }
    }

    /// Returns the session of the log: the one its path names, or `wanted` if the log is shared or
    /// its path names none.
    pub(super) fn session(&self, wanted: &SessionId) -> SessionId {
        let own = self.artifact.session.as_ref();
        let own = own.filter(|_| self.slice.is_none());
        own.unwrap_or(wanted).clone()
    }

    /// Returns the volumes of the log, the oldest first.
    pub fn volumes(&self) -> impl DoubleEndedIterator<Item = &RootFile> {
        self.earlier.iter().chain(std::iter::once(self))
    }

    /// Returns the volume with the number that an outline or a flaw has.
    pub(crate) fn volume(&self, number: u16) -> &RootFile {
        self.volumes().nth(number.into()).unwrap_or(self)
    }

    /// Returns the number of bytes that belong to its session, in all volumes.
    pub fn bytes(&self) -> u64 {
        let own = |file: &RootFile| match &file.slice {
            None => file.id.len,
            Some(share) => share.bytes(),
        };
        self.volumes().map(own).sum()
    }
}

/// A session's log and the files that belong to it.
#[derive(Clone, Debug)]
pub struct SessionFiles {
    /// The root that contains it.
    pub root: Arc<Root>,
    /// The session.
    pub id: SessionId,
    /// The main agent's log; logs of sub-agents may exist without it.
    pub log: Option<RootFile>,
    /// The logs of sub-agents.
    pub agents: Vec<RootFile>,
    /// Everything else: todos, saved files, long outputs …
    pub attachments: Vec<RootFile>,
    /// Session-list rows of it and of its folders, the nearest first.
    pub list_rows: Vec<Arc<ListRow>>,
    /// The log of a session that is known but has no log file yet.
    pub(crate) unwritten: Option<Box<RootFile>>,
    /// Whether another folder of the root has a log of the same session. Files outside of folders
    /// belong to both.
    pub(crate) shared: bool,
}

impl SessionFiles {
    /// Creates a session without files.
    pub(super) fn new(root: Arc<Root>, id: SessionId) -> Self {
        SessionFiles {
            root,
            id,
            log: None,
            agents: Vec::new(),
            attachments: Vec::new(),
            list_rows: Vec::new(),
            unwritten: None,
            shared: false,
        }
    }

    /// Returns whether it is known, for example from a session list, but has no log yet.
    pub fn is_unwritten(&self) -> bool {
        self.unwritten.is_some()
    }

    /// Returns the logs that a session list may name: existing ones, and one that is not written
    /// yet.
    pub(super) fn listed_logs(&self) -> impl Iterator<Item = &RootFile> {
        self.logs().chain(self.unwritten.as_deref())
    }

    /// Fails if a session without a log was written to since it was found.
    pub(super) fn refuse_written(&self) -> Result<()> {
        match &self.unwritten {
            Some(log) if jsonl::exists(&log.path)? => Err(Error::File(FileError::Changed {
                path: log.path.clone(),
            })),
            _ => Ok(()),
        }
    }

    /// Adds a log. Volumes of one log must be added in order.
    fn add_log(&mut self, mut file: RootFile) {
        let agent = file.artifact.agent.clone();
        let known = match file.artifact.is_agent_log() {
            false => self.log.as_mut(),
            true => {
                let mut agents = self.agents.iter_mut();
                agents.find(|known| file.slice.is_some() && known.artifact.agent == agent)
            }
        };
        match known {
            Some(known) => {
                std::mem::swap(known, &mut file);
                let mut earlier = std::mem::take(&mut file.earlier);
                earlier.push(file);
                known.earlier = earlier;
            }
            None if file.artifact.is_agent_log() => self.agents.push(file),
            None => self.log = Some(file),
        }
    }

    /// Merges the logs of a later part of the session.
    fn absorb(&mut self, later: SessionFiles) {
        for mut file in later.log.into_iter().chain(later.agents) {
            let earlier = std::mem::take(&mut file.earlier);
            earlier.into_iter().for_each(|volume| self.add_log(volume));
            self.add_log(file);
        }
    }

    /// Returns the key that identifies a session within a root.
    fn sort_key(&self) -> (&SessionId, Option<&str>) {
        (&self.id, self.folder())
    }

    /// Returns whether it has a sub-agent with this id.
    pub(super) fn has_agent(&self, agent: &AgentId) -> bool {
        let mut agents = self.agents.iter();
        agents.any(|file| file.artifact.agent.as_ref() == Some(agent))
    }

    /// Returns its title in a session list.
    pub(crate) fn listed_title(&self) -> Option<String> {
        self.listed(|about| match about.subject {
            ListSubject::Session(_) => about.title.clone(),
            ListSubject::Folder(_) => None,
        })
    }

    /// Returns the first value that `what` finds in its session-list rows, the nearest first.
    pub(super) fn listed<T>(&self, what: impl Fn(&ListRow) -> Option<T>) -> Option<T> {
        self.list_rows.iter().find_map(|about| what(about))
    }

    /// Returns the size of its logs in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.logs().map(RootFile::bytes).sum()
    }

    /// Returns the size of all its files in bytes.
    pub fn bytes(&self) -> u64 {
        let bytes = |file: &RootFile| match companion::is_companion(file) {
            true => self.companion_bytes(file),
            false => file.bytes(),
        };
        self.files().map(bytes).sum()
    }

    /// Returns the session's share of a companion, in proportion to its share of the log.
    fn companion_bytes(&self, companion: &RootFile) -> u64 {
        let volumes = self.logs().flat_map(RootFile::volumes);
        let volumes = volumes.filter(|volume| {
            let (log, of) = (&volume.artifact, &companion.artifact);
            (&log.folder, &log.session) == (&of.folder, &of.session)
        });
        let (mut own, mut whole) = (0, 0);
        for volume in volumes {
            own += volume
                .slice
                .as_deref()
                .map_or(volume.id.len, SessionSlice::bytes);
            whole = volume.id.len;
        }
        let part = u128::from(companion.id.len) * u128::from(own.min(whole));
        let part = part.checked_div(u128::from(whole));
        part.map_or(companion.id.len, |part| part.try_into().unwrap_or(u64::MAX))
    }

    /// Returns its logs, the main agent's first.
    pub fn logs(&self) -> impl Iterator<Item = &RootFile> {
        self.log.iter().chain(&self.agents)
    }

    /// Returns its note logs.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &RootFile> {
        let notes = |file: &&RootFile| file.artifact.kind == ArtifactKind::Notes;
        self.attachments.iter().filter(notes)
    }

    /// Returns all its files.
    pub fn files(&self) -> impl Iterator<Item = &RootFile> {
        self.logs().chain(&self.attachments)
    }

    /// Returns the session without its logs, for what its other files hold.
    pub fn without_logs(&self) -> Self {
        SessionFiles {
            log: None,
            agents: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the path of its main file: a log, else an attachment.
    pub fn main_path(&self) -> &Path {
        self.listed_logs()
            .chain(&self.attachments)
            .next()
            .map_or(Path::new(""), |file| &file.path)
    }

    /// Returns whether it is a single log outside of a root's tree.
    pub(crate) fn is_lone(&self) -> bool {
        let place = |file: &RootFile| {
            let relative = file.path.strip_prefix(&self.root.path).ok()?;
            self.root.layout.classify(relative)
        };
        self.log.as_ref().is_some_and(|log| place(log).is_none())
    }

    /// Returns the directories within the root that are named after it. All files below them belong
    /// to it.
    pub(super) fn own_dirs(&self) -> BTreeSet<PathBuf> {
        let within = |path: &Path| path.strip_prefix(&self.root.path).ok().map(Path::to_owned);
        let named = |dir: &&Path| dir.file_name() == Some(OsStr::new(self.id.as_str()));
        let paths: Vec<PathBuf> = self.files().filter_map(|file| within(&file.path)).collect();
        let above = paths.iter().flat_map(|path| path.ancestors().skip(1));
        let beside = self.log.iter().filter(|log| log.slice.is_none());
        let beside: Vec<PathBuf> = beside
            .filter_map(|log| within(&log.path.with_extension("")))
            .collect();
        let beside = beside.iter().map(PathBuf::as_path);
        let dirs = above.chain(beside).filter(named);
        dirs.map(Path::to_owned).collect()
    }

    /// Returns the folder that the sessions of its project share.
    pub fn folder(&self) -> Option<&str> {
        self.listed_logs()
            .find_map(|file| file.artifact.folder.as_deref())
    }
}

/// The sessions and other files of some roots.
#[derive(Debug, Default)]
pub struct Inventory {
    /// The roots that were walked.
    pub(crate) roots: Vec<Root>,
    /// The sessions.
    pub sessions: Vec<SessionFiles>,
    /// Files that belong to no existing session.
    pub others: Vec<(Root, RootFile)>,
    /// Errors of the scan. All but links and special files are also reported to [`Root::failures`].
    pub errors: Vec<Error>,
    /// Whether a read failed during the scan, so that a file of a session may be missing from it.
    pub(crate) incomplete: bool,
}

impl Inventory {
    /// Returns whether everything could be read, so that what was not found does not exist.
    pub(crate) fn is_complete(&self) -> bool {
        self.errors.is_empty() && !self.incomplete
    }

    /// Scans the roots.
    pub(crate) fn scan(roots: &[Root]) -> Self {
        Inventory::scan_with_archive(roots, None)
    }

    /// Scans the roots, and adds archived files that are not on disk.
    pub(crate) fn scan_with_archive(roots: &[Root], archive: Option<&Archive>) -> Self {
        Inventory::scan_with_cache(roots, archive, &mut NoCache)
    }

    /// Like [`Self::scan_with_archive`], with facts from the contents of files.
    pub(super) fn scan_with_cache(
        roots: &[Root],
        archive: Option<&Archive>,
        cache: &mut dyn ContentCache,
    ) -> Self {
        let mut inventory = Inventory {
            roots: roots.to_vec(),
            ..Inventory::default()
        };
        for root in roots {
            let before = inventory.errors.len();
            let reports = root.failures.report_count();
            let from = Path::new("");
            let mut files = walk(root, from, &|_| true, &mut inventory.errors);
            let mut rows = archive_overlay::StoredRows::new();
            if let Some(archive) = archive {
                let is_absent = || root.path.try_exists().is_ok_and(|there| !there);
                let is_gone = files.is_empty() && is_absent();
                let walked = inventory.errors.len();
                rows = archive_overlay::add_archived(
                    archive,
                    root,
                    &mut files,
                    &|_| true,
                    &mut inventory.errors,
                );
                if is_gone && !files.is_empty() {
                    // A missing root is expected if its files are archived.
                    inventory.errors.drain(before..walked);
                }
            }
            record_source::split_databases(root, &mut files, cache, &mut inventory.errors);
            inventory.group(root, files, rows, cache);
            inventory.incomplete |= root.failures.report_count() != reports;
            let troubles = inventory.errors.iter().skip(before);
            for trouble in troubles.filter(|it| !it.is_no_file()) {
                root.failures.report(trouble.duplicate());
            }
        }
        inventory
    }

    /// Returns the files of a kind that belong to no session.
    pub fn others_of_kind(&self, kind: ArtifactKind) -> impl Iterator<Item = &(Root, RootFile)> {
        self.others
            .iter()
            .filter(move |(_, file)| file.artifact.kind == kind)
    }

    /// Returns the days after which the program of each root deletes sessions, where its settings
    /// contain it.
    pub fn retention_days(&self) -> HashMap<PathBuf, Option<u64>> {
        self.others_of_kind(ArtifactKind::Settings)
            .filter_map(|(root, file)| {
                let body = root
                    .failures
                    .ok(log_reader::read_document(root, file))?
                    .items
                    .into_iter()
                    .next()?
                    .body;
                match body {
                    Body::Settings { keep_days } => Some((root.path.clone(), keep_days)),
                    _ => None,
                }
            })
            .collect()
    }

    /// Groups the files of a root by session.
    fn group(
        &mut self,
        root: &Root,
        files: Vec<RootFile>,
        rows: archive_overlay::StoredRows,
        cache: &mut dyn ContentCache,
    ) {
        let root = Arc::new(root.clone());
        let other = |file: RootFile| (Root::clone(&root), file);
        let before = self.others.len();
        let mut sessions = SessionGrouper::new(&root, files.len());
        let mut beside = Vec::new();
        let is_shared = |file: &RootFile| file.artifact.kind == ArtifactKind::SharedLog;
        // Few layouts have shared logs.
        let (mut shared, files) = match files.iter().any(is_shared) {
            true => files.into_iter().partition(is_shared),
            false => (Vec::new(), files),
        };
        let (companions, files): (Vec<RootFile>, Vec<RootFile>) = match shared.is_empty() {
            true => (Vec::new(), files),
            false => files.into_iter().partition(companion::is_companion),
        };
        companion::attach_companions(&mut shared, &companions);
        for (id, file) in shared_log::split_by_session(&root, shared, cache, &mut self.errors) {
            sessions.add_log(&id, file);
        }
        for file in files {
            match (file.artifact.kind, file.artifact.session.clone()) {
                (ArtifactKind::SessionLog | ArtifactKind::AgentLog, Some(id)) => {
                    sessions.add_log(&id, file);
                }
                (ArtifactKind::AgentLog, None) => match content_cache::owner(&root, &file, cache) {
                    Some(id) => {
                        let file = as_own_log(&root, file, &id);
                        sessions.add_log(&id, file);
                    }
                    None => self.others.push(other(file)),
                },
                (_, Some(_)) => beside.push(file),
                (_, None) => self.others.push(other(file)),
            }
        }
        let own = self.others.iter().skip(before);
        let mut session_lists = SessionLists::read(&root, own.map(|(_, file)| file));
        let mut sessions = sessions.sorted();
        let mut unwritten = session_lists.unwritten(&root, &sessions);
        unwritten.extend(sessions_without_log(&root, &sessions, &beside));
        if !unwritten.is_empty() {
            sessions.extend(unwritten);
            sort_sessions(&mut sessions);
            mark_shared(&mut sessions);
        }
        for file in companions {
            if !companion::assign_companion(&mut sessions, &file) {
                self.others.push(other(file));
            }
        }
        for file in beside {
            match owner_index(&sessions, &file).and_then(|at| sessions.get_mut(at)) {
                Some(files) => files.attachments.push(file),
                None => self.others.push(other(file)),
            }
        }
        session_lists.add_stored(rows);
        for files in sessions.iter_mut().filter(|_| !session_lists.is_empty()) {
            files.list_rows = session_lists.rows(files.folder(), &files.id);
        }
        match self.sessions.is_empty() {
            true => self.sessions = sessions,
            false => self.sessions.append(&mut sessions),
        }
    }
}

/// Groups the logs of a root by session.
struct SessionGrouper<'a> {
    root: &'a Arc<Root>,
    found: Vec<SessionFiles>,
}

impl<'a> SessionGrouper<'a> {
    fn new(root: &'a Arc<Root>, most: usize) -> Self {
        SessionGrouper {
            root,
            found: Vec::with_capacity(most),
        }
    }

    /// Adds a log. The logs of one session are mostly adjacent.
    fn add_log(&mut self, id: &SessionId, file: RootFile) {
        // Two folders may have a log of the same name: a session that was moved or copied.
        let folder = file.artifact.folder.as_deref();
        match self.found.last_mut() {
            Some(last) if last.sort_key() == (id, folder) => last.add_log(file),
            _ => {
                let mut files = SessionFiles::new(Arc::clone(self.root), id.clone());
                files.add_log(file);
                self.found.push(files);
            }
        }
    }

    /// Returns each session once, sorted by id and folder.
    fn sorted(self) -> Vec<SessionFiles> {
        let mut sessions = self.found;
        if !sessions.is_sorted_by(|one, other| one.sort_key() < other.sort_key()) {
            sort_sessions(&mut sessions);
            if !sessions.is_sorted_by(|one, other| one.sort_key() < other.sort_key()) {
                let found = std::mem::take(&mut sessions);
                for files in found {
                    match sessions.last_mut() {
                        Some(last) if last.sort_key() == files.sort_key() => last.absorb(files),
                        _ => sessions.push(files),
                    }
                }
            }
        }
        mark_shared(&mut sessions);
        sessions
    }
}

/// Returns the sessions that have a file which their program creates with the log, but no log in
/// `found`, which must be sorted.
fn sessions_without_log(
    root: &Arc<Root>,
    found: &[SessionFiles],
    attachments: &[RootFile],
) -> Vec<SessionFiles> {
    let is_note = |file: &&RootFile| {
        file.artifact.kind == ArtifactKind::Notes && file.artifact.agent.is_none()
    };
    let begun = attachments.iter().filter(is_note);
    let begun = begun.filter(|file| owner_index(found, file).is_none());
    begun
        .filter_map(|file| thread::session_without_log(root, file))
        .collect()
}

/// Marks sessions whose id occurs in several folders.
fn mark_shared(sessions: &mut [SessionFiles]) {
    for same in sessions.chunk_by_mut(|one, other| one.id == other.id) {
        let shared = same.len() > 1;
        same.iter_mut().for_each(|files| files.shared = shared);
    }
}

/// Sorts sessions by id and folder, in place: touching new memory costs more than moving them. The
/// sort is stable.
fn sort_sessions(sessions: &mut [SessionFiles]) {
    // Most ids differ in their first bytes; none contains NUL.
    let head = |files: &SessionFiles| {
        let mut head = [0; 16];
        let id = files.id.as_str().bytes();
        head.iter_mut().zip(id).for_each(|(to, from)| *to = from);
        u128::from_be_bytes(head)
    };
    let heads = sessions.iter().map(head);
    let mut order: Vec<(u128, usize)> = heads.zip(0..).collect();
    let place = |at: usize| sessions.get(at).map(SessionFiles::sort_key);
    order.sort_unstable_by(|(one, a), (other, b)| {
        let heads = one.cmp(other);
        let places = heads.then_with(|| place(*a).cmp(&place(*b)));
        places.then(a.cmp(b))
    });
    for at in 0..order.len() {
        let from = |at: usize| order.get(at).map_or(at, |(_, from)| *from);
        // An earlier swap may have moved the session for this position.
        let mut other = from(at);
        while other < at {
            other = from(other);
        }
        if let Some((_, from)) = order.get_mut(at) {
            *from = other;
        }
        sessions.swap(at, other);
    }
}

/// Returns the session that an attachment belongs to. If several folders have the session, the one
/// in the same folder wins, else the first.
fn owner_index(sessions: &[SessionFiles], file: &RootFile) -> Option<usize> {
    let id = file.artifact.session.as_ref()?;
    let first = sessions.partition_point(|files| files.id < *id);
    let same = sessions.iter().skip(first);
    let mut same = same.take_while(|files| files.id == *id);
    let folder = file.artifact.folder.as_deref();
    let exact = same.clone().position(|files| files.folder() == folder);
    same.next().map(|_| first + exact.unwrap_or(0))
}

/// Rows of the session lists of a root.
#[derive(Debug, Default)]
pub(super) struct SessionLists {
    /// Rows by the list's folder and the session.
    sessions: HashMap<(Option<String>, SessionId), Arc<ListRow>>,
    folders: HashMap<String, Arc<ListRow>>,
}

impl SessionLists {
    /// Reads session lists. A list that cannot be read is reported and skipped.
    pub(super) fn read<'a>(root: &Root, files: impl IntoIterator<Item = &'a RootFile>) -> Self {
        let mut session_lists = SessionLists::default();
        let is_session_list = |file: &&RootFile| file.artifact.kind == ArtifactKind::SessionList;
        for file in files.into_iter().filter(is_session_list) {
            let document = root.failures.ok(log_reader::read_document(root, file));
            for entry in document.into_iter().flat_map(|sink| sink.items) {
                let Body::SessionList(rows) = entry.body else {
                    continue;
                };
                for about in rows {
                    session_lists.add(file.artifact.folder.clone(), about);
                }
            }
        }
        session_lists
    }

    /// Returns the listed sessions that have no log in `found`, which must be sorted.
    fn unwritten(&self, root: &Arc<Root>, found: &[SessionFiles]) -> Vec<SessionFiles> {
        let mut unwritten = Vec::new();
        for (folder, id) in self.sessions.keys() {
            let place = (id, folder.as_deref());
            if found
                .binary_search_by(|files| files.sort_key().cmp(&place))
                .is_ok()
            {
                continue;
            }
            let artifact = Artifact {
                folder: folder.clone(),
                session: Some(id.clone()),
                ..Artifact::new(ArtifactKind::SessionLog)
            };
            let within = root.layout.path_for(&artifact);
            let writer = root.layout.writer();
            let listed = writer.is_some_and(|writer| writer.session_list(&artifact).is_some());
            if listed && root.layout.classify(&within).as_ref() == Some(&artifact) {
                let path = root.path.join(within);
                let file = RootFile::new(path, artifact, FileId::default());
                let mut files = SessionFiles::new(Arc::clone(root), id.clone());
                files.unwritten = Some(file.into());
                unwritten.push(files);
            }
        }
        unwritten
    }

    /// Restores session-list rows saved when the session was archived.
    pub(super) fn add_stored(&mut self, rows: archive_overlay::StoredRows) {
        // Of two rows for one session, the later one wins.
        for (folder, about) in rows.into_iter().rev() {
            if let ListSubject::Session(id) = &about.subject {
                let known = self.sessions.entry((folder, id.clone()));
                known.or_insert_with(|| Arc::new(about));
            }
        }
    }

    fn add(&mut self, folder: Option<String>, about: ListRow) {
        match about.subject.clone() {
            ListSubject::Session(id) => {
                self.sessions.insert((folder, id), Arc::new(about));
            }
            ListSubject::Folder(name) => {
                self.folders.insert(name, Arc::new(about));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.folders.is_empty()
    }

    /// Returns the rows of a session in a folder, the nearest first.
    pub(super) fn rows(&self, folder: Option<&str>, id: &SessionId) -> Vec<Arc<ListRow>> {
        if self.is_empty() {
            return Vec::new();
        }
        let key = (folder.map(str::to_owned), id.clone());
        let mut found: Vec<Arc<ListRow>> = self.sessions.get(&key).cloned().into_iter().collect();
        // From the folder upwards.
        let mut name = folder;
        while let Some(folder) = name {
            found.extend(self.folders.get(folder).cloned());
            name = folder.rsplit_once('/').map(|(above, _)| above);
        }
        found
    }
}

/// Number of records within which a log names its session, if its path does not. The first ones may
/// be of kinds that name none.
pub(super) const SESSION_ID_LINES: usize = 20;

/// Returns the session that the content of a log names.
pub(super) fn session_from_content(root: &Root, file: &RootFile) -> Option<SessionId> {
    let named = log_reader::first_fact(root, file, SESSION_ID_LINES, named_session);
    root.failures.ok(named)?
}

fn named_session(fact: &Fact) -> Option<SessionId> {
    match fact {
        Fact::Session(id) => SessionId::new(id).ok(),
        _ => None,
    }
}

/// Turns a log with a sub-agent's path into the session's own log if the file is named after the
/// session and the record that names the session is no sub-agent's. Session ids are free text, so
/// they may begin like the names of sub-agent logs.
fn as_own_log(root: &Root, mut file: RootFile, session: &SessionId) -> RootFile {
    let stem = file.path.file_stem().and_then(OsStr::to_str);
    if stem != Some(session.as_str()) {
        return file;
    }
    let is_main = log_reader::first_reported(root, &file, SESSION_ID_LINES, |outline| {
        let mut facts = outline.facts.iter();
        let named = facts.any(|fact| named_session(fact).is_some());
        named.then_some(outline.agent.is_none())
    });
    if root.failures.ok(is_main).flatten() == Some(true) {
        file.artifact.kind = ArtifactKind::SessionLog;
        file.artifact.session = Some(session.clone());
        file.artifact.agent = None;
    }
    file
}
