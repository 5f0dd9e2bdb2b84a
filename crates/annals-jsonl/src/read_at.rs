//! Positioned reads from a file, from another storage such as the archive, or of derived records.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::{FileId, sys};

/// Bytes that can be read at any offset, without a shared position.
pub trait ReadAt: std::fmt::Debug + Send + Sync {
    /// The current identity of the file.
    fn id(&self) -> io::Result<FileId>;

    /// Reads some bytes at `offset`; zero at the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The number of bytes. Differs from the length in [`id`](Self::id) if the bytes are derived.
    fn size(&self) -> io::Result<u64> {
        Ok(self.id()?.len)
    }

    /// The state of the file that the bytes were derived from; `None` if they are the file's own.
    ///
    /// A log only grows, so its end shows whether the bytes before it are known. Derived bytes may
    /// change anywhere, so a [`Cursor`](crate::Cursor) is valid only in the same state.
    fn revision(&self) -> Option<FileId> {
        None
    }

    /// Fills the buffer, or reads to the end; returns the number of bytes.
    fn fill_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            let room = into.get_mut(filled..).unwrap_or_default();
            if room.is_empty() {
                return Ok(filled);
            }
            match self.read_at(room, offset + filled as u64) {
                Ok(0) => return Ok(filled),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Fills the buffer, or fails.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self.fill_at(into, offset)? == into.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl ReadAt for File {
    fn id(&self) -> io::Result<FileId> {
        Ok(FileId::from(&self.metadata()?))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        sys::read_at(self, into, offset)
    }
}

impl<B: ReadAt + ?Sized> ReadAt for &B {
    fn id(&self) -> io::Result<FileId> {
        (**self).id()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(into, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn revision(&self) -> Option<FileId> {
        (**self).revision()
    }
}

/// A log open for reading.
#[derive(Clone, Debug)]
pub enum OpenLog {
    /// A file.
    Plain(Arc<File>),
    /// A log in another storage.
    Archived(Arc<dyn ReadAt>),
    /// Records derived from a document or a database.
    Derived(Arc<dyn ReadAt>),
}

impl OpenLog {
    /// Opens a file. A symbolic link is refused.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(OpenLog::Plain(Arc::new(open_to_read(path.as_ref())?)))
    }
}

/// Opens a file of a root for reading.
///
/// Links are refused: their target may be outside the root. A pipe, device or socket in its place
/// is refused without blocking.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let opened = sys::no_follow(File::options().read(true)).open(path);
    let file = opened.map_err(|error| {
        if sys::is_link_refused(&error) {
            io::Error::other("it is a symbolic link, which is not followed")
        } else if sys::is_no_device(&error) {
            io::Error::other(NOT_REGULAR)
        } else {
            error
        }
    })?;
    let kind = file.metadata()?.file_type();
    // Reading a directory returns its own error.
    match kind.is_file() || kind.is_dir() {
        true => Ok(file),
        false => Err(io::Error::other(NOT_REGULAR)),
    }
}

const NOT_REGULAR: &str = "it is not a regular file";

/// Reads a whole document of a root.
pub fn read_document(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl ReadAt for OpenLog {
    fn id(&self) -> io::Result<FileId> {
        match self {
            OpenLog::Plain(file) => file.id(),
            OpenLog::Archived(bytes) | OpenLog::Derived(bytes) => bytes.id(),
        }
    }

    fn size(&self) -> io::Result<u64> {
        match self {
            OpenLog::Plain(file) => file.size(),
            OpenLog::Archived(bytes) | OpenLog::Derived(bytes) => bytes.size(),
        }
    }

    fn revision(&self) -> Option<FileId> {
        match self {
            OpenLog::Plain(_) => None,
            OpenLog::Archived(bytes) | OpenLog::Derived(bytes) => bytes.revision(),
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            OpenLog::Plain(file) => ReadAt::read_at(&**file, into, offset),
            OpenLog::Archived(bytes) | OpenLog::Derived(bytes) => bytes.read_at(into, offset),
        }
    }
}

/// Reads bytes in order, up to an end offset.
#[derive(Debug)]
pub struct RangeReader<B> {
    bytes: B,
    at: u64,
    /// End offset, if it is before the end of the bytes.
    end: Option<u64>,
    /// The last known number of bytes.
    known_len: Option<u64>,
}

impl<B: ReadAt> RangeReader<B> {
    /// Reads from `offset` to the end of the bytes.
    pub fn from_offset(bytes: B, offset: u64) -> Self {
        RangeReader {
            bytes,
            at: offset,
            end: None,
            known_len: None,
        }
    }

    /// Reads from `offset` to `end`.
    pub fn between(bytes: B, offset: u64, end: u64) -> Self {
        RangeReader {
            bytes,
            at: offset,
            end: Some(end),
            known_len: None,
        }
    }

    /// Treats a short read that ends at or after `known` as the end, without another read to
    /// confirm it.
    pub fn with_known_len(mut self, known: u64) -> Self {
        self.known_len = Some(known);
        self
    }

    /// The current offset.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The underlying bytes.
    pub fn bytes(&self) -> &B {
        &self.bytes
    }
}

impl<B: ReadAt> Read for RangeReader<B> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map(|end| end.saturating_sub(self.at));
        let left = left.map_or(usize::MAX, |left| {
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let room = into.len().min(left);
        let into = into.get_mut(..room).unwrap_or_default();
        if into.is_empty() {
            return Ok(0);
        }
        let read = self.bytes.read_at(into, self.at)?;
        self.at += read as u64;
        if read < into.len() && self.known_len.is_some_and(|known| self.at >= known) {
            self.end = Some(self.at);
        }
        Ok(read)
    }
}

impl<B: ReadAt> Seek for RangeReader<B> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => {
                let end = self.end.map_or_else(|| self.bytes.size(), Ok)?;
                end.checked_add_signed(by)
            }
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[derive(Debug)]
    struct OneByteReads(Vec<u8>);

    impl ReadAt for OneByteReads {
        fn id(&self) -> io::Result<FileId> {
            Ok(FileId {
                len: self.0.len() as u64,
                ..FileId::default()
            })
        }

        /// Reads one byte at a time, as no file does.
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let byte = self.0.get(offset as usize);
            Ok(byte.zip(into.first_mut()).map_or(0, |(byte, into)| {
                *into = *byte;
                1
            }))
        }
    }

    #[test]
    fn short_reads_are_continued() {
        let drip = OneByteReads(b"hello".to_vec());
        let mut into = [0; 4];
        drip.read_exact_at(&mut into, 1).unwrap();
        assert_eq!(&into, b"ello");
        let short = drip.read_exact_at(&mut into, 2).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Interrupted before every byte.
    #[derive(Debug)]
    struct InterruptedReads(OneByteReads, AtomicBool);

    impl ReadAt for InterruptedReads {
        fn id(&self) -> io::Result<FileId> {
            self.0.id()
        }

        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            match self.1.fetch_not(Ordering::Relaxed) {
                true => self.0.read_at(into, offset),
                false => Err(io::ErrorKind::Interrupted.into()),
            }
        }
    }

    #[test]
    fn interrupted_reads_are_retried() {
        let bytes = InterruptedReads(OneByteReads(b"hello".to_vec()), false.into());
        let mut into = [0; 4];
        (&&bytes).read_exact_at(&mut into, 1).unwrap();
        assert_eq!((&into, (&&bytes).size().unwrap()), (b"ello", 5));
    }

    /// Returns all bytes, and counts the reads.
    #[derive(Debug)]
    struct CountedReads(&'static [u8], AtomicU32);

    impl ReadAt for CountedReads {
        fn id(&self) -> io::Result<FileId> {
            Ok(FileId::default())
        }

        fn read_at(&self, mut into: &mut [u8], offset: u64) -> io::Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            io::Write::write(&mut into, rest)
        }
    }

    #[test]
    fn reader_stops_at_known_length_without_extra_read() {
        // The same length, a smaller and a larger one; in the last case the file may continue after
        // a gap.
        for (known, asked) in [(5, 1), (3, 1), (9, 2)] {
            let bytes = CountedReads(b"hello", AtomicU32::new(0));
            let mut reader = RangeReader::from_offset(&bytes, 0).with_known_len(known);
            let mut into = [0; 64];
            assert_eq!(reader.read(&mut into).unwrap(), 5);
            assert_eq!(reader.read(&mut into).unwrap(), 0);
            assert_eq!(bytes.1.load(Ordering::Relaxed), asked, "{known}");
        }
        // A full buffer may be followed by more.
        let bytes = CountedReads(b"hello", AtomicU32::new(0));
        let mut reader = RangeReader::from_offset(&bytes, 0).with_known_len(2);
        assert_eq!(reader.read(&mut [0; 4]).unwrap(), 4);
        assert_eq!(reader.read(&mut [0; 4]).unwrap(), 1);
    }

    #[test]
    fn range_reader_stops_at_its_end() {
        let drip = OneByteReads(b"one two three".to_vec());
        let read = |mut reader: RangeReader<&OneByteReads>| {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(read(RangeReader::from_offset(&drip, 8)), "three");
        assert_eq!(read(RangeReader::between(&drip, 4, 7)), "two");
        assert_eq!(read(RangeReader::between(&drip, 4, 2)), "");
        let mut reader = RangeReader::between(&drip, 0, 7);
        assert_eq!(reader.seek(SeekFrom::End(-3)).unwrap(), 4);
        assert_eq!(read(reader), "two");
        assert!(
            RangeReader::from_offset(&drip, 0)
                .seek(SeekFrom::Current(-1))
                .is_err()
        );
    }
}
