//! A drawing without a format: what [`super::svg`] and [`super::png`] both draw.

use annals::text::{LineBreaks, visible};

use super::font::Weight;

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) u32);

impl Color {
    pub(super) fn channels(self) -> [u8; 3] {
        let [_, r, g, b] = self.0.to_be_bytes();
        [r, g, b]
    }
}

/// Which point of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub(super) size: f64,
    pub(super) weight: Weight,
    pub(super) color: Color,
}

impl TextStyle {
    pub(super) fn width(&self, text: &str) -> f64 {
        self.weight.width(text, self.size)
    }

    pub(super) fn cut(&self, text: &str, max: f64) -> String {
        self.weight.cut(text, self.size, max)
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// What is drawn.
#[derive(Debug)]
pub(super) enum Item {
    Rect {
        area: Area,
        fill: Color,
    },
    Line {
        from: (f64, f64),
        to: (f64, f64),
        width: f64,
        color: Color,
    },
    Text {
        at: (f64, f64),
        text: String,
        face: TextStyle,
        anchor: Anchor,
    },
    /// Things that belong together, and what is said when one points at them or near.
    Group {
        title: String,
        near: Area,
        items: Vec<Item>,
    },
}

/// A drawing.
#[derive(Debug)]
pub(super) struct Scene {
    /// The size in the units of the items.
    pub(super) width: f64,
    pub(super) height: f64,
    /// How much larger it is shown.
    pub(super) scale: f64,
    pub(super) title: String,
    /// What it shows, in words.
    pub(super) description: String,
    pub(super) items: Vec<Item>,
}

/// Collects items; text goes in made visible.
pub(super) trait Draw {
    fn put(&mut self, item: Item);

    fn rect(&mut self, area: Area, fill: Color) {
        self.put(Item::Rect { area, fill });
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, color: Color) {
        self.put(Item::Line {
            from,
            to,
            width,
            color,
        });
    }

    fn text(&mut self, at: (f64, f64), text: &str, face: TextStyle, anchor: Anchor) {
        let text = make_visible(text);
        self.put(Item::Text {
            at,
            text,
            face,
            anchor,
        });
    }
}

impl Draw for Vec<Item> {
    fn put(&mut self, item: Item) {
        self.push(item);
    }
}

impl Draw for Scene {
    fn put(&mut self, item: Item) {
        self.items.push(item);
    }
}

/// One line in which nothing is hidden.
pub(super) fn make_visible(text: &str) -> String {
    visible(text, LineBreaks::Spaces).into_owned()
}
