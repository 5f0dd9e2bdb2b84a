//! Decides what may be restored from a pack.
//!
//! A pack of this archive was written by annals from the user's own files, so all of them are
//! restored except configuration: that may have been changed on purpose since, and is restored only
//! if named. A foreign pack may contain anything. Only conversation data is restored from it,
//! readable by the user only, and the user must name the target.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Archive;
use super::attributes::{ArchivedDir, ExtendedAttribute, Owner};
use super::pack::Pack;
use super::pack_index::Member;
use crate::error::{Error, Result};
use crate::store::Root;
use annals_layouts::model::Artifact;

/// Trust in a pack, which does not depend on its content.
#[derive(Clone, Debug, Default)]
pub(super) struct PackTrust {
    /// The pack is not in the archive.
    elsewhere: bool,
    /// Paths named by the user, each with everything below it.
    named: Vec<PathBuf>,
}

impl Archive {
    /// Marks a pack that was opened by its path as foreign unless it is in this archive.
    pub(super) fn mark_foreign(&self, mut pack: Pack) -> Pack {
        let real = |path: &Path| path.canonicalize().ok();
        let own = real(&self.dir).zip(real(&pack.path));
        let is_own = own.is_some_and(|(dir, path)| path.starts_with(dir));
        Arc::make_mut(&mut pack.trust).elsewhere = !is_own;
        pack
    }
}

impl Pack {
    /// Also restores the files at and below these paths. Refuses a path that the pack does not
    /// have.
    pub fn restore_also(mut self, named: &[PathBuf]) -> Result<Self> {
        for path in named {
            let below =
                |member: &Member| !path.as_os_str().is_empty() && member.path.starts_with(path);
            if !self.members().iter().any(below) {
                return Err(Error::refused(format!(
                    "no file of the archived session is named {}",
                    path.display()
                )));
            }
        }
        Arc::make_mut(&mut self.trust).named = named.to_vec();
        Ok(self)
    }

    /// Returns whether a file is restored.
    pub(super) fn may_restore(&self, root: &Root, path: &Path) -> bool {
        let artifact = root.layout.classify(path);
        let allowed = |artifact: &Artifact| match self.trust.elsewhere {
            true => artifact.is_conversation_data(),
            false => !artifact.is_configuration(),
        };
        self.index.lone
            || artifact.as_ref().is_some_and(allowed)
            || self.trust.named.iter().any(|named| path.starts_with(named))
    }

    /// Returns the mode of a restored file.
    pub(super) fn mode_of(&self, member: &Member) -> u32 {
        match self.trust.elsewhere {
            true => member.mode & 0o600,
            false => member.mode,
        }
    }

    /// Returns the owner and attributes of a restored file.
    pub(super) fn belongings_of<'a>(
        &self,
        member: &'a Member,
    ) -> (Option<Owner>, &'a [ExtendedAttribute]) {
        match self.trust.elsewhere {
            true => (None, &[]),
            false => (member.owner, &member.attributes),
        }
    }

    /// Returns the archived metadata of the directories of a file, outer ones first.
    pub(super) fn dirs_of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a ArchivedDir> {
        let dirs = self.index.dirs.iter();
        let dirs = dirs.filter(|_| !self.trust.elsewhere);
        dirs.filter(move |dir| path.starts_with(&dir.path))
    }

    /// Returns the target root.
    pub(super) fn target(&self, to: Option<&Path>) -> Result<Root> {
        if self.trust.elsewhere && to.is_none() {
            return Err(Error::refused(format!(
                "{} is not in the archive, so its recorded root is not trusted; name the root with --to DIR (recorded: {})",
                self.path.display(),
                self.index.root.display()
            )));
        }
        Root::new(&self.index.layout, to.unwrap_or(&self.index.root))
    }
}
