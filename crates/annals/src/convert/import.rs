//! Import: conversion of an export into a root that may have other sessions.
//!
//! Each session is converted to the staging directory. When all are, and no other annals process can
//! begin a session, they are compared with the sessions of the root. A session that is there, or whose
//! beginning is, was imported by an earlier run and is left as it is. Any other session or file at the
//! same place refuses the whole import. Then the files are renamed into place, the main log of a session
//! last. New ids depend only on the export, so a run that was interrupted is completed by running the same
//! import again, without a journal.

mod source;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rayon::prelude::*;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::store::staging::{CommitMode, DIR_NAME, ExistingFile, StagingDir};
use crate::store::{
    Inventory, Root, RootFile, Session, SessionFiles, Store, append_shared, list_row_from_log,
    refuse_damaged, update_session_lists, with_id_lock,
};
use annals_layouts::layout::{RowUpdate, Writer};
use annals_layouts::model::{ArtifactKind, EntryKey, SessionId};

use super::encode::{self, SessionPart, Target};
use super::restore_filter::RestoreFilter;
use super::source::each_line;
use super::{MergedSession, SessionOutcome, TargetIds};

pub use source::{ExportContents, ExportSource};

/// Options for an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Give every session a new id.
    pub fresh_ids: bool,
    /// Time zone for logs that are named after days.
    pub zone: TimeZone,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            fresh_ids: false,
            zone: TimeZone::system(),
        }
    }
}

/// Result of importing a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The session id in the export.
    pub source_id: String,
    /// The session id in the root.
    pub session: SessionId,
    /// Path of the log.
    pub path: PathBuf,
    /// Number of imported entries.
    pub entries: u64,
    /// Number of imported sub-agents.
    pub agents: u64,
    /// Numbers of items that the layout cannot hold, by kind.
    pub left_out: BTreeMap<String, u64>,
    /// Existing todo lists with other todos. They are left unchanged.
    pub existing: Vec<PathBuf>,
    /// An earlier run of the same import had written all of it; nothing was done.
    pub already_imported: bool,
    /// The part that an earlier run of the same import had written is kept, and the rest was appended.
    pub continued: bool,
}

/// Writes exported sessions into a root.
pub struct Importer<'a> {
    store: &'a Store,
    root: Root,
    writer: &'static dyn Writer,
    options: ImportOptions,
}

impl fmt::Debug for Importer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importer")
            .field("root", &self.root)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A session that was converted.
struct ConvertedSession {
    imported: Imported,
    rows: Vec<RowUpdate>,
    merge: MergedSession,
}

impl<'a> Importer<'a> {
    /// Prepares an import into a root.
    pub fn new(store: &'a Store, root: Root, options: ImportOptions) -> Result<Self> {
        let Some(writer) = root.layout.writer() else {
            return Err(Error::read_only(root.layout.name()));
        };
        Ok(Importer {
            store,
            root,
            writer,
            options,
        })
    }

    /// Imports all sessions of an export, or none if one of them cannot be imported.
    pub fn run(&self, source: &ExportSource, contents: &ExportContents) -> Result<Vec<Imported>> {
        refuse_damaged(&self.root, self.writer)?;
        let sessions = sessions_in_order(source, contents)?;
        let elsewhere = self.sessions_elsewhere();
        let mut ids = TargetIds::new(&[]);
        if self.options.fresh_ids {
            let mut there = Inventory::scan(std::slice::from_ref(&self.root)).sessions;
            there.retain(|files| files.log.is_some());
            ids.new_ids = new_ids(self.writer, contents, &sessions, &there, &elsewhere);
        }
        self.refuse_elsewhere(&sessions, &ids, &elsewhere)?;
        let stage = StagingDir::with_name(&self.root, DIR_NAME, "import", CommitMode::AtEnd)?;
        let converted = match self.convert(&stage, &sessions, &ids) {
            Ok(converted) => converted,
            Err(error) => {
                stage.abandon();
                return Err(error);
            }
        };
        let Some(log) = converted.first().map(|first| first.merge.log.clone()) else {
            stage.abandon();
            return Ok(Vec::new());
        };
        let merge = || self.merge(stage, converted);
        let (imported, rows) = with_id_lock(&self.root, &log, merge)?;
        update_session_lists(&self.root, self.writer, self.complete_rows(rows)?)?;
        Ok(imported)
    }

