//! Reading packs.
//!
//! The footer at the end of a pack gives the offset of its index. If the end is torn, because its
//! writer was killed, the last intact index before it is used.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memchr::memmem;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use zstd::bulk::Decompressor;

use super::open_error::PackOpenError;
use super::pack_index::{Frame, FrameRange, Member, PackIndex, PackedSession, VERSION};
use super::restore_filter::PackTrust;
use super::root_files::ROOT_ID;
use crate::error::{Error, Result};
use annals_jsonl::{FileId, ReadAt};
use annals_layouts::json::describe_json_error;
use annals_layouts::model::SessionId;

/// Start of a pack, followed by the version and the nonce, 16 random bytes that footer checksums
/// include.
pub(super) const MAGIC: &[u8; 12] = b"annals-pack\0";
/// Last bytes of a footer.
pub(super) const END: &[u8; 8] = b"annalsPK";
pub(super) const HEADER: usize = 32;
pub(super) const FOOTER: usize = 64;

/// Maximum length of an index, compressed or not.
pub(super) const MOST_INDEX: u64 = 1 << 28;

/// Read budget of the search for an index, in addition to twice the length of the pack. A hostile
/// pack may consist of nothing but fake footers.
const INDEX_SEARCH_BUDGET: u64 = 1 << 20;

/// A pack, open for reading.
#[derive(Clone, Debug)]
pub struct Pack {
    /// Its path.
    pub path: PathBuf,
    /// Its index.
    pub index: Arc<PackIndex>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of bytes after the last intact index: a writer was killed, or the end is damaged. See
    /// [`Pack::lost_end`].
    pub torn: u64,
    /// Offset of its index.
    at: u64,
    /// Identity of its file when it was opened.
    id: FileId,
    pub(super) trust: Arc<PackTrust>,
    pub(super) source: Arc<Source>,
}

/// Reader shared by all files of a pack.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    /// The last frame read of those that several files share.
    shared: Mutex<Cache>,
}

impl Pack {
    /// Opens a pack and reads its index. Refuses an invalid one.
    pub fn open(path: &Path) -> Result<Self> {
        Pack::open_or_lost(path).map_err(PackOpenError::into_error)
    }

    /// Like [`open`](Self::open), but distinguishes packs that only salvage can read.
    pub(super) fn open_or_lost(path: &Path) -> Result<Self, PackOpenError> {
        Pack::read(path, open(path)?)
    }

    /// Reads a pack from an open file.
    pub(super) fn from_file(path: &Path, file: File) -> Result<Self> {
        Pack::read(path, file).map_err(PackOpenError::into_error)
    }

