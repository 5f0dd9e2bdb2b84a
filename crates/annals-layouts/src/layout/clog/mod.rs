//! clog: `storage/` in a project.
//!
//! ```text
//! conversations/conversation-<session>/chat.jsonl                session log: a header, then messages
//! conversations/conversation-<session>/notes.jsonl               a header, then notes; always exists
//! conversations/conversation-<session>/todos.json                [{content,status,…}]; annals' own
//! conversations/conversation-<session>/annals-origin.jsonl       what it was converted from; annals' own
//! conversations/conversation-<session>--agent-<agent>/chat.jsonl sub-agent log; annals' own
//! state/<name>.json                                              state of the program
//! sessions/<utc>/system.log                                      output of one run of the program
//! ```
//!
//! `<session>` is `2026-03-26T01-32-20-418Z-<thread>`: the start of the conversation in UTC and the
//! id of its thread. That id is trimmed and in lower case, with `-` for each run of characters
//! outside of `[a-z0-9_-]` and none at its ends. The header has the thread's exact id. Folders with
//! other names are read as well.
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
//! Messages name no parent: the parent of each is the one before it. A message's thoughts come
//! before its text. An agent's message with nothing but tool results has the role of the user, as
//! in all layouts. `conversationId` is the name of the folder.
//!
//! The program rewrites its files on every change; annals appends. The header has the title that
//! the conversation began with, a new title is an annotation in `notes.jsonl` (see
//! `layout/annotations.rs`), and `updatedAt` is never trusted. Further headers in a chat, by which
//! earlier versions of annals changed titles, are read. A message without `messageId` gets one from
//! its offset. What the format cannot express is in the member `annals` (see `layout/extension.rs`).

mod fork;
mod line;
mod notes;
mod path;
mod repair;
mod steps;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, FlawKind};

use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, RepairRules, Writer};

/// The layout of clog.
#[derive(Debug)]
pub struct Clog;

static SPEC: LayoutSpec = LayoutSpec {
    project_dir: Some("storage"),
    attributes: &["channel", "conversation", "thread"],
    expires_by_mtime: false,
    run_logs: Some(path::run_logs),
    ..LayoutSpec::new("clog")
};

impl Layout for Clog {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, _: &Env) -> Vec<PathBuf> {
        Vec::new()
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

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
}

impl LayoutChecks for Clog {
    fn is_misplaced(&self, path: &Path) -> bool {
        path::is_misplaced(path)
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
}
