//! Scans logs for records that match a query.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use memchr::memmem;
use rayon::prelude::*;

use super::StopFn;
use super::matcher::{Counts, Matcher, QueryContext};
use super::prefilter::Prefilter;
use super::query::{Filter, Query};
use super::results::{self, Hit, SearchResults};
use super::searchable_text::{self, TextPiece, text_pieces};
use super::session_filter::SessionFilter;
use crate::error::{Error, Result};
use crate::store::session_summary::SessionSummary;
use crate::store::{
    Inventory, Root, RootFile, SessionFiles, each_record, each_record_backwards, strip_line_ending,
    with_scanner,
};
use annals_jsonl::Error as FileError;
use annals_jsonl::{LineEnding, MAX_LINE, OpenLog, RangeReader, ReadAt as _, read_span};
use annals_layouts::layout::{Decoded, Decoder, Record, UNNAMED_CALL_PREFIX};
use annals_layouts::model::{AgentId, Block, Body, Entry, EntryKey, Span};

/// Below this size one thread scans everything: starting others costs about as much.
const SINGLE_THREAD_MAX: u64 = 4 << 20;

/// Below this size, decoding the unindexed part of a file is faster than compiling the prefilter.
const FEW: u64 = 16 << 10;

/// Number of records after which a scan asks whether to stop.
const STOP_INTERVAL: u32 = 32;

/// Maximum number of hits whose snippet is built when they are found, so that the record is not
/// read again.
const MAX_PREPARED: usize = 512;

/// Run of a query over the logs of an inventory.
#[derive(Debug)]
pub(crate) struct SearchRun<'a> {
    pub(super) query: &'a Query,
    pub(crate) matcher: Matcher,
    /// Compiled at the first scan of unindexed bytes.
    prefilter: OnceLock<Option<Prefilter>>,
    facts: SessionFilter<'a>,
    /// Number of hits whose snippet was built.
    ready: AtomicUsize,
    pub(crate) sources: Vec<SearchSource<'a>>,
}

/// File with records of a session.
#[derive(Debug)]
pub(crate) struct SearchSource<'a> {
    /// Number of the session in the inventory.
    pub(super) session: usize,
    pub(crate) files: &'a SessionFiles,
    /// File: one volume of a log.
    pub(crate) file: &'a RootFile,
}

/// Parts of a file to scan.
#[derive(Debug)]
pub(crate) struct ScanPlan {
    /// Single records.
    pub(crate) spans: Vec<Span>,
    /// Offset from which everything is scanned.
    pub(crate) from: u64,
}

impl ScanPlan {
    /// The whole file.
    pub(crate) const ALL: ScanPlan = ScanPlan {
        spans: Vec::new(),
        from: 0,
    };

    /// Returns the number of bytes to read of a file.
    pub(super) fn bytes(&self, file: &RootFile) -> u64 {
        let known: u64 = self.spans.iter().map(|span| span.len).sum();
        known + file.id.len.saturating_sub(self.from)
    }
}

/// Direction and end of the scan of a file.
#[derive(Clone, Copy)]
pub(super) struct ScanLimits<'a> {
    /// Maximum number of hits, searched from the end of the file; `None` for all, from the start.
    pub(super) newest: Option<usize>,
    /// Ends the scan when it returns true.
    pub(super) stop: StopFn<'a>,
}

/// Entry that matches.
#[derive(Debug)]
pub(super) struct MatchedEntry {
    /// Number of its source.
    pub(super) source: usize,
    /// Span of its record.
    pub(super) record: Span,
    /// Index of the entry in its record.
    pub(super) entry: usize,
    pub(super) time: Option<Timestamp>,
    pub(super) counts: Counts,
    /// The hit, if it was built already.
    pub(super) hit: Option<Box<Hit>>,
}

impl<'a> SearchRun<'a> {
    pub(crate) fn new(inventory: &'a Inventory, query: &'a Query) -> Result<Self> {
        let matcher = Matcher::new(&query.expr)?;
        Ok(SearchRun::with_matcher(inventory, query, matcher))
    }

