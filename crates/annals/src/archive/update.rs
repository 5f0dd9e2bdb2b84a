//! Writing packs.
//!
//! A pack only grows: new frames, then a new index and footer that make them valid. Frames are
//! synced before the index is written, so an index that survives a power failure never refers to
//! frames that did not. A killed writer leaves a torn end, and the next one appends after it. A new
//! pack gets its name when it is complete. A pack that is mostly waste is rewritten.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use serde::Serialize;

use super::ASIDE;
use super::member_list;
use super::open_error::PackOpenError;
use super::pack::{self, Cache, Pack};
use super::pack_index::{Checksum, PackIndex, PackedListRow, PackedSession};
use super::pack_writer::PackWriter;
use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, AppendOptions, Create, Log};

/// Minimum waste for which a pack is rewritten.
const WASTE: u64 = 1 << 20;

/// Intended contents of a pack.
#[derive(Clone, Debug)]
pub struct PackContents {
    /// The layout's name.
    pub layout: String,
    /// The root of the files.
    pub root: PathBuf,
    /// The pack holds a log outside any tree.
    pub lone: bool,
    /// The sessions.
    pub sessions: Vec<PackedSession>,
    /// The files within the root, the main log first, and whether each is a log.
    pub files: Vec<(PathBuf, bool)>,
    /// Rows of session lists about the logs.
    pub rows: Vec<PackedListRow>,
    /// Digest of the session-list rows.
    pub list_digest: Option<Checksum>,
}

/// Result of an update.
#[derive(Debug)]
pub struct PackUpdate {
    /// The pack after the update.
    pub pack: Pack,
    /// Nothing had to be written.
    pub unchanged: bool,
    /// Bytes of files that were added.
    pub added: u64,
    /// Offset in the pack from which on it was written.
    pub since: u64,
    /// Files that no longer existed when they were to be read.
    pub missing: Vec<PathBuf>,
    /// The previous pack, if it could not be read and was set aside.
    pub set_aside: Option<SetAside>,
    /// Damage of the pack, if it was rewritten with all its contents.
    pub repaired: Option<String>,
    /// Description of the pack's missing end, if it had lost it before the update.
    pub lost_end: Option<String>,
    /// The pack was created.
    pub created: bool,
}

/// A pack with unknown contents that was renamed.
#[derive(Clone, Debug, Serialize)]
pub struct SetAside {
    /// Its new path.
    pub path: PathBuf,
    /// The error of opening it.
    pub error: String,
}

/// Result of one attempt to update a pack.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Turn {
    /// The update is complete.
    Done(PackUpdate),
    /// The pack could not be opened and was rewritten with all its contents. Holds the damage.
    Mended(String),
    /// The pack could not be read and was renamed.
    SetAside(SetAside),
    /// Another process created, renamed or set aside the pack meanwhile.
    Again,
}

/// Updates a pack from its files, or creates it.
pub fn update_pack(path: &Path, contents: &PackContents, now: Timestamp) -> Result<PackUpdate> {
    let stored = update_pack_unsynced(path, contents, now)?;
    if stored.created {
        sync_dir(path)?;
    }
    Ok(stored)
}

/// Like [`update_pack`], but the name of a new pack is durable only when the caller syncs its
/// directory. A caller that writes many packs syncs it once.
pub(super) fn update_pack_unsynced(
    path: &Path,
    contents: &PackContents,
    now: Timestamp,
) -> Result<PackUpdate> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let (mut set_aside, mut mended) = (None, None);
    loop {
        // Removing the last pack of a root also removes the directory.
        jsonl::ensure_dir(dir)?;
        let turn = match Log::open(path, AppendOptions::default()) {
            Ok(log) => add(path, &log, contents, now)?,
            Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                make(path, contents, now)?
            }
            Err(error) => return Err(error.into()),
        };
        match turn {
            Turn::Done(stored) => {
                return Ok(PackUpdate {
                    unchanged: stored.unchanged && mended.is_none(),
                    set_aside,
                    repaired: mended,
                    ..stored
                });
            }
            Turn::Mended(wrong) => mended = Some(wrong),
            // The files in the root must be archived nevertheless.
            Turn::SetAside(aside) => set_aside = Some(aside),
            Turn::Again => {}
        }
    }
}

