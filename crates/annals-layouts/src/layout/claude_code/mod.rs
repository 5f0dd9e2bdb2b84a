//! Claude Code: `~/.claude`.
//!
//! ```text
//! projects/<folder>/<session>.jsonl                            session log; the client names it by a UUID, others as they like
//! projects/<folder>/<session>/subagents/[…/]agent-<id>.jsonl   sub-agent log, 2.1 (+ agent-<id>.meta.json)
//! projects/<folder>/agent-<id>.jsonl                           sub-agent log, 2.0; its session is in its records. If they
//!                                                              name the session agent-<id>, it is that session's own
//! projects/<folder>/<session>/tool-results/<name>              output too long for the log
//! projects/<folder>/<session>/custom-title.json                {customTitle}
//! projects/<folder>/<session>/…                                other state of the session, if it is named by a UUID
//! projects/<folder>/memory/…                                   the client's memory files; not read
//! projects/[<folder>/]sessions-index.json                      derived and often stale: never trusted
//! todos/<session>-agent-<agent>.json                           [{content,status,priority?,activeForm?}]
//! tasks/<session>/<n>.json                                     {id,subject,description,status,…}
//! file-history/<session>/<hash>@v<n>                           a file before the agent changed it
//! session-env/<session>/…                                      state of the session
//! history.jsonl                                                {display,pastedContents,timestamp,project,sessionId}
//! settings.json                                                {cleanupPeriodDays,…}
//! plans/<name>.md                                              plans
//! ```
//!
//! `<folder>` is `encode_path` of the working directory. Many paths share a folder, so the name is
//! never decoded: a session's directory is the `cwd` of its records. Version 1 stores sub-agents
//! inside the session log, as chains with `isSidechain` and their own root.
//!
//! A log line is an object with a `type`. Lines with `uuid` and `parentUuid` form the tree of
//! messages; `user` and `assistant` lines carry an API message, one line per content block or one
//! for all of them. The client skips those without a `uuid`; here their parent is the message
//! before. Other programs write such logs too, and these variants are read:
//!
//! ```text
//! user, assistant {…, content}                  top-level content; `message.content` takes precedence
//! assistant {…, model}                          top-level model; `message.model` takes precedence
//! summary {content:{summary, messageCount, summarizedUntil}}
//! system {message:{role, content}}              without a `uuid`: in no conversation
//! file-history {path, operation, snippet}
//! queue-operation {operation, content?}         the client writes these too
//! ```
//!
//! `isSidechain` without an `agentId` marks a branch if the line has a parent in the main chain. A
//! `system` line of subtype `compact_boundary` has no parent but a `logicalParentUuid`. All other
//! lines are metadata outside the tree. New types appear every month: unknown ones are opaque and
//! keep their bytes.
//!
//! A message without a `uuid` gets the id `at-OFFSET` (`Fact::NoId`, `Entry::derived_id`). Writers
//! never use such an id as a parent.

mod decode;
mod document;
mod line;
mod message_line;
mod outline;
mod output;
mod path;
mod repair;
mod usage;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind};

use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, RepairRules, Writer};

use path::encode_path;

/// The layout of Claude Code.
#[derive(Debug)]
pub struct ClaudeCode;

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["format_version"],
    retention_days: Some(30),
    follows_parent_links: true,
    older_client: Some("2.0.77"),
    usage_needle: Some(usage::NEEDLE),
    ..LayoutSpec::new("claude-code")
};

impl Layout for ClaudeCode {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        if let Some(list) = env
            .vars
            .get("CLAUDE_CONFIG_DIR")
            .filter(|list| !list.is_empty())
        {
            return list
                .split(',')
                .map(|dir| PathBuf::from(dir.trim()))
                .collect();
        }
        let Some(home) = &env.home else {
            return Vec::new();
        };
        vec![home.join(".claude"), home.join(".config/claude")]
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        names.contains(&"projects")
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        path::may_hold_files(dir)
    }

    fn may_hold_logs(&self, dir: &Path) -> bool {
        path::may_hold_logs(dir)
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(encode_path(directory))
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            ArtifactKind::SessionLog | ArtifactKind::AgentLog => {
                Box::new(line::LineDecoder::new(artifact))
            }
            kind => Box::new(document::DocumentDecoder(kind)),
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

impl LayoutChecks for ClaudeCode {
    fn is_program_file(&self, path: &Path) -> bool {
        path::is_memory(path) || path::is_client_file(path)
    }

    fn is_misplaced(&self, path: &Path) -> bool {
        path::is_misplaced(path)
    }
}
