//! Projects.

use std::path::Path;

/// A working directory that sessions ran in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Project {
    /// The directory, as the records spell it; a folder's name where no record tells.
    pub path: String,
    /// No record tells the directory: `path` is only the name of a folder.
    pub guessed: bool,
}

impl Project {
    /// The last part of the path, by which people call it.
    pub fn name(&self) -> &str {
        let trimmed = self.path.trim_end_matches(['/', '\\']);
        let name = trimmed.rsplit(['/', '\\']).next().unwrap_or(trimmed);
        if name.is_empty() || self.guessed {
            &self.path
        } else {
            name
        }
    }

    /// A short name for scripts that no two directories share.
    pub fn id(&self) -> String {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(self.path.as_bytes());
        let hex = digest.iter().take(5).map(|byte| format!("{byte:02x}"));
        hex.collect()
    }

    /// Whether a person who types `wanted` may mean this project: its path, its name, or a path
    /// inside or around it that ends alike.
    pub fn matches(&self, wanted: &str) -> bool {
        let wanted = wanted.trim_end_matches('/');
        self.path == wanted
            || self.name() == wanted
            || (wanted.contains('/') && Path::new(&self.path).ends_with(wanted))
    }
}
