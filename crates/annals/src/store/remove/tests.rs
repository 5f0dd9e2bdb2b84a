//! Removal waits for the locks of other processes.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;

use super::*;
use crate::store::{Inventory, WriteOptions};
use annals_jsonl::Error as FileError;
use annals_layouts::layout::Spawn;
use annals_layouts::model::{AgentId, Draft, Todo};

/// A session with more sub-agents than are locked at once, and todos.
fn session_with_many_agents() -> (TempDir, Store, SessionFiles) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
    let quick = WriteOptions {
        durability: jsonl::Durability::Os,
        ..WriteOptions::default()
    };
    let id = annals_layouts::model::SessionId::new("aaaaaaaa-0000-4000-8000-000000000000").unwrap();
    let new = annals_layouts::layout::NewSession::new(id, "/home/dev/w");
    let main = store.create(&root, &new, quick).unwrap();
    main.append(Draft::user("Go!")).unwrap();
    main.set_todos(&[Todo::pending("Wait")]).unwrap();
    for agent in 0..=trash::MAX_LOCKED_LOGS {
        let id = AgentId::new(&format!("a{agent:04}")).unwrap();
        let agent = main.spawn(&Spawn::new(id, "Explore", "looks")).unwrap();
        agent.append(Draft::user("Look!")).unwrap();
    }
    drop(main);
    let files = Inventory::scan(std::slice::from_ref(&root))
        .sessions
        .remove(0);
    (dir, store, files)
}

/// Locks a file or directory for 200 ms. The thread returns whether `path` exists at the end.
fn hold(locked: &Path, path: &Path) -> thread::JoinHandle<bool> {
    let (tell, ready) = mpsc::channel();
    let (locked, path) = (locked.to_owned(), path.to_owned());
    let holder = thread::spawn(move || {
        let file = File::open(locked).unwrap();
        file.lock().unwrap();
        tell.send(()).unwrap();
        thread::sleep(Duration::from_millis(200));
        path.exists()
    });
    ready.recv().unwrap();
    holder
}

/// The content of a session's files, by their paths within its root.
type Contents = Vec<(PathBuf, Vec<u8>)>;

/// Copies in memory, with a result for each check that they exist: the first check is before the
/// removal, the second after it.
struct InMemory<'a> {
    files: &'a SessionFiles,
    contents: Contents,
    asked: Cell<u32>,
    when_asked: &'a dyn Fn(u32) -> Result<()>,
    rows: RefCell<Vec<String>>,
}

impl<'a> InMemory<'a> {
    fn new(
        files: &'a SessionFiles,
        holdings: &FileSet,
        when_asked: &'a dyn Fn(u32) -> Result<()>,
    ) -> Self {
        let read = |within: &PathBuf| fs::read(files.root.path.join(within)).unwrap();
        let contents = holdings.files.iter();
        InMemory {
            files,
            contents: contents.map(|(it, _)| (it.clone(), read(it))).collect(),
            asked: Cell::new(0),
            when_asked,
            rows: RefCell::default(),
        }
    }

    /// Checks that every file is unchanged.
    fn assert_all_present(&self) {
        for (within, content) in &self.contents {
            let now = fs::read(self.files.root.path.join(within)).unwrap();
            assert_eq!(now, *content, "{}", within.display());
        }
    }
}

impl FileCopies for InMemory<'_> {
    fn verify(&self, within: &Path) -> Result<FileId> {
        let path = self.files.root.path.join(within);
        Ok(FileId::from(&fs::metadata(path).unwrap()))
    }

    fn ensure_reachable(&self) -> Result<()> {
        self.asked.set(self.asked.get() + 1);
        (self.when_asked)(self.asked.get())
    }

    fn restore(&self, gone: &[&Path]) -> Result<()> {
        let gone_of = |path: &Path| gone.contains(&path);
        for (within, content) in self.contents.iter().filter(|(it, _)| gone_of(it)) {
            fs::write(self.files.root.path.join(within), content).unwrap();
        }
        Ok(())
    }

    fn save_rows(&self, _: &Path, rows: &[String]) -> Result<()> {
        self.rows.borrow_mut().extend_from_slice(rows);
        Ok(())
    }
}

