//! Finds the session of a message by the message's id alone.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use rayon::prelude::*;

use crate::error::{Error, Result};
use annals_jsonl::ReadAt as _;
use annals_layouts::Subject;
use annals_layouts::model::{ArtifactKind, EntryId, Outline};

use super::Session;
use super::inventory::{Inventory, RootFile, SessionFiles};

/// Maximum number of candidates in an error.
const CANDIDATES: usize = 50;

impl Inventory {
    /// Finds the session that contains a message, by the message's id or a unique prefix of it.
    ///
    /// Searches logs for the longest run of unescaped characters of the id, and reads only those
    /// that contain it. If several records have the id, the original wins over its copies in forks.
    pub fn find_message(&self, id: &str) -> Result<(SessionFiles, EntryId)> {
        let missing = || Error::NotFound {
            what: Subject::Message,
            id: id.chars().take(200).flat_map(char::escape_debug).collect(),
        };
        if EntryId::new(id).check().is_err() {
            return Err(missing());
        }
        // A program may escape other characters in JSON.
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | ' ');
        let runs = id.split(|c| !fit(c)).max_by_key(|run| run.len());
        let finder = Finder::new(runs.unwrap_or_default());
        let sessions = self.sessions.par_iter();
        let found = sessions.filter(|files| files.logs().any(|file| may_hold(file, &finder)));
        let found: Vec<(SessionFiles, Vec<MatchingEntry>)> = found
            .filter_map(|files| {
                let ids = files
                    .root
                    .failures
                    .ok(matching_entries(files.clone(), id))?;
                Some((files.clone(), ids))
            })
            .filter(|(_, found)| !found.is_empty())
            .collect();
        let mut all: BTreeMap<&EntryId, Vec<(&SessionFiles, bool)>> = BTreeMap::new();
        for (files, found) in &found {
            for MatchingEntry { id, copied } in found {
                all.entry(id).or_default().push((files, *copied));
            }
        }
        // A complete id matches only itself, even if it is a prefix of others.
        let exact = all.keys().find(|known| known.as_str() == id).copied();
        let (known, places) = match (exact, all.len()) {
            (_, 0) => return Err(missing()),
            (Some(exact), _) => (exact, all.remove(exact).unwrap_or_default()),
            (None, 1) => all.pop_first().ok_or_else(missing)?,
            (None, _) => {
                let ids = all.keys().take(CANDIDATES).map(ToString::to_string);
                return Err(ambiguous(id, ids.collect()));
            }
        };
        let originals: Vec<&SessionFiles> = places
            .iter()
            .filter(|(_, copied)| !copied)
            .map(|(files, _)| *files)
            .collect();
        match (originals.as_slice(), places.as_slice()) {
            ([only], _) | ([], [(only, _)]) => Ok(((*only).clone(), known.clone())),
            _ => {
                let places = places.iter().take(CANDIDATES);
                let names = places.map(|(files, _)| format!("{}@{known}", files.id));
                Err(ambiguous(id, names.collect()))
            }
        }
    }
}

struct MatchingEntry {
    id: EntryId,
    /// Whether the record is a copy of one in another session.
    copied: bool,
}

/// Returns the entries of a session whose ids start with `id`.
fn matching_entries(files: SessionFiles, id: &str) -> Result<Vec<MatchingEntry>> {
    let session = Session::read(files)?;
    let mut found: BTreeMap<EntryId, bool> = BTreeMap::new();
    for (log, (_, scan)) in session.files.logs().zip(&session.logs).enumerate() {
        let fits = |outline: &Outline| {
            let known = outline.id();
            known.is_some_and(|known| known.as_str().starts_with(id))
        };
        let entries = scan.indexes(fits);
        session.each_entry_of_log(log, &entries, |entry| {
            if let Some(id) = entry.id {
                // The same session may contain the original and a copy.
                let copied = found.entry(id).or_insert(entry.copied);
                *copied &= entry.copied;
            }
            Ok(true)
        })?;
    }
    let found = found.into_iter();
    Ok(found
        .map(|(id, copied)| MatchingEntry { id, copied })
        .collect())
}

/// Returns whether a log may contain an entry with the id. In shared logs, ids are derived from
/// offsets, so a search for their bytes finds nothing.
fn may_hold(file: &RootFile, finder: &Finder<'_>) -> bool {
    file.volumes().any(|volume| {
        volume.artifact.kind == ArtifactKind::SharedLog
            || file_contains(volume, finder).unwrap_or(false)
    })
}

/// Returns whether a file contains some bytes. Reads overlapping chunks, because logs may be large.
fn file_contains(file: &RootFile, finder: &Finder<'_>) -> Result<bool> {
    const PIECE: usize = 1 << 20;
    let failed = |error| Error::io("read", &file.path, error);
    let log = file.open()?;
    let overlap = finder.needle().len().saturating_sub(1);
    let mut piece = vec![0; PIECE + overlap];
    let mut offset = 0;
    loop {
        let read = log.fill_at(&mut piece, offset).map_err(failed)?;
        let bytes = piece.get(..read).unwrap_or_default();
        if finder.find(bytes).is_some() {
            return Ok(true);
        }
        if read < piece.len() {
            return Ok(false);
        }
        offset += PIECE as u64;
    }
}

fn ambiguous(id: &str, candidates: Vec<String>) -> Error {
    Error::Ambiguous {
        what: Subject::Message,
        id: id.to_owned(),
        candidates,
    }
}
