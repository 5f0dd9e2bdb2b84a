//! The tail of a log: as many of its last records as needed to find where the session resumes.

use crate::error::{Error, Result};
use crate::store::shared_log::{self, SliceFilter};
use crate::store::{Root, RootFile};
use annals_jsonl::{self as jsonl, ReadAt};
use annals_layouts::layout::{Decoded, Record};
use annals_layouts::model::{Entry, EntryId, EntryKey, Fact, Outline, OutlineKind, Span};
use annals_layouts::tree::{Tree, named_leaf};

use super::log_end::LogEnd;
use super::{
    LogScan, inherit_links, link_to_previous, outline_one, pick_entry, scope, strip_line_ending,
};

/// Number of bytes at the end of a log to search for a record that names the leaf to resume at.
pub(in crate::store) const LEAF_SEARCH_BYTES: u64 = 1 << 20;

/// The last records of a log.
#[derive(Debug)]
pub(in crate::store) struct TailWindow {
    /// Outlines of the records.
    pub(in crate::store) scan: LogScan,
    /// Tree of the outlines.
    pub(in crate::store) tree: Tree,
    /// Whether a record names a leaf, and the window contains that leaf.
    pub(in crate::store) has_named_leaf: bool,
    /// The records, in file order.
    records: Vec<TailRecord>,
    /// Assigns the next records to sessions, if several sessions share the file.
    pub(in crate::store) filter: Option<SliceFilter>,
}

#[derive(Debug)]
struct TailRecord {
    span: Span,
    terminated: bool,
    oversize: bool,
}

impl TailWindow {
    /// Reads the end of a log until it shows where the session resumes and `enough` returns `true`.
    ///
    /// A named leaf is searched for in the whole log if needed. If the last [`LEAF_SEARCH_BYTES`]
    /// name no leaf, none is assumed. Only outlines are kept, so memory is proportional to the
    /// number of lines.
    ///
    /// Each window covers at least four times as many bytes as the previous one. The bytes covered
    /// count, not those requested, because a long line makes them differ. So all windows together
    /// cost little more than the last.
    ///
    /// In a shared file, records count from the first one that names its session: the owner of
    /// earlier ones is unknown.
    pub(in crate::store) fn read(
        root: &Root,
        file: &RootFile,
        handle: &dyn ReadAt,
        enough: impl Fn(&TailWindow) -> bool,
    ) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let mut end = LogEnd::new(handle).map_err(failed)?;
        let mut bytes = 64 << 10;
        loop {
            end.extend(bytes).map_err(failed)?;
            let window = TailWindow::from_log_end(root, file, &end)?;
            let resume = named_leaf(&window.scan.outlines);
            let known = |key: EntryKey| {
                let mut outlines = window.scan.outlines.iter();
                outlines.any(|outline| outline.key == Some(key))
            };
            let named = resume.is_some_and(known);
            // Only programs that follow links record the leaf to resume at.
            let says_leaf = root.layout.follows_parent_links();
            let mut outlines = window.scan.outlines.iter();
            // A compaction overrides a leaf named before it.
            let compacted = outlines.any(|outline| outline.kind == OutlineKind::Compaction);
            let far = !says_leaf || compacted || window.scan.bytes >= LEAF_SEARCH_BYTES;
            let certain = named || (resume.is_none() && far);
            if window.scan.whole || (certain && enough(&window)) {
                return Ok(TailWindow {
                    has_named_leaf: named,
                    ..window
                });
            }
            // A leaf that is not near the end may be anywhere, or missing.
            let lost = resume.is_some() && !named && window.scan.bytes >= LEAF_SEARCH_BYTES;
            bytes = if lost {
                u64::MAX
            } else {
                window.scan.bytes.max(bytes).saturating_mul(4)
            };
        }
    }

    fn from_log_end(root: &Root, file: &RootFile, end: &LogEnd<'_>) -> Result<Self> {
        let mut scan = LogScan {
            whole: end.start() == 0,
            bytes: end.len(),
            ..LogScan::default()
        };
        let mut records = Vec::new();
        let mut decoder = root.decoder(file);
        let mut sieve = file.slice.as_deref().map(SliceFilter::new);
        if let Some(sieve) = sieve.as_mut().filter(|_| end.start() > 0) {
            sieve.start_unknown();
        }
        let mut sink = Decoded::default();
        let read = end.each_record(|record| {
            let offset = record.span.offset;
            if let Some(sieve) = &mut sieve
                && !sieve.accepts(offset, || {
                    shared_log::record_session(decoder.as_mut(), record)
                })
            {
                return;
            }
            records.push(TailRecord {
                span: record.span,
                terminated: record.terminated,
                oversize: record.oversize,
            });
            let valid = outline_one(decoder.as_mut(), record, &mut sink);
            if !record.is_blank() {
                scan.lines += 1;
                scan.valid += u64::from(valid);
            }
        });
        read.map_err(|error| Error::io("read", &file.path, error))?;
        scan.outlines = sink.items;
        scan.flaws = sink.flaws;
        link_to_previous(&mut scan.outlines);
        let tree = Tree::build(&scan.outlines, scope(&file.artifact));
        Ok(TailWindow {
            scan,
            tree,
            has_named_leaf: false,
            records,
            filter: sieve,
        })
    }

    /// Returns whether the window contains an entry at which the agent program would resume. An
    /// entry without an id counts only if the log has no other, so all of the log must be read for
    /// that.
    pub(in crate::store) fn has_leaf(&self) -> bool {
        let resumed = self
            .tree
            .resume_entry
            .filter(|_| self.tree.resume.is_some());
        let resumed = resumed.and_then(|at| self.scan.outlines.get(at));
        resumed.is_some_and(|outline| !outline.lacks_id())
    }

    /// Returns whether the window contains the record with which a sub-agent begins in a shared log:
    /// then it contains all of its records.
    pub(in crate::store) fn has_agent_start(&self) -> bool {
        let mut facts = self.scan.outlines.iter().flat_map(|it| &it.facts);
        facts.any(|fact| matches!(fact, Fact::Purpose(_)))
    }

    /// Returns the index of the last entry with an id.
    pub(in crate::store) fn position(&self, id: &EntryId) -> Option<usize> {
        let key = Some(id.key());
        self.scan.outlines.iter().rposition(|it| it.key == key)
    }

    /// Returns whether the agent program would follow a link to an entry: not if it is in a damaged
    /// line or has no id.
    pub(in crate::store) fn is_linkable(&self, at: usize) -> bool {
        let outline = self.scan.outlines.get(at);
        outline.is_some_and(|outline| !outline.lacks_id() && !self.is_salvaged(outline))
    }

    /// Returns whether an entry is in a damaged line, which the agent program cannot read.
    fn is_salvaged(&self, outline: &Outline) -> bool {
        let found = self
            .records
            .binary_search_by_key(&outline.span.offset, |tailed| tailed.span.offset);
        let record = found.ok().and_then(|found| self.records.get(found));
        record.is_none_or(|tailed| tailed.span != outline.span)
    }

    /// Decodes an entry by the index of its outline; `None` if the log has changed or the line is
    /// too long.
    pub(in crate::store) fn entry(
        &self,
        root: &Root,
        file: &RootFile,
        handle: &dyn ReadAt,
        at: usize,
    ) -> Option<Entry> {
        let outline = self.scan.outlines.get(at)?;
        let span = outline.span;
        let after = self
            .records
            .partition_point(|tailed| tailed.span.offset <= span.offset);
        let whole = self.records.get(after.checked_sub(1)?)?;
        if whole.oversize {
            return None;
        }
        let bytes = jsonl::read_span(handle, span.offset, span.len);
        let bytes = strip_line_ending(root.failures.ok_io(&file.path, bytes)?, span);
        let record = Record {
            span,
            bytes: &bytes,
            // A record salvaged from a damaged line is complete.
            terminated: whole.terminated || whole.span != span,
            oversize: false,
        };
        let mut sink = Decoded::default();
        root.decoder(file).decode(&record, &mut sink);
        let mut entry = pick_entry(sink.items, &self.scan.outlines, at)?;
        let same = entry.id.as_ref().map(EntryId::key) == outline.key;
        inherit_links(&mut entry, &self.scan.outlines, at);
        (same || outline.key.is_none()).then_some(entry)
    }
}

