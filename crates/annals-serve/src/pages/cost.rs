//! Cost: a chart and a table, down to sessions and branches.

use std::sync::Arc;

use annals::cost::{Dimension, ReportRow};
use annals::service::{CostAnswer, CostRequest};
use annals_render::chart::{Chart, Size};
use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::{Frame, Parameters, cost_text, html};
use crate::app::{App, blocking};
use crate::problem::Problem;
use crate::text::address;

/// Number of rows shown.
const MAX_ROWS: usize = 200;

/// Periods, with their names.
const PERIODS: [(&str, &str); 4] = [
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("", "All time"),
];

#[derive(Template)]
#[template(path = "cost.html")]
struct Cost {
    frame: Frame,
    total: String,
    tokens: String,
    requests: String,
    scope: String,
    chart: String,
    columns: Vec<&'static str>,
    rows: Vec<Row>,
    left_out: usize,
    choices: Vec<Choice>,
    periods: Vec<Choice>,
    csv: String,
    unpriced: Vec<String>,
}

struct Row {
    keys: Vec<(String, String)>,
    requests: String,
    input: String,
    output: String,
    cached: String,
    cost: String,
}

struct Choice {
    name: String,
    href: String,
    is_chosen: bool,
}

/// Returns the question for costs of an address.
pub(crate) fn cost_request(app: &App, given: &Parameters) -> Result<CostRequest, Problem> {
    let since = given.given("since");
    let until = given.given("until");
    let by = given.given("by").unwrap_or_else(|| "day".to_owned());
    let dimension = |name: &str| {
        let known = Dimension::ALL.into_iter();
        let mut known = known.filter(|dimension| dimension.name() == name);
        known.next().ok_or_else(|| {
            let names = Dimension::ALL.map(Dimension::name).join(", ");
            Problem::bad_value(format!(
                "`{}` is no dimension of costs; known are {names}.",
                app.line(name)
            ))
        })
    };
    Ok(CostRequest {
        by: by.split(',').map(dimension).collect::<Result<_, _>>()?,
        since: since
            .map(|text| app.service.parse_since(&text))
            .transpose()?,
        until: until
            .map(|text| app.service.parse_until(&text))
            .transpose()?,
        project: given.given("project"),
        session: given.given("session"),
        model: given.given("model"),
        ..CostRequest::default()
    })
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    given: Parameters,
) -> Result<Response, Problem> {
    blocking(&app, move |app, _| {
        let request = cost_request(app, &given)?;
        let answer = app.service.cost(&request)?;
        if given.get("format") == "csv" {
            let headers = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=\"cost.csv\"",
                ),
            ];
            return Ok((headers, csv(app, &answer)).into_response());
        }
        html(&Cost::new(app, &given, &request, &answer))
    })
    .await
}

