//! Files that commands make where they are told to.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use annals::jsonl;
use anyhow::{Context as _, Result, bail};

use crate::context::Context;

/// Nothing of ours belongs into a tree that another program owns.
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
                "{} lies inside of the root {}, where exports do not belong",
                path.display(),
                root.display()
            );
        }
    }
    Ok(())
}

/// Files that are there are written over only with `--force`.
pub(super) fn refuse_existing(paths: &[PathBuf], force: bool) -> Result<()> {
    let taken = paths
        .iter()
        .find(|path| !force && path.symlink_metadata().is_ok());
    match taken {
        Some(path) => bail!("{} exists already; --force writes over it", path.display()),
        None => Ok(()),
    }
}

/// Makes a file that appears whole or not at all, and gives its size and what `write` tells.
pub(super) fn write_file<T: Default>(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> annals::Result<T>,
) -> Result<(u64, T)> {
    refuse_existing(std::slice::from_ref(&path.to_owned()), force)?;
    // Made beside it under a name of its own; the rename then takes the place of the old one.
    let over = path.symlink_metadata().is_ok();
    let name = path.file_name().context("the file needs a name")?;
    let target = match over {
        true => path.with_file_name(format!(
            ".{}.{}",
            name.to_string_lossy(),
            uuid::Uuid::new_v4().simple()
        )),
        false => path.to_owned(),
    };
    let mut told = T::default();
    let mut bytes = 0;
    jsonl::create_with(&target, |put| {
        let mut file = ChunkWriter {
            write_chunk: put,
            bytes: 0,
            failed: None,
        };
        let written = write(&mut io::BufWriter::with_capacity(1 << 16, &mut file));
        bytes = file.bytes;
        // What the disk said is told rather than what became of it on the way.
        match file.failed {
            Some(error) => Err(error),
            None => written.map(|found| told = found),
        }
    })?;
    if over && let Err(error) = std::fs::rename(&target, path) {
        _ = std::fs::remove_file(&target);
        return Err(annals::Error::io("replace", path, error).into());
    }
    Ok((bytes, told))
}

/// A file that is handed over piece by piece.
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
                let told = io::Error::other(error.to_string());
                self.failed = Some(error);
                Err(told)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output, where a document goes as it is; it must hold nothing that a terminal would obey.
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
