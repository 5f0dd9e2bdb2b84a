//! The layout of the Cline CLI, read-only.
//!
//! ```text
//! data/sessions/<session>/<session>.messages.json   the messages of a session
//! data/sessions/<session>/<session>.json            its title and directory
//! data/db/sessions.db                               not read: an index of the same
//! data/secrets.json, data/settings, …               not read: settings and secrets
//! ```
//!
//! The program rewrites both documents as a whole. Messages: `{messages [{id, role, content, ts,
//! modelInfo? {id}, metrics?}]}` with blocks of Anthropic's API; `ts` is in milliseconds. `metrics`
//! of a reply is `{inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, cost?}`, where
//! `inputTokens` includes the cache and `cost` is in dollars. A prompt is wrapped in `<user_input
//! mode="…">`. The other document: `{cwd, metadata {title, sessionHistoryOrigin {version}}}`.
//!
//! The tasks of the extension for editors have another format and are not read.

mod fold;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, Framing, SessionId};

use super::derived::LineDecoder;
use super::opaque::OpaqueDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer, path_parts};

/// The layout of the Cline CLI.
#[derive(Debug)]
pub struct Cline;

static SPEC: LayoutSpec = LayoutSpec::new("cline");

/// Ending of the document with the messages.
const MESSAGES: &str = ".messages.json";

impl Layout for Cline {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let named = env.vars.get("CLINE_DIR").filter(|dir| !dir.is_empty());
        let named = named.map(PathBuf::from);
        let root = named.or_else(|| Some(env.home.as_ref()?.join(".cline")));
        root.into_iter().collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        names == ["data"]
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        match *path_parts(dir).unwrap_or_default().as_slice() {
            ["data"] | ["data", "sessions"] => true,
            ["data", "sessions", session] => is_session(session),
            _ => false,
        }
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        match *path_parts(path)?.as_slice() {
            ["data", "sessions", session, file] if is_session(session) => {
                let (kind, framing) = match file.strip_prefix(session)? {
                    MESSAGES => (ArtifactKind::SessionLog, Framing::Files(&fold::SESSION)),
                    ".json" => (ArtifactKind::SessionState, Framing::Lines),
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
        let ending = match artifact.kind {
            ArtifactKind::SessionLog => MESSAGES,
            ArtifactKind::SessionState => ".json",
            // The layout has no such files.
            _ => return PathBuf::new(),
        };
        match &artifact.session {
            Some(id) => format!("data/sessions/{id}/{id}{ending}").into(),
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

fn is_session(name: &str) -> bool {
    !name.starts_with('.') && SessionId::new(name).is_ok()
}

impl LayoutChecks for Cline {
    fn is_program_file(&self, path: &Path) -> bool {
        match *path_parts(path).unwrap_or_default().as_slice() {
            [
                "data",
                "db" | "settings" | "logs" | "locks" | "cache" | "teams" | "state" | "workspaces"
                | "tasks",
                ..,
            ] => true,
            ["data", file] => matches!(
                file,
                "secrets.json" | "globalState.json" | "machine-id" | "hub.json"
            ),
            [
                "skills" | "rules" | "hooks" | "workflows" | "agents" | "plugins" | "log" | "logs",
                ..,
            ] => true,
            _ => false,
        }
    }
}
