//! The rows of a price list: what they say, and how they are spelled.

use std::sync::Arc;

use jiff::civil::Date;

use crate::model::{Money, ServiceTier};

/// What a model costs from a day on, for contexts of a size, at a pace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriceRow {
    /// The model's name in the list.
    pub model: String,
    /// Who makes it.
    pub provider: String,
    /// The first day (UTC) on which it holds; `None` is since ever.
    pub from: Option<Date>,
    /// The context above which it holds, in tokens; `None` is the base.
    pub above: Option<u64>,
    /// How soon the answer is wanted.
    pub tier: ServiceTier,
    /// Dollars for a million tokens of fresh input.
    pub input: Option<Money>,
    /// Dollars for a million tokens of output.
    pub output: Option<Money>,
    /// Dollars for a million tokens written to the five-minute cache.
    pub cache_write_5m: Option<Money>,
    /// Dollars for a million tokens written to the one-hour cache.
    pub cache_write_1h: Option<Money>,
    /// Dollars for a million tokens read from the cache.
    pub cache_read: Option<Money>,
    /// Dollars for a thousand web searches.
    pub web_search: Option<Money>,
    /// What an answer costs that must be made in the United States, in percent.
    pub us_percent: Option<u32>,
    /// The context window, in tokens.
    pub context: Option<u64>,
    /// The model that this name stands for; such a row has no prices.
    pub same_as: Option<String>,
    /// Where the prices come from.
    pub source: String,
    /// The user's file in which it stands; `None` is the built-in list.
    pub file: Option<Arc<str>>,
    /// The line in that file.
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

    /// What two rows of a model must not share. In its order, later rows are tried first.
    pub(super) fn sort_key(&self) -> (ServiceTier, Option<Date>, Option<u64>) {
        (self.tier, self.from, self.above)
    }

    /// The row as a line of a price list, with all columns of [`PriceColumn::ALL`].
    pub fn to_csv(&self) -> String {
        let fields = PriceColumn::ALL.map(|column| quoted(&self.field(column)));
        fields.join(",")
    }

    /// What the row says in a column.
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

    /// Reads one field; the error says what is wrong with it.
    pub(super) fn set(&mut self, column: PriceColumn, text: &str) -> Result<(), String> {
        match column {
            PriceColumn::Model => text.clone_into(&mut self.model),
            PriceColumn::Provider => text.clone_into(&mut self.provider),
            PriceColumn::Source => text.clone_into(&mut self.source),
            PriceColumn::SameAs => self.same_as = filled(text).map(str::to_owned),
            PriceColumn::From => self.from = filled(text).map(date).transpose()?,
            PriceColumn::Above => self.above = filled(text).map(tokens).transpose()?,
            PriceColumn::Context => self.context = filled(text).map(tokens).transpose()?,
            PriceColumn::Tier => {
                self.tier = filled(text).map_or(Ok(ServiceTier::Standard), pace)?
            }
            PriceColumn::UsPercent => self.us_percent = filled(text).map(percent).transpose()?,
            // Exact to the pico-dollar for each token, and for each search.
            PriceColumn::Input => self.input = filled(text).map(per_million).transpose()?,
            PriceColumn::Output => self.output = filled(text).map(per_million).transpose()?,
            PriceColumn::CacheWrite5m => {
                self.cache_write_5m = filled(text).map(per_million).transpose()?
            }
            PriceColumn::CacheWrite1h => {
                self.cache_write_1h = filled(text).map(per_million).transpose()?
            }
            PriceColumn::CacheRead => {
                self.cache_read = filled(text).map(per_million).transpose()?
            }
            PriceColumn::WebSearch => {
                self.web_search = filled(text).map(per_thousand).transpose()?
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
    /// All of them, in the order of the built-in list.
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

    /// Its name in the first line of a list.
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

    /// The column of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|column| column.name().eq_ignore_ascii_case(name))
    }
}

/// The beginning of a text that may be of any length, for messages.
pub(super) fn brief(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn filled(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn date(text: &str) -> Result<Date, String> {
    let shaped = text.len() == 10 && text.bytes().filter(|byte| *byte == b'-').count() == 2;
    let date = shaped.then(|| text.parse().ok()).flatten();
    date.ok_or_else(|| format!("`{}` is no day; write it as 2026-01-31", brief(text)))
}

fn tokens(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "`{}` is no number of tokens; write it as 200000",
            brief(text)
        )
    })
}

fn percent(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|percent| (1..=1000).contains(percent))
        .ok_or_else(|| format!("`{}` is no percentage from 1 to 1000", brief(text)))
}

fn pace(text: &str) -> Result<ServiceTier, String> {
    let names = || ServiceTier::ALL.map(ServiceTier::name).join(", ");
    ServiceTier::by_name(text)
        .ok_or_else(|| format!("`{}` is no pace; there are {}", brief(text), names()))
}

fn per_million(text: &str) -> Result<Money, String> {
    price(text, 1_000_000)
}

fn per_thousand(text: &str) -> Result<Money, String> {
    price(text, 1_000)
}

/// A price for so many of something, of which one must cost whole pico-dollars.
fn price(text: &str, many: i128) -> Result<Money, String> {
    // What is finer than Money would be rounded unseen; no such price has a place in a list.
    let money = Money::parse(text)
        .ok_or_else(|| format!("`{}` is no price; write dollars as 3 or 0.25", brief(text)))?;
    if money < Money::ZERO {
        return Err(format!("`{}` is less than nothing", brief(text)));
    }
    let (mantissa, _) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    let digits = mantissa.split_once('.').map_or("", |(_, part)| part);
    let nothing = mantissa.bytes().all(|byte| !(b'1'..=b'9').contains(&byte));
    let rounded = digits.len() > 12 || (money == Money::ZERO && !nothing);
    if rounded || money.pico() % many != 0 {
        return Err(format!("`{}` is finer than annals counts", brief(text)));
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
