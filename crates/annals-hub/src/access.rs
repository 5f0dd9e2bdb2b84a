//! Tokens: who a request comes from.
//!
//! `access/DIGEST.json` describes the owner of a token; DIGEST is the SHA-256 of the token, which is
//! stored nowhere. Removing the object revokes the token.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use annals_segments::SourceId;
use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::{self, Store};

/// Time after which a revoked token is refused by all hubs.
const CACHE_TIME: Duration = Duration::from_secs(5);

/// Maximum number of cached answers; more are forgotten all at once.
const CACHE_ENTRIES: usize = 100_000;

/// The owner of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Owner {
    /// A machine writes its own logs, and reads nothing but how far they are stored.
    Machine {
        /// Its id.
        source: SourceId,
        /// Its name.
        name: String,
    },
    /// A person reads the sessions of their own machines.
    Person {
        /// Their name.
        name: String,
        /// Their machines.
        machines: BTreeSet<SourceId>,
    },
    /// A team lead also reads the costs of the team; its sessions, if `content` is set.
    Lead {
        /// Their name.
        name: String,
        /// Their machines.
        machines: BTreeSet<SourceId>,
        /// The machines of the team.
        team: BTreeSet<SourceId>,
        /// Whether they may read sessions of the team.
        content: bool,
    },
    /// An auditor reads everything.
    Auditor {
        /// Their name.
        name: String,
        /// Their machines.
        machines: BTreeSet<SourceId>,
    },
}

impl Owner {
    /// The name.
    pub fn name(&self) -> &str {
        match self {
            Owner::Machine { name, .. }
            | Owner::Person { name, .. }
            | Owner::Lead { name, .. }
            | Owner::Auditor { name, .. } => name,
        }
    }

    /// Whether a machine is one of their own.
    pub fn owns(&self, machine: SourceId) -> bool {
        match self {
            Owner::Machine { source, .. } => *source == machine,
            Owner::Person { machines, .. }
            | Owner::Lead { machines, .. }
            | Owner::Auditor { machines, .. } => machines.contains(&machine),
        }
    }
}

/// A token that was just made. It cannot be shown again.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The token.
    pub token: String,
    /// The beginning of its digest, by which it is listed and revoked.
    pub id: String,
}

/// The tokens of a store.
#[derive(Debug)]
pub struct Access {
    store: Store,
    cache: Mutex<HashMap<String, (Instant, Option<Owner>)>>,
}

impl Access {
    /// Uses the tokens of a store.
    pub fn new(store: &Store) -> Self {
        Access {
            store: store.clone(),
            cache: Mutex::default(),
        }
    }

    /// Creates a token.
    pub async fn create(&self, owner: &Owner) -> Result<NewToken> {
        let token = format!(
            "annals_{}{}",
            Uuid::new_v4().simple(),
            Uuid::new_v4().simple()
        );
        let digest = digest(&token);
        let content =
            serde_json::to_vec(owner).map_err(|error| Error::Refused(error.to_string()))?;
        match store::create(&self.store, &path(&digest), Bytes::from(content)).await? {
            true => Ok(NewToken {
                id: token_id(&token),
                token,
            }),
            false => Err(Error::Refused("the token exists already".into())),
        }
    }

    /// Returns the owner of a token, if it is valid.
    pub async fn owner(&self, token: &str) -> Result<Option<Owner>> {
        let digest = digest(token);
        let now = Instant::now();
        if let Some((time, owner)) = self.cached().get(&digest)
            && now.duration_since(*time) < CACHE_TIME
        {
            return Ok(owner.clone());
        }
        let owner = match store::read(&self.store, &path(&digest)).await? {
            None => None,
            Some(content) => Some(parse(&content)?),
        };
        let mut cache = self.cached();
        if cache.len() >= CACHE_ENTRIES {
            cache.clear();
        }
        cache.insert(digest, (now, owner.clone()));
        Ok(owner)
    }

    /// Returns all tokens: their ids and owners.
    pub async fn list(&self) -> Result<Vec<(String, Owner)>> {
        let mut all = Vec::new();
        for path in store::list(&self.store, "access").await? {
            if let Some(content) = store::read(&self.store, &path).await? {
                let id = path
                    .filename()
                    .unwrap_or_default()
                    .chars()
                    .take(16)
                    .collect();
                all.push((id, parse(&content)?));
            }
        }
        Ok(all)
    }

    /// Revokes the tokens whose id begins so. Returns their number. Other hubs refuse them within
    /// seconds.
    pub async fn revoke(&self, id: &str) -> Result<usize> {
        if id.len() < 8 {
            return Err(Error::Refused(
                "name at least 8 digits of the token's id".into(),
            ));
        }
        let mut revoked = 0;
        for path in store::list(&self.store, "access").await? {
            if path.filename().is_some_and(|name| name.starts_with(id)) {
                store::remove(&self.store, &path).await?;
                revoked += 1;
            }
        }
        self.cached().clear();
        Ok(revoked)
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, Option<Owner>)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(content: &[u8]) -> Result<Owner> {
    serde_json::from_slice(content).map_err(|error| Error::foreign("access", error.to_string()))
}

/// Returns the beginning of a token's digest, by which it is listed.
pub fn token_id(token: &str) -> String {
    digest(token).chars().take(16).collect()
}

fn path(digest: &str) -> Path {
    Path::from(format!("access/{digest}.json"))
}

fn digest(token: &str) -> String {
    let hash = Sha256::digest(token.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
