//! `annals search`

mod hint;
pub(super) mod json;
mod list;

use std::collections::{HashMap, HashSet};

use annals::search::{Dialect, Order, Query, SearchResults};
use annals::store::{Inventory, SessionFiles};
use annals::view::HitNames;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::Outcome;
use super::filter::{Period, SessionFilter};
use crate::context::{Access, Context, refuse_message, spellings};

/// Searches messages, thinking, tool calls and their results.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct SearchArgs {
    /// Words, "phrases" and conditions; see below
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Treat the query as one regular expression
    #[arg(long, short = 'e')]
    regex: bool,
    /// Match case
    #[arg(long, short = 's')]
    case: bool,
    #[command(flatten)]
    conditions: Conditions,
    #[command(flatten)]
    period: Period,
    /// Show N messages before and after each hit too
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0)]
    context: usize,
    /// Order of hits: by relevance, unless only conditions are given
    #[arg(long, value_name = "ORDER")]
    sort: Option<Sort>,
    /// Show at most this many hits
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Skip this many hits
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    offset: usize,
    /// Print only the number of hits
    #[arg(long)]
    count: bool,
}

/// Conditions as options, each the same as in a query; one of several values is enough.
#[derive(Debug, Args)]
struct Conditions {
    /// Only in sessions of this project: its path, its name, or its id
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    project: Vec<String>,
    /// Only in this session (`latest` is the last one of this directory), or in the sessions of this thread
    #[arg(long, value_name = "SESSION")]
    session: Vec<String>,
    /// Only what this role said: user, human, assistant, system, tool
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Only in parts of this kind: text, thinking, tool, call, result, title, note, system
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Only in calls of this tool and their results
    #[arg(long, value_name = "TOOL")]
    tool: Vec<String>,
    /// Only messages of this model (a part of its name is enough)
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,
    /// Only records of this agent: main, sub, or a prefix of a sub-agent's id or kind
    #[arg(long, value_name = "AGENT")]
    agent: Vec<String>,
    /// Only on this git branch, or in the conversation with this leaf
    #[arg(long, value_name = "BRANCH")]
    branch: Vec<String>,
    /// Only where a tool works on this file: the end of its path
    #[arg(long, value_name = "FILE")]
    file: Vec<String>,
    /// Only in logs of this layout
    #[arg(long, value_name = "LAYOUT")]
    layout: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// Best matches first
    Relevance,
    /// Newest first
    Newest,
    /// Oldest first
    Oldest,
}

const HELP: &str = "\
The query:
  connection reset      both words, anywhere in one record, ignoring case
  \"connection reset\"    an exact phrase (punctuation aside); \\\" is a quote
  conn* *tion *nect*    parts of words; without a star, whole words (the parts
                        of snake_case, camelCase and path/to/file.rs are words)
  timeout OR deadline   one of them; AND, NOT and ( ) work too
  -docker               records without this word (in quotes, or behind --)
  re:\"err(or)?\\d+\"      a regular expression; with --regex, the whole query is

Conditions in a query are the same as options:
  project:app session:8c54 layout:clog role:user kind:thinking tool:Bash
  model:opus agent:main branch:main file:src/x.rs after:7d before:2026-03-01
A minus before a condition excludes what it matches. Only in a query, members that some layouts record:
  channel:telegram thread:thread_abc conversation:…             (clog)
  source:cli                                                    (orchestrator)
  session-id:e8d973c7 workspace:my-app agent:reviewer           (Chorus)

A hit is one record, however often it matches. Its id, SESSION@MESSAGE, \
works with `annals show`, which opens there; `annals show ID -C 5` shows what is around it.

With --json: {hits: [{id, session, title, entry, layout, file, line, offset, agent, archived, role, part, \
tool, model, time, cwd, score, snippet, matches}], total, sessions, truncated}, and with -C each \
hit's before and after. `matches` are places in the snippet, [start, end), in characters (code points).

Examples:
  annals search 'connection reset'
  annals search '\"connection reset\" role:user -project:old'
  annals search migration --project . --since 30d -C 2
  annals search --tool Bash --since 1d      everything that was run since then
  annals search -e 'panicked at .*\\.rs' --kind result --sort newest
  annals search deploy --session thread_abc123 --count";