    /// Like [`from_file`](Self::from_file), but distinguishes packs that only salvage can read.
    pub(super) fn read(path: &Path, file: File) -> Result<Self, PackOpenError> {
        let failed = |error| Error::io("read", path, error);
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(refused(path, "is not a regular file").into());
        }
        let nonce = header(path, &file, metadata.len())?;
        let found = last_index(&file, metadata.len(), &nonce).map_err(failed)?;
        let Some(found) = found else {
            let why = "is damaged: no intact index found, so its contents are unknown";
            return Err(PackOpenError::Lost(refused(path, why)));
        };
        let index = read_index(path, &found.index)?;
        Pack::from_index(path, file, metadata.len(), index, found.at..found.end).map_err(Into::into)
    }

    /// Creates a pack from its index; `place` is the range of the index and its footer in the file.
    pub(super) fn from_index(
        path: &Path,
        file: File,
        bytes: u64,
        index: PackIndex,
        place: Range<u64>,
    ) -> Result<Self> {
        if let Some(fault) = index.fault(HEADER as u64..place.start) {
            return Err(refused(path, &format!("has an invalid index: {fault}")));
        }
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| Error::io("stat", path, error))?;
        Ok(Pack {
            path: path.to_owned(),
            index: Arc::new(index),
            bytes,
            torn: bytes.saturating_sub(place.end),
            at: place.start,
            id: FileId::from(&metadata),
            trust: Arc::default(),
            source: Arc::new(Source {
                path: path.to_owned(),
                file,
                shared: Mutex::default(),
            }),
        })
    }

    /// Returns whether `other` is the same file, with at least the bytes it had when the pack was
    /// opened.
    pub(super) fn is_same_file(&self, other: &FileId) -> bool {
        self.id.same_file(other) && other.len >= self.bytes
    }

    /// Returns an error for a pack that lost its end, and files with it.
    ///
    /// A new pack gets its name when its index is complete, and each update writes a complete index
    /// again. So if the last intact index is a checkpoint, the pack was truncated or damaged
    /// afterwards. Bytes after a complete index are different: a killed writer left them, and they
    /// contain nothing that it acknowledged. That is no damage, so only [`verify`](super::verify())
    /// reports it.
    pub fn lost_end(&self) -> Option<Error> {
        let lost = self.describe_lost_end()?;
        let why = format!("is damaged: {lost} (try `annals restore --salvage`)");
        Some(refused(&self.path, &why))
    }

    /// Like [`lost_end`](Self::lost_end), without the path.
    pub(super) fn describe_lost_end(&self) -> Option<String> {
        let lost = "its end is missing, with the files stored there";
        self.index.checkpoint.then(|| match self.torn {
            0 => lost.to_owned(),
            torn => format!("{lost}; {}", describe_ignored(torn)),
        })
    }

    /// Returns whether the pack ends with two intact copies of a complete index.
    pub(super) fn is_whole(&self) -> io::Result<bool> {
        Ok(self.torn == 0 && !self.index.checkpoint && self.has_intact_first_index()?)
    }

    /// Returns the offset of its index.
    pub(super) fn index_offset(&self) -> u64 {
        self.at
    }

    /// Returns its files, the main log first.
    pub fn members(&self) -> &[Member] {
        &self.index.members
    }

    /// Returns earlier versions of files that were replaced or truncated, oldest first.
    pub fn earlier_versions(&self) -> &[Member] {
        &self.index.earlier
    }

    /// Returns the pack with an earlier version of a file in place of the newest. `number` counts
    /// [`Pack::earlier_versions`] from 1; `None` if it is out of range.
    pub fn with_earlier_version(&self, number: usize) -> Option<Pack> {
        let earlier = self.earlier_versions().get(number.checked_sub(1)?)?.clone();
        let mut index = PackIndex::clone(&self.index);
        match index.members.iter_mut().find(|it| it.path == earlier.path) {
            Some(newest) => *newest = earlier,
            None => index.members.push(earlier),
        }
        let index = Arc::new(index);
        Some(Pack {
            index,
            ..self.clone()
        })
    }

    /// Returns the file with this path within the root.
    pub fn member(&self, path: &Path) -> Option<&Member> {
        self.members().iter().find(|member| member.path == path)
    }

    /// Returns whether one of its sessions has this id.
    pub fn has_session(&self, id: &str) -> bool {
        let mut sessions = self.index.sessions.iter();
        sessions.any(|session| session.id == id) || (id == ROOT_ID && self.has_no_session())
    }

    /// Returns whether the id of one of its sessions starts with `id` or matches it as a name.
    pub(super) fn matches_id(&self, id: &str) -> bool {
        let fits = |session: &PackedSession| {
            let named = SessionId::new(&session.id).is_ok_and(|session| session.matches_name(id));
            named || session.id.starts_with(id)
        };
        self.index.sessions.iter().any(fits) || self.has_session(id)
    }

    /// Returns the identity of an archived file for readers: the original one, with the ctime of
    /// the pack. So any write to the pack invalidates cached results.
    pub fn file_id(&self, member: &Member) -> FileId {
        FileId {
            ctime_ns: self.id.ctime_ns,
            ..member.id()
        }
    }

    /// Opens one of its files.
    pub fn file(&self, member: &Member) -> PackedFile {
        let mut start = 0;
        let mut parts = Vec::with_capacity(member.parts.len());
        for &part in &member.parts {
            // Members of the index are validated, but a caller can construct others.
            let Some(&frame) = self.index.frames.get(part.frame as usize) else {
                break;
            };
            parts.push(Stretch { start, part, frame });
            start += u64::from(part.len);
        }
        PackedFile {
            source: Arc::clone(&self.source),
            id: FileId {
                len: start,
                ..self.file_id(member)
            },
            parts,
            own: Mutex::default(),
        }
    }

    /// Decompresses a range of a frame and passes it to `look` without copying. The one shared
    /// frame cache is enough for a sequential reader.
    pub(super) fn with_part<T>(
        &self,
        part: &FrameRange,
        look: impl FnOnce(&[u8]) -> T,
    ) -> io::Result<T> {
        // Members of the index are validated, but a caller can construct others.
        let Some(frame) = self.index.frames.get(part.frame as usize) else {
            return Ok(look(&[]));
        };
        let mut cache = lock(&self.source.shared);
        cache.load(&self.source, frame)?;
        let start = part.at as usize;
        let end = start + part.len as usize;
        Ok(look(cache.bytes.get(start..end).unwrap_or_default()))
    }

    /// Reads a frame and verifies its checksum.
    pub(super) fn try_frame(&self, frame: &Frame, cache: &mut Cache) -> io::Result<()> {
        cache.load(&self.source, frame)
    }

    /// Reads the compressed bytes of a frame.
    pub(super) fn read_packed(&self, frame: &Frame, into: &mut Vec<u8>) -> Result<()> {
        into.resize(frame.bytes as usize, 0);
        let read = self.source.file.read_exact_at(into, frame.at);
        read.map_err(|error| Error::io("read", &self.path, error))
    }

    /// Syncs the pack and its directories up to the state directory. That a pack can be read does
    /// not mean that it is durable: its writer may have been killed before the sync.
    pub(super) fn sync(&self) -> Result<()> {
        let synced = self.source.file.sync_all();
        synced.map_err(|error| Error::io("sync", &self.path, error))?;
        for dir in self.path.ancestors().skip(1).take(3) {
            let dir = match dir.as_os_str().is_empty() {
                true => Path::new("."),
                false => dir,
            };
            let synced = File::open(dir).and_then(|dir| dir.sync_all());
            synced.map_err(|error| Error::io("sync", dir, error))?;
        }
        Ok(())
    }

    /// Returns whether the first copy of the index is intact, if there are two.
    pub(super) fn has_intact_first_index(&self) -> io::Result<bool> {
        // A torn second copy is reported anyway, and the first is then the index in use.
        if !self.index.twice || self.torn > 0 {
            return Ok(true);
        }
        match self.first_is_second() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            compared => compared,
        }
    }

    fn first_is_second(&self) -> io::Result<bool> {
        let file = &self.source.file;
        let mut nonce = [0; 16];
        file.read_exact_at(&mut nonce, (HEADER - 16) as u64)?;
        let first = index_before(file, self.at, &nonce, &mut MOST_INDEX.saturating_mul(2))?;
        let Some(first) = first else {
            return Ok(false);
        };
        let (_, packed) = &first.index;
        let mut second = vec![0; packed.len()];
        file.read_exact_at(&mut second, self.at)?;
        Ok(*packed == second)
    }

    /// Returns the frames of current files that cannot be read.
    pub(super) fn unreadable(&self) -> HashSet<u32> {
        let parts = self.members().iter().flat_map(|member| &member.parts);
        let used: BTreeSet<u32> = parts.map(|part| part.frame).collect();
        let mut cache = Cache::default();
        let mut is_sound = |number: &u32| {
            let frame = self.index.frames.get(*number as usize);
            frame.is_some_and(|frame| self.try_frame(frame, &mut cache).is_ok())
        };
        used.into_iter().filter(|it| !is_sound(it)).collect()
    }

    /// Drops the pack from the page cache, so that it is read from disk again.
    pub fn drop_page_cache(&self) {
        // Only a hint; if it fails, reads come from the page cache.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&self.source.file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

/// The content of an archived file.
#[derive(Debug)]
pub struct PackedFile {
    source: Arc<Source>,
    /// Identity of the file when it was archived.
    id: FileId,
    parts: Vec<Stretch>,
    /// The last frame read.
    own: Mutex<Cache>,
}

/// A range of a file and the frame that holds it.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Offset in the file.
    start: u64,
    part: FrameRange,
    frame: Frame,
}

