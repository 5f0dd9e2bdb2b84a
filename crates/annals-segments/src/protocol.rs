//! Requests and answers between a machine and a hub: JSON over HTTP/1.1.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/machine` | – | [`Machine`]: who the token belongs to |
//! | `GET /v1/ends` | – | [`KnownEnds`]: how far the files of the machine are stored |
//! | `POST /v1/segments` | segments, one after another | [`Acknowledged`]; sent when all of them are in the store |
//!
//! Every request has `Authorization: Bearer TOKEN`, and [`HOST`]. Errors are [`Refused`] with a status of
//! 4xx or 5xx. A status of 5xx or a broken connection means that the request may be sent again; a status
//! of 4xx, that it will never be accepted.

use serde::{Deserialize, Serialize};

use crate::header::Kind;
use crate::id::{Digest, FileKey, SourceId};

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// Header with a digest of the machine's own id, by which the hub refuses a cloned machine.
pub const HOST: &str = "annals-host";

/// Maximum length of the segments in a request, if it has more than one.
pub const MAX_BODY: usize = 8 << 20;

/// Who a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of the protocol.
    pub version: u32,
    /// The machine.
    pub source: SourceId,
    /// Its name, as the hub's operator gave it.
    pub name: String,
}

/// How far the files of a machine are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownEnds {
    /// The machine.
    pub source: SourceId,
    /// The newest generation of each file.
    pub files: Vec<KnownEnd>,
}

/// How far the newest generation of a file is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownEnd {
    /// The file.
    pub file: FileKey,
    /// Its generation.
    #[serde(rename = "gen")]
    pub generation: u32,
    /// Log or document.
    pub kind: Kind,
    /// Offset after the last stored byte.
    pub end: u64,
    /// Offset of the first byte of the last segment.
    pub last_start: u64,
    /// Digest of the content of the last segment.
    pub last_digest: Digest,
}

/// Answer to segments that are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Number of segments.
    pub segments: usize,
}

/// Answer to a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// What went wrong, for people.
    pub error: String,
}