    /// Creates a run with a compiled query.
    pub(crate) fn with_matcher(
        inventory: &'a Inventory,
        query: &'a Query,
        matcher: Matcher,
    ) -> Self {
        let mut sources = Vec::new();
        for (session, files) in inventory.sessions.iter().enumerate() {
            let logs = files.logs().flat_map(RootFile::volumes);
            // What a fork continues is found in the session that it was forked from.
            let is_copied = |file: &RootFile| file.slice.as_ref().is_some_and(|it| it.copied);
            let logs = logs.filter(|file| !is_copied(file));
            let logs = logs.chain(files.notes());
            // Skip sessions that the query excludes, whatever their records contain.
            let known = |filter: &Filter| match filter {
                Filter::Session(wanted) => Some(in_session(files, wanted)),
                Filter::Layout(wanted) => Some(files.root.layout.name() == wanted),
                _ => None,
            };
            if matcher.evaluate_for_log(&known) != Some(false) {
                sources.extend(logs.map(|file| SearchSource {
                    session,
                    files,
                    file,
                }));
            }
        }
        SearchRun {
            query,
            matcher,
            prefilter: OnceLock::new(),
            facts: SessionFilter::new(inventory, &query.expr),
            ready: AtomicUsize::new(0),
            sources,
        }
    }

    /// Returns the sessions that have something to scan, if summaries of them save reading them.
    pub(crate) fn sessions_to_look_up<'p>(
        &self,
        plans: impl Iterator<Item = (usize, &'p ScanPlan)>,
    ) -> BTreeSet<usize> {
        let planned = plans.filter(|_| self.facts.wants_summaries());
        let planned = planned.filter_map(|(number, plan)| {
            let source = self.sources.get(number)?;
            (plan.bytes(source.file) > 0).then_some(source.session)
        });
        planned.collect()
    }

    /// Adds summaries of sessions, which then need not be read for filters.
    pub(crate) fn add_summaries(&mut self, summaries: HashMap<usize, SessionSummary>) {
        self.facts.add_summaries(summaries);
    }

    /// Returns whether the query excludes a session whose summary is known, whatever its records
    /// contain.
    pub(super) fn is_excluded(&self, session: usize) -> bool {
        let known = |filter: &Filter| match filter {
            Filter::Project(wanted) => Some(self.facts.in_project(session, wanted)),
            _ => None,
        };
        self.facts.is_stored(session) && self.matcher.evaluate_for_log(&known) == Some(false)
    }

    /// Scans the parts that the plans list, one plan per source. Ends early when `stop` returns true.
    pub(crate) fn run(&self, plans: Vec<ScanPlan>, stop: StopFn<'_>) -> SearchResults {
        let mut work: Vec<(usize, ScanPlan, u64)> = Vec::with_capacity(plans.len());
        for (number, (plan, source)) in plans.into_iter().zip(&self.sources).enumerate() {
            let bytes = plan.bytes(source.file);
            if bytes > 0 && !self.is_excluded(source.session) {
                work.push((number, plan, bytes));
            }
        }
        // Largest first, so that no thread is left with a large file at the end.
        crate::sort::by_key(&mut work, |(_, _, bytes)| Reverse(*bytes));
        let limits = ScanLimits { newest: None, stop };
        let mut scanned = self.scan_all(work, limits);
        crate::sort::by_key(&mut scanned, |(number, _)| *number);
        let mut found = Findings::default();
        scanned
            .into_iter()
            .for_each(|(_, outcome)| found.add(outcome, usize::MAX));
        let mut results = results::rank_and_load(self, found.entries, found.errors);
        results.at_least = found.stopped;
        results.truncated |= results.at_least;
        results
    }

