//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use jiff::Zoned;
use sha2::{Digest as _, Sha256};

use crate::layout::{own_files, path_parts};
use crate::model::{AgentId, Artifact, ArtifactKind, EntryKey, Framing, SessionId};

use super::fold;

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        ["tmp"] => true,
        ["tmp", slug] => is_slug(slug),
        ["tmp", slug, "chats"] => is_slug(slug),
        ["tmp", slug, "chats", session] => is_slug(slug) && SessionId::new(session).is_ok(),
        _ => own_files::may_hold_files(dir),
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
            // Names by annals have the whole id.
            let named = named_session(stem);
            Artifact {
                name: named.is_some().then(|| stem.to_owned()),
                session: Some(named.or_else(|| SessionId::new(stem).ok())?),
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
        _ => return own_files::classify(path).filter(is_own_file),
    })
}

/// Returns whether the program has no place for such a file: it has one for logs of sub-agents.
fn is_own_file(artifact: &Artifact) -> bool {
    matches!(artifact.kind, ArtifactKind::Origin | ArtifactKind::Todos)
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
        (K::SharedLog, Some(session), _) => {
            let name = artifact.name.as_deref().unwrap_or(session);
            path.join(format!("chats/{name}.{ending}"))
        }
        (K::AgentLog, Some(session), Some(agent)) => {
            path.join(format!("chats/{session}/{agent}.{ending}"))
        }
        // The layout has no other files.
        _ if is_own_file(artifact) => own_files::path_for(artifact).unwrap_or_default(),
        _ => PathBuf::new(),
    }
}

/// Returns the name of a new log, without its ending. The program finds a session by the metadata in
/// the log, and expects only the first word and the first 8 characters of the id at the end.
pub(super) fn new_name(session: &SessionId, started: Zoned) -> String {
    let id = session.as_str();
    let (first, rest) = id.split_at_checked(8).unwrap_or((id, ""));
    // Two sessions that begin in one minute may have the same first characters.
    let rest = rest.trim_start_matches('-');
    format!(
        "session-{}-{rest}-{first}",
        started.strftime("%Y-%m-%dT%H-%M")
    )
}

/// Returns the session in a name by [`new_name`].
fn named_session(stem: &str) -> Option<SessionId> {
    const BEFORE: &str = "session-0000-00-00T00-00-";
    let (before, id) = stem.split_at_checked(BEFORE.len())?;
    let (rest, first) = id.rsplit_once('-')?;
    let id = format!("{first}-{rest}");
    let fits = before.ends_with('-') && EntryKey::is_canonical_uuid(&id);
    SessionId::new(&id).ok().filter(|_| fits)
}

/// Returns a folder for the sessions of a directory that no other directory has. The program derives it
/// from the directory's name alone, and adds a number if another directory has it.
pub(super) fn new_folder(directory: &str) -> String {
    let name = directory.trim_end_matches(['/', '\\']);
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let words = name.to_lowercase();
    let words =
        words.split(|letter: char| !letter.is_ascii_lowercase() && !letter.is_ascii_digit());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let slug = match words.is_empty() {
        true => "project".to_owned(),
        false => words.join("-"),
    };
    let digest = format!("{:x}", Sha256::digest(directory.as_bytes()));
    format!("{slug}-{}", digest.get(..8).unwrap_or_default())
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
