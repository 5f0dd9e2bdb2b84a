//! The orchestrator: dated logs below `~/.config/claude`, a root that Claude Code may share.
//!
//! ```text
//! projects/<hash>/<YYYY-MM-DD>.jsonl              the sessions of a directory on one day
//! projects/<hash>/<YYYY-MM-DD>.jsonl.lock         the lock of that log's writers
//! projects/<hash>/<YYYY-MM-DD>.annals             what annals says of that log's records
//! projects/<hash>/<session>.notes.annals          remarks on a session; annals' own
//! projects/<hash>/<session>.todos.json            [{content,status,…}]; annals' own
//! projects/<hash>/<session>.origin.annals         what the session was converted from
//! annals-origin.jsonl                             what the root was converted from
//! ```
//!
//! `<hash>` is base64url of the SHA-256 of the absolute path of the working directory, its first 20
//! characters. The path is normalized as `os.path.abspath` does it, which keeps links. A record is a line with a `type`, for which `role` may stand:
//!
//! ```text
//! user         {content,timestamp,metadata?{source?: cli|api|agent,sessionId?}}
//! assistant    {content,timestamp,usage,model,stopReason?}
//! tool_call    {tool,arguments,timestamp,toolCallId?}
//! tool_result  {tool,result?|error?,timestamp,duration_ms?,toolCallId?}
//! usage        {input_tokens,output_tokens,cache_creation_tokens,cache_read_tokens}, or in camel case
//! ```
//!
//! Several sessions may share a log. A `user` record belongs to the session that it names in
//! `metadata.sessionId`, or else to the log's own session, which is called `<YYYY-MM-DD>-<hash>`. Any
//! other record belongs to the session of the record before it. A turn that other programs log may go
//! on in the log of the next day; annals goes on in the log that a session is in. A sub-agent logs
//! under a name of its own, `<session>--agent-<agent>`; its todos and notes are named so too.
//!
//! Records have no ids and no links: an id is the day and the offset (`20261115-1234`), and a
//! message hangs from the one before it of its session.
//!
//! Into the log annals writes these four types with these members and no others, because the
//! document's own parser takes no others. What they cannot say goes to the log's companion
//! (`store/companion.rs`), from which a reader puts it back into the record: the member `annals` (see
//! `layout/annex.rs`) and, in `metadata`, `sessionId` of records other than `user`, the working
//! directory (`cwd`), the branch (`gitBranch`) and `forkedFrom` on copies. Records that the document
//! has no word for stand in the companion alone, and a blank line in the log marks their place:
//! `session`, which begins a session, and `system`: instructions, compactions, notices of the program
//! and what a sub-agent is for, told apart by `annals.kind`.

mod decode;
mod line;
mod outline;
mod output;
mod path;
mod split;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind};

use super::annotations::AnnotationDecoder;
use super::opaque::{ObjectDecoder, OpaqueDecoder};
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, Writer};

/// The layout of the orchestrator.
#[derive(Debug)]
pub struct Orchestrator;

impl Layout for Orchestrator {
    fn name(&self) -> &'static str {
        "orchestrator"
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let home = env.home.iter();
        home.map(|home| home.join(".config/claude")).collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        // What lies in it tells this layout from Claude Code's.
        names.contains(&"projects")
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        path::may_hold_files(dir)
    }

    fn record_fault(&self, _: &Artifact, _: &str, record: &str) -> Option<(FlawKind, String)> {
        // Other types are reported as that.
        let why = output::check_record(record)
            .err()
            .filter(|_| output::is_known(record))?;
        Some((FlawKind::UnfitRecord, why))
    }

    fn attributes(&self) -> &'static [&'static str] {
        &["source"]
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(path::folder_hash(directory))
    }

    fn spelled_directory(&self, directory: &str) -> Option<String> {
        Some(path::normalized(directory))
    }

    fn log_from_name(&self, text: &str) -> Option<Artifact> {
        path::log_from_name(text)
    }

    fn log_name_fault(&self, text: &str) -> Option<String> {
        path::name_fault(text)
    }

    fn retention_days(&self) -> Option<u64> {
        Some(30)
    }

    fn ages_by_file(&self) -> bool {
        true
    }

    fn has_lock_files(&self) -> bool {
        true
    }

    fn companion(&self, log: &Artifact) -> Option<Artifact> {
        (log.kind == ArtifactKind::SharedLog).then(|| path::companion(log))
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => Box::new(line::LineDecoder::new(artifact)),
            ArtifactKind::Notes => Box::new(AnnotationDecoder),
            ArtifactKind::Todos => Box::new(TodosDecoder),
            ArtifactKind::Companion => Box::new(ObjectDecoder),
            _ => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        Some(self)
    }
}
