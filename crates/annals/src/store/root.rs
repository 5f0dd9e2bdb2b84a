//! Roots: directories that hold one layout's tree.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::jsonl::{AppendOptions, Log, is_absence, lock_file};
use crate::layout::{self, ClaudeCode, Env, LAYOUTS, Layout};
use crate::model::{Artifact, ArtifactKind};

use super::ReadFailures;

/// A directory that holds one layout's tree.
#[derive(Clone)]
pub struct Root {
    /// The layout.
    pub layout: &'static dyn Layout,
    /// The directory.
    pub path: PathBuf,
    /// Links to directories that readers follow, by their paths within the root.
    followed_links: Arc<[PathBuf]>,
    /// Where readers of the root report what they could not read and went on without.
    pub(crate) failures: ReadFailures,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.layout.name(), self.path.display())
    }
}

impl Root {
    /// A root of a layout. The directory need not exist yet.
    pub fn with_layout(layout: &'static dyn Layout, path: impl Into<PathBuf>) -> Self {
        Root {
            layout,
            path: path.into(),
            followed_links: Arc::default(),
            failures: ReadFailures::default(),
        }
    }

    /// Where readers of the root report what they could not read and went on without.
    pub fn failures(&self) -> &ReadFailures {
        &self.failures
    }

    /// The same root, whose readers report read failures to `failures`.
    pub fn reporting_to(mut self, failures: &ReadFailures) -> Self {
        self.failures = failures.clone();
        self
    }

    /// A root of a named layout. The directory need not exist yet.
    pub fn new(layout: &str, path: impl Into<PathBuf>) -> Result<Self> {
        match layout::by_name(layout) {
            Some(layout) => Ok(Root::with_layout(layout, path)),
            None => Err(Error::NotFound {
                what: "layout",
                id: layout.to_owned(),
            }),
        }
    }

    /// A root of Claude Code, such as `~/.claude`. The directory need not exist yet.
    pub fn claude_code(path: impl Into<PathBuf>) -> Self {
        Root::with_layout(&ClaudeCode, path)
    }

    /// The same root, but readers follow those of the `links` that lie in it and lead to directories.
    ///
    /// Without this no link in a root is followed, so that nothing outside of it is read. The root
    /// itself may be a link.
    pub fn follow_links(mut self, links: &[PathBuf]) -> Self {
        let real = self.path.canonicalize().ok();
        let within = |link: &PathBuf| {
            let below = |root: &Path| link.strip_prefix(root).ok().map(Path::to_owned);
            below(&self.path).or_else(|| below(real.as_deref()?))
        };
        self.followed_links = links.iter().filter_map(within).collect();
        self
    }

    /// Whether readers follow the link at this path within the root.
    pub(crate) fn follows(&self, link: &Path) -> bool {
        self.followed_links.iter().any(|followed| followed == link)
    }

    /// Whether a path within the root leads through a link that readers follow.
    pub(crate) fn leads_through_link(&self, within: &Path) -> bool {
        self.followed_links
            .iter()
            .any(|followed| within.starts_with(followed))
    }

    /// The first link on the way to a path of the root, by its own path within it.
    pub(crate) fn first_link(&self, path: &Path) -> Option<PathBuf> {
        let within = path.strip_prefix(&self.path).ok()?;
        let mut step = PathBuf::new();
        within.components().find_map(|part| {
            step.push(part);
            self.path.join(&step).is_symlink().then(|| step.clone())
        })
    }

    /// What to report about a link of the root that is not followed.
    pub(crate) fn unfollowed_link_error(&self, within: &Path) -> Error {
        let path = self.path.join(within);
        Error::Link {
            target: std::fs::read_link(&path).unwrap_or_default(),
            path,
        }
    }

    /// Reads `[LAYOUT:]PATH`; without a layout, the directory's content decides, and may be of
    /// several layouts.
    pub fn parse(text: &str) -> Result<Vec<Self>> {
        if let Some((name, path)) = text.split_once(':')
            && layout::by_name(name).is_some()
        {
            return Ok(vec![Root::new(name, path)?.within_project()?]);
        }
        // `word:path` that is no path was meant to name a layout.
        if let Some((name, _)) = text.split_once(':')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
            && !Path::new(text).exists()
        {
            return Err(Error::NotFound {
                what: "layout",
                id: name.to_owned(),
            });
        }
        Root::detect(Path::new(text))
    }

    /// The root itself, or the one in its project directory if only that is one.
    fn within_project(self) -> Result<Self> {
        let Some(inner) = self.layout.project_dir().map(|dir| self.path.join(dir)) else {
            return Ok(self);
        };
        // What cannot be read of the root itself is reported by whoever reads it.
        let is_inner = is_root_of(self.layout, &inner)?
            && !is_root_of(self.layout, &self.path).unwrap_or(true)
            && !self.holds_logs().unwrap_or(true);
        Ok(match is_inner {
            true => Root {
                path: inner,
                ..self
            },
            false => self,
        })
    }

