use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use annals_jsonl::RangeReader;
use annals_layouts::model::{Artifact, ArtifactKind};
use std::io::Read as _;

use super::*;

static FORMAT: RowFormat = RowFormat {
    name: "test",
    file: "a.db",
    tables: &["entry"],
    counter_table: "changes",
    counter: "SELECT count FROM changes WHERE session = ?1",
    sessions: "SELECT DISTINCT session FROM entry",
    state: "SELECT ?1, count(*), max(time), max(rowid) FROM entry WHERE session = ?1 HAVING count(*) > 0",
    artifact,
    keys: "SELECT 0, rowid FROM entry WHERE session = ?1 ORDER BY rowid",
    records: &["SELECT json_object('text', CAST(text AS TEXT)) FROM entry WHERE rowid = ?1"],
    optional: None,
    schema: None,
};

fn artifact(name: &str) -> Artifact {
    Artifact {
        session: SessionId::new(name).ok(),
        ..Artifact::new(ArtifactKind::SessionLog)
    }
}

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
                "CREATE TABLE entry (session, time, text); CREATE INDEX of ON entry (session);
                 INSERT INTO entry VALUES ('s', 1, 'one'), ('s', 1, 'two\nlines'), ('t', 1, 'other')",
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

    fn execute(&self, sql: &str) {
        self.connection
            .as_ref()
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    }

    fn add(&self, text: &str) {
        let connection = self.connection.as_ref().unwrap();
        connection
            .execute("INSERT INTO entry VALUES ('s', 1, ?1)", [text])
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

fn open(database: &Path) -> io::Result<RowSource> {
    Connections::default().open(&database.join("s"), &FORMAT)
}

fn read(database: &Path) -> io::Result<String> {
    open(database).map(|source| text(&source))
}

fn states(database: &Path) -> BTreeMap<String, FileId> {
    let sessions = Connections::default().sessions(database, &FORMAT).unwrap();
    sessions.into_iter().collect()
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
    let before = open(&program.path()).unwrap();
    program.add("three");
    let after = open(&program.path()).unwrap();
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
    let memory = open(&program.path()).unwrap();
    let lazy = Connections::default().open_with(&program.path().join("s"), &FORMAT, 100);
    let lazy = lazy.unwrap();
    assert!(matches!(lazy.content, Content::Database(..)));
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
    let linked = tempfile::tempdir().unwrap();
    let link = linked.path().join("a.db");
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
        keys: "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT 0, x FROM n WHERE x > 1 OR x = ?1",
        records: &[],
        ..FORMAT
    };
    let program = Program::new("DELETE");
    let error = Connections::default()
        .open(&program.path().join("s"), &ENDLESS)
        .unwrap_err();
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

#[test]
fn change_of_one_session_changes_only_its_state() {
    let program = Program::new("WAL");
    program.execute("CREATE TABLE changes (session, count); INSERT INTO changes VALUES ('s', 1)");
    let before = states(&program.path());
    assert_eq!(before.keys().collect::<Vec<_>>(), ["s", "t"]);
    let mut last = before.clone();
    for change in [
        "INSERT INTO entry VALUES ('s', 1, 'new')",
        "UPDATE entry SET time = 2 WHERE session = 's'",
        "UPDATE changes SET count = 2",
        "DELETE FROM entry WHERE text = 'new'",
    ] {
        program.execute(change);
        let after = states(&program.path());
        assert!(!after["s"].untouched(&last["s"]), "{change}");
        assert!(after["s"].same_file(&last["s"]), "{change}");
        assert!(after["t"].untouched(&before["t"]), "{change}");
        assert!(!after["t"].same_file(&after["s"]));
        let opened = open(&program.path()).unwrap().id().unwrap();
        assert!(opened.untouched(&after["s"]), "{change}");
        last = after;
    }
    program.execute("DELETE FROM entry WHERE session = 's'");
    assert_eq!(states(&program.path()).len(), 1);
    assert_eq!(
        open(&program.path()).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn connection_is_used_again_and_does_not_stay_in_a_transaction() {
    let program = Program::new("WAL");
    let connections = Connections::default();
    let path = program.path().join("s");
    for text in ["three", "four"] {
        program.add(text);
        let source = connections.open(&path, &FORMAT).unwrap();
        assert!(super::tests::text(&source).contains(text));
        assert_eq!(connections.0.lock().unwrap().len(), 1);
    }
    // A reader in a transaction would keep the WAL from being emptied.
    let busy: i64 = program
        .connection
        .as_ref()
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(busy, 0);
    assert_eq!(
        fs::metadata(sibling(&program.path(), "-wal"))
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn session_whose_key_cannot_be_part_of_a_path_is_found_by_its_artifact() {
    fn artifact(name: &str) -> Artifact {
        super::tests::artifact(&name.replace('/', "-"))
    }
    static FORMAT: RowFormat = RowFormat {
        artifact,
        ..super::tests::FORMAT
    };
    let program = Program::new("DELETE");
    program.execute("INSERT INTO entry VALUES ('a/b', 1, 'here')");
    let source = Connections::default()
        .open(&program.path().join("a-b"), &FORMAT)
        .unwrap();
    assert_eq!(text(&source), "{\"text\":\"here\"}\n");
}
