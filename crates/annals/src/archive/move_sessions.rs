//! Moves sessions to the archive: copies them, reads the copies back, and removes the files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rayon::prelude::*;

use super::archive_all::{BATCH_BYTES, BATCH_FILES};
use super::mirror::{Contents, Mirror, Stored, open_source};
use super::session::{self, Archived};
use crate::archive_format::archived_session::{ArchivedSession, group};
use crate::archive_format::checksum::Checksum;
use crate::archive_format::manifest::{self, Line, Manifest, Member};
use crate::archive_format::root_archive::{RootArchive, sync_dir};
use crate::archive_format::verify::verify_member;
use crate::error::{Error, Result};
use crate::store::{FileCopies, FileSet, Root, SessionFiles, Store};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, FileId};

/// Sessions that share files, to be moved together.
struct Group<'a> {
    sessions: &'a [&'a SessionFiles],
    files: FileSet,
    contents: Contents,
}

impl Store {
    /// Archives a group of sessions that share files and removes them from their root.
    ///
    /// Everything is synced, read back from the archive and compared with the files in the root
    /// while their logs are locked; if anything differs, nothing is removed. The archive stays
    /// locked until the last file is removed. If a file cannot be removed, those already removed are
    /// restored. Sessions that another program has open for writing are not removed
    /// ([`Held`](annals_jsonl::Error::Held)), nor those that one writes to, unless `live`
    /// ([`Error::Live`]).
    pub fn move_to_archive(
        &self,
        group: &[&SessionFiles],
        live: bool,
        now: Timestamp,
    ) -> Result<Archived> {
        self.move_alone(&Group::new(group, live)?, live, now)
    }

    /// Moves many groups like [`move_to_archive`](Self::move_to_archive), and passes the result of each to
    /// `give`, in their order.
    ///
    /// The copies of many groups are written and synced together, which takes less time than to sync each.
    pub fn move_all_to_archive(
        &self,
        groups: &[Vec<&SessionFiles>],
        live: bool,
        now: Timestamp,
        mut give: impl FnMut(Result<Archived>),
    ) {
        let mut batch: Vec<Group<'_>> = Vec::new();
        for group in groups {
            let group = Group::new(group, live);
            let is_other =
                |group: &Group<'_>| batch.last().is_some_and(|it| !it.has_same_root(group));
            if group.as_ref().map_or(true, is_other) {
                self.move_each(&mut batch, live, now, &mut give);
            }
            match group {
                Ok(group) => batch.push(group),
                Err(error) => give(Err(error)),
            }
            let files: usize = batch.iter().map(|it| it.files.files.len()).sum();
            let bytes: u64 = batch.iter().map(|it| it.files.bytes()).sum();
            if files >= BATCH_FILES || bytes >= BATCH_BYTES {
                self.move_each(&mut batch, live, now, &mut give);
            }
        }
        self.move_each(&mut batch, live, now, &mut give);
    }

    /// Moves groups of one root, and passes the result of each to `give`.
    fn move_each(
        &self,
        batch: &mut Vec<Group<'_>>,
        live: bool,
        now: Timestamp,
        give: &mut dyn FnMut(Result<Archived>),
    ) {
        match self.move_batch(batch, live, now) {
            Ok(results) => results.into_iter().for_each(give),
            // Nothing was removed, and nothing is tried again: after a failed sync, a second one may
            // succeed although data is lost.
            Err(error) => {
                let why = error.to_string();
                give(Err(error));
                let others = batch.iter().skip(1);
                others.for_each(|_| give(Err(Error::refused(why.clone()))));
            }
        }
        batch.clear();
    }

    fn move_alone(&self, group: &Group<'_>, live: bool, now: Timestamp) -> Result<Archived> {
        let results = self.move_batch(std::slice::from_ref(group), live, now)?;
        let nothing = || Err(Error::refused("there is nothing to remove"));
        results.into_iter().next().unwrap_or_else(nothing)
    }

