//! `annals clean`

mod purge;

use std::path::{Path, PathBuf};

use annals::Error;
use annals::Subject;
use annals::jsonl::Error as FileError;
use annals::retain::{CleanupPlan, Expired, Leftover, Policy, RetainReason, Rule, Term};
use annals::store::{SessionInfo, TrashItem};
use annals::text::shell_word;
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Outcome;
use super::filter::retain_project;
use super::overview::print_no_live_sessions;
use crate::command_errors::StateDirError;
use crate::config::{Config, TERM_EXAMPLES};
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, ID, PATH, PLAIN, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};
use annals_render::time::Clock;

/// Moves old sessions to the trash, or empties it.
#[derive(Debug, Args)]
#[command(after_help = "\
The age of a session is that of its newest entry, sub-agents included. The log file's time \
counts if no entry has a time, and for the orchestrator, whose own clean-up uses it. A \
session is moved with everything that belongs to it, and `annals delete --undo` restores it. \
Nothing is moved without --apply. Pinned sessions stay (`annals pin`), and so do those that \
changed since, or that share a file with one that stays. Companions and lock files of an \
orchestrator's log that no longer exists are moved too, at the same age.

Without an age, the plan has the sessions of `annals sessions --state expired`: Claude \
Code's after its cleanupPeriodDays, the orchestrator's after 30 days. Chorus and clog \
never delete sessions; the plan takes theirs after 30 days. To apply \
it, give the age. config.toml can set how long sessions are kept; --older-than overrides \
all of it except \"never\":
  [clean]
  older-than = \"90d\"
  keep-last = 3
  [clean.layout]
  chorus = \"1y\"
  [clean.project]
  \"/home/me/app\" = \"never\"

Examples:
  annals clean                                 what would be moved after 30 days
  annals clean --older-than 30d --apply
  annals clean --apply                         by the settings
  annals clean --older-than 1y -p my-app       only sessions of a project
  annals clean --purge                         contents and size of the trash
  # delete permanently what was moved to the trash a week ago
  annals clean --purge --older-than 7d --apply")]
pub(crate) struct CleanArgs {
    /// Age of the last activity, or with --purge of the deletion: 36h, 30d, 2w, 6mo, 1y
    #[arg(long, value_name = "AGE")]
    older_than: Option<String>,
    /// Only sessions of this project: its path, its name, or its id
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    project: Option<String>,
    /// Only sessions of this layout
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// Keep the N newest sessions of each project at any age
    #[arg(long, value_name = "N")]
    keep_last: Option<usize>,
    /// Do it; without this, only the plan is shown
    #[arg(long)]
    apply: bool,
    /// Also sessions that another program is writing to right now
    #[arg(long)]
    live: bool,
    /// Empty the trash permanently
    #[arg(long, conflicts_with_all = ["project", "layout", "keep_last", "live"])]
    purge: bool,
}

#[derive(Serialize)]
struct CleanJson<'a> {
    applied: bool,
    sessions: Vec<ExpiredJson<'a>>,
    kept: Vec<RetainedJson<'a>>,
    /// Files whose log no longer exists.
    leftovers: Vec<LeftoverRow<'a>>,
    /// Number of files of sessions and leftovers.
    files: usize,
    bytes: u64,
    /// Sessions that could not be moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct ExpiredJson<'a> {
    #[serde(flatten)]
    session: SessionNameJson<'a>,
    /// Source of the last activity: `entries` or `file`.
    by: &'static str,
    older_than: &'a str,
    rule: &'static str,
    files: usize,
    bytes: u64,
    /// Name in the trash, once moved.
    trash: Option<&'a str>,
}

#[derive(Serialize)]
struct LeftoverRow<'a> {
    layout: &'a str,
    root: &'a Path,
    /// The missing log, or the missing session in its folder.
    gone: &'a Path,
    files: &'a [PathBuf],
    bytes: u64,
    updated: Timestamp,
    older_than: &'a str,
    rule: &'static str,
    /// Name in the trash, once moved.
    trash: Option<&'a str>,
}

#[derive(Serialize)]
struct RetainedJson<'a> {
    #[serde(flatten)]
    session: SessionNameJson<'a>,
    why: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Serialize)]
struct SessionNameJson<'a> {
    layout: &'a str,
    root: &'a Path,
    project: &'a str,
    id: &'a str,
    file: &'a Path,
    title: Option<&'a str>,
    updated: Option<Timestamp>,
}

#[derive(Serialize)]
struct Failed {
    session: String,
    error: String,
}

