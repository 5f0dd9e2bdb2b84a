//! Resolves a named record, and selects the entries around it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::jsonl::Error as FileError;
use annals::store::{Agent, Inventory, RecordRef, Session, SessionFiles, Target};
use anyhow::{Result, bail};

use super::{Selection, ShowArgs};
use crate::context::{Access, Context};

/// Resolved argument of `show`.
pub(super) struct ShowTarget {
    pub(super) files: SessionFiles,
    /// Log of a sub-agent, if it was named without a record.
    pub(super) agent_log: Option<PathBuf>,
    pub(super) record: Option<RecordName>,
}

/// Name of a record.
pub(super) enum RecordName {
    /// Text after the `@`.
    Message(String),
    /// File and line number.
    Line(PathBuf, u64),
}

impl ShowTarget {
    pub(super) fn parse(text: &str, inventory: &Inventory, context: &mut Context) -> Result<Self> {
        if let Some((path, line)) = file_and_line(text) {
            let (files, path) = Target::find_line(&context.store, inventory, path, line)?;
            return Ok(ShowTarget {
                files,
                agent_log: None,
                record: Some(RecordName::Line(path, line)),
            });
        }
        let target = match context.find_by_id(inventory, text, Access::Read) {
            Err(error) if is_not_found(&error) => {
                match ShowTarget::from_message_id(text, inventory) {
                    Some(found) => return found,
                    None => context.find_by_title(inventory, text, error)?,
                }
            }
            found => found?,
        };
        let named = target.agent_log().map(|log| log.path.clone());
        Ok(ShowTarget {
            agent_log: named.filter(|_| target.message.is_none()),
            record: target.message.map(RecordName::Message),
            files: target.files,
        })
    }

    /// Resolves a message id without a session. Returns `None` if no message has this id, so
    /// that the error is about the session.
    fn from_message_id(text: &str, inventory: &Inventory) -> Option<Result<Self>> {
        // `:LINE` is valid only after an `@`.
        let line = text.strip_prefix(':');
        if line.is_some_and(|line| line.parse::<u64>().is_ok()) {
            return None;
        }
        match inventory.find_message(text) {
            Ok((files, id)) => Some(Ok(ShowTarget {
                files,
                agent_log: None,
                record: Some(RecordName::Message(id.to_string())),
            })),
            Err(annals::Error::NotFound { .. }) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Refuses arguments that exclude each other.
    pub(super) fn check_args(&self, name: &str, args: &ShowArgs) -> Result<()> {
        if args.agent.is_some() && (self.agent_log.is_some() || self.record.is_some()) {
            let what = match self.record {
                Some(_) => "a message, which already determines the agent",
                None => "a sub-agent's log",
            };
            bail!("{name} names {what}: leave out --agent");
        }
        if args.context.is_some() && self.record.is_none() {
            bail!("--context needs a message: SESSION@MESSAGE, as `annals search` prints it");
        }
        Ok(())
    }
}

/// Returns true if no session and no file has this name.
fn is_not_found(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(annals::Error::NotFound { .. } | annals::Error::BadId { .. }) => true,
        Some(annals::Error::File(FileError::Io { source, .. })) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        _ => false,
    }
}

/// Parses `FILE:LINE` if the file exists.
fn file_and_line(text: &str) -> Option<(&Path, u64)> {
    let (path, line) = text.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let path = Path::new(path);
    (path.is_file() && !Path::new(text).is_file()).then_some((path, line))
}

impl RecordName {
    /// Returns the named records; the first one is shown in its conversation.
    pub(super) fn find_records(&self, session: &Session) -> annals::Result<Vec<RecordRef>> {
        match self {
            RecordName::Message(text) => session.find_records(text),
            RecordName::Line(path, line) => session.records_at_line(path, *line),
        }
    }
}

/// Returns the sub-agent of the named record.
pub(super) fn agent_of_records<'a>(session: &'a Session, spots: &[RecordRef]) -> Option<&'a Agent> {
    let spot = spots.first()?;
    let (_, _, tree) = session.log(spot.log)?;
    let strand = tree.sidechain_of(spot.entry);
    let is_it = |agent: &&Agent| agent.log == spot.log && agent.sidechain == strand;
    session.agents.iter().find(is_it)
}

/// Selects the path to the first record, and later entries if `after` is set. Records that are not
/// on the path are selected separately.
pub(super) fn select_around(
    session: &Session,
    spots: &[RecordRef],
    after: Option<usize>,
) -> Selection {
    let first = spots.first().copied();
    let way = first.and_then(|spot| {
        let (entries, conversation) = session.entries_to(spot.log, spot.entry, after.is_some())?;
        // Only conversations of the main agent are reported.
        let conversation = conversation.filter(|_| session.main_log().is_some() && spot.log == 0);
        Some((spot, Selection::new(spot.log, entries, conversation)))
    });
    let mut selection = match way {
        Some((spot, selection)) => Selection {
            named_entry: Some(spot.entry),
            ..selection
        },
        None => Selection::new(0, Vec::new(), None),
    };
    let shown: HashSet<usize> = selection.entries.iter().copied().collect();
    let beside = |spot: &&RecordRef| spot.log != selection.log || !shown.contains(&spot.entry);
    selection.outside_records = spots.iter().filter(beside).copied().collect();
    selection
}
