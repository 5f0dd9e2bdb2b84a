//! When the times of a file show every later change.

/// Returns true if any change to a file after `now` gives it another time than `time`, its ctime (for
/// the names in a directory, its mtime). Both are in nanoseconds since 1970. Clocks of file systems are
/// coarse: two changes within one tick have the same time.
pub(crate) fn is_stable(time: i64, now: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    // The kernel's clock ticks every 10 ms at most. A time in whole seconds is from a file system whose
    // clock ticks every one or two seconds.
    let tick = match time % SECOND {
        0 => SECOND * 5 / 2,
        _ => SECOND / 50,
    };
    time < now.saturating_sub(tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_stable_once_the_clock_has_ticked() {
        let now = 100_123_456_789;
        assert!(is_stable(now - 20_000_001, now));
        assert!(!is_stable(now - 19_000_000, now));
        assert!(!is_stable(now + 1, now));
        assert!(!is_stable(98_000_000_000, now));
        assert!(is_stable(97_000_000_000, now));
    }
}
