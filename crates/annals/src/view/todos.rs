//! Todo lists as JSON.

use annals_layouts::model::Todo;
use serde::{Serialize, Serializer};

/// Todo lists by agent, as one object in the order of the agents.
#[derive(Debug)]
pub struct TodosJson<'a>(pub &'a [(String, Vec<Todo>)]);

impl Serialize for TodosJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(agent, todos)| (agent, todos)))
    }
}
