//! Archives sessions: plan and copy.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::Archive;
use super::archive_all;
use super::mirror::{Contents, Mirror, Stored};
use crate::archive_format::checksum::Checksum;
use crate::archive_format::manifest::{Manifest, Member, SessionKey, file_path};
use crate::archive_format::root_archive::RootArchive;
use crate::archive_format::verify::verify_written;
use crate::error::{Error, Result};
use crate::store::{FileSet, SessionFiles, Store};
use annals_jsonl::{self as jsonl, FileId};

/// A group of sessions that was archived, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Archived {
    /// The sessions: one, or several that share log files; empty for files that belong to no
    /// session.
    pub sessions: Vec<String>,
    /// The layout's name.
    pub(crate) layout: &'static str,
    /// Their root.
    pub root: PathBuf,
    /// The compressed main log, or the directory of the root's archive for files that belong to no
    /// session.
    pub pack: PathBuf,
    /// Number of files.
    pub files: usize,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Bytes that the archive lacks, or lacked.
    pub added: u64,
    /// Length of the compressed files; 0 if there are none yet.
    pub packed: u64,
    /// The archive is up to date.
    pub unchanged: bool,
    /// The files were removed from the root.
    pub removed: bool,
    /// Damage of the archived files, if they were archived again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mended: Option<String>,
}

impl Store {
    /// Plans archiving a group of sessions that share files; most groups are one session. See
    /// [`SessionFiles::group_by_shared_files`].
    pub fn plan_archive(&self, group: &[&SessionFiles], removing: bool) -> Result<Archived> {
        let holdings = holdings(group, removing)?;
        let archive = self.archive()?;
        let root = archive.archive_of(&holdings.root, holdings.lone);
        archive.with_known(&root, |manifest| {
            let mut failed = None;
            let fail = &mut |error| _ = failed.get_or_insert(error);
            let plan = planned(group, &holdings, &root, manifest, fail);
            failed.map_or(Ok(plan), Err)
        })
    }

    /// Updates the archive with a group of sessions that share files. Reads back what was written.
    ///
    /// An unchanged session costs two `stat` calls per file, unless its copy is recorded as damaged:
    /// then it is read, and what is damaged is archived again.
    pub fn copy_to_archive(&self, group: &[&SessionFiles], now: Timestamp) -> Result<Archived> {
        let archive = self.archive()?;
        let suspects = archive_all::known_damaged(&archive);
        let holdings = holdings(group, false)?;
        let contents = contents(group, &holdings)?;
        archive.with_locked(&holdings.root, holdings.lone, |root, manifest| {
            let plan = planned(group, &holdings, root, manifest, &mut |_| {});
            let stored = store(root, manifest, contents, now, Some(&suspects))?;
            verify_written(root, manifest, &stored.written)?;
            Ok(done(plan, &stored, manifest, &holdings.files))
        })
    }
}

impl Archive {
    /// Passes the manifest of a root's archive to `look`, without a lock.
    fn with_known<T>(
        &self,
        root: &RootArchive,
        look: impl FnOnce(&Manifest) -> Result<T>,
    ) -> Result<T> {
        // A newer version is refused.
        RootArchive::open(&root.dir)?;
        let manifest = match self.known_manifest(root)? {
            Some(known) => known,
            None => root.read_lines(&|_| false)?,
        };
        let looked = look(&manifest);
        self.remember(root, manifest);
        looked
    }
}

/// Archives one group.
pub(super) fn store(
    root: &RootArchive,
    manifest: &mut Manifest,
    contents: Contents,
    now: Timestamp,
    suspects: Option<&BTreeSet<PathBuf>>,
) -> Result<Stored> {
    let mut mirror = Mirror {
        archive: root,
        manifest,
        now,
        suspects,
    };
    let mut results = mirror.store(&[contents])?;
    results.pop().unwrap_or_else(|| Ok(Stored::default()))
}