    /// Finds out which layouts a directory has: by its files, else by the names in it, else by the
    /// project directories that it holds. It may also be a directory within a root.
    pub fn detect(path: &Path) -> Result<Vec<Self>> {
        let names = names_in(path)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let at = |path: &Path| {
            let path = path.to_owned();
            move |layout: &&'static dyn Layout| Root::with_layout(*layout, path.clone())
        };
        let mut logs: Vec<Root> = Vec::new();
        let mut failed = None;
        for root in LAYOUTS.iter().map(at(path)) {
            match root.holds_logs() {
                Ok(true) => logs.push(root),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
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
        // Within a root, such as one project's folder: the whole root is read.
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
        // An empty directory is as good a root as any: it has no sessions yet.
        match LAYOUTS.first().filter(|_| names.is_empty()) {
            Some(layout) => Ok(vec![at(path)(layout)]),
            None => Err(Error::refused(format!(
                "{} does not look like any known layout; say which one: LAYOUT:PATH",
                path.display()
            ))),
        }
    }

    /// Some file of the directory is a log of the layout. Not all are looked at. Fails if none is found
    /// and not all could be looked at.
    fn holds_logs(&self) -> Result<bool> {
        const LOOKED_AT: usize = 5_000;
        let failures = ReadFailures::default();
        let mut left = LOOKED_AT;
        let mut pending = vec![PathBuf::new()];
        while let Some(within) = pending.pop() {
            for entry in failures.read_dir(&self.path.join(&within)) {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(false);
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
                    return Ok(true);
                }
            }
        }
        failures.take().into_iter().next().map_or(Ok(false), Err)
    }

    /// Where an artifact lies. Refuses one that would not be found again under its own meaning.
    pub(crate) fn locate(&self, artifact: &Artifact) -> Result<PathBuf> {
        let relative = self.layout.path_for(artifact);
        let mut meaning = self.layout.classify(&relative);
        if let Some(meaning) = &mut meaning
            && artifact.kind == ArtifactKind::SharedLog
        {
            // Whose records they are is not in the path.
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
                "{} is no place for a file of the layout {}",
                relative.display(),
                self.layout.name()
            ))),
        }
    }

    /// Opens a log of the root for appending, under the locks that its own program takes.
    pub(crate) fn open_log(&self, path: &Path, options: AppendOptions) -> Result<Log> {
        Log::open(
            path,
            AppendOptions {
                lock_file: self.has_lock_file(path),
                ..options
            },
        )
    }

    /// Whether a file is the lock of a log: it holds nothing.
    pub(crate) fn is_lock_file(&self, path: &Path) -> bool {
        let name = path
            .to_str()
            .and_then(|path| path.strip_suffix(lock_file::LOCK_SUFFIX));
        name.is_some_and(|log| self.has_lock_file(Path::new(log)))
    }

    /// Whether the root's own program locks a file beside the log at `path`.
    pub(crate) fn has_lock_file(&self, path: &Path) -> bool {
        let meaning = || self.layout.classify(path.strip_prefix(&self.path).ok()?);
        self.layout.has_lock_files()
            && meaning().is_some_and(|artifact| artifact.kind.is_conversation())
    }

    /// Makes sure that writing to `path` changes nothing outside of the root: the path leads down
    /// from it, and through no symbolic link. The root itself may be one.
    pub(crate) fn ensure_inside(&self, path: &Path) -> Result<()> {
        ensure_beneath(&self.path, path)
    }

    /// Every layout's default places that exist, and those of the current directory and of the ones
    /// above it that can be trusted; each directory once.
    pub fn defaults(env: &Env) -> Vec<Self> {
        Root::discover(env).0
    }

    /// The same, and why roots that were found from the current directory are left out.
    ///
    /// Nobody named those: they may have come with a cloned repository, or lie in a directory that
    /// others write to. So they must be real directories that belong to the current user.
    pub fn discover(env: &Env) -> (Vec<Self>, Vec<Error>) {
        let mut roots: Vec<Root> = Vec::new();
        let mut refused = Vec::new();
        for layout in LAYOUTS {
            let homes = layout.roots(env);
            let around = env.cwd.iter().flat_map(|cwd| cwd.ancestors());
            let around = around.filter_map(|dir| Some(dir.join(layout.project_dir()?)));
            let around = around.filter(|dir| !homes.contains(dir));
            let around: Vec<PathBuf> = around
                // One that cannot be looked into is reported by whoever reads it.
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
            let homes = homes.into_iter().filter(is_there);
            roots.extend(
                homes
                    .chain(around)
                    .map(|path| Root::with_layout(*layout, path)),
            );
        }
        (Root::dedupe(roots), refused)
    }

    /// Each root once, however often and under whatever names it is among them; the first one stays.
    pub fn dedupe(mut roots: Vec<Self>) -> Vec<Self> {
        let mut known = HashSet::new();
        roots.retain(|root| {
            let path = root.path.canonicalize();
            // One that is not there yet is only known by its name.
            let path = path.or_else(|_| std::path::absolute(&root.path));
            known.insert((
                root.layout.name(),
                path.unwrap_or_else(|_| root.path.clone()),
            ))
        });
        roots
    }
}

/// Why a root that nobody named is not read.
fn distrust_reason(dir: &Path) -> Option<&'static str> {
    let found = dir.symlink_metadata().ok()?;
    if found.is_symlink() {
        return Some("it was found from the current directory and is a symbolic link");
    }
    (found.uid() != rustix::process::geteuid().as_raw())
        .then_some("it was found from the current directory and belongs to another user")
}

/// Makes sure that `path` leads down from `base`, and through no symbolic link. The base itself may be
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
                return refuse(&format!(
                    "is reached through the symbolic link {}, behind which nothing is written",
                    step.display()
                ));
            }
            Ok(_) => {}
            // What is not there yet is made by us.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("stat", &step, error)),
        }
    }
    Ok(())
}

/// A log that lies directly in its directory: what the manifest of one outside of any tree may name.
pub(crate) fn is_plain_log(path: &Path) -> bool {
    let mut parts = path.components();
    let one = (parts.next(), parts.next());
    matches!(one, (Some(Component::Normal(_)), None))
        && path.extension().is_some_and(|ending| ending == "jsonl")
}

/// Whether the names in a directory are those of a root; one that is not there is none.
fn is_root_of(layout: &dyn Layout, path: &Path) -> Result<bool> {
    let names = match names_in(path) {
        Err(Error::Io { source, .. }) if is_absence(&source) => return Ok(false),
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
