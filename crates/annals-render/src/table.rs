//! Tables without borders that fit the terminal.
//!
//! A table that is too wide first shrinks its least important columns to their minimum, then omits
//! the least important ones. Key columns are omitted only if they do not fit even when truncated.
//! A column without content is omitted too. Without a width (a pipe) only titles are truncated, and
//! nothing is omitted. Every cell is sanitised here.

use super::style::{HEADER, paint_safe};
use super::text::safe;
use super::width::{truncate_end, truncate_middle, width};
use anstyle::Style;

/// Width beyond which titles are truncated.
const MAX_TITLE_WIDTH: usize = 60;

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Starts a table with these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells beyond the last column are ignored, missing ones are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows
            .push(cells.into_iter().take(self.columns.len()).collect());
    }

    /// Formats header and rows in at most `max` columns, if given; each line ends in `\n`.
    pub fn render(&self, max: Option<usize>) -> String {
        let widths = self.choose_widths(max);
        let mut out = String::new();
        let header: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell::styled(column.header, HEADER))
            .collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            self.push_line(&mut out, row, &widths);
        }
        out
    }

    fn push_line(&self, out: &mut String, row: &[Cell], widths: &[Option<usize>]) {
        // Spaces are written only before further text, so that no line ends in one.
        let mut pending = 0;
        let shown = self
            .columns
            .iter()
            .zip(widths)
            .enumerate()
            .filter_map(|(n, (column, width))| Some((n, column, (*width)?)));
        for (at, (n, column, columns)) in shown.enumerate() {
            if at > 0 {
                pending += GAP;
            }
            let Some(cell) = row.get(n) else {
                pending += columns;
                continue;
            };
            let text = match column.shrink {
                Shrink::End => truncate_end(&cell.text, columns),
                Shrink::Middle => truncate_middle(&cell.text, columns),
            };
            let text = text.trim_end_matches(' ');
            let space = columns.saturating_sub(width(text));
            let (before, after) = if column.align == Align::Right {
                (space, 0)
            } else {
                (0, space)
            };
            if text.is_empty() {
                pending += columns;
                continue;
            }
            out.extend(std::iter::repeat_n(' ', pending + before));
            paint_safe(out, cell.style.unwrap_or(column.style), text);
            pending = after;
        }
        out.push('\n');
    }

    /// Decides each column's width; `None` omits the column.
    fn choose_widths(&self, max: Option<usize>) -> Vec<Option<usize>> {
        let naturals: Vec<usize> = (0..self.columns.len())
            .map(|n| self.natural_width(n, max.is_some()))
            .collect();
        let mut widths: Vec<Option<usize>> = naturals.iter().copied().map(Some).collect();
        let Some(max) = max else {
            return widths;
        };
        for (n, width) in widths.iter_mut().enumerate() {
            if self.is_blank(n) {
                *width = None;
            }
        }
        let shown = |n: &usize| widths[*n].is_some();
        let mut order: Vec<usize> = (0..self.columns.len()).filter(shown).collect();
        // Of two equally important columns the right one shrinks first.
        order.sort_by_key(|&n| (self.columns[n].priority, std::cmp::Reverse(n)));
        for &n in &order {
            let excess = total_width(&widths).saturating_sub(max);
            widths[n] = widths[n].map(|width| {
                width
                    .saturating_sub(excess)
                    .max(self.columns[n].min.unwrap_or(width).min(width))
            });
        }
        // The most important column is always shown, and key columns as long as possible.
        let most = order.len().saturating_sub(1);
        let (keys, others): (Vec<usize>, Vec<usize>) =
            order[..most].iter().partition(|&&n| self.columns[n].key);
        for &n in &others {
            if total_width(&widths) <= max {
                break;
            }
            widths[n] = None;
            // An omitted column may free more than was missing: the rest is given to the most
            // important columns.
            for &m in order.iter().rev() {
                let spare = max.saturating_sub(total_width(&widths));
                widths[m] = widths[m].map(|width| (width + spare).min(naturals[m]));
            }
        }
        self.shrink_keys(&mut widths, max);
        for &n in &keys {
            if total_width(&widths) > max {
                widths[n] = None;
            }
        }
        if let Some(&last) = order.last() {
            widths[last] = widths[last].map(|width| width.min(max));
        }
        widths
    }

    /// Truncates key columns below their minimum: those that have one first, because they are meant
    /// to be truncated, and the widest first.
    fn shrink_keys(&self, widths: &mut [Option<usize>], max: usize) {
        for (any, least) in [(false, 6), (true, 3)] {
            while total_width(widths) > max {
                let columns = self.columns.iter().zip(widths.iter_mut());
                let columns =
                    columns.filter(|(column, _)| column.key && (any || column.min.is_some()));
                let widths = columns.filter_map(|(_, width)| width.as_mut());
                match widths.max_by_key(|width| **width) {
                    Some(width) if *width > least => *width -= 1,
                    _ => break,
                }
            }
        }
    }

    fn natural_width(&self, n: usize, limited: bool) -> usize {
        let column = &self.columns[n];
        let cells = self
            .rows
            .iter()
            .filter_map(|row| row.get(n))
            .map(|cell| cell.width);
        let natural = cells.chain([width(column.header)]).max().unwrap_or(0);
        let natural = natural.min(column.cut);
        if limited {
            natural.min(column.max)
        } else {
            natural
        }
    }

    /// Returns true if no row has content in a column.
    fn is_blank(&self, n: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(n));
        !self.rows.is_empty() && cells.all(|cell| cell.width == 0)
    }
}

