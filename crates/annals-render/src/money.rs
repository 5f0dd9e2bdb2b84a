//! Formats money for people.
//!
//! Sums are exact; only this module rounds them: half up, to cents. An amount below a cent is not
//! shown as zero.

use annals::model::Money;

/// Formats an amount in cents: `$1,234.57`, `<$0.01`.
pub fn cents(money: Money) -> String {
    let cent = Money::from_pico(10_000_000_000);
    if money > Money::ZERO && money < cent {
        return "<$0.01".to_owned();
    }
    dollars(&money.rounded(2))
}

/// Formats an amount with all its digits, and at least two decimal places: `$0.10725`.
pub fn exact(money: Money) -> String {
    let all = money.to_string();
    let behind = all.split_once('.').map_or(0, |(_, part)| part.len());
    match behind {
        0 | 1 => dollars(&money.rounded(2)),
        _ => dollars(&all),
    }
}

/// Formats a lower bound: `≥$1.20`, or `>$0.00` if it is less than a cent.
pub fn at_least(amount: &str) -> String {
    match amount.starts_with('<') {
        true => ">$0.00".to_owned(),
        false => format!("≥{amount}"),
    }
}

fn dollars(decimal: &str) -> String {
    let (sign, amount) = match decimal.strip_prefix('-') {
        Some(amount) => ("-", amount),
        None => ("", decimal),
    };
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    let point = if part.is_empty() { "" } else { "." };
    let mut grouped = String::with_capacity(whole.len() + whole.len() / 3);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}${grouped}{point}{part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_round_half_up_and_small_ones_show_less_than_a_cent() {
        for (amount, short, full) in [
            ("0", "$0.00", "$0.00"),
            ("0.10725", "$0.11", "$0.10725"),
            ("0.004", "<$0.01", "$0.004"),
            ("0.009999", "<$0.01", "$0.009999"),
            ("0.01", "$0.01", "$0.01"),
            ("3", "$3.00", "$3.00"),
            ("3.5", "$3.50", "$3.50"),
            ("1234567.895", "$1,234,567.90", "$1,234,567.895"),
            ("-1234.5", "-$1,234.50", "-$1,234.50"),
        ] {
            let money = Money::parse(amount).unwrap();
            assert_eq!(
                (cents(money).as_str(), exact(money).as_str()),
                (short, full)
            );
        }
    }
}
