//! Files in the directories of a root that no layout of that root knows.
//!
//! Nobody reads them, so a log under an unexpected name would go unnoticed. Only directories that a
//! layout enters are looked into; what a program keeps elsewhere in its root is not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::layout::{LAYOUTS, Layout};
use crate::model::FlawKind;
use crate::store::Inventory;

use super::{FileReport, count, whole_file};

/// How many files of a root are named; of the others only their number is reported.
const NAMED: usize = 100;

/// Reports the files of all roots that no layout of their root knows.
pub(super) fn check(inventory: &Inventory) -> Vec<FileReport> {
    // One directory may be a root of several layouts.
    let mut roots: BTreeMap<&Path, Vec<&'static dyn Layout>> = BTreeMap::new();
    for root in &inventory.roots {
        roots.entry(&root.path).or_default().push(root.layout);
    }
    let mut reports = Vec::new();
    for (root, layouts) in roots {
        let files = unknown_files(root, &layouts);
        for path in files.iter().take(NAMED) {
            let flaw = whole_file(FlawKind::UnknownFile, detail(root, path));
            reports.push(FileReport::about(path, flaw));
        }
        if let Some(more @ 1..) = files.len().checked_sub(NAMED) {
            let detail = format!(
                "{} that no layout of this root knows",
                count(more, "more file")
            );
            reports.push(FileReport::about(
                root,
                whole_file(FlawKind::UnknownFile, detail),
            ));
        }
    }
    reports
}

/// Goes through the directories that the layouts of a root enter. Links are not followed: what they
/// lead to belongs to somebody else.
fn unknown_files(top: &Path, layouts: &[&'static dyn Layout]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
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
                if layouts.iter().any(|layout| layout.enters(relative)) {
                    dirs.push(path);
                }
            } else if dir != top && kind.is_file() && is_unknown(layouts, relative) {
                found.insert(path);
            }
        }
    }
    found
}

fn is_unknown(layouts: &[&'static dyn Layout], relative: &Path) -> bool {
    let name = relative.file_name().and_then(|name| name.to_str());
    // Unfinished files of our own, locks, and what file managers leave behind.
    let is_noise = name.is_some_and(|name| {
        name.starts_with(".annals-") || name.ends_with(".lock") || name == ".DS_Store"
    });
    let is_known =
        |layout: &&dyn Layout| layout.classify(relative).is_some() || layout.expects(relative);
    !is_noise && !layouts.iter().any(is_known)
}

/// Says why annals does not read a file, and names the layout that would.
fn detail(root: &Path, path: &Path) -> String {
    let other = path.strip_prefix(root).ok().and_then(|relative| {
        let mut layouts = LAYOUTS.iter();
        layouts.find(|layout| layout.classify(relative).is_some())
    });
    match other {
        Some(layout) => format!(
            "a file of the layout {name}, which is not read here; `--root {name}:PATH` reads it",
            name = layout.name(),
        ),
        None => "no layout knows such a file: annals neither lists nor archives it".to_owned(),
    }
}
