//! Replaces documents only if no one else has changed them in the meantime.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;
use annals_layouts::layout::{Change, Edit};
use annals_layouts::model::{Artifact, Body, Framing, Todo};

use super::Root;
use super::append_point::decode_records;
use super::inventory::RootFile;
use super::writer::{SessionWriter, create_parent_dirs, layout_writer};

impl SessionWriter {
    /// Reads the agent's todos, applies `edit` and replaces the document. Retries while others
    /// change it.
    ///
    /// `edit` gets the document's path and bytes and the list decoded from them.
    pub fn edit_todos<E: From<Error>>(
        &self,
        mut edit: impl FnMut(&Path, &[u8], Vec<Todo>) -> Result<Vec<Todo>, E>,
    ) -> Result<Vec<Todo>, E> {
        let framing = self.append_point().file.artifact.framing;
        if let Framing::Rows(format) = framing {
            return self.edit_todos_in_rows(format, |path, list| edit(path, &[], list));
        }
        let writer = layout_writer(&self.root)?;
        let head = self.append_point().state.clone();
        let encoded = |list: &[Todo]| -> Result<(PathBuf, Vec<u8>)> {
            let change = Change::SetTodos(list.to_vec());
            let plan = self.plan(writer, &head, &change)?;
            match self.split(&head, plan.edits)?.1.pop() {
                Some(Edit::Replace { path, bytes }) => Ok((self.root.path.join(path), bytes)),
                _ => Err(Error::refused("this layout has no todos")),
            }
        };
        let (path, _) = encoded(&[])?;
        refuse_long_name(&path)?;
        create_parent_dirs(&self.root, &path)?;
        let artifact = path
            .strip_prefix(&self.root.path)
            .ok()
            .and_then(|path| self.root.layout.classify(path));
        let mut list = Vec::new();
        replace_if_unchanged(&path, |there| {
            let old = match there {
                Some(bytes) => Cow::Borrowed(bytes),
                None => Cow::Owned(self.archived_bytes(&path)?),
            };
            let before = artifact
                .as_ref()
                .map(|artifact| todos_in(&self.root, artifact, &old));
            list = edit(&path, &old, before.unwrap_or_default())?;
            Ok::<_, E>(encoded(&list)?.1)
        })?;
        Ok(list)
    }

    /// Reads a todo list that exists only in the archive. It is shown, so it is also what is
    /// edited.
    fn archived_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        let kept = self.archived_todos.iter().find(|file| file.path == path);
        kept.map_or(Ok(Vec::new()), RootFile::read)
    }
}

/// Refuses a document whose name is too long for file systems.
fn refuse_long_name(path: &Path) -> Result<()> {
    const MAX_NAME: usize = 255;
    let name = path.file_name().unwrap_or_default();
    match name.len() > MAX_NAME {
        false => Ok(()),
        true => Err(Error::refused(format!(
            "session id too long for todos: the file name `{}` has {} bytes (limit {MAX_NAME}); `annals fork` copies the session with a shorter id",
            name.display(),
            name.len()
        ))),
    }
}

/// Decodes the todos of a document.
fn todos_in(root: &Root, artifact: &Artifact, bytes: &[u8]) -> Vec<Todo> {
    let records = [(bytes.to_vec(), (0, bytes.len() as u64))];
    let records = records.iter().map(|(bytes, place)| (bytes, *place));
    let entries = decode_records(root, artifact, records, None);
    let todos = entries.into_iter().filter_map(|entry| match entry.body {
        Body::Todos(todos) => Some(todos),
        _ => None,
    });
    todos.flatten().collect()
}

/// Replaces a document with the result of `change`, if it is still what `change` saw: the same
/// bytes, or missing. Retries otherwise.
pub(super) fn replace_if_unchanged<E: From<Error>>(
    path: &Path,
    mut change: impl FnMut(Option<&[u8]>) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    loop {
        let old = match jsonl::read_document(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("read", path, error).into()),
        };
        let new = change(old.as_deref())?;
        let put = match &old {
            Some(old) => jsonl::replace(path, &new, Some(&jsonl::Digest::compute(old))),
            None => jsonl::create_new(path, &new),
        };
        match put.map_err(Error::from) {
            // Someone else was faster. Each retry means that another writer succeeded, so this
            // ends.
            Err(Error::File(FileError::Changed { .. })) => {}
            Err(Error::File(FileError::Io { source, .. }))
                if source.kind() == io::ErrorKind::AlreadyExists => {}
            done => return Ok(done?),
        }
    }
}
