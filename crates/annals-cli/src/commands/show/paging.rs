//! Pages of a long conversation: offset, limit and token budget.

use annals::model::{Body, Entry};
use annals::store::Session;
use clap::Args;

use super::Selection;
use crate::render::size;

/// Page of a conversation.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Paging {
    /// Show at most N messages
    #[arg(long, value_name = "N", conflicts_with = "last")]
    limit: Option<usize>,
    /// Skip the M oldest messages; without it, --limit starts with the oldest
    #[arg(long, value_name = "M", conflicts_with = "last")]
    offset: Option<usize>,
    /// Show as many messages as fit, at 4 bytes of text per token: the newest, or from --offset; at least one
    #[arg(long, value_name = "TOKENS", conflicts_with = "last")]
    budget: Option<u64>,
}

/// Position of a page, and how much remains.
pub(super) struct PageInfo {
    /// Index of the first message shown.
    pub(super) offset: usize,
    /// Number of messages in all.
    pub(super) total: usize,
    /// Number of messages after the page, or before it if the newest were asked for.
    remaining: usize,
    /// True if the next page is the one before.
    is_backward: bool,
    shown: usize,
}

impl PageInfo {
    pub(super) fn has_more(&self) -> bool {
        self.remaining > 0
    }

    /// Returns the offset of the next page: after this one, or before it if the newest were asked
    /// for.
    pub(super) fn next_offset(&self) -> Option<usize> {
        let next = if self.is_backward {
            self.offset.saturating_sub(self.shown)
        } else {
            self.offset + self.shown
        };
        self.has_more().then_some(next)
    }

    /// Returns a line about the remaining messages.
    pub(super) fn more_line(&self) -> Option<String> {
        let next = self.next_offset()?;
        let what = if self.is_backward {
            "earlier message"
        } else {
            "more message"
        };
        let left = size::pluralize(self.remaining as u64, what);
        Some(format!("… {left}: --offset {next}"))
    }
}

impl Paging {
    /// Keeps one page of a selection; returns `None` if all of it was asked for.
    pub(super) fn apply(
        &self,
        session: &Session,
        selection: &mut Selection,
    ) -> annals::Result<Option<PageInfo>> {
        if self.limit.is_none() && self.offset.is_none() && self.budget.is_none() {
            return Ok(None);
        }
        let total = selection.entries.len();
        let back = self.budget.is_some() && self.offset.is_none();
        let entries = &mut selection.entries;
        entries.drain(..self.offset.unwrap_or(0).min(total));
        if back {
            entries.reverse();
        }
        entries.truncate(self.limit.unwrap_or(usize::MAX));
        if let Some(budget) = self.budget {
            let fitting = count_fitting(session, selection.log, entries, budget)?;
            entries.truncate(fitting);
        }
        let shown = entries.len();
        if back {
            entries.reverse();
        }
        let offset = match self.offset {
            Some(offset) => offset.min(total),
            None if back => total - shown,
            None => 0,
        };
        Ok(Some(PageInfo {
            offset,
            total,
            remaining: if back { offset } else { total - offset - shown },
            is_backward: back,
            shown,
        }))
    }
}

/// Returns how many entries fit, reading until one does not.
fn count_fitting(
    session: &Session,
    log: usize,
    entries: &[usize],
    budget: u64,
) -> annals::Result<usize> {
    let mut spent = 0;
    let mut fitting = 0;
    session.each_entry_of_log(log, entries, |entry| {
        spent += estimate_tokens(entry);
        let fits = fitting == 0 || spent <= budget;
        fitting += usize::from(fits);
        Ok(fits)
    })?;
    Ok(fitting)
}

/// Estimates the tokens of an entry's text, without a tokenizer.
fn estimate_tokens(entry: Entry) -> u64 {
    let mut bytes = 0;
    match entry.body {
        Body::Message(message) => {
            for block in &message.blocks {
                block.visit_texts(&mut |text| bytes += text.len() as u64);
            }
        }
        body => bytes = annals::view::body_text(body).map_or(0, |text| text.len() as u64),
    }
    bytes.div_ceil(4)
}
