//! Attachments of sessions that share an id.

use super::*;
use crate::store::Root;

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000000";

/// Creates one id in two folders, and todos that may belong to either.
fn same_id_in_two_folders() -> (tempfile::TempDir, Vec<SessionFiles>) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path());
    for folder in ["-a", "-b"] {
        let folder = dir.path().join("projects").join(folder);
        fs::create_dir_all(folder.join(ID).join("tool-results")).unwrap();
        fs::write(folder.join(format!("{ID}.jsonl")), "{}\n").unwrap();
        fs::write(folder.join(ID).join("tool-results/one.txt"), "x").unwrap();
    }
    let todos = dir.path().join("todos");
    fs::create_dir(&todos).unwrap();
    fs::write(todos.join(format!("{ID}-agent-{ID}.json")), "[]").unwrap();
    let sessions = Inventory::scan(&[root]).sessions;
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|files| files.shared));
    (dir, sessions)
}

/// Counts the attachments inside the session's folder and elsewhere.
fn count_attachments(files: &SessionFiles) -> (usize, usize) {
    let own = own_attachments(files);
    let inside = own.iter().filter(|file| {
        let folder = file.artifact.folder.as_deref();
        folder.is_some() && folder == files.folder()
    });
    let inside = inside.count();
    (inside, own.len() - inside)
}

#[test]
fn files_shared_by_two_sessions_belong_to_neither() {
    let (_dir, sessions) = same_id_in_two_folders();
    let own: Vec<(usize, usize)> = sessions.iter().map(count_attachments).collect();
    assert_eq!(own, [(1, 0), (1, 0)]);
}

#[test]
fn shared_files_belong_to_the_remaining_session() {
    let (_dir, sessions) = same_id_in_two_folders();
    fs::remove_dir_all(sessions[1].main_path().parent().unwrap()).unwrap();
    assert_eq!(count_attachments(&sessions[0]), (1, 1));
    // But not to the deleted one.
    assert_eq!(count_attachments(&sessions[1]), (1, 0));
}
