//! Labels of a time axis: as many as fit, all of one kind.

use jiff::ToSpan as _;
use jiff::civil::{DateTime, Time, date};

use super::frame::{FONT_SLACK, GROUP, TICK};
use super::scene::Anchor;
use super::time::{Step, TimeAxis};

/// A label below the axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AxisLabel {
    pub(super) at: f64,
    pub(super) label: String,
    pub(super) anchor: Anchor,
    /// Position of the tick that it refers to.
    pub(super) tick: Option<f64>,
}

impl AxisLabel {
    fn extent(&self, width: f64) -> (f64, f64) {
        match self.anchor {
            Anchor::Start => (self.at, self.at + width),
            Anchor::Middle => (self.at - width / 2.0, self.at + width / 2.0),
            Anchor::End => (self.at - width, self.at),
        }
    }

    /// Whether a vertical line at `x` would touch the label.
    pub(super) fn covers(&self, x: f64) -> bool {
        const GAP: f64 = 2.0;
        let (begin, end) = self.extent(TICK.width(&self.label) * FONT_SLACK);
        begin - GAP < x && x < end + GAP
    }
}

/// The labels, and a second row with what several of them have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct AxisLabels {
    pub(super) upper: Vec<AxisLabel>,
    pub(super) lower: Vec<AxisLabel>,
}

/// The interval of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Every {
    Slot,
    Hours(i8),
    Day,
    /// Mondays.
    Week,
    Month,
    Quarter,
    Years(i16),
}

/// One way to label an axis.
struct Labeling {
    every: Every,
    format: &'static str,
    /// The second row.
    below: Option<LowerLabels>,
}

/// Interval, full format, and a shorter format for when that does not fit.
type LowerLabels = (Every, &'static str, &'static str);

const fn labeling(every: Every, format: &'static str, below: Option<LowerLabels>) -> Labeling {
    Labeling {
        every,
        format,
        below,
    }
}

const DAYS: Option<LowerLabels> = Some((Every::Day, "%a %-d %b", "%-d %b"));
const MONTHS: Option<LowerLabels> = Some((Every::Month, "%B %Y", "%b %Y"));
const YEARS: Option<LowerLabels> = Some((Every::Years(1), "%Y", "%Y"));

/// The labelings for each step, finest first, followed by those of [`COARSER`].
fn labelings_for(step: Step) -> &'static [Labeling] {
    match step {
        Step::Hour | Step::Block(_) => {
            const {
                &[
                    labeling(Every::Slot, "%H:%M", DAYS),
                    labeling(Every::Hours(2), "%H:%M", DAYS),
                    labeling(Every::Hours(3), "%H:%M", DAYS),
                    labeling(Every::Hours(6), "%H:%M", DAYS),
                    labeling(Every::Hours(12), "%H:%M", DAYS),
                    labeling(Every::Day, "%a %-d", MONTHS),
                    labeling(Every::Day, "%-d", MONTHS),
                    labeling(Every::Week, "%-d", MONTHS),
                ]
            }
        }
        Step::Day => {
            const {
                &[
                    labeling(Every::Slot, "%a %-d %b", None),
                    labeling(Every::Slot, "%-d", MONTHS),
                    labeling(Every::Week, "%-d", MONTHS),
                ]
            }
        }
        Step::Week => {
            const {
                &[
                    labeling(Every::Slot, "%-d %b", YEARS),
                    labeling(Every::Slot, "%-d", MONTHS),
                ]
            }
        }
        Step::Month => {
            const {
                &[
                    labeling(Every::Slot, "%b %Y", None),
                    labeling(Every::Slot, "%b", YEARS),
                ]
            }
        }
        Step::Years(_) => const { &[labeling(Every::Slot, "%Y", None)] },
    }
}

const COARSER: &[Labeling] = &[
    labeling(Every::Month, "%b", YEARS),
    labeling(Every::Quarter, "%b", YEARS),
    labeling(Every::Years(1), "%Y", None),
    labeling(Every::Years(2), "%Y", None),
    labeling(Every::Years(5), "%Y", None),
    labeling(Every::Years(10), "%Y", None),
    labeling(Every::Years(50), "%Y", None),
    labeling(Every::Years(100), "%Y", None),
    labeling(Every::Years(500), "%Y", None),
    labeling(Every::Years(1000), "%Y", None),
    labeling(Every::Years(5000), "%Y", None),
];

