//! The bytes of a segment.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `ASG1`: the format |
//! | 4 | length of the header, little-endian, at most 1 MiB |
//! | 4 | length of the blob, little-endian, at most that of the longest content and 1 % |
//! | … | the header: a JSON object ([`Header`]) |
//! | … | the blob: zstd frames with checksums, each with at most 256 KiB of content |
//! | 16 | beginning of the SHA-256 of everything before |

use std::sync::Arc;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound};

use crate::content::{Content, MAX_CONTENT, MAX_LINES_CONTENT, MaskedLine};
use crate::error::{Error, Result};
use crate::header::{Header, Kind};
use crate::id::Digest;

const FORMAT: &[u8; 4] = b"ASG1";
const PREFIX: usize = 12;
const SUM: usize = 16;
const MAX_HEADER: u32 = 1 << 20;
const MAX_BLOB: u32 = (MAX_CONTENT + MAX_CONTENT / 100) as u32;

/// A balance of speed and size.
const LEVEL: i32 = 4;

/// A segment whose structure and checksum were verified. The content is verified by
/// [`SegmentReader::content`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its place.
    pub header: Header,
    bytes: Arc<[u8]>,
    blob: std::ops::Range<usize>,
}

impl Segment {
    /// Parses the segment at the beginning of `bytes`. Returns the bytes after it.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let short = || Error::Truncated("a segment");
        let format = bytes.get(..4).ok_or_else(short)?;
        if format != FORMAT {
            let found = String::from_utf8_lossy(format).into_owned();
            return Err(Error::Format(found, "ASG1"));
        }
        let header_len = length(bytes, 4, "header", MAX_HEADER)?;
        let blob_len = length(bytes, 8, "blob", MAX_BLOB)?;
        let blob = PREFIX + header_len..PREFIX + header_len + blob_len;
        let (segment, rest) = bytes.split_at_checked(blob.end + SUM).ok_or_else(short)?;
        let (signed, sum) = segment.split_at_checked(blob.end).ok_or_else(short)?;
        if Digest::new(signed).as_bytes() != sum {
            return Err(Error::Checksum("a segment"));
        }
        let header = segment.get(PREFIX..blob.start).ok_or_else(short)?;
        let header: Header = serde_json::from_slice(header)
            .map_err(|error| Error::invalid(format!("header: {error}")))?;
        header.check()?;
        let segment = Segment {
            header,
            bytes: segment.into(),
            blob,
        };
        Ok((segment, rest))
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The compressed content.
    pub fn blob(&self) -> &[u8] {
        self.bytes.get(self.blob.clone()).unwrap_or_default()
    }
}

fn length(bytes: &[u8], at: usize, what: &'static str, limit: u32) -> Result<usize> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    let len = u32::from_le_bytes(four.ok_or(Error::Truncated("a segment"))?);
    match len <= limit {
        true => Ok(len as usize),
        false => Err(Error::TooLong {
            what,
            len: len.into(),
            limit: limit.into(),
        }),
    }
}

/// Creates segments.
pub struct SegmentWriter(Compressor<'static>);

impl std::fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SegmentWriter")
    }
}

impl SegmentWriter {
    /// Creates a writer.
    pub fn new() -> Result<Self> {
        let mut compressor = Compressor::new(LEVEL).map_err(compression)?;
        let set = compressor.set_parameter(CParameter::ChecksumFlag(true));
        set.map_err(compression)?;
        Ok(SegmentWriter(compressor))
    }

    /// Creates a segment. Length and digest of the content are set in the header.
    pub fn write(&mut self, mut header: Header, content: &[u8]) -> Result<Segment> {
        header.len = u32::try_from(content.len()).unwrap_or(u32::MAX);
        header.digest = Digest::new(content);
        header.check()?;
        header.check_content(content)?;
        let mut blob = Vec::with_capacity(compress_bound(content.len()));
        for frame in content.chunks(MAX_LINES_CONTENT as usize) {
            blob.extend(self.0.compress(frame).map_err(compression)?);
        }
        Segment::from_parts(header, &blob)
    }
}

