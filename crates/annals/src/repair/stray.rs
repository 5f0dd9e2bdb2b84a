//! Files that belong to a session which is not there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use crate::model::{ArtifactKind, Fact};
use crate::store::{FoundFile, Inventory, LogScan, Root, Store};

/// Files of one kind whose session is not there. They stay as they are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stray {
    /// The first of them.
    pub path: PathBuf,
    /// What they are.
    pub kind: ArtifactKind,
    /// The session they name.
    pub session: Option<String>,
    /// How many there are.
    pub files: u64,
    /// Their length.
    pub bytes: u64,
    /// What there is to know about where their session is.
    pub detail: String,
}

/// Whose a sub-agent's log may be that does not say so where it is looked for.
fn named_in(root: &Root, file: &FoundFile) -> String {
    let scan = LogScan::read(root, file).unwrap_or_default();
    let facts = scan.outlines.iter().flat_map(|outline| &outline.facts);
    let named: BTreeSet<&str> = facts
        .filter_map(|fact| match fact {
            Fact::Session(id) => Some(&**id),
            _ => None,
        })
        .collect();
    match named.len() {
        0 => "none of its lines names a session".to_owned(),
        1 => format!(
            "only later lines name a session: {}",
            named.into_iter().collect::<String>()
        ),
        count => format!("its lines name {count} sessions"),
    }
}

impl Store {
    /// What lies in the roots and belongs to sessions that do not. Where a session is certain it is
    /// found there, whatever folder its file lies in; these are the rest.
    pub fn strays(&self, inventory: &Inventory) -> Vec<Stray> {
        let trashed: HashMap<String, String> = (self.trashed().unwrap_or_default().iter())
            .flat_map(|one| one.sessions().map(|id| (id.to_owned(), one.id.clone())))
            .collect();
        let mut found: BTreeMap<(PathBuf, Option<String>, ArtifactKind), Stray> = BTreeMap::new();
        let mut add = |root: &PathBuf, file: &FoundFile, session: Option<String>, why: &str| {
            let kind = file.artifact.kind;
            let detail = match session.as_ref().and_then(|id| trashed.get(id)) {
                Some(deletion) => format!(
                    "its session is in the trash: `annals delete --undo {deletion}` puts it back"
                ),
                None => why.to_owned(),
            };
            let stray = found.entry((root.clone(), session.clone(), kind));
            let stray = stray.or_insert_with(|| Stray {
                path: file.path.clone(),
                kind,
                session,
                files: 0,
                bytes: 0,
                detail,
            });
            stray.files += 1;
            stray.bytes += file.bytes();
        };
        for (root, file) in &inventory.others {
            let session = file.artifact.session.as_ref().map(ToString::to_string);
            match (file.artifact.kind, session) {
                (ArtifactKind::AgentLog, None) => {
                    add(&root.path, file, None, &named_in(root, file));
                }
                (_, Some(session)) => {
                    add(
                        &root.path,
                        file,
                        Some(session),
                        "its session has no log here",
                    );
                }
                _ => {}
            }
        }
        for files in inventory
            .sessions
            .iter()
            .filter(|files| files.log.is_none())
        {
            for file in &files.agents {
                let session = Some(files.id.to_string());
                let why = "its session has no log of its own here";
                add(&files.root.path, file, session, why);
            }
        }
        found.into_values().collect()
    }
}
