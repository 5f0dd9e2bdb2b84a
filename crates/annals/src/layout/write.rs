//! Writing: changes go in, edits come out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::content::{GivenBlocks, UNNAMED_CALL_PREFIX};
use super::usage_fields::truncate_to_millis;
use crate::error::{Error, Result};
use crate::model::{
    AgentId, Artifact, Block, Body, Draft, EntryContext, EntryId, EntryKey, ListRow, Members, Role,
    SYNTHETIC, SessionId, Todo, Usage,
};

/// Turns changes into edits. Pure: the store gives it what it must know and does what it says.
pub trait Writer: Sync {
    /// Where a new session's log goes. Its session is what the layout makes of the wanted id.
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact>;

    /// Where a new sub-agent's log goes.
    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact>;

    /// The edits that make the change, in the order in which a crash does least harm.
    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan>;

    /// The members of a draft that only this layout knows: see [`Draft::members`]. A draft with any
    /// other is refused before anything is written.
    fn draft_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an entry that says `body` may have that one of the [`members`](Self::draft_members).
    fn has_place_for(&self, body: &Body, member: &str) -> bool {
        let _ = (body, member);
        true
    }

    /// Gives drafts that are added to a log what its own program wants in them, or refuses them. Not
    /// asked for entries that are converted, which stay what they are.
    fn complete_drafts<'d>(
        &self,
        _: &AppendState,
        drafts: &'d [Draft],
    ) -> Result<Cow<'d, [Draft]>> {
        Ok(Cow::Borrowed(drafts))
    }

    /// A new id for a reply that has none, where all records of one reply share it. `None` where records
    /// name no reply.
    fn reply_id(&self, _fresh: &mut dyn FnMut() -> String) -> Option<String> {
        None
    }

    /// Whether what begins a session says its title ([`AppendState::TITLE`]). If not, the store adds the
    /// title afterwards.
    fn title_in_header(&self) -> bool {
        false
    }

    /// Whether the title of a session is in the session list and not in its log. Such a session has
    /// its title ([`AppendState::TITLE`]) from the moment it is listed.
    fn title_in_session_list(&self) -> bool {
        false
    }

    /// The members that a new session may be given: see [`NewSession::members`]. They stand in
    /// [`AppendState::writer_state`] when it begins.
    fn session_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Refuses a record of the caller's own making that the layout's program would not take, or not
    /// for one of the log that goes on at `head`.
    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        let _ = (head, record);
        Ok(())
    }

    /// Parts a record into the line that the layout's own program takes, and the object of members
    /// that goes to the log's companion.
    fn split_record(&self, record: &[u8]) -> Result<(Vec<u8>, Option<String>)> {
        Ok((record.to_vec(), None))
    }

    /// The line that adds something to the list of what people typed ([`Body::TypedPrompt`]), and the list's
    /// place; `None` where the layout keeps no such list.
    fn prompt_history_line(
        &self,
        typed: &Draft,
        stamp: &mut PlanContext<'_>,
    ) -> Result<Option<(Artifact, Vec<u8>)>> {
        let _ = (typed, stamp);
        Ok(None)
    }

    /// Whether its records of results name the tool that was called.
    fn results_name_tools(&self) -> bool {
        false
    }

    /// An id of another layout in a form that this layout's program takes for one of its own.
    fn valid_id(&self, id: &str) -> String {
        match id.contains(super::AGENT_SEPARATOR) {
            true => EntryKey::from_text(id).derived_uuid(),
            false => id.to_owned(),
        }
    }

    /// What any text that names a session becomes in a path, where the layout's logs hold the text
    /// itself; `None` where an id must be fit for a path.
    fn path_name(&self, id: &str) -> Option<String> {
        let _ = id;
        None
    }

    /// The name by which the layout's own records refer to a session, where that is another than its
    /// id.
    fn conversation_id(&self, session: &SessionId) -> Option<String> {
        let _ = session;
        None
    }

    /// Those of the session members that a fork keeps.
    fn fork_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Copies one record into a fork: the same bytes but for the names that must change.
    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>>;

    /// The register that lists a log, where the layout keeps one.
    fn session_list(&self, log: &Artifact) -> Option<Artifact> {
        let _ = log;
        None
    }

    /// The folder that new sessions of a directory go to, by what the root's register tells.
    fn default_folder(&self, told: &[ListRow], directory: &str) -> Option<String> {
        let _ = (told, directory);
        None
    }

    /// What keeps its program from reading the root's own register, if it has these bytes.
    fn register_damage(&self, bytes: &[u8]) -> Option<String> {
        let _ = bytes;
        None
    }

    /// The root's own register with the folders of some new logs told in it. `None` if it tells them
    /// already, if the layout has no such register, or if this one cannot be read.
    fn register_folders(&self, old: Option<&[u8]>, rows: &[RowUpdate]) -> Option<Vec<u8>> {
        let _ = (old, rows);
        None
    }

    /// Brings a register up to date with what some logs say.
    ///
    /// With `whole`, the rows are those of all logs that the register should list. A register that is
    /// missing or damaged can only be made from all of them.
    fn update_session_list(
        &self,
        register: &Artifact,
        old: Option<&[u8]>,
        rows: &[RowUpdate],
        whole: bool,
    ) -> Result<ListUpdate> {
        let _ = (register, old, rows, whole);
        Ok(ListUpdate::Unchanged)
    }

    /// Refuses a value that a member of a session cannot have: see [`Writer::session_members`].
    fn check_session_member(&self, name: &str, json: &str) -> Result<()> {
        let _ = (name, json);
        Ok(())
    }

    /// Whether a register says nothing at all, so that it may go with the last log it listed.
    fn is_session_list_empty(&self, register: &Artifact, bytes: &[u8]) -> bool {
        let _ = (register, bytes);
        false
    }
}

