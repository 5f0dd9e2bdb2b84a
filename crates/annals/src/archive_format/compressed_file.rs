//! A compressed file: standard zstd frames, each with at most 256 KiB of content, its length and a
//! checksum. `zstd -d` decompresses it.
//!
//! Any offset is reached by decompressing one frame: the headers of frames and blocks give their
//! lengths, so frames are found without decompressing. If the headers are damaged or the file is
//! cut, every frame that is whole is found by its magic number and its checksum.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memchr::memmem;

use super::zstd_codec::{Decoder, Encoder};
use annals_jsonl::{self as jsonl, FileId, ReadAt};

/// Maximum content of a frame, which is what a damaged byte costs. Frames of 64 KiB are 6 % larger
/// together.
pub(crate) const FRAME: usize = 256 << 10;

/// Maximum compressed length of a frame.
const FRAME_BYTES: u64 = FRAME as u64 + (64 << 10);

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Maximum ratio of content to compressed length, unless the content is less than
/// [`ALWAYS_ALLOWED`]. Logs do not compress that well; such a file is made to fill a disk.
const RATIO: u64 = 1_000;
const ALWAYS_ALLOWED: u64 = 1 << 30;

/// A frame, or a range between whole frames that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Offset in the compressed file.
    pub at: u64,
    /// Compressed length.
    pub bytes: u64,
    /// Offset of its content in the file.
    pub(crate) start: u64,
    /// Length of its content.
    pub(crate) len: u64,
    /// It cannot be read.
    pub(crate) is_lost: bool,
}

/// A compressed file, open for reading.
#[derive(Debug)]
pub struct CompressedFile {
    path: PathBuf,
    file: File,
    id: FileId,
    frames: Vec<Frame>,
    cache: Mutex<Cache>,
}

impl CompressedFile {
    /// Opens the first `packed` bytes of a file, which have `id.len` bytes of content.
    pub fn open(path: &Path, packed: u64, id: FileId) -> io::Result<Self> {
        let file = jsonl::open_to_read(path)?;
        let there = file.size()?;
        let mut frames = match walk(&file, packed.min(there))? {
            (frames, end) if end == packed && content(&frames) == id.len => frames,
            _ => salvage(path, &file, packed.min(there))?,
        };
        fit(&mut frames, packed.min(there), packed, id.len);
        CompressedFile::new(path, file, id, frames)
    }

    /// Opens all whole frames of a file, of which nothing is known. Returns the compressed length
    /// up to the end of the last whole frame.
    pub fn open_unlisted(path: &Path) -> io::Result<(Self, u64)> {
        let file = jsonl::open_to_read(path)?;
        let packed = file.size()?;
        let mut frames = match walk(&file, packed)? {
            (frames, end) if end == packed => frames,
            _ => salvage(path, &file, packed)?,
        };
        let end = |frame: &Frame| frame.at + frame.bytes;
        let whole = frames.iter().rposition(|frame| !frame.is_lost);
        frames.truncate(whole.map_or(0, |last| last + 1));
        let id = FileId {
            len: content(&frames),
            ..FileId::default()
        };
        let packed = frames.last().map_or(0, end);
        Ok((CompressedFile::new(path, file, id, frames)?, packed))
    }

