//! `annals fork`

use std::path::Path;

use annals::model::SessionId;
use annals::store::Session;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose, input};
use crate::context::Context;
use annals_render::size::pluralize;
use annals_render::style::{DIM, ID, paint};

/// Copies a conversation into a session of its own.
#[derive(Debug, Args)]
#[command(after_help = "\
The copy holds the chosen conversation only, up to and including the message. The session it \
comes from is not touched. In clog the copy keeps its channel and, without --title, its title.

Examples:
  annals fork 8c549c46               the conversation that would be resumed
  annals fork 8c549c46@1405c20a      up to an inner message, or another branch
  annals fork 8c549c46 --title 'Another way'")]
pub(crate) struct ForkArgs {
    /// The session, and the message at which to stop
    #[arg(value_name = "SESSION[@MESSAGE]")]
    id: Option<String>,
    /// The title of the copy
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// The id of the copy [default: a fresh UUID]
    #[arg(long = "id", value_name = "ID")]
    to: Option<String>,
}

#[derive(Serialize)]
struct ForkJson<'a> {
    session: &'a str,
    file: &'a Path,
    from: String,
    entries: usize,
}

pub(crate) fn run(args: &ForkArgs, context: &mut Context) -> Result<Outcome> {
    let title = args
        .title
        .as_deref()
        .map(|title| input::non_empty(title, "title"))
        .transpose()?;
    let name = choose::session(args.id.as_deref(), context)?;
    let target = context.find_to_write(&name)?;
    target.refuse_agent()?;
    let writer = target.files.root.layout.writer();
    let to = match &args.to {
        // If logs store the exact id, its case is significant.
        Some(id) if writer.is_some_and(|writer| writer.path_name(id).is_some()) => {
            SessionId::new(id)?
        }
        given => input::new_id(given.as_deref())?,
    };
    if args.to.is_some() {
        input::check_unused(context, &to)?;
    }
    let session = Session::read(target.files)?;
    let Some(tree) = session.tree().filter(|_| session.files.log.is_some()) else {
        bail!("session {} has no log of its own to fork", session.files.id);
    };
    let path = match &target.message {
        Some(message) => {
            let (at, _) = input::entry(&session, 0, message)?;
            tree.path_to(at).unwrap_or_default()
        }
        None => {
            let resumed = tree.resume.and_then(|at| tree.conversations.get(at));
            resumed
                .map(|conversation| tree.path(conversation))
                .unwrap_or_default()
        }
    };
    let last = path.last().and_then(|&at| session.entry_id(at));
    let Some(last) = last else {
        bail!("session {} has no messages to fork", session.files.id);
    };
    let forked = context
        .store
        .fork(&session, &path, to, title, context.clock.now)?;
    input::note_unlisted(context, session.root());
    let from = format!("{}@{last}", session.files.id);
    if context.json {
        let entries = path.len();
        context.out.json(&ForkJson {
            session: forked.session.as_str(),
            file: &forked.path,
            from,
            entries,
        })?;
    } else {
        context.out.line(paint(ID, forked.session.as_str()))?;
        context
            .out
            .line(paint(DIM, &forked.path.display().to_string()))?;
        let count = pluralize(path.len() as u64, "entry");
        context
            .out
            .line(format_args!("{count} copied from {}", paint(ID, &from)))?;
    }
    Ok(Outcome::Ok)
}
