//! Search: hits by session, and what they have in common.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use annals::Error;
use annals::search::{Hit, TextPart};
use annals::service::{HitRow, SearchRequest};
use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::{Frame, Parameters, html, short_model};
use crate::app::{App, blocking};
use crate::problem::Problem;
use crate::text::{address, anchor};

/// Number of hits shown.
const LIMIT: usize = 200;

/// Number of newest hits among which the best are chosen.
const FIRST: usize = 400;

/// Number of values of a facet.
const MAX_VALUES: usize = 8;

/// Number of hits shown of one session among others.
const PER_SESSION: usize = 5;

#[derive(Template)]
#[template(path = "search.html")]
struct Search {
    frame: Frame,
    results: Results,
}

#[derive(Template)]
#[template(path = "results.html")]
struct Results {
    query: String,
    groups: Vec<Group>,
    facets: Vec<Facet>,
    summary: String,
    error: Option<QueryError>,
}

/// Hits of one session.
struct Group {
    href: String,
    title: String,
    project: String,
    ago: String,
    hits: Vec<ShownHit>,
    more: usize,
    /// The search in this session alone, which shows all of them.
    all: String,
}

impl Group {
    /// Its project, and when it was said.
    fn facts(&self) -> String {
        joined([self.project.clone(), self.ago.clone()])
    }
}

struct ShownHit {
    href: String,
    /// Who said it, and when.
    facts: String,
    /// Text, and whether it matches.
    pieces: Vec<(String, bool)>,
}

/// Values that hits have in common, with the query that selects them.
struct Facet {
    name: &'static str,
    values: Vec<(String, String, usize)>,
}

/// Position of an error in a query.
struct QueryError {
    why: String,
    before: String,
    at: String,
    after: String,
    column: usize,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, stop| {
        let query = given.get("q").to_owned();
        let results = match query.is_empty() {
            true => Results::empty(),
            false => results(app, &query, &|| stop.load(Ordering::Relaxed))?,
        };
        if given.get("part") == "1" {
            return html(&results);
        }
        let title = match query.is_empty() {
            true => "Search".to_owned(),
            false => format!("{} – search", app.line(&query)),
        };
        let mut frame = Frame::new(app, "search", title);
        frame.query = query;
        html(&Search { frame, results })
    })
    .await
}

impl Results {
    fn empty() -> Self {
        Results {
            query: String::new(),
            groups: Vec::new(),
            facets: Vec::new(),
            summary: String::new(),
            error: None,
        }
    }
}

fn results(app: &App, query: &str, stop: &(dyn Fn() -> bool + Sync)) -> Result<Results, Problem> {
    let inventory = app.service.inventory();
    let request = SearchRequest {
        limit: LIMIT,
        first: Some(FIRST),
        ..SearchRequest::new(query)
    };
    let found = match app.service.search_in(&inventory, &request, stop) {
        Ok(found) => found,
        Err(Error::Query { text, at, why }) => {
            let part =
                |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
            return Ok(Results {
                query: query.to_owned(),
                error: Some(QueryError {
                    column: part(0..at.start).chars().count() + 1,
                    before: part(0..at.start),
                    at: part(at.clone()),
                    after: part(at.end..text.len()),
                    why,
                }),
                ..Results::empty()
            });
        }
        Err(error) => return Err(error.into()),
    };
    let places = app.places(&inventory);
    let clock = app.clock();
    let per_session = match query.contains("session:") {
        true => LIMIT,
        false => PER_SESSION,
    };
    let mut groups: Vec<(String, Group)> = Vec::new();
    for row in &found.hits {
        let id = row.hit.session.as_str();
        let path = places.address_of_file(&row.hit.session, &row.hit.file);
        let at = groups.iter().position(|(known, _)| known == id);
        let at = at.unwrap_or_else(|| {
            let title = row.title.as_deref().map(|title| app.line(title));
            let group = Group {
                href: path.clone(),
                title: title.unwrap_or_else(|| "no title".to_owned()),
                project: String::new(),
                ago: String::new(),
                hits: Vec::new(),
                more: 0,
                all: address("/search", &[("q", &format!("{query} session:{id}"))]),
            };
            groups.push((id.to_owned(), group));
            groups.len() - 1
        });
        let Some((_, group)) = groups.get_mut(at) else {
            continue;
        };
        // A title has neither a directory nor a time.
        if let Some(cwd) = row.hit.cwd.as_deref().filter(|_| group.project.is_empty()) {
            group.project = app.line(cwd.rsplit('/').next().unwrap_or(cwd));
        }
        if let Some(time) = row.hit.time.filter(|_| group.ago.is_empty()) {
            group.ago = clock.ago(time);
        }
        match group.hits.len() < per_session {
            true => group.hits.push(shown(app, row, &path)),
            false => group.more += 1,
        }
    }
    let at_least = if found.at_least { "at least " } else { "" };
    Ok(Results {
        summary: format!(
            "{at_least}{} in {}",
            size::pluralize(found.total, "hit"),
            size::pluralize(found.sessions, "session")
        ),
        facets: facets(app, query, &found.hits),
        groups: groups.into_iter().map(|(_, group)| group).collect(),
        query: query.to_owned(),
        error: None,
    })
}