/// The format of a column and how it shrinks.
#[derive(Clone, Debug)]
pub struct Column {
    header: &'static str,
    align: Align,
    min: Option<usize>,
    max: usize,
    /// Width beyond which cells are truncated even without a terminal.
    cut: usize,
    priority: u8,
    key: bool,
    shrink: Shrink,
    style: Style,
}

impl Column {
    /// Creates a left-aligned column of medium importance that does not shrink.
    pub fn new(header: &'static str) -> Column {
        Column {
            header,
            align: Align::Left,
            min: None,
            max: usize::MAX,
            cut: usize::MAX,
            priority: 100,
            key: false,
            shrink: Shrink::End,
            style: Style::new(),
        }
    }

    /// Creates a column for titles, which may be very long.
    pub fn title(header: &'static str) -> Column {
        Column::new(header).min(12).cut(MAX_TITLE_WIDTH)
    }

    /// Aligns the cells to the right.
    pub fn right(self) -> Column {
        Column {
            align: Align::Right,
            ..self
        }
    }

    /// Lets the column shrink down to this width.
    pub fn min(self, min: usize) -> Column {
        Column {
            min: Some(min),
            ..self
        }
    }

    /// Sets the width beyond which cells are truncated on a terminal.
    pub fn max(self, max: usize) -> Column {
        Column { max, ..self }
    }

    /// Sets the width beyond which cells are truncated even without a terminal.
    pub fn cut(self, cut: usize) -> Column {
        Column { cut, ..self }
    }

    /// Sets the importance; the lowest shrinks first. The default is 100.
    pub fn priority(self, priority: u8) -> Column {
        Column { priority, ..self }
    }

    /// Marks a key column, which is omitted last.
    pub fn key(self) -> Column {
        Column { key: true, ..self }
    }

    /// Truncates cells in the middle (paths), not at the end.
    pub fn cut_middle(self) -> Column {
        Column {
            shrink: Shrink::Middle,
            ..self
        }
    }

    /// Sets the style of cells without their own.
    pub fn style(self, style: Style) -> Column {
        Column { style, ..self }
    }
}

/// One cell's safe text.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    width: usize,
    style: Option<Style>,
}

impl Cell {
    /// Creates a cell in its column's style.
    pub fn new(text: impl AsRef<str>) -> Cell {
        let text = String::from(safe(text.as_ref()));
        Cell {
            width: width(&text),
            text,
            style: None,
        }
    }

