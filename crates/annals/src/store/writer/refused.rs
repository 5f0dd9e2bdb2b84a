//! Finds the draft of an append that the layout refuses.

use crate::error::{Error, Result};
use annals_layouts::layout::{Change, Writer};
use annals_layouts::model::{Draft, Entry};

use super::SessionWriter;

impl SessionWriter {
    /// Appends drafts; the error for a refused one has its index.
    pub(super) fn append_drafts(
        &self,
        writer: &dyn Writer,
        drafts: Vec<Draft>,
    ) -> Result<Vec<Entry>> {
        let change = Change::Append(drafts);
        let written = self.apply_change(&change);
        written.map_err(|error| match &change {
            Change::Append(drafts) => self.with_draft_index(writer, error, drafts),
            _ => error,
        })
    }

    /// Adds the index of the refused draft to an error. Drafts depend only on those before them, so
    /// it is the last one of the shortest beginning that cannot be planned.
    fn with_draft_index(&self, writer: &dyn Writer, error: Error, drafts: &[Draft]) -> Error {
        let Error::Refused(why) = error else {
            return error;
        };
        let head = self.append_point().state.clone();
        let is_refused = |count: usize| {
            let first = drafts.get(..count).unwrap_or_default().to_vec();
            let planned = self.plan(writer, &head, &Change::Append(first));
            matches!(planned, Err(Error::Refused(reason)) if reason == why)
        };
        if !is_refused(drafts.len()) {
            return Error::Refused(why);
        }
        let (mut planned, mut refused) = (0, drafts.len());
        while planned + 1 < refused {
            let middle = planned.midpoint(refused);
            match is_refused(middle) {
                true => refused = middle,
                false => planned = middle,
            }
        }
        Error::RefusedDraft {
            index: planned,
            why,
        }
    }
}
