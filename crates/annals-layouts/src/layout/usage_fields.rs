//! Times and token counts, in the formats that several layouts share.

use jiff::Timestamp;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::scanner::{self, FromScanner, JsonScanner};
use crate::json::{self, Pairs, Raw, Text, object};
use crate::model::{BillingTerms, Members, Money, ServiceTier, Usage};

object! {
    struct UsageFields<'a> {
        "input_tokens" => input: Raw<'a>,
        "output_tokens" => output: Raw<'a>,
        "cache_read_input_tokens" => cache_read: Raw<'a>,
        "cache_creation_input_tokens" => cache_write: Raw<'a>,
        "cache_creation" => split: CacheWriteFields<'a>,
        "server_tool_use" => server: ServerToolFields<'a>,
        "service_tier" => tier: Text<'a>,
        "speed" => speed: Text<'a>,
        "inference_geo" => place: Text<'a>,
    }
}

object! {
    struct CacheWriteFields<'a> {
        "ephemeral_5m_input_tokens" => five_minutes: Raw<'a>,
        "ephemeral_1h_input_tokens" => one_hour: Raw<'a>,
    }
}

object! {
    struct ServerToolFields<'a> {
        "web_search_requests" => web_searches: Raw<'a>,
    }
}

/// Number of token counts in a usage object.
pub(crate) const COUNT_FIELDS: usize = 7;

/// Token counts with their member names in a record.
pub(crate) struct RawCounts<'a> {
    pub(crate) input: (&'a str, Raw<'a>),
    pub(crate) output: (&'a str, Raw<'a>),
    pub(crate) cache_read: (&'a str, Raw<'a>),
    pub(crate) cache_write: (&'a str, Raw<'a>),
    pub(crate) split: CacheWriteFields<'a>,
    pub(crate) server: ServerToolFields<'a>,
}

/// Usage of a reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyUsage {
    pub(crate) usage: Option<Usage>,
    pub(crate) terms: BillingTerms,
    /// Description of invalid counts.
    pub(crate) fault: Option<String>,
}

/// Decodes the usage of a reply in the format of the model API.
pub(crate) fn decode_reply_usage(raw: Raw<'_>) -> ReplyUsage {
    match decode_object(raw) {
        Ok(tokens) => reply_usage(&tokens),
        Err(fault) => ReplyUsage {
            fault: Some(fault),
            ..ReplyUsage::default()
        },
    }
}

fn reply_usage(tokens: &UsageFields<'_>) -> ReplyUsage {
    let terms = BillingTerms {
        // `speed` takes precedence over the tier: it is what was delivered, not what was requested.
        tier: [&tokens.speed, &tokens.tier]
            .into_iter()
            .filter_map(|name| ServiceTier::by_name(name.get()?))
            .find(|pace| *pace != ServiceTier::Standard)
            .unwrap_or_default(),
        us_only: tokens.place.get() == Some("us"),
    };
    let (usage, fault) = usage_from_counts(RawCounts {
        input: ("input_tokens", tokens.input),
        output: ("output_tokens", tokens.output),
        cache_read: ("cache_read_input_tokens", tokens.cache_read),
        cache_write: ("cache_creation_input_tokens", tokens.cache_write),
        split: tokens.split.clone(),
        server: tokens.server.clone(),
    });
    ReplyUsage {
        usage,
        terms,
        fault,
    }
}

/// Raw usage of a reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawUsage<'a> {
    tokens: UsageFields<'a>,
    /// A value that is not an object, or was not scanned.
    other: Raw<'a>,
}

impl<'a> RawUsage<'a> {
    /// Decodes the usage.
    pub(crate) fn decode(&self) -> ReplyUsage {
        match self.other.0 {
            None => reply_usage(&self.tokens),
            Some(_) => decode_reply_usage(self.other),
        }
    }

    /// Returns the counts that the scanner found.
    pub(crate) fn counts(&self) -> [Raw<'a>; COUNT_FIELDS] {
        let tokens = &self.tokens;
        [
            tokens.input,
            tokens.output,
            tokens.cache_read,
            tokens.cache_write,
            tokens.split.five_minutes,
            tokens.split.one_hour,
            tokens.server.web_searches,
        ]
    }
}

/// Scans in place: skipping the object first would cost as much again.
impl<'a> FromScanner<'a> for RawUsage<'a> {
    fn from_scanner(walk: &mut JsonScanner<'a>) -> Option<Self> {
        let mut usage = RawUsage::default();
        match walk.peek()? {
            b'{' => usage.tokens = UsageFields::from_scanner(walk)?,
            _ => usage.other = Raw::from_scanner(walk)?,
        }
        Some(usage)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawUsage<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(|other| RawUsage {
            other,
            ..RawUsage::default()
        })
    }
}

