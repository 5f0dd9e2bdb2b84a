//! What was exported as JSON, back into a root.
//!
//! [`Archive`] reads, [`Importer`] writes. An archive is read whole and checked before anything is
//! written, and then once more, one session at a time: a bad line costs nothing but a message, and a
//! long file no more memory than its longest session.

mod archive;
mod behind;
mod journal;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::jsonl::Durability;
use crate::layout::{NewSession, Spawn};
use crate::model::{AgentId, Body, Draft, Entry, EntryId, Members, SessionId, TitleSource, Todo};
use crate::store::{
    MessageFilter, Root, Session, SessionFiles, SessionWriter, Store, WriteOptions,
};

use self::behind::Rest;
use self::journal::{Got, Journal, Made};

pub use archive::{Archive, Contents, Kept, KeptAgent, KeptLog};

/// Entries that are written at once.
const BATCH: usize = 256;

/// How sessions are imported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Give every session a fresh id.
    pub fresh_ids: bool,
    /// How they are written.
    pub write: WriteOptions,
}

/// What became of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The session it was.
    pub from: String,
    /// The session it is now.
    pub session: SessionId,
    /// Its log.
    pub path: PathBuf,
    /// Entries that were taken over.
    pub entries: u64,
    /// Sub-agents that were taken over.
    pub agents: u64,
    /// What the layout has no place for, by kind: an entry's, or `agent`, `root` (an entry that began
    /// anew and now follows the one before it), `project` (no entry told it), `member` (of a record).
    pub left_out: BTreeMap<&'static str, u64>,
    /// An earlier run of the same import had written it all, and nothing was done.
    pub already: bool,
    /// What an earlier run of the same import had written of it went to the trash.
    pub replaced: bool,
    /// What an earlier run of the same import had written of it stays, and the rest went behind it.
    pub continued: bool,
}

/// Writes sessions of an archive into a root.
#[derive(Debug)]
pub struct Importer<'a> {
    store: &'a Store,
    root: Root,
    options: ImportOptions,
    taken: HashMap<SessionId, PathBuf>,
    /// What was begun and done; `None` where no state directory could keep it.
    journal: Option<Journal>,
    /// What an earlier run left, by the numbers of sessions in the archive.
    left: HashMap<usize, Left>,
    /// The number of the next session.
    next: usize,
}

/// What an earlier run of the same import left of a session.
#[derive(Debug)]
enum Left {
    /// All of it.
    Whole(SessionId, PathBuf),
    /// Some of it.
    Part(Box<SessionFiles>),
}

impl<'a> Importer<'a> {
    /// Looks which sessions are there already, in any root of the store and in `root`.
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

