//! Todos.

use serde::{Deserialize, Serialize};

/// A todo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Todo {
    /// The task.
    pub content: String,
    /// The status.
    pub status: TodoStatus,
    /// Its priority, in the layout's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// The text to show while it is in progress.
    #[serde(
        default,
        rename = "activeForm",
        skip_serializing_if = "Option::is_none"
    )]
    pub active_form: Option<String>,
    /// Its id, if the layout has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Todo {
    /// Creates a todo that has not been started.
    pub fn pending(content: impl Into<String>) -> Self {
        Todo {
            content: content.into(),
            status: TodoStatus::Pending,
            priority: None,
            active_form: None,
            id: None,
        }
    }
}

/// The status of a todo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
    /// Cancelled, or an unknown status.
    #[serde(other)]
    Other,
}
