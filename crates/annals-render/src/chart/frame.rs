//! The parts around the bars: title, legend, notes.

use super::fold::Series;
use super::font::Weight;
use super::scene::{Anchor, Area, Color, Draw, Item, Scene, TextStyle, make_visible};
use super::{Chart, Size};

const MARGIN: f64 = 44.0;
/// The size that font sizes are designed for.
const DESIGN_SIZE: (f64, f64) = (1200.0, 630.0);

pub(super) const INK: Color = Color(0x16191d);
pub(super) const FAINT: Color = Color(0x57606a);
pub(super) const GRID: Color = Color(0xe4e7eb);
pub(super) const BASE: Color = Color(0x8c959f);
pub(super) const PAPER: Color = Color(0xffffff);

const TITLE: TextStyle = text_style(28.0, Weight::Strong, INK);
const TOTAL: TextStyle = text_style(16.0, Weight::Strong, INK);
const SUBTITLE: TextStyle = text_style(16.0, Weight::Plain, FAINT);
const NOTE: TextStyle = text_style(12.0, Weight::Plain, FAINT);
const SIGNATURE: TextStyle = text_style(12.0, Weight::Strong, BASE);
const ENTRY: TextStyle = text_style(13.0, Weight::Plain, INK);
const HEADING: TextStyle = text_style(12.0, Weight::Plain, FAINT);
/// Names and amounts at the bars.
pub(super) const LABEL: TextStyle = text_style(13.0, Weight::Plain, INK);
pub(super) const TICK: TextStyle = text_style(12.0, Weight::Plain, FAINT);
pub(super) const GROUP: TextStyle = text_style(12.0, Weight::Strong, FAINT);

/// SVG viewers may use another font, up to this much wider.
pub(super) const FONT_SLACK: f64 = 1.1;

const fn text_style(size: f64, weight: Weight, color: Color) -> TextStyle {
    TextStyle {
        size,
        weight,
        color,
    }
}

/// A scene with everything but the bars, and the area left for them.
pub(super) struct Frame {
    pub(super) scene: Scene,
    pub(super) room: Area,
}

impl Frame {
    pub(super) fn new(chart: &Chart, series: &[Series], notes: &[&str], size: Size) -> Self {
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        let scale = (width / DESIGN_SIZE.0)
            .min(height / DESIGN_SIZE.1)
            .max(0.75);
        let (width, height) = (width / scale, height / scale);
        let mut scene = Scene {
            width,
            height,
            scale,
            title: make_visible(&chart.title),
            description: make_visible(&format!("{} · {}", chart.total, chart.subtitle)),
            items: Vec::new(),
        };
        let inner = width - 2.0 * MARGIN;
        // Titles are our own texts, which the bold font covers.
        let title = TITLE.cut(&scene.title, inner);
        scene.text((MARGIN, 64.0), &title, TITLE, Anchor::Start);
        scene.text((MARGIN, 92.0), &chart.total, TOTAL, Anchor::Start);
        let behind = TOTAL.width(&chart.total) * FONT_SLACK + 14.0;
        let subtitle = SUBTITLE.cut(
            &make_visible(&chart.subtitle),
            (inner - behind) / FONT_SLACK,
        );
        scene.text((MARGIN + behind, 92.0), &subtitle, SUBTITLE, Anchor::Start);
        let mut room = Area {
            left: MARGIN,
            top: 128.0,
            right: width - MARGIN,
            bottom: height - 58.0,
        };
        draw_footer(&mut scene, notes, room);
        if series.iter().any(|series| !series.name.is_empty()) {
            room.right = draw_legend(&mut scene, chart, series, room);
        }
        Frame { scene, room }
    }
}

/// Draws amounts at bars.
pub(super) trait DrawAmount: Draw {
    /// On a white background, so that no grid line crosses it.
    fn amount(&mut self, at: (f64, f64), text: &str, anchor: Anchor) {
        let width = LABEL.width(text);
        let left = match anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - width / 2.0,
            Anchor::End => at.0 - width,
        };
        let paper = Area {
            left: left - 3.0,
            top: at.1 - 12.0,
            right: left + width + 3.0,
            bottom: at.1 + 4.0,
        };
        self.rect(paper, PAPER);
        self.text(at, text, LABEL, anchor);
    }
}

impl<T: Draw> DrawAmount for T {}

fn draw_footer(scene: &mut Scene, notes: &[&str], room: Area) {
    const NAME: &str = "annals";
    let line = scene.height - 28.0;
    scene.text((room.right, line), NAME, SIGNATURE, Anchor::End);
    let width = room.width() - SIGNATURE.width(NAME) - 24.0;
    let notes = NOTE.cut(&make_visible(&notes.join(" ")), width / FONT_SLACK);
    if !notes.is_empty() {
        scene.text((room.left, line), &notes, NOTE, Anchor::Start);
    }
}

/// Lists the series with their totals on the right; returns the right edge of the area for bars.
fn draw_legend(scene: &mut Scene, chart: &Chart, series: &[Series], room: Area) -> f64 {
    const SWATCH: f64 = 12.0;
    const GAP: f64 = 8.0;
    const HEAD: f64 = 14.0;
    let pitch = ((room.height() - HEAD) / series.len() as f64).min(25.0);
    let amounts: Vec<String> = series
        .iter()
        .map(|series| chart.unit.exact(series.total))
        .collect();
    let names: Vec<String> = series
        .iter()
        .map(|series| make_visible(&series.name))
        .collect();
    let widest = |texts: &[String]| {
        let widths = texts.iter().map(|text| ENTRY.width(text) * FONT_SLACK);
        widths.fold(0.0, f64::max)
    };
    let fixed = SWATCH + GAP + 20.0 + widest(&amounts);
    let most = ((scene.width * 0.28).max(240.0) - fixed).max(40.0);
    let names: Vec<String> = names
        .iter()
        .map(|name| ENTRY.cut(name, most / FONT_SLACK))
        .collect();
    let heading = HEADING.width(&chart.legend) * FONT_SLACK;
    let left = room.right - fixed - widest(&names).max(heading);
    let mut y = room.top + HEAD;
    scene.text(
        (left, room.top + 4.0),
        &chart.legend,
        HEADING,
        Anchor::Start,
    );
    scene.line((left, y), (room.right, y), 1.0, GRID);
    for ((series, name), amount) in series.iter().zip(&names).zip(&amounts) {
        y += pitch;
        let mut entry = Vec::new();
        let swatch = Area {
            left,
            top: y - 14.0,
            right: left + SWATCH,
            bottom: y - 2.0,
        };
        let middle = y - 3.5;
        entry.rect(swatch, series.color);
        entry.text((left + SWATCH + GAP, middle), name, ENTRY, Anchor::Start);
        entry.text((room.right, middle), amount, ENTRY, Anchor::End);
        scene.put(Item::Group {
            title: format!("{}: {amount}", make_visible(&series.name)),
            near: Area {
                left,
                top: y - pitch + 4.0,
                right: room.right,
                bottom: y + 4.0,
            },
            items: entry,
        });
    }
    left - 36.0
}