/// Decodes token counts, and describes invalid ones, which are omitted.
pub(crate) fn decode_usage(raw: Raw<'_>) -> (Option<Usage>, Option<String>) {
    let spent = decode_reply_usage(raw);
    (spent.usage, spent.fault)
}

/// One million dollars.
const MAX_PLAUSIBLE_COST: Money = Money::from_pico(1_000_000_000_000_000_000);

/// Decodes the cost that a program recorded for a reply, and describes an invalid value.
pub(crate) fn recorded_cost(name: &str, raw: Raw<'_>) -> (Option<Money>, Option<String>) {
    match raw.0.filter(|_| raw.is_some()) {
        None => (None, None),
        // No single response costs a million dollars.
        Some(text) => {
            match Money::parse(text).filter(|cost| (Money::ZERO..MAX_PLAUSIBLE_COST).contains(cost))
            {
                Some(cost) => (Some(cost), None),
                None => (None, Some(format!("{name} is {}", shown(raw)))),
            }
        }
    }
}

/// Decodes token counts with other member names, and describes invalid ones.
pub(crate) fn decode_counts<'a, T: Deserialize<'a> + FromScanner<'a> + Default>(
    raw: Raw<'a>,
    counts: impl FnOnce(T) -> RawCounts<'a>,
) -> (Option<Usage>, Option<String>) {
    match decode_object(raw) {
        Ok(tokens) => usage_from_counts(counts(tokens)),
        Err(fault) => (None, Some(fault)),
    }
}

/// Parses an object; `Err` if the value is something else.
fn decode_object<'a, T: Deserialize<'a> + FromScanner<'a> + Default>(
    raw: Raw<'a>,
) -> Result<T, String> {
    if raw.is_some() && !raw.0.is_some_and(|raw| raw.starts_with('{')) {
        return Err(format!("usage is {}", shown(raw)));
    }
    let read = raw.0.and_then(scanner::parse);
    Ok(read.unwrap_or_else(|| raw.parse()))
}

/// Decodes an optional count; `None` if it is invalid.
pub(crate) fn decode_count(raw: Raw<'_>) -> Option<Option<u64>> {
    let count = raw.count().ok()?;
    count
        .is_none_or(|count| count < Usage::MAX_PLAUSIBLE)
        .then_some(count)
}

/// Converts raw counts to usage. Invalid counts are omitted and described.
fn usage_from_counts(counts: RawCounts<'_>) -> (Option<Usage>, Option<String>) {
    let mut faults: Vec<String> = Vec::new();
    let mut count = |(name, raw): (&str, Raw<'_>)| {
        decode_count(raw).unwrap_or_else(|| {
            faults.push(format!("{name} is {}", shown(raw)));
            None
        })
    };
    let counts = [
        count(counts.input),
        count(counts.output),
        count(counts.cache_read),
        count(counts.cache_write),
        count(("ephemeral_5m_input_tokens", counts.split.five_minutes)),
        count(("ephemeral_1h_input_tokens", counts.split.one_hour)),
        count(("web_search_requests", counts.server.web_searches)),
    ];
    let fault = (!faults.is_empty()).then(|| faults.join("; "));
    (usage_from_array(counts), fault)
}

/// Returns the usage for counts in the order of [`RawUsage::counts`]; `None` if all are absent.
pub(crate) fn usage_from_array(counts: [Option<u64>; COUNT_FIELDS]) -> Option<Usage> {
    if counts.iter().all(Option::is_none) {
        return None;
    }
    let [input, output, read, write, short, long, searches] = counts;
    let (short, long) = (short.unwrap_or_default(), long.unwrap_or_default());
    // The part of the total that the split does not cover is five-minute cache writes, as all were
    // before lines had the split.
    let split = short.saturating_add(long);
    let rest = write.unwrap_or_default().saturating_sub(split);
    let short = short.saturating_add(rest);
    Some(Usage {
        input: input.unwrap_or_default(),
        output: output.unwrap_or_default(),
        cache_write_5m: short,
        cache_write_1h: long,
        cache_read: read.unwrap_or_default(),
        web_searches: searches.unwrap_or_default(),
    })
}

fn shown(raw: Raw<'_>) -> String {
    raw.0.unwrap_or_default().chars().take(40).collect()
}

/// Decodes a time: an RFC 3339 string, or milliseconds since 1970.
pub(crate) fn decode_time(raw: Raw<'_>) -> Option<Timestamp> {
    match raw.text() {
        Some(text) => text.parse().ok(),
        None => Timestamp::from_millisecond(raw.count().ok()??.try_into().ok()?).ok(),
    }
}

