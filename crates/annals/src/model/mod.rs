//! The words of the field as types: what a record says, whatever layout it was written in.
//!
//! The model knows no file system, no layout and no clock. Everything that other modules pass
//! around is defined here, so that reports see only the model.

mod artifact;
mod body;
mod draft;
mod entry;
mod flaw;
mod id;
mod key_map;
mod money;
mod outline;
mod project;
mod todo;
mod usage;

pub use artifact::{Artifact, ArtifactKind};
pub use body::{
    Block, Body, FileBackup, FileChange, ListRow, ListSubject, Message, Role, SYNTHETIC,
    TitleSource,
};
pub use draft::Draft;
pub use entry::{BlockMembers, Entry, EntryContext, Members, RawBlocks, Span};
pub use flaw::{Flaw, FlawKind, Severity};
pub(crate) use id::ResponseResolver;
pub use id::{AgentId, EntryId, EntryKey, ResponseKey, SessionId};
pub(crate) use key_map::{KeyMap, KeySet};
pub use money::Money;
pub use outline::{Delegation, Fact, Link, Outline, OutlineKind, Purpose, Reply};
pub use project::Project;
pub use todo::{Todo, TodoStatus};
pub use usage::{BillingTerms, ServiceTier, Usage, UsageOverflow};
