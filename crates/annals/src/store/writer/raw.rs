//! Records built by the caller, written byte for byte.
//!
//! The layout's writer is bypassed, so this checks what the writer would ensure: readers can decode
//! the record, it belongs to this session, its id is new, and the agent program will continue from
//! it.
//!
//! `Writer::check_record` checks the members that the layout's program requires.

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_layouts::json::describe_json_error;
use annals_layouts::layout::{Change, Decoded, Record};
use annals_layouts::model::{Body, Entry, EntryId, Fact, Link, Outline, Span};

use super::super::append_point::{AppendPoint, decode_records};
use super::{PoisonError, SessionState, SessionWriter, layout_writer};
use annals_layouts::layout::in_tree;

impl SessionWriter {
    /// Appends records of the session's layout unchanged, in one write, and reads them back.
    ///
    /// Each is one JSON object without line breaks, of a type that the layout knows. A record is
    /// rejected if it is damaged, lacks a member that the layout's program needs, names another
    /// session, has an existing id, or has a missing parent. A record that creates a branch is
    /// rejected unless a record makes the agent program resume there. If one record is rejected,
    /// none is written.
    pub fn append_raw(&self, records: Vec<Vec<u8>>) -> Result<Vec<Entry>> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        for (at, record) in records.iter().enumerate() {
            check_line(record).map_err(|why| refused(&records, at, why))?;
        }
        let log = self.log()?;
        let mut before = None;
        let mut expected = 0;
        let places = log
            .append_all_with(|end, handle| {
                let mut tail = self.append_point();
                if end != tail.end {
                    self.invalidate_message_count();
                }
                tail.catch_up(&self.root, handle, end)?;
                tail.expect_at(jsonl::next_offset(handle, end));
                self.check_raw(&mut tail, &records)?;
                before = Some((tail.state.log.clone(), tail.state.last_message.clone()));
                expected = tail.state.end;
                // The records are complete, so nothing goes to the companion file.
                tail.advance(&self.root, end, &records, &records, None);
                Ok::<_, Error>(records.clone())
            })
            .inspect_err(|_| self.append_point().invalidate())?;
        if places.first().is_some_and(|place| place.offset != expected) {
            // Another program wrote in between, so the ids may differ from the expected ones.
            self.append_point().invalidate();
        }
        let places = places
            .into_iter()
            .map(|place| (place.offset, place.end - place.offset));
        let written = records.iter().zip(places);
        let entries = before.map_or_else(Vec::new, |(log, last)| {
            decode_records(&self.root, &log, written, last)
        });
        let is_message = |entry: &Entry| matches!(entry.body, Body::Message(_));
        if entries.iter().any(is_message) {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = SessionState::Active;
        }
        self.update_list(&Change::Append(Vec::new()), &entries, None)?;
        Ok(entries)
    }

    fn check_raw(&self, tail: &mut AppendPoint, records: &[Vec<u8>]) -> Result<()> {
        let layout = self.root.layout;
        let writer = layout_writer(&self.root)?;
        let mut decoder = layout.decoder(&tail.state.log);
        let mut outliner = layout.decoder(&tail.state.log);
        let share = tail.file.slice.as_deref();
        let session = share.map_or_else(|| tail.state.session.clone(), |share| share.name.clone());
        let mut chain = Chain {
            leaf: tail.state.leaf.clone(),
            fresh: Vec::new(),
            moved: false,
            branched: None,
            resumes: None,
        };
        // A record that names no session belongs to the session of the record before it.
        let mut named = false;
        // Some layouts derive record ids from offsets.
        let mut offset = tail.state.end;
        for (at, bytes) in records.iter().enumerate() {
            let fail = |why: String| refused(records, at, why);
            let record = Record {
                span: Span {
                    offset,
                    len: bytes.len() as u64 + 1,
                    line: at as u64 + 1,
                },
                bytes,
                terminated: true,
                oversize: false,
            };
            offset += bytes.len() as u64 + 1;
            let text = String::from_utf8_lossy(bytes);
            writer.check_record(&tail.state, &text).map_err(fail)?;
            let (mut entries, mut outlines) = (Decoded::default(), Decoded::default());
            decoder.decode(&record, &mut entries);
            outliner.outline(&record, &mut outlines);
            if let Some(flaw) = entries.flaws.first().or(outlines.flaws.first()) {
                return Err(fail(flaw.detail.clone()));
            }
            if entries.items.is_empty() {
                return Err(fail(format!(
                    "the layout {} decodes no entry from it",
                    layout.name()
                )));
            }
            let facts = outlines.items.iter().flat_map(|outline| &outline.facts);
            for fact in facts {
                let Fact::Session(name) = fact else {
                    continue;
                };
                named = true;
                if **name != *session.as_str() {
                    return Err(fail(format!(
                        "it names the session {name}, but this is {session}"
                    )));
                }
            }
            if !named && !tail.accepts_unnamed() {
                return Err(fail(
                    "it names no session, and the record before it in the log belongs to another one"
                        .to_owned(),
                ));
            }
            for entry in &entries.items {
                let outline = outline_of(&outlines.items, entry);
                self.check_entry(tail, &mut chain, entry, outline, at)
                    .map_err(|error| fail(error.to_string()))?;
            }
        }
        chain.check(tail)
    }

    fn check_entry(
        &self,
        tail: &mut AppendPoint,
        chain: &mut Chain,
        entry: &Entry,
        outline: Option<&Outline>,
        at: usize,
    ) -> Result<()> {
        match &entry.body {
            Body::Opaque { kind, .. } => {
                let layout = self.root.layout.name();
                return Err(Error::refused(match kind {
                    Some(kind) => format!(
                        "the layout {layout} has no record type `{}`",
                        kind.escape_debug()
                    ),
                    None => format!("the record has no type that the layout {layout} knows"),
                }));
            }
            Body::Resume { leaf } => {
                if !chain.contains_id(&self.root, tail, leaf)? {
                    return Err(not_found(leaf));
                }
                chain.resumes = Some(leaf.clone());
                return Ok(());
            }
            _ => {}
        }
        if tail.state.agent.is_some() && entry.agent != tail.state.agent {
            return Err(Error::refused(
                "it does not belong to the sub-agent of this log",
            ));
        }
        if let Some(id) = &entry.id {
            id.check()?;
            if chain.fresh.contains(id) || tail.find_id(&self.root, id)?.is_some() {
                return Err(Error::Exists(format!(
                    "the id `{id}` is already in the session"
                )));
            }
        }
        if !in_tree(entry) {
            return Ok(());
        }
        if let Some(parent) = &entry.parent
            && !chain.contains_id(&self.root, tail, parent)?
        {
            return Err(not_found(parent));
        }
        let Some(id) = &entry.id else {
            return Ok(());
        };
        chain.fresh.push(id.clone());
        if entry.sidechain && tail.state.agent.is_none() {
            return Ok(());
        }
        let follows = outline.is_some_and(|outline| outline.link == Link::Previous);
        let begins = chain.leaf.is_none();
        if !follows && !begins && entry.parent.is_none() {
            return Err(Error::refused(
                "it names no parent although the session has messages, so it would begin a second conversation",
            ));
        }
        if !follows && !begins && entry.parent != chain.leaf {
            chain.branched.get_or_insert(at);
        }
        chain.leaf = Some(id.clone());
        chain.moved = true;
        Ok(())
    }
}

