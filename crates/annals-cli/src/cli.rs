//! Command-line arguments.

use clap::builder::{PossibleValue, Resettable};
use clap::{Arg, ArgAction, CommandFactory as _, Parser};

use crate::commands::Command;
use crate::global_options::GlobalOptions;

const EXAMPLES: &str = "\
Examples:
  annals                          overview of this machine
  annals sessions --since 7d      sessions of the last week
  annals show 8c549c46            show a session by a unique prefix of its id
  annals show 8c549c46 --last 20  only its last 20 messages
  annals tree 8c549c46            its branches and sub-agents
  annals watch                    follow agents as they work
  annals cost --by month          cost per month
  annals check                    find damage in logs
  annals demo                     create a sample history to try

`annals help COMMAND` describes a command and its options.";

/// The last line of the help of every verb.
const GLOBAL_OPTIONS: &str = "Global options: annals --help";

/// Description of `help`, which clap adds when it parses.
const HELP_ABOUT: &str = "Describe a command";

/// The verbs by purpose, as `annals --help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Look",
        &[
            "sessions",
            "projects",
            "conversations",
            "show",
            "search",
            #[cfg(feature = "browse")]
            "browse",
            "tree",
            "watch",
            "files",
            "todos",
            "notes",
            "plans",
            "history",
            "documents",
        ],
    ),
    ("Cost", &["cost", "prices", "statusline"]),
    (
        "Keep safe",
        &[
            "check", "repair", "keep", "archive", "restore", "delete", "clean", "pin",
        ],
    ),
    (
        "Write",
        &[
            "new", "append", "fork", "resume", "title", "tag", "set", "compact",
        ],
    ),
    ("Exchange", &["export", "import", "convert"]),
    ("More", MORE),
];

const MORE: &[&str] = &[
    "chorus",
    "index",
    #[cfg(feature = "mcp")]
    "mcp",
    #[cfg(feature = "hub")]
    "push",
    #[cfg(feature = "serve")]
    "serve",
    "demo",
    "doctor",
    "schema",
    "completions",
    "help",
];

/// Find, read, write and keep the conversations of coding agents.
#[derive(Debug, Parser)]
#[command(name = "annals", version, after_help = EXAMPLES, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Returns the command line that is parsed, shown in help and completed.
///
/// It differs from [`Cli`] in its help: verbs are listed in groups, only `annals --help` lists the
/// global options, and `-h` prints the same as `--help`.
pub(crate) fn command() -> clap::Command {
    let cli = Cli::command().mut_args(describe_values);
    let template = help_template(&cli);
    // A global argument is not passed on to a command that already has it.
    let hidden: Vec<Arg> = cli
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.clone().hide(true))
        .collect();
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .help("Print help")
        .action(ArgAction::HelpShort)
        .help_heading(Resettable::Reset)
        .display_order(999)
        .global(true);
    cli.help_template(template)
        .disable_help_flag(true)
        .arg(help)
        // `help` is a command only at the top: `annals history help` is a search.
        .mut_subcommands(|verb| {
            let verb = complete_help(verb).disable_help_subcommand(true);
            verb.args(hidden.iter().cloned())
        })
}

/// Returns the verbs in the order of `annals --help`.
pub(crate) fn verbs() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied())
}

/// Completes the help of a verb and of its actions.
fn complete_help(verb: clap::Command) -> clap::Command {
    let text = match verb.get_after_help() {
        Some(text) => format!("{text}\n\n{GLOBAL_OPTIONS}"),
        None => GLOBAL_OPTIONS.to_owned(),
    };
    let verb = verb.mut_args(describe_values).after_help(text);
    verb.mut_subcommands(complete_help)
}

/// Adds the default and the possible values of an argument to its help. clap would add them too, but
/// it prints described values only with `--help`, and then each option on several lines.
fn describe_values(argument: Arg) -> Arg {
    if !argument.get_action().takes_values() {
        return argument;
    }
    let Some(help) = argument.get_help() else {
        return argument;
    };
    let mut text = help.to_string();
    if !argument.is_hide_default_value_set() {
        let defaults = argument.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() {
            text += &format!(" [default: {}]", defaults.join(" "));
        }
    }
    let mut values = argument.get_possible_values();
    values.retain(|value| !value.is_hide_set() && !argument.is_hide_possible_values_set());
    let width = values.iter().map(|value| value.get_name().len()).max();
    let width = width.unwrap_or(0);
    if values.iter().any(|value| value.get_help().is_some()) {
        for value in &values {
            let about = value.get_help().map(ToString::to_string);
            let about = about.unwrap_or_default();
            text += &format!("\n  {:<width$}  {about}", value.get_name());
        }
    } else if !values.is_empty() {
        let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        text += &format!(" [possible values: {}]", names.join(", "));
    }
    let argument = argument.hide_default_value(true).hide_possible_values(true);
    argument.help(text)
}

