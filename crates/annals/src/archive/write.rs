//! Writing packs.
//!
//! A pack only grows: new frames, then a new index and footer, which make them count. Frames are
//! synced before the index is written, so that an index that survives a power failure never tells of
//! frames that did not. Who is killed in between leaves a torn end, behind which the next one goes
//! on. A new pack gets its name when it is whole. When more of a pack is of no use than is, it is
//! written anew.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;
use serde::Serialize;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::index::{FRAME, Frame, Index, Member, Named, Part, Row, Sum, VERSION};
use super::pack::{self, Cache, HEADER, Pack, Unread};
use super::sum::Summing;
use crate::error::{Error, Result};
use crate::jsonl::{self, Bytes as _, Create, FileId, Log, Options};

/// Measured on generated logs in frames of 1 MiB: 3 makes them 2.56 times smaller at 190 MB for each
/// second of processor time; 6 and 9 gain 3 and 4 per cent at less than half and a third of that.
const LEVEL: i32 = 3;

/// A frame with less in it is made anew when its last file grows, so that a log that is archived
/// every hour does not end up in as many frames.
const SHORT: u32 = 256 << 10;

/// Of a document that is replaced again and again, so many earlier versions are kept. Of logs, all.
const EARLIER: usize = 8;

/// Less than this is not worth writing a pack anew.
const WASTE: u64 = 1 << 20;

/// What is to be in a pack.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The layout's name.
    pub layout: String,
    /// The root that the files lie in.
    pub root: PathBuf,
    /// It is a log outside of any tree.
    pub lone: bool,
    /// The sessions.
    pub sessions: Vec<Named>,
    /// The files within the root, the main log first, and whether each is a log.
    pub files: Vec<(PathBuf, bool)>,
    /// What registers say about the logs.
    pub rows: Vec<Row>,
    /// A digest of what registers tell.
    pub told: Option<Sum>,
}

/// What became of it.
#[derive(Debug)]
pub struct Stored {
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
}

/// A pack that nobody can tell what it holds.
#[derive(Clone, Debug, Serialize)]
pub struct SetAside {
    /// Where it lies now.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: String,
}

