//! The layout of Qwen Code.
//!
//! ```text
//! projects/<directory>/chats/<session>.jsonl                   a session; all but letters and digits is `-`
//! projects/<directory>/subagents/<session>/agent-<id>.jsonl    a sub-agent
//! projects/<directory>/subagents/<session>/agent-<id>.meta.json   its kind, task and call
//! todos/<session>.json                                         todos
//! annals/…                                                     files of annals, such as todos of sub-agents: see `own_files.rs`
//! settings.json, oauth_creds.json, .env, …                     not read: settings and secrets
//! usage_record.jsonl                                           not read: running sums per process
//! ```
//!
//! Records are `{uuid, parentUuid, timestamp, type, cwd, version, gitBranch?, …}`:
//!
//! | type | members |
//! |---|---|
//! | `user` | `message {parts}`; `provenance` is `real_user` if a person wrote it |
//! | `assistant` | `message {parts}`, `model`, `usageMetadata` |
//! | `tool_result` | `message {parts}`, `toolCallResult {callId, status}` |
//! | `system` | `subtype`, `systemPayload` |
//! | `annals`, and the member `annals` of any record | only read by annals: see `write.rs` |
//!
//! Parts are those of Gemini's API: `{text, thought?}`, `{functionCall {id, name, args}}`,
//! `{functionResponse {id, response {output} or {error}}}`, `{inlineData {mimeType, data}}`. Subtypes of
//! `system`:
//!
//! | subtype | meaning |
//! |---|---|
//! | `ui_telemetry` | with `uiEvent {event.name: "qwen-code.api_response", response_id, model, input_token_count, …}`: tokens of a response, also of one without a message |
//! | `chat_compression` | `compressedHistory` replaces everything before; not seen in a recording |
//! | `slash_command` | a command: `rawCommand` |
//! | `custom_title` | `customTitle`: the title; not seen in a recording |
//! | all others | not interpreted |
//!
//! Records form a tree, and the program resumes at the last record with an id and a known type. A
//! record of another type interrupts the chain: nothing before it is sent. Records with the same id are
//! one message. `promptTokenCount` includes the cache; `candidatesTokenCount` includes
//! `thoughtsTokenCount` if `totalTokenCount` says so. Telemetry repeats the tokens of the reply that
//! follows it; only one of them is counted. Telemetry of a sub-agent with a log of its own is not
//! counted.

mod decode;
mod fold;
mod output;
mod path;
mod write;

use std::path::{Path, PathBuf};

use crate::json;
use crate::model::{Artifact, ArtifactKind, Framing};

use super::derived::{LineDecoder, RecordDecoder};
use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, RepairRules, Writer};

/// The layout of Qwen Code.
#[derive(Debug)]
pub struct Qwen;

static SPEC: LayoutSpec = LayoutSpec {
    follows_parent_links: true,
    has_secret_files: true,
    ..LayoutSpec::new("qwen")
};

impl Layout for Qwen {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let set = |name: &str| env.vars.get(name).filter(|value| !value.is_empty());
        let home = set("QWEN_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(env.home.as_ref()?.join(".qwen")));
        let runtime = set("QWEN_RUNTIME_DIR").map(PathBuf::from);
        runtime.into_iter().chain(home).collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        const OWN: [&str; 3] = ["oauth_creds.json", "usage_record.jsonl", "QWEN.md"];
        names.contains(&"projects") && names.iter().any(|name| OWN.contains(name))
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        path::may_hold_files(dir)
    }

    fn may_hold_logs(&self, dir: &Path) -> bool {
        dir.starts_with("projects") && path::may_hold_files(dir)
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(path::folder(directory))
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() && artifact.framing == Framing::Lines => {
                Box::new(RecordDecoder {
                    to_lines: fold::to_lines,
                    is_record: fold::is_record,
                })
            }
            kind if kind.is_conversation() => Box::new(LineDecoder),
            ArtifactKind::Todos if path::is_own_file(artifact) => Box::new(TodosDecoder),
            kind @ (ArtifactKind::AgentMeta | ArtifactKind::Todos) => {
                Box::new(decode::DocumentDecoder(kind))
            }
            _ => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        Some(self)
    }

    fn repair_rules(&self) -> &dyn RepairRules {
        self
    }

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
}

impl RepairRules for Qwen {
    fn can_have_children(&self, record: &[u8]) -> bool {
        fold::is_in_chain(&String::from_utf8_lossy(record))
    }

    fn set_parent(&self, record: &[u8], parent: Option<&str>) -> Option<Vec<u8>> {
        let parent = parent.map_or("null".to_owned(), json::quote);
        json::set_members(record, &[("parentUuid", &parent)])
    }

    fn set_id(&self, record: &[u8], id: &str) -> Option<Vec<u8>> {
        json::set_members(record, &[("uuid", &json::quote(id))])
    }
}

impl LayoutChecks for Qwen {
    fn is_program_file(&self, path: &Path) -> bool {
        match *super::path_parts(path).unwrap_or_default().as_slice() {
            ["projects", _, "memory", ..] => true,
            ["projects", _, file] => matches!(file, "meta.json" | "extract-cursor.json"),
            [
                "tmp" | "debug" | "skills" | "agents" | "commands" | "extensions" | "plans"
                | "insights" | "ide" | "locks" | "file-history",
                ..,
            ] => true,
            [file] => matches!(
                file,
                "settings.json"
                    | "settings.json.orig"
                    | "oauth_creds.json"
                    | "mcp-oauth-tokens.json"
                    | "mcp-oauth-tokens-v2.json"
                    | "google_accounts.json"
                    | "installation_id"
                    | "trustedFolders.json"
                    | "usage_record.jsonl"
                    | ".env"
                    | "QWEN.md"
                    | "output-language.md"
                    | "source.json"
            ),
            _ => false,
        }
    }
}
