//! Position in a command line: the command, option or argument that a word belongs to.

use clap::{Arg, Command};

/// The place that the words of a command line lead to.
#[derive(Clone, Debug)]
pub(crate) struct Position<'c> {
    /// The innermost command.
    pub(crate) command: &'c Command,
    /// Its name behind `annals`, such as `chorus workspaces`; empty for `annals` itself.
    pub(crate) verb: String,
    /// The option whose value is the next word.
    pub(crate) option: Option<&'c Arg>,
    /// Number of its positional arguments so far.
    pub(crate) positionals: usize,
    /// Whether `--` was among the words.
    pub(crate) options_ended: bool,
}

impl<'c> Position<'c> {
    /// Follows words, without the program's name. The command must be built.
    pub(crate) fn new<'w>(command: &'c Command, words: impl IntoIterator<Item = &'w str>) -> Self {
        let mut position = Position {
            command,
            verb: String::new(),
            option: None,
            positionals: 0,
            options_ended: false,
        };
        for word in words {
            position.advance(word);
        }
        position
    }

    fn advance(&mut self, word: &str) {
        if self.option.take().is_some() {
            return;
        }
        if self.options_ended {
            self.positionals += 1;
        } else if word == "--" {
            self.options_ended = true;
        } else if let Some(long) = word.strip_prefix("--") {
            self.option = self.find_option(long).filter(|option| takes_value(option));
        } else if let Some(letters) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
            self.option = self.find_short(letters);
        } else if let Some(command) = self.find_command(word) {
            self.command = command;
            let space = if self.verb.is_empty() { "" } else { " " };
            self.verb += &format!("{space}{}", command.get_name());
        } else {
            self.positionals += 1;
        }
    }

    /// Returns the option with a long name.
    pub(crate) fn find_option(&self, long: &str) -> Option<&'c Arg> {
        let mut options = self.command.get_arguments();
        options.find(|option| option.get_long() == Some(long))
    }

    /// Returns the option of a group of letters that takes the next word: `-vp` if `-p` takes a
    /// value, but not `-pv`.
    fn find_short(&self, letters: &str) -> Option<&'c Arg> {
        let mut letters = letters.chars();
        let find = |letter: char| {
            let mut options = self.command.get_arguments();
            options.find(|option| option.get_short() == Some(letter))
        };
        let option = letters
            .by_ref()
            .filter_map(find)
            .find(|it| takes_value(it))?;
        letters.next().is_none().then_some(option)
    }

    fn find_command(&self, word: &str) -> Option<&'c Command> {
        match self.positionals {
            0 => self.command.find_subcommand(word),
            _ => None,
        }
    }

    /// Returns the argument that the next word is a value of, unless the word is an option.
    pub(crate) fn next_argument(&self) -> Option<&'c Arg> {
        if self.option.is_some() {
            return self.option;
        }
        let last = self.command.get_positionals().last();
        let repeated = last.filter(|last| {
            let count = last.get_num_args();
            count.is_some_and(|count| count.max_values() > 1)
        });
        let mut positionals = self.command.get_positionals();
        positionals.nth(self.positionals).or(repeated)
    }
}

fn takes_value(option: &Arg) -> bool {
    let count = option.get_num_args();
    count.is_some_and(|count| count.min_values() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_to_commands_options_and_arguments() {
        let mut command = crate::cli::command();
        command.build();
        let cases: &[(&[&str], &str, Option<&str>)] = &[
            (&[], "", None),
            (&["show"], "show", Some("id")),
            (&["cat"], "show", Some("id")),
            (&["--root", "show", "tree"], "tree", Some("session")),
            (&["sessions", "-p"], "sessions", Some("project")),
            (&["sessions", "-vp"], "sessions", Some("project")),
            (&["sessions", "-pv"], "sessions", None),
            (&["sessions", "--project"], "sessions", Some("project")),
            (&["sessions", "--project=x"], "sessions", None),
            (&["todos", "done"], "todos done", Some("session")),
            (&["todos", "done", "8c", "1"], "todos done", Some("number")),
            (&["delete", "a", "b"], "delete", Some("sessions")),
            (&["--", "show"], "", None),
            (&["chorus", "agents"], "chorus agents", None),
        ];
        for (words, verb, argument) in cases {
            let position = Position::new(&command, words.iter().copied());
            assert_eq!(position.verb, *verb, "{words:?}");
            let found = position
                .next_argument()
                .map(|found| found.get_id().as_str());
            assert_eq!(found, *argument, "{words:?}");
        }
    }
}
