//! `annals doctor`

mod system;

use std::path::Path;

use annals::archive::Archive;
use annals::layout::resume_command;
use annals::store::{Inventory, Root, Session, SessionInfo, Store};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Outcome;
use super::archive::warn_unread;
use super::overview::{expiring_sessions, flaw_counts, is_in_root, is_overdue, root_bytes};
use crate::config::Config;
use crate::context::{Context, environment, leak};
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, SUCCESS, WARNING, paint};
use annals_render::table::{Cell, Column, Table};

/// Shows what annals sees on this machine, for a bug report.
#[derive(Debug, Args)]
#[command(after_help = "\
One page about roots, agent programs, the state directory, timers and the terminal, and what to do \
about it. It changes nothing. Paths outside of the usual places and all names of sessions and \
projects are left out, so it can be pasted into a report; --paths shows the paths.

Examples:
  annals doctor
  annals doctor --json")]
pub(crate) struct DoctorArgs {
    /// Show all paths
    #[arg(long)]
    paths: bool,
}

/// Report of `annals doctor`. Members that are `null` could not be determined.
#[derive(Serialize)]
struct Report {
    annals: &'static str,
    system: system::System,
    programs: Vec<Program>,
    state: State,
    /// The timer that runs `annals keep`; `null` if none was found.
    timer: Option<&'static str>,
    terminal: system::Terminal,
    settings: Settings,
    advice: Vec<Advice>,
}

/// An agent program and one of its roots.
#[derive(Serialize)]
struct Program {
    layout: &'static str,
    /// The command that opens its sessions, and whether it is installed.
    command: Option<&'static str>,
    installed: Option<bool>,
    /// `null` if there is no root.
    root: Option<RootReport>,
}

#[derive(Serialize)]
struct RootReport {
    place: String,
    sessions: usize,
    archived: usize,
    bytes: u64,
    /// The version that the newest session names.
    version: Option<String>,
    /// Access of annals to it: `read and write`, `read only` or `no permission to write`.
    access: &'static str,
}

#[derive(Serialize)]
struct State {
    place: String,
    writable: bool,
    free_bytes: Option<u64>,
    /// Size of the index; `null` if there is none.
    index_bytes: Option<u64>,
    archived_sessions: usize,
    /// When a session was last copied into the archive.
    archived_last: Option<Timestamp>,
    trashed_sessions: usize,
    repaired_files: usize,
    pinned_sessions: usize,
}

#[derive(Serialize)]
struct Settings {
    place: String,
    /// `not present`, `read`, or why they cannot be read.
    state: String,
    own_prices: bool,
}

/// Something to do, and the command that does it.
#[derive(Serialize)]
struct Advice {
    text: String,
    command: &'static str,
}

pub(crate) fn run(args: &DoctorArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    let sessions = context.sessions(&inventory);
    let report = report(args, context, &inventory, &sessions);
    match context.json {
        true => context.out.json(&report)?,
        false => print(context, &report)?,
    }
    leak((inventory, sessions));
    Ok(Outcome::Ok)
}

fn report(
    args: &DoctorArgs,
    context: &mut Context,
    inventory: &Inventory,
    sessions: &[SessionInfo],
) -> Report {
    let places = system::Places::new(&environment(), args.paths);
    let state = state(context, &places);
    let timer = system::Timer::find(&environment());
    let settings = settings(context, &places);
    let advice = advice(context, sessions, &state, timer);
    Report {
        annals: env!("CARGO_PKG_VERSION"),
        system: system::System::new(),
        programs: programs(context, inventory, sessions, &places),
        state,
        timer: timer.map(system::Timer::name),
        terminal: system::Terminal::new(&environment(), &context.out),
        settings,
        advice,
    }
}

/// Lists each program that is installed or has a root; one row for each root.
fn programs(
    context: &Context,
    inventory: &Inventory,
    sessions: &[SessionInfo],
    places: &system::Places,
) -> Vec<Program> {
    let mut programs = Vec::new();
    for layout in context.layouts() {
        let command = resume_command(layout.name()).and_then(|it| it.words.first().copied());
        let installed = command.map(system::is_installed);
        let roots = context.store.roots().iter();
        let roots = roots.filter(|root| root.layout.name() == layout.name());
        let rows: Vec<Program> = roots
            .map(|root| Program {
                layout: layout.name(),
                command,
                installed,
                root: Some(root_report(root, inventory, sessions, places)),
            })
            .collect();
        if rows.is_empty() && installed == Some(true) {
            programs.push(Program {
                layout: layout.name(),
                command,
                installed,
                root: None,
            });
        }
        programs.extend(rows);
    }
    programs
}

