//! The logs that a follower has open, and how a line finds its log.
//!
//! At most 64 logs are open. A log is identified by layout, root, path, session and agent, never by
//! an id alone, and is checked again after a pause (`SessionFiles::refreshed`). Sessions are listed
//! once after a pause; a line that has the full id of a session uses that list as long as the log
//! is the same file. Ids of sub-agents must be complete. Session lists are updated once for all
//! their sessions (`SessionWriter::close_all`).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use annals::Subject;
use annals::jsonl::Error as FileError;
use annals::layout::Spawn;
use annals::store::{BegunLog, Inventory, Root, Session, SessionFiles, SessionInfo, SessionWriter};
use anyhow::{Context as _, Result, bail};

use super::super::{
    AppendArgs, Content, open_or_spawn_agent, spawn_from_spec, unknown_member, write_options,
};
use super::{LineResult, LineTarget};
use crate::commands::{input, new};
use crate::context::session_spellings;
use crate::context::{Access, Context, is_latest};
use annals::draft_json::{AgentSpec, NewSessionSpec};

/// Maximum number of open logs.
const MAX_OPEN_LOGS: usize = 64;

/// Identifies an open log. Two folders may each hold a session of the same id, and one log may hold
/// several sessions, so the key has both the path and the id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LogKey {
    layout: &'static str,
    root: PathBuf,
    /// The session's main log.
    log: PathBuf,
    session: String,
    agent: Option<String>,
}

impl LogKey {
    /// Returns true if `files` belong to this session.
    fn is_of(&self, files: &SessionFiles) -> bool {
        // The log may have continued in another volume.
        let mut volumes = files.log.iter().flat_map(|log| log.volumes());
        files.id.as_str() == self.session.as_str()
            && files.root.layout.name() == self.layout
            && files.root.path == self.root
            && (files.main_path() == self.log || volumes.any(|volume| volume.path == self.log))
    }
}

/// The files of a session that was written to.
struct FoundSession {
    files: SessionFiles,
    /// True if checked since the last close or failed write.
    is_checked: bool,
}

/// Open logs, and the sessions found so far.
#[derive(Default)]
pub(super) struct Writers {
    pub(super) open: HashMap<LogKey, (SessionWriter, u64)>,
    /// The session of the arguments.
    pub(super) default: Option<LogKey>,
    /// Sessions by the text that named them.
    keys_by_name: HashMap<String, LogKey>,
    /// Sessions by their `new` object.
    keys_by_spec: HashMap<NewSessionSpec, LogKey>,
    /// Files of sessions; the keys have no sub-agent.
    session_files: HashMap<LogKey, FoundSession>,
    /// Purpose of each sub-agent.
    purposes: HashMap<LogKey, Spawn>,
    /// Last inventory of the roots; dropped when the input is idle.
    listed: Option<Inventory>,
    /// Log that the current line created by naming it.
    begun_log: Option<BegunLog>,
    /// Problem of the session that the current line created.
    warning: Option<String>,
    /// Number of lines written; orders logs by last use.
    lines: u64,
}

impl Writers {
    /// Writes a line. If it is refused, the log that it created is removed.
    pub(super) fn write(
        &mut self,
        args: &AppendArgs,
        place: LineTarget,
        content: Content,
        context: &mut Context,
    ) -> Result<LineResult> {
        self.warning = None;
        let done = self.write_line(args, place, content, context);
        match self.begun_log.take() {
            Some(log) if done.is_err() => log.discard()?,
            _ => {}
        }
        done
    }

