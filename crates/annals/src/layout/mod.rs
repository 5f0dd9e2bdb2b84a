//! Layouts: trees of files and the schema of their lines.
//!
//! A layout describes, the store acts. Nothing in this module touches the file system: paths go in
//! and meanings come out, bytes go in and entries come out, changes go in and edits come out.
//! Adding a layout means one module, one folder of fixtures and one line in [`LAYOUTS`].

mod annotations;
pub mod chorus;
mod claude_code;
mod clog;
mod content;
mod extension;
mod fork_origin;
mod member_type;
mod opaque;
mod orchestrator;
mod record;
mod repair;
mod reply;
mod salvage;
mod todos;
mod usage_fields;
mod write;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use crate::model::{Artifact, Entry, Flaw, FlawKind, Outline, Project, ResponseKey, Span, Usage};

pub use chorus::Chorus;
pub use claude_code::ClaudeCode;
pub use clog::Clog;
pub(crate) use content::{UNNAMED_CALL_PREFIX, raw_blocks, title_prefix, unnamed_call_id};
pub use orchestrator::Orchestrator;
pub use record::Record;
pub use repair::{PartialLinks, RepairRules};
pub(crate) use reply::OpenReply;
pub use salvage::{Piece, salvage};
pub use write::{
    AppendState, Change, Edit, EditPlan, ForkEdit, ForkParent, ListUpdate, NewSession, PROGRAM,
    PlanContext, RowUpdate, Spawn, Writer,
};
pub(crate) use write::{calls_of_unknown_tools, is_model};

/// Every layout there is. Adding one touches this line and its own module.
pub static LAYOUTS: &[&dyn Layout] = &[&ClaudeCode, &Chorus, &Clog, &Orchestrator];

/// The file that says what a converted session or root was before.
pub(crate) const ORIGIN_FILE: &str = "annals-origin.jsonl";

/// The line of a log in whose place a record stands that only the log's companion has.
pub(crate) const BLANK_LINE: &[u8] = b" ";

/// The names that a path consists of; `None` if it leads anywhere but down.
pub(crate) fn path_parts(path: &Path) -> Option<Vec<&str>> {
    // Nearly all paths are plain; only others must be taken apart with care.
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

/// What parts a session's name from that of its sub-agent, in layouts that know no sub-agents: the
/// sub-agent's log is that of a session of such a name.
pub(crate) const AGENT_SEPARATOR: &str = "--agent-";

/// The layout of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Layout> {
    LAYOUTS.iter().copied().find(|layout| layout.name() == name)
}

