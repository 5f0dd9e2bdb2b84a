//! `annals documents`

use std::io::{BufRead, BufReader, IsTerminal as _, Read as _};
use std::path::Path;

use annals::Subject;
use annals::jsonl::{OpenLog, RangeReader};
use annals::model::ArtifactKind;
use annals::store::{Root, RootFile, RunLog};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::overview::print_none;
use super::page::Page;
use super::{Outcome, input};
use crate::context::Context;
use crate::terminal::json;
use annals_render::size;
use annals_render::style::{BOLD, DIM, ID, paint};
use annals_render::table::{Cell, Column, Table};
use annals_render::text::safe_block;

/// Lists the files that belong to no session, reads one, or writes state documents and run logs.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Settings, state, plans, run logs, typed prompts, and files that \
outlived their session. Only state documents and run logs of clog can be written.

Examples:
  annals documents
  annals documents state/operator.json   read one; a unique prefix is enough
  annals documents operator.json         by name, with or without extension
  annals documents settings --json
  annals documents set state/status.json '{\"status\": \"idle\"}'
  annals documents log -m 'started'")]
pub(crate) struct DocumentsArgs {
    /// The document to read: its path within its root, or its name
    name: Option<String>,
    #[command(flatten)]
    page: Page,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Replace or create a state document
    #[command(after_help = "\
The document is replaced whole: a reader sees the old one or the new one.

Examples:
  annals documents set state/status.json '{\"status\": \"idle\"}'
  jq '.n += 1' counter.json | annals documents set counter -")]
    Set {
        /// The document: `state/NAME.json` or NAME
        name: String,
        /// Its content as JSON; `-` for standard input, `@FILE` for a file
        #[arg(value_name = "JSON", allow_hyphen_values = true)]
        content: String,
    },
    /// Append lines to the log of a run
    #[command(after_help = "\
Without --run, a new run starts now. Its name is printed, and later calls can \
give it with --run. Each line is durable when the next one is read.

Examples:
  annals documents log -m 'started'
  annals documents log --run 2026-03-26T01:32:20Z -m 'slow disk'
  my-agent 2>&1 | annals documents log")]
    Log {
        /// When the run started, in UTC
        #[arg(long, value_name = "TIME")]
        run: Option<String>,
        /// A line; repeatable [default: lines from standard input]
        #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
        message: Vec<String>,
    },
}

/// Result of `log`.
#[derive(Serialize)]
struct LoggedJson<'a> {
    run: &'a str,
    file: &'a Path,
    lines: usize,
}

/// Result of `set`.
#[derive(Serialize)]
struct Stored<'a> {
    file: &'a Path,
}

#[derive(Serialize)]
struct DocumentsJson<'a> {
    documents: Vec<DocumentJson<'a>>,
    /// Number of documents before `-n` and `--offset`.
    total: usize,
}

#[derive(Serialize)]
struct DocumentJson<'a> {
    layout: &'a str,
    root: &'a Path,
    kind: ArtifactKind,
    name: String,
    file: &'a Path,
    bytes: u64,
    updated: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// A file that belongs to no session.
struct RootDocument {
    root: Root,
    file: RootFile,
}

impl RootDocument {
    /// Returns the path within the root.
    fn name(&self) -> String {
        let path = &self.file.path;
        let within = path.strip_prefix(&self.root.path).unwrap_or(path);
        within.display().to_string()
    }

    fn updated(&self) -> Option<Timestamp> {
        Timestamp::from_nanosecond(self.file.id.mtime_ns.into()).ok()
    }

    fn to_json(&self) -> DocumentJson<'_> {
        DocumentJson {
            layout: self.root.layout.name(),
            root: &self.root.path,
            kind: self.file.artifact.kind,
            name: self.name(),
            file: &self.file.path,
            bytes: self.file.id.len,
            updated: self.updated(),
            content: None,
            text: None,
        }
    }

    fn matches(&self, wanted: &str, fits: impl Fn(&str, &str) -> bool) -> bool {
        let name = self.file.artifact.name.as_deref();
        let file = self.file.path.file_name().and_then(|file| file.to_str());
        let stem = self.file.path.file_stem().and_then(|stem| stem.to_str());
        let mut names = [name, file, stem].into_iter().flatten();
        fits(&self.name(), wanted) || names.any(|name| !name.is_empty() && fits(name, wanted))
    }
}

