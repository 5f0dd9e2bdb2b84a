//! `annals compact`

use annals::model::{Body, Entry, EntryId};
use annals::store::{Session, SessionFiles, WriteOptions};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::append::WrittenEntryJson;
use super::{Outcome, choose, input};
use crate::context::Context;
use annals_render::size;
use annals_render::style::{ID, paint};

/// Replaces the context of a conversation by a summary.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is removed from the log. An agent that resumes the session gets the summary instead of the \
messages before it.

Examples:
  annals compact 8c549c46 --summary 'We fixed the build and released 1.2.'
  annals compact 8c549c46 --summary @summary.md
  annals show 8c549c46 | my-summariser | annals compact 8c549c46 --summary -")]
pub(crate) struct CompactArgs {
    /// The session
    session: Option<String>,
    /// The summary; `-` reads it from standard input, `@FILE` from a file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    summary: String,
    /// Write even if another program is writing to the session right now
    #[arg(long)]
    live: bool,
}

#[derive(Serialize)]
struct CompactJson<'a> {
    session: &'a str,
    file: &'a std::path::Path,
    tokens: Option<u64>,
    entries: Vec<WrittenEntryJson<'a>>,
}

pub(crate) fn run(args: &CompactArgs, context: &mut Context) -> Result<Outcome> {
    let summary = input::text(&args.summary, "summary")?;
    let name = choose::session(args.session.as_deref(), context)?;
    let files = context.find_session(&name)?;
    let tokens = context_tokens(&files)?;
    let options = WriteOptions {
        live: args.live,
        ..context.write_options()
    };
    let writer = context.store.open_writer(&files, options)?;
    let written = writer.compact(summary.trim_end(), tokens)?;
    if context.json {
        let document = CompactJson {
            session: files.id.as_str(),
            file: &writer.path(),
            tokens,
            entries: written.iter().map(WrittenEntryJson::new).collect(),
        };
        context.out.json(&document)?;
        return Ok(Outcome::Written);
    }
    let before = tokens.map_or_else(String::new, |tokens| {
        format!(" ({} tokens before)", size::compact(tokens))
    });
    let last = written.last().and_then(|entry| entry.id.as_ref());
    context.out.line(format_args!(
        "{} compacted{before}; continues at {}",
        paint(ID, files.id.as_str()),
        paint(ID, last.map_or("", EntryId::as_str)),
    ))?;
    Ok(Outcome::Written)
}

/// Returns the tokens in the context at the last answer, if recorded.
fn context_tokens(files: &SessionFiles) -> Result<Option<u64>> {
    const TAIL_MESSAGES: usize = 50;
    if files.log.is_none() {
        return Ok(None);
    }
    let session = Session::read_tail(files.clone(), TAIL_MESSAGES)?;
    let used = |entry: &Entry| match &entry.body {
        Body::Message(message) => message
            .usage
            .map(|usage| usage.context())
            .filter(|tokens| *tokens > 0),
        _ => None,
    };
    let messages = session.last_messages(TAIL_MESSAGES)?;
    Ok(messages.iter().rev().find_map(used))
}
