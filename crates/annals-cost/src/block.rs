//! Five-hour billing blocks, with burn rate and projection.

use jiff::{SignedDuration, Timestamp};

use annals_layouts::model::Money;

use super::{Charge, PriceFn, Tally};

/// Length of a block.
pub const BLOCK_LENGTH: SignedDuration = SignedDuration::from_hours(5);

/// Five-hour period that starts at the full hour (UTC) of its first response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BillingBlock {
    /// Full hour of the first response.
    pub start: Timestamp,
    /// End of the block, exclusive: five hours after `start`.
    pub end: Timestamp,
    /// Time of the first response.
    pub first: Timestamp,
    /// Time of the last response.
    pub last: Timestamp,
    /// Sum of its responses.
    pub tally: Tally,
}

/// Rate of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BurnRate {
    /// Tokens of all kinds per minute.
    pub tokens_per_minute: u64,
    /// Cost per hour.
    pub cost_per_hour: Money,
}

/// Expected total at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Projection {
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Cost of the tokens that have a price.
    pub cost: Money,
}

impl BillingBlock {
    /// Returns true if `now` is within the block.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.start <= now && now < self.end
    }

    /// Returns the time until the end of the block; zero if it is over.
    pub fn remaining(&self, now: Timestamp) -> SignedDuration {
        self.end.duration_since(now).max(SignedDuration::ZERO)
    }

    /// Returns the average rate since the first response: up to `now` for an active block, else up
    /// to the last response.
    pub fn burn_rate(&self, now: Timestamp) -> BurnRate {
        BurnRate {
            tokens_per_minute: self.tokens_in(60_000, now),
            cost_per_hour: self.cost_in(3_600_000, now),
        }
    }

    /// Returns the expected total at the end of the block if the burn rate stays the same.
    pub fn projection(&self, now: Timestamp) -> Projection {
        let left = self.remaining(now).as_millis();
        Projection {
            tokens: self
                .tally
                .tokens()
                .saturating_add(self.tokens_in(left, now)),
            cost: self.tally.cost + self.cost_in(left, now),
        }
    }

    fn tokens_in(&self, millis: i128, now: Timestamp) -> u64 {
        let scaled = self.scaled(i128::from(self.tally.tokens()), millis, now);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    fn cost_in(&self, millis: i128, now: Timestamp) -> Money {
        Money::from_pico(self.scaled(self.tally.cost.pico(), millis, now))
    }

    /// Scales an amount from the time used so far to `millis`, rounded half up.
    fn scaled(&self, amount: i128, millis: i128, now: Timestamp) -> i128 {
        // The rate over a few seconds does not predict hours.
        const LEAST: SignedDuration = SignedDuration::from_mins(5);
        let until = if self.is_active(now) { now } else { self.last };
        let took = until.duration_since(self.first).max(LEAST).as_millis();
        let product = amount.saturating_mul(millis).saturating_add(took / 2);
        product.div_euclid(took)
    }
}

/// Returns the blocks of some charges, oldest first. Charges without a time are ignored.
pub fn blocks(charges: &[Charge], price: PriceFn<'_>) -> Vec<BillingBlock> {
    let mut blocks: Vec<BillingBlock> =
        block_starts(charges.iter().filter_map(|charge| charge.time))
            .into_iter()
            .map(|start| BillingBlock {
                start,
                end: block_end(start),
                first: Timestamp::MAX,
                last: Timestamp::MIN,
                tally: Tally::default(),
            })
            .collect();
    for charge in charges {
        let Some(time) = charge.time else { continue };
        let after = blocks.partition_point(|block| block.start <= time);
        let block = after.checked_sub(1).and_then(|at| blocks.get_mut(at));
        if let Some(block) = block {
            block.first = block.first.min(time);
            block.last = block.last.max(time);
            block.tally.add(&charge.usage, price(charge));
        }
    }
    blocks
}

/// Returns the starts of the blocks for these response times.
pub(super) fn block_starts(times: impl Iterator<Item = Timestamp>) -> Vec<Timestamp> {
    let mut times: Vec<Timestamp> = times.collect();
    times.sort_unstable();
    let mut starts: Vec<Timestamp> = Vec::new();
    for time in times {
        if starts.last().is_none_or(|&start| time >= block_end(start)) {
            starts.push(full_hour(time));
        }
    }
    starts
}

/// Returns the end of a block that starts at `start`.
pub(super) fn block_end(start: Timestamp) -> Timestamp {
    start.checked_add(BLOCK_LENGTH).unwrap_or(Timestamp::MAX)
}

fn full_hour(time: Timestamp) -> Timestamp {
    let hour = time.as_second().div_euclid(3600) * 3600;
    Timestamp::from_second(hour).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(time: &str, output: u64) -> Charge {
        let mut charge = Charge::new(0);
        charge.time = Some(time.parse().unwrap());
        charge.usage.output = output;
        charge
    }

    /// Returns a price of $0.001 per token.
    fn price(charge: &Charge) -> Option<Money> {
        Some(Money::from_pico(1_000_000_000) * charge.usage.output)
    }

    #[test]
    fn block_starts_at_full_hour_and_lasts_five_hours() {
        let charges = [
            charge("2026-11-15T14:59:59.999Z", 4),
            charge("2026-11-15T10:20:00Z", 1),
            charge("2026-11-15T15:00:00Z", 8),
            charge("2026-11-14T23:00:00Z", 2),
            Charge::new(0),
        ];
        let found = blocks(&charges, &price);
        let shape: Vec<_> = found
            .iter()
            .map(|block| (block.start.to_string(), block.tally.usage.output))
            .collect();
        assert_eq!(
            shape,
            [
                ("2026-11-14T23:00:00Z".to_owned(), 2),
                ("2026-11-15T10:00:00Z".to_owned(), 5),
                ("2026-11-15T15:00:00Z".to_owned(), 8),
            ]
        );
        let now: Timestamp = "2026-11-15T14:59:59.9999Z".parse().unwrap();
        let active: Vec<bool> = found.iter().map(|block| block.is_active(now)).collect();
        assert_eq!(active, [false, true, false]);
    }

    #[test]
    fn active_block_has_burn_rate_and_projection() {
        let charges = [
            charge("2026-11-15T10:00:00Z", 600),
            charge("2026-11-15T11:00:00Z", 600),
        ];
        let found = blocks(&charges, &price);
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let rate = found[0].burn_rate(now);
        assert_eq!(rate.tokens_per_minute, 10);
        assert_eq!(rate.cost_per_hour.to_string(), "0.6");
        assert_eq!(found[0].remaining(now).as_mins(), 180);
        let comes = found[0].projection(now);
        assert_eq!((comes.tokens, comes.cost.to_string()), (3000, "3".into()));
        // After the end, only the time up to the last response counts.
        let later: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
        assert_eq!(found[0].burn_rate(later).tokens_per_minute, 20);
    }

    #[test]
    fn burn_rate_assumes_at_least_five_minutes() {
        let charges = [
            charge("2026-11-15T10:00:00Z", 300),
            charge("2026-11-15T10:00:02Z", 300),
        ];
        let found = blocks(&charges, &price);
        let now: Timestamp = "2026-11-15T10:00:03Z".parse().unwrap();
        assert_eq!(found[0].burn_rate(now).tokens_per_minute, 120);
    }
}
