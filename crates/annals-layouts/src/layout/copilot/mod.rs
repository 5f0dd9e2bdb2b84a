//! The layout of GitHub Copilot CLI, read-only.
//!
//! ```text
//! session-state/<session>/events.jsonl     a session with its sub-agents
//! session-state/<session>/workspace.yaml   its title
//! session-store.db                         not read: derived from the events
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
//! | all others | not interpreted |
//!
//! `inputTokens` includes the cache, `outputTokens` includes reasoning. `usage.cost` is in premium
//! requests, not in money, and is not read. `workspace.yaml` has `name`, and `user_named` if a person
//! gave it.

mod fold;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind, Framing, SessionId};

use super::derived::LineDecoder;
use super::opaque::OpaqueDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer, path_parts};

/// The layout of GitHub Copilot CLI.
#[derive(Debug)]
pub struct Copilot;

static SPEC: LayoutSpec = LayoutSpec::new("copilot");

/// Directory of the sessions.
const SESSIONS: &str = "session-state";

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
            _ => false,
        }
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        match *path_parts(path)?.as_slice() {
            [SESSIONS, session, file] if is_session(session) => {
                let (kind, framing) = match file {
                    "events.jsonl" => (ArtifactKind::SharedLog, Framing::Files(&fold::SESSION)),
                    "workspace.yaml" => (ArtifactKind::SessionState, Framing::Lines),
                    _ => return None,
                };
                Some(Artifact {
                    session: Some(SessionId::new(session).ok()?),
                    framing,
                    ..Artifact::new(kind)
                })
            }
            _ => None,
        }
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        let file = match artifact.kind {
            ArtifactKind::SharedLog => "events.jsonl",
            ArtifactKind::SessionState => "workspace.yaml",
            // The layout has no such files.
            _ => return PathBuf::new(),
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
        match artifact.kind.is_conversation() {
            true => Box::new(LineDecoder),
            false => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        None
    }

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
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
                matches!(
                    first,
                    "checkpoints" | "rewind-file-snapshots" | "files" | "research"
                ) || first == ".workspace-fork.lock"
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
