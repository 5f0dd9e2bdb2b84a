//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use crate::layout::{ORIGIN_FILE, is_removed, path_parts};
use crate::model::{AgentId, Artifact, ArtifactKind, SessionId};

/// Maximum length of a folder name before the client truncates it and appends a hash.
const MAX_FOLDER: usize = 200;

/// Directory of a project with the client's memory files.
const MEMORY: &str = "memory";

/// Separator between session and agent in the name of a todo file.
const AGENT_INFIX: &str = "-agent-";

/// Directories of a root that are scanned.
const DIRS: [&str; 6] = [
    "projects",
    "todos",
    "tasks",
    "file-history",
    "session-env",
    "plans",
];

pub(super) fn may_hold_files(dir: &Path) -> bool {
    let parts = path_parts(dir).unwrap_or_default();
    parts.first().is_some_and(|first| DIRS.contains(first))
}

/// Files and directories that the client and its users keep in a root, other than conversations.
/// Names that begin with a dot belong to the client too.
const CLIENT_FILES: [&str; 29] = [
    "CLAUDE.md",
    "agents",
    "backups",
    "cache",
    "chrome",
    "commands",
    "debug",
    "downloads",
    "hooks",
    "ide",
    "image-cache",
    "keybindings.json",
    "local",
    "logs",
    "mcp-needs-auth-cache.json",
    "output-styles",
    "paste-cache",
    "plugins",
    "remote-settings.json",
    "rules",
    "sessions",
    "settings.local.json",
    "shell-snapshots",
    "skills",
    "stats-cache.json",
    "statsig",
    "teams",
    "telemetry",
    "usage-data",
];

/// Returns whether a top-level file or directory belongs to the client and contains no
/// conversation.
pub(super) fn is_client_file(path: &Path) -> bool {
    match *path_parts(path).unwrap_or_default().as_slice() {
        [name] => {
            CLIENT_FILES.contains(&name) || (name.starts_with('.') && !name.ends_with(".jsonl"))
        }
        _ => false,
    }
}

/// Returns whether a file is one of the client's memory files of a project.
pub(super) fn is_memory(path: &Path) -> bool {
    matches!(
        *path_parts(path).unwrap_or_default().as_slice(),
        ["projects", _, MEMORY, _, ..]
    )
}

/// Returns whether a file of a session is in a place where the client puts no such file.
pub(super) fn is_misplaced(path: &Path) -> bool {
    match *path_parts(path).unwrap_or_default().as_slice() {
        ["projects", _, _, "subagents", .., file] => {
            file.ends_with(".jsonl") && !file.starts_with("agent-")
        }
        // The client keeps a lock and a counter here, with names that begin with a dot.
        ["tasks", _, file] => !file.ends_with(".json") && !file.starts_with('.'),
        ["tasks" | "file-history", _, _, _, ..] => true,
        _ => false,
    }
}

