//! Files whose text is searched, and how much of each is indexed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

use hashbrown::HashMap;
use rusqlite::Connection;

use crate::store::{Inventory, Root, RootFile};
use annals_layouts::model::Framing;

use super::files::{self, Change, TextMark, within};
use super::session_rows::is_same;

/// Files of one root whose text is searched.
pub(super) struct RootTexts<'a> {
    pub(super) root: &'a Root,
    pub(super) files: Vec<&'a RootFile>,
}

impl<'a> RootTexts<'a> {
    /// Lists each file once, even if several sessions share it.
    pub(super) fn from_inventory(inventory: &'a Inventory) -> Vec<Self> {
        let mut roots: Vec<RootTexts<'a>> = Vec::new();
        let mut shared: HashSet<&Path> = HashSet::new();
        for files in &inventory.sessions {
            let is_it = |texts: &RootTexts<'_>| is_same(texts.root, &files.root);
            let at = match roots.last().is_some_and(is_it) {
                true => roots.len() - 1,
                false => roots.iter().position(is_it).unwrap_or_else(|| {
                    roots.push(RootTexts {
                        root: &files.root,
                        files: Vec::new(),
                    });
                    roots.len() - 1
                }),
            };
            let logs = files.logs().flat_map(RootFile::volumes);
            for file in logs.chain(files.notes()) {
                let fresh = file.slice.is_none() || shared.insert(&file.path);
                if let Some(texts) = roots.get_mut(at).filter(|_| fresh) {
                    texts.files.push(file);
                }
            }
        }
        roots
    }
}

/// Files with a row in the index.
#[derive(Default)]
pub(super) struct IndexedTexts<'a> {
    /// By path, as bytes: comparing path components takes longer.
    files: HashMap<&'a OsStr, IndexedText>,
    /// Paths and ids of rows whose files are not in the inventory.
    pub(super) others: Vec<(Vec<u8>, i64)>,
}

/// Row of a file that is unchanged or has only grown.
#[derive(Clone, Copy)]
pub(super) struct IndexedText {
    pub(super) id: i64,
    pub(super) mark: TextMark,
    /// False if a companion file changed, so that everything must be read again.
    pub(super) is_valid: bool,
}

impl<'a> IndexedTexts<'a> {
    /// Adds the files of a root. Returns true if all their text is indexed, except for unterminated
    /// last lines.
    pub(super) fn load(
        &mut self,
        database: &Connection,
        texts: &RootTexts<'a>,
    ) -> rusqlite::Result<bool> {
        let files = texts.files.iter().copied();
        let files: HashMap<&[u8], &RootFile> =
            files.map(|file| (within(texts.root, file), file)).collect();
        let mut complete = 0;
        files::each(database, texts.root, "NULL", |path, row| {
            let Some(file) = files.get(path) else {
                self.others.push((path.to_vec(), row.id));
                return;
            };
            let Some(mark) = row.state.text else { return };
            if row.state.change(file) == Change::Changed {
                return;
            }
            let is_valid = mark.is_companion_unchanged(file);
            complete += usize::from(is_valid && mark.len == file.id.len);
            let id = row.id;
            let text = IndexedText { id, mark, is_valid };
            self.files.insert(file.path.as_os_str(), text);
        })?;
        Ok(complete == files.len())
    }

    /// Returns the row of a file.
    pub(super) fn row(&self, file: &RootFile) -> Option<IndexedText> {
        self.files.get(file.path.as_os_str()).copied()
    }

    /// Returns the id of a file, and the offset up to which its text is indexed.
    pub(super) fn get(&self, file: &RootFile) -> (Option<i64>, u64) {
        match self.row(file).filter(|text| text.is_valid) {
            // Derived lines do not grow, and their offsets are not those of the file.
            Some(text)
                if text.mark.len == file.id.len && file.artifact.framing != Framing::Lines =>
            {
                (Some(text.id), text.mark.end.max(file.id.len))
            }
            Some(text) => (Some(text.id), text.mark.end),
            None => (None, 0),
        }
    }
}
