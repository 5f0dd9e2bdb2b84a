//! Plans conversions: which sessions and files are converted, and whether the target can take them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::error::{Error, Result};
use crate::store::staging;
use crate::store::{Inventory, Root, RootFile, SessionFiles};
use annals_jsonl as jsonl;
use annals_jsonl::removal_name::is_removed;
use annals_layouts::model::{Artifact, ArtifactKind, SessionId};

use super::archived::{self, ArchivedOnly};
use super::origin::Header;
use super::restore_filter::RestoreFilter;
use super::target_ids::TargetIds;
use super::{ConvertSelection, restore};

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
    pub(super) named: Vec<PathBuf>,
    pub(super) source: Option<Root>,
    pub(super) target: Root,
    pub(super) path: Option<HashSet<usize>>,
    pub(super) dirs: Vec<String>,
    /// Whether the target may have other sessions.
    pub(super) is_addition: bool,
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
    if into.layout.writer().is_none() && into.layout.row_writer().is_none() {
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

    pub(super) fn restore_filter(&self) -> RestoreFilter<'_> {
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
        // A database has the sessions of its program.
        match self.is_addition || self.target.layout.writer().is_none() {
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

/// Returns whether a file of a root, which belongs to no session, may contain secrets.
fn may_have_secrets(root: &Root, path: &Path) -> bool {
    let is_data = |artifact: Artifact| artifact.kind != ArtifactKind::Settings;
    path == Path::new(".credentials.json")
        || (root.layout.spec().has_secret_files && !root.layout.classify(path).is_some_and(is_data))
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
