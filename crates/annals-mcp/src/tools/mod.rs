//! The tools: one function each, from arguments to an answer.

mod cost;
mod files;
mod outline;
mod read;
mod search;
mod sessions;
mod write;

use jiff::Timestamp;
use serde_json::Value;

use crate::answer::Answer;
use crate::server::{Server, describe};

/// Most bytes of an error: clients cut longer ones.
pub(crate) const MAX_ERROR: usize = 2_000;

/// Most bytes of a title in a row.
const MAX_TITLE: usize = 120;

/// The tools that only read, as `tools/list` answers.
pub(crate) const READING: &str = include_str!("../tools.json");

/// The tools that `--write` adds.
pub(crate) const WRITING: &str = include_str!("../tools-write.json");

/// Calls a tool.
pub(crate) fn call(
    server: &Server,
    tool: &str,
    arguments: Value,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Answer, String> {
    match tool {
        "search" => search::call(server, arguments, stop),
        "sessions" => sessions::call(server, arguments),
        "outline" => outline::call(server, arguments),
        "read" => read::call(server, arguments),
        "files" => files::call(server, arguments, stop),
        "cost" => cost::call(server, arguments),
        "note" if server.options.write => write::note(server, arguments),
        "tag" if server.options.write => write::tag(server, arguments),
        "todo" if server.options.write => write::todo(server, arguments),
        other => Err(format!("there is no tool `{other}`")),
    }
}

/// Parses the ends of a period.
fn period(
    server: &Server,
    since: Option<&str>,
    until: Option<&str>,
) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    let service = &server.service;
    let since = since.map(|text| service.parse_since(text)).transpose();
    let until = until.map(|text| service.parse_until(text)).transpose();
    Ok((
        since.map_err(|error| describe(&error))?,
        until.map_err(|error| describe(&error))?,
    ))
}

/// Formats a time in a line of text, to the minute.
fn minute(time: Option<Timestamp>) -> String {
    time.map(|time| time.strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default()
}

/// Returns a number with its noun, whose plural ends with `s`.
fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}
