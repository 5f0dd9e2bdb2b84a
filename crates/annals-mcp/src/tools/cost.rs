//! `cost`

use annals::cost::{Dimension, Tally};
use annals::service::CostRequest;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::sessions::short_cost;
use super::{MAX_TITLE, counted, period};
use crate::answer::{Answer, ListAnswer, Row};
use crate::arguments::{budget_bytes, parse, within};
use crate::server::{Server, describe};

/// Dimensions of rows.
const DIMENSIONS: [&str; 9] = [
    "day", "week", "month", "project", "model", "session", "agent", "branch", "block",
];

/// Most unpriced models that are named.
const MAX_MODELS: usize = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    by: Option<String>,
    project: Option<String>,
    since: Option<String>,
    until: Option<String>,
    top: Option<u64>,
}

pub(super) fn call(server: &Server, arguments: Value) -> Result<Answer, String> {
    let arguments: Arguments = parse(arguments)?;
    let top = within("top", arguments.top, &(1..=50), 10)?;
    let by = arguments.by.as_deref().unwrap_or("day");
    let dimension = Dimension::ALL.into_iter().find(|it| it.name() == by);
    let dimension = dimension.filter(|_| DIMENSIONS.contains(&by));
    let Some(dimension) = dimension else {
        return Err(format!(
            "by is `{by}`; it must be one of {}",
            DIMENSIONS.join(", ")
        ));
    };
    let (since, until) = period(
        server,
        arguments.since.as_deref(),
        arguments.until.as_deref(),
    )?;
    let request = CostRequest {
        by: vec![dimension],
        since,
        until,
        project: server.project(arguments.project),
        top: Some(usize::try_from(top).unwrap_or(usize::MAX)),
        ..CostRequest::default()
    };
    let answer = server
        .service
        .cost(&request)
        .map_err(|error| describe(&error))?;
    let report = &answer.report;
    let rows = report.rows.iter().map(|row| {
        let key = server.line(&row.key(), MAX_TITLE);
        let title = row
            .parts
            .iter()
            .find_map(|part| answer.labels.get(part)?.title.clone());
        let title = title.map(|title| server.line(&title, MAX_TITLE));
        let line = format!(
            "{key} {} {}",
            title.as_deref().unwrap_or_default(),
            tally_text(&row.tally)
        );
        let mut value = Map::new();
        value.insert("key".to_owned(), key.into());
        if let Some(title) = title {
            value.insert("title".to_owned(), title.into());
        }
        value.extend(tally(&row.tally));
        Row { value, line }
    });
    let rows: Vec<Row> = rows.collect();
    let models = report.unpriced.iter().take(MAX_MODELS);
    let models = models.map(|one| {
        one.model
            .as_deref()
            .map(|name| server.line(name, MAX_TITLE))
    });
    let models: Vec<Option<String>> = models.collect();
    let left = report.left_out.as_ref().map_or(0, |(rows, _)| *rows);
    let mut members = Map::new();
    members.insert("by".to_owned(), by.into());
    members.insert("total".to_owned(), Value::Object(tally(&report.total)));
    members.insert("left_out".to_owned(), left.into());
    members.insert("unpriced_models".to_owned(), json!(models));
    let heading = format!("Total {}. Rows by {by}:", tally_text(&report.total));
    let list = ListAnswer {
        budget: budget_bytes(None)?,
        name: "rows",
        members,
        heading,
        is_reversed: false,
    };
    list.fit(rows, |_| None)
}

fn tally(tally: &Tally) -> Map<String, Value> {
    let value = json!({
        "requests": tally.requests,
        "input": tally.usage.input,
        "output": tally.usage.output,
        "cache_write": tally.usage.cache_write_5m + tally.usage.cache_write_1h,
        "cache_read": tally.usage.cache_read,
        "cost_usd": tally.priced(),
        "unpriced": tally.unpriced,
    });
    value.as_object().cloned().unwrap_or_default()
}

fn tally_text(tally: &Tally) -> String {
    let cost = tally.priced().map(|cost| cost.to_string());
    let cost = cost.as_deref().map(short_cost);
    let cost = cost.map_or_else(|| "unpriced".to_owned(), |cost| format!("${cost}"));
    format!(
        "{cost}, {}, {}",
        counted(tally.requests, "request"),
        counted(tally.usage.total(), "token")
    )
}
