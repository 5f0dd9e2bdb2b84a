//! Search with the full-text index.

use hashbrown::HashMap;
use std::cmp::Reverse;

use rusqlite::Connection;

use crate::error::Result;
use crate::search::tokenizer::{Lookup, lookups};
use crate::search::{
    HitsFn, Matcher, Query, ScanPlan, SearchResults, SearchRun, SearchSource, Selection, StopFn,
    Term, TermKind,
};
use crate::store::Inventory;
use annals_layouts::model::Span;

use super::IndexDatabase;
use super::database::with_small_cache;
use super::labels::stored_summaries;
use super::segment::Documents;
use super::text_files::{IndexedTexts, RootTexts};
use super::text_store::{self, Segment};

/// Words of up to this many bytes occur in most records.
const SHORT: usize = 3;

/// Up to this many candidates, checking the records is faster than looking up a common word.
const FEW: u32 = 512;

/// Up to this many spans of a file are read one by one.
const PIECES: usize = 16;

/// Up to this many candidates, a bounded search locates all of them at once.
const LOCATED: u32 = 2_048;

/// Maximum number of blocks that a bounded search reads of a segment for one word. A prefix that takes
/// more is in most records.
const MAX_BLOCKS: usize = 256;

/// Spans of records that may match, by file id.
type Candidates = HashMap<i64, Vec<Span>>;

impl IndexDatabase {
    /// Searches all sessions of an inventory.
    ///
    /// Text appended to logs since [`index_text`](Self::index_text) is scanned; all logs are
    /// scanned if the query has no words. Ends early when `stop` returns true. With `give`, or if the
    /// query has a bound, the newest logs are searched first.
    pub(super) fn search(
        &mut self,
        inventory: &Inventory,
        query: &Query,
        stop: StopFn<'_>,
        give: Option<HitsFn<'_>>,
    ) -> Result<SearchResults> {
        let mut run = SearchRun::new(inventory, query)?;
        self.text_outdated = true;
        if give.is_some() || query.first.is_some() {
            return Ok(self.search_newest(&mut run, inventory, stop, give));
        }
        let plans = self.plans(&run, inventory).unwrap_or_else(|error| {
            self.recreate(&error);
            None
        });
        let all = || run.sources.iter().map(|_| ScanPlan::ALL).collect();
        let plans: Vec<ScanPlan> = plans.unwrap_or_else(all);
        let sessions = run.sessions_to_look_up(plans.iter().enumerate());
        run.add_summaries(self.summaries(inventory, sessions.into_iter()));
        Ok(run.run(plans, stop))
    }

    /// Searches the newest logs first. Candidates are located as the search reaches their logs.
    fn search_newest(
        &mut self,
        run: &mut SearchRun<'_>,
        inventory: &Inventory,
        stop: StopFn<'_>,
        mut give: Option<HitsFn<'_>>,
    ) -> SearchResults {
        let mut failure = None;
        let outdated = &mut self.text_outdated;
        let results = with_small_cache(&mut self.database, |database| {
            // One snapshot of the database, unaffected by other processes.
            let database = database.transaction()?;
            let texts = load_texts(&database, inventory, outdated)?;
            let candidates = LazyCandidates::new(&database, &run.matcher)?;
            let mut select = |run: &SearchRun<'_>, sources: &[usize]| {
                let selected = match failure {
                    None => select(&database, run, inventory, &texts, &candidates, sources),
                    Some(_) => Ok(Selection::all(sources)),
                };
                selected.unwrap_or_else(|error| {
                    failure = Some(error);
                    Selection::all(sources)
                })
            };
            Ok(run.run_newest(&mut select, stop, give.take()))
        });
        if let Some(error) = failure {
            self.recreate(&error);
        }
        results.unwrap_or_else(|error| {
            self.recreate(&error);
            run.run_newest(&mut |_, sources| Selection::all(sources), stop, give)
        })
    }

    /// Returns true if the last search found text that [`index_text`](Self::index_text) would add.
    pub(super) fn needs_text_update(&self) -> bool {
        self.text_outdated
    }

    /// Returns the parts of each source to scan; `None` to scan everything.
    fn plans(
        &mut self,
        run: &SearchRun<'_>,
        inventory: &Inventory,
    ) -> rusqlite::Result<Option<Vec<ScanPlan>>> {
        if !can_use_index(&run.matcher) {
            return Ok(None);
        }
        let outdated = &mut self.text_outdated;
        with_small_cache(&mut self.database, |database| {
            plan(database, run, inventory, outdated)
        })
    }
}

