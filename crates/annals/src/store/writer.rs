//! Writes sessions: begin, append, retitle, compact, set todos, spawn sub-agents.
//!
//! A writer tracks the end of its log: the leaf that is the parent of the next entry, the
//! directory, the newest time. It reads these from the last kilobytes of the log when it is opened.
//! Each append reads what others added since, under the lock. So the cost of an append does not
//! depend on the size of the log.

mod new_id;
mod open;
mod raw;
mod refused;
mod rows;
mod shared_append;
mod tools;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};
use annals_jsonl::Error as FileError;
use annals_jsonl::{self as jsonl, AppendOptions, Create, Durability, FileId, Log};
use annals_layouts::Subject;
use annals_layouts::json;
use annals_layouts::layout::{
    AppendState, Change, Edit, EditPlan, NewSession, PlanContext, Spawn, Writer, set_scalars,
};
use annals_layouts::model::{
    AgentId, Artifact, ArtifactKind, Body, Draft, Entry, EntryId, Framing, Members, SessionId,
    TitleSource, Todo,
};

pub(super) use self::new_id::refuse_known_id;
pub(crate) use self::new_id::with_id_lock;
pub(super) use self::raw::check_line;
pub(crate) use self::shared_append::append_shared;
pub(super) use self::shared_append::{append_to_sibling, append_with_companion};

use super::Root;
use super::append_point::{AppendPoint, decode_derived, decode_records, is_derived};
use super::companion::{SplitRecords, WrittenEntries};
use super::document::replace_if_unchanged;
use super::inventory::RootFile;
use super::lifecycle::SessionState;
use super::log_totals::LogTotals;
use super::query::MessageCounts;
use super::session_list::ListUpdater;
use super::shared_log::{self, SessionSlice};

/// Options for writing a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Events that an acknowledged write survives.
    pub durability: Durability,
    /// Write even if another program is writing to the session right now.
    pub live: bool,
    /// Write even on a network file system.
    pub network: bool,
    /// Time to write instead of the system's, for histories written after the fact.
    pub now: Option<Timestamp>,
}

/// A session open for writing. Can be shared between threads.
#[derive(Debug)]
pub struct SessionWriter {
    pub(super) root: Root,
    options: WriteOptions,
    zone: TimeZone,
    /// The current volume; `None` until the first entry creates the log.
    log: Mutex<Option<Arc<Log>>>,
    append_point: Mutex<AppendPoint>,
    log_totals: Mutex<LogTotals>,
    /// Whether the log is outside of any root. Its directory is then used as the root.
    lone: bool,
    /// Todo lists that are only in the archive.
    pub(super) archived_todos: Vec<RootFile>,
    /// Updater of the session list that contains the log.
    pub(super) list_updater: Option<ListUpdater>,
    state: Mutex<SessionState>,
    /// Whether the session was in a session list without a log when it was opened.
    unwritten: bool,
}

impl SessionWriter {
    /// Returns the session's id.
    pub fn session(&self) -> SessionId {
        self.append_point().state.session.clone()
    }

    /// Returns the sub-agent that the log belongs to; `None` means the main agent.
    pub fn agent(&self) -> Option<AgentId> {
        self.append_point().state.agent.clone()
    }

    /// Returns the path of the log's current volume.
    pub fn path(&self) -> PathBuf {
        self.append_point().file.path.clone()
    }

    /// Returns the parent of the next entry, as far as known without reading the log again.
    pub fn leaf(&self) -> Option<EntryId> {
        self.append_point().state.leaf.clone()
    }

    /// Returns the state of the session: created, resumed after it was reopened, active from the
    /// next message on.
    pub fn state(&self) -> SessionState {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts of the log, each response counted once. The first call reads the log from
    /// its beginning; later calls read only what was appended, unless the layout derives the
    /// records from the whole file.
    pub fn totals(&self) -> Result<MessageCounts> {
        let file = self.append_point().file.clone();
        let mut tally = self
            .log_totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tally.count(&self.root, &file)
    }

    /// Appends a draft and reads it back. If a reply takes several entries, returns the last one,
    /// which is the parent of the next entry.
    pub fn append(&self, draft: Draft) -> Result<Entry> {
        let mut written = self.append_all(vec![draft])?;
        written
            .pop()
            .ok_or_else(|| Error::refused("nothing was written"))
    }

    /// Appends drafts in one write and reads them back.
    pub fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let writer = self.layout_writer()?;
        for draft in &drafts {
            let has_place = |name: &str| writer.has_place_for(&draft.body, name);
            refuse_unknown(
                &self.root,
                writer.draft_members(),
                has_place,
                &draft.members,
            )?;
        }
        self.append_drafts(writer, drafts)
    }

