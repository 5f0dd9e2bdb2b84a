//! What was done to a converted session since, which goes along when it is converted back.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::jsonl::{TailReader, open_to_read};
use crate::layout::{Spawn, Writer};
use crate::model::{ArtifactKind, Body, Draft, Entry, EntryId, Outline, SessionId, Todo};
use crate::store::{
    FoundFile, Inventory, LogScan, Root, Session, SessionFiles, Store, WriteOptions,
};
use crate::tree::IdIndex;

use super::origin::{Given, GivenTitle, Header};

/// How far up an ancestor is looked for that the other layout has too.
const REACH: usize = 64;

/// What was done to one session.
#[derive(Debug, Default)]
pub(super) struct Since {
    /// Its entries, by the sub-agent in whose log they stand.
    pub(super) strands: Vec<Strand>,
    /// The main agent's todos, if they are others now.
    pub(super) todos: Option<Vec<Todo>>,
    /// A title that was given.
    pub(super) title: Option<String>,
}

#[derive(Debug)]
pub(super) struct Strand {
    /// The sub-agent; `None` means the main agent.
    spawn: Option<Spawn>,
    entries: Vec<Fresh>,
}

/// An entry, and the ids above it, the nearest first.
#[derive(Debug)]
struct Fresh {
    draft: Draft,
    above: Vec<EntryId>,
}

impl Since {
    pub(super) fn is_empty(&self) -> bool {
        self.strands.is_empty() && self.todos.is_none() && self.title.is_none()
    }
}

/// The main agent's todos as a conversion gives them, in a form that can be compared.
pub(super) fn digest(session: &Session) -> Result<Option<String>> {
    let json = main_todos(session)?.and_then(|list| serde_json::to_vec(&list).ok());
    Ok(json.map(|json| {
        let digest = Sha256::digest(&json);
        let start = digest.iter().take(8);
        start.map(|byte| format!("{byte:02x}")).collect()
    }))
}

fn main_todos(session: &Session) -> Result<Option<Vec<Todo>>> {
    let lists = match session.todos() {
        Err(Error::Refused(_)) => return Ok(None),
        lists => lists?,
    };
    let mut main = lists
        .into_iter()
        .filter(|(agent, _)| agent == session.files.id.as_str());
    Ok(main.next_back().map(|(_, list)| list))
}

/// Finds what is new. `fresh` has the offsets of records without an origin, by log and volume.
pub(super) fn find(
    writer: &dyn Writer,
    files: &SessionFiles,
    header: &Header,
    fresh: &HashMap<std::path::PathBuf, Vec<u64>>,
) -> Result<Since> {
    let mut since = Since::default();
    let told = files.told_title();
    if let Some(given) = given(files)?
        && given.title != told
    {
        since.title = told;
    }
    let has_todos = files
        .beside
        .iter()
        .any(|file| file.artifact.kind == ArtifactKind::Todos);
    if fresh.is_empty() && !has_todos {
        return Ok(since);
    }
    let session = Session::read(files.clone())?;
    if digest(&session)? != header.todos {
        since.todos = main_todos(&session)?;
    }
    for (at, (file, scan)) in files.logs().zip(&session.logs).enumerate() {
        let spawn = file.artifact.is_agent_log().then(|| spawn_of(&session, at));
        since.take(writer, &session, file, scan, spawn.flatten(), fresh)?;
    }
    for (file, scan) in files.notes().zip(&session.remarks) {
        since.take(writer, &session, file, scan, None, fresh)?;
    }
    Ok(since)
}

/// What the register was told by the conversion.
fn given(files: &SessionFiles) -> Result<Option<GivenTitle>> {
    let mut beside = files.beside.iter();
    let Some(origin) = beside.find(|file| file.artifact.kind == ArtifactKind::Origin) else {
        return Ok(None);
    };
    let failed = |error| Error::io("read", &origin.path, error);
    let handle = open_to_read(&origin.path).map_err(failed)?;
    let mut tail = TailReader::new(&handle).map_err(failed)?;
    let last = tail.prev().map_err(failed)?;
    let given: Option<Given> = last.and_then(|last| serde_json::from_slice(last.bytes).ok());
    Ok(given.map(|given| given.given))
}

fn spawn_of(session: &Session, log: usize) -> Option<Spawn> {
    let agents = &session.agents;
    let agent = agents
        .iter()
        .find(|agent| agent.log == log && agent.strand.is_none())?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let id = agent.id.clone()?;
    Some(Spawn::new(id, text(&agent.kind), text(&agent.description)))
}