pub(crate) fn run(args: &DocumentsArgs, context: &mut Context) -> Result<Outcome> {
    match &args.action {
        Some(Action::Set { name, content }) => return set_document(name, content, context),
        Some(Action::Log { run, message }) => {
            return append_to_run_log(run.as_deref(), message, context);
        }
        None => {}
    }
    let mut inventory = context.inventory();
    let others = std::mem::take(&mut inventory.others).into_iter();
    let mut documents: Vec<RootDocument> = others
        .map(|(root, file)| RootDocument { root, file })
        .collect();
    if let Some(name) = &args.name {
        if args.page.is_set() {
            bail!("-n and --offset select from the list of documents; leave them out to read one");
        }
        let document = find_document(&documents, name)?;
        print_document(document, context)?;
        return Ok(Outcome::Ok);
    }
    documents.sort_by(|a, b| (&a.root.path, a.name()).cmp(&(&b.root.path, b.name())));
    let total = args.page.apply(&mut documents);
    if context.json {
        context.out.json(&DocumentsJson {
            documents: documents.iter().map(RootDocument::to_json).collect(),
            total,
        })?;
    } else if documents.is_empty() {
        print_none(context, &inventory, "No documents outside of sessions.")?;
    } else {
        let table = table(&documents, context);
        context.out.text(table)?;
    }
    Ok(if documents.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn set_document(name: &str, json: &str, context: &mut Context) -> Result<Outcome> {
    let json = input::text(json, "document")?;
    let root = root_with_state(context)?;
    let file = context.store.documents().set_state(&root, name, &json)?;
    if context.json {
        context.out.json(&Stored { file: &file })?;
    } else {
        context.out.line(paint(DIM, &file.display().to_string()))?;
    }
    Ok(Outcome::Ok)
}

fn append_to_run_log(
    run: Option<&str>,
    messages: &[String],
    context: &mut Context,
) -> Result<Outcome> {
    let started = match run {
        None => context.clock.now,
        Some(text) => RunLog::parse_start(text).with_context(|| {
            let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
            format!("`{shown}` is not a time in UTC such as 2026-03-26T01:32:20Z")
        })?,
    };
    if messages.is_empty() && std::io::stdin().is_terminal() {
        bail!("nothing to log: standard input is a terminal; pipe lines in, or use -m");
    }
    let root = root_with_state(context)?;
    let log = context
        .store
        .documents()
        .run_log(&root, started, context.write_options())?;
    let mut lines = 0;
    for message in messages {
        lines += log.write(message)?;
    }
    if messages.is_empty() {
        lines = append_stdin(&log)?;
    }
    if context.json {
        context.out.json(&LoggedJson {
            run: log.run_name(),
            file: log.path(),
            lines,
        })?;
    } else {
        context.out.line(paint(ID, log.run_name()))?;
        context
            .out
            .line(paint(DIM, &log.path().display().to_string()))?;
    }
    Ok(Outcome::Ok)
}

/// Appends each line of standard input as it arrives.
fn append_stdin(log: &RunLog) -> Result<usize> {
    const MAX_LEN: u64 = 1 << 20;
    let mut stdin = std::io::stdin().lock();
    let mut line = Vec::new();
    let mut lines = 0;
    loop {
        line.clear();
        let limited = &mut (&mut stdin).take(MAX_LEN);
        let read = limited.read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(lines);
        }
        if line.len() as u64 == MAX_LEN && !line.ends_with(b"\n") {
            bail!(
                "standard input, line {}: longer than 1 MB; the lines before it are in {}",
                lines + 1,
                log.path().display()
            );
        }
        lines += log.write(&line)?;
    }
}

/// Returns the only root that has state documents and run logs.
fn root_with_state(context: &Context) -> Result<Root> {
    let roots = context.store.roots().iter();
    let fitting: Vec<&Root> = roots
        .filter(|root| !root.layout.run_logs(Timestamp::UNIX_EPOCH).is_empty())
        .collect();
    match fitting.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            bail!("no root has state documents and run logs; name one with --root clog:PATH")
        }
        many => {
            let paths: Vec<String> = many
                .iter()
                .map(|root| root.path.display().to_string())
                .collect();
            bail!(
                "several roots have state documents and run logs; name one with --root: {}",
                paths.join(", ")
            )
        }
    }
}