    fn write_line(
        &mut self,
        args: &AppendArgs,
        place: LineTarget,
        content: Content,
        context: &mut Context,
    ) -> Result<LineResult> {
        let (main, mut began) = match (&place.new, &place.session) {
            (Some(new), _) => self.begin_session(args, new, &content, context)?,
            (None, Some(text)) => (self.find(text, context)?, false),
            (None, None) => (self.find_default(args, context)?, false),
        };
        began |= self.begun_log.as_ref().is_some_and(BegunLog::is_new);
        let mut key = main.clone();
        key.agent = place.agent.as_ref().map(|agent| agent.id.clone());
        let session = key.session.clone();
        let opened = self.open(args, &key, place.agent.as_ref(), context);
        let opened = opened.and_then(|spawned| {
            if let Some(agent) = &place.agent {
                self.check_purpose(&key, agent, spawned, context)?;
            }
            Ok(spawned)
        });
        let written = opened.and_then(|spawned| {
            began |= spawned;
            let (writer, used) = self.open.get_mut(&key).context("the log is not open")?;
            self.lines += 1;
            *used = self.lines;
            if let Content::Drafts(drafts, _) = &content {
                let layout = writer.layout();
                let unknown = drafts.iter().find_map(|it| unknown_member(layout, it));
                if let Some(why) = unknown {
                    bail!("{why}");
                }
            }
            let written = match content {
                Content::Raw(records) => writer.append_raw(records),
                Content::Drafts(drafts, _) => writer
                    .check_tools(&drafts)
                    .and_then(|()| writer.append_all(drafts)),
            };
            written.map_err(anyhow::Error::new)
        });
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // The cached state of the log may be wrong. The next line reads it again.
                self.open.remove(&key);
                if let Some(known) = self.session_files.get_mut(&main) {
                    known.is_checked = false;
                }
                return Err(match began {
                    true => error.context(format!("session {session} was created, but")),
                    false => error,
                });
            }
        };
        let agent = self.open.get(&key).and_then(|(writer, _)| writer.agent());
        Ok(LineResult {
            session,
            agent,
            began,
            written,
            warning: self.warning.take(),
        })
    }

    /// Opens a log if it is not open. Returns true if this created the sub-agent.
    fn open(
        &mut self,
        args: &AppendArgs,
        key: &LogKey,
        agent: Option<&AgentSpec>,
        context: &mut Context,
    ) -> Result<bool> {
        if self.open.contains_key(key) {
            return Ok(false);
        }
        let main = LogKey {
            agent: None,
            ..key.clone()
        };
        let known = self
            .session_files
            .get(&main)
            .map(|known| known.files.clone());
        let is_there = |files: &SessionFiles| {
            let mut agents = files
                .agents
                .iter()
                .filter_map(|it| it.artifact.agent.as_ref());
            agent.is_none_or(|agent| agents.any(|it| it.as_str() == agent.id))
        };
        let files = match known.filter(is_there) {
            Some(files) => files,
            // The sub-agent may have been created since.
            None => self.refresh_files(&main, context)?,
        };
        let options = write_options(args, context);
        let (writer, spawned) = match agent {
            Some(agent) => match open_or_spawn_agent(agent, &files, options, context) {
                // Another program may have created it meanwhile.
                Err(error) if error.downcast_ref().is_some_and(is_id_taken) => {
                    let files = self.refresh_files(&main, context)?;
                    open_or_spawn_agent(agent, &files, options, context)?
                }
                opened => opened?,
            },
            None => (context.store.open_writer(&files, options)?, false),
        };
        self.insert_writer(key.clone(), writer, context);
        Ok(spawned)
    }

    /// Refuses a line whose kind, description or call differs from the existing sub-agent.
    fn check_purpose(
        &mut self,
        key: &LogKey,
        agent: &AgentSpec,
        spawned: bool,
        context: &mut Context,
    ) -> Result<()> {
        if spawned {
            self.purposes.insert(key.clone(), spawn_from_spec(agent)?);
            return Ok(());
        }
        let said = spawn_from_spec(agent)?;
        if said == Spawn::new(said.agent.clone(), "", "") {
            return Ok(());
        }
        if !self.purposes.contains_key(key) {
            let main = LogKey {
                agent: None,
                ..key.clone()
            };
            let session = Session::read(self.refresh_files(&main, context)?)?;
            // A sub-agent without a recorded purpose takes that of this line.
            let known = session.agent_purpose(&said.agent)?;
            self.purposes
                .insert(key.clone(), known.unwrap_or_else(|| said.clone()));
        }
        let Some(known) = self.purposes.get(key) else {
            return Ok(());
        };
        let call = |spawn: &Spawn| spawn.call.clone().unwrap_or_default();
        let members = [
            ("kind", &said.kind, &known.kind),
            ("description", &said.description, &known.description),
            ("call", &call(&said), &call(known)),
        ];
        let differs = |(_, said, known): &&(_, &String, &String)| !said.is_empty() && said != known;
        let Some((name, said, known)) = members.iter().find(differs) else {
            return Ok(());
        };
        let known = match known.is_empty() {
            true => "none".to_owned(),
            false => format!("`{known}`"),
        };
        bail!(
            "sub-agent {} exists already, and its {name} is {known}, not `{said}`; leave out \"{name}\" to continue it",
            agent.id
        )
    }

    fn insert_writer(&mut self, key: LogKey, writer: SessionWriter, context: &Context) {
        if self.open.len() >= MAX_OPEN_LOGS {
            self.close_oldest(context);
        }
        self.open.insert(key, (writer, self.lines));
    }

    /// Closes the least recently used half of the logs: together, because each close may rewrite a
    /// session list.
    fn close_oldest(&mut self, context: &Context) {
        let mut by_use: Vec<(u64, LogKey)> = self
            .open
            .iter()
            .map(|(key, (_, used))| (*used, key.clone()))
            .collect();
        by_use.sort_by_key(|(used, _)| *used);
        by_use.truncate(MAX_OPEN_LOGS / 2);
        let mut closed = Vec::new();
        for (_, key) in by_use {
            closed.extend(self.open.remove(&key).map(|(writer, _)| writer));
            let main = LogKey { agent: None, ..key };
            if let Some(known) = self.session_files.get_mut(&main) {
                known.is_checked = false;
            }
        }
        close_writer(closed, context);
    }

    fn add_session(&mut self, files: SessionFiles) -> LogKey {
        let key = LogKey {
            layout: files.root.layout.name(),
            root: files.root.path.clone(),
            log: files.main_path().to_owned(),
            session: files.id.to_string(),
            agent: None,
        };
        let checked = true;
        self.session_files.insert(
            key.clone(),
            FoundSession {
                files,
                is_checked: checked,
            },
        );
        key
    }

    /// Finds the session that a text names.
    fn find(&mut self, text: &str, context: &mut Context) -> Result<LogKey> {
        if let Some(key) = self.keys_by_name.get(text).cloned()
            && self.still_exists(&key, context)
        {
            return Ok(key);
        }
        let key = self.resolve(text, context)?;
        // `latest` may be another session on the next line.
        if !is_latest(text) {
            self.keys_by_name.insert(text.to_owned(), key.clone());
        }
        Ok(key)
    }

    /// Returns the session of the arguments. `latest` is resolved once for all lines.
    fn find_default(&mut self, args: &AppendArgs, context: &mut Context) -> Result<LogKey> {
        let Some(text) = &args.session else {
            bail!("the line names no session; add \"session\" or \"new\" to it");
        };
        // If unset, today's log is created with the first line.
        if let Some(key) = self.default.clone() {
            if self.still_exists(&key, context) {
                return Ok(key);
            }
            if is_latest(text) {
                bail!(
                    "session {} no longer exists at {}",
                    key.session,
                    key.log.display()
                );
            }
        }
        let key = self.resolve(text, context)?;
        self.default = Some(key.clone());
        Ok(key)
    }

    pub(super) fn resolve(&mut self, text: &str, context: &mut Context) -> Result<LogKey> {
        if let Some(log) = super::super::missing_log(text, context)? {
            self.begun_log = Some(log.create(&context.store, context.write_options())?);
            self.warning = input::missing_directory(&log.root, Path::new(&log.new.cwd));
        }
        if let Some(files) = self.listed(|files| files.id.as_str() == text) {
            return Ok(self.add_session(files));
        }
        let inventory = context.inventory();
        // A program writes the lines, so a title is not a name here.
        let target = context.find_by_id(&inventory, text, Access::Write);
        self.listed = Some(inventory);
        let target = target?;
        target.refuse_agent()?;
        if let Some(message) = &target.message {
            bail!("`{text}` names the message {message}; set \"parent\" in the line instead");
        }
        Ok(self.add_session(target.files))
    }

    /// Returns the only session of the last inventory for which `is_it` holds, if its log is still
    /// the same file. Avoids a new inventory for each named session.
    fn listed(&self, is_it: impl Fn(&SessionFiles) -> bool) -> Option<SessionFiles> {
        let sessions = &self.listed.as_ref()?.sessions;
        let mut found = sessions.iter().filter(|files| is_it(files));
        let (Some(only), None) = (found.next(), found.next()) else {
            return None;
        };
        only.with_current_log()
    }

    /// Returns true if a session is still where it was found. Lists the roots only if its own log
    /// is not conclusive.
    fn still_exists(&mut self, key: &LogKey, context: &mut Context) -> bool {
        if self.open.contains_key(key) {
            return true;
        }
        if let Some(known) = self.session_files.get_mut(key) {
            if known.is_checked {
                return true;
            }
            if let Some(files) = known.files.refreshed() {
                known.files = files;
                known.is_checked = true;
                return true;
            }
        }
        if let Some(files) = self.listed(|files| key.is_of(files)) {
            self.add_session(files);
            return true;
        }
        self.refresh_files(key, context).is_ok()
    }

    /// Finds the files of a session again, by its log.
    fn refresh_files(&mut self, key: &LogKey, context: &mut Context) -> Result<SessionFiles> {
        let inventory = context.inventory();
        let found = inventory
            .sessions
            .iter()
            .find(|files| key.is_of(files))
            .cloned();
        let found = found.or_else(|| {
            // The log may be outside of every root.
            let target = context.store.find(&inventory, key.log.to_str()?).ok()?;
            Some(target.files).filter(|files| key.is_of(files))
        });
        self.listed = Some(inventory);
        let Some(files) = found else {
            self.session_files.remove(key);
            bail!(
                "session {} no longer exists at {}",
                key.session,
                key.log.display()
            );
        };
        self.add_session(files.clone());
        Ok(files)
    }

    /// Creates a session, or continues the one with that id.
    fn begin_session(
        &mut self,
        args: &AppendArgs,
        new: &NewSessionSpec,
        content: &Content,
        context: &mut Context,
    ) -> Result<(LogKey, bool)> {
        if let Some(key) = self.keys_by_spec.get(new).cloned()
            && self.still_exists(&key, context)
        {
            return Ok((key, false));
        }
        if let Some(key) = self.resume(new, context)? {
            return Ok((key, false));
        }
        let root = context.writable_root()?;
        if let Content::Drafts(drafts, _) = content {
            let mut unknown = drafts
                .iter()
                .filter_map(|it| unknown_member(root.layout, it));
            if let Some(why) = unknown.next() {
                bail!("{why}");
            }
        }
        let cwd = input::session_directory(&root, new.cwd.as_deref().map(Path::new))?;
        let mut session = input::new_session(&root, new.id.as_deref(), &cwd)?;
        session.git_branch = match &new.git_branch {
            Some(branch) => Some(branch.clone()),
            None => input::git_branch(&cwd),
        };
        if let Some(title) = &new.title {
            session.title = Some(input::non_empty(title, "title")?.to_owned());
        }
        session.folder = match &new.agent {
            Some(agent) => Some(new::agent_folder(context, &root, &session.cwd, agent)?),
            None => None,
        };
        session.members.clone_from(&new.members);
        let created = context
            .store
            .create(&root, &session, write_options(args, context));
        let writer = match created {
            Ok(writer) => writer,
            Err(error) => {
                // Another program may have created it meanwhile.
                return match self.resume(new, context) {
                    Ok(Some(key)) if is_id_taken(&error) => Ok((key, false)),
                    _ => Err(error.into()),
                };
            }
        };
        self.warning = input::missing_directory(&root, &cwd);
        let key = LogKey {
            layout: root.layout.name(),
            root: root.path.clone(),
            log: writer.path(),
            session: writer.session().to_string(),
            agent: None,
        };
        // Its files are looked up once the log is closed; the writer needs none.
        if new.id.is_some() {
            self.keys_by_spec.insert(new.clone(), key.clone());
        }
        self.keys_by_name.insert(key.session.clone(), key.clone());
        self.insert_writer(key.clone(), writer, context);
        Ok((key, true))
    }

    /// Returns the existing session with the id in `new`; an error if the two differ.
    fn resume(&mut self, new: &NewSessionSpec, context: &mut Context) -> Result<Option<LogKey>> {
        let Some(id) = &new.id else {
            return Ok(None);
        };
        let Some(files) = find_existing(new, id, context)? else {
            return Ok(None);
        };
        let key = self.add_session(files);
        self.keys_by_spec.insert(new.clone(), key.clone());
        Ok(Some(key))
    }

    /// Closes all logs, which updates session lists. A session may move while its log is closed, so
    /// its location is checked when it is named again.
    pub(super) fn close_all(&mut self, context: &Context) {
        let known = self.session_files.values_mut();
        known.for_each(|known| known.is_checked = false);
        self.purposes.clear();
        self.listed = None;
        let open = self.open.drain().map(|(_, (writer, _))| writer);
        close_writer(open.collect(), context);
    }
}

