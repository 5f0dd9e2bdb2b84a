//! Files in the directories of a layout that no layout knows.
//!
//! Nobody reads them, so a log under an unexpected name would go unnoticed. Only directories that a
//! layout enters are looked into; what a program keeps elsewhere in its root is not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::layout::LAYOUTS;
use crate::model::FlawKind;
use crate::store::{Inventory, Root};

use super::{FileReport, count, whole_file};

/// How many files of a root are named; of the others only their number is reported.
const NAMED: usize = 100;

/// Reports the files of all roots that no layout knows.
pub(super) fn check(inventory: &Inventory) -> Vec<FileReport> {
    // One directory may be a root of several layouts.
    let mut found: BTreeMap<&Path, BTreeSet<PathBuf>> = BTreeMap::new();
    for root in &inventory.roots {
        let known = found.entry(&root.path).or_default();
        collect(root, &root.path, known);
    }
    let mut reports = Vec::new();
    for (root, files) in found {
        for path in files.iter().take(NAMED) {
            let detail = "no layout knows such a file: annals neither lists nor archives it";
            let flaw = whole_file(FlawKind::UnknownFile, detail);
            reports.push(FileReport::about(path, flaw));
        }
        if let Some(more @ 1..) = files.len().checked_sub(NAMED) {
            let detail = format!("{} that no layout knows", count(more, "more file"));
            reports.push(FileReport::about(
                root,
                whole_file(FlawKind::UnknownFile, detail),
            ));
        }
    }
    reports
}

/// Goes through the directories that the layout enters. Links are not followed: what they lead to
/// belongs to somebody else.
fn collect(root: &Root, top: &Path, found: &mut BTreeSet<PathBuf>) {
    let mut dirs = vec![top.to_owned()];
    while let Some(dir) = dirs.pop() {
        // What cannot be read was reported when the root was walked.
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let (Ok(relative), Ok(kind)) = (path.strip_prefix(top), entry.file_type()) else {
                continue;
            };
            if kind.is_dir() {
                if root.layout.enters(relative) {
                    dirs.push(path);
                }
            } else if dir != top && kind.is_file() && is_unknown(root, relative) {
                found.insert(path);
            }
        }
    }
}

fn is_unknown(root: &Root, relative: &Path) -> bool {
    let name = relative.file_name().and_then(|name| name.to_str());
    // Unfinished files of our own, locks, and what file managers leave behind.
    let is_noise = name.is_some_and(|name| {
        name.starts_with(".annals-") || name.ends_with(".lock") || name == ".DS_Store"
    });
    let is_known = LAYOUTS.iter().any(|one| one.classify(relative).is_some());
    !is_noise && !is_known && !root.layout.expects(relative)
}