    /// Moves groups of one root. Returns the result of each, or an error if nothing was removed.
    fn move_batch(
        &self,
        batch: &[Group<'_>],
        live: bool,
        now: Timestamp,
    ) -> Result<Vec<Result<Archived>>> {
        let Some(FileSet { root, lone, .. }) = batch.first().map(|group| &group.files) else {
            return Ok(Vec::new());
        };
        let archive = self.archive()?;
        archive.with_locked(root, *lone, |root, manifest| {
            let plans = batch.iter().map(|group| group.plan(root, manifest));
            let plans: Vec<Archived> = plans.collect();
            let contents: Vec<Contents> = batch.iter().map(|it| it.contents.clone()).collect();
            let mut mirror = Mirror {
                archive: root,
                manifest,
                now,
                // Copies that cannot be read are replaced, so all of them are read.
                suspects: None,
            };
            let stored = mirror.store(&contents)?;
            let copied = batch.iter().zip(plans).zip(stored);
            let copied = copied.map(|((group, plan), stored)| {
                let stored = stored?;
                let archived = group.archived(plan, &stored, manifest)?;
                Ok((archived, Copies::new(root, manifest, &group.files)?))
            });
            let copied: Vec<Result<(Archived, Copies<'_>)>> = copied.collect();
            sync(root, copied.iter().flatten().map(|(_, copies)| copies))?;
            let read_back = copied.into_par_iter().map(|copied| {
                let (archived, copies) = copied?;
                copies.read_back().map(|()| (archived, copies))
            });
            let read_back: Vec<Result<(Archived, Copies<'_>)>> = read_back.collect();
            let manifest = Mutex::new(manifest);
            let moved = batch.iter().zip(read_back).map(|(group, read_back)| {
                let (archived, copies) = read_back?;
                let copies = OpenCopies::new(copies, &manifest);
                Store::remove_files(group.sessions, &group.files, live, &copies)?;
                Ok(Archived {
                    removed: true,
                    ..archived
                })
            });
            Ok(moved.collect())
        })
    }
}

impl<'a> Group<'a> {
    fn new(sessions: &'a [&'a SessionFiles], live: bool) -> Result<Self> {
        if !live {
            sessions
                .iter()
                .try_for_each(|files| files.ensure_not_in_use())
                .map_err(Error::for_removal)?;
        }
        let files = session::holdings(sessions, true)?;
        let contents = session::contents(sessions, &files)?;
        Ok(Group {
            sessions,
            files,
            contents,
        })
    }

    fn has_same_root(&self, other: &Group<'_>) -> bool {
        let (one, other) = (&self.files, &other.files);
        let is_same_layout = one.root.layout.name() == other.root.layout.name();
        is_same_layout && one.root.path == other.root.path && one.lone == other.lone
    }

    fn plan(&self, root: &RootArchive, manifest: &Manifest) -> Archived {
        session::planned(self.sessions, &self.files, root, manifest, &mut |_| {})
    }

    /// Returns what was archived. Fails if a file did not exist any more.
    fn archived(&self, plan: Archived, stored: &Stored, manifest: &Manifest) -> Result<Archived> {
        match stored.missing.first() {
            None => Ok(session::done(plan, stored, manifest, &self.files.files)),
            Some(gone) => Err(Error::File(FileError::Changed {
                path: self.files.root.path.join(gone),
            })),
        }
    }
}

/// The archived copies of files that are to be removed. The archive is locked.
struct Copies<'a> {
    root: &'a RootArchive,
    session: ArchivedSession,
    /// Identities of the compressed files.
    stored: Vec<(PathBuf, FileId)>,
}

impl<'a> Copies<'a> {
    fn new(root: &'a RootArchive, manifest: &Manifest, files: &FileSet) -> Result<Self> {
        let members = files.files.iter();
        let members = members.filter_map(|(path, _)| manifest.files.get(path).cloned());
        let members: Vec<Member> = members.collect();
        let mut stored = Vec::with_capacity(members.len());
        for member in &members {
            let path = member.location(&root.dir);
            let metadata = path.symlink_metadata();
            let metadata = metadata.map_err(|error| Error::io("stat", &path, error))?;
            stored.push((path, FileId::from(&metadata)));
        }
        let above = members.iter().flat_map(|it| it.path.ancestors().skip(1));
        let dirs = above.filter_map(|dir| manifest.dirs.get_key_value(dir));
        let only = Manifest {
            dirs: dirs
                .map(|(path, dir)| (path.clone(), dir.clone()))
                .collect(),
            files: members
                .into_iter()
                .map(|it| (it.path.clone(), it))
                .collect(),
            ..Manifest::default()
        };
        let archive = Arc::new(root.clone());
        let mut session = group(&archive, &only).into_iter();
        let nothing = || Error::refused("there is nothing to remove");
        let mut first = session.next().ok_or_else(nothing)?;
        // Files of sessions that share no log are removed together too.
        first
            .members
            .extend(session.flat_map(|other| other.members));
        Ok(Copies {
            root,
            session: first,
            stored,
        })
    }

