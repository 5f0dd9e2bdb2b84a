//! Sessions that lie in no root any more, and are kept in the archive.
//!
//! They are found, read and priced like all others: their files have the paths and the identities
//! that they had, so what was learnt of them before still holds, and only their bytes come from
//! elsewhere.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive::{Archive, Pack};
use crate::error::{Error, Result};
use crate::jsonl::{FileId, LogFile};
use crate::model::{About, Artifact, ArtifactKind, Body};

use super::inventory::{FoundFile, SessionFiles};
use super::{Root, document_of};

/// Where a file lies in the archive.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pack: Arc<Pack>,
    member: usize,
}

impl Kept {
    pub(super) fn open(&self) -> Option<LogFile> {
        let member = self.pack.members().get(self.member)?;
        Some(LogFile::Kept(Arc::new(self.pack.file(member))))
    }
}

impl SessionFiles {
    /// Its log is in the archive, and no more where it was.
    pub fn is_archived(&self) -> bool {
        let mut logs = self.logs();
        logs.next().is_some_and(FoundFile::is_kept)
    }

    /// Refuses one that is in the archive where it is to be changed.
    pub fn refuse_archived(&self) -> Result<()> {
        match self.is_archived() {
            false => Ok(()),
            true => Err(Error::refused(format!(
                "session {id} is archived and cannot be changed; `annals restore {id}` puts it back",
                id = self.id
            ))),
        }
    }
}

/// What registers told of sessions, with the registers' folders.
pub(super) type Rows = Vec<(Option<String>, About)>;

/// Adds the archived files of a root that are not among those that were found in it, and tells what
/// registers said of them.
pub(super) fn add(
    archive: &Archive,
    root: &Root,
    files: &mut Vec<FoundFile>,
    wanted: &dyn Fn(ArtifactKind) -> bool,
    troubles: &mut Vec<Error>,
) -> Rows {
    let paths = archive.packs_of(root).unwrap_or_else(|error| {
        troubles.push(error);
        Vec::new()
    });
    if paths.is_empty() {
        return Rows::new();
    }
    let live = names(archive, root, files);
    let is_live = |path: &PathBuf| path.file_name().is_some_and(|name| live.contains(name));
    let mut there: HashSet<&Path> = HashSet::new();
    let mut found = Vec::new();
    let mut rows = Rows::new();
    for path in paths.iter().filter(|path| !is_live(path)) {
        let pack = match Pack::open(path) {
            Ok(pack) => Arc::new(pack),
            Err(error) => {
                troubles.push(error);
                continue;
            }
        };
        if there.is_empty() {
            there = files.iter().map(|file| file.path.as_path()).collect();
        }
        found.extend(missing(&pack, root, &there, wanted));
        rows.extend(told(&pack, root));
    }
    if !found.is_empty() {
        files.append(&mut found);
        // As they would be found where they were.
        files.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    }
    rows
}

/// What registers told of a pack's sessions when it was made.
fn told(pack: &Pack, root: &Root) -> Rows {
    let mut rows = Rows::new();
    let Some(writer) = root.layout.writer() else {
        return rows;
    };
    for row in &pack.index.rows {
        let log = root.layout.classify(&row.path);
        let Some(register) = log.and_then(|log| writer.register(&log)) else {
            continue;
        };
        // A row alone is what is left of a register, and is read like that.
        for entry in document_of(root, &register, row.text.as_bytes()).found {
            if let Body::Register(abouts) = entry.body {
                let folder = &register.folder;
                rows.extend(abouts.into_iter().map(|about| (folder.clone(), about)));
            }
        }
    }
    rows
}

/// The names of the packs of sessions whose logs are there.
fn names(archive: &Archive, root: &Root, files: &[FoundFile]) -> HashSet<OsString> {
    let mut names = HashSet::with_capacity(files.len());
    let mut tags: HashMap<Option<&str>, String> = HashMap::new();
    let logs = files.iter().filter_map(|file| match file.artifact.kind {
        ArtifactKind::SessionLog => Some((file.artifact.session.as_ref()?, &file.artifact)),
        _ => None,
    });
    for (session, artifact) in logs {
        let folder = artifact.folder.as_deref();
        let tag = tags.entry(folder).or_insert_with(|| {
            let path = archive.path_of(root, "", folder);
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        });
        names.insert(format!("{session}{tag}").into());
    }
    names
}

/// The files of a pack that are wanted and not there.
fn missing(
    pack: &Arc<Pack>,
    root: &Root,
    there: &HashSet<&Path>,
    wanted: &dyn Fn(ArtifactKind) -> bool,
) -> Vec<FoundFile> {
    let mut found = Vec::new();
    for (number, member) in pack.members().iter().enumerate() {
        let path = root.path.join(&member.path);
        let meaning = root.layout.classify(&member.path);
        let meaning = meaning.filter(|artifact| wanted(artifact.kind));
        if let Some(artifact) = meaning.filter(|_| !there.contains(path.as_path())) {
            found.push(file(path, artifact, pack, number, member.id()));
        }
    }
    found
}

fn file(
    path: PathBuf,
    artifact: Artifact,
    pack: &Arc<Pack>,
    member: usize,
    id: FileId,
) -> FoundFile {
    let mut file = FoundFile::new(path, artifact, id);
    file.kept = Some(Kept {
        pack: Arc::clone(pack),
        member,
    });
    file
}
