//! `annals files`

use std::path::{Path, PathBuf};

use annals::Subject;
use annals::jsonl;
use annals::model::ArtifactKind;
use annals::store::{NewSavedVersion, RootFile, SavedFile, SavedVersion, Session, SessionFiles};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::page::Page;
use super::{Outcome, choose};
use crate::context::Context;
use annals::view::{SavedFileJson, ShortIds};
use annals_render::command::quoted_command;
use annals_render::diff;
use annals_render::message::plain_text;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, DIM, ID, PATH, SUCCESS, TIME, WARNING, paint};
use annals_render::table::{Cell, Column, Table};

/// Lists the files that a session changed, and restores earlier versions.
#[derive(Debug, Args)]
#[command(after_help = "\
A version is the file as it was before the agent changed it. Without --version, the newest is meant.

Examples:
  annals files 8c549c46                             the files and their versions
  annals files 8c549c46 src/main.rs > main.rs.old   print the newest version
  annals files 8c549c46 src/main.rs --restore /tmp  write it to /tmp/main.rs
  annals files 8c549c46 src/main.rs --diff          compare it with the file now
  annals files 8c549c46 src/main.rs --diff 1 3      compare two versions
  annals files 8c549c46 --save src/main.rs          save the current file
  annals files 8c549c46 --outputs                   long outputs of tools")]
pub(crate) struct FilesArgs {
    /// The session
    session: Option<String>,
    /// The file: its path, or the end of it
    path: Option<String>,
    /// Version to use
    #[arg(long, value_name = "N", conflicts_with = "diff")]
    version: Option<u64>,
    /// Write the version to this file or directory
    #[arg(long, value_name = "DEST", requires = "path", conflicts_with = "diff")]
    restore: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "restore")]
    force: bool,
    /// Compare version N with version M, or with the current file
    #[arg(long, value_names = ["N", "M"], num_args = 0..=2, value_parser = clap::value_parser!(u64))]
    diff: Option<Vec<u64>>,
    /// List tool outputs that were too long for the log, instead of files
    #[arg(long, conflicts_with_all = ["version", "diff"])]
    outputs: bool,
    /// Save these files as they are now, as versions that belong to the last message
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["path", "version", "restore", "diff", "outputs"]
    )]
    save: Vec<PathBuf>,
    #[command(flatten)]
    page: Page,
}

/// The saved files as JSON.
#[derive(Serialize)]
struct SaveJson<'a> {
    session: &'a str,
    saved: Vec<SavedJson<'a>>,
}

#[derive(Serialize)]
struct SavedJson<'a> {
    path: &'a Path,
    version: u64,
    stored: Option<&'a Path>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct FilesJson<'a> {
    session: &'a str,
    files: Vec<SavedFileJson<'a>>,
    /// Number of files before `-n` and `--offset`.
    total: usize,
}

#[derive(Serialize)]
struct OutputsJson<'a> {
    session: &'a str,
    outputs: Vec<OutputJson<'a>>,
}

#[derive(Serialize)]
struct OutputJson<'a> {
    name: &'a str,
    file: &'a Path,
    bytes: u64,
}

#[derive(Serialize)]
struct RestoredJson<'a> {
    session: &'a str,
    path: &'a str,
    version: Option<u64>,
    restored: &'a Path,
    bytes: usize,
}

pub(crate) fn run(args: &FilesArgs, context: &mut Context) -> Result<Outcome> {
    let name = choose::session(args.session.as_deref(), context)?;
    if !args.save.is_empty() {
        let files = context.find_session(&name)?;
        return save_files(&files, &args.save, context);
    }
    let session = Session::read(context.find_session_to_read(&name)?)?;
    if args.outputs {
        return list_outputs(args, &session, context);
    }
    let saved = session.saved_files()?;
    let Some(wanted) = &args.path else {
        if let Some(numbers) = &args.diff {
            return print_diff(single_file(&saved)?, numbers, context);
        }
        if args.version.is_some() {
            let files = quoted_command("annals files", session.files.id.as_str(), "");
            bail!("no file given; {files} lists them");
        }
        let mut saved = saved;
        let total = args.page.apply(&mut saved);
        return list_files(&saved, total, &session, context);
    };
    let file = find_file(&saved, wanted)?;
    if let Some(numbers) = &args.diff {
        return print_diff(file, numbers, context);
    }
    let version = choose_version(file, args.version)?;
    let bytes = version_content(file, version)?;
    if let Some(dest) = &args.restore {
        let name = Path::new(&file.path).file_name().unwrap_or_default();
        let dest = write_restored(dest, Path::new(name), &bytes, args.force)?;
        return print_restored(
            context,
            &session,
            &file.path,
            Some(version.version),
            &dest,
            bytes.len(),
        );
    }
    if context.json {
        let rows = vec![SavedFileJson::new(&file.path, [version])];
        context.out.json(&FilesJson {
            session: session.files.id.as_str(),
            files: rows,
            total: 1,
        })?;
        return Ok(Outcome::Ok);
    }
    print_bytes(&bytes, context)?;
    Ok(Outcome::Ok)
}

