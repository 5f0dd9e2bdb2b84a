//! What the parts of a session come to: its conversations, its sub-agents, its entries.
//!
//! All of it is priced as it stands in this session, copies included. What sessions cost beside each
//! other, each response once, is the business of [`Ledger`](crate::cost::Ledger).

use std::collections::HashMap;

use crate::cost::{Charge, Ledger, LogCharges, PriceFn, Tally};
use crate::model::{EntryKey, Money, Outline, ResponseKey};
use crate::tree::Conversation;

use super::Agent;
use super::conversations::Conversations;
use super::session::Session;

impl Session {
    /// What each conversation comes to, in the order of [`Session::conversations`]. What they share
    /// counts in each of them.
    pub fn conversation_costs(&self, price: PriceFn<'_>) -> Vec<Tally> {
        Conversations::from_session(self).totals(price)
    }

    /// What a sub-agent comes to, without those that it called itself.
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

    /// What some entries of a log cost, by their indexes. A response that takes several entries has
    /// its cost with the last of them, so that adding them up counts it once; entries that are not
    /// named here cost nothing, or nobody knows what.
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

    /// The last response of a conversation that tells its tokens.
    pub fn last_response(&self, conversation: &Conversation) -> Option<Charge> {
        let (_, scan, tree) = self.main_log()?;
        let requests = RequestNames::from_outlines(&scan.outlines);
        let path = tree.path(conversation);
        let charges = path.iter().rev();
        let charges = charges.filter_map(|&at| requests.charge(scan.outlines.get(at)?));
        let mut charges = charges.filter(|charge| !charge.usage.is_zero());
        let mut last = charges.next()?;
        let same = |other: &Charge| last.response.is_some() && other.response == last.response;
        // The lines of one response stand near each other.
        let rest: Vec<Charge> = charges.take_while(same).collect();
        rest.iter().for_each(|other| last.merge(other));
        Some(last)
    }
}

/// What one record says that its response cost.
fn charge(outline: &Outline) -> Option<Charge> {
    outline.reply.as_ref()?;
    let mut sheet = LogCharges::default();
    sheet.add(outline);
    sheet.charges(0, None).next()
}

/// The requests of messages of which some record names none: that is part of a response which does.
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
        // What tells no tokens is no response that others could be part of.
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

    /// Every record names its request, or none of them could.
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

    /// What one record says that its response cost, under the response's full name.
    pub(super) fn charge(&self, outline: &Outline) -> Option<Charge> {
        let mut charge = charge(outline)?;
        charge.response = charge.response.map(|key| self.key(key));
        Some(charge)
    }
}
