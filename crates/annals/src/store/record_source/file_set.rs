//! Records of a session that its program stores in several files.
//!
//! The main file's path determines the others ([`FileSetFormat::parts`]). A part that is missing is
//! skipped. No symbolic link is followed: if a part is one, is behind one, or is no regular file, the
//! set cannot be opened, because a session without some of its messages would look complete. The
//! identity of the set changes with each of its files, so finding out that a session is unchanged takes
//! one `stat` per file.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use annals_jsonl::{FileId, OpenLog, RangeReader};
use annals_layouts::model::{FilePart, FileSetFormat};

use super::{MAX_DOCUMENT, too_large};

/// Maximum number of steps from the main file to a part.
const MAX_STEPS: usize = 4;

/// Adds the states of the parts to the identity of the main file. Passes parts that cannot be examined
/// to `fail`: the length is that of the others.
pub(super) fn with_parts(
    main: &Path,
    format: &FileSetFormat,
    id: FileId,
    fail: &mut dyn FnMut(io::Error),
) -> FileId {
    let mut is_refused = false;
    let parts = parts_on_disk(main, format, &mut |error| {
        is_refused = true;
        fail(error);
    });
    let id = parts.iter().fold(id, |id, (_, part)| with_part(id, *part));
    // The identity of no set that could be read, so that it is opened, which reports the part.
    match is_refused {
        true => FileId {
            ctime_ns: i64::MAX,
            ..id
        },
        false => id,
    }
}

/// Adds the state of a part to the identity of a set.
pub(super) fn with_part(id: FileId, part: FileId) -> FileId {
    FileId {
        len: id.len.saturating_add(part.len),
        mtime_ns: id.mtime_ns.max(part.mtime_ns),
        ctime_ns: id.ctime_ns.max(part.ctime_ns),
        ..id
    }
}

/// Derives the records. `main` is the opened main file.
pub(super) fn derive(path: &Path, main: OpenLog, format: &FileSetFormat) -> io::Result<Vec<u8>> {
    let mut failed = None;
    let parts = parts_on_disk(path, format, &mut |error| {
        failed.get_or_insert(error);
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let opened = parts.into_iter().map(|(part, _)| {
        let file = OpenLog::open(&part);
        (part, file)
    });
    to_lines(path, main, opened, format)
}

/// Derives the records of opened files. Skips a part that does not exist.
pub(super) fn to_lines(
    path: &Path,
    main: OpenLog,
    parts: impl Iterator<Item = (PathBuf, io::Result<OpenLog>)>,
    format: &FileSetFormat,
) -> io::Result<Vec<u8>> {
    let mut left = MAX_DOCUMENT;
    let mut contents = vec![(path.to_owned(), read(main, &mut left)?)];
    for (part, file) in parts {
        match file.and_then(|file| read(file, &mut left)) {
            Ok(bytes) => contents.push((part, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(of_part(&part, &error)),
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
fn parts_on_disk(
    main: &Path,
    format: &FileSetFormat,
    fail: &mut dyn FnMut(io::Error),
) -> Vec<(PathBuf, FileId)> {
    parts(main, format, &mut |from, place, found| {
        if let Err(error) = add_files(from, place, found) {
            fail(error);
        }
    })
}

/// Adds the files of a set at a path: the file there, or the files of the directory there. The first
/// argument is the file that leads to it.
pub(in crate::store) type AddParts<'a, T> = &'a mut dyn FnMut(&Path, &Path, &mut Vec<(PathBuf, T)>);

/// Returns the files of a set without the main one.
pub(super) fn parts<T>(
    main: &Path,
    format: &FileSetFormat,
    add: AddParts<'_, T>,
) -> Vec<(PathBuf, T)> {
    let mut found = Vec::new();
    let mut from = vec![main.to_owned()];
    for _ in 0..MAX_STEPS {
        let mut next = Vec::new();
        for file in &from {
            for place in (format.parts)(file) {
                add(file, &place, &mut next);
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
    if leads_through_link(from, place) {
        return refuse_link(place);
    }
    let is_dir = match place.symlink_metadata() {
        Ok(metadata) => metadata.is_dir(),
        Err(error) if is_absent(&error) => false,
        Err(error) => return Err(of_part(place, &error)),
    };
    if !is_dir {
        return add_file(place, found);
    }
    let before = found.len();
    for entry in std::fs::read_dir(place).map_err(|error| of_part(place, &error))? {
        let path = entry.map_err(|error| of_part(place, &error))?.path();
        add_file(&path, found)?;
    }
    if let Some(added) = found.get_mut(before..) {
        crate::sort::by(added, |one, other| one.0.cmp(&other.0));
    }
    Ok(())
}

/// Adds the file at a path, if there is one.
fn add_file(path: &Path, found: &mut Vec<(PathBuf, FileId)>) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => {
            found.push((path.to_owned(), FileId::from(&metadata)))
        }
        Ok(metadata) if metadata.is_dir() => {}
        Ok(metadata) if metadata.is_symlink() => return refuse_link(path),
        Ok(_) => return Err(of_part(path, &io::Error::other("it is not a regular file"))),
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(of_part(path, &error)),
    }
    Ok(())
}

/// Fails if there is something at a path that leads through a link.
fn refuse_link(path: &Path) -> io::Result<()> {
    let error = match path.metadata() {
        Ok(_) => io::Error::other("symbolic links are not followed"),
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => error,
    };
    Err(of_part(path, &error))
}

fn is_absent(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Adds the path of a part to an error; the caller knows that of the main file only.
fn of_part(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
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
        let id = FileId::from(&main.metadata().unwrap());
        with_parts(main, &FORMAT, id, &mut |_| {})
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
    }

    #[test]
    fn set_with_a_link_or_a_pipe_is_refused() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let main = path("a.main");
        std::fs::write(&main, "main ").unwrap();
        std::fs::create_dir(path("elsewhere")).unwrap();
        std::fs::write(path("elsewhere/1"), "SECRET").unwrap();
        let refused = |place: &str, why: &str| {
            let error = derive(&main, OpenLog::open(&main).unwrap(), &FORMAT).unwrap_err();
            let expected = format!("{}: {why}", path(place).display());
            assert_eq!(error.to_string(), expected);
            // A list takes only the identity, whose length lacks the part.
            let mut failed = Vec::new();
            let id = FileId::from(&main.metadata().unwrap());
            with_parts(&main, &FORMAT, id, &mut |error| {
                failed.push(error.to_string())
            });
            assert_eq!(failed, [expected]);
        };
        let links = "symbolic links are not followed";
        symlink(path("elsewhere"), path("a.dir")).unwrap();
        refused("a.dir", links);
        std::fs::remove_file(path("a.dir")).unwrap();
        std::fs::create_dir(path("a.dir")).unwrap();
        symlink(path("elsewhere/1"), path("a.dir/2")).unwrap();
        refused("a.dir/2", links);
        // Nothing is behind this one.
        std::fs::remove_file(path("elsewhere/1")).unwrap();
        assert_eq!(lines(&main), "main ");
        std::fs::remove_file(path("a.dir/2")).unwrap();
        let before = identity(&main);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path("a.more"), mode).unwrap();
        refused("a.more", "it is not a regular file");
        assert!(!before.untouched(&identity(&main)));
    }
}
