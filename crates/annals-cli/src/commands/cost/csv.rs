//! Reports as comma-separated values (RFC 4180).

use std::borrow::Cow;
use std::io;

use annals::cost::{Dimension, ReportRow, Tally};

use super::CostOutput;
use crate::terminal::out::Out;
use annals_render::text::safe;

const SUM_COLUMNS: [&str; 9] = [
    "requests",
    "input",
    "output",
    "cache_write_5m",
    "cache_write_1h",
    "cache_read",
    "web_searches",
    "cost_usd",
    "unpriced",
];

/// Column with the number of rows that a line sums up; 0 for a row of its own.
const LEFT_OUT_COLUMN: &str = "left_out";

/// Writes a header and a line for each row, or for each model of each row. The total is omitted,
/// because a spreadsheet would add it to the sum; rows beyond --top are summed in a last line.
pub(super) fn write(output: &CostOutput<'_>, out: &mut Out) -> io::Result<()> {
    let report = output.report;
    let models = output.look.breakdown && !report.by.contains(&Dimension::Model);
    let model = models.then_some(Dimension::Model);
    let mut names = key_names(output);
    names.extend(model.map(Dimension::member));
    let file = CsvShape {
        key_columns: names.len(),
        // The columns depend only on the arguments, not on the data.
        has_rest_column: output.look.top.is_some(),
        terminal: out.is_terminal(),
    };
    names.extend(SUM_COLUMNS);
    names.extend(file.has_rest_column.then_some(LEFT_OUT_COLUMN));
    out.raw(join_fields(names.into_iter()).as_bytes())?;
    for row in &report.rows {
        let mut keys = key_values(output, row);
        match models {
            false => out.raw(file.line(&keys, &row.tally, 0).as_bytes())?,
            true => {
                for one in &row.models {
                    keys.truncate(file.key_columns - 1);
                    keys.push(one.model.as_deref().unwrap_or_default().to_owned());
                    out.raw(file.line(&keys, &one.tally, 0).as_bytes())?;
                }
            }
        }
    }
    if let Some((rows, tally)) = &report.left_out {
        out.raw(file.line(&[], tally, *rows).as_bytes())?;
    }
    Ok(())
}

/// Returns the names of the key columns: the dimensions, and columns that identify sessions.
fn key_names(output: &CostOutput<'_>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for by in &output.report.by {
        names.push(by.member());
        if *by == Dimension::Session {
            names.push("title");
            names.extend(output.adds_project().then_some("project"));
            names.extend(output.adds_models().then_some("models"));
        }
    }
    names
}

/// Returns the values of the key columns.
fn key_values(output: &CostOutput<'_>, row: &ReportRow) -> Vec<String> {
    let mut values = Vec::new();
    for part in &row.parts {
        values.push(part.value.as_deref().unwrap_or_default().to_owned());
        if part.dimension == Dimension::Session {
            let label = output.labels.get(part);
            let title = label.and_then(|label| label.title.clone());
            values.push(title.unwrap_or_default());
            let project = label.map(|label| label.project.clone());
            values.extend(output.adds_project().then(|| project.unwrap_or_default()));
            let models = row.models.iter().filter_map(|one| one.model.as_deref());
            let models = || models.collect::<Vec<_>>().join(" ");
            values.extend(output.adds_models().then(models));
        }
    }
    values
}

/// Shape that all lines of a file share.
struct CsvShape {
    /// Number of key columns.
    key_columns: usize,
    /// True if there is a `left_out` column.
    has_rest_column: bool,
    terminal: bool,
}

impl CsvShape {
    fn line(&self, keys: &[String], tally: &Tally, left_out: usize) -> String {
        let usage = &tally.usage;
        let counts = [
            tally.requests,
            usage.input,
            usage.output,
            usage.cache_write_5m,
            usage.cache_write_1h,
            usage.cache_read,
            usage.web_searches,
        ];
        let cost = tally.priced().map(|cost| cost.to_string());
        // A file gets names unchanged, a terminal without control characters.
        let key = |text: &String| match self.terminal {
            true => String::from(safe(text)),
            false => text.clone(),
        };
        let mut fields: Vec<String> = keys.iter().map(key).collect();
        fields.resize(self.key_columns, String::new());
        fields.extend(counts.map(|count| count.to_string()));
        fields.extend([cost.unwrap_or_default(), tally.unpriced.to_string()]);
        fields.extend(self.has_rest_column.then(|| left_out.to_string()));
        join_fields(fields.iter().map(String::as_str))
    }
}

fn join_fields<'f>(fields: impl Iterator<Item = &'f str>) -> String {
    let fields: Vec<Cow<'_, str>> = fields.map(escape_field).collect();
    fields.join(",") + "\r\n"
}

/// Quotes a field. Spreadsheets evaluate some prefixes as formulas; an apostrophe makes them text.
fn escape_field(text: &str) -> Cow<'_, str> {
    let number = || annals::model::Money::parse(text).is_some();
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !number();
    let quoted = text.contains(['"', ',', '\n', '\r']);
    match (formula, quoted) {
        (false, false) => Cow::Borrowed(text),
        (true, false) => Cow::Owned(format!("'{text}")),
        (_, true) => {
            let mark = if formula { "'" } else { "" };
            Cow::Owned(format!("\"{mark}{}\"", text.replace('"', "\"\"")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_field_quotes_and_defuses_formulas() {
        for (text, written) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("@cmd", "'@cmd"),
            ("+49 30", "'+49 30"),
            ("-1.5", "-1.5"),
            ("-x", "'-x"),
            ("=HYPERLINK(\"x\",1)", "\"'=HYPERLINK(\"\"x\"\",1)\""),
            ("", ""),
        ] {
            assert_eq!(escape_field(text), written);
        }
    }
}
