//! The layout of Qwen Code, read-only.
//!
//! ```text
//! projects/<directory>/chats/<session>.jsonl                   a session; all but letters and digits is `-`
//! projects/<directory>/subagents/<session>/agent-<id>.jsonl    a sub-agent
//! projects/<directory>/subagents/<session>/agent-<id>.meta.json   its kind, task and call
//! todos/<session>.json                                         todos
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

mod fold;

use std::path::{Path, PathBuf};

use crate::json::{Raw, Text, object};
use crate::model::{AgentId, Artifact, ArtifactKind, Body, Entry, Framing, Outline, SessionId};

use super::derived::LineDecoder;
use super::opaque::OpaqueDecoder;
use super::{
    Decoded, Decoder, Env, Layout, LayoutChecks, LayoutSpec, Record, Writer, entry_outline,
    path_parts, todos,
};

/// The layout of Qwen Code.
#[derive(Debug)]
pub struct Qwen;

static SPEC: LayoutSpec = LayoutSpec {
    follows_parent_links: true,
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
        match *path_parts(dir).unwrap_or_default().as_slice() {
            ["projects" | "todos"] => true,
            ["projects", folder] => is_folder(folder),
            ["projects", folder, "chats" | "subagents"] => is_folder(folder),
            ["projects", folder, "subagents", session] => {
                is_folder(folder) && is_folder(session) && SessionId::new(session).is_ok()
            }
            _ => false,
        }
    }

    fn may_hold_logs(&self, dir: &Path) -> bool {
        self.may_hold_files(dir) && !dir.starts_with("todos")
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        match *path_parts(path)?.as_slice() {
            ["todos", file] => Some(Artifact {
                session: Some(SessionId::new(file.strip_suffix(".json")?).ok()?),
                ..Artifact::new(ArtifactKind::Todos)
            }),
            ["projects", folder, "chats", file] if is_folder(folder) => Some(Artifact {
                folder: Some(folder.to_owned()),
                session: Some(SessionId::new(file.strip_suffix(".jsonl")?).ok()?),
                framing: Framing::Document(&fold::CHAT),
                ..Artifact::new(ArtifactKind::SessionLog)
            }),
            ["projects", folder, "subagents", session, file]
                if is_folder(folder) && is_folder(session) =>
            {
                let name = file.strip_prefix("agent-")?;
                let (agent, kind, framing) = match name.strip_suffix(".meta.json") {
                    Some(agent) => (agent, ArtifactKind::AgentMeta, Framing::Lines),
                    None => {
                        let framing = Framing::Document(&fold::CHAT);
                        (
                            name.strip_suffix(".jsonl")?,
                            ArtifactKind::AgentLog,
                            framing,
                        )
                    }
                };
                Some(Artifact {
                    folder: Some(folder.to_owned()),
                    session: Some(SessionId::new(session).ok()?),
                    agent: Some(AgentId::new(agent).ok()?),
                    framing,
                    ..Artifact::new(kind)
                })
            }
            _ => None,
        }
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        use ArtifactKind as K;
        let session = artifact.session.as_ref().map(SessionId::as_str);
        let Some(session) = session else {
            return PathBuf::new();
        };
        let agent = artifact.agent.as_ref().map(AgentId::as_str);
        match (artifact.kind, &artifact.folder, agent) {
            (K::Todos, _, _) => format!("todos/{session}.json").into(),
            (K::SessionLog, Some(folder), _) => {
                format!("projects/{folder}/chats/{session}.jsonl").into()
            }
            (K::AgentLog | K::AgentMeta, Some(folder), Some(agent)) => {
                let ending = match artifact.kind {
                    K::AgentLog => "jsonl",
                    _ => "meta.json",
                };
                format!("projects/{folder}/subagents/{session}/agent-{agent}.{ending}").into()
            }
            // The layout has no such files.
            _ => PathBuf::new(),
        }
    }

    fn folder(&self, directory: &str) -> Option<String> {
        let plain = |letter: char| match letter.is_ascii_alphanumeric() {
            true => letter,
            false => '-',
        };
        Some(directory.chars().map(plain).collect())
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => Box::new(LineDecoder),
            kind @ (ArtifactKind::AgentMeta | ArtifactKind::Todos) => {
                Box::new(DocumentDecoder(kind))
            }
            _ => Box::new(OpaqueDecoder),
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

impl LayoutChecks for Qwen {
    fn is_program_file(&self, path: &Path) -> bool {
        match *path_parts(path).unwrap_or_default().as_slice() {
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

object! {
    struct AgentMeta<'a> {
        "agentType" => kind: Text<'a>,
        "description" => description: Text<'a>,
        "toolUseId" => call: Text<'a>,
    }
}

object! {
    struct TodoList<'a> { "todos" => todos: Raw<'a>, }
}

/// Decodes the descriptions of sub-agents, and todos.
#[derive(Debug)]
struct DocumentDecoder(ArtifactKind);

impl DocumentDecoder {
    fn entry<T>(&self, record: &Record<'_>, out: &mut Decoded<T>) -> Option<Entry> {
        record.object(out, |text| {
            let body = match self.0 {
                ArtifactKind::Todos => {
                    let list: TodoList<'_> = serde_json::from_str(text)?;
                    let todos = list.todos.list().into_iter();
                    let todos = todos.map(|todo| todos::decode_todo(&todo.parse()));
                    Body::Todos(todos.collect())
                }
                _ => {
                    let meta: AgentMeta<'_> = serde_json::from_str(text)?;
                    Body::Agent {
                        kind: meta.kind.owned(),
                        description: meta.description.owned(),
                        call: meta.call.owned(),
                    }
                }
            };
            Ok(Entry::new(record.span, body))
        })
    }
}

impl Decoder for DocumentDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let entry = self.entry(record, out);
        let outline = entry.map(|entry| Outline::new(entry.span));
        out.items.extend(outline);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let entry = self.entry(record, out);
        entry_outline::push_entries(record, before, entry, out);
    }
}
