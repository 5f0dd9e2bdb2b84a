//! From what a person types to the pack they mean.

use std::path::Path;

use super::pack::Pack;
use super::pack_index::PackIndex;
use super::root_files::ROOT_ID;
use super::{Archive, is_of};
use crate::error::{Error, Result};
use crate::jsonl;
use crate::store::Root;

impl Archive {
    /// The pack of an archived session: by a beginning of its id, which the tag of its folder may follow
    /// (`8c549c46.1f2e3d4c`), by the path that its log had, or by its own path; by the name [`ROOT_ID`] that of
    /// what belongs to no session.
    pub fn find(&self, id: &str) -> Result<Pack> {
        self.find_in(id, None)
    }

    /// The same, of these roots alone.
    pub fn find_in(&self, id: &str, roots: Option<&[Root]>) -> Result<Pack> {
        only(id, self.matching(id, roots)?)
    }

    /// The packs that such a text may mean; at least one.
    pub(super) fn matching(&self, id: &str, roots: Option<&[Root]>) -> Result<Vec<Pack>> {
        if id.contains('/') {
            return self.at(Path::new(id)).map(|pack| vec![pack]);
        }
        let missing = || match id {
            ROOT_ID => nothing_of_roots(roots),
            _ => Error::NotFound {
                what: "archived session",
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

    /// A pack by its path, or by that of its session's log.
    fn at(&self, path: &Path) -> Result<Pack> {
        match self.find_by_log(path)? {
            Some(pack) => Ok(pack),
            None => Pack::open(path).map(|pack| self.mark_foreign(pack)),
        }
    }

    /// The pack of the session whose log lies at a path, or lay there.
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
    /// What tells it from other packs of its session, by its name: the tag of the folder.
    pub fn tag(&self) -> Option<&str> {
        let name = self.path.file_name()?.to_str()?.strip_suffix(".pack")?;
        let (session, tag) = name.rsplit_once('.')?;
        let own = self.index.sessions.first()?;
        (own.id == session).then_some(tag)
    }

    /// Whether this is a beginning of its session's id, and one of its tag.
    fn is_tagged(&self, text: &str) -> bool {
        let text = text.strip_suffix(".pack").unwrap_or(text);
        let parts = text.rsplit_once('.').zip(self.tag());
        parts.is_some_and(|((id, tag), own)| {
            !tag.is_empty() && own.starts_with(tag) && !id.is_empty() && self.matches_id(id)
        })
    }

    /// What it is called among others, and what tells it from them.
    fn described(&self) -> String {
        let index = &self.index;
        let log = index.main_log().map(|main| index.root.join(&main.path));
        let log = log.unwrap_or_else(|| index.root.clone());
        let there = match jsonl::exists(&log) {
            Ok(true) => "there",
            Ok(false) => "gone",
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

/// The only one of the packs that a text may mean.
pub(super) fn only(id: &str, mut found: Vec<Pack>) -> Result<Pack> {
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            let all = found.iter().chain(&last);
            Err(Error::Ambiguous {
                what: "archived session",
                id: id.to_owned(),
                candidates: all.map(Pack::described).collect(),
            })
        }
    }
}

/// Nothing of a root is kept but sessions: there is no plan, no settings, nothing that was typed.
fn nothing_of_roots(roots: Option<&[Root]>) -> Error {
    let of = match roots {
        Some([only]) => format!("of {}", only.path.display()),
        _ => "of any root".to_owned(),
    };
    Error::refused(format!(
        "nothing {of} is archived that belongs to no session: plans, settings, what was typed; `annals keep` archives it if there is any"
    ))
}
