//! Search results as JSON, in the shape that scripts may rely on.

use std::collections::HashMap;
use std::path::Path;

use annals::search::{Hit, SearchResults};
use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use super::Searched;
use super::name::HitNames;
use crate::context::Context;
use crate::render::size;
use annals::view::EntryJson;

#[derive(Serialize)]
struct SearchJson<'a> {
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

#[derive(Serialize)]
struct HitJson<'a> {
    id: String,
    session: &'a str,
    title: Option<&'a str>,
    entry: Option<&'a str>,
    layout: &'a str,
    file: &'a Path,
    line: u64,
    offset: u64,
    agent: Option<&'a str>,
    /// True if the file exists only in the archive.
    archived: bool,
    role: Option<&'static str>,
    part: Option<&'static str>,
    tool: Option<&'a str>,
    model: Option<&'a str>,
    time: Option<Timestamp>,
    cwd: Option<&'a str>,
    score: f64,
    snippet: &'a str,
    matches: Vec<[usize; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<EntryJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Vec<EntryJson>>,
}

impl<'a> HitJson<'a> {
    fn new(
        hit: &'a Hit,
        names: &HitNames<'_>,
        titles: &'a HashMap<usize, String>,
        around: bool,
    ) -> Self {
        let title = names.session_index(hit).and_then(|at| titles.get(&at));
        let entries = |entries: &[annals::model::Entry]| {
            let entries = entries.iter().cloned().map(EntryJson::new);
            around.then(|| entries.collect())
        };
        HitJson {
            id: names.full_name(hit),
            session: hit.session.as_str(),
            title: title.map(String::as_str),
            entry: hit.entry.as_ref().map(|id| id.as_str()),
            layout: hit.layout,
            file: &hit.file,
            line: hit.line,
            offset: hit.offset,
            agent: hit.agent.as_ref().map(|agent| agent.as_str()),
            archived: names.is_archived(hit),
            role: hit.role.map(|role| role.as_str()),
            part: hit.part.map(|part| part.as_str()),
            tool: hit.tool.as_deref(),
            model: hit.model.as_deref(),
            time: hit.time,
            cwd: hit.cwd.as_deref(),
            // Rounded, because more digits would change between versions.
            score: (hit.score * 1e4).round() / 1e4,
            snippet: &hit.snippet,
            matches: match_ranges(hit),
            before: entries(&hit.before),
            after: entries(&hit.after),
        }
    }
}

/// Returns the ranges of matches in the snippet, in characters.
fn match_ranges(hit: &Hit) -> Vec<[usize; 2]> {
    let (mut bytes, mut characters) = (0, 0);
    let mut reach = |to: usize| {
        let passed = hit.snippet.get(bytes..to).unwrap_or_default();
        characters += passed.chars().count();
        bytes = to;
        characters
    };
    hit.highlights
        .iter()
        .map(|at| [reach(at.start), reach(at.end)])
        .collect()
}

/// Prints all hits, with the messages around them if those were asked for.
pub(super) fn print_json(searched: &Searched, around: bool, context: &mut Context) -> Result<()> {
    let found = &searched.found;
    let names = HitNames::new(searched);
    let titles = names.titles(context);
    context.out.json(&SearchJson {
        hits: found
            .hits
            .iter()
            .map(|hit| HitJson::new(hit, &names, &titles, around))
            .collect(),
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
