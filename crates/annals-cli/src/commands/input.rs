//! What several verbs take from the command line or from standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use annals::layout::NewSession;
use annals::model::{EntryId, SessionId};
use annals::store::{Root, Session};
use anyhow::{Context as _, Result, bail};

use crate::context::{Context, is_latest};

/// A text given as an argument: itself, `-` for standard input, `@FILE` for a file.
pub(crate) fn text(argument: &str, what: &str) -> Result<String> {
    let text = match argument.strip_prefix('@') {
        _ if argument == "-" => read_stdin(what)?,
        Some(path) if !path.is_empty() => {
            std::fs::read_to_string(path).map_err(|error| annals::Error::io("read", path, error))?
        }
        _ => argument.to_owned(),
    };
    if text.trim().is_empty() {
        bail!("the {what} is empty");
    }
    Ok(text)
}

/// All of standard input as text; a terminal would wait for ever.
pub(crate) fn read_stdin(what: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        bail!("the {what} should come from standard input, which is a terminal; pipe it in");
    }
    stdin
        .read_to_end(&mut bytes)
        .context("cannot read standard input")?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error
            .as_bytes()
            .iter()
            .take(at)
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        anyhow::anyhow!("standard input, line {line}: not UTF-8 (byte {at})")
    })
}

/// A text that must not be empty.
pub(crate) fn non_empty<'a>(text: &'a str, what: &str) -> Result<&'a str> {
    match text.trim() {
        "" => bail!("the {what} is empty"),
        _ => Ok(text),
    }
}

/// Refuses an id that a session has already, in whatever folder.
pub(crate) fn check_unused(context: &Context, id: &SessionId) -> Result<()> {
    // A root that is to be is no trouble here.
    let inventory = context.store.inventory();
    match inventory.sessions.iter().find(|files| files.id == *id) {
        Some(files) => bail!(
            "there is a session {id} already: {}",
            files.main_path().display()
        ),
        None => Ok(()),
    }
}

/// Refuses an id that commands take for something else.
fn refuse_latest(given: Option<&str>) -> Result<()> {
    if given.is_some_and(is_latest) {
        bail!("`latest` cannot be the id of a session: it means the session that was used last");
    }
    Ok(())
}

/// A new session's id: as given, else a fresh one.
pub(crate) fn new_id(given: Option<&str>) -> Result<SessionId> {
    refuse_latest(given)?;
    match given {
        // UUIDs that differ only in case would be one file on some systems. Other names are their
        // program's.
        Some(id) if uuid::Uuid::try_parse(id).is_ok() => {
            Ok(SessionId::new(&id.to_ascii_lowercase())?)
        }
        Some(id) => Ok(SessionId::new(id)?),
        None => Ok(SessionId::new(&uuid::Uuid::new_v4().to_string())?),
    }
}

/// A new session under the id as given, else under a fresh one.
pub(crate) fn new_session(root: &Root, given: Option<&str>, cwd: &Path) -> Result<NewSession> {
    refuse_latest(given)?;
    let cwd = cwd.to_string_lossy();
    let writer = root.layout.writer();
    match (given, writer) {
        // Where logs hold the exact id, it may be any text.
        (Some(id), Some(writer)) if writer.path_name(id).is_some() => {
            Ok(NewSession::named(writer, id, cwd)?)
        }
        (None, _) => Ok(NewSession::unnamed(cwd)?),
        _ => Ok(NewSession::new(new_id(given)?, cwd)),
    }
}

