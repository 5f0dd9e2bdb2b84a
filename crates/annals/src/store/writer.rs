//! Writing sessions: begin, append, retitle, compact, save todos, spawn, fork.
//!
//! A writer knows the end of its log: the leaf that the next entry hangs from, the directory, the
//! newest time. It finds that out from the log's last kilobytes when it is opened, and under the
//! lock of every append it reads what others added since. So an append costs what the record costs,
//! whatever the log's size.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::json;
use crate::jsonl::{self, Create, Durability, Log, Options};
use crate::layout::{Change, Edit, Graft, Head, NewSession, Parent, Plan, Spawn, Stamp, Writer};
use crate::model::{
    AgentId, Artifact, Body, Draft, Entry, EntryId, Kind, Outline, SessionId, TitleSource, Todo,
};

use super::inventory::{FoundFile, SessionFiles};
use super::query::Counted;
use super::session::Session;
use super::tail::{self, Tail, decode};
use super::totals::Tally;
use super::{Root, Store, log};

/// How a session is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// What an acknowledgement stands for.
    pub durability: Durability,
    /// Write even if another program is writing to the session right now.
    pub live: bool,
    /// Write even on a network file system.
    pub network: bool,
    /// The time to write by instead of the system's: for histories written after the fact.
    pub now: Option<Timestamp>,
}

/// A session open for writing. Threads may share it.
#[derive(Debug)]
pub struct SessionWriter {
    root: Root,
    options: WriteOptions,
    log_path: PathBuf,
    /// `None` until a sub-agent's first entry makes its log.
    log: Mutex<Option<Arc<Log>>>,
    tail: Mutex<Tail>,
    tally: Mutex<Tally>,
}

impl Store {
    /// Begins a session and opens it for writing.
    pub fn create(
        &self,
        root: &Root,
        new: &NewSession,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let writer = writer_of(root)?;
        let new = &NewSession {
            cwd: real_directory(&new.cwd),
            ..new.clone()
        };
        let artifact = stamped(options.now, |stamp| writer.session(new, stamp))?;
        let log_path = root.locate(&artifact)?;
        make_parent(root, &log_path)?;
        let head = Head {
            cwd: Some(new.cwd.clone()),
            git_branch: new.git_branch.clone(),
            ..Head::new(new.id.clone(), artifact)
        };
        let log = Log::open(&log_path, options.log(Create::New))?;
        let session = SessionWriter {
            root: root.clone(),
            options,
            log_path,
            log: Mutex::new(Some(Arc::new(log))),
            tail: Mutex::new(Tail::new(head, options.live)),
            tally: Mutex::default(),
        };
        session.change(&Change::Begin)?;
        Ok(session)
    }

    /// Opens a session's main log for writing.
    pub fn write(&self, files: &SessionFiles, options: WriteOptions) -> Result<SessionWriter> {
        let Some(file) = &files.log else {
            return Err(Error::refused(format!(
                "session {} has no log of its own to write to",
                files.id
            )));
        };
        self.write_log(files, file, options)
    }

    /// Fails with [`Error::Live`] if another program is writing to the session right now.
    pub fn is_free(&self, files: &SessionFiles) -> Result<()> {
        let mut logs = files.logs();
        logs.try_for_each(|file| tail::check_free(&files.root, file))
    }

    /// Opens the log of one of a session's sub-agents for writing.
    pub fn write_agent(
        &self,
        files: &SessionFiles,
        agent: &str,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        let fits = |file: &&FoundFile| {
            file.artifact
                .agent
                .as_ref()
                .is_some_and(|id| id.as_str().starts_with(agent))
        };
        let mut found: Vec<&FoundFile> = files.agents.iter().filter(fits).collect();
        let exact = |file: &&FoundFile| {
            let id = file.artifact.agent.as_ref();
            id.is_some_and(|id| id.as_str() == agent)
        };
        if agent.is_empty() {
            found.clear();
        } else if let Some(whole) = found.iter().copied().find(|file| exact(file)) {
            found = vec![whole];
        }
        match found.as_slice() {
            [only] => self.write_log(files, only, options),
            [] => Err(Error::NotFound {
                what: "sub-agent",
                id: agent.to_owned(),
            }),
            many => Err(Error::Ambiguous {
                what: "sub-agent",
                id: agent.to_owned(),
                candidates: many
                    .iter()
                    .filter_map(|file| Some(file.artifact.agent.as_ref()?.to_string()))
                    .collect(),
            }),
        }
    }

