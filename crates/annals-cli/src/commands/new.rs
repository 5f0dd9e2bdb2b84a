//! `annals new`

use std::path::PathBuf;

use annals::model::{Draft, Entry};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::append::EntryRow;
use super::{Outcome, input};
use crate::context::Context;
use crate::render::style::{DIM, ID, paint};

/// Begins a session.
#[derive(Debug, Args)]
#[command(after_help = "\
The session goes to the first root, or to the default place of Claude Code if there is none yet.
`claude --resume ID` goes on with it once something was said in it.

Examples:
  annals new -m 'Why is the build slow?'
  annals new --cwd ~/src/my-app --title 'Release 1.2'
  id=$(annals new --json | jq -r .session)")]
pub(crate) struct NewArgs {
    /// The directory it is about [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Its title
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// Its id [default: a fresh UUID]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Its first prompt; `-` reads it from standard input
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    entries: Vec<EntryRow<'a>>,
}

pub(crate) fn run(args: &NewArgs, context: &mut Context) -> Result<Outcome> {
    let cwd = input::directory(args.cwd.as_deref())?;
    let title = args
        .title
        .as_deref()
        .map(|title| input::filled(title, "title"))
        .transpose()?;
    let prompt = args
        .message
        .as_deref()
        .map(|text| input::text(text, "prompt"))
        .transpose()?;
    let root = context.writable_root()?;
    let mut new = input::new_session(&root, args.id.as_deref(), &cwd)?;
    if args.id.is_some() {
        input::check_unused(context, &new.id)?;
    }
    new.git_branch = input::git_branch(&cwd);
    let writer = context.store.create(&root, &new, context.writing())?;
    if let Some(title) = title {
        writer.retitle(title)?;
    }
    let written: Vec<Entry> = match prompt {
        Some(prompt) => vec![writer.append(Draft::user(prompt))?],
        None => Vec::new(),
    };
    if context.json {
        let entries = written.iter().map(EntryRow::of).collect();
        context.out.json(&Document {
            session: writer.session().as_str(),
            file: &writer.path(),
            entries,
        })?;
    } else {
        context.out.line(paint(ID, writer.session().as_str()))?;
        context
            .out
            .line(paint(DIM, &writer.path().display().to_string()))?;
    }
    Ok(Outcome::Fine)
}
