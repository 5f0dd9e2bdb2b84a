//! Retention periods.

use std::fmt;

use jiff::{Span, Timestamp};

use crate::time_input::{self, Now};

/// Time that a session is kept after its last activity.
#[derive(Clone, Debug)]
pub enum Term {
    /// For a duration.
    For {
        /// The term as it was written.
        text: String,
        /// The duration.
        span: Span,
    },
    /// Forever.
    Never,
}

impl Term {
    /// Parses `90d`, `36h`, `2w`, `6mo`, `1y` or `never`.
    ///
    /// `m` is refused: it may mean minutes or months, and what is deleted must not depend on that.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "never" {
            return Some(Term::Never);
        }
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if unit.trim_start() == "m" {
            return None;
        }
        Some(Term::For {
            text: text.to_owned(),
            span: time_input::parse_span(text)?,
        })
    }

    /// Returns the time before which a session has expired; `None` if none has.
    pub fn cutoff(&self, now: &Now) -> Option<Timestamp> {
        match self {
            Term::For { span, .. } => now.before(*span),
            Term::Never => None,
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Term::For { text, .. } => text,
            Term::Never => "never",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn terms_are_counted_in_calendar_days() {
        let now = Now {
            time: "2026-03-30T12:00:00+02:00".parse().unwrap(),
            zone: TimeZone::get("Europe/Berlin").unwrap(),
        };
        for (text, cutoff) in [
            ("0d", Some("2026-03-30T12:00:00+02:00")),
            ("90min", Some("2026-03-30T10:30:00+02:00")),
            // Daylight saving time began in between.
            ("2d", Some("2026-03-28T12:00:00+01:00")),
            (" 2w ", Some("2026-03-16T12:00:00+01:00")),
            ("1mo", Some("2026-02-28T12:00:00+01:00")),
            ("1y", Some("2025-03-30T12:00:00+02:00")),
            ("never", None),
            // Out of the calendar's range: nothing is that old.
            ("19000y", None),
        ] {
            let term = Term::parse(text).unwrap_or_else(|| panic!("{text}"));
            let cutoff = cutoff.map(|time| time.parse().unwrap());
            assert_eq!(term.cutoff(&now), cutoff, "{text}");
        }
    }

    #[test]
    fn parse_refuses_ambiguous_or_invalid_terms() {
        for text in [
            "",
            "d",
            "30",
            "30m",
            "3 m",
            "-30d",
            "+30d",
            "30x",
            "1.5d",
            "always",
            "2026-01-01",
            "99999999999999999999d",
            "٣d",
            "30d ago",
        ] {
            assert!(Term::parse(text).is_none(), "{text:?}");
        }
    }
}
