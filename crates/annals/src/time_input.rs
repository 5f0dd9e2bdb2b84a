//! Times as people type them: `7d`, `yesterday`, `2026-03-01`, `2026-03-01T12:00`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

/// What time it is, and where: what a typed time depends on.
#[derive(Clone, Debug)]
pub struct Now {
    /// The time it is.
    pub time: Timestamp,
    /// Whose days and hours count.
    pub zone: TimeZone,
}

/// The end of a bare day that is meant.
#[derive(Clone, Copy)]
enum Edge {
    Start,
    End,
}

impl Now {
    /// A time from which on something is wanted. A bare day means its first instant.
    pub fn parse_since(&self, text: &str) -> Option<Timestamp> {
        self.parse(text, Edge::Start)
    }

    /// A time up to which something is wanted. A bare day means its last instant.
    pub fn parse_until(&self, text: &str) -> Option<Timestamp> {
        self.parse(text, Edge::End)
    }

    fn parse(&self, text: &str, edge: Edge) -> Option<Timestamp> {
        let text = text.trim();
        let today = self.zoned().date();
        match text {
            "now" => Some(self.time),
            "today" => self.day_edge(today, edge),
            "yesterday" => self.day_edge(today.yesterday().ok()?, edge),
            _ => self.parse_ago(text).or_else(|| self.parse_date(text, edge)),
        }
    }

    fn zoned(&self) -> Zoned {
        self.time.to_zoned(self.zone.clone())
    }

    fn parse_ago(&self, text: &str) -> Option<Timestamp> {
        self.before(parse_span(text)?)
    }

    /// The time that was so long ago; `None` where no calendar reaches.
    pub(crate) fn before(&self, span: Span) -> Option<Timestamp> {
        Some(self.zoned().checked_sub(span).ok()?.timestamp())
    }

    fn parse_date(&self, text: &str, edge: Edge) -> Option<Timestamp> {
        // The date comes first: jiff would read a bare day as a date and time at midnight.
        if text.len() == "2026-03-01".len() {
            return self.day_edge(text.parse().ok()?, edge);
        }
        if let Ok(exact) = text.parse::<Timestamp>() {
            return Some(exact);
        }
        let local: DateTime = text.parse().ok()?;
        Some(local.to_zoned(self.zone.clone()).ok()?.timestamp())
    }

    fn day_edge(&self, day: Date, edge: Edge) -> Option<Timestamp> {
        let start_of = |day: Date| {
            let midnight = day.to_datetime(Time::midnight());
            Some(midnight.to_zoned(self.zone.clone()).ok()?.timestamp())
        };
        match edge {
            Edge::Start => start_of(day),
            Edge::End => {
                let next = start_of(day.tomorrow().ok()?)?;
                next.checked_sub(1.nanosecond()).ok()
            }
        }
    }
}

/// Reads how long something takes or lasts: `30min`, `36h`, `7d`, `2w`, `6mo`, `1y`.
pub(crate) fn parse_span(text: &str) -> Option<Span> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(unit_at)?;
    let n: i64 = digits.parse().ok()?;
    let span = match unit.trim_start() {
        "s" | "sec" => Span::new().try_seconds(n),
        "m" | "min" => Span::new().try_minutes(n),
        "h" => Span::new().try_hours(n),
        "d" => Span::new().try_days(n),
        "w" => Span::new().try_weeks(n),
        "mo" => Span::new().try_months(n),
        "y" => Span::new().try_years(n),
        _ => return None,
    };
    span.ok()
}
