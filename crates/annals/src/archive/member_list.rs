//! Member list: which attachments each session of a root has in the archive.
//!
//! Listing does not open the pack of a session that is still in its root: there may be thousands,
//! and nearly all have all their files. The member list shows which of them lack a file, by a hash
//! of each file's path. It is derived from the packs and only grows. A row that no pack matches any
//! more costs one lookup. Without a valid member list, all packs are opened. `annals keep` creates
//! it.
//!
//! A writer appends to the member list before it writes the pack's index, so no file is missed.
//! docs/STATE.md specifies the format.

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
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, AppendOptions, Create, Log};
use annals_layouts::layout;
use annals_layouts::model::ArtifactKind;

/// File name in the directory of a root's packs.
const NAME: &str = "members";

/// First line, with the format version.
const HEADER: &str = "annals-members 1";

/// Line after which the list is complete for all packs that existed when it was created.
const ALL: &str = "all";

/// Returns whether the agent's program may delete files of this kind while their session still
/// exists.
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

/// Returns the hash of a path within a root.
pub(crate) fn path_hash(path: &Path) -> u64 {
    digest(path.as_os_str().as_bytes())
}

/// The member list of a root.
#[derive(Debug)]
pub(crate) struct MemberList {
    text: String,
}

impl MemberList {
    /// Reads the member list of a pack directory; `None` if there is none, or it is damaged or
    /// incomplete.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(dir.join(NAME))
            .ok()?;
        // Reading a FIFO would block until someone writes to it.
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

    /// Returns complete lines without their checksums; `None` for a damaged line. A last line
    /// without a newline is still being written and is skipped.
    fn lines(&self) -> impl Iterator<Item = Option<&str>> {
        let lines = self.text.split_inclusive('\n');
        let whole = lines.filter_map(|line| line.strip_suffix('\n'));
        whole.map(|line| {
            let (line, sum) = line.rsplit_once(" =")?;
            (sum == spelled(digest(line.as_bytes()))).then_some(line)
        })
    }

    /// Returns the names of packs that hold a file whose hash is not in `there`. With `logs`, only
    /// log files count.
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

    /// Returns all listed pairs of pack name and file entry.
    fn known(&self) -> HashSet<(&str, &str)> {
        let lines = self.lines().skip(1).flatten();
        let members = lines.flat_map(|line| {
            let (pack, numbers) = line.split_once(' ').unwrap_or((line, ""));
            numbers.split(' ').map(move |number| (pack, number))
        });
        members.collect()
    }
}

/// Appends the files of `new` that `old` does not have to the member list. Does nothing if there is
/// no member list; returns whether there is one.
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
    let appended =
        Log::open(&path, AppendOptions::default()).and_then(|log| log.append(line.as_bytes()));
    match appended {
        Ok(_) => Ok(true),
        Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Creates the member list of a directory if there is none. With `all`, also adds files that an
/// existing list lacks, because an older program may have added to packs without it. The caller
/// must hold the lock.
pub(super) fn update(dir: &Path, all: bool) -> Result<()> {
    match update_existing(dir, all) {
        // Another process removed the last pack, and the directory with it.
        Err(_) if !jsonl::exists(dir)? => Ok(()),
        updated => updated,
    }
}

fn update_existing(dir: &Path, all: bool) -> Result<()> {
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
        // Damaged, unfinished or not a regular file. It can be rebuilt from the packs.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path, error));
            }
            _ => {}
        }
    }
    // The list must exist before the packs are read, so that concurrent writers append to it.
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
        // A pack that cannot be read is skipped; verification reports it.
        let open = Pack::open(pack).ok()?;
        let name = name_of(pack);
        let is_known = |number: &str| known.contains(&(name.as_str(), number));
        let mut lacking = numbers(None, &open.index);
        lacking.retain(|number| !is_known(number));
        (!lacking.is_empty()).then(|| sealed(&format!("{name} {}", lacking.join(" "))))
    };
    let mut lines: Vec<String> = packs.par_iter().filter_map(line).collect();
    if roster.is_none() {
        lines.push(sealed(ALL));
    }
    log.append_all(&lines)?;
    Ok(())
}

/// Returns whether a path is a member list.
pub(super) fn is_roster(path: &Path) -> bool {
    path.ends_with(NAME)
}

/// Removes the member list of a directory without packs.
pub(super) fn remove(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path, error))
        }
        _ => Ok(()),
    }
}

/// Returns the line for the files of a pack that `old` does not have; `None` if there are none.
fn line_of(pack: &Path, old: Option<&PackIndex>, new: &PackIndex) -> Option<String> {
    let numbers = numbers(old, new);
    let name = name_of(pack);
    (!numbers.is_empty()).then(|| sealed(&format!("{name} {}", numbers.join(" "))))
}

fn name_of(pack: &Path) -> String {
    let name = pack.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the hashes of the attachments in a pack, each with a letter for its kind.
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
    // Writing to a string cannot fail.
    let _ = write!(line, " ={}", spelled(sum));
    line
}

fn spelled(number: u64) -> String {
    format!("{number:016x}")
}

/// Computes a 64-bit hash, eight bytes at a time. Stored on disk, so it must not change within a
/// format version.
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