    fn write_log(
        &self,
        files: &SessionFiles,
        file: &FoundFile,
        options: WriteOptions,
    ) -> Result<SessionWriter> {
        writer_of(&files.root)?;
        files.root.guard(&file.path)?;
        let log = Log::open(&file.path, options.log(Create::Never))?;
        let head = Head {
            beside: files
                .beside
                .iter()
                .map(|file| file.artifact.clone())
                .collect(),
            ..Head::new(files.id.clone(), file.artifact.clone())
        };
        let mut tail = Tail::new(head, options.live);
        log.locked(|handle| tail.find(&files.root, &file.path, handle))?;
        tail.head.resumed = tail.head.leaf.is_some();
        if files.is_lone() && tail.head.leaf.is_none() {
            return Err(Error::refused(format!(
                "{} lies outside of any root and holds no message, so it may be no session at all",
                file.path.display()
            )));
        }
        Ok(SessionWriter {
            root: files.root.clone(),
            options,
            log_path: file.path.clone(),
            log: Mutex::new(Some(Arc::new(log))),
            tail: Mutex::new(tail),
            tally: Mutex::default(),
        })
    }

    /// Copies a conversation, up to and including one of its entries, into a session of its own.
    ///
    /// The new session has the same ids but hangs in one chain, which every reader follows whole.
    pub fn fork(
        &self,
        session: &Session,
        path: &[usize],
        to: SessionId,
        title: Option<&str>,
    ) -> Result<PathBuf> {
        let root = session.root();
        let writer = writer_of(root)?;
        let (file, scan, _) = session
            .main()
            .ok_or_else(|| Error::refused("the session has no messages to fork"))?;
        let from = &session.files.id;
        let mut reader = log::Reader::open(root, file)?;
        let copied: Vec<(&Outline, EntryId)> = path
            .iter()
            .filter_map(|&at| scan.outlines.get(at))
            .filter_map(|outline| Some((outline, outline.id()?)))
            .collect();
        let Some((last, leaf)) = copied.last() else {
            return Err(Error::refused("there are no messages to fork"));
        };
        // Some readers go on at the newest entry, so the last must be it.
        let newest = copied
            .iter()
            .rev()
            .skip(1)
            .filter_map(|(outline, _)| outline.time)
            .max();
        let late = newest.filter(|newest| last.time.is_none_or(|time| time <= *newest));
        let millisecond = jiff::SignedDuration::from_millis(1);
        let late = late.and_then(|newest| newest.checked_add(millisecond).ok());
        let artifact = Artifact {
            session: Some(to.clone()),
            ..file.artifact.clone()
        };
        let path = match file.artifact.folder {
            Some(_) => root.locate(&artifact)?,
            // A log outside of any tree is forked beside itself.
            None => file.path.with_file_name(format!("{to}.jsonl")),
        };
        let title = title
            .map(|title| titled(writer, &artifact, &to, title))
            .transpose()?;
        root.guard(&path)?;
        jsonl::create_with(&path, |put| {
            let mut parent: Option<&EntryId> = None;
            for (outline, id) in &copied {
                let (record, _) = reader.record(outline)?;
                // A compaction begins a chain of its own; everything else hangs from what comes
                // before.
                let parent_is = match parent {
                    None => Parent::None,
                    Some(_) if outline.kind == Kind::Compaction => Parent::Keep,
                    Some(above) => Parent::Entry(above),
                };
                let graft = Graft {
                    from,
                    to: &to,
                    id,
                    parent: parent_is,
                    time: late.filter(|_| id == leaf),
                };
                put(&writer.transplant(&record, &graft)?)?;
                put(b"\n")?;
                parent = Some(id);
            }
            for line in title.iter().flatten() {
                put(line)?;
                put(b"\n")?;
            }
            Ok(())
        })?;
        Ok(path)
    }
}

/// The lines that give a new session its title.
fn titled(
    writer: &dyn Writer,
    log: &Artifact,
    session: &SessionId,
    title: &str,
) -> Result<Vec<Vec<u8>>> {
    let draft = Draft::new(Body::Title {
        text: title.to_owned(),
        source: TitleSource::Custom,
    });
    let head = Head::new(session.clone(), log.clone());
    let plan = plan(writer, &head, &Change::Append(vec![draft]), None)?;
    let lines = plan.edits.into_iter().filter_map(|edit| match edit {
        Edit::Append { lines, .. } => Some(lines),
        _ => None,
    });
    Ok(lines.flatten().collect())
}

