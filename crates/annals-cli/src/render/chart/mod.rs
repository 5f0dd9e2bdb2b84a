//! Charts: bars over time or by name, as SVG or PNG.
//!
//! A [`Chart`] is plain values. [`fold`] keeps the largest of them and adds up the rest, [`columns`] and
//! [`rows`] lay them out as one [`scene`], and [`svg`] and [`png`] draw it. Nothing here opens a file, asks
//! for the time or looks for the fonts of this machine: who has some may lend them.

mod amount;
mod calendar;
mod columns;
mod escape_missing;
mod fold;
mod font;
mod frame;
mod png;
mod rows;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod time;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jiff::civil::DateTime;
use skrifa::ScalerFont;

pub(crate) use amount::Unit;
pub(crate) use font::{can_draw, in_font_units};
pub(crate) use time::Step;

/// What a chart shows.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What it all comes to.
    pub(crate) total: String,
    /// What stands behind the total.
    pub(crate) subtitle: String,
    pub(crate) unit: Unit,
    pub(crate) axis: Axis,
    /// What the series are: `Model`.
    pub(crate) legend: String,
    /// The names of the series; a single one without a name needs no legend.
    pub(crate) series: Vec<String>,
    pub(crate) bars: Vec<Bar>,
    /// What must be known to read it right.
    pub(crate) notes: Vec<String>,
}

/// What the bars stand along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Names, the largest first.
    Names,
    /// Time, in which nothing is left out; every bar has one.
    Time(Step),
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bar {
    pub(crate) label: String,
    /// What is said of it when one points at it; else the label.
    pub(crate) detail: Option<String>,
    /// When it begins, where people are.
    pub(crate) time: Option<DateTime>,
    /// How much of which series, by its number.
    pub(crate) parts: Vec<(usize, i128)>,
}

/// How a chart is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Svg,
    Png,
}

impl Format {
    /// What the name of a file says.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "svg" => Some(Format::Svg),
            "png" => Some(Format::Png),
            _ => None,
        }
    }
}

/// How large a chart is, in points of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    width: u16,
    height: u16,
}

impl Default for Size {
    /// What pages that link to others show of them.
    fn default() -> Self {
        Size {
            width: 1200,
            height: 630,
        }
    }
}

impl Size {
    const MIN: Size = Size {
        width: 480,
        height: 270,
    };
    const MAX_SIDE: u16 = 4096;
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text.split_once(['x', 'X', '×']);
        let sides =
            sides.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        let fits = |&(width, height): &(u16, u16)| {
            (Size::MIN.width..=Size::MAX_SIDE).contains(&width)
                && (Size::MIN.height..=Size::MAX_SIDE).contains(&height)
        };
        match sides.filter(fits) {
            Some((width, height)) => Ok(Size { width, height }),
            None => Err(format!(
                "a size is WIDTHxHEIGHT, from {} to {most}x{most}",
                Size::MIN,
                most = Size::MAX_SIDE
            )),
        }
    }
}

impl Chart {
    /// Draws it. For a picture, `lend` is asked for fonts with the characters that the embedded one lacks.
    pub(crate) fn draw(
        &self,
        format: Format,
        size: Size,
        lend: impl FnOnce(&BTreeSet<char>) -> Vec<ScalerFont>,
    ) -> anyhow::Result<Vec<u8>> {
        match format {
            Format::Svg => Ok(svg::encode(&self.scene(size)).into_bytes()),
            Format::Png => {
                let missing = self.missing_chars();
                if !missing.is_empty() {
                    font::set_fallback_fonts(lend(&missing));
                }
                png::encode(&self.with_missing_escaped().scene(size))
            }
        }
    }

    fn scene(&self, size: Size) -> scene::Scene {
        match self.axis {
            Axis::Names => rows::lay_out(self, size),
            Axis::Time(step) => columns::lay_out(self, step, size),
        }
    }
}
