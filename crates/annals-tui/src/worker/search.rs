//! Searches, one after the other; a new one stops that before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use annals::search::Hit;
use annals::service::SearchRequest;

use super::{Answers, Context, guarded};
use crate::protocol::{Answer, Hits, SearchQuestion};

/// Number of hits after which a search ends.
const ENOUGH: usize = 200;

/// The thread that searches.
pub(crate) struct Searcher {
    pub(crate) context: Arc<Context>,
    pub(crate) answers: Answers,
    /// Number of the newest search.
    pub(crate) newest: Arc<AtomicU64>,
}

impl Searcher {
    pub(crate) fn run(self, waiting: &Receiver<SearchQuestion>) {
        let mut has_indexed = false;
        while let Ok(mut question) = waiting.recv() {
            // Only the newest is of interest.
            if let Some(newer) = waiting.try_iter().last() {
                question = newer;
            }
            self.search_now(&question);
            // Once is enough: text that is written meanwhile is searched without the index.
            let is_stale = || self.newest.load(Ordering::Relaxed) != question.generation;
            if !has_indexed && !is_stale() {
                self.context.service.update_text_index(&is_stale);
                has_indexed = !is_stale();
            }
        }
    }

    /// Answers one question.
    pub(crate) fn search_now(&self, question: &SearchQuestion) {
        guarded(&self.answers, || self.search(question));
    }

    fn search(&self, question: &SearchQuestion) -> Vec<Answer> {
        let is_stale = || self.newest.load(Ordering::Relaxed) != question.generation;
        if is_stale() {
            return Vec::new();
        }
        let mut request = SearchRequest::new(question.query.clone());
        request.limit = ENOUGH;
        request.first = Some(ENOUGH);
        request.without_echoes = true;
        if question.here {
            request.project = Some(".".to_owned());
        }
        let mut hits = Hits {
            generation: question.generation,
            done: true,
            replaces: true,
            ..Hits::default()
        };
        let service = &self.context.service;
        let mut on_hits = |new: &[Hit]| {
            if !is_stale() {
                self.answers.send(Answer::Hits(Hits {
                    generation: question.generation,
                    hits: new.to_vec(),
                    at_least: true,
                    ..Hits::default()
                }));
            }
        };
        let inventory = service.inventory();
        match service.search_each(&inventory, &request, &is_stale, &mut on_hits) {
            Ok(found) => {
                hits.hits = found.hits.into_iter().map(|row| row.hit).collect();
                hits.total = found.total;
                hits.at_least = found.at_least;
            }
            Err(error) => hits.error = Some(error.to_string()),
        }
        match is_stale() {
            true => Vec::new(),
            false => vec![Answer::Hits(hits)],
        }
    }
}
