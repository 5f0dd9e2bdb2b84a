//! Locates single records of a session: in the main agent's log, in sub-agent logs and in notes.

use std::path::Path;

use crate::error::{Error, Result};
use annals_jsonl::FileId;
use annals_layouts::Subject;
use annals_layouts::model::{Entry, EntryKey, Outline};

use super::inventory::{Inventory, RootFile, SessionFiles};
use super::log_reader::{self, LogScan};
use super::{Session, Store, Target, resolve};

/// A record of a session that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef {
    /// Its log, as an index into the session's logs followed by its note logs.
    pub log: usize,
    /// Its outline's index in that log.
    pub entry: usize,
}

impl Session {
    /// Returns the records that a text after `@` names: an id, a unique prefix of one, or `:LINE`
    /// for a line of the main agent's log.
    ///
    /// Several records may have one id. The preferred one comes first: the main agent's before
    /// those of sub-agents, later before earlier.
    pub fn find_records(&self, wanted: &str) -> Result<Vec<RecordRef>> {
        let missing = || Error::NotFound {
            what: Subject::Message,
            id: wanted.to_owned(),
        };
        let line = wanted.strip_prefix(':');
        // A record whose id has this form can be found by its line.
        if let Some(Ok(line)) = line.map(str::parse) {
            let file = self.files.log.as_ref().ok_or_else(missing)?;
            return self.records_at_line(&file.path, line);
        }
        let key = self.resolve_id_prefix(wanted)?;
        let mut spots: Vec<RecordRef> = Vec::new();
        for (log, (_, scan)) in self.all_logs().enumerate() {
            let same = scan.outlines.iter().enumerate().rev();
            let same = same.filter(|(_, outline)| outline.key == Some(key));
            spots.extend(same.map(|(entry, _)| RecordRef { log, entry }));
        }
        match spots.is_empty() {
            true => Err(missing()),
            false => Ok(spots),
        }
    }

    /// Returns the records in one line of one of its files.
    pub fn records_at_line(&self, path: &Path, line: u64) -> Result<Vec<RecordRef>> {
        let mut spots = Vec::new();
        for (log, (file, scan)) in self.all_logs().enumerate() {
            let here = |outline: &Outline| {
                outline.span.line == line && file.volume(outline.volume).path == path
            };
            let entries = scan.indexes(here).into_iter();
            spots.extend(entries.map(|entry| RecordRef { log, entry }));
        }
        if !spots.is_empty() {
            return Ok(spots);
        }
        let last = self.last_line(path);
        Err(match line > last && last > 0 {
            true => Error::refused(format!(
                "the log ends at line {last}; there is no line {line}"
            )),
            false => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                Error::NotFound {
                    what: Subject::Record,
                    id: format!("{}:{line}", name.to_string_lossy()),
                }
            }
        })
    }

    /// Returns the number of the last line with a record in one of its files; 0 if there is none.
    fn last_line(&self, path: &Path) -> u64 {
        let logs = self.all_logs().map(|(file, scan)| {
            let outlines = scan.outlines.iter();
            let here = outlines.filter(|outline| file.volume(outline.volume).path == path);
            here.map(|outline| outline.span.line).max().unwrap_or(0)
        });
        logs.max().unwrap_or(0)
    }

    /// Reads a record again: its bytes without the line ending, and its entry.
    pub fn read_record(&self, spot: RecordRef) -> Result<(Vec<u8>, Option<Entry>)> {
        let Some((file, scan)) = self.all_logs().nth(spot.log) else {
            return Ok((Vec::new(), None));
        };
        log_reader::RecordReader::new(&self.files.root, file, &scan.outlines).record(spot.entry)
    }

    /// Returns its logs, followed by its note logs.
    fn all_logs(&self) -> impl Iterator<Item = (&RootFile, &LogScan)> {
        let logs = self.files.logs().zip(&self.logs);
        logs.chain(self.files.notes().zip(&self.note_logs))
    }

    /// Resolves an id prefix to the key of an entry.
    fn resolve_id_prefix(&self, wanted: &str) -> Result<EntryKey> {
        let outlines = |log: usize| {
            let scan = self.all_logs().nth(log).map(|(_, scan)| scan);
            scan.into_iter().flat_map(|scan| &scan.outlines)
        };
        let exact = EntryKey::from_text(wanted);
        let count = self.all_logs().count();
        if (0..count).any(|log| outlines(log).any(|outline| outline.key == Some(exact))) {
            return Ok(exact);
        }
        let begins = |outline: &&Outline| {
            let id = outline.id();
            !wanted.is_empty() && id.is_some_and(|id| id.as_str().starts_with(wanted))
        };
        let mut fitting: Vec<&Outline> = Vec::new();
        for log in 0..count {
            fitting.extend(outlines(log).filter(begins));
            // Most prefixes refer to the main agent's log.
            if log == 0 && !fitting.is_empty() {
                break;
            }
        }
        crate::sort::by_key(&mut fitting, |outline| outline.key);
        fitting.dedup_by_key(|outline| outline.key);
        let nameless = || Error::refused("the record has no id");
        if let [only] = fitting.as_slice() {
            return only.key.ok_or_else(nameless);
        }
        // `find_entry` prefers leaves, and reports missing and ambiguous ids.
        match self.find_entry(wanted) {
            Ok(entry) => {
                let outline = self
                    .main_log()
                    .and_then(|(_, scan, _)| scan.outlines.get(entry));
                let key = outline.and_then(|outline| outline.key);
                key.ok_or_else(nameless)
            }
            Err(Error::NotFound { .. }) if !fitting.is_empty() => Err(Error::Ambiguous {
                what: Subject::Message,
                id: wanted.to_owned(),
                candidates: fitting
                    .iter()
                    .filter_map(|outline| Some(outline.id()?.to_string()))
                    .collect(),
            }),
            Err(error) => Err(error),
        }
    }
}

impl Target {
    /// Finds the session that a line of a file belongs to (`FILE:LINE`).
    pub fn find_line(
        store: &Store,
        inventory: &Inventory,
        path: &Path,
        line: u64,
    ) -> Result<(SessionFiles, std::path::PathBuf)> {
        let failed = |error| Error::io("read", path, error);
        let absolute = std::path::absolute(path).map_err(failed)?;
        if let Some((files, file)) = resolve::session_in_database(inventory, &absolute)? {
            return Ok((files, file.path));
        }
        let id = FileId::from(&std::fs::metadata(path).map_err(failed)?);
        let mut best: Option<(u64, &SessionFiles, &RootFile)> = None;
        for files in &inventory.sessions {
            let scrolls = files.logs().flat_map(RootFile::volumes);
            for file in scrolls.chain(files.notes()) {
                if !file.id.same_file(&id) {
                    continue;
                }
                // In a shared file, the range that begins last before the line contains it.
                let begins = match &file.slice {
                    None => Some(1),
                    Some(share) => {
                        let lines = share.ranges.iter().map(|stretch| stretch.line);
                        lines.filter(|first| *first <= line).max()
                    }
                };
                let better = |begins: u64| best.is_none_or(|(known, _, _)| begins > known);
                if let Some(begins) = begins.filter(|begins| better(*begins)) {
                    best = Some((begins, files, file));
                }
            }
        }
        if let Some((_, files, file)) = best {
            return Ok((files.clone(), file.path.clone()));
        }
        let target = store.find(inventory, &path.to_string_lossy())?;
        let log = target.log.map(|log| log.path);
        Ok((target.files, log.unwrap_or_else(|| path.to_owned())))
    }
}
