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

/// How bad a flaw is. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Severity {
    /// Something is lost, or hidden from who reads the log.
    Damage,
    /// Odd, but everything can be read; or something will be lost if nobody acts.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// All of them, the worst first.
    pub const ALL: &'static [Severity] = &[Severity::Damage, Severity::Warning, Severity::Note];

    /// The severity as JSON output spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Damage => "damage",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One table of all kinds, so that none is without a name, a severity and advice.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $severity:ident $fixable:ident $advice:literal;)*) => {
        /// The kinds of damage. docs/CHECKS.md explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum FlawKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl FlawKind {
            /// All of them.
            pub const ALL: &'static [FlawKind] = &[$(FlawKind::$kind),*];

            /// The kind as JSON output and filters spell it.
            pub fn as_str(self) -> &'static str {
                match self { $(FlawKind::$kind => $name,)* }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $(FlawKind::$kind => Severity::$severity,)* }
            }

            /// Whether `annals repair` mends it.
            pub fn fixable(self) -> bool {
                match self { $(FlawKind::$kind => kinds!(@$fixable),)* }
            }

            /// What to do about it, in one line.
            pub fn advice(self) -> &'static str {
                match self { $(FlawKind::$kind => $advice,)* }
            }
        }
    };
    (@fixable) => { true };
    (@kept) => { false };
}

