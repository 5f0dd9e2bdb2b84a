//! Horizontal bars.

/// Width of the longest bar in columns.
pub const WIDTH: usize = 12;

/// Draws `value` as a fraction of `max`, in eighths of a column. Only zero gives an empty bar.
pub fn bar(value: i128, max: i128) -> String {
    bar_of_width(value, max, WIDTH)
}

/// Like [`bar`]; `width` is the width of the longest bar in columns.
pub fn bar_of_width(value: i128, max: i128, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if value <= 0 || max <= 0 {
        return String::new();
    }
    let all = width as i128 * 8;
    // Avoids overflow of large amounts; the ratio needs fewer digits.
    let (value, max) = match max > i128::MAX / all {
        true => (value / all, max / all),
        false => (value, max),
    };
    let eighths = (value.min(max) * all / max.max(1)).max(1);
    let eighths = usize::try_from(eighths).unwrap_or(0);
    let part = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{part}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_empty_only_for_zero_and_full_only_for_max() {
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(1, i128::MAX), "▏");
        assert_eq!(bar(50, 100), "██████");
        assert_eq!(bar(100, 100), "█".repeat(WIDTH));
        assert_eq!(bar(i128::MAX, i128::MAX), "█".repeat(WIDTH));
        assert_eq!(bar(999, 1000), format!("{}▉", "█".repeat(WIDTH - 1)));
        assert_eq!(bar(5, 0), "");
    }
}
