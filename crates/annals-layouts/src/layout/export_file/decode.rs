//! Decodes the lines of an export.

use serde::de::Error as _;

use crate::layout::content::title_prefix;
use crate::layout::{AGENT_SEPARATOR, Decoded, Decoder, Record, entry_outline};
use crate::model::{
    AgentId, Body, Entry, EntryKey, Fact, Money, Outline, Purpose, ResponseKey, Span,
};

use super::line::{AgentHead, ExportLine, SessionHead, parse_line};

/// Decodes the lines of an export.
#[derive(Debug)]
pub(super) struct LineDecoder;

/// A decoded entry, with what only its outline has.
struct ExportedEntry {
    entry: Entry,
    facts: Vec<Fact>,
    recorded: Option<Money>,
}

/// Returns whether an entry is made from the line of a session or an agent.
pub(super) fn is_head(entry: &Entry) -> bool {
    let is_marker = matches!(
        entry.body,
        Body::Opaque { flaw: None, .. } | Body::Agent { .. }
    );
    // Other entries name no session.
    entry.session.is_some() && is_marker
}

fn is_record(object: &str) -> bool {
    parse_line(object).is_ok()
}

/// Returns the entries of a line, and of the lines that a damaged line contains.
fn entries<T>(record: &Record<'_>, out: &mut Decoded<T>) -> Vec<ExportedEntry> {
    let before = out.flaws.len();
    let read = record.object_or_pieces(out, is_record, |text| {
        line_entries(text, record.span).map_err(serde_json::Error::custom)
    });
    match read {
        Ok(entries) => entries,
        Err(_) if record.is_blank() => Vec::new(),
        Err(pieces) => {
            let flaw = out.flaws.get(before).map(|flaw| flaw.kind);
            let damaged = Entry::new(record.span, Body::Opaque { kind: None, flaw });
            let mut found = vec![ExportedEntry::from(damaged)];
            found.extend(pieces.iter().flat_map(|piece| entries(piece, out)));
            found
        }
    }
}

impl From<Entry> for ExportedEntry {
    fn from(entry: Entry) -> Self {
        ExportedEntry {
            entry,
            facts: Vec::new(),
            recorded: None,
        }
    }
}

impl Decoder for LineDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        for found in entries(record, out) {
            let entry = &found.entry;
            if matches!(entry.body, Body::Opaque { flaw: Some(_), .. }) {
                continue;
            }
            let mut outline = entry_outline::outline(entry, found.recorded);
            outline.facts.extend(found.facts);
            add_facts(entry, &mut outline);
            out.items.push(outline);
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let found = entries(record, out).into_iter();
        out.items.extend(found.map(|found| found.entry));
    }

    fn is_record(&self, object: &str) -> bool {
        is_record(object)
    }
}

fn line_entries(text: &str, span: Span) -> Result<Vec<ExportedEntry>, String> {
    Ok(match parse_line(text)? {
        ExportLine::Session(head) => session_entries(*head, span),
        ExportLine::Agent(head) => vec![agent_entry(*head, span)],
        ExportLine::Entry(row) => {
            let facts = row.has_repeated_id().then_some(Fact::RepeatedId);
            let recorded = row.recorded_cost();
            let mut entry = row.entry()?;
            entry.span = span;
            // The session is that of the last head.
            entry.session = None;
            vec![ExportedEntry {
                facts: facts.into_iter().collect(),
                recorded,
                ..entry.into()
            }]
        }
        ExportLine::Problem(_) => vec![marker("problem", span)],
        ExportLine::End => vec![marker("end", span)],
    })
}

/// Returns an entry for a line that belongs to no session.
fn marker(kind: &str, span: Span) -> ExportedEntry {
    let kind = Some(kind.to_owned());
    let mut entry = Entry::new(span, Body::Opaque { kind, flaw: None });
    entry.session = Some(String::new());
    entry.into()
}

/// Returns an entry for a session, and one for each of its todo lists.
fn session_entries(head: SessionHead, span: Span) -> Vec<ExportedEntry> {
    let kind = Some("session".to_owned());
    let mut first = Entry::new(span, Body::Opaque { kind, flaw: None });
    first.time = head.started.or(head.updated);
    first.context.cwd = head.project;
    let mut found = vec![ExportedEntry::from(first)];
    for list in head.todos {
        let mut entry = Entry::new(span, Body::Todos(list.todos));
        let is_main = list.agent == head.id;
        entry.agent = AgentId::new(&list.agent).ok().filter(|_| !is_main);
        found.push(ExportedEntry {
            facts: vec![Fact::Todos],
            ..entry.into()
        });
    }
    if let Some(first) = found.first_mut() {
        let layout = head.layout.as_str().into();
        first.facts.push(Fact::Attribute("exported_from", layout));
        first.entry.session = Some(head.id);
    }
    found
}

fn agent_entry(head: AgentHead, span: Span) -> ExportedEntry {
    let session = head.session.unwrap_or_default();
    let agent = head.agent.as_deref().unwrap_or("agent");
    let purpose = Purpose {
        kind: head.kind.as_deref().map(title_prefix),
        description: head.description.as_deref().map(title_prefix),
        call: head.call.as_deref().map(EntryKey::from_text),
    };
    let mut entry = Entry::new(
        span,
        Body::Agent {
            kind: head.kind,
            description: head.description,
            call: head.call,
        },
    );
    entry.session = Some(format!("{session}{AGENT_SEPARATOR}{agent}"));
    ExportedEntry {
        facts: vec![Fact::Purpose(Box::new(purpose))],
        ..entry.into()
    }
}

/// Adds what the outline of an entry has in the layouts that it can come from.
fn add_facts(entry: &Entry, outline: &mut Outline) {
    let facts = &mut outline.facts;
    match &entry.body {
        Body::Message(message) => {
            let response = message.response.as_deref();
            let request = message.request.as_deref().unwrap_or_default();
            if let (Some(reply), Some(response)) = (&mut outline.reply, response) {
                reply.response = Some(ResponseKey::new(response, request));
            }
            facts.extend(
                message
                    .stored
                    .as_deref()
                    .map(|it| Fact::StoredOutput(it.into())),
            );
        }
        Body::Agent { .. } => {
            // The purpose with the call replaces the one without.
            let is_whole = |fact: &Fact| match fact {
                Fact::Purpose(purpose) => purpose.call.is_some(),
                _ => false,
            };
            if facts.iter().any(is_whole) {
                facts.retain(|fact| !matches!(fact, Fact::Purpose(_)) || is_whole(fact));
            }
        }
        Body::Note { text, .. } => facts.push(Fact::Note(title_prefix(text))),
        Body::Summary { text, leaf } => facts.push(Fact::Summary(
            title_prefix(text),
            leaf.as_ref().map(|leaf| leaf.key()),
        )),
        Body::Resume { leaf } => facts.push(Fact::Resume(leaf.key())),
        Body::Files(_) => facts.push(Fact::Files),
        _ => {}
    }
    let channel = entry.context.channel.as_deref();
    facts.extend(channel.map(|channel| Fact::Attribute("channel", channel.into())));
}
