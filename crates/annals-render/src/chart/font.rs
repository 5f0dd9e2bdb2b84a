//! Widths of text in the embedded font.

use std::sync::LazyLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider as _};

use super::super::width;

/// The font weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Plain,
    Strong,
}

/// The name of the embedded font.
pub(super) const FAMILY: &str = "Inter";

/// The faces of the embedded font, in the order of [`Weight`].
pub(super) const EMBEDDED: [&[u8]; 2] = [
    include_bytes!("../../assets/font/Inter-Regular.ttf"),
    include_bytes!("../../assets/font/Inter-SemiBold.ttf"),
];

static FONTS: LazyLock<[Option<FontRef<'static>>; 2]> =
    LazyLock::new(|| EMBEDDED.map(|bytes| FontRef::new(bytes).ok()));

impl Weight {
    /// The advance of a character of the embedded font, in ems.
    fn advance(self, c: char) -> Option<f64> {
        let font = FONTS[self as usize].as_ref()?;
        let glyph = font.charmap().map(c)?;
        let metrics = font.glyph_metrics(Size::new(1.0), LocationRef::default());
        metrics.advance_width(glyph).map(f64::from)
    }

    /// Whether the embedded font lacks a visible character.
    #[cfg_attr(
        not(feature = "png"),
        expect(dead_code, reason = "SVG viewers have their own fonts")
    )]
    pub(super) fn lacks_glyph(self, c: char) -> bool {
        self.advance(c).is_none() && width::width(c.encode_utf8(&mut [0; 4])) > 0
    }

    /// The width of a text at a font size. Characters of other fonts count by their width on a
    /// terminal.
    pub(super) fn width(self, text: &str, size: f64) -> f64 {
        let other = |c: char| match width::width(c.encode_utf8(&mut [0; 4])) {
            0 => 0.0,
            1 => 0.62,
            _ => 1.0,
        };
        let advance = |c| self.advance(c).unwrap_or_else(|| other(c));
        text.chars().map(advance).sum::<f64>() * size
    }

    /// Cuts a text in the middle so that it is no wider than `max`.
    pub(super) fn cut(self, text: &str, size: f64, max: f64) -> String {
        const GAP: &str = "…";
        if self.width(text, size) <= max {
            return text.to_owned();
        }
        let clusters: Vec<&str> = width::clusters(text).collect();
        let mut room = max - self.width(GAP, size);
        let (mut head, mut tail) = (0, clusters.len());
        // Takes clusters from both ends in turn, so that the middle is omitted.
        loop {
            let front = head <= clusters.len() - tail;
            let next = if front { head } else { tail - 1 };
            room -= self.width(clusters[next], size);
            if room < 0.0 || head + 1 >= tail {
                break;
            }
            match front {
                true => head += 1,
                false => tail -= 1,
            }
        }
        let (front, back) = (clusters[..head].concat(), clusters[tail..].concat());
        // Do not add a second gap next to one in the text.
        let is_gap = |c: char| c.is_whitespace() || GAP.contains(c);
        let (front, back) = (
            front.trim_end_matches(is_gap),
            back.trim_start_matches(is_gap),
        );
        format!("{front}{GAP}{back}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_fonts_have_the_expected_characters() {
        for c in "AZaz09 $,.·–…éßőŁΩωЖяđ→⟨⟩€".chars() {
            assert!(!Weight::Plain.lacks_glyph(c), "{c} is missing");
        }
        for c in "AZaz09 $,.·–…".chars() {
            assert!(!Weight::Strong.lacks_glyph(c), "{c} is missing");
        }
        assert!(Weight::Plain.lacks_glyph('語'));
    }

    #[test]
    fn digits_have_equal_width() {
        let width = |c| Weight::Plain.advance(c);
        assert!(('0'..='9').all(|c| width(c).is_some() && width(c) == width('0')));
    }

    #[test]
    fn long_text_is_cut_in_its_middle() {
        let text = "/home/dev/a-very-long-directory-name/harbor";
        let cut = Weight::Plain.cut(text, 12.0, 120.0);
        assert!(Weight::Plain.width(&cut, 12.0) <= 120.0);
        assert!(cut.starts_with("/home") && cut.ends_with("harbor"), "{cut}");
        assert_eq!(Weight::Plain.cut("short", 12.0, 120.0), "short");
        assert_eq!(Weight::Plain.cut("whatever", 12.0, 0.0), "…");
        assert_eq!(Weight::Plain.cut("語語語語語語", 10.0, 35.0), "語…語");
        let spelled = "⟨U+65E5 672C … 30C6 30E0⟩-dashboard-of-the-harbor";
        for max in 100..300 {
            let cut = Weight::Plain.cut(spelled, 13.0, f64::from(max));
            assert!(!cut.contains("……") && !cut.contains("… …"), "{cut}");
        }
    }
}
