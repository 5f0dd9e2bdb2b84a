//! Restores archived sessions byte for byte, with modes, times, owners and attributes.
//!
//! Everything is decompressed once, into files without names. The first of them gets its name only when
//! all checksums match. Existing files are never overwritten.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::mirror::open_source;
use crate::archive_format::archived_session::ArchivedSession;
use crate::archive_format::attributes::{self, ArchivedDir};
use crate::archive_format::checksum::Checksum;
use crate::archive_format::compressed_file::CompressedFile;
use crate::archive_format::manifest::Member;
use crate::archive_format::verify::unpack;
use crate::error::{Error, Result};
use crate::store::staging::{CommitMode, StagingDir};
use crate::store::{Root, Store};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, ReadAt as _};

/// Staging directory in the root, for incomplete files.
const STAGE: &str = ".annals-restore";

/// A session that was restored, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Restored {
    /// The sessions: one, or several that share log files.
    pub(crate) sessions: Vec<String>,
    /// The layout's name.
    pub(crate) layout: &'static str,
    /// The target root.
    pub root: PathBuf,
    /// The compressed main log, or the directory of the root's archive.
    pub(crate) pack: PathBuf,
    /// The files.
    pub files: Vec<RestoredFile>,
    /// Directories that are created and whose metadata is archived, outer ones first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<RestoredDir>,
}

/// A directory that is created for restored files.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RestoredDir {
    /// Its path within the root.
    pub path: PathBuf,
    /// Metadata that cannot be restored: owner, group, extended attributes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
}

/// An archived file in a restore plan.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RestoredFile {
    /// Its path within the root.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// The action for it.
    pub fate: RestoreOutcome,
    /// Ranges that cannot be read, as offset and length.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(u64, u64)>,
    /// If the newest version cannot be read: when the version used instead was archived, or found
    /// to be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Timestamp>,
    /// Metadata that cannot be restored: owner, group, extended attributes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
}

/// Action of a restore for an archived file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// It is restored.
    New,
    /// An identical file exists.
    Same,
    /// The log exists and has grown since.
    Grown,
    /// A different file exists at its path.
    Different,
    /// A different file exists at its path and is left there; the archived one stays in the
    /// archive.
    Left,
    /// A log that cannot be read completely: the readable part is restored.
    Partial,
    /// The newest version cannot be read: an earlier version is restored.
    Earlier,
    /// Configuration, or a file of a foreign archive that is not conversation data: restored only if
    /// named.
    Held,
    /// It cannot be restored: nothing of it can be read, or it is a document, which is useless in
    /// part.
    Lost,
}

impl Restored {
    /// Returns the files with a different file at their path.
    pub fn conflicts(&self) -> impl Iterator<Item = &RestoredFile> {
        let different = |file: &&RestoredFile| file.fate == RestoreOutcome::Different;
        self.files.iter().filter(different)
    }

    /// Returns the number of bytes restored, without files that exist already and lost ranges.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(RestoredFile::put_back).sum()
    }

    /// Returns whether nothing can be read, so there is nothing to restore.
    pub fn is_lost(&self) -> bool {
        !self.files.is_empty()
            && self
                .files
                .iter()
                .all(|file| file.fate == RestoreOutcome::Lost)
    }

    /// Returns the files that are not restored as they were, because some of their content cannot
    /// be read.
    pub fn damaged(&self) -> impl Iterator<Item = &RestoredFile> {
        let damaged = |file: &&RestoredFile| !file.lost.is_empty() || file.earlier.is_some();
        self.files.iter().filter(damaged)
    }
}

impl RestoredFile {
    /// Returns whether it is restored, completely or in part.
    pub fn is_restored(&self) -> bool {
        matches!(
            self.fate,
            RestoreOutcome::New | RestoreOutcome::Partial | RestoreOutcome::Earlier
        )
    }

