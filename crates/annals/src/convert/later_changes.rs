//! Changes made to a converted session, which are carried over when it is converted back.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::store::{
    Inventory, LogScan, Root, RootFile, Session, SessionFiles, SessionWriter, Store, WriteOptions,
};
use annals_jsonl::{TailReader, open_to_read};
use annals_layouts::Subject;
use annals_layouts::layout::{Spawn, Writer};
use annals_layouts::model::{
    ArtifactKind, Body, Draft, Entry, EntryId, Fact, Framing, Outline, OutlineKind, SessionId, Todo,
};
use annals_layouts::tree::IdIndex;

use super::origin::{Header, ListedTitle, TitleMember};

/// Maximum number of ancestors that are tried as parents in the other layout.
const MAX_ANCESTORS: usize = 64;

/// Changes to one session.
#[derive(Debug, Default)]
pub(super) struct LaterChanges {
    /// Added entries, by the agent that owns the log.
    pub(super) agents: Vec<AgentChanges>,
    /// The main agent's todos, if they changed.
    pub(super) todos: Option<Vec<Todo>>,
    /// A new title.
    pub(super) title: Option<String>,
    /// The title, if the session list that has it is not restored. It does not replace another.
    pub(super) listed_title: Option<String>,
}

#[derive(Debug)]
pub(super) struct AgentChanges {
    /// The sub-agent; `None` for the main agent.
    spawn: Option<Spawn>,
    entries: Vec<AddedEntry>,
}

/// An entry and the ids of its ancestors, nearest first.
#[derive(Debug)]
struct AddedEntry {
    draft: Draft,
    ancestors: Vec<EntryId>,
}

impl LaterChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.agents.is_empty()
            && self.todos.is_none()
            && self.title.is_none()
            && self.listed_title.is_none()
    }
}

/// Returns a digest of the main agent's todos, for comparison.
pub(super) fn todos_digest(session: &Session) -> Result<Option<String>> {
    let json = main_todos(session)?.and_then(|list| serde_json::to_vec(&list).ok());
    Ok(json.map(|json| {
        let digest = Sha256::digest(&json);
        let start = digest.iter().take(8);
        start.map(|byte| format!("{byte:02x}")).collect()
    }))
}

fn main_todos(session: &Session) -> Result<Option<Vec<Todo>>> {
    let lists = match session.todos() {
        Err(error) if error.is_refusal() => return Ok(None),
        lists => lists?,
    };
    let mut main = lists
        .into_iter()
        .filter(|(agent, _)| agent == session.files.id.as_str());
    Ok(main.next_back().map(|(_, list)| list))
}

/// Finds the changes. `fresh` has the byte offsets of records without an origin, by volume path.
pub(super) fn find_changes(
    writer: &dyn Writer,
    files: &SessionFiles,
    header: &Header,
    fresh: &HashMap<std::path::PathBuf, Vec<u64>>,
) -> Result<LaterChanges> {
    let mut since = LaterChanges::default();
    let given = listed_title(files)?;
    let in_rows = files.is_in_database();
    if let Some(given) = &given
        && !in_rows
        && given.title != files.listed_title()
    {
        since.title = files.listed_title();
    }
    let has_todos = files
        .attachments
        .iter()
        .any(|file| file.artifact.kind == ArtifactKind::Todos);
    if fresh.is_empty() && !has_todos {
        return Ok(since);
    }
    let session = Session::read(files.clone())?;
    // The program of a database names a session that has no title.
    if in_rows && let Some(given) = given.and_then(|given| given.title) {
        let title = session.title().map(|title| title.text);
        since.title = title.filter(|title| *title != given);
    }
    if todos_digest(&session)? != header.todos {
        since.todos = main_todos(&session)?;
    }
    for (at, (file, scan)) in files.logs().zip(&session.logs).enumerate() {
        let spawn = file.artifact.is_agent_log().then(|| spawn_of(&session, at));
        since.add_log(writer, &session, file, scan, spawn.flatten(), fresh)?;
    }
    for (file, scan) in files.notes().zip(&session.note_logs) {
        since.add_log(writer, &session, file, scan, None, fresh)?;
    }
    Ok(since)
}

/// Returns the title that the conversion wrote to the session list.
fn listed_title(files: &SessionFiles) -> Result<Option<TitleMember>> {
    let mut beside = files.attachments.iter();
    let Some(origin) = beside.find(|file| file.artifact.kind == ArtifactKind::Origin) else {
        return Ok(None);
    };
    let failed = |error| Error::io("read", &origin.path, error);
    let handle = open_to_read(&origin.path).map_err(failed)?;
    let mut tail = TailReader::new(&handle).map_err(failed)?;
    let last = tail.prev().map_err(failed)?;
    let given: Option<ListedTitle> = last.and_then(|last| serde_json::from_slice(last.bytes).ok());
    Ok(given.map(|given| given.given))
}

fn spawn_of(session: &Session, log: usize) -> Option<Spawn> {
    let agents = &session.agents;
    let agent = agents
        .iter()
        .find(|agent| agent.log == log && agent.sidechain.is_none())?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let id = agent.id.clone()?;
    Some(Spawn::new(id, text(&agent.kind), text(&agent.description)))
}

