//! Adds archived files to the files of a root: archived sessions, and missing files of live
//! sessions.
//!
//! They are found, read and priced like all others. They keep their former paths; only their bytes
//! come from a pack.
//!
//! If a session's log is on disk, only files that agent programs delete by themselves are taken
//! from the archive: sub-agents, tool outputs, saved file versions, todos. The member list shows
//! which packs contain missing files, so a session list need not open thousands of packs.
//!
//! `RootFile::open` returns bytes that are read by offset (`ReadAt`), so the same code reads files
//! of a root and of a pack. Archived files keep the identity that they had on disk, so index rows
//! of them stay valid.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive::{self, Archive, MemberList, Pack, PackIndex};
use crate::error::{Error, Result};
use annals_jsonl::{FileId, OpenLog};
use annals_layouts::model::{AgentId, Artifact, ArtifactKind, Body, ListRow, SessionId};
use annals_layouts::text::quoted_command;

use super::inventory::{RootFile, SessionFiles};
use super::{Root, decode_document};

/// Location of a file in the archive. The pack is opened on demand, because there may be more packs
/// than a process may have open.
#[derive(Clone, Debug)]
pub(crate) struct ArchivedFile {
    pack: Arc<Path>,
    /// Its path within the root.
    path_in_root: PathBuf,
}

impl ArchivedFile {
    pub(super) fn open(&self) -> Result<OpenLog> {
        let pack = Pack::open(&self.pack)?;
        let member = pack.member(&self.path_in_root).ok_or_else(|| {
            let (pack, within) = (self.pack.display(), self.path_in_root.display());
            Error::refused(format!("{pack} no longer contains {within}"))
        })?;
        Ok(OpenLog::Archived(Arc::new(pack.file(member))))
    }
}

impl RootFile {
    /// Returns the pack of an archived file and the file's path in the root.
    pub(crate) fn archive_location(&self) -> Option<(&Path, &Path)> {
        let kept = self.archived.as_ref()?;
        Some((&kept.pack, &kept.path_in_root))
    }
}

impl SessionFiles {
    /// Returns whether its log exists only in the archive.
    pub fn is_archived(&self) -> bool {
        let mut logs = self.logs();
        logs.next().is_some_and(RootFile::is_archived)
    }

    /// Returns the attachments that are on disk.
    pub(super) fn attachments_on_disk(&self) -> Vec<RootFile> {
        let there = self.attachments.iter().filter(|file| !file.is_archived());
        there.cloned().collect()
    }

    /// Refuses a session with files that exist only in the archive, where all of them must be on
    /// disk.
    pub(crate) fn refuse_partly_archived(&self) -> Result<()> {
        let mut files = self.files().flat_map(RootFile::volumes);
        match files.find(|file| file.is_archived()) {
            None => Ok(()),
            Some(file) => Err(Error::refused(format!(
                "{} is only in the archive; {} restores it, --without-archived skips it",
                file.path.display(),
                quoted_command("annals restore", self.id.as_str(), "--apply")
            ))),
        }
    }

    /// Refuses to change an archived session.
    pub fn refuse_archived(&self) -> Result<()> {
        match self.is_archived() {
            false => Ok(()),
            true => Err(Error::refused(format!(
                "session {} is archived and cannot be changed; {} restores it",
                self.id,
                quoted_command("annals restore", self.id.as_str(), "--apply")
            ))),
        }
    }
}

/// Session-list rows, with the folders of their session lists.
pub(super) type StoredRows = Vec<(Option<String>, ListRow)>;

