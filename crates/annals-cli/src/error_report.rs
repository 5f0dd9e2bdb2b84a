//! Failures: what happened, where, and what to do next.

mod usage;

use std::io::Write;
use std::ops::Range;

use annals::LayoutError;
use annals::Subject;
use annals::jsonl::Error as FileError;
use annals::{Error, IndexProblem};
use clap::error::ErrorKind;
use serde::Serialize;

use crate::command_errors::{CandidateDetails, StateDirError, TargetError, error_chain_text};
use crate::context::DeletedSession;
use crate::global_options::GlobalOptions;
use crate::terminal::color::ColorChoice;
use crate::terminal::json::write_line;
use crate::terminal::out::error_width;
use crate::terminal::stderr_line;
use annals_render::caret::caret;
use annals_render::style::{DIM, ERROR, PLAIN, paint};

/// Number of candidates that are shown for an ambiguous name.
const MAX_CANDIDATES: usize = 20;

/// Prints an error and, where we know one, a way out. With `--json` that is a document on standard
/// output, or on standard error if the output had begun. A failure is on standard error in any case.
pub(crate) fn print_error(error: anyhow::Error, global: &GlobalOptions, has_written: bool) {
    // Commands that call files or layouts directly fail with the errors of those crates.
    let error = error
        .downcast::<FileError>()
        .map_or_else(|other| other, |file| Error::from(file).into());
    let error = error
        .downcast::<LayoutError>()
        .map_or_else(|other| other, |layout| Error::from(layout).into());
    match global.color {
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
        ColorChoice::Auto => {}
    }
    let report = ErrorReport::new(&error);
    match (global.json, has_written) {
        (false, _) => report.print_text(),
        (true, false) => {
            if error.downcast_ref().is_some_and(is_failure) {
                report.print_text();
            }
            report.print_json(&mut std::io::stdout());
        }
        (true, true) => report.print_json(&mut std::io::stderr()),
    }
}

/// Reports arguments that cannot be used, and exits. Also prints the help and the version.
pub(crate) fn exit_with_usage_error(error: clap::Error) -> ! {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        error.exit();
    }
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|it| it.to_string_lossy().into_owned()).collect();
    let code = error.exit_code();
    let hint = usage::hint(&error, &words);
    let report = ErrorReport {
        message: usage::message(error),
        kind: "usage",
        hint: Some(hint),
        ..ErrorReport::default()
    };
    let mut options = words.iter().take_while(|word| *word != "--");
    match options.any(|word| word == "--json") {
        true => report.print_json(&mut std::io::stdout()),
        false => report.print_text(),
    }
    std::process::exit(code)
}

/// An error as it is printed.
#[derive(Default, Serialize)]
struct ErrorReport {
    message: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Candidates of an ambiguous name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
    /// Their details, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    /// The query that is invalid, if it is short enough to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// The bytes of the query that are invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Range<usize>>,
    /// The first errors in a price list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
    /// Number of other errors in it.
    #[serde(skip)]
    more_faults: usize,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    error: &'a ErrorReport,
}

impl ErrorReport {
    fn new(error: &anyhow::Error) -> Self {
        let mut report = ErrorReport {
            message: error_chain_text(error),
            kind: match error.downcast_ref::<DeletedSession>() {
                Some(_) => "deleted",
                None => error
                    .downcast_ref()
                    .map_or_else(|| untyped_kind(error), kind),
            },
            hint: hint(error),
            ..ErrorReport::default()
        };
        match error.downcast_ref() {
            Some(Error::Ambiguous { candidates, .. }) => {
                report.candidates.clone_from(candidates);
                if let Some(CandidateDetails(details)) = error.downcast_ref() {
                    report.details.clone_from(details);
                }
            }
            Some(Error::Query { text, at, .. }) if !text.is_empty() => {
                report.query = Some(text.clone());
                report.at = Some(at.clone());
            }
            Some(Error::Prices(list)) => {
                let texts = list.faults.iter();
                let texts = texts.map(|fault| format!("{}:{fault}", list.file));
                report.faults = texts.collect();
                report.more_faults = list.count.saturating_sub(list.faults.len());
            }
            _ => {}
        }
        report
    }

