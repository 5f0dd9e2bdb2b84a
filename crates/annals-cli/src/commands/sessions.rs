//! `annals sessions`

use std::cmp::Reverse;

use annals::retain::Pins;
use annals::store::{Inventory, SessionInfo, SessionState};
use anyhow::Result;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::Outcome;
use super::filter::SessionFilter;
use super::page::Page;
use super::pricing::{self, Pricer};
use crate::context::{Context, leak};
use annals::view::{SessionJson, ShortIds};
use annals_render::severity::severity_style;
use annals_render::size;
use annals_render::style::{DIM, ID, WARNING};
use annals_render::table::{Cell, Column, Table};

/// Lists sessions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals sessions --since 7d               of the last week
  annals sessions -p my-app -n 10          the ten newest of a project
  annals sessions -n 10 --offset 10        the next ten
  annals sessions --sort cost -n 5         the most expensive five
  annals sessions --state deleted          sessions in the trash
  annals sessions --json | jq '.sessions[] | select(.errors > 0) | .file'")]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    filter: SessionFilter,
    /// Leave out sessions without messages
    #[arg(long)]
    no_empty: bool,
    /// Only sessions in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateArg>,
    /// Sort order
    #[arg(long, value_name = "BY", default_value = "updated")]
    sort: SortArg,
}

impl SessionsArgs {
    /// Returns the number of sessions to read, if only the newest of all are shown.
    fn newest_limit(&self) -> Option<usize> {
        let narrowed = self.filter.is_set() || self.no_empty || self.state.is_some();
        let newest = !narrowed && self.sort == SortArg::Updated;
        self.filter.page.row_count().filter(|_| newest)
    }
}

/// The order of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortArg {
    /// The most recent first
    Updated,
    /// The most expensive first
    Cost,
}

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateArg {
    /// Without messages yet
    Created,
    /// In use
    Active,
    /// Older than its program keeps sessions
    Expired,
    /// In the trash
    Deleted,
    /// Only in the archive
    Archived,
}

impl StateArg {
    fn matches(self, session: &SessionInfo, now: Timestamp) -> bool {
        let state = match self {
            StateArg::Created => SessionState::Created,
            StateArg::Active => SessionState::Active,
            StateArg::Expired => SessionState::Expired,
            StateArg::Deleted => SessionState::Deleted,
            // Regardless of the state before.
            StateArg::Archived => return session.archived,
        };
        session.state_at(now) == state
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SessionsJson<'a> {
    sessions: Vec<SessionJson<'a>>,
    /// Number of sessions before `-n` and `--offset`.
    total: usize,
}

pub(crate) fn run(args: &SessionsArgs, context: &mut Context) -> Result<Outcome> {
    let pricer = Pricer::new(context)?;
    let (mut all, inventory) = if args.state == Some(StateArg::Deleted) {
        (context.store.trash().sessions()?, Inventory::default())
    } else {
        let inventory = context.inventory();
        let all = match args.newest_limit() {
            Some(limit) => context.newest_sessions(&inventory, limit),
            None => context.unsorted_sessions(&inventory),
        };
        (all, inventory)
    };
    // Sessions that cannot be read have ids too.
    let found = inventory.sessions.iter().map(|files| files.id.as_str());
    let short = ShortIds::new(found.chain(all.iter().map(|session| session.id.as_str())));
    if args.state != Some(StateArg::Deleted) {
        args.filter.warn_unknown_project(&all, context);
    }
    if let Some(wanted) = args.state {
        let now = context.clock.now;
        all.retain(|session| wanted.matches(session, now));
    }
    let filter = SessionFilter {
        page: Page::default(),
        ..args.filter.clone()
    };
    let mut sessions = filter.apply(context, all)?;
    if args.no_empty {
        sessions.retain(|session| session.messages > 0);
    }
    let total = match args.newest_limit() {
        // Only the newest were read.
        Some(_) => inventory.sessions.len(),
        None => sessions.len(),
    };
    let limit = args.filter.page.row_count().unwrap_or(usize::MAX);
    let newest = |session: &SessionInfo| (Reverse(session.updated), session.id.clone());
    match (args.state, args.sort) {
        // Deleted sessions are sorted already, newest deletion first.
        (Some(StateArg::Deleted), SortArg::Updated) => sessions.truncate(limit),
        (_, SortArg::Updated) => truncate_sorted(&mut sessions, limit, newest),
        (_, SortArg::Cost) => truncate_sorted(&mut sessions, limit, |session| {
            let cost = pricer.tally(&session.charges).cost;
            (Reverse(cost), newest(session))
        }),
    }
    let start = args.filter.page.offset.min(sessions.len());
    sessions.drain(..start);
    if context.json {
        let now = context.clock.now;
        let pins = context.pins_or_none();
        let row = |session| {
            let row = SessionJson::new(session, now, &pricer.tally(&session.charges));
            row.with_pinned(pins.contains_session(session))
        };
        let rows = sessions.iter().map(row).collect();
        context.out.json(&SessionsJson {
            sessions: rows,
            total,
        })?;
    } else if sessions.is_empty() {
        let narrowed = args.filter.is_set() || args.state.is_some();
        super::overview::print_nothing(context, narrowed, "session")?;
    } else {
        let pins = context.pins_or_none();
        let table = table(&sessions, context, &short, &pricer, &pins);
        context.out.text(table)?;
    }
    let outcome = match sessions.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
    };
    leak((inventory, sessions));
    Ok(outcome)
}

