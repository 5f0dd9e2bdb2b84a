//! Whose locks are waited for before anything goes.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;

use super::*;
use crate::layout::Spawn;
use crate::model::{AgentId, Draft, Todo};
use crate::store::{Inventory, WriteOptions};

/// A session with more sub-agents than are locked at once, and todos.
fn crowd() -> (TempDir, Store, SessionFiles) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root.clone()]).with_state(dir.path().join("state"));
    let quick = WriteOptions {
        durability: jsonl::Durability::Os,
        ..WriteOptions::default()
    };
    let id = crate::model::SessionId::new("aaaaaaaa-0000-4000-8000-000000000000").unwrap();
    let new = crate::layout::NewSession::new(id, "/home/dev/w");
    let main = store.create(&root, &new, quick).unwrap();
    main.append(Draft::user("Go!")).unwrap();
    main.set_todos(&[Todo::pending("Wait")]).unwrap();
    for agent in 0..=trash::HELD {
        let id = AgentId::new(&format!("a{agent:04}")).unwrap();
        let agent = main.spawn(&Spawn::new(id, "Explore", "looks")).unwrap();
        agent.append(Draft::user("Look!")).unwrap();
    }
    drop(main);
    let files = Inventory::of(std::slice::from_ref(&root))
        .sessions
        .remove(0);
    (dir, store, files)
}

/// Has the lock of a file or directory for a moment from now on; tells whether `path` outlived it.
fn hold(locked: &Path, path: &Path) -> thread::JoinHandle<bool> {
    let (tell, told) = mpsc::channel();
    let (locked, path) = (locked.to_owned(), path.to_owned());
    let holder = thread::spawn(move || {
        let file = File::open(locked).unwrap();
        file.lock().unwrap();
        tell.send(()).unwrap();
        thread::sleep(Duration::from_millis(200));
        path.exists()
    });
    told.recv().unwrap();
    holder
}

/// The content of a session's files, by their paths within its root.
type Contents = Vec<(PathBuf, Vec<u8>)>;

/// Copies in memory, and what happens when it is asked whether they are there: the first time before
/// anything is removed, the second time when everything is.
struct InMemory<'a> {
    files: &'a SessionFiles,
    contents: Contents,
    asked: Cell<u32>,
    when_asked: &'a dyn Fn(u32) -> Result<()>,
    rows: RefCell<Vec<String>>,
}

impl<'a> InMemory<'a> {
    fn of(
        files: &'a SessionFiles,
        holdings: &Holdings,
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

    /// Every file is where it was, as it was.
    fn assert_there(&self) {
        for (within, content) in &self.contents {
            let now = fs::read(self.files.root.path.join(within)).unwrap();
            assert_eq!(now, *content, "{}", within.display());
        }
    }
}

impl Copies for InMemory<'_> {
    fn confirm(&self, within: &Path) -> Result<FileId> {
        let path = self.files.root.path.join(within);
        Ok(FileId::from(&fs::metadata(path).unwrap()))
    }

    fn are_there(&self) -> Result<()> {
        self.asked.set(self.asked.get() + 1);
        (self.when_asked)(self.asked.get())
    }

    fn put_back(&self, gone: &[&Path]) -> Result<()> {
        let gone_of = |path: &Path| gone.contains(&path);
        for (within, content) in self.contents.iter().filter(|(it, _)| gone_of(it)) {
            fs::write(self.files.root.path.join(within), content).unwrap();
        }
        Ok(())
    }

    fn keep_rows(&self, _: &Path, rows: &[String]) -> Result<()> {
        self.rows.borrow_mut().extend_from_slice(rows);
        Ok(())
    }
}

#[test]
fn files_come_back_if_their_copies_are_gone_when_the_last_file_is() {
    let (_dir, _store, files) = crowd();
    let group = [&files];
    let holdings = Holdings::to_go(&group).unwrap();
    let main = files.main_path();
    let vanish = |time: u32| match time {
        1 => Ok(()),
        _ => {
            assert!(!main.exists());
            Err(Error::refused("the copies are gone"))
        }
    };
    let copies = InMemory::of(&files, &holdings, &vanish);
    let refused = Store::vacate(&group, &holdings, true, &copies).unwrap_err();
    assert!(refused.to_string().contains("the copies are gone"));
    copies.assert_there();
}

#[test]
fn nothing_is_removed_if_the_copies_are_gone_before() {
    let (_dir, _store, files) = crowd();
    let group = [&files];
    let holdings = Holdings::to_go(&group).unwrap();
    let gone = |_| Err(Error::refused("the copies are gone"));
    let copies = InMemory::of(&files, &holdings, &gone);
    assert!(Store::vacate(&group, &holdings, true, &copies).is_err());
    copies.assert_there();
    assert_eq!(copies.asked.get(), 1);
}

#[test]
fn a_title_that_is_set_while_a_session_goes_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("chorus", dir.path().join(".chorus")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let id = crate::model::SessionId::new("conv-1").unwrap();
    let new = crate::layout::NewSession::new(id, "/home/dev/w");
    let session = store.create(&root, &new, WriteOptions::default()).unwrap();
    session.append(Draft::user("Go!")).unwrap();
    session.close().unwrap();
    let inventory = Inventory::of(std::slice::from_ref(&root));
    let files = &inventory.sessions[0];
    let group = [files];
    let holdings = Holdings::to_go(&group).unwrap();
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
    let copies = InMemory::of(files, &holdings, &titled);
    Store::vacate(&group, &holdings, true, &copies).unwrap();
    let rows = copies.rows.borrow();
    assert!(rows.iter().any(|row| row.contains("starred")), "{rows:?}");
}

