//! Files of annals in roots whose program has no place for their content.
//!
//! ```text
//! annals/[<folder>/]<session>/todos.json            todos of the main agent
//! annals/[<folder>/]<session>/todos-<agent>.json    todos of a sub-agent
//! annals/[<folder>/]<session>/agent-<agent>.jsonl   log of a sub-agent, where the program has none
//! annals/[<folder>/]<session>/annals-origin.jsonl   what the session was converted from
//! annals-origin.jsonl                               what the root was converted from
//! ```
//!
//! `<folder>` is the folder of the session's log, in layouts that have such folders.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::model::{AgentId, Artifact, ArtifactKind, SessionId, Todo};

use super::{AppendState, Edit, ORIGIN_FILE, is_removed, path_parts};

/// The directory.
const DIR: &str = "annals";

/// Returns whether a directory can contain such files.
pub(crate) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        [DIR] => true,
        [DIR, ref within @ ..] => within.len() <= 2 && within.iter().all(|name| is_name(name)),
        _ => false,
    }
}

/// Classifies such a file; `None` for any other.
pub(crate) fn classify(path: &Path) -> Option<Artifact> {
    use ArtifactKind as K;
    if is_removed(path) {
        return None;
    }
    let parts = path_parts(path)?;
    let (folder, session, file) = match *parts.as_slice() {
        [ORIGIN_FILE] => return Some(Artifact::new(K::Origin)),
        [DIR, session, file] => (None, session, file),
        [DIR, folder, session, file] if is_name(folder) => (Some(folder), session, file),
        _ => return None,
    };
    let session = SessionId::new(session).ok()?;
    let (kind, agent) = match file {
        ORIGIN_FILE => (K::Origin, None),
        // The main agent's todos are named by the session, as in all layouts.
        "todos.json" => (K::Todos, Some(AgentId::new(session.as_str()).ok()?)),
        _ => {
            let todos = file
                .strip_prefix("todos-")
                .and_then(|name| name.strip_suffix(".json"));
            let log = file
                .strip_prefix("agent-")
                .and_then(|name| name.strip_suffix(".jsonl"));
            let kind = if todos.is_some() {
                K::Todos
            } else {
                K::AgentLog
            };
            let agent = AgentId::new(todos.or(log)?).ok()?;
            if agent.as_str() == session.as_str() {
                return None;
            }
            (kind, Some(agent))
        }
    };
    Some(Artifact {
        folder: folder.map(str::to_owned),
        session: Some(session),
        agent,
        ..Artifact::new(kind)
    })
}

/// Returns the path of such a file; `None` for any other artifact.
pub(crate) fn path_for(artifact: &Artifact) -> Option<PathBuf> {
    use ArtifactKind as K;
    let Some(session) = &artifact.session else {
        return (artifact.kind == K::Origin).then(|| ORIGIN_FILE.into());
    };
    let agent = artifact.agent.as_ref().map(AgentId::as_str);
    let file = match (artifact.kind, agent) {
        (K::Origin, _) => ORIGIN_FILE.to_owned(),
        (K::Todos, Some(agent)) if agent == session.as_str() => "todos.json".to_owned(),
        (K::Todos, Some(agent)) => format!("todos-{agent}.json"),
        (K::AgentLog, Some(agent)) => format!("agent-{agent}.jsonl"),
        _ => return None,
    };
    let mut path = PathBuf::from(DIR);
    path.extend(&artifact.folder);
    Some(path.join(session.as_str()).join(file))
}

/// Returns the edit that replaces the todos of the agent whose log `head` describes.
pub(crate) fn todos_edit(head: &AppendState, folder: Option<&str>, todos: &[Todo]) -> Result<Edit> {
    let session = head.session.clone();
    let agent = match &head.agent {
        Some(agent) => agent.clone(),
        None => AgentId::new(session.as_str())?,
    };
    let file = Artifact {
        folder: folder.map(str::to_owned),
        session: Some(session),
        agent: Some(agent),
        ..Artifact::new(ArtifactKind::Todos)
    };
    let path = path_for(&file).unwrap_or_default();
    let bytes = super::write::encode(todos)?;
    Ok(Edit::Replace { path, bytes })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}
