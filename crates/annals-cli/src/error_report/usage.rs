//! Errors in arguments: what is wrong with them, and what they were probably meant to be.

use clap::Arg;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli;
use crate::command_position::Position;
use crate::terminal::suggest::{suggest, suggest_above};

/// Commands of other programs, and what does the same here.
const MEANINGS: &[(&[&str], &str)] = &[
    (&["open", "view", "read"], "annals show"),
    (&["stats", "usage", "spend", "price"], "annals cost"),
    (&["status", "info", "overview"], "annals"),
    (&["undo", "undelete"], "annals delete --undo ID"),
    (&["trash"], "annals delete --list"),
    (&["unpin"], "annals pin --remove SESSION"),
    (&["backup", "sync"], "annals keep"),
    (&["fsck", "doctor", "verify"], "annals check"),
    (&["fix"], "annals repair"),
    (&["tail", "follow"], "annals watch"),
    (&["diff"], "annals files SESSION PATH --diff"),
    (&["remove"], "annals delete"),
    (&["todo"], "annals todos add SESSION TEXT"),
    (&["note"], "annals notes add SESSION TEXT"),
    (&["workspace", "workspaces"], "annals chorus workspaces"),
    (&["agent", "agents"], "annals chorus agents"),
    (&["settings"], "annals chorus settings"),
    (&["mv", "rename"], "annals title SESSION TITLE"),
    (&["branch", "branches"], "annals conversations"),
    (&["dump"], "annals export"),
];

/// Options of other programs, and those that do the same where a command has them.
const OPTION_MEANINGS: &[(&[&str], &str)] = &[
    (&["by", "order", "order-by"], "sort"),
    (&["after", "from"], "since"),
    (&["before"], "until"),
    (&["count", "head", "max"], "limit"),
    (&["tail"], "last"),
    (&["yes", "confirm"], "apply"),
];

/// Returns what is wrong, on one line.
pub(super) fn message(mut error: clap::Error) -> String {
    for kind in [
        ContextKind::Suggested,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
        ContextKind::Usage,
    ] {
        error.remove(kind);
    }
    let text = error.render().to_string();
    let text = match text.rsplit_once("\n\nFor more information") {
        Some((text, _)) => text,
        None => &text,
    };
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.strip_suffix("invalid digit found in string") {
        Some(text) => format!("{text}expected a number"),
        None => text,
    }
}

/// Returns a suggestion, or where to look. `words` are the arguments.
pub(super) fn hint(error: &clap::Error, words: &[String]) -> String {
    let mut command = cli::command();
    command.build();
    let position = Position::new(&command, words.iter().map(String::as_str));
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let meant = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            meant_command(&position, text(ContextKind::InvalidSubcommand))
        }
        ErrorKind::UnknownArgument => meant_option(&position, text(ContextKind::InvalidArg), error),
        ErrorKind::InvalidValue => meant_value(text(ContextKind::InvalidValue), error),
        _ => None,
    };
    match (meant, position.verb.as_str()) {
        (Some(meant), _) if error.kind() == ErrorKind::InvalidSubcommand => meant,
        (Some(meant), verb) => format!("{meant} (`{}` lists the options)", help_command(verb)),
        (None, "" | "help") => "`annals help` lists the commands".to_owned(),
        (None, verb) => format!("`{}` lists the options", help_command(verb)),
    }
}

fn help_command(verb: &str) -> String {
    match verb {
        "" => "annals help".to_owned(),
        verb if verb.starts_with("help") => format!("annals {verb}"),
        verb => format!("annals help {verb}"),
    }
}

