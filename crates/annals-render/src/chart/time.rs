//! A time axis without gaps.

use jiff::civil::{DateTime, Time, date};
use jiff::{RoundMode, ToSpan as _, Unit};

use super::{super::size, Bar};

/// The duration of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One hour.
    Hour,
    /// This many hours, starting at any hour.
    Block(u8),
    /// One day.
    Day,
    /// Starting on any day.
    Week,
    /// One month.
    Month,
    /// This many years.
    Years(i16),
}

impl Step {
    fn coarser(self) -> Option<Step> {
        match self {
            Step::Hour | Step::Block(_) => Some(Step::Day),
            Step::Day => Some(Step::Week),
            Step::Week => Some(Step::Month),
            Step::Month => Some(Step::Years(1)),
            Step::Years(1) => Some(Step::Years(10)),
            Step::Years(10) => Some(Step::Years(100)),
            Step::Years(_) => None,
        }
    }

    /// The duration of a slot of the axis.
    fn slot_step(self) -> Step {
        match self {
            Step::Block(_) => Step::Hour,
            step => step,
        }
    }

    /// The number of slots that a column takes.
    fn slots(self) -> usize {
        match self {
            Step::Block(hours) => usize::from(hours.max(1)),
            _ => 1,
        }
    }

    /// The start of the slot that contains a time.
    fn floor(self, time: DateTime) -> DateTime {
        let midnight = time.date().to_datetime(Time::midnight());
        match self {
            Step::Hour | Step::Block(_) => {
                let hour = jiff::civil::DateTimeRound::new()
                    .smallest(Unit::Hour)
                    .mode(RoundMode::Trunc);
                time.round(hour).unwrap_or(time)
            }
            Step::Day => midnight,
            Step::Week => {
                let days = i64::from(time.weekday().to_monday_zero_offset());
                midnight.checked_sub(days.days()).unwrap_or(midnight)
            }
            Step::Month => date(time.year(), time.month(), 1).to_datetime(Time::midnight()),
            Step::Years(years) => {
                let year = time.year().div_euclid(years) * years;
                date(year.max(-9999), 1, 1).to_datetime(Time::midnight())
            }
        }
    }

    fn next(self, time: DateTime) -> Option<DateTime> {
        let span = match self {
            Step::Hour | Step::Block(_) => 1.hours(),
            Step::Day => 1.days(),
            Step::Week => 1.weeks(),
            Step::Month => 1.months(),
            Step::Years(years) => years.years(),
        };
        time.checked_add(span).ok()
    }

    /// The period of a column as text.
    fn describe(self, time: DateTime) -> String {
        match self {
            Step::Hour => time.strftime("%-d %B %Y, %H:%M").to_string(),
            Step::Block(hours) => {
                let end = time.checked_add(i64::from(hours).hours()).unwrap_or(time);
                format!(
                    "{} to {}",
                    time.strftime("%-d %B %Y, %H:%M"),
                    end.strftime("%H:%M")
                )
            }
            Step::Day => time.strftime("%A, %-d %B %Y").to_string(),
            Step::Week => format!("Week from {}", time.strftime("%-d %B %Y")),
            Step::Month => time.strftime("%B %Y").to_string(),
            Step::Years(1) => time.strftime("%Y").to_string(),
            Step::Years(years) => {
                format!(
                    "{} to {}",
                    time.year(),
                    time.year().saturating_add(years - 1)
                )
            }
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Step::Hour => "hour",
            Step::Block(_) => "block",
            Step::Day => "day",
            Step::Week => "week",
            Step::Month => "month",
            Step::Years(1) => "year",
            Step::Years(10) => "decade",
            Step::Years(_) => "century",
        }
    }
}

/// The slots of a time axis, and their columns.
#[derive(Clone, Debug)]
pub(super) struct TimeAxis {
    pub(super) step: Step,
    /// The start of each slot.
    pub(super) slots: Vec<DateTime>,
    pub(super) columns: Vec<Column>,
    /// A note if the columns are longer than requested.
    pub(super) note: Option<String>,
}

/// The bars of one slot, or of several slots for blocks.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) slot: usize,
    pub(super) slots: usize,
    pub(super) bar: Bar,
}

