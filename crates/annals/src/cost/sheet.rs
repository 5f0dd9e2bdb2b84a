//! The charges of one log.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Fact, Outline, ResponseKey, SYNTHETIC, SessionId};

use super::Charge;

/// Collects the charges of one log from its outlines, in their order.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    charges: Vec<Charge>,
    known: HashMap<ResponseKey, usize>,
    /// What the records named last.
    session: Option<Box<str>>,
    git_branch: Option<Arc<str>>,
    model: Option<Arc<str>>,
    agent: Option<Arc<str>>,
}

impl Sheet {
    /// Takes in the next record of a log of that session.
    pub fn add(&mut self, outline: &Outline, session: &SessionId) {
        for fact in &outline.facts {
            match fact {
                Fact::Session(id) => self.session = Some(id.clone()),
                Fact::GitBranch(name) => self.git_branch = Some((**name).into()),
                _ => {}
            }
        }
        let Some(reply) = &outline.reply else { return };
        // The client's own error messages are nobody's reply.
        if reply.model.as_deref() == Some(SYNTHETIC) {
            return;
        }
        if reply.usage.is_none() && reply.recorded.is_none() {
            return;
        }
        let foreign = self.session.as_deref();
        let foreign = foreign.is_some_and(|named| named != session.as_str());
        let mut charge = Charge::to(0);
        charge.response = reply.response;
        charge.time = outline.time;
        charge.model = shared(&mut self.model, reply.model.as_deref());
        charge.usage = reply.usage.unwrap_or_default();
        charge.terms = reply.terms;
        charge.recorded = reply.recorded;
        let agent = outline.agent.as_ref().map(|agent| agent.as_str());
        // Early clients wrote sub-agents into the main log without ids.
        let agent = agent.or(outline.sidechain.then_some("sidechain"));
        charge.agent = shared(&mut self.agent, agent);
        charge.git_branch.clone_from(&self.git_branch);
        charge.copied = reply.copied || foreign;
        self.push(charge);
    }

    fn push(&mut self, charge: Charge) {
        let known = charge.response.and_then(|key| self.known.get(&key));
        if let Some(known) = known.and_then(|&at| self.charges.get_mut(at)) {
            known.settle(charge);
            return;
        }
        if let Some(key) = charge.response {
            self.known.insert(key, self.charges.len());
        }
        self.charges.push(charge);
    }

    /// The charges, each response once, for a session with that number.
    pub fn charges(self, account: usize) -> impl Iterator<Item = Charge> {
        self.charges
            .into_iter()
            .map(move |charge| Charge { account, ..charge })
    }
}

/// One text serves all charges in a row that have it.
fn shared(last: &mut Option<Arc<str>>, text: Option<&str>) -> Option<Arc<str>> {
    let text = text?;
    if last.as_deref() != Some(text) {
        *last = Some(text.into());
    }
    last.clone()
}
