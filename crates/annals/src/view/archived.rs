//! Archived sessions as JSON.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::archive::{ArchivedSession, Damage, FileLocator, Member};
use crate::error::Result;
use crate::root::Root;
use crate::store::Store;

/// Archived sessions, as `annals archive --list --json` prints them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ArchiveList {
    /// What is archived together, newest first.
    pub archived: Vec<ArchivedRow>,
    /// What is damaged.
    pub damaged: Vec<Damage>,
}

impl ArchiveList {
    /// Lists the archive, or the part of it that belongs to `roots`.
    pub fn new(store: &Store, roots: Option<&[Root]>) -> Result<Self> {
        let (mut sessions, mut damaged) = store.archive()?.sessions_in(roots)?;
        damaged.extend(sessions.iter().flat_map(ArchivedSession::missing_data));
        sessions.sort_by(|a, b| {
            let newest = b.archived().cmp(&a.archived());
            newest.then_with(|| a.path.cmp(&b.path))
        });
        Ok(ArchiveList {
            archived: ArchivedRow::list(store, sessions, false),
            damaged,
        })
    }

    /// Describes each file of one or more archived sessions, and its earlier versions.
    pub fn with_files(store: &Store, sessions: Vec<ArchivedSession>) -> Self {
        ArchiveList {
            archived: ArchivedRow::list(store, sessions, true),
            damaged: Vec::new(),
        }
    }
}

/// What is archived together: the files of a session, or files of a root that belong to none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchivedRow {
    /// The archived copies.
    pub session: ArchivedSession,
    /// Current path of each file in the root; `None` if it is not there.
    pub paths: Vec<Option<PathBuf>>,
    lists_files: bool,
}

impl ArchivedRow {
    fn list(store: &Store, sessions: Vec<ArchivedSession>, lists_files: bool) -> Vec<Self> {
        let mut locator = FileLocator::reporting_to(store.failures());
        let rows = sessions.into_iter().map(|session| ArchivedRow {
            paths: locator.locate(&session),
            session,
            lists_files,
        });
        rows.collect()
    }

    /// Returns the ids of its sessions; none for files that belong to no session.
    pub fn ids(&self) -> Vec<&str> {
        let ids = self.session.sessions.iter().map(|key| key.id.as_str());
        ids.collect()
    }

    /// Returns the length of its files.
    pub fn bytes(&self) -> u64 {
        self.session.members.iter().map(|member| member.len).sum()
    }

    /// Returns the number of its files that are still in the root.
    pub fn present(&self) -> usize {
        self.paths.iter().flatten().count()
    }

    /// Returns where the main log is in the root.
    pub fn log_path(&self) -> Option<&Path> {
        let main = &self.session.main_log()?.path;
        let mut files = self.session.members.iter().zip(&self.paths);
        let found = files.find(|(member, _)| member.path == *main);
        found.and_then(|(_, path)| path.as_deref())
    }

    /// Returns whether the folder of its files was renamed within the root.
    pub fn is_renamed(&self) -> bool {
        let main = self.session.main_log();
        let recorded = main.map(|main| self.session.root.join(&main.path));
        recorded
            .zip(self.log_path())
            .is_some_and(|(recorded, path)| recorded != path)
    }
}

impl Serialize for ArchivedRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let session = &self.session;
        let members = session.members.iter().zip(&self.paths);
        let members = members.map(|(member, path)| VersionJson {
            there: Some(path.is_some()),
            ..VersionJson::new(None, member)
        });
        let earlier = session.earlier.iter().enumerate();
        let earlier = earlier.map(|(at, member)| VersionJson::new(Some(at + 1), member));
        let row = ArchivedJson {
            sessions: self.ids(),
            layout: session.layout,
            root: &session.root,
            pack: &session.path,
            archived: session.archived(),
            generation: session.generation(),
            files: session.members.len(),
            bytes: self.bytes(),
            packed: session.packed(),
            earlier: session.earlier.len(),
            source: self.log_path().is_some(),
            there: self.present(),
            renamed: self.is_renamed(),
            members: self.lists_files.then(|| members.collect()),
            versions: self.lists_files.then(|| earlier.collect()),
        };
        row.serialize(serializer)
    }
}

#[derive(Serialize)]
struct ArchivedJson<'a> {
    /// Empty for files that belong to no session.
    sessions: Vec<&'a str>,
    layout: &'a str,
    root: &'a Path,
    /// The compressed main log, or the directory of the root's archive.
    pack: &'a Path,
    archived: Timestamp,
    generation: u64,
    files: usize,
    bytes: u64,
    packed: u64,
    /// Number of earlier versions of files that were replaced or truncated.
    earlier: usize,
    /// True if the main log is still in its root.
    source: bool,
    /// Number of files that are still in the root.
    there: usize,
    /// True if the folder of the files was renamed within the root.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    renamed: bool,
    /// Its files, if a session was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<VersionJson<'a>>>,
    /// Earlier versions, oldest first, if a session was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionJson<'a>>>,
}

#[derive(Serialize)]
struct VersionJson<'a> {
    /// Argument of `restore --earlier`; none for the newest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    path: &'a Path,
    bytes: u64,
    modified: Option<Timestamp>,
    /// Time when the replacement was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// True if the file is still in its root; none for earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    there: Option<bool>,
}

impl<'a> VersionJson<'a> {
    fn new(number: Option<usize>, member: &'a Member) -> Self {
        VersionJson {
            there: None,
            number,
            path: &member.path,
            bytes: member.len,
            modified: Timestamp::from_nanosecond(member.mtime_ns.into()).ok(),
            until: member.until,
        }
    }
}
