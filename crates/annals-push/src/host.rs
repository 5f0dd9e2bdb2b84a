//! The id of this host, by which a hub notices a cloned machine.

use std::path::Path;

use annals_jsonl as jsonl;
use annals_segments::Digest;
use uuid::Uuid;

use crate::error::{Error, Result};

/// Returns a digest of the operating system's machine id; without one, of an id in the state directory.
pub fn host_id(state_dir: &Path) -> Result<String> {
    let id = match std::fs::read("/etc/machine-id") {
        Ok(id) if !id.trim_ascii().is_empty() => id,
        _ => own_id(state_dir)?,
    };
    let text = [b"annals host\0".as_slice(), id.trim_ascii()].concat();
    Ok(Digest::new(&text).to_string())
}

fn own_id(state_dir: &Path) -> Result<Vec<u8>> {
    let dir = state_dir.join("push");
    jsonl::ensure_dir(&dir)?;
    let path = dir.join("host-id");
    if !jsonl::exists(&path)? {
        jsonl::replace(&path, Uuid::new_v4().to_string().as_bytes(), None)?;
    }
    std::fs::read(&path).map_err(|error| Error::State {
        why: error.to_string(),
        path,
    })
}
