//! Token counts of a draft, in the spellings of the Messages API and of programs that write logs.

use std::borrow::Cow;

use crate::model::Usage;
use serde_json::value::RawValue;

use super::{BadDraft, Line, truncate};

/// Spellings of a count; the first is that of the Messages API.
struct CountMember {
    names: &'static [&'static str],
}

const INPUT: CountMember = CountMember {
    names: &["input_tokens", "inputTokens"],
};
const OUTPUT: CountMember = CountMember {
    names: &["output_tokens", "outputTokens"],
};
const CACHE_WRITE: CountMember = CountMember {
    names: &[
        "cache_creation_input_tokens",
        "cache_creation_tokens",
        "cacheCreationInputTokens",
        "cacheCreationTokens",
    ],
};
const CACHE_READ: CountMember = CountMember {
    names: &[
        "cache_read_input_tokens",
        "cache_read_tokens",
        "cacheReadInputTokens",
        "cacheReadTokens",
    ],
};
const FIVE_MINUTES: CountMember = CountMember {
    names: &["ephemeral_5m_input_tokens", "ephemeral5mInputTokens"],
};
const ONE_HOUR: CountMember = CountMember {
    names: &["ephemeral_1h_input_tokens", "ephemeral1hInputTokens"],
};
const WEB_SEARCHES: CountMember = CountMember {
    names: &["web_search_requests", "webSearchRequests"],
};

const CACHE_SPLIT: [&str; 2] = ["cache_creation", "cacheCreation"];
const SERVER_TOOLS: [&str; 2] = ["server_tool_use", "serverToolUse"];

/// Spellings of members that are not counts; the first is that of the Messages API.
const EXTRA_MEMBERS: [&[&str]; 4] = [
    &["service_tier", "serviceTier"],
    &["speed"],
    &["inference_geo", "inferenceGeo"],
    &["iterations"],
];

const WEB_FETCHES: [&str; 2] = ["web_fetch_requests", "webFetchRequests"];

/// Content of `usage`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ParsedUsage {
    pub(super) usage: Usage,
    /// The members beyond the counts, as a JSON object; `None` if there are none.
    pub(super) extra: Option<String>,
}

