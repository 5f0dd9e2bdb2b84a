//! The palette, and whether it is used.
//!
//! Defines one style per role; no other file names a colour. The colours are of the fixed palette of
//! 256, because none of the sixteen that themes define is readable on black and on white. On a
//! terminal with sixteen colours they are replaced by the nearest ([`limit_colors`]).
//! `ColorChoice` decides whether `Out` writes styles.

use super::text::{Safe, safe};
use anstyle::{Ansi256Color, AnsiColor, Color, Style};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

// Each has a contrast of at least 4:1 with black and with white.
const GREEN: u8 = 28;
const CYAN: u8 = 30;
const BLUE: u8 = 63;
const ORANGE: u8 = 130;
const MAGENTA: u8 = 133;
const RED: u8 = 161;
const GREY: u8 = 243;

const fn color(number: u8) -> Style {
    Ansi256Color(number).on_default()
}

/// No style.
pub const PLAIN: Style = Style::new();
/// Emphasis.
pub const BOLD: Style = Style::new().bold();
/// Secondary text.
pub const DIM: Style = color(GREY);
/// The head of a table.
pub const HEADER: Style = color(GREY).bold();
/// Titles of sessions.
pub const TITLE: Style = Style::new().bold();
/// The user as a speaker.
pub const USER: Style = color(GREEN).bold();
/// The assistant as a speaker.
pub const ASSISTANT: Style = color(BLUE).bold();
/// The program as a speaker.
pub const SYSTEM: Style = color(MAGENTA);
/// Thinking.
pub const THINKING: Style = color(GREY).italic();
/// Names of tools.
pub const TOOL: Style = color(CYAN);
/// Errors.
pub const ERROR: Style = color(RED).bold();
/// Output of a failed tool: long, so not bold.
pub const FAILED: Style = color(RED);
/// Warnings.
pub const WARNING: Style = color(ORANGE);
/// Success.
pub const SUCCESS: Style = color(GREEN);
/// Ids.
pub const ID: Style = color(MAGENTA);
/// Paths.
pub const PATH: Style = color(BLUE);
/// Times.
pub const TIME: Style = color(GREY);
/// Added lines of a diff.
pub const ADDED: Style = color(GREEN);
/// Removed lines of a diff.
pub const REMOVED: Style = color(RED);
/// Position of a part of a diff.
pub const HUNK: Style = color(CYAN);
/// Code in Markdown.
pub const CODE: Style = color(CYAN);
/// Headings in Markdown.
pub const HEADING: Style = Style::new().bold();
/// A search match.
pub const MATCH: Style = color(ORANGE).bold();
/// Links.
pub const LINK: Style = Style::new().underline();

/// Distinct styles for names. A name usually has the same style in every run; if it is taken, the
/// name gets the next free one.
#[derive(Debug, Default)]
pub struct NameStyles(HashMap<String, usize>);

impl NameStyles {
    const ALL: [u8; 10] = [CYAN, GREEN, ORANGE, BLUE, MAGENTA, 31, 64, 131, 97, 162];