pub(super) fn holdings(group: &[&SessionFiles], removing: bool) -> Result<FileSet> {
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

/// Plans copies. A stored copy that cannot be examined is replaced, and its error is passed to `fail`.
pub(super) fn planned(
    group: &[&SessionFiles],
    holdings: &FileSet,
    root: &RootArchive,
    manifest: &Manifest,
    fail: &mut dyn FnMut(Error),
) -> Archived {
    let (added, unchanged) = changes(&holdings.files, &holdings.ids, root, manifest, fail);
    let main = holdings.files.first().map(|(main, _)| main.as_path());
    let known = main.and_then(|main| manifest.files.get(main));
    let same = |known: &Member| {
        let mut named = named(group).into_iter();
        known.list_digest == list_digest(group) && named.all(|it| known.sessions.contains(&it))
    };
    Archived {
        sessions: group.iter().map(|files| files.id.to_string()).collect(),
        layout: holdings.root.layout.name(),
        root: holdings.root.path.clone(),
        pack: match main.filter(|_| !group.is_empty()) {
            Some(main) => file_path(&root.dir, main),
            None => root.dir.clone(),
        },
        files: holdings.files.len(),
        bytes: holdings.bytes(),
        added,
        packed: packed(&holdings.files, manifest),
        unchanged: unchanged && known.is_some_and(same),
        removed: false,
        mended: None,
    }
}

fn packed(files: &[(PathBuf, bool)], manifest: &Manifest) -> u64 {
    let known = files
        .iter()
        .filter_map(|(path, _)| manifest.files.get(path));
    known.map(|member| member.packed).sum()
}

/// Returns the number of bytes that the archive lacks, and whether it is up to date.
pub(super) fn changes(
    files: &[(PathBuf, bool)],
    ids: &[FileId],
    root: &RootArchive,
    manifest: &Manifest,
    fail: &mut dyn FnMut(Error),
) -> (u64, bool) {
    let (mut added, mut unchanged) = (0, true);
    for ((within, is_log), id) in files.iter().zip(ids) {
        let known = manifest.files.get(within);
        let mut is_there = |known: &Member| {
            let there = jsonl::metadata_if_exists(&known.location(&root.dir));
            let there = there.map_err(|error| fail(error.into())).ok().flatten();
            there.is_some_and(|there| {
                let there = FileId::from(&there);
                there.len >= known.packed && there.ctime_ns == known.packed_ctime_ns
            })
        };
        added += match known {
            Some(known)
                if known.id().untouched(id) && known.moved_to.is_none() && is_there(known) =>
            {
                continue;
            }
            Some(known) if *is_log && known.id().same_file(id) && known.len <= id.len => {
                id.len - known.len
            }
            _ => id.len,
        };
        unchanged = false;
    }
    (added, unchanged)
}

pub(super) fn done(
    plan: Archived,
    stored: &Stored,
    manifest: &Manifest,
    files: &[(PathBuf, bool)],
) -> Archived {
    let repaired = stored
        .repaired
        .first()
        .map(|first| match stored.repaired.len() {
            1 if stored.unread.is_empty() => format!(
                "the copy of {} was damaged and is archived again",
                first.display()
            ),
            1 => format!(
                "the copy of {} could not be read and is archived again",
                first.display()
            ),
            count => format!(
                "the copies of {count} files were damaged or unreadable and are archived again"
            ),
        });
    Archived {
        added: stored.added,
        packed: packed(files, manifest),
        unchanged: !stored.is_changed,
        mended: repaired,
        ..plan
    }
}

/// Returns what to archive of a group of sessions.
pub(super) fn contents(group: &[&SessionFiles], holdings: &FileSet) -> Result<Contents> {
    Ok(Contents {
        sessions: named(group),
        files: holdings.files.clone(),
        rows: Store::list_rows(group)?,
        list_digest: list_digest(group),
    })
}

fn named(group: &[&SessionFiles]) -> Vec<SessionKey> {
    let named = group.iter().map(|files| SessionKey {
        id: files.id.to_string(),
        folder: files.folder().map(str::to_owned),
    });
    named.collect()
}

/// Returns the digest of the session-list rows of a group; `None` if there are none.
fn list_digest(group: &[&SessionFiles]) -> Option<Checksum> {
    let about: Vec<_> = group.iter().flat_map(|files| &files.list_rows).collect();
    (!about.is_empty()).then(|| Checksum::compute(format!("{about:?}").as_bytes()))
}
