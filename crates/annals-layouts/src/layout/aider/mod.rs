//! The layout of aider, read-only.
//!
//! ```text
//! .aider.chat.history.md   all runs in a directory
//! .aider.input.history     prompts that were typed
//! ```
//!
//! The files are in the directory in which aider ran, usually that of a repository. There is no
//! default place: the current directory and those above it are searched, and `AIDER_CHAT_HISTORY_FILE`
//! names a file elsewhere. The history is Markdown, and each run is a session with the name
//! `aider-<time>` of its beginning:
//!
//! | line | meaning |
//! |---|---|
//! | `# aider chat started at <local time>` | a run begins |
//! | `#### <text>` | a prompt; adjacent lines are one prompt |
//! | `> <text>` | what the program says: its version, `Model: <model> with …`, results of commands |
//! | `> Tokens: 2.6k sent, 18 received.` | tokens of the response before, rounded; with `Cost: $0.01 message` the recorded cost |
//! | all others | the model's answer |
//!
//! Cache reads and writes are taken as apart from what was sent; no recording shows them.
//!
//! The format is ambiguous: an answer with a line that begins with `####` or `>` cannot be distinguished from a
//! prompt or a notice. A line that follows an answer without a blank line belongs to the answer. Times
//! of messages are unknown: all have that of their run, which is taken as UTC.

mod fold;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, Framing};

use super::derived::LineDecoder;
use super::opaque::OpaqueDecoder;
use super::{Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer};

/// The layout of aider.
#[derive(Debug)]
pub struct Aider;

static SPEC: LayoutSpec = LayoutSpec {
    // The files are in the project's own directory.
    project_dir: Some(""),
    ..LayoutSpec::new("aider")
};

/// The conversations.
const CHAT: &str = ".aider.chat.history.md";

/// The typed prompts.
const INPUT: &str = ".aider.input.history";

impl Layout for Aider {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let named = env.vars.get("AIDER_CHAT_HISTORY_FILE").map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute() && path.ends_with(CHAT));
        let directory = named.as_deref().and_then(Path::parent);
        directory.map(Path::to_owned).into_iter().collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        names.contains(&CHAT)
    }

    fn may_hold_files(&self, _: &Path) -> bool {
        false
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        let (kind, format) = match path.to_str()? {
            CHAT => (ArtifactKind::SharedLog, &fold::CHAT),
            INPUT => (ArtifactKind::History, &fold::INPUT),
            _ => return None,
        };
        Some(Artifact {
            framing: Framing::Document(format),
            ..Artifact::new(kind)
        })
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        match artifact.kind {
            ArtifactKind::SharedLog => CHAT.into(),
            ArtifactKind::History => INPUT.into(),
            // The layout has no such files.
            _ => PathBuf::new(),
        }
    }

    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            ArtifactKind::SharedLog | ArtifactKind::History => Box::new(LineDecoder),
            _ => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        None
    }

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
}

impl LayoutChecks for Aider {
    // The directory is that of a project, so other files are not unknown.
    fn is_program_file(&self, _: &Path) -> bool {
        true
    }
}
