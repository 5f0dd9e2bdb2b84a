//! Budgets per day, week or month.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use annals_layouts::model::Money;

use super::{Charge, Period, PriceFn, Tally, Unit};

/// Spending limit per calendar period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Period.
    pub unit: Unit,
    /// Limit per period.
    pub limit: Money,
}

/// Use of a budget in the current period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetUsage {
    /// The budget.
    pub budget: Budget,
    /// Current period.
    pub period: Period,
    /// Usage and cost in the period so far.
    pub tally: Tally,
    /// Expected cost at the end of the period at the same rate.
    pub projected: Money,
}

impl Budget {
    /// Percentage from which users are warned.
    pub(crate) const WARN_PERCENT: u64 = 80;

    /// Creates a budget.
    pub fn new(unit: Unit, limit: Money) -> Self {
        Budget { unit, limit }
    }

    /// Returns the use of the budget at `now`.
    pub fn usage(
        self,
        charges: &[Charge],
        price: PriceFn<'_>,
        zone: &TimeZone,
        now: Timestamp,
    ) -> BudgetUsage {
        let period = Period::containing(now, self.unit, zone);
        let mut tally = Tally::default();
        let within = |time: Timestamp| period.start <= time && time < period.end;
        for charge in charges.iter().filter(|one| one.time.is_some_and(within)) {
            tally.add(&charge.usage, price(charge));
        }
        let passed = now.duration_since(period.start).as_secs().max(1);
        let length = period.length().as_secs().max(passed);
        let pico = tally.cost.pico().saturating_mul(i128::from(length));
        BudgetUsage {
            budget: self,
            projected: Money::from_pico(pico / i128::from(passed)),
            period,
            tally,
        }
    }
}

impl BudgetUsage {
    /// Returns the used percentage, rounded down.
    pub fn percent(&self) -> u64 {
        let limit = self.budget.limit.pico().max(1);
        let percent = self.tally.cost.pico().saturating_mul(100) / limit;
        u64::try_from(percent.max(0)).unwrap_or(u64::MAX)
    }

    /// Returns true if the cost exceeds the limit.
    pub fn is_exceeded(&self) -> bool {
        self.tally.cost > self.budget.limit
    }

    /// Returns true if the used percentage reaches the percentage at which annals warns.
    pub fn is_near_limit(&self) -> bool {
        self.percent() >= Budget::WARN_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(charge: &Charge) -> Option<Money> {
        Some(Money::from_pico(1_000_000_000_000) * charge.usage.output)
    }

    #[test]
    fn budget_counts_only_the_current_period() {
        let charge = |time: &str, output| {
            let mut charge = Charge::new(0);
            charge.time = Some(time.parse().unwrap());
            charge.usage.output = output;
            charge
        };
        let charges = [
            charge("2026-10-31T22:59:59Z", 1000),
            charge("2026-10-31T23:00:00Z", 50),
            charge("2026-11-15T10:00:00Z", 36),
        ];
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now: Timestamp = "2026-11-15T23:00:00Z".parse().unwrap();
        let spent = |unit, limit: &str| {
            let limit = Money::parse(limit).unwrap();
            Budget::new(unit, limit).usage(&charges, &price, &zone, now)
        };
        let month = spent(Unit::Month, "100");
        assert_eq!(month.tally.cost.to_string(), "86");
        assert_eq!(
            (month.percent(), month.is_near_limit(), month.is_exceeded()),
            (86, true, false)
        );
        // Half of November is over.
        assert_eq!(month.projected.to_string(), "172");
        assert!(!spent(Unit::Month, "86").is_exceeded());
        assert!(spent(Unit::Month, "85.99").is_exceeded());
        // In Berlin it is Monday.
        assert_eq!(spent(Unit::Week, "1").tally.requests, 0);
        assert_eq!(spent(Unit::Day, "1").percent(), 0);
    }
}
