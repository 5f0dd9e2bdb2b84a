//! Turns objects of the inbox into rows of the table `segments`, once.
//!
//! A lane has the machines whose id maps to it. One pass reads the objects of the lane's inbox, takes
//! the segments that continue their files, adds them as one data file, and commits it together with the
//! transaction (lane, n). Every process can do a pass at any time, and can be killed at any point:
//!
//! - Before the commit: nothing has happened but a data file that no table names.
//! - After the commit: the segments are known, so the next pass drops them and removes the objects.
//! - Two at once: both prepare transaction n; one creates the log entry. The other finds n taken,
//!   discards what it prepared, and begins again with what is known now.
//!
//! Segments beyond a gap stay in the inbox. A group that cannot be read is moved to `refused/`.

use std::collections::BTreeMap;

use annals_segments::protocol::KnownEnd;
use annals_segments::{End, Ends, Order, Segment, SegmentReader, SegmentWriter, SourceId, group};
use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::delta::{self, Add, Commit, Table};
use crate::error::{Error, Result};
use crate::segment_table::{self, SEGMENTS};
use crate::store::{self, Store};

/// Bytes of inbox objects that one commit takes.
const COMMIT_BYTES: usize = 64 << 20;

/// The committer of one lane.
#[derive(Debug)]
pub struct Committer {
    store: Store,
    lane: u32,
    table: Table,
    ends: Ends,
    /// The last transaction whose segments are in `ends`.
    applied: i64,
}

/// Counts of one pass of the committer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Segments that were added.
    pub added: usize,
    /// Bytes of their blobs.
    pub bytes: u64,
    /// Segments that wait for missing bytes.
    pub waiting: usize,
    /// Groups that were moved to `refused/`.
    pub refused: usize,
    /// Segments that contradict what is known, moved to `refused/` too.
    pub conflicts: usize,
}

/// The directory of a lane's inbox.
pub fn inbox(lane: u32) -> String {
    format!("inbox/lane={lane}")
}

/// The application id of a lane's transactions.
pub fn transaction_id(lane: u32) -> String {
    format!("lane-{lane}")
}

impl Committer {
    /// Opens the table, and reads how far the files of the lane are known.
    pub async fn open(store: &Store, lane: u32) -> Result<Self> {
        let mut committer = Committer {
            store: store.clone(),
            lane,
            table: Table::open(store, SEGMENTS).await?,
            ends: Ends::default(),
            applied: -1,
        };
        committer.refresh().await?;
        Ok(committer)
    }

