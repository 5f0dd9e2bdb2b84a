//! Deleted sessions as JSON.

use serde::Serialize;

use crate::error::Result;
use crate::store::{SessionInfo, Store, TrashItem};

/// A session in the trash, in short, as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrashedJson<'a> {
    id: &'a str,
    session: &'a str,
    files: usize,
    bytes: u64,
}

impl<'a> TrashedJson<'a> {
    /// Converts what was moved to the trash, or would be.
    pub fn new(item: &'a TrashItem) -> Self {
        TrashedJson {
            id: &item.id,
            session: &item.session,
            files: item.files.len(),
            bytes: item.files.iter().map(|file| file.bytes).sum(),
        }
    }
}

/// A session in the trash, as `annals delete --list --json` prints it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TrashRow {
    /// What was moved.
    #[serde(flatten)]
    pub item: TrashItem,
    /// Length of its files.
    pub bytes: u64,
    /// Title of the session, in the list of the trash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl TrashRow {
    /// Creates the row of what was moved to the trash, or would be.
    pub fn new(item: TrashItem) -> Self {
        TrashRow {
            bytes: item.files.iter().map(|file| file.bytes).sum(),
            item,
            title: None,
        }
    }

    /// Lists the trash, with titles.
    pub fn list(store: &Store) -> Result<Vec<Self>> {
        let trash = store.trash();
        let sessions = trash.sessions()?;
        let row = |item: TrashItem| {
            let is_its =
                |info: &&SessionInfo| info.root == item.root && info.id.as_str() == item.session;
            let info = sessions.iter().rev().find(is_its);
            let title = info.and_then(|info| info.title.as_ref());
            let title = title.map(|title| title.text.clone());
            TrashRow {
                title,
                ..TrashRow::new(item)
            }
        };
        Ok(trash.items()?.into_iter().map(row).collect())
    }
}
