//! Outlines: what trees, lists and totals need of an entry, without its text.
//!
//! Listing a gigabyte of history must not decode a gigabyte of text. A decoder therefore has two
//! depths: [`Entry`](super::Entry), which is everything, and `Outline`, which is the links, the
//! counts and the few short texts from which titles are made.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    AgentId, BillingTerms, EntryId, EntryKey, Money, ResponseKey, Role, Span, TitleSource, Usage,
};

/// The skeleton of an entry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outline {
    /// Where the record lies.
    pub span: Span,
    /// The volume of the log that it lies in, from 0: a log may go on in another file.
    pub volume: u16,
    /// What it is.
    pub kind: OutlineKind,
    /// Its id.
    pub key: Option<EntryKey>,
    /// What it hangs from.
    pub link: Link,
    /// When it was written.
    pub time: Option<Timestamp>,
    /// Whose it is; `None` means the main agent.
    pub agent: Option<AgentId>,
    /// Traffic beside the main conversation.
    pub sidechain: bool,
    /// A prompt that a person typed.
    pub human: bool,
    /// What a model's answer adds.
    pub reply: Option<Box<Reply>>,
    /// The tool calls that this entry answers.
    pub results: Vec<EntryKey>,
    /// Short texts and what else is rare.
    pub facts: Vec<Fact>,
}

/// What an outlined entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// Something was said.
    pub fn is_message(self) -> bool {
        self.role().is_some()
    }

    /// Who said it, if it is a message.
    pub fn role(self) -> Option<Role> {
        match self {
            OutlineKind::User => Some(Role::User),
            OutlineKind::Assistant => Some(Role::Assistant),
            OutlineKind::System => Some(Role::System),
            OutlineKind::Compaction | OutlineKind::Other => None,
        }
    }
}

/// What an entry hangs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// Nothing: it begins a conversation, or takes no part in one.
    None,
    /// The message before it in the log: what layouts without links mean. The store puts that
    /// message's id in its place before anyone else sees it.
    Previous,
    /// Its parent.
    Parent(EntryKey),
    /// The last entry that it summarises; that entry may have been left out of the file.
    Continues(EntryKey),
}

impl Link {
    /// The entry that this one comes after.
    pub fn key(self) -> Option<EntryKey> {
        match self {
            Link::None | Link::Previous => None,
            Link::Parent(key) | Link::Continues(key) => Some(key),
        }
    }
}

/// What a model's answer adds to an outline.
#[derive(Clone, Debug, PartialEq, Default)]
#[non_exhaustive]
pub struct Reply {
    /// The response it is part of; several entries may share one.
    pub response: Option<ResponseKey>,
    /// The model.
    pub model: Option<Arc<str>>,
    /// Tokens of the whole response, as far as this entry knows.
    pub usage: Option<Usage>,
    /// On which terms they were used.
    pub terms: BillingTerms,
    /// What the program that made the log says it cost.
    pub recorded: Option<Money>,
    /// The entry says itself that it is a copy of another session's.
    pub copied: bool,
    /// The tool calls it makes.
    pub calls: Vec<EntryKey>,
}

/// A short text, or something else that few entries have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// The entry's id, where its key cannot be spelled back.
    Id(EntryId),
    /// The beginning of what a person typed.
    Prompt(Box<str>),
    /// The working directory from here on.
    Cwd(Box<str>),
    /// The git branch from here on; empty if there is none.
    GitBranch(Box<str>),
    /// The version of the agent program from here on.
    Version(Box<str>),
    /// The session that the record itself names, where it is a new one.
    Session(Box<str>),
    /// A title.
    Title(Box<str>, TitleSource),
    /// A short text for the conversation that ends at the leaf.
    Summary(Box<str>, Option<EntryKey>),
    /// The session that the summary of the same entry names.
    SummarySession(Box<str>),
    /// A label; empty takes it back.
    Tag(Box<str>),
    /// Where the agent program will go on.
    Resume(EntryKey),
    /// A sub-agent did the work of these calls.
    Spawned(AgentId),
    /// A call hands this prompt to a sub-agent.
    Delegation(Box<Delegation>),
    /// The whole text of a sub-agent's first message.
    AgentPrompt(EntryKey),
    /// What the agent whose log this is was made for.
    Purpose(Box<Purpose>),
    /// A name and a value that the layout's writer will need again, such as a thread's id.
    WriterState(Box<str>, Box<str>),
    /// A name and a value that a list of sessions tells, such as a channel; the last one counts.
    Attribute(&'static str, Box<str>),
    /// A call that has no id: the key of its tool, and the key that it goes by instead.
    UnnamedCall(EntryKey, EntryKey),
    /// A result that names no call: the key of its tool, which stands among the results until the
    /// store puts the call's key in its place.
    UnnamedAnswer(EntryKey),
    /// Versions of files were saved.
    Files,
    /// Output too long for the log lies in a file of this name among the session's own.
    StoredOutput(Box<str>),
    /// An earlier message of the log has the same id. Both count: records without links each have a
    /// place of their own.
    RepeatedId,
    /// A message whose record has no id, although its layout links records by ids: its key is made from its
    /// offset, and no other program can find it by that.
    NoId,
    /// The record does not say of what type it is.
    Untyped,
    /// Its own program knows no such type.
    UnknownType(Box<str>),
    /// It has an id, but is of a type that the agent's own program does not follow links through.
    UnlinkedType,
    /// Only newer versions of the agent's own program follow links through its type.
    NewerType,
    /// A person's remark.
    Note(Box<str>),
}

/// A call that hands work to a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delegation {
    /// The call.
    pub call: EntryKey,
    /// The prompt's whole text, if there is one.
    pub prompt: Option<EntryKey>,
    /// The kind of sub-agent asked for.
    pub kind: Option<Box<str>>,
    /// What it is for.
    pub description: Option<Box<str>>,
}

/// What a sub-agent was made for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Purpose {
    /// Its kind, such as `Explore`.
    pub kind: Option<Box<str>>,
    /// What it is for.
    pub description: Option<Box<str>>,
    /// The tool call that spawned it.
    pub call: Option<EntryKey>,
}

impl Outline {
    /// An outline of which only the place is known.
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

    /// Whether it is a message whose record has no id: see [`Fact::NoId`].
    pub fn lacks_id(&self) -> bool {
        self.facts.contains(&Fact::NoId)
    }

    /// The beginning of what a person typed.
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
