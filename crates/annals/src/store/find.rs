//! From what a person types to the session they mean.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::jsonl::FileId;
use crate::layout::LAYOUTS;
use crate::model::{Artifact, ArtifactKind, SessionId};

use super::inventory::{FoundFile, Inventory, SessionFiles};
use super::{Root, Store};

/// What a person named: a session, and maybe one of its messages.
#[derive(Clone, Debug)]
pub struct Target {
    /// The session.
    pub files: SessionFiles,
    /// The message after the `@`, as typed.
    pub message: Option<String>,
}

impl Store {
    /// Finds `SESSION[@MESSAGE]`: a unique beginning of a session's id, or the path of a log.
    pub fn find(&self, inventory: &Inventory, text: &str) -> Result<Target> {
        let (session, message) = match text.rsplit_once('@') {
            Some((session, message)) if !Path::new(text).is_file() => {
                (session, Some(message.to_owned()))
            }
            _ => (text, None),
        };
        let files = match as_path(session) {
            Some(path) => self.at_path(inventory, &path)?,
            None => by_prefix(inventory, session)?,
        };
        Ok(Target { files, message })
    }

    fn at_path(&self, inventory: &Inventory, path: &Path) -> Result<SessionFiles> {
        let absolute = std::path::absolute(path).map_err(|error| Error::io("read", path, error))?;
        let metadata =
            std::fs::metadata(&absolute).map_err(|error| Error::io("read", path, error))?;
        if metadata.is_dir() {
            return Err(Error::refused(format!(
                "{} is a directory; name a log file or a session",
                path.display()
            )));
        }
        let id = FileId::from(&metadata);
        let known = |files: &&SessionFiles| files.files().any(|file| file.id.same_file(&id));
        if let Some(files) = inventory.sessions.iter().find(known) {
            return Ok(files.clone());
        }
        // In a root that was not named: its tree tells what belongs to the log.
        if let Some(root) = root_above(&absolute) {
            let inventory = Inventory::of(&[root]);
            if let Some(files) = inventory.sessions.into_iter().find(|files| known(&files)) {
                return Ok(files);
            }
        }
        alone(absolute, id)
    }
}

/// A text that can only be meant as a path.
fn as_path(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let looks = text.contains('/') || text.ends_with(".jsonl");
    (looks || path.is_file()).then(|| path.to_owned())
}

fn by_prefix(inventory: &Inventory, prefix: &str) -> Result<SessionFiles> {
    // Rejects what can never be an id before it is looked for.
    SessionId::new(prefix)?;
    let fits = |files: &&SessionFiles| files.id.as_str().starts_with(prefix);
    let found: Vec<&SessionFiles> = inventory.sessions.iter().filter(fits).collect();
    let exact: Vec<&&SessionFiles> = found
        .iter()
        .filter(|files| files.id.as_str() == prefix)
        .collect();
    match (found.as_slice(), exact.as_slice()) {
        ([], _) => Err(Error::NotFound {
            what: "session",
            id: prefix.to_owned(),
        }),
        ([only], _) => Ok((*only).clone()),
        (_, [only]) => Ok((**only).clone()),
        (many, _) => {
            let same = many.iter().all(|files| {
                files.id
                    == many
                        .first()
                        .map_or_else(|| files.id.clone(), |first| first.id.clone())
            });
            let candidates = many.iter().map(|files| {
                if same {
                    files.main_path().display().to_string()
                } else {
                    files.id.to_string()
                }
            });
            Err(Error::Ambiguous {
                what: "session",
                id: prefix.to_owned(),
                candidates: candidates.collect(),
            })
        }
    }
}

/// The root that a file lies in, by the names of the directories above it.
fn root_above(path: &Path) -> Option<Root> {
    for dir in path.ancestors().skip(1) {
        let relative = path.strip_prefix(dir).ok()?;
        for layout in LAYOUTS {
            if layout
                .classify(relative)
                .is_some_and(|artifact| artifact.kind.is_conversation())
            {
                return Some(Root {
                    layout: *layout,
                    path: dir.to_owned(),
                });
            }
        }
    }
    None
}

/// A log outside of any tree. It can be read and appended to; nothing else belongs to it.
fn alone(path: PathBuf, id: FileId) -> Result<SessionFiles> {
    if path.extension().is_none_or(|ending| ending != "jsonl") {
        return Err(Error::refused(format!(
            "{} is not a log: logs end in .jsonl",
            path.display()
        )));
    }
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let session = SessionId::new(stem)?;
    let layout = *LAYOUTS
        .first()
        .ok_or_else(|| Error::refused("there are no layouts"))?;
    let root = Root {
        layout,
        path: path.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let artifact = Artifact {
        session: Some(session.clone()),
        ..Artifact::of(ArtifactKind::SessionLog)
    };
    Ok(SessionFiles {
        root,
        id: session,
        log: Some(FoundFile { path, artifact, id }),
        agents: Vec::new(),
        beside: Vec::new(),
        shared: false,
    })
}
