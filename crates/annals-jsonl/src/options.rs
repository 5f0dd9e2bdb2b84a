//! How a log is opened, and what an acknowledged append guarantees.

use std::time::Duration;

/// The guarantee of an acknowledged append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Written to the kernel: survives the end of the process.
    Os,
    /// Synced: survives a power failure, on storage that honours flush.
    #[default]
    Disk,
}

/// Options for opening a log.
#[derive(Clone, Copy, Debug)]
pub struct AppendOptions {
    /// The guarantee of an acknowledged append.
    pub durability: Durability,
    /// Time to wait for another process's lock before `Error::Busy`.
    pub lock_wait: Duration,
    /// Whether to create the file.
    pub create: Create,
    /// Whether to write on a network file system, where neither locks nor `O_APPEND` are reliable.
    pub network: bool,
    /// Whether the log's own program locks `FILE.lock` and may replace the log with a copy.
    pub lock_file: bool,
    /// Whether the log is only locked. It is not opened for writing then, so that
    /// [`Removal::ensure_final`](crate::Removal::ensure_final) is cheap, and cannot be appended to.
    pub lock_only: bool,
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            lock_wait: Duration::from_secs(5),
            create: Create::default(),
            network: false,
            lock_file: false,
            lock_only: false,
        }
    }
}

/// Whether opening may create the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// The log must exist.
    #[default]
    Never,
    /// The log must not exist yet; it is created with mode 0600.
    New,
}
