//! The embedded font: how wide text is, and its outlines.

use std::sync::LazyLock;

use ttf_parser::{Face, OutlineBuilder};

use super::super::width;

/// How heavy letters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Plain,
    Strong,
}

static PLAIN: LazyLock<Option<Face<'static>>> =
    LazyLock::new(|| parse(include_bytes!("../../../assets/font/Inter-Regular.ttf")));
static STRONG: LazyLock<Option<Face<'static>>> =
    LazyLock::new(|| parse(include_bytes!("../../../assets/font/Inter-SemiBold.ttf")));

fn parse(bytes: &'static [u8]) -> Option<Face<'static>> {
    Face::parse(bytes, 0).ok()
}

/// What stands for a character.
pub(super) enum Glyph {
    Outline(ttf_parser::GlyphId),
    /// The font lacks it: a box is drawn.
    Box,
    /// It takes no place by itself.
    Nothing,
}

/// The height of a box for a character that is missing, in ems.
pub(super) const BOX_HEIGHT: f64 = 0.73;

impl Weight {
    fn face(self) -> Option<&'static Face<'static>> {
        match self {
            Weight::Plain => PLAIN.as_ref(),
            Weight::Strong => STRONG.as_ref(),
        }
    }

    /// What stands for a character, and how far it moves on, in ems.
    pub(super) fn glyph(self, c: char) -> (Glyph, f64) {
        let known = self.face().and_then(|face| {
            let id = face.glyph_index(c)?;
            let advance = face.glyph_hor_advance(id).unwrap_or(0);
            let em = f64::from(face.units_per_em());
            Some((Glyph::Outline(id), f64::from(advance) / em))
        });
        known.unwrap_or_else(|| match width::width(c.encode_utf8(&mut [0; 4])) {
            0 => (Glyph::Nothing, 0.0),
            1 => (Glyph::Box, 0.62),
            _ => (Glyph::Box, 1.0),
        })
    }

    /// Draws a glyph in ems, with y upwards.
    pub(super) fn outline(self, id: ttf_parser::GlyphId, builder: &mut dyn OutlineBuilder) {
        if let Some(face) = self.face() {
            face.outline_glyph(id, builder);
        }
    }

    /// Units of the outlines in an em.
    pub(super) fn units(self) -> f64 {
        self.face()
            .map_or(1.0, |face| f64::from(face.units_per_em()))
    }

    /// How wide a text is at a size.
    pub(super) fn width(self, text: &str, size: f64) -> f64 {
        text.chars().map(|c| self.glyph(c).1).sum::<f64>() * size
    }

    /// Cuts a text in its middle so that it is no wider than `max`.
    pub(super) fn cut(self, text: &str, size: f64, max: f64) -> String {
        const GAP: &str = "…";
        if self.width(text, size) <= max {
            return text.to_owned();
        }
        let clusters: Vec<&str> = width::clusters(text).collect();
        let mut room = max - self.width(GAP, size);
        let (mut head, mut tail) = (0, clusters.len());
        // From both ends in turn, so that the middle goes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fonts_can_be_read_and_have_the_letters_they_are_for() {
        for c in "AZaz09 $,.·–…éßőŁΩωЖяđ→⟨⟩€".chars() {
            assert!(
                matches!(Weight::Plain.glyph(c).0, Glyph::Outline(_)),
                "{c} is missing"
            );
        }
        for c in "AZaz09 $,.·–…".chars() {
            assert!(
                matches!(Weight::Strong.glyph(c).0, Glyph::Outline(_)),
                "{c} is missing"
            );
        }
        assert!(matches!(Weight::Plain.glyph('語').0, Glyph::Box));
    }

    #[test]
    fn digits_are_of_one_width() {
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
