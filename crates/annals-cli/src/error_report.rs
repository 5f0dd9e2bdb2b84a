//! Failures: what happened, where, and what to do next.

use annals::Error;

use crate::render::caret::caret;
use crate::render::out::error_width;
use crate::render::style::{ColorChoice, DIM, ERROR, PLAIN, paint};
use crate::render::text::{is_hostile, safe_block};

/// Marks an error about the directory that `--into` names.
#[derive(Debug)]
pub(crate) struct TargetError;

impl std::fmt::Display for TargetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the target cannot be used")
    }
}

/// Marks an error about the directory in which annals keeps its own things.
#[derive(Debug)]
pub(crate) struct StateDirError;

impl std::fmt::Display for StateDirError {
    /// Nothing: what went wrong names the place.
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// An error with its causes. An error and its source often say the same: each is said once.
pub(crate) fn error_chain_text(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for part in error.chain().map(ToString::to_string) {
        if !said.contains(&part) {
            said = if said.is_empty() {
                part
            } else {
                format!("{said}: {part}")
            };
        }
    }
    said
}

/// Prints an error and, where we know one, a way out.
pub(crate) fn print_error(error: &anyhow::Error, color: ColorChoice) {
    match color {
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
        ColorChoice::Auto => {}
    }
    let said = error_chain_text(error);
    anstream::eprintln!("{} {}", paint(ERROR, "error:"), paint(PLAIN, &said));
    if let Some(Error::Ambiguous { candidates, .. }) = error.downcast_ref() {
        for candidate in candidates.iter().take(20) {
            anstream::eprintln!("  {}", paint(PLAIN, candidate));
        }
        if candidates.len() > 20 {
            anstream::eprintln!("  … and {} more", candidates.len() - 20);
        }
    }
    if let Some(Error::Query { text, at, .. }) = error.downcast_ref()
        && !text.is_empty()
    {
        let room = error_width().saturating_sub(2);
        let (line, carets) = caret(text, at.clone(), room);
        anstream::eprintln!("  {}", paint(PLAIN, &line));
        anstream::eprintln!("  {}", paint(ERROR, &carets));
    }
    if let Some(Error::Prices {
        file,
        faults,
        count,
    }) = error.downcast_ref()
    {
        for fault in faults {
            anstream::eprintln!("  {}", paint(PLAIN, &format!("{file}:{fault}")));
        }
        if *count > faults.len() {
            anstream::eprintln!("  … and {} more", count - faults.len());
        }
    }
    if let Some(hint) = hint(error) {
        anstream::eprintln!("{} {}", paint(DIM, "hint:"), paint(PLAIN, &hint));
    }
}

/// Tells of arguments that make no sense, and ends. Scripts pass on what others wrote, so an argument
/// that is repeated is as little trusted as a log.
pub(crate) fn exit_with_usage_error(error: &clap::Error) -> ! {
    let hostile = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text.contains(|c| is_hostile(c) && !matches!(c, '\n' | '\t'))
    };
    if error.use_stderr() && std::env::args_os().any(hostile) {
        // Without colours, because these are what is taken out.
        anstream::eprint!("{}", safe_block(&error.render().to_string()));
        std::process::exit(error.exit_code());
    }
    error.exit()
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
        Error::Refused(why) if why.contains("symbolic link") && option == "--into" => {
            "name the real place with --into".to_owned()
        }
        Error::NotFound {
            what: "session", ..
        } => "`annals sessions` lists them; the path of a log works too".to_owned(),
        Error::NotFound {
            what: "message", ..
        } => "`annals tree SESSION` shows the ids of its messages".to_owned(),
        Error::NotFound { what: "log", .. } => {
            "`annals sessions -p DIRECTORY` lists the dates that have one".to_owned()
        }
        Error::NotFound { what: "record", .. } => {
            "the file may have changed since; search again".to_owned()
        }
        Error::NotFound { what: "layout", .. } => {
            let names: Vec<&str> = annals::layout::LAYOUTS
                .iter()
                .map(|layout| layout.name())
                .collect();
            format!("known layouts: {}", names.join(", "))
        }
        Error::NotFound {
            what: "deleted session",
            ..
        } => "`annals delete --list` shows what is in the trash".to_owned(),
        Error::NotFound {
            what: "archived session",
            ..
        } => "`annals archive --list` shows what is in the archive".to_owned(),
        Error::NotFound {
            what: "pinned session",
            ..
        } => "`annals pin` lists them".to_owned(),
        Error::NotFound {
            what: "sub-agent", ..
        } => "`annals tree SESSION` shows the sub-agents of a session".to_owned(),
        Error::NotFound {
            what: "project", ..
        } => "`annals projects` lists them".to_owned(),
        Error::NotFound {
            what: "saved file", ..
        } => "`annals files SESSION` lists them".to_owned(),
        Error::NotFound {
            what: "tool output",
            ..
        } => "`annals files SESSION --outputs` lists them".to_owned(),
        Error::NotFound {
            what: "document", ..
        } => "`annals documents` lists them".to_owned(),
        Error::NotFound { what: "plan", .. } => "`annals plans` lists them".to_owned(),
        Error::Ambiguous {
            what: "project", ..
        } => "give its path or its id".to_owned(),
        Error::Ambiguous {
            what: "archived session",
            ..
        } => "give more of it, up to the tag behind the dot, its root with --root, or the path of the pack"
            .to_owned(),
        Error::Ambiguous {
            what: "workspace" | "agent",
            ..
        } => "give its id".to_owned(),
        Error::Ambiguous { .. } => "give more of it, or the path of the file".to_owned(),
        Error::BadId { .. } => {
            "ids look like 8c549c46-16ca-47dd-b731-f4c264becc53; a beginning is enough".to_owned()
        }
        Error::Busy { .. } => "try again when the other program is done".to_owned(),
        Error::Refused(why) if why.contains("symbolic link") => {
            "name the real place with --root, for instance --root claude-code:/real/path".to_owned()
        }
        Error::Full { .. } => {
            "make room and run the command again; a torn last line is sealed by the next append"
                .to_owned()
        }
        Error::Poisoned { .. } => "check the disk, then run `annals check` on the file".to_owned(),
        Error::Changed { .. } => "run the command again to see the new state".to_owned(),
        Error::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                format!("check who owns it (ls -l), or name another root with {option}")
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
        Error::Query { .. } => "`annals search --help` tells how queries are written".to_owned(),
        Error::Prices { .. } => {
            "`annals prices --help` tells what a price list looks like".to_owned()
        }
        Error::Held { .. } => {
            "end that program, or insist with --live: what it writes to the file next may be lost"
                .to_owned()
        }
        Error::Live { .. } => {
            "fork it (`annals fork`), wait a minute, or insist with --live".to_owned()
        }
        _ => return None,
    };
    Some(hint)
}

/// What to do about the directory in which annals keeps its own things.
fn state_dir_hint(error: &Error) -> String {
    let first = match error {
        Error::Refused(why) if why.contains("belongs to") || why.contains("of another user") => "",
        Error::Refused(why) if why.contains("read-only") => "make it writable, or ",
        Error::Refused(why)
            if why.contains("could not be written") || why.contains("cannot be opened") =>
        {
            "see that it is yours and that there is room for it, or "
        }
        Error::Refused(why) if why.contains("because") => "remove it, or ",
        Error::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied => "check who owns it (ls -l), or ",
            std::io::ErrorKind::ReadOnlyFilesystem => "make it writable, or ",
            _ => "",
        },
        _ => "",
    };
    format!("{first}name another state directory with ANNALS_STATE_DIR")
}