    /// Refuses sessions that cannot all be imported, before the first one is. Finds what an earlier run of
    /// the same import left, if it was cut off: what is done stays done, and what it only began is made
    /// anew. Who does not ask for this imports without remembering.
    pub fn check(&mut self, contents: &Contents) -> Result<()> {
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
        // Whoever made the list may not know all times.
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
                    "there are two sessions {id} in the archive"
                )));
            }
        }
        Ok(())
    }

    /// Looks what there is of the sessions that an earlier run of the same import began. What is not its
    /// own, or gone, is as if it had never been begun.
    fn find_left(&mut self, sessions: usize) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let got = (0..sessions).filter_map(|number| Some((number, journal.got(number)?)));
        let got: Vec<(usize, Got)> = got.map(|(number, got)| (number, got.clone())).collect();
        if got.is_empty() {
            return Ok(());
        }
        let there = Store::new(vec![self.root.clone()]).inventory().sessions;
        let find = |id: &str, path: Option<&Path>| {
            let mut there = there.iter();
            let is_it = |files: &SessionFiles| path.is_none_or(|path| files.main_path() == path);
            there.find(|files| files.id.as_str() == id && is_it(files))
        };
        let own = |made: &Made| match made.is_there() {
            true => find(&made.session, Some(&made.path)),
            false => None,
        };
        for (number, got) in got {
            let left = match &got {
                Got::Done(made) => {
                    own(made).map(|files| Left::Whole(files.id.clone(), made.path.clone()))
                }
                Got::Made(made) => own(made).map(|files| Left::Part(Box::new(files.clone()))),
                // It was cut off before it could tell which log is its own: nothing was said in that.
                Got::Begun(id) => match find(id, None) {
                    Some(files) if is_silent(files)? => Some(Left::Part(Box::new(files.clone()))),
                    _ => None,
                },
            };
            self.left.extend(left.map(|left| (number, left)));
        }
        Ok(())
    }

    /// All sessions are imported: there is nothing left that a second run could go on with.
    pub fn finish(&mut self) -> Result<()> {
        self.journal.take().map_or(Ok(()), Journal::close)
    }

    /// Refuses a session that is there already, by the id that was asked for or the one it would get.
    fn check_free(&self, ids: &[&SessionId]) -> Result<()> {
        let taken = ids.iter().find_map(|id| Some((id, self.taken.get(*id)?)));
        match taken {
            None => Ok(()),
            Some((id, path)) => Err(Error::refused(format!(
                "there is a session {id} already: {}",
                path.display()
            ))),
        }
    }

    /// The id that a session would get. What forbids to begin it is told when it is begun.
    fn named(&self, new: &NewSession, now: Option<Timestamp>) -> SessionId {
        let named = self.store.name_of(&self.root, new, now);
        named.unwrap_or_else(|_| new.id.clone())
    }

    /// A session begins when its first entry was written, not now.
    fn now(&self, began: Option<Timestamp>) -> Option<Timestamp> {
        began.or(self.options.write.now)
    }

    /// A session's id as the layout takes it.
    fn fitting(&self, id: &str) -> Result<SessionId> {
        let writer = self.root.layout.writer();
        let fits = writer.map(|writer| writer.fitting(id));
        SessionId::new(fits.as_deref().unwrap_or(id))
    }

    /// Writes one session; they come in the order of the archive.
    pub fn session(&mut self, kept: Kept) -> Result<Imported> {
        let number = self.next;
        self.next += 1;
        let replaced = match self.left.remove(&number) {
            None => false,
            Some(Left::Whole(session, path)) => {
                let mut imported = Imported::new(&kept, session, path);
                imported.already = true;
                return Ok(imported);
            }
            Some(Left::Part(files)) => {
                files.refuse_held()?;
                if files.lies_with_others() {
                    return self.go_on(number, kept, &files);
                }
                self.store.delete(&files, Timestamp::now())?;
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
            journal.begin(number, named.as_str())?;
        }
        let writer = self.store.create(&self.root, &new, write)?;
        if let Some(journal) = &mut self.journal {
            journal.made(number, writer.session().as_str(), &writer.path())?;
        }
        self.taken.insert(writer.session(), writer.path());
        let mut imported = Imported::new(&kept, writer.session(), writer.path());
        imported.replaced = replaced;
        write_session(&writer, kept, new.title, &mut imported)?;
        // What closing it tells a register is part of it.
        drop(writer);
        if let Some(journal) = &mut self.journal {
            journal.done(number)?;
        }
        Ok(imported)
    }

    /// How a session begins, and when.
    fn new_session(&self, kept: &Kept, id: SessionId) -> (NewSession, WriteOptions) {
        let cwd = directory(kept).unwrap_or_else(|| "/".to_owned());
        let mut new = NewSession::new(id, cwd);
        new.unused = true;
        let mut entries = kept.logs.iter().flat_map(|log| &log.entries);
        new.git_branch = entries.find_map(|entry| entry.place.git_branch.clone());
        if let Some(writer) = self.root.layout.writer() {
            let custom = kept.title_source == Some(TitleSource::Custom);
            let title = kept.title.clone().filter(|title| !title.trim().is_empty());
            new.title = title.filter(|_| custom && writer.begins_with_title());
            let main = kept.logs.iter().find(|log| log.agent.is_none());
            let first = main.and_then(|log| log.entries.first());
            let channel = first.and_then(|entry| entry.place.channel.as_deref());
            let channel = channel.filter(|channel| !channel.is_empty());
            if let Some(channel) = channel.filter(|_| writer.session_members().contains(&"channel"))
            {
                new = new.member("channel", crate::json::quote(channel));
            }
        }
        let write = WriteOptions {
            now: self.now(kept.began()),
            ..self.options.write
        };
        (new, write)
    }

    /// Writes the rest of a session behind what an earlier run wrote of it.
    fn go_on(&mut self, number: usize, kept: Kept, files: &SessionFiles) -> Result<Imported> {
        let path = files.main_path();
        let refused = || behind::refused(files, path);
        let journal = self.journal.as_ref().ok_or_else(refused)?;
        let desk = journal.desk()?;
        let root = Root::of(self.root.layout, desk.path());
        let (new, write) = self.new_session(&kept, files.id.clone());
        let quick = WriteOptions {
            durability: Durability::Os,
            network: true,
            ..write
        };
        let writer = self.store.create(&root, &new, quick)?;
        let given = behind::given(&kept);
        let already = Imported {
            already: true,
            ..Imported::new(&kept, files.id.clone(), path.to_owned())
        };
        let mut imported = Imported::new(&kept, files.id.clone(), path.to_owned());
        imported.continued = true;
        write_session(&writer, kept, new.title, &mut imported)?;
        drop(writer);
        // Others may have written to the log since, this import among them.
        let there = as_it_is(&self.root, files).ok_or_else(refused)?;
        let whole = Store::new(vec![root]).inventory().sessions;
        let whole = whole.into_iter().find(|it| it.id == files.id);
        let whole = whole.ok_or_else(refused)?;
        let rest = Rest::of(&whole, &there, &given)?.ok_or_else(refused)?;
        let imported = match rest.is_empty() {
            true => already,
            false => imported,
        };
        rest.write(&self.root, write)?;
        if let Some(journal) = &mut self.journal {
            journal.made(number, files.id.as_str(), path)?;
            journal.done(number)?;
        }
        Ok(imported)
    }
}