/// Appends to an existing pack.
fn add(path: &Path, log: &Log, contents: &PackContents, now: Timestamp) -> Result<Turn> {
    let added = log.with_lock(|file| {
        let file_of_pack = file.try_clone().map_err(|e| Error::io("open", path, e))?;
        match Pack::read(path, file_of_pack) {
            // If a complete index followed the checkpoint, it may be recoverable.
            Ok(old) if old.index.checkpoint => match mend(path) {
                Some(wrong) => Ok(Turn::Mended(wrong)),
                None => extend(path, file, &old, contents, now).map(Turn::Done),
            },
            Ok(old) => extend(path, file, &old, contents, now).map(Turn::Done),
            Err(PackOpenError::Lost(error)) => match mend(path) {
                Some(wrong) => Ok(Turn::Mended(wrong)),
                None => put_aside(path, &error, now).map(Turn::SetAside),
            },
            Err(PackOpenError::Other(error)) => Err(error),
        }
    });
    or_again(path, added)
}

/// Retries if the file was not found: a previous holder of the lock may have renamed the file.
fn or_again(opened: &Path, turn: Result<Turn>) -> Result<Turn> {
    match turn {
        Err(Error::File(FileError::Io { path, source, .. }))
            if path == opened && source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(Turn::Again)
        }
        turn => turn,
    }
}

/// Rewrites a pack that cannot be opened, if all its contents can be recovered. Returns the damage.
/// The caller must hold the pack's lock.
fn mend(path: &Path) -> Option<String> {
    let salvaged = Pack::salvage(path).ok()?;
    let salvaged = Some(salvaged).filter(|it| !it.pack.index.checkpoint)?;
    let wrong = salvaged.damage?;
    rewrite(path, &salvaged.pack).ok()?;
    Some(wrong)
}

/// Renames an unreadable pack to a name that is not taken for a pack.
fn put_aside(path: &Path, error: &Error, now: Timestamp) -> Result<SetAside> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let day = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut copy = 1;
    loop {
        let tag = match copy {
            1 => day.clone(),
            copy => format!("{day}-{copy}"),
        };
        let to = path.with_file_name(format!("{ASIDE}{tag}-{name}"));
        if jsonl::exists(&to)? {
            copy += 1;
            continue;
        }
        fs::rename(path, &to).map_err(|error| Error::io("set aside", path, error))?;
        sync_dir(path)?;
        return Ok(SetAside {
            path: to,
            error: error.to_string(),
        });
    }
}

/// Creates a pack under a temporary name and renames it when it is complete.
fn make(path: &Path, contents: &PackContents, now: Timestamp) -> Result<Turn> {
    let temp = temp_of(path);
    let made = open_temp(&temp).and_then(|log| fill(path, &log, contents, now));
    or_again(&temp, made)
}

/// Like [`make`], in an open temporary file.
fn fill(path: &Path, log: &Log, contents: &PackContents, now: Timestamp) -> Result<Turn> {
    let temp = log.path();
    let make = |file: &File| {
        if jsonl::exists(path)? {
            return Ok(Turn::Again);
        }
        let mut writer = PackWriter::begin(path, file, contents, now)?;
        let missing = writer.take_all(contents, now)?;
        let added = writer.added;
        let is_recorded = member_list::record_members(path, None, &writer.index)?;
        writer.close()?;
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, temp, cwd, path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(Turn::Again),
            // Other creators wait for the lock held here.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::rename(temp, path).map_err(|e| Error::io("create", path, e))?;
            }
            Err(error) => return Err(Error::io("create", path, error.into())),
        }
        let pack = Pack::open(path)?;
        if !is_recorded {
            // The member list may have been created meanwhile, by a process that did not see this
            // pack.
            member_list::record_members(path, None, &pack.index)?;
        }
        Ok(Turn::Done(PackUpdate {
            pack,
            unchanged: false,
            added,
            since: 0,
            missing,
            set_aside: None,
            repaired: None,
            lost_end: None,
            created: true,
        }))
    };
    log.with_lock(|file| {
        let made = make(file);
        if !matches!(made, Ok(Turn::Done(_))) {
            // It takes space that may be needed. If it cannot be removed, the next writer reuses
            // it.
            let _ = fs::remove_file(temp);
        }
        made
    })
}

