//! Times as people type them: `7d`, `3 days ago`, `monday`, `last week`, `2026-03-01`,
//! `2026-03-01T12:00`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

/// The accepted forms of times, for error messages.
pub const TIME_FORMS: &str = "\
an age (30min, 36h, 7d, 6mo, 2 weeks ago), a day (yesterday, monday, 17 nov, 2026-03-01), \
a period (last week, nov, 2026-03), a local time (12:00, 2026-03-01T12:00) or RFC 3339 \
(2026-03-01T12:00:00Z)";

const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The current time and time zone, which typed times depend on.
#[derive(Clone, Debug)]
pub struct Now {
    /// The current time.
    pub time: Timestamp,
    /// The time zone of days and hours.
    pub zone: TimeZone,
}

/// The start or end of a day or period.
#[derive(Clone, Copy)]
enum Edge {
    Start,
    End,
}

impl Now {
    /// Returns the name of the zone; its offset if it has none.
    pub fn zone_name(&self) -> String {
        match self.zone.iana_name() {
            Some(name) => name.to_owned(),
            None => {
                let time = self.time.to_zoned(self.zone.clone());
                time.strftime("%:z").to_string()
            }
        }
    }

    /// Parses the start of a period. A bare day, week, month or year means its first instant.
    pub fn parse_since(&self, text: &str) -> Option<Timestamp> {
        self.parse(text, Edge::Start)
    }

    /// Parses the end of a period. A bare day, week, month or year means its last instant.
    pub fn parse_until(&self, text: &str) -> Option<Timestamp> {
        self.parse(text, Edge::End)
    }

    /// Parses a day: `yesterday`, `monday`, `17 nov`, `3 days ago`, `2026-03-01`. A period
    /// means its first day.
    pub fn parse_day(&self, text: &str) -> Option<Date> {
        let lower = text.trim().to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        match self.parse_days(&words) {
            Some((first, _)) => Some(first),
            None => {
                let ago = self.parse_ago(&lower);
                let ago = ago.map(|time| time.to_zoned(self.zone.clone()).date());
                ago.or_else(|| text.trim().parse().ok())
            }
        }
    }

    fn parse(&self, text: &str, edge: Edge) -> Option<Timestamp> {
        let lower = text.trim().to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        if words == ["now"] {
            return Some(self.time);
        }
        self.parse_ago(&lower)
            .or_else(|| self.parse_words(&words, edge))
            .or_else(|| self.parse_date(text.trim(), edge))
    }

    fn zoned(&self) -> Zoned {
        self.time.to_zoned(self.zone.clone())
    }

    fn parse_ago(&self, text: &str) -> Option<Timestamp> {
        let age = text.strip_suffix(" ago").unwrap_or(text);
        self.before(parse_span(age.trim_end())?)
    }

    /// Parses a day or a longer period, or a time of a day.
    fn parse_words(&self, words: &[&str], edge: Edge) -> Option<Timestamp> {
        if let Some((time, day)) = words.split_last()
            && let Some(time) = parse_time(time)
        {
            let (first, last) = match day {
                [] => self.parse_days(&["today"])?,
                day => self.parse_days(day)?,
            };
            let local = first.to_datetime(time).to_zoned(self.zone.clone()).ok()?;
            return (first == last).then(|| local.timestamp());
        }
        let (first, last) = self.parse_days(words)?;
        match edge {
            Edge::Start => self.day_edge(first, edge),
            Edge::End => self.day_edge(last, edge),
        }
    }

    /// Parses the name of a day or a longer period; returns its first and last day. A name without a
    /// year means the latest that has begun.
    fn parse_days(&self, words: &[&str]) -> Option<(Date, Date)> {
        let today = self.zoned().date();
        let one = |day: Date| (day, day);
        match words {
            ["today"] => Some(one(today)),
            ["yesterday"] => Some(one(today.yesterday().ok()?)),
            ["this", unit] => period_around(today, unit),
            ["last", unit @ ("week" | "month" | "year")] => {
                let (first, _) = period_around(today, unit)?;
                period_around(first.yesterday().ok()?, unit)
            }
            ["last", name] => match weekday_until(today.yesterday().ok()?, name) {
                Some(day) => Some(one(day)),
                None => month_until(today.first_of_month().yesterday().ok()?, name),
            },
            [name] => match weekday_until(today, name) {
                Some(day) => Some(one(day)),
                None => month_until(today, name).or_else(|| year_and_month(name)),
            },
            [month, year] if is_year(year) => month_of(number(year)?, month_number(month)?),
            [a, b] => {
                let (month, day) = month_and_day(a, b)?;
                let years = [today.year(), today.year() - 1].into_iter();
                let mut days = years.filter_map(|year| Date::new(year, month, day).ok());
                days.find(|day| *day <= today).map(one)
            }
            [a, b, year] if is_year(year) => {
                let (month, day) = month_and_day(a, b.trim_end_matches(','))?;
                Date::new(number(year)?, month, day).ok().map(one)
            }
            _ => None,
        }
    }

