//! Layouts: trees of files and the schema of their lines.
//!
//! A layout describes, the store acts. Nothing in this module touches the file system: paths go in
//! and meanings come out, bytes go in and entries come out, changes go in and edits come out.
//! Adding a layout means one module, one folder of fixtures and one line in [`LAYOUTS`].

mod claude_code;
mod content;
mod field;
mod record;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::Result;
use crate::model::{
    AgentId, Artifact, Draft, Entry, EntryId, Flaw, FlawKind, Outline, SessionId, Span, Todo,
};

pub use claude_code::ClaudeCode;
pub use record::Record;

/// Every layout there is. Adding one touches this line and its own module.
pub static LAYOUTS: &[&dyn Layout] = &[&ClaudeCode];

/// The layout of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Layout> {
    LAYOUTS.iter().copied().find(|layout| layout.name() == name)
}

/// A tree of files and the schema of their lines.
pub trait Layout: Sync {
    /// Its name in flags and JSON.
    fn name(&self) -> &'static str;

    /// Where it lies by default.
    fn roots(&self, env: &Env) -> Vec<PathBuf>;

    /// Whether a directory with these names in it looks like a root of this layout.
    fn recognises(&self, names: &[&str]) -> bool;

    /// Whether a directory of the root can hold anything of interest.
    fn enters(&self, dir: &Path) -> bool;

    /// What a file of the root means, by its path alone; `None` for foreign files.
    fn classify(&self, path: &Path) -> Option<Artifact>;

    /// The path of an artifact: the inverse of [`Layout::classify`].
    fn place(&self, artifact: &Artifact) -> PathBuf;

    /// The folder that sessions of a directory share; `None` if the layout has no such folders.
    ///
    /// Several directories may share one, so a folder is never decoded.
    fn folder(&self, directory: &str) -> Option<String>;

    /// After how many days its own program deletes sessions, unless its settings say otherwise.
    fn keep_days(&self) -> Option<u64>;

    /// Reads the records of such a file.
    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder>;

    /// Writes such roots; `None` for a layout that is only read.
    fn writer(&self) -> Option<&dyn Writer>;
}

/// Turns the records of one file into entries. Total: any bytes give entries and flaws, never an error.
///
/// A decoder sees the records in file order and may remember what went before.
pub trait Decoder {
    /// The skeletons of the record's entries.
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>);

    /// The record's entries with everything they say.
    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>);
}

/// Where a decoder puts what it finds.
#[derive(Debug)]
pub struct Sink<T> {
    /// What was read.
    pub found: Vec<T>,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

impl<T> Default for Sink<T> {
    fn default() -> Self {
        Sink {
            found: Vec::new(),
            flaws: Vec::new(),
        }
    }
}

impl<T> Sink<T> {
    /// Notes damage.
    pub fn flaw(&mut self, kind: FlawKind, span: Span, detail: impl Into<String>) {
        self.flaws.push(Flaw {
            kind,
            span,
            detail: detail.into(),
        });
    }
}

/// What layouts may know of the machine. The library reads no environment variable itself.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The current directory.
    pub cwd: Option<PathBuf>,
    /// Environment variables.
    pub vars: BTreeMap<String, String>,
}

/// Turns changes into edits. Pure: the store gives it what it must know and does what it says.
pub trait Writer: Sync {
    /// Where a new session's log goes.
    fn session(&self, new: &NewSession) -> Result<Artifact>;

    /// Where a new sub-agent's log goes.
    fn agent(&self, head: &Head, agent: &AgentId) -> Result<Artifact>;

    /// The edits that make the change, in the order in which a crash does least harm.
    fn plan(&self, head: &Head, change: &Change, stamp: &mut Stamp<'_>) -> Result<Plan>;

    /// Copies one record into a fork: the same bytes but for the names that must change.
    fn transplant(&self, record: &[u8], graft: &Graft<'_>) -> Result<Vec<u8>>;
}

/// How a record is copied into a fork.
#[derive(Clone, Copy, Debug)]
pub struct Graft<'a> {
    /// The session it comes from.
    pub from: &'a SessionId,
    /// The session it goes to.
    pub to: &'a SessionId,
    /// Its id.
    pub id: &'a EntryId,
    /// What it hangs from in the fork.
    pub parent: Parent<'a>,
    /// A later time than its own, where a reader would otherwise go on from another entry.
    pub time: Option<Timestamp>,
}

/// What a copied record hangs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent<'a> {
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
    /// The working directory it is about, absolute.
    pub cwd: String,
    /// The git branch checked out there.
    pub git_branch: Option<String>,
}

impl NewSession {
    /// A session about a directory, of which no more is known.
    pub fn new(id: SessionId, cwd: impl Into<String>) -> Self {
        NewSession {
            id,
            cwd: cwd.into(),
            git_branch: None,
        }
    }

    /// Says which git branch is checked out.
    pub fn git_branch(mut self, branch: impl Into<String>) -> Self {
        self.git_branch = Some(branch.into());
        self
    }
}

/// What a writer must know about the end of a log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Head {
    /// The session.
    pub session: SessionId,
    /// The sub-agent whose log this is.
    pub agent: Option<AgentId>,
    /// Where the log lies within its root.
    pub log: Artifact,
    /// The entry that the next one hangs from.
    pub leaf: Option<EntryId>,
    /// The time of the newest entry: the next one must not seem older.
    pub time: Option<Timestamp>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The version of the agent program that wrote last.
    pub version: Option<String>,
    /// The last thing a person asked.
    pub prompt: Option<String>,
    /// Every reader will go on at this leaf. If not, a change must say so in the log.
    pub anchored: bool,
    /// Documents that belong to the session and repeat what its log says.
    pub beside: Vec<Artifact>,
}

/// An intent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Begins a session: writes down what its first message will need.
    Begin,
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
    /// Adds whole lines to a log, in one write.
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
pub struct Plan {
    /// The file operations, in order.
    pub edits: Vec<Edit>,
    /// The ids of the entries that they add, in order.
    pub added: Vec<EntryId>,
    /// The entry that the next one hangs from, if the change moves it.
    pub leaf: Option<EntryId>,
}

/// The time and the source of ids, given from outside so that plans can be repeated in tests.
pub struct Stamp<'a> {
    /// Now.
    pub now: Timestamp,
    /// Gives a fresh id.
    pub fresh: &'a mut dyn FnMut() -> String,
}
