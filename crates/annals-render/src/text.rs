//! Makes untrusted text safe to print.
//!
//! Owns [`Safe`], the only form in which external text may reach a terminal; [`annals::text`]
//! defines the rules. Does not style, wrap or measure.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

pub use annals::text::is_hostile;
use annals::text::{LineBreaks, visible};

/// Text without characters that a terminal would interpret or hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Safe<'a>(Cow<'a, str>);

/// Makes `text` safe for one line: line breaks and tabs become spaces.
pub fn safe(text: &str) -> Safe<'_> {
    Safe(visible(text, LineBreaks::Spaces))
}

/// Makes `text` safe for several lines: keeps `\n` and `\t`, and turns `\r\n` into `\n`.
pub fn safe_block(text: &str) -> Safe<'_> {
    Safe(visible(text, LineBreaks::Preserved))
}

impl<'a> Safe<'a> {
    /// Returns the text, borrowed if nothing was changed.
    #[cfg(test)]
    pub fn into_inner(self) -> Cow<'a, str> {
        self.0
    }
}

impl Deref for Safe<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<Safe<'_>> for String {
    fn from(text: Safe<'_>) -> String {
        text.0.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ZWNJ: char = '\u{200C}';
    const ZWJ: char = '\u{200D}';

    fn is_variation_selector(c: char) -> bool {
        matches!(c, '\u{FE00}'..='\u{FE0F}')
    }

    #[test]
    fn terminal_sequences_lose_their_introducers() {
        for (hostile, shown) in [
            ("\x1b[31mred", "␛[31mred"),
            ("\x1b]52;c;cHduZWQ=\x07", "␛]52;c;cHduZWQ=␇"),
            ("\x1b]8;;http://evil\x1b\\here", "␛]8;;http://evil␛\\here"),
            ("\x1bP1$r\x1b\\", "␛P1$r␛\\"),
            ("\u{9b}31m\u{9d}0;t\u{9c}", "⟨U+009B⟩31m⟨U+009D⟩0;t⟨U+009C⟩"),
            ("a\0b\x08c\x7f", "a␀b␈c␡"),
            ("fake\rreal", "fake␍real"),
        ] {
            assert_eq!(&*safe(hostile), shown);
            assert_eq!(&*safe_block(hostile), shown);
        }
    }

    #[test]
    fn direction_and_invisible_characters_become_visible() {
        assert_eq!(&*safe("exe.\u{202E}gpj"), "exe.⟨U+202E⟩gpj");
        assert_eq!(
            &*safe("a\u{2066}b\u{2069}c\u{200F}\u{61C}"),
            "a⟨U+2066⟩b⟨U+2069⟩c⟨U+200F⟩⟨U+061C⟩"
        );
        assert_eq!(
            &*safe("pay\u{200B}pal\u{FEFF}\u{2060}"),
            "pay⟨U+200B⟩pal⟨U+FEFF⟩⟨U+2060⟩"
        );
        assert_eq!(
            &*safe("x\u{E0041}\u{E01EF}\u{FFF9}"),
            "x⟨U+E0041⟩⟨U+E01EF⟩⟨U+FFF9⟩"
        );
        assert_eq!(&*safe_block("a\u{2028}b"), "a⟨U+2028⟩b");
    }

    #[test]
    fn breaks_are_kept_only_in_blocks() {
        assert_eq!(&*safe("a\r\nb\tc\nd"), "a b c d");
        assert_eq!(&*safe_block("a\r\nb\tc\nd"), "a\nb\tc\nd");
    }

    #[test]
    fn joiners_stay_only_in_valid_sequences() {
        for kept in [
            "👩‍👩‍👧",
            "🏳️‍🌈",
            "👩🏽‍💻",
            "❤️",
            "می‌خواهم",
            "क्‍ष",
            "日本語",
            "naïve — “q”",
        ] {
            assert_eq!(&*safe(kept), kept);
        }
        assert_eq!(&*safe("a\u{200D}b"), "a⟨U+200D⟩b");
        assert_eq!(&*safe("\u{200D}👧"), "⟨U+200D⟩👧");
        assert_eq!(&*safe("👧\u{200D}"), "👧⟨U+200D⟩");
        assert_eq!(&*safe("a\u{FE01}\u{FE02}"), "a\u{FE01}⟨U+FE02⟩");
    }

    #[test]
    fn untouched_text_is_borrowed() {
        assert!(matches!(
            safe("plain — text").into_inner(),
            Cow::Borrowed(_)
        ));
        assert!(matches!(
            safe_block("two\n\tlines").into_inner(),
            Cow::Borrowed(_)
        ));
    }

    fn hostile_text() -> impl Strategy<Value = String> {
        let nasty = prop::sample::select(vec![
            '\x1b',
            '\u{9b}',
            '\r',
            '\n',
            '\t',
            '\0',
            '\x7f',
            '\u{202E}',
            '\u{2066}',
            ZWJ,
            ZWNJ,
            '\u{FE0F}',
            '\u{FEFF}',
            '\u{E0041}',
            '\u{2028}',
            '👩',
            '🏽',
            'م',
            'क',
            '⟩',
            '[',
            'm',
            ' ',
            'a',
        ]);
        prop::collection::vec(prop_oneof![3 => nasty, 1 => any::<char>()], 0..60)
            .prop_map(|c| c.into_iter().collect())
    }

    proptest! {
        #[test]
        fn no_hostile_character_remains(text in hostile_text()) {
            for (out, breaks) in [(safe(&text), false), (safe_block(&text), true)] {
                let mut before = None;
                for c in out.chars() {
                    let allowed = (breaks && matches!(c, '\n' | '\t'))
                        || (matches!(c, ZWJ | ZWNJ) && before.is_some())
                        || (is_variation_selector(c) && before.is_some_and(|b| !is_hostile(b)));
                    prop_assert!(!is_hostile(c) || allowed, "{c:?} in {out:?}");
                    before = Some(c);
                }
            }
        }

        #[test]
        fn cleaning_twice_changes_nothing(text in hostile_text()) {
            let line = safe(&text);
            prop_assert_eq!(&safe(&line), &line);
            let block = safe_block(&text);
            prop_assert_eq!(&safe_block(&block), &block);
        }

        #[test]
        fn plain_text_is_unchanged(text in "[ -~äöüßéñ€—…“”日本語한국Привет]{0,80}") {
            prop_assert_eq!(&*safe(&text), &text);
        }
    }
}
