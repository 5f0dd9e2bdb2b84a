//! Writes a scene as SVG: no script, no style sheet, no external resources.

use std::fmt::{self, Write as _};

use super::font::{FAMILY, Weight};
use super::scene::{Anchor, Color, Item, Scene};

/// Writes the scene as a standalone document.
pub(super) fn encode(scene: &Scene) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    _ = document(scene, &mut out);
    out
}

fn document(scene: &Scene, out: &mut String) -> fmt::Result {
    let (width, height) = (scene.width, scene.height);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" \
         aria-labelledby=\"title desc\" font-family=\"{FAMILY}, system-ui, sans-serif\">",
        Number(width * scene.scale),
        Number(height * scene.scale),
        Number(width),
        Number(height)
    )?;
    writeln!(out, "<title id=\"title\">{}</title>", Escaped(&scene.title))?;
    writeln!(
        out,
        "<desc id=\"desc\">{}</desc>",
        Escaped(&scene.description)
    )?;
    writeln!(
        out,
        "<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>",
        Number(width),
        Number(height)
    )?;
    items(&scene.items, out)?;
    writeln!(out, "</svg>")
}

fn items(list: &[Item], out: &mut String) -> fmt::Result {
    for item in list {
        match item {
            Item::Rect { area, fill } => writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
                Number(area.left),
                Number(area.top),
                Number(area.width()),
                Number(area.height()),
                Hex(*fill)
            )?,
            Item::Line {
                from,
                to,
                width,
                color,
            } => writeln!(
                out,
                "<path d=\"M{} {}L{} {}\" stroke=\"{}\" stroke-width=\"{}\"/>",
                Number(from.0),
                Number(from.1),
                Number(to.0),
                Number(to.1),
                Hex(*color),
                Number(*width)
            )?,
            Item::Text {
                at,
                text,
                face,
                anchor,
            } => {
                write!(
                    out,
                    "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"",
                    Number(at.0),
                    Number(at.1),
                    Number(face.size),
                    Hex(face.color)
                )?;
                if face.weight == Weight::Strong {
                    write!(out, " font-weight=\"600\"")?;
                }
                match anchor {
                    Anchor::Start => {}
                    Anchor::Middle => write!(out, " text-anchor=\"middle\"")?,
                    Anchor::End => write!(out, " text-anchor=\"end\"")?,
                }
                writeln!(out, ">{}</text>", Escaped(text))?;
            }
            Item::Group {
                title,
                near,
                items: inner,
            } => {
                writeln!(out, "<g><title>{}</title>", Escaped(title))?;
                // Small bars are hard to point at, so their whole slot shows the tooltip.
                writeln!(
                    out,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" pointer-events=\"all\"/>",
                    Number(near.left),
                    Number(near.top),
                    Number(near.width()),
                    Number(near.height())
                )?;
                items(inner, out)?;
                writeln!(out, "</g>")?;
            }
        }
    }
    Ok(())
}

/// A coordinate, rounded to hundredths.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text == "-0" { "0" } else { text })
    }
}

struct Hex(Color);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:06x}", self.0.0)
    }
}

/// Text in XML, which forbids some characters even escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' => f.write_char(c)?,
                '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => f.write_char('\u{FFFD}')?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
