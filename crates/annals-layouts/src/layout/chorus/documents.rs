//! Decoders for documents: session list, configuration, todos.

use std::collections::HashSet;

use serde::de::IgnoredAny;

use crate::json::{Raw, Text, describe_json_error, object};
use crate::layout::extension::Extension;
use crate::layout::salvage::whole_objects;
use crate::layout::usage_fields::decode_time;
use crate::layout::{Decoded, Decoder, Record, todos};
use crate::model::{
    Artifact, Body, Entry, FlawKind, ListRow, ListSubject, Outline, SessionId, Span,
};

use super::config::Config;
use super::json_array::{JsonArray, document_text};
use super::path;

/// Name of the list within a session list document.
pub(super) const CONVERSATIONS: &str = "conversations";

/// Title of a conversation that has none yet.
pub(super) const UNTITLED: &str = "New Conversation";

object! {
    struct Conversation<'a> {
        "id" => id: Text<'a>,
        "sessionId" => session: Text<'a>,
        "agentId" => agent: Text<'a>,
        "workspaceId" => workspace: Text<'a>,
        "title" => title: Text<'a>,
        "createdAt" => created: Raw<'a>,
        "updatedAt" => updated: Raw<'a>,
        "messageCount" => messages: Raw<'a>,
        "branchName" => branch: Text<'a>,
        "worktreePath" => worktree: Text<'a>,
        "annals" => annex: Extension<'a>,
    }
}

impl Conversation<'_> {
    /// Returns whether this is a row, and not some other object with an id.
    fn is_row(&self) -> bool {
        let known = [
            self.agent.get().is_some(),
            self.workspace.get().is_some(),
            self.title.get().is_some(),
            self.created.is_some(),
            self.updated.is_some(),
            self.messages.is_some(),
        ];
        self.id.non_empty().is_some() && known.iter().filter(|known| **known).count() >= 2
    }

    /// Describes how the row disagrees with the folder that it is listed in.
    fn mismatch(&self, folder: &str) -> Option<String> {
        let (workspace, agent) = folder.split_once('/')?;
        let named = [
            ("workspaceId", &self.workspace, workspace),
            ("agentId", &self.agent, agent),
        ];
        let wrong = named.iter().filter_map(|(name, given, own)| {
            let given = given.non_empty().filter(|given| given != own)?;
            Some(format!("`{name}` is {given}; expected {own}"))
        });
        let wrong: Vec<String> = wrong.collect();
        let id = self.id.or_empty();
        (!wrong.is_empty()).then(|| format!("in the row of {id}, {}", wrong.join("; ")))
    }

    fn list_row(&self, id: SessionId) -> ListRow {
        let mut about = ListRow::new(ListSubject::Session(id));
        let title = self.title.non_empty().filter(|title| *title != UNTITLED);
        about.title = title.map(str::to_owned);
        let cwd = self.worktree.non_empty().or(self.annex.cwd.non_empty());
        about.cwd = cwd.map(str::to_owned);
        let branch = self.branch.non_empty().or(self.annex.branch.non_empty());
        about.git_branch = branch.map(str::to_owned);
        about.started = decode_time(self.created);
        about.updated = decode_time(self.updated);
        about.messages = self.messages.count().ok().flatten();
        let session = self.session.non_empty().map(str::to_owned);
        let session = session.map(|session| ("session_id".to_owned(), session));
        about.attributes.extend(session);
        about
    }
}

/// Decoder for session lists and the configuration.
#[derive(Debug)]
pub(super) struct SessionListDecoder {
    /// Folder of the session list; `None` for the configuration.
    folder: Option<String>,
}

impl SessionListDecoder {
    pub(super) fn new(artifact: &Artifact) -> Self {
        SessionListDecoder {
            folder: artifact.folder.clone(),
        }
    }
}

impl Decoder for SessionListDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        outline_document(self, record, out);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        if record.is_blank() && self.folder.is_none() {
            return;
        }
        let mut faults = Vec::new();
        let mut mismatches = Vec::new();
        let abouts = match &self.folder {
            Some(folder) => conversations(folder, record.bytes, &mut faults, &mut mismatches),
            None => Config::list_rows(record.bytes, &mut faults),
        };
        for fault in faults {
            out.add_flaw(FlawKind::BadDocument, record.span, fault);
        }
        for mismatch in mismatches {
            out.add_flaw(FlawKind::MismatchedId, record.span, mismatch);
        }
        out.items
            .push(Entry::new(record.span, Body::SessionList(abouts)));
    }
}

