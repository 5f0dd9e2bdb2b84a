//! Segments of requests become objects of the inbox. The object acknowledges them.
//!
//! One writer per lane groups what arrives while it writes, so that many machines share a PUT.

use std::time::Duration;

use annals_segments::{Segment, group};
use bytes::Bytes;
use object_store::path::Path;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::committer::inbox;
use crate::error::{Error, Result};
use crate::store::{self, Store};

/// Bytes of segments in one object, unless one request has more.
const GROUP_BYTES: usize = 16 << 20;

/// Time that a group waits for more segments.
const GROUP_TIME: Duration = Duration::from_millis(50);

/// Number of requests that may wait for the writer.
const WAITING: usize = 256;

/// Segments of one request, and the receiver of the acknowledgement.
type Waiting = (Vec<Segment>, oneshot::Sender<Result<(), String>>);

/// The queue of a lane's writer.
#[derive(Clone, Debug)]
pub struct Ingest(mpsc::Sender<Waiting>);

impl Ingest {
    /// Starts the writer of a lane.
    pub fn start(store: Store, lane: u32, written: std::sync::Arc<tokio::sync::Notify>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(write_groups(store, lane, receiver, written));
        Ingest(sender)
    }

    /// Stores segments in the inbox. Returns when the store has them.
    pub async fn put(&self, segments: Vec<Segment>) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.0
            .send((segments, sender))
            .await
            .map_err(|_| Error::Ended)?;
        match receiver.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(Error::Unusable(why)),
            Err(_) => Err(Error::Ended),
        }
    }
}

async fn write_groups(
    store: Store,
    lane: u32,
    mut receiver: mpsc::Receiver<Waiting>,
    written: std::sync::Arc<tokio::sync::Notify>,
) {
    while let Some(first) = receiver.recv().await {
        let bytes = |waiting: &Waiting| {
            waiting
                .0
                .iter()
                .map(|segment| segment.bytes().len())
                .sum::<usize>()
        };
        let mut size = bytes(&first);
        let mut waiting = vec![first];
        let end = tokio::time::Instant::now() + GROUP_TIME;
        while size < GROUP_BYTES {
            match tokio::time::timeout_at(end, receiver.recv()).await {
                Ok(Some(more)) => {
                    size += bytes(&more);
                    waiting.push(more);
                }
                Ok(None) | Err(_) => break,
            }
        }
        let content = group::write(waiting.iter().flat_map(|(segments, _)| segments));
        let done = put(&store, lane, content.into())
            .await
            .map_err(|error| error.to_string());
        for (_, sender) in waiting {
            // A machine that has gone asks again.
            let _ = sender.send(done.clone());
        }
        written.notify_one();
    }
}

/// Writes one object.
async fn put(store: &Store, lane: u32, content: Bytes) -> Result<()> {
    let time = jiff::Timestamp::now().as_microsecond();
    let path = Path::from(format!("{}/{time:017}-{}", inbox(lane), Uuid::new_v4()));
    match store::create(store, &path, content).await? {
        true => Ok(()),
        false => Err(Error::Unusable(format!(
            "{path} exists with another content"
        ))),
    }
}
