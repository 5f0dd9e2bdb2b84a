//! What lies in the roots, and which session each file belongs to.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::jsonl::FileId;
use crate::model::{Artifact, ArtifactKind, Body, Fact, SessionId};

use super::Root;
use super::log;

/// A file of a root and what it means.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it means.
    pub artifact: Artifact,
    /// What it was when it was found.
    pub id: FileId,
}

/// A session's log and what belongs to it.
#[derive(Clone, Debug)]
pub struct SessionFiles {
    /// The root it lies in.
    pub root: Root,
    /// The session.
    pub id: SessionId,
    /// The main agent's log; sub-agents may outlive it.
    pub log: Option<FoundFile>,
    /// The logs of sub-agents.
    pub agents: Vec<FoundFile>,
    /// Everything else: todos, saved files, long outputs …
    pub beside: Vec<FoundFile>,
    /// Another folder of the root holds a log of the same session, to which everything that lies in
    /// no folder belongs as well.
    pub shared: bool,
}

impl SessionFiles {
    /// The bytes of its logs.
    pub fn log_bytes(&self) -> u64 {
        self.logs().map(|file| file.id.len).sum()
    }

    /// The bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files().map(|file| file.id.len).sum()
    }

    /// Its logs, the main agent's first.
    pub fn logs(&self) -> impl Iterator<Item = &FoundFile> {
        self.log.iter().chain(&self.agents)
    }

    /// All its files.
    pub fn files(&self) -> impl Iterator<Item = &FoundFile> {
        self.logs().chain(&self.beside)
    }

    /// The file that stands for the session.
    pub fn main_path(&self) -> &Path {
        self.logs()
            .chain(&self.beside)
            .next()
            .map_or(Path::new(""), |file| &file.path)
    }

    /// Whether it is a log outside of any tree.
    pub fn is_lone(&self) -> bool {
        let place = |file: &FoundFile| {
            let relative = file.path.strip_prefix(&self.root.path).ok()?;
            self.root.layout.classify(relative)
        };
        self.log.as_ref().is_some_and(|log| place(log).is_none())
    }

    /// The folder that its project's sessions share.
    pub fn folder(&self) -> Option<&str> {
        self.logs().find_map(|file| file.artifact.folder.as_deref())
    }
}

/// What lies in some roots.
#[derive(Debug, Default)]
pub struct Inventory {
    /// The sessions.
    pub sessions: Vec<SessionFiles>,
    /// Files that belong to no session that is there.
    pub others: Vec<(Root, FoundFile)>,
    /// What could not be looked at.
    pub troubles: Vec<Error>,
}

impl Inventory {
    pub(super) fn of(roots: &[Root]) -> Self {
        let mut inventory = Inventory::default();
        for root in roots {
            let files = walk(root, &mut inventory.troubles);
            inventory.group(root, files);
        }
        inventory
    }

    /// The files of a kind that belong to no session.
    pub fn others_of(&self, kind: ArtifactKind) -> impl Iterator<Item = &(Root, FoundFile)> {
        self.others
            .iter()
            .filter(move |(_, file)| file.artifact.kind == kind)
    }

    pub(super) fn keep_days(&self) -> HashMap<PathBuf, Option<u64>> {
        self.others_of(ArtifactKind::Settings)
            .filter_map(|(root, file)| {
                let body = log::document(root, file)
                    .ok()?
                    .found
                    .into_iter()
                    .next()?
                    .body;
                match body {
                    Body::Settings { keep_days } => Some((root.path.clone(), keep_days)),
                    _ => None,
                }
            })
            .collect()
    }

