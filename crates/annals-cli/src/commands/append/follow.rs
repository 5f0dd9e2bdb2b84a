//! `annals append --follow`: lines are written as they come, and each is acknowledged.
//!
//! One child process serves as the writer of a program in any language. Logs stay open between lines;
//! while no line comes they are closed, which brings session lists up to date.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use annals::jsonl::MAX_LINE;
use annals::model::{AgentId, Entry};
use annals::store::{SessionFiles, SessionWriter};
use anyhow::{Context as _, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::{AppendArgs, Content, EntryRow, options, spawn, unknown_member};
use crate::commands::draft::{AgentName, BadDraft, Envelope, NewMembers};
use crate::commands::{Outcome, input, new};
use crate::context::Context;

/// So many logs are kept open at most.
const MOST_OPEN: usize = 64;

/// How long to wait for a line before logs are closed.
const IDLE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// What became of a line.
#[derive(Serialize)]
struct Answer<'a> {
    line: u64,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    /// The session or the sub-agent began with this line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    began: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<EntryRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn run(args: &AppendArgs, context: &mut Context) -> Result<Outcome> {
    let mut writers = Writers::default();
    // A session that is not there is told before anything is read.
    if let Some(session) = &args.session {
        writers.find(session, context)?;
    }
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    let stdin = stdin.context("cannot read standard input")?;
    let mut stdin = BufReader::with_capacity(1 << 16, File::from(stdin));
    let mut bytes = Vec::new();
    let mut line = 0;
    let mut refused = false;
    loop {
        if stdin.buffer().is_empty() && !writers.open.is_empty() && is_idle(stdin.get_ref()) {
            writers.close(context);
        }
        bytes.clear();
        let whole = read_line(&mut stdin, &mut bytes).context("cannot read standard input")?;
        if bytes.is_empty() {
            break;
        }
        line += 1;
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let done = match whole {
            true => write(args, &bytes, &mut writers, context),
            false => Err(anyhow!(
                "the line is longer than the {} MB that readers take",
                MAX_LINE >> 20
            )),
        };
        refused |= done.is_err();
        answer(line, done, context)?;
    }
    writers.close(context);
    Ok(match refused {
        true => Outcome::Nothing,
        false => Outcome::Fine,
    })
}

/// Whether no line comes for a while.
fn is_idle(stdin: &File) -> bool {
    let mut fds = [PollFd::new(stdin, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&IDLE)), Ok(0))
}

/// Reads a line with its ending; `false` if it is too long, in which case the rest of it is skipped.
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

fn answer(line: u64, done: Result<Done>, context: &mut Context) -> Result<()> {
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            context.out.json_line(&Answer {
                line,
                ok: false,
                session: None,
                agent: None,
                began: false,
                entries: None,
                error: Some(told(&error)),
            })?;
            context.out.flush()?;
            return Ok(());
        }
    };
    context.out.json_line(&Answer {
        line,
        ok: true,
        session: Some(&done.session),
        agent: done.agent.as_ref().map(AgentId::as_str),
        began: done.began,
        entries: Some(done.written.iter().map(EntryRow::of).collect()),
        error: None,
    })?;
    context.out.flush()?;
    Ok(())
}

/// An error in one sentence; what could have been meant is part of it.
fn told(error: &anyhow::Error) -> String {
    let candidates = match error.downcast_ref() {
        Some(annals::Error::Ambiguous { candidates, .. }) => {
            let first: Vec<&str> = candidates.iter().take(5).map(String::as_str).collect();
            format!(" ({}…)", first.join(", "))
        }
        _ => String::new(),
    };
    format!("{error:#}{candidates}")
}

/// What a line came to.
struct Done {
    session: String,
    agent: Option<AgentId>,
    began: bool,
    written: Vec<Entry>,
}

/// Where a line goes.
struct Place {
    session: Option<String>,
    agent: Option<AgentName>,
    new: Option<NewMembers>,
}

