//! `annals import`

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use annals::convert::{ExportSource, ImportOptions, Imported, Importer};
use annals::store::Root;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::context::Context;
use annals_render::size::pluralize;
use annals_render::style::{DIM, ID, paint};

/// Writes exported sessions into a root.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads JSON or JSON lines written by `annals export`. Everything is read and checked before \
the first session is written, and an existing session is never changed. Ids, times \
and branches are kept; in the layout of the export, so are all records, byte for byte. What another layout \
does not support is left out and reported. An interrupted import can be run again: sessions that it \
has imported stay as they are.

To look into an export without importing it, name it as a root: --root export-file:FILE.

Examples:
  annals import all.jsonl
  annals import all.jsonl --into claude-code:/tmp/copy
  annals export 8c549c46 --format jsonl | annals import - --fresh-ids")]
pub(crate) struct ImportArgs {
    /// The file; `-` is standard input
    file: PathBuf,
    /// The root to write to [default: the first one that can be written]
    #[arg(long, value_name = "[LAYOUT:]ROOT")]
    into: Option<String>,
    /// Give every session a fresh id
    #[arg(long)]
    fresh_ids: bool,
}

#[derive(Serialize)]
struct ImportJson<'a> {
    sessions: Vec<ImportedJson<'a>>,
    entries: u64,
    left_out: BTreeMap<&'a str, u64>,
}

#[derive(Serialize)]
struct ImportedJson<'a> {
    from: &'a str,
    session: &'a str,
    file: &'a Path,
    entries: u64,
    agents: u64,
    left_out: &'a BTreeMap<String, u64>,
    /// Todo lists that existed already and were left unchanged.
    #[serde(skip_serializing_if = "<[PathBuf]>::is_empty")]
    existing: &'a [PathBuf],
    /// True if an earlier, interrupted run imported the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already: bool,
    /// True if what such a run had written stays, and the rest was appended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    continued: bool,
}

pub(crate) fn run(args: &ImportArgs, context: &mut Context) -> Result<Outcome> {
    let source = open_export(&args.file)?;
    let root = match &args.into {
        Some(text) => target_root(text)?,
        None => context.writable_root()?,
    };
    let contents = source.read_contents().context("nothing was imported")?;
    let options = ImportOptions {
        fresh_ids: args.fresh_ids,
        ..ImportOptions::default()
    };
    context.put_back_removed_in(vec![root.clone()])?;
    let importer = Importer::new(&context.store, root, options)?;
    let imported = match importer.run(&source, &contents) {
        Ok(imported) => imported,
        Err(error) if error.is_refusal() => {
            bail!("{error}; nothing was imported; --fresh-ids gives every session a new id")
        }
        Err(error) => {
            let text = "the import stopped early; run the same command to continue";
            return Err(anyhow::Error::new(error).context(text));
        }
    };
    for problem in &contents.problems {
        let text = format!("the export is incomplete: {}", problem.error);
        context.warn(&annals::Error::refused(text));
    }
    print_report(&imported, context)?;
    Ok(if imported.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn open_export(path: &Path) -> Result<ExportSource> {
    if path != Path::new("-") {
        return Ok(ExportSource::open(path)?);
    }
    let stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        bail!("standard input is a terminal; pipe the sessions in");
    }
    Ok(ExportSource::read(stdin, "standard input")?)
}

fn target_root(text: &str) -> Result<Root> {
    let mut roots = Root::parse(text)?;
    let mut root = match roots.len() {
        1 => roots.remove(0),
        _ => anyhow::bail!("{text} holds several layouts; choose one: LAYOUT:{text}"),
    };
    if let Ok(path) = std::path::absolute(&root.path) {
        root.path = path;
    }
    Ok(root)
}

fn print_report(imported: &[Imported], context: &mut Context) -> Result<()> {
    let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in imported.iter().flat_map(|one| &one.left_out) {
        *left_out.entry(kind.as_str()).or_default() += count;
    }
    let entries = imported.iter().map(|one| one.entries).sum();
    if context.json {
        let rows = imported.iter().map(|one| ImportedJson {
            from: &one.source_id,
            session: one.session.as_str(),
            file: &one.path,
            entries: one.entries,
            agents: one.agents,
            left_out: &one.left_out,
            existing: &one.existing,
            already: one.already_imported,
            continued: one.continued,
        });
        return Ok(context.out.json(&ImportJson {
            sessions: rows.collect(),
            entries,
            left_out,
        })?);
    }
    for one in imported {
        let mut facts = match one.already_imported {
            true => vec!["imported by an earlier run".to_owned()],
            false => vec![pluralize(one.entries, "entry")],
        };
        if one.agents > 0 {
            facts.push(pluralize(one.agents, "sub-agent"));
        }
        if one.continued {
            facts.push("some of them from an earlier run".to_owned());
        }
        context.out.line(format_args!(
            "{}  {}",
            paint(ID, one.session.as_str()),
            paint(DIM, &facts.join(", "))
        ))?;
    }
    for path in imported.iter().flat_map(|one| &one.existing) {
        let text = format!(
            "{} existed already with other todos and was left unchanged",
            path.display()
        );
        context.out.line(paint(DIM, &text))?;
    }
    let sessions = pluralize(imported.len() as u64, "session");
    let entries = pluralize(entries, "entry");
    context.out.line(format_args!("{sessions}, {entries}"))?;
    if !left_out.is_empty() {
        let kinds: Vec<String> = left_out
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let text = format!("left out: {}", kinds.join(", "));
        context.out.line(paint(DIM, &text))?;
    }
    Ok(())
}
