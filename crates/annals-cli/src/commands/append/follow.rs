//! `annals append --follow`: writes lines as they arrive and acknowledges each.
//!
//! A program in any language can use one child process as its writer. Logs stay open between lines;
//! they are closed while the input is idle, which updates session lists.

mod writers;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;

use annals::jsonl::Error as FileError;
use annals::jsonl::MAX_LINE;
use annals::model::{AgentId, Entry};
use anyhow::{Context as _, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::{AppendArgs, Content, WrittenEntryJson};
use crate::command_errors::error_chain_text;
use crate::commands::Outcome;
use crate::context::Context;
use annals::draft_json::{AgentSpec, BadDraft, Envelope, NewSessionSpec};
use writers::Writers;

/// Idle time after which logs are closed.
const IDLE_TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Answer to a line.
#[derive(Serialize)]
struct AnswerJson<'a> {
    line: u64,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    /// True if this line created the session or the sub-agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    began: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<WrittenEntryJson<'a>>>,
    /// A problem that did not refuse the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn run(args: &AppendArgs, context: &mut Context) -> Result<Outcome> {
    let mut writers = Writers::default();
    // A missing session is an error before anything is read.
    if let Some(session) = &args.session
        && super::missing_log(session, context)?.is_none()
    {
        writers.default = Some(writers.resolve(session, context)?);
    }
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    let stdin = stdin.context("cannot read standard input")?;
    let mut stdin = BufReader::with_capacity(1 << 16, File::from(stdin));
    let mut bytes = Vec::new();
    let mut line = 0;
    let mut refused = false;
    loop {
        if stdin.buffer().is_empty() && !writers.open.is_empty() && is_idle(stdin.get_ref()) {
            writers.close_all(context);
        }
        bytes.clear();
        let whole = read_line(&mut stdin, &mut bytes).context("cannot read standard input")?;
        if bytes.is_empty() {
            break;
        }
        line += 1;
        if bytes.trim_ascii().is_empty() {
            // Every line is answered, because the caller counts answers.
            print_answer(line, Ok(None), context)?;
            continue;
        }
        let done = match whole {
            true => write_line(args, &bytes, &mut writers, context).map(Some),
            false => Err(anyhow!(
                "the line is longer than {} MB, the limit for readers",
                MAX_LINE >> 20
            )),
        };
        refused |= done.is_err();
        print_answer(line, done, context)?;
    }
    writers.close_all(context);
    if refused {
        bail!("some lines were refused; see the answer to each");
    }
    Ok(Outcome::Written)
}

/// Returns true if no input arrives within `IDLE_TIMEOUT`.
fn is_idle(stdin: &File) -> bool {
    let mut fds = [PollFd::new(stdin, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&IDLE_TIMEOUT)), Ok(0))
}

/// Reads a line with its ending. Returns `false` if it is too long, after skipping the rest.
fn read_line(stdin: &mut BufReader<File>, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let most = MAX_LINE as u64;
    stdin.by_ref().take(most).read_until(b'\n', bytes)?;
    if bytes.ends_with(b"\n") || (bytes.len() as u64) < most {
        return Ok(true);
    }
    loop {
        let buffer = stdin.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (read, last) = match end {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        stdin.consume(read);
        if last {
            return Ok(false);
        }
    }
}

/// Prints the answer to a line; a blank line has no entries.
fn print_answer(line: u64, done: Result<Option<LineResult>>, context: &mut Context) -> Result<()> {
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            // Bad content or a missing session only refuses the line. An I/O error is also a
            // failure.
            let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
            if let Some(failure @ annals::Error::File(FileError::Io { source, .. })) = causes.next()
                && source.kind() != io::ErrorKind::NotFound
            {
                context.warn(failure);
            }
            context.out.json_line(&AnswerJson {
                line,
                ok: false,
                session: None,
                agent: None,
                began: false,
                entries: None,
                warning: None,
                error: Some(error_text(&error)),
            })?;
            context.out.flush()?;
            return Ok(());
        }
    };
    let done = done.as_ref();
    let written = done.map_or(&[][..], |done| &done.written);
    context.out.json_line(&AnswerJson {
        line,
        ok: true,
        session: done.map(|done| done.session.as_str()),
        agent: done.and_then(|done| done.agent.as_ref().map(AgentId::as_str)),
        began: done.is_some_and(|done| done.began),
        entries: Some(written.iter().map(WrittenEntryJson::new).collect()),
        warning: done.and_then(|done| done.warning.as_deref()),
        error: None,
    })?;
    context.out.flush()?;
    Ok(())
}

/// Returns an error in one sentence, with the first candidates of an ambiguous id.
fn error_text(error: &anyhow::Error) -> String {
    let candidates = match error.downcast_ref() {
        Some(annals::Error::Ambiguous { candidates, .. }) => {
            let first: Vec<&str> = candidates.iter().take(5).map(String::as_str).collect();
            format!(" ({}…)", first.join(", "))
        }
        _ => String::new(),
    };
    format!("{}{candidates}", error_chain_text(error))
}

/// Result of a line.
struct LineResult {
    session: String,
    agent: Option<AgentId>,
    began: bool,
    written: Vec<Entry>,
    warning: Option<String>,
}

/// Log that a line is written to.
struct LineTarget {
    /// Session named by the line; the session of the arguments if none.
    session: Option<String>,
    agent: Option<AgentSpec>,
    new: Option<NewSessionSpec>,
}

fn write_line(
    args: &AppendArgs,
    bytes: &[u8],
    writers: &mut Writers,
    context: &mut Context,
) -> Result<LineResult> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let by_default = || {
        args.agent.clone().map(|id| AgentSpec {
            id,
            ..AgentSpec::default()
        })
    };
    if args.raw {
        let place = LineTarget {
            session: None,
            agent: by_default(),
            new: None,
        };
        let content = Content::Raw(vec![bytes.to_vec()]);
        return writers.write(args, place, content, context);
    }
    let text = std::str::from_utf8(bytes).context("the line is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let bad = |bad: BadDraft| anyhow!("{}", bad.text_without_line());
    let envelope = Envelope::parse(text, 1).map_err(bad)?;
    let elsewhere = envelope.session.is_some() || envelope.new.is_some();
    let content = match envelope.raw {
        Some(raw) => Content::Raw(vec![raw.get().as_bytes().to_vec()]),
        // A line with `new` and no message only creates the session.
        None if envelope.message.is_empty() && envelope.new.is_some() => {
            Content::Drafts(Vec::new(), Vec::new())
        }
        None => Content::Drafts(envelope.message.drafts().map_err(bad)?, Vec::new()),
    };
    let place = LineTarget {
        // `--agent` belongs to the session of the arguments.
        agent: envelope
            .agent
            .or_else(|| by_default().filter(|_| !elsewhere)),
        session: envelope.session,
        new: envelope.new,
    };
    writers.write(args, place, content, context)
}
