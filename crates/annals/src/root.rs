//! Roots: directories that hold one layout's tree, and export files.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{AppendOptions, Log, OpenLog, RangeReader, is_absence, lock_file};
use annals_layouts::Subject;
use annals_layouts::layout::export_file::names_export;
use annals_layouts::layout::{self, ClaudeCode, Env, ExportFile, LAYOUTS, Layout};
use annals_layouts::model::{Artifact, ArtifactKind};

use crate::read_failures::ReadFailures;

/// Number of bytes in which a first record says what it is.
const FIRST_RECORD: u64 = 4096;

/// What a directory has of a layout.
#[derive(PartialEq, Eq)]
enum Found {
    Log,
    /// A file at the path of a log that does not begin like one.
    Namesake,
    Nothing,
}

/// A directory that holds one layout's tree, or an export file.
#[derive(Clone)]
pub struct Root {
    /// The layout.
    pub layout: &'static dyn Layout,
    /// The directory or file.
    pub path: PathBuf,
    /// Links to directories that readers follow, relative to the root.
    followed_links: Arc<[PathBuf]>,
    /// Collector for failures that readers of the root continue after.
    pub(crate) failures: ReadFailures,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.layout.name(), self.path.display())
    }
}

impl Root {
    /// Creates a root of a layout. The directory need not exist yet.
    pub fn with_layout(layout: &'static dyn Layout, path: impl Into<PathBuf>) -> Self {
        Root {
            layout,
            path: path.into(),
            followed_links: Arc::default(),
            failures: ReadFailures::default(),
        }
    }

    /// Returns the collector for failures that readers of the root continue after.
    pub fn failures(&self) -> &ReadFailures {
        &self.failures
    }

