//! What rows are about, for people.

use std::collections::HashMap;

use annals::cost::{Dimension, Part, Report};
use jiff::civil::Date;

use crate::commands::row::{Short, message};
use crate::render::style::{DIM, ID};
use crate::render::table::{Cell, Column};
use crate::render::time::Clock;

/// Turns the parts of rows into columns and cells.
pub(super) struct Keys<'a> {
    clock: &'a Clock,
    /// Sessions by ids that are short and still tell them apart.
    short: Short,
    /// How many directories have a name.
    names: HashMap<&'a str, usize>,
}

impl<'a> Keys<'a> {
    pub(super) fn of(report: &'a Report, clock: &'a Clock) -> Self {
        let parts = || report.rows.iter().flat_map(|row| &row.parts);
        let sessions = parts().filter_map(|part| session(part));
        let mut paths: HashMap<&str, std::collections::HashSet<&str>> = HashMap::new();
        for part in parts().filter(|part| part.dimension == Dimension::Project) {
            let name = part.label.as_deref().unwrap_or_default();
            paths.entry(name).or_default().insert(part.key());
        }
        let names = paths.into_iter().map(|(name, paths)| (name, paths.len()));
        Keys {
            clock,
            short: Short::of(sessions),
            names: names.collect(),
        }
    }

    /// The columns of a dimension.
    pub(super) fn columns(dimension: Dimension) -> Vec<Column> {
        let wide = |header| Column::new(header).min(12).max(48).priority(250);
        match dimension {
            Dimension::Hour => vec![Column::new("HOUR").min(13).priority(250)],
            Dimension::Day => vec![Column::new("DAY").min(10).priority(250)],
            Dimension::Week => vec![Column::new("WEEK").min(8).priority(250)],
            Dimension::Month => vec![Column::new("MONTH").priority(250)],
            Dimension::Block => vec![
                Column::new("BLOCK").min(16).priority(250),
                Column::new("STATE").priority(80),
            ],
            Dimension::Session => vec![
                Column::new("SESSION").style(ID).priority(250),
                Column::new("PROJECT").min(8).max(24).priority(90),
            ],
            Dimension::Project => vec![wide("PROJECT").middle()],
            Dimension::Model => vec![wide("MODEL")],
            Dimension::Agent => vec![wide("AGENT")],
            Dimension::Branch => vec![
                Column::new("CONVERSATION").style(ID).min(17).priority(250),
                Column::new("BEGINS").min(12).max(40).priority(90),
            ],
            Dimension::GitBranch => vec![wide("GIT BRANCH")],
            _ => vec![Column::new("LAYOUT").min(8).priority(250)],
        }
    }

    /// The cells of a part, one for each column.
    pub(super) fn cells(&self, part: &Part) -> Vec<Cell> {
        let Some(value) = part.value.as_deref() else {
            let absent = Cell::styled(part.key(), DIM);
            let rest = Keys::columns(part.dimension).len() - 1;
            return std::iter::once(absent)
                .chain(std::iter::repeat_n(Cell::new(""), rest))
                .collect();
        };
        let label = part.label.as_deref().unwrap_or_default();
        match part.dimension {
            Dimension::Day => vec![Cell::new(day(value))],
            Dimension::Week => vec![Cell::new(self.week(value, part))],
            Dimension::Block => {
                let (start, end) = part.period.unwrap_or_default();
                let now = self.clock.now;
                let active = start <= now && now < end;
                vec![
                    Cell::new(self.clock.stretch(start, end)),
                    match active {
                        true => Cell::new("active"),
                        false => Cell::styled("done", DIM),
                    },
                ]
            }
            Dimension::Session => vec![Cell::new(self.short.get(value)), Cell::new(label)],
            Dimension::Project => vec![Cell::new(match self.names.get(label) {
                Some(1) if !label.is_empty() => label,
                _ => value,
            })],
            Dimension::Branch => {
                let name = match value.split_once('@') {
                    Some((session, leaf)) => {
                        format!("{}@{}", self.short.get(session), message(leaf))
                    }
                    None => self.short.get(value).to_owned(),
                };
                vec![Cell::new(name), Cell::new(label)]
            }
            _ => vec![Cell::new(value)],
        }
    }

    /// `2026-W46 9–15 Nov`
    fn week(&self, value: &str, part: &Part) -> String {
        match part.period {
            Some((start, end)) => format!("{value} {}", self.clock.days(start, end)),
            None => value.to_owned(),
        }
    }
}

/// The session that a part names.
fn session(part: &Part) -> Option<&str> {
    let value = part.value.as_deref()?;
    match part.dimension {
        Dimension::Session => Some(value),
        Dimension::Branch => Some(value.split_once('@').map_or(value, |(id, _)| id)),
        _ => None,
    }
}

/// `2026-11-15 Sun`
fn day(value: &str) -> String {
    match value.parse::<Date>() {
        Ok(date) => date.strftime("%Y-%m-%d %a").to_string(),
        Err(_) => value.to_owned(),
    }
}

/// A model without what all of them have in common: `opus-4-1`.
pub(super) fn short_model(name: &str) -> &str {
    let name = name.rsplit(['/', ':']).next().unwrap_or(name);
    let name = name.strip_prefix("claude-").unwrap_or(name);
    let is_date = |end: &str| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('-') {
        Some((stem, end)) if is_date(end) && !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_short_and_never_empty() {
        for (name, short) in [
            ("claude-opus-4-1-20250805", "opus-4-1"),
            ("claude-sonnet-4-5", "sonnet-4-5"),
            ("anthropic/claude-haiku-4-5", "haiku-4-5"),
            ("gpt-5-codex", "gpt-5-codex"),
            ("20250805", "20250805"),
            ("-20250805", "-20250805"),
        ] {
            assert_eq!(short_model(name), short);
        }
    }
}