/// Sorts sessions by `key`, and keeps the first `limit`.
fn truncate_sorted<K: Ord>(
    sessions: &mut Vec<SessionInfo>,
    limit: usize,
    key: impl Fn(&SessionInfo) -> K,
) {
    if limit < sessions.len() / 8 {
        // Rows are large, so sort their keys and copy only the few.
        let keys = sessions.iter().enumerate();
        let mut order: Vec<(K, usize)> = keys.map(|(at, one)| (key(one), at)).collect();
        order.select_nth_unstable(limit);
        order.truncate(limit);
        order.sort_unstable();
        let few = order
            .iter()
            .filter_map(|(_, at)| sessions.get(*at).cloned());
        let few = few.collect();
        leak(std::mem::replace(sessions, few));
    } else {
        sessions.sort_by_cached_key(key);
        sessions.truncate(limit);
    }
}

/// Renders the table of sessions for the width of the terminal.
pub(crate) fn table(
    sessions: &[SessionInfo],
    context: &Context,
    short: &ShortIds,
    pricer: &Pricer,
    pins: &Pins,
) -> String {
    let several_projects = sessions.iter().any(|session| {
        sessions
            .first()
            .is_some_and(|first| first.project.path != session.project.path)
    });
    // A column with the same value in every row is left out.
    let project = || Column::new("PROJECT").min(8).max(24).priority(60);
    let columns = [
        Column::new("SESSION").style(ID).priority(250),
        Column::new("UPDATED").style(DIM).priority(80),
    ];
    let columns = columns.into_iter().chain(several_projects.then(project));
    let mut table = Table::new(columns.chain([
        Column::title("TITLE").priority(200),
        Column::new("MSGS").right().priority(70),
        Column::new("CONVS").right().priority(50),
        Column::new("AGENTS").right().priority(40),
        Column::new("TOKENS").right().priority(45),
        Column::new("COST").right().priority(65),
        Column::new("SIZE").right().priority(55),
        Column::new("").style(WARNING).priority(150),
    ]));
    for session in sessions {
        let number = |n: u64| {
            if n == 0 {
                String::new()
            } else {
                size::count(n)
            }
        };
        let marks = marks(session, context, pins.contains_session(session));
        let cells = [
            Cell::new(short.get(session.id.as_str())),
            Cell::new(
                session
                    .updated
                    .map(|time| context.clock.ago(time))
                    .unwrap_or_default(),
            ),
        ];
        let project = several_projects.then(|| Cell::new(session.project.name()));
        table.row(cells.into_iter().chain(project).chain([
            match &session.title {
                Some(title) => Cell::new(&title.text),
                None => Cell::styled(untitled_label(session), DIM),
            },
            Cell::new(number(session.messages)),
            Cell::new(number(if session.conversations > 1 {
                session.conversations as u64
            } else {
                0
            })),
            Cell::new(number(session.agents as u64)),
            Cell::new(if session.usage.is_zero() {
                String::new()
            } else {
                size::compact(session.usage.total())
            }),
            pricing::cost_cell(&pricer.tally(&session.charges)),
            Cell::new(size::bytes(session.bytes)),
            marks,
        ]));
    }
    table.render(context.out.width())
}

fn untitled_label(session: &SessionInfo) -> &'static str {
    if session.messages == 0 {
        "(empty)"
    } else {
        "(no title)"
    }
}

/// Returns the cell with errors or warnings, state and tag of a session; dim if nothing needs
/// attention.
fn marks(session: &SessionInfo, context: &Context, pinned: bool) -> Cell {
    let mut marks = Vec::new();
    let flaws = session.flaw_counts();
    if flaws.errors > 0 {
        marks.push(size::pluralize(flaws.errors as u64, "error"));
    } else if flaws.warnings > 0 {
        marks.push(size::pluralize(flaws.warnings as u64, "warning"));
    }
    let state = session.state_at(context.clock.now);
    let kept = (pinned || session.archived) && state == SessionState::Active;
    let quiet = kept || state == SessionState::Created;
    let quiet = quiet && session.tag.is_none();
    if state != SessionState::Active {
        marks.push(state.as_str().to_owned());
    }
    if session.archived {
        marks.push("archived".to_owned());
    }
    if pinned {
        marks.push("pinned".to_owned());
    }
    if let Some(tag) = &session.tag {
        marks.push(format!("#{tag}"));
    }
    let marks = marks.join(", ");
    match flaws.worst() {
        Some(worst) => Cell::styled(marks, severity_style(worst)),
        None if quiet => Cell::styled(marks, DIM),
        None => Cell::new(marks),
    }
}
