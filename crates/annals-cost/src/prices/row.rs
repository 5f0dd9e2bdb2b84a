//! Rows of a price list, and their parsing and formatting.

use std::sync::Arc;

use jiff::civil::Date;

use annals_layouts::model::{Money, ServiceTier};

/// Prices of a model from a day on, for contexts of a size, in a service tier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriceRow {
    /// Name of the model in the list.
    pub model: String,
    /// Provider of the model.
    pub provider: String,
    /// First day (UTC) of the price; `None` if it has always applied.
    pub from: Option<Date>,
    /// Context size in tokens above which the row applies; `None` for the base price.
    pub above: Option<u64>,
    /// Service tier (column `pace`).
    pub tier: ServiceTier,
    /// Dollars per million tokens of uncached input.
    pub input: Option<Money>,
    /// Dollars per million tokens of output.
    pub output: Option<Money>,
    /// Dollars per million tokens written to the five-minute cache.
    pub cache_write_5m: Option<Money>,
    /// Dollars per million tokens written to the one-hour cache.
    pub cache_write_1h: Option<Money>,
    /// Dollars per million tokens read from the cache.
    pub cache_read: Option<Money>,
    /// Dollars per thousand web searches.
    pub web_search: Option<Money>,
    /// Price of inference restricted to the United States, in percent of the normal price.
    pub us_percent: Option<u32>,
    /// Context window in tokens.
    pub context: Option<u64>,
    /// Model that this name is an alias of; such a row has no prices.
    pub same_as: Option<String>,
    /// Source of the prices.
    pub source: String,
    /// User's file that contains the row; `None` for the built-in list.
    pub file: Option<Arc<str>>,
    /// Line in that file.
    pub line: usize,
}

impl PriceRow {
    pub(super) fn new(file: Option<Arc<str>>, line: usize) -> Self {
        PriceRow {
            model: String::new(),
            provider: String::new(),
            from: None,
            above: None,
            tier: ServiceTier::Standard,
            input: None,
            output: None,
            cache_write_5m: None,
            cache_write_1h: None,
            cache_read: None,
            web_search: None,
            us_percent: None,
            context: None,
            same_as: None,
            source: String::new(),
            file,
            line,
        }
    }

    /// Key that is unique among the rows of a model. Rows are sorted by it and searched from the
    /// end.
    pub(super) fn sort_key(&self) -> (ServiceTier, Option<Date>, Option<u64>) {
        (self.tier, self.from, self.above)
    }

    /// Formats the row as a line of a price list, with all columns of [`PriceColumn::ALL`].
    pub fn to_csv(&self) -> String {
        let fields = PriceColumn::ALL.map(|column| quoted(&self.field(column)));
        fields.join(",")
    }

    /// Returns the text of a column.
    pub fn field(&self, column: PriceColumn) -> String {
        fn number(value: Option<impl ToString>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        match column {
            PriceColumn::Model => self.model.clone(),
            PriceColumn::Provider => self.provider.clone(),
            PriceColumn::From => number(self.from),
            PriceColumn::Above => number(self.above),
            PriceColumn::Tier if self.tier == ServiceTier::Standard => String::new(),
            PriceColumn::Tier => self.tier.name().to_owned(),
            PriceColumn::Input => number(self.input),
            PriceColumn::Output => number(self.output),
            PriceColumn::CacheWrite5m => number(self.cache_write_5m),
            PriceColumn::CacheWrite1h => number(self.cache_write_1h),
            PriceColumn::CacheRead => number(self.cache_read),
            PriceColumn::WebSearch => number(self.web_search),
            PriceColumn::UsPercent => number(self.us_percent),
            PriceColumn::Context => number(self.context),
            PriceColumn::SameAs => self.same_as.clone().unwrap_or_default(),
            PriceColumn::Source => self.source.clone(),
        }
    }

    /// Parses one field; the error describes what is wrong with it.
    pub(super) fn set(&mut self, column: PriceColumn, text: &str) -> Result<(), String> {
        match column {
            PriceColumn::Model => text.clone_into(&mut self.model),
            PriceColumn::Provider => text.clone_into(&mut self.provider),
            PriceColumn::Source => text.clone_into(&mut self.source),
            PriceColumn::SameAs => self.same_as = non_empty(text).map(str::to_owned),
            PriceColumn::From => self.from = non_empty(text).map(date).transpose()?,
            PriceColumn::Above => self.above = non_empty(text).map(tokens).transpose()?,
            PriceColumn::Context => self.context = non_empty(text).map(tokens).transpose()?,
            PriceColumn::Tier => {
                self.tier = non_empty(text).map_or(Ok(ServiceTier::Standard), parse_tier)?
            }
            PriceColumn::UsPercent => self.us_percent = non_empty(text).map(percent).transpose()?,
            // Each token and each search costs a whole number of pico-dollars.
            PriceColumn::Input => self.input = non_empty(text).map(per_million).transpose()?,
            PriceColumn::Output => self.output = non_empty(text).map(per_million).transpose()?,
            PriceColumn::CacheWrite5m => {
                self.cache_write_5m = non_empty(text).map(per_million).transpose()?
            }
            PriceColumn::CacheWrite1h => {
                self.cache_write_1h = non_empty(text).map(per_million).transpose()?
            }
            PriceColumn::CacheRead => {
                self.cache_read = non_empty(text).map(per_million).transpose()?
            }
            PriceColumn::WebSearch => {
                self.web_search = non_empty(text).map(per_thousand).transpose()?
            }
        }
        Ok(())
    }
}

/// A column of a price list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the members of Row say what they are")]
pub enum PriceColumn {
    Model,
    Provider,
    From,
    Above,
    Tier,
    Input,
    Output,
    CacheWrite5m,
    CacheWrite1h,
    CacheRead,
    WebSearch,
    UsPercent,
    Context,
    SameAs,
    Source,
}

impl PriceColumn {
    /// All columns, in the order of the built-in list.
    pub const ALL: [PriceColumn; 15] = [
        PriceColumn::Model,
        PriceColumn::Provider,
        PriceColumn::From,
        PriceColumn::Above,
        PriceColumn::Tier,
        PriceColumn::Input,
        PriceColumn::Output,
        PriceColumn::CacheWrite5m,
        PriceColumn::CacheWrite1h,
        PriceColumn::CacheRead,
        PriceColumn::WebSearch,
        PriceColumn::UsPercent,
        PriceColumn::Context,
        PriceColumn::SameAs,
        PriceColumn::Source,
    ];