impl ReadAt for PackedFile {
    fn id(&self) -> io::Result<FileId> {
        Ok(self.id)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let after = self.parts.partition_point(|part| part.start <= offset);
        let Some(part) = after.checked_sub(1).and_then(|at| self.parts.get(at)) else {
            return Ok(0);
        };
        let within = offset - part.start;
        if within >= part.part.len.into() || into.is_empty() {
            return Ok(0);
        }
        let alone = part.part.len == part.frame.len;
        let cache = if alone {
            &self.own
        } else {
            &self.source.shared
        };
        let mut cache = lock(cache);
        cache.load(&self.source, &part.frame)?;
        let start = part.part.at as usize + within as usize;
        let end = part.part.at as usize + part.part.len as usize;
        let held = cache.bytes.get(start..end).unwrap_or_default();
        let (from, to) = match held.split_at_checked(into.len()) {
            Some((from, _)) => (from, into),
            None => {
                let room = held.len();
                (held, into.get_mut(..room).unwrap_or_default())
            }
        };
        to.copy_from_slice(from);
        Ok(from.len())
    }
}

/// The last frame read, decompressed.
#[derive(Default)]
pub(super) struct Cache {
    frame: Option<Frame>,
    pub(super) bytes: Vec<u8>,
    packed: Vec<u8>,
    reader: Option<Decompressor<'static>>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("frame", &self.frame).finish()
    }
}

