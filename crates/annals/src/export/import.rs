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
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::{MessageFilter, Root, Session, SessionFiles, Store, WriteOptions};
use annals_jsonl::Durability;
use annals_layouts::layout::NewSession;
use annals_layouts::model::{SessionId, TitleSource};

use self::continuation::RemainingLines;
use self::journal::{CreatedLog, Journal, SessionProgress};
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
    /// Sessions of an earlier run, by their number in the export.
    left: HashMap<usize, Left>,
    /// The number of the next session.
    next: usize,
}

/// A session that an earlier run of the same import wrote.
#[derive(Debug)]
enum Left {
    /// Complete.
    Whole(SessionId, PathBuf),
    /// Incomplete.
    Part(Box<SessionFiles>),
}

impl<'a> Importer<'a> {
    /// Collects the ids of existing sessions, in all roots of the store and in `root`.
    pub fn new(store: &'a Store, root: Root, options: ImportOptions) -> Result<Self> {
        if root.layout.writer().is_none() {
            return Err(Error::refused(format!(
                "annals reads the layout {} but does not write it",
                root.layout.name()
            )));
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
            left: HashMap::new(),
            next: 0,
        })
    }

    /// Refuses sessions that cannot all be imported, before the first one is. Finds what an
    /// interrupted run of the same import left: complete sessions are kept, incomplete ones are
    /// written again or completed. Without this call, the import keeps no journal.
    pub fn check(&mut self, contents: &ExportContents) -> Result<()> {
        self.journal = match self.store.state_dir() {
            None => None,
            Some(state) => Some(Journal::open(
                state,
                &self.root,
                &contents.sha256,
                self.options.fresh_ids,
            )?),
        };
        self.find_left(contents.sessions.len())?;
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
            if !self.left.contains_key(&number) {
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

    /// Finds the sessions that an earlier run of the same import began. A session that is missing
    /// or not its own is treated as not begun.
    fn find_left(&mut self, sessions: usize) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let got = (0..sessions).filter_map(|number| Some((number, journal.progress(number)?)));
        let got: Vec<(usize, SessionProgress)> =
            got.map(|(number, got)| (number, got.clone())).collect();
        if got.is_empty() {
            return Ok(());
        }
        let there = Store::new(vec![self.root.clone()]).inventory().sessions;
        let find = |id: &str, path: Option<&Path>| {
            let mut there = there.iter();
            let is_it = |files: &SessionFiles| path.is_none_or(|path| files.main_path() == path);
            there.find(|files| files.id.as_str() == id && is_it(files))
        };
        let own = |made: &CreatedLog| match made.still_exists() {
            true => find(&made.session, Some(&made.path)),
            false => None,
        };
        for (number, got) in got {
            let left = match &got {
                SessionProgress::Done(made) => {
                    own(made).map(|files| Left::Whole(files.id.clone(), made.path.clone()))
                }
                SessionProgress::CreatedLog(made) => {
                    own(made).map(|files| Left::Part(Box::new(files.clone())))
                }
                // Interrupted before the journal recorded the log: no messages are in it yet.
                SessionProgress::Begun(id) => match find(id, None) {
                    Some(files) if is_silent(files)? => Some(Left::Part(Box::new(files.clone()))),
                    _ => None,
                },
            };
            self.left.extend(left.map(|left| (number, left)));
        }
        Ok(())
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
        let replaced = match self.left.remove(&number) {
            None => false,
            Some(Left::Whole(session, path)) => {
                let mut imported = Imported::new(&kept, session, path);
                imported.already_imported = true;
                return Ok(imported);
            }
            Some(Left::Part(files)) => {
                files.refuse_held()?;
                if files.shares_log() {
                    return self.go_on(number, kept, &files);
                }
                self.store.trash().move_in(&files, Timestamp::now())?;
                self.taken.remove(&files.id);
                true
            }
        };
        let id = match self.options.fresh_ids {
            true => SessionId::new(&Uuid::new_v4().to_string())?,
            false => self.fitting(&kept.id)?,
        };
        let (new, write) = self.new_session(&kept, id.clone());
        let named = self.named(&new, write.now);
        self.check_free(&[&id, &named])?;
        if let Some(journal) = &mut self.journal {
            journal.record_begin(number, named.as_str())?;
        }
        let writer = self.store.create(&self.root, &new, write)?;
        if let Some(journal) = &mut self.journal {
            journal.record_created(number, writer.session().as_str(), &writer.path())?;
        }
        self.taken.insert(writer.session(), writer.path());
        let mut imported = Imported::new(&kept, writer.session(), writer.path());
        imported.replaced = replaced;
        write_session(&writer, kept, new.title, &mut imported)?;
        // Closing the writer updates the session list, which is part of the session.
        drop(writer);
        if let Some(journal) = &mut self.journal {
            journal.record_done(number)?;
        }
        Ok(imported)
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
            ..self.options.write
        };
        (new, write)
    }

    /// Appends the rest of a session to what an earlier run wrote.
    fn go_on(
        &mut self,
        number: usize,
        kept: ExportedSession,
        files: &SessionFiles,
    ) -> Result<Imported> {
        let path = files.main_path();
        let refused = || continuation::refused_error(files, path);
        let journal = self.journal.as_ref().ok_or_else(refused)?;
        let desk = journal.scratch_dir()?;
        let root = Root::with_layout(self.root.layout, desk.path());
        let (new, write) = self.new_session(&kept, files.id.clone());
        let quick = WriteOptions {
            durability: Durability::Os,
            network: true,
            ..write
        };
        let writer = self.store.create(&root, &new, quick)?;
        let given = continuation::exported_ids(&kept);
        let already = Imported {
            already_imported: true,
            ..Imported::new(&kept, files.id.clone(), path.to_owned())
        };
        let mut imported = Imported::new(&kept, files.id.clone(), path.to_owned());
        imported.continued = true;
        write_session(&writer, kept, new.title, &mut imported)?;
        drop(writer);
        // The log may have changed since, also by this import.
        let there = as_it_is(&self.root, files).ok_or_else(refused)?;
        let whole = Store::new(vec![root]).inventory().sessions;
        let whole = whole.into_iter().find(|it| it.id == files.id);
        let whole = whole.ok_or_else(refused)?;
        let rest = RemainingLines::new(&whole, &there, &given)?.ok_or_else(refused)?;
        let imported = match rest.is_empty() {
            true => already,
            false => imported,
        };
        rest.write(&self.root, write)?;
        if let Some(journal) = &mut self.journal {
            journal.record_created(number, files.id.as_str(), path)?;
            journal.record_done(number)?;
        }
        Ok(imported)
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

/// Returns whether a session has no messages.
fn is_silent(files: &SessionFiles) -> Result<bool> {
    let session = Session::read(files.clone())?;
    Ok(session.messages(&MessageFilter::default())?.is_empty())
}
