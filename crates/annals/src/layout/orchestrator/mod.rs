//! The orchestrator: dated logs below `~/.config/claude`, a root that Claude Code may share.
//!
//! ```text
//! projects/<hash>/<YYYY-MM-DD>.jsonl              the sessions of a directory on one day
//! projects/<hash>/<session>.notes.jsonl           remarks on a session; annals' own
//! projects/<hash>/<session>.todos.json            [{content,status,…}]; annals' own
//! projects/<hash>/<session>.annals-origin.jsonl   what the session was converted from
//! annals-origin.jsonl                             what the root was converted from
//! ```
//!
//! `<hash>` is base64url of the SHA-256 of the absolute path of the working directory, its first 20
//! characters. A record is a line with a `type`, for which `role` may stand:
//!
//! ```text
//! user         {content,timestamp,metadata?}
//! assistant    {content,timestamp,usage,model,stopReason?,metadata?}
//! tool_call    {tool,arguments,timestamp,toolCallId?,metadata?}
//! tool_result  {tool,result?|error?,timestamp,duration_ms?,toolCallId?,metadata?}
//! metadata     {source?,sessionId?,…}
//! usage        {input_tokens,output_tokens,cache_creation_tokens,cache_read_tokens}, or in camel case
//! ```
//!
//! Several sessions share a log. A record belongs to the session that it names in
//! `metadata.sessionId`, or else to that of the record before it; those before any name are the
//! session `<YYYY-MM-DD>-<hash>`. A session goes on in the log of the next day. A sub-agent logs under
//! a name of its own, `<session>--agent-<agent>`; its todos and notes are named so too.
//!
//! Records have no ids and no links: an id is the day and the offset (`20261115-1234`), and a
//! message hangs from the one before it of its session. What annals writes has an id, and whatever
//! else the words above cannot say, in the member `annals` (see `layout/annex.rs`). Beyond them it
//! writes `session`, which begins a session, and `system`: instructions, compactions, notices of the
//! program and what a sub-agent is for, told apart by `annals.kind`. In `metadata` it puts the
//! working directory (`cwd`), the branch (`gitBranch`), `resumed` on the first record after a
//! session was opened again, and `forkedFrom` on copies.

mod decode;
mod form;
mod line;
mod outline;
mod part;
mod path;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind};

use super::remark::Remarks;
use super::todos::Todos;
use super::untold::Untold;
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

    fn recognises(&self, names: &[&str]) -> bool {
        // What lies in it tells this layout from Claude Code's.
        names.contains(&"projects")
    }

    fn enters(&self, dir: &Path) -> bool {
        path::enters(dir)
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn place(&self, artifact: &Artifact) -> PathBuf {
        path::place(artifact)
    }

    fn folder(&self, directory: &str) -> Option<String> {
        Some(path::hash(directory))
    }

    fn keep_days(&self) -> Option<u64> {
        Some(30)
    }

    fn expires_by_file(&self) -> bool {
        false
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => Box::new(line::Lines::of(artifact)),
            ArtifactKind::Notes => Box::new(Remarks),
            ArtifactKind::Todos => Box::new(Todos),
            _ => Box::new(Untold),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        Some(self)
    }
}