#[test]
fn remove_restores_files_if_copies_vanish_at_the_end() {
    let (_dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let holdings = FileSet::to_remove(&group).unwrap();
    let main = files.main_path();
    let vanish = |time: u32| match time {
        1 => Ok(()),
        _ => {
            assert!(!main.exists());
            Err(Error::refused("the copies are gone"))
        }
    };
    let copies = InMemory::new(&files, &holdings, &vanish);
    let refused = Store::remove_files(&group, &holdings, true, &copies).unwrap_err();
    assert!(refused.to_string().contains("the copies are gone"));
    copies.assert_all_present();
}

#[test]
fn remove_does_nothing_if_copies_are_gone_before() {
    let (_dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let holdings = FileSet::to_remove(&group).unwrap();
    let gone = |_| Err(Error::refused("the copies are gone"));
    let copies = InMemory::new(&files, &holdings, &gone);
    assert!(Store::remove_files(&group, &holdings, true, &copies).is_err());
    copies.assert_all_present();
    assert_eq!(copies.asked.get(), 1);
}

#[test]
fn list_row_changed_during_removal_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let id = annals_layouts::model::SessionId::new("conv-1").unwrap();
    let new = annals_layouts::layout::NewSession::new(id, "/home/dev/w");
    let session = store.create(&root, &new, WriteOptions::default()).unwrap();
    session.append(Draft::user("Go!")).unwrap();
    session.close().unwrap();
    let inventory = Inventory::scan(std::slice::from_ref(&root));
    let files = &inventory.sessions[0];
    let group = [files];
    let holdings = FileSet::to_remove(&group).unwrap();
    let titled = |time: u32| {
        if time == 2 {
            let index = files.main_path().with_file_name("conversations.json");
            let text = fs::read_to_string(&index).unwrap();
            let text = text.replace("\"title\":", "\"starred\":true,\"title\":");
            assert!(text.contains("starred"), "{text}");
            fs::write(&index, text).unwrap();
        }
        Ok(())
    };
    let copies = InMemory::new(files, &holdings, &titled);
    Store::remove_files(&group, &holdings, true, &copies).unwrap();
    let rows = copies.rows.borrow();
    assert!(rows.iter().any(|row| row.contains("starred")), "{rows:?}");
}

/// Copies that are checked but never restored.
struct Asked<F>(F);

impl<F: Fn(&Path) -> Result<FileId>> FileCopies for Asked<F> {
    fn verify(&self, within: &Path) -> Result<FileId> {
        (self.0)(within)
    }

    fn ensure_reachable(&self) -> Result<()> {
        Ok(())
    }

    fn restore(&self, _: &[&Path]) -> Result<()> {
        Ok(())
    }

    fn save_rows(&self, _: &Path, _: &[String]) -> Result<()> {
        Ok(())
    }
}

/// Removes a session while another process holds a lock. Returns whether `path` existed until the
/// lock was released.
fn remove_while_locked(files: &SessionFiles, locked: &Path, path: &Path) -> bool {
    let group = [files];
    let holdings = FileSet::to_remove(&group).unwrap();
    let holder = std::cell::RefCell::new(None);
    // All copies are checked once the first logs are locked.
    let safe = |within: &Path| {
        let mut holder = holder.borrow_mut();
        holder.get_or_insert_with(|| hold(locked, path));
        Ok(FileId::from(
            &fs::metadata(files.root.path.join(within)).unwrap(),
        ))
    };
    Store::remove_files(&group, &holdings, true, &Asked(safe)).unwrap();
    assert!(!path.exists());
    let holder = holder.borrow_mut().take();
    holder.unwrap().join().unwrap()
}

#[test]
fn logs_beyond_the_lock_limit_are_locked_one_by_one() {
    let (_dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let volumes = trash::volumes(group.iter().copied());
    assert_eq!(volumes.len(), trash::MAX_LOCKED_LOGS + 2);
    let first = volumes[trash::MAX_LOCKED_LOGS].path.clone();
    assert!(remove_while_locked(&files, &first, &first));
    // Their folders are removed too.
    let projects = files.root.path.join("projects");
    assert_eq!(fs::read_dir(projects).unwrap().count(), 0);
}

/// Other processes rename unlocked files back.
#[test]
fn log_beyond_the_lock_limit_is_locked_until_it_is_removed() {
    let (_dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let volumes = trash::volumes(group.iter().copied());
    let log = volumes[trash::MAX_LOCKED_LOGS].path.clone();
    let holdings = FileSet::to_remove(&group).unwrap();
    let safe = |within: &Path| {
        let path = files.root.path.join(within);
        Ok(FileId::from(&fs::metadata(path).unwrap()))
    };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(jsonl::put_back_file(&log).unwrap(), None);
            }
        });
        let removed = Store::remove_files(&group, &holdings, true, &Asked(safe));
        is_done.store(true, Ordering::Relaxed);
        removed.unwrap();
        other.join().unwrap();
    });
    assert!(!log.exists());
}

