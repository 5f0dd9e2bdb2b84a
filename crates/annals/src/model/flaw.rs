//! Damage as data.

use serde::{Deserialize, Serialize};

use super::Span;

/// Something wrong with a record or with how records hang together. Reading goes on past it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// What kind of damage.
    pub kind: FlawKind,
    /// Where.
    #[serde(flatten)]
    pub span: Span,
    /// The volume of the log that it lies in, from 0.
    #[serde(skip)]
    pub volume: u16,
    /// What exactly, for people.
    pub detail: String,
}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FlawKind {
    /// The last line has no line ending and is not whole: its writer was cut off, or is still writing.
    TornTail,
    /// A line is not JSON.
    BadJson,
    /// A line is JSON but not an object.
    NotAnObject,
    /// Two records stand on one line.
    Glued,
    /// NUL bytes stand where a record should be.
    NulRun,
    /// A line is not UTF-8.
    BadUtf8,
    /// A line is longer than the reader's cap and was not decoded.
    Oversize,
    /// An entry names a parent that is not there.
    Orphan,
    /// Entries are each other's ancestors.
    Cycle,
    /// Two entries have one id; the later one counts.
    DuplicateId,
    /// A token count is negative, absurd or not a number.
    BadUsage,
    /// A file could not be read.
    Unreadable,
    /// A document that should hold a list or an object holds something else.
    BadDocument,
    /// A derived document tells something else than the logs it was made from.
    StaleIndex,
    /// The first line does not say what the log is.
    BadHeader,
}

impl FlawKind {
    /// The kind as JSON output and filters spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            FlawKind::TornTail => "torn-tail",
            FlawKind::BadJson => "bad-json",
            FlawKind::NotAnObject => "not-an-object",
            FlawKind::Glued => "glued",
            FlawKind::NulRun => "nul-run",
            FlawKind::BadUtf8 => "bad-utf8",
            FlawKind::Oversize => "oversize",
            FlawKind::Orphan => "orphan",
            FlawKind::Cycle => "cycle",
            FlawKind::DuplicateId => "duplicate-id",
            FlawKind::BadUsage => "bad-usage",
            FlawKind::Unreadable => "unreadable",
            FlawKind::BadDocument => "bad-document",
            FlawKind::StaleIndex => "stale-index",
            FlawKind::BadHeader => "bad-header",
        }
    }

    /// The line itself cannot be read as a record.
    pub fn hides_record(self) -> bool {
        matches!(
            self,
            FlawKind::TornTail
                | FlawKind::BadJson
                | FlawKind::NotAnObject
                | FlawKind::Glued
                | FlawKind::NulRun
                | FlawKind::Oversize
        )
    }
}
