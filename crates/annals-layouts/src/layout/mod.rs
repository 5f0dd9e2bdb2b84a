//! Layouts: trees of files and the schema of their lines.
//!
//! A layout describes, the store acts. Nothing in this module touches the file system: it maps
//! paths to artifacts, bytes to entries, and changes to edits. Adding a layout takes one module,
//! one folder of fixtures and one line in [`LAYOUTS`].
//!
//! A decoder has three depths, so that a list does not decode the text of a whole history:
//! `Decoder::outline` (links, times, counts, short texts), `Decoder::outline_usage` (only what a
//! ledger needs) and `Decoder::decode` (everything). The conformance tests check that they agree,
//! and that a record gives the same entries whether it is read alone, from the end of a log or
//! after others.
//!
//! Data that a program's format cannot express is stored the same way in all layouts: parents and
//! further members in the member `annals` (`extension.rs`), notes, tags and summaries in a log of
//! their own (`annotations.rs`), todos in a document, and sub-agents as sessions with the name
//! `SESSION--agent-AGENT`. Members that only one layout has are passed through:
//! `WriterSpec::draft_members` lists their names, and the store refuses all others.

mod aider;
mod annotations;
mod append_state;
pub mod chorus;
mod claude_code;
mod cline;
mod clog;
mod codex;
mod content;
mod copilot;
mod derived;
mod droid;
mod entry_outline;
pub mod export_file;
mod extension;
mod fork_origin;
mod gemini;
mod member_type;
mod opaque;
mod opencode;
mod orchestrator;
mod own_files;
mod pi;
mod qwen;
mod record;
mod repair;
mod reply;
mod resume;
mod salvage;
mod scalars;
mod spec;
mod todos;
mod usage_fields;
mod write;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use crate::model::{Artifact, Entry, Flaw, FlawKind, Outline, Project, ResponseKey, Span, Usage};

pub use aider::Aider;
pub use append_state::{AppendState, in_tree};
pub use chorus::Chorus;
pub use claude_code::ClaudeCode;
pub use cline::Cline;
pub use clog::Clog;
pub use codex::Codex;
pub use content::{
    MAX_TITLE_CHARS, UNNAMED_CALL_PREFIX, raw_blocks, title_prefix, unnamed_call_id,
};
pub use copilot::Copilot;
pub use droid::Droid;
pub use export_file::ExportFile;
pub use gemini::Gemini;
pub use opencode::OpenCode;
pub use orchestrator::Orchestrator;
pub use pi::Pi;
pub use qwen::Qwen;
pub use record::Record;
pub use repair::{PartialLinks, RepairRules};
pub use reply::OpenReply;
pub use resume::{RESUME_COMMANDS, ResumeCommand, resume_command};
pub use salvage::{Piece, salvage};
pub use scalars::set_scalars;
pub use spec::{LayoutChecks, LayoutSpec, LogNames, SessionListWriter, WriterSpec};
pub use write::{
    Change, Edit, EditPlan, ForkEdit, ForkParent, ListUpdate, NewSession, PROGRAM, PlanContext,
    RowUpdate, Spawn, Writer,
};
pub use write::{calls_of_unknown_tools, is_model};

/// All layouts. Adding one touches this line and its own module.
pub static LAYOUTS: &[&dyn Layout] = &[
    &ClaudeCode,
    &Chorus,
    &Clog,
    &Orchestrator,
    &Gemini,
    &OpenCode,
    &Codex,
    &Pi,
    &Copilot,
    &Qwen,
    &Droid,
    &Cline,
    &Aider,
    &ExportFile,
];

/// Name of the file that records what a session or root was converted from.
pub const ORIGIN_FILE: &str = "annals-origin.jsonl";

/// Log line that marks the position of a record stored only in the log's companion file.
pub const BLANK_LINE: &[u8] = b" ";

/// Returns whether annals gave the file its name while removing it (`.annals-NAME.removed`). No layout
/// classifies such a file.
pub fn is_removed(path: &Path) -> bool {
    let name = path
        .file_name()
        .map_or(&b""[..], |name| name.as_encoded_bytes());
    name.starts_with(b".annals-") && name.ends_with(b".removed")
}

/// Returns the components of a relative path; `None` for absolute paths, `..`, a leading `.`, and
/// paths that are not UTF-8.
pub fn path_parts(path: &Path) -> Option<Vec<&str>> {
    // Fast path: nearly all paths contain only plain names.
    let text = path.to_str()?;
    let plain: Vec<&str> = text.split('/').collect();
    if !plain.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return Some(plain);
    }
    let name = |part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    };
    path.components().map(name).collect()
}

/// Separator between session id and sub-agent id in layouts without sub-agents, where a sub-agent's
/// log is that of a session with such a name.
pub const AGENT_SEPARATOR: &str = "--agent-";

/// Returns the layout with the given name.
pub fn by_name(name: &str) -> Option<&'static dyn Layout> {
    LAYOUTS.iter().copied().find(|layout| layout.name() == name)
}

/// Returns whether the layout would store sessions of `directory` in the project's folder. Several
/// directories may map to one folder, so this only counts where no record names a directory.
pub fn is_folder_of(layout: &str, project: &Project, directory: &str) -> bool {
    let is_absolute = directory.starts_with('/') || directory.contains(":\\");
    if !project.guessed || !is_absolute {
        return false;
    }
    let directory = match directory.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    };
    let folder = by_name(layout).and_then(|layout| layout.folder(directory));
    folder.as_deref() == Some(project.path.as_str())
}

