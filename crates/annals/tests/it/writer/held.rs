//! Files that another program holds open for writing are not moved.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// A shell that holds a file open for writing until its input ends.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn open(file: &Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", "exec 3>>\"$1\"; echo ready; read _", "sh"])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut String::new()).unwrap();
        Holder(child)
    }

    pub(crate) fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Runs `work` in a new thread: the scan of all processes is cached per thread for a while.
pub(crate) fn afresh<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[track_caller]
pub(crate) fn held<T: std::fmt::Debug + Send>(
    work: impl FnOnce() -> annals::Result<T> + Send,
    file: &Path,
) {
    let outcome = afresh(work);
    assert!(
        matches!(&outcome, Err(Error::File(FileError::Held { path, .. })) if path == file),
        "{outcome:?}"
    );
}

#[test]
fn file_held_open_is_not_archived_or_free() {
    let copy = case("chorus-plain").copy();
    let store = copy.store();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let files = store.inventory().sessions.remove(0);
    for path in files.files().map(|file| &file.path) {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(long_ago))
            .unwrap();
    }
    let files = store.inventory().sessions.remove(0);
    let log = files.main_path().to_owned();
    let index = log.with_file_name("conversations.json");
    let now = Timestamp::now();
    files.ensure_not_in_use().unwrap();
    for file in [&log, &index] {
        let holder = Holder::open(file);
        held(|| files.ensure_not_in_use(), file);
        held(|| store.move_to_archive(&[&files], false, now), file);
        assert!(log.exists() && index.exists());
        holder.end();
    }
    // The caller can override it.
    let holder = Holder::open(&index);
    store.move_to_archive(&[&files], true, now).unwrap();
    assert!(!log.exists());
    // An archived session is not in use.
    let archived = store.inventory().sessions;
    let archived = archived.iter().find(|it| it.id == files.id).unwrap();
    afresh(|| archived.ensure_not_in_use()).unwrap();
    holder.end();
}

#[test]
fn session_list_held_open_is_not_rebuilt() {
    let copy = case("chorus-index-behind").copy();
    let store = copy.store();
    let stale = store
        .repairs()
        .stale_session_lists(&store.inventory())
        .remove(0)
        .unwrap();
    assert!(!stale.is_damaged());
    let old = fs::read(&stale.path).unwrap();
    let holder = Holder::open(&stale.path);
    held(|| stale.refuse_held(), &stale.path);
    held(
        || {
            store
                .repairs()
                .repair_session_list(&stale, false, Timestamp::now())
        },
        &stale.path,
    );
    assert_eq!(fs::read(&stale.path).unwrap(), old);
    assert!(store.repairs().list().unwrap().0.is_empty());
    let kept = store
        .repairs()
        .repair_session_list(&stale, true, Timestamp::now())
        .unwrap();
    assert!(kept.is_some());
    holder.end();
    afresh(|| stale.refuse_held()).unwrap();
    fs::write(&stale.path, "{").unwrap();
    let stale = store
        .repairs()
        .stale_session_lists(&store.inventory())
        .remove(0)
        .unwrap();
    assert!(stale.is_damaged());
}