    /// Scans several sources, with several threads if they are large: source numbers, plans, and the
    /// bytes to read. The results are in the same order.
    pub(super) fn scan_all(
        &self,
        work: Vec<(usize, ScanPlan, u64)>,
        limits: ScanLimits<'_>,
    ) -> Vec<(usize, Result<ScannedFile>)> {
        let scan = |(number, plan, _): (usize, ScanPlan, u64)| {
            let outcome = match (limits.stop)() {
                true => Ok(ScannedFile {
                    stopped: true,
                    ..ScannedFile::default()
                }),
                false => self.scan_source(number, &plan, limits),
            };
            (number, outcome)
        };
        let total: u64 = work.iter().map(|(_, _, bytes)| bytes).sum();
        // Starting threads costs more than reading a little.
        match total < SINGLE_THREAD_MAX {
            true => work.into_iter().map(scan).collect(),
            false => work.into_par_iter().with_max_len(1).map(scan).collect(),
        }
    }

    fn scan_source(
        &self,
        number: usize,
        plan: &ScanPlan,
        limits: ScanLimits<'_>,
    ) -> Result<ScannedFile> {
        let Some(source) = self.sources.get(number) else {
            return Ok(ScannedFile::default());
        };
        match self.scan_file(number, source, plan, limits) {
            // The file was truncated meanwhile, so the plan is invalid.
            Err(Error::File(FileError::Io { source: error, .. }))
                if error.kind() == ErrorKind::UnexpectedEof =>
            {
                self.scan_file(number, source, &ScanPlan::ALL, limits)
            }
            outcome => outcome,
        }
    }

    fn scan_file(
        &self,
        number: usize,
        source: &SearchSource<'_>,
        plan: &ScanPlan,
        limits: ScanLimits<'_>,
    ) -> Result<ScannedFile> {
        let failed = |error| Error::io("read", &source.file.path, error);
        let handle = source.open()?;
        let id = handle.id().map_err(failed)?;
        // The plan is invalid for another file of the same name.
        let is_same = handle.revision().is_none() || id.untouched(&source.file.id);
        let planned = is_same && id.same_file(&source.file.id) && id.len >= source.file.id.len;
        let plan = if planned { plan } else { &ScanPlan::ALL };
        let calls = ToolCalls::default();
        let mut scan = FileScan {
            run: self,
            source,
            number,
            handle: &handle,
            decoder: source.root().decoder(source.file),
            sink: Decoded::default(),
            calls: &calls,
            limits,
            records: 0,
            scanned: ScannedFile::default(),
        };
        if limits.newest.is_some() {
            scan.scan_rest_backwards(plan, id.len)?;
            scan.scan_spans(plan.spans.iter().rev())?;
        } else {
            scan.scan_spans(plan.spans.iter())?;
            scan.scan_rest(plan, id.len)?;
        }
        Ok(scan.scanned)
    }

    fn may_be_in(&self, bytes: &[u8]) -> bool {
        let filter = self.prefilter();
        filter.is_none_or(|filter| filter.find(bytes).is_some())
    }

    fn prefilter(&self) -> Option<&Prefilter> {
        let make = || {
            let terms = self.matcher.required_terms()?;
            Prefilter::new(&terms)
        };
        self.prefilter.get_or_init(make).as_ref()
    }

    /// Returns true if the snippet of one more hit is built now. If few of the hits that are looked for are
    /// shown, reading those again takes less time.
    fn prepares_hit(&self) -> bool {
        let query = self.query;
        let few = query.first.is_some_and(|first| query.limit < first / 4);
        let wanted = query.limit > 0 && query.context == 0 && !few;
        wanted && self.ready.fetch_add(1, Ordering::Relaxed) < MAX_PREPARED
    }
}

impl SearchSource<'_> {
    /// Returns true if a record belongs to the session, where several share the file.
    pub(crate) fn owns(&self, offset: u64) -> bool {
        let share = self.file.slice.as_ref();
        share.is_none_or(|share| {
            let mut stretches = share.ranges.iter();
            stretches.any(|stretch| stretch.bytes.contains(&offset))
        })
    }

    pub(super) fn root(&self) -> &Root {
        &self.files.root
    }

    pub(super) fn open(&self) -> Result<OpenLog> {
        self.file.open()
    }
}

/// What a scan found in one source.
#[derive(Default)]
pub(super) struct ScannedFile {
    found: Vec<MatchedEntry>,
    /// Errors that name lines that are too long to be read.
    oversize: Vec<Error>,
    /// Whether it was told to stop.
    stopped: bool,
}

