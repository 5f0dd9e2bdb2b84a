//! `annals title`

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Outcome, input};
use crate::context::Context;
use crate::render::style::{ID, TITLE, paint};

/// Gives a session a title.
#[derive(Debug, Args)]
#[command(after_help = "\
The title is added to the log; the earlier ones stay in it. Claude Code shows it too.

Examples:
  annals title 8c549c46 'Release 1.2'")]
pub(crate) struct TitleArgs {
    /// The session
    session: String,
    /// The title
    #[arg(allow_hyphen_values = true)]
    title: String,
}

#[derive(Serialize)]
struct TitleJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    title: &'a str,
}

pub(crate) fn run(args: &TitleArgs, context: &mut Context) -> Result<Outcome> {
    let title = input::non_empty(&args.title, "title")?.trim();
    let files = context.find_session(&args.session)?;
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
