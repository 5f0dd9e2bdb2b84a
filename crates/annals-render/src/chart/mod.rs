//! Charts: bars over time or by name, as SVG or, with the feature `png`, as PNG.
//!
//! A [`Chart`] is plain values. `fold` keeps the largest of them and adds up the rest,
//! `columns` and `rows` lay them out as one `scene`, `svg` writes it, and `png` draws that SVG. This
//! module opens no file, reads no clock and searches no fonts: the caller passes them.

mod amount;
mod calendar;
mod columns;
#[cfg(feature = "png")]
mod escape_missing;
mod fold;
mod font;
mod frame;
#[cfg(feature = "png")]
mod png;
mod report;
mod rows;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod time;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jiff::civil::DateTime;
/// The fonts that a picture may use.
#[cfg(feature = "png")]
pub use resvg::usvg::fontdb::Database as Fonts;

pub use amount::Unit;
pub use time::Step;

/// The content of a chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// The total.
    pub total: String,
    /// The text after the total.
    pub subtitle: String,
    /// What the amounts are.
    pub unit: Unit,
    /// The axis of the bars.
    pub axis: Axis,
    /// The heading of the legend: `Model`.
    pub legend: String,
    /// The names of the series; a single unnamed series has no legend.
    pub series: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Notes needed to read the chart correctly.
    pub notes: Vec<String>,
}

/// The axis of the bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Names, largest first.
    Names,
    /// Time, without gaps; every bar has a time.
    Time(Step),
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// The name below it.
    pub label: String,
    /// The tooltip; the label if `None`.
    pub detail: Option<String>,
    /// Its start, in local time.
    pub time: Option<DateTime>,
    /// Amounts by index of the series.
    pub parts: Vec<(usize, i128)>,
}

/// The file format of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A vector image.
    Svg,
    /// An image of pixels.
    #[cfg(feature = "png")]
    Png,
}

impl Format {
    /// The file name extensions of charts, for messages.
    pub const EXTENSIONS: &str = match cfg!(feature = "png") {
        true => ".svg or .png",
        false => ".svg",
    };

    /// The format of a file name extension.
    pub fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "svg" => Some(Format::Svg),
            #[cfg(feature = "png")]
            "png" => Some(Format::Png),
            _ => None,
        }
    }
}

/// The size of a chart, in CSS pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    width: u16,
    height: u16,
}

impl Default for Size {
    /// The usual size of link previews.
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
                "expected WIDTHxHEIGHT, from {} to {most}x{most}",
                Size::MIN,
                most = Size::MAX_SIDE
            )),
        }
    }
}

impl Chart {
    /// Draws the chart as SVG.
    pub fn svg(&self, size: Size) -> String {
        svg::encode(&self.scene(size))
    }

    /// Draws the chart as PNG. If it has characters that the embedded font lacks, `load_fonts` adds
    /// the fonts of the system.
    #[cfg(feature = "png")]
    pub fn png(&self, size: Size, load_fonts: impl FnOnce(&mut Fonts)) -> anyhow::Result<Vec<u8>> {
        let fonts = png::Fonts::new(self.missing_chars(), load_fonts);
        png::encode(&self.with_escaped(&fonts.missing).scene(size), &fonts)
    }

    fn scene(&self, size: Size) -> scene::Scene {
        match self.axis {
            Axis::Names => rows::lay_out(self, size),
            Axis::Time(step) => columns::lay_out(self, step, size),
        }
    }
}
