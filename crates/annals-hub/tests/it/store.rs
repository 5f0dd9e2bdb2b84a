//! Stores that a hub refuses, and tables that something else wrote.

use std::fmt;
use std::sync::Arc;

use annals_hub::delta::Table;
use annals_hub::segment_table::SEGMENTS;
use annals_hub::store::{self, Store, probe};
use annals_hub::{Error, Hub, Options};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::runtime::Runtime;

use crate::harness::TestHub;

/// A store that ignores the condition of a write, as some S3 servers do.
#[derive(Debug)]
struct Careless(InMemory);

impl fmt::Display for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Careless")
    }
}

type Stream<T> = std::pin::Pin<Box<dyn futures_core::Stream<Item = Result<T>> + Send>>;

#[async_trait::async_trait]
impl ObjectStore for Careless {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        options.mode = PutMode::Overwrite;
        self.0.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: Stream<Path>) -> Stream<Path> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> Stream<ObjectMeta> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}

#[test]
fn store_that_creates_twice_is_refused() {
    let good: Store = Arc::new(InMemory::new());
    block_on(probe(&good)).unwrap();
    block_on(probe(&good)).unwrap();
    let careless: Store = Arc::new(Careless(InMemory::new()));
    let error = block_on(Hub::open(careless, Options::default())).unwrap_err();
    assert!(
        matches!(&error, Error::Unusable(why) if why.contains("If-None-Match")),
        "{error}"
    );
}

#[test]
fn store_without_its_marker_or_with_another_format_is_refused() {
    let hub = TestHub::start();
    let marker = hub.dir.path().join("annals-hub.json");
    let text = std::fs::read_to_string(&marker).unwrap();
    std::fs::write(&marker, "{\"annals-hub\":2}").unwrap();
    let error = block_on(probe(&hub.store)).unwrap_err().to_string();
    assert!(error.contains("\"annals-hub\":2"), "{error}");
    std::fs::remove_file(&marker).unwrap();
    let error = block_on(probe(&hub.store)).unwrap_err().to_string();
    assert!(error.contains("marker is missing"), "{error}");
    assert!(
        !marker.exists(),
        "nothing is created in a store that is not empty"
    );
    std::fs::write(&marker, text).unwrap();
    block_on(probe(&hub.store)).unwrap();
}

#[test]
fn table_that_another_writer_changed_is_refused() {
    let hub = TestHub::start();
    let log = |version: u64| {
        hub.dir
            .path()
            .join(format!("tables/segments/_delta_log/{version:020}.json"))
    };
    let created = std::fs::read_to_string(log(0)).unwrap();
    let open = || block_on(Table::open(&hub.store, SEGMENTS)).map(|table| table.version());
    let cases = [
        (
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7}}"#.to_owned(),
            "feature",
        ),
        (created.replace("\\\"blob\\\"", "\\\"bytes\\\""), "columns"),
        (
            created.replace("\"annals.schema\":\"1\"", "\"annals.schema\":\"2\""),
            "newer hub",
        ),
        (created.replace("annals.schema", "other"), "another program"),
        ("not JSON".to_owned(), "version 1 of its log"),
    ];
    for (content, expected) in cases {
        std::fs::write(log(1), content).unwrap();
        let error = open().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // What Delta Lake's own tools add to a log, and what this hub does not know, is no change.
    std::fs::write(
        log(1),
        r#"{"commitInfo":{"operation":"OPTIMIZE"}}
{"domainMetadata":{"domain":"x","configuration":"","removed":false}}
"#,
    )
    .unwrap();
    assert_eq!(open().unwrap(), Some(1));
    let version = block_on(store::read(&hub.store, &Path::from("lanes"))).unwrap();
    assert_eq!(version.unwrap(), "2");
}
