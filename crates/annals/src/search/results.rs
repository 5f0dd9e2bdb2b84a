//! Ranks and loads the hits of a search.
//!
//! Relevance depends on the hits alone: where terms occur, how often, and how rare they are among
//! the hits. So it is the same with and without the index.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read as _;
use std::ops::Range;
use std::path::PathBuf;

use jiff::Timestamp;

use super::query::{Order, TextPart};
use super::scan::{MatchedEntry, SearchRun, SearchSource};
use super::searchable_text::{self, text_pieces};
use super::snippet::Snippet;
use crate::error::{Error, Result};
use crate::store::{
    Inventory, RootFile, record_from_tail_line, strip_line_ending, unnumbered_record,
};
use annals_jsonl::Error as FileError;
use annals_jsonl::{OpenLog, RangeReader, Scanner, TailReader, read_span};
use annals_layouts::layout::{Decoded, Record};
use annals_layouts::model::{AgentId, Body, Entry, EntryId, Role, SessionId, Span};

/// Record that matches a query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// Name of the layout.
    pub layout: &'static str,
    /// Session of the record.
    pub session: SessionId,
    /// Sub-agent of the record.
    pub agent: Option<AgentId>,
    /// Id of the entry.
    pub entry: Option<EntryId>,
    /// File that contains it.
    pub file: PathBuf,
    /// Byte offset in the file.
    pub offset: u64,
    /// Line number, from 1.
    pub line: u64,
    /// Role; `None` if it is not a message.
    pub role: Option<Role>,
    /// Model of the message.
    pub model: Option<String>,
    /// Time of the entry.
    pub time: Option<Timestamp>,
    /// Working directory of its writer.
    pub cwd: Option<String>,
    /// Kind of the text that the snippet is from.
    pub part: Option<TextPart>,
    /// Tool called there.
    pub tool: Option<String>,
    /// Text around the matches, on one line.
    pub snippet: String,
    /// Byte ranges of the matches in the snippet.
    pub highlights: Vec<Range<usize>>,
    /// Relevance.
    pub(crate) score: f64,
    /// Messages before it, oldest first, as many as requested.
    pub before: Vec<Entry>,
    /// Messages after it.
    pub after: Vec<Entry>,
}

/// Results of a search.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SearchResults {
    /// Hits, in the requested order.
    pub hits: Vec<Hit>,
    /// Number of matching records.
    pub total: u64,
    /// Number of sessions with matches.
    pub sessions: u64,
    /// True if more records match than are in `hits`.
    pub truncated: bool,
    /// True if the search ended early, so that the totals are lower bounds.
    pub at_least: bool,
    /// Errors of files that could not be searched.
    pub errors: Vec<Error>,
}

/// Reads the hits of matches.
#[derive(Default)]
pub(super) struct HitLoader(OpenLogs);

