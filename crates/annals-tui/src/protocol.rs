//! Questions of the state and answers to them: plain data between the loop and its workers.

use std::path::PathBuf;
use std::sync::Arc;

use annals::cost::{ContextFill, Dimension};
use annals::model::{Entry, Money, Severity};
use annals::resume::Resume;
use annals::search::Hit;
use annals::service::SessionRow;
use annals::store::SavedFile;
use crossterm::event::{KeyEvent, MouseEvent};
use jiff::Timestamp;

/// Number of a reader; answers for a closed one are dropped.
pub(crate) type ReaderId = u64;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The mouse was used.
    Mouse(MouseEvent),
    /// The terminal has this size.
    Resize(u16, u16),
    /// A worker answered.
    Answer(Answer),
    /// The current time.
    Now(Timestamp),
}

/// Something to do outside of the state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Read the list of sessions.
    ListSessions,
    /// Search; an earlier search is stopped.
    Search(SearchQuestion),
    /// Stop the search that runs.
    StopSearch,
    /// Open a conversation.
    Open(OpenQuestion),
    /// Load messages of a conversation, given by outline index.
    Load {
        reader: ReaderId,
        stamp: u64,
        log: usize,
        wanted: Vec<usize>,
    },
    /// Read what was appended to the session of a reader.
    Grow(OpenQuestion),
    /// Find text in a conversation.
    Find {
        reader: ReaderId,
        stamp: u64,
        log: usize,
        items: Vec<usize>,
        text: String,
    },
    /// Draw the tree of a session.
    Tree(SessionName),
    /// List the saved files of a session.
    Files(SessionName),
    /// Compare two saved versions of a file.
    Diff {
        session: SessionName,
        path: String,
        old: Option<u64>,
        new: u64,
    },
    /// Look at what writing a saved version to its file would replace.
    PlanRestore(Restore),
    /// Write a saved version to its file.
    Restore(Restore),
    /// Report costs.
    Cost(CostQuestion),
    /// Look for damage everywhere.
    Check,
    /// Follow what agents write.
    Follow(Followed),
    /// Stop following.
    StopFollowing,
    /// Copy a conversation into a new session.
    Fork {
        session: SessionName,
        message: Option<String>,
    },
    /// Move a session to the trash.
    Trash(SessionName),
    /// Restore it.
    Undelete { id: String, title: String },
    /// Export a session to a file in the current directory.
    Export(SessionName),
    /// Find the command that opens a session in its own program.
    Resume(SessionName),
    /// Put text on the clipboard.
    Copy { text: String, what: &'static str },
    /// Run another command of the program on the terminal.
    Run(Vec<String>),
    /// Capture the mouse, or release it.
    Mouse(bool),
    /// Draw everything again.
    Redraw,
    /// Suspend the program.
    Suspend,
}

/// Names a session: its id, or the path of its log if two sessions have the id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SessionName {
    /// Name that `annals::service` resolves.
    pub(crate) key: String,
    /// The id.
    pub(crate) id: String,
    /// The title.
    pub(crate) title: String,
}

/// What is followed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Followed {
    /// Whether anything is written: the list changes.
    List,
    /// What all agents write.
    All,
    /// A session.
    Session(SessionName),
}

/// A saved version of a file that is to be written to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Restore {
    pub(crate) session: SessionName,
    pub(crate) path: String,
    pub(crate) version: u64,
}

/// What the file contains that a saved version would be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// There is no file.
    Nothing,
    /// The content of a saved version.
    Saved,
    /// Content that is in no saved version.
    Unsaved,
}

/// Question for hits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchQuestion {
    /// Number of the question; answers to earlier ones are dropped.
    pub(crate) generation: u64,
    /// The words.
    pub(crate) query: String,
    /// Only this project.
    pub(crate) here: bool,
}

