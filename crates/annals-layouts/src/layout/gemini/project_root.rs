//! The file `.project_root`, which names the directory of a folder.

use crate::error::Result;
use crate::layout::{ListUpdate, RowUpdate, SessionListWriter};
use crate::model::{Artifact, ArtifactKind, ListRow, ListSubject};

use super::Gemini;

impl SessionListWriter for Gemini {
    fn session_list(&self, log: &Artifact) -> Option<Artifact> {
        let is_main = log.kind == ArtifactKind::SharedLog && log.folder.is_some();
        is_main.then(|| Artifact {
            folder: log.folder.clone(),
            ..Artifact::new(ArtifactKind::SessionList)
        })
    }

    fn default_folder(&self, rows: &[ListRow], directory: &str) -> Option<String> {
        let mut rows = rows
            .iter()
            .filter(|row| row.cwd.as_deref() == Some(directory));
        rows.find_map(|row| match &row.subject {
            ListSubject::Folder(folder) => Some(folder.clone()),
            ListSubject::Session(_) => None,
        })
    }

    fn config_fault(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn register_folders(&self, _: Option<&[u8]>, _: &[RowUpdate]) -> Option<Vec<u8>> {
        None
    }

    fn update_session_list(
        &self,
        _: &Artifact,
        old: Option<&[u8]>,
        rows: &[RowUpdate],
        _: bool,
    ) -> Result<ListUpdate> {
        let mut rows = rows.iter().filter(|row| !row.removed);
        let directory = rows.find_map(|row| row.cwd.as_deref());
        Ok(match directory.filter(|_| old.is_none()) {
            None => ListUpdate::Unchanged,
            Some(directory) => ListUpdate::Changed {
                bytes: directory.as_bytes().to_vec(),
                damaged: false,
                removed: Vec::new(),
            },
        })
    }

    fn check_session_member(&self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn is_session_list_empty(&self, _: &Artifact, _: &[u8]) -> bool {
        false
    }
}
