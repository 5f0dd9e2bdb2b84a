//! Putting archived sessions back, byte for byte, with their modes and times, their owners and attributes.
//!
//! Everything is unpacked once, straight into files that have no names yet. Only when all checksums
//! fit does the first of them get its name. Nothing that is there is ever written over.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::attributes::{self, ArchivedDir};
use super::pack::{self, Pack};
use super::pack_index::Member;
use super::resumable_sha256::ResumableSha256;
use super::salvage::MemberVersion;
use super::update::open_source;
use super::verify::unpack;
use crate::convert::staging::{CommitMode, StagingDir};
use crate::error::{Error, Result};
use crate::jsonl;
use crate::store::{Root, Store};

/// The directory of a root in which files are until they are whole.
const STAGE: &str = ".annals-restore";

/// What was put back, or would be.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Restored {
    /// The sessions: one, or those whose logs are the same files.
    pub sessions: Vec<String>,
    /// The layout's name.
    pub layout: &'static str,
    /// The root that they go to.
    pub root: PathBuf,
    /// The pack that they come from.
    pub pack: PathBuf,
    /// The files.
    pub files: Vec<RestoredFile>,
    /// The directories that are made for them and of which it is known what they were like, the outer ones
    /// first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<RestoredDir>,
}

/// A directory that is made for files that are put back.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RestoredDir {
    /// Its path within the root.
    pub path: PathBuf,
    /// What of it cannot be restored: its owner, its group, extended attributes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
}

/// A file that is put back.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RestoredFile {
    /// Its path within the root.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// What becomes of it.
    pub fate: RestoreOutcome,
    /// The stretches of it that cannot be read any more, each with where it began and how long it was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(u64, u64)>,
    /// The newest state of it cannot be read; this is the one that was archived then, or that was found to
    /// be replaced then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Timestamp>,
    /// The pack that it comes from, if that is another one than the rest does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<PathBuf>,
    /// What beside its content cannot be restored: its owner, its group, extended attributes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<String>,
}

/// What becomes of an archived file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// It is put back.
    New,
    /// It is there as it was.
    Same,
    /// A log that is there and went on since.
    Grown,
    /// Another one is in its place.
    Different,
    /// Another one is in its place and stays there; this one stays in the archive.
    Left,
    /// A log of which some cannot be read any more: what can is put back.
    Partial,
    /// It cannot be read as it was last archived: an earlier state of it is put back.
    Earlier,
    /// It is configuration, or it comes from elsewhere and is no conversation data: it is put back only
    /// if it is named.
    Held,
    /// It cannot be put back: nothing of it can be read any more, or it is a document, of which a part is
    /// of no use.
    Lost,
}

impl Restored {
    /// The files that another one is in the place of.
    pub fn conflicts(&self) -> impl Iterator<Item = &RestoredFile> {
        let different = |file: &&RestoredFile| file.fate == RestoreOutcome::Different;
        self.files.iter().filter(different)
    }

    /// How many bytes are put back: not those that are there already, nor those that are lost.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(RestoredFile::put_back).sum()
    }

    /// Nothing of it can be read any more, so there is nothing to put back.
    pub fn is_lost(&self) -> bool {
        !self.files.is_empty()
            && self
                .files
                .iter()
                .all(|file| file.fate == RestoreOutcome::Lost)
    }

    /// The files that are not put back as they were, because some of them cannot be read any more.
    pub fn damaged(&self) -> impl Iterator<Item = &RestoredFile> {
        let damaged = |file: &&RestoredFile| !file.lost.is_empty() || file.earlier.is_some();
        self.files.iter().filter(damaged)
    }
}

impl RestoredFile {
    /// It is put back, whole or in part.
    pub fn is_restored(&self) -> bool {
        matches!(
            self.fate,
            RestoreOutcome::New | RestoreOutcome::Partial | RestoreOutcome::Earlier
        )
    }

    /// How many bytes of it are put back.
    fn put_back(&self) -> u64 {
        match self.is_restored() {
            true => self.bytes.saturating_sub(self.gone()),
            false => 0,
        }
    }

    /// How many bytes of it cannot be read any more.
    fn gone(&self) -> u64 {
        self.lost.iter().map(|(_, len)| len).sum()
    }
}

impl Pack {
    /// What putting its files back would do; `to` another root, if not to their own.
    pub fn plan_restore(&self, to: Option<&Path>) -> Result<Restored> {
        Ok(self.plan(to, false)?.0)
    }

    /// What putting back what can be read of its files would do.
    pub fn plan_salvage(&self, to: Option<&Path>) -> Result<Restored> {
        Ok(self.plan(to, true)?.0)
    }