/// A session of a root as it is now.
fn as_it_is(root: &Root, files: &SessionFiles) -> Option<SessionFiles> {
    let sessions = Store::new(vec![root.clone()]).inventory().sessions;
    let same = |it: &SessionFiles| it.id == files.id && it.main_path() == files.main_path();
    sessions.into_iter().find(same)
}

/// The directory that a session was at work in, as far as it is told.
fn directory(kept: &Kept) -> Option<String> {
    let mut entries = kept.logs.iter().flat_map(|log| &log.entries);
    let project = kept.project.clone();
    project.or_else(|| entries.find_map(|entry| entry.place.cwd.clone()))
}

impl Imported {
    fn new(kept: &Kept, session: SessionId, path: PathBuf) -> Self {
        Imported {
            from: kept.id.clone(),
            session,
            path,
            entries: 0,
            agents: 0,
            left_out: BTreeMap::new(),
            already: false,
            replaced: false,
            continued: false,
        }
    }
}

/// Whether nothing was ever said in a session.
fn is_silent(files: &SessionFiles) -> Result<bool> {
    let session = Session::read(files.clone())?;
    Ok(session.messages(&MessageFilter::default())?.is_empty())
}

/// What a session is called.
struct Named {
    title: Option<String>,
    source: Option<TitleSource>,
    tag: Option<String>,
}

/// Whether an entry is a title that a person gave.
fn is_title(entry: &Entry) -> bool {
    let custom = TitleSource::Custom;
    matches!(entry.body, Body::Title { source, .. } if source == custom)
}

