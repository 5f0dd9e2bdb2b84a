//! Session ids in the target of a conversion.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::store::SessionFiles;
use annals_layouts::model::SessionId;

/// Session ids in the target. Two sessions with the same id, in different folders of the source,
/// may get the same folder there.
pub(super) struct TargetIds {
    /// Number of each session that repeats an id (2, 3 and so on), by the path of its log.
    duplicates: HashMap<PathBuf, usize>,
    /// Other ids for sessions.
    pub(super) new_ids: HashMap<SessionId, String>,
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
        }
    }

    pub(super) fn target_id(&self, files: &SessionFiles) -> String {
        if let Some(id) = self.new_ids.get(&files.id) {
            return id.clone();
        }
        match self.duplicates.get(files.main_path()) {
            Some(number) => format!("{}-{number}", files.id),
            None => files.id.to_string(),
        }
    }
}
