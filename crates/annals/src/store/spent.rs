//! What the parts of a session come to: its conversations, its sub-agents, its entries.
//!
//! All of it is priced as it stands in this session, copies included. What sessions cost beside each
//! other, each response once, is the business of [`Ledger`](crate::cost::Ledger).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cost::{Charge, Ledger, Pricing, Sheet, Tally};
use crate::model::{Key, Money, Outline, ResponseKey};
use crate::tree::{Conversation, Tree};

use super::Agent;
use super::session::Session;

impl Session {
    /// What each conversation comes to, in the order of [`Session::conversations`]. What they share
    /// counts in each of them.
    pub fn conversation_costs(&self, price: Pricing<'_>) -> Vec<Tally> {
        let sums = |outlines, tree| along_paths(outlines, tree, price);
        self.main()
            .map(|(_, scan, tree)| sums(&scan.outlines, tree))
            .unwrap_or_default()
    }

    /// What a sub-agent comes to, without those that it called itself.
    pub fn agent_cost(&self, agent: &Agent, price: Pricing<'_>) -> Tally {
        let Some((_, scan, tree)) = self.log(agent.log) else {
            return Tally::default();
        };
        let mut sheet = Sheet::default();
        match agent.strand.map(|strand| tree.strands.get(strand)) {
            None => scan.outlines.iter().for_each(|outline| sheet.add(outline)),
            Some(strand) => strand
                .into_iter()
                .flat_map(|strand| &strand.entries)
                .filter_map(|&at| scan.outlines.get(at))
                .for_each(|outline| sheet.add(outline)),
        }
        let charges = sheet.charges(0, None).collect();
        Tally::of(&Ledger::settle(Vec::new(), charges).charges, price)
    }

    /// What some entries of a log cost, by their indexes. A response that takes several entries has
    /// its cost with the last of them, so that adding them up counts it once; entries that are not
    /// named here cost nothing, or nobody knows what.
    pub fn entry_costs(
        &self,
        log: usize,
        entries: &[usize],
        price: Pricing<'_>,
    ) -> HashMap<usize, Money> {
        let Some((_, scan, _)) = self.log(log) else {
            return HashMap::new();
        };
        let requests = Requests::of(&scan.outlines);
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
                    settled.settle(&charge);
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
        let (_, scan, tree) = self.main()?;
        let requests = Requests::of(&scan.outlines);
        let path = tree.path(conversation);
        let charges = path.iter().rev();
        let charges = charges.filter_map(|&at| requests.charge(scan.outlines.get(at)?));
        let mut charges = charges.filter(|charge| !charge.usage.is_zero());
        let mut last = charges.next()?;
        let same = |other: &Charge| last.response.is_some() && other.response == last.response;
        // The lines of one response stand near each other.
        let rest: Vec<Charge> = charges.take_while(same).collect();
        rest.iter().for_each(|other| last.settle(other));
        Some(last)
    }
}

/// What one record says that its response cost.
fn charge(outline: &Outline) -> Option<Charge> {
    outline.reply.as_ref()?;
    let mut sheet = Sheet::default();
    sheet.add(outline);
    sheet.charges(0, None).next()
}

/// The requests of messages of which some record names none: that is part of a response which does.
struct Requests(HashMap<Key, u64>);

impl Requests {
    fn of(outlines: &[Outline]) -> Self {
        let keys = || {
            let replies = outlines.iter().filter_map(|outline| outline.reply.as_ref());
            replies.filter_map(|reply| reply.response)
        };
        let vague = keys().filter(|key| key.request == 0);
        let mut requests: HashMap<Key, u64> = vague.map(|key| (key.message, 0)).collect();
        if requests.is_empty() {
            return Requests(requests);
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
        Requests(requests)
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
    fn charge(&self, outline: &Outline) -> Option<Charge> {
        let mut charge = charge(outline)?;
        charge.response = charge.response.map(|key| self.key(key));
        Some(charge)
    }
}

/// What each conversation of a log comes to, each response counted once, at its largest.
pub(super) fn along_paths(outlines: &[Outline], tree: &Tree, price: Pricing<'_>) -> Vec<Tally> {
    let requests = Requests::of(outlines);
    let spread = spread(outlines, tree, &requests);
    // What each response amounts to on the path that is being walked, and what it was before each
    // turn that changed it.
    type Known = (Charge, Option<Money>);
    type Before = Vec<(ResponseKey, Option<Known>)>;
    let known: RefCell<HashMap<ResponseKey, Known>> = RefCell::default();
    let changed: RefCell<Vec<Before>> = RefCell::default();
    let enter = |mut sum: Tally, entries: &[usize]| {
        let mut before = Before::new();
        let mut here: BTreeMap<ResponseKey, Known> = BTreeMap::new();
        let charges = entries.iter();
        for charge in charges.filter_map(|&at| requests.charge(outlines.get(at)?)) {
            let Some(key) = charge.response else {
                sum.add(&charge.usage, price(&charge));
                continue;
            };
            let mut known = known.borrow_mut();
            let old = match spread.contains(&key) {
                true => known.remove(&key),
                false => here.remove(&key),
            };
            let mut settled = charge;
            if let Some((old, cost)) = &old {
                sum.take(&old.usage, *cost);
                let newer = std::mem::replace(&mut settled, old.clone());
                settled.settle(&newer);
            }
            let cost = price(&settled);
            sum.add(&settled.usage, cost);
            match spread.contains(&key) {
                true => {
                    known.insert(key, (settled, cost));
                    before.push((key, old));
                }
                false => _ = here.insert(key, (settled, cost)),
            }
        }
        changed.borrow_mut().push(before);
        sum
    };
    let leave = || {
        let undone = changed.borrow_mut().pop().unwrap_or_default();
        let mut known = known.borrow_mut();
        for (key, old) in undone.into_iter().rev() {
            match old {
                Some(old) => known.insert(key, old),
                None => known.remove(&key),
            };
        }
    };
    tree.fold_paths(Tally::default(), enter, leave)
}

/// The responses that stand in more than one turn: few, and only these must be remembered on the way.
fn spread(outlines: &[Outline], tree: &Tree, requests: &Requests) -> HashSet<ResponseKey> {
    let mut turn = 0usize;
    let mut first: HashMap<ResponseKey, usize> = HashMap::new();
    let mut spread = HashSet::new();
    let enter = |(), entries: &[usize]| {
        turn += 1;
        for &at in entries {
            let reply = outlines.get(at).and_then(|outline| outline.reply.as_ref());
            let Some(key) = reply.and_then(|reply| reply.response) else {
                continue;
            };
            let key = requests.key(key);
            if *first.entry(key).or_insert(turn) != turn {
                spread.insert(key);
            }
        }
    };
    tree.fold_paths((), enter, || ());
    spread
}
