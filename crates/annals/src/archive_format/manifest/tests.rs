//! Lines of a manifest, in any state.

use std::fs;

use super::*;
use annals_layouts::layout;

const LOG: &str = "projects/-app/8c549c46-16ca-47dd-b731-f4c264becc53.jsonl";

fn member(path: &str, generation: u64) -> Member {
    Member {
        path: path.into(),
        version: None,
        len: 3,
        packed: 20,
        sha256: Some(Checksum::compute(b"{}\n")),
        mode: 0o644,
        owner: None,
        attributes: Vec::new(),
        mtime_ns: 1,
        ctime_ns: 2,
        dev: 3,
        ino: 4,
        packed_ctime_ns: 5,
        archived: Timestamp::UNIX_EPOCH,
        generation,
        sessions: vec![SessionKey {
            id: "8c549c46".to_owned(),
            folder: Some("-app".to_owned()),
        }],
        list_rows: vec!["{\"a\":\"\\\"sum\\\"\"}".to_owned()],
        list_digest: None,
        was: None,
        until: None,
        moved_to: None,
        is_unlisted: false,
    }
}

fn file(member: Member) -> Line {
    Line::File(Box::new(member))
}

/// Writes lines and reads them.
fn read(text: &[u8]) -> Manifest {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(NAME), text).unwrap();
    let layout = layout::by_name("claude-code").unwrap();
    Manifest::read(dir.path(), layout, false, &|_| false).unwrap()
}

fn text(lines: &[Line]) -> String {
    let lines = lines.iter().map(|line| line.encode().unwrap() + "\n");
    lines.collect()
}

#[test]
fn last_line_of_a_path_counts() {
    let dir = ArchivedDir {
        path: "projects".into(),
        mode: 0o755,
        owner: Owner { uid: 1, gid: 2 },
        attributes: Vec::new(),
    };
    let lines = [
        file(member(LOG, 1)),
        Line::Dir(dir.clone()),
        file(member("history.jsonl", 1)),
        file(member(LOG, 2)),
        Line::Gone("history.jsonl".into(), None),
    ];
    let manifest = read(text(&lines).as_bytes());
    assert_eq!(manifest.files.len(), 1);
    assert_eq!(manifest.files[Path::new(LOG)], member(LOG, 2));
    assert_eq!(manifest.dirs[Path::new("projects")], dir);
    assert_eq!((manifest.lines, manifest.damaged), (5, 0));
    assert!(manifest.gone.contains(Path::new("history.jsonl")));
    // Without the lines that no longer count, it is the same.
    let live = manifest.live_lines().unwrap();
    let again = read((live.join("\n") + "\n").as_bytes());
    assert_eq!((again.files, again.dirs), (manifest.files, manifest.dirs));
}

/// A line is its own, or it is damaged: no flipped bit makes another one of it.
#[test]
fn flipped_bit_damages_its_line_only() {
    let lines = [file(member(LOG, 1)), file(member("history.jsonl", 1))];
    let whole = text(&lines);
    let first = whole.find('\n').unwrap();
    for at in 0..whole.len() - 1 {
        for bit in 0..8 {
            let mut damaged = whole.clone().into_bytes();
            damaged[at] ^= 1 << bit;
            let manifest = read(&damaged);
            assert!(manifest.damaged >= 1, "byte {at}, bit {bit}");
            let (own, other) = match at <= first {
                true => (LOG, "history.jsonl"),
                false => ("history.jsonl", LOG),
            };
            assert!(
                !manifest.files.contains_key(Path::new(own)),
                "byte {at}, bit {bit}"
            );
            // A lost line end makes one damaged line of two.
            let is_joined = at == first;
            let found = manifest.files.get(Path::new(other));
            assert!(
                is_joined || found == Some(&member(other, 1)),
                "byte {at}, bit {bit}"
            );
        }
    }
}

#[test]
fn manifest_cut_anywhere_has_the_lines_before_the_cut() {
    let whole = text(&[file(member(LOG, 1)), file(member("history.jsonl", 1))]);
    for cut in 0..=whole.len() {
        let manifest = read(&whole.as_bytes()[..cut]);
        let lines = whole[..cut].matches('\n').count();
        assert_eq!(
            (manifest.files.len(), manifest.damaged),
            (lines, 0),
            "{cut}"
        );
        assert_eq!(
            manifest.is_torn,
            !(cut == 0 || whole[..cut].ends_with('\n')),
            "{cut}"
        );
    }
}

#[test]
fn paths_that_leave_the_root_or_are_foreign_are_not_listed() {
    for path in [
        "../x",
        "/etc/passwd",
        "",
        "projects/../../x",
        "unknown/file",
        "projects/./x",
    ] {
        let mut renamed = member(LOG, 1);
        renamed.was = Some(path.into());
        let lines = [file(member(path, 1)), file(renamed)];
        let manifest = read(text(&lines).as_bytes());
        assert!(manifest.files.is_empty(), "{path}");
        assert_eq!(manifest.damaged, 2, "{path}");
    }
    let outside = Line::Dir(ArchivedDir {
        path: "../x".into(),
        mode: 0o777,
        owner: Owner { uid: 0, gid: 0 },
        attributes: Vec::new(),
    });
    assert!(read(text(&[outside]).as_bytes()).dirs.is_empty());
    let layout = layout::by_name("claude-code").unwrap();
    for (path, is_valid) in [("a.jsonl", true), ("b/a.jsonl", false), ("a.json", false)] {
        assert_eq!(is_place(Path::new(path), layout, true), is_valid, "{path}");
    }
}

/// A killed writer saved the version, and replaced the file or not.
#[test]
fn version_of_the_current_generation_has_its_content() {
    let version = Member {
        version: Some(1),
        until: Some(Timestamp::UNIX_EPOCH),
        ..member(LOG, 1)
    };
    let dir = Path::new("/archive");
    let before = read(text(&[file(member(LOG, 1)), file(version.clone())]).as_bytes());
    let location = |manifest: &Manifest| manifest.files[Path::new(LOG)].location(dir);
    assert_eq!(location(&before), version_path(dir, Path::new(LOG), 1));
    let lines = [file(member(LOG, 1)), file(version), file(member(LOG, 2))];
    let after = read(text(&lines).as_bytes());
    assert_eq!(location(&after), file_path(dir, Path::new(LOG)));
    assert_eq!(after.versions_of(Path::new(LOG)).collect::<Vec<_>>(), [1]);
}

#[test]
fn files_to_skip_are_not_decoded() {
    let dir = tempfile::tempdir().unwrap();
    let mut lines = text(&[file(member(LOG, 1)), file(member("history.jsonl", 1))]);
    lines = lines.replace("\"len\":3", "\"len\":4");
    fs::write(dir.path().join(NAME), lines).unwrap();
    let layout = layout::by_name("claude-code").unwrap();
    let skip = |path: &Path| path == Path::new(LOG);
    let manifest = Manifest::read(dir.path(), layout, false, &skip).unwrap();
    // Only the other line was found to be damaged.
    assert_eq!((manifest.damaged, manifest.lines), (1, 2));
}