/// Question for a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenQuestion {
    /// The reader that asks.
    pub(crate) reader: ReaderId,
    /// The session.
    pub(crate) session: SessionName,
    /// Which conversation of the session.
    pub(crate) which: ConversationRef,
    /// Whether the end is enough; the whole is asked for later.
    pub(crate) tail: bool,
    /// The message to show first: its id, or `:LINE`.
    pub(crate) at: Option<String>,
    /// Whether only the newest question of this kind matters.
    pub(crate) preview: bool,
}

/// A conversation of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ConversationRef {
    /// That which the agent would resume.
    #[default]
    Resumed,
    /// The conversation with this number.
    Branch(usize),
    /// A conversation through this message.
    Through(String),
    /// The sub-agent with this number.
    Agent(usize),
}

/// Question for costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CostQuestion {
    /// Dimension of the rows.
    pub(crate) by: Option<Dimension>,
    /// Earliest time.
    pub(crate) since: Option<Timestamp>,
    /// Latest time.
    pub(crate) until: Option<Timestamp>,
    /// Only this project.
    pub(crate) project: Option<String>,
    /// Only this model.
    pub(crate) model: Option<String>,
}

/// Answer of a worker.
#[derive(Debug)]
pub(crate) enum Answer {
    Sessions {
        rows: Vec<SessionRow>,
        /// Whether each is of this project.
        here: Vec<bool>,
        /// Number of all sessions: the newest are listed first.
        total: usize,
    },
    /// An agent wrote something; sent while the list is followed.
    ListChanged,
    Hits(Hits),
    Opened {
        reader: ReaderId,
        conversation: Box<Conversation>,
    },
    Loaded {
        reader: ReaderId,
        stamp: u64,
        entries: Vec<(usize, Entry)>,
    },
    Found {
        reader: ReaderId,
        stamp: u64,
        text: String,
        items: Vec<usize>,
    },
    /// The session of a reader was closed meanwhile.
    Stale {
        reader: ReaderId,
    },
    /// Something was written to the session of a reader.
    Written,
    Tree {
        session: SessionName,
        rows: Vec<TreeRow>,
    },
    Files {
        session: SessionName,
        files: Vec<FileRow>,
    },
    RestorePlanned {
        restore: Restore,
        replaced: Replaced,
    },
    Diff {
        path: String,
        new: u64,
        text: String,
    },
    Cost {
        question: CostQuestion,
        report: Box<CostSummary>,
    },
    Check(CheckSummary),
    Live(Box<LiveLine>),
    Forked {
        session: SessionName,
    },
    Trashed {
        id: String,
        title: String,
    },
    Restored {
        title: String,
    },
    Exported(PathBuf),
    Resume(Box<Resume>),
    Notice(String),
    /// A reader's question failed.
    ReaderFailed {
        reader: ReaderId,
        why: String,
    },
    Failed(String),
}

/// Hits of a search; more may follow.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    pub(crate) generation: u64,
    pub(crate) hits: Vec<Hit>,
    /// Whether these are all hits, in their order; else more of them, as they were found.
    pub(crate) replaces: bool,
    pub(crate) total: u64,
    pub(crate) at_least: bool,
    pub(crate) done: bool,
    /// Why the query is invalid.
    pub(crate) error: Option<String>,
}

/// A conversation: what is shown of it without its text.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// The session.
    pub(crate) session: SessionName,
    /// The conversation that was asked for.
    pub(crate) which: ConversationRef,
    /// Changes whenever indexes may have changed.
    pub(crate) stamp: u64,
    /// Whether it is the whole conversation, and not only its end.
    pub(crate) is_whole: bool,
    /// The log.
    pub(crate) log: usize,
    /// Its entries.
    pub(crate) items: Vec<Item>,
    /// Number of this branch, and of all.
    pub(crate) branch: Option<(usize, usize)>,
    /// The sub-agents of the session.
    pub(crate) agents: Arc<Vec<AgentLine>>,
    /// Cost of the session.
    pub(crate) cost: Option<Money>,
    /// Fill of the context window.
    pub(crate) fill: Option<ContextFill>,
    /// The item to show first.
    pub(crate) at: Option<usize>,
    /// Entries around the place that is shown first.
    pub(crate) entries: Vec<(usize, Entry)>,
}

