//! Problems: things that could not be read for the output. Each is a warning on standard error and
//! an item of `problems` in the JSON document, and causes exit code 2.

use std::collections::HashSet;
use std::path::PathBuf;

use annals::Error;
use annals::export::ExportProblem;
use annals::jsonl::Error as FileError;
use serde::Serialize;

use super::{Context, print_notice};
use crate::config::Config;

/// Number of problems shown without `--verbose`.
const MAX_SHOWN: usize = 3;

/// All problems so far, each once.
#[derive(Default)]
pub(super) struct Problems {
    list: Vec<ExportProblem>,
    seen: HashSet<String>,
    /// Links that were not followed, and irregular files. Two layouts may share a root, and a
    /// command may walk it twice.
    no_files: HashSet<PathBuf>,
    shown: usize,
    /// Number of problems already written to a stream of JSON lines.
    streamed: usize,
}

/// A problem as a line of a stream of events.
#[derive(Serialize)]
struct ProblemLine<'a> {
    event: &'static str,
    #[serde(flatten)]
    problem: &'a ExportProblem,
}

impl Context {
    /// Reports a file that could not be read.
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
                true => format!("{text}; to read it, replace the link with the file"),
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
            print_notice("warning:", "more problems not shown; -v shows all");
        }
        self.problems.list.push(ExportProblem {
            path: error.path().map(|path| path.display().to_string()),
            error: text,
        });
    }

    /// Reports errors of walking the roots.
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

    /// Reports the notices and the read failures that the store collected. A notice does not count
    /// as a problem.
    pub(crate) fn warn_read_failures(&mut self) {
        for notice in self.store.failures().take_notices() {
            print_notice("warning:", &notice);
        }
        for error in self.store.failures().take() {
            self.warn(&error);
        }
    }

    /// Records links and irregular files that the output itself reports.
    pub(super) fn leave_no_files(&mut self, paths: impl Iterator<Item = PathBuf>) {
        self.problems.no_files.extend(paths);
    }

    /// Returns the problems so far, for an export, which lists them itself.
    pub(crate) fn problems(&mut self) -> Vec<ExportProblem> {
        self.warn_read_failures();
        self.problems.list.clone()
    }

    /// Whether something could not be read, so that the output is incomplete.
    pub(crate) fn is_incomplete(&mut self) -> bool {
        self.warn_read_failures();
        !self.problems.list.is_empty()
    }

    /// Reports the read failures that the store collected, and adds new problems to a stream of
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

    /// Adds the problems to the JSON document.
    pub(super) fn write_problems(&mut self) -> std::io::Result<()> {
        self.warn_read_failures();
        match self.problems.list.is_empty() {
            true => Ok(()),
            false => self.out.json_member("problems", &self.problems.list),
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::File(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound)
}
