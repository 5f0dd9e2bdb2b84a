//! Parsing of price lists: the built-in one row by row on demand, users' lists as a whole.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::name::MAX_NAME_LEN;
use super::row::{PriceColumn, PriceRow, brief};

/// Built-in list, sorted by [`normalize`]d names.
const BUILT_IN: &str = include_str!("../../data/prices.csv");

/// Error in a price list, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriceError {
    /// Line, from 1.
    pub(crate) line: usize,
    /// Character in the line, from 1.
    pub(crate) column: usize,
    /// Description of the error.
    pub(crate) what: String,
}

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// A price list with errors, none of which was used.
#[derive(Debug, thiserror::Error)]
#[error("{file} is not a valid price list: {count} {}", if *count == 1 { "error" } else { "errors" })]
#[non_exhaustive]
pub struct PriceListError {
    /// The list's name.
    pub file: String,
    /// The first errors.
    pub faults: Vec<PriceError>,
    /// Number of errors.
    pub count: usize,
}

/// Rows of one list by the normalized names of their models.
pub(super) type Rows = BTreeMap<String, Vec<PriceRow>>;

/// Normalizes a name: lower case, and dashes for dots.
pub(super) fn normalize(name: &str) -> String {
    let plain = |byte: char| match byte.to_ascii_lowercase() {
        '.' => '-',
        other => other,
    };
    name.chars().map(plain).collect()
}

/// Returns the built-in rows of a normalized name. Parses only those lines.
pub(super) fn built_in(name: &str) -> Vec<PriceRow> {
    let start = first_line_of(name);
    let Some(rest) = BUILT_IN.get(start..) else {
        return Vec::new();
    };
    let mut lines = rest
        .lines()
        .take_while(|line| compare(name_in(line), name) == Ordering::Equal)
        .peekable();
    if lines.peek().is_none() {
        return Vec::new();
    }
    let before = BUILT_IN.as_bytes().get(..start).unwrap_or_default();
    let number = 1 + memchr::memchr_iter(b'\n', before).count();
    lines
        .enumerate()
        .map(|(at, line)| built_in_row(line, number + at))
        .collect()
}

/// Returns all rows of the built-in list.
pub(super) fn all_built_in() -> Rows {
    let mut rows = Rows::new();
    let lines = BUILT_IN.lines().enumerate();
    for (at, line) in lines.skip(BUILT_IN.lines().count() - body().lines().count()) {
        let row = built_in_row(line, at + 1);
        rows.entry(normalize(&row.model)).or_default().push(row);
    }
    rows
}

/// Parses a line of the built-in list. A test checks all of them with the strict parser.
fn built_in_row(line: &str, number: usize) -> PriceRow {
    let mut row = PriceRow::new(None, number);
    for (column, field) in PriceColumn::ALL.into_iter().zip(line.split(',')) {
        _ = row.set(column, field);
    }
    row
}

/// Returns the built-in list without its comments and header line.
fn body() -> &'static str {
    let mut rest = BUILT_IN;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if !line.starts_with('#') {
            break;
        }
    }
    rest
}

/// Returns the offset of the first line that does not sort before `name`.
fn first_line_of(name: &str) -> usize {
    let bytes = BUILT_IN.as_bytes();
    let mut low = BUILT_IN.len() - body().len();
    let mut high = BUILT_IN.len();
    // Invariant: `low` and `high` are starts of lines, or the end.
    while low < high {
        let middle = low + (high - low) / 2;
        let before = bytes.get(low..middle).unwrap_or_default();
        let start = memchr::memrchr(b'\n', before).map_or(low, |at| low + at + 1);
        let line = BUILT_IN.get(start..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        if compare(name_in(line), name) == Ordering::Less {
            low = start + line.len() + 1;
        } else {
            high = start;
        }
    }
    low
}

fn name_in(line: &str) -> &str {
    line.split_once(',').map_or(line, |(name, _)| name)
}

/// Compares a listed name with a normalized one.
fn compare(listed: &str, spelled: &str) -> Ordering {
    let plain = |byte: u8| if byte == b'.' { b'-' } else { byte };
    listed.bytes().map(plain).cmp(spelled.bytes())
}

/// Decodes a list as UTF-8; the error has the position of the first invalid byte.
pub(super) fn decode_utf8(bytes: &[u8]) -> Result<&str, PriceError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (good, bad) = bytes.split_at(error.valid_up_to());
        let line = good
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let wide = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
        let what = match (wide, bad.first()) {
            (false, Some(byte)) => {
                format!("byte 0x{byte:02x} is not valid UTF-8; save the list as UTF-8")
            }
            _ => "the list is UTF-16; save it as UTF-8".to_owned(),
        };
        PriceError {
            line: 1 + memchr::memchr_iter(b'\n', good).count(),
            // The byte order mark does not count as a character.
            column: 1 + String::from_utf8_lossy(line)
                .trim_start_matches('\u{feff}')
                .chars()
                .count(),
            what,
        }
    })
}