/// Decodes a session list and collects faults and rows that name another folder. From a damaged
/// list, recovers the rows that are whole.
fn conversations(
    folder: &str,
    bytes: &[u8],
    faults: &mut Vec<String>,
    mismatches: &mut Vec<String>,
) -> Vec<ListRow> {
    let document = document_text(bytes);
    if std::str::from_utf8(bytes).is_err() {
        faults.push("some bytes are not UTF-8".to_owned());
    }
    let salvaged;
    let rows: Vec<&str> = match JsonArray::find(&document, CONVERSATIONS) {
        Some(list) => list.rows().collect(),
        None => {
            faults.push(fault(&document, CONVERSATIONS));
            salvaged = salvage(bytes);
            salvaged.iter().map(String::as_str).collect()
        }
    };
    let mut abouts = Vec::new();
    let mut seen = HashSet::new();
    for row in rows {
        let row: Conversation<'_> = serde_json::from_str(row).unwrap_or_default();
        let id = row.id.or_empty();
        match path::owner(id) {
            None if id.is_empty() => faults.push("a conversation has no id".to_owned()),
            None => faults.push(format!(
                "a conversation id is not a valid file name: {id:?}"
            )),
            // A sub-agent is described by its own log.
            Some((_, Some(_))) => {}
            Some((session, None)) => {
                if !seen.insert(session.clone()) {
                    faults.push(format!("duplicate conversation id `{session}`"));
                    // The later one takes precedence.
                    abouts.retain(|about: &ListRow| {
                        about.subject != ListSubject::Session(session.clone())
                    });
                }
                mismatches.extend(row.mismatch(folder));
                let mut about = row.list_row(session);
                // The folder takes precedence: a row may have been copied from another.
                if let Some((workspace, agent)) = folder.split_once('/') {
                    let owner = [("workspace", workspace), ("agent", agent)];
                    let owner = owner.map(|(name, id)| (name.to_owned(), id.to_owned()));
                    about.attributes.extend(owner);
                }
                abouts.push(about);
            }
        }
    }
    abouts
}

/// Returns the exact text of the whole rows in a damaged session list.
pub(super) fn salvage(bytes: &[u8]) -> Vec<String> {
    /// Rows are in a list in an object; other nesting is not much deeper.
    const DEEPEST: usize = 4;
    let mut rows = Vec::new();
    let mut pending = vec![(bytes, DEEPEST)];
    while let Some((bytes, depth)) = pending.pop() {
        let mut within = Vec::new();
        for range in whole_objects(bytes) {
            let object = bytes.get(range).unwrap_or_default();
            let text = String::from_utf8_lossy(object);
            let row: Conversation<'_> = serde_json::from_str(&text).unwrap_or_default();
            if row.is_row() {
                rows.push(text.into_owned());
            } else if depth > 0 {
                within.push((object.get(1..).unwrap_or_default(), depth - 1));
            }
        }
        pending.extend(within.into_iter().rev());
    }
    rows
}

/// Describes why a document is not an object with a list of that name.
pub(super) fn fault(document: &str, list: &str) -> String {
    match serde_json::from_str::<IgnoredAny>(document) {
        Err(error) if document.trim().is_empty() => {
            let _ = error;
            "it is empty".to_owned()
        }
        Err(error) => describe_json_error(&error),
        Ok(_) => format!("it has no list `{list}`"),
    }
}

/// Decoder for todo lists.
#[derive(Debug)]
pub(super) struct TodoListDecoder;

impl Decoder for TodoListDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        outline_document(self, record, out);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        if record.is_blank() {
            return;
        }
        let flaw = Some(FlawKind::BadDocument);
        let body = todos::decode_todos(record, out).unwrap_or(Body::Opaque { kind: None, flaw });
        out.items.push(Entry::new(record.span, body));
    }
}

/// Outlines a document without any facts.
fn outline_document(decoder: &mut dyn Decoder, record: &Record<'_>, out: &mut Decoded<Outline>) {
    let mut sink = Decoded::default();
    decoder.decode(record, &mut sink);
    out.flaws.append(&mut sink.flaws);
    let readable = |entry: &&Entry| !matches!(entry.body, Body::Opaque { flaw: Some(_), .. });
    let spans: Vec<Span> = sink
        .items
        .iter()
        .filter(readable)
        .map(|entry| entry.span)
        .collect();
    out.items.extend(spans.into_iter().map(Outline::new));
}