    /// What would be done, and where each of the files comes from.
    pub(super) fn plan(
        &self,
        to: Option<&Path>,
        salvage: bool,
    ) -> Result<(Restored, Vec<MemberVersion>)> {
        let root = self.target(to)?;
        let mut states = self.states(salvage, &|member| self.is_log(&root, member));
        let fate = |state: &MemberVersion| -> Result<RestoredFile> {
            let member = &state.member;
            let path = root.path.join(&member.path);
            root.ensure_inside(&path)?;
            let gone: u64 = state.lost.iter().map(|it| it.end - it.start).sum();
            let left = member.len.saturating_sub(gone);
            let is_log = self.is_log(&root, member);
            Ok(RestoredFile {
                path: member.path.clone(),
                bytes: member.len,
                fate: match (fate(&path, member, is_log)?, state.earlier) {
                    (RestoreOutcome::New, _) if !self.may_restore(&root, &member.path) => {
                        RestoreOutcome::Held
                    }
                    (RestoreOutcome::New, None) if state.lost.is_empty() => RestoreOutcome::New,
                    (RestoreOutcome::New, Some(_)) if state.lost.is_empty() => {
                        RestoreOutcome::Earlier
                    }
                    // An empty log would be taken for one in which nothing was ever said.
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
                pack: None,
                not_restored: Vec::new(),
            })
        };
        let mut files = states.iter().map(fate).collect::<Result<Vec<_>>>()?;
        // Of one that is there, it is of no matter what else can be read.
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
        let dirs = missing_dirs(&root, back.map(|file| (self, file.path.as_path())))?;
        let dirs = dirs.into_values().map(|dir| RestoredDir {
            path: dir.path.clone(),
            not_restored: attributes::not_restorable(Some(dir.owner), &dir.attributes),
        });
        let sessions = self.index.sessions.iter();
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

    /// Whether a file may be put back beside others while another one is in its place. The agent's program
    /// may have made a new one since, such as a list of todos; both stay, that one there and this one here.
    /// The log of the session is what the others belong to, and an earlier version was asked for by name.
    fn may_differ(&self, member: &Member) -> bool {
        let is_main = self.index.lone || self.index.is_session_log(&member.path);
        !is_main && member.until.is_none()
    }

    /// Puts its files back. Refuses if another log is in the place of the session's, or if any file is
    /// damaged; then nothing is changed. Other files that are in the way stay, and the archived ones stay
    /// in the archive ([`RestoreOutcome::Left`]). A run that was cut off can be run again.
    pub fn restore(&self, to: Option<&Path>) -> Result<Restored> {
        let (plan, states) = self.plan(to, false)?;
        self.carry_out(to, plan, &states)
    }

    /// Puts back what can be read of its files: whole ones as they were, logs with what is left of them,
    /// documents of which some is lost not at all. Where more can be read of an earlier state, that. Never
    /// over another file. Where a stretch of a log is lost a line ends, so that what stood before and
    /// behind it does not become one.
    pub fn restore_salvaged(&self, to: Option<&Path>) -> Result<Restored> {
        let (plan, states) = self.plan(to, true)?;
        self.carry_out(to, plan, &states)
    }

    /// Puts back what a plan says, from where its files come.
    pub(super) fn carry_out(
        &self,
        to: Option<&Path>,
        mut plan: Restored,
        states: &[MemberVersion],
    ) -> Result<Restored> {
        if let Some(other) = plan.conflicts().next() {
            let path = plan.root.join(&other.path);
            return Err(Error::refused(format!(
                "{} is there already and differs from what was archived; nothing was changed (--to DIR puts the session elsewhere)",
                path.display()
            )));
        }
        if plan.is_lost() {
            return Err(pack::refused(
                &self.path,
                "is damaged, and nothing of its files can be read any more; nothing was changed",
            ));
        }
        let root = self.target(to)?;
        let each = states.iter().zip(&plan.files);
        let fresh = each.filter(|(_, file)| file.is_restored());
        let fresh: Vec<Source<'_>> = fresh
            .map(|(state, file)| Source {
                pack: &state.pack,
                member: &state.member,
                partly: file.fate == RestoreOutcome::Partial,
            })
            .collect();
        // One that was killed when all had their names leaves an empty stage.
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
        if !self.index.lone {
            let is_gone = |fate| matches!(fate, RestoreOutcome::Lost | RestoreOutcome::Held);
            let there = plan.files.iter().filter(|it| !is_gone(it.fate));
            let logs: Vec<PathBuf> = there.map(|it| it.path.clone()).collect();
            let rows = self.index.rows.iter();
            let rows: Vec<(PathBuf, String)> = rows
                .map(|row| (row.path.clone(), row.text.clone()))
                .collect();
            Store::relist(&root, &logs, &rows)?;
        }
        Ok(plan)
    }

    /// Puts files back that were just removed.
    pub(super) fn put_back(&self, root: &Root, gone: &[&Path]) -> Result<()> {
        let members = self.members().iter();
        let members: Vec<Source<'_>> = members
            .filter(|member| gone.contains(&member.path.as_path()))
            .map(|member| Source {
                pack: self,
                member,
                partly: false,
            })
            .collect();
        self.place(root, &members).map(drop)
    }

    /// Makes files, and of those that are marked what can be read of them. Returns what beside the content
    /// of files and directories could not be restored, by their paths.
    fn place(&self, root: &Root, members: &[Source<'_>]) -> Result<HashMap<PathBuf, Vec<String>>> {
        // The main log gets its name last: until then there is no session that could be taken for whole.
        let main = self.index.main_log().map(|main| main.path.as_path());
        let stage = StagingDir::with_name(root, STAGE, "restoring", CommitMode::AtEnd)?;
        let mut not_restored = HashMap::new();
        for source in members.iter().rev() {
            let Source {
                pack,
                member,
                partly,
            } = *source;
            let last = Some(member.path.as_path()) == main;
            match pack.stage(&stage, member, partly, last) {
                Ok(left) => _ = not_restored.insert(member.path.clone(), left),
                Err(error) => {
                    stage.abandon();
                    return Err(error);
                }
            }
        }
        // They are made just before files get their names in them.
        let sources = members.iter();
        let sources = sources.map(|source| (source.pack, source.member.path.as_path()));
        let dirs = missing_dirs(root, sources)?;
        for (path, dir) in &dirs {
            root.ensure_inside(path)?;
            jsonl::ensure_dir(path)?;
            not_restored.insert(dir.path.clone(), dir.apply_open(path)?);
        }
        if let Some(taken) = stage.close()?.first() {
            return Err(Error::Changed {
                path: taken.clone(),
            });
        }
        // The inner ones first: an outer one may let nobody in.
        for (path, dir) in dirs.iter().rev() {
            dir.close(path)?;
        }
        Ok(not_restored)
    }

    /// Unpacks a file, and returns what beside its content could not be restored.
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
                "{path} cannot be put back, and nothing was changed: {detail} (--salvage puts back what can be read)"
            )));
        }
        // Its mode comes last: a new owner takes some of it away.
        let (owner, attributes) = self.belongings_of(member);
        let left = attributes::apply(staged.file(), owner, attributes);
        staged.set_metadata(self.mode_of(member), member.mtime_ns);
        match last {
            true => stage.commit_last(staged)?,
            false => stage.commit(staged)?,
        };
        Ok(left)
    }

    /// Hands over what can be read of a log.
    fn put_sound(&self, member: &Member, mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut gap, mut open) = (false, false);
        for part in &member.parts {
            let given = self.with_part(part, |bytes| {
                if gap && open {
                    put(b"\n")?;
                }
                open = bytes.last() != Some(&b'\n');
                put(bytes)
            });
            gap = given.is_err();
            given.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    fn is_log(&self, root: &Root, member: &Member) -> bool {
        let artifact = root.layout.classify(&member.path);
        self.index.lone || artifact.is_some_and(|artifact| artifact.kind.is_log())
    }
}

