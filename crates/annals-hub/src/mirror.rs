//! The files of machines in a directory, so that the library can be asked about them.
//!
//! A cache: `DIR/SOURCE/ROOT/PATH`, where ROOT is a key of layout and path of the root. It is filled from
//! the table `segments`, new commits first, and emptied when a hub starts. Logs are appended to, so that
//! the library's index reads only what is new.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use annals::store::Root;
use annals_segments::{FileKey, Kind, SegmentReader, SourceId, check_path};

use crate::delta::Table;
use crate::error::{Error, Result};
use crate::files::set_modified;
use crate::segment_table::{self, SEGMENTS, SegmentRow};
use crate::store::{self, Store};

/// The cache.
#[derive(Debug)]
pub struct Mirror {
    dir: PathBuf,
    store: Store,
    table: Table,
    /// Data files that were applied.
    applied: HashSet<String>,
    files: HashMap<(SourceId, FileKey), Mirrored>,
    roots: BTreeMap<(SourceId, PathBuf), MirroredRoot>,
    /// Files that could not be written, and why.
    pub failed: Vec<String>,
}

/// A root of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredRoot {
    /// Name of its layout.
    pub layout: String,
    /// Its path on the machine.
    pub on_machine: String,
}

/// How far a file is in the cache.
#[derive(Debug)]
struct Mirrored {
    generation: u32,
    end: u64,
    /// The parts of a document that is not complete.
    document: Vec<u8>,
}

impl Mirror {
    /// Opens the cache in a directory, which is emptied. Refuses a directory that has something else.
    pub async fn open(store: &Store, dir: &Path) -> Result<Self> {
        let own = dir.join("annals-hub-cache");
        let failed =
            |error: std::io::Error| Error::Unusable(format!("cache {}: {error}", dir.display()));
        fs::create_dir_all(dir).map_err(failed)?;
        let is_empty = fs::read_dir(dir).map_err(failed)?.next().is_none();
        if !is_empty && !own.exists() {
            return Err(Error::Unusable(format!(
                "{} is not empty, and no cache of annals-hub",
                dir.display()
            )));
        }
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match path.is_dir() && !path.is_symlink() {
                true => fs::remove_dir_all(&path).map_err(failed)?,
                false => fs::remove_file(&path).map_err(failed)?,
            }
        }
        File::create(&own).map_err(failed)?;
        Ok(Mirror {
            dir: dir.canonicalize().map_err(failed)?,
            store: store.clone(),
            table: Table::open(store, SEGMENTS).await?,
            applied: HashSet::new(),
            files: HashMap::new(),
            roots: BTreeMap::new(),
            failed: Vec::new(),
        })
    }

    /// The roots of the machines that `wanted` accepts, by their paths on the machines, with the machine, the directory in the cache
    /// and the path on the machine.
    pub fn roots(&self, wanted: impl Fn(SourceId) -> bool) -> Vec<(SourceId, Root, String)> {
        let roots = self.roots.iter().filter(|((source, _), _)| wanted(*source));
        let root = |((source, dir), root): (&(SourceId, PathBuf), &MirroredRoot)| {
            // A layout that this hub does not know yet is not read.
            let opened = Root::new(&root.layout, dir.clone()).ok()?;
            Some((*source, opened, root.on_machine.clone()))
        };
        let mut roots: Vec<_> = roots.filter_map(root).collect();
        roots.sort_by(|a, b| a.2.cmp(&b.2));
        roots
    }

    /// Writes what was committed since.
    pub async fn update(&mut self) -> Result<()> {
        self.table.refresh().await?;
        let mut unknown: Vec<String> = self.table.files().map(|add| add.path.clone()).collect();
        unknown.retain(|path| !self.applied.contains(path));
        // The commits of a lane are in the order of their names; a file is in one lane.
        unknown.sort_unstable_by(|a, b| a.rsplit('/').next().cmp(&b.rsplit('/').next()));
        let mut reader = SegmentReader::new()?;
        for file in unknown {
            let path = self.table.path_of(&file);
            let content = store::read(&self.store, &path).await?;
            let content = content.ok_or_else(|| {
                Error::foreign(SEGMENTS.path, format!("the file {path} is missing"))
            })?;
            for (row, blob) in segment_table::read(content, true)? {
                let content = reader.decompress(&blob, row.len)?;
                if let Err(why) = self.apply(&row, &content) {
                    self.failed
                        .push(format!("{} of {}: {why}", row.path, row.source));
                }
            }
            self.applied.insert(file);
        }
        Ok(())
    }

    fn apply(&mut self, row: &SegmentRow, content: &[u8]) -> std::io::Result<()> {
        // The hub checked the path, but something else could have written the table.
        check_path(&row.path).map_err(std::io::Error::other)?;
        let key = (row.source, row.file());
        let known = self.files.get(&key).map_or(0, |known| known.generation);
        if row.generation < known {
            return Ok(());
        }
        let root = FileKey::new(&row.layout, &row.root, "").to_string();
        let root = self.dir.join(row.source.to_string()).join(root);
        let path = root.join(&row.path);
        let begins = self
            .files
            .get(&key)
            .is_none_or(|known| known.generation != row.generation);
        if begins {
            self.files.insert(
                key,
                Mirrored {
                    generation: row.generation,
                    end: 0,
                    document: Vec::new(),
                },
            );
        }
        let Some(known) = self.files.get_mut(&key) else {
            return Ok(());
        };
        if row.start != known.end {
            return Err(std::io::Error::other("bytes before it are missing"));
        }
        known.end = row.end;
        let new = self.dir.join("new");
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        match row.kind {
            Kind::Document { len, .. } => {
                known.document.extend(content);
                if known.end == len {
                    replace(&new, &path, &std::mem::take(&mut known.document), row.mtime)?;
                }
            }
            Kind::Lines if begins => replace(&new, &path, content, row.mtime)?,
            Kind::Lines => {
                let mut log = File::options().append(true).open(&path)?;
                log.write_all(content)?;
                set_modified(&log, row.mtime)?;
            }
        }
        self.roots.insert(
            (row.source, root),
            MirroredRoot {
                layout: row.layout.clone(),
                on_machine: row.root.clone(),
            },
        );
        Ok(())
    }
}

/// Replaces a file, so that a reader has the old one or the new one.
fn replace(new: &Path, path: &Path, content: &[u8], mtime: i64) -> std::io::Result<()> {
    let mut file = File::create(new)?;
    file.write_all(content)?;
    set_modified(&file, mtime)?;
    fs::rename(new, path)
}
