//! Restores deleted sessions from the trash.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::root::{ensure_beneath, is_plain_log};
use crate::store::{Root, session_list};
use crate::undo::{Manifest, UndoRow, remove_empty_tree};
use annals_jsonl as jsonl;
use annals_jsonl::Error as FileError;
use annals_layouts::Subject;

use super::{Trash, TrashItem, dirs};

/// A folder of the vault, and its manifest if that can be read.
type Folder = (PathBuf, Result<Option<Manifest>>);

impl Trash<'_> {
    /// Returns the deleted sessions, newest first. Reports unreadable ones to [`Store::failures`](crate::store::Store::failures).
    pub fn items(&self) -> Result<Vec<TrashItem>> {
        let found = self.manifests()?.into_iter();
        let found = found.filter_map(|(_, manifest)| self.store.failures.ok(manifest)?);
        Ok(found.map(TrashItem::from).collect())
    }

    /// Returns whether a deletion counts for this store.
    fn has_trashed(&self, item: &Manifest) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut roots = self.store.roots().iter();
        item.repair.is_none()
            && (!self.store.limits_trash
                || item.lone
                || roots.any(|root| {
                    root.layout.name() == item.layout
                        && (root.path == item.root || real(&root.path) == real(&item.root))
                }))
    }

    /// Returns the folders of deletions with their manifests, newest first.
    pub(super) fn manifests(&self) -> Result<Vec<Folder>> {
        let mut found = self.vault()?.manifests()?;
        found.retain(|(_, manifest)| match manifest {
            Ok(Some(manifest)) => self.has_trashed(manifest),
            _ => true,
        });
        Ok(found)
    }

    /// Restores a deleted session to its original place. A file that exists again is left
    /// unchanged, and its copy stays in the trash.
    pub fn restore(&self, id: &str) -> Result<TrashItem> {
        let mut found = self.items()?;
        found.retain(|trashed| trashed.matches(id));
        if let Some(exact) = found.iter().position(|trashed| trashed.id == id) {
            found = vec![found.swap_remove(exact)];
        }
        if found.len() > 1 && self.is_one_deletion(&found)? {
            // The deletion was interrupted and repeated, so each part is in its own folder.
            while let [_, rest @ ..] = found.as_slice()
                && !rest.is_empty()
                && let Some(part) = found.pop()
            {
                self.restore(&part.id)?;
            }
        }
        if found.len() > 1 {
            return Err(Error::Ambiguous {
                what: Subject::DeletedSession,
                id: id.to_owned(),
                candidates: found.into_iter().map(|trashed| trashed.id).collect(),
            });
        }
        let Some(trashed) = found.pop() else {
            return Err(self.why_missing(id)?);
        };
        self.vault()?.with_lock(&trashed.id, |folder, manifest| {
            self.restore_files(folder, &manifest)?;
            Ok(manifest.into())
        })
    }

    /// Returns why a deleted session is not found: its manifest may be unreadable.
    fn why_missing(&self, id: &str) -> Result<Error> {
        let named = |folder: &Path| {
            let name = folder.file_name().and_then(|name| name.to_str());
            !id.is_empty() && name.is_some_and(|name| name.contains(id))
        };
        let mut unreadable = self
            .manifests()?
            .into_iter()
            .filter_map(|(folder, manifest)| {
                let error = manifest.err()?;
                named(&folder).then_some(error)
            });
        Ok(unreadable.next().unwrap_or_else(|| Error::NotFound {
            what: Subject::DeletedSession,
            id: id.to_owned(),
        }))
    }

    /// Moves the files of a folder back, and restores everything else that was removed with them.
    fn restore_files(&self, folder: &Path, trashed: &Manifest) -> Result<()> {
        let root = Root::new(&trashed.layout, &trashed.root)?;
        if !trashed.lone {
            dirs::make(trashed, &root)?;
        }
        let is_folder = trashed
            .sessions
            .iter()
            .any(|session| session.ends_with('/'));
        let mut kept = Vec::new();
        for file in &trashed.files {
            // A path in the manifest must not lead out of the root, even though annals wrote it.
            let sound = match trashed.lone {
                true => is_plain_log(&file.path),
                false => {
                    root.layout.classify(&file.path).is_some()
                        || (is_folder && dirs::is_left_over(&root, &file.path))
                }
            };
            let from = folder.join("files").join(&file.path);
            let to = root.path.join(&file.path);
            if !sound {
                kept.push(to);
                continue;
            }
            ensure_beneath(folder, &from)?;
            // Remove the temporary file of an interrupted deletion, and finish an interrupted restore.
            jsonl::clear_temp(&from)?;
            jsonl::put_back_file(&from)?;
            if !jsonl::exists(&from)? {
                // An earlier attempt restored it.
                continue;
            }
            root.ensure_inside(&to)?;
            // A newer version of the file may be waiting under another name.
            jsonl::put_back_file(&to)?;
            match jsonl::move_file(&from, &to) {
                Err(FileError::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    kept.push(to);
                }
                moved => moved?,
            }
        }
        if let Some(first) = kept.first() {
            return Err(Error::refused(format!(
                "{} cannot be restored: it already exists, or the path is not valid; the deleted version stays in {}",
                first.display(),
                folder.display()
            )));
        }
        // Without the manifest, files left in the folder cannot be found.
        let files = folder.join("files");
        remove_empty_tree(&files);
        if jsonl::exists(&files)? {
            return Err(Error::refused(format!(
                "{} still has files that its manifest does not list; everything else was restored",
                files.display()
            )));
        }
        restore_list_rows(&root, trashed)?;
        for entry in &trashed.config {
            self.store.chorus().restore_entry(&root, entry, trashed)?;
        }
        Manifest::remove(folder)?;
        remove_empty_tree(folder);
        Ok(())
    }

    /// Returns the directory of a deleted session's files.
    pub(in crate::store) fn files_dir(&self, trashed: &TrashItem) -> Result<PathBuf> {
        Ok(self.vault()?.folder(&trashed.id)?.join("files"))
    }

    /// Returns whether several items are parts of one session: no file is in two of them, unless both
    /// are the same. A deletion that was killed on its way to another file system leaves a copy.
    fn is_one_deletion(&self, found: &[TrashItem]) -> Result<bool> {
        let same = |trashed: &TrashItem| {
            found.first().is_some_and(|first| {
                first.session == trashed.session
                    && first.layout == trashed.layout
                    && first.root == trashed.root
            })
        };
        // The interrupted deletion lists all files of the later ones.
        let listed = |trashed: &TrashItem| -> HashSet<PathBuf> {
            let files = trashed.files.iter().map(|file| file.path.clone());
            files.collect()
        };
        let longest = found.iter().map(listed).max_by_key(HashSet::len);
        let longest = longest.unwrap_or_default();
        let within = found
            .iter()
            .all(|trashed| listed(trashed).is_subset(&longest));
        if !within || !found.iter().all(same) {
            return Ok(false);
        }
        let mut seen: HashMap<&Path, PathBuf> = HashMap::new();
        for trashed in found {
            let folder = self.store.trash().files_dir(trashed)?;
            for file in &trashed.files {
                let path = folder.join(&file.path);
                if !jsonl::exists(&path)? {
                    continue;
                }
                match seen.get(file.path.as_path()) {
                    Some(other) if !jsonl::have_same_content(&path, other)? => return Ok(false),
                    Some(_) => {}
                    None => _ = seen.insert(&file.path, path),
                }
            }
        }
        Ok(true)
    }
}

