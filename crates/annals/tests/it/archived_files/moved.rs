//! Files of a renamed or copied session are read and restored in its current folder.

use std::fs;
use std::path::Path;

use annals::Error;
use annals::archive::{RestoreOutcome, RestoredFile};

use super::{Desk, SESSION, agent, line, log, zebras};

/// The folder was renamed, then its files were deleted.
#[test]
fn files_of_a_renamed_folder_are_read_before_and_after_keep() {
    let desk = Desk::new();
    desk.keep();
    fs::rename(desk.at("projects/-app"), desk.at("projects/-new")).unwrap();
    assert_eq!(desk.kept(), [""; 0]);
    fs::remove_dir_all(desk.at(format!("projects/-new/{SESSION}"))).unwrap();
    let mut wanted = vec![
        agent("one").replace("-app", "-new"),
        agent("two").replace("-app", "-new"),
        format!("projects/-new/{SESSION}/tool-results/r.txt"),
    ];
    wanted.sort();
    let archive = desk.store.archive().unwrap();
    for keeps in [false, true] {
        if keeps {
            desk.keep();
        }
        let mut kept = desk.kept();
        kept.sort();
        assert_eq!(kept, wanted, "{keeps}");
        let inventory = desk.store.inventory();
        let found = desk.store.search(&inventory, &zebras()).unwrap();
        assert_eq!((found.hits.len(), found.errors.len()), (2, 0));
        // The archive has the session once, and follows the rename.
        let session = archive.find(SESSION).unwrap();
        let main = session.root.join(&session.main_log().unwrap().path);
        let path = match keeps {
            false => desk.at(log(SESSION)),
            true => desk.at(new_log()),
        };
        assert_eq!(main, path);
        assert_eq!(annals::archive::verify(&session), []);
        // It is found by its id, by the path of its log, and by the tag of its folder.
        let tagged = format!("8c54.{}", &session.tag().unwrap()[..4]);
        for name in [path.to_str().unwrap(), &tagged] {
            assert_eq!(archive.find(name).unwrap().path, session.path, "{name}");
        }
        // The path of a log does not select a session for removal.
        archive
            .plan_removal(path.to_str().unwrap(), None)
            .unwrap_err();
        let stored = session.path.to_str().unwrap();
        assert_eq!(
            archive.plan_removal(stored, None).unwrap()[0].pack,
            session.path
        );
    }
    let session = desk.store.find_to_restore(SESSION, None).unwrap();
    assert!(
        session
            .main_log()
            .unwrap()
            .path
            .starts_with("projects/-new")
    );
    session.restore(None).unwrap();
    assert_eq!(desk.kept(), [""; 0]);
    assert!(!desk.at("projects/-app").exists());
    let text = fs::read_to_string(desk.at(agent("one").replace("-app", "-new"))).unwrap();
    assert_eq!(text, line(SESSION, "c1", "", "zebra one"));
    // If both exist, the id is ambiguous.
    fs::create_dir_all(desk.at("projects/-app")).unwrap();
    fs::copy(desk.at(new_log()), desk.at(log(SESSION))).unwrap();
    desk.keep();
    let error = desk.store.find_to_restore(SESSION, None).unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

fn new_log() -> String {
    log(SESSION).replace("-app", "-new")
}

/// Nothing was archived from the new folder yet, so what was archived from the old one is used.
#[test]
fn restore_writes_into_the_renamed_folder() {
    let desk = Desk::new();
    desk.keep();
    fs::rename(desk.at("projects/-app"), desk.at("projects/-new")).unwrap();
    fs::remove_dir_all(desk.at(format!("projects/-new/{SESSION}"))).unwrap();
    fs::remove_dir_all(desk.at("todos")).unwrap();
    let grown = line(SESSION, "a1", "", "main") + &line(SESSION, "a2", "a1", "went on");
    let appended = fs::OpenOptions::new().append(true).open(desk.at(new_log()));
    let more = grown
        .strip_prefix(&line(SESSION, "a1", "", "main"))
        .unwrap();
    std::io::Write::write_all(&mut appended.unwrap(), more.as_bytes()).unwrap();
    let restored = desk.store.find_to_restore(SESSION, None).unwrap();
    let restored = restored.restore(None).unwrap();
    let new = |file: &&RestoredFile| file.fate == RestoreOutcome::New;
    assert_eq!(restored.files.iter().filter(new).count(), 4);
    assert!(!desk.at("projects/-app").exists());
    assert_eq!(desk.kept(), [""; 0]);
    assert_eq!(fs::read_to_string(desk.at(new_log())).unwrap(), grown);
    assert!(desk.at(agent("two").replace("-app", "-new")).is_file());
    // What is named by its path is restored to its original paths.
    let session = desk.store.archive().unwrap().find(SESSION).unwrap();
    let path = session.path.to_str().unwrap();
    let session = desk.store.find_to_restore(path, None).unwrap();
    session.restore(None).unwrap();
    assert!(desk.at(log(SESSION)).is_file());
}

/// Files outside of session folders belong to the first of the two, whichever they were archived
/// with.
#[test]
fn copied_session_gets_back_files_archived_with_the_original() {
    let desk = Desk::new();
    desk.keep();
    fs::create_dir_all(desk.at("projects/-aaa")).unwrap();
    fs::copy(
        desk.at(log(SESSION)),
        desk.at(log(SESSION).replace("-app", "-aaa")),
    )
    .unwrap();
    fs::remove_dir_all(desk.at("projects/-app")).unwrap();
    fs::remove_dir_all(desk.at("file-history")).unwrap();
    desk.keep();
    let saved = format!("file-history/{SESSION}/0a1b@v1");
    let inventory = desk.store.inventory();
    let kept = inventory.sessions.iter().filter(|it| !it.is_archived());
    let kept: Vec<&str> = kept.map(|it| it.id.as_str()).collect();
    assert_eq!(kept, [SESSION]);
    let restored = desk.store.find_to_restore(SESSION, None).unwrap();
    let restored = restored.restore(None).unwrap();
    assert!(
        restored
            .files
            .iter()
            .any(|file| file.path == Path::new(&saved))
    );
    assert_eq!(fs::read(desk.at(&saved)).unwrap(), b"saved");
    assert!(!desk.at("projects/-app").exists());
}

/// Restores everything or nothing.
#[test]
fn restore_writes_nothing_if_a_file_is_damaged() {
    let desk = Desk::new();
    desk.keep();
    fs::rename(desk.at("projects/-app"), desk.at("projects/-new")).unwrap();
    for id in ["one", "two"] {
        fs::remove_file(desk.at(agent(id).replace("-app", "-new"))).unwrap();
    }
    desk.keep();
    let session = desk.store.find_to_restore(SESSION, None).unwrap();
    let two = agent("two").replace("-app", "-new");
    let stored = session.location(session.member(Path::new(&two)).unwrap());
    let mut bytes = fs::read(&stored).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&stored, bytes).unwrap();
    assert_eq!(session.plan_restore(None).unwrap().conflicts().count(), 0);
    session.restore(None).unwrap_err();
    let mut names = fs::read_dir(desk.at(format!("projects/-new/{SESSION}/subagents"))).unwrap();
    assert!(names.next().is_none());
}

