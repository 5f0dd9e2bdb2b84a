//! `annals export`

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use annals::export::{
    Cover, ExportOptions, ExportPart, ExportProblem, Exporter, Format, MaskedSecrets,
};
use annals::jsonl;
use annals::model::FlawCounts;
use annals::store::{FolderHints, Inventory, ReadFailures, Session, SessionFiles, SessionInfo};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::filter::{named, unknown};
use super::output_file::{RawStdout, refuse_existing, refuse_roots, write_file};
use super::{Outcome, choose};
use crate::context::{Access, Context, is_unknown_session, session_spellings};
use crate::terminal::json::EscapingWriter;
use crate::terminal::stderr_line;
use annals_render::severity::flaw_line;
use annals_render::size::{self, pluralize};
use annals_render::style::{DIM, PLAIN, paint};

/// Writes sessions as documents.
#[derive(Debug, Args)]
#[command(after_help = "\
A session is exported with all its branches and sub-agents, SESSION@MESSAGE as one conversation, \
a project with all its sessions. Secrets (keys, tokens, passwords) are masked in Markdown and \
HTML, which people pass on, and kept in JSON, which `annals import` reads back; --redact and \
--no-redact override this.

Examples:
  annals export 8c549c46 | less
  annals export 8c549c46 -o talk.html            one self-contained file
  annals export 8c549c46@1405c20a -o branch.md
  annals export --project my-app -o my-app/      a file for each session
  annals export --project . -o all.jsonl         for `annals import`
  annals export 8c549c46 -o safe.json --redact")]
pub(crate) struct ExportArgs {
    /// SESSION, SESSION@MESSAGE, the path of a log, or a project
    #[arg(
        value_name = "ID|PROJECT",
        allow_hyphen_values = true,
        value_parser = named
    )]
    id: Option<String>,
    /// All sessions of this project: its path, its name, or its id
    #[arg(
        long,
        short,
        value_name = "PROJECT",
        allow_hyphen_values = true,
        conflicts_with = "id"
    )]
    project: Option<String>,
    /// The format [default: by extension of the file after -o, else markdown]
    #[arg(long, short, value_enum)]
    format: Option<FormatArg>,
    /// Write to this file, or into this directory; `-` is standard output
    #[arg(long, short, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Mask secrets
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,
    /// Keep secrets
    #[arg(long, overrides_with = "redact")]
    no_redact: bool,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    #[value(alias = "md")]
    Markdown,
    Html,
    Json,
    Jsonl,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Markdown => Format::Markdown,
            FormatArg::Html => Format::Html,
            FormatArg::Json => Format::Json,
            FormatArg::Jsonl => Format::Jsonl,
        }
    }
}

#[derive(Serialize)]
struct ExportJson<'a> {
    files: &'a [ExportedFile],
    masked: &'a BTreeMap<&'static str, usize>,
}

/// A file that was written.
#[derive(Serialize)]
struct ExportedFile {
    path: PathBuf,
    sessions: usize,
    bytes: u64,
}

/// Sessions to export.
struct ExportSelection {
    sessions: Vec<SessionFiles>,
    /// The message after the `@`.
    message: Option<String>,
    /// Cover page of several sessions.
    cover: Option<Cover>,
}

/// Target of an export.
enum OutputTarget {
    Stdout,
    File(PathBuf),
    /// A file for each session.
    Directory(PathBuf),
}

pub(crate) fn run(args: &ExportArgs, context: &mut Context) -> Result<Outcome> {
    let place = output_target(args.output.as_deref());
    let format = resolve_format(args, &place, context)?;
    if let OutputTarget::File(path) | OutputTarget::Directory(path) = &place {
        refuse_roots(path, context)?;
    }
    let id = match &args.project {
        Some(_) => None,
        None => Some(choose::session(args.id.as_deref(), context)?),
    };
    let inventory = context.inventory();
    let choice = select(id.as_deref(), args, &inventory, context)?;
    let options = ExportOptions::new(format).zone(context.clock.zone.clone());
    let redact = match (args.redact, args.no_redact) {
        (true, _) => true,
        (_, true) => false,
        _ => options.redact,
    };
    let export = SessionExporter {
        options: options.redact(redact),
        problems: context.problems(),
        failures: context.store.failures().clone(),
        folder_hints: FolderHints::new(&inventory.sessions),
        message: choice.message.as_deref(),
        flaws: Cell::default(),
        damaged_sessions: RefCell::default(),
    };
    let mut files = Vec::new();
    let mut masked = MaskedSecrets::default();
    match &place {
        OutputTarget::Stdout => {
            // A pipe gets the text unchanged; a terminal would interpret control sequences.
            let tame = context.out.is_terminal() && matches!(format, Format::Json | Format::Jsonl);
            let mut out = RawStdout(context);
            let mut tamed;
            let out: &mut dyn Write = match tame {
                true => {
                    tamed = EscapingWriter::new(&mut out);
                    &mut tamed
                }
                false => &mut out,
            };
            masked = export.write(&choice.sessions, choice.cover.as_ref(), out)?;
        }
        OutputTarget::File(path) => {
            let write =
                |out: &mut dyn Write| export.write(&choice.sessions, choice.cover.as_ref(), out);
            let (bytes, found) = write_file(path, args.force, write)?;
            masked = found;
            files.push(ExportedFile {
                path: path.clone(),
                sessions: choice.sessions.len(),
                bytes,
            });
        }
        OutputTarget::Directory(dir) => {
            let paths: Vec<PathBuf> = choice
                .sessions
                .iter()
                .map(|files| dir.join(format!("{}.{}", files.id, format.extension())))
                .collect();
            refuse_existing(&paths, args.force)?;
            jsonl::ensure_dir(dir)?;
            for (files_of, path) in choice.sessions.iter().zip(paths) {
                let one = std::slice::from_ref(files_of);
                let write = |out: &mut dyn Write| export.write(one, None, out);
                let (bytes, found) = write_file(&path, args.force, write)?;
                for (rule, count) in found.secrets {
                    *masked.secrets.entry(rule).or_default() += count;
                }
                masked.places += found.places;
                files.push(ExportedFile {
                    path,
                    sessions: 1,
                    bytes,
                });
            }
        }
    }
    print_report(&files, &masked, context)?;
    export.print_flaws();
    Ok(Outcome::Ok)
}

