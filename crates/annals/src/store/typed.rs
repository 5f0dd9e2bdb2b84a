//! What people typed: the list that some agent programs keep beside all sessions.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::model::Draft;

use super::writer::{make_parent, open_or_make, stamped, writer_of};
use super::{Root, Store, WriteOptions};

impl Store {
    /// Adds to the list of what people typed ([`Body::Typed`]), and returns the list's path. Refused
    /// where the layout keeps none.
    ///
    /// [`Body::Typed`]: crate::model::Body::Typed
    pub fn record_history(
        &self,
        root: &Root,
        typed: &Draft,
        options: WriteOptions,
    ) -> Result<PathBuf> {
        let writer = writer_of(root)?;
        let line = stamped(options.now, &self.zone(), |stamp| {
            writer.typed(typed, stamp)
        })?;
        let Some((artifact, line)) = line else {
            return Err(Error::refused(format!(
                "the layout {} keeps no list of what people typed",
                root.layout.name()
            )));
        };
        let path = root.locate(&artifact)?;
        make_parent(root, &path)?;
        open_or_make(root, &path, options)?.append(&line)?;
        Ok(path)
    }
}
