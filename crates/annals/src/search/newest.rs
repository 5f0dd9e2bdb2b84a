//! Searches the newest logs first, and ends when enough hits are found.
//!
//! Logs are scanned in the order of their last write, and each log from its end. An index only leaves out
//! records that cannot match. So the hits, and whether there may be more, are the same without it.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::results::{self, Hit, HitLoader, SearchResults};
use super::scan::{Findings, ScanLimits, ScanPlan, SearchRun};
use super::{HitsFn, StopFn};
use crate::store::session_summary::SessionSummary;

/// Maximum number of sources that are scanned at once. The first ones are scanned alone, so that their
/// hits are given soon.
const MAX_TOGETHER: usize = 16;

/// What to scan of some sources.
pub(crate) struct Selection {
    /// One plan per source.
    pub(crate) plans: Vec<ScanPlan>,
    /// Summaries of their sessions, for filters.
    pub(crate) summaries: HashMap<usize, SessionSummary>,
}

impl Selection {
    /// Selects everything.
    pub(crate) fn all(sources: &[usize]) -> Self {
        Selection {
            plans: sources.iter().map(|_| ScanPlan::ALL).collect(),
            summaries: HashMap::new(),
        }
    }
}

impl SearchRun<'_> {
    /// Scans what `select` returns for the sources, until the wanted number of hits is found or `stop`
    /// returns true. Passes hits to `give`, if there is one, as they are found.
    pub(crate) fn run_newest(
        &mut self,
        select: &mut dyn FnMut(&SearchRun<'_>, &[usize]) -> Selection,
        stop: StopFn<'_>,
        mut give: Option<HitsFn<'_>>,
    ) -> SearchResults {
        let wanted = self.query.first.unwrap_or(usize::MAX);
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        let written = |number: &usize| self.sources.get(*number).map(|it| it.file.id.mtime_ns);
        order.sort_by_key(|number| Reverse(written(number)));
        let mut rest = order.as_slice();
        let (mut together, mut scanned) = (1, 0);
        let mut found = Findings::default();
        let mut loader = HitLoader::default();
        while found.entries.len() < wanted && !found.stopped && !rest.is_empty() {
            let (group, later) = rest.split_at(together.min(rest.len()));
            rest = later;
            let Selection { plans, summaries } = select(self, group);
            self.add_summaries(summaries);
            let mut work = Vec::with_capacity(group.len());
            for (number, plan) in group.iter().zip(plans) {
                let Some(source) = self.sources.get(*number) else {
                    continue;
                };
                let bytes = plan.bytes(source.file);
                if bytes > 0 && !self.is_excluded(source.session) {
                    work.push((*number, plan, bytes));
                }
            }
            scanned += group.len();
            let known = found.entries.len();
            let limits = ScanLimits {
                newest: Some(wanted - known),
                stop,
            };
            found.stopped |= stop();
            for (_, outcome) in self.scan_all(work, limits) {
                let room = wanted - found.entries.len();
                found.add(outcome, room);
            }
            // As many as are likely to have the rest: what is found beyond it is scanned in vain.
            let most = (together * 2).min(MAX_TOGETHER);
            let missing = wanted - found.entries.len();
            let rate = missing
                .saturating_mul(scanned)
                .checked_div(found.entries.len());
            together = rate.unwrap_or(most).clamp(1, most);
            let fresh = found.entries.get_mut(known..).unwrap_or_default();
            if let Some(give) = give.as_mut().filter(|_| !fresh.is_empty()) {
                let hits: Vec<Hit> = loader.load_all(self, fresh, &mut found.errors);
                give(&hits);
            }
        }
        let ended_early = found.stopped || found.entries.len() >= wanted;
        let mut results = results::rank_and_load(self, found.entries, found.errors);
        results.at_least = ended_early;
        results.truncated |= ended_early;
        results
    }
}
