//! Repairs: damaged logs become whole again, and nothing of them is lost.
//!
//! A [`RepairPlan`] says line by line what would be done to one file; it is made from the file's lines and
//! the tree of its entries and changes nothing. [`Store::repair`](crate::store::Store::repair) does it: the original goes into the
//! quarantine first ([`QuarantinedFile`]), and [`Store::undo_repair`](crate::store::Store::undo_repair) puts it back byte for byte.
//!
//! What is mended: lines that hold no record, several, or one among what is none (see
//! [`salvage`](crate::layout::salvage)); a header that is missing; links that lead nowhere or in
//! circles; entries that hide behind others of the same id. Every line that none of this concerns stays
//! as it is, byte for byte and in its order. An unfinished last line stays as long as it may be pending:
//! until the file was not written to for an hour.
//!
//! What is repaired once is sound: a second plan of the result is empty.

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
use crate::jsonl::{self, RangeReader, ReadAt as _};
use crate::layout::Decoded;
use crate::model::{ArtifactKind, EntryKey, Fact, Link, Outline, SessionId};
use crate::store::{
    Inventory, Root, RootFile, SessionFiles, StaleSessionList, each_line, ensure_not_in_use,
    record_from_line, with_scanner,
};

pub use orphan_files::OrphanFiles;
pub use plan::{Action, LineEdits, RemovedBytes, Step, Unrepaired};
pub use quarantine::{FileState, QuarantinedFile, QuarantinedStep, VERSION};

use plan::RepairReader;

/// So long an unfinished last line may be someone's who is still writing it.
const PENDING: SignedDuration = SignedDuration::from_hours(1);

/// A file that a repair may be for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairTarget {
    /// Its root.
    pub root: Root,
    /// The file by itself: whole, even if several sessions lie in it.
    pub file: RootFile,
    /// The session it belongs to, if that is only one.
    pub session: Option<SessionId>,
    /// Other logs that may name entries of this one.
    others: Vec<RootFile>,
}

/// What would be done to one file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairPlan {
    /// Its root.
    pub root: Root,
    /// The file, as it was when it was read.
    pub file: RootFile,
    /// The session it belongs to, if that is only one.
    pub session: Option<SessionId>,
    /// What would be done.
    pub edits: LineEdits,
}

impl RepairTarget {
    /// All files of the roots that can be mended, each once.
    pub fn all(inventory: &Inventory) -> Vec<RepairTarget> {
        let mut found = RepairTarget::from_sessions(inventory.sessions.iter());
        let others = inventory.others.iter();
        let others = others.filter(|(_, file)| is_repairable(file.artifact.kind));
        found.extend(others.map(|(root, file)| RepairTarget {
            root: root.clone(),
            file: single_volume(file),
            session: file.artifact.session.clone(),
            others: Vec::new(),
        }));
        found
    }

    /// The files of some sessions.
    pub fn from_sessions<'a>(
        sessions: impl Iterator<Item = &'a SessionFiles>,
    ) -> Vec<RepairTarget> {
        let mut found: BTreeMap<PathBuf, RepairTarget> = BTreeMap::new();
        for files in sessions {
            let volumes = files.files().flat_map(RootFile::volumes);
            let volumes = volumes.filter(|file| is_repairable(file.artifact.kind));
            let volumes: Vec<&RootFile> = volumes.collect();
            for file in &volumes {
                let beside = volumes.iter().filter(|other| other.path != file.path);
                let beside = beside.map(|other| single_volume(other));
                match found.get_mut(&file.path) {
                    Some(known) => {
                        // Sub-agents of one session may share a file with it.
                        known.session.take_if(|session| *session != files.id);
                        known.others.extend(beside);
                    }
                    None => {
                        let patient = RepairTarget {
                            root: Root::clone(&files.root),
                            file: single_volume(file),
                            session: Some(files.id.clone()),
                            // Only names that depend on the place can be lost.
                            others: match file.slice.is_some() || volumes.len() < 100 {
                                true => beside.collect(),
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

    /// Whether an index lists it.
    pub fn is_listed_in(&self, index: &StaleSessionList) -> bool {
        let writer = self.root.layout.writer();
        let register = writer.and_then(|writer| writer.session_list(&self.file.artifact));
        let path = register.map(|register| self.root.layout.path_for(&register));
        path.is_some_and(|path| self.root.path.join(path) == index.path)
    }

    /// Only the file at that path.
    pub fn filter_by_path(mut patients: Vec<RepairTarget>, path: &Path) -> Vec<RepairTarget> {
        patients.retain(|patient| patient.file.path == path);
        patients
    }
}

/// Files of records that annals knows how to mend.
pub(crate) fn is_repairable(kind: ArtifactKind) -> bool {
    use ArtifactKind as K;
    kind.is_conversation() || matches!(kind, K::Notes | K::Companion | K::History)
}

/// Files whose entries are given other links or ids. Where several sessions share one, what an entry
/// hangs from is not told by where it stands.
pub(crate) fn can_relink(kind: ArtifactKind) -> bool {
    matches!(kind, ArtifactKind::SessionLog | ArtifactKind::AgentLog)
}

/// One volume by itself, with all that lies in it.
fn single_volume(file: &RootFile) -> RootFile {
    let mut file = RootFile {
        earlier: Vec::new(),
        ..file.clone()
    };
    if file.slice.take().is_some() {
        file.artifact.agent = None;
    }
    file
}

impl RepairPlan {
    /// Reads a file and works out what would mend it at a moment.
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
            Ok(())
        })?;
        let mut read = |span: crate::model::Span| {
            jsonl::read_span(&handle, span.offset, span.len).map_err(failed)
        };
        let mut named = || referenced_keys(root, &patient.others);
        let mending = reading.finish(&mut read, &mut named)?;
        Ok(RepairPlan {
            root: root.clone(),
            file,
            session: patient.session.clone(),
            edits: mending,
        })
    }

    /// Reads many files; those that need nothing give no plan. `progress` hears of bytes done and
    /// bytes in all.
    pub fn all(
        patients: &[RepairTarget],
        now: Timestamp,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Result<RepairPlan>> {
        let total = patients.iter().map(|patient| patient.file.id.len).sum();
        let done = AtomicU64::new(0);
        let mut order: Vec<&RepairTarget> = patients.iter().collect();
        order.sort_by_key(|patient| std::cmp::Reverse(patient.file.id.len));
        let plans = order.into_par_iter().with_max_len(1).map(|patient| {
            let plan = RepairPlan::new(patient, now);
            let len = patient.file.id.len;
            progress(done.fetch_add(len, Ordering::Relaxed) + len, total);
            (&patient.file.path, plan)
        });
        let mut plans: Vec<(&PathBuf, Result<RepairPlan>)> = plans
            .filter(|(_, plan)| plan.as_ref().map_or(true, RepairPlan::has_findings))
            .collect();
        plans.sort_by_key(|(path, _)| *path);
        plans.into_iter().map(|(_, plan)| plan).collect()
    }

    /// Something is done, or is wrong and left.
    fn has_findings(&self) -> bool {
        !self.edits.is_empty() || !self.edits.unrepaired.is_empty()
    }

    /// Fails with [`Error::Live`] if another program is writing to the file right now, and with
    /// [`Error::Held`] if one has it open for writing.
    pub fn ensure_not_in_use(&self) -> Result<()> {
        jsonl::ensure_not_open([(self.file.path.as_path(), &self.file.id)])?;
        ensure_not_in_use(&self.root, &self.file)
    }
}

/// The entries that files name.
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