impl AxisLabels {
    /// Labels an axis that begins at `left` and whose slots have this width.
    pub(super) fn new(line: &TimeAxis, left: f64, width: f64) -> Self {
        if line.slots.is_empty() {
            return AxisLabels::default();
        }
        let ways = labelings_for(line.step).iter().chain(COARSER);
        let right = left + width * line.slots.len() as f64;
        for way in ways {
            let near = upper_labels(way, line, left, width, right);
            if fit_without_overlap(&near) {
                let below = way
                    .below
                    .map(|way| lower_labels(way, line, left, width, right));
                return AxisLabels {
                    upper: near,
                    lower: below.unwrap_or_default(),
                };
            }
        }
        AxisLabels::default()
    }
}

fn upper_labels(
    way: &Labeling,
    line: &TimeAxis,
    left: f64,
    width: f64,
    right: f64,
) -> Vec<AxisLabel> {
    // A single day of many is labelled at the centre of its column, a month at its start.
    let whole = match way.every {
        Every::Slot => true,
        Every::Week => line.step == Step::Day,
        Every::Hours(_) => line.step == Step::Hour,
        _ => false,
    };
    let begins = period_starts(way.every, &line.slots);
    let marks = begins.map(|place| {
        let begin = left + width * place as f64;
        let label = line.slots[place].strftime(way.format).to_string();
        let (at, anchor, tick) = match way.every {
            _ if whole => (begin + width / 2.0, Anchor::Middle, None),
            Every::Hours(_) => (begin, Anchor::Middle, Some(begin)),
            _ => (begin + 5.0, Anchor::Start, Some(begin)),
        };
        AxisLabel {
            at,
            label,
            anchor,
            tick,
        }
    });
    // Omits labels that extend past the axis, unless there is only one slot.
    let inside = |mark: &AxisLabel| {
        let (_, end) = mark.extent(TICK.width(&mark.label) * FONT_SLACK);
        line.slots.len() == 1 || end <= right + 16.0
    };
    let mut marks: Vec<AxisLabel> = marks.filter(inside).collect();
    // Also labels the period that begins before the axis, if there is room.
    if !whole && marks.first().is_none_or(|mark| mark.tick != Some(left)) {
        let label = line
            .slots
            .first()
            .map(|time| time.strftime(way.format).to_string());
        let first = AxisLabel {
            at: left,
            label: label.unwrap_or_default(),
            anchor: Anchor::Start,
            tick: None,
        };
        marks.insert(0, first);
        if !fit_without_overlap(&marks[..marks.len().min(2)]) {
            marks.remove(0);
        }
    }
    marks
}

fn fit_without_overlap(marks: &[AxisLabel]) -> bool {
    const GAP: f64 = 6.0;
    let reach = |mark: &AxisLabel| mark.extent(TICK.width(&mark.label) * FONT_SLACK);
    marks
        .windows(2)
        .all(|pair| reach(&pair[0]).1 + GAP <= reach(&pair[1]).0)
}

/// Labels of periods, at their start. Uses the short format if an inner one does not fit before the
/// next; omits those that still do not fit.
fn lower_labels(
    (every, full, short): LowerLabels,
    line: &TimeAxis,
    left: f64,
    width: f64,
    right: f64,
) -> Vec<AxisLabel> {
    const GAP: f64 = 14.0;
    let mut places: Vec<usize> = period_starts(every, &line.slots).collect();
    if places.first() != Some(&0) {
        places.insert(0, 0);
    }
    let at = |place: usize| left + width * place as f64;
    let ends = places.iter().skip(1).map(|place| at(*place));
    let ends: Vec<f64> = ends.chain([right + 24.0]).collect();
    let marks = |format: &str| -> Vec<Option<AxisLabel>> {
        let mark = |(place, end): (&usize, &f64)| {
            let label = line.slots[*place].strftime(format).to_string();
            let begin = at(*place);
            let fits = begin + GROUP.width(&label) * FONT_SLACK + GAP <= *end;
            fits.then_some(AxisLabel {
                at: if *place == 0 { begin } else { begin + 5.0 },
                label,
                anchor: Anchor::Start,
                tick: (*place > 0).then_some(begin),
            })
        };
        places.iter().zip(&ends).map(mark).collect()
    };
    let mut chosen = marks(full);
    let inner = chosen.get(1..chosen.len() - 1).unwrap_or_default();
    if inner.iter().any(Option::is_none) {
        chosen = marks(short);
    }
    chosen.into_iter().flatten().collect()
}

