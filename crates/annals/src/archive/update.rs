//! Writing packs.
//!
//! A pack only grows: new frames, then a new index and footer, which make them count. Frames are
//! synced before the index is written, so that an index that survives a power failure never tells of
//! frames that did not. Who is killed in between leaves a torn end, behind which the next one goes
//! on. A new pack gets its name when it is whole. When more of a pack is of no use than is, it is
//! written anew.

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
use crate::jsonl::{self, AppendOptions, Create, Log};

/// Less than this is not worth writing a pack anew.
const WASTE: u64 = 1 << 20;

/// What is to be in a pack.
#[derive(Clone, Debug)]
pub struct PackContents {
    /// The layout's name.
    pub layout: String,
    /// The root that the files lie in.
    pub root: PathBuf,
    /// It is a log outside of any tree.
    pub lone: bool,
    /// The sessions.
    pub sessions: Vec<PackedSession>,
    /// The files within the root, the main log first, and whether each is a log.
    pub files: Vec<(PathBuf, bool)>,
    /// What registers say about the logs.
    pub rows: Vec<PackedListRow>,
    /// A digest of what registers tell.
    pub list_digest: Option<Checksum>,
}

/// What became of it.
#[derive(Debug)]
pub struct PackUpdate {
    /// The pack as it is now.
    pub pack: Pack,
    /// Nothing had to be written.
    pub unchanged: bool,
    /// How many bytes of files were taken in.
    pub added: u64,
    /// From here on the pack was written to.
    pub since: u64,
    /// Files that were gone when their turn came.
    pub missing: Vec<PathBuf>,
    /// Where the pack was put that was there and could not be read.
    pub set_aside: Option<SetAside>,
    /// What was wrong with the pack, if it was written anew with all that it held.
    pub repaired: Option<String>,
    /// What the pack had lost of its end before it was added to.
    pub lost_end: Option<String>,
    /// The pack was created.
    pub created: bool,
}

/// A pack that nobody can tell what it holds.
#[derive(Clone, Debug, Serialize)]
pub struct SetAside {
    /// Where it lies now.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: String,
}

/// What came of one attempt to bring a pack up to date.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Turn {
    /// It is.
    Done(PackUpdate),
    /// It could not be read, and was written anew with all that it held. What was wrong with it.
    Mended(String),
    /// It could not be read, and has another name now.
    SetAside(SetAside),
    /// Another process made it, gave it its name or set it aside meanwhile.
    Again,
}

/// Brings a pack up to date with its files, or makes it.
pub fn update_pack(path: &Path, contents: &PackContents, now: Timestamp) -> Result<PackUpdate> {
    let stored = update_pack_unsynced(path, contents, now)?;
    if stored.created {
        sync_dir(path)?;
    }
    Ok(stored)
}

/// The same, but the name of a pack that is created is durable only when its directory is synced: whoever
/// writes many packs syncs it once.
pub(super) fn update_pack_unsynced(
    path: &Path,
    contents: &PackContents,
    now: Timestamp,
) -> Result<PackUpdate> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let (mut set_aside, mut mended) = (None, None);
    loop {
        // Whoever forgets the last pack of a root takes the directory away.
        jsonl::ensure_dir(dir)?;
        let turn = match Log::open(path, AppendOptions::default()) {
            Ok(log) => add(path, &log, contents, now)?,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                make(path, contents, now)?
            }
            Err(error) => return Err(error),
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
            // What the root has must be kept all the same.
            Turn::SetAside(aside) => set_aside = Some(aside),
            Turn::Again => {}
        }
    }
}

