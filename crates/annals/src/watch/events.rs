//! Events that wake a follower: a kernel notification, a deadline, or a stop request.
//!
//! Owns the kernel watches. A hint is never trusted: it only says where to look. Without kernel
//! support, every attempt to set a watch fails, and the follower polls.
//!
//! Uses inotify through rustix. The crate `notify` would add a thread between the event and the
//! reader.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Identifies a kernel watch.
pub(super) type WatchId = i32;

/// Notification that something may have changed.
#[derive(Debug)]
pub(super) struct Hint {
    /// The watch that reported it.
    pub(super) watch: WatchId,
    /// The name in the watched directory; `None` for the directory, or the watched file, itself.
    pub(super) name: Option<OsString>,
    /// Kind of change.
    pub(super) kind: HintKind,
}

/// Kind of change that the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HintKind {
    /// A name was created or its file written to.
    Changed,
    /// A name was removed.
    Gone,
    /// The watched directory itself was removed or renamed.
    DirGone,
    /// The watch was removed.
    WatchEnded,
    /// The event queue overflowed: anything may have changed.
    Overflow,
}

/// Waits for hints, a deadline, or a stop request.
#[derive(Debug)]
pub(super) struct EventSource {
    kernel: Option<kernel::Watches>,
    wakes: UnixStream,
    stop: Arc<Stop>,
}

/// Stop request for a follower, from any thread.
#[derive(Debug)]
pub(super) struct Stop {
    stopped: AtomicBool,
    wakes: UnixStream,
}

