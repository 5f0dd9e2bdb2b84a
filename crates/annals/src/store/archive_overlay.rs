//! Adds archived files to the files of a root: archived sessions, and missing files of live
//! sessions.
//!
//! They are found, read and priced like all others. They keep their former paths; only their bytes
//! come from the archive.
//!
//! If a session's log is on disk, only files that agent programs delete by themselves are taken
//! from the archive: sub-agents, tool outputs, saved file versions, todos. The manifest lists all
//! archived files of a root, so a session list opens none of them.
//!
//! `RootFile::open` returns bytes that are read by offset (`ReadAt`), so the same code reads files
//! of a root and of the archive. Archived files keep the identity that they had on disk, so index
//! rows of them stay valid, unless the compressed file changed since it was written.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive_format::{self, Archive, ArchivedMember, Member, MissingFiles, SessionKey};
use crate::error::{Error, Result};
use annals_jsonl::OpenLog;
use annals_layouts::model::{AgentId, Artifact, ArtifactKind, Body, ListRow, SessionId};
use annals_layouts::text::quoted_command;

use super::inventory::{RootFile, SessionFiles};
use super::record_source;
use super::{Root, decode_document};

/// A file in the archive. It is opened on demand, because there may be more than a process may have
/// open.
#[derive(Clone, Debug)]
pub(crate) struct ArchivedFile {
    member: ArchivedMember,
    /// The other files of its set and their former paths, if its records are in several files.
    parts: Vec<(PathBuf, ArchivedMember)>,
}

impl ArchivedFile {
    pub(super) fn open(&self) -> Result<OpenLog> {
        Ok(OpenLog::Archived(Arc::new(self.member.open()?)))
    }

