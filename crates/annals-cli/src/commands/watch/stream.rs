//! Events as lines of JSON, in the shape that scripts may rely on.

use std::path::Path;

use annals::model::{Money, Usage};
use annals::watch::{Event, FollowedEntry, FollowedLog};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use super::totals::Total;
use crate::context::Context;
use annals::view::EntryJson;

/// An entry as in `show --json`, with its location.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct EntryLine<'a> {
    event: &'static str,
    earlier: bool,
    updated: bool,
    session: &'a str,
    project: &'a str,
    layout: &'static str,
    root: &'a Path,
    file: &'a Path,
    #[serde(flatten)]
    entry: EntryJson,
}

/// An event of a log.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct LogLine<'a> {
    event: &'static str,
    session: Option<&'a str>,
    agent: Option<&'a str>,
    layout: &'static str,
    root: &'a Path,
    file: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct Line<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct CostLine<'a> {
    event: &'static str,
    session: &'a str,
    requests: u64,
    #[serde(flatten)]
    usage: Usage,
    cost_usd: Option<Money>,
    unpriced: u64,
}

/// A line of `annals watch --json`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "only its schema is used"
)]
pub(in crate::commands) enum WatchJson<'a> {
    Entry(EntryLine<'a>),
    Log(LogLine<'a>),
    Cost(CostLine<'a>),
    Other(Line<'a>),
}

pub(super) fn entry(fresh: FollowedEntry, project: &str, context: &mut Context) -> Result<()> {
    let mut entry = fresh.entry;
    entry.agent = fresh.agent;
    let line = EntryLine {
        event: "entry",
        earlier: fresh.earlier,
        updated: fresh.updated,
        session: fresh.session.as_str(),
        project,
        layout: fresh.log.root.layout.name(),
        root: &fresh.log.root.path,
        file: &fresh.log.path,
        entry: EntryJson::new(entry),
    };
    Ok(context.out.json_line(&line)?)
}

/// Prints events of logs, and the event after which entries are new.
pub(super) fn print_event(event: &Event, context: &mut Context) -> Result<()> {
    match event {
        Event::CaughtUp => context.out.json_line(&Line {
            event: "live",
            why: None,
        })?,
        Event::Began { log } => context.out.json_line(&log_line("began", log, None))?,
        Event::Gone { log } => context.out.json_line(&log_line("gone", log, None))?,
        Event::Reset { log, reason: why } => {
            let why = Some(why.as_str());
            context.out.json_line(&log_line("reset", log, why))?;
        }
        _ => {}
    }
    Ok(())
}

fn log_line<'a>(
    event: &'static str,
    log: &'a FollowedLog,
    why: Option<&'static str>,
) -> LogLine<'a> {
    LogLine {
        event,
        session: log.artifact.session.as_ref().map(|id| id.as_str()),
        agent: log.artifact.agent.as_ref().map(|id| id.as_str()),
        layout: log.root.layout.name(),
        root: &log.root.path,
        file: &log.path,
        why,
    }
}

pub(super) fn print_polling(why: &str, context: &mut Context) -> Result<()> {
    Ok(context.out.json_line(&Line {
        event: "polling",
        why: Some(why),
    })?)
}

pub(super) fn print_cost(total: &Total, context: &mut Context) -> Result<()> {
    Ok(context.out.json_line(&CostLine {
        event: "cost",
        session: total.session.as_str(),
        requests: total.tally.requests,
        usage: total.tally.usage,
        cost_usd: total.tally.known_cost(),
        unpriced: total.tally.unpriced,
    })?)
}
