//! The layout of Gemini CLI.
//!
//! ```text
//! projects.json                                     {projects: {"/abs/cwd": "slug"}}
//! settings.json                                     general.sessionRetention {enabled, maxAge: "30d"}
//! tmp/<slug>/.project_root                          the working directory, as text
//! tmp/<slug>/chats/session-<minute>-<id8>.jsonl     a session, from version 0.40 on
//! tmp/<slug>/chats/session-<minute>-<id8>.json      a session of older versions: one document
//! tmp/<slug>/chats/<session>/<agent>.jsonl          a sub-agent
//! tmp/<slug>/logs.json                              prompts that were typed: one array
//! annals/…                                          files of annals, such as todos: see `own_files.rs`
//! ```
//!
//! A `.jsonl` file is a log of patches. A line is one of:
//!
//! | line | meaning |
//! |---|---|
//! | `{sessionId, projectHash, startTime, lastUpdated, kind, directories?, summary?}` | metadata; written again by every resume |
//! | `{id, timestamp, type, content, …}` | a message; a line with a known id replaces the message in its place |
//! | `{"$set": {…}}` | changes metadata; `messages` replaces the whole list |
//! | `{"$rewindTo": id}` | removes that message and all after it; an unknown id removes all |
//! | `{type, annals, …}` without `id` | only read by annals: see `write.rs` |
//!
//! A `.json` file has the metadata and the list `messages`. Both are derived to one line per message
//! or change (`fold`), so a message is read once, in its place, with its last content and with the
//! time, tokens and model of its first line: a resume writes the history again with new times and
//! without tokens. Messages that were removed or replaced stay: they are branches.
//!
//! A message:
//!
//! | member | meaning |
//! |---|---|
//! | `type` | `user`, `gemini`, `info`, `warning` or `error` |
//! | `content` | text, or parts: `{text}`, `{functionResponse: {id, name, response}}`, `{inlineData: {mimeType, data}}` |
//! | `thoughts` | `[{subject, description}]` |
//! | `tokens` | `{input, output, cached, thoughts, tool}`; `input` includes `cached`, `output` excludes `thoughts` |
//! | `toolCalls` | `[{id, name, args, result: [{functionResponse}], status, agentId?}]` |
//!
//! The session id is in the metadata; the file name has its first 8 characters only. Two files of
//! one session are its volumes. A tool result is stored in `toolCalls` and, by newer versions, in a
//! user message too: the message is used if there is one.

mod decode;
mod fold;
mod path;
mod project_root;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind};

use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer};

/// The layout of Gemini CLI.
#[derive(Debug)]
pub struct Gemini;

static SPEC: LayoutSpec = LayoutSpec {
    retention_days: Some(30),
    // The program reads the time from the file.
    expires_by_mtime: false,
    has_secret_files: true,
    attributes: &["forked_from"],
    is_idle_volume: Some(decode::is_idle),
    ..LayoutSpec::new("gemini")
};

impl Layout for Gemini {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let home = env
            .vars
            .get("GEMINI_CLI_HOME")
            .filter(|home| !home.is_empty());
        let home = home.map(PathBuf::from).or_else(|| env.home.clone());
        home.iter().map(|home| home.join(".gemini")).collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        names.contains(&"tmp") && (names.contains(&"projects.json") || names.contains(&"history"))
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

    // Two directories with the same last component have different folders.
    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => Box::new(decode::MessageDecoder::new(artifact)),
            ArtifactKind::History | ArtifactKind::SessionList | ArtifactKind::Settings => {
                Box::new(decode::DocumentDecoder(artifact.clone()))
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

impl LayoutChecks for Gemini {
    fn is_program_file(&self, path: &Path) -> bool {
        path::is_program_file(path)
    }
}