/// Whether the sessions of a directory lie in a project's folder by the layout's own rule. Several
/// directories may share a folder, so this counts only where no record names one.
pub(crate) fn is_folder_of(layout: &str, project: &Project, directory: &str) -> bool {
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
    /// Its name in flags and JSON.
    fn name(&self) -> &'static str;

    /// Where it lies by default, whatever the current directory.
    fn roots(&self, env: &Env) -> Vec<PathBuf>;

    /// The name of its directory within a project, if that is where it lies. It is looked for in the
    /// current directory and in those above it.
    fn project_dir(&self) -> Option<&'static str> {
        None
    }

    /// Whether a directory with these names in it looks like a root of this layout.
    fn matches_root(&self, names: &[&str]) -> bool;

    /// Whether a directory of the root can hold anything of interest.
    fn may_hold_files(&self, dir: &Path) -> bool;

    /// Whether the log of a conversation can lie in a directory of the root, or below it.
    fn may_hold_logs(&self, dir: &Path) -> bool {
        self.may_hold_files(dir)
    }

    /// What a file of the root means, by its path alone; `None` for foreign files.
    fn classify(&self, path: &Path) -> Option<Artifact>;

    /// Whether its own program keeps such a file, or such a directory that is not entered, although
    /// it has no meaning here.
    fn is_program_file(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// Whether a file is kept with its session, but lies where its own program puts no such file, so
    /// that nothing reads it.
    fn is_misplaced(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// What a list of its sessions tells of each beyond what all layouts do, by name.
    fn attributes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Why its own program would not read a record of a log, or not as one of that log: the kind of
    /// flaw, and what is wrong. `first` is the log's first record.
    fn record_fault(
        &self,
        log: &Artifact,
        first: &str,
        record: &str,
    ) -> Option<(FlawKind, String)> {
        let _ = (log, first, record);
        None
    }

    /// The files that its own program always keeps with the log of a session.
    fn required_files(&self, log: &Artifact) -> Vec<Artifact> {
        let _ = log;
        Vec::new()
    }

    /// The path of an artifact: the inverse of [`Layout::classify`].
    fn path_for(&self, artifact: &Artifact) -> PathBuf;

    /// The folder that sessions of a directory share; `None` if the layout has no such folders.
    ///
    /// Several directories may share one, so a folder is never decoded.
    fn folder(&self, directory: &str) -> Option<String>;

    /// An absolute directory as its own program spells it, where that program keeps links in it; `None`
    /// for a layout whose program resolves links.
    fn spelled_directory(&self, directory: &str) -> Option<String> {
        let _ = directory;
        None
    }

    /// The log that a text names by itself, such as a project's directory and a day, whether it is
    /// there or not.
    fn log_from_name(&self, text: &str) -> Option<Artifact> {
        let _ = text;
        None
    }

    /// Why a text that looks like such a name is none.
    fn log_name_fault(&self, text: &str) -> Option<String> {
        let _ = text;
        None
    }

    /// After how many days its own program deletes sessions, unless its settings say otherwise.
    fn retention_days(&self) -> Option<u64>;

    /// Whether those days count from the time of the session's file. If not, they count from the
    /// newest entry.
    fn expires_by_mtime(&self) -> bool {
        true
    }

    /// Whether a session is as old as its log's file, and not as its newest entry: where its own
    /// program's clean-up says so.
    fn ages_by_file(&self) -> bool {
        false
    }

    /// Whether its own program locks `FILE.lock` while it writes the log `FILE`, and may replace the
    /// log by a copy under that lock.
    fn has_lock_files(&self) -> bool {
        false
    }

    /// Whether its own program finds a conversation by following links from its end, so that it loses
    /// all that stands before a link that is broken.
    fn follows_parent_links(&self) -> bool {
        false
    }

    /// Finds what a record of a log has in it that spent anything, so that others need not be looked
    /// at; `None` where every record must be.
    fn usage_needle(&self) -> Option<Needle> {
        None
    }

    /// The log of the run of its own program that started at a time, by each name that it may have, the
    /// usual one first; none where programs log their runs elsewhere.
    fn run_logs(&self, started: Timestamp) -> Vec<Artifact> {
        let _ = started;
        Vec::new()
    }

    /// Reads the records of such a file.
    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder>;

    /// The file beside a log in which annals says what the layout's own program would not take in
    /// the log.
    fn companion(&self, log: &Artifact) -> Option<Artifact> {
        let _ = log;
        None
    }

    /// Writes such roots; `None` for a layout that is only read.
    fn writer(&self) -> Option<&dyn Writer>;

    /// Mends the lines of its logs.
    fn repair_rules(&self) -> &dyn RepairRules {
        &repair::ExtensionRepair
    }
}

/// Turns the records of one file into entries. Total: any bytes give entries and flaws, never an error.
///
/// A decoder sees records in file order and may remember what went before to save work. What it
/// says must not depend on that: single records are read again, and logs are read from their end.
/// So a layout whose records do not name their parents says [`Link::Previous`](crate::model::Link).
pub trait Decoder: Send {
    /// The skeletons of the record's entries.
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>);

    /// The skeletons of the entries that spent something, with what a ledger wants to know of them:
    /// the reply without its calls, the time, whose they are, and facts about where they were made.
    ///
    /// Others may be left out, and what is given is no more than [`outline`](Self::outline) gives.
    fn outline_usage(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        self.outline(record, out);
    }

    /// The same of a record that says what the one before it said that [`spending`](Self::outline_usage)
    /// read, but for what is told here; `None` where it says more, or where that is not known.
    fn reply_delta(&mut self, record: &Record<'_>) -> Option<ReplyDelta> {
        let _ = record;
        None
    }

    /// The record's entries with everything they say.
    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>);

    /// Tells a whole record from an object that is only a part of one. Asked only where a damaged line
    /// is searched for records.
    fn is_record(&self, object: &str) -> bool {
        let _ = object;
        false
    }

    /// What a record holds besides, that nobody said and somebody may look for: JSON texts such as
    /// what a tool did to a file, of which the model saw only a word.
    fn extra_text(&mut self, record: &Record<'_>, give: &mut dyn FnMut(&str)) {
        let _ = (record, give);
    }

    /// The record with all that is said of it elsewhere; `None` where that is the record itself.
    fn full_record(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        let _ = record;
        None
    }

    /// Whether something is said of its records elsewhere, so that their bytes are not all of it.
    fn has_companion_data(&self) -> bool {
        false
    }
}

/// In what a reply differs from the one before it, where that is all.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReplyDelta {
    /// The response that it is part of.
    pub response: Option<ResponseKey>,
    /// When it came.
    pub time: Option<Timestamp>,
    /// Its tokens.
    pub usage: Usage,
}

/// Finds something in bytes that may be cut anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Needle {
    /// Where the first one begins.
    pub find: fn(&[u8]) -> Option<usize>,
    /// How many bytes of one must be there for it to be found.
    pub max_len: usize,
}

/// Where a decoder puts what it finds.
#[derive(Debug)]
pub struct Decoded<T> {
    /// What was read.
    pub items: Vec<T>,
    /// What is wrong.
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
    /// Notes damage.
    pub fn add_flaw(&mut self, kind: FlawKind, span: Span, detail: impl Into<String>) {
        self.flaws.push(Flaw {
            kind,
            span,
            volume: 0,
            detail: detail.into(),
        });
    }
}

/// What layouts may know of the machine. The library reads no environment variable itself.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The current directory.
    pub cwd: Option<PathBuf>,
    /// Environment variables.
    pub vars: BTreeMap<String, String>,
}
