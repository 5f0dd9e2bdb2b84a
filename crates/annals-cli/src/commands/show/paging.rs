//! Pages of a long conversation: offset, limit and token budget.

use annals::store::Session;
use annals::view::{PageRequest, SessionPage};
use clap::Args;

use super::Selection;
use annals_render::size;

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

/// Returns a line about the remaining messages.
pub(super) fn more_line(page: &SessionPage) -> Option<String> {
    let next = page.next_offset()?;
    let what = match page.is_backward {
        true => "earlier message",
        false => "more message",
    };
    let left = size::pluralize(page.remaining as u64, what);
    Some(format!("… {left}: --offset {next}"))
}

impl Paging {
    /// Keeps one page of a selection; returns `None` if all of it was asked for.
    pub(super) fn apply(
        &self,
        session: &Session,
        selection: &mut Selection,
    ) -> annals::Result<Option<SessionPage>> {
        let request = PageRequest {
            offset: self.offset,
            limit: self.limit,
            budget: self.budget,
        };
        request.apply(session, selection.log, &mut selection.entries)
    }
}
