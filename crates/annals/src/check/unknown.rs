//! Reports files of a root that no layout of that root knows.
//!
//! They are never read, so a log under an unexpected name would go unnoticed. In directories that a
//! layout enters, each such file is reported. Any other directory is reported as a whole, unless a
//! layout expects it. Symbolic links that are not followed, files that are not regular, and files that
//! a removal renamed are reported for the same reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::store::{Inventory, ReadFailures, list_of_damaged_copy};
use annals_jsonl::open_to_read;
use annals_jsonl::removal_name::RemovalName;
use annals_layouts::layout::{LAYOUTS, Layout};
use annals_layouts::model::{Artifact, ArtifactKind, FlawKind, SessionId};

use super::{FileReport, pluralize, whole_file};

/// Maximum number of files reported by name per root; the rest are only counted.
const NAMED: usize = 100;

const NOT_REGULAR: &str = "not a regular file; annals does not read it";

/// Maximum number of files counted in a directory that no layout enters.
const COUNTED: usize = 10_000;

/// Reports the files of all roots that no layout of their root knows.
pub(super) fn check(inventory: &Inventory) -> Vec<FileReport> {
    // One directory may be a root of several layouts.
    let mut roots: BTreeMap<&Path, Vec<&'static dyn Layout>> = BTreeMap::new();
    let mut failures = ReadFailures::default();
    for root in &inventory.roots {
        if root.layout.root_is_file() {
            continue;
        }
        roots.entry(&root.path).or_default().push(root.layout);
        failures = root.failures.clone();
    }
    let no_files = inventory.errors.iter().filter(|it| it.is_no_file());
    let no_files: BTreeSet<&Path> = no_files.filter_map(Error::path).collect();
    let mut reports = Vec::new();
    for (root, layouts) in roots {
        let mut files = unknown_files(root, &layouts, &failures);
        files.retain(|path, _| !no_files.contains(path.as_path()));
        for (path, unknown) in files.iter().take(NAMED) {
            let detail = match unknown.files {
                1 => detail(root, path, &layouts, &failures),
                _ => unknown.detail(root, path),
            };
            let flaw = whole_file(unknown.kind(), detail);
            reports.push(FileReport::with_flaw(path, flaw));
        }
        let rest: Vec<&Unknown> = files.values().skip(NAMED).collect();
        if let Some(kind) = rest.iter().map(|unknown| unknown.kind()).min() {
            let more: usize = rest.iter().map(|unknown| unknown.files).sum();
            let detail = format!(
                "{} unknown to the layouts of this root",
                pluralize(more, "more file")
            );
            reports.push(FileReport::with_flaw(root, whole_file(kind, detail)));
        }
    }
    reports.extend(links(inventory));
    reports.extend(not_regular(inventory));
    reports.extend(unfinished_removals(inventory));
    reports
}

/// Reports files with names that a removal gave them.
fn unfinished_removals(inventory: &Inventory) -> Vec<FileReport> {
    let found = inventory.errors.iter().filter_map(|trouble| match trouble {
        Error::UnfinishedRemoval { path, why } => Some((path, why)),
        _ => None,
    });
    // One directory may be a root of several layouts.
    let found: BTreeMap<&PathBuf, &String> = found.collect();
    let about = |(path, why): (&PathBuf, &String)| {
        let kind = FlawKind::UnfinishedRemoval;
        let mut report = FileReport::with_flaw(path, whole_file(kind, why.clone()));
        let name = path.file_name().and_then(RemovalName::parse);
        if !name.is_some_and(RemovalName::is_restorable) {
            report.unrepairable.insert(kind);
        }
        report
    };
    found.into_iter().map(about).collect()
}

/// Reports FIFOs, devices and sockets in place of files that would be read.
fn not_regular(inventory: &Inventory) -> Vec<FileReport> {
    let paths = inventory.errors.iter().filter_map(|trouble| match trouble {
        Error::NotRegular { path } => Some(path),
        _ => None,
    });
    let paths: BTreeSet<&PathBuf> = paths.collect();
    let reports = paths.into_iter().map(|path| {
        let flaw = whole_file(FlawKind::UnknownFile, NOT_REGULAR.to_owned());
        FileReport::with_flaw(path, flaw)
    });
    reports.collect()
}

