//! The end of a log: as many of its last records as it takes to know where the session goes on.

use crate::error::{Error, Result};
use crate::jsonl::{self, Bytes};
use crate::layout::{Record, Sink};
use crate::model::{Entry, EntryId, Key, Kind, Outline, Span};
use crate::store::share::{self, Sieve};
use crate::store::{FoundFile, Root};
use crate::tree::{Tree, named_leaf};

use super::end::LogEnd;
use super::{LogScan, adopt, link_previous, outline_one, pick, scope, strip};

/// How far back a log is searched for the leaf at which its program goes on.
pub(in crate::store) const REACH: u64 = 1 << 20;

/// The end of a log.
#[derive(Debug)]
pub(in crate::store) struct Window {
    /// Its outlines.
    pub(in crate::store) scan: LogScan,
    /// How they hang together.
    pub(in crate::store) tree: Tree,
    /// A leaf is named in it, and is in it.
    pub(in crate::store) named: bool,
    /// Its records, in file order.
    records: Vec<Tailed>,
    /// Tells what follows, where several sessions lie in the file.
    pub(in crate::store) sieve: Option<Sieve>,
}

#[derive(Debug)]
struct Tailed {
    span: Span,
    terminated: bool,
    oversize: bool,
}

impl Window {
    /// Reads as much of the end of a log as it takes to know where it goes on, and until `enough`
    /// says so.
    ///
    /// A named leaf is looked for in the whole log if need be. That no leaf is named is taken for
    /// granted after [`REACH`]. Only outlines are held, so memory goes with the number of lines.
    ///
    /// Each window is at least four times as long as the one before, in bytes that were covered and
    /// not in bytes that were asked for: a long line makes them differ. So all windows together cost
    /// little more than the last.
    ///
    /// In a file of several sessions, records count from the first on that names its session: before
    /// that nobody knows whose they are.
    pub(in crate::store) fn read(
        root: &Root,
        file: &FoundFile,
        handle: &dyn Bytes,
        enough: impl Fn(&Window) -> bool,
    ) -> Result<Self> {
        let failed = |error| Error::io("read", &file.path, error);
        let mut end = LogEnd::new(handle).map_err(failed)?;
        let mut bytes = 64 << 10;
        loop {
            end.extend(bytes).map_err(failed)?;
            let window = Window::of(root, file, &end)?;
            let resume = named_leaf(&window.scan.outlines);
            let known = |key: Key| {
                let mut outlines = window.scan.outlines.iter();
                outlines.any(|outline| outline.key == Some(key))
            };
            let named = resume.is_some_and(known);
            // Only programs that follow links say where they go on.
            let says_leaf = root.layout.resumes_by_links();
            let mut outlines = window.scan.outlines.iter();
            // What was named before a compaction counts no more.
            let compacted = outlines.any(|outline| outline.kind == Kind::Compaction);
            let far = !says_leaf || compacted || window.scan.bytes >= REACH;
            let certain = named || (resume.is_none() && far);
            if window.scan.whole || (certain && enough(&window)) {
                return Ok(Window { named, ..window });
            }
            // A leaf that is not near the end may be anywhere, or nowhere.
            let lost = resume.is_some() && !named && window.scan.bytes >= REACH;
            bytes = if lost {
                u64::MAX
            } else {
                window.scan.bytes.max(bytes).saturating_mul(4)
            };
        }
    }

