//! Finds programs that hold files open for writing.
//!
//! A program that has a log open keeps writing to it whatever happens to its name: what it writes
//! after the log was removed or replaced is lost. On Linux, `/proc/PID/fd` lists the open files of
//! every process that the user may inspect, and how they were opened. Elsewhere nobody is found.
//!
//! Processes that run the same executable do not count: they take the same locks, and notice under
//! them that a log was replaced.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::lease::is_closed_for_writing;
use super::{FileId, open_to_read};
use crate::{Error, Result};

/// A process that has a file open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFileHolder {
    /// Its number.
    pub pid: u32,
    /// Its name, as it calls itself.
    pub name: String,
}

impl fmt::Display for OpenFileHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.is_empty() {
            true => write!(f, "process {}", self.pid),
            false => write!(f, "process {} ({})", self.pid, self.name),
        }
    }
}

/// Fails with [`Error::Held`] if another program has any of the files open for writing.
///
/// The kernel says of most files that nobody has them open. Only the others are looked for among the
/// open files of all processes. One scan of these serves many files: it is reused for four times its
/// duration, so that a caller that checks one session after another spends at most a fifth of the time
/// here. A file that was open in an old scan is looked up again, because its inode may belong to another
/// file now.
pub fn ensure_not_open<'a>(files: impl IntoIterator<Item = (&'a Path, &'a FileId)>) -> Result<()> {
    let files = files.into_iter();
    let mut files = files.filter(|(path, id)| !is_closed(path, id)).peekable();
    if files.peek().is_none() {
        return Ok(());
    }
    let scan = OpenFiles::current();
    let seen = files.filter(|(_, id)| scan.open.contains_key(&(id.dev, id.ino)));
    let seen: Vec<(&Path, &FileId)> = seen.collect();
    if seen.is_empty() {
        return Ok(());
    }
    match find_holder(seen) {
        None => Ok(()),
        Some((path, holder)) => Err(Error::Held {
            path: path.to_owned(),
            holder,
            can_insist: true,
        }),
    }
}

/// Returns whether nobody has a file open for writing. Returns `false` too if that is unknown.
fn is_closed(path: &Path, id: &FileId) -> bool {
    let Ok(file) = open_to_read(path) else {
        return false;
    };
    let metadata = file.metadata();
    let is_same = metadata.is_ok_and(|metadata| FileId::from(&metadata).same_file(id));
    is_same && is_closed_for_writing(&file)
}

/// Returns the first of the files that another program has open for writing right now, and the program.
pub(crate) fn find_holder<'a>(
    files: impl IntoIterator<Item = (&'a Path, &'a FileId)>,
) -> Option<(&'a Path, OpenFileHolder)> {
    let mut files = files.into_iter().peekable();
    files.peek()?;
    let scan = OpenFiles::scan();
    files.find_map(|(path, id)| Some((path, scan.open.get(&(id.dev, id.ino))?.clone())))
}

/// Files that were open for writing, by device and inode.
struct OpenFiles {
    open: HashMap<(u64, u64), OpenFileHolder>,
    until: Instant,
}

thread_local! {
    static LAST: RefCell<Option<Rc<OpenFiles>>> = const { RefCell::new(None) };
}

impl OpenFiles {
    /// Returns the last scan of this thread, or a new one.
    fn current() -> Rc<Self> {
        let begun = Instant::now();
        if let Some(last) = LAST.take().filter(|last| begun < last.until) {
            LAST.set(Some(Rc::clone(&last)));
            return last;
        }
        OpenFiles::scan()
    }

    /// Scans all processes.
    fn scan() -> Rc<Self> {
        let begun = Instant::now();
        let open = system::open_for_writing();
        let took = begun.elapsed().min(Duration::from_secs(1));
        let look = Rc::new(OpenFiles {
            open,
            until: Instant::now() + took * 4,
        });
        LAST.set(Some(Rc::clone(&look)));
        look
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashMap;
    use std::ffi::CStr;
    use std::fs;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, StatxFlags};
    use rustix::io::Errno;

    use super::OpenFileHolder;

