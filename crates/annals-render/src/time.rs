//! Formats times in the user's time zone, and parses typed times.
//!
//! Everything is a function of a [`Clock`]; this module never reads the system clock.

use super::text::safe;
use annals::time_input::{Now, TIME_FORMS};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};
use std::fmt;

/// The current time and time zone.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The current time.
    pub now: Timestamp,
    /// The time zone.
    pub zone: TimeZone,
}

impl Clock {
    /// Formats how long ago `time` was: `3 min ago`, `yesterday 14:02`, `12 Mar`.
    pub fn ago(&self, time: Timestamp) -> String {
        let (now, then) = (self.zoned(self.now), self.zoned(time));
        let past = time <= self.now;
        let seconds = self.now.duration_since(time).as_secs().unsigned_abs();
        let relative = |amount: String| {
            if past {
                format!("{amount} ago")
            } else {
                format!("in {amount}")
            }
        };
        // Clocks differ a little, and a session written this second is not in the future.
        if seconds < 60 {
            return "just now".into();
        }
        if seconds < 3600 {
            return relative(format!("{} min", seconds / 60));
        }
        match days_between(now.date(), then.date()) {
            0 => relative(format!("{} h", seconds / 3600)),
            -1 => format!("yesterday {}", then.strftime("%H:%M")),
            1 => format!("tomorrow {}", then.strftime("%H:%M")),
            days @ -6..=6 => relative(format!("{} days", days.abs())),
            _ if now.year() == then.year() => then.strftime("%-d %b").to_string(),
            _ => then.strftime("%-d %b %Y").to_string(),
        }
    }

    /// Formats date and time to the second: `2026-03-12 14:02:05`.
    pub fn full(&self, time: Timestamp) -> String {
        self.zoned(time).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Formats the time of day: `14:02`.
    pub fn hour_minute(&self, time: Timestamp) -> String {
        self.zoned(time).strftime("%H:%M").to_string()
    }

    /// Formats the day: `2026-03-12`.
    pub fn date(&self, time: Timestamp) -> String {
        self.format(time, "%Y-%m-%d")
    }

    /// Formats with a `strftime` format.
    pub fn format(&self, time: Timestamp, form: &str) -> String {
        self.zoned(time).strftime(form).to_string()
    }

    /// Formats the days from `start` to before `end`: `9–15 Nov`, `30 Nov – 6 Dec`.
    pub fn days(&self, start: Timestamp, end: Timestamp) -> String {
        let first = self.zoned(start);
        let last = self.zoned(end.checked_sub(1.nanosecond()).unwrap_or(end));
        match first.month() == last.month() {
            true => format!("{}–{}", first.day(), last.strftime("%-d %b")),
            false => format!("{} – {}", first.strftime("%-d %b"), last.strftime("%-d %b")),
        }
    }

    /// Formats a few hours: `2026-11-15 Sun 10:00–15:00`.
    pub fn hours_range(&self, start: Timestamp, end: Timestamp) -> String {
        let begins = self.zoned(start).strftime("%Y-%m-%d %a %H:%M").to_string();
        format!("{begins}–{}", self.hour_minute(end))
    }

    /// The zone's name, or its current offset from UTC if it has none.
    pub fn zone_name(&self) -> String {
        self.now().zone_name()
    }

    /// Parses the value of `--since`. A bare day means its first instant.
    pub fn parse_since(&self, text: &str) -> Result<Timestamp, BadTime> {
        self.now()
            .parse_since(text)
            .ok_or_else(|| BadTime::new(text))
    }

    /// Parses the value of `--until`. A bare day means its last instant.
    pub fn parse_until(&self, text: &str) -> Result<Timestamp, BadTime> {
        self.now()
            .parse_until(text)
            .ok_or_else(|| BadTime::new(text))
    }

    /// The time and zone that typed times depend on.
    pub fn now(&self) -> Now {
        Now {
            time: self.now,
            zone: self.zone.clone(),
        }
    }

    fn zoned(&self, time: Timestamp) -> Zoned {
        time.to_zoned(self.zone.clone())
    }
}

/// Formats a duration in its two largest units: `2 d 3 h`, `2 h 14 min`, `14 min`.
pub fn duration(time: SignedDuration) -> String {
    let minutes = time.as_mins().max(0);
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match (days, hours, minutes) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, 0, _) => format!("{days} d"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A time that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTime {
    given: String,
}

impl BadTime {
    fn new(text: &str) -> Self {
        BadTime {
            given: safe(text).into(),
        }
    }
}

impl fmt::Display for BadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid time `{}`: expected {TIME_FORMS}", self.given)
    }
}

