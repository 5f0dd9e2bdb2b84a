//! `annals watch`

mod entry_text;
pub(super) mod stream;
mod totals;

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annals::model::{Entry, SessionId};
use annals::store::{Inventory, SessionFiles, SessionInfo, Target, resolve_directory};
use annals::watch::{
    Event, FollowOptions, FollowedLog, Follower, Selection, Stopper, last_archived,
};
use anyhow::{Context as _, Result};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::entry_text::{Screen, View};
use self::totals::Totals;
use super::filter::warn_unknown_watched_project;
use super::pricing::Pricer;
use super::{Outcome, choose};
use crate::context::{Access, Context, is_unknown_session};
use crate::terminal::stderr_line;
use annals_render::command::quoted_command;
use annals_render::style::{DIM, WARNING, paint};
use annals_render::{size, time};

/// Number of events after which output is flushed while more are ready.
const MAX_HELD_EVENTS: u32 = 256;

/// Follows logs.
#[derive(Debug, Args)]
#[command(after_help = "\
Follows what is named: projects by path, name or id; sessions with their sub-agents; conversations \
(SESSION@MESSAGE), without other branches; logs by their paths. Sessions and \
sub-agents that start later are followed too; a project without sessions must be named by its path. \
Without arguments, a terminal offers a choice; otherwise everything is followed.

Shows prompts, replies, thinking, and a line for each tool call. Ctrl-C ends it. Entries that a fork or \
a copy has from before are only counted; in JSON they are marked as earlier. Of a session that \
is only in the archive, the last entries are shown: it cannot continue until it is restored.

Examples:
  annals watch                       choose a project and a conversation
  annals watch --all                 everything
  annals watch . --thinking          only thinking and prompts, in this project
  annals watch 8c549c46 --tools      one session, with its tools' results
  annals watch 8c549c46@1405c20a     one branch of it
  annals watch my-app --cost         with running totals
  annals watch --all --json | jq .   one JSON object per line")]
pub(crate) struct WatchArgs {
    /// PROJECT, SESSION, SESSION@MESSAGE, or the path of a log
    #[arg(value_name = "WHAT")]
    what: Vec<String>,
    /// This project: its path, its name, or its id
    #[arg(long, short, value_name = "PROJECT", allow_hyphen_values = true)]
    project: Option<String>,
    /// Follow everything, without asking
    #[arg(long, conflicts_with_all = ["what", "project"])]
    all: bool,
    /// Show only thinking and prompts
    #[arg(long, conflicts_with = "tools")]
    thinking: bool,
    /// Also show tool calls in full, and their results
    #[arg(long)]
    tools: bool,
    /// Show running totals of tokens and cost for each session
    #[arg(long)]
    cost: bool,
    /// Start with the last N entries
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    last: usize,
    /// Poll for changes instead of using system notifications, for network drives
    #[arg(long)]
    poll: bool,
}

pub(crate) fn run(args: &WatchArgs, context: &mut Context) -> Result<Outcome> {
    let named = !args.what.is_empty() || args.project.is_some();
    let what = match !named && !args.all && choose::can_ask(context) {
        false => args.what.clone(),
        true => choose::project_and_conversation(context)?,
    };
    let (selection, archived) = select(&what, args.project.as_deref(), context)?;
    if !archived.is_empty() {
        show_archived(&archived, args, context)?;
        if archived.len() == what.len() && args.project.is_none() {
            return Ok(Outcome::Ok);
        }
    }
    let Some(follower) = follow(selection, args, context)? else {
        return Ok(Outcome::NotFound);
    };
    // A pager would take over the terminal and hide later output.
    context.out.stop_paging()?;
    let stopper = follower.stopper();
    stop_on_signals(stopper.clone())?;
    stop_on_closed_output(stopper);
    if follower.logs() == 0 && what.is_empty() && args.project.is_none() {
        let text = format!(
            "{}; waiting for the first session",
            context.no_sessions_text()
        );
        context.print_note_once(&text);
    }
    Watch::new(args, context)?.run(follower)?;
    Ok(Outcome::Ok)
}

