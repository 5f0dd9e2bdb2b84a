//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use crate::layout::{own_files, path_parts};
use crate::model::{AgentId, Artifact, ArtifactKind, EntryKey, Framing, SessionId};

use super::fold;

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        ["projects" | "todos"] => true,
        ["projects", folder] => is_folder(folder),
        ["projects", folder, "chats" | "subagents"] => is_folder(folder),
        ["projects", folder, "subagents", session] => {
            is_folder(folder) && is_folder(session) && SessionId::new(session).is_ok()
        }
        _ => own_files::may_hold_files(dir),
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    match *path_parts(path)?.as_slice() {
        ["todos", file] => {
            // The main agent is named by the session, as in all layouts.
            let session = file.strip_suffix(".json")?;
            Some(Artifact {
                session: Some(SessionId::new(session).ok()?),
                agent: Some(AgentId::new(session).ok()?),
                ..Artifact::new(ArtifactKind::Todos)
            })
        }
        ["projects", folder, "chats", file] if is_folder(folder) => Some(Artifact {
            folder: Some(folder.to_owned()),
            session: Some(SessionId::new(file.strip_suffix(".jsonl")?).ok()?),
            framing: Framing::Document(&fold::CHAT),
            ..Artifact::new(ArtifactKind::SessionLog)
        }),
        ["projects", folder, "subagents", session, file]
            if is_folder(folder) && is_folder(session) =>
        {
            let name = file.strip_prefix("agent-")?;
            let framing = Framing::Document(&fold::CHAT);
            let (agent, kind, framing) = match name.strip_suffix(".meta.json") {
                Some(agent) => (agent, ArtifactKind::AgentMeta, Framing::Lines),
                None => (
                    name.strip_suffix(".jsonl")?,
                    ArtifactKind::AgentLog,
                    framing,
                ),
            };
            Some(Artifact {
                folder: Some(folder.to_owned()),
                session: Some(SessionId::new(session).ok()?),
                agent: Some(AgentId::new(agent).ok()?),
                framing,
                ..Artifact::new(kind)
            })
        }
        _ => own_files::classify(path).filter(is_own_file),
    }
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    let session = artifact.session.as_ref().map(SessionId::as_str);
    let agent = artifact.agent.as_ref().map(AgentId::as_str);
    match (artifact.kind, &artifact.folder, session, agent) {
        (K::Todos, _, Some(session), _) if !is_own_file(artifact) => {
            format!("todos/{session}.json").into()
        }
        (K::SessionLog, Some(folder), Some(session), _) => {
            format!("projects/{folder}/chats/{session}.jsonl").into()
        }
        (K::AgentLog | K::AgentMeta, Some(folder), Some(session), Some(agent)) => {
            let ending = match artifact.kind {
                K::AgentLog => "jsonl",
                _ => "meta.json",
            };
            format!("projects/{folder}/subagents/{session}/agent-{agent}.{ending}").into()
        }
        _ if is_own_file(artifact) => own_files::path_for(artifact).unwrap_or_default(),
        // The layout has no such files.
        _ => PathBuf::new(),
    }
}

/// Returns whether the program has no place for such a file: it has one for todos of the main agent and
/// for logs of sub-agents.
pub(super) fn is_own_file(artifact: &Artifact) -> bool {
    let session = artifact.session.as_ref().map(SessionId::as_str);
    let agent = artifact.agent.as_ref().map(AgentId::as_str);
    match artifact.kind {
        ArtifactKind::Origin => true,
        ArtifactKind::Todos => agent.is_some() && agent != session,
        _ => false,
    }
}

/// Returns the folder for sessions of a directory.
pub(super) fn folder(directory: &str) -> String {
    let plain = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    directory.chars().map(plain).collect()
}

/// Position of the digit for the version in a UUID.
const VERSION: usize = 14;

/// Returns whether the program resumes a session by this id: a UUID of one of the versions 1 to 5. It
/// takes any other for a title.
pub(super) fn is_session(id: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        VERSION => matches!(byte, b'1'..=b'5'),
        19 => b"89abAB".contains(&byte),
        _ => byte.is_ascii_hexdigit(),
    };
    id.len() == 36 && id.bytes().enumerate().all(fits)
}

/// Returns an id that the program accepts, made from another one.
pub(super) fn derived_id(id: &str) -> String {
    let mut derived = EntryKey::from_text(id).derived_uuid();
    // The version for ids that are made from names.
    derived.replace_range(VERSION..=VERSION, "5");
    derived
}

fn is_folder(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}