/// A file that is to be made.
#[derive(Clone, Copy)]
struct Source<'a> {
    pack: &'a Pack,
    member: &'a Member,
    /// What can be read of it is all that is wanted.
    partly: bool,
}

/// The directories of files that are not there, by their paths, as far as the packs that the files come from
/// say what they were like. The outer ones come first.
fn missing_dirs<'a>(
    root: &Root,
    files: impl Iterator<Item = (&'a Pack, &'a Path)>,
) -> Result<BTreeMap<PathBuf, &'a ArchivedDir>> {
    let dirs = files.flat_map(|(pack, path)| pack.dirs_of(path));
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

fn fate(path: &Path, member: &Member, is_log: bool) -> Result<RestoreOutcome> {
    let Some((file, metadata)) = open_source(path)? else {
        return Ok(RestoreOutcome::New);
    };
    let there = match metadata.len().cmp(&member.len) {
        Ordering::Equal => RestoreOutcome::Same,
        Ordering::Greater if is_log => RestoreOutcome::Grown,
        _ => return Ok(RestoreOutcome::Different),
    };
    let sum = ResumableSha256::digest_reader(file.take(member.len));
    let sum = sum.map_err(|error| Error::io("read", path, error))?;
    Ok(match sum == member.sha256 {
        true => there,
        false => RestoreOutcome::Different,
    })
}