kinds! {
    /// The last line has no line ending and is not whole: its writer was cut off, or is still writing.
    TornTail "torn-tail" Warning kept
        "nothing while its agent works; `annals repair` mends it once it is an hour old";
    /// A line is not JSON.
    BadJson "bad-json" Damage fixable
        "`annals repair` sets the line aside and relinks what hung from it";
    /// A line is JSON but not an object.
    NotAnObject "not-an-object" Damage fixable
        "`annals repair` sets the line aside";
    /// Two records stand on one line.
    Glued "glued" Damage fixable
        "`annals repair` puts each record on a line of its own";
    /// NUL bytes stand where a record should be.
    NulRun "nul-run" Damage fixable
        "`annals repair` takes the NULs out and keeps what stands beside them";
    /// A line is not UTF-8.
    BadUtf8 "bad-utf8" Damage kept
        "nothing can be done: the characters are lost, all else is read";
    /// A line is longer than the reader's cap and was not decoded.
    Oversize "oversize" Warning kept
        "nothing: the line is kept as it is, but annals does not look into it";
    /// An entry names a parent that is not there.
    Orphan "orphan" Damage fixable
        "`annals repair` hangs it from the message before";
    /// Entries are each other's ancestors.
    Cycle "cycle" Damage fixable
        "`annals repair` cuts it; until then do not resume the session, some clients hang";
    /// Two entries have one id. In what a check finds, one is a copy of the other.
    DuplicateId "duplicate-id" Note kept
        "nothing: the later one says what the earlier one said";
    /// A token count is negative, absurd or not a number.
    BadUsage "bad-usage" Warning kept
        "nothing: the count is left out of what `annals cost` adds up";
    /// A file could not be read.
    Unreadable "unreadable" Damage kept
        "see to it that you may read the file, then check again";
    /// A document that should hold a list or an object holds something else.
    BadDocument "bad-document" Damage kept
        "restore the file from a backup; if there is none, keep a copy and mend it in an editor";
    /// A derived document tells something else than the logs it was made from.
    StaleIndex "stale-index" Damage fixable
        "`annals repair` makes it from the logs again";
    /// The first line does not say what the log is.
    BadHeader "bad-header" Damage fixable
        "`annals repair` writes the header that the log's name and records tell";
    /// A record does not say of what type it is.
    NoType "no-type" Warning kept
        "nothing: the record is kept, but no reader knows what it is";
    /// A message has no id, although its layout links messages by ids.
    NoId "no-id" Warning kept
        "nothing in annals, which shows the message where it stands; the client skips it";
    /// A record has a type that its own program does not know.
    UnknownType "unknown-type" Note kept
        "nothing: the record is kept, and its program skips it";
    /// A record that its own program does not read, or not as it is meant.
    UnfitRecord "unfit-record" Warning kept
        "nothing in annals, which shows what is there; for its own program correct the line in an editor";
    /// A record names another conversation, thread, workspace or agent than the file that it lies in.
    MismatchedId "mismatched-id" Warning kept
        "annals goes by where it lies, its own program by the id: move it to where it belongs, or correct the id";
    /// The file begins with a byte order mark.
    Bom "bom" Note kept
        "nothing: all readers skip it; an editor put it there";
    /// Lines end in CR LF.
    Crlf "crlf" Note kept
        "nothing: all readers take it; an editor or a transfer made it so";
    /// Two entries with different content have one id; the earlier one is hidden.
    CollidingId "colliding-id" Damage fixable
        "`annals repair` gives the earlier one an id of its own";
    /// Two messages with different content have one id, in a log without links; both are shown.
    RepeatedId "repeated-id" Warning kept
        "nothing is hidden; name such a message by its line (SESSION@:LINE), its id means several";
    /// A compaction goes on from an entry that is not in the file.
    CutHistory "cut-history" Note kept
        "nothing: what was compacted stands in another log, or was left out";
    /// A tool was called, the conversation went on, and no result is there.
    DanglingCall "dangling-call" Warning kept
        "nothing: clients bypass the call, or write an error in the result's place";
    /// A result answers a tool call that is not there.
    LoneResult "lone-result" Warning kept
        "nothing, unless a damaged line beside it held the call: then `annals repair`";
    /// Records name another session than the file does.
    ForeignLines "foreign-lines" Note kept
        "nothing: forks and resumed sessions have them; the file's name is the session";
    /// The file is there and holds nothing.
    EmptyFile "empty-file" Note kept
        "nothing: some clients make one at every start; if it held more, look for a backup";
    /// An entry is older than what it hangs from.
    OutOfOrder "out-of-order" Warning kept
        "nothing in annals, which goes by links; client 2.0 resumes at the newest time: see older-client";
    /// Several conversations without a common beginning stand in one log.
    SeveralRoots "several-roots" Note kept
        "nothing: `annals tree` shows all; a client resumes only one of them";
    /// The agent's own program would leave out messages if it resumed the session.
    Dropped "dropped" Damage fixable
        "`annals repair` relinks them, so that the client reads the whole history again";
    /// The agent's own program cannot resume all of the session, for what no repair changes.
    Unresumable "unresumable" Warning kept
        "nothing is lost: `annals show` reads it all, and a newer client may too";
    /// An older version of the agent's own program would send less of the session than a newer one.
    OlderClient "older-client" Note kept
        "nothing for newer clients; `annals fork` writes a session that older ones read whole";
    /// Files of a session whose log is not there.
    Stray "stray" Warning kept
        "restore the log from a backup; `annals repair` lists the files";
    /// An entry of a log's companion is for a line that the log does not have.
    UnmatchedEntry "unmatched-entry" Warning kept
        "restore the log and its companion from one backup; the log is read without these entries";
    /// The blank line that marked the place of a companion's record is gone from the log.
    MovedEntry "moved-entry" Note kept
        "nothing: the record is read after the line that it came after";
    /// A record names a file of its session that is not there.
    MissingFile "missing-file" Warning kept
        "restore the file from a backup, or add a note where the notes are missing; the record itself is whole";
    /// A file lies among those of a layout, and no layout knows it.
    UnknownFile "unknown-file" Warning kept
        "nothing if it is yours; if it is a log, rename it to what its program would call it";
    /// A file of a root lies where its layout keeps nothing.
    ForeignFile "foreign-file" Note kept
        "nothing if it is yours or its program's; if it is a log, move it to where its program looks";
    /// A symbolic link leads out of the root, so what is behind it is not read.
    UnreadLink "unread-link" Warning kept
        "move what it leads to into the root, or name the link under `follow` in config.toml";
    /// A register lists a session that has no log.
    RowWithoutLog "row-without-log" Warning kept
        "restore the log from a backup, or remove the conversation in its program";
    /// A row of a register says something else than its log.
    RowMismatch "row-mismatch" Warning kept
        "remove the row in an editor while its program is closed: `annals repair` makes it from the log again";
    /// Something of a session is in the archive, and no more where it was.
    OnlyArchived "only-archived" Note kept
        "nothing is lost: annals reads it from the archive; `annals restore` puts it back";
    /// A list that nobody relies on names other sessions than there are.
    IndexDrift "index-drift" Note kept
        "nothing: its program makes it anew, and annals never trusts it";
    /// A summary names a leaf that no log has.
    LostLeaf "lost-leaf" Note kept
        "nothing: what it sums up was deleted, most likely by its own program";
    /// Several files claim to be the log of one session.
    SharedId "shared-id" Warning kept
        "name the log by its path where an id is asked for; see which of them is the copy";
    /// Several directories have the same folder name, so that their sessions lie side by side.
    SharedFolder "shared-folder" Note kept
        "nothing: annals tells them apart by what their records say";
    /// Other users of the machine can read or change the logs.
    OpenMode "open-mode" Warning kept
        "close it to others: chmod -R go-rwx on the path";
    /// The root lies on a network file system, where appends can be lost.
    Network "network" Warning kept
        "move the root to a local disk; annals appends there only with a flag";
    /// The agent's own program will soon delete sessions.
    Expiring "expiring" Warning kept
        "`annals archive` keeps them; or raise the days in the program's settings";
}

impl FlawKind {
    /// It is about how entries hang together, not about a line.
    pub fn is_link_flaw(self) -> bool {
        matches!(
            self,
            FlawKind::Orphan | FlawKind::Cycle | FlawKind::CollidingId | FlawKind::Dropped
        )
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
