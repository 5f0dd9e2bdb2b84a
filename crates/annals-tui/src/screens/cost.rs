//! Costs as bars: by day and other dimensions, and down to sessions.

use annals::cost::Dimension;
use annals::model::Money;
use annals_render::style::{DIM, SUCCESS, TITLE, WARNING};
use annals_render::{bar, money, size};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Cursor;
use super::list::draw_lines;
use crate::protocol::{CostLine, CostQuestion, CostSummary};
use crate::text::{column, plain, right, spread, styled};

/// The dimensions of `g`, in order.
const GROUPS: [Dimension; 7] = [
    Dimension::Day,
    Dimension::Week,
    Dimension::Month,
    Dimension::Project,
    Dimension::Model,
    Dimension::Layout,
    Dimension::Session,
];

/// A cost report.
#[derive(Debug, Default)]
pub(crate) struct CostScreen {
    pub(crate) question: CostQuestion,
    /// Rows that were chosen before, such as a day.
    pub(crate) within: Vec<String>,
    pub(crate) report: Option<CostSummary>,
    pub(crate) cursor: Cursor,
}

impl CostScreen {
    /// Creates the report by day.
    pub(crate) fn by_day() -> Self {
        CostScreen {
            question: CostQuestion {
                by: Some(Dimension::Day),
                ..CostQuestion::default()
            },
            ..CostScreen::default()
        }
    }

    /// Groups by the next dimension.
    pub(crate) fn regroup(&mut self) {
        let by = self.dimension();
        let at = GROUPS.iter().position(|group| *group == by).unwrap_or(0);
        self.question.by = GROUPS.get((at + 1) % GROUPS.len()).copied();
        self.report = None;
        self.cursor = Cursor::default();
    }

    /// The dimension of the rows.
    pub(crate) fn dimension(&self) -> Dimension {
        self.question.by.unwrap_or(Dimension::Day)
    }

    /// Takes a report, unless the question has changed.
    pub(crate) fn take(&mut self, question: &CostQuestion, report: CostSummary) {
        if *question == self.question {
            let last = report.rows.len().saturating_sub(1);
            // The newest day is the last row.
            self.cursor.selected = if self.dimension().is_time() { last } else { 0 };
            self.report = Some(report);
        }
    }

    /// The selected row.
    pub(crate) fn selected(&self) -> Option<&CostLine> {
        self.report.as_ref()?.rows.get(self.cursor.selected)
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.report.as_ref().map_or(0, |report| report.rows.len())
    }

    /// Returns the report of the selected row; `None` if it is a session.
    pub(crate) fn down(&self) -> Option<CostScreen> {
        let row = self.selected()?;
        let mut question = self.question.clone();
        let by = match self.dimension() {
            Dimension::Session => return None,
            Dimension::Project => {
                question.project = Some(row.key.clone());
                Dimension::Session
            }
            Dimension::Model => {
                question.model = Some(row.key.clone());
                Dimension::Session
            }
            Dimension::Layout => Dimension::Session,
            dimension => {
                let (start, end) = row.period?;
                question.since = Some(start);
                // The end of a period is not part of it.
                let last = end.checked_sub(jiff::SignedDuration::from_nanos(1));
                question.until = Some(last.unwrap_or(end));
                match dimension {
                    Dimension::Month | Dimension::Week => Dimension::Day,
                    _ => Dimension::Session,
                }
            }
        };
        question.by = Some(by);
        let mut within = self.within.clone();
        within.push(row.label.clone());
        Some(CostScreen {
            question,
            within,
            ..CostScreen::default()
        })
    }

    /// The heading.
    pub(crate) fn title(&self) -> Vec<Span<'static>> {
        let mut title = format!("cost by {}", self.dimension().name());
        if !self.within.is_empty() {
            title += &format!(" · {}", self.within.join(" · "));
        }
        vec![styled(TITLE, &title)]
    }

    /// The sum, for the heading.
    pub(crate) fn facts(&self) -> Vec<Span<'static>> {
        let Some(report) = &self.report else {
            return Vec::new();
        };
        let tokens = format!("{} tokens  ", size::compact(report.tokens));
        let amount = match report.unpriced {
            0 => money::cents(report.total),
            _ => money::at_least(&money::cents(report.total)),
        };
        vec![styled(DIM, &tokens), styled(TITLE, &amount)]
    }

    /// Draws the rows.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(report) = &self.report else {
            return draw_lines(frame, area, vec![Line::from(styled(DIM, "adding up …"))]);
        };
        if report.rows.is_empty() {
            let text = "No responses were recorded here.";
            return draw_lines(frame, area, vec![Line::from(styled(DIM, text))]);
        }
        let width = usize::from(area.width).saturating_sub(1);
        let most = report.rows.iter().map(|row| row.cost.pico()).max();
        let most = most.unwrap_or(0);
        let labels = report
            .rows
            .iter()
            .map(|row| annals_render::width::width(&row.label));
        let fixed = if width >= 60 { 36 } else { 12 };
        let labels = labels.max().unwrap_or(0).min(width.saturating_sub(fixed));
        self.cursor.draw(frame, area, report.rows.len(), |at| {
            let Some(row) = report.rows.get(at) else {
                return Vec::new();
            };
            let is_selected = at == self.cursor.selected;
            let label = column(&row.label, labels);
            let mut left = vec![Span::raw(" ")];
            left.push(match is_selected {
                true => styled(TITLE, &label),
                false => plain(&label),
            });
            let amount = match (row.unpriced, row.cost > Money::ZERO) {
                (0, _) => money::cents(row.cost),
                (_, true) => money::at_least(&money::cents(row.cost)),
                (_, false) => "no price".to_owned(),
            };
            left.push(match row.unpriced {
                0 => plain(&right(&amount, 11)),
                _ => styled(WARNING, &right(&amount, 11)),
            });
            if width >= 60 {
                left.push(Span::raw("  "));
                let tokens = format!("{} tokens", size::compact(row.tokens));
                let used = labels + 14 + 14;
                let room = width.saturating_sub(used).clamp(1, 60);
                left.push(styled(
                    SUCCESS,
                    &bar::bar_of_width(row.cost.pico(), most, room),
                ));
                return vec![spread(left, vec![styled(DIM, &tokens)], width)];
            }
            vec![Line::from(crate::text::cut(left, width))]
        });
    }
}