/// A file with the name of a removal may be the only copy.
#[test]
fn file_that_another_process_is_removing_stops_a_removal() {
    let (_dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let holdings = FileSet::to_remove(&group).unwrap();
    let fine = |_| Ok(());
    let copies = InMemory::new(&files, &holdings, &fine);
    let log = files.main_path();
    let name = log.file_name().unwrap().to_str().unwrap();
    let other = log.with_file_name(format!(".annals-{name}.removed"));
    fs::write(&other, "older\n").unwrap();
    let refused = Store::remove_files(&group, &holdings, true, &copies).unwrap_err();
    assert!(refused.to_string().contains(other.to_str().unwrap()));
    assert_eq!(fs::read(&other).unwrap(), b"older\n");
    copies.assert_all_present();
}

#[test]
fn file_moved_before_removal_is_an_error() {
    let (dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let holdings = FileSet::to_remove(&group).unwrap();
    let log = files.main_path();
    let vacated = |spoil: &dyn Fn()| {
        let safe = |within: &Path| {
            let id = FileId::from(&fs::metadata(files.root.path.join(within)).unwrap());
            spoil();
            Ok(id)
        };
        Store::remove_files(&group, &holdings, true, &Asked(safe)).unwrap_err()
    };
    let elsewhere = dir.path().join("elsewhere");
    let gone = vacated(&|| fs::rename(log, &elsewhere).unwrap());
    assert!(
        matches!(gone, Error::File(FileError::Changed { .. })),
        "{gone}"
    );
    fs::rename(&elsewhere, log).unwrap();
    let folder = log.parent().unwrap();
    let other = vacated(&|| {
        fs::rename(folder, &elsewhere).unwrap();
        fs::write(folder, "").unwrap();
    });
    assert!(
        matches!(other, Error::File(FileError::Io { .. })),
        "{other}"
    );
}

#[test]
fn documents_are_removed_under_their_directory_lock() {
    let (_dir, _store, files) = session_with_many_agents();
    // The first file that is not a log.
    let first = files.attachments[0].path.clone();
    assert!(remove_while_locked(&files, first.parent().unwrap(), &first));
}

#[test]
fn delete_waits_for_log_locks() {
    let (_dir, store, files) = session_with_many_agents();
    let volumes = trash::volumes(std::iter::once(&files));
    let log = volumes[trash::MAX_LOCKED_LOGS].path.clone();
    let mut holder = None;
    let still = || {
        holder = Some(hold(&log, &log));
        Ok(())
    };
    let deleted = store
        .trash()
        .clean_in(&[&files], Timestamp::UNIX_EPOCH, still);
    deleted.unwrap();
    assert!(holder.unwrap().join().unwrap());
    assert!(!log.exists());
}

#[test]
fn delete_fails_if_a_log_grew_since_the_check() {
    let (_dir, store, files) = session_with_many_agents();
    let volumes = trash::volumes(std::iter::once(&files));
    let log = volumes[trash::MAX_LOCKED_LOGS].path.clone();
    let still = || {
        let mut text = fs::read(&log).unwrap();
        text.extend(b"{}\n");
        fs::write(&log, text).unwrap();
        Ok(())
    };
    let refused = store
        .trash()
        .clean_in(&[&files], Timestamp::UNIX_EPOCH, still);
    assert!(
        matches!(&refused, Err(Error::File(FileError::Changed { path })) if *path == log),
        "{refused:?}"
    );
    assert!(volumes.iter().all(|file| file.path.exists()));
    assert!(store.trash().items().unwrap().is_empty());
}

#[test]
fn remove_ignores_a_lock_on_the_document_itself() {
    let (_dir, _store, files) = session_with_many_agents();
    let group = [&files];
    let holdings = FileSet::to_remove(&group).unwrap();
    // The first file after the logs.
    let (within, is_log) = &holdings.files[holdings.volumes];
    assert!(!is_log);
    let document = File::open(files.root.path.join(within)).unwrap();
    document.lock().unwrap();
    let safe = |within: &Path| {
        let path = files.root.path.join(within);
        Ok(FileId::from(&fs::metadata(path).unwrap()))
    };
    Store::remove_files(&group, &holdings, true, &Asked(safe)).unwrap();
}