fn shown(app: &App, row: &HitRow, path: &str) -> ShownHit {
    let hit = &row.hit;
    let id = hit.entry.as_ref().map(|id| id.to_string());
    let key = id.unwrap_or_else(|| format!(":{}", hit.line));
    let agent = hit.agent.as_ref().map(|agent| agent.to_string());
    let agent = agent.unwrap_or_default();
    let link = address(path, &[("agent", &agent), ("at", &key)]);
    // Results of tools are recorded as messages of the user.
    let mut speaker = match hit.part {
        Some(TextPart::Result) => "tool result".to_owned(),
        Some(TextPart::Title) => "title".to_owned(),
        Some(TextPart::Note) => "note".to_owned(),
        _ => hit.role.map_or("", |role| role.as_str()).to_owned(),
    };
    if let Some(tool) = &hit.tool {
        speaker = format!("{speaker} · {}", app.line(tool));
    }
    let time = hit.time.map(|time| app.clock().full(time));
    ShownHit {
        href: format!("{link}#{}", anchor(&key)),
        facts: joined([speaker, time.unwrap_or_default()]),
        pieces: pieces(app, hit),
    }
}

/// Joins texts that are not empty.
fn joined(texts: [String; 2]) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join(" · ")
}

/// Splits a snippet at its matches. A masked one is shown whole: places of matches have moved.
fn pieces(app: &App, hit: &Hit) -> Vec<(String, bool)> {
    if app.masked(&hit.snippet) != hit.snippet {
        return vec![(app.line(&hit.snippet), false)];
    }
    let mut pieces = Vec::new();
    let mut done = 0;
    let visible =
        |text: &str| annals::text::visible(text, annals::text::LineBreaks::Spaces).into_owned();
    for range in &hit.highlights {
        let before = hit.snippet.get(done..range.start).unwrap_or_default();
        pieces.push((visible(before), false));
        let matched = hit.snippet.get(range.clone()).unwrap_or_default();
        pieces.push((visible(matched), true));
        done = range.end;
    }
    let rest = hit.snippet.get(done..).unwrap_or_default();
    pieces.push((visible(rest), false));
    pieces
}

/// A facet: its heading, the condition in a query, and the value of a hit.
type FacetOf = (&'static str, &'static str, fn(&App, &Hit) -> Option<String>);

const FACETS: [FacetOf; 5] = [
    ("Project", "project", |_, hit| hit.cwd.clone()),
    ("Role", "role", |_, hit| Some(hit.role?.as_str().to_owned())),
    ("Tool", "tool", |_, hit| hit.tool.clone()),
    ("Model", "model", |_, hit| {
        Some(short_model(hit.model.as_deref()?))
    }),
    ("Month", "after", |app, hit| {
        Some(app.clock().format(hit.time?, "%Y-%m"))
    }),
];

/// Returns the conditions that a month is between.
fn month_condition(month: &str) -> Option<String> {
    let first: jiff::civil::Date = format!("{month}-01").parse().ok()?;
    Some(format!("after:{first} before:{}", first.last_of_month()))
}

fn facets(app: &App, query: &str, hits: &[HitRow]) -> Vec<Facet> {
    let facet = |&(name, condition, value): &FacetOf| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for row in hits {
            if let Some(value) = value(app, &row.hit) {
                *counts.entry(value).or_default() += 1;
            }
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.truncate(MAX_VALUES);
        let values = counts.into_iter().map(|(value, count)| {
            let shown = match condition {
                "project" => value.rsplit('/').next().unwrap_or(&value),
                _ => &value,
            };
            let quoted = match value.contains([' ', '"', '(', ')']) {
                true => format!("\"{}\"", value.replace('"', "")),
                false => value.clone(),
            };
            let narrowing = match condition {
                "after" => month_condition(&value).unwrap_or_default(),
                _ => format!("{condition}:{quoted}"),
            };
            let narrowed = format!("{query} {narrowing}");
            (
                app.line(shown),
                address("/search", &[("q", &narrowed)]),
                count,
            )
        });
        Facet {
            name,
            values: values.collect(),
        }
    };
    let facets = FACETS.iter().map(facet);
    // One value narrows nothing.
    facets.filter(|facet| facet.values.len() > 1).collect()
}