fn follow_options(args: &WatchArgs, context: &Context) -> FollowOptions {
    let view = View::from_args(args);
    let json = context.json;
    // JSON has everything, unless only thinking is asked for.
    let counts = move |entry: &Entry| {
        (json && view != View::Thinking) || entry_text::is_entry_shown(view, entry)
    };
    let mut options = FollowOptions::default().last(args.last).filter(counts);
    options.poll = args.poll;
    options
}

/// Shows the last entries of archived sessions, and warns that these cannot continue.
fn show_archived(archived: &[Target], args: &WatchArgs, context: &mut Context) -> Result<()> {
    let options = follow_options(args, context);
    let mut watch = Watch::new(args, context)?;
    for target in archived {
        for fresh in last_archived(target, &options)? {
            watch.show(Event::Entry(Box::new(fresh)))?;
        }
    }
    report_problems(context)?;
    context.out.flush()?;
    for target in archived {
        let id = &target.files.id;
        context.print_warning(&format!(
            "session {id} is archived and cannot continue; {} restores it",
            quoted_command("annals restore", id.as_str(), "--apply")
        ));
    }
    Ok(())
}

/// Reports what could not be read: on standard error, and in JSON as events.
fn report_problems(context: &mut Context) -> Result<()> {
    match context.json {
        true => context.stream_problems()?,
        false => context.warn_read_failures(),
    }
    Ok(())
}

/// Starts to follow the selection; `None`, with a note, if a project is unknown.
fn follow(
    selection: Selection,
    args: &WatchArgs,
    context: &mut Context,
) -> Result<Option<Follower>> {
    let options = follow_options(args, context);
    let follower = Follower::new(&context.store_with_missing_roots(), selection, options)?;
    for project in follower.unknown_projects() {
        if !Path::new(project).is_absolute() {
            let inventory = context.inventory();
            let sessions = context.unsorted_sessions(&inventory);
            let projects = sessions.iter().map(|session| &session.project);
            warn_unknown_watched_project(project, projects, context);
            return Ok(None);
        }
        context.print_warning(&format!(
            "{project} has no session yet; waiting for the first"
        ));
    }
    Ok(Some(follower))
}

/// Selects the named sessions and projects; archived sessions are returned separately.
fn select(
    what: &[String],
    project: Option<&str>,
    context: &mut Context,
) -> Result<(Selection, Vec<Target>)> {
    let mut selection = Selection::all();
    let mut archived = Vec::new();
    if let Some(project) = project {
        let path = std::fs::canonicalize(project).ok();
        let path = path.filter(|path| path.is_dir() && project.contains(['/', '.']));
        selection = match path {
            Some(path) => selection.project(path.to_string_lossy()),
            None => selection.project(resolve_directory(project)),
        };
    }
    if what.is_empty() {
        return Ok((selection, archived));
    }
    let inventory = context.inventory();
    for text in what {
        let is_file = Path::new(text).is_file();
        let is_place = text == "." || text == ".." || text.contains('/');
        if is_place && !is_file && !text.contains('@') {
            let path = std::path::absolute(text).unwrap_or_else(|_| PathBuf::from(text));
            if let Some(target) = archived_log(&inventory, &path) {
                archived.push(target);
                continue;
            }
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            selection = selection.project(path.to_string_lossy());
            continue;
        }
        selection = match find_target(text, &inventory, context)? {
            Some(target) if target.files.is_archived() => {
                archived.push(target);
                selection
            }
            Some(target) => selection.target(target)?,
            None => selection.project(resolve_directory(text)),
        };
    }
    Ok((selection, archived))
}

