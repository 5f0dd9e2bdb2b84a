//! Search with what the catalogue knows of words.

use std::cmp::Reverse;
use std::collections::HashMap;

use rusqlite::Connection;

use crate::error::Result;
use crate::model::Span;
use crate::search::tokenizer::{Lookup, lookups};
use crate::search::{Matcher, Query, ScanPlan, SearchResults, SearchRun, Term, TermKind};
use crate::store::Inventory;

use super::Index;
use super::coverage::{Coverage, RootTexts};
use super::database::with_small_cache;
use super::segment::Documents;
use super::text_store;

/// A word of so many bytes is in most records.
const SHORT: usize = 3;

/// So many records are looked at sooner than a common word is looked up.
const FEW: u32 = 512;

/// So many pieces of a file are read one by one.
const PIECES: usize = 16;

/// Records that may be what is wanted, by the numbers of their texts.
pub(super) type Candidates = HashMap<i64, Vec<Span>>;

impl Index {
    /// Looks for something in all sessions of an inventory.
    ///
    /// What was added to logs since [`index_text`](Self::index_text) is read, and so is all of them if the
    /// query has no words. The answer is that of [`Store::search`](crate::store::Store::search).
    pub fn search(&mut self, inventory: &Inventory, query: &Query) -> Result<SearchResults> {
        let hunt = SearchRun::new(inventory, query)?;
        self.text_outdated = true;
        let plans = self.plans(&hunt, inventory).unwrap_or_else(|error| {
            self.recreate(&error);
            None
        });
        let all = || hunt.sources.iter().map(|_| ScanPlan::ALL).collect();
        Ok(hunt.run(plans.unwrap_or_else(all)))
    }

    /// Whether there may be more to [`index_text`](Self::index_text) than the last search knew of.
    pub fn needs_text_update(&self) -> bool {
        self.text_outdated
    }

    /// Where looking is worthwhile; `None` if that is everywhere.
    fn plans(
        &mut self,
        hunt: &SearchRun<'_>,
        inventory: &Inventory,
    ) -> rusqlite::Result<Option<Vec<ScanPlan>>> {
        if !can_use_index(&hunt.matcher) {
            return Ok(None);
        }
        let behind = &mut self.text_outdated;
        with_small_cache(&mut self.database, |database| {
            plan(database, hunt, inventory, behind)
        })
    }
}

/// Whether an index can tell anything about what is wanted.
pub(super) fn can_use_index(matcher: &Matcher) -> bool {
    let narrowed = matcher.narrow(
        &mut |term| wanted(term).map(|_| ()),
        &mut |(), ()| (),
        &mut |(), ()| (),
    );
    narrowed.is_some()
}

/// Where looking is worthwhile, by what stands in the catalogue; `behind` tells whether there is more to
/// learn.
fn plan(
    database: &mut Connection,
    hunt: &SearchRun<'_>,
    inventory: &Inventory,
    behind: &mut bool,
) -> rusqlite::Result<Option<Vec<ScanPlan>>> {
    // One state of the database, whatever others do meanwhile.
    let database = database.transaction()?;
    let mut covered = Coverage::default();
    let mut known = true;
    for texts in RootTexts::from_inventory(inventory) {
        known &= covered.add(&database, &texts)?;
    }
    *behind = !known;
    let Some(worth) = candidates(&database, &hunt.matcher)? else {
        return Ok(None);
    };
    for text in worth.keys() {
        covered.name(&database, *text)?;
    }
    Ok(Some(plans(hunt, &covered, &worth)))
}

/// The records that may be what is wanted, by the numbers of their texts; `None` if that cannot be told.
pub(super) fn candidates(
    database: &Connection,
    matcher: &Matcher,
) -> rusqlite::Result<Option<Candidates>> {
    let mut worth = Candidates::new();
    for segment in text_store::segments(database)? {
        let mut failure = None;
        let mut look_up = |term: &Term| -> Option<Documents> {
            let mut all: Option<Documents> = None;
            for lookup in wanted(term)? {
                // Where little is left, short words, which are in most records, would take more
                // than they save: what is found is looked at anyway.
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
        for (text, mut spans) in text_store::places(database, segment.0, &found)? {
            worth.entry(text).or_default().append(&mut spans);
        }
    }
    Ok(Some(worth))
}

/// What must be looked at in each source.
pub(super) fn plans(hunt: &SearchRun<'_>, covered: &Coverage, worth: &Candidates) -> Vec<ScanPlan> {
    let plans = hunt.sources.iter().map(|source| {
        let (text, from) = covered.get(&source.files.root, source.file);
        let spans = text.and_then(|text| worth.get(&text));
        let spans = spans.into_iter().flatten();
        // What lies beyond is looked at anyway.
        let spans = spans.filter(|span| span.end() <= from && source.owns(span.offset));
        let mut spans: Vec<Span> = spans.copied().collect();
        spans.sort_unstable();
        spans.dedup();
        // To read most of a file in many pieces costs more than to read it.
        let bytes: u64 = spans.iter().map(|span| span.len).sum();
        match spans.len() > PIECES && bytes > from / 2 {
            true => ScanPlan::ALL,
            false => ScanPlan { spans, from },
        }
    });
    plans.collect()
}

/// What an index must have of a text in which a term stands; `None` if it can tell nothing.
fn wanted(term: &Term) -> Option<Vec<Lookup>> {
    let TermKind::Literal { open_start, .. } = term.kind else {
        return None;
    };
    let mut found = Vec::new();
    for (number, word) in term.text.split_whitespace().enumerate() {
        found.append(&mut lookups(word, number > 0 || !open_start));
    }
    // The longest are mostly the rarest.
    found.sort_by_key(|lookup| Reverse(lookup.token().len()));
    (!found.is_empty()).then_some(found)
}