/// Adds the archived files of a root that are not on disk. Returns the session-list rows saved for
/// them.
pub(super) fn add_archived(
    archive: &Archive,
    root: &Root,
    files: &mut Vec<RootFile>,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> StoredRows {
    let paths = archive.pack_paths_of_root(root).unwrap_or_else(|error| {
        troubles.push(error);
        Vec::new()
    });
    if paths.is_empty() {
        return StoredRows::new();
    }
    let live = pack_names(files);
    let is_live = |path: &PathBuf| path.file_name().is_some_and(|name| live.contains(name));
    let gone = paths.iter().filter(|path| !is_live(path));
    let mut packs = open_packs(gone.map(PathBuf::as_path), troubles);
    // If two packs contain a file, the newer pack wins.
    packs.sort_by_key(|known| std::cmp::Reverse(known.index.archived));
    let here = paths.iter().filter(|path| is_live(path));
    let here: Vec<&Path> = here.map(PathBuf::as_path).collect();
    let lacking = packs_with_missing_files(root, files, &here, wanted, troubles);
    let mut found = Vec::new();
    let mut rows = StoredRows::new();
    if !packs.is_empty() || !lacking.is_empty() {
        let moved = RenamedFiles::new(files);
        let mut there: HashSet<PathBuf> = HashSet::new();
        there.extend(files.iter().map(|file| file.path.clone()));
        let beside = |kind| archive::is_attachment(kind) && wanted(kind);
        for known in &lacking {
            let gone = known.missing_files(root, &FolderRenames::new(), &mut there, &beside);
            found.extend(gone.into_iter().filter(|file| !moved.is_present(file)));
        }
        let elsewhere = replacement_packs(root, &moved, &packs, &here, troubles);
        for (known, now) in packs.iter().zip(&elsewhere) {
            let folders = moved.folders(root, &known.index);
            let folders = match now {
                Some(now) if folders.is_empty() => folder_renames(root, &known.index, now),
                _ => folders,
            };
            if known.index.has_no_session() {
                let is_listed = |kind| archive::is_listed_when_archived(kind) && wanted(kind);
                found.extend(known.missing_files(root, &folders, &mut there, &is_listed));
            } else if folders.is_empty() {
                found.extend(known.missing_files(root, &folders, &mut there, wanted));
                let saved = known.index.rows.iter();
                let saved = saved.map(|row| (row.path.as_path(), row.text.as_str()));
                rows.extend(stored_rows(root, saved));
            } else {
                // The session is listed under its new folder. Its missing files get their new
                // paths.
                let gone = known.missing_files(root, &folders, &mut there, &beside);
                found.extend(gone.into_iter().filter(|file| !moved.is_present(file)));
            }
        }
    }
    if !found.is_empty() {
        files.append(&mut found);
        // Sort them by path, like files found on disk.
        files.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    }
    rows
}

/// Returns the packs of sessions on disk that may contain missing files.
fn packs_with_missing_files(
    root: &Root,
    files: &[RootFile],
    packs: &[&Path],
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> Vec<KnownPack> {
    let Some(dir) = packs.first().and_then(|pack| pack.parent()) else {
        return Vec::new();
    };
    let Some(roster) = MemberList::read(dir) else {
        return open_packs(packs.iter().copied(), troubles);
    };
    let beside = files.iter();
    let beside = beside.filter(|file| archive::is_attachment(file.artifact.kind));
    let within = beside.filter_map(|file| file.path.strip_prefix(&root.path).ok());
    let there: HashSet<u64> = within.map(archive::path_hash).collect();
    let logs = !wanted(ArtifactKind::ToolResult);
    let gone: HashSet<&OsStr> = roster.packs_with_missing_files(&there, logs).collect();
    let is_lacking = |pack: &Path| pack.file_name().is_some_and(|name| gone.contains(name));
    let lacking = packs.iter().copied().filter(|pack| is_lacking(pack));
    open_packs(lacking, troubles)
}

/// Returns for each pack of a missing session the pack that supersedes it, if that is another one:
/// the folder was renamed, and the session was archived under both names.
fn replacement_packs(
    root: &Root,
    moved: &RenamedFiles<'_>,
    packs: &[KnownPack],
    here: &[&Path],
    troubles: &mut Vec<Error>,
) -> Vec<Option<Arc<PackIndex>>> {
    let mut elsewhere: Vec<Option<Arc<PackIndex>>> = vec![None; packs.len()];
    let mut named: HashMap<&str, Vec<(usize, &KnownPack)>> = HashMap::new();
    for (at, known) in packs.iter().enumerate() {
        if let Some(session) = known.index.sessions.first() {
            named.entry(&session.id).or_default().push((at, known));
        }
    }
    // A restored session is in the folder of its own pack. Pack names start with the session id.
    let mut living: HashMap<&str, Vec<&Path>> = HashMap::new();
    for &pack in here {
        let name = pack.file_stem().and_then(OsStr::to_str);
        let session = name.and_then(|name| name.rsplit_once('.'));
        if let Some((session, _)) = session.filter(|(session, _)| named.contains_key(session)) {
            living.entry(session).or_default().push(pack);
        }
    }
    for (session, gone) in named {
        let there = living.get(session).map(Vec::as_slice).unwrap_or_default();
        if gone.len() + there.len() < 2 {
            continue;
        }
        let gone = gone.into_iter();
        let gone: Vec<(usize, &KnownPack)> = gone
            .filter(|(_, known)| moved.folders(root, &known.index).is_empty())
            .collect();
        let there = open_packs(there.iter().copied(), troubles);
        let all: Vec<&KnownPack> = gone.iter().map(|(_, it)| *it).chain(&there).collect();
        let known: Vec<(&Path, &PackIndex)> =
            all.iter().map(|it| (&*it.path, &*it.index)).collect();
        let stands = archive::superseding_packs(&known);
        for ((at, known), stands) in gone.iter().zip(stands) {
            let other = all.get(stands).filter(|other| other.path != known.path);
            if let Some(place) = elsewhere.get_mut(*at) {
                *place = other.map(|other| Arc::clone(&other.index));
            }
        }
    }
    elsewhere
}

/// Maps the folders of a pack to the folders of the same sessions in another pack.
fn folder_renames<'a>(root: &Root, was: &PackIndex, now: &'a PackIndex) -> FolderRenames<'a> {
    let log = |path: &Path| {
        let log = root.layout.classify(path);
        log.filter(|it| it.kind == ArtifactKind::SessionLog)
    };
    let logs = was.members.iter().filter_map(|it| log(&it.path));
    let folders = logs.filter_map(|old| {
        let mut sessions = now.sessions.iter();
        let now = sessions
            .find(|it| Some(it.id.as_str()) == old.session.as_ref().map(SessionId::as_str))?;
        Some((old.folder, now.folder.as_deref()))
    });
    folders.collect()
}

