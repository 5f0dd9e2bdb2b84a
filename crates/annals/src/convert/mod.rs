//! Conversion of sessions from one layout to another, and back without loss.
//!
//! Every entry is written with the writer of the target layout, the one that appends. What the
//! target cannot represent is stored as its origin, from which the source can be restored byte for
//! byte; see `origin.rs`. The files of a session are renamed into place at the end, the main log
//! last, so an interrupted conversion can be run again.
//!
//! An import is a conversion of an export into a root that may have other sessions (`import.rs`).
//!
//! Origins are part of the source, so the author of the source controls them. They restore logs and
//! other conversation data; configuration only if the user names it (`restore_filter.rs`).

mod archived;
mod encode;
mod import;
mod later_changes;
mod links;
mod origin;
mod other_files;
mod plan;
mod project_dirs;
mod restore;
mod restore_filter;
mod rows;
mod source;
mod summary;
mod target_ids;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::tz::TimeZone;
use rayon::prelude::*;

use crate::error::Result;
use crate::store::{Inventory, Root, RootFile, Session, SessionFiles, update_session_lists};
use annals_layouts::layout::{RowUpdate, Writer};
use annals_layouts::model::{AgentId, Artifact, ArtifactKind, SessionId};

use crate::store::staging::{PendingFile, StagingDir};
use encode::{SessionPart, Target};
use origin::Header;
use project_dirs::ProjectDirs;
use restore::SharedLines;
use target_ids::TargetIds;

pub use import::{ExportContents, ExportSource, ImportOptions, Imported, Importer};
pub use plan::{ConvertPlan, plan, plan_into_root, plan_without_archived};
pub use rows::{ContinuedSession, continue_in_rows, session_id_in_rows};

/// Source of a conversion: a root, a project, sessions or a conversation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConvertSelection {
    /// All files in a root, including files that belong to no session.
    Root(Root),
    /// Sessions, each with all of its files.
    Sessions(Vec<SessionFiles>),
    /// One path through a session's main log.
    Conversation {
        /// The session.
        files: Box<SessionFiles>,
        /// Its entries, by outline index.
        path: Vec<usize>,
    },
}

/// Options for a conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Store what the target cannot represent, so that the source can be restored.
    pub origin: bool,
    /// Time zone for logs that are named after days.
    pub zone: TimeZone,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        ConvertOptions {
            origin: true,
            zone: TimeZone::system(),
        }
    }
}

/// Result of a conversion.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertReport {
    /// Sessions that were converted or restored.
    pub sessions: usize,
    /// Sessions that an earlier run has already converted.
    pub already_converted: usize,
    /// Restored files.
    pub restored: usize,
    /// Entries, todos and titles added to restored sessions: changes made since the conversion.
    pub added: u64,
    /// Converted items, by kind.
    pub converted: BTreeMap<String, u64>,
    /// Items that the target cannot represent, by kind: stored as origins, or lost without them.
    pub unconverted: BTreeMap<String, u64>,
    /// Restored files with a wrong length: some of their lines are damaged.
    pub damaged: Vec<PathBuf>,
    /// Files that were not restored because their paths exist.
    pub existing_files: Vec<PathBuf>,
    /// Existing sessions that differ from what this run would write, and why.
    pub differing: Vec<(String, &'static str)>,
    /// Sessions that could not be converted, and why.
    pub failed: Vec<(String, String)>,
}

/// Outcome of one session.
#[derive(Default)]
struct SessionOutcome {
    id: Option<SessionId>,
    already_converted: bool,
    restored: bool,
    files: usize,
    existing_files: Vec<PathBuf>,
    damaged: Vec<PathBuf>,
    /// Updates for the session lists.
    rows: Vec<RowUpdate>,
    counts: Counts,
    /// Changes made after the conversion that is being undone.
    later_changes: later_changes::LaterChanges,
    /// Why the existing session differs from what this run would write.
    difference: Option<&'static str>,
    /// Its files, if they are merged with those of the target.
    merge: Option<MergedSession>,
}

/// Files of a converted session that are not yet in the target.
struct MergedSession {
    /// The main log.
    log: Artifact,
    /// Number of sub-agents.
    agents: u64,
    /// In the order in which they are renamed.
    files: Vec<PendingFile>,
    /// Lines for logs that several sessions share.
    shared: Vec<(PathBuf, Vec<Vec<u8>>)>,
}

/// Number of entries of each kind.
#[derive(Default)]
struct Counts {
    converted: BTreeMap<String, u64>,
    unconverted: BTreeMap<String, u64>,
}

impl Counts {
    fn add_converted(&mut self, kind: &str) {
        add_one(&mut self.converted, kind);
    }

    fn add_unconverted(&mut self, kind: &str) {
        add_one(&mut self.unconverted, kind);
    }
}