fn write(
    args: &AppendArgs,
    bytes: &[u8],
    writers: &mut Writers,
    context: &mut Context,
) -> Result<Done> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let by_default = || {
        args.agent.clone().map(|id| AgentName {
            id,
            ..AgentName::default()
        })
    };
    if args.raw {
        let place = Place {
            session: args.session.clone(),
            agent: by_default(),
            new: None,
        };
        let content = Content::Raw(vec![bytes.to_vec()]);
        return writers.write(args, place, content, context);
    }
    let text = std::str::from_utf8(bytes).context("the line is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let bad = |bad: BadDraft| anyhow!("{}", bad.in_line());
    let envelope = Envelope::read(text, 1).map_err(bad)?;
    let elsewhere = envelope.session.is_some() || envelope.new.is_some();
    let content = match envelope.raw {
        Some(raw) => Content::Raw(vec![raw.get().as_bytes().to_vec()]),
        // A line may only begin a session.
        None if envelope.message.is_empty() && envelope.new.is_some() => {
            Content::Drafts(Vec::new(), Vec::new())
        }
        None => Content::Drafts(envelope.message.drafts().map_err(bad)?, Vec::new()),
    };
    let place = Place {
        // The sub-agent of the arguments is one of their session.
        agent: envelope
            .agent
            .or_else(|| by_default().filter(|_| !elsewhere)),
        session: envelope.session.or_else(|| args.session.clone()),
        new: envelope.new,
    };
    writers.write(args, place, content, context)
}

/// A log that is written to: its root, its session and its sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    root: PathBuf,
    session: String,
    agent: Option<String>,
}

/// The logs that are open.
#[derive(Default)]
struct Writers {
    open: HashMap<Key, (SessionWriter, u64)>,
    /// Sessions by the texts that named them.
    named: HashMap<String, Key>,
    /// How many lines were written.
    lines: u64,
}

impl Writers {
    fn write(
        &mut self,
        args: &AppendArgs,
        place: Place,
        content: Content,
        context: &mut Context,
    ) -> Result<Done> {
        let (mut key, mut began) = match &place.new {
            Some(new) => self.begin(args, new, &content, context)?,
            None => {
                let Some(text) = &place.session else {
                    bail!("the line names no session; add \"session\" or \"new\" to it");
                };
                (self.find(text, context)?, false)
            }
        };
        key.agent = place.agent.as_ref().map(|agent| agent.id.clone());
        let session = key.session.clone();
        let opened = self.open(args, &key, place.agent.as_ref(), context);
        let written = opened.and_then(|spawned| {
            began |= spawned;
            let (writer, used) = self.open.get_mut(&key).context("the log is not open")?;
            self.lines += 1;
            *used = self.lines;
            if let Content::Drafts(drafts, _) = &content {
                let layout = writer.layout();
                let unknown = drafts.iter().find_map(|it| unknown_member(layout, it));
                if let Some(why) = unknown {
                    bail!("{why}");
                }
            }
            let written = match content {
                Content::Raw(records) => writer.append_raw(records),
                Content::Drafts(drafts, _) => writer.append_all(drafts),
            };
            written.map_err(anyhow::Error::new)
        });
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // What is known of the log may be wrong: it is found again for the next line.
                self.open.remove(&key);
                self.named.clear();
                return Err(match began {
                    true => error.context(format!("session {session} has begun, but")),
                    false => error,
                });
            }
        };
        let agent = self.open.get(&key).and_then(|(writer, _)| writer.agent());
        Ok(Done {
            session,
            agent,
            began,
            written,
        })
    }

    /// Opens a log, if it is not open; tells whether its sub-agent began.
    fn open(
        &mut self,
        args: &AppendArgs,
        key: &Key,
        agent: Option<&AgentName>,
        context: &mut Context,
    ) -> Result<bool> {
        if self.open.contains_key(key) {
            return Ok(false);
        }
        let files = files_of(key, context)?;
        let options = options(args, context);
        let (writer, spawned) = match agent {
            Some(agent) => spawn(agent, &files, options, context)?,
            None => (context.store.write(&files, options)?, false),
        };
        self.keep(key.clone(), writer, context);
        Ok(spawned)
    }

    fn keep(&mut self, key: Key, writer: SessionWriter, context: &Context) {
        if self.open.len() >= MOST_OPEN {
            let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(key, _)| key.clone());
            let closed = oldest.and_then(|oldest| self.open.remove(&oldest));
            closed
                .into_iter()
                .for_each(|(writer, _)| close(writer, context));
        }
        self.open.insert(key, (writer, self.lines));
    }

    /// The session that a text names.
    fn find(&mut self, text: &str, context: &mut Context) -> Result<Key> {
        if let Some(key) = self.named.get(text) {
            return Ok(key.clone());
        }
        let target = context.find_to_write(text)?;
        target.refuse_agent()?;
        if let Some(message) = &target.message {
            bail!("`{text}` names the message {message}; a line names its \"parent\" itself");
        }
        let key = key_of(&target.files);
        self.named.insert(text.to_owned(), key.clone());
        Ok(key)
    }

    /// Begins a session, or goes on with the one of that id.
    fn begin(
        &mut self,
        args: &AppendArgs,
        new: &NewMembers,
        content: &Content,
        context: &mut Context,
    ) -> Result<(Key, bool)> {
        if let Some(key) = new.id.as_ref().and_then(|id| self.named.get(id)) {
            return Ok((key.clone(), false));
        }
        if let Some(id) = &new.id
            && let Some(files) = existing(id, context)?
        {
            let key = key_of(&files);
            self.named.insert(id.clone(), key.clone());
            return Ok((key, false));
        }
        let root = context.writable_root()?;
        if let Content::Drafts(drafts, _) = content {
            let mut unknown = drafts
                .iter()
                .filter_map(|it| unknown_member(root.layout, it));
            if let Some(why) = unknown.next() {
                bail!("{why}");
            }
        }
        let cwd = input::directory(new.cwd.as_deref().map(Path::new))?;
        let mut session = input::new_session(&root, new.id.as_deref(), &cwd)?;
        session.git_branch = match &new.git_branch {
            Some(branch) => Some(branch.clone()),
            None => input::git_branch(&cwd),
        };
        if let Some(title) = &new.title {
            session.title = Some(input::filled(title, "title")?.to_owned());
        }
        session.folder = match &new.agent {
            Some(agent) => Some(new::folder(context, &root, &session.cwd, agent)?),
            None => None,
        };
        session.members.clone_from(&new.members);
        let writer = context
            .store
            .create(&root, &session, options(args, context))?;
        let key = Key {
            root: root.path.clone(),
            session: writer.session().to_string(),
            agent: None,
        };
        let names = new.id.iter().cloned().chain([key.session.clone()]);
        self.named.extend(names.map(|name| (name, key.clone())));
        self.keep(key.clone(), writer, context);
        Ok((key, true))
    }

    /// Closes all logs, which brings session lists up to date. Sessions are found again when they are
    /// named again: they may have moved meanwhile.
    fn close(&mut self, context: &Context) {
        self.named.clear();
        let open = self.open.drain();
        open.for_each(|(_, (writer, _))| close(writer, context));
    }
}