pub(super) fn may_hold_logs(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        ["projects"] | ["projects", _] => true,
        ["projects", _, session] => session != MEMORY && SessionId::new(session).is_ok(),
        ["projects", _, session, "subagents", ..] => SessionId::new(session).is_ok(),
        _ => false,
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    use ArtifactKind as K;
    if let Some(artifact) = plain_log(path) {
        return Some(artifact);
    }
    if is_removed(path) {
        return None;
    }
    let parts = path_parts(path)?;
    let mut artifact = match *parts.as_slice() {
        ["history.jsonl"] => Artifact::new(K::History),
        ["settings.json"] => Artifact::new(K::Settings),
        [ORIGIN_FILE] => Artifact::new(K::Origin),
        ["projects", "sessions-index.json"] => Artifact::new(K::Index),
        ["plans", name] => named(K::Plan, name.strip_suffix(".md")?),
        ["todos", name] => {
            let (session, agent) = todo_owner(name.strip_suffix(".json")?)?;
            Artifact {
                session: Some(SessionId::new(session).ok()?),
                agent: Some(AgentId::new(agent).ok()?),
                ..Artifact::new(K::Todos)
            }
        }
        [
            "tasks" | "file-history" | "session-env",
            session,
            ref rest @ ..,
        ] => {
            let [first, ..] = parts.as_slice() else {
                return None;
            };
            let mut artifact = match (*first, rest) {
                ("tasks", [name]) if name.ends_with(".json") => {
                    named(K::Task, name.strip_suffix(".json")?)
                }
                ("file-history", [name]) => named(K::FileVersion, name),
                (_, [_, ..]) => named(K::SessionState, &format!("{first}/{}", rest.join("/"))),
                _ => return None,
            };
            artifact.session = Some(SessionId::new(session).ok()?);
            artifact
        }
        ["projects", folder, ref rest @ ..] => {
            let mut artifact = classify_in_project(folder, rest)?;
            artifact.folder = Some(folder.to_owned());
            artifact
        }
        _ => return None,
    };
    // An empty name would be indistinguishable from none.
    artifact.name = artifact.name.filter(|name| !name.is_empty());
    Some(artifact)
}

/// Returns the session and the agent of a todo file. The main agent has the session's id. A
/// sub-agent's id never contains the separator; a session's may.
fn todo_owner(stem: &str) -> Option<(&str, &str)> {
    let half = stem.len().checked_sub(AGENT_INFIX.len())? / 2;
    if let (Some(session), Some(agent)) = (stem.get(..half), stem.get(half + AGENT_INFIX.len()..))
        && session == agent
        && stem.get(half..half + AGENT_INFIX.len()) == Some(AGENT_INFIX)
    {
        return Some((session, agent));
    }
    stem.rsplit_once(AGENT_INFIX)
}

/// Returns the session that would own a file `agent-<id>.jsonl` next to session logs, if its
/// records name that session and are not a sub-agent's.
pub(super) fn own_session(artifact: &Artifact) -> Option<String> {
    let beside = artifact.is_agent_log() && artifact.session.is_none();
    let agent = artifact.agent.as_ref().filter(|_| beside)?;
    Some(format!("agent-{agent}"))
}

/// Returns why a session cannot have this id: its log would be taken for something else.
pub(super) fn session_fault(id: &SessionId) -> Option<&'static str> {
    id.as_str()
        .starts_with("agent-")
        .then_some("the client would treat its log as a sub-agent's")
}

/// Returns why a sub-agent cannot have this id: its todos would be taken for another's.
pub(super) fn agent_fault(id: &AgentId) -> Option<&'static str> {
    id.as_str()
        .contains(AGENT_INFIX)
        .then_some("its todos would be attributed to another agent")
}

/// Fast path for session logs, the bulk of all files, without splitting the path.
fn plain_log(path: &Path) -> Option<Artifact> {
    let within = path.to_str()?.strip_prefix("projects/")?;
    let slash = memchr::memchr(b'/', within.as_bytes())?;
    let (folder, file) = (within.get(..slash)?, within.get(slash + 1..)?);
    // A UUID contains no slash and is not a date.
    let session = uuid(file.strip_suffix(".jsonl")?)?;
    let folder = Some(folder).filter(|folder| !matches!(*folder, "" | "." | ".."))?;
    Some(Artifact {
        folder: Some(folder.to_owned()),
        session: Some(session),
        ..Artifact::new(ArtifactKind::SessionLog)
    })
}

