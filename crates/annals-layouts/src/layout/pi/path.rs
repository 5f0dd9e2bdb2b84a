//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::layout::{own_files, path_parts};
use crate::model::{Artifact, ArtifactKind, SessionId};

/// The beginning of a log's name: the time at which the session began.
const TIME: &[u8] = b"0000-00-00T00-00-00-000Z";

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        ["sessions"] => true,
        ["sessions", folder] => is_folder(folder),
        _ => own_files::may_hold_files(dir),
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    match *path_parts(path)?.as_slice() {
        ["sessions", file] => log(file),
        ["sessions", folder, file] if is_folder(folder) => Some(Artifact {
            folder: Some(folder.to_owned()),
            ..log(file)?
        }),
        _ => own_files::classify(path),
    }
}

/// `name` is the text before the session's id.
fn log(file: &str) -> Option<Artifact> {
    let stem = file.strip_suffix(".jsonl")?;
    let (before, id) = match is_timed(file) {
        true => stem.split_at_checked(TIME.len() + 1)?,
        false => ("", stem),
    };
    Some(Artifact {
        session: Some(SessionId::new(id).ok()?),
        name: Some(before.to_owned()).filter(|before| !before.is_empty()),
        ..Artifact::new(ArtifactKind::SessionLog)
    })
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    match (artifact.kind, &artifact.session) {
        (ArtifactKind::SessionLog, Some(id)) => {
            let before = artifact.name.as_deref().unwrap_or_default();
            let mut path = PathBuf::from("sessions");
            path.extend(&artifact.folder);
            path.join(format!("{before}{id}.jsonl"))
        }
        // The layout has no other files.
        _ => own_files::path_for(artifact).unwrap_or_default(),
    }
}

/// Returns the folder for sessions of a directory.
pub(super) fn folder(directory: &str) -> String {
    let within = directory.strip_prefix(['/', '\\']).unwrap_or(directory);
    format!("--{}--", within.replace(['/', '\\', ':'], "-"))
}

pub(super) fn is_program_file(path: &Path) -> bool {
    let parts = path_parts(path).unwrap_or_default();
    match *parts.as_slice() {
        [
            "bin" | "tools" | "extensions" | "skills" | "prompts" | "themes" | "npm" | "git",
            ..,
        ] => true,
        [file] => matches!(
            file,
            "auth.json"
                | "models.json"
                | "models-store.json"
                | "settings.json"
                | "keybindings.json"
                | "trust.json"
                | "AGENTS.md"
                | "SYSTEM.md"
                | "APPEND_SYSTEM.md"
        ),
        _ => false,
    }
}

/// Returns whether a file is named like a log that begins with its time.
fn is_timed(file: &str) -> bool {
    let fits = |(byte, like): (u8, &u8)| match like {
        b'0' => byte.is_ascii_digit(),
        like => byte == *like,
    };
    let named = file.split_at_checked(TIME.len());
    named.is_some_and(|(time, rest)| {
        let is_time = time.bytes().zip(TIME).all(fits);
        is_time && rest.starts_with('_') && rest.ends_with(".jsonl")
    })
}

fn is_folder(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}

/// Returns the text before the session's id in the name of a log.
pub(super) fn time_prefix(started: Timestamp) -> String {
    let time = format!("{started:.3}").replace([':', '.'], "-");
    format!("{time}_")
}
