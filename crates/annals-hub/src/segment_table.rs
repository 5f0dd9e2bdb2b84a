//! The table `segments`: every byte that machines sent, one row per segment, as Parquet files.
//!
//! A file holds what one commit of a lane added. The order of rows is that in which they were taken:
//! the rows of a generation are in the order of its bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_segments::{Digest, FileKey, Header, Kind, Segment, SourceId};
use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::delta::Definition;
use crate::error::{Error, Result};

/// The table. docs/HUB.md explains its columns.
pub const SEGMENTS: Definition = Definition {
    path: "tables/segments",
    schema: 1,
    columns: &[
        ("source", "string", false),
        ("layout", "string", false),
        ("root", "string", false),
        ("path", "string", false),
        ("file", "string", false),
        ("gen", "integer", false),
        ("kind", "string", false),
        ("document_len", "long", true),
        ("document_digest", "string", true),
        ("start", "long", false),
        ("end", "long", false),
        ("len", "integer", false),
        ("digest", "string", false),
        ("mtime_ns", "long", false),
        ("received", "timestamp", false),
        ("commit", "long", false),
        ("blob", "binary", false),
        ("day", "string", false),
        ("lane", "integer", false),
    ],
    partitions: &["day", "lane"],
};

/// The Parquet schema: the columns without the partitions, in the same order.
const SCHEMA: &str = "message segments {
    required binary source (STRING);
    required binary layout (STRING);
    required binary root (STRING);
    required binary path (STRING);
    required binary file (STRING);
    required int32 gen;
    required binary kind (STRING);
    optional int64 document_len;
    optional binary document_digest (STRING);
    required int64 start;
    required int64 end;
    required int32 len;
    required binary digest (STRING);
    required int64 mtime_ns;
    required int64 received (TIMESTAMP(MICROS,true));
    required int64 commit;
    required binary blob;
}";

/// Number of rows that are written or read as one row group: at most 64 MiB of usual segments.
const GROUP_ROWS: usize = 1024;

/// A row without its blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// The machine.
    pub source: SourceId,
    /// Name of the layout of the root.
    pub layout: String,
    /// Absolute path of the root on its machine.
    pub root: String,
    /// Path of the file within the root.
    pub path: String,
    /// Number of the generation.
    pub generation: u32,
    /// Log or document.
    pub kind: Kind,
    /// Offset of the first byte in the file.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
    /// Length of the content.
    pub len: u32,
    /// Digest of the content.
    pub digest: Digest,
    /// Modification time of the file, in nanoseconds since 1970.
    pub mtime: i64,
}

impl SegmentRow {
    /// The key of the file.
    pub fn file(&self) -> FileKey {
        FileKey::new(&self.layout, &self.root, &self.path)
    }
}

/// Returns a Parquet file with segments, and its statistics for the log of the table.
pub fn write(segments: &[Segment], commit: i64, received_us: i64) -> Result<(Bytes, String)> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let blob = ColumnPath::from("blob");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        // It is compressed already, and its statistics would be blobs.
        .set_column_compression(blob.clone(), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(blob.clone(), false)
        .set_column_statistics_enabled(blob, EnabledStatistics::None)
        .build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties))?;
    for group in segments.chunks(GROUP_ROWS) {
        let mut rows = writer.next_row_group()?;
        write_group(&mut rows, group, commit, received_us)?;
        rows.close()?;
    }
    writer.close()?;
    Ok((Bytes::from(out), statistics(segments, commit)))
}

