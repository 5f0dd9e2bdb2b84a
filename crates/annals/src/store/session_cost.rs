//! Costs of the parts of a session: its conversations, its sub-agents, its entries.
//!
//! All records of the session count, including copies from other sessions.
//! [`Ledger`](crate::cost::Ledger) counts each response once across sessions.
//!
//! Conversations share their beginnings, and each counts them, so the conversations of a session
//! add up to more than the session. Session lists use the ledger, so sessions add up to the total
//! of `annals cost`.

use std::collections::HashMap;

use crate::cost::{Charge, Ledger, LogCharges, PriceFn, Tally};
use annals_layouts::model::{EntryKey, Money, Outline, ResponseKey};
use annals_layouts::tree::Conversation;

use super::Agent;
use super::conversations::Conversations;
use super::session::Session;

impl Session {
    /// Returns the cost of each conversation, in the order of [`Session::conversations`]. Shared
    /// entries count in each conversation.
    pub fn conversation_costs(&self, price: PriceFn<'_>) -> Vec<Tally> {
        Conversations::from_session(self).totals(price)
    }

    /// Returns the cost of a sub-agent, without the sub-agents that it called.
    pub fn agent_cost(&self, agent: &Agent, price: PriceFn<'_>) -> Tally {
        let Some((_, scan, tree)) = self.log(agent.log) else {
            return Tally::default();
        };
        let mut sheet = LogCharges::default();
        match agent.sidechain.map(|strand| tree.sidechains.get(strand)) {
            None => scan.outlines.iter().for_each(|outline| sheet.add(outline)),
            Some(strand) => strand
                .into_iter()
                .flat_map(|strand| &strand.entries)
                .filter_map(|&at| scan.outlines.get(at))
                .for_each(|outline| sheet.add(outline)),
        }
        let charges = sheet.charges(0, None).collect();
        Tally::from_charges(&Ledger::dedupe(Vec::new(), charges).charges, price)
    }

    /// Returns the costs of entries of a log, given by index. The cost of a response with several
    /// entries is at the last of them, so that the sum counts it once. An entry that is not in the
    /// result has no cost or an unknown one.
    pub fn entry_costs(
        &self,
        log: usize,
        entries: &[usize],
        price: PriceFn<'_>,
    ) -> HashMap<usize, Money> {
        let Some((_, scan, _)) = self.log(log) else {
            return HashMap::new();
        };
        let requests = RequestNames::from_outlines(&scan.outlines);
        let mut known: HashMap<ResponseKey, (usize, Charge)> = HashMap::new();
        let mut costs = HashMap::new();
        for &at in entries {
            let charge = scan.outlines.get(at);
            let Some(charge) = charge.and_then(|outline| requests.charge(outline)) else {
                continue;
            };
            let Some(key) = charge.response else {
                costs.extend(price(&charge).map(|cost| (at, cost)));
                continue;
            };
            match known.get_mut(&key) {
                Some((last, settled)) => {
                    *last = at.max(*last);
                    settled.merge(&charge);
                }
                None => _ = known.insert(key, (at, charge)),
            }
        }
        let settled = known.into_values();
        costs.extend(settled.filter_map(|(last, charge)| Some((last, price(&charge)?))));
        costs
    }

    /// Returns the last response of a conversation that has token usage.
    pub fn last_response(&self, conversation: &Conversation) -> Option<Charge> {
        let (_, scan, tree) = self.main_log()?;
        let requests = RequestNames::from_outlines(&scan.outlines);
        let path = tree.path(conversation);
        let charges = path.iter().rev();
        let charges = charges.filter_map(|&at| requests.charge(scan.outlines.get(at)?));
        let mut charges = charges.filter(|charge| !charge.usage.is_zero());
        let mut last = charges.next()?;
        let same = |other: &Charge| last.response.is_some() && other.response == last.response;
        // The lines of a response are adjacent, apart from lines without usage.
        let rest: Vec<Charge> = charges.take_while(same).collect();
        rest.iter().for_each(|other| last.merge(other));
        Some(last)
    }
}

/// Returns the charge of the response that one record belongs to.
fn charge(outline: &Outline) -> Option<Charge> {
    outline.reply.as_ref()?;
    let mut sheet = LogCharges::default();
    sheet.add(outline);
    sheet.charges(0, None).next()
}

/// Requests of messages that have a record without a request. Such a record belongs to the response
/// with the request.
pub(super) struct RequestNames(HashMap<EntryKey, u64>);

impl RequestNames {
    pub(super) fn from_outlines(outlines: &[Outline]) -> Self {
        let keys = || {
            let replies = outlines.iter().filter_map(|outline| outline.reply.as_ref());
            replies.filter_map(|reply| reply.response)
        };
        let vague = keys().filter(|key| key.request == 0);
        let mut requests: HashMap<EntryKey, u64> = vague.map(|key| (key.message, 0)).collect();
        if requests.is_empty() {
            return RequestNames(requests);
        }
        // A record without usage is not a response that others can belong to.
        let named = outlines.iter().filter_map(charge);
        let named = named.filter_map(|charge| charge.response);
        for key in named.filter(|key| key.request != 0) {
            if let Some(known) = requests.get_mut(&key.message)
                && (*known == 0 || key.request < *known)
            {
                *known = key.request;
            }
        }
        RequestNames(requests)
    }

    /// Returns whether no record lacks its request.
    pub(super) fn are_complete(&self) -> bool {
        self.0.is_empty()
    }

    fn key(&self, mut key: ResponseKey) -> ResponseKey {
        if key.request == 0
            && let Some(request) = self.0.get(&key.message)
        {
            key.request = *request;
        }
        key
    }

    /// Returns the charge of the response that one record belongs to, with the full response key.
    pub(super) fn charge(&self, outline: &Outline) -> Option<Charge> {
        let mut charge = charge(outline)?;
        charge.response = charge.response.map(|key| self.key(key));
        Some(charge)
    }
}