/// Finds a session by its id, or by its title if no project has that name; `None` if the name is
/// that of a project, or of nothing.
fn find_target(name: &str, inventory: &Inventory, context: &mut Context) -> Result<Option<Target>> {
    let error = match context.find_by_id(inventory, name, Access::Read) {
        Err(error) if is_unknown_session(&error) => error,
        found => return found.map(Some),
    };
    let sessions = context.unsorted_sessions(inventory);
    let dir = resolve_directory(name);
    let is_project = |session: &SessionInfo| session.matches_project_or_earlier(&dir);
    if sessions.iter().any(is_project) {
        return Ok(None);
    }
    let may_be_project = !name.contains('@') && !name.ends_with(".jsonl");
    match context.find_by_title(inventory, name, error) {
        // The follower reports an unknown project.
        Err(error) if is_unknown_session(&error) && may_be_project => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the archived session whose log was at `path`.
fn archived_log(inventory: &Inventory, path: &Path) -> Option<Target> {
    let mut sessions = inventory.sessions.iter();
    let lay = |files: &SessionFiles| files.logs().find(|log| log.path == path).cloned();
    let found = sessions.find_map(|files| Some((files, lay(files)?)));
    let (files, log) = found.filter(|(files, _)| files.is_archived())?;
    Some(Target {
        files: files.clone(),
        log: Some(log),
        message: None,
    })
}

/// Stops on signals. Ctrl-C is the normal way to end, not a failure.
fn stop_on_signals(stopper: Stopper) -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    });
    Ok(())
}

/// Stops when the output is closed, even if there is nothing to write.
fn stop_on_closed_output(stopper: Stopper) {
    use rustix::event::{PollFd, PollFlags, poll};
    std::thread::spawn(move || {
        // The writer holds the lock of `io::stdout`; its descriptor is enough.
        let stdout = rustix::stdio::stdout();
        loop {
            let mut fds = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
                Ok(_) => {
                    stopper.stop();
                    return;
                }
            }
        }
    });
}

/// Shows events, and counts what was shown.
struct Watch<'a> {
    context: &'a mut Context,
    view: View,
    screen: Screen,
    totals: Option<Totals>,
    projects: HashMap<PathBuf, String>,
    entries: u64,
    sessions: HashSet<String>,
    /// True once the existing entries were shown.
    is_live: bool,
    /// Session and number of earlier entries that are not shown.
    left_out: Option<(SessionId, u64)>,
}

impl<'a> Watch<'a> {
    fn new(args: &WatchArgs, context: &'a mut Context) -> Result<Self> {
        let totals = match args.cost {
            true => Some(Totals::new(Pricer::new(context)?)),
            false => None,
        };
        Ok(Watch {
            context,
            view: View::from_args(args),
            screen: Screen::default(),
            totals,
            projects: HashMap::new(),
            entries: 0,
            sessions: HashSet::new(),
            is_live: false,
            left_out: None,
        })
    }

    fn run(mut self, mut follower: Follower) -> Result<()> {
        let began = Instant::now();
        while let Some(event) = follower.next() {
            self.show(event)?;
            let mut held = 1;
            while let Some(event) = follower.next_ready() {
                self.show(event)?;
                held += 1;
                // If events never stop, output must not wait for the end.
                if held % MAX_HELD_EVENTS == 0 {
                    self.context.out.flush()?;
                }
            }
            self.print_left_out()?;
            self.print_totals()?;
            report_problems(self.context)?;
            // Flush at once: a batch must not wait for the next one.
            self.context.out.flush()?;
        }
        report_problems(self.context)?;
        self.context.out.flush()?;
        if self.context.out.is_terminal() {
            let text = self.summary(began.elapsed());
            stderr_line!("{}", paint(DIM, &text));
        }
        Ok(())
    }

