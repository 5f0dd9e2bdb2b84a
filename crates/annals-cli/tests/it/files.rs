//! Tests of `files`.

use insta::assert_snapshot;

use crate::harness::Stage;

/// A stage with saved files, and the session's id.
fn saved() -> (Stage, String) {
    let stage = Stage::with_fixture("file-history");
    let id = session(&stage);
    (stage, id)
}

fn session(stage: &Stage) -> String {
    let logs = stage
        .tree()
        .into_keys()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let log = logs.min_by_key(|path| path.components().count()).unwrap();
    log.file_stem().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn files_lists_and_prints_versions() {
    let (stage, id) = saved();
    assert_snapshot!("files", stage.annals(&["files", &id]));
    assert_snapshot!("files_json", stage.annals(&["files", &id, "--json"]));
    assert_snapshot!("file_newest", stage.annals(&["files", &id, "src/main.rs"]));
    assert_snapshot!(
        "file_version",
        stage.annals(&["files", &id, "main.rs", "--version", "1"])
    );
    assert_snapshot!(
        "file_gone",
        stage.refused(&["files", &id, "main.rs", "--version", "3"], "")
    );
    assert_snapshot!(
        "file_absent",
        stage.refused(&["files", &id, "new.txt", "--version", "1"], "")
    );
    assert_snapshot!(
        "file_no_version",
        stage.refused(&["files", &id, "new.txt", "--version", "9"], "")
    );
    assert_snapshot!("file_unknown", stage.refused(&["files", &id, "ain.rs"], ""));
}

#[test]
fn files_compares_versions() {
    let (stage, id) = saved();
    assert_snapshot!(
        "diff_two",
        stage.annals(&["files", &id, "main.rs", "--diff", "1", "2"])
    );
    assert_snapshot!(
        "diff_same",
        stage.annals(&["files", &id, "main.rs", "--diff", "2", "2"])
    );
    // The recorded path does not exist on this disk, so the diff shows everything as removed.
    assert_snapshot!(
        "diff_disk",
        stage.annals(&["files", &id, "main.rs", "--diff", "1"])
    );
    assert_snapshot!(
        "diff_absent",
        stage.annals(&["files", &id, "new.txt", "--diff", "1", "2"])
    );
    assert_snapshot!(
        "diff_json",
        stage.annals(&["files", &id, "main.rs", "--diff", "1", "2", "--json"])
    );
    assert_snapshot!(
        "diff_gone",
        stage.refused(&["files", &id, "main.rs", "--diff", "3"], "")
    );
    assert_snapshot!("diff_which", stage.refused(&["files", &id, "--diff"], ""));
}

#[test]
fn files_restores_a_version_without_overwriting() {
    let (stage, id) = saved();
    let dest = stage.work().join("old.rs");
    let restore = |dest: &std::path::Path, more: &[&str]| {
        let mut args = vec![
            "files",
            &id,
            "main.rs",
            "--version",
            "1",
            "--restore",
            dest.to_str().unwrap(),
        ];
        args.extend(more);
        stage.annals(&args)
    };
    assert_snapshot!("restore", restore(&dest, &[]));
    let saved = std::fs::read(&dest).unwrap();
    assert_eq!(saved.len(), 13);
    std::fs::write(&dest, "mine").unwrap();
    assert_snapshot!("restore_exists", restore(&dest, &[]));
    assert_eq!(std::fs::read(&dest).unwrap(), b"mine");
    assert_snapshot!("restore_force_json", restore(&dest, &["--force", "--json"]));
    assert_eq!(std::fs::read(&dest).unwrap(), saved);
    // Into a directory, under the file's original name.
    restore(&stage.work(), &[]).fine();
    assert_eq!(std::fs::read(stage.work().join("main.rs")).unwrap(), saved);
    assert_snapshot!(
        "restore_nowhere",
        restore(&stage.work().join("no/such/dir"), &[])
    );
}

#[cfg(unix)]
#[test]
fn files_restore_does_not_follow_a_link() {
    let (stage, id) = saved();
    let (target, link) = (stage.work().join("target"), stage.work().join("link"));
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for more in [&[][..], &["--force"]] {
        let args = [
            "files",
            &id,
            "main.rs",
            "--version",
            "1",
            "--restore",
            link.to_str().unwrap(),
        ];
        let run = stage.refused(&[&args[..], more].concat(), "");
        assert!(run.err.contains("symbolic link"), "{run}");
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
}

#[test]
fn files_lists_and_prints_long_outputs() {
    let stage = Stage::with_fixture("2.1.325-s07-big");
    let id = session(&stage);
    assert_snapshot!("outputs", stage.annals(&["files", &id, "--outputs"]));
    assert_snapshot!(
        "outputs_json",
        stage.annals(&["files", &id, "--outputs", "--json"])
    );
    let run = stage.annals(&["files", &id, "by8n", "--outputs"]).fine();
    assert_eq!(run.out.len(), 228_894);
    assert_snapshot!(
        "output_unknown",
        stage.refused(&["files", &id, "../x", "--outputs"], "")
    );
    assert_snapshot!("files_none", stage.annals(&["files", &id]));
}
