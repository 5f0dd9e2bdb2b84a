//! The layout of GitHub Copilot CLI.
//!
//! ```text
//! session-state/<session>/events.jsonl     a session with its sub-agents
//! session-state/<session>/workspace.yaml   its title
//! session-state/<session>/checkpoints/, rewind-file-snapshots/, files/, research/   not interpreted, removed with it
//! annals/…                                 files of annals, such as todos: see `own_files.rs`
//! session-store.db                         derived from the events; only its ids are compared
//! config.json, …                           not read: settings and secrets
//! ```
//!
//! Events are `{type, data, id, timestamp, parentId, agentId?}`. The program ignores `parentId` and
//! reads them in the order of the file; `agentId` is set in events of a sub-agent. `data` by type:
//!
//! | type | members |
//! |---|---|
//! | `session.start`, `session.resume` | `sessionId`, `copilotVersion`, `context {cwd, branch?}` |
//! | `user.message` | `content`; `source` if no person wrote it |
//! | `system.message` | `content` |
//! | `assistant.message` | `content`, `reasoningText?`, `toolRequests [{toolCallId, name, arguments}]`, `model`, `apiCallId` |
//! | `session.usage_record` | `usage {model, apiCallId, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens}` of one response |
//! | `tool.execution_complete` | `toolCallId`, `success`, `result {content}` or `error {message}` |
//! | `subagent.started` | `toolCallId`, `agentType`, `agentDescription` |
//! | `session.compaction_complete` | `summaryContent`; not seen in a recording |
//! | `session.error`, `abort` | `message` or `reason` |
//! | `session.shutdown` | `modelMetrics`: totals of all runs by model; read only if no response has a usage record |
//! | `annals.…`, and the member `annals` of any event | only read by annals: see `write.rs` |
//! | all others | not interpreted |
//!
//! While the program opens a session, it holds the lock of `session-state/.session-operation-locks/
//! <session>.lock`; while it has one open, that of `inuse.<pid>.lock` in the session's directory.
//!
//! `inputTokens` includes the cache, `outputTokens` includes reasoning. `usage.cost` is in premium
//! requests, not in money, and is not read. `workspace.yaml` has `name`, and `user_named` if a person
//! gave it.

mod fold;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind, Framing, RowFormat, SessionId};

use super::derived::LineDecoder;
use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{
    Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer, is_removed, own_files, path_parts,
};

/// The layout of GitHub Copilot CLI.
#[derive(Debug)]
pub struct Copilot;

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["forked_from"],
    has_secret_files: true,
    thread_lock: Some(operation_lock),
    derived_database: Some(&SESSION_STORE),
    ..LayoutSpec::new("copilot")
};

static SESSION_STORE: RowFormat = RowFormat::list_of_sessions(
    "copilot-sessions",
    "session-store.db",
    &["sessions"],
    "SELECT CAST(id AS TEXT) FROM sessions",
);

/// Kind of the document with a session's title.
const WORKSPACE: ArtifactKind = ArtifactKind::TitleFile;

/// Directories of a session that its program fills.
const STATE: [&str; 4] = ["checkpoints", "rewind-file-snapshots", "files", "research"];

/// Directory of the sessions.
const SESSIONS: &str = "session-state";

/// Name of a session's log.
const LOG: &str = "events.jsonl";

/// Name of the document with a session's title.
const TITLE: &str = "workspace.yaml";

