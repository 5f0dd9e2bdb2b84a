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
mod project_dirs;
mod restore;
mod restore_filter;
mod rows;
mod source;
mod summary;
mod target_ids;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::tz::TimeZone;
use rayon::prelude::*;

use crate::archive::Archive;
use crate::error::{Error, Result};
use crate::store::{Inventory, Root, RootFile, Session, SessionFiles, update_session_lists};
use annals_jsonl as jsonl;
use annals_jsonl::removal_name::is_removed;
use annals_layouts::layout::{RowUpdate, Writer};
use annals_layouts::model::{AgentId, Artifact, ArtifactKind, SessionId};

use crate::store::staging::{self, PendingFile, StagingDir};
use archived::ArchivedOnly;
use encode::{SessionPart, Target};
use origin::Header;
use project_dirs::ProjectDirs;
use restore::SharedLines;
use restore_filter::RestoreFilter;
use target_ids::TargetIds;

pub use import::{ExportContents, ExportSource, ImportOptions, Imported, Importer};
pub use rows::{continue_in_rows, session_id_in_rows};

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

/// A planned conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertPlan {
    /// Sessions to convert.
    pub sessions: Vec<SessionFiles>,
    /// Number of sessions that came from the target's layout and are restored.
    pub restores: usize,
    /// Total size of the files, in bytes.
    pub bytes: u64,
    /// Files that belong to no session.
    pub others: Vec<PathBuf>,
    /// Items that cannot be converted, with reasons.
    pub left_out: Vec<String>,
    /// Files that are restored from origins and are not logs, by path in the target.
    pub documents: Vec<PathBuf>,
    /// Files and directories in origins that are not conversation data. They are not restored
    /// unless [`restore_also`](Self::restore_also) names them.
    pub withheld: Vec<PathBuf>,
    named: Vec<PathBuf>,
    source: Option<Root>,
    target: Root,
    path: Option<HashSet<usize>>,
    dirs: Vec<String>,
    /// Whether the target may have other sessions.
    is_addition: bool,
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

/// Plans a conversion. Changes nothing.
///
/// Refuses a root or a session with files that exist only in the archive: they would be left out
/// silently.
pub fn plan(
    selection: ConvertSelection,
    into: Root,
    archive: Option<&Archive>,
) -> Result<ConvertPlan> {
    make_plan(selection, into, archive, false)
}

/// Same as [`plan`], but leaves out what exists only in the archive and lists it in `left_out`.
pub fn plan_without_archived(
    selection: ConvertSelection,
    into: Root,
    archive: Option<&Archive>,
) -> Result<ConvertPlan> {
    make_plan(selection, into, archive, true)
}

/// Same as [`plan`], for a root that may have other sessions already.
pub fn plan_into_root(selection: ConvertSelection, into: Root) -> Result<ConvertPlan> {
    if matches!(selection, ConvertSelection::Root(_)) {
        return Err(Error::refused(
            "a whole root is converted into an empty directory",
        ));
    }
    let mut plan = empty_plan(into);
    plan.is_addition = true;
    fill_plan(plan, selection, None, false)
}

fn make_plan(
    selection: ConvertSelection,
    into: Root,
    archive: Option<&Archive>,
    without_archived: bool,
) -> Result<ConvertPlan> {
    fill_plan(empty_plan(into), selection, archive, without_archived)
}

fn empty_plan(into: Root) -> ConvertPlan {
    ConvertPlan {
        sessions: Vec::new(),
        restores: 0,
        bytes: 0,
        others: Vec::new(),
        left_out: Vec::new(),
        documents: Vec::new(),
        withheld: Vec::new(),
        named: Vec::new(),
        source: None,
        target: into,
        path: None,
        dirs: Vec::new(),
        is_addition: false,
    }
}

fn fill_plan(
    mut plan: ConvertPlan,
    selection: ConvertSelection,
    archive: Option<&Archive>,
    without_archived: bool,
) -> Result<ConvertPlan> {
    let into = &plan.target;
    let writer = into.layout.writer();
    if writer.is_none() {
        return Err(Error::read_only(into.layout.name()));
    }
    match selection {
        ConvertSelection::Root(root) => {
            let roots = std::slice::from_ref(&root);
            let mut inventory = Inventory::scan_with_archive(roots, archive);
            refuse_errors(&mut inventory, &root)?;
            let kept = ArchivedOnly::new(&inventory.sessions, &inventory);
            match without_archived {
                false => kept.refuse(&root)?,
                true => {
                    inventory = Inventory::scan(roots);
                    refuse_errors(&mut inventory, &root)?;
                    plan.left_out.extend(kept.description());
                }
            }
            plan.sessions = inventory.sessions;
            // Sessions that exist only in a session list are converted with that list.
            plan.sessions.retain(|files| !files.is_unwritten());
            plan.source = Some(root);
        }
        ConvertSelection::Sessions(sessions) => plan.sessions = sessions,
        ConvertSelection::Conversation { files, path } => {
            plan.sessions = vec![*files];
            plan.path = Some(path.into_iter().collect());
        }
    }
    if without_archived && plan.source.is_none() {
        plan.left_out
            .extend(ArchivedOnly::new(&plan.sessions, &Inventory::default()).description());
        plan.sessions = archived::without_archived(&plan.sessions);
    }
    plan.sessions
        .iter()
        .try_for_each(SessionFiles::refuse_partly_archived)?;
    if let Some(files) = plan.sessions.iter().find(|files| files.is_unwritten()) {
        return Err(Error::refused(format!(
            "session {} has no messages yet, so there is nothing to convert",
            files.id
        )));
    }
    plan.check()?;
    plan.scan()?;
    Ok(plan)
}

