//! Search results as JSON, in the shape that scripts may rely on.

use annals::search::SearchResults;
use annals::view::HitJson;
use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use super::Searched;
use crate::context::Context;
use annals_render::size;

#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct SearchJson<'a> {
    hits: Vec<HitJson<'a>>,
    total: u64,
    sessions: u64,
    truncated: bool,
}

#[derive(Serialize)]
struct CountJson {
    total: u64,
    sessions: u64,
}

/// Prints all hits, with the messages around them if those were asked for.
pub(super) fn print_json(searched: &Searched, around: bool, context: &mut Context) -> Result<()> {
    let found = &searched.found;
    let names = searched.names();
    let titles = searched.titles(&names, context);
    let row = |hit| {
        let title = names.session_index(hit).and_then(|at| titles.get(&at));
        let row = HitJson::new(hit, names.full_name(hit), names.is_archived(hit));
        let row = row.with_title(title.map(String::as_str));
        if around { row.with_context() } else { row }
    };
    context.out.json(&SearchJson {
        hits: found.hits.iter().map(row).collect(),
        total: found.total,
        sessions: found.sessions,
        truncated: found.truncated,
    })?;
    Ok(())
}

pub(super) fn print_count(found: &SearchResults, context: &mut Context) -> Result<()> {
    if context.json {
        context.out.json(&CountJson {
            total: found.total,
            sessions: found.sessions,
        })?;
    } else {
        context.out.line(sum(found))?;
    }
    Ok(())
}

/// Formats the totals: `12 hits in 3 sessions`.
pub(super) fn sum(found: &SearchResults) -> String {
    let hits = size::pluralize(found.total, "hit");
    let sessions = size::pluralize(found.sessions, "session");
    format!("{hits} in {sessions}")
}
