//! Planning writes: maps changes to edits.
//!
//! A `Writer` is pure: it maps a `Change` and the `AppendState` of a log to a list of `Edit`s, and
//! the store applies them. Lines are appended first; documents (todos, metadata) are replaced after
//! the log, and only if they have not changed since they were read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::append_state::AppendState;
use super::content::{GivenBlocks, UNNAMED_CALL_PREFIX};
use super::spec::{SessionListWriter, WriterSpec};
use super::usage_fields::truncate_to_millis;
use super::{Decoded, Decoder, Record};
use crate::error::{Error, Result};
use crate::model::{
    AgentId, Artifact, Block, Body, Draft, EntryId, EntryKey, Members, Message, RowEdit, SYNTHETIC,
    SessionId, Span, Todo,
};

/// Maps changes to edits. Pure: the store passes in what it needs and applies the result.
pub trait Writer: Sync {
    /// Returns the log of a new session. The layout may derive the session's id from the requested
    /// one.
    fn new_session_log(&self, new: &NewSession, stamp: &mut PlanContext<'_>) -> Result<Artifact>;

    /// Returns the log of a new sub-agent.
    fn new_agent_log(&self, head: &AppendState, agent: &AgentId) -> Result<Artifact>;

    /// Plans the edits of a change, in the order in which a crash does the least harm.
    fn plan(
        &self,
        head: &AppendState,
        change: &Change,
        stamp: &mut PlanContext<'_>,
    ) -> Result<EditPlan>;

    /// Returns whether an entry with this body may have the given [member](WriterSpec::draft_members).
    fn has_place_for(&self, body: &Body, member: &str) -> bool {
        let _ = (body, member);
        true
    }

    /// Completes drafts with what the layout's program requires, or rejects them. Not called for
    /// converted entries, which stay unchanged.
    fn complete_drafts<'d>(
        &self,
        _: &AppendState,
        drafts: &'d [Draft],
    ) -> Result<Cow<'d, [Draft]>> {
        Ok(Cow::Borrowed(drafts))
    }

    /// Returns a new id for a reply without one, in layouts where all records of a reply share an
    /// id. `None` where records do not name their reply.
    fn reply_id(&self, _fresh: &mut dyn FnMut() -> String) -> Option<String> {
        None
    }

    /// Rejects a caller-supplied record that the layout's program would not accept, or not as part
    /// of the log that `head` describes.
    fn check_record(&self, head: &AppendState, record: &str) -> std::result::Result<(), String> {
        let _ = (head, record);
        Ok(())
    }

    /// Splits a record into the log line that the layout's program accepts and an object of members
    /// for the log's companion file.
    fn split_record(&self, record: &[u8]) -> Result<(Vec<u8>, Option<String>)> {
        Ok((record.to_vec(), None))
    }

    /// Returns the artifact of the prompt history and the line that appends a typed prompt
    /// ([`Body::TypedPrompt`]) to it; `None` if the layout has no prompt history.
    fn prompt_history_line(
        &self,
        typed: &Draft,
        stamp: &mut PlanContext<'_>,
    ) -> Result<Option<(Artifact, Vec<u8>)>> {
        let _ = (typed, stamp);
        Ok(None)
    }

    /// Converts an id of another layout to one that this layout's program accepts.
    fn valid_id(&self, id: &str) -> String {
        match id.contains(super::AGENT_SEPARATOR) {
            true => EntryKey::from_text(id).derived_uuid(),
            false => id.to_owned(),
        }
    }

    /// Converts any text that names a session to its form in a path, if logs of the layout store
    /// the exact text; `None` if ids must be valid in paths.
    fn path_name(&self, id: &str) -> Option<String> {
        let _ = id;
        None
    }

    /// Returns the name by which records refer to a session, if it differs from the session's id.
    fn conversation_id(&self, session: &SessionId) -> Option<String> {
        let _ = session;
        None
    }

    /// Copies a record into a fork, unchanged except for ids that must differ.
    fn copy_record(&self, record: &[u8], graft: &ForkEdit<'_>) -> Result<Vec<u8>>;

    /// Returns the rows that the records of a session of a database were made from, for a conversion
    /// back. Refuses rows of other sessions.
    fn rows_of_records(&self, id: &SessionId, records: &[&str]) -> Result<Vec<RowEdit>> {
        let _ = (id, records);
        Err(Error::refused("the layout has no database"))
    }

    /// Facts about the writer.
    fn writer_spec(&self) -> &'static WriterSpec {
        &WriterSpec::DEFAULT
    }

    /// Returns how its session lists are written; `None` if the layout has none.
    fn session_lists(&self) -> Option<&dyn SessionListWriter> {
        None
    }
}

