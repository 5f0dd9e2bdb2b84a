//! The embedded font and fallback fonts: text widths and outlines.

use std::sync::{LazyLock, OnceLock};

use skrifa::{DrawMemory, Font, GlyphId, PathSink, ScalerFont};

use super::super::width;

/// The font weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Plain,
    Strong,
}

static PLAIN: LazyLock<Option<ScalerFont>> =
    LazyLock::new(|| parse(include_bytes!("../../../assets/font/Inter-Regular.ttf")));
static STRONG: LazyLock<Option<ScalerFont>> =
    LazyLock::new(|| parse(include_bytes!("../../../assets/font/Inter-SemiBold.ttf")));

fn parse(bytes: &'static [u8]) -> Option<ScalerFont> {
    Font::new(bytes, 0).map(in_font_units)
}

/// Returns a font that draws outlines in its own units.
pub(crate) fn in_font_units(font: Font) -> ScalerFont {
    ScalerFont::force_unhinted(font, None)
}

/// Fonts for characters that the embedded one lacks.
static FALLBACK_FONTS: OnceLock<Vec<ScalerFont>> = OnceLock::new();

/// Sets the fallback fonts for all images of this process.
pub(super) fn set_fallback_fonts(fonts: Vec<ScalerFont>) {
    _ = FALLBACK_FONTS.set(fonts);
}

/// Whether a font can draw a character by its outline alone. Scripts that need shaping or run from
/// right to left would be wrong.
pub(crate) fn can_draw(face: &ScalerFont, c: char) -> bool {
    const NEEDS_SHAPING: [std::ops::RangeInclusive<char>; 10] = [
        '\u{590}'..='\u{8FF}',
        '\u{900}'..='\u{DFF}',
        '\u{F00}'..='\u{109F}',
        '\u{1780}'..='\u{18AF}',
        '\u{1900}'..='\u{1CFF}',
        '\u{A800}'..='\u{ABFF}',
        '\u{FB1D}'..='\u{FDFF}',
        '\u{FE70}'..='\u{FEFF}',
        '\u{10800}'..='\u{11FFF}',
        '\u{1E800}'..='\u{1EFFF}',
    ];
    let glyph = face.font().charmap().map_unicode(c);
    // Colour bitmap fonts have no outlines.
    let mut outline = OutlineProbe(false);
    glyph.is_some_and(|id| draw_glyph(face, id, &mut outline) && outline.0)
        && !NEEDS_SHAPING.iter().any(|range| range.contains(&c))
}

/// Draws the outline of a glyph. Returns false if the font has none, or a broken one.
pub(super) fn draw_glyph(face: &ScalerFont, glyph: GlyphId, sink: &mut impl PathSink) -> bool {
    let outline = face.outline(glyph);
    outline.is_some_and(|outline| outline.draw(DrawMemory::Scratch, sink).is_ok())
}

/// The representation of a character.
pub(super) enum Glyph {
    Outline(&'static ScalerFont, GlyphId),
    /// A box, because the font lacks the character.
    Box,
    /// Nothing, because the character has no width.
    Empty,
}

/// The height of the box for a missing character, in ems.
pub(super) const BOX_HEIGHT: f64 = 0.73;

impl Weight {
    fn font(self) -> Option<&'static ScalerFont> {
        match self {
            Weight::Plain => PLAIN.as_ref(),
            Weight::Strong => STRONG.as_ref(),
        }
    }

    /// The glyph of a character and its advance, in ems.
    pub(super) fn glyph(self, c: char) -> (Glyph, f64) {
        let outline = |face: &'static ScalerFont| {
            let id = face.font().charmap().map_unicode(c)?;
            let advance = face.font().glyph_metrics().h_advance(id);
            let em = f64::from(face.font().units_per_em());
            Some((Glyph::Outline(face, id), f64::from(advance) / em))
        };
        let own = self.font().and_then(outline);
        let lent = || {
            let mut faces = FALLBACK_FONTS.get()?.iter();
            let face = faces.find(|face| can_draw(face, c))?;
            outline(face)
        };
        let known = own.or_else(lent);
        known.unwrap_or_else(|| match width::width(c.encode_utf8(&mut [0; 4])) {
            0 => (Glyph::Empty, 0.0),
            1 => (Glyph::Box, 0.62),
            _ => (Glyph::Box, 1.0),
        })
    }

    /// Whether a character can be drawn.
    pub(super) fn has_char(self, c: char) -> bool {
        !matches!(self.glyph(c).0, Glyph::Box)
    }

    /// The width of a text at a font size.
    pub(super) fn width(self, text: &str, size: f64) -> f64 {
        text.chars().map(|c| self.glyph(c).1).sum::<f64>() * size
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
        format!("{}{GAP}{}", front.trim_end(), back.trim_start())
    }
}

/// Records whether an outline has any point.
struct OutlineProbe(bool);

impl PathSink for OutlineProbe {
    fn move_to(&mut self, _: f32, _: f32) {
        self.0 = true;
    }
    fn line_to(&mut self, _: f32, _: f32) {}
    fn quad_to(&mut self, _: f32, _: f32, _: f32, _: f32) {}
    fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, _: f32, _: f32) {}
    fn close(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_fonts_have_the_expected_characters() {
        for c in "AZaz09 $,.·–…éßőŁΩωЖяđ→⟨⟩€".chars() {
            assert!(
                matches!(Weight::Plain.glyph(c).0, Glyph::Outline(..)),
                "{c} is missing"
            );
        }
        for c in "AZaz09 $,.·–…".chars() {
            assert!(
                matches!(Weight::Strong.glyph(c).0, Glyph::Outline(..)),
                "{c} is missing"
            );
        }
        assert!(matches!(Weight::Plain.glyph('語').0, Glyph::Box));
    }

    #[test]
    fn digits_have_equal_width() {
        let width = |c| Weight::Plain.glyph(c).1;
        assert!(('0'..='9').all(|c| width(c) == width('0')));
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
    }
}
