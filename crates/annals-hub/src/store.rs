//! The object store: opening it by URL, and finding out whether it can be relied on.

use std::sync::Arc;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use url::Url;
use uuid::Uuid;

use crate::error::{Error, Result};

/// A shared object store.
pub type Store = Arc<dyn ObjectStore>;

/// Number of writers that race for one object in the probe.
const RACERS: usize = 16;

/// Number of objects that they race for.
const RACES: usize = 4;

/// Object that says which format the store has.
const MARKER: &str = "annals-hub.json";

/// Content of the marker.
const FORMAT: &str = "{\"annals-hub\":1}\n";

/// Opens a store: `file:///DIR`, or `s3://BUCKET/PREFIX` with the settings of `options`
/// (`aws_endpoint`, `aws_access_key_id` …). A directory must exist.
pub fn open(url: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Store> {
    let parsed = Url::parse(url);
    let url = parsed.map_err(|error| Error::Unusable(format!("`{url}` is no URL: {error}")))?;
    if url.scheme() == "file" {
        let path = url.to_file_path();
        let path = path.map_err(|()| Error::Unusable(format!("`{url}` names no directory")))?;
        let files = LocalFileSystem::new_with_prefix(path)?;
        return Ok(Arc::new(files.with_fsync(true)));
    }
    let (store, prefix) = object_store::parse_url_opts(&url, options)?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

/// Writes an object if none exists at `path`. Returns whether it was written.
///
/// A write whose answer was lost is repeated by the client, and then finds its own object. So content
/// that no other writer has counts as written if it is there.
pub async fn create(store: &Store, path: &Path, content: Bytes) -> Result<bool> {
    let payload = PutPayload::from_bytes(content.clone());
    match store.put_opts(path, payload, PutMode::Create.into()).await {
        Ok(_) => Ok(true),
        Err(
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
        ) => Ok(read(store, path)
            .await?
            .is_some_and(|found| found == content)),
        Err(error) => Err(error.into()),
    }
}

/// Reads an object. Returns `None` if it does not exist.
pub async fn read(store: &Store, path: &Path) -> Result<Option<Bytes>> {
    match store.get(path).await {
        Ok(found) => Ok(Some(found.bytes().await?)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes an object, which need not exist.
pub async fn remove(store: &Store, path: &Path) -> Result<()> {
    match store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the objects directly below a prefix, by name.
pub async fn list(store: &Store, prefix: &str) -> Result<Vec<Path>> {
    let listed = store.list_with_delimiter(Some(&Path::from(prefix))).await?;
    let mut paths: Vec<Path> = listed
        .objects
        .into_iter()
        .map(|object| object.location)
        .collect();
    paths.sort_unstable();
    Ok(paths)
}

/// Checks that the store refuses to create an object twice, and creates or checks the marker.
///
/// A store that ignores the condition would lose commits in silence, so it is refused.
pub async fn probe(store: &Store) -> Result<()> {
    let unusable = |text: &str| Err(Error::Unusable(text.to_owned()));
    let run = Uuid::new_v4();
    let path = |name: usize| Path::from(format!("probe/{run}-{name}"));
    let mut outcome = Ok(());
    for race in 0..RACES {
        let racers = (0..RACERS).map(|racer| {
            let (store, path) = (Arc::clone(store), path(race));
            tokio::spawn(async move {
                let content = Bytes::from(format!("racer {racer}"));
                let won = create(&store, &path, content.clone()).await?;
                Ok::<_, Error>(won.then_some(content))
            })
        });
        let mut winners = Vec::new();
        for racer in racers.collect::<Vec<_>>() {
            winners.extend(racer.await.map_err(|_| Error::Ended)??);
        }
        let found = read(store, &path(race)).await?;
        let late = create(store, &path(race), Bytes::from_static(b"late")).await?;
        if late || winners.len() != 1 {
            outcome = unusable(
                "it does not refuse to create an object that exists (PUT with If-None-Match: *), so commits could be lost",
            );
        } else if found.as_ref() != winners.first() {
            outcome = unusable("an object has another content than the writer that created it");
        }
    }
    for race in 0..RACES {
        remove(store, &path(race)).await?;
    }
    outcome?;
    check_marker(store).await
}

/// Creates the marker in an empty store, or checks it.
async fn check_marker(store: &Store) -> Result<()> {
    let marker = Path::from(MARKER);
    match read(store, &marker).await? {
        Some(found) if found == FORMAT => Ok(()),
        Some(found) => {
            let found = String::from_utf8_lossy(&found)
                .trim()
                .chars()
                .take(80)
                .collect::<String>();
            let why = format!("the format is {found}; this hub reads {}", FORMAT.trim());
            Err(Error::foreign(MARKER, why))
        }
        None => {
            let listed = store.list_with_delimiter(None).await?;
            let known = |path: &Path| path.as_ref() == "probe";
            if !listed.objects.is_empty() || !listed.common_prefixes.iter().all(known) {
                return Err(Error::foreign(
                    MARKER,
                    "the marker is missing, but the store is not empty; another prefix was meant, or the marker was lost",
                ));
            }
            match create(store, &marker, Bytes::from_static(FORMAT.as_bytes())).await? {
                true => Ok(()),
                false => Err(Error::foreign(MARKER, "another hub created another format")),
            }
        }
    }
}
