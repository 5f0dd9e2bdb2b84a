//! A running hub: the store, and a writer and a committer for each lane.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_segments::SourceId;
use bytes::Bytes;
use jiff::Timestamp;
use object_store::path::Path;
use tokio::sync::{Mutex, Notify};

use crate::access::{Access, Owner, token_id};
use crate::ask::{Question, readable};
use crate::audit::{self, Read};
use crate::committer::{Committer, Pass, lane_of};
use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::mirror::Mirror;
use crate::store::{self, Store};

/// Settings of a hub.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of lanes of a new store. A store keeps the number that it was created with.
    pub lanes: u32,
    /// Time between two commits of a lane.
    pub commit_every: Duration,
    /// Directory for files of machines; without one, the hub answers no questions.
    pub cache: Option<PathBuf>,
    /// The time for answers, instead of the system's clock.
    pub now: Option<Timestamp>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lanes: 4,
            commit_every: Duration::from_secs(10),
            cache: None,
            now: None,
        }
    }
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    store: Store,
    access: Access,
    lanes: Vec<Lane>,
    options: Options,
    mirror: Option<Mutex<Mirror>>,
    /// What the hub has done since it started.
    pub counters: Counters,
}

/// What a hub has done since it started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Segments that were acknowledged.
    pub segments: AtomicU64,
    /// Bytes of them, compressed.
    pub bytes: AtomicU64,
    /// Requests that were refused.
    pub refused: AtomicU64,
    /// Segments that were committed.
    pub committed: AtomicU64,
    /// Groups and segments that were moved to `refused/`.
    pub put_aside: AtomicU64,
    /// Segments that wait in the inbox for missing bytes, as of the last pass.
    pub waiting: AtomicU64,
    /// Passes that failed.
    pub failed_passes: AtomicU64,
}

/// A lane: some of the machines.
#[derive(Debug)]
struct Lane {
    ingest: Ingest,
    committer: Mutex<Committer>,
    written: Arc<Notify>,
}

impl Hub {
    /// Checks a store and opens its lanes.
    pub async fn open(store: Store, options: Options) -> Result<Self> {
        store::probe(&store).await?;
        let lanes = lane_count(&store, options.lanes).await?;
        let mut all = Vec::new();
        for lane in 0..lanes {
            let written = Arc::new(Notify::new());
            all.push(Lane {
                ingest: Ingest::start(store.clone(), lane, Arc::clone(&written)),
                committer: Mutex::new(Committer::open(&store, lane).await?),
                written,
            });
        }
        let mirror = match &options.cache {
            Some(dir) => Some(Mutex::new(Mirror::open(&store, dir).await?)),
            None => None,
        };
        Ok(Hub {
            mirror,
            access: Access::new(&store),
            store,
            lanes: all,
            options,
            counters: Counters::default(),
        })
    }

    /// The tokens.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The writer of the inbox for a machine.
    pub fn ingest(&self, source: SourceId) -> Result<&Ingest> {
        self.lane(source).map(|lane| &lane.ingest)
    }

    /// The committer of a machine's lane.
    pub fn committer(&self, source: SourceId) -> Result<&Mutex<Committer>> {
        self.lane(source).map(|lane| &lane.committer)
    }

    fn lane(&self, source: SourceId) -> Result<&Lane> {
        let lane = lane_of(source, self.lanes.len() as u32);
        self.lanes.get(lane as usize).ok_or(Error::Ended)
    }

    /// Commits everything that is in the inboxes.
    pub async fn commit_all(&self) -> Result<Pass> {
        let mut total = Pass::default();
        for lane in &self.lanes {
            let pass = lane.committer.lock().await.run().await?;
            total.added += pass.added;
            total.bytes += pass.bytes;
            total.waiting += pass.waiting;
            total.refused += pass.refused;
            total.conflicts += pass.conflicts;
        }
        self.count(total);
        Ok(total)
    }