    /// Returns the sessions of the other roots of the store.
    fn sessions_elsewhere(&self) -> Vec<SessionFiles> {
        let own = self.root.path.canonicalize().ok();
        let mut sessions = self.store.inventory().sessions;
        sessions.retain(|files| {
            files.root.path != self.root.path && files.root.path.canonicalize().ok() != own
        });
        sessions
    }

    /// Refuses sessions that another root of the store has.
    fn refuse_elsewhere(
        &self,
        sessions: &[SessionFiles],
        ids: &TargetIds,
        elsewhere: &[SessionFiles],
    ) -> Result<()> {
        let taken = elsewhere.iter();
        let taken: HashMap<&str, &Path> = taken
            .map(|files| (files.id.as_str(), files.main_path()))
            .collect();
        for files in sessions {
            let id = ids.target_id(files);
            for id in [self.writer.valid_id(&id), id] {
                if let Some(path) = taken.get(id.as_str()) {
                    return Err(exists(&id, path));
                }
            }
        }
        Ok(())
    }

    /// Converts the sessions to the staging directory.
    fn convert(
        &self,
        stage: &StagingDir,
        sessions: &[SessionFiles],
        ids: &TargetIds,
    ) -> Result<Vec<ConvertedSession>> {
        let target = Target {
            root: &self.root,
            writer: self.writer,
            zone: &self.options.zone,
            stage,
            origin: false,
            existing_records: &HashMap::new(),
            ids,
            restore_filter: RestoreFilter {
                layout: self.root.layout,
                named: &[],
            },
            merge: true,
        };
        let convert = |files: &SessionFiles| {
            let session = Session::read(files.clone())?;
            session.refuse_unreadable()?;
            let has_project = !session.info(None).project.guessed;
            let outcome = encode::session(&target, &session, &SessionPart::Whole)?;
            self.converted(files, outcome, has_project)
        };
        let one = |files: &SessionFiles| {
            let failed = |error: Error| match error {
                Error::Refused(why) => Error::refused(format!("session {}: {why}", files.id)),
                other => other,
            };
            convert(files).map_err(failed)
        };
        sessions.par_iter().with_max_len(1).map(one).collect()
    }

    fn converted(
        &self,
        files: &SessionFiles,
        outcome: SessionOutcome,
        has_project: bool,
    ) -> Result<ConvertedSession> {
        let (Some(session), Some(merge)) = (outcome.id, outcome.merge) else {
            return Err(Error::refused("the session has no log"));
        };
        let mut left_out = outcome.counts.unconverted;
        if !has_project {
            left_out.insert("project".to_owned(), 1);
        }
        Ok(ConvertedSession {
            imported: Imported {
                source_id: files.id.to_string(),
                session,
                path: self.root.path.join(self.root.layout.path_for(&merge.log)),
                entries: outcome.counts.converted.values().sum(),
                agents: merge.agents,
                left_out,
                existing: Vec::new(),
                already_imported: false,
                continued: false,
            },
            rows: outcome.rows,
            merge,
        })
    }