    /// Makes readers of the root report failures to `failures`.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        self.failures = failures.clone();
        self
    }

    /// Creates a root of a layout given by name. The directory need not exist yet.
    pub fn new(layout: &str, path: impl Into<PathBuf>) -> Result<Self> {
        match layout::by_name(layout) {
            Some(layout) => Ok(Root::with_layout(layout, path)),
            None => Err(Error::NotFound {
                what: Subject::Layout,
                id: layout.to_owned(),
            }),
        }
    }

    /// Creates a root of Claude Code, such as `~/.claude`. The directory need not exist yet.
    pub fn claude_code(path: impl Into<PathBuf>) -> Self {
        Root::with_layout(&ClaudeCode, path)
    }

    /// Makes readers follow those of the `links` that are inside the root and lead to directories.
    ///
    /// By default no link inside a root is followed, so that nothing outside of it is read. The
    /// root itself may be a link.
    pub fn follow_links(mut self, links: &[PathBuf]) -> Self {
        let real = self.path.canonicalize().ok();
        let within = |link: &PathBuf| {
            let below = |root: &Path| link.strip_prefix(root).ok().map(Path::to_owned);
            below(&self.path).or_else(|| below(real.as_deref()?))
        };
        self.followed_links = links.iter().filter_map(within).collect();
        self
    }

    /// Returns whether readers follow the link at this path, relative to the root.
    pub(crate) fn follows(&self, link: &Path) -> bool {
        self.followed_links.iter().any(|followed| followed == link)
    }

    /// Returns whether a path relative to the root passes through a followed link.
    pub(crate) fn leads_through_link(&self, within: &Path) -> bool {
        self.followed_links
            .iter()
            .any(|followed| within.starts_with(followed))
    }

    /// Returns the first link on a path of the root, relative to the root.
    pub(crate) fn first_link(&self, path: &Path) -> Option<PathBuf> {
        let within = path.strip_prefix(&self.path).ok()?;
        let mut step = PathBuf::new();
        within.components().find_map(|part| {
            step.push(part);
            self.path.join(&step).is_symlink().then(|| step.clone())
        })
    }

    /// Returns the error for a link of the root that is not followed.
    pub(crate) fn unfollowed_link_error(&self, within: &Path) -> Error {
        let path = self.path.join(within);
        Error::Link {
            target: std::fs::read_link(&path).unwrap_or_default(),
            path,
        }
    }

    /// Parses `[LAYOUT:]PATH`. Without a layout, detects the layouts from the directory's content.
    pub fn parse(text: &str) -> Result<Vec<Self>> {
        if let Some((name, path)) = text.split_once(':')
            && layout::by_name(name).is_some()
        {
            return Ok(vec![Root::new(name, path)?.within_project()?]);
        }
        // `word:path` that is not an existing path was meant to name a layout.
        if let Some((name, _)) = text.split_once(':')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
            && !Path::new(text).exists()
        {
            return Err(Error::NotFound {
                what: Subject::Layout,
                id: name.to_owned(),
            });
        }
        Root::detect(Path::new(text))
    }

    /// Returns the root itself, or the one in its project directory if only that is a root.
    fn within_project(self) -> Result<Self> {
        let Some(inner) = self.layout.project_dir().map(|dir| self.path.join(dir)) else {
            return Ok(self);
        };
        // Readers of the root report its read failures.
        let is_inner = is_root_of(self.layout, &inner)?
            && !is_root_of(self.layout, &self.path).unwrap_or(true)
            && self.holds_logs().is_ok_and(|found| found == Found::Nothing);
        Ok(match is_inner {
            true => Root {
                path: inner,
                ..self
            },
            false => self,
        })
    }

    /// Detects the layouts of a directory, or an export: by its logs, else by the names in it, else by the
    /// project directories that it contains, else by the root that contains the directory.
    pub(crate) fn detect(path: &Path) -> Result<Vec<Self>> {
        if is_export_file(path)? {
            return Ok(vec![Root::with_layout(&ExportFile, path)]);
        }
        let names = names_in(path)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let at = |path: &Path| {
            let path = path.to_owned();
            move |layout: &&'static dyn Layout| Root::with_layout(*layout, path.clone())
        };
        let (mut logs, mut namesakes) = (Vec::new(), Vec::new());
        let mut failed = None;
        for root in LAYOUTS.iter().map(at(path)) {
            match root.holds_logs() {
                Ok(Found::Log) => logs.push(root),
                Ok(Found::Namesake) => namesakes.push(root),
                Ok(Found::Nothing) => {}
                Err(error) => failed = Some(error),
            }
        }
        if logs.is_empty() {
            logs = namesakes;
        }
        if !logs.is_empty() {
            return Ok(logs);
        }
        let known = LAYOUTS.iter().find(|layout| layout.matches_root(&names));
        if let Some(layout) = known {
            return Ok(vec![at(path)(layout)]);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut inner: Vec<Root> = Vec::new();
        for layout in LAYOUTS {
            let dir = layout.project_dir().map(|dir| path.join(dir));
            if let Some(dir) = dir
                && is_root_of(*layout, &dir)?
            {
                inner.push(at(&dir)(layout));
            }
        }
        if !inner.is_empty() {
            return Ok(inner);
        }
        // A directory inside a root, such as one project's folder, opens the whole root.
        let absolute = std::path::absolute(path).map_err(|error| Error::io("read", path, error))?;
        let above = absolute.ancestors().skip(1).take(3);
        for dir in above.filter(|_| !names.is_empty()) {
            let inside: Vec<Root> = LAYOUTS
                .iter()
                .filter(|layout| {
                    let within = absolute.strip_prefix(dir).unwrap_or(path);
                    let log = |name: &str| {
                        let meaning = layout.classify(&within.join(name));
                        meaning.is_some_and(|artifact| artifact.kind.is_conversation())
                    };
                    names.iter().any(|name| log(name))
                })
                .map(at(dir))
                .collect();
            if !inside.is_empty() {
                return Ok(inside);
            }
        }
        // An empty directory is a valid root without sessions.
        match LAYOUTS.first().filter(|_| names.is_empty()) {
            Some(layout) => Ok(vec![at(path)(layout)]),
            None => Err(Error::refused(format!(
                "{} does not match any known layout; specify one: LAYOUT:PATH",
                path.display()
            ))),
        }
    }

    /// Returns whether the directory contains a log of the layout. Checks a limited number of
    /// files. Fails if it finds none and some could not be read.
    fn holds_logs(&self) -> Result<Found> {
        const LOOKED_AT: usize = 5_000;
        let failures = ReadFailures::default();
        let mut left = LOOKED_AT;
        let mut found = Found::Nothing;
        let mut pending = vec![PathBuf::new()];
        while let Some(within) = pending.pop() {
            for entry in failures.read_dir(&self.path.join(&within)) {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(found);
                }
                let within = within.join(entry.file_name());
                // Links are not followed.
                let Some(kind) = failures.ok_io(&entry.path(), entry.file_type()) else {
                    continue;
                };
                if kind.is_dir() && self.layout.may_hold_files(&within) {
                    pending.push(within);
                } else if kind.is_file()
                    && let Some(artifact) = self.layout.classify(&within)
                    && artifact.kind.is_conversation()
                {
                    if has_first_record(self.layout, &entry.path()) != Some(false) {
                        return Ok(Found::Log);
                    }
                    found = Found::Namesake;
                }
            }
        }
        match failures.take().into_iter().next() {
            Some(error) if found == Found::Nothing => Err(error),
            _ => Ok(found),
        }
    }

    /// Returns the path of an artifact. Fails if that path does not classify as the same artifact.
    pub(crate) fn locate(&self, artifact: &Artifact) -> Result<PathBuf> {
        let relative = self.layout.path_for(artifact);
        let mut meaning = self.layout.classify(&relative);
        if let Some(meaning) = &mut meaning
            && artifact.kind == ArtifactKind::SharedLog
        {
            // The owner of the records is not part of the path.
            meaning.agent.clone_from(&artifact.agent);
        }
        if meaning.as_ref() == Some(artifact) {
            return Ok(self.path.join(relative));
        }
        match &artifact.session {
            Some(id) if artifact.kind == ArtifactKind::SessionLog => Err(Error::BadId {
                what: "a session id of this layout",
                id: id.to_string(),
                why: "its program would not find such a session",
            }),
            _ => Err(Error::refused(format!(
                "{} is not a valid path in the layout {}",
                relative.display(),
                self.layout.name()
            ))),
        }
    }

    /// Opens a log of the root for appending, with the locks that the root's program uses.
    pub(crate) fn open_log(&self, path: &Path, options: AppendOptions) -> Result<Log> {
        let options = AppendOptions {
            lock_file: self.has_lock_file(path),
            ..options
        };
        Ok(Log::open(path, options)?.with_thread_lock(self.thread_lock(path)))
    }

    /// Opens a log of the root to lock it while its files are removed or replaced.
    pub(crate) fn open_log_to_lock(&self, path: &Path) -> Result<Log> {
        let options = AppendOptions {
            lock_only: true,
            ..AppendOptions::default()
        };
        self.open_log(path, options)
    }

    /// Returns the file that the root's program locks while it has the session of a log open.
    pub(crate) fn thread_lock(&self, path: &Path) -> Option<PathBuf> {
        let lock = self.layout.spec().thread_lock?;
        let artifact = self.layout.classify(path.strip_prefix(&self.path).ok()?)?;
        Some(self.path.join(lock(&artifact)?))
    }

    /// Returns whether a file is the lock file of a log. Lock files are empty.
    pub(crate) fn is_lock_file(&self, path: &Path) -> bool {
        let name = path
            .to_str()
            .and_then(|path| path.strip_suffix(lock_file::LOCK_SUFFIX));
        name.is_some_and(|log| self.has_lock_file(Path::new(log)))
    }

    /// Returns whether the root's program locks a separate lock file for the log at `path`.
    pub(crate) fn has_lock_file(&self, path: &Path) -> bool {
        let meaning = || self.layout.classify(path.strip_prefix(&self.path).ok()?);
        self.layout.has_lock_files()
            && meaning().is_some_and(|artifact| artifact.kind.is_conversation())
    }

    /// Checks that writing to `path` changes nothing outside of the root: the path is below the
    /// root and passes through no symbolic link. The root itself may be one.
    pub(crate) fn ensure_inside(&self, path: &Path) -> Result<()> {
        ensure_beneath(&self.path, path)
    }

    /// Returns the existing default roots of all layouts, and trusted roots in the current
    /// directory and its ancestors, without duplicates. Also returns why roots found from the
    /// current directory were rejected.
    ///
    /// The user did not name those roots: they may be part of a cloned repository, or in a
    /// directory that others can write to. So each must be a real directory owned by the current
    /// user.
    pub fn discover(env: &Env) -> (Vec<Self>, Vec<Error>) {
        let mut roots: Vec<Root> = Vec::new();
        let mut refused = Vec::new();
        for layout in LAYOUTS {
            let default_roots = layout.roots(env);
            let around = env.cwd.iter().flat_map(|cwd| cwd.ancestors());
            let around = around.filter_map(|dir| match layout.project_dir()? {
                // Joining an empty name would add a slash.
                "" => Some(dir.to_owned()),
                name => Some(dir.join(name)),
            });
            let around = around.filter(|dir| !default_roots.contains(dir));
            let around: Vec<PathBuf> = around
                // Readers report a directory that cannot be read.
                .filter(|dir| is_root_of(*layout, dir).unwrap_or(true))
                .filter(|dir| match distrust_reason(dir) {
                    None => true,
                    Some(why) => {
                        let dir = dir.display();
                        refused.push(Error::refused(format!("{dir} was not read: {why}")));
                        false
                    }
                })
                .collect();
            let is_there = |path: &PathBuf| match path.metadata() {
                Ok(metadata) => metadata.is_dir(),
                Err(error) => !is_absence(&error),
            };
            let default_roots = default_roots.into_iter().filter(is_there);
            roots.extend(
                default_roots
                    .chain(around)
                    .map(|path| Root::with_layout(*layout, path)),
            );
        }
        (Root::dedupe(roots), refused)
    }

    /// Removes duplicate roots, including those with different paths to one directory. Keeps the
    /// first.
    pub fn dedupe(mut roots: Vec<Self>) -> Vec<Self> {
        let mut known = HashSet::new();
        roots.retain(|root| {
            let path = root.path.canonicalize();
            // A root that does not exist yet can only be compared by its path.
            let path = path.or_else(|_| std::path::absolute(&root.path));
            known.insert((
                root.layout.name(),
                path.unwrap_or_else(|_| root.path.clone()),
            ))
        });
        roots
    }
}

