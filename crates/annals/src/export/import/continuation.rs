//! The rest of a session behind what an import that was cut off wrote of it.
//!
//! In a log that it shares with others, what was begun of a session cannot go to the trash alone. So it is
//! written once more, whole, to a place of its own. If what stands there is the beginning of that, the rest
//! is added.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::jsonl::{self, FileId};
use crate::layout::Record;
use crate::model::{ArtifactKind, Body, Span};
use crate::store::{Root, RootFile, SessionFiles, WriteOptions, append_if_unchanged};

use super::ExportedSession;

/// Members that may hold an id which the writer made up, in a record or its member `annals`.
const LINKS: [&str; 4] = ["id", "parent", "response", "leaf"];

/// Ids that an export gives: what is written has the same.
pub(super) fn exported_ids(kept: &ExportedSession) -> HashSet<String> {
    let entries = kept.logs.iter().flat_map(|log| &log.entries);
    let responses = entries.clone().filter_map(|entry| match &entry.body {
        Body::Message(message) => message.response.clone(),
        _ => None,
    });
    let ids = entries.filter_map(|entry| Some(entry.id.as_ref()?.to_string()));
    ids.chain(responses).collect()
}

/// What a session has in one file.
struct Part {
    /// The file as it was when it was looked at.
    id: FileId,
    /// It is replaced as a whole.
    document: bool,
    /// Its lines, each with its place.
    lines: Vec<(u64, Vec<u8>)>,
}

/// What a session is still to get, by the paths of files in its root.
pub(super) struct RemainingLines(Vec<(PathBuf, Missing)>);

enum Missing {
    Document(Vec<u8>),
    /// Lines, to go behind a file that is there or into one that is not.
    Lines(Option<FileId>, Vec<Vec<u8>>),
}

impl RemainingLines {
    /// What there is of `whole` that there is not of `there`; `None` if that is no beginning of it.
    pub(super) fn new(
        whole: &SessionFiles,
        there: &SessionFiles,
        given: &HashSet<String>,
    ) -> Result<Option<Self>> {
        let whole = parts(whole)?;
        let there = parts(there)?;
        let mut ids = Ids::new(given);
        for (path, there) in &there {
            let begins = |whole: &Part| match there.document {
                true => there.lines == whole.lines,
                false => ids.begins(&there.lines, &whole.lines),
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
            let lines: Vec<Vec<u8>> = lines.map(|(_, line)| ids.translate(line)).collect();
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

    /// Writes it, if the files are still what was looked at.
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

/// What a session has in its files, by their paths in its root. A line that was cut off counts for nothing.
fn parts(files: &SessionFiles) -> Result<BTreeMap<PathBuf, Part>> {
    let mut parts: BTreeMap<PathBuf, Part> = BTreeMap::new();
    let files_of_it = files.files().flat_map(RootFile::volumes);
    // What a companion says is part of the log's records.
    let says = |file: &&RootFile| file.artifact.kind != ArtifactKind::Companion;
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

/// Which of the ids that were made up stand for which.
struct Ids<'a> {
    given: &'a HashSet<String>,
    /// Those that stand there, by those of what was written once more.
    there: HashMap<String, String>,
    /// Those that were found to stand there.
    taken: HashSet<String>,
}

impl<'a> Ids<'a> {
    fn new(given: &'a HashSet<String>) -> Self {
        Ids {
            given,
            there: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// Whether the lines that stand there are the first ones of the whole.
    fn begins(&mut self, there: &[(u64, Vec<u8>)], whole: &[(u64, Vec<u8>)]) -> bool {
        let mut pairs = there.iter().zip(whole);
        there.len() <= whole.len()
            && pairs.all(|((_, there), (_, whole))| {
                let there = serde_json::from_slice(there);
                let whole = serde_json::from_slice(whole);
                there.is_ok_and(|there| whole.is_ok_and(|whole| self.same(&there, &whole, true)))
            })
    }

    /// Whether two records are the same but for ids that were made up.
    fn same(&mut self, there: &Value, whole: &Value, record: bool) -> bool {
        let (Value::Object(there), Value::Object(whole)) = (there, whole) else {
            return there == whole;
        };
        let mut members = there.iter();
        there.len() == whole.len()
            && members.all(|(name, there)| match (there, whole.get(name)) {
                (Value::String(there), Some(Value::String(whole)))
                    if LINKS.contains(&name.as_str()) =>
                {
                    self.stands_for(there, whole)
                }
                (there, Some(whole)) if record && name == "annals" => {
                    self.same(there, whole, false)
                }
                (there, whole) => whole == Some(there),
            })
    }

    fn stands_for(&mut self, there: &str, whole: &str) -> bool {
        if there == whole {
            return true;
        }
        if let Some(known) = self.there.get(whole) {
            return known == there;
        }
        let made_up = |id: &str| !self.given.contains(id) && is_made_up(id);
        if !made_up(there) || !made_up(whole) || !self.taken.insert(there.to_owned()) {
            return false;
        }
        self.there.insert(whole.to_owned(), there.to_owned());
        true
    }

    /// A line of the whole with the ids that stand there.
    fn translate(&self, line: Vec<u8>) -> Vec<u8> {
        let Ok(mut text) = String::from_utf8(line.clone()) else {
            return line;
        };
        // They were made up a moment ago: nothing else that is said can hold one.
        for (whole, there) in &self.there {
            if text.contains(whole.as_str()) {
                text = text.replace(whole.as_str(), there);
            }
        }
        text.into_bytes()
    }
}

/// Whether an id looks like those that writers make up.
fn is_made_up(id: &str) -> bool {
    let digits = id.strip_prefix("msg_").unwrap_or(id);
    uuid::Uuid::try_parse(digits).is_ok()
}

/// Tells that what stands there is something else.
pub(super) fn refused_error(files: &SessionFiles, path: &Path) -> Error {
    Error::refused(format!(
        "what stands of session {} in {} is not the beginning of what is to be imported, and other sessions share that log, so it was left as it is",
        files.id,
        path.display()
    ))
}