/// Writes the entries of a session that has begun, maybe with its title.
fn write_session(
    writer: &SessionWriter,
    kept: Kept,
    begun_with: Option<String>,
    imported: &mut Imported,
) -> Result<()> {
    if directory(&kept).is_none() {
        *imported.left_out.entry("project").or_default() += 1;
    }
    let named = Named {
        title: kept.title,
        source: kept.title_source,
        tag: kept.tag,
    };
    let mut todos: HashMap<String, Vec<Todo>> = kept.todos.into_iter().collect();
    for log in kept.logs {
        let own = todos.remove(log.agent.as_ref().map_or(kept.id.as_str(), |agent| {
            agent.id.as_deref().unwrap_or_default()
        }));
        match log.agent {
            None => {
                let mut pen = Pen::new(writer, imported);
                // The title is not written twice, unless it was another one in between.
                let said = |entry: &Entry| match (&entry.body, &begun_with) {
                    (Body::Title { text, .. }, Some(title)) => text.trim() == title.trim(),
                    _ => true,
                };
                pen.titled = begun_with.is_some() && log.entries.iter().all(said);
                let mut given = pen.entries(&log.entries)?;
                // A title that was given outside of the log comes after those in it.
                given.title &= pen.titled
                    || begun_with.is_none()
                    || log
                        .entries
                        .iter()
                        .rfind(|entry| is_title(entry))
                        .is_none_or(said);
                pen.head(&given, &named)?;
                pen.todos(own.or(given.todos))?;
            }
            Some(agent) => {
                let Some(helper) = spawn(writer, &agent)? else {
                    *imported.left_out.entry("agent").or_default() += 1;
                    continue;
                };
                imported.agents += 1;
                let mut pen = Pen::new(&helper, imported);
                let given = pen.entries(&log.entries)?;
                pen.todos(own.or(given.todos))?;
            }
        }
    }
    if !todos.is_empty() {
        *imported.left_out.entry("todos").or_default() += todos.len() as u64;
    }
    Ok(())
}

