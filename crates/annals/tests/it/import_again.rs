//! An import that was cut off is run again: it goes on, and touches nothing that it did not begin.

use std::fs;
use std::path::{Path, PathBuf};

use annals::export::{Archive, Exporter, Format, ImportOptions, Imported, Importer, Options, Part};
use annals::layout::NewSession;
use annals::model::{Draft, SessionId};
use annals::store::{Root, Session, Store};
use tempfile::TempDir;

use crate::support::QUICK;

const IDS: [&str; 3] = [
    "11111111-16ca-47dd-b731-f4c264becc53",
    "22222222-16ca-47dd-b731-f4c264becc53",
    "33333333-16ca-47dd-b731-f4c264becc53",
];

struct Desk {
    dir: TempDir,
    store: Store,
    root: Root,
    exported: Vec<u8>,
}

impl Desk {
    /// Three exported sessions of two messages, and an empty root.
    fn new(layout: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = Root::claude_code(dir.path().join("source"));
        let from = Store::new(vec![source.clone()]);
        let options = Options::new(Format::Jsonl);
        let mut exported = Vec::new();
        let mut exporter = Exporter::begin(options, None, &mut exported).unwrap();
        for id in IDS {
            let new = NewSession::new(SessionId::new(id).unwrap(), "/app");
            let writer = from.create(&source, &new, QUICK).unwrap();
            writer.append(Draft::user("question")).unwrap();
            writer.append(Draft::user("and more")).unwrap();
            drop(writer);
            let session = from.session(id).unwrap();
            exporter.session(&session, &Part::Whole).unwrap();
        }
        exporter.finish().unwrap();
        let root = Root::new(layout, dir.path().join("root")).unwrap();
        let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
        Desk {
            dir,
            store,
            root,
            exported,
        }
    }

    fn import(&self, most: usize) -> annals::Result<Vec<Imported>> {
        let options = ImportOptions {
            write: QUICK,
            ..ImportOptions::default()
        };
        let mut importer = Importer::new(&self.store, self.root.clone(), options)?;
        let archive = Archive::read(self.exported.as_slice(), "test")?;
        importer.check(&archive.check()?)?;
        let mut imported = Vec::new();
        archive.each(|kept| {
            if imported.len() < most {
                imported.push(importer.session(kept)?);
            }
            Ok(())
        })?;
        if most >= IDS.len() {
            importer.finish()?;
        }
        Ok(imported)
    }

    fn journal(&self) -> Option<PathBuf> {
        let mut names = fs::read_dir(self.dir.path().join("state/imports")).ok()?;
        Some(names.next()?.unwrap().path())
    }

    /// Takes the last lines of the journal away: the import was killed before it wrote them.
    fn unsay(&self, lines: usize) {
        let path = self.journal().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let all: Vec<&str> = text.split_inclusive('\n').collect();
        // A line that was being written counts for nothing.
        let kept = all[..all.len() - lines].concat() + "{\"n\":";
        fs::write(path, kept).unwrap();
    }

    fn session(&self, at: usize) -> Session {
        let fitting = self.root.layout.writer().unwrap().fitting(IDS[at]);
        self.store.session(&fitting).unwrap()
    }

    fn messages(&self, at: usize) -> usize {
        let all = self.session(at).messages(&Default::default());
        all.unwrap().len()
    }
}

/// Leaves only the first line of a log that says something, as a kill would.
fn cut(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let last = lines.last().unwrap().len() as u64;
    file.set_len(text.len() as u64 - last).unwrap();
}

#[test]
fn a_second_run_goes_on_where_the_first_was_cut_off() {
    for layout in ["claude-code", "chorus", "clog"] {
        let desk = Desk::new(layout);
        let first = desk.import(2).unwrap();
        cut(&first[1].path);
        assert!(desk.messages(1) < 2, "{layout}");
        desk.unsay(1);
        let whole = fs::read(&first[0].path).unwrap();
        let second = desk.import(3).unwrap();
        let told: Vec<(bool, bool)> = second.iter().map(|it| (it.already, it.replaced)).collect();
        let wanted = [(true, false), (false, true), (false, false)];
        assert_eq!(told, wanted, "{layout}");
        assert_eq!(fs::read(&first[0].path).unwrap(), whole, "{layout}");
        for at in 0..3 {
            assert_eq!(desk.messages(at), 2, "{layout} {at}");
        }
        // What it had begun is not gone for good, and nothing is left to go on with.
        assert_eq!(desk.store.trashed().unwrap().len(), 1, "{layout}");
        assert_eq!(desk.journal(), None, "{layout}");
        let refused = desk.import(3).unwrap_err().to_string();
        assert!(refused.contains("already"), "{refused}");
        assert_eq!(desk.journal(), None, "{layout}");
    }
}

#[test]
fn another_file_in_the_place_of_what_was_begun_is_left_alone() {
    let desk = Desk::new("claude-code");
    let first = desk.import(2).unwrap();
    desk.unsay(1);
    // Another program made one of that name: another file with the same bytes.
    let path = &first[1].path;
    let other = desk.dir.path().join("other");
    fs::copy(path, &other).unwrap();
    fs::rename(&other, path).unwrap();
    let before = fs::read(path).unwrap();
    let refused = desk.import(3).unwrap_err().to_string();
    assert!(refused.contains(IDS[1]), "{refused}");
    assert_eq!(fs::read(path).unwrap(), before);
    assert!(desk.store.trashed().unwrap().is_empty());
}

/// Between the two lines of the journal nothing tells whose a log is but that nothing was said in it.
#[test]
fn a_log_that_was_not_yet_told_of_is_replaced_only_if_it_is_silent() {
    let desk = Desk::new("claude-code");
    let first = desk.import(2).unwrap();
    desk.unsay(2);
    let before = fs::read(&first[1].path).unwrap();
    desk.import(3).unwrap_err();
    assert_eq!(fs::read(&first[1].path).unwrap(), before);
    fs::write(&first[1].path, "").unwrap();
    let second = desk.import(3).unwrap();
    assert!(second[1].replaced);
    assert_eq!(desk.messages(1), 2);
}

/// Who deleted what was imported wants it again.
#[test]
fn what_is_gone_since_is_imported_again() {
    let desk = Desk::new("claude-code");
    let first = desk.import(2).unwrap();
    fs::remove_file(&first[0].path).unwrap();
    let second = desk.import(3).unwrap();
    let told: Vec<bool> = second.iter().map(|it| it.already).collect();
    assert_eq!(told, [false, true, false]);
    assert_eq!(desk.messages(0), 2);
}

#[test]
fn a_journal_of_another_version_is_refused_and_left() {
    let desk = Desk::new("claude-code");
    desk.import(1).unwrap();
    let path = desk.journal().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    fs::write(&path, &newer).unwrap();
    let refused = desk.import(3).unwrap_err().to_string();
    assert!(refused.contains("version 2"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}
