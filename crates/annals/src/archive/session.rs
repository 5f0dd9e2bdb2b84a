//! Archives sessions: plan, copy, and removal of the archived files.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::Archive;
use super::archive_all;
use super::open_error::PackOpenError;
use super::pack::Pack;
use super::pack_index::{Checksum, PackedListRow, PackedSession};
use super::resumable_sha256::ResumableSha256;
use super::update::{self, PackContents, PackUpdate, SetAside};
use super::verify::{Damage, verify, verify_since};
use crate::error::{Error, Result};
use crate::store::{FileCopies, FileSet, ReadFailures, Root, SessionFiles, Store};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, AppendOptions, FileId, Log};

/// A group of sessions that was archived, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Archived {
    /// The sessions: one, or several that share log files; empty for files that belong to no
    /// session.
    pub sessions: Vec<String>,
    /// The layout's name.
    pub layout: &'static str,
    /// Their root.
    pub root: PathBuf,
    /// The pack.
    pub pack: PathBuf,
    /// Number of files.
    pub files: usize,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Bytes that the pack lacks, or lacked.
    pub added: u64,
    /// Length of the pack; 0 if there is none yet.
    pub packed: u64,
    /// The pack is up to date.
    pub unchanged: bool,
    /// The files were removed from the root.
    pub removed: bool,
    /// The previous pack, if it could not be read and was set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// Damage of the pack, if it was rewritten with all its contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mended: Option<String>,
    /// Description of the pack's missing end, if it had lost it before the update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_end: Option<String>,
}

impl Store {
    /// Opens the archive.
    pub fn archive(&self) -> Result<Archive> {
        match self.state_dir() {
            Some(state) => Ok(Archive::open(state).reporting_to(self.failures())),
            None => Err(Error::refused("no state directory to archive to")),
        }
    }

    /// Plans archiving a group of sessions that share files; most groups are one session. See
    /// [`SessionFiles::group_by_shared_files`].
    pub fn plan_archive(&self, group: &[&SessionFiles], removing: bool) -> Result<Archived> {
        let archive = self.archive()?;
        let holdings = holdings(group, removing)?;
        let path = place(&archive, group, &holdings)?;
        let pack = open_existing(&path)?;
        Ok(planned(group, &holdings, &path, pack.as_ref()))
    }

    /// Updates the archive with a group of sessions that share files. Reads back what was written.
    ///
    /// An unchanged session costs one `stat` per file, unless its pack is recorded as damaged: then
    /// unreadable frames are archived again from the files.
    pub fn copy_to_archive(&self, group: &[&SessionFiles], now: Timestamp) -> Result<Archived> {
        let archive = self.archive()?;
        let damaged = archive_all::known_damaged(&archive);
        let archived = Store::copy_to_archive_unsynced(&archive, group, now, &damaged)?;
        if !archived.unchanged {
            update::sync_dir(&archived.pack)?;
        }
        Ok(archived)
    }

    /// Like [`copy_to_archive`](Self::copy_to_archive), given the damaged packs. The caller must
    /// sync the directory to make the name of a new pack durable.
    pub(super) fn copy_to_archive_unsynced(
        archive: &Archive,
        group: &[&SessionFiles],
        now: Timestamp,
        damaged: &BTreeSet<PathBuf>,
    ) -> Result<Archived> {
        let holdings = holdings(group, false)?;
        let path = place(archive, group, &holdings)?;
        let pack = open_existing(&path)?;
        let plan = planned(group, &holdings, &path, pack.as_ref());
        if plan.unchanged && !damaged.contains(&path) {
            return Ok(plan);
        }
        let contents = contents(group, &holdings)?;
        let stored = update::update_pack_unsynced(&path, &contents, now)?;
        refuse_damaged(&path, &verify_since(&stored.pack, stored.since))?;
        Ok(done(plan, &stored))
    }