/// Closes logs. Every line is acknowledged by now, so failures are printed as warnings.
fn close_writer(writers: Vec<SessionWriter>, context: &Context) {
    for (session, error) in SessionWriter::close_all(writers) {
        context.print_warning(&format!(
            "cannot update the session list for {session}: {error}"
        ));
    }
}

/// Returns true if a session or a sub-agent was not created because its id exists.
fn is_id_taken(error: &annals::Error) -> bool {
    match error {
        annals::Error::File(FileError::Io { source, .. }) => {
            source.kind() == io::ErrorKind::AlreadyExists
        }
        annals::Error::Exists(_) => true,
        _ => false,
    }
}

/// Returns the session or the thread with exactly the id in `new`, in its directory if `new` has one. Refuses a
/// session that differs from `new`.
fn find_existing(
    new: &NewSessionSpec,
    id: &str,
    context: &Context,
) -> Result<Option<SessionFiles>> {
    // A root that does not exist yet is not an error here.
    let mut inventory = context.store.inventory();
    let exact = |files: &SessionFiles| files.id.as_str() == id;
    match inventory.sessions.iter().any(exact) {
        true => inventory.sessions.retain(exact),
        false => inventory.sessions.retain(|files| files.is_named(id)),
    }
    let rows = context.store.sessions(&inventory).read(&|_, _| {});
    let rows = rows.into_iter().collect::<annals::Result<Vec<_>>>()?;
    let cwd = match &new.cwd {
        None => None,
        Some(cwd) => Some(input::resolve_directory(Some(Path::new(cwd)))?),
    };
    let cwd = cwd.as_deref().and_then(Path::to_str);
    // A session may have recorded the directory through a symbolic link.
    let cwds = cwd.map(|cwd| session_spellings(cwd, &rows));
    let here = |info: &SessionInfo| {
        let cwds = cwds.as_ref();
        cwds.is_none_or(|cwds| cwds.iter().any(|cwd| is_in_directory(info, cwd)))
    };
    let found: Vec<usize> = (0..rows.len())
        .filter(|at| rows.get(*at).is_some_and(here))
        .collect();
    let only = match (found.as_slice(), rows.first()) {
        ([only], _) => *only,
        ([], Some(first)) => bail!(
            "session {id} exists already, in {} and not in {}; use another id, or leave out \"cwd\" to continue that session",
            first.project.path,
            cwd.unwrap_or_default()
        ),
        ([], None) => return Ok(None),
        _ => {
            let files = found.iter().filter_map(|at| rows.get(*at));
            return Err(annals::Error::Ambiguous {
                what: Subject::Session,
                id: id.to_owned(),
                candidates: files.map(|info| info.file.display().to_string()).collect(),
            }
            .into());
        }
    };
    if let Some(info) = rows.get(only)
        && let Some(files) = inventory.sessions.get(only)
        && let agent = agent_id(new, info, &files.root, context)
        && let Some((name, said, is)) = difference(new, agent, info)
    {
        let is = is.map_or_else(|| "none".to_owned(), |is| format!("`{is}`"));
        bail!(
            "session {id} exists already, and its {name} is {is}, not `{said}`; leave out \"{name}\" to continue it"
        );
    }
    Ok(inventory.sessions.into_iter().nth(only))
}

