//! `annals index`

use std::path::{Path, PathBuf};

use annals::index::{IndexFile, IndexFileKind, PartStatus, RootStatus};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::Outcome;
use crate::command_errors::StateDirError;
use crate::context::Context;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, PATH, SUCCESS, WARNING, paint};
use annals_render::table::{Cell, Column, Table};

/// Shows, updates or deletes the index.
#[derive(Debug, Args)]
#[command(after_help = "\
The index in annals' state directory stores what was read from logs, so that only changes are read. \
Every command updates it, and gives the same answers without it: it can be deleted at \
any time, at the cost of reading the logs again.

Examples:
  annals index status          what is indexed, and how much of it is current
  annals index build           read new and changed logs
  annals index drop            delete the index
  annals --no-index sessions   read the logs only")]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Verb {
    /// Show what is indexed, and how much of it is current
    Status,
    /// Read what is new or changed; safe to interrupt
    Build,
    /// Delete the index and build it again
    Rebuild,
    /// Delete the index, and those of other versions or set aside
    Drop,
}

#[derive(Serialize)]
struct IndexJson<'a> {
    path: PathBuf,
    exists: bool,
    version: Option<u32>,
    bytes: u64,
    roots: Vec<RootJson<'a>>,
    others: Vec<IndexFileJson<'a>>,
}

#[derive(Serialize)]
struct RootJson<'a> {
    layout: &'a str,
    path: &'a Path,
    files: usize,
    sessions: usize,
    bytes: u64,
    parts: Vec<PartJson>,
}

#[derive(Serialize)]
struct PartJson {
    name: &'static str,
    current: usize,
    stale: usize,
    missing: usize,
    total: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct IndexFileJson<'a> {
    path: &'a Path,
    bytes: u64,
    kind: &'static str,
}

#[derive(Serialize)]
struct Dropped<'a> {
    dropped: Vec<IndexFileJson<'a>>,
    bytes: u64,
}

pub(crate) fn run(args: &IndexArgs, context: &mut Context) -> Result<Outcome> {
    let verb = args.verb.unwrap_or(Verb::Status);
    if context.no_index && matches!(verb, Verb::Build | Verb::Rebuild) {
        bail!("building the index does not work with --no-index");
    }
    match verb {
        Verb::Status => status(context),
        Verb::Build => build(context),
        Verb::Rebuild => {
            context.store.index()?.delete().context(StateDirError)?;
            build(context)
        }
        Verb::Drop => drop_all(context),
    }
}

fn build(context: &mut Context) -> Result<Outcome> {
    let inventory = context.inventory();
    context.update_index(&inventory).context(StateDirError)?;
    status(context)
}

fn status(context: &mut Context) -> Result<Outcome> {
    let status = match context.store.index()?.exists().context(StateDirError)? {
        false => None,
        true => {
            let inventory = context.inventory();
            let index = context.store.index()?;
            index.status(&inventory).context(StateDirError)?
        }
    };
    let index = context.store.index()?;
    let path = index.path();
    // Opening the index may have set an unusable one aside.
    let files = index.files().context(StateDirError)?;
    let (own, others): (Vec<&IndexFile>, Vec<&IndexFile>) = files
        .iter()
        .partition(|file| file.kind == IndexFileKind::Own);
    let roots = status.as_ref().map(|status| &status.roots[..]);
    let roots = roots.unwrap_or_default();
    let bytes = own.iter().map(|file| file.bytes).sum();
    let version = status.as_ref().map(|status| status.version);
    if context.json {
        let document = IndexJson {
            path,
            exists: status.is_some(),
            version,
            bytes,
            roots: roots.iter().map(RootJson::new).collect(),
            others: others.into_iter().map(IndexFileJson::new).collect(),
        };
        context.out.json(&document)?;
    } else {
        let path = path.display().to_string();
        match version {
            None => {
                context.out.line(format_args!(
                    "There is no index yet at {}.",
                    paint(PATH, &path)
                ))?;
                context.out.blank()?;
                context
                    .out
                    .line("  annals sessions             any list command builds it")?;
                context
                    .out
                    .line("  annals index build          builds it now")?;
            }
            Some(version) => {
                context.out.line(format_args!(
                    "{}  {}, version {version}",
                    paint(PATH, &path),
                    size::bytes(bytes)
                ))?;
                for root in roots {
                    print_root(context, root)?;
                }
            }
        }
        if !others.is_empty() {
            context.out.blank()?;
        }
        for file in others {
            let what = match file.kind {
                IndexFileKind::SetAside => "set aside, because it could not be used",
                _ => "of another version",
            };
            let text = format!("{}, {what}", size::bytes(file.bytes));
            let path = file.path.display().to_string();
            context.out.line(format_args!(
                "{}  {}",
                paint(PATH, &path),
                paint(DIM, &text)
            ))?;
        }
    }
    Ok(match version {
        Some(_) => Outcome::Ok,
        None => Outcome::NotFound,
    })
}