impl<'a> SessionNameJson<'a> {
    fn new(info: &'a SessionInfo) -> Self {
        SessionNameJson {
            layout: info.layout,
            root: &info.root,
            project: &info.project.path,
            id: info.id.as_str(),
            file: &info.file,
            title: info.title.as_ref().map(|title| title.text.as_str()),
            updated: info.updated,
        }
    }
}

/// Result for a group of sessions that are moved together.
enum GroupOutcome {
    /// Would be moved.
    Planned,
    Moved(TrashItem),
    /// Not moved, because they changed or are in use.
    Skipped(Error),
    Failed(Error),
}

impl GroupOutcome {
    fn from_result(moved: annals::Result<TrashItem>) -> Self {
        match moved {
            Ok(trashed) => GroupOutcome::Moved(trashed),
            Err(
                error @ (Error::File(FileError::Changed { .. })
                | Error::Live { .. }
                | Error::File(FileError::Held { .. })),
            ) => GroupOutcome::Skipped(error),
            Err(error) => GroupOutcome::Failed(error),
        }
    }

    /// Returns true if the group was or would be moved.
    fn is_moved(&self) -> bool {
        matches!(self, GroupOutcome::Planned | GroupOutcome::Moved(_))
    }

    /// Returns the name in the trash.
    fn trash(&self) -> Option<&str> {
        match self {
            GroupOutcome::Moved(trashed) => Some(&trashed.id),
            _ => None,
        }
    }
}

pub(crate) fn run(args: &CleanArgs, context: &mut Context) -> Result<Outcome> {
    let term = args.older_than.as_deref();
    let term = term
        .map(|text| parse_term(text, &context.clock))
        .transpose()?;
    if args.purge {
        return purge::run(term, args.apply, context);
    }
    let policy = effective_policy(args, term, context)?;
    let layout = args.layout.as_deref().map(find_layout).transpose()?;
    let pins = context.store.retention().pins()?;
    if args.apply {
        context.put_back_removed()?;
        context.store.retention().finish()?;
    }
    let inventory = context.inventory_without_archive();
    let rows = context.unsorted_sessions(&inventory);
    let project = match &args.project {
        None => None,
        Some(project) => {
            let mut own = rows.clone();
            retain_project(project, &mut own)
                .map_err(|error| context.explain_empty_home(&inventory, error))?;
            own.pop().map(|session| session.project.path)
        }
    };
    let wanted = |info: &SessionInfo| {
        layout.is_none_or(|layout| info.layout == layout)
            && project
                .as_ref()
                .is_none_or(|path| info.project.path == *path)
    };
    let now = context.clock.now();
    let plan = CleanupPlan::new(&inventory, rows, &policy, &pins, &now, &wanted);
    let done: Vec<GroupOutcome> = plan
        .groups
        .iter()
        .map(|group| match args.apply {
            false => GroupOutcome::Planned,
            true => GroupOutcome::from_result(
                context.store.retention().clean(group, args.live, now.time),
            ),
        })
        .collect();
    let mut leftovers = context.store.retention().leftovers(&policy, &now);
    leftovers.retain(|leftover| {
        let own = leftover.root.layout;
        let folder = project.as_ref().map(|path| own.folder(path));
        layout.is_none_or(|layout| own.name() == layout)
            && folder.is_none_or(|folder| folder.as_deref() == leftover.folder())
    });
    let leftovers: Vec<(Leftover, GroupOutcome)> = leftovers
        .into_iter()
        .map(|leftover| {
            let done = match args.apply {
                false => GroupOutcome::Planned,
                true => GroupOutcome::from_result(
                    context
                        .store
                        .retention()
                        .clean_leftover(&leftover, now.time),
                ),
            };
            (leftover, done)
        })
        .collect();
    let is_empty_home = inventory.sessions.is_empty() && leftovers.is_empty();
    if context.json {
        context
            .out
            .json(&clean_json(args.apply, &plan, &done, &leftovers))?;
    } else if is_empty_home {
        print_no_live_sessions(context)?;
    } else {
        print_cleanup(args, &plan, &done, &leftovers, &policy, context)?;
    }
    let all = plan.groups.len() + leftovers.len();
    let done = done.into_iter().chain(leftovers.into_iter().map(|it| it.1));
    let done: Vec<GroupOutcome> = done.collect();
    let moved = done
        .iter()
        .filter(|done| matches!(done, GroupOutcome::Moved(_)))
        .count();
    let mut failed = done.into_iter().filter_map(|done| match done {
        GroupOutcome::Failed(error) => Some(error),
        _ => None,
    });
    let Some(first) = failed.next() else {
        return Ok(Outcome::Ok);
    };
    for error in failed {
        context.warn(&error);
    }
    let first = state_dir_error(first, context);
    Err(match all {
        1 => first,
        _ => first.context(format!("{moved} of {all} were moved to the trash")),
    })
}

