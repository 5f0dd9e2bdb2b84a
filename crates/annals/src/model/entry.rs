//! An entry: the decoded view of one record.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{AgentId, Body, EntryId};

/// Where a record lies in its file; the bytes there are the truth, an entry is a view of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Span {
    /// Byte offset of the record's first byte.
    pub offset: u64,
    /// Length in bytes, line ending included.
    pub len: u64,
    /// Line number, from 1; 0 where a file was read from its end and lines were not counted.
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
#[non_exhaustive]
pub struct Entry {
    /// Where the record lies.
    pub span: Span,
    /// Its id, if the layout gives it one.
    pub id: Option<EntryId>,
    /// Its record has no id, although its layout links records by ids: `id` is made from its offset, and no
    /// other program can find it by that.
    pub derived_id: bool,
    /// The entry it answers or continues. A compaction's is the last entry that it summarises.
    pub parent: Option<EntryId>,
    /// When it was written, by the writer's clock.
    pub time: Option<Timestamp>,
    /// The session that the record itself names. The file decides where only one session lies in it.
    pub session: Option<String>,
    /// Whose it is; `None` means the main agent.
    pub agent: Option<AgentId>,
    /// Traffic beside the main conversation.
    pub sidechain: bool,
    /// The program that wrote it, in the layout's own words.
    pub program: Option<String>,
    /// It was copied from another session, and not written where it stands.
    pub copied: bool,
    /// Where its writer was at work.
    pub context: EntryContext,
    /// Members of the record that only its layout knows, in its own spelling.
    pub members: Members,
    /// Members of its message's blocks that a [`Block`](super::Block) has no place for.
    pub block_members: BlockMembers,
    /// What it says.
    pub body: Body,
}

/// Names and JSON texts of members of a record.
pub type Members = Vec<(String, String)>;

/// JSON texts of members of blocks by their names, by the place of the block in a message.
pub type BlockMembers = BTreeMap<usize, BTreeMap<String, String>>;

/// JSON texts of blocks, by their place in a message.
pub type RawBlocks = BTreeMap<usize, String>;

/// Where the writer of an entry was at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryContext {
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The version of the agent program.
    pub version: Option<String>,
    /// The way by which it came in or went out, such as `telegram`, in the layout's own words.
    pub channel: Option<String>,
}

impl Entry {
    /// An entry of which only the place and the words are known.
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
