//! `annals notes`

use annals::model::{ArtifactKind, Body, Entry, SessionId};
use annals::store::{Inventory, Session, SessionFiles};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::fit::fit_title;
use super::overview::print_none;
use super::page::Page;
use super::{Outcome, note};
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::message::plain_text;
use annals_render::style::{BOLD, DIM, ID, TIME, paint};
use annals_render::width::width;

/// Lists notes on sessions, or adds one.
#[derive(Debug, Args)]
#[command(override_usage = "annals notes [OPTIONS] [SESSION]\n       annals notes <COMMAND>")]
#[command(after_help = "\
The agent of a session never sees its notes.

Examples:
  annals notes                     of all sessions, newest first
  annals notes 8c549c46
  annals notes add 8c549c46 'The fix went into 1.2'
  annals notes -- add              notes on a session whose id begins with `add`")]
pub(crate) struct NotesArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

/// The notes to list.
#[derive(Debug, Args)]
struct ListArgs {
    /// Only notes of this session
    session: Option<String>,
    #[command(flatten)]
    page: Page,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List notes, as without an action
    List(ListArgs),
    /// Add a note to a session, hidden from its agent
    Add(note::NoteArgs),
}

#[derive(Serialize, JsonSchema)]
pub(super) struct NotesJson<'a> {
    notes: Vec<NoteJson<'a>>,
    /// Number of notes before `-n` and `--offset`.
    total: usize,
}

#[derive(Serialize, JsonSchema)]
struct NoteJson<'a> {
    session: &'a str,
    id: Option<&'a str>,
    time: Option<Timestamp>,
    author: Option<&'a str>,
    text: &'a str,
}

struct Note {
    session: String,
    title: Option<String>,
    entry: Entry,
}

impl Note {
    fn author_and_text(&self) -> (Option<&str>, &str) {
        match &self.entry.body {
            Body::Note { author, text } => (author.as_deref(), text),
            _ => (None, ""),
        }
    }
}

pub(crate) fn run(args: &NotesArgs, context: &mut Context) -> Result<Outcome> {
    match &args.action {
        None => list(&args.list, context),
        Some(_) if args.list.session.is_some() || args.list.page.is_set() => {
            bail!("an action takes its own session: `annals notes add SESSION TEXT`")
        }
        Some(Action::List(args)) => list(args, context),
        Some(Action::Add(note)) => note::run(note, context),
    }
}

fn list(args: &ListArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    let known = inventory.sessions.iter().map(|files| &files.id);
    let gone = inventory.others_of_kind(ArtifactKind::Notes);
    let gone = gone.filter_map(|(_, file)| file.artifact.session.as_ref());
    let short = ShortIds::new(known.chain(gone).map(SessionId::as_str));
    let mut notes;
    match &args.session {
        Some(id) => match context.find_session_to_read(id) {
            Ok(files) => notes = read_notes(files)?,
            Err(error) if !is_not_found(&error) => return Err(error),
            Err(error) => {
                let is_it = |session: &SessionId| {
                    session.as_str().starts_with(id.as_str()) || session.matches_name(id)
                };
                notes = orphaned_notes(context, &inventory, is_it);
                let mut sessions = notes.iter().map(|note| &note.session);
                let first = sessions.next();
                if first.is_none() || !sessions.all(|other| Some(other) == first) {
                    return Err(error);
                }
            }
        },
        None => {
            notes = orphaned_notes(context, &inventory, |_| true);
            for files in &inventory.sessions {
                match read_notes(files.clone()) {
                    Ok(found) => notes.extend(found),
                    Err(error) => context.warn(&error),
                }
            }
            notes.sort_by_key(|note| std::cmp::Reverse(note.entry.time));
        }
    }
    let total = args.page.apply(&mut notes);
    if context.json {
        let rows = notes.iter().map(|note| {
            let (author, text) = note.author_and_text();
            let id = note.entry.id.as_ref().map(|id| id.as_str());
            NoteJson {
                session: &note.session,
                id,
                time: note.entry.time,
                author,
                text,
            }
        });
        context.out.json(&NotesJson {
            notes: rows.collect(),
            total,
        })?;
    } else if notes.is_empty() {
        let text = "No notes. `annals notes add SESSION TEXT` adds one.";
        print_none(context, &inventory, text)?;
    }
    for (at, note) in notes.iter().enumerate().filter(|_| !context.json) {
        let (author, text) = note.author_and_text();
        if at > 0 {
            context.out.blank()?;
        }
        let time = note
            .entry
            .time
            .map(|time| context.clock.full(time))
            .unwrap_or_default();
        let id = short.get(&note.session);
        let author = author.unwrap_or_default();
        let used = width(id) + width(&time) + width(author) + 6;
        let title = note.title.as_deref().unwrap_or_default();
        let title = fit_title(title, used, context);
        context.out.line(format_args!(
            "{}  {}  {}  {}",
            paint(ID, id),
            paint(TIME, &time),
            paint(DIM, author),
            paint(BOLD, &title),
        ))?;
        let text = plain_text(text, context.out.width());
        context.out.text(text)?;
    }
    Ok(if notes.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn is_not_found(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<annals::Error>();
    matches!(error, Some(annals::Error::NotFound { .. }))
}

/// Reads notes on sessions without a log.
fn orphaned_notes(
    context: &mut Context,
    inventory: &Inventory,
    is_wanted: impl Fn(&SessionId) -> bool,
) -> Vec<Note> {
    let mut notes = Vec::new();
    for (root, file) in inventory.others_of_kind(ArtifactKind::Notes) {
        let session = file.artifact.session.as_ref();
        let Some(session) = session.filter(|id| is_wanted(id)) else {
            continue;
        };
        let entries = match root.entries(file) {
            Ok(entries) => entries,
            Err(error) => {
                context.warn(&error);
                continue;
            }
        };
        let remarks = entries.into_iter();
        let remarks = remarks.filter(|entry| matches!(entry.body, Body::Note { .. }));
        notes.extend(remarks.map(|entry| Note {
            session: session.to_string(),
            title: None,
            entry,
        }));
    }
    notes
}

fn read_notes(files: SessionFiles) -> annals::Result<Vec<Note>> {
    let session = Session::read(files)?;
    let title = session.title().map(|title| title.text);
    let notes = session.notes()?.into_iter().map(|entry| Note {
        session: session.files.id.to_string(),
        title: title.clone(),
        entry,
    });
    Ok(notes.collect())
}
