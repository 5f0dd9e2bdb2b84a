//! What people typed: the list that some agent programs keep beside all sessions.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::model::Draft;

use super::writer::{create_parent_dirs, layout_writer, open_or_create, with_plan_context};
use super::{Root, Store, WriteOptions};

impl Store {
    /// Adds to the list of what people typed ([`Body::TypedPrompt`]), and returns the list's path. Refused
    /// where the layout keeps none.
    ///
    /// [`Body::TypedPrompt`]: crate::model::Body::TypedPrompt
    pub fn record_history(
        &self,
        root: &Root,
        typed: &Draft,
        options: WriteOptions,
    ) -> Result<PathBuf> {
        let writer = layout_writer(root)?;
        let line = with_plan_context(options.now, &self.zone(), |stamp| {
            writer.prompt_history_line(typed, stamp)
        })?;
        let Some((artifact, line)) = line else {
            return Err(Error::refused(format!(
                "the layout {} keeps no list of what people typed",
                root.layout.name()
            )));
        };
        let path = root.locate(&artifact)?;
        create_parent_dirs(root, &path)?;
        open_or_create(root, &path, options)?.append(&line)?;
        Ok(path)
    }
}
