//! What hits are called, so that `show` opens them.

use std::collections::HashMap;

use annals::index::StoreSearch;
use annals::model::EntryKey;
use annals::search::Hit;
use annals::store::{RootFile, SessionFiles};

use crate::commands::session_json::ShortIds;

/// The sessions that hits are of, and what they are called.
pub(super) struct HitNames<'a> {
    searched: &'a StoreSearch,
    /// The sessions with the id of some hit, as indexes into the inventory.
    sessions: HashMap<&'a str, Vec<usize>>,
    /// What is short of the ids of each session's hits.
    short_entry_ids: HashMap<&'a str, ShortIds>,
}

/// An id that is longer names nothing that anyone would type.
const MAX_ID_LEN: usize = 64;

impl<'a> HitNames<'a> {
    pub(super) fn new(searched: &'a StoreSearch) -> Self {
        let hits = &searched.found.hits;
        let mut sessions: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut entries: HashMap<&str, Vec<&str>> = HashMap::new();
        for hit in hits {
            let session = hit.session.as_str();
            sessions.entry(session).or_default();
            let id = hit.entry.as_ref().map(|id| id.as_str());
            let ids = entries.entry(session).or_default();
            ids.extend(id.filter(|id| is_random(id)));
        }
        let all = searched.inventory.sessions.iter().enumerate();
        for (at, files) in all.take_while(|_| !hits.is_empty()) {
            if let Some(known) = sessions.get_mut(files.id.as_str()) {
                known.push(at);
            }
        }
        let entries = entries.into_iter();
        let entries = entries.map(|(session, ids)| (session, ShortIds::new(ids.into_iter())));
        HitNames {
            searched,
            sessions,
            short_entry_ids: entries.collect(),
        }
    }

    /// Ids that are short and still tell each session from all others.
    pub(super) fn short_session_ids(&self) -> ShortIds {
        ShortIds::new(self.searched.ids())
    }

    /// What a hit is in is only in the archive.
    pub(super) fn is_archived(&self, hit: &Hit) -> bool {
        let files = self.session_index(hit);
        let files = files.and_then(|at| self.searched.inventory.sessions.get(at));
        let volumes = files.into_iter().flat_map(SessionFiles::files);
        let mut volumes = volumes.flat_map(RootFile::volumes);
        volumes.any(|file| file.path == hit.file && file.is_archived())
    }

    /// The number of the session that a hit is of.
    pub(super) fn session_index(&self, hit: &Hit) -> Option<usize> {
        let known = self.sessions.get(hit.session.as_str())?;
        let holds = |at: &&usize| {
            let files = self.searched.inventory.sessions.get(**at);
            files.is_some_and(|files| contains_hit(files, hit))
        };
        known.iter().find(holds).copied()
    }

    /// What a hit is called: for scripts.
    pub(super) fn full_name(&self, hit: &Hit) -> String {
        self.name(hit, hit.session.as_str(), false)
    }

    /// What a hit is called: for people, given what its session is called.
    pub(super) fn short_name(&self, hit: &Hit, session: &str) -> String {
        self.name(hit, session, true)
    }

    /// `SESSION@ENTRY`; `SESSION@:LINE` in the main log or else `FILE:LINE`, where the record has no
    /// id or two sessions have one.
    fn name(&self, hit: &Hit, session: &str, brief: bool) -> String {
        let known = self.sessions.get(hit.session.as_str());
        if let Some([only]) = known.map(Vec::as_slice) {
            let entry = hit.entry.as_ref().map(|id| id.as_str());
            if let Some(entry) = entry.filter(|id| is_typable(id)) {
                let short = self.short_entry_ids.get(hit.session.as_str());
                let short = short.filter(|_| brief && is_random(entry));
                let entry = short.map_or(entry, |short| short.get(entry));
                return format!("{session}@{entry}");
            }
            let files = self.searched.inventory.sessions.get(*only);
            let log = files.and_then(|files| files.log.as_ref());
            if log.is_some_and(|log| log.path == hit.file) {
                return format!("{session}@:{}", hit.line);
            }
        }
        format!("{}:{}", hit.file.display(), hit.line)
    }
}

fn contains_hit(files: &SessionFiles, hit: &Hit) -> bool {
    let logs = files.logs().flat_map(RootFile::volumes);
    let mut logs = logs.chain(files.notes());
    logs.any(|file| file.path == hit.file)
}

/// Whether an id can be typed and stands for itself.
fn is_typable(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.len() <= MAX_ID_LEN && id.chars().all(plain)
}

/// A few characters of a random UUID tell it from all others of its session; ids of other kinds
/// begin alike.
fn is_random(id: &str) -> bool {
    EntryKey::is_canonical_uuid(id) && id.as_bytes().get(14) == Some(&b'4')
}
