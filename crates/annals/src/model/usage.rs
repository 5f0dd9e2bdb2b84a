//! Tokens.

use serde::{Deserialize, Serialize};

/// Tokens of one response or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Fresh input.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Written to the five-minute cache.
    pub cache_write_5m: u64,
    /// Written to the one-hour cache.
    pub cache_write_1h: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Web searches, billed apiece.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_searches: u64,
}

/// On which terms tokens were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct BillingTerms {
    /// How soon the answer was wanted.
    pub tier: ServiceTier,
    /// It had to be made in the United States, for which some models cost more.
    pub us_only: bool,
}

/// How soon an answer was wanted, where that changes its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServiceTier {
    /// As usual.
    #[default]
    Standard,
    /// Some time within a day.
    Batch,
    /// When there is room.
    Flex,
    /// Before others.
    Priority,
    /// By a faster machine.
    Fast,
}

impl ServiceTier {
    /// All of them.
    pub const ALL: [ServiceTier; 5] = [
        ServiceTier::Standard,
        ServiceTier::Batch,
        ServiceTier::Flex,
        ServiceTier::Priority,
        ServiceTier::Fast,
    ];

    /// Its name in logs, price lists and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ServiceTier::Standard => "standard",
            ServiceTier::Batch => "batch",
            ServiceTier::Flex => "flex",
            ServiceTier::Priority => "priority",
            ServiceTier::Fast => "fast",
        }
    }

    /// The pace of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pace| pace.name() == name)
    }
}

/// A count that no honest response has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageOverflow;

impl Usage {
    /// Fresh input and output, and no cache.
    pub fn new(input: u64, output: u64) -> Self {
        Usage {
            input,
            output,
            ..Usage::default()
        }
    }

    /// Adds tokens written to the five-minute cache.
    pub fn cache_write(mut self, tokens: u64) -> Self {
        self.cache_write_5m += tokens;
        self
    }

    /// No single response can have this many tokens; a larger count is damage, not usage.
    pub const MAX_PLAUSIBLE: u64 = 1_000_000_000_000;

    /// Adds, and tells whether a counter would have overflowed (it is then left as it was).
    pub fn add(&mut self, other: &Usage) -> Result<(), UsageOverflow> {
        // Without a way out in the middle, all counters are added at once.
        let mut sums = self.counters();
        let mut overflows = false;
        for (to, from) in sums.iter_mut().zip(other.counters()) {
            let (sum, overflow) = to.overflowing_add(from);
            *to = sum;
            overflows |= overflow;
        }
        if overflows {
            return Err(UsageOverflow);
        }
        *self = Usage::from_counters(sums);
        Ok(())
    }

    /// Keeps the larger of each counter: lines of one response repeat it while it grows.
    pub fn max_each(&mut self, other: &Usage) {
        for (to, from) in self.counters_mut().into_iter().zip(other.counters()) {
            *to = (*to).max(from);
        }
    }

    /// Takes the other's counts if they are larger: of the lines that repeat a response, the one with
    /// the most output tells what it came to.
    ///
    /// Counts are never mixed: one line may say of the same tokens that they were written to the
    /// five-minute cache, and another to the one-hour cache.
    pub fn keep_larger(&mut self, other: &Usage) {
        let rank = |usage: &Usage| (usage.output, usage.total(), usage.counters());
        if rank(other) > rank(self) {
            *self = *other;
        }
    }

    /// Takes away what was added before.
    pub fn subtract(&mut self, other: &Usage) {
        *self = self.excess_over(other);
    }

    /// By how much each counter is larger than in `other`.
    pub fn excess_over(&self, other: &Usage) -> Usage {
        let mut more = *self;
        for (to, from) in more.counters_mut().into_iter().zip(other.counters()) {
            *to = to.saturating_sub(from);
        }
        more
    }

    /// All tokens together.
    pub fn total(&self) -> u64 {
        self.counters()
            .into_iter()
            .take(5)
            .fold(0, u64::saturating_add)
    }

    /// Tokens that were in the context window when the response began.
    pub fn context(&self) -> u64 {
        [
            self.input,
            self.cache_write_5m,
            self.cache_write_1h,
            self.cache_read,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Nothing was used.
    pub fn is_zero(&self) -> bool {
        *self == Usage::default()
    }

    /// The counts in the order of the members.
    pub(crate) fn counters(&self) -> [u64; 6] {
        [
            self.input,
            self.output,
            self.cache_write_5m,
            self.cache_write_1h,
            self.cache_read,
            self.web_searches,
        ]
    }

    /// The usage with these counts.
    pub(crate) fn from_counters(counters: [u64; 6]) -> Self {
        let mut usage = Usage::default();
        let members = usage.counters_mut().into_iter();
        members.zip(counters).for_each(|(to, from)| *to = from);
        usage
    }

    fn counters_mut(&mut self) -> [&mut u64; 6] {
        [
            &mut self.input,
            &mut self.output,
            &mut self.cache_write_5m,
            &mut self.cache_write_1h,
            &mut self.cache_read,
            &mut self.web_searches,
        ]
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_reports_overflow_and_changes_nothing() {
        let mut sum = Usage {
            input: 5,
            output: u64::MAX,
            ..Usage::default()
        };
        let before = sum;
        assert_eq!(
            sum.add(&Usage {
                input: 1,
                output: 1,
                ..Usage::default()
            }),
            Err(UsageOverflow)
        );
        assert_eq!(sum, before);
    }
}
