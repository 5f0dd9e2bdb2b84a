//! Todos: a JSON list, used by several layouts.

use crate::json::{Raw, Text, object};
use crate::model::{Body, Entry, FlawKind, Outline, Todo, TodoStatus};

use super::{Decoded, Decoder, Record};

object! {
    struct Item<'a> {
        "id" => id: Text<'a>,
        "content" => content: Text<'a>,
        "subject" => subject: Text<'a>,
        "status" => status: Text<'a>,
        "priority" => priority: Text<'a>,
        "activeForm" => active_form: Text<'a>,
    }
}

/// Decoder for todo documents.
#[derive(Debug)]
pub(crate) struct TodosDecoder;

impl Decoder for TodosDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let mut sink = Decoded::default();
        if record.is_blank() {
            return;
        }
        let read = decode_todos(record, &mut sink);
        out.flaws.append(&mut sink.flaws);
        out.items.extend(read.map(|_| Outline::new(record.span)));
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        if record.is_blank() {
            return;
        }
        let body = decode_todos(record, out).unwrap_or(Body::Opaque {
            kind: None,
            flaw: Some(FlawKind::BadDocument),
        });
        out.items.push(Entry::new(record.span, body));
    }
}

/// Decodes a todo document.
pub(crate) fn decode_todos(record: &Record<'_>, out: &mut Decoded<Entry>) -> Option<Body> {
    let text = String::from_utf8_lossy(record.bytes);
    let raw: Option<Raw<'_>> = serde_json::from_str(&text).ok();
    match raw {
        Some(list) if list.is_list() => Some(Body::Todos(
            list.list()
                .into_iter()
                .map(|item| decode_todo(&item.parse()))
                .collect(),
        )),
        _ => {
            out.add_flaw(FlawKind::BadDocument, record.span, "not a list of todos");
            None
        }
    }
}

/// Decodes one item, with the member names of a todo or of a task.
pub(crate) fn decode_todo(item: &Item<'_>) -> Todo {
    let text = item
        .content
        .get()
        .or(item.subject.get())
        .unwrap_or_default();
    Todo {
        content: text.to_owned(),
        status: match item.status.or_empty() {
            "pending" => TodoStatus::Pending,
            "in_progress" => TodoStatus::InProgress,
            "completed" => TodoStatus::Completed,
            _ => TodoStatus::Other,
        },
        priority: item.priority.owned(),
        active_form: item.active_form.owned(),
        id: item.id.owned(),
    }
}
