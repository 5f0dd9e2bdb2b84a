//! Which files beside its log each session of a root has in the archive.
//!
//! A session that is in its root is not looked up in its pack: there may be thousands, and nearly all
//! have everything that they had. The roster tells which of them lack something, by a number for each
//! file's path. It is derived and only grows: what is in it and in no pack any more costs a look, and
//! where there is none, or a damaged one, all packs are looked at. `annals keep` makes it.
//!
//! Whoever adds files to a pack tells the roster before the pack's index does, so that nothing is
//! missed. docs/STATE.md tells of its form.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::OFlags;

use super::pack::Pack;
use super::pack_index::PackIndex;
use super::{is_pack, names};
use crate::error::{Error, Result};
use crate::jsonl::{self, AppendOptions, Create, Log};
use crate::layout;
use crate::model::ArtifactKind;

/// Its name in the directory of a root's packs.
const NAME: &str = "members";

/// Its first line, with the version of its form.
const HEADER: &str = "annals-members 1";

/// The line that says that all packs that were there before are told of.
const ALL: &str = "all";

/// The kinds of files that an agent's program deletes by itself, though their session lives.
pub(crate) fn is_attachment(kind: ArtifactKind) -> bool {
    is_agent(kind)
        || matches!(
            kind,
            ArtifactKind::AgentMeta
                | ArtifactKind::ToolResult
                | ArtifactKind::FileVersion
                | ArtifactKind::Todos
        )
}

fn is_agent(kind: ArtifactKind) -> bool {
    kind == ArtifactKind::AgentLog
}

/// The number of a path within a root.
pub(crate) fn path_hash(path: &Path) -> u64 {
    digest(path.as_os_str().as_bytes())
}

/// What is told of the packs of a root.
#[derive(Debug)]
pub(crate) struct MemberList {
    text: String,
}

impl MemberList {
    /// That of a directory of packs; `None` if there is none that tells of all.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(dir.join(NAME))
            .ok()?;
        // Whoever reads a pipe waits for somebody to write.
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let text = io::read_to_string(file).ok()?;
        let roster = MemberList { text };
        let mut lines = roster.lines();
        let mut all = lines.next() == Some(Some(HEADER));
        let mut ended = false;
        for line in lines {
            match line {
                Some(line) => ended |= line == ALL,
                None => all = false,
            }
        }
        (all && ended).then_some(roster)
    }

    /// Its whole lines, without their checksums; `None` for one that is damaged. One without an end is
    /// being written.
    fn lines(&self) -> impl Iterator<Item = Option<&str>> {
        let lines = self.text.split_inclusive('\n');
        let whole = lines.filter_map(|line| line.strip_suffix('\n'));
        whole.map(|line| {
            let (line, sum) = line.rsplit_once(" =")?;
            (sum == spelled(digest(line.as_bytes()))).then_some(line)
        })
    }

    /// The names of packs that hold a file which is not there. If only `logs` are wanted, other files do
    /// not count.
    pub(crate) fn packs_with_missing_files<'a>(
        &'a self,
        there: &'a HashSet<u64>,
        logs: bool,
    ) -> impl Iterator<Item = &'a OsStr> {
        let lines = self.lines().skip(1).flatten();
        lines.filter_map(move |line| {
            let mut words = line.split(' ');
            let pack = words.next()?;
            let mut numbers = words.filter_map(|word| {
                let number = u64::from_str_radix(word.get(1..)?, 16).ok()?;
                (!logs || word.starts_with('l')).then_some(number)
            });
            let gone = numbers.any(|number| !there.contains(&number));
            gone.then_some(OsStr::new(pack))
        })
    }

    /// What is told of each pack, to find out what is not.
    fn known(&self) -> HashSet<(&str, &str)> {
        let lines = self.lines().skip(1).flatten();
        let told = lines.flat_map(|line| {
            let (pack, numbers) = line.split_once(' ').unwrap_or((line, ""));
            numbers.split(' ').map(move |number| (pack, number))
        });
        told.collect()
    }
}

