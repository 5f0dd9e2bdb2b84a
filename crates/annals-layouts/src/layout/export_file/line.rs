//! The lines of an export.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::json::describe_json_error;
use crate::model::{TitleSource, Todo, Usage};

use super::entry::EntryJson;

/// The version of an export's shape. A reader refuses a later one.
pub const VERSION: u32 = 1;

/// Session metadata, without the entries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionHead {
    /// `session`, in JSON lines.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub line: Option<Cow<'static, str>>,
    /// The version of the export's shape, in JSON lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annals: Option<u32>,
    /// The layout it was exported from.
    pub layout: String,
    /// Its id.
    pub id: String,
    /// The project directory; missing if no entry records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The origin of the title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_source: Option<TitleSource>,
    /// Its tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The time of its first entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// The time of its last entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Timestamp>,
    /// Number of its messages.
    pub messages: u64,
    /// The models that replied.
    pub models: Vec<String>,
    /// Its tokens.
    pub usage: Usage,
    /// The todos of its agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<TodoList>,
}

/// Todo list of one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TodoList {
    /// The agent id, or the session id for the main agent.
    pub agent: String,
    /// The todos.
    pub todos: Vec<Todo>,
}

/// Agent metadata, without the entries. The main agent has no members.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentHead {
    /// `agent`, in JSON lines.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub line: Option<Cow<'static, str>>,
    /// The session, in JSON lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its kind, such as `Explore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The tool call that spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

/// Something that could not be read, so that an export is incomplete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportProblem {
    /// The file or directory, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it could not be read.
    pub error: String,
}

/// One line of an export.
pub enum ExportLine<'a> {
    /// A session begins.
    Session(Box<SessionHead>),
    /// A sub-agent of the session begins.
    Agent(Box<AgentHead>),
    /// An entry of the agent.
    Entry(Box<EntryJson<'a>>),
    /// Something that could not be read.
    Problem(ExportProblem),
    /// The end of a document.
    End,
}

/// Parses a line. The error is the reason in words.
pub fn parse_line(text: &str) -> Result<ExportLine<'_>, String> {
    #[derive(Deserialize)]
    struct Tag {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    #[derive(Deserialize)]
    struct AnyHead {
        annals: Option<u32>,
    }
    let broken = |error: serde_json::Error| describe_json_error(&error);
    let Tag { kind } = serde_json::from_str(text).map_err(broken)?;
    Ok(match kind.as_deref() {
        Some("session") => {
            let head: SessionHead = serde_json::from_str(text).map_err(broken)?;
            check_version(head.annals)?;
            if head.id.is_empty() {
                return Err("a session needs `id`".to_owned());
            }
            ExportLine::Session(Box::new(head))
        }
        Some("agent") => {
            let head: AgentHead = serde_json::from_str(text).map_err(broken)?;
            if head.session.is_none() {
                return Err("an agent needs `session`".to_owned());
            }
            ExportLine::Agent(Box::new(head))
        }
        Some("entry") => ExportLine::Entry(serde_json::from_str(text).map_err(broken)?),
        Some("problem") => ExportLine::Problem(serde_json::from_str(text).map_err(broken)?),
        Some("end") => {
            let head: AnyHead = serde_json::from_str(text).map_err(broken)?;
            check_version(head.annals)?;
            ExportLine::End
        }
        Some(other) => {
            return Err(format!(
                "unknown type `{}`; expected session, agent or entry",
                other.escape_debug()
            ));
        }
        None => return Err("missing `type`".to_owned()),
    })
}

fn check_version(version: Option<u32>) -> Result<(), String> {
    match version {
        Some(version) if version > VERSION => Err(format!(
            "unsupported format version {version}; this annals reads up to {VERSION}, use a newer one"
        )),
        _ => Ok(()),
    }
}