/// Every line was acknowledged by now, so what fails here is told beside the answers.
fn close(writer: SessionWriter, context: &Context) {
    let session = writer.session();
    if let Err(error) = writer.close() {
        context.fault(&format!(
            "the session list could not be brought up to date for {session}: {error}"
        ));
    }
}

fn key_of(files: &SessionFiles) -> Key {
    Key {
        root: files.root.path.clone(),
        session: files.id.to_string(),
        agent: None,
    }
}

fn files_of(key: &Key, context: &mut Context) -> Result<SessionFiles> {
    let sessions = context.inventory().sessions.into_iter();
    let mut same = sessions
        .filter(|files| files.id.as_str() == key.session.as_str() && files.root.path == key.root);
    match same.next() {
        Some(files) => Ok(files),
        // The log may lie outside of every root.
        None => Ok(context.find_to_write(&key.session)?.files),
    }
}

/// The session of exactly that id.
fn existing(id: &str, context: &Context) -> Result<Option<SessionFiles>> {
    // A root that is to be is no trouble here.
    let inventory = context.store.inventory();
    match context.store.find(&inventory, id) {
        Ok(target) if target.message.is_none() && target.log.is_none() => {
            let known = &target.files.id;
            // A beginning of another id is not meant, and a name that is no id is whole.
            let whole = known.as_str() == id
                || known.is_named(id)
                || annals::model::SessionId::new(id).is_err();
            Ok(whole.then_some(target.files))
        }
        Ok(_) => Ok(None),
        Err(annals::Error::NotFound { .. } | annals::Error::BadId { .. }) => Ok(None),
        Err(error @ annals::Error::Ambiguous { .. }) => {
            let exact = |files: &&SessionFiles| files.id.as_str() == id;
            match inventory.sessions.iter().filter(exact).count() {
                0 => Ok(None),
                _ => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}