/// Opens a log and reads its end.
pub(in crate::store) fn read_tail_window(
    root: &Root,
    file: &RootFile,
    enough: impl Fn(&TailWindow) -> bool,
) -> Result<TailWindow> {
    TailWindow::read(root, file, &file.open()?, enough)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::Store;
    use annals_jsonl::{FileId, MAX_LINE};

    /// A file that counts the bytes read from it.
    #[derive(Debug)]
    struct Counted(File, AtomicU64);

    impl ReadAt for Counted {
        fn id(&self) -> io::Result<FileId> {
            self.0.id()
        }

        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let read = ReadAt::read_at(&self.0, into, offset)?;
            self.1.fetch_add(read as u64, Ordering::Relaxed);
            Ok(read)
        }
    }

    /// Reads the last message of a log that ends with a long line. Returns the number of bytes
    /// read, in percent of the log's length.
    fn percent_read(last_line: &str, padding: usize) -> u64 {
        const SESSION: &str = "11111111-1111-4111-8111-111111111111";
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("projects/-x");
        fs::create_dir_all(&folder).unwrap();
        let message = format!(
            r#"{{"parentUuid":null,"sessionId":"{SESSION}","type":"user","message":{{"role":"user","content":"hello"}},"uuid":"22222222-2222-4222-8222-222222222222","timestamp":"2026-01-01T00:00:00Z"}}"#
        );
        let (before, after) = last_line.split_once('*').unwrap();
        let text = format!("{message}\n{before}{}{after}\n", "x".repeat(padding));
        fs::write(folder.join(format!("{SESSION}.jsonl")), &text).unwrap();
        let root = Root::claude_code(dir.path());
        let inventory = Store::new(vec![root.clone()]).inventory();
        let file = inventory.sessions[0].log.as_ref().unwrap();
        let counted = Counted(File::open(&file.path).unwrap(), AtomicU64::new(0));
        let window = TailWindow::read(&root, file, &counted, TailWindow::has_leaf).unwrap();
        let messages = window.scan.outlines.iter();
        let messages = messages.filter(|outline| outline.kind.is_message());
        assert_eq!((messages.count(), window.scan.lines), (1, 2));
        counted.1.into_inner() * 100 / text.len() as u64
    }

    #[test]
    fn oversize_line_is_read_once() {
        let percent = percent_read("{*", MAX_LINE + 1000);
        assert!(percent <= 101, "{percent} %");
    }

    #[test]
    fn long_line_without_message_is_read_at_most_three_times() {
        let percent = percent_read(r#"{"type":"padding","text":"*"}"#, 4 << 20);
        assert!(percent <= 301, "{percent} %");
    }
}
