use super::*;

#[test]
fn what_was_asked_for_reaches_the_log() {
    let options = WriteOptions {
        durability: Durability::Os,
        network: true,
        ..WriteOptions::default()
    };
    let log = options.log(Create::New);
    assert_eq!((log.durability, log.create), (Durability::Os, Create::New));
    assert!(log.network);
    let log = WriteOptions::default().log(Create::Never);
    assert_eq!(
        (log.durability, log.create),
        (Durability::Disk, Create::Never)
    );
    assert!(!log.network);
}

#[test]
fn why_a_log_cannot_be_made_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let told = open_or_make(&file.join("log.jsonl"), WriteOptions::default());
    assert!(
        matches!(
            &told,
            Err(Error::Io {
                action: "create",
                ..
            })
        ),
        "{told:?}"
    );
    open_or_make(&file, WriteOptions::default()).unwrap();
    open_or_make(&dir.path().join("new"), WriteOptions::default()).unwrap();
}