    /// Archives a group of sessions that share files and removes them from their root.
    ///
    /// Everything is synced, read back from the archive and compared with the files in the root
    /// while their logs are locked; if anything differs, nothing is removed. If a file cannot be
    /// removed, those already removed are restored. Sessions that another program has open for
    /// writing are not removed ([`Held`](annals_jsonl::Error::Held)), nor those that one writes to, unless `live`
    /// ([`Error::Live`]).
    pub fn move_to_archive(
        &self,
        group: &[&SessionFiles],
        live: bool,
        now: Timestamp,
    ) -> Result<Archived> {
        if !live {
            group
                .iter()
                .try_for_each(|files| files.ensure_not_in_use())
                .map_err(Error::for_removal)?;
        }
        let archive = self.archive()?;
        let holdings = holdings(group, true)?;
        let path = place(&archive, group, &holdings)?;
        let pack = open_existing(&path)?;
        let plan = planned(group, &holdings, &path, pack.as_ref());
        let stored = update::update_pack(&path, &contents(group, &holdings)?, now)?;
        if let Some(gone) = stored.missing.first() {
            return Err(Error::File(FileError::Changed {
                path: holdings.root.path.join(gone),
            }));
        }
        let pack = &stored.pack;
        pack.sync()?;
        pack.drop_page_cache();
        refuse_damaged(&path, &verify(pack))?;
        // Other processes cannot remove or replace the pack until the files are removed or
        // restored.
        Log::open(&path, AppendOptions::default())?.with_lock(|file| {
            let copies = Packed {
                pack,
                file,
                root: &holdings.root,
            };
            Store::remove_files(group, &holdings, live, &copies)
        })?;
        Ok(Archived {
            removed: true,
            ..done(plan, &stored)
        })
    }
}

/// The copies in a pack whose lock is held.
struct Packed<'a> {
    pack: &'a Pack,
    /// The pack, open for writing.
    file: &'a File,
    root: &'a Root,
}

impl FileCopies for Packed<'_> {
    fn verify(&self, within: &Path) -> Result<FileId> {
        confirm(self.pack, &self.root.path, within)
    }

    fn ensure_reachable(&self) -> Result<()> {
        let named = jsonl::metadata_if_exists(&self.pack.path)?;
        match named.is_some_and(|named| self.pack.is_same_file(&FileId::from(&named))) {
            true => Ok(()),
            false => Err(Error::File(FileError::Changed {
                path: self.pack.path.clone(),
            })),
        }
    }

    fn restore(&self, gone: &[&Path]) -> Result<()> {
        self.pack.put_back(self.root, gone)
    }

    fn save_rows(&self, log: &Path, rows: &[String]) -> Result<()> {
        update::save_list_rows(&self.pack.path, self.file, log, rows)
    }
}

/// Checks that a file in the root is byte for byte the archived one. The pack must have been read
/// back before.
pub(super) fn confirm(pack: &Pack, root: &Path, within: &Path) -> Result<FileId> {
    let path = root.join(within);
    let changed = || Error::File(FileError::Changed { path: path.clone() });
    let member = pack.member(within).ok_or_else(changed)?;
    let (file, metadata) = update::open_source(&path)?.ok_or_else(changed)?;
    let id = FileId::from(&metadata);
    if !id.untouched(&member.id()) {
        return Err(changed());
    }
    let sum =
        ResumableSha256::digest_reader(file).map_err(|error| Error::io("read", &path, error))?;
    match sum == member.sha256 {
        true => Ok(id),
        // The file was changed, and its times set back.
        false => Err(Error::refused(format!(
            "{} differs from its archived copy, though its times are unchanged; nothing was removed (`touch` it and archive it again)",
            path.display()
        ))),
    }
}

fn holdings(group: &[&SessionFiles], removing: bool) -> Result<FileSet> {
    let unwritten = |files: &&&SessionFiles| files.is_unwritten();
    let empty = |files: &&&SessionFiles| removing || files.files().next().is_none();
    if let Some(files) = group.iter().filter(unwritten).find(empty) {
        return Err(Error::refused(format!(
            "session {} has no messages yet, so there is nothing to archive",
            files.id
        )));
    }
    match removing {
        true => FileSet::to_remove(group),
        false => FileSet::from_sessions(group),
    }
}

/// Returns the path of the group's pack: an existing one of any of its sessions, or that of the
/// first.
fn place(archive: &Archive, group: &[&SessionFiles], holdings: &FileSet) -> Result<PathBuf> {
    let mut first = None;
    for files in group {
        let path = archive.pack_path(&holdings.root, files.id.as_str(), files.folder());
        if jsonl::exists(&path)? {
            return Ok(path);
        }
        first.get_or_insert(path);
    }
    Ok(first.unwrap_or_default())
}

