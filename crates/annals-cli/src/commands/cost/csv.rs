//! Reports as comma-separated values (RFC 4180).

use std::borrow::Cow;
use std::io;

use annals::cost::{Dimension, Tally};

use super::CostOutput;
use crate::render::out::Out;
use crate::render::text::safe;

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

/// Says how many rows a line stands for that are not there themselves; no other line has that above 0.
const LEFT_OUT_COLUMN: &str = "left_out";

/// Writes a header and a line for each row, or for each model of each row. There is no total: a spreadsheet would add
/// it up. So the rows beyond those asked for are one more line.
pub(super) fn write(told: &CostOutput<'_>, out: &mut Out) -> io::Result<()> {
    let report = told.report;
    let models = told.look.breakdown && !report.by.contains(&Dimension::Model);
    let model = models.then_some(Dimension::Model);
    let keys: Vec<Dimension> = report.by.iter().copied().chain(model).collect();
    let file = CsvShape {
        key_columns: keys.len(),
        // Which columns there are depends on what was asked for, not on what was found.
        has_rest_column: told.look.top.is_some(),
        terminal: out.is_terminal(),
    };
    let names = keys.iter().map(|by| by.member()).chain(SUM_COLUMNS);
    let names: Vec<&str> = names
        .chain(file.has_rest_column.then_some(LEFT_OUT_COLUMN))
        .collect();
    out.raw(join_fields(names.into_iter()).as_bytes())?;
    for row in &report.rows {
        let parts = row.parts.iter().map(|part| part.value.as_deref());
        let parts: Vec<&str> = parts.map(Option::unwrap_or_default).collect();
        match models {
            false => out.raw(file.line(&parts, &row.tally, 0).as_bytes())?,
            true => {
                for one in &row.models {
                    let keys = [&parts[..], &[one.model.as_deref().unwrap_or_default()]];
                    out.raw(file.line(&keys.concat(), &one.tally, 0).as_bytes())?;
                }
            }
        }
    }
    if let Some((rows, tally)) = &report.left_out {
        out.raw(file.line(&[], tally, *rows).as_bytes())?;
    }
    Ok(())
}

/// What the lines of a file have in common.
struct CsvShape {
    /// How many columns say what a line is about.
    key_columns: usize,
    /// There is a column that tells the rest from the rows.
    has_rest_column: bool,
    terminal: bool,
}

impl CsvShape {
    fn line(&self, keys: &[&str], tally: &Tally, left_out: usize) -> String {
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
        // A file gets names as they are, a terminal only what it may show.
        let key = |text: &&str| match self.terminal {
            true => String::from(safe(text)),
            false => (*text).to_owned(),
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

/// Spreadsheets take some beginnings for formulas: an apostrophe makes them text again.
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
