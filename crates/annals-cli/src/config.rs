//! The user's settings: `config.toml` in the configuration directory of annals.
//!
//! ```toml
//! zone = "Europe/Berlin"   # time zone of days; default: the system's
//! mode = "auto"            # how costs are determined: auto, tokens or recorded
//! follow = ["~/.claude/projects"]  # links in roots to directories that are followed
//!
//! [budget]                 # in dollars; these keys may also be at the top level
//! daily = 20
//! weekly = 75.50
//! monthly = 200
//!
//! [resume]                 # commands that open sessions, by layout; {id} is the session's id
//! codex = ["codex", "--profile", "work", "resume", "{id}"]
//!
//! [hub]                    # where `annals push` sends the logs, if it is built in: see docs/HUB.md
//! url = "http://hub.example:8790"
//! token-file = "~/.config/annals/hub-token"
//! mask = "secrets"         # or "none"
//!
//! [clean]                  # retention of sessions since their last write
//! older-than = "90d"       # 36h, 90d, 2w, 6mo, 1y or never
//! keep-last = 3            # sessions of each project that are always kept
//! [clean.layout]
//! chorus = "1y"
//! [clean.project]          # a directory and its subdirectories; overrides the layout
//! "/home/me/app" = "never"
//! ```
//!
//! An unknown key is an error: a misspelled budget that never warns is worse than none.

mod clean;
mod hub;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annals::cost::{Budget, PriceMode, Unit};
use annals::model::Money;
use annals::retain::Policy;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::terminal::suggest::suggest;

pub(crate) use clean::TERM_EXAMPLES;
pub(crate) use hub::HubConfig;
#[cfg(feature = "hub")]
pub(crate) use hub::MaskArg;

/// Source of costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriceModeArg {
    /// From tokens and prices, else as recorded
    #[default]
    Auto,
    /// Only from tokens and prices
    Tokens,
    /// Only as recorded in the log
    Recorded,
}

impl PriceModeArg {
    pub(crate) fn mode(self) -> PriceMode {
        match self {
            PriceModeArg::Auto => PriceMode::Auto,
            PriceModeArg::Tokens => PriceMode::Tokens,
            PriceModeArg::Recorded => PriceMode::Recorded,
        }
    }
}

/// The settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// Time zone of days.
    pub(crate) zone: Option<String>,
    /// Source of costs: calculated, or as recorded.
    pub(crate) mode: Option<PriceModeArg>,
    /// Links to directories that are followed, by absolute path.
    pub(crate) follow: Vec<PathBuf>,
    /// Budgets, shortest period first.
    pub(crate) budgets: Vec<Budget>,
    /// Retention of sessions.
    pub(crate) clean: Policy,
    /// Words of the command that opens a session, by layout.
    pub(crate) resume: BTreeMap<String, Vec<String>>,
    /// The hub.
    pub(crate) hub: HubConfig,
}

/// Name and period of each budget.
pub(crate) const BUDGETS: [(&str, Unit); 3] = [
    ("daily", Unit::Day),
    ("weekly", Unit::Week),
    ("monthly", Unit::Month),
];

