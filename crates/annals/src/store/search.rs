//! Which records a text stands in: messages and notes of all sessions, letter case aside.
//!
//! Every session is gone through, several at once, and one record of each is held at a time. Of the
//! hits no more are kept than are asked for.

use std::cmp::Reverse;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use jiff::Timestamp;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Block, Body, Entry, EntryId, Fact, Outline, Role, SessionId};

use super::inventory::{Inventory, SessionFiles};
use super::log::Reader;
use super::neighbour::Neighbours;
use super::session::Session;
use super::{Store, needle::Needle};

/// What is looked for, and where.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// The text.
    pub text: String,
    /// Only in sessions of this project: its path, its name or its id.
    pub project: Option<String>,
    /// Only in what is not older.
    pub since: Option<Timestamp>,
    /// Only in what is not newer.
    pub until: Option<Timestamp>,
    /// How many hits are kept.
    pub limit: usize,
}

impl Query {
    /// Looks for a text everywhere.
    pub fn new(text: impl Into<String>) -> Self {
        Query {
            text: text.into(),
            project: None,
            since: None,
            until: None,
            limit: 50,
        }
    }

    /// Only in sessions of this project.
    pub fn project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Only in what was said in this time.
    pub fn within(mut self, since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        (self.since, self.until) = (since, until);
        self
    }

    /// Keeps at most so many hits.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    fn covers(&self, time: Option<Timestamp>) -> bool {
        self.since
            .is_none_or(|since| time.is_some_and(|time| time >= since))
            && self
                .until
                .is_none_or(|until| time.is_some_and(|time| time <= until))
    }
}

/// A record in which the text stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its entry's id.
    pub entry: Option<EntryId>,
    /// The file it lies in.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: u64,
    /// Who said it; `None` for a note.
    pub role: Option<Role>,
    /// When.
    pub time: Option<Timestamp>,
    /// The line of the text that the match stands in, cut around it.
    pub snippet: String,
    /// Where in the snippet the match stands.
    pub at: Range<usize>,
}

/// What a search found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Found {
    /// The hits, those of the session that was last at work first, and in the order of its logs.
    pub hits: Vec<Hit>,
    /// How many records match.
    pub total: u64,
    /// More match than were kept.
    pub truncated: bool,
    /// What could not be searched.
    pub troubles: Vec<Error>,
}

impl Store {
    /// Looks for a text in all sessions of an inventory.
    pub fn search(&self, inventory: &Inventory, query: &Query) -> Found {
        let Some(needle) = Needle::new(&query.text) else {
            return Found::default();
        };
        let heap = Mutex::new(Heap::default());
        // Largest first, so that no thread is left alone with a giant at the end.
        let mut order: Vec<&SessionFiles> = inventory.sessions.iter().collect();
        order.sort_by_key(|files| Reverse(files.log_bytes()));
        order.into_par_iter().with_max_len(1).for_each(|files| {
            let searched = search_session(inventory, files, &needle, query);
            // No one panics while it is held.
            if let Ok(mut heap) = heap.lock() {
                heap.add(searched, query.limit);
            }
        });
        heap.into_inner().unwrap_or_default().finish(query.limit)
    }
}

/// The hits of one session.
struct Searched {
    updated: Option<Timestamp>,
    session: SessionId,
    file: PathBuf,
    hits: Vec<Hit>,
    total: u64,
    trouble: Option<Error>,
}

/// Hits of the sessions so far, no more than are asked for.
#[derive(Default)]
struct Heap {
    sessions: Vec<Searched>,
    total: u64,
    troubles: Vec<(PathBuf, Error)>,
}

impl Heap {
    fn add(&mut self, mut searched: Searched, limit: usize) {
        self.total += searched.total;
        let trouble = searched.trouble.take();
        self.troubles
            .extend(trouble.map(|error| (searched.file.clone(), error)));
        if searched.hits.is_empty() {
            return;
        }
        self.sessions.push(searched);
        self.sessions.sort_by(|a, b| {
            let newest = b.updated.cmp(&a.updated);
            newest.then_with(|| (&a.session, &a.file).cmp(&(&b.session, &b.file)))
        });
        let mut kept = 0;
        self.sessions.retain(|searched| {
            let wanted = kept < limit;
            kept += searched.hits.len();
            wanted
        });
    }