/// Marks an error about annals' state directory, so that the hint fits.
fn state_dir_error(error: Error, context: &Context) -> anyhow::Error {
    let ours = match &error {
        Error::File(FileError::Io { path, .. }) => path.starts_with(context.state_dir()),
        _ => false,
    };
    let error = anyhow::Error::new(error);
    if ours {
        error.context(StateDirError)
    } else {
        error
    }
}

/// Age for a plan if neither the arguments nor the settings have one.
const DEFAULT_TERM: &str = "30d";

/// Parses an age, or a day, whose age is that of its first instant.
fn parse_term(text: &str, clock: &Clock) -> Result<Term> {
    match Term::parse(text) {
        Some(term @ Term::For { .. }) => Ok(term),
        _ if text.trim_end_matches('m').parse::<u32>().is_ok() && text.ends_with('m') => {
            bail!("`{text}` may be minutes or months; use {text}in or {text}o")
        }
        _ => match clock.now().parse_day(text) {
            Some(_) => term_since(clock.parse_since(text)?, text, clock),
            None => bail!("`{text}` is not an age; give one such as {TERM_EXAMPLES}, or a day"),
        },
    }
}

fn term_since(time: Timestamp, text: &str, clock: &Clock) -> Result<Term> {
    if time > clock.now {
        bail!("`{text}` is in the future");
    }
    Ok(Term::For {
        text: text.to_owned(),
        span: clock.now.since(time)?,
    })
}

fn find_layout(name: &str) -> Result<&'static str> {
    match annals::layout::by_name(name) {
        Some(layout) => Ok(layout.name()),
        None => Err(Error::NotFound {
            what: Subject::Layout,
            id: name.to_owned(),
        }
        .into()),
    }
}

/// Returns the policy of the settings, overridden by the arguments.
fn effective_policy(args: &CleanArgs, term: Option<Term>, context: &Context) -> Result<Policy> {
    let mut policy = context.config()?.clean;
    if let Some(keep) = args.keep_last {
        policy.keep_last = keep;
    }
    if let Some(term) = term {
        policy = policy.with_term(term);
    }
    if policy.is_empty() {
        if args.apply {
            bail!(
                "no age is set; give --older-than {DEFAULT_TERM}, or write `older-than = \"90d\"` under [clean] in {}",
                Config::path(&context.config_dir).display()
            );
        }
        policy = policy.with_term(parse_term(DEFAULT_TERM, &context.clock)?);
        policy.program_terms = true;
    }
    Ok(policy)
}

fn clean_json<'a>(
    applied: bool,
    plan: &'a CleanupPlan,
    done: &'a [GroupOutcome],
    leftovers: &'a [(Leftover, GroupOutcome)],
) -> CleanJson<'a> {
    let mut document = CleanJson {
        applied,
        sessions: Vec::new(),
        kept: Vec::new(),
        leftovers: Vec::new(),
        files: 0,
        bytes: 0,
        failed: Vec::new(),
    };
    for (group, done) in plan.groups.iter().zip(done) {
        for old in group {
            let trash = match done {
                GroupOutcome::Planned => None,
                GroupOutcome::Moved(trashed) => Some(trashed.id.as_str()),
                GroupOutcome::Skipped(error) => {
                    document.kept.push(RetainedJson {
                        session: SessionNameJson::new(&old.info),
                        why: match error {
                            Error::Live { .. } | Error::File(FileError::Held { .. }) => "live",
                            _ => "changed",
                        },
                        detail: Some(error.to_string()),
                    });
                    continue;
                }
                GroupOutcome::Failed(error) => {
                    document.failed.push(Failed {
                        session: old.info.id.to_string(),
                        error: error.to_string(),
                    });
                    continue;
                }
            };
            document.sessions.push(expired_json(old, trash));
        }
    }
    let kept = plan.retained.iter().map(|kept| RetainedJson {
        session: SessionNameJson::new(&kept.info),
        why: match kept.reason {
            RetainReason::Pinned => "pinned",
            RetainReason::Newest => "newest",
            RetainReason::SharesLog { .. } => "shared",
        },
        detail: match &kept.reason {
            RetainReason::SharesLog { file, with } => {
                Some(format!("{} also belongs to {with}", file.display()))
            }
            _ => None,
        },
    });
    document.kept.extend(kept);
    for (leftover, done) in leftovers {
        match done {
            GroupOutcome::Failed(error) | GroupOutcome::Skipped(error) => {
                document.failed.push(Failed {
                    session: leftover.gone.display().to_string(),
                    error: error.to_string(),
                })
            }
            GroupOutcome::Planned | GroupOutcome::Moved(_) => {
                document.leftovers.push(LeftoverRow {
                    layout: leftover.root.layout.name(),
                    root: &leftover.root.path,
                    gone: &leftover.gone,
                    files: &leftover.files,
                    bytes: leftover.bytes,
                    updated: leftover.last,
                    older_than: &leftover.term,
                    rule: rule_name(&leftover.rule),
                    trash: done.trash(),
                })
            }
        }
    }
    let left = &document.leftovers;
    document.files =
        file_count(applied, plan, done) + left.iter().map(|row| row.files.len()).sum::<usize>();
    let bytes = document.sessions.iter().map(|row| row.bytes);
    document.bytes = bytes.chain(left.iter().map(|row| row.bytes)).sum();
    document
}

