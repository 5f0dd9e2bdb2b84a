//! What a pack may put back.
//!
//! A pack of this archive was written by annals from the user's own files, so all of them come back, but
//! for configuration: that may have been changed for a reason since, and comes back only if it is named. A
//! pack from elsewhere may say anything. It brings back conversation data alone, for the user's eyes
//! only, and does not choose where to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Archive;
use super::attributes::{ArchivedDir, ExtendedAttribute, Owner};
use super::pack::Pack;
use super::pack_index::Member;
use crate::error::{Error, Result};
use crate::model::Artifact;
use crate::store::Root;

/// What is known of a pack besides what it says itself.
#[derive(Clone, Debug, Default)]
pub(super) struct PackTrust {
    /// It does not lie in the archive.
    elsewhere: bool,
    /// Files that the user named, each with all below it.
    named: Vec<PathBuf>,
}

impl Archive {
    /// Notes whether a pack that was named by its path is one of this archive.
    pub(super) fn mark_foreign(&self, mut pack: Pack) -> Pack {
        let real = |path: &Path| path.canonicalize().ok();
        let own = real(&self.dir).zip(real(&pack.path));
        let is_own = own.is_some_and(|(dir, path)| path.starts_with(dir));
        Arc::make_mut(&mut pack.trust).elsewhere = !is_own;
        pack
    }
}

impl Pack {
    /// The same pack, but what it holds at these paths is put back too. Refuses a path that it does not
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

    /// Whether a file is put back.
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

    /// The permissions that a file gets.
    pub(super) fn mode_of(&self, member: &Member) -> u32 {
        match self.trust.elsewhere {
            true => member.mode & 0o600,
            false => member.mode,
        }
    }

    /// The owner and the attributes that a file gets.
    pub(super) fn belongings_of<'a>(
        &self,
        member: &'a Member,
    ) -> (Option<Owner>, &'a [ExtendedAttribute]) {
        match self.trust.elsewhere {
            true => (None, &[]),
            false => (member.owner, &member.attributes),
        }
    }

    /// The directories of a file, the outer ones first, where it says what they are like.
    pub(super) fn dirs_of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a ArchivedDir> {
        let dirs = self.index.dirs.iter();
        let dirs = dirs.filter(|_| !self.trust.elsewhere);
        dirs.filter(move |dir| path.starts_with(&dir.path))
    }

    /// The root that its files go to.
    pub(super) fn target(&self, to: Option<&Path>) -> Result<Root> {
        if self.trust.elsewhere && to.is_none() {
            return Err(Error::refused(format!(
                "{} is not in the archive, so it does not say where its files go; name the root with --to DIR (they came from {})",
                self.path.display(),
                self.index.root.display()
            )));
        }
        Root::new(&self.index.layout, to.unwrap_or(&self.index.root))
    }
}
