//! Writes the entries of an exported session.
//!
//! Entries are written in batches. If the layout refuses a batch, it is halved until the refused
//! entry is found; that entry is left out and counted.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::store::SessionWriter;
use annals_layouts::layout::{LAYOUTS, OpenReply, Spawn, raw_blocks};
use annals_layouts::model::{AgentId, Body, Draft, Entry, EntryId, Members, TitleSource, Todo};

use super::{ExportedAgent, ExportedSession, Imported, directory};

/// Number of entries in one write.
const BATCH: usize = 256;

/// Title and tag of a session.
struct Named {
    title: Option<String>,
    source: Option<TitleSource>,
    tag: Option<String>,
}

/// Returns whether an entry is a title given by a person.
fn is_title(entry: &Entry) -> bool {
    let custom = TitleSource::Custom;
    matches!(entry.body, Body::Title { source, .. } if source == custom)
}

/// Gives a new id to each entry that has the id of an earlier one and another body, because a
/// repeated id is refused. Entries after it that refer to the id mean the renamed entry.
fn rename_repeated(entries: &mut [Entry]) {
    let mut first: HashMap<EntryId, usize> = HashMap::new();
    let mut renamed: HashMap<EntryId, EntryId> = HashMap::new();
    for at in 0..entries.len() {
        let (before, rest) = entries.split_at_mut(at);
        let Some(entry) = rest.first_mut() else {
            continue;
        };
        if let Some(now) = entry.parent.as_ref().and_then(|id| renamed.get(id)) {
            entry.parent = Some(now.clone());
        }
        let Some(id) = entry.id.clone() else { continue };
        match first.get(&id).and_then(|earlier| before.get(*earlier)) {
            None => _ = first.insert(id, at),
            Some(earlier) if earlier.body == entry.body => {}
            Some(_) => {
                let now = EntryId::new(&format!("{id}-{at}"));
                entry.id = Some(now.clone());
                renamed.insert(id, now);
            }
        }
    }
}

/// Writes the entries of a session that was created, with `begun_with` as its title.
pub(super) fn write_session(
    writer: &SessionWriter,
    kept: ExportedSession,
    begun_with: Option<String>,
    imported: &mut Imported,
) -> Result<()> {
    if directory(&kept).is_none() {
        *imported.left_out.entry("project").or_default() += 1;
    }
    let named = Named {
        title: kept.title,
        source: kept.title_source,
        tag: kept.tag,
    };
    // Where entries are linked by id, a later entry replaces an earlier one with its id.
    let mut layouts = LAYOUTS.iter();
    let linked = layouts.any(|one| one.name() == kept.layout && one.follows_parent_links());
    let mut todos: HashMap<String, Vec<Todo>> = kept.todos.into_iter().collect();
    for mut log in kept.logs {
        if !linked {
            rename_repeated(&mut log.entries);
        }
        let own = todos.remove(log.agent.as_ref().map_or(kept.id.as_str(), |agent| {
            agent.id.as_deref().unwrap_or_default()
        }));
        match log.agent {
            None => {
                let mut pen = Pen::new(writer, imported);
                // The title is not written twice, unless there was another one in between.
                let said = |entry: &Entry| match (&entry.body, &begun_with) {
                    (Body::Title { text, .. }, Some(title)) => text.trim() == title.trim(),
                    _ => true,
                };
                pen.titled =
                    begun_with.is_some() && (pen.lists_title || log.entries.iter().all(said));
                let mut given = pen.entries(&log.entries)?;
                // A title that was set outside of the log comes after the titles in it.
                given.title &= pen.titled
                    || begun_with.is_none()
                    || log
                        .entries
                        .iter()
                        .rfind(|entry| is_title(entry))
                        .is_none_or(said);
                pen.head(&given, &named)?;
                pen.todos(own.or(given.todos))?;
            }
            Some(agent) => {
                let Some(helper) = spawn(writer, &agent)? else {
                    *imported.left_out.entry("agent").or_default() += 1;
                    continue;
                };
                imported.agents += 1;
                let mut pen = Pen::new(&helper, imported);
                let given = pen.entries(&log.entries)?;
                pen.todos(own.or(given.todos))?;
            }
        }
    }
    if !todos.is_empty() {
        *imported.left_out.entry("todos").or_default() += todos.len() as u64;
    }
    Ok(())
}

