//! A drawing: rectangles, lines and texts, for [`super::svg`].

use annals::text::{LineBreaks, visible};

use super::font::Weight;

/// A colour as `0xRRGGBB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) u32);

/// The point of a text that is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The font and colour of a text.
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

/// An element of a drawing.
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
    /// A group of items with a tooltip, shown when the pointer is in the area `near`.
    Group {
        title: String,
        near: Area,
        items: Vec<Item>,
    },
}

/// A drawing.
#[derive(Debug)]
pub(super) struct Scene {
    /// The size, in the units of the items.
    pub(super) width: f64,
    pub(super) height: f64,
    /// The scale at which it is shown.
    pub(super) scale: f64,
    pub(super) title: String,
    /// A text description.
    pub(super) description: String,
    pub(super) items: Vec<Item>,
}

/// Collects items; makes hidden characters of texts visible.
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

/// Returns one line with hidden characters made visible.
pub(super) fn make_visible(text: &str) -> String {
    visible(text, LineBreaks::Spaces).into_owned()
}
