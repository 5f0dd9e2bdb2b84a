//! Output files that a user names.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use annals::jsonl;
use anyhow::{Context as _, Result, bail};

use crate::context::Context;

/// Refuses a path inside of a root: another program owns that tree.
pub(super) fn refuse_roots(path: &Path, context: &Context) -> Result<()> {
    let real = |path: &Path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let known = absolute
            .ancestors()
            .find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        match known {
            Some((above, real)) => match absolute.strip_prefix(above) {
                Ok(rest) => real.join(rest),
                Err(_) => absolute,
            },
            None => absolute,
        }
    };
    let path = real(path);
    let named = context.store.roots().iter().map(|root| root.path.clone());
    let defaults = context.default_root_paths().into_iter().map(PathBuf::from);
    for root in named.chain(defaults) {
        if path.starts_with(real(&root)) {
            bail!(
                "{} is inside of the root {}; exports must be written elsewhere",
                path.display(),
                root.display()
            );
        }
    }
    Ok(())
}

/// Refuses existing files unless `force` is set. A device or a pipe, which holds nothing, is not refused.
pub(super) fn refuse_existing(paths: &[PathBuf], force: bool) -> Result<()> {
    for path in paths {
        if !force && jsonl::exists(path)? && !is_stream(path) {
            bail!(
                "{} exists already; add --force to overwrite it",
                path.display()
            );
        }
    }
    Ok(())
}

/// Returns whether a path leads to something that is neither a file nor a directory, such as
/// `/dev/null` or the `/dev/fd/63` of a shell.
fn is_stream(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Writes a file, and returns its size and the result of `write`. A new file appears with its
/// content, and a file is replaced atomically; a device, a pipe or a symbolic link is written in place.
pub(super) fn write_file<T: Default>(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> annals::Result<T>,
) -> Result<(u64, T)> {
    refuse_existing(std::slice::from_ref(&path.to_owned()), force)?;
    let over = jsonl::exists(path)?;
    let name = path.file_name().context("the file needs a name")?;
    let mut result = T::default();
    let mut bytes = 0;
    let fill = |put: &mut dyn FnMut(&[u8]) -> annals::Result<()>| {
        let mut file = ChunkWriter {
            write_chunk: put,
            bytes: 0,
            failed: None,
        };
        let written = write(&mut io::BufWriter::with_capacity(1 << 16, &mut file));
        bytes = file.bytes;
        // Return the I/O error itself, not what `write` made of it.
        match file.failed {
            Some(error) => Err(error),
            None => written.map(|found| result = found),
        }
    };
    if over && !std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        let failed = |error| annals::Error::io("write", path, error);
        let file = std::fs::File::options()
            .write(true)
            .truncate(true)
            .open(path);
        let mut file = file.map_err(failed)?;
        fill(&mut |chunk| file.write_all(chunk).map_err(failed))?;
        return Ok((bytes, result));
    }
    // An existing file is replaced by renaming a temporary file in the same directory.
    let target = match over {
        true => path.with_file_name(format!(
            ".{}.{}",
            name.to_string_lossy(),
            uuid::Uuid::new_v4().simple()
        )),
        false => path.to_owned(),
    };
    jsonl::create_with(&target, fill)?;
    if over && let Err(error) = std::fs::rename(&target, path) {
        _ = std::fs::remove_file(&target);
        return Err(annals::Error::io("replace", path, error).into());
    }
    Ok((bytes, result))
}

/// Passes chunks to a function, and keeps its error.
struct ChunkWriter<'a> {
    write_chunk: &'a mut dyn FnMut(&[u8]) -> annals::Result<()>,
    bytes: u64,
    failed: Option<annals::Error>,
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.write_chunk)(bytes) {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                Ok(bytes.len())
            }
            Err(error) => {
                let failure = io::Error::other(error.to_string());
                self.failed = Some(error);
                Err(failure)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output without escaping. A document for a terminal must not have control sequences.
pub(super) struct RawStdout<'a>(pub(super) &'a mut Context);

impl Write for RawStdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.out.raw(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
