//! Hours, days, weeks and months of a time zone.

use std::collections::{BTreeMap, HashMap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Hour of the clock.
    Hour,
    /// Day from midnight to midnight: 23 or 25 hours where the clocks change.
    Day,
    /// ISO 8601 week, from Monday to Sunday.
    Week,
    /// Calendar month.
    Month,
}

/// Calendar period: an hour, day, week or month.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Period {
    /// Name: `2026-11-15 14:00`, `2026-11-15`, `2026-W46`, `2026-11`.
    pub(crate) key: String,
    /// First moment of the period.
    pub start: Timestamp,
    /// First moment after the period.
    pub end: Timestamp,
}

impl Period {
    /// Returns the period that contains a time.
    pub fn containing(time: Timestamp, unit: Unit, zone: &TimeZone) -> Self {
        let local = time.to_zoned(zone.clone());
        let day = local.date();
        let (key, first, next) = match unit {
            Unit::Hour => return hour(&local, zone),
            Unit::Day => (day.to_string(), Some(day), day.tomorrow().ok()),
            Unit::Week => {
                let week = day.iso_week_date();
                let monday = i64::from(day.weekday().to_monday_zero_offset());
                let monday = day.checked_sub(monday.days()).ok();
                let next = monday.and_then(|day| day.checked_add(7.days()).ok());
                let key = format!("{:04}-W{:02}", week.year(), week.week());
                (key, monday, next)
            }
            Unit::Month => {
                let first = day.first_of_month();
                let next = first.checked_add(1.month()).ok();
                (day.strftime("%Y-%m").to_string(), Some(first), next)
            }
        };
        Period {
            key,
            start: midnight(first, zone).unwrap_or(Timestamp::MIN),
            end: midnight(next, zone).unwrap_or(Timestamp::MAX),
        }
    }

    /// Returns the length of the period.
    pub(crate) fn length(&self) -> SignedDuration {
        self.end.duration_since(self.start)
    }
}

/// Returns the hour of a time. Where clocks go back, the key contains the UTC offset to tell the
/// two hours apart.
fn hour(local: &Zoned, zone: &TimeZone) -> Period {
    let time = local.timestamp();
    let past = i64::from(local.minute()) * 60_000_000_000
        + i64::from(local.second()) * 1_000_000_000
        + i64::from(local.subsec_nanosecond());
    let start = time.checked_sub(SignedDuration::from_nanos(past));
    let start = start.unwrap_or(Timestamp::MIN);
    let end = start.checked_add(SignedDuration::from_hours(1));
    let end = end.unwrap_or(Timestamp::MAX);
    // Clocks may change within an hour, if by half an hour.
    let since = time.checked_add(SignedDuration::from_nanos(1));
    let before = since
        .ok()
        .and_then(|time| zone.preceding(time).next())
        .map(|change| change.timestamp());
    let after = zone.following(time).next().map(|change| change.timestamp());
    let twice = zone.to_ambiguous_timestamp(local.datetime()).is_ambiguous();
    let key = match twice {
        true => local.strftime("%Y-%m-%d %H:00 %:z"),
        false => local.strftime("%Y-%m-%d %H:00"),
    };
    Period {
        key: key.to_string(),
        start: before.map_or(start, |change| change.max(start)),
        end: after.map_or(end, |change| change.min(end)),
    }
}

fn midnight(day: Option<Date>, zone: &TimeZone) -> Option<Timestamp> {
    let start = day?.to_zoned(zone.clone()).ok()?;
    Some(start.timestamp())
}

/// Numbers the periods of many times. Evaluates the zone's rules once per period, not once per
/// time.
#[derive(Debug)]
pub(super) struct Calendar {
    zone: TimeZone,
    unit: Unit,
    periods: Vec<Period>,
    /// End and number of each period, by its start.
    ranges: BTreeMap<Timestamp, (Timestamp, u32)>,
    named: HashMap<String, u32>,
    last: Option<(Timestamp, Timestamp, u32)>,
}

impl Calendar {
    pub(super) fn new(unit: Unit, zone: TimeZone) -> Self {
        Calendar {
            zone,
            unit,
            periods: Vec::new(),
            ranges: BTreeMap::new(),
            named: HashMap::new(),
            last: None,
        }
    }

    /// Returns the number of the period that contains a time.
    pub(super) fn number(&mut self, time: Timestamp) -> u32 {
        let holds = |start: Timestamp, end: Timestamp| start <= time && time < end;
        if let Some((start, end, number)) = self.last
            && holds(start, end)
        {
            return number;
        }
        let known = self.ranges.range(..=time).next_back();
        let known = known.map(|(&start, &(end, number))| (start, end, number));
        let found = match known {
            Some((start, end, number)) if holds(start, end) => (start, end, number),
            _ => self.add_period(time),
        };
        self.last = Some(found);
        found.2
    }

    fn add_period(&mut self, time: Timestamp) -> (Timestamp, Timestamp, u32) {
        let period = Period::containing(time, self.unit, &self.zone);
        let (start, end) = (period.start, period.end);
        let next = u32::try_from(self.periods.len()).unwrap_or(u32::MAX);
        let number = *self.named.entry(period.key.clone()).or_insert(next);
        match self.periods.get_mut(number as usize) {
            Some(known) => {
                known.start = known.start.min(start);
                known.end = known.end.max(end);
            }
            None => self.periods.push(period),
        }
        self.ranges.insert(start, (end, number));
        (start, end, number)
    }