/// Parses a user's list; returns all its errors.
pub(super) fn parse(text: &str, file: &Arc<str>) -> Result<Rows, Vec<PriceError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::default();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match fields(line) {
            Err(column) => reader.fault(number, column, "missing closing quote".into()),
            Ok(fields) if reader.columns.is_empty() => reader.head(number, &fields),
            Ok(fields) => reader.row(number, &fields, file),
        }
        if reader.lost {
            break;
        }
    }
    match reader.faults.is_empty() {
        true => Ok(reader.rows),
        false => Err(reader.faults),
    }
}

/// Line-by-line parser of a list.
#[derive(Default)]
struct Reader {
    /// Column of each field; `None` for an unknown column.
    columns: Vec<Option<PriceColumn>>,
    rows: Rows,
    /// Line of each row, by its key.
    known: HashMap<String, usize>,
    faults: Vec<PriceError>,
    /// True if the header line is unusable, so that no row can be parsed.
    lost: bool,
}

impl Reader {
    fn fault(&mut self, line: usize, column: usize, what: String) {
        self.faults.push(PriceError { line, column, what });
    }

    fn head(&mut self, line: usize, fields: &[Field]) {
        for field in fields {
            let mut column = PriceColumn::by_name(&field.text);
            if column.is_none() {
                let names = PriceColumn::ALL.map(PriceColumn::name).join(", ");
                let name = brief(&field.text);
                let what = format!("unknown column `{name}`; the columns are {names}");
                self.fault(line, field.column, what);
            } else if self.columns.contains(&column) {
                let what = format!("duplicate column `{}`", brief(&field.text));
                self.fault(line, field.column, what);
                column = None;
            }
            self.columns.push(column);
        }
        if !self.columns.contains(&Some(PriceColumn::Model)) {
            // The other unknown columns are probably prices: the header line is missing.
            self.faults.clear();
            let other = match fields.first() {
                Some(field) if field.text.contains(';') => {
                    "; separate them with commas, not semicolons"
                }
                Some(field) if field.text.contains('\t') => "; separate them with commas, not tabs",
                _ => "",
            };
            let what = format!("the first line must name the columns, including `model`{other}");
            self.fault(line, 1, what);
            self.lost = true;
        }
    }

    fn row(&mut self, line: usize, fields: &[Field], file: &Arc<str>) {
        let before = self.faults.len();
        if fields.len() != self.columns.len() {
            let (are, should) = (fields.len(), self.columns.len());
            let column = fields.get(should).or(fields.last()).map_or(1, |f| f.column);
            let what = format!("the row has {are} fields, the first line has {should}");
            self.fault(line, column, what);
            return;
        }
        let mut row = PriceRow::new(Some(file.clone()), line);
        let mut places = HashMap::new();
        for (column, field) in self.columns.clone().into_iter().zip(fields) {
            let Some(column) = column else { continue };
            places.insert(column.name(), field.column);
            if let Err(what) = row.set(column, &field.text) {
                self.fault(line, field.column, format!("{}: {what}", column.name()));
            }
        }
        let place = |column: PriceColumn| places.get(column.name()).copied().unwrap_or(1);
        if row.model.is_empty() {
            self.fault(
                line,
                place(PriceColumn::Model),
                "the model is missing".into(),
            );
        }
        if row.model.len() > MAX_NAME_LEN {
            let what = format!("the model's name is longer than {MAX_NAME_LEN} bytes");
            self.fault(line, place(PriceColumn::Model), what);
        }
        // Do not report a field twice.
        if self.faults.len() == before {
            self.check_row(&row, place);
        }
        if self.faults.len() == before {
            let key = normalize(&row.model);
            self.rows.entry(key).or_default().push(row);
        }
    }