/// What a log says to its register.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RowUpdate {
    /// The log.
    pub log: Option<Artifact>,
    /// The time of its first message.
    pub started: Option<Timestamp>,
    /// The time of its newest message.
    pub updated: Option<Timestamp>,
    /// How many messages it has.
    pub messages: u64,
    /// How the first prompt begins.
    pub prompt: Option<String>,
    /// Something answered.
    pub answered: bool,
    /// What the sub-agent whose log it is was made for.
    pub purpose: Option<String>,
    /// A title to set.
    pub title: Option<String>,
    /// A title to set if the row has none.
    pub first_title: Option<String>,
    /// The session of another program that the newest message names, for a row that is made anew.
    pub session_id: Option<String>,
    /// Members of the row to set, as JSON texts; [`Writer::session_members`] lists their names.
    pub members: Members,
    /// The session's working directory and git branch, where a new one is listed.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The log is gone, and its row goes too.
    pub removed: bool,
    /// The row as it was when the log went, in the register's own words, to be put back.
    pub restored_text: Option<String>,
}

/// What became of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListUpdate {
    /// It says all that already.
    Unchanged,
    /// It has new content.
    Changed {
        /// The content.
        bytes: Vec<u8>,
        /// The old content could not be read whole: it is set aside, never overwritten.
        damaged: bool,
        /// The rows that were taken out, in the register's own words.
        removed: Vec<String>,
    },
    /// It is missing or damaged: the rows of all its logs are needed.
    NeedsAllRows,
}

/// How a record is copied into a fork.
#[derive(Clone, Copy, Debug)]
pub struct ForkEdit<'a> {
    /// The session it comes from.
    pub from: &'a SessionId,
    /// The session it goes to.
    pub to: &'a SessionId,
    /// The id that was asked for that session; another one where the layout names logs by its own
    /// rule.
    pub requested_id: &'a SessionId,
    /// Its id.
    pub id: &'a EntryId,
    /// What it hangs from in the fork.
    pub parent: ForkParent<'a>,
    /// A later time than its own, where a reader would otherwise go on from another entry.
    pub time: Option<Timestamp>,
}

/// What a copied record hangs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkParent<'a> {
    /// What it hung from before.
    Keep,
    /// Nothing: what it hung from is not in the fork.
    None,
    /// The entry before it, where a chain replaces parallel branches.
    Entry(&'a EntryId),
}