/// What the scans of several sources found.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) entries: Vec<MatchedEntry>,
    pub(super) errors: Vec<Error>,
    pub(super) stopped: bool,
}

impl Findings {
    /// Adds the result of a source, and at most `room` of its entries.
    pub(super) fn add(&mut self, outcome: Result<ScannedFile>, room: usize) {
        match outcome {
            Ok(scanned) => {
                self.entries.extend(scanned.found.into_iter().take(room));
                self.errors.extend(scanned.oversize);
                self.stopped |= scanned.stopped;
            }
            // A file that was removed meanwhile is ignored.
            Err(Error::File(FileError::Io { source, .. }))
                if source.kind() == ErrorKind::NotFound => {}
            Err(error) => self.errors.push(error),
        }
    }
}

/// Scan of the records of one source.
struct FileScan<'a> {
    run: &'a SearchRun<'a>,
    source: &'a SearchSource<'a>,
    number: usize,
    handle: &'a OpenLog,
    decoder: Box<dyn Decoder>,
    sink: Decoded<Entry>,
    calls: &'a ToolCalls,
    limits: ScanLimits<'a>,
    /// Number of records read.
    records: u32,
    scanned: ScannedFile,
}

impl FileScan<'_> {
    /// Returns true if the scan is told to stop.
    fn is_stopped(&mut self) -> bool {
        self.records = self.records.wrapping_add(1);
        if self.records.is_multiple_of(STOP_INTERVAL) && (self.limits.stop)() {
            self.scanned.stopped = true;
        }
        self.scanned.stopped
    }

    /// Returns true if nothing more is to be scanned.
    fn is_done(&mut self) -> bool {
        let found = self.scanned.found.len();
        self.limits.newest.is_some_and(|most| found >= most) || self.is_stopped()
    }

    /// Scans single records.
    fn scan_spans<'s>(&mut self, spans: impl Iterator<Item = &'s Span>) -> Result<()> {
        let handle = self.handle;
        for span in spans {
            if self.is_done() {
                break;
            }
            let bytes = read_span(handle, span.offset, span.len)
                .map_err(|error| Error::io("read", &self.source.file.path, error))?;
            let bytes = strip_line_ending(bytes, *span);
            self.scan_record(&Record {
                span: *span,
                bytes: &bytes,
                terminated: true,
                oversize: false,
            });
        }
        Ok(())
    }

    /// Scans everything from the offset of a plan on.
    fn scan_rest(&mut self, plan: &ScanPlan, len: u64) -> Result<()> {
        if self.source.file.slice.is_some() {
            return self.scan_slice(plan);
        }
        if len <= plan.from {
            return Ok(());
        }
        let source = self.source;
        let few = plan.from > 0 && len - plan.from < FEW;
        let prefilter = (!few).then(|| self.run.prefilter()).flatten();
        let reader = RangeReader::from_offset(self.handle.clone(), plan.from);
        with_scanner(reader, |lines| -> Result<()> {
            while !self.is_done() {
                let line = match prefilter {
                    Some(filter) => lines.next_where(|bytes| filter.find(bytes), filter.longest),
                    None => lines.next(),
                };
                let line = line.map_err(|error| Error::io("read", &source.file.path, error))?;
                let Some(line) = line else {
                    break;
                };
                self.scan_record(&Record {
                    span: Span {
                        offset: line.offset,
                        len: line.len,
                        line: 0,
                    },
                    bytes: line.bytes,
                    terminated: line.ending != LineEnding::None,
                    oversize: line.oversize,
                });
            }
            Ok(())
        })
    }

    /// Scans everything from the offset of a plan on, the last record first.
    fn scan_rest_backwards(&mut self, plan: &ScanPlan, len: u64) -> Result<()> {
        if self.source.file.slice.is_some() {
            // Its ranges are read forwards.
            self.scan_slice(plan)?;
            let offset = |entry: &MatchedEntry| Reverse(entry.record.offset);
            self.scanned.found.sort_by_key(offset);
            return Ok(());
        }
        if len <= plan.from {
            return Ok(());
        }
        let few = plan.from > 0 && len - plan.from < FEW;
        let path = &self.source.file.path;
        // The length of derived lines is not that of the file.
        let end = match self.handle.revision() {
            Some(_) => self.handle.size(),
            None => Ok(len),
        };
        let end = end.map_err(|error| Error::io("read", path, error))?;
        each_record_backwards(path, self.handle, end, |record| {
            if record.span.offset < plan.from || self.is_done() {
                return false;
            }
            if few || record.oversize || self.run.may_be_in(record.bytes) {
                self.scan_record(record);
            }
            true
        })
    }

    /// Scans the ranges of a file that several sessions share.
    fn scan_slice(&mut self, plan: &ScanPlan) -> Result<()> {
        let source = self.source;
        each_record(source.root(), source.file, |record| {
            let fresh = record.span.offset >= plan.from;
            let is_wanted = record.oversize
                || self.decoder.has_companion_data()
                || self.run.may_be_in(record.bytes);
            if fresh && is_wanted {
                // Lines are counted later, for the hits that are shown.
                let span = Span {
                    line: 0,
                    ..record.span
                };
                self.scan_record(&Record { span, ..*record });
            }
            Ok(!self.is_stopped())
        })
    }

    fn scan_record(&mut self, record: &Record<'_>) {
        if record.oversize {
            let why = format!(
                "the line at byte {} is longer than {} MiB",
                record.span.offset,
                MAX_LINE >> 20
            );
            let why = io::Error::new(ErrorKind::FileTooLarge, why);
            let error = Error::io("search", &self.source.file.path, why);
            return self.scanned.oversize.push(error);
        }
        self.decoder.decode(record, &mut self.sink);
        self.sink.flaws.clear();
        let beside = match self.sink.items.len() {
            1 => searchable_text::extra_text(self.decoder.as_mut(), record),
            // A damaged record has no extra text.
            _ => Vec::new(),
        };
        let here = RecordContext {
            run: self.run,
            source: self.source,
            handle: self.handle,
            calls: self.calls,
            offset: record.span.offset,
        };
        for (number, entry) in self.sink.items.drain(..).enumerate() {
            let mut texts: Vec<TextPiece<'_>> = Vec::new();
            text_pieces(&entry, &beside, &mut |piece| texts.push(piece));
            let matcher = &self.run.matcher;
            let Some(counts) = matcher.match_entry(&entry, &texts, &here) else {
                continue;
            };
            let hit = self.run.prepares_hit().then(|| {
                let snippet = matcher.snippet(&texts);
                Box::new(results::new_hit(self.source, &entry, record.span, snippet))
            });
            self.scanned.found.push(MatchedEntry {
                source: self.number,
                record: record.span,
                entry: number,
                time: entry.time,
                counts,
                hit,
            });
        }
    }
}

