//! Todos as Claude Code writes them: a document that is a list of them.

use crate::json::{Raw, Text, object};
use crate::model::{Body, Entry, FlawKind, Todo, TodoStatus};

use super::{Record, Sink};

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

/// The list that a whole document is.
pub(crate) fn document(record: &Record<'_>, out: &mut Sink<Entry>) -> Option<Body> {
    let text = String::from_utf8_lossy(record.bytes);
    let raw: Option<Raw<'_>> = serde_json::from_str(&text).ok();
    match raw {
        Some(list) if list.is_list() => Some(Body::Todos(
            list.list()
                .into_iter()
                .map(|item| todo(&item.read()))
                .collect(),
        )),
        _ => {
            out.flaw(FlawKind::BadDocument, record.span, "not a list of todos");
            None
        }
    }
}

/// One of a list.
pub(crate) fn todo(item: &Item<'_>) -> Todo {
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