/// Adds to a pack that is there.
fn add(path: &Path, log: &Log, contents: &PackContents, now: Timestamp) -> Result<Turn> {
    let added = log.with_lock(|file| {
        let file_of_pack = file.try_clone().map_err(|e| Error::io("open", path, e))?;
        match Pack::read(path, file_of_pack) {
            // Where a complete index stood behind a checkpoint, all of it may be there still.
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

/// Whoever had the lock before may have given the file another name; then there is another turn.
fn or_again(opened: &Path, turn: Result<Turn>) -> Result<Turn> {
    match turn {
        Err(Error::Io { path, source, .. })
            if path == opened && source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(Turn::Again)
        }
        turn => turn,
    }
}

/// Writes a pack anew that cannot be opened, if all that it holds can be read all the same. Says what
/// was wrong with it. The lock of the pack is held.
fn mend(path: &Path) -> Option<String> {
    let salvaged = Pack::salvage(path).ok()?;
    let salvaged = Some(salvaged).filter(|it| !it.pack.index.checkpoint)?;
    let wrong = salvaged.damage?;
    rewrite(path, &salvaged.pack).ok()?;
    Some(wrong)
}

/// Gives a pack that cannot be read another name, under which nobody takes it for one.
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

/// Makes a pack under another name, and gives it its own when it is whole.
fn make(path: &Path, contents: &PackContents, now: Timestamp) -> Result<Turn> {
    let temp = temp_of(path);
    let made = open_temp(&temp).and_then(|log| fill(path, &log, contents, now));
    or_again(&temp, made)
}

/// The same, in a file that was opened for it.
fn fill(path: &Path, log: &Log, contents: &PackContents, now: Timestamp) -> Result<Turn> {
    let temp = log.path();
    let make = |file: &File| {
        if jsonl::exists(path)? {
            return Ok(Turn::Again);
        }
        let mut writer = PackWriter::begin(path, file, contents, now)?;
        let missing = writer.take_all(contents, now)?;
        let added = writer.added;
        let told = member_list::record_members(path, None, &writer.index)?;
        writer.close()?;
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, temp, cwd, path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(Turn::Again),
            // Whoever would make it waits for the lock that we hold.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::rename(temp, path).map_err(|e| Error::io("create", path, e))?;
            }
            Err(error) => return Err(Error::io("create", path, error.into())),
        }
        let pack = Pack::open(path)?;
        if !told {
            // One may have been made meanwhile, by a process that did not see this pack.
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
            // It takes room that may be what is lacking. If it cannot be removed, the next one takes it.
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
        let why = format!("holds sessions of the layout {}", old.index.layout);
        return Err(pack::refused(path, &why));
    }
    let end = old.bytes;
    let mut writer = PackWriter::append_to(path, file, old, now)?;
    writer.unreadable = old.unreadable();
    let written = writer.take_all(contents, now).and_then(|missing| {
        // A torn end is sealed by a whole index.
        let whole = old.is_whole().unwrap_or(false);
        let unchanged = whole && writer.is_unchanged(&old.index, contents);
        if !unchanged {
            writer.index.sessions = sessions(&old.index, contents);
            writer.index.root.clone_from(&contents.root);
            writer.index.rows = rows(&old.index, contents);
            writer.index.told = contents.list_digest;
            let told = member_list::record_members(path, Some(&old.index), &writer.index)?;
            writer.close()?;
            if !told {
                member_list::record_members(path, Some(&old.index), &writer.index)?;
            }
        }
        Ok((unchanged, missing))
    });
    let (unchanged, missing) = written.inspect_err(|_| {
        // Nothing counts of what was written; if it cannot be taken back, it is a torn end.
        let _ = file.set_len(end);
    })?;
    let added = writer.added;
    let mut pack = match unchanged {
        true => old.clone(),
        false => Pack::open(path)?,
    };
    let mut since = end;
    // One that cannot be written anew, because there is no room or a frame is damaged, is good as it is.
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

/// Keeps what a register says about a log, in the place of what it said before. The pack's lock is held.
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

/// The sessions that are meant now, and those that were before: their files are still there.
pub(super) fn sessions(old: &PackIndex, contents: &PackContents) -> Vec<PackedSession> {
    let gone = |session: &&PackedSession| !contents.sessions.contains(session);
    let old = old.sessions.iter().filter(gone).cloned();
    contents.sessions.iter().cloned().chain(old).collect()
}

/// What registers say now, and what they said about logs that are gone.
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

/// How many bytes of a pack are neither content nor index.
fn waste(pack: &Pack) -> u64 {
    let frames = pack.index.frames.iter();
    let used: u64 = frames.map(|frame| u64::from(frame.bytes)).sum();
    pack.bytes.saturating_sub(used)
}

/// Whether so many bytes of a pack are of no use that it is worth writing it anew.
fn is_mostly_waste(waste: u64, bytes: u64) -> bool {
    waste > WASTE.max(bytes / 2)
}

/// Writes a pack anew with only what is of use. Its lock is held, so nobody adds to the old one.
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
            // Behind the last frame stands the complete index.
            if left > 0 {
                writer.checkpoint()?;
            }
        }
        writer.close()?;
        // What was copied is what stood there, but was that sound? A damaged pack stays as it is.
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
        // It takes room, and whoever makes the next one begins anew.
        let _ =
            log.with_lock(|_| fs::remove_file(&temp).map_err(|e| Error::io("remove", &temp, e)));
    }
    made?;
    Pack::open(path)
}

/// Where a pack grows before it has its name.
fn temp_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

/// A temporary file for whoever gets its lock; one that is there was left by a killed process, or is
/// being written to.
fn open_temp(temp: &Path) -> Result<Log> {
    let open = |create| {
        let options = AppendOptions {
            create,
            ..AppendOptions::default()
        };
        Log::open(temp, options)
    };
    match open(Create::New) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            open(Create::Never)
        }
        opened => opened,
    }
}

fn reopen(path: &Path) -> Result<File> {
    open_source(path)?.map(|(file, _)| file).ok_or_else(|| {
        let gone = io::ErrorKind::NotFound.into();
        Error::io("open", path, gone)
    })
}

/// What could not be written to a pack.
pub(super) fn write_error(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::refused(format!(
            "no room left to archive to {} ({error}); what was archived before is as it was",
            path.display()
        )),
        _ => Error::io("write", path, error),
    }
}

/// Makes the names in the directory of a pack durable.
pub(super) fn sync_dir(path: &Path) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io("sync", dir, error))
}

/// Opens a file of a root for reading, as every reader does; `None` if it is gone. A link is refused: what it
/// leads to may lie anywhere.
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
