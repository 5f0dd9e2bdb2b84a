//! Session lists that do not match their logs, and their repair.

use std::path::PathBuf;

use crate::error::Result;
use annals_layouts::layout::{ListUpdate, Writer};
use annals_layouts::model::{Artifact, ArtifactKind, FlawKind};

use super::super::writer;
use super::super::{Inventory, Root, SessionFiles};
use super::{add_rebuilt_notice, read_optional, refuse_held, replace_list, rows_in_inventory};

/// Detail of a session list that cannot be parsed.
const DAMAGED: &str = "damaged";

/// A session list that does not match its logs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StaleSessionList {
    /// Root of the list.
    pub(crate) root: Root,
    /// Path of the list.
    pub path: PathBuf,
    /// Short description of the problem.
    pub detail: &'static str,
    list: Artifact,
}

/// Current and rebuilt content of a session list.
pub(crate) struct RebuiltList {
    pub(crate) old: Option<Vec<u8>>,
    pub(crate) new: Vec<u8>,
    /// The current content cannot be parsed.
    damaged: bool,
}

impl StaleSessionList {
    /// Rebuilds the list from its logs; `None` if it is up to date.
    pub(crate) fn rebuild(&self) -> Result<Option<RebuiltList>> {
        let writer = writer::layout_writer(&self.root)?;
        let inventory = Inventory::scan(std::slice::from_ref(&self.root));
        let old = read_optional(&self.path)?;
        let rows = rows_in_inventory(&self.root, writer, &inventory, &self.list)?;
        Ok(
            match writer.update_session_list(&self.list, old.as_deref(), &rows, true)? {
                ListUpdate::Changed { bytes, damaged, .. } => Some(RebuiltList {
                    old,
                    new: bytes,
                    damaged,
                }),
                ListUpdate::Unchanged | ListUpdate::NeedsAllRows => None,
            },
        )
    }

    /// Writes the rebuilt content; the caller must have saved the old one. Returns `false` if
    /// another program changed the list first. Fails if another program has it open for writing,
    /// unless `live`.
    pub(crate) fn apply(&self, rebuilt: &RebuiltList, live: bool) -> Result<bool> {
        writer::create_parent_dirs(&self.root, &self.path)?;
        if !live {
            self.refuse_held()?;
        }
        replace_list(&self.path, rebuilt.old.as_deref(), &rebuilt.new, false)
    }

    /// Fails with [`Held`](annals_jsonl::Error::Held) if another program has it open for writing.
    pub fn refuse_held(&self) -> Result<()> {
        refuse_held(&self.path)
    }

    /// Returns whether the list cannot be parsed.
    pub fn is_damaged(&self) -> bool {
        self.detail == DAMAGED
    }

    /// Kind of the flaw in a check.
    pub(crate) fn flaw_kind(&self) -> FlawKind {
        FlawKind::StaleIndex
    }

    /// Returns the session lists of roots that are missing, damaged or stale.
    pub(crate) fn find_all(roots: &[Root], inventory: &Inventory) -> Vec<Result<StaleSessionList>> {
        let mut found = Vec::new();
        for root in roots {
            let Some(writer) = root.layout.writer() else {
                continue;
            };
            let logs = inventory
                .sessions
                .iter()
                .filter(|files| files.root.path == root.path)
                .filter(|files| files.root.layout.name() == root.layout.name())
                .flat_map(SessionFiles::logs);
            let wanted = logs.filter_map(|file| writer.session_list(&file.artifact));
            let others = inventory.others_of_kind(ArtifactKind::SessionList);
            let there = others
                .filter(|(other, _)| other.path == root.path)
                .filter(|(other, _)| other.layout.name() == root.layout.name())
                .filter(|(_, file)| file.artifact.folder.is_some())
                .map(|(_, file)| file.artifact.clone());
            let mut session_lists: Vec<Artifact> = wanted.chain(there).collect();
            crate::sort::by(&mut session_lists, |a, b| a.folder.cmp(&b.folder));
            session_lists.dedup();
            for session_list in session_lists {
                found.extend(check_list(root, writer, inventory, session_list).transpose());
            }
        }
        found
    }

    /// Rebuilds the list from its logs and writes it. Saves a copy of a damaged one next to it.
    pub(crate) fn rebuild_in_place(&self) -> Result<()> {
        while let Some(RebuiltList { old, new, damaged }) = self.rebuild()? {
            writer::create_parent_dirs(&self.root, &self.path)?;
            if replace_list(&self.path, old.as_deref(), &new, damaged)? {
                if let Some(old) = old.filter(|_| damaged) {
                    add_rebuilt_notice(&self.root, &self.path, &old);
                }
                break;
            }
        }
        Ok(())
    }
}

fn check_list(
    root: &Root,
    writer: &dyn Writer,
    inventory: &Inventory,
    session_list: Artifact,
) -> Result<Option<StaleSessionList>> {
    let path = root.locate(&session_list)?;
    let old = read_optional(&path)?;
    let rows = rows_in_inventory(root, writer, inventory, &session_list)?;
    let detail = match writer.update_session_list(&session_list, old.as_deref(), &rows, true)? {
        ListUpdate::Unchanged | ListUpdate::NeedsAllRows => return Ok(None),
        ListUpdate::Changed { .. } if old.is_none() => "missing",
        ListUpdate::Changed { damaged: true, .. } => DAMAGED,
        ListUpdate::Changed { .. } => "does not match its logs",
    };
    Ok(Some(StaleSessionList {
        root: root.clone(),
        path,
        detail,
        list: session_list,
    }))
}