    /// Summarises what was shown.
    fn summary(&self, time: Duration) -> String {
        let time = match time.as_secs() {
            seconds @ ..60 => format!("{seconds} s"),
            _ => time::duration(time.try_into().unwrap_or_default()),
        };
        match self.entries {
            0 => format!("nothing new in {time}"),
            entries => format!(
                "{} of {} in {time}",
                size::pluralize(entries, "entry"),
                size::pluralize(self.sessions.len() as u64, "session"),
            ),
        }
    }

    fn show(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Entry(fresh) => {
                if let Some(totals) = &mut self.totals {
                    totals.add_entry(&fresh);
                }
                let shown = entry_text::is_entry_shown(self.view, &fresh.entry);
                let wanted = shown || (self.context.json && self.view != View::Thinking);
                if !wanted {
                    return Ok(());
                }
                if !fresh.earlier && !fresh.updated {
                    self.entries += 1;
                    self.sessions.insert(fresh.session.to_string());
                }
                // Entries that a fork or a copy has from another session were shown there.
                if fresh.earlier && self.is_live && !self.context.json {
                    return self.count_left_out(&fresh.session);
                }
                self.print_left_out()?;
                let project = self.project(&fresh.log, &fresh.entry);
                match self.context.json {
                    true => {
                        let mut fresh = *fresh;
                        entry_text::retain_shown_blocks(self.view, &mut fresh.entry);
                        stream::entry(fresh, &project, self.context)?;
                    }
                    false => {
                        let mut fresh = *fresh;
                        self.screen.retain_new_blocks(&mut fresh);
                        if !entry_text::is_entry_shown(self.view, &fresh.entry) {
                            return Ok(());
                        }
                        self.context.out.update_width();
                        let page =
                            self.screen
                                .render_entry(fresh, &project, self.view, self.context);
                        self.context.out.text(page)?;
                    }
                }
            }
            Event::Polling { reason: why } => {
                self.context
                    .print_warning(&format!("{why}; falling back to polling"));
                if self.context.json {
                    stream::print_polling(&why, self.context)?;
                }
            }
            Event::Error(error) => self.context.warn(&error),
            Event::CaughtUp if !self.context.json => self.is_live = true,
            event if self.context.json => stream::print_event(&event, self.context)?,
            Event::Reset { log, reason: why } => {
                let text = format!("! {} was {why}", log.path.display());
                self.context.out.line(paint(WARNING, &text))?;
                self.screen.reset_speaker();
            }
            Event::Gone { log } => {
                let text = format!("! {} no longer exists", log.path.display());
                self.context.out.line(paint(DIM, &text))?;
                self.screen.reset_speaker();
            }
            _ => {}
        }
        Ok(())
    }

    fn count_left_out(&mut self, session: &SessionId) -> Result<()> {
        if self.left_out.as_ref().is_some_and(|(of, _)| of != session) {
            self.print_left_out()?;
        }
        let (_, count) = self.left_out.get_or_insert_with(|| (session.clone(), 0));
        *count += 1;
        Ok(())
    }

    fn print_left_out(&mut self) -> Result<()> {
        if let Some((session, count)) = self.left_out.take() {
            let line = self.screen.left_out_line(&session, count);
            self.context.out.line(line)?;
        }
        Ok(())
    }

    /// Returns the directory of a log's first entry, else that of the log's project.
    fn project(&mut self, log: &FollowedLog, entry: &Entry) -> String {
        if let Some(cwd) = &entry.context.cwd {
            let known = self.projects.entry(log.path.clone());
            return known.or_insert_with(|| cwd.clone()).clone();
        }
        let known = self.projects.entry(log.path.clone());
        known.or_insert_with(|| log.project().path).clone()
    }

    fn print_totals(&mut self) -> Result<()> {
        let Some(totals) = &mut self.totals else {
            return Ok(());
        };
        for total in totals.take_changed() {
            match self.context.json {
                true => stream::print_cost(&total, self.context)?,
                false => {
                    let line = self.screen.total_line(&total);
                    self.context.out.line(line)?;
                }
            }
        }
        Ok(())
    }
}