/// A session that is to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The exact id that was asked for, where the layout keeps it inside the log (see
    /// [`Writer::path_name`]).
    pub requested_id: Option<String>,
    /// The working directory it is about, absolute.
    pub cwd: String,
    /// The git branch checked out there.
    pub git_branch: Option<String>,
    /// The log that it is copied from, whose folder it shares.
    pub copied_from: Option<Artifact>,
    /// The folder it goes to, where a register has one for its directory.
    pub folder: Option<String>,
    /// The id was made up, so that the layout may give the session another one.
    pub unnamed: bool,
    /// No other session had the id when the caller looked at all of them: only sessions that began since
    /// are looked for.
    pub(crate) unused: bool,
    /// Its title, where the layout has a place for it in what begins a session. Elsewhere the
    /// store writes it after the session has begun.
    pub title: Option<String>,
    /// Members of what begins a session that only its layout knows, such as a channel;
    /// [`Writer::session_members`] lists their names.
    pub members: Members,
}

impl AppendState {
    /// The word for the id that was asked for when a session begins: the layout may make another of it.
    pub const REQUESTED_ID: &'static str = "id";

    /// The word for the title that a session is given when it begins.
    pub const TITLE: &'static str = "title";

    /// The head of a log of which nothing is known yet.
    pub fn new(session: SessionId, log: Artifact) -> Self {
        AppendState {
            session,
            agent: log.agent.clone(),
            log,
            leaf: None,
            continues: None,
            last_message: None,
            time: None,
            note_time: None,
            model: None,
            cwd: None,
            git_branch: None,
            version: None,
            prompt: None,
            resumes_at_leaf: true,
            end: 0,
            last_record_is_own: false,
            writer_state: BTreeMap::new(),
            open_calls: Vec::new(),
            recent_responses: Vec::new(),
            attachments: Vec::new(),
        }
    }

    /// Takes in where the writer of an entry was at work.
    pub(crate) fn set_context(&mut self, place: EntryContext) {
        self.cwd = place.cwd.or(self.cwd.take());
        self.git_branch = place.git_branch.or(self.git_branch.take());
        self.version = place.version.or(self.version.take());
    }

    /// Takes in what later messages refer to: open calls, and the response that may go on.
    pub(crate) fn add_message(&mut self, body: &Body) {
        const MOST: usize = 64;
        let Body::Message(message) = body else {
            return;
        };
        if let Some(model) = &message.model
            && message.role == Role::Assistant
        {
            self.set_model(model);
        }
        for block in &message.blocks {
            match block {
                Block::ToolUse { id, name, .. } => self.open_calls.push((id.clone(), name.clone())),
                Block::ToolResult { call, .. } => self.open_calls.retain(|(id, _)| id != call),
                _ => {}
            }
        }
        let surplus = self.open_calls.len().saturating_sub(MOST);
        self.open_calls.drain(..surplus);
        if let Some(response) = &message.response {
            self.add_response(response, message.usage.unwrap_or_default());
        }
    }

    /// Takes in the model of a reply, if it names one.
    pub(crate) fn set_model(&mut self, model: &str) {
        if is_model(model) {
            self.model = Some(model.to_owned());
        }
    }

    /// Takes in what a response's tokens amount to.
    pub(crate) fn add_response(&mut self, response: &str, mut usage: Usage) {
        const MOST: usize = 16;
        let known = self
            .recent_responses
            .iter()
            .position(|(id, _)| id == response);
        if let Some(known) = known {
            usage.keep_larger(&self.recent_responses.remove(known).1);
        }
        self.recent_responses.push((response.to_owned(), usage));
        let surplus = self.recent_responses.len().saturating_sub(MOST);
        self.recent_responses.drain(..surplus);
    }
}

impl NewSession {
    /// A session about a directory, of which no more is known.
    pub fn new(id: SessionId, cwd: impl Into<String>) -> Self {
        NewSession {
            id,
            requested_id: None,
            cwd: cwd.into(),
            git_branch: None,
            copied_from: None,
            folder: None,
            unnamed: false,
            unused: false,
            title: None,
            members: Members::new(),
        }
    }

    /// A session about a directory, under a fresh id or one that the layout gives it.
    pub fn unnamed(cwd: impl Into<String>) -> Result<Self> {
        let id = SessionId::new(&uuid::Uuid::new_v4().to_string())?;
        Ok(NewSession {
            unnamed: true,
            ..NewSession::new(id, cwd)
        })
    }

