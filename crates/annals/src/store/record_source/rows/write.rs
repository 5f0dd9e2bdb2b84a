//! Writes rows of a database that belongs to another program, in one transaction.
//!
//! Nothing but rows of known tables is written, and only if the schema is the one that the layout knows:
//! no schema change, no checkpoint, no trigger. The transaction begins with the write lock, so the rows
//! are those that the change was planned for, or nothing is written. The program waits for the lock no
//! longer than the statements take.

use std::fs::File;
use std::io;
use std::path::Path;

use annals_jsonl::{Durability, FileId};
use annals_layouts::model::{RowEdit, RowFormat, SqlValue};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};

use super::{BUSY_TIMEOUT, Connections, Database, MAX_VALUE, current_id, split, sqlite_error, uri};

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// All rows are written.
    Written,
    /// The session has changed since the change was planned; nothing is written.
    Changed,
    /// A statement found no row, or the database is not one that annals writes; nothing is written.
    Refused(String),
}

/// Writes rows of the session at a path. `expected` is its state when the change was planned; `None`
/// for a session that does not exist.
pub(crate) fn write(
    path: &Path,
    format: &'static RowFormat,
    expected: Option<FileId>,
    rows: &[RowEdit],
    durability: Durability,
) -> io::Result<RowOutcome> {
    let (file, within) = split(path, format);
    // A connection that writes creates files beside the database, which would stay if it is refused.
    let (fault, ..) = Connections::default().read(&file, format, |database| {
        database.tables_fault().map_err(sqlite_error)
    })?;
    if let Some(fault) = fault {
        return Ok(RowOutcome::Refused(fault));
    }
    let mut database = open(&file, format, durability)?;
    match database.connection.execute_batch("BEGIN IMMEDIATE") {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            let seconds = BUSY_TIMEOUT.as_secs();
            let text = format!("another program has locked it for {seconds} s; try again");
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        begun => begun.map_err(sqlite_error)?,
    }
    database.find_optional_tables().map_err(sqlite_error)?;
    // SQLite created the log by now. It ignores it if the name cannot be synced, so that a power loss could
    // undo the transaction.
    let named = match durability {
        Durability::Disk => sync_directory(&file),
        Durability::Os => Ok(()),
    };
    let result = named.and_then(|()| database.write_rows(&within, expected, rows));
    let end = match &result {
        Ok(RowOutcome::Written) => "COMMIT",
        _ => "ROLLBACK",
    };
    let ended = database.connection.execute_batch(end).map_err(sqlite_error);
    let outcome = result?;
    ended.map(|()| outcome)
}

/// Syncs the directory of a file, which makes the names in it durable.
fn sync_directory(file: &Path) -> io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| {
        let text = format!("{} cannot be synced: {error}", dir.display());
        io::Error::new(error.kind(), text)
    })
}

fn open(path: &Path, format: &'static RowFormat, durability: Durability) -> io::Result<Database> {
    let id = current_id(path)?;
    let uri = format!("{}?mode=rw", uri(path)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let synchronous = match durability {
        Durability::Disk => "FULL",
        Durability::Os => "NORMAL",
    };
    let locked = super::locks::Locked::new();
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&uri, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(connection)
    };
    Ok(Database {
        connection: open().map_err(sqlite_error)?,
        _locked: Some(locked),
        format,
        unlocked: false,
        id,
        has_counter: false,
        has_optional: false,
    })
}

impl Database {
    fn write_rows(
        &self,
        within: &str,
        expected: Option<FileId>,
        rows: &[RowEdit],
    ) -> io::Result<RowOutcome> {
        if let Some(fault) = self.schema_fault().map_err(sqlite_error)? {
            return Ok(RowOutcome::Refused(fault));
        }
        // The last part of the path is the key: other keys are not written.
        let key = within.rsplit('/').next().unwrap_or_default();
        let now = self.state(key, &self.id).map_err(sqlite_error)?;
        let now = now.map(|(_, id)| id);
        // The rest of the identity is that of the file, which other sessions change.
        let state = |id: FileId| (id.len, id.mtime_ns);
        if now.map(state) != expected.map(state) {
            return Ok(RowOutcome::Changed);
        }
        for row in rows {
            let mut statement = self
                .connection
                .prepare_cached(row.sql)
                .map_err(sqlite_error)?;
            let values = rusqlite::params_from_iter(row.values.iter().map(Parameter));
            let changed = statement.execute(values).map_err(sqlite_error)?;
            if let Some(refusal) = row.refusal.filter(|_| changed != 1) {
                return Ok(RowOutcome::Refused(refusal.to_owned()));
            }
        }
        Ok(RowOutcome::Written)
    }

    /// Returns why the database is not one that annals writes.
    fn schema_fault(&self) -> rusqlite::Result<Option<String>> {
        // A rollback journal that a crash leaves makes the database unreadable until a program writes to
        // it, and its removal, which commits, is not synced.
        let journal = "PRAGMA journal_mode";
        let journal: String = self.connection.query_row(journal, [], |row| row.get(0))?;
        if journal != "wal" {
            return Ok(Some(format!(
                "its journal mode is `{journal}`, and its program uses a write-ahead log"
            )));
        }
        self.tables_fault()
    }

    /// Returns why its tables are not those of a database that annals writes.
    fn tables_fault(&self) -> rusqlite::Result<Option<String>> {
        let Some(schema) = self.format.schema else {
            return Ok(Some(
                "annals does not write databases of its program".to_owned(),
            ));
        };
        let count = |sql: &str| {
            self.connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
        };
        if count("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'")? > 0 {
            return Ok(Some(
                "it has triggers, which its program does not make".to_owned(),
            ));
        }
        for (table, known) in schema.tables {
            if !self.has_table(table)? {
                return Ok(Some(format!("it has no table `{table}`")));
            }
            let sql = "SELECT name, \"notnull\" AND dflt_value IS NULL AND NOT pk FROM pragma_table_info(?1)";
            let mut columns = self.connection.prepare_cached(sql)?;
            let columns = columns.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let columns: Vec<(String, bool)> = columns.collect::<rusqlite::Result<_>>()?;
            let lost = known
                .iter()
                .find(|known| !columns.iter().any(|(name, _)| name == *known));
            if let Some(lost) = lost {
                return Ok(Some(format!(
                    "its table `{table}` has no column `{lost}`: another version of its program made it"
                )));
            }
            let new = columns
                .iter()
                .find(|(name, is_needed)| *is_needed && !known.contains(&name.as_str()));
            if let Some((new, _)) = new {
                return Ok(Some(format!(
                    "its table `{table}` has the new column `{new}`: a newer version of its program made it"
                )));
            }
        }
        let newest: Option<String> =
            self.connection
                .query_row(schema.newest_migration, [], |row| row.get(0))?;
        Ok(match newest {
            Some(newest) if newest.as_str() > schema.known_migration => Some(format!(
                "a newer version of its program made it: annals does not know its migration `{newest}`"
            )),
            Some(_) => None,
            None => Some("its migrations are not recorded".to_owned()),
        })
    }
}

/// A value of a statement.
struct Parameter<'a>(&'a SqlValue);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            SqlValue::Text(text) => text.to_sql(),
            SqlValue::Integer(number) => Ok(ToSqlOutput::Owned(Value::Integer(*number))),
            SqlValue::Null => Ok(ToSqlOutput::Owned(Value::Null)),
        }
    }
}
