//! `annals search`

use annals::search::{Dialect, Filter, Found, Hit, Query};
use annals::store::Inventory;
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Outcome;
use super::filter::{Period, resolve_dir};
use super::row::{Short, message};
use crate::context::Context;
use crate::render::size;
use crate::render::style::{BOLD, DIM, ID, MATCH, PLAIN, TIME, paint};

/// Looks for a text in all messages and notes.
#[derive(Debug, Args)]
#[command(after_help = "\
The text is looked for as it is, letter case aside, in what was said, thought, asked of tools and
given back by them, and in notes. The sessions that were last at work come first.

Examples:
  annals search 'connection reset'
  annals search migration --project my-app --since 30d
  annals search TODO --session 8c549c46 --json
  annals search deploy --session thread_abc123   every conversation of a thread")]
pub(crate) struct SearchArgs {
    /// The text
    text: String,
    /// Only in this session, or in the sessions of this thread
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only in sessions of this project: its path, its name, or its id
    #[arg(long, short, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    period: Period,
    /// At most this many hits
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Serialize)]
struct Document<'a> {
    hits: Vec<Row<'a>>,
    total: u64,
    truncated: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    session: &'a str,
    entry: Option<&'a str>,
    file: &'a std::path::Path,
    line: u64,
    role: Option<&'static str>,
    time: Option<Timestamp>,
    snippet: &'a str,
}

impl<'a> Row<'a> {
    fn of(hit: &'a Hit) -> Self {
        Row {
            session: hit.session.as_str(),
            entry: hit.entry.as_ref().map(|id| id.as_str()),
            file: &hit.file,
            line: hit.line,
            role: hit.role.map(|role| role.as_str()),
            time: hit.time,
            snippet: &hit.snippet,
        }
    }
}

pub(crate) fn run(args: &SearchArgs, context: &mut Context) -> Result<Outcome> {
    let (since, until) = args.period.resolve(context)?;
    let dialect = Dialect::at(context.clock.now());
    let mut query = Query::parse(&args.text, &dialect)?.limit(args.limit);
    query = since
        .into_iter()
        .fold(query, |query, time| query.and(Filter::Since(time)));
    query = until
        .into_iter()
        .fold(query, |query, time| query.and(Filter::Until(time)));
    if let Some(project) = &args.project {
        query = query.and(Filter::Project(resolve_dir(project)));
    }
    let mut inventory = context.inventory();
    if let Some(wanted) = &args.session {
        narrow(&mut inventory, wanted, context)?;
    }
    let found = context.search(&inventory, &query)?;
    if context.json {
        context.out.json(&Document {
            hits: found.hits.iter().map(Row::of).collect(),
            total: found.total,
            truncated: found.truncated,
        })?;
    } else {
        print(&inventory, &found, context)?;
    }
    if args.session.is_none() {
        context.learn_later(inventory);
    }
    Ok(if found.total == 0 {
        Outcome::Nothing
    } else {
        Outcome::Fine
    })
}

/// Leaves the sessions that were named: by the beginning of their ids, by their thread, by a path.
fn narrow(inventory: &mut Inventory, wanted: &str, context: &Context) -> Result<()> {
    let begins = |id: &str| id.starts_with(wanted);
    let sessions = &inventory.sessions;
    let by_id = sessions.iter().any(|files| begins(files.id.as_str()));
    let by_thread = sessions.iter().any(|files| files.id.is_named(wanted));
    if by_id && !wanted.is_empty() {
        inventory.sessions.retain(|files| begins(files.id.as_str()));
    } else if by_thread {
        inventory.sessions.retain(|files| files.id.is_named(wanted));
    } else {
        let target = context.store.find(inventory, wanted)?;
        inventory.sessions = vec![target.files];
    }
    Ok(())
}

fn print(inventory: &Inventory, found: &Found, context: &mut Context) -> Result<()> {
    if found.total == 0 {
        context.out.line("Nothing found.")?;
        return Ok(());
    }
    let short = Short::of(inventory.sessions.iter().map(|files| files.id.as_str()));
    for (at, hit) in found.hits.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| found.hits.get(at));
        if before.is_none_or(|before| before.session != hit.session) {
            if at > 0 {
                context.out.blank()?;
            }
            context
                .out
                .line(paint(ID, short.get(hit.session.as_str())))?;
        }
        let line = line(hit, context);
        context.out.line(line)?;
    }
    if found.truncated {
        let shown = found.hits.len() as u64;
        context.out.blank()?;
        let more = size::plural(found.total.saturating_sub(shown), "more hit");
        let text = format!("… {more}: --limit {}", found.total);
        context.out.line(paint(DIM, &text))?;
    }
    Ok(())
}

fn line(hit: &Hit, context: &Context) -> String {
    let time = hit.time.map(|time| context.clock.full(time));
    let role = hit.role.map_or("note", |role| role.as_str());
    let id = hit.entry.as_ref().map(|id| message(id.as_str()));
    let mut snippet = String::new();
    let mut from = 0;
    for at in &hit.at {
        let before = hit.snippet.get(from..at.start).unwrap_or_default();
        let found = hit.snippet.get(at.clone()).unwrap_or_default();
        snippet += &format!("{}{}", paint(PLAIN, before), paint(MATCH, found));
        from = at.end;
    }
    let rest = hit.snippet.get(from..).unwrap_or_default();
    snippet += &paint(PLAIN, rest).to_string();
    format!(
        "  {}  {}  {}\n    {snippet}",
        paint(TIME, time.as_deref().unwrap_or("no time")),
        paint(BOLD, role),
        paint(DIM, id.unwrap_or_default()),
    )
}