    pub(super) fn period(&self, number: u32) -> Option<&Period> {
        self.periods.get(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str, unit: Unit, zone: &str) -> (String, i64) {
        let zone = TimeZone::get(zone).unwrap();
        let period = Period::containing(time.parse().unwrap(), unit, &zone);
        assert!(period.start <= time.parse().unwrap());
        assert!(period.end > time.parse().unwrap());
        (period.key.clone(), period.length().as_mins())
    }

    #[test]
    fn day_length_follows_clock_changes() {
        for (time, zone, day, hours) in [
            ("2026-03-29T12:00:00Z", "Europe/Berlin", "2026-03-29", 23),
            ("2026-10-25T12:00:00Z", "Europe/Berlin", "2026-10-25", 25),
            ("2026-10-24T21:59:59Z", "Europe/Berlin", "2026-10-24", 24),
            ("2026-10-24T22:00:00Z", "Europe/Berlin", "2026-10-25", 25),
            ("2026-10-25T22:59:59Z", "Europe/Berlin", "2026-10-25", 25),
            ("2026-03-08T12:00:00Z", "America/New_York", "2026-03-08", 23),
            ("2026-11-01T12:00:00Z", "America/New_York", "2026-11-01", 25),
            ("2026-11-02T04:59:59Z", "America/New_York", "2026-11-01", 25),
            // Midnight itself is skipped, or comes twice.
            (
                "2018-11-04T12:00:00Z",
                "America/Sao_Paulo",
                "2018-11-04",
                23,
            ),
            (
                "2018-02-17T12:00:00Z",
                "America/Sao_Paulo",
                "2018-02-17",
                25,
            ),
            ("2026-11-01T12:00:00Z", "America/Havana", "2026-11-01", 25),
            // A date that Samoa skipped.
            ("2011-12-30T09:59:59Z", "Pacific/Apia", "2011-12-29", 24),
            ("2011-12-30T10:00:00Z", "Pacific/Apia", "2011-12-31", 24),
        ] {
            assert_eq!(at(time, Unit::Day, zone), (day.to_owned(), hours * 60));
        }
    }

    #[test]
    fn weeks_are_numbered_by_iso_year() {
        for (time, week) in [
            ("2026-12-27T12:00:00Z", "2026-W52"),
            ("2026-12-28T12:00:00Z", "2026-W53"),
            ("2027-01-03T23:59:59Z", "2026-W53"),
            ("2027-01-04T00:00:00Z", "2027-W01"),
            ("2024-12-30T00:00:00Z", "2025-W01"),
        ] {
            assert_eq!(at(time, Unit::Week, "UTC"), (week.to_owned(), 7 * 24 * 60));
        }
        let winter = at("2026-10-25T12:00:00Z", Unit::Week, "Europe/Berlin");
        assert_eq!(winter, ("2026-W43".to_owned(), 169 * 60));
    }

    #[test]
    fn repeated_hour_gives_two_periods() {
        for (time, hour, minutes) in [
            ("2026-10-24T23:59:00Z", "2026-10-25 01:00", 60),
            ("2026-10-25T00:30:00Z", "2026-10-25 02:00 +02:00", 60),
            ("2026-10-25T01:30:00Z", "2026-10-25 02:00 +01:00", 60),
            ("2026-10-25T02:00:00Z", "2026-10-25 03:00", 60),
        ] {
            let found = at(time, Unit::Hour, "Europe/Berlin");
            assert_eq!(found, (hour.to_owned(), minutes));
        }
        // Clocks that change by half an hour.
        let half = at("2026-04-04T15:10:00Z", Unit::Hour, "Australia/Lord_Howe");
        assert_eq!(half, ("2026-04-05 01:00 +10:30".to_owned(), 30));
        let odd = at("2026-04-04T12:10:00Z", Unit::Hour, "Asia/Kathmandu");
        assert_eq!(odd, ("2026-04-04 17:00".to_owned(), 60));
    }

    #[test]
    fn month_ends_with_its_last_day() {
        let (key, minutes) = at("2024-02-29T23:00:00Z", Unit::Month, "UTC");
        assert_eq!((key.as_str(), minutes), ("2024-02", 29 * 24 * 60));
        for unit in [Unit::Hour, Unit::Day, Unit::Week, Unit::Month] {
            for time in [Timestamp::MIN, Timestamp::MAX] {
                let zone = TimeZone::get("Pacific/Apia").unwrap();
                let period = Period::containing(time, unit, &zone);
                assert!(period.start <= time && time <= period.end);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn calendar_agrees_with_period_of_each_time(
            seconds in proptest::collection::vec(1_600_000_000i64..1_700_000_000, 1..60)
        ) {
            let zone = TimeZone::get("America/New_York").unwrap();
            for unit in [Unit::Hour, Unit::Day, Unit::Week, Unit::Month] {
                let mut calendar = Calendar::new(unit, zone.clone());
                for &second in &seconds {
                    let time = Timestamp::from_second(second).unwrap();
                    let number = calendar.number(time);
                    let alone = Period::containing(time, unit, &zone);
                    proptest::prop_assert_eq!(calendar.period(number), Some(&alone));
                }
            }
        }
    }
}