    fn new(path: &Path, file: File, id: FileId, frames: Vec<Frame>) -> io::Result<Self> {
        let packed: u64 = frames.iter().map(|frame| frame.bytes).sum();
        if id.len > RATIO.saturating_mul(packed).max(ALWAYS_ALLOWED) {
            let why = format!("it claims more than {RATIO} times its own length");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(CompressedFile {
            path: path.to_owned(),
            file,
            id,
            frames,
            cache: Mutex::default(),
        })
    }

    /// Returns its frames.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Passes the content of each frame from compressed offset `since` on to `give`, or the error
    /// of reading it.
    pub(crate) fn each_frame(
        &self,
        since: u64,
        mut give: impl FnMut(&Frame, io::Result<&[u8]>) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let mut cache = Cache::default();
        for frame in self.frames.iter().filter(|frame| frame.at >= since) {
            match cache.load(&self.path, &self.file, frame) {
                Ok(()) => {
                    let room = self.id.len.saturating_sub(frame.start);
                    let room = usize::try_from(room).unwrap_or(usize::MAX);
                    let bytes = cache.bytes.get(..room).unwrap_or(&cache.bytes);
                    give(frame, Ok(bytes))?;
                }
                Err(error) => give(frame, Err(error))?,
            }
        }
        Ok(())
    }

    /// Returns the ranges of the content that cannot be read.
    pub fn lost_ranges(&self) -> Vec<Range<u64>> {
        let mut lost: Vec<Range<u64>> = Vec::new();
        // The callback does not fail.
        let _ = self.each_frame(0, |frame, content| {
            let range = frame.start..frame.start + frame.len;
            match (content.is_err() && frame.len > 0, lost.last_mut()) {
                (false, _) => {}
                (true, Some(before)) if before.end == range.start => before.end = range.end,
                (true, _) => lost.push(range),
            }
            Ok(())
        });
        lost
    }

    /// Drops the file from the page cache, so that it is read from disk again.
    pub(crate) fn drop_page_cache(&self) {
        // Only a hint; if it fails, reads come from the page cache.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

impl ReadAt for CompressedFile {
    fn id(&self) -> io::Result<FileId> {
        Ok(self.id)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let after = self.frames.partition_point(|frame| frame.start <= offset);
        let Some(frame) = after.checked_sub(1).and_then(|at| self.frames.get(at)) else {
            return Ok(0);
        };
        let end = frame.len.min(self.id.len.saturating_sub(frame.start));
        let within = offset - frame.start;
        if within >= end || into.is_empty() {
            return Ok(0);
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.load(&self.path, &self.file, frame)?;
        let held = cache.bytes.get(within as usize..end as usize);
        let held = held.unwrap_or_default();
        let count = held.len().min(into.len());
        let (from, to) = (held.get(..count), into.get_mut(..count));
        to.unwrap_or_default()
            .copy_from_slice(from.unwrap_or_default());
        Ok(count)
    }
}

/// The last frame read, decompressed.
#[derive(Default)]
struct Cache {
    frame: Option<Frame>,
    bytes: Vec<u8>,
    packed: Vec<u8>,
    decoder: Option<Decoder>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("frame", &self.frame).finish()
    }
}

impl Cache {
    fn load(&mut self, path: &Path, file: &File, frame: &Frame) -> io::Result<()> {
        if self.frame.as_ref() == Some(frame) {
            return Ok(());
        }
        self.frame = None;
        let damaged = |why: &str| {
            let (path, at) = (path.display(), frame.at);
            let text = format!("{path}: damaged frame at offset {at}: {why}");
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        if frame.is_lost {
            return Err(damaged("no whole frame is there"));
        }
        self.packed.resize(frame.bytes as usize, 0);
        let read = file.read_exact_at(&mut self.packed, frame.at);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("truncated"),
            // Callers know only the original path of the file, so name the compressed one.
            kind => io::Error::new(kind, format!("{error} in {}", path.display())),
        })?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new()?),
        };
        // The buffer is limited to the length in the header, so a hostile frame cannot expand
        // further.
        self.bytes.resize(frame.len as usize, 0);
        match decoder.decode(&self.packed, self.bytes.as_mut_slice()) {
            Ok(len) if len == frame.len as usize => {}
            Ok(_) => return Err(damaged("content too short")),
            Err(error) => return Err(damaged(&error.to_string())),
        }
        self.frame = Some(*frame);
        Ok(())
    }
}

fn content(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| frame.len).sum()
}