    /// Moves the converted sessions into the root. No other annals process begins a session meanwhile.
    /// Returns the updates of the session lists, too.
    fn merge(
        &self,
        stage: StagingDir,
        mut converted: Vec<ConvertedSession>,
    ) -> Result<(Vec<Imported>, Vec<RowUpdate>)> {
        let there = Inventory::scan(std::slice::from_ref(&self.root)).sessions;
        let mut seen = HashSet::new();
        let compared = converted.iter_mut().try_for_each(|session| {
            if !seen.insert(session.imported.session.clone()) {
                let id = &session.imported.session;
                return Err(Error::refused(format!(
                    "two sessions of the export would get the id {id}"
                )));
            }
            let same = there.iter().find(|it| it.id == session.imported.session);
            self.compare(session, same)
        });
        if let Err(error) = compared {
            stage.abandon();
            return Err(error);
        }
        let mut shared = Vec::new();
        for session in &mut converted {
            for file in std::mem::take(&mut session.merge.files) {
                stage.add(file)?;
            }
            shared.append(&mut session.merge.shared);
        }
        if let Some(path) = stage.close()?.first() {
            let path = path.display();
            return Err(Error::refused(format!("{path} was created meanwhile")));
        }
        for (path, lines) in shared.iter().filter(|(_, lines)| !lines.is_empty()) {
            append_shared(&self.root, path, lines)?;
        }
        let mut imported = Vec::new();
        let mut rows = Vec::new();
        for session in converted {
            imported.push(session.imported);
            rows.extend(session.rows);
        }
        Ok((imported, rows))
    }

    /// Removes what the root already has from a converted session. Refuses other content at the same
    /// place.
    fn compare(&self, session: &mut ConvertedSession, there: Option<&SessionFiles>) -> Result<()> {
        let imported = &mut session.imported;
        let refused = |path: &Path| exists(imported.session.as_str(), path);
        let is_shared = session.merge.log.kind == ArtifactKind::SharedLog;
        if let Some(files) = there.filter(|_| !is_shared) {
            // Some file names are longer than the id.
            let path = files.log.as_ref().map(|log| log.path.as_path());
            if let Some(path) = path.filter(|path| *path != imported.path) {
                return Err(refused(path));
            }
        }
        let mut main = session.merge.files.iter();
        let main = main.rfind(|file| file.path() == imported.path);
        let is_there = match main.map(|main| main.existing()).transpose()? {
            None | Some(ExistingFile::Missing) => false,
            Some(ExistingFile::Same | ExistingFile::Longer) => true,
            Some(ExistingFile::Different) => return Err(refused(&imported.path)),
        };
        let mut files = Vec::new();
        for file in std::mem::take(&mut session.merge.files) {
            match file.existing()? {
                // All files of a session are there before its main log is.
                _ if is_there => file.discard()?,
                ExistingFile::Missing => files.push(file),
                ExistingFile::Same | ExistingFile::Longer => file.discard()?,
                ExistingFile::Different => {
                    let within = file.path().strip_prefix(&self.root.path);
                    let artifact = within.ok().and_then(|path| self.root.layout.classify(path));
                    if artifact.is_none_or(|it| it.kind != ArtifactKind::Todos) {
                        return Err(refused(file.path()));
                    }
                    imported.existing.push(file.path().to_owned());
                    file.discard()?;
                }
            }
        }
        session.merge.files = files;
        let mut known = there.map_or_else(|| Ok(HashMap::new()), existing_lines)?;
        let mut count = 0;
        for (path, lines) in &mut session.merge.shared {
            let known = known
                .remove(&self.root.path.join(&*path))
                .unwrap_or_default();
            let mut pairs = known.iter().zip(&*lines);
            if !pairs.all(|(known, line)| known == line) {
                return Err(refused(&self.root.path.join(path)));
            }
            count += known.len();
            lines.drain(..known.len().min(lines.len()));
        }
        if is_shared && let Some(path) = known.into_keys().next() {
            return Err(refused(&path));
        }
        let is_whole = session
            .merge
            .shared
            .iter()
            .all(|(_, lines)| lines.is_empty());
        imported.already_imported = is_there || (is_shared && count > 0 && is_whole);
        imported.continued = is_shared && count > 0 && !is_whole;
        if imported.already_imported {
            (imported.entries, imported.agents) = (0, 0);
            imported.left_out.clear();
        }
        Ok(())
    }

    /// Completes updates of session lists from the logs.
    fn complete_rows(&self, rows: Vec<RowUpdate>) -> Result<Vec<RowUpdate>> {
        let mut complete = Vec::new();
        for row in rows {
            let log = row.log.as_ref();
            let log = log.filter(|log| self.writer.session_list(log).is_some());
            let Some(read) = log
                .map(|log| list_row_from_log(&self.root, log))
                .transpose()?
            else {
                continue;
            };
            complete.extend(read.map(|read| RowUpdate {
                purpose: row.purpose,
                first_title: row.first_title,
                cwd: row.cwd,
                git_branch: row.git_branch,
                ..read
            }));
        }
        Ok(complete)
    }
}

