//! Prompt history: a list of typed prompts that some agent programs keep for all sessions.

use std::path::PathBuf;

use crate::error::{Error, Result};
use annals_layouts::model::Draft;

use super::Documents;
use crate::store::writer::{create_parent_dirs, layout_writer, open_or_create, with_plan_context};
use crate::store::{Root, WriteOptions};

impl Documents<'_> {
    /// Appends a typed prompt ([`Body::TypedPrompt`]) to the prompt history, and returns the path
    /// of the history. Fails if the layout has no prompt history.
    ///
    /// [`Body::TypedPrompt`]: annals_layouts::model::Body::TypedPrompt
    pub fn append_prompt(
        &self,
        root: &Root,
        typed: &Draft,
        options: WriteOptions,
    ) -> Result<PathBuf> {
        let writer = layout_writer(root)?;
        let line = with_plan_context(options.now, &self.store.zone(), |stamp| {
            writer.prompt_history_line(typed, stamp)
        })?;
        let Some((artifact, line)) = line else {
            return Err(Error::refused(format!(
                "the layout {} has no prompt history",
                root.layout.name()
            )));
        };
        let path = root.locate(&artifact)?;
        create_parent_dirs(root, &path)?;
        open_or_create(root, &path, options)?.append(&line)?;
        Ok(path)
    }
}
