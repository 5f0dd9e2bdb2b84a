//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use crate::layout::path_parts;
use crate::model::{AgentId, Artifact, ArtifactKind, Framing, SessionId};

use super::fold;

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        ["tmp"] => true,
        ["tmp", slug] => is_slug(slug),
        ["tmp", slug, "chats"] => is_slug(slug),
        ["tmp", slug, "chats", session] => is_slug(slug) && SessionId::new(session).is_ok(),
        _ => false,
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    use ArtifactKind as K;
    let in_folder = |kind, slug: &str| Artifact {
        folder: Some(slug.to_owned()),
        ..Artifact::new(kind)
    };
    Some(match *path_parts(path)?.as_slice() {
        ["projects.json"] => Artifact::new(K::SessionList),
        ["settings.json"] => Artifact::new(K::Settings),
        ["tmp", slug, ".project_root"] if is_slug(slug) => in_folder(K::SessionList, slug),
        ["tmp", slug, "logs.json"] if is_slug(slug) => Artifact {
            framing: Framing::Document(&fold::PROMPTS),
            ..in_folder(K::History, slug)
        },
        ["tmp", slug, "chats", file] if is_slug(slug) => {
            let (stem, framing) = stem(file)?;
            stem.strip_prefix("session-")?;
            Artifact {
                session: Some(SessionId::new(stem).ok()?),
                framing,
                ..in_folder(K::SharedLog, slug)
            }
        }
        ["tmp", slug, "chats", session, file] if is_slug(slug) => {
            let (stem, framing) = stem(file)?;
            Artifact {
                session: Some(SessionId::new(session).ok()?),
                agent: Some(AgentId::new(stem).ok()?),
                framing,
                ..in_folder(K::AgentLog, slug)
            }
        }
        _ => return None,
    })
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    let mut path = PathBuf::from("tmp");
    path.extend(&artifact.folder);
    let session = artifact.session.as_ref().map(SessionId::as_str);
    let agent = artifact.agent.as_ref().map(AgentId::as_str);
    let ending = match artifact.framing {
        Framing::Document(format) if *format == fold::DOCUMENT => "json",
        _ => "jsonl",
    };
    match (artifact.kind, session, agent) {
        (K::SessionList, _, _) if artifact.folder.is_none() => "projects.json".into(),
        (K::SessionList, _, _) => path.join(".project_root"),
        (K::Settings, _, _) => "settings.json".into(),
        (K::History, _, _) => path.join("logs.json"),
        (K::SharedLog, Some(session), _) => path.join(format!("chats/{session}.{ending}")),
        (K::AgentLog, Some(session), Some(agent)) => {
            path.join(format!("chats/{session}/{agent}.{ending}"))
        }
        // The layout has no such files.
        _ => PathBuf::new(),
    }
}

pub(super) fn is_program_file(path: &Path) -> bool {
    let parts = path_parts(path).unwrap_or_default();
    match *parts.as_slice() {
        ["history", ..] => true,
        ["tmp", "bin", ..] => true,
        ["tmp", _, file] => file.starts_with("checkpoint-") || file == "shell_history",
        [
            "tmp",
            _,
            "logs" | "checkpoints" | "tool-outputs" | "plans",
            ..,
        ] => true,
        [file] => matches!(
            file,
            "google_accounts.json"
                | "installation_id"
                | "oauth_creds.json"
                | "state.json"
                | "trustedFolders.json"
                | "user_id"
                | "GEMINI.md"
        ),
        _ => false,
    }
}

/// Splits a file name of a session into its stem and the format of its records.
fn stem(file: &str) -> Option<(&str, Framing)> {
    match file.strip_suffix(".jsonl") {
        Some(stem) => Some((stem, Framing::Document(&fold::PATCHES))),
        None => Some((
            file.strip_suffix(".json")?,
            Framing::Document(&fold::DOCUMENT),
        )),
    }
}

/// Returns whether a directory name can be that of a project.
fn is_slug(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}
