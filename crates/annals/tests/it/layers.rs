//! The layers of the library, as ARCHITECTURE.md lists them.

use std::fs;
use std::path::Path;

/// The modules of each layer, the lowest first. A module uses only those of the layers below its own.
const LAYERS: &[&[&str]] = &[
    &["sort"],
    &["cost", "time_input"],
    &["error"],
    &["read_failures", "undo"],
    &["root"],
    &["archive_format"],
    &["store"],
    &["archive", "resume"],
    &["search", "repair", "convert", "export", "retain", "watch"],
    &["index", "check"],
    &["view"],
    &["service"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Calls `found` with each module that a file of the library uses.
fn each_use(path: &Path, found: &mut dyn FnMut(&str, &Path)) {
    if path.is_dir() {
        let mut files = fs::read_dir(path).unwrap();
        return files
            .by_ref()
            .for_each(|file| each_use(&file.unwrap().path(), found));
    }
    if path.file_name().is_some_and(|name| name == "tests.rs") {
        return;
    }
    let source = fs::read_to_string(path).unwrap();
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    for used in lines.flat_map(|line| line.split("crate::").skip(1)) {
        let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
        let used = &used[..end.unwrap_or(used.len())];
        // The items of the crate itself are its errors.
        if !used.starts_with(char::is_uppercase) {
            found(used, path);
        }
    }
}

#[test]
fn modules_use_only_modules_of_lower_layers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if module == "lib" {
            continue;
        }
        let own = layer(&module).unwrap_or_else(|| panic!("{module} is in no layer"));
        each_use(&path, &mut |used, file| {
            let is_lower = layer(used).is_some_and(|used| used < own);
            if used != module && !is_lower {
                wrong.push(format!("{} uses {used}", file.display()));
            }
        });
    }
    assert_eq!(wrong, Vec::<String>::new());
}
