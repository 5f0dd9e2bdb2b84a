//! Sessions of hits, and names of hits that `show` accepts.

use std::collections::{BTreeSet, HashMap};

use annals_layouts::model::EntryKey;

use super::ShortIds;
use crate::search::Hit;
use crate::store::{Inventory, RootFile, SessionFiles};

/// Sessions and names of hits.
#[derive(Debug)]
pub struct HitNames<'a> {
    inventory: &'a Inventory,
    /// Sessions by the id of a hit, as indexes into the inventory.
    sessions: HashMap<&'a str, Vec<usize>>,
    /// Short entry ids of each session's hits.
    short_entry_ids: HashMap<&'a str, ShortIds>,
}

/// Maximum length of an entry id in a name; nobody types a longer one.
const MAX_ID_LEN: usize = 64;

impl<'a> HitNames<'a> {
    /// Finds the sessions of hits. `inventory` has all sessions, also those without hits.
    pub fn new(inventory: &'a Inventory, hits: &'a [Hit]) -> Self {
        let mut sessions: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut entries: HashMap<&str, Vec<&str>> = HashMap::new();
        for hit in hits {
            let session = hit.session.as_str();
            sessions.entry(session).or_default();
            let id = hit.entry.as_ref().map(|id| id.as_str());
            let ids = entries.entry(session).or_default();
            ids.extend(id.filter(|id| is_random(id)));
        }
        let all = inventory.sessions.iter().enumerate();
        for (at, files) in all.take_while(|_| !hits.is_empty()) {
            if let Some(known) = sessions.get_mut(files.id.as_str()) {
                known.push(at);
            }
        }
        let entries = entries.into_iter();
        let entries = entries.map(|(session, ids)| (session, ShortIds::new(ids.into_iter())));
        HitNames {
            inventory,
            sessions,
            short_entry_ids: entries.collect(),
        }
    }

    /// Returns the indexes of the sessions with hits, in ascending order.
    pub fn session_indexes(&self, hits: &[Hit]) -> Vec<usize> {
        let found: BTreeSet<usize> = hits
            .iter()
            .filter_map(|hit| self.session_index(hit))
            .collect();
        found.into_iter().collect()
    }

    /// Returns short ids that are unique among all sessions.
    pub fn short_session_ids(&self) -> ShortIds {
        ShortIds::new(
            self.inventory
                .sessions
                .iter()
                .map(|files| files.id.as_str()),
        )
    }

    /// Returns true if the file of a hit is only in the archive.
    pub fn is_archived(&self, hit: &Hit) -> bool {
        let files = self.session_index(hit);
        let files = files.and_then(|at| self.inventory.sessions.get(at));
        let volumes = files.into_iter().flat_map(SessionFiles::files);
        let mut volumes = volumes.flat_map(RootFile::volumes);
        volumes.any(|file| file.path == hit.file && file.is_archived())
    }

    /// Returns the index of the session of a hit.
    pub fn session_index(&self, hit: &Hit) -> Option<usize> {
        let known = self.sessions.get(hit.session.as_str())?;
        let holds = |at: &&usize| {
            let files = self.inventory.sessions.get(**at);
            files.is_some_and(|files| contains_hit(files, hit))
        };
        known.iter().find(holds).copied()
    }

    /// Returns the full name of a hit, for scripts.
    pub fn full_name(&self, hit: &Hit) -> String {
        self.name(hit, hit.session.as_str(), false)
    }

    /// Returns the short name of a hit, given the short id of its session.
    pub fn short_name(&self, hit: &Hit, session: &str) -> String {
        self.name(hit, session, true)
    }

    /// Returns `SESSION@ENTRY`. Without a usable entry id, returns `SESSION@:LINE` in the main log,
    /// else `FILE:LINE`; also `FILE:LINE` if two sessions have the same id.
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
            let files = self.inventory.sessions.get(*only);
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

/// Returns true if an id can be typed without quoting.
fn is_typable(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.len() <= MAX_ID_LEN && id.chars().all(plain)
}

/// Returns true for a random UUID, which a few characters identify; other ids may share a prefix.
fn is_random(id: &str) -> bool {
    EntryKey::is_canonical_uuid(id) && id.as_bytes().get(14) == Some(&b'4')
}
