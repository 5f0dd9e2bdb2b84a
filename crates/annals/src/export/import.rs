//! Import of JSON exports into a root.
//!
//! [`ExportFile`] reads, [`Importer`] writes. An export is read and checked as a whole before
//! anything is written, so a bad line only causes an error. It is then read again, one session at a
//! time: memory is bounded by the longest session.

mod continuation;
mod export_file;
mod journal;
mod write_session;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::{Root, SessionFiles, Store, WriteOptions};
use annals_jsonl::Durability;
use annals_layouts::layout::NewSession;
use annals_layouts::model::{EntryKey, SessionId, TitleSource};

use self::continuation::RemainingLines;
use self::journal::Journal;
use self::write_session::write_session;

pub use export_file::{ExportContents, ExportFile, ExportedAgent, ExportedLog, ExportedSession};

/// Options for an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Give every session a new id.
    pub fresh_ids: bool,
    /// Options for writing.
    pub write: WriteOptions,
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
    /// Numbers of items that the layout cannot hold, by kind: an entry's kind, or `agent`, `root` (an entry without
    /// a parent that now follows the previous one), `project` (no entry records it), `member` (of a
    /// record).
    pub left_out: BTreeMap<&'static str, u64>,
    /// Existing todo lists with other todos. They are left unchanged.
    pub existing: Vec<PathBuf>,
    /// An earlier run of the same import had written all of it; nothing was done.
    pub already_imported: bool,
    /// The part that an earlier run of the same import had written was moved to the trash.
    pub replaced: bool,
    /// The part that an earlier run of the same import had written is kept, and the rest was appended.
    pub continued: bool,
}

/// Writes exported sessions into a root.
#[derive(Debug)]
pub struct Importer<'a> {
    store: &'a Store,
    root: Root,
    options: ImportOptions,
    taken: HashMap<SessionId, PathBuf>,
    /// Progress of the import; `None` without a state directory.
    journal: Option<Journal>,
    /// Sessions of the root when an interrupted import resumes.
    there: Vec<SessionFiles>,
    /// New ids derive from it.
    seed: u64,
    /// The number of the next session.
    next: usize,
}

impl<'a> Importer<'a> {
    /// Collects the ids of existing sessions, in all roots of the store and in `root`.
    pub fn new(store: &'a Store, root: Root, options: ImportOptions) -> Result<Self> {
        if root.layout.writer().is_none() {
            return Err(Error::read_only(root.layout.name()));
        }
        let own = Store::new(vec![root.clone()]).inventory().sessions;
        let found = store.inventory().sessions.into_iter().chain(own);
        let taken = found.map(|files| (files.id.clone(), files.main_path().to_owned()));
        Ok(Importer {
            store,
            root,
            options,
            taken: taken.collect(),
            journal: None,
            there: Vec::new(),
            seed: Uuid::new_v4().as_u64_pair().0,
            next: 0,
        })
    }

    /// Refuses sessions that cannot all be imported, before the first one is. Finds what an
    /// interrupted run of the same import left: complete sessions are kept, the incomplete one is
    /// written again or completed. Without this call, the import keeps no journal.
    pub fn check(&mut self, contents: &ExportContents) -> Result<()> {
        if let Some(state) = self.store.state_dir() {
            let (sha256, fresh_ids) = (&contents.sha256, self.options.fresh_ids);
            let journal = Journal::open(state, &self.root, sha256, fresh_ids, self.seed)?;
            self.seed = journal.seed();
            self.options.write.now = self.options.write.now.or(Some(journal.time()));
            if !journal.begun().is_empty() {
                self.there = Store::new(vec![self.root.clone()]).inventory().sessions;
            }
            self.journal = Some(journal);
        }
        let mut seen = HashSet::new();
        let sessions = contents.sessions.iter();
        let began = contents.began.iter().copied();
        // A list made by another caller may not have all times.
        let sessions = sessions.zip(began.chain(std::iter::repeat(None)));
        let sessions = sessions.enumerate();
        for (number, (id, began)) in sessions.filter(|_| !self.options.fresh_ids) {
            let id = self.fitting(id)?;
            let new = NewSession::new(id.clone(), "/");
            let named = self.named(&new, self.now(began));
            if self.left_by_earlier_run(number, &named).is_none() {
                self.check_free(&[&id, &named])?;
            }
            if !seen.insert(named) {
                return Err(Error::refused(format!(
                    "the export contains session {id} twice"
                )));
            }
        }
        Ok(())
    }