    /// Checks a row whose fields are all valid.
    fn check_row(&mut self, row: &PriceRow, place: impl Fn(PriceColumn) -> usize) {
        let prices = [
            (PriceColumn::Input, row.input.is_some()),
            (PriceColumn::Output, row.output.is_some()),
            (PriceColumn::CacheWrite5m, row.cache_write_5m.is_some()),
            (PriceColumn::CacheWrite1h, row.cache_write_1h.is_some()),
            (PriceColumn::CacheRead, row.cache_read.is_some()),
            (PriceColumn::WebSearch, row.web_search.is_some()),
        ];
        if row.same_as.is_some() {
            if let Some((column, _)) = prices.into_iter().find(|(_, given)| *given) {
                let what = "a row with `same_as` has no prices of its own";
                self.fault(row.line, place(column), what.into());
            }
        } else {
            for (column, given) in prices.into_iter().take(2) {
                if !given {
                    let what = format!("the price of {} is missing", column.name());
                    self.fault(row.line, place(column), what);
                }
            }
        }
        let key = format!("{} {:?}", normalize(&row.model), row.sort_key());
        if let Some(first) = self.known.insert(key, row.line) {
            let what = format!("duplicate of line {first}: same model, day, context and pace");
            self.fault(row.line, place(PriceColumn::Model), what);
        }
    }
}

/// Field of a line.
struct Field {
    text: String,
    /// Position of its first character, from 1.
    column: usize,
}

