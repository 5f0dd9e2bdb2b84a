//! Key columns of a cost table.

use std::collections::{HashMap, HashSet};

use annals::cost::{Dimension, RowPart};
use jiff::civil::Date;

use super::CostOutput;
use annals::view::{CostLabels, ShortIds, short_message_id};
use annals_render::style::{DIM, ID};
use annals_render::table::{Cell, Column};
use annals_render::time::Clock;

/// Terminal width below which keys are shortened.
const NARROW_WIDTH: usize = 60;

/// Width beyond which titles are truncated.
const MAX_TITLE_WIDTH: usize = 40;

/// Turns the parts of rows into columns and cells.
pub(super) struct KeyColumns<'a> {
    clock: &'a Clock,
    labels: &'a CostLabels,
    /// Short unique ids of sessions.
    short: ShortIds,
    /// Number of directories or models that have a short name.
    names: HashMap<(Dimension, &'a str), usize>,
    /// True if rows have several keys, so each should be short.
    has_several_keys: bool,
    /// True if the project is a key, so sessions omit theirs.
    has_project_key: bool,
    /// True if the terminal is too narrow for full keys.
    is_narrow: bool,
}

impl<'a> KeyColumns<'a> {
    pub(super) fn new(output: &'a CostOutput<'_>, clock: &'a Clock, width: Option<usize>) -> Self {
        let report = output.report;
        let parts = || report.rows.iter().flat_map(|row| &row.parts);
        let mut names: HashMap<(Dimension, &str), HashSet<&str>> = HashMap::new();
        for part in parts() {
            if let Some(name) = short_name(part) {
                let full = names.entry((part.dimension, name)).or_default();
                full.insert(part.key());
            }
        }
        let names = names.into_iter().map(|(name, full)| (name, full.len()));
        KeyColumns {
            clock,
            labels: output.labels,
            short: ShortIds::new(parts().filter_map(session_id)),
            names: names.collect(),
            has_several_keys: report.by.len() > 1,
            has_project_key: report.by.contains(&Dimension::Project),
            is_narrow: width.is_some_and(|width| width < NARROW_WIDTH),
        }
    }

    /// Returns the columns of a dimension. Keys are shortened only if no other column can be.
    pub(super) fn columns(&self, dimension: Dimension) -> Vec<Column> {
        let key = |header| Column::new(header).priority(250).key();
        // The start of these is enough.
        let long = |header, min: usize| match self.is_narrow {
            true => key(header).min(min),
            false => key(header),
        };
        let name = |header| key(header).min(14).max(48);
        let title = |header| Column::title(header).cut(MAX_TITLE_WIDTH);
        match dimension {
            Dimension::Hour => vec![key("HOUR")],
            Dimension::Day => vec![key("DAY")],
            Dimension::Week => vec![long("WEEK", 9)],
            Dimension::Month => vec![key("MONTH")],
            Dimension::Block => vec![key("BLOCK"), Column::new("STATE").priority(80)],
            Dimension::Session if self.has_project_key => {
                vec![key("SESSION").style(ID), title("TITLE").priority(200)]
            }
            Dimension::Session => vec![
                key("SESSION").style(ID),
                title("TITLE").priority(200),
                Column::new("PROJECT").min(8).max(24).priority(65),
            ],
            Dimension::Project => vec![name("PROJECT").cut_middle()],
            Dimension::Model => vec![name("MODEL").cut_middle()],
            Dimension::Agent => vec![name("AGENT")],
            Dimension::AgentId => vec![name("AGENT ID")],
            Dimension::Branch => vec![key("CONVERSATION").style(ID), title("BEGINS").priority(65)],
            Dimension::GitBranch => vec![name("GIT BRANCH")],
            _ => vec![key("LAYOUT")],
        }
    }

    /// Returns the cells of a part, one for each column.
    pub(super) fn cells(&self, part: &RowPart) -> Vec<Cell> {
        let Some(value) = part.value.as_deref() else {
            let absent = Cell::styled(part.key(), DIM);
            let rest = self.columns(part.dimension).len() - 1;
            return std::iter::once(absent)
                .chain(std::iter::repeat_n(Cell::new(""), rest))
                .collect();
        };
        let label = part.label.as_deref().unwrap_or_default();
        match part.dimension {
            Dimension::Day if self.has_several_keys && self.is_narrow => vec![Cell::new(value)],
            Dimension::Day => vec![Cell::new(format_day(value))],
            Dimension::Week => vec![Cell::new(self.format_week(value, part))],
            Dimension::Block => {
                let (start, end) = part.period.unwrap_or_default();
                let now = self.clock.now;
                let active = start <= now && now < end;
                // All blocks have the same length.
                let when = match self.is_narrow {
                    true => self.clock.format(start, "%Y-%m-%d %H:%M"),
                    false => self.clock.hours_range(start, end),
                };
                vec![
                    Cell::new(when),
                    match active {
                        true => Cell::new("active"),
                        false => Cell::styled("done", DIM),
                    },
                ]
            }
            Dimension::Session => {
                let cells = [Cell::new(self.short.get(value)), self.title(part)].into_iter();
                let project = (!self.has_project_key).then(|| Cell::new(label));
                cells.chain(project).collect()
            }
            Dimension::Project => vec![Cell::new(self.unique_name(part, value))],
            Dimension::Model if self.has_several_keys => {
                vec![Cell::new(self.unique_name(part, value))]
            }
            Dimension::Branch => {
                let name = match value.split_once('@') {
                    Some((session, leaf)) => {
                        format!("{}@{}", self.short.get(session), short_message_id(leaf))
                    }
                    None => self.short.get(value).to_owned(),
                };
                vec![Cell::new(name), Cell::new(label)]
            }
            _ => vec![Cell::new(value)],
        }
    }

    fn title(&self, session: &RowPart) -> Cell {
        match self.labels.get(session).map(|label| &label.title) {
            Some(Some(title)) => Cell::new(title),
            Some(None) => Cell::styled("(no title)", DIM),
            None => Cell::new(""),
        }
    }

    /// Returns the short name if it is unique, else the value.
    fn unique_name<'p>(&self, part: &'p RowPart, value: &'p str) -> &'p str {
        let short = short_name(part).filter(|name| !name.is_empty());
        let alone = |name: &&str| self.names.get(&(part.dimension, *name)) == Some(&1);
        short.filter(alone).unwrap_or(value)
    }

    /// `2026-W46 9–15 Nov`
    fn format_week(&self, value: &str, part: &RowPart) -> String {
        match part.period {
            Some((start, end)) => format!("{value} {}", self.clock.days(start, end)),
            None => value.to_owned(),
        }
    }
}

/// Returns the short name of a directory or a model.
fn short_name(part: &RowPart) -> Option<&str> {
    match part.dimension {
        Dimension::Project => part.label.as_deref(),
        Dimension::Model => part.value.as_deref().map(short_model),
        _ => None,
    }
}

/// Returns the session id of a part.
fn session_id(part: &RowPart) -> Option<&str> {
    let value = part.value.as_deref()?;
    match part.dimension {
        Dimension::Session => Some(value),
        Dimension::Branch => Some(value.split_once('@').map_or(value, |(id, _)| id)),
        _ => None,
    }
}

/// `2026-11-15 Sun`
fn format_day(value: &str) -> String {
    match value.parse::<Date>() {
        Ok(date) => date.strftime("%Y-%m-%d %a").to_string(),
        Err(_) => value.to_owned(),
    }
}

/// Strips the provider, `claude-` and the date from a model name: `opus-4-1`.
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
    fn short_model_strips_prefix_and_date_but_never_all() {
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