/// Opens packs and reads their indexes. Reports packs that cannot be read.
fn open_packs<'a>(
    packs: impl Iterator<Item = &'a Path>,
    troubles: &mut Vec<Error>,
) -> Vec<KnownPack> {
    let mut found = Vec::new();
    for pack in packs {
        match Pack::open(pack) {
            // The packs are closed again: all of them would exceed the limit of open files.
            Ok(pack) => {
                troubles.extend(pack.lost_end());
                found.push(KnownPack::from_pack(&pack));
            }
            Err(error) => troubles.push(error),
        }
    }
    found
}

/// Files on disk that may have had another path when they were archived.
struct RenamedFiles<'a> {
    /// Folders of session logs, by session and inode: these identify a log whose folder was
    /// renamed.
    logs: HashMap<(&'a SessionId, u64, u64), Option<&'a str>>,
    /// Sessions that the paths of sub-agent logs name, by folder and agent id: program versions
    /// differ in where they put these logs.
    agents: HashMap<(Option<&'a str>, &'a AgentId), Vec<Option<&'a SessionId>>>,
}

impl<'a> RenamedFiles<'a> {
    fn new(files: &'a [RootFile]) -> Self {
        let logs = files.iter().filter_map(|file| match file.artifact.kind {
            ArtifactKind::SessionLog => {
                let log = (file.artifact.session.as_ref()?, file.id.dev, file.id.ino);
                Some((log, file.artifact.folder.as_deref()))
            }
            _ => None,
        });
        let mut agents: HashMap<_, Vec<_>> = HashMap::new();
        let is_agent = |file: &&RootFile| file.artifact.kind == ArtifactKind::AgentLog;
        for Artifact {
            folder,
            session,
            agent,
            ..
        } in files.iter().filter(is_agent).map(|file| &file.artifact)
        {
            if let Some(agent) = agent {
                let sessions = agents.entry((folder.as_deref(), agent)).or_default();
                sessions.push(session.as_ref());
            }
        }
        RenamedFiles {
            logs: logs.collect(),
            agents,
        }
    }

    /// Returns whether a sub-agent's log is on disk at another path in its folder. A copied session
    /// has other sub-agents with the same ids, so the session must match unless a path names none.
    fn is_present(&self, file: &RootFile) -> bool {
        let is_log = file.artifact.kind == ArtifactKind::AgentLog;
        let agent = file.artifact.agent.as_ref().filter(|_| is_log);
        let folder = file.artifact.folder.as_deref();
        let there = agent.and_then(|agent| self.agents.get(&(folder, agent)));
        let of = file.artifact.session.as_ref();
        let same = |it: &Option<&SessionId>| of.is_none() || it.is_none() || *it == of;
        there.is_some_and(|sessions| sessions.iter().any(same))
    }