impl LaterChanges {
    fn add_log(
        &mut self,
        writer: &dyn Writer,
        session: &Session,
        file: &RootFile,
        scan: &LogScan,
        spawn: Option<Spawn>,
        fresh: &HashMap<std::path::PathBuf, Vec<u64>>,
    ) -> Result<()> {
        let in_rows = matches!(file.artifact.framing, Framing::Rows(_));
        let is_new = |outline: &Outline| {
            let is_annotation =
                |fact: &Fact| matches!(fact, Fact::Note(_) | Fact::Tag(_) | Fact::Summary(..));
            // Annotations are parts of the newest message, and not converted to a database.
            if in_rows && outline.facts.iter().any(is_annotation) {
                return true;
            }
            let is_message = outline.kind.is_message() || outline.kind == OutlineKind::Compaction;
            let volume = file.volume(outline.volume);
            let offsets = fresh.get(&volume.path);
            (is_message || !in_rows)
                && offsets
                    .is_some_and(|offsets| offsets.binary_search(&outline.span.offset).is_ok())
        };
        let outlines = &scan.outlines;
        let wanted: Vec<usize> = (0..outlines.len())
            .filter(|&at| outlines.get(at).is_some_and(is_new))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let ids = IdIndex::from_outlines(outlines);
        let mut entries = Vec::new();
        let mut order = wanted.iter();
        session.each_entry_of_file(file, scan, &wanted, |entry| {
            let at = order.next().copied().unwrap_or_default();
            if is_carried_over(&entry) {
                entries.push(AddedEntry {
                    ancestors: ancestor_ids(outlines, &ids, at),
                    draft: draft(writer, entry),
                });
            }
            Ok(true)
        })?;
        if !entries.is_empty() {
            self.agents.push(AgentChanges { spawn, entries });
        }
        Ok(())
    }
}

fn is_carried_over(entry: &Entry) -> bool {
    match &entry.body {
        // Qwen Code records an answer before it has any part.
        Body::Message(message) => !message.blocks.is_empty(),
        Body::Compaction { .. }
        | Body::System { .. }
        | Body::Summary { .. }
        | Body::Note { .. }
        | Body::Title { .. }
        | Body::Tag { .. } => true,
        _ => false,
    }
}

fn draft(writer: &dyn Writer, entry: Entry) -> Draft {
    let id = entry.id.as_ref().map(EntryId::as_str);
    Draft {
        id: id.map(|id| EntryId::new(&writer.valid_id(id))),
        time: entry.time,
        sidechain: entry.sidechain,
        ..Draft::new(entry.body)
    }
}

fn ancestor_ids(outlines: &[Outline], ids: &IdIndex, mut at: usize) -> Vec<EntryId> {
    let mut above = Vec::new();
    while above.len() < MAX_ANCESTORS
        && let Some(parent) = ids.parent(outlines, at)
    {
        above.extend(outlines.get(parent).and_then(Outline::id));
        at = parent;
    }
    above
}

/// Writes the changes to restored sessions. Returns the number of entries, and the sessions that
/// failed.
pub(super) fn write_changes(
    root: &Root,
    writer: &dyn Writer,
    all: Vec<(SessionId, LaterChanges)>,
) -> (u64, Vec<(String, String)>) {
    let mut added = 0;
    let mut failed = Vec::new();
    if all.is_empty() {
        return (added, failed);
    }
    let store = Store::new(vec![root.clone()]);
    let inventory = store.inventory();
    for (id, since) in all {
        match write_session(&store, &inventory, writer, &id, since) {
            Ok(entries) => added += entries,
            Err(error) => failed.push((id.to_string(), error.to_string())),
        }
    }
    (added, failed)
}

fn write_session(
    store: &Store,
    inventory: &Inventory,
    writer: &dyn Writer,
    id: &SessionId,
    since: LaterChanges,
) -> Result<u64> {
    let missing = || Error::NotFound {
        what: Subject::Session,
        id: id.to_string(),
    };
    let mut sessions = inventory.sessions.iter();
    let files = sessions.find(|files| files.id == *id).ok_or_else(missing)?;
    let options = WriteOptions {
        live: true,
        ..WriteOptions::default()
    };
    let main = store.open_writer(files, options)?;
    let mut added = 0;
    for strand in since.agents {
        let own = match &strand.spawn {
            None => None,
            Some(spawn) => {
                match SessionWriter::open_agent(store, files, spawn.agent.as_str(), options) {
                    Err(Error::NotFound { .. }) => Some(main.spawn(spawn)?),
                    found => Some(found?),
                }
            }
        };
        let log = own.as_ref().unwrap_or(&main);
        let mut gone = HashSet::new();
        for fresh in strand.entries {
            added += u64::from(append_entry(writer, log, fresh, &mut gone)?);
        }
        if let Some(own) = own {
            own.close()?;
        }
    }
    if let Some(todos) = since.todos {
        main.set_todos(&todos)?;
        added += 1;
    }
    if let Some(title) = since.title {
        main.retitle(&title)?;
        added += 1;
    } else if let Some(title) = since.listed_title
        && files.listed_title().is_none()
    {
        main.retitle(&title)?;
    }
    main.close()?;
    Ok(added)
}

/// Appends an entry below its nearest ancestor in the log. Returns `false` if the entry already
/// exists.
fn append_entry(
    writer: &dyn Writer,
    log: &crate::store::SessionWriter,
    fresh: AddedEntry,
    gone: &mut HashSet<EntryId>,
) -> Result<bool> {
    let mut parents = fresh.ancestors.iter().filter(|id| !gone.contains(*id));
    let mut tried = Vec::new();
    let written = loop {
        let parent = parents.next();
        let mut draft = fresh.draft.clone();
        draft.parent = parent.map(|id| EntryId::new(&writer.valid_id(id.as_str())));
        if draft.parent == log.leaf() {
            draft.parent = None;
        }
        match log.append_all(vec![draft]) {
            Err(Error::NotFound { .. }) if parent.is_some() => {
                tried.extend(parent.cloned());
            }
            // An earlier run has already added it.
            Err(Error::Exists(_)) => break false,
            done => {
                done?;
                break true;
            }
        }
    };
    gone.extend(tried);
    Ok(written)
}