impl ConvertPlan {
    /// Returns the target.
    pub fn target(&self) -> &Root {
        &self.target
    }

    /// Returns the id that a session has in the target.
    pub fn target_session(&self, files: &SessionFiles) -> Result<SessionId> {
        let header = restore::session_header(self.target.layout.name(), files)?;
        let id = match header.and_then(|header| header.session) {
            Some(id) => id,
            None => {
                let ids = TargetIds::new(&self.sessions).in_addition(self.is_addition);
                let id = ids.target_id(files);
                let writer = self.target.layout.writer();
                writer.map_or(id.clone(), |writer| writer.valid_id(&id))
            }
        };
        Ok(SessionId::new(&id)?)
    }

    /// Also restores the [`withheld`](Self::withheld) files at or below these paths. Refuses a path
    /// that no origin names.
    pub fn restore_also(&mut self, named: &[PathBuf]) -> Result<()> {
        for path in named {
            let below = |held: &PathBuf| !path.as_os_str().is_empty() && held.starts_with(path);
            if !self.withheld.iter().chain(&self.documents).any(below) {
                return Err(Error::refused(format!(
                    "no file to restore is named {}",
                    path.display()
                )));
            }
            self.documents
                .extend(self.withheld.extract_if(.., |held| below(held)));
        }
        self.documents.sort();
        self.named.extend_from_slice(named);
        Ok(())
    }

