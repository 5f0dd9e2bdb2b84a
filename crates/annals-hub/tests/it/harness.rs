//! A running hub, and machines with a history.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use annals::model::Draft;
use annals::store::{Root, Store as Sessions};
use annals_hub::access::Owner;
use annals_hub::delta::Table;
use annals_hub::files::{StoredFile, assemble};
use annals_hub::segment_table::SEGMENTS;
use annals_hub::store::{self, Store};
use annals_hub::{Hub, Options, server};
use annals_push::{Client, MaskPolicy, Report, push};
use annals_segments::SourceId;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A hub that listens on a free port, on a store in a temporary directory.
pub(crate) struct TestHub {
    pub(crate) dir: TempDir,
    pub(crate) _cache: TempDir,
    pub(crate) store: Store,
    pub(crate) hub: Arc<Hub>,
    pub(crate) url: String,
    pub(crate) runtime: Runtime,
}

/// Opens the store in a directory.
pub(crate) fn open(dir: &Path) -> Store {
    store::open(&format!("file://{}", dir.display()), []).unwrap()
}

impl TestHub {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let store = open(dir.path());
        let cache = tempfile::tempdir().unwrap();
        let (hub, url) = runtime.block_on(start(store.clone(), Some(cache.path().into())));
        TestHub {
            _cache: cache,
            dir,
            store,
            hub,
            url,
            runtime,
        }
    }

    /// Starts another hub on the same store. Returns its address.
    pub(crate) fn start_another(&self) -> (Arc<Hub>, String) {
        self.runtime.block_on(start(open(self.dir.path()), None))
    }

    /// Creates a machine with a token.
    pub(crate) fn machine(&self, number: u8) -> Machine {
        let source = SourceId::from_bytes([number; 16]);
        let owner = Owner::Machine {
            source,
            name: format!("machine {number}"),
        };
        let token = self
            .runtime
            .block_on(self.hub.access().create(&owner))
            .unwrap()
            .token;
        Machine::new(source, token)
    }

    /// Creates the token of a reader.
    pub(crate) fn reader(&self, owner: &Owner) -> String {
        self.runtime
            .block_on(self.hub.access().create(owner))
            .unwrap()
            .token
    }

    pub(crate) fn commit(&self) -> annals_hub::committer::Pass {
        self.runtime.block_on(self.hub.commit_all()).unwrap()
    }

    /// Commits, and returns the stored files.
    pub(crate) fn files(&self) -> Vec<StoredFile> {
        self.commit();
        self.committed_files()
    }

    /// Returns the stored files.
    pub(crate) fn committed_files(&self) -> Vec<StoredFile> {
        self.runtime.block_on(async {
            let table = Table::open(&self.store, SEGMENTS).await.unwrap();
            assemble(&self.store, &table, |_| true).await.unwrap()
        })
    }

    /// Returns the objects below a prefix.
    pub(crate) fn objects(&self, prefix: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.dir.path().join(prefix)];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => dirs.push(path),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        found
    }
}

/// The time for answers.
pub(crate) fn now() -> jiff::Timestamp {
    "2026-11-01T12:00:00Z".parse().unwrap()
}

async fn start(store: Store, cache: Option<PathBuf>) -> (Arc<Hub>, String) {
    let options = Options {
        lanes: 2,
        commit_every: Duration::from_secs(1),
        cache,
        now: Some(now()),
    };
    let hub = Arc::new(Hub::open(store, options).await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(server::serve(listener, Arc::clone(&hub)));
    (hub, url)
}

/// A machine with a root of Claude Code and a state directory.
pub(crate) struct Machine {
    pub(crate) home: TempDir,
    pub(crate) state: TempDir,
    pub(crate) source: SourceId,
    pub(crate) token: String,
    pub(crate) host: String,
    pub(crate) mask: MaskPolicy,
}

impl Machine {
    pub(crate) fn new(source: SourceId, token: String) -> Self {
        // In the order of the ids: of two copies of a session, the one in the first root has the costs.
        let home = tempfile::Builder::new()
            .prefix(&format!("{source}-"))
            .tempdir();
        Machine {
            home: home.unwrap(),
            state: tempfile::tempdir().unwrap(),
            host: format!("host of {source}"),
            source,
            token,
            mask: MaskPolicy::None,
        }
    }

    pub(crate) fn sessions(&self) -> Sessions {
        Sessions::new(vec![Root::claude_code(self.home.path())])
    }

    /// Creates a session with some messages. Returns its id.
    pub(crate) fn begin(&self, project: &str, messages: &[&str]) -> String {
        let session = self.sessions().begin(project).unwrap();
        for message in messages {
            session.append(Draft::user(*message)).unwrap();
        }
        session.session().to_string()
    }

    pub(crate) fn append(&self, session: &str, message: &str) {
        let session = self.sessions().resume(session, Default::default()).unwrap();
        session.append(Draft::user(message)).unwrap();
    }

    pub(crate) fn client(&self, url: &str) -> Client {
        Client::new(url, &self.token, &self.host).unwrap()
    }

    pub(crate) fn try_push(&self, url: &str) -> annals_push::Result<Report> {
        let inventory = self.sessions().inventory();
        let options = annals_push::Options {
            mask: self.mask,
            now: 1_700_000_000,
        };
        push(
            &inventory,
            &self.client(url),
            self.state.path(),
            options,
            &|_, _| (),
        )
    }

    pub(crate) fn push(&self, url: &str) -> Report {
        let report = self.try_push(url).unwrap();
        assert!(report.failed.is_empty(), "{:?}", report.failed);
        report
    }

    /// Forgets what was pushed.
    pub(crate) fn lose_state(&self) {
        std::fs::remove_dir_all(self.state.path().join("push")).unwrap();
    }

    /// The log of a session.
    pub(crate) fn log(&self, session: &str) -> PathBuf {
        let found = self
            .sessions()
            .find(&self.sessions().inventory(), session)
            .unwrap();
        found.files.log.unwrap().path
    }

    /// Asserts that the stored files of this machine are those on disk.
    pub(crate) fn assert_stored(&self, files: &[StoredFile]) {
        let own: Vec<_> = files
            .iter()
            .filter(|file| file.source == self.source)
            .collect();
        let logs = self.sessions().inventory().sessions.len();
        assert!(own.len() >= logs, "{} files, {logs} sessions", own.len());
        for file in own {
            let path = Path::new(&file.root).join(&file.path);
            assert_eq!(
                file.content,
                std::fs::read(&path).unwrap(),
                "{}",
                path.display()
            );
        }
    }
}
