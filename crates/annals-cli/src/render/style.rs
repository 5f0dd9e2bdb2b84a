//! The palette, and whether it is used.
//!
//! Owns one style per role; no other file names a colour. Only the sixteen terminal colours appear, so that a
//! person's own theme decides. Whether styles reach the terminal is [`ColorChoice`]'s answer, applied by `Out`.

use super::text::{Safe, safe};
use anstyle::{AnsiColor, Style};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;

const fn color(color: AnsiColor) -> Style {
    color.on_default()
}

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const HEADER: Style = Style::new().bold().dimmed();
pub(crate) const TITLE: Style = Style::new().bold();
pub(crate) const USER: Style = color(AnsiColor::Green).bold();
pub(crate) const ASSISTANT: Style = color(AnsiColor::Blue).bold();
pub(crate) const SYSTEM: Style = color(AnsiColor::Magenta);
pub(crate) const THINKING: Style = Style::new().dimmed().italic();
pub(crate) const TOOL: Style = color(AnsiColor::Cyan);
pub(crate) const ERROR: Style = color(AnsiColor::Red).bold();
/// Output of something that failed: long, so not bold.
pub(crate) const FAILED: Style = color(AnsiColor::Red);
pub(crate) const WARNING: Style = color(AnsiColor::Yellow);
pub(crate) const SUCCESS: Style = color(AnsiColor::Green);
pub(crate) const ID: Style = color(AnsiColor::Magenta);
pub(crate) const PATH: Style = color(AnsiColor::Blue);
pub(crate) const TIME: Style = Style::new().dimmed();
pub(crate) const ADDED: Style = color(AnsiColor::Green);
pub(crate) const REMOVED: Style = color(AnsiColor::Red);
pub(crate) const HUNK: Style = color(AnsiColor::Cyan);
pub(crate) const CODE: Style = color(AnsiColor::Cyan);
pub(crate) const HEADING: Style = Style::new().bold();
/// What was looked for.
pub(crate) const MATCH: Style = color(AnsiColor::Yellow).bold();
pub(crate) const LINK: Style = Style::new().underline();

/// Styles that tell things from each other. A name has mostly the same one from run to run; where
/// another took it already it gets the next that is free.
#[derive(Debug, Default)]
pub(crate) struct NameStyles(HashMap<String, usize>);

impl NameStyles {
    const ALL: [AnsiColor; 10] = [
        AnsiColor::Cyan,
        AnsiColor::Green,
        AnsiColor::Yellow,
        AnsiColor::Blue,
        AnsiColor::Magenta,
        AnsiColor::BrightCyan,
        AnsiColor::BrightGreen,
        AnsiColor::BrightYellow,
        AnsiColor::BrightBlue,
        AnsiColor::BrightMagenta,
    ];

    pub(crate) fn style_for(&mut self, name: &str) -> Style {
        let all = Self::ALL.len();
        let at = self.0.get(name).copied().unwrap_or_else(|| {
            // FNV-1a: it must not differ from run to run.
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
            let first = (hash >> 32) as usize % all;
            let free = |at: &usize| !self.0.values().any(|taken| taken == at);
            let next = (first..first + all).map(|at| at % all).find(free);
            let at = next.unwrap_or(first);
            self.0.insert(name.to_owned(), at);
            at
        });
        color(Self::ALL[at % all])
    }
}

/// Shows `text` as one safe line in `style`.
pub(crate) fn paint(style: Style, text: &str) -> Painted<'_> {
    Painted {
        style,
        text: safe(text),
    }
}

/// Appends text that is already safe in `style`.
pub(super) fn paint_safe(out: &mut String, style: Style, text: &str) {
    use fmt::Write as _;
    _ = if style.is_plain() {
        write!(out, "{text}")
    } else {
        write!(out, "{style}{text}{style:#}")
    };
}

/// Safe text in a style.
#[derive(Clone, Debug)]
pub(crate) struct Painted<'a> {
    style: Style,
    text: Safe<'a>,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Painted { style, text } = self;
        if style.is_plain() {
            write!(f, "{text}")
        } else {
            write!(f, "{style}{text}{style:#}")
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// When standard output is a terminal, unless the environment says otherwise
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Decides, given the output and the environment (`NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`, `TERM`).
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
    fn painted_text_cannot_break_out_of_its_style() {
        assert_eq!(
            paint(DIM, "a\x1b[0mb\nc").to_string(),
            "\u{1b}[2ma␛[0mb c\u{1b}[0m"
        );
        assert_eq!(paint(PLAIN, "a").to_string(), "a");
    }

    #[test]
    fn names_get_distinct_stable_styles() {
        let mut hues = NameStyles::default();
        let names: Vec<String> = (0..10).map(|n| format!("session {n}")).collect();
        let styles: Vec<Style> = names.iter().map(|name| hues.style_for(name)).collect();
        for (at, style) in styles.iter().enumerate() {
            assert!(!styles[..at].contains(style), "{at}");
        }
        assert_eq!(hues.style_for("session 3"), styles[3]);
        assert_eq!(
            hues.style_for("one too many"),
            NameStyles::default().style_for("one too many")
        );
    }

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
