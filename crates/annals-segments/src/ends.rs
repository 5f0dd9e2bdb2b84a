//! How far files are known, and which segments continue them.

use std::collections::HashMap;

use crate::header::{Header, Kind};
use crate::id::{Digest, FileKey, SourceId};

/// How far one generation of a file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Offset after the last known byte.
    pub end: u64,
    /// Offset of the first byte of the last segment.
    pub last_start: u64,
    /// Digest of the content of the last segment.
    pub last_digest: Digest,
    /// Log or document.
    pub kind: Kind,
}

/// The known ends of files, by source, file and generation.
///
/// A pure function of the segments that were taken: every process that applies the same segments in
/// the same order has the same ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    files: HashMap<(SourceId, FileKey), HashMap<u32, End>>,
}

/// How a segment relates to what is known of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It begins where the known part ends.
    Next,
    /// All of it is known.
    Known,
    /// Its beginning is known, up to this offset.
    Overlap(u64),
    /// Bytes before it are missing. It must wait.
    Gap,
    /// It belongs to another version of the document than what is known of this generation.
    Conflict,
}

impl Ends {
    /// Returns how a segment relates to what is known.
    pub fn order(&self, header: &Header) -> Order {
        let known = self.end_of(header.source, header.file(), header.generation);
        let end = match known {
            Some(known) if known.kind != header.kind => return Order::Conflict,
            Some(known) => known.end,
            None => 0,
        };
        match header {
            _ if header.end <= end => Order::Known,
            _ if header.start == end => Order::Next,
            _ if header.start < end => Order::Overlap(end),
            _ => Order::Gap,
        }
    }

    /// Adds a segment that continues its file.
    pub fn take(&mut self, header: &Header) {
        self.restore(
            header.source,
            header.file(),
            header.generation,
            End {
                end: header.end,
                last_start: header.start,
                last_digest: header.digest,
                kind: header.kind,
            },
        );
    }

    /// Sets the end of a generation, if it is beyond the known one.
    pub fn restore(&mut self, source: SourceId, file: FileKey, generation: u32, end: End) {
        let generations = self.files.entry((source, file)).or_default();
        let known = generations.get(&generation).map_or(0, |known| known.end);
        if end.end > known {
            generations.insert(generation, end);
        }
    }

    /// Returns the end of a generation.
    pub fn end_of(&self, source: SourceId, file: FileKey, generation: u32) -> Option<&End> {
        self.files.get(&(source, file))?.get(&generation)
    }

    /// Returns the newest generation of each file of a source.
    pub fn newest(&self, source: SourceId) -> impl Iterator<Item = (FileKey, u32, &End)> {
        let files = self.files.iter().filter(move |((of, _), _)| *of == source);
        files.filter_map(|((_, file), generations)| {
            let (generation, end) = generations
                .iter()
                .max_by_key(|(generation, _)| **generation)?;
            Some((*file, *generation, end))
        })
    }

    /// Removes everything of one file.
    pub fn remove(&mut self, source: SourceId, file: FileKey) {
        self.files.remove(&(source, file));
    }
}
