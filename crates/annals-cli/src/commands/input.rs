//! Input that several verbs take from the command line or from standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use annals::Subject;
use annals::layout::NewSession;
use annals::model::{EntryId, SessionId};
use annals::store::{Root, Session};
use anyhow::{Context as _, Result, bail};

use crate::context::{Context, is_latest};

/// Returns the text of an argument: itself, `-` for standard input, `@FILE` for a file.
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

/// Reads all of standard input as text. A terminal is refused, because it would wait forever.
pub(crate) fn read_stdin(what: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        bail!("standard input is a terminal; pipe the {what} in");
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

/// Returns a text, or an error if it is empty.
pub(crate) fn non_empty<'a>(text: &'a str, what: &str) -> Result<&'a str> {
    match text.trim() {
        "" => bail!("the {what} is empty"),
        _ => Ok(text),
    }
}

/// Refuses an id that a session has already, in any folder.
pub(crate) fn check_unused(context: &Context, id: &SessionId) -> Result<()> {
    // A root that does not exist yet is not an error here.
    let inventory = context.store.inventory();
    match inventory.sessions.iter().find(|files| files.id == *id) {
        Some(files) => bail!(
            "session {id} exists already: {}",
            files.main_path().display()
        ),
        None => Ok(()),
    }
}

/// Refuses `latest` and `last`, which commands take for the latest session.
fn refuse_latest(given: Option<&str>) -> Result<()> {
    match given.filter(|given| is_latest(given)) {
        Some(given) => bail!(
            "`{given}` cannot be the id of a session: it means the session that was used last"
        ),
        None => Ok(()),
    }
}

/// Returns the id of a new session: as given, else a new UUID.
pub(crate) fn new_id(given: Option<&str>) -> Result<SessionId> {
    refuse_latest(given)?;
    match given {
        // UUIDs that differ only in case would be one file on some systems. Other names stay as
        // given.
        Some(id) if uuid::Uuid::try_parse(id).is_ok() => {
            Ok(SessionId::new(&id.to_ascii_lowercase())?)
        }
        Some(id) => Ok(SessionId::new(id)?),
        None => Ok(SessionId::new(&uuid::Uuid::new_v4().to_string())?),
    }
}

/// Returns a new session with the given id, else with a new one.
pub(crate) fn new_session(root: &Root, given: Option<&str>, cwd: &Path) -> Result<NewSession> {
    refuse_latest(given)?;
    let cwd = cwd.to_string_lossy();
    let writer = root.layout.writer();
    match (given, writer) {
        // If logs store the exact id, it may be any text.
        (Some(id), Some(writer)) if writer.path_name(id).is_some() => {
            Ok(NewSession::named(writer, id, cwd)?)
        }
        (None, _) => Ok(NewSession::unnamed(cwd)?),
        _ => Ok(NewSession::new(new_id(given)?, cwd)),
    }
}

/// Finds an entry of a log's tree by its id or a unique prefix.
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
            what: Subject::Message,
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
        // An exact id wins, even if others begin with it.
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
                    what: Subject::Message,
                    id: id.to_owned(),
                    candidates,
                }
                .into());
            }
        }
    };
    // Entries outside of the tree (titles, notes) cannot be parents.
    let in_tree = tree.path_to(at).is_some();
    let found = scan
        .outlines
        .get(at)
        .and_then(|outline| outline.id())
        .filter(|_| in_tree);
    Ok((at, found.ok_or_else(missing)?))
}

/// Returns a directory as agents record it: absolute, with links resolved if it exists.
pub(crate) fn resolve_directory(given: Option<&Path>) -> Result<PathBuf> {
    let path = absolute(given)?;
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    if path.to_str().is_none() {
        bail!("{} is not UTF-8, so no log can name it", path.display());
    }
    Ok(path)
}

/// Returns the directory of a new session, as the program of the root's layout spells it.
pub(crate) fn session_directory(root: &Root, given: Option<&Path>) -> Result<PathBuf> {
    let path = absolute(given)?;
    let path = path.to_str();
    match path.and_then(|path| root.layout.spelled_directory(path)) {
        Some(path) => Ok(path.into()),
        None => resolve_directory(given),
    }
}

/// Returns a warning if the directory of a new session does not exist. A root inside its project
/// takes no other directory.
pub(crate) fn missing_directory(root: &Root, cwd: &Path) -> Option<String> {
    let is_named = root.layout.project_dir().is_none();
    (is_named && !cwd.is_dir()).then(|| {
        format!(
            "{} is not an existing directory; the session was created anyway",
            cwd.display()
        )
    })
}

fn absolute(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) if path.as_os_str().is_empty() => bail!("the directory's name is empty"),
        Some(path) => Ok(
            std::path::absolute(path).map_err(|error| annals::Error::io("find", path, error))?
        ),
        None => std::env::current_dir()
            .context("the current directory no longer exists; name one with --cwd"),
    }
}

/// Returns the git branch checked out in a directory or above it; `HEAD` if detached.
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

/// Prints what follows from a list of sessions that only the layout's program writes.
pub(super) fn note_unlisted(context: &mut Context, root: &Root) {
    if let Some((file, note)) = root.layout.spec().unlisted_in
        && root.path.join(file).exists()
    {
        context.print_note_once(note);
    }
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
