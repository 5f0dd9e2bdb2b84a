//! Restores files that a process was removing when it was killed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use annals_jsonl as jsonl;
use annals_jsonl::removal_name::is_removed;

use super::Root;

/// Restores all files that a killed process was removing from the roots. Returns their paths.
pub(crate) fn put_back_removed(roots: &[Root]) -> Result<Vec<PathBuf>> {
    let mut back = Vec::new();
    for root in roots {
        for path in left_in(root) {
            back.extend(jsonl::put_back_removed(&path)?);
        }
    }
    Ok(back)
}

/// Lists the files of a root with the temporary name of a file under removal. Ignores read
/// failures: other readers of the root report them.
fn left_in(root: &Root) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root.path.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && enters(root, &path) => dirs.push(path),
                Ok(kind) if kind.is_file() && is_removed(&path) => found.push(path),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Layouts cannot ask the crate that renames the files.
    #[test]
    fn layouts_recognise_the_names_that_removals_give() {
        for name in [
            ".annals-a.jsonl.removed",
            ".annals-.removed",
            ".annals-a.removed-2",
            "annals-a.removed",
            ".annals-a",
            "a.jsonl",
            "a.annals-saved",
        ] {
            let path = Path::new("projects/p").join(name);
            let expected = annals_layouts::layout::is_removed(&path);
            assert_eq!(is_removed(&path), expected, "{name}");
        }
    }
}