    /// Returns the name used in the header line.
    pub fn name(self) -> &'static str {
        match self {
            PriceColumn::Model => "model",
            PriceColumn::Provider => "provider",
            PriceColumn::From => "from",
            PriceColumn::Above => "above",
            PriceColumn::Tier => "pace",
            PriceColumn::Input => "input",
            PriceColumn::Output => "output",
            PriceColumn::CacheWrite5m => "cache_write_5m",
            PriceColumn::CacheWrite1h => "cache_write_1h",
            PriceColumn::CacheRead => "cache_read",
            PriceColumn::WebSearch => "web_search",
            PriceColumn::UsPercent => "us_percent",
            PriceColumn::Context => "context",
            PriceColumn::SameAs => "same_as",
            PriceColumn::Source => "source",
        }
    }

    /// Returns the column with this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|column| column.name().eq_ignore_ascii_case(name))
    }
}

/// Truncates a text of any length for a message.
pub(super) fn brief(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn date(text: &str) -> Result<Date, String> {
    let shaped = text.len() == 10 && text.bytes().filter(|byte| *byte == b'-').count() == 2;
    let date = shaped.then(|| text.parse().ok()).flatten();
    date.ok_or_else(|| format!("`{}` is not a date; write it as 2026-01-31", brief(text)))
}

fn tokens(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "`{}` is not a number of tokens; write it as 200000",
            brief(text)
        )
    })
}

fn percent(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|percent| (1..=1000).contains(percent))
        .ok_or_else(|| format!("`{}` is not a percentage from 1 to 1000", brief(text)))
}

fn parse_tier(text: &str) -> Result<ServiceTier, String> {
    let names = || ServiceTier::ALL.map(ServiceTier::name).join(", ");
    ServiceTier::by_name(text)
        .ok_or_else(|| format!("unknown pace `{}`; use one of {}", brief(text), names()))
}

fn per_million(text: &str) -> Result<Money, String> {
    price(text, 1_000_000)
}

fn per_thousand(text: &str) -> Result<Money, String> {
    price(text, 1_000)
}

/// Parses a price for `many` items; one item must cost a whole number of pico-dollars.
fn price(text: &str, many: i128) -> Result<Money, String> {
    // `Money::parse` rounds silently, so more digits than it holds are rejected below.
    let money = Money::parse(text).ok_or_else(|| {
        format!(
            "`{}` is not a price; write dollars as 3 or 0.25",
            brief(text)
        )
    })?;
    if money < Money::ZERO {
        return Err(format!("`{}` is negative", brief(text)));
    }
    let (mantissa, _) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    let digits = mantissa.split_once('.').map_or("", |(_, part)| part);
    let nothing = mantissa.bytes().all(|byte| !(b'1'..=b'9').contains(&byte));
    let rounded = digits.len() > 12 || (money == Money::ZERO && !nothing);
    if rounded || money.pico() % many != 0 {
        return Err(format!(
            "`{}` has more decimals than annals supports",
            brief(text)
        ));
    }
    Ok(money)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"']) || text.starts_with('#') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