fn classify_in_project(folder: &str, rest: &[&str]) -> Option<Artifact> {
    use ArtifactKind as K;
    let (session, inner) = match *rest {
        ["sessions-index.json"] => return Some(Artifact::new(K::Index)),
        [file] => {
            let stem = file.strip_suffix(".jsonl")?;
            if let Some(agent) = stem.strip_prefix("agent-") {
                let agent = Some(AgentId::new(agent).ok()?);
                return Some(Artifact {
                    agent,
                    ..Artifact::new(K::AgentLog)
                });
            }
            if is_hash(folder) && is_orchestrator_log(stem) {
                return None;
            }
            let session = Some(SessionId::new(stem).ok()?);
            return Some(Artifact {
                session,
                ..Artifact::new(K::SessionLog)
            });
        }
        [name, ref inner @ ..] => {
            // In a directory not named by a UUID, only files that all sessions have belong to a
            // session.
            let of_session = matches!(
                *inner,
                ["custom-title.json" | ORIGIN_FILE] | ["tool-results" | "subagents", _, ..]
            );
            let session = match of_session {
                true => SessionId::new(name).ok(),
                false => uuid(name),
            };
            (session?, inner)
        }
        [] => return None,
    };
    let mut artifact = match *inner {
        ["custom-title.json"] => Artifact::new(K::TitleFile),
        [ORIGIN_FILE] => Artifact::new(K::Origin),
        ["tool-results", name] => named(K::ToolResult, name),
        ["subagents", ref run @ .., file] if file.starts_with("agent-") => {
            let name = file.strip_prefix("agent-")?;
            let (kind, agent) = match (name.strip_suffix(".jsonl"), name.strip_suffix(".meta.json"))
            {
                (Some(agent), _) => (K::AgentLog, agent),
                (_, Some(agent)) => (K::AgentMeta, agent),
                _ => return None,
            };
            Artifact {
                agent: Some(AgentId::new(agent).ok()?),
                ..named(kind, &run.join("/"))
            }
        }
        _ => named(K::SessionState, &inner.join("/")),
    };
    artifact.session = Some(session);
    Some(artifact)
}

/// Parses a UUID, as the client names sessions. Other programs use any name.
fn uuid(name: &str) -> Option<SessionId> {
    const LIKE: &[u8; 36] = b"00000000-0000-0000-0000-000000000000";
    // No early exit, so that the compiler can vectorize the loop.
    let fits = |fits: bool, (byte, like): (u8, &u8)| {
        let dash = byte == b'-';
        fits & (dash == (*like == b'-')) & (dash | byte.is_ascii_hexdigit())
    };
    let uuid = name.len() == LIKE.len() && name.bytes().zip(LIKE).fold(true, fits);
    uuid.then(|| SessionId::new(name).ok()).flatten()
}

fn named(kind: ArtifactKind, name: &str) -> Artifact {
    Artifact {
        name: Some(name.to_owned()),
        ..Artifact::new(kind)
    }
}

/// Returns whether a folder name is a hash, as used by the orchestrator under the same root.
///
/// The folder of an absolute path begins with `-` and may have that length too. So does one hash in
/// 64; its logs are then read by both layouts, which is safer than by none.
fn is_hash(folder: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    folder.len() == 20 && !folder.starts_with('-') && folder.bytes().all(fits)
}

