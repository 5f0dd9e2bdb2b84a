//! `annals tag`

use annals::store::Session;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, input};
use crate::context::Context;
use crate::render::style::{DIM, ID, WARNING, paint};

/// Labels a session, or shows its label.
#[derive(Debug, Args)]
#[command(after_help = "\
A session has one label; a new one takes the place of the old. Claude Code shows it too.

Examples:
  annals tag 8c549c46 keep
  annals tag 8c549c46 --remove
  annals sessions --tag keep")]
pub(crate) struct TagArgs {
    /// The session
    session: String,
    /// The label; without one, the present label is shown
    #[arg(conflicts_with = "remove")]
    tag: Option<String>,
    /// Take the label away
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
        .map(|tag| input::non_empty(tag, "label"))
        .transpose()?
        .map(str::trim);
    if tag.is_some_and(|tag| tag.contains(['\n', '\r'])) {
        bail!("a label is a single line");
    }
    let files = context.find_session(&args.session)?;
    let (session, file) = (files.id.to_string(), files.main_path().to_owned());
    let writes = tag.is_some() || args.remove;
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
            None => paint(DIM, "(no label)"),
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