fn output_target(output: Option<&Path>) -> OutputTarget {
    match output {
        None => OutputTarget::Stdout,
        Some(path) if path == Path::new("-") => OutputTarget::Stdout,
        Some(path) if path.is_dir() || ends_in_slash(path) => {
            OutputTarget::Directory(path.to_owned())
        }
        Some(path) => OutputTarget::File(path.to_owned()),
    }
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn resolve_format(args: &ExportArgs, place: &OutputTarget, context: &Context) -> Result<Format> {
    let named = match place {
        OutputTarget::File(path) => Format::from_path(path),
        OutputTarget::Stdout if context.json => Some(Format::Json),
        OutputTarget::Stdout | OutputTarget::Directory(_) => None,
    };
    let given = args.format.map(Format::from).or(named);
    let format = match (given, place) {
        (Some(format), _) => format,
        (None, OutputTarget::File(path)) if path.extension().is_some() => bail!(
            "unknown format of {}; choose one with --format",
            path.display()
        ),
        (None, _) => Format::Markdown,
    };
    if matches!(place, OutputTarget::Stdout)
        && context.out.is_terminal()
        && format != Format::Markdown
    {
        bail!(
            "cannot write {format} to a terminal; use -o NAME.{}, or a pipe",
            format.extension()
        );
    }
    Ok(format)
}

/// Resolves the argument: as the id of a session first, then as a project, then as a title.
fn select(
    id: Option<&str>,
    args: &ExportArgs,
    inventory: &Inventory,
    context: &mut Context,
) -> Result<ExportSelection> {
    let Some(id) = id else {
        let project = args.project.as_deref().unwrap_or_default();
        return require_project(project, inventory, context);
    };
    if Path::new(id).is_dir() || id == "." {
        return require_project(id, inventory, context);
    }
    let target = match context.find_by_id(inventory, id, Access::Read) {
        Err(error) if is_unknown_session(&error) => match find_project(id, inventory, context)? {
            Some(choice) => return Ok(choice),
            None => context.find_by_title(inventory, id, error)?,
        },
        found => found?,
    };
    target.refuse_agent()?;
    Ok(ExportSelection {
        sessions: vec![target.files],
        message: target.message,
        cover: None,
    })
}

/// Returns the sessions of a project; if there are none, an error with similar names.
fn require_project(
    project: &str,
    inventory: &Inventory,
    context: &mut Context,
) -> Result<ExportSelection> {
    match find_project(project, inventory, context)? {
        Some(found) => Ok(found),
        None => {
            let all = context.sessions(inventory);
            let error = unknown(project, all.iter().map(|info| &info.project));
            Err(context.explain_empty_home(inventory, error))
        }
    }
}

/// Returns the sessions of a project, oldest first.
fn find_project(
    project: &str,
    inventory: &Inventory,
    context: &mut Context,
) -> Result<Option<ExportSelection>> {
    let mut found: Vec<SessionInfo> = context.sessions(inventory);
    // The name of an existing directory means that directory, not all projects of the name.
    let is_name = project != "." && !project.starts_with('/');
    let here = Some(Path::new(project)).filter(|path| is_name && path.is_dir());
    let wanted = match here {
        Some(path) => super::input::resolve_directory(Some(path))?
            .display()
            .to_string(),
        None => project.to_owned(),
    };
    let wanted = session_spellings(&wanted, &found);
    found.retain(|info| {
        wanted
            .iter()
            .any(|wanted| info.matches_project_or_earlier(wanted))
    });
    found.reverse();
    let files_of = |info: &SessionInfo| {
        let is_it = |files: &&SessionFiles| {
            files.id == info.id && files.root.path == info.root && files.main_path() == info.file
        };
        inventory.sessions.iter().find(is_it).cloned()
    };
    let (sessions, titles): (Vec<SessionFiles>, Vec<String>) = found
        .iter()
        .filter_map(|info| {
            let title = info.title.as_ref().map(|title| title.text.clone());
            Some((
                files_of(info)?,
                title.unwrap_or_else(|| info.id.to_string()),
            ))
        })
        .unzip();
    let Some(first) = found.first() else {
        return Ok(None);
    };
    let cover = Cover {
        title: first.project.name().to_owned(),
        sessions: titles,
    };
    Ok(Some(ExportSelection {
        cover: Some(cover).filter(|_| sessions.len() > 1),
        sessions,
        message: None,
    }))
}

/// Writes sessions with common options.
struct SessionExporter<'a> {
    options: ExportOptions,
    /// Problems reported before the export began.
    problems: Vec<ExportProblem>,
    /// Collects what cannot be read meanwhile.
    failures: ReadFailures,
    folder_hints: FolderHints<'a>,
    message: Option<&'a str>,
    /// Flaws in the logs of the written sessions: most have no place in the document.
    flaws: Cell<FlawCounts>,
    damaged_sessions: RefCell<Vec<String>>,
}