/// Formats a time as RFC 3339 with milliseconds, as most programs do, and more digits only if
/// needed.
pub(crate) fn format_time(time: Timestamp) -> String {
    match time == truncate_to_millis(time) {
        true => format!("{time:.3}"),
        false => time.to_string(),
    }
}

/// Truncates a time to milliseconds.
pub(crate) fn truncate_to_millis(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

/// Parser of times with a cache: most times share the minute and format of the previous one.
#[derive(Debug, Default)]
pub(crate) struct TimeParser {
    /// Prefix up to the minute, and the minute's start in milliseconds since 1970.
    minute: Option<([u8; MINUTE], i64)>,
}

/// Length of the prefix that all times of a minute share.
const MINUTE: usize = "\"2026-03-02T09:00:".len();

impl TimeParser {
    /// Parses a time with the same result as [`decode_time`].
    pub(crate) fn parse(&mut self, raw: Raw<'_>) -> Option<Timestamp> {
        let spelled = raw.0.and_then(|raw| raw.as_bytes().split_first_chunk());
        let spelled = spelled.and_then(|(minute, rest)| Some((minute, within_minute(rest)?)));
        let Some((minute, within)) = spelled else {
            return decode_time(raw);
        };
        if let Some((known, began)) = &self.minute
            && known == minute
        {
            return Timestamp::from_millisecond(began + within).ok();
        }
        let time = decode_time(raw)?;
        self.minute = Some((*minute, time.as_millisecond() - within));
        Some(time)
    }
}

/// Parses `59.123Z"` to milliseconds; `None` for any other format.
fn within_minute(rest: &[u8]) -> Option<i64> {
    let [tens, ones, b'.', fraction @ .., b'Z', b'"'] = rest else {
        return None;
    };
    let fraction: &[u8; 3] = fraction.try_into().ok()?;
    let digits = [tens, ones].into_iter().chain(fraction);
    let number = digits.into_iter().try_fold(0, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        Some(number * 10 + digit)
    })?;
    // Leap seconds are left to the full parser.
    (number < 60_000).then_some(number)
}

/// Draft member with the parts of usage that are not counts.
pub(crate) const USAGE_MEMBER: &str = "usage";

object! {
    struct UsageTerms<'a> {
        "service_tier" => tier: Raw<'a>,
        "speed" => speed: Raw<'a>,
        "inference_geo" => place: Raw<'a>,
        "iterations" => iterations: Raw<'a>,
        "server_tool_use" => server: ServerTools<'a>,
    }
}
object! {
    struct ServerTools<'a> {
        "web_search_requests" => searches: Raw<'a>,
        "web_fetch_requests" => fetches: Raw<'a>,
    }
}

