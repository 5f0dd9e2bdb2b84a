//! The layers of the library, as ARCHITECTURE.md lists them, and the modules of all crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The modules of each layer, the lowest first. A module uses only those of the layers below its own.
const LAYERS: &[&[&str]] = &[
    &["sort", "time_input"],
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
    // In a file of a top module, `super` is the crate too.
    let is_top = path.parent().is_some_and(|dir| dir.ends_with("src"));
    let uses = lines.flat_map(|line| {
        let by_super = line.split("super::").skip(1).filter(move |_| is_top);
        line.split("crate::").skip(1).chain(by_super)
    });
    for used in uses {
        let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
        let used = &used[..end.unwrap_or(used.len())];
        // The items of the crate itself are its errors; `cost` is a crate below it.
        if !used.starts_with(char::is_uppercase) && used != "cost" {
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

/// Modules by name, each with the modules of its crate that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Reads the top modules of the crate in `source`.
fn module_uses(source: &Path) -> Uses {
    let mut uses = Uses::new();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !["lib", "main", "tests"].contains(&module.as_str()) {
            let used = uses.entry(module).or_default();
            each_use(&path, &mut |module, _| {
                used.insert(module.to_owned());
            });
        }
    }
    uses
}

/// Returns the modules that are part of a cycle or use one.
fn modules_in_cycles(mut uses: Uses) -> Vec<String> {
    loop {
        let count = uses.len();
        let names: BTreeSet<String> = uses.keys().cloned().collect();
        uses.retain(|own, used| used.iter().any(|it| it != own && names.contains(it)));
        if uses.len() == count {
            return uses.into_keys().collect();
        }
    }
}

#[test]
fn no_crate_has_modules_that_use_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut checked = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            let cycles = modules_in_cycles(module_uses(&source));
            assert_eq!(cycles, Vec::<String>::new(), "{}", source.display());
            checked += 1;
        }
    }
    assert!(checked >= 9, "{checked} crates");
}

#[test]
fn a_cycle_of_modules_is_found() {
    let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "e")];
    let uses = uses.map(|(own, used)| (own.to_owned(), BTreeSet::from([used.to_owned()])));
    assert_eq!(modules_in_cycles(Uses::from(uses)), ["a", "b", "c", "d"]);
}
