//! The actions of `annals todos`.

use std::collections::BTreeMap;
use std::path::Path;

use annals::Subject;
use annals::layout::Spawn;
use annals::model::{AgentId, ArtifactKind, Todo, TodoStatus};
use annals::store::{SessionFiles, SessionWriter, WriteOptions};
use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;

use super::todos::{self, TodoList, TodosJson};
use super::{Outcome, choose, input};
use crate::context::Context;
use annals::view::ShortIds;

/// An action on todos.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List todos, as without an action
    List(todos::ListArgs),
    #[command(flatten)]
    Change(Change),
}

/// A change of a session's todos.
#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// Add todos at the end
    #[command(after_help = "\
Examples:
  annals todos add 8c549c46 'Write the changelog' 'Tag the release'
  annals todos add 8c549c46 --priority high 'Fix the build'
  annals todos add 8c549c46 -- '-v prints more'    text that begins with a dash")]
    Add {
        /// The session; if missing on a terminal, choose one
        session: Option<String>,
        /// Add to the list of this sub-agent, which is created if it does not exist
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Text of the todos, one per argument; if missing on a terminal, type one
        text: Vec<String>,
        /// Priority of the todos
        #[arg(long, value_name = "PRIORITY")]
        priority: Option<Priority>,
    },
    /// Mark todos as in progress
    Start {
        #[command(flatten)]
        list: ListArgs,
        /// Their numbers
        #[arg(required = true)]
        number: Vec<usize>,
    },
    /// Mark todos as done
    Done {
        #[command(flatten)]
        list: ListArgs,
        /// Their numbers
        #[arg(required = true)]
        number: Vec<usize>,
    },
    /// Remove todos
    Remove {
        #[command(flatten)]
        list: ListArgs,
        /// Their numbers
        #[arg(required = true)]
        number: Vec<usize>,
    },
    /// Empty the list
    Clear {
        #[command(flatten)]
        list: ListArgs,
    },
    /// Replace the list
    #[command(after_help = "\
Example:
  echo '[{\"content\": \"Ship it\", \"status\": \"pending\"}]' |
    annals todos set 8c549c46 -")]
    Set {
        #[command(flatten)]
        list: ListArgs,
        /// `-`: a JSON array of {content, status, priority, activeForm} on standard input
        #[arg(value_name = "-")]
        source: String,
    },
}

/// The list to change.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The session
    session: String,
    /// Change the list of this sub-agent, which is created if it does not exist
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

impl Change {
    /// Returns the session and the sub-agent whose list changes.
    fn target(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Change::Add { session, agent, .. } => (session.as_deref(), agent.as_deref()),
            Change::Start { list, .. }
            | Change::Done { list, .. }
            | Change::Remove { list, .. }
            | Change::Clear { list }
            | Change::Set { list, .. } => (Some(&list.session), list.agent.as_deref()),
        }
    }
}

/// Priority of a todo.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Priority {
    Low,
    Medium,
    High,
}

impl Priority {
    fn name(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Medium => "medium",
            Priority::High => "high",
        }
    }
}

pub(crate) fn run(action: &Change, context: &mut Context) -> Result<Outcome> {
    let set = match action {
        Change::Set { source, .. } => Some(parse_todos(source)?),
        _ => None,
    };
    let (session, agent) = action.target();
    let session = choose::session(session, context)?;
    let typed = match action {
        Change::Add { text, .. } if text.is_empty() => Some(choose::text(None, "todo", context)?),
        _ => None,
    };
    let files = context.find_session(&session)?;
    let agent = find_agent(&files, agent)?;
    if files
        .attachments
        .iter()
        .any(|file| file.artifact.kind == ArtifactKind::Task)
        && agent.is_none()
    {
        bail!(
            "session {} has a task list of its agent, which annals can only read",
            files.id
        );
    }
    let session = open_writer(context, &files, agent.as_ref())?;
    let list = session.edit_todos(|path, document, list| {
        let list = match action {
            Change::Clear { .. } => Vec::new(),
            Change::Set { .. } => set.clone().unwrap_or_default(),
            action => {
                refuse_unknown_members(path, document)?;
                apply_action(action, typed.as_deref(), list)?
            }
        };
        Ok::<_, anyhow::Error>(list)
    })?;
    let owner = agent.map_or_else(|| files.id.to_string(), |agent| agent.to_string());
    let lists = [TodoList::new(&files, None, owner, list)];
    if context.json {
        context.out.json(&TodosJson::new(&lists))?;
    } else {
        todos::print_lists(
            context,
            &lists,
            &ShortIds::new([files.id.as_str()].into_iter()),
        )?;
    }
    Ok(Outcome::Written)
}

/// Finds the sub-agent by a prefix of its id, or takes the id of a new one.
fn find_agent(files: &SessionFiles, wanted: Option<&str>) -> Result<Option<AgentId>> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let mut found: Vec<AgentId> = files
        .files()
        .filter_map(|file| file.artifact.agent.clone())
        .filter(|agent| agent.as_str() != files.id.as_str() && agent.as_str().starts_with(wanted))
        .collect();
    found.sort();
    found.dedup();
    if let Some(exact) = found.iter().find(|agent| agent.as_str() == wanted) {
        return Ok(Some(exact.clone()));
    }
    match found.as_slice() {
        // A new sub-agent, which is created with its list.
        [] => Ok(Some(AgentId::new(wanted)?)),
        [only] => Ok(Some(only.clone())),
        many => {
            let candidates = many.iter().map(ToString::to_string).collect();
            let id = wanted.to_owned();
            Err(annals::Error::Ambiguous {
                what: Subject::SubAgent,
                id,
                candidates,
            }
            .into())
        }
    }
}

