//! An entry: the decoded view of one record.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{AgentId, Body, EntryId};

/// Byte range of a record in its file. The bytes are authoritative; an entry is a view of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Span {
    /// Byte offset of the record's first byte.
    pub offset: u64,
    /// Length in bytes, line ending included.
    pub len: u64,
    /// Line number, from 1; 0 if the file was read from its end and lines were not counted.
    pub line: u64,
}

impl Span {
    /// Offset of the first byte after the record.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// The decoded view of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The byte range of the record.
    pub span: Span,
    /// Its id, if the layout gives it one.
    pub id: Option<EntryId>,
    /// Whether the record has no id in a layout that links records by id. `id` is then made from
    /// the offset, and no other program can find the entry by it.
    pub derived_id: bool,
    /// The entry it answers or continues. A compaction's is the last entry that it summarises.
    pub parent: Option<EntryId>,
    /// The time it was written, by the writer's clock.
    pub time: Option<Timestamp>,
    /// The session that the record names. If the file holds only one session, the file decides.
    pub session: Option<String>,
    /// The agent that it belongs to; `None` means the main agent.
    pub agent: Option<AgentId>,
    /// Whether it is traffic outside the main conversation.
    pub sidechain: bool,
    /// The program that wrote it, in the layout's spelling.
    pub program: Option<String>,
    /// Whether it was copied here from another session.
    pub copied: bool,
    /// The writer's working context.
    pub context: EntryContext,
    /// Members of the record that are specific to its layout, in its spelling.
    pub members: Members,
    /// Members of its message's blocks that [`Block`](super::Block) has no field for.
    pub block_members: BlockMembers,
    /// The content.
    pub body: Body,
}

/// Names and JSON texts of a record's members.
pub type Members = Vec<(String, String)>;

/// JSON texts of block members by name, by index of the block in its message.
pub type BlockMembers = BTreeMap<usize, BTreeMap<String, String>>;

/// JSON texts of blocks by index in their message.
pub type RawBlocks = BTreeMap<usize, String>;

/// The working context of an entry's writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryContext {
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The version of the agent program.
    pub version: Option<String>,
    /// The channel by which it came in or went out, such as `telegram`, in the layout's spelling.
    pub channel: Option<String>,
}

impl Entry {
    /// Creates an entry with only a span and a body.
    pub fn new(span: Span, body: Body) -> Self {
        Entry {
            span,
            id: None,
            derived_id: false,
            parent: None,
            time: None,
            session: None,
            agent: None,
            sidechain: false,
            program: None,
            copied: false,
            context: EntryContext::default(),
            members: Members::new(),
            block_members: BlockMembers::new(),
            body,
        }
    }
}