/// Update of a log's row in its session list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowUpdate {
    /// The log.
    pub log: Option<Artifact>,
    /// The time of its first message.
    pub started: Option<Timestamp>,
    /// The time of its newest message.
    pub updated: Option<Timestamp>,
    /// Number of messages.
    pub messages: u64,
    /// Beginning of the first prompt.
    pub prompt: Option<String>,
    /// Whether anything answered the first prompt.
    pub answered: bool,
    /// Purpose of the sub-agent, if the log is a sub-agent's.
    pub purpose: Option<String>,
    /// A title to set.
    pub title: Option<String>,
    /// A title to set only if the row has none.
    pub first_title: Option<String>,
    /// Session of another program named by the newest message, for a new row.
    pub session_id: Option<String>,
    /// Members of the row to set, as JSON; [`WriterSpec::session_members`] lists their names.
    pub members: Members,
    /// Working directory, for a new row.
    pub cwd: Option<String>,
    /// Git branch, for a new row.
    pub git_branch: Option<String>,
    /// The log was removed, so its row is removed too.
    pub removed: bool,
    /// Exact text of the row when its log was removed, to be restored.
    pub restored_text: Option<String>,
}

/// Result of updating a session list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListUpdate {
    /// The list is up to date.
    Unchanged,
    /// The list has new content.
    Changed {
        /// The new content.
        bytes: Vec<u8>,
        /// The old content could not be parsed completely: it must be set aside, never overwritten.
        damaged: bool,
        /// Exact text of the removed rows.
        removed: Vec<String>,
    },
    /// The list is missing or damaged: the rows of all its logs are needed.
    NeedsAllRows,
}

/// Edits to make while copying a record into a fork.
#[derive(Clone, Copy, Debug)]
pub struct ForkEdit<'a> {
    /// The source session.
    pub from: &'a SessionId,
    /// The fork's session.
    pub to: &'a SessionId,
    /// The id requested for the fork; differs from `to` if the layout names logs by its own rule.
    pub requested_id: &'a SessionId,
    /// The record's id.
    pub id: &'a EntryId,
    /// The record's parent in the fork.
    pub parent: ForkParent<'a>,
    /// The entry before it in the fork, also before a compaction.
    pub previous: Option<&'a EntryId>,
    /// A later time than the record's own, if a reader would otherwise resume from another entry.
    pub time: Option<Timestamp>,
}

/// Parent of a copied record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkParent<'a> {
    /// The same parent as before.
    Keep,
    /// No parent: the old one is not in the fork.
    None,
    /// The previous entry, where a chain replaces parallel branches.
    Entry(&'a EntryId),
}

/// A session to be created.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The exact id requested, if the layout stores it inside the log (see [`Writer::path_name`]).
    pub requested_id: Option<String>,
    /// The absolute working directory.
    pub cwd: String,
    /// The git branch checked out there.
    pub git_branch: Option<String>,
    /// The log it is copied from. Both share a folder.
    pub copied_from: Option<Artifact>,
    /// The folder for its log, if the root's configuration has one for its directory.
    pub folder: Option<String>,
    /// The id was generated, so the layout may replace it.
    pub unnamed: bool,
    /// The title, for layouts that store it in a session's first record. For others the store
    /// writes it once the session has begun.
    pub title: Option<String>,
    /// Members of a session's first record that only its layout has, such as a channel;
    /// [`WriterSpec::session_members`] lists their names.
    pub members: Members,
}

