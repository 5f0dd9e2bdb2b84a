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
    About, Block, Body, FileBackup, FileChange, Message, Role, SYNTHETIC, Subject, TitleSource,
};
pub use draft::Draft;
pub use entry::{BlockMembers, Entry, Members, Place, RawBlocks, Span};
pub use flaw::{Flaw, FlawKind, Severity};
pub(crate) use id::ResponseNames;
pub use id::{AgentId, EntryId, Key, ResponseKey, SessionId};
pub(crate) use key_map::{KeyMap, KeySet};
pub use money::Money;
pub use outline::{Delegation, Fact, Kind, Link, Outline, Purpose, Reply};
pub use project::Project;
pub use todo::{Todo, TodoStatus};
pub use usage::{Pace, Terms, Usage, UsageFault};
