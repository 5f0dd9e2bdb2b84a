//! Todos: a document that is a list, as several layouts keep it.

use crate::json::{Raw, Text, object};
use crate::model::{Body, Entry, FlawKind, Outline, Todo, TodoStatus};

use super::{Decoder, Record, Sink};

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

/// Reads a document of todos.
#[derive(Debug)]
pub(crate) struct Todos;

impl Decoder for Todos {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        let mut sink = Sink::default();
        if record.is_blank() {
            return;
        }
        let read = read(record, &mut sink);
        out.flaws.append(&mut sink.flaws);
        out.found.extend(read.map(|_| Outline::at(record.span)));
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        if record.is_blank() {
            return;
        }
        let body = read(record, out).unwrap_or(Body::Opaque {
            kind: None,
            flaw: Some(FlawKind::BadDocument),
        });
        out.found.push(Entry::at(record.span, body));
    }
}

/// The list of a document.
pub(crate) fn read(record: &Record<'_>, out: &mut Sink<Entry>) -> Option<Body> {
    let text = String::from_utf8_lossy(record.bytes);
    let raw: Option<Raw<'_>> = serde_json::from_str(&text).ok();
    match raw {
        Some(list) if list.is_list() => Some(Body::Todos(
            list.list()
                .into_iter()
                .map(|item| one(&item.read()))
                .collect(),
        )),
        _ => {
            out.flaw(FlawKind::BadDocument, record.span, "not a list of todos");
            None
        }
    }
}

/// One item, in the words of a todo or of a task.
pub(crate) fn one(item: &Item<'_>) -> Todo {
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
