//! Todos.

use serde::{Deserialize, Serialize};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// Its priority, in the layout's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// What to show while it is being done.
    #[serde(
        default,
        rename = "activeForm",
        skip_serializing_if = "Option::is_none"
    )]
    pub active_form: Option<String>,
    /// Its id, where the layout gives it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Todo {
    /// A todo that has not been started.
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

/// How far a todo is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
    /// Given up, or a status that is not understood.
    #[serde(other)]
    Other,
}