impl HitLoader {
    /// Returns the hits of matches, and keeps them there.
    pub(super) fn load_all(
        &mut self,
        run: &SearchRun<'_>,
        findings: &mut [MatchedEntry],
        errors: &mut Vec<Error>,
    ) -> Vec<Hit> {
        let mut hits = Vec::with_capacity(findings.len());
        let mut loaded = Vec::with_capacity(findings.len());
        let mut uncounted: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for finding in findings {
            let source = finding.source;
            match hit(run, &mut self.0, finding, 0.0) {
                Ok(Some(hit)) => {
                    if hit.line == 0 {
                        uncounted.entry(source).or_default().push(hits.len());
                    }
                    hits.push(hit);
                    loaded.push(finding);
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        for (source, numbers) in uncounted {
            let source = run.sources.get(source);
            let counted = source.map(|source| count_lines(source, numbers, &mut hits));
            errors.extend(counted.and_then(Result::err));
        }
        for (finding, hit) in loaded.into_iter().zip(&hits) {
            finding.hit = Some(Box::new(hit.clone()));
        }
        hits
    }
}

/// Ranks the matches, and loads the first ones.
pub(super) fn rank_and_load(
    run: &SearchRun<'_>,
    findings: Vec<MatchedEntry>,
    troubles: Vec<Error>,
) -> SearchResults {
    let sessions: HashSet<_> = findings
        .iter()
        .filter_map(|finding| run.sources.get(finding.source))
        .map(|source| source.session)
        .collect();
    let mut found = SearchResults {
        total: findings.len() as u64,
        sessions: sessions.len() as u64,
        truncated: findings.len() > run.query.limit,
        errors: troubles,
        hits: Vec::new(),
        at_least: false,
    };
    let mut uncounted: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut opened = OpenLogs::default();
    for (score, mut finding) in ranked(run, findings) {
        let source = finding.source;
        match hit(run, &mut opened, &mut finding, score) {
            Ok(Some(hit)) => {
                if hit.line == 0 {
                    let hits = uncounted.entry(source).or_default();
                    hits.push(found.hits.len());
                }
                found.hits.push(hit);
            }
            Ok(None) => {}
            Err(error) => found.errors.push(error),
        }
    }
    for (source, hits) in uncounted {
        let source = run.sources.get(source);
        let counted = source.map(|source| count_lines(source, hits, &mut found.hits));
        found.errors.extend(counted.and_then(Result::err));
    }
    found
}

/// Returns the matches within the limit, sorted, with their scores.
fn ranked(run: &SearchRun<'_>, findings: Vec<MatchedEntry>) -> Vec<(f64, MatchedEntry)> {
    let terms = findings.first().map_or(0, |finding| finding.counts.len());
    let mut having = vec![0u64; terms];
    for finding in &findings {
        let counts = having.iter_mut().zip(&finding.counts);
        counts.for_each(|(sum, count)| *sum += u64::from(*count > 0.0));
    }
    // A term that few hits have is more significant.
    let all = findings.len() as f64;
    let rarity: Vec<f64> = having
        .iter()
        .map(|having| (1.0 + all / (*having as f64).max(1.0)).ln())
        .collect();
    let score = |finding: &MatchedEntry| -> f64 {
        let counts = finding.counts.iter().zip(&rarity);
        // `sum` of an empty iterator would return negative zero.
        counts
            .map(|(count, rarity)| rarity * f64::from(*count) / (f64::from(*count) + 2.0))
            .fold(0.0, |sum, one| sum + one)
    };
    let mut scored: Vec<(f64, MatchedEntry)> = findings
        .into_iter()
        .map(|finding| (score(&finding), finding))
        .collect();
    let newest = |a: &MatchedEntry, b: &MatchedEntry| b.time.cmp(&a.time);
    // Entries without a time are last in both orders.
    let oldest = |a: &MatchedEntry, b: &MatchedEntry| {
        let key = |finding: &MatchedEntry| (finding.time.is_none(), finding.time);
        key(a).cmp(&key(b))
    };
    let place = |finding: &MatchedEntry| (finding.source, finding.record.offset, finding.entry);
    let order = |(x, a): &(f64, MatchedEntry), (y, b): &(f64, MatchedEntry)| {
        let first = match run.query.order {
            Order::Relevance => y.total_cmp(x).then_with(|| newest(a, b)),
            Order::Newest => newest(a, b),
            Order::Oldest => oldest(a, b),
        };
        first.then_with(|| place(a).cmp(&place(b)))
    };
    let limit = run.query.limit;
    if scored.len() > limit && limit > 0 {
        scored.select_nth_unstable_by(limit - 1, order);
    }
    scored.truncate(limit);
    scored.sort_unstable_by(order);
    scored
}

/// Cache of open files, by source number. Small, because many hits are in the same file.
#[derive(Default)]
struct OpenLogs(HashMap<usize, OpenLog>);

impl OpenLogs {
    const MOST: usize = 64;

    fn open(&mut self, number: usize, source: &SearchSource<'_>) -> Result<OpenLog> {
        if let Some(handle) = self.0.get(&number) {
            return Ok(handle.clone());
        }
        if self.0.len() >= OpenLogs::MOST {
            self.0.clear();
        }
        let handle = source.open()?;
        self.0.insert(number, handle.clone());
        Ok(handle)
    }
}

fn hit(
    run: &SearchRun<'_>,
    opened: &mut OpenLogs,
    finding: &mut MatchedEntry,
    score: f64,
) -> Result<Option<Hit>> {
    if let Some(hit) = finding.hit.take() {
        return Ok(Some(Hit { score, ..*hit }));
    }
    let Some(source) = run.sources.get(finding.source) else {
        return Ok(None);
    };
    let handle = opened.open(finding.source, source)?;
    let span = finding.record;
    let bytes = read_span(&handle, span.offset, span.len)
        .map_err(|error| Error::io("read", &source.file.path, error))?;
    let bytes = strip_line_ending(bytes, span);
    let record = Record {
        span,
        bytes: &bytes,
        terminated: true,
        oversize: false,
    };
    let mut decoder = source.root().decoder(source.file);
    let mut sink = Decoded::default();
    decoder.decode(&record, &mut sink);
    let beside = match sink.items.len() {
        1 => searchable_text::extra_text(decoder.as_mut(), &record),
        _ => Vec::new(),
    };
    let Some(entry) = sink.items.into_iter().nth(finding.entry) else {
        return Err(Error::File(FileError::Changed {
            path: source.file.path.clone(),
        }));
    };
    let mut texts = Vec::new();
    text_pieces(&entry, &beside, &mut |piece| texts.push(piece));
    let snippet = run.matcher.snippet(&texts);
    let (before, after) = match run.query.context {
        0 => (Vec::new(), Vec::new()),
        around => (
            messages_before(source, &entry, span, around)?,
            messages_after(source, &entry, span, around)?,
        ),
    };
    Ok(Some(Hit {
        score,
        before,
        after,
        ..new_hit(source, &entry, span, snippet)
    }))
}

/// Reads the entry of a hit. Returns `None` if it is not there any more.
pub(crate) fn read_entry(inventory: &Inventory, hit: &Hit) -> Result<Option<Entry>> {
    let sessions = inventory.sessions.iter();
    let sessions = sessions.filter(|files| files.id == hit.session);
    let mut logs = sessions.flat_map(|files| {
        let volumes = files.files().flat_map(RootFile::volumes);
        volumes.map(move |file| (files, file))
    });
    let Some((files, file)) = logs.find(|(_, file)| file.path == hit.file) else {
        return Ok(None);
    };
    let reader = RangeReader::from_offset(file.open()?, hit.offset);
    let mut lines = Scanner::from_offset(reader, hit.offset, 1);
    let line = lines.next();
    let line = line.map_err(|error| Error::io("read", &file.path, error))?;
    let Some(line) = line else { return Ok(None) };
    let mut sink = Decoded::default();
    let mut decoder = files.root.decoder(file);
    decoder.decode(&unnumbered_record(&line), &mut sink);
    let mut entries = sink.items.into_iter();
    Ok(entries.find(|entry| entry.id == hit.entry))
}

/// Creates a hit from an entry, without its context.
pub(super) fn new_hit(
    source: &SearchSource<'_>,
    entry: &Entry,
    record: Span,
    snippet: Snippet,
) -> Hit {
    let message = match &entry.body {
        Body::Message(message) => Some(message),
        _ => None,
    };
    let agent = entry.agent.as_ref();
    let agent = agent.or(source.file.artifact.agent.as_ref());
    Hit {
        layout: source.root().layout.name(),
        session: source.files.id.clone(),
        agent: agent.cloned(),
        file: source.file.path.clone(),
        offset: entry.span.offset,
        line: record.line,
        role: message.map(|message| message.role),
        model: message.and_then(|message| message.model.clone()),
        time: entry.time,
        cwd: entry.context.cwd.clone(),
        part: snippet.part,
        tool: snippet.tool,
        snippet: snippet.text,
        highlights: snippet.at,
        score: 0.0,
        before: Vec::new(),
        after: Vec::new(),
        entry: entry.id.clone(),
    }
}

fn decode(source: &SearchSource<'_>, record: &Record<'_>) -> Vec<Entry> {
    let mut sink = Decoded::default();
    let mut decoder = source.root().decoder(source.file);
    decoder.decode(record, &mut sink);
    sink.items
}

/// Sets the line numbers of some hits in one file.
fn count_lines(source: &SearchSource<'_>, mut wanted: Vec<usize>, hits: &mut [Hit]) -> Result<()> {
    let failed = |error| Error::io("read", &source.file.path, error);
    crate::sort::by_key(&mut wanted, |at| hits.get(*at).map(|hit| hit.offset));
    let mut reader = RangeReader::from_offset(source.open()?, 0);
    let mut buffer = vec![0; 256 << 10];
    let (mut at, mut line) = (0, 1);
    for number in wanted {
        let Some(hit) = hits.get_mut(number) else {
            continue;
        };
        while at < hit.offset {
            let step = usize::try_from(hit.offset - at).unwrap_or(usize::MAX);
            let step = step.min(buffer.len());
            let room = buffer.get_mut(..step).unwrap_or_default();
            reader.read_exact(room).map_err(failed)?;
            line += memchr::memchr_iter(b'\n', room).count() as u64;
            at += step as u64;
        }
        hit.line = line;
    }
    Ok(())
}

/// Returns true if an entry is a message of the same agent and session as another.
fn same_branch(entry: &Entry, with: &Entry) -> bool {
    matches!(entry.body, Body::Message(_))
        && (entry.sidechain, &entry.agent, &entry.session)
            == (with.sidechain, &with.agent, &with.session)
}

fn messages_before(
    source: &SearchSource<'_>,
    entry: &Entry,
    span: Span,
    wanted: usize,
) -> Result<Vec<Entry>> {
    let failed = |error| Error::io("read", &source.file.path, error);
    let reader = RangeReader::from_offset(source.open()?, 0);
    let mut lines = TailReader::ending_at(reader, span.offset);
    let mut found = Vec::new();
    while let Some(line) = lines.prev().map_err(failed)? {
        let record = record_from_tail_line(&line);
        let entries = decode(source, &record).into_iter().rev();
        found.extend(entries.filter(|other| same_branch(other, entry)));
        if found.len() >= wanted {
            break;
        }
    }
    found.truncate(wanted);
    found.reverse();
    Ok(found)
}

fn messages_after(
    source: &SearchSource<'_>,
    entry: &Entry,
    span: Span,
    wanted: usize,
) -> Result<Vec<Entry>> {
    let failed = |error| Error::io("read", &source.file.path, error);
    let reader = RangeReader::from_offset(source.open()?, span.end());
    let mut lines = Scanner::from_offset(reader, span.end(), 1);
    let mut found = Vec::new();
    while let Some(line) = lines.next().map_err(failed)? {
        let record = unnumbered_record(&line);
        let entries = decode(source, &record).into_iter();
        found.extend(entries.filter(|other| same_branch(other, entry)));
        if found.len() >= wanted {
            break;
        }
    }
    found.truncate(wanted);
    Ok(found)
}
