//! Searches messages.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::Service;
use crate::error::Result;
use crate::search::{Dialect, Filter, Hit, Order, Query, SearchResults, read_entry};
use crate::store::{Inventory, project_spellings};
use crate::view::{HitJson, HitNames};
use annals_layouts::model::Entry;

/// Question for hits.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The query, as typed: words, phrases and conditions.
    pub query: String,
    /// Whether the query is one regular expression.
    pub regex: bool,
    /// Project: a path, a name or an id. `.` is the current directory.
    pub project: Option<String>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Latest time.
    pub until: Option<Timestamp>,
    /// Order of the hits; by relevance, unless the query has only conditions.
    pub order: Option<Order>,
    /// Number of hits to skip.
    pub offset: usize,
    /// Maximum number of hits.
    pub limit: usize,
    /// Number of messages to include before and after each hit.
    pub context: usize,
    /// Ids of sessions to leave out.
    pub excluded_sessions: Vec<String>,
    /// Leave out calls and results of annals' own tools.
    pub without_echoes: bool,
    /// Stop when so many hits are found. Logs are searched in the order of their last write, each from its
    /// end.
    pub first: Option<usize>,
}

impl SearchRequest {
    /// Asks for the 50 best hits of a query.
    pub fn new(query: impl Into<String>) -> Self {
        SearchRequest {
            query: query.into(),
            regex: false,
            project: None,
            since: None,
            until: None,
            order: None,
            offset: 0,
            limit: 50,
            context: 0,
            excluded_sessions: Vec::new(),
            without_echoes: false,
            first: None,
        }
    }
}

/// Hits of a search. Serialises as `annals search --json` prints them, with `at_least`.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Found {
    /// The hits, in the requested order.
    pub hits: Vec<HitRow>,
    /// Number of matching records.
    pub total: u64,
    /// Number of sessions with matches.
    pub sessions: u64,
    /// Whether more records match than are in `hits`.
    pub truncated: bool,
    /// Whether the totals are lower bounds, because the search ended early.
    pub at_least: bool,
}

/// A hit with its name. Serialises as [`HitJson`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HitRow {
    /// The hit.
    pub hit: Hit,
    /// Its name: `SESSION@MESSAGE`, `SESSION@:LINE` or `FILE:LINE`.
    pub id: String,
    /// Title of its session.
    pub title: Option<String>,
    /// Whether its file exists only in the archive.
    pub archived: bool,
    has_context: bool,
}

impl Serialize for HitRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let row = HitJson::new(&self.hit, self.id.clone(), self.archived);
        let row = row.with_title(self.title.as_deref());
        let row = match self.has_context {
            true => row.with_context(),
            false => row,
        };
        row.serialize(serializer)
    }
}

impl Service {
    /// Searches messages, thinking, tool calls and their results. Ends early when `stop` returns
    /// true.
    pub fn search(
        &self,
        request: &SearchRequest,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Found> {
        self.search_in(&self.inventory(), request, stop)
    }

    /// Like [`Self::search`], with an inventory of all sessions.
    pub fn search_in(
        &self,
        inventory: &Inventory,
        request: &SearchRequest,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Found> {
        let query = self.query(request)?;
        let found = self.store.search_until(inventory, &query, stop)?;
        Ok(self.named(inventory, request, found))
    }

    /// Like [`Self::search_in`], but searches the logs that were written to last first, each from its end,
    /// and passes hits to `on_hits` as they are found: the first ones after milliseconds, whatever the
    /// query is. The answer has all of them, in the requested order, with names and titles.
    ///
    /// Set [`SearchRequest::first`] to end after so many hits; else all hits are found. Set the limit to
    /// the same number to have all of them in the answer.
    pub fn search_each(
        &self,
        inventory: &Inventory,
        request: &SearchRequest,
        stop: &(dyn Fn() -> bool + Sync),
        on_hits: &mut dyn FnMut(&[Hit]),
    ) -> Result<Found> {
        let query = self.query(request)?;
        let found = self.store.search_each(inventory, &query, stop, on_hits)?;
        Ok(self.named(inventory, request, found))
    }

    /// Returns the entry of a hit; `None` if it is not there any more.
    pub fn entry_of(&self, inventory: &Inventory, hit: &Hit) -> Result<Option<Entry>> {
        read_entry(inventory, hit)
    }

    /// Adds names and titles to the results of a request.
    fn named(
        &self,
        inventory: &Inventory,
        request: &SearchRequest,
        mut found: SearchResults,
    ) -> Found {
        for error in found.errors.drain(..) {
            self.store.failures().report(error);
        }
        self.report_index_warnings();
        let skipped = request.offset.min(found.hits.len());
        found.hits.drain(..skipped);
        let SearchResults {
            hits,
            total,
            sessions,
            truncated,
            at_least,
            ..
        } = found;
        let names = HitNames::new(inventory, &hits);
        let indexes = names.session_indexes(&hits);
        let labels = self.labels(inventory, &indexes);
        let row = |hit: &Hit| {
            let session = names.session_index(hit);
            let label = session.and_then(|at| indexes.binary_search(&at).ok());
            let label = label.and_then(|at| labels.get(at)?.as_ref());
            HitRow {
                id: names.full_name(hit),
                title: label.and_then(|label| label.title.clone()),
                archived: names.is_archived(hit),
                has_context: request.context > 0,
                hit: hit.clone(),
            }
        };
        Found {
            hits: hits.iter().map(row).collect(),
            total,
            sessions,
            truncated,
            at_least,
        }
    }

    /// Returns whether the last search read text that [`update_text_index`](Self::update_text_index) would
    /// index.
    pub fn needs_text_index(&self) -> bool {
        let index = self.store.has_index().then(|| self.store.index());
        index.is_some_and(|index| index.is_ok_and(|index| index.needs_text_update()))
    }

    /// Indexes text that was written since, so that later searches read less. Other threads are answered
    /// meanwhile. Without an index, does nothing.
    pub fn update_text_index(&self, stop: &(dyn Fn() -> bool + Sync)) {
        let inventory = self.inventory();
        if !self.store.has_index() {
            return;
        }
        if let Ok(index) = self.store.index() {
            let index = index.with_own_connection();
            let failures = self.store.failures();
            failures.ok(index.update_text(&inventory, &|_, _| (), stop));
            failures.ok(index.update_sessions(&inventory, &|_, _| ()));
        }
    }

    fn query(&self, request: &SearchRequest) -> Result<Query> {
        let dialect = Dialect::new(self.typed_now()).regex(request.regex);
        let mut query = match request.query.trim() {
            "" => Query::all(),
            text => Query::parse(text, &dialect)?,
        };
        if let Some(project) = &request.project {
            let names = project_spellings(project, self.shell_dir.as_deref(), [].iter());
            query = query.and_any(names.into_iter().map(Filter::Project).collect());
        }
        let times = [
            request.since.map(Filter::Since),
            request.until.map(Filter::Until),
        ];
        query = times.into_iter().flatten().fold(query, Query::and);
        let excluded = request.excluded_sessions.iter().cloned();
        query = excluded.map(Filter::Session).fold(query, Query::and_not);
        if request.without_echoes {
            query = query.without_echoes();
        }
        if let Some(hits) = request.first {
            query = query.first(hits);
        }
        if let Some(order) = request.order {
            query = query.order(order);
        }
        let limit = request.limit.saturating_add(request.offset);
        Ok(query.limit(limit).context(request.context))
    }
}
