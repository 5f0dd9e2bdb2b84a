//! System fonts, for characters in charts that the embedded font lacks.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use skrifa::font::Blob;
use skrifa::{Font, ScalerFont};

use crate::render::chart::{can_draw, in_font_units};

/// Maximum number of system fonts in a chart.
const MAX_FONTS: usize = 3;
/// Maximum number of bytes read in the search for one font.
const MAX_BYTES: u64 = 512 << 20;

/// Returns fonts for the missing characters, as far as there are any.
pub(super) fn find_fonts(missing: &BTreeSet<char>) -> Vec<ScalerFont> {
    let files = font_files(&font_dirs(|name| std::env::var_os(name)));
    let mut missing = missing.clone();
    let mut found = Vec::new();
    while !missing.is_empty() && found.len() < MAX_FONTS {
        let Some((font, has)) = best_font(&files, &missing) else {
            break;
        };
        missing.retain(|c| !has.contains(c));
        found.push(font);
    }
    found
}

/// Returns the font directories of common systems.
fn font_dirs(var: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let under = |name: &str, path: &str| var(name).map(|base| Path::new(&base).join(path));
    let shared = var("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    let shared = std::env::split_paths(&shared).map(|folder| folder.join("fonts"));
    let own = [
        under("XDG_DATA_HOME", "fonts"),
        under("HOME", ".local/share/fonts"),
        under("HOME", ".fonts"),
        under("HOME", "Library/Fonts"),
        under("LOCALAPPDATA", "Microsoft/Windows/Fonts"),
        under("WINDIR", "Fonts"),
    ];
    let others = ["/Library/Fonts", "/System/Library/Fonts", "/system/fonts"];
    let others = others.into_iter().map(PathBuf::from);
    own.into_iter()
        .flatten()
        .chain(shared)
        .chain(others)
        .collect()
}

/// Returns all font files in folders, those most suitable for a chart first.
fn font_files(folders: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    // Fonts are not nested deeper, and links may form cycles.
    const MAX_DEPTH: usize = 6;
    let mut files = Vec::new();
    let mut pending: Vec<(PathBuf, usize)> = folders.iter().cloned().map(|one| (one, 0)).collect();
    while let Some((folder, depth)) = pending.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(about) = std::fs::metadata(&path) else {
                continue;
            };
            if about.is_dir() && depth < MAX_DEPTH {
                pending.push((path, depth + 1));
            } else if about.is_file() && is_font(&path) {
                files.push((path, about.len()));
            }
        }
    }
    files.sort_by_cached_key(|(path, _)| rank(path));
    files.dedup();
    files
}

fn is_font(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let ending = ending.as_deref().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ["ttf", "ttc", "otf", "otc"].contains(&ending))
}

/// Sort key: fonts like the embedded one (upright, sans-serif, regular weight) come first.
fn rank(path: &Path) -> (usize, PathBuf) {
    const UNSUITABLE: [&str; 14] = [
        "bold",
        "black",
        "heavy",
        "light",
        "thin",
        "italic",
        "oblique",
        "mono",
        "serif",
        "ming",
        "song",
        "condensed",
        "narrow",
        "emoji",
    ];
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let odd = UNSUITABLE
        .iter()
        .filter(|word| name.contains(**word))
        .count();
    // A bitmap font that has every character: the last resort.
    let coarse = usize::from(name.contains("unifont")) * 100;
    (odd + coarse, path.to_owned())
}

/// Returns the font with the most of the missing characters, and those; the first of equals.
fn best_font(
    files: &[(PathBuf, u64)],
    missing: &BTreeSet<char>,
) -> Option<(ScalerFont, BTreeSet<char>)> {
    let mut best: Option<(ScalerFont, BTreeSet<char>)> = None;
    let mut read = 0;
    for (path, len) in files {
        read += len;
        if read > MAX_BYTES {
            break;
        }
        let Ok(bytes) = std::fs::read(path) else {
            continue;
        };
        let bytes = Blob::from(bytes);
        // Only a collection has more than one font.
        let faces = (0..32).map_while(|at| Font::new(bytes.clone(), at));
        for face in faces.map(in_font_units) {
            let has = missing.iter().copied();
            let has: BTreeSet<char> = has.filter(|c| can_draw(&face, *c)).collect();
            let known = best.as_ref().map_or(0, |(_, has)| has.len());
            if has.len() > known {
                best = Some((face, has));
            }
        }
        if best
            .as_ref()
            .is_some_and(|(_, has)| has.len() == missing.len())
        {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_font_is_chosen_by_the_characters_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let fonts = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/font");
        let nested = dir.path().join("a/b");
        std::fs::create_dir_all(&nested).unwrap();
        std::fs::write(dir.path().join("Broken.ttf"), b"no font").unwrap();
        std::fs::write(dir.path().join("notes.txt"), b"no font").unwrap();
        let put =
            |name: &str, from: &str| std::fs::copy(fonts.join(from), nested.join(name)).unwrap();
        put("Some-Bold.ttf", "Inter-Regular.ttf");
        put("Some.TTF", "Inter-Regular.ttf");
        let files = font_files(&[dir.path().to_owned()]);
        let names: Vec<_> = files
            .iter()
            .map(|(path, _)| path.file_name().unwrap())
            .collect();
        assert_eq!(names, ["Broken.ttf", "Some.TTF", "Some-Bold.ttf"]);
        let (font, has) = best_font(&files, &"Ж語ب".chars().collect()).unwrap();
        assert_eq!(has, BTreeSet::from(['Ж']));
        assert!(can_draw(&font, 'Ж') && !can_draw(&font, '語') && !can_draw(&font, ' '));
        assert!(best_font(&files, &"語".chars().collect()).is_none());
    }
}
