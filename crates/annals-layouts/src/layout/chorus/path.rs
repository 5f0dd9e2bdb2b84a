//! Mapping between paths and artifacts.

use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::layout::{AGENT_SEPARATOR, ORIGIN_FILE, PlanContext};
use crate::model::{AgentId, Artifact, ArtifactKind, SessionId};

pub(super) const CONFIG: &str = "config.json";
pub(super) const SESSION_LIST: &str = "conversations.json";

/// Suffixes of the files of a conversation.
const SUFFIXES: [(&str, ArtifactKind); 4] = [
    ("-messages.jsonl", ArtifactKind::SessionLog),
    ("-notes.jsonl", ArtifactKind::Notes),
    ("-todos.json", ArtifactKind::Todos),
    ("-annals-origin.jsonl", ArtifactKind::Origin),
];

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match parts(dir).unwrap_or_default().as_slice() {
        ["sessions", folders @ ..] => {
            folders.len() <= 2 && folders.iter().all(|name| is_safe_name(name))
        }
        _ => false,
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    match *parts(path)?.as_slice() {
        [CONFIG] => Some(Artifact::new(ArtifactKind::SessionList)),
        [ORIGIN_FILE] => Some(Artifact::new(ArtifactKind::Origin)),
        ["sessions", workspace, agent, file] if is_safe_name(workspace) && is_safe_name(agent) => {
            let folder = Some(format!("{workspace}/{agent}"));
            let artifact = match file {
                SESSION_LIST => Artifact::new(ArtifactKind::SessionList),
                file => classify_conversation_file(file)?,
            };
            Some(Artifact { folder, ..artifact })
        }
        _ => None,
    }
}

fn classify_conversation_file(file: &str) -> Option<Artifact> {
    let (stem, kind) = SUFFIXES
        .iter()
        .find_map(|(ending, kind)| Some((file.strip_suffix(ending)?, *kind)))?;
    let (session, agent) = owner(stem)?;
    let (kind, agent) = match (kind, agent) {
        (ArtifactKind::SessionLog, Some(agent)) => (ArtifactKind::AgentLog, Some(agent)),
        // The main agent's todos are named by the conversation alone; there is no second name.
        (ArtifactKind::Todos, Some(agent)) if agent.as_str() == session.as_str() => return None,
        (ArtifactKind::Todos, None) => (kind, Some(AgentId::new(session.as_str()).ok()?)),
        other => other,
    };
    Some(Artifact {
        session: Some(session),
        agent,
        ..Artifact::new(kind)
    })
}

/// Returns the conversation and the sub-agent that a file name stem stands for.
pub(super) fn owner(stem: &str) -> Option<(SessionId, Option<AgentId>)> {
    if let Some((session, agent)) = stem.split_once(AGENT_SEPARATOR)
        && let (Ok(session), Ok(agent)) = (SessionId::new(session), AgentId::new(agent))
    {
        return Some((session, Some(agent)));
    }
    Some((SessionId::new(stem).ok()?, None))
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    let folder = || {
        let mut path = PathBuf::from("sessions");
        path.extend(&artifact.folder);
        path
    };
    let beside = |ending: &str| folder().join(format!("{}{ending}", stem(artifact)));
    match artifact.kind {
        K::SessionList if artifact.folder.is_some() => folder().join(SESSION_LIST),
        K::SessionList => CONFIG.into(),
        K::SessionLog | K::AgentLog => beside("-messages.jsonl"),
        K::Notes => beside("-notes.jsonl"),
        K::Todos => beside("-todos.json"),
        K::Origin if artifact.session.is_some() => beside("-annals-origin.jsonl"),
        K::Origin => ORIGIN_FILE.into(),
        // The layout has no such files.
        _ => PathBuf::new(),
    }
}

