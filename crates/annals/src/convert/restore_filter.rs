//! Selects the files that origins may restore.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use annals_layouts::layout::Layout;

use super::origin::{self, Header};

/// Decides which files a conversion writes because an origin names them.
#[derive(Clone, Copy)]
pub(super) struct RestoreFilter<'a> {
    /// The layout of the target.
    pub(super) layout: &'static dyn Layout,
    /// Paths that the user named, each with everything below it.
    pub(super) named: &'a [PathBuf],
}

impl RestoreFilter<'_> {
    /// Returns whether a file may be written.
    pub(super) fn allows_file(&self, within: &Path) -> bool {
        let artifact = self.layout.classify(within);
        artifact.is_some_and(|artifact| artifact.is_conversation_data()) || self.is_named(within)
    }

    /// Returns whether an empty directory may be created.
    pub(super) fn allows_dir(&self, within: &Path) -> bool {
        self.layout.may_hold_files(within) || self.is_named(within)
    }

    fn is_named(&self, within: &Path) -> bool {
        self.named.iter().any(|named| within.starts_with(named))
    }

    /// Returns the files to write that are not logs, and everything that is withheld.
    pub(super) fn partition_files(&self, headers: &[Header]) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut documents, mut held) = (BTreeSet::new(), BTreeSet::new());
        for header in headers {
            for path in header
                .files
                .iter()
                .filter_map(|file| origin::safe_path(&file.path))
            {
                let artifact = self.layout.classify(&path);
                if !self.allows_file(&path) {
                    held.insert(path);
                } else if !artifact.is_some_and(|artifact| artifact.kind.is_log()) {
                    documents.insert(path);
                }
            }
            let dirs = header.dirs.iter().filter_map(|dir| origin::safe_path(dir));
            held.extend(dirs.filter(|dir| !self.allows_dir(dir)));
        }
        (documents.into_iter().collect(), held.into_iter().collect())
    }
}
