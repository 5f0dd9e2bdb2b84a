//! Following logs while they grow.
//!
//! A [`Follower`] reports what is written to the logs of a [`Store`](crate::store::Store):
//! everything, or some projects, sessions or one conversation, including sub-agents and sessions
//! that begin later. It is a blocking iterator; a [`Stopper`] ends it from another thread.
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
//! Kernel notifications only say where to look. The length and identity of a log, and the bytes
//! before the read position, decide. A line is reported once, when its end is written; entries of
//! one log are reported in file order. If the kernel runs out of watches, directories without one
//! are polled, and this is reported.
//!
//! Owns no thread and no runtime. Unless it polls, it does nothing while nothing is written.

mod archived;
mod conversation;
mod events;
mod follower;
mod log_cursor;
mod position;
mod recent;
mod selection;
mod watched_dirs;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cost::Charge;
use crate::error::Error;
use crate::store::{Root, record_source, working_directories};
use annals_jsonl::OpenLog;
use annals_layouts::model::{AgentId, Artifact, Entry, Project, SessionId};

pub use archived::last_archived;
pub use follower::Follower;
pub use position::FollowPosition;
pub use selection::Selection;

/// An event of a follower.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An entry was written.
    Entry(Box<FollowedEntry>),
    /// The existing entries were reported; what follows is new.
    CaughtUp,
    /// A new log was found.
    Began {
        /// The log.
        log: Arc<FollowedLog>,
    },
    /// A log changed before the read position and is read from its start. Entries that were
    /// reported before are not reported again.
    Reset {
        /// The log.
        log: Arc<FollowedLog>,
        /// The change.
        reason: ResetReason,
    },
    /// A log was removed. It may reappear.
    Gone {
        /// The log.
        log: Arc<FollowedLog>,
    },
    /// Some directories have no watch and are polled. Reported once.
    Polling {
        /// Why they have none.
        reason: String,
    },
    /// Something could not be read. The follower continues.
    Error(Error),
}

/// An entry that was written, with its log, session and agent.
#[derive(Debug)]
#[non_exhaustive]
pub struct FollowedEntry {
    /// The log that contains it.
    pub log: Arc<FollowedLog>,
    /// The session; the file name, if the log does not record one.
    pub session: SessionId,
    /// The sub-agent; `None` for the main agent.
    pub agent: Option<AgentId>,
    /// The entry.
    pub entry: Entry,
    /// Usage of its response; the entries of one response repeat it.
    pub charge: Option<Charge>,
    /// It is a later state of an entry that was written before: a message that is streamed. Its
    /// content replaces that of the earlier state.
    pub updated: bool,
    /// It is not new: written before following began, or a copy in a log created later.
    ///
    /// A log that is created later may be a fork or a copy of another. In such a log, an entry is
    /// earlier if its time is before following began, or if an entry with the same id and time was
    /// reported from another log. An entry without a time is treated like the one before it.
    pub earlier: bool,
}

/// A followed log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowedLog {
    /// The root that contains it.
    pub root: Root,
    /// Path of the log.
    pub path: PathBuf,
    /// Kind of the log, and its session.
    pub artifact: Artifact,
}

impl FollowedLog {
    /// Opens its records.
    pub(crate) fn open(&self) -> io::Result<OpenLog> {
        record_source::open(&self.path, self.artifact.framing)
    }

    /// Returns the working directory of the log's session, from the start of the log, the session
    /// list or the root's location; else the folder's name, marked as guessed.
    pub fn project(&self) -> Project {
        let logs = std::iter::once((self.path.as_path(), &self.artifact));
        let folder = self.artifact.folder.as_deref();
        let mut directories = working_directories(&self.root, folder, logs).into_iter();
        match directories.next() {
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

/// Reason why a log is read from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResetReason {
    /// It became shorter than the read position.
    Truncated,
    /// Another file has its path.
    Replaced,
    /// The part that was read has changed.
    Rewritten,
}

impl ResetReason {
    /// Returns the name for display and JSON.
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

/// Stops a [`Follower`] from another thread. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<events::Stop>);

impl Stopper {
    /// Makes the follower's iterator end, now or at its next call.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// Options for following logs.
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Number of existing entries to report first.
    pub(crate) last: usize,
    /// Selects which existing entries are counted and reported.
    pub(crate) filter: Arc<dyn Fn(&Entry) -> bool + Send + Sync>,
    /// Where an earlier follower ended.
    pub(crate) since: Option<FollowPosition>,
    /// Poll instead of using kernel watches: for file systems without notifications, such as
    /// network file systems.
    pub poll: bool,
    /// Minimum pause between two polls. Polling takes about one part in fifty of the time, so it
    /// happens less often if there are many files.
    pub(crate) poll_every: Duration,
    /// Maximum number of kernel watches; other directories are polled.
    pub max_watches: usize,
}

impl Default for FollowOptions {
    fn default() -> Self {
        FollowOptions {
            last: 0,
            filter: Arc::new(|_| true),
            since: None,
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
    /// Reports the last `n` entries first.
    pub fn last(mut self, n: usize) -> Self {
        self.last = n;
        self
    }

    /// Goes on where an earlier follower of the same logs ended: reports what was written since, as
    /// new. A log that was cut, or replaced by another file, is reported from its start.
    pub fn since(mut self, position: FollowPosition) -> Self {
        self.since = Some(position);
        self
    }

    /// Sets which entries count among the last ones.
    pub fn filter(mut self, counts: impl Fn(&Entry) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Arc::new(counts);
        self
    }

    /// Polls instead of using kernel watches.
    pub fn polling(mut self) -> Self {
        self.poll = true;
        self
    }
}
