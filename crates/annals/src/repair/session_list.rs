//! Rebuilds stale session lists from their logs. Quarantines the original like that of a log.

use std::os::unix::fs::MetadataExt as _;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::Repairs;
use super::apply::{hex, mtime_ns, repair_id};
use super::quarantine::{
    self, FileState, MANIFEST, ORIGINAL, QuarantinedFile, QuarantinedStep, REMOVED, VERSION,
};
use crate::error::{Error, Result};
use crate::store::{Inventory, StaleSessionList};
use annals_jsonl as jsonl;

/// Action of a rebuild in a manifest.
pub(super) const REBUILD: &str = "rebuild";

impl QuarantinedFile {
    /// Returns whether the file is an index, not a log.
    pub fn is_index(&self) -> bool {
        self.steps.iter().any(|step| step.action == REBUILD)
    }
}

impl Repairs<'_> {
    /// Returns the session lists that are missing, damaged or stale.
    pub fn stale_session_lists(&self, inventory: &Inventory) -> Vec<Result<StaleSessionList>> {
        StaleSessionList::find_all(self.store.roots(), inventory)
    }

    /// Rebuilds a session list from its logs without the quarantine. Saves a copy of a damaged one
    /// next to it.
    pub fn rebuild_session_list(&self, stale: &StaleSessionList) -> Result<()> {
        stale.rebuild_in_place()
    }

    /// Rebuilds an index from its logs. The original is in the quarantine before anything changes;
    /// returns `None` if there was no original, or nothing has to be done any more.
    ///
    /// Fails with [`Held`](annals_jsonl::Error::Held), unless `live`, if another program has it open for writing.
    pub fn repair_session_list(
        &self,
        stale: &StaleSessionList,
        live: bool,
        now: Timestamp,
    ) -> Result<Option<QuarantinedFile>> {
        stale.root.ensure_inside(&stale.path)?;
        loop {
            let Some(rebuilt) = stale.rebuild()? else {
                return Ok(None);
            };
            let Some(old) = &rebuilt.old else {
                match stale.apply(&rebuilt, live)? {
                    true => return Ok(None),
                    false => continue,
                }
            };
            let kept = describe(stale, old, &rebuilt.new, now)?;
            let folder = self.quarantine()?.join(&kept.id);
            jsonl::ensure_dir(&folder)?;
            quarantine::write_document(&folder.join(ORIGINAL), old)?;
            quarantine::write_document(&folder.join(REMOVED), b"")?;
            let manifest = serde_json::to_vec_pretty(&kept);
            let manifest = manifest.map_err(|error| Error::refused(error.to_string()))?;
            quarantine::write_document(&folder.join(MANIFEST), &manifest)?;
            match stale.apply(&rebuilt, live) {
                Ok(true) => return Ok(Some(kept)),
                // Another program wrote to it meanwhile: the quarantined copy is outdated.
                Ok(false) => self.remove_folder(&kept.id)?,
                Err(error) => {
                    // A repair that did not happen must not be undone. If the removal fails too,
                    // the next sweep removes it.
                    let _ = self.remove_folder(&kept.id);
                    return Err(error);
                }
            }
        }
    }
}

fn describe(
    stale: &StaleSessionList,
    old: &[u8],
    new: &[u8],
    now: Timestamp,
) -> Result<QuarantinedFile> {
    let (path, root) = (&stale.path, &stale.root);
    let metadata = path.symlink_metadata();
    let metadata = metadata.map_err(|error| Error::io("stat", path, error))?;
    let within = path.strip_prefix(&root.path).map_err(|_| {
        let root = root.path.display();
        Error::refused(format!("{} is outside of {root}", path.display()))
    })?;
    let state = |bytes: &[u8]| FileState {
        bytes: bytes.len() as u64,
        sha256: hex(&Sha256::digest(bytes)),
        mode: metadata.mode() & 0o7777,
        mtime_ns: mtime_ns(&metadata),
    };
    let original = state(old);
    Ok(QuarantinedFile {
        version: VERSION,
        id: repair_id(None, path, &original),
        layout: root.layout.name().to_owned(),
        root: root.path.clone(),
        lone: false,
        path: within.to_owned(),
        session: None,
        repaired: now,
        original,
        result: FileState {
            mtime_ns: i64::try_from(now.as_nanosecond()).unwrap_or_default(),
            ..state(new)
        },
        steps: vec![QuarantinedStep {
            line: 1,
            offset: 0,
            action: REBUILD.to_owned(),
            detail: format!("{}; rebuilt from the logs", stale.detail),
        }],
    })
}