/// Copies that are asked for, and are never needed.
struct Asked<F>(F);

impl<F: Fn(&Path) -> Result<FileId>> Copies for Asked<F> {
    fn confirm(&self, within: &Path) -> Result<FileId> {
        (self.0)(within)
    }

    fn are_there(&self) -> Result<()> {
        Ok(())
    }

    fn put_back(&self, _: &[&Path]) -> Result<()> {
        Ok(())
    }

    fn keep_rows(&self, _: &Path, _: &[String]) -> Result<()> {
        Ok(())
    }
}

/// Removes a session while another process holds a lock; tells whether `path` outlived that.
fn removed_beside(files: &SessionFiles, locked: &Path, path: &Path) -> bool {
    let group = [files];
    let holdings = Holdings::to_go(&group).unwrap();
    let holder = std::cell::RefCell::new(None);
    // All are asked for once the first logs are locked.
    let safe = |within: &Path| {
        let mut holder = holder.borrow_mut();
        holder.get_or_insert_with(|| hold(locked, path));
        Ok(FileId::from(
            &fs::metadata(files.root.path.join(within)).unwrap(),
        ))
    };
    Store::vacate(&group, &holdings, true, &Asked(safe)).unwrap();
    assert!(!path.exists());
    let holder = holder.borrow_mut().take();
    holder.unwrap().join().unwrap()
}

#[test]
fn logs_that_are_not_locked_from_the_beginning_are_locked_as_they_go() {
    let (_dir, _store, files) = crowd();
    let group = [&files];
    let volumes = trash::volumes(group.iter().copied());
    assert_eq!(volumes.len(), trash::HELD + 2);
    let first = volumes[trash::HELD].path.clone();
    assert!(removed_beside(&files, &first, &first));
    // And the folders that they lay in go with them.
    let projects = files.root.path.join("projects");
    assert_eq!(fs::read_dir(projects).unwrap().count(), 0);
}

#[test]
fn what_is_no_more_when_it_is_to_go_was_changed_by_others() {
    let (dir, _store, files) = crowd();
    let group = [&files];
    let holdings = Holdings::to_go(&group).unwrap();
    let log = files.main_path();
    let vacated = |spoil: &dyn Fn()| {
        let safe = |within: &Path| {
            let id = FileId::from(&fs::metadata(files.root.path.join(within)).unwrap());
            spoil();
            Ok(id)
        };
        Store::vacate(&group, &holdings, true, &Asked(safe)).unwrap_err()
    };
    let elsewhere = dir.path().join("elsewhere");
    let gone = vacated(&|| fs::rename(log, &elsewhere).unwrap());
    assert!(matches!(gone, Error::Changed { .. }), "{gone}");
    fs::rename(&elsewhere, log).unwrap();
    let folder = log.parent().unwrap();
    let other = vacated(&|| {
        fs::rename(folder, &elsewhere).unwrap();
        fs::write(folder, "").unwrap();
    });
    assert!(matches!(other, Error::Io { .. }), "{other}");
}

#[test]
fn documents_go_under_the_lock_of_those_who_replace_them() {
    let (_dir, _store, files) = crowd();
    // The first that is no log.
    let first = files.beside[0].path.clone();
    assert!(removed_beside(&files, first.parent().unwrap(), &first));
}

#[test]
fn a_deletion_locks_what_it_moves() {
    let (_dir, store, files) = crowd();
    let volumes = trash::volumes(std::iter::once(&files));
    let log = volumes[trash::HELD].path.clone();
    let mut holder = None;
    let still = || {
        holder = Some(hold(&log, &log));
        Ok(())
    };
    let deleted = store.delete_if(&files, &[], Timestamp::UNIX_EPOCH, still);
    deleted.unwrap();
    assert!(holder.unwrap().join().unwrap());
    assert!(!log.exists());
}

#[test]
fn a_log_that_grew_after_the_last_look_at_it_stays_with_all_others() {
    let (_dir, store, files) = crowd();
    let volumes = trash::volumes(std::iter::once(&files));
    let log = volumes[trash::HELD].path.clone();
    let still = || {
        let mut text = fs::read(&log).unwrap();
        text.extend(b"{}\n");
        fs::write(&log, text).unwrap();
        Ok(())
    };
    let refused = store.delete_if(&files, &[], Timestamp::UNIX_EPOCH, still);
    assert!(
        matches!(&refused, Err(Error::Changed { path }) if *path == log),
        "{refused:?}"
    );
    assert!(volumes.iter().all(|file| file.path.exists()));
    assert!(store.trashed().unwrap().is_empty());
}

#[test]
fn nobody_waits_for_the_lock_of_a_document_itself() {
    let (_dir, _store, files) = crowd();
    let group = [&files];
    let holdings = Holdings::to_go(&group).unwrap();
    // The first behind the logs.
    let (within, is_log) = &holdings.files[holdings.volumes];
    assert!(!is_log);
    let document = File::open(files.root.path.join(within)).unwrap();
    document.lock().unwrap();
    let safe = |within: &Path| {
        let path = files.root.path.join(within);
        Ok(FileId::from(&fs::metadata(path).unwrap()))
    };
    Store::vacate(&group, &holdings, true, &Asked(safe)).unwrap();
}