/// Returns the frames up to `end`, or up to the first that is not whole, and where they end. Reads
/// only headers.
fn walk(file: &File, end: u64) -> io::Result<(Vec<Frame>, u64)> {
    let mut frames: Vec<Frame> = Vec::new();
    let (mut at, mut start) = (0, 0);
    while at < end {
        let Some((bytes, len)) = frame_at(file, at, end)? else {
            break;
        };
        frames.push(Frame {
            at,
            bytes,
            start,
            len,
            is_lost: false,
        });
        at += bytes;
        start += len;
    }
    Ok((frames, at))
}

/// Returns the compressed length and the content length of the frame at `at`, from its headers;
/// `None` if no frame of an archived file is there, or it extends past `end`.
fn frame_at(file: &File, at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    let mut header = [0; 14];
    let read = file.fill_at(&mut header, at)?;
    let header = header.get(..read).unwrap_or_default();
    let Some((flags, rest)) = header.strip_prefix(&MAGIC).and_then(<[u8]>::split_first) else {
        return Ok(None);
    };
    let is_single_segment = flags & 0x20 != 0;
    let has_checksum = flags & 4 != 0;
    let has_dictionary = flags & 3 != 0;
    let window = usize::from(!is_single_segment);
    let size = match (flags >> 6, is_single_segment) {
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        (3, _) => 8,
        _ => 0,
    };
    let len = rest.get(window..window + size).unwrap_or_default();
    let len = len
        .iter()
        .rev()
        .fold(0u64, |len, byte| len << 8 | u64::from(*byte));
    let len = len + if size == 2 { 256 } else { 0 };
    if size == 0 || has_dictionary || !has_checksum || len > FRAME as u64 {
        return Ok(None);
    }
    let mut bytes = (5 + window + size) as u64;
    let limit = FRAME_BYTES.min(end.saturating_sub(at));
    loop {
        let mut block = [0; 3];
        if bytes + 3 > limit || file.fill_at(&mut block, at + bytes)? < 3 {
            return Ok(None);
        }
        let [low, middle, high] = block.map(u64::from);
        let block = high << 16 | middle << 8 | low;
        bytes += 3;
        match (block >> 1) & 3 {
            // One byte that is repeated.
            1 => bytes += 1,
            3 => return Ok(None),
            _ => bytes += block >> 3,
        }
        if block & 1 == 1 {
            break;
        }
    }
    bytes += 4;
    Ok((bytes <= limit).then_some((bytes, len)))
}

/// Returns the frames that are whole, and the ranges between them. Decompresses every frame.
fn salvage(path: &Path, file: &File, end: u64) -> io::Result<Vec<Frame>> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut cache = Cache::default();
    let (mut at, mut start) = (0, 0);
    let mut whole = |at: u64| -> io::Result<Option<(u64, u64, bool)>> {
        let Some((bytes, len)) = frame_at(file, at, end)? else {
            return Ok(None);
        };
        let frame = Frame {
            at,
            bytes,
            start: 0,
            len,
            is_lost: false,
        };
        match cache.load(path, file, &frame) {
            Ok(()) => Ok(Some((bytes, len, true))),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Ok(Some((bytes, len, false)))
            }
            Err(error) => Err(error),
        }
    };
    while at < end {
        let (bytes, len, is_lost) = match whole(at)? {
            Some((bytes, len, true)) => (bytes, len, false),
            // The next frame follows where its headers say, unless a damaged header makes it seem
            // to include whole frames.
            Some((bytes, len, false)) if is_frame_start(file, at + bytes, end)? => {
                let mut next = at + 1;
                loop {
                    next = next_magic(file, next, at + bytes)?;
                    let mut after = next;
                    while after < at + bytes
                        && let Some((bytes, _, true)) = whole(after)?
                    {
                        after += bytes;
                    }
                    if next >= at + bytes || (after == at + bytes && after > next) {
                        break;
                    }
                    next += 1;
                }
                (next - at, len, true)
            }
            found => {
                let mut next = at + 1;
                loop {
                    next = next_magic(file, next, end)?;
                    if next >= end || whole(next)?.is_some_and(|(.., is_whole)| is_whole) {
                        break;
                    }
                    next += 1;
                }
                let claimed = found.map_or(0, |(_, len, _)| len);
                (next - at, claimed, true)
            }
        };
        frames.push(Frame {
            at,
            bytes,
            start,
            len,
            is_lost,
        });
        at += bytes;
        start += len;
    }
    Ok(frames)
}

