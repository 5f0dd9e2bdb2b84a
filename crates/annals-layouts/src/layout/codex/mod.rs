//! The layout of Codex CLI.
//!
//! ```text
//! sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl   a thread: a session, a fork or a sub-agent
//! archived_sessions/rollout-<time>-<thread>.jsonl               a thread that was archived
//! session_index.jsonl                                           {id, thread_name, updated_at}: names, the last one wins
//! history.jsonl                                                 {session_id, ts (seconds), text}: prompts that were typed
//! annals/…                                                      files of annals, such as todos: see `own_files.rs`
//! *.sqlite                                                      derived from the rollouts; of state_5.sqlite the ids are compared
//! auth.json                                                     not read: secrets
//! ```
//!
//! A line of a rollout is `{timestamp, ordinal?, type, payload}`. Newer versions number the lines of
//! a thread (`ordinal`). Types of lines:
//!
//! | type | meaning |
//! |---|---|
//! | `session_meta` | the thread: `{id, session_id?, cwd, cli_version, git? {branch}, source, forked_from_id?, history_base?, parent_thread_id?, agent_role?, agent_nickname?}`; the first line. `session_id` is the thread at the top. A fork that copies lines has those of its parents below its own |
//! | `turn_context` | `{cwd, model}` from here on |
//! | `response_item` | what the model gets and gives, see below |
//! | `event_msg` | what the program shows; repeats texts of response items |
//! | `compacted` | `{message, replacement_history?}`: a summary replaces everything before |
//! | `token_usage_record` | `{response_id, usage, thread_token_usage}`: tokens of one response and of the thread so far |
//! | `annals_…`, and the member `annals` of any line | only read by annals: see `write.rs` |
//! | `world_state` and others | not interpreted |
//!
//! Types of `response_item`:
//!
//! | type | meaning |
//! |---|---|
//! | `message` | `{id?, role: "user", "assistant" or "developer", content: [{type: "input_text", "output_text" or "input_image", …}]}` |
//! | `reasoning` | `{id?, summary: [{text}], content?: [{text}], encrypted_content}` |
//! | `function_call`, `custom_tool_call` | `{name, call_id, arguments}` (JSON in a string) or `{…, input}` (text) |
//! | `local_shell_call`, `web_search_call` | `{call_id?, id?, action}`; a search has no output |
//! | `function_call_output`, `custom_tool_call_output` | `{call_id, output: text or [{type, text}]}` |
//!
//! Types of `event_msg` that are read:
//!
//! | type | meaning |
//! |---|---|
//! | `user_message`, `item_completed` with a `UserMessage` | the user message before it was typed |
//! | `token_count` | `{info: {total_token_usage}}`: tokens of the thread so far; may be repeated |
//! | `thread_rolled_back` | `{num_turns}`: that many prompts and all after them are no longer sent |
//! | `turn_aborted`, `error`, `task_complete` with an `error` | the turn ended early |
//!
//! The text of a message is that of its response item. A user message was typed unless it has one of
//! the beginnings of injected context, names its origin as such, or is directly before a message
//! that was typed. Messages form one line (`fold`); a rollback begins a branch. A fork by
//! `history_base {thread_id, end_byte_offset}` has only its own lines: it continues that part of its
//! parent's rollout.
//!
//! Tokens of a response are those of its `token_usage_record`. Older versions have none: a response
//! has what `total_token_usage` has increased by. `input_tokens` includes `cached_input_tokens` and
//! `cache_write_input_tokens`, `output_tokens` includes `reasoning_output_tokens`. A fork that copies
//! lines counts on from its parent's sums, so equal sums of one origin are one response.
//!
//! While the program has a thread open, it holds the lock of `thread-writer-locks/<thread>.lock`.

mod decode;
mod fold;
mod items;
mod path;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, Framing, RowFormat};

use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer};

/// The layout of Codex CLI.
#[derive(Debug)]
pub struct Codex;

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["forked_from"],
    has_secret_files: true,
    thread_lock: Some(path::thread_lock),
    unlisted_in: Some((
        "state_5.sqlite",
        "Codex finds the session by its id, but not with --last until it has opened it",
    )),
    derived_database: Some(&THREADS),
    ..LayoutSpec::new("codex")
};

static THREADS: RowFormat = RowFormat::list_of_sessions(
    "codex-threads",
    "state_5.sqlite",
    &["threads"],
    "SELECT CAST(id AS TEXT) FROM threads",
);

impl Layout for Codex {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let named = env.vars.get("CODEX_HOME").filter(|home| !home.is_empty());
        let named = named.map(PathBuf::from);
        let root = named.or_else(|| Some(env.home.as_ref()?.join(".codex")));
        root.into_iter().collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        const OWN: [&str; 5] = [
            "archived_sessions",
            "config.toml",
            "history.jsonl",
            "session_index.jsonl",
            "state_5.sqlite",
        ];
        let sessions = names.contains(&"sessions") || names.contains(&"archived_sessions");
        sessions && names.iter().any(|name| OWN.contains(name))
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        path::may_hold_files(dir)
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => Box::new(decode::LineDecoder {
                is_raw: artifact.framing == Framing::Lines,
            }),
            ArtifactKind::History | ArtifactKind::SessionList => {
                Box::new(decode::DocumentDecoder(artifact.kind))
            }
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

impl LayoutChecks for Codex {
    fn is_program_file(&self, path: &Path) -> bool {
        path::is_program_file(path)
    }
}
