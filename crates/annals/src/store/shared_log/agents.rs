//! Finds sub-agents in shared logs without reading all of their records.
//!
//! The records of a sub-agent name it, so a log without the bytes of that name has none of them.

use std::path::Path;

use crate::error::{Error, Result};
use crate::store::inventory::{Inventory, RootFile};
use crate::store::{Root, log_reader};
use annals_jsonl::FileId;
use annals_layouts::model::{AgentId, ArtifactKind, SessionId};

use super::{SessionSlice, agent_name};

/// Returns whether a session has a sub-agent in the shared logs of the folder of `log`.
pub(in crate::store) fn has_agent(
    root: &Root,
    log: &Path,
    session: &SessionId,
    agent: &AgentId,
) -> Result<bool> {
    if candidates(root, log, &agent_name(session, agent)?)?.is_empty() {
        return Ok(false);
    }
    let sessions = Inventory::scan(std::slice::from_ref(root)).sessions;
    let mut same = sessions.iter().filter(|files| files.id == *session);
    Ok(same.any(|files| files.has_agent(agent)))
}

/// Returns the part of a shared log that belongs to a sub-agent; `None` if it has no records there.
/// Fails with [`Error::NotFound`] if another log of the folder may have records of it: then all of
/// them must be read.
pub(in crate::store) fn agent_in_log(
    root: &Root,
    log: &RootFile,
    session: &SessionId,
    agent: &AgentId,
) -> Result<Option<RootFile>> {
    let name = agent_name(session, agent)?;
    let found = candidates(root, &log.path, &name)?;
    if found.iter().any(|file| file.path != log.path) {
        return Err(Error::NotFound {
            what: annals_layouts::Subject::SubAgent,
            id: agent.to_string(),
        });
    }
    if found.is_empty() {
        return Ok(None);
    }
    let mut part = log.clone();
    part.artifact.agent = Some(agent.clone());
    part.slice = Some(SessionSlice::empty(name).into());
    // The bytes may stand in a message.
    let is_any = |window: &log_reader::TailWindow| !window.scan.outlines.is_empty();
    let window = log_reader::read_tail_window(root, &part, is_any)?;
    Ok(is_any(&window).then_some(part))
}

/// Returns the shared logs in the folder of `log` that may have records with a name.
fn candidates(root: &Root, log: &Path, name: &SessionId) -> Result<Vec<RootFile>> {
    let mut found = Vec::new();
    let Some(folder) = log.parent() else {
        return Ok(found);
    };
    for entry in root.failures.read_dir(folder) {
        let path = entry.path();
        let within = path.strip_prefix(&root.path).ok();
        let artifact = within.and_then(|path| root.layout.classify(path));
        let artifact = artifact.filter(|it| it.kind == ArtifactKind::SharedLog);
        let metadata = root.failures.metadata(&path);
        let metadata = metadata.filter(std::fs::Metadata::is_file);
        if let Some((artifact, metadata)) = artifact.zip(metadata) {
            let id = FileId::from(&metadata);
            let file = RootFile::new(path, artifact, id);
            if file.may_have_entry(root, name.as_str())? {
                found.push(file);
            }
        }
    }
    Ok(found)
}