/// Finds the command that an unknown word stands for.
fn meant_command(position: &Position<'_>, wanted: &str) -> Option<String> {
    let is_top = matches!(position.verb.as_str(), "" | "help");
    if is_top && matches!(wanted, "config" | "configure") {
        return Some("settings are in ~/.config/annals/config.toml".to_owned());
    }
    if is_top && let Some(meaning) = find_meaning(MEANINGS, wanted) {
        return Some(format!("did you mean `{meaning}`?"));
    }
    let commands = position.command.get_subcommands();
    let names = commands
        .filter(|it| !it.is_hide_set())
        .map(|it| it.get_name());
    let prefix = match position.verb.as_str() {
        "" => "annals".to_owned(),
        verb => format!("annals {verb}"),
    };
    let near = suggest(wanted, names, 2).into_iter();
    let near: Vec<String> = near.map(|name| format!("`{prefix} {name}`")).collect();
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// Finds the option that an unknown one stands for.
fn meant_option(position: &Position<'_>, wanted: &str, error: &clap::Error) -> Option<String> {
    let tips = error.get(ContextKind::Suggested);
    let is_text = matches!(tips, Some(ContextValue::StyledStrs(tips)) if !tips.is_empty());
    let tip = || is_text.then(|| "write `--` before text that begins with a dash".to_owned());
    let Some(name) = wanted.strip_prefix("--") else {
        return tip();
    };
    if position.verb.is_empty() {
        let top = ["version", "help"].into_iter();
        let top = suggest_above(0.8, name, top, 1).first().copied();
        return match top {
            Some(long) => Some(format!("did you mean `--{long}`?")),
            None => verb_with_option(position, name),
        };
    }
    let meant = |option: &str| Some(format!("did you mean `{option}`?"));
    let (global, own): (Vec<&Arg>, Vec<&Arg>) = position
        .command
        .get_arguments()
        .filter(|option| option.get_long().is_some())
        .partition(|option| option.is_global_set());
    // `--month` for `--by month`.
    for option in &own {
        let values = option.get_possible_values();
        if let (Some(long), true) = (
            option.get_long(),
            values.iter().any(|value| value.matches(name, false)),
        ) {
            return meant(&format!("--{long} {name}"));
        }
    }
    let longs = |options: &[&'_ Arg]| -> Vec<String> {
        let longs = options.iter().filter_map(|option| option.get_long());
        longs.map(str::to_owned).collect()
    };
    let (own, global) = (longs(&own), longs(&global));
    if let Some(long) = find_meaning(OPTION_MEANINGS, name)
        && own.iter().any(|own| own == long)
    {
        return meant(&format!("--{long}"));
    }
    let near = suggest(name, own.iter().map(String::as_str), 1);
    // Global options are not specific to the command, so only a slip of the finger names one.
    let slip = || suggest_above(0.9, name, global.iter().map(String::as_str), 1);
    if let Some(long) = near.first().copied().or_else(|| slip().first().copied()) {
        return meant(&format!("--{long}"));
    }
    tip()
}

/// Finds a command that has an option which was given without one.
fn verb_with_option(position: &Position<'_>, name: &str) -> Option<String> {
    let verb = cli::verbs().find(|verb| {
        let verb = position.command.find_subcommand(verb);
        let mut options = verb.into_iter().flat_map(|verb| verb.get_arguments());
        options.any(|option| option.get_long() == Some(name))
    })?;
    Some(format!("did you mean `annals {verb} --{name}`?"))
}

/// Finds the value that an unknown one stands for.
fn meant_value(wanted: &str, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let near = suggest(wanted, valid.iter().map(String::as_str), 1);
    near.first().map(|near| format!("did you mean `{near}`?"))
}

fn find_meaning(table: &[(&[&str], &'static str)], wanted: &str) -> Option<&'static str> {
    let mut rows = table.iter();
    let row = rows.find(|(words, _)| words.contains(&wanted))?;
    Some(row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message and the hint for arguments that cannot be used.
    fn report(words: &[&str]) -> (String, String) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let all = std::iter::once("annals").chain(words.iter().map(String::as_str));
        let error = cli::command().try_get_matches_from(all).unwrap_err();
        let hint = hint(&error, &words);
        (message(error), hint)
    }

    #[test]
    fn hints_name_what_was_meant() {
        let cases: &[(&[&str], &str)] = &[
            (&["sesions"], "did you mean `annals sessions`?"),
            (&["chek"], "did you mean `annals check`?"),
            (&["shwo"], "did you mean `annals show`?"),
            (&["usage"], "did you mean `annals cost`?"),
            (
                &["todo", "8c", "add"],
                "did you mean `annals todos add SESSION TEXT`?",
            ),
            (&["workspaces"], "did you mean `annals chorus workspaces`?"),
            (&["help", "open"], "did you mean `annals show`?"),
            (&["chorus", "agent"], "did you mean `annals chorus agents`?"),
            (&["qqqq"], "`annals help` lists the commands"),
            (
                &["sessions", "--sinc", "7d"],
                "did you mean `--since`? (`annals help sessions` lists the options)",
            ),
            (
                &["cost", "--month"],
                "did you mean `--by month`? (`annals help cost` lists the options)",
            ),
            (
                &["sessions", "--by", "cost"],
                "did you mean `--sort`? (`annals help sessions` lists the options)",
            ),
            (
                &["sessions", "--foo"],
                "`annals help sessions` lists the options",
            ),
            (
                &["--since", "7d"],
                "did you mean `annals sessions --since`? (`annals help` lists the options)",
            ),
            (
                &["cost", "--by", "mont"],
                "did you mean `month`? (`annals help cost` lists the options)",
            ),
            (&["import"], "`annals help import` lists the options"),
        ];
        for (words, expected) in cases {
            assert_eq!(report(words).1, *expected, "{words:?}");
        }
    }

    #[test]
    fn messages_are_one_line_without_usage() {
        let cases: &[(&[&str], &str)] = &[
            (&["sesions"], "unrecognized subcommand 'sesions'"),
            (&["sessions", "--foo"], "unexpected argument '--foo' found"),
            (
                &["import"],
                "the following required arguments were not provided: <FILE>",
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(report(words).0, *expected, "{words:?}");
        }
    }
}
