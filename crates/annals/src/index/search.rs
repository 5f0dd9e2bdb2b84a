//! Search with the full-text index.

use hashbrown::HashMap;
use std::cmp::Reverse;

use rusqlite::Connection;

use crate::error::Result;
use crate::search::tokenizer::{Lookup, lookups};
use crate::search::{Matcher, Query, ScanPlan, SearchResults, SearchRun, StopFn, Term, TermKind};
use crate::store::Inventory;
use annals_layouts::model::Span;

use super::IndexDatabase;
use super::database::with_small_cache;
use super::segment::Documents;
use super::text_files::{IndexedTexts, RootTexts};
use super::text_store;

/// Words of up to this many bytes occur in most records.
const SHORT: usize = 3;

/// Up to this many candidates, checking the records is faster than looking up a common word.
const FEW: u32 = 512;

/// Up to this many spans of a file are read one by one.
const PIECES: usize = 16;

/// Spans of records that may match, by file id.
type Candidates = HashMap<i64, Vec<Span>>;

impl IndexDatabase {
    /// Searches all sessions of an inventory.
    ///
    /// Text appended to logs since [`index_text`](Self::index_text) is scanned; all logs are
    /// scanned if the query has no words. Ends early when `stop` returns true.
    pub(super) fn search(
        &mut self,
        inventory: &Inventory,
        query: &Query,
        stop: StopFn<'_>,
    ) -> Result<SearchResults> {
        let mut run = SearchRun::new(inventory, query)?;
        self.text_outdated = true;
        let plans = self.plans(&run, inventory).unwrap_or_else(|error| {
            self.recreate(&error);
            None
        });
        let all = || run.sources.iter().map(|_| ScanPlan::ALL).collect();
        let plans = plans.unwrap_or_else(all);
        let sessions = run.sessions_to_look_up(&plans);
        run.set_summaries(self.summaries(inventory, sessions.into_iter()));
        Ok(run.run(plans, stop))
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
    let mut texts = IndexedTexts::default();
    *outdated = false;
    for root in RootTexts::from_inventory(inventory) {
        *outdated |= !texts.load(&database, &root)?;
    }
    let found = candidates(&database, &run.matcher)?;
    Ok(found.map(|found| plans(run, &texts, &found)))
}

/// Returns the records that may match, by file id; `None` if the index cannot narrow the query.
fn candidates(database: &Connection, matcher: &Matcher) -> rusqlite::Result<Option<Candidates>> {
    let mut candidates = Candidates::new();
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
                match text_store::look_up(database, segment, lookup) {
                    Err(error) => failure = Some(error),
                    Ok(found) => {
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
        for (text, mut spans) in text_store::document_locations(database, segment.0, &found)? {
            candidates.entry(text).or_default().append(&mut spans);
        }
    }
    Ok(Some(candidates))
}

/// Returns the parts to scan in each source.
fn plans(run: &SearchRun<'_>, texts: &IndexedTexts<'_>, candidates: &Candidates) -> Vec<ScanPlan> {
    let plans = run.sources.iter().map(|source| {
        let (text, from) = texts.get(source.file);
        let spans = text.and_then(|text| candidates.get(&text));
        let spans = spans.into_iter().flatten();
        // Everything beyond `from` is scanned anyway.
        let spans = spans.filter(|span| span.end() <= from && source.owns(span.offset));
        let mut spans: Vec<Span> = spans.copied().collect();
        spans.sort_unstable();
        spans.dedup();
        // Reading most of a file in many pieces costs more than reading it whole.
        let bytes: u64 = spans.iter().map(|span| span.len).sum();
        match spans.len() > PIECES && bytes > from / 2 {
            true => ScanPlan::ALL,
            false => ScanPlan { spans, from },
        }
    });
    plans.collect()
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
    crate::sort::by_key(&mut found, |lookup| Reverse(lookup.token().len()));
    (!found.is_empty()).then_some(found)
}
