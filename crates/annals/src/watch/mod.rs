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
//! use annals::watch::{Event, Follower, Options, Selection};
//!
//! # let dir = tempfile::tempdir()?;
//! let store = Store::new(vec![Root::claude_code(dir.path().join(".claude"))]);
//! let mut follower = Follower::new(&store, Selection::all(), Options::default().last(10))?;
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
mod branch;
mod follower;
mod last;
mod places;
mod selection;
mod source;
mod track;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cost::Charge;
use crate::error::Error;
use crate::model::{AgentId, Artifact, Entry, Project, SessionId};
use crate::store::{Root, homes};

pub use archived::last_archived;
pub use follower::Follower;
pub use selection::Selection;

/// What a follower tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An entry was written.
    Entry(Box<Fresh>),
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
        why: Why,
    },
    /// A log is no longer there. It may come back.
    Gone {
        /// The log.
        log: Arc<FollowedLog>,
    },
    /// Some directories have no watch and are looked at from time to time. Told once.
    Polling {
        /// Why they have none.
        why: String,
    },
    /// Something could not be read. The follower goes on.
    Trouble(Error),
}

/// An entry that was written, where, and whose it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fresh {
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
        let mut homes = homes(&self.root, folder, logs).into_iter();
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
pub enum Why {
    /// It became shorter than what was read of it.
    Truncated,
    /// Another file lies in its place.
    Replaced,
    /// What was read of it was changed.
    Rewritten,
}

impl Why {
    /// As words and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Truncated => "truncated",
            Why::Replaced => "replaced",
            Why::Rewritten => "rewritten",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Ends a [`Follower`] from another thread. Clones end the same one.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<source::Stop>);

impl Stopper {
    /// Makes the follower's iterator end, now or when it is next asked.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// How logs are followed.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// How many of the entries that are there already are told first.
    pub last: usize,
    /// Which entries count among them; others are left out of them.
    pub counts: Arc<dyn Fn(&Entry) -> bool + Send + Sync>,
    /// Use no watches of the kernel but look from time to time: for file systems that tell nothing,
    /// such as those of other machines.
    pub poll: bool,
    /// How often to look where there is no watch, at most: looking takes one part in fifty of the
    /// time, so that it is done less often where there is much to look at.
    pub poll_every: Duration,
    /// At most so many of the kernel's watches are used; the rest is polled.
    pub most_watches: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            last: 0,
            counts: Arc::new(|_| true),
            poll: false,
            poll_every: Duration::from_millis(50),
            most_watches: usize::MAX,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("last", &self.last)
            .field("poll", &self.poll)
            .field("poll_every", &self.poll_every)
            .field("most_watches", &self.most_watches)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Tells the last `n` entries first.
    pub fn last(mut self, n: usize) -> Self {
        self.last = n;
        self
    }

    /// Says which entries count among the last ones.
    pub fn counting(mut self, counts: impl Fn(&Entry) -> bool + Send + Sync + 'static) -> Self {
        self.counts = Arc::new(counts);
        self
    }

    /// Looks from time to time instead of being told.
    pub fn polling(mut self) -> Self {
        self.poll = true;
        self
    }
}