/// Context of a record in a log.
struct RecordContext<'a> {
    run: &'a SearchRun<'a>,
    source: &'a SearchSource<'a>,
    handle: &'a OpenLog,
    calls: &'a ToolCalls,
    offset: u64,
}

/// Cache of the tool calls of a log.
#[derive(Default)]
struct ToolCalls {
    /// Last call looked up and its tool: a result often has several texts.
    last: RefCell<Option<(String, Option<String>)>>,
    /// Tools of all calls; loaded when a call was not found near its result.
    all: RefCell<Option<HashMap<String, String>>>,
}

impl QueryContext for RecordContext<'_> {
    fn in_project(&self, wanted: &str) -> bool {
        self.run.facts.in_project(self.source.session, wanted)
    }

    fn in_session(&self, wanted: &str) -> bool {
        in_session(self.source.files, wanted)
    }

    fn layout(&self) -> &str {
        self.source.root().layout.name()
    }

    fn agent(&self) -> Option<&AgentId> {
        self.source.file.artifact.agent.as_ref()
    }

    fn agent_kind(&self, agent: &AgentId) -> Option<String> {
        self.run.facts.agent_kind(self.source.session, agent)
    }

    fn tool_of(&self, call: &str) -> Option<String> {
        if let Some((last, tool)) = self.calls.last.borrow().as_ref()
            && last == call
        {
            return tool.clone();
        }
        let tool = self.find_tool(call);
        let last = (call.to_owned(), tool.clone());
        self.calls.last.replace(Some(last));
        tool
    }

    fn attribute(&self, name: &str) -> Option<String> {
        self.run.facts.attribute(self.source.session, name)
    }

    fn on_conversation(&self, wanted: &str, entry: EntryKey) -> bool {
        let facts = &self.run.facts;
        facts.on_conversation(self.source.session, wanted, entry)
    }
}

