//! Projects.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A working directory that sessions ran in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Project {
    /// The directory as in the records; a folder's name if no record has it.
    pub path: String,
    /// Whether `path` is only a folder's name, because no record has the directory.
    pub guessed: bool,
}

impl Project {
    /// The last path component.
    pub fn name(&self) -> &str {
        let trimmed = self.path.trim_end_matches(['/', '\\']);
        let name = trimmed.rsplit(['/', '\\']).next().unwrap_or(trimmed);
        if name.is_empty() || self.guessed {
            &self.path
        } else {
            name
        }
    }

    /// A short id for scripts: ten hex digits of a digest of the path.
    pub fn id(&self) -> String {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(self.path.as_bytes());
        let hex = digest.iter().take(5).map(|byte| format!("{byte:02x}"));
        hex.collect()
    }

    /// Whether `wanted` is the path, the name, or a suffix of the path of at least two components.
    pub fn matches(&self, wanted: &str) -> bool {
        let wanted = wanted.trim_end_matches('/');
        self.path == wanted
            || self.name() == wanted
            || (wanted.contains('/') && Path::new(&self.path).ends_with(wanted))
    }
}
