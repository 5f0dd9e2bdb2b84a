//! The layout of annals' own exports, read-only: the root is a file.
//!
//! ```text
//! JSON    {"annals":1,"sessions":[{…,"logs":[{…,"entries":[{…},…]},…]},…],"problems":[{…},…]}
//! lines   {"type":"session","annals":1,…}      a session; the entries of its main agent follow
//!         {"type":"entry",…}
//!         {"type":"agent","session":…,…}       a sub-agent; its entries follow
//!         {"type":"entry",…}
//!         {"type":"problem",…}                 something that could not be read; at the end
//! ```
//!
//! Without problems there is no such member or line. The first log of a session is its main agent's and
//! has no `agent`. The members of sessions and agents are those of [`SessionHead`] and [`AgentHead`],
//! the members of entries those of [`EntryJson`].
//!
//! JSON lines are read in place: they are a log that several sessions share. A document is turned into
//! the same lines. Titles, notes and tags that are stored outside of the logs are entries after those
//! of the main log; todos are in the line of the session.
//!
//! The member `record` of an entry is its record as it was in the log, so that an import into the
//! same layout can write the same bytes; `offset` is its offset there. Of several entries from one record, the first has it, and the
//! others have `same_record`.

mod decode;
mod document;
mod entry;
mod line;

use std::path::{Path, PathBuf};

use crate::model::{Artifact, ArtifactKind, Entry, Framing, SessionId};

use super::{Decoder, Env, Layout, LayoutSpec, Writer, path_parts};

pub use entry::{EntryJson, ExportedRecord, read_entry, write_entry, write_json};
pub use line::{AgentHead, ExportLine, ExportProblem, SessionHead, TodoList, VERSION, parse_line};

/// The layout of annals' own exports.
#[derive(Debug)]
pub struct ExportFile;

/// Session of the lines before the first line of type `session`, which an export does not have.
const UNNAMED: &str = "export";

static SPEC: LayoutSpec = LayoutSpec {
    attributes: &["exported_from"],
    follows_parent_links: true,
    older_client: Some("2.0.77"),
    root_is_file: true,
    ..LayoutSpec::new("export-file")
};

impl Layout for ExportFile {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, _: &Env) -> Vec<PathBuf> {
        Vec::new()
    }

    fn matches_root(&self, _: &[&str]) -> bool {
        false
    }

    fn may_hold_files(&self, _: &Path) -> bool {
        false
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        let is_root = path_parts(path)?.is_empty();
        is_root.then(|| Artifact {
            session: SessionId::new(UNNAMED).ok(),
            framing: Framing::LinesOrDocument(&document::FORMAT),
            ..Artifact::new(ArtifactKind::SharedLog)
        })
    }

    fn path_for(&self, _: &Artifact) -> PathBuf {
        PathBuf::new()
    }

    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn decoder(&self, _: &Artifact) -> Box<dyn Decoder> {
        Box::new(decode::LineDecoder)
    }

    fn writer(&self) -> Option<&dyn Writer> {
        None
    }
}

/// Returns whether the beginning of a file says that it is an export of annals. Others can be named as
/// one: `export-file:FILE`.
pub fn names_export(beginning: &[u8]) -> bool {
    document::names_version(beginning)
}

/// Returns whether the beginning of a file can be that of an export.
pub fn is_export(beginning: &[u8]) -> bool {
    document::is_log(beginning) || document::is_document(beginning)
}

/// Returns whether an entry is made from the line of a session or an agent, and stands for no record of
/// its log.
pub fn is_head(entry: &Entry) -> bool {
    decode::is_head(entry)
}
