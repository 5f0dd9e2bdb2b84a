//! Resolves an id prefix or a path to an archived session.

use std::path::Path;
use std::sync::Arc;

use super::Archive;
use super::ROOT_ID;
use crate::archive_format::archived_session::{ArchivedSession, group};
use crate::archive_format::root_archive::{RootArchive, has_lost_root};
use crate::archive_format::verify::Damage;
use crate::error::{Error, Result};
use crate::store::Root;
use annals_jsonl as jsonl;
use annals_layouts::Subject;

impl Archive {
    /// Finds an archived session by an id prefix, optionally with the tag of its folder
    /// (`8c549c46.1f2e3d4c`), by the original path of its log, or by the path of one of its
    /// compressed files. [`ROOT_ID`] finds the files that belong to no session.
    pub fn find(&self, id: &str) -> Result<ArchivedSession> {
        self.find_in(id, None)
    }

    /// Like [`find`](Self::find), limited to `roots`.
    pub fn find_in(&self, id: &str, roots: Option<&[Root]>) -> Result<ArchivedSession> {
        only(id, self.matching(id, roots)?)
    }

    /// Returns all archived sessions that match `id`; at least one.
    pub(super) fn matching(
        &self,
        id: &str,
        roots: Option<&[Root]>,
    ) -> Result<Vec<ArchivedSession>> {
        if id.contains('/') {
            return self.at(Path::new(id)).map(|found| vec![found]);
        }
        self.matching_among(id, roots, &self.sessions_in(roots)?)
    }

    /// Like [`matching`](Self::matching) for an id, among what was read of `roots`.
    pub(super) fn matching_among(
        &self,
        id: &str,
        roots: Option<&[Root]>,
        (sessions, damaged): &(Vec<ArchivedSession>, Vec<Damage>),
    ) -> Result<Vec<ArchivedSession>> {
        let missing = || match id {
            ROOT_ID => nothing_of_roots(roots),
            _ => Error::NotFound {
                what: Subject::ArchivedSession,
                id: id.to_owned(),
            },
        };
        if id.is_empty() {
            return Err(missing());
        }
        let fitting = |fits: &dyn Fn(&ArchivedSession) -> bool| -> Vec<ArchivedSession> {
            sessions.iter().filter(|it| fits(it)).cloned().collect()
        };
        let mut found = fitting(&|it| it.matches_id(id));
        if found.iter().any(|it| it.has_session(id)) {
            found.retain(|it| it.has_session(id));
        }
        if found.is_empty() {
            found = fitting(&|it| it.is_tagged(id));
        }
        let mut damaged = damaged.iter().cloned();
        let unreadable = match found.is_empty() {
            true => damaged.by_ref().find(|it| it.is_unread || it.is_refused),
            false => None,
        };
        damaged.for_each(|damage| self.failures.report(damage.into()));
        match found.is_empty() {
            true => Err(unreadable.map_or_else(missing, Error::from)),
            false => Ok(found),
        }
    }

    /// Finds an archived session by the path of a compressed file, or by the path of its log.
    fn at(&self, path: &Path) -> Result<ArchivedSession> {
        let absolute = std::path::absolute(path).map_err(|e| Error::io("find", path, e))?;
        let real = absolute.canonicalize().ok();
        let (sessions, damaged) = self.sessions()?;
        let is_it = |it: &ArchivedSession| {
            let log = it.main_log().map(|main| it.root.join(&main.path));
            log.is_some_and(|log| log == absolute || Some(&log) == real.as_ref())
        };
        if let Some(found) = sessions.into_iter().find(is_it) {
            return Ok(found);
        }
        let found = stored_at(&absolute)?.ok_or_else(|| match path.exists() {
            true => Error::refused(format!("{} is not a file of an archive", path.display())),
            false => Error::io("find", path, std::io::ErrorKind::NotFound.into()),
        })?;
        damaged
            .into_iter()
            .for_each(|damage| self.failures.report(damage.into()));
        Ok(self.mark_foreign(found))
    }
}

/// Returns the archived session of a compressed file, or the files that belong to no session for the
/// directory of a root's archive, wherever it is.
pub(super) fn stored_at(path: &Path) -> Result<Option<ArchivedSession>> {
    for dir in path.ancestors() {
        // A directory above may have a file with the name of the manifest.
        if has_lost_root(dir) {
            continue;
        }
        let Some(archive) = RootArchive::open(dir)? else {
            continue;
        };
        let manifest = archive.read()?;
        let archive = Arc::new(archive);
        let mut all = group(&archive, &manifest).into_iter();
        return Ok(all.find(|it| match path == dir {
            true => it.has_no_session(),
            false => it.all().any(|member| it.location(member) == path),
        }));
    }
    Ok(None)
}

impl ArchivedSession {
    /// Describes it in a list of candidates.
    fn described(&self) -> String {
        let log = self.main_log().map(|main| self.root.join(&main.path));
        let log = log.unwrap_or_else(|| self.root.clone());
        let there = match jsonl::exists(&log) {
            Ok(true) => "present",
            Ok(false) => "deleted",
            Err(_) => "unreadable",
        };
        let mut name = self
            .sessions
            .first()
            .map_or(ROOT_ID, |it| &it.id)
            .to_owned();
        if let Some(tag) = self.tag() {
            name = format!("{name}.{tag}");
        }
        let log = log.display();
        format!("{name}: {log}, {there}, archived {:.0}", self.archived())
    }
}

/// Returns the only archived session, or an error if several match.
pub(super) fn only(id: &str, mut found: Vec<ArchivedSession>) -> Result<ArchivedSession> {
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            let all = found.iter().chain(&last);
            Err(Error::Ambiguous {
                what: Subject::ArchivedSession,
                id: id.to_owned(),
                candidates: all.map(ArchivedSession::described).collect(),
            })
        }
    }
}

/// Returns the error for roots that have no archived files outside sessions (plans, settings,
/// prompt history).
fn nothing_of_roots(roots: Option<&[Root]>) -> Error {
    let of = match roots {
        Some([only]) => format!("of {}", only.path.display()),
        _ => "of any root".to_owned(),
    };
    Error::refused(format!(
        "no files outside sessions {of} are archived (plans, settings, prompt history); `annals keep` archives them if there are any"
    ))
}
