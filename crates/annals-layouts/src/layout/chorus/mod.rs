//! Chorus: `.chorus` in a project, or in the home directory.
//!
//! ```text
//! config.json                                             {workspaces:[…],settings:{…}}
//! sessions/<workspace>/<agent>/conversations.json         {conversations:[…]}, the session list
//! sessions/<workspace>/<agent>/<conversation>-messages.jsonl   one message per line
//! sessions/<workspace>/<agent>/<conversation>-notes.jsonl      annals: notes, tags, summaries
//! sessions/<workspace>/<agent>/<conversation>-todos.json       annals: todos, as Claude Code writes them
//! sessions/<workspace>/<agent>/<conversation>-annals-origin.jsonl   annals: what it was converted from
//! sessions/<workspace>/<agent>/<conversation>--agent-<id>-…    annals: the same files of a sub-agent
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
//! Tool calls and tool results are separate records. Lines have no parents: the parent of each is
//! the line before it, unless its member `annals` names another. `sessionId` is the Claude Code
//! session behind the conversation, not the conversation.
//!
//! `tool_use` records repeat the whole `claudeMessage` but have no tokens. A turn's tokens are on
//! its `assistant` record, and again on the `system` record that ends the turn; the first one
//! counts.
//!
//! A row of the session list is
//! `{id,sessionId|null,agentId,workspaceId,title,createdAt,updatedAt,messageCount}` and may have
//! `sessionCreatedAt`, `branchName`, `worktreePath`, `settings`; rows by annals also
//! `annals:{cwd,branch}`. The program creates a row before the first message, so a row without a
//! log is no damage. The program cannot find a log without a row, so every write by annals ensures
//! that there is one.
//!
//! A message of an unknown type that has a `uuid` is decoded as a system entry (`Body::System`),
//! because newer versions of the program may have more types, and its session list counts them.

mod config;
mod decode;
mod documents;
mod edit;
mod json_array;
mod line;
mod outline;
mod output;
mod path;
mod session_list;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind};

use super::annotations::AnnotationDecoder;
use super::opaque::OpaqueDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer};

pub use config::{Agent, Config, Settings, Workspace};
pub use edit::ConfigEdit;

/// The agent that owns conversations created by annals.
const OWN_AGENT: &str = "annals";

/// The layout of Chorus.
#[derive(Debug)]
pub struct Chorus;

static SPEC: LayoutSpec = LayoutSpec {
    project_dir: Some(".chorus"),
    attributes: &[
        "agent",
        "agent_name",
        "session_id",
        "workspace",
        "workspace_name",
    ],
    expires_by_mtime: false,
    ..LayoutSpec::new("chorus")
};

impl Layout for Chorus {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        env.home.iter().map(|home| home.join(".chorus")).collect()
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

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(format!("{}/{OWN_AGENT}", path::workspace_id(directory)))
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            ArtifactKind::SessionLog | ArtifactKind::AgentLog => {
                Box::new(line::LineDecoder::new(artifact))
            }
            ArtifactKind::Notes => Box::new(AnnotationDecoder),
            ArtifactKind::SessionList => Box::new(documents::SessionListDecoder::new(artifact)),
            ArtifactKind::Todos => Box::new(documents::TodoListDecoder),
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

impl LayoutChecks for Chorus {
    fn record_fault(&self, _: &Artifact, _: &str, record: &str) -> Option<(FlawKind, String)> {
        write::fault(record).map(|why| (FlawKind::UnfitRecord, why))
    }
}