    /// Returns the number of its bytes that are restored.
    fn put_back(&self) -> u64 {
        match self.is_restored() {
            true => self.bytes.saturating_sub(self.gone()),
            false => 0,
        }
    }

    /// Returns the number of its bytes that cannot be read.
    fn gone(&self) -> u64 {
        self.lost.iter().map(|(_, len)| len).sum()
    }
}

impl ArchivedSession {
    /// Plans a restore, to the root `to` if given.
    pub fn plan_restore(&self, to: Option<&Path>) -> Result<Restored> {
        Ok(self.plan(to, false)?.0)
    }

    /// Plans a restore of everything that can be read.
    pub fn plan_salvage(&self, to: Option<&Path>) -> Result<Restored> {
        Ok(self.plan(to, true)?.0)
    }

    /// Returns the plan, and the source of each file.
    pub(super) fn plan(
        &self,
        to: Option<&Path>,
        salvage: bool,
    ) -> Result<(Restored, Vec<MemberState>)> {
        let root = self.target(to)?;
        let mut states = self.states(salvage, &root);
        let fate = |state: &MemberState| -> Result<RestoredFile> {
            let member = &state.member;
            let path = root.path.join(&member.path);
            root.ensure_inside(&path)?;
            let gone: u64 = state.lost.iter().map(|it| it.end - it.start).sum();
            let left = member.len.saturating_sub(gone);
            let is_log = self.is_log(&root, member);
            Ok(RestoredFile {
                path: member.path.clone(),
                bytes: member.len,
                fate: match (
                    fate(&path, member, is_log, |it| self.checksum(it))?,
                    state.earlier,
                ) {
                    (RestoreOutcome::New, _) if !self.may_restore(&root, &member.path) => {
                        RestoreOutcome::Held
                    }
                    (RestoreOutcome::New, None) if state.lost.is_empty() => RestoreOutcome::New,
                    (RestoreOutcome::New, Some(_)) if state.lost.is_empty() => {
                        RestoreOutcome::Earlier
                    }
                    // An empty log would look like a session without messages.
                    (RestoreOutcome::New, _) if left > 0 && is_log => RestoreOutcome::Partial,
                    (RestoreOutcome::New, _) => RestoreOutcome::Lost,
                    (RestoreOutcome::Different, _) if self.may_differ(member) => {
                        RestoreOutcome::Left
                    }
                    (there, _) => there,
                },
                lost: state
                    .lost
                    .iter()
                    .map(|it| (it.start, it.end - it.start))
                    .collect(),
                earlier: state.earlier,
                not_restored: Vec::new(),
            })
        };
        let mut files = states.iter().map(fate).collect::<Result<Vec<_>>>()?;
        // For a file that exists, an unreadable archived version does not matter.
        for (state, file) in states.iter_mut().zip(&mut files) {
            if matches!(
                file.fate,
                RestoreOutcome::Same | RestoreOutcome::Grown | RestoreOutcome::Left
            ) {
                (file.earlier, state.earlier) = (None, None);
            }
            if file.is_restored() {
                let (owner, attributes) = self.belongings_of(&state.member);
                file.not_restored = attributes::not_restorable(owner, attributes);
            }
        }
        let back = files.iter().filter(|file| file.is_restored());
        let dirs = self.missing_dirs(&root, back.map(|file| file.path.as_path()))?;
        let dirs = dirs.into_values().map(|dir| RestoredDir {
            path: dir.path.clone(),
            not_restored: attributes::not_restorable(Some(dir.owner), &dir.attributes),
        });
        let sessions = self.sessions.iter();
        let restored = Restored {
            sessions: sessions.map(|session| session.id.clone()).collect(),
            layout: root.layout.name(),
            dirs: dirs.collect(),
            root: root.path.clone(),
            pack: self.path.clone(),
            files,
        };
        Ok((restored, states))
    }