/// A tree of files and the schema of their lines.
pub trait Layout: Sync {
    /// Facts about the layout.
    fn spec(&self) -> &'static LayoutSpec;

    /// Default roots, independent of the current directory.
    fn roots(&self, env: &Env) -> Vec<PathBuf>;

    /// Returns whether a directory with these entries looks like a root of this layout.
    fn matches_root(&self, names: &[&str]) -> bool;

    /// Returns whether a directory of the root can contain files of interest.
    fn may_hold_files(&self, dir: &Path) -> bool;

    /// Returns whether a directory of the root can contain conversation logs, directly or below it.
    fn may_hold_logs(&self, dir: &Path) -> bool {
        self.may_hold_files(dir)
    }

    /// Classifies a file of the root by its path alone; `None` for foreign files, and for files that
    /// annals is removing.
    fn classify(&self, path: &Path) -> Option<Artifact>;

    /// Returns the path of an artifact: the inverse of [`Layout::classify`].
    fn path_for(&self, artifact: &Artifact) -> PathBuf;

    /// Returns the folder that sessions of a directory share; `None` if the layout has no such
    /// folders.
    ///
    /// Several directories may share one, so a folder is never decoded.
    fn folder(&self, directory: &str) -> Option<String>;

    /// Returns a decoder for the records of a file.
    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder>;

    /// Returns the writer; `None` for a read-only layout.
    fn writer(&self) -> Option<&dyn Writer>;

    /// Returns the writer of sessions in a database; `None` if the layout has none. It appends to them
    /// and begins new ones, and nothing else.
    fn row_writer(&self) -> Option<&dyn Writer> {
        None
    }

    /// Returns the rules for repairing lines of its logs.
    fn repair_rules(&self) -> &dyn RepairRules {
        &repair::ExtensionRepair
    }

    /// Returns what a check of its files looks for.
    fn checks(&self) -> &dyn LayoutChecks {
        &NoChecks
    }
}

/// Checks of a layout that has none of its own.
struct NoChecks;

impl LayoutChecks for NoChecks {}

/// Decodes the records of one file into entries. Total: any bytes give entries and flaws, never an
/// error.
///
/// A decoder gets records in file order and may cache state to save work. Its output must not
/// depend on that state: single records are read again, and logs are read from their end. So a
/// layout whose records do not name their parents uses [`Link::Previous`](crate::model::Link).
pub trait Decoder: Send {
    /// Outlines the record's entries.
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>);

    /// Outlines only the entries that have usage, with what a ledger needs: the reply without its
    /// calls, time, agent, and facts such as session and directory.
    ///
    /// Other entries may be omitted. The result contains nothing that [`outline`](Self::outline)
    /// does not.
    fn outline_usage(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        self.outline(record, out);
    }

    /// Returns the delta of a record whose usage outline differs from the last one by
    /// [`outline_usage`](Self::outline_usage) only in the fields of [`ReplyDelta`]; `None` if it
    /// may differ in more.
    fn reply_delta(&mut self, record: &Record<'_>) -> Option<ReplyDelta> {
        let _ = record;
        None
    }

    /// Decodes the record's entries in full.
    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>);

    /// Returns whether an object is a whole record and not part of one. Only used to search a
    /// damaged line for records.
    fn is_record(&self, object: &str) -> bool {
        let _ = object;
        false
    }

    /// Passes searchable JSON of the record that is in no entry to `give`, such as the full outcome
    /// of a file edit, of which the model saw only a word.
    fn extra_text(&mut self, record: &Record<'_>, give: &mut dyn FnMut(&str)) {
        let _ = (record, give);
    }

    /// Returns the record with its companion data merged in; `None` if it has none.
    fn full_record(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        let _ = record;
        None
    }

    /// Returns whether companion data exists, so that the bytes of its records are incomplete.
    fn has_companion_data(&self) -> bool {
        false
    }

    /// Looks for the lines of all companion data, in case the log was rewritten. Returns whether
    /// records may decode differently now.
    fn bind_companion(&mut self) -> bool {
        false
    }
}

/// Difference between a reply and the previous one, if they differ in nothing else.
#[derive(Clone, Copy, Debug)]
pub struct ReplyDelta {
    /// The response that the reply is part of.
    pub response: Option<ResponseKey>,
    /// Time of the reply.
    pub time: Option<Timestamp>,
    /// Token counts.
    pub usage: Usage,
}

/// Pattern search over bytes that may be cut at any point.
#[derive(Clone, Copy, Debug)]
pub struct Needle {
    /// Returns the offset of the first match.
    pub find: fn(&[u8]) -> Option<usize>,
    /// Maximum length of a match in bytes.
    pub max_len: usize,
}

/// Output of a decoder.
#[derive(Debug)]
pub struct Decoded<T> {
    /// Decoded items.
    pub items: Vec<T>,
    /// Damage found.
    pub flaws: Vec<Flaw>,
}

impl<T> Default for Decoded<T> {
    fn default() -> Self {
        Decoded {
            items: Vec::new(),
            flaws: Vec::new(),
        }
    }
}

impl<T> Decoded<T> {
    /// Records a flaw.
    pub fn add_flaw(&mut self, kind: FlawKind, span: Span, detail: impl Into<String>) {
        self.flaws.push(Flaw {
            kind,
            span,
            volume: 0,
            detail: detail.into(),
        });
    }
}

/// Environment passed to layouts. The library itself reads no environment variables.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The current directory.
    pub cwd: Option<PathBuf>,
    /// Environment variables.
    pub vars: BTreeMap<String, String>,
}