/// Returns the id of a new conversation: `wanted`, or another if that would name a sub-agent's log.
pub(super) fn new_session_id(wanted: &SessionId, stamp: &mut PlanContext<'_>) -> Result<SessionId> {
    match owner(wanted.as_str()) {
        Some((_, Some(_))) => {
            let plain: String = wanted.as_str().replace(AGENT_SEPARATOR, "-agent-");
            let plain: String = plain.chars().take(100).collect();
            let fresh: String = (stamp.new_id)().chars().take(8).collect();
            SessionId::new(&format!("{plain}-{fresh}"))
        }
        _ => Ok(wanted.clone()),
    }
}

/// Returns the file name stem of an artifact's conversation: its id and that of its sub-agent.
pub(super) fn stem(artifact: &Artifact) -> String {
    let session = artifact.session.as_ref().map_or("", SessionId::as_str);
    match artifact.agent.as_ref().map(AgentId::as_str) {
        Some(agent) if artifact.kind != ArtifactKind::Todos || agent != session => {
            format!("{session}{AGENT_SEPARATOR}{agent}")
        }
        _ => session.to_owned(),
    }
}

/// Returns the id of a workspace that annals creates for a directory.
pub(super) fn workspace_id(directory: &str) -> String {
    let digest = Sha256::digest(directory.as_bytes());
    let hex: String = digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("ws-{hex}")
}

/// Returns whether a name is valid in a path: the rule is that of session ids.
pub(super) fn is_safe_name(name: &str) -> bool {
    SessionId::new(name).is_ok()
}

/// Returns the components of a relative path; `None` for absolute paths, `..`, a leading `.`, and
/// paths that are not UTF-8.
fn parts(path: &Path) -> Option<Vec<&str>> {
    let name = |part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    };
    path.components().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_and_path_for_are_inverses() {
        use ArtifactKind as K;
        for (kind, agent, path) in [
            (K::SessionList, None, "config.json"),
            (K::Origin, None, "annals-origin.jsonl"),
            (K::SessionList, None, "sessions/w/a/conversations.json"),
            (K::SessionLog, None, "sessions/w/a/c1-messages.jsonl"),
            (K::SessionLog, None, "sessions/w/a/c--agent--messages.jsonl"),
            (
                K::AgentLog,
                Some("x"),
                "sessions/w/a/c1--agent-x-messages.jsonl",
            ),
            (
                K::AgentLog,
                Some("x--agent-y"),
                "sessions/w/a/c1--agent-x--agent-y-messages.jsonl",
            ),
            (K::Notes, None, "sessions/w/a/c1-notes.jsonl"),
            (K::Notes, Some("x"), "sessions/w/a/c1--agent-x-notes.jsonl"),
            (K::Todos, Some("c1"), "sessions/w/a/c1-todos.json"),
            (K::Todos, Some("x"), "sessions/w/a/c1--agent-x-todos.json"),
            (K::Origin, None, "sessions/w/a/c1-annals-origin.jsonl"),
        ] {
            let artifact = classify(Path::new(path)).expect(path);
            assert_eq!(artifact.kind, kind, "{path}");
            assert_eq!(
                artifact.agent.as_ref().map(AgentId::as_str),
                agent,
                "{path}"
            );
            assert_eq!(path_for(&artifact), Path::new(path));
        }
    }

    #[test]
    fn classify_ignores_foreign_files() {
        for path in [
            "sessions/w/c-messages.jsonl",
            "sessions/w/a/b/c-messages.jsonl",
            "sessions/../a/c-messages.jsonl",
            "sessions/.hidden/a/c-messages.jsonl",
            "sessions/w/a\tb/c-messages.jsonl",
            "sessions/w/a/-messages.jsonl",
            "sessions/w/a/.c-messages.jsonl",
            "sessions/w/a/c.jsonl",
            "sessions/w/a/c1--agent-c1-todos.json",
            "sessions/w/a/conversations.json.tmp",
            "sessions/conversations.json",
            "conversations.json",
        ] {
            assert_eq!(classify(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn workspace_id_is_derived_from_directory() {
        // printf %s /home/dev/app | sha256sum
        assert_eq!(workspace_id("/home/dev/app"), "ws-720d8948da0b");
    }
}
