//! Archived sessions that are no longer in the root are listed, shown, searched and priced as
//! before.

use annals::cost::Ledger;
use annals::model::{Draft, Entry, Todo};
use annals::search::Query;
use annals::store::{Inventory, Session, SessionFiles, SessionInfo, Store, WriteOptions};
use jiff::Timestamp;

use crate::support::{indexed, writable_cases};

/// All answers about a store's sessions, in a comparable form.
struct Answers {
    rows: Vec<String>,
    entries: Vec<Vec<Entry>>,
    last: Vec<Vec<Entry>>,
    hits: Vec<String>,
    /// Charges with their accounts, sorted.
    ledger: Vec<String>,
}

impl Answers {
    fn read(store: &Store) -> Self {
        let query = Query::parse("the OR a OR main OR test", &Default::default());
        let query = query.unwrap().limit(1_000);
        let quiet = |_: u64, _: u64| {};
        let inventory = store.inventory();
        let rows = store.sessions(&inventory).read(&quiet);
        let found = store.search(&inventory, &query).unwrap();
        let ledger = store.costs().ledger(&quiet).0;
        assert!(inventory.errors.is_empty(), "{:?}", inventory.errors);
        let rows = rows.into_iter().map(|row| reported(row.unwrap()));
        let mut hits: Vec<String> = found.hits.iter().map(|hit| format!("{hit:?}")).collect();
        // The order of equal hits may depend on when a file was found.
        hits.sort();
        Answers {
            rows: rows.collect(),
            entries: each(&inventory, |session| {
                let logs = session.files.logs();
                let entries = logs.map(|log| session.root().entries(log).unwrap());
                entries.flatten().collect()
            }),
            last: each(&inventory, |session| session.last_messages(3).unwrap()),
            hits,
            ledger: spent(&ledger),
        }
    }
}

/// Asserts that two answers are equal; prints only the first difference.
fn same(one: &Answers, other: &Answers, what: &str) {
    fn first<T: PartialEq + std::fmt::Debug>(one: &[T], other: &[T], what: &str) {
        assert_eq!(one.len(), other.len(), "{what}");
        let differs = one.iter().zip(other).find(|(one, other)| one != other);
        assert!(differs.is_none(), "{what}: {differs:#?}");
    }
    first(&one.rows, &other.rows, what);
    first(&one.entries, &other.entries, what);
    first(&one.last, &other.last, what);
    first(&one.hits, &other.hits, what);
    first(&one.ledger, &other.ledger, what);
}

/// Formats a row without the fields that must differ.
fn reported(mut row: SessionInfo) -> String {
    (row.archived, row.expires, row.keep_days) = (false, None, None);
    format!("{row:?}")
}

fn spent(ledger: &Ledger) -> Vec<String> {
    let charges = ledger.charges.iter().map(|charge| {
        let mut charge = charge.clone();
        let account = &ledger.accounts[charge.account];
        charge.account = 0;
        format!("{account:?} {charge:?}")
    });
    let mut spent: Vec<String> = charges.collect();
    spent.sort();
    spent
}

fn each<T>(inventory: &Inventory, look: impl Fn(Session) -> T) -> Vec<T> {
    let sessions = inventory.sessions.iter().cloned();
    sessions
        .map(|files| look(Session::read(files).unwrap()))
        .collect()
}

/// Archives all sessions of a store and removes them from its roots.
fn archive_all(store: &Store) -> usize {
    let inventory = store.inventory_without_archive();
    let mut sessions: Vec<&SessionFiles> = inventory.sessions.iter().collect();
    sessions.retain(|files| !files.is_unwritten());
    let groups = SessionFiles::group_by_shared_files(&sessions);
    for group in &groups {
        store
            .move_to_archive(group, true, Timestamp::now())
            .unwrap();
    }
    sessions.len()
}

/// Returns the answers of a store with an index that has all text.
fn with_index(store: &Store) -> Answers {
    let index = store.index().unwrap();
    let text = index.update_text(&store.inventory(), &|_, _| {}, &|| false);
    assert!(text.unwrap().is_empty());
    Answers::read(store)
}

#[test]
fn an_archived_session_answers_as_before() {
    let mut archived = 0;
    for case in writable_cases() {
        let copy = case.copy();
        let state = copy.dir.path().join("state");
        let store = Store::new(vec![copy.root.clone()]).with_state(&state);
        // Rebuild outdated session lists first, as any writer would.
        for stale in store.repairs().stale_session_lists(&store.inventory()) {
            store
                .repairs()
                .rebuild_session_list(&stale.unwrap())
                .unwrap();
        }
        let index = indexed(&store, &state);
        let before = Answers::read(&store);
        same(&with_index(&index), &before, &case.name);
        archived += archive_all(&store);
        let left = store.inventory_without_archive().sessions;
        assert!(left.iter().all(SessionFiles::is_unwritten), "{}", case.name);
        let inventory = store.inventory();
        let mut sessions = inventory.sessions.iter();
        assert!(sessions.all(|files| files.is_archived() != files.is_unwritten()));
        same(&Answers::read(&store), &before, &case.name);
        same(&with_index(&index), &before, &case.name);
        // A new index reads the archive.
        index.index().unwrap().delete().unwrap();
        same(&with_index(&index), &before, &case.name);
    }
    assert!(archived > 50, "{archived}");
}

