//! Reports as comma-separated values (RFC 4180).

use std::borrow::Cow;
use std::io;

use super::Told;
use crate::render::out::Out;
use crate::render::text::safe;

const SUMS: [&str; 9] = [
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

/// Writes a header and a line for each row. There is no total: a spreadsheet would add it up.
pub(super) fn write(told: &Told<'_>, out: &mut Out) -> io::Result<()> {
    let terminal = out.is_terminal();
    let names = told.report.by.iter().map(|by| by.member());
    let names: Vec<&str> = names.chain(SUMS).collect();
    out.raw(line(names.into_iter()).as_bytes())?;
    for row in &told.report.rows {
        let tally = &row.tally;
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
        let keys = row.parts.iter().map(|part| {
            let text = part.value.as_deref().unwrap_or_default();
            // A file gets names as they are, a terminal only what it may show.
            match terminal {
                true => String::from(safe(text)),
                false => text.to_owned(),
            }
        });
        let sums = counts.map(|count| count.to_string()).into_iter();
        let fields: Vec<String> = keys
            .chain(sums)
            .chain([cost.unwrap_or_default(), tally.unpriced.to_string()])
            .collect();
        let text = line(fields.iter().map(String::as_str));
        out.raw(text.as_bytes())?;
    }
    Ok(())
}

fn line<'f>(fields: impl Iterator<Item = &'f str>) -> String {
    let fields: Vec<Cow<'_, str>> = fields.map(field).collect();
    fields.join(",") + "\r\n"
}

/// Spreadsheets take some beginnings for formulas: an apostrophe makes them text again.
fn field(text: &str) -> Cow<'_, str> {
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
    fn fields_are_quoted_and_never_formulas() {
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
            assert_eq!(field(text), written);
        }
    }
}
