//! Files of a root other than logs of messages: state documents and run logs of the layout's
//! program (program_state.rs), the prompt history (prompt_history.rs), and saved versions of files
//! that an agent changes (save_files.rs).
//!
//! [`Store::documents`] returns the handle, [`Documents`].

mod program_state;
mod prompt_history;
mod save_files;

pub use program_state::RunLog;
pub use save_files::NewSavedVersion;

use super::Store;

/// The files of a store's roots other than logs of messages.
#[derive(Clone, Copy, Debug)]
pub struct Documents<'a> {
    store: &'a Store,
}

impl Store {
    /// Returns the files other than logs of messages.
    pub fn documents(&self) -> Documents<'_> {
        Documents { store: self }
    }
}