/// The session was archived under both folder names; both folders are deleted.
#[test]
fn session_archived_under_two_folder_names_is_listed_once() {
    for grows in [false, true] {
        let desk = Desk::new();
        desk.keep();
        fs::rename(desk.at("projects/-app"), desk.at("projects/-new")).unwrap();
        // Files that were only archived under the old name also belong to the session.
        fs::remove_file(desk.at(agent("one").replace("-app", "-new"))).unwrap();
        let mut text = fs::read_to_string(desk.at(new_log())).unwrap();
        if grows {
            text += &line(SESSION, "a2", "a1", "went on");
            fs::write(desk.at(new_log()), &text).unwrap();
        }
        desk.keep();
        fs::remove_dir_all(desk.at("projects")).unwrap();
        let reported = |archived: bool| {
            let sessions = desk.store.inventory().sessions;
            let mut sessions = sessions.iter().filter(|it| it.id.as_str() == SESSION);
            let session = sessions.next().unwrap();
            assert_eq!(sessions.count(), 0, "{grows}");
            assert_eq!(session.is_archived(), archived, "{grows}");
            assert_eq!(session.main_path(), desk.at(new_log()), "{grows}");
        };
        reported(true);
        let found = desk.store.search(&desk.store.inventory(), &zebras());
        assert_eq!(found.unwrap().hits.len(), 2, "{grows}");
        let restoring = desk.store.find_to_restore(SESSION, None).unwrap();
        restoring.restore(None).unwrap();
        assert_eq!(fs::read_to_string(desk.at(new_log())).unwrap(), text);
        assert!(desk.at(agent("one").replace("-app", "-new")).is_file());
        assert!(!desk.at("projects/-app").exists());
        reported(false);
    }
}

/// The log was rewritten under the new name: both versions are listed.
#[test]
fn sessions_of_one_id_with_different_logs_stay_separate() {
    let desk = Desk::new();
    desk.keep();
    fs::rename(desk.at("projects/-app"), desk.at("projects/-new")).unwrap();
    let other = line(
        SESSION,
        "b1",
        "",
        "another, and longer than what it was before",
    );
    fs::write(desk.at(new_log()), other).unwrap();
    desk.keep();
    fs::remove_dir_all(desk.at("projects")).unwrap();
    let sessions = desk.store.inventory().sessions;
    let reported = sessions.iter().filter(|it| it.id.as_str() == SESSION);
    assert_eq!(reported.count(), 2);
    desk.store.find_to_restore(SESSION, None).unwrap_err();
}
