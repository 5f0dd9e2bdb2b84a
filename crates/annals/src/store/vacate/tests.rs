//! Whose locks are waited for before anything goes.

use std::fs::File;
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
    Store::vacate(&group, &holdings, true, &safe, &|_| Ok(())).unwrap();
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
        Store::vacate(&group, &holdings, true, &safe, &|_| Ok(())).unwrap_err()
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
    Store::vacate(&group, &holdings, true, &safe, &|_| Ok(())).unwrap();
}
