//! Repairs damaged logs without losing any of their bytes.
//!
//! A [`RepairPlan`] describes line by line what would be done to one file; it is derived from the
//! file's lines and the tree of its entries, and changes nothing.
//! [`Repairs::apply`] applies it: the original is copied to the [`undo`](crate::undo) vault first
//! ([`QuarantinedFile`]), and [`Repairs::undo`] restores it byte for byte.
//! [`Store::repairs`] returns the handle, [`Repairs`].
//!
//! Repaired are: lines with no record, several records, or a record among other bytes (see
//! [`salvage`](annals_layouts::layout::salvage)); a missing header; links to missing entries and cycles;
//! entries hidden by others with the same id. Every other line stays unchanged, byte for byte and
//! in order. An unfinished last line stays as long as it may be pending: until the file has not
//! been written to for an hour.
//!
//! Repair is idempotent: a second plan of the result is empty.

mod apply;
mod links;
mod orphan_files;
mod plan;
mod quarantine;
mod session_list;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::store::{
    Inventory, Root, RootFile, SessionFiles, StaleSessionList, Store, each_line, ensure_not_in_use,
    put_back_removed, record_from_line, with_scanner,
};
use annals_jsonl::{self as jsonl, RangeReader, ReadAt as _};
use annals_layouts::layout::Decoded;
use annals_layouts::model::{
    Artifact, ArtifactKind, EntryKey, Fact, Framing, Link, Outline, SessionId,
};

pub use orphan_files::OrphanFiles;
pub use plan::{Action, LineEdits, RemovedBytes, Step, Unrepaired};
pub use quarantine::QuarantinedFile;

use plan::RepairReader;

/// Time for which an unfinished last line may still be in the process of being written.
const PENDING: SignedDuration = SignedDuration::from_hours(1);

/// The repairs of a store's files, and the quarantine of their originals.
#[derive(Clone, Copy, Debug)]
pub struct Repairs<'a> {
    store: &'a Store,
}

impl Store {
    /// Returns the repairs.
    pub fn repairs(&self) -> Repairs<'_> {
        Repairs { store: self }
    }
}

impl Repairs<'_> {
    /// Restores all files that a killed process was removing from the roots. Returns their paths.
    ///
    /// Does not check for copies elsewhere: the removal can be repeated.
    pub fn put_back_removed(&self) -> Result<Vec<PathBuf>> {
        put_back_removed(self.store.roots())
    }
}

/// A file that may need repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairTarget {
    /// Its root.
    pub(crate) root: Root,
    /// The file alone: as a whole, even if several sessions share it.
    pub file: RootFile,
    /// Its session, if there is only one.
    pub session: Option<SessionId>,
    /// Other logs that may refer to entries of this one.
    others: Vec<RootFile>,
}

/// Repair plan of one file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairPlan {
    /// Its root.
    pub root: Root,
    /// The file when it was read.
    pub file: RootFile,
    /// Its session, if there is only one.
    pub session: Option<SessionId>,
    /// The planned changes.
    pub edits: LineEdits,
}

impl RepairTarget {
    /// Returns all repairable files of the roots, each once.
    pub fn all(inventory: &Inventory) -> Vec<RepairTarget> {
        let mut found = RepairTarget::from_sessions(inventory.sessions.iter());
        let others = inventory.others.iter();
        let others = others
            .filter(|(root, file)| root.layout.writer().is_some() && is_repairable(&file.artifact));
        found.extend(others.map(|(root, file)| RepairTarget {
            root: root.clone(),
            file: single_volume(file),
            session: file.artifact.session.clone(),
            others: Vec::new(),
        }));
        found
    }

    /// Returns the repairable files of some sessions.
    pub fn from_sessions<'a>(
        sessions: impl Iterator<Item = &'a SessionFiles>,
    ) -> Vec<RepairTarget> {
        let mut found: BTreeMap<PathBuf, RepairTarget> = BTreeMap::new();
        for files in sessions.filter(|files| files.root.layout.writer().is_some()) {
            let volumes = files.files().flat_map(RootFile::volumes);
            let volumes = volumes.filter(|file| is_repairable(&file.artifact));
            let volumes: Vec<&RootFile> = volumes.collect();
            for file in &volumes {
                let others = volumes.iter().filter(|other| other.path != file.path);
                let others = others.map(|other| single_volume(other));
                match found.get_mut(&file.path) {
                    Some(known) => {
                        // Sub-agents of one session may share a file with it.
                        known.session.take_if(|session| *session != files.id);
                        known.others.extend(others);
                    }
                    None => {
                        let patient = RepairTarget {
                            root: Root::clone(&files.root),
                            file: single_volume(file),
                            session: Some(files.id.clone()),
                            // Only ids that depend on the position can be lost.
                            others: match file.slice.is_some() || volumes.len() < 100 {
                                true => others.collect(),
                                false => Vec::new(),
                            },
                        };
                        found.insert(file.path.clone(), patient);
                    }
                }
            }
        }
        found.into_values().collect()
    }

    /// Returns whether an index lists it.
    pub fn is_listed_in(&self, index: &StaleSessionList) -> bool {
        let writer = self.root.layout.writer();
        let session_list = writer.and_then(|writer| writer.session_list(&self.file.artifact));
        let path = session_list.map(|session_list| self.root.layout.path_for(&session_list));
        path.is_some_and(|path| self.root.path.join(path) == index.path)
    }

    /// Retains only the target at `path`.
    pub fn filter_by_path(mut patients: Vec<RepairTarget>, path: &Path) -> Vec<RepairTarget> {
        patients.retain(|patient| patient.file.path == path);
        patients
    }
}

