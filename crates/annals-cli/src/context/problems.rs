//! What could not be read on the way to an answer: a warning on standard error, an item of `problems`
//! in the JSON document, and exit code 2.

use std::collections::HashSet;
use std::path::PathBuf;

use annals::Error;
use serde::Serialize;

use super::{Context, print_notice};
use crate::config::Config;

/// So many are shown without `--verbose`.
const MAX_SHOWN: usize = 3;

/// Something that could not be read.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    error: String,
}

/// Everything that could not be read so far, each once.
#[derive(Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
    seen: HashSet<String>,
    /// Links that were not followed, and what is no regular file. Two layouts may have one root, and a verb
    /// may walk through it twice.
    no_files: HashSet<PathBuf>,
    shown: usize,
    /// So many of the list are in a stream of JSON lines.
    streamed: usize,
}

/// A problem as a line of a stream of events.
#[derive(Serialize)]
struct ProblemLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    problem: &'a Problem,
}

impl Context {
    /// Reports something that could not be read.
    pub(crate) fn warn(&mut self, error: &Error) {
        let mut text = error.to_string();
        if let Some(path) = error.path().filter(|_| error.is_no_file())
            && !self.problems.no_files.insert(path.to_owned())
        {
            return;
        }
        if let Error::Link { path, .. } = error {
            let config = Config::path(&self.config_dir);
            text = match path.is_file() {
                true => format!("{text}; to read it, put the file itself in its place"),
                false => format!(
                    "{text}; to read it, add it to `follow` in {}",
                    config.display()
                ),
            };
        }
        if !self.problems.seen.insert(text.clone()) {
            return;
        }
        let shown = &mut self.problems.shown;
        *shown += 1;
        if self.verbose || *shown <= MAX_SHOWN {
            print_notice("warning:", &text);
        } else if *shown == MAX_SHOWN + 1 {
            print_notice("warning:", "and more; -v shows all");
        }
        self.problems.list.push(Problem {
            path: error.path().map(|path| path.display().to_string()),
            error: text,
        });
    }

    /// Reports what could not be looked at in roots.
    pub(super) fn warn_all(&mut self, troubles: &[Error]) {
        for trouble in troubles {
            // A root that was named with its layout may be new.
            match is_not_found(trouble) {
                true if self.problems.seen.insert(trouble.to_string()) => {
                    print_notice("warning:", &trouble.to_string());
                }
                true => {}
                false => self.warn(trouble),
            }
        }
    }

    /// Reports the read failures that the store collected.
    pub(crate) fn warn_read_failures(&mut self) {
        for error in self.store.failures().take() {
            self.warn(&error);
        }
    }

    /// Notes links, and what is no regular file, that the answer itself reports.
    pub(super) fn leave_no_files(&mut self, paths: impl Iterator<Item = PathBuf>) {
        self.problems.no_files.extend(paths);
    }

    /// Whether something could not be read, so that what was printed is not all there is.
    pub(crate) fn is_incomplete(&mut self) -> bool {
        self.warn_read_failures();
        !self.problems.list.is_empty()
    }

    /// Reports the read failures that the store collected, and adds all that are new to a stream of
    /// events.
    pub(crate) fn stream_problems(&mut self) -> std::io::Result<()> {
        self.warn_read_failures();
        let Problems { list, streamed, .. } = &mut self.problems;
        for problem in list.iter().skip(*streamed) {
            let event = "problem";
            self.out.json_line(&ProblemLine { event, problem })?;
        }
        *streamed = list.len();
        Ok(())
    }

    /// Adds what could not be read to the JSON document.
    pub(super) fn write_problems(&mut self) -> std::io::Result<()> {
        self.warn_read_failures();
        match self.problems.list.is_empty() {
            true => Ok(()),
            false => self.out.json_member("problems", &self.problems.list),
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}
