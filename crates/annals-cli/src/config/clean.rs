//! The table `[clean]` of the settings: retention of sessions.

use std::path::Path;

use annals::layout::LAYOUTS;
use annals::retain::{Policy, Term};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, error_at, in_file_order, unknown_key};

/// Examples of terms, for error messages.
pub(crate) const TERM_EXAMPLES: &str = "90d, 36h, 2w, 6mo or 1y";

pub(super) fn parse_policy(table: &DeTable<'_>) -> Result<Policy, ConfigError> {
    let mut policy = Policy::default();
    for (key, value) in in_file_order(table) {
        let name = key.get_ref().as_ref();
        match (name, value.get_ref()) {
            ("older-than", _) => policy.default = Some(parse_term(name, value)?),
            ("keep-last", DeValue::Integer(number)) if number.radix() == 10 => {
                let count = number.as_str().parse();
                policy.keep_last = count.map_err(|_| error_at(value, KEEP_LAST_ERROR))?;
            }
            ("keep-last", _) => return Err(error_at(value, KEEP_LAST_ERROR)),
            ("layout", DeValue::Table(layouts)) => {
                for (key, value) in in_file_order(layouts) {
                    let name = key.get_ref().as_ref();
                    let known: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name()).collect();
                    if !known.contains(&name) {
                        return Err(unknown_key(key, name, "[clean.layout]", &known));
                    }
                    policy
                        .layouts
                        .insert(name.to_owned(), parse_term(name, value)?);
                }
            }
            ("layout", _) => {
                return Err(error_at(value, "`layout` must be a table: [clean.layout]"));
            }
            ("project", DeValue::Table(projects)) => {
                for (key, value) in in_file_order(projects) {
                    let name = key.get_ref().as_ref();
                    let dir = absolute_directory(name).ok_or_else(|| {
                        let why = format!(
                            "`{name}` is not an absolute path; name a project by its full path"
                        );
                        error_at(key, &why)
                    })?;
                    policy.projects.insert(dir, parse_term(name, value)?);
                }
            }
            ("project", _) => {
                return Err(error_at(
                    value,
                    "`project` must be a table: [clean.project]",
                ));
            }
            _ => {
                let known = ["older-than", "keep-last", "layout", "project"];
                return Err(unknown_key(key, name, "[clean]", &known));
            }
        }
    }
    Ok(policy)
}

const KEEP_LAST_ERROR: &str = "`keep-last` must be a number of sessions, such as 3";

fn parse_term(name: &str, value: &Spanned<DeValue<'_>>) -> Result<Term, ConfigError> {
    let text = match value.get_ref() {
        DeValue::String(text) => Term::parse(text),
        _ => None,
    };
    text.ok_or_else(|| {
        error_at(
            value,
            &format!("`{name}` must be a duration, such as {TERM_EXAMPLES}, or never"),
        )
    })
}

/// An absolute directory, or one that starts with `~/`.
fn absolute_directory(name: &str) -> Option<String> {
    let whole = match name.strip_prefix("~/") {
        Some(rest) => std::env::home_dir()?.join(rest),
        None => name.into(),
    };
    let path: &Path = whole.as_path();
    path.is_absolute().then(|| path.display().to_string())
}