/// Returns the sessions of an export, in its order.
fn sessions_in_order(
    source: &ExportSource,
    contents: &ExportContents,
) -> Result<Vec<SessionFiles>> {
    let mut inventory = Inventory::scan(&[source.root()]);
    if let Some(error) = inventory.errors.pop() {
        return Err(error);
    }
    let order = contents.sessions.iter().enumerate();
    let order: HashMap<&str, usize> = order.map(|(at, id)| (id.as_str(), at)).collect();
    let mut sessions = inventory.sessions;
    sessions.retain(|files| order.contains_key(files.id.as_str()));
    crate::sort::by_key(&mut sessions, |files| order.get(files.id.as_str()).copied());
    Ok(sessions)
}

/// Returns a new id for each session. They depend only on the export, so an interrupted import
/// continues with the same. If all of them exist, or one in another root, the import is another copy.
fn new_ids(
    writer: &dyn Writer,
    contents: &ExportContents,
    sessions: &[SessionFiles],
    there: &[SessionFiles],
    elsewhere: &[SessionFiles],
) -> HashMap<SessionId, String> {
    let names = |sessions: &'_ [SessionFiles]| -> HashSet<String> {
        let names = sessions.iter();
        let names = names.flat_map(|files| [files.id.as_str(), files.id.name()]);
        names.map(str::to_owned).collect()
    };
    let (known, elsewhere) = (names(there), names(elsewhere));
    let copy = |copy: u64| -> Vec<String> {
        let seed = format!("{} {copy}", contents.sha256);
        let ids = (0..sessions.len()).map(|at| EntryKey::from_pair(&seed, &at.to_string()));
        ids.map(EntryKey::derived_uuid).collect()
    };
    let is_taken = |id: &String| known.contains(&writer.valid_id(id));
    let is_elsewhere = |id: &String| elsewhere.contains(&writer.valid_id(id));
    let is_usable = |ids: &Vec<String>| !ids.iter().all(is_taken) && !ids.iter().any(is_elsewhere);
    let ids = (0..).map(copy).find(|ids| ids.is_empty() || is_usable(ids));
    let ids = ids.unwrap_or_default();
    let old = sessions.iter().map(|files| files.id.clone());
    old.zip(ids).collect()
}

/// Returns the complete lines that a session has in logs that other sessions share, in order.
fn existing_lines(files: &SessionFiles) -> Result<HashMap<PathBuf, Vec<Vec<u8>>>> {
    let mut found: HashMap<PathBuf, Vec<(u64, Vec<u8>)>> = HashMap::new();
    let volumes = files.logs().flat_map(RootFile::volumes);
    for file in volumes.filter(|file| file.slice.is_some()) {
        let mut decoder = files.root.decoder(file);
        let lines = found.entry(file.path.clone()).or_default();
        each_line(file, |line| {
            let record = line.record();
            if record.terminated {
                let whole = decoder.full_record(&record);
                // The records of a document are derived and differ from its lines.
                let text = line.bytes.strip_prefix(BYTE_ORDER_MARK);
                let whole = whole.unwrap_or_else(|| text.unwrap_or(&line.bytes).to_vec());
                // Torn lines and positions of records that are only in the companion do not count.
                if serde_json::from_slice::<IgnoredAny>(&whole).is_ok() {
                    lines.push((record.span.offset, whole));
                }
            }
            Ok(())
        })?;
    }
    let in_order = |mut lines: Vec<(u64, Vec<u8>)>| {
        lines.sort_unstable_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line).collect()
    };
    let found = found.into_iter();
    Ok(found.map(|(path, lines)| (path, in_order(lines))).collect())
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn exists(id: &str, path: &Path) -> Error {
    Error::refused(format!("session {id} already exists: {}", path.display()))
}
