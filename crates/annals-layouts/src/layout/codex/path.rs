//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::layout::{own_files, path_parts};
use crate::model::{Artifact, ArtifactKind, Framing, SessionId};

use super::fold;

/// Directory of rollouts that were moved away by `codex archive`.
const ARCHIVED: &str = "archived_sessions";

/// Length of the thread id at the end of a rollout's name.
const UUID: usize = 36;

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        [ARCHIVED] => true,
        // Year, month and day; the program reads rollouts in any of these directories.
        ["sessions", ref dated @ ..] => dated.len() <= 3 && dated.iter().all(|name| is_name(name)),
        _ => own_files::may_hold_files(dir),
    }
}

fn may_hold_rollouts(dir: &Path) -> bool {
    may_hold_files(dir) && !own_files::may_hold_files(dir)
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    use ArtifactKind as K;
    Some(match *path_parts(path)?.as_slice() {
        ["session_index.jsonl"] => Artifact::new(K::SessionList),
        ["history.jsonl"] => Artifact::new(K::History),
        [ref dirs @ .., file] if may_hold_rollouts(&dirs.iter().collect::<PathBuf>()) => {
            let stem = file.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
            let (before, id) = stem.split_at_checked(stem.len().checked_sub(UUID)?)?;
            Artifact {
                session: Some(SessionId::new(id).ok()?),
                name: Some(format!("{}/rollout-{before}", dirs.join("/"))),
                framing: Framing::Document(&fold::ROLLOUT),
                ..Artifact::new(K::SharedLog)
            }
        }
        _ => return own_files::classify(path),
    })
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    match (artifact.kind, &artifact.name, &artifact.session) {
        (K::SessionList, _, _) => "session_index.jsonl".into(),
        (K::History, _, _) => "history.jsonl".into(),
        (K::SharedLog, Some(before), Some(id)) => format!("{before}{id}.jsonl").into(),
        // The layout has no other files.
        _ => own_files::path_for(artifact).unwrap_or_default(),
    }
}

pub(super) fn is_program_file(path: &Path) -> bool {
    let parts = path_parts(path).unwrap_or_default();
    match *parts.as_slice() {
        [
            "log"
            | "logs"
            | "skills"
            | "shell_snapshots"
            | "thread-writer-locks"
            | "rules"
            | "prompts"
            | "memories"
            | "packages"
            | "plugins"
            | "cache"
            | "tmp"
            | ".tmp",
            ..,
        ] => true,
        [file] => {
            let database = [".sqlite", ".sqlite-wal", ".sqlite-shm"];
            database.iter().any(|ending| file.ends_with(ending))
                || matches!(
                    file,
                    "auth.json"
                        | "config.toml"
                        | "AGENTS.md"
                        | "installation_id"
                        | "internal_storage.json"
                        | "models_cache.json"
                        | "session_index.jsonl.lock"
                        | "version.json"
                        | ".personality_migration"
                        | ".sandbox_migration"
                )
        }
        _ => false,
    }
}

/// Returns whether this is the name of a directory that holds rollouts.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}

/// Returns whether an id has the form of a thread's: a UUID.
pub(super) fn is_thread(id: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    id.len() == UUID && id.bytes().enumerate().all(fits)
}

/// Returns directory and name of a new rollout, up to its thread.
pub(super) fn new_name(now: Timestamp, zone: &TimeZone) -> String {
    let now = now.to_zoned(zone.clone());
    now.strftime("sessions/%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S-")
        .to_string()
}

/// Returns the file that the program locks while it has the thread of a rollout open.
pub(super) fn thread_lock(log: &Artifact) -> Option<PathBuf> {
    let thread = log.session.as_ref()?;
    let is_rollout = log.kind == ArtifactKind::SharedLog;
    is_rollout.then(|| PathBuf::from(format!("thread-writer-locks/{thread}.lock")))
}
