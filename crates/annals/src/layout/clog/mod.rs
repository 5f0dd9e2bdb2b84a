//! clog: `storage/` in a project.
//!
//! ```text
//! conversations/conversation-<session>/chat.jsonl                session log: a header, then messages
//! conversations/conversation-<session>/notes.jsonl               a header, then remarks; always there
//! conversations/conversation-<session>/todos.json                [{content,status,…}]; ours
//! conversations/conversation-<session>/annals-origin.jsonl       what it was converted from; ours
//! conversations/conversation-<session>--agent-<agent>/chat.jsonl sub-agent log; ours
//! state/<name>.json                                              state of the program
//! sessions/<utc>/system.log                                      what the program printed in one run
//! ```
//!
//! `<session>` is `2026-03-26T01-32-20-418Z-<thread>`: when the conversation began, in UTC, and its
//! thread's id, trimmed, in lower case, with `-` for each run of characters outside of `[a-z0-9_-]`
//! and none at its ends. The thread's exact id stands in the header. Folders with other names are
//! read as well.
//!
//! ```text
//! {"type":"conversation-header","schemaVersion":1,"fileKind":"chat"|"notes","conversationId":…,
//!  "threadId":…,"channel":…,"title":…,"createdAt":<ms>,"updatedAt":<ms>}
//! {"type":"message","conversationId":…,"threadId":…,"messageId":…,
//!  "role":"system"|"user"|"agent"|"assistant","channel":"tui"|"web"|"telegram"|"system",
//!  "content":…,"createdAt":<ms>,"reasoning":…,
//!  "thoughts":[{"stepNumber":…,"reasoning":…,"toolCalls":[…],"toolResults":[…]}]}
//! {"type":"note","createdAt":<ms>,"author":…,"content":…}
//! ```
//!
//! Messages name no parent: each follows the one before it. A message's thoughts come before its
//! text. One of the agent that holds nothing but results of tools stands in the user's place, as
//! everywhere in the model. `conversationId` is the name of the folder. The program rewrites its
//! files on every change; we append: the header has the title that the conversation began with, a
//! new title is a remark in `notes.jsonl` (see `remark`), and `updatedAt` is never trusted. Further
//! headers in a chat, by which earlier versions of annals changed titles, are read. A message
//! without `messageId` gets one from its offset. What else must be said stands in the member
//! `annals` (see `annex`).

mod fork;
mod line;
mod notes;
mod path;
mod repair;
mod steps;
mod write;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::model::{Artifact, ArtifactKind, FlawKind};

use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, RepairRules, Writer};

/// The layout of clog.
#[derive(Debug)]
pub struct Clog;

impl Layout for Clog {
    fn name(&self) -> &'static str {
        "clog"
    }

    fn roots(&self, _: &Env) -> Vec<PathBuf> {
        Vec::new()
    }

    fn project_dir(&self) -> Option<&'static str> {
        Some("storage")
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        names.contains(&"conversations")
    }

    fn may_hold_files(&self, dir: &Path) -> bool {
        path::may_hold_files(dir)
    }

    fn may_hold_logs(&self, dir: &Path) -> bool {
        path::may_hold_logs(dir)
    }

    fn attributes(&self) -> &'static [&'static str] {
        &["channel", "conversation", "thread"]
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        path::classify(path)
    }

    fn record_fault(
        &self,
        log: &Artifact,
        first: &str,
        record: &str,
    ) -> Option<(FlawKind, String)> {
        write::record_fault(log, first, record)
    }

    fn required_files(&self, log: &Artifact) -> Vec<Artifact> {
        let notes = Artifact {
            kind: ArtifactKind::Notes,
            ..log.clone()
        };
        vec![notes]
    }

    fn is_misplaced(&self, path: &Path) -> bool {
        path::is_misplaced(path)
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        path::path_for(artifact)
    }

    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn retention_days(&self) -> Option<u64> {
        None
    }

    fn expires_by_mtime(&self) -> bool {
        false
    }

    fn run_logs(&self, started: Timestamp) -> Vec<Artifact> {
        path::run_logs(started)
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            ArtifactKind::SessionLog | ArtifactKind::AgentLog => {
                Box::new(line::LineDecoder::new(artifact))
            }
            ArtifactKind::Notes => Box::new(notes::NotesDecoder),
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
}
