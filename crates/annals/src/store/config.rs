//! The configuration of a Chorus root: read, edited, and cleared of workspaces and agents together
//! with their sessions.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::archive::Pack;
use crate::error::{Error, Result};
use crate::layout::chorus::{Config, ConfigEdit};
use crate::model::{Artifact, ArtifactKind};

use super::inventory::{Inventory, SessionFiles};
use super::{Root, Store, Trashed, writer};

impl Store {
    /// The configuration of a root; the usual one where there is none yet.
    pub fn config(&self, root: &Root) -> Result<Config> {
        let path = config_path(root)?;
        match std::fs::read(&path) {
            Ok(bytes) if bytes.is_empty() => Ok(Config::default()),
            Ok(bytes) => Config::read(&bytes).map_err(|error| located(error, &path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
            Err(error) => Err(Error::io("read", path, error)),
        }
    }

    /// Whether the configuration of a root is gone, and in the archive.
    pub fn is_config_archived(&self, root: &Root) -> bool {
        let Ok(path) = config_path(root) else {
            return false;
        };
        let Ok(within) = path.strip_prefix(&root.path) else {
            return false;
        };
        let gone = path.symlink_metadata().is_err();
        let archive = self.archive().ok().filter(|_| gone);
        let pack = archive.and_then(|archive| Pack::open(&archive.root_path(root)).ok());
        pack.is_some_and(|pack| pack.member(within).is_some())
    }

    /// Changes the configuration of a root, and nothing in it that the change is not about.
    pub fn edit_config(&self, root: &Root, edit: &ConfigEdit) -> Result<()> {
        let path = config_path(root)?;
        writer::make_parent(root, &path)?;
        super::document::swap(&path, |old| {
            let old = old.filter(|old| !old.is_empty());
            Config::edit(old, edit).map_err(|error| located(error, &path))
        })
    }

    /// The sessions of a workspace (`WORKSPACE`) or of one of its agents (`WORKSPACE/AGENT`).
    pub fn sessions_in<'a>(
        &self,
        inventory: &'a Inventory,
        root: &Root,
        folder: &str,
    ) -> Vec<&'a SessionFiles> {
        let within = |files: &&SessionFiles| {
            let own = files.folder().unwrap_or_default();
            let below = own.strip_prefix(folder);
            files.root.path == root.path
                && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        inventory.sessions.iter().filter(within).collect()
    }

    /// Moves sessions to the trash and then makes a change of the configuration, if there is one to
    /// make. If anything fails, all of it is as before.
    pub fn clear(
        &self,
        root: &Root,
        sessions: &[&SessionFiles],
        edit: Option<&ConfigEdit>,
        now: Timestamp,
    ) -> Result<Vec<Trashed>> {
        let mut done = Vec::new();
        let cleared = sessions.iter().try_for_each(|files| {
            done.push(self.delete(files, now)?);
            Ok(())
        });
        let edited =
            cleared.and_then(|()| edit.map_or(Ok(()), |edit| self.edit_config(root, edit)));
        let Err(error) = edited else {
            return Ok(done);
        };
        for trashed in done.iter().rev() {
            self.undelete(&trashed.id)?;
        }
        Err(error)
    }
}

/// An error about the whole configuration, with where it lies and what to do.
fn located(error: Error, path: &Path) -> Error {
    let name = path.file_name().and_then(|name| name.to_str());
    let why = match (&error, name) {
        (Error::Refused(why), Some(name)) => why.strip_prefix(name),
        _ => None,
    };
    match why {
        Some(why) if why.starts_with(" cannot be read") || why.starts_with(" is damaged") => {
            Error::refused(format!(
                "{}{why}; mend it by hand, or move it away to begin anew",
                path.display()
            ))
        }
        _ => error,
    }
}

fn config_path(root: &Root) -> Result<PathBuf> {
    if root.layout.name() != "chorus" {
        return Err(Error::refused(format!(
            "{} is no root of Chorus",
            root.path.display()
        )));
    }
    root.locate(&Artifact::of(ArtifactKind::Register))
}