fn extend(
    path: &Path,
    file: &File,
    old: &Pack,
    contents: &PackContents,
    now: Timestamp,
) -> Result<PackUpdate> {
    let same = old.index.layout == contents.layout && old.index.lone == contents.lone;
    if !same {
        let why = format!("has sessions of layout {}", old.index.layout);
        return Err(pack::refused(path, &why));
    }
    let end = old.bytes;
    let mut writer = PackWriter::append_to(path, file, old, now)?;
    writer.unreadable = old.unreadable();
    let written = writer.take_all(contents, now).and_then(|missing| {
        // A torn end must be followed by an intact index.
        let whole = old.is_whole().unwrap_or(false);
        let unchanged = whole && writer.is_unchanged(&old.index, contents);
        if !unchanged {
            writer.index.sessions = sessions(&old.index, contents);
            writer.index.root.clone_from(&contents.root);
            writer.index.rows = rows(&old.index, contents);
            writer.index.list_digest = contents.list_digest;
            let is_recorded = member_list::record_members(path, Some(&old.index), &writer.index)?;
            writer.close()?;
            if !is_recorded {
                member_list::record_members(path, Some(&old.index), &writer.index)?;
            }
        }
        Ok((unchanged, missing))
    });
    let (unchanged, missing) = written.inspect_err(|_| {
        // Take back what was written; if that fails, it is a torn end and ignored.
        let _ = file.set_len(end);
    })?;
    let added = writer.added;
    let mut pack = match unchanged {
        true => old.clone(),
        false => Pack::open(path)?,
    };
    let mut since = end;
    // If the rewrite fails, because the disk is full or a frame is damaged, the pack stays valid.
    if is_mostly_waste(waste(&pack), pack.bytes)
        && let Ok(rewritten) = rewrite(path, &pack)
    {
        pack = rewritten;
        since = 0;
    }
    Ok(PackUpdate {
        pack,
        unchanged,
        added,
        since,
        missing,
        set_aside: None,
        repaired: None,
        lost_end: old.describe_lost_end(),
        created: false,
    })
}

/// Replaces the session-list rows about a log. The caller must hold the pack's lock.
pub(super) fn save_list_rows(path: &Path, file: &File, log: &Path, rows: &[String]) -> Result<()> {
    let old = Pack::open(path)?;
    let known = old.index.rows.iter().filter(|row| row.path == log);
    if rows.is_empty() || known.map(|row| &row.text).eq(rows) {
        return Ok(());
    }
    let mut writer = PackWriter::append_to(path, file, &old, old.index.archived)?;
    writer.index.rows.retain(|row| row.path != log);
    writer
        .index
        .rows
        .extend(rows.iter().map(|text| PackedListRow {
            path: log.to_owned(),
            text: text.clone(),
        }));
    writer.close()
}

/// Returns the current sessions, and the earlier ones: their files are still in the pack.
pub(super) fn sessions(old: &PackIndex, contents: &PackContents) -> Vec<PackedSession> {
    let gone = |session: &&PackedSession| !contents.sessions.contains(session);
    let old = old.sessions.iter().filter(gone).cloned();
    contents.sessions.iter().cloned().chain(old).collect()
}