    /// Returns a session that an earlier run of the same import began, and whether it is complete.
    fn left_by_earlier_run(
        &self,
        number: usize,
        named: &SessionId,
    ) -> Option<(&SessionFiles, bool)> {
        let done = *self.journal.as_ref()?.begun().get(&number)?;
        let mut there = self.there.iter();
        Some((there.find(|files| files.id == *named)?, done))
    }

    /// Ends the import and removes the journal: a second run would have nothing to resume.
    pub fn finish(&mut self) -> Result<()> {
        self.journal.take().map_or(Ok(()), Journal::close)
    }

    /// Refuses a session that already exists, under the requested id or the id it would get.
    fn check_free(&self, ids: &[&SessionId]) -> Result<()> {
        let taken = ids.iter().find_map(|id| Some((id, self.taken.get(*id)?)));
        match taken {
            None => Ok(()),
            Some((id, path)) => Err(Error::refused(format!(
                "session {id} already exists: {}",
                path.display()
            ))),
        }
    }

    /// Returns the id that a session would get. Errors are reported when the session is created.
    fn named(&self, new: &NewSession, now: Option<Timestamp>) -> SessionId {
        let named = self.store.planned_id(&self.root, new, now);
        named.unwrap_or_else(|_| new.id.clone())
    }

    /// Returns the start time of a session: the time of its first entry, not the current time.
    fn now(&self, began: Option<Timestamp>) -> Option<Timestamp> {
        began.or(self.options.write.now)
    }

    /// Returns a session id that is valid in the layout.
    fn fitting(&self, id: &str) -> Result<SessionId> {
        let writer = self.root.layout.writer();
        let fits = writer.map(|writer| writer.valid_id(id));
        Ok(SessionId::new(fits.as_deref().unwrap_or(id))?)
    }

    /// Writes one session. Sessions must be passed in the order of the export.
    pub fn session(&mut self, kept: ExportedSession) -> Result<Imported> {
        let number = self.next;
        self.next += 1;
        let id = match self.options.fresh_ids {
            true => SessionId::new(
                &EntryKey::from_pair(&self.seed.to_string(), &number.to_string()).derived_uuid(),
            )?,
            false => self.fitting(&kept.id)?,
        };
        let (new, write) = self.new_session(&kept, id.clone());
        let named = self.named(&new, write.now);
        let mut replaced = false;
        if let Some((files, done)) = self.left_by_earlier_run(number, &named) {
            if done {
                let mut imported = Imported::new(&kept, files.id.clone(), files.main_path().into());
                imported.already_imported = true;
                return Ok(imported);
            }
            files.refuse_held()?;
            if let Some(imported) = self.continue_session(&kept, files, new.clone(), write)? {
                self.record(number, true)?;
                return Ok(imported);
            }
            self.store.trash().move_in(files, Timestamp::now())?;
            let id = files.id.clone();
            self.taken.remove(&id);
            replaced = true;
        }
        self.check_free(&[&id, &named])?;
        self.record(number, false)?;
        let writer = self.store.create(&self.root, &new, write)?;
        self.taken.insert(writer.session(), writer.path());
        let mut imported = Imported::new(&kept, writer.session(), writer.path());
        imported.replaced = replaced;
        write_session(&writer, kept, new.title, &mut imported)?;
        // Closing the writer updates the session list, which is part of the session.
        drop(writer);
        self.record(number, true)?;
        Ok(imported)
    }

    fn record(&mut self, number: usize, done: bool) -> Result<()> {
        let journal = self.journal.as_mut();
        journal.map_or(Ok(()), |journal| journal.record(number, done))
    }

