//! Checks: what is wrong with which file.
//!
//! Looks at single files: lines that cannot be read, links that lead nowhere, documents that are
//! not what they should be. Reports; changes nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::{ArtifactKind, Flaw, Span};
use crate::store::{FoundFile, Inventory, LogScan, Root, StaleRegister, scope};
use crate::tree::Tree;

/// What a check found in one file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Lines that are not blank; 1 for a document.
    pub lines: u64,
    /// Those of them that could be read.
    pub valid: u64,
    /// Its length.
    pub bytes: u64,
    /// What is wrong, in file order.
    pub flaws: Vec<Flaw>,
}

/// Checks one file, or the volumes of one log.
pub fn file(root: &Root, file: &FoundFile) -> Result<Vec<FileReport>> {
    let scan = if file.artifact.kind.is_log() {
        LogScan::read(root, file)?
    } else {
        LogScan::read_document(root, file)?
    };
    let mut flaws = scan.flaws;
    if file.artifact.kind.is_conversation() {
        flaws.extend(Tree::build(&scan.outlines, scope(&file.artifact)).flaws);
    }
    flaws.sort_by_key(|flaw| (flaw.volume, flaw.span.offset));
    let volumes = file.volumes().zip(&scan.volumes).enumerate();
    Ok(volumes
        .map(|(number, (volume, counted))| FileReport {
            path: volume.path.clone(),
            lines: counted.lines,
            valid: counted.valid,
            bytes: counted.bytes,
            flaws: flaws
                .iter()
                .filter(|flaw| usize::from(flaw.volume) == number)
                .cloned()
                .collect(),
        })
        .collect())
}

/// What a check says of an index that is behind its logs. Of what the index itself holds, only its
/// length is told.
pub fn stale(register: &StaleRegister) -> FileReport {
    let length = std::fs::metadata(&register.path).map(|metadata| metadata.len());
    FileReport {
        path: register.path.clone(),
        lines: 0,
        valid: 0,
        bytes: length.unwrap_or(0),
        flaws: vec![Flaw {
            kind: register.kind(),
            span: Span::default(),
            volume: 0,
            detail: format!("{}; `annals repair` mends it", register.detail),
        }],
    }
}

/// Checks every file that has a schema; `progress` hears of bytes done and bytes in all.
pub fn all(inventory: &Inventory, progress: &(dyn Fn(u64, u64) + Sync)) -> Vec<Result<FileReport>> {
    let of_sessions = inventory
        .sessions
        .iter()
        .flat_map(|files| files.files().map(move |file| (&*files.root, file)));
    let others = inventory.others.iter().map(|(root, file)| (root, file));
    let mut files: Vec<(&Root, &FoundFile)> = of_sessions
        .chain(others)
        .filter(|(_, file)| has_schema(file.artifact.kind))
        .collect();
    let total = files.iter().map(|(_, file)| file.bytes()).sum();
    let done = AtomicU64::new(0);
    files.sort_by_key(|(_, file)| std::cmp::Reverse(file.bytes()));
    let reports: Vec<(PathBuf, Result<Vec<FileReport>>)> = files
        .into_par_iter()
        .with_max_len(1)
        .map(|(root, found)| {
            let report = file(root, found);
            let so_far = done.fetch_add(found.bytes(), Ordering::Relaxed) + found.bytes();
            progress(so_far, total);
            (found.path.clone(), report)
        })
        .collect();
    let mut whole: BTreeMap<PathBuf, FileReport> = BTreeMap::new();
    let mut failed: Vec<(PathBuf, Error)> = Vec::new();
    for (path, result) in reports {
        match result {
            Err(error) => failed.push((path, error)),
            Ok(reports) => reports
                .into_iter()
                .for_each(|report| merge(&mut whole, report)),
        }
    }
    failed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let failed = failed.into_iter().map(|(_, error)| Err(error));
    failed.chain(whole.into_values().map(Ok)).collect()
}

/// Puts together what the sessions of one file gave.
fn merge(whole: &mut BTreeMap<PathBuf, FileReport>, report: FileReport) {
    match whole.entry(report.path.clone()) {
        Entry::Vacant(slot) => {
            slot.insert(report);
        }
        Entry::Occupied(mut slot) => {
            let sum = slot.get_mut();
            sum.lines += report.lines;
            sum.valid += report.valid;
            sum.bytes += report.bytes;
            sum.flaws.extend(report.flaws);
            sum.flaws.sort_by_key(|flaw| flaw.span.offset);
        }
    }
}

/// Files whose content we can be right or wrong about.
pub fn has_schema(kind: ArtifactKind) -> bool {
    kind.is_log()
        || matches!(
            kind,
            ArtifactKind::Todos
                | ArtifactKind::Task
                | ArtifactKind::AgentMeta
                | ArtifactKind::Settings
                | ArtifactKind::TitleFile
                | ArtifactKind::Register
        )
}