impl Config {
    /// The path of the settings in a directory.
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join("config.toml")
    }

    /// Reads the settings; a missing file means defaults.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let path = Config::path(dir);
        let name = path.display();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Config::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        };
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => {
                let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let (line, column) =
                    line_and_column(&String::from_utf8_lossy(before), before.len());
                bail!("{name}:{line}:{column}: invalid UTF-8; save the settings as UTF-8");
            }
        };
        let with_position = |fault: ConfigError| {
            let (line, column) = line_and_column(text, fault.span.start);
            anyhow::anyhow!("{name}:{line}:{column}: {}", fault.text)
        };
        Config::parse(text).map_err(with_position)
    }

    fn parse(text: &str) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError {
            span: error.span().unwrap_or_default(),
            text: error.message().to_owned(),
        })?;
        let mut config = Config::default();
        for (key, value) in in_file_order(table.get_ref()) {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("budget", DeValue::Table(budgets)) => {
                    for (key, value) in in_file_order(budgets) {
                        config.set_budget(key.get_ref(), key, value, "[budget]", &[])?;
                    }
                }
                ("budget", _) => return Err(error_at(value, "`budget` must be a table: [budget]")),
                ("clean", DeValue::Table(table)) => config.clean = clean::parse_policy(table)?,
                ("clean", _) => return Err(error_at(value, "`clean` must be a table: [clean]")),
                ("resume", DeValue::Table(commands)) => {
                    for (key, value) in in_file_order(commands) {
                        config.set_command(key, value)?;
                    }
                }
                ("resume", _) => return Err(error_at(value, "`resume` must be a table: [resume]")),
                ("hub", DeValue::Table(table)) => config.hub = hub::parse_hub(table)?,
                ("hub", _) => return Err(error_at(value, "`hub` must be a table: [hub]")),
                ("zone", DeValue::String(zone)) => config.zone = Some(zone.to_string()),
                ("zone", _) => {
                    return Err(error_at(
                        value,
                        "`zone` must be a string: \"Europe/Berlin\"",
                    ));
                }
                ("mode", DeValue::String(mode)) if parse_mode(mode).is_some() => {
                    config.mode = parse_mode(mode);
                }
                ("mode", _) => {
                    let one = "`mode` must be \"auto\", \"tokens\" or \"recorded\"";
                    return Err(error_at(value, one));
                }
                ("follow", DeValue::Array(links)) => {
                    for link in links.iter() {
                        let path = match link.get_ref() {
                            DeValue::String(text) => absolute_path(text),
                            _ => None,
                        };
                        let path = path.ok_or_else(|| error_at(link, FOLLOW_ERROR))?;
                        config.follow.push(path);
                    }
                }
                ("follow", _) => return Err(error_at(value, FOLLOW_ERROR)),
                (name, _) => {
                    let others = ["budget", "clean", "hub", "resume", "zone", "mode", "follow"];
                    config.set_budget(name, key, value, "the settings", &others)?;
                }
            }
        }
        let order = |budget: &Budget| BUDGETS.iter().position(|(_, unit)| *unit == budget.unit);
        config.budgets.sort_by_key(order);
        Ok(config)
    }

    fn set_command(
        &mut self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let layout = key.get_ref().as_ref();
        let known: Vec<&str> = annals::layout::LAYOUTS.iter().map(|it| it.name()).collect();
        if !known.contains(&layout) {
            return Err(unknown_key(key, layout, "[resume]", &known));
        }
        let words = match value.get_ref() {
            DeValue::Array(words) => words.iter().map(|word| match word.get_ref() {
                DeValue::String(text) if !text.is_empty() => Some(text.to_string()),
                _ => None,
            }),
            _ => return Err(error_at(value, COMMAND_ERROR)),
        };
        let words: Option<Vec<String>> = words.collect();
        match words.filter(|words| !words.is_empty()) {
            Some(words) => {
                self.resume.insert(layout.to_owned(), words);
                Ok(())
            }
            None => Err(error_at(value, COMMAND_ERROR)),
        }
    }

    fn set_budget(
        &mut self,
        name: &str,
        key: &Spanned<impl Sized>,
        value: &Spanned<DeValue<'_>>,
        place: &str,
        others: &[&str],
    ) -> Result<(), ConfigError> {
        let Some((_, unit)) = BUDGETS.iter().find(|(known, _)| *known == name) else {
            let known = BUDGETS.iter().map(|(known, _)| *known);
            let known: Vec<&str> = known.chain(others.iter().copied()).collect();
            return Err(unknown_key(key, name, place, &known));
        };
        if self.budgets.iter().any(|budget| budget.unit == *unit) {
            return Err(error_at(key, &format!("duplicate key `{name}`")));
        }
        // Parses the text: a float would not be exact.
        let amount = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Money::parse(number.as_str()),
            DeValue::Float(number) => Money::parse(number.as_str()),
            _ => None,
        };
        let limit = amount.filter(|amount| *amount > Money::ZERO);
        let limit = limit.ok_or_else(|| {
            let why = format!("`{name}` must be a number of dollars above 0, such as 200 or 19.99");
            error_at(value, &why)
        })?;
        self.budgets.push(Budget::new(*unit, limit));
        Ok(())
    }
}

/// The members of a table in file order, so that the first error is reported.
fn in_file_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(key, _)| key.span().start);
    members
}

const COMMAND_ERROR: &str =
    "a command must be a list of a program and its arguments: [\"codex\", \"resume\", \"{id}\"]";

const FOLLOW_ERROR: &str = "`follow` must be a list of absolute paths: [\"~/.claude/projects\"]";

/// An absolute path, or one that starts with `~/`.
fn absolute_path(text: &str) -> Option<PathBuf> {
    let path = match text.strip_prefix("~/") {
        Some(rest) => std::env::home_dir()?.join(rest),
        None => PathBuf::from(text),
    };
    path.is_absolute().then_some(path)
}

fn parse_mode(text: &str) -> Option<PriceModeArg> {
    PriceModeArg::from_str(text, false).ok()
}

/// An error in the settings and its position.
#[derive(Debug)]
struct ConfigError {
    span: Range<usize>,
    text: String,
}

