//! Damage as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Span;
use crate::text::pluralize;

/// Damage of a record or of the links between records. Reading continues past it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// The kind of damage.
    pub kind: FlawKind,
    /// The byte range.
    #[serde(flatten)]
    pub span: Span,
    /// The volume of the log, from 0.
    #[serde(skip)]
    pub volume: u16,
    /// The details, for people.
    pub detail: String,
}

/// Severity of a flaw, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something is lost, or readers of the log do not see it.
    Error,
    /// Odd, but everything can be read; or something will be lost unless someone acts.
    Warning,
    /// Information only.
    Note,
}

impl Severity {
    /// All severities, worst first.
    pub const ALL: &'static [Severity] = &[Severity::Error, Severity::Warning, Severity::Note];

    /// The severity, as in JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Number of errors and warnings. Notes are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlawCounts {
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
}

impl FlawCounts {
    /// Returns the severity of the worst.
    pub fn worst(self) -> Option<Severity> {
        match self {
            FlawCounts {
                errors: 0,
                warnings: 0,
            } => None,
            FlawCounts { errors: 0, .. } => Some(Severity::Warning),
            FlawCounts { .. } => Some(Severity::Error),
        }
    }
}

impl FromIterator<(FlawKind, usize)> for FlawCounts {
    fn from_iter<T: IntoIterator<Item = (FlawKind, usize)>>(kinds: T) -> Self {
        let mut counts = FlawCounts::default();
        for (kind, count) in kinds {
            match kind.severity() {
                Severity::Error => counts.errors += count,
                Severity::Warning => counts.warnings += count,
                Severity::Note => {}
            }
        }
        counts
    }
}

/// `4 errors and 1 warning`, `1 warning`, `no errors`.
impl fmt::Display for FlawCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = pluralize(self.errors, "error");
        let warnings = pluralize(self.warnings, "warning");
        match (self.errors, self.warnings) {
            (0, 0) => f.write_str("no errors"),
            (0, _) => f.write_str(&warnings),
            (_, 0) => f.write_str(&errors),
            (_, _) => write!(f, "{errors} and {warnings}"),
        }
    }
}

/// One table of all kinds: each has a name, a severity and advice.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $severity:ident $fixable:ident $advice:literal;)*) => {
        /// The kinds of damage. docs/CHECKS.md explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FlawKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl FlawKind {
            /// All kinds.
            pub const ALL: &'static [FlawKind] = &[$(FlawKind::$kind),*];

            /// The kind, as in JSON output and filters.
            pub fn as_str(self) -> &'static str {
                match self { $(FlawKind::$kind => $name,)* }
            }

            /// The severity.
            pub fn severity(self) -> Severity {
                match self { $(FlawKind::$kind => Severity::$severity,)* }
            }

            /// Whether `annals repair` fixes it.
            pub fn fixable(self) -> bool {
                match self { $(FlawKind::$kind => kinds!(@$fixable),)* }
            }

            /// Advice in one line.
            pub fn advice(self) -> &'static str {
                match self { $(FlawKind::$kind => $advice,)* }
            }
        }
    };
    (@fixable) => { true };
    (@kept) => { false };
}

