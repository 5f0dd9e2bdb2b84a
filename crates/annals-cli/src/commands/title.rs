//! `annals title`

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose, input};
use crate::context::Context;
use annals_render::style::{ID, TITLE, paint};

/// Gives a session a title.
#[derive(Debug, Args)]
#[command(after_help = "\
The title is added to the log; the earlier ones stay in it. Claude Code shows it too.

Examples:
  annals title 8c549c46 'Release 1.2'
  annals title                            choose a session, and type its title")]
pub(crate) struct TitleArgs {
    /// The session; if missing on a terminal, choose one
    session: Option<String>,
    /// The title; if missing on a terminal, type it
    #[arg(allow_hyphen_values = true)]
    title: Option<String>,
}

#[derive(Serialize)]
struct TitleJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    title: &'a str,
}

pub(crate) fn run(args: &TitleArgs, context: &mut Context) -> Result<Outcome> {
    let session = choose::session(args.session.as_deref(), context)?;
    let title = choose::text(args.title.as_deref(), "title", context)?;
    let title = input::non_empty(&title, "title")?.trim();
    let files = context.find_session(&session)?;
    let writer = context.open_for_annotation(&files)?;
    writer.retitle(title)?;
    let session = files.id.as_str();
    if context.json {
        context.out.json(&TitleJson {
            session,
            file: &writer.path(),
            title,
        })?;
    } else {
        context.out.line(format_args!(
            "{}  {}",
            paint(ID, session),
            paint(TITLE, title)
        ))?;
    }
    Ok(Outcome::Written)
}
