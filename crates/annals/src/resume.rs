//! The command with which a session's own program opens it: data, which a caller may run.

use std::path::{Path, PathBuf};

use annals_layouts::layout::{Env, resume_command};
use annals_layouts::model::SessionId;
use annals_layouts::text::shell_word;

use crate::error::{Error, Result};
use crate::store::Root;

/// Placeholder of the session's id in a command.
pub(crate) const ID_PLACEHOLDER: &str = "{id}";

/// A command that opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resume {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables to set, so that the program finds the root.
    pub variables: Vec<(String, String)>,
    /// The directory to run it in: that of the session, if it is known.
    pub cwd: Option<PathBuf>,
}

impl Resume {
    /// Returns the command for a session of a root. `template` replaces the words of the layout's own
    /// command; `{id}` in it stands for the id.
    pub fn new(
        root: &Root,
        session: &SessionId,
        cwd: Option<&str>,
        template: Option<&[String]>,
        env: &Env,
    ) -> Result<Self> {
        let layout = root.layout.name();
        let own = resume_command(layout);
        let own_words = || own.map(|own| own.words.iter().map(|word| (*word).to_owned()).collect());
        let words: Option<Vec<String>> = template.map(<[String]>::to_vec).or_else(own_words);
        let words = words.into_iter().flatten();
        let mut words = words.map(|word| word.replace(ID_PLACEHOLDER, session.as_str()));
        let program = words.next().ok_or_else(|| {
            Error::refused(format!(
                "annals knows no program that opens a session of the layout {layout}"
            ))
        })?;
        let is_default = root.layout.roots(env).contains(&root.path);
        let variable = own.filter(|_| !is_default).and_then(|own| {
            let home = root.path.ancestors().nth(own.levels_above)?;
            Some((own.root_variable?.to_owned(), home.to_str()?.to_owned()))
        });
        Ok(Resume {
            program,
            args: words.collect(),
            variables: variable.into_iter().collect(),
            cwd: cwd
                .filter(|cwd| Path::new(cwd).is_absolute())
                .map(PathBuf::from),
        })
    }

    /// Returns the command as a line for a shell.
    pub fn shell_line(&self) -> String {
        let mut line = String::new();
        if let Some(cwd) = &self.cwd {
            line += &format!("cd {} && ", shell_word(&cwd.to_string_lossy()));
        }
        for (name, value) in &self.variables {
            line += &format!("{name}={} ", shell_word(value));
        }
        line += &shell_word(&self.program);
        for arg in &self.args {
            line.push(' ');
            line += &shell_word(arg);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn command_names_directory_root_and_session() {
        let env = Env {
            home: Some("/home/me".into()),
            cwd: None,
            vars: BTreeMap::new(),
        };
        let id = SessionId::new("8c549c46-16ca-47dd-b731-f4c264becc53").unwrap();
        let line = |layout: &str, root: &str, cwd: &str, template: Option<&[&str]>| {
            let root = Root::new(layout, root).unwrap();
            let template: Option<Vec<String>> =
                template.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            let resume = Resume::new(&root, &id, Some(cwd), template.as_deref(), &env);
            resume
                .map(|resume| resume.shell_line())
                .map_err(|error| error.to_string())
        };
        for (layout, root, cwd, template, expected) in [
            (
                "claude-code",
                "/home/me/.claude",
                "/w/a b",
                None,
                "cd '/w/a b' && claude --resume ID",
            ),
            (
                "codex",
                "/home/me/.codex",
                "/w",
                None,
                "cd /w && codex resume ID",
            ),
            (
                "codex",
                "/x/it's",
                "/w",
                None,
                r"cd /w && CODEX_HOME='/x/it'\''s' codex resume ID",
            ),
            (
                "gemini",
                "/x/.gemini",
                "w",
                None,
                "GEMINI_CLI_HOME=/x gemini --resume ID",
            ),
            (
                "codex",
                "/home/me/.codex",
                "/w",
                Some(&["mycodex", "-c", "a b={id}"][..]),
                "cd /w && mycodex -c 'a b=ID'",
            ),
            (
                "clog",
                "/home/me/.clog",
                "/w",
                Some(&["show", "{id}"][..]),
                "cd /w && show ID",
            ),
        ] {
            let expected = expected.replace("ID", id.as_str());
            assert_eq!(line(layout, root, cwd, template).unwrap(), expected);
        }
        assert!(line("clog", "/home/me/.clog", "/w", None).is_err());
    }
}
