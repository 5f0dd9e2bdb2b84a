//! `annals tag`

use annals::store::Session;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose, input};
use crate::context::Context;
use annals_render::style::{DIM, ID, WARNING, paint};

/// Tags a session, or shows its tag.
#[derive(Debug, Args)]
#[command(after_help = "\
A session has one tag; a new one replaces the old. Claude Code shows it too.

Examples:
  annals tag 8c549c46 keep
  annals tag 8c549c46 --remove
  annals sessions --tag keep")]
pub(crate) struct TagArgs {
    /// The session
    session: Option<String>,
    /// The tag; without one, the current tag is shown
    #[arg(conflicts_with = "remove")]
    tag: Option<String>,
    /// Remove the tag
    #[arg(long)]
    remove: bool,
}

#[derive(Serialize)]
struct TagJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    tag: Option<&'a str>,
}

pub(crate) fn run(args: &TagArgs, context: &mut Context) -> Result<Outcome> {
    let tag = args
        .tag
        .as_deref()
        .map(|tag| input::non_empty(tag, "tag"))
        .transpose()?
        .map(str::trim);
    if tag.is_some_and(|tag| tag.contains(['\n', '\r'])) {
        bail!("a tag must be a single line");
    }
    let name = choose::session(args.session.as_deref(), context)?;
    let writes = tag.is_some() || args.remove;
    let files = match writes {
        true => context.find_session(&name)?,
        false => context.find_session_to_read(&name)?,
    };
    let (session, file) = (files.id.to_string(), files.main_path().to_owned());
    let tag = if writes {
        let writer = context.open_for_annotation(&files)?;
        writer.tag(tag.unwrap_or_default())?;
        tag.map(str::to_owned)
    } else {
        Session::read(files)?.tag()
    };
    if context.json {
        context.out.json(&TagJson {
            session: &session,
            file: &file,
            tag: tag.as_deref(),
        })?;
    } else {
        let shown = match &tag {
            Some(tag) => paint(WARNING, tag),
            None => paint(DIM, "(no tag)"),
        };
        context
            .out
            .line(format_args!("{}  {shown}", paint(ID, &session)))?;
    }
    Ok(match (writes, tag) {
        (true, _) => Outcome::Written,
        (false, Some(_)) => Outcome::Ok,
        (false, None) => Outcome::NotFound,
    })
}
