//! Charge sources of decoded rows; consecutive rows with the same source share one.

use std::sync::Arc;

use crate::cost::ChargeSource;
use annals_layouts::model::BillingTerms;

/// Source of the previous row, with the numbers of its texts and its billing terms.
#[derive(Debug, Default)]
pub(super) struct Sources(Option<([u32; 3], BillingTerms, Arc<ChargeSource>)>);

impl Sources {
    /// Returns the source with these terms and texts (numbers of the model, the agent and the git
    /// branch). `text` returns `None` for damage, `Some(None)` for no text.
    pub(super) fn get(
        &mut self,
        numbers: [u32; 3],
        terms: BillingTerms,
        mut text: impl FnMut(u32) -> Option<Option<Arc<str>>>,
    ) -> Option<&Arc<ChargeSource>> {
        let known = self.0.as_ref();
        if known.is_none_or(|(of, on, _)| (*of, *on) != (numbers, terms)) {
            let [model, agent, git_branch] = numbers;
            let source = ChargeSource {
                model: text(model)?,
                terms,
                agent: text(agent)?,
                git_branch: text(git_branch)?,
            };
            self.0 = Some((numbers, terms, Arc::new(source)));
        }
        self.0.as_ref().map(|(_, _, source)| source)
    }
}
