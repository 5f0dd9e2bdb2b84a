//! Pages of lists: limit and offset.

use clap::Args;

/// Part of a list.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Page {
    /// Show at most this many
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Skip this many
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) offset: usize,
}

impl Page {
    /// Keeps this part of a list, and returns the length of the whole list.
    pub(crate) fn apply<T>(self, rows: &mut Vec<T>) -> usize {
        let total = rows.len();
        rows.drain(..self.offset.min(total));
        rows.truncate(self.limit.unwrap_or(usize::MAX));
        total
    }

    /// Returns true if a limit or an offset was given.
    pub(crate) fn is_set(self) -> bool {
        self.limit.is_some() || self.offset > 0
    }

    /// Returns the number of rows up to the end of the page; `None` if all.
    pub(crate) fn row_count(self) -> Option<usize> {
        Some(self.limit?.saturating_add(self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_past_the_end_is_empty_but_counts_all_rows() {
        let page = |limit, offset| {
            let mut rows = vec![1, 2, 3];
            let total = Page { limit, offset }.apply(&mut rows);
            (rows, total)
        };
        assert_eq!(page(None, 0), (vec![1, 2, 3], 3));
        assert_eq!(page(Some(1), 1), (vec![2], 3));
        assert_eq!(page(Some(9), 2), (vec![3], 3));
        assert_eq!(page(Some(1), 9), (vec![], 3));
        assert_eq!(page(Some(usize::MAX), usize::MAX), (vec![], 3));
    }
}