    /// Returns the parameters of a new session, with its start time.
    fn new_session(&self, kept: &ExportedSession, id: SessionId) -> (NewSession, WriteOptions) {
        let cwd = directory(kept).unwrap_or_else(|| "/".to_owned());
        let mut new = NewSession::new(id, cwd);
        new.unused = true;
        let mut entries = kept.logs.iter().flat_map(|log| &log.entries);
        new.git_branch = entries.find_map(|entry| entry.context.git_branch.clone());
        if let Some(writer) = self.root.layout.writer() {
            let custom = kept.title_source == Some(TitleSource::Custom);
            let title = kept.title.clone().filter(|title| !title.trim().is_empty());
            let with_title = writer.title_in_header() || writer.title_in_session_list();
            new.title = title.filter(|_| custom && with_title);
            let main = kept.logs.iter().find(|log| log.agent.is_none());
            let first = main.and_then(|log| log.entries.first());
            let channel = first.and_then(|entry| entry.context.channel.as_deref());
            let channel = channel.filter(|channel| !channel.is_empty());
            if let Some(channel) = channel.filter(|_| writer.session_members().contains(&"channel"))
            {
                new = new.member("channel", annals_layouts::json::quote(channel));
            }
        }
        let write = WriteOptions {
            now: self.now(kept.first_entry_time()),
            id_seed: Some(self.seed),
            ..self.options.write
        };
        (new, write)
    }

    /// Appends the rest of a session to what an earlier run wrote. Returns `None` if the session is
    /// to be written again, because its log can be moved to the trash. Fails if what is there is not
    /// a part of the session.
    fn continue_session(
        &self,
        kept: &ExportedSession,
        files: &SessionFiles,
        mut new: NewSession,
        write: WriteOptions,
    ) -> Result<Option<Imported>> {
        let path = files.main_path();
        let refused = || continuation::refused_error(files, path);
        let scratch = self.journal.as_ref().ok_or_else(refused)?.scratch_dir()?;
        let root = Root::with_layout(self.root.layout, scratch.path());
        let quick = WriteOptions {
            durability: Durability::Os,
            network: true,
            ..write
        };
        let writer = self.root.layout.writer();
        let list = files
            .log
            .as_ref()
            .and_then(|log| writer?.session_list(&log.artifact));
        if list.is_some() {
            // The configuration of the root chose it.
            new.folder = files.folder().map(str::to_owned);
        }
        let writer = self.store.create(&root, &new, quick)?;
        let mut imported = Imported::new(kept, files.id.clone(), path.to_owned());
        write_session(&writer, kept.clone(), new.title, &mut imported)?;
        drop(writer);
        // The log may have changed since, also by this import.
        let there = as_it_is(&self.root, files).ok_or_else(refused)?;
        let whole = Store::new(vec![root]).inventory().sessions;
        let whole = whole.into_iter().find(|it| it.id == files.id);
        let whole = whole.ok_or_else(refused)?;
        let shares = files.shares_log();
        let rest = RemainingLines::new(&whole, &there, shares)?.ok_or_else(refused)?;
        if !shares {
            return Ok(None);
        }
        match rest.is_empty() {
            true => {
                imported = Imported::new(kept, files.id.clone(), path.to_owned());
                imported.already_imported = true;
            }
            false => imported.continued = true,
        }
        rest.write(&self.root, write)?;
        Ok(Some(imported))
    }
}

/// Returns the current files of a session.
fn as_it_is(root: &Root, files: &SessionFiles) -> Option<SessionFiles> {
    let sessions = Store::new(vec![root.clone()]).inventory().sessions;
    let same = |it: &SessionFiles| it.id == files.id && it.main_path() == files.main_path();
    sessions.into_iter().find(same)
}

/// Returns the working directory of a session, if recorded.
fn directory(kept: &ExportedSession) -> Option<String> {
    let mut entries = kept.logs.iter().flat_map(|log| &log.entries);
    let project = kept.project.clone();
    project.or_else(|| entries.find_map(|entry| entry.context.cwd.clone()))
}

impl Imported {
    fn new(kept: &ExportedSession, session: SessionId, path: PathBuf) -> Self {
        Imported {
            source_id: kept.id.clone(),
            session,
            path,
            entries: 0,
            agents: 0,
            left_out: BTreeMap::new(),
            existing: Vec::new(),
            already_imported: false,
            replaced: false,
            continued: false,
        }
    }
}