/// An entry of a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Item {
    /// Its outline.
    pub(crate) outline: usize,
    /// Its byte offset in the log.
    pub(crate) offset: u64,
    /// Its kind.
    pub(crate) kind: ItemKind,
    /// Whether it has a heading: it does not continue the response before.
    pub(crate) starts: bool,
    /// Cost of the response that starts here.
    pub(crate) cost: Option<Money>,
    /// The sub-agent that it calls.
    pub(crate) agent: Option<u32>,
}

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// Typed by a person.
    Prompt,
    /// By the model.
    Assistant,
    /// Results of tools.
    Result,
    /// A compaction.
    Compaction,
    /// Other messages.
    Other,
}

/// A sub-agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentLine {
    pub(crate) kind: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) messages: usize,
}

/// A row of a tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TreeRow {
    /// The lines to the left.
    pub(crate) prefix: String,
    pub(crate) kind: TreeKind,
    pub(crate) time: Option<Timestamp>,
    pub(crate) text: String,
    pub(crate) messages: usize,
    pub(crate) cost: Option<Money>,
    /// Whether the agent would resume here.
    pub(crate) resumes: bool,
    /// Conversation to open.
    pub(crate) which: ConversationRef,
    /// Its message.
    pub(crate) message: Option<String>,
    /// The file of a changed file, and the index of the version that the change made, or of the
    /// saved one if no later version is known.
    pub(crate) file: Option<(FileRow, usize)>,
}

/// Kind of a row of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TreeKind {
    #[default]
    Prompt,
    Compaction,
    Agent,
    /// A file that changed after the message above.
    File,
    /// The end of a branch.
    Leaf,
}

/// A saved file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRow {
    pub(crate) path: String,
    pub(crate) versions: Vec<VersionRow>,
}

/// A saved version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionRow {
    pub(crate) version: u64,
    pub(crate) time: Option<Timestamp>,
    pub(crate) state: &'static str,
    pub(crate) bytes: Option<u64>,
}

impl From<&SavedFile> for FileRow {
    fn from(file: &SavedFile) -> Self {
        let versions = file.versions.iter().map(|version| VersionRow {
            version: version.version,
            time: version.time,
            state: version.state(),
            bytes: version.bytes,
        });
        FileRow {
            path: file.path.clone(),
            versions: versions.collect(),
        }
    }
}

/// A cost report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CostSummary {
    pub(crate) rows: Vec<CostLine>,
    pub(crate) total: Money,
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    pub(crate) unpriced: u64,
}

/// A row of a cost report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CostLine {
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) cost: Money,
    pub(crate) tokens: u64,
    pub(crate) requests: u64,
    pub(crate) unpriced: u64,
    pub(crate) period: Option<(Timestamp, Timestamp)>,
}

/// Findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CheckSummary {
    pub(crate) rows: Vec<CheckRow>,
    pub(crate) unreadable: Vec<String>,
    pub(crate) lines: u64,
    pub(crate) has_sessions: bool,
}

/// Findings of one kind in one file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckRow {
    pub(crate) severity: Severity,
    pub(crate) kind: &'static str,
    pub(crate) path: String,
    pub(crate) line: u64,
    pub(crate) count: usize,
    pub(crate) advice: &'static str,
    /// The command that repairs it.
    pub(crate) command: Option<String>,
}

/// Something that an agent wrote.
#[derive(Debug)]
pub(crate) struct LiveLine {
    pub(crate) session: SessionName,
    pub(crate) project: String,
    pub(crate) agent: Option<String>,
    pub(crate) entry: Entry,
}
