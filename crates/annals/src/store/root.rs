//! Roots: directories that hold one layout's tree.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::layout::{self, ClaudeCode, Env, LAYOUTS, Layout};
use crate::model::{Artifact, ArtifactKind};

/// A directory that holds one layout's tree.
#[derive(Clone)]
pub struct Root {
    /// The layout.
    pub layout: &'static dyn Layout,
    /// The directory.
    pub path: PathBuf,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.layout.name(), self.path.display())
    }
}

impl Root {
    /// A root of a named layout. The directory need not exist yet.
    pub fn new(layout: &str, path: impl Into<PathBuf>) -> Result<Self> {
        match layout::by_name(layout) {
            Some(layout) => Ok(Root {
                layout,
                path: path.into(),
            }),
            None => Err(Error::NotFound {
                what: "layout",
                id: layout.to_owned(),
            }),
        }
    }

    /// A root of Claude Code, such as `~/.claude`. The directory need not exist yet.
    pub fn claude_code(path: impl Into<PathBuf>) -> Self {
        Root {
            layout: &ClaudeCode,
            path: path.into(),
        }
    }

    /// Reads `[LAYOUT:]PATH`; without a layout, the directory's content decides.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some((name, path)) = text.split_once(':')
            && layout::by_name(name).is_some()
        {
            return Root::new(name, path);
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
        Root::sniff(Path::new(text))
    }

    /// Finds out which layout a directory has.
    pub fn sniff(path: &Path) -> Result<Self> {
        let dir = std::fs::read_dir(path).map_err(|error| Error::io("read", path, error))?;
        let names: Vec<String> = dir
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = LAYOUTS.iter().find(|layout| layout.recognises(&names));
        // An empty directory is as good a root as any: it has no sessions yet.
        let found = found.or_else(|| LAYOUTS.first().filter(|_| names.is_empty()));
        match found {
            Some(layout) => Ok(Root {
                layout: *layout,
                path: path.to_owned(),
            }),
            None => Err(Error::refused(format!(
                "{} does not look like any known layout; say which one: LAYOUT:PATH",
                path.display()
            ))),
        }
    }

    /// Where an artifact lies. Refuses one that would not be found again under its own meaning.
    pub(super) fn locate(&self, artifact: &Artifact) -> Result<PathBuf> {
        let relative = self.layout.place(artifact);
        if self.layout.classify(&relative).as_ref() == Some(artifact) {
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

    /// Makes sure that writing to `path` changes nothing outside of the root: the path leads down
    /// from it, and through no symbolic link. The root itself may be one.
    pub(super) fn guard(&self, path: &Path) -> Result<()> {
        let refuse = |why: &str| Err(Error::refused(format!("{} {why}", path.display())));
        let Ok(relative) = path.strip_prefix(&self.path) else {
            return refuse(&format!("is outside of {}", self.path.display()));
        };
        let down = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !relative.components().all(down) {
            return refuse("leads out of its root");
        }
        let mut step = self.path.clone();
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

    /// Every layout's default places that exist, each directory once.
    pub fn defaults(env: &Env) -> Vec<Self> {
        let mut roots: Vec<Root> = Vec::new();
        for layout in LAYOUTS {
            for path in layout.roots(env) {
                let known = |root: &Root| root.layout.name() == layout.name() && root.path == path;
                if path.is_dir() && !roots.iter().any(known) {
                    roots.push(Root {
                        layout: *layout,
                        path,
                    });
                }
            }
        }
        roots
    }
}