/// Indexes of the slots that begin a new period.
fn period_starts(every: Every, places: &[DateTime]) -> impl Iterator<Item = usize> {
    let before = |at: usize| at.checked_sub(1).and_then(|at| places.get(at));
    (0..places.len()).filter(move |&at| {
        let begin = floor(every, places[at]);
        match before(at) {
            _ if every == Every::Slot => true,
            Some(before) => floor(every, *before) != begin,
            None => begin == places[at],
        }
    })
}

fn floor(every: Every, time: DateTime) -> DateTime {
    let midnight = |date: jiff::civil::Date| date.to_datetime(Time::midnight());
    let day = midnight(time.date());
    match every {
        Every::Slot => time,
        Every::Hours(hours) => {
            let hour = i64::from(time.hour() / hours * hours);
            day.checked_add(hour.hours()).unwrap_or(day)
        }
        Every::Day => day,
        Every::Week => {
            let days = i64::from(time.weekday().to_monday_zero_offset());
            day.checked_sub(days.days()).unwrap_or(day)
        }
        Every::Month => midnight(date(time.year(), time.month(), 1)),
        Every::Quarter => midnight(date(time.year(), (time.month() - 1) / 3 * 3 + 1, 1)),
        Every::Years(years) => {
            let year = time.year().div_euclid(years).saturating_mul(years);
            midnight(date(year.max(-9999), 1, 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bar;
    use super::*;

    fn marks(first: &str, last: &str, step: Step) -> String {
        let bar = |time: &str| Bar {
            time: Some(time.parse().unwrap()),
            ..Bar::default()
        };
        let line = TimeAxis::new(&[bar(first), bar(last)], step, 900);
        let marks = AxisLabels::new(&line, 100.0, 900.0 / line.slots.len() as f64);
        assert!(fit_without_overlap(&marks.upper));
        let join = |marks: &[AxisLabel]| {
            let labels: Vec<&str> = marks.iter().map(|mark| mark.label.as_str()).collect();
            labels.join(" ")
        };
        format!("{} | {}", join(&marks.upper), join(&marks.lower))
    }

    #[test]
    fn labels_thin_out_as_columns_get_narrow() {
        for (first, last, step, shown) in [
            ("2026-11-15", "2026-11-15", Step::Day, "Sun 15 Nov | "),
            (
                "2026-11-09",
                "2026-11-15",
                Step::Day,
                "Mon 9 Nov Tue 10 Nov Wed 11 Nov Thu 12 Nov Fri 13 Nov Sat 14 Nov Sun 15 Nov | ",
            ),
            (
                "2026-10-28",
                "2026-11-15",
                Step::Day,
                "28 29 30 31 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 | October 2026 November 2026",
            ),
            (
                "2026-08-18",
                "2026-11-15",
                Step::Day,
                "24 31 7 14 21 28 5 12 19 26 2 9 | August 2026 September 2026 October 2026 November 2026",
            ),
            (
                "2025-10-12",
                "2026-11-15",
                Step::Day,
                "Oct Nov Dec Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov | 2025 2026",
            ),
            (
                "2026-11-14T18:00",
                "2026-11-15T12:00",
                Step::Hour,
                "18:00 19:00 20:00 21:00 22:00 23:00 00:00 01:00 02:00 03:00 04:00 05:00 06:00 07:00 08:00 09:00 10:00 11:00 12:00 | Sat 14 Nov Sun 15 Nov",
            ),
            (
                "2026-11-12T18:00",
                "2026-11-15T12:00",
                Step::Hour,
                "18:00 00:00 06:00 12:00 18:00 00:00 06:00 12:00 18:00 00:00 06:00 12:00 | Fri 13 Nov Sat 14 Nov Sun 15 Nov",
            ),
            (
                "2026-01-01",
                "2026-11-01",
                Step::Month,
                "Jan 2026 Feb 2026 Mar 2026 Apr 2026 May 2026 Jun 2026 Jul 2026 Aug 2026 Sep 2026 Oct 2026 Nov 2026 | ",
            ),
            (
                "0001-01-01",
                "2026-11-15",
                Step::Day,
                "0000 0100 0200 0300 0400 0500 0600 0700 0800 0900 1000 1100 1200 1300 1400 1500 1600 1700 1800 1900 | ",
            ),
        ] {
            assert_eq!(marks(first, last, step), shown, "{first} to {last}");
        }
    }
}
