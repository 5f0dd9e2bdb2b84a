//! `annals notes`

use annals::model::{Body, Entry};
use annals::store::{Session, SessionFiles};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Outcome;
use super::row::Short;
use crate::context::Context;
use crate::render::message::prose;
use crate::render::style::{BOLD, DIM, ID, TIME, paint};

/// Lists the remarks that people made on sessions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals notes                     of all sessions, the newest first
  annals notes 8c549c46
  annals note 8c549c46 'The fix went into 1.2'")]
pub(crate) struct NotesArgs {
    /// Only of this session
    session: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    notes: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
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
    fn said(&self) -> (Option<&str>, &str) {
        match &self.entry.body {
            Body::Note { author, text } => (author.as_deref(), text),
            _ => (None, ""),
        }
    }
}

pub(crate) fn run(args: &NotesArgs, context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    let short = Short::of(inventory.sessions.iter().map(|files| files.id.as_str()));
    let mut notes = Vec::new();
    match &args.session {
        Some(id) => notes = of(context.find_session(id)?)?,
        None => {
            for files in &inventory.sessions {
                match of(files.clone()) {
                    Ok(found) => notes.extend(found),
                    Err(error) => context.warn(&error),
                }
            }
            notes.sort_by_key(|note| std::cmp::Reverse(note.entry.time));
        }
    }
    if context.json {
        let rows = notes.iter().map(|note| {
            let (author, text) = note.said();
            let id = note.entry.id.as_ref().map(|id| id.as_str());
            Row {
                session: &note.session,
                id,
                time: note.entry.time,
                author,
                text,
            }
        });
        context.out.json(&Document {
            notes: rows.collect(),
        })?;
    } else if notes.is_empty() {
        context
            .out
            .line("No notes. `annals note SESSION TEXT` adds one.")?;
    }
    for (at, note) in notes.iter().enumerate().filter(|_| !context.json) {
        let (author, text) = note.said();
        if at > 0 {
            context.out.blank()?;
        }
        let time = note
            .entry
            .time
            .map(|time| context.clock.full(time))
            .unwrap_or_default();
        context.out.line(format_args!(
            "{}  {}  {}  {}",
            paint(ID, short.get(&note.session)),
            paint(TIME, &time),
            paint(DIM, author.unwrap_or_default()),
            paint(BOLD, note.title.as_deref().unwrap_or_default()),
        ))?;
        let text = prose(text, context.out.width());
        context.out.text(text)?;
    }
    Ok(if notes.is_empty() {
        Outcome::Nothing
    } else {
        Outcome::Fine
    })
}

fn of(files: SessionFiles) -> annals::Result<Vec<Note>> {
    let session = Session::read(files)?;
    let title = session.title().map(|title| title.text);
    let notes = session.notes()?.into_iter().map(|entry| Note {
        session: session.files.id.to_string(),
        title: title.clone(),
        entry,
    });
    Ok(notes.collect())
}