    fn of(root: &Root, file: &FoundFile, end: &LogEnd<'_>) -> Result<Self> {
        let mut scan = LogScan {
            whole: end.start() == 0,
            bytes: end.len(),
            ..LogScan::default()
        };
        let mut records = Vec::new();
        let mut decoder = root.decoder(file);
        let mut sieve = file.share.as_deref().map(Sieve::new);
        if let Some(sieve) = sieve.as_mut().filter(|_| end.start() > 0) {
            sieve.in_the_middle();
        }
        let mut sink = Sink::default();
        let read = end.each_record(|record| {
            let offset = record.span.offset;
            if let Some(sieve) = &mut sieve
                && !sieve.takes(offset, || share::named(decoder.as_mut(), record))
            {
                return;
            }
            records.push(Tailed {
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
        scan.outlines = sink.found;
        scan.flaws = sink.flaws;
        link_previous(&mut scan.outlines);
        let tree = Tree::build(&scan.outlines, scope(&file.artifact));
        Ok(Window {
            scan,
            tree,
            named: false,
            records,
            sieve,
        })
    }

    /// Whether an entry is in it from which the agent program would go on. One without an id counts only if
    /// the log has no other, so all of it must be read for that.
    pub(in crate::store) fn has_leaf(&self) -> bool {
        let resumed = self
            .tree
            .resume_entry
            .filter(|_| self.tree.resume.is_some());
        let resumed = resumed.and_then(|at| self.scan.outlines.get(at));
        resumed.is_some_and(|outline| !outline.lacks_id())
    }

    /// Whether the agent program would follow a link to an entry: not to one in a damaged line, nor to one
    /// without an id.
    pub(in crate::store) fn is_linkable(&self, at: usize) -> bool {
        let outline = self.scan.outlines.get(at);
        outline.is_some_and(|outline| !outline.lacks_id() && !self.is_salvaged(outline))
    }

    /// Whether an entry stands in a damaged line: we can read it, the agent program cannot.
    fn is_salvaged(&self, outline: &Outline) -> bool {
        let found = self
            .records
            .binary_search_by_key(&outline.span.offset, |tailed| tailed.span.offset);
        let record = found.ok().and_then(|found| self.records.get(found));
        record.is_none_or(|tailed| tailed.span != outline.span)
    }

    /// One of its entries, by the index of its outline; `None` if the log has changed meanwhile.
    pub(in crate::store) fn entry(
        &self,
        root: &Root,
        file: &FoundFile,
        handle: &dyn Bytes,
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
        let bytes = strip(root.failures.ok_io(&file.path, bytes)?, span);
        let record = Record {
            span,
            bytes: &bytes,
            // Salvaged from within a damaged line, it is whole by itself.
            terminated: whole.terminated || whole.span != span,
            oversize: false,
        };
        let mut sink = Sink::default();
        root.decoder(file).decode(&record, &mut sink);
        let mut entry = pick(sink.found, &self.scan.outlines, at)?;
        let same = entry.id.as_ref().map(EntryId::key) == outline.key;
        adopt(&mut entry, &self.scan.outlines, at);
        (same || outline.key.is_none()).then_some(entry)
    }
}

/// Opens a log and reads its end.
pub(in crate::store) fn window(
    root: &Root,
    file: &FoundFile,
    enough: impl Fn(&Window) -> bool,
) -> Result<Window> {
    Window::read(root, file, &file.open()?, enough)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::jsonl::{FileId, MAX_LINE};
    use crate::store::Store;

    /// A file that counts the bytes that are read from it.
    #[derive(Debug)]
    struct Counted(File, AtomicU64);

    impl Bytes for Counted {
        fn id(&self) -> io::Result<FileId> {
            self.0.id()
        }

        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let read = Bytes::read_at(&self.0, into, offset)?;
            self.1.fetch_add(read as u64, Ordering::Relaxed);
            Ok(read)
        }
    }

    /// Reads the last message of a log that ends with a long line, and returns how often its bytes
    /// were read, in percent of its length.
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
        let window = Window::read(&root, file, &counted, Window::has_leaf).unwrap();
        let messages = window.scan.outlines.iter();
        let messages = messages.filter(|outline| outline.kind.is_message());
        assert_eq!((messages.count(), window.scan.lines), (1, 2));
        counted.1.into_inner() * 100 / text.len() as u64
    }

    #[test]
    fn a_line_above_the_cap_is_read_once() {
        let percent = percent_read("{*", MAX_LINE + 1000);
        assert!(percent <= 101, "{percent} %");
    }

    #[test]
    fn a_long_line_without_a_message_is_read_a_few_times() {
        let percent = percent_read(r#"{"type":"padding","text":"*"}"#, 4 << 20);
        assert!(percent <= 301, "{percent} %");
    }
}
