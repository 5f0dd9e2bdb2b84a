//! `annals notes add`

use annals::model::{Body, Draft, EntryId};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose, input};
use crate::context::Context;
use annals_render::command::quoted_command;
use annals_render::style::{DIM, ID, paint};

/// Adds a note to a session.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  annals notes add 8c549c46 'The fix went into 1.2'
  git log -1 | annals notes add 8c549c46 -
  annals notes 8c549c46                            lists them")]
pub(crate) struct NoteArgs {
    /// The session; if missing on a terminal, choose one
    session: Option<String>,
    /// The note; `-` reads it from standard input; if missing on a terminal, type it
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Author of the note [default: $USER]
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
}

#[derive(Serialize)]
struct AddedNoteJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    id: Option<&'a str>,
    author: Option<&'a str>,
}

pub(crate) fn run(args: &NoteArgs, context: &mut Context) -> Result<Outcome> {
    let session = choose::session(args.session.as_deref(), context)?;
    let text = choose::text(args.text.as_deref(), "note", context)?;
    let text = match text.as_str() {
        "-" => input::text("-", "note")?.trim_end().to_owned(),
        text => input::non_empty(text, "note")?.to_owned(),
    };
    let author = args
        .author
        .clone()
        .or_else(|| std::env::var("USER").ok())
        .filter(|name| !name.is_empty());
    let files = context.find_session(&session)?;
    let writer = context.open_for_annotation(&files)?;
    let entry = writer.append(Draft::new(Body::Note {
        author: author.clone(),
        text,
    }))?;
    if context.json {
        let document = AddedNoteJson {
            session: files.id.as_str(),
            file: &writer.path(),
            id: entry.id.as_ref().map(EntryId::as_str),
            author: author.as_deref(),
        };
        context.out.json(&document)?;
    } else {
        let notes = quoted_command("annals notes", files.id.as_str(), "");
        let text = format!("note added; {notes} shows it");
        context.out.line(format_args!(
            "{}  {}",
            paint(ID, files.id.as_str()),
            paint(DIM, &text)
        ))?;
    }
    Ok(Outcome::Written)
}
