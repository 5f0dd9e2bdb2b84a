//! Rows as JSON, in the shape that scripts may rely on, and short ids for people.
//!
//! Every surface shows the same rows: the program's `--json` and whatever embeds the library.

#[cfg(feature = "archive")]
mod archived;
mod check;
mod cost;
mod cost_labels;
mod entry;
mod event;
#[cfg(feature = "search")]
mod hit;
#[cfg(feature = "search")]
mod hit_names;
mod project;
mod saved_file;
mod session;
mod session_page;
mod short_ids;
mod todos;
mod trashed;

#[cfg(feature = "archive")]
pub use archived::{ArchiveList, ArchivedRow};
pub use check::{CheckJson, FileReportJson};
pub use cost::{BudgetJson, CostDetails, CostJson};
pub use cost_labels::{CostLabel, CostLabels, accounts_of_rows, accounts_with_agents};
pub use entry::{EntryJson, FlawJson, body_text, decoded_len};
pub use event::EventJson;
#[cfg(feature = "search")]
pub use hit::HitJson;
#[cfg(feature = "search")]
pub use hit_names::HitNames;
pub use project::{ProjectCosts, ProjectJson};
pub use saved_file::{FileVersionJson, SavedFileJson};
pub use session::{ContextFillJson, ConversationJson, SessionJson};
pub use session_page::{PageJson, PageRequest, SessionPage};
pub use short_ids::{ShortIds, id_prefix, short_id, short_message_id};
pub use todos::TodosJson;
pub use trashed::{TrashRow, TrashedJson};
