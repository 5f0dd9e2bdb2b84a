//! Hits of a search as JSON.

use std::path::Path;

use annals_layouts::model::Entry;
use jiff::Timestamp;
use serde::Serialize;

use super::EntryJson;
use crate::search::Hit;

/// A hit as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HitJson<'a> {
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
    #[serde(skip)]
    hit: &'a Hit,
}

impl<'a> HitJson<'a> {
    /// Converts a hit; `id` is its name ([`HitNames::full_name`](super::HitNames::full_name)),
    /// `archived` whether its file exists only in the archive.
    pub fn new(hit: &'a Hit, id: String, archived: bool) -> Self {
        HitJson {
            id,
            session: hit.session.as_str(),
            title: None,
            entry: hit.entry.as_ref().map(|id| id.as_str()),
            layout: hit.layout,
            file: &hit.file,
            line: hit.line,
            offset: hit.offset,
            agent: hit.agent.as_ref().map(|agent| agent.as_str()),
            archived,
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
            before: None,
            after: None,
            hit,
        }
    }

    /// Sets the title of its session.
    pub fn with_title(self, title: Option<&'a str>) -> Self {
        HitJson { title, ..self }
    }

    /// Adds the messages around the hit.
    pub fn with_context(self) -> Self {
        let rows = |entries: &[Entry]| Some(entries.iter().cloned().map(EntryJson::new).collect());
        HitJson {
            before: rows(&self.hit.before),
            after: rows(&self.hit.after),
            ..self
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