    fn print_text(&self) {
        stderr_line!("{} {}", paint(ERROR, "error:"), paint(PLAIN, &self.message));
        for (at, candidate) in self.candidates.iter().take(MAX_CANDIDATES).enumerate() {
            let detail = self.details.get(at).map_or("", String::as_str);
            let line = format!("{candidate}  {detail}");
            stderr_line!("  {}", paint(PLAIN, line.trim_end()));
        }
        if self.candidates.len() > MAX_CANDIDATES {
            let more = self.candidates.len() - MAX_CANDIDATES;
            stderr_line!("  … and {more} more");
        }
        if let (Some(query), Some(at)) = (&self.query, &self.at) {
            let room = error_width().saturating_sub(2);
            let (line, carets) = caret(query, at.clone(), room);
            stderr_line!("  {}", paint(PLAIN, &line));
            stderr_line!("  {}", paint(ERROR, &carets));
        }
        for fault in &self.faults {
            stderr_line!("  {}", paint(PLAIN, fault));
        }
        if self.more_faults > 0 {
            stderr_line!("  … and {} more", self.more_faults);
        }
        if let Some(hint) = &self.hint {
            stderr_line!("{} {}", paint(DIM, "hint:"), paint(PLAIN, hint));
        }
    }

    /// Prints a document on one line, so that it is also a line of a stream.
    fn print_json(&self, out: &mut dyn Write) {
        // If the reader has closed the pipe, the error cannot be printed.
        _ = write_line(out, &ErrorJson { error: self });
        _ = out.flush();
    }
}

/// Whether something failed, as opposed to a request that names nothing or cannot be understood.
fn is_failure(error: &Error) -> bool {
    let request = matches!(
        error,
        Error::NotFound { .. }
            | Error::Ambiguous { .. }
            | Error::BadId { .. }
            | Error::Query { .. }
    );
    !request
}

/// The kind of an error that is not the library's: a failed read or write of the program, else a
/// request that cannot be carried out as it was given.
fn untyped_kind(error: &anyhow::Error) -> &'static str {
    match error.chain().any(|cause| cause.is::<std::io::Error>()) {
        true => "io",
        false => "usage",
    }
}

