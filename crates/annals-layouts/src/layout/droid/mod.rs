//! The layout of Droid (Factory), read-only.
//!
//! ```text
//! sessions/<directory>/<session>.jsonl           a session; `/` in the directory is `-`
//! sessions/<directory>/<session>.settings.json   its model and its tokens
//! settings.json, auth.json, …                    not read: settings and secrets
//! ```
//!
//! Records of the log, read in the order of the file; the program ignores `parentId`:
//!
//! | type | members |
//! |---|---|
//! | `session_start` | `id`, `title`, `isSessionTitleManuallySet`, `cwd`; `parent`: the session that this one was forked from |
//! | `message` | `id`, `timestamp`, `message {role, content, visibility?, modelId?}` with blocks of Anthropic's API; with `visibility: "llm_only"` no person wrote it |
//! | `agent_turn_outcome` and others | not interpreted |
//!
//! Messages have no tokens. The settings have one sum per session, `tokenUsage {inputTokens,
//! outputTokens, cacheCreationTokens, cacheReadTokens}`, and `model`: a charge at the time of the last
//! record. `inputTokens` excludes the cache. A fork repeats the records of its parent with their ids,
//! but its sum begins at 0.

mod fold;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind, Framing, SessionId};

use super::derived::LineDecoder;
use super::opaque::OpaqueDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer, path_parts};

/// The layout of Droid.
#[derive(Debug)]
pub struct Droid;

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["forked_from"],
    first_record: Some(r#""type":"session_start""#),
    ..LayoutSpec::new("droid")
};

/// Ending of a session's settings.
const SETTINGS: &str = ".settings.json";

impl Layout for Droid {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let home = env.home.iter();
        home.map(|home| home.join(".factory")).collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        const OWN: [&str; 3] = ["droids", "cache", "mcp.json"];
        let own = names.iter().any(|name| OWN.contains(name));
        names.contains(&"sessions") && names.contains(&"settings.json") && own
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        match *path_parts(dir).unwrap_or_default().as_slice() {
            ["sessions"] => true,
            ["sessions", folder] => is_folder(folder),
            _ => false,
        }
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        match *path_parts(path)?.as_slice() {
            ["sessions", folder, file] if is_folder(folder) => {
                let (id, kind, framing) = match file.strip_suffix(".jsonl") {
                    Some(id) => (id, ArtifactKind::SessionLog, Framing::Files(&fold::SESSION)),
                    None => {
                        let id = file.strip_suffix(SETTINGS)?;
                        (id, ArtifactKind::SessionState, Framing::Lines)
                    }
                };
                Some(Artifact {
                    folder: Some(folder.to_owned()),
                    session: Some(SessionId::new(id).ok()?),
                    framing,
                    ..Artifact::new(kind)
                })
            }
            _ => None,
        }
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        let ending = match artifact.kind {
            ArtifactKind::SessionLog => ".jsonl",
            ArtifactKind::SessionState => SETTINGS,
            // The layout has no such files.
            _ => return PathBuf::new(),
        };
        match (&artifact.folder, &artifact.session) {
            (Some(folder), Some(id)) => format!("sessions/{folder}/{id}{ending}").into(),
            _ => PathBuf::new(),
        }
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(directory.replace('/', "-"))
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

fn is_folder(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}

impl LayoutChecks for Droid {
    fn record_fault(&self, _: &Artifact, first: &str, record: &str) -> Option<(FlawKind, String)> {
        let why = "the log does not begin with `session_start`: the program does not resume it";
        let is_start = first.contains("\"kind\":\"session_start\"");
        (first == record && !is_start).then(|| (FlawKind::UnfitRecord, why.to_owned()))
    }

    fn is_program_file(&self, path: &Path) -> bool {
        match *path_parts(path).unwrap_or_default().as_slice() {
            ["sessions", _, file] => file.ends_with(".settings.json.bak"),
            [
                "cache" | "droids" | "commands" | "skills" | "hooks" | "logs" | "bin" | "plugins"
                | "artifacts" | "specs" | "snapshots",
                ..,
            ] => true,
            [file] => matches!(
                file,
                "settings.json"
                    | "config.json"
                    | "auth.json"
                    | "auth.encrypted"
                    | "auth.v2.file"
                    | "auth.v2.key"
                    | "mcp.json"
                    | "history.json"
                    | "AGENTS.md"
            ),
            _ => false,
        }
    }
}
