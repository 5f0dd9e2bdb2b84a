//! Resolves an id prefix or a path to a pack.

use std::path::Path;

use super::pack::Pack;
use super::pack_index::PackIndex;
use super::root_files::ROOT_ID;
use super::{Archive, is_of};
use crate::error::{Error, Result};
use crate::store::Root;
use annals_jsonl as jsonl;
use annals_layouts::Subject;

impl Archive {
    /// Finds the pack of an archived session by an id prefix, optionally with the tag of its folder
    /// (`8c549c46.1f2e3d4c`), by the original path of its log, or by the pack's own path.
    /// [`ROOT_ID`] finds the pack of files that belong to no session.
    pub fn find(&self, id: &str) -> Result<Pack> {
        self.find_in(id, None)
    }

    /// Like [`find`](Self::find), limited to `roots`.
    pub fn find_in(&self, id: &str, roots: Option<&[Root]>) -> Result<Pack> {
        only(id, self.matching(id, roots)?)
    }

    /// Returns all packs that match `id`; at least one.
    pub(super) fn matching(&self, id: &str, roots: Option<&[Root]>) -> Result<Vec<Pack>> {
        if id.contains('/') {
            return self.at(Path::new(id)).map(|pack| vec![pack]);
        }
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
        let (mut found, mut tagged) = (Vec::new(), Vec::new());
        let mut unreadable = None;
        for path in self.pack_paths_in(roots)? {
            match Pack::open(&path) {
                Ok(pack) if pack.matches_id(id) => found.push(pack),
                Ok(pack) => tagged.extend(pack.is_tagged(id).then_some(pack)),
                Err(error) if is_of(&path, id) => unreadable = Some(error),
                Err(error) => self.failures.report(error),
            }
        }
        if found.iter().any(|pack| pack.has_session(id)) {
            found.retain(|pack| pack.has_session(id));
        }
        if found.is_empty() {
            found = tagged;
        }
        match found.is_empty() {
            true => Err(unreadable.unwrap_or_else(missing)),
            false => Ok(found),
        }
    }

    /// Finds a pack by its own path or by the path of its session's log.
    fn at(&self, path: &Path) -> Result<Pack> {
        match self.find_by_log(path)? {
            Some(pack) => Ok(pack),
            None => Pack::open(path).map(|pack| self.mark_foreign(pack)),
        }
    }

    /// Finds the pack of the session whose log is, or was, at `path`.
    pub(super) fn find_by_log(&self, path: &Path) -> Result<Option<Pack>> {
        if path.extension().is_some_and(|ending| ending == "pack") {
            return Ok(None);
        }
        let absolute = std::path::absolute(path).map_err(|e| Error::io("find", path, e))?;
        let real = absolute.canonicalize().ok();
        let is_it = |index: &PackIndex| {
            let log = index.main_log().map(|main| index.root.join(&main.path));
            log.is_some_and(|log| log == absolute || Some(&log) == real.as_ref())
        };
        for pack in self.packs()? {
            match pack {
                Ok(pack) if is_it(&pack.index) => return Ok(Some(pack)),
                Ok(_) => {}
                Err(error) => self.failures.report(error),
            }
        }
        Ok(None)
    }
}

impl Pack {
    /// Returns the folder tag in the pack's name, which distinguishes packs of the same session.
    pub fn tag(&self) -> Option<&str> {
        let name = self.path.file_name()?.to_str()?.strip_suffix(".pack")?;
        let (session, tag) = name.rsplit_once('.')?;
        let own = self.index.sessions.first()?;
        (own.id == session).then_some(tag)
    }

    /// Returns whether `text` is a prefix of the session's id, a dot and a prefix of the tag.
    fn is_tagged(&self, text: &str) -> bool {
        let text = text.strip_suffix(".pack").unwrap_or(text);
        let parts = text.rsplit_once('.').zip(self.tag());
        parts.is_some_and(|((id, tag), own)| {
            !tag.is_empty() && own.starts_with(tag) && !id.is_empty() && self.matches_id(id)
        })
    }

    /// Describes the pack in a list of candidates.
    fn described(&self) -> String {
        let index = &self.index;
        let log = index.main_log().map(|main| index.root.join(&main.path));
        let log = log.unwrap_or_else(|| index.root.clone());
        let there = match jsonl::exists(&log) {
            Ok(true) => "present",
            Ok(false) => "deleted",
            Err(_) => "unreadable",
        };
        let mut name = index
            .sessions
            .first()
            .map_or(ROOT_ID, |it| &it.id)
            .to_owned();
        if let Some(tag) = self.tag() {
            name = format!("{name}.{tag}");
        }
        let log = log.display();
        format!("{name}: {log}, {there}, archived {:.0}", index.archived)
    }
}

/// Returns the only pack, or an error if several match.
pub(super) fn only(id: &str, mut found: Vec<Pack>) -> Result<Pack> {
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            let all = found.iter().chain(&last);
            Err(Error::Ambiguous {
                what: Subject::ArchivedSession,
                id: id.to_owned(),
                candidates: all.map(Pack::described).collect(),
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
