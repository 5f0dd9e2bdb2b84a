//! Pages of a long conversation: offset, limit and token budget.

use annals_layouts::model::{Body, Entry};
use serde::Serialize;

use super::body_text;
use crate::error::Result;
use crate::store::Session;

/// Part of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Number of the oldest messages to skip.
    pub offset: Option<usize>,
    /// Maximum number of messages.
    pub limit: Option<usize>,
    /// Maximum number of tokens, at 4 bytes of text each: of the newest messages, or of those from
    /// `offset`. At least one message is kept.
    pub budget: Option<u64>,
}

/// A page of a conversation as JSON.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PageJson {
    offset: usize,
    total: usize,
    has_more: bool,
    next_offset: Option<usize>,
}

/// Position of a page, and how much remains.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionPage {
    /// Index of the first message shown.
    pub(crate) offset: usize,
    /// Number of messages in all.
    pub(crate) total: usize,
    /// Number of messages after the page, or before it if the newest were asked for.
    pub remaining: usize,
    /// True if the next page is the one before.
    pub is_backward: bool,
    /// Number of messages shown.
    pub(crate) shown: usize,
}

impl SessionPage {
    /// Returns true if messages remain.
    pub(crate) fn has_more(&self) -> bool {
        self.remaining > 0
    }

    /// Returns the offset of the next page: after this one, or before it if the newest were asked
    /// for.
    pub fn next_offset(&self) -> Option<usize> {
        let next = if self.is_backward {
            self.offset.saturating_sub(self.shown)
        } else {
            self.offset + self.shown
        };
        self.has_more().then_some(next)
    }

    /// Converts it to JSON.
    pub fn json(&self) -> PageJson {
        PageJson {
            offset: self.offset,
            total: self.total,
            has_more: self.has_more(),
            next_offset: self.next_offset(),
        }
    }
}

impl PageRequest {
    /// Keeps one page of the entries of a log; returns `None` if all of them were asked for.
    pub fn apply(
        &self,
        session: &Session,
        log: usize,
        entries: &mut Vec<usize>,
    ) -> Result<Option<SessionPage>> {
        if self.limit.is_none() && self.offset.is_none() && self.budget.is_none() {
            return Ok(None);
        }
        let total = entries.len();
        let back = self.budget.is_some() && self.offset.is_none();
        entries.drain(..self.offset.unwrap_or(0).min(total));
        if back {
            entries.reverse();
        }
        entries.truncate(self.limit.unwrap_or(usize::MAX));
        if let Some(budget) = self.budget {
            let fitting = count_fitting(session, log, entries, budget)?;
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
        Ok(Some(SessionPage {
            offset,
            total,
            remaining: if back { offset } else { total - offset - shown },
            is_backward: back,
            shown,
        }))
    }
}

/// Returns how many entries fit, reading until one does not.
fn count_fitting(session: &Session, log: usize, entries: &[usize], budget: u64) -> Result<usize> {
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
pub(crate) fn estimate_tokens(entry: Entry) -> u64 {
    let mut bytes = 0;
    match entry.body {
        Body::Message(message) => {
            for block in &message.blocks {
                block.visit_texts(&mut |text| bytes += text.len() as u64);
            }
        }
        body => bytes = body_text(body).map_or(0, |text| text.len() as u64),
    }
    bytes.div_ceil(4)
}