/// Tells the roster of files that a pack is about to hold and that `old` does not; nothing if there is
/// no roster. Says whether there is one.
pub(super) fn record_members(
    pack: &Path,
    old: Option<&PackIndex>,
    new: &PackIndex,
) -> Result<bool> {
    let path = pack.with_file_name(NAME);
    if !jsonl::metadata_if_exists(&path)?.is_some_and(|found| found.is_file()) {
        return Ok(false);
    }
    let Some(line) = line_of(pack, old, new) else {
        return Ok(true);
    };
    let told =
        Log::open(&path, AppendOptions::default()).and_then(|log| log.append(line.as_bytes()));
    match told {
        Ok(_) => Ok(true),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the roster of a directory if there is none; if `all`, looks whether the one that is there tells of
/// all packs, which an older program may have added to. Whoever calls it is the only one to do so.
pub(super) fn update(dir: &Path, all: bool) -> Result<()> {
    let path = dir.join(NAME);
    let roster = MemberList::read(dir);
    if roster.is_some() && !all {
        return Ok(());
    }
    let packs: Vec<PathBuf> = names(dir)?.into_iter().filter(|it| is_pack(it)).collect();
    if packs.is_empty() {
        return Ok(());
    }
    if roster.is_none() {
        // One that is damaged or no file, or was not finished. Nothing in it is lost: the packs tell.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path, error));
            }
            _ => {}
        }
    }
    // It is there before the packs are looked at, so that those who add to one meanwhile tell it.
    let create = match roster {
        Some(_) => Create::Never,
        None => Create::New,
    };
    let log = Log::open(
        &path,
        AppendOptions {
            create,
            ..AppendOptions::default()
        },
    )?;
    if roster.is_none() {
        log.append(sealed(HEADER).as_bytes())?;
    }
    let known = roster.as_ref().map(MemberList::known).unwrap_or_default();
    let line = |pack: &PathBuf| {
        // Of one that cannot be read nothing can be told; whoever looks for damage finds it.
        let open = Pack::open(pack).ok()?;
        let name = name_of(pack);
        let told = |number: &str| known.contains(&(name.as_str(), number));
        let mut lacking = numbers(None, &open.index);
        lacking.retain(|number| !told(number));
        (!lacking.is_empty()).then(|| sealed(&format!("{name} {}", lacking.join(" "))))
    };
    let mut lines: Vec<String> = packs.par_iter().filter_map(line).collect();
    if roster.is_none() {
        lines.push(sealed(ALL));
    }
    log.append_all(&lines).map(drop)
}

/// Whether a path is that of a roster.
pub(super) fn is_roster(path: &Path) -> bool {
    path.ends_with(NAME)
}

/// Removes the roster of a directory in which no pack is left.
pub(super) fn remove(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path, error))
        }
        _ => Ok(()),
    }
}

/// What is told of the files of a pack that `old` does not hold; `None` if there are none.
fn line_of(pack: &Path, old: Option<&PackIndex>, new: &PackIndex) -> Option<String> {
    let numbers = numbers(old, new);
    let name = name_of(pack);
    (!numbers.is_empty()).then(|| sealed(&format!("{name} {}", numbers.join(" "))))
}

fn name_of(pack: &Path) -> String {
    let name = pack.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The numbers of files that a pack holds beside logs of sessions, each with a letter for its kind.
fn numbers(old: Option<&PackIndex>, new: &PackIndex) -> Vec<String> {
    let old = old.into_iter().flat_map(|index| &index.members);
    let known: HashSet<&Path> = old.map(|member| member.path.as_path()).collect();
    let Some(layout) = layout::by_name(&new.layout).filter(|_| !new.lone) else {
        return Vec::new();
    };
    let fresh = new.members.iter();
    let fresh = fresh.filter(|member| !known.contains(member.path.as_path()));
    let numbers = fresh.filter_map(|member| {
        let kind = layout.classify(&member.path)?.kind;
        let letter = if is_agent(kind) { 'l' } else { 'b' };
        is_attachment(kind).then(|| format!("{letter}{}", spelled(path_hash(&member.path))))
    });
    numbers.collect()
}

fn sealed(line: &str) -> String {
    let mut line = line.to_owned();
    let sum = digest(line.as_bytes());
    // A string takes whatever is written to it.
    let _ = write!(line, " ={}", spelled(sum));
    line
}

fn spelled(number: u64) -> String {
    format!("{number:016x}")
}

/// Eight bytes at a time. It is written down, so it never changes while the version is the same.
fn digest(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| {
        let wide = u128::from(state ^ word) * u128::from(ODD);
        ((wide as u64) ^ ((wide >> 64) as u64)).wrapping_add(ODD)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let words = words.iter().chain(std::iter::once(&last));
    let words = words.map(|word| u64::from_le_bytes(*word));
    let state = words.fold(ODD ^ bytes.len() as u64, mix);
    mix(state, state >> 32)
}