/// Restores the session list rows of restored logs.
fn restore_list_rows(root: &Root, trashed: &Manifest) -> Result<()> {
    let Some(writer) = root.layout.writer().filter(|_| !trashed.lone) else {
        return Ok(());
    };
    let logs = trashed.files.iter().filter_map(|file| {
        let log = root.layout.classify(&file.path)?;
        let mut rows = trashed.rows.iter();
        let row = rows.find(|row| row.path == file.path);
        let text = row.map(|row| row.text.clone());
        log.kind.is_conversation().then_some((log, text))
    });
    // A session that had no log when it was deleted is only a row.
    let moved = |path: &PathBuf| trashed.files.iter().any(|file| file.path == *path);
    let unwritten = trashed.rows.iter().filter(|row| !moved(&row.path));
    let unwritten = unwritten.filter_map(|row| {
        let log = root.layout.classify(&row.path)?;
        let listed = log.kind.is_conversation();
        listed.then(|| (log, Some(row.text.clone())))
    });
    session_list::relist(root, writer, logs.chain(unwritten))
}

/// Removes the session list rows of the logs in a folder, and saves them in its manifest. The caller
/// must hold the folder's lock.
pub(super) fn remove_list_rows(folder: &Path, mut manifest: Manifest) -> Result<Manifest> {
    let root = Root::new(&manifest.layout, &manifest.root)?;
    let Some(writer) = root.layout.writer().filter(|_| !manifest.lone) else {
        return Ok(manifest);
    };
    let files = manifest.files.iter().map(|file| &file.path);
    // A session that had no log when it was deleted is only a row.
    let paths = files.chain(manifest.rows.iter().map(|row| &row.path));
    let paths: BTreeSet<PathBuf> = paths.cloned().collect();
    for path in paths {
        let is_gone = !jsonl::exists(&root.path.join(&path))?;
        let log = root.layout.classify(&path).filter(|_| is_gone);
        if let Some(log) = log.filter(|log| log.kind.is_conversation()) {
            session_list::remove_from_list(&root, writer, &log, &mut |rows| {
                save_rows(&mut manifest, folder, &path, rows)
            })?;
        }
    }
    Ok(manifest)
}

/// Replaces the saved session list rows of a log.
fn save_rows(manifest: &mut Manifest, folder: &Path, log: &Path, rows: &[String]) -> Result<()> {
    let known = &mut manifest.rows;
    let same = known.iter().filter(|row| row.path == log);
    if rows.is_empty() || same.map(|row| &row.text).eq(rows) {
        return Ok(());
    }
    known.retain(|row| row.path != log);
    known.extend(rows.iter().map(|text| UndoRow {
        path: log.to_owned(),
        text: text.clone(),
    }));
    manifest.write_locked(folder)
}