/// Reports symbolic links that were not followed, and settings that are a symbolic link.
fn links(inventory: &Inventory) -> Vec<FileReport> {
    let mut found: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for trouble in &inventory.errors {
        if let Error::Link { path, target } = trouble {
            found.insert(path.clone(), target.clone());
        }
    }
    for root in &inventory.roots {
        let place = root.layout.path_for(&Artifact::new(ArtifactKind::Settings));
        let path = root.path.join(&place);
        let metadata = match place.as_os_str().is_empty() {
            true => None,
            false => root.failures.metadata(&path),
        };
        if metadata.is_some_and(|found| found.is_symlink())
            && let Some(target) = root.failures.ok_io(&path, fs::read_link(&path))
        {
            found.insert(path, target);
        }
    }
    let about = |(path, target): (&PathBuf, &PathBuf)| {
        let detail = format!("symbolic link to {}; not followed", target.display());
        FileReport::with_flaw(path, whole_file(FlawKind::UnreadLink, detail))
    };
    let mut reports: Vec<FileReport> = found.iter().take(NAMED).map(about).collect();
    if let Some(more @ 1..) = found.len().checked_sub(NAMED)
        && let Some((path, _)) = found.last_key_value()
    {
        let detail = format!("{} not followed", pluralize(more, "more symbolic link"));
        let flaw = whole_file(FlawKind::UnreadLink, detail);
        reports.push(FileReport::with_flaw(path, flaw));
    }
    reports
}

/// A file that no layout knows, or a directory of such files.
struct Unknown {
    /// Number of files.
    files: usize,
    /// There are more files than were counted.
    more: bool,
    /// For a directory with several files: a log by its name, or else any file.
    example: PathBuf,
    /// It may contain a conversation: it is named like a log, or is in a directory of a layout.
    may_be_read: bool,
}

impl Unknown {
    fn file(may_be_read: bool) -> Self {
        Unknown {
            files: 1,
            more: false,
            example: PathBuf::new(),
            may_be_read,
        }
    }

    /// Counts the files of a directory. Returns what to report: the only file, or the directory.
    fn directory(top: PathBuf, failures: &ReadFailures) -> Option<(PathBuf, Self)> {
        let mut unknown = Unknown {
            files: 0,
            ..Unknown::file(false)
        };
        let mut dirs = vec![top.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in failures.read_dir(&dir) {
                let path = entry.path();
                let kind = failures.ok_io(&path, entry.file_type());
                if kind.is_some_and(|kind| kind.is_dir()) {
                    dirs.push(path);
                } else if unknown.files == COUNTED {
                    unknown.more = true;
                    return Some((top, unknown));
                } else if !is_noise(&path, failures) {
                    unknown.files += 1;
                    let first_log = is_log(&path) && !unknown.may_be_read;
                    if first_log || unknown.files == 1 {
                        unknown.may_be_read |= first_log;
                        unknown.example = path;
                    }
                }
            }
        }
        match unknown.files {
            0 => None,
            1 => Some((unknown.example.clone(), unknown)),
            _ => Some((top, unknown)),
        }
    }

    fn kind(&self) -> FlawKind {
        match self.may_be_read {
            true => FlawKind::UnknownFile,
            false => FlawKind::ForeignFile,
        }
    }

    fn detail(&self, root: &Path, dir: &Path) -> String {
        let more = if self.more { "more than " } else { "" };
        let files = pluralize(self.files, "file");
        let example = self.example.strip_prefix(dir).unwrap_or(&self.example);
        let example = example.display();
        if let Some(layout) = layout_of(root, &self.example) {
            let name = layout.name();
            return format!(
                "{more}{files} not read here, such as {example} of layout {name}; `--root {name}:PATH` reads it"
            );
        }
        format!(
            "{more}{files} unknown to every layout, such as {example}; annals neither lists nor archives them"
        )
    }
}

/// Returns the layout that would read a file as a log.
fn layout_of(root: &Path, path: &Path) -> Option<&'static dyn Layout> {
    let relative = path.strip_prefix(root).ok()?;
    let reads = |layout: &&&'static dyn Layout| {
        let artifact = layout.classify(relative);
        artifact.is_some_and(|artifact| artifact.kind.is_log())
    };
    LAYOUTS.iter().find(reads).copied()
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "jsonl")
}