    /// Returns whether a restore may leave a different file in place. The agent's program may have
    /// created a new one since, such as a todo list; it stays, and the archived one stays in the
    /// archive. Not for the session's log, which the other files belong to, nor for an earlier
    /// version that the user asked for.
    fn may_differ(&self, member: &Member) -> bool {
        let is_main = self.lone || self.is_session_log(&member.path);
        !is_main && member.until.is_none()
    }

    /// Restores its files. Refuses if a different session log exists or any file is damaged; then
    /// nothing is changed. Other existing files are left, and the archived ones stay in the archive
    /// ([`RestoreOutcome::Left`]). An interrupted restore can be repeated.
    pub fn restore(&self, to: Option<&Path>) -> Result<Restored> {
        let (plan, states) = self.plan(to, false)?;
        self.carry_out(to, plan, &states)
    }

    /// Restores what can be read: intact files completely, logs in part, incomplete documents not
    /// at all. Uses an earlier version if more of it can be read. Never overwrites a file. A lost
    /// range of a log ends the line, so that the lines before and after it are not joined.
    pub fn restore_salvaged(&self, to: Option<&Path>) -> Result<Restored> {
        let (plan, states) = self.plan(to, true)?;
        self.carry_out(to, plan, &states)
    }

    /// Carries out a plan; `states` are the sources of its files.
    pub(super) fn carry_out(
        &self,
        to: Option<&Path>,
        mut plan: Restored,
        states: &[MemberState],
    ) -> Result<Restored> {
        if let Some(other) = plan.conflicts().next() {
            let path = plan.root.join(&other.path);
            return Err(Error::refused(format!(
                "{} exists and differs from the archived file; nothing was changed (--to DIR restores elsewhere)",
                path.display()
            )));
        }
        if plan.is_lost() {
            return Err(Error::refused(format!(
                "{} is damaged, and none of its files can be read; nothing was changed",
                self.path.display()
            )));
        }
        let root = self.target(to)?;
        let each = states.iter().zip(&plan.files);
        let fresh = each.filter(|(_, file)| file.is_restored());
        let fresh: Vec<Source<'_>> = fresh
            .map(|(state, file)| Source {
                member: &state.member,
                partly: file.fate == RestoreOutcome::Partial,
            })
            .collect();
        // A run killed after all files got their names leaves an empty staging directory.
        let left = jsonl::exists(&root.path.join(STAGE))?;
        if left || !fresh.is_empty() {
            let mut not_restored = self.place(&root, &fresh)?;
            for file in plan.files.iter_mut().filter(|file| file.is_restored()) {
                file.not_restored = not_restored.remove(&file.path).unwrap_or_default();
            }
            for dir in &mut plan.dirs {
                dir.not_restored = not_restored.remove(&dir.path).unwrap_or_default();
            }
        }
        if !self.lone {
            let is_gone = |fate| matches!(fate, RestoreOutcome::Lost | RestoreOutcome::Held);
            let there = plan.files.iter().filter(|it| !is_gone(it.fate));
            let logs: Vec<PathBuf> = there.map(|it| it.path.clone()).collect();
            Store::relist(&root, &logs, &self.rows())?;
        }
        Ok(plan)
    }

    /// Restores files that were just removed.
    pub(super) fn put_back(&self, root: &Root, gone: &[&Path]) -> Result<()> {
        let members = self.members.iter();
        let members: Vec<Source<'_>> = members
            .filter(|member| gone.contains(&member.path.as_path()))
            .map(|member| Source {
                member,
                partly: false,
            })
            .collect();
        self.place(root, &members).map(drop)
    }