fn rule_name(rule: &Rule) -> &'static str {
    match rule {
        Rule::Default => "all",
        Rule::Layout => "layout",
        Rule::Program => "program",
        Rule::Project(_) => "project",
    }
}

fn expired_json<'a>(old: &'a Expired, trash: Option<&'a str>) -> ExpiredJson<'a> {
    ExpiredJson {
        session: SessionNameJson::new(&old.info),
        by: match old.from_file_time {
            true => "file",
            false => "entries",
        },
        older_than: &old.term,
        rule: rule_name(&old.rule),
        files: old.files,
        bytes: old.info.bytes,
        trash,
    }
}

/// Returns the number of files that were or would be moved.
fn file_count(applied: bool, plan: &CleanupPlan, done: &[GroupOutcome]) -> usize {
    match applied {
        false => plan.files(),
        true => moved_items(done).map(|trashed| trashed.files.len()).sum(),
    }
}

fn moved_items(done: &[GroupOutcome]) -> impl Iterator<Item = &TrashItem> {
    done.iter().filter_map(|done| match done {
        GroupOutcome::Moved(trashed) => Some(trashed),
        _ => None,
    })
}

/// Returns the command that moves all sessions older than the default age, with the same filters.
fn apply_command(args: &CleanArgs) -> String {
    let keep_last = args.keep_last.map(|keep| keep.to_string());
    let options = [
        ("--older-than", Some(DEFAULT_TERM)),
        ("--project", args.project.as_deref()),
        ("--layout", args.layout.as_deref()),
        ("--keep-last", keep_last.as_deref()),
    ];
    let words = options
        .into_iter()
        .filter_map(|(option, value)| Some(format!(" {option} {}", shell_word(value?))));
    format!("`annals clean{} --apply`", words.collect::<String>())
}

fn print_cleanup(
    args: &CleanArgs,
    plan: &CleanupPlan,
    done: &[GroupOutcome],
    leftovers: &[(Leftover, GroupOutcome)],
    policy: &Policy,
    context: &mut Context,
) -> Result<()> {
    let applied = args.apply;
    let groups = plan.groups.iter().zip(done);
    let gone = groups.filter(|(_, done)| done.is_moved());
    let gone: Vec<&Expired> = gone.flat_map(|(group, _)| group).collect();
    if !gone.is_empty() {
        let table = expired_table(&gone, context);
        context.out.text(table)?;
        context.out.blank()?;
    }
    print_leftovers(leftovers, context)?;
    print_retained(plan, done, context)?;
    let left = || leftovers.iter().filter(|(_, done)| done.is_moved());
    let left_files: usize = left().map(|(leftover, _)| leftover.files.len()).sum();
    let left_bytes = left().map(|(leftover, _)| leftover.bytes);
    let bytes = gone.iter().map(|old| old.info.bytes).chain(left_bytes);
    let sum = format!(
        "{}, {}, {}",
        pluralize(gone.len() as u64, "session"),
        pluralize(
            (file_count(applied, plan, done) + left_files) as u64,
            "file"
        ),
        size::bytes(bytes.sum())
    );
    if plan.groups.is_empty() && leftovers.is_empty() {
        let than = match &policy.default {
            _ if policy.program_terms => {
                "Nothing to move is older than its program's limit, or than 30d.".to_owned()
            }
            Some(term) if policy.layouts.is_empty() && policy.projects.is_empty() => {
                format!("Nothing to move is older than {term}.")
            }
            _ => "Nothing to move is older than the configured age.".to_owned(),
        };
        context.out.line(than)?;
    } else if gone.is_empty() && left_files == 0 {
        context.out.line("Nothing was moved to the trash.")?;
    } else if !applied {
        let heading = paint(BOLD, "Would be moved to the trash:");
        context.out.line(format_args!("{heading} {sum}"))?;
        match policy.program_terms {
            false => context
                .out
                .line("Nothing was changed; add --apply to do it.")?,
            // `--apply` needs an age.
            true => context.out.line(format_args!(
                "Nothing was changed; {} does it.",
                apply_command(args)
            ))?,
        }
    } else {
        let mark = paint(SUCCESS, "✓");
        context
            .out
            .line(format_args!("{mark} moved to the trash: {sum}"))?;
        context.out.line(
            "`annals delete --undo ID` restores one, `annals clean --purge` empties the trash",
        )?;
    }
    Ok(())
}