fn print_root(context: &mut Context, root: &RootStatus) -> Result<()> {
    context.out.blank()?;
    let path = root.path.display().to_string();
    context.out.line(format_args!(
        "{}  {}  {}, {}, {}",
        paint(BOLD, root.layout),
        paint(PATH, &path),
        pluralize(root.files as u64, "log"),
        pluralize(root.sessions as u64, "session"),
        size::bytes(root.bytes)
    ))?;
    let mut table = Table::new([
        Column::new("PART"),
        Column::new("CURRENT").right(),
        Column::new("CHANGED").right(),
        Column::new("UNREAD").right(),
        Column::new("LOGS COVERED").right(),
    ]);
    for part in &root.parts {
        let count = |count: usize| size::count(count as u64);
        let behind = |behind: usize| match behind {
            0 => Cell::new("0"),
            _ => Cell::styled(count(behind), WARNING),
        };
        let all = part.current == part.total;
        let current = count(part.current);
        table.row([
            Cell::new(part.name),
            if all {
                Cell::styled(current, SUCCESS)
            } else {
                Cell::new(current)
            },
            behind(part.stale),
            behind(part.missing()),
            Cell::new(size::bytes(part.bytes)),
        ]);
    }
    let table = table.render(context.out.width());
    Ok(context.out.text(table)?)
}

fn drop_all(context: &mut Context) -> Result<Outcome> {
    let state = context.state_dir().to_owned();
    let dropped = context.store.index()?.delete().context(StateDirError)?;
    let bytes = dropped.iter().map(|file| file.bytes).sum();
    if context.json {
        let dropped = dropped.iter().map(IndexFileJson::new).collect();
        context.out.json(&Dropped { dropped, bytes })?;
    } else if dropped.is_empty() {
        let path = state.display().to_string();
        context
            .out
            .line(format_args!("There is no index in {}.", paint(PATH, &path)))?;
    } else {
        for file in &dropped {
            let path = file.path.display().to_string();
            context.out.line(format_args!(
                "{} {}",
                paint(PATH, &path),
                paint(DIM, &size::bytes(file.bytes))
            ))?;
        }
        let text = format!("{} {}", paint(SUCCESS, "dropped"), size::bytes(bytes));
        context.out.line(text)?;
    }
    Ok(Outcome::Ok)
}

impl<'a> RootJson<'a> {
    fn new(root: &'a RootStatus) -> Self {
        RootJson {
            layout: root.layout,
            path: &root.path,
            files: root.files,
            sessions: root.sessions,
            bytes: root.bytes,
            parts: root.parts.iter().map(PartJson::new).collect(),
        }
    }
}

impl PartJson {
    fn new(part: &PartStatus) -> Self {
        PartJson {
            name: part.name,
            current: part.current,
            stale: part.stale,
            missing: part.missing(),
            total: part.total,
            bytes: part.bytes,
        }
    }
}

impl<'a> IndexFileJson<'a> {
    fn new(file: &'a IndexFile) -> Self {
        IndexFileJson {
            path: &file.path,
            bytes: file.bytes,
            kind: match file.kind {
                IndexFileKind::Own => "own",
                IndexFileKind::OtherVersion => "other-version",
                IndexFileKind::SetAside => "set-aside",
                _ => "unknown",
            },
        }
    }
}
