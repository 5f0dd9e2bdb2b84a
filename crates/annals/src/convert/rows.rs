//! Conversion into a database of another program.
//!
//! A session that was converted from such a database gets its rows back, if their ids are not in use, and
//! then what was added since. Any other session is continued: its messages are written, as far as an
//! agent would send them.

use crate::error::{Error, Result};
use crate::store::{Root, Session, SessionFiles, Store, WriteOptions};
use annals_layouts::layout::NewSession;
use annals_layouts::model::{Block, Body, Draft, Message, Role, SessionId, TitleSource};

use super::later_changes::{self, LaterChanges};
use super::{ConvertPlan, ConvertReport, add_one, restore};

/// Text in place of an image, which is not written to databases.
const IMAGE: &str = "[image]";

/// Runs a conversion.
pub(super) fn run(
    plan: &ConvertPlan,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<ConvertReport> {
    let root = &plan.target;
    let writer = root.layout.row_writer();
    let writer = writer.ok_or_else(|| Error::read_only(root.layout.name()))?;
    if plan.path.is_some() {
        return Err(Error::refused(
            "a database gets whole sessions; `annals fork` makes a session of one conversation",
        ));
    }
    let store = Store::new(vec![root.clone()]);
    let mut report = ConvertReport::default();
    let mut later = Vec::new();
    let mut done = 0;
    for files in &plan.sessions {
        match convert(&store, root, files) {
            Ok(Some((id, changes))) => {
                report.sessions += 1;
                add_one(&mut report.converted, "session");
                later.extend((!changes.is_empty()).then_some((id, changes)));
            }
            Ok(None) => report.already_converted += 1,
            Err(error) => report
                .failed
                .push((files.id.to_string(), error.to_string())),
        }
        done += files.bytes();
        progress(done, plan.bytes);
    }
    let (added, failed) = later_changes::write_changes(root, writer, later);
    report.added = added;
    report.failed.extend(failed);
    Ok(report)
}

/// Writes one session. Returns its id, and changes that are still to be written; `None` if the database
/// has the session.
fn convert(
    store: &Store,
    root: &Root,
    files: &SessionFiles,
) -> Result<Option<(SessionId, LaterChanges)>> {
    let header = restore::session_header(root.layout.name(), files)?;
    if let Some(header) = header.filter(|header| !header.partial)
        && let Some(id) = header.session.as_deref()
    {
        let id = SessionId::new(id)?;
        let writer = root.layout.row_writer();
        let writer = writer.ok_or_else(|| Error::read_only(root.layout.name()))?;
        let (records, changes) = restore::original_records(writer, files, &header)?;
        let is_new = store.restore_rows(root, &id, &records)?;
        return Ok(is_new.then_some((id, changes)));
    }
    let session = Session::read(files.clone())?;
    session.refuse_unreadable()?;
    match continue_in_rows(store, &session, root, WriteOptions::default()) {
        Ok(id) => Ok(Some((id, LaterChanges::default()))),
        Err(Error::Exists(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the id that a session would have in a database, if annals writes those of the layout.
pub fn session_id_in_rows(root: &Root, session: &Session) -> Result<Option<SessionId>> {
    let writer = root.layout.row_writer();
    let id = writer.map(|writer| SessionId::new(&writer.valid_id(session.files.id.as_str())));
    Ok(id.transpose()?)
}

/// Writes the messages that an agent would send to its model if it resumed the session
/// ([`Session::context`]) to a new session of a database, in one transaction. Its branches, sub-agents and
/// notes are not written, nor its tokens.
pub fn continue_in_rows(
    store: &Store,
    session: &Session,
    root: &Root,
    options: WriteOptions,
) -> Result<SessionId> {
    let id = session_id_in_rows(root, session)?;
    let id = id.ok_or_else(|| Error::read_only(root.layout.name()))?;
    let cwd = session.directories().last().map(|cwd| (*cwd).to_owned());
    let mut new = NewSession::new(id.clone(), cwd.unwrap_or_else(|| "/".to_owned()));
    let title = session.title();
    let title = title.filter(|title| title.source != TitleSource::Prompt);
    new.title = title.map(|title| title.text);
    let messages = session.context(None)?.into_iter();
    let messages = messages.filter(|message| !message.inserted);
    let mut said: Vec<Message> = Vec::new();
    for message in messages {
        let mut blocks = message.blocks;
        for block in &mut blocks {
            if matches!(block, Block::Image { .. } | Block::Opaque { .. }) {
                *block = Block::Text(IMAGE.to_owned());
            }
        }
        match said.last_mut() {
            // A reply in several entries: its program would send the results of each part first.
            Some(last) if last.role == Role::Assistant && message.role == Role::Assistant => {
                last.blocks.append(&mut blocks);
            }
            _ => {
                let mut message = Message::new(message.role, blocks);
                message.human = message.role == Role::User;
                said.push(message);
            }
        }
    }
    let drafts = said.into_iter().map(|said| Draft::new(Body::Message(said)));
    let drafts: Vec<Draft> = drafts.collect();
    if drafts.is_empty() {
        return Err(Error::refused(format!(
            "session {} has no messages to continue from",
            session.files.id
        )));
    }
    store.create_in_rows(root, &new, drafts, options)?;
    Ok(id)
}