kinds! {
    /// The last line has no line ending and is incomplete: its writer was interrupted or is still
    /// writing.
    TornTail "torn-tail" Warning kept
        "nothing while its agent is running; `annals repair` fixes it once it is an hour old";
    /// A line is not JSON.
    BadJson "bad-json" Error fixable
        "`annals repair` quarantines the line and relinks its children";
    /// A line is JSON but not an object.
    NotAnObject "not-an-object" Error fixable
        "`annals repair` quarantines the line";
    /// Two records are on one line.
    Glued "glued" Error fixable
        "`annals repair` puts each record on its own line";
    /// There are NUL bytes in place of a record.
    NulRun "nul-run" Error fixable
        "`annals repair` removes the NUL bytes and keeps the rest of the line";
    /// A line is not UTF-8.
    BadUtf8 "bad-utf8" Error kept
        "nothing: the invalid characters are lost, the rest is read";
    /// A line is longer than the reader's limit and was not decoded.
    Oversize "oversize" Warning kept
        "nothing: the line is kept unchanged, but annals does not decode it";
    /// An entry names a parent that does not exist.
    Orphan "orphan" Error fixable
        "`annals repair` links it to the message before it";
    /// Entries are ancestors of each other.
    Cycle "cycle" Error fixable
        "`annals repair` breaks it; until then do not resume the session, some clients hang";
    /// Two entries have the same id. In the results of a check, one is a copy of the other.
    DuplicateId "duplicate-id" Note kept
        "nothing: the later entry is a copy of the earlier one";
    /// A token count is negative, absurd or not a number.
    BadUsage "bad-usage" Warning kept
        "nothing: `annals cost` ignores the count";
    /// A file could not be read.
    Unreadable "unreadable" Error kept
        "make the file readable, then check again";
    /// A document that should hold a list or an object holds something else.
    BadDocument "bad-document" Error kept
        "restore the file from a backup; if there is none, keep a copy and fix it in an editor";
    /// A derived document differs from the logs it was made from.
    StaleIndex "stale-index" Error fixable
        "`annals repair` rebuilds it from the logs";
    /// The first line is not a valid header.
    BadHeader "bad-header" Error fixable
        "`annals repair` writes a header from the log's name and records";
    /// A record has no type.
    NoType "no-type" Warning kept
        "nothing: the record is kept, but no program can interpret it";
    /// A message has no id in a layout that links messages by id.
    NoId "no-id" Warning kept
        "nothing for annals, which shows the message in place; the client skips it";
    /// A record has a type that its own program does not support.
    UnknownType "unknown-type" Note kept
        "nothing: the record is kept, and its program skips it";
    /// A record that its own program does not read, or misreads.
    UnfitRecord "unfit-record" Warning kept
        "nothing for annals, which shows the record; for its own program, correct the line in an editor";
    /// A record names another conversation, thread, workspace or agent than its file.
    MismatchedId "mismatched-id" Warning kept
        "annals uses its location, its own program the id: move it to where it belongs, or correct the id";
    /// The file begins with a byte order mark.
    Bom "bom" Note kept
        "nothing: all readers skip it; an editor added it";
    /// Lines end in CR LF.
    Crlf "crlf" Note kept
        "nothing: all readers accept it; an editor or a file transfer converted it";
    /// Two entries with different content have the same id; the earlier one is hidden.
    CollidingId "colliding-id" Error fixable
        "`annals repair` gives the earlier entry a new id";
    /// Two messages with different content have the same id, in a log without links; both are
    /// shown.
    RepeatedId "repeated-id" Warning kept
        "nothing is hidden; name such a message by its line (SESSION@:LINE), because its id is ambiguous";
    /// A compaction continues an entry that is not in the file.
    CutHistory "cut-history" Note kept
        "nothing: the compacted entries are in another log, or were dropped";
    /// A tool was called and the conversation continued, but there is no result.
    DanglingCall "dangling-call" Warning kept
        "nothing: clients skip the call, or write an error as its result";
    /// A result answers a tool call that does not exist.
    LoneResult "lone-result" Warning kept
        "nothing, unless a damaged line nearby held the call: then `annals repair`";
    /// Records name another session than the file does.
    ForeignLines "foreign-lines" Note kept
        "nothing: forks and resumed sessions have them; the file name identifies the session";
    /// The file exists and is empty.
    EmptyFile "empty-file" Note kept
        "nothing: some clients create one at every start; if it had content, look for a backup";
    /// An entry is older than its parent.
    OutOfOrder "out-of-order" Warning kept
        "no action needed for annals; client 2.0 may resume at another message (see older-client)";
    /// One log holds several conversations without a common root.
    SeveralRoots "several-roots" Note kept
        "nothing: `annals tree` shows all; a client resumes only one of them";
    /// The agent's own program would leave out messages if it resumed the session.
    Dropped "dropped" Error fixable
        "`annals repair` relinks them, so that the client reads the whole history again";
    /// The agent's own program cannot resume the whole session, for a reason that no repair
    /// changes.
    Unresumable "unresumable" Warning kept
        "nothing is lost: `annals show` reads it all, and a newer client may too";
    /// An older version of the agent's own program would send less of the session than a newer one.
    OlderClient "older-client" Note kept
        "nothing for newer clients; `annals fork` writes a session that older clients read completely";
    /// Files of a session whose log does not exist.
    Stray "stray" Warning kept
        "restore the log from a backup; `annals repair` lists the files";
    /// A companion file has an entry for a line that the log does not have.
    UnmatchedEntry "unmatched-entry" Warning kept
        "restore the log and its companion file from one backup; the log is read without these entries";
    /// The blank line that marked the position of a companion's record is missing from the log.
    MovedEntry "moved-entry" Note kept
        "nothing: the record is read after the line it followed";
    /// A record names a file of its session that does not exist.
    MissingFile "missing-file" Warning kept
        "restore the file from a backup, or add a note where the notes are missing; the record itself is intact";
    /// An unrecognised file among the files of a layout.
    UnknownFile "unknown-file" Warning kept
        "nothing if it is yours; if it is a log, give it the name that its program would use";
    /// A file in a place of the root where its layout has no files.
    ForeignFile "foreign-file" Note kept
        "nothing if it is yours or its program's; if it is a log, move it to where its program reads logs";
    /// A file has a name that annals gave it when it removed it; nothing reads it.
    UnfinishedRemoval "unfinished-removal" Error fixable
        "`annals repair --apply` restores the file";
    /// A directory or a symbolic link has the name of a log's lock file.
    BlockedLock "blocked-lock" Error kept
        "remove it or move it away; until then no message can be appended to the log";
    /// A symbolic link points out of the root; its target is not read.
    UnreadLink "unread-link" Warning kept
        "move its target into the root, or add the link to `follow` in config.toml";
    /// A session list names a session that has no log.
    RowWithoutLog "row-without-log" Warning kept
        "restore the log from a backup, or remove the conversation in its program";
    /// A row of a session list differs from its log.
    RowMismatch "row-mismatch" Warning kept
        "remove the row in an editor while its program is closed: `annals repair` then rebuilds it from the log";
    /// A part of a session exists only in the archive.
    OnlyArchived "only-archived" Note kept
        "nothing is lost: annals reads it from the archive; `annals restore` puts it back";
    /// A list that no program relies on names other sessions than exist.
    IndexDrift "index-drift" Note kept
        "nothing: its program rebuilds it, and annals does not rely on it";
    /// A summary names a leaf that is in no log.
    LostLeaf "lost-leaf" Note kept
        "nothing: the summarised conversation was deleted, most likely by its own program";
    /// Several files claim to be the log of one session.
    SharedId "shared-id" Warning kept
        "name the log by its path instead of its id; see which file is the copy";
    /// Several directories encode to the same folder name, so that their sessions share a folder.
    SharedFolder "shared-folder" Note kept
        "nothing: annals distinguishes them by their records";
    /// Other users of the machine can read or change the logs.
    OpenMode "open-mode" Warning kept
        "deny access to other users: chmod -R go-rwx on the path";
    /// The root is on a network file system, where appends can be lost.
    Network "network" Warning kept
        "move the root to a local disk; annals appends to a network disk only with a flag";
    /// The agent's own program will soon delete sessions.
    Expiring "expiring" Warning kept
        "archive them with `annals archive`, or raise the number of days in the program's settings";
}

impl FlawKind {
    /// Whether it concerns the links between entries, not a single line.
    pub fn is_link_flaw(self) -> bool {
        matches!(
            self,
            FlawKind::Orphan | FlawKind::Cycle | FlawKind::CollidingId | FlawKind::Dropped
        )
    }

    /// Whether the line cannot be read as a record.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_name_errors_and_warnings_but_not_notes() {
        let counts = |kinds: &[(FlawKind, usize)]| kinds.iter().copied().collect::<FlawCounts>();
        let (error, warning) = (FlawKind::BadJson, FlawKind::TornTail);
        for (kinds, text, worst) in [
            (vec![], "no errors", None),
            (vec![(FlawKind::Bom, 3)], "no errors", None),
            (
                vec![(warning, 1), (FlawKind::Crlf, 1)],
                "1 warning",
                Some(Severity::Warning),
            ),
            (vec![(error, 1)], "1 error", Some(Severity::Error)),
            (
                vec![(error, 2), (FlawKind::Glued, 2), (warning, 1)],
                "4 errors and 1 warning",
                Some(Severity::Error),
            ),
        ] {
            let counts = counts(&kinds);
            assert_eq!(counts.to_string(), text);
            assert_eq!(counts.worst(), worst, "{text}");
        }
    }
}
