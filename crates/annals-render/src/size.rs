//! Formats numbers for people: bytes, counts, plurals, sparklines.
//!
//! Money is not here: it is exact decimal and belongs to the library's `cost`.

/// Formats a number of bytes with decimal units: `1.2 MB`.
pub fn bytes(n: u64) -> String {
    match scaled(n, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"]) {
        (Scaled::Exact(n), unit) => format!("{n}{unit}"),
        (Scaled::Tenths(tenths), unit) => format!("{}.{}{unit}", tenths / 10, tenths % 10),
    }
}

/// Formats a count in full: `12,345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count in at most five columns: `950`, `1.2M`, `340k`.
pub fn compact(n: u64) -> String {
    // A number that would round to a thousand uses the next unit.
    let whole = |divisor: u128| (u128::from(n) + divisor / 2) / divisor;
    let mut divisor = 1u128;
    let mut units = ["", "k", "M", "B", "T", "Q", "Qi"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while whole(divisor) >= 1000
        && let Some(next) = units.next()
    {
        (divisor, unit) = (divisor * 1000, next);
    }
    // Rounds the number itself: rounding its tenths would round twice.
    let tenths = (u128::from(n) * 10 + divisor / 2) / divisor;
    match divisor == 1 || tenths >= 1000 {
        true => format!("{}{unit}", whole(divisor)),
        false => format!("{}.{}{unit}", tenths / 10, tenths % 10),
    }
}

/// Formats a count with its noun: `1 session`, `12,345 entries`.
pub fn pluralize(n: u64, noun: &str) -> String {
    if n == 1 {
        return format!("1 {noun}");
    }
    let consonant_y = noun
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    let nouns = match consonant_y {
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "z", "ch", "sh"]
            .iter()
            .any(|end| noun.ends_with(end)) =>
        {
            format!("{noun}es")
        }
        None => format!("{noun}s"),
    };
    format!("{} {nouns}", count(n))
}

/// Draws one bar for each value. Only zero gives the lowest bar, so that small values differ from
/// zero.
pub fn spark(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let max = u128::from(values.iter().copied().max().unwrap_or(0)).max(1);
    values
        .iter()
        .map(|&value| BARS[(u128::from(value) * 7).div_ceil(max) as usize])
        .collect()
}

enum Scaled {
    Exact(u64),
    Tenths(u64),
}

/// Picks the unit in which `n`, rounded half up to a tenth, is below a thousand.
fn scaled<'u>(n: u64, units: &[&'u str]) -> (Scaled, &'u str) {
    if n < 1000 {
        return (Scaled::Exact(n), units[0]);
    }
    let mut divisor = 1u128;
    let mut last = (Scaled::Exact(n), units[0]);
    for unit in &units[1..] {
        divisor *= 1000;
        let tenths = (u128::from(n) * 10 + divisor / 2) / divisor;
        last = (Scaled::Tenths(tenths as u64), unit);
        if tenths < 10_000 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_into_the_next_unit() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_249_999, "1.2 MB"),
            (1_250_000, "1.3 MB"),
        ];
        for (n, shown) in cases.into_iter().chain([
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (u64::MAX, "18.4 EB"),
        ]) {
            assert_eq!(bytes(n), shown);
        }
    }

    #[test]
    fn counts_in_full_and_compact() {
        for (n, full, short) in [
            (0, "0", "0"),
            (999, "999", "999"),
            (1_000, "1,000", "1.0k"),
            (12_345, "12,345", "12.3k"),
            (340_400, "340,400", "340k"),
            (99_949, "99,949", "99.9k"),
            (99_950, "99,950", "100k"),
            (340_500, "340,500", "341k"),
            (999_499, "999,499", "999k"),
            (999_500, "999,500", "1.0M"),
            (999_950, "999,950", "1.0M"),
            (448_532_966, "448,532,966", "449M"),
            (448_449_999, "448,449,999", "448M"),
            (1_234_567, "1,234,567", "1.2M"),
            (u64::MAX, "18,446,744,073,709,551,615", "18.4Qi"),
        ] {
            assert_eq!((count(n).as_str(), compact(n).as_str()), (full, short));
        }
    }

    #[test]
    fn nouns_follow_the_count() {
        assert_eq!(pluralize(1, "session"), "1 session");
        assert_eq!(pluralize(0, "session"), "0 sessions");
        assert_eq!(pluralize(1200, "entry"), "1,200 entries");
        assert_eq!(pluralize(2, "branch"), "2 branches");
        assert_eq!(pluralize(2, "day"), "2 days");
    }

    #[test]
    fn sparkline_scales_without_overflow() {
        assert_eq!(spark(&[]), "");
        assert_eq!(spark(&[0, 0]), "▁▁");
        assert_eq!(spark(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(spark(&[u64::MAX, u64::MAX / 2, 1]), "█▅▂");
    }
}