impl Cache {
    fn load(&mut self, source: &Source, frame: &Frame) -> io::Result<()> {
        if self.frame.as_ref() == Some(frame) {
            return Ok(());
        }
        self.frame = None;
        let damaged = |why: &str| {
            let (path, at) = (source.path.display(), frame.at);
            let text = format!("{path}: damaged frame at offset {at}: {why}");
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        self.packed.resize(frame.bytes as usize, 0);
        let read = source.file.read_exact_at(&mut self.packed, frame.at);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("truncated"),
            // Callers know only the original path of the file, so name the pack.
            kind => io::Error::new(kind, format!("{error} in {}", source.path.display())),
        })?;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Decompressor::new()?),
        };
        // The buffer is limited to the length in the index, so a hostile frame cannot expand
        // further.
        self.bytes.resize(frame.len as usize, 0);
        let unpacked = reader.decompress_to_buffer(&self.packed, self.bytes.as_mut_slice());
        match unpacked {
            Ok(len) if len == frame.len as usize => {}
            Ok(_) => return Err(damaged("content too short")),
            Err(error) => return Err(damaged(&error.to_string())),
        }
        self.frame = Some(*frame);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a pack file for reading. Does not follow symbolic links.
pub(super) fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    opened.map_err(|error| Error::io("open", path, error))
}

/// Describes the bytes after the last intact index.
pub(super) fn describe_ignored(torn: u64) -> String {
    match torn {
        1 => "its last byte is ignored".to_owned(),
        torn => format!("its last {torn} bytes are ignored"),
    }
}

pub(super) fn refused(path: &Path, why: &str) -> Error {
    Error::refused(format!("{} {why}", path.display()))
}

/// Reads the header of a pack and returns its nonce.
fn header(path: &Path, file: &File, len: u64) -> Result<[u8; 16], PackOpenError> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                PackOpenError::Lost(refused(path, "is not a pack: too short"))
            }
            _ => Error::io("read", path, error).into(),
        })?;
    let (magic, rest) = header.split_first_chunk::<12>().unwrap_or((&[0; 12], &[]));
    let (version, nonce) = rest.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    if magic != MAGIC {
        let why = "is not a pack, or its header is damaged";
        return Err(PackOpenError::Lost(refused(path, why)));
    }
    let version = u32::from_le_bytes(*version);
    let nonce = nonce.try_into().unwrap_or([0; 16]);
    match version.cmp(&VERSION) {
        Ordering::Equal => {}
        // A pack of a newer program would have the newer version in its index too.
        Ordering::Greater if is_flipped(version) && is_ours(path, file, len, &nonce) => {
            let why = format!(
                "is damaged: its header has version {version}, but its index, with a valid checksum, has version {VERSION}"
            );
            return Err(PackOpenError::Lost(refused(path, &why)));
        }
        Ordering::Greater => return Err(other_version(path, version).into()),
        // No such version ever existed, so this is damage.
        Ordering::Less => return Err(PackOpenError::Lost(other_version(path, version))),
    }
    Ok(nonce)
}

/// Returns whether `version` differs from ours in one bit.
fn is_flipped(version: u32) -> bool {
    (version ^ VERSION).count_ones() == 1
}

/// Returns whether a pack has an intact index of our version, whatever its header says.
fn is_ours(path: &Path, file: &File, len: u64, nonce: &[u8; 16]) -> bool {
    let found = last_index(file, len, nonce).ok().flatten();
    found.is_some_and(|found| read_index(path, &found.index).is_ok())
}

fn other_version(path: &Path, version: u32) -> Error {
    let what = match version > VERSION {
        true => "written by a newer annals; update this one",
        false => "no such version exists",
    };
    let why = format!("has version {version}, but this program reads version {VERSION}: {what}");
    refused(path, &why)
}