fn is_frame_start(file: &File, at: u64, end: u64) -> io::Result<bool> {
    let mut magic = [0; 4];
    Ok(at == end || (file.fill_at(&mut magic, at)? == 4 && magic == MAGIC))
}

/// Returns the offset of the next magic number, or `end`.
fn next_magic(file: &File, from: u64, end: u64) -> io::Result<u64> {
    let mut block = vec![0; 64 << 10];
    let mut at = from;
    while at < end {
        let read = file.fill_at(&mut block, at)?;
        let some = block.get(..read).unwrap_or_default();
        if let Some(found) = memmem::find(some, &MAGIC) {
            return Ok((at + found as u64).min(end));
        }
        // The magic number may begin in the last three bytes.
        match read.checked_sub(3) {
            Some(done) if done > 0 => at += done as u64,
            _ => break,
        }
    }
    Ok(end)
}

/// Makes frames up to `there` account for `len` bytes of content in `packed` compressed bytes. What
/// is missing belongs to the ranges that cannot be read: to the last of them, if there are several
/// whose headers are damaged too.
fn fit(frames: &mut Vec<Frame>, there: u64, packed: u64, len: u64) {
    let known: u64 = frames
        .iter()
        .filter(|it| !it.is_lost)
        .map(|it| it.len)
        .sum();
    let mut left = len.saturating_sub(known);
    if there < packed || (left > 0 && frames.iter().all(|frame| !frame.is_lost)) {
        frames.push(Frame {
            at: there,
            bytes: packed - there,
            start: 0,
            len: 0,
            is_lost: true,
        });
    }
    let last = frames.iter().rposition(|frame| frame.is_lost);
    let mut start = 0;
    for (at, frame) in frames.iter_mut().enumerate() {
        if frame.is_lost {
            frame.len = match Some(at) == last {
                true => left,
                false => frame.len.min(left),
            };
            left -= frame.len;
        }
        frame.start = start;
        start += frame.len;
    }
}

/// Compresses content into frames. Reused for many files.
pub(crate) struct FrameEncoder {
    encoder: Encoder,
    buffer: Vec<u8>,
    packed: Vec<u8>,
}

impl FrameEncoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(FrameEncoder {
            encoder: Encoder::new()?,
            buffer: Vec::new(),
            packed: Vec::new(),
        })
    }

    /// Begins a file. Content of an earlier one that was not finished is dropped.
    pub(crate) fn begin(&mut self) {
        self.buffer.clear();
    }

    /// Adds content, and writes the frames that it fills.
    pub(crate) fn put(&mut self, file: &File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = FRAME.saturating_sub(self.buffer.len());
            let (some, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(some);
            bytes = rest;
            if self.buffer.len() >= FRAME {
                self.flush(file)?;
            }
        }
        Ok(())
    }

    /// Writes the last frame. A file without content gets an empty frame, which `zstd -d` needs.
    pub(crate) fn finish(&mut self, mut file: &File) -> io::Result<()> {
        use std::io::Seek as _;
        match self.buffer.is_empty() && file.stream_position()? > 0 {
            true => Ok(()),
            false => self.flush(file),
        }
    }

    fn flush(&mut self, mut file: &File) -> io::Result<()> {
        self.encoder.encode(&self.buffer, &mut self.packed)?;
        self.buffer.clear();
        file.write_all(&self.packed)
    }
}

#[cfg(test)]
mod tests;