/// Returns whether the orchestrator has such logs in its folders: of a day, of notes, or of what a
/// session was converted from.
fn is_orchestrator_log(stem: &str) -> bool {
    // Invalid dates match too: a check reports them.
    let is_day = ["0000-00-00", "00000000"].iter().any(|form| {
        let fits = |(byte, like): (u8, u8)| match like {
            b'0' => byte.is_ascii_digit(),
            like => byte == like,
        };
        stem.len() == form.len() && stem.bytes().zip(form.bytes()).all(fits)
    });
    is_day || stem.ends_with(".notes") || stem.ends_with(".annals-origin")
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    let session = artifact.session.as_ref().map_or("", SessionId::as_str);
    let agent = artifact.agent.as_ref().map_or("", AgentId::as_str);
    let name = artifact.name.as_deref().unwrap_or_default();
    let project = || {
        let mut path = PathBuf::from("projects");
        path.extend(&artifact.folder);
        path
    };
    let beside_log = || project().join(session);
    match artifact.kind {
        K::SessionLog => project().join(format!("{session}.jsonl")),
        K::AgentLog | K::AgentMeta => {
            let ending = if artifact.kind == K::AgentLog {
                "jsonl"
            } else {
                "meta.json"
            };
            let file = format!("agent-{agent}.{ending}");
            match artifact.session {
                None => project().join(file),
                Some(_) => beside_log().join("subagents").join(name).join(file),
            }
        }
        K::TitleFile => beside_log().join("custom-title.json"),
        K::ToolResult => beside_log().join("tool-results").join(name),
        K::Index => project().join("sessions-index.json"),
        K::Todos => format!("todos/{session}-agent-{agent}.json").into(),
        K::Task => format!("tasks/{session}/{name}.json").into(),
        K::FileVersion => format!("file-history/{session}/{name}").into(),
        K::SessionState if artifact.folder.is_some() => beside_log().join(name),
        K::SessionState => {
            let (first, rest) = name.split_once('/').unwrap_or((name, ""));
            [first, session, rest].iter().collect()
        }
        K::History => "history.jsonl".into(),
        K::Settings => "settings.json".into(),
        K::Plan => format!("plans/{name}.md").into(),
        K::Origin if artifact.session.is_some() => beside_log().join(ORIGIN_FILE),
        K::Origin => ORIGIN_FILE.into(),
        // The layout has no such files.
        K::SharedLog | K::Companion | K::Notes | K::SessionList | K::State | K::RunLog => {
            PathBuf::new()
        }
    }
}