    fn group(&mut self, root: &Root, files: Vec<FoundFile>) {
        // Two folders may hold a log of one name: a session that was moved, or copied.
        let mut sessions: BTreeMap<(SessionId, Option<String>), SessionFiles> = BTreeMap::new();
        let mut beside = Vec::new();
        let mut slot = |id: &SessionId, folder: &Option<String>, file: FoundFile| {
            let key = (id.clone(), folder.clone());
            let files = sessions.entry(key).or_insert_with(|| SessionFiles {
                root: root.clone(),
                id: id.clone(),
                log: None,
                agents: Vec::new(),
                beside: Vec::new(),
                shared: false,
            });
            match file.artifact.kind {
                ArtifactKind::SessionLog => files.log = Some(file),
                _ => files.agents.push(file),
            }
        };
        for file in files {
            let folder = file.artifact.folder.clone();
            match (file.artifact.kind, file.artifact.session.clone()) {
                (ArtifactKind::SessionLog | ArtifactKind::AgentLog, Some(id)) => {
                    slot(&id, &folder, file)
                }
                (ArtifactKind::AgentLog, None) => match session_inside(root, &file) {
                    Some(id) => slot(&id, &folder, file),
                    None => self.others.push((root.clone(), file)),
                },
                (_, Some(_)) => beside.push(file),
                (_, None) => self.others.push((root.clone(), file)),
            }
        }
        let mut homes: HashMap<SessionId, (SessionId, Option<String>)> = HashMap::new();
        let mut shared = HashSet::new();
        for key in sessions.keys() {
            if homes.contains_key(&key.0) {
                shared.insert(key.0.clone());
            } else {
                homes.insert(key.0.clone(), key.clone());
            }
        }
        for files in sessions.values_mut() {
            files.shared = shared.contains(&files.id);
        }
        for file in beside {
            let session = file.artifact.session.as_ref();
            let exact = session.map(|id| (id.clone(), file.artifact.folder.clone()));
            let home = exact
                .filter(|key| sessions.contains_key(key))
                .or_else(|| session.and_then(|id| homes.get(id).cloned()));
            match home.and_then(|key| sessions.get_mut(&key)) {
                Some(files) => files.beside.push(file),
                None => self.others.push((root.clone(), file)),
            }
        }
        self.sessions.extend(sessions.into_values());
    }
}

/// The session that a log names itself, where its path does not.
fn session_inside(root: &Root, file: &FoundFile) -> Option<SessionId> {
    // The first lines may be of kinds that name no session.
    const LINES: usize = 20;
    let named = |fact: &Fact| match fact {
        Fact::Session(id) => SessionId::new(id).ok(),
        _ => None,
    };
    log::first_fact(root, file, LINES, named).ok()?
}

/// Every file of a root that means something, in a stable order.
///
/// People keep `projects` elsewhere behind a link. Each directory is entered once, and under its own
/// name if it has one in the root: links wait until all that is real was seen.
fn walk(root: &Root, troubles: &mut Vec<Error>) -> Vec<FoundFile> {
    let mut found = Vec::new();
    let mut visited = HashSet::new();
    let mut pending = vec![PathBuf::new()];
    let mut links = BTreeSet::new();
    while let Some(relative) = pending.pop().or_else(|| links.pop_first()) {
        let dir = root.path.join(&relative);
        let opened = fs::metadata(&dir).and_then(|metadata| {
            let id = FileId::from(&metadata);
            let new = visited.insert((id.dev, id.ino));
            new.then(|| fs::read_dir(&dir)).transpose()
        });
        let entries = match opened {
            Ok(Some(entries)) => entries,
            Ok(None) => continue,
            Err(error) => {
                troubles.push(Error::io("read", &dir, error));
                continue;
            }
        };
        for entry in entries.flatten() {
            let relative = relative.join(entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if relative.to_str().is_none() {
                // Such names mean nothing to any layout; what might be a session must not go unseen.
                let log = relative.extension().is_some_and(|ending| ending == "jsonl");
                let inside = relative.components().count() > 1;
                if inside && (kind.is_dir() || log) {
                    troubles.push(Error::refused(format!(
                        "{} was not read: its name is not UTF-8",
                        entry.path().display()
                    )));
                }
                continue;
            }
            // A file that vanished meanwhile is as if it had never been there, and so is one that a
            // link does not lead to.
            let metadata = || fs::metadata(entry.path());
            if kind.is_dir() || (kind.is_symlink() && metadata().is_ok_and(|what| what.is_dir())) {
                if !root.layout.enters(&relative) {
                    continue;
                }
                if kind.is_symlink() {
                    links.insert(relative);
                } else {
                    pending.push(relative);
                }
            } else if let Some(artifact) = root.layout.classify(&relative)
                && let Ok(metadata) = metadata()
                && metadata.is_file()
            {
                found.push(FoundFile {
                    path: entry.path(),
                    artifact,
                    id: FileId::from(&metadata),
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