    /// Sets the session's title.
    pub fn retitle(&self, title: &str) -> Result<()> {
        let body = Body::Title {
            text: title.to_owned(),
            source: TitleSource::Custom,
        };
        self.apply_change(&Change::Append(vec![Draft::new(body)]))
            .map(drop)
    }

    /// Sets the session's tag; an empty one removes it.
    pub fn tag(&self, tag: &str) -> Result<()> {
        self.apply_change(&Change::Append(vec![Draft::new(Body::Tag {
            text: tag.to_owned(),
        })]))
        .map(drop)
    }

    /// Replaces the conversation so far, as the agent sees it, with a summary.
    pub fn compact(&self, summary: &str, tokens: Option<u64>) -> Result<Vec<Entry>> {
        self.apply_change(&Change::Compact {
            summary: summary.to_owned(),
            tokens,
        })
    }

    /// Replaces the agent's todos.
    pub fn set_todos(&self, todos: &[Todo]) -> Result<()> {
        self.apply_change(&Change::SetTodos(todos.to_vec()))
            .map(drop)
    }

    /// Begins a sub-agent of this session. Its log is created by its first entry, or by the layout.
    pub fn spawn(&self, spawn: &Spawn) -> Result<SessionWriter> {
        let head = self.append_point().state.clone();
        if head.agent.is_some() || self.lone {
            return Err(Error::refused(
                "a sub-agent must belong to a session in a root",
            ));
        }
        if let Framing::Rows(format) = head.log.framing {
            return self.spawn_in_rows(format, &head, spawn);
        }
        let writer = layout_writer(&self.root)?;
        let artifact = writer.new_agent_log(&head, &spawn.agent)?;
        let path = self.root.locate(&artifact)?;
        self.root.ensure_inside(&path)?;
        let shared = artifact.kind == ArtifactKind::SharedLog;
        let exists = match shared {
            false => jsonl::exists(&path)?,
            true => shared_log::has_agent(&self.root, &path, &head.session, &spawn.agent)?,
        };
        if exists {
            return Err(Error::Exists(format!(
                "the sub-agent {} already exists in {}",
                spawn.agent,
                path.display()
            )));
        }
        self.apply_change(&Change::Spawn(spawn.clone()))?;
        let made = jsonl::exists(&path)?;
        let mut file = RootFile::new(path, artifact.clone(), FileId::default());
        if shared {
            let name = shared_log::agent_name(&head.session, &spawn.agent)?;
            file.slice = Some(SessionSlice::empty(name).into());
        }
        let beside = self.append_point().state.attachments.clone().into_iter();
        let beside = beside.filter(|file| file.agent.as_ref() == Some(&spawn.agent));
        let head = AppendState {
            agent: Some(spawn.agent.clone()),
            cwd: head.cwd,
            git_branch: head.git_branch,
            version: head.version,
            writer_state: head.writer_state,
            attachments: beside.collect(),
            ..AppendState::new(head.session, artifact)
        };
        let log = match made {
            false => None,
            true => {
                let options = self.options.log_options(Create::Never);
                Some(Arc::new(self.root.open_log(&file.path, options)?))
            }
        };
        let mut tail = AppendPoint::new(head, file, self.options.allows_live(&self.root));
        if made {
            // The layout has already written a header to the log.
            tail.invalidate();
        }
        Ok(SessionWriter {
            root: self.root.clone(),
            options: self.options,
            log_totals: Mutex::default(),
            zone: self.zone.clone(),
            list_updater: ListUpdater::for_new_log(writer, &tail.state),
            log: Mutex::new(log),
            append_point: Mutex::new(tail),
            lone: false,
            archived_todos: Vec::new(),
            state: Mutex::new(SessionState::Created),
            unwritten: false,
        })
    }