fn write_group(
    rows: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    group: &[Segment],
    commit: i64,
    received_us: i64,
) -> Result<()> {
    let text = |value: &dyn Fn(&Header) -> String| {
        let values = group.iter().map(|segment| value(&segment.header));
        values
            .map(|text| ByteArray::from(text.into_bytes()))
            .collect::<Vec<_>>()
    };
    let long = |value: &dyn Fn(&Header) -> i64| {
        group
            .iter()
            .map(|segment| value(&segment.header))
            .collect::<Vec<_>>()
    };
    let integer = |value: &dyn Fn(&Header) -> u32| {
        let values = group
            .iter()
            .map(|segment| value(&segment.header).cast_signed());
        values.collect::<Vec<_>>()
    };
    let documents: Vec<Option<(u64, Digest)>> = group
        .iter()
        .map(|segment| document(segment.header.kind))
        .collect();
    let levels: Vec<i16> = documents
        .iter()
        .map(|one| i16::from(one.is_some()))
        .collect();
    let known = || documents.iter().flatten();
    let lens: Vec<i64> = known().map(|(len, _)| len.cast_signed()).collect();
    let digests: Vec<ByteArray> = known()
        .map(|(_, digest)| ByteArray::from(digest.to_string().into_bytes()))
        .collect();
    let blobs: Vec<ByteArray> = group
        .iter()
        .map(|segment| ByteArray::from(segment.blob().to_vec()))
        .collect();

    put::<ByteArrayType>(rows, &text(&|header| header.source.to_string()), None)?;
    put::<ByteArrayType>(rows, &text(&|header| header.layout.clone()), None)?;
    put::<ByteArrayType>(rows, &text(&|header| header.root.clone()), None)?;
    put::<ByteArrayType>(rows, &text(&|header| header.path.clone()), None)?;
    put::<ByteArrayType>(rows, &text(&|header| header.file().to_string()), None)?;
    put::<Int32Type>(rows, &integer(&|header| header.generation), None)?;
    put::<ByteArrayType>(
        rows,
        &text(&|header| kind_name(header.kind).to_owned()),
        None,
    )?;
    put::<Int64Type>(rows, &lens, Some(&levels))?;
    put::<ByteArrayType>(rows, &digests, Some(&levels))?;
    put::<Int64Type>(rows, &long(&|header| header.start.cast_signed()), None)?;
    put::<Int64Type>(rows, &long(&|header| header.end.cast_signed()), None)?;
    put::<Int32Type>(rows, &integer(&|header| header.len), None)?;
    put::<ByteArrayType>(rows, &text(&|header| header.digest.to_string()), None)?;
    put::<Int64Type>(rows, &long(&|header| header.mtime), None)?;
    put::<Int64Type>(rows, &vec![received_us; group.len()], None)?;
    put::<Int64Type>(rows, &vec![commit; group.len()], None)?;
    put::<ByteArrayType>(rows, &blobs, None)
}

/// Writes the next column.
pub(crate) fn put<T: DataType>(
    rows: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let column = rows.next_column()?;
    let mut column = column.ok_or_else(|| Error::foreign(SEGMENTS.path, "a column is missing"))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    Ok(column.close()?)
}

fn document(kind: Kind) -> Option<(u64, Digest)> {
    match kind {
        Kind::Lines => None,
        Kind::Document { len, digest } => Some((len, digest)),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Lines => "lines",
        Kind::Document { .. } => "document",
    }
}

/// Returns the statistics that let readers skip the file.
fn statistics(segments: &[Segment], commit: i64) -> String {
    let sources = || {
        segments
            .iter()
            .map(|segment| segment.header.source.to_string())
    };
    let bounds = |source: Option<String>| {
        let mut bounds = BTreeMap::from([("commit", serde_json::json!(commit))]);
        bounds.extend(source.map(|source| ("source", source.into())));
        bounds
    };
    let statistics = serde_json::json!({
        "numRecords": segments.len(),
        "minValues": bounds(sources().min()),
        "maxValues": bounds(sources().max()),
        "nullCount": {},
    });
    statistics.to_string()
}

/// Reads the rows of a Parquet file; with `with_blobs`, their blobs too.
pub fn read(file: Bytes, with_blobs: bool) -> Result<Vec<(SegmentRow, Bytes)>> {
    let reader = SerializedFileReader::new(file)?;
    let mut all = Vec::new();
    for group in 0..reader.num_row_groups() {
        let rows = reader.get_row_group(group)?;
        read_group(rows.as_ref(), with_blobs, &mut all)?;
    }
    Ok(all)
}

