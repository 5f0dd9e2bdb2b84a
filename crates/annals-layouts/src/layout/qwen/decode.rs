//! Decodes the documents of a root.

use crate::json::{Flag, Raw, Text, object};
use crate::layout::{Decoded, Decoder, Record, entry_outline, todos};
use crate::model::{ArtifactKind, Body, Entry, Outline, TodoStatus};

object! {
    struct AgentMeta<'a> {
        "agentType" => kind: Text<'a>,
        "description" => description: Text<'a>,
        "toolUseId" => call: Text<'a>,
    }
}

object! {
    struct TodoList<'a> { "todos" => todos: Raw<'a>, }
}

object! {
    struct QwenTodo<'a> { "annals" => annex: OwnTodo<'a>, }
}

object! {
    struct OwnTodo<'a> {
        "unnamed" => unnamed: Flag,
        "other" => other: Flag,
    }
}

/// Decodes the descriptions of sub-agents, and todos.
#[derive(Debug)]
pub(super) struct DocumentDecoder(pub(super) ArtifactKind);

impl DocumentDecoder {
    fn entry<T>(&self, record: &Record<'_>, out: &mut Decoded<T>) -> Option<Entry> {
        record.object(out, |text| {
            let body = match self.0 {
                ArtifactKind::Todos => {
                    let list: TodoList<'_> = serde_json::from_str(text)?;
                    let todos = list.todos.list().into_iter();
                    let todos = todos.map(|raw| {
                        let mut todo = todos::decode_todo(&raw.parse());
                        // The program requires an id, and one of its statuses.
                        let own = raw.parse::<QwenTodo<'_>>().annex;
                        todo.id.take_if(|_| own.unnamed.0);
                        if own.other.0 {
                            todo.status = TodoStatus::Other;
                        }
                        todo
                    });
                    Body::Todos(todos.collect())
                }
                _ => {
                    let meta: AgentMeta<'_> = serde_json::from_str(text)?;
                    Body::Agent {
                        kind: meta.kind.owned(),
                        description: meta.description.owned(),
                        call: meta.call.owned(),
                    }
                }
            };
            Ok(Entry::new(record.span, body))
        })
    }
}

impl Decoder for DocumentDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let entry = self.entry(record, out);
        let outline = entry.map(|entry| Outline::new(entry.span));
        out.items.extend(outline);
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.flaws.len();
        let entry = self.entry(record, out);
        entry_outline::push_entries(record, before, entry, out);
    }
}