impl Layout for Copilot {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let named = env.vars.get("COPILOT_HOME").filter(|home| !home.is_empty());
        let named = named.map(PathBuf::from);
        let root = named.or_else(|| Some(env.home.as_ref()?.join(".copilot")));
        root.into_iter().collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        names.contains(&SESSIONS)
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        match *path_parts(dir).unwrap_or_default().as_slice() {
            [SESSIONS] => true,
            [SESSIONS, session] => is_session(session),
            [SESSIONS, session, first, ..] => is_session(session) && STATE.contains(&first),
            _ => own_files::may_hold_files(dir),
        }
    }

    fn may_hold_logs(&self, dir: &Path) -> bool {
        self.may_hold_files(dir) && dir.components().count() <= 3
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        let of_session = |session: &str, kind: ArtifactKind, name: Option<String>| {
            Some(Artifact {
                session: Some(SessionId::new(session).ok()?),
                name,
                ..Artifact::new(kind)
            })
        };
        if is_removed(path) {
            return None;
        }
        match *path_parts(path)?.as_slice() {
            [SESSIONS, session, LOG] if is_session(session) => {
                Some(session_log(SessionId::new(session).ok()?))
            }
            [SESSIONS, session, TITLE] if is_session(session) => {
                of_session(session, WORKSPACE, None)
            }
            [SESSIONS, session, first, ref rest @ ..]
                if is_session(session) && STATE.contains(&first) && !rest.is_empty() =>
            {
                let name = format!("{first}/{}", rest.join("/"));
                of_session(session, ArtifactKind::SessionState, Some(name))
            }
            _ => {
                let mut own = own_files::classify(path)?;
                if own.kind == ArtifactKind::AgentLog {
                    own.framing = fold::AGENT_FRAMING;
                }
                Some(own)
            }
        }
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        let file = match (artifact.kind, &artifact.name) {
            (ArtifactKind::SharedLog, _) => LOG,
            (ArtifactKind::SessionState, Some(name)) => name,
            (WORKSPACE, _) => TITLE,
            _ => return own_files::path_for(artifact).unwrap_or_default(),
        };
        match &artifact.session {
            Some(session) => Path::new(SESSIONS).join(session.as_str()).join(file),
            None => PathBuf::new(),
        }
    }

    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => match artifact.framing {
                Framing::Lines => Box::new(fold::EventDecoder),
                _ => Box::new(LineDecoder),
            },
            ArtifactKind::Todos => Box::new(TodosDecoder),
            _ => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        Some(self)
    }

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
}

/// Returns the log of a session.
fn session_log(session: SessionId) -> Artifact {
    Artifact {
        session: Some(session),
        framing: Framing::Files(&fold::SESSION),
        ..Artifact::new(ArtifactKind::SharedLog)
    }
}

/// Returns the file that the program locks while it opens the session of a log.
fn operation_lock(log: &Artifact) -> Option<PathBuf> {
    let session = log.session.as_ref()?;
    let is_log = log.kind == ArtifactKind::SharedLog;
    is_log.then(|| format!("{SESSIONS}/.session-operation-locks/{session}.lock").into())
}

/// Returns whether a directory has the name of a session; locks have a directory of their own.
fn is_session(name: &str) -> bool {
    !name.starts_with('.') && SessionId::new(name).is_ok()
}

impl LayoutChecks for Copilot {
    fn record_fault(
        &self,
        log: &Artifact,
        first: &str,
        record: &str,
    ) -> Option<(FlawKind, String)> {
        let why = "the log does not begin with `session.start`: the program does not resume it";
        let is_start = first.contains("\"kind\":\"session.start\"");
        // A sub-agent's part of the log begins later.
        let is_first = log.agent.is_none() && first == record;
        (is_first && !is_start).then(|| (FlawKind::UnfitRecord, why.to_owned()))
    }

    fn is_program_file(&self, path: &Path) -> bool {
        match *path_parts(path).unwrap_or_default().as_slice() {
            [SESSIONS, ".session-operation-locks", ..] => true,
            [SESSIONS, _, first, ..] => {
                STATE.contains(&first)
                    || first == ".workspace-fork.lock"
                    || first.starts_with("inuse.")
                    || first.starts_with("events.jsonl.backup-before-recovery-")
            }
            [
                "logs" | "pkg" | "skills" | "agents" | "installed-plugins" | "mcp-oauth-config",
                ..,
            ] => true,
            [file] => {
                file.starts_with("session-store.db")
                    || matches!(
                        file,
                        "config.json"
                            | "settings.json"
                            | "mcp-config.json"
                            | "permissions-config.json"
                            | "command-history-state.json"
                            | "copilot-instructions.md"
                    )
            }
            _ => false,
        }
    }
}
