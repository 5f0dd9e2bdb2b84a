//! Conversion into a database of another program.
//!
//! A session that was converted from such a database gets its rows back, if their ids are not in use, and
//! then what was added since. Any other session is continued: its messages are written, as far as an
//! agent would send them, and its files are stored in an origin file beside the database.

use std::path::Path;

use crate::error::{Error, Result};
use crate::store::staging::{StagedFile, StagingDir};
use crate::store::{Root, Session, SessionFiles, Store, WriteOptions};
use annals_jsonl as jsonl;
use annals_layouts::layout::{AppendState, NewSession};
use annals_layouts::model::{
    Artifact, ArtifactKind, Block, Body, Draft, Framing, Message, Role, SessionId, TitleSource,
};

use super::later_changes::{self, LaterChanges};
use super::origin::{self, Header, ListedTitle, SourcePosition, TitleMember, have_same_sizes};
use super::other_files::{to_json, write_whole_file};
use super::source::{SOURCE_CHANGED, each_line, source_files, sources};
use super::target_ids::TargetIds;
use super::{ConvertOptions, ConvertPlan, ConvertReport, add_one, restore};

/// Text in place of an image, which is not written to databases.
const IMAGE: &str = "[image]";

/// Runs a conversion.
pub(super) fn run(
    plan: &ConvertPlan,
    options: &ConvertOptions,
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
    let ids = TargetIds::new(&plan.sessions);
    let mut report = ConvertReport::default();
    let mut later = Vec::new();
    let mut done = 0;
    for files in &plan.sessions {
        match convert(&store, root, files, &ids.target_id(files), options) {
            Ok(Converted::Written(id, changes)) => {
                report.sessions += 1;
                add_one(&mut report.converted, "session");
                later.extend((!changes.is_empty()).then_some((id, changes)));
            }
            Ok(Converted::Before) => report.already_converted += 1,
            Ok(Converted::Differs(why)) => report.differing.push((files.id.to_string(), why)),
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

/// Outcome of one session.
enum Converted {
    /// It is written, but for changes after an earlier conversion.
    Written(SessionId, LaterChanges),
    /// The database has it.
    Before,
    /// The database has it, from another state of the source.
    Differs(&'static str),
}

/// Writes one session.
fn convert(
    store: &Store,
    root: &Root,
    files: &SessionFiles,
    name: &str,
    options: &ConvertOptions,
) -> Result<Converted> {
    let header = restore::session_header(root.layout.name(), files)?;
    if let Some(header) = header.filter(|header| !header.partial)
        && let Some(id) = header.session.as_deref()
    {
        let id = SessionId::new(id)?;
        let writer = root.layout.row_writer();
        let writer = writer.ok_or_else(|| Error::read_only(root.layout.name()))?;
        let (records, changes) = restore::original_records(writer, files, &header)?;
        let is_new = store.restore_rows(root, &id, &records)?;
        return Ok(match is_new {
            true => Converted::Written(id, changes),
            false => Converted::Before,
        });
    }
    let session = Session::read(files.clone())?;
    session.refuse_unreadable()?;
    let write = WriteOptions::default();
    let id = id_in_rows(root, name)?;
    let continued = continue_session(store, &session, root, id, write, options.origin)?;
    if let Some(why) = continued.difference {
        return Ok(Converted::Differs(why));
    }
    Ok(match continued.is_new {
        true => Converted::Written(continued.id, LaterChanges::default()),
        false => Converted::Before,
    })
}

/// Returns the id that a session would have in a database, if annals writes those of the layout.
pub fn session_id_in_rows(root: &Root, session: &Session) -> Result<Option<SessionId>> {
    id_in_rows(root, session.files.id.as_str())
}

fn id_in_rows(root: &Root, name: &str) -> Result<Option<SessionId>> {
    let writer = root.layout.row_writer();
    let id = writer.map(|writer| SessionId::new(&writer.valid_id(name)));
    Ok(id.transpose()?)
}

/// A session that was written to a database, now or before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContinuedSession {
    /// Its id there.
    pub id: SessionId,
    /// Whether it was written now.
    pub is_new: bool,
    /// Why the session that is there is not that of the source.
    pub difference: Option<&'static str>,
}

/// Writes the messages that an agent would send to its model if it resumed the session
/// ([`Session::context`]) to a new session of a database, in one transaction. Its branches, sub-agents and
/// notes are not written, nor its tokens; the files of the session are stored beside the database, so
/// that a conversion back restores them.
pub fn continue_in_rows(
    store: &Store,
    session: &Session,
    root: &Root,
    options: WriteOptions,
) -> Result<ContinuedSession> {
    let id = session_id_in_rows(root, session)?;
    continue_session(store, session, root, id, options, true)
}

fn continue_session(
    store: &Store,
    session: &Session,
    root: &Root,
    id: Option<SessionId>,
    options: WriteOptions,
    with_origin: bool,
) -> Result<ContinuedSession> {
    let id = id.ok_or_else(|| Error::read_only(root.layout.name()))?;
    let origin = root.layout.path_for(&Artifact {
        session: Some(id.clone()),
        ..Artifact::new(ArtifactKind::Origin)
    });
    let has_origin = jsonl::exists(&root.path.join(&origin))?;
    let is_new = !store.has_rows(root, &id)?;
    let difference = match !is_new && has_origin {
        true => difference(&root.path.join(&origin), session)?,
        false => None,
    };
    let continued = ContinuedSession {
        id,
        is_new,
        difference,
    };
    // An archived session has no files.
    let needs_origin = with_origin && !session.files.is_archived() && (is_new || !has_origin);
    if !is_new && !needs_origin {
        return Ok(continued);
    }
    let new = new_session(&continued.id, session);
    let drafts = match is_new {
        true => drafts(session)?,
        false => Vec::new(),
    };
    let write = || match is_new {
        true => store
            .create_in_rows(root, &new, drafts, options)
            .map(|_| ()),
        false => Ok(()),
    };
    if !needs_origin {
        write()?;
        return Ok(continued);
    }
    // The origin is complete before the session is written, and renamed after it: without a session,
    // there is none.
    let stage = StagingDir::open(root)?;
    let written = stage_origin(&stage, &origin, session, new.title.as_deref());
    let written = written.and_then(|staged| {
        write()?;
        stage.remove_existing(&staged)?;
        stage.commit(staged)
    });
    if let Err(error) = written {
        stage.abandon();
        return Err(error);
    }
    stage.close()?;
    Ok(continued)
}

/// Returns why a session is not the one that an origin file was made from.
fn difference(origin: &Path, session: &Session) -> Result<Option<&'static str>> {
    let header = restore::read_header(origin)?;
    let same = match session.files.is_archived() {
        true => true,
        false => have_same_sizes(&header.files, &source_files(&session.files)?),
    };
    Ok((!same).then_some(SOURCE_CHANGED))
}

/// Writes the origin file of a session.
fn stage_origin(
    stage: &StagingDir,
    place: &Path,
    session: &Session,
    title: Option<&str>,
) -> Result<StagedFile> {
    let files = &session.files;
    let mut header = Header::new(
        session.root().layout.name(),
        Some(files.id.as_str()),
        source_files(files)?,
    );
    header.todos = later_changes::todos_digest(session)?;
    header.listed_title = session.listed_title();
    let mut staged = stage.file(place)?;
    staged.put_line(&to_json(&header)?)?;
    for (file, source) in sources(files).into_iter().enumerate() {
        let framing = source.artifact.framing;
        let has_lines =
            source.artifact.kind.is_conversation() || source.artifact.kind == ArtifactKind::Notes;
        let is_document = matches!(framing, Framing::Document(format) if !format.keeps_lines);
        if is_document || !has_lines {
            write_whole_file(&mut staged, &source.path, file)?;
            continue;
        }
        each_line(source, |line| {
            let spot = SourcePosition {
                file,
                line: line.number,
            };
            line.pieces(|bytes, end| staged.put_line(&origin::encode_line(spot, bytes, end, false)))
        })?;
    }
    let given = ListedTitle {
        given: TitleMember {
            title: title.map(str::to_owned),
        },
    };
    staged.put_line(&to_json(&given)?)?;
    Ok(staged)
}

/// Returns the session that a session is continued in.
fn new_session(id: &SessionId, session: &Session) -> NewSession {
    let cwd = session.working_directory();
    let mut new = NewSession::new(id.clone(), cwd.unwrap_or_else(|| "/".to_owned()));
    // Also a title from the prompt: the database would derive one from the first text, which may be that
    // of instructions.
    new.title = session.title().map(|title| match title.source {
        TitleSource::Prompt => title.text.lines().next().unwrap_or_default().to_owned(),
        _ => title.text,
    });
    let converted = (AppendState::CONVERTED.to_owned(), "true".to_owned());
    new.members.push(converted);
    new
}

/// Returns the messages to write.
fn drafts(session: &Session) -> Result<Vec<Draft>> {
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
    Ok(drafts)
}
