//! Finds files that belong to a missing session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use crate::archive::Archive;
use crate::store::{Inventory, LogScan, Root, RootFile, Store, rows_without_log};
use annals_layouts::model::{ArtifactKind, Fact};
use annals_layouts::text::pluralize;

use super::Repairs;

/// Files of one kind whose session is missing. They are not changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrphanFiles {
    /// The first of them.
    pub path: PathBuf,
    /// Their kind.
    pub kind: ArtifactKind,
    /// The session they name.
    pub session: Option<String>,
    /// Number of files; 0 if an index lists the session and it has no other file.
    pub files: u64,
    /// Their total length.
    pub bytes: u64,
    /// Possible location of the session.
    pub detail: String,
}

/// Describes which sessions the lines of an orphaned sub-agent's log name.
fn named_sessions_hint(root: &Root, file: &RootFile) -> String {
    let scan = root.failures().ok(LogScan::read(root, file));
    let scan = scan.unwrap_or_default();
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

impl Repairs<'_> {
    /// Returns the files in the roots that belong to missing sessions. Files whose session is known
    /// are assigned to it, whatever their folder; these are the rest.
    pub fn orphan_files(&self, inventory: &Inventory) -> Vec<OrphanFiles> {
        let mut found = OrphanCollector::new(self.store);
        for (root, file) in &inventory.others {
            let session = file.artifact.session.as_ref().map(ToString::to_string);
            match (file.artifact.kind, session) {
                (ArtifactKind::AgentLog, None) => {
                    found.add(root, file, None, &named_sessions_hint(root, file));
                }
                (_, Some(session)) => {
                    found.add(root, file, Some(session), "its session has no log here");
                }
                _ => {}
            }
        }
        for files in inventory
            .sessions
            .iter()
            .filter(|files| files.log.is_none())
        {
            for file in files.files() {
                let session = Some(files.id.to_string());
                let why = "its session has no log of its own here";
                found.add(&files.root, file, session, why);
            }
        }
        let mut strays: Vec<OrphanFiles> = found.by_kind.into_values().collect();
        for row in rows_without_log(inventory) {
            let session = row.session.to_string();
            let messages = pluralize(row.messages, "message");
            let why = format!("an index lists it with {messages}, but it has no log here");
            strays.push(OrphanFiles {
                path: row.path,
                kind: ArtifactKind::SessionList,
                detail: found.elsewhere.where_is(&row.root, &session, &why),
                session: Some(session),
                files: 0,
                bytes: 0,
            });
        }
        strays
    }
}

/// Orphan files, grouped by session and kind.
struct OrphanCollector {
    by_kind: BTreeMap<(PathBuf, Option<String>, ArtifactKind), OrphanFiles>,
    elsewhere: MissingSessions,
}

impl OrphanCollector {
    fn new(store: &Store) -> Self {
        OrphanCollector {
            by_kind: BTreeMap::new(),
            elsewhere: MissingSessions::new(store),
        }
    }

    fn add(&mut self, root: &Root, file: &RootFile, session: Option<String>, why: &str) {
        let kind = file.artifact.kind;
        let key = (root.path.clone(), session.clone(), kind);
        let stray = self.by_kind.entry(key).or_insert_with(|| OrphanFiles {
            path: file.path.clone(),
            kind,
            detail: match &session {
                Some(id) => self.elsewhere.where_is(root, id, why),
                None => why.to_owned(),
            },
            session,
            files: 0,
            bytes: 0,
        });
        stray.files += 1;
        stray.bytes += file.bytes();
    }
}

/// Finds sessions that are not in their roots.
struct MissingSessions {
    /// Deletions that moved sessions to the trash, by session id.
    trashed: HashMap<String, String>,
    archive: Option<Archive>,
}

impl MissingSessions {
    fn new(store: &Store) -> Self {
        let trashed = store
            .failures()
            .ok(store.trash().items())
            .unwrap_or_default();
        let each = trashed.iter().flat_map(|one| {
            let sessions = one.sessions();
            sessions.map(|id| (id.to_owned(), one.id.clone()))
        });
        MissingSessions {
            trashed: each.collect(),
            archive: store.archive().ok(),
        }
    }

    /// Describes where a session is and how to restore it, or else why it is missing.
    fn where_is(&self, root: &Root, session: &str, why: &str) -> String {
        if let Some(deletion) = self.trashed.get(session) {
            return format!(
                "its session is in the trash: {} restores it",
                annals_layouts::text::quoted_command("annals delete --undo=", deletion, "")
            );
        }
        let layout = root.layout.name();
        let is_kept = |archive: &Archive| archive.has_session(layout, &root.path, session);
        match self.archive.as_ref().is_some_and(is_kept) {
            true => format!(
                "its session is in the archive: {} restores it",
                annals_layouts::text::quoted_command("annals restore", session, "--apply")
            ),
            false => format!("{why}: restore it from a backup"),
        }
    }
}