impl Since {
    fn take(
        &mut self,
        writer: &dyn Writer,
        session: &Session,
        file: &FoundFile,
        scan: &LogScan,
        spawn: Option<Spawn>,
        fresh: &HashMap<std::path::PathBuf, Vec<u64>>,
    ) -> Result<()> {
        let is_new = |outline: &Outline| {
            let volume = file.volume(outline.volume);
            let offsets = fresh.get(&volume.path);
            offsets.is_some_and(|offsets| offsets.binary_search(&outline.span.offset).is_ok())
        };
        let outlines = &scan.outlines;
        let wanted: Vec<usize> = (0..outlines.len())
            .filter(|&at| outlines.get(at).is_some_and(is_new))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let ids = IdIndex::of(outlines);
        let mut entries = Vec::new();
        let mut order = wanted.iter();
        session.each_in(file, scan, &wanted, |entry| {
            let at = order.next().copied().unwrap_or_default();
            if says(&entry) {
                entries.push(Fresh {
                    above: above(outlines, &ids, at),
                    draft: draft(writer, entry),
                });
            }
            Ok(true)
        })?;
        if !entries.is_empty() {
            self.strands.push(Strand { spawn, entries });
        }
        Ok(())
    }
}

fn says(entry: &Entry) -> bool {
    matches!(
        entry.body,
        Body::Message(_)
            | Body::Compaction { .. }
            | Body::System { .. }
            | Body::Summary { .. }
            | Body::Note { .. }
            | Body::Title { .. }
            | Body::Tag { .. }
    )
}

fn draft(writer: &dyn Writer, entry: Entry) -> Draft {
    let id = entry.id.as_ref().map(EntryId::as_str);
    Draft {
        id: id.map(|id| EntryId::new(&writer.fitting(id))),
        time: entry.time,
        sidechain: entry.sidechain,
        ..Draft::new(entry.body)
    }
}

fn above(outlines: &[Outline], ids: &IdIndex, mut at: usize) -> Vec<EntryId> {
    let mut above = Vec::new();
    while above.len() < REACH
        && let Some(parent) = ids.parent(outlines, at)
    {
        above.extend(outlines.get(parent).and_then(Outline::id));
        at = parent;
    }
    above
}

/// Writes what was done since to sessions that were restored; gives back how many entries, and which
/// sessions failed.
pub(super) fn write(
    root: &Root,
    writer: &dyn Writer,
    all: Vec<(SessionId, Since)>,
) -> (u64, Vec<(String, String)>) {
    let mut added = 0;
    let mut failed = Vec::new();
    if all.is_empty() {
        return (added, failed);
    }
    let store = Store::new(vec![root.clone()]);
    let inventory = store.inventory();
    for (id, since) in all {
        match one(&store, &inventory, writer, &id, since) {
            Ok(entries) => added += entries,
            Err(error) => failed.push((id.to_string(), error.to_string())),
        }
    }
    (added, failed)
}

fn one(
    store: &Store,
    inventory: &Inventory,
    writer: &dyn Writer,
    id: &SessionId,
    since: Since,
) -> Result<u64> {
    let missing = || Error::NotFound {
        what: "session",
        id: id.to_string(),
    };
    let mut sessions = inventory.sessions.iter();
    let files = sessions.find(|files| files.id == *id).ok_or_else(missing)?;
    let options = WriteOptions {
        live: true,
        ..WriteOptions::default()
    };
    let main = store.write(files, options)?;
    let mut added = 0;
    for strand in since.strands {
        let own = match &strand.spawn {
            None => None,
            Some(spawn) => match store.write_agent(files, spawn.agent.as_str(), options) {
                Err(Error::NotFound { .. }) => Some(main.spawn(spawn)?),
                found => Some(found?),
            },
        };
        let log = own.as_ref().unwrap_or(&main);
        let mut gone = HashSet::new();
        for fresh in strand.entries {
            added += u64::from(add(writer, log, fresh, &mut gone)?);
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
    }
    main.close()?;
    Ok(added)
}

/// Adds an entry under the nearest of its ancestors that the log has. `false` if it is there already.
fn add(
    writer: &dyn Writer,
    log: &crate::store::SessionWriter,
    fresh: Fresh,
    gone: &mut HashSet<EntryId>,
) -> Result<bool> {
    let mut parents = fresh.above.iter().filter(|id| !gone.contains(*id));
    let mut tried = Vec::new();
    let written = loop {
        let parent = parents.next();
        let mut draft = fresh.draft.clone();
        draft.parent = parent.map(|id| EntryId::new(&writer.fitting(id.as_str())));
        if draft.parent == log.leaf() {
            draft.parent = None;
        }
        match log.append_all(vec![draft]) {
            Err(Error::NotFound { .. }) if parent.is_some() => {
                tried.extend(parent.cloned());
            }
            // A second run finds it there.
            Err(Error::Refused(why)) if why.contains("in the session already") => break false,
            done => {
                done?;
                break true;
            }
        }
    };
    gone.extend(tried);
    Ok(written)
}