impl std::error::Error for BadTime {}

fn days_between(from: Date, to: Date) -> i64 {
    from.until(to).map_or(0, |span| i64::from(span.get_days()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thursday noon in Berlin, two weeks before the clocks go forward.
    fn clock() -> Clock {
        Clock {
            now: ts("2026-03-12T12:00:00+01:00"),
            zone: TimeZone::get("Europe/Berlin").unwrap(),
        }
    }

    fn ts(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn ago_formats_relative_times() {
        for (time, shown) in [
            ("2026-03-12T11:59:30+01:00", "just now"),
            ("2026-03-12T11:57:00+01:00", "3 min ago"),
            ("2026-03-12T11:00:00+01:00", "1 h ago"),
            ("2026-03-12T00:00:00+01:00", "12 h ago"),
            ("2026-03-11T23:59:59+01:00", "yesterday 23:59"),
            ("2026-03-11T00:00:00+01:00", "yesterday 00:00"),
            ("2026-03-10T23:59:59+01:00", "2 days ago"),
            ("2026-03-06T09:00:00+01:00", "6 days ago"),
            ("2026-03-05T09:00:00+01:00", "5 Mar"),
            ("2025-12-31T23:30:00Z", "1 Jan"),
            ("2025-03-12T12:00:00Z", "12 Mar 2025"),
            ("2026-03-12T12:00:00.4+01:00", "just now"),
            ("2026-03-12T12:00:05+01:00", "just now"),
            ("2026-03-12T12:01:00+01:00", "in 1 min"),
            ("2026-03-12T12:20:00+01:00", "in 20 min"),
            ("2026-03-13T14:02:00+01:00", "tomorrow 14:02"),
            ("2026-03-15T12:00:00+01:00", "in 3 days"),
        ] {
            assert_eq!(clock().ago(ts(time)), shown, "{time}");
        }
        assert_eq!(clock().ago(Timestamp::MAX), "30 Dec 9999");
        assert_eq!(clock().ago(Timestamp::MIN).split(' ').count(), 3);
    }

    #[test]
    fn ago_prefers_minutes_across_midnight() {
        let clock = Clock {
            now: ts("2026-03-12T00:10:00+01:00"),
            ..clock()
        };
        assert_eq!(clock.ago(ts("2026-03-11T23:50:00+01:00")), "20 min ago");
    }

    #[test]
    fn times_are_local() {
        let time = ts("2026-03-12T23:30:05Z");
        assert_eq!(clock().full(time), "2026-03-13 00:30:05");
        assert_eq!(clock().hour_minute(time), "00:30");
    }

    #[test]
    fn since_and_until_accept_documented_forms() {
        for (given, since, until) in [
            ("now", "2026-03-12T11:00:00Z", "2026-03-12T11:00:00Z"),
            ("30min", "2026-03-12T10:30:00Z", "2026-03-12T10:30:00Z"),
            ("36h", "2026-03-10T23:00:00Z", "2026-03-10T23:00:00Z"),
            ("7d", "2026-03-05T11:00:00Z", "2026-03-05T11:00:00Z"),
            ("2w", "2026-02-26T11:00:00Z", "2026-02-26T11:00:00Z"),
            (
                "today",
                "2026-03-11T23:00:00Z",
                "2026-03-12T22:59:59.999999999Z",
            ),
            (
                "yesterday",
                "2026-03-10T23:00:00Z",
                "2026-03-11T22:59:59.999999999Z",
            ),
            (
                "2026-03-01",
                "2026-02-28T23:00:00Z",
                "2026-03-01T22:59:59.999999999Z",
            ),
            (
                "2026-03-01T12:00",
                "2026-03-01T11:00:00Z",
                "2026-03-01T11:00:00Z",
            ),
            (
                "2026-03-01 12:00",
                "2026-03-01T11:00:00Z",
                "2026-03-01T11:00:00Z",
            ),
            (
                "2026-03-01T12:00:00Z",
                "2026-03-01T12:00:00Z",
                "2026-03-01T12:00:00Z",
            ),
            (
                " 2026-03-01T12:00:00-05:00 ",
                "2026-03-01T17:00:00Z",
                "2026-03-01T17:00:00Z",
            ),
        ] {
            assert_eq!(clock().parse_since(given), Ok(ts(since)), "{given}");
            assert_eq!(clock().parse_until(given), Ok(ts(until)), "{given}");
        }
    }

    /// The clock is that of a Thursday.
    #[test]
    fn since_and_until_accept_names_and_periods() {
        let end = |day: &str| format!("{day}T22:59:59.999999999Z");
        let start = |day: &str| format!("{day}T23:00:00Z");
        for (given, first, last) in [
            ("monday", "2026-03-08", "2026-03-09"),
            ("Mon", "2026-03-08", "2026-03-09"),
            ("thursday", "2026-03-11", "2026-03-12"),
            ("last thursday", "2026-03-04", "2026-03-05"),
            ("FRIDAY", "2026-03-05", "2026-03-06"),
            ("this week", "2026-03-08", "2026-03-15"),
            ("last week", "2026-03-01", "2026-03-08"),
            ("last  month", "2026-01-31", "2026-02-28"),
            ("last year", "2024-12-31", "2025-12-31"),
            ("2026-02", "2026-01-31", "2026-02-28"),
            ("february", "2026-01-31", "2026-02-28"),
            ("feb 2024", "2024-01-31", "2024-02-29"),
            ("last dec", "2025-11-30", "2025-12-31"),
            ("nov", "2025-10-31", "2025-11-30"),
            ("17 nov", "2025-11-16", "2025-11-17"),
            ("Nov 17", "2025-11-16", "2025-11-17"),
            ("12 mar", "2026-03-11", "2026-03-12"),
            ("13 mar 2026", "2026-03-12", "2026-03-13"),
            ("nov 17, 2024", "2024-11-16", "2024-11-17"),
        ] {
            assert_eq!(clock().parse_since(given), Ok(ts(&start(first))), "{given}");
            assert_eq!(clock().parse_until(given), Ok(ts(&end(last))), "{given}");
        }
        for (given, time) in [
            ("3 days ago", "2026-03-09T11:00:00Z"),
            ("3days", "2026-03-09T11:00:00Z"),
            ("2 weeks", "2026-02-26T11:00:00Z"),
            ("1month", "2026-02-12T11:00:00Z"),
            ("90 minutes ago", "2026-03-12T09:30:00Z"),
            ("1 year ago", "2025-03-12T11:00:00Z"),
            ("9:30", "2026-03-12T08:30:00Z"),
            ("12:00:30", "2026-03-12T11:00:30Z"),
            ("yesterday 14:02", "2026-03-11T13:02:00Z"),
            ("mon 9:00", "2026-03-09T08:00:00Z"),
        ] {
            assert_eq!(clock().parse_since(given), Ok(ts(time)), "{given}");
            assert_eq!(clock().parse_until(given), Ok(ts(time)), "{given}");
        }
    }

    /// Times can be copied from the output.
    #[test]
    fn since_accepts_what_ago_prints() {
        for time in [
            "2026-03-12T11:57:00+01:00",
            "2026-03-12T00:00:00+01:00",
            "2026-03-11T23:59:00+01:00",
            "2026-03-06T09:00:00+01:00",
            "2026-03-05T09:00:00+01:00",
            "2025-03-12T12:00:00Z",
        ] {
            let shown = clock().ago(ts(time));
            assert!(clock().parse_since(&shown).is_ok(), "{shown}");
        }
    }

    #[test]
    fn days_respect_daylight_saving_changes() {
        assert_eq!(
            clock().parse_until("2026-03-29"),
            Ok(ts("2026-03-29T21:59:59.999999999Z"))
        );
        let after = Clock {
            now: ts("2026-03-30T12:00:00+02:00"),
            ..clock()
        };
        assert_eq!(after.parse_since("2d"), Ok(ts("2026-03-28T12:00:00+01:00")));
    }

    #[test]
    fn invalid_time_error_lists_accepted_forms() {
        for given in [
            "",
            "d",
            "7",
            "7x",
            "-7d",
            "ago",
            "days ago",
            "last",
            "last 7",
            "this monday",
            "99999999999999999999d",
            "99999999999999999999 days ago",
            "9999999d",
            "2026-13-01",
            "2026-02-30",
            "2026-00",
            "2026-13",
            "٧d",
            "24:00",
            "12:60",
            "1:2:3:4",
            "12:",
            "-1:30",
            "last week 12:00",
            "31 feb",
            "feb 30",
            "0 mar",
            "ma",
            "monday tuesday",
            "17 nov 2026 x",
        ] {
            let message = clock().parse_since(given).expect_err(given).to_string();
            assert!(
                message.contains("36h") && message.contains("RFC 3339"),
                "{message}"
            );
        }
        assert!(
            !clock()
                .parse_since("\x1b[2J")
                .unwrap_err()
                .to_string()
                .contains('\x1b')
        );
    }
}