/// Walks the directories that the layouts of a root enter. Does not follow symbolic links, whose
/// targets are outside the root's responsibility.
fn unknown_files(
    top: &Path,
    layouts: &[&'static dyn Layout],
    failures: &ReadFailures,
) -> BTreeMap<PathBuf, Unknown> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![top.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in failures.read_dir(&dir) {
            let path = entry.path();
            let kind = failures.ok_io(&path, entry.file_type());
            let (Ok(relative), Some(kind)) = (path.strip_prefix(top), kind) else {
                continue;
            };
            let is_log = is_log(relative);
            if kind.is_dir() {
                if layouts.iter().any(|layout| layout.may_hold_files(relative)) {
                    dirs.push(path);
                } else if is_unknown(layouts, relative) {
                    found.extend(Unknown::directory(path, failures));
                }
            } else if !kind.is_file() {
                let target = failures.target_metadata(&path);
                if is_log && !target.is_some_and(|it| it.is_file() || it.is_dir()) {
                    found.insert(path, Unknown::file(true));
                }
            } else if (is_unknown(layouts, relative) || is_misplaced(layouts, relative))
                && !is_noise(&path, failures)
            {
                found.insert(path, Unknown::file(is_log || dir != top));
            }
        }
    }
    found
}

fn is_unknown(layouts: &[&'static dyn Layout], relative: &Path) -> bool {
    let is_known = |layout: &&dyn Layout| {
        layout.classify(relative).is_some() || layout.is_program_file(relative)
    };
    !layouts.iter().any(is_known)
}

fn is_session_list(layouts: &[&'static dyn Layout], relative: &Path) -> bool {
    let is_list = |layout: &&dyn Layout| {
        let artifact = layout.classify(relative);
        artifact.is_some_and(|artifact| artifact.kind == ArtifactKind::SessionList)
    };
    layouts.iter().any(is_list)
}

fn is_misplaced(layouts: &[&'static dyn Layout], relative: &Path) -> bool {
    let is_read = |layout: &&dyn Layout| {
        layout.classify(relative).is_some() && !layout.is_misplaced(relative)
    };
    let is_misplaced = |layout: &&dyn Layout| layout.is_misplaced(relative);
    layouts.iter().any(is_misplaced) && !layouts.iter().any(is_read)
}

/// Returns whether a file is a temporary file of annals, a lock, or left by a file manager.
fn is_noise(path: &Path, failures: &ReadFailures) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        (name.starts_with(".annals-") && !name.ends_with(".jsonl"))
            || (name.ends_with(".lock") && !holds_records(path, failures))
            || name == ".DS_Store"
    })
}

/// Returns whether a file begins with a record, as no lock file does.
fn holds_records(path: &Path, failures: &ReadFailures) -> bool {
    let mut head = Vec::new();
    let read = open_to_read(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head);
    let names_record = ["\"type\"", "\"uuid\"", "\"role\""];
    failures.ok_io(path, read).is_some()
        && head.trim_start().starts_with('{')
        && names_record.iter().any(|name| head.contains(name))
}

/// Returns why the name of a log prevents it from being read, if it does.
fn id_fault(relative: &Path, layouts: &[&'static dyn Layout]) -> Option<&'static str> {
    let stem = relative.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let named = relative.with_file_name("x.jsonl");
    let is_log = |layout: &&dyn Layout| {
        let artifact = layout.classify(&named);
        artifact.is_some_and(|artifact| artifact.kind == ArtifactKind::SessionLog)
    };
    match SessionId::new(stem) {
        Err(annals_layouts::Error::BadId { why, .. }) if layouts.iter().any(is_log) => Some(why),
        _ => None,
    }
}

/// Describes why annals does not read a file, and names the layout that would.
fn detail(
    root: &Path,
    path: &Path,
    layouts: &[&'static dyn Layout],
    failures: &ReadFailures,
) -> String {
    match failures.target_metadata(path) {
        None => return "symbolic link whose target cannot be read".to_owned(),
        Some(it) if !it.is_file() => {
            return NOT_REGULAR.to_owned();
        }
        Some(_) => {}
    }
    let relative = path.strip_prefix(root).unwrap_or(path);
    if is_misplaced(layouts, relative) {
        return "its program writes no such file here; annals keeps it with its session but does not read it".to_owned();
    }
    let list = list_of_damaged_copy(relative);
    if let Some(list) = list.filter(|list| is_session_list(layouts, list)) {
        let name = list.file_name().unwrap_or_default().display();
        return format!(
            "original of a damaged {name} that annals rebuilt; \
             add what {name} lacks from it, then remove it"
        );
    }
    if let Some(why) = id_fault(relative, layouts) {
        return format!("invalid session name: {why}; rename the file to read it");
    }
    match layout_of(root, path) {
        Some(layout) => format!(
            "file of layout {name}, which is not read here; `--root {name}:PATH` reads it",
            name = layout.name(),
        ),
        None => "unknown to every layout; annals neither lists nor archives it".to_owned(),
    }
}
