//! Token usage.

use serde::{Deserialize, Serialize};

/// Tokens of one or more responses.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Uncached input.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Tokens written to the five-minute cache.
    pub cache_write_5m: u64,
    /// Tokens written to the one-hour cache.
    pub cache_write_1h: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Web searches, billed apiece.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_searches: u64,
}

/// The terms on which tokens were billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BillingTerms {
    /// The service tier.
    pub tier: ServiceTier,
    /// Whether inference was limited to the United States, for which some models cost more.
    pub us_only: bool,
}

/// The service tier of a response, which affects its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceTier {
    /// The default.
    #[default]
    Standard,
    /// Within a day.
    Batch,
    /// When there is capacity.
    Flex,
    /// Ahead of other requests.
    Priority,
    /// On faster hardware.
    Fast,
}

impl ServiceTier {
    /// All tiers.
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

    /// Returns the tier of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pace| pace.name() == name)
    }
}

/// A counter overflowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageOverflow;

impl Usage {
    /// Creates a usage of uncached input and output.
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

    /// The most tokens that one response can have; a larger count is damage.
    pub const MAX_PLAUSIBLE: u64 = 1_000_000_000_000;

    /// Adds `other`. On overflow of any counter nothing changes.
    pub fn add(&mut self, other: &Usage) -> Result<(), UsageOverflow> {
        // No early exit, so that the compiler can add all counters at once.
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

    /// Keeps the larger of each counter: the lines of one response repeat counts that grow.
    pub fn max_each(&mut self, other: &Usage) {
        for (to, from) in self.counters_mut().into_iter().zip(other.counters()) {
            *to = (*to).max(from);
        }
    }

    /// Takes the other's counts if they are larger: of the lines that repeat a response, the one
    /// with the most output has the final counts.
    ///
    /// Counts are never mixed: one line may count tokens as written to the five-minute cache that
    /// another counts as written to the one-hour cache.
    pub fn keep_larger(&mut self, other: &Usage) {
        let rank = |usage: &Usage| (usage.output, usage.total(), usage.counters());
        if rank(other) > rank(self) {
            *self = *other;
        }
    }

    /// Subtracts what was added before; saturates.
    pub fn subtract(&mut self, other: &Usage) {
        *self = self.excess_over(other);
    }

    /// Returns by how much each counter exceeds that of `other`.
    pub fn excess_over(&self, other: &Usage) -> Usage {
        let mut more = *self;
        for (to, from) in more.counters_mut().into_iter().zip(other.counters()) {
            *to = to.saturating_sub(from);
        }
        more
    }

    /// The sum of all tokens.
    pub fn total(&self) -> u64 {
        self.counters()
            .into_iter()
            .take(5)
            .fold(0, u64::saturating_add)
    }

    /// Tokens in the context window when the response began.
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

    /// Whether all counters are zero.
    pub fn is_zero(&self) -> bool {
        *self == Usage::default()
    }

    /// The counters in field order.
    pub fn counters(&self) -> [u64; 6] {
        [
            self.input,
            self.output,
            self.cache_write_5m,
            self.cache_write_1h,
            self.cache_read,
            self.web_searches,
        ]
    }

    /// Creates a usage from counters in field order.
    pub fn from_counters(counters: [u64; 6]) -> Self {
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
