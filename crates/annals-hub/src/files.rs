//! Files as their machines have them, assembled from the rows of the table `segments`.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use annals_segments::{FileKey, Kind, SegmentReader, SourceId, check_path};

use crate::delta::Table;
use crate::error::{Error, Result};
use crate::segment_table::{self, SEGMENTS, SegmentRow};
use crate::store::{self, Store};

/// A file of a machine, as far as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The machine.
    pub source: SourceId,
    /// Name of the layout of its root.
    pub layout: String,
    /// Absolute path of the root on the machine.
    pub root: String,
    /// Path within the root.
    pub path: String,
    /// Modification time when its last segment was read, in nanoseconds since 1970.
    pub mtime: i64,
    /// Number of its generation.
    pub generation: u32,
    /// The stored bytes.
    pub content: Vec<u8>,
}

impl StoredFile {
    /// Writes the file below a directory, under the path that it has on its machine. Fails if it exists.
    pub fn write_below(&self, dir: &Path) -> std::io::Result<PathBuf> {
        let root = self.root.trim_start_matches('/');
        // The hub checked both, but something else could have written the table.
        for path in [root, &self.path] {
            check_path(path).map_err(std::io::Error::other)?;
        }
        let path = dir.join(root).join(&self.path);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = File::create_new(&path)?;
        file.write_all(&self.content)?;
        set_modified(&file, self.mtime)?;
        Ok(path)
    }
}

/// Sets the modification time of a file, in nanoseconds since 1970.
pub(crate) fn set_modified(file: &File, mtime: i64) -> std::io::Result<()> {
    let after = Duration::from_nanos(u64::try_from(mtime).unwrap_or(0));
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + after))
}

/// One generation of a file while it is assembled.
#[derive(Debug, Default)]
struct Assembly {
    content: Vec<u8>,
    end: u64,
    last: Option<SegmentRow>,
}

/// Assembles the newest generation of each file of the machines that `wanted` accepts. Of documents, the
/// newest that is complete.
pub async fn assemble(
    store: &Store,
    table: &Table,
    wanted: impl Fn(SourceId) -> bool,
) -> Result<Vec<StoredFile>> {
    let mut reader = SegmentReader::new()?;
    let mut generations: BTreeMap<(SourceId, FileKey, u32), Assembly> = BTreeMap::new();
    // The commits of a lane are in the order of their names; a file is in one lane.
    let mut files: Vec<&str> = table.files().map(|add| add.path.as_str()).collect();
    files.sort_unstable_by_key(|path| path.rsplit('/').next());
    for file in files {
        let path = table.path_of(file);
        let content = store::read(store, &path).await?;
        let content = content
            .ok_or_else(|| Error::foreign(SEGMENTS.path, format!("the file {path} is missing")))?;
        for (row, blob) in segment_table::read(content, true)? {
            if !wanted(row.source) {
                continue;
            }
            let key = (row.source, row.file(), row.generation);
            let assembly = generations.entry(key).or_default();
            if row.start != assembly.end {
                let why = format!(
                    "{} of {} has {} bytes, but the next row begins at {}",
                    row.path, row.source, assembly.end, row.start
                );
                return Err(Error::foreign(SEGMENTS.path, why));
            }
            assembly.content.extend(reader.decompress(&blob, row.len)?);
            assembly.end = row.end;
            assembly.last = Some(row);
        }
    }
    let mut newest: BTreeMap<(SourceId, FileKey), StoredFile> = BTreeMap::new();
    // Later generations replace earlier ones.
    for ((source, file, generation), assembly) in generations {
        let Some(last) = assembly.last else {
            continue;
        };
        if matches!(last.kind, Kind::Document { len, .. } if len != assembly.end) {
            continue;
        }
        newest.insert(
            (source, file),
            StoredFile {
                source,
                layout: last.layout,
                root: last.root,
                path: last.path,
                mtime: last.mtime,
                generation,
                content: assembly.content,
            },
        );
    }
    Ok(newest.into_values().collect())
}
