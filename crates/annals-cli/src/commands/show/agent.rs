//! Finds a sub-agent and its entries.

use std::path::Path;

use annals::Subject;
use annals::store::{Agent, Session};
use anyhow::{Result, bail};

/// Finds a sub-agent by a prefix of its id, or by its number.
pub(super) fn find<'a>(session: &'a Session, wanted: &str) -> Result<&'a Agent> {
    let fits = |agent: &&Agent| {
        agent
            .id
            .as_ref()
            .is_some_and(|id| id.as_str().starts_with(wanted))
    };
    let found: Vec<&Agent> = session.agents.iter().filter(fits).collect();
    let by_number = || {
        let number: usize = wanted.strip_prefix('#')?.parse().ok()?;
        session.agents.get(number.checked_sub(1)?)
    };
    match (found.as_slice(), by_number()) {
        ([only], _) => Ok(only),
        (_, Some(agent)) => Ok(agent),
        ([], _) if session.agents.is_empty() => {
            bail!("session {} has no sub-agents", session.files.id)
        }
        ([], _) => Err(annals::Error::NotFound {
            what: Subject::SubAgent,
            id: wanted.to_owned(),
        }
        .into()),
        (many, _) => Err(annals::Error::Ambiguous {
            what: Subject::SubAgent,
            id: wanted.to_owned(),
            candidates: many
                .iter()
                .filter_map(|agent| Some(agent.id.as_ref()?.to_string()))
                .collect(),
        }
        .into()),
    }
}

/// Finds the sub-agent whose log is at `path`.
pub(super) fn at_path<'a>(session: &'a Session, path: &Path) -> Result<&'a Agent> {
    let is_it = |agent: &&Agent| {
        let log = session.files.logs().nth(agent.log);
        agent.sidechain.is_none() && log.is_some_and(|log| log.path == path)
    };
    let missing = || annals::Error::NotFound {
        what: Subject::SubAgent,
        id: path.display().to_string(),
    };
    Ok(session.agents.iter().find(is_it).ok_or_else(missing)?)
}

/// Returns the entries of a sub-agent, in reading order.
pub(super) fn entries(session: &Session, agent: &Agent) -> Vec<usize> {
    let Some((_, _, tree)) = session.log(agent.log) else {
        return Vec::new();
    };
    match agent.sidechain {
        Some(strand) => tree
            .sidechains
            .get(strand)
            .map(|strand| strand.entries.clone())
            .unwrap_or_default(),
        None => {
            let at = tree
                .resume
                .or_else(|| tree.conversations.len().checked_sub(1));
            let conversation = at.and_then(|at| tree.conversations.get(at));
            conversation
                .map(|conversation| tree.path(conversation))
                .unwrap_or_default()
        }
    }
}
