//! Convert to another layout and back: the same bytes, and in between the same conversation.

use super::*;
use annals::convert::{self, Options, Selection};

fn convert(from: &Root, to: Root) -> convert::Report {
    let plan = convert::plan(Selection::Root(from.clone()), to).unwrap();
    let mut options = Options::default();
    options.zone = jiff::tz::TimeZone::UTC;
    let report = convert::run(&plan, &options, &|_, _| ()).unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert!(report.there.is_empty(), "{:?}", report.there);
    report
}

/// Links are not carried, and say so.
fn without_links(picture: std::collections::BTreeMap<std::path::PathBuf, String>) -> Vec<String> {
    let files = picture.into_iter();
    let files = files.filter(|(_, what)| !what.starts_with("->"));
    files
        .map(|(path, what)| format!("{} {what}", path.display()))
        .collect()
}

fn writable() -> Vec<&'static dyn Layout> {
    let layouts = LAYOUTS.iter().copied();
    layouts.filter(|layout| layout.writer().is_some()).collect()
}

#[test]
fn every_root_comes_back_byte_for_byte() {
    let mut compared = 0;
    for case in cases() {
        for layout in writable() {
            if layout.name() == case.layout.name() {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let there = Root::new(layout.name(), dir.path().join("there")).unwrap();
            let back = Root::new(case.layout.name(), dir.path().join("back")).unwrap();
            let before = picture(&case.path);
            convert(&case.root(), there.clone());
            assert_eq!(picture(&case.path), before, "the source is only read");
            convert(&there, back.clone());
            assert_eq!(
                without_links(picture(&back.path)),
                without_links(before),
                "{} → {} → back",
                case.name,
                layout.name()
            );
            compared += 1;
        }
    }
    assert!(LAYOUTS.len() < 2 || compared > 100, "{compared}");
}