fn add_one(counts: &mut BTreeMap<String, u64>, kind: &str) {
    match counts.get_mut(kind) {
        Some(known) => *known += 1,
        None => {
            counts.insert(kind.to_owned(), 1);
        }
    }
}

/// Runs a conversion. Calls `progress` with the bytes done and the total.
pub fn run(
    plan: &ConvertPlan,
    options: &ConvertOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<ConvertReport> {
    let root = &plan.target;
    let Some(writer) = root.layout.writer() else {
        return rows::run(plan, options, progress);
    };
    let stage = StagingDir::open(root)?;
    let there = shared_record_counts(root);
    let ids = TargetIds::new(&plan.sessions).in_addition(plan.is_addition);
    let target = Target {
        root,
        writer,
        zone: &options.zone,
        stage: &stage,
        origin: options.origin,
        existing_records: &there,
        ids: &ids,
        restore_filter: plan.restore_filter(),
        merge: false,
    };
    let mut report = ConvertReport::default();
    let mut shared = SharedLines::new();
    let done = AtomicU64::new(0);
    let step = |bytes: u64| {
        let so_far = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress(so_far, plan.bytes);
    };
    let mut forward: Vec<&SessionFiles> = Vec::new();
    let mut back: Vec<(&SessionFiles, Header)> = Vec::new();
    for files in &plan.sessions {
        match restore::session_header(root.layout.name(), files)? {
            Some(header) => back.push((files, header)),
            None => forward.push(files),
        }
    }
    let project_dirs = ProjectDirs::new(&plan.sessions);
    // Largest first, so that no thread is left with a large session at the end.
    crate::sort::by_key(&mut forward, |files| std::cmp::Reverse(files.log_bytes()));
    let convert = |files: &&SessionFiles| {
        let settled = (|| {
            let mut session = Session::read((*files).clone())?;
            session.refuse_unreadable()?;
            project_dirs.fill_in(&mut session);
            let part = match &plan.path {
                Some(path) => SessionPart::Path(path),
                None => SessionPart::Whole,
            };
            encode::session(&target, &session, &part)
        })();
        step(files.bytes());
        (files.id.to_string(), settled)
    };
    // Sessions that share a log must have the same order in each run.
    let shares = uses_shared_logs(writer, &target);
    let settled: Vec<(String, Result<SessionOutcome>)> = match shares {
        true => {
            crate::sort::by(&mut forward, |a, b| a.id.cmp(&b.id));
            forward.iter().map(convert).collect()
        }
        false => forward.par_iter().with_max_len(1).map(convert).collect(),
    };
    let mut rows = Rows::new();
    for (id, settled) in settled {
        add_outcome(&mut report, &mut rows, id, settled);
    }
    let restored: Vec<(String, Result<(SessionOutcome, SharedLines)>)> = back
        .par_iter()
        .with_max_len(1)
        .map(|(files, header)| {
            let mut shared = SharedLines::new();
            let settled = restore::restore_session(&target, files, header, &mut shared);
            step(files.bytes());
            (
                files.id.to_string(),
                settled.map(|settled| (settled, shared)),
            )
        })
        .collect();
    let mut fresh = Vec::new();
    for (id, outcome) in restored {
        let settled = outcome.map(|(mut settled, lines)| {
            for (path, lines) in lines {
                shared.entry(path).or_default().extend(lines);
            }
            let since = std::mem::take(&mut settled.later_changes);
            if !since.is_empty() {
                fresh.extend(settled.id.clone().map(|id| (id, since)));
            }
            settled
        });
        add_outcome(&mut report, &mut rows, id, settled);
    }
    if let Some(source) = &plan.source {
        let settled = convert_other_files(&target, plan, source, &mut shared)?;
        report.restored += settled.files;
        report.existing_files.extend(settled.existing_files);
        report.damaged.extend(settled.damaged);
        add_counts(&mut report.unconverted, settled.counts.unconverted);
    }
    for (path, lines) in shared {
        let mut out = stage.file(&path)?;
        for bytes in lines.values() {
            out.put(bytes)?;
        }
        match stage.commit(out)? {
            true => report.restored += 1,
            false => report.existing_files.push(root.path.join(path)),
        }
    }
    report.existing_files.extend(stage.close()?);
    crate::sort::by(&mut rows, |a, b| {
        (a.started, row_key(a)).cmp(&(b.started, row_key(b)))
    });
    update_session_lists(root, writer, rows)?;
    let (added, failed) = later_changes::write_changes(root, writer, fresh);
    report.added = added;
    report.failed.extend(failed);
    Ok(report)
}

/// Updates for the session lists of the target.
type Rows = Vec<RowUpdate>;

fn row_key(row: &RowUpdate) -> Option<(&SessionId, Option<&AgentId>)> {
    let log = row.log.as_ref()?;
    Some((log.session.as_ref()?, log.agent.as_ref()))
}

fn add_outcome(
    report: &mut ConvertReport,
    rows: &mut Rows,
    id: String,
    settled: Result<SessionOutcome>,
) {
    let settled = match settled {
        Ok(settled) => settled,
        Err(error) => {
            report.failed.push((id, error.to_string()));
            return;
        }
    };
    if let Some(why) = settled.difference {
        report.differing.push((id, why));
    } else if settled.already_converted {
        report.already_converted += 1;
    } else {
        report.sessions += 1;
    }
    report.restored += settled.files;
    report.existing_files.extend(settled.existing_files);
    report.damaged.extend(settled.damaged);
    add_counts(&mut report.converted, settled.counts.converted);
    add_counts(&mut report.unconverted, settled.counts.unconverted);
    rows.extend(settled.rows);
}

fn add_counts(sum: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (kind, number) in more {
        *sum.entry(kind).or_insert(0) += number;
    }
}

/// Converts files that belong to no session: stores them as origins, or restores them from origins.
fn convert_other_files(
    target: &Target<'_>,
    plan: &ConvertPlan,
    source: &Root,
    shared: &mut SharedLines,
) -> Result<SessionOutcome> {
    let own = source.path.join(annals_layouts::layout::ORIGIN_FILE);
    let header = restore::root_header(target.root.layout.name(), source)?;
    let mut settled = match &header {
        Some(header) => restore::restore_root(target, &own, header, shared)?,
        None => SessionOutcome::default(),
    };
    let kind_of = |path: &Path| {
        let within = path.strip_prefix(&source.path).unwrap_or(path);
        source.layout.classify(within).map(|artifact| artifact.kind)
    };
    // If all sessions are restored, the session lists have no content of their own.
    let all_go_back = plan.restores > 0 && plan.restores == plan.sessions.len();
    let goes_back = header.is_some() || all_go_back;
    let mut kept = plan.others.clone();
    kept.retain(|path| !source.is_lock_file(path));
    kept.retain(|path| {
        let derived = goes_back && kind_of(path) == Some(ArtifactKind::SessionList);
        !derived && (header.is_none() || *path != own)
    });
    for path in &kept {
        let name = kind_of(path).map_or("other file", summary::artifact_label);
        settled.counts.add_unconverted(name);
    }
    if !target.origin || (goes_back && kept.is_empty()) {
        return Ok(settled);
    }
    // Written even if there is nothing to store: it marks the session lists of the target as
    // derived.
    let listed = kept.iter();
    let listed = listed.map(|path| other_files::source_file(source, path));
    let mut header = Header::new(source.layout.name(), None, listed.collect::<Result<_>>()?);
    if !goes_back {
        header.dirs.clone_from(&plan.dirs);
    }
    let place = Artifact::new(ArtifactKind::Origin);
    let place = target.root.layout.path_for(&place);
    let mut out = target.stage.file(&place)?;
    out.put_line(&other_files::to_json(&header)?)?;
    for (number, path) in kept.iter().enumerate() {
        other_files::write_whole_file(&mut out, path, number)?;
    }
    target.stage.commit(out)?;
    Ok(settled)
}

/// Returns the number of records of each session in the shared logs of a target.
fn shared_record_counts(root: &Root) -> HashMap<(PathBuf, SessionId), usize> {
    let inventory = Inventory::scan(std::slice::from_ref(root));
    let mut there = HashMap::new();
    for files in &inventory.sessions {
        for log in files.logs() {
            for volume in log.volumes().filter(|volume| volume.slice.is_some()) {
                let alone = RootFile {
                    earlier: Vec::new(),
                    ..volume.clone()
                };
                let mut records: usize = 0;
                let scan = crate::store::outline_with(root, &alone, &mut |_, _, _| records += 1);
                // A line torn by an interrupted run does not count.
                let hidden = scan.map_or(records, |scan| {
                    let hidden = scan.flaws.iter().filter(|flaw| flaw.kind.hides_record());
                    hidden.count()
                });
                *there
                    .entry((volume.path.clone(), files.id.clone()))
                    .or_insert(0) += records.saturating_sub(hidden);
            }
        }
    }
    there
}

/// Returns whether the target's layout stores several sessions in one log.
fn uses_shared_logs(writer: &dyn Writer, target: &Target<'_>) -> bool {
    let mut fresh = String::new;
    let mut stamp = annals_layouts::layout::PlanContext {
        now: jiff::Timestamp::UNIX_EPOCH,
        limit: None,
        zone: target.zone.clone(),
        new_id: &mut fresh,
    };
    let id = SessionId::new(&writer.valid_id("probe"));
    let new = id.map(|id| annals_layouts::layout::NewSession::new(id, "/"));
    let artifact = new.and_then(|new| writer.new_session_log(&new, &mut stamp));
    artifact.is_ok_and(|artifact| artifact.kind == ArtifactKind::SharedLog)
}
