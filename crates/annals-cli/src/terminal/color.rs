//! When output has colour.

use std::ffi::OsString;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Decides from the output and the environment (`NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`,
    /// `TERM`).
    pub(crate) fn resolve(self, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
        let set = |name| env(name).filter(|value| !value.is_empty());
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if set("NO_COLOR").is_some() => false,
            ColorChoice::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            ColorChoice::Auto if set("CLICOLOR").is_some_and(|value| value == "0") => false,
            ColorChoice::Auto => is_terminal && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_flag_overrides_environment_overrides_terminal() {
        use ColorChoice::{Always, Auto, Never};
        type Case = (
            ColorChoice,
            bool,
            &'static [(&'static str, &'static str)],
            bool,
        );
        #[rustfmt::skip]
        let cases: &[Case] = &[
            (Auto,   true,  &[],                                          true),
            (Auto,   false, &[],                                          false),
            (Auto,   true,  &[("NO_COLOR", "1")],                         false),
            (Auto,   true,  &[("NO_COLOR", "")],                          true),
            (Auto,   false, &[("CLICOLOR_FORCE", "1")],                   true),
            (Auto,   false, &[("CLICOLOR_FORCE", "0")],                   false),
            (Auto,   false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (Auto,   true,  &[("CLICOLOR", "0")],                         false),
            (Auto,   true,  &[("TERM", "dumb")],                          false),
            (Always, false, &[("NO_COLOR", "1")],                         true),
            (Never,  true,  &[("CLICOLOR_FORCE", "1")],                   false),
        ];
        for &(choice, terminal, env, expected) in cases {
            let get = |name: &str| {
                env.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            };
            assert_eq!(
                choice.resolve(terminal, get),
                expected,
                "{choice:?} {terminal} {env:?}"
            );
        }
    }
}