/// Applies an action to a list.
fn apply_action(action: &Change, typed: Option<&str>, mut list: Vec<Todo>) -> Result<Vec<Todo>> {
    match action {
        Change::Add { text, priority, .. } => {
            for text in text.iter().map(String::as_str).chain(typed) {
                let mut todo = Todo::pending(input::non_empty(text, "todo")?.trim());
                todo.priority = priority.map(|priority| priority.name().to_owned());
                list.push(todo);
            }
        }
        Change::Start { number, .. } => set_status(&mut list, number, TodoStatus::InProgress)?,
        Change::Done { number, .. } => set_status(&mut list, number, TodoStatus::Completed)?,
        Change::Remove { number, .. } => {
            check_numbers(&list, number)?;
            let mut at = 0;
            list.retain(|_| {
                at += 1;
                !number.contains(&at)
            });
        }
        Change::Clear { .. } | Change::Set { .. } => {}
    }
    Ok(list)
}

/// Refuses unknown members and statuses, which would be lost when the list is rewritten.
fn refuse_unknown_members(path: &Path, document: &[u8]) -> Result<()> {
    type Items = Vec<BTreeMap<String, serde_json::Value>>;
    /// A list with the session that it belongs to, as Qwen Code stores it.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NamedList {
        todos: Items,
        #[serde(rename = "sessionId")]
        _session: Option<String>,
    }
    // annals writes the last one, to lists of Qwen Code.
    const KNOWN_MEMBERS: [&str; 6] = [
        "content",
        "status",
        "priority",
        "activeForm",
        "id",
        "annals",
    ];
    let named = serde_json::from_slice::<NamedList>(document);
    let items = match named {
        Ok(list) => Some(list.todos),
        Err(_) => serde_json::from_slice::<Items>(document).ok(),
    };
    let strange = match &items {
        None if document.trim_ascii().is_empty() => None,
        None => Some("something that is not a list of todos".to_owned()),
        Some(items) => items.iter().find_map(|item| {
            let member = item
                .keys()
                .find(|key| !KNOWN_MEMBERS.contains(&key.as_str()));
            let status = item.get("status").and_then(|status| status.as_str());
            match (member, status) {
                (Some(member), _) => Some(format!("the member `{}`", member.escape_debug())),
                (_, Some("pending" | "in_progress" | "completed")) => None,
                (_, status) => Some(format!(
                    "the status `{}`",
                    status.unwrap_or("(none)").escape_debug()
                )),
            }
        }),
    };
    match strange {
        Some(what) => bail!(
            "{} holds {what}, which would be lost; `annals todos set SESSION -` replaces the whole list",
            path.display()
        ),
        None => Ok(()),
    }
}

fn open_writer(
    context: &Context,
    files: &SessionFiles,
    agent: Option<&AgentId>,
) -> Result<SessionWriter> {
    // Todos are not in the log, so another program may write to the log meanwhile.
    let options = WriteOptions {
        live: true,
        ..context.write_options()
    };
    Ok(match agent {
        Some(agent) => {
            let spawn = Spawn::new(agent.clone(), "", "");
            SessionWriter::open_or_spawn_agent(&context.store, files, &spawn, options)?.0
        }
        None => context.store.open_writer(files, options)?,
    })
}

fn set_status(list: &mut [Todo], numbers: &[usize], status: TodoStatus) -> Result<()> {
    check_numbers(list, numbers)?;
    for number in numbers {
        if let Some(todo) = list.get_mut(number - 1) {
            todo.status = status;
        }
    }
    Ok(())
}

fn check_numbers(list: &[Todo], numbers: &[usize]) -> Result<()> {
    match numbers
        .iter()
        .find(|number| **number == 0 || **number > list.len())
    {
        Some(number) if list.is_empty() => bail!("there is no todo {number}: the list is empty"),
        Some(number) => bail!(
            "there is no todo {number}; they are numbered 1 to {}",
            list.len()
        ),
        None => Ok(()),
    }
}

fn parse_todos(source: &str) -> Result<Vec<Todo>> {
    if source != "-" {
        bail!("`set` takes `-` and reads a JSON array from standard input");
    }
    let text = input::read_stdin("list")?;
    let list: Vec<Todo> = serde_json::from_str(&text).map_err(|error| {
        let fault = annals::describe_json_error(&error);
        anyhow!(
            "standard input is not a list of todos ([{{\"content\": …, \"status\": \"pending\", \"in_progress\" or \"completed\"}}]): {fault}; nothing was written"
        )
    })?;
    if list.iter().any(|todo| todo.content.trim().is_empty()) {
        bail!("a todo is empty; nothing was written");
    }
    if list.iter().any(|todo| todo.status == TodoStatus::Other) {
        bail!("a status is neither pending, in_progress nor completed; nothing was written");
    }
    Ok(list)
}
