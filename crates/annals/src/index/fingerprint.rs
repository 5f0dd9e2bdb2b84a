//! Fingerprints of sessions: a hash of everything that their rows depend on.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::store::{RootFile, SessionFiles};
use annals_jsonl::FileId;

/// Returns the fingerprint of a session as listed: its files and their last changes, its ranges of
/// shared logs, and its session-list rows. Nobody can choose times and inodes to provoke a collision.
pub(super) fn fingerprint(files: &SessionFiles) -> u128 {
    let mut buffer = Vec::with_capacity(512);
    buffer.push(files.shared.into());
    let unwritten = files.unwritten.as_deref();
    for file in files.files().chain(unwritten) {
        add_file(&files.root.path, file, &mut buffer);
    }
    // Few layouts have session lists, and their rows are short.
    for row in &files.list_rows {
        buffer.extend_from_slice(format!("{row:?}").as_bytes());
    }
    xxh3_128(&buffer)
}

fn add_file(root: &Path, file: &RootFile, buffer: &mut Vec<u8>) {
    for volume in file.volumes() {
        let path = volume.path.as_os_str().as_bytes();
        let within = path.strip_prefix(root.as_os_str().as_bytes());
        let within = within.unwrap_or(path);
        add_number(within.len() as u64, buffer);
        buffer.extend_from_slice(within);
        add_id(&volume.id, buffer);
        // The companion file is part of the log's records.
        if let Some(companion) = volume.companion_id() {
            add_id(&companion, buffer);
        }
        let Some(slice) = &volume.slice else { continue };
        buffer.extend_from_slice(slice.name.as_str().as_bytes());
        add_number(slice.known_end, buffer);
        add_number(slice.lines, buffer);
        for range in slice.ranges.iter() {
            for number in [range.bytes.start, range.bytes.end, range.line] {
                add_number(number, buffer);
            }
        }
    }
    // Separates one log from the next.
    add_number(file.earlier.len() as u64, buffer);
}

fn add_id(id: &FileId, buffer: &mut Vec<u8>) {
    let (mtime, ctime) = (id.mtime_ns as u64, id.ctime_ns as u64);
    for number in [id.dev, id.ino, id.len, mtime, ctime] {
        add_number(number, buffer);
    }
}

fn add_number(number: u64, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&number.to_le_bytes());
}