/// Position of the session after some records.
struct Chain {
    leaf: Option<EntryId>,
    /// Ids of the records so far.
    fresh: Vec<EntryId>,
    /// Whether a record moved the leaf.
    moved: bool,
    /// Index of the first record that creates a branch.
    branched: Option<usize>,
    /// Leaf that a record makes the agent program resume from.
    resumes: Option<EntryId>,
}

impl Chain {
    fn contains_id(
        &self,
        root: &super::Root,
        tail: &mut AppendPoint,
        id: &EntryId,
    ) -> Result<bool> {
        let leaf = self.leaf.as_ref() == Some(id);
        Ok(leaf || self.fresh.contains(id) || tail.find_id(root, id)? == Some(true))
    }

    /// Checks that the agent program would resume at the new leaf. It resumes at the end of the
    /// chain, or at the leaf that a record names.
    fn check(&self, tail: &AppendPoint) -> Result<()> {
        let names_leaf = self.resumes.is_some() && self.resumes == self.leaf;
        // A sub-agent's log is never resumed.
        if !self.moved || names_leaf || tail.state.agent.is_some() {
            return Ok(());
        }
        match self.branched {
            Some(at) => Err(Error::refused(format!(
                "record {} has an earlier message as parent, so the agent program would not continue from it; add a record that selects it (such as last-prompt with leafUuid), or append a message with --at; nothing was written",
                at + 1
            ))),
            None if !tail.state.resumes_at_leaf => Err(Error::refused(
                "the agent program would continue from an earlier message that the log selects; add a record that selects the new one (such as last-prompt with leafUuid); nothing was written",
            )),
            None => Ok(()),
        }
    }
}

/// Checks that a record is one JSON object on one line.
pub(in crate::store) fn check_line(record: &[u8]) -> std::result::Result<(), String> {
    if record.contains(&b'\n') {
        return Err("it contains a line break".to_owned());
    }
    if record.len() >= jsonl::MAX_LINE {
        return Err(format!(
            "it is longer than the limit of {} MB",
            jsonl::MAX_LINE >> 20
        ));
    }
    let text = std::str::from_utf8(record).map_err(|error| format!("it is not UTF-8: {error}"))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) => Err(format!("it is {}", describe_json_error(&error))),
        Ok(_) if !text.trim_start().starts_with('{') => Err("it is not a JSON object".to_owned()),
        Ok(_) => Ok(()),
    }
}

fn outline_of<'a>(outlines: &'a [Outline], entry: &Entry) -> Option<&'a Outline> {
    let key = entry.id.as_ref().map(EntryId::key);
    outlines.iter().find(|outline| outline.key == key)
}

fn not_found(id: &EntryId) -> Error {
    Error::refused(format!(
        "`{id}` is not a message of this session that the agent program can continue from"
    ))
}

fn refused(records: &[Vec<u8>], at: usize, why: String) -> Error {
    Error::refused(match records.len() {
        1 => format!("the record is refused: {why}; nothing was written"),
        _ => format!("record {} is refused: {why}; nothing was written", at + 1),
    })
}