    /// Reads all copies from disk.
    fn read_back(&self) -> Result<()> {
        for member in &self.session.members {
            if let Ok(content) = self.session.file(member) {
                content.drop_page_cache();
            }
            if let Some(first) = verify_member(&self.session, member).first() {
                return Err(Error::refused(format!(
                    "the archived data in {} cannot be read back, so nothing was removed: {}",
                    first.pack.display(),
                    first.detail
                )));
            }
        }
        Ok(())
    }
}

/// Syncs copies. That they can be read does not mean that they are durable: their writer may have been
/// killed before the sync.
fn sync<'a, 'b: 'a>(
    root: &RootArchive,
    copies: impl Iterator<Item = &'a Copies<'b>>,
) -> Result<()> {
    let stored = copies.flat_map(|copies| &copies.stored);
    let mut files: Vec<PathBuf> = stored.map(|(path, _)| path.clone()).collect();
    files.push(root.dir.join(manifest::NAME));
    root.sync(&files)?;
    sync_dir(root.dir.parent().unwrap_or(&root.dir))
}

/// The open copies of a group whose files are removed, and the manifest, which changes when session-list
/// rows are saved.
struct OpenCopies<'a, 'b> {
    copies: Copies<'a>,
    manifest: &'a Mutex<&'b mut Manifest>,
}

impl<'a, 'b> OpenCopies<'a, 'b> {
    /// Opens the copies: what was removed can be put back even if another program removes the archive.
    fn new(mut copies: Copies<'a>, manifest: &'a Mutex<&'b mut Manifest>) -> Self {
        copies.session = copies.session.holding(copies.session.members.iter());
        OpenCopies { copies, manifest }
    }
}

impl FileCopies for OpenCopies<'_, '_> {
    fn verify(&self, within: &Path) -> Result<FileId> {
        confirm(&self.copies.session, &self.copies.root.root, within)
    }

    fn ensure_reachable(&self) -> Result<()> {
        for (path, id) in &self.copies.stored {
            let there = jsonl::metadata_if_exists(path)?.map(|there| FileId::from(&there));
            if there.is_none_or(|there| !there.same_file(id) || there.len < id.len) {
                return Err(Error::File(FileError::Changed { path: path.clone() }));
            }
        }
        let path = self.copies.root.dir.join(manifest::NAME);
        let there = jsonl::metadata_if_exists(&path)?.map(|there| FileId::from(&there));
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        match there
            .is_some_and(|there| there.same_file(&manifest.id) && there.len >= manifest.id.len)
        {
            true => Ok(()),
            false => Err(Error::File(FileError::Changed { path })),
        }
    }

    fn restore(&self, gone: &[&Path]) -> Result<()> {
        let root = Root::with_layout(self.copies.root.layout, &self.copies.root.root);
        self.copies.session.put_back(&root, gone)
    }

    fn save_rows(&self, log: &Path, rows: &[String]) -> Result<()> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = manifest.files.get(log).cloned();
        let Some(known) = known.filter(|it| !rows.is_empty() && it.list_rows != rows) else {
            return Ok(());
        };
        let line = Line::File(Box::new(Member {
            list_rows: rows.to_vec(),
            generation: known.generation + 1,
            ..known
        }));
        self.copies.root.append(&mut manifest, vec![line])
    }
}

/// Checks that a file in the root is byte for byte the archived one, which must have been read back
/// before.
pub(super) fn confirm(session: &ArchivedSession, root: &Path, within: &Path) -> Result<FileId> {
    let path = root.join(within);
    let changed = || Error::File(FileError::Changed { path: path.clone() });
    let member = session.member(within).ok_or_else(changed)?;
    let (file, metadata) = open_source(&path)?.ok_or_else(changed)?;
    let id = FileId::from(&metadata);
    if !id.untouched(&member.id()) {
        return Err(changed());
    }
    let sum = Checksum::digest_reader(file).map_err(|error| Error::io("read", &path, error))?;
    match member.sha256 == Some(sum) {
        true => Ok(id),
        // The file was changed, and its times set back.
        false => Err(Error::refused(format!(
            "{} differs from its archived copy, though its times are unchanged; nothing was removed (`touch` it and archive it again)",
            path.display()
        ))),
    }
}
