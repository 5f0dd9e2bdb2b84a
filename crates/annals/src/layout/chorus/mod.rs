//! Chorus: `.chorus` in a project, or in the home directory.
//!
//! ```text
//! config.json                                             {workspaces:[…],settings:{…}}
//! sessions/<workspace>/<agent>/conversations.json         {conversations:[…]}, the index
//! sessions/<workspace>/<agent>/<conversation>-messages.jsonl   one message per line
//! sessions/<workspace>/<agent>/<conversation>-notes.jsonl      annals: notes, tags, summaries
//! sessions/<workspace>/<agent>/<conversation>-todos.json       annals: todos, as Claude Code writes them
//! sessions/<workspace>/<agent>/<conversation>-annals-origin.jsonl   annals: what it was converted from
//! sessions/<workspace>/<agent>/<conversation>--agent-<id>-…    annals: the same of a sub-agent
//! annals-origin.jsonl                                     annals: what the root was converted from
//! ```
//!
//! A conversation is a session; its folder is `<workspace>/<agent>`. A line is
//!
//! ```text
//! {"uuid":…,"type":"user"|"assistant"|"tool_use"|"tool_result"|"error"|"system",
//!  "content":"…"|[blocks],"timestamp":…,"sessionId"?:…,
//!  "toolName"?:…,"toolInput"?:{…},"toolUseId"?:…,"isToolError"?:bool,
//!  "claudeMessage"?:{"message":{"id":…,"model":…,"stop_reason":…}},
//!  "inputTokens"?,"outputTokens"?,"cacheReadTokens"?,"cacheCreationTokens"?,"costUsd"?,…,
//!  "annals"?:{…}}
//! ```
//!
//! A call of a tool, and what it gave back, are records of their own. Lines have no parents: each
//! hangs from the one before it, unless its member `annals` says otherwise. `sessionId` is the
//! session of Claude Code behind the conversation, not the conversation.
//!
//! `tool_use` records carry the whole `claudeMessage` again but no tokens. A turn's tokens stand on its
//! `assistant` record, and once more on the `system` record that ends the turn; the first one counts.
//!
//! A row of the index is `{id,sessionId|null,agentId,workspaceId,title,createdAt,updatedAt,messageCount}`
//! and may have `sessionCreatedAt`, `branchName`, `worktreePath`, `settings`; rows of ours also `annals:{cwd,branch}`. The program makes it before
//! the first message, so a row without a log is no damage; a log without a row is one that the program
//! cannot find, so every write of ours sees to it that there is one.

mod config;
mod decode;
mod documents;
mod edit;
mod json_array;
mod line;
mod outline;
mod path;
mod session_list;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind};

use super::annotations::AnnotationDecoder;
use super::opaque::OpaqueDecoder;
use super::{Decoder, Env, Layout, Writer};

pub use config::{Agent, Config, Settings, Workspace};
pub use edit::ConfigEdit;

/// The agent whose conversations are annals' own.
const OWN_AGENT: &str = "annals";

/// The layout of Chorus.
#[derive(Debug)]
pub struct Chorus;

impl Layout for Chorus {
    fn name(&self) -> &'static str {
        "chorus"
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        env.home.iter().map(|home| home.join(".chorus")).collect()
    }

    fn project_dir(&self) -> Option<&'static str> {
        Some(".chorus")
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        const OTHERS: [&str; 5] = [
            "projects",
            "conversations",
            "state",
            "config.toml",
            "settings.json",
        ];
        let own = names.contains(&path::CONFIG) || names.contains(&"sessions");
        own && !OTHERS.iter().any(|other| names.contains(other))
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        path::may_hold_files(dir)
    }

    fn record_fault(&self, _: &Artifact, _: &str, record: &str) -> Option<(FlawKind, String)> {
        write::fault(record).map(|why| (FlawKind::UnfitRecord, why))
    }

    fn attributes(&self) -> &'static [&'static str] {
        &[
            "agent",
            "agent_name",
            "session_id",
            "workspace",
            "workspace_name",
        ]
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(format!("{}/{OWN_AGENT}", path::workspace_id(directory)))
    }

    fn retention_days(&self) -> Option<u64> {
        None
    }

    fn expires_by_mtime(&self) -> bool {
        false
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            ArtifactKind::SessionLog | ArtifactKind::AgentLog => {
                Box::new(line::LineDecoder::new(artifact))
            }
            ArtifactKind::Notes => Box::new(AnnotationDecoder),
            ArtifactKind::Register => Box::new(documents::SessionListDecoder::new(artifact)),
            ArtifactKind::Todos => Box::new(documents::TodoListDecoder),
            _ => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        Some(self)
    }
}