    /// A session that a person gave a name: any text, where the layout takes that.
    pub fn named(writer: &dyn Writer, name: &str, cwd: impl Into<String>) -> Result<Self> {
        let id = SessionId::new(name);
        let thread = writer.path_name(name);
        match (id, thread) {
            // One that says when it began is the whole id.
            (Ok(id), thread) if id.name() != name => Ok(NewSession {
                requested_id: thread.map(|_| name.to_owned()),
                ..NewSession::new(id, cwd)
            }),
            (id, None) => Ok(NewSession::new(id?, cwd)),
            (_, Some(thread)) => {
                check_name(name)?;
                Ok(NewSession {
                    requested_id: Some(name.to_owned()),
                    ..NewSession::new(SessionId::new(&thread)?, cwd)
                })
            }
        }
    }

    /// Says which git branch is checked out.
    pub fn git_branch(mut self, branch: impl Into<String>) -> Self {
        self.git_branch = Some(branch.into());
        self
    }

    /// Gives it a title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds a member that only its layout knows, as JSON text.
    pub fn member(mut self, name: impl Into<String>, json: impl Into<String>) -> Self {
        self.members.push((name.into(), json.into()));
        self
    }

    /// Says which folder it goes to.
    pub fn folder(mut self, folder: impl Into<String>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// The calls that results among some drafts answer, where neither the drafts nor the end of the log tell
/// which tool was called.
pub(crate) fn calls_of_unknown_tools(head: &AppendState, drafts: &[Draft]) -> BTreeSet<String> {
    let mut known: HashSet<&str> = head.open_calls.iter().map(|(id, _)| id.as_str()).collect();
    let mut unknown = BTreeSet::new();
    for draft in drafts {
        let Body::Message(message) = &draft.body else {
            continue;
        };
        for (at, block) in message.blocks.iter().enumerate() {
            match block {
                Block::ToolUse { id, .. } => _ = known.insert(id),
                Block::ToolResult { call, .. } => {
                    let given = GivenBlocks::new(draft, std::slice::from_ref(block), at);
                    let named = call
                        .strip_prefix(UNNAMED_CALL_PREFIX)
                        .is_some_and(|tool| !tool.is_empty());
                    if !known.contains(call.as_str()) && !named && given.tool().is_none() {
                        unknown.insert(call.clone());
                    }
                }
                _ => {}
            }
        }
    }
    unknown
}

/// Whether a reply's model names one: the agent program's own replies do not, nor does the word that
/// earlier versions of annals wrote where none was known.
pub(crate) fn is_model(name: &str) -> bool {
    !matches!(name, "" | SYNTHETIC | "unknown")
}

/// Refuses a name that nobody could type again.
fn check_name(name: &str) -> Result<()> {
    const MAX: usize = 200;
    let why = match name {
        name if name.trim().is_empty() => "it is empty",
        name if name.chars().any(char::is_control) => "it holds control characters",
        name if name.len() > MAX => "it is longer than 200 bytes",
        _ => return Ok(()),
    };
    Err(Error::BadId {
        what: "a session id",
        id: name.chars().take(40).flat_map(char::escape_debug).collect(),
        why,
    })
}

/// What a writer must know about the end of a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AppendState {
    /// The session.
    pub session: SessionId,
    /// The sub-agent whose log this is.
    pub agent: Option<AgentId>,
    /// Where the log lies within its root.
    pub log: Artifact,
    /// The entry that the next one hangs from.
    pub leaf: Option<EntryId>,
    /// The entry that the compaction at `leaf` continues, as long as no summary follows that.
    pub continues: Option<EntryId>,
    /// The last message of the log, which a layout without links takes for the parent of the next.
    pub last_message: Option<EntryId>,
    /// The time of the newest entry: the next one must not seem older.
    pub time: Option<Timestamp>,
    /// The time of the newest note: the next one must not seem older either.
    pub note_time: Option<Timestamp>,
    /// The model that answered last, for replies that do not say which one did.
    pub model: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The version of the agent program that wrote last.
    pub version: Option<String>,
    /// The last thing a person asked.
    pub prompt: Option<String>,
    /// Every reader will go on at this leaf. If not, a change must say so in the log.
    pub resumes_at_leaf: bool,
    /// Where in the log's file the next record will stand.
    pub end: u64,
    /// The last record of the log's file is this session's, where several sessions share it.
    pub last_record_is_own: bool,
    /// What the log's records say that the layout's writer needs again, by name.
    pub writer_state: BTreeMap<String, String>,
    /// The tool calls near the end of the log that nothing has answered: their ids and their tools.
    pub open_calls: Vec<(String, String)>,
    /// The newest responses and their tokens, as far as the log tells them: they may go on.
    pub recent_responses: Vec<(String, Usage)>,
    /// Documents that belong to the session and repeat what its log says.
    pub attachments: Vec<Artifact>,
}

/// An intent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Begins a session: writes down what its first message will need.
    Begin,
    /// Begins a session whose first entries are copied from another.
    Fork {
        /// The other session.
        from: SessionId,
    },
    /// Adds entries.
    Append(Vec<Draft>),
    /// Replaces what the agent sees of the conversation so far by a summary.
    Compact {
        /// The summary.
        summary: String,
        /// Tokens in the context before, if known.
        tokens: Option<u64>,
    },
    /// Replaces an agent's todos.
    SetTodos(Vec<Todo>),
    /// Begins a sub-agent's log.
    Spawn(Spawn),
}

