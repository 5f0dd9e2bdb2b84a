//! Tracks which files have their text indexed, and up to which byte offset.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::store::{Inventory, Root, RootFile};
use annals_jsonl::OpenLog;

use super::database::{number_of, within};
use super::fingerprint::files_fingerprint;
use super::session_rows::is_same;
use super::text_store::{self, TextMark};

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

    /// Fingerprint of the current state of the files.
    pub(super) fn fingerprint(&self) -> u128 {
        files_fingerprint(&self.root.path, self.files.iter().copied())
    }
}

/// Files whose text is indexed, and up to which offset.
#[derive(Default)]
pub(super) struct Coverage {
    /// Fully indexed roots whose files are unchanged since, by number.
    whole: HashMap<i64, Root>,
    /// Files that are unchanged up to their mark: text number and mark.
    files: ByFile<(i64, TextMark)>,
    /// Outdated marks: the file changed before the marked offset, or its companion changed.
    changed: ByFile<TextMark>,
}

/// Map keyed by file. The inode is compared first because paths are long; hard links share an
/// inode, so the path is compared too.
struct ByFile<T>(HashMap<u64, Vec<(OsString, T)>>);

impl<T> Default for ByFile<T> {
    fn default() -> Self {
        ByFile(HashMap::new())
    }
}

impl<T> ByFile<T> {
    fn insert(&mut self, ino: u64, path: OsString, value: T) {
        self.0.entry(ino).or_default().push((path, value));
    }

    fn get(&self, file: &RootFile) -> Option<&T> {
        let mut found = self.0.get(&file.id.ino)?.iter();
        let is_it = |(path, _): &&(OsString, T)| path == file.path.as_os_str();
        found.find(is_it).map(|(_, value)| value)
    }
}

impl Coverage {
    /// Adds the files of a root. Returns true if all their text is indexed, except for unterminated
    /// last lines.
    pub(super) fn add(
        &mut self,
        database: &rusqlite::Connection,
        texts: &RootTexts<'_>,
    ) -> rusqlite::Result<bool> {
        let Some(root) = number_of(database, texts.root)? else {
            return Ok(false);
        };
        if let Some((stamp, pending)) = text_store::coverage(database, root)?
            && stamp == texts.fingerprint().to_le_bytes()
        {
            self.add_whole(database, texts.root, root, &pending)?;
            return Ok(true);
        }
        let marks = text_store::marks(database, root)?;
        for file in &texts.files {
            let Some((text, mark)) = marks.get(within(texts.root, file)) else {
                continue;
            };
            let (ino, path) = (file.id.ino, file.path.clone().into());
            match is_unchanged(file, mark) {
                true => self.files.insert(ino, path, (*text, *mark)),
                false => self.changed.insert(ino, path, *mark),
            }
        }
        Ok(false)
    }

    /// Adds an unchanged root whose text is all indexed except for unterminated last lines. Returns
    /// the paths of the files with such a line.
    pub(super) fn add_whole(
        &mut self,
        database: &rusqlite::Connection,
        root: &Root,
        number: i64,
        pending: &[i64],
    ) -> rusqlite::Result<Vec<Vec<u8>>> {
        self.whole.insert(number, root.clone());
        let names = pending.iter().map(|text| self.name(database, *text));
        names.map(|name| name.map(|(_, path)| path)).collect()
    }

    /// Loads the mark of a text. Returns the number of its root and its path in the root.
    pub(super) fn name(
        &mut self,
        database: &rusqlite::Connection,
        text: i64,
    ) -> rusqlite::Result<(i64, Vec<u8>)> {
        let (number, path, mark) =
            text_store::mark(database, text)?.ok_or_else(text_store::damaged)?;
        if let Some(root) = self.whole.get(&number) {
            let path = root.path.join(OsStr::from_bytes(&path));
            self.files.insert(mark.id.ino, path.into(), (text, mark));
        }
        Ok((number, path))
    }

    /// Returns the valid mark of a file, and its valid or outdated mark.
    pub(super) fn mark(&self, file: &RootFile) -> (Option<&TextMark>, Option<&TextMark>) {
        let known = self.files.get(file).map(|(_, mark)| mark);
        (known, known.or_else(|| self.changed.get(file)))
    }

    /// Returns the text number of a file, and the offset up to which it is indexed.
    pub(super) fn get(&self, root: &Root, file: &RootFile) -> (Option<i64>, u64) {
        match self.files.get(file) {
            Some((text, mark)) => (Some(*text), mark.cursor.offset),
            None if self.whole.values().any(|whole| is_same(whole, root)) => (None, file.id.len),
            None => (None, 0),
        }
    }
}

/// Returns true if the file is unchanged up to the offset of the mark.
fn is_unchanged(file: &RootFile, mark: &TextMark) -> bool {
    if !file.is_companion_unchanged(mark.companion.as_ref(), &mark.id) {
        return false;
    }
    if mark.id.untouched(&file.id) {
        return true;
    }
    let grew = mark.id.same_file(&file.id) && file.id.len > mark.id.len;
    let valid = |handle: OpenLog| mark.cursor.is_valid(&handle).unwrap_or(false);
    grew && file.open().is_ok_and(valid)
}