/// Begins a sub-agent's log; `None` where the layout has no place for it.
fn spawn(writer: &SessionWriter, agent: &KeptAgent) -> Result<Option<SessionWriter>> {
    let fresh = Uuid::new_v4().simple().to_string();
    let fresh = format!("a{}", fresh.get(..16).unwrap_or(&fresh));
    let id = AgentId::new(agent.id.as_deref().unwrap_or(&fresh))?;
    let kind = agent.kind.as_deref().unwrap_or("agent");
    let mut spawn = Spawn::new(id, kind, agent.description.as_deref().unwrap_or_default());
    spawn.call.clone_from(&agent.call);
    match writer.spawn(&spawn) {
        Ok(helper) => Ok(Some(helper)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a log said about its session.
#[derive(Default)]
struct Given {
    title: bool,
    tag: bool,
    todos: Option<Vec<Todo>>,
}

/// Writes the entries of one log.
struct Pen<'a> {
    writer: &'a SessionWriter,
    imported: &'a mut Imported,
    /// The ids that entries have now, by those they had.
    placed: HashMap<EntryId, EntryId>,
    /// The parents of entries that were left out: what hung from one hangs from its parent.
    skipped: HashMap<EntryId, Option<EntryId>>,
    /// What the next entry hangs from if it does not say; `None` where that is not known.
    leaf: Option<EntryId>,
    /// Something was said.
    begun: bool,
    /// What began the log says its title.
    titled: bool,
    /// The time of the last entry, for those that have none.
    time: Option<Timestamp>,
    /// Kinds that the layout does not write.
    refused: HashSet<&'static str>,
}

impl<'a> Pen<'a> {
    fn new(writer: &'a SessionWriter, imported: &'a mut Imported) -> Self {
        Pen {
            writer,
            imported,
            placed: HashMap::new(),
            skipped: HashMap::new(),
            leaf: None,
            begun: false,
            titled: false,
            time: None,
            refused: HashSet::new(),
        }
    }

    fn entries(&mut self, entries: &[Entry]) -> Result<Given> {
        let mut given = Given {
            title: self.titled,
            ..Given::default()
        };
        let mut seen: HashSet<&EntryId> = HashSet::new();
        let summaries = summarized(entries);
        let mut batch: Vec<&Entry> = Vec::new();
        for entry in in_order(entries) {
            // Of two entries with one id, the first is kept: a log cannot hold both.
            if entry.id.as_ref().is_some_and(|id| !seen.insert(id)) {
                self.leave(entry.body.kind());
                continue;
            }
            // An id that is not written must be known before something hangs from the entry.
            let odd = entry.id.as_ref().is_some_and(|id| id.check().is_err());
            match &entry.body {
                Body::Todos(todos) => {
                    given.todos = Some(todos.clone());
                    self.skip(entry);
                }
                // Without its summary it would hide what came before.
                Body::Compaction { .. }
                    if entry.id.as_ref().is_none_or(|id| !summaries.contains(id)) =>
                {
                    self.leave_entry(entry);
                }
                Body::Title { .. } if self.titled => self.skip(entry),
                _ if odd => {
                    self.write(&batch)?;
                    batch.clear();
                    self.write(&[entry])?;
                }
                body => {
                    given.title |= matches!(body, Body::Title { .. });
                    given.tag |= matches!(body, Body::Tag { .. });
                    batch.push(entry);
                }
            }
            if batch.len() == BATCH {
                self.write(&batch)?;
                batch.clear();
            }
        }
        self.write(&batch)?;
        Ok(given)
    }

    /// Gives the session what its log did not.
    fn head(&mut self, given: &Given, kept: &Named) -> Result<()> {
        let source = kept.source.filter(|source| *source > TitleSource::Summary);
        if let (Some(text), Some(source), false) = (kept.title.clone(), source, given.title) {
            self.aside(Body::Title { text, source })?;
        }
        if let (Some(text), false) = (kept.tag.clone(), given.tag) {
            self.aside(Body::Tag { text })?;
        }
        Ok(())
    }

    fn aside(&mut self, body: Body) -> Result<()> {
        let kind = body.kind();
        match self.writer.append_all(vec![Draft::new(body)]) {
            Err(error) if is_refusal(&error) => {
                self.leave(kind);
                Ok(())
            }
            done => done.map(drop),
        }
    }

    fn todos(&mut self, todos: Option<Vec<Todo>>) -> Result<()> {
        let Some(todos) = todos else { return Ok(()) };
        match self.writer.set_todos(&todos) {
            Err(error) if is_refusal(&error) => {
                self.leave("todos");
                Ok(())
            }
            done => done,
        }
    }

    /// Writes entries at once; where the layout refuses, looks for the one that it means.
    fn write(&mut self, batch: &[&Entry]) -> Result<()> {
        let mut wanted: Vec<&Entry> = Vec::with_capacity(batch.len());
        for entry in batch {
            match self.refused.contains(entry.body.kind()) {
                true => self.leave_entry(entry),
                false => wanted.push(entry),
            }
        }
        let Some(first) = wanted.first().copied() else {
            return Ok(());
        };
        let before = (self.leaf.clone(), self.begun, self.time);
        let roots = self.imported.left_out.get("root").copied();
        let drafts: Vec<Draft> = wanted.iter().map(|entry| self.draft(entry)).collect();
        match self.writer.append_all(drafts) {
            Ok(written) => {
                self.imported.entries += wanted.len() as u64;
                if let (1, Some(last)) = (wanted.len(), written.last()) {
                    self.settle(first, last);
                }
                Ok(())
            }
            Err(error) if is_refusal(&error) => {
                (self.leaf, self.begun, self.time) = before;
                match roots {
                    Some(roots) => _ = self.imported.left_out.insert("root", roots),
                    None => _ = self.imported.left_out.remove("root"),
                }
                let ids = wanted.iter().filter_map(|entry| entry.id.as_ref());
                for id in ids {
                    self.placed.remove(id);
                }
                if wanted.len() == 1 {
                    if !matches!(first.body, Body::Message(_)) {
                        self.refused.insert(first.body.kind());
                    }
                    self.leave_entry(first);
                    return Ok(());
                }
                let (first, second) = wanted.split_at(wanted.len() / 2);
                self.write(first)?;
                self.write(second)
            }
            Err(error) => Err(error),
        }
    }

    /// An entry as it will be written, as if it was: what hangs from it may be in the same batch.
    fn draft(&mut self, entry: &Entry) -> Draft {
        let mut draft = Draft::new(entry.body.clone());
        draft.id = entry.id.clone().filter(|id| id.check().is_ok());
        draft.members = self.known_members(entry);
        draft.time = entry.time.or(self.time);
        self.time = draft.time;
        if let Body::Summary { leaf, .. } = &mut draft.body {
            let there = leaf.as_ref().and_then(|leaf| self.resolve(leaf));
            *leaf = there.or(leaf.take());
        }
        let parent = entry.parent.as_ref().and_then(|id| self.resolve(id));
        let said = matches!(entry.body, Body::Message(_));
        let compacts = matches!(entry.body, Body::Compaction { .. });
        if (said || compacts) && parent.is_none() && self.begun {
            self.leave("root");
        }
        if said || compacts || parent.is_some() {
            draft.parent = parent.filter(|parent| self.leaf.as_ref() != Some(parent));
            self.leaf.clone_from(&draft.id);
            self.begun = true;
        }
        if let (Some(id), Some(now)) = (&entry.id, &draft.id) {
            self.placed.insert(id.clone(), now.clone());
        }
        draft
    }

    /// The members of an entry that the target layout knows; the others are counted as left out.
    fn known_members(&mut self, entry: &Entry) -> Members {
        let known = self.writer.known_members();
        let (members, unknown): (Members, Members) = entry
            .members
            .iter()
            .cloned()
            .partition(|(name, _)| known.contains(&name.as_str()));
        unknown.iter().for_each(|_| self.leave("member"));
        members
    }

    /// Takes note of the id that an entry was given.
    fn settle(&mut self, entry: &Entry, written: &Entry) {
        let Some(now) = &written.id else { return };
        if let Some(id) = &entry.id {
            self.placed.insert(id.clone(), now.clone());
        }
        if matches!(entry.body, Body::Message(_)) {
            self.leaf = Some(now.clone());
        }
    }

    /// Where an entry is now, or the nearest of its ancestors that was not left out.
    fn resolve(&self, id: &EntryId) -> Option<EntryId> {
        let mut id = id;
        // Links may run in a ring.
        for _ in 0..=self.skipped.len() {
            if let Some(now) = self.placed.get(id) {
                return Some(now.clone());
            }
            id = self.skipped.get(id)?.as_ref()?;
        }
        None
    }

    fn leave_entry(&mut self, entry: &Entry) {
        self.leave(entry.body.kind());
        self.skip(entry);
    }

    fn skip(&mut self, entry: &Entry) {
        if let Some(id) = &entry.id {
            self.skipped.insert(id.clone(), entry.parent.clone());
        }
    }

    fn leave(&mut self, kind: &'static str) {
        *self.imported.left_out.entry(kind).or_default() += 1;
    }
}

/// The entries, each after the one it hangs from; else in their order.
fn in_order(entries: &[Entry]) -> Vec<&Entry> {
    let mut index: HashMap<&EntryId, usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(id) = &entry.id {
            index.entry(id).or_insert(at);
        }
    }
    let mut done = vec![false; entries.len()];
    let mut ordered = Vec::with_capacity(entries.len());
    let mut above: Vec<usize> = Vec::new();
    for at in 0..entries.len() {
        let mut next = Some(at);
        while let Some(at) = next {
            match done.get_mut(at) {
                Some(done) if !*done => *done = true,
                _ => break,
            }
            above.push(at);
            let parent = entries.get(at).and_then(|entry| entry.parent.as_ref());
            next = parent.and_then(|id| index.get(id).copied());
        }
        // A ring is cut above its first entry, as the tree cuts it.
        if let Some(start) = above.iter().position(|&at| Some(at) == next) {
            let first = above.remove(start);
            above.push(first);
        }
        while let Some(at) = above.pop() {
            ordered.extend(entries.get(at));
        }
    }
    ordered
}

/// The entries that summaries hang from.
fn summarized(entries: &[Entry]) -> HashSet<&EntryId> {
    let summary =
        |entry: &&Entry| matches!(&entry.body, Body::Message(message) if message.compact_summary);
    let summaries = entries.iter().filter(summary);
    summaries
        .filter_map(|entry| entry.parent.as_ref())
        .collect()
}

/// The layout has no place for it, as opposed to a failure.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused(_) | Error::BadId { .. } | Error::NotFound { .. }
    )
}