impl Cost {
    fn new(app: &App, given: &Parameters, request: &CostRequest, answer: &CostAnswer) -> Self {
        let report = &answer.report;
        let by = request.by.iter().map(|by| by.name()).collect::<Vec<_>>();
        let by = by.join(",");
        let link = |name: &str, value: &str| {
            let names = [
                "by", "since", "until", "project", "session", "model", "format",
            ];
            let parameters = names.map(|known| {
                let own = if known == "by" {
                    by.as_str()
                } else {
                    given.get(known)
                };
                (known, if known == name { value } else { own })
            });
            address("/cost", &parameters)
        };
        let useful = [
            Dimension::Day,
            Dimension::Week,
            Dimension::Month,
            Dimension::Project,
            Dimension::Model,
            Dimension::Session,
            Dimension::Branch,
            Dimension::Agent,
            Dimension::Layout,
        ];
        let choice = |dimension: Dimension| Choice {
            name: dimension.name().replace('-', " "),
            href: link("by", dimension.name()),
            is_chosen: dimension.name() == by,
        };
        let row = |row: &ReportRow| {
            let usage = &row.tally.usage;
            Row {
                keys: row
                    .parts
                    .iter()
                    .map(|part| {
                        let label = part.label.as_deref().filter(|label| !label.is_empty());
                        let title = answer
                            .labels
                            .get(part)
                            .and_then(|label| label.title.as_deref());
                        let text = app.line(title.or(label).unwrap_or(part.key()));
                        let down = match part.dimension {
                            Dimension::Project => address(
                                "/cost",
                                &[
                                    ("by", "session"),
                                    ("project", part.key()),
                                    ("since", given.get("since")),
                                ],
                            ),
                            Dimension::Session => {
                                address("/cost", &[("by", "branch"), ("session", part.key())])
                            }
                            _ => String::new(),
                        };
                        (text, down)
                    })
                    .collect(),
                requests: size::count(row.tally.requests),
                input: size::compact(usage.input),
                output: size::compact(usage.output),
                cached: size::compact(
                    usage
                        .cache_read
                        .saturating_add(usage.cache_write_5m)
                        .saturating_add(usage.cache_write_1h),
                ),
                cost: cost_text(&row.tally),
            }
        };
        let scope = ["project", "session", "model"].map(|name| given.get(name));
        let scope: Vec<String> = scope
            .iter()
            .filter(|it| !it.is_empty())
            .map(|it| app.line(it))
            .collect();
        let is_time = request.by.first().is_some_and(|by| {
            matches!(
                by,
                Dimension::Hour
                    | Dimension::Day
                    | Dimension::Week
                    | Dimension::Month
                    | Dimension::Block
            )
        });
        let shown: Box<dyn Iterator<Item = &ReportRow>> = match is_time {
            // The newest periods are what people look for.
            true => Box::new(report.rows.iter().rev()),
            false => Box::new(report.rows.iter()),
        };
        let unpriced = report
            .unpriced
            .iter()
            .filter_map(|one| one.model.as_deref());
        Cost {
            frame: Frame::new(app, "cost", "Cost"),
            total: cost_text(&report.total),
            tokens: size::compact(report.total.tokens()),
            requests: size::pluralize(report.total.requests, "request"),
            scope: scope.join(", "),
            chart: chart(app, answer),
            columns: request.by.iter().map(|by| by.name()).collect(),
            rows: shown.take(MAX_ROWS).map(row).collect(),
            left_out: report.rows.len().saturating_sub(MAX_ROWS),
            choices: useful.map(choice).into(),
            periods: PERIODS
                .map(|(value, name)| Choice {
                    name: name.to_owned(),
                    href: link("since", value),
                    is_chosen: given.get("since") == value,
                })
                .into(),
            csv: link("format", "csv"),
            unpriced: unpriced.map(|model| app.line(model)).collect(),
        }
    }
}

/// Draws the report; empty if there is nothing to draw.
fn chart(app: &App, answer: &CostAnswer) -> String {
    let mut chart = Chart::from_report(&answer.report, app.service.zone());
    if chart.bars.is_empty() {
        return String::new();
    }
    for series in &mut chart.series {
        *series = app.line(series);
    }
    for bar in &mut chart.bars {
        bar.label = app.line(&bar.label);
        bar.detail = bar.detail.as_deref().map(|detail| app.line(detail));
    }
    chart.svg(Size::default())
}

/// Returns the rows as CSV. A value that a spreadsheet would take for a formula is quoted by an
/// apostrophe.
fn csv(app: &App, answer: &CostAnswer) -> String {
    let field = |text: &str| {
        let text = app.line(text);
        let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let text = if formula { format!("'{text}") } else { text };
        format!("\"{}\"", text.replace('"', "\"\""))
    };
    let report = &answer.report;
    let mut lines = Vec::new();
    let mut names: Vec<&str> = report.by.iter().map(|by| by.name()).collect();
    names.extend([
        "requests",
        "input",
        "output",
        "cache_write",
        "cache_read",
        "cost_usd",
    ]);
    lines.push(names.join(","));
    for row in &report.rows {
        let usage = &row.tally.usage;
        let mut fields: Vec<String> = row.parts.iter().map(|part| field(part.key())).collect();
        let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
        fields.extend(
            [
                row.tally.requests,
                usage.input,
                usage.output,
                written,
                usage.cache_read,
            ]
            .map(|n| n.to_string()),
        );
        fields.push(
            row.tally
                .known_cost()
                .map(|cost| cost.to_string())
                .unwrap_or_default(),
        );
        lines.push(fields.join(","));
    }
    lines.join("\r\n") + "\r\n"
}
