//! A record that was named: which one is meant, and what is shown around it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::store::{Agent, Inventory, RecordRef, Session, SessionFiles};
use annals::tree::Tree;
use anyhow::{Result, bail};

use super::{Selection, ShowArgs};
use crate::context::Context;

/// What a person asks to be shown.
pub(super) struct Asked {
    pub(super) files: SessionFiles,
    /// The log of a sub-agent, if that was named and not a record of it.
    pub(super) agent_log: Option<PathBuf>,
    pub(super) record: Option<Named>,
}

/// How a record was named.
pub(super) enum Named {
    /// By what stands after the `@`.
    Message(String),
    /// By its place in a file.
    Line(PathBuf, u64),
}

impl Asked {
    pub(super) fn of(text: &str, inventory: &Inventory, context: &mut Context) -> Result<Self> {
        if let Some((path, line)) = file_and_line(text) {
            let (files, path) = context.store.find_line(inventory, path, line)?;
            return Ok(Asked {
                files,
                agent_log: None,
                record: Some(Named::Line(path, line)),
            });
        }
        let target = match context.find_in(inventory, text) {
            Ok(target) => target,
            Err(error) if is_unknown(&error) => {
                return Asked::message(text, inventory, context).unwrap_or(Err(error));
            }
            Err(error) => return Err(error),
        };
        let named = target.agent_log().map(|log| log.path.clone());
        Ok(Asked {
            agent_log: named.filter(|_| target.message.is_none()),
            record: target.message.map(Named::Message),
            files: target.files,
        })
    }

    /// What a message's id alone names. `None` if there is no such message, so that the session is told
    /// as missing.
    fn message(text: &str, inventory: &Inventory, context: &Context) -> Option<Result<Self>> {
        // After an `@` this is a line.
        let line = text.strip_prefix(':');
        if line.is_some_and(|line| line.parse::<u64>().is_ok()) {
            return None;
        }
        match context.store.find_message(inventory, text) {
            Ok((files, id)) => Some(Ok(Asked {
                files,
                agent_log: None,
                record: Some(Named::Message(id.to_string())),
            })),
            Err(annals::Error::NotFound { .. }) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Refuses what cannot be meant together.
    pub(super) fn check(&self, args: &ShowArgs) -> Result<()> {
        if args.agent.is_some() && (self.agent_log.is_some() || self.record.is_some()) {
            let what = match self.record {
                Some(_) => "a message, which tells itself whose it is",
                None => "a sub-agent's log",
            };
            bail!("{} names {what}: leave out --agent", args.id);
        }
        if args.context.is_some() && self.record.is_none() {
            bail!("--context goes with a message: SESSION@MESSAGE, as `annals search` prints it");
        }
        Ok(())
    }
}

/// No session is called so, and no file.
fn is_unknown(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(annals::Error::NotFound { .. } | annals::Error::BadId { .. }) => true,
        Some(annals::Error::Io { source, .. }) => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// `FILE:LINE`, where there is such a file.
fn file_and_line(text: &str) -> Option<(&Path, u64)> {
    let (path, line) = text.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let path = Path::new(path);
    (path.is_file() && !Path::new(text).is_file()).then_some((path, line))
}

impl Named {
    /// The records that are meant; the first is the one that counts.
    pub(super) fn spots(&self, session: &Session) -> annals::Result<Vec<RecordRef>> {
        match self {
            Named::Message(text) => session.find_records(text),
            Named::Line(path, line) => session.records_at_line(path, *line),
        }
    }
}

/// The sub-agent whose record was named.
pub(super) fn agent_of<'a>(session: &'a Session, spots: &[RecordRef]) -> Option<&'a Agent> {
    let spot = spots.first()?;
    let (_, _, tree) = session.log(spot.log)?;
    let strand = strand_of(tree, spot.entry);
    let is_it = |agent: &&Agent| agent.log == spot.log && agent.sidechain == strand;
    session.agents.iter().find(is_it)
}

fn strand_of(tree: &Tree, entry: usize) -> Option<usize> {
    let mut strands = tree.sidechains.iter();
    strands.position(|strand| strand.entries.contains(&entry))
}

/// The way to a record; with what comes after it, if that is wanted. Records beside every way stand
/// alone.
pub(super) fn around(session: &Session, spots: &[RecordRef], after: Option<usize>) -> Selection {
    let first = spots.first().copied();
    let way = first.and_then(|spot| {
        let (_, _, tree) = session.log(spot.log)?;
        let (entries, conversation) = way(tree, spot.entry, after.is_some())?;
        // A conversation is told of only where it is the main agent's.
        let conversation = conversation.filter(|_| session.main_log().is_some() && spot.log == 0);
        Some((spot, Selection::of(spot.log, entries, conversation)))
    });
    let mut selection = match way {
        Some((spot, selection)) => Selection {
            at: Some(spot.entry),
            ..selection
        },
        None => Selection::of(0, Vec::new(), None),
    };
    let shown: HashSet<usize> = selection.entries.iter().copied().collect();
    let beside = |spot: &&RecordRef| spot.log != selection.log || !shown.contains(&spot.entry);
    selection.apart = spots.iter().filter(beside).copied().collect();
    selection
}

/// The entries that lead to one, and the conversation that they are if it ends there.
fn way(tree: &Tree, entry: usize, on: bool) -> Option<(Vec<usize>, Option<usize>)> {
    if let Some(strand) = strand_of(tree, entry) {
        let mut entries = tree.sidechains.get(strand)?.entries.clone();
        if !on {
            entries.retain(|at| *at <= entry);
        }
        return Some((entries, None));
    }
    let path = |at: usize| Some((tree.path(tree.conversations.get(at)?), Some(at)));
    let ends = tree.conversations.iter();
    let mut ends = ends.map(|conversation| [conversation.leaf, conversation.tip].contains(&entry));
    if let Some(at) = ends.position(|ends| ends) {
        return path(at);
    }
    let before = tree.path_to(entry)?;
    if !on {
        return Some((before, None));
    }
    // The one that would be resumed, else the latest that passes there.
    let newest = (0..tree.conversations.len()).rev();
    let mut through = tree.resume.into_iter().chain(newest).filter_map(path);
    let through = through.find(|(path, _)| path.contains(&entry));
    Some(through.map_or((before, None), |(path, _)| (path, None)))
}
