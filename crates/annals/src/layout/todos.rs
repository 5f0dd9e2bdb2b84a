//! Todos as a document: an array of objects, which is how Claude Code keeps them and how we keep
//! them for layouts that have none.
//!
//! ```text
//! [{"content":…,"status":"pending"|"in_progress"|"completed","priority":…,"activeForm":…,"id":…}]
//! ```

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

/// Reads a list of todos.
#[derive(Debug)]
pub(crate) struct Todos;

impl Decoder for Todos {
    fn outline(&mut self, record: &Record<'_>, out: &mut Sink<Outline>) {
        if !record.is_blank() && list(record, out).is_some() {
            out.found.push(Outline::at(record.span));
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Sink<Entry>) {
        if record.is_blank() {
            return;
        }
        let body = list(record, out).unwrap_or(Body::Opaque {
            kind: None,
            flaw: Some(FlawKind::BadDocument),
        });
        out.found.push(Entry::at(record.span, body));
    }
}

/// A list of todos; what keeps it from being one goes to `out`.
pub(crate) fn list<S>(record: &Record<'_>, out: &mut Sink<S>) -> Option<Body> {
    let text = String::from_utf8_lossy(record.bytes);
    let raw: Option<Raw<'_>> = serde_json::from_str(&text).ok();
    match raw {
        Some(list) if list.is_list() => {
            let items = list.list().into_iter();
            Some(Body::Todos(
                items.map(|item| item_of(&item.read())).collect(),
            ))
        }
        _ => {
            out.flaw(FlawKind::BadDocument, record.span, "not a list of todos");
            None
        }
    }
}

/// One todo, or a task, which has a subject instead.
pub(crate) fn one(text: &str) -> serde_json::Result<Todo> {
    serde_json::from_str(text).map(|item| item_of(&item))
}

fn item_of(item: &Item<'_>) -> Todo {
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
