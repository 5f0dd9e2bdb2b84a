//! Mapping between paths and artifacts.

use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::Result;
use crate::layout::{AGENT_SEPARATOR, ORIGIN_FILE, is_removed};
use crate::model::{AgentId, Artifact, ArtifactKind, SessionId};

/// Prefix of a conversation's folder, before the session's id.
const FOLDER_PREFIX: &str = "conversation-";

/// Maximum length of the thread's id in a folder name.
const MAX_THREAD: usize = 80;

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match parts(dir).as_deref() {
        Some(["conversations" | "state" | "sessions"] | ["sessions", _]) => true,
        Some(["conversations", folder, ..]) => owner(folder).is_some(),
        _ => false,
    }
}

pub(super) fn may_hold_logs(dir: &Path) -> bool {
    match parts(dir).as_deref() {
        Some(["conversations"]) => true,
        Some(["conversations", folder]) => owner(folder).is_some(),
        _ => false,
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    use ArtifactKind as K;
    if is_removed(path) {
        return None;
    }
    let parts = parts(path)?;
    let mut artifact = match *parts.as_slice() {
        [ORIGIN_FILE] => Artifact::new(K::Origin),
        ["state", name] => named(K::State, name.strip_suffix(".json")?),
        ["sessions", run, "system.log"] => named(K::RunLog, run),
        ["conversations", folder, ref inner @ ..] => {
            let (session, agent) = owner(folder)?;
            let kind = match *inner {
                ["chat.jsonl"] if agent.is_some() => K::AgentLog,
                ["chat.jsonl"] => K::SessionLog,
                ["notes.jsonl"] => K::Notes,
                ["todos.json"] => K::Todos,
                [ORIGIN_FILE] => K::Origin,
                [] => return None,
                _ => K::SessionState,
            };
            let name = (kind == K::SessionState).then(|| inner.join("/"));
            let agent = match (kind, agent) {
                // The main agent's todos are named by the session, as in all layouts.
                (K::Todos, None) => Some(AgentId::new(session.as_str()).ok()?),
                (_, agent) => agent,
            };
            Artifact {
                session: Some(session),
                agent,
                name,
                ..Artifact::new(kind)
            }
        }
        _ => return None,
    };
    // An empty name would be indistinguishable from none.
    artifact.name = artifact.name.filter(|name| !name.is_empty());
    Some(artifact)
}

/// Returns whether a file is in a conversation's folder where clog puts no such file.
pub(super) fn is_misplaced(path: &Path) -> bool {
    classify(path).is_some_and(|artifact| artifact.kind == ArtifactKind::SessionState)
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    let name = artifact.name.as_deref().unwrap_or_default();
    let folder = || {
        let session = artifact.session.as_ref().map_or("", SessionId::as_str);
        let agent = artifact.agent.as_ref().map(AgentId::as_str);
        let agent = agent.filter(|agent| artifact.kind == K::AgentLog || *agent != session);
        Path::new("conversations").join(match agent {
            Some(agent) => format!("{FOLDER_PREFIX}{session}{AGENT_SEPARATOR}{agent}"),
            None => format!("{FOLDER_PREFIX}{session}"),
        })
    };
    match artifact.kind {
        K::SessionLog | K::AgentLog => folder().join("chat.jsonl"),
        K::Notes => folder().join("notes.jsonl"),
        K::Todos => folder().join("todos.json"),
        K::Origin if artifact.session.is_some() => folder().join(ORIGIN_FILE),
        K::Origin => ORIGIN_FILE.into(),
        K::SessionState => folder().join(name),
        K::State => format!("state/{name}.json").into(),
        K::RunLog => format!("sessions/{name}/system.log").into(),
        // The layout has no such files.
        K::SharedLog
        | K::Companion
        | K::AgentMeta
        | K::Task
        | K::FileVersion
        | K::ToolResult
        | K::History
        | K::Settings
        | K::Plan
        | K::Index
        | K::TitleFile
        | K::SessionList => PathBuf::new(),
    }
}

/// Returns the session, and possibly the sub-agent, that a conversation's folder is named after.
///
/// A name that only resembles a sub-agent's is a session's.
fn owner(folder: &str) -> Option<(SessionId, Option<AgentId>)> {
    let name = folder.strip_prefix(FOLDER_PREFIX)?;
    let agent = name
        .split_once(AGENT_SEPARATOR)
        .and_then(|(session, agent)| {
            // The main agent has the session's name.
            let other = session != agent;
            let session = SessionId::new(session).ok()?;
            AgentId::new(agent)
                .ok()
                .filter(|_| other)
                .map(|agent| (session, Some(agent)))
        });
    agent.or_else(|| Some((SessionId::new(name).ok()?, None)))
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

fn named(kind: ArtifactKind, name: &str) -> Artifact {
    Artifact {
        name: Some(name.to_owned()),
        ..Artifact::new(kind)
    }
}

/// Returns the session id of a thread that begins now: its folder name after `conversation-`.
pub(super) fn new_session_id(thread: &str, now: Timestamp) -> Result<SessionId> {
    SessionId::new(&format!("{}-{}", file_name_time(now), sanitise(thread)))
}

/// Returns the possible logs of a run, one per format of its start time.
pub(super) fn run_logs(started: Timestamp) -> Vec<Artifact> {
    let usual = file_name_time(started);
    let mut names = vec![usual.clone()];
    // Times in whole seconds may lack the milliseconds.
    names.extend(usual.strip_suffix("-000Z").map(|time| format!("{time}Z")));
    names
        .iter()
        .map(|name| named(ArtifactKind::RunLog, name))
        .collect()
}

/// Formats a time in UTC for file names: `2026-03-26T01-32-20-418Z`.
fn file_name_time(time: Timestamp) -> String {
    let millisecond = time.as_millisecond().rem_euclid(1_000);
    let time = time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H-%M-%S");
    format!("{time}-{millisecond:03}Z")
}

/// Parses the start time of a session from its name.
pub(super) fn start_time(session: &SessionId) -> Option<Timestamp> {
    let time = session.as_str().strip_suffix(session.name())?;
    let (date, time) = time.strip_suffix("Z-")?.split_once('T')?;
    let (time, millisecond) = time.rsplit_once('-')?;
    let time = time.replace('-', ":");
    format!("{date}T{time}.{millisecond}Z").parse().ok()
}

/// Converts a thread's id to its form in a folder name.
pub(super) fn sanitise(thread: &str) -> String {
    let mut name = String::new();
    for c in thread.trim().to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '_' | '-' => name.push(c),
            _ if name.ends_with('\u{0}') => {}
            _ => name.push('\u{0}'),
        }
    }
    let mut name = name.replace('\u{0}', "-");
    // No thread may look like a sub-agent's.
    while name.contains(AGENT_SEPARATOR) {
        name = name.replace(AGENT_SEPARATOR, "-agent-");
    }
    let name = name.trim_matches('-');
    let name = name.get(..MAX_THREAD).unwrap_or(name).trim_matches('-');
    if name.is_empty() { "thread" } else { name }.to_owned()
}