/// Returns true if a session belongs to a directory, or records no absolute path.
fn is_in_directory(info: &SessionInfo, cwd: &str) -> bool {
    let project = &info.project;
    // A path guessed from a folder name may have other separators.
    let plain = |path: &str| path.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    !project.path.starts_with('/')
        || project.path == cwd
        || info.other_directories.iter().any(|path| path == cwd)
        || (project.guessed && plain(&project.path) == plain(cwd))
}

/// Returns the id of the agent that `new` names, by id or by name in the session's workspace.
fn agent_id(
    new: &NewSessionSpec,
    info: &SessionInfo,
    root: &Root,
    context: &Context,
) -> Option<String> {
    let wanted = new.agent.as_ref()?;
    let config = context.store.chorus().config(root).ok();
    let home = config.as_ref().zip(info.attributes.get("workspace"));
    let home = home.and_then(|(config, home)| config.workspace(home).ok());
    let id = home.and_then(|home| home.agent_id(wanted).ok());
    Some(id.unwrap_or_else(|| wanted.clone()))
}

/// Returns the first member in which `new` differs from a session: name, value in `new`, value in
/// the session. `agent` is the id of the agent that `new` names.
fn difference(
    new: &NewSessionSpec,
    agent: Option<String>,
    info: &SessionInfo,
) -> Option<(String, String, Option<String>)> {
    let title = info.title.as_ref().map(|title| title.text.clone());
    let attribute = |name: &str| info.attributes.get(name).cloned();
    let mut said = vec![
        ("title".to_owned(), new.title.clone(), title),
        ("agent".to_owned(), agent, attribute("agent")),
    ];
    let branch = attribute("git_branch");
    // Layouts record the branch with messages, so a session without any may not have it yet.
    if branch.is_some() || info.messages > 0 {
        said.push(("git_branch".to_owned(), new.git_branch.clone(), branch));
    }
    for (name, json) in &new.members {
        let value = serde_json::from_str(json).unwrap_or_else(|_| json.clone());
        // Layouts spell member names differently.
        let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
        let mut attributes = info.attributes.iter();
        let is = attributes.find(|(known, _)| plain(known) == plain(name));
        said.push((name.clone(), Some(value), is.map(|(_, is)| is.clone())));
    }
    let mut said = said.into_iter();
    said.find_map(|(name, said, is)| {
        let said = said.filter(|said| is.as_ref() != Some(said))?;
        Some((name, said, is))
    })
}
