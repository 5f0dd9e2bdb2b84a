//! Facts from the contents of files that listings need, stored between runs.
//!
//! Two kinds: the session of a log whose path names none (old logs of sub-agents are next to the
//! session logs), and the ranges of each session in a shared log.

use annals_layouts::model::SessionId;

use super::Root;
use super::inventory::{RootFile, session_from_content};

/// Storage of facts from the contents of files. It changes the speed of listings, not their result.
pub(crate) trait ContentCache {
    /// Returns the facts about a file that is unchanged, or has only grown.
    fn get(&mut self, root: &Root, file: &RootFile) -> Option<StoredContent>;

    /// Stores the facts about a file.
    fn put(&mut self, root: &Root, file: &RootFile, facts: Vec<u8>);
}

/// Stored facts about a file.
pub(crate) struct StoredContent {
    pub(crate) facts: Vec<u8>,
    /// Length of the file when they were read.
    pub(crate) len: u64,
}

/// Cache that stores nothing.
pub(crate) struct NoCache;

impl ContentCache for NoCache {
    fn get(&mut self, _: &Root, _: &RootFile) -> Option<StoredContent> {
        None
    }

    fn put(&mut self, _: &Root, _: &RootFile, _: Vec<u8>) {}
}

/// Returns the session that the content of a log names.
pub(super) fn owner(
    root: &Root,
    file: &RootFile,
    cache: &mut dyn ContentCache,
) -> Option<SessionId> {
    let stored = cache.get(root, file);
    let stored = stored.filter(|stored| stored.len == file.id.len);
    let stored = stored.and_then(|stored| postcard::from_bytes(&stored.facts).ok());
    if let Some(name) = stored {
        let name: Option<String> = name;
        return SessionId::new(&name?).ok();
    }
    let before = root.failures.report_count();
    let session = session_from_content(root, file);
    // A log that could not be read may become readable without a change to its identity.
    if root.failures.report_count() == before {
        let name = session.as_ref().map(SessionId::as_str);
        cache.put(root, file, postcard::to_stdvec(&name).unwrap_or_default());
    }
    session
}