/// Prints the files whose log no longer exists.
fn print_leftovers(leftovers: &[(Leftover, GroupOutcome)], context: &mut Context) -> Result<()> {
    for (leftover, done) in leftovers {
        let names = leftover.files.iter().filter_map(|path| path.file_name());
        let names: Vec<String> = names.map(|it| it.to_string_lossy().into_owned()).collect();
        let (gone, names) = (leftover.gone.display().to_string(), names.join(", "));
        let (gone, names) = (paint(PATH, &gone), paint(PLAIN, &names));
        let why = match done {
            GroupOutcome::Skipped(error) => format!("; not moved: {error}"),
            _ => String::new(),
        };
        let why = paint(PLAIN, &why);
        context.out.line(format_args!(
            "{gone} no longer exists, but its files do: {names}{why}"
        ))?;
    }
    if !leftovers.is_empty() {
        context.out.blank()?;
    }
    Ok(())
}

/// Prints the old sessions that stay, and why.
fn print_retained(plan: &CleanupPlan, done: &[GroupOutcome], context: &mut Context) -> Result<()> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (group, done) in plan.groups.iter().zip(done) {
        if let GroupOutcome::Skipped(error) = done {
            let ids = group.iter().map(|old| old.info.id.to_string());
            lines.extend(ids.map(|id| (id, error.to_string())));
        }
    }
    let (mut pinned, mut newest) = (0, 0);
    for kept in &plan.retained {
        match &kept.reason {
            RetainReason::Pinned => pinned += 1,
            RetainReason::Newest => newest += 1,
            RetainReason::SharesLog { file, with } => {
                let name = file.display();
                let why = format!("{name} also belongs to {with}, which stays");
                lines.push((kept.info.id.to_string(), why));
            }
        }
    }
    let mut said = false;
    for (count, why) in [
        (pinned, "pinned"),
        (newest, "among the newest of the project"),
    ] {
        if count > 0 {
            let stay = if count == 1 { "stays" } else { "stay" };
            let count = pluralize(count, "old session");
            context.out.line(format_args!("{count} {stay}: {why}"))?;
            said = true;
        }
    }
    for (id, why) in lines {
        let (id, why) = (paint(ID, &id), paint(PLAIN, &why));
        context.out.line(format_args!("{id} stays: {why}"))?;
        said = true;
    }
    if said {
        context.out.blank()?;
    }
    Ok(())
}

fn expired_table(gone: &[&Expired], context: &Context) -> String {
    let short = ShortIds::new(gone.iter().map(|old| old.info.id.as_str()));
    let mut table = Table::new([
        Column::new("SESSION").style(ID).priority(250),
        Column::new("LAST ACTIVITY").style(DIM).priority(180),
        Column::new("PROJECT").min(8).max(24).priority(60),
        Column::title("TITLE").priority(200),
        Column::new("FILES").right().priority(50),
        Column::new("SIZE").right().priority(150),
        Column::new("").style(DIM).priority(40),
    ]);
    for old in gone {
        table.row([
            Cell::new(short.get(old.info.id.as_str())),
            Cell::new(context.clock.ago(old.last)),
            Cell::new(old.info.project.name()),
            match &old.info.title {
                Some(title) => Cell::new(&title.text),
                None => Cell::styled("(no title)", DIM),
            },
            Cell::new(size::count(old.files as u64)),
            Cell::new(size::bytes(old.info.bytes)),
            Cell::new(match old.from_file_time {
                true => "by file time",
                false => "",
            }),
        ]);
    }
    table.render(context.out.width())
}