impl SessionExporter<'_> {
    /// Prints the number of flaws in the logs of the written sessions.
    fn print_flaws(&self) {
        let damaged = self.damaged_sessions.borrow();
        let place = match damaged.as_slice() {
            [only] => format!(" in the logs: annals check {only}"),
            more => format!(" in the logs of {} sessions: annals check", more.len()),
        };
        if let Some(line) = flaw_line(self.flaws.get(), &place) {
            stderr_line!("{line}");
        }
    }

    /// Writes sessions into one document, one in memory at a time.
    fn write(
        &self,
        sessions: &[SessionFiles],
        cover: Option<&Cover>,
        out: &mut dyn Write,
    ) -> annals::Result<MaskedSecrets> {
        let mut exporter = Exporter::begin(self.options.clone(), cover, out)?;
        let mut sessions = sessions.iter();
        let written = sessions.try_for_each(|files| self.write_session(files, &mut exporter));
        // A document on standard output cannot be withdrawn, so it lists the error too.
        let mut problems = self.problems.clone();
        problems.extend(written.as_ref().err().map(ExportProblem::from));
        self.failures.each(|error| problems.push(error.into()));
        problems
            .into_iter()
            .for_each(|problem| exporter.add_problem(problem));
        let masked = exporter.finish();
        written.and(masked)
    }

    fn write_session(
        &self,
        files: &SessionFiles,
        exporter: &mut Exporter<'_>,
    ) -> annals::Result<()> {
        let mut session = Session::read(files.clone())?;
        session.apply_folder_hints(&self.folder_hints);
        let part = match self.message {
            Some(message) => ExportPart::for_message(&session, message)?,
            None => ExportPart::Whole,
        };
        let found: FlawCounts = session.flaws().map(|(_, flaw)| (flaw.kind, 1)).collect();
        if found.worst().is_some() {
            let mut flaws = self.flaws.get();
            flaws.errors += found.errors;
            flaws.warnings += found.warnings;
            self.flaws.set(flaws);
            let damaged = session.files.id.to_string();
            self.damaged_sessions.borrow_mut().push(damaged);
        }
        exporter.session(&session, &part)
    }
}

fn print_report(
    files: &[ExportedFile],
    masked: &MaskedSecrets,
    context: &mut Context,
) -> Result<()> {
    if masked.total() > 0 {
        let rules: Vec<String> = masked
            .secrets
            .iter()
            .map(|(rule, count)| format!("{count} {rule}"))
            .collect();
        let places = match masked.places {
            places if places == masked.total() => String::new(),
            places => format!(" in {}", pluralize(places as u64, "place")),
        };
        let text = format!(
            "masked {}{places}: {}",
            pluralize(masked.total() as u64, "secret"),
            rules.join(", ")
        );
        stderr_line!("{}", paint(PLAIN, &text));
    }
    if files.is_empty() {
        return Ok(());
    }
    if context.json {
        let masked = &masked.secrets;
        return Ok(context.out.json(&ExportJson { files, masked })?);
    }
    for file in files {
        let what = format!(
            "{}, {}",
            pluralize(file.sessions as u64, "session"),
            size::bytes(file.bytes)
        );
        context.out.line(format_args!(
            "{}  {}",
            paint(PLAIN, &file.path.display().to_string()),
            paint(DIM, &what)
        ))?;
    }
    Ok(())
}
