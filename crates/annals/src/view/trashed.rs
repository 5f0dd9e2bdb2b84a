//! Deleted sessions as JSON.

use serde::Serialize;

use crate::store::TrashItem;

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
