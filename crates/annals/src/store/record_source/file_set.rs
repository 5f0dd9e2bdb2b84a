//! Records of a session that its program stores in several files.
//!
//! The main file's path determines the others ([`FileSetFormat::parts`]). A part that is missing, or
//! that is no regular file, is skipped; no symbolic link is followed on the way to one. The identity of
//! the set changes with each of its files, so finding out that a session is unchanged takes one `stat`
//! per file.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use annals_jsonl::{FileId, OpenLog, RangeReader};
use annals_layouts::model::{FilePart, FileSetFormat};

use super::{MAX_DOCUMENT, too_large};

/// Maximum number of steps from the main file to a part.
const MAX_STEPS: usize = 4;

/// Adds the states of the parts to the identity of the main file.
pub(super) fn with_parts(main: &Path, format: &FileSetFormat, id: FileId) -> FileId {
    // A part that cannot be examined is reported when the set is opened.
    let parts = parts(main, format, &mut |_| ());
    parts.iter().fold(id, |id, (_, part)| FileId {
        len: id.len.saturating_add(part.len),
        mtime_ns: id.mtime_ns.max(part.mtime_ns),
        ctime_ns: id.ctime_ns.max(part.ctime_ns),
        ..id
    })
}

/// Derives the records. `main` is the opened main file.
pub(super) fn derive(path: &Path, main: OpenLog, format: &FileSetFormat) -> io::Result<Vec<u8>> {
    let mut failed = None;
    let parts = parts(path, format, &mut |error| failed = Some(error));
    if let Some(error) = failed {
        return Err(error);
    }
    let mut left = MAX_DOCUMENT;
    let mut contents = vec![(path.to_owned(), read(main, &mut left)?)];
    for (part, _) in parts {
        match OpenLog::open(&part) {
            Ok(file) => contents.push((part, read(file, &mut left)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let parts: Vec<FilePart<'_>> = contents
        .iter()
        .map(|(path, bytes)| FilePart { path, bytes })
        .collect();
    Ok((format.to_lines)(&parts))
}

fn read(file: OpenLog, left: &mut u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut reader = RangeReader::between(file, 0, *left + 1);
    reader.read_to_end(&mut bytes)?;
    *left = left
        .checked_sub(bytes.len() as u64)
        .ok_or_else(|| too_large(MAX_DOCUMENT))?;
    Ok(bytes)
}

/// Returns the files of a set without the main one. Passes errors other than missing files to `fail`.
fn parts(
    main: &Path,
    format: &FileSetFormat,
    fail: &mut dyn FnMut(io::Error),
) -> Vec<(PathBuf, FileId)> {
    let mut found = Vec::new();
    let mut from = vec![main.to_owned()];
    for _ in 0..MAX_STEPS {
        let mut next = Vec::new();
        for file in &from {
            for place in (format.parts)(file) {
                if let Err(error) = add_files(file, &place, &mut next) {
                    fail(error);
                }
            }
        }
        from = next.iter().map(|(path, _)| path.clone()).collect();
        found.append(&mut next);
        if from.is_empty() {
            break;
        }
    }
    found
}

/// Adds the file at a path, or the files of the directory there, in the order of their names.
fn add_files(from: &Path, place: &Path, found: &mut Vec<(PathBuf, FileId)>) -> io::Result<()> {
    let absent = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    };
    if leads_through_link(from, place) {
        return Ok(());
    }
    let metadata = match place.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if metadata.is_file() {
        found.push((place.to_owned(), FileId::from(&metadata)));
    } else if metadata.is_dir() {
        let before = found.len();
        for entry in std::fs::read_dir(place)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() => {
                    found.push((entry.path(), FileId::from(&metadata)));
                }
                Ok(_) => {}
                Err(error) if absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(added) = found.get_mut(before..) {
            added.sort_by(|one, other| one.0.cmp(&other.0));
        }
    }
    Ok(())
}

/// Returns whether a directory between two files is a symbolic link.
fn leads_through_link(from: &Path, to: &Path) -> bool {
    let above = to.ancestors().skip(1);
    let mut own = above.take_while(|dir| !from.starts_with(dir));
    own.any(Path::is_symlink)
}

#[cfg(test)]
mod tests {
    use super::*;

    static FORMAT: FileSetFormat = FileSetFormat {
        name: "test",
        is_whole: true,
        keeps_lines: false,
        parts: |path| match path.extension().is_some_and(|ending| ending == "main") {
            true => vec![path.with_extension("dir"), path.with_extension("more")],
            false => Vec::new(),
        },
        to_lines: |parts| parts.iter().flat_map(|part| part.bytes.to_vec()).collect(),
    };

    fn identity(main: &Path) -> FileId {
        with_parts(main, &FORMAT, FileId::from(&main.metadata().unwrap()))
    }

    fn lines(main: &Path) -> String {
        let lines = derive(main, OpenLog::open(main).unwrap(), &FORMAT).unwrap();
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn set_has_its_parts_in_order_and_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.main"), "main ").unwrap();
        let main = path("a.main");
        assert_eq!(lines(&main), "main ");
        let mut before = identity(&main);
        for (name, text, all) in [
            ("a.more", "more", "main more"),
            ("a.dir/2", "two ", "main two more"),
            ("a.dir/1", "one ", "main one two more"),
            ("a.dir/1", "One ", "main One two more"),
        ] {
            std::fs::create_dir_all(path("a.dir")).unwrap();
            std::fs::write(path(name), text).unwrap();
            assert_eq!(lines(&main), all);
            let after = identity(&main);
            assert!(!before.untouched(&after), "{name}");
            before = after;
        }
        std::fs::remove_file(path("a.dir/2")).unwrap();
        assert!(!before.untouched(&identity(&main)));
        std::os::unix::fs::symlink(path("a.more"), path("a.dir/3")).unwrap();
        assert_eq!(lines(&main), "main One more");
        std::fs::rename(path("a.dir"), path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path("a.dir")).unwrap();
        assert_eq!(lines(&main), "main more");
    }
}
