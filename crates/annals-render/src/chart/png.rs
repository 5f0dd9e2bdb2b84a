//! Draws the SVG of a chart as PNG, with the embedded font and system fonts.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, FaceInfo, ID, Language, Source, Stretch, Style, Weight};
use resvg::usvg::{FontResolver, Options, Tree};
use skrifa::raw::TableProvider as _;
use skrifa::{FontRef, MetadataProvider as _};

use super::font::{EMBEDDED, FAMILY};
use super::scene::Scene;
use super::svg;

/// Pixels per unit of the requested size, for high-density screens.
pub(super) const DENSITY: f64 = 2.0;

/// The fonts of a drawing.
pub(super) struct Fonts {
    database: Arc<Database>,
    /// Characters that no font has.
    pub(super) missing: BTreeSet<char>,
}

impl Fonts {
    /// Returns the embedded font. If it lacks characters, `load` adds the fonts of the system.
    pub(super) fn new(mut missing: BTreeSet<char>, load: impl FnOnce(&mut Database)) -> Self {
        let mut database = Database::new();
        if !missing.is_empty() {
            load(&mut database);
            let ids: Vec<ID> = database.faces().map(|face| face.id).collect();
            for id in ids {
                let chars = database.with_face_data(id, |bytes, at| outlined(bytes, at, &missing));
                match chars.flatten() {
                    Some(chars) => missing.retain(|c| !chars.contains(c)),
                    None => database.remove_face(id),
                }
            }
        }
        for (bytes, weight) in EMBEDDED.into_iter().zip([Weight::NORMAL, Weight::SEMIBOLD]) {
            database.push_face_info(embedded(bytes, weight));
        }
        Fonts {
            database: Arc::new(database),
            missing,
        }
    }
}

/// Describes a face of the embedded font, whose files contain no names.
fn embedded(bytes: &'static [u8], weight: Weight) -> FaceInfo {
    FaceInfo {
        id: ID::dummy(),
        source: Source::Binary(Arc::new(bytes)),
        index: 0,
        families: vec![(FAMILY.to_owned(), Language::English_UnitedStates)],
        post_script_name: FAMILY.to_owned(),
        style: Style::Normal,
        weight,
        stretch: Stretch::Normal,
        monospaced: false,
    }
}

/// Returns which of the characters a font has; `None` for a font without outlines, such as one of
/// colour bitmaps.
fn outlined(bytes: &[u8], at: u32, wanted: &BTreeSet<char>) -> Option<BTreeSet<char>> {
    let font = FontRef::from_index(bytes, at).ok()?;
    if font.glyf().is_err() && font.cff().is_err() && font.cff2().is_err() {
        return None;
    }
    let charmap = font.charmap();
    let has = |c: &char| charmap.map(*c).is_some();
    Some(wanted.iter().copied().filter(has).collect())
}

/// Returns the face for a character that the faces in `tried` lack, the most similar to the embedded
/// one: upright, of regular weight, proportional.
fn fallback(c: char, tried: &[ID], database: &mut Arc<Database>) -> Option<ID> {
    let wanted = BTreeSet::from([c]);
    let has_char = |face: &&FaceInfo| {
        let chars = database.with_face_data(face.id, |bytes, at| outlined(bytes, at, &wanted));
        chars.flatten().is_some_and(|chars| !chars.is_empty())
    };
    let difference = |face: &&FaceInfo| {
        (
            face.style != Style::Normal,
            face.weight.0.abs_diff(Weight::NORMAL.0),
            face.monospaced,
            face.stretch != Stretch::Normal,
        )
    };
    let faces = database.faces().filter(|face| !tried.contains(&face.id));
    let face = faces.filter(has_char).min_by_key(difference)?;
    Some(face.id)
}

/// Draws the scene at [`DENSITY`] times the requested size.
pub(super) fn encode(scene: &Scene, fonts: &Fonts) -> Result<Vec<u8>> {
    let options = Options {
        fontdb: Arc::clone(&fonts.database),
        font_resolver: FontResolver {
            select_font: FontResolver::default_font_selector(),
            select_fallback: Box::new(fallback),
        },
        ..Options::default()
    };
    let tree = Tree::from_str(&svg::encode(scene), &options)?;
    let pixels = |length: f64| (length * scene.scale * DENSITY).round() as u32;
    let map = Pixmap::new(pixels(scene.width), pixels(scene.height));
    let mut map = map.context("cannot draw an image of that size")?;
    map.fill(Color::WHITE);
    let density = Transform::from_scale(DENSITY as f32, DENSITY as f32);
    resvg::render(&tree, density, &mut map.as_mut());
    compress(&map, &scene.title)
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
