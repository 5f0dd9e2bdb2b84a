//! Rows as JSON, in the shape that scripts may rely on, and short ids for people.
//!
//! Every surface shows the same rows: the program's `--json` and whatever embeds the library.

mod entry;
mod session;
mod short_ids;

pub use entry::{EntryJson, FlawJson, body_text, decoded_len};
pub use session::{ContextFillJson, ConversationJson, SessionJson};
pub use short_ids::{ShortIds, id_prefix, short_id, short_message_id};
