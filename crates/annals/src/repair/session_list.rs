//! Rebuilds stale session lists from their logs. Saves the original like that of a log.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::Repairs;
use super::apply::{describe, hex, view};
use super::quarantine::QuarantinedFile;
use crate::error::{Error, Result};
use crate::store::{Inventory, StaleSessionList};
use crate::undo::{FileState, Manifest, RepairRecord, RepairStep};

/// Action of a rebuild in a manifest.
const REBUILD: &str = "rebuild";

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
            let manifest = describe_rebuild(stale, old, &rebuilt.new, now)?;
            let source = |put: &mut dyn FnMut(&[u8]) -> Result<()>| put(old);
            match self.replace(&manifest, &[], source, || stale.apply(&rebuilt, live)) {
                Ok(true) => return view(manifest).map(Some),
                // Another program wrote to it meanwhile: the saved copy is outdated.
                Ok(false) => self.discard(&manifest)?,
                Err(error) => {
                    // A repair that did not happen must not be undone. If the removal fails too,
                    // the next sweep removes it.
                    let _ = self.discard(&manifest);
                    return Err(error);
                }
            }
        }
    }
}

fn describe_rebuild(
    stale: &StaleSessionList,
    old: &[u8],
    new: &[u8],
    now: Timestamp,
) -> Result<Manifest> {
    let path = &stale.path;
    let metadata = path.symlink_metadata();
    let metadata = metadata.map_err(|error| Error::io("stat", path, error))?;
    let state = |bytes: &[u8]| {
        let sum = hex(&Sha256::digest(bytes));
        FileState::new(bytes.len() as u64, sum, &metadata)
    };
    let record = RepairRecord {
        original: state(old),
        result: FileState {
            mtime_ns: i64::try_from(now.as_nanosecond()).unwrap_or_default(),
            ..state(new)
        },
        steps: vec![RepairStep {
            line: 1,
            offset: 0,
            action: REBUILD.to_owned(),
            detail: format!("{}; rebuilt from the logs", stale.detail),
        }],
    };
    describe(&stale.root, path, None, record, now)
}