/// An entry of a log's tree, by its id or a unique beginning of it.
pub(crate) fn entry(session: &Session, log: usize, id: &str) -> Result<(usize, EntryId)> {
    const MAX_SHOWN: usize = 100;
    let missing = || {
        let mut shown: String = id
            .chars()
            .take(MAX_SHOWN)
            .flat_map(char::escape_debug)
            .collect();
        if id.chars().nth(MAX_SHOWN).is_some() {
            shown.push('…');
        }
        annals::Error::NotFound {
            what: "message",
            id: shown,
        }
    };
    let (_, scan, tree) = session.log(log).ok_or_else(missing)?;
    let at = if log == 0 && session.files.log.is_some() {
        session.find_entry(id).map_err(|error| match error {
            annals::Error::NotFound { .. } => missing(),
            other => other,
        })?
    } else {
        let fits = |at: &usize| {
            let other = scan.outlines.get(*at).and_then(|outline| outline.id());
            other.is_some_and(|other| !id.is_empty() && other.as_str().starts_with(id))
        };
        let mut found: Vec<usize> = (0..scan.outlines.len()).filter(fits).collect();
        // A whole id is meant by itself, even if others begin with it.
        let key = Some(EntryId::new(id).key());
        let is_exact = |at: &usize| scan.outlines.get(*at).is_some_and(|it| it.key == key);
        if let Some(exact) = found.iter().copied().rfind(is_exact) {
            found = vec![exact];
        }
        match found.as_slice() {
            [] => return Err(missing().into()),
            [only] => *only,
            many => {
                let ids = many
                    .iter()
                    .filter_map(|&at| Some(scan.outlines.get(at)?.id()?.to_string()));
                let candidates: Vec<String> = ids.collect();
                return Err(annals::Error::Ambiguous {
                    what: "message",
                    id: id.to_owned(),
                    candidates,
                }
                .into());
            }
        }
    };
    // What stands beside the tree (titles, notes) cannot be gone on from.
    let in_tree = tree.path_to(at).is_some();
    let found = scan
        .outlines
        .get(at)
        .and_then(|outline| outline.id())
        .filter(|_| in_tree);
    Ok((at, found.ok_or_else(missing)?))
}

/// A directory as agents record it: absolute, and without links where it exists.
pub(crate) fn resolve_directory(given: Option<&Path>) -> Result<PathBuf> {
    let path = absolute(given)?;
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    if path.to_str().is_none() {
        bail!("{} is not UTF-8, so no log can name it", path.display());
    }
    Ok(path)
}

/// The directory of a new session, as the program of the root's layout spells it.
pub(crate) fn session_directory(root: &Root, given: Option<&Path>) -> Result<PathBuf> {
    let path = absolute(given)?;
    let path = path.to_str();
    match path.and_then(|path| root.layout.spelled_directory(path)) {
        Some(path) => Ok(path.into()),
        None => resolve_directory(given),
    }
}

fn absolute(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) if path.as_os_str().is_empty() => bail!("the directory's name is empty"),
        Some(path) => Ok(
            std::path::absolute(path).map_err(|error| annals::Error::io("find", path, error))?
        ),
        None => {
            std::env::current_dir().context("the current directory is gone; name one with --cwd")
        }
    }
}

/// The git branch checked out in a directory or above it; `HEAD` where none is.
pub(crate) fn git_branch(dir: &Path) -> Option<String> {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let head = dir.ancestors().find_map(|dir| {
        let git = dir.join(".git");
        let folder = match std::fs::read_to_string(&git) {
            // A worktree's `.git` is a file that names its folder.
            Ok(text) => dir.join(text.trim().strip_prefix("gitdir:")?.trim()),
            Err(_) => git,
        };
        std::fs::read_to_string(folder.join("HEAD")).ok()
    })?;
    let head = head.trim();
    let branch = head.strip_prefix("ref: refs/heads/").unwrap_or("HEAD");
    Some(branch.to_owned()).filter(|branch| !branch.is_empty() && branch.len() < 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_branch_searches_parents_and_worktrees() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("main");
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(main.join(".git/worktrees/tree")).unwrap();
        std::fs::create_dir_all(main.join("src/deep")).unwrap();
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(main.join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        std::fs::write(main.join(".git/worktrees/tree/HEAD"), "0123abcd\n").unwrap();
        std::fs::write(tree.join(".git"), "gitdir: ../main/.git/worktrees/tree\n").unwrap();
        assert_eq!(
            git_branch(&main.join("src/deep")).as_deref(),
            Some("feature/x")
        );
        assert_eq!(git_branch(&tree).as_deref(), Some("HEAD"));
        assert_eq!(
            git_branch(&folder.path().join("none")),
            git_branch(folder.path())
        );
    }
}
