//! Following logs while they grow.
//!
//! A [`Follower`] tells what is written to the logs of a [`Store`](crate::store::Store) as it is
//! written: of everything, or of some projects, sessions or one conversation, sub-agents and
//! sessions that begin later included. It is an iterator that waits; a [`Stopper`] ends it from
//! another thread.
//!
//! ```
//! use annals::model::{Body, Draft};
//! use annals::store::{Root, Store};
//! use annals::watch::{Event, FollowOptions, Follower, Selection};
//!
//! # let dir = tempfile::tempdir()?;
//! let store = Store::new(vec![Root::claude_code(dir.path().join(".claude"))]);
//! let mut follower = Follower::new(&store, Selection::all(), FollowOptions::default().last(10))?;
//! let stopper = follower.stopper();
//! # let written = store.begin("/home/me/app")?;
//! # written.append(Draft::user("Why does the build fail?"))?;
//! for event in &mut follower {
//!     if let Event::Entry(fresh) = event
//!         && let Body::Message(message) = &fresh.entry.body
//!     {
//!         println!("{} {}", fresh.session, message.role.as_str());
//!         stopper.stop();
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What the kernel tells is taken as a hint where to look, never as the truth: a log's length,
//! identity and the bytes before the place that was read to decide. A line is told when its end is
//! written, whole and once; entries of one log come in the order in which they stand in it. Where the kernel
//! has no watches left, what has none is polled, and that is told.
//!
//! Owns no thread and no runtime, and does nothing at all while nothing is written.

mod archived;
mod conversation;
mod events;
mod follower;
mod log_cursor;
mod recent;
mod selection;
mod watched_dirs;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cost::Charge;
use crate::error::Error;
use crate::model::{AgentId, Artifact, Entry, Project, SessionId};
use crate::store::{Root, working_directories};

pub use archived::last_archived;
pub use follower::Follower;
pub use selection::Selection;

/// What a follower tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An entry was written.
    Entry(Box<FollowedEntry>),
    /// What stood there before was told; what follows is new.
    CaughtUp,
    /// There is a log that was not there before.
    Began {
        /// The log.
        log: Arc<FollowedLog>,
    },
    /// A log is not what it was, and is read from its beginning. Of its entries, those that were told
    /// before are not told again.
    Reset {
        /// The log.
        log: Arc<FollowedLog>,
        /// What became of it.
        reason: ResetReason,
    },
    /// A log is no longer there. It may come back.
    Gone {
        /// The log.
        log: Arc<FollowedLog>,
    },
    /// Some directories have no watch and are looked at from time to time. Told once.
    Polling {
        /// Why they have none.
        reason: String,
    },
    /// Something could not be read. The follower goes on.
    Error(Error),
}

/// An entry that was written, where, and whose it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct FollowedEntry {
    /// The log it stands in.
    pub log: Arc<FollowedLog>,
    /// The session; where a log never tells, its file's name.
    pub session: SessionId,
    /// The sub-agent; `None` is the main agent.
    pub agent: Option<AgentId>,
    /// The entry.
    pub entry: Entry,
    /// What it says that its response spent; the entries of one response say so again and again.
    pub charge: Option<Charge>,
    /// It is no news: it stood there before following began, or is a copy in a log that came later.
    ///
    /// A log that comes later may be a fork or a copy of another. Of such a log, what was written by
    /// its own time before following began is earlier, and so is what was told of another log
    /// with the same id and time. What has no time goes with the entry before it.
    pub earlier: bool,
}

/// A log that is followed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowedLog {
    /// The root it lies in.
    pub root: Root,
    /// Where it is.
    pub path: PathBuf,
    /// What it means.
    pub artifact: Artifact,
}

impl FollowedLog {
    /// The directory that the log's session is at work in, as far as its beginning tells, or
    /// what lies beside it.
    pub fn project(&self) -> Project {
        let logs = std::iter::once((self.path.as_path(), &self.artifact));
        let folder = self.artifact.folder.as_deref();
        let mut homes = working_directories(&self.root, folder, logs).into_iter();
        match homes.next() {
            Some(path) => Project {
                path,
                guessed: false,
            },
            None => Project {
                path: folder.unwrap_or("(unknown)").to_owned(),
                guessed: true,
            },
        }
    }
}

/// Why a log is read from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResetReason {
    /// It became shorter than what was read of it.
    Truncated,
    /// Another file lies in its place.
    Replaced,
    /// What was read of it was changed.
    Rewritten,
}

impl ResetReason {
    /// As words and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ResetReason::Truncated => "truncated",
            ResetReason::Replaced => "replaced",
            ResetReason::Rewritten => "rewritten",
        }
    }
}

impl fmt::Display for ResetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Ends a [`Follower`] from another thread. Clones end the same one.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<events::Stop>);

impl Stopper {
    /// Makes the follower's iterator end, now or when it is next asked.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// How logs are followed.
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowOptions {
    /// How many of the entries that are there already are told first.
    pub last: usize,
    /// Which entries count among them; others are left out of them.
    pub filter: Arc<dyn Fn(&Entry) -> bool + Send + Sync>,
    /// Use no watches of the kernel but look from time to time: for file systems that tell nothing,
    /// such as those of other machines.
    pub poll: bool,
    /// How often to look where there is no watch, at most: looking takes one part in fifty of the
    /// time, so that it is done less often where there is much to look at.
    pub poll_every: Duration,
    /// At most so many of the kernel's watches are used; the rest is polled.
    pub max_watches: usize,
}

impl Default for FollowOptions {
    fn default() -> Self {
        FollowOptions {
            last: 0,
            filter: Arc::new(|_| true),
            poll: false,
            poll_every: Duration::from_millis(50),
            max_watches: usize::MAX,
        }
    }
}

impl fmt::Debug for FollowOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("last", &self.last)
            .field("poll", &self.poll)
            .field("poll_every", &self.poll_every)
            .field("most_watches", &self.max_watches)
            .finish_non_exhaustive()
    }
}

impl FollowOptions {
    /// Tells the last `n` entries first.
    pub fn last(mut self, n: usize) -> Self {
        self.last = n;
        self
    }

    /// Says which entries count among the last ones.
    pub fn filter(mut self, counts: impl Fn(&Entry) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Arc::new(counts);
        self
    }

    /// Looks from time to time instead of being told.
    pub fn polling(mut self) -> Self {
        self.poll = true;
        self
    }
}