impl SessionWriter {
    /// The session.
    pub fn session(&self) -> SessionId {
        self.tail().head.session.clone()
    }

    /// The sub-agent whose log this is; `None` means the main agent.
    pub fn agent(&self) -> Option<AgentId> {
        self.tail().head.agent.clone()
    }

    /// The log.
    pub fn path(&self) -> &Path {
        &self.log_path
    }

    /// The entry that the next one will hang from, as far as is known without looking again.
    pub fn leaf(&self) -> Option<EntryId> {
        self.tail().head.leaf.clone()
    }

    /// What the log amounts to so far, each response counted once. The first time the log is read
    /// from its beginning, record by record; after that, only what was added to it.
    pub fn totals(&self) -> Result<Counted> {
        let files = [(self.tail().head.log.clone(), self.log_path.clone())];
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.count(&self.root, &files, &|_| true)
    }

    /// Writes a draft and reads it back. Of a reply that takes several entries, the last is returned:
    /// it is the one to go on from.
    pub fn append(&self, draft: Draft) -> Result<Entry> {
        let mut written = self.append_all(vec![draft])?;
        written
            .pop()
            .ok_or_else(|| Error::refused("nothing was written"))
    }

    /// Writes entries in one write and reads them back.
    pub fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        self.change(&Change::Append(drafts))
    }

    /// Gives the session a title.
    pub fn retitle(&self, title: &str) -> Result<()> {
        let body = Body::Title {
            text: title.to_owned(),
            source: TitleSource::Custom,
        };
        self.change(&Change::Append(vec![Draft::new(body)]))
            .map(drop)
    }

    /// Gives the session a label; an empty one takes it back.
    pub fn tag(&self, tag: &str) -> Result<()> {
        self.change(&Change::Append(vec![Draft::new(Body::Tag {
            text: tag.to_owned(),
        })]))
        .map(drop)
    }

    /// Replaces what the agent sees of the conversation so far by a summary.
    pub fn compact(&self, summary: &str, tokens: Option<u64>) -> Result<Vec<Entry>> {
        self.change(&Change::Compact {
            summary: summary.to_owned(),
            tokens,
        })
    }

    /// Replaces the agent's todos.
    pub fn set_todos(&self, todos: &[Todo]) -> Result<()> {
        self.change(&Change::SetTodos(todos.to_vec())).map(drop)
    }

    /// Begins a sub-agent that belongs to this session. Its log is made by its first entry.
    pub fn spawn(&self, spawn: &Spawn) -> Result<SessionWriter> {
        let head = self.tail().head.clone();
        if head.agent.is_some() || head.log.folder.is_none() {
            return Err(Error::refused(
                "a sub-agent needs a session in a root to belong to",
            ));
        }
        let artifact = writer_of(&self.root)?.agent(&head, &spawn.agent)?;
        let log_path = self.root.locate(&artifact)?;
        self.root.guard(&log_path)?;
        if log_path.exists() {
            return Err(Error::refused(format!(
                "{} exists already",
                log_path.display()
            )));
        }
        self.change(&Change::Spawn(spawn.clone()))?;
        let head = Head {
            agent: Some(spawn.agent.clone()),
            log: artifact,
            leaf: None,
            last: None,
            time: None,
            prompt: None,
            anchored: true,
            resumed: false,
            beside: Vec::new(),
            ..head
        };
        Ok(SessionWriter {
            root: self.root.clone(),
            options: self.options,
            log_path,
            log: Mutex::new(None),
            tail: Mutex::new(Tail::new(head, self.options.live)),
            tally: Mutex::default(),
        })
    }

    /// Plans a change against the log's present end, makes its edits, and reads back what was added.
    fn change(&self, change: &Change) -> Result<Vec<Entry>> {
        let writer = writer_of(&self.root)?;
        let touches_log = !matches!(change, Change::SetTodos(_) | Change::Spawn(_));
        let mut written = Vec::new();
        let mut log_is = None;
        let mut documents = Vec::new();
        let mut places = Vec::new();
        if touches_log {
            let log = self.log()?;
            places = log
                .append_all_with(|end, handle| {
                    let mut tail = self.tail();
                    tail.catch_up(&self.root, &self.log_path, handle, end)?;
                    self.check_links(&mut tail, change)?;
                    let plan = plan(writer, &tail.head, change, self.options.now)?;
                    let (lines, others) = self.split(&tail.head, plan.edits)?;
                    documents = others;
                    tail.advance(&self.root, end, &lines, plan.leaf);
                    log_is = Some(tail.head.log.clone());
                    written.clone_from(&lines);
                    Ok(lines)
                })
                .inspect_err(|_| self.tail().forget())?;
        } else {
            let head = self.tail().head.clone();
            let plan = plan(writer, &head, change, self.options.now)?;
            documents = self.split(&head, plan.edits)?.1;
        }
        // A crash before this leaves the derived documents behind, never the log.
        for document in documents {
            self.put(document)?;
        }
        let places = places
            .into_iter()
            .map(|place| (place.offset, place.end - place.offset));
        let records = written.iter().zip(places);
        let mut entries = log_is.map_or_else(Vec::new, |log| decode(&self.root, &log, records));
        // What the layout adds for its own program's sake was not asked for.
        entries.retain(|entry| !matches!(entry.body, Body::Resume { .. } | Body::Opaque { .. }));
        Ok(entries)
    }

    /// Refuses links that readers could not follow: a parent that is not there or that the agent
    /// program does not know, and an id that is there already, which would make a ring.
    fn check_links(&self, tail: &mut Tail, change: &Change) -> Result<()> {
        let Change::Append(drafts) = change else {
            return Ok(());
        };
        let mut fresh: Vec<&EntryId> = Vec::new();
        for draft in drafts {
            if let Some(parent) = &draft.parent
                && tail.head.leaf.as_ref() != Some(parent)
                && !fresh.contains(&parent)
            {
                match tail.knows(&self.root, &self.log_path, parent)? {
                    Some(true) => {}
                    Some(false) => {
                        return Err(Error::refused(format!(
                            "`{parent}` is no message that the agent program could go on from"
                        )));
                    }
                    None => {
                        return Err(Error::NotFound {
                            what: "message",
                            id: parent.to_string(),
                        });
                    }
                }
            }
            if let Some(id) = &draft.id {
                id.check()?;
                let there = tail.knows(&self.root, &self.log_path, id)?.is_some();
                if there || fresh.contains(&id) {
                    return Err(Error::refused(format!(
                        "the id `{id}` is in the session already; nothing was written"
                    )));
                }
                fresh.push(id);
            }
        }
        Ok(())
    }

    /// Tells the lines for this log from documents to be changed.
    fn split(&self, head: &Head, edits: Vec<Edit>) -> Result<(Vec<Vec<u8>>, Vec<Edit>)> {
        let own = self.root.layout.place(&head.log);
        let mut lines = Vec::new();
        let mut documents = Vec::new();
        for edit in edits {
            match edit {
                Edit::Append { path, lines: more } if path == own => lines.extend(more),
                Edit::Append { path, .. } => {
                    return Err(Error::refused(format!(
                        "a change of {} cannot add to {}",
                        own.display(),
                        path.display()
                    )));
                }
                _ if self.tail_folder_missing() => {
                    return Err(Error::refused(format!(
                        "{} lies outside of any root, so nothing can be kept beside it",
                        self.log_path.display()
                    )));
                }
                document => documents.push(document),
            }
        }
        if let Some(long) = lines.iter().find(|line| line.len() >= jsonl::MAX_LINE) {
            return Err(Error::refused(format!(
                "a record of {} MB is longer than the {} MB that readers take",
                long.len() >> 20,
                jsonl::MAX_LINE >> 20
            )));
        }
        Ok((lines, documents))
    }

    /// Changes a document beside the log.
    fn put(&self, edit: Edit) -> Result<()> {
        match edit {
            Edit::Append { .. } => Ok(()),
            Edit::Replace { path, bytes } => {
                let path = self.root.path.join(path);
                make_parent(&self.root, &path)?;
                jsonl::replace(&path, &bytes, None)
            }
            Edit::SetMembers { path, members } => {
                let path = self.root.path.join(path);
                make_parent(&self.root, &path)?;
                let members: Vec<(&str, &str)> = members
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect();
                swap(&path, |old| {
                    let set = json::set_members(old, &members);
                    let set = set.or_else(|| json::set_members(b"{}", &members));
                    Ok::<_, Error>(set.unwrap_or_default())
                })
            }
        }
    }

    /// Changes the agent's todos: reads them, lets `edit` change them, and puts the result in their
    /// place, again and again until no one else has changed them meanwhile.
    ///
    /// `edit` gets the document's path and bytes and the list that was read from it.
    pub fn edit_todos<E: From<Error>>(
        &self,
        mut edit: impl FnMut(&Path, &[u8], Vec<Todo>) -> Result<Vec<Todo>, E>,
    ) -> Result<Vec<Todo>, E> {
        let writer = writer_of(&self.root)?;
        let head = self.tail().head.clone();
        let encoded = |list: &[Todo]| -> Result<(PathBuf, Vec<u8>)> {
            let change = Change::SetTodos(list.to_vec());
            let plan = plan(writer, &head, &change, self.options.now)?;
            match self.split(&head, plan.edits)?.1.pop() {
                Some(Edit::Replace { path, bytes }) => Ok((self.root.path.join(path), bytes)),
                _ => Err(Error::refused("this layout keeps no todos")),
            }
        };
        let (path, _) = encoded(&[])?;
        make_parent(&self.root, &path)?;
        let artifact = path
            .strip_prefix(&self.root.path)
            .ok()
            .and_then(|path| self.root.layout.classify(path));
        let mut list = Vec::new();
        swap(&path, |old| {
            let before = artifact
                .as_ref()
                .map(|artifact| todos_in(&self.root, artifact, old));
            list = edit(&path, old, before.unwrap_or_default())?;
            Ok::<_, E>(encoded(&list)?.1)
        })?;
        Ok(list)
    }

    fn tail_folder_missing(&self) -> bool {
        // Known without the lock: the root of a log outside of any tree is the log's own directory.
        self.log_path.parent() == Some(self.root.path.as_path())
    }

    fn log(&self) -> Result<Arc<Log>> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &*log {
            return Ok(Arc::clone(log));
        }
        make_parent(&self.root, &self.log_path)?;
        let opened = Log::open(&self.log_path, self.options.log(Create::New))?;
        Ok(Arc::clone(log.insert(Arc::new(opened))))
    }

    fn tail(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory as agent programs name it: without links and final slashes, where that can be told.
fn real_directory(path: &str) -> String {
    let real = std::fs::canonicalize(path).ok();
    let real = real.and_then(|real| real.into_os_string().into_string().ok());
    real.unwrap_or_else(|| match path.trim_end_matches('/') {
        "" => path.to_owned(),
        trimmed => trimmed.to_owned(),
    })
}

/// The todos of a document.
fn todos_in(root: &Root, artifact: &Artifact, bytes: &[u8]) -> Vec<Todo> {
    let records = [(bytes.to_vec(), (0, bytes.len() as u64))];
    let records = records.iter().map(|(bytes, place)| (bytes, *place));
    let entries = decode(root, artifact, records);
    let todos = entries.into_iter().filter_map(|entry| match entry.body {
        Body::Todos(todos) => Some(todos),
        _ => None,
    });
    todos.flatten().collect()
}

/// Puts what `change` makes of a document in its place, as long as it is still what `change` saw.
fn swap<E: From<Error>>(
    path: &Path,
    mut change: impl FnMut(&[u8]) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    loop {
        let old = match std::fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("read", path, error).into()),
        };
        let new = change(old.as_deref().unwrap_or_default())?;
        let put = match &old {
            Some(old) => jsonl::replace(path, &new, Some(&jsonl::Digest::of(old))),
            None => jsonl::create_new(path, &new),
        };
        match put {
            // Someone was faster. Each turn means that someone else got through, so this ends.
            Err(Error::Changed { .. }) => {}
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            done => return Ok(done?),
        }
    }
}

fn plan(writer: &dyn Writer, head: &Head, change: &Change, now: Option<Timestamp>) -> Result<Plan> {
    stamped(now, |stamp| writer.plan(head, change, stamp))
}

/// Lets a writer know the time, and gives it fresh ids.
fn stamped<T>(now: Option<Timestamp>, work: impl FnOnce(&mut Stamp<'_>) -> T) -> T {
    let mut fresh = || uuid::Uuid::new_v4().to_string();
    work(&mut Stamp {
        now: now.unwrap_or_else(Timestamp::now),
        zone: jiff::tz::TimeZone::system(),
        fresh: &mut fresh,
    })
}

fn writer_of(root: &Root) -> Result<&'static dyn Writer> {
    root.layout.writer().ok_or_else(|| {
        Error::refused(format!(
            "annals reads the layout {} but does not write it",
            root.layout.name()
        ))
    })
}

/// Makes the directories above a file of a root, without following links out of it.
fn make_parent(root: &Root, path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    root.guard(path)?;
    jsonl::ensure_dir(parent)
}

impl WriteOptions {
    fn log(self, create: Create) -> Options {
        Options {
            durability: self.durability,
            create,
            network: self.network,
            ..Options::default()
        }
    }
}