    fn finish(mut self, limit: usize) -> Found {
        self.troubles.sort_by(|(a, _), (b, _)| a.cmp(b));
        let sessions = self.sessions.into_iter();
        let mut hits: Vec<Hit> = sessions.flat_map(|searched| searched.hits).collect();
        hits.truncate(limit);
        Found {
            truncated: self.total > hits.len() as u64,
            hits,
            total: self.total,
            troubles: self.troubles.into_iter().map(|(_, error)| error).collect(),
        }
    }
}

fn search_session(
    inventory: &Inventory,
    files: &SessionFiles,
    needle: &Needle,
    query: &Query,
) -> Searched {
    let mut searched = Searched {
        updated: None,
        session: files.id.clone(),
        file: files.main_path().to_owned(),
        hits: Vec::new(),
        total: 0,
        trouble: None,
    };
    searched.trouble = search_logs(inventory, files, needle, query, &mut searched).err();
    searched
}

fn search_logs(
    inventory: &Inventory,
    files: &SessionFiles,
    needle: &Needle,
    query: &Query,
    searched: &mut Searched,
) -> Result<()> {
    let mut session = Session::read(files.clone())?;
    if let Some(project) = &query.project {
        // Few name no directory; those share that of the sessions beside them.
        if session.directories().is_empty() {
            session.find_summaries(&Neighbours::of(&inventory.sessions));
        }
        if !session.info(None).in_project(project) {
            return Ok(());
        }
    }
    let outlines = session.logs.iter().flat_map(|scan| &scan.outlines);
    searched.updated = outlines.filter_map(|outline| outline.time).max();
    let logs = session.files.logs().zip(&session.logs);
    let remarks = session.files.notes().zip(&session.remarks);
    for (file, scan) in logs.chain(remarks) {
        let mut reader = Reader::of(&files.root, file, &scan.outlines);
        for (at, outline) in scan.outlines.iter().enumerate() {
            if !speaks(outline) || !query.covers(outline.time) {
                continue;
            }
            let (_, entry) = reader.record_if(at, |bytes| needle.may_be_in(bytes))?;
            let Some(entry) = entry else { continue };
            let Some((snippet, at)) = find(&entry, needle) else {
                continue;
            };
            searched.total += 1;
            if searched.hits.len() < query.limit {
                searched.hits.push(Hit {
                    session: files.id.clone(),
                    entry: entry.id,
                    file: file.volume(outline.volume).path.clone(),
                    line: entry.span.line,
                    role: match &entry.body {
                        Body::Message(message) => Some(message.role),
                        _ => None,
                    },
                    time: entry.time,
                    snippet,
                    at,
                });
            }
        }
    }
    Ok(())
}

fn speaks(outline: &Outline) -> bool {
    let note = |fact: &Fact| matches!(fact, Fact::Note(_));
    outline.kind.is_message() || outline.facts.iter().any(note)
}

/// The first place in an entry's texts where the needle stands.
fn find(entry: &Entry, needle: &Needle) -> Option<(String, Range<usize>)> {
    let mut found = None;
    let mut look = |text: &str| {
        if found.is_none() {
            found = needle.find(text).map(|at| needle.snippet(text, at));
        }
    };
    match &entry.body {
        Body::Message(message) => message
            .blocks
            .iter()
            .for_each(|block| texts(block, &mut look)),
        Body::Note { text, .. } => look(text),
        _ => {}
    }
    found
}

/// The texts of a block; of JSON, those of its strings as they read without escapes.
fn texts(block: &Block, look: &mut dyn FnMut(&str)) {
    match block {
        Block::ToolUse { name, input, .. } => {
            look(name);
            json_texts(input, look);
        }
        Block::Opaque { json, .. } => json_texts(json, look),
        Block::ToolResult { output, .. } => {
            // Results hold only flat blocks, so this goes one level deep.
            output.iter().for_each(|block| match block {
                Block::ToolResult { .. } => {}
                block => texts(block, look),
            });
        }
        other => other.texts(&mut |text| look(text)),
    }
}

fn json_texts(json: &str, look: &mut dyn FnMut(&str)) {
    let value: serde_json::Value = match serde_json::from_str(json) {
        Ok(value) => value,
        // Too deep, or otherwise beyond the parser: as it stands.
        Err(_) => return look(json),
    };
    let mut pending = vec![&value];
    while let Some(value) = pending.pop() {
        match value {
            serde_json::Value::String(text) => look(text),
            serde_json::Value::Number(number) => look(&number.to_string()),
            serde_json::Value::Array(items) => pending.extend(items.iter().rev()),
            serde_json::Value::Object(members) => pending.extend(members.values().rev()),
            serde_json::Value::Bool(_) | serde_json::Value::Null => {}
        }
    }
}