/// Returns true if the index can narrow the search.
fn can_use_index(matcher: &Matcher) -> bool {
    let narrowed = matcher.narrow(
        &mut |term| lookups_of_term(term).map(|_| ()),
        &mut |(), ()| (),
        &mut |(), ()| (),
    );
    narrowed.is_some()
}

/// Computes the parts of each source to scan. Sets `outdated` if not all text is indexed.
fn plan(
    database: &mut Connection,
    run: &SearchRun<'_>,
    inventory: &Inventory,
    outdated: &mut bool,
) -> rusqlite::Result<Option<Vec<ScanPlan>>> {
    // One snapshot of the database, unaffected by other processes.
    let database = database.transaction()?;
    let texts = load_texts(&database, inventory, outdated)?;
    let found = narrow(&database, &run.matcher, usize::MAX)?;
    let Some(found) = found else { return Ok(None) };
    let found = locate(&database, &found)?;
    Ok(Some(plans(run, &texts, &found)))
}

/// Returns how much of each file is indexed. Sets `outdated` if not all text is.
fn load_texts<'a>(
    database: &Connection,
    inventory: &'a Inventory,
    outdated: &mut bool,
) -> rusqlite::Result<IndexedTexts<'a>> {
    let mut texts = IndexedTexts::default();
    *outdated = false;
    for root in RootTexts::from_inventory(inventory) {
        *outdated |= !texts.load(database, &root)?;
    }
    Ok(texts)
}

/// Returns the documents of each segment that may match; `None` if the index cannot narrow the query, or
/// only by reading more than `max_blocks` blocks for a word.
fn narrow(
    database: &Connection,
    matcher: &Matcher,
    max_blocks: usize,
) -> rusqlite::Result<Option<Vec<(Segment, Documents)>>> {
    let mut narrowed = Vec::new();
    for segment in text_store::segments(database)? {
        let mut failure = None;
        let mut look_up = |term: &Term| -> Option<Documents> {
            let mut all: Option<Documents> = None;
            for lookup in lookups_of_term(term)? {
                // Short words occur in most records. With few candidates left, looking them up
                // costs more than it saves, because candidates are checked anyway.
                let enough = if lookup.token().len() <= SHORT {
                    FEW
                } else {
                    0
                };
                if all.as_ref().is_some_and(|all| all.count() <= enough) {
                    break;
                }
                match text_store::look_up(database, segment, lookup, max_blocks) {
                    Err(error) => failure = Some(error),
                    Ok(None) => {}
                    Ok(Some(found)) => {
                        all = Some(match all {
                            Some(all) => all.both(&found),
                            None => found,
                        });
                    }
                }
            }
            all
        };
        let found = matcher.narrow(
            &mut look_up,
            &mut |a: Documents, b| a.both(&b),
            &mut |a: Documents, b| a.either(&b),
        );
        if let Some(error) = failure {
            return Err(error);
        }
        let Some(found) = found else {
            return Ok(None);
        };
        narrowed.push((segment, found));
    }
    Ok(Some(narrowed))
}

/// Returns the records of documents, by file id.
fn locate(
    database: &Connection,
    narrowed: &[(Segment, Documents)],
) -> rusqlite::Result<Candidates> {
    let mut candidates = Candidates::new();
    for (segment, documents) in narrowed {
        for (text, mut spans) in text_store::document_locations(database, segment.0, documents)? {
            candidates.entry(text).or_default().append(&mut spans);
        }
    }
    Ok(candidates)
}

/// Records that may match, located when they are needed.
enum LazyCandidates {
    /// All records.
    All,
    /// Few records, located.
    Located(Candidates),
    /// Many documents by segment, and the ids of the ranges that contain them by file id.
    Ranges(HashMap<i64, Documents>, HashMap<i64, Vec<i64>>),
}