    fn restore_filter(&self) -> RestoreFilter<'_> {
        RestoreFilter {
            layout: self.target.layout,
            named: &self.named,
        }
    }

    fn sources(&self) -> impl Iterator<Item = &Root> {
        let roots = self.sessions.iter().map(|files| &*files.root);
        self.source.iter().chain(roots)
    }

    fn check(&self) -> Result<()> {
        let into = resolve_path(&self.target.path);
        for root in self.sources() {
            if root.layout.name() == self.target.layout.name() {
                return Err(Error::refused(format!(
                    "{} already has the layout {}; copy its files instead",
                    root.path.display(),
                    root.layout.name()
                )));
            }
            let from = resolve_path(&root.path);
            if into.starts_with(&from) || from.starts_with(&into) {
                return Err(Error::refused(format!(
                    "{} and {} overlap; choose another target",
                    self.target.path.display(),
                    root.path.display()
                )));
            }
        }
        Ok(())
    }

    /// Collects all files and checks the target.
    fn scan(&mut self) -> Result<()> {
        let mut known: HashSet<PathBuf> = HashSet::new();
        for files in &self.sessions {
            for file in files.files().flat_map(RootFile::volumes) {
                if known.insert(file.path.clone()) {
                    self.bytes += file.id.len;
                }
            }
        }
        let sessions = &self.sessions;
        let layout = self.target.layout.name();
        let headers = sessions.iter();
        let mut headers: Vec<Header> = headers
            .filter_map(|files| restore::session_header(layout, files).transpose())
            .collect::<Result<_>>()?;
        self.restores = headers.len();
        if let Some(root) = &self.source {
            headers.extend(restore::root_header(layout, root)?);
        }
        let (documents, held) = self.restore_filter().partition_files(&headers);
        (self.documents, self.withheld) = (documents, held);
        // A read-only layout is never converted back, so its other files, which may hold secrets, are
        // not needed.
        let source = self.source.clone();
        if let Some(root) = source.filter(|root| root.layout.writer().is_some()) {
            self.find_other_files(&root, &known)?;
        }
        match self.is_addition {
            true => Ok(()),
            false => self.check_target(),
        }
    }

    /// Finds the files of a root that belong to no session.
    fn find_other_files(&mut self, root: &Root, known: &HashSet<PathBuf>) -> Result<()> {
        let mut pending = vec![root.path.clone()];
        while let Some(dir) = pending.pop() {
            let failed = |error| Error::io("read", &dir, error);
            let mut empty = true;
            for entry in std::fs::read_dir(&dir).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                empty = false;
                let path = entry.path();
                let kind = entry.file_type().map_err(failed)?;
                let within = path.strip_prefix(&root.path).unwrap_or(&path);
                if kind.is_dir() {
                    pending.push(path);
                } else if kind.is_symlink() {
                    let target = std::fs::read_link(&path).unwrap_or_default();
                    self.left_out.push(format!(
                        "{}: symbolic link to {}, not followed",
                        within.display(),
                        target.display()
                    ));
                } else if !kind.is_file() {
                    let text = format!("{}: not a regular file", within.display());
                    self.left_out.push(text);
                } else if within.to_str().is_none() {
                    let text = format!("{}: file name is not UTF-8", within.display());
                    self.left_out.push(text);
                } else if is_removed(within) {
                    let text = format!("{}: annals is removing it", within.display());
                    self.left_out.push(text);
                } else if may_have_secrets(root, within) {
                    let text = format!("{}: may contain secrets, not converted", within.display());
                    self.left_out.push(text);
                } else if !known.contains(&path) {
                    self.bytes += entry.metadata().map_err(failed)?.len();
                    self.others.push(path);
                }
            }
            let within = dir.strip_prefix(&root.path).unwrap_or(&dir);
            if empty && let Some(text) = within.to_str().filter(|text| !text.is_empty()) {
                self.dirs.push(text.to_owned());
            }
        }
        self.others.sort();
        self.left_out.sort();
        self.dirs.sort();
        Ok(())
    }

    /// Checks that the target holds only results of an earlier run of the same conversion.
    fn check_target(&self) -> Result<()> {
        let into = &self.target.path;
        let names = match std::fs::read_dir(into) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("read", into, error)),
        };
        for name in names {
            let name = name.map_err(|error| Error::io("read", into, error))?;
            let within = PathBuf::from(name.file_name());
            let layout = self.target.layout;
            let known = layout.may_hold_files(&within) || layout.classify(&within).is_some();
            // Left by a run that was killed while it wrote a document.
            let left = within == Path::new(staging::DIR_NAME) || jsonl::is_temp(&within);
            if !known && !left {
                return Err(Error::refused(format!(
                    "{} is not empty: it contains {}, which is not part of the layout {}; choose an empty directory",
                    into.display(),
                    within.display(),
                    layout.name()
                )));
            }
        }
        let inventory = Inventory::scan(std::slice::from_ref(&self.target));
        let mut ours: HashSet<String> = HashSet::new();
        let writer = self.target.layout.writer();
        let ids = TargetIds::new(&self.sessions);
        for files in &self.sessions {
            let id = ids.target_id(files);
            ours.extend(writer.map(|writer| writer.valid_id(&id)));
            ours.insert(id);
            let header = restore::session_header(self.target.layout.name(), files)?;
            ours.extend(header.and_then(|header| header.session));
        }
        let ours: HashSet<String> = ours.iter().map(|id| folded(id)).collect();
        let is_ours = |files: &&SessionFiles| {
            let id = folded(files.id.as_str());
            // In a name that begins with a time, the id follows the time.
            let rest = id.get(TIME_LEN..).and_then(|rest| rest.strip_prefix('-'));
            // An empty shared log was left by an interrupted run.
            files.log_bytes() == 0
                || ours.contains(&id)
                || rest.is_some_and(|rest| ours.contains(rest))
        };
        match inventory.sessions.iter().find(|files| !is_ours(files)) {
            None => Ok(()),
            Some(files) => Err(Error::refused(format!(
                "{} is not empty: it contains session {}, which is not part of this conversion; choose an empty directory",
                into.display(),
                files.id
            ))),
        }
    }
}

/// Length of a time in a folder name, such as `2026-03-26T01-32-20-418Z`.
const TIME_LEN: usize = 24;

/// Returns an id in the most lossy form that a layout writes into a name.
fn folded(id: &str) -> String {
    id.to_lowercase().replace('.', "-")
}

/// Runs a conversion. Calls `progress` with the bytes done and the total.
pub fn run(
    plan: &ConvertPlan,
    options: &ConvertOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<ConvertReport> {
    let root = &plan.target;
    let Some(writer) = root.layout.writer() else {
        return Err(Error::refused("the layout of the target is read-only"));
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
    forward.sort_by_key(|files| std::cmp::Reverse(files.log_bytes()));
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
            forward.sort_by(|a, b| a.id.cmp(&b.id));
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
    rows.sort_by(|a, b| (a.started, row_key(a)).cmp(&(b.started, row_key(b))));
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

/// Fails if a file could not be read, or is being removed. Links and special files are not part of the
/// root: they are left out and reported.
fn refuse_errors(inventory: &mut Inventory, root: &Root) -> Result<()> {
    for trouble in inventory.errors.drain(..) {
        match trouble.is_no_file() && !trouble.path().is_some_and(is_removed) {
            true => root.failures.report(trouble),
            false => return Err(trouble),
        }
    }
    Ok(())
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

/// Returns whether a file of a root, which belongs to no session, may contain secrets.
fn may_have_secrets(root: &Root, path: &Path) -> bool {
    let is_data = |artifact: Artifact| artifact.kind != ArtifactKind::Settings;
    path == Path::new(".credentials.json")
        || (root.layout.spec().has_secret_files && !root.layout.classify(path).is_some_and(is_data))
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

fn resolve_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // The nearest existing ancestor determines the real path.
    for above in absolute.ancestors() {
        if let Ok(real) = std::fs::canonicalize(above) {
            let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
            return real.join(rest);
        }
    }
    absolute
}