/// Returns the template of `annals --help`: clap can only list all verbs under one heading.
fn help_template(cli: &clap::Command) -> String {
    let header = *cli.get_styles().get_header();
    let literal = *cli.get_styles().get_literal();
    let width = verbs().map(str::len).max().unwrap_or(0);
    let mut groups = String::new();
    for (group, verbs) in GROUPS {
        groups += &format!("{header}{group}:{header:#}\n");
        for verb in *verbs {
            let about = cli.find_subcommand(verb).and_then(clap::Command::get_about);
            let about = about.map_or_else(|| HELP_ABOUT.to_owned(), ToString::to_string);
            groups += &format!("  {literal}{verb:<width$}{literal:#}  {about}\n");
        }
        groups.push('\n');
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         {header}Global options:{header:#}\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Every command with its full name, `annals` itself included.
    fn all_commands(command: &clap::Command) -> Vec<(String, clap::Command)> {
        fn add(name: &str, command: &clap::Command, all: &mut Vec<(String, clap::Command)>) {
            all.push((name.to_owned(), command.clone()));
            for sub in command.get_subcommands() {
                add(&format!("{name} {}", sub.get_name()), sub, all);
            }
        }
        let mut all = Vec::new();
        add("annals", command, &mut all);
        all
    }

    fn parse(args: &[&str]) -> Cli {
        use clap::FromArgMatches as _;
        let matches = command().try_get_matches_from(args).unwrap();
        Cli::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_visible_verb_is_in_one_group() {
        let mut listed: BTreeMap<String, usize> = BTreeMap::new();
        for verb in verbs() {
            *listed.entry(verb.to_owned()).or_default() += 1;
        }
        let mut expected: BTreeMap<String, usize> = command()
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(|verb| (verb.get_name().to_owned(), 1))
            .collect();
        expected.insert("help".to_owned(), 1);
        assert_eq!(listed, expected);
    }

    #[test]
    fn every_way_to_ask_for_help_prints_the_same() {
        let help = |args: &[&str]| {
            let error = command().try_get_matches_from(args).unwrap_err();
            error.to_string()
        };
        let short = help(&["annals", "show", "-h"]);
        assert!(short.contains("--last"), "{short}");
        assert_eq!(help(&["annals", "show", "--help"]), short);
        assert_eq!(help(&["annals", "help", "show"]), short);
        assert_eq!(help(&["annals", "--help"]), help(&["annals", "-h"]));
        assert_eq!(help(&["annals", "help"]), help(&["annals", "-h"]));
    }

    #[test]
    fn help_fits_80_columns() {
        let mut command = command().term_width(80);
        command.build();
        for (name, mut command) in all_commands(&command) {
            let help = command.render_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
                assert_eq!(line.trim_end(), line, "{name}");
            }
        }
    }

    /// Prose is one line per paragraph in the source, so that it is wrapped once, by clap; examples
    /// and tables are indented and never wrapped.
    #[test]
    fn help_texts_are_not_wrapped_by_hand() {
        for (name, command) in all_commands(&command()) {
            let Some(text) = command.get_after_help().map(ToString::to_string) else {
                continue;
            };
            let mut prose: Option<&str> = None;
            for line in text.lines() {
                if line.starts_with("  ") {
                    assert!(line.chars().count() <= 80, "{name}: {line}");
                    prose = None;
                } else if !line.is_empty() {
                    assert_eq!(prose, None, "{name}: wrapped before {line:?}");
                    prose = Some(line);
                } else {
                    prose = None;
                }
            }
        }
    }

    #[test]
    fn global_options_are_listed_once() {
        let mut command = command();
        command.build();
        for (name, mut command) in all_commands(&command) {
            let help = command.render_long_help().to_string();
            let listed = help.contains("--no-pager");
            assert_eq!(listed, name == "annals", "{name}");
            if name != "annals" && !name.starts_with("annals help") {
                assert!(help.trim_end().ends_with(GLOBAL_OPTIONS), "{name}: {help}");
            }
        }
    }

    #[test]
    fn global_options_are_accepted_at_every_place() {
        for args in [
            &["annals", "--json", "--root", "X", "sessions"][..],
            &["annals", "sessions", "--json", "--root", "X"],
            &["annals", "--json", "todos", "--root", "X", "clear", "id"],
            &["annals", "todos", "clear", "id", "--json", "--root", "X"],
            &["annals", "chorus", "--root", "X", "workspaces", "--json"],
        ] {
            let cli = parse(args);
            assert!(cli.global.json, "{args:?}");
            assert_eq!(cli.global.root, ["X"], "{args:?}");
        }
    }
}