/// Returns the root that a file is, if it is an export. A file that cannot be read is none.
pub(crate) fn export_root(path: &Path) -> Option<Root> {
    let is_export = is_export_file(path).unwrap_or(false);
    is_export.then(|| Root::with_layout(&ExportFile, path))
}

/// Returns whether a path is that of a file with an export.
fn is_export_file(path: &Path) -> Result<bool> {
    let failed = |error| Error::io("read", path, error);
    if !path.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    let file = OpenLog::open(path).map_err(failed)?;
    let read = RangeReader::between(file, 0, 1 << 20).read_to_end(&mut beginning);
    read.map_err(failed)?;
    Ok(names_export(&beginning))
}

/// Returns why a root that the user did not name is not read.
fn distrust_reason(dir: &Path) -> Option<&'static str> {
    let found = dir.symlink_metadata().ok()?;
    if found.is_symlink() {
        return Some("it was found from the current directory and is a symbolic link");
    }
    (found.uid() != rustix::process::geteuid().as_raw())
        .then_some("it was found from the current directory and belongs to another user")
}

/// Checks that `path` is below `base` and passes through no symbolic link. The base itself may be
/// one.
pub(crate) fn ensure_beneath(base: &Path, path: &Path) -> Result<()> {
    let refuse = |why: &str| Err(Error::refused(format!("{} {why}", path.display())));
    let Ok(relative) = path.strip_prefix(base) else {
        return refuse(&format!("is outside of {}", base.display()));
    };
    let down = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !relative.components().all(down) {
        return refuse("leads out of its root");
    }
    let mut step = base.to_owned();
    for part in relative.components() {
        step.push(part);
        match step.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                let error = FileError::ThroughLink {
                    path: path.to_owned(),
                    why: format!(
                        "is reached through the symbolic link {}; annals does not write through links",
                        step.display()
                    ),
                };
                return Err(error.into());
            }
            Ok(_) => {}
            // The missing part of the path is created by annals.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("stat", &step, error)),
        }
    }
    Ok(())
}