/// Saves files as they are now.
fn save_files(files: &SessionFiles, paths: &[PathBuf], context: &mut Context) -> Result<Outcome> {
    // Links in the directory are resolved, as agents do. The file itself may be a link, which is
    // refused.
    let real = |path: &PathBuf| {
        let path = std::path::absolute(path).ok()?;
        let parent = path.parent()?.canonicalize().ok()?;
        Some(parent.join(path.file_name()?))
    };
    let paths: Vec<PathBuf> = paths
        .iter()
        .map(|path| real(path).unwrap_or_else(|| path.clone()))
        .collect();
    let saved = context
        .store
        .documents()
        .save_files(files, &paths, context.write_options())?;
    if context.json {
        let row = |saved| {
            let NewSavedVersion {
                path,
                version,
                stored,
                ..
            }: &NewSavedVersion = saved;
            SavedJson {
                path,
                version: *version,
                stored: stored.as_deref(),
            }
        };
        context.out.json(&SaveJson {
            session: files.id.as_str(),
            saved: saved.iter().map(row).collect(),
        })?;
        return Ok(Outcome::Ok);
    }
    for saved in &saved {
        let path = saved.path.display().to_string();
        let what = match saved.stored {
            Some(_) => "saved as version",
            None => "does not exist, recorded as version",
        };
        context.out.line(format_args!(
            "{} {what} {}",
            paint(PATH, &path),
            saved.version
        ))?;
    }
    Ok(Outcome::Ok)
}

fn list_files(
    saved: &[SavedFile],
    total: usize,
    session: &Session,
    context: &mut Context,
) -> Result<Outcome> {
    if context.json {
        let files = saved
            .iter()
            .map(|file| SavedFileJson::new(&file.path, &file.versions));
        let document = FilesJson {
            session: session.files.id.as_str(),
            files: files.collect(),
            total,
        };
        context.out.json(&document)?;
    } else if saved.is_empty() {
        context.out.line("The session saved no files.")?;
    }
    let messages = saved
        .iter()
        .flat_map(|file| &file.versions)
        .filter_map(|version| version.message.as_deref());
    let short = ShortIds::for_messages(messages);
    for (at, file) in saved.iter().enumerate().filter(|_| !context.json) {
        if at > 0 {
            context.out.blank()?;
        }
        context.out.line(paint(PATH, &file.path))?;
        let mut table = Table::new([
            Column::new("VERSION").right(),
            Column::new("SAVED").style(TIME),
            Column::new("SIZE").right(),
            Column::new("BEFORE MESSAGE").style(ID),
            Column::new("").style(DIM),
        ]);
        for version in &file.versions {
            let remark = match version.state() {
                "absent" => Cell::new("did not exist yet"),
                "named" => Cell::new(version.operation.as_deref().unwrap_or_default()),
                "missing" => Cell::styled("copy missing", WARNING),
                _ => Cell::new(""),
            };
            table.row([
                Cell::new(version.version.to_string()),
                Cell::new(
                    version
                        .time
                        .map(|time| context.clock.full(time))
                        .unwrap_or_default(),
                ),
                Cell::new(version.bytes.map(size::bytes).unwrap_or_default()),
                Cell::new(version.message.as_deref().map_or("", |id| short.get(id))),
                remark,
            ]);
        }
        let table = table.render(context.out.width());
        context.out.text(table)?;
    }
    Ok(if saved.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

/// Finds a file by its whole path, or by the end of it.
fn find_file<'a>(saved: &'a [SavedFile], wanted: &str) -> Result<&'a SavedFile> {
    let absolute = std::path::absolute(wanted).ok();
    let exact = |file: &&SavedFile| {
        file.path == wanted
            || absolute
                .as_deref()
                .is_some_and(|path| Path::new(&file.path) == path)
    };
    if let Some(file) = saved.iter().find(exact) {
        return Ok(file);
    }
    let ends = |file: &&SavedFile| !wanted.is_empty() && Path::new(&file.path).ends_with(wanted);
    let found: Vec<&SavedFile> = saved.iter().filter(ends).collect();
    match found.as_slice() {
        [] => Err(annals::Error::NotFound {
            what: Subject::SavedFile,
            id: wanted.to_owned(),
        }
        .into()),
        [only] => Ok(only),
        many => {
            let candidates = many.iter().map(|file| file.path.clone()).collect();
            Err(annals::Error::Ambiguous {
                what: Subject::SavedFile,
                id: wanted.to_owned(),
                candidates,
            }
            .into())
        }
    }
}

