//! The orchestrator: dated logs below `~/.config/claude`, a root that Claude Code may share.
//!
//! ```text
//! projects/<hash>/<YYYY-MM-DD>.jsonl              sessions of a directory on one day
//! projects/<hash>/<YYYY-MM-DD>.jsonl.lock         lock held by writers of that log
//! projects/<hash>/<YYYY-MM-DD>.annals             companion file: annals' data for that log's records
//! projects/<hash>/<session>.notes.annals          notes of a session; annals' own
//! projects/<hash>/<session>.todos.json            [{content,status,…}]; annals' own
//! projects/<hash>/<session>.origin.annals         what the session was converted from
//! annals-origin.jsonl                             what the root was converted from
//! ```
//!
//! `<hash>` is the first 20 characters of the base64url SHA-256 of the working directory's absolute
//! path. The path is normalized as by `os.path.abspath`, which keeps symbolic links. A record is a
//! line with a `type`, or with `role` instead:
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
//! `metadata.sessionId`, or else to the log's own session, which is called `<YYYY-MM-DD>-<hash>`.
//! Any other record belongs to the session of the record before it. A turn of other programs may
//! continue in the log of the next day; annals stays in the log that a session is in. A sub-agent
//! logs under its own name, `<session>--agent-<agent>`; its todos and notes use that name too.
//!
//! Records have no ids and no links: an id is the day and the offset (`20261115-1234`), and the
//! parent of a message is the one before it in its session.
//!
//! In the log, annals writes these four types with these members and no others, because the design
//! document's own parser accepts no others. The rest goes to the log's companion file
//! (`store/companion.rs`), from which a reader merges it back into the record. That is the member
//! `annals` (see `layout/extension.rs`) and, in `metadata`, `sessionId` of records other than
//! `user`, the working directory (`cwd`), the branch (`gitBranch`) and `forkedFrom` on copies.
//!
//! Records of other types are only in the companion file, and a blank line in the log marks their
//! position. They are `session`, which begins a session, and `system`: system prompts, compactions,
//! notices of the program and the purpose of a sub-agent, distinguished by `annals.kind`.

mod decode;
mod line;
mod members;
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
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, LogNames, Writer};

/// The layout of the orchestrator.
#[derive(Debug)]
pub struct Orchestrator;

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["source"],
    retention_days: Some(30),
    ages_by_file: true,
    has_lock_files: true,
    spelled_directory: Some(path::normalized),
    log_names: Some(LogNames {
        log: path::log_from_name,
        fault: path::name_fault,
    }),
    companion: Some(|log| (log.kind == ArtifactKind::SharedLog).then(|| path::companion(log))),
    ..LayoutSpec::new("orchestrator")
};

impl Layout for Orchestrator {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let home = env.home.iter();
        home.map(|home| home.join(".config/claude")).collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        // The content of `projects` distinguishes this layout from Claude Code's.
        names.contains(&"projects")
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
        Some(path::folder_hash(directory))
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

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
}

impl LayoutChecks for Orchestrator {
    fn record_fault(&self, _: &Artifact, _: &str, record: &str) -> Option<(FlawKind, String)> {
        // Unknown types are reported elsewhere.
        let why = output::check_record(record)
            .err()
            .filter(|_| output::is_known(record))?;
        Some((FlawKind::UnfitRecord, why))
    }
}