pub(crate) fn run(args: &SearchArgs, context: &mut Context) -> Result<Outcome> {
    let query = build_query(args, context)?;
    let mut searched = match args.conditions.session.as_slice() {
        [] => {
            let inventory = context.inventory();
            let found = context.search(&inventory, &query)?;
            Searched { inventory, found }
        }
        wanted => search_sessions(wanted, &query, context)?,
    };
    let hits = &mut searched.found.hits;
    hits.drain(..args.offset.min(hits.len()));
    let found = &searched.found;
    if found.total == 0 && !args.conditions.project.is_empty() {
        warn_unknown_projects(&args.conditions.project, &searched.inventory, context);
    }
    if args.count {
        json::print_count(found, context)?;
    } else if context.json {
        json::print_json(&searched, args.context > 0, context)?;
    } else if found.total > 0 {
        list::print(&searched, context)?;
    } else if searched.inventory.sessions.is_empty() {
        super::overview::print_nothing(context, false, "session")?;
    } else {
        context.out.line("Nothing found.")?;
        for hint in hint::hints(&query) {
            list::print_note(&format!("hint: {hint}"), context)?;
        }
    }
    let nothing = found.total == 0;
    context.index_text_later(searched.inventory);
    Ok(if nothing {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

/// Result of a search.
struct Searched {
    /// All sessions.
    inventory: Inventory,
    found: SearchResults,
}

impl Searched {
    fn names(&self) -> HitNames<'_> {
        HitNames::new(&self.inventory, &self.found.hits)
    }

    /// Returns the titles of the sessions with hits, by their index.
    fn titles(&self, names: &HitNames<'_>, context: &mut Context) -> HashMap<usize, String> {
        let wanted = names.session_indexes(&self.found.hits);
        let labels = context.session_labels(&self.inventory, &wanted);
        let titles = wanted.into_iter().zip(labels);
        titles
            .filter_map(|(at, label)| Some((at, label?.title?)))
            .collect()
    }
}

/// Searches the named sessions.
fn search_sessions(wanted: &[String], query: &Query, context: &mut Context) -> Result<Searched> {
    let mut inventory = context.inventory();
    let named = find_sessions(&inventory, wanted, context)?;
    let all = std::mem::replace(&mut inventory.sessions, named);
    let found = context.search(&inventory, query)?;
    // Short ids must be unique among all sessions.
    inventory.sessions = all;
    Ok(Searched { inventory, found })
}

/// Warns about projects without a session.
fn warn_unknown_projects(wanted: &[String], inventory: &Inventory, context: &mut Context) {
    let sessions = context.unsorted_sessions(inventory);
    for project in wanted {
        let filter = SessionFilter {
            project: Some(project.clone()),
            ..SessionFilter::default()
        };
        filter.warn_unknown_project(&sessions, context);
    }
}

/// Builds the query from the arguments.
fn build_query(args: &SearchArgs, context: &Context) -> Result<Query> {
    let dialect = Dialect::new(context.clock.now())
        .case(args.case)
        .regex(args.regex);
    let text = args.query.join(" ");
    let mut query = match text.trim().is_empty() {
        false => Query::parse(&text, &dialect)?,
        true if args.conditions.is_any_set()
            || args.period.since.is_some()
            || args.period.until.is_some() =>
        {
            Query::all()
        }
        true => bail!("empty query: give words, or conditions such as --tool Bash --since 1d"),
    };
    for (name, values) in args.conditions.by_filter_name() {
        if values.iter().any(|value| value.trim().is_empty()) {
            bail!("--{name} is empty: give it a value or leave it out");
        }
        let values = values.iter().flat_map(|value| match name {
            "project" => spellings(value, std::iter::empty()),
            _ => vec![value.clone()],
        });
        query = query.filter(name, values, &dialect)?;
    }
    let (since, until) = args.period.resolve(context)?;
    query = query.between(since, until);
    if let Some(sort) = args.sort {
        query = query.order(match sort {
            Sort::Relevance => Order::Relevance,
            Sort::Newest => Order::Newest,
            Sort::Oldest => Order::Oldest,
        });
    }
    // A count needs no hits.
    let limit = match args.count {
        true => 0,
        false => args.limit.saturating_add(args.offset),
    };
    Ok(query.limit(limit).context(args.context))
}

impl Conditions {
    /// Returns the conditions on records; sessions are resolved before.
    fn by_filter_name(&self) -> [(&'static str, &[String]); 9] {
        [
            ("project", &self.project),
            ("role", &self.role),
            ("kind", &self.kind),
            ("tool", &self.tool),
            ("model", &self.model),
            ("agent", &self.agent),
            ("branch", &self.branch),
            ("file", &self.file),
            ("layout", &self.layout),
        ]
    }

    fn is_any_set(&self) -> bool {
        let mut named = self.by_filter_name().into_iter();
        !self.session.is_empty() || named.any(|(_, values)| !values.is_empty())
    }
}

/// Finds the named sessions: by a prefix of the id, by thread, by path, by a part of the title, or as
/// `latest`.
fn find_sessions(
    inventory: &Inventory,
    wanted: &[String],
    context: &mut Context,
) -> Result<Vec<SessionFiles>> {
    let mut named = Vec::new();
    for wanted in wanted {
        let wanted = &context
            .resolve_latest(inventory, wanted, Access::Read)?
            .into_owned();
        let by = |fits: &dyn Fn(&SessionFiles) -> bool| -> Vec<SessionFiles> {
            let sessions = inventory.sessions.iter();
            sessions.filter(|files| fits(files)).cloned().collect()
        };
        let begins = |files: &SessionFiles| files.id.as_str().starts_with(wanted.as_str());
        let mut found = match wanted.is_empty() {
            true => Vec::new(),
            false => by(&begins),
        };
        if found.is_empty() {
            found = by(&|files| files.id.matches_name(wanted));
        }
        if found.is_empty() {
            let target = context.find_in(inventory, wanted)?;
            refuse_message(&target, wanted)?;
            found.push(target.files);
        }
        named.extend(found);
    }
    // One session may have been named twice.
    let mut seen = HashSet::new();
    named.retain(|files| seen.insert((files.main_path().to_owned(), files.id.clone())));
    Ok(named)
}
