//! Compares what an interrupted import wrote of a session with the whole session.
//!
//! The whole session is written again to a scratch directory. If the existing part is a prefix of it,
//! the part belongs to the import. In a log shared with other sessions, it cannot be moved to the trash
//! alone, so the rest is appended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::store::{Root, RootFile, SessionFiles, WriteOptions, append_if_unchanged};
use annals_jsonl::{self as jsonl, FileId};
use annals_layouts::layout::Record;
use annals_layouts::model::{ArtifactKind, Span};

/// The records of a session in one file.
struct Part {
    /// Identity of the file when it was read.
    id: FileId,
    /// The file is replaced as a whole.
    document: bool,
    /// Lines with their byte offsets.
    lines: Vec<(u64, Vec<u8>)>,
}

/// The missing records of a session, by file path in the root.
pub(super) struct RemainingLines(Vec<(PathBuf, Missing)>);

enum Missing {
    Document(Vec<u8>),
    /// Lines to append to an existing file or to write to a new one.
    Lines(Option<FileId>, Vec<Vec<u8>>),
}

impl RemainingLines {
    /// Returns the records of `whole` that `there` lacks; `None` if `there` is not a prefix of
    /// `whole`. Without `documents`, only logs are compared.
    pub(super) fn new(
        whole: &SessionFiles,
        there: &SessionFiles,
        documents: bool,
    ) -> Result<Option<Self>> {
        let whole = parts(whole, documents)?;
        let there = parts(there, documents)?;
        for (path, there) in &there {
            let begins = |whole: &Part| match there.document {
                true => there.lines == whole.lines,
                false => {
                    let mut pairs = there.lines.iter().zip(&whole.lines);
                    there.lines.len() <= whole.lines.len()
                        && pairs.all(|((_, there), (_, whole))| there == whole)
                }
            };
            if !whole.get(path).is_some_and(begins) {
                return Ok(None);
            }
        }
        let mut rest = Vec::new();
        for (path, whole) in whole {
            let there = there.get(&path);
            let known = there.map_or(0, |there| there.lines.len());
            let lines = whole.lines.into_iter().skip(known);
            let lines: Vec<Vec<u8>> = lines.map(|(_, line)| line).collect();
            if lines.is_empty() {
                continue;
            }
            let missing = match whole.document {
                true => Missing::Document(lines.concat()),
                false => Missing::Lines(there.map(|there| there.id), lines),
            };
            rest.push((path, missing));
        }
        Ok(Some(RemainingLines(rest)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the records, if the logs have not changed since they were read.
    pub(super) fn write(self, root: &Root, options: WriteOptions) -> Result<()> {
        for (path, missing) in self.0 {
            match missing {
                Missing::Lines(seen, lines) => {
                    append_if_unchanged(root, &path, seen, lines, options)?
                }
                Missing::Document(bytes) => {
                    let path = root.path.join(path);
                    root.ensure_inside(&path)?;
                    jsonl::replace(&path, &bytes, None)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the records of a session by file path in the root. A torn line is ignored.
fn parts(files: &SessionFiles, documents: bool) -> Result<BTreeMap<PathBuf, Part>> {
    let mut parts: BTreeMap<PathBuf, Part> = BTreeMap::new();
    let files_of_it = files.files().flat_map(RootFile::volumes);
    // The content of a companion file is part of the log's records.
    let says = |file: &&RootFile| match documents {
        true => file.artifact.kind != ArtifactKind::Companion,
        false => file.artifact.kind.is_log(),
    };
    for file in files_of_it.filter(says) {
        let path = file.path.strip_prefix(&files.root.path);
        let path = path.unwrap_or(&file.path).to_owned();
        let document = file.artifact.kind == ArtifactKind::Todos;
        let part = parts.entry(path).or_insert_with(|| Part {
            id: file.id,
            document,
            lines: Vec::new(),
        });
        part.lines.extend(lines(&files.root, file, document)?);
    }
    for part in parts.values_mut() {
        part.lines.sort_unstable_by_key(|(at, _)| *at);
    }
    Ok(parts)
}

fn lines(root: &Root, file: &RootFile, document: bool) -> Result<Vec<(u64, Vec<u8>)>> {
    let bytes = file.read()?;
    if document {
        return Ok(vec![(0, bytes)]);
    }
    let mut at = 0;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let begins = at;
        at += line.len() as u64;
        (begins, line)
    });
    let own = |at: u64| {
        file.slice.as_ref().is_none_or(|share| {
            let next = share.ranges.partition_point(|it| it.bytes.end <= at);
            let next = share.ranges.get(next);
            next.is_some_and(|it| it.bytes.contains(&at))
        })
    };
    let mut decoder = root.decoder(file);
    let mut found = Vec::new();
    for (at, line) in lines.filter(|(at, line)| own(*at) && line.ends_with(b"\n")) {
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        let record = Record {
            span: Span {
                offset: at,
                len: line.len() as u64,
                line: 0,
            },
            bytes,
            terminated: true,
            oversize: false,
        };
        let mut whole = decoder
            .full_record(&record)
            .unwrap_or_else(|| bytes.to_vec());
        whole.push(b'\n');
        if serde_json::from_slice::<Value>(&whole).is_ok() {
            found.push((at, whole));
        }
    }
    Ok(found)
}

/// Returns the error for an existing part that is not a prefix of the import.
pub(super) fn refused_error(files: &SessionFiles, path: &Path) -> Error {
    Error::refused(format!(
        "session {} in {} differs from the import; left unchanged",
        files.id,
        path.display()
    ))
}
