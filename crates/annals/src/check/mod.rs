//! Checks: what is wrong with which file.
//!
//! Looks at single files: lines that cannot be read, links that lead nowhere, documents that are
//! not what they should be. Reports; changes nothing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::error::Result;
use crate::model::{ArtifactKind, Flaw};
use crate::store::{FoundFile, Inventory, LogScan, Root};
use crate::tree::{Scope, Tree};

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

/// Checks one file.
pub fn file(root: &Root, file: &FoundFile) -> Result<FileReport> {
    let scan = if file.artifact.kind.is_log() {
        LogScan::read(root, file)?
    } else {
        LogScan::read_document(root, file)?
    };
    let mut flaws = scan.flaws;
    if file.artifact.kind.is_conversation() {
        let scope = match file.artifact.kind {
            ArtifactKind::SessionLog => Scope::Main,
            _ => Scope::Agent,
        };
        flaws.extend(Tree::build(&scan.outlines, scope).flaws);
    }
    flaws.sort_by_key(|flaw| flaw.span.offset);
    Ok(FileReport {
        path: file.path.clone(),
        lines: scan.lines,
        valid: scan.valid,
        bytes: scan.bytes,
        flaws,
    })
}

/// Checks every file that has a schema; `progress` hears of bytes done and bytes in all.
pub fn all(inventory: &Inventory, progress: &(dyn Fn(u64, u64) + Sync)) -> Vec<Result<FileReport>> {
    let of_sessions = inventory
        .sessions
        .iter()
        .flat_map(|files| files.files().map(move |file| (&files.root, file)));
    let others = inventory.others.iter().map(|(root, file)| (root, file));
    let mut files: Vec<(&Root, &FoundFile)> = of_sessions
        .chain(others)
        .filter(|(_, file)| has_schema(file.artifact.kind))
        .collect();
    let total = files.iter().map(|(_, file)| file.id.len).sum();
    let done = AtomicU64::new(0);
    files.sort_by_key(|(_, file)| std::cmp::Reverse(file.id.len));
    let mut reports: Vec<(PathBuf, Result<FileReport>)> = files
        .into_par_iter()
        .with_max_len(1)
        .map(|(root, found)| {
            let report = file(root, found);
            let so_far = done.fetch_add(found.id.len, Ordering::Relaxed) + found.id.len;
            progress(so_far, total);
            (found.path.clone(), report)
        })
        .collect();
    reports.sort_by(|(a, _), (b, _)| a.cmp(b));
    reports.into_iter().map(|(_, report)| report).collect()
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
        )
}
