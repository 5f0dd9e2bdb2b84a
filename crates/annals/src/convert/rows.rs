//! Continues a session in a database of another program.

use crate::error::{Error, Result};
use crate::store::{Root, Session, Store, WriteOptions};
use annals_layouts::layout::NewSession;
use annals_layouts::model::{Block, Body, Draft, Message, Role, SessionId, TitleSource};

/// Text in place of an image, which is not written to databases.
const IMAGE: &str = "[image]";

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
