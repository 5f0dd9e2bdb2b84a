//! Sums of usage and cost.

use annals_layouts::model::{Money, Usage};

use super::{Charge, PriceFn};

/// Sum of some responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Number of responses.
    pub requests: u64,
    /// Tokens.
    pub usage: Usage,
    /// Cost of the responses that have a price.
    pub cost: Money,
    /// Number of responses without a price.
    pub unpriced: u64,
    /// Tokens of the responses without a price.
    pub unpriced_tokens: u64,
    /// Number of responses left out of all other fields because a counter would overflow.
    pub overflowed: u64,
}

impl Tally {
    /// Sums some charges at these prices.
    pub fn from_charges<'a>(
        charges: impl IntoIterator<Item = &'a Charge>,
        price: PriceFn<'_>,
    ) -> Self {
        let mut tally = Tally::default();
        for charge in charges {
            tally.add(&charge.usage, price(charge));
        }
        tally
    }

    /// Adds one response.
    pub fn add(&mut self, usage: &Usage, cost: Option<Money>) {
        if self.usage.add(usage).is_err() {
            self.overflowed += 1;
            return;
        }
        self.requests += 1;
        match cost {
            Some(cost) => self.cost += cost,
            None => {
                self.unpriced += 1;
                self.unpriced_tokens = self.unpriced_tokens.saturating_add(usage.total());
            }
        }
    }

    /// Subtracts one response that was added before.
    pub fn subtract(&mut self, usage: &Usage, cost: Option<Money>) {
        self.usage.subtract(usage);
        self.requests = self.requests.saturating_sub(1);
        match cost {
            Some(cost) => self.cost = self.cost - cost,
            None => {
                self.unpriced = self.unpriced.saturating_sub(1);
                self.unpriced_tokens = self.unpriced_tokens.saturating_sub(usage.total());
            }
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Tally) {
        self.overflowed += other.overflowed;
        if self.usage.add(&other.usage).is_err() {
            self.overflowed += other.requests;
            return;
        }
        self.requests += other.requests;
        self.cost += other.cost;
        self.unpriced += other.unpriced;
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
    }

    /// Returns the cost of the priced responses; `None` if there are responses but none has a
    /// price.
    pub fn priced(&self) -> Option<Money> {
        (self.requests == 0 || self.unpriced < self.requests).then_some(self.cost)
    }

    /// Returns the cost for JSON; `None` if there are no responses, or none has a price.
    pub fn known_cost(&self) -> Option<Money> {
        self.priced().filter(|_| self.requests > 0)
    }

    /// Returns the number of tokens of all kinds.
    pub fn tokens(&self) -> u64 {
        self.usage.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflowing_usage_is_counted_but_not_summed() {
        let huge = Usage {
            output: u64::MAX,
            ..Usage::default()
        };
        let mut tally = Tally::default();
        tally.add(&huge, Some(Money::from_pico(7)));
        tally.add(&huge, Some(Money::from_pico(5)));
        assert_eq!((tally.requests, tally.overflowed), (1, 1));
        assert_eq!(tally.cost, Money::from_pico(7));
        let mut sum = tally;
        sum.merge(&tally);
        assert_eq!((sum.requests, sum.overflowed), (1, 3));
    }

    #[test]
    fn cost_is_none_if_all_requests_are_unpriced() {
        let mut tally = Tally::default();
        assert_eq!(tally.priced(), Some(Money::ZERO));
        tally.add(&Usage::default(), None);
        assert_eq!(tally.priced(), None);
        tally.add(&Usage::default(), Some(Money::ZERO));
        assert_eq!(tally.priced(), Some(Money::ZERO));
    }
}