/// Brings a pack up to date with its files, or makes it.
pub fn store(path: &Path, contents: &Contents, now: Timestamp) -> Result<Stored> {
    let dir = path.parent().unwrap_or(Path::new("."));
    jsonl::ensure_dir(dir)?;
    let mut set_aside = None;
    loop {
        let log = match Log::open(path, Options::default()) {
            Ok(log) => log,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                match make(path, contents, now)? {
                    Some(stored) => {
                        return Ok(Stored {
                            set_aside,
                            ..stored
                        });
                    }
                    // Another process made it meanwhile.
                    None => continue,
                }
            }
            Err(error) => return Err(error),
        };
        let stored = log.locked(|file| {
            let file_of_pack = file.try_clone().map_err(|e| Error::io("open", path, e))?;
            match Pack::read(path, file_of_pack) {
                Ok(old) => extend(path, file, &old, contents, now).map(Some),
                // Nothing can be added to it, and what the root has must be kept all the same.
                Err(Unread::Lost(error)) => {
                    set_aside = Some(put_aside(path, &error, now)?);
                    Ok(None)
                }
                Err(Unread::Other(error)) => Err(error),
            }
        });
        match stored {
            Ok(Some(stored)) => {
                return Ok(Stored {
                    set_aside,
                    ..stored
                });
            }
            Ok(None) => {}
            // Another process had the lock, and has set it aside.
            Err(Error::Io {
                path: gone, source, ..
            }) if gone == path && source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
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
        let to = path.with_file_name(format!(".damaged-{tag}-{name}"));
        if to.symlink_metadata().is_ok() {
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

/// Makes a pack under another name, and gives it its own when it is whole. `None` if there is one now.
fn make(path: &Path, contents: &Contents, now: Timestamp) -> Result<Option<Stored>> {
    let temp = temp_of(path);
    let log = open_temp(&temp)?;
    let make = |file: &File| {
        if path.symlink_metadata().is_ok() {
            return Ok(None);
        }
        let mut writer = Writer::begin(path, file, contents, now)?;
        let missing = writer.take_all(contents, now)?;
        let added = writer.added;
        writer.close()?;
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, &temp, cwd, path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(None),
            // Whoever would make it waits for the lock that we hold.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::rename(&temp, path).map_err(|e| Error::io("create", path, e))?;
            }
            Err(error) => return Err(Error::io("create", path, error.into())),
        }
        sync_dir(path)?;
        Ok(Some(Stored {
            pack: Pack::open(path)?,
            unchanged: false,
            added,
            since: 0,
            missing,
            set_aside: None,
        }))
    };
    let made = log.locked(|file| {
        let made = make(file);
        if !matches!(made, Ok(Some(_))) {
            // It takes room that may be what is lacking. If it cannot be removed, the next one takes it.
            let _ = fs::remove_file(&temp);
        }
        made
    });
    match made {
        // Another process had the lock, and has given the file its name.
        Err(Error::Io { path, source, .. })
            if path == temp && source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        made => made,
    }
}

fn extend(
    path: &Path,
    file: &File,
    old: &Pack,
    contents: &Contents,
    now: Timestamp,
) -> Result<Stored> {
    let same = old.index.layout == contents.layout && old.index.lone == contents.lone;
    if !same {
        let why = format!("holds sessions of the layout {}", old.index.layout);
        return Err(pack::refused(path, &why));
    }
    let end = old.bytes;
    let mut writer = Writer::go_on(path, file, old, now)?;
    writer.unreadable = old.unreadable();
    let written = writer.take_all(contents, now).and_then(|missing| {
        // A torn end is sealed by a whole index.
        let unchanged = old.torn == 0 && writer.is_unchanged(&old.index, contents);
        if !unchanged {
            writer.index.sessions = sessions(&old.index, contents);
            writer.index.root.clone_from(&contents.root);
            writer.index.rows = rows(&old.index, contents);
            writer.index.told = contents.told;
            writer.close()?;
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
    if waste(&pack) > WASTE.max(pack.bytes / 2)
        && let Ok(rewritten) = rewrite(path, &pack)
    {
        pack = rewritten;
        since = 0;
    }
    Ok(Stored {
        pack,
        unchanged,
        added,
        since,
        missing,
        set_aside: None,
    })
}

/// The sessions that are meant now, and those that were before: their files are still there.
fn sessions(old: &Index, contents: &Contents) -> Vec<Named> {
    let gone = |session: &&Named| !contents.sessions.contains(session);
    let old = old.sessions.iter().filter(gone).cloned();
    contents.sessions.iter().cloned().chain(old).collect()
}

/// What registers say now, and what they said about logs that are gone.
fn rows(old: &Index, contents: &Contents) -> Vec<Row> {
    let there: HashSet<&Path> = contents
        .files
        .iter()
        .map(|(path, _)| path.as_path())
        .collect();
    let gone = |row: &&Row| !there.contains(row.path.as_path());
    let old = old.rows.iter().filter(gone).cloned();
    contents.rows.iter().cloned().chain(old).collect()
}

/// How many bytes of a pack are neither content nor index.
fn waste(pack: &Pack) -> u64 {
    let frames = pack.index.frames.iter();
    let used: u64 = frames.map(|frame| u64::from(frame.bytes)).sum();
    pack.bytes.saturating_sub(used)
}

/// Writes a pack anew with only what is of use. Its lock is held, so nobody adds to the old one.
fn rewrite(path: &Path, old: &Pack) -> Result<Pack> {
    let temp = temp_of(path);
    let log = open_temp(&temp)?;
    let made = log.locked(|file| {
        let mut index = Index::clone(&old.index);
        index.frames.clear();
        let mut writer = Writer::new(path, file, index)?;
        writer.write_header()?;
        let mut packed = Vec::new();
        for frame in &old.index.frames {
            old.read_packed(frame, &mut packed)?;
            writer.add_frame(&packed, frame.len)?;
        }
        writer.close()?;
        // What was copied is what stood there, but was that sound? A damaged pack stays as it is.
        let made = Pack::of(path, reopen(&temp)?)?;
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
        let _ = log.locked(|_| fs::remove_file(&temp).map_err(|e| Error::io("remove", &temp, e)));
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
    let options = |create| Options {
        create,
        ..Options::default()
    };
    match Log::open(temp, options(Create::Never)) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match Log::open(temp, options(Create::New)) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            Log::open(temp, options(Create::Never))
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
fn unwritten(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::refused(format!(
            "no room left to archive to {} ({error}); what was archived before is as it was",
            path.display()
        )),
        _ => Error::io("write", path, error),
    }
}

fn sync_dir(path: &Path) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io("sync", dir, error))
}

/// Opens a file of a root for reading; `None` if it is gone. A link is read, as everywhere; who writes
/// or removes looks out for links first.
pub(super) fn open_source(path: &Path) -> Result<Option<(File, fs::Metadata)>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
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

struct Writer<'a> {
    /// Where the pack is or will be.
    path: &'a Path,
    file: &'a File,
    nonce: [u8; 16],
    /// Where the next byte goes.
    end: u64,
    index: Index,
    /// What the frames of before are read from.
    old: Option<&'a Pack>,
    /// What will be the next frame, and whose it is: the member's number and how much.
    buffer: Vec<u8>,
    pieces: Vec<(usize, u32)>,
    packed: Vec<u8>,
    compressor: Compressor<'static>,
    added: u64,
    /// Something was written or noted.
    changed: bool,
    /// Frames of before that cannot be read any more.
    unreadable: HashSet<u32>,
}

impl<'a> Writer<'a> {
    fn new(path: &'a Path, file: &'a File, index: Index) -> Result<Self> {
        let failed = |error| Error::io("compress", path, error);
        let mut compressor = Compressor::new(LEVEL).map_err(failed)?;
        compressor
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(failed)?;
        Ok(Writer {
            path,
            file,
            nonce: *uuid::Uuid::new_v4().as_bytes(),
            end: 0,
            index,
            old: None,
            buffer: Vec::with_capacity(FRAME),
            pieces: Vec::new(),
            packed: Vec::new(),
            compressor,
            added: 0,
            changed: false,
            unreadable: HashSet::new(),
        })
    }

    /// A pack that nothing is in yet.
    fn begin(path: &'a Path, file: &'a File, what: &Contents, now: Timestamp) -> Result<Self> {
        let index = Index {
            version: VERSION,
            layout: what.layout.clone(),
            root: what.root.clone(),
            lone: what.lone,
            sessions: what.sessions.clone(),
            generation: 1,
            archived: now,
            members: Vec::new(),
            earlier: Vec::new(),
            rows: what.rows.clone(),
            told: what.told,
            frames: Vec::new(),
        };
        let mut writer = Writer::new(path, file, index)?;
        writer.write_header()?;
        Ok(writer)
    }

    fn write_header(&mut self) -> Result<()> {
        let emptied = self.file.set_len(0);
        emptied.map_err(|error| Error::io("write", self.path, error))?;
        self.end = 0;
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(pack::MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.nonce);
        self.write(&header)
    }

    /// A pack that is there, to be added to.
    fn go_on(path: &'a Path, file: &'a File, old: &'a Pack, now: Timestamp) -> Result<Self> {
        let mut index = Index::clone(&old.index);
        index.generation += 1;
        index.archived = now;
        let mut writer = Writer::new(path, file, index)?;
        let nonce = file.read_exact_at(&mut writer.nonce, (HEADER - 16) as u64);
        nonce.map_err(|error| Error::io("read", path, error))?;
        writer.end = old.bytes;
        writer.old = Some(old);
        Ok(writer)
    }

    /// Nothing differs from what the pack has already.
    fn is_unchanged(&self, old: &Index, contents: &Contents) -> bool {
        !self.changed
            && old.sessions == sessions(old, contents)
            && old.root == contents.root
            && old.rows == rows(old, contents)
            && old.told == contents.told
    }

    /// Takes in all files, as far as they are not there already. Gives back those that are gone.
    fn take_all(&mut self, contents: &Contents, now: Timestamp) -> Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        let known = self.index.members.iter().enumerate();
        let known: HashMap<PathBuf, usize> = known.map(|(at, it)| (it.path.clone(), at)).collect();
        for (within, is_log) in &contents.files {
            let at = known.get(within).copied();
            if !self.take(&contents.root, within, at, *is_log, now)? {
                missing.push(within.clone());
            }
        }
        self.flush()?;
        let order: HashMap<&Path, usize> = contents
            .files
            .iter()
            .enumerate()
            .map(|(at, (path, _))| (path.as_path(), at))
            .collect();
        // Files that are gone from the root stay, behind the others.
        let place = |member: &Member| order.get(member.path.as_path()).copied();
        self.index
            .members
            .sort_by_key(|member| place(member).unwrap_or(usize::MAX));
        Ok(missing)
    }

    /// Takes in a file, which is that member already if it is any. `false` if it is gone.
    fn take(
        &mut self,
        root: &Path,
        within: &Path,
        at: Option<usize>,
        is_log: bool,
        now: Timestamp,
    ) -> Result<bool> {
        let path = root.join(within);
        let known = at.and_then(|at| Some((at, self.index.members.get(at)?.clone())));
        let is_sound = known.as_ref().is_none_or(|(_, member)| {
            let mut parts = member.parts.iter();
            !parts.any(|part| self.unreadable.contains(&part.frame))
        });
        if let Some((_, member)) = &known
            && is_sound
            && let Ok(metadata) = path.metadata()
            && member.id().untouched(&FileId::from(&metadata))
        {
            return Ok(true);
        }
        let Some((file, metadata)) = open_source(&path)? else {
            return Ok(false);
        };
        self.changed = true;
        let mut fresh = Fresh {
            path: &path,
            file,
            id: FileId::from(&metadata),
            mode: metadata.mode() & 0o7777,
        };
        let Some((at, member)) = known else {
            self.index.members.push(fresh.member(within));
            return self
                .put_all(self.index.members.len() - 1, &mut fresh)
                .map(|()| true);
        };
        let goes_on = fresh.goes_on(&member)?;
        if goes_on && is_sound {
            self.grow(at, &member, &mut fresh)?;
            return Ok(true);
        }
        // Replaced, cut or changed: what was there is kept too. Where only the pack is damaged, the
        // source has all of it.
        if !goes_on {
            let earlier = Member {
                until: Some(now),
                ..member
            };
            self.index.earlier.push(earlier);
            if !is_log {
                self.forget_oldest(within);
            }
        }
        if let Some(place) = self.index.members.get_mut(at) {
            *place = fresh.member(within);
        }
        self.put_all(at, &mut fresh).map(|()| true)
    }

    /// Takes in what a file has more than before.
    fn grow(&mut self, at: usize, member: &Member, fresh: &mut Fresh<'_>) -> Result<()> {
        let failed = |error| Error::io("read", fresh.path, error);
        let growth = fresh.id.len - member.len;
        let mut rest = vec![0; Summing::rest_of(member.len) as usize];
        let from = member.len - rest.len() as u64;
        fresh.file.read_exact_at(&mut rest, from).map_err(failed)?;
        let mut sum = Summing::resume(&member.state, member.len, &rest);
        let mut parts = member.parts.clone();
        let last = parts.last().copied().filter(|last| {
            let frame = self.index.frames.get(last.frame as usize);
            growth > 0 && frame.is_some_and(|frame| frame.len < SHORT)
        });
        let mut again = Vec::new();
        if let (Some(last), Some(old)) = (last, self.old) {
            again.resize(last.len as usize, 0);
            let start = member.len - u64::from(last.len);
            let read = old.file(member).read_exact_at(&mut again, start);
            read.map_err(|error| Error::io("read", self.path, error))?;
            parts.pop();
        }
        if let Some(place) = self.index.members.get_mut(at) {
            *place = Member {
                parts,
                ..fresh.member(&member.path)
            };
        }
        self.put(at, &again)?;
        self.put_range(at, fresh, member.len, &mut sum)
    }

    fn put_all(&mut self, at: usize, fresh: &mut Fresh<'_>) -> Result<()> {
        self.put_range(at, fresh, 0, &mut Summing::new())
    }

    /// Takes in a file from somewhere to its end.
    fn put_range(
        &mut self,
        at: usize,
        fresh: &Fresh<'_>,
        from: u64,
        sum: &mut Summing,
    ) -> Result<()> {
        let whole = fresh.read(from, fresh.id.len, |bytes| {
            sum.update(bytes);
            self.added += bytes.len() as u64;
            self.put(at, bytes)
        })?;
        if !whole {
            // It got shorter while it was read.
            return Err(Error::Changed {
                path: fresh.path.to_owned(),
            });
        }
        if let Some(member) = self.index.members.get_mut(at) {
            member.sha256 = sum.sum();
            member.state = sum.state();
        }
        Ok(())
    }

    /// Drops the oldest of too many versions of a document.
    fn forget_oldest(&mut self, within: &Path) {
        let versions = self.index.earlier.iter().filter(|it| it.path == within);
        let mut excess = versions.count().saturating_sub(EARLIER);
        self.index.earlier.retain(|it| {
            let goes = it.path == within && excess > 0;
            excess -= usize::from(goes);
            !goes
        });
    }

    fn put(&mut self, at: usize, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = FRAME.saturating_sub(self.buffer.len());
            let (some, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(some);
            match self.pieces.last_mut() {
                Some((member, len)) if *member == at => *len += some.len() as u32,
                _ => self.pieces.push((at, some.len() as u32)),
            }
            bytes = rest;
            if self.buffer.len() >= FRAME {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what was put as a frame.
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        packed.reserve(zstd::zstd_safe::compress_bound(self.buffer.len()));
        let made = self
            .compressor
            .compress_to_buffer(&self.buffer, &mut packed);
        made.map_err(|error| Error::io("compress", self.path, error))?;
        let number = self.add_frame(&packed, self.buffer.len() as u32)?;
        self.packed = packed;
        let mut at = 0;
        for (member, len) in self.pieces.drain(..) {
            if let Some(member) = self.index.members.get_mut(member) {
                member.parts.push(Part {
                    frame: number,
                    at,
                    len,
                });
            }
            at += len;
        }
        self.buffer.clear();
        Ok(())
    }

    fn add_frame(&mut self, packed: &[u8], len: u32) -> Result<u32> {
        let number = self.index.frames.len() as u32;
        self.index.frames.push(Frame {
            at: self.end,
            bytes: packed.len() as u32,
            len,
        });
        self.write(packed)?;
        Ok(number)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.file;
        file.write_all(bytes)
            .map_err(|error| unwritten(self.path, error))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Writes the index and makes all of it durable.
    fn close(&mut self) -> Result<()> {
        let synced = |file: &File| file.sync_all().map_err(|e| Error::io("sync", self.path, e));
        if self.old.is_some() {
            synced(self.file)?;
        }
        self.index.tidy();
        // Whoever reads it would refuse it, so it is not written either.
        if let Some(fault) = self.index.fault(HEADER as u64..self.end) {
            return Err(pack::refused(
                self.path,
                &format!("is not written, because {fault}"),
            ));
        }
        let json = serde_json::to_vec(&self.index);
        let json =
            json.map_err(|error| pack::refused(self.path, &format!("cannot be written: {error}")))?;
        let packed = self.compressor.compress(&json);
        let packed = packed.map_err(|error| Error::io("compress", self.path, error))?;
        let mut end = packed;
        let footer = pack::footer(&self.nonce, self.end, json.len() as u64, &end);
        end.extend_from_slice(&footer);
        self.write(&end)?;
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", self.path, e))
    }
}

/// A file that is to be archived, as it was when it was opened.
struct Fresh<'a> {
    path: &'a Path,
    file: File,
    id: FileId,
    mode: u32,
}

impl Fresh<'_> {
    /// The file with nothing in it yet.
    fn member(&self, within: &Path) -> Member {
        let empty = Summing::new();
        Member {
            path: within.to_owned(),
            len: self.id.len,
            sha256: empty.sum(),
            state: empty.state(),
            mode: self.mode,
            mtime_ns: i64::try_from(self.id.mtime_ns).unwrap_or_default(),
            ctime_ns: i64::try_from(self.id.ctime_ns).unwrap_or_default(),
            dev: self.id.dev,
            ino: self.id.ino,
            parts: Vec::new(),
            until: None,
        }
    }

    /// Whether the file says what was archived of it before, all of it, and perhaps more.
    fn goes_on(&self, member: &Member) -> Result<bool> {
        if self.id.len < member.len {
            return Ok(false);
        }
        let mut sum = Summing::new();
        let whole = self.read(0, member.len, |bytes| {
            sum.update(bytes);
            Ok(())
        })?;
        Ok(whole && sum.sum() == member.sha256)
    }

    /// Hands over what stands between two places. `false` if the file ends before.
    fn read(&self, from: u64, to: u64, mut give: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let mut block = vec![0; (256 << 10).min(to.saturating_sub(from)) as usize];
        let mut at = from;
        while at < to {
            let want = (block.len() as u64).min(to - at) as usize;
            let some = block.get_mut(..want).unwrap_or_default();
            match self.file.read_at(some, at) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    give(some.get(..read).unwrap_or_default())?;
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", self.path, error)),
            }
        }
        Ok(true)
    }
}