/// The name of an error's kind, for scripts.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::File(FileError::Io { .. })
        | Error::NotRegular { .. }
        | Error::UnfinishedRemoval { .. } => "io",
        Error::File(FileError::Busy { .. }) => "busy",
        Error::File(FileError::Full { .. }) => "full",
        Error::File(FileError::Poisoned { .. }) => "poisoned",
        Error::File(FileError::Changed { .. }) => "changed",
        Error::Live { .. } => "live",
        Error::File(FileError::Held { .. }) => "held",
        Error::Link { .. } | Error::File(FileError::ThroughLink { .. }) => "link",
        Error::NotFound { .. } => "not-found",
        Error::Ambiguous { .. } => "ambiguous",
        Error::BadId { .. } => "bad-id",
        Error::Prices(_) => "prices",
        Error::Query { .. } => "query",
        Error::Exists(_) => "exists",
        Error::Damaged { .. } => "damaged",
        Error::Index { .. } => "index",
        Error::File(_) | Error::Refused(_) | Error::RefusedDraft { .. } => "refused",
        _ => "other",
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    if error.downcast_ref::<StateDirError>().is_some() {
        return Some(state_dir_hint(error.downcast_ref()?));
    }
    // The option that names another place.
    let option = match error.downcast_ref::<TargetError>() {
        Some(_) => "--into",
        None => "--root",
    };
    let hint = match error.downcast_ref::<Error>()? {
        Error::File(FileError::ThroughLink { .. }) if option == "--into" => {
            "name the real path with --into".to_owned()
        }
        Error::NotFound {
            what: Subject::Session, ..
        } => "`annals sessions` lists them; the path of a log works too".to_owned(),
        Error::NotFound {
            what: Subject::Message, ..
        } => "`annals tree SESSION` shows the ids of its messages".to_owned(),
        Error::NotFound { what: Subject::Log, .. } => {
            "`annals sessions -p DIRECTORY` lists the dates that have one".to_owned()
        }
        Error::NotFound { what: Subject::Record, .. } => {
            "the file may have changed since; search again".to_owned()
        }
        Error::NotFound { what: Subject::Layout, .. } => {
            let names: Vec<&str> = annals::layout::LAYOUTS
                .iter()
                .map(|layout| layout.name())
                .collect();
            format!("known layouts: {}", names.join(", "))
        }
        Error::NotFound {
            what: Subject::DeletedSession,
            ..
        } => "`annals delete --list` shows what is in the trash".to_owned(),
        Error::NotFound {
            what: Subject::ArchivedSession,
            ..
        } => "`annals archive --list` shows what is in the archive".to_owned(),
        Error::NotFound {
            what: Subject::PinnedSession,
            ..
        } => "`annals pin` lists them".to_owned(),
        Error::NotFound {
            what: Subject::SubAgent, ..
        } => "`annals tree SESSION` shows the sub-agents of a session".to_owned(),
        Error::NotFound {
            what: Subject::Project, ..
        } => "`annals projects` lists them".to_owned(),
        Error::NotFound {
            what: Subject::SavedFile, ..
        } => "`annals files SESSION` lists them".to_owned(),
        Error::NotFound {
            what: Subject::ToolOutput,
            ..
        } => "`annals files SESSION --outputs` lists them".to_owned(),
        Error::NotFound {
            what: Subject::Document, ..
        } => "`annals documents` lists them".to_owned(),
        Error::NotFound { what: Subject::Plan, .. } => "`annals plans` lists them".to_owned(),
        Error::Ambiguous {
            what: Subject::Project, ..
        } => "give its path or its id".to_owned(),
        Error::Ambiguous {
            what: Subject::ArchivedSession,
            ..
        } => "give more of it, up to the tag behind the dot, its root with --root, or the path of its compressed log"
            .to_owned(),
        Error::Ambiguous {
            what: Subject::Workspace | Subject::Agent,
            ..
        } => "give its id".to_owned(),
        Error::Ambiguous { .. } => "give more of it, or the path of the file".to_owned(),
        Error::BadId { .. } => {
            "ids look like 8c549c46-16ca-47dd-b731-f4c264becc53; a beginning is enough".to_owned()
        }
        Error::File(FileError::Busy { .. }) => "try again when the other program is done".to_owned(),
        Error::File(FileError::ThroughLink { .. }) => {
            "name the real path with --root, for instance --root claude-code:/real/path".to_owned()
        }
        Error::File(FileError::Full { .. }) => {
            "make room and run the command again; a torn last line is sealed by the next append"
                .to_owned()
        }
        Error::File(FileError::Poisoned { .. }) => "check the disk, then run `annals check` on the file".to_owned(),
        Error::File(FileError::Changed { .. }) => "run the command again to see the new state".to_owned(),
        Error::File(FileError::Io { source, .. }) => match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                format!("check its owner (ls -l), or name another root with {option}")
            }
            std::io::ErrorKind::ReadOnlyFilesystem => {
                let elsewhere = match option {
                    "--into" => "name a directory elsewhere",
                    _ => "copy the root elsewhere and name it",
                };
                format!("the file system is read-only; {elsewhere} with {option}")
            }
            std::io::ErrorKind::NotADirectory => {
                format!("a root is a directory; name another with {option}")
            }
            std::io::ErrorKind::NotFound => "check the path".to_owned(),
            _ => return None,
        },
        Error::Query { .. } => "`annals search --help` describes the query syntax".to_owned(),
        Error::Prices(_) => {
            "`annals prices --help` describes the format of a price list".to_owned()
        }
        Error::File(FileError::Held { can_insist, .. }) => match can_insist {
            true => "end that program, or insist with --live; what it writes next may be lost",
            false => "end that program first; what it writes after the removal would be lost",
        }
        .to_owned(),
        Error::Live { .. } => {
            "fork it (`annals fork`), wait a minute, or insist with --live".to_owned()
        }
        _ => return None,
    };
    Some(hint)
}

/// Advice for errors of the state directory.
fn state_dir_hint(error: &Error) -> String {
    let first = match error {
        Error::Index { problem, .. } => match problem {
            IndexProblem::ReadOnly => "make it writable, or ",
            IndexProblem::Unopenable => "check its owner and the free space, or ",
            IndexProblem::Obstacle => "remove it, or ",
            _ => "",
        },
        Error::File(FileError::Io { source, .. }) => match source.kind() {
            std::io::ErrorKind::PermissionDenied => "check its owner (ls -l), or ",
            std::io::ErrorKind::ReadOnlyFilesystem => "make it writable, or ",
            _ => "",
        },
        _ => "",
    };
    format!("{first}name another state directory with ANNALS_STATE_DIR")
}
