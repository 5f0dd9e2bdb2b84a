//! Exact amounts of money.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// An amount in pico-dollars. A price of $0.30 per million tokens is 300,000 pico-dollars per
/// token.
///
/// Sums are exact; only the display is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
// A ledger holds many charges, which would be larger with the alignment of `i128`.
#[repr(Rust, packed(8))]
pub struct Money(i128);

impl Money {
    /// Zero.
    pub const ZERO: Money = Money(0);
    /// Number of decimal places.
    const DIGITS: u32 = 12;
    /// Pico-dollars in a dollar.
    const DOLLAR: i128 = 10i128.pow(Self::DIGITS);

    /// Creates an amount from pico-dollars.
    pub const fn from_pico(pico: i128) -> Self {
        Money(pico)
    }

    /// The amount in pico-dollars.
    pub const fn pico(self) -> i128 {
        self.0
    }

    /// Parses a decimal number of dollars as in JSON or typed: `0.25`, `3`, `1.5e-3`.
    ///
    /// Digits beyond pico-dollars are rounded half up. Returns `None` for anything else and for
    /// implausibly large numbers.
    pub fn parse(text: &str) -> Option<Self> {
        const LARGEST: usize = 15;
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: String = whole.chars().chain(part.chars()).collect();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // The value is `digits` × 10^scale pico-dollars.
        let behind = i64::try_from(part.len()).ok()?;
        let scale = i64::from(Self::DIGITS) + i64::from(exponent) - behind;
        let digits = digits.trim_start_matches('0');
        let len = i64::try_from(digits.len()).ok()? + scale;
        if digits.is_empty() || len < 0 {
            return Some(Money::ZERO);
        }
        let len = usize::try_from(len).ok()?;
        if len > LARGEST + Self::DIGITS as usize {
            return None;
        }
        let kept = digits.get(..len.min(digits.len())).unwrap_or_default();
        let mut pico = kept
            .bytes()
            .fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        for _ in kept.len()..len {
            pico *= 10;
        }
        let next = digits.as_bytes().get(len).copied().unwrap_or(b'0');
        pico += i128::from(next >= b'5');
        Some(Money(if negative { -pico } else { pico }))
    }

    /// Rounds half up (away from zero) to `digits` decimal places and prints all of them: `0.11`.
    pub fn rounded(self, digits: u32) -> String {
        let digits = digits.min(Self::DIGITS);
        let unit = 10i128.pow(Self::DIGITS - digits);
        let units = self.0.saturating_abs().saturating_add(unit / 2) / unit;
        let one = 10i128.pow(digits);
        let sign = if self.0 < 0 && units != 0 { "-" } else { "" };
        match digits {
            0 => format!("{sign}{units}"),
            _ => format!(
                "{sign}{}.{:0width$}",
                units / one,
                units % one,
                width = digits as usize
            ),
        }
    }

    /// The amount in dollars as a float, for charts.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::DOLLAR as f64
    }
}

/// The exact amount in dollars, without trailing zeros: `0.10725`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.rounded(Self::DIGITS);
        f.pad(exact.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Serialized as a string, so that no reader parses it as a float.
impl serde::Serialize for Money {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Money {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Money".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$" })
    }
}

impl Add for Money {
    type Output = Money;
    fn add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        *self = *self + other;
    }
}

impl Sub for Money {
    type Output = Money;
    fn sub(self, other: Money) -> Money {
        self + -other
    }
}

impl Neg for Money {
    type Output = Money;
    fn neg(self) -> Money {
        Money(self.0.saturating_neg())
    }
}

/// Multiplies the amount; saturates.
impl Mul<u64> for Money {
    type Output = Money;
    fn mul(self, count: u64) -> Money {
        // Nearly all amounts fit one word, which takes one multiplication.
        Money(match u64::try_from(self.0) {
            Ok(pico) => {
                let product = u128::from(pico) * u128::from(count);
                i128::try_from(product).unwrap_or(i128::MAX)
            }
            Err(_) => self.0.saturating_mul(i128::from(count)),
        })
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(amounts: I) -> Money {
        amounts.fold(Money::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        Money::parse(text).map_or("none".to_owned(), |money| money.to_string())
    }

    #[test]
    fn parse_reads_decimals_exactly() {
        for (text, exact) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("3", "3"),
            ("0.10725", "0.10725"),
            ("0.028411600000000002", "0.0284116"),
            ("1.5e-3", "0.0015"),
            ("12E2", "1200"),
            ("0.0000000000005", "0.000000000001"),
            ("0.00000000000049", "0"),
            ("1e-400", "0"),
            ("-2.50", "-2.5"),
            ("999999999999999", "999999999999999"),
            ("9999999999999999", "none"),
            ("1e999", "none"),
            ("", "none"),
            (".", "none"),
            ("1.2.3", "none"),
            ("1,5", "none"),
            ("NaN", "none"),
            ("+1", "none"),
            ("1e", "none"),
        ] {
            assert_eq!(parse(text), exact, "{text}");
        }
    }

    #[test]
    fn rounded_rounds_half_up() {
        let shown = |text: &str, digits| Money::parse(text).unwrap().rounded(digits);
        assert_eq!(shown("0.10725", 2), "0.11");
        assert_eq!(shown("0.105", 2), "0.11");
        assert_eq!(shown("0.1049999", 2), "0.10");
        assert_eq!(shown("-0.004", 2), "0.00");
        assert_eq!(shown("-0.005", 2), "-0.01");
        assert_eq!(shown("1234.5", 0), "1235");
        assert_eq!(shown("0.5", 12), "0.500000000000");
    }

    #[test]
    fn multiplication_is_exact_and_saturates() {
        let words = [0, 1, 3_000_000, u64::MAX as i128, 1 << 64, i128::MAX];
        for pico in words.into_iter().flat_map(|pico| [pico, -pico]) {
            for count in [0, 1, 1_000_000_000_000, u64::MAX] {
                let product = Money::from_pico(pico) * count;
                assert_eq!(product.pico(), pico.saturating_mul(count.into()));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn display_round_trips_through_parse(pico in -1_000_000_000_000_000_000_000_000i128..1_000_000_000_000_000_000_000_000) {
            let money = Money::from_pico(pico);
            proptest::prop_assert_eq!(Money::parse(&money.to_string()), Some(money));
        }
    }
}