impl LazyCandidates {
    fn new(database: &Connection, matcher: &Matcher) -> rusqlite::Result<Self> {
        if !can_use_index(matcher) {
            return Ok(LazyCandidates::All);
        }
        let Some(narrowed) = narrow(database, matcher, MAX_BLOCKS)? else {
            return Ok(LazyCandidates::All);
        };
        let count: u32 = narrowed.iter().map(|(_, found)| found.count()).sum();
        if count <= LOCATED {
            return Ok(LazyCandidates::Located(locate(database, &narrowed)?));
        }
        let mut ranges: HashMap<i64, Vec<i64>> = HashMap::new();
        for (segment, documents) in &narrowed {
            for (text, id) in text_store::ranges_with(database, *segment, documents)? {
                ranges.entry(text).or_default().push(id);
            }
        }
        let documents = narrowed.into_iter();
        let documents = documents.map(|((segment, _), documents)| (segment, documents));
        Ok(LazyCandidates::Ranges(documents.collect(), ranges))
    }

    /// Returns the candidates of a file; `None` for all records.
    fn spans(&self, database: &Connection, text: i64) -> rusqlite::Result<Option<Vec<Span>>> {
        match self {
            LazyCandidates::All => Ok(None),
            LazyCandidates::Located(found) => {
                Ok(Some(found.get(&text).cloned().unwrap_or_default()))
            }
            LazyCandidates::Ranges(documents, ranges) => {
                let mut spans = Vec::new();
                for id in ranges.get(&text).into_iter().flatten() {
                    if let Some(documents) = documents.get(&text_store::segment_of(*id)) {
                        spans.append(&mut text_store::spans_in_range(database, *id, documents)?);
                    }
                }
                Ok(Some(spans))
            }
        }
    }
}

/// Returns what to scan of some sources.
fn select(
    database: &Connection,
    run: &SearchRun<'_>,
    inventory: &Inventory,
    texts: &IndexedTexts<'_>,
    candidates: &LazyCandidates,
    sources: &[usize],
) -> rusqlite::Result<Selection> {
    let mut plans = Vec::with_capacity(sources.len());
    for number in sources {
        let Some(source) = run.sources.get(*number) else {
            plans.push(ScanPlan::ALL);
            continue;
        };
        let (text, from) = texts.get(source.file);
        let spans = match text {
            Some(text) => candidates.spans(database, text)?,
            None => None,
        };
        plans.push(match spans {
            Some(spans) => plan_source(source, spans, from),
            None => ScanPlan::ALL,
        });
    }
    let sessions = run.sessions_to_look_up(sources.iter().copied().zip(&plans));
    let summaries = stored_summaries(database, inventory, sessions.into_iter())?;
    Ok(Selection { plans, summaries })
}

/// Returns the parts to scan in each source.
fn plans(run: &SearchRun<'_>, texts: &IndexedTexts<'_>, candidates: &Candidates) -> Vec<ScanPlan> {
    let plans = run.sources.iter().map(|source| {
        let (text, from) = texts.get(source.file);
        let spans = text.and_then(|text| candidates.get(&text));
        let spans = spans.into_iter().flatten();
        let plan = plan_source(source, spans.copied(), from);
        // Reading most of a file in many pieces costs more than reading it whole.
        let bytes: u64 = plan.spans.iter().map(|span| span.len).sum();
        match plan.spans.len() > PIECES && bytes > from / 2 {
            true => ScanPlan::ALL,
            false => plan,
        }
    });
    plans.collect()
}

/// Returns the parts of a source to scan: candidates, and everything from an offset on.
fn plan_source(
    source: &SearchSource<'_>,
    candidates: impl IntoIterator<Item = Span>,
    from: u64,
) -> ScanPlan {
    // Everything beyond `from` is scanned anyway.
    let spans = candidates.into_iter();
    let spans = spans.filter(|span| span.end() <= from && source.owns(span.offset));
    let mut spans: Vec<Span> = spans.collect();
    spans.sort_unstable();
    spans.dedup();
    ScanPlan { spans, from }
}

/// Returns the index lookups that a matching text must satisfy; `None` if there are none.
fn lookups_of_term(term: &Term) -> Option<Vec<Lookup>> {
    let TermKind::Literal { open_start, .. } = term.kind else {
        return None;
    };
    let mut found = Vec::new();
    for (number, word) in term.text.split_whitespace().enumerate() {
        found.append(&mut lookups(word, number > 0 || !open_start));
    }
    // The longest words tend to be the rarest.
    found.sort_by_key(|lookup| Reverse(lookup.token().len()));
    (!found.is_empty()).then_some(found)
}
