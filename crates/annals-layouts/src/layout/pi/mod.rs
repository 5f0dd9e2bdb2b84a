//! The layout of pi.
//!
//! ```text
//! sessions/--<directory>--/<time>_<session>.jsonl   a session; `/`, `\` and `:` in the directory are `-`
//! annals/…                                          files of annals, such as logs of sub-agents: see `own_files.rs`
//! auth.json                                         not read: secrets
//! ```
//!
//! A setting may put all sessions into `sessions/` itself. The first line is the header `{type:
//! "session", version, id, timestamp, cwd, parentSession?}`; `parentSession` is the path of the log
//! that this one was forked from. All other lines are `{type, id, parentId, timestamp, …}`:
//!
//! | type | members |
//! |---|---|
//! | `message` | `message`, see below |
//! | `compaction` | `summary` of all before, `firstKeptEntryId`, `tokensBefore`, `usage?` |
//! | `branch_summary` | `summary` of the branch that ends at `fromId` |
//! | `session_info` | `name`: the title of the session |
//! | `label` | `label` of the entry `targetId` |
//! | `custom_message` | `content` that an extension sends to the model |
//! | `custom` with the `customType` `annals` | only read by annals: see `write.rs` |
//! | `model_change`, `thinking_level_change`, other `custom` | not interpreted |
//!
//! | role of `message` | members |
//! |---|---|
//! | `user` | `content`: text, or `[{type: "text", text}, {type: "image", data, mimeType}]` |
//! | `assistant` | `content`: `[{type: "text", text}, {type: "thinking", thinking, thinkingSignature}, {type: "toolCall", id, name, arguments}]`; `api`, `model`, `usage`, `stopReason`, `errorMessage?` |
//! | `toolResult` | `toolCallId`, `content`, `isError` |
//! | `bashExecution` | `command`, `output`: a command that a person ran |
//! | `system` | `content`, `sections`: instructions |
//! | `custom`, `branchSummary`, `compactionSummary` | `content` or `summary` that the program sends |
//!
//! Entries form a tree, and the program resumes at the last line, whatever its type. `usage` is
//! `{input, output, cacheRead, cacheWrite, cacheWrite1h?, cost {total}}`: `input` excludes the cache,
//! `output` includes reasoning, `cost` is in dollars by the program's own price list. A fork copies
//! entries with their ids and times, which identify a response. Logs of the first version have no
//! ids: each entry follows the one before it.

mod decode;
mod line_out;
mod path;
mod write;

use std::path::{Path, PathBuf};

use crate::json;
use crate::model::{Artifact, ArtifactKind, FlawKind};

use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, RepairRules, Writer};

/// The layout of pi.
#[derive(Debug)]
pub struct Pi;

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["forked_from"],
    first_record: Some(r#""type":"session""#),
    has_secret_files: true,
    follows_parent_links: true,
    ..LayoutSpec::new("pi")
};

impl Layout for Pi {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let set = |name: &str| env.vars.get(name).filter(|value| !value.is_empty());
        let named = set("PI_CODING_AGENT_DIR").map(PathBuf::from);
        named
            .or_else(|| Some(env.home.as_ref()?.join(".pi/agent")))
            .into_iter()
            .collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        const OWN: [&str; 3] = ["models.json", "models-store.json", "settings.json"];
        let own = names.iter().any(|name| OWN.contains(name));
        names.contains(&"sessions") && own
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
        Some(path::folder(directory))
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => Box::new(decode::LineDecoder),
            ArtifactKind::Todos => Box::new(TodosDecoder),
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

impl LayoutChecks for Pi {
    fn is_program_file(&self, path: &Path) -> bool {
        path::is_program_file(path)
    }

    fn record_fault(&self, _: &Artifact, first: &str, record: &str) -> Option<(FlawKind, String)> {
        let why = "it has no id: the program drops the whole history if such a record is the last";
        decode::lacks_id(first, record).then(|| (FlawKind::UnfitRecord, why.to_owned()))
    }
}

impl RepairRules for Pi {
    fn set_parent(&self, record: &[u8], parent: Option<&str>) -> Option<Vec<u8>> {
        let parent = parent.map_or("null".to_owned(), json::quote);
        json::set_members(record, &[("parentId", &parent)])
    }

    fn set_id(&self, record: &[u8], id: &str) -> Option<Vec<u8>> {
        json::set_members(record, &[("id", &json::quote(id))])
    }

    fn last_duplicate_wins(&self) -> bool {
        true
    }
}