    /// Commits until the process ends. `report` gets errors; the next pass tries again.
    pub async fn commit_forever(&self, report: impl Fn(&Error)) {
        loop {
            if let Err(error) = self.commit_all().await {
                self.counters.failed_passes.fetch_add(1, Ordering::Relaxed);
                report(&error);
            }
            // Waits at least the interval, and then until one of the lanes was written to. Objects of
            // other hubs, and segments that wait, are looked at twice a minute.
            tokio::time::sleep(self.options.commit_every).await;
            let written = self
                .lanes
                .iter()
                .map(|lane| Box::pin(lane.written.notified()));
            let quiet = Duration::from_secs(30).saturating_sub(self.options.commit_every);
            let _ = tokio::time::timeout(quiet, first_of(written.collect())).await;
        }
    }

    /// Counts the result of a pass.
    pub fn count(&self, pass: Pass) {
        let counters = &self.counters;
        counters
            .committed
            .fetch_add(pass.added as u64, Ordering::Relaxed);
        let aside = pass.refused + pass.conflicts;
        counters
            .put_aside
            .fetch_add(aside as u64, Ordering::Relaxed);
        counters
            .waiting
            .store(pass.waiting as u64, Ordering::Relaxed);
    }

    /// Answers the question of a reader. What it has of other people's sessions is in the table `audit`
    /// before it is returned.
    pub async fn answer(&self, owner: &Owner, token: &str, question: Question) -> Result<String> {
        let reads = readable(owner, &question);
        let reads = reads.ok_or_else(|| Error::Forbidden("this token reads nothing".into()))?;
        let (Some(mirror), Some(cache)) = (&self.mirror, &self.options.cache) else {
            return Err(Error::Asked(
                "this hub answers no questions: it was started without --cache".into(),
            ));
        };
        let mut mirror = mirror.lock().await;
        mirror.update().await?;
        let roots = mirror.roots(|source| reads.contains(source));
        let (state, now) = (cache.join("state"), self.options.now);
        let asked = question.clone();
        // The files do not change while they are read, because the mirror is locked.
        let answer = tokio::task::spawn_blocking(move || asked.answer(&roots, &state, now)).await;
        drop(mirror);
        let answer = answer.map_err(|_| Error::Ended)??;
        let others = answer
            .read
            .into_iter()
            .filter(|(source, _)| !owner.owns(*source));
        let sessions: Vec<(SourceId, String)> = others.collect();
        if !sessions.is_empty() {
            let read = Read {
                reader: owner.name().to_owned(),
                token: token_id(token),
                verb: question.verb.name().to_owned(),
                query: question.to_string(),
                sessions,
            };
            audit::record(&self.store, &read).await?;
        }
        Ok(answer.json)
    }

    /// Checks that the machine is the one that used its id first. A clone has another host.
    pub async fn check_host(&self, source: SourceId, host: &str) -> Result<()> {
        let path = host_path(source);
        match store::create(&self.store, &path, Bytes::copy_from_slice(host.as_bytes())).await? {
            true => Ok(()),
            false => Err(Error::Refused(
                "another machine uses this token; give each machine its own, or, if this machine replaces the other, run `annals-hub release`".into(),
            )),
        }
    }

    /// Lets another host use a machine's id.
    pub async fn release(&self, source: SourceId) -> Result<()> {
        store::remove(&self.store, &host_path(source)).await
    }
}

fn host_path(source: SourceId) -> Path {
    Path::from(format!("hosts/{source}"))
}

/// Waits for the first of some futures.
async fn first_of<F: Future + Unpin>(mut all: Vec<F>) {
    std::future::poll_fn(|context| {
        let ready = all
            .iter_mut()
            .any(|one| std::pin::Pin::new(one).poll(context).is_ready());
        match ready {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

/// Returns the number of lanes of a store, and sets it in a new one.
async fn lane_count(store: &Store, wanted: u32) -> Result<u32> {
    let path = Path::from("lanes");
    if store::read(store, &path).await?.is_none() {
        store::create(store, &path, Bytes::from(wanted.max(1).to_string())).await?;
    }
    let found = store::read(store, &path).await?.unwrap_or_default();
    let found = std::str::from_utf8(&found)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let valid = found.filter(|lanes| (1..=1024).contains(lanes));
    valid.ok_or_else(|| Error::foreign("lanes", "it is no number from 1 to 1024"))
}