type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// Parses `usage`. An unknown member is an error that names it.
pub(super) fn parse_usage<'a>(
    line: Line<'a>,
    raw: &'a RawValue,
) -> Result<Option<ParsedUsage>, BadDraft> {
    if raw.get() == "null" {
        return Ok(None);
    }
    let members = line.parse_members(raw.get(), "counts of tokens in `usage`")?;
    let mut rest = UsageMembers { line, members };
    let write = rest.take_count(&CACHE_WRITE)?;
    let input = rest.take_count(&INPUT)?;
    let output = rest.take_count(&OUTPUT)?;
    let cache_read = rest.take_count(&CACHE_READ)?;
    let mut split = rest.take_object(&CACHE_SPLIT)?;
    let short = split.take_count(&FIVE_MINUTES)?;
    let long = split.take_count(&ONE_HOUR)?;
    split.refuse_rest("usage.cache_creation")?;
    let mut server = rest.take_object(&SERVER_TOOLS)?;
    let web_searches = server.take_count(&WEB_SEARCHES)?;
    let fetches = server
        .take_any(&WEB_FETCHES)?
        .filter(|raw| raw.get() != "0");
    server.refuse_rest("usage.server_tool_use")?;
    let mut terms: Vec<(&str, String)> = Vec::new();
    for names in EXTRA_MEMBERS {
        let given = rest.take_any(names)?.filter(|raw| raw.get() != "null");
        let given = given.zip(names.first());
        terms.extend(given.map(|(raw, name)| (*name, raw.get().to_owned())));
    }
    if let Some(fetches) = fetches {
        let searches = web_searches.unwrap_or_default();
        let tools = format!(
            r#"{{"web_search_requests":{searches},"web_fetch_requests":{}}}"#,
            fetches.get()
        );
        terms.push(("server_tool_use", tools));
    }
    rest.refuse_rest("usage")?;
    let parts = short.unwrap_or(0).saturating_add(long.unwrap_or(0));
    if let Some(all) = write.filter(|all| parts > *all) {
        let why = format!(
            "`usage` disagrees with itself: {all} tokens written to the cache, but cache_creation counts {parts}"
        );
        return Err(line.error_at_value(Some(raw), why));
    }
    // Tokens that the split does not count are five-minute writes, as in readers.
    let rest = write.unwrap_or(parts) - parts;
    let usage = Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cache_write_5m: short.unwrap_or(0) + rest,
        cache_write_1h: long.unwrap_or(0),
        cache_read: cache_read.unwrap_or(0),
        web_searches: web_searches.unwrap_or(0),
    };
    let terms = (!terms.is_empty()).then(|| {
        let members = terms
            .iter()
            .map(|(name, value)| format!(r#""{name}":{value}"#));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    });
    Ok(Some(ParsedUsage {
        usage,
        extra: terms,
    }))
}

/// Members of an object that are not yet parsed.
struct UsageMembers<'a> {
    line: Line<'a>,
    members: Vec<Member<'a>>,
}

impl<'a> UsageMembers<'a> {
    /// Takes a member in any of its spellings. Two spellings must have the same value.
    fn take_any(&mut self, names: &[&str]) -> Result<Option<&'a RawValue>, BadDraft> {
        let mut found: Option<Member<'a>> = None;
        let mut at = 0;
        while let Some((name, _)) = self.members.get(at) {
            if !names.contains(&&**name) {
                at += 1;
                continue;
            }
            let (name, raw) = self.members.remove(at);
            if let Some((other, known)) = &found
                && known.get() != raw.get()
            {
                let why = format!("`{other}` and `{name}` are the same count and differ");
                return Err(self.line.error_at_value(Some(raw), why));
            }
            found = Some((name, raw));
        }
        Ok(found.map(|(_, raw)| raw))
    }

    fn take_count(&mut self, count: &CountMember) -> Result<Option<u64>, BadDraft> {
        let Some(raw) = self.take_any(count.names)? else {
            return Ok(None);
        };
        let name = count.names.first().copied().unwrap_or_default();
        let number: Option<u64> = self
            .line
            .parse_json(raw.get(), &format!("a count of tokens as `{name}`"))?;
        match number {
            Some(number) if number > Usage::MAX_PLAUSIBLE => Err(self
                .line
                .error_at_value(Some(raw), "no response has that many tokens")),
            number => Ok(number),
        }
    }

    /// Takes a member that is an object; absent or `null` counts as empty.
    fn take_object(&mut self, names: &[&str]) -> Result<UsageMembers<'a>, BadDraft> {
        let raw = self.take_any(names)?.filter(|raw| raw.get() != "null");
        let name = names.first().copied().unwrap_or_default();
        let members = match raw {
            Some(raw) => self
                .line
                .parse_members(raw.get(), &format!("counts as `{name}`"))?,
            None => Vec::new(),
        };
        Ok(UsageMembers {
            line: self.line,
            members,
        })
    }

    /// Refuses the remaining members, which would be lost.
    fn refuse_rest(self, object: &str) -> Result<(), BadDraft> {
        let unknown = self.members.iter().find(|(_, raw)| raw.get() != "null");
        match unknown {
            None => Ok(()),
            Some((name, raw)) => {
                let why = format!(
                    "`{object}` has an unknown member `{}`, which would be lost; leave it out",
                    truncate(name)
                );
                Err(self.line.error_at_value(Some(raw), why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Option<ParsedUsage>, String> {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let line = Line {
            text: raw.get(),
            number: 1,
        };
        parse_usage(line, raw).map_err(|bad| bad.reason)
    }

    fn usage(text: &str) -> Usage {
        read_text(text).unwrap().unwrap().usage
    }

    #[test]
    fn usage_accepts_all_known_member_names() {
        let expected = Usage {
            input: 1,
            output: 2,
            cache_write_5m: 7,
            cache_read: 3,
            ..Usage::default()
        };
        for text in [
            r#"{"input_tokens":1,"output_tokens":2,"cache_creation_tokens":7,"cache_read_tokens":3}"#,
            r#"{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":7,"cache_read_input_tokens":3}"#,
            r#"{"inputTokens":1,"outputTokens":2,"cacheCreationTokens":7,"cacheReadTokens":3}"#,
            r#"{"inputTokens":1,"outputTokens":2,"cacheCreationInputTokens":7,"cacheReadInputTokens":3}"#,
            r#"{"input_tokens":1,"inputTokens":1,"output_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":7},"cache_read_tokens":3}"#,
        ] {
            assert_eq!(usage(text), expected, "{text}");
        }
    }

    #[test]
    fn cache_writes_missing_from_the_split_count_as_five_minutes() {
        let split = usage(
            r#"{"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":4}}"#,
        );
        assert_eq!((split.cache_write_5m, split.cache_write_1h), (6, 4));
    }

    #[test]
    fn usage_refuses_unknown_and_contradictory_members() {
        for (text, why) in [
            (r#"{"input_tokens":1,"inputTokens":2}"#, "inputTokens"),
            (r#"{"total_tokens":1}"#, "`total_tokens`"),
            (r#"{"cache_creation":{"forever":1}}"#, "`forever`"),
            (
                r#"{"cache_creation_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":2}}"#,
                "disagrees",
            ),
        ] {
            let refused = read_text(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn usage_preserves_extra_members_unless_null() {
        let plain = r#"{"input_tokens":1,"service_tier":null,"speed":null,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0}}"#;
        assert_eq!(read_text(plain).unwrap().unwrap().extra, None);
        let usual = r#"{"serviceTier":"standard","inference_geo":"","iterations":[]}"#;
        assert_eq!(
            read_text(usual).unwrap().unwrap().extra.as_deref(),
            Some(r#"{"service_tier":"standard","inference_geo":"","iterations":[]}"#)
        );
        let batch = r#"{"service_tier":"batch","server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}"#;
        assert_eq!(
            read_text(batch).unwrap().unwrap().extra.as_deref(),
            Some(
                r#"{"service_tier":"batch","server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}"#
            )
        );
    }
}