fn single_file(saved: &[SavedFile]) -> Result<&SavedFile> {
    match saved {
        [] => bail!("the session saved no files"),
        [only] => Ok(only),
        many => bail!(
            "the session saved {}; name one before --diff",
            pluralize(many.len() as u64, "file")
        ),
    }
}

/// Returns a version by its number; without one, the newest that has a copy, else the newest.
fn choose_version(file: &SavedFile, number: Option<u64>) -> Result<&SavedVersion> {
    let versions = &file.versions;
    let found = match number {
        Some(number) => versions.iter().find(|version| version.version == number),
        None => versions
            .iter()
            .rev()
            .find(|version| version.stored.is_some())
            .or_else(|| versions.last()),
    };
    found.ok_or_else(|| {
        let numbers: Vec<String> = versions
            .iter()
            .map(|version| version.version.to_string())
            .collect();
        let number = number.unwrap_or_default();
        anyhow::anyhow!(
            "{} has no version {number}; it has {}",
            file.path,
            numbers.join(", ")
        )
    })
}

fn version_content(file: &SavedFile, version: &SavedVersion) -> Result<Vec<u8>> {
    let (path, number) = (&file.path, version.version);
    match version.state() {
        "absent" => bail!("{path} did not exist at version {number}"),
        "named" => {
            bail!("version {number} of {path} has no content: the log records only the operation")
        }
        "missing" => {
            bail!(
                "the copy of version {number} of {path} no longer exists; its agent deletes old copies"
            )
        }
        _ => Ok(version.read()?),
    }
}

fn print_diff(file: &SavedFile, numbers: &[u64], context: &mut Context) -> Result<Outcome> {
    let side = |version: &SavedVersion| match version.absent {
        true => Ok(Vec::new()),
        false => version_content(file, version),
    };
    let old = side(choose_version(file, numbers.first().copied())?)?;
    let new = match numbers.get(1) {
        Some(number) => side(choose_version(file, Some(*number))?)?,
        None => read_current(Path::new(&file.path))?,
    };
    let shown = file.path.trim_start_matches('/');
    let text = diff::unified(shown, &old, &new, context.out.width());
    if context.json {
        let text = diff::unified(shown, &old, &new, None);
        let plain = anstream::adapter::strip_str(&text).to_string();
        context
            .out
            .json(&serde_json::json!({ "path": file.path, "equal": old == new, "diff": plain }))?;
    } else if old == new {
        context.out.line(paint(DIM, "no difference"))?;
    } else {
        context.out.text(text)?;
    }
    Ok(Outcome::Ok)
}

/// Reads the current file; a missing file is empty. Only regular files are read.
fn read_current(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| annals::Error::io("read", path, error);
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error).into()),
        Ok(metadata) if !metadata.is_file() => bail!("{} is not a regular file", path.display()),
        Ok(_) => Ok(std::fs::read(path).map_err(failed)?),
    }
}

