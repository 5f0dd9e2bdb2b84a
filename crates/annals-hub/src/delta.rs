//! The log of a Delta Lake table: reading it, and committing to it.
//!
//! `_delta_log/N.json` has the actions of version N, one JSON object per line. A commit creates the
//! next one, if it does not exist. The hub writes tables that need reader version 1 and writer
//! version 2 and nothing else, and refuses tables that need more.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::{self, Store};

/// Highest protocol versions that the hub reads and writes.
const READER: u32 = 1;
const WRITER: u32 = 2;

/// A data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Path within the table.
    pub path: String,
    /// Values of the partition columns.
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Length in bytes.
    pub size: i64,
    /// Time of writing, in milliseconds since 1970.
    pub modification_time: i64,
    /// Whether rows were added, as opposed to rewritten.
    pub data_change: bool,
    /// Statistics: a JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// The hub's own metadata of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
}

/// Properties of a new table.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its directory in the store.
    pub path: &'static str,
    /// Version of the columns.
    pub schema: u32,
    /// Columns: name, Delta type, and whether it may be null.
    pub columns: &'static [(&'static str, &'static str, bool)],
    /// Columns that are in the path of a file and not in the file.
    pub partitions: &'static [&'static str],
}

/// Key of the version of the columns in the table's configuration.
const SCHEMA_KEY: &str = "annals.schema";

/// A table as of a version of its log.
#[derive(Debug)]
pub struct Table {
    definition: Definition,
    store: Store,
    version: Option<u64>,
    files: BTreeMap<String, Add>,
    transactions: HashMap<String, i64>,
}

/// Result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The version was created.
    Done,
    /// Another writer created it first. The table has been read again.
    Conflict,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    protocol: Option<Protocol>,
    meta_data: Option<MetaData>,
    add: Option<Add>,
    remove: Option<Remove>,
    txn: Option<Transaction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Protocol {
    min_reader_version: u32,
    min_writer_version: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaData {
    #[serde(default)]
    configuration: HashMap<String, String>,
    schema_string: String,
}

#[derive(Deserialize)]
struct Remove {
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transaction {
    app_id: String,
    version: i64,
}

impl Table {
    /// Opens a table, and creates it if it does not exist.
    pub async fn open(store: &Store, definition: Definition) -> Result<Self> {
        let mut table = Table {
            definition,
            store: store.clone(),
            version: None,
            files: BTreeMap::new(),
            transactions: HashMap::new(),
        };
        table.refresh().await?;
        if table.version.is_none() {
            // If another hub creates it first, its version is read.
            table.commit("CREATE TABLE", &table.creation()).await?;
        }
        Ok(table)
    }

    /// The version that was read last.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// The data files.
    pub fn files(&self) -> impl Iterator<Item = &Add> {
        self.files.values()
    }

    /// The last transaction of an application; -1 before the first.
    pub fn transaction(&self, app: &str) -> i64 {
        self.transactions.get(app).copied().unwrap_or(-1)
    }

    /// The path of a data file in the store.
    pub fn path_of(&self, file: &str) -> Path {
        Path::from(format!("{}/{file}", self.definition.path))
    }

    /// Reads the versions that were committed since.
    pub async fn refresh(&mut self) -> Result<()> {
        loop {
            let next = self.version.map_or(0, |version| version + 1);
            match store::read(&self.store, &self.log_path(next)).await? {
                None => return Ok(()),
                Some(actions) => self.apply(next, &actions)?,
            }
        }
    }

    /// Creates the next version with these actions.
    pub async fn commit(&mut self, operation: &str, actions: &[Value]) -> Result<Commit> {
        let next = self.version.map_or(0, |version| version + 1);
        let info = json!({"commitInfo": {
            "timestamp": now_ms(),
            "operation": operation,
            "operationParameters": {},
            "engineInfo": concat!("annals-hub/", env!("CARGO_PKG_VERSION")),
            // Makes the content unique, so that a repeated write recognises its own object.
            "annalsCommit": Uuid::new_v4().to_string(),
        }});
        let mut text = String::new();
        for action in std::iter::once(&info).chain(actions) {
            text.push_str(&action.to_string());
            text.push('\n');
        }
        let text = Bytes::from(text);
        let created = store::create(&self.store, &self.log_path(next), text.clone()).await?;
        if created {
            self.apply(next, &text)?;
            return Ok(Commit::Done);
        }
        self.refresh().await?;
        Ok(Commit::Conflict)
    }

    fn log_path(&self, version: u64) -> Path {
        Path::from(format!(
            "{}/_delta_log/{version:020}.json",
            self.definition.path
        ))
    }

    fn apply(&mut self, version: u64, actions: &[u8]) -> Result<()> {
        let table = self.definition.path;
        for line in actions
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line: Line = serde_json::from_slice(line).map_err(|error| {
                Error::foreign(table, format!("version {version} of its log: {error}"))
            })?;
            if let Some(needed) = line.protocol
                && (needed.min_reader_version > READER || needed.min_writer_version > WRITER)
            {
                let why =
                    "another writer enabled a feature of Delta Lake that this hub does not support";
                return Err(Error::foreign(table, why));
            }
            if let Some(metadata) = line.meta_data {
                self.check(&metadata)?;
            }
            if let Some(add) = line.add {
                self.files.insert(add.path.clone(), add);
            }
            if let Some(remove) = line.remove {
                self.files.remove(&remove.path);
            }
            if let Some(done) = line.txn {
                self.transactions.insert(done.app_id, done.version);
            }
        }
        self.version = Some(version);
        Ok(())
    }

    /// Checks that the table has the columns that this hub writes.
    fn check(&self, metadata: &MetaData) -> Result<()> {
        let table = self.definition.path;
        let known = self.definition.schema;
        let found = metadata.configuration.get(SCHEMA_KEY);
        match found.map(|found| found.parse::<u32>()) {
            Some(Ok(found)) if found == known => {}
            Some(Ok(found)) if found > known => {
                let why = format!(
                    "the table has schema {found}; this hub knows {known}: use a newer hub"
                );
                return Err(Error::foreign(table, why));
            }
            _ => return Err(Error::foreign(table, "another program created the table")),
        }
        match metadata.schema_string == self.schema_string() {
            true => Ok(()),
            false => Err(Error::foreign(table, "another writer changed the columns")),
        }
    }

    fn schema_string(&self) -> String {
        let fields = self.definition.columns.iter();
        let fields = fields.map(|(name, kind, nullable)| {
            json!({"name": name, "type": kind, "nullable": nullable, "metadata": {}})
        });
        json!({"type": "struct", "fields": fields.collect::<Vec<_>>()}).to_string()
    }

    fn creation(&self) -> Vec<Value> {
        let schema = self.definition.schema.to_string();
        vec![
            json!({"protocol": {"minReaderVersion": READER, "minWriterVersion": WRITER}}),
            json!({"metaData": {
                "id": Uuid::new_v4().to_string(),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": self.schema_string(),
                "partitionColumns": self.definition.partitions,
                "configuration": {SCHEMA_KEY: schema},
                "createdTime": now_ms(),
            }}),
        ]
    }
}

/// Returns the action that adds a data file.
pub fn add(file: &Add) -> Value {
    json!({"add": file})
}

/// Returns the action that sets the last transaction of an application.
pub fn transaction(app: &str, version: i64) -> Value {
    json!({"txn": {"appId": app, "version": version, "lastUpdated": now_ms()}})
}

/// Returns the time in milliseconds since 1970.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
