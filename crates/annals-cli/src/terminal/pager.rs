//! The pager command and its process.
//!
//! `Out` decides when to page.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A pager command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagerCommand {
    program: String,
    arguments: Vec<String>,
    less_options: bool,
}

impl PagerCommand {
    /// Finds the user's pager: `ANNALS_PAGER`, else `PAGER`, else `less`. Empty or `cat` means
    /// none.
    ///
    /// The value is split at spaces; no shell interprets it.
    pub(crate) fn from_env(env: impl Fn(&str) -> Option<OsString>) -> Option<PagerCommand> {
        let wish = env("ANNALS_PAGER").or_else(|| env("PAGER"));
        let wish = wish.map_or_else(
            || "less -FRX".into(),
            |wish| wish.to_string_lossy().into_owned(),
        );
        let mut words = wish.split_whitespace().map(str::to_owned);
        let program = words.next().filter(|program| program != "cat")?;
        Some(PagerCommand {
            program,
            arguments: words.collect(),
            less_options: env("LESS").is_none(),
        })
    }

    /// Starts the pager on this process's standard output, at a line of the text if it supports
    /// that.
    pub(crate) fn start(&self, line: Option<usize>) -> io::Result<Pager> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped());
        command.args(line.and_then(|line| self.line_option(line)));
        if self.less_options {
            command.env("LESS", "FRX");
        }
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Pager {
            child,
            input: Some(BufWriter::new(input)),
        })
    }
}

impl PagerCommand {
    /// The option that opens the pager at a line, with a few lines before it visible.
    fn line_option(&self, line: usize) -> Option<String> {
        const LINES_ABOVE: usize = 3;
        let program = self.program.rsplit('/').next().unwrap_or_default();
        let line = line.saturating_sub(LINES_ABOVE).max(1);
        matches!(program, "less" | "more").then(|| format!("+{line}"))
    }
}

/// A running pager.
#[derive(Debug)]
pub(crate) struct Pager {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
}

impl Pager {
    /// Ends the text and waits until the pager exits. Quitting the pager early is not a failure.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let flushed = match self.input.take() {
            Some(mut input) => input.flush(),
            None => Ok(()),
        };
        self.child.wait()?;
        match flushed {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input
            .as_mut()
            .ok_or(io::ErrorKind::BrokenPipe)?
            .write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input
            .as_mut()
            .ok_or(io::ErrorKind::BrokenPipe)?
            .flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(env: &[(&str, &str)]) -> Option<(String, Vec<String>)> {
        let get = |name: &str| {
            env.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        };
        PagerCommand::from_env(get).map(|pager| (pager.program, pager.arguments))
    }

    #[test]
    fn annals_pager_overrides_pager_overrides_less() {
        assert_eq!(command(&[]), Some(("less".into(), vec!["-FRX".into()])));
        assert_eq!(command(&[("PAGER", "more")]), Some(("more".into(), vec![])));
        assert_eq!(
            command(&[("PAGER", "more"), ("ANNALS_PAGER", "bat  -p")]),
            Some(("bat".into(), vec!["-p".into()]))
        );
        assert_eq!(command(&[("PAGER", "more"), ("ANNALS_PAGER", "")]), None);
        assert_eq!(command(&[("PAGER", "cat")]), None);
    }

    #[test]
    fn line_option_is_set_for_less_only() {
        let opening = |program: &str, line| {
            let command = PagerCommand {
                program: program.into(),
                arguments: vec![],
                less_options: true,
            };
            command.line_option(line)
        };
        assert_eq!(opening("/usr/bin/less", 42).as_deref(), Some("+39"));
        assert_eq!(opening("less", 1).as_deref(), Some("+1"));
        assert_eq!(opening("bat", 42), None);
    }

    #[test]
    #[cfg(unix)]
    fn pager_that_quits_early_is_not_an_error() {
        let mut pager = PagerCommand {
            program: "true".into(),
            arguments: vec![],
            less_options: true,
        }
        .start(None)
        .unwrap();
        let chunk = [b'x'; 4096];
        let error = (0..10_000)
            .find_map(|_| pager.write_all(&chunk).err())
            .expect("the pipe must close");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        pager.finish().unwrap();
    }
}
