//! Archiving sessions: what is to be done, doing it, and removing what was archived.

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
use crate::jsonl::{self, AppendOptions, FileId, Log};
use crate::store::{FileCopies, FileSet, ReadFailures, Root, SessionFiles, Store};

/// What was archived, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Archived {
    /// The sessions: one, or those whose logs are the same files; none for what belongs to no session.
    pub sessions: Vec<String>,
    /// The layout's name.
    pub layout: &'static str,
    /// The root they lie in.
    pub root: PathBuf,
    /// The pack.
    pub pack: PathBuf,
    /// How many files they have.
    pub files: usize,
    /// How many bytes those have.
    pub bytes: u64,
    /// How many of those bytes the pack lacks, or lacked.
    pub added: u64,
    /// How long the pack is; nothing if there is none yet.
    pub packed: u64,
    /// The pack has everything already.
    pub unchanged: bool,
    /// The files were removed from the root.
    pub removed: bool,
    /// Where the pack was put that was there before and could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// What was wrong with the pack, if it was written anew with all that it held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mended: Option<String>,
    /// What the pack had lost of its end before it was added to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_end: Option<String>,
}

impl Store {
    /// The archive.
    pub fn archive(&self) -> Result<Archive> {
        match self.state_dir() {
            Some(state) => Ok(Archive::open(state).reporting_to(self.failures())),
            None => Err(Error::refused("there is no state directory to archive to")),
        }
    }

    /// What archiving sessions that share files would do; one session mostly stands alone. See
    /// [`SessionFiles::group_by_shared_files`].
    pub fn plan_archive(&self, group: &[&SessionFiles], removing: bool) -> Result<Archived> {
        let archive = self.archive()?;
        let holdings = holdings(group, removing)?;
        let path = place(&archive, group, &holdings)?;
        let pack = open_existing(&path)?;
        Ok(planned(group, &holdings, &path, pack.as_ref()))
    }

    /// Brings the archive up to date with sessions that share files. What was written is read back.
    ///
    /// A session that has not changed costs a `stat` for each of its files, unless its pack was found
    /// damaged: then what cannot be read of it is taken from the files again.
    pub fn copy_to_archive(&self, group: &[&SessionFiles], now: Timestamp) -> Result<Archived> {
        let archive = self.archive()?;
        let damaged = archive_all::known_damaged(&archive);
        let archived = Store::copy_to_archive_unsynced(&archive, group, now, &damaged)?;
        if !archived.unchanged {
            update::sync_dir(&archived.pack)?;
        }
        Ok(archived)
    }

    /// The same, with the packs that are known to be damaged. The name of a pack that is created is
    /// durable only when its directory is synced.
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

    /// Archives sessions that share files and removes them from their root.
    ///
    /// Everything is made durable, read back from the archive and compared with what lies in the root
    /// while its logs are locked; if anything differs, nothing is removed. If a file cannot be removed,
    /// those that were are put back. Sessions that another program is writing to, or has open to, stay
    /// ([`Error::Live`], [`Error::Held`]), unless `live`.
    pub fn move_to_archive(
        &self,
        group: &[&SessionFiles],
        live: bool,
        now: Timestamp,
    ) -> Result<Archived> {
        if !live {
            group
                .iter()
                .try_for_each(|files| self.ensure_not_in_use(files))?;
        }
        let archive = self.archive()?;
        let holdings = holdings(group, true)?;
        let path = place(&archive, group, &holdings)?;
        let pack = open_existing(&path)?;
        let plan = planned(group, &holdings, &path, pack.as_ref());
        let stored = update::update_pack(&path, &contents(group, &holdings)?, now)?;
        if let Some(gone) = stored.missing.first() {
            return Err(Error::Changed {
                path: holdings.root.path.join(gone),
            });
        }
        let pack = &stored.pack;
        pack.sync()?;
        pack.drop_page_cache();
        refuse_damaged(&path, &verify(pack))?;
        // Whoever removes or replaces the pack waits until the files are gone, or back.
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
            false => Err(Error::Changed {
                path: self.pack.path.clone(),
            }),
        }
    }

    fn restore(&self, gone: &[&Path]) -> Result<()> {
        self.pack.put_back(self.root, gone)
    }

    fn save_rows(&self, log: &Path, rows: &[String]) -> Result<()> {
        update::save_list_rows(&self.pack.path, self.file, log, rows)
    }
}

/// Makes sure that a file of a root is byte for byte what a pack holds, which was read back before.
pub(super) fn confirm(pack: &Pack, root: &Path, within: &Path) -> Result<FileId> {
    let path = root.join(within);
    let changed = || Error::Changed { path: path.clone() };
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
        // Its times were set back after it was changed.
        false => Err(Error::refused(format!(
            "{} is not what the archive holds of it, though it looks unchanged; nothing was removed (`touch` it and archive it again)",
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

/// The pack of sessions: the one that has any of them, or the first one's.
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

/// The pack that is there; one that is beyond reading will be begun anew.
pub(super) fn open_existing(path: &Path) -> Result<Option<Pack>> {
    match Pack::open_or_lost(path) {
        Ok(pack) => Ok(Some(pack)),
        Err(PackOpenError::Lost(_)) => Ok(None),
        Err(PackOpenError::Other(Error::Io { source, .. }))
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
        pack.index.told == told(group) && named.all(|it| pack.index.sessions.contains(it))
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

/// How many bytes of files a pack lacks, and whether it is as it should be without a change.
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
    // What was cut off between the two copies of an index is written again.
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

/// What is to be in the pack of sessions.
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
        list_digest: told(group),
    })
}

fn named(group: &[&SessionFiles]) -> Vec<PackedSession> {
    let named = group.iter().map(|files| PackedSession {
        id: files.id.to_string(),
        folder: files.folder().map(str::to_owned),
    });
    named.collect()
}

/// A digest of what registers tell of sessions; nothing where there are none.
fn told(group: &[&SessionFiles]) -> Option<Checksum> {
    let about: Vec<_> = group.iter().flat_map(|files| &files.list_rows).collect();
    (!about.is_empty()).then(|| Checksum(Sha256::digest(format!("{about:?}")).into()))
}

pub(super) fn refuse_damaged(path: &Path, damaged: &[Damage]) -> Result<()> {
    match damaged.first() {
        None => Ok(()),
        Some(first) => Err(Error::refused(format!(
            "what was archived in {} cannot be read back, so nothing was removed: {}",
            path.display(),
            first.detail
        ))),
    }
}