/// Returns the members of a usage object that are not counts, as a JSON object; `None` if all have
/// their default values.
pub(crate) fn extra_usage_members(usage: Raw<'_>) -> Option<String> {
    let terms: UsageTerms<'_> = usage.parse_fast();
    let mut members: Vec<String> = Vec::new();
    let quiet: [(&str, Raw<'_>, &[&str]); 4] = [
        ("service_tier", terms.tier, &[r#""standard""#]),
        ("speed", terms.speed, &[r#""standard""#]),
        (
            "inference_geo",
            terms.place,
            &[r#""""#, r#""global""#, r#""not_available""#],
        ),
        ("iterations", terms.iterations, &["[]"]),
    ];
    for (name, raw, quiet) in quiet {
        let given = raw.0.filter(|raw| *raw != "null" && !quiet.contains(raw));
        members.extend(given.map(|raw| format!(r#""{name}":{raw}"#)));
    }
    let fetches = terms.server.fetches;
    if let Some(fetches) = fetches.0.filter(|raw| !matches!(*raw, "null" | "0")) {
        let searches = terms.server.searches.0.unwrap_or("0");
        members.push(format!(
            r#""server_tool_use":{{"web_search_requests":{searches},"web_fetch_requests":{fetches}}}"#
        ));
    }
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

/// Returns the parts of a draft's usage that are not counts, as a JSON object.
pub(crate) fn draft_usage_members(members: &Members) -> Option<&str> {
    let mut members = members.iter();
    let terms = members.find(|(name, _)| name == USAGE_MEMBER);
    terms.map(|(_, json)| json.as_str())
}

/// Encodes a usage object in the format of the model API, with members that are not counts.
pub(crate) fn usage_json(usage: &Usage, terms: Option<&str>) -> Result<Box<RawValue>> {
    let failed = |error: serde_json::Error| Error::refused(error.to_string());
    let counts = serde_json::to_string(&UsageOut::new(usage)).map_err(failed)?;
    let terms: Pairs<'_> = Raw(terms).parse();
    let terms: Vec<(&str, &str)> = terms
        .0
        .iter()
        .filter_map(|(name, raw)| Some((&**name, raw.0?)))
        .collect();
    let whole = json::set_members(counts.as_bytes(), &terms);
    let whole = whole.and_then(|whole| String::from_utf8(whole).ok());
    let whole = whole.ok_or_else(|| Error::refused("`usage` cannot be written"))?;
    RawValue::from_string(whole).map_err(failed)
}

/// Usage of a response in the format of the model API.
#[derive(Serialize)]
pub(crate) struct UsageOut {
    pub(crate) input_tokens: u64,
    pub(crate) cache_creation_input_tokens: u64,
    pub(crate) cache_read_input_tokens: u64,
    pub(crate) cache_creation: CacheWritesOut,
    pub(crate) output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_tool_use: Option<ServerToolsOut>,
    pub(crate) service_tier: &'static str,
}

#[derive(Serialize)]
pub(crate) struct CacheWritesOut {
    pub(crate) ephemeral_5m_input_tokens: u64,
    pub(crate) ephemeral_1h_input_tokens: u64,
}

#[derive(Serialize)]
pub(crate) struct ServerToolsOut {
    pub(crate) web_search_requests: u64,
}

impl UsageOut {
    pub(crate) fn new(usage: &Usage) -> Self {
        let searches = usage.web_searches;
        UsageOut {
            input_tokens: usage.input,
            cache_creation_input_tokens: usage.cache_write_5m.saturating_add(usage.cache_write_1h),
            cache_read_input_tokens: usage.cache_read,
            cache_creation: CacheWritesOut {
                ephemeral_5m_input_tokens: usage.cache_write_5m,
                ephemeral_1h_input_tokens: usage.cache_write_1h,
            },
            output_tokens: usage.output,
            server_tool_use: (searches > 0).then_some(ServerToolsOut {
                web_search_requests: searches,
            }),
            service_tier: "standard",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the five-minute and one-hour cache writes of a usage object.
    fn cache_writes(json: &str) -> (u64, u64) {
        let (usage, fault) = decode_usage(Raw(Some(json)));
        assert_eq!(fault, None, "{json}");
        let usage = usage.unwrap();
        (usage.cache_write_5m, usage.cache_write_1h)
    }

    /// The result must not depend on which times were parsed before.
    #[test]
    fn time_parser_agrees_with_stateless_parsing() {
        let times = [
            r#""2026-03-02T09:00:00.000Z""#,
            r#""2026-03-02T09:00:59.999Z""#,
            r#""2026-03-02T09:00:60.000Z""#,
            r#""2026-03-02T09:00:61.000Z""#,
            r#""2026-03-02T09:01:07.5Z""#,
            r#""2026-03-02T09:01:07.500+01:00""#,
            r#""2026-03-02T09:01:07.500z""#,
            r#""2026-03-02 09:01:07.500Z""#,
            r#""2026-03-02T09:01:0x.500Z""#,
            r#""2026-03-32T09:01:07.500Z""#,
            r#""2026-03-32T09:01:08.500Z""#,
            r#""1969-12-31T23:59:59.001Z""#,
            r#""1969-12-31T23:59:00.999Z""#,
            r#""2026-03-02T09:01:07.500Z"#,
            "1772442000123",
            "null",
            "",
        ];
        let mut clock = TimeParser::default();
        for before in times {
            for time in times.map(|time| Raw(Some(time))) {
                clock.parse(Raw(Some(before)));
                assert_eq!(
                    clock.parse(time),
                    decode_time(time),
                    "{time:?} after {before}"
                );
            }
        }
        assert_eq!(clock.parse(Raw(None)), None);
    }

    #[test]
    fn cache_write_split_never_loses_tokens() {
        for (sum, short, long, expected) in [
            ("100", "40", "0", (100, 0)),
            ("100", "0", "40", (60, 40)),
            ("100", "30", "40", (60, 40)),
            ("100", "40", "60", (40, 60)),
            ("100", "0", "0", (100, 0)),
            ("100", "null", "null", (100, 0)),
            // A split that exceeds the total is trusted.
            ("100", "80", "70", (80, 70)),
            ("0", "5", "6", (5, 6)),
            ("null", "5", "6", (5, 6)),
        ] {
            let json = format!(
                r#"{{"cache_creation_input_tokens":{sum},"cache_creation":{{"ephemeral_5m_input_tokens":{short},"ephemeral_1h_input_tokens":{long}}}}}"#
            );
            assert_eq!(cache_writes(&json), expected, "{json}");
        }
        assert_eq!(cache_writes(r#"{"cache_creation_input_tokens":7}"#), (7, 0));
    }
}