/// Opens the existing pack; `None` if there is none, or if it is lost and will be replaced.
pub(super) fn open_existing(path: &Path) -> Result<Option<Pack>> {
    match Pack::open_or_lost(path) {
        Ok(pack) => Ok(Some(pack)),
        Err(PackOpenError::Lost(_)) => Ok(None),
        Err(PackOpenError::Other(Error::File(FileError::Io { source, .. })))
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(PackOpenError::Other(error)) => Err(error),
    }
}

fn planned(
    group: &[&SessionFiles],
    holdings: &FileSet,
    path: &Path,
    pack: Option<&Pack>,
) -> Archived {
    let failures = &holdings.root.failures;
    let (added, unchanged) = changes(&holdings.files, &holdings.ids, pack, failures);
    let same = |pack: &Pack| {
        let named = named(group);
        let mut named = named.iter();
        pack.index.list_digest == list_digest(group)
            && named.all(|it| pack.index.sessions.contains(it))
    };
    Archived {
        sessions: group.iter().map(|files| files.id.to_string()).collect(),
        layout: holdings.root.layout.name(),
        root: holdings.root.path.clone(),
        pack: path.to_owned(),
        files: holdings.files.len(),
        bytes: holdings.bytes(),
        added,
        packed: pack.map_or(0, |pack| pack.bytes),
        unchanged: unchanged && pack.is_some_and(same),
        removed: false,
        set_aside: None,
        mended: None,
        lost_end: None,
    }
}

/// Returns the number of bytes that a pack lacks, and whether it is up to date.
pub(super) fn changes(
    files: &[(PathBuf, bool)],
    ids: &[FileId],
    pack: Option<&Pack>,
    failures: &ReadFailures,
) -> (u64, bool) {
    let members = pack.into_iter().flat_map(Pack::members);
    let known: HashMap<&Path, FileId> = members
        .map(|member| (member.path.as_path(), member.id()))
        .collect();
    let mut added = 0;
    // If the writer was killed between the two copies of the index, it must be written again.
    let is_whole = |pack: &Pack| {
        let is_whole = failures.ok_io(&pack.path, pack.is_whole());
        is_whole.unwrap_or(false)
    };
    let mut unchanged = pack.is_some_and(is_whole);
    for ((within, is_log), id) in files.iter().zip(ids) {
        added += match known.get(within.as_path()) {
            Some(known) if known.untouched(id) => continue,
            Some(known) if *is_log && known.same_file(id) && known.len <= id.len => {
                id.len - known.len
            }
            _ => id.len,
        };
        unchanged = false;
    }
    (added, unchanged)
}

pub(super) fn done(plan: Archived, stored: &PackUpdate) -> Archived {
    Archived {
        pack: stored.pack.path.clone(),
        added: stored.added,
        packed: stored.pack.bytes,
        unchanged: stored.unchanged,
        set_aside: stored.set_aside.clone(),
        mended: stored.repaired.clone(),
        lost_end: stored.lost_end.clone(),
        ..plan
    }
}

/// Returns the contents for the pack of a group of sessions.
fn contents(group: &[&SessionFiles], holdings: &FileSet) -> Result<PackContents> {
    let rows = Store::list_rows(group)?.into_iter();
    Ok(PackContents {
        layout: holdings.root.layout.name().to_owned(),
        root: holdings.root.path.clone(),
        lone: holdings.lone,
        sessions: named(group),
        files: holdings.files.clone(),
        rows: rows
            .map(|(path, text)| PackedListRow { path, text })
            .collect(),
        list_digest: list_digest(group),
    })
}

fn named(group: &[&SessionFiles]) -> Vec<PackedSession> {
    let named = group.iter().map(|files| PackedSession {
        id: files.id.to_string(),
        folder: files.folder().map(str::to_owned),
    });
    named.collect()
}

/// Returns the digest of the session-list rows of a group; `None` if there are none.
fn list_digest(group: &[&SessionFiles]) -> Option<Checksum> {
    let about: Vec<_> = group.iter().flat_map(|files| &files.list_rows).collect();
    (!about.is_empty()).then(|| Checksum(Sha256::digest(format!("{about:?}")).into()))
}

pub(super) fn refuse_damaged(path: &Path, damaged: &[Damage]) -> Result<()> {
    match damaged.first() {
        None => Ok(()),
        Some(first) => Err(Error::refused(format!(
            "the archived data in {} cannot be read back, so nothing was removed: {}",
            path.display(),
            first.detail
        ))),
    }
}
