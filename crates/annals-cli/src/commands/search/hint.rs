//! Hints for a search without hits.

use annals::search::Query;

use crate::terminal::suggest::suggest;

/// Maximum number of hints.
const MAX_HINTS: usize = 3;

/// Returns hints about likely causes, the likeliest first.
pub(super) fn hints(query: &Query) -> Vec<String> {
    let terms = query.required_terms();
    let is_phrase = |text: &str| text.contains(char::is_whitespace);
    let literals = || terms.iter().filter_map(|term| term.literal());
    let mut hints: Vec<String> = literals().filter_map(mistyped_filter).collect();
    if terms.iter().any(|term| term.matches_case()) {
        hints.push("--case matches case; try without it".to_owned());
    }
    if let Some(text) = literals().find(|text| is_phrase(text)) {
        hints.push(format!(
            "\"{text}\" matches only this phrase; without quotes its words may be apart"
        ));
    }
    if terms.len() > 1 && !query.has_alternatives() {
        hints.push("all words must be in one record; OR between them matches any".to_owned());
    }
    let whole = terms.iter().filter(|term| term.matches_whole_words());
    let mut words = whole.filter_map(|term| term.literal());
    let word = words.find(|text| !is_phrase(text) && mistyped_filter(text).is_none());
    if let Some(text) = word {
        hints.push(format!(
            "search matches whole words; try {text}* or *{text}*"
        ));
    }
    if query.required_filters() > 0 {
        hints.push("each condition narrows the search; leave one out".to_owned());
    }
    hints.truncate(MAX_HINTS);
    hints
}

/// Returns a hint for a text such as `rol:user`, which looks like a mistyped filter.
fn mistyped_filter(text: &str) -> Option<String> {
    let (name, value) = text.split_once(':')?;
    if value.is_empty() || value.starts_with([':', '/']) {
        return None;
    }
    let meant = suggest(name, Query::FILTER_NAMES.iter().copied(), 1);
    let meant = meant.first()?;
    Some(format!(
        "{text} was searched as text; did you mean {meant}:{value}?"
    ))
}
