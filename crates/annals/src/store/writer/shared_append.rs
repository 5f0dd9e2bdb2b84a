//! Appends to logs without a session writer: logs that several sessions share, and other logs of a
//! session.

use std::path::Path;

use crate::error::{Error, Result};
use annals_layouts::model::Entry;

use super::super::Root;
use super::super::append_point::decode_records;
use super::super::companion::{SplitRecords, WrittenEntries};
use super::{WriteOptions, create_parent_dirs, layout_writer, open_or_create};

/// Appends lines to a log that several sessions share.
pub(crate) fn append_shared(root: &Root, path: &Path, lines: &[Vec<u8>]) -> Result<()> {
    append_with_companion(root, &root.path.join(path), lines, WriteOptions::default())
}

/// Appends records to a log, and the members that it cannot store to its companion file.
pub(in crate::store) fn append_with_companion(
    root: &Root,
    path: &Path,
    records: &[Vec<u8>],
    options: WriteOptions,
) -> Result<()> {
    let writer = layout_writer(root)?;
    create_parent_dirs(root, path)?;
    let artifact = path.strip_prefix(&root.path).ok();
    let artifact = artifact.and_then(|path| root.layout.classify(path));
    let log = open_or_create(root, path, options)?;
    log.append_all_tracked(
        |end, handle| {
            let mut parted = SplitRecords::new(writer, records)?;
            let entries = match &artifact {
                Some(artifact) => parted.write_companion(root, artifact, options, handle, end)?,
                None => WrittenEntries::default(),
            };
            Ok((parted.lines, entries))
        },
        WrittenEntries::move_to,
    )
    .map(drop)
}

/// Appends lines to another log of the session, and reads them back.
pub(in crate::store) fn append_to_sibling(
    root: &Root,
    path: &Path,
    lines: &[Vec<u8>],
    options: WriteOptions,
) -> Result<Vec<Entry>> {
    let Some(artifact) = root.layout.classify(path) else {
        return Err(Error::refused(format!(
            "{} is not a valid path in the layout {}",
            path.display(),
            root.layout.name()
        )));
    };
    let path = root.path.join(path);
    create_parent_dirs(root, &path)?;
    let places = open_or_create(root, &path, options)?.append_all(lines)?;
    let places = places
        .into_iter()
        .map(|place| (place.offset, place.end - place.offset));
    Ok(decode_records(
        root,
        &artifact,
        lines.iter().zip(places),
        None,
    ))
}
