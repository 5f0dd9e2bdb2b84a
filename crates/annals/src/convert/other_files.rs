//! Files that are stored whole.

use std::path::Path;

use crate::error::{Error, Result};
use crate::store::{Root, record_source};
use annals_jsonl::open_to_read;

use super::origin::{self, LineEnd, MAX_PIECE, SourceFile, SourcePosition};
use crate::store::staging::StagedFile;

/// Writes a whole file to an origin file.
pub(super) fn write_whole_file(beside: &mut StagedFile, path: &Path, number: usize) -> Result<()> {
    use std::io::Read as _;
    let failed = |error| Error::io("read", path, error);
    let mut file = open_to_read(path).map_err(failed)?;
    let mut bytes = vec![0; MAX_PIECE];
    let mut line = 0;
    loop {
        let mut read = 0;
        while read < MAX_PIECE {
            let free = bytes.get_mut(read..).unwrap_or_default();
            match file.read(free).map_err(failed)? {
                0 => break,
                more => read += more,
            }
        }
        if read == 0 {
            return Ok(());
        }
        let spot = SourcePosition { file: number, line };
        let piece = bytes.get(..read).unwrap_or_default();
        beside.put_line(&origin::encode_line(spot, piece, LineEnd::None, false))?;
        line += 1;
    }
}

/// Returns the metadata of a source file.
pub(super) fn source_file(root: &Root, path: &Path) -> Result<SourceFile> {
    use std::os::unix::fs::MetadataExt as _;
    let within = path.strip_prefix(&root.path).unwrap_or(path);
    let spelled = origin::path_text(within).ok_or_else(|| {
        Error::refused(format!(
            "{}: file name is not UTF-8, so it cannot be stored",
            path.display()
        ))
    })?;
    let framing = root
        .layout
        .classify(within)
        .map(|artifact| artifact.framing);
    let file = record_source::disk_path(path, framing.unwrap_or_default());
    let metadata = std::fs::metadata(file).map_err(|error| Error::io("stat", path, error))?;
    Ok(SourceFile {
        path: spelled,
        len: metadata.len(),
        mode: metadata.mode() & 0o7777,
        mtime: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
    })
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::refused(error.to_string()))
}
