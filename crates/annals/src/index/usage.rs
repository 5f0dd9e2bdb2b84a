//! Storage of the charges of logs, in the table of files.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};

use crate::cost::LogCharges;
use crate::store::usage_collector::{LogUsage, UsageCollector};
use crate::store::{Root, RootFile};
use annals_jsonl::{Cursor, FileId};
use annals_layouts::model::SessionId;

use super::charge_codec::Names;
use super::database::{grow_cache, new_number};
use super::files::{self, FileRow, within};
use super::usage_codec::{self, EncodedUsage};

/// Position up to which a log was read.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Length of the file.
    len: u64,
    /// End of the last complete line, and the hash of the bytes before it.
    end: u64,
    guard: [u8; 16],
    /// Whether the rest of the file has no usage.
    whole: bool,
}

/// Stored usage of a log.
struct KnownUsage<'a> {
    id: FileId,
    head: Head,
    usage: EncodedUsage<'a>,
}

impl<'a> KnownUsage<'a> {
    fn new(row: &FileRow<'a>, names: &'a RefCell<Names>) -> Option<Self> {
        let (head, usage): (Head, _) = postcard::take_from_bytes(row.data?).ok()?;
        let mut id = row.state.identity();
        if id.len != head.len {
            // The log has grown since its usage was read.
            id = FileId {
                dev: id.dev,
                ino: id.ino,
                len: head.len,
                ..FileId::default()
            };
        }
        let usage = EncodedUsage::new(usage, names)?;
        Some(KnownUsage { id, head, usage })
    }

    fn with(self, charges: LogCharges) -> LogUsage {
        LogUsage {
            id: self.id,
            cursor: Cursor {
                dev: self.id.dev,
                ino: self.id.ino,
                offset: self.head.end,
                guard: self.head.guard,
            },
            charges,
            no_later_usage: self.head.whole,
        }
    }
}

/// Returns the length of a log when its usage was read.
pub(super) fn stored_len(row: &FileRow<'_>) -> Option<u64> {
    let (head, _): (Head, _) = postcard::take_from_bytes(row.data?).ok()?;
    Some(head.len)
}

/// Loads stored charges of a root into the collector; with `changed_only`, only those of files that
/// changed since. Returns the rows of logs that no longer exist.
pub(super) fn load(
    database: &Connection,
    root: &Root,
    number: usize,
    collector: &mut UsageCollector<'_>,
    changed_only: bool,
) -> rusqlite::Result<Vec<(Vec<u8>, i64)>> {
    let names = RefCell::default();
    let mut gone = Vec::new();
    let logs = collector.root_range(number);
    let mut at = logs.start;
    // Rows and logs are both sorted by path.
    files::each(database, root, "usage", |path, row| {
        let mut order = Ordering::Greater;
        while let Some(file) = collector.file(at).filter(|_| at < logs.end) {
            order = within(root, file).cmp(path);
            if order != Ordering::Less {
                break;
            }
            at += 1;
        }
        let Some(file) = collector.file(at).filter(|_| order == Ordering::Equal) else {
            // The row may be that of another kind of file.
            if row.data.is_some() {
                gone.push((path.to_vec(), row.id));
            }
            return;
        };
        let Some(known) = KnownUsage::new(&row, &names) else {
            return;
        };
        let is_same = known.head.whole && known.id.untouched(&file.id);
        if is_same && changed_only {
            collector.mark_unchanged(at);
        } else if !(is_same && collector.add_stored(at, &known.usage))
            && let Some(charges) = known.usage.log_charges()
        {
            collector.set_stored(at, known.with(charges));
        }
    })?;
    Ok(gone)
}

/// Saves the charges of logs that were listed at a time, in nanoseconds.
pub(super) fn write(
    database: &mut Connection,
    logs: &[(&Root, &RootFile, &LogUsage)],
    listed: i64,
) -> rusqlite::Result<()> {
    if logs.is_empty() {
        return Ok(());
    }
    // A few rows fit in the default cache.
    if logs.len() > 50 {
        grow_cache(database)?;
    }
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // In the order of the table, so that it grows at its end.
    let mut logs: Vec<&(&Root, &RootFile, &LogUsage)> = logs.iter().collect();
    logs.sort_unstable_by_key(|(_, file, _)| file.path.as_os_str());
    for (root, file, usage) in logs {
        let number = new_number(&change, root)?;
        let head = Head {
            len: usage.id.len,
            end: usage.cursor.offset,
            guard: usage.cursor.guard,
            whole: usage.no_later_usage,
        };
        let bytes = usage_codec::encode(&usage.charges);
        let bytes = bytes.and_then(|bytes| {
            let mut data = postcard::to_stdvec(&head).ok()?;
            data.extend(bytes);
            Some(data)
        });
        let path = within(root, file);
        let saved = files::save(&change, number, path, file, &usage.cursor, listed)?;
        if let (Some(bytes), Some(saved)) = (bytes, saved) {
            // The session named by the path, or by the log itself.
            let named = file.artifact.session.as_ref().map(SessionId::as_str);
            let session = named.or(usage.charges.first.as_deref());
            let latest = usage.charges.latest_charge().map(Timestamp::as_millisecond);
            // A log without charges may get some soon, so its mtime is used instead.
            let latest = latest.unwrap_or(usage.id.mtime_ns / 1_000_000);
            saved.set_usage(&change, latest, session, bytes)?;
        }
    }
    change.commit()
}

/// Returns the stored usage of files with charges since some time and of all files of a session,
/// with their paths within the root.
pub(super) fn recent(
    database: &Connection,
    root: &Root,
    since: i64,
    session: Option<&SessionId>,
) -> rusqlite::Result<Vec<(PathBuf, LogUsage)>> {
    let names = RefCell::default();
    let mut found = Vec::new();
    let session = session.map(SessionId::as_str);
    files::recent_usage(database, root, since, session, |path, row| {
        let known = KnownUsage::new(&row, &names);
        let usage = known.and_then(|known| {
            let charges = known.usage.log_charges()?;
            Some(known.with(charges))
        });
        found.extend(usage.map(|usage| (OsStr::from_bytes(path).into(), usage)));
    })?;
    Ok(found)
}