    /// Creates files; those marked `partly` from what can be read. Returns metadata that could not
    /// be restored, by path.
    fn place(&self, root: &Root, members: &[Source<'_>]) -> Result<HashMap<PathBuf, Vec<String>>> {
        // Nothing may disappear that is restored in part.
        let open = self.holding(members.iter().map(|source| source.member));
        // The main log gets its name last: before that, nobody can mistake the session for
        // complete.
        let main = self.main_log().map(|main| main.path.as_path());
        let stage = StagingDir::with_name(root, STAGE, "restoring", CommitMode::AtEnd)?;
        let mut not_restored = HashMap::new();
        for source in members.iter().rev() {
            let Source { member, partly } = *source;
            let last = Some(member.path.as_path()) == main;
            match open.stage(&stage, member, partly, last) {
                Ok(left) => _ = not_restored.insert(member.path.clone(), left),
                Err(error) => {
                    stage.abandon();
                    return Err(error);
                }
            }
        }
        // Created immediately before the files are renamed into them.
        let sources = members.iter();
        let sources = sources.map(|source| source.member.path.as_path());
        let dirs = self.missing_dirs(root, sources)?;
        for (path, dir) in &dirs {
            root.ensure_inside(path)?;
            jsonl::ensure_dir(path)?;
            not_restored.insert(dir.path.clone(), dir.apply_open(path)?);
        }
        if let Some(taken) = stage.close()?.first() {
            return Err(Error::File(FileError::Changed {
                path: taken.clone(),
            }));
        }
        // Inner directories first: the mode of an outer one may forbid access.
        for (path, dir) in dirs.iter().rev() {
            dir.close(path)?;
        }
        Ok(not_restored)
    }

    /// Unpacks a file into the staging directory. Returns metadata that could not be restored.
    fn stage(
        &self,
        stage: &StagingDir,
        member: &Member,
        partly: bool,
        last: bool,
    ) -> Result<Vec<String>> {
        let mut staged = stage.file(&member.path)?;
        let damaged = match partly {
            true => self
                .put_sound(member, |bytes| staged.put(bytes))
                .map(|()| Vec::new()),
            false => unpack(self, member, |bytes| staged.put(bytes)),
        }?;
        if let Some(damage) = damaged.first() {
            let (path, detail) = (member.path.display(), &damage.detail);
            return Err(Error::refused(format!(
                "{path} cannot be restored, and nothing was changed: {detail} (--salvage restores what can be read)"
            )));
        }
        // The mode is set last, because a change of owner clears some of its bits.
        let (owner, attributes) = self.belongings_of(member);
        let left = attributes::apply(staged.file(), owner, attributes);
        staged.set_metadata(self.mode_of(member), member.mtime_ns);
        match last {
            true => stage.commit_last(staged)?,
            false => stage.commit(staged)?,
        };
        Ok(left)
    }

    /// Passes the readable parts of a log to `put`.
    fn put_sound(&self, member: &Member, mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut gap, mut open) = (false, false);
        self.file(member)?.each_frame(0, |_, bytes| {
            let Ok(bytes) = bytes else {
                gap = true;
                return Ok(());
            };
            if gap && open {
                put(b"\n")?;
            }
            gap = false;
            open = bytes.last() != Some(&b'\n');
            put(bytes)
        })
    }

    /// Returns the checksum of a file, from its content if its line is lost; `None` if it cannot be
    /// read.
    fn checksum(&self, member: &Member) -> Result<Option<Checksum>> {
        if member.sha256.is_some() {
            return Ok(member.sha256);
        }
        let content = self.file(member)?;
        let reader = jsonl::RangeReader::from_offset(&*content, 0);
        Ok(Checksum::digest_reader(reader).ok())
    }

    fn is_log(&self, root: &Root, member: &Member) -> bool {
        let artifact = root.layout.classify(&member.path);
        self.lone || artifact.is_some_and(|artifact| artifact.kind.is_log())
    }
}

/// A file to create.
#[derive(Clone, Copy)]
struct Source<'a> {
    member: &'a Member,
    /// Restore only what can be read.
    partly: bool,
}