/// Creates a sub-agent's log; `None` if the layout cannot hold it.
fn spawn(writer: &SessionWriter, agent: &ExportedAgent) -> Result<Option<SessionWriter>> {
    let fresh = writer.new_id().replace('-', "");
    let fresh = format!("a{}", fresh.get(..16).unwrap_or(&fresh));
    let id = AgentId::new(agent.id.as_deref().unwrap_or(&fresh))?;
    let kind = agent.kind.as_deref().unwrap_or("agent");
    let mut spawn = Spawn::new(id, kind, agent.description.as_deref().unwrap_or_default());
    spawn.call.clone_from(&agent.call);
    match writer.spawn(&spawn) {
        Ok(helper) => Ok(Some(helper)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Session data that a log contains.
#[derive(Default)]
struct Given {
    title: bool,
    tag: bool,
    todos: Option<Vec<Todo>>,
}

/// Writes the entries of one log.
struct Pen<'a> {
    writer: &'a SessionWriter,
    imported: &'a mut Imported,
    /// New ids of entries, by their old ids.
    placed: HashMap<EntryId, EntryId>,
    /// Parents of entries that were left out. Their children are attached to these parents.
    skipped: HashMap<EntryId, Option<EntryId>>,
    /// Parent of the next entry, unless the entry has one; `None` if unknown.
    leaf: Option<EntryId>,
    /// The reply that the next entry may continue.
    reply: OpenReply,
    /// An entry of the tree was written.
    begun: bool,
    /// The session was created with its title.
    titled: bool,
    /// The title is in the session list, not in the log.
    lists_title: bool,
    /// The time of the last entry, for entries without one.
    time: Option<Timestamp>,
    /// Entry kinds that the layout does not write.
    refused: HashSet<&'static str>,
}

impl<'a> Pen<'a> {
    fn new(writer: &'a SessionWriter, imported: &'a mut Imported) -> Self {
        Pen {
            writer,
            imported,
            placed: HashMap::new(),
            skipped: HashMap::new(),
            leaf: None,
            reply: OpenReply::default(),
            begun: false,
            titled: false,
            lists_title: writer.is_title_in_list(),
            time: None,
            refused: HashSet::new(),
        }
    }

    fn entries(&mut self, entries: &[Entry]) -> Result<Given> {
        let mut given = Given {
            title: self.titled,
            ..Given::default()
        };
        let mut seen: HashSet<&EntryId> = HashSet::new();
        let summaries = summarized(entries);
        let mut batch: Vec<&Entry> = Vec::new();
        for entry in in_order(entries) {
            // Of two entries with the same id, the first is kept: a log cannot hold both.
            if entry.id.as_ref().is_some_and(|id| !seen.insert(id)) {
                self.leave(entry.body.kind());
                continue;
            }
            // An entry with an invalid id gets a new one, which must be known before its children
            // are written.
            let odd = entry.id.as_ref().is_some_and(|id| id.check().is_err());
            match &entry.body {
                Body::Todos(todos) => {
                    given.todos = Some(todos.clone());
                    self.skip(entry);
                }
                // Without its summary, it would hide the earlier messages.
                Body::Compaction { .. }
                    if entry.id.as_ref().is_none_or(|id| !summaries.contains(id)) =>
                {
                    self.leave_entry(entry);
                }
                Body::Title { .. } if self.titled && (is_title(entry) || !self.lists_title) => {
                    self.skip(entry);
                }
                _ if odd => {
                    self.write(&batch)?;
                    batch.clear();
                    self.write(&[entry])?;
                }
                body => {
                    given.title |= matches!(body, Body::Title { .. });
                    given.tag |= matches!(body, Body::Tag { .. });
                    batch.push(entry);
                }
            }
            if batch.len() == BATCH {
                self.write(&batch)?;
                batch.clear();
            }
        }
        self.write(&batch)?;
        Ok(given)
    }

    /// Writes the title and the tag, if the log does not contain them.
    fn head(&mut self, given: &Given, kept: &Named) -> Result<()> {
        let source = kept.source.filter(|source| *source > TitleSource::Summary);
        if let (Some(text), Some(source), false) = (kept.title.clone(), source, given.title) {
            self.aside(Body::Title { text, source })?;
        }
        if let (Some(text), false) = (kept.tag.clone(), given.tag) {
            self.aside(Body::Tag { text })?;
        }
        Ok(())
    }

    fn aside(&mut self, body: Body) -> Result<()> {
        let kind = body.kind();
        match self.writer.append_all(vec![Draft::new(body)]) {
            Err(error) if is_refusal(&error) => {
                self.leave(kind);
                Ok(())
            }
            done => done.map(drop),
        }
    }

    fn todos(&mut self, todos: Option<Vec<Todo>>) -> Result<()> {
        let Some(todos) = todos else { return Ok(()) };
        // An existing list belongs to another writer.
        let mut existing = None;
        let set = self.writer.edit_todos(|path, old, listed| {
            if old.is_empty() || listed == todos {
                return Ok(todos.clone());
            }
            existing = Some(path.to_owned());
            Err(Error::refused("the todo list already exists"))
        });
        self.imported.existing.extend(existing);
        match set {
            Err(error) if is_refusal(&error) => {
                self.leave("todos");
                Ok(())
            }
            done => done.map(drop),
        }
    }

    /// Writes a batch of entries. If the layout refuses it, splits it to find the refused entry.
    fn write(&mut self, batch: &[&Entry]) -> Result<()> {
        let mut wanted: Vec<&Entry> = Vec::with_capacity(batch.len());
        for entry in batch {
            match self.refused.contains(entry.body.kind()) {
                true => self.leave_entry(entry),
                false => wanted.push(entry),
            }
        }
        let Some(first) = wanted.first().copied() else {
            return Ok(());
        };
        let before = (self.leaf.clone(), self.reply.clone(), self.begun, self.time);
        let roots = self.imported.left_out.get("root").copied();
        let drafts: Vec<Draft> = wanted.iter().map(|entry| self.draft(entry)).collect();
        match self.writer.append_all(drafts) {
            Ok(written) => {
                self.imported.entries += wanted.len() as u64;
                if let (1, Some(last)) = (wanted.len(), written.last()) {
                    self.settle(first, last);
                }
                Ok(())
            }
            Err(error) if is_refusal(&error) => {
                (self.leaf, self.reply, self.begun, self.time) = before;
                match roots {
                    Some(roots) => _ = self.imported.left_out.insert("root", roots),
                    None => _ = self.imported.left_out.remove("root"),
                }
                let ids = wanted.iter().filter_map(|entry| entry.id.as_ref());
                for id in ids {
                    self.placed.remove(id);
                }
                if wanted.len() == 1 {
                    if !matches!(first.body, Body::Message(_)) {
                        self.refused.insert(first.body.kind());
                    }
                    self.leave_entry(first);
                    return Ok(());
                }
                let (first, second) = wanted.split_at(wanted.len() / 2);
                self.write(first)?;
                self.write(second)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the draft of an entry and records its id, because its children may be in the same
    /// batch.
    fn draft(&mut self, entry: &Entry) -> Draft {
        let mut draft = Draft::new(entry.body.clone());
        draft.id = entry.id.clone().filter(|id| id.check().is_ok());
        draft.members = self.known_members(entry);
        if let Body::Message(message) = &entry.body {
            // A block that cannot be written is refused with the draft.
            draft.raw_blocks =
                raw_blocks(&message.blocks, &entry.block_members).unwrap_or_default();
        }
        draft.time = entry.time.or(self.time);
        self.time = draft.time;
        if let Body::Summary { leaf, .. } = &mut draft.body {
            let there = leaf.as_ref().and_then(|leaf| self.resolve(leaf));
            *leaf = there.or(leaf.take());
        }
        let parent = entry.parent.as_ref().and_then(|id| self.resolve(id));
        let said = matches!(entry.body, Body::Message(_));
        let compacts = matches!(entry.body, Body::Compaction { .. });
        if (said || compacts) && parent.is_none() && self.begun {
            self.leave("root");
        }
        if let Some(writer) = self.writer.layout_writer() {
            let (body, fresh) = (&mut draft.body, &mut || self.writer.new_id());
            let given = self.reply.give_id(writer, parent.as_ref(), body, fresh);
            if said || compacts {
                self.reply.wrote(draft.id.clone(), given);
            }
        }
        if said || compacts || parent.is_some() {
            draft.parent = parent.filter(|parent| self.leaf.as_ref() != Some(parent));
            self.leaf.clone_from(&draft.id);
            self.begun = true;
        }
        if let (Some(id), Some(now)) = (&entry.id, &draft.id) {
            self.placed.insert(id.clone(), now.clone());
        }
        draft
    }

    /// Returns the members of an entry that the target layout supports. Counts the others as left
    /// out.
    fn known_members(&mut self, entry: &Entry) -> Members {
        let known = self.writer.known_members();
        let (members, unknown): (Members, Members) = entry
            .members
            .iter()
            .cloned()
            .partition(|(name, _)| known.contains(&name.as_str()));
        unknown.iter().for_each(|_| self.leave("member"));
        members
    }

    /// Records the id that an entry was given.
    fn settle(&mut self, entry: &Entry, written: &Entry) {
        let Some(now) = &written.id else { return };
        if let Some(id) = &entry.id {
            self.placed.insert(id.clone(), now.clone());
        }
        if matches!(entry.body, Body::Message(_)) {
            self.leaf = Some(now.clone());
        }
    }

    /// Returns the new id of an entry, or of its nearest ancestor that was not left out.
    fn resolve(&self, id: &EntryId) -> Option<EntryId> {
        let mut id = id;
        // Links may form a cycle.
        for _ in 0..=self.skipped.len() {
            if let Some(now) = self.placed.get(id) {
                return Some(now.clone());
            }
            id = self.skipped.get(id)?.as_ref()?;
        }
        None
    }

    fn leave_entry(&mut self, entry: &Entry) {
        self.leave(entry.body.kind());
        self.skip(entry);
    }

    fn skip(&mut self, entry: &Entry) {
        if let Some(id) = &entry.id {
            self.skipped.insert(id.clone(), entry.parent.clone());
        }
    }

    fn leave(&mut self, kind: &'static str) {
        *self.imported.left_out.entry(kind).or_default() += 1;
    }
}

/// Returns the entries in order, but each after its parent.
fn in_order(entries: &[Entry]) -> Vec<&Entry> {
    let mut index: HashMap<&EntryId, usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(id) = &entry.id {
            index.entry(id).or_insert(at);
        }
    }
    let mut done = vec![false; entries.len()];
    let mut ordered = Vec::with_capacity(entries.len());
    let mut above: Vec<usize> = Vec::new();
    for at in 0..entries.len() {
        let mut next = Some(at);
        while let Some(at) = next {
            match done.get_mut(at) {
                Some(done) if !*done => *done = true,
                _ => break,
            }
            above.push(at);
            let parent = entries.get(at).and_then(|entry| entry.parent.as_ref());
            next = parent.and_then(|id| index.get(id).copied());
        }
        // A cycle is cut above its first entry, as in the tree.
        if let Some(start) = above.iter().position(|&at| Some(at) == next) {
            let first = above.remove(start);
            above.push(first);
        }
        while let Some(at) = above.pop() {
            ordered.extend(entries.get(at));
        }
    }
    ordered
}

/// Returns the entries that are parents of summaries.
fn summarized(entries: &[Entry]) -> HashSet<&EntryId> {
    let summary =
        |entry: &&Entry| matches!(&entry.body, Body::Message(message) if message.compact_summary);
    let summaries = entries.iter().filter(summary);
    summaries
        .filter_map(|entry| entry.parent.as_ref())
        .collect()
}

/// Returns whether the layout cannot hold the entry, as opposed to a failure.
fn is_refusal(error: &Error) -> bool {
    error.is_refusal() || matches!(error, Error::BadId { .. } | Error::NotFound { .. })
}