    /// Returns the writer of the log.
    fn layout_writer(&self) -> Result<&'static dyn Writer> {
        let framing = self.append_point().file.artifact.framing;
        match framing {
            Framing::Rows(_) => rows::row_writer(&self.root),
            _ => layout_writer(&self.root),
        }
    }

    /// Returns whether a change writes to the log. A title or a note does not create a missing log.
    fn touches_log(&self, writer: &dyn Writer, change: &Change) -> Result<bool> {
        if matches!(change, Change::SetTodos(_) | Change::Spawn(_)) {
            return Ok(false);
        }
        let open = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.unwritten || open.is_some() {
            return Ok(true);
        }
        let head = self.append_point().state.clone();
        let plan = self.plan(writer, &head, change)?;
        Ok(!self.split(&head, plan.edits)?.0.is_empty())
    }

    /// Plans a change at the current end of the log, applies its edits, and reads back the new
    /// entries.
    fn apply_change(&self, change: &Change) -> Result<Vec<Entry>> {
        let framing = self.append_point().file.artifact.framing;
        if let Framing::Rows(format) = framing {
            return self.apply_rows(format, std::slice::from_ref(change));
        }
        let writer = layout_writer(&self.root)?;
        let touches_log = self.touches_log(writer, change)?;
        let mut written = Vec::new();
        let mut before = None;
        let mut others = Vec::new();
        let mut title = None;
        let mut places = Vec::new();
        if touches_log {
            let log = self.log()?;
            let mut expected = 0;
            places = log
                .append_all_tracked(
                    |end, handle| {
                        let mut tail = self.append_point();
                        if end != tail.end {
                            self.invalidate_message_count();
                        }
                        tail.catch_up(&self.root, handle, end)?;
                        tail.expect_at(jsonl::next_offset(handle, end));
                        self.check_links(&mut tail, change)?;
                        if let Change::Append(drafts) = change
                            && writer.results_name_tools()
                        {
                            tools::load_answered_calls(&self.root, &mut tail, drafts)?;
                        }
                        let plan = self.plan(writer, &tail.state, change)?;
                        (written, others) = self.split(&tail.state, plan.edits)?;
                        title = plan.title;
                        before = Some((tail.state.log.clone(), tail.state.last_message.clone()));
                        expected = tail.state.end;
                        let mut parted = SplitRecords::new(writer, &written)?;
                        for record in plan.companion {
                            parted.begin(record)?;
                        }
                        let artifact = &tail.state.log;
                        let entries = parted.write_companion(
                            &self.root,
                            artifact,
                            self.options,
                            handle,
                            end,
                        )?;
                        tail.advance(&self.root, end, &written, &parted.lines, plan.leaf);
                        tail.state.writer_state.extend(plan.writer_state);
                        Ok((parted.lines, entries))
                    },
                    WrittenEntries::move_to,
                )
                .inspect_err(|_| self.append_point().invalidate())?;
            if places.first().is_some_and(|place| place.offset != expected) {
                // Another program wrote in between, so the ids may differ from the expected ones.
                self.append_point().invalidate();
            }
        } else {
            let head = self.append_point().state.clone();
            let plan = self.plan(writer, &head, change)?;
            title = plan.title;
            let lines;
            (lines, others) = self.split(&head, plan.edits)?;
            if !lines.is_empty() {
                // A sub-agent that shares the log begins in it.
                let path = self.root.locate(&head.log)?;
                append_with_companion(&self.root, &path, &lines, self.options)?;
            }
        }
        // A crash before this leaves derived documents stale, never the log.
        let mut beside = Vec::new();
        for edit in others {
            beside.extend(self.apply_edit(edit)?);
        }
        let places = places
            .into_iter()
            .map(|place| (place.offset, place.end - place.offset));
        let places: Vec<(u64, u64)> = places.collect();
        let end = places.last().map_or(0, |(offset, len)| offset + len);
        let records = written.iter().zip(places);
        let mut entries = match before {
            Some((log, _)) if is_derived(log.framing) => {
                let file = self.append_point().file.clone();
                decode_derived(&self.root, &file, end, written.len())?
            }
            Some((log, last)) => decode_records(&self.root, &log, records, last),
            None => Vec::new(),
        };
        if entries
            .iter()
            .any(|entry| matches!(entry.body, Body::Message(_)))
        {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = SessionState::Active;
        }
        self.update_list(change, &entries, title)?;
        entries.append(&mut beside);
        // Drop what the layout added for its own program.
        entries.retain(|entry| !matches!(entry.body, Body::Resume { .. } | Body::Opaque { .. }));
        Ok(entries)
    }

    pub(super) fn plan(
        &self,
        writer: &dyn Writer,
        head: &AppendState,
        change: &Change,
    ) -> Result<EditPlan> {
        let completed = match change {
            Change::Append(drafts) => match writer.complete_drafts(head, drafts)? {
                Cow::Owned(drafts) => Some(Change::Append(drafts)),
                Cow::Borrowed(_) => None,
            },
            _ => None,
        };
        let change = completed.as_ref().unwrap_or(change);
        let mut fresh = random_id;
        plan(
            writer,
            head,
            change,
            self.options.now,
            &self.zone,
            &mut fresh,
        )
    }

    /// Rejects links that readers could not follow: a parent that is missing or that the agent
    /// program cannot continue from, and an id that exists already, which would create a cycle.
    fn check_links(&self, tail: &mut AppendPoint, change: &Change) -> Result<()> {
        let Change::Append(drafts) = change else {
            return Ok(());
        };
        let mut fresh: HashSet<&EntryId> = HashSet::new();
        for draft in drafts {
            if let Some(parent) = &draft.parent
                && tail.state.leaf.as_ref() != Some(parent)
                && !fresh.contains(parent)
            {
                match tail.find_id(&self.root, parent)? {
                    Some(true) => {}
                    Some(false) => {
                        return Err(Error::refused(format!(
                            "`{parent}` is not a message that the agent program can continue from"
                        )));
                    }
                    None => {
                        return Err(Error::NotFound {
                            what: Subject::Message,
                            id: parent.to_string(),
                        });
                    }
                }
            }
            if let Some(id) = &draft.id {
                id.check()?;
                let there = tail.find_id(&self.root, id)?.is_some();
                if there || !fresh.insert(id) {
                    return Err(Error::Exists(format!(
                        "the id `{id}` is already in the session; nothing was written"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Separates the lines for this log from the edits of other files.
    pub(super) fn split(
        &self,
        head: &AppendState,
        edits: Vec<Edit>,
    ) -> Result<(Vec<Vec<u8>>, Vec<Edit>)> {
        let own = self.root.layout.path_for(&head.log);
        let mut lines = Vec::new();
        let mut others = Vec::new();
        for edit in edits {
            match edit {
                Edit::Append { path, lines: more } if path == own => lines.extend(more),
                _ if self.lone => {
                    return Err(Error::refused(format!(
                        "{} is outside of any root, so annals cannot write other files for it",
                        self.root.layout.path_for(&head.log).display()
                    )));
                }
                other => others.push(other),
            }
        }
        if let Some(long) = lines.iter().find(|line| line.len() >= jsonl::MAX_LINE) {
            return Err(Error::refused(format!(
                "a record is too long: {} MB (limit {} MB)",
                long.len() >> 20,
                jsonl::MAX_LINE >> 20
            )));
        }
        Ok((lines, others))
    }

    /// Applies an edit to another file than the log. Returns the entries that were appended to it.
    fn apply_edit(&self, edit: Edit) -> Result<Vec<Entry>> {
        match edit {
            Edit::Append { path, lines } => {
                let added = append_to_sibling(&self.root, &path, &lines, self.options)?;
                let head = &mut self.append_point().state;
                let file = self.root.layout.classify(&path);
                head.attachments
                    .extend(file.filter(|file| !head.attachments.contains(file)));
                return Ok(added);
            }
            Edit::Create { path, bytes } => {
                let path = self.root.path.join(path);
                create_parent_dirs(&self.root, &path)?;
                match jsonl::create_new(&path, &bytes) {
                    Err(FileError::Io { source, .. })
                        if source.kind() == io::ErrorKind::AlreadyExists
                            && jsonl::read_document(&path).is_ok_and(|old| old == bytes) =>
                    {
                        Ok(())
                    }
                    created => Ok(created?),
                }
            }
            Edit::Replace { path, bytes } => {
                let path = self.root.path.join(path);
                create_parent_dirs(&self.root, &path)?;
                Ok(jsonl::replace(&path, &bytes, None)?)
            }
            Edit::SetScalars {
                path,
                members,
                defaults,
            } => {
                let path = self.root.path.join(path);
                create_parent_dirs(&self.root, &path)?;
                replace_if_unchanged(&path, |old| {
                    Ok::<_, Error>(set_scalars(old, &members, &defaults))
                })
            }
            Edit::Rows { .. } => Err(Error::refused("a log has no rows")),
            Edit::SetMembers { path, members } => {
                let path = self.root.path.join(path);
                create_parent_dirs(&self.root, &path)?;
                let members: Vec<(&str, &str)> = members
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect();
                replace_if_unchanged(&path, |old| {
                    let set = json::set_members(old.unwrap_or_default(), &members);
                    let set = set.or_else(|| json::set_members(b"{}", &members));
                    Ok::<_, Error>(set.unwrap_or_default())
                })
            }
        }
        .map(|()| Vec::new())
    }

    fn log(&self) -> Result<Arc<Log>> {
        let (path, shared) = {
            let file = &self.append_point().file;
            (file.path.clone(), file.slice.is_some())
        };
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &*log {
            return Ok(Arc::clone(log));
        }
        create_parent_dirs(&self.root, &path)?;
        let opened = match shared || self.unwritten {
            false => self
                .root
                .open_log(&path, self.options.log_options(Create::New))?,
            true => open_or_create(&self.root, &path, self.options)?,
        };
        Ok(Arc::clone(log.insert(Arc::new(opened))))
    }

    pub(super) fn append_point(&self) -> std::sync::MutexGuard<'_, AppendPoint> {
        self.append_point
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the field with the requested id, for layouts that derive another id from it.
pub(super) fn requested_id_field(id: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(AppendState::REQUESTED_ID.to_owned(), id.to_owned())])
}

/// Returns the fields that a new session's first record may need.
pub(crate) fn header_fields(new: &NewSession) -> BTreeMap<String, String> {
    let mut words = requested_id_field(new.requested_id.as_deref().unwrap_or(new.id.as_str()));
    let title = new.title.iter().cloned();
    words.extend(title.map(|title| (AppendState::TITLE.to_owned(), title)));
    let members = new.members.iter();
    words.extend(members.map(|(name, value)| {
        let text =
            json::decode_string(value).map_or_else(|| value.clone(), |text| text.into_owned());
        (name.clone(), text)
    }));
    words
}

/// Fails for members that the layout does not know: no given member is dropped. The error lists the
/// known ones that `has_place` accepts.
fn refuse_unknown(
    root: &Root,
    known: &[&str],
    has_place: impl Fn(&str) -> bool,
    members: &Members,
) -> Result<()> {
    let Some((name, _)) = members
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()))
    else {
        return Ok(());
    };
    let layout = root.layout.name();
    let known = known.iter().copied().filter(|name| has_place(name));
    let known: Vec<&str> = known.collect();
    Err(Error::refused(match known.as_slice() {
        [] => format!("`{name}` is not a member of records of the layout {layout}"),
        known => format!(
            "`{name}` is not a member of records of the layout {layout}; known members: {}",
            known.join(", ")
        ),
    }))
}

/// Returns a directory as agent programs spell it: without links, if it exists, and without
/// trailing slashes.
fn real_directory(path: &str) -> String {
    let real = std::fs::canonicalize(path).ok();
    let real = real.and_then(|real| real.into_os_string().into_string().ok());
    real.unwrap_or_else(|| match path.trim_end_matches('/') {
        "" => path.to_owned(),
        trimmed => trimmed.to_owned(),
    })
}

pub(super) fn plan(
    writer: &dyn Writer,
    head: &AppendState,
    change: &Change,
    now: Option<Timestamp>,
    zone: &TimeZone,
    new_id: &mut dyn FnMut() -> String,
) -> Result<EditPlan> {
    let mut stamp = PlanContext {
        now: now.unwrap_or_else(Timestamp::now),
        limit: None,
        zone: zone.clone(),
        new_id,
    };
    if let (None, Change::Append(drafts)) = (now, change) {
        end_at_now(&mut stamp, writer, head, drafts);
    }
    Ok(writer.plan(head, change, &mut stamp)?)
}

pub(super) fn random_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Dates many new records so that the last one has the current time, not the first one. They are a
/// millisecond apart, and none is older than the log's newest record. If that leaves too little time,
/// the last ones have equal times, or times ahead of the clock in layouts that need rising ones.
fn end_at_now(
    stamp: &mut PlanContext<'_>,
    writer: &dyn Writer,
    head: &AppendState,
    drafts: &[Draft],
) {
    let is_rising = writer.needs_rising_times();
    stamp.limit = (!is_rising).then_some(stamp.now);
    // The program of a new log may have noted when it began.
    if head.time.is_none() && !is_rising {
        return;
    }
    let untimed = drafts.iter().filter(|draft| draft.time.is_none());
    let records: usize = untimed
        .map(|draft| match &draft.body {
            Body::Message(message) => message.blocks.len().max(1),
            _ => 1,
        })
        .sum();
    let earlier = i64::try_from(records.saturating_sub(1)).ok();
    let earlier = earlier.map(jiff::SignedDuration::from_millis);
    let first = earlier.and_then(|earlier| stamp.now.checked_sub(earlier).ok());
    stamp.now = first.unwrap_or(stamp.now);
}

/// Runs `work` with the time, the time zone and a generator of ids.
pub(super) fn with_plan_context<T>(
    now: Option<Timestamp>,
    zone: &TimeZone,
    work: impl FnOnce(&mut PlanContext<'_>) -> T,
) -> T {
    let mut fresh = random_id;
    work(&mut PlanContext {
        now: now.unwrap_or_else(Timestamp::now),
        limit: None,
        zone: zone.clone(),
        new_id: &mut fresh,
    })
}

/// Opens a log, and creates it if it does not exist.
pub(super) fn open_or_create(root: &Root, path: &Path, options: WriteOptions) -> Result<Log> {
    match root.open_log(path, options.log_options(Create::New)) {
        Err(Error::File(FileError::Io { source, .. }))
            if source.kind() == io::ErrorKind::AlreadyExists =>
        {
            root.open_log(path, options.log_options(Create::Never))
        }
        opened => opened,
    }
}

/// Returns the file at a path, which must exist.
pub(super) fn existing_file(path: PathBuf, artifact: Artifact) -> Result<RootFile> {
    let metadata =
        std::fs::symlink_metadata(&path).map_err(|error| Error::io("stat", &path, error))?;
    Ok(RootFile::new(path, artifact, FileId::from(&metadata)))
}

pub(super) fn layout_writer(root: &Root) -> Result<&'static dyn Writer> {
    let writer = root.layout.writer();
    writer.ok_or_else(|| Error::read_only(root.layout.name()))
}

/// Creates the parent directories of a file in a root, without following links out of it.
pub(super) fn create_parent_dirs(root: &Root, path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    root.ensure_inside(path)?;
    Ok(jsonl::ensure_dir(parent)?)
}

impl WriteOptions {
    /// Creates options that write this time instead of the system's.
    pub fn at(now: Timestamp) -> Self {
        WriteOptions {
            now: Some(now),
            ..WriteOptions::default()
        }
    }

    /// Returns whether to write while other programs do: always safe if they use lock files.
    fn allows_live(self, root: &Root) -> bool {
        self.live || root.layout.has_lock_files()
    }

    pub(super) fn log_options(self, create: Create) -> AppendOptions {
        AppendOptions {
            durability: self.durability,
            create,
            network: self.network,
            ..AppendOptions::default()
        }
    }
}

#[cfg(test)]
mod tests;