    /// Returns the folders of a pack that were renamed: its sessions are elsewhere in the root.
    fn folders(&self, root: &Root, index: &PackIndex) -> FolderRenames<'a> {
        let renamed = index.members.iter().filter_map(|member| {
            let artifact = root.layout.classify(&member.path)?;
            let is_log = artifact.kind == ArtifactKind::SessionLog;
            let session = artifact.session.filter(|_| is_log)?;
            let now = self.logs.get(&(&session, member.dev, member.ino))?;
            Some((artifact.folder, *now))
        });
        renamed.collect()
    }
}

/// Current names of folders, by former name.
type FolderRenames<'a> = HashMap<Option<String>, Option<&'a str>>;

/// Decodes saved rows of session lists, each with the path of its log.
pub(super) fn stored_rows<'a>(
    root: &Root,
    saved: impl Iterator<Item = (&'a Path, &'a str)>,
) -> StoredRows {
    let mut rows = StoredRows::new();
    let Some(writer) = root.layout.writer() else {
        return rows;
    };
    for (path, text) in saved {
        let log = root.layout.classify(path);
        let Some(session_list) = log.and_then(|log| writer.session_list(&log)) else {
            continue;
        };
        // A single row is decoded like a session list.
        for entry in decode_document(root, &session_list, text.as_bytes()).items {
            if let Body::SessionList(abouts) = entry.body {
                let folder = &session_list.folder;
                rows.extend(abouts.into_iter().map(|about| (folder.clone(), about)));
            }
        }
    }
    rows
}

/// Returns the names of the packs of sessions whose logs are on disk.
fn pack_names(files: &[RootFile]) -> HashSet<OsString> {
    let mut names = HashSet::with_capacity(files.len());
    let mut tags: HashMap<Option<&str>, String> = HashMap::new();
    let logs = files.iter().filter_map(|file| match file.artifact.kind {
        ArtifactKind::SessionLog => Some((file.artifact.session.as_ref()?, &file.artifact)),
        _ => None,
    });
    for (session, artifact) in logs {
        let folder = artifact.folder.as_deref();
        let tag = tags.entry(folder);
        let tag = tag.or_insert_with(|| archive::pack_name("", folder));
        names.insert(format!("{session}{tag}").into());
    }
    names
}

/// The index of a pack that is not open.
struct KnownPack {
    path: Arc<Path>,
    index: Arc<PackIndex>,
    /// Identities of its files for readers, in the order of its members.
    ids: Vec<FileId>,
}

impl KnownPack {
    fn from_pack(pack: &Pack) -> Self {
        KnownPack {
            path: pack.path.as_path().into(),
            index: Arc::clone(&pack.index),
            ids: pack.members().iter().map(|it| pack.file_id(it)).collect(),
        }
    }

    /// Returns the wanted files that are not on disk, with the new names of renamed folders.
    fn missing_files(
        &self,
        root: &Root,
        folders: &FolderRenames<'_>,
        there: &mut HashSet<PathBuf>,
        wanted: &dyn Fn(ArtifactKind) -> bool,
    ) -> Vec<RootFile> {
        let mut found = Vec::new();
        for (member, id) in self.index.members.iter().zip(&self.ids) {
            let meaning = root.layout.classify(&member.path);
            let Some(mut artifact) = meaning.filter(|artifact| wanted(artifact.kind)) else {
                continue;
            };
            let path = match folders.get(&artifact.folder) {
                Some(now) if artifact.folder.is_some() => {
                    artifact.folder = now.map(str::to_owned);
                    root.path.join(root.layout.path_for(&artifact))
                }
                _ => root.path.join(&member.path),
            };
            if there.insert(path.clone()) {
                let mut file = RootFile::new(path, artifact, *id);
                file.archived = Some(Box::new(ArchivedFile {
                    pack: Arc::clone(&self.path),
                    path_in_root: member.path.clone(),
                }));
                found.push(file);
            }
        }
        found
    }
}