impl RecordContext<'_> {
    fn find_tool(&self, call: &str) -> Option<String> {
        // A result without a call id names its tool.
        if let Some(tool) = call
            .strip_prefix(UNNAMED_CALL_PREFIX)
            .filter(|tool| !tool.is_empty())
        {
            return Some(tool.to_owned());
        }
        if let Some(calls) = self.calls.all.borrow().as_ref() {
            return calls.get(call).cloned();
        }
        let near = NEAR.iter().find_map(|reach| {
            let start = self.offset.saturating_sub(*reach);
            named_call(self.source, self.handle, start..self.offset, call)
        });
        near.or_else(|| {
            let calls = self.source.root().failures.ok(all_calls(self.source));
            let calls = calls.unwrap_or_default();
            let found = calls.get(call).cloned();
            self.calls.all.replace(Some(calls));
            found
        })
    }
}

fn in_session(files: &SessionFiles, wanted: &str) -> bool {
    files.id.as_str().starts_with(wanted) || files.id.matches_name(wanted)
}

/// Distances before a result in which its call is searched before the whole log is read: mostly it
/// is directly before it.
const NEAR: [u64; 3] = [4 << 10, 32 << 10, 256 << 10];

/// Returns the tool of a call in a range of a log.
fn named_call(
    source: &SearchSource<'_>,
    handle: &OpenLog,
    within: Range<u64>,
    call: &str,
) -> Option<String> {
    if call.is_empty() {
        return None;
    }
    let start = within.start;
    let mut bytes = vec![0; usize::try_from(within.end - start).ok()?];
    let read = handle.read_exact_at(&mut bytes, start);
    let failures = &source.root().failures;
    failures.ok_io(&source.file.path, read)?;
    let mut end = bytes.len();
    while let Some(at) = memmem::rfind(bytes.get(..end)?, call.as_bytes()) {
        // The start of the line may be before the range.
        let head = memchr::memrchr(b'\n', bytes.get(..at)?).map(|at| at + 1);
        let from = head.or((start == 0).then_some(0))?;
        let rest = bytes.get(at..)?;
        let to = at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = bytes.get(from..to)?;
        let calls = calls_in(source, start + from as u64, line);
        if let Some((_, name)) = calls.into_iter().find(|(id, _)| id == call) {
            return Some(name);
        }
        end = from;
    }
    None
}

/// Returns the tools of all calls of a log.
fn all_calls(source: &SearchSource<'_>) -> Result<HashMap<String, String>> {
    let mut calls = HashMap::new();
    each_record(source.root(), source.file, |record| {
        calls.extend(calls_in(source, record.span.offset, record.bytes));
        Ok(true)
    })?;
    Ok(calls)
}

/// Returns the tool calls of a record: ids and tool names.
fn calls_in(source: &SearchSource<'_>, offset: u64, bytes: &[u8]) -> Vec<(String, String)> {
    let span = Span {
        offset,
        len: bytes.len() as u64,
        line: 0,
    };
    let mut sink = Decoded::default();
    let mut decoder = source.root().decoder(source.file);
    decoder.decode(
        &Record {
            span,
            bytes,
            terminated: true,
            oversize: false,
        },
        &mut sink,
    );
    let blocks = sink.items.into_iter().filter_map(|entry| match entry.body {
        Body::Message(message) => Some(message.blocks),
        _ => None,
    });
    let calls = blocks.flatten().filter_map(|block| match block {
        Block::ToolUse { id, name, .. } => Some((id, name)),
        _ => None,
    });
    calls.collect()
}