#[test]
fn archived_session_cannot_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let root = annals::store::Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("Why?")).unwrap();
    let id = session.session();
    drop(session);
    archive_all(&store);
    let reported = |error: annals::Error| {
        let text = error.to_string();
        assert!(text.contains("annals restore"), "{text}");
    };
    let options = WriteOptions::default();
    reported(store.resume(id.as_str(), options).map(drop).unwrap_err());
    let inventory = store.inventory();
    let files = inventory.sessions.first().unwrap();
    reported(
        store
            .trash()
            .move_in(files, Timestamp::now())
            .map(drop)
            .unwrap_err(),
    );
    assert_eq!(store.session(id.as_str()).unwrap().files.id, id);
}

/// A session in the root is listed once, in its current state.
#[test]
fn mirrored_session_in_the_root_is_listed_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = annals::store::Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("Why?")).unwrap();
    let inventory = store.inventory_without_archive();
    let group: Vec<&SessionFiles> = inventory.sessions.iter().collect();
    store.copy_to_archive(&group, Timestamp::now()).unwrap();
    session.append(Draft::user("And then?")).unwrap();
    let sessions = store.inventory().sessions;
    assert_eq!(sessions.len(), 1);
    assert!(!sessions[0].is_archived());
    let read = Session::read(sessions[0].clone()).unwrap();
    assert_eq!(read.last_messages(9).unwrap().len(), 2);
    // Its program deletes the log; the archived copy remains.
    std::fs::remove_file(sessions[0].main_path()).unwrap();
    let sessions = store.inventory().sessions;
    assert!(sessions[0].is_archived());
    let read = Session::read(sessions[0].clone()).unwrap();
    assert_eq!(read.last_messages(9).unwrap().len(), 1);
}

/// Creates a store with one session that has one question.
fn asked(todos: &[Todo]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let root = annals::store::Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root]).with_state(dir.path().join("state"));
    let session = store.begin("/home/me/app").unwrap();
    session.append(Draft::user("Why?")).unwrap();
    if !todos.is_empty() {
        session.set_todos(todos).unwrap();
    }
    (dir, store)
}

/// While the log exists, missing files are read from the archive. If one is missing there too, that
/// is an error.
#[test]
fn missing_file_of_a_session_is_read_from_the_archive() {
    let (_dir, store) = asked(&[Todo::pending("Answer")]);
    let inventory = store.inventory_without_archive();
    let group: Vec<&SessionFiles> = inventory.sessions.iter().collect();
    store.copy_to_archive(&group, Timestamp::now()).unwrap();
    let beside = group[0].files().map(|file| &file.path);
    let todos: Vec<_> = beside
        .filter(|path| **path != group[0].main_path())
        .collect();
    assert_eq!(todos.len(), 1);
    std::fs::remove_file(todos[0]).unwrap();
    let reported = |inventory: &Inventory| {
        let files = inventory.sessions[0].files();
        let kept = files.filter(|file| file.is_archived());
        let kept: Vec<_> = kept.map(|file| file.path.clone()).collect();
        assert!(!inventory.sessions[0].is_archived());
        (kept, inventory.errors.len())
    };
    assert_eq!(reported(&store.inventory()), (vec![todos[0].clone()], 0));
    let session = store.archive().unwrap().find(group[0].id.as_str()).unwrap();
    std::fs::remove_file(session.location(&session.members[1])).unwrap();
    assert_eq!(reported(&store.inventory()), (vec![], 1));
}

/// Files that are still in the root are read from there, and listed once.
#[test]
fn files_left_in_the_root_are_not_listed_twice() {
    let (_dir, store) = asked(&[Todo::pending("Answer")]);
    let inventory = store.inventory_without_archive();
    let group: Vec<&SessionFiles> = inventory.sessions.iter().collect();
    store.copy_to_archive(&group, Timestamp::now()).unwrap();
    std::fs::remove_file(group[0].main_path()).unwrap();
    let sessions = store.inventory().sessions;
    assert_eq!(sessions.len(), 1);
    assert!(sessions[0].is_archived());
    let mut paths: Vec<_> = sessions[0].files().map(|file| &file.path).collect();
    assert_eq!(paths.len(), 2);
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 2);
}

/// The renamed folder holds the session that was archived before, not another one.
#[test]
fn session_in_a_renamed_folder_is_listed_once() {
    let (_dir, store) = asked(&[]);
    let inventory = store.inventory_without_archive();
    let group: Vec<&SessionFiles> = inventory.sessions.iter().collect();
    store.copy_to_archive(&group, Timestamp::now()).unwrap();
    let folder = inventory.sessions[0]
        .main_path()
        .parent()
        .unwrap()
        .to_owned();
    std::fs::rename(&folder, folder.with_file_name("-home-me-new")).unwrap();
    let sessions = store.inventory().sessions;
    assert_eq!(sessions.len(), 1);
    assert!(!sessions[0].is_archived());
}
