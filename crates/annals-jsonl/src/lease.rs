//! Asks the kernel whether a file is open for writing.
//!
//! The kernel refuses a read lease on a file that is open for writing. It counts all of them: in other
//! containers, of other users, and mapped into memory after the descriptor was closed. The price is one
//! system call for each file, where a search through the open files of all processes costs several for
//! each of these.

use std::fs::File;

/// Returns whether nobody has a file open for writing. The descriptor must be read-only.
///
/// Returns `false` too if the system grants no leases: for files of other users, on some file systems,
/// and on other systems than Linux.
pub(crate) fn is_closed_for_writing(file: &File) -> bool {
    system::is_lease_granted(file)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    use libc::{F_RDLCK, F_SETLEASE, F_UNLCK, SIGURG, c_int};

    /// Selects the signal of a lease; `libc` lacks it.
    const F_SETSIG: c_int = 10;

    pub(super) fn is_lease_granted(file: &File) -> bool {
        // A program that opens the file during the lease waits until it is released, and the kernel signals
        // that. The default signal would end this process; SIGURG is ignored.
        fcntl(file, F_SETSIG, SIGURG)
            && fcntl(file, F_SETLEASE, F_RDLCK)
            && fcntl(file, F_SETLEASE, F_UNLCK)
    }

    /// Runs a command whose argument is a number. Returns whether it succeeded.
    #[expect(unsafe_code, reason = "no crate has a safe function for leases")]
    fn fcntl(file: &File, command: c_int, argument: c_int) -> bool {
        // SAFETY: the descriptor is open, and the commands above take no pointer.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;

    pub(super) fn is_lease_granted(_: &File) -> bool {
        false
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn file_open_for_writing_is_not_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "{}\n").unwrap();
        let file = File::open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        reader.lock().unwrap();
        assert!(is_closed_for_writing(&file));
        let writer = File::options().append(true).open(&path).unwrap();
        assert!(!is_closed_for_writing(&file));
        drop(writer);
        assert!(is_closed_for_writing(&file));
        // The lock of the file is another one.
        assert!(file.try_lock().is_err());
    }

    /// The signal of a lease that another program breaks does not end the process.
    #[test]
    fn writers_open_a_file_during_leases() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "").unwrap();
        let file = File::open(&path).unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_millis(200);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while std::time::Instant::now() < end {
                    drop(File::options().append(true).open(&path).unwrap());
                }
            });
            while std::time::Instant::now() < end {
                is_closed_for_writing(&file);
            }
        });
        assert!(is_closed_for_writing(&file));
    }
}