impl TimeAxis {
    /// Places the bars in at most `most` slots from the first to the last. Uses longer steps if
    /// columns would be too narrow.
    pub(super) fn new(bars: &[Bar], asked: Step, most: usize) -> Self {
        let mut timed: Vec<(DateTime, &Bar)> = bars
            .iter()
            .filter_map(|bar| Some((bar.time?, bar)))
            .collect();
        timed.sort_by_key(|(time, _)| *time);
        let mut step = asked;
        let places = loop {
            match (
                slot_starts(&timed, step, step == asked, most),
                step.coarser(),
            ) {
                (Some(places), _) => break places,
                (None, Some(coarser)) => step = coarser,
                (None, None) => break Vec::new(),
            }
        };
        let note = (step != asked).then(|| {
            format!(
                "Each column is a {}: {} would not fit.",
                step.noun(),
                size::pluralize(timed.len() as u64, asked.noun())
            )
        });
        let mut columns: Vec<Column> = Vec::new();
        for (time, bar) in timed {
            let place = places.partition_point(|begin| *begin <= time);
            let place = place.saturating_sub(1);
            let Some(begin) = places.get(place) else {
                continue;
            };
            match columns.last_mut() {
                Some(column) if column.slot == place => {
                    column.bar.parts.extend_from_slice(&bar.parts);
                }
                _ => columns.push(Column {
                    slot: place,
                    slots: step.slots().min(places.len() - place),
                    bar: Bar {
                        label: match step {
                            Step::Block(_) | Step::Hour => step.describe(time),
                            _ => step.describe(*begin),
                        },
                        ..bar.clone()
                    },
                }),
            }
        }
        TimeAxis {
            step,
            slots: places,
            columns,
            note,
        }
    }
}

/// The start of each slot from the first to the last bar; `None` if there are too many.
fn slot_starts(
    timed: &[(DateTime, &Bar)],
    step: Step,
    asked: bool,
    most: usize,
) -> Option<Vec<DateTime>> {
    let (Some((first, _)), Some((last, _))) = (timed.first(), timed.last()) else {
        return Some(Vec::new());
    };
    let begin = match step {
        // Requested weeks begin on the day of the first bar.
        Step::Week if asked => Step::Day.floor(*first),
        _ => step.floor(*first),
    };
    let end = match step {
        Step::Block(hours) => last
            .checked_add((i64::from(hours) - 1).hours())
            .unwrap_or(*last),
        _ => *last,
    };
    let mut places = vec![begin];
    while let Some(next) = places
        .last()
        .and_then(|place| step.slot_step().next(*place))
    {
        if next > end {
            break;
        }
        if places.len() == most {
            return None;
        }
        places.push(next);
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(times: &[&str]) -> Vec<Bar> {
        times
            .iter()
            .map(|time| Bar {
                time: Some(time.parse().unwrap()),
                parts: vec![(0, 1)],
                ..Bar::default()
            })
            .collect()
    }

    fn line(times: &[&str], step: Step, most: usize) -> (Step, usize, Vec<usize>) {
        let line = TimeAxis::new(&bars(times), step, most);
        let at = line.columns.iter().map(|column| column.slot).collect();
        (line.step, line.slots.len(), at)
    }

    #[test]
    fn days_without_a_bar_have_a_slot() {
        let days = ["2026-03-05", "2026-02-27", "2026-03-01"];
        assert_eq!(line(&days, Step::Day, 100), (Step::Day, 7, vec![0, 2, 6]));
        let months = ["2025-11-01", "2026-02-01"];
        assert_eq!(line(&months, Step::Month, 9), (Step::Month, 4, vec![0, 3]));
    }

    #[test]
    fn month_end_bars_stay_in_their_month() {
        let months = ["2026-01-31", "2026-02-28", "2026-03-31"];
        assert_eq!(
            line(&months, Step::Month, 9),
            (Step::Month, 3, vec![0, 1, 2])
        );
    }

    #[test]
    fn too_many_slots_use_longer_steps_and_a_note() {
        let days = ["2026-01-05", "2026-01-06", "2026-02-01"];
        assert_eq!(line(&days, Step::Day, 20), (Step::Week, 4, vec![0, 3]));
        let note = TimeAxis::new(&bars(&days), Step::Day, 20).note;
        assert_eq!(
            note.as_deref(),
            Some("Each column is a week: 3 days would not fit.")
        );
        let ages = ["0001-01-01T00:00", "2026-01-01T05:00"];
        assert_eq!(
            line(&ages, Step::Hour, 800),
            (Step::Years(10), 203, vec![0, 202])
        );
        let all = ["-009999-01-01", "9999-12-31"];
        assert_eq!(line(&all, Step::Day, 800).0, Step::Years(100));
    }

    #[test]
    fn blocks_take_one_slot_per_hour() {
        let line = TimeAxis::new(
            &bars(&["2026-01-05T07:00", "2026-01-05T14:00"]),
            Step::Block(5),
            100,
        );
        let taken: Vec<_> = line
            .columns
            .iter()
            .map(|column| (column.slot, column.slots))
            .collect();
        assert_eq!((line.slots.len(), taken), (12, vec![(0, 5), (7, 5)]));
        assert_eq!(line.columns[1].bar.label, "5 January 2026, 14:00 to 19:00");
    }

    #[test]
    fn repeated_clock_hour_is_one_column() {
        let hours = ["2026-10-25T02:00", "2026-10-25T02:00", "2026-10-25T03:00"];
        assert_eq!(line(&hours, Step::Hour, 9), (Step::Hour, 2, vec![0, 1]));
    }
}
