use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use annals_jsonl::RangeReader;
use std::io::Read as _;

use super::*;

static FORMAT: RowFormat = RowFormat {
    name: "test",
    tables: &["entry"],
    keys: "SELECT 0, rowid FROM entry ORDER BY rowid",
    records: &["SELECT json_object('text', CAST(text AS TEXT)) FROM entry WHERE rowid = ?1"],
};

/// A database of its program, with the connection that wrote it.
struct Program {
    dir: tempfile::TempDir,
    connection: Option<Connection>,
}

impl Program {
    fn new(journal: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("a.db")).unwrap();
        connection
            .pragma_update(None, "journal_mode", journal)
            .unwrap();
        connection
            .execute_batch(
                "CREATE TABLE entry (text); INSERT INTO entry VALUES ('one'), ('two\nlines')",
            )
            .unwrap();
        Program {
            dir,
            connection: Some(connection),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("a.db")
    }

    fn add(&self, text: &str) {
        let connection = self.connection.as_ref().unwrap();
        connection
            .execute("INSERT INTO entry VALUES (?1)", [text])
            .unwrap();
    }

    /// Copies the files with these endings to a new directory, as after a crash.
    fn copy(&self, endings: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for ending in endings {
            let from = sibling(&self.path(), ending);
            fs::copy(from, dir.path().join(format!("a.db{ending}"))).unwrap();
        }
        dir
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

fn text(source: &RowSource) -> String {
    let mut bytes = Vec::new();
    RangeReader::from_offset(source, 0)
        .read_to_end(&mut bytes)
        .unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn read(path: &Path) -> io::Result<String> {
    RowSource::open(path, &FORMAT).map(|source| text(&source))
}

const TWO: &str = "{\"text\":\"one\"}\n{\"text\":\"two\\nlines\"}\n";

#[test]
fn every_journal_state_is_read_and_no_file_is_created_or_changed() {
    let mut program = Program::new("WAL");
    let wal_and_no_index = program.copy(&["", "-wal"]);
    let rollback = Program::new("DELETE");
    assert!(program.dir.path().join("a.db-shm").exists());
    // The program runs.
    let before = files(program.dir.path());
    assert_eq!(read(&program.path()).unwrap(), TWO);
    let after = files(program.dir.path());
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    for (path, bytes) in after.iter().filter(|(path, _)| !path.ends_with("a.db-shm")) {
        assert_eq!(before.get(path), Some(bytes), "{}", path.display());
    }
    // The program has ended and removed the WAL.
    program.connection = None;
    for dir in [
        program.dir.path(),
        wal_and_no_index.path(),
        rollback.dir.path(),
    ] {
        let before = files(dir);
        assert_eq!(read(&dir.join("a.db")).unwrap(), TWO, "{before:?}");
        assert_eq!(files(dir), before);
    }
}

#[test]
fn records_in_the_wal_are_read_and_change_the_identity() {
    let program = Program::new("WAL");
    let before = RowSource::open(&program.path(), &FORMAT).unwrap();
    program.add("three");
    assert!(!before.is_current());
    let after = RowSource::open(&program.path(), &FORMAT).unwrap();
    assert_eq!(text(&after), format!("{TWO}{{\"text\":\"three\"}}\n"));
    assert_ne!(before.id().unwrap(), after.id().unwrap());
    // The first one stays as it was.
    assert_eq!(text(&before), TWO);
}

#[test]
fn records_read_on_demand_equal_those_in_memory_and_do_not_lock_out_the_program() {
    let program = Program::new("WAL");
    for number in 0..200 {
        program.add(&"x".repeat(number));
    }
    let memory = RowSource::open(&program.path(), &FORMAT).unwrap();
    let lazy = RowSource::open_with(&program.path(), &FORMAT, 100).unwrap();
    assert!(matches!(lazy.content, Content::Database(_)));
    program.add("written while a reader is open");
    assert_eq!(text(&lazy), text(&memory));
    let whole = text(&memory);
    for offset in [0, 1, 13, 14, 15, 200, whole.len() - 1, whole.len()] {
        let mut found = vec![0; 50];
        let read = lazy.fill_at(&mut found, offset as u64).unwrap();
        let wanted = &whole.as_bytes()[offset..whole.len().min(offset + 50)];
        assert_eq!(&found[..read], wanted, "{offset}");
    }
}

#[test]
fn database_without_the_table_or_with_a_view_in_its_place_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    for schema in [
        "CREATE TABLE other (text)",
        "CREATE VIEW entry AS WITH RECURSIVE n(text) AS (SELECT 1 UNION ALL SELECT text + 1 FROM n) SELECT text FROM n",
    ] {
        let _ = fs::remove_file(&path);
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(schema).unwrap();
        drop(connection);
        let error = read(&path).unwrap_err().to_string();
        assert_eq!(error, "it has no table `entry`");
    }
    fs::write(&path, "no database").unwrap();
    assert!(read(&path).is_err());
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(
        read(&link)
            .unwrap_err()
            .to_string()
            .contains("symbolic link")
    );
}

#[test]
fn query_that_never_ends_is_interrupted() {
    static ENDLESS: RowFormat = RowFormat {
        name: "endless",
        tables: &[],
        keys: "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT 0, x FROM n WHERE x > 1",
        records: &[],
    };
    let program = Program::new("DELETE");
    let error = RowSource::open(&program.path(), &ENDLESS).unwrap_err();
    assert!(error.to_string().contains("more steps"), "{error}");
}

#[test]
fn damaged_or_truncated_database_is_an_error_or_gives_records() {
    let program = Program::new("DELETE");
    for number in 0..60 {
        program.add(&"some text ".repeat(number));
    }
    let whole = fs::read(program.path()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    for len in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..len]).unwrap();
        let _ = read(&path);
    }
    let mut state: u64 = 1;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..4 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << (state >> 60 & 7);
        }
        fs::write(&path, &bytes).unwrap();
        let _ = read(&path);
    }
}
