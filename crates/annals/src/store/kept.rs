//! Sessions that lie in no root any more, and are kept in the archive.
//!
//! They are found, read and priced like all others: their files have the paths and the identities
//! that they had, so what was learnt of them before still holds, and only their bytes come from
//! elsewhere.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive::{Archive, Index, Pack};
use crate::error::{Error, Result};
use crate::jsonl::LogFile;
use crate::model::{About, ArtifactKind, Body, SessionId};

use super::inventory::{FoundFile, SessionFiles};
use super::{Root, document_of};

/// Where a file lies in the archive. The pack is opened when the file is: there may be more of them
/// than a process may have open.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pack: Arc<Path>,
    /// Its path within the root.
    within: PathBuf,
}

impl Kept {
    pub(super) fn open(&self) -> Result<LogFile> {
        let pack = Pack::open(&self.pack)?;
        let member = pack.member(&self.within).ok_or_else(|| {
            let (pack, within) = (self.pack.display(), self.within.display());
            Error::refused(format!("{pack} holds no {within} any more"))
        })?;
        Ok(LogFile::Kept(Arc::new(pack.file(member))))
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
                "session {id} is archived and cannot be changed; `annals restore {id} --apply` puts it back",
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
    let mut packs = Vec::new();
    for path in paths.iter().filter(|path| !is_live(path)) {
        match Pack::open(path) {
            // What is left open here would soon be too much.
            Ok(pack) => packs.push((pack.path.as_path().into(), Arc::clone(&pack.index))),
            Err(error) => troubles.push(error),
        }
    }
    // A file that two packs hold is what the newer one says.
    packs.sort_by_key(|(_, index): &(Arc<Path>, Arc<Index>)| std::cmp::Reverse(index.archived));
    let moved = Moved::of(files);
    let mut there: HashSet<PathBuf> = HashSet::new();
    if !packs.is_empty() {
        there.extend(files.iter().map(|file| file.path.clone()));
    }
    let mut found = Vec::new();
    let mut rows = Rows::new();
    for (pack, index) in &packs {
        if !moved.has(root, index) {
            found.extend(missing(pack, index, root, &mut there, wanted));
            rows.extend(told(index, root));
        }
    }
    if !found.is_empty() {
        files.append(&mut found);
        // As they would be found where they were.
        files.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    }
    rows
}

/// Logs of sessions, by which one that lies in another folder now is known.
struct Moved<'a>(HashSet<(&'a SessionId, u64, u64)>);

impl<'a> Moved<'a> {
    fn of(files: &'a [FoundFile]) -> Self {
        let logs = files.iter().filter_map(|file| match file.artifact.kind {
            ArtifactKind::SessionLog => {
                Some((file.artifact.session.as_ref()?, file.id.dev, file.id.ino))
            }
            _ => None,
        });
        Moved(logs.collect())
    }

    /// The session of a pack lies elsewhere in its root: its folder was renamed.
    fn has(&self, root: &Root, index: &Index) -> bool {
        index.members.iter().any(|member| {
            let artifact = root.layout.classify(&member.path);
            let artifact = artifact.filter(|one| one.kind == ArtifactKind::SessionLog);
            let session = artifact.and_then(|artifact| artifact.session);
            session.is_some_and(|session| self.0.contains(&(&session, member.dev, member.ino)))
        })
    }
}

/// What registers told of a pack's sessions when it was made.
fn told(index: &Index, root: &Root) -> Rows {
    let mut rows = Rows::new();
    let Some(writer) = root.layout.writer() else {
        return rows;
    };
    for row in &index.rows {
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
    pack: &Arc<Path>,
    index: &Index,
    root: &Root,
    there: &mut HashSet<PathBuf>,
    wanted: &dyn Fn(ArtifactKind) -> bool,
) -> Vec<FoundFile> {
    let mut found = Vec::new();
    for member in &index.members {
        let meaning = root.layout.classify(&member.path);
        let Some(artifact) = meaning.filter(|artifact| wanted(artifact.kind)) else {
            continue;
        };
        let path = root.path.join(&member.path);
        if there.insert(path.clone()) {
            let mut file = FoundFile::new(path, artifact, member.id());
            file.kept = Some(Box::new(Kept {
                pack: Arc::clone(pack),
                within: member.path.clone(),
            }));
            found.push(file);
        }
    }
    found
}