    /// The ends of the files of the lane.
    pub fn ends(&self) -> &Ends {
        &self.ends
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Reads what was committed since.
    pub async fn refresh(&mut self) -> Result<()> {
        self.table.refresh().await?;
        let own = self.table.files();
        let own = own.filter_map(|add| Some((commit_of(add, self.lane)?, add)));
        let mut own: Vec<(i64, &Add)> = own.collect();
        own.sort_unstable_by_key(|(n, _)| *n);
        let committed = self.table.transaction(&transaction_id(self.lane));
        if own.len() as i64 != committed + 1 {
            let why = "another writer added or removed data files";
            return Err(Error::foreign(SEGMENTS.path, why));
        }
        let applied = self.applied;
        for (n, add) in own.into_iter().filter(|(n, _)| *n > applied) {
            for known in ends_of(add)? {
                let end = End {
                    end: known.file.end,
                    last_start: known.file.last_start,
                    last_digest: known.file.last_digest,
                    kind: known.file.kind,
                };
                let (file, generation) = (known.file.file, known.file.generation);
                self.ends.restore(known.source, file, generation, end);
            }
            self.applied = n;
        }
        Ok(())
    }

    /// Commits what is in the inbox, until nothing more can be committed.
    pub async fn run(&mut self) -> Result<Pass> {
        let mut total = Pass::default();
        loop {
            // Another committer was first: what was prepared is void.
            let Some(pass) = self.pass().await? else {
                continue;
            };
            total.added += pass.added;
            total.bytes += pass.bytes;
            total.refused += pass.refused;
            total.conflicts += pass.conflicts;
            total.waiting = pass.waiting;
            if pass.added == 0 {
                return Ok(total);
            }
        }
    }

    /// Commits some objects of the inbox. Returns `None` if another committer was first.
    async fn pass(&mut self) -> Result<Option<Pass>> {
        self.refresh().await?;
        let mut pass = Pass::default();
        let mut objects: Vec<(Path, Vec<Segment>)> = Vec::new();
        let (mut read, mut waiting) = (0, 0);
        let mut ends = self.ends.clone();
        let mut taken = Vec::new();
        for path in store::list(&self.store, &inbox(self.lane)).await? {
            // Another committer may have removed it.
            let Some(content) = store::read(&self.store, &path).await? else {
                continue;
            };
            let Ok(segments) = group::read(&content) else {
                self.put_aside(&path, content).await?;
                pass.refused += 1;
                continue;
            };
            read += content.len();
            waiting += segments.len();
            objects.push((path, segments));
            if read >= COMMIT_BYTES {
                read = 0;
                take(&objects, &mut ends, &mut taken)?;
                if !taken.is_empty() {
                    break;
                }
            }
        }
        take(&objects, &mut ends, &mut taken)?;
        pass.added = taken.len();
        pass.bytes = taken
            .iter()
            .map(|segment| segment.blob().len() as u64)
            .sum();
        if !taken.is_empty() && !self.commit(&taken).await? {
            return Ok(None);
        }
        for (path, segments) in objects {
            let mut done = true;
            let mut conflicts = Vec::new();
            for segment in &segments {
                match self.ends.order(&segment.header) {
                    Order::Known => waiting -= 1,
                    // No line of it ends where the known part ends.
                    Order::Overlap(_) | Order::Conflict => conflicts.push(segment),
                    Order::Next | Order::Gap => done = false,
                }
            }
            if !done {
                continue;
            }
            if !conflicts.is_empty() {
                pass.conflicts += conflicts.len();
                self.put_aside(&path, group::write(conflicts).into())
                    .await?;
            }
            store::remove(&self.store, &path).await?;
        }
        pass.waiting = waiting - pass.conflicts;
        Ok(Some(pass))
    }

    /// Adds segments as one data file. Returns `false` if another committer committed this transaction.
    async fn commit(&mut self, taken: &[Segment]) -> Result<bool> {
        let app = transaction_id(self.lane);
        let n = self.table.transaction(&app) + 1;
        let now = jiff::Timestamp::now();
        let day = now.strftime("%Y-%m-%d").to_string();
        let (content, stats) = segment_table::write(taken, n, now.as_microsecond())?;
        let lane = self.lane.to_string();
        let file = format!("day={day}/lane={lane}/{n:012}-{}.parquet", Uuid::new_v4());
        let path = self.table.path_of(&file);
        let size = content.len() as i64;
        store::create(&self.store, &path, content).await?;
        let add = Add {
            path: file,
            partition_values: [("day", day), ("lane", lane)]
                .map(|(name, value)| (name.to_owned(), Some(value)))
                .into(),
            size,
            modification_time: delta::now_ms(),
            data_change: true,
            stats: Some(stats),
            tags: Some(tags(self.lane, n, taken)?),
        };
        let actions = [delta::transaction(&app, n), delta::add(&add)];
        loop {
            match self.table.commit("WRITE", &actions).await? {
                Commit::Done => break,
                Commit::Conflict if self.table.transaction(&app) < n => {}
                Commit::Conflict => {
                    store::remove(&self.store, &path).await?;
                    return Ok(false);
                }
            }
        }
        for segment in taken {
            self.ends.take(&segment.header);
        }
        self.applied = n;
        Ok(true)
    }

    /// Moves an object out of the inbox, unread.
    async fn put_aside(&self, path: &Path, content: Bytes) -> Result<()> {
        let name = path.filename().unwrap_or_default();
        let aside = Path::from(format!("refused/lane={}/{name}", self.lane));
        store::create(&self.store, &aside, content).await?;
        store::remove(&self.store, path).await
    }
}

/// Takes the segments that continue their files, as often as one of them does.
fn take(objects: &[(Path, Vec<Segment>)], ends: &mut Ends, taken: &mut Vec<Segment>) -> Result<()> {
    loop {
        let before = taken.len();
        for segment in objects.iter().flat_map(|(_, segments)| segments) {
            let part = match ends.order(&segment.header) {
                Order::Next => segment.clone(),
                Order::Overlap(end) => {
                    let mut reader = SegmentReader::new()?;
                    match reader.cut(&mut SegmentWriter::new()?, segment, end) {
                        Ok(part) => part,
                        Err(_) => continue,
                    }
                }
                Order::Known | Order::Gap | Order::Conflict => continue,
            };
            ends.take(&part.header);
            taken.push(part);
        }
        if taken.len() == before {
            return Ok(());
        }
    }
}

/// Tag with the ends of the files of which a data file has segments. So the log says how far files are
/// known, and no data file is read for it.
const ENDS_TAG: &str = "annals.ends";

/// The end of a file of a machine.
#[derive(Debug, Serialize, Deserialize)]
struct EndOf {
    source: SourceId,
    #[serde(flatten)]
    file: KnownEnd,
}

/// Returns the tags of the data file of transaction `n`.
fn tags(lane: u32, n: i64, taken: &[Segment]) -> Result<BTreeMap<String, String>> {
    // Later segments of a file replace earlier ones.
    let mut ends = BTreeMap::new();
    for header in taken.iter().map(|segment| &segment.header) {
        let end = EndOf {
            source: header.source,
            file: KnownEnd {
                file: header.file(),
                generation: header.generation,
                kind: header.kind,
                end: header.end,
                last_start: header.start,
                last_digest: header.digest,
            },
        };
        ends.insert((header.source, header.file(), header.generation), end);
    }
    let ends: Vec<EndOf> = ends.into_values().collect();
    let ends = serde_json::to_string(&ends);
    let ends = ends.map_err(|error| Error::foreign(SEGMENTS.path, error.to_string()))?;
    Ok([(lane_tag(lane), n.to_string()), (ENDS_TAG.to_owned(), ends)].into())
}

fn lane_tag(lane: u32) -> String {
    format!("annals.lane-{lane}")
}

/// Returns the ends of the files of which a data file has segments.
fn ends_of(add: &Add) -> Result<Vec<EndOf>> {
    let ends = add.tags.as_ref().and_then(|tags| tags.get(ENDS_TAG));
    let ends = ends.and_then(|ends| serde_json::from_str(ends).ok());
    let foreign = || format!("another writer added the file {}", add.path);
    ends.ok_or_else(|| Error::foreign(SEGMENTS.path, foreign()))
}

/// Returns the transaction of a lane that added a file.
fn commit_of(add: &Add, lane: u32) -> Option<i64> {
    let tags = add.tags.as_ref()?;
    tags.get(&lane_tag(lane))?.parse().ok()
}

/// Returns the lane of a machine.
pub fn lane_of(source: SourceId, lanes: u32) -> u32 {
    let [a, b, c, d, ..] = *source.as_bytes();
    u32::from_le_bytes([a, b, c, d]) % lanes.max(1)
}