    /// Opens the other files of its set.
    pub(super) fn open_parts(&self) -> Result<Vec<(PathBuf, OpenLog)>> {
        let open = |(path, part): &(PathBuf, ArchivedMember)| {
            Ok((path.clone(), OpenLog::Archived(Arc::new(part.open()?))))
        };
        self.parts.iter().map(open).collect()
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
    let mut rows = StoredRows::new();
    if !archive.has_files_of(root) {
        return rows;
    }
    let within = files.iter();
    let within = within.filter_map(|file| file.path.strip_prefix(&root.path).ok());
    let there: HashSet<&Path> = within.collect();
    let missing = match archive.missing_files(root, &|path| there.contains(path)) {
        Ok(Some(missing)) => missing,
        Ok(None) => return rows,
        Err(error) => {
            troubles.push(error);
            return rows;
        }
    };
    let MissingFiles { members, damage } = missing;
    troubles.extend(damage);
    let mut found: Vec<RootFile> = Vec::new();
    let on_disk = FilesOnDisk::new(files);
    let renamed = on_disk.renamed_folders(root, &members);
    for file in &members {
        let member = &file.member;
        let Some(mut artifact) = root.layout.classify(&member.path) else {
            continue;
        };
        let kind = artifact.kind;
        let is_attachment = is_attachment(kind);
        let mut is_of_live = false;
        let is_wanted = match member.sessions.as_slice() {
            [] => archive_format::is_listed_when_archived(kind),
            sessions => {
                is_of_live = sessions
                    .iter()
                    .any(|key| on_disk.has_log(key) || renamed.contains_key(key));
                is_attachment || !is_of_live
            }
        };
        // A session whose folder was renamed is listed under its new folder.
        let now = member.sessions.iter().find_map(|key| {
            let in_folder = artifact.folder.is_some() && artifact.folder == key.folder;
            renamed.get(key).filter(|_| in_folder)
        });
        let path = match now {
            None => root.path.join(&member.path),
            Some(now) => {
                artifact.folder = now.map(str::to_owned);
                root.path.join(root.layout.path_for(&artifact))
            }
        };
        let is_there = || {
            path.strip_prefix(&root.path)
                .is_ok_and(|path| there.contains(path))
        };
        if !is_wanted || !wanted(kind) || (now.is_some() && is_there()) {
            continue;
        }
        if !is_of_live {
            let saved = member.list_rows.iter();
            let saved = saved.map(|row| (member.path.as_path(), row.as_str()));
            rows.extend(stored_rows(root, saved));
        }
        let id = match file.id() {
            Ok(id) => id,
            Err(error) => {
                troubles.push(error);
                continue;
            }
        };
        let mut added = RootFile::new(path, artifact, id);
        if is_of_live && on_disk.has_agent(&added) {
            continue;
        }
        let parts = parts(root, &added, member, &members);
        for (_, part) in &parts {
            added.id = record_source::with_part(added.id, part.member.id());
        }
        added.archived = Some(Box::new(ArchivedFile {
            member: file.clone(),
            parts,
        }));
        found.push(added);
    }
    if !found.is_empty() {
        files.append(&mut found);
        // Sort them by path, like files found on disk.
        crate::sort::by(files, |a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    }
    rows
}

/// Returns the other archived files of a file's set, with their former paths. `members` is sorted by
/// path.
fn parts(
    root: &Root,
    file: &RootFile,
    member: &Member,
    members: &[ArchivedMember],
) -> Vec<(PathBuf, ArchivedMember)> {
    let main = root.path.join(&member.path);
    record_source::parts(&main, file.artifact.framing, &mut |_, place, found| {
        let Ok(within) = place.strip_prefix(&root.path) else {
            return;
        };
        let first = members.partition_point(|it| it.member.path.as_path() < within);
        let below = members.iter().skip(first);
        let below = below.take_while(|it| it.member.path.starts_with(within));
        // The file itself, or the files of a directory.
        let own =
            below.filter(|it| it.member.path == within || it.member.path.parent() == Some(within));
        found.extend(own.map(|it| (root.path.join(&it.member.path), it.clone())));
    })
}

/// Returns whether the agent's program may delete files of this kind while their session still
/// exists.
fn is_attachment(kind: ArtifactKind) -> bool {
    matches!(
        kind,
        ArtifactKind::AgentLog
            | ArtifactKind::AgentMeta
            | ArtifactKind::ToolResult
            | ArtifactKind::FileVersion
            | ArtifactKind::Todos
    )
}

/// Files on disk, which may have had another path when they were archived.
struct FilesOnDisk<'a> {
    /// Sessions whose logs are on disk, with their folders.
    sessions: HashSet<(&'a str, Option<&'a str>)>,
    /// Folders of session logs, by session and inode: these identify a log whose folder was
    /// renamed.
    logs: HashMap<(&'a str, u64, u64), Option<&'a str>>,
    /// Sessions that the paths of sub-agent logs name, by folder and agent id: program versions
    /// differ in where they put these logs.
    agents: HashMap<(Option<&'a str>, &'a AgentId), Vec<Option<&'a SessionId>>>,
}

impl<'a> FilesOnDisk<'a> {
    fn new(files: &'a [RootFile]) -> Self {
        let logs = files.iter().filter_map(|file| match file.artifact.kind {
            ArtifactKind::SessionLog => {
                let log = (
                    file.artifact.session.as_ref()?.as_str(),
                    file.id.dev,
                    file.id.ino,
                );
                Some((log, file.artifact.folder.as_deref()))
            }
            _ => None,
        });
        let logs: HashMap<_, _> = logs.collect();
        let sessions = files
            .iter()
            .filter(|it| it.artifact.kind == ArtifactKind::SessionLog);
        let sessions = sessions.filter_map(|file| {
            let session = file.artifact.session.as_ref()?;
            Some((session.as_str(), file.artifact.folder.as_deref()))
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
        FilesOnDisk {
            sessions: sessions.collect(),
            logs,
            agents,
        }
    }

    /// Returns whether a sub-agent's log is on disk at another path in its folder. A copied session
    /// has other sub-agents with the same ids, so the session must match unless a path names none.
    fn has_agent(&self, file: &RootFile) -> bool {
        let is_log = file.artifact.kind == ArtifactKind::AgentLog;
        let agent = file.artifact.agent.as_ref().filter(|_| is_log);
        let folder = file.artifact.folder.as_deref();
        let there = agent.and_then(|agent| self.agents.get(&(folder, agent)));
        let of = file.artifact.session.as_ref();
        let same = |it: &Option<&SessionId>| of.is_none() || it.is_none() || *it == of;
        there.is_some_and(|sessions| sessions.iter().any(same))
    }

    /// Returns whether the log of a session is on disk.
    fn has_log(&self, key: &SessionKey) -> bool {
        self.sessions
            .contains(&(key.id.as_str(), key.folder.as_deref()))
    }

    /// Returns the folders that archived sessions are in now: their logs are elsewhere in the root.
    fn renamed_folders(
        &self,
        root: &Root,
        members: &[ArchivedMember],
    ) -> HashMap<SessionKey, Option<&'a str>> {
        let renamed = members.iter().filter_map(|file| {
            let member: &Member = &file.member;
            let mut sessions = member.sessions.iter();
            let (key, now) = sessions.find_map(|key| {
                let now = self.logs.get(&(key.id.as_str(), member.dev, member.ino))?;
                Some((key, *now))
            })?;
            let artifact = root.layout.classify(&member.path)?;
            let is_log = artifact.kind == ArtifactKind::SessionLog;
            is_log.then(|| (key.clone(), now))
        });
        renamed.collect()
    }
}

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
