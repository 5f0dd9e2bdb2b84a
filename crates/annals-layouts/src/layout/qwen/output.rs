//! Records and documents as they are written.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json;
use crate::layout::content::{one_line, raw};
use crate::layout::extension::ExtensionOut;
use crate::layout::{AppendState, Edit};
use crate::model::{AgentId, Artifact, ArtifactKind, Block, Todo, TodoStatus, Usage};

use super::fold::OWN;
use super::path;

/// A todo. The program requires an id.
#[derive(Serialize)]
struct TodoOut<'a> {
    id: &'a str,
    content: &'a str,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a str>,
    #[serde(rename = "activeForm", skip_serializing_if = "Option::is_none")]
    active_form: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annals: Option<OwnTodo>,
}

/// Differences between a todo and the form that the program requires.
#[derive(Serialize)]
struct OwnTodo {
    /// Whether it has no id.
    unnamed: bool,
    /// Whether its status is another one than the program's.
    other: bool,
}

#[derive(Serialize)]
struct TodoListOut<'a> {
    todos: Vec<TodoOut<'a>>,
    #[serde(rename = "sessionId")]
    session: &'a str,
}

/// Returns the edit that replaces the todos of the main agent.
pub(super) fn todos_edit(head: &AppendState, todos: &[Todo]) -> Result<Edit> {
    let ids = (1..=todos.len()).map(|number| format!("annals-{number}"));
    let ids: Vec<String> = ids.collect();
    let todos = todos.iter().zip(&ids).map(|(todo, own)| TodoOut {
        id: todo.id.as_deref().unwrap_or(own),
        content: &todo.content,
        status: match todo.status {
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed => "completed",
            _ => "pending",
        },
        priority: todo.priority.as_deref(),
        active_form: todo.active_form.as_deref(),
        annals: Some(OwnTodo {
            unnamed: todo.id.is_none(),
            other: todo.status == TodoStatus::Other,
        })
        .filter(|own| own.unnamed || own.other),
    });
    let list = TodoListOut {
        todos: todos.collect(),
        session: head.session.as_str(),
    };
    let file = Artifact {
        session: Some(head.session.clone()),
        agent: Some(AgentId::new(head.session.as_str())?),
        ..Artifact::new(ArtifactKind::Todos)
    };
    Ok(Edit::Replace {
        path: path::path_for(&file),
        bytes: encode(&list)?,
    })
}

/// The description of a sub-agent.
#[derive(Serialize)]
pub(super) struct AgentMetaOut<'a> {
    #[serde(rename = "agentId")]
    pub(super) agent: &'a str,
    #[serde(rename = "agentType")]
    pub(super) kind: &'a str,
    pub(super) description: &'a str,
    #[serde(rename = "parentSessionId")]
    pub(super) session: &'a str,
    #[serde(rename = "toolUseId", skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<&'a str>,
    pub(super) status: &'a str,
}

/// A record.
#[derive(Serialize)]
pub(super) struct RecordOut<'a> {
    pub(super) uuid: &'a str,
    #[serde(rename = "parentUuid")]
    pub(super) parent: Option<&'a str>,
    #[serde(rename = "sessionId")]
    pub(super) session: &'a str,
    pub(super) timestamp: String,
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provenance: Option<&'a str>,
    pub(super) cwd: &'a str,
    pub(super) version: &'a str,
    #[serde(rename = "gitBranch", skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<&'a str>,
    #[serde(rename = "agentId", skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<&'a str>,
    #[serde(rename = "isSidechain", skip_serializing_if = "Option::is_none")]
    pub(super) sidechain: Option<bool>,
    #[serde(flatten)]
    pub(super) content: ContentOut<'a>,
    pub(super) annals: ExtensionOut<'a>,
}

#[derive(Default, Serialize)]
pub(super) struct ContentOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subtype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Box<RawValue>>,
    #[serde(rename = "usageMetadata", skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Box<RawValue>>,
    #[serde(rename = "toolCallResult", skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Box<RawValue>>,
    #[serde(rename = "systemPayload", skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Box<RawValue>>,
}

impl<'a> ContentOut<'a> {
    /// Content that the program does not send.
    pub(super) fn own() -> Self {
        ContentOut {
            subtype: Some(OWN),
            ..ContentOut::default()
        }
    }

    pub(super) fn system(subtype: &'a str, payload: String) -> Result<Self> {
        Ok(ContentOut {
            subtype: Some(subtype),
            payload: Some(raw(payload)?),
            ..ContentOut::default()
        })
    }
}

/// A line with an annotation, which is not part of the chain.
#[derive(Serialize)]
pub(super) struct NoteOut<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) timestamp: String,
    pub(super) note: Box<RawValue>,
    pub(super) annals: ExtensionOut<'a>,
}

/// Encodes the parts of a message; `None` if the program has none for these blocks.
pub(super) fn parts_json(blocks: &[Block]) -> Result<Option<String>> {
    let mut parts = Vec::new();
    for block in blocks {
        let quote = |text: &str| json::quote(text);
        parts.push(match block {
            Block::Text(text) => format!(r#"{{"text":{}}}"#, quote(text)),
            Block::Thinking { text, .. } if !text.is_empty() => {
                format!(r#"{{"text":{},"thought":true}}"#, quote(text))
            }
            Block::ToolUse { id, name, input } => format!(
                r#"{{"functionCall":{{"id":{},"name":{},"args":{}}}}}"#,
                quote(id),
                quote(name),
                match one_line(input)? {
                    object if object.starts_with('{') => object,
                    other => format!(r#"{{"input":{other}}}"#),
                }
            ),
            Block::Image { media_type, data } => format!(
                r#"{{"inlineData":{{"mimeType":{},"data":{}}}}}"#,
                quote(media_type),
                quote(data)
            ),
            Block::Thinking { .. } | Block::ToolResult { .. } | Block::Opaque { .. } => continue,
        });
    }
    let is_sent = blocks.iter().any(|block| {
        !matches!(
            block,
            Block::Thinking { .. } | Block::ToolResult { .. } | Block::Opaque { .. }
        )
    });
    Ok(is_sent.then(|| format!("[{}]", parts.join(","))))
}

/// Encodes the tokens of a response.
pub(super) fn usage_metadata(usage: &Usage) -> Result<Box<RawValue>> {
    let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
    let input = [usage.input, usage.cache_read, written];
    let input = input.into_iter().fold(0, u64::saturating_add);
    raw(format!(
        r#"{{"promptTokenCount":{input},"candidatesTokenCount":{},"thoughtsTokenCount":0,"totalTokenCount":{},"cachedContentTokenCount":{}}}"#,
        usage.output,
        input.saturating_add(usage.output),
        usage.cache_read
    ))
}

/// Returns the texts of blocks, one paragraph each.
pub(super) fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

pub(super) fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::refused(error.to_string()))
}