/// Splits a line into fields; the error is the position of an unclosed quote.
fn fields(line: &str) -> Result<Vec<Field>, usize> {
    let mut fields = Vec::new();
    let mut chars = line.chars().enumerate().peekable();
    loop {
        while chars.next_if(|(_, c)| *c == ' ' || *c == '\t').is_some() {}
        let column = chars.peek().map_or(line.chars().count(), |(at, _)| *at) + 1;
        let mut text = String::new();
        if chars.next_if(|(_, c)| *c == '"').is_some() {
            loop {
                match chars.next() {
                    None => return Err(column),
                    // Two quotes are an escaped quote.
                    Some((_, '"')) if chars.next_if(|(_, c)| *c == '"').is_none() => break,
                    Some((_, c)) => text.push(c),
                }
            }
        }
        while let Some((_, c)) = chars.next_if(|(_, c)| *c != ',') {
            text.push(c);
        }
        let text = text.trim().to_owned();
        fields.push(Field { text, column });
        if chars.next().is_none() {
            return Ok(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let faults = parse(text, &"mine.csv".into()).expect_err(text);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn built_in_list_passes_user_list_checks() {
        let rows = parse(BUILT_IN, &"prices.csv".into()).unwrap();
        assert!(rows.len() > 400, "{}", rows.len());
        let fields: Vec<&str> = PriceColumn::ALL.map(PriceColumn::name).to_vec();
        assert!(BUILT_IN.contains(&format!("\n{}\n", fields.join(","))));
        // Bisection and the parser of single lines rely on this.
        assert!(!BUILT_IN.contains(['"', '\r']) && BUILT_IN.ends_with('\n'));
        let names: Vec<String> = body()
            .lines()
            .map(|line| normalize(name_in(line)))
            .collect();
        assert!(names.is_sorted());
        let mut unmarked = rows.clone();
        for row in unmarked.values_mut().flatten() {
            row.file = None;
        }
        assert_eq!(all_built_in(), unmarked);
        for (name, rows) in &unmarked {
            assert_eq!(&built_in(name), rows, "{name}");
        }
        for name in [
            "",
            "!",
            "claude",
            "claude-opus-4-",
            "zzz",
            "gpt-5-1-code",
            "～",
        ] {
            assert_eq!(built_in(name), [], "{name}");
        }
        for row in rows.values().flatten() {
            let known = row
                .same_as
                .as_ref()
                .is_none_or(|name| rows.contains_key(&normalize(name)));
            assert!(known, "{row:?}");
        }
    }

    #[test]
    fn rows_round_trip_through_csv() {
        for line in body().lines() {
            assert_eq!(built_in_row(line, 0).to_csv(), line);
        }
        let text = "source,model,output,input\n\"by \"\"us\"\", of course\",Mine.1, 2.50 ,1\n";
        let rows = parse(text, &"mine.csv".into()).unwrap();
        let row = &rows["mine-1"][0];
        assert_eq!(row.source, "by \"us\", of course");
        assert_eq!(
            row.to_csv(),
            "Mine.1,,,,,1,2.5,,,,,,,,\"by \"\"us\"\", of course\""
        );
    }

    #[test]
    fn parse_reports_all_errors_with_positions() {
        let text =
            "\u{feff}# mine\nmodel,input,output,from,pace,above,us_percent,cache_raed,input\r\n";
        let text = format!(
            "{text},1,2,,,,,,\n\
             a,1.2.3,-4,2026-02-30,quick,1e5,0,,\n\
             ünï,\"1,5,2,,,,,,\n\
             b,1,2\n\
             b,1,2,,,,,,,,\n\
             c,1,2,2026-01-01,,,,,1\n\
             C,3,4,2026-01-01,standard,,,,3\n\
             d,,2,,,,,,\n\
             e,0.0000001,2,20260101,,,,,\n\
             f,1e-99,0e-99,,,,,,\n"
        );
        assert_eq!(
            faults(&text),
            [
                "2:47: unknown column `cache_raed`; the columns are model, provider, from, above, pace, input, output, \
                 cache_write_5m, cache_write_1h, cache_read, web_search, us_percent, context, same_as, source",
                "2:58: duplicate column `input`",
                "3:1: the model is missing",
                "4:3: input: `1.2.3` is not a price; write dollars as 3 or 0.25",
                "4:9: output: `-4` is negative",
                "4:12: from: `2026-02-30` is not a date; write it as 2026-01-31",
                "4:23: pace: unknown pace `quick`; use one of standard, batch, flex, priority, fast",
                "4:29: above: `1e5` is not a number of tokens; write it as 200000",
                "4:33: us_percent: `0` is not a percentage from 1 to 1000",
                "5:5: missing closing quote",
                "6:5: the row has 3 fields, the first line has 9",
                "7:13: the row has 11 fields, the first line has 9",
                "9:1: duplicate of line 8: same model, day, context and pace",
                "10:3: the price of input is missing",
                "11:3: input: `0.0000001` has more decimals than annals supports",
                "11:15: from: `20260101` is not a date; write it as 2026-01-31",
                "12:3: input: `1e-99` has more decimals than annals supports",
            ]
        );
    }

    #[test]
    fn model_name_over_200_bytes_is_an_error() {
        let list = |len| format!("model,input,output\n{},1,2\n", "x".repeat(len));
        assert!(parse(&list(200), &"mine.csv".into()).is_ok());
        assert_eq!(
            faults(&list(201)),
            ["2:1: the model's name is longer than 200 bytes"]
        );
    }

    #[test]
    fn missing_header_is_reported_once() {
        let one = "1:1: the first line must name the columns, including `model`";
        assert_eq!(faults("claude-x,1,2\nclaude-y,3,4\n"), [one]);
        assert_eq!(
            parse("# nothing yet\n\n", &"mine.csv".into()),
            Ok(Rows::new())
        );
    }

    #[test]
    fn lists_of_other_programs_are_read_or_rejected() {
        let list = "\u{feff}model,input,output\r\nmine,1,2\r\n";
        assert!(
            parse(list, &"mine.csv".into())
                .unwrap()
                .contains_key("mine")
        );
        for nothing in ["", "\u{feff}", "\r\n\r\n", "model,input,output"] {
            assert_eq!(
                parse(nothing, &"mine.csv".into()),
                Ok(Rows::new()),
                "{nothing:?}"
            );
        }
        let expected = "1:1: the first line must name the columns, including `model`";
        let faulty = |list| faults(list).join("\n");
        assert_eq!(
            faulty("model;input;output\nmine;1;2\n"),
            format!("{expected}; separate them with commas, not semicolons")
        );
        assert_eq!(
            faulty("model\tinput\noutput\n"),
            format!("{expected}; separate them with commas, not tabs")
        );
    }

    #[test]
    fn invalid_utf8_is_reported_with_position() {
        let fault = |bytes: &[u8]| decode_utf8(bytes).expect_err("no text").to_string();
        assert_eq!(
            fault(b"\xef\xbb\xbfmodel,input\r\n\xc3\xbcx\xe9,1"),
            "2:3: byte 0xe9 is not valid UTF-8; save the list as UTF-8"
        );
        assert_eq!(
            fault(b"\xef\xbb\xbfm\xff"),
            "1:2: byte 0xff is not valid UTF-8; save the list as UTF-8"
        );
        assert_eq!(
            fault(b"\xff\xfem\0o\0"),
            "1:1: the list is UTF-16; save it as UTF-8"
        );
        assert_eq!(decode_utf8("ü".as_bytes()), Ok("ü"));
    }

    #[test]
    fn alias_with_prices_is_an_error() {
        let head = "model,same_as,input,output\n";
        assert_eq!(
            faults(&format!("{head}mine,gpt-5,1,\n")),
            ["2:12: a row with `same_as` has no prices of its own"]
        );
    }
}