    /// The time `span` ago; `None` if it is outside the calendar.
    pub(crate) fn before(&self, span: Span) -> Option<Timestamp> {
        Some(self.zoned().checked_sub(span).ok()?.timestamp())
    }

    fn parse_date(&self, text: &str, edge: Edge) -> Option<Timestamp> {
        // Dates first: jiff would read a bare day as a date and time at midnight.
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

/// Returns the week, month or year of a day.
fn period_around(day: Date, unit: &str) -> Option<(Date, Date)> {
    match unit {
        "week" => {
            let monday = weekday_until(day, "monday")?;
            Some((monday, monday.checked_add(6.days()).ok()?))
        }
        "month" => Some((day.first_of_month(), day.last_of_month())),
        "year" => Some((day.first_of_year(), day.last_of_year())),
        _ => None,
    }
}

/// Returns the last day with the name of a weekday, up to and including `day`.
fn weekday_until(day: Date, name: &str) -> Option<Date> {
    let wanted = i64::try_from(name_index(&WEEKDAYS, name)?).ok()?;
    let back = i64::from(day.weekday().to_monday_zero_offset()) - wanted;
    day.checked_sub(back.rem_euclid(7).days()).ok()
}

/// Returns the last month with this name that had begun on `day`.
fn month_until(day: Date, name: &str) -> Option<(Date, Date)> {
    let month = month_number(name)?;
    let year = match month <= day.month() {
        true => day.year(),
        false => day.year() - 1,
    };
    month_of(year, month)
}

/// Parses a month with its year: `2026-03`.
fn year_and_month(text: &str) -> Option<(Date, Date)> {
    let (year, month) = text.split_once('-').filter(|(year, _)| is_year(year))?;
    month_of(number(year)?, i8::try_from(number(month)?).ok()?)
}

fn month_of(year: i16, month: i8) -> Option<(Date, Date)> {
    let first = Date::new(year, month, 1).ok()?;
    Some((first, first.last_of_month()))
}

/// Parses a month and a day in either order.
fn month_and_day(a: &str, b: &str) -> Option<(i8, i8)> {
    let (month, day) = match month_number(a) {
        Some(month) => (month, number(b)?),
        None => (month_number(b)?, number(a)?),
    };
    Some((month, i8::try_from(day).ok()?))
}

fn month_number(name: &str) -> Option<i8> {
    i8::try_from(name_index(&MONTHS, name)? + 1).ok()
}

/// Returns the index of a name, of which the first three letters are enough.
fn name_index(names: &[&str], text: &str) -> Option<usize> {
    const MIN_LETTERS: usize = 3;
    let is_it = |name: &&str| text.len() >= MIN_LETTERS && name.starts_with(text);
    names.iter().position(is_it)
}

/// Parses a time of day: `9:30`, `12:00:30`.
fn parse_time(text: &str) -> Option<Time> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, second) = rest.split_once(':').unwrap_or((rest, "0"));
    let part = |text| i8::try_from(number(text)?).ok();
    Time::new(part(hour)?, part(minute)?, part(second)?, 0).ok()
}

fn is_year(text: &str) -> bool {
    text.len() == "2026".len() && number(text).is_some()
}

/// Parses a number of at most four digits, without a sign.
fn number(text: &str) -> Option<i16> {
    let is_number = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Parses a duration: `30min`, `36h`, `7d`, `2w`, `6mo`, `1y`, `3 days`.
pub(crate) fn parse_span(text: &str) -> Option<Span> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(unit_at)?;
    let n: i64 = digits.parse().ok()?;
    let span = match unit.trim_start() {
        "s" | "sec" | "secs" | "second" | "seconds" => Span::new().try_seconds(n),
        "m" | "min" | "mins" | "minute" | "minutes" => Span::new().try_minutes(n),
        "h" | "hour" | "hours" => Span::new().try_hours(n),
        "d" | "day" | "days" => Span::new().try_days(n),
        "w" | "week" | "weeks" => Span::new().try_weeks(n),
        "mo" | "month" | "months" => Span::new().try_months(n),
        "y" | "year" | "years" => Span::new().try_years(n),
        _ => return None,
    };
    span.ok()
}
