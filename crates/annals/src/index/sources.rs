//! Sources of charges, each made once for all rows that follow each other and have it.

use std::sync::Arc;

use crate::cost::ChargeSource;
use crate::model::BillingTerms;

/// The source of the row before: the numbers of its texts, its terms, and the source.
#[derive(Debug, Default)]
pub(super) struct Sources(Option<([u32; 3], BillingTerms, Arc<ChargeSource>)>);

impl Sources {
    /// The source with these terms and texts: the model, the agent and the git branch, by their
    /// numbers. `text` finds one that may be missing, but not be damaged.
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