    /// Returns the style of a name; the same name has the same style.
    pub fn style_for(&mut self, name: &str) -> Style {
        let all = Self::ALL.len();
        let at = self.0.get(name).copied().unwrap_or_else(|| {
            // FNV-1a, because the hash must not differ between runs.
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

/// Formats `text` as one safe line in `style`.
pub fn paint(style: Style, text: &str) -> Painted<'_> {
    Painted {
        style,
        text: safe(text),
    }
}

/// Appends text that is already safe in `style`.
pub(super) fn paint_safe(out: &mut String, style: Style, text: &str) {
    // Writing to a string does not fail.
    _ = write_styled(out, style, text);
}

fn write_styled(out: &mut dyn fmt::Write, style: Style, text: &str) -> fmt::Result {
    let style = match SIXTEEN_COLORS.load(Ordering::Relaxed) {
        true => with_sixteen_colors(style),
        false => style,
    };
    match style.is_plain() {
        true => out.write_str(text),
        false => write!(out, "{style}{text}{style:#}"),
    }
}

/// Whether the terminal has only sixteen colours.
static SIXTEEN_COLORS: AtomicBool = AtomicBool::new(false);

/// Limits all styles to sixteen colours if the terminal has no more, according to the environment
/// (`TERM`, `COLORTERM`).
pub fn limit_colors(env: impl Fn(&str) -> Option<OsString>) {
    SIXTEEN_COLORS.store(!has_256_colors(env), Ordering::Relaxed);
}

fn has_256_colors(env: impl Fn(&str) -> Option<OsString>) -> bool {
    const NAMES: [&str; 7] = [
        "256",
        "direct",
        "alacritty",
        "foot",
        "ghostty",
        "kitty",
        "wezterm",
    ];
    let set = |name| env(name).filter(|value| !value.is_empty());
    let Some(term) = set("TERM") else {
        return true;
    };
    let term = term.to_string_lossy();
    let is_console = term == "linux" || term.starts_with("vt");
    !is_console && (set("COLORTERM").is_some() || NAMES.iter().any(|name| term.contains(name)))
}

/// Replaces a colour by the nearest of the sixteen; blue and yellow, which many themes make
/// unreadable, by bold.
fn with_sixteen_colors(style: Style) -> Style {
    let Some(Color::Ansi256(color)) = style.get_fg_color() else {
        return style;
    };
    let uncolored = style.fg_color(None);
    let named = match color.index() {
        GREEN | 64 => AnsiColor::Green,
        CYAN | 31 => AnsiColor::Cyan,
        MAGENTA | 97 | 162 => AnsiColor::Magenta,
        RED | 131 => AnsiColor::Red,
        GREY => return uncolored.dimmed(),
        _ => return uncolored.bold(),
    };
    uncolored.fg_color(Some(Color::Ansi(named)))
}

/// Safe text in a style.
#[derive(Clone, Debug)]
pub struct Painted<'a> {
    style: Style,
    text: Safe<'a>,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_styled(f, self.style, &self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn painted_text_cannot_break_out_of_its_style() {
        assert_eq!(
            paint(DIM, "a\x1b[0mb\nc").to_string(),
            "\u{1b}[38;5;243ma␛[0mb c\u{1b}[0m"
        );
        assert_eq!(paint(PLAIN, "a").to_string(), "a");
    }

    /// Returns the contrast of a colour with black and with white, by WCAG 2.
    fn contrast_ratios(number: u8) -> [f64; 2] {
        const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        let level = |step: u8| LEVELS[usize::from(step % 6)];
        let channels = match number {
            232.. => [8 + 10 * (number - 232); 3],
            _ => {
                let cube = number
                    .checked_sub(16)
                    .expect("a theme defines the first 16");
                [level(cube / 36), level(cube / 6), level(cube)]
            }
        };
        let linear = |channel: u8| match f64::from(channel) / 255.0 {
            low if low <= 0.03928 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        };
        let [red, green, blue] = channels.map(linear);
        let luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        [(luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05)]
    }

    #[test]
    fn every_style_is_readable_on_black_and_on_white() {
        let roles = [
            PLAIN, BOLD, DIM, HEADER, TITLE, USER, ASSISTANT, SYSTEM, THINKING, TOOL, ERROR,
            FAILED, WARNING, SUCCESS, ID, PATH, TIME, ADDED, REMOVED, HUNK, CODE, HEADING, MATCH,
            LINK,
        ];
        for style in roles.into_iter().chain(NameStyles::ALL.map(color)) {
            let effects = style.get_effects();
            assert!(!effects.contains(anstyle::Effects::DIMMED), "{style:?}");
            match style.get_fg_color() {
                None => {}
                Some(Color::Ansi256(color)) => {
                    for contrast in contrast_ratios(color.index()) {
                        assert!(contrast >= 4.0, "{style:?}: {contrast:.2}");
                    }
                }
                Some(other) => panic!("{other:?} depends on the theme"),
            }
        }
    }

    #[test]
    fn sixteen_colors_where_the_terminal_has_no_more() {
        type Case = (&'static [(&'static str, &'static str)], bool);
        let cases: &[Case] = &[
            (&[], true),
            (&[("TERM", "xterm-256color")], true),
            (&[("TERM", "xterm-kitty")], true),
            (&[("TERM", "xterm")], false),
            (&[("TERM", "xterm"), ("COLORTERM", "truecolor")], true),
            (&[("TERM", "xterm"), ("COLORTERM", "")], false),
            (&[("TERM", "linux"), ("COLORTERM", "truecolor")], false),
            (&[("TERM", "vt220")], false),
        ];
        for (env, expected) in cases {
            let get = |name: &str| {
                let found = env.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(has_256_colors(get), *expected, "{env:?}");
        }
        let limited = |style: Style| with_sixteen_colors(style).to_string();
        assert_eq!(limited(ERROR), "\x1b[1m\x1b[31m");
        assert_eq!(limited(DIM), "\x1b[2m");
        assert_eq!(limited(WARNING), "\x1b[1m");
        assert_eq!(limited(PLAIN), "");
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
}