    /// Returns all files that other programs have open for writing. Skips processes that end meanwhile
    /// or may not be inspected.
    pub(crate) fn open_for_writing() -> HashMap<(u64, u64), OpenFileHolder> {
        let mut found = HashMap::new();
        let own = executable_of("/proc/self/exe");
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let files = files_of(pid);
            if files.is_empty() || pid == std::process::id() {
                continue;
            }
            if own.is_some() && executable_of(&format!("/proc/{pid}/exe")) == own {
                continue;
            }
            let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = String::from_utf8_lossy(&name).trim_end().to_owned();
            let holder = OpenFileHolder { pid, name };
            for file in files {
                // Child processes inherit open files; the parent, which is listed first, is reported.
                found.entry(file).or_insert_with(|| holder.clone());
            }
        }
        found
    }

    /// Returns the device and inode of an executable.
    fn executable_of(path: &str) -> Option<(u64, u64)> {
        let stat = rustix::fs::stat(path).ok()?;
        Some(device_and_inode(&stat))
    }

    /// Returns the files that a process has open for writing.
    fn files_of(pid: u32) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = format!("/proc/{pid}/fd");
        let Ok(dir) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else {
            return found;
        };
        let Ok(entries) = Dir::read_from(&dir) else {
            return found;
        };
        for entry in entries.flatten() {
            found.extend(written_file(&dir, entry.file_name()));
        }
        found
    }

    /// Returns the file of a descriptor if it is a regular file and open for writing.
    fn written_file(dir: &OwnedFd, name: &CStr) -> Option<(u64, u64)> {
        // The permissions of the link show how the file was opened, without a call to its file system.
        let link = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let mode = Mode::from_raw_mode(link.st_mode);
        if FileType::from_raw_mode(link.st_mode) != FileType::Symlink || !mode.contains(Mode::WUSR)
        {
            return None;
        }
        // Pipes, sockets and the like have no path.
        let target = rustix::fs::readlinkat(dir, name, Vec::new()).ok()?;
        if !target.to_bytes().starts_with(b"/") {
            return None;
        }
        id_of_regular_file(dir, name)
    }

    /// Returns device and inode of a regular file without waiting for its file system, which may be a
    /// server that does not answer.
    fn id_of_regular_file(dir: impl AsFd, name: &CStr) -> Option<(u64, u64)> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        match rustix::fs::statx(&dir, name, AtFlags::STATX_DONT_SYNC, wanted) {
            Ok(stat) => {
                let mode = u32::from(stat.stx_mode);
                let regular = FileType::from_raw_mode(mode) == FileType::RegularFile;
                let dev = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
                regular.then_some((dev, stat.stx_ino))
            }
            Err(Errno::NOSYS | Errno::PERM) => {
                let stat = rustix::fs::statat(&dir, name, AtFlags::empty()).ok()?;
                let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                regular.then(|| device_and_inode(&stat))
            }
            Err(_) => None,
        }
    }

    #[allow(
        clippy::unnecessary_cast,
        reason = "the types are others on other machines"
    )]
    fn device_and_inode(stat: &Stat) -> (u64, u64) {
        (stat.st_dev as u64, stat.st_ino as u64)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::collections::HashMap;

    use super::OpenFileHolder;

    /// Returns nothing: other systems have no safe call for this.
    pub(crate) fn open_for_writing() -> HashMap<(u64, u64), OpenFileHolder> {
        HashMap::new()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs::{self, File};
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell that runs a command and then waits for the end of its input.
    fn shell(does: &str, file: &Path) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{does}; echo ready; read _")])
            .arg("sh")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    fn held(file: &Path) -> Option<OpenFileHolder> {
        let id = FileId::from(&fs::metadata(file).unwrap());
        // A new scan: the one of this thread may be reused.
        let open = system::open_for_writing();
        open.get(&(id.dev, id.ino)).cloned()
    }

    #[test]
    fn process_with_file_open_for_writing_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        fs::write(&file, "{}\n").unwrap();
        assert_eq!(held(&file), None);
        for (does, writes) in [
            ("exec 3>>\"$1\"", true),
            ("exec 3<>\"$1\"", true),
            ("exec 3<\"$1\"", false),
            // Under another name.
            (
                "exec 3>>\"$1\"; mv \"$1\" \"$1.x\"; ln \"$1.x\" \"$1\"; rm \"$1.x\"",
                true,
            ),
        ] {
            let mut child = shell(does, &file);
            let wanted = writes.then(|| OpenFileHolder {
                pid: child.id(),
                name: "sh".to_owned(),
            });
            assert_eq!(held(&file), wanted, "{does}");
            drop(child.stdin.take());
            child.wait().unwrap();
            assert_eq!(held(&file), None, "{does}");
        }
    }

    #[test]
    fn own_open_files_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        let _open = File::create(&file).unwrap();
        assert_eq!(held(&file), None);
    }

    /// A scan is reused for a moment only.
    #[test]
    fn process_that_opens_file_later_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        fs::write(&file, "").unwrap();
        let id = FileId::from(&fs::metadata(&file).unwrap());
        let ask = || ensure_not_open([(file.as_path(), &id)]);
        ask().unwrap();
        let mut child = shell("exec 3>>\"$1\"", &file);
        let limit = Instant::now() + Duration::from_secs(20);
        while ask().is_ok() {
            assert!(Instant::now() < limit, "it is never found");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// Opens a file if requested, and waits for the end of its input.
    #[test]
    fn helper_process_holds_file_open() {
        use std::io::Read as _;
        if let Some(path) = std::env::var_os("ANNALS_TEST_HOLDS") {
            let _open = File::options().append(true).open(path).unwrap();
            println!("\nready");
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
    }

    /// They take the same locks.
    #[test]
    fn other_processes_of_same_program_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        fs::write(&file, "").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("open_files::tests::helper_process_holds_file_open")
            .env("ANNALS_TEST_HOLDS", &file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = out.lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "ready"));
        let found = held(&file);
        drop(child.stdin.take());
        lines.for_each(drop);
        child.wait().unwrap();
        assert_eq!(found, None);
    }

    #[test]
    fn ensure_not_open_error_names_file_and_process() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        fs::write(&file, "").unwrap();
        let mut child = shell("exec 3>>\"$1\"", &file);
        let id = FileId::from(&fs::metadata(&file).unwrap());
        let error = ensure_not_open([(file.as_path(), &id)]).unwrap_err();
        let expected = format!(
            "{} is held open for writing by process {} (sh)",
            file.display(),
            child.id()
        );
        assert_eq!(error.to_string(), expected);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