/// Returns the `conversationId` of a session or one of its sub-agents: the name of its folder.
pub(super) fn conversation_id(session: &SessionId, agent: Option<&AgentId>) -> String {
    agent_conversation_id(&format!("{FOLDER_PREFIX}{session}"), agent)
}

/// Returns the member of a chat's first record that names another conversation than the chat's
/// folder, and its value. Ids that are not derived from a folder name are ignored.
pub(super) fn foreign_id(
    log: &Artifact,
    value: impl Fn(&str) -> String,
) -> Option<(&'static str, String)> {
    let session = log.session.as_ref()?;
    let conversation = value("conversationId");
    if conversation.starts_with(FOLDER_PREFIX)
        && conversation != conversation_id(session, log.agent.as_ref())
        && conversation != conversation_id(session, None)
    {
        return Some(("conversationId", conversation));
    }
    let (thread, name) = (value("threadId"), session.name());
    let named_after_time = name != session.as_str();
    let differs = log.agent.is_none() && named_after_time && sanitise(&thread) != name;
    differs.then_some(("threadId", thread))
}

/// Returns the conversation id of a sub-agent, given that of its session.
pub(super) fn agent_conversation_id(name: &str, agent: Option<&AgentId>) -> String {
    match agent {
        Some(agent) if !name.ends_with(&format!("{AGENT_SEPARATOR}{agent}")) => {
            format!("{name}{AGENT_SEPARATOR}{agent}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "2026-03-26T01-32-20-418Z-thread_abc123";

    #[test]
    fn classify_and_path_for_are_inverses() {
        use ArtifactKind as K;
        let folder = format!("conversations/conversation-{SESSION}");
        for (kind, path) in [
            (K::SessionLog, format!("{folder}/chat.jsonl")),
            (K::Notes, format!("{folder}/notes.jsonl")),
            (K::Todos, format!("{folder}/todos.json")),
            (K::Origin, format!("{folder}/annals-origin.jsonl")),
            (K::SessionState, format!("{folder}/files/a/b.png")),
            (K::AgentLog, format!("{folder}--agent-a1/chat.jsonl")),
            (K::Notes, format!("{folder}--agent-a1/notes.jsonl")),
            (K::Todos, format!("{folder}--agent-a1/todos.json")),
            (K::SessionLog, format!("{folder}--agent-/chat.jsonl")),
            (
                K::SessionLog,
                "conversations/conversation-Mine.1/chat.jsonl".to_owned(),
            ),
            (
                K::SessionLog,
                "conversations/conversation-s--agent-s/chat.jsonl".to_owned(),
            ),
            (
                K::Todos,
                "conversations/conversation-s--agent-s/todos.json".to_owned(),
            ),
            (K::State, "state/operator.json".to_owned()),
            (
                K::RunLog,
                "sessions/2026-03-26T01-32-20Z/system.log".to_owned(),
            ),
            (K::Origin, "annals-origin.jsonl".to_owned()),
        ] {
            let artifact = classify(Path::new(&path)).expect(&path);
            assert_eq!(artifact.kind, kind, "{path}");
            assert_eq!(path_for(&artifact), Path::new(&path));
        }
        let agent = classify(Path::new(&format!("{folder}--agent-a1/chat.jsonl"))).unwrap();
        assert_eq!(agent.session.unwrap().as_str(), SESSION);
        assert_eq!(agent.agent.unwrap().as_str(), "a1");
    }

    #[test]
    fn classify_ignores_foreign_files() {
        for path in [
            "conversations/chat.jsonl",
            "conversations/thread_abc123/chat.jsonl",
            "conversations/conversation-/chat.jsonl",
            "conversations/conversation-.é/chat.jsonl",
            "conversations/conversation-a\tb/chat.jsonl",
            "conversations/conversation-../chat.jsonl",
            "conversations/../conversation-a/chat.jsonl",
            "conversations/conversation-a",
            "state/operator.txt",
            "state/a/b.json",
            "sessions/system.log",
            "sessions/a/other.log",
            "chat.jsonl",
        ] {
            assert_eq!(classify(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn session_folders_match_program_names() {
        let now: Timestamp = "2026-03-26T01:32:20.418999Z".parse().unwrap();
        let long = "x".repeat(300);
        for (thread, name) in [
            ("thread_abc123", "thread_abc123"),
            ("  Thread ABC!!? 1  ", "thread-abc-1"),
            ("--a--b--", "a--b"),
            ("…", "thread"),
            ("é_ü", "_"),
            ("telegram:42/7", "telegram-42-7"),
            ("s--agent-a", "s-agent-a"),
            ("s---agent-a", "s-agent-a"),
            (&long, &long[..80]),
        ] {
            let session = new_session_id(thread, now).unwrap();
            assert_eq!(session.as_str(), format!("2026-03-26T01-32-20-418Z-{name}"));
            assert_eq!(session.name(), name);
            assert_eq!(
                start_time(&session),
                "2026-03-26T01:32:20.418Z".parse().ok()
            );
        }
        for name in ["Mine.1", "2026-13-26T01-32-20-418Z-x"] {
            assert_eq!(start_time(&SessionId::new(name).unwrap()), None);
        }
        let early: Timestamp = "1969-12-31T23:59:59.001Z".parse().unwrap();
        assert_eq!(
            new_session_id("t", early).unwrap().as_str(),
            "1969-12-31T23-59-59-001Z-t"
        );
    }
}
