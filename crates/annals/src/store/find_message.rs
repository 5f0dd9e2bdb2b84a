//! Messages by their ids alone: which session holds one.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::jsonl::ReadAt as _;
use crate::model::{ArtifactKind, EntryId, Outline};

use super::inventory::{Inventory, RootFile, SessionFiles};
use super::{Session, Store};

/// So many candidates are named at most.
const CANDIDATES: usize = 50;

impl Store {
    /// Finds the session that holds a message, by the message's id or a unique beginning of it.
    ///
    /// Logs are searched for the longest plain part of the id, and only those that hold it are read. Of several
    /// records with one id the original counts, not its copies in forks.
    pub fn find_message(&self, inventory: &Inventory, id: &str) -> Result<(SessionFiles, EntryId)> {
        let missing = || Error::NotFound {
            what: "message",
            id: id.chars().take(200).flat_map(char::escape_debug).collect(),
        };
        if EntryId::new(id).check().is_err() {
            return Err(missing());
        }
        // A program may escape other characters in JSON.
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | ' ');
        let runs = id.split(|c| !fit(c)).max_by_key(|run| run.len());
        let finder = Finder::new(runs.unwrap_or_default());
        let sessions = inventory.sessions.par_iter();
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
        // A whole id is meant by itself, even if others begin with it.
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
    /// The record is a copy of one in another session.
    copied: bool,
}

/// The entries of a session that have the id, or begin with it if none has.
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
                // The same session may hold both.
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

/// Whether a log may hold an entry of that id. Logs that sessions share name their records after where
/// they stand, so their bytes say nothing about it.
fn may_hold(file: &RootFile, finder: &Finder<'_>) -> bool {
    file.volumes().any(|volume| {
        volume.artifact.kind == ArtifactKind::SharedLog || holds(volume, finder).unwrap_or(false)
    })
}

/// Whether a file holds some bytes. It is read in pieces that overlap, since logs may be large.
fn holds(file: &RootFile, finder: &Finder<'_>) -> Result<bool> {
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
        what: "message",
        id: id.to_owned(),
        candidates,
    }
}