fn root_report(
    root: &Root,
    inventory: &Inventory,
    sessions: &[SessionInfo],
    places: &system::Places,
) -> RootReport {
    let own: Vec<&SessionInfo> = sessions.iter().filter(|it| is_in_root(it, root)).collect();
    let newest = own.iter().max_by_key(|session| session.updated);
    RootReport {
        place: places.root(root),
        sessions: own.len(),
        archived: own.iter().filter(|session| session.archived).count(),
        bytes: root_bytes(inventory, root),
        version: newest.and_then(|session| recorded_version(root, inventory, session)),
        access: match root.layout.writer() {
            None => "read only",
            Some(_) if system::is_writable(&root.path, root.failures()) => "read and write",
            Some(_) => "no permission to write",
        },
    }
}

/// Returns the version of the agent program in the last messages of a session.
fn recorded_version(root: &Root, inventory: &Inventory, session: &SessionInfo) -> Option<String> {
    const MESSAGES: usize = 5;
    let mut files = inventory.sessions.iter();
    let files = files.find(|files| files.main_path() == session.file)?;
    let entries = Session::read_tail(files.clone(), MESSAGES);
    let entries = entries.and_then(|session| session.last_messages(MESSAGES));
    let entries = entries
        .map_err(|error| root.failures().report(error))
        .ok()?;
    entries
        .into_iter()
        .rev()
        .find_map(|entry| entry.context.version)
}

/// Returns a value that could be read; otherwise reports the error.
fn read<T>(store: &Store, result: annals::Result<T>) -> Option<T> {
    result.map_err(|error| store.failures().report(error)).ok()
}

fn state(context: &mut Context, places: &system::Places) -> State {
    let dir = context.state_dir().to_owned();
    let dir = dir.as_path();
    let archive = Archive::open(dir).reporting_to(context.store.failures());
    let (archived, damaged) = read(&context.store, archive.sessions()).unwrap_or_default();
    warn_unread(&damaged, context);
    let store = &context.store;
    let index = store.index().and_then(|index| index.files());
    let index_bytes = index.ok().filter(|files| !files.is_empty());
    let (repaired, unread) = read(store, store.repairs().list()).unwrap_or_default();
    for error in unread {
        store.failures().report(error);
    }
    let trashed = read(store, store.trash().items()).unwrap_or_default();
    State {
        place: places.known(dir),
        writable: system::is_writable(existing(dir), store.failures()),
        free_bytes: system::free_bytes(existing(dir)),
        index_bytes: index_bytes.map(|files| files.iter().map(|file| file.bytes).sum()),
        archived_sessions: archived.iter().map(|it| it.sessions.len()).sum(),
        archived_last: archived.iter().map(|it| it.archived()).max(),
        trashed_sessions: trashed.len(),
        repaired_files: repaired.len(),
        pinned_sessions: context.pins_or_none().iter().count(),
    }
}

/// Returns the path, or its nearest ancestor that exists.
fn existing(path: &Path) -> &Path {
    let mut ancestors = path.ancestors();
    ancestors.find(|path| path.exists()).unwrap_or(path)
}

fn settings(context: &Context, places: &system::Places) -> Settings {
    let path = Config::path(&context.config_dir);
    Settings {
        place: places.known(&path),
        state: match (path.exists(), context.config()) {
            (false, _) => "not present".to_owned(),
            (true, Ok(_)) => "read".to_owned(),
            (true, Err(_)) => "cannot be read: `annals cost` says why".to_owned(),
        },
        own_prices: context.prices_file().exists(),
    }
}

fn advice(
    context: &Context,
    sessions: &[SessionInfo],
    state: &State,
    timer: Option<system::Timer>,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut add = |text: String, command| advice.push(Advice { text, command });
    let now = context.clock.now;
    let expiring = expiring_sessions(sessions, now).len();
    let overdue = sessions.iter().filter(|it| is_overdue(it, now)).count();
    if expiring + overdue > 0 {
        let count = pluralize((expiring + overdue) as u64, "session");
        let what = "will be deleted by its program within a week";
        add(format!("{count} {what}"), "annals keep");
    }
    let flaws = flaw_counts(sessions);
    if flaws.errors + flaws.warnings > 0 {
        let errors = pluralize(flaws.errors as u64, "error");
        let warnings = pluralize(flaws.warnings as u64, "warning");
        add(format!("{errors} and {warnings} in logs"), "annals check");
    }
    if !state.writable {
        let text = "the state directory cannot be written: nothing is indexed, archived or undone";
        add(text.to_owned(), "export ANNALS_STATE_DIR=DIR");
    }
    if sessions.iter().any(|session| session.expires.is_some()) {
        let enable = "systemctl --user enable --now annals-keep.timer";
        match timer {
            Some(system::Timer::Systemd | system::Timer::Launchd) => {}
            Some(system::Timer::DisabledSystemd) => add(
                "the timer that archives sessions before their program deletes them is not enabled"
                    .to_owned(),
                enable,
            ),
            None => add(
                "no timer archives sessions before their program deletes them".to_owned(),
                "annals keep --help",
            ),
        }
    }
    advice
}

