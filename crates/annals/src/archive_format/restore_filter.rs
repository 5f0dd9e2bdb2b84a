//! Decides what may be restored from an archive.
//!
//! The user's archive was written by annals from the user's own files, so all of them are restored
//! except configuration: that may have been changed on purpose since, and is restored only if named.
//! A foreign archive may contain anything. Only conversation data is restored from it, readable by
//! the user only, and the user must name the target.

use std::path::{Path, PathBuf};

use super::Archive;
use super::archived_session::ArchivedSession;
use super::attributes::{ArchivedDir, ExtendedAttribute, Owner};
use super::manifest::Member;
use crate::error::{Error, Result};
use crate::root::Root;
use annals_layouts::model::Artifact;

/// What may be restored, which does not depend on the content of the archive.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreFilter {
    /// The files are not in the user's archive.
    elsewhere: bool,
    /// Paths named by the user, each with everything below it.
    named: Vec<PathBuf>,
}

impl Archive {
    /// Marks what was found by its path as foreign unless it is in this archive.
    pub(crate) fn mark_foreign(&self, mut found: ArchivedSession) -> ArchivedSession {
        let real = |path: &Path| path.canonicalize().ok();
        let own = real(&self.dir).zip(real(&found.archive.dir));
        let is_own = own.is_some_and(|(dir, path)| path.starts_with(dir));
        found.filter.elsewhere = !is_own;
        found
    }
}

impl ArchivedSession {
    /// Also restores the files at and below these paths. Refuses a path that is not
    /// archived.
    pub fn restore_also(mut self, named: &[PathBuf]) -> Result<Self> {
        for path in named {
            let below =
                |member: &Member| !path.as_os_str().is_empty() && member.path.starts_with(path);
            if !self.members.iter().any(below) {
                return Err(Error::refused(format!(
                    "no file of the archived session is named {}",
                    path.display()
                )));
            }
        }
        self.filter.named = named.to_vec();
        Ok(self)
    }

    /// Returns whether a file is restored.
    pub(crate) fn may_restore(&self, root: &Root, path: &Path) -> bool {
        let artifact = root.layout.classify(path);
        let allowed = |artifact: &Artifact| match self.filter.elsewhere {
            true => artifact.is_conversation_data(),
            false => !artifact.is_configuration(),
        };
        self.lone
            || artifact.as_ref().is_some_and(allowed)
            || self
                .filter
                .named
                .iter()
                .any(|named| path.starts_with(named))
    }

    /// Returns the mode of a restored file.
    pub(crate) fn mode_of(&self, member: &Member) -> u32 {
        match self.filter.elsewhere {
            true => member.mode & 0o600,
            false => member.mode,
        }
    }

    /// Returns the owner and attributes of a restored file.
    pub(crate) fn belongings_of<'a>(
        &self,
        member: &'a Member,
    ) -> (Option<Owner>, &'a [ExtendedAttribute]) {
        match self.filter.elsewhere {
            true => (None, &[]),
            false => (member.owner, &member.attributes),
        }
    }

    /// Returns the archived metadata of the directories of a file, outer ones first.
    pub(crate) fn dirs_of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a ArchivedDir> {
        let dirs = self.dirs.iter();
        let dirs = dirs.filter(|_| !self.filter.elsewhere);
        dirs.filter(move |dir| path.starts_with(&dir.path))
    }

    /// Returns the target root.
    pub(crate) fn target(&self, to: Option<&Path>) -> Result<Root> {
        if self.filter.elsewhere && to.is_none() {
            return Err(Error::refused(format!(
                "{} is not in the archive, so its recorded root is not trusted; name the root with --to DIR (recorded: {})",
                self.path.display(),
                self.root.display()
            )));
        }
        let path = to.unwrap_or(&self.root);
        Ok(Root::with_layout(self.archive.layout, path))
    }
}