fn error_at(at: &Spanned<impl Sized>, text: &str) -> ConfigError {
    ConfigError {
        span: at.span(),
        text: text.to_owned(),
    }
}

/// The error for an unknown key.
fn unknown_key(key: &Spanned<impl Sized>, name: &str, place: &str, known: &[&str]) -> ConfigError {
    let hint = match suggest(name, known.iter().copied(), 1).first() {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("known keys: {}", known.join(", ")),
    };
    error_at(key, &format!("unknown key `{name}` in {place}; {hint}"))
}

/// Line and column of a byte offset, from 1.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default();
    (line, column.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(Unit, String)>, String> {
        match Config::parse(text) {
            Ok(config) => Ok(config
                .budgets
                .iter()
                .map(|budget| (budget.unit, budget.limit.to_string()))
                .collect()),
            Err(fault) => {
                let (line, column) = line_and_column(text, fault.span.start);
                Err(format!("{line}:{column}: {}", fault.text))
            }
        }
    }

    #[test]
    fn budgets_parse_exactly_in_section_or_at_top_level() {
        let budgets = parse("monthly = 200\n[budget]\nweekly = 75.10\ndaily = 1_0.000000000001\n");
        assert_eq!(
            budgets.unwrap(),
            [
                (Unit::Day, "10.000000000001".to_owned()),
                (Unit::Week, "75.1".to_owned()),
                (Unit::Month, "200".to_owned()),
            ]
        );
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(
            parse("follow = [\"/home/x/.claude/projects\"]").unwrap(),
            []
        );
        assert_eq!(parse("mode = \"tokens\"\nzone = \"UTC\"").unwrap(), []);
    }

    #[test]
    fn commands_are_lists_of_words() {
        let text = "[resume]\npi = [\"mypi\", \"--session\", \"{id}\"]";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.resume["pi"], ["mypi", "--session", "{id}"]);
    }

    #[test]
    fn parse_errors_name_line_and_column() {
        for (text, expected) in [
            (
                "[resume]\ncodx = [\"codex\"]",
                "2:1: unknown key `codx` in [resume]; did you mean `codex`?",
            ),
            (
                "[resume]\ncodex = \"codex resume\"",
                "2:9: a command must be a list of a program and its arguments: [\"codex\", \"resume\", \"{id}\"]",
            ),
            (
                "montly = 200",
                "1:1: unknown key `montly` in the settings; did you mean `monthly`?",
            ),
            (
                "\n[budget]\n  dayly = 1",
                "3:3: unknown key `dayly` in [budget]; did you mean `daily`?",
            ),
            (
                "monthly = 1\n[budget]\nmonthly = 2",
                "3:1: duplicate key `monthly`",
            ),
            (
                "daily = 0",
                "1:9: `daily` must be a number of dollars above 0, such as 200 or 19.99",
            ),
            (
                "daily = -3",
                "1:9: `daily` must be a number of dollars above 0, such as 200 or 19.99",
            ),
            (
                "daily = nan",
                "1:9: `daily` must be a number of dollars above 0, such as 200 or 19.99",
            ),
            (
                "daily = \"3\"",
                "1:9: `daily` must be a number of dollars above 0, such as 200 or 19.99",
            ),
            (
                "zone = 1",
                "1:8: `zone` must be a string: \"Europe/Berlin\"",
            ),
            (
                "mode = \"guess\"",
                "1:8: `mode` must be \"auto\", \"tokens\" or \"recorded\"",
            ),
            (
                "follow = \"/x\"",
                "1:10: `follow` must be a list of absolute paths: [\"~/.claude/projects\"]",
            ),
            (
                "follow = [\"/x\", \"projects\"]",
                "1:17: `follow` must be a list of absolute paths: [\"~/.claude/projects\"]",
            ),
            ("budget = 3", "1:10: `budget` must be a table: [budget]"),
            ("hub = \"x\"", "1:7: `hub` must be a table: [hub]"),
            (
                "[hub]\nurl = \"hub\"",
                "2:7: `url` must be an address: \"https://hub.example\"",
            ),
            (
                "[hub]\nmask = \"all\"",
                "2:8: `mask` must be \"secrets\" or \"none\"",
            ),
            (
                "[hub]\ntoken-file = \"token\"",
                "2:14: `token-file` must be an absolute path: \"~/.config/annals/hub-token\"",
            ),
            (
                "[hub]\ntoken = \"x\"",
                "2:1: unknown key `token` in [hub]; did you mean `token-file`?",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
        let torn = parse("daily = 1\nweekly = \n").unwrap_err();
        assert!(torn.starts_with("2:"), "{torn}");
    }
}