fn table(documents: &[RootDocument], context: &Context) -> String {
    let mut table = Table::new([
        Column::new("DOCUMENT").style(BOLD).min(16),
        Column::new("KIND"),
        Column::new("LAYOUT").style(DIM).priority(30),
        Column::new("SIZE").right().priority(40),
        Column::new("UPDATED").style(DIM),
    ]);
    for document in documents {
        let updated = document.updated().map(|time| context.clock.ago(time));
        table.row([
            Cell::new(document.name()),
            Cell::new(kind_name(document.file.artifact.kind)),
            Cell::new(document.root.layout.name()),
            Cell::new(size::bytes(document.file.id.len)),
            Cell::new(updated.unwrap_or_default()),
        ]);
    }
    table.render(context.out.width())
}

/// Returns the JSON name of a kind.
fn kind_name(kind: ArtifactKind) -> String {
    let name = serde_json::to_value(kind).ok();
    let name = name.as_ref().and_then(|name| name.as_str());
    name.unwrap_or("document").to_owned()
}

fn find_document<'a>(
    documents: &'a [RootDocument],
    wanted: &str,
) -> annals::Result<&'a RootDocument> {
    let all = |fits: fn(&str, &str) -> bool| -> Vec<&RootDocument> {
        let fitting = documents.iter();
        fitting
            .filter(|document| document.matches(wanted, fits))
            .collect()
    };
    let mut found = all(|name, wanted| name == wanted);
    if found.is_empty() && !wanted.is_empty() {
        found = all(|name, wanted| name.starts_with(wanted));
    }
    match found.as_slice() {
        [] => Err(annals::Error::NotFound {
            what: Subject::Document,
            id: wanted.to_owned(),
        }),
        [only] => Ok(only),
        many => {
            let paths = many
                .iter()
                .map(|found| found.file.path.display().to_string());
            Err(annals::Error::Ambiguous {
                what: Subject::Document,
                id: wanted.to_owned(),
                candidates: paths.collect(),
            })
        }
    }
}

fn print_document(document: &RootDocument, context: &mut Context) -> Result<()> {
    let path = &document.file.path;
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    if !context.json && !is_json {
        // Line by line, because a run log need not fit into memory.
        let mut lines: Box<dyn BufRead> = match document.file.is_archived() {
            true => Box::new(std::io::Cursor::new(document.file.read()?)),
            false => {
                let opened = OpenLog::open(path);
                let opened = opened.map_err(|error| annals::Error::io("read", path, error))?;
                Box::new(BufReader::new(RangeReader::from_offset(opened, 0)))
            }
        };
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).context("reading")? > 0 {
            context
                .out
                .text(safe_block(&String::from_utf8_lossy(&line)))?;
            line.clear();
        }
        return Ok(());
    }
    let bytes = document.file.read()?;
    let text = String::from_utf8_lossy(&bytes);
    let content = RawValue::from_string(text.trim().to_owned()).ok();
    let content = content.filter(|_| is_json);
    match content {
        content if context.json => {
            let text = content.is_none().then(|| text.into_owned());
            let row = DocumentJson {
                content,
                text,
                ..document.to_json()
            };
            context.out.json(&DocumentsJson {
                documents: vec![row],
                total: 1,
            })?;
        }
        Some(content) => {
            let pretty = RawValue::from_string(json::indent(content.get()))?;
            context.out.json(&pretty)?;
        }
        // Invalid JSON is printed unchanged.
        None => {
            context.out.text(safe_block(&text))?;
            if !text.ends_with('\n') {
                context.out.blank()?;
            }
        }
    }
    Ok(())
}