    /// Creates a cell in its own style.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Cell {
        Cell {
            style: Some(style),
            ..Cell::new(text)
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Align {
    Left,
    Right,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shrink {
    End,
    Middle,
}

const GAP: usize = 2;

fn total_width(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::style::{ERROR, ID};
    use super::*;
    use anstream::adapter::strip_str;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    fn sessions() -> Table {
        let mut table = Table::new([
            Column::new("ID").priority(200),
            Column::new("TITLE").priority(150).min(12),
            Column::new("PROJECT").priority(50).min(8).cut_middle(),
            Column::new("SIZE").right().priority(20),
            Column::new("UPDATED").priority(80),
        ]);
        let rows = [
            [
                "3f2a9c",
                "Fix the parser for torn tails",
                "/home/ada/projects/analytical-engine",
                "1.2 MB",
                "3 min ago",
            ],
            [
                "9d01b7",
                "日本語のセッション 🎉",
                "/srv/api",
                "999 B",
                "yesterday 14:02",
            ],
            ["77", "", "/tmp", "12.0 kB", ""],
        ];
        for row in rows {
            table.row(row.map(Cell::new));
        }
        table
    }

    fn plain(table: &Table, max: Option<usize>) -> String {
        strip_str(&table.render(max)).to_string()
    }

    #[test]
    fn table_without_limit_shows_everything() {
        assert_snapshot!(plain(&sessions(), None), @r#"
            ID      TITLE                          PROJECT                                  SIZE  UPDATED
            3f2a9c  Fix the parser for torn tails  /home/ada/projects/analytical-engine   1.2 MB  3 min ago
            9d01b7  日本語のセッション 🎉          /srv/api                                999 B  yesterday 14:02
            77                                     /tmp                                  12.0 kB
        "#);
    }

    #[test]
    fn shrinks_the_least_important_first() {
        assert_snapshot!(plain(&sessions(), Some(80)), @r#"
            ID      TITLE                          PROJECT             SIZE  UPDATED
            3f2a9c  Fix the parser for torn tails  /home/a…-engine   1.2 MB  3 min ago
            9d01b7  日本語のセッション 🎉          /srv/api           999 B  yesterday 14:02
            77                                     /tmp             12.0 kB
        "#);
    }

    #[test]
    fn leaves_columns_out_when_shrinking_is_not_enough() {
        assert_snapshot!(plain(&sessions(), Some(40)), @r#"
            ID      TITLE            UPDATED
            3f2a9c  Fix the parser…  3 min ago
            9d01b7  日本語のセッシ…  yesterday 14:02
            77
        "#);
    }

    #[test]
    fn keys_are_cut_before_they_are_left_out() {
        let mut table = Table::new([
            Column::new("PROJECT")
                .priority(250)
                .min(14)
                .cut_middle()
                .key(),
            Column::new("DAY").priority(250).key(),
            Column::new("TOKENS").right(),
            Column::new("COST").right().priority(255),
        ]);
        table.row(["analytical-engine", "2026-11-15", "1,234", "$1,234.56"].map(Cell::new));
        let tables = [60, 30, 24, 12, 4].map(|max| plain(&table, Some(max)));
        assert_snapshot!(tables.join("\n"), @r"
        PROJECT            DAY         TOKENS       COST
        analytical-engine  2026-11-15   1,234  $1,234.56

        PROJECT  DAY              COST
        ana…ine  2026-11-15  $1,234.56

        PRO…CT  DAY         COST
        ana…ne  2026…  $1,234.56

             COST
        $1,234.56

        COST
        $1,…
        ");
    }

    #[test]
    fn headers_and_cells_are_styled() {
        let mut table = Table::new([Column::new("ID").style(ID), Column::new("N").right()]);
        table.row([Cell::new("a"), Cell::styled("1", ERROR)]);
        assert_snapshot!(table.render(None).replace('\x1b', "^"), @r#"
            ^[1m^[38;5;243mID^[0m  ^[1m^[38;5;243mN^[0m
            ^[38;5;133ma^[0m   ^[1m^[38;5;161m1^[0m
        "#);
    }

    #[test]
    fn hostile_cells_stay_on_their_line() {
        let mut table = Table::new([Column::new("A"), Column::new("B")]);
        table.row([Cell::new("x\n\x1b[2Jy"), Cell::new("\u{202E}z")]);
        assert_eq!(plain(&table, None), "A        B\nx ␛[2Jy  ⟨U+202E⟩z\n");
    }

    #[test]
    fn missing_cells_are_empty_and_extra_cells_ignored() {
        let mut table = Table::new([Column::new("A"), Column::new("B")]);
        table.row([Cell::new("1")]);
        table.row([Cell::new("1"), Cell::new("2"), Cell::new("3")]);
        assert_eq!(plain(&table, Some(20)), "A  B\n1\n1  2\n");
    }

    #[test]
    fn titles_are_cut_and_blank_columns_are_left_out() {
        let mut table = Table::new([
            Column::new("ID"),
            Column::new("TITLE").min(4).cut(12),
            Column::new("AGENTS").right(),
            Column::new("SIZE").right(),
        ]);
        table.row(["1", "A title that is long", "", "3 B"].map(Cell::new));
        table.row(["2", "Short", "", "4 B"].map(Cell::new));
        assert_snapshot!(plain(&table, Some(40)), @r"
        ID  TITLE         SIZE
        1   A title tha…   3 B
        2   Short          4 B
        ");
        // A pipe gets all columns.
        assert_snapshot!(plain(&table, None), @r"
        ID  TITLE         AGENTS  SIZE
        1   A title tha…           3 B
        2   Short                  4 B
        ");
    }

    proptest! {
        #[test]
        fn lines_fit_and_do_not_end_in_spaces(
            cells in prop::collection::vec(prop::collection::vec("[a-z 日👩é\u{301}]{0,30}", 4), 0..6),
            max in 1usize..80,
        ) {
            let mut table = Table::new([
                Column::new("ONE").priority(3),
                Column::new("TWO").right().min(5).priority(2),
                Column::new("THREE").cut_middle().max(9),
                Column::new("FOUR").priority(9),
            ]);
            for row in &cells {
                table.row(row.iter().map(Cell::new));
            }
            for line in plain(&table, Some(max)).lines() {
                prop_assert!(width(line) <= max, "{line:?} > {max}");
                prop_assert!(!line.ends_with(' '), "{line:?}");
            }
        }
    }
}