/// An intact index in a pack.
pub(super) struct FoundIndex {
    pub(super) at: u64,
    /// Offset of the end of its footer.
    pub(super) end: u64,
    /// Decompressed length, and the compressed bytes.
    pub(super) index: (u64, Vec<u8>),
}

/// Encodes a footer.
pub(super) fn footer(nonce: &[u8; 16], at: u64, len: u64, index: &[u8]) -> [u8; FOOTER] {
    let mut footer = [0; FOOTER];
    let numbers = [at, index.len() as u64, len].map(u64::to_le_bytes);
    let mut sum = Sha256::new();
    sum.update(nonce);
    sum.update(numbers.as_flattened());
    sum.update(index);
    let parts = numbers.as_flattened().iter().copied();
    let parts = parts.chain(sum.finalize()).chain(*END);
    for (to, from) in footer.iter_mut().zip(parts) {
        *to = from;
    }
    footer
}

/// Finds the last intact index of a pack.
pub(super) fn last_index(
    file: &File,
    len: u64,
    nonce: &[u8; 16],
) -> io::Result<Option<FoundIndex>> {
    let mut left = INDEX_SEARCH_BUDGET.saturating_add(len.saturating_mul(2));
    if let Some(found) = index_before(file, len, nonce, &mut left)? {
        return Ok(Some(found));
    }
    // The end is torn: search backwards for an earlier footer.
    const STEP: u64 = 1 << 20;
    let mut block = Vec::new();
    let mut end = len;
    while end > HEADER as u64 {
        let start = end.saturating_sub(STEP);
        // The end marker may cross the boundary of two blocks.
        let until = (end + END.len() as u64 - 1).min(len);
        block.resize((until - start) as usize, 0);
        file.read_exact_at(&mut block, start)?;
        for at in memmem::rfind_iter(&block, END) {
            let footer_end = start + at as u64 + END.len() as u64;
            if let Some(found) = index_before(file, footer_end, nonce, &mut left)? {
                return Ok(Some(found));
            }
            if left == 0 {
                return Ok(None);
            }
        }
        end = start;
    }
    Ok(None)
}

/// Returns the index whose footer ends at `end`, if it is intact. Deducts the bytes read from
/// `left`, and returns `None` if that is exhausted.
fn index_before(
    file: &File,
    end: u64,
    nonce: &[u8; 16],
    left: &mut u64,
) -> io::Result<Option<FoundIndex>> {
    // Each attempt reads at least one page.
    *left = left.saturating_sub(4 << 10);
    let Some(start) = end.checked_sub(FOOTER as u64) else {
        return Ok(None);
    };
    let mut bytes = [0; FOOTER];
    file.read_exact_at(&mut bytes, start)?;
    if !bytes.ends_with(END) {
        return Ok(None);
    }
    let mut numbers = bytes.chunks_exact(8).map(|number| {
        let number = number.try_into().unwrap_or_default();
        u64::from_le_bytes(number)
    });
    let (Some(at), Some(packed), Some(len)) = (numbers.next(), numbers.next(), numbers.next())
    else {
        return Ok(None);
    };
    let fits = at >= HEADER as u64 && at.checked_add(packed) == Some(start);
    if !fits || packed.max(len) > MOST_INDEX {
        return Ok(None);
    }
    match left.checked_sub(packed) {
        Some(rest) => *left = rest,
        None => {
            *left = 0;
            return Ok(None);
        }
    }
    let mut index = vec![0; packed as usize];
    file.read_exact_at(&mut index, at)?;
    let whole = footer(nonce, at, len, &index) == bytes;
    Ok(whole.then_some(FoundIndex {
        at,
        end,
        index: (len, index),
    }))
}

pub(super) fn read_index(path: &Path, (len, bytes): &(u64, Vec<u8>)) -> Result<PackIndex> {
    let wrong = |why: String| refused(path, &format!("has an index that cannot be read: {why}"));
    let json = zstd::bulk::decompress(bytes, *len as usize);
    let json = json.map_err(|error| wrong(error.to_string()))?;
    let index: PackIndex =
        serde_json::from_slice(&json).map_err(|error| wrong(describe_json_error(&error)))?;
    match index.version {
        VERSION => Ok(index),
        other => Err(other_version(path, other)),
    }
}