/// A version of an archived file, and its unreadable ranges.
#[derive(Clone, Debug)]
pub(super) struct MemberState {
    member: Member,
    lost: Vec<Range<u64>>,
    /// For an earlier version: when it was found to be replaced.
    earlier: Option<Timestamp>,
}

impl MemberState {
    /// Returns how much of it is useful: the readable bytes of a log, all or nothing of a document.
    fn worth(&self, is_log: bool) -> u64 {
        let gone: u64 = self.lost.iter().map(|it| it.end - it.start).sum();
        match (is_log, gone) {
            (true, gone) => self.member.len.saturating_sub(gone),
            (false, 0) => 1,
            (false, _) => 0,
        }
    }
}

impl ArchivedSession {
    /// Returns the versions of its files to restore: the newest or, with `salvage`, everything that
    /// is in the newest or in an earlier version, if more of that can be read.
    fn states(&self, salvage: bool, root: &Root) -> Vec<MemberState> {
        let state = |member: &Member, earlier| match salvage {
            true => self.salvaged(member, earlier),
            false => MemberState {
                member: member.clone(),
                lost: Vec::new(),
                earlier,
            },
        };
        let newest = self.members.iter().map(|member| {
            let newest = state(member, None);
            let is_log = self.is_log(root, member);
            let versions = self.earlier.iter().rev();
            let versions = versions.filter(|it| it.path == member.path && !newest.lost.is_empty());
            let versions = versions.map(|it| state(it, Some(it.until.unwrap_or(it.archived))));
            // The newer one, where they are worth the same.
            versions.fold(newest.clone(), |best, other| {
                match other.worth(is_log) > best.worth(is_log) {
                    true => other,
                    false => best,
                }
            })
        });
        newest.collect()
    }

    /// Returns what can be read of a file, including frames that its line does not list.
    fn salvaged(&self, member: &Member, earlier: Option<Timestamp>) -> MemberState {
        let mut member = member.clone();
        let unlisted = CompressedFile::open_unlisted(&self.location(&member)).ok();
        if let Some((content, packed)) = unlisted.filter(|(_, packed)| *packed > member.packed) {
            member.len = content.size().unwrap_or(member.len);
            (member.packed, member.sha256) = (packed, None);
        }
        let lost = match self.file(&member) {
            Ok(content) => content.lost_ranges(),
            Err(_) => std::iter::once(0..member.len).collect(),
        };
        MemberState {
            member,
            lost,
            earlier,
        }
    }

    /// Returns the missing directories of files, by path, if they are archived. Outer ones first.
    fn missing_dirs<'a>(
        &'a self,
        root: &Root,
        files: impl Iterator<Item = &'a Path>,
    ) -> Result<BTreeMap<PathBuf, &'a ArchivedDir>> {
        let dirs = files.flat_map(|path| self.dirs_of(path));
        let dirs: BTreeMap<PathBuf, &ArchivedDir> =
            dirs.map(|dir| (root.path.join(&dir.path), dir)).collect();
        let mut missing = BTreeMap::new();
        for (path, dir) in dirs {
            if !jsonl::exists(&path)? {
                missing.insert(path, dir);
            }
        }
        Ok(missing)
    }
}

fn fate(
    path: &Path,
    member: &Member,
    is_log: bool,
    archived: impl Fn(&Member) -> Result<Option<Checksum>>,
) -> Result<RestoreOutcome> {
    let Some((file, metadata)) = open_source(path)? else {
        return Ok(RestoreOutcome::New);
    };
    let there = match metadata.len().cmp(&member.len) {
        Ordering::Equal => RestoreOutcome::Same,
        Ordering::Greater if is_log => RestoreOutcome::Grown,
        _ => return Ok(RestoreOutcome::Different),
    };
    let sum = Checksum::digest_reader(file.take(member.len));
    let sum = sum.map_err(|error| Error::io("read", path, error))?;
    Ok(match archived(member)? == Some(sum) {
        true => there,
        false => RestoreOutcome::Different,
    })
}
