//! The table `audit`: who read sessions of whose machine. A row is committed before the answer is sent.

use std::sync::Arc;

use annals_segments::SourceId;
use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use uuid::Uuid;

use crate::delta::{self, Add, Commit, Definition, Table};
use crate::error::Result;
use crate::segment_table::put;
use crate::store::{self, Store};

/// The table. docs/HUB.md explains its columns.
pub const AUDIT: Definition = Definition {
    path: "tables/audit",
    schema: 1,
    columns: &[
        ("time", "timestamp", false),
        ("reader", "string", false),
        ("token", "string", false),
        ("verb", "string", false),
        ("query", "string", false),
        ("source", "string", false),
        ("session", "string", false),
        ("day", "string", false),
    ],
    partitions: &["day"],
};

const SCHEMA: &str = "message audit {
    required int64 time (TIMESTAMP(MICROS,true));
    required binary reader (STRING);
    required binary token (STRING);
    required binary verb (STRING);
    required binary query (STRING);
    required binary source (STRING);
    required binary session (STRING);
}";

/// A question whose answer has sessions of other people.
#[derive(Clone, Debug)]
pub struct Read {
    /// Name of the reader.
    pub reader: String,
    /// Id of the reader's token.
    pub token: String,
    /// The command that the reader ran.
    pub verb: String,
    /// The parameters, as they were sent.
    pub query: String,
    /// The sessions of others that the answer has content of.
    pub sessions: Vec<(SourceId, String)>,
}

/// Adds the rows of a question to the table.
pub async fn record(store: &Store, read: &Read) -> Result<()> {
    let mut table = Table::open(store, AUDIT).await?;
    let now = jiff::Timestamp::now();
    let day = now.strftime("%Y-%m-%d").to_string();
    let content = write(read, now.as_microsecond())?;
    let file = format!("day={day}/{}.parquet", Uuid::new_v4());
    let size = content.len() as i64;
    store::create(store, &table.path_of(&file), content).await?;
    let add = Add {
        path: file,
        partition_values: [("day".to_owned(), Some(day))].into(),
        size,
        modification_time: delta::now_ms(),
        data_change: true,
        stats: Some(serde_json::json!({"numRecords": read.sessions.len()}).to_string()),
        tags: None,
    };
    // Rows are only added, so a commit of another hub changes nothing about this one.
    while table.commit("WRITE", &[delta::add(&add)]).await? == Commit::Conflict {}
    Ok(())
}

fn write(read: &Read, time: i64) -> Result<Bytes> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder();
    let properties = properties
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties))?;
    let mut rows = writer.next_row_group()?;
    let count = read.sessions.len();
    let same = |text: &str| vec![ByteArray::from(text.as_bytes().to_vec()); count];
    let each = |text: &dyn Fn(&(SourceId, String)) -> String| {
        let texts = read.sessions.iter().map(text);
        texts
            .map(|text| ByteArray::from(text.into_bytes()))
            .collect::<Vec<_>>()
    };
    put::<Int64Type>(&mut rows, &vec![time; count], None)?;
    put::<ByteArrayType>(&mut rows, &same(&read.reader), None)?;
    put::<ByteArrayType>(&mut rows, &same(&read.token), None)?;
    put::<ByteArrayType>(&mut rows, &same(&read.verb), None)?;
    put::<ByteArrayType>(&mut rows, &same(&read.query), None)?;
    put::<ByteArrayType>(&mut rows, &each(&|(source, _)| source.to_string()), None)?;
    put::<ByteArrayType>(&mut rows, &each(&|(_, session)| session.clone()), None)?;
    rows.close()?;
    writer.close()?;
    Ok(Bytes::from(out))
}
