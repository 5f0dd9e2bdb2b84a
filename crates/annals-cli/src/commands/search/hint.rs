//! Hints for a search without hits.

use annals::search::{Expr, Filter, Query, Term, TermKind};

use crate::render::suggest::suggest;

/// Maximum number of hints.
const MAX_HINTS: usize = 3;

/// Returns hints about likely causes, the likeliest first.
pub(super) fn hints(query: &Query) -> Vec<String> {
    let mut terms = Vec::new();
    let mut filters = 0;
    collect_required(&query.expr, &mut terms, &mut filters);
    let literals = || {
        let terms = terms.iter().copied();
        terms.filter(|term| matches!(term.kind, TermKind::Literal { .. }))
    };
    let mut hints: Vec<String> = literals()
        .filter_map(|term| mistyped_filter(&term.text))
        .collect();
    if terms.iter().any(|term| term.case) {
        hints.push("--case matches case; try without it".to_owned());
    }
    let phrase = literals().find(|term| term.text.contains(char::is_whitespace));
    if let Some(term) = phrase {
        let text = &term.text;
        hints.push(format!(
            "\"{text}\" matches only this phrase; without quotes its words may be apart"
        ));
    }
    if terms.len() > 1 && !has_alternatives(&query.expr) {
        hints.push("all words must be in one record; OR between them matches any".to_owned());
    }
    let closed = literals().find(|term| {
        let closed = TermKind::Literal {
            open_start: false,
            open_end: false,
        };
        let word = !term.text.contains(char::is_whitespace);
        term.kind == closed && word && mistyped_filter(&term.text).is_none()
    });
    if let Some(term) = closed {
        let text = &term.text;
        hints.push(format!(
            "search matches whole words; try {text}* or *{text}*"
        ));
    }
    if filters > 0 {
        hints.push("each condition narrows the search; leave one out".to_owned());
    }
    hints.truncate(MAX_HINTS);
    hints
}

/// Collects the required terms and counts the required filters. Negated ones cannot hide a hit.
fn collect_required<'a>(wanted: &'a Expr, terms: &mut Vec<&'a Term>, filters: &mut usize) {
    match wanted {
        Expr::All(parts) | Expr::Any(parts) => {
            parts
                .iter()
                .for_each(|part| collect_required(part, terms, filters));
        }
        Expr::Term(term) => terms.push(term),
        Expr::Filter(_) => *filters += 1,
        _ => {}
    }
}

fn has_alternatives(wanted: &Expr) -> bool {
    match wanted {
        Expr::Any(_) => true,
        Expr::All(parts) => parts.iter().any(has_alternatives),
        _ => false,
    }
}

/// Returns a hint for a text such as `rol:user`, which looks like a mistyped filter.
fn mistyped_filter(text: &str) -> Option<String> {
    let (name, value) = text.split_once(':')?;
    if value.is_empty() || value.starts_with([':', '/']) {
        return None;
    }
    let meant = suggest(name, Filter::NAMES.iter().copied(), 1);
    let meant = meant.first()?;
    Some(format!(
        "{text} was searched as text; did you mean {meant}:{value}?"
    ))
}