fn print(context: &mut Context, report: &Report) -> Result<()> {
    let out = &mut context.out;
    out.line(format_args!(
        "{}  {}",
        paint(BOLD, &format!("annals {}", report.annals)),
        report.system
    ))?;
    out.blank()?;
    print_programs(context, &report.programs)?;
    let (out, state) = (&mut context.out, &report.state);
    let clock = &context.clock;
    let writable = match state.writable {
        true => paint(SUCCESS, "writable"),
        false => paint(WARNING, "not writable"),
    };
    let free = state.free_bytes.map(size::bytes);
    let free = free.map_or(String::new(), |free| format!(", {free} free"));
    let index = state.index_bytes.map_or("none".to_owned(), size::bytes);
    let archive = match state.archived_last {
        Some(time) => {
            let count = pluralize(state.archived_sessions as u64, "session");
            format!("{count}, last {}", clock.ago(time))
        }
        None => "empty".to_owned(),
    };
    let undo = format!(
        "{} in the trash, {} repaired, {} pinned",
        pluralize(state.trashed_sessions as u64, "session"),
        pluralize(state.repaired_files as u64, "file"),
        pluralize(state.pinned_sessions as u64, "session"),
    );
    let prices = match report.settings.own_prices {
        true => ", own prices",
        false => "",
    };
    let facts = [
        ("state", format!("{}, {writable}{free}", state.place)),
        ("index", index),
        ("archive", archive),
        ("undo", undo),
        ("timer", report.timer.unwrap_or("none found").to_owned()),
        (
            "settings",
            format!(
                "{}, {}{prices}",
                report.settings.place, report.settings.state
            ),
        ),
        ("terminal", report.terminal.to_string()),
    ];
    out.blank()?;
    for (name, value) in facts {
        out.line(format_args!(
            "{}  {value}",
            paint(DIM, &format!("{name:<8}"))
        ))?;
    }
    out.blank()?;
    if report.advice.is_empty() {
        out.line(paint(SUCCESS, "Nothing to do."))?;
    }
    for advice in &report.advice {
        out.line(format_args!(
            "{}: {}",
            paint(WARNING, &advice.text),
            advice.command
        ))?;
    }
    Ok(())
}

fn print_programs(context: &mut Context, programs: &[Program]) -> Result<()> {
    if programs.is_empty() {
        return Ok(context
            .out
            .line("No agent history and no agent program was found.")?);
    }
    let mut table = Table::new([
        Column::new("LAYOUT"),
        Column::new("ROOT"),
        Column::new("SESSIONS").right(),
        Column::new("SIZE").right(),
        Column::new("VERSION"),
        Column::new("ACCESS"),
        Column::new("PROGRAM"),
    ]);
    for program in programs {
        let command = match (program.command, program.installed) {
            (Some(command), Some(true)) => Cell::new(command),
            (Some(_), _) => Cell::styled("not installed", DIM),
            (None, _) => Cell::styled("–", DIM),
        };
        let Some(root) = &program.root else {
            table.row(
                [Cell::new(program.layout), Cell::styled("no root", DIM)]
                    .into_iter()
                    .chain([
                        Cell::new(""),
                        Cell::new(""),
                        Cell::new(""),
                        Cell::new(""),
                        command,
                    ]),
            );
            continue;
        };
        let access = match root.access {
            "no permission to write" => Cell::styled(root.access, WARNING),
            access => Cell::new(access),
        };
        table.row([
            Cell::new(program.layout),
            Cell::new(&root.place),
            Cell::new(size::count(root.sessions as u64)),
            Cell::new(size::bytes(root.bytes)),
            Cell::new(root.version.as_deref().unwrap_or("–")),
            access,
            command,
        ]);
    }
    let width = context.out.width();
    Ok(context.out.text(table.render(width))?)
}
