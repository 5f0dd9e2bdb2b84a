//! Types of the domain, independent of the layout that a record was written in.
//!
//! The model has no access to the file system, layouts or the clock. Types that modules exchange
//! are defined here, so that reports depend only on the model.

mod artifact;
mod body;
mod draft;
mod entry;
mod flaw;
mod framing;
mod id;
mod key_map;
mod money;
mod outline;
mod project;
mod todo;
mod tool;
mod usage;

pub use artifact::{Artifact, ArtifactKind};
pub use body::{
    Block, Body, FileBackup, FileChange, ListRow, ListSubject, Message, Role, SYNTHETIC,
    TitleSource,
};
pub use draft::Draft;
pub use entry::{BlockMembers, Entry, EntryContext, Members, RawBlocks, Span};
pub use flaw::{Flaw, FlawCounts, FlawKind, Severity};
pub use framing::{
    DocumentFormat, FilePart, FileSetFormat, Framing, LinesOrDocument, OptionalRows, RowEdit,
    RowFormat, RowSchema, SqlValue,
};
pub use id::ResponseResolver;
pub use id::{AgentId, EntryId, EntryKey, ResponseKey, SessionId};
pub use key_map::{KeyMap, KeySet};
pub use money::Money;
pub use outline::{Delegation, Fact, HistoryBase, Link, Outline, OutlineKind, Purpose, Reply};
pub use project::Project;
pub use todo::{Todo, TodoStatus};
pub use tool::is_part_of_edits;
pub use tool::{TextEdit, ToolCall, ToolKind};
pub use usage::{BillingTerms, ServiceTier, Usage, UsageOverflow};
