//! Writing sessions: begin, append, retitle, compact, save todos, spawn, fork.
//!
//! A writer knows the end of its log: the leaf that the next entry hangs from, the directory, the
//! newest time. It finds that out from the log's last kilobytes when it is opened, and under the
//! lock of every append it reads what others added since. So an append costs what the record costs,
//! whatever the log's size.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::jsonl::{self, Create, Durability, Log, Options};
use crate::layout::{Change, Edit, Graft, Head, NewSession, Parent, Plan, Spawn, Stamp, Writer};
use crate::model::{
    AgentId, Artifact, Body, Draft, Entry, EntryId, Kind, SessionId, TitleSource, Todo,
};

use super::inventory::{FoundFile, SessionFiles};
use super::session::Session;
use super::tail::{Tail, decode, identity, refuse_live};
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
        let artifact = writer.session(new)?;
        let log_path = root.locate(&artifact)?;
        make_parent(root, &log_path)?;
        let head = Head {
            session: new.id.clone(),
            agent: None,
            log: artifact,
            leaf: None,
            time: None,
            cwd: Some(new.cwd.clone()),
            git_branch: new.git_branch.clone(),
            version: None,
            prompt: None,
            anchored: true,
            beside: Vec::new(),
        };
        let log = Log::open(&log_path, options.log(Create::New))?;
        let session = SessionWriter {
            root: root.clone(),
            options,
            log_path,
            log: Mutex::new(Some(Arc::new(log))),
            tail: Mutex::new(Tail {
                head,
                end: 0,
                file: None,
            }),
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
        let mut tail = Tail {
            head: Head {
                session: files.id.clone(),
                agent: file.artifact.agent.clone(),
                log: file.artifact.clone(),
                leaf: None,
                time: None,
                cwd: None,
                git_branch: None,
                version: None,
                prompt: None,
                anchored: true,
                beside: files
                    .beside
                    .iter()
                    .map(|file| file.artifact.clone())
                    .collect(),
            },
            end: 0,
            file: None,
        };
        log.locked(|handle| {
            let window = tail.find(&files.root, &file.path, handle)?;
            if options.live {
                return Ok(());
            }
            refuse_live(&files.root, file, handle, &window)
        })?;
        Ok(SessionWriter {
            root: files.root.clone(),
            options,
            log_path: file.path.clone(),
            log: Mutex::new(Some(Arc::new(log))),
            tail: Mutex::new(tail),
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
        let handle =
            File::open(&file.path).map_err(|error| Error::io("read", &file.path, error))?;
        let mut bytes = Vec::new();
        let mut parent: Option<EntryId> = None;
        for outline in path.iter().filter_map(|&at| scan.outlines.get(at)) {
            let Some(id) = outline.id() else { continue };
            let record = log::record_bytes(&handle, file, outline.span)?;
            // A compaction begins a chain of its own; everything else hangs from what comes before.
            let parent_is = match &parent {
                None => Parent::None,
                Some(_) if outline.kind == Kind::Compaction => Parent::Keep,
                Some(above) => Parent::Entry(above),
            };
            let graft = Graft {
                from,
                to: &to,
                id: &id,
                parent: parent_is,
            };
            bytes.extend(writer.transplant(&record, &graft)?);
            bytes.push(b'\n');
            parent = Some(id);
        }
        if bytes.is_empty() {
            return Err(Error::refused("there are no messages to fork"));
        }
        let artifact = Artifact {
            session: Some(to.clone()),
            ..file.artifact.clone()
        };
        if let Some(title) = title {
            let draft = Draft::new(Body::Title {
                text: title.to_owned(),
                source: TitleSource::Custom,
            });
            let head = Head {
                session: to.clone(),
                agent: None,
                log: artifact.clone(),
                leaf: parent,
                time: None,
                cwd: None,
                git_branch: None,
                version: None,
                prompt: None,
                anchored: true,
                beside: Vec::new(),
            };
            let plan = plan(writer, &head, &Change::Append(vec![draft]), None)?;
            for edit in plan.edits {
                if let Edit::Append { lines, .. } = edit {
                    lines.iter().for_each(|line| {
                        bytes.extend(line);
                        bytes.push(b'\n');
                    });
                }
            }
        }
        let path = match file.artifact.folder {
            Some(_) => root.locate(&artifact)?,
            // A log outside of any tree is forked beside itself.
            None => file.path.with_file_name(format!("{to}.jsonl")),
        };
        root.guard(&path)?;
        jsonl::create_new(&path, &bytes)?;
        Ok(path)
    }
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

    /// Writes one entry and reads it back.
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
            time: None,
            prompt: None,
            anchored: true,
            beside: Vec::new(),
            ..head
        };
        Ok(SessionWriter {
            root: self.root.clone(),
            options: self.options,
            log_path,
            log: Mutex::new(None),
            tail: Mutex::new(Tail {
                head,
                end: 0,
                file: None,
            }),
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
                    self.check_parents(&tail.head, change)?;
                    let plan = plan(writer, &tail.head, change, self.options.now)?;
                    let (lines, others) = self.split(plan.edits)?;
                    documents = others;
                    tail.advance(&self.root, end, &lines, plan.leaf);
                    tail.file = identity(handle);
                    log_is = Some(tail.head.log.clone());
                    written.clone_from(&lines);
                    Ok(lines)
                })
                .inspect_err(|_| self.tail().forget())?;
        } else {
            let plan = plan(writer, &self.tail().head, change, self.options.now)?;
            documents = self.split(plan.edits)?.1;
        }
        // A crash before this leaves the derived documents behind, never the log.
        for (path, bytes) in documents {
            make_parent(&self.root, &path)?;
            jsonl::replace(&path, &bytes, None)?;
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

    /// Refuses to hang an entry from one that is not there: readers would lose all that is above.
    fn check_parents(&self, head: &Head, change: &Change) -> Result<()> {
        let Change::Append(drafts) = change else {
            return Ok(());
        };
        let mut known: Vec<&EntryId> = head.leaf.iter().collect();
        for draft in drafts {
            if let Some(parent) = &draft.parent
                && !known.contains(&parent)
            {
                if !log::has_entry(&self.root, &head.log, &self.log_path, parent.key())? {
                    return Err(Error::NotFound {
                        what: "message",
                        id: parent.to_string(),
                    });
                }
                known.push(parent);
            }
            known.extend(&draft.id);
        }
        Ok(())
    }

    /// Tells the lines for this log from documents to be replaced.
    #[expect(
        clippy::type_complexity,
        reason = "two lists that are taken apart at once"
    )]
    fn split(&self, edits: Vec<Edit>) -> Result<(Vec<Vec<u8>>, Vec<(PathBuf, Vec<u8>)>)> {
        let mut lines = Vec::new();
        let mut documents = Vec::new();
        let alone = self.tail_folder_missing();
        for edit in edits {
            match edit {
                Edit::Append { lines: more, .. } => lines.extend(more),
                Edit::Replace { .. } if alone => {
                    return Err(Error::refused(format!(
                        "{} lies outside of any root, so nothing can be kept beside it",
                        self.log_path.display()
                    )));
                }
                Edit::Replace { path, bytes } => documents.push((self.root.path.join(path), bytes)),
            }
        }
        Ok((lines, documents))
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

fn plan(writer: &dyn Writer, head: &Head, change: &Change, now: Option<Timestamp>) -> Result<Plan> {
    let mut fresh = || uuid::Uuid::new_v4().to_string();
    writer.plan(
        head,
        change,
        &mut Stamp {
            now: now.unwrap_or_else(Timestamp::now),
            fresh: &mut fresh,
        },
    )
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
