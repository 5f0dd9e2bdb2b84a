use super::*;
use crate::store::Store;
use annals_jsonl::Error as FileError;

#[test]
fn write_options_reach_the_log() {
    let options = WriteOptions {
        durability: Durability::Os,
        network: true,
        ..WriteOptions::default()
    };
    let log = options.log_options(Create::New);
    assert_eq!((log.durability, log.create), (Durability::Os, Create::New));
    assert!(log.network);
    let log = WriteOptions::default().log_options(Create::Never);
    assert_eq!(
        (log.durability, log.create),
        (Durability::Disk, Create::Never)
    );
    assert!(!log.network);
}

#[test]
fn open_or_create_reports_why_it_failed() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new("claude-code", dir.path()).unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let result = open_or_create(&root, &file.join("log.jsonl"), WriteOptions::default());
    assert!(
        matches!(
            &result,
            Err(Error::File(FileError::Io {
                action: "create",
                ..
            }))
        ),
        "{result:?}"
    );
    open_or_create(&root, &file, WriteOptions::default()).unwrap();
    open_or_create(&root, &dir.path().join("new"), WriteOptions::default()).unwrap();
}

#[test]
fn many_records_end_at_the_current_time() {
    let layouts = annals_layouts::layout::LAYOUTS.iter();
    for layout in layouts.filter(|layout| layout.writer().is_some()) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(layout.name(), dir.path()).unwrap();
        let store = Store::new(vec![root.clone()]);
        let new = NewSession::unnamed("/home/dev/w").unwrap();
        let options = WriteOptions {
            durability: Durability::Os,
            ..WriteOptions::default()
        };
        let writer = store.create(&root, &new, options).unwrap();
        let is_rising = layout.writer().unwrap().needs_rising_times();
        let mut newest = None;
        for round in 0..2 {
            let drafts = (0..500).map(|number| Draft::user(format!("message {number}")));
            let written = writer.append_all(drafts.collect()).unwrap();
            let now = Timestamp::now();
            let messages = written.iter();
            let messages = messages.filter(|entry| matches!(entry.body, Body::Message(_)));
            let times: Vec<Timestamp> = messages.filter_map(|entry| entry.time).collect();
            assert_eq!(times.len(), 500, "{}", layout.name());
            assert!(newest <= times.first().copied(), "{}", layout.name());
            let is_in_order = |pair: &[Timestamp]| match is_rising {
                true => pair[0] < pair[1],
                false => pair[0] <= pair[1],
            };
            assert!(times.windows(2).all(is_in_order), "{}", layout.name());
            newest = times.last().copied();
            // The second batch has no time to begin earlier.
            if !is_rising || round == 0 {
                assert!(newest <= Some(now), "{}: {newest:?}", layout.name());
            }
        }
    }
}