/// Writes `bytes` atomically to `dest`, or to `name` in it if it is a directory.
fn write_restored(dest: &Path, name: &Path, bytes: &[u8], force: bool) -> Result<PathBuf> {
    let dest = if dest.is_dir() {
        dest.join(name)
    } else {
        dest.to_owned()
    };
    match std::fs::symlink_metadata(&dest) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            jsonl::create_new(&dest, bytes)?
        }
        Err(error) => return Err(annals::Error::io("write", &dest, error).into()),
        Ok(metadata) if metadata.file_type().is_symlink() => {
            bail!(
                "{} is a symbolic link, which is not followed; name another file",
                dest.display()
            )
        }
        Ok(metadata) if !metadata.is_file() => bail!("{} is not a regular file", dest.display()),
        Ok(_) if !force => bail!("{} exists; add --force to overwrite it", dest.display()),
        Ok(_) => jsonl::replace(&dest, bytes, None)?,
    }
    Ok(dest)
}

fn print_restored(
    context: &mut Context,
    session: &Session,
    path: &str,
    version: Option<u64>,
    restored: &Path,
    bytes: usize,
) -> Result<Outcome> {
    if context.json {
        let session = session.files.id.as_str();
        context.out.json(&RestoredJson {
            session,
            path,
            version,
            restored,
            bytes,
        })?;
    } else {
        let what = version.map_or_else(String::new, |version| format!("version {version} of "));
        context.out.line(format_args!(
            "{} {what}{} written to {}",
            paint(SUCCESS, "✓"),
            paint(PATH, path),
            paint(PATH, &restored.display().to_string())
        ))?;
    }
    Ok(Outcome::Ok)
}

/// Prints bytes: unchanged to a pipe, without control sequences to a terminal.
fn print_bytes(bytes: &[u8], context: &mut Context) -> Result<()> {
    if context.out.is_terminal() {
        let text = plain_text(&String::from_utf8_lossy(bytes), None);
        context.out.text(text)?;
    } else {
        context.out.raw(bytes)?;
    }
    Ok(())
}

fn list_outputs(args: &FilesArgs, session: &Session, context: &mut Context) -> Result<Outcome> {
    let beside = session.files.attachments.iter();
    let outputs: Vec<&RootFile> = beside
        .filter(|file| file.artifact.kind == ArtifactKind::ToolResult)
        .collect();
    let name = |file: &RootFile| file.artifact.name.clone().unwrap_or_default();
    if let Some(wanted) = &args.path {
        let fits =
            |file: &&&RootFile| !wanted.is_empty() && name(file).starts_with(wanted.as_str());
        let found: Vec<&&RootFile> = outputs.iter().filter(fits).collect();
        let exact = found.iter().find(|file| name(file) == *wanted).copied();
        let file = match (exact, found.as_slice()) {
            (Some(file), _) => file,
            (None, [file]) => *file,
            (None, []) => {
                return Err(annals::Error::NotFound {
                    what: Subject::ToolOutput,
                    id: wanted.clone(),
                }
                .into());
            }
            (None, many) => {
                let candidates = many.iter().map(|file| name(file)).collect();
                return Err(annals::Error::Ambiguous {
                    what: Subject::ToolOutput,
                    id: wanted.clone(),
                    candidates,
                }
                .into());
            }
        };
        let bytes = file.read()?;
        if let Some(dest) = &args.restore {
            let dest = write_restored(dest, Path::new(&name(file)), &bytes, args.force)?;
            return print_restored(context, session, &name(file), None, &dest, bytes.len());
        }
        if !context.json {
            print_bytes(&bytes, context)?;
            return Ok(Outcome::Ok);
        }
    }
    if context.json {
        let rows = outputs.iter().map(|file| OutputJson {
            name: file.artifact.name.as_deref().unwrap_or_default(),
            file: &file.path,
            bytes: file.id.len,
        });
        let document = OutputsJson {
            session: session.files.id.as_str(),
            outputs: rows.collect(),
        };
        context.out.json(&document)?;
    } else if outputs.is_empty() {
        context
            .out
            .line("The session has no separate tool outputs.")?;
    } else {
        let mut table = Table::new([
            Column::new("OUTPUT").style(BOLD),
            Column::new("SIZE").right(),
            Column::new("SAVED").style(TIME),
            Column::new("FILE").min(12).cut_middle().style(PATH),
        ]);
        for file in &outputs {
            let time = Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok();
            table.row([
                Cell::new(name(file)),
                Cell::new(size::bytes(file.id.len)),
                Cell::new(
                    time.map(|time| context.clock.full(time))
                        .unwrap_or_default(),
                ),
                Cell::new(file.path.display().to_string()),
            ]);
        }
        let table = table.render(context.out.width());
        context.out.text(table)?;
    }
    Ok(if outputs.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}
