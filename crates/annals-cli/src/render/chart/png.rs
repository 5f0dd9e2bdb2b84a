//! Draws a scene as PNG, with the embedded font and the fallback fonts.

use anyhow::{Context as _, Result};
use skrifa::PathSink;
use tiny_skia::{FillRule, Paint, PathBuilder, Pixmap, Rect, Transform};

use super::font::{self, BOX_HEIGHT, Glyph};
use super::scene::{Anchor, Area, Color, Item, Scene, TextStyle};

/// Pixels per unit of the requested size, for high-density screens.
pub(super) const DENSITY: f64 = 2.0;

/// Draws the scene at twice the requested size.
pub(super) fn encode(scene: &Scene) -> Result<Vec<u8>> {
    let scale = scene.scale * DENSITY;
    let pixels = |length: f64| (length * scale).round() as u32;
    let map = Pixmap::new(pixels(scene.width), pixels(scene.height));
    let mut canvas = Canvas {
        map: map.context("cannot draw an image of that size")?,
        scale,
    };
    canvas.map.fill(tiny_skia::Color::WHITE);
    canvas.items(&scene.items);
    compress(&canvas.map, &scene.title)
}

fn compress(map: &Pixmap, title: &str) -> Result<Vec<u8>> {
    // Everything is painted on white, so there is no transparency.
    let rgb: Vec<u8> = map
        .pixels()
        .iter()
        .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()])
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, map.width(), map.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    encoder.add_itxt_chunk("Title".to_owned(), title.to_owned())?;
    let per_metre = (DENSITY * 96.0 / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgb)?;
    writer.finish()?;
    Ok(bytes)
}

struct Canvas {
    map: Pixmap,
    scale: f64,
}

impl Canvas {
    fn items(&mut self, list: &[Item]) {
        for item in list {
            match item {
                Item::Rect { area, fill } => self.rect(area, *fill),
                Item::Line {
                    from,
                    to,
                    width,
                    color,
                } => self.line(*from, *to, *width, *color),
                Item::Text {
                    at,
                    text,
                    face,
                    anchor,
                } => self.text(*at, text, face, *anchor),
                Item::Group { items, .. } => self.items(items),
            }
        }
    }

    fn rect(&mut self, area: &Area, fill: Color) {
        let unit = |length: f64| (length * self.scale) as f32;
        let rect = Rect::from_ltrb(
            unit(area.left),
            unit(area.top),
            unit(area.right),
            unit(area.bottom),
        );
        if let Some(rect) = rect {
            let paint = paint(fill);
            self.map
                .fill_rect(rect, &paint, Transform::identity(), None);
        }
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, color: Color) {
        let unit = |length: f64| (length * self.scale) as f32;
        let mut path = PathBuilder::new();
        path.move_to(unit(from.0), unit(from.1));
        path.line_to(unit(to.0), unit(to.1));
        if let Some(path) = path.finish() {
            let stroke = tiny_skia::Stroke {
                width: unit(width),
                ..tiny_skia::Stroke::default()
            };
            let paint = paint(color);
            self.map
                .stroke_path(&path, &paint, &stroke, Transform::identity(), None);
        }
    }

    fn text(&mut self, at: (f64, f64), text: &str, face: &TextStyle, anchor: Anchor) {
        let width = face.width(text);
        let start = match anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - width / 2.0,
            Anchor::End => at.0 - width,
        };
        let em = face.size * self.scale;
        let mut pen = GlyphPath {
            path: PathBuilder::new(),
            x: start * self.scale,
            y: at.1 * self.scale,
            scale: 0.0,
        };
        for c in text.chars() {
            let (glyph, advance) = face.weight.glyph(c);
            match glyph {
                Glyph::Outline(font, id) => {
                    pen.scale = em / f64::from(font.font().units_per_em());
                    font::draw_glyph(font, id, &mut pen);
                }
                Glyph::Box => pen.push_box(advance * em, BOX_HEIGHT * em, self.scale),
                Glyph::Empty => {}
            }
            pen.x += advance * em;
        }
        if let Some(path) = pen.path.finish() {
            let paint = paint(face.color);
            self.map.fill_path(
                &path,
                &paint,
                FillRule::Winding,
                Transform::identity(),
                None,
            );
        }
    }
}

fn paint(color: Color) -> Paint<'static> {
    let [r, g, b] = color.channels();
    let mut paint = Paint::default();
    paint.set_color_rgba8(r, g, b, 255);
    paint.anti_alias = true;
    paint
}

/// Places outlines, whose y axis points up, at the current text position.
struct GlyphPath {
    path: PathBuilder,
    x: f64,
    y: f64,
    scale: f64,
}

impl GlyphPath {
    fn point(&self, x: f32, y: f32) -> (f32, f32) {
        (
            (self.x + f64::from(x) * self.scale) as f32,
            (self.y - f64::from(y) * self.scale) as f32,
        )
    }

    /// Adds the outline of a box, in pixels.
    fn push_box(&mut self, advance: f64, height: f64, line: f64) {
        let (left, right) = (self.x + advance * 0.08, self.x + advance * 0.92);
        let (top, bottom) = (self.y - height, self.y);
        let mut ring = |left: f64, top: f64, right: f64, bottom: f64, turned: bool| {
            let [l, t, r, b] = [left, top, right, bottom].map(|length| length as f32);
            let corners = match turned {
                false => [(l, t), (r, t), (r, b), (l, b)],
                true => [(l, t), (l, b), (r, b), (r, t)],
            };
            self.path.move_to(corners[0].0, corners[0].1);
            for (x, y) in &corners[1..] {
                self.path.line_to(*x, *y);
            }
            self.path.close();
        };
        ring(left, top, right, bottom, false);
        ring(left + line, top + line, right - line, bottom - line, true);
    }
}

impl PathSink for GlyphPath {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.point(x1, y1), self.point(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (a, b, end) = (self.point(x1, y1), self.point(x2, y2), self.point(x, y));
        self.path.cubic_to(a.0, a.1, b.0, b.1, end.0, end.1);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