/// Returns the current session-list rows, and the earlier ones about logs that no longer exist.
pub(super) fn rows(old: &PackIndex, contents: &PackContents) -> Vec<PackedListRow> {
    let there: HashSet<&Path> = contents
        .files
        .iter()
        .map(|(path, _)| path.as_path())
        .collect();
    let gone = |row: &&PackedListRow| !there.contains(row.path.as_path());
    let old = old.rows.iter().filter(gone).cloned();
    contents.rows.iter().cloned().chain(old).collect()
}

/// Returns the number of bytes of a pack that are not in a frame in use.
fn waste(pack: &Pack) -> u64 {
    let frames = pack.index.frames.iter();
    let used: u64 = frames.map(|frame| u64::from(frame.bytes)).sum();
    pack.bytes.saturating_sub(used)
}

/// Returns whether a pack has enough waste to be rewritten.
fn is_mostly_waste(waste: u64, bytes: u64) -> bool {
    waste > WASTE.max(bytes / 2)
}

/// Rewrites a pack without waste. The caller must hold its lock, so that nobody appends to the old
/// one.
fn rewrite(path: &Path, old: &Pack) -> Result<Pack> {
    let temp = temp_of(path);
    let log = open_temp(&temp)?;
    let made = log.with_lock(|file| {
        let mut index = PackIndex::clone(&old.index);
        index.frames.clear();
        let mut writer = PackWriter::new(path, file, index)?;
        writer.write_header()?;
        let mut packed = Vec::new();
        let mut left = old.index.frames.len();
        for frame in &old.index.frames {
            old.read_packed(frame, &mut packed)?;
            writer.add_frame(&packed, frame.len)?;
            left -= 1;
            // The complete index follows the last frame.
            if left > 0 {
                writer.checkpoint()?;
            }
        }
        writer.close()?;
        // Verify the copied frames: a damaged pack is not replaced.
        let made = Pack::from_file(path, reopen(&temp)?)?;
        let mut cache = Cache::default();
        for frame in &made.index.frames {
            let read = made.try_frame(frame, &mut cache);
            read.map_err(|error| Error::io("read", path, error))?;
        }
        fs::rename(&temp, path).map_err(|error| Error::io("replace", path, error))?;
        sync_dir(path)
    });
    if made.is_err() {
        // It takes space, and the next writer starts over.
        let _ =
            log.with_lock(|_| fs::remove_file(&temp).map_err(|e| Error::io("remove", &temp, e)));
    }
    made?;
    Pack::open(path)
}

/// Returns the temporary path of a pack that is being written.
fn temp_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

/// Opens the temporary file. An existing one was left by a killed process, or another process is
/// writing to it and holds its lock.
fn open_temp(temp: &Path) -> Result<Log> {
    let open = |create| {
        let options = AppendOptions {
            create,
            ..AppendOptions::default()
        };
        Log::open(temp, options)
    };
    match open(Create::New) {
        Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            Ok(open(Create::Never)?)
        }
        opened => Ok(opened?),
    }
}

fn reopen(path: &Path) -> Result<File> {
    open_source(path)?.map(|(file, _)| file).ok_or_else(|| {
        let gone = io::ErrorKind::NotFound.into();
        Error::io("open", path, gone)
    })
}

/// Returns the error of writing to a pack.
pub(super) fn write_error(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::refused(format!(
            "no space left to archive to {} ({error}); earlier archived data is unchanged",
            path.display()
        )),
        _ => Error::io("write", path, error),
    }
}

/// Syncs the directory of a pack.
pub(super) fn sync_dir(path: &Path) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io("sync", dir, error))
}

/// Opens a file of a root for reading; `None` if it does not exist. Refuses a symbolic link, whose
/// target may be anywhere.
pub(super) fn open_source(path: &Path) -> Result<Option<(File, fs::Metadata)>> {
    let file = match jsonl::open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let metadata = file.metadata().map_err(|e| Error::io("stat", path, e))?;
    match metadata.is_file() {
        true => Ok(Some((file, metadata))),
        false => Err(pack::refused(path, "is not a regular file")),
    }
}

#[cfg(test)]
mod tests;