impl Segment {
    fn from_parts(header: Header, blob: &[u8]) -> Result<Self> {
        let json =
            serde_json::to_vec(&header).map_err(|error| Error::invalid(error.to_string()))?;
        let mut bytes = Vec::with_capacity(PREFIX + json.len() + blob.len() + SUM);
        bytes.extend(FORMAT);
        for (what, len, limit) in [
            ("header", json.len(), MAX_HEADER),
            ("blob", blob.len(), MAX_BLOB),
        ] {
            let len = u32::try_from(len).ok().filter(|len| *len <= limit);
            let len = len.ok_or_else(|| Error::invalid(format!("the {what} is too long")))?;
            bytes.extend(len.to_le_bytes());
        }
        bytes.extend(&json);
        bytes.extend(blob);
        let sum = Digest::new(&bytes);
        bytes.extend(sum.as_bytes());
        let start = PREFIX + json.len();
        Ok(Segment {
            header,
            bytes: bytes.into(),
            blob: start..start + blob.len(),
        })
    }
}

/// Verifies and decompresses segments.
pub struct SegmentReader(Decompressor<'static>);

impl std::fmt::Debug for SegmentReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SegmentReader")
    }
}

impl SegmentReader {
    /// Creates a reader.
    pub fn new() -> Result<Self> {
        Decompressor::new().map(SegmentReader).map_err(compression)
    }

    /// Returns the content of a segment, after all checks. Never allocates more than the header says,
    /// which is limited.
    pub fn content(&mut self, segment: &Segment) -> Result<Vec<u8>> {
        let content = self.decompress(segment.blob(), segment.header.len)?;
        segment.header.check_content(&content)?;
        Ok(content)
    }

    /// Decompresses a stored blob of known length.
    pub fn decompress(&mut self, blob: &[u8], len: u32) -> Result<Vec<u8>> {
        if u64::from(len) > MAX_CONTENT {
            return Err(Error::TooLong {
                what: "content",
                len: len.into(),
                limit: MAX_CONTENT,
            });
        }
        // A frame of a few bytes can claim any length, but zstd cannot compress more than this.
        if u64::from(len) > (blob.len() as u64).saturating_mul(MAX_RATIO) {
            return Err(Error::invalid("the blob is too short for its content"));
        }
        let mut content = vec![0; len as usize];
        let written = self.0.decompress_to_buffer(blob, content.as_mut_slice());
        match written.map_err(compression)? == content.len() {
            true => Ok(content),
            false => Err(Error::invalid("the content has another length")),
        }
    }

    /// Returns the part of a segment from `offset` of its file on, as a segment.
    pub fn cut(
        &mut self,
        writer: &mut SegmentWriter,
        segment: &Segment,
        offset: u64,
    ) -> Result<Segment> {
        let header = &segment.header;
        let inside = header.start < offset && offset < header.end;
        if !inside {
            return Err(Error::invalid("the offset is not inside of the segment"));
        }
        let content = self.content(segment)?;
        let skip = offset - header.start;
        let (position, lines) = match header.kind {
            Kind::Lines => Content::from_lines(&content)?.position_after(&header.masked, skip)?,
            Kind::Document { .. } => (skip as usize, 0),
        };
        let masked = header.masked.iter();
        let masked = masked.filter_map(|line| Some(MaskedLine(line.0.checked_sub(lines)?, line.1)));
        let header = Header {
            start: offset,
            masked: masked.collect(),
            ..header.clone()
        };
        writer.write(header, content.get(position..).unwrap_or_default())
    }
}

/// Upper limit of what a blob of one byte can hold: a block of zstd has three bytes at least and up to
/// 128 KiB of content.
const MAX_RATIO: u64 = (128 << 10) / 3 + 1;

fn compression(error: std::io::Error) -> Error {
    Error::Compression(error.to_string())
}