/// Returns whether a path is a bare log file name: all that the manifest of a log outside of any
/// root may contain.
pub(crate) fn is_plain_log(path: &Path) -> bool {
    let mut parts = path.components();
    let one = (parts.next(), parts.next());
    matches!(one, (Some(Component::Normal(_)), None))
        && path.extension().is_some_and(|ending| ending == "jsonl")
}

/// Returns whether a directory looks like a root of the layout; `false` if it does not exist.
/// Returns whether the first record of a log is one of the layout; `None` if every log is one of it.
fn has_first_record(layout: &dyn Layout, log: &Path) -> Option<bool> {
    let text = layout.spec().first_record?;
    let mut start = Vec::new();
    let read =
        std::fs::File::open(log).and_then(|file| file.take(FIRST_RECORD).read_to_end(&mut start));
    // Readers of the root report what cannot be read.
    Some(read.is_ok() && memchr::memmem::find(&start, text.as_bytes()).is_some())
}

fn is_root_of(layout: &dyn Layout, path: &Path) -> Result<bool> {
    let names = match names_in(path) {
        Err(Error::File(FileError::Io { source, .. })) if is_absence(&source) => return Ok(false),
        names => names?,
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(layout.matches_root(&names))
}

fn names_in(path: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::io("read", path, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}