impl Stop {
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // If the buffer is full, the follower has already been woken.
        _ = (&self.wakes).write(&[1]);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

impl EventSource {
    /// Creates a source that can be stopped. `kernel` requests kernel watches; the error is
    /// returned if they cannot be used.
    pub(super) fn new(kernel: bool) -> io::Result<(Self, Option<io::Error>)> {
        let (wakes, end) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        end.set_nonblocking(true)?;
        let stop = Arc::new(Stop {
            stopped: AtomicBool::new(false),
            wakes: end,
        });
        let (kernel, trouble) = match kernel.then(kernel::Watches::new) {
            None => (None, None),
            Some(Ok(watches)) => (Some(watches), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let source = EventSource {
            kernel,
            wakes,
            stop,
        };
        Ok((source, trouble))
    }

    pub(super) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Returns whether kernel watches are used.
    pub(super) fn has_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Watches a directory, or a single file that is reached through a link.
    pub(super) fn watch(&self, path: &Path) -> io::Result<WatchId> {
        match &self.kernel {
            Some(kernel) => kernel.add(path),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Watches a directory for names that are created or removed, not for writes.
    pub(super) fn watch_names(&self, path: &Path) -> io::Result<WatchId> {
        match &self.kernel {
            Some(kernel) => kernel.add_names(path),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn unwatch(&self, id: WatchId) {
        if let Some(kernel) = &self.kernel {
            kernel.remove(id);
        }
    }

    /// Waits for hints, at most for `timeout`, and collects them.
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        hints: &mut Vec<Hint>,
    ) -> io::Result<()> {
        let timeout = timeout.map(|timeout| {
            let long = Duration::from_secs(1 << 30);
            Timespec::try_from(timeout.min(long)).unwrap_or_default()
        });
        let mut fds = vec![PollFd::new(&self.wakes, PollFlags::IN)];
        fds.extend(
            self.kernel
                .as_ref()
                .map(|kernel| PollFd::new(kernel, PollFlags::IN)),
        );
        match poll(&mut fds, timeout.as_ref()) {
            // A signal arrived: the caller checks whether to stop.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        let ready = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        // The byte that woke it is not consumed: a stop request must end every later wait as well.
        match self.kernel.as_mut().filter(|_| ready) {
            Some(kernel) => kernel.read(hints),
            None => Ok(()),
        }
    }
}

/// Returns why there are no kernel watches, with the limit to raise.
pub(super) fn watch_error_text(error: &io::Error) -> String {
    match error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) {
        true => "the inotify instance limit is reached (fs.inotify.max_user_instances)".to_owned(),
        false => error.to_string(),
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::ffi::OsStr;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;

    use super::{Hint, HintKind, WatchId};

    /// Size of the read buffer, in bytes.
    const BLOCK: usize = 64 << 10;

    /// Changes of the names in a directory. `MASK_ADD` keeps the events of an existing watch.
    const NAMES: WatchFlags = WatchFlags::CREATE
        .union(WatchFlags::MOVED_TO)
        .union(WatchFlags::MOVED_FROM)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::DELETE_SELF)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::MASK_ADD);

    /// Kernel watches on directories.
    pub(super) struct Watches {
        inotify: OwnedFd,
        block: Box<[MaybeUninit<u8>]>,
    }

    impl std::fmt::Debug for Watches {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.inotify.fmt(f)
        }
    }

    impl AsFd for Watches {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.inotify.as_fd()
        }
    }

    impl Watches {
        pub(super) fn new() -> io::Result<Self> {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let block = vec![MaybeUninit::uninit(); BLOCK].into_boxed_slice();
            Ok(Watches { inotify, block })
        }

        pub(super) fn add(&self, path: &Path) -> io::Result<WatchId> {
            Ok(inotify::add_watch(
                &self.inotify,
                path,
                NAMES | WatchFlags::MODIFY,
            )?)
        }

        pub(super) fn add_names(&self, path: &Path) -> io::Result<WatchId> {
            Ok(inotify::add_watch(&self.inotify, path, NAMES)?)
        }

        pub(super) fn remove(&self, id: WatchId) {
            // The watch may already be removed.
            _ = inotify::remove_watch(&self.inotify, id);
        }

        pub(super) fn read(&mut self, hints: &mut Vec<Hint>) -> io::Result<()> {
            let mut reader = Reader::new(&self.inotify, &mut self.block);
            loop {
                let event = match reader.next() {
                    Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                    event => event?,
                };
                let flags = event.events();
                let left = ReadFlags::DELETE | ReadFlags::MOVED_FROM;
                let uprooted = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
                let what = if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    HintKind::Overflow
                } else if flags.contains(ReadFlags::IGNORED) {
                    HintKind::WatchEnded
                } else if flags.intersects(uprooted) {
                    HintKind::DirGone
                } else if flags.intersects(left) {
                    HintKind::Gone
                } else {
                    HintKind::Changed
                };
                let name = event.file_name();
                hints.push(Hint {
                    watch: event.wd(),
                    name: name.map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
                    kind: what,
                });
                // Events that arrive meanwhile are read the next time, so that this loop ends.
                if reader.is_buffer_empty() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::path::Path;

    use super::{Hint, WatchId};

    /// Not available: everything is polled.
    #[derive(Debug)]
    pub(super) enum Watches {}

    impl AsFd for Watches {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }
    }

    impl Watches {
        pub(super) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn add(&self, _: &Path) -> io::Result<WatchId> {
            match *self {}
        }

        pub(super) fn add_names(&self, _: &Path) -> io::Result<WatchId> {
            match *self {}
        }

        pub(super) fn remove(&self, _: WatchId) {
            match *self {}
        }

        pub(super) fn read(&mut self, _: &mut Vec<Hint>) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_returns_at_once_after_stop() {
        let (mut source, _) = EventSource::new(false).unwrap();
        let mut hints = Vec::new();
        source.stop().stop();
        // A wait of zero must not consume the byte that ends the next wait.
        for timeout in [Some(Duration::ZERO), Some(Duration::MAX), None] {
            source.wait(timeout, &mut hints).unwrap();
        }
    }

    #[test]
    fn watch_error_names_the_instance_limit() {
        let limit = io::Error::from(rustix::io::Errno::MFILE);
        assert!(watch_error_text(&limit).contains("fs.inotify.max_user_instances"));
        let other = io::Error::from(rustix::io::Errno::NOSYS);
        assert_eq!(watch_error_text(&other), other.to_string());
    }
}
