//! Outlines: the parts of an entry that trees, lists and totals need, without its text.
//!
//! Listing a gigabyte of history must not decode a gigabyte of text. A decoder therefore has two
//! depths: [`Entry`](super::Entry) is everything, and `Outline` is the links, the counts and the
//! short texts from which titles are made.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    AgentId, BillingTerms, EntryId, EntryKey, Money, ResponseKey, Role, Span, TitleSource, Usage,
};

/// The skeleton of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// The byte range of the record.
    pub span: Span,
    /// The volume of the log, from 0: a log may continue in another file.
    pub volume: u16,
    /// The kind of entry.
    pub kind: OutlineKind,
    /// Its id.
    pub key: Option<EntryKey>,
    /// The link to its parent.
    pub link: Link,
    /// The time it was written.
    pub time: Option<Timestamp>,
    /// The agent that it belongs to; `None` means the main agent.
    pub agent: Option<AgentId>,
    /// Whether it is traffic outside the main conversation.
    pub sidechain: bool,
    /// Whether it is a prompt that a person typed.
    pub human: bool,
    /// The data of a model's reply.
    pub reply: Option<Box<Reply>>,
    /// The tool calls that this entry answers.
    pub results: Vec<EntryKey>,
    /// Short texts and rare attributes.
    pub facts: Vec<Fact>,
}

/// The kind of an outlined entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutlineKind {
    /// A message in the user's place: a prompt, tool results, a command.
    User,
    /// A message of the model.
    Assistant,
    /// A message of instructions.
    System,
    /// A compaction's boundary.
    Compaction,
    /// Anything else.
    Other,
}

impl OutlineKind {
    /// Whether it is a message.
    pub fn is_message(self) -> bool {
        self.role().is_some()
    }

    /// The role of a message.
    pub fn role(self) -> Option<Role> {
        match self {
            OutlineKind::User => Some(Role::User),
            OutlineKind::Assistant => Some(Role::Assistant),
            OutlineKind::System => Some(Role::System),
            OutlineKind::Compaction | OutlineKind::Other => None,
        }
    }
}

/// The link of an entry to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// No parent: it begins a conversation, or is not part of one.
    None,
    /// The message before it in the log, in layouts without links. The store replaces it with that
    /// message's id before any other module sees it.
    Previous,
    /// Its parent.
    Parent(EntryKey),
    /// The last entry that it summarises; the file may lack that entry.
    Continues(EntryKey),
}

impl Link {
    /// The id of the entry before this one.
    pub fn key(self) -> Option<EntryKey> {
        match self {
            Link::None | Link::Previous => None,
            Link::Parent(key) | Link::Continues(key) => Some(key),
        }
    }
}

/// The data of a model's reply.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reply {
    /// The response it is part of; several entries may share one.
    pub response: Option<ResponseKey>,
    /// The model.
    pub model: Option<Arc<str>>,
    /// Tokens of the whole response, as far as this entry has them.
    pub usage: Option<Usage>,
    /// The terms on which they were billed.
    pub terms: BillingTerms,
    /// The cost recorded by the program that wrote the log.
    pub recorded: Option<Money>,
    /// Whether the entry is marked as a copy of another session's.
    pub copied: bool,
    /// The tool calls it makes.
    pub calls: Vec<EntryKey>,
}

