//! Session ids in the target of a conversion.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::store::SessionFiles;
use annals_layouts::model::{EntryKey, SessionId};

/// Session ids in the target. Two sessions with the same id, in different folders of the source,
/// may get the same folder there.
pub(super) struct TargetIds {
    /// Number of each session that repeats an id (2, 3 and so on), by the path of its log.
    duplicates: HashMap<PathBuf, usize>,
    /// Other ids for sessions.
    pub(super) new_ids: HashMap<SessionId, String>,
    /// Whether the target may have other sessions, such as one with the same id.
    is_addition: bool,
}

impl TargetIds {
    pub(super) fn new(sessions: &[SessionFiles]) -> Self {
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        let mut twins = HashMap::new();
        for files in sessions {
            let count = counts.entry(&files.id).or_default();
            *count += 1;
            if *count > 1 {
                twins.insert(files.main_path().to_owned(), *count);
            }
        }
        TargetIds {
            duplicates: twins,
            new_ids: HashMap::new(),
            is_addition: false,
        }
    }

    /// Gives sessions other ids than in the source, so that each id names one session.
    pub(super) fn in_addition(self, is_addition: bool) -> Self {
        TargetIds {
            is_addition,
            ..self
        }
    }

    pub(super) fn target_id(&self, files: &SessionFiles) -> String {
        if let Some(id) = self.new_ids.get(&files.id) {
            return id.clone();
        }
        if self.is_addition {
            let layout = files.root.layout.name();
            return EntryKey::from_pair(layout, files.id.as_str()).derived_uuid();
        }
        match self.duplicates.get(files.main_path()) {
            Some(number) => format!("{}-{number}", files.id),
            None => files.id.to_string(),
        }
    }
}
