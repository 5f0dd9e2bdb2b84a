//! Amounts as text, and the round numbers of an axis.

use annals::model::Money;

use super::super::size;

/// The unit of the amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Amounts in pico-dollars.
    Dollars,
    /// Amounts in tokens.
    Tokens,
}

impl Unit {
    /// Formats an amount for people: dollars rounded half up to cents, tokens in full.
    pub fn exact(self, amount: i128) -> String {
        match self {
            Unit::Dollars => dollars(amount, 2),
            Unit::Tokens => size::count(tokens(amount)),
        }
    }

    /// Formats an amount where space is scarce.
    pub(super) fn short(self, amount: i128) -> String {
        const THOUSAND: i128 = 1_000_000_000_000_000;
        match self {
            Unit::Dollars if amount >= THOUSAND => dollars(amount, 0),
            Unit::Dollars => dollars(amount, 2),
            Unit::Tokens => size::compact(tokens(amount)),
        }
    }

    /// Returns ticks for an axis that covers amounts up to `most`.
    pub(super) fn ticks(self, most: i128) -> Vec<Tick> {
        const MAX_TICKS: i128 = 5;
        let step = tick_step(most.max(1), MAX_TICKS);
        let marks = most.max(1).div_euclid(step) + i128::from(most % step != 0);
        let at = (0..=marks.max(1)).map(|n| step.saturating_mul(n));
        at.map(|amount| Tick {
            amount,
            label: self.tick(amount, step),
        })
        .collect()
    }

    fn tick(self, amount: i128, step: i128) -> String {
        const DOLLAR: i128 = 1_000_000_000_000;
        match self {
            Unit::Tokens => rounded_thousands(amount, step),
            Unit::Dollars if amount == 0 => "$0".to_owned(),
            Unit::Dollars => {
                let digits = (0..=12).find(|digits| step % (DOLLAR / 10i128.pow(*digits)) == 0);
                let digits = match digits {
                    Some(1) => 2,
                    Some(digits) => digits,
                    None => 12,
                };
                dollars(amount, digits)
            }
        }
    }
}

/// A tick of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) amount: i128,
    pub(super) label: String,
}

/// The smallest of 1, 2, 5, 10, 20 … such that `marks` steps cover `most`.
fn tick_step(most: i128, marks: i128) -> i128 {
    let mut power: i128 = 1;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step.saturating_mul(marks) >= most {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn dollars(pico: i128, digits: u32) -> String {
    let text = Money::from_pico(pico).rounded(digits);
    if pico > 0 && digits == 2 && text == "0.00" {
        return "<$0.01".to_owned();
    }
    let (whole, part) = match text.split_once('.') {
        Some((whole, part)) => (whole, format!(".{part}")),
        None => (text.as_str(), String::new()),
    };
    match whole.parse() {
        Ok(whole) => format!("${}{part}", size::count(whole)),
        Err(_) => format!("${text}"),
    }
}

fn tokens(amount: i128) -> u64 {
    u64::try_from(amount.max(0)).unwrap_or(u64::MAX)
}

/// Formats a round number of tokens: `1.5M`.
fn rounded_thousands(amount: i128, step: i128) -> String {
    let units = [
        (1_000_000_000_000, "T"),
        (1_000_000_000, "B"),
        (1_000_000, "M"),
        (1_000, "k"),
    ];
    let unit = units.iter().find(|(one, _)| amount >= *one);
    match unit {
        None => amount.to_string(),
        Some((one, letter)) => match amount % one == 0 || step >= *one {
            true => format!("{}{letter}", size::count(tokens(amount / one))),
            false => format!("{}{letter}", hundredths(amount * 100 / one)),
        },
    }
}

/// Formats hundredths without trailing zeros.
fn hundredths(count: i128) -> String {
    let text = format!("{}.{:02}", count / 100, count % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOLLAR: i128 = 1_000_000_000_000;

    fn labels(unit: Unit, most: i128) -> String {
        let labels = unit.ticks(most).into_iter().map(|tick| tick.label);
        labels.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_and_cover_the_largest_amount() {
        for (cents, marks) in [
            (1, "$0 $0.002 $0.004 $0.006 $0.008 $0.010"),
            (7, "$0 $0.02 $0.04 $0.06 $0.08"),
            (90, "$0 $0.20 $0.40 $0.60 $0.80 $1.00"),
            (250, "$0 $0.50 $1.00 $1.50 $2.00 $2.50"),
            (1_000, "$0 $2 $4 $6 $8 $10"),
            (1_001, "$0 $5 $10 $15"),
            (12_345_678, "$0 $50,000 $100,000 $150,000"),
        ] {
            assert_eq!(labels(Unit::Dollars, cents * DOLLAR / 100), marks);
        }
        assert_eq!(labels(Unit::Dollars, 0), "$0 $0.000000000001");
        assert_eq!(labels(Unit::Tokens, 3), "0 1 2 3");
        assert_eq!(labels(Unit::Tokens, 1_100_000), "0 500k 1M 1.5M");
        assert_eq!(labels(Unit::Tokens, 0), "0 1");
    }

    #[test]
    fn ticks_handle_the_largest_amounts() {
        for most in [i128::MAX, i128::MAX / 2, u64::MAX.into()] {
            let ticks = Unit::Dollars.ticks(most);
            assert!((2..=7).contains(&ticks.len()), "{}", ticks.len());
        }
    }

    #[test]
    fn amounts_are_rounded_half_up_to_cents() {
        let shown = |text| Unit::Dollars.exact(Money::parse(text).unwrap().pico());
        assert_eq!(shown("0.10725"), "$0.11");
        assert_eq!(shown("1234567.895"), "$1,234,567.90");
        assert_eq!(shown("0.004"), "<$0.01");
        assert_eq!(shown("0"), "$0.00");
        assert_eq!(Unit::Tokens.exact(1_234_567), "1,234,567");
    }
}
