//! What was acknowledged is in the table once, whatever is repeated, reordered or interrupted.

use std::collections::BTreeMap;

use annals_hub::committer::{Committer, inbox, lane_of};
use annals_hub::delta::Table;
use annals_hub::segment_table::{self, SEGMENTS};
use annals_hub::store;
use annals_segments::{Digest, Header, Kind, Segment, SegmentWriter, SourceId, group};
use object_store::path::Path;

use crate::harness::{TestHub, open};

fn source() -> SourceId {
    SourceId::from_bytes([1; 16])
}

/// The segment with lines `from..to` of a file of numbers.
fn segment(file: &str, from: u64, to: u64) -> Segment {
    let content: String = (from..to).map(|number| format!("{number:07}\n")).collect();
    let header = Header {
        source: source(),
        layout: "claude-code".into(),
        root: "/home/me/.claude".into(),
        path: file.into(),
        generation: 1,
        kind: Kind::Lines,
        start: from * 8,
        end: to * 8,
        len: 0,
        digest: Digest::new(b""),
        mtime: 0,
        masked: Vec::new(),
    };
    SegmentWriter::new()
        .unwrap()
        .write(header, content.as_bytes())
        .unwrap()
}

fn put(hub: &TestHub, name: &str, segments: &[Segment]) {
    let lane = lane_of(source(), 2);
    let path = Path::from(format!("{}/{name}", inbox(lane)));
    let created = store::create(&hub.store, &path, group::write(segments).into());
    assert!(hub.runtime.block_on(created).unwrap());
}

/// Returns the numbers of each file, in the order of the table.
fn numbers(hub: &TestHub) -> BTreeMap<String, Vec<u64>> {
    let files = hub.committed_files().into_iter();
    let parse = |content: Vec<u8>| {
        let text = String::from_utf8(content).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    files.map(|file| (file.path, parse(file.content))).collect()
}

fn rows(hub: &TestHub) -> usize {
    hub.runtime.block_on(async {
        let table = Table::open(&hub.store, SEGMENTS).await.unwrap();
        let mut rows = 0;
        for add in table.files() {
            let file = store::read(&hub.store, &table.path_of(&add.path))
                .await
                .unwrap()
                .unwrap();
            rows += segment_table::read(file, false).unwrap().len();
        }
        rows
    })
}

#[test]
fn reordered_repeated_and_overlapping_segments_are_stored_once() {
    let hub = TestHub::start();
    put(&hub, "1", &[segment("a", 5, 9), segment("b", 0, 3)]);
    let pass = hub.commit();
    assert_eq!(
        (pass.added, pass.waiting),
        (1, 1),
        "bytes before it are missing"
    );
    put(&hub, "2", &[segment("a", 0, 5), segment("a", 0, 5)]);
    put(
        &hub,
        "3",
        &[segment("a", 0, 12), segment("b", 1, 2), segment("b", 2, 7)],
    );
    let pass = hub.commit();
    assert_eq!(pass.waiting, 0);
    let expected =
        [("a", 0..12), ("b", 0..7)].map(|(name, range)| (name.to_owned(), range.collect()));
    assert_eq!(numbers(&hub), BTreeMap::from(expected));
    assert_eq!(hub.objects("inbox"), Vec::<std::path::PathBuf>::new());
    assert_eq!(hub.commit().added, 0);
}

#[test]
fn objects_that_were_committed_but_not_removed_are_not_committed_again() {
    let hub = TestHub::start();
    let segments = [segment("a", 0, 4), segment("a", 4, 6)];
    put(&hub, "1", &segments);
    assert_eq!(hub.commit().added, 2);
    // The committer was killed before it removed the object.
    put(&hub, "1", &segments);
    // This hub knows what it committed; one that starts now reads it from the table.
    let (other, _) = hub.start_another();
    assert_eq!(hub.runtime.block_on(other.commit_all()).unwrap().added, 0);
    assert_eq!(hub.objects("inbox"), Vec::<std::path::PathBuf>::new());
    assert_eq!(rows(&hub), 2);
}

#[test]
fn committers_of_one_lane_that_race_commit_once() {
    let hub = TestHub::start();
    let lane = lane_of(source(), 2);
    let expected: Vec<u64> = (0..160).collect();
    let mut at = 0;
    for round in 0..10 {
        for part in 0..4 {
            put(
                &hub,
                &format!("{round:02}-{part}"),
                &[segment("a", at, at + 4)],
            );
            at += 4;
        }
        hub.runtime.block_on(async {
            let racers = (0..4).map(|_| {
                let store = open(hub.dir.path());
                tokio::spawn(async move { Committer::open(&store, lane).await?.run().await })
            });
            for racer in racers.collect::<Vec<_>>() {
                racer.await.unwrap().unwrap();
            }
        });
    }
    assert_eq!(numbers(&hub)["a"], expected);
    assert_eq!(rows(&hub), 40);
    // What the losers prepared is gone, and each transaction was committed once.
    let versions = hub.objects("tables/segments/_delta_log").len();
    let data = hub.objects("tables/segments").len() - versions;
    assert_eq!(
        versions,
        data + 1,
        "one version for each data file, and the creation"
    );
}

#[test]
fn damaged_groups_and_contradictions_are_put_aside() {
    let hub = TestHub::start();
    let lane = lane_of(source(), 2);
    let mut torn = group::write(&[segment("a", 0, 4)]);
    torn.truncate(torn.len() - 3);
    let path = Path::from(format!("{}/1", inbox(lane)));
    hub.runtime
        .block_on(store::create(&hub.store, &path, torn.into()))
        .unwrap();
    put(&hub, "2", &[segment("b", 0, 2)]);
    let mut middle = segment("b", 0, 3).header;
    middle.end = 20;
    middle.masked = vec![annals_segments::MaskedLine(0, 4)];
    middle.start = 0;
    let content: String = (0..3).map(|number| format!("{number:07}\n")).collect();
    let middle = SegmentWriter::new()
        .unwrap()
        .write(middle, content.as_bytes())
        .unwrap();
    put(&hub, "3", &[middle]);
    let pass = hub.commit();
    assert_eq!((pass.refused, pass.conflicts, pass.waiting), (1, 1, 0));
    assert_eq!(hub.objects("refused").len(), 2);
    put(&hub, "4", &[segment("b", 2, 4)]);
    hub.commit();
    assert_eq!(
        numbers(&hub),
        BTreeMap::from([("b".to_owned(), (0..4).collect())])
    );
    assert_eq!(hub.objects("inbox"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn data_file_that_another_writer_removed_is_reported() {
    let hub = TestHub::start();
    put(&hub, "1", &[segment("a", 0, 4)]);
    hub.commit();
    let lane = lane_of(source(), 2);
    let open = || hub.runtime.block_on(Committer::open(&hub.store, lane));
    let table = open().unwrap();
    let file = table.table().files().next().unwrap().path.clone();
    let remove =
        serde_json::json!({"remove": {"path": file, "dataChange": true, "deletionTimestamp": 1}});
    hub.runtime.block_on(async {
        let mut table = Table::open(&hub.store, SEGMENTS).await.unwrap();
        table.commit("DELETE", &[remove]).await.unwrap();
    });
    let error = open().unwrap_err().to_string();
    assert!(error.contains("another writer"), "{error}");
    assert!(hub.runtime.block_on(hub.hub.commit_all()).is_err());
}