impl NewSession {
    /// A session for a directory, with nothing else set.
    pub fn new(id: SessionId, cwd: impl Into<String>) -> Self {
        NewSession {
            id,
            requested_id: None,
            cwd: cwd.into(),
            git_branch: None,
            copied_from: None,
            folder: None,
            unnamed: false,
            title: None,
            members: Members::new(),
        }
    }

    /// A session for a directory, with a generated id that the layout may replace.
    pub fn unnamed(cwd: impl Into<String>) -> Result<Self> {
        let id = SessionId::new(&uuid::Uuid::new_v4().to_string())?;
        Ok(NewSession {
            unnamed: true,
            ..NewSession::new(id, cwd)
        })
    }

    /// A session named by a person: any text, if the layout accepts that.
    pub fn named(writer: &dyn Writer, name: &str, cwd: impl Into<String>) -> Result<Self> {
        let id = SessionId::new(name);
        let thread = writer.path_name(name);
        match (id, thread) {
            // A name with a start time is a complete id.
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

    /// Sets the git branch.
    pub fn git_branch(mut self, branch: impl Into<String>) -> Self {
        self.git_branch = Some(branch.into());
        self
    }

    /// Sets the title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds a member that only its layout has, as JSON.
    pub fn member(mut self, name: impl Into<String>, json: impl Into<String>) -> Self {
        self.members.push((name.into(), json.into()));
        self
    }

    /// Sets the folder.
    pub fn folder(mut self, folder: impl Into<String>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// Returns the ids of calls answered by the drafts whose tool is named neither in the drafts nor
/// near the end of the log.
pub fn calls_of_unknown_tools(head: &AppendState, drafts: &[Draft]) -> BTreeSet<String> {
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

/// Returns whether a reply's model is a real name. It is not in replies of the agent program
/// itself, nor is the placeholder that earlier versions of annals wrote for an unknown model.
pub fn is_model(name: &str) -> bool {
    !matches!(name, "" | SYNTHETIC | "unknown")
}

/// Rejects a name that is empty, too long or contains control characters.
fn check_name(name: &str) -> Result<()> {
    const MAX: usize = 200;
    let why = match name {
        name if name.trim().is_empty() => "it is empty",
        name if name.chars().any(char::is_control) => "it contains control characters",
        name if name.len() > MAX => "it is longer than 200 bytes",
        _ => return Ok(()),
    };
    Err(Error::BadId {
        what: "a session id",
        id: name.chars().take(40).flat_map(char::escape_debug).collect(),
        why,
    })
}

/// A change to a session.
#[derive(Clone, Debug)]
pub enum Change {
    /// Begins a session and records what its first message needs.
    Begin,
    /// Begins a session whose first entries are copied from another.
    Fork {
        /// The other session.
        from: SessionId,
    },
    /// Adds entries.
    Append(Vec<Draft>),
    /// Replaces the conversation so far, as the agent sees it, by a summary.
    Compact {
        /// The summary.
        summary: String,
        /// Number of tokens in the context before, if known.
        tokens: Option<u64>,
    },
    /// Replaces an agent's todos.
    SetTodos(Vec<Todo>),
    /// Creates a sub-agent's log.
    Spawn(Spawn),
}

/// A sub-agent to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct Spawn {
    /// Its id.
    pub agent: AgentId,
    /// Its type, such as `Explore`.
    pub kind: String,
    /// Its purpose, in a few words.
    pub description: String,
    /// The tool call that spawned it.
    pub call: Option<String>,
}

impl Spawn {
    /// A sub-agent of a type, such as `Explore`, with its purpose.
    pub fn new(agent: AgentId, kind: impl Into<String>, description: impl Into<String>) -> Self {
        Spawn {
            agent,
            kind: kind.into(),
            description: description.into(),
            call: None,
        }
    }

    /// Sets the tool call that spawned it.
    pub fn call(mut self, call: impl Into<String>) -> Self {
        self.call = Some(call.into());
        self
    }
}

/// A file operation within a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Appends whole lines to a log in one write. The log is created if missing.
    Append {
        /// The log.
        path: PathBuf,
        /// The lines, without their endings.
        lines: Vec<Vec<u8>>,
    },
    /// Sets members of a JSON object document and keeps all others.
    SetMembers {
        /// The document, created if missing.
        path: PathBuf,
        /// Names and JSON values.
        members: Vec<(String, String)>,
    },
    /// Sets scalars of a YAML document and keeps all other lines: see [`set_scalars`](super::set_scalars).
    SetScalars {
        /// The document, created if missing.
        path: PathBuf,
        /// Names and YAML values.
        members: Vec<(String, String)>,
        /// Further members of a new document.
        defaults: Vec<(String, String)>,
    },
    /// Changes rows of a database in one transaction.
    Rows {
        /// The database, which must exist.
        path: PathBuf,
        /// The statements, in order.
        rows: Vec<RowEdit>,
    },
    /// Creates a document, which must not exist with other content.
    Create {
        /// The document.
        path: PathBuf,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// Replaces or creates a document.
    Replace {
        /// The document.
        path: PathBuf,
        /// Its new content.
        bytes: Vec<u8>,
    },
}

/// Program name in entries written by annals.
pub const PROGRAM: &str = "annals";

/// Planned edits of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EditPlan {
    /// The file operations, in order.
    pub edits: Vec<Edit>,
    /// The ids of the entries that they add, in order.
    pub added: Vec<EntryId>,
    /// Parent of the next entry, if the change moves it.
    pub leaf: Option<EntryId>,
    /// Time of the newest entry, if it differs from the requested one.
    pub time: Option<Timestamp>,
    /// A title for the session, if the session list stores titles.
    pub title: Option<String>,
    /// Records for the log's companion file that have no line in the log.
    pub companion: Vec<String>,
    /// Values that the writer needs from now on: see [`AppendState::writer_state`].
    pub writer_state: BTreeMap<String, String>,
}

/// Clock and id source, passed in so that tests can repeat plans.
pub struct PlanContext<'a> {
    /// Time of the first record without one.
    pub now: Timestamp,
    /// Time that later records without one must not exceed, as far as the records before them
    /// allow; `None` if there is no limit.
    pub limit: Option<Timestamp>,
    /// Time zone that determines the day.
    pub zone: TimeZone,
    /// Returns a fresh id.
    pub new_id: &'a mut dyn FnMut() -> String,
}

impl PlanContext<'_> {
    /// Returns the time of the next record and updates `newest`. It is `given`, or else now in
    /// milliseconds, but at least one millisecond after `newest`. From the limit on, it is the time
    /// of the previous record.
    pub(crate) fn next_time(
        &self,
        newest: &mut Option<Timestamp>,
        given: Option<Timestamp>,
    ) -> Timestamp {
        let millisecond = jiff::SignedDuration::from_millis(1);
        let after = newest.and_then(|time| time.checked_add(millisecond).ok());
        let now = truncate_to_millis(after.map_or(self.now, |after| after.max(self.now)));
        let time = given.unwrap_or(match (*newest, self.limit) {
            (Some(newest), Some(limit)) if now > limit => newest.max(truncate_to_millis(limit)),
            _ => now,
        });
        *newest = Some(newest.map_or(time, |newest| newest.max(time)));
        time
    }
}

/// Encodes a line or a document as JSON.
pub(crate) fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::refused(error.to_string()))
}

/// Returns the message that a reader decodes from a line that is not the first.
pub(crate) fn message_of_line(decoder: &mut dyn Decoder, line: &[u8]) -> Option<Message> {
    let record = Record {
        span: Span {
            offset: 1,
            len: line.len() as u64,
            line: 2,
        },
        bytes: line,
        terminated: true,
        oversize: false,
    };
    let mut sink = Decoded::default();
    decoder.decode(&record, &mut sink);
    match sink.items.into_iter().next()?.body {
        Body::Message(message) => Some(message),
        _ => None,
    }
}
