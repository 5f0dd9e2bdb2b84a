//! `note`, `tag` and `todo`: what an agent may attach to a session. Conversations are not changed.

use annals::model::{Body, Draft, Todo};
use annals::store::{SessionWriter, WriteOptions};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, ListAnswer};
use crate::arguments::{budget_bytes, parse};
use crate::server::{Server, describe};

/// Most bytes of a note, a tag or a todo.
const MAX_TEXT: usize = 4_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    text: String,
}

pub(super) fn note(server: &Server, arguments: Value) -> Result<Answer, String> {
    let Arguments { session, text } = with_text(arguments)?;
    let writer = open(server, &session)?;
    let written = writer.append(Draft::new(Body::Note {
        author: Some("annals mcp".to_owned()),
        text,
    }));
    written.map_err(|error| describe(&error))?;
    answer_written(&writer, "The note was added.")
}

pub(super) fn tag(server: &Server, arguments: Value) -> Result<Answer, String> {
    let Arguments { session, text } = with_text(arguments)?;
    let writer = open(server, &session)?;
    writer.tag(&text).map_err(|error| describe(&error))?;
    answer_written(&writer, "The tag was set.")
}

pub(super) fn todo(server: &Server, arguments: Value) -> Result<Answer, String> {
    let Arguments { session, text } = with_text(arguments)?;
    let open_session = server.open(&session)?;
    let id = open_session.session.files.id.to_string();
    let lists = open_session.todos().map_err(|error| describe(&error))?;
    let own = lists.into_iter().find(|(agent, _)| *agent == id);
    let mut todos = own.map(|(_, todos)| todos).unwrap_or_default();
    todos.push(Todo::pending(text));
    let writer = open(server, &session)?;
    writer.set_todos(&todos).map_err(|error| describe(&error))?;
    answer_written(&writer, "The todo was added.")
}

/// Parses arguments whose text says something.
fn with_text(arguments: Value) -> Result<Arguments, String> {
    let mut arguments: Arguments = parse(arguments)?;
    arguments.text = arguments.text.trim().to_owned();
    match arguments.text.len() {
        0 => Err("the text is empty".to_owned()),
        bytes if bytes > MAX_TEXT => Err(format!(
            "the text has {bytes} bytes; it must have at most {MAX_TEXT}"
        )),
        _ => Ok(arguments),
    }
}

/// Opens a session for changes outside its conversation, which are safe while another program
/// writes.
fn open(server: &Server, session: &str) -> Result<SessionWriter, String> {
    let options = WriteOptions {
        live: true,
        ..WriteOptions::default()
    };
    let writer = server.service.resume(session, options);
    writer.map_err(|error| describe(&error))
}

fn answer_written(writer: &SessionWriter, text: &str) -> Result<Answer, String> {
    let members = json!({ "session": writer.session().as_str() });
    let answer = ListAnswer {
        budget: budget_bytes(None)?,
        name: "changed",
        members: members.as_object().cloned().unwrap_or_else(Map::new),
        heading: format!("{text} ({})", writer.session()),
        is_reversed: false,
    };
    answer.fit(Vec::new(), |_| None)
}
