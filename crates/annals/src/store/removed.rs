//! Files that a process was removing when it was killed: they get their names back.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::jsonl;

use super::{Root, Store};

impl Store {
    /// Puts back all files that a killed process was removing from a root. Returns where they are now.
    ///
    /// Whether such a file is safe elsewhere is not asked: what was to be removed can be removed again.
    pub fn put_back_removed(&self) -> Result<Vec<PathBuf>> {
        let mut back = Vec::new();
        for root in self.roots() {
            for path in left_in(root) {
                back.extend(jsonl::put_back_removed(&path)?);
            }
        }
        Ok(back)
    }
}

/// The files of a root that have a name which files have while they are removed. What cannot be read is
/// reported by whoever reads it.
fn left_in(root: &Root) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root.path.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && enters(root, &path) => dirs.push(path),
                Ok(kind) if kind.is_file() && jsonl::is_removed(&entry.file_name()) => {
                    found.push(path);
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn enters(root: &Root, dir: &Path) -> bool {
    let within = dir.strip_prefix(&root.path);
    within.is_ok_and(|within| root.layout.may_hold_files(within))
}