fn read_group(
    rows: &dyn RowGroupReader,
    with_blobs: bool,
    all: &mut Vec<(SegmentRow, Bytes)>,
) -> Result<()> {
    let count = usize::try_from(rows.metadata().num_rows()).unwrap_or_default();
    let mut sources = parsed::<SourceId>(rows, "source")?.into_iter();
    let mut layouts = texts(rows, "layout")?.into_iter();
    let mut roots = texts(rows, "root")?.into_iter();
    let mut paths = texts(rows, "path")?.into_iter();
    let mut generations = values::<Int32Type>(rows, "gen")?.0.into_iter();
    let mut kinds = texts(rows, "kind")?.into_iter();
    let mut document_lens = values::<Int64Type>(rows, "document_len")?.0.into_iter();
    let mut document_digests = parsed::<Digest>(rows, "document_digest")?.into_iter();
    let mut starts = values::<Int64Type>(rows, "start")?.0.into_iter();
    let mut ends = values::<Int64Type>(rows, "end")?.0.into_iter();
    let mut lens = values::<Int32Type>(rows, "len")?.0.into_iter();
    let mut digests = parsed::<Digest>(rows, "digest")?.into_iter();
    let mut mtimes = values::<Int64Type>(rows, "mtime_ns")?.0.into_iter();
    let mut blobs = match with_blobs {
        true => values::<ByteArrayType>(rows, "blob")?.0,
        false => Vec::new(),
    }
    .into_iter();
    let mut row = || {
        let kind = match kinds.next()?.as_str() {
            "lines" => Kind::Lines,
            "document" => Kind::Document {
                len: document_lens.next()?.cast_unsigned(),
                digest: document_digests.next()?,
            },
            _ => return None,
        };
        let row = SegmentRow {
            source: sources.next()?,
            layout: layouts.next()?,
            root: roots.next()?,
            path: paths.next()?,
            generation: generations.next()?.cast_unsigned(),
            kind,
            start: starts.next()?.cast_unsigned(),
            end: ends.next()?.cast_unsigned(),
            len: lens.next()?.cast_unsigned(),
            digest: digests.next()?,
            mtime: mtimes.next()?,
        };
        let blob = match with_blobs {
            true => Bytes::copy_from_slice(blobs.next()?.data()),
            false => Bytes::new(),
        };
        Some((row, blob))
    };
    for _ in 0..count {
        let damaged = || Error::foreign(SEGMENTS.path, "a column has too few values");
        all.push(row().ok_or_else(damaged)?);
    }
    Ok(())
}

/// Reads a column. Null values are left out.
fn values<T: DataType>(rows: &dyn RowGroupReader, name: &str) -> Result<(Vec<T::T>, Vec<i16>)> {
    let columns = rows.metadata().columns().iter();
    let index = columns
        .enumerate()
        .find(|(_, column)| column.column_path().string() == name);
    let (index, column) = index
        .ok_or_else(|| Error::foreign(SEGMENTS.path, format!("a file has no column {name}")))?;
    if column.column_type() != T::get_physical_type() {
        return Err(Error::foreign(
            SEGMENTS.path,
            format!("column {name} has another type"),
        ));
    }
    let count = usize::try_from(rows.metadata().num_rows()).unwrap_or_default();
    let mut reader = get_typed_column_reader::<T>(rows.get_column_reader(index)?);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < count {
        let nullable = column.column_descr().max_def_level() > 0;
        let into = nullable.then_some(&mut levels);
        let (records, _, _) = reader.read_records(count - read, into, None, &mut values)?;
        if records == 0 {
            return Err(Error::foreign(
                SEGMENTS.path,
                format!("column {name} is too short"),
            ));
        }
        read += records;
    }
    Ok((values, levels))
}

fn texts(rows: &dyn RowGroupReader, name: &str) -> Result<Vec<String>> {
    let values = values::<ByteArrayType>(rows, name)?.0;
    let damaged = || Error::foreign(SEGMENTS.path, format!("column {name} is no text"));
    let text = |value: ByteArray| match std::str::from_utf8(value.data()) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(damaged()),
    };
    values.into_iter().map(text).collect()
}

fn parsed<T: std::str::FromStr<Err = annals_segments::Error>>(
    rows: &dyn RowGroupReader,
    name: &str,
) -> Result<Vec<T>> {
    let texts = texts(rows, name)?.into_iter();
    texts.map(|text| Ok(text.parse()?)).collect()
}