/// A sub-agent that is to be.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spawn {
    /// Its id.
    pub agent: AgentId,
    /// Its kind, such as `Explore`.
    pub kind: String,
    /// What it is for, in a few words.
    pub description: String,
    /// The tool call that spawned it.
    pub call: Option<String>,
}

impl Spawn {
    /// A sub-agent of a kind, such as `Explore`, and what it is for.
    pub fn new(agent: AgentId, kind: impl Into<String>, description: impl Into<String>) -> Self {
        Spawn {
            agent,
            kind: kind.into(),
            description: description.into(),
            call: None,
        }
    }

    /// Says which tool call spawned it.
    pub fn call(mut self, call: impl Into<String>) -> Self {
        self.call = Some(call.into());
        self
    }
}

/// A file operation within a root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// Adds whole lines to a log, in one write. The log is made if it is not there.
    Append {
        /// The log.
        path: PathBuf,
        /// The lines, without their endings.
        lines: Vec<Vec<u8>>,
    },
    /// Sets members of a document that is an object, and leaves the others as they are.
    SetMembers {
        /// The document; it is made if it is not there.
        path: PathBuf,
        /// Names and JSON values.
        members: Vec<(String, String)>,
    },
    /// Makes a document, which must not exist with other content.
    Create {
        /// The document.
        path: PathBuf,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// Puts a whole document in the place of another or of none.
    Replace {
        /// The document.
        path: PathBuf,
        /// Its new content.
        bytes: Vec<u8>,
    },
}

/// The name by which our own entries say who wrote them.
pub const PROGRAM: &str = "annals";

/// What a change comes to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EditPlan {
    /// The file operations, in order.
    pub edits: Vec<Edit>,
    /// The ids of the entries that they add, in order.
    pub added: Vec<EntryId>,
    /// The entry that the next one hangs from, if the change moves it.
    pub leaf: Option<EntryId>,
    /// The time of the newest entry, where that is another than was asked for.
    pub time: Option<Timestamp>,
    /// A title for the session, where it is the register that keeps titles.
    pub title: Option<String>,
    /// Records for the log's companion that have no line in the log.
    pub companion: Vec<String>,
    /// What the log says from now on that the writer will need again: see [`AppendState::writer_state`].
    pub writer_state: BTreeMap<String, String>,
}

/// The time and the source of ids, given from outside so that plans can be repeated in tests.
pub struct PlanContext<'a> {
    /// Now.
    pub now: Timestamp,
    /// The zone whose days count.
    pub zone: TimeZone,
    /// Gives a fresh id.
    pub new_id: &'a mut dyn FnMut() -> String,
}

impl PlanContext<'_> {
    /// The time of the next record: as given, else now to the millisecond, but later than the newest
    /// so far, which it then is.
    pub(crate) fn next_time(
        &self,
        newest: &mut Option<Timestamp>,
        given: Option<Timestamp>,
    ) -> Timestamp {
        let millisecond = jiff::SignedDuration::from_millis(1);
        let after = newest.and_then(|time| time.checked_add(millisecond).ok());
        let now = || truncate_to_millis(after.map_or(self.now, |after| after.max(self.now)));
        let time = given.unwrap_or_else(now);
        *newest = Some(newest.map_or(time, |newest| newest.max(time)));
        time
    }
}
