//! What the parts of a session come to: its conversations, its sub-agents, its entries.
//!
//! All of it is priced as it stands in this session, copies included. What sessions cost beside each
//! other, each response once, is the business of [`Ledger`](crate::cost::Ledger).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cost::{Charge, Pricing, Sheet, Tally};
use crate::model::{Money, Outline, ResponseKey};
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
        let charges: Vec<Charge> = sheet.charges(0, None).collect();
        Tally::of(&charges, price)
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
        let mut known: HashMap<ResponseKey, (usize, Charge)> = HashMap::new();
        let mut costs = HashMap::new();
        for &at in entries {
            let Some(charge) = scan.outlines.get(at).and_then(charge) else {
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
        let path = tree.path(conversation);
        let charges = path.iter().rev();
        let charges = charges.filter_map(|&at| charge(scan.outlines.get(at)?));
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

/// What each conversation of a log comes to, each response counted once, at its largest.
pub(super) fn along_paths(outlines: &[Outline], tree: &Tree, price: Pricing<'_>) -> Vec<Tally> {
    let spread = spread(outlines, tree);
    // What each response amounts to on the path that is being walked, and what it was before each
    // turn that changed it.
    type Known = (Charge, Option<Money>);
    type Before = Vec<(ResponseKey, Option<Known>)>;
    let known: RefCell<HashMap<ResponseKey, Known>> = RefCell::default();
    let changed: RefCell<Vec<Before>> = RefCell::default();
    let enter = |mut sum: Tally, entries: &[usize]| {
        let mut before = Before::new();
        let mut here: BTreeMap<ResponseKey, Known> = BTreeMap::new();
        for charge in entries.iter().filter_map(|&at| charge(outlines.get(at)?)) {
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
fn spread(outlines: &[Outline], tree: &Tree) -> HashSet<ResponseKey> {
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
            if *first.entry(key).or_insert(turn) != turn {
                spread.insert(key);
            }
        }
    };
    tree.fold_paths((), enter, || ());
    spread
}