/// Returns whether annals can repair such a file: only records that are lines of it.
pub(crate) fn is_repairable(artifact: &Artifact) -> bool {
    use ArtifactKind as K;
    let has_lines = match artifact.framing {
        Framing::Document(format) => format.keeps_lines,
        _ => true,
    };
    let kind = artifact.kind;
    has_lines && (kind.is_conversation() || matches!(kind, K::Notes | K::Companion | K::History))
}

/// Returns whether entries of such files may be given other links or ids. In a file shared by
/// several sessions, the position of an entry does not determine its parent.
pub(crate) fn can_relink(kind: ArtifactKind) -> bool {
    matches!(kind, ArtifactKind::SessionLog | ArtifactKind::AgentLog)
}

/// Returns one volume alone, with everything in it.
fn single_volume(file: &RootFile) -> RootFile {
    let mut file = RootFile {
        earlier: Vec::new(),
        ..file.clone()
    };
    if file.slice.take().is_some() {
        file.artifact.agent = None;
    }
    if file.artifact.framing.keeps_lines() {
        // The lines of the file itself are repaired.
        file.artifact.framing = Framing::Lines;
    }
    file
}

impl RepairPlan {
    /// Reads a file and plans its repair at time `now`.
    pub fn new(patient: &RepairTarget, now: Timestamp) -> Result<RepairPlan> {
        let (root, path) = (&patient.root, &patient.file.path);
        let failed = |error| Error::io("read", path, error);
        let handle = patient.file.open()?;
        let mut file = patient.file.clone();
        file.id = handle.id().map_err(failed)?;
        let artifact = file.artifact.clone();
        let mut reading = RepairReader::new(root.layout, &artifact);
        let written = Timestamp::from_nanosecond(file.id.mtime_ns.into()).ok();
        reading.is_stable = written.is_some_and(|written| now.duration_since(written) >= PENDING);
        with_scanner(RangeReader::from_offset(handle.clone(), 0), |lines| {
            while let Some(line) = lines.next().map_err(failed)? {
                reading.line(&record_from_line(&line));
            }
            Ok::<_, Error>(())
        })?;
        let mut read = |span: annals_layouts::model::Span| {
            jsonl::read_span(&handle, span.offset, span.len).map_err(failed)
        };
        let mut named = || referenced_keys(root, &patient.others);
        let edits = reading.finish(&mut read, &mut named)?;
        Ok(RepairPlan {
            root: root.clone(),
            file,
            session: patient.session.clone(),
            edits,
        })
    }

    /// Plans the repair of many files; files without findings are omitted. Calls `progress` with
    /// the bytes done and in total.
    pub fn all(
        patients: &[RepairTarget],
        now: Timestamp,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<RepairPlan>> {
        let total = patients.iter().map(|patient| patient.file.id.len).sum();
        let done = AtomicU64::new(0);
        let mut order: Vec<&RepairTarget> = patients.iter().collect();
        crate::sort::by_key(&mut order, |patient| std::cmp::Reverse(patient.file.id.len));
        let plans = order.into_par_iter().with_max_len(1).map(|patient| {
            let plan = RepairPlan::new(patient, now);
            let len = patient.file.id.len;
            progress(done.fetch_add(len, Ordering::Relaxed) + len, total);
            (&patient.file.path, plan)
        });
        let mut plans: Vec<(&PathBuf, Result<RepairPlan>)> = plans
            .filter(|(_, plan)| plan.as_ref().map_or(true, RepairPlan::has_findings))
            .collect();
        crate::sort::by_key(&mut plans, |(path, _)| *path);
        plans.into_iter().map(|(_, plan)| plan).collect()
    }

    /// Returns whether there is something to repair or to report.
    fn has_findings(&self) -> bool {
        !self.edits.is_empty() || !self.edits.unrepaired.is_empty()
    }

    /// Fails with [`Error::Live`] if another program is writing to the file, and with
    /// [`Held`](annals_jsonl::Error::Held) if one has it open for writing.
    pub fn ensure_not_in_use(&self) -> Result<()> {
        let open = jsonl::ensure_not_open([(self.file.path.as_path(), &self.file.id)]);
        open.map_err(jsonl::Error::for_removal)?;
        ensure_not_in_use(&self.root, &self.file)
    }
}

/// Returns the keys of entries that files refer to.
fn referenced_keys(root: &Root, files: &[RootFile]) -> Result<HashSet<EntryKey>> {
    let mut named = HashSet::new();
    for file in files {
        let mut decoder = root.decoder(file);
        let mut sink: Decoded<Outline> = Decoded::default();
        each_line(file, |record| {
            decoder.outline(record, &mut sink);
            sink.flaws.clear();
            for outline in sink.items.drain(..) {
                if let Link::Parent(key) | Link::Continues(key) = outline.link {
                    named.insert(key);
                }
                for fact in outline.facts {
                    if let Fact::Summary(_, Some(key)) | Fact::Resume(key) = fact {
                        named.insert(key);
                    }
                }
            }
            Ok(true)
        })?;
    }
    Ok(named)
}

#[cfg(test)]
mod tests;