/// A short text, or something else that few entries have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The entry's id, if its key cannot be converted back to it.
    Id(EntryId),
    /// The beginning of a prompt that a person typed.
    Prompt(Box<str>),
    /// The working directory from here on.
    Cwd(Box<str>),
    /// The git branch from here on; empty if there is none.
    GitBranch(Box<str>),
    /// The version of the agent program from here on.
    Version(Box<str>),
    /// The session that the record names, if it differs from the one before.
    Session(Box<str>),
    /// A title.
    Title(Box<str>, TitleSource),
    /// A short text for the conversation that ends at the leaf.
    Summary(Box<str>, Option<EntryKey>),
    /// The session named by the summary of the same entry.
    SummarySession(Box<str>),
    /// A label; empty withdraws it.
    Tag(Box<str>),
    /// The entry from which the agent program will resume.
    Resume(EntryKey),
    /// The agent program resumes at exactly this entry if the log ends with it.
    ResumesHere,
    /// The log continues another one.
    HistoryBase(Box<HistoryBase>),
    /// A sub-agent did the work of these calls.
    Spawned(AgentId),
    /// A call passes this prompt to a sub-agent.
    Delegation(Box<Delegation>),
    /// Key of the whole text of a sub-agent's first message.
    AgentPrompt(EntryKey),
    /// The task of the agent whose log this is.
    Purpose(Box<Purpose>),
    /// A name and a value that the layout's writer needs, such as a thread's id.
    WriterState(Box<str>, Box<str>),
    /// A name and a value for lists of sessions, such as a channel; the last one wins.
    Attribute(&'static str, Box<str>),
    /// A call without an id: the key of its tool, and the key used instead of an id.
    UnnamedCall(EntryKey, EntryKey),
    /// A result that names no call: the key of its tool, which is listed among the results until
    /// the store replaces it with the call's key.
    UnnamedAnswer(EntryKey),
    /// Versions of files were saved.
    Files,
    /// A list of todos.
    Todos,
    /// The file name among the session's own files of output too long for the log.
    StoredOutput(Box<str>),
    /// An earlier message of the log has the same id. Both count: records without links are
    /// positioned by line.
    RepeatedId,
    /// A message without an id in a layout that links records by id. Its key is made from the
    /// offset, and no other program can find it by that.
    NoId,
    /// A tool result without the id of its call, in a layout whose results must have it.
    NoCall,
    /// The record has no type.
    Untyped,
    /// Its own program does not support this type.
    UnknownType(Box<str>),
    /// It has an id, but its type is one that the agent's own program does not follow links
    /// through.
    UnlinkedType,
    /// Only newer versions of the agent's own program follow links through its type.
    NewerType,
    /// A person's note.
    Note(Box<str>),
    /// The first entry before a compaction that the agent program sends after its summary.
    KeptFrom(EntryKey),
}

/// The beginning of another session's log, which a fork by reference continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryBase {
    /// The other session.
    pub session: Box<str>,
    /// Length of the beginning in bytes.
    pub end: u64,
}

/// A call that delegates work to a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The call.
    pub call: EntryKey,
    /// Key of the prompt's whole text, if there is one.
    pub prompt: Option<EntryKey>,
    /// The kind of sub-agent asked for.
    pub kind: Option<Box<str>>,
    /// Its task.
    pub description: Option<Box<str>>,
}

/// The task of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Purpose {
    /// Its kind, such as `Explore`.
    pub kind: Option<Box<str>>,
    /// The description of the task.
    pub description: Option<Box<str>>,
    /// The tool call that spawned it.
    pub call: Option<EntryKey>,
}

impl Outline {
    /// Creates an outline with only a span.
    pub fn new(span: Span) -> Self {
        Outline {
            span,
            volume: 0,
            kind: OutlineKind::Other,
            key: None,
            link: Link::None,
            time: None,
            agent: None,
            sidechain: false,
            human: false,
            reply: None,
            results: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// The entry's id as text.
    pub fn id(&self) -> Option<EntryId> {
        let spelled = self.facts.iter().find_map(|fact| match fact {
            Fact::Id(id) => Some(id.clone()),
            _ => None,
        });
        spelled.or_else(|| self.key.map(|key| EntryId::new(&key.to_uuid())))
    }

    /// Whether it is a message without an id; see [`Fact::NoId`].
    pub fn lacks_id(&self) -> bool {
        self.facts.contains(&Fact::NoId)
    }

    /// The beginning of a prompt that a person typed.
    pub fn prompt(&self) -> Option<&str> {
        self.facts.iter().find_map(|fact| match fact {
            Fact::Prompt(text) => Some(&**text),
            _ => None,
        })
    }

    /// The tool calls it makes.
    pub fn calls(&self) -> &[EntryKey] {
        self.reply.as_ref().map_or(&[], |reply| &reply.calls)
    }
}