/// Returns the folder of a working directory as the client names it.
///
/// Every UTF-16 unit outside `[A-Za-z0-9]` becomes `-`; a long result is truncated and gets a hash
/// of the whole path. Different paths can give one name.
pub(super) fn encode_path(path: &str) -> String {
    let spelled = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte),
        false => '-',
    };
    let name: String = match path.is_ascii() {
        // Fast path: nearly all paths are ASCII, and a ledger names every session's folder.
        true => path.bytes().map(spelled).collect(),
        false => {
            let units = path.encode_utf16();
            let bytes = units.map(|unit| u8::try_from(unit).unwrap_or_default());
            bytes.map(spelled).collect()
        }
    };
    if name.len() <= MAX_FOLDER {
        return name;
    }
    let hash = path.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let head = name.get(..MAX_FOLDER).unwrap_or(&name);
    format!("{head}-{}", base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_and_path_for_are_inverses() {
        use ArtifactKind as K;
        let session = "8c549c46-16ca-47dd-b731-f4c264becc53";
        for (kind, path) in [
            (K::History, "history.jsonl".to_owned()),
            (K::Settings, "settings.json".to_owned()),
            (K::Index, "projects/sessions-index.json".to_owned()),
            (K::Index, "projects/-w/sessions-index.json".to_owned()),
            (K::SessionLog, format!("projects/-w/{session}.jsonl")),
            (K::SessionLog, "projects/-w/abc123-uuid.jsonl".to_owned()),
            (
                K::SessionLog,
                "projects/-w/my session: no. 1.jsonl".to_owned(),
            ),
            (
                K::SessionLog,
                "projects/-w/x.annals-origin.jsonl".to_owned(),
            ),
            (K::SessionLog, "projects/-w/2026-03-01.jsonl".to_owned()),
            // As long as a hash, but named after a path.
            (
                K::SessionLog,
                "projects/-home-user-myproject/2026-03-01.jsonl".to_owned(),
            ),
            (
                K::SessionLog,
                "projects/-home-user-myproject/x.notes.jsonl".to_owned(),
            ),
            (
                K::SessionLog,
                "projects/-home-user-myproject/x.annals-origin.jsonl".to_owned(),
            ),
            (
                K::SessionLog,
                "projects/v_FXjHoCS5zUJmfyn-5v/1.jsonl".to_owned(),
            ),
            (
                K::AgentLog,
                "projects/-w/my session/subagents/agent-a 1.jsonl".to_owned(),
            ),
            (K::Todos, "todos/my session-agent-a753668.json".to_owned()),
            (
                K::Todos,
                "todos/my-agent-1-agent-my-agent-1.json".to_owned(),
            ),
            (K::AgentLog, "projects/-w/agent-a1b2c3d.jsonl".to_owned()),
            (
                K::AgentLog,
                format!("projects/-w/{session}/subagents/agent-a64af6b213f62e416.jsonl"),
            ),
            (
                K::AgentMeta,
                format!("projects/-w/{session}/subagents/agent-a64af6b213f62e416.meta.json"),
            ),
            (
                K::AgentLog,
                format!("projects/-w/{session}/subagents/workflows/run-1/agent-a1.jsonl"),
            ),
            (
                K::ToolResult,
                format!("projects/-w/{session}/tool-results/by8n2mdt7.txt"),
            ),
            (
                K::TitleFile,
                format!("projects/-w/{session}/custom-title.json"),
            ),
            (
                K::SessionState,
                format!("projects/-w/{session}/memory/notes.md"),
            ),
            (K::Todos, format!("todos/{session}-agent-{session}.json")),
            (K::Task, format!("tasks/{session}/12.json")),
            (K::SessionState, format!("tasks/{session}/.lock")),
            (
                K::FileVersion,
                format!("file-history/{session}/7b1a057f03b9c8c5@v2"),
            ),
            (K::SessionState, format!("session-env/{session}/hook/0.sh")),
            (K::Plan, "plans/calm-otter.md".to_owned()),
        ] {
            let artifact = classify(Path::new(&path)).expect(&path);
            assert_eq!(artifact.kind, kind, "{path}");
            assert_eq!(path_for(&artifact), Path::new(&path));
        }
    }

    #[test]
    fn classify_ignores_foreign_files() {
        for path in [
            "projects/v_FXjHoCS5zUJmfyn-5v/2026-03-01.jsonl",
            "projects/v_FXjHoCS5zUJmfyn-5v/2026-02-30.jsonl",
            "projects/v_FXjHoCS5zUJmfyn-5v/s1.notes.jsonl",
            "projects/v_FXjHoCS5zUJmfyn-5v/s1.annals-origin.jsonl",
            "projects/-w/notes.txt",
            "projects/-w/..jsonl",
            "projects/-w/.notes.jsonl",
            "projects/-w/-p.jsonl",
            "projects/-w/a\u{202e}b.jsonl",
            "projects/-w/.jsonl",
            "projects/-w/memory/MEMORY.md",
            "projects/-w/my session/notes.md",
            "projects/../8c549c46-16ca-47dd-b731-f4c264becc53.jsonl",
            "todos/x.json",
            "statsig/cache.jsonl",
            "plans/a/b.md",
            "settings.local.json",
            "tasks/8c549c46",
        ] {
            assert_eq!(classify(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn todo_owner_is_found_for_any_session_id() {
        for (stem, session, agent) in [
            ("s-agent-a753668", "s", "a753668"),
            ("s-agent-s", "s", "s"),
            ("my-agent-1-agent-my-agent-1", "my-agent-1", "my-agent-1"),
            ("my-agent-1-agent-a753668", "my-agent-1", "a753668"),
            ("é-agent-é", "é", "é"),
        ] {
            assert_eq!(todo_owner(stem), Some((session, agent)), "{stem}");
        }
        for stem in ["", "s", "-agent", "agent-s"] {
            assert_eq!(todo_owner(stem), None, "{stem}");
        }
    }

    #[test]
    fn encode_path_matches_client_folder_names() {
        assert_eq!(encode_path("/home/dev/a.b_c"), "-home-dev-a-b-c");
        assert_eq!(encode_path("/tmp/😀é"), "-tmp----");
        let long = format!("/{}", "x".repeat(250));
        let name = encode_path(&long);
        assert_eq!(
            name.get(..201),
            Some(format!("-{}-", "x".repeat(199)).as_str())
        );
    }
}
